"""Engines compute the same iteration to rounding, keep the promises that they make, and are chosen by a rule that says why."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rlclinic.errors import ConfigError, RunError
from rlclinic.runs.record import Run
from rlclinic.training import assembly, envs, members
from rlclinic.training.__main__ import train_runs
from rlclinic.training.engines import captured, compiled, eager, select
from rlclinic.training.engines.compiled import Unit
from rlclinic.training.loops import on_policy
from rlclinic.training.loops.on_policy import Iteration, IterationInputs
from tests.training.cohorts import ALGOS, TASKS, Interrupted, Workshop, assert_same_run, interrupt_at, make_config, member, table, train

ENGINES: dict[str, Callable[[], Any]] = {"compiled": eager.Compiled, "captured": captured.Captured}
WIDE: dict[str, Any] = {"hidden": [16, 16]}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiled.CACHE, str(tmp_path / "units"))


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units as they are written, without a compiler: what goes in and out is the same, and it takes no minute."""

    def build(self: Unit, names: list[str], inputs: list[Tensor]) -> Callable[[list[Tensor]], Sequence[Tensor]]:
        self._names = list(self.function(dict(zip(names, inputs, strict=True))))

        @torch.no_grad()  # as units are compiled
        def run(tensors: list[Tensor]) -> list[Tensor]:
            return list(self.function(dict(zip(names, tensors, strict=True))).values())

        return run

    monkeypatch.setattr(Unit, "_build", build)


def shop(kind: str, task: str, engine_name: str, seeds: Sequence[int] = (0, 1), device: str = "cpu", **changes: Any) -> Workshop:
    config = make_config(kind, env={**TASKS[task][0], **changes.pop("env", {})}, **{"net": WIDE, **changes})
    env = envs.make(config.env, list(seeds), config.env.n_envs, device=device, factory=TASKS[task][1])
    plan = replace(assembly.plan_for(config, env), engine=engine_name)
    learner = assembly.fresh_learner(plan, list(seeds), config.env.n_envs, torch.device(device))
    position = on_policy.Position(env.reset(), env.action_mask)
    return Workshop(
        config, [member(config) for _ in seeds], env, plan, learner, position, torch.tensor(seeds, device=device).view(-1, 1, 1)
    )


def turns(made: Workshop, by: Any, count: int = 2, active: Tensor | None = None) -> Iterator[Iteration]:
    learner = made.learner
    for iteration in range(count):
        hp = members.hyperparameters(made.members, 64 * iteration, made.plan.policy, made.seed.device)
        clock = dict.fromkeys(("env", "act", "learn"), 0.0)
        turn = by.iterate(IterationInputs(made.plan, learner, made.env, made.position, hp, active, made.seed, iteration, clock))
        yield turn
        learner = on_policy.update_normalizers(
            made.plan, turn.after, turn.rollout, hp, torch.ones(len(made.members), 1, dtype=torch.bool, device=made.seed.device)
        )


