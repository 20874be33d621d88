"""SAC with Lightning Fabric: one function that trains, batches as dictionaries, an entropy temperature that is learned."""

import copy
import math

import gymnasium as gym
import numpy as np
import torch
from lightning.fabric import Fabric
from torch import nn
from torch.nn import functional as F


class Ring:
    """The last transitions, as arrays."""

    def __init__(self, room, n_obs, n_act):
        self.room, self.filled, self.at = room, 0, 0
        self.data = {
            "s": np.zeros((room, n_obs), np.float32),
            "a": np.zeros((room, n_act), np.float32),
            "r": np.zeros(room, np.float32),
            "s_next": np.zeros((room, n_obs), np.float32),
            "stop": np.zeros(room, np.float32),
        }

    def put(self, **row):
        for key, value in row.items():
            self.data[key][self.at] = value
        self.at = (self.at + 1) % self.room
        self.filled = min(self.filled + 1, self.room)

    def draw(self, n):
        rows = np.random.randint(0, self.filled, size=n)
        return {key: torch.from_numpy(values[rows]) for key, values in self.data.items()}


class Twin(nn.Module):
    def __init__(self, n_obs, n_act, width=256):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(n_obs + n_act, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
        self.second = nn.Sequential(nn.Linear(n_obs + n_act, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, s, a):
        both = torch.cat([s, a], dim=-1)
        return self.first(both).squeeze(-1), self.second(both).squeeze(-1)


class Squashed(nn.Module):
    def __init__(self, n_obs, n_act, width=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_obs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.centre, self.spread = nn.Linear(width, n_act), nn.Linear(width, n_act)

    def forward(self, s):
        h = self.body(s)
        normal = torch.distributions.Normal(self.centre(h), self.spread(h).clamp(-5, 2).exp())
        u = normal.rsample()
        log_pi = normal.log_prob(u).sum(-1)
        log_pi = log_pi - (2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1)
        return torch.tanh(u), log_pi


def soft_copy(source, target, share):
    with torch.no_grad():
        for new, old in zip(source.parameters(), target.parameters()):
            old.mul_(1 - share).add_(share * new)


def critic_objective(batch, critic, critic_slow, actor, temperature, discount):
    with torch.no_grad():
        a_next, log_pi_next = actor(batch["s_next"])
        one, two = critic_slow(batch["s_next"], a_next)
        soft = torch.minimum(one, two) - temperature * log_pi_next
        goal = batch["r"] + discount * (1.0 - batch["stop"]) * soft
    q_one, q_two = critic(batch["s"], batch["a"])
    return F.mse_loss(q_one, goal) + F.mse_loss(q_two, goal)


def actor_objective(batch, critic, actor, temperature):
    a, log_pi = actor(batch["s"])
    worst = torch.minimum(*critic(batch["s"], a))
    return (temperature * log_pi - worst).mean(), log_pi.detach()


def main(steps=100_000, warmup=1_000, batch_size=256, discount=0.99, share=0.005, lr=3e-4):
    fabric = Fabric(accelerator="cpu")
    fabric.seed_everything(3)
    world = gym.make("Pendulum-v1")
    n_obs, n_act = world.observation_space.shape[0], world.action_space.shape[0]
    scale = float(world.action_space.high[0])
    actor, critic = Squashed(n_obs, n_act), Twin(n_obs, n_act)
    critic_slow = copy.deepcopy(critic).requires_grad_(False)
    log_temperature = torch.zeros((), requires_grad=True)
    wanted_entropy = -float(n_act)
    actor, actor_opt = fabric.setup(actor, torch.optim.Adam(actor.parameters(), lr=lr))
    critic, critic_opt = fabric.setup(critic, torch.optim.Adam(critic.parameters(), lr=lr))
    temperature_opt = torch.optim.Adam([log_temperature], lr=lr)
    ring = Ring(200_000, n_obs, n_act)
    s, _ = world.reset(seed=3)
    score = 0.0
    for step in range(steps):
        if step < warmup:
            a = np.random.uniform(-1, 1, size=n_act)
        else:
            with torch.no_grad():
                a = actor(torch.as_tensor(s).unsqueeze(0))[0].squeeze(0).numpy()
        s_next, r, stop, limit, _ = world.step(scale * a)
        ring.put(s=s, a=a, r=r, s_next=s_next, stop=float(stop))
        score += r
        s = s_next
        if stop or limit:
            print(step, score)
            s, _ = world.reset()
            score = 0.0
        if step < warmup:
            continue
        batch = ring.draw(batch_size)
        temperature = log_temperature.exp().detach()
        critic_loss = critic_objective(batch, critic, critic_slow, actor, temperature, discount)
        critic_opt.zero_grad()
        fabric.backward(critic_loss)
        critic_opt.step()
        actor_loss, log_pi = actor_objective(batch, critic, actor, temperature)
        actor_opt.zero_grad()
        fabric.backward(actor_loss)
        actor_opt.step()
        temperature_loss = -(log_temperature * (log_pi + wanted_entropy)).mean()
        temperature_opt.zero_grad()
        fabric.backward(temperature_loss)
        temperature_opt.step()
        soft_copy(critic, critic_slow, share)


if __name__ == "__main__":
    main()
