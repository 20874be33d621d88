"""Values are followed through what holds them: structured arrays, a library's replay, lists by place, rows of two kinds, wrappers."""

import pytest

from benchmarks.lint.__main__ import alarms, check

STRUCTURED = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn

env = gym.wrappers.ClipAction(gym.make("Hopper-v5"))
high = torch.as_tensor(env.action_space.high)
low = torch.as_tensor(env.action_space.low)
rows = np.zeros(100_000, dtype=[("x", "f4", 11), ("u", "f4", 3), ("paid", "f4"), ("then", "f4", 11), ("alive", "f4")])


class Player(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(11, 64), nn.ReLU(), nn.Linear(64, 3))

    def forward(self, x):
        return low + (torch.tanh(self.body(x)) + 1) / 2 * (high - low)


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(14, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x, u):
        return self.body(torch.cat([x, u], -1)).squeeze(-1)


player, judge, slow_player, slow_judge = Player(), Judge(), Player(), Judge()
slow_player.load_state_dict(player.state_dict())
slow_judge.load_state_dict(judge.state_dict())
first = torch.optim.Adam(player.parameters(), 1e-4)
second = torch.optim.Adam(judge.parameters(), 1e-3)
rng = np.random.default_rng(0)
x, _ = env.reset(seed=0)
for count in range(100_000):
    with torch.no_grad():
        u = player(torch.as_tensor(x, dtype=torch.float32)).numpy() + 0.1 * rng.normal(size=3)
    u = np.clip(u, env.action_space.low, env.action_space.high)
    then, paid, ended, late, _ = env.step(u)
    rows[count] = (x, u, paid, then, not ended)
    x = env.reset()[0] if ended or late else then
    if count < 1000:
        continue
    batch = rows[rng.integers(count, size=128)]
    b = {name: torch.from_numpy(batch[name].copy()) for name in batch.dtype.names}
    with torch.no_grad():
        goal = b["paid"] + 0.99 * b["alive"] * slow_judge(b["then"], slow_player(b["then"]))
    cost = ((judge(b["x"], b["u"]) - goal) ** 2).mean()
    second.zero_grad()
    cost.backward()
    second.step()
    blame = -judge(b["x"], player(b["x"])).mean()
    first.zero_grad()
    blame.backward()
    first.step()
    with torch.no_grad():
        for slow, fast in ((slow_player, player), (slow_judge, judge)):
            for one, other in zip(slow.parameters(), fast.parameters()):
                one += 0.005 * (other - one)
"""
LIBRARY = """
import random

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from torch import nn

random.seed(0)
torch.manual_seed(0)
env = gym.make("MountainCar-v0")
env.action_space.seed(0)
q = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 3))
slow = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 3))
slow.load_state_dict(q.state_dict())
adam = torch.optim.Adam(q.parameters(), 1e-3)
kept = ReplayBuffer(50_000, env.observation_space, env.action_space, "cpu", handle_timeout_termination=False)
x, _ = env.reset(seed=0)
for count in range(100_000):
    if random.random() < max(0.05, 1 - count / 20_000):
        u = env.action_space.sample()
    else:
        u = int(q(torch.as_tensor(x)).argmax())
    then, paid, ended, late, info = env.step(u)
    kept.add(x, then, np.array([u]), np.array([paid]), np.array([ended]), [info])
    x = env.reset()[0] if ended or late else then
    if count > 1000:
        some = kept.sample(64)
        with torch.no_grad():
            best, _ = slow(some.next_observations).max(1)
            goal = some.rewards.flatten() + 0.99 * (1 - some.dones.flatten()) * best
        cost = nn.functional.mse_loss(q(some.observations).gather(1, some.actions).squeeze(1), goal)
        adam.zero_grad()
        cost.backward()
        adam.step()
    if count % 500 == 0:
        slow.load_state_dict(q.state_dict())