def assert_close(found: Iteration, wanted: Iteration, rtol: float = 1e-4, readings: float = 1e-3, atol: float = 1e-5) -> None:
    for name in vars(wanted.rollout):
        one, other = getattr(found.rollout, name), getattr(wanted.rollout, name)
        assert (one is None) == (other is None), name
        if one is not None:
            torch.testing.assert_close(one, other, rtol=rtol, atol=atol, equal_nan=True, msg=lambda text, name=name: f"{name}: {text}")
    for name, rows in wanted.whole._asdict().items():
        if rows is not None:
            torch.testing.assert_close(
                getattr(found.whole, name), rows, rtol=rtol, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
            )
    moved = (wanted.after.flat - wanted.before.flat).norm()
    assert (found.after.flat - wanted.after.flat).norm() <= rtol * 10 * moved, "the weights moved elsewhere"
    assert found.readings.keys() == wanted.readings.keys()
    for name, values in wanted.readings.items():
        torch.testing.assert_close(found.readings[name], values, rtol=readings, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


def assert_resumes(folder: Path, config: Any) -> Run:
    """A run repeats itself, and one that was killed and resumed is the same."""
    straight, twin = train(folder, [config])[0], train(folder, [config])[0]
    assert_same_run(twin, straight)
    broken: list[Any] = []
    stop = interrupt_at(int(table(straight)[-2]["total_timesteps"]))

    def callback(row: dict[str, Any]) -> None:
        broken[:] = [row["run"]]
        stop(row)

    with pytest.raises(Interrupted):
        train(folder, [config], callback=callback)
    assert train_runs(broken, resume=True)
    assert_same_run(broken[0], straight)
    return straight


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("kind", ALGOS)
@pytest.mark.parametrize("task", ["discrete", "box"])
def test_every_engine_computes_what_eager_computes(name: str, kind: str, task: str) -> None:
    pairs = zip(turns(shop(kind, task, name), ENGINES[name]()), turns(shop(kind, task, "eager"), eager.Eager()), strict=True)
    for found, wanted in pairs:
        assert_close(found, wanted)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", ENGINES)
def test_normalizers_masks_and_unequal_numbers_go_through_the_units(name: str) -> None:
    changes: dict[str, Any] = {"env": {"normalize_obs": True, "normalize_reward": True}}
    changes["algo"] = {**ALGOS["ppo"], "target_kl": 0.01, "clip_range_vf": 0.2, "ent_coef": 0.01, "value_lr": 1e-3}
    made = [shop("ppo", "box", kind, **changes) for kind in (name, "eager")]
    frozen = torch.tensor([[True], [False]])
    for found, wanted in zip(turns(made[0], ENGINES[name](), 3, frozen), turns(made[1], eager.Eager(), 3, frozen), strict=True):
        assert_close(found, wanted)
        assert torch.equal(found.after.flat[1], found.before.flat[1]), "a frozen member has moved"


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(
    "changes", [{"algo": {"segment_length": 8, "priority_alpha": 0.8}}, {"net": {**WIDE, "layer_norm": True}}], ids=str
)
def test_what_has_no_derivatives_written_out_goes_through_the_units(name: str, changes: dict[str, Any]) -> None:
    """Rows with weights (segments drawn by priority), and layers that only autograd knows."""
    made = [shop("ppo", "discrete", kind, **{**changes, "algo": {**ALGOS["ppo"], **changes.get("algo", {})}}) for kind in (name, "eager")]
    for found, wanted in zip(turns(made[0], ENGINES[name]()), turns(made[1], eager.Eager()), strict=True):
        assert_close(found, wanted)


@pytest.mark.usefixtures("uncompiled")
def test_environments_that_step_by_themselves_are_acted_in_by_a_unit() -> None:
    pairs = zip(
        turns(shop("ppo", "multi_discrete", "compiled"), eager.Compiled()),
        turns(shop("ppo", "multi_discrete", "eager"), eager.Eager()),
        strict=True,
    )
    for found, wanted in pairs:
        assert_close(found, wanted)


@pytest.mark.usefixtures("uncompiled")
def test_a_captured_iteration_takes_back_an_update_that_is_not_finite_and_says_whose_it_was() -> None:
    made = shop("ppo", "discrete", "captured")
    made.learner.flat[1, 0] = torch.nan
    (turn,) = turns(made, captured.Captured(), 1)
    assert turn.alive is not None
    assert turn.alive.flatten().tolist() == [True, False]
    assert torch.equal(turn.after.flat[1].isnan(), turn.before.flat[1].isnan())
    assert turn.after.flat[0].isfinite().all()


@pytest.mark.usefixtures("uncompiled")
def test_what_a_captured_iteration_returns_is_read_before_the_next_but_readings_are_kept() -> None:
    first, second = turns(shop("ppo", "discrete", "captured"), captured.Captured())
    assert not torch.equal(first.readings["total"], second.readings["total"])


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("kind", ["ppo", "a2c"])
def test_a_run_started_compiled_repeats_itself_and_resumes_compiled(tmp_path: Path, kind: str) -> None:
    config = make_config(kind, run={"max_env_steps": 192, "checkpoint_every_env_steps": 48, "engine": "compiled"}, net=WIDE)
    assert Run(assert_resumes(tmp_path, config).path).record["engine"]["kind"] == "compiled"


@pytest.fixture
def captured_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The captured engine's program on a CPU: without a graph, but with everything that training does around one."""
    monkeypatch.setattr(select, "choose", lambda *_: select.Choice("captured", "as asked for"))


@pytest.mark.usefixtures("uncompiled", "captured_everywhere")
@pytest.mark.parametrize("kind", ["ppo", "a2c", "reinforce"])
def test_a_captured_run_that_reads_nothing_between_rows_logs_what_a_compiled_one_logs(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = [make_config(kind, seed=seed, run={"max_env_steps": 300, "eval_episodes": 2}, net=WIDE) for seed in (3, 4)]
    deferred = train(tmp_path, configs)
    monkeypatch.setattr(select, "choose", lambda *_: select.Choice("compiled", "as asked for"))
    at_once = train(tmp_path, configs)
    for one, other in zip(deferred, at_once, strict=True):
        rows, others = table(one), table(other)
        assert [row["total_timesteps"] for row in rows] == [row["total_timesteps"] for row in others]
        for row, twin in zip(rows, others, strict=True):
            for name in (
                "total_episodes",
                "train/roll/ep_rew_mean",
                "train/loss/policy",
                "val/roll/ep_rew_mean",
                "train/sentinel/obs_abs_max",
            ):
                assert (row[name] == "") == (twin[name] == ""), name
                if row[name]:
                    assert float(row[name]) == pytest.approx(float(twin[name]), rel=1e-3, abs=1e-4), name


@pytest.mark.usefixtures("uncompiled", "captured_everywhere")
def test_a_member_whose_captured_update_is_not_finite_ends_at_the_row_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses_of = on_policy.update_step

    def broken(plan: Any, flat: Tensor, *rest: Any) -> Any:
        flat, state, active, found = losses_of(plan, flat, *rest)
        spoiled = torch.tensor([[False], [True]])
        return torch.where(spoiled, torch.nan, flat), state, active, found

    monkeypatch.setattr(on_policy, "update_step", broken)
    good, bad = train(tmp_path, [make_config(seed=seed, net=WIDE) for seed in (0, 1)])
    assert good.status.state == "finished"
    assert bad.status.state == "failed"
    assert "is not finite" in (bad.status.reason or "")


@pytest.mark.usefixtures("uncompiled", "captured_everywhere")
def test_a_captured_run_resumes_as_if_never_stopped(tmp_path: Path) -> None:
    config = make_config("ppo", run={"max_env_steps": 192, "checkpoint_every_env_steps": 48}, net=WIDE)
    assert_resumes(tmp_path, config)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("kind", ["ppo", "a2c", "reinforce"])
def test_a_seed_repeats_itself_and_its_fork_without_a_change_repeats_it_on_every_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    """What the contract suite asks of the eager engine, as far as the others promise it: within one shape of group."""
    monkeypatch.setattr(select, "choose", lambda *_: select.Choice(name, "asked for by a test"))
    config, other = (
        make_config(kind, run={"max_env_steps": 200, "checkpoint_every_env_steps": 50, "eval_episodes": 1}, net=WIDE, seed=seed)
        for seed in (3, 4)
    )
    original, twin, stranger = (train(tmp_path, [each])[0] for each in (config, config, other))
    assert_same_run(twin, original)
    assert table(stranger) != table(original)
    step = original.checkpoints[-2].step
    fork = train(tmp_path, [config], parent=f"{original.id}@{step}", start="fork")[0]
    later = [row for row in table(original) if int(row["total_timesteps"]) > step]
    assert later
    assert table(fork) == later


class AdvantagesCompiled(eager.Compiled):
    """One unit by the compiler, the others as they are written: a compiler needs a minute for all of them."""

    def _unit(self, name: str, function: Any, plan: Any, more: Any = None) -> Any:
        return super()._unit(name, function, plan, more) if name == "estimate_advantages" else torch.no_grad()(function)


@pytest.fixture
def compiled_plainly() -> Iterator[None]:
    """The compiler translates one unit: no headers that the next ones would share, and no trials of vector instructions."""
    from torch._inductor import config

    with config.patch({"aot_inductor.precompile_headers": False, "cpp_cache_precompile_headers": False, "cpp.vec_isa_ok": False}):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_plainly")
def test_a_unit_is_compiled_once_and_used_again_by_other_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    if compiled.compiler() is None:
        pytest.skip("no C++ compiler")
    short = {"algo": {"n_steps": 4, "batch_size": 8}}
    for seeds in ((0, 1), (5, 6)):
        (found,) = turns(shop("ppo", "discrete", "compiled", seeds, **short), AdvantagesCompiled(), 1)
        (wanted,) = turns(shop("ppo", "discrete", "eager", seeds, **short), eager.Eager(), 1)
        assert_close(found, wanted)
        assert len(list(compiled.folder().glob("estimate_advantages-*.pt2"))) == 1
        # The second time there is nothing left to compile.
        monkeypatch.setattr(compiled, "_package", None)


@pytest.mark.loop
def test_all_units_are_compiled_and_the_compiled_engine_trains_as_the_eager_one_does() -> None:
    if compiled.compiler() is None:
        pytest.skip("no C++ compiler")
    for seeds in ((0, 1), (5, 6)):
        pairs = zip(
            turns(shop("ppo", "discrete", "compiled", seeds), eager.Compiled()),
            turns(shop("ppo", "discrete", "eager", seeds), eager.Eager()),
            strict=True,
        )
        for found, wanted in pairs:
            assert_close(found, wanted)


@pytest.mark.usefixtures("uncompiled")
def test_a_warm_cache_is_used() -> None:
    """An engine that has its units says so, and the next run of this shape need not wait for a compiler."""
    asked = make_config(net=WIDE, run={"engine": "auto"})
    plan = shop("ppo", "discrete", "compiled").plan
    assert select.choose(asked, plan, None, 2, torch.device("cpu"), None).kind == "eager"
    next(turns(shop("ppo", "discrete", "compiled"), eager.Compiled(), 1))
    assert select.choose(asked, plan, None, 2, torch.device("cpu"), None).kind == "compiled"


@pytest.mark.parametrize(("returncode", "how"), [(-11, "SIGSEGV"), (1, "exit code 1")])
def test_a_library_that_pytorchs_loader_crashes_on_ends_the_run_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, returncode: int, how: str
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], returncode, "", "no library"))
    monkeypatch.setattr(compiled, "_package", lambda *_: compiled._load_elsewhere(str(tmp_path / "unit.pt2")))
    with pytest.raises(RunError, match=rf"update could not be compiled[\s\S]*PyTorch's loader ended with {how}") as caught:
        Unit("update", lambda given: given, "settings")({"x": torch.zeros(2)})
    assert str(caught.value).endswith("Try: --set run.engine=eager")


