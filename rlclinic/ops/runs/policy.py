"""Trained policies at work: scoring them, watching them, recording them. Imports torch when it is asked to."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rlclinic import stats, trust
from rlclinic.actions import Action, Argument
from rlclinic.config import Config, files
from rlclinic.config.overrides import set_values
from rlclinic.errors import ConfigError, NotFound, RlclinicError, UsageError
from rlclinic.report.models import AskedReturn, EvaluationResult
from rlclinic.runs import env_code
from rlclinic.runs.record import Checkpoint, Group, Run
from rlclinic.runs.recording import films
from rlclinic.runs.store import Store

if TYPE_CHECKING:
    from rlclinic.training.policy import Policy

FIRST_START = 10_000
"""Evaluation starts from reset(seed=10_000 + k); episodes that are shown or recorded start from the same states."""
RENDERS = ("human", "ansi", "none")
MOST_FRAMES = 3_000

Played = tuple[float, int, float | None]
"""Return, length and success (None: not reported) of an episode."""

Frame = Callable[[Any], None]
_HOME: Final = "\x1b[H\x1b[J"
_PLAIN: Final = "\x1b[0m"
_NARROWEST: Final = 20
PLOT_FPS: Final = 10.0
"""Of a film that shows numbers."""


def evaluate(
    selector: str = "@last",
    runs_dir: Path = Path("runs"),
    *,
    episodes: int = 100,
    deterministic: bool = True,
    video: Path | None = None,
    trace: Path | None = None,
    env: str | None = None,
    target_returns: Sequence[float] = (),
) -> EvaluationResult:
    """Score a checkpoint (the best one unless another is named; of a group, its best run) from fixed start states.

    trace: where an episode goes in numbers, step by step; the video is then one of the same episode, small enough for a page, and is
    left out where the environment has no pictures.
    env: another environment than the recorded one, for code that lies elsewhere or was changed: `file.py:Class`, `module:Class`, an id.
    target_returns: what a Decision Transformer is asked for one after the other, beside what it was trained to be asked for.
    """
    from rlclinic.ops.runs.video import settle

    note = None
    if video is not None:
        video, note = settle(video)
    checkpoint = pick_checkpoint(Store(runs_dir), selector)
    policy = load_policy(checkpoint, env)
    if trace is not None:
        recorded = _record_trace(policy, trace, video, deterministic)
    elif video is not None:
        recorded, without = _record(policy, video, deterministic)
        note = "; ".join(text for text in (note, without) if text) or None
    else:
        recorded = None
    asked = [_ask(policy, wanted, episodes, deterministic) for wanted in sorted(target_returns)]
    scored = policy.evaluate(episodes, deterministic=deterministic)
    successes = [float(value) for value in scored.success[0] if value == value]
    returns, lengths = scored.returns[0].tolist(), scored.lengths[0].tolist()
    changed = None if env is not None else _describe_changes(checkpoint.run)
    notes = "; ".join(text for text in (note, changed) if text)
    result = _result(checkpoint, policy, returns, lengths, successes, deterministic, recorded)
    return result.model_copy(update={"note": notes or None, "asked": asked, "follows": _judge_following(asked)})


def _ask(policy: "Policy", wanted: float, episodes: int, deterministic: bool) -> AskedReturn:
    returns = policy.evaluate(episodes, deterministic=deterministic, target_return=wanted).returns[0]
    return AskedReturn(asked=wanted, return_mean=float(returns.mean()), return_std=float(returns.std()))


def _judge_following(asked: Sequence[AskedReturn]) -> float | None:
    """How much what is earned rises with what is asked for."""
    import numpy as np

    return stats.rank_correlation(np.array([each.asked for each in asked]), np.array([each.return_mean for each in asked]))


def play(
    selector: str = "@last",
    runs_dir: Path = Path("runs"),
    *,
    episodes: int = 3,
    deterministic: bool = True,
    render: str = "human",
    seed: int | None = None,
    env: str | None = None,
) -> EvaluationResult:
    """Let a policy act in its environment one episode after the other, in a window or as text. env: as `evaluate` has it."""
    if render not in RENDERS:
        raise UsageError(Argument("render", render), f": there are {', '.join(RENDERS)}.")
    if render == "human" and not films.has_screen():
        raise UsageError(
            "there is no screen here to open a window on.\n  Watch it as text: ",
            Action("play", selector, render="ansi"),
            "\n  Record it: ",
            Action("evaluate", selector, video="episode.gif"),
            "\n  Or only score it: ",
            Action("play", selector, render="none"),
        )
    checkpoint = pick_checkpoint(Store(runs_dir), selector)
    policy = load_policy(checkpoint, env)
    start = FIRST_START if seed is None else seed
    mode, show = _stage(policy, render, selector)
    played = _play(policy, range(start, start + episodes), deterministic, mode, show)
    returns, lengths, outcomes = zip(*played, strict=True)
    successes = [outcome for outcome in outcomes if outcome is not None]
    changed = None if env is not None else _describe_changes(checkpoint.run)
    return _result(checkpoint, policy, returns, lengths, successes, deterministic, None).model_copy(update={"note": changed})


def pick_checkpoint(store: Store, selector: str) -> Checkpoint:
    """The checkpoint that is meant: of a run the best (else the last), of a group its best run's."""
    selected = store.resolve(selector)
    if isinstance(selected, Checkpoint):
        return selected
    run = _best_run(selected) if isinstance(selected, Group) else selected
    kept = run.checkpoints
    if not kept:
        raise NotFound(
            f"run {run.id} has no checkpoint yet: there is no policy to load.\n  See how it stands: ", Action("runs show", run.id)
        )
    return next((checkpoint for checkpoint in kept if checkpoint.best), kept[-1])


