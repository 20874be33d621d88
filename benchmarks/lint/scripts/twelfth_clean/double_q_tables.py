"""Double Q-learning with two tables. Which one is updated is drawn by lot, and the other says what the choice is worth."""
import gymnasium as gym
import numpy as np

EPISODES, GAMMA = 8_000, 0.98


class TwoTables:
    def __init__(self, n_states, n_actions, rng):
        # a little optimism instead of a high epsilon
        self.a = np.full((n_states, n_actions), 0.5)
        self.b = np.full((n_states, n_actions), 0.5)
        self.n = np.zeros((2, n_states, n_actions), dtype=int)
        self.rng = rng

    def act(self, state, epsilon):
        if self.rng.random() < epsilon:
            return int(self.rng.integers(self.a.shape[1]))
        both = self.a[state] + self.b[state]
        return int(self.rng.choice(np.flatnonzero(both == both.max())))

    def update(self, s, act, r, s2, terminated):
        which = int(self.rng.integers(2))
        mine, other = (self.a, self.b) if which == 0 else (self.b, self.a)
        self.n[which, s, act] += 1
        step = 1.0 / self.n[which, s, act] ** 0.7
        goal = r
        if not terminated:
            goal += GAMMA * other[s2, mine[s2].argmax()]
        mine[s, act] += step * (goal - mine[s, act])


def main():
    env = gym.make("FrozenLake-v1", is_slippery=True)
    learner = TwoTables(env.observation_space.n, env.action_space.n, np.random.default_rng(8))
    wins = []
    for episode in range(EPISODES):
        state, _ = env.reset(seed=8 if episode == 0 else None)
        done = False
        while not done:
            action = learner.act(state, epsilon=0.1)
            nxt, reward, terminated, truncated, _ = env.step(action)
            learner.update(state, action, reward, nxt, terminated)
            state, done = nxt, terminated or truncated
        wins.append(reward)
        if (episode + 1) % 1_000 == 0:
            print(f"{episode + 1}: won {np.mean(wins[-500:]):.2f} (with one step in ten at random)")


if __name__ == "__main__":
    main()
