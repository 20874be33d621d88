"""The settings of REINFORCE, A2C and PPO, and the table of all algorithms.

Settings that several of them have are types here, so that a setting means the same everywhere and its documentation is
written once; each algorithm chooses its default. Names are Stable-Baselines3's.

An algorithm of another package is a class derived from `OnPolicySettings`, `OffPolicySettings` or `OfflineSettings`, declared as an
entry point:

    [project.entry-points."rlclinic.algorithms"]
    my_algo = "my_package.config:MyAlgoConfig"

The class names the module with the losses (`implementation = "my_package.my_algo"`), which only a training process imports, so that
the class itself needs no torch. What that module holds: `rlclinic.training.algos`.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, cast

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, ValidationError, ValidatorFunctionWrapHandler
from pydantic_core import InitErrorDetails

from rlclinic import plugins
from rlclinic.config.imitation import DAggerConfig, EnsembleDAggerConfig, ImitationConfig, SafeDAggerConfig, ThriftyDAggerConfig
from rlclinic.config.off_policy import DDPGConfig, DQNConfig, OffPolicySettings, SACConfig, TD3Config
from rlclinic.config.offline import (
    AWACConfig,
    BCConfig,
    CalQLConfig,
    CQLConfig,
    DTConfig,
    IQLConfig,
    OfflineSettings,
    RLPDConfig,
    TD3BCConfig,
)
from rlclinic.config.schedule import Number, Schedule
from rlclinic.config.schema import Kind, Shape, Strict, flatten, kind_of, read_number
from rlclinic.config.shared_settings import AdamEps, Gamma, GradientNorm, LearningRate, Momentum, Optimizer, RmsDecay, WeightDecay
from rlclinic.config.tabular import QLearningConfig
from rlclinic.errors import ConfigError

if TYPE_CHECKING:
    from rlclinic.config.experiment import Config

__all__ = [
    "ALGORITHMS",
    "A2CConfig",
    "AlgoConfig",
    "OffPolicyConfig",
    "OnPolicyConfig",
    "OnPolicySettings",
    "PPOConfig",
    "ReinforceConfig",
    "dump_algorithm",
    "numbers",
    "read_algorithm",
    "shape_key",
]


def _read_normalize(value: Any) -> Any:
    """SB3 says true or false; YAML reads a bare `off` as false."""
    if isinstance(value, bool):
        return "batch" if value else "off"
    return "off" if value is None else value


def _read_batch(value: Any) -> Any:
    """Whole numbers above 1 are rows, anything up to 1 is a fraction of the rollout."""
    value = read_number(value)
    if isinstance(value, float) and value >= 1:
        if not value.is_integer():
            raise ValueError("rows come in whole numbers; only up to 1 is it a fraction of the rollout")
        return int(value)
    return value


Steps = Annotated[
    Shape,
    Field(
        ge=1,
        description=(
            "Steps per environment between updates. More gives less biased advantages and better gradients, from "
            "older data and with fewer updates. Usual: PPO 32-2048 (n_envs x n_steps 256-16,384), A2C 5-16, "
            "REINFORCE at least one episode."
        ),
    ),
]
GaeLambda = Annotated[
    Number,
    Field(
        ge=0,
        le=1,
        description=(
            "Mix of n-step advantages (GAE). Higher trusts the observed rewards: less bias, more noise; lower "
            "trusts the value function. 1 is Monte Carlo. Usual: 0.8-0.98; 0.95."
        ),
    ),
]
Advantage = Annotated[
    Literal["gae", "vtrace"],
    Kind.SHAPE,
    Field(
        description=(
            "How advantages are estimated: gae, or vtrace (IMPALA, arXiv:1802.01561), which weighs each step by how likely the "
            "present policy would have taken it and is computed anew before each epoch. It matters only where data is older "
            "than the weights: PPO with many epochs; in a first epoch, and in A2C, every weight is 1. Usual: gae."
        ),
    ),
]
RhoClip = Annotated[
    Number,
    Field(
        ge=1,
        description=(
            "vtrace only: the most that one step may count. Higher follows the present policy more truly, with more noise; "
            "1 leans towards the policy that acted. Usual: 1."
        ),
    ),
]
CClip = Annotated[
    Number,
    Field(
        ge=1,
        description=(
            "vtrace only: the most that a step may pass on of what came after it. Higher carries rewards back faster, with more "
            "noise; it does not change what is learned in the end. Usual: 1."
        ),
    ),
]
ValueLearningRate = Annotated[
    Annotated[Number, Field(gt=0)] | None,
    Kind.NUMBER,
    Field(
        description=(
            "The value function's own learning rate; none: learning_rate. Higher than the policy's helps where "
            "explained variance stays low. Needs separate networks (net.shared=false). Usual: none, or 1-5 x "
            "learning_rate."
        ),
    ),
]
EntropyCoefficient = Annotated[
    Number,
    Field(
        ge=0,
        description=(
            "Weight of the entropy bonus. Higher keeps exploring; too high never commits. Raise it if entropy "
            "collapses before the return rises. Usual: 0-0.01 (discrete), 0-0.001 (continuous)."
        ),
    ),
]
ValueCoefficient = Annotated[
    Number,
    Field(
        ge=0,
        description=(
            "Weight of the value loss. With a shared trunk, higher lets the value shape the features; with "
            "separate networks it scales the critic's gradient before clipping. Usual: 0.25-1; 0.5."
        ),
    ),
]
NormalizeAdvantage = Annotated[
    Literal["batch", "rollout", "off"],
    BeforeValidator(_read_normalize),
    Kind.SHAPE,
    Field(
        description=(
            "Scale advantages to mean 0 and deviation 1, over each minibatch or the whole rollout: the step then "
            "does not depend on the reward's scale. `rollout` is steadier for small minibatches. true means "
            "batch, false means off. Usual: batch for PPO, off for A2C."
        ),
    ),
]


class PPOConfig(Strict):
    """Clipped-objective policy gradient (Schulman et al. 2017, arXiv:1707.06347)."""

    loop: ClassVar[str] = "on_policy"
    name: Literal["ppo"] = "ppo"
    """The algorithm: ppo."""
    n_steps: Steps = 256
    batch_size: Annotated[int | float, BeforeValidator(_read_batch), Kind.SHAPE] = Field(256, gt=0)
    """Rows of a minibatch; up to 1 it is a fraction of the rollout (0.25: four minibatches, 1: the whole rollout). Smaller makes
    more and noisier steps per epoch. It must divide n_envs x n_steps. Usual: 64-512, or 1/4 to 1 of the rollout."""
    n_epochs: Shape = Field(10, ge=1)
    """Passes over each rollout. More squeezes more out of the data, until the policy has moved too far from it (watch KL and clip
    fraction). Usual: 3-20."""
    gamma: Gamma = 0.99
    gae_lambda: GaeLambda = 0.95
    advantage: Advantage = "gae"
    rho_clip: RhoClip = 1.0
    c_clip: CClip = 1.0
    learning_rate: LearningRate = 3e-4
    value_lr: ValueLearningRate = None
    clip_range: Number = Field(0.2, gt=0, lt=1)
    """How far one update may move an action's probability; smaller is safer and slower. Usual: 0.1-0.3."""
    clip_range_vf: Annotated[Annotated[Number, Field(gt=0)] | None, Kind.NUMBER] = None
    """How far one update may move a value estimate, in units of the return; none: no limit. Small limits stall critics with
    large returns. Usual: none; 0.2 with normalized rewards."""
    target_kl: Annotated[Annotated[Number, Field(gt=0)] | None, Kind.NUMBER] = None
    """End a rollout's epochs when the KL divergence passes 1.5 x this; none: never. Lower is safer and may waste data. Usual: none,
    or 0.01-0.03."""
    ent_coef: EntropyCoefficient = 0.0
    vf_coef: ValueCoefficient = 0.5
    max_grad_norm: GradientNorm = 0.5
    normalize_advantage: NormalizeAdvantage = "batch"
    segment_length: Shape = Field(0, ge=0)
    """Prioritized sampling (as arXiv:1511.05952 does for a replay): minibatches are drawn by whole segments of this many steps of one
    env, those with larger advantages more often, and weighted down for it. 0: off, every row once per epoch. It must divide n_steps
    and batch_size. Meant for rollouts in which few steps bring news. Usual: 0, or 8-64."""
    priority_alpha: Number = Field(0.6, ge=0, le=1)
    """With segment_length: how much advantages decide what is drawn; 0 is uniform. Usual: 0.2-0.8."""
    priority_beta: Number = Field(Schedule(start=0.4, end=1.0, schedule="linear"), ge=0, le=1)
    """With segment_length: how much of that draw's bias is corrected by weights; 1 is all of it. Usual: from 0.4 to 1 over the run."""
    optimizer: Optimizer = "adam"
    adam_eps: AdamEps = 1e-5
    weight_decay: WeightDecay = 0.0
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99


