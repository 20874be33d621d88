"""The whole diagnosis: recorded groups, the same bytes every time, and logs that are short, torn, foreign or nonsense."""

import json
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from rlclinic import metrics
from rlclinic.diagnosis import engine
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EVAL_RETURN, RETURN
from rlclinic.diagnosis.findings import Diagnosis, Severity
from rlclinic.diagnosis.forecast.features import prefix
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.rules.imitation import NOISE
from rlclinic.errors import UsageError
from rlclinic.runs.history import History, make_series
from tests.diagnosis import recorded
from tests.diagnosis.builders import healthy, series, setting, unsolved

SICK = [name for name in recorded.names() if recorded.load(name)[0]["cause"] != "healthy"]


def foreign(history: History) -> History:
    """What Stable-Baselines3 would have logged of the same run, with its config."""
    kept = (
        "train/roll/ep_rew_mean",
        "train/roll/ep_len_mean",
        "val/roll/ep_rew_mean",
        "train/loss/",
        "train/metrics/kl",
        "train/metrics/clip",
    )
    kept += ("train/metrics/explained", "train/metrics/entropy", "train/hp/learning_rate", "train/hp/clip_range")
    return replace(history, source="sb3", series={name: each for name, each in history.series.items() if name.startswith(kept)})


# ── recorded groups ──


@pytest.mark.parametrize("name", SICK)
def test_the_cause_of_a_recorded_group_is_named_first(name: str) -> None:
    recipe, histories = recorded.load(name)
    found = engine.diagnose(histories)
    assert found.causes[0].id in (recipe["cause"], *recipe["also"]), [(cause.id, cause.probability) for cause in found.causes]
    assert found.worst is Severity.HIGH or recipe["mild"]


@pytest.mark.parametrize("name", recorded.names())
def test_the_same_group_gives_the_same_bytes_and_survives_json(name: str) -> None:
    first, again = (engine.diagnose(recorded.histories(name)).model_dump_json(indent=2) for _ in range(2))
    assert first == again
    assert Diagnosis.model_validate_json(first).model_dump_json(indent=2) == first
    assert "NaN" not in first


def test_all_cases_together_are_small() -> None:
    assert sum(path.stat().st_size for path in recorded.CASES.iterdir()) < 2_000_000


# ── answers ──


def test_a_solved_group_is_healthy_and_says_so() -> None:
    found = engine.diagnose(recorded.histories("cp-healthy"))
    assert (found.verdict, found.answer) == ("SOLVED", "healthy")
    assert found.facts.reached == 3
    assert not found.remedies
    assert not found.ruled_out


def test_without_a_threshold_a_run_that_learns_has_no_reference() -> None:
    found = engine.diagnose([replace(history, threshold=None) for history in recorded.histories("cp-healthy")])
    assert found.verdict == "NO THRESHOLD"
    assert found.causes[0].id == "no-reference"


def test_a_run_that_has_hardly_begun_is_too_early_to_judge() -> None:
    begun = {name: make_series(each.steps[:3], each.values[:3], name) for name, each in healthy().series.items() if len(each.steps) > 3}
    history = replace(healthy(), series={k: v for k, v in begun.items() if v is not None}, state="running", env_steps=800)
    found = engine.diagnose([history])
    assert (found.verdict, found.causes[0].id) == ("RUNNING", "too-early")


@pytest.mark.parametrize("share", [0.1, 0.25, 0.4, 0.5])
def test_a_healthy_run_that_is_not_there_yet_has_no_disease_while_it_runs(share: float) -> None:
    so_far = prefix(healthy(), share * (healthy().max_env_steps or 0), whole=True)
    found = engine.diagnose([so_far])
    assert (found.verdict, found.causes[0].id) == ("RUNNING", "too-early")


def test_of_a_group_that_still_runs_it_is_said_how_many_are_there_already() -> None:
    done, other, *_ = recorded.histories("cp-healthy")
    found = engine.diagnose([done, prefix(other, 0.1 * (other.max_env_steps or 0), whole=True)])
    assert found.causes[0].id == "too-early"
    assert found.answer.startswith("1 of 2 runs got there; the others: ")


def test_a_run_that_ends_while_it_rises_was_stopped_too_early() -> None:
    so_far = prefix(healthy(), 0.4 * (healthy().max_env_steps or 0), whole=True)
    assert engine.diagnose([replace(so_far, state="finished")]).causes[0].id == "budget-too-small"


