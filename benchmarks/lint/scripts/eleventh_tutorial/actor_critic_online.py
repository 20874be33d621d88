"""One-step actor-critic (Sutton & Barto, 13.5), two networks, updated after every step. CartPole."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

GAMMA = 0.99
LR_ACTOR = 3e-4
LR_CRITIC = 1e-3
N_EPISODES = 800
SOLVED = 450


class Actor(nn.Module):
    def __init__(self, state_size, action_size):
        super().__init__()
        self.linear1 = nn.Linear(state_size, 128)
        self.linear2 = nn.Linear(128, action_size)

    def forward(self, state):
        hidden = F.relu(self.linear1(state))
        return F.log_softmax(self.linear2(hidden), dim=-1)


class Critic(nn.Module):
    def __init__(self, state_size):
        super().__init__()
        self.linear1 = nn.Linear(state_size, 128)
        self.linear2 = nn.Linear(128, 1)

    def forward(self, state):
        return self.linear2(F.relu(self.linear1(state))).squeeze(-1)


def to_tensor(state):
    return torch.tensor(state, dtype=torch.float32)


def watch(env, actor):
    """One greedy episode."""
    state, _ = env.reset()
    total, over = 0.0, False
    with torch.no_grad():
        while not over:
            state, reward, terminated, truncated, _ = env.step(actor(to_tensor(state)).argmax().item())
            total += reward
            over = terminated or truncated
    return total


def main():
    torch.manual_seed(10)
    env, watch_env = gym.make("CartPole-v1"), gym.make("CartPole-v1")
    state_size, action_size = env.observation_space.shape[0], env.action_space.n
    actor, critic = Actor(state_size, action_size), Critic(state_size)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=LR_ACTOR)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=LR_CRITIC)
    env.reset(seed=10)
    scores = []
    for episode in range(N_EPISODES):
        state, _ = env.reset()
        discount, score, over = 1.0, 0.0, False
        while not over:
            log_probs = actor(to_tensor(state))
            action = torch.multinomial(log_probs.exp(), 1).item()
            next_state, reward, terminated, truncated, _ = env.step(action)

            value = critic(to_tensor(state))
            with torch.no_grad():
                next_value = critic(to_tensor(next_state)) * (not terminated)
            target = reward + GAMMA * next_value
            td_error = target - value

            critic_loss = td_error.pow(2)
            critic_optimizer.zero_grad()
            critic_loss.backward()
            critic_optimizer.step()

            actor_loss = -discount * td_error.detach() * log_probs[action]
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()

            discount *= GAMMA
            state = next_state
            score += reward
            over = terminated or truncated
        scores.append(score)
        if episode % 20 == 19:
            average = np.mean(scores[-20:])
            print(f"{episode + 1}: average {average:.1f}, greedy {watch(watch_env, actor):.0f}")
            if average > SOLVED:
                break


if __name__ == "__main__":
    main()
