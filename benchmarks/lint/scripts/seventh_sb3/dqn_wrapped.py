# DQN on LunarLander-like discrete tasks with a couple of own wrappers.
import os
import sys

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium.wrappers import TimeLimit
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor


class ActionRepeat(gym.Wrapper):
    """Does an action k times and adds up what it pays."""

    def __init__(self, env, k=2):
        super().__init__(env)
        self.k = k

    def step(self, action):
        total = 0.0
        for _ in range(self.k):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


class ScaledObs(gym.ObservationWrapper):
    """Fixed scales, known beforehand for CartPole."""

    SCALE = np.array([2.4, 3.0, 0.21, 3.0], dtype=np.float32)

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, env.observation_space.shape, np.float32)

    def observation(self, observation):
        return (observation / self.SCALE).astype(np.float32)


class CentreBonus(gym.RewardWrapper):
    """Potential-free shaping would be nicer; this is just a small price for drifting."""

    def __init__(self, env, weight=0.1):
        super().__init__(env)
        self.weight = weight

    def reward(self, reward):
        x = self.unwrapped.state[0]
        return float(reward) - self.weight * abs(float(x)) / 2.4


class HeldOutScore(BaseCallback):
    def __init__(self, env, every, episodes=5, verbose=0):
        super().__init__(verbose)
        self.env, self.every, self.episodes = env, every, episodes
        self.best = -np.inf

    def _on_step(self):
        if self.num_timesteps % self.every == 0:
            mean, _ = evaluate_policy(self.model, self.env, n_eval_episodes=self.episodes, deterministic=True)
            self.logger.record("held_out/score", mean)
            if mean > self.best:
                self.best = mean
                self.model.save(os.path.join(os.environ.get("OUT", "."), "dqn_best"))
        return True


def build(shaped, seed=None):
    env = gym.make("CartPole-v1").unwrapped
    env = TimeLimit(env, max_episode_steps=500)
    if shaped:
        env = CentreBonus(env)
    env = ActionRepeat(env, k=2)
    env = ScaledObs(env)
    env = Monitor(env)
    if seed is not None:
        env.reset(seed=seed)
        env.action_space.seed(seed)
    return env


def lr_schedule(progress_remaining):
    return 1e-4 + 4e-4 * progress_remaining


def main(total_timesteps=100_000, learning_starts=1_000):
    env = build(shaped=True, seed=5)
    test_env = build(shaped=False, seed=505)

    model = DQN(
        "MlpPolicy",
        env,
        learning_rate=lr_schedule,
        buffer_size=50_000,
        learning_starts=learning_starts,
        batch_size=64,
        tau=1.0,
        gamma=0.99,
        train_freq=4,
        gradient_steps=2,
        target_update_interval=1_000,
        exploration_fraction=0.2,
        exploration_initial_eps=1.0,
        exploration_final_eps=0.04,
        max_grad_norm=10,
        policy_kwargs=dict(net_arch=[128, 128], activation_fn=th.nn.ReLU),
        seed=5,
        device="cpu",
    )
    model.learn(total_timesteps, callback=HeldOutScore(test_env, every=max(500, total_timesteps // 20)), log_interval=50)

    # play by hand, too
    obs, _ = test_env.reset(seed=99)
    total, over = 0.0, False
    while not over:
        action, _ = model.predict(obs, deterministic=True)
        obs, reward, terminated, truncated, _ = test_env.step(int(action))
        total += reward
        over = terminated or truncated
    print("one episode:", total)
    mean, std = evaluate_policy(model, test_env, n_eval_episodes=10)
    print(f"test {mean:.1f} +/- {std:.1f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(int(sys.argv[1]), learning_starts=int(sys.argv[1]) // 4)
    else:
        main()
