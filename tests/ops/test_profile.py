"""`profile` says where an iteration's time goes and what to change, from measurements alone."""

import json

import pytest
import torch
from typer.testing import CliRunner

from rlclinic.config import load
from rlclinic.errors import UsageError
from rlclinic.ops import profile as profiles
from rlclinic.serve.cli import app
from rlclinic.training import gradients, optim, profiling
from rlclinic.training.data.episodes import Episodes

SMALL = ("algo.n_steps=8", "algo.batch_size=16", "env.n_envs=4", "algo.n_epochs=2", "net.hidden=[8]")


@pytest.fixture(scope="module")
def found() -> profiles.Profile:
    return profiles.profile("CartPole-v1:ppo", SMALL, seconds=0.02)


def test_the_phases_add_up_to_the_iteration(found: profiles.Profile) -> None:
    shares = {phase.name: phase.share for phase in found.phases}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert set(shares) == set(profiling.PHASES)
    for name in ("env", "act", "estimate", "gather", "forward", "backward", "optimizer", "sentinels", "logging"):
        assert shares[name] > 0, name


def test_variants_are_measured_against_the_config_itself(found: profiles.Profile) -> None:
    assert {variant.changes for variant in found.variants} == {
        ("env.n_envs=8", "algo.n_steps=4"),
        ("env.n_envs=16", "algo.batch_size=64"),
        ("algo.n_steps=16", "algo.batch_size=32"),
        ("algo.batch_size=32",),
    }
    for variant in found.variants:
        assert variant.env_steps_per_second is not None
        assert variant.factor == pytest.approx(variant.env_steps_per_second / found.env_steps_per_second)
        assert variant.learns_otherwise


def test_only_what_computes_the_same_is_prescribed(monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = {"eager": 100.0, "compiled": 300.0}

    def measure(config: object, members: int, seconds: float, *, apart: bool) -> profiling.Measured:
        engine = config.run.engine  # type: ignore[attr-defined]
        return profiling.Measured(engine, speeds[engine], 0.1, dict.fromkeys(profiling.PHASES, 1.0), 10.0, None)

    monkeypatch.setattr(profiling, "measure", measure)
    assert profiles.profile("CartPole-v1:ppo", SMALL, compiling=True).prescription == ("run.engine=compiled",)
    speeds["compiled"] = 105.0
    assert profiles.profile("CartPole-v1:ppo", SMALL, compiling=True).prescription == ()


def test_measuring_leaves_no_stopwatch_behind(found: profiles.Profile) -> None:
    for function in (gradients.gradient, optim.step, torch.autograd.grad, Episodes.add):
        assert function.__name__ != "timed"


def test_a_variant_that_the_config_refuses_says_why() -> None:
    config = load("CartPole-v1:ppo", ["run.max_env_steps=64", *SMALL]).config
    refused = profiles._measured(config, (("algo.batch_size=7",), True), 1, 0.01, 1.0, lambda _: None)
    assert refused.env_steps_per_second is None
    assert "batch_size=7" in (refused.refused or "")


def test_other_loops_are_sent_to_their_columns() -> None:
    with pytest.raises(UsageError, match="another loop"):
        profiles.profile("CartPole-v1:dqn")


def test_the_command_prints_a_table_or_json() -> None:
    words = ["profile", "CartPole-v1:ppo", "--seconds", "0.1", *(text for change in SMALL for text in ("--set", change))]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert "env steps/s" in shown.stdout
    assert "forward" in shown.stdout
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert told["engine"] == "eager"
    assert len(told["variants"]) == 4
