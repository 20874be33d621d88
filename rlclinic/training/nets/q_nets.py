"""Networks of algorithms with a replay: Q-values of choices, critics of actions, actors.

A net is a trunk of fully connected layers (after an encoder: convolutions, for images) and one linear head. Twin critics are `copies`
of one net: they lie side by side in a member's row of weights, and all copies of all members are one batched product.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from rlclinic.config import Config, NetConfig
from rlclinic.training.envs.base import Picture
from rlclinic.training.fast import q_net_backward, wide
from rlclinic.training.fast.replay_passes import Rounds, Space
from rlclinic.training.fast.wide import WideRounds
from rlclinic.training.nets import encoders, layout, mlp
from rlclinic.training.nets.layout import Layout, Params

WRITTEN: Final = ("relu", "tanh")
"""Activations whose backward pass is written out (fast.q_net_backward)."""
TRUNK, HEAD = "trunk", "head"


@dataclass(frozen=True)
class Net:
    """The static half of a network: everything but the weights."""

    layout: Layout
    net: NetConfig
    n_in: int
    hidden: tuple[int, ...]
    outputs: int
    copies: int = 1
    encoder: encoders.Encoder | None = None
    beside: int = 0
    """How many numbers at the end of the inputs pass the encoder by: a critic's actions."""
    by_autograd: bool = False
    spaces: dict[tuple[int, ...], Space] = field(default_factory=dict, compare=False, repr=False)
    """Where passes on a CPU work, made when they are first needed."""
    workspaces: dict[tuple[int, int, bool], Rounds | WideRounds] = field(default_factory=dict, compare=False, repr=False)
    """The workspaces of a cycle's gradient steps, by rows, steps and whether weights come to rest."""

    @property
    def width(self) -> int:
        """Weights of all copies: a member's row."""
        return self.copies * self.layout.width

    @property
    def written_out(self) -> bool:
        """Whether fast.q_net_backward covers it; products of width 1 are for autograd (see layout.linear)."""
        plain = self.net.activation in WRITTEN and not self.net.layer_norm and self.encoder is None and not self.by_autograd
        return plain and bool(self.hidden) and min(self.n_in, *self.hidden) > 1

    def params(self, flat: Tensor) -> Params:
        """The named tensors [M * copies, ...] in weights [M, copies * P]."""
        return self.layout.views(flat.reshape(-1, self.layout.width))

    def space(self, flat: Tensor, x: Tensor) -> Space:
        """Where a pass through weights [M, copies * P] at inputs [M, B, n_in] works; what the last one left there is gone."""
        key = (self.copies, *x.shape[:2])
        if key not in self.spaces:
            with torch.inference_mode(False):  # others may write there too
                self.spaces[key] = Space(self, *x.shape[:2])
        self.spaces[key].load(flat)
        return self.spaces[key]

    def rounds(self, rows: int, count: int, *, rests: bool) -> Rounds | WideRounds:
        """Where `count` gradient steps of one member on `rows` rows each work; what the last ones left there is gone.

        rests: weights whose gradients and first moments are 0 stand still, as with Adam without weight decay.
        """
        key = (rows, count, rests)
        if key not in self.workspaces:
            with torch.inference_mode(False):
                self.workspaces[key] = (WideRounds if rests and wide.pays(self, rows, count) else Rounds)(self, rows, count)
        return self.workspaces[key]

    def shown(self, x: Tensor) -> Tensor:
        """Inputs [M, B, ...], once for each copy."""
        return x if self.copies == 1 else x.repeat_interleave(self.copies, 0)


def build(
    net: NetConfig,
    n_in: int,
    hidden: tuple[int, ...],
    outputs: int,
    *,
    copies: int = 1,
    picture: Picture | None = None,
    beside: int = 0,
) -> Net:
    """Names and shapes; matrices are [n_in, n_out], the head's [n_out, n_in], biases [1, n_out]."""
    shapes: dict[str, tuple[int, ...]] = {}
    encoder = encoders.choose(net, n_in - beside, picture)
    width = n_in
    if encoder is not None:
        shapes |= encoders.shapes(encoder, TRUNK)
        width = encoder.out + beside
    for index, size in enumerate(hidden):
        shapes |= {f"{TRUNK}.{index}.weight": (width, size), f"{TRUNK}.{index}.bias": (1, size)}
        if net.layer_norm:
            shapes |= {f"{TRUNK}.{index}.scale": (1, size), f"{TRUNK}.{index}.shift": (1, size)}
        width = size
    shapes |= {f"{HEAD}.weight": (outputs, width), f"{HEAD}.bias": (1, outputs)}
    return Net(Layout(shapes), net, n_in, hidden, outputs, copies, encoder, beside)