# ── which one ──


def chosen(recorded: dict[str, Any] | None = None, device: str = "cpu", members: int = 2, **run: Any) -> select.Choice:
    made = shop("ppo", "discrete", "eager", run=run)
    return select.choose(made.config, made.plan, made.env, members, torch.device(device), recorded)


def test_a_short_run_is_not_worth_compiling() -> None:
    choice = chosen(engine="auto", max_env_steps=1_000)
    assert choice.kind == "eager"
    assert "before compiling pays" in choice.why


def test_a_long_run_is_compiled_where_there_is_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "compiler", lambda: "g++")
    assert chosen(engine="auto", max_env_steps=50_000_000).kind == "compiled"
    monkeypatch.setattr(compiled, "compiler", lambda: None)
    assert chosen(engine="auto", max_env_steps=50_000_000) == ("eager", "there is no C++ compiler")


def test_a_native_environment_on_a_gpu_is_captured() -> None:
    assert chosen(engine="auto", device="cuda").kind == "captured"


def test_a_resume_keeps_its_engine_whatever_the_rule_says_now() -> None:
    assert chosen({"kind": "eager"}, engine="auto", device="cuda") == ("eager", "as it was started")


def test_engines_that_cannot_be_had_are_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"captured needs a native environment on a GPU, but run.device is cpu[\s\S]*run.engine=auto"):
        chosen(engine="captured")
    monkeypatch.setattr(compiled, "compiler", lambda: None)
    with pytest.raises(ConfigError, match=r"no C\+\+ compiler[\s\S]*run.engine=eager"):
        chosen(engine="compiled")


