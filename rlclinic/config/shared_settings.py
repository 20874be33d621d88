"""Settings that several algorithms have, as types: a setting means the same everywhere, and its documentation is written once.

Each algorithm chooses its default. Names are Stable-Baselines3's.
"""

from typing import Annotated, Literal

from pydantic import Field

from rlclinic.config.schedule import Number
from rlclinic.config.schema import Kind, Real

__all__ = ["AdamEps", "Gamma", "GradientNorm", "LearningRate", "Momentum", "Optimizer", "RmsDecay", "WeightDecay"]

Gamma = Annotated[
    Number,
    Field(
        ge=0,
        le=1,
        description=(
            "Discount: how much a reward one step later is worth. Higher looks further ahead (about 1 / (1 - "
            "gamma) steps) and makes values harder to learn. Usual: 0.95-0.999; 0.99."
        ),
    ),
]
LearningRate = Annotated[
    Number,
    Field(
        gt=0,
        description=(
            "Size of an optimizer step. Higher learns faster until the policy jumps (KL, clip fraction rise; "
            "returns collapse); lower is slow and safe. Usual: 1e-4 to 1e-3, falling linearly to 0."
        ),
    ),
]
GradientNorm = Annotated[
    Number,
    Field(
        gt=0,
        description=(
            "Gradients longer than this are scaled down to it. Lower is safer and slower; if nearly every step "
            "is clipped, it acts as a second learning rate. Usual: 0.5; 0.3-5."
        ),
    ),
]
Optimizer = Annotated[
    Literal["adam", "adamw", "rmsprop", "sgd", "lamb"],
    Kind.SHAPE,
    Field(
        description=(
            "adam is the usual choice; adamw decays weights apart from the gradient; rmsprop is A2C's; sgd needs "
            "a tuned rate; lamb scales steps by layer, for very large batches."
        ),
    ),
]
AdamEps = Annotated[
    Real,
    Field(
        gt=0,
        description=(
            "Added to the denominator of adam, adamw, lamb and rmsprop. Higher damps steps where gradients are "
            "tiny. Usual: 1e-8 to 1e-5; 1e-5 in RL."
        ),
    ),
]
WeightDecay = Annotated[
    Real,
    Field(
        ge=0,
        description=(
            "Pull of the weights towards 0. Higher forgets more and keeps the network plastic in long runs. "
            "Usual: 0; up to 1e-2 with adamw and lamb."
        ),
    ),
]
Momentum = Annotated[
    Real,
    Field(
        ge=0,
        lt=1,
        description=("sgd only: share of the last step that is kept. Higher smooths and overshoots. Usual: 0 or 0.9."),
    ),
]
RmsDecay = Annotated[
    Real,
    Field(
        gt=0,
        lt=1,
        description=("rmsprop only: memory of the squared gradients. Higher averages longer. Usual: 0.99."),
    ),
]
