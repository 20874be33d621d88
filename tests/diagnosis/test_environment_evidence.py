"""The environment as a witness: faults that only transitions show, joined to logs; two environments compared; who may have code run."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from typer.testing import CliRunner

from rlclinic import core_time, trust
from rlclinic.diagnosis import engine, environment_evidence
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import Diagnosis, Finding, PossibleCause, Severity, Witness
from rlclinic.diagnosis.lint.env import lint_facts
from rlclinic.diagnosis.rules import cases
from rlclinic.errors import Untrusted, UsageError
from rlclinic.ops.diagnose import possible_causes
from rlclinic.ops.diagnose.diagnose import diagnose
from rlclinic.report.diagnosis import answer, describe_witness
from rlclinic.report.document import render_compact
from rlclinic.runs.history import History
from rlclinic.serve.cli.app import app
from rlclinic.training.envs.examine import play, search
from rlclinic.training.envs.examine.environment import examine
from tests.diagnosis.examined_envs import OF_TRANSITIONS, Clock, Walk
from tests.ops.recorded import record_group

SAMPLES = Path(__file__).parents[1] / "readers" / "samples"
Facts = dict[str, Any]


class Flipped(Walk):
    def reward(self) -> Any:
        return -self.place


class Paid(Walk):
    def reward(self) -> Any:
        return self.place - 2.0


class Doubled(Walk):
    def look(self) -> Any:
        return (2 * super().look()).clip(-2, 2)


class Longer(Walk):
    def step(self, action: Any) -> Any:
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, self.steps >= 60, info


@pytest.fixture(scope="module")
def look() -> Callable[[type[Walk]], Facts]:
    known: dict[type[Walk], Facts] = {}

    def look_at(kind: type[Walk]) -> Facts:
        if kind not in known:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(play, "RANDOM_STEPS", 1_200)
                patch.setattr(play, "CONSTANT_STEPS", 120)
                patch.setattr(play, "speed", lambda env: {"steps": 1_000.0, "seconds": 0.1})
                known[kind] = examine(kind, kind.__name__, 10.0)
        return known[kind]

    return look_at


def sick(**settings: object) -> History:
    """A log that does not learn and does not say why."""
    run = cases.foreign(cases.flat_returns(1.0))
    assert isinstance(run, History)
    series = {name: one for name, one in run.series.items() if "/roll/" in name}
    return replace(run, series=series, threshold=10.0, settings={name.replace("__", "."): value for name, value in settings.items()})


def joined(run: History, facts: Facts, evaluation: Facts | None = None) -> Diagnosis:
    beside = None if evaluation is None else (lint_facts(evaluation), evaluation)
    return environment_evidence.join(engine.diagnose([run]), [Case(run)], lint_facts(facts), facts, beside)


# ── what is seen ──


@pytest.mark.parametrize("fault", list(OF_TRANSITIONS))
def test_a_fault_that_only_transitions_show_is_found_and_is_the_first_cause(fault: str, look: Callable[[type[Walk]], Facts]) -> None:
    id, kind, cause = OF_TRANSITIONS[fault]
    facts = look(kind)
    assert id in {finding.rule for finding in lint_facts(facts).findings}
    first = joined(sick(), facts).causes[0]
    assert (first.id, first.rules[0]) == (cause, id)
    assert first.moved_first.startswith("seen in the environment: ")


class HiddenClock(Clock):
    def look(self) -> Any:
        return super().look()[[0, 0]] * np.array([1, -1], np.float32)


def test_a_fixed_number_of_steps_is_a_hidden_time_limit_only_where_observations_do_not_tell_the_time(
    look: Callable[[type[Walk]], Facts],
) -> None:
    shown, hidden = (joined(sick(), look(kind)).causes for kind in (Clock, HiddenClock))
    assert hidden[0].id == "time-limit-as-terminal"
    assert shown[0].id != "time-limit-as-terminal"


def test_a_sound_environment_testifies_to_nothing_and_lets_the_log_speak(look: Callable[[type[Walk]], Facts]) -> None:
    found = joined(sick(), look(Walk))
    assert found.witness is not None
    assert found.witness.seen == ()
    assert [cause.id for cause in found.causes] == [cause.id for cause in engine.diagnose([sick()]).causes]


def test_a_run_that_is_well_stays_well_whatever_its_environment_is_like(look: Callable[[type[Walk]], Facts]) -> None:
    (run,) = cases.base("cp-healthy")[:1]
    found = joined(run, look(OF_TRANSITIONS["blurred observations"][1]))
    assert found.causes[0].id == "healthy"
    assert found.worst is not Severity.HIGH


def test_a_setting_that_makes_up_for_a_scale_is_allowed_for(look: Callable[[type[Walk]], Facts]) -> None:
    facts = look(OF_TRANSITIONS["tiny observations"][1])
    assert joined(sick(), facts).causes[0].id == "observation-scale"
    assert joined(sick(env__normalize_obs=True), facts).causes[0].id != "observation-scale"


def test_what_the_environment_shows_outranks_what_the_log_makes_likely(look: Callable[[type[Walk]], Facts]) -> None:
    run = cases.unsolved(settings={"algo.learning_rate": 10.0})
    before = engine.diagnose([run]).causes[0]
    found = joined(run, look(OF_TRANSITIONS["the start is shown for ever"][1]))
    assert found.causes[0].id == "observation-not-updated"
    assert before.id in {cause.id for cause in found.causes[1:]}


def test_what_the_log_says_and_the_environment_does_not_bear_out_is_a_contradiction(look: Callable[[type[Walk]], Facts]) -> None:
    run = cases.unsolved({"train/sentinel/obs_std_min": 0.0, "train/sentinel/obs_repeat": 1.0, "train/sentinel/obs_abs_max": 0.0})
    assert engine.diagnose([run]).causes[0].id == "observation-constant"
    found = joined(run, look(Walk))
    assert found.witness is not None
    assert any("observations change there" in text for text in found.witness.contradictions)


def test_a_threshold_that_only_the_opposite_reward_reaches_shows_a_wrong_sign() -> None:
    facts = {
        "rewards": {"mean": -1.0, "std": 0.0, "min": -1.0, "max": -1.0, "nonzero": 1.0, "at_ends": 0.1},
        "random": {"returns": [-20.0, -21.0] * 5, "lengths": [20, 21] * 5, "steps": 205, "unfinished_steps": 0, "truncated": 0},
        "search": {"best": -9.0, "worst": -200.0},
    }
    named = [
        one.cause
        for one in environment_evidence.find_signs(lint_facts({"name": "x", **facts}), facts, [Case(replace(sick(), threshold=150.0))])
    ]
    assert named == ["reward-sign"]
    assert not environment_evidence.find_signs(lint_facts({"name": "x", **facts}), facts, [Case(replace(sick(), threshold=-15.0))])


def _signs(facts: Facts, threshold: float) -> list[str]:
    signs = environment_evidence.find_signs(lint_facts({"name": "x", **facts}), facts, [Case(replace(sick(), threshold=threshold))])
    return [one.cause for one in signs]


def test_a_sign_may_be_wrong_where_the_worst_policy_is_what_the_threshold_asks_for() -> None:
    facts = {
        "rewards": {"mean": -0.5, "std": 1.0, "min": -3.0, "max": 2.0, "nonzero": 1.0, "at_ends": 0.1},
        "random": {"returns": [-27.0, -28.0] * 5, "lengths": [58] * 10, "steps": 580, "unfinished_steps": 0, "truncated": 10},
        "constant": {"action 0": {"returns": [45.0], "lengths": [58], "unfinished_steps": 0}},
        "search": {"best": 15.0, "worst": -72.0, "solved": True},
    }
    assert _signs(facts, 60.0) == ["reward-sign"]
    assert _signs(facts, 40.0) == [], "a constant action gets there"
    assert _signs({**facts, "search": {"best": 15.0, "worst": -700.0, "solved": True}}, 60.0) == [], (
        "crashes cost far more than anything earns"
    )


def test_a_wrong_sign_is_not_guessed_where_the_opposite_reward_takes_no_policy() -> None:
    facts = {
        "rewards": {"mean": -0.5, "std": 1.0, "min": -3.0, "max": 2.0, "nonzero": 1.0, "at_ends": 0.1},
        "random": {"returns": [-27.0, -28.0] * 5, "lengths": [58] * 10, "steps": 580, "unfinished_steps": 0, "truncated": 10},
        "constant": {"lowest": {"returns": [-72.0], "lengths": [58], "unfinished_steps": 0}},
        "search": {"best": 15.0, "worst": -65.0, "solved": True},
    }
    assert _signs(facts, 60.0) == [], "always the lowest action would solve the opposite: that is no task"
    assert _signs({**facts, "constant": {}}, 60.0) == ["reward-sign"]
    found = {"best": 15.0, "worst": -65.0, "solved": False}
    assert _signs({**facts, "constant": {}, "search": found}, 60.0) == [], "a search that was no table may have missed what is best"
    thorough = {**found, "thorough": True}
    assert _signs({**facts, "constant": {}, "search": thorough}, 60.0) == ["reward-sign"], (
        "it came there in the one direction and not in the other"
    )
    assert _signs({**facts, "constant": {}, "search": {**thorough, "best": 57.0}}, 60.0) == [], "it nearly came there"


def test_a_reward_that_pays_for_ending_at_once_has_the_wrong_sign_where_the_threshold_asks_to_stay() -> None:
    rewards = {"mean": -0.6, "std": 0.5, "min": -1.0, "max": 0.9, "nonzero": 1.0, "at_ends": 0.1}
    rewards |= {"before_end_max": -0.1, "before_end_mean": -0.7, "end_max": 0.9, "end_mean": 0.5}
    random = {"returns": [-8.0, -9.0] * 20, "lengths": [9, 15] * 20, "steps": 480, "terminated": 40, "truncated": 0}
    random["unfinished_steps"] = 0
    facts = {"rewards": rewards, "random": random, "search": {"best": -2.0, "worst": -10.0}, "time_limit": 120}
    assert _signs(facts, 80.0) == ["reward-sign"]
    assert _signs({**facts, "random": random | {"terminated": 30, "truncated": 10}}, 80.0) == [], "some go on: there may be more to earn"
    assert _signs({**facts, "rewards": rewards | {"end_mean": -5.0}}, 80.0) == [], "ends are crashes: another one may pay"
    assert _signs({**facts, "rewards": rewards | {"end_max": 50.0}}, 80.0) == [], "an end pays what is asked for"


def test_rewards_of_one_tiny_size_that_cannot_reach_the_threshold_are_cut_off() -> None:
    rewards = {"mean": 0.0, "std": 0.002, "min": -0.005, "max": 0.005, "nonzero": 0.14, "distinct": 3.0, "at_ends": 0.01}
    facts = _transitions(both_signs=True, at_most=0.14) | {"rewards": rewards, "time_limit": 60}
    facts["random"] |= {"returns": [0.0, 0.01] * 5}
    assert _signs(facts, 25.0) == ["reward-clipped"]
    assert _signs(facts, 0.2) == ["reward-scale-too-small"], "units of the threshold fit"


def test_a_threshold_below_all_that_can_be_paid_shows_costs_that_are_cut() -> None:
    rewards = {"mean": -0.005, "std": 0.0, "min": -0.005, "max": -0.005, "nonzero": 1.0, "distinct": 1.0, "at_ends": 0.01}
    facts = _transitions() | {"rewards": rewards, "time_limit": 60}
    facts["random"] |= {"returns": [-0.3] * 10}
    assert "reward-clipped" in _signs(facts, -50.0)
    assert "reward-clipped" not in _signs(facts, -0.2)


def test_a_step_cost_above_which_the_threshold_lies_pays_nothing_that_counts() -> None:
    facts = {
        "rewards": {"mean": -1.0, "std": 0.0, "min": -1.0, "max": -1.0, "nonzero": 1.0, "at_ends": 0.02},
        "random": {"returns": [-60.0, -66.0] * 5, "lengths": [60, 66] * 5, "steps": 630, "unfinished_steps": 0, "truncated": 5},
        "search": {"best": -50.0, "worst": -66.0},
    }
    assert _signs(facts, -0.9) == ["reward-never-seen"]
    assert _signs(facts, -20.0) == [], "twenty steps may be enough"


def _transitions(**more: Any) -> Facts:
    known = {
        "within": 1.0,
        "extent": 3.0,
        "varies": 1.0,
        "stays": 0,
        "feature_spreads": [1.0, 1.0],
        "lag": 0,
        "lag_gain": 0.9,
        "direct_gain": 0.9,
    }
    random = {"returns": [1.0] * 10, "lengths": [60] * 10, "steps": 600, "unfinished_steps": 0, "truncated": 10, "terminated": 0}
    return {"name": "x", "random": random, "transitions": {**known, **more}}


@pytest.mark.parametrize(
    ("size", "apart", "fires"),
    [(0.01, 0.4, True), (0.4, 0.6, False), (0.4, 0.3, True), (0.01, 3.0, False)],
    ids=["small steps that lead nowhere", "a state that returns by itself", "hardly any way", "small steps that add up"],
)
def test_actions_hardly_count_where_neither_one_nor_many_move_anything(size: float, apart: float, fires: bool) -> None:
    facts = _transitions(action_gain=1.0, action_size=size) | {"effects": {"steps": 40, "apart": [apart, apart]}}
    assert ("ENV406" in {finding.rule for finding in lint_facts(facts).findings}) is fires


def test_an_action_that_counts_at_some_moments_only_is_not_late_and_not_without_effect() -> None:
    struck = {"effects": {"steps": 40, "apart": [4.0, 4.0], "observations_differ_from": 6, "rewards_differ_from": 1}}
    told = {finding.rule for finding in lint_facts(_transitions(action_gain=0.02, action_size=0.09, lag_gain=0.02) | struck).findings}
    assert not told & {"ENV402", "ENV406"}
    stale = _transitions(action_gain=0.02, action_size=0.09, lag_gain=0.02, stays=4) | struck
    assert "ENV402" in {finding.rule for finding in lint_facts(stale).findings}


def test_ends_that_pay_the_same_tiny_size_are_cut_off() -> None:
    rewards = {"mean": -0.01, "std": 0.005, "min": -0.02, "max": 0.02, "nonzero": 1.0, "distinct": 5.0, "at_ends": 0.03}
    cut = _transitions(success_pays=0.02, else_pays=-0.02, at_most=0.03) | {"rewards": rewards}
    paid = _transitions(success_pays=0.02, else_pays=-0.01, at_most=0.03) | {"rewards": rewards}
    assert [any(one.rule == "ENV410" for one in lint_facts(facts).findings) for facts in (cut, paid)] == [True, False]


def test_what_is_drawn_anew_at_every_step_and_tells_what_is_paid_is_no_noise() -> None:
    def told(explained: float, *, repeats: bool, **seeding: bool) -> bool:
        facts = _transitions(noise=0.5, reward_explained=explained) | {"seeding": {"observations_repeat": repeats, **seeding}}
        return any(one.rule == "ENV403" for one in lint_facts(facts).findings)

    assert not told(0.95, repeats=True), "parts on a belt"
    assert told(0.2, repeats=True)
    assert told(0.95, repeats=False), "the same seed shows something else: nobody can act on that"
    assert not told(0.95, repeats=False, start_repeats=True), "the start is seen as it was: what follows is chance, and no bad sensor"


@pytest.mark.parametrize(("anew", "wrappers", "certain"), [(0.0, ["Field"], False), (0.0, ["Hiss", "Field"], True), (0.3, ["Field"], True)])
def test_what_is_drawn_anew_and_looks_the_same_twice_is_the_state(anew: float, wrappers: list[str], certain: bool) -> None:
    facts = _transitions(noise=0.5, reward_explained=0.2) | {"seeding": {"observations_repeat": True}}
    facts |= {"inside": {"drawn_anew": anew}, "wrappers": wrappers}
    strength = max(one.strength for one in lint_facts(facts).findings if one.rule == "ENV403")
    assert (strength > 0.5) is certain


@pytest.mark.parametrize(
    ("repeats", "spread", "certain"),
    [(True, 2.0, False), (True, 60.0, True), (False, 2.0, True)],
)
def test_chance_that_the_seed_fixes_hides_nothing_where_more_is_to_be_gained(repeats: bool, spread: float, certain: bool) -> None:
    facts = _transitions(reward_explained=0.02, distinct=1.0, paid=1.0, action_gain=0.9)
    facts["random"] |= {"returns": [1.0 - spread, 1.0 + spread] * 5}
    facts["seeding"] = {"rewards_repeat": repeats, "observations_repeat": True}
    known = environment_evidence.find_signs(lint_facts(facts), facts, [Case(sick())])
    assert any(one.cause == "reward-noise" and one.certainty > 0.5 for one in known) is certain


def test_one_half_of_all_actions_that_does_nothing_is_a_matter_of_bounds() -> None:
    facts = _transitions() | {"effects": {"half_idle_dimensions": [0, 1]}}
    facts |= {"action_space": {"kind": "Box", "bounded": True, "low": [-1.0, -1.0], "high": [1.0, 1.0], "size": 2}}
    assert "action-bounds" in _signs(facts, 60.0)
    assert "action-bounds" not in _signs(facts | {"effects": {"half_idle_dimensions": [0]}}, 60.0), "one that switches something on"


def test_a_limit_is_not_missing_where_episodes_of_the_runs_end() -> None:
    endless = {"random": {"returns": [], "lengths": [], "steps": 5_000, "unfinished_steps": 5_000, "terminated": 0, "truncated": 0}}
    lint = lint_facts({"name": "x", **endless})
    silent = replace(sick(), series={"train/roll/ep_rew_mean": sick().series["train/roll/ep_rew_mean"]})
    ended = replace(silent, series={**silent.series, "train/roll/ep_len_mean": silent.series["train/roll/ep_rew_mean"]})
    named = [[one.cause for one in environment_evidence.find_signs(lint, endless, [Case(run)])] for run in (silent, ended)]
    assert named == [["time-limit-missing"], []]


def test_a_reward_that_can_be_farmed_speaks_for_a_gamed_one_where_success_is_asked_for() -> None:
    farmed = Finding(
        rule="ENV214", name="reward-can-be-farmed", severity=Severity.HIGH, strength=1.0, text="a loop pays more than the goal"
    )
    lint = lint_facts({"name": "x"}).model_copy(update={"findings": (farmed,)})
    gamed = cases.unsolved({"train/roll/success_rate": 0.0, "val/roll/ep_rew_mean": None}, threshold=None)
    assert [one.cause for one in environment_evidence.find_signs(lint, {}, [Case(gamed)])] == ["reward-gamed"]
    assert not environment_evidence.find_signs(lint, {}, [Case(sick())]), "nobody says what finishing is"


def test_a_short_search_finds_what_pays_and_what_costs() -> None:
    found = search.search(Walk(), [np.array([0.0, 0.5]), np.array([0.5, 0.2]), np.array([-0.5, 0.9])], 0.3)
    assert found["best"] > found["worst"]


class Between(gym.Env[Any, Any]):
    """One action is right where the number shown is near 0, and the other far from it: no line tells them apart."""

    observation_space, action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32), gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.age = 0
        return self.look(), {}

    def look(self) -> Any:
        self.place = self.np_random.uniform(-1.0, 1.0)
        return np.array([self.place], np.float32)

    def step(self, action: Any) -> Any:
        self.age += 1
        reward = 1.0 if (abs(self.place) < 0.5) == bool(action) else -1.0
        return self.look(), reward, False, self.age >= 40, {}


def test_policies_are_compared_on_the_same_seeds_and_by_one_episode_at_least_when_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_play", lambda env, policy, seed: (policy(seed), 1, None))
    watch = core_time.Stopwatch(1.0)
    policies = [lambda seed: 10.0 + seed, lambda seed: 20.0 + seed]
    assert [len(each) for each in search._compare(None, policies, range(6), watch, 1e9)] == [6, 6]
    assert [[each[0] for each in one] for one in search._compare(None, policies, range(3, 9), watch, -1.0)] == [[13.0], [23.0]]


def test_a_policy_that_no_line_describes_is_found() -> None:
    found = search.search(Between(), [np.array([place]) for place in np.linspace(-1.0, 1.0, 41)], 3.0)
    assert found["best"] > 30.0
    assert found["worst"] < -30.0


class Gait(gym.Env[Any, Any]):
    """Only two actions in turn bring it on: no policy that is linear in the one number shown does that."""

    observation_space, action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.leg = self.age = 0
        return self.leg, {}

    def step(self, action: Any) -> Any:
        self.age += 1
        right = int(action) == (3, 1, 0, 2)[self.leg]
        reward = float(right and self.leg == 3)
        self.leg = (self.leg + 1) % 4 if right else 0
        return self.leg, reward, False, self.age >= 40, {}


def test_a_way_of_several_steps_is_found_where_states_are_few() -> None:
    rows = [play.features(Gait.observation_space, leg) for leg in range(4)]
    found = search.search(Gait(), rows, 0.6)
    assert found["best"] == 10.0
    assert found["worst"] == 0.0


# ── two environments ──


@pytest.mark.parametrize(
    ("kind", "cause", "word"),
    [
        (Flipped, "reward-sign", "opposite"),
        (Paid, "reward-shifted", "at every step"),
        (Doubled, "evaluation-environment-differs", "another observation"),
    ],
)
def test_a_training_environment_that_differs_from_that_of_evaluation_is_named(
    kind: type[Walk], cause: str, word: str, look: Callable[[type[Walk]], Facts]
) -> None:
    found = joined(sick(), look(kind), look(Walk))
    assert found.causes[0].id == cause
    assert found.witness is not None
    assert any(word in text for text in found.witness.differences)


class Undrawn(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=5, options=options)


def test_equal_starts_are_a_fault_where_evaluation_draws_them_and_none_where_it_does_not(look: Callable[[type[Walk]], Facts]) -> None:
    drawn, undrawn = look(Walk), look(Undrawn)
    assert joined(sick(), undrawn, drawn).causes[0].id == "starts-identical"
    assert joined(sick(), undrawn, undrawn).causes[0].id != "starts-identical"
    assert joined(sick(), undrawn).causes[0].id == "starts-identical", "nobody knows from where it is judged"


def test_what_a_simple_policy_overcomes_is_not_what_is_wrong() -> None:
    rewards = {"mean": 0.02, "std": 0.1, "min": 0.0, "max": 1.0, "nonzero": 0.02, "distinct": 2.0, "at_ends": 1.0}
    facts = _transitions(paid=0.02) | {"rewards": rewards}
    facts["random"] |= {"returns": [0.0] * 9 + [1.0], "success": None}
    won = {"best": 0.95, "best_error": 0.02, "worst": 0.0}
    assert _signs({**facts, "search": {**won, "best": 0.3}}, 0.8) == ["reward-sparse"]
    assert _signs({**facts, "search": {**won, "best_error": 0.2}}, 0.8) == ["reward-sparse"], "that may have been luck"
    found = environment_evidence.find_signs(
        lint_facts({"name": "x", **facts}), {**facts, "search": won}, [Case(replace(sick(), threshold=0.8))]
    )
    assert all(one.certainty < 0.375 for one in found), "less likely than that nothing is known"


def test_equal_environments_do_not_differ(look: Callable[[type[Walk]], Facts]) -> None:
    assert environment_evidence.compare(look(Walk), look(Walk)) == []


def test_another_time_limit_is_a_difference(look: Callable[[type[Walk]], Facts]) -> None:
    short = {**look(Walk), "time_limit": 40}
    assert (
        "time limit is 40 in training and 60 in evaluation" in environment_evidence.compare(short, {**look(Walk), "time_limit": 60})[0].text
    )


# ── who may have it run ──


@pytest.fixture
def env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment whose file leaves a mark where it is imported."""
    monkeypatch.setenv(trust.STATE, str(tmp_path / "state"))
    root = str(Path(__file__).parents[2])
    path = tmp_path / "frozen_env.py"
    path.write_text(
        f"import sys, pathlib\nsys.path.insert(0, {root!r})\npathlib.Path({str(tmp_path / 'was-run')!r}).write_text('x')\n"
        "from tests.diagnosis.examined_envs import StuckInEpisode\n"
    )
    return path