def test_the_reason_is_in_the_log_and_in_the_record(tmp_path: Path) -> None:
    run = train(tmp_path, [make_config(run={"engine": "auto"})])[0]
    recorded = Run(run.path).record["engine"]
    assert recorded["kind"] == "eager"
    assert recorded["why"] in (run.path / "run.log").read_text()


def test_a_unit_is_another_one_when_its_settings_shapes_or_code_change(monkeypatch: pytest.MonkeyPatch) -> None:
    unit, inputs = Unit("u", lambda given: given, "settings"), [torch.zeros(2, 3)]
    paths = {unit.path(["x"], inputs), Unit("u", lambda given: given, "other").path(["x"], inputs), unit.path(["x"], [torch.zeros(3, 3)])}
    paths |= {unit.path(["y"], inputs)}
    monkeypatch.setattr(compiled, "source", lambda: "changed")
    assert len(paths | {unit.path(["x"], inputs)}) == 5
    assert all(str(path).startswith(os.environ[compiled.CACHE]) for path in paths)


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (OSError("C++ compile error\n\nOutput:\nunit.cpp:3: fatal error: omp.h: No such file"), "OSError: unit.cpp:3: fatal error: omp.h"),
        (AttributeError("module 'torch._C' has no attribute '_aoti'."), "AttributeError: module 'torch._C' has no attribute '_aoti'.\n"),
    ],
)
def test_what_the_compiler_or_another_pytorch_refuses_is_said_with_the_way_out(
    raised: Exception, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: Any) -> None:
        raise raised

    monkeypatch.setattr(compiled, "_package", refuse)
    monkeypatch.setenv(compiled.CACHE, str(tmp_path))
    with pytest.raises(RunError, match=f"update could not be compiled with PyTorch {re.escape(torch.__version__)}") as caught:
        Unit("update", lambda given: given, "settings")({"x": torch.zeros(2)})
    assert reason in str(caught.value)
    assert str(caught.value).endswith("Try: --set run.engine=eager")


