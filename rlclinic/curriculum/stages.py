"""Stages one after the other: promotion, demotion, rehearsal, and an escape from a stage that is not mastered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from rlclinic.curriculum import promotion
from rlclinic.curriculum.episodes import Ended, Floats, State, Tally

if TYPE_CHECKING:
    from rlclinic.config import CurriculumConfig

WAITING: Final = 64
"""Episodes of one environment that wait for the others'."""
LOOKS_PER_WINDOW: Final = 4


class Staircase:
    """One run's way through the stages.

    Success in the present stage is counted in rounds: the r-th episodes of all environments together, once the last of them has ended. In
    the order of their ends, a stage would begin with its short episodes, and where success ends an episode those are the successes: an
    agent that succeeds in 60 % would look like one that always does.
    """

    def __init__(self, config: CurriculumConfig, n_envs: int, max_env_steps: int) -> None:
        self._stages = config.stages
        self._window, self._error = config.window, 1.0 - config.confidence
        self._rehearsal, self._demote_below = config.rehearsal, config.demote_below
        after = 1.0 / len(self._stages) if config.escape_after is None else config.escape_after
        self._escape_after = after * max_env_steps if after <= 1 else after
        count = len(self._stages)
        self._tally = Tally(count, config.window)
        self.stage, self._entered = 0, 0
        self._waiting = np.zeros((n_envs, WAITING), np.int8)
        self._queued = np.zeros(n_envs, np.int64)
        self._outcomes = np.zeros(promotion.LONGEST * config.window, np.int8)
        """Of the present stage, in rounds; the n-th lies at n modulo the length."""
        self._counted, self._looked_at = 0, 0
        self._recalled = np.zeros((count, config.window), np.int8)
        """Of stages that were mastered and are rehearsed, the same way."""
        self._rehearsed, self._checked_at = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._looks, self._checks = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._mastered = np.zeros(count, np.bool_)
        self._promotions, self._demotions, self._escapes = 0, 0, 0
        self._at_promotion = 0.0

    @property
    def chances(self) -> Floats:
        chances = np.zeros(len(self._stages))
        if self.stage:
            chances[: self.stage] = self._rehearsal / self.stage
        chances[self.stage] = 1.0 - chances[: self.stage].sum()
        return chances

    def add(self, ended: Ended, env_steps: int) -> list[str]:
        """Count what has ended; go to another stage where that is certain, or after too long."""
        self._tally.add(ended)
        said: list[str] = []
        for env, task, success in zip(ended.env.tolist(), ended.task.tolist(), ended.success.tolist(), strict=True):
            if task == self.stage:
                said += self._count(env, success, env_steps)
            elif self._mastered[task]:
                said += self._recall(task, success, env_steps)
        if self.stage < len(self._stages) - 1 and env_steps - self._entered >= self._escape_after:
            self._escapes += 1
            said.append(f"{self._describe(self.stage)} is left after {env_steps - self._entered} env steps although it is not mastered")
            self._enter(self.stage + 1, env_steps)
        return said

    def _count(self, env: int, success: bool, env_steps: int) -> list[str]:
        """An episode of the present stage; a decision with the last one of a round."""
        if self._queued[env] == WAITING:
            return []  # the newest is left out, whatever came of it, until the slowest environment has caught up
        self._waiting[env, self._queued[env]] = success
        self._queued[env] += 1
        if self._queued.min() == 0:
            return []
        for outcome in self._waiting[:, 0]:
            self._outcomes[self._counted % len(self._outcomes)] = outcome
            self._counted += 1
        self._waiting[:, :-1] = self._waiting[:, 1:]
        self._queued -= 1
        if self.stage == len(self._stages) - 1 or (width := self._look()) is None:
            return []
        successes, threshold = int(self._newest(width).sum()), self._stages[self.stage].success_threshold
        text = (
            f"{self._describe(self.stage)} is mastered: {successes} of {width} episodes succeeded, that is more than {threshold:g} with a "
            f"confidence of {100 * (1 - self._error):.3g} % over all looks"
        )
        self._mastered[self.stage] = True
        self._rehearsed[self.stage] = self._checked_at[self.stage] = 0
        self._promotions += 1
        self._at_promotion = successes / width
        self._enter(self.stage + 1, env_steps)
        return [text]

    def _look(self) -> int | None:
        """The window by which the present stage is mastered; None if it is not. Asked four times per window, from min_episodes on."""
        here = self._stages[self.stage]
        if self._counted < here.min_episodes or self._counted - self._looked_at < self._window // LOOKS_PER_WINDOW:
            return None
        self._looked_at = self._counted
        self._looks[self.stage] += 1
        number = int(self._looks[self.stage])
        widths = sorted({min(self._counted, width) for width in (self._window, promotion.long_window(self._window, number))})
        error = promotion.spend(self._error, number) / len(widths)
        above = (promotion.is_above(int(self._newest(width).sum()), width, here.success_threshold, error) for width in widths)
        return next((width for width, passed in zip(widths, above, strict=True) if passed), None)

    def _newest(self, width: int) -> NDArray[np.int8]:
        """The last outcomes of the present stage."""
        return self._outcomes[np.arange(self._counted - width, self._counted) % len(self._outcomes)]

    def _recall(self, task: int, success: bool, env_steps: int) -> list[str]:
        """An episode of a stage that was mastered: is it forgotten?"""
        self._recalled[task, self._rehearsed[task] % self._window] = success
        self._rehearsed[task] += 1
        due = self._rehearsed[task] - self._checked_at[task] >= self._window // LOOKS_PER_WINDOW
        if not due or task >= self.stage or not self._demote_below:
            return []
        self._checked_at[task] = self._rehearsed[task]
        self._checks[task] += 1
        count = min(int(self._rehearsed[task]), self._window)
        least = self._demote_below * self._stages[task].success_threshold
        error = promotion.spend(self._error, int(self._checks[task]))
        successes = int(self._recalled[task, :count].sum())
        if not promotion.is_below(successes, count, least, error):
            return []
        self._demotions += 1
        self._mastered[task:] = False
        text = f"{self._describe(task)} is forgotten: {successes} of the last {count} episodes succeeded; back to it"
        self._enter(task, env_steps)
        return [text]

    def _enter(self, stage: int, env_steps: int) -> None:
        self.stage, self._entered = stage, env_steps
        self._queued[:] = 0
        self._counted = self._looked_at = 0

    def _describe(self, stage: int) -> str:
        return f"stage {stage + 1} ({self._stages[stage].name})"

    def score(self, task: NDArray[np.int64], value: Floats) -> None:
        """Stages are not chosen by how wrong values are."""

    def cells(self) -> dict[str, float]:
        """The stage, what is known of it, and how often it changed."""
        whole = max(int(self._tally.episodes.sum()), 1)
        cells = {
            "stage": self.stage + 1.0,
            "stage_env_steps": float(self._entered),
            "promotions": float(self._promotions),
            "demotions": float(self._demotions),
            "escapes": float(self._escapes),
            "target_share": float(self._tally.episodes[-1] / whole),
        }
        if self._counted:
            width = min(self._counted, self._window)
            successes = int(self._newest(width).sum())
            error = promotion.spend(self._error, int(self._looks[self.stage]) + 1)
            cells |= {"success": successes / width, "lower_bound": promotion.lower_bound(successes, width, error)}
        if self._promotions:
            cells["promoted_at"] = self._at_promotion
        return {f"train/curriculum/{name}": value for name, value in cells.items()} | self._tally.cells()

    def state(self) -> State:
        """Fixed shapes, whatever the stage is."""
        counters = [self.stage, self._entered, self._counted, self._looked_at, self._promotions, self._demotions, self._escapes]
        return {
            **self._tally.state(),
            "counters": np.array(counters, np.int64),
            "at_promotion": np.array([self._at_promotion]),
            "waiting": self._waiting.copy(),
            "queued": self._queued.copy(),
            "outcomes": self._outcomes.copy(),
            "recalled": self._recalled.copy(),
            "rehearsed": np.stack([self._rehearsed, self._checked_at, self._looks, self._checks]),
            "mastered": self._mastered.copy(),
        }

    def load(self, state: State) -> None:
        """Go on exactly where `state` was taken."""
        self._tally.load(state)
        counters = state["counters"].tolist()
        self.stage, self._entered, self._counted, self._looked_at, self._promotions, self._demotions, self._escapes = counters
        self._at_promotion = float(state["at_promotion"][0])
        self._waiting, self._queued, self._outcomes = (state[name].copy() for name in ("waiting", "queued", "outcomes"))
        self._recalled, self._mastered = state["recalled"].copy(), state["mastered"].copy()
        self._rehearsed, self._checked_at, self._looks, self._checks = (row.copy() for row in state["rehearsed"])
