"""Is exploration the bottleneck: what is said of runs that met what is wanted early, late, never, and of logs that cannot tell."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from rlclinic.config import load
from rlclinic.diagnosis import exploration
from rlclinic.diagnosis.exploration import BEST, KL, RETURN, RETURN_STD, SUCCESS
from rlclinic.runs.history import History, Series
from rlclinic.serve.cli.app import app

EVAL = "val/roll/ep_rew_mean"
STEPS = np.linspace(1_000, 40_000, 40)


def history(settings: dict[str, Any] | None = None, episodes: float = 400, **series: Any) -> History:
    """A run of 40 rows; a number stands for a series of it."""
    names = {"success": SUCCESS, "returns": RETURN, "deviation": RETURN_STD, "best": BEST, "kl": KL, "new_states": "train/bonus/new_states"}
    made = {names[key]: Series(STEPS, np.broadcast_to(np.asarray(value, float), STEPS.shape), key) for key, value in series.items()}
    made["total_episodes"] = Series(STEPS, np.linspace(1, episodes, 40), "total_episodes")
    return History("r", "rlclinic", env_id="Own-v0", algo="ppo", env_steps=40_000, settings=settings or {}, series=made)


def step_at(share: float, before: float = 0.0, after: float = 1.0) -> np.ndarray:
    return np.where(np.arange(40) < share * 40, before, after)


CASES: list[tuple[str, dict[str, Any], str]] = [
    ("success never met", {"success": 0, "returns": 0, "deviation": 0}, "BOTTLENECK"),
    ("success met late", {"success": step_at(0.8, 0, 0.02), "returns": 0}, "BOTTLENECK"),
    ("success met early, and not learned", {"success": step_at(0.1, 0, 0.02), "returns": 0}, "NOT"),
    ("all returns equal, no success flag", {"returns": -200, "deviation": 0}, "BOTTLENECK"),
    ("returns that differ from the start", {"returns": np.linspace(10, 12, 40), "deviation": 4}, "NOT"),
    ("a return that rises without success", {"success": 0, "returns": np.linspace(0, 50, 40), "deviation": 1}, "NOT"),
    ("a policy that the first updates threw away", {"success": 0, "returns": 0, "kl": step_at(0.1, 40.0, 0.0)}, "NOT ASSESSABLE"),
    ("a policy that was thrown away after it had looked around", {"success": 0, "returns": 0, "kl": step_at(0.8, 0.01, 40)}, "BOTTLENECK"),
    ("too few episodes", {"success": 0, "returns": 0, "episodes": 20}, "NOT ASSESSABLE"),
    ("met late in a run of a few episodes", {"success": step_at(0.8, 0, 0.02), "returns": 0, "episodes": 20}, "NOT ASSESSABLE"),
    ("met at the second of three episodes", {"returns": step_at(0.6, 10, 12), "deviation": 0, "episodes": 3}, "NOT ASSESSABLE"),
    ("nothing logged", {"new_states": 3}, "NOT ASSESSABLE"),
]


@pytest.mark.parametrize(("name", "series", "verdict"), CASES, ids=[case[0] for case in CASES])
def test_the_verdict_on(name: str, series: dict[str, Any], verdict: str) -> None:
    found = exploration.assess([history(**series)] * 3)
    assert found.verdict == verdict, found.reason
    assert bool(found.prescription) == (verdict == "BOTTLENECK")


@pytest.mark.parametrize(
    ("rate", "episodes", "verdict", "words"),
    [
        (None, 0, "NOT ASSESSABLE", "0 episodes"),
        (0, 300, "BOTTLENECK", "success in the task itself was never met"),
        (step_at(0.5, 0, 0.2), np.linspace(0, 300, 40), "BOTTLENECK", "51% of the run"),
        # It came to the task itself after three quarters of the run, and met success at once: that is not late.
        (step_at(0.8, 0, 0.2), np.maximum(np.arange(40) - 30, 0) * 30, "NOT", "something to learn from"),
    ],
)
def test_success_in_easier_stages_of_a_curriculum_is_none_in_the_task_itself(rate: Any, episodes: Any, verdict: str, words: str) -> None:
    """All episodes of the first stage succeed, and the return rises with it."""
    columns = {"train/stage/1/success_rate": 1.0, "train/stage/1/episodes": 400, "train/stage/2/episodes": episodes}
    columns |= {} if rate is None else {"train/stage/2/success_rate": rate}
    made = {name: Series(STEPS, np.broadcast_to(np.asarray(value, float), STEPS.shape), name) for name, value in columns.items()}
    plain = history(success=0.9, returns=np.linspace(0, 1, 40), deviation=0.1)
    found = exploration.assess([replace(plain, series=dict(plain.series) | made)] * 3)
    assert (found.verdict, words in found.reason) == (verdict, True), found.reason


@pytest.mark.parametrize(
    ("series", "threshold", "verdict"),
    [
        # What moving about costs differs from episode to episode, and nobody ever came nearer to what is wanted.
        ({"returns": -0.005, "deviation": 0.002, "best": 0.0}, 0.9, "BOTTLENECK"),
        ({"returns": np.linspace(-0.005, 0.0, 40), "deviation": 0.002, "best": 0.0}, 0.9, "BOTTLENECK"),
        # Chance does better now and then: there is something to learn from, and it is not learned.
        ({"returns": 22.0, "deviation": 11.0, "best": 70.0}, 475.0, "NOT"),
        ({"returns": -1200.0, "deviation": 250.0, "best": -700.0}, -200.0, "NOT"),
        ({"returns": 0.0, "deviation": 0.0, "best": step_at(0.8, 0.0, 1.0)}, 0.9, "BOTTLENECK"),
    ],
)
def test_without_a_success_flag_the_threshold_says_what_would_be_worth_meeting(
    series: dict[str, Any], threshold: float, verdict: str
) -> None:
    found = exploration.assess([replace(history(**series), threshold=threshold)] * 3)
    assert found.verdict == verdict, found.reason


def test_never_having_met_it_in_n_episodes_bounds_its_chance_by_three_over_n() -> None:
    found = exploration.assess([history(success=0, returns=0, episodes=600)])
    assert found.meetings[0].bound == pytest.approx(3 / 600)
    assert "0.005 per episode" in found.reason


def test_one_seed_of_three_that_never_met_it_is_no_bottleneck() -> None:
    runs = [history(success=0, returns=0), *[history(success=step_at(0.05, 0, 0.5), returns=0)] * 2]
    assert exploration.assess(runs).verdict == "NOT"


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"about.obs_size": 2.0}, {"bonus.kind": "count", "bonus.coef": 0.1}),
        ({"about.obs_size": 102.0, "about.obs_flags": 102.0}, {"bonus.kind": "count", "bonus.coef": 0.1}),
        ({"about.obs_size": 17.0, "spec.return_range": [0, 100]}, {"bonus.kind": "rnd", "bonus.coef": 10.0}),
        ({"about.obs_size": 17.0, "spec.return_range": [0, 100], "env.normalize_reward": True}, {"bonus.kind": "rnd", "bonus.coef": 0.1}),
        ({"bonus.kind": "rnd", "bonus.coef": 0.02}, {"bonus.coef": 0.06}),
    ],
)
def test_the_bonus_to_try_follows_from_observations_and_returns(settings: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert exploration.assess([history(settings, success=0, returns=0)]).prescription == wanted


def test_a_bonus_in_a_replay_is_worth_what_rewards_are_before_they_are_normalized() -> None:
    settings = {"about.obs_size": 17.0, "spec.return_range": [0, 100], "env.normalize_reward": True}
    found = exploration.assess([replace(history(settings, success=0, returns=0), algo="dqn")])
    assert found.prescription == {"bonus.kind": "rnd", "bonus.coef": 10.0}


@pytest.mark.parametrize(
    ("algo", "wanted"),
    [
        *((algo, {"bonus.kind": "count", "bonus.coef": 0.1}) for algo in ("ppo", "a2c", "reinforce", "a3c", "impala", "appo", "dqn")),
        ("q_learning", {"algo.exploration": "optimistic"}),
        *((algo, {}) for algo in ("sac", "td3", "gail", "bc")),
    ],
)
def test_what_is_tried_is_what_the_algorithm_takes(algo: str, wanted: dict[str, Any]) -> None:
    found = exploration.assess([replace(history({"about.obs_size": 2.0}, success=0, returns=0), algo=algo)])
    assert (found.verdict, found.prescription) == ("BOTTLENECK", wanted)
    assert any("takes no bonus" in note for note in found.notes) == (not wanted)
    if wanted:
        load("DeepSea-v0:q_learning" if algo == "q_learning" else f"DeepSea-v0:{algo}", [f"{key}={value}" for key, value in wanted.items()])


def test_steps_on_recorded_data_are_no_search() -> None:
    """The first half was learned from recorded data; what is wanted was met soon after it began to act."""
    met = history({"data.then_online": True}, success=step_at(0.6, 0, 0.02), returns=0)
    met.series["total_episodes"] = Series(STEPS, np.where(np.arange(40) < 20, 0.0, 10.0 * np.arange(40)), "total_episodes")  # type: ignore[index]
    assert exploration.assess([met]).verdict == "NOT"
    assert exploration.assess([replace(met, settings={})]).verdict == "BOTTLENECK"


def test_states_that_never_stop_being_new_are_said() -> None:
    assert any("noisy television" in note for note in exploration.assess([history(success=0, returns=0, new_states=990)]).notes)


def test_few_numbers_that_a_network_soon_predicts_are_said() -> None:
    def notes(kind: str, size: int) -> str:
        settings = {"bonus.kind": kind, "about.obs_size": size}
        return " ".join(exploration.assess([history(settings, success=0, returns=0, new_states=3)]).notes)

    assert "soon predicted everywhere" in notes("rnd", 2)
    assert "soon predicted everywhere" not in notes("rnd", 60) + notes("count", 2)


def test_the_command_says_it_of_a_log_of_any_framework(tmp_path: Path) -> None:
    log = tmp_path / "progress.csv"
    rows = [f"{step},{-200},{n}" for n, step in enumerate(range(1_000, 60_000, 1_000), 1)]
    log.write_text("\n".join(["total_timesteps,ep_rew_mean,total_episodes", *rows]))
    answer = CliRunner().invoke(app, ["explore", str(log), "--json"])
    assert answer.exit_code == 0, answer.output
    report = json.loads(answer.stdout)
    assert (report["verdict"], report["next"]) == ("BOTTLENECK", None)
    assert report["runs"][0]["first"] is None


def test_seeds_that_met_it_and_learned_do_not_hide_those_that_never_did() -> None:
    met = history(success=step_at(0.05, 0, 1.0), returns=step_at(0.05, 0, 1.0))
    solved = replace(met, threshold=0.9, series=met.series | {EVAL: Series(STEPS, step_at(0.05, 0, 1.0), EVAL)})
    never = replace(
        history(success=0, returns=0), threshold=0.9, series=history(success=0, returns=0).series | {EVAL: Series(STEPS, 0 * STEPS, EVAL)}
    )
    assert exploration.assess([solved, never]).verdict == "BOTTLENECK"
    assert exploration.assess([solved, solved, never]).verdict == "NOT"


def test_a_return_that_rises_by_what_looking_around_costs_is_no_other_goal() -> None:
    """DeepSea: who stops going right saves a hundredth, and the treasure is as far as ever."""
    run = history(success=0, returns=np.linspace(-0.006, 0, 40), deviation=0.001)
    assert exploration.assess([run]).verdict == "NOT"
    assert exploration.assess([replace(run, threshold=0.9)]).verdict == "BOTTLENECK"
