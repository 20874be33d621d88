import gymnasium as gym
import numpy as np
from stable_baselines3 import SAC
from stable_baselines3.common.monitor import Monitor

train_env = Monitor(gym.make("Pendulum-v1"))
eval_env = Monitor(gym.make("Pendulum-v1"))
model = SAC("MlpPolicy", train_env, learning_rate=1e-3, buffer_size=200_000, learning_starts=100, batch_size=256, tau=0.005, gamma=0.98, train_freq=1, gradient_steps=1, seed=3)
model.learn(total_timesteps=20_000, log_interval=10)
model.save("sac_pendulum")

del model
model = SAC.load("sac_pendulum")
returns = []
for episode in range(10):
    obs, _ = eval_env.reset(seed=episode)
    total, over = 0.0, False
    while not over:
        action, _ = model.predict(obs, deterministic=True)
        obs, reward, terminated, truncated, _ = eval_env.step(action)
        total += float(reward)
        over = terminated or truncated
    returns.append(total)
print(np.mean(returns))
