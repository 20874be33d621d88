"""The pages of docs/rules, and rlclinic/ops/diagnose/rule_examples.json, which they and `rlclinic rules ID` share.

Thresholds are read from the checks themselves; examples are what each rule says of its own bad case in tests/diagnosis.
"""

import ast
import importlib
import inspect
import json
import textwrap
from typing import Any

from rlclinic.diagnosis import engine, registry
from rlclinic.diagnosis.case import Case
from rlclinic.ops.diagnose import rules

INTRODUCTION = """# Rules

Every check, by family: those that `rlclinic diagnose` makes of runs and checkpoints, then those of `rlclinic lint`: settings,
environments (`--env`) and scripts (`--code`). The same texts in the terminal:

```sh
rlclinic rules POL101
rlclinic rules --family policy
```

Leave some out with `--ignore`, or for a whole project in its `pyproject.toml`:

```toml
[tool.rlclinic]
ignore = ["THR", "BUD103"]
```
"""


def examples() -> str:
    """rule_examples.json."""
    bad: dict[str, Any] = importlib.import_module("tests.diagnosis.bad_cases").BAD
    found = {each.id: {"thresholds": thresholds(each), **_example(each, bad)} for each in registry.rules()}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _example(each: registry.Rule, bad: dict[str, Any]) -> dict[str, Any]:
    said = engine.examine(each, [Case(history) for history in bad[each.id]()]).findings if each.id in bad else []
    if not said:
        return {}
    clearest = max(said, key=lambda finding: finding.strength)
    remedies = [f"`--set '{one.override}'`: {one.text}" if one.override else one.text for one in clearest.remedies]
    evidence = [f"`{part.series}`: {part.text}" for part in clearest.evidence]
    return {"example": {"text": clearest.text, "evidence": evidence, "remedies": remedies}}


def thresholds(each: registry.Rule) -> list[str]:
    """Every `grade(value, weak, strong)` of a check, in words."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(each.check)))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "grade" and len(node.args) == 3]
    made = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    return list(dict.fromkeys(_in_words(*call.args) + _where(call, made) for call in calls))


def _where(call: ast.Call, made: list[ast.Assign]) -> str:
    """How the names in a limit were computed: ", where `size = measures.step_size(case)`"."""
    used = {node.id for part in call.args for node in ast.walk(part) if isinstance(node, ast.Name) and node.id.islower()}
    told = []
    for assigned in made:
        names = {node.id for target in assigned.targets for node in ast.walk(target) if isinstance(node, ast.Name)}
        if names & used:
            told.append(f"`{ast.unparse(assigned)}`")
    return f", where {' and '.join(told[:2])}" if told else ""


def _in_words(value: ast.expr, weak: ast.expr, strong: ast.expr) -> str:
    """`share`: from 0.4 on, beyond doubt at 0.9. A value with a minus is judged downwards."""
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        return f"`{ast.unparse(value.operand)}`: below {_turned(weak)}, beyond doubt at {_turned(strong)}"
    return f"`{ast.unparse(value)}`: above {ast.unparse(weak)}, beyond doubt at {ast.unparse(strong)}"


def _turned(limit: ast.expr) -> str:
    if isinstance(limit, ast.UnaryOp) and isinstance(limit.op, ast.USub):
        return ast.unparse(limit.operand)
    return f"-{ast.unparse(limit)}" if isinstance(limit, ast.Constant) else f"-({ast.unparse(limit)})"


def page(id: str) -> str:
    """docs/rules/<ID>.md."""
    rules.examples.cache_clear()
    return rules.explain_rule(id).text


def ids() -> list[str]:
    """Every check that has a page."""
    return [row.id for row in rules.list_rules().rules]


def index() -> str:
    """docs/rules/index.md."""
    rows = rules.list_rules().rules
    lines = [INTRODUCTION]
    for family in dict.fromkeys(row.family for row in rows):
        lines += [f"## {family.replace('_', ' ').capitalize()}", "", "| rule | severity | |", "|---|---|---|"]
        lines += [f"| [{row.id}]({row.id}.md) {row.name} | {row.severity} | {_cell(row.title)} |" for row in rows if row.family == family]
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
