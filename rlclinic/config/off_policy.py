"""The settings of algorithms that learn from a replay: DQN and bootstrapped DQN, TD3, DDPG, SAC and those of other packages.

Names are Stable-Baselines3's.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from rlclinic.config.schedule import Number, Schedule
from rlclinic.config.schema import Kind, Real, Shape, Strict
from rlclinic.config.shared_settings import AdamEps, Gamma, LearningRate, Momentum, Optimizer, RmsDecay, WeightDecay

__all__ = ["STRETCH_ENV_STEPS", "BootstrappedDQNConfig", "DDPGConfig", "DQNConfig", "OffPolicySettings", "SACConfig", "TD3Config"]

STRETCH_ENV_STEPS = 100
"""Cycles shorter than this are put together to an iteration: what happens once in an iteration then costs little."""


def _read_gradient_steps(value: Any) -> Any:
    if value in (0, "0"):
        raise ValueError("0 would never learn; -1 makes as many gradient steps as env steps were taken")
    return value


def _read_noise(value: Any) -> Any:
    """rl-zoo3 says normal and ornstein-uhlenbeck; YAML reads a bare `none` as no text at all."""
    return {None: "none", "normal": "gaussian", "ornstein-uhlenbeck": "ou"}.get(value, value)


def _read_auto(value: Any) -> Any:
    return None if value == "auto" else value


BufferSize = Annotated[
    Shape,
    Field(
        ge=1,
        description=(
            "Transitions that are remembered, over all envs; the oldest make room. Larger forgets less and keeps older data; "
            "smaller follows the policy. More than the budget takes no more memory. Usual: 50,000-1,000,000."
        ),
    ),
]
LearningStarts = Annotated[
    Shape,
    Field(
        ge=0,
        description=(
            "Env steps before the first gradient step; until then actions are random. More gives the first updates varied data and "
            "costs time. Usual: 100-10,000, at least a few batches."
        ),
    ),
]
BatchSize = Annotated[
    Shape,
    Field(ge=1, description="Transitions per gradient step. Larger is steadier and costs time in proportion. Usual: 32-512; 256."),
]
TrainFreq = Annotated[
    Shape,
    Field(
        ge=1,
        description=(
            "Steps of every env between trainings. Larger collects more in one go with the same policy, which is faster. "
            "Usual: 1-256; with gradient_steps it decides how often each transition is learned from."
        ),
    ),
]
GradientSteps = Annotated[
    Shape,
    BeforeValidator(_read_gradient_steps),
    Field(
        ge=-1,
        description=(
            "Gradient steps per training; -1: as many as env steps were taken, so that more envs do not mean fewer updates. "
            "More learns more from each transition, until the values chase themselves. Usual: 1 per env step, half of it for DQN."
        ),
    ),
]
Tau = Annotated[
    Number,
    Field(
        gt=0,
        le=1,
        description=(
            "Share of the network that the target takes over at each update of the target: 1 copies it. Lower makes slower, "
            "steadier targets. Usual: 0.005-0.02 at every gradient step, 1 every few hundred env steps."
        ),
    ),
]
NStep = Annotated[
    Shape,
    Field(
        ge=1,
        le=64,
        description=(
            "Rewards that are summed before the value takes over. More carries news back faster, at the price of noise and of "
            "actions that the present policy would not take. Usual: 1-5."
        ),
    ),
]
ValueLearningRate = Annotated[
    Annotated[Number, Field(gt=0)] | None,
    Kind.NUMBER,
    Field(description="The critics' own learning rate; none: learning_rate. Usual: none, or 1-10 x learning_rate."),
]
GradientBound = Annotated[
    Annotated[Number, Field(gt=0)] | None,
    Kind.NUMBER,
    Field(description="Gradients longer than this are scaled down to it, each network by itself; none: no limit. Usual: 10 (DQN), none."),
]
PolicyAverage = Annotated[
    Shape,
    Field(
        ge=0,
        description=(
            "Evaluate, keep and play the average of the acting network's weights over about so many gradient steps; training goes on with "
            "the newest ones; 0: the newest everywhere. Values that swing from step to step swing less in their average, which lags behind "
            "where learning is fast. Usual: 0, 1,000-3,000."
        ),
    ),
]
ActionNoise = Annotated[
    Literal["none", "gaussian", "ou"],
    BeforeValidator(_read_noise),
    Kind.SHAPE,
    Field(
        description=(
            "Noise that is added to actions while training: `gaussian` afresh at every step, `ou` drifting (Ornstein-Uhlenbeck), "
            "which pushes one way for a while and finds far goals. Usual: gaussian for TD3 and DDPG, none for SAC."
        ),
    ),
]
ActionNoiseStd = Annotated[
    Number,
    Field(
        ge=0,
        description=(
            "Deviation of action_noise, where actions reach from -1 to 1. Higher explores more and acts worse meanwhile. "
            "Usual: 0.1; 0.5 for goals that are far away."
        ),
    ),
]
ActionNoiseTime = Annotated[
    Real,
    Field(
        gt=0,
        le=1,
        description=(
            "`ou` only: the time of a step. Larger drifts back and forth faster, in about 1 / (0.15 dt) steps; that should be the time "
            "in which the task swings. Usual: 0.01 (as SB3), 0.1-0.4 for swinging tasks."
        ),
    ),
]
SavesMemory = Annotated[
    bool,
    Kind.SHAPE,
    Field(
        description=(
            "Keep each observation once instead of twice: the next one is looked up in the row that follows, and the last one of an "
            "episode that a time limit cut is kept apart. Halves the memory. On for images."
        ),
    ),
]


class DQNConfig(Strict):
    """Deep Q-learning (Mnih et al. 2015), with double, dueling, n-step and prioritized replay as switches of their own."""

    loop: ClassVar[str] = "off_policy"
    name: Literal["dqn"] = "dqn"
    """The algorithm: dqn."""
    buffer_size: BufferSize = 1_000_000
    learning_starts: LearningStarts = 100
    batch_size: BatchSize = 32
    train_freq: TrainFreq = 4
    gradient_steps: GradientSteps = 1
    gamma: Gamma = 0.99
    tau: Tau = 1.0
    n_step: NStep = 1
    learning_rate: LearningRate = 1e-4
    max_grad_norm: GradientBound = 10.0
    policy_average: PolicyAverage = 0
    optimize_memory_usage: SavesMemory = False
    target_update_interval: Shape = Field(10_000, ge=1)
    """Env steps between updates of the target network. Longer is steadier and slower; too short lets values chase themselves. Usual:
    10-1,000 for classic tasks, 1,000-10,000 for images."""
    double: Annotated[bool, Kind.SHAPE] = False
    """Let the network choose the next action and the target judge it (arXiv:1509.06461): less overestimation, at no cost."""
    dueling: Annotated[bool, Kind.SHAPE] = False
    """Learn a state's value and the actions' advantages apart (arXiv:1511.06581). Helps where most actions hardly matter."""
    prioritized: Annotated[bool, Kind.SHAPE] = False
    """Draw transitions with large errors more often (arXiv:1511.05952). Helps with rare rewards; costs time per draw."""
    priority_alpha: Number = Field(0.6, ge=0, le=1)
    """How much errors decide in prioritized replay: 0 is uniform. Usual: 0.4-0.7."""
    priority_beta: Number = Field(Schedule(start=0.4, end=1.0, schedule="linear"), ge=0, le=1)
    """How much of the prioritized draw's bias is corrected by weights: 1 is all of it. Usual: from 0.4 to 1 over the run."""
    exploration: Annotated[Literal["epsilon", "boltzmann"], Kind.SHAPE] = "epsilon"
    """`epsilon` takes a random action now and then; `boltzmann` prefers better ones: probability softmax(Q / exploration_temperature)."""
    exploration_fraction: Number = Field(0.1, ge=0, le=1)
    """Share of the budget over which epsilon falls from exploration_initial_eps to exploration_final_eps. Longer explores more and
    exploits later. Usual: 0.1-0.5."""
    exploration_initial_eps: Number = Field(1.0, ge=0, le=1)
    """Epsilon at the start: the share of random actions. Usual: 1."""
    exploration_final_eps: Number = Field(0.05, ge=0, le=1)
    """Epsilon after exploration_fraction of the budget. Higher keeps trying; it also costs return while training. Usual: 0.01-0.1."""
    exploration_eps: Annotated[Annotated[Number, Field(ge=0, le=1)] | None, Kind.NUMBER] = None
    """Epsilon as a schedule of your own, in place of the three settings above; none: they decide. Usual: none."""
    exploration_temperature: Number = Field(1.0, gt=0)
    """`boltzmann` only: in units of Q. Higher is more random; of the size of the differences between actions it matters. Usual: 0.01-1."""
    optimizer: Optimizer = "adam"
    adam_eps: AdamEps = 1e-8
    weight_decay: WeightDecay = 0.0
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99


