"""PPO-clip with a GAE buffer; discrete or continuous actions."""
import argparse

import gymnasium as gym
import numpy as np
import scipy.signal
import torch
import torch.nn as nn
from torch.distributions.categorical import Categorical
from torch.distributions.normal import Normal
from torch.optim import Adam


def mlp(sizes, activation, output_activation=nn.Identity):
    layers = []
    for j in range(len(sizes) - 1):
        act = activation if j < len(sizes) - 2 else output_activation
        layers += [nn.Linear(sizes[j], sizes[j + 1]), act()]
    return nn.Sequential(*layers)


def discount_cumsum(x, discount):
    """[x0 + d*x1 + d^2*x2, x1 + d*x2, x2]"""
    return scipy.signal.lfilter([1], [1, float(-discount)], x[::-1], axis=0)[::-1]


class CategoricalActor(nn.Module):
    def __init__(self, obs_dim, n_act, hidden):
        super().__init__()
        self.logits_net = mlp([obs_dim, *hidden, n_act], nn.Tanh)

    def dist(self, obs):
        return Categorical(logits=self.logits_net(obs))

    def logp(self, pi, act):
        return pi.log_prob(act)


class GaussianActor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.log_std = nn.Parameter(-0.5 * torch.ones(act_dim))
        self.mu_net = mlp([obs_dim, *hidden, act_dim], nn.Tanh)

    def dist(self, obs):
        return Normal(self.mu_net(obs), torch.exp(self.log_std))

    def logp(self, pi, act):
        return pi.log_prob(act).sum(axis=-1)


class ActorCritic(nn.Module):
    def __init__(self, env, hidden=(64, 64)):
        super().__init__()
        obs_dim = env.observation_space.shape[0]
        if isinstance(env.action_space, gym.spaces.Box):
            self.pi = GaussianActor(obs_dim, env.action_space.shape[0], hidden)
        else:
            self.pi = CategoricalActor(obs_dim, env.action_space.n, hidden)
        self.v = mlp([obs_dim, *hidden, 1], nn.Tanh)

    def value(self, obs):
        return self.v(obs).squeeze(-1)

    @torch.no_grad()
    def step(self, obs):
        pi = self.pi.dist(obs)
        a = pi.sample()
        return a.numpy(), self.value(obs).item(), self.pi.logp(pi, a).item()


class PPOBuffer:
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

    def finish_path(self, last_val=0):
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
        adv = (self.adv_buf - self.adv_buf.mean()) / (self.adv_buf.std() + 1e-8)
        data = dict(obs=self.obs_buf, act=self.act_buf, ret=self.ret_buf, adv=adv, logp=self.logp_buf)
        return {k: torch.as_tensor(v, dtype=torch.float32) for k, v in data.items()}


def ppo(env_fn, seed=0, steps_per_epoch=4000, epochs=50, gamma=0.99, clip_ratio=0.2, pi_lr=3e-4,
        vf_lr=1e-3, train_pi_iters=80, train_v_iters=80, lam=0.97, max_ep_len=1000,
        target_kl=0.01, ent_coef=0.0):
    torch.manual_seed(seed)
    np.random.seed(seed)
    env = env_fn()
    ac = ActorCritic(env)
    buf = PPOBuffer(env.observation_space.shape[0], env.action_space.shape, steps_per_epoch, gamma, lam)

    def compute_loss_pi(data):
        obs, act, adv, logp_old = data["obs"], data["act"], data["adv"], data["logp"]
        pi = ac.pi.dist(obs)
        logp = ac.pi.logp(pi, act)
        ratio = torch.exp(logp - logp_old)
        clip_adv = torch.clamp(ratio, 1 - clip_ratio, 1 + clip_ratio) * adv
        ent = pi.entropy().mean()
        loss_pi = -torch.min(ratio * adv, clip_adv).mean() - ent_coef * ent
        approx_kl = (logp_old - logp).mean().item()
        return loss_pi, dict(kl=approx_kl, ent=ent.item())

    def compute_loss_v(data):
        return ((ac.value(data["obs"]) - data["ret"]) ** 2).mean()

    pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr)
    vf_optimizer = Adam(ac.v.parameters(), lr=vf_lr)

    def update():
        data = buf.get()
        for i in range(train_pi_iters):
            pi_optimizer.zero_grad()
            loss_pi, pi_info = compute_loss_pi(data)
            if pi_info["kl"] > 1.5 * target_kl:
                break
            loss_pi.backward()
            pi_optimizer.step()
        for _ in range(train_v_iters):
            vf_optimizer.zero_grad()
            loss_v = compute_loss_v(data)
            loss_v.backward()
            vf_optimizer.step()
        return dict(StopIter=i, LossV=loss_v.item(), **pi_info)

    o, _ = env.reset(seed=seed)
    ep_ret, ep_len = 0.0, 0
    for epoch in range(epochs):
        ep_rets = []
        for t in range(steps_per_epoch):
            a, v, logp = ac.step(torch.as_tensor(o, dtype=torch.float32))
            next_o, r, terminated, truncated, _ = env.step(a)
            ep_ret += r
            ep_len += 1
            buf.store(o, a, r, v, logp)
            o = next_o

            timeout = truncated or ep_len == max_ep_len
            epoch_ended = t == steps_per_epoch - 1
            if terminated or timeout or epoch_ended:
                # bootstrap when the trajectory was cut, not when the task ended
                if terminated:
                    v = 0.0
                else:
                    _, v, _ = ac.step(torch.as_tensor(o, dtype=torch.float32))
                buf.finish_path(v)
                if terminated or timeout:
                    ep_rets.append(ep_ret)
                o, _ = env.reset()
                ep_ret, ep_len = 0.0, 0
        info = update()
        mean_ret = np.mean(ep_rets) if ep_rets else float("nan")
        print(epoch, f"EpRet {mean_ret:.1f}", {k: round(float(x), 4) for k, x in info.items()})


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--env", default="CartPole-v1")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=4000)
    p.add_argument("--epochs", type=int, default=50)
    p.add_argument("--gamma", type=float, default=0.99)
    a = p.parse_args()
    ppo(lambda: gym.make(a.env), seed=a.seed, steps_per_epoch=a.steps, epochs=a.epochs, gamma=a.gamma)
