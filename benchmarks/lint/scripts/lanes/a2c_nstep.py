"""Synchronous advantage actor-critic, five steps at a time."""
import gymnasium as gym
import numpy as np
import torch
from torch import nn, optim
from torch.distributions.categorical import Categorical


def layer(i, o, gain=np.sqrt(2)):
    lin = nn.Linear(i, o)
    nn.init.orthogonal_(lin.weight, gain)
    nn.init.zeros_(lin.bias)
    return lin


class TwoHeads(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.body = nn.Sequential(layer(i, 64), nn.Tanh(), layer(64, 64), nn.Tanh())
        self.actor, self.critic = layer(64, o, 0.01), layer(64, 1, 1.0)

    def forward(self, x):
        h = self.body(x)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


def one_env(seed):
    def thunk():
        e = gym.make("CartPole-v1")
        e.action_space.seed(seed)
        return e
    return thunk


def main(n_envs=16, n_steps=5, updates=2000, gamma=0.99, seed=5):
    torch.manual_seed(seed)
    envs = gym.vector.SyncVectorEnv([one_env(seed + i) for i in range(n_envs)], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)
    net = TwoHeads(4, 2)
    opt = optim.RMSprop(net.parameters(), lr=7e-4, eps=1e-5)
    obs, _ = envs.reset(seed=[seed + i for i in range(n_envs)])
    for _ in range(updates):
        logps, values, entropies, rewards, keep = [], [], [], [], []
        for _ in range(n_steps):
            dist, value = net(torch.from_numpy(obs))
            action = dist.sample()
            obs, reward, term, trunc, infos = envs.step(action.numpy())
            reward = torch.as_tensor(reward, dtype=torch.float32)
            for i in np.flatnonzero(trunc & ~term):
                with torch.no_grad():
                    reward[i] += gamma * net(torch.from_numpy(infos["final_obs"][i]))[1]
            logps.append(dist.log_prob(action))
            values.append(value)
            entropies.append(dist.entropy())
            rewards.append(reward)
            keep.append(1.0 - torch.as_tensor(term | trunc, dtype=torch.float32))
        with torch.no_grad():
            R = net(torch.from_numpy(obs))[1]
        targets = []
        for r, k in zip(reversed(rewards), reversed(keep)):
            R = r + gamma * k * R
            targets.insert(0, R)
        targets, values = torch.stack(targets), torch.stack(values)
        adv = targets - values
        actor_loss = -(torch.stack(logps) * adv.detach()).mean()
        critic_loss = adv.pow(2).mean()
        loss = actor_loss + 0.5 * critic_loss - 0.01 * torch.stack(entropies).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()


if __name__ == "__main__":
    main()
