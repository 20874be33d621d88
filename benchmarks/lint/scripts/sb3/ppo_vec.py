import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

TOTAL_TIMESTEPS = 500_000

if __name__ == "__main__":
    venv = make_vec_env("LunarLander-v3", n_envs=8, seed=0)
    eval_env = Monitor(gym.make("LunarLander-v3"))
    model = PPO(
        "MlpPolicy",
        venv,
        n_steps=1024,
        batch_size=64,
        n_epochs=4,
        gamma=0.999,
        gae_lambda=0.98,
        ent_coef=0.01,
        learning_rate=3e-4,
        clip_range=0.2,
        seed=0,
        verbose=1,
    )
    callback = EvalCallback(eval_env, eval_freq=5_000, n_eval_episodes=10, deterministic=True)
    model.learn(total_timesteps=TOTAL_TIMESTEPS, callback=callback)
    mean, std = evaluate_policy(model, eval_env, n_eval_episodes=20, deterministic=True)
    print(mean, std)
    model.save("ppo_lander")
