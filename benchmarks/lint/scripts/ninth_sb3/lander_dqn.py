import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

ENV_ID = "LunarLander-v3"
TOTAL_TIMESTEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
OUT = Path(sys.argv[2]) if len(sys.argv) > 2 else Path("runs/lander")


class RepeatAction(gym.Wrapper):
    """Hold every action for a few frames; the agent decides less often and sees the sum of the rewards."""

    def __init__(self, env, repeat=2):
        super().__init__(env)
        self.repeat = repeat

    def step(self, action):
        total, terminated, truncated, info = 0.0, False, False, {}
        for _ in range(self.repeat):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


class TimeLeft(gym.ObservationWrapper):
    """Append the share of the frames that is left, or the value of a state could not know of the limit."""

    def __init__(self, env, limit=1000):
        super().__init__(env)
        low = np.append(env.observation_space.low, 0.0).astype(np.float32)
        high = np.append(env.observation_space.high, 1.0).astype(np.float32)
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self.limit = limit
        self.frames = 0

    def reset(self, **kwargs):
        self.frames = 0
        return super().reset(**kwargs)

    def step(self, action):
        self.frames += 1
        return super().step(action)

    def observation(self, observation):
        left = 1.0 - self.frames / self.limit
        return np.append(observation, left).astype(np.float32)


class RecentReturn(BaseCallback):
    """Writes the mean return of the last episodes, and stops when it is high enough."""

    def __init__(self, good_enough=220.0, every=10_000):
        super().__init__()
        self.good_enough = good_enough
        self.every = every

    def _on_step(self) -> bool:
        if self.n_calls % self.every == 0 and len(self.model.ep_info_buffer) >= 20:
            mean = np.mean([episode["r"] for episode in self.model.ep_info_buffer])
            self.logger.record("rollout/recent_return", mean)
            return bool(mean < self.good_enough)
        return True


def wrap(env):
    return RepeatAction(TimeLeft(env), repeat=2)


def main():
    train_env = make_vec_env(ENV_ID, n_envs=1, seed=1, wrapper_class=wrap)
    eval_env = make_vec_env(ENV_ID, n_envs=1, seed=1001, wrapper_class=wrap)

    model = DQN(
        "MlpPolicy",
        train_env,
        learning_rate=6.3e-4,
        batch_size=128,
        buffer_size=50_000,
        learning_starts=1_000,
        gamma=0.99,
        target_update_interval=250,
        train_freq=4,
        gradient_steps=-1,
        exploration_fraction=0.12,
        exploration_final_eps=0.1,
        policy_kwargs=dict(net_arch=[256, 256], activation_fn=th.nn.ReLU),
        seed=1,
    )
    before, _ = evaluate_policy(model, eval_env, n_eval_episodes=3)

    evaluation = EvalCallback(
        eval_env,
        best_model_save_path=str(OUT),
        log_path=str(OUT),
        eval_freq=10_000,
        n_eval_episodes=10,
        deterministic=True,
        verbose=0,
    )
    model.learn(total_timesteps=TOTAL_TIMESTEPS, callback=CallbackList([evaluation, RecentReturn()]), log_interval=100)
    model.save(OUT / "last")

    trained = DQN.load(OUT / "last", env=eval_env)
    after, spread = evaluate_policy(trained, eval_env, n_eval_episodes=10, deterministic=True)
    print(f"untrained {before:.0f}, trained {after:.0f} +- {spread:.0f}")


if __name__ == "__main__":
    main()
