"""An episode of a checkpoint as a film beside the run: runs/<id>/videos/<step>.gif or .mp4, recorded by a process of its own."""

import subprocess
import sys
from pathlib import Path
from typing import Final, Literal

from rlclinic.errors import NotFound, RunError
from rlclinic.ops.results import Result
from rlclinic.runs import disk
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store

FOLDER: Final = "videos"
SECONDS: Final = 300.0
KINDS: Final = (".mp4", ".gif")


class Film(Result):
    """A recorded episode."""

    run: str
    step: int
    file: str
    """Its name in the run's folder of videos."""


class FilmList(Result):
    """The recorded episodes of a run, by step."""

    run: str
    films: list[Film]


def list_films(run: Run) -> FilmList:
    """What was recorded of a run."""
    try:
        found = [file for file in (run.path / FOLDER).iterdir() if file.suffix in KINDS and file.stem.isdigit() and not file.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        found = []
    films = [Film(run=run.id, step=int(file.stem), file=file.name) for file in sorted(found, key=lambda file: int(file.stem))]
    return FilmList(run=run.id, films=films)


def film(selector: str, runs_dir: Path = Path("runs"), *, checkpoint: str = "@best", kind: Literal["gif", "mp4"] = "gif") -> Film:
    """Record an episode of a checkpoint, unless there is one. The environment may crash; whoever asks must not."""
    run = Store(runs_dir).run(selector)
    step = run.checkpoint(checkpoint).step
    known = next((found for found in list_films(run).films if found.step == step), None)
    if known is not None:
        return known
    folder = run.path / FOLDER
    with disk.guarded(folder):
        folder.mkdir(exist_ok=True)
    wanted = folder / f"{step}.{kind}"
    command = [
        sys.executable,
        "-m",
        "rlclinic",
        "evaluate",
        f"{run.id}@{step}",
        "--episodes",
        "1",
        "--video",
        str(wanted.absolute()),
        "--json",
    ]
    try:
        done = subprocess.run(
            [*command, "--runs-dir", str(runs_dir.absolute())], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"recording an episode of {run.id}@{step} took longer than {SECONDS:g} s.\n  There is no film of it.") from None
    if done.returncode:
        raise RunError(done.stderr.strip() or f"recording ended with {done.returncode}")
    made = next((found for found in list_films(run).films if found.step == step), None)
    if made is None:
        raise NotFound(f"nothing was recorded of {run.id}@{step}.\n  Does its environment render?")
    return made
