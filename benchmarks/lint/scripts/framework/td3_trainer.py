"""Small TD3 code base squeezed in one module (config -> agent -> trainer)."""
import argparse
import copy
import logging
from dataclasses import dataclass, asdict
from typing import Dict

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

log = logging.getLogger("td3")


@dataclass(frozen=True)
class TD3Config:
    env_name: str = "Pendulum-v1"
    max_steps: int = 40_000
    random_steps: int = 1_000
    replay_capacity: int = 100_000
    batch: int = 128
    discount: float = 0.99
    polyak: float = 0.995
    actor_lr: float = 1e-3
    critic_lr: float = 1e-3
    explore_sigma: float = 0.1
    smooth_sigma: float = 0.2
    smooth_clip: float = 0.5
    policy_delay: int = 2
    eval_interval: int = 5_000
    seed: int = 0
    device: str = "cpu"


class ReplayMemory:
    def __init__(self, capacity: int, obs_dim: int, act_dim: int, device: str):
        self.capacity, self.device = capacity, device
        self._store: Dict[str, np.ndarray] = {
            "obs": np.empty((capacity, obs_dim), np.float32),
            "act": np.empty((capacity, act_dim), np.float32),
            "rew": np.empty((capacity, 1), np.float32),
            "nobs": np.empty((capacity, obs_dim), np.float32),
            "term": np.empty((capacity, 1), np.float32),
        }
        self._next = 0
        self._len = 0

    def __len__(self) -> int:
        return self._len

    def add(self, **transition) -> None:
        for key, value in transition.items():
            self._store[key][self._next] = value
        self._next = (self._next + 1) % self.capacity
        self._len = min(self._len + 1, self.capacity)

    def sample(self, n: int) -> Dict[str, Tensor]:
        rows = np.random.randint(0, self._len, size=n)
        return {k: torch.as_tensor(v[rows], device=self.device) for k, v in self._store.items()}


class Actor(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, limit: float):
        super().__init__()
        self.limit = limit
        self.net = nn.Sequential(
            nn.Linear(obs_dim, 256), nn.ReLU(),
            nn.Linear(256, 256), nn.ReLU(),
            nn.Linear(256, act_dim), nn.Tanh(),
        )

    def forward(self, obs: Tensor) -> Tensor:
        return self.limit * self.net(obs)


class TwinCritic(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int):
        super().__init__()
        self.a = self._head(obs_dim + act_dim)
        self.b = self._head(obs_dim + act_dim)

    @staticmethod
    def _head(width: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, obs: Tensor, act: Tensor):
        x = torch.cat((obs, act), dim=1)
        return self.a(x), self.b(x)

    def first(self, obs: Tensor, act: Tensor) -> Tensor:
        return self.a(torch.cat((obs, act), dim=1))


class TD3Agent:
    def __init__(self, cfg: TD3Config, obs_dim: int, act_dim: int, limit: float):
        self.cfg = cfg
        self.limit = limit
        self.actor = Actor(obs_dim, act_dim, limit).to(cfg.device)
        self.critic = TwinCritic(obs_dim, act_dim).to(cfg.device)
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=cfg.actor_lr)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=cfg.critic_lr)
        self.updates = 0

    @torch.no_grad()
    def select(self, obs: np.ndarray, sigma: float = 0.0) -> np.ndarray:
        x = torch.as_tensor(obs, dtype=torch.float32, device=self.cfg.device).unsqueeze(0)
        act = self.actor(x).squeeze(0).cpu().numpy()
        if sigma > 0:
            act = act + np.random.normal(0.0, sigma * self.limit, size=act.shape)
        return np.clip(act, -self.limit, self.limit).astype(np.float32)

    def update(self, b: Dict[str, Tensor]) -> Dict[str, float]:
        cfg = self.cfg
        self.updates += 1
        with torch.no_grad():
            noise = (torch.randn_like(b["act"]) * cfg.smooth_sigma * self.limit)
            noise = noise.clamp(-cfg.smooth_clip * self.limit, cfg.smooth_clip * self.limit)
            next_act = (self.actor_target(b["nobs"]) + noise).clamp(-self.limit, self.limit)
            t1, t2 = self.critic_target(b["nobs"], next_act)
            backup = b["rew"] + cfg.discount * (1.0 - b["term"]) * torch.minimum(t1, t2)

        v1, v2 = self.critic(b["obs"], b["act"])
        critic_loss = nn.functional.mse_loss(v1, backup) + nn.functional.mse_loss(v2, backup)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()
        out = {"critic_loss": critic_loss.item()}

        if self.updates % cfg.policy_delay == 0:
            actor_loss = -self.critic.first(b["obs"], self.actor(b["obs"])).mean()
            self.actor_opt.zero_grad()
            actor_loss.backward()
            self.actor_opt.step()
            self._track(self.actor, self.actor_target)
            self._track(self.critic, self.critic_target)
            out["actor_loss"] = actor_loss.item()
        return out

    @torch.no_grad()
    def _track(self, source: nn.Module, slow: nn.Module) -> None:
        for p, p_slow in zip(source.parameters(), slow.parameters()):
            p_slow.data.copy_(self.cfg.polyak * p_slow.data + (1.0 - self.cfg.polyak) * p.data)


class Trainer:
    def __init__(self, cfg: TD3Config):
        self.cfg = cfg
        np.random.seed(cfg.seed)
        torch.manual_seed(cfg.seed)
        self.env = gym.make(cfg.env_name)
        self.env.action_space.seed(cfg.seed)
        self.eval_env = gym.make(cfg.env_name)
        space, box = self.env.observation_space, self.env.action_space
        self.agent = TD3Agent(cfg, space.shape[0], box.shape[0], float(box.high[0]))
        self.memory = ReplayMemory(cfg.replay_capacity, space.shape[0], box.shape[0], cfg.device)

    def evaluate(self, n: int = 5) -> float:
        scores = []
        for i in range(n):
            obs, _ = self.eval_env.reset(seed=self.cfg.seed + 500 + i)
            total, over = 0.0, False
            while not over:
                obs, rew, term, trunc, _ = self.eval_env.step(self.agent.select(obs))
                total += float(rew)
                over = term or trunc
            scores.append(total)
        return float(np.mean(scores))

    def fit(self) -> float:
        cfg = self.cfg
        log.info("config %s", asdict(cfg))
        obs, _ = self.env.reset(seed=cfg.seed)
        info = {}
        for step in range(cfg.max_steps):
            if step < cfg.random_steps:
                act = self.env.action_space.sample()
            else:
                act = self.agent.select(obs, cfg.explore_sigma)
            nobs, rew, term, trunc, _ = self.env.step(act)
            self.memory.add(obs=obs, act=act, rew=rew, nobs=nobs, term=float(term))
            if term or trunc:
                obs, _ = self.env.reset()
            else:
                obs = nobs
            if step >= cfg.random_steps:
                info = self.agent.update(self.memory.sample(cfg.batch))
            if (step + 1) % cfg.eval_interval == 0:
                log.info("step %d eval %.1f %s", step + 1, self.evaluate(), info)
        return self.evaluate()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=TD3Config.max_steps)
    parser.add_argument("--random-steps", type=int, default=TD3Config.random_steps)
    ns = parser.parse_args()
    trainer = Trainer(TD3Config(max_steps=ns.max_steps, random_steps=ns.random_steps))
    print("final", trainer.fit())
    torch.save(trainer.agent.actor.state_dict(), "/tmp/td3_actor.pt")
