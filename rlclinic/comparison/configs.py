"""Settings side by side, every default written out: what differs, in which direction, what that usually does, what follows.

A side of ours has all its settings. Another framework's log has those that were logged; for the rest the framework's own default
is taken where it is known, and marked as such. What is known on one side only is named, and never called a difference.
"""

from collections.abc import Sequence
from typing import Any, Final

from rlclinic.comparison import derived, trials
from rlclinic.comparison.directions import direction_of, in_words, numeric, same, shown
from rlclinic.comparison.frameworks import DEFAULTS
from rlclinic.comparison.impacts import usual
from rlclinic.comparison.models import ConfigDiff, Course, Difference
from rlclinic.comparison.sides import Side
from rlclinic.config.schedule import Schedule

MISSING: Final = "not recorded"
ABSENT: Final = object()
POINTS: Final = 41
"""Of a schedule's picture."""
_IGNORED: Final = (
    *("seed", "name", "spec.description", "spec.source"),
    # What is recorded beside the metrics changes nothing that is compared.
    *("run.film_every_env_steps", "run.histograms_every_env_steps", "run.tensorboard"),
)
_ORDER: Final = ("algo", "env", "net", "data", "run", "spec")


def diff(sides: Sequence[Side], recorded: Sequence[trials.Recorded] = ()) -> ConfigDiff:
    """What differs between the sides' settings, and the numbers that follow from them."""
    keys = _keys(sides)
    differences, alike = [], 0
    for key in keys:
        values = [_value(key, side) for side in sides]
        known = [value for value in values if value is not ABSENT]
        if all(same(known[0], value) for value in known):
            alike += len(known) == len(values)
            continue
        differences.append(_difference(key, values, sides, recorded))
    unknown = [key for key in keys if any(_value(key, side) is ABSENT for side in sides)]
    courses = [course for difference in differences if (course := _course(difference.key, sides)) is not None]
    return ConfigDiff(differences=differences, same=alike, derived=derived.rows(sides), courses=courses, notes=_notes(sides, unknown))


def _keys(sides: Sequence[Side]) -> list[str]:
    found = dict.fromkeys(key for side in sides for key in side.settings if key not in _IGNORED)
    place = {section: index for index, section in enumerate(_ORDER)}
    return sorted(found, key=lambda key: place.get(key.partition(".")[0], len(_ORDER)))


def _difference(key: str, values: Sequence[Any], sides: Sequence[Side], recorded: Sequence[trials.Recorded]) -> Difference:
    known = [value for value in values if value is not ABSENT]
    before = known[0]
    after = next(value for value in known if not same(before, value))
    way = direction_of(before, after) or "changed"
    impact = usual(key, way)
    tried, adopted = trials.tally(key, way, after, recorded)
    return Difference(
        key=key,
        values=[None if value is ABSENT else value for value in values],
        shown=[_shown(key, value, side) for value, side in zip(values, sides, strict=True)],
        change=in_words(before, after),
        usual=impact.text,
        cites=list(impact.cites),
        trials=tried,
        adopted=adopted,
    )


def _value(key: str, side: Side) -> Any:
    """What a side has been trained with, as far as is known."""
    return side.settings.get(key, DEFAULTS.get((side.source or "", side.algo or ""), {}).get(key, ABSENT))


def _shown(key: str, value: Any, side: Side) -> str:
    if value is ABSENT:
        # A setting of another algorithm is absent; one of a log that does not tell is unknown.
        return "–" if side.complete else MISSING
    return shown(value) if key in side.settings else f"{MISSING} ({side.source}'s default: {shown(value)})"


def _notes(sides: Sequence[Side], unknown: Sequence[str]) -> list[str]:
    notes = []
    partial = [side for side in sides if not side.complete]
    if partial and unknown:
        named = ", ".join(unknown[:6]) + (f" and {len(unknown) - 6} more" if len(unknown) > 6 else "")
        notes.append(f"{', '.join(side.label for side in partial)} did not record every setting; known on one side only: {named}")
    return notes + _of_one_algorithm(sides)


def _of_one_algorithm(sides: Sequence[Side]) -> list[str]:
    """What an algorithm has and another does not know: it cannot differ, and is shown with its values."""
    whole = [side for side in sides if side.complete]
    known = {side.algo: side for side in reversed(whole)}
    notes = []
    for algo, side in sorted(known.items(), key=lambda entry: entry[1].label):
        others = [other for other in known.values() if other.algo != algo]
        own = [key for key in side.settings if others and key.startswith("algo.") and all(key not in other.settings for other in others)]
        said = ", ".join(f"{key.partition('.')[2]} {shown(side.settings[key])}" for key in own)
        notes += [f"only {algo} has ({side.label}): {said}"] if said else []
    return notes


def _course(key: str, sides: Sequence[Side]) -> Course | None:
    """A number over the budget; None where it stays as it is on every side."""
    values = {side.label: (_value(key, side), side.budget) for side in sides}
    if not any(isinstance(numeric(value), Schedule) for value, _ in values.values()):
        return None
    places = [place / (POINTS - 1) for place in range(POINTS)]
    lines = {label: [derived.at(value, place, budget) for place in places] for label, (value, budget) in values.items()}
    return Course(key=key, sides={label: [at for at in line if at is not None] for label, line in lines.items() if None not in line})
