"""Exports: what other programs keep is read back with the same numbers, a page has everything in it, and the store is never written to."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from rlclinic import readers
from rlclinic.errors import NotFound, UsageError
from rlclinic.ops.diagnose.diagnose import diagnose
from rlclinic.ops.diagnose.export.export import ExportResult, export
from rlclinic.ops.runs.requests import ExportRequest
from rlclinic.runs import notes
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from tests.diagnosis import stored
from tests.ops.recorded import add_checkpoint, record_group

NASTY = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Group:
    made = stored.write_group("cp-lr-x30", tmp_path_factory.mktemp("export") / "runs", extra={"label": NASTY})
    notes.write(made.path, notes.Notes(("hot",), NASTY))
    return made


def write(group: Group, to: str, out: Path) -> ExportResult:
    return export(ExportRequest(selector=group.id, to=to, out=out, runs_dir=group.path.parent.parent))


@pytest.mark.parametrize("program", ["wandb", "mlflow", "tensorboard"])
def test_a_tracker_s_folder_is_read_back_with_the_same_numbers(group: Group, program: str, tmp_path: Path) -> None:
    result = write(group, program, tmp_path / program)
    assert result.runs == [run.id for run in group.runs]
    back = {history.id: history for history in readers.read(str(tmp_path / program))}
    assert set(back) == {run.id for run in group.runs}
    for run in group.runs:
        history = back[run.id]
        assert (history.env_id, history.algo) == (run.env_id, run.algo)
        assert history.settings["algo.n_epochs"] == run.config.algo.n_epochs
        for name in ("train/roll/ep_rew_mean", "val/roll/ep_rew_mean", "train/metrics/kl_divergence"):
            steps, values = run.metrics.series(name)
            assert np.array_equal(history.series[name].steps, steps)
            # TensorBoard keeps 32 bits of a number.
            assert np.allclose(history.series[name].values, values, rtol=1e-6 if program == "tensorboard" else 1e-12)


def test_exporting_again_replaces_what_was_there(group: Group, tmp_path: Path) -> None:
    for program in ("wandb", "mlflow"):
        first = write(group, program, tmp_path / program)
        assert write(group, program, tmp_path / program).files == first.files
        assert len(readers.read(str(tmp_path / program))) == len(group.runs)


def test_a_record_longer_than_a_block_of_w_and_b_is_read_back(tmp_path: Path) -> None:
    from rlclinic.readers.trackers.wandb import read_records
    from rlclinic.runs.export import wandb

    records = [bytes([65 + size % 26]) * size for size in (1, 32_754, 32_755, 100_000, 5, 32_747, 32_748)]
    path = tmp_path / "run-x.wandb"
    path.write_bytes(wandb._join(iter(records)))
    noted: list[str] = []
    with path.open("rb") as file:
        assert list(read_records(file, path.name, noted)) == records
    assert noted == []


def test_a_page_has_everything_in_one_file_and_runs_nothing(group: Group, tmp_path: Path) -> None:
    write(group, "html", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "policy step too large" in text
    assert "learning_rate: 0.03" in text
    assert text.count("<svg") > 40, "a chart for every metric"
    assert "<script" not in text
    assert "&lt;script&gt;" in text, "notes stay text"
    assert not re.search(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", text), "nothing is fetched"


def test_a_folder_for_the_hub_has_a_card_that_says_how_good_it_is(tmp_path: Path) -> None:
    made = record_group(tmp_path / "runs", seeds=(0, 1))
    add_checkpoint(made.runs[0].path, 10_240, best=True)
    write(made, "hf", tmp_path / "hub")
    _, head, body = (tmp_path / "hub" / "README.md").read_text().split("---\n", 2)
    card = yaml.safe_load(head)
    assert card["model-index"][0]["results"][0]["metrics"][0]["value"] == 500.0
    assert "2 of 2 seeds reached the threshold" in body
    assert {file.name for file in (tmp_path / "hub" / "metrics").iterdir()} == {f"{run.id}.csv" for run in made.runs}
    assert (tmp_path / "hub" / "state.json").exists()


def test_what_cannot_be_exported_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    made = record_group(root, seeds=(0,))
    with pytest.raises(UsageError, match="lies in the store"):
        write(made, "mlflow", root / "mlruns")
    (tmp_path / "taken").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        write(made, "wandb", tmp_path / "taken")
    with pytest.raises(UsageError, match="is a folder"):
        write(made, "html", tmp_path)
    empty = Store(root).create_group([made.config.model_copy(update={"seed": 7})])
    (empty.runs[0].path / "metrics.csv").unlink(missing_ok=True)
    with pytest.raises(NotFound, match="no metrics yet"):
        write(empty, "html", tmp_path / "x.html")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["runs", "taken"]


def test_a_film_is_inside_of_the_page_and_of_the_hub_s_folder(tmp_path: Path) -> None:
    group = record_group(tmp_path / "runs", seeds=(0,))
    add_checkpoint(group.runs[0].path, 10_240, best=True)
    (group.runs[0].path / "videos").mkdir()
    for step in (512, 10_240):
        (group.runs[0].path / "videos" / f"{step}.gif").write_bytes(b"GIF89a" + str(step).encode())
    text = Path(write(group, "html", tmp_path / "page.html").path).read_text()
    assert "data:image/gif;base64,R0lGODlhMTAyNDA=" in text, "the newest one"
    write(group, "hf", tmp_path / "hub")
    assert (tmp_path / "hub" / "replay.gif").read_bytes() == b"GIF89a10240"
    assert "](replay.gif)" in (tmp_path / "hub" / "README.md").read_text()


def test_what_was_exported_for_a_hub_is_read_back(tmp_path: Path) -> None:
    """It was taken for a run that had just been started: no step, and running."""
    made = record_group(tmp_path / "runs", seeds=(0, 1))
    write(made, "hf", tmp_path / "hub")
    found = diagnose(str(tmp_path / "hub"), tmp_path / "other")
    assert (found.diagnosis.facts.runs, found.diagnosis.facts.env_steps) == (2, 10_240)