def build_actor(config: Config, obs_size: int, outputs: int) -> Net:
    """Observations in, `outputs` numbers out."""
    return build(config.net, obs_size, config.net.hidden, outputs)


def build_critics(config: Config, obs_size: int, action_size: int) -> Net:
    """Observation and action in, one value out; n_critics copies (2 where the settings have no such number)."""
    hidden = config.net.hidden if config.net.critic_hidden is None else config.net.critic_hidden
    return build(config.net, obs_size + action_size, hidden, 1, copies=getattr(config.algo, "n_critics", 2), beside=action_size)


def initialize(net: Net, seed: int, stream: int) -> Tensor:
    """One member's first weights, [1, copies * P]: uniform within 1 / sqrt(n_in) of 0, as torch.nn.Linear draws them."""
    generator = torch.Generator().manual_seed((seed * 31 + stream) % (1 << 63))
    parts = []
    for _ in range(net.copies):
        bound, own = 1.0, encoders.initialize(net.encoder, TRUNK, generator)
        for name, shape in net.layout.shapes.items():
            kind = name.rpartition(".")[2]
            if name in own:
                parts.append(own[name].flatten())
                continue
            if kind in ("scale", "shift"):
                parts.append(torch.full((math.prod(shape),), float(kind == "scale")))
                continue
            if kind == "weight":
                # The head lies as [n_out, n_in], filters as [n_out, n_in, kernel, kernel].
                fan_in = math.prod(shape[1:]) if name.startswith(HEAD) or len(shape) > 2 else shape[0]
                bound = 1.0 / math.sqrt(fan_in)
            parts.append((torch.rand(math.prod(shape), generator=generator) * 2 - 1) * bound)
    return torch.cat(parts).unsqueeze(0)


def layers(net: Net, params: Mapping[str, Tensor], x: Tensor) -> list[Tensor]:
    """Activations after every hidden layer, [M * copies, B, width] each; just [x] where there is none."""
    activation, found = mlp.ACTIVATIONS[net.net.activation], []
    if net.encoder is not None:
        found = encoders.layers(net.encoder, params, TRUNK, x[..., : net.n_in - net.beside] if net.beside else x)
        x = torch.cat([found[-1], x[..., net.n_in - net.beside :]], -1) if net.beside else found[-1]
    for index in range(len(net.hidden)):
        x = layout.linear(params, f"{TRUNK}.{index}", x)
        if net.net.layer_norm:
            x = functional.layer_norm(x, x.shape[-1:]) * params[f"{TRUNK}.{index}.scale"] + params[f"{TRUNK}.{index}.shift"]
        x = activation(x)
        found.append(x)
    return found or [x]


def outputs(net: Net, params: Params, x: Tensor) -> Tensor:
    """[M * copies, B, outputs] at inputs [M, B, ...]: no way back, unless autograd keeps one."""
    if net.written_out and not torch.is_grad_enabled():
        if x.is_cuda or x.shape[1] < q_net_backward.FEW_ROWS:
            return q_net_backward.forward(net, params, x).out
        return net.space(params.flat, x).forward(x)
    return layout.narrow(params, HEAD, layers(net, params, net.shown(x))[-1])


class Networks(Mapping[str, Tensor]):
    """Weights [M, P] by name together with the networks that they belong to: what losses are functions of.

    `params(name, x)` are a network's outputs, `params[name]` its weights as they lie in memory, or a learned number [M, 1].
    """

    def __init__(self, nets: Mapping[str, Net], weights: Mapping[str, Tensor]) -> None:
        self.nets, self._weights = nets, weights
        self._params: dict[tuple[str, bool], Params] = {}

    def __getitem__(self, name: str) -> Tensor:
        return self._weights[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def of(self, name: str) -> Params:
        """A network's named tensors."""
        key = (name, torch.is_grad_enabled())  # views made without a graph would stay without one
        if key not in self._params:
            self._params[key] = self.nets[name].params(self._weights[name])
        return self._params[key]

    def __call__(self, name: str, x: Tensor) -> Tensor:
        """Outputs [M * copies, B, outputs] at inputs [M, B, ...]."""
        return outputs(self.nets[name], self.of(name), x)


def critics(params: Networks, obs: Tensor, action: Tensor) -> Tensor:
    """Q_i(s, a) of all critics, [M, copies, B]."""
    return params("critic", torch.cat([obs, action], -1)).view(-1, params.nets["critic"].copies, obs.shape[1])


def dueling(out: Tensor) -> Tensor:
    """Q-values [..., A] from a state's value and A advantages [..., 1 + A], whose mean is taken out (arXiv:1511.06581, eq. 9)."""
    value, advantage = out[..., :1], out[..., 1:]
    return value + advantage - advantage.mean(-1, keepdim=True)