class A2CConfig(Strict):
    """Synchronous advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783): one step on each short rollout."""

    loop: ClassVar[str] = "on_policy"
    name: Literal["a2c"] = "a2c"
    """The algorithm: a2c."""
    n_steps: Steps = 5
    gamma: Gamma = 0.99
    gae_lambda: GaeLambda = 1.0
    advantage: Advantage = "gae"
    rho_clip: RhoClip = 1.0
    c_clip: CClip = 1.0
    learning_rate: LearningRate = 7e-4
    value_lr: ValueLearningRate = None
    ent_coef: EntropyCoefficient = 0.0
    vf_coef: ValueCoefficient = 0.5
    max_grad_norm: GradientNorm = 0.5
    normalize_advantage: NormalizeAdvantage = "off"
    optimizer: Optimizer = "rmsprop"
    adam_eps: AdamEps = 1e-5
    weight_decay: WeightDecay = 0.0
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99


class ReinforceConfig(Strict):
    """Monte Carlo policy gradient (Williams 1992), with or without a learned baseline."""

    loop: ClassVar[str] = "on_policy"
    name: Literal["reinforce"] = "reinforce"
    """The algorithm: reinforce."""
    baseline: Annotated[bool, Kind.SHAPE] = True
    """Subtract a learned value of the state from the return: far less noise at no bias. False is the textbook's plain form."""
    n_steps: Steps = 512
    gamma: Gamma = 0.99
    gae_lambda: Number = Field(1.0, ge=0, le=1)
    """With a baseline, how far advantages trust the observed rewards (GAE): 1 is REINFORCE's own Monte Carlo return, lower trusts the
    baseline more, with less noise and some bias. Without a baseline there is nothing to mix, and only 1 means something. Usual: 1."""
    learning_rate: LearningRate = 1e-2
    value_lr: ValueLearningRate = None
    ent_coef: EntropyCoefficient = 0.01
    vf_coef: ValueCoefficient = 0.5
    max_grad_norm: GradientNorm = 0.5
    normalize_advantage: NormalizeAdvantage = "rollout"
    optimizer: Optimizer = "adam"
    adam_eps: AdamEps = 1e-5
    weight_decay: WeightDecay = 0.0
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99


