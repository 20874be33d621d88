"""PPO with torch.func: the update is a function from state to state."""
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call


class Rollout(NamedTuple):
    obs: Tensor
    act: Tensor
    logp: Tensor
    rew: Tensor
    val: Tensor
    nval: Tensor
    term: Tensor
    last: Tensor


class TrainState(NamedTuple):
    params: dict
    opt: torch.optim.Optimizer


def make_net(n_obs, n_act):
    return nn.ModuleDict({
        "pi": nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, n_act)),
        "v": nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 1)),
    })


def apply_pi(net, params, x):
    p = {k[3:]: v for k, v in params.items() if k.startswith("pi.")}
    return torch.distributions.Categorical(logits=functional_call(net["pi"], p, (x,)))


def apply_v(net, params, x):
    p = {k[2:]: v for k, v in params.items() if k.startswith("v.")}
    return functional_call(net["v"], p, (x,)).squeeze(-1)


def collect(env, net, params, x, horizon):
    rows = []
    for _ in range(horizon):
        xt = torch.as_tensor(x, dtype=torch.float32)
        with torch.no_grad():
            d = apply_pi(net, params, xt)
            u = d.sample()
            lp, v = d.log_prob(u), apply_v(net, params, xt)
        x2, g, dead, late, _ = env.step(u.item())
        with torch.no_grad():
            v2 = apply_v(net, params, torch.as_tensor(x2, dtype=torch.float32))
        rows.append((xt, u, lp, torch.tensor(float(g)), v, v2, torch.tensor(float(dead)), torch.tensor(float(dead or late))))
        x = env.reset()[0] if dead or late else x2
    return x, Rollout(*(torch.stack(col) for col in zip(*rows)))


def advantages(ro, gamma, lam):
    out = torch.zeros_like(ro.rew)
    carry = torch.tensor(0.0)
    for i in range(len(ro.rew) - 1, -1, -1):
        delta = ro.rew[i] + gamma * ro.nval[i] * (1 - ro.term[i]) - ro.val[i]
        carry = delta + gamma * lam * (1 - ro.last[i]) * carry
        out[i] = carry
    return out


def objective(net, params, mb, clip=0.2, c_v=0.5, c_h=0.01):
    x, u, lp_old, adv, ret = mb
    d = apply_pi(net, params, x)
    ratio = (d.log_prob(u) - lp_old).exp()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    gain = torch.minimum(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv).mean()
    err = (apply_v(net, params, x) - ret).pow(2).mean()
    return -gain + c_v * err - c_h * d.entropy().mean()


def update(net, state, ro, gamma=0.99, lam=0.95, epochs=4, size=64):
    adv = advantages(ro, gamma, lam)
    ret = adv + ro.val
    for _ in range(epochs):
        for idx in torch.randperm(len(adv)).split(size):
            loss = objective(net, state.params, (ro.obs[idx], ro.act[idx], ro.logp[idx], adv[idx], ret[idx]))
            state.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(list(state.params.values()), 0.5)
            state.opt.step()
    return state


def main(iterations=50, seed=3):
    torch.manual_seed(seed)
    env = gym.make("CartPole-v1")
    net = make_net(4, env.action_space.n)
    params = {k: p.detach().clone().requires_grad_() for k, p in net.named_parameters()}
    state = TrainState(params, torch.optim.Adam(params.values(), lr=3e-4))
    x, _ = env.reset(seed=seed)
    for _ in range(iterations):
        x, ro = collect(env, net, state.params, x, 512)
        state = update(net, state, ro)


if __name__ == "__main__":
    main()