class BootstrappedDQNConfig(Strict):
    """Bootstrapped DQN with randomized priors (Osband et al. 2016, arXiv:1602.04621; 2018, arXiv:1806.03335)."""

    loop: ClassVar[str] = "off_policy"
    # A prior that decays would be none.
    weight_decay: ClassVar[float] = 0.0
    name: Literal["bootstrapped_dqn"] = "bootstrapped_dqn"
    """The algorithm: bootstrapped_dqn."""
    buffer_size: BufferSize = 100_000
    learning_starts: LearningStarts = 100
    batch_size: BatchSize = 64
    train_freq: TrainFreq = 1
    gradient_steps: GradientSteps = 1
    gamma: Gamma = 0.99
    tau: Tau = 1.0
    n_step: NStep = 1
    learning_rate: LearningRate = 1e-3
    max_grad_norm: GradientBound = None
    policy_average: PolicyAverage = 0
    optimize_memory_usage: SavesMemory = False
    target_update_interval: Shape = Field(200, ge=1)
    """Env steps between updates of the target network. Longer is steadier; hope that a head has far ahead travels back one step each
    time. Usual: 10-1,000."""
    n_heads: Shape = Field(10, ge=2, le=64)
    """Estimates of Q that disagree where there is no data; one of them acts for a whole episode, and most of them decide in evaluation.
    More explore more evenly and cost time in proportion. Usual: 10-20."""
    prior_scale: Real = Field(3.0, ge=0)
    """How much the random function counts that each head has on top of what it learned. It has to be worth about as much as the reward
    that is to be found: 0 relies on the first weights alone, far too much never agrees on anything. Usual: 1-10."""
    mask_probability: Real = Field(0.5, gt=0, le=1)
    """The share of transitions that each head learns from, drawn once for each transition. Less keeps heads apart for longer, and each
    learns from less; with priors 1 does as well. Usual: 0.5-1."""
    shared_trunk: Annotated[bool, Kind.SHAPE] = False
    """One trunk for all heads, and one for all priors, as for images: cheaper, and heads agree sooner. Off: a network each."""
    double: Annotated[bool, Kind.SHAPE] = True
    """Let each head choose the next action and its target judge it (arXiv:1509.06461): less overestimation."""
    optimizer: Optimizer = "adam"
    adam_eps: AdamEps = 1e-8
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99


