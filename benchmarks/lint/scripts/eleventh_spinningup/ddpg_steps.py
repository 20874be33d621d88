"""DDPG after Spinning Up, with the noise falling over the run and a callback for evaluation."""
import argparse
import copy
import gymnasium as gym
import numpy as np
import torch
from torch import nn, optim


class Actor(nn.Module):
    def __init__(self, n_obs, n_act, limit, width=256):
        super().__init__()
        self.seq = nn.Sequential(nn.Linear(n_obs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, n_act), nn.Tanh())
        self.limit = limit

    def forward(self, o):
        return self.limit * self.seq(o)


class Critic(nn.Module):
    def __init__(self, n_obs, n_act, width=256):
        super().__init__()
        self.seq = nn.Sequential(nn.Linear(n_obs + n_act, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, o, a):
        return self.seq(torch.cat((o, a), -1)).squeeze(-1)


class Experience:
    def __init__(self, n_obs, n_act, limit):
        self.o = np.empty((limit, n_obs), np.float32)
        self.a = np.empty((limit, n_act), np.float32)
        self.r = np.empty(limit, np.float32)
        self.p = np.empty((limit, n_obs), np.float32)
        self.d = np.empty(limit, np.float32)
        self.limit = limit
        self.total = 0

    def keep(self, o, a, r, p, d):
        i = self.total % self.limit
        self.o[i], self.a[i], self.r[i], self.p[i], self.d[i] = o, a, r, p, d
        self.total += 1

    def some(self, n):
        i = np.random.randint(min(self.total, self.limit), size=n)
        return tuple(torch.from_numpy(x[i]) for x in (self.o, self.a, self.r, self.p, self.d))


def critic_loss(nets, targets, batch, gamma):
    o, a, r, p, d = batch
    with torch.no_grad():
        bootstrap = targets['q'](p, targets['pi'](p))
        y = r + gamma * (1.0 - d) * bootstrap
    return (nets['q'](o, a) - y).square().mean()


def actor_loss(nets, batch):
    o = batch[0]
    return -nets['q'](o, nets['pi'](o)).mean()


def blend(targets, nets, rho):
    with torch.no_grad():
        for name in nets:
            for t, n in zip(targets[name].parameters(), nets[name].parameters()):
                t.copy_(rho * t + (1 - rho) * n)


def noise_at(step, total, first, last):
    return last + (first - last) * max(0.0, 1.0 - step / total)


def mean_return(env, pi, episodes):
    out = []
    for k in range(episodes):
        o, _ = env.reset(seed=k)
        ret, over = 0.0, False
        while not over:
            with torch.no_grad():
                a = pi(torch.as_tensor(o, dtype=torch.float32)).numpy()
            o, r, terminated, truncated, _ = env.step(a)
            ret += r
            over = terminated or truncated
        out.append(ret)
    return np.mean(out)


def ddpg(make_env, total=200_000, gamma=0.99, rho=0.995, pi_lr=1e-3, q_lr=1e-3, batch_size=128, random_until=5_000, noise=(0.3, 0.05),
         memory=200_000, eval_every=5_000, seed=0):
    torch.manual_seed(seed)
    np.random.seed(seed)
    env, eval_env = make_env(), make_env()
    n_obs, n_act = env.observation_space.shape[0], env.action_space.shape[0]
    limit = float(env.action_space.high[0])
    nets = {'pi': Actor(n_obs, n_act, limit), 'q': Critic(n_obs, n_act)}
    targets = {name: copy.deepcopy(net) for name, net in nets.items()}
    pi_opt = optim.Adam(nets['pi'].parameters(), lr=pi_lr)
    q_opt = optim.Adam(nets['q'].parameters(), lr=q_lr)
    experience = Experience(n_obs, n_act, memory)

    env.action_space.seed(seed)
    o, _ = env.reset(seed=seed)
    for step in range(total):
        if step < random_until:
            a = env.action_space.sample()
        else:
            with torch.no_grad():
                a = nets['pi'](torch.as_tensor(o, dtype=torch.float32)).numpy()
            a = a + limit * noise_at(step, total, *noise) * np.random.randn(n_act)
            a = np.clip(a, -limit, limit)
        p, r, terminated, truncated, _ = env.step(a)
        experience.keep(o, a, r, p, terminated)
        o = p
        if terminated or truncated:
            o, _ = env.reset()

        if step >= random_until:
            batch = experience.some(batch_size)
            q_opt.zero_grad()
            lq = critic_loss(nets, targets, batch, gamma)
            lq.backward()
            q_opt.step()

            pi_opt.zero_grad()
            lp = actor_loss(nets, batch)
            lp.backward()
            pi_opt.step()
            blend(targets, nets, rho)
        if (step + 1) % eval_every == 0:
            print(step + 1, mean_return(eval_env, nets['pi'], 5))
    return nets


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--env', default='Pendulum-v1')
    parser.add_argument('--total', type=int, default=30_000)
    parser.add_argument('--random-until', type=int, default=2_000)
    args = parser.parse_args()
    ddpg(lambda: gym.make(args.env), total=args.total, random_until=args.random_until)
