# Q-learning and SARSA side by side on a windy grid.
import argparse
import random
from collections import defaultdict

WIDTH, HEIGHT = 8, 5
START, GOAL = (0, 2), (6, 2)
WIND = [0, 0, 0, 1, 1, 1, 0, 0]
MOVES = [(1, 0), (-1, 0), (0, 1), (0, -1)]
MAX_STEPS = 300


class WindyGrid:
    """-1 a step until the goal; a gust pushes upwards now and then. Gives up (truncates) after MAX_STEPS."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def reset(self):
        self.pos = START
        self.steps = 0
        return self.pos

    def step(self, a):
        x, y = self.pos
        dx, dy = MOVES[a]
        lift = WIND[x] if self.rng.random() < 0.7 else 0
        x = min(max(x + dx, 0), WIDTH - 1)
        y = min(max(y + dy + lift, 0), HEIGHT - 1)
        self.pos = (x, y)
        self.steps += 1
        terminated = self.pos == GOAL
        return self.pos, -1.0, terminated, self.steps >= MAX_STEPS


def argmax(values):
    best = max(values)
    return random.choice([i for i, v in enumerate(values) if v == best])


def eps_greedy(Q, s, eps):
    if random.random() < eps:
        return random.randrange(len(MOVES))
    return argmax(Q[s])


def q_learning(env, episodes, alpha, gamma, eps_start, eps_end):
    Q = defaultdict(lambda: [0.0] * len(MOVES))
    lengths = []
    for ep in range(episodes):
        eps = eps_start + (eps_end - eps_start) * min(1.0, ep / (0.5 * episodes))
        s = env.reset()
        while True:
            a = eps_greedy(Q, s, eps)
            s2, r, terminated, truncated = env.step(a)
            target = r if terminated else r + gamma * max(Q[s2])
            Q[s][a] += alpha * (target - Q[s][a])
            s = s2
            if terminated or truncated:
                break
        lengths.append(env.steps)
    return Q, lengths


def sarsa(env, episodes, alpha, gamma, eps_start, eps_end):
    Q = defaultdict(lambda: [0.0] * len(MOVES))
    lengths = []
    for ep in range(episodes):
        frac = min(1.0, ep / (0.5 * episodes))
        eps = (1 - frac) * eps_start + frac * eps_end
        s = env.reset()
        a = eps_greedy(Q, s, eps)
        over = False
        while not over:
            s2, r, terminated, truncated = env.step(a)
            a2 = eps_greedy(Q, s2, eps)
            bootstrap = 0.0 if terminated else Q[s2][a2]
            td_error = r + gamma * bootstrap - Q[s][a]
            Q[s][a] += alpha * td_error
            s, a = s2, a2
            over = terminated or truncated
        lengths.append(env.steps)
    return Q, lengths


def evaluate(Q, env, episodes):
    total = 0.0
    for _ in range(episodes):
        s, over = env.reset(), False
        while not over:
            s, r, terminated, truncated = env.step(argmax(Q[s]))
            total += r
            over = terminated or truncated
    return total / episodes


def show(Q):
    arrows = "><^v"
    for y in reversed(range(HEIGHT)):
        print("".join("G" if (x, y) == GOAL else arrows[argmax(Q[x, y])] for x in range(WIDTH)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=3000)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--gamma", type=float, default=0.98)
    opts = parser.parse_args()
    random.seed(0)
    for learn in (q_learning, sarsa):
        table, lengths = learn(WindyGrid(seed=1), opts.episodes, opts.alpha, opts.gamma, eps_start=1.0, eps_end=0.05)
        print(learn.__name__, "last lengths", sum(lengths[-100:]) / len(lengths[-100:]), "greedy", evaluate(table, WindyGrid(seed=2), 50))
        show(table)
