import os
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

UPDATES = int(os.environ.get("UPDATES", 4000))


@dataclass
class HParams:
    env: str = "CartPole-v1"
    n_envs: int = 8
    rollout: int = 16
    gamma: float = 0.99
    lam: float = 0.95
    lr: float = 7e-4
    value_coef: float = 0.5
    entropy_coef: float = 0.01
    grad_clip: float = 0.5
    seed: int = 42


@dataclass
class Rollout:
    obs: torch.Tensor        # [T, N, D]
    actions: torch.Tensor    # [T, N]
    advantages: torch.Tensor  # [T, N]
    returns: torch.Tensor    # [T, N]


class RolloutSource:
    """Yields one fresh on-policy batch per iteration."""

    def __init__(self, module, hp: HParams):
        self.module, self.hp = module, hp
        self.envs = gym.vector.SyncVectorEnv(
            [lambda: gym.make(hp.env) for _ in range(hp.n_envs)],
            autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
        )
        self.obs, _ = self.envs.reset(seed=hp.seed)
        self.running = np.zeros(hp.n_envs)
        self.finished = []

    def _value(self, obs):
        with torch.no_grad():
            _, v = self.module(torch.as_tensor(obs, dtype=torch.float32))
        return v.numpy()

    def collect(self) -> Rollout:
        hp = self.hp
        shape = (hp.rollout, hp.n_envs)
        obs_buf = np.zeros(shape + self.envs.single_observation_space.shape, np.float32)
        act_buf = np.zeros(shape, np.int64)
        rew_buf = np.zeros(shape, np.float32)
        over_buf = np.zeros(shape, np.float32)
        val_buf = np.zeros(shape, np.float32)
        next_val_buf = np.zeros(shape, np.float32)

        for t in range(hp.rollout):
            with torch.no_grad():
                dist, value = self.module(torch.as_tensor(self.obs, dtype=torch.float32))
                action = dist.sample().numpy()
            next_obs, reward, terminated, truncated, info = self.envs.step(action)
            over = terminated | truncated

            successor = next_obs.copy()
            for i in np.flatnonzero(over):
                successor[i] = info["final_obs"][i]

            obs_buf[t] = self.obs
            act_buf[t] = action
            rew_buf[t] = reward
            val_buf[t] = value.numpy()
            next_val_buf[t] = self._value(successor) * (1.0 - terminated)
            over_buf[t] = over

            self.running += reward
            for i in np.flatnonzero(over):
                self.finished.append(self.running[i])
                self.running[i] = 0.0
            self.obs = next_obs

        adv = np.zeros(shape, np.float32)
        acc = np.zeros(hp.n_envs, np.float32)
        for t in range(hp.rollout - 1, -1, -1):
            delta = rew_buf[t] + hp.gamma * next_val_buf[t] - val_buf[t]
            acc = delta + hp.gamma * hp.lam * (1.0 - over_buf[t]) * acc
            adv[t] = acc
        return Rollout(
            torch.from_numpy(obs_buf),
            torch.from_numpy(act_buf),
            torch.from_numpy(adv),
            torch.from_numpy(adv + val_buf),
        )

    def __iter__(self):
        while True:
            yield self.collect()


class A2CModule(nn.Module):
    def __init__(self, hp: HParams):
        super().__init__()
        self.hp = hp
        probe = gym.make(hp.env)
        d, n = probe.observation_space.shape[0], int(probe.action_space.n)
        probe.close()
        self.body = nn.Sequential(nn.Linear(d, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.policy_head = nn.Linear(64, n)
        self.value_head = nn.Linear(64, 1)
        self.metrics = {}

    def forward(self, x):
        h = self.body(x)
        return torch.distributions.Categorical(logits=self.policy_head(h)), self.value_head(h).squeeze(-1)

    def training_step(self, batch: Rollout, batch_idx: int):
        obs = batch.obs.flatten(0, 1)
        actions = batch.actions.flatten()
        adv = batch.advantages.flatten()
        returns = batch.returns.flatten()
        dist, values = self(obs)
        log_probs = dist.log_prob(actions)

        policy_loss = -(log_probs * adv).mean()
        value_loss = F.mse_loss(values, returns)
        entropy = dist.entropy().mean()
        loss = policy_loss + self.hp.value_coef * value_loss - self.hp.entropy_coef * entropy
        self.metrics = {"pi": policy_loss.item(), "v": value_loss.item(), "H": entropy.item()}
        return loss

    def configure_optimizers(self):
        return torch.optim.RMSprop(self.parameters(), lr=self.hp.lr, eps=1e-5, alpha=0.99)


class Trainer:
    def __init__(self, max_updates, grad_clip):
        self.max_updates, self.grad_clip = max_updates, grad_clip

    def fit(self, module, loader):
        opt = module.configure_optimizers()
        for i, batch in enumerate(loader):
            if i >= self.max_updates:
                break
            loss = module.training_step(batch, i)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(module.parameters(), self.grad_clip)
            opt.step()
            if i % 200 == 0:
                mean = np.mean(loader.finished[-50:]) if loader.finished else float("nan")
                print(f"update {i:5d} return {mean:6.1f} {module.metrics}")


@torch.no_grad()
def validate(module, hp, episodes=10):
    env = gym.make(hp.env)
    total = 0.0
    for ep in range(episodes):
        obs, _ = env.reset(seed=1234 + ep)
        over = False
        while not over:
            dist, _ = module(torch.as_tensor(obs, dtype=torch.float32))
            obs, reward, terminated, truncated, _ = env.step(int(dist.probs.argmax()))
            total += reward
            over = terminated or truncated
    env.close()
    return total / episodes


if __name__ == "__main__":
    hp = HParams()
    torch.manual_seed(hp.seed)
    np.random.seed(hp.seed)
    model = A2CModule(hp)
    Trainer(UPDATES, hp.grad_clip).fit(model, RolloutSource(model, hp))
    print("validation return", validate(model, hp))
