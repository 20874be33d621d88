"""Parts of a script that do not go together, and what it prepares and leaves out: each fault in a script that is sound without it."""

import pytest

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import linter
from rlclinic.diagnosis.lint.code.reading.sources import Source

TD3 = """
import copy
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch import nn

env, test_env = gym.make("Pendulum-v1"), gym.make("Pendulum-v1")
actor = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 1), nn.Tanh())
q1 = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1))
q2 = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1))
slow_actor, slow1, slow2 = copy.deepcopy(actor), copy.deepcopy(q1), copy.deepcopy(q2)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
q_opt = torch.optim.Adam([*q1.parameters(), *q2.parameters()], lr=1e-3)
memory = deque(maxlen=100_000)


def act(obs, noise):
    with torch.no_grad():
        a = 2.0 * actor(torch.as_tensor(obs, dtype=torch.float32)).numpy()
    a = a + noise * np.random.randn(1)
    return np.clip(a, -2.0, 2.0)


def follow(net, slow):
    for p, s in zip(net.parameters(), slow.parameters()):
        s.data.lerp_(p.data, 0.005)


obs, _ = env.reset(seed=0)
for step in range(50_000):
    if step < 1000:
        action = env.action_space.sample()
    else:
        action = act(obs, 0.2)
    next_obs, reward, terminated, truncated, _ = env.step(action)
    memory.append((obs, action, reward, next_obs, float(terminated)))
    obs = next_obs
    if terminated or truncated:
        obs, _ = env.reset()
    if step < 1000:
        continue
    s, a, r, s2, d = (torch.as_tensor(np.array(x), dtype=torch.float32) for x in zip(*random.sample(memory, 128)))
    with torch.no_grad():
        noise = (0.2 * torch.randn_like(a)).clamp(-0.5, 0.5)
        a2 = (2.0 * slow_actor(s2) + noise).clamp(-2.0, 2.0)
        x2 = torch.cat([s2, a2], 1)
        next_q = torch.min(slow1(x2).squeeze(-1), slow2(x2).squeeze(-1))
        y = r + 0.99 * (1 - d) * next_q
    x = torch.cat([s, a], 1)
    q_loss = ((q1(x).squeeze(-1) - y) ** 2).mean() + ((q2(x).squeeze(-1) - y) ** 2).mean()
    q_opt.zero_grad()
    q_loss.backward()
    q_opt.step()
    if step % 2 == 0:
        actor_loss = -q1(torch.cat([s, 2.0 * actor(s)], 1)).mean()
        actor_opt.zero_grad()
        actor_loss.backward()
        actor_opt.step()
        follow(q1, slow1)
        follow(q2, slow2)
        follow(actor, slow_actor)

seen, _ = test_env.reset(seed=1)
over = False
while not over:
    seen, reward, terminated, truncated, _ = test_env.step(act(seen, 0.0))
    over = terminated or truncated
"""

FAULTS = {
    "the same critic twice in the minimum": ("COD539", "slow2(x2).squeeze(-1))", "slow1(x2).squeeze(-1))", "next_q ="),
    "chance after the warm-up": ("COD511", "    if step < 1000:\n        action", "    if step > 1000:\n        action", "if step > 1000"),
    "next actions out of bounds": ("COD529", "slow_actor(s2) + noise).clamp(-2.0, 2.0)", "slow_actor(s2) + noise)", "a2 ="),
    "no noise, named in the loop": ("COD509", "action = act(obs, 0.2)", "action = act(obs, 0.0)", "action = act(obs, 0.0)"),
    "noise in the evaluation": ("COD710", "act(seen, 0.0)", "act(seen, 0.5)", "act(seen, 0.5)"),
    "a new tensor for the loop's name": ("COD506", "s.data.lerp_(p.data, 0.005)", "s = s.data.lerp(p.data, 0.005)", "s = s.data"),
    "the column where it is made": ("COD601", "slow1(x2).squeeze(-1), slow2(x2).squeeze(-1)", "slow1(x2), slow2(x2)", "next_q ="),
    "the trained actor in the target": ("COD536", "slow_actor(s2) + noise", "actor(s2) + noise", "a2 ="),
}  # fmt: skip


def _said(text: str) -> list[tuple[str, str]]:
    script = linter.parse(Source("script", text))
    found = [each for check in checks.checks("COD") for each in linter.examine(check, script)]
    return [(each.rule, place.text) for each in found if each.severity is not Severity.LOW for place in each.evidence]


def test_the_sound_script_is_left_alone() -> None:
    assert _said(TD3) == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_on_its_line(name: str) -> None:
    rule, right, wrong, line = FAULTS[name]
    assert TD3.count(right) == 1
    assert any(said == rule and line in text for said, text in _said(TD3.replace(right, wrong)))
