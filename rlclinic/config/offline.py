"""The settings of algorithms that learn from recorded data. A gradient step is their step, until data.then_online sends them to act."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rlclinic.config.off_policy import BatchSize, GradientBound, Tau, ValueLearningRate
from rlclinic.config.schedule import Number
from rlclinic.config.schema import Kind, Real, Shape, Strict
from rlclinic.config.shared_settings import AdamEps, Gamma, LearningRate, Momentum, Optimizer, RmsDecay, WeightDecay

__all__ = ["AWACConfig", "BCConfig", "CQLConfig", "CalQLConfig", "DTConfig", "IQLConfig", "OfflineSettings", "RLPDConfig", "TD3BCConfig"]

Critics = Annotated[
    Shape, Field(ge=1, le=8, description="Critics of which the lowest counts. 1 overestimates; more is more cautious. Usual: 2.")
]
WeightCap = Annotated[
    Real,
    Field(
        gt=1,
        description=(
            "The largest weight of a recorded action. Where many actions have it, they are all imitated alike and the advantage no longer "
            "counts: the rewards are too large for the temperature. Usual: 100."
        ),
    ),
]


PenaltyWeight = Annotated[
    Number,
    Field(
        ge=0,
        description=(
            "How much of the gap between untried and recorded actions is charged. 0 is plain SAC or DQN; too much, and all values sink far "
            "below what the data earned. With cql_lagrange it is where the multiplier begins. Beside it stands half of the squared error, "
            "as in the paper; in code that has all of it (the authors', d3rlpy's) twice the number means the same. Usual: 1 for choices, "
            "2.5-5 for vectors."
        ),
    ),
]
LearnsMultiplier = Annotated[
    bool,
    Kind.SHAPE,
    Field(
        description="Learn the multiplier so that the gap stays at cql_threshold, instead of charging all of it. Usual: false.",
    ),
]
GapThreshold = Annotated[Number, Field(description="cql_lagrange: the gap that is left uncharged, in units of return. Usual: 1-10.")]
PenaltyActions = Annotated[
    Shape,
    Field(
        ge=1,
        le=64,
        description=(
            "Vectors only: sampled actions of each kind (uniform, of the policy here, of the policy at the next state) in the gap's "
            "integral. More is steadier and costs in proportion. Usual: 10."
        ),
    ),
]
TargetEntropy = Annotated[
    Number | None,
    Kind.NUMBER,
    Field(
        description=("Vectors only: the entropy that the policy's temperature aims at; none: minus the number of components. Usual: none."),
    ),
]
FirstTemperature = Annotated[Real, Field(gt=0, description="Vectors only: where that temperature begins. Usual: 0.1-1.")]
Online = Literal["never", "can", "must"]


class OfflineSettings(Strict):
    """What every algorithm that learns from recorded data has; one of another package derives from it, and adds to it."""

    loop: ClassVar[str] = "offline"
    implementation: ClassVar[str]
    """Of another package: the module with the algorithm's losses (see rlclinic.training.algos)."""
    # What a replay that is filled while training has, and recorded data has not.
    buffer_size: ClassVar[int] = 1
    learning_starts: ClassVar[int] = 0
    train_freq: ClassVar[int] = 1
    gradient_steps: ClassVar[int] = 1
    n_step: ClassVar[int] = 1
    optimize_memory_usage: ClassVar[bool] = False
    online: ClassVar[Online] = "never"
    """Whether it goes on in the environment with data.then_online: its module then has an `explore`."""
    offline_steps: ClassVar[int] = 10_000
    """data.offline_steps, where that is none."""
    updates_per_step: ClassVar[int] = 1
    """data.updates_per_step, where that is none."""

    name: str = ""
    """The algorithm's name: that of its entry point."""
    batch_size: BatchSize = 256
    gamma: Gamma = 0.99
    learning_rate: LearningRate = 3e-4
    value_lr: ValueLearningRate = None
    max_grad_norm: GradientBound = None
    optimizer: Optimizer = "adam"
    adam_eps: AdamEps = 1e-8
    weight_decay: WeightDecay = 0.0
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99


