"""The program of gradient steps on recorded data that a CUDA graph is made of, run on a CPU: the same learning as step by step."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from rlclinic.errors import ConfigError
from rlclinic.runs.record import Run
from rlclinic.training import assembly
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.engines.captured_offline import CapturedOffline
from rlclinic.training.loops import off_policy, offline
from tests.training.cohorts import train
from tests.training.recordings import Bench, bench, make_config

KINDS: dict[str, dict[str, Any]] = {"iql": {}, "iql of choices": {}, "td3_bc": {"policy_delay": 3}, "cql": {}, "bc": {}}


def cohort(kind: str, engine: str) -> Bench:
    at = bench(*(make_config(kind, seed, algo=KINDS[kind]) for seed in (0, 1)))
    at.plan = replace(assembly.with_engine(at.plan, engine), cycles=7)  # type: ignore[assignment,arg-type]  # begins in every phase of a delay
    return at


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compiles", [False, True])
def test_the_program_learns_what_the_loop_learns(kind: str, compiles: bool) -> None:
    if compiles and kind in ("cql", "bc"):
        pytest.skip("only gradients that are written out are compiled")
    at = cohort(kind, "eager" if kind in ("iql", "iql of choices", "td3_bc") else "reference")
    engine, everyone = CapturedOffline(compiles=compiles), torch.ones(2, 1, dtype=torch.bool)
    eager = ours = at.learner
    for _ in range(3):
        hp = at.numbers()
        eager, expected = offline.learn(at.plan, eager, at.data, hp, everyone, at.seed)
        ours, readings = engine.learn(at.plan, ours, at.data, hp, everyone, at.seed)
        assert ours.updates == eager.updates
        assert readings.keys() == expected.keys()
        for name, reading in expected.items():
            assert torch.equal(readings[name], reading), name
    for name, flat in {**eager.nets, **{f"target {name}": flat for name, flat in eager.targets.items()}}.items():
        own = ours.targets[name.removeprefix("target ")] if name.startswith("target ") else ours.nets[name]
        assert torch.equal(own, flat), name


def test_a_frozen_member_stays_as_it_is() -> None:
    at = cohort("iql", "eager")
    engine, active = CapturedOffline(compiles=True), torch.tensor([[True], [False]])
    before = off_policy.copy_learner(at.learner)
    after, _ = engine.learn(at.plan, at.learner, at.data, at.numbers(), active, at.seed)
    for name, flat in before.nets.items():
        assert torch.equal(after.nets[name][1], flat[1])
        assert not torch.equal(after.nets[name][0], flat[0])


def test_numbers_that_change_while_it_runs_are_read_by_the_same_program() -> None:
    at = cohort("iql", "eager")
    engine, everyone = CapturedOffline(compiles=True), torch.ones(2, 1, dtype=torch.bool)
    learner, _ = engine.learn(at.plan, at.learner, at.data, at.numbers(), everyone, at.seed)
    bolder = Hyperparameters(**{**vars(at.numbers()), "expectile": torch.full((2, 1), 0.99)})
    ours, usual = (engine.learn(at.plan, learner, at.data, hp, everyone, at.seed)[0] for hp in (bolder, at.numbers()))
    expected, _ = offline.learn(at.plan, learner, at.data, bolder, everyone, at.seed)
    assert torch.equal(ours.nets["value"], expected.nets["value"])
    assert not torch.equal(ours.nets["value"], usual.nets["value"])


def test_recorded_data_says_which_engine_it_has(tmp_path: Any) -> None:
    config = make_config("iql")
    with pytest.raises(ConfigError, match=r"run.engine=captured, but iql learns from recorded data"):
        train(tmp_path / "wrong", [config.model_copy(update={"run": config.run.model_copy(update={"engine": "captured"})})])
    (run,) = train(tmp_path / "right", [config.model_copy(update={"run": config.run.model_copy(update={"engine": "auto"})})])
    run = Run(run.path)
    assert run.record["engine"]["kind"] == "eager"
    assert "gradients written out" in run.record["engine"]["why"]
