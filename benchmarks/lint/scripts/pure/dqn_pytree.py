"""Q-learning without modules: weights are dictionaries, the network is a function of them."""
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch.nn.functional import huber_loss, relu


def init_params(sizes, gen):
    params = {}
    for i, (fan_in, fan_out) in enumerate(zip(sizes[:-1], sizes[1:])):
        w = torch.randn(fan_in, fan_out, generator=gen) * (2.0 / fan_in) ** 0.5
        params[f"w{i}"] = w.requires_grad_()
        params[f"b{i}"] = torch.zeros(fan_out).requires_grad_()
    return params


def q_values(params, x):
    n = len(params) // 2
    for i in range(n):
        x = x @ params[f"w{i}"] + params[f"b{i}"]
        if i < n - 1:
            x = relu(x)
    return x


def td_loss(params, frozen, batch, discount):
    s, a, r, s2, term = batch
    chosen = q_values(params, s).gather(1, a[:, None])[:, 0]
    with torch.no_grad():
        best = q_values(frozen, s2).max(dim=1).values
        goal = r + discount * (1.0 - term) * best
    return huber_loss(chosen, goal)


def sgd_step(params, grads, lr):
    with torch.no_grad():
        for key in params:
            params[key] -= lr * grads[key]
    return params


def freeze(params):
    return {k: v.detach().clone() for k, v in params.items()}


def draw(memory, n):
    rows = random.sample(memory, n)
    s, a, r, s2, term = zip(*rows)
    return (
        torch.tensor(np.stack(s), dtype=torch.float32),
        torch.tensor(a),
        torch.tensor(r, dtype=torch.float32),
        torch.tensor(np.stack(s2), dtype=torch.float32),
        torch.tensor(term, dtype=torch.float32),
    )


def run(total=20_000, discount=0.99, lr=1e-3, seed=1):
    gen = torch.Generator().manual_seed(seed)
    random.seed(seed)
    env = gym.make("CartPole-v1")
    params = init_params([4, 64, 64, 2], gen)
    frozen = freeze(params)
    memory = deque(maxlen=50_000)
    s, _ = env.reset(seed=seed)
    for t in range(total):
        eps = max(0.05, 1.0 - t / 5_000)
        if random.random() < eps:
            a = env.action_space.sample()
        else:
            with torch.no_grad():
                a = int(q_values(params, torch.as_tensor(s)).argmax())
        s2, r, term, trunc, _ = env.step(a)
        memory.append((s, a, r, s2, float(term)))
        s = s2
        if term or trunc:
            s, _ = env.reset()
        if t > 1_000:
            loss = td_loss(params, frozen, draw(memory, 64), discount)
            grads = dict(zip(params, torch.autograd.grad(loss, list(params.values()))))
            params = sgd_step(params, grads, lr)
        if t % 500 == 0:
            frozen = freeze(params)
    return params


if __name__ == "__main__":
    run()
