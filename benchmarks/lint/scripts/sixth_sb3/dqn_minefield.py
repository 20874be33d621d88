import os
import sys

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import EvalCallback, StopTrainingOnRewardThreshold
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

BUDGET = int(os.environ.get("BUDGET", 100_000))
SIZE = 7


class Minefield(gym.Env):
    """Cross a grid without stepping on a mine. The agent sees its place and the eight cells around it."""

    def __init__(self, size=SIZE, n_mines=5):
        self.size = size
        self.n_mines = n_mines
        self.observation_space = spaces.Box(low=-1.0, high=1.0, shape=(10,), dtype=np.float32)
        self.action_space = spaces.Discrete(4)
        self._delta = ((-1, 0), (1, 0), (0, -1), (0, 1))

    def _observe(self):
        row, col = self.pos
        around = []
        for dr in (-1, 0, 1):
            for dc in (-1, 0, 1):
                if dr or dc:
                    around.append(1.0 if (row + dr, col + dc) in self.mines else 0.0)
        where = [2 * row / (self.size - 1) - 1, 2 * col / (self.size - 1) - 1]
        return np.array(where + around, dtype=np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.pos = (0, 0)
        cells = [(r, c) for r in range(self.size) for c in range(self.size) if 1 < r + c < 2 * (self.size - 1) - 1]
        picked = self.np_random.choice(len(cells), size=self.n_mines, replace=False)
        self.mines = {cells[i] for i in picked}
        return self._observe(), {}

    def step(self, action):
        dr, dc = self._delta[int(action)]
        row = min(max(self.pos[0] + dr, 0), self.size - 1)
        col = min(max(self.pos[1] + dc, 0), self.size - 1)
        self.pos = (row, col)
        hit = self.pos in self.mines
        home = self.pos == (self.size - 1, self.size - 1)
        reward = 1.0 if home else -1.0 if hit else -0.01
        terminated = hit or home
        return self._observe(), reward, terminated, False, {"is_success": home}


class StepsLeft(gym.ObservationWrapper):
    """Appends which share of the time is left, so that the limit is no surprise."""

    def __init__(self, env, limit):
        super().__init__(env)
        self.limit = limit
        self.elapsed = 0
        space = env.observation_space
        self.observation_space = spaces.Box(np.append(space.low, -1.0).astype(np.float32), np.append(space.high, 1.0).astype(np.float32))

    def reset(self, **kwargs):
        self.elapsed = 0
        return super().reset(**kwargs)

    def step(self, action):
        self.elapsed += 1
        return super().step(action)

    def observation(self, observation):
        return np.append(observation, 1.0 - 2.0 * self.elapsed / self.limit).astype(np.float32)


def build(limit=50):
    env = Minefield()
    env = TimeLimit(env, max_episode_steps=limit)
    env = StepsLeft(env, limit)
    return Monitor(env, info_keywords=("is_success",))


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    env, eval_env = build(), build()
    stop = StopTrainingOnRewardThreshold(reward_threshold=0.9, verbose=1)
    callback = EvalCallback(eval_env, callback_on_new_best=stop, eval_freq=5_000, n_eval_episodes=20, deterministic=True)
    model = DQN(
        "MlpPolicy",
        env,
        learning_rate=5e-4,
        buffer_size=50_000,
        learning_starts=1_000,
        batch_size=64,
        gamma=0.97,
        train_freq=4,
        gradient_steps=1,
        target_update_interval=1_000,
        exploration_fraction=0.3,
        exploration_initial_eps=1.0,
        exploration_final_eps=0.05,
        policy_kwargs=dict(net_arch=[128, 128]),
        seed=seed,
    )
    model.learn(total_timesteps=BUDGET, callback=callback, log_interval=100)
    model.save("dqn_minefield")
    del model

    model = DQN.load("dqn_minefield")
    fresh = build()
    fresh.reset(seed=4_321)
    mean, std = evaluate_policy(model, fresh, n_eval_episodes=50, deterministic=True)
    print(f"mean return {mean:.2f} +/- {std:.2f}")

    wins = 0
    for i in range(20):
        obs, info = fresh.reset(seed=i)
        done = False
        while not done:
            action, _ = model.predict(obs, deterministic=True)
            obs, reward, terminated, truncated, info = fresh.step(int(action))
            done = terminated or truncated
        wins += info["is_success"]
    print(f"{wins} of 20 won")


if __name__ == "__main__":
    main()
