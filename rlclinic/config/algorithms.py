"""The settings of REINFORCE, A2C and PPO, of their asynchronous relatives, and the table of all algorithms.

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
from rlclinic.config.off_policy import BootstrappedDQNConfig, DDPGConfig, DQNConfig, OffPolicySettings, SACConfig, TD3Config
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
from rlclinic.config.tabular import IN_UNITS_OF_THE_RETURN, QLearningConfig
from rlclinic.errors import ConfigError

if TYPE_CHECKING:
    from rlclinic.config.experiment import Config

__all__ = [
    "ADVERSARIAL",
    "ALGORITHMS",
    "A2CConfig",
    "A3CConfig",
    "AIRLConfig",
    "APPOConfig",
    "AlgoConfig",
    "AsynchronousSettings",
    "GAILConfig",
    "IMPALAConfig",
    "OffPolicyConfig",
    "OnPolicyConfig",
    "OnPolicySettings",
    "PPOConfig",
    "ReinforceConfig",
    "dump_algorithm",
    "numbers",
    "read_algorithm",
    "shape_key",
    "takes_raw_rewards",
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


BatchRows = Annotated[
    Annotated[int | float, BeforeValidator(_read_batch)],
    Kind.SHAPE,
    Field(
        gt=0,
        description=(
            "Rows of a minibatch; up to 1 it is a fraction of the rollout (0.25: four minibatches, 1: the whole rollout). Smaller makes "
            "more and noisier steps per epoch. It must divide n_envs x n_steps. Usual: 64-512, or 1/4 to 1 of the rollout."
        ),
    ),
]
Epochs = Annotated[Shape, Field(ge=1, description="Passes over each rollout. Usual: 3-20.")]
ClipRange = Annotated[
    Number,
    Field(gt=0, lt=1, description="How far one update may move an action's probability; smaller is safer and slower. Usual: 0.1-0.3."),
]
ClipRangeValue = Annotated[
    Annotated[Number, Field(gt=0)] | None,
    Kind.NUMBER,
    Field(description="How far one update may move a value estimate, in units of the return; none: no limit. Usual: none."),
]
TargetKL = Annotated[
    Annotated[Number, Field(gt=0)] | None,
    Kind.NUMBER,
    Field(description="End a rollout's epochs when the KL divergence passes 1.5 x this; none: never. Usual: none, or 0.01-0.03."),
]
RewardLearningRate = Annotated[
    Number,
    Field(
        gt=0,
        description=(
            "Of the discriminator. Higher than the policy can follow, and it tells every own step from a recorded one: the reward is then "
            "the same for all of them. Usual: 1e-4 to 1e-3."
        ),
    ),
]
RewardSteps = Annotated[Shape, Field(ge=1, description="Gradient steps of the discriminator per rollout. Usual: 1-16.")]
RewardBatchSize = Annotated[Shape, Field(ge=1, description="Recorded steps, and as many own ones, of each such step. Usual: 128-1,024.")]
GradientPenalty = Annotated[
    Number,
    Field(
        ge=0,
        description=(
            "How much the discriminator's slope is held to 1 between recorded and own steps (arXiv:1704.00028). More makes it less sure, "
            "and the reward smoother; 0: not at all. Usual: 1-10."
        ),
    ),
]
RewardHidden = Annotated[
    tuple[Annotated[int, Field(ge=1, le=8_192)], ...], Kind.SHAPE, Field(description="Hidden layers of the discriminator.")
]
Horizon = Annotated[
    Literal["absorbing", "ignore"],
    Kind.SHAPE,
    Field(
        description=(
            "What lies beyond a terminal state. `absorbing`: a state that the discriminator sees and that goes on paying "
            "(arXiv:1809.02925), so that ending early is neither rewarded nor punished by itself. `ignore`: nothing, which tells the "
            "policy to survive (or, with negative rewards, to end) whatever was shown; only for fixed lengths. Usual: absorbing."
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


class AsynchronousSettings(Strict):
    """What algorithms have in common whose rollouts are collected by actors while the learner learns."""

    loop: ClassVar[str] = "on_policy"
    n_actors: Shape = Field(2, ge=0, le=256)
    """Processes that play, each with n_envs environments, while this one learns; a rollout is what one of them has collected. More hide
    slower environments, with data from older weights. 0: nobody but the learner plays, and nothing is older than its weights. Usual: 1
    a core, or more where environments wait."""
    actor_order: Annotated[Literal["fixed", "arrival"], Kind.SHAPE] = "fixed"
    """Whose rollout is learned from next. fixed: the actors in turn, so that a run repeats itself to the bit; arrival: whoever is ready,
    which waits for no straggler, and no run is like another. Usual: fixed; arrival where steps take very different times."""
    actors_on: Annotated[Literal["processes", "ray"], Kind.SHAPE] = "processes"
    """Where actors play. processes: of this machine; ray: on the nodes of the Ray cluster that trains the run (`--on ray`) or that
    RAY_ADDRESS names, so that environments get the cores of other machines. What is learned is the same to the bit on equal processors.
    Usual: processes."""
    max_lag: Shape = Field(16, ge=1)
    """The most updates that the weights may make while one rollout is collected: with actor_order=arrival the learner waits for an actor
    that falls further behind. With fixed it is n_actors. Usual: 2-8 x n_actors."""
    n_steps: Steps = 32
    gamma: Gamma = 0.99
    gae_lambda: GaeLambda = 1.0
    learning_rate: LearningRate = 6e-4
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


class A3CConfig(AsynchronousSettings):
    """Asynchronous advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783): gradients at an actor's own, older weights."""

    name: Literal["a3c"] = "a3c"
    """The algorithm: a3c."""
    n_steps: Steps = 8


