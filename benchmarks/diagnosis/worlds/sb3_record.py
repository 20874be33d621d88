"""Runs of Stable-Baselines3 on worlds, each in both views: with our callback's columns, and as a usual user has it.

python -m benchmarks.diagnosis.worlds.sb3_record --out FOLDER --processes 16     # one file for each part of the split
"""

import argparse
import json
import multiprocessing
import shutil
import tempfile
import time
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.diagnosis import packing, sb3_corpus
from benchmarks.diagnosis.faulty import EnvFault
from benchmarks.diagnosis.worlds import families, gym_worlds
from benchmarks.diagnosis.worlds.sb3_cells import BASES, SEEDS, Spec, all_specs

ROWS = 64


def train(spec: Spec, seed: int, folder: Path) -> None:
    """Train one seed into a folder, as a user would."""
    import stable_baselines3
    import torch
    from stable_baselines3.common.logger import configure

    from rlclinic.sentinels.sb3 import SentinelCallback

    torch.set_num_threads(1)
    base, what = BASES[spec.algo], spec.what
    n_envs, budget = what.n_envs or base.n_envs, int(base.budget * what.budget)
    settings = {**base.settings, "gamma": families.world(spec.world).gamma, **what.settings}
    settings["learning_rate"] = sb3_corpus._schedule(settings["learning_rate"])
    settings["policy_kwargs"] = _network(what.net)
    fault = what.env
    venv = _envs(spec, EnvFault() if fault.eval_only else fault, n_envs, 1_000 * (seed + 1), folder)
    judged = _envs(spec, EnvFault() if fault.train_only else replace(fault, reward_clip=0.0), 4, 77_777, None)
    model = getattr(stable_baselines3, spec.algo.upper())("MlpPolicy", venv, seed=seed, device="cpu", **settings)
    model.set_logger(configure(str(folder), ["csv"]))
    evaluation = stable_baselines3.common.callbacks.EvalCallback(
        judged, n_eval_episodes=12, eval_freq=max(1, budget // 10 // n_envs), log_path=str(folder), verbose=0
    )
    rollout = model.n_steps * n_envs if spec.algo in ("ppo", "a2c") else 1
    interval = max(1, budget // rollout // ROWS) if rollout > 1 else 4
    try:
        model.learn(budget, callback=[SentinelCallback(threshold=spec.threshold), evaluation], log_interval=interval)
    except ValueError as error:
        (folder / "console.txt").write_text(f"Traceback (most recent call last):\nValueError: {str(error).splitlines()[0]}\n")
    venv.close()


def _envs(spec: Spec, fault: EnvFault, count: int, seed: int, folder: Path | None) -> Any:
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    limit = max(4, round(families.world(spec.world).limit * spec.what.limit))

    def make(place: int) -> Any:
        env = gym_worlds.make(spec.world, fault, limit, seed + place)
        env.reset(seed=seed + place)
        keys = ("is_success",) if families.world(spec.world).success else ()
        return Monitor(env, None if folder is None else str(folder / str(place)), info_keywords=keys)

    venv = DummyVecEnv([partial(make, place) for place in range(count)])
    venv.seed(seed)
    return venv


def _network(net: Any) -> dict[str, Any]:
    import torch
    from torch import nn

    activations = {"sigmoid": nn.Sigmoid, "relu": nn.ReLU}
    found: dict[str, Any] = {key: value for key, value in net.items() if key == "log_std_init"}
    if "activation" in net:
        found["activation_fn"] = activations[net["activation"]]
    if "net_arch" in net:
        found["net_arch"] = list(net["net_arch"])
    if net.get("optimizer") == "sgd":
        found["optimizer_class"] = torch.optim.SGD
    return found


def record(job: tuple[Spec, int]) -> Any:
    """(what it is, both views of one run, seconds), or why there are none."""
    spec, seed = job
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(dir="/dev/shm")) / spec.name
    folder.mkdir()
    try:
        train(spec, seed, folder)
        plain, full = sb3_corpus.read(folder)
        return spec.name, seed, (plain, full), time.monotonic() - started
    except Exception:  # noqa: BLE001 - one run that fails is reported, the others go on
        return spec.name, seed, traceback.format_exc(), time.monotonic() - started
    finally:
        shutil.rmtree(folder.parent, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", default="fit,held_out,reserve")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3_000.0, help="runs that have not ended by then are left out")
    parser.add_argument("--only", default="", help="part of cells' names")
    parser.add_argument("--share", type=float, default=1.0, help="share of every budget, to try it out")
    asked = parser.parse_args()
    for algo, base in BASES.items():
        BASES[algo] = replace(base, budget=int(base.budget * asked.share))
    specs = [spec for part in asked.parts.split(",") for spec in all_specs(part) if asked.only in spec.name]
    # The slowest first: SAC and DQN learn at every few steps.
    order = {"sac": 0, "dqn": 1, "ppo": 2, "a2c": 3}
    jobs = sorted(((spec, seed) for spec in specs for seed in SEEDS), key=lambda job: (order[job[0].algo], "epochs" not in job[0].name))
    print(len(specs), "cells,", len(jobs), "runs", flush=True)
    views: dict[str, dict[int, Any]] = {}
    started = time.monotonic()
    with multiprocessing.get_context("fork").Pool(asked.processes) as pool:
        results = pool.imap_unordered(record, jobs)
        for _ in jobs:
            try:
                name, seed, found, spent = results.next(timeout=max(1.0, asked.seconds - (time.monotonic() - started)))
            except multiprocessing.TimeoutError:
                print("out of time", flush=True)
                break
            print(
                f"{time.monotonic() - started:6.0f} s {spent:6.1f} s {name} {seed}" + (f"\n{found}" if isinstance(found, str) else ""),
                flush=True,
            )
            if not isinstance(found, str):
                views.setdefault(name, {})[seed] = found
        pool.terminate()
    asked.out.mkdir(parents=True, exist_ok=True)
    for part in asked.parts.split(","):
        entries = [entry for spec in specs if spec.part == part and spec.name in views for entry in _entries(spec, views[spec.name])]
        path = asked.out / f"sb3_{part}.npz"
        print(f"{path}: {packing.save(path, entries, rows=ROWS) / 1e6:.2f} MB, {len(entries) // 2} cells", flush=True)


def _entries(spec: Spec, runs: dict[int, Any]) -> list[packing.Entry]:
    made = []
    for place, view in enumerate(("plain", "sentinels")):
        histories = tuple(replace(runs[seed][place], id=f"{spec.name}-s{seed}") for seed in sorted(runs))
        origin = {name: [series.name, series.estimator] for run in histories for name, series in run.series.items()}
        about = {**spec.about(), "view": view, "origin": origin, "tails": [run.log_tail for run in histories]}
        json.dumps(about)
        made.append(packing.Entry(about, histories))
    return made


if __name__ == "__main__":
    main()
