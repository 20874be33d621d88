"""PPO agent class: shared trunk, running observation normalisation, reward scaling; continuous or discrete actions."""
import os

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical, Independent, Normal


class RunningMeanStd:
    def __init__(self, shape=()):
        self.mean = np.zeros(shape, dtype=np.float64)
        self.var = np.ones(shape, dtype=np.float64)
        self.count = 1e-4

    def update(self, x):
        batch_mean, batch_var, n = x.mean(axis=0), x.var(axis=0), x.shape[0]
        delta = batch_mean - self.mean
        total = self.count + n
        self.mean = self.mean + delta * n / total
        m2 = self.var * self.count + batch_var * n + delta**2 * self.count * n / total
        self.var = m2 / total
        self.count = total

    def normalise(self, x):
        return np.clip((x - self.mean) / np.sqrt(self.var + 1e-8), -10.0, 10.0).astype(np.float32)


class Net(nn.Module):
    def __init__(self, n_obs, action_space):
        super().__init__()
        self.discrete = isinstance(action_space, gym.spaces.Discrete)
        self.trunk = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        if self.discrete:
            self.pi = nn.Linear(64, action_space.n)
        else:
            self.pi = nn.Linear(64, action_space.shape[0])
            self.log_std = nn.Parameter(torch.zeros(action_space.shape[0]))
        self.vf = nn.Linear(64, 1)
        nn.init.orthogonal_(self.pi.weight, 0.01)

    def forward(self, obs):
        h = self.trunk(obs)
        out = self.pi(h)
        dist = Categorical(logits=out) if self.discrete else Independent(Normal(out, self.log_std.exp()), 1)
        return dist, self.vf(h).squeeze(-1)


class PPOAgent:
    def __init__(self, env, n_steps=1024, epochs=10, minibatch=64, gamma=0.99, lam=0.95, clip=0.2, lr=3e-4, vf_coef=0.5, ent_coef=0.0, seed=0):
        self.env = env
        self.n_steps, self.epochs, self.minibatch = n_steps, epochs, minibatch
        self.gamma, self.lam, self.clip = gamma, lam, clip
        self.vf_coef, self.ent_coef = vf_coef, ent_coef
        self.net = Net(env.observation_space.shape[0], env.action_space)
        self.optim = torch.optim.Adam(self.net.parameters(), lr=lr)
        self.obs_rms = RunningMeanStd(env.observation_space.shape)
        self.ret_rms = RunningMeanStd()
        self.running_return = 0.0
        self.raw_obs, _ = env.reset(seed=seed)
        self.obs_rms.update(self.raw_obs[None])
        self.score, self.scores = 0.0, []

    def _env_action(self, action):
        if self.net.discrete:
            return int(action)
        return np.clip(action.numpy(), self.env.action_space.low, self.env.action_space.high)

    @torch.no_grad()
    def _value(self, raw_obs):
        return self.net(torch.from_numpy(self.obs_rms.normalise(raw_obs)))[1].item()

    def collect(self):
        store = {k: [] for k in ("obs", "action", "logp", "value", "reward", "next_value", "terminated", "ended")}
        seen = []
        for _ in range(self.n_steps):
            obs = torch.from_numpy(self.obs_rms.normalise(self.raw_obs))
            with torch.no_grad():
                dist, value = self.net(obs)
                action = dist.sample()
                logp = dist.log_prob(action)
            next_raw, reward, terminated, truncated, _ = self.env.step(self._env_action(action))
            seen.append(next_raw)
            ended = terminated or truncated
            self.score += reward

            # the scale of rewards follows that of discounted returns; their sign and zero stay
            self.running_return = self.gamma * self.running_return + reward
            self.ret_rms.update(np.array([self.running_return]))
            scaled = float(np.clip(reward / np.sqrt(self.ret_rms.var + 1e-8), -10, 10))

            store["obs"].append(obs)
            store["action"].append(action)
            store["logp"].append(logp)
            store["value"].append(value.item())
            store["reward"].append(scaled)
            store["terminated"].append(float(terminated))
            store["ended"].append(float(ended))
            store["next_value"].append(self._value(next_raw))
            self.raw_obs = next_raw
            if ended:
                self.scores.append(self.score)
                self.score, self.running_return = 0.0, 0.0
                self.raw_obs, _ = self.env.reset()
                seen.append(self.raw_obs)
        # statistics move between rollouts, so that one rollout is seen on one scale
        self.obs_rms.update(np.array(seen))
        return store

    def advantages(self, store):
        reward, value, next_value = (np.array(store[k], dtype=np.float32) for k in ("reward", "value", "next_value"))
        terminated, ended = np.array(store["terminated"]), np.array(store["ended"])
        adv = np.zeros(self.n_steps, dtype=np.float32)
        running = 0.0
        for t in range(self.n_steps - 1, -1, -1):
            delta = reward[t] + self.gamma * next_value[t] * (1 - terminated[t]) - value[t]
            running = delta + self.gamma * self.lam * (1 - ended[t]) * running
            adv[t] = running
        return torch.from_numpy(adv), torch.from_numpy(adv + value)

    def update(self, store):
        adv, ret = self.advantages(store)
        obs = torch.stack(store["obs"])
        action = torch.stack(store["action"])
        logp_old = torch.stack(store["logp"])
        stats = []
        for _ in range(self.epochs):
            for rows in torch.randperm(self.n_steps).split(self.minibatch):
                dist, value = self.net(obs[rows])
                log_ratio = dist.log_prob(action[rows]) - logp_old[rows]
                ratio = log_ratio.exp()
                a = adv[rows]
                a = (a - a.mean()) / (a.std() + 1e-8)
                surrogate = torch.min(ratio * a, ratio.clamp(1 - self.clip, 1 + self.clip) * a)
                pi_loss = -surrogate.mean()
                v_loss = (ret[rows] - value).pow(2).mean()
                entropy = dist.entropy().mean()
                loss = pi_loss + self.vf_coef * v_loss - self.ent_coef * entropy
                self.optim.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
                self.optim.step()
                stats.append((pi_loss.item(), v_loss.item(), entropy.item(), (ratio - 1 - log_ratio).mean().item()))
        return np.mean(stats, axis=0)

    @torch.no_grad()
    def evaluate(self, env, episodes=5):
        totals = []
        for k in range(episodes):
            obs, _ = env.reset(seed=900 + k)
            total, over = 0.0, False
            while not over:
                dist, _ = self.net(torch.from_numpy(self.obs_rms.normalise(obs)))
                action = dist.probs.argmax() if self.net.discrete else dist.mean
                obs, reward, terminated, truncated, _ = env.step(self._env_action(action))
                total += reward
                over = terminated or truncated
            totals.append(total)
        return np.mean(totals)

    def train(self, iterations):
        for it in range(iterations):
            pi, v, ent, kl = self.update(self.collect())
            print(f"{it:3d} pi {pi:+.4f} v {v:.3f} H {ent:.3f} kl {kl:.4f} score {np.mean(self.scores[-10:]) if self.scores else float('nan'):.1f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    name = os.environ.get("ENV", "Pendulum-v1")
    agent = PPOAgent(gym.make(name), n_steps=int(os.environ.get("N_STEPS", 1024)))
    agent.train(int(os.environ.get("ITERATIONS", 100)))
    print("evaluation", agent.evaluate(gym.make(name)))
