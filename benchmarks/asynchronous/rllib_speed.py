"""RLlib's IMPALA or APPO on CartPole for some seconds; prints its env steps a second. For an interpreter with ray[rllib], not for ours.

python rllib_speed.py impala 45
"""

import json
import sys
import time
from importlib import import_module
from typing import Any


def main() -> None:
    """Two env runners with four environments each, rollouts of 32 steps; the first iterations, in which processes start, do not count."""
    name, seconds = sys.argv[1], float(sys.argv[2])
    ray: Any = import_module("ray")
    config: Any = getattr(import_module(f"ray.rllib.algorithms.{name}"), f"{name.upper()}Config")()
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    config = (
        config.environment("CartPole-v1")
        .env_runners(num_env_runners=2, num_envs_per_env_runner=4, rollout_fragment_length=32)
        .training(train_batch_size_per_learner=256)
        .learners(num_learners=0)
    )
    algorithm = config.build_algo()
    total, counted, began = 0, 0, 0.0
    started = time.time()
    while time.time() - started < seconds:
        result = algorithm.train()
        total = int(result["env_runners"].get("num_env_steps_sampled_lifetime", 0))
        if not began and total:
            began, counted = time.time(), total
    spent = time.time() - began
    print(json.dumps({"env_steps_per_second": (total - counted) / max(spent, 1e-9)}))
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
