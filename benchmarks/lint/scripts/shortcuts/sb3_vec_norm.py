from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

train_env = VecNormalize(make_vec_env("Pendulum-v1", n_envs=4, seed=0), gamma=0.9)
model = PPO("MlpPolicy", train_env, n_steps=1024, batch_size=64, n_epochs=10, learning_rate=1e-3, gamma=0.9, gae_lambda=0.95,
            clip_range=0.2, ent_coef=0.0, use_sde=True, sde_sample_freq=4, seed=0)
model.learn(total_timesteps=100_000)
model.save("pendulum")
train_env.save("pendulum.pkl")

test_env = VecNormalize.load("pendulum.pkl", make_vec_env("Pendulum-v1", n_envs=1, seed=99))
test_env.training = False
test_env.norm_reward = False
loaded = PPO.load("pendulum", env=test_env)
print(evaluate_policy(loaded, test_env, n_eval_episodes=10, deterministic=True))
