"""The story of a run: rows, schedules, requests from outside, children of runs, and evaluations that disturb nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from rlclinic.config import Config
from rlclinic.errors import ConfigError
from rlclinic.launch import batch
from rlclinic.runs import control, lease
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training import rows, trainer
from rlclinic.training.__main__ import train_runs
from tests.training import cohorts, tasks
from tests.training.cohorts import TASKS, Interrupted, assert_same_run, interrupt_at, make_config, table, train

EVERY = {"checkpoint_every_env_steps": 32}
"""A checkpoint after each of PPO's small rollouts."""


def column(run: Run, name: str) -> list[float | None]:
    return [float(row[name]) if row[name] else None for row in table(run)]


def asking_at(step: int, **request: Any) -> Callable[[dict[str, Any]], None]:
    """A callback that leaves a request once, when the row of this step has been written."""
    asked: list[str] = []

    def callback(row: dict[str, Any]) -> None:
        if row["total_timesteps"] >= step and row["run"].id not in asked:
            asked.append(row["run"].id)
            row["run"].ask(**request)

    return callback


def newest(folder: Path) -> Run:
    return Store(folder / "runs").runs()[-1]


# ── rows ──


def test_a_row_tells_the_numbers_that_were_applied_in_its_iteration(tmp_path: Path) -> None:
    algo = {"learning_rate": {"start": 1e-3, "end": 0.0}, "clip_range": {"start": 0.2, "end": 0.1}}
    run = train(tmp_path, [make_config(algo=algo, run={"max_env_steps": 128})])[0]
    assert column(run, "total_timesteps") == [32, 64, 96, 128]
    assert column(run, "epoch") == [1, 2, 3, 4]
    assert column(run, "train/hp/learning_rate") == pytest.approx([1e-3, 7.5e-4, 5e-4, 2.5e-4])
    assert column(run, "train/hp/clip_range") == pytest.approx([0.2, 0.175, 0.15, 0.125])


@pytest.mark.parametrize("kind", ["ppo", "sac"])
def test_a_run_with_clipped_rewards_logs_the_raw_return_and_the_clipped_one(tmp_path: Path, kind: str) -> None:
    env = {"id": "Pendulum-v1", "max_episode_steps": 10}
    clipped = train(tmp_path / "clipped", [make_config(kind, env={**env, "clip_raw_reward": 0.5})])[0]
    raw, told = column(clipped, "train/roll/ep_rew_mean")[-1], column(clipped, "train/roll/ep_rew_clipped_mean")[-1]
    assert raw is not None
    assert told is not None
    assert raw < -10 < -5 <= told < 0, "ten steps of at most 0.5 each, out of up to 16"
    plain = train(tmp_path / "plain", [make_config(kind, env=env)])[0]
    assert "train/roll/ep_rew_clipped_mean" not in table(plain)[0]


def test_a_kl_adaptive_rate_reacts_and_each_row_tells_the_rate_that_its_update_took(tmp_path: Path) -> None:
    adaptive = {"schedule": "kl_adaptive", "start": 1e-3, "target_kl": 10.0, "factor": 2.0, "max": 3e-3}
    run = train(tmp_path, [make_config(algo={"learning_rate": adaptive})])[0]
    # The policy hardly moves in comparison with such a target: the rate doubles up to its highest value.
    assert column(run, "train/hp/learning_rate") == pytest.approx([1e-3, 2e-3, 3e-3, 3e-3, 3e-3])


@pytest.mark.parametrize("target_kl", [None, 1e-4])
def test_a_kl_adaptive_run_resumes_with_the_rate_that_it_had(tmp_path: Path, target_kl: float | None) -> None:
    adaptive = {"schedule": "kl_adaptive", "start": 2e-3, "target_kl": 1e-3}
    config = make_config(algo={"learning_rate": adaptive, "target_kl": target_kl, "n_epochs": 4}, run=EVERY)
    straight = train(tmp_path, [config])[0]
    assert len(set(column(straight, "train/hp/learning_rate"))) > 1
    with pytest.raises(Interrupted):
        train(tmp_path, [config], callback=interrupt_at(96))
    assert train_runs([newest(tmp_path)], resume=True)
    assert_same_run(newest(tmp_path), straight)


