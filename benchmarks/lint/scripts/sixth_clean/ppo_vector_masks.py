"""PPO over gymnasium's default vector environments, where the step after an end only resets: such steps are masked out."""
import os
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical

cfg = SimpleNamespace(
    env="CartPole-v1", envs=8, steps=64, epochs=4, minibatches=4, gamma=0.99, lam=0.95, clip=0.2, lr=1e-3,
    vf=0.5, ent=0.01, grad=0.5, iterations=int(os.environ.get("ITERATIONS", 150)), seed=5,
)


class Model(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.head_pi = nn.Linear(64, n_act)
        self.head_v = nn.Linear(64, 1)
        nn.init.orthogonal_(self.head_pi.weight, 0.01)

    def forward(self, x):
        z = self.shared(x)
        return Categorical(logits=self.head_pi(z)), self.head_v(z)[..., 0]


def tensor(x):
    return torch.as_tensor(x, dtype=torch.float32)


def rollout(envs, model, state):
    T, N = cfg.steps, cfg.envs
    buf = {k: torch.zeros(T, N) for k in ("act", "logp", "rew", "val", "nxt", "term", "end", "mask")}
    obs_buf = torch.zeros(T, N, envs.single_observation_space.shape[0])
    for t in range(T):
        obs_buf[t] = tensor(state["obs"])
        with torch.no_grad():
            dist, val = model(obs_buf[t])
            act = dist.sample()
        nxt, rew, term, trunc, _ = envs.step(act.numpy())
        with torch.no_grad():
            _, nxt_val = model(tensor(nxt))  # what follows a step is the episode's own last observation
        buf["act"][t], buf["logp"][t], buf["val"][t], buf["nxt"][t] = act, dist.log_prob(act), val, nxt_val
        buf["rew"][t], buf["term"][t], buf["end"][t] = tensor(rew), tensor(term), tensor(term | trunc)
        buf["mask"][t] = tensor(~state["fresh"])
        state["sum"] += rew
        for i in np.flatnonzero(term | trunc):
            state["returns"].append(state["sum"][i])
            state["sum"][i] = 0.0
        state["fresh"] = term | trunc
        state["obs"] = nxt
    return obs_buf, buf


def advantages(buf):
    adv = torch.zeros_like(buf["rew"])
    run = torch.zeros(cfg.envs)
    for t in reversed(range(cfg.steps)):
        delta = buf["rew"][t] + cfg.gamma * (1 - buf["term"][t]) * buf["nxt"][t] - buf["val"][t]
        run = delta + cfg.gamma * cfg.lam * (1 - buf["end"][t]) * run
        adv[t] = run
    return adv


def main():
    torch.manual_seed(cfg.seed)
    np.random.seed(cfg.seed)
    envs = gym.make_vec(cfg.env, num_envs=cfg.envs, vectorization_mode="sync")
    model = Model(envs.single_observation_space.shape[0], int(envs.single_action_space.n))
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr, eps=1e-5)
    obs, _ = envs.reset(seed=cfg.seed)
    state = {"obs": obs, "fresh": np.zeros(cfg.envs, bool), "sum": np.zeros(cfg.envs), "returns": []}
    for it in range(cfg.iterations):
        obs_buf, buf = rollout(envs, model, state)
        adv = advantages(buf)
        ret = adv + buf["val"]
        keep = buf["mask"].bool()
        o, a, lp, ad, rt = obs_buf[keep], buf["act"][keep], buf["logp"][keep], adv[keep], ret[keep]
        for _ in range(cfg.epochs):
            for idx in torch.randperm(len(o)).chunk(cfg.minibatches):
                dist, v = model(o[idx])
                ratio = (dist.log_prob(a[idx]) - lp[idx]).exp()
                norm = (ad[idx] - ad[idx].mean()) / (ad[idx].std() + 1e-8)
                pi_loss = -torch.min(norm * ratio, norm * ratio.clamp(1 - cfg.clip, 1 + cfg.clip)).mean()
                loss = pi_loss + cfg.vf * (v - rt[idx]).square().mean() - cfg.ent * dist.entropy().mean()
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), cfg.grad)
                opt.step()
        if it % 10 == 0 and state["returns"]:
            print(it, np.mean(state["returns"][-50:]))
    envs.close()


main()
