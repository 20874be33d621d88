"""From findings to ranked causes: a table of weights, added up as log-odds.

Each cause starts from a prior; every finding that speaks for or against it moves it by weight x strength. The probability is
the softmax over all causes that have at least one key finding, and over "unknown", which needs none. Then consequences are
told from causes: findings that the first cause explains, and that did not come before it, count little for the next.
Causes are declared beside the rules that are their key (registry.cause). Their fitted weights are in weights.json; a rule
without one speaks for its causes with the usual weight.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final

from rlclinic.diagnosis import registry
from rlclinic.diagnosis.findings import Cause, GroupFinding, Kind, Remedy, Severity
from rlclinic.diagnosis.registry import KnownCause

UNKNOWN: Final = "unknown"
HEALTHY: Final = "healthy"
NO_REFERENCE: Final = "no-reference"
TOO_EARLY: Final = "too-early"
NO_RETURN: Final = "no-return"

WEIGHT: Final = 4.0
"""Log-odds of a key finding that was never fitted, for a cause with the usual prior: enough to make it likely where nothing else speaks."""
PRIOR: Final = -2.0
EXPLAINED: Final = 0.25
"""What a finding that an earlier cause explains still counts for the next one."""
NEAR: Final = 0.5
"""Log-odds within which the order in time decides."""
CLEAR: Final = 0.5
"""Strength from which a finding speaks for its cause by itself."""
LEAST: Final = 0.005
OWN: Final = 0.3
"""Strength of a key finding that the first cause does not explain, from which a cause is listed however unlikely it is beside that one."""
MOST: Final = 5

_OF_NO_RULE: Final = (
    KnownCause(
        UNKNOWN,
        "unknown",
        "symptom",
        doses=(
            "warm-up",
            "shorter-steps-if-long",
            "longer-steps-if-short",
            "scale-observations-if-far",
            "scale-rewards-if-far",
            "more-updates-if-few",
            "let-it-fall",
            "entropy-that-falls",
            "ppo-instead",
        ),
    ),
    KnownCause(
        HEALTHY,
        "healthy",
        "nothing wrong",
        doses=("scale-rewards-if-very-far", "scale-observations-if-very-far", "longer-steps-if-short", "more-updates-if-few", "more-envs"),
    ),
    KnownCause(NO_REFERENCE, "it learns; whether it learned enough cannot be told without a threshold: give one", "nothing wrong"),
    KnownCause(TOO_EARLY, "too early to tell", "cannot tell"),
    KnownCause(NO_RETURN, "no return was logged: nothing can be said about learning", "cannot tell"),
)
"""Answers that need no finding."""


def known() -> dict[str, KnownCause]:
    """Every cause that a diagnosis can name, by id."""
    return {**{each.id: each for each in _OF_NO_RULE}, **registry.known_causes()}


def kind_of(id: str) -> Kind:
    """Where a cause lies; one that is not known here (a file of another version) is a symptom."""
    weights = known().get(id)
    return "symptom" if weights is None else weights.kind


@dataclass(frozen=True)
class Weights:
    """One row of the table."""

    id: str
    title: str
    prior: float
    speaks: Mapping[str, float]
    """Log-odds by rule id, times the finding's strength; negative speaks against."""
    key: frozenset[str]
    """Without one of these findings the cause is not considered."""
    explains: frozenset[str] = field(default_factory=frozenset)
    """Findings that it brings about."""
    watch: tuple[Mapping[str, Any], ...] = ()
    covers: frozenset[str] = field(default_factory=frozenset)
    """Causes that it stands for where a log cannot tell them apart."""


@cache
def _fitted() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files("rlclinic.diagnosis") / "weights.json").read_text("utf-8"))
    return found


def temperature() -> float:
    """By what log-odds are divided before they become probabilities: fitted so that these are as high as they are right."""
    return float(_fitted().get("temperature", 1.0))


@cache
def table() -> dict[str, Weights]:
    """What is known of each cause that findings can speak for, with its weights."""
    fitted: dict[str, Any] = _fitted()["causes"]
    keys: dict[str, list[str]] = {}
    for rule in registry.rules():
        for id in rule.causes:
            keys.setdefault(id, []).append(rule.id)
    rows = known()
    return {id: _row(rows[id], fitted.get(id, {}), keys.get(id, [])) for id in dict.fromkeys([*fitted, *keys])}


def _row(known_cause: KnownCause, fitted: Mapping[str, Any], keys: Sequence[str]) -> Weights:
    prior = float(fitted.get("prior", PRIOR))
    return Weights(
        id=known_cause.id,
        title=known_cause.title,
        prior=prior,
        # A key finding that was never fitted makes its cause likely, however rare that was among the runs that priors were fitted to.
        speaks={**{rule: WEIGHT + max(PRIOR - prior, 0.0) for rule in keys}, **dict(fitted.get("speaks", {}))},
        key=frozenset(keys),
        explains=known_cause.explains,
        watch=known_cause.watch,
        covers=known_cause.covers,
    )


