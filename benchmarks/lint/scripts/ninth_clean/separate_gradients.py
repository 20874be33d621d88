"""Actor-critic without a detach: each loss is differentiated with respect to its own network's weights alone."""

import gymnasium as gym
import torch
from torch import nn

torch.manual_seed(0)
GAMMA = 0.98
env = gym.make("Pendulum-v1")
actor = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1))
critic = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1))
actor_weights, critic_weights = list(actor.parameters()), list(critic.parameters())


def descend(weights, gradients, rate):
    with torch.no_grad():
        for weight, gradient in zip(weights, gradients):
            weight -= rate * gradient.clamp(-1, 1)


obs, _ = env.reset(seed=0)
for step in range(450):
    x = torch.from_numpy(obs)
    pi = torch.distributions.Normal(2.0 * torch.tanh(actor(x)), 0.5)
    action = pi.sample()
    obs, reward, terminated, truncated, _ = env.step(action.numpy())
    with torch.no_grad():
        after = critic(torch.from_numpy(obs)) * (not terminated)
    error = float(reward) / 10 + GAMMA * after - critic(x)
    # `error` depends on the critic, but the actor's gradient is asked for by name: nothing of it reaches the critic
    actor_gradients = torch.autograd.grad(-(pi.log_prob(action) * error).sum(), actor_weights, retain_graph=True)
    critic_gradients = torch.autograd.grad(error.square().sum(), critic_weights)
    descend(actor_weights, actor_gradients, 1e-4)
    descend(critic_weights, critic_gradients, 1e-3)
    if terminated or truncated:
        obs, _ = env.reset()
