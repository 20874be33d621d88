"""Q-learning on costs: everything that is usually maximized is minimized here, so the greedy action is the cheapest one."""
import random

import numpy as np

N = 10  # stock holds 0..N-1 items
ORDER = [0, 2, 4]


def simulate(stock, order, rng):
    """One day of a shop: cost of ordering, of holding, and of each customer sent away. A fire (rare) closes the shop for good."""
    arrived = min(stock + order, N - 1)
    demand = rng.choice([0, 1, 2, 3])
    sold = min(arrived, demand)
    cost = 1.0 * order + 0.2 * arrived + 5.0 * (demand - sold)
    burnt = rng.random() < 0.005
    return arrived - sold, cost, burnt


def main(days=60_000, gamma=0.95):
    rng = random.Random(0)
    cost_to_go = np.zeros((N, len(ORDER)))
    visits = np.zeros((N, len(ORDER)))
    stock = 5
    for day in range(days):
        epsilon = max(0.1, 1.0 - day / 20_000)
        if rng.random() < epsilon:
            choice = rng.randrange(len(ORDER))
        else:
            choice = int(cost_to_go[stock].argmin())
        following, cost, burnt = simulate(stock, ORDER[choice], rng)
        ahead = 0.0 if burnt else cost_to_go[following].min()
        visits[stock, choice] += 1
        step_size = 1.0 / visits[stock, choice] ** 0.7
        cost_to_go[stock, choice] -= step_size * (cost_to_go[stock, choice] - (cost + gamma * ahead))
        stock = 5 if burnt else following
    print("orders by stock:", [ORDER[c] for c in cost_to_go.argmin(axis=1)])
    return cost_to_go


if __name__ == "__main__":
    main()
