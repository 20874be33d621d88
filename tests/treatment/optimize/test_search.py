"""Searches: what is tried next, what is stopped, what is proven, and that a killed search goes on."""

import json

import pytest
import yaml

from rlclinic.config import Config, files, set_values
from rlclinic.config.records import to_record
from rlclinic.errors import UsageError
from rlclinic.ops.treat import optimize as operation
from rlclinic.ops.treat.requests import OptimizeRequest
from rlclinic.runs.status_file import Status
from rlclinic.runs.store import Store
from rlclinic.treatment.optimize import blind_search, candidates, confirm, scores, search
from rlclinic.treatment.optimize.ledger import Ledger
from rlclinic.treatment.optimize.pruning import Pruner
from rlclinic.treatment.optimize.search import Request
from rlclinic.treatment.trial.models import Observation
from tests.treatment.pretended_training import pretend

SICK = ["algo.learning_rate=0.1", "run.max_env_steps=20000"]


def optimize(target, runs_dir, **request):
    return operation.optimize(OptimizeRequest(target=target, runs_dir=runs_dir, **request))


def config(*changes: str) -> Config:
    return files.load("CartPole-v1:ppo_zoo", [*SICK, *changes]).config


def rate_of(made: Config) -> float:
    return float(getattr(made.algo.learning_rate, "start", made.algo.learning_rate))


def learns_below(limit: float):
    """Runs reach the threshold at a third of their budget where the learning rate is below a limit, else never."""
    return lambda made: 0.3 if rate_of(made) <= limit else None


def never(_: Config) -> None:
    return None


# ── the whole search ──


@pytest.fixture(scope="module")
def cured(tmp_path_factory):
    """A search that found the cure of a learning rate that is far too high."""
    with pytest.MonkeyPatch.context() as patch:
        pretend(patch, learns_below(0.01))
        return optimize("CartPole-v1:ppo_zoo", tmp_path_factory.mktemp("runs"), budget=1_500_000, changes=SICK)


def test_a_sick_config_is_diagnosed_cured_settled_and_proven(cured):
    ledger = cured.ledger
    assert ledger.verdict == "adopted"
    assert [each.kind for each in ledger.rounds[:3]] == ["baseline", "screen", "settle"]
    assert ledger.rounds[-1].kind == "confirm"
    assert "policy step too large" in ledger.rounds[1].diagnosis
    assert ledger.best is not None
    assert ledger.best.reliable
    assert rate_of(ledger.best.entry.load_config()) <= 0.01
    assert ledger.spent <= ledger.budget


def test_the_tuned_variant_loads_as_the_config_that_won(cured):
    assert cured.ledger.best is not None
    tuned = files.load(f"{cured.files[-1]}:tuned").config
    assert tuned.algo == cured.ledger.best.entry.load_config().algo
    assert tuned.spec.threshold == 475
    assert tuned.run.stop_at_threshold is False
    assert cured.next == [f"rlclinic adopt {cured.ledger.confirmations[-1].trial} --as CartPole-v1:mine"]


def test_what_nothing_cures_ends_with_nothing_better_found(tmp_path, monkeypatch):
    pretend(monkeypatch, never)
    result = optimize("CartPole-v1:ppo_zoo", tmp_path, budget=600_000, changes=SICK)
    assert result.ledger.verdict in ("nothing better found", "not proven")
    assert result.ledger.state == "finished"
    assert result.ledger.spent <= 600_000
    # When the prescriptions are used up, points are drawn.
    assert any(entry.source == "search" for entry in result.ledger.tried)


def test_no_config_is_tried_twice(tmp_path, monkeypatch):
    pretend(monkeypatch, never)
    ledger = optimize("CartPole-v1:ppo_zoo", tmp_path, budget=900_000, changes=SICK).ledger
    screened = [json.dumps(entry.config, sort_keys=True) for each in ledger.rounds if each.kind == "screen" for entry in each.entries]
    assert len(screened) == len(set(screened))


def test_confirmations_share_one_error_budget(cured):
    assert 0 < cured.ledger.spent_alpha <= cured.ledger.alpha
    assert sum(confirm.SHARES) <= 1.0


def test_a_config_that_works_is_improved_and_not_cured(tmp_path, monkeypatch):
    pretend(monkeypatch, lambda made: max(0.05, min(0.5 * 1e-3 / rate_of(made), 1.0)))
    changes = ["run.max_env_steps=20000", "algo.learning_rate=1e-3"]
    ledger = optimize("CartPole-v1:ppo_zoo", tmp_path, budget=1_500_000, changes=changes).ledger
    assert ledger.rounds[1].kind == "improve"
    assert ledger.best is not None
    assert ledger.best.score < 10_000


