"""Puts the checks of settings to a config and turns what they say into findings."""

from collections.abc import Callable, Iterator
from importlib import import_module

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.engine import lower
from rlclinic.diagnosis.findings import Finding
from rlclinic.diagnosis.lint.checks import Check
from rlclinic.diagnosis.registry import evidence

Ask = Callable[[Case], Iterator[Finding]]


def ask(check: Check, case: Case) -> list[Finding]:
    """What a check says: its function has the check's name, in the module of its family."""
    asked: Ask = getattr(import_module(f"rlclinic.diagnosis.lint.config.{check.family}"), check.name.replace("-", "_"))
    return [_complete(check, finding, case.id) for finding in asked(case)]


def _complete(check: Check, finding: Finding, run: str) -> Finding:
    weight = check.severity if finding.strength >= 0.5 else lower(check.severity)
    seen = finding.evidence or (evidence("config", finding.text),)
    return finding.model_copy(update={"rule": check.id, "name": check.name, "severity": weight, "run": run, "evidence": seen})
