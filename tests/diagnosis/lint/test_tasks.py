"""Mistakes around the learner, as they stand in code that people are shown: each is found by its own check, and by no other one loudly."""

from typing import Any

import pytest

import rlclinic
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import linter
from rlclinic.diagnosis.lint.code.reading.sources import Source

ENVIRONMENT = '''
class CustomRLEnvironment:
    def __init__(self, task_config):
        self.task_config = task_config
        self.state_space = self.define_state_space()
        self.action_space = self.define_action_space()
        self.reward_function = self.design_reward_function()

    def reset(self):
        """Reset environment to initial state"""
        self.state = self.sample_initial_state()
        self.steps = 0
        self.episode_reward = 0
        return self.state

    def step(self, action):
        """Execute action and return next state, reward, done"""
        self.state = self.transition_function(self.state, action)
        reward = self.reward_function(self.state, action)
        done = self.is_terminal(self.state) or self.steps >= self.max_steps
        info = {"steps": self.steps, "episode_reward": self.episode_reward, "success": self.check_success(self.state)}
        self.steps += 1
        self.episode_reward += reward
        return self.state, reward, done, info
'''
ADVANTAGES = '''
class PPOAgent:
    def compute_gae(self, rewards, values, next_value, dones):
        """Generalized Advantage Estimation"""
        advantages = []
        gae = 0
        for t in reversed(range(len(rewards))):
            if t == len(rewards) - 1:
                next_value_t = next_value
            else:
                next_value_t = values[t + 1]
            delta = rewards[t] + self.gamma * next_value_t * (1 - dones[t]) - values[t]
            gae = delta + self.gamma * self.gae_lambda * (1 - dones[t]) * gae
            advantages.insert(0, gae)
        return torch.FloatTensor(advantages)
'''
DEPLOYMENT = """
policy = torch.load("trained_policy.pth")
obs = env.reset()
done = False
while not done:
    action = policy.act(obs, deterministic=True)
    obs, reward, done, info = env.step(action)
    if safety_monitor.check_violation(obs, action):
        action = safety_monitor.get_safe_action(obs)
"""
CURRICULUM = '''
class CurriculumRLTrainer:
    def train_with_curriculum(self):
        """Progressive training through curriculum"""
        for stage in self.curriculum_stages:
            env = self.configure_environment(stage["env_config"])
            success_rate = 0
            episodes = 0
            while success_rate < stage["success_threshold"] or episodes < stage["min_episodes"]:
                batch_results = self.train_batch(env, batch_size=10)
                success_rate = np.mean([r["success"] for r in batch_results])
                episodes += len(batch_results)
            self.current_stage += 1
'''
SNIPPETS = {"COD124": ENVIRONMENT, "COD125": ADVANTAGES, "COD126": DEPLOYMENT, "COD127": CURRICULUM}
SOUND = {
    "a flag of its own for the limit": ENVIRONMENT.replace("or self.steps >= self.max_steps", ""),
    "an action that is kept": DEPLOYMENT.replace("    action = policy", "    action = fallback or policy").replace(
        "while not done:", "while not done:\n    before = action"
    ),
    "an action for the buffer": DEPLOYMENT + "        buffer.add(obs, action)\n",
    "asked before the step": """
while not done:
    action = policy.act(obs)
    if monitor.check_violation(obs, action):
        action = monitor.get_safe_action(obs)
    obs, reward, done, info = env.step(action)
""",
    "a hundred episodes": CURRICULUM.replace("batch_size=10", "batch_size=100"),
    "no stages": CURRICULUM.replace("stage", "config").replace("Curriculum", "Plain").replace("curriculum", "plain"),
    "two flags": ADVANTAGES.replace("dones):", "dones, truncated):"),
}


def said(text: str) -> set[str]:
    script = linter.parse(Source("script.py", text))
    return {finding.rule for check in checks.checks("COD") for finding in linter.examine(check, script)}


@pytest.mark.parametrize("rule", SNIPPETS)
def test_each_mistake_is_named_by_its_check_alone(rule: str) -> None:
    assert said(SNIPPETS[rule]) == {rule}


@pytest.mark.parametrize("what", SOUND)
def test_what_is_done_right_is_left_alone(what: str) -> None:
    assert not said(SOUND[what]) & set(SNIPPETS)


def test_an_environment_with_four_values_is_named_when_it_is_run() -> None:
    class Room:
        def __init__(self) -> None:
            import gymnasium

            self.observation_space, self.action_space = gymnasium.spaces.Discrete(5), gymnasium.spaces.Discrete(2)

        def reset(self) -> int:
            self.at = self.steps = 0
            return self.at

        def step(self, action: Any) -> Any:
            self.at, self.steps = min(4, self.at + int(action)), self.steps + 1
            return self.at, 0.0, self.at == 4 or self.steps >= 20, {}

    found = rlclinic.lint_env(Room, seconds=1.0)
    assert found.findings
    assert any("five" in finding.text or "4" in finding.text or "four" in finding.text for finding in found.findings), found.findings
