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

from rlclinic import trust
from rlclinic.diagnosis import engine, environment_evidence
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import Diagnosis, Finding, Severity
from rlclinic.diagnosis.lint.env import lint_facts
from rlclinic.diagnosis.rules import cases
from rlclinic.errors import Untrusted, UsageError
from rlclinic.ops.diagnose.diagnose import diagnose
from rlclinic.report.diagnosis import answer
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
    def told(explained: float, *, repeats: bool) -> bool:
        facts = _transitions(noise=0.5, reward_explained=explained) | {"seeding": {"observations_repeat": repeats}}
        return any(one.rule == "ENV403" for one in lint_facts(facts).findings)

    assert not told(0.95, repeats=True), "parts on a belt"
    assert told(0.2, repeats=True)
    assert told(0.95, repeats=False), "the same seed shows something else: nobody can act on that"


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
