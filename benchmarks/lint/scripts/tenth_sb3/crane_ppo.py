import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.vec_env import VecNormalize, sync_envs_normalization


class CraneEnv(gym.Env):
    """A trolley on a rail carries a load on a rope, and must come to rest at the goal."""

    DT = 0.05
    LIMIT = 200

    def __init__(self):
        self.observation_space = spaces.Box(-np.inf, np.inf, shape=(5,), dtype=np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, shape=(1,), dtype=np.float32)

    def _obs(self):
        return np.array([self.x, self.v, self.angle, self.spin, self.goal - self.x], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.v, self.angle, self.spin = 0.0, 0.0, 0.0, 0.0
        self.goal = self.np_random.uniform(-4.0, 4.0)
        self.t = 0
        return self._obs(), {}

    def step(self, action):
        force = 5.0 * float(np.clip(action[0], -1.0, 1.0))
        alpha = -9.81 * np.sin(self.angle) - force * np.cos(self.angle)
        self.v += force * self.DT
        self.x += self.v * self.DT
        self.spin += alpha * self.DT
        self.angle += self.spin * self.DT
        self.t += 1

        distance = abs(self.goal - self.x)
        reward = -0.1 * distance - 0.05 * abs(self.angle) - 0.001 * force**2
        arrived = distance < 0.05 and abs(self.v) < 0.1 and abs(self.angle) < 0.05
        off_the_rail = abs(self.x) > 6.0
        if arrived:
            reward += 10.0
        if off_the_rail:
            reward -= 20.0
        terminated = bool(arrived or off_the_rail)
        truncated = self.t >= self.LIMIT
        return self._obs(), float(reward), terminated, truncated, {"is_success": arrived}


if __name__ == "__main__":
    venv = make_vec_env(CraneEnv, n_envs=8, seed=11)
    venv = VecNormalize(venv, norm_obs=True, norm_reward=True, gamma=0.98)

    eval_venv = make_vec_env(CraneEnv, n_envs=4, seed=911)
    eval_venv = VecNormalize(eval_venv, norm_obs=True, norm_reward=False, training=False)

    model = PPO(
        "MlpPolicy", venv, n_steps=512, batch_size=256, n_epochs=10, gamma=0.98, gae_lambda=0.95,
        learning_rate=3e-4, clip_range=0.2, ent_coef=0.0, seed=11, verbose=1,
    )
    evaluation = EvalCallback(eval_venv, eval_freq=5000, n_eval_episodes=20, deterministic=True)
    model.learn(600_000, callback=evaluation)
    model.save("crane_ppo")
    venv.save("crane_vecnormalize.pkl")

    test_venv = VecNormalize.load("crane_vecnormalize.pkl", make_vec_env(CraneEnv, n_envs=1, seed=77))
    test_venv.training = False
    test_venv.norm_reward = False
    model = PPO.load("crane_ppo")
    obs = test_venv.reset()
    arrived, episodes = 0, 0
    while episodes < 50:
        action, _ = model.predict(obs, deterministic=True)
        obs, rewards, dones, infos = test_venv.step(action)
        if dones[0]:
            episodes += 1
            arrived += infos[0]["is_success"]
    print(f"arrived in {arrived} of {episodes}")
