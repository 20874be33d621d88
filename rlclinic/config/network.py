"""The policy's and the value function's networks.

A network of another package takes the place of the first layers. Its settings are a class derived from `EncoderSettings`, declared as an
entry point:

    [project.entry-points."rlclinic.networks"]
    my_net = "my_package.config:MyNetSettings"

The class names the module that computes it (`implementation = "my_package.my_net"`), which only a process with networks imports, so that
the class itself needs no torch. What that module holds: `rlclinic.training.nets.encoders`.
"""

import math
from functools import cache
from importlib.metadata import EntryPoint
from typing import Annotated, Any, ClassVar, Final, Literal, Self, cast

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails

from rlclinic import plugins
from rlclinic.actions import Change
from rlclinic.config.schema import Kind, Real, Shape, Strict, refusal
from rlclinic.errors import ConfigError, nearest

__all__ = ["OWN_ENCODERS", "Activation", "EncoderSettings", "NetConfig", "encoder_names", "find_encoder"]

ENTRY_POINTS: Final = "rlclinic.networks"
"""The group of entry points in which other packages declare networks."""
OWN_ENCODERS: Final = ("auto", "conv")

Activation = Literal["tanh", "relu", "elu", "gelu", "silu", "leaky_relu", "sigmoid"]
Widths = tuple[Annotated[Shape, Field(ge=1)], ...]


class EncoderSettings(Strict):
    """What the settings of a network of another package derive from: plain values, equal in a cohort."""

    implementation: ClassVar[str]
    """The module that computes it (see rlclinic.training.nets.encoders)."""


def encoder_names() -> list[str]:
    """What `net.encoder` may be: our own, then those of installed packages."""
    return [*OWN_ENCODERS, *(name for name in _declared() if name not in OWN_ENCODERS)]


def find_encoder(name: str) -> type[EncoderSettings]:
    """The settings' class of a network of another package, which is imported when it is asked for."""
    return _load(_declared()[name])


def _declared() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in plugins.entry_points(group=ENTRY_POINTS)}


@cache
def _load(entry: EntryPoint) -> type[EncoderSettings]:
    found = plugins.load(entry, "network")
    if not (isinstance(found, type) and issubclass(found, EncoderSettings)):
        raise ConfigError(
            f"the network {entry.name} ({entry.value}) is no class derived from EncoderSettings.\n"
            "  Nothing would say which settings it has.\n  Derive it from that one (rlclinic.config)"
        )
    return found


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
    encoder: Annotated[str, Kind.SHAPE] = "auto"
    """What observations go through before the `hidden` layers: conv (the convolutions of net.images), or a network of an installed
    package by its name. auto: conv for images, nothing for vectors. Usual: auto."""
    encoder_args: Annotated[dict[str, Any], Kind.SHAPE] = Field(default_factory=dict, validate_default=True)
    """Settings of a network of an installed package (net.encoder), by the names that it gives them."""
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

    @field_validator("encoder")
    @classmethod
    def _check_encoder(cls, name: str) -> str:
        if name in OWN_ENCODERS or name in _declared():
            return name
        others = encoder_names()
        raise refusal(
            f"no installed package has a network {name!r}; there are {', '.join(others)}.",
            "Nothing could compute it, and weights that were saved with it would mean nothing.",
            "install the package that declares it, or ",
            Change("net.encoder", (nearest(name, others) or others)[0]),
        )

    @field_validator("encoder_args")
    @classmethod
    def _read_encoder_args(cls, given: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        name = info.data.get("encoder", "auto")
        if name in OWN_ENCODERS:
            if given and "encoder" in info.data:
                raise refusal(
                    f"net.encoder={name} takes none ({', '.join(given)} given).",
                    "They are for networks of other packages, and would be ignored.",
                    Change("net.encoder_args", {}),
                    ", or name the network: ",
                    Change("net.encoder", "NAME"),
                )
            return given
        try:
            # Whole, with the defaults of today: a run goes on as it was begun, whatever the package's next version has.
            return find_encoder(name).model_validate(given).model_dump(mode="json")
        except ValidationError as error:
            # Under the network's name: config.validation looks its fields up there.
            details = [{**detail, "loc": (name, *detail["loc"])} for detail in error.errors(include_url=False)]
            raise ValidationError.from_exception_data(error.title, cast("list[InitErrorDetails]", details)) from None

    @model_serializer(mode="wrap")
    def _dump(self, dump: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]  # a type would become the schema
        """Without the encoder where nobody chose one: records and their fingerprints are those of runs from before there was a choice."""
        record: dict[str, Any] = dump(self)
        return record if self.encoder != "auto" else {key: value for key, value in record.items() if key not in ("encoder", "encoder_args")}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.log_std_min <= self.log_std_init <= self.log_std_max:
            raise refusal(
                f"log_std_init={self.log_std_init:g} lies outside log_std_min={self.log_std_min:g} and log_std_max={self.log_std_max:g}.",
                "The policy would start from the bound instead, where its gradient is zero.",
                Change("net.log_std_init", float(min(max(self.log_std_init, self.log_std_min), self.log_std_max))),
            )
        if self.shared and self.critic_hidden is not None:
            raise refusal(
                f"critic_hidden={list(self.critic_hidden)} has no meaning with shared=true.",
                "The value reads the policy's trunk, so these layers would not exist.",
                Change("net.shared", False),
                ", or ",
                Change("net.critic_hidden", None),
            )
        return self
