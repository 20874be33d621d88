"""PPO for continuous control on a SyncVectorEnv, SAME_STEP autoreset (the old final_obs / final_info behaviour)."""
import argparse
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch.distributions.normal import Normal


def cli():
    p = argparse.ArgumentParser()
    p.add_argument("--env", default="Pendulum-v1")
    p.add_argument("--num-envs", type=int, default=8)
    p.add_argument("--horizon", type=int, default=256)
    p.add_argument("--steps", type=int, default=300_000)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--minibatches", type=int, default=16)
    p.add_argument("--gamma", type=float, default=0.95)
    p.add_argument("--lam", type=float, default=0.95)
    p.add_argument("--clip", type=float, default=0.2)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--vf", type=float, default=0.5)
    p.add_argument("--ent", type=float, default=0.0)
    p.add_argument("--seed", type=int, default=9)
    return p.parse_args()


def make_one(env_id):
    def thunk():
        env = gym.make(env_id)
        env = gym.wrappers.RecordEpisodeStatistics(env)
        env = gym.wrappers.ClipAction(env)
        return env

    return thunk


class GaussianActorCritic(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(obs_dim, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, act_dim))
        self.log_std = nn.Parameter(torch.zeros(act_dim))
        self.value = nn.Sequential(nn.Linear(obs_dim, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def dist(self, obs):
        mu = self.mean(obs)
        return Normal(mu, self.log_std.exp().expand_as(mu))

    def v(self, obs):
        return self.value(obs).flatten()


def main():
    cfg = cli()
    np.random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)

    envs = SyncVectorEnv([make_one(cfg.env) for _ in range(cfg.num_envs)], autoreset_mode=AutoresetMode.SAME_STEP)
    D = envs.single_observation_space.shape[0]
    A = envs.single_action_space.shape[0]
    net = GaussianActorCritic(D, A)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr, eps=1e-5)

    T, E = cfg.horizon, cfg.num_envs
    obs_buf = torch.zeros(T, E, D)
    act_buf = torch.zeros(T, E, A)
    logp_buf = torch.zeros(T, E)
    rew_buf = torch.zeros(T, E)
    val_buf = torch.zeros(T, E)
    nextval_buf = torch.zeros(T, E)
    term_buf = torch.zeros(T, E)
    end_buf = torch.zeros(T, E)

    obs, _ = envs.reset(seed=[cfg.seed + i for i in range(E)])
    obs = torch.as_tensor(obs, dtype=torch.float32)
    returns_log = []
    begin = time.time()
    n_iter = max(1, cfg.steps // (T * E))

    for it in range(n_iter):
        opt.param_groups[0]["lr"] = cfg.lr * (1.0 - it / n_iter)

        for t in range(T):
            with torch.no_grad():
                pi = net.dist(obs)
                action = pi.sample()
                logp_buf[t] = pi.log_prob(action).sum(-1)
                val_buf[t] = net.v(obs)
            obs_buf[t] = obs
            act_buf[t] = action

            nxt, reward, term, trunc, info = envs.step(action.numpy())
            ended = np.logical_or(term, trunc)
            # in SAME_STEP mode `nxt` is already the first observation of the new episode
            # where the episode ended; the true successor is in final_obs
            successor = nxt.copy()
            if "final_obs" in info:
                for i in np.flatnonzero(ended):
                    successor[i] = info["final_obs"][i]
                ep = info["final_info"].get("episode")
                if ep is not None:
                    returns_log.extend(float(ep["r"][i]) for i in np.flatnonzero(ended))
            with torch.no_grad():
                nextval_buf[t] = net.v(torch.as_tensor(successor, dtype=torch.float32))
            rew_buf[t] = torch.as_tensor(reward, dtype=torch.float32)
            term_buf[t] = torch.as_tensor(term, dtype=torch.float32)
            end_buf[t] = torch.as_tensor(ended, dtype=torch.float32)
            obs = torch.as_tensor(nxt, dtype=torch.float32)

        adv = torch.zeros(T, E)
        running = torch.zeros(E)
        for t in reversed(range(T)):
            td = rew_buf[t] + cfg.gamma * nextval_buf[t] * (1.0 - term_buf[t]) - val_buf[t]
            running = td + cfg.gamma * cfg.lam * (1.0 - end_buf[t]) * running
            adv[t] = running
        ret = adv + val_buf

        flat_obs = obs_buf.reshape(-1, D)
        flat_act = act_buf.reshape(-1, A)
        flat_logp = logp_buf.reshape(-1)
        flat_adv = adv.reshape(-1)
        flat_ret = ret.reshape(-1)

        size = T * E
        mb_size = size // cfg.minibatches
        for _ in range(cfg.epochs):
            order = torch.randperm(size)
            for k in range(0, size, mb_size):
                ids = order[k:k + mb_size]
                pi = net.dist(flat_obs[ids])
                new_logp = pi.log_prob(flat_act[ids]).sum(-1)
                entropy = pi.entropy().sum(-1).mean()
                log_ratio = new_logp - flat_logp[ids]
                ratio = log_ratio.exp()
                a = flat_adv[ids]
                a = (a - a.mean()) / (a.std() + 1e-8)
                pg = torch.max(-a * ratio, -a * ratio.clamp(1 - cfg.clip, 1 + cfg.clip)).mean()
                vl = 0.5 * (net.v(flat_obs[ids]) - flat_ret[ids]).pow(2).mean()
                loss = pg + cfg.vf * vl - cfg.ent * entropy
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                opt.step()

        sps = int((it + 1) * size / (time.time() - begin))
        tail = np.mean(returns_log[-40:]) if returns_log else float("nan")
        print(f"iter {it} steps {(it + 1) * size} return {tail:.1f} pg {pg.item():.3f} v {vl.item():.2f} sps {sps}")

    envs.close()


if __name__ == "__main__":
    main()