def _best_run(group: Group) -> Run:
    scored = [(run.status.best_eval, -index, run) for index, run in enumerate(group.runs)]
    best = max((entry for entry in scored if entry[0] is not None), default=None, key=lambda entry: entry[:2])
    return best[2] if best else group.runs[0]


def _describe_changes(run: Run) -> str | None:
    if (made := env_code.find_object(run)) is not None:
        return (
            f"it was trained on an object of a program ({made.inside} in {made.path}), and acts here in {run.env_id}: "
            "if that is another environment, name its class as the environment (file.py:Class)"
        )
    return env_code.describe_changes(run, "it acts here in another environment than it learned in, and returns may differ for that alone")


def load_policy(checkpoint: Checkpoint, env: str | None = None) -> "Policy":
    """The policy in its own environment, or in one that the caller names (and has said yes to by that)."""
    config = checkpoint.run.config
    if env is None:
        env_code.check_found(checkpoint.run)
        trust.check_envs([config.env])
    else:
        files.check_environment(env)
        config = set_values(config, [f"env.id={env}"])
        trust.approve_new(checkpoint.run.config.env, config.env)
        trust.check_envs([config.env])
    # One observation at a time is too little work to share: a second thread only waits, and on a busy machine for long.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        from rlclinic.training import policy
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"a policy needs {missing.name} to act, which is not installed.\n  Type: pip install 'rlclinic[train]'"
        ) from missing
    return policy.load(checkpoint.run, str(checkpoint.step), config=config)


def _stage(policy: "Policy", render: str, selector: str) -> tuple[str | None, Frame | None]:
    """The render mode to ask the environment for, and what to do with what it then gives."""
    from rlclinic.training.envs import atari

    if render == "none":
        return None, None
    settings = policy.config.env
    env = _environment(policy, None)
    env.close()
    modes = env.metadata.get("render_modes", [])
    # ALE's vector environment opens no window: it hands out what the agent sees.
    if render in modes and not (render == "human" and atari.steps(settings)):
        return render, None if render == "human" else _print_frame
    if not _draws(env):
        raise UsageError(
            f"{settings.id} cannot render {render}; it has: {', '.join(modes) or 'none'}.\n  Film its numbers instead: ",
            Action("evaluate", selector, video="episode.gif"),
            "\n  Or only score it: ",
            Action("play", selector, render="none"),
        )
    fps = _fps(policy, env)
    return "rgb_array", window(settings.id, fps) if render == "human" else terminal(fps)


def _fps(policy: "Policy", env: Any) -> float:
    """Frames a second at which an episode looks as fast as it is; an Atari game has 60, of which the agent sees every n-th."""
    skip = policy.config.env.frames_per_step
    return 60.0 / skip if skip else float(env.metadata.get("render_fps") or 30)


def _environment(policy: "Policy", render_mode: str | None) -> Any:
    """One environment as the policy met it in training, with Gymnasium's own physics and pictures."""
    from rlclinic.training.envs import making

    config = policy.config.env
    films.draw_in_memory()
    if render_mode is None:
        return making.make_single(config)
    try:
        return making.make_single(config.model_copy(update={"kwargs": {**config.kwargs, "render_mode": render_mode}}))
    except ConfigError as error:
        raise UsageError(
            f"{config.id} cannot draw pictures here: {str(error).partition(chr(10))[0]}\n"
            "  Robots of MuJoCo need OpenGL: MUJOCO_GL=egl (a GPU's), or MUJOCO_GL=osmesa (apt install libosmesa6) before the command\n"
            "  Or only score it: ",
            Action("evaluate"),
            ", ",
            Action("play", render="none"),
        ) from error