def test_with_env_the_code_is_run_and_its_fault_is_the_answer(env_file: Path) -> None:
    target = str(SAMPLES / "sb3_zoo")
    asked = ["diagnose", target, "--env", f"{env_file}:StuckInEpisode", "--json"]
    result = CliRunner().invoke(app, asked)
    told = json.loads(result.stdout)
    assert told["diagnosis"]["causes"][0]["id"] == "observation-not-updated"
    assert told["diagnosis"]["witness"]["seen"]
    assert env_file.with_name("was-run").exists()


def test_without_env_no_code_is_run_even_if_the_log_names_it(env_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "progress.csv").write_text("total_timesteps,ep_rew_mean\n" + "".join(f"{n},1\n" for n in range(0, 900, 100)))
    (folder / "args.json").write_text(json.dumps({"env_id": f"{env_file}:StuckInEpisode", "algo": "ppo"}))
    found = diagnose(str(folder), write=False)
    assert found.diagnosis.witness is None
    assert not env_file.with_name("was-run").exists()


@pytest.mark.parametrize("env", ["CartPole-v1", "FILE"])
def test_where_nothing_may_be_run_no_environment_is_examined(env: str, env_file: Path) -> None:
    named = f"{env_file}:StuckInEpisode" if env == "FILE" else env
    with trust.limited(trust.Limits(run=False)), pytest.raises(Untrusted, match="read-only"):
        diagnose(str(SAMPLES / "sb3_zoo"), write=False, env=named)
    assert not env_file.with_name("was-run").exists()


