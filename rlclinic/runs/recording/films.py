"""Episodes that were recorded beside a run: pictures as a film, and every step's numbers as a trace.

<run>/videos/<env step>.gif|mp4    the film, where the environment has pictures
<run>/videos/<env step>.json       the trace: observations, actions, rewards and reward terms, step by step
"""

import importlib
import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rlclinic.errors import DiskFailed
from rlclinic.runs import disk

FOLDER: Final = "videos"
KINDS: Final = (".mp4", ".gif")
MOST_STEPS: Final = 1_000
"""Of an episode that is recorded for the page; what comes after is not shown."""
MOST_NUMBERS: Final = 16
"""Observations and actions that a trace keeps, of more the first."""
PAGE_WIDTH: Final = 400
PAGE_FRAMES: Final = 250
"""The largest picture, and the most of them, in a film for the page: a few hundred kB that are made in a second."""

# GIFs count hundredths of a second, and most viewers slow down below two of them.
_GIF_MOST_FPS: Final = 50.0
_PALETTE_FRAMES: Final = 16


@dataclass
class Trace:
    """An episode in numbers, one for each step."""

    observations: dict[str, list[float]] = field(default_factory=dict)
    """What the agent acted on, by component."""
    actions: dict[str, list[float]] = field(default_factory=dict)
    rewards: list[float] = field(default_factory=list)
    terms: dict[str, list[float | None]] = field(default_factory=dict)
    """info["reward_terms"], by name; None in steps that did not report one."""
    success: bool | None = None

    def add(self, obs: Sequence[float], action: Sequence[float], reward: float, terms: Mapping[str, float]) -> None:
        """One step."""
        steps = len(self.rewards)
        for numbers, kept in ((obs, self.observations), (action, self.actions)):
            for place, value in enumerate(numbers[:MOST_NUMBERS]):
                kept.setdefault(str(place), []).append(float(value))
        self.rewards.append(float(reward))
        for name in [*self.terms, *(name for name in terms if name not in self.terms)]:
            self.terms.setdefault(name, [None] * steps).append(terms.get(name))


def find_newest(runs: Iterable[Path]) -> Path | None:
    """The film of the latest env step in any of these runs' folders; None where nothing was filmed."""
    found = [
        (int(file.stem), file)
        for run in runs
        for kind in KINDS
        for file in (run / FOLDER).glob(f"*{kind}")
        if file.stem.isdigit() and file.is_file() and not file.is_symlink()
    ]
    return max(found)[1] if found else None


def has_screen() -> bool:
    """Whether a window could be opened here."""
    if sys.platform != "linux":
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"))


def draw_in_memory() -> None:
    """Where there is no screen, frames are drawn in memory: SDL and MuJoCo must hear of it before they are loaded."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if not has_screen():
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
        os.environ.setdefault("MUJOCO_GL", "egl")


def write_trace(path: Path, trace: Trace) -> Path:
    """As JSON, which has no NaN: what is not a number is null."""
    numbers = {
        "observations": {name: _finite(values) for name, values in trace.observations.items()},
        "actions": {name: _finite(values) for name, values in trace.actions.items()},
        "rewards": _finite(trace.rewards),
        "terms": {name: _finite(values) for name, values in trace.terms.items()},
        "success": trace.success,
    }
    disk.write(path, json.dumps(numbers, allow_nan=False))
    return path


def _finite(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None or not math.isfinite(value) else float(f"{value:.6g}") for value in values]


def ffmpeg() -> str | None:
    """The program that makes MP4s: the system's, or the one that imageio-ffmpeg brings."""
    installed = shutil.which("ffmpeg")
    if installed is None and importlib.util.find_spec("imageio_ffmpeg") is not None:
        try:
            installed = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
        except RuntimeError:  # the package without the program, as some systems build it
            return None
    return installed


def shrink(frames: Sequence[Any], fps: float) -> tuple[list[Any], float]:
    """As many pictures, and as large, as a page needs; a long episode is shown faster, not cut."""
    import numpy as np
    from PIL import Image

    every = math.ceil(len(frames) / PAGE_FRAMES)
    kept = list(frames[::every])
    height, width = kept[0].shape[:2]
    if width > PAGE_WIDTH:
        size = (PAGE_WIDTH, max(1, round(height * PAGE_WIDTH / width)))
        kept = [np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.NEAREST)) for frame in kept]
    return kept, fps


def write(path: Path, frames: Sequence[Any], fps: float) -> Path:
    """Write RGB frames [height, width, 3] as a GIF (Pillow) or an MP4 (ffmpeg)."""
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
    assert program is not None, "whoever asks for an MP4 has looked for it"
    height, width = frames[0].shape[:2]
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{fps:g}", "-i", "-"]
    # Players want yuv420p, which wants an even number of pixels each way.
    film = ["-an", "-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-c:v", "libx264", "-pix_fmt", "yuv420p", str(path)]
    data = b"".join(frame.tobytes() for frame in frames)
    done = subprocess.run([program, "-y", "-loglevel", "error", *source, *film], input=data, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        message = done.stderr.decode(errors="replace").strip().rpartition("\n")[2] or f"exit code {done.returncode}"
        raise DiskFailed(f"ffmpeg could not write {path}: {message}.\n  Type: --video {path.with_suffix('.gif')}")
