import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.distributions.categorical import Categorical
from torch.optim import Adam


def mlp(sizes, activation=nn.Tanh, output_activation=nn.Identity):
    layers = []
    for j in range(len(sizes) - 1):
        act = activation if j < len(sizes) - 2 else output_activation
        layers += [nn.Linear(sizes[j], sizes[j + 1]), act()]
    return nn.Sequential(*layers)


def reward_to_go(rews):
    n = len(rews)
    rtgs = np.zeros_like(rews)
    for i in reversed(range(n)):
        rtgs[i] = rews[i] + (rtgs[i + 1] if i + 1 < n else 0)
    return rtgs


def train(env_name="CartPole-v1", hidden_sizes=(32,), lr=1e-2, epochs=50, batch_size=5000, seed=0):
    torch.manual_seed(seed)
    env = gym.make(env_name)
    logits_net = mlp(sizes=[env.observation_space.shape[0], *hidden_sizes, env.action_space.n])

    def get_policy(obs):
        logits = logits_net(obs)
        return Categorical(logits=logits)

    def get_action(obs):
        return get_policy(obs).sample().item()

    def compute_loss(obs, act, weights):
        logp = get_policy(obs).log_prob(act)
        return -(logp * weights).mean()

    optimizer = Adam(logits_net.parameters(), lr=lr)

    def train_one_epoch():
        batch_obs, batch_acts, batch_weights, batch_rets = [], [], [], []
        obs, _ = env.reset()
        ep_rews = []
        while True:
            batch_obs.append(obs.copy())
            act = get_action(torch.as_tensor(obs, dtype=torch.float32))
            obs, rew, terminated, truncated, _ = env.step(act)
            batch_acts.append(act)
            ep_rews.append(rew)
            if terminated or truncated:
                batch_rets.append(sum(ep_rews))
                batch_weights += list(reward_to_go(ep_rews))
                obs, _ = env.reset()
                ep_rews = []
                if len(batch_obs) > batch_size:
                    break
        optimizer.zero_grad()
        batch_loss = compute_loss(
            obs=torch.as_tensor(np.array(batch_obs), dtype=torch.float32),
            act=torch.as_tensor(batch_acts, dtype=torch.int32),
            weights=torch.as_tensor(np.array(batch_weights), dtype=torch.float32),
        )
        batch_loss.backward()
        optimizer.step()
        return batch_loss, batch_rets

    for i in range(epochs):
        batch_loss, batch_rets = train_one_epoch()
        print(i, batch_loss.item(), np.mean(batch_rets))


if __name__ == "__main__":
    train()
