"""Symptoms and causes. A cause is something that a person can change; a symptom is how one shows.

A symptom that ranks among the causes says what may lie behind it: each with its own probability, what would tell it from the others and
where to look. It is never said at HIGH, which is for causes. Where a log holds too little to tell, that is said before anything else.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rlclinic.diagnosis import columns, logging_snippets, registry
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.causes import UNKNOWN, known
from rlclinic.diagnosis.findings import CannotTell, Cause, PossibleCause, Severity

if TYPE_CHECKING:
    from rlclinic.diagnosis.engine import RuleResult

SURE: Final = 0.7
"""A first cause that is likelier than this needs no word about what the log lacks."""
FOUND: Final = 4.0
"""How much likelier a possible cause is whose own checks found something."""
PASSED: Final = 0.2
"""How much is left of one whose own checks were all made and found nothing."""
ELSEWHERE: Final = 0.05
"""How much is left of one whose checks do not apply to such a run."""
LEAST: Final = 0.01
BLIND: Final = 0.25
"""The share of the checks that apply from which on those that could not be made are worth a word."""
_UPDATES: Final = (columns.KL, columns.EXPLAINED_VARIANCE, columns.POLICY_LOSS, columns.VALUE_LOSS, "train/loss/td", "train/loss/critic")
_WITNESSES: Final = ("train/sentinel/obs_", "train/sentinel/reward_", "train/sentinel/action_")
_MOST_LINES: Final = 12


def name_possible_causes(cause: Cause, results: Sequence["RuleResult"], source: str) -> Cause:
    """A symptom with what may lie behind it, at most at MEDIUM; a cause as it is."""
    behind = registry.known_causes()[cause.id].behind if cause.id in registry.known_causes() else ()
    if cause.kind != "symptom" or not behind:
        return cause
    checks: dict[str, list[RuleResult]] = {}
    for result in results:
        for id in result.rule.causes:
            checks.setdefault(id, []).append(result)
    weights = {one.cause: one.share * _weigh_checks(checks.get(one.cause, [])) for one in behind}
    total, titles = sum(weights.values()), known()
    possible = [
        PossibleCause(
            id=one.cause,
            title=titles[one.cause].title,
            probability=round(cause.probability * weights[one.cause] / total, 4),
            tells=one.tells,
            needs=_list_missing(checks.get(one.cause, [])) if source != "rlclinic" else (),
            find_in=one.find,
        )
        for one in behind
    ]
    ranked = sorted((one for one in possible if one.probability >= LEAST), key=lambda one: (-one.probability, one.id))
    severity = min(cause.severity, Severity.MEDIUM, key=lambda level: level.rank)
    return cause.model_copy(update={"possible": tuple(ranked), "severity": severity})


def _weigh_checks(results: Sequence["RuleResult"]) -> float:
    """What a possible cause's own checks make of it: found, passed, or not made."""
    found = max((finding.strength for result in results for finding in result.findings), default=0.0)
    if found:
        return 1.0 + FOUND * found
    if not results or any(result.missing for result in results):
        return 1.0
    # Nothing was missing: its checks passed, or do not apply (a setting that is switched off, another algorithm).
    return PASSED if any(result.judged for result in results) else ELSEWHERE


def _list_missing(results: Sequence["RuleResult"]) -> tuple[str, ...]:
    return tuple(sorted({name for result in results if not result.findings for name in result.missing}))


def find_what_is_missing(first: Cause, cases: Sequence[Case], results: Sequence["RuleResult"]) -> CannotTell | None:
    """What the logs lack to tell the cause; None where the answer is clear enough, or nothing more could have been logged."""
    if first.calm or all(case.ours for case in cases):
        return None
    if first.kind != "symptom" and first.probability >= SURE:
        return None
    blind = [result for result in results if result.missing]
    applicable = [result for result in results if result.missing or result.judged]
    lacks = tuple(_list_lacks(cases))
    if not lacks and len(blind) > BLIND * len(applicable):
        lacks = ("columns and settings that checks need",)
    if not lacks:
        return None
    what = "what is wrong" if first.id == UNKNOWN else "what lies behind it" if first.kind == "symptom" else "for sure"
    unknown = "" if cases[0].knows_algorithm else f"no check knows how {cases[0].algo} works, and "
    text = f"cannot tell {what} from this log: {unknown}it lacks {_join(lacks)}"
    text += f" ({len(blind)} of {len(applicable)} checks could not be made)"
    source = cases[0].history.source
    snippets = [logging_snippets.lines_for(result.missing, [case.history for case in cases]) for result in blind]
    return CannotTell(text=text, lacks=lacks, paste=tuple(logging_snippets.recipe(source, snippets)[:_MOST_LINES]))


def _list_lacks(cases: Sequence[Case]) -> list[str]:
    """In words, the most telling first."""
    first = cases[0]
    settings: Mapping[str, object] = first.history.settings
    lacks = []
    if first.history.algo is None:
        lacks.append("the algorithm's name")
    if not any(name.startswith("algo.") and name != "algo.name" and value is not None for name, value in settings.items()):
        lacks.append("settings")
    if not any(case.has(name) for case in cases for name in (columns.RETURN, columns.EVAL_RETURN)):
        lacks.append("returns")
    if first.knows_algorithm and not any(case.has(name) for case in cases for name in _UPDATES):
        lacks.append("what updates did (losses, KL, explained variance)")
    if not any(name.startswith(_WITNESSES) for case in cases for name in case.history.series):
        lacks.append("what observations, actions and rewards were like (sentinels)")
    return lacks


def _join(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def describe_algorithm(cases: Sequence[Case]) -> tuple[str, ...]:
    """A note where the algorithm is one that no rule knows."""
    unknown = sorted({case.algo for case in cases if not case.knows_algorithm})
    if not unknown:
        return ()
    return (f"{', '.join(unknown)}: an algorithm that checks do not know; only what holds for any algorithm was checked",)