class OnPolicySettings(Strict):
    """What the settings of an on-policy algorithm of another package have in common: derive from it, and add to it.

    A class adds its own numbers and shapes and sets `name` and `implementation`. `n_epochs` and `batch_size`, where it has them, mean
    what they mean for PPO; without them, each rollout is one gradient step.
    """

    loop: ClassVar[str] = "on_policy"
    implementation: ClassVar[str]
    """The module with the algorithm's losses (see rlclinic.training.algos)."""
    name: str = ""
    """The algorithm's name: that of its entry point."""
    n_steps: Steps = 256
    gamma: Gamma = 0.99
    gae_lambda: GaeLambda = 0.95
    learning_rate: LearningRate = 3e-4
    value_lr: ValueLearningRate = None
    ent_coef: EntropyCoefficient = 0.0
    vf_coef: ValueCoefficient = 0.5
    max_grad_norm: GradientNorm = 0.5
    normalize_advantage: NormalizeAdvantage = "batch"
    optimizer: Optimizer = "adam"
    adam_eps: AdamEps = 1e-5
    weight_decay: WeightDecay = 0.0
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99


OnPolicyConfig = PPOConfig | A2CConfig | ReinforceConfig | OnPolicySettings
OffPolicyConfig = DQNConfig | TD3Config | DDPGConfig | SACConfig | QLearningConfig | OffPolicySettings | OfflineSettings | ImitationConfig
AlgoConfig = OnPolicyConfig | OffPolicyConfig
_OwnOnline = PPOConfig | A2CConfig | ReinforceConfig | DQNConfig | TD3Config | DDPGConfig | SACConfig | QLearningConfig
_OwnOffline = BCConfig | TD3BCConfig | IQLConfig | AWACConfig | CQLConfig | CalQLConfig | RLPDConfig | DTConfig
OwnAlgoConfig = _OwnOnline | _OwnOffline | ImitationConfig

