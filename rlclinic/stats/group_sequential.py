"""Bounds for looking at growing data several times without more false alarms than were promised.

With K looks, the statistics Z_1 ... Z_K of a test behave like one Brownian motion seen at the information fractions
t_1 < ... < t_K = 1: S_k = Z_k sqrt(t_k), with independent increments of variance t_k - t_(k-1). The chance that |Z_k| crosses
its bound at any look is then a chain of one-dimensional integrals (Armitage, McPherson and Rowe 1969), computed here by
Gauss-Legendre quadrature; the bounds are those whose chance is alpha (Pocock 1977; O'Brien and Fleming 1979).
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

import numpy as np

from rlclinic.errors import UsageError
from rlclinic.stats.distributions import Numbers, normal_cdf, normal_quantile

MAX_LOOKS: Final = 50
_BISECTIONS: Final = 60


def pocock_bound(looks: int, alpha: float) -> float:
    """The same bound for |Z| at every one of `looks` equally spaced looks; a false alarm in `alpha` of all cases, two-sided."""
    return _find_constant(_equal_looks(looks), _check(looks, alpha), _flat_bounds)


def obrien_fleming_bounds(looks: int, alpha: float, information: Sequence[float] | None = None) -> list[float]:
    """Bounds for |Z| at each look, high at first and near the one of a single test at the end; two-sided `alpha` in all.

    `information`: how much is known at each look, in any unit, rising (seeds; for a fixed control of n and m_k candidates,
    1 / (1/n + 1/m_k)). None: equally spaced looks.
    """
    _check(looks, alpha)
    fractions = _equal_looks(looks) if information is None else _fractions(looks, information)
    constant = _find_constant(fractions, alpha, _falling_bounds)
    return [constant / math.sqrt(fraction) for fraction in fractions]


def wang_tsiatis_bounds(looks: int, alpha: float, shape: float = 0.25) -> list[float]:
    """Bounds for |Z| at equally spaced looks, between Pocock's (shape 0.5) and O'Brien and Fleming's (shape 0); two-sided `alpha` in all.

    In the middle a trial keeps nearly all of the power of a single look at its end, and still often stops early (Wang and Tsiatis 1987).
    """
    _check(looks, alpha)
    fractions = _equal_looks(looks)
    low, high = normal_quantile(1 - alpha / 2), 2.0 * normal_quantile(1 - alpha / (2 * looks))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        edges = [middle * fraction**shape for fraction in fractions]
        low, high = (middle, high) if _compute_crossing(edges, fractions, 0.0) > alpha else (low, middle)
    return [high * fraction ** (shape - 0.5) for fraction in fractions]


def crossing_probability(bounds: Sequence[float], information: Sequence[float] | None = None, drift: float = 0.0) -> float:
    """Chance that |Z_k| exceeds bounds[k] at any look, where Z at the last look has mean `drift` (0: nothing to find)."""
    fractions = _equal_looks(len(bounds)) if information is None else _fractions(len(bounds), information)
    return _compute_crossing([bound * math.sqrt(fraction) for bound, fraction in zip(bounds, fractions, strict=True)], fractions, drift)


def _check(looks: int, alpha: float) -> float:
    if not 1 <= looks <= MAX_LOOKS or not 0 < alpha < 1:
        raise UsageError(f"bounds for {looks} looks at alpha {alpha}: 1 to {MAX_LOOKS} looks, and an alpha between 0 and 1")
    return alpha


def _equal_looks(looks: int) -> tuple[float, ...]:
    return tuple((look + 1) / looks for look in range(looks))


def _fractions(looks: int, information: Sequence[float]) -> tuple[float, ...]:
    known = [float(each) for each in information]
    if len(known) != looks or known[0] <= 0 or any(after <= before for before, after in pairwise(known)):
        raise UsageError(f"information {known} for {looks} looks: one number above 0 for each look, rising")
    return tuple(each / known[-1] for each in known)


def _flat_bounds(constant: float, fraction: float) -> float:
    """Pocock's bound on S: a constant on Z."""
    return constant * math.sqrt(fraction)


def _falling_bounds(constant: float, fraction: float) -> float:
    """O'Brien and Fleming's bound on S: the same at every look, so that early Z must be large."""
    return constant


@cache
def _find_constant(fractions: tuple[float, ...], alpha: float, bound: Callable[[float, float], float]) -> float:
    """The constant whose bounds are crossed with probability alpha, by bisection."""
    single = normal_quantile(1 - alpha / 2)
    # One look cannot need more than several do, and K looks need at most what K separate tests would.
    low, high = single, normal_quantile(1 - alpha / (2 * len(fractions))) + 1e-9
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _compute_crossing([bound(middle, fraction) for fraction in fractions], fractions, 0.0) > alpha:
            low = middle
        else:
            high = middle
    return high


def _compute_crossing(edges: Sequence[float], fractions: Sequence[float], drift: float) -> float:
    """P(|S_k| > edges[k] for some k), S a Brownian motion with drift per unit of information."""
    nodes, weights = np.zeros(1), np.ones(1)
    crossed, before = 0.0, 0.0
    for edge, fraction in zip(edges, fractions, strict=True):
        scale = math.sqrt(fraction - before)
        shift = drift * (fraction - before)
        centre = nodes + shift
        crossed += float(weights @ (normal_cdf((centre - edge) / scale) + normal_cdf((-edge - centre) / scale)))
        # The density of paths that are still inside, at the next look's nodes; narrow steps need closer nodes.
        count = 24 + math.ceil(12 * edge / scale)
        points, widths = _legendre_nodes(min(count, 400))
        inside = edge * points
        density = np.exp(-0.5 * ((inside[:, None] - centre) / scale) ** 2) @ weights / (scale * math.sqrt(2 * math.pi))
        nodes, weights, before = inside, density * widths * edge, fraction
    return crossed


@cache
def _legendre_nodes(count: int) -> tuple[Numbers, Numbers]:
    points, weights = np.polynomial.legendre.leggauss(count)
    return points, weights
