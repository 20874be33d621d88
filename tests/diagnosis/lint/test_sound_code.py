"""Sound code that looks like a mistake from one side: each piece is left alone, and a mistake of its kind beside it is still named."""

import pytest

from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import linter
from rlclinic.diagnosis.lint.code.sources import Source

HEAD = """
import copy
import random
from collections import defaultdict, deque, namedtuple

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

"""
IMPLICIT_VALUES = """
q1, q2, v = (nn.Sequential(nn.Linear(n, 64), nn.ReLU(), nn.Linear(64, 1)) for n in (4, 4, 3))
slow1, slow2, slow_v = copy.deepcopy(q1), copy.deepcopy(q2), copy.deepcopy(v)
opt = torch.optim.Adam([*q1.parameters(), *q2.parameters(), *v.parameters()], lr=3e-4)
env = gym.make("Pendulum-v1")
memory = deque(maxlen=100_000)
obs, _ = env.reset(seed=0)
for t in range(50_000):
    a = env.action_space.sample()
    obs2, r, term, trunc, _ = env.step(a)
    memory.append((obs, a, r, obs2, term))
    obs = env.reset()[0] if term or trunc else obs2
    s, u, g, s2, end = (torch.as_tensor(np.array(c), dtype=torch.float32) for c in zip(*random.choices(memory, k=64)))
    su = torch.cat([s, u], 1)
    with torch.no_grad():
        y = g + 0.99 * (1 - end) * slow_v(s2).squeeze(1)
        best = torch.min(slow1(su), slow2(su)).squeeze(1)
    loss = F.mse_loss(q1(su).squeeze(1), y) + F.mse_loss(q2(su).squeeze(1), y) + F.mse_loss(v(s).squeeze(1), best)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for fast, slow in ((q1, slow1), (q2, slow2), (v, slow_v)):
            for w, old in zip(fast.parameters(), slow.parameters()):
                old += 0.005 * (w - old)
"""
COUNTED_TABLE = """
def play(env, q, eps):
    steps = []
    s, _ = env.reset()
    while True:
        a = int(np.random.randint(2)) if random.random() < eps else int(np.argmax(q[s]))
        s2, r, term, trunc, _ = env.step(a)
        steps.append((s, a, float(r)))
        if term or trunc:
            return steps
        s = s2


env = gym.make("Blackjack-v1")
q = defaultdict(lambda: np.zeros(2))
visits = defaultdict(lambda: np.zeros(2))
for k in range(10_000):
    g = 0.0
    for s, a, r in reversed(play(env, q, max(0.05, 1 - k / 5_000))):
        g = r + 0.99 * g
        visits[s][a] += 1
        q[s][a] += (g - q[s][a]) / visits[s][a]
test = gym.make("Blackjack-v1")
print(np.mean([sum(r for _, _, r in play(test, q, 0.0)) for _ in range(100)]))
"""
SLOW_COPIES = """
nets = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 2)])
nets_target = copy.deepcopy(nets)
opt = torch.optim.Adam(nets.parameters(), lr=1e-3)
env = gym.make("CartPole-v1")
memory = deque(maxlen=100_000)
obs, _ = env.reset(seed=0)
for t in range(50_000):
    a = env.action_space.sample()
    obs2, r, term, trunc, _ = env.step(a)
    memory.append((obs, a, r, obs2, term))
    obs = env.reset()[0] if term or trunc else obs2
    s, u, g, s2, end = (torch.as_tensor(np.array(c)) for c in zip(*random.choices(memory, k=64)))
    with torch.no_grad():
        y = g + 0.99 * (1 - end.float()) * torch.min(nets_target[0](s2), nets_target[1](s2)).max(1).values
    loss = sum(F.mse_loss(net(s).gather(1, u[:, None]).squeeze(1), y) for net in nets)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for w, slow in zip(nets.parameters(), nets_target.parameters()):
            slow += 0.005 * (w - slow)
"""
FALLING_BALL = """
class Catch(gym.Env):
    def __init__(self):
        self.action_space = gym.spaces.Discrete(3)
        self.observation_space = gym.spaces.Box(0, 10, (3,))

    def _look(self):
        return np.array([self.y, self.x, self.paddle], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.y, self.x, self.paddle = 0, int(self.np_random.integers(10)), 5
        return self._look(), {}

    def step(self, action):
        self.paddle = int(np.clip(self.paddle + int(action) - 1, 0, 9))
        self.y += 1
        down = self.y == 9
        return self._look(), float(down and self.x == self.paddle), down, False, {}
"""
ROWS_OF_THE_CLASS = """
class Memory:
    Row = namedtuple("Row", ["s", "a", "r", "s2", "end"])

    def __init__(self):
        self.rows = deque(maxlen=100_000)

    def add(self, s, a, r, s2, end):
        self.rows.append(self.Row(s, a, r, s2, end))

    def sample(self):
        picked = random.sample(self.rows, 64)
        s = torch.from_numpy(np.vstack([e.s for e in picked])).float()
        a = torch.from_numpy(np.vstack([e.a for e in picked])).float()
        r = torch.from_numpy(np.vstack([e.r for e in picked])).float()
        s2 = torch.from_numpy(np.vstack([e.s2 for e in picked])).float()
        end = torch.from_numpy(np.vstack([e.end for e in picked]).astype(np.uint8)).float()
        return s, a, r, s2, end


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(3, 64), nn.Linear(64, 1)

    def forward(self, s):
        return torch.tanh(self.head(F.relu(self.body(s))))


actor, critic = Actor(), nn.Linear(4, 1)
actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-4)
env = gym.make("Pendulum-v1")
memory = Memory()
obs, _ = env.reset(seed=0)
for t in range(50_000):
    with torch.no_grad():
        action = actor(torch.from_numpy(obs).float().unsqueeze(0)).squeeze(0).numpy()
    action = np.clip(action + 0.2 * np.random.randn(1), -2, 2)
    obs2, r, term, trunc, _ = env.step(action)
    memory.add(obs, action, r, obs2, term)
    obs = env.reset()[0] if term or trunc else obs2
    if t < 1_000:
        continue
    s, u, g, s2, end = memory.sample()
    with torch.no_grad():
        y = g + 0.99 * critic_target(torch.cat([s2, actor_target(s2)], 1)) * (1 - end)
    loss = F.mse_loss(critic(torch.cat([s, u], 1)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    actor_loss = -critic(torch.cat([s, actor(s)], 1)).mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    for fast, slow in ((actor, actor_target), (critic, critic_target)):
        for w, old in zip(fast.parameters(), slow.parameters()):
            old.data.copy_(0.99 * old.data + 0.01 * w.data)
"""