"""
LISTS = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


class Memory:
    def __init__(self):
        self.forget()

    def forget(self):
        self.x, self.u, self.scores, self.worth, self.paid, self.ended, self.over, self.last = [], [], [], [], [], [], [], []

    def keep(self, *row):
        for column, value in zip((self.x, self.u, self.scores, self.worth, self.paid, self.ended, self.over, self.last), row):
            column.append(value)


class Agent:
    def __init__(self):
        self.pi = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
        self.v = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
        self.adam = torch.optim.Adam([*self.pi.parameters(), *self.v.parameters()], 3e-4)
        self.memory = Memory()

    @torch.no_grad()
    def worth_of(self, x):
        return self.v(torch.as_tensor(x)).item()

    def gains(self, after):
        m, n = self.memory, len(self.memory.paid)
        kept, left = np.zeros(n, np.float32), 0.0
        for t in range(n - 1, -1, -1):
            if m.over[t]:
                ahead = 0.0 if m.ended[t] else m.last[t]
                left = 0.0
            else:
                ahead = m.worth[t + 1] if t + 1 < n else after
            surprise = m.paid[t] + 0.99 * ahead - m.worth[t]
            left = surprise + 0.99 * 0.95 * left
            kept[t] = left
        return kept

    def learn(self, x):
        gain = torch.tensor(self.gains(self.worth_of(x)))
        aim = gain + torch.tensor(self.memory.worth, dtype=torch.float32)
        seen, moves = torch.tensor(np.array(self.memory.x)), torch.tensor(self.memory.u)
        before = torch.tensor(self.memory.scores)
        for _ in range(10):
            for some in torch.randperm(len(seen)).split(64):
                scores = Categorical(logits=self.pi(seen[some])).log_prob(moves[some])
                ratio = (scores - before[some]).exp()
                one = -gain[some] * ratio
                two = -gain[some] * ratio.clamp(0.8, 1.2)
                cost = torch.max(one, two).mean() + 0.5 * ((self.v(seen[some]).squeeze(-1) - aim[some]) ** 2).mean()
                self.adam.zero_grad()
                cost.backward()
                self.adam.step()
        self.memory.forget()


torch.manual_seed(0)
env = gym.make("CartPole-v1")
agent = Agent()
x, _ = env.reset(seed=0)
for count in range(1, 200_001):
    with torch.no_grad():
        dist = Categorical(logits=agent.pi(torch.as_tensor(x)))
        u = dist.sample()
        score = dist.log_prob(u).item()
    then, paid, ended, late, _ = env.step(u.item())
    last = agent.worth_of(then) if late and not ended else 0.0
    agent.memory.keep(x, u.item(), score, agent.worth_of(x), paid, ended, ended or late, last)
    x = env.reset()[0] if ended or late else then
    if count % 2048 == 0:
        agent.learn(x)
"""
PICTURES = """
import gymnasium as gym
from gymnasium.wrappers import GrayscaleObservation
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecTransposeImage


def track():
    return GrayscaleObservation(gym.make("CarRacing-v3"), keep_dim=True)


def stack(venv):
    return VecTransposeImage(VecFrameStack(venv, n_stack=4))


train, check = stack(DummyVecEnv([track])), stack(DummyVecEnv([track]))
model = PPO("CnnPolicy", train, learning_rate=1e-4, seed=0)
model.learn(1_000_000)
print(evaluate_policy(model, check, n_eval_episodes=5))
"""


@pytest.mark.parametrize("script", [STRUCTURED, LIBRARY, LISTS, PICTURES])
def test_right_scripts_raise_no_alarm(script: str) -> None:
    assert [f"{each.rule}: {each.text}" for each in alarms(check("script", script).findings)] == []


@pytest.mark.parametrize(
    ("script", "right", "wrong", "rule"),
    [
        (STRUCTURED, "then, not ended)", "then, ended)", "COD502"),
        (STRUCTURED, "0.005 * (other - one)", "0.005 * (one - other)", "COD527"),
        (STRUCTURED, "+ 1) / 2 * (high", "+ 1) * (high", "COD552"),
        (STRUCTURED, "u], -1)).squeeze(-1)", "u], -1))", "COD601"),
        (LIBRARY, "some.rewards.flatten()", "some.rewards", "COD601"),
        (LIBRARY, "np.array([ended])", "np.array([ended or late])", "COD101"),
        (LIBRARY, "kept.add(x, then,", "kept.add(then, x,", "COD536"),
        (STRUCTURED, "rng.integers(count, size=128)", "rng.integers(100_000, size=128)", "COD131"),
        (LISTS, "m.worth[t + 1] if", "m.worth[t] if", "COD517"),
        (LISTS, "0.0 if m.ended[t] else m.last[t]", "0.0", "COD101"),
        (LISTS, "(scores - before[some]).exp()", "scores / before[some]", "COD207"),
        (LISTS, "one = -gain[some]", "one = gain[some]", "COD302"),
        (PICTURES, ", stack(DummyVecEnv([track]))", ", DummyVecEnv([track])", "COD705"),
        (PICTURES, "CnnPolicy", "MlpPolicy", "COD809"),
        (PICTURES, "n_stack=4", "n_stack=1", "COD809"),
        (PICTURES, "1e-4", "1e-2", "COD413"),
    ],
)  # fmt: skip
def test_a_fault_behind_what_holds_values_is_found_on_its_line(script: str, right: str, wrong: str, rule: str) -> None:
    assert script.count(right) == 1
    text = script.replace(right, wrong)
    line = script.partition(right)[0].count("\n") + 1
    places = {(each.rule, int(place.numbers["line"])) for each in check("script", text).findings for place in each.evidence}
    assert (rule, line) in places
