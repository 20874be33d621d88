"""Learned effects: how outcomes are read from trials, how few of them are shrunk, and whether forecasts hold."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlclinic.config import Config, files, set_values, to_record
from rlclinic.errors import UsageError
from rlclinic.report import trial as report
from rlclinic.runs import trials
from rlclinic.runs.store import Store
from rlclinic.treatment.prescription import recorded_effects
from rlclinic.treatment.prescription.prescription import gap_closed
from rlclinic.treatment.prescription.recorded_effects import Effects, RecordedOutcome, direction, directions
from rlclinic.treatment.trial.models import Range

RATE = {"algo.learning_rate": {"start": 1e-3, "end": 0.0, "schedule": "linear"}}
DOWN = {"algo.learning_rate": "down"}
CAUSE = "learning-rate-too-high"


def config(*changes: str) -> Config:
    return files.load("CartPole-v1:ppo_zoo", ["algo.learning_rate=0.01", *changes]).config


def outcome(
    value: float, *, number: int = 0, cause: str = CAUSE, changes: dict[str, str] | None = None, adopted: bool | None = None, **more: Any
) -> RecordedOutcome:
    fields = {
        "trial": f"t{number}", "env_id": "CartPole-v1", "algo": "ppo", "measure": "steps", "low": None, "high": None, "seeds": 8,
        "adopted": value < 1 if adopted is None else adopted, **more,
    }  # fmt: skip
    return RecordedOutcome(cause=cause, changes=DOWN if changes is None else changes, value=value, **fields)


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (1e-2, 1e-3, "down"),
        (1e-3, {"start": 1e-2, "end": 0.0}, "up"),
        (1e-3, {"start": 1e-3, "end": 0.0}, "falls"),
        (None, 0.02, "on"),
        (0.2, None, "off"),
        (False, True, "on"),
        (True, False, "off"),
        ("sgd", "adam", "adam"),
        ([1], [64, 64], "up"),
        ([], [{"id": "RescaleAction"}], "up"),
    ],
)
def test_a_change_is_known_by_its_direction(old, new, wanted):
    assert direction(old, new) == wanted


def test_directions_are_those_from_the_config_at_hand():
    assert directions(config(), RATE) == DOWN
    assert directions(config("algo.learning_rate=1e-5"), RATE) == {"algo.learning_rate": "up"}


def test_without_a_trial_of_the_change_nothing_is_forecast():
    assert Effects().expect(CAUSE, RATE, config()) is None
    other = Effects([outcome(0.5, changes={"algo.gamma": "up"})])
    assert other.expect(CAUSE, RATE, config()) is None


def test_one_trial_is_shrunk_towards_no_effect_and_many_are_believed():
    one = Effects([outcome(0.25)]).expect(CAUSE, RATE, config())
    many = Effects([outcome(0.25, number=n) for n in range(40)]).expect(CAUSE, RATE, config())
    assert one is not None
    assert many is not None
    assert 0.25 < one.value < 1.0
    assert many.value == pytest.approx(0.25, rel=0.1)
    assert many.high / many.low < one.high / one.low
    assert (one.trials, many.trials, many.adopted) == (1, 40, 40)


def test_relatives_pull_a_change_that_was_tried_once():
    alone = Effects([outcome(0.9)]).expect(CAUSE, RATE, config())
    cousins = [outcome(0.2, number=n, changes={"algo.n_epochs": "down"}) for n in range(20)]
    among = Effects([outcome(0.9), *cousins]).expect(CAUSE, RATE, config())
    assert alone is not None
    assert among is not None
    assert among.value < alone.value
    assert among.trials == 1


def test_a_change_tried_for_another_cause_is_better_than_nothing():
    found = Effects([outcome(0.5, cause="too-many-epochs")]).expect(CAUSE, RATE, config())
    assert found is not None
    assert found.trials == 1


def test_what_was_tried_with_another_kind_of_learner_forecasts_nothing():
    found = Effects([outcome(0.5, number=n) for n in range(6)])
    learner = set_values(config(), ["algo.name=dqn", "algo.learning_rate=0.1"])
    assert found.expect(CAUSE, RATE, config()) is not None
    assert found.expect(CAUSE, RATE, learner) is None
    assert found.chance(CAUSE, RATE, learner, 0.5) == 0.5
    own = Effects([each.model_copy(update={"algo": "sac"}) for each in found.outcomes])
    assert own.expect(CAUSE, RATE, learner) is not None
    assert own.expect(CAUSE, RATE, config()) is None


def test_four_of_five_new_trials_fall_into_the_interval():
    draws = np.random.default_rng(0)
    held, widths = [], []
    for _ in range(150):
        centre = draws.normal(-0.5, 0.4)
        truths = {number: draws.normal(centre, 0.4) for number in range(5)}
        seen = [
            outcome(math.exp(draws.normal(truth, 0.35)), number=place, changes={f"algo.s{number}": "down"})
            for number, truth in truths.items()
            for place in range(4)
        ]
        mean, deviation, freedom = Effects(seen).predict([each for each in seen if each.changes == {"algo.s0": "down"}], "steps")
        half = recorded_effects._t80(freedom) * deviation
        new = draws.normal(truths[0], 0.35)
        held.append(mean - half <= new <= mean + half)
        widths.append(math.exp(2 * half))
    assert 0.72 <= np.mean(held) <= 0.88
    assert np.median(widths) < 4


@pytest.mark.parametrize("truth", [0.0, -0.5, -1.2, -2.0])
def test_a_forecast_from_a_single_own_trial_holds_nine_of_ten_new_ones(truth):
    # Trials of one change differ by a deviation that is unknown and may be small or large, and by the chance of their seeds.
    draws, made = np.random.default_rng(5), config()
    held = 0
    for _ in range(500):
        apart = math.hypot(abs(draws.normal(0, 0.5)), 0.25)
        seen, new = draws.normal(truth, apart, 2)
        found = Effects([outcome(math.exp(seen))], {"return": 1.067}).expect(CAUSE, RATE, made)
        assert found is not None
        assert found.level == 0.9
        held += found.low <= math.exp(new) <= found.high
    assert held / 500 >= 0.9


def test_a_forecast_from_a_single_own_trial_holds_nine_of_ten_cells_of_the_same_change():
    groups: dict[str, list[RecordedOutcome]] = {}
    for each in recorded_effects.shipped():
        groups.setdefault(recorded_effects._key(each), []).append(each)
    held = []
    for members in groups.values():
        for one, other in itertools.permutations(members, 2):
            own = one.model_copy(update={"trial": "t1"})
            alone = Effects([own])
            mean = alone.predict([own], own.measure)[0]
            held.append(abs(other.value - mean) <= recorded_effects._T90 * alone.deviation_of_one(own, mean))
    assert np.mean(held) >= 0.9


def test_cells_of_planted_faults_are_not_called_trials():
    cells = [outcome(0.9, number=n, measure="return", adopted=n > 0, trial=f"corpus a/b:{n} rx1") for n in range(11)]
    found = Effects(cells).expect(CAUSE, RATE, config())
    assert found is not None
    assert (found.trials, found.cells, found.cells_improved) == (11, 11, 10)
    assert "improved 10 of 11 groups with this fault planted (4 seeds each)" in found.text
    assert "trial" not in found.text
    both = Effects([*cells, outcome(0.8, measure="return", adopted=True)]).expect(CAUSE, RATE, config())
    assert both is not None
    assert "improved 10 of 11 groups with this fault planted (4 seeds each) and was adopted by 1 of 1 own trial" in both.text


def test_every_shipped_outcome_is_a_cell_of_four_seeds():
    assert {(each.trial.startswith(recorded_effects.CELL), each.seeds) for each in recorded_effects.shipped()} == {(True, 4)}


def test_a_gain_of_return_is_forecast_in_shares_of_the_gap():
    found = Effects([outcome(0.9, number=n, measure="return", adopted=True) for n in range(10)]).expect(CAUSE, RATE, config())
    assert found is not None
    assert found.measure == "return"
    assert 0.6 < found.value <= 0.9
    assert "% of the gap closed" in found.text


def test_a_share_of_a_gap_is_not_promised_to_a_task_that_has_no_threshold():
    known = Effects([outcome(1.07, number=number, measure="return", adopted=True) for number in range(4)])
    bare = config().model_copy(update={"spec": config().spec.model_copy(update={"threshold": None})})
    said = known.expect(CAUSE, RATE, bare).text
    assert said.startswith("measured on tasks with a threshold; this one has none; such a change was adopted by 4 of 4")
    assert "%" not in said
    assert "this one has none" not in known.expect(CAUSE, RATE, config()).text


def test_every_trial_moves_the_chance_of_helping():
    good, bad = Effects([outcome(0.5)]), Effects([outcome(1.4)])
    assert bad.chance(CAUSE, RATE, config(), 0.5) < 0.5 < good.chance(CAUSE, RATE, config(), 0.5)
    assert good.chance(CAUSE, RATE, config(), 0.5) == pytest.approx((0.5 * 4 + 1) / 5)
    elsewhere = good.chance("other", RATE, config(), 0.5)
    assert elsewhere == 0.5 < good.chance(CAUSE, RATE, config(), 0.5)


# ── from trials ──


def record(**more: Any) -> dict[str, Any]:
    control = config()
    treated = set_values(control, ["algo.learning_rate=1e-3"])
    return {
        "schema_version": 1, "id": "t3f", "created": 1.0, "env_id": "CartPole-v1", "algo": "ppo", "outcome": "steps", "threshold": 475.0,
        "verdict": "adopt", "winner": "rx1", "context": {"cause": CAUSE},
        "arms": [
            {"name": "control", "changes": [], "config": to_record(control), "final": {"value": 200.0, "low": 150.0, "high": 250.0}},
            {"name": "rx1", "changes": ["algo.learning_rate=0.001"], "config": to_record(treated)},
        ],
        "effects": [{
            "arm": "rx1", "changes": ["algo.learning_rate=0.001"], "verdict": "adopt", "seeds": 8,
            "ratio": {"value": 0.4, "low": 0.3, "high": 0.6},
        }],
        **more,
    }  # fmt: skip


def stored(tmp_path, *records: dict[str, Any]) -> Store:
    store = Store(tmp_path)
    for entry in records:
        trials.folder(store, entry["id"]).mkdir(parents=True)
        trials.write(store, entry["id"], entry)
    return store


def test_a_finished_trial_is_an_outcome(tmp_path):
    found = recorded_effects.load(stored(tmp_path, record()), recorded=False).outcomes
    assert len(found) == 1
    assert (found[0].trial, found[0].cause, found[0].changes, found[0].value, found[0].adopted) == ("t3f", CAUSE, DOWN, 0.4, True)


def test_a_running_trial_says_nothing_yet(tmp_path):
    assert recorded_effects.load(stored(tmp_path, record(verdict=None)), recorded=False).outcomes == ()


def test_where_no_untreated_run_got_there_the_bound_counts(tmp_path):
    entry = record()
    entry["effects"][0]["ratio"] = {"value": None, "low": None, "high": 0.42}
    found = recorded_effects.load(stored(tmp_path, entry), recorded=False).outcomes
    assert found[0].value == 0.42


def test_a_trial_of_returns_counts_the_share_of_the_gap(tmp_path):
    entry = record(outcome="return")
    entry["effects"][0] |= {"ratio": None, "gain": {"value": 110.0, "low": 55.0, "high": 165.0}}
    found = recorded_effects.load(stored(tmp_path, entry), recorded=False).outcomes
    assert (found[0].measure, found[0].value, found[0].low, found[0].high) == ("return", 0.4, 0.2, 0.6)


def test_the_gap_is_counted_alike_by_what_is_recorded_and_by_whether_a_forecast_held(tmp_path):
    entry = record(outcome="return")
    entry["effects"][0] |= {"ratio": None, "gain": {"value": 110.0, "low": 55.0, "high": 165.0}}
    entry["arms"][1]["final"] = {"value": 420.0, "low": 400.0, "high": 440.0}
    found = recorded_effects.load(stored(tmp_path, entry), recorded=False).outcomes
    # Seeds that collapse pull the two measures of a gain apart: by interquartile means it is 220 of 275.
    assert found[0].value == pytest.approx(0.8) == pytest.approx(gap_closed(200.0, 420.0, 475.0))
    trial = SimpleNamespace(threshold=475.0, control=SimpleNamespace(final=Range(value=200.0, low=None, high=None)), arms=[])
    trial.arms = [SimpleNamespace(name="rx1", final=Range(value=420.0, low=None, high=None))]
    assert report._gap_closed(trial, SimpleNamespace(arm="rx1")) == pytest.approx(found[0].value)
    assert gap_closed(480.0, 500.0, 475.0) is None


def test_arms_that_treat_different_causes_are_kept_apart(tmp_path):
    entry = record(context={"cause": "a", "causes": {"rx1": "b"}})
    assert recorded_effects.load(stored(tmp_path, entry), recorded=False).outcomes[0].cause == "b"


@pytest.mark.parametrize("arms", [[], [{"name": "control", "config": None}, {"name": "rx1", "config": None}], None])
def test_a_trial_without_configs_teaches_nothing(tmp_path, arms):
    assert recorded_effects.load(stored(tmp_path, record(arms=arms)), recorded=False).outcomes == ()


# ── the shipped table ──


def test_the_shipped_table_can_be_read_and_left_out(monkeypatch):
    assert all(isinstance(each, RecordedOutcome) for each in recorded_effects.shipped())
    monkeypatch.setattr(recorded_effects, "shipped", lambda: [outcome(0.5)])
    assert len(recorded_effects.load(None).outcomes) == 1
    assert recorded_effects.load(None, recorded=False).outcomes == ()


def test_a_table_is_written_and_read_back(tmp_path):
    path = tmp_path / "recorded_effects.json"
    recorded_effects.write(path, [outcome(0.5), outcome(0.7, number=1)], "made by a test")
    assert recorded_effects.read(path.read_text(), str(path)) == [outcome(0.5), outcome(0.7, number=1)]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"outcomes": [{"trial": 1}]}', '{"schema_version": 99, "outcomes": []}'])
def test_what_is_no_table_is_refused_with_what_to_type(text):
    with pytest.raises(UsageError, match=r"no table of outcomes|newer rlclinic"):
        recorded_effects.read(text, "effects.json")
