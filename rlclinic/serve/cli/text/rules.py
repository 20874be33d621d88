"""`rlclinic rules` as text for people."""

from typing import TYPE_CHECKING

from rlclinic.report.format import plural
from rlclinic.serve.cli.text.results import print_lines

if TYPE_CHECKING:
    from rlclinic.ops.diagnose.rules import RuleList, RulePage


def print_rules(result: "RuleList") -> None:
    """The list, by family."""
    family = ""
    for row in result.rules:
        if row.family != family:
            print_lines([*([""] if family else []), row.family.replace("_", " ").upper()])
            family = row.family
        print_lines([f"  {row.id}  {row.severity:<7}{row.title}"])
    print_lines(["", f"{plural(len(result.rules), 'rule')}; explain one: rlclinic rules {result.rules[0].id}"])


def print_rule(page: "RulePage") -> None:
    """One rule: the text of its page."""
    print_lines([page.text.rstrip()])
