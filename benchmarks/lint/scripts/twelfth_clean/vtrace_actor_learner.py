"""V-trace: an actor with an old copy of the policy, and a learner that corrects for the age of the data."""
import copy
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

UNROLL, QUEUE, GAMMA = 32, 8, 0.99
RHO_BAR, C_BAR = 1.0, 1.0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
        self.v = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))


class Actor:
    def __init__(self, seed):
        self.env = gym.make("CartPole-v1")
        self.obs, _ = self.env.reset(seed=seed)
        self.score, self.scores = 0.0, deque(maxlen=20)

    @torch.no_grad()
    def unroll(self, net):
        rows = []
        for _ in range(UNROLL):
            logits = net.pi(torch.from_numpy(self.obs))
            action = torch.distributions.Categorical(logits=logits).sample()
            nxt, reward, terminated, truncated, _ = self.env.step(action.item())
            self.score += reward
            rows.append((self.obs, action.item(), logits.log_softmax(-1)[action].item(), reward, nxt, terminated, terminated or truncated))
            self.obs = nxt
            if terminated or truncated:
                self.scores.append(self.score)
                self.score = 0.0
                self.obs, _ = self.env.reset()
        return [torch.as_tensor(np.array(column), dtype=torch.float32) for column in zip(*rows)]


def vtrace(rhos, rewards, values, next_values, terminated, ended):
    """Targets for the values and advantages for the policy; all of it without gradient."""
    clipped = rhos.clamp(max=RHO_BAR)
    cs = rhos.clamp(max=C_BAR)
    deltas = clipped * (rewards + GAMMA * (1 - terminated) * next_values - values)
    corrections, carry = torch.zeros_like(values), torch.tensor(0.0)
    for t in reversed(range(len(values))):
        carry = deltas[t] + GAMMA * (1 - ended[t]) * cs[t] * carry
        corrections[t] = carry
    vs = values + corrections
    # behind an end, and behind the last step, the plain value takes the place of the corrected one
    following = torch.cat([vs[1:], next_values[-1:]])
    following = torch.where(ended > 0, next_values, following)
    advantages = clipped * (rewards + GAMMA * (1 - terminated) * following - values)
    return vs, advantages


def main(rounds=4_000):
    torch.manual_seed(0)
    learner = Net()
    behaviour = copy.deepcopy(learner)
    optimizer = torch.optim.RMSprop(learner.parameters(), lr=1e-3, eps=1e-3)
    actor = Actor(seed=0)

    for step in range(1, rounds + 1):
        if step % QUEUE == 0:  # the actor lags behind, which is the point
            behaviour.load_state_dict(learner.state_dict())
        obs, actions, old_log_probs, rewards, nxt, terminated, ended = actor.unroll(behaviour)

        log_pi = F.log_softmax(learner.pi(obs), dim=-1)
        log_probs = log_pi.gather(1, actions.long()[:, None])[:, 0]
        values = learner.v(obs)[:, 0]
        with torch.no_grad():
            next_values = learner.v(nxt)[:, 0]
            vs, advantages = vtrace((log_probs - old_log_probs).exp(), rewards, values, next_values, terminated, ended)

        entropy = -(log_pi.exp() * log_pi).sum(dim=1).mean()
        loss = -(log_probs * advantages).mean() + 0.25 * F.mse_loss(values, vs) - 0.005 * entropy
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(learner.parameters(), 1.0)
        optimizer.step()

        if step % 400 == 0 and actor.scores:
            print(f"{step * UNROLL} frames: {np.mean(actor.scores):.1f}")


if __name__ == "__main__":
    main()
