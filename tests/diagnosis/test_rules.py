"""Every rule: its bad case fires, healthy runs stay silent, and what it says can be read and typed."""

import re

import pytest

from rlclinic.config import files, set_values
from rlclinic.diagnosis import engine, rule
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.errors import NotFound
from tests.diagnosis import recorded
from tests.diagnosis.bad_cases import BAD
from tests.diagnosis.builders import continuous, healthy, q_learner, soft_actor, unsolved

RULES = {each.id: each for each in rule.rules()}
HEALTHY = [name for name in recorded.names() if recorded.load(name)[0]["cause"] == "healthy"]


def said(id: str, group: list) -> list[Finding]:
    return engine.examine(RULES[id], [Case(history) for history in group]).findings


@pytest.mark.parametrize("id", sorted(RULES))
def test_every_rule_fires_on_its_bad_case(id: str) -> None:
    found = said(id, BAD[id]())
    assert found, f"{RULES[id].name} said nothing"
    assert max(finding.strength for finding in found) >= 0.5


# The returns of these runs do rise to the end: that they could go on is right to say.
@pytest.mark.parametrize("id", sorted(RULES.keys() - {"BUD101"}))
def test_every_rule_is_silent_on_a_run_that_is_only_below_its_threshold(id: str) -> None:
    """The bad cases differ from these runs by one thing: without it the rule must have nothing to say."""
    assert [
        finding.text
        for base in (unsolved(), continuous(), q_learner(), soft_actor())
        for finding in said(id, [base])
        if finding.strength >= 0.5
    ] == []


@pytest.mark.parametrize("name", HEALTHY)
def test_no_rule_is_loud_about_a_healthy_group(name: str) -> None:
    found = engine.diagnose(recorded.histories(name))
    assert [finding.rule for finding in found.findings if finding.severity is Severity.HIGH] == []
    assert found.causes[0].id in ("healthy", "no-reference")


def test_every_rule_has_a_bad_case_and_every_bad_case_a_rule() -> None:
    assert set(BAD) == set(RULES)


@pytest.mark.parametrize("id", sorted(RULES))
def test_what_a_rule_says_is_a_sentence_with_numbers_and_remedies_that_can_be_typed(id: str) -> None:
    found = said(id, BAD[id]())
    config = files.load("CartPole-v1:ppo").config
    learner = BAD[id]()[0].algo
    if learner not in ("ppo", "a2c", "reinforce", None):
        config = set_values(config, [f"algo.name={learner}"])
    for finding in found:
        assert finding.text
        assert "nan" not in re.split(r"\W+", finding.text.lower())
        assert finding.evidence
        assert 0 < finding.strength <= 1
        for remedy in finding.remedies:
            assert remedy.text
            if remedy.setting is not None:
                assert remedy.override is not None
                set_values(config, [remedy.override])


@pytest.mark.parametrize("id", sorted(RULES))
def test_a_rule_is_documented(id: str) -> None:
    each = RULES[id]
    assert each.title.endswith(".")
    assert "## Why it hurts" in each.doc
    assert "## When it is fine" in each.doc
    assert each.cites
    assert re.fullmatch(r"[a-z][a-z0-9-]+", each.name)


def test_rules_are_found_by_id_and_by_name_and_the_nearest_is_offered() -> None:
    assert rule.find("pol101") is rule.find("policy-step-too-large") is RULES["POL101"]
    with pytest.raises(NotFound, match="policy-step-too-large"):
        rule.find("policy-step-to-large")


def test_selecting_and_ignoring_take_beginnings_of_ids() -> None:
    assert {each.family for each in rule.selected(["POL"])} == {"policy"}
    assert "POL101" not in {each.id for each in rule.selected(["POL"], ["POL101"])}
    with pytest.raises(NotFound, match="no rule begins with 'XYZ'"):
        rule.selected(["XYZ"])


def test_a_rule_without_documentation_or_with_a_taken_id_is_refused() -> None:
    def check(case: Case) -> list[Finding]:
        """Something."""
        return []

    with pytest.raises(ValueError, match="Why it hurts"):
        rule.rule("ZZZ999", severity=Severity.LOW)(check)
    check.__doc__ = "A fault.\n\n## Why it hurts\nx\n\n## When it is fine\ny"
    with pytest.raises(ValueError, match="the id is taken"):
        rule.rule("POL101", severity=Severity.LOW)(check)
    with pytest.raises(ValueError, match="no reference 'nobody1999'"):
        rule.rule("ZZZ999", severity=Severity.LOW, cites=["nobody1999"])(check)


def test_what_an_input_is_missing_is_named() -> None:
    history = healthy()
    case = Case(history)
    assert RULES["POL101"].missing(case) == []
    bare = Case(type(history)(id="x", source="csv", algo="ppo"))
    assert RULES["POL103"].missing(bare) == ["train/metrics/kl_divergence", "train/metrics/clip_fraction"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0113, "0.0113"),
        (1.5e-5, "1.5e-5"),
        (212.4, "212"),
        (104_233.0, "104k"),
        (2_500_000.0, "2.5M"),
        (0.0, "0"),
        (float("nan"), "-"),
        (0.0005, "0.0005"),
    ],
)
def test_numbers_are_said_shortly(value: float, text: str) -> None:
    assert rule.say(value) == text


@pytest.mark.parametrize(
    ("value", "weak", "strong", "wanted"), [(0, 1, 3, 0), (2, 1, 3, 0.5), (9, 1, 3, 1), (0.1, 0.5, 0.3, 1), (0.4, 0.5, 0.3, 0.5)]
)
def test_a_grade_goes_from_weak_to_strong_in_either_direction(value: float, weak: float, strong: float, wanted: float) -> None:
    assert rule.grade(value, weak, strong) == pytest.approx(wanted)
