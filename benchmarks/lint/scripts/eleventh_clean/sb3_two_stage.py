# PPO trained on an easy lander first (no wind), then on the real one. The second stage keeps the weights and lowers the step size.
import sys

import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000


def lander(wind):
    return make_vec_env("LunarLander-v3", n_envs=8, seed=4, env_kwargs={"enable_wind": wind, "wind_power": 12.0})


if __name__ == "__main__":
    windy = Monitor(gym.make("LunarLander-v3", enable_wind=True, wind_power=12.0))
    first = PPO("MlpPolicy", lander(False), n_steps=512, batch_size=256, n_epochs=6, gamma=0.998, gae_lambda=0.98, ent_coef=0.01, seed=4)
    first.learn(steps)
    print("calm only, in the wind:", evaluate_policy(first, windy, n_eval_episodes=10))
    first.save("calm")
    second = PPO.load("calm", env=lander(True), learning_rate=1e-4, ent_coef=0.0)
    second.learn(steps, reset_num_timesteps=True)
    print("with wind:", evaluate_policy(second, windy, n_eval_episodes=10))
