"""Train the groups of an outside look with Stable-Baselines3, as a user's script would; what is there already is left alone.

python -m benchmarks.diagnosis.outside.train FOLDER --part first [--only WORDS] [--seconds N]
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.diagnosis.outside.cases import DEFAULTS, PARTS, STEPS, Case
from benchmarks.diagnosis.outside.planted import Faulty

ENVS_OF = {"ppo": 8, "a2c": 8, "dqn": 1, "sac": 1, "td3": 1}


def _train(case: Case, seed: int, folder: Path) -> dict[str, Any]:
    import stable_baselines3 as sb3
    from stable_baselines3.common import logger
    from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    from rlclinic.sentinels.sb3 import SentinelCallback

    sound: list[tuple[int, float]] = []

    class Truth(BaseCallback):
        def _on_step(self) -> bool:
            ended = [info["sound_return"] for info in self.locals["infos"] if "sound_return" in info]
            sound.extend((self.num_timesteps, float(value)) for value in ended)
            return True

    random_seed = 0 if case.fault == "seeds-equal" else seed
    env: Any = make_vec_env(
        lambda: Faulty(case.env, case.env_fault, case.size), ENVS_OF[case.algo], seed=random_seed, monitor_dir=str(folder)
    )
    if case.normalize:
        env = VecNormalize(env)
    settings = {
        "policy_kwargs": {"net_arch": [64, 64] if case.algo in ("ppo", "a2c", "dqn") else [48, 48]},
        **DEFAULTS[case.algo],
        **case.settings,
    }
    model: Any = getattr(sb3, case.algo.upper())("MlpPolicy", env, seed=random_seed, device="cpu", **settings)
    model.set_logger(logger.configure(str(folder), ["csv"]))
    callbacks: list[Any] = [Truth(), SentinelCallback()]
    if case.evaluate:
        other = Faulty(
            case.env, "act-sometimes" if case.fault == "eval-other" else None if case.fault == "same-start" else case.env_fault, case.size
        )
        judged: Any = DummyVecEnv([lambda: Monitor(other)])
        judged.seed(1_000 + seed)
        if case.normalize:
            # A normalizer of its own that has seen nothing: the usual slip.
            judged = VecNormalize(judged, training=False, norm_reward=False)
        if case.normalize and case.fault != "eval-raw":
            judged.obs_rms = env.obs_rms
        every = (case.env_steps or STEPS[case.algo]) // 10 // ENVS_OF[case.algo]
        callbacks.insert(0, EvalCallback(judged, log_path=str(folder), eval_freq=every, n_eval_episodes=5, deterministic=True, verbose=0))
    model.learn(case.env_steps or STEPS[case.algo], callback=callbacks, log_interval={"ppo": 1, "a2c": 25}.get(case.algo, 10))
    steps = case.env_steps or STEPS[case.algo]
    late = [value for at, value in sound if at > 0.8 * steps]
    early = [value for at, value in sound if at <= 0.1 * steps]
    return {"late": float(np.mean(late)) if late else None, "early": float(np.mean(early)) if early else None, "episodes": len(sound)}


def _strip(folder: Path, plain: Path) -> None:
    """The same log without the callback: its columns and its sentinels.json taken out."""
    import csv
    import shutil

    plain.mkdir(parents=True)
    for path in folder.iterdir():
        if path.name == "progress.csv":
            rows = list(csv.reader(path.open()))
            kept = (
                [i for i, name in enumerate(rows[0]) if not name.startswith(("train/sentinel/", "train/hp/", "train/metrics/"))]
                if rows
                else []
            )
            with (plain / path.name).open("w", newline="") as out:
                csv.writer(out).writerows([[row[i] for i in kept] for row in rows])
        elif path.name != "sentinels.json":
            shutil.copy(path, plain / path.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", default="first")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1_100)
    parser.add_argument("--share", default="0/1", help="which share of the groups: 0/2 and 1/2 side by side")
    args = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    began, (mine, of) = time.monotonic(), map(int, args.share.split("/"))
    for index, case in enumerate(PARTS[args.part]):
        if index % of != mine or args.only not in case.name:
            continue
        for seed in (0, 1):
            truth = args.folder / "truth" / f"{case.name}-{seed}.json"
            if truth.exists():
                continue
            if time.monotonic() - began > args.seconds:
                return
            folder, plain = (args.folder / kind / case.name / f"seed_{seed}" for kind in ("callback", "plain"))
            for old in (folder, plain):
                if old.exists():
                    import shutil

                    shutil.rmtree(old)
            folder.mkdir(parents=True)
            start = time.process_time()
            outcome = _train(case, seed, folder)
            _strip(folder, plain)
            outcome["cpu_seconds"] = round(time.process_time() - start, 2)
            truth.parent.mkdir(exist_ok=True)
            truth.write_text(json.dumps(outcome))
            print(case.name, seed, outcome, flush=True)


if __name__ == "__main__":
    main()