def _play(policy: "Policy", starts: Sequence[int], deterministic: bool, render_mode: str | None, show: Frame | None) -> list[Played]:
    """One episode after the other, from these seeds; `show` gets every frame."""
    if policy.remembers is not None:
        episodes_played = policy.watch(starts, show, render_mode, deterministic=deterministic)
        ends = [(each.returns[0, 0], each.lengths[0, 0], each.success[0, 0]) for each in episodes_played]
        return [(float(total), int(length), None if success != success else float(success)) for total, length, success in ends]
    env = _environment(policy, render_mode)
    try:
        return [_episode(env, policy, start, deterministic, show) for start in starts]
    finally:
        env.close()


def _episode(env: Any, policy: "Policy", seed: int, deterministic: bool, show: Frame | None) -> Played:
    obs, info = env.reset(seed=seed)
    total, length, ended = 0.0, 0, False
    while not ended:
        if show is not None:
            show(env.render())
        mask = info.get("action_mask") if policy.config.env.action_mask else None
        obs, reward, terminated, truncated, info = env.step(policy.act(obs, deterministic=deterministic, action_mask=mask))
        total, length, ended = total + float(reward), length + 1, terminated or truncated
    if show is not None:
        show(env.render())
    success = info.get("is_success", info.get("success"))
    return total, length, None if success is None else float(success)


def _record_trace(policy: "Policy", trace: Path, path: Path | None, deterministic: bool) -> Path | None:
    """One episode in numbers, and as a small film where a path is given and the environment has pictures."""
    films.draw_in_memory()
    episode = policy.record(deterministic=deterministic)
    if episode.trace.rewards:
        films.write_trace(trace, episode.trace)
    if path is None or not episode.frames:
        return None
    return films.write(path, *films.shrink(episode.frames, episode.fps))


def _record(policy: "Policy", path: Path, deterministic: bool) -> tuple[Path, str | None]:
    """A film of an episode, and a remark where it shows numbers because there are no pictures."""
    from rlclinic.ops.runs import video

    env = _environment(policy, None)
    env.close()
    if not _draws(env):
        episode = policy.record(deterministic=deterministic)
        drawn = video.draw_trace(episode.trace)
        return video.write(path, drawn, PLOT_FPS), f"{policy.config.env.id} has no pictures: the film shows its numbers"
    frames: list[Any] = []

    def keep(frame: Any) -> None:
        if len(frames) < MOST_FRAMES:
            frames.append(frame)

    _play(policy, [FIRST_START], deterministic, "rgb_array", keep)
    return video.write(path, frames, _fps(policy, env)), None


def _draws(env: Any) -> bool:
    """Whether it says that it has pictures."""
    return "rgb_array" in (env.metadata.get("render_modes") or [])


def _result(
    checkpoint: Checkpoint,
    policy: "Policy",
    returns: Sequence[float],
    lengths: Sequence[float],
    successes: Sequence[float],
    deterministic: bool,
    video: Path | None,
) -> EvaluationResult:
    import numpy as np

    goal = checkpoint.run.goal
    mean = float(np.mean(returns))
    # An episode that ended without a word is none, where others report success.
    success = sum(successes) / len(returns) if successes else None
    required = goal.require_success(reported=success is not None)
    return EvaluationResult(
        run=checkpoint.run.id,
        checkpoint="@best" if checkpoint.best else "@last" if checkpoint.last else str(checkpoint.step),
        step=checkpoint.step,
        env=policy.config.env.id,
        episodes=len(returns),
        deterministic=deterministic,
        return_mean=mean,
        return_std=float(np.std(returns)),
        return_min=min(returns),
        return_max=max(returns),
        length_mean=float(np.mean(lengths)),
        success_rate=success,
        threshold=goal.threshold,
        required_success=required,
        passed=None if goal.threshold is None and required is None else goal.is_passed(mean, success),
        returns=list(returns),
        video=str(video) if video else None,
    )


def _print_frame(frame: Any) -> None:
    sys.stderr.write(f"{frame}\n")


def terminal(fps: float) -> Frame:
    """Draws RGB frames in place; into a file, one below the other and without waiting."""
    live = sys.stderr.isatty()

    def show(frame: Any) -> None:
        size = shutil.get_terminal_size()
        text = blocks(frame, max(_NARROWEST, size.columns - 1), max(_NARROWEST, size.lines - 2))
        sys.stderr.write(f"{_HOME if live else ''}{text}\n")
        if live:
            time.sleep(1.0 / fps)

    return show


