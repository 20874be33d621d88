#!/usr/bin/env python
"""Several seeds of PPO and DQN on one task, with a table at the end."""
import argparse
import statistics
from dataclasses import dataclass

import gymnasium as gym
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor


@dataclass(frozen=True)
class Job:
    name: str
    algo: type
    kwargs: dict


JOBS = [
    Job("ppo", PPO, dict(n_steps=1024, batch_size=64, n_epochs=10, gae_lambda=0.98, gamma=0.99, ent_coef=0.0, learning_rate=3e-4)),
    Job("dqn", DQN, dict(learning_rate=1e-3, buffer_size=50_000, learning_starts=1_000, batch_size=64, gamma=0.99,
                         target_update_interval=500, train_freq=4, exploration_fraction=0.2, exploration_final_eps=0.05)),
]


def run(job: Job, env_id: str, seed: int, budget: int) -> float:
    env = Monitor(gym.make(env_id))
    model = job.algo("MlpPolicy", env, seed=seed, device="cpu", **job.kwargs)
    model.learn(total_timesteps=budget)
    env.close()

    judge = Monitor(gym.make(env_id))
    judge.reset(seed=90_000 + seed)
    mean, _ = evaluate_policy(model, judge, n_eval_episodes=20, deterministic=True)
    judge.close()
    return float(mean)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=50_000)
    ns = parser.parse_args(argv)
    print(f"{'algo':6s} {'median':>8s} {'lowest':>8s} {'highest':>8s}")
    for job in JOBS:
        scores = [run(job, ns.env, seed, ns.budget) for seed in range(ns.seeds)]
        print(f"{job.name:6s} {statistics.median(scores):8.1f} {min(scores):8.1f} {max(scores):8.1f}")


if __name__ == "__main__":
    main()
