"""Faults that settings show before anything is trained, and the numbers that follow from them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from rlclinic.config import Config, describe, to_record
from rlclinic.diagnosis import engine, registry
from rlclinic.diagnosis.case import Case, first_value
from rlclinic.diagnosis.findings import DiagnosisPart, Finding
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.checks import Check
from rlclinic.runs.history import History, dotted

_NOT_SETTINGS: Final = frozenset({"threshold", "budget"})


class Lint(DiagnosisPart):
    """What can be said about settings alone."""

    name: str
    findings: tuple[Finding, ...]
    checks: int
    derived: dict[str, float]
    """Numbers that follow from them and that people compute by hand before they trust them."""


def lint(settings: Mapping[str, Any], *, select: Sequence[str] | None = None, ignore: Sequence[str] | None = None, name: str = "") -> Lint:
    """Check settings by dotted name, as a History has them; what is not there is not judged."""
    return lint_settings(settings, _history(settings, name), select=select, ignore=ignore)


def lint_settings(
    settings: Mapping[str, Any], history: History, *, select: Sequence[str] | None = None, ignore: Sequence[str] | None = None
) -> Lint:
    """Check the settings of a run of any framework; nothing that the run left behind is looked at."""
    bare = _history(settings, history.id)
    case = Case(
        History(
            id=bare.id,
            source=history.source,
            env_id=history.env_id or bare.env_id,
            algo=history.algo or bare.algo,
            threshold=history.threshold if history.threshold is not None else bare.threshold,
            max_env_steps=history.max_env_steps or bare.max_env_steps,
            settings=settings,
        )
    )
    rules, more = _choose_checks(select, ignore)
    findings = [finding for rule in rules for finding in engine.examine(rule, [case]).findings]
    findings += [finding for each in more for finding in _ask(each, case)]
    ordered = sorted(findings, key=lambda finding: (-finding.severity.rank, -finding.strength, finding.rule))
    return Lint(name=case.id, findings=tuple(ordered), checks=len(rules) + len(more), derived=derived(case))


def _choose_checks(select: Sequence[str] | None, ignore: Sequence[str] | None) -> tuple[list[registry.Rule], list[Check]]:
    """Rules about runs that need the settings only, and checks of settings; a beginning of an id may mean either."""
    mine = checks.checks("SET")
    for each in [*(select or ()), *(ignore or ())]:
        if not checks.fits_any(mine, each):
            registry.selected([each], None)  # NotFound for what fits nothing
    wanted, unwanted = ([each for each in given or () if registry.fits_any(each)] for given in (select, ignore))
    rules = [each for each in registry.selected(wanted or None, unwanted) if is_static(each)] if wanted or not select else []
    kept = [each for each in select or () if checks.fits_any(mine, each)]
    left = [each for each in ignore or () if checks.fits_any(mine, each)]
    return rules, checks.selected("SET", kept or None, left) if kept or not select else []


def lint_config(config: Config, *, select: Sequence[str] | None = None, ignore: Sequence[str] | None = None) -> Lint:
    """Check a whole config of ours."""
    result = lint(dotted(to_record(config)), select=select, ignore=ignore, name=config.name)
    known = {key: float(value) for key, value in describe(config).items() if key in ("batch_rows", "env_steps", "evaluations")}
    return result.model_copy(update={"derived": {**result.derived, **known}})


def is_static(each: registry.Rule) -> bool:
    """Whether settings alone give a rule all that it needs."""
    ways = [[name for name in options if name.startswith(registry.CONFIG) or name in _NOT_SETTINGS] for options in each.needs]
    about_settings = any(name.startswith(registry.CONFIG) for names in ways for name in names)
    return about_settings and each.scope == "run" and all(ways)


def derived(case: Case) -> dict[str, float]:
    """Horizons, samples, updates, and the learning rate along the run, where the settings give them."""
    return dict(_derived(case))


def _derived(case: Case) -> Iterator[tuple[str, float]]:
    gamma, mixing = first_value(case.setting("algo.gamma")), first_value(case.setting("algo.gae_lambda"))
    if gamma is not None and gamma < 1:
        yield "horizon_steps", 1 / (1 - gamma)
        if mixing is not None and gamma * mixing < 1:
            yield "gae_horizon_steps", 1 / (1 - gamma * mixing)
    if case.rollout:
        yield "samples_per_update", float(case.rollout)
        if case.planned_updates:
            yield "minibatches_per_epoch", float(case.planned_updates // ((case.count("algo.n_epochs") or 1) if case.algo == "ppo" else 1))
        if case.budget:
            yield "updates", float(math.ceil(case.budget / case.rollout))
            yield "rollout_share_of_budget", min(case.rollout / case.budget, 1.0)
    if case.rollout and case.planned_updates:
        yield "samples_per_gradient_step", case.rollout / case.planned_updates
        if case.budget:
            yield "gradient_steps", float(math.ceil(case.budget / case.rollout) * case.planned_updates)
    yield from _rates(case)


def _rates(case: Case) -> Iterator[tuple[str, float]]:
    """What the learning rate is at the start, halfway and at the end."""
    if case.budget:
        planned = case.planned("learning_rate", np.array([0.0, case.budget / 2, float(case.budget)]))
        if planned is not None:
            yield from zip(
                ("learning_rate_at_0_percent", "learning_rate_at_50_percent", "learning_rate_at_100_percent"),
                map(float, planned),
                strict=True,
            )
            return
    start = first_value(case.setting("algo.learning_rate"))
    if start is not None:
        yield "learning_rate_at_0_percent", start


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


def _ask(check: Check, case: Case) -> list[Finding]:
    """What a check of settings says."""
    findings = []
    for finding in check.function(case):
        severity = check.severity if finding.strength >= 0.5 else engine.lower(check.severity)
        seen = finding.evidence or (registry.evidence("config", finding.text),)
        about = {"rule": check.id, "name": check.name, "severity": severity, "run": case.id, "evidence": seen}
        findings.append(finding.model_copy(update=about))
    return findings
