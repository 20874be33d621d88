"""`rules`: listed by family, explained with the text of docs/rules."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docs.generate.rules import file_name
from rlclinic.diagnosis import registry
from rlclinic.errors import NotFound
from rlclinic.ops.diagnose import rules
from rlclinic.serve.cli.app import app

DOCS = Path(__file__).resolve().parents[3] / "docs" / "rules"


def test_a_family_is_its_rules_by_name_or_by_letters() -> None:
    by_name = [row.id for row in rules.list_rules("learning-rate").rules]
    assert by_name
    assert by_name == [row.id for row in rules.list_rules("LRN").rules]
    assert all(row.family == "learning_rate" for row in rules.list_rules("learning rate").rules)


def test_an_unknown_family_offers_the_nearest() -> None:
    with pytest.raises(NotFound, match="nearest: policy"):
        rules.list_rules("polcy")


def test_the_beginning_of_an_id_offers_the_rules_that_begin_so() -> None:
    with pytest.raises(NotFound, match="no rule 'pol10'; nearest: POL101, POL102"):
        rules.explain_rule("pol10")


def test_every_rule_is_on_the_page_of_its_family_and_every_page_has_a_family() -> None:
    rows = rules.list_rules().rules
    assert {path.name for path in DOCS.glob("*.md")} - {"index.md"} == {file_name(row.family) for row in rows}
    for row in rows:
        page = (DOCS / file_name(row.family)).read_text()
        assert page.count(f'<a id="{row.id}"></a>\n\n## {row.id} {row.name}\n') == 1


def test_every_link_between_the_pages_leads_to_a_rule() -> None:
    for path in DOCS.glob("*.md"):
        for page, anchor in re.findall(r"\]\(([a-z-]*\.md)?#([A-Z]{3}\d{3})\)", path.read_text()):
            assert f'<a id="{anchor}"></a>' in (DOCS / page if page else path).read_text()


def test_the_command_shows_the_text_of_the_page() -> None:
    shown = CliRunner().invoke(app, ["rules", "POL101"]).stdout
    page = (DOCS / "policy.md").read_text().partition('<a id="POL101"></a>')[2].partition("<a id=")[0]
    assert shown.replace("#", "").split() == page.replace("#", "").split()


def test_a_page_says_why_when_and_what_it_needs() -> None:
    for rule in registry.rules():
        page = rules.explain_rule(rule.id)
        for part in ("## Why it hurts", "## When it is fine", "## Needs"):
            assert part in page.text, rule.id
        assert len(page.references) == len(rule.cites), rule.id
        assert all("](http" in line for line in page.text.partition("## References")[2].splitlines() if line.startswith("- ")), rule.id


def test_a_page_shows_what_the_rule_says_of_a_run_that_has_the_fault() -> None:
    page = rules.explain_rule("POL101")
    assert page.example is not None
    assert page.example.text.startswith("KL ")
    assert any("algo.learning_rate=" in remedy for remedy in page.example.remedies)
    assert f"> {page.example.text}" in page.text


def test_thresholds_are_those_of_the_check() -> None:
    assert any(line.startswith("`clipped.median`: above 0.25, beyond doubt at 0.45") for line in rules.explain_rule("POL103").thresholds)


def test_the_command_line_lists_one_family() -> None:
    result = CliRunner().invoke(app, ["rules", "--family", "value"])
    assert result.exit_code == 0
    assert "VALUE" in result.stdout
    assert "POL101" not in result.stdout
    assert CliRunner().invoke(app, ["rules", "--family", "nothing-like-it"]).exit_code == 3