def rank(findings: Sequence[GroupFinding], runs: int, weights: Mapping[str, Weights] | None = None) -> list[Cause]:
    """The likely causes, the likeliest first, "unknown" among them; never empty."""
    rows = dict(weights if weights is not None else table())
    by_rule = {finding.rule: finding for finding in findings}
    strength = {rule: finding.strength for rule, finding in by_rule.items()}
    scores = {row.id: _score(row, strength) for row in rows.values() if row.key & by_rule.keys()}
    scores = _lower_symptoms(scores, rows, strength)
    first = _origin(max(scores, key=lambda id: (scores[id], id), default=None), scores, rows, by_rule)
    later = strength
    if first is not None:
        later = {rule: value * (EXPLAINED if _explained(rows[first], rule, by_rule) else 1.0) for rule, value in strength.items()}
        scores[first] = max(scores.values())
        scores = {id: score if id == first else min(_score(rows[id], later), scores[first]) for id, score in scores.items()}
    scores = {id: score / temperature() for id, score in {**scores, UNKNOWN: rows[UNKNOWN].prior}.items()}
    chances = _softmax(scores)
    ordered = sorted(chances, key=lambda id: (-chances[id], id))
    kept = [id for id in ordered if chances[id] >= LEAST or any(later.get(rule, 0.0) >= OWN for rule in rows[id].key)][:MOST]
    causes = [_cause(rows[id], chances[id], by_rule, runs, rows[first] if first else None) for id in kept]
    return [_leave_to_others(cause, causes[:place]) if cause.id == UNKNOWN else cause for place, cause in enumerate(causes)]


def _leave_to_others(unknown: Cause, above: Sequence[Cause]) -> Cause:
    """ "Unknown" without the findings of what is likelier: it stands for what those do not explain."""
    told = {rule for cause in above for rule in cause.rules}
    return unknown.model_copy(update={"rules": tuple(rule for rule in unknown.rules if rule not in told)})


def _lower_symptoms(scores: Mapping[str, float], rows: Mapping[str, Weights], strength: Mapping[str, float]) -> dict[str, float]:
    """A symptom does not outrank a cause that it lists and whose own checks found it."""
    known_causes, lowered = registry.known_causes(), dict(scores)
    of_groups = {rule.id for rule in registry.rules() if rule.scope == "group"}
    for id in scores:
        listed = [one.cause for one in known_causes[id].behind] if id in known_causes else []
        clear = [other for other in listed if other in scores and max(strength.get(rule, 0.0) for rule in rows[other].key) >= CLEAR]
        # That seeds differ is a symptom of the group: what one seed shows does not explain it.
        if clear and not rows[id].key & of_groups and known_causes[id].kind == "symptom":
            best = max(clear, key=lambda other: (scores[other], other))
            # Both had a share of what was seen: the cause has all of it now.
            lowered[best] = max(lowered[best], scores[id])
            lowered[id] = min(scores[id], lowered[best] - 2 * NEAR)
    return lowered


def _score(row: Weights, strength: Mapping[str, float]) -> float:
    return row.prior + sum(weight * strength.get(rule, 0.0) for rule, weight in row.speaks.items())


def _origin(
    likeliest: str | None, scores: Mapping[str, float], rows: Mapping[str, Weights], by_rule: Mapping[str, GroupFinding]
) -> str | None:
    """Of causes that are about as likely, the one that brings the other about and began before it."""
    if likeliest is None:
        return None
    keys = rows[likeliest].key & by_rule.keys()
    near = [id for id, score in scores.items() if id != likeliest and scores[likeliest] - score < NEAR]
    behind = [id for id in near if all(_precedes(rows[id], rule, by_rule) for rule in keys)]
    return max(behind, key=lambda id: (scores[id], id), default=likeliest)


def _precedes(cause: Weights, rule: str, by_rule: Mapping[str, GroupFinding]) -> bool:
    """Whether all that a cause rests on began before a finding that it brings about."""
    began, after = [by_rule[key].onset for key in cause.key & by_rule.keys()], by_rule[rule].onset
    return rule in cause.explains and after is not None and all(onset is not None and onset < after for onset in began)


def _explained(first: Weights, rule: str, by_rule: Mapping[str, GroupFinding]) -> bool:
    """Whether the first cause accounts for a finding: it is known to bring it about, and the finding did not begin earlier."""
    if rule not in first.explains or rule in first.key:
        return False
    began = [by_rule[key].onset or 0.0 for key in first.key & by_rule.keys()]
    return (by_rule[rule].onset or math.inf) >= min(began, default=0.0)


def _softmax(scores: Mapping[str, float]) -> dict[str, float]:
    top = max(scores.values())
    parts = {id: math.exp(score - top) for id, score in scores.items()}
    total = sum(parts.values())
    return {id: round(part / total, 4) for id, part in parts.items()}


def _cause(row: Weights, probability: float, by_rule: Mapping[str, GroupFinding], runs: int, first: Weights | None) -> Cause:
    speaking = sorted(
        (rule for rule, weight in row.speaks.items() if rule in by_rule and weight > 0),
        key=lambda rule: (rule not in row.key, -row.speaks[rule] * by_rule[rule].strength, rule),
    )
    agreeing = {run for rule in speaking if rule in row.key for run in by_rule[rule].runs}
    worst = max((by_rule[rule].severity for rule in speaking if rule in row.key), key=lambda each: each.rank, default=Severity.LOW)
    consequence = (
        first.id
        if first is not None
        and first.id != row.id
        and row.key & by_rule.keys()
        and all(_explained(first, rule, by_rule) for rule in row.key & by_rule.keys())
        else None
    )
    return Cause(
        id=row.id,
        title=row.title,
        probability=probability,
        severity=worst,
        rules=tuple(speaking),
        agree=len(agreeing),
        of=runs,
        consequence_of=consequence,
        remedies=_remedies(speaking, by_rule),
    )


def _remedies(speaking: Sequence[str], by_rule: Mapping[str, GroupFinding]) -> tuple[Remedy, ...]:
    """Of the findings that speak for it, one per setting, the key finding's first."""
    kept: dict[str, Remedy] = {}
    for rule in speaking:
        for remedy in by_rule[rule].remedies:
            kept.setdefault(remedy.setting or remedy.text, remedy)
    return tuple(kept.values())[:3]
