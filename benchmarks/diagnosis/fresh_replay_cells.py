"""Off-policy runs that nobody had looked at: tasks, seeds and severities apart from those of `replay_cells`, for testing only.

They were listed and recorded when rules and weights were as the other part had left them, and scored once before anything was changed
(`first_look.json`); LATER ones when rules had been mended since (`third_look.json`). Faults are what a user types or wraps: round
numbers, not multiples of the good ones.
"""

from collections.abc import Iterator
from typing import Any, Final

from benchmarks.diagnosis import faults
from benchmarks.diagnosis.cells import Cell, make
from benchmarks.diagnosis.faults import Fault, Settings, sets
from benchmarks.diagnosis.faulty import EnvFault
from benchmarks.diagnosis.replay_cells import ACTOR, DQN, budget, mild, steps, tiny_budget
from benchmarks.diagnosis.tasks import Task

FAMILY: Final = "off-policy-fresh"
_VARIANTS: Final = ("algo.double=true", "algo.dueling=true", "algo.prioritized=true", "algo.n_step=3")
_ARM: Final = (
    "env.n_envs=4", "env.normalize_obs=false", "algo.train_freq=4", "algo.gradient_steps=8", "algo.learning_rate=5e-4",
    "algo.exploration_fraction=0.4", "algo.exploration_final_eps=0.05",
)  # fmt: skip
_THREE: Final = ("env.n_envs=3", "algo.train_freq=1", "algo.gradient_steps=-1", "algo.gamma=0.97")
_CARTPOLE: Final = "CartPole-v1:ppo_zoo"


def _own(limit: int) -> tuple[str, ...]:
    return ("spec.return_range=none", f"spec.max_episode_steps={limit}")


def _task(id: str, ref: str, threshold: float, count: int, *changes: str, own: bool = False) -> Task:
    return Task(id, ref, "test", (*changes, f"spec.threshold={threshold}", *steps(count)), own=own, fresh=True)


TASKS: Final[dict[str, Task]] = {
    "A": _task("dqn-acrobot", "Acrobot-v1:dqn", -130, 30_000, *_ARM),
    "M": _task("dqn-mountaincar", "MountainCar-v0:dqn", -130, 60_000, "algo.exploration_fraction=0.1"),
    "R": _task(
        "dqn-variants-cartpole", _CARTPOLE, 150, 9_000, *DQN, *_VARIANTS, "algo.gamma=0.98", "env.max_episode_steps=250",
    ),
    "G": _task("dqn-greenhouse", _CARTPOLE, 80, 6_000, "env.id=Greenhouse-v0", *DQN, "algo.gamma=0.97", *_own(120), own=True),
    "D": _task("ddpg-pendulum", "Pendulum-v1:ddpg", -300, 6_000),
    "T": _task(
        "td3-docking-continuous", _CARTPOLE, 4, 6_000,
        "env.id=DockingContinuous-v0", "algo.name=td3", *ACTOR, "algo.gamma=0.97", *_own(150), own=True,
    ),
    "C": _task("sac-mcc", "MountainCarContinuous-v0:sac", 85, 9_000),
    "S": _task(
        "sac-greenhouse-continuous", _CARTPOLE, 90, 3_600,
        "env.id=GreenhouseContinuous-v0", "algo.name=sac", *ACTOR, "algo.gamma=0.95", *_own(120), own=True,
    ),
    "B": _task("dqn-buoy", _CARTPOLE, 130, 7_200, "env.id=Buoy-v0", *DQN, "algo.gamma=0.98", *_own(200), own=True),
    "W": _task(
        "td3-greenhouse-continuous", _CARTPOLE, 90, 4_800,
        "env.id=GreenhouseContinuous-v0", "algo.name=td3", *ACTOR, "algo.gamma=0.95", *_own(120), own=True,
    ),
    "K": _task(
        "sac-docking-three-envs", _CARTPOLE, 4, 3_600,
        "env.id=DockingContinuous-v0", "algo.name=sac", *ACTOR, *_THREE, *_own(150), own=True,
    ),
}  # fmt: skip
"""By the letter that the list of faults calls them by."""


def _on(letters: str, cause: str, label: str, *settings: Any, **more: Any) -> tuple[frozenset[str], Fault]:
    """A fault and the tasks that have it; settings are texts as `--set` takes them, or a function of the config."""
    change: Settings = settings[0] if settings and callable(settings[0]) else sets(*settings)
    ids = frozenset(TASKS[letter].id for letter in letters)
    return ids, Fault(cause, label, "test", change, **more)


