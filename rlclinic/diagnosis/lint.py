"""Faults that a config shows before anything is trained, and the numbers that follow from it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rlclinic.config import Config, describe, to_record
from rlclinic.diagnosis import engine, rule
from rlclinic.diagnosis.case import Case, first_value
from rlclinic.diagnosis.findings import Finding, Part
from rlclinic.runs.history import History, dotted

_NOT_SETTINGS: Final = frozenset({"threshold", "budget"})


class Lint(Part):
    """What can be said about a config alone."""

    name: str
    findings: tuple[Finding, ...]
    checks: int
    derived: dict[str, float]
    """Numbers that follow from it and that people compute by hand before they trust it."""


def lint(settings: Mapping[str, Any], *, select: Sequence[str] | None = None, ignore: Sequence[str] | None = None, name: str = "") -> Lint:
    """Check settings by dotted name, as a History has them; what is not there is not judged."""
    case = Case(_history(settings, name))
    asked = [each for each in rule.selected(select, ignore) if is_static(each)]
    found = [finding for each in asked for finding in engine.examine(each, [case]).findings]
    ordered = sorted(found, key=lambda finding: (-finding.severity.rank, -finding.strength, finding.rule))
    return Lint(name=name, findings=tuple(ordered), checks=len(asked), derived=derived(case))


def lint_config(config: Config, *, select: Sequence[str] | None = None, ignore: Sequence[str] | None = None) -> Lint:
    """Check a whole config of ours."""
    result = lint(dotted(to_record(config)), select=select, ignore=ignore, name=config.name)
    return result.model_copy(update={"derived": {**{key: float(value) for key, value in describe(config).items()}, **result.derived}})


def is_static(each: rule.Rule) -> bool:
    """Whether a rule needs the config only."""
    names = [name for options in each.needs for name in options]
    return bool(names) and each.scope == "run" and all(name.startswith(rule.CONFIG) or name in _NOT_SETTINGS for name in names)


def derived(case: Case) -> dict[str, float]:
    """Horizon, GAE horizon and samples per update, where the settings give them."""
    found: dict[str, float] = {}
    gamma, mixing = first_value(case.setting("algo.gamma")), first_value(case.setting("algo.gae_lambda"))
    if gamma is not None and gamma < 1:
        found["horizon_steps"] = 1 / (1 - gamma)
        if mixing is not None and gamma * mixing < 1:
            found["gae_horizon_steps"] = 1 / (1 - gamma * mixing)
    if case.rollout and case.planned_updates:
        found["samples_per_gradient_step"] = case.rollout / case.planned_updates
        if case.budget:
            found["gradient_steps"] = float(math.ceil(case.budget / case.rollout) * case.planned_updates)
    return found


def _history(settings: Mapping[str, Any], name: str) -> History:
    budget, threshold = settings.get("run.max_env_steps"), settings.get("spec.threshold")
    return History(
        id=name or "config",
        source="rlclinic",
        env_id=settings.get("env.id"),
        algo=settings.get("algo.name"),
        threshold=threshold,
        max_env_steps=budget if isinstance(budget, int) else None,
        settings=settings,
    )
