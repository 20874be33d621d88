import numpy as np
import scipy.signal
import torch
import torch.nn as nn
import gymnasium as gym
from torch.distributions import Categorical, Independent, Normal


def count_vars(module):
    return sum(np.prod(p.shape) for p in module.parameters())


def discounted(x, factor):
    return scipy.signal.lfilter([1.0], [1.0, -factor], x[::-1])[::-1]


def build_mlp(inp, out, hidden=(64, 32)):
    layers, last = [], inp
    for h in hidden:
        layers += [nn.Linear(last, h), nn.Tanh()]
        last = h
    return nn.Sequential(*layers, nn.Linear(last, out))


class Policy(nn.Module):
    """Categorical for Discrete, diagonal Gaussian for Box."""

    def __init__(self, obs_space, act_space):
        super().__init__()
        self.discrete = isinstance(act_space, gym.spaces.Discrete)
        n = act_space.n if self.discrete else act_space.shape[0]
        self.net = build_mlp(obs_space.shape[0], n)
        if not self.discrete:
            self.log_std = nn.Parameter(-0.5 * torch.ones(n))

    def forward(self, obs):
        out = self.net(obs)
        return Categorical(logits=out) if self.discrete else Independent(Normal(out, self.log_std.exp()), 1)


class Paths:
    """Whole and cut-off paths of one epoch."""

    def __init__(self, gamma, lam):
        self.gamma, self.lam = gamma, lam
        self.obs, self.act, self.adv, self.ret = [], [], [], []
        self._rew, self._val = [], []

    def add(self, obs, act, rew, val):
        self.obs.append(obs)
        self.act.append(act)
        self._rew.append(rew)
        self._val.append(val)

    def close(self, bootstrap):
        rew = np.array(self._rew + [bootstrap])
        val = np.array(self._val + [bootstrap])
        delta = rew[:-1] + self.gamma * val[1:] - val[:-1]
        self.adv.extend(discounted(delta, self.gamma * self.lam))
        self.ret.extend(discounted(rew, self.gamma)[:-1])
        self._rew, self._val = [], []

    def tensors(self):
        obs = torch.as_tensor(np.array(self.obs), dtype=torch.float32)
        act = torch.as_tensor(np.array(self.act))
        adv = torch.as_tensor(np.array(self.adv), dtype=torch.float32)
        ret = torch.as_tensor(np.array(self.ret), dtype=torch.float32)
        return obs, act, (adv - adv.mean()) / (adv.std() + 1e-8), ret


def a2c(env, seed=0, epochs=60, steps=2000, gamma=0.99, lam=0.97, pi_lr=3e-3, v_lr=3e-3, v_iters=40, entropy_coef=0.0):
    torch.manual_seed(seed)
    np.random.seed(seed)
    pi = Policy(env.observation_space, env.action_space)
    v = build_mlp(env.observation_space.shape[0], 1)
    print('parameters', count_vars(pi), count_vars(v))
    pi_opt = torch.optim.Adam(pi.parameters(), pi_lr)
    v_opt = torch.optim.Adam(v.parameters(), v_lr)

    def look(obs):
        with torch.no_grad():
            x = torch.as_tensor(obs, dtype=torch.float32)
            return pi(x).sample().numpy(), v(x).item()

    obs, _ = env.reset(seed=seed)
    for epoch in range(epochs):
        paths, scores, score = Paths(gamma, lam), [], 0.0
        for t in range(steps):
            act, val = look(obs)
            obs2, rew, terminated, truncated, _ = env.step(act)
            paths.add(obs, act, rew, val)
            score += rew
            obs = obs2
            last = t == steps - 1
            if terminated or truncated or last:
                paths.close(0.0 if terminated else look(obs)[1])
                if terminated or truncated:
                    scores.append(score)
                score = 0.0
                obs, _ = env.reset()

        o, a, adv, ret = paths.tensors()
        dist = pi(o)
        pi_loss = -(dist.log_prob(a) * adv).mean() - entropy_coef * dist.entropy().mean()
        pi_opt.zero_grad()
        pi_loss.backward()
        pi_opt.step()
        for _ in range(v_iters):
            v_loss = (v(o).squeeze(1) - ret).pow(2).mean()
            v_opt.zero_grad()
            v_loss.backward()
            v_opt.step()
        print(epoch, 'return', np.mean(scores) if scores else None, 'value loss', v_loss.item())


if __name__ == '__main__':
    import sys
    a2c(gym.make(sys.argv[1] if len(sys.argv) > 1 else 'CartPole-v1'))
