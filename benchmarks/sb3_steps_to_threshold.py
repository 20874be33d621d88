"""Steps-to-threshold of Stable-Baselines3's PPO with rl-zoo3's settings: the reference side of steps_to_threshold.py.

Protocol: every `every` env steps, 20 greedy episodes from fixed start states (reset seeds 10_000 …) on a separate env;
steps-to-threshold is the env step of the first evaluation whose mean return is at or above the threshold; a run that does not get
there within the zoo's budget is censored (null). Training stops at the threshold: later steps do not matter here.
Env steps do not depend on a machine's speed, so this is computed once; but processors differ in the last bits, so a single seed's
curve may come out differently elsewhere. It is saved after every run, and goes on where it stopped.

Run it in an interpreter that has stable-baselines3 and gymnasium[box2d]; it imports nothing of rlclinic.
"""

import argparse
import json
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

Curve = list[tuple[int, float]]

EVAL_EPISODES = 20
FIRST_EVAL_SEED = 10_000
DEFAULT_OUT = Path(__file__).parent / "baselines" / "sb3-ppo-steps-to-threshold.json"

# rl-zoo3's tuned PPO settings; ("lin", x) is a linear schedule from x to 0 over the budget.
SETTINGS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "threshold": 475, "every": 5_000, "budget": 100_000, "n_envs": 8,
        "hp": {"n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20, "ent_coef": 0.0,
               "learning_rate": ("lin", 1e-3), "clip_range": ("lin", 0.2)},
    },
    "Acrobot-v1": {
        "threshold": -100, "every": 5_000, "budget": 1_000_000, "n_envs": 16, "normalize": True,
        "hp": {"n_steps": 256, "gae_lambda": 0.94, "gamma": 0.99, "n_epochs": 4, "ent_coef": 0.0},
    },
    "Pendulum-v1": {
        "threshold": -200, "every": 5_000, "budget": 100_000, "n_envs": 4,
        "hp": {"n_steps": 1024, "gae_lambda": 0.95, "gamma": 0.9, "n_epochs": 10, "ent_coef": 0.0,
               "learning_rate": 1e-3, "clip_range": 0.2, "use_sde": True, "sde_sample_freq": 4},
    },
    "MountainCar-v0": {
        "threshold": -110, "every": 10_000, "budget": 1_000_000, "n_envs": 16, "normalize": True,
        "hp": {"n_steps": 16, "gae_lambda": 0.98, "gamma": 0.99, "n_epochs": 4, "ent_coef": 0.0},
    },
    "LunarLander-v3": {
        "threshold": 200, "every": 10_000, "budget": 1_000_000, "n_envs": 16,
        "hp": {"n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999, "n_epochs": 4, "ent_coef": 0.01},
    },
}  # fmt: skip


def hyperparameters(env_id: str) -> dict[str, Any]:
    """SB3's keyword arguments: schedules become functions of the remaining share of the budget."""

    def resolve(value: Any) -> Any:
        if isinstance(value, tuple):
            return lambda remaining, start=value[1]: remaining * start
        return value

    return {name: resolve(value) for name, value in SETTINGS[env_id]["hp"].items()}


def training_env(env_id: str, seed: int) -> Any:
    """SB3's vector env of the zoo's size, normalized where the zoo normalizes."""
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    settings = SETTINGS[env_id]
    venv = make_vec_env(env_id, settings["n_envs"], seed=1000 * seed)
    return VecNormalize(venv, gamma=settings["hp"].get("gamma", 0.99)) if settings.get("normalize") else venv


def evaluate(model: Any, venv: Any, test_env: Any) -> float:
    """Mean return of greedy episodes that start from the same states every time."""
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


def train(job: tuple[str, int]) -> tuple[str, int, int | None, Curve]:
    """Train one seed until its first evaluation at the threshold or the end of the budget."""
    import gymnasium
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback

    env_id, seed = job
    torch.set_num_threads(1)
    settings, curve = SETTINGS[env_id], []
    venv, test_env = training_env(env_id, seed), gymnasium.make(env_id)

    class StopAtThreshold(BaseCallback):
        due = settings["every"]

        def _on_step(self) -> bool:
            if self.num_timesteps < self.due:
                return True
            self.due += settings["every"]
            curve.append((self.num_timesteps, round(evaluate(self.model, venv, test_env), 2)))
            return bool(curve[-1][1] < settings["threshold"])

    start = time.monotonic()
    PPO("MlpPolicy", venv, seed=seed, device="cpu", **hyperparameters(env_id)).learn(settings["budget"], callback=StopAtThreshold())
    reached = curve[-1][0] if curve and curve[-1][1] >= settings["threshold"] else None
    print(env_id, seed, reached, curve[-1], f"{time.monotonic() - start:.0f} s", flush=True)
    return env_id, seed, reached, curve


def load(out: Path) -> dict[str, Any]:
    """What earlier calls left in `out`, or an empty record with its provenance."""
    if out.exists():
        record: dict[str, Any] = json.loads(out.read_text())
        return record
    import gymnasium
    import stable_baselines3
    import torch

    versions = {module.__name__: module.__version__ for module in (stable_baselines3, gymnasium, torch)}
    return {"versions": versions, "protocol": __doc__, "settings": SETTINGS, "runs": []}


def save(record: dict[str, Any], out: Path) -> None:
    """Replace `out` in one step, so that a killed run never leaves half a file."""
    temporary = out.with_suffix(".tmp")
    temporary.write_text(json.dumps(record))
    temporary.replace(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, default=DEFAULT_OUT, help="the JSON file to fill")
    parser.add_argument("--envs", nargs="*", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--seeds", nargs=2, type=int, default=[100, 110], metavar=("FIRST", "PAST_LAST"))
    parser.add_argument("--procs", type=int, default=2)
    args = parser.parse_args()
    record = load(args.out)
    have = {(run["env"], run["seed"]) for run in record["runs"]}
    jobs = [(env, seed) for env in args.envs for seed in range(*args.seeds) if (env, seed) not in have]
    with get_context("spawn").Pool(args.procs, maxtasksperchild=1) as pool:
        for env_id, seed, reached, curve in pool.imap_unordered(train, jobs):
            record["runs"].append({"env": env_id, "seed": seed, "steps_to_threshold": reached, "curve": curve})
            save(record, args.out)


if __name__ == "__main__":
    main()
