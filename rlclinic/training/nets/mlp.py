"""Actor and critic as multilayer perceptrons: what the layers are called, how they start, how they compute."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from rlclinic.config import NetConfig
from rlclinic.training.envs.base import Picture
from rlclinic.training.fast import actor_critic_backward
from rlclinic.training.maths import distributions
from rlclinic.training.nets import encoders, layout
from rlclinic.training.nets.layout import Layout

LANES: Final = 32
"""How many elements PyTorch's vector kernels take at a time on a CPU. What is left over at a tensor's end goes through a scalar
formula with other last bits, and whose elements lie there depends on how many members there are."""


def in_lanes(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """An elementwise function of x [M, ...] that gives a member the same bits in any cohort: its block is filled up to whole lanes."""
    size = x.numel() // x.shape[0]
    short = 0 if x.is_cuda else -size % LANES
    if not short:
        return function(x)
    return function(functional.pad(x.flatten(1), (0, short)))[:, :size].view_as(x)


def tanh(x: Tensor) -> Tensor:
    """2 sigmoid(2x) - 1: on a CPU PyTorch's sigmoid takes a sixth of its tanh's time, and tanh is a quarter of an update."""
    return torch.tanh(x) if x.is_cuda else torch.rsub(in_lanes(torch.sigmoid, x + x), -1.0, alpha=-2.0)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": tanh,
    "relu": torch.relu,
    "elu": partial(in_lanes, functional.elu),
    "gelu": partial(in_lanes, functional.gelu),
    "silu": partial(in_lanes, functional.silu),
    "leaky_relu": functional.leaky_relu,
    "sigmoid": partial(in_lanes, torch.sigmoid),
}


@dataclass(frozen=True)
class ActorCritic:
    """The static half of a policy: everything but the weights."""

    layout: Layout
    distribution: distributions.Distribution
    net: NetConfig
    obs_size: int
    encoder: encoders.Encoder | None = None
    """What observations go through first; None: straight into the layers."""
    picture: Picture | None = None
    """The image in the observations; None where they are vectors."""

    @property
    def actor_trunk(self) -> str:
        return "trunk" if self.net.shared else "actor"

    @property
    def critic_trunk(self) -> str:
        return "trunk" if self.net.shared else "critic"

    def widths(self, trunk: str) -> tuple[int, ...]:
        """Sizes of a trunk's hidden layers."""
        own = self.net.critic_hidden if trunk == "critic" else None
        return tuple(self.net.hidden if own is None else own)

    @property
    def has_log_std(self) -> bool:
        """Whether the standard deviation is a parameter of its own rather than an output."""
        return "log_std" in self.layout.shapes

    def written_out(self, obs: Tensor) -> bool:
        """Plain tanh or relu layers on a CPU, of sizes whose bits do not depend on the cohort (see `LANES` and `layout.linear`)."""
        if not actor_critic_backward.covers(self) or obs.is_cuda or self.obs_size == 1:
            return False
        sizes = [width for trunk in self.trunks.values() for width in self.widths(trunk) or (1,)]
        lanes = 1 if self.net.activation == "relu" else LANES  # a maximum has no formula that could differ
        return all(width > 1 and obs.shape[1] * width % lanes == 0 for width in sizes)

    @property
    def trunks(self) -> dict[str, str]:
        """Whose hidden layers lie where; both in one place if they are shared."""
        return {"actor": self.actor_trunk, "critic": self.critic_trunk}

    @cached_property
    def parts(self) -> list[int]:
        """Widths of trunk, actor head and critic head: the layout keeps them side by side, so norms are slices."""
        widths = [0, 0, 0]
        for name, size in zip(self.layout.shapes, self.layout.sizes, strict=True):
            widths[2 if name.startswith("value.") else 1 if name.startswith(("policy.", "log_std")) else 0] += size
        return widths

    @cached_property
    def trunk_widths(self) -> list[int]:
        """Parameters of the actor's and of the critic's own trunk."""
        named = list(zip(self.layout.shapes, self.layout.sizes, strict=True))
        return [sum(size for name, size in named if name.startswith(trunk + ".")) for trunk in ("actor", "critic")]

    def critic_names(self) -> list[str]:
        """The parameters that `value_lr` governs: the value head, and its own trunk if it has one."""
        prefixes = ("value.",) if self.net.shared else ("value.", "critic.")
        return [name for name in self.layout.shapes if name.startswith(prefixes)]


