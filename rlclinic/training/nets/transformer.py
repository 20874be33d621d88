"""A small causal transformer over steps of an episode: return to go, observation and action of each, in this order (arXiv:2106.01345).

Every step is three tokens. A token sees itself and what came before it, so the observation's token knows everything up to what was just
seen, and not what was done then: the action is predicted from it. Layers are normalized before they are applied; there is no dropout, so
that the same weights give the same numbers in training and in acting.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from rlclinic.config import NetConfig
from rlclinic.training.nets import layout
from rlclinic.training.nets.layout import Layout, Params
from rlclinic.training.nets.q_nets import HEAD, Net

TOKENS = 3
LONGEST_WAVE = 10_000.0
"""Steps after which the slowest of the waves that a step's number is told by comes round."""


class Windows(NamedTuple):
    """Stretches of K steps, [M, B, K, ...], the newest last; those that begin before their episode are filled up in front."""

    return_to_go: Tensor
    """[M, B, K]: what was still to be earned, in units of the data's scale."""
    obs: Tensor
    action: Tensor
    """[M, B, K, A]: vectors between -1 and 1, or one-hot choices."""
    step: Tensor
    """[M, B, K]: the number of the step in its episode."""
    there: Tensor
    """[M, B, K] bool: False where there was no such step."""
    chosen: Tensor
    """What to predict: choices [M, B, K], or the actions themselves."""

    def split(self, size: int) -> list["Windows"]:
        """All parts of so many stretches; no copy."""
        parts = zip(*(each.split(size, 1) for each in self), strict=True)
        return [Windows(*part) for part in parts if part[0].shape[1] == size]


def build(net: NetConfig, obs_size: int, action_size: int, outputs: int, width: int, layers: int) -> Net:
    """Names and shapes: what makes tokens, the layers, and the head."""
    shapes: dict[str, tuple[int, ...]] = {}

    def linear(name: str, n_in: int, n_out: int) -> None:
        shapes.update({f"{name}.weight": (n_in, n_out), f"{name}.bias": (1, n_out)})

    def norm(name: str) -> None:
        shapes.update({f"{name}.scale": (1, width), f"{name}.shift": (1, width)})

    linear("return", 1, width)
    linear("obs", obs_size, width)
    linear("action", action_size, width)
    for layer in range(layers):
        norm(f"layer{layer}.attend")
        linear(f"layer{layer}.query", width, 3 * width)
        linear(f"layer{layer}.mix", width, width)
        norm(f"layer{layer}.think")
        linear(f"layer{layer}.wide", width, 4 * width)
        linear(f"layer{layer}.narrow", 4 * width, width)
    norm("last")
    shapes |= {f"{HEAD}.weight": (outputs, width), f"{HEAD}.bias": (1, outputs)}
    return Net(Layout(shapes), net, obs_size, (), outputs, by_autograd=True)


def predict(net: Net, params: Params, windows: Windows, layers: int, heads: int) -> Tensor:
    """What to do at each step, [M, B, K, outputs]: by its return to go, its observation, and what lies before it."""
    members, rows, steps = windows.step.shape
    width = params["return.bias"].shape[-1]

    def each(name: str, x: Tensor) -> Tensor:
        """A linear layer on [M, B, T, n]."""
        return layout.linear(params, name, x.flatten(1, 2)).unflatten(1, x.shape[1:3])

    waves = tell_time(windows.step, width)
    parts = (each("return", windows.return_to_go.unsqueeze(-1)), each("obs", windows.obs), each("action", windows.action))
    x = torch.stack([part + waves for part in parts], 3).view(members, rows, TOKENS * steps, width)
    there = windows.there.repeat_interleave(TOKENS, 2)  # [M, B, T]
    before = torch.ones(TOKENS * steps, TOKENS * steps, dtype=torch.bool, device=x.device).tril()
    # What was filled up in front is seen by nobody but itself, which keeps its softmax from being empty.
    seen = before & there.unsqueeze(2) | torch.eye(TOKENS * steps, dtype=torch.bool, device=x.device)
    hidden_from = torch.zeros(seen.shape, device=x.device).masked_fill(~seen, float("-inf")).unsqueeze(2)  # [M, B, 1, T, T]
    for layer in range(layers):
        x = x + attend(params, f"layer{layer}", x, hidden_from, heads, each)
        wide = functional.gelu(each(f"layer{layer}.wide", normalize(params, f"layer{layer}.think", x)))
        x = x + each(f"layer{layer}.narrow", wide)
    of_obs = normalize(params, "last", x)[:, :, 1::TOKENS]
    return layout.narrow(params, HEAD, of_obs.flatten(1, 2)).unflatten(1, (rows, steps))


def attend(params: Params, name: str, x: Tensor, hidden_from: Tensor, heads: int, each) -> Tensor:  # type: ignore[no-untyped-def]
    """What tokens take over from those that they see, [M, B, T, W]."""
    width = x.shape[-1]
    parts = each(f"{name}.query", normalize(params, f"{name}.attend", x)).split(width, -1)
    query, key, value = (part.unflatten(-1, (heads, -1)).transpose(2, 3) for part in parts)  # [M, B, H, T, W / H]
    match = query @ key.transpose(-1, -2) / math.sqrt(width // heads) + hidden_from
    return each(f"{name}.mix", (match.softmax(-1) @ value).transpose(2, 3).flatten(-2))


def normalize(params: Params, name: str, x: Tensor) -> Tensor:
    """LayerNorm over the last axis."""
    scale, shift = params[f"{name}.scale"].unsqueeze(1), params[f"{name}.shift"].unsqueeze(1)
    return functional.layer_norm(x, x.shape[-1:]) * scale + shift


def tell_time(step: Tensor, width: int) -> Tensor:
    """The number of a step [...] as sines and cosines of it, [..., W]: episodes may be of any length (arXiv:1706.03762, 3.5)."""
    count = width // 2
    rate = LONGEST_WAVE ** (-torch.arange(count, device=step.device) / count)
    angle = step.unsqueeze(-1).float() * rate
    return torch.cat([angle.sin(), angle.cos()], -1)
