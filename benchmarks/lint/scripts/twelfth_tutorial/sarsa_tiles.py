"""Episodic semi-gradient SARSA(lambda) on the mountain car, with tile coding and nothing but numpy.

The value of an action is the sum of the weights of the tiles that are switched on. In each of the tilings, exactly one is.
"""
import gymnasium as gym
import numpy as np

NUM_TILINGS = 8
TILES_PER_DIM = 8
ALPHA = 0.3 / NUM_TILINGS  # the step is shared by all the tilings
GAMMA = 1.0  # episodic: every step costs one, so nothing has to be discounted
LAMBDA = 0.9
EPISODES = 300
EPS_START, EPS_END, EPS_DECAY = 0.1, 0.001, 0.98
REPORT = 25


class TileCoder:
    """Shifted grids over a box."""

    def __init__(self, low, high, tilings, tiles):
        self.low = np.asarray(low, dtype=np.float64)
        self.width = (np.asarray(high) - self.low) / tiles
        self.tilings = tilings
        self.side = tiles + 1  # one more, as the grids are shifted
        # asymmetric offsets (1, 3), in fractions of a tile
        self.offsets = (np.outer(np.arange(tilings), [1, 3]) % tilings) / tilings
        self.size = tilings * self.side**2

    def __call__(self, state):
        scaled = (state - self.low) / self.width
        cells = np.floor(scaled + self.offsets).astype(int)
        cells = np.clip(cells, 0, self.side - 1)
        return np.arange(self.tilings) * self.side**2 + cells[:, 0] * self.side + cells[:, 1]


env = gym.make("MountainCar-v0", max_episode_steps=1000)
coder = TileCoder(env.observation_space.low, env.observation_space.high, NUM_TILINGS, TILES_PER_DIM)
n_actions = env.action_space.n
rng = np.random.default_rng(0)

w = np.zeros((n_actions, coder.size))


def q_values(active):
    return w[:, active].sum(axis=1)


def choose(active, eps):
    if rng.random() < eps:
        return int(rng.integers(n_actions))
    # break ties at random: at the beginning all the values are zero
    return int((q_values(active) + 1e-9 * rng.random(n_actions)).argmax())


def run_episode(eps, seed=None):
    trace = np.zeros_like(w)
    state, _ = env.reset(seed=seed)
    active = coder(state)
    action = choose(active, eps)
    total = 0.0

    while True:
        next_state, reward, terminated, truncated, _ = env.step(action)
        total += reward

        delta = reward - q_values(active)[action]

        # replacing traces; those of the other actions in this state are wiped out
        trace[:, active] = 0.0
        trace[action, active] = 1.0

        if terminated:
            w[:] += ALPHA * delta * trace
            break

        next_active = coder(next_state)
        next_action = choose(next_active, eps)
        delta += GAMMA * q_values(next_active)[next_action]
        w[:] += ALPHA * delta * trace
        trace *= GAMMA * LAMBDA

        active, action = next_active, next_action
        if truncated:
            break

    return total


def greedy_episode(seed):
    state, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        state, reward, terminated, truncated, _ = env.step(choose(coder(state), 0.0))
        total += reward
        over = terminated or truncated
    return total


if __name__ == "__main__":
    eps = EPS_START
    scores = []
    for episode in range(EPISODES):
        scores.append(run_episode(eps, seed=0 if episode == 0 else None))
        eps = max(EPS_END, eps * EPS_DECAY)
        if (episode + 1) % REPORT == 0:
            greedy = np.mean([greedy_episode(seed=10_000 + k) for k in range(3)])
            print(f"episode {episode + 1:4d}   last {REPORT}: {np.mean(scores[-REPORT:]):8.1f}   greedy: {greedy:8.1f}   eps {eps:.3f}")
    env.close()
