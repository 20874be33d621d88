"""
Actor-critic in 100 lines
=========================

The network has a shared body and two heads: the *actor* scores the two actions, the *critic* predicts the return.
We play one episode, work out the return of every step, and take one gradient step. Run it with

    python actor_critic_cartpole.py --episodes 800
"""

import argparse
from collections import namedtuple
from itertools import count

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

parser = argparse.ArgumentParser(description="PyTorch actor-critic example")
parser.add_argument("--gamma", type=float, default=0.99, metavar="G", help="discount factor (default: 0.99)")
parser.add_argument("--seed", type=int, default=543, metavar="N")
parser.add_argument("--episodes", type=int, default=2000)
parser.add_argument("--log-interval", type=int, default=10, metavar="N")
args = parser.parse_args()

env = gym.make("CartPole-v1")
torch.manual_seed(args.seed)

SavedAction = namedtuple("SavedAction", ["log_prob", "value", "entropy"])


class Policy(nn.Module):
    """Actor and critic in one network."""

    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 128)
        self.action_head = nn.Linear(128, 2)
        self.value_head = nn.Linear(128, 1)
        # what happened in this episode
        self.saved_actions = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        action_scores = self.action_head(x)
        state_value = self.value_head(x)
        return action_scores, state_value


model = Policy()
optimizer = optim.Adam(model.parameters(), lr=3e-3)
eps = np.finfo(np.float32).eps.item()


def select_action(state):
    action_scores, state_value = model(torch.from_numpy(state).float())
    m = Categorical(logits=action_scores)
    action = m.sample()
    model.saved_actions.append(SavedAction(m.log_prob(action), state_value, m.entropy()))
    return action.item()


def finish_episode(last_value):
    """One gradient step on the whole episode. `last_value` is what the critic expects after a time limit, else 0."""
    R = last_value
    returns = []
    for r in model.rewards[::-1]:
        R = r + args.gamma * R
        returns.insert(0, R)
    returns = torch.tensor(returns)

    log_probs = torch.stack([saved.log_prob for saved in model.saved_actions])
    values = torch.cat([saved.value for saved in model.saved_actions])
    entropies = torch.stack([saved.entropy for saved in model.saved_actions])

    advantages = returns - values.detach()
    advantages = (advantages - advantages.mean()) / (advantages.std() + eps)
    policy_loss = -(log_probs * advantages).mean()
    value_loss = F.smooth_l1_loss(values, returns)

    optimizer.zero_grad()
    loss = policy_loss + 0.5 * value_loss - 0.01 * entropies.mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()

    del model.rewards[:]
    del model.saved_actions[:]


def main():
    running_reward = 10.0
    for i_episode in range(args.episodes):
        state, _ = env.reset(seed=args.seed + i_episode)
        ep_reward = 0.0

        for t in count(1):
            action = select_action(state)
            state, reward, terminated, truncated, _ = env.step(action)
            model.rewards.append(float(reward))
            ep_reward += reward
            if terminated or truncated:
                break

        last_value = 0.0
        if truncated and not terminated:
            with torch.no_grad():
                last_value = model(torch.from_numpy(state).float())[1].item()
        running_reward = 0.05 * ep_reward + (1 - 0.05) * running_reward
        finish_episode(last_value)

        if i_episode % args.log_interval == 0:
            print(f"Episode {i_episode}\tLast reward: {ep_reward:.2f}\tAverage reward: {running_reward:.2f}")
        if running_reward > env.spec.reward_threshold:
            print(f"Solved! Running reward is now {running_reward} and the last episode runs to {t} time steps!")
            break


if __name__ == "__main__":
    main()
