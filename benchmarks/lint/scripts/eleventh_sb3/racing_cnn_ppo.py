"""CarRacing from pixels with PPO: grey, smaller, four frames stacked."""
import argparse

import gymnasium as gym
from gymnasium.wrappers import GrayscaleObservation, MaxAndSkipObservation, ResizeObservation
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack, VecTransposeImage

N_ENVS = 8


def track(rank, seed):
    def _make():
        env = gym.make("CarRacing-v3", continuous=True)
        env = Monitor(env)
        env = MaxAndSkipObservation(env, skip=2)
        env = ResizeObservation(env, (64, 64))
        env = GrayscaleObservation(env, keep_dim=True)
        env.reset(seed=seed + rank)
        return env

    set_random_seed(seed)
    return _make


def stack(venv):
    return VecTransposeImage(VecFrameStack(venv, n_stack=4))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--budget", type=int, default=4_000_000)
    p.add_argument("--seed", type=int, default=21)
    p.add_argument("--log", default="runs/racing")
    a = p.parse_args()

    train = stack(SubprocVecEnv([track(i, a.seed) for i in range(N_ENVS)]))
    check = stack(DummyVecEnv([track(0, a.seed + 500)]))

    agent = PPO(
        policy="CnnPolicy",
        env=train,
        n_steps=512,
        batch_size=128,
        n_epochs=10,
        learning_rate=1e-4,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.0,
        max_grad_norm=0.5,
        use_sde=True,
        sde_sample_freq=4,
        policy_kwargs={"log_std_init": -2.0, "ortho_init": False},
        tensorboard_log=a.log,
        seed=a.seed,
    )
    keep_best = EvalCallback(
        check, best_model_save_path=a.log, n_eval_episodes=5, eval_freq=max(50_000 // N_ENVS, 1), deterministic=True
    )
    agent.learn(total_timesteps=a.budget, callback=keep_best)
    agent.save(f"{a.log}/final")

    best = PPO.load(f"{a.log}/best_model")
    mean, spread = evaluate_policy(best, check, n_eval_episodes=20)
    print(f"best: {mean:.0f} +/- {spread:.0f}")


if __name__ == "__main__":
    main()
