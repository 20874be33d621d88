"""DQN in JAX with optax."""
import random
from functools import partial
from typing import NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax


class State(NamedTuple):
    params: dict
    target: dict
    opt_state: optax.OptState


def init(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"w": jax.random.normal(k, (i, o)) * jnp.sqrt(2 / i), "b": jnp.zeros(o)}
        for k, i, o in zip(keys, sizes[:-1], sizes[1:])
    ]


def q_fn(params, x):
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss_fn(params, target, batch, gamma):
    obs, act, rew, obs2, term = batch
    q = q_fn(params, obs)[jnp.arange(len(act)), act]
    q_next = q_fn(target, obs2).max(axis=-1)
    y = rew + gamma * (1.0 - term) * jax.lax.stop_gradient(q_next)
    return optax.huber_loss(q, y).mean()


tx = optax.adam(5e-4)


@jax.jit
def update(state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(state.params, state.target, batch, 0.99)
    updates, opt_state = tx.update(grads, state.opt_state)
    params = optax.apply_updates(state.params, updates)
    return state._replace(params=params, opt_state=opt_state), loss


def main(total=20_000):
    env = gym.make("CartPole-v1")
    params = init(jax.random.PRNGKey(0), [4, 64, 64, 2])
    state = State(params, params, tx.init(params))
    memory = []
    obs, _ = env.reset(seed=0)
    for t in range(total):
        eps = max(0.05, 1.0 - t / 5000)
        if random.random() < eps:
            act = env.action_space.sample()
        else:
            act = int(q_fn(state.params, obs).argmax())
        obs2, rew, term, trunc, _ = env.step(act)
        memory.append((obs, act, rew, obs2, term))
        obs = obs2
        if term or trunc:
            obs, _ = env.reset()
        if len(memory) > 1000:
            rows = random.sample(memory[-50_000:], 64)
            batch = tuple(jnp.asarray(np.array(c)) for c in zip(*rows))
            state, loss = update(state, batch)
        if t % 500 == 0:
            state = state._replace(target=state.params)


if __name__ == "__main__":
    main()
