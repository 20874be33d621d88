"""Distribution functions that tests need (numpy only): the normal distribution and Student's t."""

import math
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

_TERMS: Final = 500
_SMALLEST: Final = 1e-300
_ERFC = np.frompyfunc(math.erfc, 1, 1)


def normal_cdf(values: Numbers) -> Numbers:
    """P(Z <= value), accurate in both tails."""
    found: Numbers = 0.5 * np.asarray(_ERFC(-np.asarray(values, dtype=np.float64) / math.sqrt(2.0)), dtype=np.float64)
    return found


def normal_tails(values: Numbers) -> Numbers:
    """P(Z > value) of each, accurate in both tails."""
    return normal_cdf(-np.asarray(values, dtype=np.float64))


def normal_tail(value: float) -> float:
    """P(Z > value)."""
    return 0.5 * math.erfc(value / math.sqrt(2.0))


def normal_quantile(probability: float) -> float:
    """The value that Z stays below with this probability, strictly between 0 and 1."""
    return NormalDist().inv_cdf(probability)


def student_tail(t: float, freedom: float) -> float:
    """P(|T| > |t|) of Student's t: the two-sided p-value."""
    if math.isinf(t):
        return 0.0
    if t * t < freedom:
        # Of a small t, what is left of 1 is known to more digits than what is taken off.
        return 1 - incomplete_beta(0.5, freedom / 2, t * t / (freedom + t * t))
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def student_quantile(probability: float, freedom: float) -> float:
    """The value that Student's t stays below with this probability, 0.5 or more and below 1; by bisection."""
    low, high = 0.0, 1.0
    while student_tail(high, freedom) > 2 * (1 - probability):
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom) > 2 * (1 - probability) else (low, middle)
    return high


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b), by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        # The fraction converges fast only below the mean; the other half follows by symmetry.
        return 1 - incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    return front / _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    value, c, d = 1.0, 1.0, 0.0
    for term in range(1, _TERMS):
        half = term // 2
        if term % 2 == 0:
            numerator = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        else:
            numerator = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        d = 1 + numerator * d
        d = 1 / (d if abs(d) > _SMALLEST else _SMALLEST)
        c = 1 + numerator / c
        c = c if abs(c) > _SMALLEST else _SMALLEST
        value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value
