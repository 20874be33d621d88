"""Laws of targets, policy gradients and backward sums hold whatever a script calls things and however it is laid out."""

import pytest

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import linter
from rlclinic.diagnosis.lint.code.reading.sources import Source
from rlclinic.diagnosis.lint.code.symbolic import formulas, laws

TUPLES = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn

world = gym.make_vec("CartPole-v1", num_envs=4)
chooser = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
judge = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(0))
adam = torch.optim.Adam([*chooser.parameters(), *judge.parameters()], lr=1e-3)
here, _ = world.reset(seed=3)
for era in range(400):
    path = []
    for _ in range(64):
        x = torch.as_tensor(here, dtype=torch.float32)
        with torch.no_grad():
            move = torch.distributions.Categorical(logits=chooser(x)).sample()
            guess = judge(x)
        there, paid, died, cut, _ = world.step(move.numpy())
        with torch.no_grad():
            ahead = judge(torch.as_tensor(there, dtype=torch.float32))
        path.append((x, move, guess, ahead, torch.as_tensor(paid), torch.as_tensor(died).float(), torch.as_tensor(died | cut).float()))
        here = there
    tail = torch.zeros(4)
    gains, aims = [], []
    for x, move, guess, ahead, paid, died, over in reversed(path):
        surprise = paid + 0.99 * (1 - died) * ahead - guess
        tail = surprise + 0.99 * 0.95 * (1 - over) * tail
        gains.insert(0, tail)
        aims.insert(0, tail + guess)
    seen, moves = torch.stack([row[0] for row in path]), torch.stack([row[1] for row in path])
    gain, aim = torch.stack(gains), torch.stack(aims)
    sure = torch.distributions.Categorical(logits=chooser(seen)).log_prob(moves)
    cost = -(sure * gain).mean() + 0.5 * (judge(seen).view(64, 4) - aim).pow(2).mean()
    adam.zero_grad()
    cost.backward()
    adam.step()
"""
FAULTS = {
    "the value is added": ("- guess\n", "+ guess\n", "COD303"),
    "the trace goes on past time limits": ("(1 - over) * tail", "(1 - died) * tail", "COD503"),
    "the critic learns advantages": ("aims.insert(0, tail + guess)", "aims.insert(0, tail)", "COD514"),
    "the sign of the policy's loss": ("-(sure * gain).mean()", "(sure * gain).mean()", "COD303"),
    "the reward is subtracted": ("aims.insert(0, tail + guess)", "aims.insert(0, guess - tail)", "COD516"),
    "the value of the same state": ("* ahead - guess", "* guess - guess", "COD517"),
    "the sum begins anew in each pass": ("        aims.insert", "        tail = torch.zeros(4)\n        aims.insert", "COD504"),
    "the error is not squared": (".pow(2).mean()", ".mean()", "COD305"),
    "nothing is discounted": ("0.99 * 0.95 * (1 - over) * tail", "(1 - over) * tail", "COD512"),
}


def said(text: str) -> set[str]:
    script = linter.parse(Source("script.py", text))
    found = [finding for check in checks.checks("COD") for finding in linter.examine(check, script)]
    return {finding.rule for finding in found if finding.severity is not Severity.LOW}


def test_a_sound_script_is_left_alone() -> None:
    assert said(TUPLES) == set()


@pytest.mark.parametrize("what", FAULTS)
def test_a_law_that_is_broken_is_said(what: str) -> None:
    right, wrong, rule = FAULTS[what]
    assert TUPLES.count(right) == 1
    assert rule in said(TUPLES.replace(right, wrong))


def test_slopes_tell_what_a_target_is_made_of() -> None:
    script = linter.parse(Source("script.py", TUPLES))
    (error,) = laws.errors(script)
    found = laws.evaluate(script, error.goal)
    assert found is not None
    by_kind = {(leaf.kind, leaf.time): slope for leaf, slope in found[0].whole.items() if leaf.kind == "reward"}
    assert by_kind == {("reward", 0): 1.0, ("reward", 1): pytest.approx(0.99 * 0.95)}
    own = [slope for leaf, slope in found[0].whole.items() if leaf.kind == "value" and laws.asked_at(leaf) == {(leaf.place[1][0][0], -1)}]  # type: ignore[index]
    assert own == [pytest.approx(0.0)]
    assert formulas.execution(script).complete
