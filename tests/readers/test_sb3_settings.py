import zipfile
from pathlib import Path

import pytest

from rlclinic.readers import sb3_settings

RUN = "sb3_zoo/logs/ppo/CartPole-v1_1/CartPole-v1"


def test_rl_zoo3s_files_say_settings_environment_algorithm_seed_and_budget(samples: Path) -> None:
    notes: list[str] = []
    found = sb3_settings.read_zoo_settings(samples / RUN, notes)
    assert notes == []
    assert (found["env.id"], found["algo.name"], found["seed"], found["run.max_env_steps"]) == ("CartPole-v1", "ppo", 7, 4_096)
    assert (found["env.n_envs"], found["algo.n_steps"], found["algo.batch_size"]) == (8, 32, 256)
    assert found["algo.learning_rate"] == {"schedule": "linear", "start": 0.001, "end": 0.0}


def test_the_folder_for_tensorboard_is_followed_only_below(tmp_path: Path, samples: Path) -> None:
    assert sb3_settings.find_tensorboard_folder(samples / RUN, []) == "tb"
    for value in ("/etc", "../../secret", "''", "7"):
        (tmp_path / "args.yml").write_text(f"tensorboard_log: {value}\n")
        assert sb3_settings.find_tensorboard_folder(tmp_path, []) is None


def test_pythons_tags_are_read_as_plain_data(tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    file.write_text(
        "!!python/object/apply:collections.OrderedDict\n- - - frame_stack\n    - !!python/tuple [1, 2]\n"
        "  - - fn\n    - !!python/name:torch.nn.ReLU ''\n  - - gamma\n    - 0.9\n"
    )
    assert sb3_settings.read_yaml(file, []) == {"frame_stack": [1, 2], "fn": "torch.nn.ReLU", "gamma": 0.9}


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['touch OWNED']",
        "!!python/object/new:os.system ['touch OWNED']",
        "a: !!python/object/apply:subprocess.run [['touch', 'OWNED']]",
        "!!python/module:os.path ''",
        "a: !!python/object:pathlib.Path {x: 1}",
    ],
)
def test_nothing_in_a_yaml_file_is_executed(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yml").write_text(text)
    sb3_settings.read_yaml(tmp_path / "config.yml", [])
    assert not (tmp_path / "OWNED").exists()


BOMB = "a: &a [x, x]\n" + "".join(f"{chr(98 + step)}: &{chr(98 + step)} [*{chr(97 + step)}, *{chr(97 + step)}]\n" for step in range(24))


@pytest.mark.parametrize(
    "text", ["a: [1, 2", "- just\n- a list", "[" * 1_000, "\x00\x01", "!!unknown x", "? {a: 1}\n: 2", BOMB + "env_wrapper: *y"]
)
def test_a_damaged_or_hostile_yaml_file_gives_no_settings_and_no_traceback(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_text(text)
    notes: list[str] = []
    found = sb3_settings.read_zoo_settings(tmp_path, notes)
    assert found.keys() <= {"env.wrappers"}
    assert notes or found


def test_a_huge_yaml_file_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sb3_settings, "MAX_YAML_BYTES", 10)
    (tmp_path / "config.yml").write_text("gamma: 0.9\n" * 2)
    notes: list[str] = []
    assert sb3_settings.read_zoo_settings(tmp_path, notes) == {}
    assert "too large" in notes[0]


def test_a_model_tells_its_settings_and_nothing_is_unpickled(samples: Path) -> None:
    path = samples / "sb3_ppo" / "model.zip"
    assert sb3_settings.is_model(path)
    with zipfile.ZipFile(path) as archive:
        assert b":serialized:" in archive.read("data")
    found = sb3_settings.read_model_settings(path, [])
    assert (found["algo.name"], found["seed"], found["net.hidden"], found["algo.clip_range"]) == ("ppo", 3, [16, 16], 0.2)
    assert (found["env.n_envs"], found["algo.n_steps"], found["algo.ent_coef"], found["run.max_env_steps"]) == (4, 64, 0.01, 6_144)


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_model_gives_no_settings(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", data)
    assert not sb3_settings.is_model(path)
    assert sb3_settings.read_model_settings(path, []) == {}


def test_a_file_that_is_no_zip_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(b"PK\x03\x04 not really")
    assert not sb3_settings.is_model(path)
    notes: list[str] = []
    assert sb3_settings.read_model_settings(path, notes) == {}
    assert notes
