"""Checks of scripts: every one finds its wrong example and leaves its right twin alone; clean scripts stay clean; nothing is run."""

# ruff: noqa: E501 — lines of code in strings

import json
import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlclinic.diagnosis import registry
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import lint_code, linter
from rlclinic.diagnosis.lint.code.reading.sources import Source
from rlclinic.errors import NotFound, UsageError
from tests.diagnosis.broken_twins import SCRIPTS, TWINS, Twin, broken, text_of

CHECKS = {each.id: each for each in checks.checks("COD")}
CLEAN = sorted(path.stem for path in SCRIPTS.glob("*.py"))
EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.py"))


def said(id: str, text: str) -> list[Finding]:
    return linter.examine(CHECKS[id], linter.parse(Source("script.py", text)))


@cache
def everything(text: str) -> list[Finding]:
    script = linter.parse(Source("script.py", text))
    return [finding for each in CHECKS.values() for finding in linter.examine(each, script)]


# ── every check ──


@pytest.mark.parametrize("id", sorted(CHECKS))
def test_a_check_finds_its_wrong_example_and_leaves_the_right_one_alone(id: str) -> None:
    assert CHECKS[id].wrong != CHECKS[id].right
    assert said(id, CHECKS[id].wrong), f"{CHECKS[id].name} said nothing"
    assert [finding.text for finding in said(id, CHECKS[id].right)] == []


@pytest.mark.parametrize("id", sorted(CHECKS))
def test_no_check_is_loud_about_a_right_example(id: str) -> None:
    found = [finding for finding in everything(CHECKS[id].right) if finding.severity is not Severity.LOW]
    assert [f"{finding.rule}: {finding.text}" for finding in found] == []


def test_a_check_is_documented() -> None:
    for check in checks.checks():
        assert check.title.endswith("."), check.id
        assert len(check.why) > 30, check.id
        assert check.fix, check.id
        assert check.cites, check.id


def test_ids_and_names_are_used_once_by_checks_and_rules_together() -> None:
    both = [*checks.checks(), *registry.rules()]
    assert len({each.id for each in both}) == len(both)
    assert len({each.name for each in both}) == len(both)
    assert len(CHECKS) >= 30


# ── scripts ──


@pytest.mark.parametrize("script", CLEAN)
def test_a_clean_script_raises_no_alarm(script: str) -> None:
    assert [f"{finding.rule}: {finding.text}" for finding in everything(text_of(script))] == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_our_own_examples_raise_no_alarm(path: Path) -> None:
    assert everything(path.read_text()) == []


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: f"{twin.id}-{twin.script}")
def test_a_mistake_in_a_clean_script_is_found_on_its_line(twin: Twin) -> None:
    text = broken(twin)
    found = {finding.rule: finding for finding in everything(text)}
    assert twin.id in found
    line = int(found[twin.id].evidence[0].numbers["line"])
    assert found[twin.id].evidence[0].series == f"code:script.py:{line}"
    assert found[twin.id].evidence[0].text == text.splitlines()[line - 1].strip()


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: f"{twin.id}-{twin.script}")
def test_one_mistake_is_one_alarm(twin: Twin) -> None:
    # The sign of the surrogates decides which extreme is right: one edit, both wrong.
    allowed = {twin.id} | ({"COD301"} if twin.id == "COD302" else set())
    assert {finding.rule for finding in everything(broken(twin)) if finding.severity is not Severity.LOW} <= allowed


def test_the_twins_cover_nearly_every_check() -> None:
    assert len({twin.id for twin in TWINS}) >= 60


