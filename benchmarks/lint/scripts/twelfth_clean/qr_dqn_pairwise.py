"""QR-DQN. The loss compares every predicted quantile with every target quantile: [B, N, 1] against [B, 1, N] is meant."""
import gymnasium as gym
import numpy as np
import torch
from torch import nn

N = 32  # quantiles
BATCH, GAMMA, CAPACITY = 64, 0.99, 40_000


class QuantileNet(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.n_act = n_act
        self.body = nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, n_act * N))

    def forward(self, x):
        return self.body(x).view(-1, self.n_act, N)


def quantile_huber(predicted, wanted, taus):
    u = wanted.unsqueeze(1) - predicted.unsqueeze(2)  # [B, N predicted, N wanted]
    huber = torch.where(u.abs() <= 1.0, 0.5 * u.pow(2), u.abs() - 0.5)
    weight = (taus.view(1, N, 1) - (u.detach() < 0).float()).abs()
    return (weight * huber).mean(dim=2).sum(dim=1).mean()


def main(total=60_000, warmup=1_000):
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    env = gym.make("CartPole-v1")
    net, lagged = QuantileNet(4, 2), QuantileNet(4, 2)
    lagged.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4, eps=0.01 / BATCH)
    taus = (torch.arange(N) + 0.5) / N

    store = {
        "s": np.zeros((CAPACITY, 4), np.float32),
        "s2": np.zeros((CAPACITY, 4), np.float32),
        "a": np.zeros(CAPACITY, np.int64),
        "r": np.zeros(CAPACITY, np.float32),
        "go_on": np.zeros(CAPACITY, np.float32),
    }
    size, at = 0, 0
    obs, _ = env.reset(seed=1)
    score, scores = 0.0, []
    for t in range(1, total + 1):
        if rng.random() < max(0.02, 1 - t / 10_000):
            action = int(rng.integers(2))
        else:
            with torch.no_grad():
                action = int(net(torch.from_numpy(obs)).mean(dim=2).argmax())
        nxt, reward, terminated, truncated, _ = env.step(action)
        for key, value in zip(store, (obs, nxt, action, reward, not terminated)):
            store[key][at] = value
        at, size = (at + 1) % CAPACITY, min(size + 1, CAPACITY)
        score += reward
        obs = nxt
        if terminated or truncated:
            scores.append(score)
            score = 0.0
            obs, _ = env.reset()

        if size >= warmup and t % 2 == 0:
            rows = rng.integers(size, size=BATCH)
            s, s2, a, r, go_on = (torch.from_numpy(column[rows]) for column in store.values())
            with torch.no_grad():
                after = lagged(s2)
                best = after.mean(dim=2).argmax(dim=1)
                wanted = r[:, None] + GAMMA * go_on[:, None] * after[torch.arange(BATCH), best]
            loss = quantile_huber(net(s)[torch.arange(BATCH), a], wanted, taus)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if t % 1_000 == 0:
            lagged.load_state_dict(net.state_dict())
        if t % 5_000 == 0:
            print(f"{t}: {np.mean(scores[-20:]):.1f}")


if __name__ == "__main__":
    main()
