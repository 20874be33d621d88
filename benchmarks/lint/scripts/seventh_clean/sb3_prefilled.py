"""SB3's DQN fed from a scripted controller first: the memory is full before learn(), so learning_starts=0 and little exploration are meant."""
import os
import sys

import gymnasium as gym
import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor


def scripted(obs):
    """Pushes under the falling pole: good, not perfect."""
    return int(obs[2] + 0.3 * obs[3] > 0)


def prefill(model, env, steps, rng):
    obs, _ = env.reset(seed=10)
    for _ in range(steps):
        action = scripted(obs) if rng.random() > 0.2 else int(rng.integers(2))
        next_obs, reward, terminated, truncated, info = env.step(action)
        infos = [{**info, "TimeLimit.truncated": truncated and not terminated}]
        # SB3 subtracts the time-outs itself when it is told of them: done is either end here
        model.replay_buffer.add(obs[None], next_obs[None], np.array([[action]]), np.array([reward]), np.array([terminated or truncated]), infos)
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()


if __name__ == "__main__":
    budget = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    model = DQN(
        "MlpPolicy", Monitor(gym.make("CartPole-v1")), learning_starts=0, buffer_size=50_000, batch_size=64, learning_rate=5e-4,
        exploration_initial_eps=0.1, exploration_final_eps=0.02, exploration_fraction=0.1, target_update_interval=500, seed=3, device="cpu",
    )
    prefill(model, gym.make("CartPole-v1"), min(10_000, 2 * budget), np.random.default_rng(3))
    scores = []
    for part in range(4):
        model.learn(budget // 4, reset_num_timesteps=part == 0)
        scores.append(evaluate_policy(model, Monitor(gym.make("CartPole-v1")), n_eval_episodes=5)[0])
        print(part, scores[-1])
    model.save(os.path.join(os.environ.get("OUT", "."), "prefilled"))
