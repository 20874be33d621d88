"""Compare exploration noise of DDPG on a two-link arm (own environment). `arm_ddpg_noise.py 0.1 0.2 ...` gives the noise levels."""
import sys

import gymnasium as gym
import numpy as np
from stable_baselines3 import DDPG
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import OrnsteinUhlenbeckActionNoise

HORIZON = 120


class TwoLinkArm(gym.Env):
    metadata = {"render_modes": []}

    def __init__(self):
        super().__init__()
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = gym.spaces.Box(-10.0, 10.0, (8,), np.float32)

    def _tip(self):
        a, b = self.q
        return np.array([np.cos(a) + np.cos(a + b), np.sin(a) + np.sin(a + b)])

    def _observe(self):
        return np.concatenate([np.cos(self.q), np.sin(self.q), np.clip(self.dq, -8, 8), self.goal - self._tip()]).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.q = self.np_random.uniform(-np.pi, np.pi, 2)
        self.dq = np.zeros(2)
        radius, angle = self.np_random.uniform(0.4, 1.8), self.np_random.uniform(-np.pi, np.pi)
        self.goal = radius * np.array([np.cos(angle), np.sin(angle)])
        self.steps = 0
        return self._observe(), {}

    def step(self, action):
        self.dq = 0.9 * self.dq + 0.5 * np.clip(action, -1.0, 1.0)
        self.q = self.q + 0.1 * self.dq
        self.steps += 1
        distance = float(np.linalg.norm(self.goal - self._tip()))
        reached = distance < 0.05
        reward = -distance + (20.0 if reached else 0.0)
        return self._observe(), reward, reached, self.steps >= HORIZON, {"distance": distance}


def train(sigma, total=150_000):
    env, test = Monitor(TwoLinkArm()), Monitor(TwoLinkArm())
    noise = OrnsteinUhlenbeckActionNoise(mean=np.zeros(2), sigma=sigma * np.ones(2))
    model = DDPG(
        "MlpPolicy",
        env,
        action_noise=noise,
        learning_rate=1e-3,
        buffer_size=150_000,
        learning_starts=3_000,
        batch_size=128,
        tau=0.005,
        gamma=0.98,
        train_freq=(1, "step"),
        gradient_steps=1,
        seed=4,
    )
    model.learn(total)
    model.save(f"arm_{sigma}")
    test.reset(seed=12)
    return evaluate_policy(model, test, n_eval_episodes=50, deterministic=True)


if __name__ == "__main__":
    check_env(TwoLinkArm())
    for level in map(float, sys.argv[1:] or ["0.1", "0.3"]):
        mean, std = train(level)
        print(f"noise {level}: {mean:.1f} +- {std:.1f}")
