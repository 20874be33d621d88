# Tutorial: tabular Q-learning and SARSA on a little grid of our own
# ------------------------------------------------------------------
# We build a 6x6 grid with holes by hand so that nothing is hidden, then learn a table Q[s, a]
# two ways: off-policy (Q-learning) and on-policy (SARSA).

import os

import numpy as np

np.random.seed(3)

GRID = [
    "S..H..",
    ".H....",
    "...H..",
    ".H...H",
    "....H.",
    "H....G",
]
ROWS, COLS = len(GRID), len(GRID[0])
N_STATES, N_ACTIONS = ROWS * COLS, 4
MOVES = {0: (-1, 0), 1: (0, 1), 2: (1, 0), 3: (0, -1)}
MAX_STEPS = 100


class Grid:
    """step() gives (state, reward, terminated, truncated)"""

    def reset(self):
        self.r, self.c, self.t = 0, 0, 0
        return self.r * COLS + self.c

    def step(self, a):
        # the floor is slippery: 1 in 10 moves goes somewhere else
        if np.random.rand() < 0.1:
            a = np.random.randint(N_ACTIONS)
        dr, dc = MOVES[a]
        self.r = min(max(self.r + dr, 0), ROWS - 1)
        self.c = min(max(self.c + dc, 0), COLS - 1)
        self.t += 1
        cell = GRID[self.r][self.c]
        terminated = cell in "HG"
        truncated = self.t >= MAX_STEPS and not terminated
        reward = 1.0 if cell == "G" else (-1.0 if cell == "H" else -0.01)
        return self.r * COLS + self.c, reward, terminated, truncated


def choose(Q, s, epsilon):
    if np.random.rand() < epsilon:
        return np.random.randint(N_ACTIONS)
    best = np.flatnonzero(Q[s] == Q[s].max())  # break ties at random
    return np.random.choice(best)


def q_learning(env, episodes, alpha=0.1, gamma=0.97, eps_start=1.0, eps_end=0.05, eps_decay=0.998):
    Q = np.zeros((N_STATES, N_ACTIONS))
    eps = eps_start
    history = []
    for ep in range(episodes):
        s = env.reset()
        total = 0
        while True:
            a = choose(Q, s, eps)
            s2, r, terminated, truncated = env.step(a)
            total += r
            if terminated:
                target = r
            else:
                target = r + gamma * np.max(Q[s2])
            Q[s, a] += alpha * (target - Q[s, a])
            s = s2
            if terminated or truncated:
                break
        eps = max(eps_end, eps * eps_decay)
        history.append(total)
        if (ep + 1) % 200 == 0:
            print("Q-learning episode", ep + 1, "mean return", round(np.mean(history[-200:]), 3), "eps", round(eps, 3))
    return Q


def sarsa(env, episodes, alpha=0.1, gamma=0.97, eps_start=1.0, eps_end=0.05, eps_decay=0.998):
    Q = np.zeros((N_STATES, N_ACTIONS))
    eps = eps_start
    history = []
    for ep in range(episodes):
        s = env.reset()
        a = choose(Q, s, eps)
        total = 0
        while True:
            s2, r, terminated, truncated = env.step(a)
            a2 = choose(Q, s2, eps)
            total += r
            td_target = r + gamma * Q[s2, a2] * (not terminated)
            td_error = td_target - Q[s, a]
            Q[s, a] += alpha * td_error
            s, a = s2, a2
            if terminated or truncated:
                break
        eps = max(eps_end, eps_decay * eps)
        history.append(total)
    print("SARSA, last 200:", round(np.mean(history[-200:]), 3))
    return Q


def greedy_return(env, Q, episodes=100):
    total = 0
    for _ in range(episodes):
        s = env.reset()
        over = False
        while not over:
            s, r, terminated, truncated = env.step(int(np.argmax(Q[s])))
            total += r
            over = terminated or truncated
    return total / episodes


def show(Q):
    arrows = "^>v<"
    for r in range(ROWS):
        print(" ".join(GRID[r][c] if GRID[r][c] in "HG" else arrows[int(Q[r * COLS + c].argmax())] for c in range(COLS)))


if __name__ == "__main__":
    n = int(os.environ.get("EPISODES", 3000))
    env = Grid()
    q1 = q_learning(env, n)
    q2 = sarsa(env, n)
    print("greedy, Q-learning:", greedy_return(env, q1))
    print("greedy, SARSA:     ", greedy_return(env, q2))
    show(q1)
