import argparse

import gymnasium as gym
import numpy as np
import scipy.signal
import torch
import torch.nn as nn
from torch.distributions import Categorical, kl_divergence
from torch.nn.utils import parameters_to_vector, vector_to_parameters

EPS = 1e-8


def discount_cumsum(x, discount):
    """[x0, x1, x2] -> [x0 + discount * x1 + discount^2 * x2, x1 + discount * x2, x2]"""
    return scipy.signal.lfilter([1], [1, float(-discount)], x[::-1], axis=0)[::-1]


class GAEBuffer:
    """Stores trajectories and computes GAE-lambda advantages and rewards-to-go at the end of each path."""

    def __init__(self, obs_dim, size, gamma=0.99, lam=0.97):
        self.obs_buf = np.zeros((size, obs_dim), dtype=np.float32)
        self.act_buf = np.zeros(size, dtype=np.int64)
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
        """last_val is V(s_T) where the path was cut off, and 0 where the agent reached a terminal state."""
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
        self.adv_buf = (self.adv_buf - self.adv_buf.mean()) / (self.adv_buf.std() + EPS)
        bufs = (self.obs_buf, self.act_buf, self.adv_buf, self.ret_buf, self.logp_buf)
        return [torch.as_tensor(b) for b in bufs]


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden=64):
        super().__init__()
        self.logits_net = nn.Sequential(
            nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, act_dim)
        )

    def distribution(self, obs):
        return Categorical(logits=self.logits_net(obs))


def conjugate_gradient(Ax, b, iters=10):
    """Solves A x = b for a symmetric positive definite A that is known by its products alone."""
    x = torch.zeros_like(b)
    r = b.clone()
    p = r.clone()
    r_dot_old = torch.dot(r, r)
    for _ in range(iters):
        z = Ax(p)
        alpha = r_dot_old / (torch.dot(p, z) + EPS)
        x += alpha * p
        r -= alpha * z
        r_dot_new = torch.dot(r, r)
        p = r + (r_dot_new / (r_dot_old + EPS)) * p
        r_dot_old = r_dot_new
    return x


def trpo(env_fn, seed=0, steps_per_epoch=4000, epochs=50, gamma=0.99, lam=0.97, delta=0.01, vf_lr=1e-3,
         train_v_iters=80, damping_coeff=0.1, cg_iters=10, backtrack_iters=10, backtrack_coeff=0.8, max_ep_len=1000):
    torch.manual_seed(seed)
    np.random.seed(seed)
    env = env_fn()
    obs_dim = env.observation_space.shape[0]
    actor = Actor(obs_dim, env.action_space.n)
    critic = nn.Sequential(nn.Linear(obs_dim, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    vf_optimizer = torch.optim.Adam(critic.parameters(), lr=vf_lr)
    buf = GAEBuffer(obs_dim, steps_per_epoch, gamma, lam)

    def surrogate(obs, act, adv, logp_old):
        ratio = torch.exp(actor.distribution(obs).log_prob(act) - logp_old)
        return (ratio * adv).mean()

    def update():
        obs, act, adv, ret, logp_old = buf.get()
        with torch.no_grad():
            pi_old = actor.distribution(obs)

        def mean_kl():
            return kl_divergence(pi_old, actor.distribution(obs)).mean()

        def hessian_vector_product(v):
            params = list(actor.parameters())
            grads = torch.autograd.grad(mean_kl(), params, create_graph=True)
            flat_grad = torch.cat([g.reshape(-1) for g in grads])
            hvp = torch.autograd.grad(torch.dot(flat_grad, v), params)
            return torch.cat([g.reshape(-1) for g in hvp]) + damping_coeff * v

        objective = surrogate(obs, act, adv, logp_old)
        grads = torch.autograd.grad(objective, list(actor.parameters()))
        g = torch.cat([each.reshape(-1) for each in grads])
        x = conjugate_gradient(hessian_vector_product, g, cg_iters)
        step_size = torch.sqrt(2 * delta / (torch.dot(x, hessian_vector_product(x)) + EPS))
        old_params = parameters_to_vector(actor.parameters()).detach().clone()
        pi_l_old = objective.item()

        for j in range(backtrack_iters):
            vector_to_parameters(old_params + backtrack_coeff**j * step_size * x, actor.parameters())
            with torch.no_grad():
                kl, pi_l_new = mean_kl(), surrogate(obs, act, adv, logp_old)
            if kl <= delta and pi_l_new > pi_l_old:
                break
        else:
            vector_to_parameters(old_params, actor.parameters())

        for _ in range(train_v_iters):
            vf_optimizer.zero_grad()
            loss_v = ((critic(obs).squeeze(-1) - ret) ** 2).mean()
            loss_v.backward()
            vf_optimizer.step()
        return kl.item(), loss_v.item()

    def act_and_value(o):
        o = torch.as_tensor(o, dtype=torch.float32)
        with torch.no_grad():
            pi = actor.distribution(o)
            a = pi.sample()
            return a.item(), critic(o).item(), pi.log_prob(a).item()

    o, _ = env.reset(seed=seed)
    ep_ret, ep_len = 0.0, 0
    for epoch in range(epochs):
        returns = []
        for t in range(steps_per_epoch):
            a, v, logp = act_and_value(o)
            next_o, r, terminated, truncated, _ = env.step(a)
            ep_ret += r
            ep_len += 1
            buf.store(o, a, r, v, logp)
            o = next_o

            timeout = truncated or ep_len == max_ep_len
            epoch_ended = t == steps_per_epoch - 1
            if terminated or timeout or epoch_ended:
                # a path that was cut off is worth what the critic expects of the rest
                last_val = 0.0 if terminated else act_and_value(o)[1]
                buf.finish_path(last_val)
                if terminated or timeout:
                    returns.append(ep_ret)
                o, _ = env.reset()
                ep_ret, ep_len = 0.0, 0
        kl, loss_v = update()
        print(f"epoch {epoch:3d}  return {np.mean(returns) if returns else float('nan'):8.2f}  kl {kl:.4f}  v {loss_v:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", type=str, default="CartPole-v1")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    trpo(lambda: gym.make(args.env), seed=args.seed, steps_per_epoch=args.steps, epochs=args.epochs)