def test_the_own_environment_of_a_run_is_examined_unasked_while_its_code_is_what_was_trained(
    env_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[type[Walk]], Facts]
) -> None:
    asked: list[dict[str, Any]] = []
    facts = look(OF_TRANSITIONS["the start is shown for ever"][1])
    monkeypatch.setattr("rlclinic.ops.diagnose.run_environments.facts_of", lambda env, settings, *_, **__: asked.append(settings) or facts)
    name = f"{env_file}:StuckInEpisode"
    trust.approve(name)
    group = record_group(tmp_path / "runs", returns=lambda seed, share: 10.0 + share, changes=("run.max_env_steps=10240", f"env.id={name}"))

    def ask() -> Diagnosis:
        return diagnose(group.id, tmp_path / "runs", write=False, own_env=True).diagnosis

    assert ask().causes[0].id == "observation-not-updated"
    assert asked[0]["id"] == name
    asked.clear()
    with trust.limited(trust.Limits(run=False)):
        assert ask().witness is None
    env_file.write_text(env_file.read_text() + "# edited\n")
    assert ask().witness is None
    assert not asked


def test_what_a_wrapper_does_is_told_from_what_the_environment_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[type[Walk]], Facts]
) -> None:
    late, sound = look(OF_TRANSITIONS["observations four steps old"][1]), look(Walk)
    monkeypatch.setattr(
        "rlclinic.ops.diagnose.run_environments.facts_of", lambda env, settings, *_, **__: late if settings["wrappers"] else sound
    )
    wrapped = 'env.wrappers=[{"id": "DelayObservation", "kwargs": {"delay": 4}}]'
    group = record_group(tmp_path / "runs", returns=lambda seed, share: 10.0 + share, changes=("run.max_env_steps=10240", wrapped))
    first = diagnose(group.id, tmp_path / "runs", write=False, env="trained").diagnosis.causes[0]
    assert first.id == "observation-late"
    assert "with its wrappers DelayObservation; not without them" in first.moved_first


