"""Double DQN written as small cooperating objects: a configuration, a memory, a behaviour, a learner and a session."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

import gymnasium
import torch
from torch import Tensor, nn, optim


@dataclass
class Settings:
    task: str = "LunarLander-v3"
    gamma: float = 0.99
    lr: float = 5e-4
    capacity: int = 100_000
    minibatch: int = 128
    first_update: int = 2_000
    sync_period: int = 1_000
    eps_from: float = 1.0
    eps_to: float = 0.05
    eps_steps: int = 50_000
    total: int = 300_000
    layers: tuple[int, ...] = field(default=(128, 128))


class Experience(NamedTuple):
    before: Tensor
    choice: int
    gain: float
    after: Tensor
    absorbing: bool


class Memory:
    def __init__(self, capacity: int):
        self._rows: list[Experience] = []
        self._capacity = capacity
        self._cursor = 0

    def __len__(self) -> int:
        return len(self._rows)

    def remember(self, row: Experience) -> None:
        if len(self._rows) < self._capacity:
            self._rows.append(row)
        else:
            self._rows[self._cursor] = row
        self._cursor = (self._cursor + 1) % self._capacity

    def minibatch(self, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        rows = Experience(*zip(*random.sample(self._rows, size)))
        return (
            torch.stack(rows.before),
            torch.tensor(rows.choice, dtype=torch.long),
            torch.tensor(rows.gain, dtype=torch.float32),
            torch.stack(rows.after),
            torch.tensor(rows.absorbing, dtype=torch.float32),
        )


class Behaviour:
    """Epsilon-greedy with a linear decline."""

    def __init__(self, net: nn.Module, n_choices: int, settings: Settings):
        self.net, self.n_choices, self.settings = net, n_choices, settings

    def chance(self, clock: int) -> float:
        part = min(1.0, clock / self.settings.eps_steps)
        return self.settings.eps_from + part * (self.settings.eps_to - self.settings.eps_from)

    def choose(self, observation: Tensor, clock: int) -> int:
        if random.random() < self.chance(clock):
            return random.randrange(self.n_choices)
        with torch.no_grad():
            return int(self.net(observation.unsqueeze(0)).argmax(dim=-1))


class Learner:
    def __init__(self, n_in: int, n_out: int, settings: Settings):
        self.settings = settings
        self.live = self._build(n_in, n_out)
        self.frozen = self._build(n_in, n_out)
        self.frozen.load_state_dict(self.live.state_dict())
        self.optimizer = optim.AdamW(self.live.parameters(), lr=settings.lr)
        self.criterion = nn.SmoothL1Loss()
        self.n_updates = 0

    def _build(self, n_in: int, n_out: int) -> nn.Module:
        widths = (n_in, *self.settings.layers)
        parts: list[nn.Module] = []
        for a, b in zip(widths[:-1], widths[1:]):
            parts += [nn.Linear(a, b), nn.ReLU()]
        return nn.Sequential(*parts, nn.Linear(widths[-1], n_out))

    def bellman(self, gain: Tensor, after: Tensor, absorbing: Tensor) -> Tensor:
        with torch.no_grad():
            best = self.live(after).argmax(dim=1, keepdim=True)
            future = self.frozen(after).gather(1, best).squeeze(1)
            return gain + self.settings.gamma * (1.0 - absorbing) * future

    def learn(self, memory: Memory) -> float:
        before, choice, gain, after, absorbing = memory.minibatch(self.settings.minibatch)
        estimate = self.live(before).gather(1, choice.unsqueeze(1)).squeeze(1)
        goal = self.bellman(gain, after, absorbing)
        loss = self.criterion(estimate, goal)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.live.parameters(), 10.0)
        self.optimizer.step()
        self.n_updates += 1
        if self.n_updates % self.settings.sync_period == 0:
            self.frozen.load_state_dict(self.live.state_dict())
        return loss.item()


class Session:
    def __init__(self, settings: Settings):
        self.settings = settings
        self.task = gymnasium.make(settings.task)
        n_in = self.task.observation_space.shape[0]
        n_out = int(self.task.action_space.n)
        self.memory = Memory(settings.capacity)
        self.learner = Learner(n_in, n_out, settings)
        self.behaviour = Behaviour(self.learner.live, n_out, settings)

    def run(self) -> None:
        view, _ = self.task.reset(seed=11)
        view = torch.as_tensor(view, dtype=torch.float32)
        score = 0.0
        for clock in range(self.settings.total):
            choice = self.behaviour.choose(view, clock)
            raw, gain, absorbing, expired, _ = self.task.step(choice)
            upcoming = torch.as_tensor(raw, dtype=torch.float32)
            self.memory.remember(Experience(view, choice, float(gain), upcoming, absorbing))
            score += float(gain)
            view = upcoming
            if absorbing or expired:
                print(clock, score)
                raw, _ = self.task.reset()
                view = torch.as_tensor(raw, dtype=torch.float32)
                score = 0.0
            if len(self.memory) >= self.settings.first_update:
                self.learner.learn(self.memory)


if __name__ == "__main__":
    random.seed(11)
    torch.manual_seed(11)
    Session(Settings()).run()
