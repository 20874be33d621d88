"""An episode of a checkpoint as a film beside the run (MP4 through ffmpeg, GIF through Pillow), and in numbers."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, Literal

from rlclinic.errors import NotFound, RunError, UsageError
from rlclinic.ops.runs import policy, warm_process
from rlclinic.report.models import Result, ResultPart
from rlclinic.runs import disk
from rlclinic.runs.record import Run
from rlclinic.runs.recording import histograms
from rlclinic.runs.recording.films import FOLDER, KINDS, Trace, ffmpeg, write
from rlclinic.runs.store import Store

__all__ = ["FOLDER", "Film", "FilmList", "Histograms", "draw_trace", "ffmpeg", "film", "list_films", "list_histograms", "settle", "write"]

SECONDS: Final = 300.0
PLOTTED, MOST_LABELS = 40, 8
"""Pictures of a film of numbers, and lines in a plot that are named."""
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


def draw_trace(trace: Trace) -> list[Any]:
    """An episode without pictures as pictures [height, width, 3]: observations, actions, rewards and reward terms, up to each moment."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise UsageError("a film of numbers needs matplotlib, which is not installed.\n  Type: pip install 'rlclinic[train]'") from None
    import numpy as np

    rewards: dict[str, list[Any]] = {"reward": list(trace.rewards), **trace.terms}
    panels = [
        (name, lines) for name, lines in (("observation", trace.observations), ("action", trace.actions), ("reward", rewards)) if lines
    ]
    figure = Figure(figsize=(6.4, 1.6 * len(panels) + 0.4), dpi=80, layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)  # its methods are not typed
    drawn = []
    for axes, (name, lines) in zip(figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0], panels, strict=True):
        for label, values in lines.items():
            numbers = np.array([np.nan if value is None else value for value in values], float)
            (line,) = axes.plot(numbers, linewidth=1, label=label)
            drawn.append((line, numbers))
        axes.set_ylabel(name)
        if 1 < len(lines) <= MOST_LABELS:
            axes.legend(fontsize="x-small", loc="upper left")
    figure.axes[-1].set_xlabel("step")
    pictures = []
    for end in np.unique(np.linspace(1, len(trace.rewards), min(len(trace.rewards), PLOTTED)).astype(int)):
        for line, numbers in drawn:
            line.set_data(np.arange(end), numbers[:end])
        canvas.draw()
        pictures.append(np.asarray(canvas.buffer_rgba())[..., :3].copy())
    return pictures


class Film(Result):
    """A recorded episode."""

    run: str
    step: int
    file: str
    """Its name in the run's folder of videos: a film, or the trace where the environment has no pictures."""
    trace: str | None
    """The episode in numbers, in the same folder: observations, actions, rewards and reward terms, step by step."""


class FilmList(Result):
    """The recorded episodes of a run, by step."""

    run: str
    films: list[Film]


def list_films(run: Run) -> FilmList:
    """What was recorded of a run, while it trained or since."""
    try:
        files = {file.name for file in (run.path / FOLDER).iterdir() if file.stem.isdigit() and not file.is_symlink()}
    except (FileNotFoundError, NotADirectoryError):
        files = set()
    films = []
    for step in sorted({int(Path(name).stem) for name in files}):
        film = next((f"{step}{kind}" for kind in KINDS if f"{step}{kind}" in files), None)
        trace = f"{step}.json" if f"{step}.json" in files else None
        if shown := film or trace:
            films.append(Film(run=run.id, step=step, file=shown, trace=trace))
    return FilmList(run=run.id, films=films)


def film(
    selector: str, runs_dir: Path = Path("runs"), *, checkpoint: str = "@best", kind: Literal["gif", "mp4"] = "gif", again: bool = False
) -> Film:
    """Record an episode of a checkpoint, unless there is one. The environment may crash; whoever asks must not.

    again: where no policy of that env step was kept, the run is trained again up to it, with its own seed, in a folder of its own.
    """
    run = Store(runs_dir).run(selector)
    kept = {each.step for each in run.checkpoints}
    trained = again and checkpoint.isdigit() and int(checkpoint) not in kept
    step = int(checkpoint) if trained else run.checkpoint(checkpoint).step
    known = next((recorded for recorded in list_films(run).films if recorded.step == step), None)
    if known is not None:
        return known
    if trained:
        policy.check_repeatable(run, step)
    folder = run.path / FOLDER
    with disk.guarded(folder):
        folder.mkdir(exist_ok=True)
    wanted = (folder / f"{step}.{kind}").absolute()
    trace, store = wanted.with_suffix(".json"), runs_dir.absolute()
    done = None if trained else warm_process.record(f"{run.id}@{step}", store, wanted, trace, SECONDS)
    if done is None:
        recording = ["--episodes", "1", "--video", str(wanted), "--trace", str(trace), "--json", "--runs-dir", str(store)]
        arguments = ["rlclinic", "evaluate", f"{run.id}@{step}", *recording]
        if trained:
            arguments = ["rlclinic.ops.runs.policy", str(store), run.id, str(step), str(folder.absolute()), kind]
        try:
            done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise RunError(f"recording an episode of {run.id}@{step} took longer than {SECONDS:g} s.\n  There is no film of it.") from None
    if done.returncode:
        raise RunError(done.stderr.strip() or f"recording ended with {done.returncode}")
    if trained:
        step = int(done.stdout.split()[-1])
    made = next((recorded for recorded in list_films(run).films if recorded.step == step), None)
    if made is None:
        raise NotFound(f"nothing was recorded of {run.id}@{step}.\n  Does its environment render?")
    return made


class Histogram(ResultPart):
    """One quantity over the run: at each env step its range, and how many values lie in each of equally wide bins."""

    phase: Literal["collect", "learn"]
    name: str
    steps: list[int]
    low: list[float]
    high: list[float]
    counts: list[list[int]]


class Histograms(Result):
    """What `run.histograms_every_env_steps` recorded of a run."""

    run: str
    histograms: list[Histogram]


def list_histograms(run: Run) -> Histograms:
    """Every histogram of a run; none where it was not asked to record any."""
    found = [
        Histogram(
            phase="collect" if phase == "collect" else "learn",
            name=name,
            steps=[step for step, _ in records],
            low=[counts[0] for _, counts in records],
            high=[counts[1] for _, counts in records],
            counts=[counts[2] for _, counts in records],
        )
        for phase, named in histograms.read(run.path).items()
        for name, records in named.items()
    ]
    return Histograms(run=run.id, histograms=found)
