"""Causes: weights add up, consequences are told from causes, and the shipped table is sound."""

import math

import pytest

from rlclinic.diagnosis import causes, registry
from rlclinic.diagnosis.causes import Weights
from rlclinic.diagnosis.findings import Cause, Evidence, GroupFinding, Remedy, Severity

RULES = {each.id for each in registry.rules()}


def finding(id: str, strength: float = 1.0, onset: float | None = None, runs: int = 4, **more: object) -> GroupFinding:
    return GroupFinding(
        rule=id,
        name=id.lower(),
        severity=Severity.HIGH,
        strength=strength,
        runs=tuple(f"r{n}" for n in range(runs)),
        judged=4,
        text=f"{id} happened",
        evidence=(Evidence(series="train/x", text="x"),),
        onset=onset,
        remedies=(),
    ).model_copy(update=more)


def weights(
    id: str, speaks: dict[str, float], prior: float = -2.0, key: set[str] | None = None, explains: set[str] | None = None
) -> Weights:
    return Weights(id, id, prior, speaks, frozenset(key or speaks), frozenset(explains or ()))


UNKNOWN = weights("unknown", {}, prior=0.0)
TABLE = {
    row.id: row
    for row in (
        UNKNOWN,
        weights("rate", {"AAA": 5.0, "BBB": 1.0}, key={"AAA"}, explains={"CCC"}),
        weights("critic", {"CCC": 5.0}),
        weights("doubtful", {"BBB": 1.0}),
    )
}


def test_without_findings_the_cause_is_unknown() -> None:
    found = causes.rank([], 4, TABLE)
    assert [(cause.id, cause.probability) for cause in found] == [("unknown", 1.0)]


def test_probabilities_are_the_softmax_of_prior_and_weights() -> None:
    found = causes.rank([finding("AAA", 0.8)], 4, TABLE)
    score = (-2 + 5 * 0.8) / causes.temperature()
    assert found[0].id == "rate"
    assert found[0].probability == pytest.approx(math.exp(score) / (math.exp(score) + 1), abs=1e-4)
    assert sum(cause.probability for cause in found) == pytest.approx(1, abs=1e-3)


def test_a_cause_without_its_key_finding_is_not_considered() -> None:
    assert "rate" not in {cause.id for cause in causes.rank([finding("BBB")], 4, TABLE)}


def test_what_the_first_cause_explains_counts_little_for_the_next() -> None:
    together = causes.rank([finding("AAA", onset=100.0), finding("CCC", 0.9, onset=500.0)], 4, TABLE)
    assert together[0].id == "rate"
    critic = next((cause for cause in together if cause.id == "critic"), None)
    assert critic is None or critic.probability < 0.1
    alone = causes.rank([finding("CCC", 0.9)], 4, TABLE)
    assert alone[0].id == "critic"


def test_a_cause_with_a_finding_of_its_own_is_listed_beside_one_that_is_far_likelier() -> None:
    table = {**TABLE, "sure": weights("sure", {"DDD": 12.0}, explains={"CCC"})}
    assert [cause.id for cause in causes.rank([finding("DDD"), finding("AAA", 0.4)], 4, table)] == ["sure", "rate"]
    # What the first one explains, or what is hardly seen, is none of its own.
    assert [cause.id for cause in causes.rank([finding("DDD"), finding("CCC"), finding("AAA", 0.2)], 4, table)] == ["sure"]


def test_what_began_before_the_first_cause_is_not_its_consequence() -> None:
    found = causes.rank([finding("AAA", onset=900.0), finding("CCC", 0.95, onset=100.0)], 4, TABLE)
    critic = next(cause for cause in found if cause.id == "critic")
    assert critic.consequence_of is None
    assert critic.probability > 0.2


def test_a_consequence_says_what_it_follows_from() -> None:
    found = causes.rank(
        [finding("AAA", onset=1.0), finding("CCC", 1.0, onset=5.0)], 4, {**TABLE, "critic": weights("critic", {"CCC": 9.0}, 0.5)}
    )
    assert {cause.id: cause.consequence_of for cause in found}.get("critic") in ("rate", None)
    assert found[0].consequence_of is None


def test_agreement_counts_the_runs_with_a_key_finding() -> None:
    found = causes.rank([finding("AAA", runs=3)], 4, TABLE)
    assert (found[0].agree, found[0].of) == (3, 4)


def test_a_setting_is_changed_once_by_the_strongest_finding() -> None:
    first = Remedy(setting="algo.x", value=1, text="one")
    second = Remedy(setting="algo.x", value=2, text="two")
    found = causes.rank([finding("AAA", remedies=(first,)), finding("BBB", remedies=(second,))], 4, TABLE)
    assert found[0].remedies == (first,)


# ── the shipped table ──


def test_every_rule_in_the_table_exists_and_keys_speak() -> None:
    for row in causes.table().values():
        assert set(row.speaks) | row.key | row.explains <= RULES, row.id
        assert row.key <= set(row.speaks), row.id
        assert all(row.speaks[id] > 0 for id in row.key), row.id
        assert row.id == "unknown" or row.prior < 0, row.id


