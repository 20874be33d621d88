# REINFORCE with a leave-one-out baseline. The K episodes of a group start in the same state on purpose (same seed): each is
# compared with the others' mean, so the start's luck cancels.
import gymnasium as gym
import numpy as np
import torch

K, ITERATIONS = 8, 150
envs = [gym.make("CartPole-v1") for _ in range(K)]
torch.manual_seed(0)
policy = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)


def play(env, seed):
    obs, _ = env.reset(seed=seed)
    log_prob, score, over = 0.0, 0.0, False
    while not over:
        dist = torch.distributions.Categorical(logits=policy(torch.as_tensor(obs)))
        action = dist.sample()
        log_prob = log_prob + dist.log_prob(action)
        obs, reward, terminated, truncated, _ = env.step(action.item())
        score += reward
        over = terminated or truncated
    return log_prob, score


for group in range(ITERATIONS):
    log_probs, scores = zip(*(play(env, seed=group) for env in envs))
    scores = torch.tensor(scores)
    others = (scores.sum() - scores) / (K - 1)
    advantages = (scores - others) / 100.0
    loss = -(torch.stack(log_probs) * advantages).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if group % 10 == 0:
        print(group, scores.mean().item())