TWO_HEADS = (
    "from torch import nn\nimport torch.nn.functional as F\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.pi, self.v = nn.Linear(4, 2), nn.Linear(4, 1)\n        self.scores = nn.Linear(4, 2)\n"
    "    def forward(self, x):\n        return {head}, self.v(x)\nnet = Net()\npicked, value = net(obs)\n"
)
VARIANTS = {
    "probabilities from a network with two heads": (
        "COD204",
        TWO_HEADS.replace("{head}", "F.softmax(self.scores(x), dim=-1)") + "dist = Categorical(logits=picked)\n",
    ),
    "scores from a network with two heads": ("COD205", TWO_HEADS.replace("{head}", "self.scores(x)") + "dist = Categorical(picked)\n"),
    "returns summed forwards over two lists, with a number for gamma": (
        "COD504",
        "R = 0.0\nfor reward, over in zip(rewards, overs):\n    R = reward + 0.99 * R\n    returns.append(R)\n",
    ),
    "a loss that another function minimizes": (
        "COD303",
        "def losses(log_probs, advantages):\n    actor_loss = (log_probs * advantages).mean()\n    return actor_loss\n"
        "def update(actor_loss):\n    actor_loss.backward()\n",
    ),
    "gathered values against a row of zeros": (
        "COD601",
        "import torch.nn.functional as F\nN = 32\ntarget = torch.zeros(N)\nloss = F.mse_loss(q_net(obs).gather(1, action), target)\n",
    ),
    "the second of two optimizers steps too early": (
        "COD403",
        "q_optim.zero_grad()\nq_loss.backward()\nq_optim.step()\npi_optim.zero_grad()\npi_optim.step()\npi_loss.backward()\n",
    ),
    "one part of an agent given to the optimizer": (
        "COD406",
        "import torch\nfrom torch import nn\nclass Both(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.actor = nn.Sequential(nn.Linear(4, 2))\n        self.critic = nn.Sequential(nn.Linear(4, 1))\n"
        "agent = Both()\nopt = torch.optim.Adam(agent.actor.parameters())\nopt.zero_grad()\nagent.loss().backward()\nopt.step()\n",
    ),
    "a mask that is read and not used": (
        "COD501",
        "obs, action, reward, next_obs, not_done = buffer.sample(64)\nnext_q = target_net(next_obs, a2)\ntarget = reward + discount * next_q\n",
    ),
    "a discount given as a default": ("COD512", "def target(reward, next_q, gamma=9.9):\n    return reward + gamma * next_q\n"),
    "values taken from a list with their graph": (
        "COD306",
        "for log_prob, value, R in zip(log_probs, values, returns):\n    advantage = R - value\n    losses.append(-log_prob * advantage)\n"
        "    losses.append(F.mse_loss(value, R))\n",
    ),
    "a method on a network that is asked through a function": (
        "COD307",
        "def loss_of(q_net, batch):\n    target = batch.reward + gamma * q_net(batch.next_obs).max(1)[0] * (1 - batch.terminated)\n"
        "    return F.mse_loss(q_net(batch.obs).gather(1, batch.action).squeeze(1), target)\n",
    ),
    "a surrogate written in one line": (
        "COD302",
        "policy_loss = torch.min(ratio * adv, torch.clamp(ratio, 1 - eps, 1 + eps) * adv).mean()\npolicy_loss.backward()\n",
    ),
    "a loss that is appended term by term": (
        "COD303",
        "losses = []\nfor log_prob, R in zip(log_probs, returns):\n    losses.append(log_prob * R)\nloss = torch.stack(losses).sum()\nloss.backward()\n",
    ),
    "the entropy of a distribution, named nothing": (
        "COD304",
        "loss = policy_loss + 0.5 * value_loss + 0.01 * dist.entropy().mean()\nloss.backward()\n",
    ),
    "a loss that grows by steps": (
        "COD304",
        "entropy = dist.entropy().mean()\nloss = policy_loss\nloss += 0.01 * entropy\nloss.backward()\n",
    ),
}


@pytest.mark.parametrize("what", VARIANTS)
def test_a_mistake_is_found_however_it_is_written(what: str) -> None:
    id, text = VARIANTS[what]
    assert said(id, text)


