from copy import deepcopy
import itertools
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions.normal import Normal
from torch.optim import Adam

LOG_STD_MAX = 2
LOG_STD_MIN = -20


def combined_shape(length, shape=None):
    if shape is None:
        return (length,)
    return (length, shape) if np.isscalar(shape) else (length, *shape)


def mlp(sizes, activation, output_activation=nn.Identity):
    layers = []
    for j in range(len(sizes) - 1):
        act = activation if j < len(sizes) - 2 else output_activation
        layers += [nn.Linear(sizes[j], sizes[j + 1]), act()]
    return nn.Sequential(*layers)


class SquashedGaussianMLPActor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, act_limit):
        super().__init__()
        self.net = mlp([obs_dim] + list(hidden_sizes), activation, activation)
        self.mu_layer = nn.Linear(hidden_sizes[-1], act_dim)
        self.log_std_layer = nn.Linear(hidden_sizes[-1], act_dim)
        self.act_limit = act_limit

    def forward(self, obs, deterministic=False, with_logprob=True):
        net_out = self.net(obs)
        mu = self.mu_layer(net_out)
        log_std = torch.clamp(self.log_std_layer(net_out), LOG_STD_MIN, LOG_STD_MAX)
        std = torch.exp(log_std)

        pi_distribution = Normal(mu, std)
        u = mu if deterministic else pi_distribution.rsample()

        if with_logprob:
            # Change of variables for the tanh, in its numerically stable form.
            logp_pi = pi_distribution.log_prob(u).sum(axis=-1)
            logp_pi -= (2 * (np.log(2) - u - F.softplus(-2 * u))).sum(axis=1)
        else:
            logp_pi = None
        return self.act_limit * torch.tanh(u), logp_pi


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
        obs_dim, act_dim = observation_space.shape[0], action_space.shape[0]
        act_limit = action_space.high[0]
        self.pi = SquashedGaussianMLPActor(obs_dim, act_dim, hidden_sizes, activation, act_limit)
        self.q1 = MLPQFunction(obs_dim, act_dim, hidden_sizes, activation)
        self.q2 = MLPQFunction(obs_dim, act_dim, hidden_sizes, activation)

    def act(self, obs, deterministic=False):
        with torch.no_grad():
            a, _ = self.pi(obs.unsqueeze(0), deterministic, False)
            return a[0].numpy()


class ReplayBuffer:
    """A simple FIFO experience replay buffer for SAC agents."""

    def __init__(self, obs_dim, act_dim, size):
        self.obs_buf = np.zeros(combined_shape(size, obs_dim), dtype=np.float32)
        self.obs2_buf = np.zeros(combined_shape(size, obs_dim), dtype=np.float32)
        self.act_buf = np.zeros(combined_shape(size, act_dim), dtype=np.float32)
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
        batch = dict(
            obs=self.obs_buf[idxs],
            obs2=self.obs2_buf[idxs],
            act=self.act_buf[idxs],
            rew=self.rew_buf[idxs],
            done=self.done_buf[idxs],
        )
        return {k: torch.as_tensor(v, dtype=torch.float32) for k, v in batch.items()}


