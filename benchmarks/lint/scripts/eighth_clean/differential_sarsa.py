"""Average-reward SARSA (Sutton and Barto, section 10.3) for a queue that never ends.

There is no discount and no episode: what the target subtracts is the running estimate of the reward rate.
"""
import torch
from torch import nn

SERVERS, PRIORITIES = 6, (1.0, 2.0, 4.0, 8.0)


class AccessControl:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.free, self.customer = SERVERS, 0

    def rand(self):
        return torch.rand((), generator=self.generator).item()

    def features(self):
        x = torch.zeros(SERVERS + 1 + len(PRIORITIES))
        x[self.free] = 1.0
        x[SERVERS + 1 + self.customer] = 1.0
        return x

    def step(self, accept):
        reward = 0.0
        if accept and self.free > 0:
            reward = PRIORITIES[self.customer]
            self.free -= 1
        busy = SERVERS - self.free
        self.free += sum(self.rand() < 0.06 for _ in range(busy))
        self.customer = int(self.rand() * len(PRIORITIES))
        return reward


def pick(q, x, epsilon, world):
    if world.rand() < epsilon:
        return int(world.rand() * 2)
    with torch.no_grad():
        return int(q(x).argmax())


def main(steps=15_000):
    torch.manual_seed(0)
    world = AccessControl(seed=1)
    q = nn.Linear(SERVERS + 1 + len(PRIORITIES), 2, bias=False)
    nn.init.zeros_(q.weight)
    optimizer = torch.optim.SGD(q.parameters(), lr=0.02)
    rate = 0.0
    x = world.features()
    action = pick(q, x, 0.1, world)
    for step in range(steps):
        reward = world.step(action)
        x2 = world.features()
        action2 = pick(q, x2, 0.1, world)
        with torch.no_grad():
            target = reward - rate + q(x2)[action2]
        delta = target - q(x)[action]
        optimizer.zero_grad()
        (0.5 * delta.pow(2)).backward()
        optimizer.step()
        rate += 0.005 * delta.item()
        x, action = x2, action2
        if step % 5000 == 4999:
            print(f"{step + 1}: estimated reward a step {rate:.2f}")


if __name__ == "__main__":
    main()