HARMLESS = {
    "an environment seeded in the first round only": (
        "for phase in range(100):\n    if phase == 0:\n        obs, info = envs.reset(seed=42)\n    loss = play(envs, obs)\n    loss.backward()\n"
    ),
    "a mask that says not done": "target = reward + not_done * discount * next_q\n",
    "values taken from a list as numbers": (
        "for log_prob, value, R in zip(log_probs, values, returns):\n    advantage = R - value.item()\n    losses.append(-log_prob * advantage)\n"
        "    losses.append(F.mse_loss(value, R))\n"
    ),
    "epsilon compared the other way round": (
        "import random\nif random.random() > epsilon:\n    action = q_net(obs).argmax().item()\nelse:\n    action = env.action_space.sample()\n"
    ),
    "the negative entropy, added": (
        "entropy_loss = -torch.mean(entropy)\nloss = policy_loss + ent_coef * entropy_loss + vf_coef * value_loss\nloss.backward()\n"
    ),
    "an objective that is negated at the end": "objective = torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()\nloss = -objective\nloss.backward()\n",
    "cross-entropy weighed by returns": "loss = (F.cross_entropy(logits, actions, reduction='none') * returns).mean()\nloss.backward()\n",
    "an optimizer that climbs": (
        "import torch\nopt = torch.optim.Adam(net.parameters(), maximize=True)\nloss = (log_probs * returns).mean()\n"
        "opt.zero_grad()\nloss.backward()\nopt.step()\n"
    ),
    "an epsilon that a function returns": (
        "import random\ndef act(obs, epsilon):\n    if random.random() < epsilon:\n        return env.action_space.sample()\nepsilon = 1.0\n"
    ),
    "a running return for reward scaling": "class Scale:\n    def step(self, reward):\n        self.ret = self.gamma * self.ret + reward\n",
    "a vector of Stable-Baselines3": (
        "from stable_baselines3.common.env_util import make_vec_env\nimport gymnasium as gym\nvenv = make_vec_env('CartPole-v1')\n"
        "obs = venv.reset()\nobs, reward, done, info = venv.step([0])\nvenv.seed(0)\n"
    ),
    "a target network updated by a helper": (
        "import copy\ntarget_net = copy.deepcopy(q_net)\ndef soft_update(net, other):\n    for p, q in zip(net.parameters(), other.parameters()):\n"
        "        q.data.lerp_(p.data, 0.005)\nfor i in range(9):\n    y = r + gamma * target_net(s).max(1)[0] * (1 - d)\n    loss(y).backward()\n    soft_update(q_net, target_net)\n"
    ),
    "gradients cleared through the network": (
        "import torch\nopt = torch.optim.Adam(net.parameters())\nfor b in batches:\n    net.zero_grad()\n    f(b).backward()\n    opt.step()\n"
    ),
    "a scaler that steps the optimizer": (
        "import torch\nopt = torch.optim.Adam(net.parameters())\nscaler = torch.amp.GradScaler()\nfor b in batches:\n    opt.zero_grad()\n"
        "    scaler.scale(f(b)).backward()\n    scaler.step(opt)\n    scaler.update()\n"
    ),
    "a column against a column": (
        "from torch import nn\nimport torch.nn.functional as F\ncritic = nn.Sequential(nn.Linear(4, 1))\nloss = F.mse_loss(critic(x), returns.unsqueeze(1))\n"
    ),
    "frozen layers and a teacher": (
        "import torch\nfrom torch import nn\nteacher = nn.Sequential(nn.Linear(4, 2))\nstudent = nn.Sequential(nn.Linear(4, 2))\n"
        "opt = torch.optim.Adam(student.parameters())\nopt.zero_grad()\nloss = (student(x) - teacher(x)).pow(2).mean()\nloss.backward()\nopt.step()\n"
    ),
}


@pytest.mark.parametrize("what", HARMLESS)
def test_what_only_looks_like_a_mistake_is_left_alone(what: str) -> None:
    found = [finding for finding in everything(HARMLESS[what]) if finding.severity is not Severity.LOW]
    assert [f"{finding.rule}: {finding.text}" for finding in found] == []


# ── files ──


