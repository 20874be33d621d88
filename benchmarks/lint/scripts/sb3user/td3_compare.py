"""Compare TD3 with and without action noise over several seeds. Usage: python td3_compare.py --steps 20000"""
import argparse
import json
import pathlib

import gymnasium as gym
import numpy as np
from stable_baselines3 import TD3
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

ENV_ID = "Pendulum-v1"
STACK = 2


class ScaledReward(gym.RewardWrapper):
    def __init__(self, env, scale):
        super().__init__(env)
        self.scale = scale

    def reward(self, reward):
        return float(reward) * self.scale


def single(seed, scale=None):
    def _init():
        env = gym.make(ENV_ID)
        env = Monitor(env)  # monitor sits below the scaling, so logged returns stay in original units
        if scale is not None:
            env = ScaledReward(env, scale)
        env.reset(seed=seed)
        env.action_space.seed(seed)
        return env

    return _init


def training_env(seed, n=2):
    venv = DummyVecEnv([single(seed + i, scale=0.1) for i in range(n)])
    return VecFrameStack(venv, n_stack=STACK)


def evaluation_env(seed):
    venv = DummyVecEnv([single(seed)])
    return VecFrameStack(venv, n_stack=STACK)


def run_one(sigma, seed, steps):
    env = training_env(seed * 100)
    n_actions = env.action_space.shape[0]
    noise = None
    if sigma > 0:
        noise = NormalActionNoise(mean=np.zeros(n_actions), sigma=sigma * np.ones(n_actions))
    model = TD3(
        "MlpPolicy",
        env,
        action_noise=noise,
        learning_rate=1e-3,
        buffer_size=200_000,
        learning_starts=min(1_000, steps // 4),
        batch_size=256,
        tau=0.005,
        gamma=0.98,
        policy_delay=2,
        target_policy_noise=0.2,
        train_freq=1,
        gradient_steps=-1,
        policy_kwargs={"net_arch": [200, 200]},
        seed=seed,
    )
    model.learn(total_timesteps=steps)
    test = evaluation_env(seed * 100 + 50)
    mean, std = evaluate_policy(model, test, n_eval_episodes=10, deterministic=True)
    env.close()
    test.close()
    return mean, std, model


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=20_000)
    ap.add_argument("--seeds", type=int, default=5)
    ap.add_argument("--out", default="/tmp/td3_compare")
    args = ap.parse_args()
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)

    results = {}
    for sigma in (0.0, 0.1):
        scores = []
        for seed in range(1, args.seeds + 1):
            mean, std, model = run_one(sigma, seed, args.steps)
            scores.append(float(mean))
            model.save(out / f"td3_sigma{sigma}_seed{seed}")
            print(f"sigma {sigma} seed {seed}: {mean:.1f} +- {std:.1f}")
        results[str(sigma)] = scores
    (out / "results.json").write_text(json.dumps(results, indent=2))

    a, b = np.array(results["0.0"]), np.array(results["0.1"])
    print(f"no noise {a.mean():.1f} +- {a.std(ddof=1) if len(a) > 1 else 0:.1f}")
    print(f"noise    {b.mean():.1f} +- {b.std(ddof=1) if len(b) > 1 else 0:.1f}")


if __name__ == "__main__":
    main()
