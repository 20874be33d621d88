"""Stable-Baselines3 with normalized observations, an evaluation callback, saved and loaded again."""

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

ENV = "Pendulum-v1"

if __name__ == "__main__":
    env = VecNormalize(make_vec_env(ENV, n_envs=4, seed=0), gamma=0.9)
    eval_env = VecNormalize(make_vec_env(ENV, n_envs=1, seed=1), training=False, norm_reward=False)
    model = PPO("MlpPolicy", env, n_steps=1024, batch_size=64, gamma=0.9, learning_rate=1e-3, use_sde=True, seed=0)
    model.learn(total_timesteps=100_000, callback=EvalCallback(eval_env, eval_freq=5_000))
    model.save("pendulum")
    env.save("pendulum_stats.pkl")

    test_env = VecNormalize.load("pendulum_stats.pkl", make_vec_env(ENV, n_envs=1))
    test_env.training = False
    test_env.norm_reward = False
    model = PPO.load("pendulum", env=test_env)
    mean, std = evaluate_policy(model, test_env, n_eval_episodes=20)
    print(mean, std)

    obs = test_env.reset()
    for _ in range(200):
        action, _ = model.predict(obs, deterministic=True)
        obs, reward, done, info = test_env.step(action)