def test_members_that_stop_early_by_target_kl_learn_and_tell_what_they_would_alone(tmp_path: Path) -> None:
    adaptive = {"schedule": "kl_adaptive", "start": 1e-2, "target_kl": 1e-3}
    algo = {"n_epochs": 4, "learning_rate": adaptive}
    bounds = {0: 1e-4, 1: 1e-3, 2: None}
    configs = [make_config(seed=seed, algo={**algo, "target_kl": bound}) for seed, bound in bounds.items()]
    together = train(tmp_path, configs)
    updates = [column(run, "train/sentinel/updates") for run in together]
    assert updates[0] != updates[1]
    assert set(updates[2]) == {8.0}
    for run, config in zip(together, configs, strict=True):
        assert_same_run(run, train(tmp_path, [config])[0])


def test_members_with_different_numbers_learn_as_they_would_alone(tmp_path: Path) -> None:
    numbers: list[dict[str, Any]] = [
        {"learning_rate": 1e-2, "clip_range_vf": 0.1},
        {"value_lr": 1e-2, "gamma": 0.9, "ent_coef": 0.1},
        {"learning_rate": {"start": 1e-2, "end": 0.0}, "vf_coef": 2.0, "max_grad_norm": 0.01},
    ]
    configs = [make_config(seed=seed, algo=algo) for seed, algo in enumerate(numbers)]
    for run, config in zip(train(tmp_path, configs), configs, strict=True):
        assert_same_run(run, train(tmp_path, [config])[0])


def test_short_iterations_share_a_row_and_long_ones_have_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "COSTLY_SENTINELS", 1)
    run = train(tmp_path, [make_config("a2c", run={"max_env_steps": 600, "checkpoint_every_env_steps": 600})])[0]
    assert column(run, "total_timesteps") == [250, 500, 600]
    assert column(run, "train/sentinel/optimizer_steps") == [25, 50, 60]


# ── requests from outside ──


def test_an_adjusted_number_holds_from_the_next_iteration_and_is_written_down(tmp_path: Path) -> None:
    callback = asking_at(64, numbers={"algo.ent_coef": 0.25, "learning_rate": 1e-4})
    run = train(tmp_path, [make_config()], callback=callback)[0]
    assert column(run, "train/hp/ent_coef") == [0.0, 0.0, 0.25, 0.25, 0.25]
    assert column(run, "train/hp/learning_rate") == [3e-3, 3e-3, 1e-4, 1e-4, 1e-4]
    assert run.interventions == [{"env_steps": 64, "set": {"algo.ent_coef": 0.25, "learning_rate": 1e-4}}]
    assert "from env step 64: algo.ent_coef = 0.25" in run.log
    assert run.config.algo.ent_coef == 0.0, "the settings that it started with stay as they were"


def test_adjusting_one_member_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    def callback(row: dict[str, Any]) -> None:
        if row["run"].seed == 1 and row["total_timesteps"] == 64:
            row["run"].ask(numbers={"learning_rate": 0.1})

    configs = [make_config(seed=seed) for seed in range(2)]
    adjusted, usual = train(tmp_path, configs, callback=callback), train(tmp_path, configs)
    assert_same_run(adjusted[0], usual[0])
    assert table(adjusted[1]) != table(usual[1])


@pytest.mark.parametrize(
    "change", [{"algo.ent_coef": 0.25}, {"algo.learning_rate": {"schedule": "kl_adaptive", "start": 1e-3, "target_kl": 1e-3}}]
)
def test_a_resume_replays_adjustments_at_the_steps_where_they_were_made(tmp_path: Path, change: dict[str, Any]) -> None:
    config, ask = make_config(run=EVERY), asking_at(32, numbers=change)
    straight = train(tmp_path, [config], callback=asking_at(32, numbers=change))[0]

    def ask_and_die(row: dict[str, Any]) -> None:
        ask(row)
        interrupt_at(128)(row)

    with pytest.raises(Interrupted):
        train(tmp_path, [config], callback=ask_and_die)
    broken = newest(tmp_path)
    assert broken.checkpoint("@last").step == 96
    assert train_runs([broken], resume=True)
    assert_same_run(broken, straight)
    assert broken.interventions == straight.interventions


