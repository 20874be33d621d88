"""What environments, curricula and rollouts remember: each mistake is found beside its sound form, and the sound form is left alone."""

# ruff: noqa: E501 — a line of code reads best whole

import pytest

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import linter
from rlclinic.diagnosis.lint.code.reading.sources import Source

DRONE = (
    "import gymnasium as gym\nimport numpy as np\n\nclass Drone(gym.Env):\n    def __init__(self):\n        self.steps = 0\n\n"
    "    def reset(self, *, seed=None, options=None):\n        super().reset(seed=seed)\n        self.steps = 0\n        self.place = self.np_random.uniform(-1.0, 1.0, 2)\n"
    "        self.gap = float(np.linalg.norm(self.place))\n        return self.place.copy(), {}\n\n"
    "    def step(self, action):\n        self.place = self.place + 0.1 * action\n        self.steps += 1\n        gap = float(np.linalg.norm(self.place))\n        crashed = gap > 3.0\n"
    "        reward = (self.gap - gap) - 0.01 * float(np.square(action).sum())\n        if crashed:\n            reward -= 5.0\n        self.gap = gap\n"
    "        return self.place.copy(), reward, crashed, self.steps >= 100, {}\n"
)
STACK = (
    "import gymnasium as gym\nimport numpy as np\nfrom collections import deque\n\nclass Stack(gym.ObservationWrapper):\n    def __init__(self, env, n):\n        super().__init__(env)\n"
    "        self.frames = deque(maxlen=n)\n        self.observation_space = gym.spaces.Box(-1, 1, (n,))\n\n    def reset(self, **kwargs):\n        obs, info = self.env.reset(**kwargs)\n"
    "        self.frames.clear()\n        for _ in range(self.frames.maxlen):\n            self.frames.append(obs)\n        return self.observation(obs), info\n\n"
    "    def observation(self, obs):\n        self.frames.append(obs)\n        return np.concatenate(list(self.frames))\n"
)
STAGES = (
    "from stable_baselines3.common.callbacks import BaseCallback\nimport numpy as np\n\nclass Harder(BaseCallback):\n    def _on_step(self):\n        if np.mean(self.successes[-100:]) > 0.8:\n"
    "            self.level = min(self.most, self.level + 0.1)\n            self.training_env.env_method('set_level', self.level)\n        return True\n"
)
GAE = (
    "import gymnasium as gym\nimport torch\nfrom torch import nn\nfrom torch.distributions import Normal\n\nenvs = gym.make_vec('Pendulum-v1', num_envs=4)\nmean, critic = nn.Linear(3, 1), nn.Linear(3, 1)\n"
    "opt = torch.optim.Adam([*mean.parameters(), *critic.parameters()], lr=3e-4)\ngamma, lam = 0.99, 0.9\nobs, _ = envs.reset(seed=0)\nobs = torch.as_tensor(obs)\nfor update in range(1000):\n"
    "    rows = {key: [] for key in ('obs', 'action', 'logp', 'reward', 'value', 'ended')}\n    for _ in range(128):\n        with torch.no_grad():\n            dist = Normal(mean(obs), 0.5)\n"
    "            action = dist.sample()\n            value = critic(obs).squeeze(-1)\n        bounded = action.clamp(-2.0, 2.0)\n        new, reward, terminated, truncated, _ = envs.step(bounded.numpy())\n"
    "        rows['obs'].append(obs)\n        rows['action'].append(action)\n        rows['logp'].append(dist.log_prob(action).sum(-1))\n        rows['reward'].append(torch.as_tensor(reward))\n"
    "        rows['value'].append(value)\n        rows['ended'].append(torch.as_tensor(terminated | truncated).float())\n        obs = torch.as_tensor(new)\n"
    "    rows = {key: torch.stack(values) for key, values in rows.items()}\n    with torch.no_grad():\n        last = critic(obs).squeeze(-1)\n    running, following, made = torch.zeros(4), last, []\n"
    "    for r, v, e in zip(reversed(rows['reward']), reversed(rows['value']), reversed(rows['ended'])):\n        delta = r + gamma * (1 - e) * following - v\n"
    "        running = delta + gamma * lam * (1 - e) * running\n        made.append(running)\n        following = v\n    advantage = torch.stack(made[::-1])\n    target = advantage + rows['value']\n"
    "    dist = Normal(mean(rows['obs']), 0.5)\n    ratio = torch.exp(dist.log_prob(rows['action']).sum(-1) - rows['logp'])\n"
    "    loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean() + (critic(rows['obs']).squeeze(-1) - target).pow(2).mean()\n"
    "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"
)
MISTAKES = {
    "a distance that stands still": ("COD112", DRONE, "        self.gap = gap\n", ""),
    "moving away is paid": ("COD114", DRONE, "(self.gap - gap)", "(gap - self.gap)"),
    "a crash is paid": ("COD114", DRONE, "reward -= 5.0", "reward += 5.0"),
    "effort is paid": ("COD114", DRONE, "- 0.01 * float", "+ 0.01 * float"),
    "frames of the last episode": ("COD112", STACK, "        self.frames.clear()\n        for _ in range(self.frames.maxlen):\n            self.frames.append(obs)\n", ""),
    "a space that is too small": ("COD115", STACK, "        self.observation_space = gym.spaces.Box(-1, 1, (n,))\n", ""),
    "promoted for failing": ("COD127", STAGES, "> 0.8", "< 0.8"),
    "a bound on the wrong side": ("COD127", STAGES, "self.level + 0.1", "self.level - 0.1"),
    "a callback that forgets to go on": ("COD810", STAGES, "        return True\n", "            return True\n"),
    "a clipped action that is stored": ("COD203", GAE, "rows['action'].append(action)", "rows['action'].append(bounded)"),
    "a log-probability of another draw": ("COD210", GAE, "dist.log_prob(action).sum(-1))\n        rows['reward']", "dist.log_prob(dist.sample()).sum(-1))\n        rows['reward']"),
    "one list that is not turned": ("COD504", GAE, "reversed(rows['value']), reversed(rows['ended'])", "reversed(rows['value']), rows['ended']"),
    "a trace without its discount": ("COD512", GAE, "gamma * lam * (1 - e)", "lam * (1 - e)"),
    "a tail that is worth nothing": ("COD501", GAE, "torch.zeros(4), last, []", "torch.zeros(4), torch.zeros(4), []"),
}  # fmt: skip


def said(text: str) -> set[str]:
    script = linter.parse(Source("script.py", text))
    found = [finding for check in checks.checks("COD") for finding in linter.examine(check, script)]
    return {finding.rule for finding in found if finding.severity is not Severity.LOW}


@pytest.mark.parametrize("sound", [DRONE, STACK, STAGES, GAE], ids=["drone", "stack", "stages", "gae"])
def test_the_sound_form_is_left_alone(sound: str) -> None:
    assert said(sound) == set()


@pytest.mark.parametrize("name", MISTAKES)
def test_the_mistake_is_found(name: str) -> None:
    id, sound, right, wrong = MISTAKES[name]
    assert sound.count(right) == 1
    assert id in said(sound.replace(right, wrong))
