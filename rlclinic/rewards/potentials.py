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
HOPELESS: Final = 0.6
"""The share above which no search among more functions is begun."""
WIDEST: Final = 12
"""Components of an observation up to which their pairs are looked at."""
WIDEST_SEARCHED: Final = 32
"""Components up to which waves are sought for a term: each step of the search solves for all of theirs, which takes their cube."""
WAVES: Final = 6
CANDIDATES: Final = 400
CANDIDATE_ROWS: Final = 700
MOVES: Final = 12
FEWEST_VALUES: Final = 8
"""Values up to which a component of an observation is a kind of thing (a room, a flag) instead of a size."""
MOST_KINDS: Final = 16
"""Combinations of kinds of things up to which each has a Phi of its own."""
WAVES_OF_A_KIND: Final = 96
TELESCOPES: Final = 0.25
"""What discounted sums to the end deviate from what observations say of them, as a share of what independent steps would sum to, up to
which a term is paid back."""
FEWEST_ENDS: Final = 20
"""Terminations below which a mistake at the end of episodes cannot be seen."""


@dataclass(frozen=True)
class Shaped:
    """Transitions and what a term paid in them: obs and next_obs [B, D] (or states [B]), paid [B], terminated [B]."""

    obs: np.ndarray
    next_obs: np.ndarray
    paid: np.ndarray
    terminated: np.ndarray
    episode: np.ndarray | None = None
    """[B], the number of the episode that each step belongs to, in order; None: nobody knows."""


