import gymnasium as gym
import numpy as np
from stable_baselines3 import TD3
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise

env = Monitor(gym.make("Pendulum-v1"))
n_actions = env.action_space.shape[-1]
noise = NormalActionNoise(mean=np.zeros(n_actions), sigma=0.1 * np.ones(n_actions))
model = TD3("MlpPolicy", env, action_noise=noise, buffer_size=200_000, learning_starts=10_000, gamma=0.98, policy_kwargs={"net_arch": [400, 300]}, seed=0)
model.learn(total_timesteps=100_000)
mean, _ = evaluate_policy(model, Monitor(gym.make("Pendulum-v1")), n_eval_episodes=10)
print(mean)
