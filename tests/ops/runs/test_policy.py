import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlclinic.config import EnvConfig
from rlclinic.errors import ConfigError, DiskFailed, NotFound, UsageError
from rlclinic.ops.runs import policy, video
from rlclinic.ops.runs.policy import _environment, evaluate, pick_checkpoint, play, sys
from rlclinic.runs.recording import films
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
    chosen = pick_checkpoint(store, "@last")
    assert (chosen.run.id, chosen.step) == (f"{group.id}-s1", 5120)
    assert pick_checkpoint(store, f"{group.id}-s0").step == 5120
    assert pick_checkpoint(store, f"{group.id}-s0/@last").step == 10240
    assert pick_checkpoint(store, f"{group.id}-s0@10240").step == 10240


def test_a_run_without_a_checkpoint_has_no_policy(root: Path) -> None:
    group = record_group(root, seeds=(0,))
    with pytest.raises(NotFound, match=f"rlclinic runs show {group.id}-s0"):
        evaluate("@last", root)


def test_without_a_screen_play_says_how_to_record_instead(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(UsageError, match=r"rlclinic evaluate g1 --video episode.gif"):
        play("g1", root)
    with pytest.raises(UsageError, match=r"rlclinic play g1 --render ansi"):
        play("g1", root)
    with pytest.raises(UsageError, match="there are human, ansi, none"):
        play("g1", root, render="hologram")


def test_a_game_is_played_from_the_shell_as_it_is_scored_and_drawn_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("torch")
    from tests.training.cohorts import make_config, train

    env = {"id": "ALE/Pong-v5", "n_envs": 2, "frame_stack": 2, "max_episode_steps": 12}
    algo, net = {"n_steps": 8, "batch_size": 16}, {"hidden": [], "image_features": 8}
    train(tmp_path, [make_config(env=env, algo=algo, net=net, run={"max_env_steps": 16})])
    scored = evaluate("@last", tmp_path / "runs", episodes=2)
    played = play("@last", tmp_path / "runs", episodes=2, render="ansi")
    assert (played.returns, played.length_mean) == (scored.returns, scored.length_mean)
    assert capsys.readouterr().err.count("\x1b[0m\n") >= 24 * 20, "twelve pictures of each game, line by line"


def test_an_environment_that_cannot_draw_here_says_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    making = pytest.importorskip("rlclinic.training.envs.making", reason="needs gymnasium")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "SDL_AUDIODRIVER", "MUJOCO_GL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")

    def blind(config: EnvConfig) -> None:
        assert os.environ["MUJOCO_GL"] == "egl", "told before the simulator is loaded"
        raise ConfigError("HalfCheetah-v5 raised AttributeError: no EGL\n  The environment was not made.")

    monkeypatch.setattr(making, "make_single", blind)
    policy = SimpleNamespace(config=SimpleNamespace(env=EnvConfig(id="HalfCheetah-v5")))
    with pytest.raises(UsageError, match=r"cannot draw pictures here: HalfCheetah-v5 raised(?s:.*)MUJOCO_GL=osmesa(?s:.*)--render none"):
        _environment(policy, "rgb_array")  # type: ignore[arg-type]
    for name in ("SDL_VIDEODRIVER", "SDL_AUDIODRIVER", "MUJOCO_GL"):
        monkeypatch.delenv(name)


def test_an_episode_without_pictures_is_filmed_in_numbers(tmp_path: Path) -> None:
    """Observations, actions, rewards and reward terms grow from picture to picture, and what a step did not report is a gap."""
    pytest.importorskip("matplotlib")
    trace = films.Trace()
    for step in range(90):
        trace.add([step / 90, -1.0], [0.5], 1.0, {"energy": -0.1} if step % 2 else {})
    pictures = video.draw_trace(trace)
    assert len(pictures) == video.PLOTTED
    assert len({picture.shape for picture in pictures}) == 1
    inked = [int((picture < 200).sum()) for picture in pictures]
    assert inked[0] < inked[20] < inked[-1]
    assert video.write(tmp_path / "episode.gif", pictures, 10.0).stat().st_size > 1_000


def test_what_has_no_pictures_is_offered_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    env = SimpleNamespace(metadata={"render_modes": []}, close=lambda: None)
    monkeypatch.setattr(policy, "_environment", lambda given, mode: env)
    settings = EnvConfig(id="CartPole-v1")
    with pytest.raises(UsageError, match=r"it has: none\.\n  Film its numbers instead: rlclinic evaluate g1 --video episode.gif"):
        policy._stage(SimpleNamespace(config=SimpleNamespace(env=settings)), "ansi", "g1")  # type: ignore[arg-type]


def test_a_picture_becomes_text_that_fits_with_two_pixels_in_a_character() -> None:
    import numpy as np

    picture = np.zeros((40, 20, 3), np.uint8)
    picture[:20] = (255, 0, 0)
    lines = policy.blocks(picture, columns=10, lines=30).split("\n")
    assert [line.count("▀") for line in lines] == [10] * 10
    assert lines[0].startswith("\x1b[38;2;255;0;0;48;2;255;0;0m▀▀")
    assert lines[-1].startswith("\x1b[38;2;0;0;0;48;2;0;0;0m▀▀")
    assert policy.blocks(picture, columns=200, lines=5).count("\n") == 4, "not wider than it is, nor higher than the window"


def test_a_game_opens_a_window_that_ends_the_program_when_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    show = policy.window("ALE/Pong-v5", fps=1000.0)
    show(np.full((6, 8, 3), 200, np.uint8))
    assert pygame.display.get_caption()[0] == "ALE/Pong-v5"
    assert pygame.display.get_surface().get_size() == (8, 6)
    assert pygame.display.get_surface().get_at((7, 5))[:3] == (200, 200, 200)
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    with pytest.raises(KeyboardInterrupt):
        show(np.zeros((6, 8, 3), np.uint8))
    pygame.display.quit()


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
