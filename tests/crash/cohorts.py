"""Small cohorts that are killed, and how to tell that nothing came of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlclinic.config import Config
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store

MEMBERS = (0, 1)


def config(**parts: dict[str, Any]) -> Config:
    """PPO on CartPole, 24 rollouts of 128 env steps, a checkpoint every other one; `parts` changes sections (a `name`: replaces)."""
    settings: dict[str, dict[str, Any]] = {
        "env": {"id": "CartPole-v1", "n_envs": 4, "normalize_obs": True, "normalize_reward": True},
        "algo": {"name": "ppo", "n_steps": 32, "batch_size": 64, "n_epochs": 2, "learning_rate": {"start": 1e-3, "end": 0.0}},
        "net": {"hidden": [16]},
        "run": {"max_env_steps": 3072, "eval_every_env_steps": 512, "eval_episodes": 2, "checkpoint_every_env_steps": 256},
    }
    changed = {name: part if "name" in part else {**settings[name], **part} for name, part in parts.items()}
    return Config.model_validate({**settings, **changed})


def create(root: Path, made: Config, seeds: Sequence[int] = MEMBERS) -> list[Run]:
    """Run folders, ready to train."""
    return Store(root).create_group([made.model_copy(update={"seed": seed}) for seed in seeds]).runs


def result(run: Run) -> tuple[list[str], bytes]:
    """What must not depend on interruptions: metrics.csv less the columns of the clock, and the last policy."""
    lines = [line.split(",") for line in (run.path / "metrics.csv").read_text().splitlines()]
    kept = [index for index, name in enumerate(lines[0]) if not name.startswith("time")]
    rows = [",".join(line[index] for index in kept) for line in lines]
    return rows, (run.checkpoint("@last").path / "policy.safetensors").read_bytes()


def check_same(runs: Sequence[Run], expected: Sequence[tuple[list[str], bytes]]) -> None:
    """All finished, with the expected rows and weights, and nothing left behind by an interrupted write."""
    for run, (rows, policy) in zip(runs, expected, strict=True):
        assert run.status.state == "finished", f"{run.id} is {run.status.state}: {run.status.reason}\n{run.log}"
        found, weights = result(run)
        different = [number for number, pair in enumerate(zip(rows, found, strict=False)) if pair[0] != pair[1]]
        assert (len(found), different) == (len(rows), []), f"{run.id}: rows {different} differ\n{run.log}"
        assert weights == policy, f"{run.id}: weights differ\n{run.log}"
        leftovers = [path.name for path in (run.path / "checkpoints").iterdir() if path.name.startswith(".")]
        assert leftovers == [], f"{run.id}: {leftovers} left behind"
