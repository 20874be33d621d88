"""Deep Deterministic Policy Gradient, educational layout."""
import os
from copy import deepcopy

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.optim import Adam


def mlp(sizes, activation, output_activation=nn.Identity):
    layers = []
    for j in range(len(sizes) - 1):
        act = activation if j < len(sizes) - 2 else output_activation
        layers += [nn.Linear(sizes[j], sizes[j + 1]), act()]
    return nn.Sequential(*layers)


def count_vars(module):
    return sum(np.prod(p.shape) for p in module.parameters())


class MLPActor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, act_limit):
        super().__init__()
        self.pi = mlp([obs_dim] + list(hidden_sizes) + [act_dim], activation, nn.Tanh)
        self.act_limit = act_limit

    def forward(self, obs):
        return self.act_limit * self.pi(obs)


class MLPQFunction(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden_sizes, activation):
        super().__init__()
        self.q = mlp([obs_dim + act_dim] + list(hidden_sizes) + [1], activation)

    def forward(self, obs, act):
        q = self.q(torch.cat([obs, act], dim=-1))
        return torch.squeeze(q, -1)


class MLPActorCritic(nn.Module):
    def __init__(self, observation_space, action_space, hidden_sizes=(256, 256), activation=nn.ReLU):
        super().__init__()
        obs_dim = observation_space.shape[0]
        act_dim = action_space.shape[0]
        act_limit = float(action_space.high[0])
        self.pi = MLPActor(obs_dim, act_dim, hidden_sizes, activation, act_limit)
        self.q = MLPQFunction(obs_dim, act_dim, hidden_sizes, activation)

    def act(self, obs):
        with torch.no_grad():
            return self.pi(obs).numpy()


class ReplayBuffer:
    """A simple FIFO experience replay buffer for DDPG agents."""

    def __init__(self, obs_dim, act_dim, size):
        self.obs_buf = np.zeros((size, obs_dim), dtype=np.float32)
        self.obs2_buf = np.zeros((size, obs_dim), dtype=np.float32)
        self.act_buf = np.zeros((size, act_dim), dtype=np.float32)
        self.rew_buf = np.zeros(size, dtype=np.float32)
        self.done_buf = np.zeros(size, dtype=np.float32)
        self.ptr, self.size, self.max_size = 0, 0, size

    def store(self, obs, act, rew, next_obs, done):
        self.obs_buf[self.ptr] = obs
        self.obs2_buf[self.ptr] = next_obs
        self.act_buf[self.ptr] = act
        self.rew_buf[self.ptr] = rew
        self.done_buf[self.ptr] = done
        self.ptr = (self.ptr + 1) % self.max_size
        self.size = min(self.size + 1, self.max_size)

    def sample_batch(self, batch_size=32):
        idxs = np.random.randint(0, self.size, size=batch_size)
        batch = dict(obs=self.obs_buf[idxs], obs2=self.obs2_buf[idxs], act=self.act_buf[idxs], rew=self.rew_buf[idxs], done=self.done_buf[idxs])
        return {k: torch.as_tensor(v, dtype=torch.float32) for k, v in batch.items()}