# ── on a GPU ──


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["float32", "tf32"])
@pytest.mark.parametrize("task", ["discrete", "box"])
def test_the_captured_graph_computes_what_eager_computes_on_the_gpu(task: str, precision: str) -> None:
    made = [shop("ppo", task, kind, device="cuda", run={"precision": precision}) for kind in ("captured", "eager")]
    for found, wanted in zip(turns(made[0], captured.Captured()), turns(made[1], eager.Eager()), strict=True):
        # TF32 keeps ten bits: each engine rounds its factors in places of its own, by up to a thousandth.
        assert_close(found, wanted, *((1e-3, 1e-3, 1e-5) if precision == "float32" else (2e-2, 4e-3, 1e-4)))


@pytest.mark.cuda
@pytest.mark.parametrize(
    "changes",
    [
        {"algo": {"segment_length": 8, "priority_alpha": 0.8}},
        {"env": {"clip_raw_reward": 0.5, "normalize_obs": True, "normalize_reward": True}},
        {"net": {**WIDE, "layer_norm": True}},
        {"net": {"hidden": [24, 16], "activation": "relu"}},
    ],
    ids=str,
)
def test_what_does_not_fit_into_the_kernels_is_captured_too(changes: dict[str, Any]) -> None:
    """Rows with weights, rewards that are cut, layers that only autograd knows, layers of other sizes: all compiled for real."""
    own = {**changes, "algo": {**ALGOS["ppo"], **changes.get("algo", {})}}
    made = [shop("ppo", "discrete", name, device="cuda", **own) for name in ("captured", "eager")]
    for found, wanted in zip(turns(made[0], captured.Captured()), turns(made[1], eager.Eager()), strict=True):
        assert_close(found, wanted, 1e-3, 1e-3, 1e-5)


@pytest.mark.cuda
def test_a_captured_run_that_was_killed_resumes_as_if_never_stopped(tmp_path: Path) -> None:
    config = make_config("ppo", run={"max_env_steps": 192, "checkpoint_every_env_steps": 48, "device": "cuda", "engine": "auto"}, net=WIDE)
    assert Run(assert_resumes(tmp_path, config).path).record["engine"]["kind"] == "captured"
