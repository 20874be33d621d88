"""Evolution strategies with mirrored noise and ranked fitness. The gradient is put into .grad by hand; nobody calls backward."""
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

PAIRS, SIGMA, GENERATIONS = 24, 0.1, 60


def centred_ranks(x):
    ranks = np.empty(len(x))
    ranks[np.argsort(x)] = np.arange(len(x))
    return ranks / (len(x) - 1) - 0.5


@torch.no_grad()
def fitness(env, net, vector, seed):
    vector_to_parameters(vector, net.parameters())
    obs, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        obs, reward, terminated, truncated, _ = env.step(int(net(torch.from_numpy(obs)).argmax()))
        total += float(reward)
        over = terminated or truncated
    return total


def main():
    torch.manual_seed(0)
    env = gym.make("CartPole-v1")
    net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    centre = nn.Parameter(parameters_to_vector(net.parameters()).detach().clone())
    optimizer = torch.optim.Adam([centre], lr=0.05, weight_decay=0.005)

    for generation in range(GENERATIONS):
        noise = torch.randn(PAIRS, centre.numel())
        # one seed for the whole generation: common random numbers make the comparison fairer
        seed = 1000 + generation
        plus = [fitness(env, net, centre.data + SIGMA * n, seed) for n in noise]
        minus = [fitness(env, net, centre.data - SIGMA * n, seed) for n in noise]
        ranks = centred_ranks(np.array(plus + minus))
        weights = torch.tensor(ranks[:PAIRS] - ranks[PAIRS:], dtype=torch.float32)

        centre.grad = -(weights @ noise) / (2 * PAIRS * SIGMA)  # minus: the optimizer goes downhill
        optimizer.step()

        if generation % 5 == 0:
            scores = [fitness(env, net, centre.data, 50 + k) for k in range(3)]
            print(f"generation {generation}: population {np.mean(plus + minus):.1f} centre {np.mean(scores):.1f}")


if __name__ == "__main__":
    main()
