"""What is prescribed for faults of environments: wrappers that undo them, and nothing where the run's numbers do not carry it."""

from dataclasses import replace

from rlclinic.config import Config, files
from rlclinic.diagnosis import engine
from rlclinic.diagnosis.findings import Cause, Diagnosis, Severity
from rlclinic.diagnosis.rules import cases
from rlclinic.runs.history import History
from rlclinic.treatment.prescription import doses
from rlclinic.treatment.prescription.group_numbers import Chart
from rlclinic.treatment.prescription.prescribe import make_prescriptions

BLIND = {"train/sentinel/obs_std_min": 0.0}
ENDS_AT_LIMIT = {"train/roll/ep_len_mean": 60.0, "train/sentinel/terminated": 3.0, "train/sentinel/truncated": 0.0}


def config(*changes: str) -> Config:
    return files.load("CartPole-v1:ppo_zoo", ["run.max_env_steps=50000", *changes]).config


def changes(diagnosis: Diagnosis, run: History, given: Config) -> list[dict[str, object]]:
    return [dict(rx.changes) for rx in make_prescriptions(diagnosis, [run], given) if rx.changes and rx.held_back is None]


def caused(*rows: tuple[str, float], verdict: str = "NOT SOLVED") -> Diagnosis:
    found = engine.diagnose([cases.unsolved()])
    made = tuple(Cause(id=id, title=id, probability=odds, severity=Severity.HIGH, rules=(), agree=1, of=1) for id, odds in rows)
    return found.model_copy(update={"causes": made, "verdict": verdict})


def test_frames_are_stacked_only_where_the_past_tells_what_is_hidden() -> None:
    """A hidden velocity is in the last frames; the other side of a board is not, and four times the inputs make learning slower."""
    velocity = cases.unsolved({**BLIND, "train/sentinel/obs_memory": 0.9})
    elsewhere = cases.unsolved({**BLIND, "train/sentinel/obs_memory": 0.01})
    unknown = cases.unsolved(BLIND)
    assert changes(engine.diagnose([velocity]), velocity, config()) == [{"env.frame_stack": 4}]
    assert changes(engine.diagnose([elsewhere]), elsewhere, config()) == []
    assert changes(engine.diagnose([unknown]), unknown, config()) == [{"env.frame_stack": 4}]
    told = make_prescriptions(engine.diagnose([elsewhere]), [elsewhere], config())
    assert told[0].title == "return the missing component of the state"


def test_a_short_limit_that_is_reported_as_an_end_is_made_as_long_as_the_task_and_shown() -> None:
    short = config("env.max_episode_steps=60")
    reported = cases.unsolved(ENDS_AT_LIMIT, settings={"env.max_episode_steps": 60})
    found = changes(caused(("time-limit-as-terminal", 0.9)), reported, short)
    assert found[:2] == [{"env.max_episode_steps": 500, "env.time_in_obs": True}, {"env.time_in_obs": True}]
    # The environment says that time is up, and the code forgets it: no setting mends that.
    cut = cases.unsolved({**ENDS_AT_LIMIT, "train/sentinel/truncated": 3.0}, settings={"env.max_episode_steps": 60})
    assert changes(caused(("time-limit-as-terminal", 0.9)), cut, short) == []


def test_what_makes_a_sound_run_faster_is_not_offered_beside_a_fault() -> None:
    """A reward with the wrong sign passes every threshold: such a run is solved, and has a fault."""
    run = cases.solved()
    both = caused(("reward-sign", 0.92), ("healthy", 1.0), verdict="SOLVED")
    assert changes(both, run, config())[0] == {"env.reward_scale": -1.0}
    assert not any("algo.learning_rate" in change for change in changes(both, run, config()))


def test_a_sign_is_turned_around_alone_and_not_where_evaluation_shows_that_it_is_right() -> None:
    run = cases.unsolved()
    for found in changes(caused(("reward-sign", 0.5), ("learning-rate-too-low", 0.4)), run, config()):
        assert "env.reward_scale" not in found or len(found) == 1
    # Steps of training cost, and evaluation pays more than the threshold: a constant was taken off, the sign is right.
    shifted = cases.solved({"train/sentinel/reward_max": -0.3, "train/sentinel/reward_min": -3.0, "val/roll/ep_rew_mean": 495.0})
    assert doses.compute("turn-rewards-around", Chart([shifted], config())) is None
    wrong = cases.unsolved({"train/sentinel/reward_max": -0.3, "train/sentinel/reward_min": -3.0, "val/roll/ep_rew_mean": -100.0})
    assert doses.compute("turn-rewards-around", Chart([wrong], config())) is not None


def test_a_run_that_learns_is_given_what_its_numbers_ask_for_and_the_rest_is_held_back() -> None:
    usual, huge = cases.solved(), cases.solved({"train/sentinel/return_abs_p95": 5e4, "train/sentinel/return_std": 2e4})
    assert changes(engine.diagnose([usual]), usual, config()) == []
    assert changes(engine.diagnose([huge]), huge, config())[:1] == [{"env.normalize_reward": True}]
    tiny = cases.solved({"train/sentinel/obs_std_max": 1e-3, "train/sentinel/obs_abs_max": 2e-3})
    assert changes(engine.diagnose([tiny]), tiny, config())[:1] == [{"env.normalize_obs": True}]
    slow = replace(cases.solved({"train/metrics/kl_divergence": 1e-5}), seed=1)
    offered = [rx for rx in make_prescriptions(engine.diagnose([slow]), [slow], config()) if rx.changes]
    assert offered, "something makes it faster"
    assert all(rx.held_back for rx in offered)


def test_a_sign_is_turned_around_at_once_only_where_nothing_is_likelier() -> None:
    run = cases.unsolved()

    def find(*causes: tuple[str, float]) -> list[bool]:
        found = make_prescriptions(caused(*causes), [run], config())
        return [rx.held_back is not None for rx in found if "env.reward_scale" in rx.changes]

    assert find(("reward-sign", 0.6), ("observation-partial", 0.4)) == [False]
    assert all(find(("observation-partial", 0.6), ("reward-sign", 0.4)))


def test_a_sign_is_not_turned_around_in_runs_that_are_well() -> None:
    """A second cause, less likely than that nothing is wrong, is no reason to turn a solved run around."""
    run = cases.solved()
    found = make_prescriptions(caused(("healthy", 1.0), ("reward-sign", 0.55), verdict="SOLVED"), [run], config())
    assert all(rx.held_back and rx.priority == "low" for rx in found if "env.reward_scale" in rx.changes)
