"""The sentinels of captured iterations are those that are asked for one operation at a time."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from rlclinic.training.data.episodes import Episodes
from rlclinic.training.engines import captured_sentinels, eager
from rlclinic.training.engines.captured_sentinels import CapturedSentinels
from rlclinic.training.loops import on_policy
from rlclinic.training.sentinels import on_policy_sentinels
from rlclinic.training.sentinels.on_policy_sentinels import Seen
from tests.training.cohorts import ALGOS, TASKS, Workshop, make_config, workshop

CASES = [(kind, task, {}) for kind in ALGOS for task in ("discrete", "box")] + [
    ("ppo", "discrete", {"algo": {**ALGOS["ppo"], "segment_length": 8, "priority_alpha": 0.8}}),
    ("ppo", "discrete", {"algo": {**ALGOS["ppo"], "target_kl": 0.01, "ent_coef": 0.01}, "net": {"shared": True}}),
    ("ppo", "box", {"env": {"normalize_obs": True, "normalize_reward": True}}),
    ("a2c", "discrete", {"env": {"id": "Taxi-v3", "action_mask": True, "max_episode_steps": 20}}),
]


def shop(kind: str, task: str, changes: dict[str, Any]) -> Workshop:
    env = changes.get("env", {})
    own = {name: value for name, value in changes.items() if name != "env"}
    return workshop([make_config(kind, env if "id" in env else {**TASKS[task][0], **env}, seed, **own) for seed in range(2)])


def iterations(at: Workshop) -> list[Seen]:
    """Two of them, one after the other."""
    found, episodes = [], Episodes(2, at.env.n_envs)
    for iteration in range(2):
        rollout, hp = at.collect(iteration), at.numbers()
        whole, raw = on_policy.estimate_advantages(at.plan, at.learner, rollout, hp)
        after, readings, last_minibatch = on_policy.learn(at.plan, at.learner, whole, hp, None, at.seed, iteration)
        found.append(Seen(at.learner, after, rollout, whole, raw, readings, last_minibatch, episodes.add(rollout)))
        at = replace(at, learner=on_policy.update_normalizers(at.plan, after, rollout, hp, torch.ones(2, 1, dtype=torch.bool)))
    return found


def assert_the_same(found: dict[str, Tensor], wanted: dict[str, Tensor], **tolerance: float) -> None:
    assert list(found) == list(wanted)
    assert len(found) > 30
    for name, values in wanted.items():
        torch.testing.assert_close(found[name], values, equal_nan=True, msg=lambda text, name=name: f"{name}: {text}", **tolerance)


@pytest.mark.parametrize("costly", [False, True])
@pytest.mark.parametrize(("kind", "task", "changes"), CASES, ids=str)
def test_the_program_of_a_look_sees_what_a_look_sees(kind: str, task: str, changes: dict[str, Any], costly: bool) -> None:
    at, looks = shop(kind, task, changes), CapturedSentinels()
    for seen in iterations(at):
        wanted = on_policy_sentinels.compute(at.plan, at.env, seen, at.numbers(), costly=costly)
        assert_the_same(looks(at.plan, at.env, seen, at.numbers(), costly=costly), wanted, rtol=0.0, atol=0.0)


@pytest.mark.cuda
@pytest.mark.parametrize("costly", [False, True])
@pytest.mark.parametrize(("kind", "task", "changes"), CASES, ids=str)
def test_a_graph_sees_what_single_operations_see(kind: str, task: str, changes: dict[str, Any], costly: bool) -> None:
    at, looks = shop(kind, task, changes), CapturedSentinels()
    for seen in iterations(at):  # the second one finds the graph of the first
        given = {name: value.cuda() for name, value in captured_sentinels.pack(seen, at.numbers()).items()}
        there, hp = captured_sentinels.unpack(given, eager.static(at.numbers()))
        wanted = on_policy_sentinels.compute(at.plan, at.env, there, hp, costly=costly)
        assert_the_same(looks(at.plan, at.env, there, hp, costly=costly), wanted, rtol=1e-5, atol=1e-6)
    assert len(looks._programs) == 1
