"""The part of the corpus that learns from a replay: DQN, SAC and TD3 with small networks and budgets, what is planted, and how badly.

Tasks of the split "fit" are used to fit the ranking, those of "test" only to measure it; a "fit" severity is never measured, a "test"
one never fitted. Planted bugs of these learners are tested in tests/mutations and tests/diagnosis.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from benchmarks.diagnosis import faults
from benchmarks.diagnosis.cells import Cell, make
from benchmarks.diagnosis.faults import Fault, Settings, number, rate, sets
from benchmarks.diagnosis.faulty import EnvFault
from benchmarks.diagnosis.tasks import Task
from rlclinic.config import Config

FAMILY: Final = "off-policy"
MILD: Final = 24
"""Odd but harmless variations of each task; from the ninth on recorded for DQN only."""
_NET: Final = ("net.hidden=[64,64]", "net.activation=relu", "net.shared=false", "env.normalize_obs=false", "env.normalize_reward=false")


def steps(count: int) -> tuple[str, ...]:
    return (f"run.max_env_steps={count}", f"run.eval_every_env_steps={count // 12}", "run.eval_episodes=8")


_LOOP: Final = ("env.n_envs=1", "algo.train_freq=4", "algo.gradient_steps=4", "algo.learning_starts=500", "algo.buffer_size=20000", *_NET)
DQN: Final = (
    "algo.name=dqn", *_LOOP, "algo.batch_size=64", "algo.target_update_interval=200", "algo.exploration_fraction=0.3",
    "algo.exploration_final_eps=0.04", "algo.learning_rate=5e-4",
)  # fmt: skip
ACTOR: Final = (*_LOOP, "algo.batch_size=64", "algo.tau=0.01", "algo.learning_rate=1e-3")
_OWN: Final = ("spec.return_range=none", "spec.max_episode_steps=150")
_CARTPOLE, _PENDULUM = "CartPole-v1:ppo_zoo", "Pendulum-v1:ppo"

TASKS: tuple[Task, ...] = (
    Task("dqn-cartpole", _CARTPOLE, "fit", (*DQN, "env.max_episode_steps=200", "spec.threshold=140", *steps(4_800))),
    Task("sac-pendulum", _PENDULUM, "fit", ("algo.name=sac", *ACTOR, "algo.gamma=0.95", "spec.threshold=-300", *steps(3_600))),
    Task("td3-pendulum", _PENDULUM, "fit", ("algo.name=td3", *ACTOR, "algo.gamma=0.98", "spec.threshold=-300", *steps(7_200))),
    Task(
        "dqn-docking",
        _CARTPOLE,
        "test",
        ("env.id=Docking-v0", *DQN, "algo.gamma=0.97", "spec.threshold=8", *_OWN, *steps(4_800)),
        own=True,
    ),
    Task(
        "sac-docking-continuous",
        _CARTPOLE,
        "test",
        ("env.id=DockingContinuous-v0", "algo.name=sac", *ACTOR, "algo.gamma=0.97", "spec.threshold=4", *_OWN, *steps(3_600)),
        own=True,
    ),
)


def dqn(task: Task) -> bool:
    return task.id.startswith("dqn")


def sac(task: Task) -> bool:
    return task.id.startswith("sac")


def td3(task: Task) -> bool:
    return task.id.startswith("td3")


def actor(task: Task) -> bool:
    return not dqn(task)


def budget(share: float, *names: str) -> Settings:
    """Settings that are a share of the budget."""
    return lambda c: [f"{name}={max(1, int(share * c.run.max_env_steps))}" for name in names]


def few(every: int) -> Settings:
    return sets(f"algo.train_freq={every}", "algo.gradient_steps=1")


def tiny_budget(share: float) -> Settings:
    def changes(c: Config) -> list[str]:
        most = int(c.run.max_env_steps * share)
        return [f"run.max_env_steps={most}", f"run.eval_every_env_steps={most // 6}", "algo.learning_starts=100"]

    return changes


def _pair(cause: str, fit: dict[str, Settings], test: dict[str, Settings], **more: Any) -> list[Fault]:
    return [Fault(cause, label, split, change, **more) for split, part in (("fit", fit), ("test", test)) for label, change in part.items()]  # type: ignore[arg-type]


SETTINGS: tuple[Fault, ...] = tuple(
    fault
    for group in (
        _pair("learning-rate-too-high", {"x30": rate(30), "x200": rate(200)}, {"x80": rate(80)}),
        _pair("learning-rate-too-low", {"/300": rate(1 / 300), "/5000": rate(1 / 5000)}, {"/1000": rate(1e-3)}),
        _pair("discount-too-low", {"2": faults.discount(2), "1.2": faults.discount(1.2)}, {"1.5": faults.discount(1.5)}),
        _pair(
            "target-not-updated",
            {"never": budget(1.0, "algo.target_update_interval")},
            {"once": budget(0.7, "algo.target_update_interval")},
            fits=dqn,
        ),
        _pair(
            "target-not-updated",
            {"1e-6": number("tau", 1e-6), "1e-4": number("tau", 1e-4)},
            {"1e-5": number("tau", 1e-5)},
            fits=actor,
        ),
        _pair(
            "target-follows-at-once",
            {"1": sets("algo.target_update_interval=1")},
            {"8": sets("algo.target_update_interval=8")},
            fits=dqn,
        ),
        _pair("target-follows-at-once", {"1": number("tau", 1.0)}, {"0.6": number("tau", 0.6)}, fits=actor),
        _pair(
            "replay-too-small",
            {"100": sets("algo.buffer_size=100")},
            {"200": sets("algo.buffer_size=200")},
        ),
        _pair(
            "learning-starts-too-late",
            {"90%": budget(0.9, "algo.learning_starts")},
            {"80%": budget(0.8, "algo.learning_starts")},
        ),
        _pair("too-few-updates", {"1/150": few(150)}, {"1/200": few(200)}),
        _pair(
            "exploration-never-ends",
            {"1": number("exploration_final_eps", 1.0), "0.8": number("exploration_final_eps", 0.8)},
            {"0.9": number("exploration_final_eps", 0.9)},
            fits=dqn,
        ),
        _pair(
            "exploration-ends-too-early",
            {"0": sets("algo.exploration_initial_eps=0", "algo.exploration_final_eps=0", "algo.learning_starts=64")},
            {"0.01": sets("algo.exploration_initial_eps=0.01", "algo.exploration_final_eps=0.01", "algo.learning_starts=64")},
            fits=dqn,
        ),
        _pair(
            "exploration-ends-too-early",
            {"none": sets("algo.action_noise=none", "algo.learning_starts=64")},
            {"0.002": sets("algo.action_noise_std=0.002", "algo.learning_starts=64")},
            fits=td3,
        ),
        _pair(
            "temperature-too-high",
            {"10": number("ent_coef", 10.0), "100": number("ent_coef", 100.0)},
            {"30": number("ent_coef", 30.0)},
            fits=sac,
        ),
        _pair(
            "temperature-too-low",
            {"0": sets("algo.ent_coef=0", "algo.learning_starts=64")},
            {"-30": sets("algo.target_entropy=-30", "algo.learning_starts=64")},
            fits=sac,
        ),
        _pair("optimizer-mismatch", {"sgd": sets("algo.optimizer=sgd")}, {"momentum": sets("algo.optimizer=sgd", "algo.momentum=0.5")}),
        _pair(
            "saturating-activation",
            {"4": sets("net.activation=sigmoid", "net.hidden=[64,64,64,64]")},
            {"5": sets("net.activation=sigmoid", "net.hidden=[32,32,32,32,32]")},
        ),
        _pair("network-too-small", {"1": sets("net.hidden=[1]")}, {"1,1": sets("net.hidden=[1,1]")}),
        _pair("budget-too-small", {"15%": tiny_budget(0.15)}, {"12%": tiny_budget(0.12)}),
        _pair("threshold-out-of-reach", {"+20%": faults.beyond(0.2)}, {"+40%": faults.beyond(0.4)}, fits=lambda task: not task.own),
    )
    for fault in group
)

_ENVS: Final = frozenset(
    {
        "reward-sign", "reward-never-seen", "reward-noise", "observation-constant", "observation-scale", "observation-partial",
        "observation-not-updated", "actions-without-effect", "evaluation-mismatch",
    }
)  # fmt: skip
ENVIRONMENTS: tuple[Fault, ...] = (
    *(fault for fault in faults.ENVIRONMENTS if fault.cause in _ENVS),
    Fault("reward-scale-too-large", "x1e3", "fit", env=EnvFault(reward_scale=1e3), scores=1e3),
    Fault("reward-scale-too-large", "x1e4", "test", env=EnvFault(reward_scale=1e4), scores=1e4),
    Fault("reward-scale-too-small", "/1e4", "fit", env=EnvFault(reward_scale=1e-4), scores=1e-4),
    Fault("reward-scale-too-small", "/1e5", "test", env=EnvFault(reward_scale=1e-5), scores=1e-5),
)


def mild(index: int) -> Fault:
    """The index-th odd but harmless variation: two numbers moved by up to a factor of about two."""
    if index < 2:
        return Fault("healthy", f"as-is-{index}", "fit" if index == 0 else "test")
    turn = math.sin(index * 12.9898) * 43758.5453
    a, b = turn % 1, (turn * 7.31) % 1
    choices: list[Settings] = [
        rate(2 ** (1.6 * a - 0.8)),
        lambda c: [f"algo.gamma={1 - (1 - faults._start(c.algo.gamma)) * 2 ** (1.4 * a - 0.7):.6g}"],
        lambda c: [f"algo.exploration_final_eps={0.02 + 0.08 * a:.3g}"] if c.algo.name == "dqn" else [f"algo.tau={0.006 * 3**a:.4g}"],
        lambda c: (
            [f"algo.exploration_fraction={0.2 + 0.3 * b:.3g}"] if c.algo.name == "dqn" else [f"algo.value_lr={1e-3 * 2 ** (2 * b - 1):.4g}"]
        ),
    ]
    first, second = choices[index % 4], choices[(index + 1 + int(b * 3)) % 4]
    return Fault("healthy", f"mild-{index}", "fit" if index % 2 and index < 8 else "test", lambda c: [*first(c), *second(c)])


SHAPES: tuple[Fault, ...] = tuple(
    Fault("healthy", label, split, change, fits=fits)  # type: ignore[arg-type]
    for label, split, change, fits in (
        ("double", "fit", sets("algo.double=true"), dqn),
        ("soft", "test", sets("algo.tau=0.02", "algo.target_update_interval=4"), dqn),
        ("tanh", "test", sets("net.activation=tanh"), lambda task: True),
    )
)


def all_cells() -> Iterator[Cell]:
    """The whole of it, in a fixed order."""
    for task in TASKS:
        for fault in (*SETTINGS, *ENVIRONMENTS, *(mild(index) for index in range(MILD)), *SHAPES):
            split = "test" if task.split == "test" else fault.split
            # Where everything is for testing, one severity is enough.
            doubled = task.split == "test" and fault.split == "fit" and fault.kind == "user"
            if fault.fits(task) and not doubled and (made := make(task, (fault,), split)) is not None:
                yield replace(made, seeds=made.seeds[:2])
