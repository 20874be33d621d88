"""Advantage actor-critic with Lightning Fabric on continuous actions.

Gymnasium's vector environments reset in the step after an episode's end: that step's action is ignored and its reward is nothing, so it
takes no part in any loss (``valid`` is 0 there).
"""

import argparse

import gymnasium as gym
import numpy as np
import torch
from lightning.fabric import Fabric
from torch import Tensor
from torch.distributions import Normal


class ActorCritic(torch.nn.Module):
    def __init__(self, n_obs: int, n_act: int, low: Tensor, high: Tensor) -> None:
        super().__init__()
        self.policy = torch.nn.Sequential(torch.nn.Linear(n_obs, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2 * n_act))
        self.value = torch.nn.Sequential(torch.nn.Linear(n_obs, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
        self.register_buffer("low", low)
        self.register_buffer("high", high)

    def forward(self, obs: Tensor, raw: Tensor | None = None):
        mean, log_std = self.policy(obs).chunk(2, dim=-1)
        dist = Normal(mean, log_std.clamp(-3.0, 0.5).exp())
        if raw is None:
            raw = dist.sample()
        # tanh squashes the raw action into the box; its Jacobian belongs to the log-probability
        squashed = torch.tanh(raw)
        log_prob = (dist.log_prob(raw) - torch.log(1 - squashed.pow(2) + 1e-6)).sum(-1)
        action = self.low + 0.5 * (squashed + 1.0) * (self.high - self.low)
        return raw, action, log_prob, dist.entropy().sum(-1), self.value(obs).squeeze(-1)


def advantages_of(rewards: Tensor, values: Tensor, next_values: Tensor, terminated: Tensor, ended: Tensor, gamma: float, lam: float) -> Tensor:
    """All of shape (steps, envs); next_values[t] is of the observation that step t led to."""
    out = torch.zeros_like(rewards)
    carry = torch.zeros_like(rewards[0])
    for t in range(len(rewards) - 1, -1, -1):
        delta = rewards[t] + gamma * next_values[t] * (1.0 - terminated[t]) - values[t]
        carry = delta + gamma * lam * (1.0 - ended[t]) * carry
        out[t] = carry
    return out


class Collector:
    def __init__(self, envs, steps: int, seed: int) -> None:
        self.envs, self.steps = envs, steps
        self.obs, _ = envs.reset(seed=seed)
        self.resetting = np.zeros(envs.num_envs, dtype=bool)
        self.running, self.finished = np.zeros(envs.num_envs), []

    def collect(self, model) -> dict[str, Tensor]:
        names = ("obs", "raw", "rewards", "terminated", "ended", "valid", "next_obs")
        rows: dict[str, list] = {name: [] for name in names}
        for _ in range(self.steps):
            obs = torch.as_tensor(self.obs, dtype=torch.float32)
            with torch.no_grad():
                raw, action, *_ = model(obs)
            next_obs, reward, terminated, truncated, _ = self.envs.step(action.numpy())
            ended = terminated | truncated
            rows["obs"].append(obs)
            rows["raw"].append(raw)
            rows["rewards"].append(torch.as_tensor(reward, dtype=torch.float32))
            rows["terminated"].append(torch.as_tensor(terminated, dtype=torch.float32))
            rows["ended"].append(torch.as_tensor(ended, dtype=torch.float32))
            rows["valid"].append(torch.as_tensor(~self.resetting, dtype=torch.float32))
            rows["next_obs"].append(torch.as_tensor(next_obs, dtype=torch.float32))
            self.running += reward
            for i in np.flatnonzero(ended):
                self.finished.append(self.running[i])
                self.running[i] = 0.0
            self.obs = next_obs
            self.resetting = ended
        return {name: torch.stack(column) for name, column in rows.items()}


def update(fabric: Fabric, model, optimizer, batch: dict[str, Tensor], gamma: float, lam: float, beta: float) -> float:
    _, _, log_prob, entropy, values = model(batch["obs"], batch["raw"])
    with torch.no_grad():
        *_, next_values = model(batch["next_obs"], batch["raw"])
        advantages = advantages_of(batch["rewards"], values, next_values, batch["terminated"], batch["ended"], gamma, lam)
        returns = advantages + values
    valid = batch["valid"]
    count = valid.sum()
    kept = advantages[valid > 0]
    normalized = (advantages - kept.mean()) / (kept.std() + 1e-8)

    policy_loss = -(log_prob * normalized * valid).sum() / count
    value_loss = ((values - returns).pow(2) * valid).sum() / count
    entropy_loss = -(entropy * valid).sum() / count
    loss = policy_loss + 0.5 * value_loss + beta * entropy_loss

    optimizer.zero_grad()
    fabric.backward(loss)
    fabric.clip_gradients(model, optimizer, max_norm=1.0)
    optimizer.step()
    return loss.item()


@torch.no_grad()
def judge(env_id: str, model, episodes: int) -> float:
    env = gym.make(env_id)
    total = 0.0
    for k in range(episodes):
        obs, _ = env.reset(seed=4000 + k)
        over = False
        while not over:
            mean, _ = model.policy(torch.as_tensor(obs, dtype=torch.float32)).chunk(2, dim=-1)
            action = model.low + 0.5 * (torch.tanh(mean) + 1.0) * (model.high - model.low)
            obs, reward, terminated, truncated, _ = env.step(action.numpy())
            total += float(reward)
            over = terminated or truncated
    return total / episodes


def main(args: argparse.Namespace) -> None:
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    fabric.seed_everything(args.seed)
    envs = gym.make_vec(args.env_id, num_envs=args.num_envs, vectorization_mode="sync")
    box = envs.single_action_space
    net = ActorCritic(envs.single_observation_space.shape[0], box.shape[0], torch.as_tensor(box.low), torch.as_tensor(box.high))
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    model, optimizer = fabric.setup(net, optimizer)
    collector = Collector(envs, args.num_steps, args.seed)
    for iteration in range(1, args.iterations + 1):
        loss = update(fabric, model, optimizer, collector.collect(model), args.gamma, args.lam, args.beta)
        if iteration % 20 == 0:
            recent = collector.finished[-20:]
            fabric.print(f"{iteration}: return {np.mean(recent) if recent else float('nan'):.1f} loss {loss:.3f}")
    fabric.print("mean action:", judge(args.env_id, net, 5))
    envs.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--env-id", default="Pendulum-v1")
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--num-steps", type=int, default=32)
    parser.add_argument("--iterations", type=int, default=1500)
    parser.add_argument("--gamma", type=float, default=0.95)
    parser.add_argument("--lam", type=float, default=0.95)
    parser.add_argument("--beta", type=float, default=0.003)
    parser.add_argument("--lr", type=float, default=7e-4)
    parser.add_argument("--seed", type=int, default=2)
    main(parser.parse_args())
