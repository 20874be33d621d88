import torch
import torch.nn as nn
from torch.distributions.categorical import Categorical
from torch.optim import Adam
import numpy as np
import gymnasium as gym
from gymnasium.spaces import Discrete, Box


def mlp(sizes, activation=nn.Tanh, output_activation=nn.Identity):
    layers = []
    for j in range(len(sizes) - 1):
        act = activation if j < len(sizes) - 2 else output_activation
        layers += [nn.Linear(sizes[j], sizes[j + 1]), act()]
    return nn.Sequential(*layers)


def reward_to_go(rews, gamma):
    n = len(rews)
    rtgs = np.zeros(n, dtype=np.float32)
    for i in reversed(range(n)):
        rtgs[i] = rews[i] + (gamma * rtgs[i + 1] if i + 1 < n else 0)
    return rtgs


def train(env_name='CartPole-v1', hidden_sizes=(32,), lr=1e-2, v_lr=1e-2, gamma=0.99, v_iters=20, epochs=50, batch_size=5000):
    env = gym.make(env_name)
    assert isinstance(env.observation_space, Box)
    assert isinstance(env.action_space, Discrete)
    obs_dim = env.observation_space.shape[0]
    n_acts = env.action_space.n

    logits_net = mlp([obs_dim, *hidden_sizes, n_acts])
    value_net = mlp([obs_dim, *hidden_sizes, 1])
    optimizer = Adam(logits_net.parameters(), lr=lr)
    v_optimizer = Adam(value_net.parameters(), lr=v_lr)

    def get_policy(obs):
        return Categorical(logits=logits_net(obs))

    def get_action(obs):
        with torch.no_grad():
            return get_policy(obs).sample().item()

    def compute_loss(obs, act, weights):
        logp = get_policy(obs).log_prob(act)
        return -(logp * weights).mean()

    def train_one_epoch(epoch):
        batch_obs, batch_acts, batch_rtgs = [], [], []
        batch_rets, batch_lens = [], []

        obs, _ = env.reset(seed=epoch)
        ep_rews = []
        while True:
            batch_obs.append(obs.copy())
            act = get_action(torch.as_tensor(obs, dtype=torch.float32))
            obs, rew, terminated, truncated, _ = env.step(act)
            batch_acts.append(act)
            ep_rews.append(rew)

            if terminated or truncated:
                ep_ret, ep_len = sum(ep_rews), len(ep_rews)
                batch_rets.append(ep_ret)
                batch_lens.append(ep_len)
                batch_rtgs += list(reward_to_go(ep_rews, gamma))
                obs, _ = env.reset()
                ep_rews = []
                if len(batch_obs) > batch_size:
                    break

        obs_t = torch.as_tensor(np.array(batch_obs), dtype=torch.float32)
        act_t = torch.as_tensor(batch_acts, dtype=torch.int64)
        rtg_t = torch.as_tensor(np.array(batch_rtgs), dtype=torch.float32)

        with torch.no_grad():
            baseline = value_net(obs_t).squeeze(-1)
            adv = rtg_t - baseline
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)

        optimizer.zero_grad()
        batch_loss = compute_loss(obs=obs_t, act=act_t, weights=adv)
        batch_loss.backward()
        optimizer.step()

        for _ in range(v_iters):
            v_loss = nn.functional.mse_loss(value_net(obs_t).squeeze(-1), rtg_t)
            v_optimizer.zero_grad()
            v_loss.backward()
            v_optimizer.step()
        return batch_loss.item(), v_loss.item(), batch_rets, batch_lens

    for i in range(epochs):
        loss, v_loss, rets, lens = train_one_epoch(i)
        print('epoch: %3d \t loss: %.3f \t v_loss: %.3f \t return: %.3f \t ep_len: %.3f' % (i, loss, v_loss, np.mean(rets), np.mean(lens)))


if __name__ == '__main__':
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument('--env_name', '--env', type=str, default='CartPole-v1')
    parser.add_argument('--lr', type=float, default=1e-2)
    parser.add_argument('--epochs', type=int, default=50)
    parser.add_argument('--batch_size', type=int, default=5000)
    a = parser.parse_args()
    train(env_name=a.env_name, lr=a.lr, epochs=a.epochs, batch_size=a.batch_size)
