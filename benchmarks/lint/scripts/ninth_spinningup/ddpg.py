"""
Deep Deterministic Policy Gradient (DDPG), after Lillicrap et al. 2015.

The update is split in compute_loss_q and compute_loss_pi; the logger below prints one row an epoch.
"""
from copy import deepcopy

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn


def mlp(sizes, activation=nn.ReLU, output_activation=nn.Identity):
    layers = []
    for j in range(len(sizes) - 1):
        act = activation if j < len(sizes) - 2 else output_activation
        layers += [nn.Linear(sizes[j], sizes[j + 1]), act()]
    return nn.Sequential(*layers)


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, act_dim, act_limit, hid):
        super().__init__()
        self.policy = mlp([obs_dim, *hid, act_dim], output_activation=nn.Tanh)
        self.critic = mlp([obs_dim + act_dim, *hid, 1])
        self.act_limit = act_limit

    def pi(self, obs):
        return self.act_limit * self.policy(obs)

    def q(self, obs, act):
        return self.critic(torch.cat([obs, act], -1)).squeeze(-1)


class EpochLogger:
    def __init__(self):
        self.rows = {}

    def store(self, **kwargs):
        for key, value in kwargs.items():
            self.rows.setdefault(key, []).append(float(value))

    def dump(self, epoch):
        print(f"{epoch:4d}  " + "  ".join(f"{k} {np.mean(v):9.3f}" for k, v in self.rows.items()))
        self.rows.clear()


class Memory:
    """Transitions (o, a, r, o', d) in one flat array each; the oldest is overwritten."""

    def __init__(self, obs_dim, act_dim, capacity):
        self.o = np.zeros((capacity, obs_dim), np.float32)
        self.o_next = np.zeros((capacity, obs_dim), np.float32)
        self.a = np.zeros((capacity, act_dim), np.float32)
        self.r = np.zeros(capacity, np.float32)
        self.d = np.zeros(capacity, np.float32)
        self.count, self.capacity = 0, capacity

    def remember(self, o, a, r, o_next, d):
        i = self.count % self.capacity
        self.o[i], self.a[i], self.r[i], self.o_next[i], self.d[i] = o, a, r, o_next, d
        self.count += 1

    def draw(self, n):
        i = np.random.randint(0, min(self.count, self.capacity), n)
        return tuple(torch.from_numpy(x[i]) for x in (self.o, self.a, self.r, self.o_next, self.d))


def ddpg(env_fn, hid=(256, 256), seed=0, steps_per_epoch=4000, epochs=100, replay_size=1_000_000, gamma=0.99,
         polyak=0.995, pi_lr=1e-3, q_lr=1e-3, batch_size=100, start_steps=10_000, update_after=1000,
         update_every=50, act_noise=0.1, num_test_episodes=10):
    """
    Args:
        polyak: interpolation factor in the averaging of the target networks,
            theta_targ <- polyak * theta_targ + (1 - polyak) * theta
        start_steps: number of steps with uniformly random actions before the policy runs
        update_after: number of interactions to collect before the first gradient descent step
        act_noise: standard deviation of the exploration noise, as a fraction of act_limit
    """
    torch.manual_seed(seed)
    np.random.seed(seed)
    env, test_env = env_fn(), env_fn()
    obs_dim = env.observation_space.shape[0]
    act_dim = env.action_space.shape[0]
    act_limit = float(env.action_space.high[0])

    ac = ActorCritic(obs_dim, act_dim, act_limit, hid)
    targ = deepcopy(ac).requires_grad_(False)
    memory = Memory(obs_dim, act_dim, replay_size)
    logger = EpochLogger()
    pi_optimizer = torch.optim.Adam(ac.policy.parameters(), lr=pi_lr)
    q_optimizer = torch.optim.Adam(ac.critic.parameters(), lr=q_lr)

    def compute_loss_q(batch):
        o, a, r, o2, d = batch
        q = ac.q(o, a)
        with torch.no_grad():
            backup = r + gamma * (1 - d) * targ.q(o2, targ.pi(o2))
        loss_q = ((q - backup) ** 2).mean()
        return loss_q, dict(QVals=q.detach().mean())

    def compute_loss_pi(batch):
        o = batch[0]
        return -ac.q(o, ac.pi(o)).mean()

    def update(batch):
        q_optimizer.zero_grad()
        loss_q, info = compute_loss_q(batch)
        loss_q.backward()
        q_optimizer.step()

        ac.critic.requires_grad_(False)
        pi_optimizer.zero_grad()
        loss_pi = compute_loss_pi(batch)
        loss_pi.backward()
        pi_optimizer.step()
        ac.critic.requires_grad_(True)

        with torch.no_grad():
            for p, p_targ in zip(ac.parameters(), targ.parameters()):
                p_targ.mul_(polyak).add_(p, alpha=1 - polyak)
        logger.store(LossQ=loss_q.item(), LossPi=loss_pi.item(), **info)

    def get_action(o, noise_scale):
        with torch.no_grad():
            a = ac.pi(torch.as_tensor(o, dtype=torch.float32)).numpy()
        a = a + noise_scale * act_limit * np.random.randn(act_dim)
        return np.clip(a, -act_limit, act_limit).astype(np.float32)

    def test_agent():
        for _ in range(num_test_episodes):
            o, _ = test_env.reset()
            ep_ret, over = 0.0, False
            while not over:
                o, r, term, trunc, _ = test_env.step(get_action(o, 0.0))
                ep_ret += r
                over = term or trunc
            logger.store(TestEpRet=ep_ret)

    o, _ = env.reset(seed=seed)
    ep_ret, ep_len = 0.0, 0
    for t in range(1, steps_per_epoch * epochs + 1):
        a = env.action_space.sample() if t <= start_steps else get_action(o, act_noise)
        o2, r, terminated, truncated, _ = env.step(a)
        ep_ret += r
        ep_len += 1
        memory.remember(o, a, r, o2, terminated)
        o = o2
        if terminated or truncated:
            logger.store(EpRet=ep_ret, EpLen=ep_len)
            o, _ = env.reset()
            ep_ret, ep_len = 0.0, 0

        if t >= update_after and t % update_every == 0:
            for _ in range(update_every):
                update(memory.draw(batch_size))

        if t % steps_per_epoch == 0:
            test_agent()
            logger.dump(t // steps_per_epoch)


if __name__ == "__main__":
    import argparse

    cli = argparse.ArgumentParser()
    cli.add_argument("--env", default="Pendulum-v1")
    cli.add_argument("--hid", type=int, default=256)
    cli.add_argument("--l", type=int, default=2)
    cli.add_argument("--gamma", type=float, default=0.99)
    cli.add_argument("--seed", type=int, default=0)
    cli.add_argument("--epochs", type=int, default=50)
    cli.add_argument("--steps", type=int, default=4000)
    cli.add_argument("--start", type=int, default=10_000)
    args = cli.parse_args()
    ddpg(lambda: gym.make(args.env), hid=[args.hid] * args.l, gamma=args.gamma, seed=args.seed, epochs=args.epochs,
         steps_per_epoch=args.steps, start_steps=args.start, update_after=min(args.start, 1000))
