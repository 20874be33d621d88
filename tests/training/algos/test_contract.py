"""What every algorithm promises, on every kind of action space where it applies."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from rlclinic.config import ADVERSARIAL, Config, from_record, to_record
from rlclinic.runs.record import Run
from rlclinic.training import trainer
from rlclinic.training.__main__ import train_runs
from rlclinic.training.algos import MODULES
from rlclinic.training.envs.native import PROBES
from rlclinic.training.envs.native.probes import optimal_values
from rlclinic.training.loops import on_policy
from rlclinic.training.nets import mlp
from tests.training import cohorts
from tests.training.cohorts import (
    ALGOS,
    NATIVE,
    REPLAY,
    STATES,
    TABLES,
    TASKS,
    Interrupted,
    assert_same_run,
    interrupt_at,
    make_config,
    table,
    task_of,
    train,
    workshop,
)
from tests.training.imitation.test_iteration import ALGOS as DAGGERS
from tests.training.recordings import OFFLINE, ONLINE

BOTH = pytest.mark.parametrize("task", NATIVE)
ANY = pytest.mark.parametrize("task", TASKS)
KIND = pytest.mark.parametrize("kind", ALGOS)
CHECKPOINTS = {"checkpoint_every_env_steps": 40, "eval_every_env_steps": 90}
"""Neither fits the rollouts nor the other: rows, evaluations and checkpoints must not lean on each other."""


@pytest.fixture(autouse=True)
def few_costly_sentinels(monkeypatch: pytest.MonkeyPatch) -> None:
    """In runs this short they would fall into every iteration, and no two iterations of A2C would share a row."""
    monkeypatch.setattr(trainer, "COSTLY_SENTINELS", 3)


def config_of(kind: str, task: str, seed: int = 0, **run: Any) -> Config:
    short = {"max_env_steps": 384} if kind in REPLAY or kind in TABLES else {}  # the replay of 300 is still overwritten
    return make_config(kind, settings_of(task), seed, run={**make_config(kind).run.model_dump(), **short, **CHECKPOINTS, **run})


def settings_of(task: str) -> dict[str, Any]:
    return (STATES if task == "states" else TASKS[task])[0]


def factory_of(task: str) -> Callable[..., Any] | None:
    return None if task == "states" else TASKS[task][1]


Trained = Callable[..., Run]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run of one seed that was trained alone and in one go: what the others are held against. Each is trained once, in a store where
    tests may add runs of the same kind and task."""

    @cache
    def store_of(kind: str, task: str) -> Path:
        return tmp_path_factory.mktemp("trained")

    @cache
    def trained_alone(kind: str, task: str, seed: int = 0) -> Run:
        return train(store_of(kind, task), [config_of(kind, task, seed)], factory=factory_of(task))[0]

    return trained_alone


def store_of(run: Run) -> Path:
    """The folder to train in beside a run."""
    return run.path.parent.parent


def test_the_suite_covers_every_algorithm() -> None:
    # Held to the same promises in test_offline_contract, in imitation/test_iteration, and in imitation/test_adversarial.
    elsewhere = {settings["name"] for _, settings in (OFFLINE | ONLINE).values()} | set(DAGGERS) | set(ADVERSARIAL)
    assert {settings["name"] for settings in (ALGOS | REPLAY | TABLES).values()} | elsewhere == set(MODULES)


@pytest.mark.parametrize("kind", REPLAY | TABLES)
def test_a_replay_config_goes_through_json_and_back_unchanged(kind: str) -> None:
    config = make_config(kind, settings_of(task_of(kind)), algo={"learning_rate": {"start": 1e-3, "end": 0.0, "schedule": "linear"}})
    assert from_record(json.loads(json.dumps(to_record(config)))) == config


@KIND
def test_a_config_goes_through_json_and_back_unchanged(kind: str) -> None:
    config = make_config(kind, algo={"learning_rate": {"start": 1e-3, "end": 0.0, "schedule": "linear"}, "value_lr": 3e-3})
    assert from_record(json.loads(json.dumps(to_record(config)))) == config


VARIATIONS = ("dqn that saves memory", "bootstrapped_dqn with one trunk", "sac with a fixed temperature", "q_learning with ucb")


