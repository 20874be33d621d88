import gymnasium as gym
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.evaluation import evaluate_policy

BUDGET = 60_000


def fit_dqn():
    model = DQN("MlpPolicy", gym.make("CartPole-v1"), learning_rate=2.3e-3, buffer_size=100_000, learning_starts=1_000, batch_size=64,
                gamma=0.99, train_freq=256, gradient_steps=128, target_update_interval=10, exploration_fraction=0.16,
                exploration_final_eps=0.04, policy_kwargs=dict(net_arch=[256, 256]), seed=0)
    model.learn(total_timesteps=BUDGET)
    return model


def fit_sac():
    settings = {"learning_rate": 1e-3, "buffer_size": 50_000, "batch_size": 256, "tau": 0.005, "gamma": 0.98, "learning_starts": 500}
    model = SAC("MlpPolicy", "Pendulum-v1", **settings, seed=1)
    model.learn(20_000)
    return model


if __name__ == "__main__":
    for fit, name in ((fit_dqn, "CartPole-v1"), (fit_sac, "Pendulum-v1")):
        mean, std = evaluate_policy(fit(), gym.make(name), n_eval_episodes=20)
        print(f"{name}: {mean:.1f} ± {std:.1f}")
