"""`python -m benchmarks.diagnosis.testimony_cost`: what testimony about the environment costs, in pairs with and without it, interleaved.

CPU seconds of the whole process, on one thread. Pairs alternate which side comes first; `cost` is the median over pairs of the ratio minus
1, and `inside` the median share of the CPU time that is spent in the functions themselves, which a busy machine disturbs less.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np

from benchmarks import provenance

CASES: Final = {
    "PPO CartPole-v1, 1 seed": ("CartPole-v1:ppo_zoo", 1, 50_000),
    "PPO CartPole-v1, 8 seeds": ("CartPole-v1:ppo_zoo", 8, 50_000),
    "SAC Pendulum-v1, 1 seed": ("Pendulum-v1:sac", 1, 10_000),
}
SB3: Final = "SentinelCallback, SB3 PPO CartPole-v1"


def train(config: str, seeds: int, steps: int) -> None:
    """Train here, as the command does."""
    from rlclinic import python

    overrides = [f"run.max_env_steps={steps}", "run.eval_episodes=0", "run.eval_every_env_steps=none"]
    python.train(config, seeds=seeds, overrides=overrides)


def train_sb3(steps: int) -> None:
    """The callback on Stable-Baselines3's PPO."""
    from stable_baselines3 import PPO

    from rlclinic.sentinels.sb3 import SentinelCallback

    PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu").learn(steps, callback=SentinelCallback(folder="log"))


def measure(name: str, testimony: bool, steps: int | None) -> tuple[float, float]:
    """CPU seconds of one training in this process, and those of them that testimony took."""
    import torch

    from rlclinic.sentinels import sb3_steps
    from rlclinic.training import trainer
    from rlclinic.training.sentinels import environment

    spent = [0.0]

    def time_calls(owner: Any, part: str) -> None:
        function = getattr(owner, part)

        def timed(*given: Any, **named: Any) -> Any:
            begun = time.process_time()
            try:
                return function(*given, **named)
            finally:
                spent[0] += time.process_time() - begun

        setattr(owner, part, timed)

    for part in ("of_rollout", "of_replay", "of_episodes"):
        time_calls(environment, part)
    for part in ("add", "measure"):
        time_calls(sb3_steps.Recent, part)

    torch.set_num_threads(1)
    off: list[Any] = [] if testimony else [mock.patch.object(trainer, "TESTIMONY_EVERY", 10**12)]
    if not testimony and name == SB3:
        off += [mock.patch.object(sb3_steps.Recent, part, return_value={}) for part in ("add", "measure")]
    for patch in off:
        patch.start()
    started = time.process_time()
    if name == SB3:
        train_sb3(steps or 20_480)
    else:
        config, seeds, usual = CASES[name]
        train(config, seeds, steps or usual)
    return time.process_time() - started, spent[0]


def run(name: str, testimony: bool, steps: int | None) -> tuple[float, float]:
    """The same in a process of its own, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.diagnosis.testimony_cost", "--one", name, *(["--without"] if not testimony else [])]
        command += ["--steps", str(steps)] if steps else []
        # Found from another folder, too, with whatever else was on the path.
        paths = [str(provenance.ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(str(Path(path).resolve()) for path in paths)}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        whole, inside = done.stdout.strip().splitlines()[-1].split()
        return float(whole), float(inside)


def compare(name: str, pairs: int, steps: int | None) -> dict[str, Any]:
    """A row of the results' table: the cost in percent, by pairs."""
    found = []
    for number in range(pairs):
        order = (True, False) if number % 2 else (False, True)
        seconds = {testimony: run(name, testimony, steps) for testimony in order}
        found.append((seconds[True], seconds[False]))
    costs = [100 * (with_it[0] / without[0] - 1) for with_it, without in found]
    inside = 100 * float(np.median([with_it[1] / with_it[0] for with_it, _ in found]))
    return {
        "what": f"testimony about the environment, of a training's CPU time: {name}",
        "unit": "%",
        "better": "lower",
        "bar": 3.0,
        "stretch": None,
        "value": round(float(np.median(costs)), 2),
        "interval": [round(min(costs), 2), round(max(costs), 2)],
        "n": pairs,
        "note": f"{inside:.2f} % is spent in its functions; the interval is that of single pairs",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--case", type=int, help="only this one, counted from 0; its row is printed")
    parser.add_argument("--rows", type=Path, help="a file of rows that were printed so: nothing is measured, they are recorded")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--without", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(*measure(asked.one, not asked.without, asked.steps))
        return
    names = [*CASES, SB3]
    if asked.case is not None:
        print(json.dumps(compare(names[asked.case], asked.pairs, asked.steps)))
        return
    if asked.rows:
        rows = [json.loads(line) for line in asked.rows.read_text("utf-8").splitlines() if line.startswith("{")]
    else:
        rows = [compare(name, asked.pairs, asked.steps) for name in names]
    command = f"python -m benchmarks.diagnosis.testimony_cost --pairs {asked.pairs}"
    provenance.write("testimony_cost", rows, provenance.provenance(command), quick=bool(asked.steps))


if __name__ == "__main__":
    main()
