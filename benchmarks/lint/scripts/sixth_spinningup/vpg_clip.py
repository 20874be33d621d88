"""Clipped policy gradients with a GAE buffer, for discrete and continuous actions."""
import argparse

import gymnasium as gym
from gymnasium.spaces import Box, Discrete
import numpy as np
import scipy.signal
import torch
import torch.nn as nn
from torch.distributions.categorical import Categorical
from torch.distributions.normal import Normal
from torch.optim import Adam


def mlp(sizes, activation=nn.Tanh, output_activation=nn.Identity):
    layers = []
    for j in range(len(sizes) - 1):
        act = activation if j < len(sizes) - 2 else output_activation
        layers += [nn.Linear(sizes[j], sizes[j + 1]), act()]
    return nn.Sequential(*layers)


def discount_cumsum(x, discount):
    """[x0, x1, x2] -> [x0 + d x1 + d^2 x2, x1 + d x2, x2]"""
    return scipy.signal.lfilter([1], [1, float(-discount)], x[::-1], axis=0)[::-1]


class Actor(nn.Module):
    def _distribution(self, obs):
        raise NotImplementedError

    def _log_prob_from_distribution(self, pi, act):
        raise NotImplementedError

    def forward(self, obs, act=None):
        pi = self._distribution(obs)
        logp_a = None
        if act is not None:
            logp_a = self._log_prob_from_distribution(pi, act)
        return pi, logp_a


class CategoricalActor(Actor):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.logits_net = mlp([obs_dim, *hidden, act_dim])

    def _distribution(self, obs):
        return Categorical(logits=self.logits_net(obs))

    def _log_prob_from_distribution(self, pi, act):
        return pi.log_prob(act)


class GaussianActor(Actor):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.log_std = nn.Parameter(-0.5 * torch.ones(act_dim))
        self.mu_net = mlp([obs_dim, *hidden, act_dim])

    def _distribution(self, obs):
        return Normal(self.mu_net(obs), torch.exp(self.log_std))

    def _log_prob_from_distribution(self, pi, act):
        return pi.log_prob(act).sum(axis=-1)  # one number for the whole action


class Critic(nn.Module):
    def __init__(self, obs_dim, hidden):
        super().__init__()
        self.v_net = mlp([obs_dim, *hidden, 1])

    def forward(self, obs):
        return torch.squeeze(self.v_net(obs), -1)


class ActorCritic(nn.Module):
    def __init__(self, obs_space, act_space, hidden=(64, 64)):
        super().__init__()
        obs_dim = obs_space.shape[0]
        if isinstance(act_space, Box):
            self.pi = GaussianActor(obs_dim, act_space.shape[0], hidden)
        elif isinstance(act_space, Discrete):
            self.pi = CategoricalActor(obs_dim, int(act_space.n), hidden)
        self.v = Critic(obs_dim, hidden)

    def step(self, obs):
        with torch.no_grad():
            pi = self.pi._distribution(obs)
            a = pi.sample()
            logp_a = self.pi._log_prob_from_distribution(pi, a)
            v = self.v(obs)
        return a.numpy(), v.numpy(), logp_a.numpy()


class TrajectoryBuffer:
    """Stores what the agent met, and computes advantages with GAE-lambda when a path ends."""

    def __init__(self, obs_dim, act_shape, size, gamma=0.99, lam=0.95):
        self.obs_buf = np.zeros((size, obs_dim), dtype=np.float32)
        self.act_buf = np.zeros((size, *act_shape), dtype=np.float32)
        self.adv_buf = np.zeros(size, dtype=np.float32)
        self.rew_buf = np.zeros(size, dtype=np.float32)
        self.ret_buf = np.zeros(size, dtype=np.float32)
        self.val_buf = np.zeros(size, dtype=np.float32)
        self.logp_buf = np.zeros(size, dtype=np.float32)
        self.gamma, self.lam = gamma, lam
        self.ptr, self.path_start_idx, self.max_size = 0, 0, size

    def store(self, obs, act, rew, val, logp):
        assert self.ptr < self.max_size
        self.obs_buf[self.ptr] = obs
        self.act_buf[self.ptr] = act
        self.rew_buf[self.ptr] = rew
        self.val_buf[self.ptr] = val
        self.logp_buf[self.ptr] = logp
        self.ptr += 1

    def finish_path(self, last_val=0.0):
        path_slice = slice(self.path_start_idx, self.ptr)
        rews = np.append(self.rew_buf[path_slice], last_val)
        vals = np.append(self.val_buf[path_slice], last_val)
        deltas = rews[:-1] + self.gamma * vals[1:] - vals[:-1]
        self.adv_buf[path_slice] = discount_cumsum(deltas, self.gamma * self.lam)
        self.ret_buf[path_slice] = discount_cumsum(rews, self.gamma)[:-1]
        self.path_start_idx = self.ptr

    def get(self):
        assert self.ptr == self.max_size
        self.ptr, self.path_start_idx = 0, 0
        adv_mean, adv_std = self.adv_buf.mean(), self.adv_buf.std()
        self.adv_buf = (self.adv_buf - adv_mean) / (adv_std + 1e-8)
        data = dict(obs=self.obs_buf, act=self.act_buf, ret=self.ret_buf, adv=self.adv_buf, logp=self.logp_buf)
        return {k: torch.as_tensor(v.copy(), dtype=torch.float32) for k, v in data.items()}


