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
RESULT: Final = Path(__file__).parent / "results" / "testimony_cost.json"


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
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        whole, inside = done.stdout.strip().splitlines()[-1].split()
        return float(whole), float(inside)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--without", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(*measure(asked.one, not asked.without, asked.steps))
        return
    rows: list[dict[str, Any]] = []
    for name in (*CASES, SB3):
        pairs = []
        for number in range(asked.pairs):
            order = (True, False) if number % 2 else (False, True)
            seconds = {testimony: run(name, testimony, asked.steps) for testimony in order}
            pairs.append((seconds[True], seconds[False]))
        cost = float(np.median([with_it[0] / without[0] for with_it, without in pairs])) - 1
        inside = float(np.median([with_it[1] / with_it[0] for with_it, _ in pairs]))
        rows.append({"what": name, "cost": round(cost, 4), "inside": round(inside, 4), "pairs": [[a[0], b[0]] for a, b in pairs]})
        print(f"{name}: {100 * cost:.1f} % by pairs, {100 * inside:.2f} % inside", flush=True)
    command = f"python -m benchmarks.diagnosis.testimony_cost --pairs {asked.pairs}"
    RESULT.write_text(
        json.dumps({"provenance": provenance.provenance(command), "bar": 0.03, "rows": rows}, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
