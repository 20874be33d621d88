import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rlclinic.errors import UsageError
from rlclinic.readers import options, tensorboard
from rlclinic.readers.options import Options
from rlclinic.readers.raw_log import RawLog
from rlclinic.runs.history import History

WriteEvents = Callable[..., Path]
RETURN, KL = "train/roll/ep_rew_mean", "train/metrics/kl_divergence"


def one(path: Path, given: Options | None = None) -> History:
    (found,) = tensorboard.read(path, given or Options())
    return found


@pytest.fixture
def cleanrl(samples: Path) -> History:
    return one(samples / "cleanrl")


def test_a_cleanrl_folder_tells_who_what_and_how(cleanrl: History) -> None:
    assert (cleanrl.source, cleanrl.env_id, cleanrl.algo, cleanrl.seed) == ("cleanrl", "CartPole-v1", "ppo", 1)
    assert (cleanrl.max_env_steps, cleanrl.env_steps, cleanrl.state) == (40_000, 39_936, "finished")
    assert cleanrl.settings["algo.learning_rate"] == {"schedule": "linear", "start": 0.00025, "end": 0.0}
    assert cleanrl.settings["algo.batch_size"] == 128
    assert cleanrl.segments == ()


def test_cleanrls_episodes_become_a_mean_over_a_hundred(cleanrl: History) -> None:
    assert cleanrl[RETURN].name == "charts/episodic_return"
    assert cleanrl["total_episodes"].last == len(cleanrl[RETURN])
    assert np.all(np.diff(cleanrl["train/roll/ep_rew_best"].values) >= 0)
    assert cleanrl["train/roll/ep_len_mean"].last == cleanrl[RETURN].last


def test_cleanrls_losses_have_our_sign_and_scale(cleanrl: History) -> None:
    assert cleanrl["train/loss/value"].values[0] == pytest.approx(20.0)
    assert cleanrl["train/metrics/entropy"].values[0] == pytest.approx(0.69)
    assert cleanrl["train/loss/entropy"].values[0] == pytest.approx(-0.69)
    assert cleanrl[KL].estimator == "k3, last minibatch"
    assert any("half the squared error" in note for note in cleanrl.notes)


def test_every_folder_with_events_is_a_run(samples: Path) -> None:
    found = tensorboard.read(samples / "sb3_zoo" / "tb", Options())
    assert [(history.id, history.source, history.algo) for history in found] == [("PPO_1", "sb3", "ppo"), ("PPO_2", "sb3", "ppo")]


def test_folders_below_a_run_belong_to_it(write_events: WriteEvents) -> None:
    folder = write_events([(100, {"rollout/ep_rew_mean": 1.0, "train/approx_kl": 0.1})])
    write_events([(100, {"time/fps": 5.0})], "run/1700000000.5")
    found = one(folder)
    assert found["time/fps"].last == 5.0
    assert any("2 event files" in note for note in found.notes)


def test_several_files_of_a_folder_are_segments_of_one_run(write_events: WriteEvents) -> None:
    rows = [(step, {"rollout/ep_rew_mean": step / 100, "train/approx_kl": 0.01}) for step in range(100, 1_100, 100)]
    folder = write_events(rows)
    first = next(folder.iterdir())
    first.rename(folder / "events.out.tfevents.1000000000.a")
    write_events(rows[:3])
    found = one(folder)
    assert (found.segments, found.env_steps) == ((1_000.0,), 1_300)
    assert found[RETURN].values.tolist()[-4:] == [10.0, 1.0, 2.0, 3.0]


def test_a_live_file_is_read_as_far_as_it_goes(tmp_path: Path, samples: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(samples / "cleanrl" / "CartPole-v1__ppo__1__1700000000", folder)
    file = next(folder.iterdir())
    file.write_bytes(file.read_bytes()[:50_000])
    assert 0 < len(one(folder)[KL]) < 78


def test_iterations_on_the_axis_are_turned_into_env_steps_where_asked(write_events: WriteEvents) -> None:
    folder = write_events([(step, {"Train/mean_reward": 1.0, "Loss/surrogate": 0.1}) for step in range(5)])
    assert any("rsl_rl counts iterations" in note for note in one(folder).notes)
    scaled = one(folder, options.make_options(mapping=["step=step*4096"]))
    assert scaled.env_steps == 4 * 4_096


def test_tags_of_nobody_are_guessed_and_it_is_said(write_events: WriteEvents) -> None:
    found = one(write_events([(1, {"my/mean_reward": 3.0, "my/weights": 1.0})]))
    assert (found.source, found[RETURN].last) == ("tensorboard", 3.0)
    assert any("no framework that is known" in note for note in found.notes)


def test_tags_that_say_nothing_can_be_mapped(write_events: WriteEvents) -> None:
    folder = write_events([(1, {"foo": 3.0}), (2, {"foo": 4.0})])
    with pytest.raises(UsageError, match="no tag is known"):
        tensorboard.read(folder, Options())
    assert one(folder, options.make_options(mapping=["return=foo*2"]))[RETURN].values.tolist() == [6.0, 8.0]


def test_a_run_without_scalars_says_so(tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.1.h").write_bytes(b"")
    with pytest.raises(UsageError, match="holds no scalars"):
        tensorboard.read(tmp_path, Options())


def test_too_many_tags_are_cut_off_with_a_note(write_events: WriteEvents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard, "MAX_TAGS", 3)
    found = one(write_events([(1, {"rollout/ep_rew_mean": 1.0, **{f"tag{number}": 0.0 for number in range(9)}})]))
    assert any("first 3 tags" in note for note in found.notes)


def test_the_arguments_of_a_tianshou_script_are_read_from_its_text() -> None:
    text = (
        "Namespace(task='CartPole-v1', seed=4, lr=0.001, gamma=0.9, epoch=8, step_per_epoch=2500, step_per_collect=500, "
        "repeat_per_collect=8, batch_size=128, training_num=5, eps_clip=0.2, norm_adv=1)"
    )
    settings, _ = tensorboard.find_settings(tensorboard.Events(RawLog(), {"args": text}), Path("1"), None)
    assert settings == {
        "env.id": "CartPole-v1",
        "env.n_envs": 5,
        "seed": 4,
        "algo.learning_rate": 0.001,
        "algo.gamma": 0.9,
        "algo.n_steps": 100,
        "algo.n_epochs": 8,
        "algo.batch_size": 128,
        "algo.clip_range": 0.2,
        "algo.normalize_advantage": "batch",
        "run.max_env_steps": 20_000,
    }


def test_the_folders_above_a_run_may_name_its_algorithm(tmp_path: Path, write_events: WriteEvents) -> None:
    tags = {"training/returns_stat/mean": 1.0, "training/lens_stat/mean": 2.0, "test/returns_stat/mean": 3.0}
    assert one(write_events([(100, tags), (200, tags)], "log/CartPole-v1/dqn/0")).algo == "dqn"
