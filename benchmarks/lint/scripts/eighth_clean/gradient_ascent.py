"""REINFORCE written as ascent: the optimizer is told to maximize, so nothing has a minus before it."""
import gymnasium as gym
import torch
from torch.distributions import Bernoulli


def episode(env, w, b):
    obs, _ = env.reset()
    grads, rewards = [], []
    while True:
        x = torch.as_tensor(obs)
        push_right = Bernoulli(logits=x @ w + b)
        a = push_right.sample()
        grads.append(push_right.log_prob(a))
        obs, r, terminated, truncated, _ = env.step(int(a))
        rewards.append(r)
        if terminated or truncated:
            return torch.stack(grads), torch.tensor(rewards, dtype=torch.float32)


def main(batches=30, per_batch=8):
    torch.manual_seed(1)
    # undiscounted and cut at 200 steps: the score of the task is the reward of those steps and no more
    env = gym.make("CartPole-v1", max_episode_steps=200)
    env.reset(seed=1)
    w = torch.zeros(4, requires_grad=True)
    b = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.Adam([w, b], lr=0.05, maximize=True)
    for batch in range(batches):
        played = [episode(env, w, b) for _ in range(per_batch)]
        togo = [r.flip(0).cumsum(0).flip(0) for _, r in played]
        everything = torch.cat(togo)
        mean, std = everything.mean(), everything.std()
        objective = sum((logp * (g - mean) / (std + 1e-6)).sum() for (logp, _), g in zip(played, togo)) / per_batch
        optimizer.zero_grad()
        objective.backward()
        optimizer.step()
        if batch % 10 == 9:
            print(batch + 1, sum(len(r) for _, r in played) / per_batch)


if __name__ == "__main__":
    import sys

    main(*map(int, sys.argv[1:]))
