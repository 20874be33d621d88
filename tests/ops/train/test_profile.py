"""`profile` says where an iteration's time goes and what to change, from measurements alone."""

import json

import pytest
import torch
from typer.testing import CliRunner

from rlclinic.config import load, set_values
from rlclinic.ops.train import profile
from rlclinic.ops.train.plan import engine_on
from rlclinic.serve.cli.app import app
from rlclinic.serve.cli.commands.train import _settings
from rlclinic.training import optim, profiling, stopwatch
from rlclinic.training.data.episodes import Episodes
from rlclinic.training.fast import gradients
from rlclinic.training.loops import off_policy

SMALL = ("algo.n_steps=8", "algo.batch_size=16", "env.n_envs=4", "algo.n_epochs=2", "net.hidden=[8]")


@pytest.fixture(scope="module")
def found() -> profile.Profile:
    return profile.profile("CartPole-v1:ppo", SMALL, seconds=0.02)


def test_the_phases_add_up_to_the_iteration(found: profile.Profile) -> None:
    shares = {phase.name: phase.share for phase in found.phases}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert set(shares) == set(stopwatch.PHASES)
    for name in ("env", "act", "estimate", "gather", "forward", "backward", "optimizer", "sentinels", "logging", "other"):
        assert shares[name] > 0, name


def test_copying_is_told_from_stepping_where_environments_are_not_ours() -> None:
    config = load("CartPole-v1:ppo", ["env.native=never", "run.engine=eager", *SMALL]).config
    phases = profiling.measure(config, 1, 0.02, apart=True).phases
    assert phases["env"] > phases["transfer"] > 0


def test_variants_are_measured_against_the_config_itself(found: profile.Profile) -> None:
    assert {variant.changes for variant in found.variants if variant.learns_otherwise} == {
        ("env.n_envs=8", "algo.n_steps=4"),
        ("env.n_envs=16", "algo.batch_size=64"),
        ("algo.n_steps=16", "algo.batch_size=32"),
        ("algo.batch_size=32",),
    }
    for variant in found.variants:
        assert variant.env_steps_per_second is not None
        assert variant.env_steps_per_second > 0
        assert variant.factor is not None
        assert variant.factor > 0


def taken(engine: str, speed: float, busy: float = 1.0) -> profiling.Measured:
    return profiling.Measured(engine, "as the test says", "cpu", speed, 0.1, 32, dict.fromkeys(stopwatch.PHASES, 1.0), 10.0, busy, None)


def test_what_others_took_of_the_core_is_no_settings_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load("CartPole-v1:ppo", SMALL).config
    monkeypatch.setattr(profiling, "measure", lambda *_, **__: taken("eager", 50.0, busy=0.5))
    own, tell = taken("eager", 100.0), lambda _: None
    assert profile._measured(config, profile.Alternative(("env.n_envs=8",), True), 1, 0.1, own, tell).factor == 1.0
    # With workers, what this process does not do is done elsewhere: only the wall clock tells.
    assert profile._measured(config, profile.Alternative(("env.workers=2",), False, elsewhere=True), 1, 0.1, own, tell).factor == 0.5


def test_workers_are_measured_where_there_are_cores_and_environments_to_share() -> None:
    def offered(ref: str, *changes: str, cores: int = 2) -> set[str]:
        found = profile.alternatives(load(ref, list(changes)).config, "eager", compiling=False, cores=cores)
        return {change for each in found if not each.learns_otherwise for change in each.changes}

    assert offered("BipedalWalker-v3:ppo") == {"env.workers=2"}
    assert offered("BipedalWalker-v3:ppo", cores=1) == set()
    assert offered("HalfCheetah-v5:ppo") == {"run.threads=2"}, "one environment"
    assert offered("CartPole-v1:ppo") == set(), "stepped as one batch, by a small network"
    assert offered("ALE/Pong-v5:ppo") == {"env.workers=2", "run.threads=2"}


def test_actors_are_measured_where_environments_are_waited_for() -> None:
    def offered(ref: str, *changes: str, cores: int = 2) -> list[tuple[str, ...]]:
        found = profile.alternatives(load(ref, list(changes)).config, "eager", compiling=False, cores=cores)
        assert all(each.learns_otherwise and each.elsewhere for each in found if "actors" in " ".join(each.changes))
        return [each.changes for each in found if "actors" in " ".join(each.changes)]

    assert offered("CartPole-v1:impala") == [("algo.n_actors=0",), ("algo.n_actors=4",)]
    assert offered("CartPole-v1:ppo") == [], "stepped as one batch"
    assert offered("LunarLander-v3:ppo", cores=1) == []
    (changes,) = offered("LunarLander-v3:ppo")
    config = load("LunarLander-v3:ppo").config
    actors = set_values(config, list(changes))
    assert (actors.algo.name, actors.algo.n_actors * actors.env.n_envs) == ("appo", config.env.n_envs)  # type: ignore[union-attr]
    # As many gradient steps of as many rows in all.
    assert actors.rollout_size // actors.batch_rows == config.rollout_size // config.batch_rows


