"""Steps-to-threshold of Stable-Baselines3's DQN, SAC and TD3 with rl-zoo3's settings: the reference side of off_policy_steps.py.

Protocol: every `every` env steps, 20 greedy episodes from fixed start states (reset seeds 10_000 …) on a separate env;
steps-to-threshold is the env step of the first evaluation whose mean return is at or above the threshold; a run that does not get
there within the zoo's budget is censored (null). Training stops at the threshold: later steps do not matter here.
Env steps do not depend on a machine's speed, so this is computed once; but processors differ in the last bits, so a single seed's
curve may come out differently elsewhere. It is saved after every run, and goes on where it stopped.

Run it (`python -m benchmarks.sb3.off_policy_steps`) in an interpreter that has stable-baselines3 and gymnasium[box2d]; it imports nothing
of rlclinic.
"""

from pathlib import Path
from typing import Any

from benchmarks.sb3 import runs

DEFAULT_OUT = Path(__file__).parent.parent / "baselines" / "sb3-off-policy-steps-to-threshold.json"

# rl-zoo3's tuned settings. `noise`: standard deviation of Gaussian action noise; `net`: hidden layers; `policy`: other policy_kwargs.
SETTINGS: dict[str, dict[str, Any]] = {
    "CartPole-v1:dqn": {
        "threshold": 475, "every": 2_000, "budget": 50_000, "net": [256, 256],
        "hp": {"learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1_000, "gamma": 0.99,
               "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16,
               "exploration_final_eps": 0.04},
    },
    "Pendulum-v1:sac": {"threshold": -200, "every": 1_000, "budget": 20_000, "hp": {"learning_rate": 1e-3}},
    "Pendulum-v1:td3": {
        "threshold": -200, "every": 1_000, "budget": 20_000, "net": [400, 300], "noise": 0.1,
        "hp": {"gamma": 0.98, "buffer_size": 200_000, "learning_starts": 10_000, "gradient_steps": 1, "train_freq": 1,
               "learning_rate": 1e-3},
    },
    "LunarLander-v3:dqn": {
        "threshold": 200, "every": 5_000, "budget": 100_000, "net": [256, 256],
        "hp": {"learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50_000, "learning_starts": 0, "gamma": 0.99,
               "target_update_interval": 250, "train_freq": 4, "gradient_steps": -1, "exploration_fraction": 0.12,
               "exploration_final_eps": 0.1},
    },
    "MountainCar-v0:dqn": {
        "threshold": -110, "every": 5_000, "budget": 120_000, "net": [256, 256],
        "hp": {"learning_rate": 4e-3, "batch_size": 128, "buffer_size": 10_000, "learning_starts": 1_000, "gamma": 0.98,
               "target_update_interval": 600, "train_freq": 16, "gradient_steps": 8, "exploration_fraction": 0.2,
               "exploration_final_eps": 0.07},
    },
    "MountainCarContinuous-v0:sac": {
        "threshold": 90, "every": 1_000, "budget": 50_000, "net": [64, 64], "policy": {"log_std_init": -3.67},
        "hp": {"learning_rate": 3e-4, "buffer_size": 50_000, "batch_size": 512, "ent_coef": 0.1, "train_freq": 32, "gradient_steps": 32,
               "gamma": 0.9999, "tau": 0.01, "learning_starts": 0, "use_sde": True},
    },
}  # fmt: skip


def make_model(task: str, env: Any, seed: int) -> Any:
    """SB3's model of a task with the zoo's settings."""
    import numpy as np
    import stable_baselines3
    from stable_baselines3.common.noise import NormalActionNoise

    settings = SETTINGS[task]
    algorithm = getattr(stable_baselines3, task.rpartition(":")[2].upper())
    policy = dict(settings.get("policy", {}))
    if "net" in settings:
        policy["net_arch"] = settings["net"]
    hp = dict(settings["hp"])
    if "noise" in settings:
        size = env.action_space.shape[-1]
        hp["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, settings["noise"]))
    return algorithm("MlpPolicy", env, seed=seed, device="cpu", policy_kwargs=policy or None, **hp)


def train(job: tuple[str, int]) -> runs.Run:
    """One seed of a task."""
    import torch
    from stable_baselines3.common.env_util import make_vec_env

    task, seed = job
    torch.set_num_threads(1)
    env_id = task.rpartition(":")[0]
    model = make_model(task, make_vec_env(env_id, 1, seed=1000 * seed), seed)
    return {"task": task, "seed": seed, **runs.to_threshold(model, env_id, SETTINGS[task])}


if __name__ == "__main__":
    runs.seeds_to_threshold(__doc__, train, "task", SETTINGS, DEFAULT_OUT, (100, 105), 1)
