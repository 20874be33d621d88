"""Symptoms are told from causes: what may lie behind one, how sure a log can be, and algorithms that no rule knows."""

from dataclasses import replace
from pathlib import Path

import pytest

from rlclinic.diagnosis import causes, engine, registry
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import Diagnosis, Severity
from rlclinic.diagnosis.rules import cases
from rlclinic.ops.diagnose.diagnose import diagnose
from rlclinic.report.diagnosis import answer, bottlenecks
from rlclinic.report.document import render_compact, render_markdown
from rlclinic.report.models import DiagnosisReport
from rlclinic.runs.history import History
from rlclinic.serve.mcp.text import diagnosis as mcp

SAMPLES = Path(__file__).parents[1] / "readers" / "samples"
SMALL_UPDATES = {"train/metrics/kl_divergence": 0.001}


def small_updates() -> History:
    run = cases.foreign(scaled=SMALL_UPDATES)
    assert isinstance(run, History)
    return run


@pytest.fixture(scope="module")
def symptom() -> Diagnosis:
    return engine.diagnose([replace(small_updates(), settings={})])


@pytest.fixture(scope="module")
def zoo() -> DiagnosisReport:
    return diagnose(str(SAMPLES / "sb3_zoo"), write=False)


def test_every_symptom_names_causes_that_can_be_changed_and_their_shares_are_a_whole() -> None:
    for known in registry.known_causes().values():
        assert bool(known.behind) is (known.kind == "symptom"), known.id
        if known.behind:
            assert sum(each.share for each in known.behind) == pytest.approx(1.0), known.id
            assert all(causes.kind_of(each.cause) != "symptom" for each in known.behind), known.id
            assert known.covers <= {each.cause for each in known.behind}, known.id


def test_a_symptom_is_never_said_at_high_and_its_possible_causes_share_its_probability(symptom: Diagnosis) -> None:
    first = symptom.causes[0]
    assert (first.id, first.kind) == ("updates-too-small", "symptom")
    assert first.severity is not Severity.HIGH
    assert first.possible[0].probability == max(each.probability for each in first.possible)
    assert sum(each.probability for each in first.possible) == pytest.approx(first.probability, abs=0.05)
    assert all(each.tells and each.find_in for each in first.possible)


def test_what_was_found_still_counts_as_high_for_whoever_fails_on_it(symptom: Diagnosis) -> None:
    assert symptom.worst is Severity.HIGH


def test_a_possible_cause_whose_checks_passed_is_less_likely_than_before(symptom: Diagnosis) -> None:
    def share(diagnosis: Diagnosis) -> float:
        found = next(each for each in diagnosis.causes if each.id == "updates-too-small")
        return sum(each.probability for each in found.possible if each.id == "network-too-small") / found.probability

    known = engine.diagnose([replace(small_updates(), settings={"net.hidden": [64, 64]})])
    assert share(known) < share(symptom)


def test_a_possible_cause_says_what_its_checks_need_and_the_log_lacks(symptom: Diagnosis) -> None:
    needs = {name for each in symptom.causes[0].possible for name in each.needs}
    assert "config:algo.max_grad_norm" in needs


def test_where_a_log_cannot_tell_it_says_so_with_what_to_add(symptom: Diagnosis) -> None:
    doubt = symptom.cannot_tell
    assert doubt is not None
    assert doubt.text.startswith("cannot tell what lies behind it from this log: it lacks ")
    assert doubt.paste


def test_a_log_without_settings_and_updates_says_that_it_lacks_them() -> None:
    run = small_updates()
    bare = replace(run, settings={}, algo=None, series={name: one for name, one in run.series.items() if "/roll/" in name})
    doubt = engine.diagnose([bare]).cannot_tell
    assert doubt is not None
    assert doubt.lacks[:2] == ("the algorithm's name", "settings")
    assert any("losses" in each for each in doubt.lacks)


def test_a_clear_cause_and_a_run_that_is_well_need_no_word_about_the_log() -> None:
    assert engine.diagnose([cases.unsolved(settings={"algo.learning_rate": 10.0})]).cannot_tell is None
    assert engine.diagnose(list(cases.base("cp-healthy"))).cannot_tell is None


# ── every face says it ──


def test_a_terminal_says_first_what_cannot_be_told_and_names_a_command_for_each_possible_cause(zoo: DiagnosisReport) -> None:
    lines = render_compact(answer(zoo), 400).splitlines()
    doubt = next(place for place, line in enumerate(lines) if line.startswith("CANNOT TELL"))
    cause = next(place for place, line in enumerate(lines) if line.startswith("SYMPTOM 1"))
    assert doubt < cause
    assert "--env CartPole-v1" in " ".join(lines[cause:])
    assert "a symptom, not a cause" in render_markdown(bottlenecks(zoo))


def test_json_has_the_possible_causes_with_their_commands(zoo: DiagnosisReport) -> None:
    dumped = zoo.model_dump(mode="json")["diagnosis"]
    assert dumped["causes"][0]["kind"] == "symptom"
    assert all(each["find"].startswith("rlclinic ") for each in dumped["causes"][0]["possible"])
    assert Diagnosis.model_validate(dumped).causes[0].possible[0].id == zoo.diagnosis.causes[0].possible[0].id


def test_a_language_model_reads_the_same_and_no_command_that_only_people_type(zoo: DiagnosisReport) -> None:
    told = mcp.data(zoo, full=False)
    assert told["cannot_tell"]["paste"]
    assert told["causes"][0]["possible"][0]["probability"] > 0
    assert "CANNOT TELL" in mcp.concise(zoo)
    assert "may be" in mcp.concise(zoo)
    assert "rlclinic diagnose" not in mcp.detailed(zoo)


# ── algorithms ──


def test_an_algorithm_that_no_rule_knows_is_said_and_is_not_judged_by_rules_that_assume_one() -> None:
    run = replace(cases.unsolved({"total_episodes": 0.0}), algo="ars")
    found = engine.diagnose([run])
    assert "time-limit-missing" not in {each.id for each in found.causes}
    assert any(note.startswith("ars: an algorithm that checks do not know") for note in found.facts.notes)
    assert "time-limit-missing" in {each.id for each in engine.diagnose([replace(run, algo="ppo")]).causes}


def test_a_log_that_names_no_algorithm_is_not_judged_by_the_settings_of_one() -> None:
    rule = registry.find("LRN101")
    run = cases.unsolved(settings={"algo.learning_rate": 10.0})
    assert not rule.missing(Case(run))
    assert rule.missing(Case(replace(run, algo=None))) == ["config:algo.name"]


@pytest.mark.parametrize("folder", ["rllib/dqn_healthy", "tianshou/CartPole-v1/ppo/healthy"])
def test_a_healthy_run_of_another_framework_is_not_told_that_its_environment_is_wrong(folder: str) -> None:
    first = diagnose(str(SAMPLES / folder), write=False).diagnosis.causes[0]
    assert first.id not in ("environment-changed", "evaluation-mismatch")
    assert first.severity is not Severity.HIGH


def test_returns_that_fall_do_not_show_by_themselves_that_the_environment_changed() -> None:
    bad = registry.find("ENV611").bad
    assert bad is not None
    run = bad()
    assert isinstance(run, History)
    blind = replace(run, series={name: one for name, one in run.series.items() if "/roll/" in name})
    assert "ENV611" in {each.rule for each in engine.diagnose([run]).findings}
    assert "ENV611" not in {each.rule for each in engine.diagnose([blind]).findings}
