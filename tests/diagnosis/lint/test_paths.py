"""Paths of experience and what nothing reads: each law finds its fault, and leaves the right way alone."""

# ruff: noqa: E501 — a script reads best on few lines

import pytest

from rlclinic.diagnosis.lint.code import idle, linter, paths
from rlclinic.diagnosis.lint.code.reading.sources import Source
from rlclinic.diagnosis.lint.code.symbolic import equations

HEAD = "import gymnasium as gym\nimport numpy as np\nimport torch\nfrom torch.distributions import Categorical\nenv = gym.make('CartPole-v1')\n"


def lines(law, text):
    script = linter.parse(Source("script", HEAD + text))
    return {spot.node.lineno - HEAD.count("\n") for spot in law(script)}


ROLLOUT = """
rewards = []
obs, _ = env.reset()
for step in range(10_000):
    obs, reward, terminated, truncated, _ = env.step(act(obs))
    rewards.append(reward)
    if terminated or truncated:
        targets.extend(to_go(rewards))
        obs, _ = env.reset()
        rewards = []
"""


@pytest.mark.parametrize(
    ("law", "right", "before", "after", "line"),
    [
        (paths.path_not_begun_anew, ROLLOUT, "        rewards = []\n", "", 8),
        (
            paths.entries_not_written_yet,
            "for i in reversed(range(n)):\n    to_go[i] = rewards[i] + gamma * to_go[i + 1]\n",
            "reversed(range(n))",
            "range(n)",
            2,
        ),
        (
            paths.sum_of_the_past,
            "for i in range(n):\n    to_go[i] = sum(gamma ** (k - i) * rewards[k] for k in range(i, n))\n",
            "range(i, n)",
            "range(i + 1)",
            2,
        ),
        (
            paths.sum_never_carried,
            "total, out = 0.0, []\nfor r in reversed(rewards):\n    total = r + gamma * total\n    out.insert(0, total)\n",
            "r + gamma * total",
            "r",
            3,
        ),
        (
            paths.turned_apart,
            "for r, m in zip(reversed(store.rewards), reversed(store.masks)):\n    total = r + gamma * m * total\n",
            "reversed(store.masks)",
            "store.masks",
            1,
        ),
        (paths.discount_twice, "target = reward + gamma * value\n", "gamma * value", "gamma * gamma * value", 1),
        (paths.best_of_the_table, "Q = np.zeros((16, 4))\na = np.argmax(Q[s])\n", "np.argmax(Q[s])", "np.argmax(Q)", 2),
        (
            paths.whole_numbers,
            "reward_memory = np.zeros(100, dtype=np.float32)\nenv.step(0)\n",
            "np.float32",
            "np.int64",
            1,
        ),
        (paths.called_scores, "dist = Categorical(logits=logits_net(obs))\n", "logits=", "probs=", 1),
        (paths.exponential_twice, "std = torch.exp(log_std)\n", "torch.exp(log_std)", "torch.exp(torch.exp(log_std))", 1),
        (
            paths.chance_below_nothing,
            "def chance(t):\n    return max(1.0 - t / 500, 0.05)\nfor t in range(1_000):\n    epsilon = chance(t)\n",
            "max(1.0 - t / 500, 0.05)",
            "min(1.0 - t / 500, 0.05)",
            4,
        ),
        (
            paths.once_for_all,
            "for episode in range(9):\n    rewards = []\n    rewards.append(env.step(0)[1])\n",
            "    rewards = []\n",
            "    if episode == 0:\n        rewards = []\n",
            3,
        ),
        (
            paths.same_start_in_training,
            "for episode in range(9):\n    obs, _ = env.reset()\n    buffer.push(env.step(0))\n",
            "env.reset()",
            "env.reset(seed=3)",
            2,
        ),
        (
            paths.judged_on_a_worker,
            "envs = [gym.make('CartPole-v1') for _ in range(4)]\neval_env = gym.make('CartPole-v1')\neval_env.step(0)\n",
            "eval_env = gym.make('CartPole-v1')",
            "eval_env = envs[0]",
            2,
        ),
        (
            paths.one_seed_for_all,
            "def make(seed, rank):\n    env = gym.make('CartPole-v1')\n    env.seed(seed + rank)\n    return env\nenvs = [make(0, i) for i in range(4)]\n",
            "env.seed(seed + rank)",
            "env.seed(seed)",
            3,
        ),
        (
            paths.advantages_alone,
            "def q(x):\n    V, A = heads(x)\n    return V + (A - A.mean(dim=1))\n",
            "V + (A - A.mean(dim=1))",
            "A - A.mean(dim=1)",
            3,
        ),
        (
            paths.told_to_be_sure,
            "def act(obs, greedy=False):\n    return policy(obs)\nfor t in range(99):\n    a = act(obs)\n    buffer.push(env.step(a))\n",
            "a = act(obs)",
            "a = act(obs, greedy=True)",
            4,
        ),
        (
            paths.weights_never_loaded,
            "w = slow.state_dict()\nfor key in w:\n    w[key] = fast.state_dict()[key]\nslow.load_state_dict(w)\n",
            "slow.load_state_dict(w)\n",
            "",
            3,
        ),
        (
            paths.counter_stands_still,
            "class Agent:\n    def __init__(self):\n        self.steps = 0\n    def learn(self):\n        if self.steps % 100 == 0:\n            copy()\n        self.steps += 1\n",
            "        self.steps += 1\n",
            "",
            5,
        ),
        (
            paths.ring_never_closes,
            "class Ring:\n    def __init__(self, size):\n        self.at, self.size = 0, size\n    def add(self, o, r, e):\n        self.o[self.at] = o\n"
            "        self.r[self.at] = r\n        self.e[self.at] = e\n        self.at += 1\n        if self.at == self.size:\n            self.at = 0\n"
            "    def sample(self, n):\n        return np.random.randint(0, self.at, n)\n",
            "            self.at = 0\n",
            "            self.full = True\n",
            8,
        ),
        (
            paths.never_cleared_again,
            "class Storage:\n    def __init__(self):\n        self.clear()\n    def clear(self):\n        self.rewards, self.values = [], []\n"
            "    def add(self, r):\n        self.rewards.append(r)\nstorage = Storage()\nfor update in range(9):\n    storage.clear()\n    storage.add(1.0)\n",
            "    storage.clear()\n",
            "",
            10,
        ),
        (
            paths.chance_of_nothing,
            "def epsilon_at(t):\n    return 0.9 ** t\nfor t in range(9):\n    eps = epsilon_at(t)\n",
            "eps = epsilon_at(t)",
            "eps = 0.0",
            4,
        ),
        (
            idle.worked_out_for_nothing,
            "q1_loss = F.mse_loss(a, y)\nq2_loss = F.mse_loss(b, y)\nloss = q1_loss + q2_loss\nloss.backward()\n",
            " + q2_loss",
            "",
            3,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_law_of_paths_finds_its_fault_and_leaves_the_right_way_alone(law, right, before, after, line):
    assert lines(law, right) == set()
    assert right.count(before) == 1
    assert line in lines(law, right.replace(before, after))


ACTOR_CRITIC = """
from torch import nn
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--lam", type=float, default=0.95)
args = parser.parse_args()
policy, critic = nn.Linear(4, 2), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=1e-3)
obs, _ = env.reset()
for update in range(1_000):
    xs, acts, rewards, values, ends = [], [], [], [], []
    for t in range(128):
        x = torch.tensor(obs)
        with torch.no_grad():
            act = Categorical(logits=policy(x)).sample()
            values.append(critic(x)[0])
        obs, reward, terminated, truncated, _ = env.step(act.item())
        xs.append(x); acts.append(act); rewards.append(reward); ends.append(terminated or truncated)
        if terminated or truncated:
            obs, _ = env.reset()
    with torch.no_grad():
        values.append(critic(torch.tensor(obs))[0])
    running, advantages = 0.0, [0.0] * 128
    for t in reversed(range(128)):
        error = rewards[t] + args.gamma * values[t + 1] * (1 - ends[t]) - values[t]
        running = error + args.gamma * args.lam * (1 - ends[t]) * running
        advantages[t] = running
    weight = torch.stack(advantages)
    goal = weight + torch.stack(values[:-1])
    scores = Categorical(logits=policy(torch.stack(xs))).log_prob(torch.stack(acts))
    loss = -(scores * weight).mean() + ((critic(torch.stack(xs))[:, 0] - goal) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


def test_a_setting_that_nothing_reads_is_missed_where_it_belongs():
    assert lines(equations.setting_out_of_place, ACTOR_CRITIC) == set()
    wrong = ACTOR_CRITIC.replace("args.gamma * args.lam * (1", "args.gamma * (1")
    found = lines(equations.setting_out_of_place, wrong)
    assert next(line for line, text in enumerate(wrong.split("\n"), 1) if "running = error" in text) in found


def test_an_error_without_the_discount_that_its_sum_has_is_found():
    assert lines(equations.error_not_discounted, ACTOR_CRITIC) == set()
    assert lines(equations.error_not_discounted, ACTOR_CRITIC.replace("rewards[t] + args.gamma * values", "rewards[t] + values"))


def test_an_episode_that_goes_on_past_its_end_is_found():
    assert lines(equations.episode_goes_on, ACTOR_CRITIC) == set()
    wrong = ACTOR_CRITIC.replace("        if terminated or truncated:\n            obs, _ = env.reset()\n", "")
    assert lines(equations.episode_goes_on, wrong.replace("range(1_000):\n", "range(1_000):\n    obs, _ = env.reset()\n"))
