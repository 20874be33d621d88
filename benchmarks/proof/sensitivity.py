"""`sensitivity`: how often one of 24 values that do not matter is shown to, whether intervals hold together, and what seeds can show."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.proof import parallel, scenarios
from benchmarks.proof.scenarios import Draws
from benchmarks.proof.shares import describe_share
from rlclinic.treatment.sensitivity import effects

VALUES: Final = 24
CHUNK: Final = 250
HORIZON: Final = 3.0
Draw = Callable[[np.random.Generator, tuple[int, ...]], Draws]
"""Scores [studies, arms, seeds] of arms that are all equal; the first arm is the base."""


def _score(times: Draws, horizon: float = HORIZON) -> Draws:
    return np.log(np.where(np.isfinite(times), times, effects.MISSED * horizon))


def _censored(arriving: float) -> Draw:
    horizon = scenarios.find_horizon(arriving)
    return lambda rng, shape: _score(scenarios.censor(scenarios.draw_times(rng, shape), horizon), horizon)


def _lucky_seeds(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    luck = scenarios.USUAL_SPREAD * rng.standard_normal((shape[0], 1, shape[2]))
    return _score(scenarios.draw_times(rng, shape)) + luck


NULLS: Final[dict[str, Draw]] = {
    "log-normal": lambda rng, shape: _score(scenarios.draw_times(rng, shape)),
    "seeds that are lucky in every arm": _lucky_seeds,
    "a quarter of the runs never arrives": lambda rng, shape: _score(scenarios.draw_times(rng, shape, arriving=0.75)),
    "half of the runs censored": _censored(0.5),
    "nine of ten runs censored": _censored(0.1),
    "ties: evaluations at half of the median": lambda rng, shape: _score(scenarios.round_up(scenarios.draw_times(rng, shape), 0.5)),
    "returns, a fifth of the seeds collapses": lambda rng, shape: scenarios.draw_returns(rng, shape, collapsing=0.2, noise=5.0),
    "returns, heavy tails": lambda rng, shape: rng.standard_cauchy(shape),
}


def shown(scores: Draws) -> NDArray[np.bool_]:
    """Which values of each study are shown to differ from the base [studies, values]."""
    found = []
    for part in np.array_split(scores, max(1, len(scores) // CHUNK)):
        differences = part[:, 1:] - part[:, :1]
        found.append(np.abs(effects.statistics(differences)) > effects.critical_values(differences)[:, None] + 1e-9)
    return np.concatenate(found)


def covered(scores: Draws) -> NDArray[np.bool_]:
    """Whether all intervals of a study of equal values hold no effect."""
    found = []
    for study in scores:
        base, *arms = (dict(enumerate(row)) for row in study)
        intervals = effects.compare(base, arms)
        found.append(all(one is None or one.low is None or one.high is None or one.low <= 0 <= one.high for one in intervals))
    return np.array(found)


def count_shown(name: str, seeds: int, rng: np.random.Generator, studies: int) -> int:
    """Studies of equal values that show one to matter."""
    return int(shown(NULLS[name](rng, (studies, VALUES + 1, seeds))).any(axis=1).sum())


def count_seen(seeds: int, factor: float, rng: np.random.Generator, studies: int) -> int:
    """Studies of which one value takes so many times the steps, and is shown to."""
    scores = NULLS["log-normal"](rng, (studies, VALUES + 1, seeds))
    scores[:, 1] += math.log(factor)
    return int(shown(scores)[:, 0].sum())


def count_covered(name: str, rng: np.random.Generator, studies: int) -> int:
    """Studies of equal values whose intervals all hold."""
    return int(covered(NULLS[name](rng, (studies, VALUES + 1, 8))).sum())


def rows(simulations: int) -> Iterator[dict[str, Any]]:
    """False "shown to matter" by world and number of seeds, simultaneous coverage, and power by effect and seeds."""
    for seeds in (6, 8):
        for name in NULLS:
            wrong = int(parallel.add_up(partial(count_shown, name, seeds), simulations, seeds, 1_000))
            what = f"sensitivity: studies of {VALUES} equal values that show one to matter, {seeds} seeds, {name}"
            yield describe_share(what, wrong, simulations, 0.05)
    for name in ("log-normal", "half of the runs censored"):
        held = int(parallel.add_up(partial(count_covered, name), simulations, 20, 250))
        what = f"sensitivity: studies whose intervals all hold, 8 seeds, {name}"
        yield describe_share(what, held, simulations, 0.92, 0.94, better="higher")
    for seeds, factor in ((6, 4), (8, 4), (8, 2), (12, 4), (12, 2), (16, 2)):
        studies = simulations if seeds <= 8 else max(simulations // 10, 20)
        seen = int(parallel.add_up(partial(count_seen, seeds, factor), studies, 30 + seeds, 250))
        bar = 0.9 if (seeds, factor) == (8, 4) else 0.0
        yield describe_share(f"sensitivity: power at a factor of {factor} with {seeds} seeds", seen, studies, bar, better="higher")
