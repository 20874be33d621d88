"""DAgger: the learner drives, the teacher says what it would have done; all labels ever given are trained on again in each round."""
import gymnasium as gym
import numpy as np
import torch
from torch import nn


def teacher(obs):
    x, v, angle, spin = obs
    return int(0.1 * x + 0.3 * v + 3.0 * angle + 1.0 * spin > 0)


def drive(env, choose, seed):
    obs, _ = env.reset(seed=seed)
    seen, over = [], False
    while not over:
        seen.append(obs)
        obs, _, fallen, late, _ = env.step(choose(obs))
        over = fallen or late
    return seen


def main(rounds=6, per_round=5):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    env = gym.make("CartPole-v1")
    student = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    opt = torch.optim.Adam(student.parameters(), lr=3e-3)

    @torch.no_grad()
    def own(obs):
        return student(torch.as_tensor(obs)).argmax().item()

    X, Y = [], []
    for k in range(rounds):
        beta = 0.5**k  # share of steps that the teacher still drives itself
        lengths = []
        for e in range(per_round):
            seen = drive(env, lambda o: teacher(o) if rng.random() < beta else own(o), seed=100 * k + e)
            X += seen
            Y += [teacher(o) for o in seen]
            lengths.append(len(seen))
        x, y = torch.as_tensor(np.array(X)), torch.tensor(Y)
        for _ in range(150):
            i = torch.randint(len(y), (128,))
            loss = nn.functional.cross_entropy(student(x[i]), y[i])
            opt.zero_grad()
            loss.backward()
            opt.step()
        alone = np.mean([len(drive(env, own, seed=9000 + e)) for e in range(3)])
        print(k, "driven", np.mean(lengths), "alone", alone)


if __name__ == "__main__":
    main()
