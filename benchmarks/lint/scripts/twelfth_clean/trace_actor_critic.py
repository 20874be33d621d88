"""One-step actor-critic with eligibility traces: gradients come from autograd.grad, and the parameters are moved by hand.

There is no optimizer and no loss, hence also no zero_grad. The gradients are those of the value and of the log-probability
themselves, and the TD error only scales the traces.
"""
import gymnasium as gym
import torch
from torch import nn

GAMMA = 0.99
LAMBDA_V, LAMBDA_PI = 0.9, 0.9
STEP_V, STEP_PI = 5e-4, 1e-4


class Traces:
    def __init__(self, module, decay):
        self.params = list(module.parameters())
        self.decay = decay
        self.clear()

    def clear(self):
        self.z = [torch.zeros_like(p) for p in self.params]

    def add(self, output):
        grads = torch.autograd.grad(output, self.params)
        self.z = [self.decay * z + g for z, g in zip(self.z, grads)]

    @torch.no_grad()
    def apply(self, size):
        for p, z in zip(self.params, self.z):
            p += size * z


def main(episodes=1_500):
    torch.manual_seed(0)
    env = gym.make("CartPole-v1")
    value = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
    z_v = Traces(value, GAMMA * LAMBDA_V)
    z_pi = Traces(policy, GAMMA * LAMBDA_PI)
    scores = []

    for episode in range(1, episodes + 1):
        obs, _ = env.reset(seed=0 if episode == 1 else None)
        z_v.clear()
        z_pi.clear()
        state, score, over = torch.from_numpy(obs), 0.0, False
        while not over:
            dist = torch.distributions.Categorical(logits=policy(state))
            action = dist.sample()
            obs, reward, terminated, truncated, _ = env.step(action.item())
            after = torch.from_numpy(obs)
            v = value(state).squeeze()
            with torch.no_grad():
                v_after = torch.tensor(0.0) if terminated else value(after).squeeze()
            delta = (0.1 * reward + GAMMA * v_after - v).item()

            z_v.add(v)
            z_pi.add(dist.log_prob(action))
            z_v.apply(STEP_V * delta)
            z_pi.apply(STEP_PI * delta)  # plus: uphill

            state = after
            score += reward
            over = terminated or truncated
        scores.append(score)
        if episode % 100 == 0:
            print(f"{episode}: {sum(scores[-100:]) / 100:.1f}")


if __name__ == "__main__":
    main()