def blocks(frame: Any, columns: int, lines: int) -> str:
    """RGB pixels [height, width, 3] as text that fits: half a block is a pixel, so a character shows two, one above the other."""
    import numpy as np

    height, width = frame.shape[:2]
    share = min(columns / width, 2 * lines / height, 1.0)
    rows, across = max(2, int(height * share) // 2 * 2), max(1, int(width * share))
    pixels = frame[np.arange(rows) * height // rows][:, np.arange(across) * width // across]
    text = []
    for top, bottom in zip(pixels[::2].tolist(), pixels[1::2].tolist(), strict=True):
        cells, before = [], None
        for above, below in zip(top, bottom, strict=True):
            colours = f"\x1b[38;2;{_rgb(above)};48;2;{_rgb(below)}m"
            cells.append("▀" if colours == before else colours + "▀")
            before = colours
        text.append("".join(cells) + _PLAIN)
    return "\n".join(text)


def _rgb(pixel: list[int]) -> str:
    return ";".join(str(value) for value in pixel)


def window(title: str, fps: float) -> Frame:
    """A window for environments that open none of their own; closing it ends the program as Ctrl-C does."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import pygame
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"a window for {title} needs pygame, which is not installed.\n  Type: pip install pygame-ce\n  Or watch it as text: ",
            Argument("render", "ansi"),
        ) from missing
    pygame.display.init()
    pygame.display.set_caption(title)
    clock = pygame.time.Clock()

    def show(frame: Any) -> None:
        surface = pygame.surfarray.make_surface(frame.swapaxes(0, 1))
        shown = pygame.display.get_surface() or pygame.display.set_mode(surface.get_size())
        if any(event.type == pygame.QUIT for event in pygame.event.get()):
            raise KeyboardInterrupt
        shown.blit(surface, (0, 0))
        pygame.display.flip()
        clock.tick(fps)

    return show


# ── a policy that was not kept ──


def check_repeatable(run: Run, step: int) -> None:
    """UsageError where training again would end in another policy than the run had."""
    why = None
    if run.parent is not None:
        why = f"it went on from {run.parent}"
    elif run.interventions:
        why = "its numbers were changed while it trained"
    elif env_code.list_changes(run):
        why = "the code of its environment has changed since"
    if why is not None:
        raise UsageError(
            f"no policy of {run.id} from env step {step:,} was kept, and training it again would not lead there: {why}.\n"
            "  There is no film of it. Films are made while a run trains, if it is asked for: ",
            Action("train", run.id, set=[f"run.film_every_env_steps={max(1, run.config.run.max_env_steps // 10)}"]),
        )


def record_again(run: Run, step: int, folder: Path, kind: str) -> int:
    """Train a run again up to an env step, in a folder that is gone afterwards, and record an episode; the env step that it then stands at.

    Writes FOLDER/<env step>.KIND and .json. Evaluations and films change nothing of what a run learns, so that the policy is the one
    that the run had, as long as its environment is repeatable.
    """
    from rlclinic.training.__main__ import train_runs

    given = run.config.model_dump()
    # What a run is watched with, and nothing that it learns from.
    quiet = {"film_every_env_steps": None, "histograms_every_env_steps": None, "tensorboard": False, "stop_at_threshold": False}
    config = Config.model_validate({**given, "run": {**given["run"], **quiet, "eval_episodes": 0}})
    with tempfile.TemporaryDirectory() as place:
        (trained,) = Store(Path(place)).create_group([config]).runs
        if not train_runs([trained], callback=lambda row: int(row["total_timesteps"]) < step):
            raise UsageError(f"training {run.id} again failed: {trained.status.reason}.\n  There is no film of it.")
        reached = trained.checkpoints[-1].step
        film, trace = Path(place) / f"film.{kind}", Path(place) / "film.json"
        evaluate(f"{trained.id}@{reached}", Path(place), episodes=1, video=film, trace=trace)
        for file in (film, trace):
            if file.exists():
                # Under another name first: whoever lists the films must not find half of one.
                half = Path(shutil.move(file, folder / f"half-{reached}{file.suffix}"))
                half.replace(folder / f"{reached}{file.suffix}")
    return reached


def main(arguments: Sequence[str] | None = None) -> int:
    """python -m rlclinic.ops.runs.policy RUNS_DIR RUN STEP FOLDER KIND: `record_again` in a process of its own, which may crash."""
    runs_dir, run, step, folder, kind = arguments or sys.argv[1:]
    try:
        print(record_again(Store(Path(runs_dir)).run(run), int(step), Path(folder), kind))
    except RlclinicError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