def ddpg(env_fn, ac_kwargs=dict(), seed=0, steps_per_epoch=4000, epochs=20, replay_size=int(1e6), gamma=0.99, polyak=0.995,
         pi_lr=1e-3, q_lr=1e-3, batch_size=100, start_steps=10000, update_after=1000, update_every=50, act_noise=0.1,
         num_test_episodes=5, max_ep_len=1000):
    """
    polyak: interpolation factor of the target networks, theta_targ <- rho theta_targ + (1 - rho) theta
    start_steps: uniform-random actions before the policy is run, for exploration
    act_noise: std of the Gaussian noise added to the policy at training time
    """
    torch.manual_seed(seed)
    np.random.seed(seed)

    env, test_env = env_fn(), env_fn()
    env.action_space.seed(seed)
    obs_dim = env.observation_space.shape[0]
    act_dim = env.action_space.shape[0]
    act_limit = float(env.action_space.high[0])

    ac = MLPActorCritic(env.observation_space, env.action_space, **ac_kwargs)
    ac_targ = deepcopy(ac)
    for p in ac_targ.parameters():
        p.requires_grad = False

    replay_buffer = ReplayBuffer(obs_dim=obs_dim, act_dim=act_dim, size=replay_size)
    print("parameters: pi", count_vars(ac.pi), "q", count_vars(ac.q))

    def compute_loss_q(data):
        o, a, r, o2, d = data["obs"], data["act"], data["rew"], data["obs2"], data["done"]
        q = ac.q(o, a)
        with torch.no_grad():
            q_pi_targ = ac_targ.q(o2, ac_targ.pi(o2))
            backup = r + gamma * (1 - d) * q_pi_targ
        loss_q = ((q - backup) ** 2).mean()
        return loss_q, dict(QVals=q.detach().numpy())

    def compute_loss_pi(data):
        o = data["obs"]
        q_pi = ac.q(o, ac.pi(o))
        return -q_pi.mean()

    pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr)
    q_optimizer = Adam(ac.q.parameters(), lr=q_lr)

    def update(data):
        q_optimizer.zero_grad()
        loss_q, loss_info = compute_loss_q(data)
        loss_q.backward()
        q_optimizer.step()

        for p in ac.q.parameters():
            p.requires_grad = False

        pi_optimizer.zero_grad()
        loss_pi = compute_loss_pi(data)
        loss_pi.backward()
        pi_optimizer.step()

        for p in ac.q.parameters():
            p.requires_grad = True

        with torch.no_grad():
            for p, p_targ in zip(ac.parameters(), ac_targ.parameters()):
                p_targ.data.mul_(polyak)
                p_targ.data.add_((1 - polyak) * p.data)
        return loss_q.item(), loss_pi.item(), loss_info["QVals"].mean()

    def get_action(o, noise_scale):
        a = ac.act(torch.as_tensor(o, dtype=torch.float32))
        a += noise_scale * act_limit * np.random.randn(act_dim)
        return np.clip(a, -act_limit, act_limit)

    def test_agent():
        rets = []
        for j in range(num_test_episodes):
            (o, _), d, ep_ret, ep_len = test_env.reset(seed=seed + 1000 + j), False, 0, 0
            while not (d or ep_len == max_ep_len):
                o, r, terminated, truncated, _ = test_env.step(get_action(o, 0))
                d = terminated or truncated
                ep_ret += r
                ep_len += 1
            rets.append(ep_ret)
        return np.mean(rets)

    total_steps = steps_per_epoch * epochs
    o, _ = env.reset(seed=seed)
    ep_ret, ep_len = 0, 0
    losses = (float("nan"),) * 3

    for t in range(total_steps):
        if t > start_steps:
            a = get_action(o, act_noise)
        else:
            a = env.action_space.sample()

        o2, r, terminated, truncated, _ = env.step(a)
        ep_ret += r
        ep_len += 1

        # time limits are not the agent's fault: only a terminal state stops the bootstrap
        replay_buffer.store(o, a, r, o2, terminated)
        o = o2

        if terminated or truncated or ep_len == max_ep_len:
            o, _ = env.reset()
            ep_ret, ep_len = 0, 0

        if t >= update_after and t % update_every == 0:
            for _ in range(update_every):
                losses = update(replay_buffer.sample_batch(batch_size))

        if (t + 1) % steps_per_epoch == 0:
            print(f"epoch {(t + 1) // steps_per_epoch} test {test_agent():.1f} lossq {losses[0]:.3f} losspi {losses[1]:.3f} q {losses[2]:.2f}")
    return ac


if __name__ == "__main__":
    quick = "QUICK" in os.environ
    ddpg(
        lambda: gym.make("Pendulum-v1"),
        ac_kwargs=dict(hidden_sizes=[256] * 2),
        steps_per_epoch=200 if quick else 4000,
        epochs=2 if quick else 20,
        start_steps=150 if quick else 10000,
        update_after=150 if quick else 1000,
        num_test_episodes=1 if quick else 5,
    )
