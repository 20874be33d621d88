import os
from typing import Optional

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

TOTAL = int(os.environ.get("TOTAL", 60_000))


class WarehouseEnv(gym.Env):
    """A robot fetches a parcel and carries it to the dock on a small grid."""

    metadata = {"render_modes": []}
    MOVES = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])

    def __init__(self, size: int = 6, max_steps: int = 60):
        super().__init__()
        self.size = size
        self.max_steps = max_steps
        self.action_space = spaces.Discrete(4)
        self.observation_space = spaces.Box(0.0, 1.0, shape=(7,), dtype=np.float32)
        self.dock = np.array([0, 0])
        self.t = 0

    def _obs(self):
        xy = np.concatenate([self.robot, self.parcel, self.dock]) / (self.size - 1)
        return np.append(xy, float(self.loaded)).astype(np.float32)

    def reset(self, *, seed: Optional[int] = None, options=None):
        super().reset(seed=seed)
        self.robot = self.np_random.integers(0, self.size, size=2)
        self.parcel = self.np_random.integers(1, self.size, size=2)
        self.loaded = False
        self.t = 0
        return self._obs(), {}

    def step(self, action):
        self.t += 1
        self.robot = np.clip(self.robot + self.MOVES[int(action)], 0, self.size - 1)
        reward = -0.02
        terminated = False
        if not self.loaded and np.array_equal(self.robot, self.parcel):
            self.loaded = True
            reward += 0.5
        if self.loaded:
            self.parcel = self.robot.copy()
            if np.array_equal(self.robot, self.dock):
                reward += 1.0
                terminated = True
        truncated = self.t >= self.max_steps
        info = {"is_success": terminated}
        return self._obs(), reward, terminated, truncated, info


class StopWhenSolved(BaseCallback):
    """Stops training once the evaluation success rate is high enough."""

    def __init__(self, threshold: float = 0.98, verbose: int = 1):
        super().__init__(verbose)
        self.threshold = threshold

    def _on_step(self) -> bool:
        history = self.parent.evaluations_successes
        if history and np.mean(history[-1]) >= self.threshold:
            if self.verbose:
                print(f"solved after {self.num_timesteps} steps")
            return False
        return True


def build(seed: int) -> gym.Env:
    env = Monitor(WarehouseEnv(), info_keywords=("is_success",))
    env.reset(seed=seed)
    env.action_space.seed(seed)
    return env


def greedy_success(model, episodes: int = 50) -> float:
    env = WarehouseEnv()
    wins = 0
    for k in range(episodes):
        obs, info = env.reset(seed=5000 + k)
        done = False
        while not done:
            action, _ = model.predict(obs, deterministic=True)
            obs, _, terminated, truncated, info = env.step(action)
            done = terminated or truncated
        wins += int(info["is_success"])
    return wins / episodes


if __name__ == "__main__":
    check_env(WarehouseEnv())
    train_env = build(seed=0)
    eval_env = build(seed=100)

    model = DQN(
        policy="MlpPolicy",
        env=train_env,
        learning_rate=5e-4,
        buffer_size=50_000,
        learning_starts=min(1_000, TOTAL // 10),
        batch_size=64,
        tau=1.0,
        gamma=0.97,
        train_freq=4,
        gradient_steps=1,
        target_update_interval=1_000,
        exploration_fraction=0.3,
        exploration_initial_eps=1.0,
        exploration_final_eps=0.05,
        policy_kwargs=dict(net_arch=[128, 128]),
        seed=0,
        device="cpu",
        verbose=0,
    )
    evaluation = EvalCallback(
        eval_env,
        callback_after_eval=StopWhenSolved(),
        eval_freq=2_000,
        n_eval_episodes=20,
        best_model_save_path="warehouse_best",
        log_path="warehouse_best",  # successes are only recorded when there is a log path
        deterministic=True,
        verbose=0,
    )
    model.learn(total_timesteps=TOTAL, callback=evaluation, log_interval=100)
    model.save("warehouse_dqn")

    final = DQN.load("warehouse_dqn", device="cpu")
    mean, std = evaluate_policy(final, eval_env, n_eval_episodes=30, deterministic=True)
    print(f"return {mean:.2f} +- {std:.2f}, success {greedy_success(final):.0%}")
