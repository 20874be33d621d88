"""Small run folders, written through the same store and writer that training uses."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rlclinic.config import Config, files
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter

COLUMNS = [
    "time",
    "total_timesteps",
    "epoch",
    "total_episodes",
    "train/roll/ep_rew_mean",
    "train/loss/policy",
    "train/metrics/kl_divergence",
    "train/metrics/entropy",
    "train/metrics/explained_variance",
    "val/roll/ep_rew_mean",
    "val/roll/ep_rew_std",
    "time/fps",
    "time/env",
    "time/learn",
]
ROWS = 10
ENGINE = {"kind": "eager", "obs_shape": [4], "action": {"kind": "discrete", "sizes": [2]}}


def rising(seed: int, share: float) -> float:
    """A return that solves CartPole near the end of the run; a little later for each seed."""
    return min(500.0, 650.0 * share - 10.0 * seed)


def flat(seed: int, share: float) -> float:
    """A return that never gets anywhere."""
    return 100.0 + seed


def record_group(
    root: Path,
    seeds: Sequence[int] = (0, 1, 2),
    returns: Callable[[int, float], float] = rising,
    state: str = "finished",
    reason: str | None = None,
    changes: Sequence[str] = ("run.max_env_steps=10240",),
    share_done: float = 1.0,
    evaluate: bool = True,
) -> Group:
    """A CartPole-v1:ppo group whose runs ended (or are still) in `state` after a share of the budget."""
    # The variant that never changes, under the name of the one that may.
    config = files.load("CartPole-v1:ppo_zoo", list(changes)).config.model_copy(update={"name": "CartPole-v1:ppo"})
    group = Store(root).create_group([config.model_copy(update={"seed": seed}) for seed in seeds])
    for run in group.runs:
        _write(run.path, config, run.seed, returns, state, reason, share_done, evaluate)
    return Group(group.path)


def _write(
    path: Path,
    config: Config,
    seed: int,
    returns: Callable[[int, float], float],
    state: str,
    reason: str | None,
    done: float,
    evaluate: bool,
) -> None:
    budget = config.run.max_env_steps
    rows = max(1, round(ROWS * done))
    values = [returns(seed, (index + 1) / ROWS) for index in range(rows)]
    with RunWriter(path, COLUMNS) as writer:
        writer.annotate(engine=ENGINE)
        writer.log("started")
        for index, value in enumerate(values):
            steps = budget * (index + 1) // ROWS
            row = {"time": 1.0e9 + index, "total_timesteps": steps, "epoch": index + 1, "total_episodes": 10 * (index + 1)}
            row |= {"train/roll/ep_rew_mean": 0.8 * value, "train/metrics/kl_divergence": 0.01, "train/metrics/entropy": 0.6 - 0.03 * index}
            row |= {
                "train/loss/policy": -0.01,
                "train/metrics/explained_variance": 0.5,
                "time/fps": 5000.0,
                "time/env": 0.25,
                "time/learn": 0.75,
            }
            if evaluate:
                row |= {"val/roll/ep_rew_mean": value, "val/roll/ep_rew_std": 1.0}
            writer.row(row)
        reached = next((budget * (i + 1) // ROWS for i, v in enumerate(values) if evaluate and v >= 475), None)
        more = {"eval_mean": values[-1], "best_eval": max(values), "threshold_reached_at": reached} if evaluate else {}
        writer.status(state, steps, return_mean=0.8 * values[-1], fps=5000.0, episodes=10 * rows, reason=reason, **more)
        writer.log(f"{state} at env step {steps}")


def add_checkpoint(run_path: Path, step: int, *, best: bool = False) -> None:
    """A checkpoint folder as far as this side looks at it: a manifest, files, @best and @last."""
    folder = run_path / "checkpoints" / str(step)
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("{}")
    (folder / "manifest.json").write_text('{"state.json": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}')
    for mark in ("@last", "@best") if best else ("@last",):
        link = folder.parent / mark
        link.unlink(missing_ok=True)
        link.symlink_to(str(step))