def test_an_adjustment_made_after_the_last_checkpoint_is_replayed_too(tmp_path: Path) -> None:
    config = make_config(run={"checkpoint_every_env_steps": 96})
    straight = train(tmp_path, [config], callback=asking_at(32, numbers={"ent_coef": 0.25}))[0]
    ask = asking_at(32, numbers={"ent_coef": 0.25})

    def ask_and_die(row: dict[str, Any]) -> None:
        ask(row)
        interrupt_at(96)(row)

    with pytest.raises(Interrupted):
        train(tmp_path, [config], callback=ask_and_die)
    assert newest(tmp_path).checkpoints == []
    assert train_runs([newest(tmp_path)], resume=True)
    assert_same_run(newest(tmp_path), straight)


@pytest.mark.parametrize(
    ("change", "why"), [({"n_epochs": 5}, "program's shape"), ({"env.n_envs": 4}, "not a number"), ({"clip_range": 7}, "less than 1")]
)
def test_what_is_no_number_or_out_of_bounds_is_refused_and_the_run_goes_on(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    run = train(tmp_path, [make_config()], callback=asking_at(64, numbers=change))[0]
    assert run.status.state == "finished"
    assert run.interventions == []
    assert "refused" in run.log
    assert why in run.log
    assert table(run) == table(train(tmp_path, [make_config()])[0])


def test_a_run_that_was_asked_to_stop_resumes_as_if_it_never_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Rows are rare here, so the request comes in the middle of one: readings that wait for it must not get lost.
    monkeypatch.setattr(trainer, "COSTLY_SENTINELS", 1)
    config = make_config("a2c", run={"max_env_steps": 600, "checkpoint_every_env_steps": 600})
    straight = train(tmp_path, [config])[0]
    asked: list[int] = []
    iterate = trainer.iterate

    def asking(session: Any, **due: Any) -> Any:
        if session.cohort.env_steps == 370 and not asked:
            asked.append(370)
            session.cohort.members[0].run.ask(stop=True)
        return iterate(session, **due)

    monkeypatch.setattr(trainer, "iterate", asking)
    stopped = train(tmp_path, [config])[0]
    assert stopped.status.state == "stopped"
    assert stopped.status.reason == control.ASKED
    assert stopped.checkpoint("@last").step == 500
    assert train_runs([stopped], resume=True)
    assert stopped.status.state == "finished"
    assert_same_run(stopped, straight)


@pytest.mark.parametrize(("left", "reason"), [(0.9, lease.WITH_ITS_PROCESS), (0.2, lease.CUT_OFF)])
def test_a_run_whose_lease_runs_out_says_that_it_was_cut_off_and_not_that_somebody_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: float, reason: str
) -> None:
    iterate = trainer.iterate

    def asking(session: Any, **due: Any) -> Any:
        session.stop_requested = True
        return iterate(session, **due)

    monkeypatch.setattr(trainer, "iterate", asking)
    lease.write_deadline(tmp_path / "deadline", lease.now() + 1_000.0)
    monkeypatch.setenv(lease.VARIABLE, str(tmp_path / "deadline"))
    monkeypatch.setattr(lease, "SECONDS", 1_000.0)
    lease.write_deadline(tmp_path / "deadline", lease.now() + left * lease.SECONDS)
    (run,) = train(tmp_path, [make_config()])
    assert (run.status.state, run.status.reason) == ("stopped", reason)
    assert batch.is_open(run)
    assert batch.is_lost(run) == (reason == lease.CUT_OFF)


class Counted(tasks.Signs):
    """Signs that count the steps of all copies together."""

    steps = 0

    def step(self, action: Any) -> Any:
        type(self).steps += 1
        return super().step(action)


def test_environments_of_a_member_that_has_left_are_stepped_no_more(tmp_path: Path) -> None:
    config = {"env": {"id": "Counted", "log_terms": []}, "run": {"eval_episodes": 0, "max_env_steps": 160}}
    Counted.steps = 0
    alone = train(tmp_path / "alone", [make_config(**config)], factory=Counted)[0]
    assert alone.status.env_steps == Counted.steps == 160
    Counted.steps = 0

    def first_leaves(row: dict[str, Any]) -> None:
        if row["total_timesteps"] == 64 and row["run"].seed == 1:
            row["run"].ask(stop=True)

    stays, leaves = train(
        tmp_path / "both", [make_config(**config, seed=seed) for seed in range(2)], factory=Counted, callback=first_leaves
    )
    assert leaves.status.state == "stopped"
    assert leaves.status.env_steps == 64
    assert Counted.steps == 160 + 64
    assert_same_run(stays, alone)


