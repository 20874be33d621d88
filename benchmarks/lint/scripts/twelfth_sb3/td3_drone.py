"""TD3 from stable-baselines3 on a little drone that has to be flown to a point and held there."""
import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import TD3
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise

SEED = 11
TOTAL_STEPS = 60_000
MAX_STEPS = 200
DT = 0.05


class Drone2D(gym.Env):
    """State: offset to the target (2), velocity (2). Action: thrust in x and y, in [-1, 1]. Crash beyond 3 metres."""

    def __init__(self):
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.position = np.zeros(2)
        self.velocity = np.zeros(2)
        self.target = np.zeros(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-1.0, 1.0, size=2)
        self.velocity = self.np_random.normal(0.0, 0.1, size=2)
        self.target = self.np_random.uniform(-1.0, 1.0, size=2)
        return self._observe(), {}

    def _observe(self):
        return np.concatenate([self.target - self.position, self.velocity]).astype(np.float32)

    def step(self, action):
        action = np.clip(action, -1.0, 1.0)
        wind = self.np_random.normal(0.0, 0.05, size=2)
        self.velocity = 0.98 * self.velocity + DT * (3.0 * action + wind)
        self.position = self.position + DT * self.velocity

        distance = np.linalg.norm(self.target - self.position)
        crashed = bool(np.abs(self.position).max() > 3.0)
        reward = 1.0 - distance - 0.02 * float(np.square(action).sum())
        if crashed:
            reward -= 20.0
        return self._observe(), float(reward), crashed, False, {"distance": distance}


class HoldAction(gym.Wrapper):
    """Repeat the action for a few frames; what they pay adds up."""

    def __init__(self, env, frames=2):
        super().__init__(env)
        self.frames = frames

    def step(self, action):
        total = 0.0
        for _ in range(self.frames):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += reward
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


class ScaleObservation(gym.ObservationWrapper):
    """Fixed scales: about one metre and about two metres a second."""

    SCALE = np.array([1.0, 1.0, 2.0, 2.0], dtype=np.float32)

    def observation(self, observation):
        return observation / self.SCALE


def build():
    env = Drone2D()
    env = HoldAction(env, frames=2)
    env = ScaleObservation(env)
    env = gym.wrappers.TimeLimit(env, max_episode_steps=MAX_STEPS // 2)
    return env


def main():
    train_env = make_vec_env(build, n_envs=2, seed=SEED)
    eval_env = Monitor(build())
    eval_env.reset(seed=SEED + 100)

    n_actions = train_env.action_space.shape[-1]
    noise = NormalActionNoise(mean=np.zeros(n_actions), sigma=0.15 * np.ones(n_actions))

    model = TD3(
        "MlpPolicy",
        train_env,
        learning_rate=1e-3,
        buffer_size=200_000,
        learning_starts=2_000,
        batch_size=128,
        tau=0.005,
        gamma=0.98,
        train_freq=1,
        gradient_steps=-1,  # as many as there were transitions
        action_noise=noise,
        policy_delay=2,
        target_policy_noise=0.2,
        target_noise_clip=0.5,
        policy_kwargs=dict(net_arch=[128, 128], activation_fn=torch.nn.ReLU),
        seed=SEED,
        verbose=0,
    )

    callback = EvalCallback(
        eval_env,
        eval_freq=2_500,  # calls, that is 5000 steps with two environments
        n_eval_episodes=5,
        best_model_save_path="drone_best",
        deterministic=True,
        verbose=1,
    )
    model.learn(total_timesteps=TOTAL_STEPS, callback=callback, log_interval=50)

    best = TD3.load("drone_best/best_model")
    mean, std = evaluate_policy(best, eval_env, n_eval_episodes=20, deterministic=True)
    print(f"best drone: {mean:.1f} +- {std:.1f}")

    # how far off is it in the end?
    offsets = []
    for k in range(10):
        obs, _ = eval_env.reset(seed=500 + k)
        done = False
        while not done:
            action, _ = best.predict(obs, deterministic=True)
            obs, _, terminated, truncated, info = eval_env.step(action)
            done = terminated or truncated
        offsets.append(info["distance"])
    print(f"mean distance at the end: {np.mean(offsets):.3f} m")


if __name__ == "__main__":
    main()