def test_a_killed_search_goes_on_and_trains_nothing_twice(tmp_path, monkeypatch):
    first = pretend(monkeypatch, learns_below(0.01), kill_after=7)
    with pytest.raises(KeyboardInterrupt):
        optimize("CartPole-v1:ppo_zoo", tmp_path, budget=1_500_000, changes=SICK)
    again = pretend(monkeypatch, learns_below(0.01))
    result = operation.resume("@last", tmp_path)
    assert result.ledger.verdict == "adopted"
    assert not set(first.trained) & set(again.trained)
    shown = operation.resume("@last", tmp_path)
    assert shown.ledger == result.ledger


def test_a_group_that_was_trained_already_is_the_baseline_for_free(tmp_path, monkeypatch):
    pretend(monkeypatch, learns_below(0.01))
    made = config()
    group = Store(tmp_path).create_group([made.model_copy(update={"seed": seed}) for seed in (0, 1)])
    from rlclinic.launch import local

    local.start([[run.path for run in group.runs]]).wait()
    ledger = optimize(group.id, tmp_path, budget=600_000).ledger
    assert ledger.own_group == group.id
    assert ledger.rounds[0].used_env_steps == 0
    assert ledger.verdict == "adopted"


def test_returns_can_be_the_goal_where_there_is_no_threshold(tmp_path, monkeypatch):
    pretend(monkeypatch, learns_below(0.01))
    ledger = optimize("CartPole-v1:ppo_zoo", tmp_path, budget=1_500_000, outcome="return", changes=[*SICK, "spec.threshold=none"]).ledger
    assert ledger.best is not None
    assert ledger.best.entry.source != "start"
    assert -ledger.best.score > 400


@pytest.mark.parametrize("goal", ["wall", "stability"])
def test_less_time_and_less_spread_can_be_the_goal(tmp_path, monkeypatch, goal):
    pretend(monkeypatch, learns_below(0.01))
    ledger = optimize("CartPole-v1:ppo_zoo", tmp_path, budget=400_000, outcome=goal, changes=SICK).ledger
    assert ledger.state == "finished"
    assert ledger.spent <= 400_000
    assert ledger.best is not None


# ── requests ──


@pytest.mark.parametrize(
    ("more", "budget", "words"), [(["spec.threshold=none"], 10**6, "no threshold is known"), ([], 10_000, "Nothing could be compared")]
)
def test_a_request_that_cannot_work_is_refused_before_anything_is_spent(tmp_path, more, budget, words):
    with pytest.raises(UsageError, match=words):
        search.begin(Store(tmp_path), Request("x", config(*more), budget))
    assert not list(tmp_path.glob("g*"))
    (tmp_path / "start.yaml").write_text(yaml.safe_dump({"ppo": to_record(config(*more))}))
    with pytest.raises(UsageError, match=words):
        operation.plan(OptimizeRequest(target=str(tmp_path / "start.yaml"), budget=budget, runs_dir=tmp_path))


def test_long_runs_are_searched_at_a_length_that_the_budget_pays_for(tmp_path):
    ledger = search.begin(Store(tmp_path), Request("x", config("run.max_env_steps=1000000"), 3_000_000))
    assert ledger.run_env_steps == 100_000
    assert ledger.start["run"]["eval_every_env_steps"] == 5_000


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("2h", 7_200), ("30min", 1_800), ("1.5h", 5_400)])
def test_an_end_can_be_a_duration(text, seconds):
    assert operation.seconds_until(text) == seconds


def test_an_end_can_be_a_time_of_day_and_is_the_next_one():
    import time

    noon = time.mktime((2026, 3, 2, 12, 0, 0, 0, 0, 0))
    assert operation.seconds_until("12:30", noon) == 1_800
    assert operation.seconds_until("11:30", noon) == 23.5 * 3_600


@pytest.mark.parametrize("text", ["soon", "25:00", "12:75", "", "3 weeks"])
def test_an_end_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="neither a time nor a duration"):
        operation.seconds_until(text)


# ── pruning ──


class _Run:
    def __init__(self, id: str, **state) -> None:
        self.id, self.status = id, Status(**{"state": "running", **state})


class _Group:
    def __init__(self, *runs: _Run) -> None:
        self.runs = list(runs)


def stopped(pruner: Pruner, groups: dict[str, _Group]) -> set[str]:
    return {run.id for run in pruner(groups)}  # type: ignore[arg-type]


