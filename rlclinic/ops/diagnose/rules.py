"""The checks of a diagnosis, listed and explained; the pages of docs/rules are the same texts."""

from collections.abc import Sequence
from dataclasses import asdict

from rlclinic import metrics
from rlclinic.diagnosis import explanation, registry
from rlclinic.diagnosis.checkpoints import inspect_run
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.checks import Check
from rlclinic.errors import NotFound, nearest
from rlclinic.references import REFERENCES, Reference
from rlclinic.report.models import Result, ResultPart


class RuleRow(ResultPart):
    """One line of `rules`."""

    id: str
    name: str
    family: str
    severity: str
    title: str
    needs: list[str]
    algos: list[str]


class RuleExample(ResultPart):
    """What the rule says of a run that has the fault: a healthy one with one thing changed."""

    text: str
    evidence: list[str]
    remedies: list[str]


class RulePage(Result):
    """All about one rule."""

    rule: RuleRow
    doc: str
    thresholds: list[str]
    """Where a finding begins and where it is beyond doubt, as the check itself has it."""
    example: RuleExample | None
    references: list[str]
    text: str
    """The page as Markdown, as docs/rules has it."""


class RuleList(Result):
    """Rules, by family."""

    rules: list[RuleRow]


def list_rules(family: str | None = None) -> RuleList:
    """Every rule, or those of one family (policy, or the first letters of its ids: POL)."""
    everything: list[registry.Rule | Check] = [*registry.rules(), *inspect_run.rules(), *checks.checks()]
    if family is None:
        return RuleList(rules=[_row(each) for each in everything])
    wanted = family.strip().lower().replace("-", "_").replace(" ", "_")
    kept = [each for each in everything if wanted == each.family or each.id.lower().startswith(wanted)]
    if not kept:
        offered = nearest(wanted, _families(everything))
        hint = f"; nearest: {', '.join(offered)}" if offered else ""
        raise NotFound(f"no family of rules {family!r}{hint}.\n  There are: {', '.join(_families(everything))}")
    return RuleList(rules=[_row(each) for each in kept])


def explain_rule(id_or_name: str) -> RulePage:
    """What a rule looks for, why it hurts, when it is fine, when it fires, what helps, and where that is known from."""
    each = _find(id_or_name)
    about_runs = isinstance(each, registry.Rule) and each.family != inspect_run.FAMILY
    limits = explanation.read_thresholds(each) if isinstance(each, registry.Rule) and about_runs else []
    given = explanation.give_example(each) if isinstance(each, registry.Rule) and about_runs else None
    example = None if given is None else RuleExample(**asdict(given))
    cited = [REFERENCES[key] for key in each.cites]
    return RulePage(
        rule=_row(each),
        doc=each.doc,
        thresholds=limits,
        example=example,
        references=[str(reference) for reference in cited],
        text=page(each, limits, example, cited),
    )


def _find(id_or_name: str) -> "registry.Rule | Check":
    """A rule about runs, or a check of checkpoints, environments or scripts."""
    for rule in inspect_run.rules():
        if id_or_name.strip().upper() == rule.id or id_or_name.strip().lower() == rule.name:
            return rule
    try:
        return checks.find(id_or_name)
    except NotFound:
        return registry.find(id_or_name)


def _families(among: "Sequence[registry.Rule | Check]") -> list[str]:
    return list(dict.fromkeys(each.family for each in among))


def page(each: "registry.Rule | Check", limits: Sequence[str], example: RuleExample | None, cited: Sequence[Reference]) -> str:
    """A rule as Markdown."""
    about = [f"family {each.family.replace('_', ' ')}", f"severity up to {each.severity.value}"]
    needs = [_need(options) for options in each.needs]
    if isinstance(each, registry.Rule):
        about.append(f"for {', '.join(each.algos)}" if each.algos else "for any algorithm")
        needs = needs or ["nothing but the run itself"]
    lines = [f"# {each.id} {each.name}", "", " · ".join(about), "", each.doc, "", *_list("## Needs", needs)]
    lines += _list("## Thresholds", limits)
    if example is not None:
        lines += _list("## Remedies", example.remedies)
        lines += ["## Example", "", f"> {example.text}", "", *(f"- {text}" for text in example.evidence), ""]
    lines += _list("## References", [f"{one.authors} ({one.year}). [{one.title}]({one.url}). {one.where}" for one in cited])
    return "\n".join(lines).rstrip() + "\n"


def _list(title: str, items: Sequence[str]) -> list[str]:
    return [title, "", *(f"- {item}" for item in items), ""] if items else []


def _need(options: Sequence[str]) -> str:
    return " or ".join(f"`{name}`{_meaning(name)}" for name in options)


def _meaning(name: str) -> str:
    known = metrics.find(name)
    return f" ({known.meaning.rstrip('.').partition('.')[0]})" if known is not None else ""


def _row(each: "registry.Rule | Check") -> RuleRow:
    return RuleRow(
        id=each.id,
        name=each.name,
        family=each.family,
        severity=each.severity.value,
        title=each.title,
        needs=[" or ".join(options) for options in each.needs],
        algos=list(each.algos),
    )
