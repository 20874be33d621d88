# n-step advantage actor-critic; several copies of the environment are stepped in turn by one agent
import argparse
from dataclasses import dataclass, field

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical


class Net(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.pi = nn.Linear(64, n_out)
        self.v = nn.Linear(64, 1)

    def forward(self, x):
        h = self.body(x)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


@dataclass
class Memory:
    """What happened since the last update, a row a step and a column a worker."""

    states: list = field(default_factory=list)
    actions: list = field(default_factory=list)
    rewards: list = field(default_factory=list)
    next_states: list = field(default_factory=list)
    terminals: list = field(default_factory=list)
    cuts: list = field(default_factory=list)

    def append(self, states, actions, rewards, next_states, terminals, cuts):
        self.states.append(states)
        self.actions.append(actions)
        self.rewards.append(rewards)
        self.next_states.append(next_states)
        self.terminals.append(terminals)
        self.cuts.append(cuts)

    def clear(self):
        for column in vars(self).values():
            column.clear()


class A2CAgent:
    def __init__(self, n_in, n_out, gamma=0.99, n_steps=8, lr=1e-3, beta=0.01, value_weight=0.5):
        self.net = Net(n_in, n_out)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)
        self.gamma, self.n_steps, self.beta, self.value_weight = gamma, n_steps, beta, value_weight
        self.memory = Memory()

    @torch.no_grad()
    def act(self, states, deterministic=False):
        dist, _ = self.net(torch.as_tensor(states, dtype=torch.float32))
        choice = dist.probs.argmax(-1) if deterministic else dist.sample()
        return choice.numpy()

    def step(self, *transition):
        self.memory.append(*transition)
        if len(self.memory.states) == self.n_steps:
            self.learn()
            self.memory.clear()

    def learn(self):
        states = torch.as_tensor(np.stack(self.memory.states), dtype=torch.float32)
        actions = torch.as_tensor(np.stack(self.memory.actions))
        rewards = torch.as_tensor(np.stack(self.memory.rewards), dtype=torch.float32)
        terminals = torch.as_tensor(np.stack(self.memory.terminals), dtype=torch.float32)
        cuts = torch.as_tensor(np.stack(self.memory.cuts), dtype=torch.float32)
        with torch.no_grad():
            _, next_values = self.net(torch.as_tensor(np.stack(self.memory.next_states), dtype=torch.float32))
        returns = torch.empty_like(rewards)
        carried = next_values[-1]
        for t in reversed(range(self.n_steps)):
            carried = torch.where(cuts[t] > 0, next_values[t], carried)
            carried = rewards[t] + self.gamma * (1 - terminals[t]) * carried
            returns[t] = carried

        dist, values = self.net(states)
        advantages = returns - values
        policy_loss = -(dist.log_prob(actions) * advantages.detach()).mean()
        value_loss = advantages.pow(2).mean()
        loss = policy_loss + self.value_weight * value_loss - self.beta * dist.entropy().mean()
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
        self.opt.step()


class Worker:
    def __init__(self, env_id, seed):
        self.env = gym.make(env_id)
        self.state, _ = self.env.reset(seed=seed)
        self.score, self.scores = 0.0, []

    def step(self, action):
        """What followed the action; the next state is that of the same episode, even where a new one begins."""
        next_state, reward, terminated, truncated, _ = self.env.step(int(action))
        self.score += float(reward)
        if terminated or truncated:
            self.scores.append(self.score)
            self.score = 0.0
            self.state, _ = self.env.reset()
        else:
            self.state = next_state
        return reward, next_state, terminated, truncated and not terminated


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--env", default="CartPole-v1")
    p.add_argument("--workers", type=int, default=8)
    p.add_argument("--steps", type=int, default=25_000)
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    torch.manual_seed(a.seed)
    workers = [Worker(a.env, a.seed + rank) for rank in range(a.workers)]
    agent = A2CAgent(workers[0].env.observation_space.shape[0], workers[0].env.action_space.n)
    for step in range(a.steps):
        states = np.stack([w.state for w in workers])
        actions = agent.act(states)
        rewards, next_states, terminals, cuts = map(np.array, zip(*(w.step(x) for w, x in zip(workers, actions))))
        agent.step(states, actions, rewards, next_states, terminals, cuts)
        if (step + 1) % 1000 == 0:
            recent = [s for w in workers for s in w.scores[-5:]]
            print(step + 1, np.mean(recent) if recent else "-")

    judge = gym.make(a.env)
    results = []
    for episode in range(10):
        s, _ = judge.reset(seed=9000 + episode)
        total, over = 0.0, False
        while not over:
            s, r, term, trunc, _ = judge.step(int(agent.act(s[None], deterministic=True)[0]))
            total += float(r)
            over = term or trunc
        results.append(total)
    print("judged:", np.mean(results))


if __name__ == "__main__":
    main()