FAULTS: Final = (
    _on("ARGDTSCM", "learning-rate-too-high", "0.1", "algo.learning_rate=0.1"),
    _on("ARGDTSCM", "learning-rate-too-low", "1e-7", "algo.learning_rate=1e-7"),
    _on("AMRDTC", "discount-too-low", "0.4", "algo.gamma=0.4"),
    _on("AMGDS", "learning-starts-too-late", "70%", budget(0.7, "algo.learning_starts")),
    _on("ARGDTC", "replay-too-small", "150", "algo.buffer_size=150"),
    _on("ARG", "target-not-updated", "1e6", "algo.target_update_interval=1000000"),
    _on("DTS", "target-not-updated", "2e-6", "algo.tau=2e-6"),
    _on("AR", "target-follows-at-once", "every", "algo.target_update_interval=1", "algo.train_freq=1", "algo.gradient_steps=1"),
    _on("DTS", "target-follows-at-once", "0.9", "algo.tau=0.9"),
    _on("RGTS", "too-few-updates", "16 envs", "env.n_envs=16", "algo.train_freq=1", "algo.gradient_steps=1"),
    _on("MD", "too-few-updates", "32 envs", "env.n_envs=32", "algo.train_freq=1", "algo.gradient_steps=1"),
    _on("ARGM", "exploration-never-ends", "0.7", "algo.exploration_final_eps=0.7"),
    _on("ARGM", "exploration-ends-too-early", "0.1%", "algo.exploration_fraction=0.001", "algo.learning_starts=100"),
    _on("DT", "exploration-ends-too-early", "no noise", "algo.action_noise=none", "algo.learning_starts=100"),
    _on("DT", "action-noise-too-wide", "3", "algo.action_noise_std=3"),
    _on("SC", "temperature-too-high", "5", "algo.ent_coef=5"),
    _on("SC", "temperature-too-high", "sign of the target", "algo.ent_coef=auto", "algo.target_entropy=2"),
    _on("SC", "temperature-too-low", "1e-6", "algo.ent_coef=1e-6", "algo.learning_starts=50", "algo.action_noise=none"),
    _on("ARDS", "batch-too-small", "2", "algo.batch_size=2"),
    _on("GT", "optimizer-mismatch", "sgd", "algo.optimizer=sgd"),
    _on("RDS", "network-too-small", "2", "net.hidden=[2]"),
    _on("MGTC", "budget-too-small", "10%", tiny_budget(0.1)),
    _on("A", "threshold-out-of-reach", "-30", "spec.threshold=-30"),
    _on("R", "threshold-out-of-reach", "480 of 250", "spec.threshold=480"),
    _on("D", "threshold-out-of-reach", "-40", "spec.threshold=-40"),
    _on("AMC", "episode-too-short", "10%", faults.limit(0.1)),
    _on("RDS", "reward-scale-too-large", "x2000", "spec.return_range=none", env=EnvFault(reward_scale=2e3), scores=2e3),
    _on("GTC", "reward-scale-too-small", "/50000", "spec.return_range=none", env=EnvFault(reward_scale=2e-5), scores=2e-5),
    _on("ADGS", "reward-sign", "both", env=EnvFault(reward_scale=-1.0)),
    _on("MTR", "reward-never-seen", "none", env=EnvFault(reward_scale=0.0)),
    _on("GD", "reward-noise", "40", env=EnvFault(reward_noise=40.0), also=("evaluation-too-noisy",)),
    _on("RS", "observation-constant", "zero", env=EnvFault(obs_scale=(0.0,))),
    _on("AD", "observation-scale", "x5000", env=EnvFault(obs_scale=(1.0, 5e3))),
    _on("MTR", "observation-partial", "half", env=EnvFault(obs_scale=(1.0, 0.0))),
    _on("GT", "observation-not-updated", "frozen", env=EnvFault(obs_frozen=True), also=("observation-constant",)),
    _on("AS", "actions-without-effect", "95%", env=EnvFault(action_random=0.95)),
    # Actions from -1 to 1 handed on as they are, to something that counts in per cent.
    _on("DTC", "action-bounds", "x0.01", env=EnvFault(action_scale=0.01), also=("actions-without-effect",)),
    _on("RGDS", "time-limit-as-terminal", "flag", env=EnvFault(limit_terminal=True)),
    _on("GTA", "evaluation-mismatch", "observations", env=EnvFault(obs_scale=(-1.0,), eval_only=True)),
)  # fmt: skip

