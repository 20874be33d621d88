"""Trained policies at work: scoring them, watching them, recording them. Imports torch when it is asked to."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlclinic.errors import NotFound, UsageError
from rlclinic.ops.outcomes import EvaluationResult
from rlclinic.runs.record import Checkpoint, Group, Run
from rlclinic.runs.store import Store

if TYPE_CHECKING:
    from rlclinic.training.policy import Policy

FIRST_START = 10_000
"""Evaluation starts from reset(seed=10_000 + k); episodes that are shown or recorded start from the same states."""
RENDERS = ("human", "ansi", "none")
MOST_FRAMES = 3_000

Frame = Callable[[Any], None]


def evaluate(
    selector: str = "@last",
    runs_dir: Path = Path("runs"),
    *,
    episodes: int = 100,
    deterministic: bool = True,
    video: Path | None = None,
) -> EvaluationResult:
    """Score a checkpoint (the best one unless another is named; of a group, its best run) from fixed start states."""
    from rlclinic.ops import video as videos

    note = None
    if video is not None:
        video, note = videos.settle(video)
    checkpoint = pick_checkpoint(Store(runs_dir), selector)
    policy = _load(checkpoint)
    recorded = _record(policy, video, deterministic) if video is not None else None
    scored = policy.evaluate(episodes, deterministic=deterministic)
    successes = [float(value) for value in scored.success[0] if value == value]
    returns, lengths = scored.returns[0].tolist(), scored.lengths[0].tolist()
    return _result(checkpoint, policy, returns, lengths, successes, deterministic, recorded).model_copy(update={"note": note})


def play(
    selector: str = "@last",
    runs_dir: Path = Path("runs"),
    *,
    episodes: int = 3,
    deterministic: bool = True,
    render: str = "human",
    seed: int | None = None,
) -> EvaluationResult:
    """Let a policy act in its environment one episode after the other, in a window or as text."""
    if render not in RENDERS:
        raise UsageError(f"--render {render}: there are {', '.join(RENDERS)}.")
    if render == "human" and not _has_screen():
        raise UsageError(
            "there is no screen here to open a window on.\n"
            f"  Record it: rlclinic evaluate {selector} --video episode.gif\n  Or only score it: rlclinic play {selector} --render none"
        )
    checkpoint = pick_checkpoint(Store(runs_dir), selector)
    policy = _load(checkpoint)
    env = _environment(policy, None if render == "none" else render)
    start = FIRST_START if seed is None else seed
    show = _print_frame if render == "ansi" else None
    try:
        played = [_episode(env, policy, start + number, deterministic, show) for number in range(episodes)]
    finally:
        env.close()
    successes = [success for _, _, success in played if success is not None]
    return _result(
        checkpoint, policy, [total for total, _, _ in played], [length for _, length, _ in played], successes, deterministic, None
    )


def pick_checkpoint(store: Store, selector: str) -> Checkpoint:
    """The checkpoint that is meant: of a run the best (else the last), of a group its best run's."""
    found = store.resolve(selector)
    if isinstance(found, Checkpoint):
        return found
    run = _best_run(found) if isinstance(found, Group) else found
    kept = run.checkpoints
    if not kept:
        raise NotFound(f"run {run.id} has no checkpoint yet: there is no policy to load.\n  See how it stands: rlclinic runs show {run.id}")
    return next((checkpoint for checkpoint in kept if checkpoint.best), kept[-1])


def _best_run(group: Group) -> Run:
    scored = [(run.status.best_eval, -index, run) for index, run in enumerate(group.runs)]
    best = max((entry for entry in scored if entry[0] is not None), default=None, key=lambda entry: entry[:2])
    return best[2] if best else group.runs[0]


def _load(checkpoint: Checkpoint) -> "Policy":
    # One observation at a time is too little work to share: a second thread only waits, and on a busy machine for long.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        from rlclinic.training import policy
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"a policy needs {missing.name} to act, which is not installed.\n  Type: pip install 'rlclinic[train]'"
        ) from missing
    return policy.load(checkpoint.run, str(checkpoint.step))


def _environment(policy: "Policy", render_mode: str | None) -> Any:
    """One environment as the policy met it in training, with Gymnasium's own physics and pictures."""
    from rlclinic.training.envs import making

    config = policy.config.env
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if render_mode == "rgb_array":
        # Frames are drawn in memory; without a screen SDL would complain about it.
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    if render_mode is not None:
        config = config.model_copy(update={"kwargs": {**config.kwargs, "render_mode": render_mode}})
    env = making.single(config)
    modes = env.metadata.get("render_modes", [])
    if render_mode is not None and render_mode not in modes:
        env.close()
        raise UsageError(
            f"{config.id} cannot render {render_mode}; it has: {', '.join(modes) or 'none'}.\n  Score it instead: rlclinic evaluate"
        )
    return env


def _episode(env: Any, policy: "Policy", seed: int, deterministic: bool, show: Frame | None) -> tuple[float, int, float | None]:
    """Return, length and success (None: not reported) of one episode; `show` gets every frame."""
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
    success = info.get("is_success")
    return total, length, None if success is None else float(success)


def _record(policy: "Policy", path: Path, deterministic: bool) -> Path:
    from rlclinic.ops import video as videos

    frames: list[Any] = []

    def keep(frame: Any) -> None:
        if len(frames) < MOST_FRAMES:
            frames.append(frame)

    if policy.remembers is not None:
        policy.film(keep, deterministic=deterministic)
        return videos.write(path, frames, 60.0 / (policy.config.env.frames_per_step or 2))
    env = _environment(policy, "rgb_array")
    try:
        _episode(env, policy, FIRST_START, deterministic, keep)
        return videos.write(path, frames, float(env.metadata.get("render_fps") or 30))
    finally:
        env.close()


def _result(
    checkpoint: Checkpoint,
    policy: "Policy",
    returns: list[float],
    lengths: list[float] | list[int],
    successes: list[float],
    deterministic: bool,
    video: Path | None,
) -> EvaluationResult:
    import numpy as np

    return EvaluationResult(
        run=checkpoint.run.id,
        checkpoint="@best" if checkpoint.best else "@last" if checkpoint.last else str(checkpoint.step),
        step=checkpoint.step,
        env=policy.config.env.id,
        episodes=len(returns),
        deterministic=deterministic,
        return_mean=float(np.mean(returns)),
        return_std=float(np.std(returns)),
        return_min=min(returns),
        return_max=max(returns),
        length_mean=float(np.mean(lengths)),
        success_rate=float(np.mean(successes)) if successes else None,
        threshold=policy.config.spec.threshold,
        returns=returns,
        video=str(video) if video else None,
    )


def _print_frame(frame: Any) -> None:
    sys.stderr.write(f"{frame}\n")


def _has_screen() -> bool:
    if sys.platform != "linux":
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"))
