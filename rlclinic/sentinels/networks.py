"""Sentinels that look at torch networks: how far weights moved, gradients by part, features. Nothing here draws a random number.

Everything works on plain modules and parameters, whatever framework made them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from rlclinic.sentinels.readings import Array, Readings

DORMANT: Final = 0.025
"""A unit is dormant when its mean activation is below this share of its layer's (Sokar et al. 2023, arXiv:2302.12902)."""
SATURATES: Final = {nn.Tanh: 0.97, nn.Sigmoid: 0.985}
"""Bounded activations, and where their slope has all but vanished."""
ACTIVATIONS: Final = (nn.Tanh, nn.Sigmoid, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Softplus, nn.ReLU6)
SAMPLED_STEPS: Final = 8
"""Gradient steps of an iteration whose norms are taken; the rest of a long iteration would say the same."""
Norms = dict[str, Array]


@contextmanager
def preserve_state(module: nn.Module | None = None) -> Iterator[None]:
    """Leave the random generators, the gradient mode and a module's buffers (batch statistics) as they were."""
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
    kept = {} if module is None else {name: buffer.clone() for name, buffer in module.named_buffers()}
    try:
        yield
    finally:
        torch.set_rng_state(torch_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        if module is not None:
            for name, buffer in module.named_buffers():
                buffer.copy_(kept[name])


class Weights:
    """A copy of a network's matrices, to tell how far an update moves them."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        everything = [parameter for parameter in parameters if parameter.requires_grad]
        # Biases start at zero, where a ratio means nothing: matrices only.
        self._live = [parameter for parameter in everything if parameter.dim() > 1]
        self._before = [parameter.detach().clone() for parameter in self._live]
        self._norm = torch.nn.utils.get_total_norm([parameter.detach() for parameter in everything]) if everything else torch.zeros(())

    def moved(self) -> Readings:
        """Ratios over layers of the change to the weights' norm, and the norm of all weights before it."""
        with torch.no_grad():
            pairs = [torch.stack([(now - before).norm(), before.norm()]) for now, before in zip(self._live, self._before, strict=True)]
            moved, size = torch.stack(pairs).double().cpu().numpy().T if pairs else (np.zeros(1), np.ones(1))
        ratio = moved / np.maximum(size, 1e-10)
        # The layer furthest from 1e-3 per update on a log scale, where healthy training usually is.
        worst = int(np.abs(np.log10(np.maximum(ratio, 1e-12)) + 3).argmax())
        return {
            "update_ratio_min": float(ratio.min()),
            "update_ratio_max": float(ratio.max()),
            "update_ratio_worst": float(worst),
            "weight_norm": float(self._norm),
        }


class GradientWatch:
    """Norms of every part's gradient before clipping, taken while backward() runs, for some of an iteration's gradient steps."""

    def __init__(self, parts: Mapping[str, Sequence[Tensor]]) -> None:
        self._parts = {name: [tensor for tensor in tensors if tensor.requires_grad] for name, tensors in parts.items()}
        self._parts = {name: tensors for name, tensors in self._parts.items() if tensors}
        self._handle: Any = None
        self._norms: list[Tensor] = []
        self._seen, self._stride = 0, 1

    def start(self, expected: int) -> None:
        """Begin to listen; about `expected` gradient steps will follow."""
        self.stop()
        self._norms, self._seen, self._stride = [], 0, max(1, -(-expected // SAMPLED_STEPS))
        every = [tensor for tensors in self._parts.values() for tensor in tensors]
        if every:
            self._handle = torch.autograd.graph.register_multi_grad_hook(every, self._take)

    def stop(self) -> Norms:
        """End listening; norms by part, [sampled gradient steps] each."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        if not self._norms:
            return {}
        table = torch.stack(self._norms).double().cpu().numpy()  # [steps, parts]
        return {name: table[:, place] for place, name in enumerate(self._parts)}

    def _take(self, grads: Sequence[Tensor | None]) -> None:
        self._seen += 1
        if (self._seen - 1) % self._stride:
            return
        rest = iter(grads)
        groups = [[grad.flatten() for _ in tensors if (grad := next(rest)) is not None] for tensors in self._parts.values()]
        nothing = next(grad for grad in grads if grad is not None).new_zeros(1)
        # Left on their device: reading a number there would make the device wait. One long vector is faster than many short ones.
        self._norms.append(torch.stack([torch.cat(group or [nothing]).norm() for group in groups]))


def measure_features(module: nn.Module, forward: Callable[[], Any]) -> Readings:
    """Are the hidden units of a module alive and different from each other? `forward` must pass some rows through it."""
    layers: list[tuple[nn.Module, Tensor]] = []
    hooks = [
        each.register_forward_hook(lambda made, _, output: layers.append((made, output.detach())))
        for each in module.modules()
        if isinstance(each, ACTIVATIONS)
    ]
    try:
        with torch.no_grad():
            forward()
    finally:
        for hook in hooks:
            hook.remove()
    flat = [(made, output.flatten(1) if output.dim() > 1 else output[:, None]) for made, output in layers]
    return _measure_layers(flat) if flat else {}


def _measure_layers(layers: Sequence[tuple[nn.Module, Tensor]]) -> Readings:
    last = layers[-1][1]
    scores = [layer.abs().mean(0) for _, layer in layers]
    idle = torch.cat([score <= DORMANT * score.mean() for score in scores])
    centred = last - last.mean(0)
    gram = centred.T @ centred if centred.shape[1] <= centred.shape[0] else centred @ centred.T
    # Participation ratio of the covariance spectrum, (sum l)^2 / sum l^2: between 1 and the width, without eigenvalues.
    rank = gram.diagonal().sum().square() / gram.square().sum().clamp(min=1e-30)
    found = {"dormant": float(idle.float().mean()), "rank": float(rank), "activation_norm": float(last.norm(dim=1).mean())}
    outer = [(layer.abs() > SATURATES[type(made)]).float().mean(0) for made, layer in layers if type(made) in SATURATES]
    if outer:
        found["saturated"] = float(torch.cat(outer).mean())
    return found


def measure_pulls(terms: Mapping[str, Tensor], trunk: Sequence[Tensor]) -> Readings:
    """Who pulls the hidden layers harder, and do policy and value pull the same way? Losses by "policy", "value" and "entropy"."""
    flat = {
        name: [torch.zeros_like(one) if grad is None else grad for one, grad in zip(trunk, grads, strict=True)]
        for name, term in terms.items()
        for grads in [torch.autograd.grad(term, trunk, retain_graph=True, allow_unused=True) if term.requires_grad else [None] * len(trunk)]
    }
    norms = {name: float(torch.nn.utils.get_total_norm(grads)) for name, grads in flat.items()}
    total = max(sum(norms.values()), 1e-20)
    found = {f"grad_{name}_share": norms[name] / total for name in ("value", "entropy") if name in norms}
    both = [bool(a.any()) and bool(b.any()) for a, b in zip(flat["policy"], flat["value"], strict=True)]
    if any(both):
        dot = sum(float((a * b).sum()) for a, b in zip(flat["policy"], flat["value"], strict=True))
        found["grad_cosine"] = dot / max(norms["policy"] * norms["value"], 1e-20)
    return found


def count_optimizer_steps(optimizer: torch.optim.Optimizer) -> float | None:
    """Steps that the optimizer itself has counted; None where it does not count."""
    counts = [float(state["step"]) for state in optimizer.state.values() if "step" in state]
    return max(counts) if counts else None
