from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rlclinic.errors import UsageError
from rlclinic.readers import sb3
from rlclinic.readers.options import Options
from rlclinic.runs.history import History

CopySample = Callable[..., Path]
RETURN, EVAL, KL = "train/roll/ep_rew_mean", "val/roll/ep_rew_mean", "train/metrics/kl_divergence"
LOGGED = (RETURN, EVAL, KL, "train/loss/policy", "train/loss/value", "train/metrics/entropy", "train/metrics/clip_fraction")


def one(path: Path) -> History:
    (found,) = sb3.read(path, Options())
    return found


@pytest.fixture
def ppo(samples: Path) -> History:
    return one(samples / "sb3_ppo")


def test_all_files_of_a_run_are_joined_and_it_is_said(ppo: History) -> None:
    assert ppo.notes[0].startswith("joined as one run: progress.csv, progress.json, events")
    assert "eval/evaluations.npz, 4 monitor files in monitor, model.zip" in ppo.notes[0]


def test_a_run_tells_who_what_and_how(ppo: History) -> None:
    assert (ppo.id, ppo.source, ppo.env_id, ppo.algo, ppo.seed) == ("sb3_ppo", "sb3", "CartPole-v1", "ppo", 3)
    assert (ppo.env_steps, ppo.max_env_steps, ppo.state, ppo.threshold) == (6_144, 6_144, "finished", None)
    assert {key: ppo.settings[key] for key in ("env.n_envs", "algo.n_steps", "algo.batch_size", "algo.ent_coef", "algo.clip_range")} == {
        "env.n_envs": 4,
        "algo.n_steps": 64,
        "algo.batch_size": 64,
        "algo.ent_coef": 0.01,
        "algo.clip_range": 0.2,
    }


def test_metrics_have_our_names_sign_and_steps(ppo: History) -> None:
    assert ppo[RETURN].steps.tolist() == [256.0 * row for row in range(1, 25)]
    assert ppo["train/metrics/entropy"].values[0] == pytest.approx(0.6923288)
    assert ppo["train/loss/entropy"].values[0] == pytest.approx(-0.6923288)
    assert ppo["train/loss/total"].estimator == "last minibatch"
    assert np.all(ppo[KL].values >= 0)


def test_the_total_loss_is_made_of_its_parts(ppo: History) -> None:
    """Only of the last minibatch, so roughly: a wrong sign or scale of a part would be far off."""
    parts = ppo["train/loss/policy"].values + 0.5 * ppo["train/loss/value"].values + 0.01 * ppo["train/loss/entropy"].values
    assert np.median(ppo["train/loss/total"].values / parts) == pytest.approx(1.0, abs=0.25)


def test_evaluations_come_from_the_file_that_knows_every_episode(ppo: History) -> None:
    assert (ppo[EVAL].name, ppo[EVAL].steps.tolist()) == ("results mean", [2_048, 4_096, 6_144])
    assert ppo["val/roll/ep_rew_min"].values.tolist() == [65, 149, 318]


def test_monitors_add_what_the_log_has_not(ppo: History) -> None:
    assert ppo["total_episodes"].last == 116
    assert ppo["train/roll/ep_rew_best"].last == 217


@pytest.mark.parametrize("kept", ["progress.csv", "progress.json", "*tfevents*", "console.txt"])
def test_every_kind_of_log_says_the_same(kept: str, copy_sample: CopySample, ppo: History) -> None:
    """With the monitors kept, since a console text alone is another reader's matter."""
    found = one(copy_sample("sb3_ppo", kept, "*.monitor.csv"))
    for name in LOGGED:
        assert found[name].steps.tolist() == ppo[name].steps.tolist()
        assert found[name].values == pytest.approx(ppo[name].values, rel=6e-3, abs=5e-4)


def test_sizes_that_nobody_wrote_down_are_told_by_the_log(copy_sample: CopySample) -> None:
    settings = one(copy_sample("sb3_ppo", "progress.csv", "*.monitor.csv")).settings
    assert (settings["env.n_envs"], settings["algo.n_steps"], settings["algo.n_epochs"]) == (4, 64, 4)
    assert (settings["algo.learning_rate"], settings["algo.clip_range"]) == (0.001, 0.2)


@pytest.mark.parametrize("file", ["progress.csv", "progress.json", "monitor/2.monitor.csv", "eval/evaluations.npz"])
def test_a_file_stands_for_the_run_that_it_belongs_to(file: str, samples: Path, ppo: History) -> None:
    assert sb3.matches(samples / "sb3_ppo" / file)
    found = one(samples / "sb3_ppo" / file)
    assert found.settings == ppo.settings
    assert found.series.keys() == ppo.series.keys()


def test_an_off_policy_run_has_its_own_metrics(samples: Path) -> None:
    sac = one(samples / "sb3_sac")
    assert (sac.algo, sac.env_id) == ("sac", "Pendulum-v1")
    assert {"train/loss/actor", "train/loss/critic", "train/loss/alpha", "train/hp/alpha"} <= sac.series.keys()
    assert sac["train/sentinel/optimizer_steps"].last == 1_999
    assert "train/loss/total" not in sac


