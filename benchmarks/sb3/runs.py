"""What the reference sides of Stable-Baselines3 share: evaluating, training to a threshold, and a record that goes on where it stopped.

Evaluations are 20 greedy episodes from fixed start states (reset seeds 10_000 …) on a separate env. Imports nothing of rlclinic.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

EVAL_EPISODES = 20
FIRST_EVAL_SEED = 10_000
Run = dict[str, Any]


def evaluate(model: Any, venv: Any, test_env: Any) -> float:
    """Mean return of greedy episodes that start from the same states every time; observations normalized as `venv` does."""
    normalize = getattr(venv, "normalize_obs", lambda obs: obs)
    total = 0.0
    for episode in range(EVAL_EPISODES):
        obs, _ = test_env.reset(seed=FIRST_EVAL_SEED + episode)
        over = False
        while not over:
            action, _ = model.predict(normalize(obs), deterministic=True)
            obs, reward, terminated, truncated, _ = test_env.step(action)
            total += float(reward)
            over = terminated or truncated
    return total / EVAL_EPISODES


def to_threshold(model: Any, env_id: str, settings: dict[str, Any]) -> Run:
    """Train until the first evaluation at the threshold or the end of the budget: the env step of the former, and the curve."""
    import gymnasium
    from stable_baselines3.common.callbacks import BaseCallback

    curve: list[tuple[int, float]] = []
    venv, test_env = model.get_env(), gymnasium.make(env_id)

    class StopAtThreshold(BaseCallback):
        due = settings["every"]

        def _on_step(self) -> bool:
            if self.num_timesteps < self.due:
                return True
            self.due += settings["every"]
            curve.append((self.num_timesteps, round(evaluate(self.model, venv, test_env), 2)))
            return bool(curve[-1][1] < settings["threshold"])

    start = time.monotonic()
    model.learn(settings["budget"], callback=StopAtThreshold())
    reached = curve[-1][0] if curve and curve[-1][1] >= settings["threshold"] else None
    print(env_id, model.seed, reached, curve[-1], f"{time.monotonic() - start:.0f} s", flush=True)
    return {"steps_to_threshold": reached, "curve": curve}


def load(out: Path, **facts: Any) -> dict[str, Any]:
    """What earlier calls left in `out`, or an empty record with its provenance."""
    if out.exists():
        record: dict[str, Any] = json.loads(out.read_text())
        return record
    import gymnasium
    import stable_baselines3
    import torch

    versions = {module.__name__: module.__version__ for module in (stable_baselines3, gymnasium, torch)}
    return {"versions": versions, **facts, "runs": []}


def save(record: dict[str, Any], out: Path) -> None:
    """Replace `out` in one step, so that a killed run never leaves half a file."""
    temporary = out.with_suffix(".tmp")
    temporary.write_text(json.dumps(record))
    temporary.replace(out)


def collect(train: Callable[[Any], Run], jobs: Iterable[Any], procs: int, record: dict[str, Any], out: Path) -> None:
    """Every job's run into the record, each in a process of its own."""
    with get_context("spawn").Pool(procs, maxtasksperchild=1) as pool:
        for run in pool.imap_unordered(train, jobs):
            record["runs"].append(run)
            save(record, out)


def seeds_to_threshold(
    doc: str | None,
    train: Callable[[Any], Run],
    kind: str,
    settings: dict[str, dict[str, Any]],
    out: Path,
    seeds: tuple[int, int],
    procs: int,
) -> None:
    """The command line of a benchmark of steps to a threshold; `kind` is what its tasks are called, in flags and in the record."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, default=out, help="the JSON file to fill")
    parser.add_argument(f"--{kind}s", dest="tasks", nargs="*", default=list(settings), choices=list(settings))
    parser.add_argument("--seeds", nargs=2, type=int, default=seeds, metavar=("FIRST", "PAST_LAST"))
    parser.add_argument("--procs", type=int, default=procs)
    args = parser.parse_args()
    record = load(args.out, protocol=doc, settings=settings)
    have = {(run[kind], run["seed"]) for run in record["runs"]}
    jobs = [(task, seed) for task in args.tasks for seed in range(*args.seeds) if (task, seed) not in have]
    collect(train, jobs, args.procs, record, args.out)