def test_a_log_of_others_has_no_trained_environment() -> None:
    with pytest.raises(UsageError, match="--env trained is for runs that were trained here"):
        diagnose(str(SAMPLES / "sb3_zoo"), write=False, env="trained")


def test_an_environment_of_evaluation_alone_is_refused() -> None:
    with pytest.raises(UsageError, match="--env"):
        diagnose(str(SAMPLES / "sb3_zoo"), write=False, eval_env="CartPole-v1")


def test_the_answer_says_what_was_seen_before_the_causes(look: Callable[[type[Walk]], Facts]) -> None:
    facts = look(OF_TRANSITIONS["rewards of noise"][1])
    report = diagnose(str(SAMPLES / "sb3_zoo"), write=False)
    run = sick()
    found = environment_evidence.join(report.diagnosis, [Case(run)], lint_facts(facts), facts)
    lines = render_compact(answer(report.model_copy(update={"diagnosis": found})), 300).splitlines()
    seen = next(place for place, line in enumerate(lines) if line.startswith("environment NoisyReward"))
    assert seen < next(place for place, line in enumerate(lines) if line.startswith("CAUSE 1"))


# ── what the environment keeps, and what its text says ──


def causes_of(inside: dict[str, Any] | None = None, **facts: Any) -> set[str]:
    """What the facts of an examination testify to, of which nothing else is known."""
    known: Facts = {"name": "Field", "inside": inside or {}, **facts}
    return {one.cause for one in environment_evidence.find_signs(lint_facts(known), known, [Case(sick())])}