def build(net: NetConfig, obs_size: int, distribution: distributions.Distribution, picture: Picture | None = None) -> ActorCritic:
    """Names and shapes of an actor-critic network; matrices are [n_in, n_out], those of the heads [n_out, n_in], biases [1, n_out].

    picture: the image in the observations; policy and value then share one trunk, as most of the work is in its convolutions.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    encoder = encoders.choose(net, obs_size, picture)
    if picture is not None:
        net = net.model_copy(update={"shared": True})
    critic_hidden = net.hidden if net.critic_hidden is None else net.critic_hidden
    trunks = {"trunk": net.hidden} if net.shared else {"actor": net.hidden, "critic": critic_hidden}
    ends = {}
    for trunk, sizes in trunks.items():
        width = obs_size
        if encoder is not None:
            shapes |= encoders.shapes(encoder, trunk)
            width = encoder.out
        for index, size in enumerate(sizes):
            shapes |= {f"{trunk}.{index}.weight": (width, size), f"{trunk}.{index}.bias": (1, size)}
            if net.layer_norm:
                shapes |= {f"{trunk}.{index}.scale": (1, size), f"{trunk}.{index}.shift": (1, size)}
            width = size
        ends[trunk] = width
    outputs = distribution.outputs(net.state_dependent_std)
    actor_end, critic_end = ends.get("trunk", ends.get("actor", 0)), ends.get("trunk", ends.get("critic", 0))
    shapes |= {"policy.weight": (outputs, actor_end), "policy.bias": (1, outputs)}
    if distribution.learns_std and not net.state_dependent_std:
        shapes["log_std"] = (1, distribution.size)
    shapes |= {"value.weight": (1, critic_end), "value.bias": (1,)}
    return ActorCritic(Layout(shapes), distribution, net, obs_size, encoder, picture)


def initialize(policy: ActorCritic, seed: int) -> Tensor:
    """One member's first weights, [1, P]: a function of its seed alone."""
    net, generator = policy.net, torch.Generator().manual_seed(seed)
    params: dict[str, Tensor] = {}
    for trunk in dict.fromkeys(policy.trunks.values()):
        params |= encoders.initialize(policy.encoder, trunk, generator)
    for name, shape in policy.layout.shapes.items():
        part = name.rpartition(".")[2]
        if name in params:
            continue
        if name == "log_std":
            params[name] = torch.full(shape, net.log_std_init)
        elif part == "weight":
            gain = {"policy": net.policy_gain, "value": net.value_gain}.get(name.split(".")[0], net.hidden_gain)
            # Heads lie as [n_out, n_in], filters as [n_out, n_in, kernel, kernel].
            turned = name in ("policy.weight", "value.weight") or len(shape) > 2
            matrix = layout.orthogonal((math.prod(shape[1:]), shape[0]) if turned else shape, gain, generator)
            params[name] = (matrix if matrix.shape == shape else matrix.T).reshape(shape)
        else:
            params[name] = torch.ones(shape) if part == "scale" else torch.zeros(shape)
    if policy.distribution.learns_std and net.state_dependent_std:
        # The second half of the head is the log standard deviation: its bias is where it starts.
        params["policy.bias"][..., policy.distribution.size :] = net.log_std_init
    return torch.cat([params[name].reshape(1, -1) for name in policy.layout.shapes], dim=1)


def hidden(policy: ActorCritic, params: Mapping[str, Tensor], trunk: str, obs: Tensor) -> list[Tensor]:
    """Activations after every hidden layer of a trunk, [M, B, width] each; just [obs] where it has none.

    First those of the encoder, where it has one.
    """
    below = [] if policy.encoder is None else encoders.layers(policy.encoder, params, trunk, obs)
    return below + dense(policy, params, trunk, below[-1] if below else obs) or [obs]


def dense(policy: ActorCritic, params: Mapping[str, Tensor], trunk: str, obs: Tensor) -> list[Tensor]:
    """Activations after every fully connected layer of a trunk, [M, B, width] each."""
    activation, x, layers = ACTIVATIONS[policy.net.activation], obs, []
    for index in range(len(policy.widths(trunk))):
        x = layout.linear(params, f"{trunk}.{index}", x)
        if policy.net.layer_norm:
            # Per row over the layer's units (arXiv:1607.06450); scale and shift are per member.
            x = functional.layer_norm(x, x.shape[-1:]) * params[f"{trunk}.{index}.scale"] + params[f"{trunk}.{index}.shift"]
        x = activation(x)
        layers.append(x)
    return layers


def features(policy: ActorCritic, params: Mapping[str, Tensor], trunk: str, obs: Tensor) -> Tensor:
    """The last hidden layer of a trunk, [M, B, width]: all that a head needs."""
    if not torch.is_grad_enabled() and policy.net.activation == "tanh" and policy.written_out(obs):
        return actor_critic_backward.tanh_layers(params, trunk, len(policy.widths(trunk)), obs)[-1]
    if policy.encoder is not None:
        obs = encoders.features(policy.encoder, params, trunk, obs)
    return (dense(policy, params, trunk, obs) or [obs])[-1]


def finish(policy: ActorCritic, head: Tensor, log_std: Tensor | None, action_mask: Tensor | None) -> Tensor:
    """Distribution parameters [M, B, K] from the policy head's output; forbidden actions get a vanishing probability."""
    if policy.distribution.learns_std:
        mean, spread = (head, log_std.expand_as(head)) if log_std is not None else head.chunk(2, dim=-1)
        head = torch.cat([mean, spread.clamp(policy.net.log_std_min, policy.net.log_std_max)], dim=-1)
    return head if action_mask is None else distributions.forbid(policy.distribution, head, action_mask)


def actor(policy: ActorCritic, params: Mapping[str, Tensor], obs: Tensor, action_mask: Tensor | None = None) -> Tensor:
    """Distribution parameters [M, B, K] of the actions at obs [M, B, D]."""
    head = layout.narrow(params, "policy", features(policy, params, policy.actor_trunk, obs))
    return finish(policy, head, params["log_std"] if policy.has_log_std else None, action_mask)


def critic(policy: ActorCritic, params: Mapping[str, Tensor], obs: Tensor) -> Tensor:
    """State values [M, B] at obs [M, B, D]."""
    return layout.scalar(params, "value", features(policy, params, policy.critic_trunk, obs))


def actor_critic(
    policy: ActorCritic, params: Mapping[str, Tensor], obs: Tensor, action_mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Both at once; a shared trunk is computed once."""
    if not policy.net.shared:
        return actor(policy, params, obs, action_mask), critic(policy, params, obs)
    last = features(policy, params, "trunk", obs)
    head = layout.narrow(params, "policy", last)
    return finish(policy, head, params["log_std"] if policy.has_log_std else None, action_mask), layout.scalar(params, "value", last)
