"""The settings of algorithms that ask an expert what to do.

A round collects train_freq steps of every env, adds the expert's answers to those of the rounds before, and trains on all of them. `select`
is the rule that says where the expert is asked (training.imitation.selection).
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rlclinic.config.off_policy import BatchSize, GradientBound
from rlclinic.config.schedule import Number
from rlclinic.config.schema import Kind, Real, Shape, Strict
from rlclinic.config.shared_settings import AdamEps, LearningRate, Momentum, Optimizer, RmsDecay, WeightDecay

__all__ = ["DAggerConfig", "EnsembleDAggerConfig", "ImitationConfig", "SafeDAggerConfig", "ThriftyDAggerConfig"]


Expert = Annotated[
    str,
    Kind.SHAPE,
    Field(
        max_length=4_000,
        description=(
            "Who says what to do: a run or checkpoint (its policy), file.py:function (an observation in, an action out), `command: …` (a "
            "program that answers JSON lines), or `person`, who is shown each state."
        ),
    ),
]
RoundSteps = Annotated[
    Shape,
    Field(
        ge=1,
        description=(
            "Steps of every env in a round. Fewer gives more rounds for the same labels, each trained from a policy that is up to"
            " date. Usual: half an episode to a few."
        ),
    ),
]
MostQueries = Annotated[
    Shape,
    Field(
        ge=0,
        description=(
            "The most that the expert is asked in a run, repeated questions included; 0: no limit. The run ends when they are used."
        ),
    ),
]
ExpertRounds = Annotated[
    Shape,
    Field(
        ge=0,
        description=("Rounds at the start in which the expert acts: there is no policy yet. Usual: 1."),
    ),
]
PolicyNoise = Annotated[
    Number,
    Field(
        ge=0,
        le=1,
        description=(
            "Noise on the policy's own actions while collecting: its deviation where actions reach from -1 to 1, for choices the "
            "share drawn at random. It is never on in evaluations. Some widens what is labelled; much makes the states those of "
            "another policy. Usual: 0-0.1."
        ),
    ),
]
KeptRounds = Annotated[
    Shape,
    Field(
        ge=0,
        description=(
            "Learn from the labels of the newest so many rounds; 0: all of them, as the theory has it. Forgetting old rounds "
            "makes policies swing. Usual: 0."
        ),
    ),
]
Retrain = Annotated[
    Literal["scratch", "warm"],
    Kind.SHAPE,
    Field(
        description=(
            "`scratch` trains a new network in every round, `warm` goes on with the last one: faster, and biased to what came first."
        ),
    ),
]
GradientSteps = Annotated[
    Shape,
    Field(
        ge=1,
        description=("Gradient steps of a round, at least. Usual: 500-5,000."),
    ),
]
Epochs = Annotated[
    Shape,
    Field(
        ge=0,
        description=(
            "Passes over the steps of all rounds so far: where that takes more than gradient_steps, so many are made. 0: "
            "gradient_steps always, which is fewer and fewer passes as labels come in. Usual: 20-100."
        ),
    ),
]
RepeatedQueries = Annotated[
    Real,
    Field(
        ge=0,
        le=1,
        description=(
            "Share of the questions that are asked twice, at a query's price each: how far the answers differ is the expert's "
            "noise, which no policy can be better than; their mean is learned. Usual: 0, or 0.05 for people."
        ),
    ),
]
AnswerSeconds = Annotated[
    Real,
    Field(
        gt=0,
        description=(
            "How long a command may take to answer; then the state stays without a label and the policy acts. A person has all the time."
        ),
    ),
]
Ensemble = Annotated[
    Shape,
    Field(
        ge=2,
        le=32,
        description="Policies that are trained side by side, each on four fifths of the labels; their mean acts. Usual: 5.",
    ),
]


class DAggerConfig(Strict):
    """Dataset aggregation (Ross et al. 2011, arXiv:1011.0686): the expert labels every state that the policy itself gets into."""

    loop: ClassVar[str] = "imitation"
    # What a replay of rewards has, and labels have not.
    buffer_size: ClassVar[int] = 1
    learning_starts: ClassVar[int] = 0
    gamma: ClassVar[float] = 0.99
    n_step: ClassVar[int] = 1
    optimize_memory_usage: ClassVar[bool] = False
    select: ClassVar[str] = "all"
    ensemble: ClassVar[int] = 1
    holdout: ClassVar[float] = 0.0
    name: Literal["dagger"] = "dagger"
    """The algorithm: dagger."""
    expert: Expert = ""
    train_freq: RoundSteps = 100
    max_queries: MostQueries = 0
    expert_rounds: ExpertRounds = 1
    policy_noise: PolicyNoise = 0.0
    keep_rounds: KeptRounds = 0
    retrain: Retrain = "scratch"
    gradient_steps: GradientSteps = 1000
    n_epochs: Epochs = 50
    beta: Number = Field(0.0, ge=0, le=1)
    """Share of the steps in which the expert acts in later rounds, drawn step by step. 1 is behaviour cloning: states that
    only mistakes lead to are never seen. A schedule may fall from 1, within the rounds that there are. Usual: 0."""
    batch_size: BatchSize = 64
    learning_rate: LearningRate = 1e-3
    max_grad_norm: GradientBound = None
    repeat_queries: RepeatedQueries = 0.0
    answer_seconds: AnswerSeconds = 60.0
    optimizer: Optimizer = "adam"
    adam_eps: AdamEps = 1e-8
    weight_decay: WeightDecay = 0.0
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99


class SafeDAggerConfig(Strict):
    """SafeDAgger (Zhang & Cho 2016, arXiv:1605.06450): the expert is asked, and acts, where a classifier expects the policy to be wrong."""

    loop: ClassVar[str] = "imitation"
    # What a replay of rewards has, and labels have not.
    buffer_size: ClassVar[int] = 1
    learning_starts: ClassVar[int] = 0
    gamma: ClassVar[float] = 0.99
    n_step: ClassVar[int] = 1
    optimize_memory_usage: ClassVar[bool] = False
    select: ClassVar[str] = "safe"
    ensemble: ClassVar[int] = 1
    name: Literal["safe_dagger"] = "safe_dagger"
    """The algorithm: safe_dagger."""
    expert: Expert = ""
    train_freq: RoundSteps = 100
    max_queries: MostQueries = 0
    expert_rounds: ExpertRounds = 1
    policy_noise: PolicyNoise = 0.0
    keep_rounds: KeptRounds = 0
    retrain: Retrain = "scratch"
    gradient_steps: GradientSteps = 1000
    n_epochs: Epochs = 50
    unsafe_error: Number = Field(0.2, gt=0)
    """How far the policy may be from the expert (root mean square over components, where actions reach from -1 to 1; another
    choice is 1). Smaller asks more. Usual: 0.1-0.3."""
    holdout: Real = Field(0.2, ge=0, lt=1)
    """Share of the labels that the policy is not trained on, for the classifier to see its true mistakes. Usual: 0.2."""
    batch_size: BatchSize = 64
    learning_rate: LearningRate = 1e-3
    max_grad_norm: GradientBound = None
    repeat_queries: RepeatedQueries = 0.0
    answer_seconds: AnswerSeconds = 60.0
    optimizer: Optimizer = "adam"
    adam_eps: AdamEps = 1e-8
    weight_decay: WeightDecay = 0.0
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99


class EnsembleDAggerConfig(Strict):
    """EnsembleDAgger (Menda et al. 2019, arXiv:1807.08364): the expert is asked, and acts, where policies disagree.

    Its other rule, to compare with the expert's action, asks the expert everywhere and saves nothing: it is left out.
    """

    loop: ClassVar[str] = "imitation"
    # What a replay of rewards has, and labels have not.
    buffer_size: ClassVar[int] = 1
    learning_starts: ClassVar[int] = 0
    gamma: ClassVar[float] = 0.99
    n_step: ClassVar[int] = 1
    optimize_memory_usage: ClassVar[bool] = False
    select: ClassVar[str] = "ensemble"
    holdout: ClassVar[float] = 0.0
    name: Literal["ensemble_dagger"] = "ensemble_dagger"
    """The algorithm: ensemble_dagger."""
    expert: Expert = ""
    train_freq: RoundSteps = 100
    max_queries: MostQueries = 0
    expert_rounds: ExpertRounds = 1
    policy_noise: PolicyNoise = 0.0
    keep_rounds: KeptRounds = 0
    retrain: Retrain = "scratch"
    gradient_steps: GradientSteps = 1000
    n_epochs: Epochs = 50
    ensemble: Ensemble = 5
    doubt: Number = Field(0.1, gt=0)
    """How far the policies may be from each other (their standard deviation, where actions reach from -1 to 1; for choices, the
    information that a choice gives about which policy made it, as a share of the most possible). Smaller asks more. Usual: 0.05-0.2."""
    batch_size: BatchSize = 64
    learning_rate: LearningRate = 1e-3
    max_grad_norm: GradientBound = None
    repeat_queries: RepeatedQueries = 0.0
    answer_seconds: AnswerSeconds = 60.0
    optimizer: Optimizer = "adam"
    adam_eps: AdamEps = 1e-8
    weight_decay: WeightDecay = 0.0
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99


class ThriftyDAggerConfig(Strict):
    """ThriftyDAgger (Hoque et al. 2021, arXiv:2109.08273): the expert takes over where policies disagree most or should earn least."""

    loop: ClassVar[str] = "imitation"
    # What a replay of rewards has, and labels have not.
    buffer_size: ClassVar[int] = 1
    learning_starts: ClassVar[int] = 0
    gamma: ClassVar[float] = 0.99
    n_step: ClassVar[int] = 1
    optimize_memory_usage: ClassVar[bool] = False
    select: ClassVar[str] = "thrifty"
    holdout: ClassVar[float] = 0.0
    name: Literal["thrifty_dagger"] = "thrifty_dagger"
    """The algorithm: thrifty_dagger."""
    expert: Expert = ""
    train_freq: RoundSteps = 100
    max_queries: MostQueries = 0
    expert_rounds: ExpertRounds = 1
    policy_noise: PolicyNoise = 0.0
    keep_rounds: KeptRounds = 0
    retrain: Retrain = "scratch"
    gradient_steps: GradientSteps = 1000
    n_epochs: Epochs = 50
    ensemble: Ensemble = 5
    ask_share: Real = Field(0.2, gt=0, le=1)
    """Share of the policy's steps in which the expert is to take over. Usual: 0.1-0.3."""
    batch_size: BatchSize = 64
    learning_rate: LearningRate = 1e-3
    max_grad_norm: GradientBound = None
    repeat_queries: RepeatedQueries = 0.0
    answer_seconds: AnswerSeconds = 60.0
    optimizer: Optimizer = "adam"
    adam_eps: AdamEps = 1e-8
    weight_decay: WeightDecay = 0.0
    momentum: Momentum = 0.0
    rms_decay: RmsDecay = 0.99


ImitationConfig = DAggerConfig | SafeDAggerConfig | EnsembleDAggerConfig | ThriftyDAggerConfig
