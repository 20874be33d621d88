"""The cells of the Stable-Baselines3 corpus: what is planted, in which environment, how badly. Frozen before it was measured.

A cell is one config that three seeds train. `fault` is a cause id of rlclinic.diagnosis, or "healthy" for controls, some of which
look odd on purpose.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

SEEDS: Final = (0, 1, 2)
Severity = Literal["strong", "mild", "control", "odd"]


@dataclass(frozen=True)
class Task:
    """An environment with settings that solve it within the budget."""

    id: str
    threshold: float
    budget: int
    n_envs: int
    settings: Mapping[str, Any]
    normalize: Mapping[str, Any] | None = None
    """Arguments of VecNormalize; None: not wrapped."""
    algo: Literal["ppo", "a2c"] = "ppo"
    log_interval: int = 1


@dataclass(frozen=True)
class CellSpec:
    """One config. What is not named is as in the healthy settings of its task."""

    fault: str
    task: str
    severity: Severity = "strong"
    settings: Mapping[str, Any] = field(default_factory=dict)
    net: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the policy."""
    wrapper: tuple[str, Mapping[str, Any]] | None = None
    """A class of sb3_envs, outside of the monitor: logged returns are the environment's own."""
    max_episode_steps: int | None = None
    budget: int | None = None
    n_envs: int | None = None
    normalize: bool | None = None
    """False: without VecNormalize."""
    blind_eval: bool = False
    """Evaluates on an environment without the normalizer, with the user's own callback."""

    @property
    def name(self) -> str:
        parts = {**self.settings, **self.net}
        more = "-".join(f"{key}={value}" for key, value in parts.items() if isinstance(value, int | float | str))
        wrapped = "" if self.wrapper is None else "-".join([self.wrapper[0], *(str(value) for value in self.wrapper[1].values())])
        named = {key: getattr(self, key) for key in ("max_episode_steps", "budget", "n_envs", "normalize")}
        extra = "-".join(f"{key}={value}" for key, value in named.items() if value is not None)
        text = "_".join(part for part in (self.task, self.fault, self.severity, more, wrapped, extra) if part)
        return "".join(letter if letter.isalnum() or letter in "._=-" else "-" for letter in text)[:150]


TASKS: Final[dict[str, Task]] = {
    "cartpole": Task(
        "CartPole-v1", 475, 18_000, 8,
        {"n_steps": 64, "batch_size": 128, "n_epochs": 10, "gamma": 0.99, "gae_lambda": 0.9, "learning_rate": ("lin", 3e-3)},
    ),
    "pendulum": Task(
        "Pendulum-v1", -200, 20_000, 8,
        {"n_steps": 128, "batch_size": 128, "n_epochs": 10, "gamma": 0.93, "gae_lambda": 0.85, "learning_rate": ("lin", 2.5e-3),
         "policy_kwargs": {"log_std_init": 0.4}},
        normalize={"norm_obs": False},
    ),
    "mountaincar": Task(
        "MountainCarContinuous-v0", 90, 10_000, 8,
        {"n_steps": 128, "batch_size": 256, "n_epochs": 10, "gamma": 0.999, "gae_lambda": 0.95, "learning_rate": ("lin", 7e-4),
         "ent_coef": 3e-3, "policy_kwargs": {"log_std_init": 0.5}},
        normalize={},
    ),
    "cartpole-a2c": Task(
        "CartPole-v1", 475, 40_000, 8, {"n_steps": 8, "gae_lambda": 0.95, "learning_rate": ("lin", 2e-3)}, algo="a2c", log_interval=10
    ),
    "acrobot": Task(
        "Acrobot-v1", -100, 28_000, 16,
        {"n_steps": 64, "batch_size": 256, "n_epochs": 10, "gamma": 0.99, "gae_lambda": 0.9,
         "learning_rate": ("lin", 1e-3), "clip_range": 0.3},
        normalize={},
    ),
}  # fmt: skip