def test_every_serious_rule_speaks_for_a_cause() -> None:
    used = {id for row in causes.table().values() for id, weight in row.speaks.items() if weight > 0}
    silent = {each.id for each in registry.rules() if each.severity is not Severity.LOW} - used
    # Consequences and remarks: they explain nothing by themselves. That nothing ever succeeded follows from any fault.
    # A straggler and actors that die cost time, not learning.
    assert silent <= {"EVA802", "ENV605", "CFG106", "SUC103", "RNK106", "RNK110"}


def test_one_full_key_finding_alone_makes_its_cause_likely() -> None:
    for row in causes.table().values():
        strongest = max(row.key, key=lambda id: row.speaks[id], default=None)
        if strongest is not None:
            found = causes.rank([finding(strongest)], 1)
            assert row.id in {cause.id for cause in found[:3]}, row.id


def test_of_causes_that_are_about_as_likely_the_one_that_came_before_and_brings_the_other_about_is_first() -> None:
    rows = {
        "unknown": UNKNOWN,
        "sign": weights("sign", {"DOWN": 4.0, "SURE": 0.5}, key={"DOWN"}, explains={"SURE"}),
        "collapse": weights("collapse", {"SURE": 4.8}, explains={"DOWN"}),
    }
    ordered = causes.rank([finding("DOWN", onset=100.0), finding("SURE", onset=900.0)], 4, rows)
    assert [cause.id for cause in ordered][:1] == ["sign"]
    assert next(cause for cause in ordered if cause.id == "collapse").consequence_of == "sign"
    other = causes.rank([finding("DOWN", onset=900.0), finding("SURE", onset=100.0)], 4, rows)
    assert other[0].id == "collapse"
    far = causes.rank([finding("DOWN", 0.7, onset=100.0), finding("SURE", onset=900.0)], 4, rows)
    assert far[0].id == "collapse"


# ── where a cause lies ──

KINDS = {
    "nothing wrong": {"healthy", "no-reference"},
    "cannot tell": {"too-early", "no-return"},
    "symptom": {"unknown", "not-finite", "run-failed", "unlucky-seed", "values-run-away", "dead-units", "exploration-collapsed"}
    | {
        "actor-saturated",
        "chosen-by-the-environment",
        "updates-too-small",
        "critic-explains-nothing",
        "progress-without-effect",
        "evaluation-mismatch",
        "more-labels-hurt",
    },
}


def test_every_cause_has_one_kind_and_what_is_no_fault_is_listed_once() -> None:
    known = causes.known()
    assert set(causes.table()) <= set(known)
    assert {kind: {id for id, row in known.items() if row.kind == kind} for kind in KINDS} == KINDS
    assert {row.kind for row in known.values()} - set(KINDS) == {"fault of settings", "fault of code", "fault of environment"}


def test_a_cause_of_an_older_file_gets_its_kind_by_its_id() -> None:
    old = '{"id": "reward-sign", "title": "x", "probability": 1.0, "severity": "high", "rules": [], "agree": 1, "of": 1}'
    assert Cause.model_validate_json(old).kind == "fault of environment"
    assert Cause.model_validate_json(old.replace("reward-sign", "of-another-version")).kind == "symptom"


def test_a_cause_without_a_setting_to_try_lies_in_the_code_or_the_environment_or_says_what_to_do() -> None:
    """Prescriptions say so of every cause without doses."""
    by_hand = {row.id for row in causes.known().values() if not row.doses and row.kind in ("fault of settings", "symptom")}
    assert by_hand == {"settings-mixed", "run-failed", "evaluation-mismatch", "cost-limit-missed"}


SYMPTOM = {
    row.id: row
    for row in (
        UNKNOWN,
        weights("updates-too-small", {"FAM101": 9.0}),
        weights("target-kl-too-tight", {"POL105": 4.0}),
        weights("critic-not-trained", {"VAL202": 4.0}),
        weights("unlucky-seed", {"BUD103": 9.0}),
        weights("reward-never-seen", {"REW505": 4.0}),
    )
}


def test_a_symptom_does_not_outrank_a_cause_that_it_lists_and_that_was_found() -> None:
    found = causes.rank([finding("FAM101"), finding("POL105", 0.6)], 4, SYMPTOM)
    assert [cause.id for cause in found[:2]] == ["target-kl-too-tight", "updates-too-small"]


def test_a_symptom_stays_first_beside_a_cause_that_it_does_not_list_or_that_is_hardly_seen() -> None:
    for other in (finding("VAL202"), finding("POL105", 0.4)):
        assert causes.rank([finding("FAM101"), other], 4, SYMPTOM)[0].id == "updates-too-small"


def test_unknown_has_no_evidence_that_something_likelier_has() -> None:
    table = {**TABLE, "unknown": weights("unknown", {"AAA": 0.5, "DDD": 0.4}, prior=0.0)}
    found = causes.rank([finding("AAA", 0.4), finding("DDD")], 4, table)
    assert found[0].id == "rate"
    unknown = next(cause for cause in found if cause.id == "unknown")
    assert unknown.rules == ("DDD",)
    assert next(cause for cause in causes.rank([finding("DDD")], 4, table) if cause.id == "unknown").rules == ("DDD",)


def test_what_one_seed_shows_does_not_explain_that_seeds_differ() -> None:
    assert causes.rank([finding("BUD103"), finding("REW505")], 4, SYMPTOM)[0].id == "unlucky-seed"