LATER: Final = (
    _on("BWK", "learning-rate-too-high", "0.03", "algo.learning_rate=0.03"),
    _on("BWK", "learning-rate-too-low", "5e-6", "algo.learning_rate=5e-6"),
    _on("BWK", "discount-too-low", "0.2", "algo.gamma=0.2"),
    _on("BWK", "learning-starts-too-late", "85%", budget(0.85, "algo.learning_starts")),
    _on("BWK", "replay-too-small", "100", "algo.buffer_size=100"),
    _on("B", "target-not-updated", "1e5", "algo.target_update_interval=100000"),
    _on("WK", "target-not-updated", "1e-5", "algo.tau=1e-5"),
    _on("B", "target-follows-at-once", "every", "algo.target_update_interval=1", "algo.train_freq=1", "algo.gradient_steps=1"),
    _on("WK", "target-follows-at-once", "0.7", "algo.tau=0.7"),
    _on("B", "too-few-updates", "8 envs", "env.n_envs=8", "algo.train_freq=4", "algo.gradient_steps=1"),
    _on("WK", "too-few-updates", "24 envs", "env.n_envs=24", "algo.train_freq=1", "algo.gradient_steps=1"),
    _on("B", "exploration-never-ends", "0.95", "algo.exploration_final_eps=0.95"),
    _on("B", "exploration-ends-too-early", "0.2%", "algo.exploration_fraction=0.002", "algo.learning_starts=100"),
    _on("W", "exploration-ends-too-early", "no noise", "algo.action_noise=none", "algo.learning_starts=100"),
    _on("W", "action-noise-too-wide", "2", "algo.action_noise_std=2"),
    _on("K", "temperature-too-high", "20", "algo.ent_coef=20"),
    _on("K", "temperature-too-high", "sign of the target", "algo.target_entropy=3"),
    _on("K", "temperature-too-low", "1e-7", "algo.ent_coef=1e-7", "algo.learning_starts=50"),
    _on("BWK", "batch-too-small", "4", "algo.batch_size=4"),
    _on("BK", "optimizer-mismatch", "sgd", "algo.optimizer=sgd"),
    _on("BWK", "network-too-small", "1", "net.hidden=[1]"),
    _on("BWK", "budget-too-small", "8%", tiny_budget(0.08)),
    _on("BWK", "episode-too-short", "8%", faults.limit(0.08)),
    _on("BWK", "reward-scale-too-large", "x5000", "spec.return_range=none", env=EnvFault(reward_scale=5e3), scores=5e3),
    _on("BWK", "reward-scale-too-small", "/20000", "spec.return_range=none", env=EnvFault(reward_scale=5e-5), scores=5e-5),
    _on("BK", "reward-never-seen", "none", env=EnvFault(reward_scale=0.0)),
    _on("BWK", "reward-noise", "25", env=EnvFault(reward_noise=25.0), also=("evaluation-too-noisy",)),
    _on("W", "observation-constant", "zero", env=EnvFault(obs_scale=(0.0,))),
    _on("B", "observation-scale", "x2000", env=EnvFault(obs_scale=(2e3, 1.0))),
    _on("BK", "observation-partial", "half", env=EnvFault(obs_scale=(0.0, 1.0))),
    _on("WK", "observation-not-updated", "frozen", env=EnvFault(obs_frozen=True), also=("observation-constant",)),
    _on("BWK", "actions-without-effect", "98%", env=EnvFault(action_random=0.98)),
    _on("WK", "action-bounds", "x0.005", env=EnvFault(action_scale=0.005), also=("actions-without-effect",)),
    _on("BW", "evaluation-mismatch", "observations", env=EnvFault(obs_scale=(-1.0,), eval_only=True)),
)  # fmt: skip

SHAPES: Final = (
    _on("RGTS", "healthy", "four-envs", "env.n_envs=4", "algo.train_freq=1", "algo.gradient_steps=-1"),
    _on("ARGDTS", "healthy", "tanh", "net.activation=tanh"),
    _on("AG", "healthy", "prioritized", "algo.prioritized=true"),
    _on("GDS", "healthy", "half-remembered", budget(0.5, "algo.buffer_size")),
    _on("RDT", "healthy", "long-warm-up", budget(0.15, "algo.learning_starts")),
)
MILD: Final = {"dqn-mountaincar": 4, "sac-mcc": 5, "dqn-buoy": 4, "td3-greenhouse-continuous": 4, "sac-docking-three-envs": 4}
"""Groups as-is and with harmless variations; the others have six."""


def all_cells() -> Iterator[Cell]:
    """The whole of it, in a fixed order."""
    for task in TASKS.values():
        planted = [fault for ids, fault in (*FAULTS, *LATER, *SHAPES) if task.id in ids]
        for fault in (*planted, *(mild(index) for index in range(1, 1 + MILD.get(task.id, 6)))):
            if (made := make(task, (fault,), "test")) is not None:
                yield made