class BCConfig(OfflineSettings):
    """Behaviour cloning (Pomerleau 1988): do what the data does. With data.best below 1, what its best episodes do."""

    name: Literal["bc"] = "bc"
    """The algorithm: bc."""
    learning_rate: LearningRate = 1e-3
    loss: Annotated[Literal["mse", "likelihood"], Kind.SHAPE] = "mse"
    """Of actions that are vectors. `mse`: the squared distance, a policy without noise. `likelihood`: a normal distribution around the
    action, whose deviation is learned too; it can be sampled. Choices always have a likelihood. Usual: mse."""
    ent_coef: Number = Field(0.0, ge=0)
    """Bonus for entropy, where there is a likelihood. A little keeps a policy from being too sure of few examples. Usual: 0-1e-3."""


class TD3BCConfig(OfflineSettings):
    """TD3 that stays close to the data (Fujimoto & Gu 2021, arXiv:2106.06860): a term for imitation in the actor's loss."""

    name: Literal["td3_bc"] = "td3_bc"
    """The algorithm: td3_bc."""
    tau: Tau = 0.005
    n_critics: Critics = 2
    bc_alpha: Number = Field(2.5, ge=0)
    """How much values count against imitation: 0 is behaviour cloning, large is TD3. Values are divided by their own size first, so it does
    not depend on the reward's scale. Usual: 2.5; 0.5-10."""
    value_scale: Annotated[Literal["size", "spread"], Kind.SHAPE] = "size"
    """What values are divided by. `size`: their mean absolute value, as in the paper. `spread`: how far they lie from their mean, which
    a constant in every reward does not change. Usual: spread where rewards are all of one sign and far from 0."""
    policy_delay: Shape = Field(2, ge=1)
    """Gradient steps of the critics per step of the actor and of the targets. Usual: 2."""
    target_policy_noise: Number = Field(0.2, ge=0)
    """Noise on the target's actions, which smooths the values; actions reach from -1 to 1. Usual: 0.2."""
    target_noise_clip: Number = Field(0.5, ge=0)
    """The largest such noise. Usual: 0.5."""


class IQLConfig(OfflineSettings):
    """Implicit Q-learning (Kostrikov et al. 2021, arXiv:2110.06169): values of the better recorded actions, never of others."""

    online: ClassVar[Online] = "can"
    name: Literal["iql"] = "iql"
    """The algorithm: iql."""
    tau: Tau = 0.005
    n_critics: Critics = 2
    expectile: Number = Field(0.7, gt=0, lt=1)
    """Which of the recorded actions a state's value speaks of: 0.5 is their mean, near 1 the best. Higher stitches better and is noisier.
    Usual: 0.7; 0.9 for sparse rewards."""
    beta: Number = Field(3.0, ge=0)
    """How much better actions are preferred, weight exp(beta x advantage): 0 imitates all. In units of 1 / return: rewards ten times as
    large need a tenth of it. Usual: 3; 0.5-10."""
    weight_cap: WeightCap = 100.0


class AWACConfig(OfflineSettings):
    """Advantage-weighted actor-critic (Nair et al. 2020, arXiv:2006.09359): imitation, weighted by how good an action was."""

    online: ClassVar[Online] = "can"
    name: Literal["awac"] = "awac"
    """The algorithm: awac."""
    tau: Tau = 0.005
    n_critics: Critics = 2
    awac_lambda: Number = Field(1.0, gt=0)
    """Advantages are divided by it before they are exponentiated: smaller is greedier. In units of return. Usual: 0.3-10."""
    weight_cap: WeightCap = 100.0


