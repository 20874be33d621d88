import gymnasium as gym
from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor


def make():
    return Monitor(gym.make("CartPole-v1"))


def main(timesteps=50_000, seed=1):
    config = dict(
        learning_rate=2.3e-3,
        buffer_size=100_000,
        learning_starts=1_000,
        batch_size=64,
        gamma=0.99,
        target_update_interval=10,
        train_freq=256,
        gradient_steps=128,
        exploration_fraction=0.16,
        exploration_final_eps=0.04,
        policy_kwargs=dict(net_arch=[256, 256]),
    )
    model = DQN("MlpPolicy", make(), seed=seed, **config)
    model.learn(timesteps)
    print(evaluate_policy(model, make(), n_eval_episodes=20))
    return model


if __name__ == "__main__":
    main()