def _cells() -> list[CellSpec]:
    c, a, p, m, x = "cartpole", "acrobot", "pendulum", "mountaincar", "cartpole-a2c"
    made: list[CellSpec] = []

    def add(fault: str, task: str, severity: Severity = "strong", **more: Any) -> None:
        made.append(CellSpec(fault, task, severity, **more))

    add("learning-rate-too-high", c, settings={"learning_rate": 5e-2})
    add("learning-rate-too-high", p, settings={"learning_rate": 3e-2})
    add("learning-rate-too-high", a, "mild", settings={"learning_rate": 1e-2})
    add("learning-rate-too-low", c, settings={"learning_rate": 1e-5})
    add("learning-rate-too-low", a, settings={"learning_rate": 3e-6})
    add("learning-rate-too-low", p, "mild", settings={"learning_rate": 3e-5})
    add("clip-range-too-small", c, settings={"clip_range": 0.002})
    add("clip-range-too-small", a, settings={"clip_range": 0.002})
    add("clip-not-applied", c, settings={"clip_range": 10.0, "learning_rate": 3e-3})
    add("clip-not-applied", p, settings={"clip_range": 10.0})
    add("target-kl-too-tight", c, settings={"target_kl": 1e-5})
    add("target-kl-too-tight", a, settings={"target_kl": 1e-5})
    add("gradient-clip-too-tight", c, settings={"max_grad_norm": 1e-6})
    add("gradient-clip-too-tight", a, settings={"max_grad_norm": 1e-6})
    add("too-few-updates", c, settings={"n_epochs": 1, "batch_size": 512, "learning_rate": ("lin", 1e-3)})
    add("too-few-updates", a, settings={"n_epochs": 1, "batch_size": 8_192, "n_steps": 512})
    add("rollout-too-small", c, n_envs=4, settings={"n_steps": 8, "batch_size": 32, "n_epochs": 4})
    add("rollout-too-small", p, n_envs=4, settings={"n_steps": 8, "batch_size": 32, "n_epochs": 4})
    add("too-many-epochs", c, settings={"n_epochs": 60})
    add("too-many-epochs", a, settings={"n_epochs": 60, "learning_rate": 2e-3})
    add("entropy-bonus-too-high", c, settings={"ent_coef": 1.0})
    add("entropy-bonus-too-high", a, settings={"ent_coef": 1.0})
    add("entropy-bonus-too-high", p, settings={"ent_coef": 1.0})
    add("discount-too-low", c, settings={"gamma": 0.3})
    add("discount-too-low", a, settings={"gamma": 0.3})
    add("discount-too-low", p, "mild", settings={"gamma": 0.3})
    add("discount-too-high", p, settings={"gamma": 1.0})
    add("gae-lambda-too-low", a, settings={"gae_lambda": 0.0})
    add("gae-lambda-too-low", p, settings={"gae_lambda": 0.0})
    add("critic-not-trained", c, settings={"vf_coef": 0.0})
    add("critic-not-trained", p, settings={"vf_coef": 0.0})
    add("value-loss-dominates", c, settings={"vf_coef": 500.0}, net={"shared": True})
    add("reward-scale-too-large", c, wrapper=("RewardTimes", {"factor": 1_000.0}))
    add("reward-scale-too-large", p, normalize=False, wrapper=("RewardTimes", {"factor": 1_000.0}))
    add("reward-scale-too-small", c, settings={"normalize_advantage": False}, wrapper=("RewardTimes", {"factor": 1e-5}))
    add("reward-sign", c, wrapper=("RewardTimes", {"factor": -1.0}))
    add("reward-sign", p, wrapper=("RewardTimes", {"factor": -1.0}))
    add("reward-noise", c, wrapper=("RewardNoise", {"deviation": 20.0}))
    add("reward-noise", p, wrapper=("RewardNoise", {"deviation": 100.0}))
    add("reward-never-seen", c, wrapper=("RewardTimes", {"factor": 0.0}))
    add("reward-never-seen", m, settings={"ent_coef": 0.0, "policy_kwargs": {"log_std_init": -1.5}})
    add("observation-constant", c, wrapper=("Blind", {}))
    add("observation-constant", a, wrapper=("Blind", {}))
    add("observation-scale", p, wrapper=("Units", {"factors": (1_000.0, 1_000.0, 1_000.0)}))
    add("observation-scale", c, wrapper=("Units", {"factors": (1_000.0, 1_000.0, 0.001, 1.0)}))
    add("observation-partial", c, wrapper=("Keep", {"kept": (0, 2)}))
    add("observation-partial", p, wrapper=("Keep", {"kept": (0, 1)}))
    add("actions-without-effect", c, wrapper=("LooseWire", {}))
    add("actions-without-effect", a, wrapper=("LooseWire", {}))
    add("action-bounds", p, wrapper=("Box", {"bound": 0.01}))
    add("action-bounds", p, "mild", wrapper=("Box", {"bound": 100.0}))
    add("episode-too-short", m, max_episode_steps=60)
    add("environment-changed", c, wrapper=("Turns", {"after": 1_400}))
    add("environment-changed", a, wrapper=("Turns", {"after": 1_100}))
    add("optimizer-mismatch", c, net={"optimizer": "sgd"})
    add("optimizer-mismatch", a, net={"optimizer": "sgd"})
    add("saturating-activation", c, net={"activation": "sigmoid", "net_arch": (64, 64, 64)})
    add("saturating-activation", p, net={"activation": "sigmoid", "net_arch": (64, 64, 64)})
    add("network-too-small", c, net={"net_arch": (1,)})
    add("network-too-small", p, net={"net_arch": (1,)})
    add("learning-rate-schedule-too-short", c, settings={"learning_rate": ("cut", 3e-3, 0.15)})
    add("learning-rate-schedule-too-short", p, settings={"learning_rate": ("cut", 2.5e-3, 0.15)})
    add("evaluation-without-normalizer", a, blind_eval=True)
    add("evaluation-without-normalizer", m, blind_eval=True)
    add("budget-too-small", c, budget=4_000)
    add("budget-too-small", p, budget=5_000)
    add("reward-scale-too-small", x, wrapper=("RewardTimes", {"factor": 1e-4}))
    add("entropy-bonus-too-high", x, settings={"ent_coef": 5.0})
    add("discount-too-low", x, settings={"gamma": 0.3})
    add("learning-rate-too-low", x, settings={"learning_rate": 1e-6})
    # ── odd, but healthy ──
    add("healthy", c, "odd", settings={"n_epochs": 20})
    add("healthy", c, "odd", settings={"gamma": 0.97, "gae_lambda": 1.0})
    add("healthy", c, "odd", net={"activation": "relu", "net_arch": (256, 256)}, settings={"learning_rate": ("lin", 1e-3)})
    add("healthy", c, "odd", net={"net_arch": (16,)})
    add("healthy", c, "odd", settings={"ent_coef": 0.01, "target_kl": 0.05})
    add("healthy", c, "odd", n_envs=4, settings={"max_grad_norm": 10.0})
    add("healthy", c, "odd", wrapper=("RewardTimes", {"factor": 5.0}))
    add("healthy", a, "odd", settings={"clip_range": 0.2, "learning_rate": 6e-4})
    add("healthy", a, "odd", settings={"ent_coef": 0.01, "gae_lambda": 0.98})
    add("healthy", a, "odd", n_envs=8, net={"activation": "relu"})
    add("healthy", a, "odd", wrapper=("RewardTimes", {"factor": 1_000.0}))
    add("healthy", p, "odd", settings={"clip_range": 0.3})
    add("healthy", p, "odd", settings={"gamma": 0.95, "gae_lambda": 0.95})
    add("healthy", p, "odd", net={"net_arch": (32, 32)}, settings={"vf_coef": 1.0})
    add("healthy", m, "odd", settings={"batch_size": 128})
    return _ordered([CellSpec("healthy", task, "control") for task in TASKS], made)


def _ordered(controls: list[CellSpec], made: list[CellSpec]) -> list[CellSpec]:
    """Every fault once before any comes again, the cheaper tasks first; an odd healthy cell after every eighth of them."""
    made = sorted(made, key=lambda spec: spec.task == "acrobot" or spec.n_envs == 4)
    faults = [spec for spec in made if spec.fault != "healthy"]
    again = {spec.name: sum(before.fault == spec.fault for before in faults[:place]) for place, spec in enumerate(faults)}
    faults.sort(key=lambda spec: again[spec.name])
    odd = iter([*controls, *(spec for spec in made if spec.fault == "healthy")])
    order: list[CellSpec] = [next(odd) for _ in TASKS]
    for place, spec in enumerate(faults, 1):
        order.append(spec)
        order += [] if place % 8 else [each for each in [next(odd, None)] if each]
    return [*order, *odd]


CELLS: Final = _cells()
