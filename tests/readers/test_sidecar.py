"""Settings that lie beside a log are found, translated and told; what the log itself says counts more."""

import json
from pathlib import Path
from typing import Any

import pytest

from rlclinic.readers import read as read_path
from rlclinic.readers import sidecar
from rlclinic.runs.history import History

ROWS = "timesteps_total,episode_reward_mean,info/learner/default_policy/learner_stats/kl\n4000,20,0.01\n8000,30,0.02\n"


def read(folder: Path) -> History:
    found = read_path(folder)
    assert len(found) == 1
    return found[0]


def test_params_of_rllib_are_settings_and_no_second_run(tmp_path: Path) -> None:
    folder = tmp_path / "PPO_CartPole-v1_3f2a"
    folder.mkdir()
    (folder / "progress.csv").write_text(ROWS)
    given = {"env": "CartPole-v1", "lr": 5e-5, "gamma": 0.99, "lambda": 0.9, "sgd_minibatch_size": 128, "entropy_coeff": 0.01, "seed": 3}
    (folder / "params.json").write_text(json.dumps(given))
    found = read(folder)
    assert (found.id, found.algo, found.env_id, found.seed) == (folder.name, "ppo", "CartPole-v1", 3)
    assert {name: found.settings[name] for name in ("algo.learning_rate", "algo.gae_lambda", "algo.batch_size", "algo.ent_coef")} == {
        "algo.learning_rate": 5e-5,
        "algo.gae_lambda": 0.9,
        "algo.batch_size": 128,
        "algo.ent_coef": 0.01,
    }
    assert any("params.json, which lies beside it" in note for note in found.notes)


def test_spinning_up_names_epochs_and_steps_in_its_config(tmp_path: Path) -> None:
    folder = tmp_path / "cart_s0"
    folder.mkdir()
    (folder / "progress.txt").write_text(
        "Epoch\tAverageEpRet\tTotalEnvInteracts\tKL\tClipFrac\n0\t20\t4000\t0.01\t0.1\n1\t30\t8000\t0.01\t0.1\n"
    )
    (folder / "config.json").write_text(json.dumps({"pi_lr": 3e-4, "steps_per_epoch": 4000, "epochs": 50, "env_fn": "<lambda>", "seed": 0}))
    found = read(folder)
    assert (found.id, found.algo, found.max_env_steps, found.env_id) == ("cart_s0", "ppo", 200_000, None)
    assert found.settings["algo.learning_rate"] == 3e-4


def test_nested_sections_and_values_of_wandb_are_opened() -> None:
    raw = {"algo": {"lr": {"value": 1e-3, "desc": None}}, "env_id": {"value": "Pendulum-v1"}, "optimizer": {"betas": [0.9, 0.999]}}
    assert sidecar.translate(raw) == {"algo.learning_rate": 1e-3, "env.id": "Pendulum-v1"}


def test_what_the_log_says_counts_more_than_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("step,reward\n1,2\n2,3\n")
    (tmp_path / "config.yaml").write_text("gamma: 0.9\nlearning_rate: 0.001\ntotal_timesteps: 500\n")
    found = read_path(tmp_path / "log.csv", budget=900)[0]
    assert found.max_env_steps == 900
    assert found.settings["algo.gamma"] == 0.9


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", "gamma: [", '{"a": 1}', "\x00\x01"])
def test_a_file_of_settings_that_is_none_changes_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "log.csv").write_text("step,reward\n1,2\n2,3\n")
    for name in ("params.json", "config.yaml"):
        (tmp_path / name).write_text(text)
    assert dict(read_path(tmp_path / "log.csv")[0].settings) == {}


# ── sentinels.json, which rlclinic's callback leaves ──

LOG = "time/total_timesteps,rollout/ep_rew_mean\n100,1\n200,2\n"


def write_sentinels(folder: Path, **content: Any) -> Path:
    (folder / sidecar.SENTINEL_FILE).write_text(json.dumps({"format": "rlclinic-sentinels", "version": 1, **content}))
    return folder / sidecar.SENTINEL_FILE


def test_settings_count_more_than_what_the_log_seems_to_say(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text("time/total_timesteps,train/clip_range\n100,0.1\n200,0.1\n")
    write_sentinels(
        tmp_path, settings={"algo.name": "ppo", "algo.clip_range": 0.2, "env.id": "CartPole-v1", "spec.threshold": 475.0, "seed": 4}
    )
    (found,) = read_path(tmp_path)
    assert (found.settings["algo.clip_range"], found.env_id, found.threshold, found.seed, found.algo) == (
        0.2,
        "CartPole-v1",
        475.0,
        4,
        "ppo",
    )
    assert "sentinels.json" in found.notes[0]


def test_only_settings_are_taken(tmp_path: Path) -> None:
    notes: list[str] = []
    found = sidecar.read_sentinel_file(write_sentinels(tmp_path, settings={"algo.gamma": 0.9, "evil": 1, "__class__": "x"}), notes)
    assert (found.settings, notes) == ({"algo.gamma": 0.9}, [])


@pytest.mark.parametrize(
    "content", ["", "[1]", "{", '{"format": "other"}', '{"format": "rlclinic-sentinels", "settings": 3}', "[" * 100_000]
)
def test_a_damaged_file_is_left_out_with_a_note(content: str, tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text(LOG)
    (tmp_path / sidecar.SENTINEL_FILE).write_text(content)
    (found,) = read_path(tmp_path)
    assert any("sentinels.json holds no settings" in note for note in found.notes)


def test_a_number_that_is_none_is_how_the_run_ended(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text(LOG)
    write_sentinels(
        tmp_path, settings={"run.max_env_steps": 5_000}, not_finite={"where": "reward", "env": 2, "env_steps": 240, "component": []}
    )
    (found,) = read_path(tmp_path)
    assert (found.state, found.reason) == ("failed", "the reward of env 2 is not finite at env step 240")


def test_one_box_of_actions_is_taken_from_the_words_about_the_run(tmp_path: Path) -> None:
    content = {"format": "rlclinic-sentinels", "settings": {"algo.gamma": 0.9}}
    path = tmp_path / sidecar.SENTINEL_FILE
    path.write_text(json.dumps(content | {"about": {"action_space": "Box(-1000.0, 1000.0, (1,), float32)"}}))
    assert sidecar.read_sentinel_file(path, []).settings == {"algo.gamma": 0.9, "about.action_low": -1000.0, "about.action_high": 1000.0}
    path.write_text(json.dumps(content | {"about": {"action_space": "Box([-1. -2.], [1. 2.], (2,), float32)"}}))
    assert sidecar.read_sentinel_file(path, []).settings == {"algo.gamma": 0.9}
