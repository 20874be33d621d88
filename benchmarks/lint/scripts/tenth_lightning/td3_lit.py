"""TD3 in Lightning with manual optimization; one environment step a training step. Sizes for Pendulum."""
import copy

import gymnasium as gym
import lightning.pytorch as pl
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Ticks(Dataset):
    """A data set of nothing, as long as the steps of an epoch."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return i


class Ring:
    def __init__(self, capacity, n_obs, n_act):
        self.obs = torch.zeros(capacity, n_obs)
        self.act = torch.zeros(capacity, n_act)
        self.rew = torch.zeros(capacity, 1)
        self.nxt = torch.zeros(capacity, n_obs)
        self.end = torch.zeros(capacity, 1)
        self.capacity, self.at, self.filled = capacity, 0, 0

    def write(self, obs, act, rew, nxt, end):
        for column, value in ((self.obs, obs), (self.act, act), (self.rew, rew), (self.nxt, nxt), (self.end, end)):
            column[self.at] = torch.as_tensor(value, dtype=torch.float32)
        self.at = (self.at + 1) % self.capacity
        self.filled = min(self.filled + 1, self.capacity)

    def read(self, n):
        i = torch.randint(self.filled, (n,))
        return self.obs[i], self.act[i], self.rew[i], self.nxt[i], self.end[i]


def dense(n_in, n_out, *last):
    return nn.Sequential(nn.Linear(n_in, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, n_out), *last)


class TD3(pl.LightningModule):
    def __init__(self, env_id="Pendulum-v1", gamma=0.98, tau=0.005, lr=1e-3, batch=128, warmup=1000, noise=0.1,
                 smooth=0.2, smooth_max=0.5, delay=2, steps_per_epoch=1000):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.env, self.test_env = gym.make(env_id), gym.make(env_id)
        n_obs, n_act = self.env.observation_space.shape[0], self.env.action_space.shape[0]
        self.bound = float(self.env.action_space.high[0])
        self.policy = dense(n_obs, n_act, nn.Tanh())
        self.qa, self.qb = dense(n_obs + n_act, 1), dense(n_obs + n_act, 1)
        self.policy_slow, self.qa_slow, self.qb_slow = (copy.deepcopy(m).requires_grad_(False) for m in (self.policy, self.qa, self.qb))
        self.ring = Ring(100_000, n_obs, n_act)
        self.obs, _ = self.env.reset(seed=5)
        self.env.action_space.seed(5)
        self.ticks = 0

    def configure_optimizers(self):
        critics = [*self.qa.parameters(), *self.qb.parameters()]
        return torch.optim.Adam(self.policy.parameters(), lr=self.hparams.lr), torch.optim.Adam(critics, lr=self.hparams.lr)

    def train_dataloader(self):
        return DataLoader(Ticks(self.hparams.steps_per_epoch), batch_size=1)

    @torch.no_grad()
    def act(self, obs, noise=0.0):
        a = self.bound * self.policy(torch.as_tensor(obs, dtype=torch.float32))
        a = a + noise * self.bound * torch.randn_like(a)
        return a.clamp(-self.bound, self.bound).numpy()

    def interact(self):
        hp = self.hparams
        action = self.env.action_space.sample() if self.ticks < hp.warmup else self.act(self.obs, hp.noise)
        nxt, reward, terminated, truncated, _ = self.env.step(action)
        self.ring.write(self.obs, action, reward, nxt, terminated)
        self.obs = self.env.reset()[0] if terminated or truncated else nxt
        self.ticks += 1

    def training_step(self, _batch, _idx):
        self.interact()
        hp = self.hparams
        if self.ticks < hp.warmup:
            return
        opt_policy, opt_critics = self.optimizers()
        obs, act, rew, nxt, end = self.ring.read(hp.batch)

        with torch.no_grad():
            jitter = (hp.smooth * torch.randn_like(act)).clamp(-hp.smooth_max, hp.smooth_max)
            nxt_act = (self.policy_slow(nxt) + jitter).clamp(-1.0, 1.0) * self.bound
            pair = torch.cat([nxt, nxt_act], 1)
            goal = rew + hp.gamma * (1.0 - end) * torch.minimum(self.qa_slow(pair), self.qb_slow(pair))
        here = torch.cat([obs, act], 1)
        critic_loss = F.mse_loss(self.qa(here), goal) + F.mse_loss(self.qb(here), goal)
        opt_critics.zero_grad()
        self.manual_backward(critic_loss)
        opt_critics.step()

        if self.ticks % hp.delay == 0:
            policy_loss = -self.qa(torch.cat([obs, self.bound * self.policy(obs)], 1)).mean()
            opt_policy.zero_grad()
            self.manual_backward(policy_loss)
            opt_policy.step()
            for fast, slow in ((self.policy, self.policy_slow), (self.qa, self.qa_slow), (self.qb, self.qb_slow)):
                for p, q in zip(fast.parameters(), slow.parameters()):
                    q.data.mul_(1.0 - hp.tau).add_(p.data, alpha=hp.tau)
        self.log("critic_loss", critic_loss)

    def on_train_epoch_end(self):
        total = 0.0
        for k in range(5):
            obs, _ = self.test_env.reset(seed=100 + k)
            over = False
            while not over:
                obs, r, terminated, truncated, _ = self.test_env.step(self.act(obs))
                total += r
                over = terminated or truncated
        self.log("test_return", total / 5, prog_bar=True)


if __name__ == "__main__":
    pl.seed_everything(5)
    pl.Trainer(max_epochs=30, accelerator="cpu", logger=False, enable_checkpointing=False).fit(TD3())