def test_a_notebook_is_read_cell_by_cell(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": "# Train"},
        {"cell_type": "code", "source": ["%pip install torch\n", "!ls\n", "import torch\n"]},
        {"cell_type": "code", "source": "%%bash\nthis is no python"},
        {"cell_type": "code", "source": ["loss = (log_probs * returns).mean()\n", "loss.backward()"]},
    ]
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    found = lint_code(str(path), select=["COD303"]).findings
    assert [finding.evidence[0].series for finding in found] == [f"code:{path}:cell 3:1"]


def test_a_folder_is_checked_whole_and_a_file_that_is_no_python_is_listed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("loss = (log_probs * returns).mean()\nloss.backward()\n")
    (tmp_path / "b.py").write_text("def broken(:\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "c.py").write_text("x = 1\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "d.py").write_text("loss = (log_probs * returns).mean()\nloss.backward()\n")
    found = lint_code(str(tmp_path))
    assert (found.files, len(found.skipped)) == (2, 1)
    assert "b.py:1" in found.skipped[0].why
    assert {finding.rule for finding in found.findings} == {"COD303", "COD902"}


@pytest.mark.parametrize(
    ("name", "text", "error", "message"),
    [
        ("old.py", "print 'hello'\n", UsageError, r"old\.py:1 is not Python that can be read"),
        ("empty.ipynb", "{}", UsageError, "not a notebook"),
        ("binary.py", b"\x00\xff\xfe", UsageError, "cannot be read as text"),
        ("null.py", "x = 1\x00\n", UsageError, "not Python that can be read"),
    ],
)
def test_what_is_no_python_is_answered_with_the_place(
    tmp_path: Path, name: str, text: str | bytes, error: type[Exception], message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(error, match=message):
        lint_code(str(path))


def test_a_path_that_is_not_there_says_so() -> None:
    with pytest.raises(NotFound, match="does not exist"):
        lint_code("nowhere.py")


def test_nothing_of_the_script_is_executed(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    path = tmp_path / "train.py"
    path.write_text(f"open({str(witness)!r}, 'w')\n")
    assert lint_code(str(path)).findings == ()
    assert not witness.exists()


def test_a_very_long_script_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    body = "".join(f"def part_{place}(x):\n    y = x + {place}\n    return y * {place}\n\n" for place in range(5_000))
    path.write_text(body + text_of("dqn_functions"))
    found = lint_code(str(path))
    assert found.lines > 20_000
    assert found.findings == ()


def test_the_same_script_gives_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(broken(TWINS[0]))
    assert lint_code(str(path)).model_dump_json() == lint_code(str(path)).model_dump_json()


def test_checks_can_be_selected_and_ignored(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("loss = (log_probs * returns).mean()\nloss.backward()\n")
    assert {finding.rule for finding in lint_code(str(path), select=["COD3"]).findings} == {"COD303"}
    assert {finding.rule for finding in lint_code(str(path), ignore=["policy-gradient-sign"]).findings} == {"COD902"}
    with pytest.raises(NotFound, match="no check of this kind begins with 'POL'"):
        lint_code(str(path), select=["POL"])


@pytest.mark.parametrize(
    ("mark", "kept"), [("  # rlclinic: ignore", False), ("  # rlclinic: ignore COD303", False), ("  # rlclinic: ignore COD101", True)]
)
def test_a_line_can_be_waived_by_its_author(mark: str, kept: bool) -> None:
    assert bool(said("COD303", f"loss = (log_probs * returns).mean(){mark}\nloss.backward()\n")) is kept


LINES = [line for script in CLEAN for line in text_of(script).splitlines() if line.strip() and not line.startswith((" ", "@"))]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from(LINES + [each.wrong for each in CHECKS.values()] + ["class A:\n    pass", "x = [*y, *z]", "f(*a, **b)"]), max_size=6
    )
)
def test_no_mixture_of_code_ends_in_a_traceback(parts: list[str]) -> None:
    text = "\n".join(parts) + "\n"
    try:
        found = everything(text)
    except UsageError as error:
        assert "not Python" in str(error)  # noqa: PT017 - either outcome is right, a traceback is not
    else:
        assert all(re.fullmatch(r"COD\d{3}", finding.rule) for finding in found)
