"""Differential SARSA for the access-control queue: no discount, the average reward is learned along with the values."""
import numpy as np

SERVERS = 10
FREE_PROB = 0.06
PRIORITIES = np.array([1.0, 2.0, 4.0, 8.0])
REJECT, ACCEPT = 0, 1


class Queue:
    """It never ends, so there is neither a done flag nor a reset."""

    def __init__(self, rng):
        self.rng = rng
        self.free = SERVERS
        self.head = rng.integers(len(PRIORITIES))

    def step(self, action):
        reward = 0.0
        if action == ACCEPT and self.free > 0:
            self.free -= 1
            reward = PRIORITIES[self.head]
        self.free += self.rng.binomial(SERVERS - self.free, FREE_PROB)
        self.head = self.rng.integers(len(PRIORITIES))
        return (self.free, self.head), reward


def main(steps=500_000, alpha=0.01, beta=0.01, epsilon=0.1, seed=0):
    rng = np.random.default_rng(seed)
    queue = Queue(rng)
    q = np.zeros((SERVERS + 1, len(PRIORITIES), 2))
    mean_reward = 0.0

    def act(state):
        if state[0] == 0:
            return REJECT  # nobody is free: there is nothing to be chosen
        if rng.random() < epsilon:
            return int(rng.integers(2))
        return int(q[state].argmax())

    state = (queue.free, queue.head)
    action = act(state)
    for step in range(1, steps + 1):
        next_state, reward = queue.step(action)
        next_action = act(next_state)
        # reward minus average takes the place of a discount
        delta = reward - mean_reward + q[next_state][next_action] - q[state][action]
        mean_reward += beta * delta
        q[state][action] += alpha * delta
        state, action = next_state, next_action
        if step % 100_000 == 0:
            print(f"{step} steps, average reward {mean_reward:.3f}")

    for priority, worth in enumerate(PRIORITIES):
        line = "".join("A" if q[free, priority].argmax() == ACCEPT else "." for free in range(1, SERVERS + 1))
        print(f"priority {worth:3.0f}: {line}")


if __name__ == "__main__":
    main()