def replay_cases(*, all_of_them: bool = False) -> list[Any]:
    """Every algorithm with a replay on its task; variations of one that is there already are for the slow set."""
    slow = [] if all_of_them else VARIATIONS
    return [pytest.param(kind, task_of(kind), marks=[pytest.mark.slow] if kind in slow else []) for kind in REPLAY | TABLES]


CASES = pytest.mark.parametrize(("kind", "task"), [*((kind, task) for kind in ALGOS for task in NATIVE), *replay_cases(all_of_them=True)])


@pytest.mark.parametrize(
    ("kind", "task"),
    # On other kinds of action, the members of a cohort repeat a run that was trained alone.
    [*((kind, task) for kind in ALGOS for task in NATIVE), *((kind, task_of(kind)) for kind in REPLAY | TABLES if kind not in VARIATIONS)],
)
def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(trained: Trained, tmp_path: Path, kind: str, task: str) -> None:
    one, other = trained(kind, task, 0), trained(kind, task, 2)
    again = train(tmp_path, [config_of(kind, task, 0)], factory=factory_of(task))[0]
    assert [run.status.state for run in (one, again, other)] == ["finished"] * 3
    assert_same_run(one, again)
    assert table(again) != table(other)
    assert cohorts.saved(again) != cohorts.saved(other)


@CASES
def test_resuming_from_a_checkpoint_is_the_same_as_never_having_stopped(trained: Trained, kind: str, task: str) -> None:
    straight = trained(kind, task)
    steps = [int(row["total_timesteps"]) for row in table(straight)]
    with pytest.raises(Interrupted):
        train(store_of(straight), [config_of(kind, task)], callback=interrupt_at(steps[-2]))
    broken = Run(straight.path.parent / "@last").path.resolve()
    assert broken != straight.path
    halfway = Run(broken).checkpoint("@last").step
    assert 0 < halfway < steps[-2], "rows that came after the checkpoint must be taken back"
    assert len(table(Run(broken))) < len(steps)
    assert train_runs([Run(broken)], resume=True)
    assert_same_run(Run(broken), straight)


@KIND
@BOTH
def test_a_fork_without_a_change_repeats_the_original(trained: Trained, kind: str, task: str) -> None:
    original = trained(kind, task)
    step = original.checkpoints[-2].step
    fork = train(store_of(original), [config_of(kind, task)], parent=f"{original.id}@{step}", start="fork")[0]
    later = [row for row in table(original) if int(row["total_timesteps"]) > step]
    assert later
    assert table(fork) == later
    assert cohorts.saved(fork) == cohorts.saved(original)


@pytest.mark.parametrize(("kind", "task"), replay_cases())
def test_a_fork_of_a_replay_algorithm_from_its_newest_checkpoint_repeats_the_original(trained: Trained, kind: str, task: str) -> None:
    config, original = config_of(kind, task), trained(kind, task)
    steps = [int(row["total_timesteps"]) for row in table(original)]
    with pytest.raises(Interrupted):
        train(store_of(original), [config], callback=interrupt_at(steps[-1]))
    half = Run((original.path.parent / "@last").resolve())
    assert half.path != original.path
    step = half.checkpoint("@last").step
    fork = train(store_of(original), [config], parent=f"{half.id}@{step}", start="fork")[0]
    later = [row for row in table(original) if int(row["total_timesteps"]) > step]
    assert later
    assert table(fork) == later
    assert cohorts.saved(fork) == cohorts.saved(original)


@pytest.mark.parametrize(("kind", "task"), [*((kind, task) for kind in ALGOS for task in TASKS), *replay_cases()])
def test_a_member_of_a_cohort_learns_as_it_would_alone(trained: Trained, tmp_path: Path, kind: str, task: str) -> None:
    seeds = (5, 2, 6, 7) if task == "discrete" else (0, 1, 2)
    together = train(tmp_path, [config_of(kind, task, seed) for seed in seeds], factory=factory_of(task))
    assert_same_run(together[seeds.index(2)], trained(kind, task, 2))