def test_a_callback_that_says_no_stops_every_member_with_a_checkpoint(tmp_path: Path) -> None:
    configs = [make_config(seed=seed) for seed in range(2)]
    runs = train(tmp_path, configs, callback=lambda row: row["total_timesteps"] < 64)
    assert [run.status.state for run in runs] == ["stopped"] * 2
    assert [run.checkpoint("@last").step for run in runs] == [64, 64]
    assert train_runs(runs, resume=True)
    for run, twin in zip(runs, train(tmp_path, configs), strict=True):
        assert_same_run(run, twin)


def test_asking_for_a_checkpoint_gives_one_and_changes_nothing_else(tmp_path: Path) -> None:
    config = make_config(run={"checkpoint_every_env_steps": 160})
    run = train(tmp_path, [config], callback=asking_at(64, checkpoint=True))[0]
    assert [checkpoint.step for checkpoint in run.checkpoints] == [64, 160]
    assert_same_run(run, train(tmp_path, [config])[0])


def test_resuming_a_run_that_had_come_to_its_end_adds_nothing(tmp_path: Path) -> None:
    config = make_config(run=EVERY)
    run, twin = (train(tmp_path, [config])[0] for _ in range(2))
    assert train_runs([run], resume=True)
    assert run.status.state == "finished"
    assert_same_run(run, twin)


# ── children of runs ──


def test_extending_a_run_goes_on_from_its_end_with_the_larger_budget(tmp_path: Path) -> None:
    decay: dict[str, Any] = {"algo": {"learning_rate": {"start": 1e-2, "end": 0.0}}}
    parent = train(tmp_path, [make_config(run={"max_env_steps": 64}, **decay)])[0]
    child = train(tmp_path, [make_config(run={"max_env_steps": 128}, **decay)], parent=f"{parent.id}@64", start="extend")[0]
    assert child.status.state == "finished"
    assert column(child, "total_timesteps") == [96, 128]
    # Schedules are stretched over the new budget.
    assert column(child, "train/hp/learning_rate") == pytest.approx([5e-3, 2.5e-3])
    assert column(child, "train/sentinel/optimizer_steps") == [12, 16]
    assert column(parent, "total_timesteps") == [32, 64]
    # With a constant rate there is no difference between a long run and an extended one.
    straight = train(tmp_path, [make_config(run={"max_env_steps": 128})])[0]
    short = train(tmp_path, [make_config(run={"max_env_steps": 64})])[0]
    extended = train(tmp_path, [make_config(run={"max_env_steps": 128})], parent=f"{short.id}@64", start="extend")[0]
    assert cohorts.saved(extended) == cohorts.saved(straight)
    assert [row["train/loss/policy"] for row in table(extended)] == [row["train/loss/policy"] for row in table(straight)[2:]]


def test_a_run_initialized_from_another_starts_at_step_zero_with_its_weights_and_normalizers_alone(tmp_path: Path) -> None:
    env = {"normalize_obs": True, "normalize_reward": True}
    parent = train(tmp_path, [make_config(env=env, run=EVERY)])[0]
    still = {"learning_rate": 1e-12}
    child = train(tmp_path, [make_config(env=env, seed=9, algo=still, run={"max_env_steps": 32})], parent=f"{parent.id}@160", start="init")[
        0
    ]
    assert column(child, "total_timesteps") == [32]
    assert column(child, "train/sentinel/optimizer_steps") == [4]
    before, after = (load_file(run.checkpoint("@last").path / "policy.safetensors") for run in (parent, child))
    for name, weight in before.items():
        if name.startswith(("obs_stats", "reward_stats")):
            assert after["obs_stats.count"] == before["obs_stats.count"] + 32
        else:
            np.testing.assert_allclose(after[name], weight, rtol=0, atol=1e-6)


