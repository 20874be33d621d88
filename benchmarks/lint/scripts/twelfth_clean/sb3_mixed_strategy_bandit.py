"""A2C (stable-baselines3) where gamma = 0 and a stochastic test are both right.

The opponent in rock-paper-scissors answers to how often each hand was played lately. Each step is a game by itself, as the
action changes nothing that the agent is shown: so only the reward of the step counts, and there is nothing to be discounted.
Whoever plays one hand only is found out at once, so the policy is tested with its dice and not with its most likely hand.
"""
import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import A2C
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy


class FindsYouOut(gym.Env):
    """The observation is a card of three: it says which hand wins double today."""

    def __init__(self, memory=20):
        self.observation_space = spaces.Discrete(3)
        self.action_space = spaces.Discrete(3)
        self.memory = memory

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.recent = list(self.np_random.integers(3, size=self.memory))
        self.card = int(self.np_random.integers(3))
        self.games = 0
        return self.card, {}

    def step(self, action):
        counts = np.bincount(self.recent, minlength=3)
        # it beats what has been played most; ties by lot
        favourite = self.np_random.choice(np.flatnonzero(counts == counts.max()))
        theirs = (favourite + 1) % 3
        outcome = (int(action) - theirs) % 3  # 0 draw, 1 won, 2 lost
        reward = {0: 0.0, 1: 1.0, 2: -1.0}[outcome]
        if outcome == 1 and int(action) == self.card:
            reward = 2.0
        self.recent = self.recent[1:] + [int(action)]
        self.card = int(self.np_random.integers(3))
        self.games += 1
        return self.card, reward, False, self.games >= 100, {}


def main(steps=100_000):
    venv = make_vec_env(FindsYouOut, n_envs=4, seed=0)
    model = A2C("MlpPolicy", venv, gamma=0.0, gae_lambda=1.0, n_steps=16, learning_rate=7e-4, ent_coef=0.05, seed=0)
    model.learn(total_timesteps=steps)
    test = make_vec_env(FindsYouOut, n_envs=1, seed=1_000)
    with_dice, _ = evaluate_policy(model, test, n_eval_episodes=20, deterministic=False)
    one_hand, _ = evaluate_policy(model, test, n_eval_episodes=20, deterministic=True)
    print(f"with its dice {with_dice:.1f}, most likely hand only {one_hand:.1f} in 100 games")


if __name__ == "__main__":
    main()
