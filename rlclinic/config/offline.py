"""The settings of algorithms that learn from recorded data alone. A gradient step is their step: they take none in an environment."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rlclinic.config.off_policy import BatchSize, GradientBound, ValueLearningRate
from rlclinic.config.schedule import Number
from rlclinic.config.schema import Kind, Strict
from rlclinic.config.shared_settings import AdamEps, Gamma, LearningRate, Momentum, Optimizer, RmsDecay, WeightDecay

__all__ = ["BCConfig", "OfflineSettings"]


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
