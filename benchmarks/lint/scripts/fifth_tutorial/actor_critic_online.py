"""Online one-step actor-critic on Acrobot / CartPole. Companion code to a blog post."""
import argparse
from itertools import count

import gymnasium as gym
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

parser = argparse.ArgumentParser(description="one-step actor-critic")
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--lr", type=float, default=5e-4)
parser.add_argument("--critic-lr", type=float, default=2e-3)
parser.add_argument("--beta", type=float, default=0.01, help="entropy bonus")
parser.add_argument("--episodes", type=int, default=800)
parser.add_argument("--seed", type=int, default=543)
parser.add_argument("--log-interval", type=int, default=20)
args = parser.parse_args()

torch.manual_seed(args.seed)
env = gym.make(args.env)


class Policy(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.affine1 = nn.Linear(n_in, 128)
        self.affine2 = nn.Linear(128, n_out)

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.log_softmax(self.affine2(x), dim=-1)


class Value(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.affine1 = nn.Linear(n_in, 128)
        self.affine2 = nn.Linear(128, 1)

    def forward(self, x):
        return self.affine2(F.relu(self.affine1(x))).squeeze(-1)


actor = Policy(env.observation_space.shape[0], env.action_space.n)
critic = Value(env.observation_space.shape[0])
actor_optimizer = optim.Adam(actor.parameters(), lr=args.lr)
critic_optimizer = optim.Adam(critic.parameters(), lr=args.critic_lr)


def to_tensor(obs):
    return torch.as_tensor(obs, dtype=torch.float32)


def learn(state, action, reward, next_state, terminated):
    # critic: move V(s) towards r + gamma V(s')
    v = critic(state)
    with torch.no_grad():
        v_next = critic(next_state)
        td_target = reward + args.gamma * v_next * (1.0 - float(terminated))
    critic_loss = F.smooth_l1_loss(v, td_target)
    critic_optimizer.zero_grad()
    critic_loss.backward()
    critic_optimizer.step()

    # actor: make actions that did better than expected more likely
    delta = (td_target - v).detach()
    dist = Categorical(logits=actor(state))
    actor_loss = -dist.log_prob(action) * delta - args.beta * dist.entropy()
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()
    return critic_loss.item(), actor_loss.item()


def main():
    running_reward = None
    for i_episode in range(1, args.episodes + 1):
        obs, _ = env.reset(seed=args.seed) if i_episode == 1 else env.reset()
        state = to_tensor(obs)
        ep_reward = 0.0
        for t in count(1):
            with torch.no_grad():
                action = Categorical(logits=actor(state)).sample()
            obs, reward, terminated, truncated, _ = env.step(action.item())
            next_state = to_tensor(obs)
            learn(state, action, reward, next_state, terminated)
            ep_reward += reward
            state = next_state
            if terminated or truncated:
                break

        running_reward = ep_reward if running_reward is None else 0.05 * ep_reward + 0.95 * running_reward
        if i_episode % args.log_interval == 0:
            print(f"Episode {i_episode}\tlength {t}\tlast {ep_reward:.1f}\taverage {running_reward:.1f}")
        if env.spec.reward_threshold is not None and running_reward > env.spec.reward_threshold:
            print(f"Solved! Running reward is now {running_reward:.1f}")
            break

    # how good is the most likely action?
    test_env = gym.make(args.env)
    total = 0.0
    for k in range(5):
        obs, _ = test_env.reset(seed=10_000 + k)
        over = False
        while not over:
            with torch.no_grad():
                best = actor(to_tensor(obs)).argmax().item()
            obs, reward, terminated, truncated, _ = test_env.step(best)
            total += reward
            over = terminated or truncated
    print("test:", total / 5)


if __name__ == "__main__":
    main()
