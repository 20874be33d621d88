"""Ensemble SAC after REDQ: five critics as one batched layer, the target is the least of two drawn at random, the actor uses the mean."""
import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

E, M = 5, 2


class Linears(nn.Module):
    """E linear layers side by side: [E, B, n_in] -> [E, B, n_out]."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.w = nn.Parameter(torch.empty(E, n_in, n_out).uniform_(-1, 1) / n_in**0.5)
        self.b = nn.Parameter(torch.zeros(E, 1, n_out))

    def forward(self, x):
        return torch.baddbmm(self.b, x, self.w)


class Ensemble(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.b, self.c = Linears(n, 128), Linears(128, 128), Linears(128, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], -1).expand(E, -1, -1)
        return self.c(F.relu(self.b(F.relu(self.a(x))))).squeeze(-1)  # [E, B]


class Actor(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU(), nn.Linear(128, 2 * n_act))

    def forward(self, obs):
        mean, log_std = self.f(obs).chunk(2, -1)
        u = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
        x = u.rsample()
        # log(1 - tanh(x)^2), written so that it does not underflow
        correction = 2.0 * (np.log(2.0) - x - F.softplus(-2.0 * x))
        return x.tanh(), (u.log_prob(x) - correction).sum(-1)


def main(steps=5000, seed=0, gamma=0.99, rho=0.995, alpha=0.1):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    env = gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), -1.0, 1.0)
    q, q_slow, pi = Ensemble(4), Ensemble(4), Actor(3, 1)
    q_slow.load_state_dict(q.state_dict())
    q_opt, pi_opt = torch.optim.Adam(q.parameters(), 1e-3), torch.optim.Adam(pi.parameters(), 3e-4)
    data = {k: np.zeros((steps, n), np.float32) for k, n in dict(o=3, a=1, r=1, o2=3, end=1).items()}
    o, _ = env.reset(seed=seed)
    for t in range(steps):
        with torch.no_grad():
            a = pi(torch.as_tensor(o)[None])[0][0].numpy() if t > 500 else rng.uniform(-1, 1, 1).astype(np.float32)
        o2, r, term, trunc, _ = env.step(a)
        for k, value in zip(data, (o, a, r / 10.0, o2, term)):
            data[k][t] = value
        o = env.reset()[0] if term or trunc else o2
        if t < 500:
            continue
        idx = rng.integers(0, t + 1, 128)
        b = {k: torch.from_numpy(v[idx]) for k, v in data.items()}
        with torch.no_grad():
            a2, logp2 = pi(b["o2"])
            chosen = rng.choice(E, M, replace=False)
            low = q_slow(b["o2"], a2)[chosen].amin(0) - alpha * logp2
            y = b["r"][:, 0] + gamma * (1 - b["end"][:, 0]) * low
        q_loss = (q(b["o"], b["a"]) - y).pow(2).mean(1).sum()  # y [B] against each of the E rows
        q_opt.zero_grad()
        q_loss.backward()
        q_opt.step()
        pi_a, logp = pi(b["o"])
        pi_loss = (alpha * logp - q(b["o"], pi_a).mean(0)).mean()
        pi_opt.zero_grad()
        pi_loss.backward()
        pi_opt.step()
        with torch.no_grad():
            for p, p_slow in zip(q.parameters(), q_slow.parameters()):
                p_slow.mul_(rho).add_((1 - rho) * p)
        if t % 1000 == 0:
            print(t, q_loss.item(), pi_loss.item())


if __name__ == "__main__":
    main()
