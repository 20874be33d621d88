"""An episode of a checkpoint as a film beside the run: MP4 through ffmpeg, GIF through Pillow."""

import importlib
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from rlclinic.errors import DiskFailed, NotFound, RunError, UsageError
from rlclinic.report.models import Result
from rlclinic.runs import disk
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store

# GIFs count hundredths of a second, and most viewers slow down below two of them.
_GIF_MOST_FPS: Final = 50.0
_PALETTE_FRAMES: Final = 16
_INSTALL: Final = "pip install imageio-ffmpeg (or your system's ffmpeg)"


def settle(path: Path) -> tuple[Path, str | None]:
    """Where the film will go, and a remark if it is not where it was wanted; raises before an episode is played for nothing."""
    if path.suffix not in (".gif", ".mp4"):
        raise UsageError(f"--video {path}: the name must end in .gif or .mp4.\n  Type: --video {path.with_suffix('.gif')}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--video {path}: there is no folder {path.parent}.\n  Type: mkdir -p {path.parent}")
    if path.suffix == ".mp4" and ffmpeg() is not None:
        return path, None
    if importlib.util.find_spec("PIL") is None:
        raise UsageError(f"--video {path}: neither ffmpeg (for an MP4) nor Pillow (for a GIF) is installed.\n  Type: {_INSTALL}")
    if path.suffix == ".gif":
        return path, None
    gif = path.with_suffix(".gif")
    return gif, f"no MP4, but a GIF: ffmpeg is not installed. For {path.name}, type: {_INSTALL}"


def ffmpeg() -> str | None:
    """The program that makes MP4s: the system's, or the one that imageio-ffmpeg brings."""
    installed = shutil.which("ffmpeg")
    if installed is None and importlib.util.find_spec("imageio_ffmpeg") is not None:
        try:
            installed = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
        except RuntimeError:  # the package without the program, as some systems build it
            return None
    return installed


def write(path: Path, frames: Sequence[Any], fps: float) -> Path:
    """Write RGB frames [height, width, 3] to a path that `settle` gave."""
    try:
        if path.suffix == ".gif":
            _write_gif(path, frames, min(fps, _GIF_MOST_FPS))
        else:
            _write_mp4(path, frames, fps)
    except OSError as error:
        raise DiskFailed(f"{path} could not be written: {error.strerror or error}.\n  Type another name: --video NAME.gif") from error
    return path


def _write_gif(path: Path, frames: Sequence[Any], fps: float) -> None:
    import numpy as np
    from PIL import Image

    # One palette for all frames, made from a sample of them: a palette per frame flickers, and takes long to compute.
    sample = np.concatenate(frames[:: max(1, len(frames) // _PALETTE_FRAMES)])
    palette = Image.fromarray(sample).quantize(colors=128)
    images = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    images[0].save(path, save_all=True, append_images=images[1:], duration=1000.0 / fps, loop=0, optimize=False)


def _write_mp4(path: Path, frames: Sequence[Any], fps: float) -> None:
    """Raw frames through a pipe: nothing but the program itself is needed."""
    program = ffmpeg()
    assert program is not None, "settle() has looked for it"
    height, width = frames[0].shape[:2]
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{fps:g}", "-i", "-"]
    # Players want yuv420p, which wants an even number of pixels each way.
    film = ["-an", "-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-c:v", "libx264", "-pix_fmt", "yuv420p", str(path)]
    data = b"".join(frame.tobytes() for frame in frames)
    done = subprocess.run([program, "-y", "-loglevel", "error", *source, *film], input=data, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        message = done.stderr.decode(errors="replace").strip().rpartition("\n")[2] or f"exit code {done.returncode}"
        raise DiskFailed(f"ffmpeg could not write {path}: {message}.\n  Type: --video {path.with_suffix('.gif')}")


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
        files = [file for file in (run.path / FOLDER).iterdir() if file.suffix in KINDS and file.stem.isdigit() and not file.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        files = []
    films = [Film(run=run.id, step=int(file.stem), file=file.name) for file in sorted(files, key=lambda file: int(file.stem))]
    return FilmList(run=run.id, films=films)


def film(selector: str, runs_dir: Path = Path("runs"), *, checkpoint: str = "@best", kind: Literal["gif", "mp4"] = "gif") -> Film:
    """Record an episode of a checkpoint, unless there is one. The environment may crash; whoever asks must not."""
    run = Store(runs_dir).run(selector)
    step = run.checkpoint(checkpoint).step
    known = next((recorded for recorded in list_films(run).films if recorded.step == step), None)
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
    made = next((recorded for recorded in list_films(run).films if recorded.step == step), None)
    if made is None:
        raise NotFound(f"nothing was recorded of {run.id}@{step}.\n  Does its environment render?")
    return made
