"""DQN from stable-baselines3 on a small grid world that I wrote for my thesis."""
import os

import gymnasium as gym
import numpy as np
import torch as th
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

TOTAL = int(os.environ.get("STEPS", 60_000))
SIZE = 6
MAX_STEPS = 60


class GridGoal(gym.Env):
    """Agent starts in a random free cell and must reach the goal in the corner, avoiding lava."""

    MOVES = {0: (0, 1), 1: (0, -1), 2: (1, 0), 3: (-1, 0)}

    def __init__(self, size=SIZE):
        self.size = size
        self.goal = np.array([size - 1, size - 1])
        self.lava = {(2, 2), (2, 3), (3, 2)}
        self.action_space = gym.spaces.Discrete(4)
        self.observation_space = gym.spaces.Box(0.0, 1.0, shape=(4,), dtype=np.float32)
        self.agent = np.array([0, 0])
        self.t = 0

    def _observe(self):
        return np.concatenate([self.agent, self.goal]).astype(np.float32) / (self.size - 1)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        while True:
            self.agent = self.np_random.integers(0, self.size, size=2)
            if tuple(self.agent) not in self.lava and not np.array_equal(self.agent, self.goal):
                break
        return self._observe(), {}

    def step(self, action):
        self.t += 1
        self.agent = np.clip(self.agent + self.MOVES[int(action)], 0, self.size - 1)
        reached = bool(np.array_equal(self.agent, self.goal))
        burnt = tuple(int(c) for c in self.agent) in self.lava
        reward = -0.01
        if reached:
            reward = 1.0
        elif burnt:
            reward = -1.0
        terminated = reached or burnt
        truncated = self.t >= MAX_STEPS and not terminated
        return self._observe(), reward, terminated, truncated, {"is_success": reached}


class SuccessLogger(BaseCallback):
    """Every `every` calls, measures the greedy success rate in a separate env."""

    def __init__(self, eval_env, every=5_000, episodes=20):
        super().__init__()
        self.eval_env = eval_env
        self.every = every
        self.episodes = episodes
        self.best = -np.inf

    def _on_step(self):
        if self.n_calls % self.every == 0:
            rewards, lengths = evaluate_policy(
                self.model, self.eval_env, n_eval_episodes=self.episodes,
                deterministic=True, return_episode_rewards=True,
            )
            score = float(np.mean(rewards))
            self.logger.record("eval/score", score)
            print(f"[{self.num_timesteps}] score {score:.3f} len {np.mean(lengths):.1f} eps {self.model.exploration_rate:.2f}")
            if score > self.best:
                self.best = score
                self.model.save("/tmp/gridgoal_best")
        return True


def main():
    env = make_vec_env(GridGoal, n_envs=4, seed=4)
    eval_env = make_vec_env(GridGoal, n_envs=1, seed=4000)

    model = DQN(
        "MlpPolicy",
        env,
        learning_rate=5e-4,
        buffer_size=50_000,
        learning_starts=min(1_000, TOTAL // 4),
        batch_size=64,
        gamma=0.97,
        train_freq=4,
        gradient_steps=4,
        target_update_interval=1_000,
        exploration_fraction=0.3,
        exploration_initial_eps=1.0,
        exploration_final_eps=0.05,
        policy_kwargs=dict(net_arch=[64, 64], activation_fn=th.nn.ReLU),
        seed=4,
    )
    model.learn(total_timesteps=TOTAL, callback=SuccessLogger(eval_env))
    model.save("/tmp/gridgoal_last")

    last = DQN.load("/tmp/gridgoal_last")
    mean, std = evaluate_policy(last, eval_env, n_eval_episodes=50, deterministic=True)
    print(f"last model {mean:.3f} +- {std:.3f}")

    # look at the q values of the start corner
    obs = np.array([[0.0, 0.0, 1.0, 1.0]], dtype=np.float32)
    with th.no_grad():
        q = last.q_net(th.as_tensor(obs, device=last.device))
    print("q(start)", q.cpu().numpy().round(3))


if __name__ == "__main__":
    main()