def test_a_network_of_another_shape_cannot_be_taken_over(tmp_path: Path) -> None:
    parent = train(tmp_path, [make_config()])[0]
    with pytest.raises(ConfigError, match=r"actor\.0\.weight is \(4, 8\), the config needs \(4, 16\)"):
        train(tmp_path, [make_config(net={"hidden": [16]})], parent=f"{parent.id}@160", start="init")


def test_a_fork_with_a_change_differs_from_the_original_from_there_on(tmp_path: Path) -> None:
    original = train(tmp_path, [make_config(run=EVERY)])[0]
    fork = train(tmp_path, [make_config(run=EVERY, algo={"ent_coef": 0.5})], parent=f"{original.id}@128", start="fork")[0]
    first, twin = table(fork)[0], table(original)[4]
    assert first["total_timesteps"] == twin["total_timesteps"] == "160"
    assert first["train/roll/ep_rew_mean"] == twin["train/roll/ep_rew_mean"], "it acts with the same policy in the same episodes"
    assert first["train/sentinel/ratio_first_dev"] == twin["train/sentinel/ratio_first_dev"]
    assert first["train/loss/total"] != twin["train/loss/total"]
    assert cohorts.saved(fork) != cohorts.saved(original)


# ── evaluation ──


def test_more_evaluations_do_not_disturb_training(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {"eval_episodes": 0},
        {"eval_episodes": 5, "eval_every_env_steps": 32},
        {"eval_episodes": 3, "eval_every_env_steps": 64, "eval_deterministic": False},
    ]
    runs = [train(tmp_path, [make_config(run=change)])[0] for change in changes]
    assert column(runs[0], "val/roll/ep_rew_mean") == [None] * 5
    assert None not in column(runs[1], "val/roll/ep_rew_mean")
    assert [value is None for value in column(runs[2], "val/roll/ep_rew_mean")] == [True, False, True, False, False]
    for run in runs[1:]:
        assert table(run, without=("val/",)) == table(runs[0], without=("val/",))
        assert cohorts.saved(run) == cohorts.saved(runs[0])


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, Run]:
    """A run that reaches its threshold, and then goes on."""
    config = probe_config()
    return config, train(tmp_path_factory.mktemp("solved"), [config])[0]


def probe_config(**run: Any) -> Config:
    algo = {"n_steps": 16, "batch_size": 64, "n_epochs": 2, "learning_rate": 5e-5}
    usual = {"max_env_steps": 2_048, "eval_every_env_steps": 256, "eval_episodes": 4}
    # This seed's first policy does the opposite of what pays, and takes three evaluations to turn.
    return make_config(env={"id": "probe:5", "n_envs": 8}, seed=1, spec={"threshold": 1.0}, algo=algo, run={**usual, **run})


def test_the_first_evaluation_at_the_threshold_is_remembered(solved: tuple[Config, Run]) -> None:
    _, run = solved
    steps, returns, _ = run.evaluations
    reached = int(steps[np.argmax(returns >= 1.0)])
    assert returns[0] < 1.0, "a run that starts at its threshold shows nothing"
    assert run.status.threshold_reached_at == reached
    assert run.status.best_eval == returns.max() == 1.0
    assert run.status.state == "finished"
    assert run.status.env_steps == 2_048


def test_a_run_may_stop_at_its_threshold_and_its_neighbours_go_on(tmp_path: Path, solved: tuple[Config, Run]) -> None:
    _, patient = solved
    hasty = probe_config(stop_at_threshold=True)
    never = hasty.model_copy(update={"seed": 2, "spec": hasty.spec.model_copy(update={"threshold": 2.0})})
    one, other = train(tmp_path, [hasty, never])
    assert one.status.state == "finished"
    assert one.status.reason == "threshold reached"
    assert one.status.env_steps == one.checkpoint("@last").step == patient.status.threshold_reached_at
    assert one.status.env_steps < 2_048
    assert table(one) == table(patient)[: len(table(one))]
    assert other.status.env_steps == 2_048
    assert other.status.threshold_reached_at is None


def test_resuming_a_run_that_had_reached_its_threshold_does_not_train_it_further(tmp_path: Path) -> None:
    run = train(tmp_path, [probe_config(stop_at_threshold=True)])[0]
    before = table(run)
    assert train_runs([run], resume=True)
    assert table(run) == before
    assert run.status.reason == "threshold reached"


