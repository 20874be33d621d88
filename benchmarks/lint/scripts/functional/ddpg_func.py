"""DDPG with torch.func: parameters are plain dicts, networks are stateless templates."""
import os
from typing import Dict, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad_and_value

Params = Dict[str, torch.Tensor]


class Batch(NamedTuple):
    obs: torch.Tensor       # [B, O]
    act: torch.Tensor       # [B, A]
    rew: torch.Tensor       # [B]
    nxt: torch.Tensor       # [B, O]
    nonterminal: torch.Tensor  # [B]


class Adam(NamedTuple):
    m: Params
    v: Params
    t: int


class State(NamedTuple):
    pi: Params
    q: Params
    pi_slow: Params
    q_slow: Params
    pi_opt: Adam
    q_opt: Adam


GAMMA = 0.99
RHO = 0.005
PI_LR, Q_LR = 1e-4, 1e-3
NOISE = 0.15
BATCH = 128
CAPACITY = 100_000
STEPS = int(os.environ.get("STEPS", 40_000))
WARMUP = min(1_000, STEPS // 3)
SEED = 5

env = gym.make("Pendulum-v1")
O, A = env.observation_space.shape[0], env.action_space.shape[0]
LIMIT = float(env.action_space.high[0])

pi_net = nn.Sequential(nn.Linear(O, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, A), nn.Tanh())
q_net = nn.Sequential(nn.Linear(O + A, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))


def snapshot(module: nn.Module) -> Params:
    return {k: v.detach().clone() for k, v in module.named_parameters()}


def clone(p: Params) -> Params:
    return {k: v.clone() for k, v in p.items()}


def act_fn(p: Params, obs):
    return LIMIT * functional_call(pi_net, p, (obs,))


def q_fn(p: Params, obs, act):
    return functional_call(q_net, p, (torch.cat([obs, act], dim=-1),)).squeeze(-1)


def adam_init(p: Params) -> Adam:
    return Adam({k: torch.zeros_like(v) for k, v in p.items()}, {k: torch.zeros_like(v) for k, v in p.items()}, 0)


def adam_step(p: Params, g: Params, s: Adam, lr: float, b1=0.9, b2=0.999, eps=1e-8):
    t = s.t + 1
    m = {k: b1 * s.m[k] + (1 - b1) * g[k] for k in p}
    v = {k: b2 * s.v[k] + (1 - b2) * g[k] ** 2 for k in p}
    new = {k: p[k] - lr * (m[k] / (1 - b1**t)) / ((v[k] / (1 - b2**t)).sqrt() + eps) for k in p}
    return new, Adam(m, v, t)


def blend(slow: Params, fast: Params, rho: float) -> Params:
    return {k: (1 - rho) * slow[k] + rho * fast[k] for k in slow}


def critic_loss(q: Params, target: torch.Tensor, b: Batch):
    err = q_fn(q, b.obs, b.act) - target
    return (err**2).mean()


def actor_loss(pi: Params, q: Params, b: Batch):
    return -q_fn(q, b.obs, act_fn(pi, b.obs)).mean()


def td_target(s: State, b: Batch):
    with torch.no_grad():
        q_next = q_fn(s.q_slow, b.nxt, act_fn(s.pi_slow, b.nxt))
        return b.rew + GAMMA * b.nonterminal * q_next


def update(s: State, b: Batch):
    y = td_target(s, b)
    g_q, l_q = grad_and_value(critic_loss)(s.q, y, b)
    q, q_opt = adam_step(s.q, g_q, s.q_opt, Q_LR)
    g_pi, l_pi = grad_and_value(actor_loss)(s.pi, q, b)
    pi, pi_opt = adam_step(s.pi, g_pi, s.pi_opt, PI_LR)
    new = State(pi, q, blend(s.pi_slow, pi, RHO), blend(s.q_slow, q, RHO), pi_opt, q_opt)
    return new, {"q_loss": float(l_q), "pi_loss": float(l_pi)}


def make_memory():
    return {
        "obs": torch.zeros(CAPACITY, O),
        "act": torch.zeros(CAPACITY, A),
        "rew": torch.zeros(CAPACITY),
        "nxt": torch.zeros(CAPACITY, O),
        "nonterminal": torch.zeros(CAPACITY),
        "count": 0,
    }


def remember(mem, obs, act, rew, nxt, terminated):
    i = mem["count"] % CAPACITY
    mem["obs"][i] = torch.as_tensor(obs)
    mem["act"][i] = torch.as_tensor(act)
    mem["rew"][i] = float(rew)
    mem["nxt"][i] = torch.as_tensor(nxt)
    mem["nonterminal"][i] = 0.0 if terminated else 1.0
    mem["count"] += 1


def sample(mem, gen) -> Batch:
    idx = torch.randint(0, min(mem["count"], CAPACITY), (BATCH,), generator=gen)
    return Batch(mem["obs"][idx], mem["act"][idx], mem["rew"][idx], mem["nxt"][idx], mem["nonterminal"][idx])


def noisy_action(pi: Params, obs, rng):
    a = act_fn(pi, torch.as_tensor(obs)).numpy()
    a = a + rng.normal(0.0, NOISE * LIMIT, size=a.shape)
    return np.clip(a, -LIMIT, LIMIT).astype(np.float32)


def evaluate(pi: Params, episodes=5):
    world = gym.make("Pendulum-v1")
    returns = []
    for k in range(episodes):
        obs, _ = world.reset(seed=900 + k)
        total, stop = 0.0, False
        while not stop:
            obs, rew, term, trunc, _ = world.step(act_fn(pi, torch.as_tensor(obs)).numpy())
            total += rew
            stop = term or trunc
        returns.append(total)
    world.close()
    return float(np.mean(returns))


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    gen = torch.Generator().manual_seed(SEED)
    env.action_space.seed(SEED)
    pi, q = snapshot(pi_net), snapshot(q_net)
    state = State(pi, q, clone(pi), clone(q), adam_init(pi), adam_init(q))
    mem = make_memory()
    logs = {}

    obs, _ = env.reset(seed=SEED)
    for step in range(STEPS):
        action = env.action_space.sample() if step < WARMUP else noisy_action(state.pi, obs, rng)
        nxt, rew, terminated, truncated, _ = env.step(action)
        remember(mem, obs, action, rew, nxt, terminated)
        obs = env.reset()[0] if (terminated or truncated) else nxt
        if step >= WARMUP:
            state, logs = update(state, sample(mem, gen))
        if step and step % 5_000 == 0:
            print(step, f"eval {evaluate(state.pi):.1f}", logs)
    print("done", evaluate(state.pi), logs)


if __name__ == "__main__":
    main()