def sac(env_fn, seed=0, steps_per_epoch=4000, epochs=50, replay_size=int(1e6), gamma=0.99, polyak=0.995, lr=1e-3,
        batch_size=100, start_steps=10000, update_after=1000, update_every=50, num_test_episodes=5):
    """Soft Actor-Critic with a learned temperature."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    env, test_env = env_fn(), env_fn()
    env.action_space.seed(seed)
    obs_dim = env.observation_space.shape
    act_dim = env.action_space.shape[0]

    ac = MLPActorCritic(env.observation_space, env.action_space)
    ac_targ = deepcopy(ac)
    # Freeze target networks with respect to optimizers (only update via polyak averaging)
    for p in ac_targ.parameters():
        p.requires_grad = False
    q_params = list(itertools.chain(ac.q1.parameters(), ac.q2.parameters()))
    replay_buffer = ReplayBuffer(obs_dim=obs_dim, act_dim=act_dim, size=replay_size)

    target_entropy = -float(act_dim)
    log_alpha = torch.zeros(1, requires_grad=True)

    def compute_loss_q(data):
        o, a, r, o2, d = data["obs"], data["act"], data["rew"], data["obs2"], data["done"]
        q1 = ac.q1(o, a)
        q2 = ac.q2(o, a)
        alpha = log_alpha.exp().detach()
        # Bellman backup for Q functions
        with torch.no_grad():
            # Target actions come from the *current* policy
            a2, logp_a2 = ac.pi(o2)
            q_pi_targ = torch.min(ac_targ.q1(o2, a2), ac_targ.q2(o2, a2))
            backup = r + gamma * (1 - d) * (q_pi_targ - alpha * logp_a2)
        return ((q1 - backup) ** 2).mean() + ((q2 - backup) ** 2).mean()

    def compute_loss_pi(data):
        o = data["obs"]
        pi, logp_pi = ac.pi(o)
        q_pi = torch.min(ac.q1(o, pi), ac.q2(o, pi))
        loss_pi = (log_alpha.exp().detach() * logp_pi - q_pi).mean()
        loss_alpha = -(log_alpha * (logp_pi + target_entropy).detach()).mean()
        return loss_pi, loss_alpha

    pi_optimizer = Adam(ac.pi.parameters(), lr=lr)
    q_optimizer = Adam(q_params, lr=lr)
    alpha_optimizer = Adam([log_alpha], lr=lr)

    def update(data):
        q_optimizer.zero_grad()
        loss_q = compute_loss_q(data)
        loss_q.backward()
        q_optimizer.step()

        # The Q-networks are not to be trained by the policy's loss.
        for p in q_params:
            p.requires_grad = False
        loss_pi, loss_alpha = compute_loss_pi(data)
        pi_optimizer.zero_grad()
        loss_pi.backward()
        pi_optimizer.step()
        for p in q_params:
            p.requires_grad = True

        alpha_optimizer.zero_grad()
        loss_alpha.backward()
        alpha_optimizer.step()

        with torch.no_grad():
            for p, p_targ in zip(ac.parameters(), ac_targ.parameters()):
                p_targ.data.mul_(polyak)
                p_targ.data.add_((1 - polyak) * p.data)

    def get_action(o, deterministic=False):
        return ac.act(torch.as_tensor(o, dtype=torch.float32), deterministic)

    def test_agent():
        returns = []
        for _ in range(num_test_episodes):
            (o, _), d, ep_ret = test_env.reset(), False, 0.0
            while not d:
                o, r, term, trunc, _ = test_env.step(get_action(o, True))
                d = term or trunc
                ep_ret += r
            returns.append(ep_ret)
        return np.mean(returns)

    total_steps = steps_per_epoch * epochs
    start_time = time.time()
    o, _ = env.reset(seed=seed)
    for t in range(total_steps):
        # Until start_steps have elapsed, randomly sample actions for better exploration.
        a = get_action(o) if t > start_steps else env.action_space.sample()
        o2, r, terminated, truncated, _ = env.step(a)
        replay_buffer.store(o, a, r, o2, terminated)
        o = o2
        if terminated or truncated:
            o, _ = env.reset()

        if t >= update_after and t % update_every == 0:
            for _ in range(update_every):
                update(data=replay_buffer.sample_batch(batch_size))

        if (t + 1) % steps_per_epoch == 0:
            epoch = (t + 1) // steps_per_epoch
            print(f"epoch {epoch} test return {test_agent():.1f} alpha {log_alpha.exp().item():.3f} "
                  f"time {time.time() - start_time:.0f}s")


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--env", type=str, default="Pendulum-v1")
    parser.add_argument("--seed", "-s", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--start_steps", type=int, default=10000)
    args = parser.parse_args()
    sac(lambda: gym.make(args.env), seed=args.seed, epochs=args.epochs, steps_per_epoch=args.steps,
        start_steps=args.start_steps, update_after=args.start_steps // 10)
