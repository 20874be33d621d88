from pathlib import Path

import gymnasium as gym
import numpy as np
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

FOLDER = Path("cart_swing")
STEPS = 500_000


class SwingCost(gym.Wrapper):
    """InvertedPendulum, with a cost for being far from the centre."""

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        reward = reward - 0.1 * abs(float(obs[0]))
        return obs, reward, terminated, truncated, info


class SaveStatistics(BaseCallback):
    """Writes the running mean and variance whenever there is a new best model."""

    def _on_step(self):
        self.model.get_vec_normalize_env().save(FOLDER / "statistics.pkl")
        return True


def build(n, seed):
    return make_vec_env("InvertedPendulum-v5", n_envs=n, seed=seed, wrapper_class=SwingCost)


def train():
    FOLDER.mkdir(exist_ok=True)
    env = VecNormalize(build(8, 0), clip_obs=10.0, gamma=0.99)
    eval_env = VecNormalize(build(1, 321), clip_obs=10.0, training=False, norm_reward=False)
    model = A2C(
        "MlpPolicy",
        env,
        learning_rate=7e-4,
        n_steps=8,
        gamma=0.99,
        gae_lambda=0.9,
        ent_coef=0.0,
        vf_coef=0.4,
        normalize_advantage=False,
        seed=0,
    )
    callback = EvalCallback(
        eval_env, callback_on_new_best=SaveStatistics(), best_model_save_path=str(FOLDER), eval_freq=2_000, n_eval_episodes=10
    )
    model.learn(STEPS, callback=callback)


def enjoy(n=20):
    env = VecNormalize.load(str(FOLDER / "statistics.pkl"), build(1, 999))
    env.training = False
    env.norm_reward = False
    model = A2C.load(FOLDER / "best_model", env=env)
    scores, score = [], 0.0
    obs = env.reset()
    while len(scores) < n:
        action, _ = model.predict(obs, deterministic=True)
        obs, reward, done, info = env.step(action)
        score += float(reward[0])
        if done[0]:
            scores.append(score)
            score = 0.0
    print("mean", np.mean(scores), "least", np.min(scores))


if __name__ == "__main__":
    train()
    enjoy()
