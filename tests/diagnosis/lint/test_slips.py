"""Slips that are plain in the text, and schedules that are computed: each found as it is written wrong, and left alone as it is right."""

# ruff: noqa: E501 — a line of code reads best whole

import pytest

from benchmarks.lint import mutants, sets
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import linter
from rlclinic.diagnosis.lint.code.reading.sources import Source

ENV = "import gymnasium as gym\nimport numpy as np\n"
SB3 = "from stable_baselines3 import DQN, SAC\nfrom stable_baselines3.common.callbacks import BaseCallback\nfrom stable_baselines3.common.noise import NormalActionNoise\nfrom stable_baselines3.common.evaluation import evaluate_policy\nimport numpy as np\n"
PRIORITIES = (
    "class PrioritizedReplay:\n    def sample(self, n, beta):\n        p = self.priorities ** 0.6\n        idx = np.random.choice(len(p), n, p=p)\n"
    "        w = (len(p) * p[idx]) ** -beta\n        return idx, w, self.rows[idx]\n\n    def renew(self, idx, errors):\n        self.priorities[idx] = np.abs(errors) + 1e-6\n\n"
    "def learn(memory):\n    idx, weights, batch = memory.sample(32, 0.4)\n    q, goal = values(batch)\n"
    '    loss = (weights * F.mse_loss(q, goal, reduction="none")).mean()\n    loss.backward()\n    memory.renew(idx, (goal - q).detach())\n'
)
ACTS = (
    "import random\n\nclass Agent:\n    def choose(self, obs, explore=True):\n        if explore and random.random() < 0.1:\n            return 0\n        return best(obs)\n\n"
    "def train(agent, env, memory):\n    for t in range(1000):\n        action = agent.choose(obs)\n        nxt, reward, terminated, truncated, _ = env.step(action)\n"
    "        memory.push(obs, action, reward, nxt, terminated)\n        obs = nxt\n\n"
    "def score(agent, env):\n    obs, _ = env.reset()\n    while True:\n        obs, reward, terminated, truncated, _ = env.step(agent.choose(obs, explore=False))\n        if terminated or truncated:\n            break\n"
)
ROOM = (
    ENV
    + "class Room(gym.Env):\n    def reset(self, *, seed=None, options=None):\n        super().reset(seed=seed)\n        self.steps = 0\n        return self.look(), {}\n\n"
    "    def step(self, action):\n        self.steps += 1\n        terminated = self.at_goal()\n        truncated = self.steps >= 100\n        return self.look(), 0.0, terminated, truncated, {}\n"
)
WRAPPER = (
    ENV
    + "class Clock(gym.ObservationWrapper):\n    def __init__(self, env):\n        super().__init__(env)\n        self.observation_space = gym.spaces.Box(-1, 1, (5,))\n\n"
    "    def reset(self, **kwargs):\n        self.t = 0\n        return super().reset(**kwargs)\n\n    def observation(self, obs):\n        return np.append(obs, self.t)\n"
)
EVALUATION = (
    "def evaluate(agent, env, seed):\n    total = 0.0\n    for k in range(10):\n        obs, _ = env.reset(seed=seed + k)\n        done = False\n        while not done:\n"
    "            obs, reward, terminated, truncated, _ = env.step(agent(obs))\n            total += reward\n            done = terminated or truncated\n    return total / 10\n"
)
ENDS = (
    "import numpy as np\nfor i in np.flatnonzero(truncated & ~terminated):\n    rewards[step, i] += gamma * value(infos['final_obs'][i])\n"
)
EPSILON = "import random\nSTEPS = 10_000\n\ndef linear(start, end, duration, t):\n    slope = (end - start) / duration\n    return max(slope * t + start, end)\n\nfor step in range(STEPS):\n    epsilon = linear(1.0, 0.05, 0.3 * STEPS, step)\n    action = env.action_space.sample() if random.random() < epsilon else best(obs)\n"
RATE = "for iteration in range(1, iterations + 1):\n    frac = 1.0 - (iteration - 1.0) / iterations\n    optimizer.param_groups[0]['lr'] = frac * 3e-4\n    loss.backward()\n    optimizer.step()\n"
SAVED = (
    SB3
    + "model = SAC('MlpPolicy', env)\nmodel.learn(1000)\nmodel.save('sac')\nmodel = SAC.load('sac', env=env)\nmodel.learn(1000, reset_num_timesteps=False)\n"
)
CALLBACK = SB3 + "class Log(BaseCallback):\n    def _on_step(self):\n        self.logger.record('x', 1)\n        return True\n"
SQUASHED = "import torch\ndef act(normal):\n    x = normal.rsample()\n    y = torch.tanh(x)\n    log_prob = normal.log_prob(x) - torch.log(1 - y.pow(2) + 1e-6)\n    return y, log_prob.sum(-1)\n"
MODULE = "import torch\nfrom torch import nn\nclass Policy(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        self.log_std = nn.Parameter(torch.zeros(n))\n"

