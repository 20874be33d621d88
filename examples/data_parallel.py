"""One run, trained by two processes: the same numbers as with one, and where the time went.

python examples/data_parallel.py [ENV_STEPS]
"""

import sys

import rlclinic
from rlclinic.runs.record import Run


def train(ranks: int, env_steps: int) -> Run:
    """A run of PPO with so many ranks."""
    settings = {
        "env": {"id": "CartPole-v1", "n_envs": 8},
        "algo": {"name": "ppo", "n_steps": 64, "batch_size": 256, "n_epochs": 4},
        "net": {"hidden": [128, 128]},
        # This network is small: two ranks are slower than one process, and only train it because they are told to.
        "run": {"max_env_steps": env_steps, "data_parallel": ranks, "allow_slower": True},
    }
    return rlclinic.train(settings).runs[0]


def main() -> None:
    """Train twice, and compare."""
    env_steps = int(sys.argv[1]) if len(sys.argv) > 1 else 8192
    alone, together = (train(ranks, env_steps) for ranks in (1, 2))
    for column in ("train/roll/ep_rew_mean", "train/sentinel/weight_norm"):
        one, two = alone.metrics[column][-1], together.metrics[column][-1]
        print(f"{column}: {one:.4f} with one process, {two:.4f} with two ranks")
    print(f"ranks whose weights differ from rank 0's: {together.metrics['train/sentinel/ranks_differ'].max():.0f}")


if __name__ == "__main__":
    main()
