"""An episode's frames as a file: GIF through Pillow, MP4 through imageio."""

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlclinic.errors import DiskFailed, UsageError

# GIFs count hundredths of a second, and most viewers slow down below two of them.
_GIF_MOST_FPS = 50.0
_PALETTE_FRAMES = 16


def check(path: Path) -> None:
    """Raise before an episode is played, if it could not be written afterwards."""
    if path.suffix not in (".gif", ".mp4"):
        raise UsageError(f"--video {path}: the name must end in .gif or .mp4.\n  Type: --video {path.with_suffix('.gif')}")
    if path.suffix == ".gif" and importlib.util.find_spec("PIL") is None:
        raise UsageError("a GIF needs Pillow, which is not installed.\n  Type: pip install pillow")
    if path.suffix == ".mp4" and (importlib.util.find_spec("imageio") is None or importlib.util.find_spec("imageio_ffmpeg") is None):
        raise UsageError(
            f"an MP4 needs imageio with ffmpeg, which is not installed.\n"
            f"  Type: pip install 'imageio[ffmpeg]'\n  Or record a GIF: --video {path.with_suffix('.gif')}"
        )
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--video {path}: there is no folder {path.parent}.\n  Type: mkdir -p {path.parent}")


def write(path: Path, frames: Sequence[Any], fps: float) -> Path:
    """Write RGB frames [height, width, 3]; `check` has been called."""
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
    imageio = importlib.import_module("imageio.v2")
    # Any size is kept: the default would stretch frames to multiples of 16.
    imageio.mimwrite(path, list(frames), fps=fps, macro_block_size=None)