@KIND
@ANY
def test_the_loss_falls_on_a_fixed_batch(kind: str, task: str) -> None:
    at = workshop([config_of(kind, task, seed) for seed in range(2)], factory_of(task))
    whole, hp = at.whole(), at.numbers()
    flat, state, losses = at.learner.flat, at.learner.optimizer, []
    for _ in range(40):
        flat, state, _, readings = on_policy.update_step(at.plan, flat, state, whole, hp, None)
        losses.append(readings["total"].flatten())
    assert (losses[-1] < losses[0]).all()
    assert torch.isfinite(flat).all()


# ── known answers ──

SETTINGS: dict[str, dict[str, Any]] = {
    "ppo": {"n_steps": 16, "batch_size": 64, "n_epochs": 8, "learning_rate": 1e-2, "gamma": 0.5},
    "a2c": {"n_steps": 8, "optimizer": "adam", "learning_rate": 1e-2, "gamma": 0.5, "vf_coef": 1.0},
    "a3c": {"n_steps": 8, "optimizer": "adam", "learning_rate": 1e-2, "gamma": 0.5, "vf_coef": 1.0},
    "impala": {"n_steps": 8, "optimizer": "adam", "learning_rate": 1e-2, "gamma": 0.5, "vf_coef": 1.0},
    "appo": {"n_steps": 16, "batch_size": 64, "n_epochs": 8, "learning_rate": 1e-2, "gamma": 0.5},
    "reinforce": {"n_steps": 16, "learning_rate": 1e-2, "gamma": 0.5, "ent_coef": 0.0},
    "reinforce without baseline": {"n_steps": 16, "learning_rate": 1e-2, "gamma": 0.5, "ent_coef": 0.0},
}
BUDGETS = dict.fromkeys(("ppo", "appo"), 2_560) | dict.fromkeys(("a2c", "a3c", "impala"), 8_000)
BUDGETS |= dict.fromkeys(("reinforce", "reinforce without baseline"), 20_000)
LEARNS_VALUES = ("ppo", "a2c", "a3c", "impala", "appo", "reinforce")


def learned(kind: str, probe: str) -> tuple[Any, Any]:
    """A cohort of two after training on a probe, and its final weights."""
    config = [
        make_config(kind, {"id": probe, "n_envs": 8}, seed, algo=SETTINGS[kind], net={"hidden": [16], "log_std_init": -0.7})
        for seed in range(2)
    ]
    at = workshop(config)
    learner, hp = at.learner, at.numbers()
    everyone = torch.ones(2, 1, dtype=torch.bool)
    for iteration in range(BUDGETS[kind] // config[0].rollout_size):
        rollout = on_policy.collect(at.plan, learner, at.env, at.position, at.seed, iteration, {"env": 0.0})
        whole, _ = on_policy.estimate_advantages(at.plan, learner, rollout, hp)
        learner, _, _ = on_policy.learn(at.plan, learner, whole, hp, None, at.seed, iteration)
        learner = on_policy.update_normalizers(at.plan, learner, rollout, hp, everyone)
    return at, learner


def probe_cases() -> Iterator[Any]:
    """Every algorithm with every probe that it can answer; without -m loop PPO with all, others with the last of each kind of action."""
    for kind in ALGOS:
        for probe, task in PROBES.items():
            # Without a baseline no value is learned; a probe with one action then has nothing to learn.
            if kind in LEARNS_VALUES or task.actions != 1:
                easier = kind != "ppo" and probe not in ("probe:5", "probe:continuous")
                yield pytest.param(kind, probe, marks=[pytest.mark.loop] if easier else [])


@pytest.mark.parametrize(("kind", "probe"), list(probe_cases()))
def test_it_learns_the_known_values_and_actions_of_a_probe(kind: str, probe: str) -> None:
    at, learner = learned(kind, probe)
    policy, params = at.plan.policy, at.plan.policy.layout.views(learner.flat)
    for answer in PROBES[probe].answers:
        obs = torch.full((2, 1, 1), answer.obs)
        if kind in LEARNS_VALUES:
            value = mlp.critic(policy, params, obs).flatten().tolist()
            noise = 0.15 if probe == "probe:continuous" else 0.0  # its actions stay noisy, which costs a little
            assert value == pytest.approx([optimal_values(probe, 0.5)[answer.obs]] * 2, abs=0.1 + noise)
        if answer.action is not None:
            action = policy.distribution.mode(mlp.actor(policy, params, obs)).flatten().tolist()
            assert action == pytest.approx([answer.action] * 2, abs=0.1)
