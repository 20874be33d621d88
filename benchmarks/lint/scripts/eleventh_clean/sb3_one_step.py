"""Pricing as a one-step problem for PPO: every episode is a single step, so the discount has nothing to discount and is zero."""
import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy


class Shop(gym.Env):
    observation_space = gym.spaces.Box(0.0, 1.0, (3,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.customer = self.np_random.random(3, dtype=np.float32)
        return self.customer, {}

    def step(self, action):
        price = 0.5 * (float(action[0]) + 1.0)
        willing = 0.2 + 0.6 * self.customer[0]
        bought = self.np_random.random() < 1.0 / (1.0 + np.exp(20.0 * (price - willing)))
        return self.customer, float(price * bought), True, False, {}


if __name__ == "__main__":
    shops, other_shops = make_vec_env(Shop, 8, seed=0), make_vec_env(Shop, 1, seed=100)
    model = PPO("MlpPolicy", shops, n_steps=64, batch_size=128, gamma=0.0, gae_lambda=1.0, learning_rate=1e-3, ent_coef=1e-3, seed=0)
    print("before", evaluate_policy(model, other_shops, n_eval_episodes=500))
    model.learn(60_000)
    print("after", evaluate_policy(model, other_shops, n_eval_episodes=500))
