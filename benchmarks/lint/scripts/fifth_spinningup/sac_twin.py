import itertools
import sys
from copy import deepcopy

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions.normal import Normal
from torch.optim import Adam

LOG_STD_MAX = 2
LOG_STD_MIN = -20


def mlp(sizes, activation=nn.ReLU, output_activation=nn.Identity):
    layers = []
    for j in range(len(sizes) - 1):
        act = activation if j < len(sizes) - 2 else output_activation
        layers += [nn.Linear(sizes[j], sizes[j + 1]), act()]
    return nn.Sequential(*layers)


class SquashedGaussianMLPActor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden_sizes, act_limit):
        super().__init__()
        self.net = mlp([obs_dim] + list(hidden_sizes), output_activation=nn.ReLU)
        self.mu_layer = nn.Linear(hidden_sizes[-1], act_dim)
        self.log_std_layer = nn.Linear(hidden_sizes[-1], act_dim)
        self.act_limit = act_limit

    def forward(self, obs, deterministic=False):
        h = self.net(obs)
        mu = self.mu_layer(h)
        log_std = torch.clamp(self.log_std_layer(h), LOG_STD_MIN, LOG_STD_MAX)
        dist = Normal(mu, torch.exp(log_std))
        u = mu if deterministic else dist.rsample()
        logp = dist.log_prob(u).sum(axis=-1)
        # change of variables for tanh, numerically stable form
        logp -= (2 * (np.log(2) - u - F.softplus(-2 * u))).sum(axis=-1)
        return self.act_limit * torch.tanh(u), logp


class MLPQFunction(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden_sizes):
        super().__init__()
        self.q = mlp([obs_dim + act_dim] + list(hidden_sizes) + [1])

    def forward(self, obs, act):
        return self.q(torch.cat([obs, act], dim=-1)).squeeze(-1)


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, act_dim, act_limit, hidden_sizes=(64, 64)):
        super().__init__()
        self.pi = SquashedGaussianMLPActor(obs_dim, act_dim, hidden_sizes, act_limit)
        self.q1 = MLPQFunction(obs_dim, act_dim, hidden_sizes)
        self.q2 = MLPQFunction(obs_dim, act_dim, hidden_sizes)

    @torch.no_grad()
    def act(self, obs, deterministic=False):
        a, _ = self.pi(torch.as_tensor(obs, dtype=torch.float32), deterministic)
        return a.numpy()


class ReplayBuffer:
    def __init__(self, obs_dim, act_dim, size):
        self.store_ = dict(
            obs=np.zeros((size, obs_dim), np.float32),
            obs2=np.zeros((size, obs_dim), np.float32),
            act=np.zeros((size, act_dim), np.float32),
            rew=np.zeros(size, np.float32),
            done=np.zeros(size, np.float32),
        )
        self.ptr, self.size, self.max_size = 0, 0, size

    def store(self, **transition):
        for k, x in transition.items():
            self.store_[k][self.ptr] = x
        self.ptr = (self.ptr + 1) % self.max_size
        self.size = min(self.size + 1, self.max_size)

    def sample_batch(self, batch_size):
        idx = np.random.randint(0, self.size, size=batch_size)
        return {k: torch.as_tensor(x[idx]) for k, x in self.store_.items()}


def sac(env_name, total_steps=30000, gamma=0.99, polyak=0.995, lr=1e-3, batch_size=128,
        start_steps=2000, update_after=1000, update_every=25, seed=1, eval_every=5000):
    torch.manual_seed(seed)
    np.random.seed(seed)
    env = gym.make(env_name)
    test_env = gym.make(env_name)
    env.action_space.seed(seed)
    obs_dim, act_dim = env.observation_space.shape[0], env.action_space.shape[0]
    act_limit = float(env.action_space.high[0])

    ac = ActorCritic(obs_dim, act_dim, act_limit)
    ac_targ = deepcopy(ac)
    for p in ac_targ.parameters():
        p.requires_grad = False
    q_params = list(itertools.chain(ac.q1.parameters(), ac.q2.parameters()))
    log_alpha = torch.zeros(1, requires_grad=True)
    target_entropy = -float(act_dim)
    replay = ReplayBuffer(obs_dim, act_dim, 200000)

    def compute_loss_q(data):
        o, a, r, o2, d = (data[k] for k in ("obs", "act", "rew", "obs2", "done"))
        q1 = ac.q1(o, a)
        q2 = ac.q2(o, a)
        alpha = log_alpha.exp().detach()
        with torch.no_grad():
            a2, logp_a2 = ac.pi(o2)
            q_pi_targ = torch.min(ac_targ.q1(o2, a2), ac_targ.q2(o2, a2))
            backup = r + gamma * (1 - d) * (q_pi_targ - alpha * logp_a2)
        return F.mse_loss(q1, backup) + F.mse_loss(q2, backup)

    def compute_loss_pi(data):
        o = data["obs"]
        pi, logp_pi = ac.pi(o)
        q_pi = torch.min(ac.q1(o, pi), ac.q2(o, pi))
        loss_pi = (log_alpha.exp().detach() * logp_pi - q_pi).mean()
        return loss_pi, logp_pi.detach()

    def compute_loss_alpha(logp_pi):
        return -(log_alpha * (logp_pi + target_entropy)).mean()

    pi_optimizer = Adam(ac.pi.parameters(), lr=lr)
    q_optimizer = Adam(q_params, lr=lr)
    alpha_optimizer = Adam([log_alpha], lr=lr)

    def update(data):
        q_optimizer.zero_grad()
        loss_q = compute_loss_q(data)
        loss_q.backward()
        q_optimizer.step()

        for p in q_params:
            p.requires_grad = False
        pi_optimizer.zero_grad()
        loss_pi, logp_pi = compute_loss_pi(data)
        loss_pi.backward()
        pi_optimizer.step()
        for p in q_params:
            p.requires_grad = True

        alpha_optimizer.zero_grad()
        loss_alpha = compute_loss_alpha(logp_pi)
        loss_alpha.backward()
        alpha_optimizer.step()

        with torch.no_grad():
            for p, p_targ in zip(ac.parameters(), ac_targ.parameters()):
                p_targ.data.mul_(polyak)
                p_targ.data.add_((1 - polyak) * p.data)

    def evaluate(n=3):
        rets = []
        for k in range(n):
            o, _ = test_env.reset(seed=10_000 + k)
            ret, finished = 0.0, False
            while not finished:
                o, r, term, trunc, _ = test_env.step(ac.act(o, deterministic=True))
                ret += r
                finished = term or trunc
            rets.append(ret)
        return float(np.mean(rets))

    o, _ = env.reset(seed=seed)
    for t in range(1, total_steps + 1):
        a = ac.act(o) if t > start_steps else env.action_space.sample()
        o2, r, term, trunc, _ = env.step(a)
        replay.store(obs=o, act=a, rew=r, obs2=o2, done=float(term))
        o = o2
        if term or trunc:
            o, _ = env.reset()

        if t >= update_after and t % update_every == 0:
            for _ in range(update_every):
                update(replay.sample_batch(batch_size))
        if t % eval_every == 0:
            print(f"step {t}  eval {evaluate():.1f}  alpha {log_alpha.exp().item():.3f}")


if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 30000
    sac("Pendulum-v1", total_steps=steps, start_steps=min(2000, steps // 3),
        update_after=min(1000, steps // 3), eval_every=min(5000, steps))
