"""Weights & Biases' own files, recorded with its package and written by hand."""

import io
import shutil
from pathlib import Path

import pytest

from rlclinic.errors import UsageError
from rlclinic.readers import read
from rlclinic.readers.trackers import wandb
from rlclinic.runs.history import History
from tests.readers.trackers import wandb_files

RETURN = "train/roll/ep_rew_mean"


@pytest.fixture
def runs(samples: Path) -> dict[str, History]:
    return {history.id: history for history in read(samples / "wandb")}


def write(folder: Path, *records: bytes) -> Path:
    return wandb_files.write(folder / "run-abc123.wandb", records)


def rows(count: int = 30, **more: float) -> list[bytes]:
    return [wandb_files.history(place, {"mean_reward": place / 2, "env_steps": 100 * place, **more}) for place in range(1, count + 1)]


def test_every_run_of_the_folder_is_read(runs: dict[str, History]) -> None:
    assert set(runs) == {"healthy", "rate", "discount", "xgk9cacr"}
    assert {history.state for history in runs.values()} == {"finished"}


def test_synchronized_events_have_env_steps_settings_and_losses(runs: dict[str, History]) -> None:
    found = runs["healthy"]
    assert (found.source, found.algo, found.env_id, found.seed) == ("sb3", "ppo", "CartPole-v1", 1)
    assert (found.env_steps, found.max_env_steps) == (30_720, 30_000)
    assert found[RETURN].values[-1] == pytest.approx(191.65)
    assert found[RETURN].steps[:3].tolist() == [1_024, 2_048, 3_072]
    assert {"train/loss/policy", "train/loss/value", "train/metrics/entropy", "train/metrics/kl_divergence"} <= set(found.series)
    wanted = {"env.n_envs": 8, "algo.n_steps": 128, "algo.batch_size": 256, "algo.gamma": 0.98, "algo.clip_range": 0.2}
    assert {key: found.settings[key] for key in wanted} == wanted
    assert found.settings["algo.normalize_advantage"] == "batch"


def test_plain_calls_are_read_by_the_names_of_their_keys(runs: dict[str, History]) -> None:
    found = runs["xgk9cacr"]
    assert (found.source, found.algo, found.env_id, found.env_steps) == ("wandb", "ppo", "CartPole-v1", 10_240)
    assert {RETURN, "train/metrics/kl_divergence"} <= set(found.series)
    assert found.settings["algo.learning_rate"] == 1e-3


def test_a_run_is_read_by_its_folder_by_its_file_and_from_the_projects_folder(samples: Path, tmp_path: Path) -> None:
    shutil.copytree(samples / "wandb", tmp_path / "project" / "wandb")
    (tmp_path / "project" / "wandb" / "latest-run").symlink_to(tmp_path / "project" / "wandb" / "offline-run-20261116_115640-tyuji0sr")
    assert len(read(tmp_path / "project")) == len(read(tmp_path / "project" / "wandb")) == 4
    (folder,) = (tmp_path / "project" / "wandb").glob("*-tyuji0sr")
    (file,) = folder.iterdir()
    assert [history.id for path in (folder, file) for history in read(path)] == ["healthy", "healthy"]


def test_numbers_by_their_type_are_read_like_json(tmp_path: Path) -> None:
    (found,) = read(
        write(tmp_path, *(wandb_files.typed_history(place, {"mean_reward": place / 2, "step": 10.0 * place}) for place in range(9)))
    )
    assert found[RETURN].values.tolist() == [place / 2 for place in range(9)]
    assert found.env_steps == 80


def test_a_step_that_counts_calls_is_no_env_step_and_a_note_says_what_to_type(tmp_path: Path) -> None:
    file = write(tmp_path, *(wandb_files.history(place, {"mean_reward": 1.0 * place}) for place in range(20)))
    (found,) = read(file)
    assert found.env_steps is None
    assert any("one of step=_step*FACTOR" in note for note in found.notes)
    (found,) = read(file, mapping=["step=_step*500"])
    assert found.env_steps == 9_500


def test_a_step_that_the_script_gave_is_the_axis(tmp_path: Path) -> None:
    (found,) = read(write(tmp_path, *(wandb_files.history(2_048 * place, {"mean_reward": 1.0 * place}) for place in range(1, 9))))
    assert found.env_steps == 2_048 * 8


def test_a_process_that_failed_says_why(tmp_path: Path) -> None:
    trace = "Traceback (most recent call last):\n  File 'train.py'\nValueError: nan in logits\n"
    (found,) = read(write(tmp_path, wandb_files.about({"lr": 1e-3}), *rows(), wandb_files.printed(trace), wandb_files.ended(1)))
    assert (found.state, found.reason) == ("failed", "ValueError: nan in logits")
    (found,) = read(write(tmp_path, *rows(), wandb_files.ended(137)))
    assert (found.state, found.reason) == ("failed", "its process ended with code 137")


def test_a_file_that_is_being_written_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    file = write(tmp_path, *rows(1_000, filler=0.125))
    whole = file.read_bytes()
    assert len(whole) > 2 * wandb_files.BLOCK
    for length in (len(whole) - 1, wandb_files.BLOCK + 3, wandb_files.BLOCK - 2, 4_000):
        file.write_bytes(whole[:length])
        (found,) = read(file)
        assert 0 < len(found[RETURN]) < 1_000
        assert found[RETURN].values.tolist() == [place / 2 for place in range(1, len(found[RETURN]) + 1)]


def test_after_a_damaged_place_reading_goes_on_and_a_note_says_so(tmp_path: Path) -> None:
    file = write(tmp_path, *rows(1_000, filler=0.125))
    data = bytearray(file.read_bytes())
    data[500:520] = b"\xff" * 20
    file.write_bytes(data)
    (found,) = read(file)
    assert 400 < len(found[RETURN]) < 1_000
    assert "run-abc123.wandb is damaged: parts of it were left out" in found.notes


def test_broken_numbers_are_evidence_and_no_values(tmp_path: Path) -> None:
    records = [*rows(10), wandb_files.history(11, {"mean_reward": float("nan"), "loss": "Infinity", "env_steps": 1_100})]
    (found,) = read(write(tmp_path, *records))
    assert len(found[RETURN]) == 10
    assert found["train/loss/total"].broken.tolist() == [1_100]


def test_a_file_without_a_history_is_told_with_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--map return=KEY"):
        read(write(tmp_path, wandb_files.about({"lr": 1e-3})))


def test_a_record_that_is_too_long_is_passed_over_in_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wandb, "MAX_RECORD_BYTES", 50_000)
    table = wandb_files.history(6, {"table": "x" * 200_000})
    file = write(tmp_path, *rows(5), table, *rows(9)[5:])
    with file.open("rb") as opened:
        sizes = [len(record) for record in wandb.read_records(opened, file.name, [])]
    assert len(sizes) == 9
    assert max(sizes) < 1_000


def test_random_parts_of_records_never_give_a_record_that_was_not_written(tmp_path: Path) -> None:
    parts = [wandb_files.chunk(b"middle", 3), wandb_files.chunk(b"last", 4), wandb_files.chunk(b"first", 2), wandb_files.chunk(b"whole", 1)]
    data = wandb_files.MAGIC + b"".join(parts)
    assert list(wandb.read_records(io.BytesIO(data), "x", [])) == [b"whole"]
