"""Filling SB3's replay buffer by hand with a scripted controller's steps, then training on them without an environment step."""

import gymnasium as gym
import numpy as np
from stable_baselines3 import TD3
from stable_baselines3.common.logger import configure


def controller(obs, rng):
    """Swing up by pumping energy, and add noise."""
    cos, sin, speed = obs
    torque = -2.0 * np.sign(speed) if cos < 0.9 else -(8.0 * sin + 2.0 * speed)
    return np.clip([torque + rng.normal(0, 0.5)], -2.0, 2.0).astype(np.float32)


rng = np.random.default_rng(0)
env = gym.make("Pendulum-v1")
# learning_starts matters to learn() alone, which is never called here; the buffer holds exactly the recorded data
model = TD3("MlpPolicy", env, buffer_size=600, learning_starts=0, batch_size=64, tau=0.01, policy_kwargs={"net_arch": [64, 64]})
model.set_logger(configure(None, []))

obs, _ = env.reset(seed=0)
for _ in range(600):
    action = controller(obs, rng)
    next_obs, reward, terminated, truncated, info = env.step(action)
    # SB3 wants done for both ends, actions in [-1, 1], and is told of the time limit through info: it then bootstraps
    model.replay_buffer.add(
        obs[None],
        next_obs[None],
        model.policy.scale_action(action)[None],
        np.array([reward]),
        np.array([terminated or truncated]),
        [{**info, "TimeLimit.truncated": truncated and not terminated}],
    )
    obs = env.reset()[0] if terminated or truncated else next_obs

model.train(gradient_steps=40, batch_size=64)
action, _ = model.predict(obs, deterministic=True)
print("torque", action)
