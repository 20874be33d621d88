"""Dyna-Q+ on a maze whose short cut opens half-way: planning on a learned model, with a bonus for what was long not tried.

The learning rate is constant because the maze changes, and epsilon is too: somebody who stops exploring never finds the
short cut.
"""
import numpy as np

ROWS, COLS = 6, 9
START, GOAL = (5, 3), (0, 8)
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


class Maze:
    def __init__(self):
        self.walls = {(3, c) for c in range(1, COLS)}
        self.at = START

    def open_short_cut(self):
        self.walls.discard((3, COLS - 1))

    def step(self, action):
        row = self.at[0] + MOVES[action][0]
        col = self.at[1] + MOVES[action][1]
        if 0 <= row < ROWS and 0 <= col < COLS and (row, col) not in self.walls:
            self.at = (row, col)
        if self.at == GOAL:
            self.at = START
            return GOAL, 1.0, True
        return self.at, 0.0, False


def main(steps=6_000, planning=25, alpha=0.5, gamma=0.95, epsilon=0.1, kappa=5e-4, seed=0):
    rng = np.random.default_rng(seed)
    maze = Maze()
    q = np.zeros((ROWS, COLS, 4))
    model, last_tried = {}, {}
    reached = 0
    state = START

    def greedy(s):
        return int(rng.choice(np.flatnonzero(q[s] == q[s].max())))

    for t in range(1, steps + 1):
        if t == steps // 2:
            maze.open_short_cut()
        action = int(rng.integers(4)) if rng.random() < epsilon else greedy(state)
        after, reward, done = maze.step(action)
        q[state][action] += alpha * (reward + gamma * (0.0 if done else q[after].max()) - q[state][action])

        if (state, 0) not in model:
            # actions that were never tried lead back to where one is, as far as the model knows
            for a in range(4):
                model[state, a] = (state, 0.0, False)
                last_tried.setdefault((state, a), 0)
        model[state, action] = (after, reward, done)
        last_tried[state, action] = t

        known = list(model)
        for index in rng.integers(len(known), size=planning):
            s, a = known[index]
            s2, r, d = model[s, a]
            bonus = kappa * np.sqrt(t - last_tried[s, a])
            q[s][a] += alpha * (r + bonus + gamma * (0.0 if d else q[s2].max()) - q[s][a])

        reached += done
        state = maze.at
        if t % 500 == 0:
            print(f"{t}: reached {reached} times in the last 500 steps")
            reached = 0


if __name__ == "__main__":
    main()