def test_a_run_that_something_better_has_overtaken_is_stopped():
    groups = {
        "fast": _Group(_Run("f", state="finished", env_steps=1_000, threshold_reached_at=1_000)),
        "slow": _Group(_Run("s", env_steps=2_001)),
        "young": _Group(_Run("y", env_steps=1_900)),
    }
    assert stopped(Pruner(10_000), groups) == {"s"}
    assert stopped(Pruner(10_000, capped=False), groups) == set()


def test_the_best_so_far_caps_a_round_before_any_of_it_got_there():
    groups = {"slow": _Group(_Run("s", env_steps=2_001)), "young": _Group(_Run("y", env_steps=500))}
    assert stopped(Pruner(10_000, known=1_000), groups) == {"s"}


def test_the_worse_half_stops_at_a_rung_and_late_comers_are_judged_by_all():
    pruner = Pruner(10_000)
    early = {name: _Group(_Run(name, env_steps=3_000, return_mean=value)) for name, value in zip("abc", (10.0, 20.0, 30.0), strict=True)}
    assert stopped(pruner, early) == set()
    late = {**early, "d": _Group(_Run("d", env_steps=3_100, return_mean=5.0))}
    assert stopped(pruner, late) == {"a", "d"}


def test_a_config_with_a_run_that_got_there_is_never_behind():
    pruner = Pruner(10_000)
    groups = {name: _Group(_Run(name, env_steps=4_000, return_mean=float(place))) for place, name in enumerate("abcd")}
    groups["a"].runs.append(_Run("a2", state="finished", env_steps=3_900, threshold_reached_at=3_900, return_mean=1.0))
    assert "a" not in stopped(pruner, groups)


# ── blind search ──


def test_points_cover_the_cube_and_become_settings_that_the_schema_accepts():
    made = config()
    for index in range(24):
        at = blind_search.point(made, index, seed=3)
        assert all(0 <= value < 1 for value in at.values())
        from rlclinic.treatment.prescription.prescription import changed

        assert changed(made, blind_search.settings(made, at)) != made


@pytest.mark.parametrize("algo", ["ppo", "a2c", "reinforce", "dqn", "sac", "td3", "ddpg"])
def test_every_point_of_the_search_is_a_config_that_the_schema_takes(algo):
    made = set_values(files.load("CartPole-v1:ppo_zoo").config, [f"algo.name={algo}"])
    fitting = 0
    for index in range(32):
        changes = blind_search.settings(made, blind_search.point(made, index, 3))
        assert changes
        tried = candidates.changed_or_none(made, changes)
        fitting += tried is not None and tried != made and tried.algo.name == algo
    assert fitting == 32


def test_the_sequence_is_even_where_chance_is_not():
    points = [blind_search.halton(index, 2)[0] for index in range(64)]
    counts = [sum(low <= value < low + 0.125 for value in points) for low in (place / 8 for place in range(8))]
    assert max(counts) - min(counts) <= 1


def test_optuna_is_asked_and_told_by_the_ledger_alone():
    pytest.importorskip("optuna")
    made = config()
    told = [(blind_search.point(made, index, 0), float(index)) for index in range(12)]
    assert blind_search.tpe_points(made, told, 2, 1) == blind_search.tpe_points(made, told, 2, 1)


@pytest.mark.loop
def test_a_real_search_cures_a_learning_rate_that_is_far_too_low(tmp_path):
    changes = ["algo.learning_rate=1e-6", "run.max_env_steps=8192", "run.eval_every_env_steps=2048", "run.eval_episodes=5"]
    store = Store(tmp_path)
    made = files.load("CartPole-v1:ppo_zoo", changes).config
    ledger = search.begin(store, Request("CartPole-v1:ppo_zoo", made, 247_000, run_env_steps=8_192))
    ended = search.carry_out(store, ledger, cores=1, enough=lambda known: len(known.rounds) > 1 and known.rounds[1].done)
    start = ended.rounds[0].entries[0]
    assert ended.best is not None
    assert ended.best.entry.source != "start"
    assert (ended.best.entry.final or 0.0) > (start.final or 0.0)
    assert ended.best.reached >= start.reached


def test_a_run_that_lost_the_threshold_again_did_not_get_there():
    ledger = Ledger.model_construct(outcome="steps", run_env_steps=100_000)
    stayed = Observation.model_construct(reached_at=20_000, lost=False)
    fell = Observation.model_construct(reached_at=20_000, lost=True)
    assert scores.score(ledger, [stayed]) == 20_000
    assert scores.score(ledger, [fell]) == 100_000