ENTRY_POINTS: Final = "rlclinic.algorithms"
"""The group of entry points in which other packages declare algorithms."""


class Algorithms(Mapping[str, type[AlgoConfig]]):
    """The settings' class of every algorithm by name: our own, then those of installed packages, which are imported when asked for."""

    def __init__(self, own: Mapping[str, type[OwnAlgoConfig]]) -> None:
        self.own = own

    def __getitem__(self, name: str) -> type[AlgoConfig]:
        return self.own[name] if name in self.own else _load(_declared()[name])

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in _declared()

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from (name for name in _declared() if name not in self.own)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _declared() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in plugins.entry_points(group=ENTRY_POINTS)}


@cache
def _load(entry: EntryPoint) -> type[AlgoConfig]:
    found = plugins.load(entry, "algorithm")
    if not (isinstance(found, type) and issubclass(found, OnPolicySettings | OffPolicySettings | OfflineSettings)):
        raise ConfigError(
            f"the algorithm {entry.name} ({entry.value}) is no class derived from OnPolicySettings, OffPolicySettings or OfflineSettings.\n"
            "  Nothing would say which settings it has.\n  Derive it from one of them (rlclinic.config)"
        )
    return found


ALGORITHMS: Final = Algorithms(
    {
        "ppo": PPOConfig,
        "a2c": A2CConfig,
        "reinforce": ReinforceConfig,
        "dqn": DQNConfig,
        "td3": TD3Config,
        "ddpg": DDPGConfig,
        "sac": SACConfig,
        "q_learning": QLearningConfig,
        "bc": BCConfig,
        "td3_bc": TD3BCConfig,
        "iql": IQLConfig,
        "awac": AWACConfig,
        "cql": CQLConfig,
        "cal_ql": CalQLConfig,
        "rlpd": RLPDConfig,
        "dt": DTConfig,
        "dagger": DAggerConfig,
        "safe_dagger": SafeDAggerConfig,
        "ensemble_dagger": EnsembleDAggerConfig,
        "thrifty_dagger": ThriftyDAggerConfig,
    }
)


def read_algorithm(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """Settings of an algorithm: our own as the schema reads them, another package's as its class does."""
    name = value.get("name") if isinstance(value, Mapping) else getattr(value, "name", None)
    if isinstance(value, OnPolicySettings | OffPolicySettings) or (isinstance(value, OfflineSettings) and name not in ALGORITHMS.own):
        return value
    if not isinstance(value, Mapping) or not isinstance(name, str) or name in ALGORITHMS.own or name not in ALGORITHMS:
        return read(value)
    try:
        return ALGORITHMS[name].model_validate(dict(value))
    except ValidationError as error:
        # Under the algorithm's name, where pydantic puts the errors of our own too.
        details = [{**detail, "loc": (name, *detail["loc"])} for detail in error.errors(include_url=False)]
        raise ValidationError.from_exception_data(error.title, cast("list[InitErrorDetails]", details)) from None


def dump_algorithm(value: Any, dump: SerializerFunctionWrapHandler, mode: str) -> Any:
    """The inverse: plain data."""
    return value.model_dump(mode=mode) if isinstance(value, OnPolicySettings | OffPolicySettings | OfflineSettings) else dump(value)


def numbers(algo: AlgoConfig) -> dict[str, float | Schedule | None]:
    """The settings that may differ between the members of a cohort and change while they run, by name."""
    return {name: getattr(algo, name) for name, field in type(algo).model_fields.items() if kind_of(field) is Kind.NUMBER}


def shape_key(config: "Config") -> tuple[tuple[str, str], ...]:
    """What runs must have in common to train as one cohort: everything but numbers, seed, name and the task's description.

    Whether an optional number (target_kl, clip_range_vf, value_lr) is set or not is no part of the key.
    """
    skipped = {"seed", "name", "spec.description", "spec.source"}
    varying = tuple(f"algo.{name}" for name in numbers(config.algo))
    leaves = flatten(config.model_dump(mode="json"))
    if "algo.batch_size" in leaves:
        leaves["algo.batch_size"] = config.batch_rows  # a quarter of 256 and 64 rows are the same program
    return tuple(
        (key, json.dumps(value, sort_keys=True))
        for key, value in sorted(leaves.items())
        if key not in skipped and not any(key == name or key.startswith(name + ".") for name in varying)
    )
