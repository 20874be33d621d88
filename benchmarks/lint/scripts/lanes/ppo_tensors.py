"""PPO over many environments at once; storage is a handful of [T, N] tensors."""
import gymnasium as gym
import torch
import torch.nn as nn
from torch.distributions import Normal

N, T, GAMMA, LAM, CLIP = 8, 256, 0.99, 0.95, 0.2


class Brain(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.mu = nn.Sequential(nn.Linear(obs_dim, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, act_dim))
        self.sigma = nn.Parameter(torch.full((act_dim,), -0.5))
        self.worth = nn.Sequential(nn.Linear(obs_dim, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def dist(self, x):
        return Normal(self.mu(x), self.sigma.exp())

    def value(self, x):
        return self.worth(x)[..., 0]


def main(updates=100):
    envs = gym.make_vec("Pendulum-v1", num_envs=N, vectorization_mode="sync",
                        vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP})
    do, da = envs.single_observation_space.shape[0], envs.single_action_space.shape[0]
    brain = Brain(do, da)
    adam = torch.optim.Adam(brain.parameters(), lr=3e-4, eps=1e-5)
    X = torch.zeros(T, N, do)
    U = torch.zeros(T, N, da)
    LP = torch.zeros(T, N)
    R = torch.zeros(T, N)
    V = torch.zeros(T, N)
    V2 = torch.zeros(T, N)
    TERM = torch.zeros(T, N)
    END = torch.zeros(T, N)
    x, _ = envs.reset(seed=11)
    x = torch.as_tensor(x, dtype=torch.float32)
    for _ in range(updates):
        for t in range(T):
            with torch.no_grad():
                d = brain.dist(x)
                u = d.sample()
                LP[t] = d.log_prob(u).sum(-1)
                V[t] = brain.value(x)
            X[t], U[t] = x, u
            nx, r, term, trunc, info = envs.step(u.clamp(-2, 2).numpy())
            real = torch.as_tensor(nx, dtype=torch.float32).clone()
            if "final_obs" in info:
                for i in info["_final_obs"].nonzero()[0]:
                    real[i] = torch.as_tensor(info["final_obs"][i])
            with torch.no_grad():
                V2[t] = brain.value(real)
            R[t] = torch.as_tensor(r)
            TERM[t] = torch.as_tensor(term)
            END[t] = torch.as_tensor(term | trunc)
            x = torch.as_tensor(nx, dtype=torch.float32)
        A = torch.zeros(T, N)
        acc = torch.zeros(N)
        for t in reversed(range(T)):
            err = R[t] + GAMMA * V2[t] * (1 - TERM[t]) - V[t]
            acc = err + GAMMA * LAM * (1 - END[t]) * acc
            A[t] = acc
        G = A + V
        flat = [z.flatten(0, 1) for z in (X, U, LP, A, G)]
        for _ in range(10):
            order = torch.randperm(T * N)
            for rows in order.chunk(8):
                bx, bu, blp, ba, bg = (z[rows] for z in flat)
                d = brain.dist(bx)
                lp = d.log_prob(bu).sum(-1)
                rho = torch.exp(lp - blp)
                ba = (ba - ba.mean()) / (ba.std() + 1e-8)
                pg = torch.max(-ba * rho, -ba * rho.clamp(1 - CLIP, 1 + CLIP)).mean()
                ve = 0.5 * (brain.value(bx) - bg).square().mean()
                total = pg + 0.5 * ve - 0.001 * d.entropy().sum(-1).mean()
                adam.zero_grad()
                total.backward()
                nn.utils.clip_grad_norm_(brain.parameters(), 0.5)
                adam.step()


if __name__ == "__main__":
    main()
