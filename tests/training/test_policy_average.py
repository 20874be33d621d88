"""algo.policy_average: what is evaluated, kept and played is the average of what acts; what is learned does not change by it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlclinic.runs.record import Run
from rlclinic.training import envs, evaluation
from rlclinic.training.checkpoints import files
from rlclinic.training.engines import captured_replay
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.off_policy import AVERAGE
from tests.training.cohorts import TASKS, make_config, table, task_of, train
from tests.training.replays import Bench, of_kind

OVER = 6
SEED = torch.arange(2).view(-1, 1)


def averaging(kind: str, over: int = OVER) -> dict[str, dict[str, Any]]:
    return {"algo": {**make_config(kind, TASKS[task_of(kind)][0]).algo.model_dump(), "policy_average": over}}


def weights(run: Run) -> dict[str, torch.Tensor]:
    """What the last checkpoint keeps of the policy."""
    return files.read(run.checkpoint("@last").path).policy


def moved(at: Bench, to: float, updates: int) -> None:
    """The acting network as it stands after so many gradient steps."""
    acts = at.plan.algo.ACTOR
    at.learner = replace(at.learner, nets={**at.learner.nets, acts: torch.full_like(at.learner.nets[acts], to)}, updates=updates)


def test_it_is_the_mean_of_the_first_turns_and_then_fades_over_the_horizon() -> None:
    at = of_kind("dqn", **averaging("dqn"))
    per_cycle, expected = at.plan.updates_per_cycle, 0.0
    for cycle in range(1, 6):
        moved(at, float(cycle), cycle * per_cycle)
        off_policy.average(at.plan, at.learner, None)
        share = 1 / min(cycle, OVER // per_cycle)
        expected += share * (cycle - expected)
    assert per_cycle == 3
    assert torch.allclose(at.learner.targets[AVERAGE], torch.tensor(expected))


def test_that_of_a_frozen_member_stays() -> None:
    at = of_kind("dqn", **averaging("dqn"))
    before = at.learner.targets[AVERAGE].clone()
    moved(at, 1.0, 30)
    off_policy.average(at.plan, at.learner, torch.tensor([[True], [False]]))
    assert torch.equal(at.learner.targets[AVERAGE][1], before[1])
    assert not torch.equal(at.learner.targets[AVERAGE][0], before[0])


@pytest.mark.parametrize("kind", ["dqn", "sac", "td3"])
def test_evaluations_play_the_average(kind: str) -> None:
    at = of_kind(kind, **averaging(kind))
    other = {**at.learner.targets, AVERAGE: at.learner.nets[at.plan.algo.ACTOR] + 0.3}
    averaged = replace(at.learner, targets=other)
    newest = replace(at.learner, nets={**at.learner.nets, at.plan.algo.ACTOR: other[AVERAGE]}, targets={})
    env = envs.make(at.config.env, [0, 1], 5, evaluation=True)
    played = [
        evaluation.evaluate(at.plan, learner, env, deterministic=True, seed=SEED, wanted=[True, True]).returns
        for learner in (averaged, newest, replace(at.learner, targets={}))
    ]
    np.testing.assert_array_equal(played[0], played[1])
    assert not np.array_equal(played[0], played[2])


@pytest.mark.parametrize("kind", ["dqn", "sac"])
def test_training_itself_goes_on_with_the_newest_weights(tmp_path: Path, kind: str) -> None:
    plain, averaged = (train(tmp_path, [make_config(kind, TASKS[task_of(kind)][0], **averaging(kind, over))])[0] for over in (0, OVER))
    one, other = weights(plain), weights(averaged)
    assert {name for name in other if name not in one} == {name for name in other if name.startswith(f"{AVERAGE}.")} != set()
    for name, tensor in one.items():
        assert torch.equal(other[name], tensor), name
    distances = [[row["train/sentinel/target_distance"] for row in table(run)] for run in (plain, averaged)]
    assert distances[0] == distances[1]


def test_a_policy_from_a_checkpoint_plays_what_was_evaluated(tmp_path: Path) -> None:
    run = train(tmp_path, [make_config("dqn", TASKS["discrete"][0], **averaging("dqn"))])[0]
    last = next(row for row in reversed(table(run)) if row["val/roll/ep_rew_mean"])
    assert run.policy("@last").evaluate(2).returns.mean() == float(last["val/roll/ep_rew_mean"])
    kept = weights(run)
    acting = {name.removeprefix("q."): tensor for name, tensor in kept.items() if name.startswith("q.")}
    assert any(not torch.equal(kept[f"{AVERAGE}.{name}"], tensor) for name, tensor in acting.items())


def test_a_fork_of_a_run_that_averaged_nothing_begins_with_its_weights(tmp_path: Path) -> None:
    parent = train(tmp_path, [make_config("dqn", TASKS["discrete"][0])])[0]
    config = make_config("dqn", TASKS["discrete"][0], **averaging("dqn"), run={"max_env_steps": 960})
    step = parent.checkpoint("@last").step
    fork = train(tmp_path, [config], parent=f"{parent.id}@{step}", start="fork")[0]
    assert fork.status.state == "finished"
    assert any(name.startswith(f"{AVERAGE}.") for name in weights(fork))


def test_a_graph_does_not_average() -> None:
    assert captured_replay.possible(of_kind("dqn").plan)
    assert not captured_replay.possible(of_kind("dqn", **averaging("dqn")).plan)
