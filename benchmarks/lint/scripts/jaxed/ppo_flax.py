"""PPO in flax; one environment."""
import distrax
import flax.linen as nn
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState


class ActorCritic(nn.Module):
    n_act: int

    @nn.compact
    def __call__(self, x):
        h = nn.tanh(nn.Dense(64)(x))
        logits = nn.Dense(self.n_act)(h)
        v = nn.Dense(1)(nn.tanh(nn.Dense(64)(x)))
        return distrax.Categorical(logits=logits), jnp.squeeze(v, -1)


def compute_gae(traj, gamma=0.99, lam=0.95):
    def body(carry, step):
        rew, val, nval, term, end = step
        delta = rew + gamma * nval * (1 - term) - val
        carry = delta + gamma * lam * (1 - end) * carry
        return carry, carry

    _, adv = jax.lax.scan(body, 0.0, (traj["rew"], traj["val"], traj["nval"], traj["term"], traj["end"]), reverse=True)
    return adv, adv + traj["val"]


def loss_fn(params, apply_fn, mb, clip=0.2, vf=0.5, ent=0.01):
    dist, value = apply_fn(params, mb["obs"])
    logp = dist.log_prob(mb["act"])
    ratio = jnp.exp(logp - mb["logp"])
    adv = (mb["adv"] - mb["adv"].mean()) / (mb["adv"].std() + 1e-8)
    actor = -jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - clip, 1 + clip) * adv).mean()
    critic = jnp.square(value - mb["ret"]).mean()
    return actor + vf * critic - ent * dist.entropy().mean()


@jax.jit
def train_step(ts, mb):
    grads = jax.grad(loss_fn)(ts.params, ts.apply_fn, mb)
    return ts.apply_gradients(grads=grads)


def main(iterations=50, horizon=512, seed=0):
    env = gym.make("CartPole-v1")
    net = ActorCritic(2)
    key = jax.random.PRNGKey(seed)
    key, sub = jax.random.split(key)
    ts = TrainState.create(apply_fn=net.apply, params=net.init(sub, jnp.zeros((1, 4))), tx=optax.adam(3e-4))
    obs, _ = env.reset(seed=seed)
    for _ in range(iterations):
        traj = {k: [] for k in ("obs", "act", "logp", "rew", "val", "nval", "term", "end")}
        for _ in range(horizon):
            key, sub = jax.random.split(key)
            dist, val = ts.apply_fn(ts.params, obs)
            act = dist.sample(seed=sub)
            obs2, rew, term, trunc, _ = env.step(int(act))
            _, nval = ts.apply_fn(ts.params, obs2)
            row = (obs, act, dist.log_prob(act), rew, val, nval, term, term or trunc)
            for k, v in zip(traj, row):
                traj[k].append(v)
            obs = env.reset()[0] if term or trunc else obs2
        traj = {k: jnp.asarray(np.array(v, dtype=np.float32)) for k, v in traj.items()}
        traj["adv"], traj["ret"] = compute_gae(traj)
        for _ in range(4):
            for idx in np.random.permutation(horizon).reshape(8, -1):
                ts = train_step(ts, {k: v[idx] for k, v in traj.items()})


if __name__ == "__main__":
    main()
