"""Dyna-Q in a maze. The goal is an absorbing row of the table that is never updated and stays 0, so no target needs a mask."""
import sys

import numpy as np

MAZE = ["S..#....", "...#..#.", "...#..#.", "......#G", ".#......"]
ROWS, COLUMNS = len(MAZE), len(MAZE[0])
STATES = ROWS * COLUMNS
GOAL = next(r * COLUMNS + c for r in range(ROWS) for c in range(COLUMNS) if MAZE[r][c] == "G")


def move(state, action):
    r, c = divmod(state, COLUMNS)
    dr, dc = ((-1, 0), (1, 0), (0, -1), (0, 1))[action]
    r2, c2 = r + dr, c + dc
    if not (0 <= r2 < ROWS and 0 <= c2 < COLUMNS) or MAZE[r2][c2] == "#":
        r2, c2 = r, c
    reached = r2 * COLUMNS + c2
    return reached, float(reached == GOAL)


def main(episodes=60, planning=20, alpha=0.5, gamma=0.95, epsilon=0.1):
    rng = np.random.default_rng(4)
    q = np.zeros((STATES, 4))
    model = {}
    lengths = []
    for _ in range(episodes):
        state, steps = 0, 0
        while state != GOAL:
            ties = np.flatnonzero(q[state] == q[state].max())
            action = rng.integers(4) if rng.random() < epsilon else rng.choice(ties)
            reached, reward = move(state, action)
            q[state, action] += alpha * (reward + gamma * q[reached].max() - q[state, action])
            model[state, int(action)] = reached, reward
            known = list(model)
            for i in rng.integers(len(known), size=planning):
                s, a = known[i]
                s2, r = model[s, a]
                q[s, a] += alpha * (r + gamma * q[s2].max() - q[s, a])
            state = reached
            steps += 1
        lengths.append(steps)
    assert not q[GOAL].any()
    print("first", lengths[:5], "last", lengths[-5:])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
