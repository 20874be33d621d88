"""Equations that formulas are put to by their slopes: each finds the fault, in whatever form, and leaves its twin alone."""

import pytest

from rlclinic.diagnosis.lint.code import linter
from rlclinic.diagnosis.lint.code.reading.script import Script
from rlclinic.diagnosis.lint.code.reading.sources import Source
from rlclinic.diagnosis.lint.code.symbolic import equations

DISCRETE = """
import copy, random
import gymnasium as gym
import torch
from torch import nn

policy, critic = nn.Linear(4, 2), nn.Linear(4, 2)
slow = copy.deepcopy(critic)
log_alpha = torch.zeros(1, requires_grad=True)
pi_optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
q_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
alpha_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)
memory = []

def learn():
    x, a, r, y, end = (torch.tensor(each) for each in zip(*random.sample(memory, 32)))
    with torch.no_grad():
        scores = torch.log_softmax(policy(y), -1)
        soft = (scores.exp() * (slow(y) - log_alpha.exp() * scores)).sum(-1)
        goal = r + 0.99 * (1 - end) * soft
    q_loss = ((critic(x).gather(1, a[:, None])[:, 0] - goal) ** 2).mean()
    q_optimizer.zero_grad(); q_loss.backward(); q_optimizer.step()
    scores = torch.log_softmax(policy(x), -1)
    with torch.no_grad():
        worth = critic(x)
    pi_loss = (scores.exp() * (log_alpha.exp().detach() * scores - worth)).sum(-1).mean()
    pi_optimizer.zero_grad(); pi_loss.backward(); pi_optimizer.step()
    spread = -(scores.exp() * scores).sum(-1).mean().detach()
    alpha_loss = log_alpha * (spread - 0.3)
    alpha_optimizer.zero_grad(); alpha_loss.backward(); alpha_optimizer.step()

env = gym.make("CartPole-v1")
x, _ = env.reset()
for step in range(10_000):
    a = torch.distributions.Categorical(logits=policy(torch.tensor(x))).sample().item()
    y, r, end, cut, _ = env.step(a)
    memory.append((x, a, r, y, float(end)))
    x = env.reset()[0] if end or cut else y
    if len(memory) > 1_000:
        learn()
"""
EXPECTILE = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn

value, critic, actor = nn.Linear(2, 1), nn.Linear(3, 1), nn.Linear(2, 1)
optimizers = [torch.optim.Adam(net.parameters(), lr=3e-4) for net in (value, critic, actor)]
env = gym.make("MountainCarContinuous-v0")
rows = []
x, _ = env.reset(seed=0)
for _ in range(5_000):
    a = env.action_space.sample()
    y, r, end, cut, _ = env.step(a)
    rows.append((x, a, r, y, end))
    x = env.reset()[0] if end or cut else y
X, A, R, Y, END = (torch.from_numpy(np.array(column, dtype=np.float32)) for column in zip(*rows))

for _ in range(1_000):
    i = torch.randint(len(X), (64,))
    x, a, r, y, end = X[i], A[i], R[i], Y[i], END[i]
    with torch.no_grad():
        q = critic(torch.cat([x, a], 1))[:, 0]
        goal = r + 0.99 * (1 - end) * value(y)[:, 0]
    gain = q - value(x)[:, 0]
    v_loss = ((0.8 - (gain < 0).float()).abs() * gain ** 2).mean()
    q_loss = ((critic(torch.cat([x, a], 1))[:, 0] - goal) ** 2).mean()
    pi_loss = (torch.exp(3.0 * gain.detach()) * ((actor(x) - a) ** 2).sum(1)).mean()
    for optimizer, loss in zip(optimizers, (v_loss, q_loss, pi_loss)):
        optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


def found(text: str) -> set[str]:
    """Checks whose equations do not hold."""
    script: Script = linter.parse(Source("script", text))
    return {id for id, laws in equations.MEANINGS.items() for law in laws for _ in law(script)}


@pytest.mark.parametrize("script", [DISCRETE, EXPECTILE])
def test_sound_formulas_obey_every_equation(script):
    assert found(script) == set()


@pytest.mark.parametrize(
    ("script", "right", "wrong", "law"),
    [
        (DISCRETE, "0.99 * (1 - end) * soft", "0.99 * soft", "COD501"),
        (DISCRETE, "0.99 * (1 - end) * soft", "0.99 * end * soft", "COD502"),
        (DISCRETE, "0.99 * (1 - end) * soft", "9.9 * (1 - end) * soft", "COD512"),
        (DISCRETE, "slow(y) - log_alpha.exp() * scores", "slow(y) + log_alpha.exp() * scores", "COD523"),
        (DISCRETE, "detach() * scores - worth", "detach() * scores + worth", "COD524"),
        (DISCRETE, "log_alpha * (spread - 0.3)", "log_alpha * (0.3 - spread)", "COD525"),
        (DISCRETE, "(scores.exp() * (log_alpha.exp().detach() * scores - worth))", "(log_alpha.exp().detach() * scores - worth)", "COD528"),
        (EXPECTILE, "(0.8 - (gain < 0).float())", "(0.8 - (gain > 0).float())", "COD305"),
        (EXPECTILE, "torch.exp(3.0 * gain.detach())", "torch.exp(-3.0 * gain.detach())", "COD303"),
        (EXPECTILE, "0.99 * (1 - end) * value(y)", "0.99 * value(y)", "COD501"),
    ],
)
def test_an_equation_that_does_not_hold_is_found(script, right, wrong, law):
    assert script.count(right) == 1
    assert law in found(script.replace(right, wrong))
