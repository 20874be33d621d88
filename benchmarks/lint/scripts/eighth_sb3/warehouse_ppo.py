"""PPO on my own warehouse robot environment, with normalized observations and rewards."""
import argparse
import os

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize


class WarehouseEnv(gym.Env):
    """A robot on an n x n floor fetches a box and brings it to the dock in the corner."""

    metadata = {"render_modes": ["ansi"], "render_fps": 4}

    def __init__(self, size=6, max_steps=80, render_mode=None):
        super().__init__()
        self.size = size
        self.max_steps = max_steps
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(4)
        # robot, box, dock (all as cells), and whether the box is carried
        self.observation_space = spaces.Box(low=0.0, high=float(size), shape=(7,), dtype=np.float32)
        self.dock = np.array([size - 1, size - 1])
        self.elapsed = 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.robot = self.np_random.integers(0, self.size, size=2)
        self.box = self.np_random.integers(0, self.size - 1, size=2)
        self.carrying = False
        self.elapsed = 0
        return self._get_obs(), {}

    def _get_obs(self):
        return np.concatenate([self.robot, self.box, self.dock, [float(self.carrying)]]).astype(np.float32)

    def step(self, action):
        before = self._distance()
        move = np.array([(0, 1), (0, -1), (1, 0), (-1, 0)][int(action)])
        self.robot = np.clip(self.robot + move, 0, self.size - 1)
        if self.carrying:
            self.box = self.robot.copy()
        reward = 0.1 * (before - self._distance()) - 0.01
        if not self.carrying and np.array_equal(self.robot, self.box):
            self.carrying = True
            reward += 0.5
        delivered = self.carrying and np.array_equal(self.robot, self.dock)
        if delivered:
            reward += 1.0
        self.elapsed += 1
        terminated = bool(delivered)
        truncated = self.elapsed >= self.max_steps
        return self._get_obs(), float(reward), terminated, truncated, {"is_success": terminated}

    def _distance(self):
        goal = self.dock if self.carrying else self.box
        return int(np.abs(self.robot - goal).sum())

    def render(self):
        rows = [["." for _ in range(self.size)] for _ in range(self.size)]
        rows[self.box[1]][self.box[0]] = "b"
        rows[self.robot[1]][self.robot[0]] = "R"
        return "\n".join("".join(row) for row in rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--timesteps", type=int, default=300_000)
    parser.add_argument("--log-dir", default="logs/warehouse")
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    os.makedirs(args.log_dir, exist_ok=True)

    check_env(WarehouseEnv())

    train_env = make_vec_env(WarehouseEnv, n_envs=8, seed=args.seed)
    train_env = VecNormalize(train_env, norm_obs=True, norm_reward=True, gamma=0.98)
    eval_env = make_vec_env(WarehouseEnv, n_envs=1, seed=args.seed + 1000)
    eval_env = VecNormalize(eval_env, norm_obs=True, norm_reward=False, training=False)

    eval_callback = EvalCallback(
        eval_env,
        best_model_save_path=args.log_dir,
        log_path=args.log_dir,
        eval_freq=max(10_000 // train_env.num_envs, 1),
        n_eval_episodes=20,
        deterministic=True,
        verbose=0,
    )

    model = PPO(
        "MlpPolicy",
        train_env,
        learning_rate=3e-4,
        n_steps=256,
        batch_size=256,
        n_epochs=10,
        gamma=0.98,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.01,
        policy_kwargs=dict(net_arch=dict(pi=[64, 64], vf=[64, 64])),
        seed=args.seed,
        device="cpu",
        verbose=0,
    )
    model.learn(total_timesteps=args.timesteps, callback=eval_callback)
    model.save(os.path.join(args.log_dir, "final_model"))
    train_env.save(os.path.join(args.log_dir, "vecnormalize.pkl"))

    # load everything again, as one would in another process
    test_env = DummyVecEnv([lambda: WarehouseEnv()])
    test_env = VecNormalize.load(os.path.join(args.log_dir, "vecnormalize.pkl"), test_env)
    test_env.training = False
    test_env.norm_reward = False
    model = PPO.load(os.path.join(args.log_dir, "final_model"), env=test_env, device="cpu")
    mean_reward, std_reward = evaluate_policy(model, test_env, n_eval_episodes=50, deterministic=True, warn=False)
    print(f"mean_reward = {mean_reward:.2f} +/- {std_reward:.2f}")


if __name__ == "__main__":
    main()
