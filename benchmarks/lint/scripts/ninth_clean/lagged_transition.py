"""Q-learning that learns at the start of the next step: the transition is kept until its successor has been acted on."""

import gymnasium as gym
import numpy as np

rng = np.random.default_rng(0)
env = gym.make("Taxi-v4")
Q = np.zeros((env.observation_space.n, env.action_space.n))
EPSILON, ALPHA, GAMMA = 0.1, 0.3, 0.97


class Learner:
    """`begin`, `act` after each reward, `finish` at the end: the interface of RL-Glue."""

    def begin(self, state):
        self.last = state, self._choose(state)
        return self.last[1]

    def act(self, reward, state):
        self._learn(reward, Q[state].max())
        self.last = state, self._choose(state)
        return self.last[1]

    def finish(self, reward):
        """The state behind this reward is terminal: it is worth nothing."""
        self._learn(reward, 0.0)

    def cut_off(self, reward, state):
        """A time limit: the state behind the reward is worth what it is worth."""
        self._learn(reward, Q[state].max())

    def _learn(self, reward, next_value):
        Q[self.last] += ALPHA * (reward + GAMMA * next_value - Q[self.last])

    def _choose(self, state):
        return int(rng.integers(env.action_space.n)) if rng.random() < EPSILON else int(Q[state].argmax())


learner = Learner()
for episode in range(150):
    state, _ = env.reset(seed=episode)
    action = learner.begin(state)
    score = 0
    while True:
        state, reward, terminated, truncated, _ = env.step(action)
        score += reward
        if terminated:
            learner.finish(reward)
            break
        if truncated:
            learner.cut_off(reward, state)
            break
        action = learner.act(reward, state)
    if episode % 50 == 49:
        print(episode, score)