def test_a_run_whose_slope_leads_to_the_threshold_within_its_budget_is_on_course() -> None:
    rising = series(healthy(), {"train/roll/ep_rew_mean": lambda share: 20 + 700 * share, "val/roll/ep_rew_mean": None})
    half_way = prefix(rising, 0.5 * (healthy().max_env_steps or 0), whole=True)
    assert Case(half_way).on_course
    assert not Case(half_way).sick
    assert Case(replace(half_way, threshold=2_000.0)).sick
    assert Case(replace(half_way, state="finished")).sick


def test_a_run_without_returns_is_not_judged() -> None:
    found = engine.diagnose([History(id="empty", source="csv")])
    assert (found.verdict, found.causes[0].id) == ("NO RETURN", "no-return")
    assert found.curve.steps == ()


def test_what_no_check_explains_is_unknown() -> None:
    level = {"train/roll/ep_rew_mean": lambda share: 100 + 100 * np.minimum(3 * share, 1), "val/roll/ep_rew_mean": 200.0}
    found = engine.diagnose([series(unsolved(), level)])
    assert found.verdict == "NOT SOLVED"
    assert found.causes[0].id == "unknown"


def test_no_run_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no run to diagnose"):
        engine.diagnose([])


def test_one_unlucky_seed_among_good_ones_is_luck_and_never_high() -> None:
    *good, last = recorded.histories("cp-healthy")
    found = engine.diagnose([*good, series(last, {"val/roll/ep_rew_mean": 100.0, "train/roll/ep_rew_mean": 60.0})])
    assert found.verdict == "PARTLY SOLVED"
    assert found.causes[0].id == "unlucky-seed"
    assert found.worst is not Severity.HIGH


def test_a_seed_that_solved_the_task_refutes_what_would_hold_for_every_seed() -> None:
    stuck = engine.registry.find("ENV616").bad()  # type: ignore[misc]
    assert engine.diagnose([stuck]).causes[0].id == "actions-without-effect"
    together = engine.diagnose([stuck, replace(healthy(), id="other")])
    assert "actions-without-effect" not in {cause.id for cause in together.causes}


def test_a_fault_that_did_no_harm_is_no_more_than_a_remark() -> None:
    found = engine.diagnose([setting(history, algo__gae_lambda=0.0) for history in recorded.histories("cp-healthy")])
    assert [finding.rule for finding in found.findings] == ["VAL210"]
    assert found.worst is Severity.LOW


def test_an_invariant_that_broke_is_told_even_where_the_run_was_solved() -> None:
    found = engine.diagnose([series(history, {"train/sentinel/ratio_first_dev": 0.4}) for history in recorded.histories("cp-healthy")])
    assert found.worst is Severity.MEDIUM
    assert [cause.id for cause in found.causes] == ["log-prob-mismatch", "healthy"]


def test_two_faults_at_once_are_both_named() -> None:
    group = [setting(series(h, {"train/sentinel/ratio_first_dev": 0.4}), algo__gamma=0.3) for h in recorded.histories("cp-lr-x100")]
    group = [series(h, {"train/hp/gamma": 0.3}) for h in group]
    named = {cause.id for cause in engine.diagnose(group).causes[:3]}
    assert len(named & {"log-prob-mismatch", "discount-too-low", "learning-rate-too-high"}) >= 2


def test_remedies_come_from_likely_causes_and_are_at_most_three() -> None:
    found = engine.diagnose(recorded.histories("cp-lr-x100"))
    assert 1 <= len(found.remedies) <= 3
    assert found.remedies[0].setting == "algo.learning_rate"
    assert found.watch
    assert found.ruled_out


def test_rules_can_be_selected_and_ignored() -> None:
    histories = recorded.histories("cp-lr-x100")
    assert {finding.rule[:3] for finding in engine.diagnose(histories, select=["POL", "LRN"]).findings} <= {"POL", "LRN"}
    assert "LRN101" not in {finding.rule for finding in engine.diagnose(histories, ignore=["LRN101"]).findings}


# ── foreign and damaged logs ──


