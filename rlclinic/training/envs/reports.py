"""What is wrong with an environment, in words: which env, which step, which field, and what to type. Free of torch."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from rlclinic.actions import Change
from rlclinic.errors import EnvironmentFailed


class WrongShape(ValueError):
    """Something that does not have the shape that the environment's spaces say; written into a row it would be repeated silently."""

    def __init__(
        self,
        shape: tuple[int, ...],
        expected: tuple[int, ...],
        what: str = "an observation",
        but: str = "its observation_space has the shape",
    ) -> None:
        super().__init__(f"{what} of shape {shape}, but {but} {expected}")


class OutOfSpace(ValueError):
    """A state's number that its space does not have."""


class NotGymnasium(ValueError):
    """Something that no reset() or step() of Gymnasium's returns: other parts, or one that is of another kind."""


def check_parts(call: str, given: Any, parts: str) -> None:
    """Raise unless a call returned these parts, which are named with commas between."""
    names = parts.split(", ")
    if not isinstance(given, tuple) or len(given) != len(names):
        what = f"{len(given)} values" if isinstance(given, tuple) else f"a {type(given).__name__}"
        raise NotGymnasium(f"{what} from {call}, which must return ({parts})")


def check_end(terminated: Any, truncated: Any, info: Any) -> None:
    """Raise unless an episode's end is told in booleans and a dict: the text "False" is true, and so is nan."""
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        fits = isinstance(flag, bool | np.bool_) or flag is None or (isinstance(flag, int | np.integer) and flag in (0, 1))
        if not fits and not (isinstance(flag, np.ndarray) and flag.size == 1 and flag.dtype == np.bool_):
            raise NotGymnasium(f"{name} = {flag!r} from step(), which must be True or False")
    if not isinstance(info, Mapping):
        raise NotGymnasium(f"a {type(info).__name__} as info from step(), which must be a dict")


class Reports:
    """Turns what goes wrong in a member's envs into EnvironmentFailed; keeps the step, and the env that is being stepped."""

    def __init__(self, name: str, first: int = 0) -> None:
        self._name, self._first = name, first
        self.steps = 0
        self.at: int | None = None
        """The env being stepped, counted from `first`; None where all are stepped at once."""

    @contextmanager
    def during(self, call: str) -> Iterator[None]:
        """Whatever the user's environment raises in here becomes an EnvironmentFailed."""
        try:
            yield
        except EnvironmentFailed:
            raise
        except (WrongShape, OutOfSpace) as reason:
            raise self.wrong_shape(reason) from reason
        except NotGymnasium as reason:
            raise self.not_gymnasium(reason) from reason
        except (Exception, SystemExit) as reason:  # a simulator that calls sys.exit() ends its own run, and no other
            raise self.raised(call, reason) from reason

    def raised(self, call: str, reason: BaseException) -> EnvironmentFailed:
        """An exception of the environment's own."""
        frames = traceback.extract_tb(reason.__traceback__)
        place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
        return EnvironmentFailed(
            f"{self._subject(self.at)} raised {type(reason).__name__} in {call}() at step {self.steps}: {reason}{place}\n"
            "  This run cannot go on without its environment; its training stops here.\n"
            "  Try: gymnasium.utils.env_checker.check_env(env) on the environment alone"
        )

    def check(self, field: str, values: np.ndarray) -> None:
        """Raise if any number of any env (rows) is nan or infinite."""
        if values.dtype == np.uint8:
            return
        finite = np.isfinite(values)
        if finite.all():
            return
        n = int(np.argmin(finite.reshape(len(values), -1).all(-1)))
        raise self.not_finite(field, n, values[n])

    def not_finite(self, field: str, n: int, values: np.ndarray) -> EnvironmentFailed:
        """An observation or a reward of env n that is nan or infinite."""
        flat = np.ravel(values)
        at = int(np.argmin(np.isfinite(flat)))
        where = f"{field}[{at}]" if flat.size > 1 else field
        return EnvironmentFailed(
            f"{self._subject(n)} gave {where} = {flat[at]} at step {self.steps}.\n"
            "  One such number would make every weight of this run nan; its training stops here.\n"
            "  Try: step the environment alone and print what that field is computed from"
        )

    def wrong_shape(self, reason: WrongShape | OutOfSpace) -> EnvironmentFailed:
        """An observation, or what comes with it, that is not what the environment's spaces say."""
        return EnvironmentFailed(
            f"{self._subject(self.at)} gave {reason} (at step {self.steps}).\n"
            "  The network is built for the space; its training stops here.\n"
            "  Try: gymnasium.utils.env_checker.check_env(env) on the environment alone"
        )

    def not_gymnasium(self, reason: NotGymnasium) -> EnvironmentFailed:
        """Something that is not what Gymnasium's environments return."""
        return EnvironmentFailed(
            f"{self._subject(self.at)} gave {reason} (at step {self.steps}).\n"
            "  What it means could only be guessed; training stops here.\n"
            "  Try: gymnasium.utils.env_checker.check_env(env) on the environment alone"
        )

    def no_mask(self, n: int) -> EnvironmentFailed:
        """env.action_mask is on, and the env told none."""
        return EnvironmentFailed(
            f'{self._subject(n)} has no info["action_mask"] at step {self.steps}, and env.action_mask is on.\n'
            "  Without it a forbidden action could be chosen.\n  Try: ",
            Change("env.action_mask", False),
            ", or return the mask from reset() and step() alike",
        )

    def no_cost(self, n: int) -> EnvironmentFailed:
        """cost.limit is set, and the env told no cost."""
        return EnvironmentFailed(
            f'{self._subject(n)} has neither info["cost"] nor info["costs"] at step {self.steps}, and cost.limit is set.\n'
            "  A limit could not be kept on what nobody tells.\n  Try: ",
            Change("cost", None),
            ", or return it from every step(), 0.0 where nothing is to be paid",
        )

    def describe_call(self) -> str:
        """The call that is under way, in words."""
        return f"{self._subject(self.at)}, at step {self.steps},"

    def _subject(self, n: int | None) -> str:
        return self._name if n is None else f"{self._name}: env {self._first + n}"
