"""Mistakes around the learner, as they stand in code that people are shown: each is found by its own check, and by no other one loudly."""

import re
from pathlib import Path
from typing import Any

import pytest

import rlclinic
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import linter
from rlclinic.diagnosis.lint.code.reading.sources import Source
from rlclinic.errors import ConfigError
from rlclinic.ops.diagnose.requests import RewardCheckRequest
from rlclinic.ops.tasks.reward import check_reward
from tests.diagnosis.lint.trainer_snippets import (
    AGENTS,
    CURRICULUM,
    DEPLOYMENT,
    ENVIRONMENT,
    GYMNASIUM,
    POLICY_GRADIENT,
    REPLAY,
    TERMS,
    runnable,
)

FAULTS = {
    "replay": (REPLAY, {"COD506": "target network is as it was made", "COD519": "chance falls with updates"}),
    "policy gradient": (POLICY_GRADIENT, {"COD125": "advantages are cut at time limits"}),
    "environment": (
        ENVIRONMENT,
        {
            "COD124": "four values, one flag for both ends",
            "COD128": "the return that is told lacks the last reward",
            "COD129": "the limit is one step late",
        },
    ),
    "agents": (POLICY_GRADIENT + AGENTS, {"COD117": "an end is asked for that nobody set", "COD118": "agents lack an argument"}),
    "curriculum": (
        CURRICULUM,
        {"COD127": "promoted on ten episodes", "COD135": "no way out of a stage", "COD136": "earlier stages are dropped"},
    ),
    "deployment": (DEPLOYMENT, {"COD126": "mended after the step", "COD137": "a pickle that is run"}),
}
"""Of each snippet the faults that it has, by the check that names them."""
OF_ALL = {"COD125", "COD902"}
"""What is said of two snippets in one file besides: the one's own, and that nobody seeds them."""
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
    "no stages": re.sub("(?i)stage|curriculum|difficulty|level", "config", CURRICULUM),
    "two flags": POLICY_GRADIENT.replace("dones):", "dones, truncated):"),
    "an end that is known before the first step": AGENTS.replace(
        "            while not done:", "            done = False\n            while not done:"
    ),
    "an end that another function knows": AGENTS.replace("(self):\n", "(self, done):\n"),
    "chance that falls with episodes": REPLAY
    + """
    def run(self, env):
        while True:
            obs, over = env.reset(), False
            while not over:
                obs, reward, over, info = env.step(self.act(obs))
            self.replay()
""",
    "counted before it is told and asked": ENVIRONMENT.replace("        # Apply action", "        self.steps += 1\n        # Apply action")
    .replace("        self.steps += 1\n        self.episode_reward += reward\n", "")
    .replace("        # Check termination", "        self.episode_reward += reward"),
    "one less is asked for": ENVIRONMENT.replace("self.max_steps", "self.max_steps - 1"),
    "a stage that is left after so many episodes": CURRICULUM.replace("or episodes < ", "and episodes < ").replace('"min_ep', '"max_ep'),
    "a stage that is left by a break": CURRICULUM.replace(
        "                # Update success",
        "                if episodes > 10_000:\n                    break\n                # Update success",
    ),
    "earlier stages are played": CURRICULUM.replace(
        "            # Progress", "            self.rehearse(self.curriculum_stages[: self.current_stage])\n            # Progress"
    ),
    "weights alone": DEPLOYMENT.replace("policy = torch.load(", "policy = Policy()\npolicy.load_state_dict(torch.load(").replace(
        '.pth")', '.pth", weights_only=True))'
    ),
    "data that is loaded": "import torch\ndata = torch.load('data.pt').float()\nrows = torch.load('rows.pt')\nrows = rows.to('cpu')\n",
    "all that an agent needs": POLICY_GRADIENT + AGENTS.replace("PPOAgent(env_config)", "PPOAgent(**env_config)"),
    "a target that is copied": REPLAY + "\n        if self.epsilon_min:\n            self.update_target_network()\n",
    "chance that falls over a hundred thousand updates": REPLAY.replace("0.995", "0.99995"),
}
MENDED = {what: {"COD117", "COD124", "COD125", "COD126", "COD127", "COD519"} for what in SOUND} | {
    "counted before it is told and asked": {"COD128", "COD129"},
    "one less is asked for": {"COD129"},
    "a stage that is left after so many episodes": {"COD135"},
    "a stage that is left by a break": {"COD135"},
    "earlier stages are played": {"COD136"},
    "weights alone": {"COD137"},
    "data that is loaded": {"COD137"},
    "all that an agent needs": {"COD118"},
    "a target that is copied": {"COD506"},
}
"""By what was mended, the checks that have nothing to say any more."""


def said(text: str) -> set[str]:
    script = linter.parse(Source("script.py", text))
    return {finding.rule for check in checks.checks("COD") for finding in linter.examine(check, script)}


@pytest.mark.parametrize("what", FAULTS)
def test_each_fault_of_a_snippet_is_named_and_nothing_else_is(what: str) -> None:
    text, faults = FAULTS[what]
    assert said(text) - (OF_ALL if what == "agents" else set()) == set(faults)


@pytest.mark.parametrize("what", SOUND)
def test_what_is_done_right_is_left_alone(what: str) -> None:
    assert not said(SOUND[what]) & set(MENDED[what])


def test_an_update_at_every_step_is_no_update_at_every_episode() -> None:
    played = SOUND["chance that falls with episodes"]
    assert "COD519" in said(played.replace("            self.replay()", "                self.replay()"))


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


def run_check(tmp_path: Path, *changes: tuple[str, str]) -> str:
    path = tmp_path / "arm.py"
    path.write_text(runnable(*changes))
    return f"{path}:Arm"


def test_the_environment_as_it_is_breaks_the_contract_and_reward_check_says_where_to_look(tmp_path: Path) -> None:
    env = run_check(tmp_path)
    assert {finding.rule for finding in rlclinic.lint_env(env, seconds=2.0).findings} == {"ENV102", "ENV103"}
    with pytest.raises(ConfigError, match=r"(?s)seed.*lint --env"):
        check_reward(RewardCheckRequest(env=env, steps=500))


def test_the_environment_with_the_contract_kept_tells_its_other_faults_when_it_is_run(tmp_path: Path) -> None:
    found = {finding.rule: finding.text for finding in rlclinic.lint_env(run_check(tmp_path, *GYMNASIUM), seconds=3.0).findings}
    assert "episode_reward" in found["ENV418"]
    assert "ENV206" in found  # what is new is remembered beyond an episode


def test_its_reward_is_named_as_one_number_that_loops_farm_and_that_fades(tmp_path: Path) -> None:
    report = check_reward(RewardCheckRequest(env=run_check(tmp_path, *GYMNASIUM), steps=4_000))
    assert {remark.name for remark in report.remarks} == {"no-terms", "loop-pays", "fades"}


def test_each_term_of_its_reward_is_named_once_they_are_told(tmp_path: Path) -> None:
    report = check_reward(RewardCheckRequest(env=run_check(tmp_path, *GYMNASIUM, *TERMS), steps=4_000))
    named = {(remark.name, remark.what.partition(" ")[0]) for remark in report.remarks}
    assert {(name, term) for name, term in named if name in ("changes-the-objective", "fades", "penalty-without-limit")} == {
        ("changes-the-objective", "progress"),
        ("changes-the-objective", "efficiency"),
        ("changes-the-objective", "curiosity"),
        ("changes-the-objective", "safety"),
        ("fades", "curiosity"),
        ("penalty-without-limit", "safety"),
    }
    assert "no-terms" not in {name for name, _ in named}