class TD3Config(Strict):
    """Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477)."""

    loop: ClassVar[str] = "off_policy"
    name: Literal["td3"] = "td3"
    """The algorithm: td3."""
    buffer_size: BufferSize = 1_000_000
    learning_starts: LearningStarts = 100
    batch_size: BatchSize = 256
    train_freq: TrainFreq = 1
    gradient_steps: GradientSteps = 1
    gamma: Gamma = 0.99
    tau: Tau = 0.005
    n_step: NStep = 1
    learning_rate: LearningRate = 1e-3
    value_lr: ValueLearningRate = None
    max_grad_norm: GradientBound = None
    policy_average: PolicyAverage = 0
    optimize_memory_usage: SavesMemory = False
    n_critics: Shape = Field(2, ge=1, le=8)
    """Critics of which the lowest counts. 1 overestimates; more is more cautious. Usual: 2."""
    policy_delay: Shape = Field(2, ge=1)
    """Gradient steps of the critics per step of the actor and of the targets. Larger lets values settle first. Usual: 2."""
    target_policy_noise: Number = Field(0.2, ge=0)
    """Noise on the target's actions, which smooths the values; actions reach from -1 to 1. 0 is off. Usual: 0.2."""
    target_noise_clip: Number = Field(0.5, ge=0)
    """The largest such noise. Usual: 0.5."""
    action_noise: ActionNoise = "gaussian"
    action_noise_std: ActionNoiseStd = 0.1
    action_noise_dt: ActionNoiseTime = 0.01
    optimizer: Optimizer = "adam"
    adam_eps: AdamEps = 1e-8
    weight_decay: WeightDecay = 0.0
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99


