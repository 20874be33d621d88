"""What can be said of a rule beyond its documentation: its thresholds, read from the check, and what it says of its bad case."""

import ast
import inspect
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rlclinic.actions import Change
from rlclinic.diagnosis import engine
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import Finding
from rlclinic.diagnosis.registry import Rule, Shown
from rlclinic.runs.history import History


@dataclass(frozen=True)
class Example:
    """What a rule says of a run that has the fault: a healthy one with one thing changed."""

    text: str
    evidence: list[str]
    remedies: list[str]


def examine_shown(rule: Rule, shown: Shown) -> list[Finding]:
    """What a rule finds in one of its cases."""
    runs = shown()
    return engine.examine(rule, [Case(run) for run in ([runs] if isinstance(runs, History) else runs)]).findings


def give_example(rule: Rule) -> Example | None:
    """The clearest finding in the rule's bad case; None for a rule without one."""
    findings = examine_shown(rule, rule.bad) if rule.bad is not None else []
    if not findings:
        return None
    clearest = max(findings, key=lambda finding: finding.strength)
    remedies = [
        f"`{Change.typed([remedy.override], quoted=True)}`: {remedy.text}" if remedy.override else remedy.text
        for remedy in clearest.remedies
    ]
    return Example(clearest.text, [f"`{part.series}`: {part.text}" for part in clearest.evidence], remedies)


def read_thresholds(rule: Rule) -> list[str]:
    """Every `grade(value, weak, strong)` of a check, in words."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(rule.check)))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "grade" and len(node.args) == 3]
    assignments = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    return list(dict.fromkeys(_describe(*call.args) + _describe_names(call, assignments) for call in calls))


def _describe(value: ast.expr, weak: ast.expr, strong: ast.expr) -> str:
    """`share`: above 0.4, beyond doubt at 0.9. A value with a minus is judged downwards."""
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        return f"`{ast.unparse(value.operand)}`: below {_negate(weak)}, beyond doubt at {_negate(strong)}"
    return f"`{ast.unparse(value)}`: above {ast.unparse(weak)}, beyond doubt at {ast.unparse(strong)}"


def _negate(limit: ast.expr) -> str:
    if isinstance(limit, ast.UnaryOp) and isinstance(limit.op, ast.USub):
        return ast.unparse(limit.operand)
    return f"-{ast.unparse(limit)}" if isinstance(limit, ast.Constant) else f"-({ast.unparse(limit)})"


def _describe_names(call: ast.Call, assignments: Sequence[ast.Assign]) -> str:
    """How the names in a limit were computed: ", where `size = measures.step_size(case)`"."""
    used = {node.id for part in call.args for node in ast.walk(part) if isinstance(node, ast.Name) and node.id.islower()}
    computed = []
    for assignment in assignments:
        names = {node.id for target in assignment.targets for node in ast.walk(target) if isinstance(node, ast.Name)}
        if names & used:
            computed.append(f"`{ast.unparse(assignment)}`")
    return f", where {' and '.join(computed[:2])}" if computed else ""