SLIPS = {
    "signed priorities": ("COD538", PRIORITIES, "np.abs(errors) + 1e-6", "errors + 1e-6"),
    "a positive power": ("COD538", PRIORITIES, "** -beta", "** beta"),
    "priorities never set anew": ("COD538", PRIORITIES, "    memory.renew(idx, (goal - q).detach())\n", ""),
    "weights without a use": ("COD538", PRIORITIES, "weights * F.mse_loss", "F.mse_loss"),
    "weights of a mean": ("COD538", PRIORITIES, ', reduction="none"', ""),
    "an evaluation that explores": ("COD710", ACTS, "agent.choose(obs, explore=False)", "agent.choose(obs)"),
    "one start": ("COD903", EVALUATION, "seed=seed + k", "seed=seed"),
    "a clock that stands still": ("COD111", ROOM, "        self.steps += 1\n", ""),
    "ends in each other's place": ("COD132", ROOM, "terminated, truncated, {}", "truncated, terminated, {}"),
    "an end as a limit": ("COD132", ROOM, "terminated, truncated, {}", "False, terminated, {}"),
    "a seed that is dropped": ("COD109", WRAPPER, "super().reset(**kwargs)", "super().reset()"),
    "a space that stays": ("COD115", WRAPPER, "gym.spaces.Box(-1, 1, (5,))", "env.observation_space"),
    "a bound without its 1": ("COD209", "import torch\nclipped = torch.clamp(ratio, 1 - clip, 1 + clip)\n", "1 - clip", "clip"),
    "a clipped action stored": ("COD203", "for t in range(n):\n    action, log_prob = policy(obs)\n    actions[t] = action\n    log_probs[t] = log_prob\n", "= action\n", "= action.clamp(-1, 1)\n"),
    "a clipped action handed over": ("COD203", "a, logp = policy(o)\nbuffer.store(o, a, reward, value, logp)\n", "(o, a,", "(o, np.clip(a, -1, 1),"),
    "advantages in the place of returns": ("COD514", "self.ret_buf[path] = self.adv_buf[path] + self.val_buf[path]\n", " + self.val_buf[path]", ""),
    "advantages as returns": ("COD514", "returns = advantages + values\n", "advantages + values", "advantages"),
    "returns on another scale": ("COD514", "returns = advantages + values\nb = 1\n", "b = 1", "returns = (returns - returns.mean()) / (returns.std() + 1e-8)"),
    "a spread that is no parameter": ("COD414", MODULE, "nn.Parameter(torch.zeros(n))", "torch.zeros(n)"),
    "a correction by the raw action": ("COD202", SQUASHED, "y.pow(2)", "x.pow(2)"),
    "a real end bootstrapped": ("COD501", ENDS, "truncated & ~terminated", "terminated"),
    "the latest only": ("COD535", "from collections import deque\nimport random\nmemory = deque(maxlen=10_000)\nbatch = random.sample(memory, batch_size)\nloss(batch).backward()\n", "random.sample(memory, batch_size)", "list(memory)[-batch_size:]"),
    "noise from its mean": ("COD530", "dx = theta * (mu - x) + sigma * rng.standard_normal(3)\n", "mu - x", "x - mu"),
    "a chance that rises": ("COD508", EPSILON, "linear(1.0, 0.05, 0.3 * STEPS, step)", "0.05 + 0.95 * step / STEPS"),
    "a chance that hardly falls": ("COD508", EPSILON, "0.3 * STEPS", "30 * STEPS"),
    "a rate that rises": ("COD408", RATE, "1.0 - (iteration - 1.0)", "(iteration - 1.0)"),
    "training begun again": ("COD803", SAVED, ", reset_num_timesteps=False", ""),
    "a callback without an answer": ("COD810", CALLBACK, "        return True\n", ""),
    "noise around 1": ("COD809", SB3 + "noise = NormalActionNoise(mean=np.zeros(2), sigma=0.1 * np.ones(2))\n", "np.zeros(2)", "np.ones(2)"),
    "no random action": ("COD809", SB3 + "model = DQN('MlpPolicy', env, exploration_initial_eps=1.0, exploration_final_eps=0.0)\n", "initial_eps=1.0", "initial_eps=0.0"),
    "judged where trained": ("COD704", SB3 + "model = DQN('MlpPolicy', env)\nmodel.learn(1000)\nevaluate_policy(model, test_env)\n", "test_env", "model.get_env()"),
}  # fmt: skip


def said(text: str) -> set[str]:
    script = linter.parse(Source("script.py", text))
    return {each.id for each in checks.checks("COD") if linter.examine(each, script)}


@pytest.mark.parametrize("what", SLIPS)
def test_a_slip_is_found_and_its_right_twin_is_left_alone(what: str) -> None:
    id, text, right, wrong = SLIPS[what]
    assert right in text
    assert id in said(text.replace(right, wrong))
    assert id not in said(text)


FOLLOWED = {
    "target-actor-is-online": "COD536",  # through the layers of a critic, and records that a class keeps
    "whole-graph-cut": "COD308",
    "log-prob-summed-over-batch": "COD211",
    "second-target-follows-first": "COD534",
    "sync-never": "COD506",
}


@pytest.mark.parametrize("fault", FOLLOWED)
def test_a_value_is_followed_to_where_it_goes_wrong(fault: str) -> None:
    (planted,) = (each for each in sets.faults_of(sets.SETS["sixth"].open) if each.fault == fault)
    (check,) = (each for each in checks.checks("COD") if each.id == FOLLOWED[fault])
    lines = {finding.evidence[0].numbers["line"] for finding in linter.examine(check, linter.parse(Source("script.py", planted.text)))}
    assert lines & planted.lines
    assert not linter.examine(check, linter.parse(Source("script.py", mutants.text_of(planted.script))))