def exchanged(**counts: int) -> dict[str, int]:
    return {"tried": 12, "paid": 0, "shown": 0, "ended": 0, "owed": 0, "ahead": 0, **counts}


SHOWN = exchanged(paid=12, shown=12)


@pytest.mark.parametrize(
    ("inside", "cause"),
    [
        ({"left_that_matter": ["tank"]}, "never-reset"),
        ({"parts": [20, 0], "parts_tried": 20}, "actions-without-effect"),
        ({"exchanged": {"place": SHOWN, "goal": exchanged(paid=12, ahead=12)}, "told": {"place": 1.0, "goal": 0.0}}, "observation-partial"),
        ({"exchanged": {"place": SHOWN, "bill": exchanged(paid=6, owed=6)}, "told": {"place": 1.0}}, "reward-delayed"),
        ({"exchanged": {"place": exchanged(paid=12), "speed": exchanged(paid=9)}, "told": {"place": 0.2}}, "observation-not-updated"),
        ({"shown": [{"column": 0, "name": "place", "as": "late", "share": 4.0}]}, "observation-late"),
        ({"shown": [{"column": at, "name": "place", "as": "cut", "share": 0.5} for at in (0, 1)]}, "observation-partial"),
        ({"drawn_anew": 0.6}, "observation-noise"),
    ],
)
def test_what_an_environment_keeps_testifies(inside: dict[str, Any], cause: str) -> None:
    assert causes_of(inside) == {cause}


