"""sentinels.json beside a foreign log."""

import json
from pathlib import Path
from typing import Any

import pytest

from rlclinic import readers
from rlclinic.readers import testimony

LOG = "time/total_timesteps,rollout/ep_rew_mean\n100,1\n200,2\n"


def written(folder: Path, **content: Any) -> Path:
    (folder / testimony.FILE).write_text(json.dumps({"format": "rlclinic-sentinels", "version": 1, **content}))
    return folder / testimony.FILE


def test_settings_count_more_than_what_the_log_seems_to_say(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text("time/total_timesteps,train/clip_range\n100,0.1\n200,0.1\n")
    written(tmp_path, settings={"algo.name": "ppo", "algo.clip_range": 0.2, "env.id": "CartPole-v1", "spec.threshold": 475.0, "seed": 4})
    (found,) = readers.read(tmp_path)
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
    found = testimony.read(written(tmp_path, settings={"algo.gamma": 0.9, "evil": 1, "__class__": "x"}), notes)
    assert (found.settings, notes) == ({"algo.gamma": 0.9}, [])


@pytest.mark.parametrize(
    "content", ["", "[1]", "{", '{"format": "other"}', '{"format": "rlclinic-sentinels", "settings": 3}', "[" * 100_000]
)
def test_a_damaged_file_is_left_out_with_a_note(content: str, tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text(LOG)
    (tmp_path / testimony.FILE).write_text(content)
    (found,) = readers.read(tmp_path)
    assert any("sentinels.json holds no settings" in note for note in found.notes)


def test_a_number_that_is_none_is_how_the_run_ended(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text(LOG)
    written(tmp_path, settings={"run.max_env_steps": 5_000}, not_finite={"where": "reward", "env": 2, "env_steps": 240, "component": []})
    (found,) = readers.read(tmp_path)
    assert (found.state, found.reason) == ("failed", "the reward of env 2 is not finite at env step 240")


def test_one_box_of_actions_is_taken_from_the_words_about_the_run(tmp_path: Path) -> None:
    content = {"format": "rlclinic-sentinels", "settings": {"algo.gamma": 0.9}}
    path = tmp_path / testimony.FILE
    path.write_text(json.dumps(content | {"about": {"action_space": "Box(-1000.0, 1000.0, (1,), float32)"}}))
    assert testimony.read(path, []).settings == {"algo.gamma": 0.9, "about.action_low": -1000.0, "about.action_high": 1000.0}
    path.write_text(json.dumps(content | {"about": {"action_space": "Box([-1. -2.], [1. 2.], (2,), float32)"}}))
    assert testimony.read(path, []).settings == {"algo.gamma": 0.9}
