"""SAC with normalized observations; the test environment shares the training's statistics object and is frozen."""
import gymnasium as gym
from stable_baselines3 import SAC
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize


def one(seed):
    env = Monitor(gym.make("Pendulum-v1"))
    env.reset(seed=seed)
    return env


if __name__ == "__main__":
    train = VecNormalize(DummyVecEnv([lambda: one(1)]), norm_reward=False)
    test = VecNormalize(DummyVecEnv([lambda: one(2)]), norm_reward=False, training=False)
    test.obs_rms = train.obs_rms  # one object: what the training learns of the observations, the test has too
    model = SAC("MlpPolicy", train, learning_rate=1e-3, learning_starts=400, train_freq=4, gradient_steps=4, seed=1)
    for block in range(5):
        model.learn(2_000, reset_num_timesteps=block == 0)
        mean, std = evaluate_policy(model, test, n_eval_episodes=5)
        print(model.num_timesteps, round(mean), round(std))
    model.save("pendulum_sac")
    train.save("pendulum_sac_statistics.pkl")