class IMPALAConfig(AsynchronousSettings):
    """Actors and a learner that corrects for their age by V-trace (Espeholt et al. 2018, arXiv:1802.01561)."""

    name: Literal["impala"] = "impala"
    """The algorithm: impala."""
    advantage: Advantage = "vtrace"
    rho_clip: RhoClip = 1.0
    c_clip: CClip = 1.0


class APPOConfig(AsynchronousSettings):
    """PPO's clipped objective on what actors have collected with older weights, with V-trace (arXiv:1707.06347, arXiv:1802.01561)."""

    name: Literal["appo"] = "appo"
    """The algorithm: appo."""
    batch_size: Annotated[int | float, BeforeValidator(_read_batch), Kind.SHAPE] = Field(1, gt=0)
    """Rows of a minibatch; up to 1 it is a fraction of the rollout. It must divide n_envs x n_steps. Usual: 1/4 to 1 of the rollout."""
    n_epochs: Shape = Field(1, ge=1)
    """Passes over each rollout, advantages corrected anew before each. Usual: 1-4."""
    gae_lambda: GaeLambda = 0.95
    advantage: Advantage = "vtrace"
    rho_clip: RhoClip = 1.0
    c_clip: CClip = 1.0
    clip_range: Number = Field(0.2, gt=0, lt=1)
    """How far learning from one rollout may move an action's probability from what the actor gave it. Usual: 0.1-0.4."""
    clip_range_vf: Annotated[Annotated[Number, Field(gt=0)] | None, Kind.NUMBER] = None
    """How far one update may move a value estimate, in units of the return; none: no limit. Usual: none."""
    target_kl: Annotated[Annotated[Number, Field(gt=0)] | None, Kind.NUMBER] = None
    """Leave a rollout's remaining steps out when the policy is further than 1.5 x this from the one that acted; none: never.
    Usual: none."""
    normalize_advantage: NormalizeAdvantage = "batch"
    optimizer: Optimizer = "adam"


class GAILConfig(Strict):
    """Imitation by a learned reward (Ho & Ermon 2016, arXiv:1606.03476): PPO is paid for what passes for the recorded steps (data.path)."""

    loop: ClassVar[str] = "on_policy"
    name: Literal["gail"] = "gail"
    """The algorithm: gail."""
    n_steps: Steps = 256
    batch_size: BatchRows = 256
    n_epochs: Epochs = 10
    gamma: Gamma = 0.99
    gae_lambda: GaeLambda = 0.95
    learning_rate: LearningRate = 3e-4
    value_lr: ValueLearningRate = None
    clip_range: ClipRange = 0.2
    clip_range_vf: ClipRangeValue = None
    target_kl: TargetKL = None
    ent_coef: EntropyCoefficient = 0.0
    vf_coef: ValueCoefficient = 0.5
    max_grad_norm: GradientNorm = 0.5
    normalize_advantage: NormalizeAdvantage = "batch"
    optimizer: Optimizer = "adam"
    adam_eps: AdamEps = 1e-5
    weight_decay: WeightDecay = 0.0
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99
    reward_form: Annotated[Literal["positive", "negative", "logit"], Kind.SHAPE] = "positive"
    """What a step is paid, with D the chance that it was recorded. `positive`: -log(1 - D), as in the paper; `negative`: log D; `logit`:
    their sum, which has both signs. Usual: positive."""
    reward_lr: RewardLearningRate = 1e-3
    reward_steps: RewardSteps = 10
    reward_batch_size: RewardBatchSize = 256
    gradient_penalty: GradientPenalty = 1.0
    reward_hidden: RewardHidden = (64, 64)
    horizon: Horizon = "absorbing"


