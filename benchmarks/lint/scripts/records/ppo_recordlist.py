"""PPO whose rollout is a list of dataclass steps."""
from dataclasses import dataclass

import gymnasium as gym
import torch
from torch import nn


@dataclass
class Step:
    obs: torch.Tensor
    act: torch.Tensor
    logp: torch.Tensor
    value: torch.Tensor
    reward: float
    terminated: bool
    ended: bool
    next_value: torch.Tensor
    adv: float = 0.0


@dataclass
class Args:
    steps: int = 512
    epochs: int = 6
    minibatch: int = 64
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2
    ent: float = 0.01
    vf: float = 0.5
    lr: float = 3e-4


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(4, 64), nn.Tanh())
        self.logits = nn.Linear(64, 2)
        self.v = nn.Linear(64, 1)

    def forward(self, x):
        z = self.shared(x)
        return torch.distributions.Categorical(logits=self.logits(z)), self.v(z).squeeze(-1)


class Runner:
    def __init__(self, env, model, args):
        self.env, self.model, self.args = env, model, args
        self.obs = torch.as_tensor(env.reset(seed=0)[0])

    @torch.no_grad()
    def rollout(self):
        steps = []
        for _ in range(self.args.steps):
            dist, value = self.model(self.obs)
            act = dist.sample()
            nxt, reward, terminated, truncated, _ = self.env.step(act.item())
            nxt = torch.as_tensor(nxt)
            _, next_value = self.model(nxt)
            steps.append(Step(self.obs, act, dist.log_prob(act), value, float(reward), terminated, terminated or truncated, next_value))
            self.obs = torch.as_tensor(self.env.reset()[0]) if steps[-1].ended else nxt
        return steps

    def assign_advantages(self, steps):
        running = 0.0
        for step in reversed(steps):
            live = 0.0 if step.terminated else 1.0
            delta = step.reward + self.args.gamma * live * step.next_value - step.value
            if step.ended:
                running = 0.0
            running = delta + self.args.gamma * self.args.lam * running
            step.adv = running


def fit(model, opt, steps, args):
    obs = torch.stack([s.obs for s in steps])
    act = torch.stack([s.act for s in steps])
    old = torch.stack([s.logp for s in steps])
    adv = torch.stack([s.adv for s in steps])
    ret = adv + torch.stack([s.value for s in steps])
    for _ in range(args.epochs):
        for ids in torch.randperm(len(steps)).split(args.minibatch):
            dist, value = model(obs[ids])
            ratio = torch.exp(dist.log_prob(act[ids]) - old[ids])
            a = (adv[ids] - adv[ids].mean()) / (adv[ids].std() + 1e-8)
            clipped = torch.clamp(ratio, 1.0 - args.clip, 1.0 + args.clip)
            policy_loss = -torch.min(ratio * a, clipped * a).mean()
            value_loss = torch.nn.functional.mse_loss(value, ret[ids])
            loss = policy_loss + args.vf * value_loss - args.ent * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()


def main():
    args = Args()
    model = ActorCritic()
    runner = Runner(gym.make("CartPole-v1"), model, args)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for _ in range(60):
        steps = runner.rollout()
        runner.assign_advantages(steps)
        fit(model, opt, steps, args)


if __name__ == "__main__":
    main()
