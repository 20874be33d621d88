"""A2C with a runner object that yields segments, and a model whose heads share a body."""

from types import SimpleNamespace

import gymnasium as gym
import torch as th
import torch.nn as nn


class ActorCritic(nn.Module):
    def __init__(self, inputs, choices):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 128), nn.Tanh())
        self.actor = nn.Linear(128, choices)
        self.critic = nn.Linear(128, 1)

    def forward(self, x):
        features = self.body(x)
        return th.distributions.Categorical(logits=self.actor(features)), self.critic(features).squeeze(-1)

    @th.no_grad()
    def worth(self, x):
        return self(x)[1]


class Runner:
    """Steps several environments and hands out segments of a fixed length."""

    def __init__(self, tasks, model, length):
        self.tasks, self.model, self.length = tasks, model, length
        first, _ = tasks.reset(seed=5)
        self.x = th.as_tensor(first, dtype=th.float32)

    def segments(self):
        while True:
            xs, us, rs, ends, resets, worths = [], [], [], [], [], []
            for _ in range(self.length):
                with th.no_grad():
                    dist, _ = self.model(self.x)
                    u = dist.sample()
                y, r, ended, timed_out, _ = self.tasks.step(u.numpy())
                y = th.as_tensor(y, dtype=th.float32)
                xs.append(self.x)
                us.append(u)
                rs.append(th.as_tensor(r, dtype=th.float32))
                ends.append(th.as_tensor(ended, dtype=th.float32))
                resets.append(th.as_tensor(ended | timed_out, dtype=th.float32))
                worths.append(self.model.worth(y))
                self.x = y
                if (ended | timed_out).any():
                    fresh, _ = self.tasks.reset(options={"reset_mask": ended | timed_out})
                    self.x = th.as_tensor(fresh, dtype=th.float32)
            yield SimpleNamespace(
                x=th.stack(xs), u=th.stack(us), r=th.stack(rs), end=th.stack(ends), reset=th.stack(resets), worth=th.stack(worths)
            )


class Trainer:
    def __init__(self, gamma=0.99, length=16, value_weight=0.5, entropy_weight=0.01, lr=7e-4):
        mode = {"autoreset_mode": gym.vector.AutoresetMode.DISABLED}
        self.tasks = gym.make_vec("CartPole-v1", num_envs=16, vector_kwargs=mode)
        self.model = ActorCritic(self.tasks.single_observation_space.shape[0], self.tasks.single_action_space.n)
        self.runner = Runner(self.tasks, self.model, length)
        self.optim = th.optim.RMSprop(self.model.parameters(), lr=lr, alpha=0.99, eps=1e-5)
        self.gamma, self.value_weight, self.entropy_weight = gamma, value_weight, entropy_weight

    def targets(self, segment):
        """Discounted sums of rewards, bootstrapped where the segment or an episode's clock ends."""
        out = th.zeros_like(segment.r)
        onward = segment.worth[-1]
        for i in reversed(range(len(segment.r))):
            tail = segment.reset[i] * segment.worth[i] + (1 - segment.reset[i]) * onward
            onward = segment.r[i] + self.gamma * (1 - segment.end[i]) * tail
            out[i] = onward
        return out

    def losses(self, segment):
        dist, worth = self.model(segment.x)
        goal = self.targets(segment)
        edge = (goal - worth).detach()
        actor = -(dist.log_prob(segment.u) * edge).mean()
        critic = (goal - worth).pow(2).mean()
        spread = dist.entropy().mean()
        return actor, critic, spread

    def fit(self, n):
        for count, segment in enumerate(self.runner.segments()):
            actor, critic, spread = self.losses(segment)
            total = actor + self.value_weight * critic - self.entropy_weight * spread
            self.optim.zero_grad()
            total.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
            self.optim.step()
            if count % 100 == 0:
                print(count, segment.reset.sum().item())
            if count == n:
                break


if __name__ == "__main__":
    th.manual_seed(5)
    Trainer().fit(5000)
