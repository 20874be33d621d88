import sys

import gymnasium as gym
import numpy as np
import torch as T
import torch.nn as nn
import torch.optim as optim
from torch.distributions.categorical import Categorical


class PPOMemory:
    def __init__(self, batch_size):
        self.batch_size = batch_size
        self.clear_memory()

    def generate_batches(self):
        n_states = len(self.states)
        indices = np.arange(n_states)
        np.random.shuffle(indices)
        return [indices[i:i + self.batch_size] for i in range(0, n_states, self.batch_size)]

    def arrays(self):
        return (np.array(self.states, dtype=np.float32), np.array(self.actions), np.array(self.probs, dtype=np.float32),
                np.array(self.vals, dtype=np.float32), np.array(self.next_vals, dtype=np.float32),
                np.array(self.rewards, dtype=np.float32), np.array(self.ends, dtype=np.float32))

    def store_memory(self, state, action, probs, vals, next_vals, reward, end):
        self.states.append(state)
        self.actions.append(action)
        self.probs.append(probs)
        self.vals.append(vals)
        self.next_vals.append(next_vals)
        self.rewards.append(reward)
        self.ends.append(end)

    def clear_memory(self):
        self.states, self.actions, self.probs = [], [], []
        self.vals, self.next_vals, self.rewards, self.ends = [], [], [], []


class ActorNetwork(nn.Module):
    def __init__(self, n_actions, input_dims, alpha, fc_dims=128):
        super().__init__()
        self.actor = nn.Sequential(
            nn.Linear(input_dims, fc_dims), nn.ReLU(),
            nn.Linear(fc_dims, fc_dims), nn.ReLU(),
            nn.Linear(fc_dims, n_actions), nn.Softmax(dim=-1),
        )
        self.optimizer = optim.Adam(self.parameters(), lr=alpha)

    def forward(self, state):
        return Categorical(self.actor(state))


class CriticNetwork(nn.Module):
    def __init__(self, input_dims, alpha, fc_dims=128):
        super().__init__()
        self.critic = nn.Sequential(
            nn.Linear(input_dims, fc_dims), nn.ReLU(),
            nn.Linear(fc_dims, fc_dims), nn.ReLU(),
            nn.Linear(fc_dims, 1),
        )
        self.optimizer = optim.Adam(self.parameters(), lr=alpha)

    def forward(self, state):
        return self.critic(state)


class Agent:
    def __init__(self, n_actions, input_dims, gamma=0.99, alpha=0.0003, gae_lambda=0.95,
                 policy_clip=0.2, batch_size=64, n_epochs=10):
        self.gamma = gamma
        self.policy_clip = policy_clip
        self.n_epochs = n_epochs
        self.gae_lambda = gae_lambda
        self.actor = ActorNetwork(n_actions, input_dims, alpha)
        self.critic = CriticNetwork(input_dims, alpha)
        self.memory = PPOMemory(batch_size)

    def remember(self, state, action, probs, vals, state_, reward, terminated, truncated):
        next_val = 0.0 if terminated else self.value(state_)
        self.memory.store_memory(state, action, probs, vals, next_val, reward, terminated or truncated)

    def value(self, observation):
        with T.no_grad():
            return self.critic(T.tensor(observation, dtype=T.float)).item()

    def choose_action(self, observation):
        state = T.tensor(observation, dtype=T.float)
        with T.no_grad():
            dist = self.actor(state)
            action = dist.sample()
            probs = dist.log_prob(action).item()
            value = self.critic(state).item()
        return action.item(), probs, value

    def learn(self):
        states_arr, action_arr, old_prob_arr, vals_arr, next_vals_arr, reward_arr, end_arr = self.memory.arrays()

        advantage = np.zeros(len(reward_arr), dtype=np.float32)
        running = 0.0
        for t in reversed(range(len(reward_arr))):
            delta = reward_arr[t] + self.gamma * next_vals_arr[t] - vals_arr[t]
            running = delta + self.gamma * self.gae_lambda * (1 - end_arr[t]) * running
            advantage[t] = running
        returns = T.tensor(advantage + vals_arr)
        advantage = T.tensor(advantage)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)

        for _ in range(self.n_epochs):
            for batch in self.memory.generate_batches():
                states = T.tensor(states_arr[batch])
                old_probs = T.tensor(old_prob_arr[batch])
                actions = T.tensor(action_arr[batch])

                dist = self.actor(states)
                critic_value = self.critic(states).squeeze(-1)
                new_probs = dist.log_prob(actions)
                prob_ratio = new_probs.exp() / old_probs.exp()
                weighted_probs = advantage[batch] * prob_ratio
                weighted_clipped_probs = T.clamp(prob_ratio, 1 - self.policy_clip,
                                                 1 + self.policy_clip) * advantage[batch]
                actor_loss = -T.min(weighted_probs, weighted_clipped_probs).mean()
                critic_loss = (returns[batch] - critic_value).pow(2).mean()
                total_loss = actor_loss + 0.5 * critic_loss

                self.actor.optimizer.zero_grad()
                self.critic.optimizer.zero_grad()
                total_loss.backward()
                self.actor.optimizer.step()
                self.critic.optimizer.step()

        self.memory.clear_memory()


if __name__ == "__main__":
    n_games = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    np.random.seed(0)
    T.manual_seed(0)
    env = gym.make("CartPole-v1")
    N = 1024
    agent = Agent(n_actions=int(env.action_space.n), input_dims=env.observation_space.shape[0])

    score_history = []
    best_score = -np.inf
    learn_iters = 0
    n_steps = 0
    for i in range(n_games):
        observation, _ = env.reset(seed=0) if i == 0 else env.reset()
        done = False
        score = 0
        while not done:
            action, prob, val = agent.choose_action(observation)
            observation_, reward, terminated, truncated, info = env.step(action)
            done = terminated or truncated
            n_steps += 1
            score += reward
            agent.remember(observation, action, prob, val, observation_, reward, terminated, truncated)
            observation = observation_
            if n_steps % N == 0:
                # next values are stored with every step, so a rollout may stop anywhere;
                # an episode cut here goes on in the next rollout
                agent.learn()
                learn_iters += 1
        score_history.append(score)
        avg_score = np.mean(score_history[-100:])
        if avg_score > best_score:
            best_score = avg_score
        if i % 20 == 0:
            print("episode", i, "score %.1f" % score, "avg %.1f" % avg_score,
                  "best avg %.1f" % best_score, "learning steps", learn_iters)