def test_the_best_checkpoint_is_that_of_the_best_evaluation_and_is_kept(tmp_path: Path) -> None:
    run = train(tmp_path, [make_config(run={"max_env_steps": 320, "eval_every_env_steps": 32, "eval_episodes": 3})])[0]
    steps, returns, _ = run.evaluations
    # Of equal ones the latest, which has learned most.
    best = int(steps[len(returns) - 1 - np.argmax(returns[::-1])])
    assert run.checkpoint("@best").step == best
    assert run.status.best_eval == returns.max()
    assert len(run.checkpoints) <= 3


# ── what the agent sees ──


@pytest.mark.parametrize("env", [{"frame_stack": 3}, {"time_in_obs": True}, {"frame_stack": 2, "time_in_obs": True, "normalize_obs": True}])
def test_stacked_frames_and_time_in_the_observation_train_and_resume_exactly(tmp_path: Path, env: dict[str, Any]) -> None:
    config = make_config(env={**TASKS["discrete"][0], **env}, run=EVERY)
    straight = train(tmp_path, [config])[0]
    assert straight.status.state == "finished"
    width = 4 * env.get("frame_stack", 1) + env.get("time_in_obs", False)
    assert load_file(straight.checkpoint("@last").path / "policy.safetensors")["actor.0.weight"].shape == (width, 8)
    with pytest.raises(Interrupted):
        train(tmp_path, [config], callback=interrupt_at(96))
    assert train_runs([newest(tmp_path)], resume=True)
    assert_same_run(newest(tmp_path), straight)


def test_normalized_runs_resume_exactly_and_save_their_statistics_with_the_policy(tmp_path: Path) -> None:
    config = make_config(env={**TASKS["box"][0], "normalize_obs": True, "normalize_reward": True}, run=EVERY)
    straight = train(tmp_path, [config])[0]
    saved = load_file(straight.checkpoint("@last").path / "policy.safetensors")
    assert saved["obs_stats.count"] == saved["reward_stats.count"] == 160
    assert saved["obs_stats.mean"].shape == (3,)
    with pytest.raises(Interrupted):
        train(tmp_path, [config], callback=interrupt_at(96))
    assert train_runs([newest(tmp_path)], resume=True)
    assert_same_run(newest(tmp_path), straight)


def test_masked_actions_are_never_taken_on_taxi(tmp_path: Path) -> None:
    config = make_config(env={"id": "Taxi-v3", "action_mask": True, "max_episode_steps": 30}, run=EVERY)
    run = train(tmp_path, [config])[0]
    assert run.status.state == "finished"
    # A forbidden pick-up or drop-off costs 10; with masks a step costs 1, or pays 20.
    assert min(value for value in column(run, "train/sentinel/reward_min") if value is not None) == -1.0
    free = train(tmp_path, [make_config(env={"id": "Taxi-v3", "max_episode_steps": 30})])[0]
    assert min(value for value in column(free, "train/sentinel/reward_min") if value is not None) == -10.0


def test_a_large_cohort_spares_rows_checkpoints_and_heartbeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LARGE", 1)
    monkeypatch.setattr(rows, "LARGE_ROWS", 3)
    config = make_config(run={"max_env_steps": 32 * 60, "eval_every_env_steps": 640, "eval_episodes": 1})
    many = train(tmp_path, [config.model_copy(update={"seed": seed}) for seed in (0, 1)])[0]
    one = train(tmp_path, [config])[0]
    written = [int(row["total_timesteps"]) for row in table(many)]
    assert len(written) <= rows.LARGE_ROWS + 4, "rows are rare, apart from evaluations"
    assert len(written) < len(table(one))
    # At the half and at the end; the best one is among them.
    assert [checkpoint.step for checkpoint in many.checkpoints] == [960, 1920]
    assert many.status.state == "finished"
    assert many.status.episodes == int(table(many)[-1]["total_episodes"]), "the last words are up to date"


def test_the_first_row_says_what_a_policy_that_has_learned_nothing_saw_of_its_environment(tmp_path: Path) -> None:
    (run,) = train(tmp_path, [make_config(run={"max_env_steps": 4096})])
    told = [bool(row["train/sentinel/reward_common"]) for row in table(run)]
    assert told[0]
    assert 2 <= sum(told) < len(told), "and now and then later on"
