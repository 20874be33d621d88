"""PPO of Stable-Baselines3 with normalization and an evaluation callback."""
import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

SEED = 11
N_ENVS = 16
BUDGET = 2_000_000


def linear(start: float):
    def at(progress_remaining: float) -> float:
        return progress_remaining * start

    return at


def main() -> None:
    train_env = VecNormalize(make_vec_env("BipedalWalker-v3", n_envs=N_ENVS, seed=SEED), norm_obs=True, norm_reward=True, gamma=0.999)
    eval_env = VecNormalize(
        make_vec_env("BipedalWalker-v3", n_envs=1, seed=SEED + 1000), norm_obs=True, norm_reward=False, training=False
    )
    callbacks = [
        EvalCallback(eval_env, eval_freq=10_000 // N_ENVS, n_eval_episodes=10, best_model_save_path="best", deterministic=True),
        CheckpointCallback(save_freq=100_000 // N_ENVS, save_path="checkpoints", save_vecnormalize=True),
    ]
    model = PPO(
        "MlpPolicy",
        train_env,
        n_steps=2048,
        batch_size=64,
        n_epochs=10,
        gamma=0.999,
        gae_lambda=0.95,
        clip_range=0.18,
        ent_coef=0.0,
        learning_rate=linear(3e-4),
        seed=SEED,
        verbose=1,
    )
    model.learn(total_timesteps=BUDGET, callback=callbacks)
    model.save("bipedal")
    train_env.save("bipedal_vecnormalize.pkl")

    final_env = VecNormalize.load("bipedal_vecnormalize.pkl", make_vec_env("BipedalWalker-v3", n_envs=1, seed=SEED + 2000))
    final_env.training = False
    final_env.norm_reward = False
    trained = PPO.load("bipedal", env=final_env)
    mean, std = evaluate_policy(trained, final_env, n_eval_episodes=20)
    print(mean, std)


if __name__ == "__main__":
    main()
