"""Schedules: how a number changes over a run, as data.

A schedule is a function of the env steps taken so far and of the budget, nothing else, so a resumed run takes up
exactly where it was. The one exception is `kl_adaptive`, whose present value is the trainer's to keep.
"""

import math
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)
from typing_extensions import TypeAliasType

from rlclinic.config.schema import Kind, Real, Strict, read_number, refusal

__all__ = ["FAMILY_KEYS", "Number", "Schedule", "kl_adapted", "to_env_steps", "value_at"]

Family = Literal["constant", "linear", "cosine", "exponential", "logarithmic", "piecewise", "kl_adaptive"]

Position = Annotated[Real, Field(ge=0)]
"""A place in the run: up to 1 a fraction of the budget, above 1 an env step."""

# logarithmic: progress log(1 + 9 p) / log(10); half of the way is done after a quarter of the time.
_LOG_STEEPNESS: Final = 9.0

# The keys that mean something in each family. Any other key would be ignored silently, so it is refused.
_WINDOW: Final = {"start", "end", "from", "to", "warmup"}
FAMILY_KEYS: Final[dict[str, set[str]]] = {
    "constant": {"start", "warmup"},
    "linear": _WINDOW,
    "cosine": _WINDOW,
    "exponential": _WINDOW,
    "logarithmic": _WINDOW,
    "piecewise": {"points"},
    "kl_adaptive": {"start", "warmup", "target_kl", "factor", "min", "max"},
}


