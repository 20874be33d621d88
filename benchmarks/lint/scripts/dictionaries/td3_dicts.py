"""TD3; batches and networks are dictionaries."""
import copy

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn

cfg = dict(gamma=0.99, tau=0.005, policy_noise=0.2, noise_clip=0.5, delay=2, explore=0.1, batch=256, start=1000, total=20000)


def mlp(i, o, last=nn.Identity):
    return nn.Sequential(nn.Linear(i, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, o), last())


class Buffer:
    KEYS = ("obs", "act", "rew", "obs2", "term")

    def __init__(self, size):
        self.data = {k: [] for k in self.KEYS}
        self.size = size

    def add(self, transition):
        for k, v in transition.items():
            self.data[k].append(v)
            if len(self.data[k]) > self.size:
                del self.data[k][0]

    def sample(self, n):
        idx = np.random.choice(len(self.data["rew"]), n)
        return {k: torch.as_tensor(np.array([self.data[k][i] for i in idx]), dtype=torch.float32) for k in self.KEYS}


env = gym.make("Pendulum-v1")
n, m, high = 3, 1, float(env.action_space.high[0])
nets = {"actor": mlp(n, m, nn.Tanh), "q1": mlp(n + m, 1), "q2": mlp(n + m, 1)}
targets = {name: copy.deepcopy(net) for name, net in nets.items()}
opts = {
    "actor": torch.optim.Adam(nets["actor"].parameters(), lr=3e-4),
    "critic": torch.optim.Adam(list(nets["q1"].parameters()) + list(nets["q2"].parameters()), lr=3e-4),
}


def q(bag, name, obs, act):
    return bag[name](torch.cat([obs, act], dim=-1)).squeeze(-1)


def critic_loss(batch):
    with torch.no_grad():
        noise = (torch.randn_like(batch["act"]) * cfg["policy_noise"]).clamp(-cfg["noise_clip"], cfg["noise_clip"])
        act2 = (high * targets["actor"](batch["obs2"]) + noise).clamp(-high, high)
        q_next = torch.minimum(q(targets, "q1", batch["obs2"], act2), q(targets, "q2", batch["obs2"], act2))
        backup = batch["rew"] + cfg["gamma"] * (1 - batch["term"]) * q_next
    losses = {name: (q(nets, name, batch["obs"], batch["act"]) - backup).pow(2).mean() for name in ("q1", "q2")}
    return sum(losses.values())


def actor_loss(batch):
    return -q(nets, "q1", batch["obs"], high * nets["actor"](batch["obs"])).mean()


def minimize(name, loss):
    opts[name].zero_grad()
    loss.backward()
    opts[name].step()


def follow():
    for name in nets:
        for p, tp in zip(nets[name].parameters(), targets[name].parameters()):
            tp.data.lerp_(p.data, cfg["tau"])


def explore(obs):
    with torch.no_grad():
        act = high * nets["actor"](torch.as_tensor(obs)).numpy()
    return np.clip(act + high * cfg["explore"] * np.random.randn(m), -high, high).astype(np.float32)


def main():
    buffer = Buffer(100_000)
    obs, _ = env.reset(seed=2)
    for t in range(cfg["total"]):
        act = explore(obs) if t > cfg["start"] else env.action_space.sample()
        obs2, rew, term, trunc, _ = env.step(act)
        buffer.add({"obs": obs, "act": act, "rew": rew, "obs2": obs2, "term": term})
        obs = obs2
        if term or trunc:
            obs, _ = env.reset()
        if t > cfg["start"]:
            batch = buffer.sample(cfg["batch"])
            minimize("critic", critic_loss(batch))
            if t % cfg["delay"] == 0:
                minimize("actor", actor_loss(batch))
                follow()


if __name__ == "__main__":
    main()
