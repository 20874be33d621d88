"""Is a shaping term potential-based? Least squares for Phi in F = gamma Phi(s') - Phi(s), with Phi = 0 where episodes terminate.

If some Phi explains the term, no policy's rank changes (Ng, Harada & Russell 1999). If none does, it may. With a table of states the
answer is exact. With vectors Phi is sought among smooth functions, so that what they cannot follow (a kink, a jump) stays undecided.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

Answer = Literal["yes", "no", "undecided"]
EXACT: Final = 1e-6
"""The share of a term that rounding leaves unexplained in a table."""
SAFE: Final = 0.01
"""The largest unexplained share, on transitions that were not fitted, at which a term of vectors counts as potential-based."""
FAR: Final = 0.15
"""The share above which no smooth Phi is close."""
FEWEST: Final = 500
"""Transitions of vectors below which nothing is said."""
FEATURES: Final = 192
FEWEST_ENDS: Final = 20
"""Terminations below which a mistake at the end of episodes cannot be seen."""


@dataclass(frozen=True)
class Shaped:
    """Transitions and what a term paid in them: obs and next_obs [B, D] (or states [B]), paid [B], terminated [B]."""

    obs: np.ndarray
    next_obs: np.ndarray
    paid: np.ndarray
    terminated: np.ndarray


@dataclass(frozen=True)
class PotentialFit:
    """Whether a term is potential-based, and how sure that is."""

    answer: Answer
    residual: float
    """What no Phi explains, as a share of the term's size (root mean square)."""
    why: str
    ends: int
    """Terminations among the transitions: without them, a mistake at the end of episodes cannot be seen."""


_VARIANTS: Final = {
    "without gamma": "it pays Phi(s') - Phi(s): multiply Phi(s') by the learner's gamma",
    "kept at the end": "Phi is not 0 where episodes terminate",
}


def fit_table(steps: Shaped, gamma: float) -> PotentialFit:
    """The answer for states that are whole numbers: exact, given every transition that can happen."""
    states, index = np.unique(np.concatenate([steps.obs, steps.next_obs]).astype(np.int64), return_inverse=True)
    now, then = index[: len(steps.obs)], index[len(steps.obs) :]
    eye = np.eye(len(states))
    return _answer(steps, eye[now], eye[then], gamma, EXACT, EXACT, held_out=False)


def fit_potential(steps: Shaped, gamma: float, seed: int = 0) -> PotentialFit:
    """The answer for observations that are vectors: yes, no, or undecided."""
    ends = int(steps.terminated.sum())
    if len(steps.paid) < FEWEST:
        return PotentialFit("undecided", float("nan"), f"{len(steps.paid)} transitions: {FEWEST} are needed", ends)
    both = np.concatenate([steps.obs, steps.next_obs]).astype(np.float64)
    scale = both.std(0)
    both = (both - both.mean(0)) / np.where(scale > 1e-12, scale, 1.0)
    random = np.random.default_rng(seed)
    width = both.shape[1]
    # Cosines of random waves at three lengths, and the components with their squares: smooth functions of the observation.
    waves = np.concatenate([random.normal(size=(width, FEATURES // 3)) * share / np.sqrt(width) ** 0.5 for share in (0.3, 1.0, 2.0)], 1)
    shifts = random.uniform(0, 2 * np.pi, waves.shape[1])
    features = np.concatenate([np.ones((len(both), 1)), both, both**2, np.cos(both @ waves + shifts)], 1)
    return _answer(steps, features[: len(steps.obs)], features[len(steps.obs) :], gamma, SAFE, FAR, held_out=True)


def _answer(steps: Shaped, now: np.ndarray, then: np.ndarray, gamma: float, safe: float, far: float, *, held_out: bool) -> PotentialFit:
    ends = int(steps.terminated.sum())
    size = float(np.sqrt(np.mean(steps.paid**2)))
    if size == 0.0:
        return PotentialFit("yes", 0.0, "it never paid anything", ends)
    if ends and float(np.ptp(steps.paid)) <= EXACT * size:
        side = "every step costs the same: who ends early, by failing too, loses less"
        side = side if steps.paid[0] < 0 else "every step pays the same: who never ends earns more"
        return PotentialFit("no", 1.0, side, ends)
    alive = ~steps.terminated.astype(bool)[:, None]
    designs = {
        "": gamma * then * alive - now,
        "without gamma": then * alive - now,
        "kept at the end": gamma * then - now,
        "without gamma, kept": then - now,
    }
    residuals = {name: _unexplained(design, steps.paid, held_out) for name, design in designs.items()}
    found = residuals[""]
    least = min(residuals, key=lambda name: residuals[name])
    if found <= safe and (gamma == 1.0 or found <= 3 * residuals[least] or found <= safe / 10 or residuals[least] > safe / 3):
        if ends < FEWEST_ENDS and held_out:
            return PotentialFit(
                "undecided", found, f"a Phi explains it, but only {ends} terminations were seen: the end is not checked", ends
            )
        return PotentialFit("yes", found, "a Phi explains it: the best policy stays the best", ends)
    if residuals[least] <= max(safe, EXACT) and found > 3 * residuals[least]:
        fault = "without gamma" if least.startswith("without") else least
        return PotentialFit("no", found, _VARIANTS[fault], ends)
    if not held_out or found > far:
        return PotentialFit("no", found, f"no Phi explains {found:.0%} of it: it changes the objective", ends)
    return PotentialFit(
        "undecided", found, f"no smooth Phi explains {found:.1%} of it: give the potential itself to Rewards(potentials=…)", ends
    )


def _unexplained(design: np.ndarray, paid: np.ndarray, held_out: bool) -> float:
    """The share of the term that the best Phi leaves, on every third transition that it was not fitted to."""
    test = np.arange(len(paid)) % 3 == 2 if held_out else np.ones(len(paid), bool)
    train = ~test if held_out else test
    matrix = design[train]
    ridge = 1e-8 * len(matrix) if held_out else 0.0
    if ridge:
        weights = np.linalg.solve(matrix.T @ matrix + ridge * np.eye(matrix.shape[1]), matrix.T @ paid[train])
    else:
        weights = np.linalg.lstsq(matrix, paid[train], rcond=None)[0]
    left = paid[test] - design[test] @ weights
    return float(np.sqrt(np.mean(left**2)) / max(np.sqrt(np.mean(paid[test] ** 2)), 1e-300))
