"""DQN whose replay buffer is filled by a scripted player before it learns; hence learning_starts=0 and little exploration."""
import gymnasium as gym
import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor


def scripted(obs):
    return 2 if obs[1] >= 0 else 0


def fill(model, env, n):
    obs, _ = env.reset(seed=0)
    for k in range(n):
        action = scripted(obs) if k % 4 else env.action_space.sample()
        new_obs, reward, terminated, truncated, info = env.step(action)
        done = terminated or truncated
        # SB3's buffer takes the time limit out of `done` by this key
        info["TimeLimit.truncated"] = truncated and not terminated
        model.replay_buffer.add(obs[None], new_obs[None], np.array([[action]]), np.array([reward]), np.array([done]), [info])
        obs = env.reset()[0] if done else new_obs


if __name__ == "__main__":
    env, test_env = Monitor(gym.make("MountainCar-v0")), Monitor(gym.make("MountainCar-v0"))
    model = DQN(
        "MlpPolicy",
        env,
        learning_rate=4e-3,
        buffer_size=50_000,
        learning_starts=0,
        batch_size=128,
        gamma=0.98,
        train_freq=16,
        gradient_steps=8,
        target_update_interval=600,
        exploration_initial_eps=0.1,
        exploration_final_eps=0.07,
        exploration_fraction=0.2,
        policy_kwargs={"net_arch": [256, 256]},
        seed=0,
    )
    fill(model, gym.make("MountainCar-v0"), 10_000)
    model.learn(60_000, log_interval=50)
    mean, std = evaluate_policy(model, test_env, n_eval_episodes=20)
    print(f"{mean:.1f} +- {std:.1f}")
