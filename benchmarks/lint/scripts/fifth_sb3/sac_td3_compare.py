# Train SAC or TD3 on a pendulum with a limited torque rate, several seeds, and compare.
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.callbacks import CallbackList, CheckpointCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise

ENV_ID = "Pendulum-v1"
N_STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
SEEDS = [11, 12, 13] if N_STEPS > 1000 else [11]
OUT = Path("compare_runs")


class TorqueRateLimit(gym.Wrapper):
    """The torque may change by at most `rate` per step; the last torque joins the observation."""

    def __init__(self, env, rate=1.0):
        super().__init__(env)
        self.rate = rate
        low = np.append(env.observation_space.low, env.action_space.low).astype(np.float32)
        high = np.append(env.observation_space.high, env.action_space.high).astype(np.float32)
        self.observation_space = gym.spaces.Box(low, high, dtype=np.float32)
        self.last = np.zeros(1, dtype=np.float32)

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        self.last = np.zeros(1, dtype=np.float32)
        return np.append(obs, self.last).astype(np.float32), info

    def step(self, action):
        torque = self.last + np.clip(action - self.last, -self.rate, self.rate)
        obs, reward, terminated, truncated, info = self.env.step(torque)
        self.last = np.asarray(torque, dtype=np.float32)
        return np.append(obs, self.last).astype(np.float32), reward, terminated, truncated, info


class ScaledReward(gym.RewardWrapper):
    """Pendulum pays down to -16 a step; a smaller scale suits the critics."""

    def __init__(self, env, scale=0.1):
        super().__init__(env)
        self.scale = scale

    def reward(self, reward):
        return self.scale * reward


def train_factory():
    return ScaledReward(TorqueRateLimit(gym.make(ENV_ID)))


def eval_factory():
    # raw rewards, so that the numbers can be compared with other work
    return Monitor(TorqueRateLimit(gym.make(ENV_ID)))


def build_model(name, env, seed):
    common = dict(
        learning_rate=1e-3,
        buffer_size=100_000,
        learning_starts=min(500, N_STEPS // 4),
        batch_size=128,
        gamma=0.98,
        tau=0.01,
        train_freq=1,
        gradient_steps=1,
        policy_kwargs=dict(net_arch=[64, 64]),
        seed=seed,
        device="cpu",
    )
    if name == "sac":
        return SAC("MlpPolicy", env, ent_coef="auto", **common)
    n_act = env.action_space.shape[0]
    noise = NormalActionNoise(mean=np.zeros(n_act), sigma=0.15 * np.ones(n_act))
    return TD3("MlpPolicy", env, action_noise=noise, policy_delay=2, target_policy_noise=0.2,
               target_noise_clip=0.5, **common)


def one_run(name, seed):
    folder = OUT / f"{name}_{seed}"
    env = make_vec_env(train_factory, n_envs=1, seed=seed)
    eval_env = eval_factory()
    eval_env.reset(seed=seed + 10_000)
    callbacks = CallbackList([
        CheckpointCallback(save_freq=5_000, save_path=str(folder), name_prefix=name),
        EvalCallback(eval_env, best_model_save_path=str(folder), eval_freq=2_000,
                     n_eval_episodes=5, deterministic=True, verbose=0),
    ])
    model = build_model(name, env, seed)
    model.learn(total_timesteps=N_STEPS, callback=callbacks)
    model.save(folder / "last")

    test_env = eval_factory()
    test_env.reset(seed=seed + 20_000)
    returns, lengths = evaluate_policy(model, test_env, n_eval_episodes=10, deterministic=True,
                                       return_episode_rewards=True)
    env.close()
    eval_env.close()
    return float(np.mean(returns)), float(np.std(returns))


def main():
    OUT.mkdir(exist_ok=True)
    table = {}
    for name in ("sac", "td3"):
        scores = []
        for seed in SEEDS:
            mean, std = one_run(name, seed)
            print(f"{name} seed {seed}: {mean:.1f} +- {std:.1f}")
            scores.append(mean)
        table[name] = scores
    for name, scores in table.items():
        print(f"{name}: {np.mean(scores):.1f} over {len(scores)} seeds (sd {np.std(scores):.1f})")


if __name__ == "__main__":
    main()
