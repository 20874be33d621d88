"""`python -m benchmarks.diagnosis.worlds.learnable`: which worlds PPO learns within the budget, and what counts as learned there.

A world's threshold lies between what needs no learning (a random policy, and the best of those that always do the same) and what sound
settings reach. Worlds in which a seed does not pass it are left out of everything, before any diagnosis is made.
"""

import argparse
import json
import multiprocessing
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.diagnosis.worlds import families, native
from rlclinic.config import Config, files
from rlclinic.config.overrides import set_values

FILE: Final = Path(__file__).with_name("measured.json")
SEEDS: Final = (50, 51, 52, 53)
BUDGET: Final = 32_768
EVALUATIONS: Final = 16
RETURN: Final = "val/roll/ep_rew_mean"


@cache
def base(name: str, budget: int = BUDGET) -> Config:
    """Sound settings, of three kinds in turn, without a threshold."""
    world = families.world(name)
    kinds = (
        ("algo.n_steps=64", "algo.batch_size=128", "algo.n_epochs=6", "algo.learning_rate=1e-3", "net.hidden=[64,64]"),
        ("algo.n_steps=128", "algo.batch_size=256", "algo.n_epochs=8", "algo.learning_rate=1.2e-3", "net.hidden=[32,32]"),
        (
            "algo.n_steps=32",
            "algo.batch_size=64",
            "algo.n_epochs=4",
            "algo.learning_rate=7e-4",
            "net.hidden=[64]",
            "env.normalize_obs=true",
        ),
    )
    return set_values(
        files.load("CartPole-v1:ppo_zoo").config,
        [
            f"env.id={world.id}", "spec.return_range=none", "spec.threshold=none", f"spec.max_episode_steps={world.limit}",
            *kinds[world.draw % 3], f"env.normalize_obs={str(world.draw % 3 == 2).lower()}",
            f"algo.gamma={world.gamma}", "algo.gae_lambda=0.95", "algo.clip_range=0.2",
            f"run.max_env_steps={budget}", f"run.eval_every_env_steps={budget // EVALUATIONS}", "run.eval_episodes=20",
        ],
    )  # fmt: skip


def measure(name: str) -> dict[str, Any]:
    """Returns of a random policy, of the best constant one, and of every seed at the end of training."""
    import torch

    from rlclinic.runs import history
    from rlclinic.runs.store import Store
    from rlclinic.training import trainer
    from rlclinic.training.__main__ import train_runs
    from rlclinic.training.sentinels import random_policy

    torch.set_num_threads(1)
    trainer.save_member = lambda *_: None
    native.register()
    config = base(name)
    played = random_policy.policies(config).returns
    constants = [float(values.mean()) for policy, values in played.items() if policy.startswith("always")]
    with tempfile.TemporaryDirectory() as folder:
        group = Store(Path(folder)).create_group([config.model_copy(update={"seed": seed}) for seed in SEEDS])
        train_runs(list(group.runs))
        curves = [history.of_run(run).series[RETURN].values for run in group.runs]
    ends = [float(np.median(curve[-4:])) for curve in curves]
    return judge({"random": float(played["random"].mean()), "constant": max(constants), "ends": [round(end, 3) for end in ends]})


def judge(found: dict[str, Any]) -> dict[str, Any]:
    """The threshold, and whether all seeds pass it."""
    easy, reached = max(found["random"], found["constant"]), float(np.median(found["ends"]))
    threshold = max(found["random"] + 0.75 * (reached - found["random"]), easy + 0.3 * (reached - easy))
    # Learning must be worth something: well above what can be had without it.
    worth = reached - easy > 0.1 * (abs(reached - found["random"]) + 1e-9) and reached > found["random"]
    learned = worth and min(found["ends"]) >= threshold
    numbers = {key: round(value, 3) if isinstance(value, float) else value for key, value in found.items()}
    return {**numbers, "threshold": float(f"{threshold:.4g}"), "learned": bool(learned)}


def load() -> dict[str, dict[str, Any]]:
    """What was measured, by world."""
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text("utf-8"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="families or worlds")
    parser.add_argument("--missing", action="store_true", help="only those that were not measured yet")
    parser.add_argument("--processes", type=int, default=2)
    wanted = parser.parse_args()
    known = load() if FILE.exists() else {}
    names = [name for name in families.names() if not wanted.only or name in wanted.only or families.world(name).family in wanted.only]
    names = [name for name in names if not (wanted.missing and name in known)]
    names.sort(key=lambda name: families.world(name).draw)
    with multiprocessing.get_context("fork").Pool(wanted.processes, maxtasksperchild=1) as pool:
        for name, found in zip(names, pool.imap(measure, names), strict=True):
            known[name] = found
            print(name, found, flush=True)
            # Kept as it comes: who is stopped in between has the first ones of every family.
            body = ",\n".join(f"{json.dumps(each)}: {json.dumps(known[each])}" for each in families.names() if each in known)
            FILE.write_text("{\n" + body + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