@pytest.mark.parametrize(
    "inside",
    [
        # A level that rises from episode to episode is meant to outlive a reset.
        {"left_that_matter": ["difficulty_level"]},
        {"left_by_resets": ["journeys"], "left_that_matter": []},
        # Too few states to say that a part of the action never counts.
        {"parts": [5, 0], "parts_tried": 5},
        # What the present observation tells is shown, even if the next action replaces it.
        {"exchanged": {"price": SHOWN, "position": exchanged(paid=12, ahead=12)}, "told": {"price": 1.0, "position": 1.0}},
        # A card that is dealt face down at every step, and one that is shown until it is played.
        {"exchanged": {"place": SHOWN, "theirs": exchanged(paid=9)}, "told": {"place": 1.0}, "drawn_again": ["theirs"]},
        {"exchanged": {"mine": exchanged(paid=9, now=12), "bid": exchanged(paid=9, now=12)}, "told": {"mine": 1.0, "bid": 0.9}},
        # It decides nothing.
        {"exchanged": {"place": SHOWN, "colour": exchanged()}, "told": {"place": 1.0, "colour": 0.0}},
        # A light that shows every third second.
        {"exchanged": {"ship": exchanged(paid=12, shown=11, ahead=1)}, "told": {"ship": 0.3}},
        {"shown": [{"column": 0, "name": "reading", "as": "cut", "share": 0.5}]},
        {"drawn_anew": 0.02},
    ],
)
def test_what_a_sound_environment_keeps_testifies_to_nothing(inside: dict[str, Any]) -> None:
    assert causes_of(inside) == set()


def _first_cause(facts: Facts) -> tuple[str, Severity, str]:
    first = joined(sick(), {"name": "Field", **facts}).causes[0]
    return first.id, first.severity, first.moved_first + first.with_it


def test_what_one_kind_of_evidence_shows_may_be_meant_and_two_kinds_are_a_fault() -> None:
    drawn, restless = {"inside": {"drawn_anew": 0.6}}, _transitions(noise=0.5)
    for alone in (drawn, restless):
        cause, severity, said = _first_cause(alone)
        assert (cause, severity) == ("observation-noise", Severity.MEDIUM)
        assert "it may be meant" in said
    cause, severity, said = _first_cause(drawn | restless)
    assert (cause, severity) == ("observation-noise", Severity.HIGH)
    assert "may be meant" not in said
    assert "drawn anew at every step" in said
    assert "looked at twice" in said


def test_what_no_task_is_like_on_purpose_needs_no_second_kind_of_evidence(look: Callable[[type[Walk]], Facts]) -> None:
    frozen, costly = (joined(sick(), look(OF_TRANSITIONS[name][1])).causes[0] for name in ("the start is shown for ever", "acting costs"))
    assert (frozen.severity, costly.severity) == (Severity.HIGH, Severity.MEDIUM)


@pytest.mark.parametrize(("limit", "strength"), [(50, 1.0), (5_000, 0.3), (None, 1.0)])
def test_a_time_limit_that_a_wrapper_does_not_pass_on_is_missing(limit: int | None, strength: float) -> None:
    random = {"returns": [], "lengths": [], "steps": 3_000, "unfinished_steps": 3_000}
    findings = lint_facts({"name": "x", "random": random, "time_limit": limit}).findings
    assert [(one.rule, one.strength) for one in findings] == [("ENV209", strength)]


CLOCKED: Facts = {
    "random": {"returns": [1.0] * 20, "lengths": [30] * 20, "terminated": 20, "truncated": 0, "steps": 600, "unfinished_steps": 0}
}


@pytest.mark.parametrize(
    ("inside", "cause", "severity"),
    [
        # A count that was put forward ends an episode that much earlier.
        ({"ended": 3, "by_clock": {"day": [3, 3]}, "told": {"day": 0.0}}, "time-limit-as-terminal", Severity.HIGH),
        # Nobody knows what ends it.
        ({}, "time-limit-as-terminal", Severity.MEDIUM),
        # There is a count, and whatever it says, episodes end where they did: all of random play meets the first pipe.
        ({"ended": 3, "by_clock": {"frame": [0, 0]}}, None, None),
        # The observation tells the day.
        ({"ended": 3, "by_clock": {"day": [3, 3]}, "told": {"day": 1.0}, "clocks": ["day"]}, None, None),
    ],
)
def test_episodes_of_one_length_end_by_a_clock_where_a_count_that_is_put_forward_ends_them(
    inside: Facts, cause: str | None, severity: Severity | None
) -> None:
    first, said, _ = _first_cause({**CLOCKED, "inside": inside})
    assert (first, said) == (cause, severity) if cause else first != "time-limit-as-terminal"