class AIRLConfig(Strict):
    """Adversarial inverse RL (Fu et al. 2018, arXiv:1710.11248): as gail, with a reward that is apart from the dynamics."""

    loop: ClassVar[str] = "on_policy"
    name: Literal["airl"] = "airl"
    """The algorithm: airl."""
    n_steps: Steps = 256
    batch_size: BatchRows = 256
    n_epochs: Epochs = 10
    gamma: Gamma = 0.99
    gae_lambda: GaeLambda = 0.95
    learning_rate: LearningRate = 3e-4
    value_lr: ValueLearningRate = None
    clip_range: ClipRange = 0.2
    clip_range_vf: ClipRangeValue = None
    target_kl: TargetKL = None
    ent_coef: EntropyCoefficient = 0.0
    vf_coef: ValueCoefficient = 0.5
    max_grad_norm: GradientNorm = 0.5
    normalize_advantage: NormalizeAdvantage = "batch"
    optimizer: Optimizer = "adam"
    adam_eps: AdamEps = 1e-5
    weight_decay: WeightDecay = 0.0
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99
    state_only: Annotated[bool, Kind.SHAPE] = False
    """Whether the reward is one of states alone, without actions: what can be used under other dynamics. Usual: false to imitate."""
    reward_lr: RewardLearningRate = 1e-3
    reward_steps: RewardSteps = 10
    reward_batch_size: RewardBatchSize = 256
    gradient_penalty: GradientPenalty = 1.0
    reward_hidden: RewardHidden = (64, 64)
    horizon: Horizon = "absorbing"


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


AsynchronousConfig = A3CConfig | IMPALAConfig | APPOConfig
AdversarialConfig = GAILConfig | AIRLConfig
OnPolicyConfig = PPOConfig | A2CConfig | ReinforceConfig | AsynchronousConfig | AdversarialConfig | OnPolicySettings
OffPolicyConfig = (
    DQNConfig
    | BootstrappedDQNConfig
    | TD3Config
    | DDPGConfig
    | SACConfig
    | QLearningConfig
    | OffPolicySettings
    | OfflineSettings
    | ImitationConfig
)
AlgoConfig = OnPolicyConfig | OffPolicyConfig
_OwnOnPolicy = PPOConfig | A2CConfig | ReinforceConfig | AsynchronousConfig | AdversarialConfig
_OwnOnline = _OwnOnPolicy | DQNConfig | BootstrappedDQNConfig | TD3Config | DDPGConfig | SACConfig | QLearningConfig
_OwnOffline = BCConfig | TD3BCConfig | IQLConfig | AWACConfig | CQLConfig | CalQLConfig | RLPDConfig | DTConfig
OwnAlgoConfig = _OwnOnline | _OwnOffline | ImitationConfig

DATA_PARALLEL: Final = ("ppo", "a2c")
"""Algorithms that several processes can train together (run.data_parallel): their losses are means over rows."""
ADVERSARIAL: Final = ("gail", "airl")
"""Algorithms that act, and whose reward is learned from recorded steps."""
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
        "bootstrapped_dqn": BootstrappedDQNConfig,
        "td3": TD3Config,
        "ddpg": DDPGConfig,
        "sac": SACConfig,
        "q_learning": QLearningConfig,
        "a3c": A3CConfig,
        "impala": IMPALAConfig,
        "appo": APPOConfig,
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
        "gail": GAILConfig,
        "airl": AIRLConfig,
    }
)


def takes_raw_rewards(name: str) -> bool:
    """Whether an algorithm does not take over a scaling of rewards that was chosen for another: its settings are in units of the return,
    it learns a reward of its own, or none."""
    return name in IN_UNITS_OF_THE_RETURN or name in ADVERSARIAL or ALGORITHMS[name].loop == "imitation"


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
    if config.env.term_weights:
        # Which terms are weighed decides what is read of a step; how much is each member's own.
        leaves = {key: value for key, value in leaves.items() if not key.startswith("env.term_weights")}
        leaves["env.term_weights"] = sorted(config.env.term_weights)
    if "algo.batch_size" in leaves:
        leaves["algo.batch_size"] = config.batch_rows  # a quarter of 256 and 64 rows are the same program
    return tuple(
        (key, json.dumps(value, sort_keys=True))
        for key, value in sorted(leaves.items())
        if key not in skipped and not any(key == name or key.startswith(name + ".") for name in varying)
    )
