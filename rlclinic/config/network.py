"""The policy's and the value function's networks."""

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rlclinic.config.schema import Kind, Real, Shape, Strict, refusal

__all__ = ["Activation", "NetConfig"]

Activation = Literal["tanh", "relu", "elu", "gelu", "silu", "leaky_relu", "sigmoid"]
Widths = tuple[Annotated[Shape, Field(ge=1)], ...]


class NetConfig(Strict):
    """Fully connected networks, and convolutions below them for images; every setting here is a shape, so equal in a cohort."""

    hidden: Widths = (64, 64)
    """Widths of the policy's hidden layers; [] is linear. Wider fits more and trains slower. Usual: [64, 64]; [256, 256] for locomotion."""
    critic_hidden: Widths | None = None
    """Widths of the value function's hidden layers; none: as `hidden`. A wider critic often helps where explained variance stays low."""
    activation: Annotated[Activation, Kind.SHAPE] = "tanh"
    """Between the layers. tanh is the safe choice for small on-policy nets; relu for wide ones (watch for dead units)."""
    shared: Annotated[bool, Kind.SHAPE] = False
    """One trunk for policy and value. Cheaper, and always so for images; but the value loss then pulls on the policy's features,
    so vf_coef matters more. Usual: false for vectors."""
    layer_norm: Annotated[bool, Kind.SHAPE] = False
    """Normalize each hidden layer. Steadier with high learning rates and changing data, at some cost per step. Usual: false."""
    images: Annotated[Literal["auto", "nature", "impala"], Kind.SHAPE] = "auto"
    """Convolutions for image observations, which always have one trunk for policy and value; the `hidden` layers come after them.
    nature: three layers, from 36x36 pixels on; impala: residual, any size, several times the work, often better in the end. auto: nature
    where it fits. Usual: nature with hidden []."""
    image_features: Shape = Field(512, ge=1)
    """Image observations: width of the layer on top of the convolutions. Wider keeps more of the image; most weights lie here.
    Usual: 512 (nature), 256 (impala)."""
    image_precision: Annotated[Literal["float32", "bfloat16"], Kind.SHAPE] = "float32"
    """Image observations: what convolutions compute in; weights, optimizer and heads stay float32. bfloat16 keeps three digits of an
    activation, and trains Pong 1.6 times as fast on a processor with AVX512-BF16; elsewhere, profile it first. Usual: float32."""
    hidden_gain: Real = Field(math.sqrt(2), gt=0)
    """Gain of the orthogonal initial weights of hidden layers. Usual: 1.41; 1 keeps tanh further from saturation."""
    policy_gain: Real = Field(0.01, gt=0)
    """Gain of the policy's last layer. Small starts near a uniform (or zero-mean) policy; large starts with an opinion. Usual: 0.01."""
    value_gain: Real = Field(1.0, gt=0)
    """Gain of the value's last layer. Usual: 1."""
    log_std_init: Real = 0.0
    """Continuous actions: the logarithm of the first standard deviation. Higher explores more; above 0 most samples
    leave [-1, 1]. Usual: -2 to 0."""
    log_std_min: Real = -20.0
    """Continuous actions: lower bound of log_std. Higher keeps exploring for ever. Usual: -20 to -3."""
    log_std_max: Real = 2.0
    """Continuous actions: upper bound of log_std. Lower stops an entropy bonus from blowing the noise up. Usual: 0.5-2."""
    state_dependent_std: Annotated[bool, Kind.SHAPE] = False
    """Continuous actions: a deviation computed from the observation, instead of one per action component. More flexible, less
    stable. Usual: false."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.log_std_min <= self.log_std_init <= self.log_std_max:
            raise refusal(
                f"log_std_init={self.log_std_init:g} lies outside log_std_min={self.log_std_min:g} and log_std_max={self.log_std_max:g}.",
                "The policy would start from the bound instead, where its gradient is zero.",
                f"--set net.log_std_init={min(max(self.log_std_init, self.log_std_min), self.log_std_max):g}",
            )
        if self.shared and self.critic_hidden is not None:
            raise refusal(
                f"critic_hidden={list(self.critic_hidden)} has no meaning with shared=true.",
                "The value reads the policy's trunk, so these layers would not exist.",
                "--set net.shared=false, or --set net.critic_hidden=none",
            )
        return self