def train(env_name="CartPole-v1", hidden=(64, 64), seed=0, steps_per_epoch=4000, epochs=50, gamma=0.99, clip_ratio=0.2,
          pi_lr=3e-4, vf_lr=1e-3, train_pi_iters=80, train_v_iters=80, lam=0.97, target_kl=0.01):
    torch.manual_seed(seed)
    np.random.seed(seed)
    env = gym.make(env_name)
    ac = ActorCritic(env.observation_space, env.action_space, hidden)
    buf = TrajectoryBuffer(env.observation_space.shape[0], env.action_space.shape, steps_per_epoch, gamma, lam)

    def compute_loss_pi(data):
        obs, act, adv, logp_old = data["obs"], data["act"], data["adv"], data["logp"]
        pi, logp = ac.pi(obs, act)
        ratio = torch.exp(logp - logp_old)
        clip_adv = torch.clamp(ratio, 1 - clip_ratio, 1 + clip_ratio) * adv
        loss_pi = -(torch.min(ratio * adv, clip_adv)).mean()
        approx_kl = (logp_old - logp).mean().item()
        return loss_pi, approx_kl

    def compute_loss_v(data):
        return ((ac.v(data["obs"]) - data["ret"]) ** 2).mean()

    pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr)
    vf_optimizer = Adam(ac.v.parameters(), lr=vf_lr)

    def update():
        data = buf.get()
        for i in range(train_pi_iters):
            pi_optimizer.zero_grad()
            loss_pi, kl = compute_loss_pi(data)
            if kl > 1.5 * target_kl:
                break
            loss_pi.backward()
            pi_optimizer.step()
        for i in range(train_v_iters):
            vf_optimizer.zero_grad()
            loss_v = compute_loss_v(data)
            loss_v.backward()
            vf_optimizer.step()
        return loss_v.item(), kl

    o, _ = env.reset(seed=seed)
    ep_ret, ep_len = 0, 0
    for epoch in range(epochs):
        finished = []
        for t in range(steps_per_epoch):
            a, v, logp = ac.step(torch.as_tensor(o, dtype=torch.float32))
            env_action = np.clip(a, env.action_space.low, env.action_space.high) if isinstance(env.action_space, Box) else int(a)
            next_o, r, terminated, truncated, _ = env.step(env_action)
            ep_ret += r
            ep_len += 1
            buf.store(o, a, r, v, logp)
            o = next_o

            epoch_ended = t == steps_per_epoch - 1
            if terminated or truncated or epoch_ended:
                # a path that was merely cut is worth what the critic expects of the rest
                if terminated:
                    last_v = 0.0
                else:
                    _, last_v, _ = ac.step(torch.as_tensor(o, dtype=torch.float32))
                buf.finish_path(last_v)
                if terminated or truncated:
                    finished.append(ep_ret)
                o, _ = env.reset()
                ep_ret, ep_len = 0, 0
        loss_v, kl = update()
        print(f"epoch {epoch:3d}  return {np.mean(finished) if finished else float('nan'):8.2f}  v-loss {loss_v:.3f}  kl {kl:.4f}")
    env.close()
    return ac


def run_policy(ac, env_name, episodes=10, seed=1234):
    env = gym.make(env_name)
    scores = []
    for i in range(episodes):
        o, _ = env.reset(seed=seed + i)
        score, over = 0.0, False
        while not over:
            with torch.no_grad():
                pi = ac.pi._distribution(torch.as_tensor(o, dtype=torch.float32))
            a = pi.mean.numpy() if isinstance(pi, Normal) else int(pi.probs.argmax())
            o, r, terminated, truncated, _ = env.step(a)
            score += r
            over = terminated or truncated
        scores.append(score)
    env.close()
    return np.mean(scores)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=50)
    args = parser.parse_args()
    policy = train(args.env, seed=args.seed, steps_per_epoch=args.steps, epochs=args.epochs)
    print("test return", run_policy(policy, args.env))