class DDPGConfig(Strict):
    """Deep deterministic policy gradient (Lillicrap et al. 2015, arXiv:1509.02971): TD3 without its tricks."""

    loop: ClassVar[str] = "off_policy"
    name: Literal["ddpg"] = "ddpg"
    """The algorithm: ddpg."""
    buffer_size: BufferSize = 1_000_000
    learning_starts: LearningStarts = 100
    batch_size: BatchSize = 256
    train_freq: TrainFreq = 1
    gradient_steps: GradientSteps = 1
    gamma: Gamma = 0.99
    tau: Tau = 0.005
    n_step: NStep = 1
    learning_rate: LearningRate = 1e-3
    value_lr: ValueLearningRate = None
    max_grad_norm: GradientBound = None
    policy_average: PolicyAverage = 0
    optimize_memory_usage: SavesMemory = False
    n_critics: Shape = Field(1, ge=1, le=8)
    """Critics of which the lowest counts. Usual: 1; 2 is TD3's cure for overestimation."""
    policy_delay: Shape = Field(1, ge=1)
    """Gradient steps of the critic per step of the actor and of the targets. Usual: 1."""
    target_policy_noise: Number = Field(0.0, ge=0)
    """Noise on the target's actions; actions reach from -1 to 1. Usual: 0."""
    target_noise_clip: Number = Field(0.0, ge=0)
    """The largest such noise. Usual: 0."""
    action_noise: ActionNoise = "gaussian"
    action_noise_std: ActionNoiseStd = 0.1
    action_noise_dt: ActionNoiseTime = 0.01
    optimizer: Optimizer = "adam"
    adam_eps: AdamEps = 1e-8
    weight_decay: WeightDecay = 0.0
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99


class SACConfig(Strict):
    """Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905), with a learned or a fixed temperature."""

    loop: ClassVar[str] = "off_policy"
    name: Literal["sac"] = "sac"
    """The algorithm: sac."""
    buffer_size: BufferSize = 1_000_000
    learning_starts: LearningStarts = 100
    batch_size: BatchSize = 256
    train_freq: TrainFreq = 1
    gradient_steps: GradientSteps = 1
    gamma: Gamma = 0.99
    tau: Tau = 0.005
    n_step: NStep = 1
    learning_rate: LearningRate = 3e-4
    value_lr: ValueLearningRate = None
    max_grad_norm: GradientBound = None
    policy_average: PolicyAverage = 0
    optimize_memory_usage: SavesMemory = False
    n_critics: Shape = Field(2, ge=1, le=8)
    """Critics of which the lowest counts. 1 overestimates; more is more cautious. Usual: 2."""
    target_update_interval: Shape = Field(1, ge=1)
    """Gradient steps between updates of the targets. Usual: 1."""
    ent_coef: Annotated[Annotated[Number, Field(ge=0)] | None, BeforeValidator(_read_auto), Kind.NUMBER] = None
    """The temperature: what an action's entropy is worth in units of reward. `auto` (kept as none) learns it so that the entropy
    becomes target_entropy. Higher explores more; too high never commits. Usual: auto, or 0.01-0.2 for rewards of about 1."""
    ent_coef_init: Real = Field(1.0, gt=0)
    """Where a learned temperature begins. Lower commits earlier. Usual: 0.1-1."""
    target_entropy: Annotated[Number | None, BeforeValidator(_read_auto), Kind.NUMBER] = None
    """The entropy that a learned temperature aims at, in nats, for actions from -1 to 1; `auto` (kept as none) is minus the number
    of action components. Lower is greedier. Usual: auto."""
    action_noise: ActionNoise = "none"
    action_noise_std: ActionNoiseStd = 0.1
    action_noise_dt: ActionNoiseTime = 0.01
    optimizer: Optimizer = "adam"
    adam_eps: AdamEps = 1e-8
    weight_decay: WeightDecay = 0.0
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99


class OffPolicySettings(Strict):
    """What the settings of an off-policy algorithm of another package have in common: derive from it, and add to it.

    A class adds its own numbers and shapes and sets `name` and `implementation`.
    """

    loop: ClassVar[str] = "off_policy"
    implementation: ClassVar[str]
    """The module with the algorithm's losses (see rlclinic.training.algos)."""
    name: str = ""
    """The algorithm's name: that of its entry point."""
    buffer_size: BufferSize = 1_000_000
    learning_starts: LearningStarts = 100
    batch_size: BatchSize = 256
    train_freq: TrainFreq = 1
    gradient_steps: GradientSteps = 1
    gamma: Gamma = 0.99
    tau: Tau = 0.005
    n_step: NStep = 1
    learning_rate: LearningRate = 3e-4
    value_lr: ValueLearningRate = None
    max_grad_norm: GradientBound = None
    policy_average: PolicyAverage = 0
    optimize_memory_usage: SavesMemory = False
    optimizer: Optimizer = "adam"
    adam_eps: AdamEps = 1e-8
    weight_decay: WeightDecay = 0.0
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99
