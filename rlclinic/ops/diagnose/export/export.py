"""Exporting runs: folders that other programs open, a folder for the Hugging Face hub, and one HTML file with everything in it."""

import tempfile
import zipfile
from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Final

from rlclinic.actions import Action, Argument
from rlclinic.errors import NotFound, UsageError
from rlclinic.ops.diagnose.export.hub import write_hub
from rlclinic.ops.diagnose.export.page import render_page
from rlclinic.ops.runs.requests import ExportRequest, ExportZipRequest
from rlclinic.report.models import Result
from rlclinic.runs import disk
from rlclinic.runs.record import METRICS, Checkpoint, Group, Run
from rlclinic.runs.store import Store

TRACKERS: Final = ("wandb", "mlflow", "tensorboard")


class ExportResult(Result):
    """What was written."""

    of: str
    to: str
    runs: list[str]
    path: str
    """The file or the folder."""
    files: list[str]
    open: Action
    """What opens or sends it."""


def export(request: ExportRequest) -> ExportResult:
    """Write a group (or one run) as another program keeps it. Nothing is sent anywhere; what is there already is replaced."""
    selected = Store(request.runs_dir).resolve(request.selector)
    owner = selected.run if isinstance(selected, Checkpoint) else selected
    runs = owner.runs if isinstance(owner, Group) else [owner]
    started = [run for run in runs if (run.path / METRICS).exists()]
    if not started:
        raise NotFound(f"{owner.id} has no metrics yet.\n  There is nothing to export.\n  See how far it is: ", Action("status", owner.id))
    out = request.out or Path(f"{owner.id}.html" if request.to == "html" else f"{owner.id}-{request.to}")
    _check_place(out, request.runs_dir, request.to)
    if request.to in TRACKERS:
        write: Callable[[Run, Path], list[Path]] = import_module(f"rlclinic.runs.export.{request.to}").write
        files = [file for run in started for file in write(run, out)]
    else:
        files = [_write_page(owner, out)] if request.to == "html" else write_hub(owner, started, out)
    commands = {
        "wandb": f"wandb sync {out}/offline-run-*",
        "mlflow": f"mlflow ui --backend-store-uri {out}",
        "tensorboard": f"tensorboard --logdir {out}",
        "hf": f"huggingface-cli upload USER/{owner.id} {out}",
        "html": f"xdg-open {out}",
    }
    return ExportResult(
        of=owner.id,
        to=request.to,
        runs=[run.id for run in started],
        path=str(out),
        files=[str(file) for file in files],
        open=Action.quoted(commands[request.to]),
    )


def export_zip(request: ExportZipRequest) -> bytes:
    """What `export` would write of each, in one packed file. The store is only read."""
    packed = BytesIO()
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        folder = Path(name).resolve()
        for selector in dict.fromkeys(request.of):
            out = folder / (f"{selector}.html" if request.to == "html" else request.to if request.to != "hf" else f"{selector}-hf")
            export(ExportRequest(selector=selector, to=request.to, out=out, runs_dir=request.runs_dir))
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            archive.write(file, file.relative_to(folder))
    return packed.getvalue()


def _write_page(owner: Run | Group, out: Path) -> Path:
    _make(out.parent)
    disk.write(out, render_page(owner))
    return out


def _make(folder: Path) -> None:
    with disk.guarded(folder):
        folder.mkdir(parents=True, exist_ok=True)


def _check_place(out: Path, runs_dir: Path, to: str) -> None:
    """Never into a store, and never over something else."""
    another = Argument("out", "DIR")
    if out.resolve().is_relative_to(runs_dir.resolve()):
        raise UsageError(f"{out} lies in the store {runs_dir}.\n  Its folders would be taken for runs.\n  Choose another place: ", another)
    if to == "html" and out.is_dir():
        raise UsageError(f"{out} is a folder.\n  One HTML file is written.\n  Name a file: ", Argument("out", out / "report.html"))
    if to != "html" and out.is_file():
        raise UsageError(f"{out} is a file.\n  A folder is written.\n  Choose another place: ", another)