class CQLConfig(OfflineSettings):
    """Conservative Q-learning (Kumar et al. 2020, arXiv:2006.04779): values of actions that nobody tried are pushed down."""

    calibrated: ClassVar[bool] = False
    """Whether values are kept from sinking below those of the data's own policy."""
    online: ClassVar[Online] = "can"
    name: Literal["cql"] = "cql"
    """The algorithm: cql."""
    learning_rate: LearningRate = 1e-4
    value_lr: ValueLearningRate = 3e-4
    tau: Tau = 0.005
    n_critics: Critics = 2
    cql_alpha: PenaltyWeight = 5.0
    cql_lagrange: LearnsMultiplier = False
    cql_threshold: GapThreshold = 5.0
    cql_actions: PenaltyActions = 10
    target_entropy: TargetEntropy = None
    ent_coef_init: FirstTemperature = 1.0


class CalQLConfig(OfflineSettings):
    """Cal-QL (Nakamoto et al. 2023, arXiv:2303.05479): CQL whose values sink no lower than what the data's own policy earns.

    Values of the right size survive the first steps in the environment, where CQL's are far too low and have to be learned anew.
    """

    calibrated: ClassVar[bool] = True
    online: ClassVar[Online] = "can"
    name: Literal["cal_ql"] = "cal_ql"
    """The algorithm: cal_ql."""
    learning_rate: LearningRate = 1e-4
    value_lr: ValueLearningRate = 3e-4
    tau: Tau = 0.005
    n_critics: Critics = 2
    cql_alpha: PenaltyWeight = 5.0
    cql_lagrange: LearnsMultiplier = False
    cql_threshold: GapThreshold = 5.0
    cql_actions: PenaltyActions = 10
    target_entropy: TargetEntropy = None
    ent_coef_init: FirstTemperature = 1.0


class RLPDConfig(OfflineSettings):
    """RLPD (Ball et al. 2023, arXiv:2302.02948): SAC in the environment, half of each batch recorded, with many normalized critics."""

    online: ClassVar[Online] = "must"
    offline_steps: ClassVar[int] = 0
    updates_per_step: ClassVar[int] = 4
    name: Literal["rlpd"] = "rlpd"
    """The algorithm: rlpd."""
    tau: Tau = 0.005
    n_critics: Shape = Field(10, ge=1, le=32)
    """Critics side by side. More are steadier under many gradient steps a step, and cost in proportion. Usual: 2-10."""
    critic_subset: Shape = Field(2, ge=1)
    """How many of them, drawn anew for every gradient step, are asked for a target; the lowest counts. 1 is the boldest. Usual: 1-2."""
    critic_layer_norm: Annotated[bool, Kind.SHAPE] = True
    """Normalize the critics' hidden layers: their values then cannot run away where there is no data. Usual: true."""
    policy_delay: Shape = Field(4, ge=1)
    """Gradient steps of the critics per step of the actor and its temperature. Usual: data.updates_per_step."""
    target_entropy: TargetEntropy = None
    ent_coef_init: FirstTemperature = 1.0
    backup_entropy: Annotated[bool, Kind.SHAPE] = True
    """Whether a target counts the entropy of what follows, as SAC's does. Usual: true; false for sparse rewards."""


class DTConfig(OfflineSettings):
    """Decision Transformer (Chen et al. 2021, arXiv:2106.01345): which action came next, given the return that came in the end."""

    name: Literal["dt"] = "dt"
    """The algorithm: dt."""
    batch_size: BatchSize = 64
    learning_rate: LearningRate = 3e-4
    max_grad_norm: GradientBound = 0.25
    weight_decay: WeightDecay = 1e-4
    context: Shape = Field(20, ge=1, le=256)
    """Steps of the episode that it sees, the present one included. More costs in proportion and more. Usual: 20; 1 is imitation that knows
    the return."""
    layers: Shape = Field(3, ge=1, le=24)
    """Layers of the transformer. Usual: 2-6."""
    heads: Shape = Field(1, ge=1, le=32)
    """Heads of each layer, between which its width is divided. Usual: 1-8."""
    width: Shape = Field(128, ge=2, le=4_096)
    """Numbers of a token. Usual: 32-512."""
    target_return: Real | None = None
    """The return of an episode that it is asked for when it acts; none: the highest of those that it learned from. Above all of them it is
    asked for what nobody has shown. Usual: none."""
