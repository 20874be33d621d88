# mountain car with DQN: frame skip, a progress bonus, stacked observations and a callback that watches the goal
import sys

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor


class RepeatAction(gym.Wrapper):
    def __init__(self, env, times=4):
        super().__init__(env)
        self.times = times

    def step(self, action):
        total = 0.0
        for _ in range(self.times):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += reward
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


class ProgressBonus(gym.Wrapper):
    """Adds the difference of a potential (Ng et al. 1999), which leaves the best policy as it was."""

    def __init__(self, env, gamma, scale=100.0):
        super().__init__(env)
        self.gamma, self.scale = gamma, scale
        self.last_potential = 0.0

    def potential(self, obs):
        position, velocity = obs
        return self.scale * (0.0025 * np.sin(3 * position) + 0.5 * velocity**2)

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        self.last_potential = self.potential(obs)
        return obs, info

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        potential = 0.0 if terminated else self.potential(obs)
        shaped = reward + self.gamma * potential - self.last_potential
        self.last_potential = potential
        return obs, float(shaped), terminated, truncated, info


class StackLast(gym.Wrapper):
    def __init__(self, env, k=2):
        super().__init__(env)
        self.k = k
        low = np.tile(env.observation_space.low, k)
        high = np.tile(env.observation_space.high, k)
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self.frames = []

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        self.frames = [obs] * self.k
        return np.concatenate(self.frames), info

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.frames = self.frames[1:] + [obs]
        return np.concatenate(self.frames), reward, terminated, truncated, info


class GoalCounter(BaseCallback):
    """Counts the episodes that reached the flag, and stops once the last hundred nearly all did."""

    def __init__(self, verbose=0):
        super().__init__(verbose)
        self.outcomes = []

    def _on_step(self) -> bool:
        for done, info in zip(self.locals["dones"], self.locals["infos"]):
            if done:
                self.outcomes.append(not info.get("TimeLimit.truncated", False))
        recent = self.outcomes[-100:]
        if len(recent) == 100:
            self.logger.record("rollout/reached_flag", np.mean(recent))
        return not (len(recent) == 100 and np.mean(recent) >= 0.98)


GAMMA = 0.99


def make_env(shaped: bool, seed: int) -> gym.Env:
    env = gym.make("MountainCar-v0")
    env = Monitor(env)  # inside the bonus: episode returns are the true ones
    env = RepeatAction(env, times=4)
    if shaped:
        env = ProgressBonus(env, gamma=GAMMA)
    env = StackLast(env, k=2)
    env.reset(seed=seed)
    env.action_space.seed(seed)
    return env


if __name__ == "__main__":
    budget = int(sys.argv[1]) if len(sys.argv) > 1 else 120_000
    train_env = make_env(shaped=True, seed=0)
    eval_env = make_env(shaped=False, seed=1)

    evaluation = EvalCallback(eval_env, eval_freq=5_000, n_eval_episodes=10, deterministic=True, verbose=0)
    goals = GoalCounter()

    model = DQN(
        "MlpPolicy",
        train_env,
        learning_rate=5e-4,
        buffer_size=50_000,
        learning_starts=1_000,
        batch_size=128,
        gamma=GAMMA,
        train_freq=4,
        gradient_steps=2,
        target_update_interval=600,
        exploration_fraction=0.3,
        exploration_initial_eps=1.0,
        exploration_final_eps=0.05,
        policy_kwargs={"net_arch": [256, 256], "activation_fn": th.nn.ReLU},
        seed=0,
        device="cpu",
    )
    model.learn(total_timesteps=budget, callback=CallbackList([goals, evaluation]))

    mean, std = evaluate_policy(model, eval_env, n_eval_episodes=20, deterministic=True)
    print(f"true return over 20 episodes: {mean:.1f} +- {std:.1f}; reached the flag {sum(goals.outcomes)} times while training")

    obs, _ = eval_env.reset(seed=77)
    over = False
    steps = 0
    while not over:
        action, _ = model.predict(obs, deterministic=True)
        obs, _, terminated, truncated, _ = eval_env.step(int(action))
        over = terminated or truncated
        steps += 1
    print("one more drive took", steps, "decisions")