NEVER_PAID: Final = "it never paid anything: what it would pay for was not met"
FEWEST_PAID: Final = 15
"""Steps that pay anything below which a third of them, to judge a fit by, may be none."""


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
    often = int(np.count_nonzero(steps.paid))
    if often < FEWEST_PAID:
        why = f"it paid in {often} steps alone: {FEWEST_PAID} are needed" if often else NEVER_PAID
        return PotentialFit("undecided", float("nan"), why, ends)
    raw = np.concatenate([steps.obs, steps.next_obs]).astype(np.float64)
    scale = raw.std(0)
    both = (raw - raw.mean(0)) / np.where(scale > 1e-12, scale, 1.0)
    random = np.random.default_rng(seed)
    width = both.shape[1]
    # Cosines of random waves at three lengths, and the components with their squares: smooth functions of the observation.
    waves = np.concatenate([random.normal(size=(width, FEATURES // 3)) * share / np.sqrt(width) ** 0.5 for share in (0.3, 1.0, 2.0)], 1)
    shifts = random.uniform(0, 2 * np.pi, waves.shape[1])
    plain = np.concatenate([np.ones((len(both), 1)), both, both**2], 1)
    split = len(steps.obs)

    def answer(features: np.ndarray, search: bool) -> PotentialFit:
        searched = (both[:split], both[split:], seed) if search else None
        return _answer(steps, features[:split], features[split:], gamma, SAFE, FAR, held_out=True, searched=searched)

    quick = answer(np.concatenate([plain, np.cos(both @ waves + shifts)], 1), search=False)
    kinds = None if quick.answer == "yes" else _tell_kinds(raw)
    if kinds is not None:
        quick = min(quick, answer(_features_by_kind(both, kinds, random), search=False), key=lambda fit: fit.residual)
    if quick.answer == "yes" or quick.residual > HOPELESS or (quick.answer == "no" and quick.residual < FAR):
        return quick
    if width > WIDEST_SEARCHED:
        if quick.answer == "undecided":
            return quick
        why = f"{width} numbers are too many to search for a Phi: give the potential itself to Rewards(potentials=…)"
        return PotentialFit("undecided", quick.residual, why, ends)
    # Something smooth remains that these waves do not follow, or a kink: what distances are made of, and waves sought for this very term.
    searched = answer(np.concatenate([plain, _measure_shapes(raw, scale, both)], 1), search=True)
    return searched if kinds is None else min(quick, searched, key=lambda fit: fit.residual)


def _tell_kinds(raw: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Which kinds of things each observation [B, D] shows, as a number [B], and which components are sizes [D]; None if it is all one."""
    few = np.array([len(np.unique(column)) <= FEWEST_VALUES for column in raw.T])
    if not few.any() or few.all():
        return None
    combinations, kind = np.unique(raw[:, few], axis=0, return_inverse=True)
    return (kind.reshape(-1), ~few) if 2 <= len(combinations) <= MOST_KINDS else None


def _features_by_kind(both: np.ndarray, kinds: tuple[np.ndarray, np.ndarray], random: np.random.Generator) -> np.ndarray:
    """Smooth functions of the sizes, for each kind its own: a door is elsewhere in another room."""
    kind, sizes = kinds
    inside = both[:, sizes]
    width = inside.shape[1]
    waves = np.concatenate([random.normal(size=(width, WAVES_OF_A_KIND // 4)) * share for share in (0.3, 1.0, 2.0, 4.0)], 1)
    smooth = np.cos(inside @ waves + random.uniform(0, 2 * np.pi, waves.shape[1]))
    one = np.concatenate([np.ones((len(both), 1)), inside, inside**2, smooth], 1)
    return np.concatenate([one * (kind == number)[:, None] for number in range(int(kind.max()) + 1)], 1)


def _telescopes(steps: Shaped, now: np.ndarray, gamma: float) -> bool:
    """Whether what a term pays from a step on is paid back by the end of episodes that terminate, but for what features [B, F] say.

    So it is with every potential, also with one of things that observations do not tell: the action before, the time, what noise hides.
    From a step on, the discounted sum is -Phi, and no larger for more steps. What steps pay independently of each other adds up.
    """
    if steps.episode is None:
        return False
    starts = np.flatnonzero(np.diff(steps.episode, prepend=steps.episode[0] - 1))
    ends = np.append(starts[1:], len(steps.paid))
    over = [(start, end) for start, end in zip(starts, ends, strict=True) if steps.terminated[end - 1]]
    if len(over) < FEWEST_ENDS:
        return False
    to_come = np.array(steps.paid, dtype=np.float64)
    for start, end in over:
        for place in range(end - 2, start - 1, -1):
            to_come[place] += gamma * to_come[place + 1]
    rows = np.concatenate([np.arange(start, end) for start, end in over])
    left = _unexplained(now[rows], to_come[rows], True) * np.sqrt(np.mean(to_come[rows] ** 2))
    still = np.concatenate([np.arange(end - start, 0, -1) for start, end in over])
    return bool(left <= TELESCOPES * np.sqrt(np.mean(steps.paid**2) * still.mean()))


def _measure_shapes(raw: np.ndarray, scale: np.ndarray, both: np.ndarray) -> np.ndarray:
    """Products, sizes, and distances between parts of an observation: what potentials are usually made of, [B, F]."""
    width = raw.shape[1]
    if width > WIDEST:
        return np.abs(both[:, :WIDEST])
    pairs = [(i, j) for i in range(width) for j in range(i)]
    columns = [both[:, i] * both[:, j] for i, j in pairs]
    columns += [np.abs(raw[:, i]) / max(scale[i], 1e-12) for i in range(width)]
    for size in (2, 3):
        parts = [raw[:, start : start + size] for start in range(width - size + 1)]
        columns += [np.linalg.norm(part, axis=1) for part in parts]
        columns += [np.linalg.norm(parts[i] - parts[j], axis=1) for i in range(len(parts)) for j in range(i - size + 1)]
    columns += [np.abs(raw[:, i] - raw[:, j]) for i, j in pairs]
    shapes = np.stack(columns, 1)
    spread = shapes.std(0)
    return shapes[:, spread > 1e-9] / spread[spread > 1e-9]


def _answer(
    steps: Shaped,
    now: np.ndarray,
    then: np.ndarray,
    gamma: float,
    safe: float,
    far: float,
    *,
    held_out: bool,
    searched: tuple[np.ndarray, np.ndarray, int] | None = None,
) -> PotentialFit:
    ends = int(steps.terminated.sum())
    size = float(np.sqrt(np.mean(steps.paid**2)))
    if size == 0.0:
        return PotentialFit("undecided", float("nan"), NEVER_PAID, ends)
    if ends and float(np.ptp(steps.paid)) <= EXACT * size:
        side = "every step costs the same: who ends early, by failing too, loses less"
        side = side if steps.paid[0] < 0 else "every step pays the same: who never ends earns more"
        return PotentialFit("no", 1.0, side, ends)
    alive = ~steps.terminated.astype(bool)[:, None]
    factors = {
        "": gamma * alive,
        "without gamma": 1.0 * alive,
        "kept at the end": np.full_like(alive, gamma, dtype=float),
        "without gamma, kept": np.ones_like(alive, dtype=float),
    }
    residuals = {}
    for name, factor in factors.items():
        design = factor * then - now
        if searched is not None:
            design = np.concatenate([design, _search_waves(design, steps.paid, factor, *searched)], 1)
        residuals[name] = _unexplained(design, steps.paid, held_out)
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
    if held_out and found > far and _telescopes(steps, now, gamma):
        why = "it is paid back by the end of episodes, as a potential of what observations do not tell is"
        return PotentialFit("undecided", found, f"{why}: give that potential itself to Rewards(potentials=…)", ends)
    if not held_out or found > far:
        return PotentialFit("no", found, f"no Phi explains {min(found, 1.0):.0%} of it: it changes the objective", ends)
    return PotentialFit(
        "undecided", found, f"no smooth Phi explains {found:.1%} of it: give the potential itself to Rewards(potentials=…)", ends
    )


def check_known(steps: Shaped, before: np.ndarray, after: np.ndarray, gamma: float) -> PotentialFit | None:
    """The same where Phi itself is known, before and after each step (0 after one that terminates): exact. None if it explains nothing."""
    ends = int(steps.terminated.sum())
    size = max(float(np.sqrt(np.mean(steps.paid**2))), 1e-300)

    def leaves(discount: float) -> float:
        return float(np.sqrt(np.mean((steps.paid - discount * after + before) ** 2))) / size

    if leaves(gamma) <= EXACT:
        return PotentialFit("yes", leaves(gamma), "it is the potential that Rewards was given: the best policy stays the best", ends)
    own = float((steps.paid + before) @ after) / max(float(after @ after), 1e-300)
    if leaves(own) > EXACT:
        return None  # something else is in it: a weight that changes, a second term of the same name
    why = f"a potential discounted by {own:.4g}, where the learner discounts by {gamma:.4g}: give Rewards the learner's gamma"
    return PotentialFit("no", leaves(gamma), why, ends)


def _search_waves(design: np.ndarray, paid: np.ndarray, factor: np.ndarray, now: np.ndarray, then: np.ndarray, seed: int) -> np.ndarray:
    """Columns [B, 2 WAVES] of waves cos(w x) and sin(w x) whose directions w are fitted to what a design leaves unexplained.

    One after the other the best of many random directions is taken, and all are then moved together: a separable least-squares problem,
    in which the weights are solved for exactly at each step (Golub & Pereyra 1973). Only transitions that are fitted to are looked at.
    """
    random = np.random.default_rng(seed)
    train = np.arange(len(paid)) % 3 != 2
    now_, then_, factor_, fixed, wanted = now[train], then[train], factor[train], design[train], paid[train]

    def waves(directions: np.ndarray, at: np.ndarray, after: np.ndarray, share: np.ndarray) -> np.ndarray:
        inner, outer = at @ directions, after @ directions
        return np.concatenate([share * np.cos(outer) - np.cos(inner), share * np.sin(outer) - np.sin(inner)], 1)

    def solve(directions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        matrix = np.concatenate([fixed, waves(directions, now_, then_, factor_)], 1)
        weights = np.linalg.solve(matrix.T @ matrix + 1e-8 * len(matrix) * np.eye(matrix.shape[1]), matrix.T @ wanted)
        left = wanted - matrix @ weights
        return matrix, weights, left, float(left @ left)

    few = random.permutation(len(wanted))[:CANDIDATE_ROWS]
    directions = np.zeros((now.shape[1], 0))
    *_, left, error = solve(directions)
    enough = (SAFE / 10) ** 2 * float(wanted @ wanted)
    for _ in range(WAVES):
        if error <= enough:
            break
        # A direction of few components is as likely as one of all: potentials often look at a part of the observation.
        tried = random.normal(size=(now.shape[1], CANDIDATES)) * random.choice([0.3, 0.7, 1.5], CANDIDATES)
        tried *= random.random(tried.shape) < random.choice([0.3, 1.0], CANDIDATES)
        columns = waves(tried, now_[few], then_[few], factor_[few])
        both = np.stack([columns[:, :CANDIDATES], columns[:, CANDIDATES:]], 2)  # [B, C, 2]
        inside = np.einsum("bck,b->ck", both, left[few])
        gram = np.einsum("bck,bcl->ckl", both, both) + 1e-9 * np.eye(2)
        gains = np.einsum("ck,ck->c", inside, np.linalg.solve(gram, inside[..., None])[..., 0])
        directions = np.concatenate([directions, tried[:, [int(np.argmax(gains))]]], 1)
        matrix, weights, left, error = solve(directions)
        damping = 1e-3
        for _ in range(MOVES):
            count = directions.shape[1]
            across, along = weights[-2 * count : -count], weights[-count:]
            inner, outer = now_ @ directions, then_ @ directions
            slope = factor_ * (along * np.cos(outer) - across * np.sin(outer)), along * np.cos(inner) - across * np.sin(inner)
            # d/dw of a wave is its slope times the observation: [B, D, K]
            jacobian = (then_[:, :, None] * slope[0][:, None] - now_[:, :, None] * slope[1][:, None]).reshape(len(wanted), -1)
            basis = np.linalg.qr(matrix)[0]
            jacobian -= basis @ (basis.T @ jacobian)
            normal = jacobian.T @ jacobian
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-12), jacobian.T @ left)
            moved = directions + step.reshape(directions.shape)
            trial = solve(moved)
            if trial[3] < error:
                better = 1 - trial[3] / error
                directions, (matrix, weights, left, error), damping = moved, trial, damping / 5
                if better < 1e-3:
                    break
            else:
                damping *= 8
                if damping > 1e3:
                    break
    return waves(directions, now, then, factor)


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
