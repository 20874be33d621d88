"""A choice among all tasks at once: all alike, those that succeed sometimes, those whose values are wrong, those where success changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from rlclinic.curriculum.episodes import Ended, Floats, State, Tally

if TYPE_CHECKING:
    from rlclinic.config import CurriculumConfig

MEMORY: Final = 30.0
"""Episodes of a task after which what was known of it has faded to a third."""
RANK_POWER: Final = 10.0
"""PLR: chances fall with the rank of the score to this power (the paper's temperature of 0.1)."""
STALE: Final = 0.1
"""PLR: share of the chances that goes by how long a task was not played."""
RECENT, REMEMBERED, FIT_EVERY = 250, 500, 50
"""ALP-GMM: episodes that progress is fitted to, episodes that progress is measured against, and how often it is fitted."""
GAUSSIANS: Final = (2, 3, 4)
LEAST_DEVIATION: Final = 0.03


class Uniform:
    """Every task as often as the others. The base of the kinds below, which mix it with a choice of their own."""

    def __init__(self, config: CurriculumConfig) -> None:
        self._count = len(config.tasks)
        self._share = config.uniform_share
        self._names, self._levels = config.evaluates_tasks, config.levels is not None
        self._tally = Tally(self._count, MEMORY)

    @property
    def chances(self) -> Floats:
        alike = np.full(self._count, 1.0 / self._count)
        own = self._prefer()
        chances: Floats = alike if own is None else self._share * alike + (1.0 - self._share) * own
        return chances

    def _prefer(self) -> Floats | None:
        """Chances by the kind's own measure; None as long as nothing is known."""
        return None

    def add(self, ended: Ended, env_steps: int) -> list[str]:
        """Count what has ended. Nothing of it is worth a line in the log."""
        self._tally.add(ended)
        return []

    def score(self, task: NDArray[np.int64], value: Floats) -> None:
        """Only PLR wants to know."""

    def cells(self) -> dict[str, float]:
        """How concentrated the choice is, and where it lies."""
        chances = self.chances
        known = chances[chances > 0]
        whole = max(int(self._tally.episodes.sum()), 1)
        cells = {
            "stage": float((chances * np.arange(1, self._count + 1)).sum()),
            "spread": float(-(known * np.log(known)).sum() / np.log(self._count)),
        }
        if not self._levels:  # of which none is the task itself: that is all of them, and more
            cells["target_share"] = float(self._tally.episodes[-1] / whole)
        by_task = self._tally.cells() if self._names else {}
        return {f"train/curriculum/{name}": value for name, value in cells.items()} | by_task

    def state(self) -> State:
        """What is counted."""
        return self._tally.state()

    def load(self, state: State) -> None:
        """Go on from `state`."""
        self._tally.load(state)


class Learnability(Uniform):
    """Tasks by p(1 - p), what a success or a failure would teach: 0 where all or none succeed (arXiv:2408.15099)."""

    def _prefer(self) -> Floats:
        # The mean of p(1 - p) under a Beta posterior: a task that was never played counts as one that may be learned.
        successes, count = self._tally.successes, self._tally.weight
        worth = (successes + 1) * (count - successes + 1) / ((count + 2) * (count + 3))
        return worth / worth.sum()


class Replayed(Uniform):
    """Prioritized level replay (arXiv:2010.03934): by rank of the mean size of advantages, some by staleness, unseen tasks first."""

    def __init__(self, config: CurriculumConfig) -> None:
        super().__init__(config)
        self._scores, self._scored_at = np.full(self._count, np.nan), np.zeros(self._count)
        self._clock = 0

    def score(self, task: NDArray[np.int64], value: Floats) -> None:
        """The mean size of the advantages of a rollout, by task; replaces what was known."""
        self._clock += 1
        sums = np.bincount(task, weights=value, minlength=self._count)
        steps = np.bincount(task, minlength=self._count)
        seen = steps > 0
        self._scores[seen] = sums[seen] / steps[seen]
        self._scored_at[seen] = self._clock

    def _prefer(self) -> Floats | None:
        seen = ~np.isnan(self._scores)
        if not seen.any():
            return None
        order = np.argsort(-np.where(seen, self._scores, -np.inf), kind="stable")
        ranks = np.empty(self._count)
        ranks[order] = np.arange(1, self._count + 1)
        by_score = np.where(seen, ranks**-RANK_POWER, 0.0)
        age = np.where(seen, self._clock - self._scored_at, 0.0)
        by_age = age if age.any() else seen.astype(float)
        known = (1 - STALE) * by_score / by_score.sum() + STALE * by_age / by_age.sum()
        share = seen.mean()
        return share * known + (1 - share) * (~seen / max(int((~seen).sum()), 1))

    def state(self) -> State:
        """Scores, and when they were made."""
        return super().state() | {"scores": self._scores.copy(), "scored_at": self._scored_at.copy(), "clock": np.array([self._clock])}

    def load(self, state: State) -> None:
        """Go on from `state`."""
        super().load(state)
        self._scores, self._scored_at, self._clock = state["scores"].copy(), state["scored_at"].copy(), int(state["clock"][0])


class AlpGmm(Uniform):
    """Where success changes most, up or down (arXiv:1910.07224): Gaussians over the tasks' order and their absolute learning progress."""

    def __init__(self, config: CurriculumConfig) -> None:
        super().__init__(config)
        self._places = np.linspace(0.0, 1.0, self._count)
        self._past = np.zeros((REMEMBERED, 2))
        self._progress = np.zeros((RECENT, 2))
        self._seen = 0
        self._own = np.zeros(self._count)

    def add(self, ended: Ended, env_steps: int) -> list[str]:
        """Measure the progress of each episode against the one before that was nearest to it."""
        for task, success in zip(ended.task, ended.success, strict=True):
            place = self._places[task]
            past = self._past[: min(self._seen, REMEMBERED)]
            moved = 0.0  # the first episode of all has nothing to differ from
            if len(past):
                apart = np.abs(past[:, 0] - place)
                age = (self._seen - 1 - np.arange(len(past))) % REMEMBERED
                moved = abs(float(success) - past[np.lexsort((age, apart))[0], 1])  # of those equally near, the newest
            self._progress[self._seen % RECENT] = place, moved
            self._past[self._seen % REMEMBERED] = place, float(success)
            self._seen += 1
            if self._seen % FIT_EVERY == 0:
                self._own = choose_by_progress(self._progress[: min(self._seen, RECENT)], self._places)
        return super().add(ended, env_steps)

    def _prefer(self) -> Floats | None:
        return self._own if self._own.any() else None

    def state(self) -> State:
        """Episodes in memory, and the chances of the last fit."""
        rings = {"past": self._past.copy(), "progress": self._progress.copy(), "seen": np.array([self._seen]), "own": self._own.copy()}
        return super().state() | rings

    def load(self, state: State) -> None:
        """Go on from `state`."""
        super().load(state)
        self._past, self._progress, self._own = (state[name].copy() for name in ("past", "progress", "own"))
        self._seen = int(state["seen"][0])


def choose_by_progress(points: Floats, places: Floats) -> Floats:
    """Chances of tasks at `places` [K] from points [n, (place, progress)]: each Gaussian by its mean progress. Zeros without progress."""
    fits = [_fit(points, count) for count in GAUSSIANS]
    means, deviations, weights, _ = min(fits, key=lambda fit: fit[3])
    worth = means[:, 1].clip(0.0) * (weights > 1e-3)
    if not worth.any():
        return np.zeros(len(places))
    density = np.exp(-0.5 * ((places[:, None] - means[:, 0]) / deviations[:, 0]) ** 2)  # [K, G]
    chances: Floats = (density / density.sum(0).clip(1e-12)) @ (worth / worth.sum())
    return chances / chances.sum()


def _fit(points: Floats, count: int) -> tuple[Floats, Floats, Floats, float]:
    """Means [G, 2], deviations [G, 2], weights [G] and Akaike's criterion of that many Gaussians without covariance, by EM."""
    # From the same beginning every time: spread over the places. Random starts would have to be remembered.
    means = np.stack([np.quantile(points[:, 0], (np.arange(count) + 0.5) / count), np.full(count, points[:, 1].mean())], 1)
    deviations = np.full((count, 2), max(1.0 / count, LEAST_DEVIATION))
    weights = np.full(count, 1.0 / count)
    total = -np.inf
    for _ in range(30):
        gaps = (points[:, None] - means) / deviations
        logs = np.log(weights.clip(1e-12)) - 0.5 * (gaps**2).sum(-1) - np.log(deviations).sum(-1) - np.log(2 * np.pi)
        top = logs.max(1, keepdims=True)
        whole = top + np.log(np.exp(logs - top).sum(1, keepdims=True))
        share = np.exp(logs - whole)  # [n, G]
        mass = share.sum(0)
        weights = mass / len(points)
        safe = mass.clip(1e-9)[:, None]
        means = share.T @ points / safe
        spread = np.stack([(share * (points[:, None, axis] - means[:, axis]) ** 2).sum(0) for axis in range(2)], 1) / safe
        deviations = np.sqrt(spread).clip(LEAST_DEVIATION)
        before, total = total, float(whole.sum())
        if total - before < 1e-6 * abs(total):
            break
    return means, deviations, weights, 2 * (5 * count - 1) - 2 * total