class Schedule(Strict):
    """A number that changes over the run, e.g. `{start: 1e-3, end: 0, schedule: linear, warmup: 0.02}`."""

    schedule: Family = "linear"
    """The curve. `linear` is the usual choice; `cosine` holds the start longer; `exponential` falls by the same
    factor in equal times (for learning rates over several decades); `logarithmic` falls fast, then slowly;
    `piecewise` joins the `points` by straight lines; `kl_adaptive` (learning rates only) steers towards `target_kl`."""
    start: Real = 0.0
    """The value at `from` and before it. For `kl_adaptive` the first value."""
    end: Real = 0.0
    """The value at `to` and after it. 0 lets the last updates only polish; for `exponential` it must not be 0."""
    from_: Position = Field(0.0, alias="from")
    """Where the change begins: up to 1 a fraction of the budget, above 1 an env step. Usual: 0."""
    to: Position = 1.0
    """Where the change ends: up to 1 a fraction of the budget, above 1 an env step. Usual: 1, the end of the run."""
    warmup: Position = 0.0
    """Length of a linear rise from `end` (`constant`, `kl_adaptive`: from 0) to `start`, counted from `from`; the curve
    follows after it. Longer protects Adam's first steps and costs learning time. Usual: 0-0.05."""
    points: tuple[tuple[Position, Real], ...] = ()
    """`piecewise` only: [[at, value], ...] in rising order of `at`, joined by straight lines; the same `at` twice is
    a jump. Before the first and after the last point the value stays."""
    target_kl: Real = Field(0.01, gt=0)
    """`kl_adaptive` only: the KL divergence per update to steer at. Higher gives larger steps. Usual: 0.005-0.02."""
    factor: Real = Field(1.5, gt=1)
    """`kl_adaptive` only: the rate is divided or multiplied by this. Higher reacts faster and swings more. Usual: 1.2-2."""
    min: Real = Field(1e-5, gt=0)
    """`kl_adaptive` only: the lowest value. Usual: 1e-6 to 1e-5."""
    max: Real = Field(1e-2, gt=0)
    """`kl_adaptive` only: the highest value. Usual: 1e-3 to 1e-2."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_keys(self)
        if self.schedule == "piecewise":
            _check_points(self.points)
        elif self.schedule == "kl_adaptive":
            if not self.min <= self.start <= self.max:
                raise refusal(
                    f"start={self.start:g} lies outside min={self.min:g} and max={self.max:g}.",
                    "The first update would jump to the bound.",
                    f"start: {min(max(self.start, self.min), self.max):g}",
                )
        elif self.schedule == "exponential" and self.start * self.end <= 0:
            raise refusal(
                f"an exponential schedule cannot go from {self.start:g} to {self.end:g}.",
                "It changes by the same factor in equal times, and no factor leads to or from 0, or to the other sign.",
                f"end: {self.start / 100 or 1e-5:g}, or schedule: linear",
            )
        # A fraction and an env step can be compared only once the budget is known; Config does that.
        elif (self.from_ <= 1) == (self.to <= 1) and self.from_ >= self.to:
            raise refusal(f"from={self.from_:g} does not lie before to={self.to:g}.", "The change would take no time.", "from: 0, to: 1")
        return self

    @model_serializer(mode="wrap")
    def _only_what_is_used(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        used = FAMILY_KEYS[self.schedule] | {"schedule"}
        return {key: value for key, value in handler(self).items() if key in used}

    def values(self) -> tuple[float, ...]:
        """The values between which every value of the schedule lies."""
        if self.schedule == "piecewise":
            return tuple(value for _, value in self.points)
        if self.schedule == "kl_adaptive":
            return (self.min, self.max)
        return (self.start,) if self.schedule == "constant" else (self.start, self.end)

    # A schedule compares with a bound as its values do, so that a field's bounds (gt=0, lt=1) hold for a schedule too.
    # An open bound may be touched, not held: a learning rate that ends at 0 reaches it when the budget is used up.
    def __gt__(self, bound: float) -> bool:
        return self >= bound and any(value > bound for value in self.values())

    def __lt__(self, bound: float) -> bool:
        return self <= bound and any(value < bound for value in self.values())

    def __ge__(self, bound: float) -> bool:
        return all(value >= bound for value in self.values())

    def __le__(self, bound: float) -> bool:
        return all(value <= bound for value in self.values())


def _check_keys(schedule: Schedule) -> None:
    family = schedule.schedule
    used = FAMILY_KEYS[family]
    for name, field in Schedule.model_fields.items():
        key = field.alias or name
        if key not in used and key != "schedule" and getattr(schedule, name) != field.default:
            raise refusal(
                f"a {family} schedule has no `{key}`.",
                f"It would be ignored: {family} reads {', '.join(sorted(used))}.",
                f"leave `{key}` out, or choose another `schedule`",
            )
    if family != "piecewise" and "start" not in schedule.model_fields_set:
        raise refusal(f"a {family} schedule needs `start`.", "There would be no value to begin with.", "start: 1e-3")


def _check_points(points: tuple[tuple[float, float], ...]) -> None:
    places = [at for at, _ in points]
    example = "points: [[0, 1e-3], [0.5, 1e-4], [1, 0]]"
    if len(points) < 2:
        raise refusal("a piecewise schedule needs at least two points.", "There would be nothing to join.", example)
    # 0 is the start of the run in either unit.
    if any(0 < at <= 1 for at in places) and any(at > 1 for at in places):
        raise refusal(
            f"points mixes fractions of the budget (up to 1) and env steps (above 1): {places}.",
            "Their order would depend on the budget.",
            f"one unit for all of them, e.g. {example}",
        )
    if places != sorted(places):
        ordered = [list(point) for point in sorted(points)]
        raise refusal(f"points are not in rising order of their places: {places}.", "Time would run backwards.", f"points: {ordered}")


def _parse(value: Any) -> Any:
    """rl-zoo3 writes a linear fall to zero as `lin_1e-3`."""
    if isinstance(value, str) and value.startswith("lin_"):
        return {"start": value[4:], "end": 0.0, "schedule": "linear"}
    return value if isinstance(value, dict | Schedule) else read_number(value)


def _tag_of(value: Any) -> str:
    return "schedule" if isinstance(value, dict | Schedule) else "number"


# The alias keeps a field's bounds outside of the union; directly on it, pydantic would mistake them for the union's tags.
_NumberOrSchedule = TypeAliasType(
    "_NumberOrSchedule",
    Annotated[Annotated[float, Tag("number")] | Annotated[Schedule, Tag("schedule")], Discriminator(_tag_of)],
)
Number = Annotated[_NumberOrSchedule, BeforeValidator(_parse), Kind.NUMBER]
"""A number or a schedule; it may differ between the members of a cohort and change while they run."""


def to_env_steps(place: float, max_env_steps: int) -> float:
    """A place in the run as env steps: up to 1 it is a fraction of the budget."""
    return place * max_env_steps if place <= 1 else place


def value_at(number: float | Schedule, env_steps: float, max_env_steps: int) -> float:
    """The value of a number or a schedule after `env_steps` of a budget of `max_env_steps`.

    `kl_adaptive` gives its first value (with warm-up); from there on the trainer keeps the value and calls `kl_adapted`.
    """
    if not isinstance(number, Schedule):
        return float(number)
    if number.schedule == "piecewise":
        return _interpolate([(to_env_steps(at, max_env_steps), value) for at, value in number.points], env_steps)
    begin = to_env_steps(number.from_, max_env_steps)
    top = begin + to_env_steps(number.warmup, max_env_steps)
    flat = number.schedule in ("constant", "kl_adaptive")
    if begin <= env_steps < top:
        low = 0.0 if flat else number.end
        return low + (number.start - low) * (env_steps - begin) / (top - begin)
    finish = to_env_steps(number.to, max_env_steps)
    if flat or env_steps <= top:
        return number.start
    if env_steps >= finish:
        return number.end
    return _compute_curve(number, (env_steps - top) / (finish - top))


def _compute_curve(schedule: Schedule, progress: float) -> float:
    start, end = schedule.start, schedule.end
    if schedule.schedule == "exponential":
        return float(start * (end / start) ** progress)
    if schedule.schedule == "cosine":
        progress = (1 - math.cos(math.pi * progress)) / 2
    elif schedule.schedule == "logarithmic":
        progress = math.log1p(_LOG_STEEPNESS * progress) / math.log1p(_LOG_STEEPNESS)
    return start + (end - start) * progress


def _interpolate(points: list[tuple[float, float]], at: float) -> float:
    """Straight lines between the points; at a jump the later value holds."""
    if at < points[0][0]:
        return points[0][1]
    for (left, low), (right, high) in pairwise(points):
        if left <= at < right:
            return low + (high - low) * (at - left) / (right - left)
    return points[-1][1]


def kl_adapted(schedule: Schedule, current: float, kl: float) -> float:
    """The next value of a `kl_adaptive` schedule, given the last update's KL divergence.

    Above twice the target the step was too long: divide. Below half of it there is room: multiply. In between the
    value stays, so that noise alone does not move it (the rule of the adaptive schedule in rsl_rl).
    """
    if kl > 2 * schedule.target_kl:
        current = current / schedule.factor
    # A KL of exactly 0 says that nothing was updated (a stopped or masked member), not that the step was short.
    elif 0 < kl < schedule.target_kl / 2:
        current = current * schedule.factor
    return min(max(current, schedule.min), schedule.max)