def test_a_count_that_began_again_is_one_run_in_segments(samples: Path) -> None:
    found = one(samples / "sb3_restart")
    assert (found.algo, found.segments, found.env_steps) == ("a2c", (2_000.0,), 3_500)
    assert found[RETURN].steps.tolist() == [500, 1_000, 1_500, 2_000, 2_500, 3_000, 3_500]


def test_rl_zoo3s_seeds_are_runs_with_their_tensorboard_folders(samples: Path) -> None:
    found = sb3.read(samples / "sb3_zoo", Options())
    assert [(history.id, history.seed, history.env_id) for history in found] == [
        ("CartPole-v1_1", 7, "CartPole-v1"),
        ("CartPole-v1_2", 8, "CartPole-v1"),
    ]
    assert all(KL in history and EVAL in history and "train/roll/ep_rew_std" in history for history in found)
    assert "tb/CartPole-v1/PPO_1/events" in found[0].notes[0]


def test_a_run_of_rl_zoo3_alone_finds_its_tensorboard_folder(samples: Path) -> None:
    assert KL in one(samples / "sb3_zoo" / "logs" / "ppo" / "CartPole-v1_2")


def test_the_folder_with_rl_zoo3s_settings_stands_for_the_run_above(samples: Path) -> None:
    assert one(samples / "sb3_zoo" / "logs" / "ppo" / "CartPole-v1_1" / "CartPole-v1").seed == 7


def test_large_event_files_beside_a_log_are_not_waited_for(copy_sample: CopySample, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sb3, "_EVENT_BYTES", 1_000)
    assert any("event files are large" in note for note in one(copy_sample("sb3_ppo", "progress.csv", "*tfevents*")).notes)


def test_a_log_that_is_being_rewritten_is_read_as_far_as_it_goes(copy_sample: CopySample) -> None:
    folder = copy_sample("sb3_ppo", "progress.csv")
    text = (folder / "progress.csv").read_bytes()
    (folder / "progress.csv").write_bytes(text[: len(text) // 2])
    found = one(folder)
    assert 0 < len(found[RETURN]) < 24


def test_a_traceback_beside_the_log_is_how_it_ended(copy_sample: CopySample) -> None:
    folder = copy_sample("sb3_ppo", "progress.csv", "console.txt")
    with (folder / "console.txt").open("a") as file:
        file.write('Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nValueError: expected nan-free logits\n')
    found = one(folder)
    assert (found.state, found.reason) == ("failed", "ValueError: expected nan-free logits")
    assert found.log_tail.endswith("expected nan-free logits")


def test_sentinels_that_a_callback_wrote_are_read_by_our_names(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text("time/total_timesteps,train/sentinel/adv_std,rollout/ep_rew_mean\n100,0.5,1\n200,0.25,2\n")
    assert one(tmp_path)["train/sentinel/adv_std"].values.tolist() == [0.5, 0.25]


def test_a_folder_whose_files_are_still_empty_says_so(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text("time/total_timesteps,rollout/ep_rew_mean\n")
    assert sb3.matches(tmp_path)
    with pytest.raises(UsageError, match="no numbers"):
        sb3.read(tmp_path, Options())


def test_a_progress_csv_of_another_framework_is_not_sb3s(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text("training_iteration,episode_reward_mean\n1,2\n")
    assert not sb3.matches(tmp_path)
    assert not sb3.matches(tmp_path / "progress.csv")


def test_passes_per_rollout_are_counted_where_an_evaluation_writes_the_row(tmp_path: Path) -> None:
    rows = ["time/iterations,time/total_timesteps,rollout/ep_rew_mean,train/n_updates,train/clip_fraction,train/policy_gradient_loss"]
    for iteration in range(1, 9):
        rows.append(f"{iteration},{iteration * 1024},{iteration},,,")
        rows.append(f",{iteration * 1024 + 976},,{iteration * 100},0.1,-0.01")
    (tmp_path / "progress.csv").write_text("\n".join(rows) + "\n")
    assert sb3.read(tmp_path, Options())[0].settings["algo.n_epochs"] == 100


def test_monitors_in_which_no_episode_ever_ended_say_so(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text("time/total_timesteps,train/approx_kl\n10000,0.01\n20000,0.01\n")
    for env in range(4):
        (tmp_path / f"{env}.monitor.csv").write_text('#{"t_start": 1700000000.0, "env_id": "Endless-v0"}\nr,l,t\n')
    found = sb3.read(tmp_path, Options())[0]
    assert (found.env_id, found.settings["env.n_envs"]) == ("Endless-v0", 4)
    assert found.series["total_episodes"].values.tolist() == [0.0, 0.0]
    assert found.series["total_episodes"].steps[-1] == 20_000
