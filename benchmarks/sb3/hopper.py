"""Return of Stable-Baselines3's SAC on Hopper-v5 after 50,000 env steps with rl-zoo3's settings: the reference side of hopper.py.

Protocol: one process per seed, one thread; after the last env step 20 deterministic episodes from fixed start states (reset seeds
10_000 …) on a separate env. It is saved after every run, and goes on where it stopped.

Run it in an interpreter that has stable-baselines3 and gymnasium[mujoco]; it imports nothing of rlclinic.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from benchmarks.sb3 import runs

ENV_ID = "Hopper-v5"
ENV_STEPS = 50_000
SEEDS = (100, 101, 102)
DEFAULT_OUT = Path(__file__).parent.parent / "baselines" / "sb3-sac-hopper.json"
SETTINGS: dict[str, Any] = {"learning_starts": 10_000}
"""rl-zoo3's for Hopper; the rest are SB3's defaults."""


def train(job: tuple[int, int, str]) -> dict[str, Any]:
    """One seed to the end of its budget, and what it can do then."""
    import gymnasium
    import torch
    from stable_baselines3 import SAC
    from stable_baselines3.common.env_util import make_vec_env

    seed, env_steps, device = job
    torch.set_num_threads(1)
    start = time.monotonic()
    model = SAC("MlpPolicy", make_vec_env(ENV_ID, 1, seed=1000 * seed), seed=seed, device=device, **SETTINGS)
    model.learn(env_steps)
    run = {"seed": seed, "env_steps": env_steps, "return": round(runs.evaluate(model, model.get_env(), gymnasium.make(ENV_ID)), 2)}
    print(run, f"{time.monotonic() - start:.0f} s", flush=True)
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, default=DEFAULT_OUT, help="the JSON file to fill")
    parser.add_argument("--seeds", nargs="*", type=int, default=SEEDS)
    parser.add_argument("--procs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=ENV_STEPS)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    record = runs.load(args.out) | {"protocol": __doc__, "settings": SETTINGS, "device": args.device}
    have = {(run["seed"], run["env_steps"]) for run in record["runs"]}
    jobs = [(seed, args.steps, args.device) for seed in args.seeds if (seed, args.steps) not in have]
    runs.collect(train, jobs, args.procs, record, args.out)


if __name__ == "__main__":
    main()
