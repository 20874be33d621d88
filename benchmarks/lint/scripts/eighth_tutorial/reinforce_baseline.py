"""REINFORCE with a baseline, step by step.

1. play an episode, 2. compute what each step was worth, 3. make good actions more likely.
"""
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

SEED = 3
EPISODES = 600
GAMMA = 0.99
ENTROPY = 0.01


def build(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, outputs))


def play(env, policy):
    """One episode: the states, the log-probabilities, entropies and rewards, and the state it stopped in if it was only cut short."""
    states, log_probs, entropies, rewards = [], [], [], []
    state, _ = env.reset()
    done = False
    while not done:
        state_t = torch.from_numpy(state).float()
        dist = Categorical(logits=policy(state_t))
        action = dist.sample()
        states.append(state_t)
        log_probs.append(dist.log_prob(action))
        entropies.append(dist.entropy())
        state, reward, terminated, truncated, _ = env.step(action.item())
        rewards.append(float(reward))
        done = terminated or truncated
    cut_at = None if terminated else torch.from_numpy(state).float()
    return torch.stack(states), torch.stack(log_probs), torch.stack(entropies), rewards, cut_at


def returns_of(rewards, tail, gamma=GAMMA):
    g, out = tail, []
    for r in rewards[::-1]:
        g = r + gamma * g
        out.insert(0, g)
    return torch.tensor(out)


def test(env, policy, n=10):
    scores = []
    for k in range(n):
        state, _ = env.reset(seed=1000 + k)
        score, done = 0.0, False
        while not done:
            with torch.no_grad():
                logits = policy(torch.from_numpy(state).float())
            state, reward, terminated, truncated, _ = env.step(int(logits.argmax()))
            score += float(reward)
            done = terminated or truncated
        scores.append(score)
    return np.mean(scores)


def main(episodes=EPISODES):
    torch.manual_seed(SEED)
    env = gym.make("CartPole-v1")
    env.reset(seed=SEED)
    policy = build(4, 2)
    baseline = build(4, 1)
    policy_opt = torch.optim.Adam(policy.parameters(), lr=2e-3)
    baseline_opt = torch.optim.Adam(baseline.parameters(), lr=5e-3)
    history = []

    for episode in range(episodes):
        states, log_probs, entropies, rewards, cut_at = play(env, policy)
        with torch.no_grad():
            tail = 0.0 if cut_at is None else baseline(cut_at).item()
        returns = returns_of(rewards, tail)

        values = baseline(states).squeeze(-1)
        advantages = returns - values.detach()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-6)

        policy_loss = -(log_probs * advantages).sum() - ENTROPY * entropies.sum()
        baseline_loss = nn.functional.mse_loss(values, returns)

        policy_opt.zero_grad()
        baseline_opt.zero_grad()
        (policy_loss + baseline_loss).backward()
        policy_opt.step()
        baseline_opt.step()

        history.append(sum(rewards))
        if (episode + 1) % 50 == 0:
            print(f"episode {episode + 1}: last 50 averaged {np.mean(history[-50:]):.1f}")

    print("greedy test:", test(gym.make("CartPole-v1"), policy))


if __name__ == "__main__":
    import sys

    main(int(sys.argv[1]) if sys.argv[1:] else EPISODES)
