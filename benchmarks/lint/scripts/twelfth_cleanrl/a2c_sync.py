# Synchronous advantage actor-critic with short rollouts. One file, argparse, no framework.
import argparse
import collections
import random

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--env-id", type=str, default="CartPole-v1")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--total-timesteps", type=int, default=400_000)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--num-steps", type=int, default=8, help="length of a rollout")
    parser.add_argument("--learning-rate", type=float, default=7e-4)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--ent-coef", type=float, default=0.01)
    parser.add_argument("--vf-coef", type=float, default=0.25)
    parser.add_argument("--max-grad-norm", type=float, default=0.5)
    return parser.parse_args()


def make_env(env_id, idx, seed):
    def thunk():
        env = gym.make(env_id)
        env = gym.wrappers.RecordEpisodeStatistics(env)
        env.action_space.seed(seed + idx)
        return env

    return thunk


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, n_actions):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
        self.pi = nn.Linear(128, n_actions)
        self.v = nn.Linear(128, 1)

    def forward(self, x):
        h = self.body(x)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def main():
    args = parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    # The default autoreset: the step after an end of episode only resets, its action is thrown away and its reward is 0.
    envs = gym.vector.SyncVectorEnv([make_env(args.env_id, i, args.seed) for i in range(args.num_envs)])
    obs_dim = int(np.prod(envs.single_observation_space.shape))

    net = ActorCritic(obs_dim, envs.single_action_space.n)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=args.learning_rate, alpha=0.99, eps=1e-5)

    recent = collections.deque(maxlen=50)
    obs, _ = envs.reset(seed=args.seed)
    only_resets = np.zeros(args.num_envs, dtype=bool)
    n_updates = args.total_timesteps // (args.num_envs * args.num_steps)

    for update in range(n_updates):
        log_probs, entropies, values = [], [], []
        rewards, ends, alive, stays = [], [], [], []

        for _ in range(args.num_steps):
            dist, value = net(torch.as_tensor(obs, dtype=torch.float32))
            action = dist.sample()
            next_obs, reward, terminated, truncated, infos = envs.step(action.numpy())
            done = np.logical_or(terminated, truncated)

            log_probs.append(dist.log_prob(action))
            entropies.append(dist.entropy())
            values.append(value)
            rewards.append(torch.as_tensor(reward, dtype=torch.float32))
            ends.append(torch.as_tensor(done, dtype=torch.float32))
            alive.append(torch.as_tensor(~terminated, dtype=torch.float32))
            stays.append(torch.as_tensor(~only_resets, dtype=torch.float32))

            if "episode" in infos:
                for ret, there in zip(infos["episode"]["r"], infos["_episode"]):
                    if there:
                        recent.append(ret)

            only_resets = done
            obs = next_obs

        # n-step returns, from the back. At an end, next_values[t] is the value of the real last observation.
        with torch.no_grad():
            _, bootstrap = net(torch.as_tensor(obs, dtype=torch.float32))
        next_values = [v.detach() for v in values[1:]] + [bootstrap]
        targets = [None] * args.num_steps
        running = bootstrap
        for t in reversed(range(args.num_steps)):
            follow = ends[t] * next_values[t] + (1 - ends[t]) * running
            running = rewards[t] + args.gamma * alive[t] * follow
            targets[t] = running

        targets = torch.stack(targets)
        values = torch.stack(values)
        log_probs = torch.stack(log_probs)
        entropies = torch.stack(entropies)
        mask = torch.stack(stays)  # steps that only reset teach nothing

        advantages = targets - values
        policy_loss = -(mask * log_probs * advantages.detach()).sum() / mask.sum()
        value_loss = (mask * advantages.pow(2)).sum() / mask.sum()
        entropy = (mask * entropies).sum() / mask.sum()
        loss = policy_loss + args.vf_coef * value_loss - args.ent_coef * entropy

        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), args.max_grad_norm)
        optimizer.step()

        if update % 250 == 0 and recent:
            steps = (update + 1) * args.num_envs * args.num_steps
            print(f"{steps:>8d} steps | return {np.mean(recent):7.1f} | entropy {entropy.item():.3f} | v {value_loss.item():.3f}")

    envs.close()


if __name__ == "__main__":
    main()