def test_a_foreign_log_says_what_it_lacks_and_what_to_paste() -> None:
    found = engine.diagnose([foreign(history) for history in recorded.histories("cp-lr-x100")])
    assert found.causes[0].id == "learning-rate-too-high"
    lacking = {each.rule: each for each in found.unassessable}
    assert "POL106" in lacking
    assert lacking["POL106"].missing == ("train/sentinel/ratio_first_dev",)
    assert lacking["POL106"].paste[0] == "from rlclinic.sentinels.sb3 import SentinelCallback"
    assert found.checks.not_assessable == len(found.unassessable)
    assert found.checks.total == found.checks.failed + found.checks.passed + found.checks.not_assessable + found.checks.not_applicable


def test_our_own_runs_lack_nothing() -> None:
    assert engine.diagnose(recorded.histories("cp-lr-x100")).unassessable == ()


@pytest.mark.parametrize("name", ["cp-healthy", "pd-healthy", "cp-lr-x100"])
@pytest.mark.parametrize("keep", [0, 1, 2, 5, 20])
def test_a_log_cut_anywhere_is_diagnosed_as_far_as_it_goes(name: str, keep: int) -> None:
    group = []
    for history in recorded.histories(name):
        cut = {key: make_series(each.steps[:keep], each.values[:keep], key) for key, each in history.series.items()}
        group.append(replace(history, series={key: each for key, each in cut.items() if each is not None}))
    assert engine.diagnose(group).verdict


NAMES = [name for name in metrics.METRICS if name not in ("time", "total_timesteps", "epoch")]
VALUES = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, 1.0, -1.0, 1e300, -1e300, 1e-300, 0.5]), st.floats(-10, 10)
)
SETTINGS = st.dictionaries(
    st.sampled_from(sorted(healthy().settings)),
    st.one_of(
        st.none(),
        st.floats(),
        st.integers(-5, 10**6),
        st.text(max_size=5),
        st.booleans(),
        st.lists(st.integers(), max_size=3),
        st.just({"start": 1e-3}),
    ),
    max_size=8,
)


@settings(max_examples=60)
@given(st.data())
def test_no_log_whatever_makes_the_diagnosis_fail(data: Any) -> None:
    columns = data.draw(st.lists(st.sampled_from(NAMES), max_size=12, unique=True))
    rows = data.draw(st.integers(0, 40))
    steps = np.sort(np.array(data.draw(st.lists(st.floats(0, 1e7), min_size=rows, max_size=rows))))
    found = {}
    for name in columns:
        made = make_series(steps, data.draw(st.lists(VALUES, min_size=rows, max_size=rows)), name)
        if made is not None:
            found[name] = made
    history = History(
        id="x",
        source=data.draw(st.sampled_from(["rlclinic", "sb3", "csv"])),
        algo=data.draw(st.sampled_from(["ppo", "a2c", "dqn", None])),
        threshold=data.draw(st.one_of(st.none(), st.floats(-1e6, 1e6))),
        max_env_steps=data.draw(st.one_of(st.none(), st.integers(1, 10**8))),
        settings={**(healthy().settings if data.draw(st.booleans()) else {}), **data.draw(SETTINGS)},
        series=found,
        state=data.draw(st.sampled_from(["finished", "running", "stopped", "failed", "unknown"])),
        reason=data.draw(st.one_of(st.none(), st.text(max_size=20))),
        segments=tuple(data.draw(st.lists(st.floats(0, 1e7), max_size=2))),
    )
    text = engine.diagnose([history, replace(history, id="y", seed=1)]).model_dump_json()
    assert json.loads(text)["verdict"]


def test_what_ended_a_run_before_its_first_step_is_its_cause_whatever_its_settings_are() -> None:
    base = replace(setting(unsolved(), algo__gamma=0.3), state="failed", reason="checkpoint 20 cannot be used.")
    never = replace(base, series={}, env_steps=0)
    assert engine.diagnose([never]).causes[0].id == "run-failed"
    assert [finding.rule for finding in engine.diagnose([never]).findings] == ["CFG107"]
    assert "VAL208" in [finding.rule for finding in engine.diagnose([replace(never, env_steps=2048)]).findings]


