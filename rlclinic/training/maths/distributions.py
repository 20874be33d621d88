"""Action distributions as pure functions of one parameter tensor `dist` [..., K].

Each kind offers the same verbs: sample, mode, log_prob, entropy, kl. Noise comes from outside (see rng), so that
sampling is deterministic given its counters. Actions are *raw*: a box action is stored as it was drawn, with its own
log-probability; the environment clips what it executes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from rlclinic.training import rng
from rlclinic.training.envs.base import ActionSpec

FORBIDDEN: Final = -1e8
"""The logit of a masked action: its probability underflows to zero, its gradient too, and nothing becomes NaN."""
LOG_2PI: Final = math.log(2 * math.pi)


Back = Callable[[Tensor, Tensor | None], Tensor]
"""From d loss / d log_prob [..., rows] and d loss / d entropy ([M, 1] or None) to d loss / d dist."""


class Distribution(Protocol):
    """What a kind of action space must offer. dist is [..., K]; log_prob, entropy and kl reduce the last axis."""

    @property
    def size(self) -> int: ...
    @property
    def learns_std(self) -> bool: ...
    @property
    def max_entropy(self) -> float | None: ...
    def outputs(self, state_dependent_std: bool) -> int: ...
    def noise(self, seed: Tensor, *index: Tensor | int) -> Tensor: ...
    def sample(self, dist: Tensor, noise: Tensor) -> Tensor: ...
    def mode(self, dist: Tensor) -> Tensor: ...
    def log_prob(self, dist: Tensor, action: Tensor) -> Tensor: ...
    def entropy(self, dist: Tensor) -> Tensor: ...
    def log_prob_entropy(self, dist: Tensor, action: Tensor) -> tuple[Tensor, Tensor]: ...
    def kl(self, old: Tensor, new: Tensor) -> Tensor: ...
    def with_slope(self, dist: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Back]: ...


@dataclass(frozen=True)
class Categorical:
    """One choice of n: dist holds n logits, an action is an integer."""

    size: int
    learns_std = False

    @property
    def max_entropy(self) -> float | None:
        return math.log(self.size)

    def outputs(self, state_dependent_std: bool) -> int:
        return self.size

    def noise(self, seed: Tensor, *index: Tensor | int) -> Tensor:
        component = rng.counting(self.size, seed.device)
        return rng.gumbel(seed.unsqueeze(-1), rng.ACTION, *(_expand(i) for i in index), component)

    def sample(self, dist: Tensor, noise: Tensor) -> Tensor:
        return (dist + noise).argmax(-1)

    def mode(self, dist: Tensor) -> Tensor:
        return dist.argmax(-1)

    def log_prob(self, dist: Tensor, action: Tensor) -> Tensor:
        return functional.log_softmax(dist, -1).gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self, dist: Tensor) -> Tensor:
        log_p = functional.log_softmax(dist, -1)
        return -(log_p.exp() * log_p).sum(-1)

    def log_prob_entropy(self, dist: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        log_p = functional.log_softmax(dist, -1)  # once for both: it is the largest part of either
        return log_p.gather(-1, action.unsqueeze(-1)).squeeze(-1), -(log_p.exp() * log_p).sum(-1)

    def with_slope(self, dist: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Back]:
        """log_prob, entropy, and how to go back: d log p(a) / d logit = [a] - p, d H / d logit = -p (log p + H)."""
        log_p = functional.log_softmax(dist, -1)
        p, chosen = log_p.exp(), action.unsqueeze(-1)
        entropy = -(p * log_p).sum(-1)

        def back(by_log_prob: Tensor, by_entropy: Tensor | None) -> Tensor:
            column = by_log_prob.unsqueeze(-1)
            grad = (p * -column).scatter_add_(-1, chosen, column)
            if by_entropy is not None:
                grad -= by_entropy.unsqueeze(-1) * p * (log_p + entropy.unsqueeze(-1))
            return grad

        return log_p.gather(-1, chosen).squeeze(-1), entropy, back

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        log_old, log_new = functional.log_softmax(old, -1), functional.log_softmax(new, -1)
        return (log_old.exp() * (log_old - log_new)).sum(-1)


@dataclass(frozen=True)
class MultiCategorical:
    """Several independent choices: dist holds the logits of all, an action is a vector of integers."""

    sizes: tuple[int, ...]
    learns_std = False

    @property
    def size(self) -> int:
        return sum(self.sizes)

    @property
    def parts(self) -> list[Categorical]:
        return [Categorical(size) for size in self.sizes]

    @property
    def max_entropy(self) -> float | None:
        return sum(math.log(size) for size in self.sizes)

    def outputs(self, state_dependent_std: bool) -> int:
        return self.size

    def noise(self, seed: Tensor, *index: Tensor | int) -> Tensor:
        return Categorical(self.size).noise(seed, *index)

    def sample(self, dist: Tensor, noise: Tensor) -> Tensor:
        pairs = zip(dist.split(self.sizes, -1), noise.split(self.sizes, -1), strict=True)
        return torch.stack([(logits + gumbel).argmax(-1) for logits, gumbel in pairs], -1)

    def mode(self, dist: Tensor) -> Tensor:
        return torch.stack([logits.argmax(-1) for logits in dist.split(self.sizes, -1)], -1)

    def log_prob(self, dist: Tensor, action: Tensor) -> Tensor:
        rows = zip(self.parts, dist.split(self.sizes, -1), action.unbind(-1), strict=True)
        return torch.stack([part.log_prob(logits, choice) for part, logits, choice in rows], -1).sum(-1)

    def entropy(self, dist: Tensor) -> Tensor:
        rows = zip(self.parts, dist.split(self.sizes, -1), strict=True)
        return torch.stack([part.entropy(logits) for part, logits in rows], -1).sum(-1)

    def log_prob_entropy(self, dist: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        return self.log_prob(dist, action), self.entropy(dist)

    def with_slope(self, dist: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Back]:
        """The choices are independent, so each goes back by itself."""
        rows = zip(self.parts, dist.split(self.sizes, -1), action.unbind(-1), strict=True)
        log_probs, entropies, backs = zip(*(part.with_slope(logits, choice) for part, logits, choice in rows), strict=True)

        def back(by_log_prob: Tensor, by_entropy: Tensor | None) -> Tensor:
            return torch.cat([back(by_log_prob, by_entropy) for back in backs], -1)

        return torch.stack(log_probs, -1).sum(-1), torch.stack(entropies, -1).sum(-1), back

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        rows = zip(self.parts, old.split(self.sizes, -1), new.split(self.sizes, -1), strict=True)
        return torch.stack([part.kl(before, after) for part, before, after in rows], -1).sum(-1)


@dataclass(frozen=True)
class Bernoulli:
    """Independent yes/no choices: dist holds one logit each, an action is a vector of zeros and ones."""

    size: int
    learns_std = False

    @property
    def max_entropy(self) -> float | None:
        return self.size * math.log(2)

    def outputs(self, state_dependent_std: bool) -> int:
        return self.size

    def noise(self, seed: Tensor, *index: Tensor | int) -> Tensor:
        component = rng.counting(self.size, seed.device)
        u = rng.uniform(seed.unsqueeze(-1), rng.ACTION, *(_expand(i) for i in index), component)
        return torch.log(u) - torch.log1p(-u)  # logistic: logit + noise > 0 has probability sigmoid(logit)

    def sample(self, dist: Tensor, noise: Tensor) -> Tensor:
        return (dist + noise > 0).long()

    def mode(self, dist: Tensor) -> Tensor:
        return (dist > 0).long()

    # In log-sigmoids: their last bits, other than those of PyTorch's sigmoid and softplus, do not depend on the neighbours.

    def log_prob(self, dist: Tensor, action: Tensor) -> Tensor:
        return functional.logsigmoid(torch.where(action > 0, dist, -dist)).sum(-1)

    def entropy(self, dist: Tensor) -> Tensor:
        yes, no = functional.logsigmoid(dist), functional.logsigmoid(-dist)
        return -(yes.exp() * yes + no.exp() * no).sum(-1)

    def log_prob_entropy(self, dist: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        return self.log_prob(dist, action), self.entropy(dist)

    def with_slope(self, dist: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Back]:
        """log_prob, entropy, and how to go back: with p = P(yes), a - p for the log-probability and -x p (1 - p) for the entropy."""
        yes, no = functional.logsigmoid(dist), functional.logsigmoid(-dist)
        p, q = yes.exp(), no.exp()

        def back(by_log_prob: Tensor, by_entropy: Tensor | None) -> Tensor:
            grad = by_log_prob.unsqueeze(-1) * (action - p)
            if by_entropy is not None:
                grad -= by_entropy.unsqueeze(-1) * dist * p * q
            return grad

        return torch.where(action > 0, yes, no).sum(-1), -(p * yes + q * no).sum(-1), back

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        yes, no = functional.logsigmoid(old), functional.logsigmoid(-old)
        return (yes.exp() * (yes - functional.logsigmoid(new)) + no.exp() * (no - functional.logsigmoid(-new))).sum(-1)


@dataclass(frozen=True)
class Gaussian:
    """A diagonal normal: dist holds the means, then the log standard deviations; an action is a raw vector."""

    size: int
    max_entropy: float | None = None
    """The highest useful entropy: that of the uniform distribution over the action box, where it is bounded and leaves a choice."""
    learns_std = True

    def outputs(self, state_dependent_std: bool) -> int:
        return self.size * (2 if state_dependent_std else 1)

    def noise(self, seed: Tensor, *index: Tensor | int) -> Tensor:
        component = rng.counting(self.size, seed.device)
        return rng.normal(seed.unsqueeze(-1), rng.ACTION, *(_expand(i) for i in index), component)

    def sample(self, dist: Tensor, noise: Tensor) -> Tensor:
        mean, log_std = dist.chunk(2, -1)
        return mean + log_std.exp() * noise

    def mode(self, dist: Tensor) -> Tensor:
        return dist.chunk(2, -1)[0]

    def log_prob(self, dist: Tensor, action: Tensor) -> Tensor:
        mean, log_std = dist.chunk(2, -1)
        scaled = (action - mean) * torch.exp(-log_std)
        return (-0.5 * scaled.square() - log_std - 0.5 * LOG_2PI).sum(-1)

    def entropy(self, dist: Tensor) -> Tensor:
        return (dist.chunk(2, -1)[1] + 0.5 * (1.0 + LOG_2PI)).sum(-1)

    def log_prob_entropy(self, dist: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        return self.log_prob(dist, action), self.entropy(dist)

    def with_slope(self, dist: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Back]:
        """log_prob, entropy, and how to go back: with z = (a - mean) / std, z / std for the mean and z^2 - 1 for log_std."""
        mean, log_std = dist.chunk(2, -1)
        inverse = torch.exp(-log_std)
        scaled = (action - mean) * inverse
        squared = scaled.square()
        log_prob = (-0.5 * squared - log_std - 0.5 * LOG_2PI).sum(-1)

        def back(by_log_prob: Tensor, by_entropy: Tensor | None) -> Tensor:
            column = by_log_prob.unsqueeze(-1)
            spread = column * (squared - 1.0)
            if by_entropy is not None:
                spread += by_entropy.unsqueeze(-1)
            return torch.cat([column * scaled * inverse, spread], -1)

        return log_prob, (log_std + 0.5 * (1.0 + LOG_2PI)).sum(-1), back

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        (mean0, log_std0), (mean1, log_std1) = old.chunk(2, -1), new.chunk(2, -1)
        spread = (2 * (log_std0 - log_std1)).exp() + ((mean0 - mean1) * torch.exp(-log_std1)).square()
        return (log_std1 - log_std0 + 0.5 * (spread - 1.0)).sum(-1)


def forbid(distribution: Distribution, dist: Tensor, action_mask: Tensor) -> Tensor:
    """Parameters under which what action_mask [..., choices] does not allow has a vanishing probability."""
    if isinstance(distribution, Bernoulli):
        # Two choices to one logit: (no, yes) of each component.
        no, yes = action_mask.unflatten(-1, (distribution.size, 2)).unbind(-1)
        return dist.masked_fill(~yes, FORBIDDEN).masked_fill(~no, -FORBIDDEN)
    return dist.masked_fill(~action_mask, FORBIDDEN)


def of(action: ActionSpec) -> Distribution:
    """The distribution that fits an action space."""
    if action.kind == "discrete":
        return Categorical(action.sizes[0])
    if action.kind == "multi_discrete":
        return MultiCategorical(action.sizes)
    if action.kind == "multi_binary":
        return Bernoulli(len(action.sizes))
    highest = None
    if action.low is not None and action.high is not None:
        width = [float(high) - float(low) for low, high in zip(action.low.ravel(), action.high.ravel(), strict=True)]
        if all(0 < w < math.inf for w in width):
            # A box of hundreds of components may have a volume that is no number.
            volume = math.prod(width)
            highest = math.log(volume) if 0 < volume < math.inf else sum(map(math.log, width))
    return Gaussian(action.sizes[0], highest)


def _expand(index: Tensor | int) -> Tensor | int:
    """Room for the component axis behind a tensor index."""
    return index.unsqueeze(-1) if isinstance(index, Tensor) else index
