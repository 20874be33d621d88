"""What observations go through before the fully connected layers: nothing, our convolutions, or a network of another package.

A package declares the settings of its network (see rlclinic.config.network), which name a module in `implementation`. That module has one
function, `build(settings, obs_size, picture)`, which gives an `Encoder`: names and shapes of parameters, and how they compute. Nothing else
is needed: weights lie in the members' flat buffers, the `reference` engine differentiates it, and sentinels look at its layers.

Every tensor has a leading axis M, of members or of twin critics; parameters are [M, *shape], and nothing may mix along that axis.
`layout.linear` and `mlp.ACTIVATIONS` give a member the same bits in any cohort; what is computed otherwise should be checked for that.
"""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Protocol, cast

import torch
from torch import Tensor

from rlclinic.actions import Change
from rlclinic.config import NetConfig
from rlclinic.config.network import OWN_ENCODERS, find_encoder
from rlclinic.errors import ConfigError
from rlclinic.training.envs.base import Picture
from rlclinic.training.nets import conv

Params = Mapping[str, Tensor]


class Encoder(Protocol):
    """The static half of a network's first part: everything but the weights.

    Optional: `initialize(generator)`, first weights by name for one member (those that it leaves out start as the layers above do: names
    that end in `weight` are matrices [n_in, n_out] or filters [n_out, n_in, ...], `scale` is 1, others are biases); and
    `features(params, obs)`, the last of `layers` alone, where that is less work.
    """

    @property
    def out(self) -> int:
        """Width of what it puts out."""
        ...

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of one member's parameters."""
        ...

    def layers(self, params: Params, obs: Tensor, /) -> list[Tensor]:
        """Activations after each of its layers at observations [M, B, ...]: [M, rows, units], the last one [M, B, out]."""
        ...


class Implementation(Protocol):
    """The module of a network of another package."""

    def build(self, settings: object, obs_size: int, picture: Picture | None, /) -> Encoder:
        """The network for observations of so many numbers, or of images."""
        ...


def in_float32(encoder: Encoder) -> Encoder:
    """The same with all bits, where it is ours and computes with fewer."""
    return replace(encoder, dtype=torch.float32) if isinstance(encoder, conv.Encoder) else encoder


def choose(net: NetConfig, obs_size: int, picture: Picture | None) -> Encoder | None:
    """What the config means for these observations; None: they go straight into the layers. ConfigError where it does not fit them."""
    if net.encoder in OWN_ENCODERS:
        if picture is None and net.encoder == "conv":
            raise ConfigError(
                f"net.encoder=conv, but observations are vectors of {obs_size} numbers.\n"
                "  Neighbours in them are no neighbours in an image.\n  Try: ",
                Change("net.encoder", "auto"),
            )
        return None if picture is None else conv.choose(net, picture)
    settings = find_encoder(net.encoder).model_validate(net.encoder_args)
    try:
        module = cast(Implementation, import_module(settings.implementation))
        encoder = module.build(settings, obs_size, picture)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"the network {net.encoder!r} of another package ({settings.implementation}) cannot be built: {error}.\n"
            "  Nothing that needs it would work.\n  Repair that package, or ",
            Change("net.encoder", "auto"),
        ) from error
    _check(net.encoder, encoder, obs_size, picture)
    return encoder


def _check(name: str, encoder: Encoder, obs_size: int, picture: Picture | None) -> None:
    """Refuse a network that would fail late, or silently: wrong sizes, members that are mixed."""
    shapes = encoder.shapes()
    if not shapes or any(part.split(".")[0].isdigit() for part in shapes):
        raise _misbuilt(name, f"its parameters are called {', '.join(shapes) or 'nothing'}", "Numbers are names of the layers above it.")
    flat = [part for part, shape in shapes.items() if part.endswith("weight") and len(shape) < 2]
    if flat and not hasattr(encoder, "initialize"):
        raise _misbuilt(
            name, f"its parameter {flat[0]} is no matrix", "Nothing would say how it starts. Call it `scale`, or initialize it."
        )
    generator = torch.Generator().manual_seed(0)
    params = {part: torch.randn(2, *shape, generator=generator) for part, shape in shapes.items()}
    obs = torch.randn(2, 3, obs_size, generator=generator)
    if picture is not None:
        row = (picture.size + 4 * picture.vector,) if picture.vector else (picture.height, picture.width, picture.channels)
        obs = torch.randint(0, 2, (2, 3, *row), generator=generator, dtype=torch.uint8)
    with torch.no_grad():
        last = encoder.layers(params, obs)[-1]
        alone = encoder.layers({part: tensor[:1] for part, tensor in params.items()}, obs[:1])[-1]
    if tuple(last.shape) != (2, 3, encoder.out):
        raise _misbuilt(
            name,
            f"for 2 members and 3 rows it puts out {tuple(last.shape)}",
            f"Its `out` says (2, 3, {encoder.out}): the layers above would not fit.",
        )
    if not torch.allclose(last[:1], alone, rtol=1e-3, atol=1e-5, equal_nan=True):
        raise _misbuilt(
            name, "what it computes for a member depends on the others", "Seeds would learn from each other. Keep the first axis apart."
        )


def _misbuilt(name: str, what: str, effect: str) -> ConfigError:
    return ConfigError(f"the network {name!r} of another package cannot be used: {what}.\n  {effect}\n  See docs/extending.md")


def shapes(encoder: Encoder, trunk: str) -> dict[str, tuple[int, ...]]:
    """Names and shapes of its parameters where a trunk has it."""
    return {f"{trunk}.{name}": shape for name, shape in encoder.shapes().items()}


def layers(encoder: Encoder, params: Params, trunk: str, obs: Tensor) -> list[Tensor]:
    """Activations after each layer; the last one is what the layers above see, [M, B, out]."""
    return encoder.layers(_own(encoder, params, trunk), obs)


def features(encoder: Encoder, params: Params, trunk: str, obs: Tensor) -> Tensor:
    """What the layers above see of observations [M, B, ...]: [M, B, out]."""
    own = _own(encoder, params, trunk)
    found: Tensor = encoder.features(own, obs) if hasattr(encoder, "features") else encoder.layers(own, obs)[-1]
    return found


def _own(encoder: Encoder, params: Params, trunk: str) -> dict[str, Tensor]:
    return {name: params[f"{trunk}.{name}"] for name in encoder.shapes()}


def initialize(encoder: Encoder | None, trunk: str, generator: torch.Generator) -> dict[str, Tensor]:
    """The first weights that it wants for one member of its own."""
    if encoder is None or not hasattr(encoder, "initialize"):
        return {}
    return {f"{trunk}.{name}": weight for name, weight in encoder.initialize(generator).items()}
