"""A2C on vector environments that reset on the step after an episode's end: that step is no transition and is masked out."""

import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical

N, T, GAMMA = 4, 16, 0.99
envs = gym.make_vec("CartPole-v1", num_envs=N, vectorization_mode="sync")  # Gymnasium's default: next-step reset
net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 3))
optimizer = torch.optim.RMSprop(net.parameters(), lr=7e-4)


def heads(obs):
    out = net(torch.as_tensor(obs, dtype=torch.float32))
    return Categorical(logits=out[..., :2]), out[..., 2]


obs, _ = envs.reset(seed=0)
resetting = torch.zeros(N, dtype=torch.bool)
for iteration in range(20):
    log_probs, values, next_values, rewards, terminals, ends, real = [], [], [], [], [], [], []
    for _ in range(T):
        pi, value = heads(obs)
        action = pi.sample()
        # where `resetting`, the environment ignores this action, and answers with the first observation and a zero reward
        next_obs, reward, terminated, truncated, _ = envs.step(action.numpy())
        with torch.no_grad():
            next_values.append(heads(next_obs)[1])  # the final observation itself: it is not replaced until the next step
        log_probs.append(pi.log_prob(action))
        values.append(value)
        rewards.append(torch.as_tensor(reward, dtype=torch.float32))
        terminals.append(torch.as_tensor(terminated))
        real.append(~resetting)
        resetting = torch.as_tensor(terminated | truncated)
        ends.append(resetting)
        obs = next_obs

    targets, after = [], next_values[-1]
    for t in range(T - 1, -1, -1):
        # at an end the rest of the return is the final observation's value, or nothing after a terminal state
        rest = torch.where(ends[t], next_values[t], after) * ~terminals[t]
        after = rewards[t] + GAMMA * rest
        targets.append(after)
    targets = torch.stack(targets[::-1])

    weight = torch.stack(real).float()
    error = targets - torch.stack(values)
    policy_loss = -(torch.stack(log_probs) * error.detach() * weight).sum() / weight.sum()
    value_loss = (error.pow(2) * weight).sum() / weight.sum()
    optimizer.zero_grad()
    (policy_loss + 0.5 * value_loss).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    optimizer.step()
envs.close()
