import os
from pathlib import Path

import pytest

from rlclinic.errors import DiskFailed, NotFound, UsageError
from rlclinic.ops import policies, video
from rlclinic.runs.store import Store
from tests.ops.recorded import add_checkpoint, record_group


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_the_best_checkpoint_of_the_best_run_is_meant_unless_another_is_named(root: Path) -> None:
    group = record_group(root, seeds=(0, 1), returns=lambda seed, share: 100.0 * seed)
    for run in group.runs:
        add_checkpoint(run.path, 5120, best=True)
        add_checkpoint(run.path, 10240)
    store = Store(root)
    chosen = policies.pick_checkpoint(store, "@last")
    assert (chosen.run.id, chosen.step) == (f"{group.id}-s1", 5120)
    assert policies.pick_checkpoint(store, f"{group.id}-s0").step == 5120
    assert policies.pick_checkpoint(store, f"{group.id}-s0/@last").step == 10240
    assert policies.pick_checkpoint(store, f"{group.id}-s0@10240").step == 10240


def test_a_run_without_a_checkpoint_has_no_policy(root: Path) -> None:
    group = record_group(root, seeds=(0,))
    with pytest.raises(NotFound, match=f"rlclinic runs show {group.id}-s0"):
        policies.evaluate("@last", root)


def test_without_a_screen_play_says_how_to_record_instead(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(policies.sys, "platform", "linux")
    with pytest.raises(UsageError, match=r"rlclinic evaluate g1 --video episode.gif"):
        policies.play("g1", root)
    with pytest.raises(UsageError, match="there are human, ansi, none"):
        policies.play("g1", root, render="hologram")


@pytest.mark.parametrize(
    ("name", "text"),
    [("out.avi", r"must end in .gif or .mp4[\s\S]*out.gif"), ("nowhere/out.gif", "mkdir -p")],
)
def test_a_video_that_cannot_be_written_is_refused_before_anything_is_played(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        video.settle(tmp_path / name)


def test_without_ffmpeg_an_mp4_becomes_a_gif_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "ffmpeg", lambda: None)
    path, note = video.settle(tmp_path / "out.mp4")
    assert path == tmp_path / "out.gif"
    assert note is not None
    assert "For out.mp4, type: pip install imageio-ffmpeg" in note
    assert video.settle(tmp_path / "out.gif") == (tmp_path / "out.gif", None)


def test_without_any_writer_nothing_is_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "ffmpeg", lambda: None)
    monkeypatch.setattr(video.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"neither ffmpeg(?s:.*)pip install imageio-ffmpeg"):
        video.settle(tmp_path / "out.mp4")


FFMPEG = """#!/bin/sh
printf '%s\\n' "$@" > "{folder}/arguments"
cat > "{folder}/bytes"
{end}
"""


def fake_ffmpeg(folder: Path, end: str) -> Path:
    program = folder / "ffmpeg"
    program.write_text(FFMPEG.format(folder=folder, end=end))
    program.chmod(0o755)
    return program


def test_ffmpeg_is_given_every_frame_with_its_size_and_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    fake_ffmpeg(tmp_path, "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    path, note = video.settle(tmp_path / "out.mp4")
    assert (path, note) == (tmp_path / "out.mp4", None)
    frames = [np.full((20, 30, 3), index, dtype=np.uint8) for index in range(4)]
    video.write(path, frames, fps=25.0)
    assert (tmp_path / "bytes").read_bytes() == b"".join(frame.tobytes() for frame in frames)
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[arguments.index("-s") + 1] == "30x20"
    assert arguments[arguments.index("-r") + 1] == "25"
    assert arguments[-1] == str(path)


def test_what_ffmpeg_says_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    fake_ffmpeg(tmp_path, "echo 'no space left' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(DiskFailed, match=r"no space left(?s:.*)out.gif"):
        video.write(tmp_path / "out.mp4", [np.zeros((2, 2, 3), np.uint8)], 30.0)


def test_a_gif_has_every_frame_at_the_right_speed(tmp_path: Path) -> None:
    import numpy as np
    from PIL import Image

    frames = [np.full((20, 30, 3), 25 * index, dtype=np.uint8) for index in range(6)]
    path = video.write(tmp_path / "episode.gif", frames, fps=25.0)
    with Image.open(path) as image:
        assert (image.n_frames, image.size) == (6, (30, 20))
        assert image.info["duration"] == 40