def test_only_what_computes_the_same_is_prescribed(monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = {"eager": 100.0, "compiled": 300.0}

    def measure(config: object, members: int, seconds: float, *, apart: bool = False, busy: bool = False) -> profiling.Measured:
        engine = config.run.engine  # type: ignore[attr-defined]
        return taken(engine, speeds[engine])

    monkeypatch.setattr(profiling, "measure", measure)
    assert profile.profile("CartPole-v1:ppo", SMALL, compiling=True).prescription == ("run.engine=compiled",)
    speeds["compiled"] = 105.0
    assert profile.profile("CartPole-v1:ppo", SMALL, compiling=True).prescription == ()


def test_long_rollouts_are_measured_in_short_ones() -> None:
    walker = load("BipedalWalker-v3:ppo").config
    config, said = profile.shortened(walker)
    assert (config.rollout_size, config.env.n_envs) == (4096, 32)
    assert said == ["measured with algo.n_steps=128 in place of 2048, for shorter iterations"]
    whole = load("BipedalWalker-v3:ppo", [f"algo.batch_size={walker.rollout_size}"]).config
    assert profile.shortened(whole) == (whole, []), "its minibatch is the rollout"
    short = load("CartPole-v1:ppo").config
    assert profile.shortened(short) == (short, [])
    assert profile.shortened(load("CartPole-v1:dqn").config)[1] == []


def test_measuring_leaves_no_stopwatch_behind(found: profile.Profile) -> None:
    for function in (gradients.gradient, optim.step, torch.autograd.grad, Episodes.add, off_policy.descend, off_policy.Collector.collect):
        assert function.__name__ != "timed"


def test_a_variant_that_the_config_refuses_says_why() -> None:
    config = load("CartPole-v1:ppo", ["run.max_env_steps=64", *SMALL]).config
    refused = profile._measured(config, profile.Alternative(("algo.batch_size=7",), True), 1, 0.01, taken("eager", 1.0), lambda _: None)
    assert refused.env_steps_per_second is None
    assert "batch_size=7" in (refused.refused or "")


@pytest.mark.parametrize(("ref", "backward"), [("CartPole-v1:dqn", True), ("Pendulum-v1:sac", True), ("FrozenLake-v1:q", False)])
def test_learners_with_a_replay_are_looked_into_while_they_learn(ref: str, backward: bool) -> None:
    small = ["run.engine=eager", *(() if ref.endswith(":q") else ("algo.batch_size=8", "algo.buffer_size=2000", "net.hidden=[8]"))]
    config = load(ref, small).config
    phases = profiling.measure(config, 1, 0.02, apart=True).phases
    for name in ("env", "act", "gather", "forward", "sentinels", "logging", *(("backward", "optimizer") if backward else ())):
        assert phases[name] > 0, name
    assert config.algo.learning_starts == load(ref).config.algo.learning_starts, "only what is measured learns at once"


def test_variants_of_a_learner_with_a_replay_keep_its_updates_per_step() -> None:
    config = load("CartPole-v1:dqn", ["algo.train_freq=8", "algo.gradient_steps=4", "env.n_envs=2", "algo.batch_size=64"]).config
    assert [each.changes for each in profile.alternatives(config, "eager", compiling=False, cores=1)] == [
        ("env.n_envs=8", "algo.gradient_steps=16"),
        ("algo.train_freq=32", "algo.gradient_steps=16"),
        ("algo.batch_size=32",),
    ]


def test_the_line_to_type_holds_what_was_asked_for_beside_the_change() -> None:
    asked = ("algo.n_steps=8", "run.engine=auto")
    assert _settings(asked, ("run.engine=captured",)) == "--set algo.n_steps=8 --set run.engine=captured"


def test_who_asks_for_a_gpu_gets_the_engine_that_makes_it_fast() -> None:
    assert [engine_on(device, ()) for device in (None, "cpu", "cuda", "auto")] == [None, None, "auto", "auto"]
    assert engine_on("cuda", ["run.engine=eager"]) is None


def test_the_command_prints_a_table_or_json() -> None:
    words = ["profile", "CartPole-v1:ppo", "--seconds", "0.1", *(text for change in SMALL for text in ("--set", change))]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert "env steps/s" in shown.stdout
    assert "forward" in shown.stdout
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert told["engine"] == "eager"
    assert len([each for each in told["variants"] if each["learns_otherwise"]]) == 4