@pytest.mark.parametrize(("shown", "expected"), [(12, set()), (3, {"observation-partial"})])
def test_dark_parts_of_a_picture_beside_words_hide_nothing_where_all_attributes_show(shown: int, expected: set[str]) -> None:
    rows = [{"mean": 0.0, "std": each, "min": 0.0, "max": 1.0, "whole": False} for each in (0.0, 0.0, 1.0)]
    space = {"kind": "Dict", "shape": [], "dtype": "None", "text": "Dict('image': Box(0, 255, (7, 7, 3), uint8), 'way': Discrete(4))"}
    random = {"returns": [], "lengths": [], "unfinished_steps": 0, "steps": 3_000}
    inside = {"exchanged": {"place": exchanged(shown=12), "door": exchanged(shown=shown)}}
    assert causes_of(inside, dimensions=rows, observation_space=space, random=random, transitions={"action_gain": 0.0}) == expected


@pytest.mark.parametrize(("kind", "certain"), [("Discrete", False), ("Box", True)])
def test_a_maze_of_numbered_places_that_is_entered_at_its_door_is_no_forgotten_start(kind: str, certain: bool) -> None:
    seeding = {"start_repeats": True, "start_varies": False, "seed_matters": False, "trace": {"observations": [[0.0]], "rewards": [0.0]}}
    (found,) = [
        one for one in lint_facts({"name": "x", "seeding": seeding, "observation_space": {"kind": kind}}).findings if one.rule == "ENV413"
    ]
    assert (found.strength > 0.5) is certain


@pytest.mark.parametrize(("paid", "certain"), [(12, True), (0, False)])
def test_lives_that_are_left_and_not_shown_are_hardly_why_nothing_is_learned(paid: int, certain: bool) -> None:
    known: Facts = {"name": "Field", "inside": {"exchanged": {"lives": exchanged(paid=paid, ended=12)}, "told": {"lives": 0.0}}}
    (sign,) = environment_evidence.find_signs(lint_facts(known), known, [Case(sick())])
    assert sign.cause == "observation-partial"
    assert (sign.certainty > 0.5) is certain


@pytest.mark.parametrize(("told", "expected"), [(1.0, set()), (0.5, {"observation-partial"})])
def test_a_number_that_is_always_1_hides_nothing_where_the_others_tell_all(told: float, expected: set[str]) -> None:
    rows = [{"mean": 1.0, "std": float(at > 0), "min": 0.0, "max": 1.0, "whole": False} for at in range(4)]
    inside = {"exchanged": {"rock": SHOWN}, "told": {"rock": told}}
    random = {"returns": [], "lengths": [], "unfinished_steps": 0, "steps": 3_000}
    assert causes_of(inside, dimensions=rows, random=random, observation_space={"kind": "Box", "shape": [4]}) == expected


@pytest.mark.parametrize(("home", "expected"), [("0.0", {"reward-sign"}), ("9.0 * self.home", set())])
def test_a_sign_is_not_guessed_where_the_text_pays_more_than_anybody_was_paid(home: str, expected: set[str]) -> None:
    source = {"class": "Field", "file": "/tmp/field.py", "text": PAYS.format(seed="seed", reward=f"-0.5 * self.slip + {home}")}
    rewards = {"mean": -0.2, "std": 0.2, "min": -0.5, "max": 0.0, "nonzero": 0.5, "distinct": 9.0, "at_ends": 0.1}
    known: Facts = {
        "name": "Field", "inside": {"lines_run": list(range(30))}, "source": source, "rewards": rewards,
        "search": {"best": -1.0, "worst": -12.0},
    }  # fmt: skip
    said = environment_evidence.find_signs(lint_facts(known), known, [Case(sick())])
    assert {one.cause for one in said if one.certainty > 0.5} == expected


PAYS = """
class Field:
    def reset(self, *, seed=None, options=None):
        super().reset(seed={seed})
        return self.look(), {{}}

    def step(self, action):
        reward = {reward}
        return self.look(), reward, False, False, {{}}
"""


def test_what_the_text_says_names_its_line_and_gives_way_to_a_policy_that_earns_what_was_meant() -> None:
    source = {"class": "Field", "file": "/tmp/field.py", "text": PAYS.format(seed="seed", reward="distance - effort")}
    inside = {"lines_run": list(range(30)), "differ_at_starts": ["place"]}
    read = {"source": source, "inside": inside}
    known: Facts = {"name": "Field", **read, "random": {"returns": [0.0] * 9, "lengths": [9] * 9, "unfinished_steps": 0}}
    said = {one.cause: one for one in environment_evidence.find_signs(lint_facts(known), known, [Case(sick())])}
    assert "field.py:8: reward = distance - effort: distance is paid for" in said["reward-sign"].text
    reached = environment_evidence.find_signs(lint_facts(known), known | {"search": {"best": 12.0, "worst": -9.0}}, [Case(sick())])
    assert all(one.certainty < 0.5 for one in reached if one.cause == "reward-sign")
    right = {**source, "text": PAYS.format(seed="seed", reward="-distance - effort")}
    assert causes_of(inside, source=right) == set()


@pytest.mark.parametrize(("starts", "expected"), [([], {"starts-identical"}), (["place"], set())])
def test_a_fixed_seed_in_the_text_counts_where_starts_are_the_same(starts: list[str], expected: set[str]) -> None:
    source = {"class": "Field", "file": "field.py", "text": PAYS.format(seed="7", reward="-distance")}
    assert causes_of({"lines_run": list(range(30)), "differ_at_starts": starts}, source=source) == expected


