import argparse

import gymnasium as gym
from stable_baselines3 import SAC
from stable_baselines3.common.monitor import Monitor

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200_000)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

model = SAC("MlpPolicy", Monitor(gym.make("Pendulum-v1")), learning_rate=3e-4, buffer_size=1_000_000, learning_starts=5_000, ent_coef="auto", seed=args.seed)
for part in range(4):
    model.learn(args.steps // 4, reset_num_timesteps=False)
    model.save(f"sac_{part}")
    model.save_replay_buffer("sac_buffer")
