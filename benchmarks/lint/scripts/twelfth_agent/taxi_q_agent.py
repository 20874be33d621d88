"""A tabular Q-learning agent for the taxi, with a small memory that is replayed backwards after every episode."""
from collections import deque

import gymnasium as gym
import numpy as np


class QTableAgent:
    def __init__(
        self,
        n_states,
        n_actions,
        learning_rate=0.2,
        discount=0.97,
        epsilon=1.0,
        epsilon_min=0.02,
        epsilon_step=1.0 / 1500,
        memory_size=400,
        seed=0,
    ):
        self.n_states = n_states
        self.n_actions = n_actions
        self.lr = learning_rate
        self.discount = discount
        self.epsilon = epsilon
        self.epsilon_min = epsilon_min
        self.epsilon_step = epsilon_step
        self.q_table = np.zeros((n_states, n_actions))
        self.visits = np.zeros((n_states, n_actions), dtype=int)
        self.memory = deque(maxlen=memory_size)
        self.rng = np.random.default_rng(seed)

    def choose_action(self, state, allowed=None, explore=True):
        """Epsilon-greedy; `allowed` is the mask of actions that change anything (None: all of them)."""
        actions = np.arange(self.n_actions) if allowed is None else np.flatnonzero(allowed)
        if explore and self.rng.random() < self.epsilon:
            return int(self.rng.choice(actions))
        values = self.q_table[state, actions] + 1e-9 * self.rng.random(len(actions))  # ties are broken by lot
        return int(actions[values.argmax()])

    def remember(self, state, action, reward, next_state, next_allowed, terminated):
        self.memory.append((state, action, reward, next_state, next_allowed, terminated))

    def learn(self, state, action, reward, next_state, next_allowed, terminated):
        if terminated:
            target = reward
        else:
            reachable = self.q_table[next_state][next_allowed == 1]
            target = reward + self.discount * reachable.max()

        error = target - self.q_table[state, action]
        self.q_table[state, action] += self.lr * error
        self.visits[state, action] += 1
        return abs(error)

    def replay(self):
        """Go through the episode from its end, so that the reward travels all the way back at once."""
        total = 0.0
        for step in reversed(self.memory):
            total += self.learn(*step)
        n = max(len(self.memory), 1)
        self.memory.clear()
        return total / n

    def decay_epsilon(self):
        self.epsilon = max(self.epsilon_min, self.epsilon - self.epsilon_step)


class Trainer:
    def __init__(self, env, agent, log_every=250):
        self.env = env
        self.agent = agent
        self.log_every = log_every
        self.history = []

    def play_episode(self, seed=None):
        state, info = self.env.reset(seed=seed)
        score, done = 0, False
        while not done:
            action = self.agent.choose_action(state, info["action_mask"])
            next_state, reward, terminated, truncated, info = self.env.step(action)
            self.agent.learn(state, action, reward, next_state, info["action_mask"], terminated)
            self.agent.remember(state, action, reward, next_state, info["action_mask"], terminated)
            state = next_state
            score += reward
            done = terminated or truncated
        return score

    def run(self, n_episodes):
        for episode in range(1, n_episodes + 1):
            score = self.play_episode(seed=123 if episode == 1 else None)
            error = self.agent.replay()
            self.agent.decay_epsilon()
            self.history.append(score)
            if episode % self.log_every == 0:
                print(
                    f"episode {episode:5d} | score {np.mean(self.history[-self.log_every:]):8.2f} | "
                    f"error {error:.3f} | epsilon {self.agent.epsilon:.3f}"
                )

    def evaluate(self, n_episodes=50):
        scores = []
        for episode in range(n_episodes):
            state, info = self.env.reset(seed=50_000 + episode)
            score, done = 0, False
            while not done:
                action = self.agent.choose_action(state, info["action_mask"], explore=False)
                state, reward, terminated, truncated, info = self.env.step(action)
                score += reward
                done = terminated or truncated
            scores.append(score)
        return np.mean(scores), np.std(scores)


if __name__ == "__main__":
    env = gym.make("Taxi-v4")
    agent = QTableAgent(env.observation_space.n, env.action_space.n)
    trainer = Trainer(env, agent)
    trainer.run(n_episodes=2500)
    mean, std = trainer.evaluate()
    print(f"greedy policy: {mean:.2f} +- {std:.2f}")
    print(f"pairs never tried: {(agent.visits == 0).sum()} of {agent.visits.size}")
    env.close()
