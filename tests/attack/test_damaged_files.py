"""Files that block, lie, are cut or flipped, or cannot be replaced: said in words, at once, and never in silence."""

import gzip
import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.attack import files as attacked_files
from benchmarks.attack import hostile_files
from rlclinic import plain_files, plain_text, readers
from rlclinic.datasets import formats
from rlclinic.errors import CheckpointCorrupt, DiskFailed, RlclinicError
from rlclinic.ops.diagnose.diagnose import diagnose
from rlclinic.ops.jobs import budget
from rlclinic.ops.jobs.audit import Caller
from rlclinic.ops.jobs.models import Job
from rlclinic.ops.train.plan import plan_training
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.runs import disk, history, status_file, studies
from rlclinic.runs.database import index
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from rlclinic.training.checkpoints import files as checkpoints
from rlclinic.training.checkpoints import replay_files
from tests.ops.recorded import add_checkpoint, record_group


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("name", ["metrics.csv", "config.json", "status.json", "run.log", "interventions.jsonl", "diagnosis.json"])
def test_a_pipe_in_a_run_folder_blocks_nobody(project: Path, name: str) -> None:
    group = record_group(Path("runs"), seeds=(0, 1))
    file = group.runs[0].path / name
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    began = time.monotonic()
    for words in (("diagnose", group.id), ("runs", "list"), ("runs", "show", group.id), ("status", group.id), ("compare", group.id)):
        result = run(*words)
        assert "unexpectedly" not in result.output, (words, result.output)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "name", ["progress.csv", "0.monitor.csv", "events.out.tfevents.1.x", "log.txt", "args.yml", "evaluations.npz", "config.json"]
)
def test_a_pipe_or_a_device_among_logs_blocks_nobody(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    (tmp_path / f"link-{name}").symlink_to("/dev/zero")
    began = time.monotonic()
    for target in (tmp_path, tmp_path / name, tmp_path / f"link-{name}"):
        with suppress(RlclinicError):
            readers.read(str(target))
    assert time.monotonic() - began < 5


def test_a_metrics_file_that_was_cut_says_so_beside_the_verdict(project: Path) -> None:
    group = record_group(Path("runs"), seeds=(0, 1))
    file = group.runs[1].path / "metrics.csv"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:6]))
    (note,) = history.of_run(Group(group.path).runs[1]).notes
    assert "ends at env step 5,120 of 10,240" in note
    assert not history.of_run(group.runs[0]).notes
    for words in (("diagnose", group.id), ("runs", "show", group.id)):
        assert "metrics.csv is damaged" in run(*words).output, words


def test_a_gzip_bomb_is_refused_at_once(tmp_path: Path) -> None:
    bomb = tmp_path / "progress.csv"
    line = b"1,2\n" * (1 << 18)
    with gzip.open(bomb, "wb", compresslevel=9) as file:
        file.write(b"total_timesteps,ep_rew_mean\n")
        for _ in range(200):
            file.write(line)
    began = time.monotonic()
    with pytest.raises(RlclinicError, match="holds more than"):
        readers.read(str(bomb))
    assert time.monotonic() - began < 5


def test_a_flipped_byte_in_a_checkpoint_is_said_before_the_resume(project: Path) -> None:
    group = record_group(Path("runs"), seeds=(0,), state="stopped")
    for step in (1_024, 2_048):
        add_checkpoint(group.runs[0].path, step)
    (group.runs[0].path / "checkpoints" / "2048" / "state.json").write_text("{ }")
    plan = plan_training(TrainRequest(resume=group.id))
    assert plan.notes == [f"{group.runs[0].id}@2048 is damaged (a checksum differs): it is passed over"]


def test_a_store_that_cannot_be_written_to_is_diagnosed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = record_group(Path("runs"))

    def refuse(path: Path, *_: Any, **__: Any) -> None:
        raise DiskFailed(f"cannot write {path}: the file system is read-only.")

    monkeypatch.setattr(disk, "write", refuse)
    report = diagnose(group.id)
    assert report.files == []
    assert "read-only" in (report.not_written or "")
    result = run("diagnose", group.id)
    assert result.exit_code == 0
    assert "read-only" in result.output


@pytest.mark.parametrize(
    "text", ["\u202egnp.exe", "\x1b]0;title\x07", "\x1b[2J", "\u2066x\u2069", "\U000e0041\U000e0042", "a\rb", "\x9b31m"]
)
def test_nothing_that_a_terminal_obeys_gets_through(project: Path, text: str) -> None:
    assert plain_text.clean(f"a{text}b").isprintable()
    group = record_group(Path("runs"))
    file = group.runs[0].path / "status.json"
    status_file.write(group.runs[0].path, status_file.Status(state="failed", reason=f"boom{text}!"))
    assert file.exists()
    for words in (("diagnose", group.id), ("runs", "show", group.runs[0].id), ("runs", "list"), ("diagnose", f"no{text}such")):
        shown = run(*words).output
        assert not any(character in shown for character in "\u202e\x1b\u2066\U000e0041\x9b\x07"), words


def test_evaluations_are_charged_to_the_budget(project: Path) -> None:
    group = record_group(Path("runs"), seeds=(0, 1))
    for member in group.runs:
        before = status_file.raw(member.path)
        status_file.write(member.path, status_file.Status(state="finished", env_steps=before.env_steps, eval_env_steps=500))
    runs = [member.id for member in group.runs]
    job = Job(id="j", kind="training", state="running", by=Caller(), digest="", request={}, runs=runs, created=0.0)
    assert budget.used_env_steps(Store("runs"), job) == 2 * (10_240 + 500)