@pytest.mark.parametrize(("shown", "expected"), [(12, set()), (0, {"observation-partial"})])
def test_dark_parts_of_a_picture_hide_nothing_where_all_that_decides_what_is_paid_shows(shown: int, expected: set[str]) -> None:
    rows = [{"mean": 0.0, "std": each, "min": 0.0, "max": 1.0, "whole": False} for each in (0.0, 0.0, 1.0)]
    inside = {"exchanged": {"car": exchanged(paid=6, shown=shown)}, "told": {"car": 0.0}}
    space = {"kind": "Box", "shape": [3, 9, 9], "dtype": "float32", "text": "Box"}
    random = {"returns": [], "lengths": [], "unfinished_steps": 0, "steps": 3_000}
    found = causes_of(inside, dimensions=rows, observation_space=space, random=random, transitions={"action_gain": 0.0})
    assert found == expected


RAISES = """
class Field:
    def reset(self, *, seed=None, options=None):
        {reset}
        return self.look(), {{}}
"""


@pytest.mark.parametrize(
    ("reset", "expected"),
    [
        ("self.rival = min(self.rival + 0.1, 1.0)", set()),
        ("self.rival += self.won", set()),
        ("self.speed = 0.0", {"never-reset"}),
        ("self.rival = self.rival", {"never-reset"}),
        ("self.goal = self.rival + 1", {"never-reset"}),
    ],
)
def test_what_a_reset_goes_on_from_is_no_rest_of_the_last_episode(reset: str, expected: set[str]) -> None:
    source = {"class": "Field", "file": "field.py", "text": RAISES.format(reset=reset)}
    assert causes_of({"left_that_matter": ["rival"]}, source=source) == expected


@pytest.mark.parametrize(("steps", "expected"), [(20, {"reward-scale-too-small"}), (500, set())])
def test_what_is_paid_by_the_second_adds_up_over_many_steps(steps: int, expected: set[str]) -> None:
    random = {"returns": [0.1, -0.1], "lengths": [steps, steps], "unfinished_steps": 0, "steps": 1_000}
    rewards = {"min": -0.01, "max": 0.014, "mean": 0.0, "std": 0.005, "nonzero": 1.0, "distinct": 900.0, "at_ends": 0.01}
    assert causes_of(random=random, rewards=rewards) == expected


def test_a_number_of_rounds_that_observations_tell_roughly_may_be_the_tasks_own() -> None:
    random = {"returns": [0.0, 1.0] * 10, "lengths": [20] * 20, "terminated": 20, "truncated": 0, "unfinished_steps": 0}

    def certainty(told: float) -> float:
        known: Facts = {"name": "Field", "inside": {"clocks": ["hands"], "told": {"hands": told}}, "random": random}
        (sign,) = environment_evidence.find_signs(lint_facts(known), known, [Case(sick())])
        assert sign.cause == "time-limit-as-terminal"
        return sign.certainty

    assert certainty(0.1) > 0.8
    assert certainty(0.8) < 0.4


@pytest.mark.parametrize(
    ("numbers", "shown", "expected"),
    [(27, 12, set()), (27, 3, {"observation-partial"}), (4, 12, {"observation-partial"})],
)
def test_one_of_many_numbers_may_stand_still_where_all_that_counts_shows(numbers: int, shown: int, expected: set[str]) -> None:
    rows = [{"mean": 0.0, "std": float(at > 0), "min": 0.0, "max": 1.0, "whole": False} for at in range(numbers)]
    inside = {"exchanged": {"rock": exchanged(paid=6, shown=shown)}, "told": {"rock": 0.9}}
    random = {"returns": [], "lengths": [], "unfinished_steps": 0, "steps": 3_000}
    assert causes_of(inside, dimensions=rows, random=random, observation_space={"kind": "Box", "shape": [numbers]}) == expected


@pytest.mark.parametrize(
    ("success", "pays", "expected"), [(0.2, 12.0, set()), (0.2, 1.0, {"reward-sparse"}), (0.0, 12.0, {"reward-sparse"})]
)
def test_a_game_that_chance_wins_now_and_then_is_no_sparse_reward_where_one_success_is_all(
    success: float, pays: float, expected: set[str]
) -> None:
    random = {"returns": [12.0, -1.0], "lengths": [150, 160], "unfinished_steps": 0, "steps": 3_000, "success": success}
    rewards = {"min": -1.0, "max": pays, "mean": 0.0, "std": 0.2, "nonzero": 0.01, "distinct": 3.0, "at_ends": 1.0}
    assert causes_of(random=random, rewards=rewards, transitions={"success_pays": pays}) == expected


@pytest.mark.parametrize(
    ("skipped", "said"),
    [
        ({}, "nothing was seen in it that explains the runs"),
        ({"farming": "no time left"}, "nothing was seen in it that explains the runs"),
        ({"contract": "it did not come back"}, "it could not be examined: it did not come back"),
        ({"seeding": "the process died"}, "only a part of it could be examined: the process died while seeding was looked at"),
        ({"seeding": "no time left", "resets": "no time left", "effects": "no time left"}, "too slow to be examined"),
    ],
)
def test_an_environment_that_could_not_be_seen_is_not_called_clean(skipped: dict[str, str], said: str) -> None:
    diagnosis = engine.diagnose([sick()])
    witness = Witness(env="my.py:Mine", seen=(), skipped=skipped, seconds=1.0)
    assert said in render_compact(describe_witness(diagnosis.model_copy(update={"witness": witness})))


@pytest.mark.parametrize(("skipped", "command"), [({}, None), ({"contract": "it did not come back"}, "lint")])
def test_what_was_looked_at_is_not_offered_again_and_what_did_not_come_back_gets_more_time(
    skipped: dict[str, str], command: str | None
) -> None:
    diagnosis = engine.diagnose([sick()])
    witness = Witness(env="my.py:Mine", seen=(), skipped=skipped, seconds=1.0)
    sign = PossibleCause(id="reward-sign", title="the sign", probability=0.5, tells="other returns", find_in="environment")
    causes = tuple(each.model_copy(update={"possible": (sign,)}) for each in diagnosis.causes)
    asked = diagnosis.model_copy(update={"witness": witness, "causes": causes})
    (first, *_) = possible_causes.name_commands(asked, None, "log.csv", ours=False).causes
    find = first.possible[0].find
    assert (find.command if find is not None else None) == command