def said(text: str) -> set[str]:
    script = linter.parse(Source("script.py", HEAD + text))
    return {finding.rule for check in checks.checks("COD") for finding in linter.examine(check, script) if finding.severity.value != "low"}


@pytest.mark.parametrize("sound", [IMPLICIT_VALUES, COUNTED_TABLE, SLOW_COPIES, FALLING_BALL, ROWS_OF_THE_CLASS])
def test_sound_code_is_left_alone(sound: str) -> None:
    assert said(sound) == set()


@pytest.mark.parametrize(
    ("sound", "right", "wrong", "check"),
    [
        (IMPLICIT_VALUES, "slow_v(s2)", "slow1(torch.cat([s2, u], 1))", "COD522"),
        (COUNTED_TABLE, "        if term or trunc:\n            return steps\n", "", "COD105"),
        (COUNTED_TABLE, "/ visits[s][a]", "* 1.5", "COD518"),
        (SLOW_COPIES, "            slow += 0.005 * (w - slow)", "            slow.requires_grad = False", "COD506"),
        (FALLING_BALL, "[self.y, self.x, self.paddle]", "[self.x, self.x, self.paddle]", "COD110"),
        (ROWS_OF_THE_CLASS, "critic_target(torch.cat([s2", "critic(torch.cat([s2", "COD536"),
    ],
)  # fmt: skip
def test_a_mistake_of_the_same_kind_is_still_named(sound: str, right: str, wrong: str, check: str) -> None:
    assert sound.count(right) == 1
    assert check in said(sound.replace(right, wrong))