def test_a_cause_tells_the_story_of_one_run_and_says_which_other_seed_shows_something_else() -> None:
    """One seed makes huge steps, the other stands still: their numbers are not told in one sentence as if they were one run's."""
    kl = "train/metrics/kl_divergence"
    wild = replace(series(setting(unsolved(), algo__learning_rate=0.05), {kl: 0.588}), id="a-s0", seed=0)
    still = replace(series(setting(unsolved(), algo__learning_rate=0.05), {kl: 4.2e-16}), id="a-s1", seed=1)
    first = engine.diagnose([wild, still], select=["POL101", "POL102", "LRN101"]).causes[0]
    assert first.id == "learning-rate-too-high"
    assert first.moved_first.startswith("KL 0.588 per update (median)")
    (other,) = [part for part in first.with_it.split(" · ") if "KL " in part]
    assert other.startswith("the policy stands still: KL 4.2e-16 per update (median)")
    assert other.endswith("(in seed 1)")


def test_what_every_run_shows_is_told_with_the_numbers_of_the_run_that_leads() -> None:
    kl, values = "train/metrics/kl_divergence", "train/metrics/explained_variance"
    runs = [
        replace(series(unsolved(), {kl: level, values: explained, "train/sentinel/return_std": 5.0}), id=f"a-s{seed}", seed=seed)
        for seed, (level, explained) in enumerate([(0.1, 0.001), (0.04, -3.0)])
    ]
    first = engine.diagnose(runs, select=["POL101", "VAL201"]).causes[0]
    assert "KL 0.1 per update" in first.moved_first
    assert "explained variance 0.001" in first.with_it
    assert "explained variance -3" not in first.with_it


def test_a_threshold_passed_in_noisy_evaluations_is_told_as_passed_with_the_doubt_beside_it() -> None:
    noisy = {"val/roll/ep_rew_mean": 510.0, "val/roll/ep_rew_std": 600.0}
    found = engine.diagnose([cases.solved(noisy, settings={"run.eval_episodes": 4}, threshold=500.0)])
    assert [cause.id for cause in found.causes] == ["healthy", "evaluation-too-noisy"]
    assert 0.5 < found.causes[0].probability < 1
    assert max(cause.severity.rank for cause in found.causes) == Severity.LOW.rank


def test_two_rules_that_read_the_same_number_say_it_once() -> None:
    """LRN103 and POL102 gave one KL twice, side by side."""
    found = engine.diagnose(recorded.histories("cp-lr-d100"))
    first = found.causes[0]
    assert {"LRN103", "POL102"} <= {finding.rule for finding in found.findings}
    assert first.moved_first.startswith("KL ")
    assert first.with_it
    assert "KL " not in first.with_it


def test_two_rules_that_see_the_same_setting_say_it_once() -> None:
    """LRN101 and QVL106 gave two limits for one rate, side by side."""
    found = engine.diagnose([cases.q_learner(settings={"algo.learning_rate": 0.05})])
    (cause,) = (each for each in found.causes if each.id == "learning-rate-too-high")
    assert {"LRN101", "QVL106"} <= {finding.rule for finding in found.findings}
    assert cause.because.count("tuned settings stay below") == 1


def test_what_all_lost_seeds_share_is_told_before_chance_is() -> None:
    def asked_twice(noise: float, ends: float, id: str) -> History:
        scatter = np.random.default_rng(ord(id)).uniform(0.0, 20.0, 8)
        judged = np.array([-1450.0, -920.0, -700.0, -400.0, -180.0, -150.0, ends, ends]) - scatter
        shapes = {NOISE: noise, EVAL_RETURN: lambda share: judged, RETURN: lambda share: 900.0 * share - 1100.0 - scatter}
        return replace(cases.imitator(shapes, threshold=-200.0), id=id)

    seeds = [(0.4, -600.0, "a"), (0.4, -150.0, "b"), (0.4, -140.0, "c")]
    found = engine.diagnose([asked_twice(*seed) for seed in seeds])
    assert (found.verdict, found.causes[0].id) == ("REACHED, THEN LOST", "expert-inconsistent")
    assert found.causes[0].severity is Severity.MEDIUM
    # Without a measured reason it may be chance, and a run that is over is not early.
    found = engine.diagnose([asked_twice(0.0, ends, id) for _, ends, id in seeds])
    assert "1 of 3 seeds lost" in found.answer
    # A seed that others share the reason with, and that did well, is no alarm.
    found = engine.diagnose([asked_twice(0.4, -150.0, id) for _, _, id in seeds])
    assert found.answer == "healthy"
