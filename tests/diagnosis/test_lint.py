"""Lint: silent on every shipped variant and on rl-zoo3's tuned settings, loud on what nobody would choose."""

from typing import Any

import pytest

from rlclinic.config import files
from rlclinic.diagnosis import lint
from rlclinic.diagnosis.findings import Severity

SHIPPED = [f"{entry.env}:{variant}" for entry in files.available() for variant in entry.variants]

# rl-zoo3, hyperparams/ppo.yml: n_envs, n_steps, batch_size, n_epochs, gamma, gae_lambda, budget, and what else is unusual.
FALLING: dict[str, Any] = {"algo.learning_rate": {"start": 1e-3, "end": 0.0}, "algo.clip_range": {"start": 0.2, "end": 0.0}}
ZOO: dict[str, tuple[tuple[float, ...], dict[str, Any]]] = {
    "CartPole-v1": ((8, 32, 256, 20, 0.98, 0.8, 100_000), FALLING),
    "Acrobot-v1": ((16, 256, 64, 4, 0.99, 0.94, 1_000_000), {}),
    "LunarLander-v3": ((16, 1024, 64, 4, 0.999, 0.98, 1_000_000), {"algo.ent_coef": 0.01}),
    "MountainCar-v0": ((16, 16, 64, 4, 0.99, 0.98, 1_000_000), {}),
    "Pendulum-v1": ((4, 1024, 64, 10, 0.9, 0.95, 100_000), {"algo.learning_rate": 1e-3}),
    "Atari": ((8, 128, 256, 4, 0.99, 0.95, 10_000_000), {"algo.ent_coef": 0.01, "algo.clip_range": {"start": 0.1, "end": 0.0}}),
    "HalfCheetah-v4": (
        (1, 512, 64, 20, 0.98, 0.92, 1_000_000),
        {"algo.learning_rate": 2e-5, "algo.clip_range": 0.1, "net.log_std_init": -2.0},
    ),
    "Hopper-v4": ((1, 512, 32, 5, 0.999, 0.99, 1_000_000), {"algo.learning_rate": 9.8e-5, "algo.max_grad_norm": 0.7}),
}
ORDER = ("env.n_envs", "algo.n_steps", "algo.batch_size", "algo.n_epochs", "algo.gamma", "algo.gae_lambda", "run.max_env_steps")


@pytest.mark.parametrize("ref", SHIPPED)
def test_shipped_variants_raise_no_alarm(ref: str) -> None:
    found = lint.lint_config(files.load(ref).config)
    assert [f"{finding.rule}: {finding.text}" for finding in found.findings] == []
    assert found.checks > 15


@pytest.mark.parametrize("env", ZOO)
def test_rl_zoo3s_tuned_settings_raise_no_alarm(env: str) -> None:
    shape, more = ZOO[env]
    found = lint.lint({"algo.name": "ppo", **dict(zip(ORDER, shape, strict=True)), **more}, name=env)
    assert [f"{finding.rule}: {finding.text}" for finding in found.findings] == []


@pytest.mark.parametrize(
    ("change", "id"),
    [
        ("algo.learning_rate=0.1", "LRN101"),
        ("algo.learning_rate=1e-7", "LRN102"),
        ('algo.learning_rate={"start": 1e-3, "end": 0, "to": 0.1}', "LRN104"),
        ("algo.optimizer=sgd", "LRN106"),
        ("algo.gamma=0.5", "VAL208"),
        ("algo.gamma=1.0", "VAL209"),
        ("algo.gae_lambda=0", "VAL210"),
        ("algo.vf_coef=0", "VAL202"),
        ("algo.ent_coef=0.5", "ENT306"),
        ("algo.clip_range=0.005", "BAT105"),
        ("algo.n_epochs=50", "BAT103"),
        ("algo.target_kl=1e-5", "BAT106"),
        ("algo.max_grad_norm=1e-4", "BAT107"),
        ("net.activation=sigmoid", "GRD409"),
        ("net.hidden=[2]", "GRD410"),
        ("net.policy_gain=50", "BAT108"),
        ("run.max_env_steps=1000", "BAT101"),
    ],
)
def test_a_fault_in_the_config_is_found_before_training(change: str, id: str) -> None:
    found = lint.lint_config(files.load("CartPole-v1:ppo", [change]).config)
    assert id in {finding.rule for finding in found.findings}


def test_severe_findings_come_first_and_rules_can_be_left_out() -> None:
    config = files.load("CartPole-v1:ppo", ["algo.vf_coef=0", "algo.gamma=1.0"]).config
    found = lint.lint_config(config)
    assert [finding.severity for finding in found.findings] == sorted((f.severity for f in found.findings), key=lambda s: -s.rank)
    assert found.findings[0].severity is Severity.HIGH
    assert not lint.lint_config(config, ignore=["VAL"]).findings


def test_the_numbers_that_follow_from_a_config_are_shown() -> None:
    found = lint.lint_config(files.load("CartPole-v1:ppo_zoo").config).derived
    assert found["horizon_steps"] == pytest.approx(50)
    assert found["gae_horizon_steps"] == pytest.approx(1 / (1 - 0.98 * 0.8))
    assert found["gradient_steps"] == 391 * 20
    assert found["samples_per_gradient_step"] == pytest.approx(256 / 20)


def test_settings_that_are_not_there_are_not_judged() -> None:
    found = lint.lint({"algo.name": "ppo", "algo.gamma": 0.5})
    assert [finding.rule for finding in found.findings] == ["VAL208"]
    assert found.derived == {"horizon_steps": 2.0}
