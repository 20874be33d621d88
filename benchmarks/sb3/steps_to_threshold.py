"""Steps-to-threshold of Stable-Baselines3's PPO with rl-zoo3's settings: the reference side of steps_to_threshold.py.

Protocol: every `every` env steps, 20 greedy episodes from fixed start states (reset seeds 10_000 …) on a separate env;
steps-to-threshold is the env step of the first evaluation whose mean return is at or above the threshold; a run that does not get
there within the zoo's budget is censored (null). Training stops at the threshold: later steps do not matter here.
Env steps do not depend on a machine's speed, so this is computed once; but processors differ in the last bits, so a single seed's
curve may come out differently elsewhere. It is saved after every run, and goes on where it stopped.

Run it (`python -m benchmarks.sb3.steps_to_threshold`) in an interpreter that has stable-baselines3 and gymnasium[box2d]; it imports
nothing of rlclinic.
"""

from pathlib import Path
from typing import Any

from benchmarks.sb3 import runs

DEFAULT_OUT = Path(__file__).parent.parent / "baselines" / "sb3-ppo-steps-to-threshold.json"

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


def train(job: tuple[str, int]) -> runs.Run:
    """One seed of an environment."""
    import torch
    from stable_baselines3 import PPO

    env_id, seed = job
    torch.set_num_threads(1)
    model = PPO("MlpPolicy", training_env(env_id, seed), seed=seed, device="cpu", **hyperparameters(env_id))
    return {"env": env_id, "seed": seed, **runs.to_threshold(model, env_id, SETTINGS[env_id])}


if __name__ == "__main__":
    runs.seeds_to_threshold(__doc__, train, "env", SETTINGS, DEFAULT_OUT, (100, 110), 2)