def test_steps_beyond_all_measure_divide_nothing_by_zero(tmp_path: Path) -> None:
    heads = [
        "total_timesteps",
        "rollout/ep_rew_mean",
        "train/approx_kl",
        "train/clip_fraction",
        "train/entropy_loss",
        "train/learning_rate",
    ]
    for value in ("1e308", "1e-308", "-1e308", "0", "nan", "inf"):
        for column in range(len(heads)):
            rows = [[str(step), "5", "0.01", "0.1", "-0.5", "1e-3"] for step in range(100, 3_000, 100)]
            for row in rows:
                row[column] = value
            rows[-1][0] = "1e308"
            (tmp_path / "progress.csv").write_text("\n".join([",".join(heads), *map(",".join, rows)]))
            try:
                diagnose(str(tmp_path), write=False)
            except RlclinicError:
                continue


def test_only_plain_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("pipe", "loop", ".", "nothing", "nul\0"):
        assert not plain_files.is_plain(tmp_path / name)
        with pytest.raises((OSError, RuntimeError), match=r"."):
            plain_files.read_bytes(tmp_path / name)
    (tmp_path / "large").write_bytes(b"x" * 100)
    with pytest.raises(plain_files.TooLarge):
        plain_files.read_bytes(tmp_path / "large", 99)


@pytest.mark.parametrize("name", ["manifest.json", "policy.safetensors", "replay/manifest.json", "replay/rest.safetensors"])
@pytest.mark.parametrize("what", ["a pipe", "a device", "a deep file"])
def test_a_checkpoint_of_pipes_and_devices_is_refused_at_once(tmp_path: Path, name: str, what: str) -> None:
    """Of a stranger's run in an environment that everybody has: nobody is asked before its policy acts."""
    folder = checkpoints.write(tmp_path, checkpoints.Checkpoint({}, {}, {}, {"env_steps": 100}), best=True, sync=False)
    (folder / "replay").mkdir()
    content = replay_files.save_tensors({})
    (folder / "replay" / "rest.safetensors").write_bytes(content)
    said = {"stored": 0, "capacity": 1, "files": {"rest.safetensors": hashlib.sha256(content).hexdigest()}}
    (folder / "replay" / "manifest.json").write_text(json.dumps(said))
    assert checkpoints.read(folder, replay=True).replay is not None
    (folder / name).unlink()
    if what == "a pipe":
        os.mkfifo(folder / name)
    elif what == "a device":
        (folder / name).symlink_to("/dev/zero")
    else:
        (folder / name).write_text("[" * 100_000)
    if name.startswith("replay"):
        assert checkpoints.read(folder, replay=True).replay is None
    else:
        with pytest.raises(CheckpointCorrupt):
            checkpoints.read(folder)


def test_a_replay_that_names_files_elsewhere_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "replay").mkdir()
    (tmp_path / "secret").write_bytes(replay_files.save_tensors({}))
    digest = hashlib.sha256((tmp_path / "secret").read_bytes()).hexdigest()
    said = {"stored": 0, "capacity": 1, "files": {"../secret": digest, "rest.safetensors": digest}}
    (tmp_path / "replay" / "manifest.json").write_text(json.dumps(said))
    (tmp_path / "replay" / "rest.safetensors").write_bytes((tmp_path / "secret").read_bytes())
    assert replay_files.read(tmp_path) is None


@pytest.mark.parametrize("content", ["{", "[]", '{"created": "yesterday"}', '{"created": {}}', '{"created": 1e999}'])
def test_a_damaged_study_hides_no_other(tmp_path: Path, content: str) -> None:
    for kind, file in studies.FILES.items():
        for name, text in (("xgood", '{"created": 1}'), ("xbad", content)):
            (tmp_path / f"@{kind}" / name).mkdir(parents=True)
            (tmp_path / f"@{kind}" / name / file).write_text(text)
        assert set(studies.ids(Store(tmp_path), kind)) == {"xgood", "xbad"}


def test_a_kept_answer_of_a_strangers_index_is_not_unpacked_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MOST_ANSWER_BYTES", 1 << 20)
    kept = index.Index(Store(tmp_path / "runs"))
    try:
        for key, body in (("small", b"[1]"), ("bomb", bytes(8 << 20))):
            kept.keep(key, "x", body)
        assert kept.answer("small", "x") == b"[1]"
        assert kept.answer("bomb", "x") is None
    finally:
        kept.close()


def test_hostile_recorded_data_is_refused_in_words(tmp_path: Path) -> None:
    mark, crashes = tmp_path / "executed", []
    # What unpacks to 2 GB takes seconds to pack: `make attack` does.
    cases = [case for case in hostile_files._datasets(mark) if case[0] != "arrays that unpack to 2 GB"]
    for number, (name, write) in enumerate(cases):
        place = tmp_path / str(number)
        place.mkdir()
        write(place)
        crashes += [f"{name}: {text}" for text in [attacked_files._try(attacked_files._check_data, place)] if text]
    assert len(cases) > 40
    assert crashes == []
    assert not mark.exists()


@pytest.mark.parametrize("name", ["with a link to another file", "with rows of another file", "with 10^12 rows", "that unpacks to 2 GB"])
def test_hdf5_reaches_no_other_file_and_fills_no_memory(name: str, tmp_path: Path) -> None:
    dict(hostile_files._datasets(tmp_path / "executed"))[f"HDF5 {name}"](tmp_path)
    with pytest.raises(RlclinicError, match=r"another file|would fill the memory|read into memory"):
        formats.read(tmp_path / "data.h5")
