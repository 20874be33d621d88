"""Scripts that are run with symbols: what values are made of, whatever they went through, and what is said of them."""

# ruff: noqa: E501 — scripts in one line each

import textwrap

import pytest

from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import linter
from rlclinic.diagnosis.lint.code.reading.script import Script
from rlclinic.diagnosis.lint.code.reading.sources import Source
from rlclinic.diagnosis.lint.code.symbolic import formulas, sizes
from rlclinic.diagnosis.lint.code.symbolic.execution import Execution, Items, Symbol, Value

HEAD = """
import copy, random
from collections import namedtuple
from dataclasses import dataclass, astuple
import gymnasium as gym
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

env = gym.make("CartPole-v1")
obs, _ = env.reset(seed=0)
"""


def parse(text: str) -> Script:
    return linter.parse(Source("script.py", HEAD + textwrap.dedent(text)))


def value(text: str, name: str = "x") -> Value:
    """What a name holds at the end of a script."""
    run: Execution = formulas.execution(parse(text + "\ntorch.zeros(1).sum().backward()\n"))
    assert run.complete
    return run._module.names[name]


def said(text: str) -> set[tuple[str, int]]:
    """Checks that speak of a script, and on which of its own lines."""
    script, lines = parse(text), HEAD.count("\n")
    return {
        (check.id, int(place.numbers["line"]) - lines)
        for check in checks.checks("COD")
        for finding in linter.examine(check, script)
        for place in finding.evidence
    }


STEP = "obs2, reward, terminated, truncated, _ = env.step(0)\n"


@pytest.mark.parametrize(
    "text",
    [
        "x = reward",
        "rows = [(obs, reward)]\nfirst, x = zip(*rows)",
        "Row = namedtuple('Row', 'before gain')\nrow = Row(obs, reward)\nx = row.gain",
        "@dataclass\nclass Row:\n    before: object\n    gain: float\nmemory = []\nmemory.append(Row(obs, reward))\n_, x = zip(*map(astuple, random.sample(memory, 4)))",
        "table = {'r': []}\ntable['r'].append(reward)\nx = torch.tensor(np.array(table['r']))",
        "def stream():\n    yield obs, reward\n_, x = next(stream())",
        "def rows():\n    kept = []\n    def put(one):\n        kept.append(one)\n    return put, lambda: kept\nput, get = rows()\nput(reward)\nx = torch.stack(get())",
        "class Buffer:\n    def __init__(self):\n        self.data = {k: np.zeros(9) for k in ('a', 'r')}\n    def add(self, **row):\n        for k, v in row.items():\n            self.data[k][3] = v\nbuffer = Buffer()\nbuffer.add(a=1, r=reward)\nx = torch.from_numpy(buffer.data['r'][np.random.randint(9, size=4)])",
        "x = dict(zip(('s', 'r'), (obs, reward)))['r']",
        "full = (obs, 1, reward, obs2)\nx = full[2:][0]",
    ],
)  # fmt: skip
def test_a_reward_is_followed_through_containers(text: str) -> None:
    assert formulas.role(value(STEP + text)) == "reward"


def test_a_generator_gives_what_it_yields() -> None:
    made = value(STEP + "def rows():\n    for _ in range(9):\n        yield reward, obs\nx = [a for a, b in rows()]")
    assert isinstance(made, Items)
    assert formulas.role(made.items[-1]) == "reward"


def test_defaults_of_a_parser_are_known_numbers() -> None:
    made = value(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--buffer-size', type=int, default=200)\nx = p.parse_args().buffer_size"
    )
    assert formulas.number(made) == 200


def test_a_value_that_a_function_returns_early_keeps_its_condition() -> None:
    made = value("def f(flag):\n    if flag:\n        return 1\n    return env.reset()\nx = f(obs)")
    assert isinstance(made, Symbol)
    assert made.op == "phi"
    assert formulas.role(made.args[0]) == "obs"


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("x = 1 - float(terminated)", (-1, {"terminated"})),
        ("x = terminated or truncated", (1, {"terminated", "truncated"})),
        ("after = None if terminated else obs2\nx = after is not None", (-1, {"terminated"})),
        ("x = 0.0 if terminated else 1.0", (-1, {"terminated"})),
    ],
)
def test_a_mask_is_known_by_the_flags_that_it_is_made_of(text: str, flags: tuple[int, set[str]]) -> None:
    held = formulas.flag(value(STEP + text))
    assert held is not None
    assert (held.sign, set(held.ends)) == flags


NETS = """
def mlp(sizes):
    layers = []
    for i in range(len(sizes) - 1):
        layers.append(nn.Linear(sizes[i], sizes[i + 1]))
        if i < len(sizes) - 2:
            layers.append(nn.Tanh())
    return nn.Sequential(*layers)
v = mlp([4, 64, 1])
q = mlp([4, 64, 2])
kept = []
kept.append(obs)
batch = torch.as_tensor(np.array(kept))
"""


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("x = v(batch)", ("N", 1)),
        ("x = v(batch).squeeze(-1)", ("N",)),
        ("x = v(batch)[..., 0]", ("N",)),
        ("x = v(batch)[:, None]", ("N", 1, 1)),
        ("x = q(batch).max(1)[0]", ("N",)),
        ("x = q(batch).max(dim=1, keepdim=True).values", ("N", 1)),
        ("x = q(batch).gather(1, q(batch).argmax(1, keepdim=True))", ("N", 1)),
        ("x = torch.distributions.Categorical(logits=q(batch)).entropy()", ("N",)),
        ("x = torch.distributions.Normal(q(batch), 1.0).log_prob(q(batch)).sum(-1)", ("N",)),
        (STEP + "r = []\nr.append(reward)\nx = torch.tensor(r)", ("N",)),
        (STEP + "r = []\nr.append([reward])\nx = torch.tensor(r)", ("N", 1)),
        ("x = torch.zeros(8, 4)[torch.randint(8, (3,))]", ("N", 4)),
    ],
)
def test_sizes_are_known_by_how_a_tensor_was_made(text: str, shape: tuple[int | str, ...]) -> None:
    assert sizes.shape(value(NETS + text)) == shape


@pytest.mark.parametrize(
    ("one", "other", "clashes"),
    [(("N",), ("N", 1), True), (("N",), ("N",), False), ((51,), ("N", 1), False), (("N", "E"), ("N", "E", 1), True), ((), ("N", 1), False)],
)
def test_only_a_row_and_a_column_of_the_same_batch_clash(one: sizes.Shape, other: sizes.Shape, clashes: bool) -> None:
    assert sizes.clash(one, other) is clashes
    assert sizes.clash(other, one) is clashes


LOOP = """
net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
slow = copy.deepcopy(net)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
memory = []
for t in range(10_000):
    eps = max(0.05, 1 - t / 5_000)
    a = env.action_space.sample() if random.random() < eps else net(torch.as_tensor(obs)).argmax().item()
    obs2, r, term, trunc, _ = env.step(a)
    memory.append((obs, a, r, obs2, term))
    obs = obs2
    if term or trunc:
        obs, _ = env.reset()
    if len(memory) < 1000:
        continue
    s, u, g, s2, end = (torch.as_tensor(np.array(c)) for c in zip(*random.sample(memory, 32)))
    with torch.no_grad():
        y = g + 0.99 * (1 - end.float()) * slow(s2).max(1).values
    loss = F.mse_loss(net(s).gather(1, u[:, None]).squeeze(1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if t % 100 == 0:
        slow.load_state_dict(net.state_dict())
"""


def test_a_sound_script_is_left_alone() -> None:
    assert not {(check, line) for check, line in said(LOOP) if check != "COD902"}


@pytest.mark.parametrize(
    ("right", "wrong", "check"),
    [
        (" * (1 - end.float())", "", "COD501"),
        ("(1 - end.float())", "end.float()", "COD502"),
        ("slow(s2)", "net(s2)", "COD536"),
        (".squeeze(1), y)", ", y)", "COD601"),
        (".max(1).values\n    loss", ".max(0).values\n    loss", "COD533"),
        ("random.random() < eps", "random.random() > eps", "COD511"),
        ("eps = max(0.05, 1 - t / 5_000)", "eps = 0.9", "COD508"),
        ("(obs, a, r, obs2, term)", "(obs2, a, r, obs2, term)", "COD123"),
        ("    opt.zero_grad()\n", "", "COD401"),
        ("    opt.step()\n", "", "COD404"),
        ("opt = torch.optim.Adam(net.", "opt = torch.optim.Adam(slow.", "COD406"),
        ("if term or trunc:", "if trunc:", "COD105"),
        ("    if t % 100 == 0:\n        slow.load_state_dict(net.state_dict())\n", "", "COD506"),
        ("slow(s2).max(1).values", "slow(s2).argmax(1)", "COD532"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_named_by_its_check(right: str, wrong: str, check: str) -> None:
    assert right in LOOP
    assert check in {found for found, _ in said(LOOP.replace(right, wrong, 1))}


PPO = """
pi = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
v = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
opt = torch.optim.Adam([*pi.parameters(), *v.parameters()], lr=3e-4)
for _ in range(50):
    rows = []
    for _ in range(128):
        with torch.no_grad():
            dist = torch.distributions.Categorical(logits=pi(torch.as_tensor(obs)))
            act = dist.sample()
            old = dist.log_prob(act)
            worth = v(torch.as_tensor(obs)).squeeze(-1)
        obs2, r, term, trunc, _ = env.step(act.item())
        with torch.no_grad():
            later = v(torch.as_tensor(obs2)).squeeze(-1)
        rows.append({"obs": torch.as_tensor(obs), "act": act, "old": old, "r": r, "v": worth, "v2": later, "term": term, "end": term or trunc})
        obs = env.reset()[0] if term or trunc else obs2
    adv, run = [], 0.0
    for row in reversed(rows):
        run = row["r"] + 0.99 * (1 - row["term"]) * row["v2"] - row["v"] + 0.99 * 0.95 * (1 - row["end"]) * run
        adv.insert(0, run)
    adv = torch.stack(adv)
    goal = adv + torch.stack([row["v"] for row in rows])
    x, u, lp = (torch.stack([row[k] for row in rows]) for k in ("obs", "act", "old"))
    for pick in torch.randperm(128).split(32):
        dist = torch.distributions.Categorical(logits=pi(x[pick]))
        ratio = (dist.log_prob(u[pick]) - lp[pick]).exp()
        gain = torch.min(ratio * adv[pick], ratio.clamp(0.8, 1.2) * adv[pick]).mean()
        error = (v(x[pick]).squeeze(-1) - goal[pick]).pow(2).mean()
        loss = -gain + 0.5 * error - 0.01 * dist.entropy().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""


def test_a_sound_policy_gradient_is_left_alone() -> None:
    assert not {(check, line) for check, line in said(PPO) if check != "COD902"}


@pytest.mark.parametrize(
    ("right", "wrong", "check"),
    [
        ("(dist.log_prob(u[pick]) - lp[pick])", "(lp[pick] - dist.log_prob(u[pick]))", "COD207"),
        ("(dist.log_prob(u[pick]) - lp[pick]).exp()", "dist.log_prob(u[pick]) - lp[pick]", "COD207"),
        ("clamp(0.8, 1.2)", "clamp(-0.2, 0.2)", "COD209"),
        ("- lp[pick])", "- dist.log_prob(u[pick]).detach())", "COD208"),
        ("dist.log_prob(u[pick])", "dist.log_prob(dist.sample())", "COD210"),
        ("torch.min(ratio", "torch.max(ratio", "COD301"),
        ("loss = -gain", "loss = gain", "COD302"),
        ("+ 0.5 * error", "- 0.5 * error", "COD305"),
        ("- 0.01 * dist", "+ 0.01 * dist", "COD304"),
        ("for row in reversed(rows)", "for row in rows", "COD504"),
        ("adv.insert(0, run)", "adv.append(run)", "COD505"),
        ("goal = adv + torch.stack([row[\"v\"] for row in rows])", "goal = adv", "COD514"),
        ("v(x[pick]).squeeze(-1)", "v(x[pick])", "COD601"),
        (" * (1 - row[\"end\"]) * run", " * run", "COD503"),
    ],
)  # fmt: skip
def test_a_fault_of_a_policy_gradient_is_named_by_its_check(right: str, wrong: str, check: str) -> None:
    assert right in PPO
    assert check in {found for found, _ in said(PPO.replace(right, wrong, 1))}


def test_a_tables_entry_that_moves_away_from_its_target_is_named() -> None:
    table = """
    q = np.zeros((16, 4))
    for k in range(500):
        s, _ = env.reset()
        over = False
        while not over:
            a = int(np.argmax(q[s])) if random.random() > 0.1 else env.action_space.sample()
            s2, r, term, trunc, _ = env.step(a)
            y = r + 0.99 * (1 - term) * np.max(q[s2])
            q[s, a] += 0.1 * (y - q[s, a])
            s = s2
            over = term or trunc
    """
    assert not [check for check, _ in said(table) if check != "COD902"]
    assert ("COD305", 10) in said(table.replace("+= 0.1", "-= 0.1"))
    assert "COD501" in {check for check, _ in said(table.replace(" * (1 - term)", ""))}


def test_a_check_that_fails_says_nothing_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "script.py"
    path.write_text(HEAD + LOOP.replace(" * (1 - end.float())", ""))
    monkeypatch.setattr("rlclinic.diagnosis.lint.code.symbolic.sizes.shape", lambda *_: 1 / 0)
    assert "COD501" in {finding.rule for finding in linter.lint_code(str(path)).findings}


@pytest.mark.parametrize(
    ("written", "sign"),
    [
        ("1 - d", -1), ("(d < 0.5) * 1.0", -1), ("-1.0 * d + 1", -1), ("-(d - 1)", -1), ("float(d != 1)", -1), ("float(d is False)", -1),
        ("torch.where(d > 0.5, 0.0, 1.0)", -1), ("np.where(d, 1.0, 0.0)", 1), ("0.5 < d", 1), ("d == 1", 1), ("0.99 * d", 1),
        ("0.0 if d else 0.97", -1), ("(1 - d) * (1 - late)", -1), ("d + late", 1), ("d or late or len([]) == 5", 1),
    ],
)  # fmt: skip
def test_a_flag_is_read_by_what_it_is_at_an_end_and_elsewhere(written: str, sign: int) -> None:
    held = formulas.flag(value(f"after, gain, d, late, _ = env.step(0)\nx = {written}"))
    assert held is not None
    assert held.sign == sign


@pytest.mark.parametrize("written", ["0 * d + 1", "d - d", "(d < 2) * 1.0"])
def test_what_is_the_same_at_an_end_and_elsewhere_is_no_flag(written: str) -> None:
    assert formulas.flag(value(f"after, gain, d, late, _ = env.step(0)\nx = {written}")) is None


@pytest.mark.parametrize(
    "unpacked",
    [
        "a, x, *rest = env.step(0)", "a, x, b, c = env.step(0)[:4]", "*rest, x, b, c, e = env.step(0)", "x = env.step(0)[1]",
        "from functools import partial\nx = partial(lambda k, row: row[k], 1)(env.step(0))",
        "from collections import defaultdict\nkept = defaultdict(list)\nkept['g'].append(env.step(0)[1])\nx = kept['g'][0]",
        "class Rows(torch.utils.data.IterableDataset):\n    def __iter__(self):\n        while True:\n            yield obs, env.step(0)[1]\n"
        "for first, second in torch.utils.data.DataLoader(Rows(), batch_size=4):\n    x = second",
    ],
)  # fmt: skip
def test_a_reward_is_known_however_a_step_is_taken_apart_and_kept(unpacked: str) -> None:
    assert formulas.is_reward(value(unpacked))


def test_what_follows_an_early_exit_holds_where_its_condition_does_not() -> None:
    loop = """
    q = nn.Linear(4, 2)
    slow = copy.deepcopy(q)
    opt = torch.optim.Adam(q.parameters())
    def worth(r, end, after):
        if end:
            return torch.tensor(r)
        return r + 0.99 * slow(after).max()
    for k in range(5000):
        act = int(q(torch.as_tensor(obs)).argmax()) if random.random() > max(0.05, 1 - k / 1000) else env.action_space.sample()
        nxt, gain, end, late, _ = env.step(act)
        with torch.no_grad():
            y = worth(gain, end, torch.as_tensor(nxt))
        loss = (q(torch.as_tensor(obs))[act] - y) ** 2
        opt.zero_grad(); loss.backward(); opt.step()
        obs = nxt
        if k % 100 == 0:
            slow.load_state_dict(q.state_dict())
        if end or late:
            obs, _ = env.reset()
    """
    assert not [check for check, _ in said(loop) if check.startswith("COD5")]
    assert "COD501" in {check for check, _ in said(loop.replace("        if end:\n            return torch.tensor(r)\n", ""))}


def test_a_mask_that_is_chosen_by_where_may_be_the_wrong_way_round() -> None:
    assert " * (1 - end.float())" in LOOP
    line = next(text for text in LOOP.splitlines() if " * (1 - end.float())" in text)
    future = line.partition("+")[2].replace(" * (1 - end.float())", "").strip()
    kept = LOOP.replace(line, line.partition("+")[0] + f"+ torch.where(end > 0.5, torch.zeros(8), {future})")
    turned = LOOP.replace(line, line.partition("+")[0] + f"+ torch.where(end > 0.5, {future}, torch.zeros(8))")
    assert not {check for check, _ in said(kept)} & {"COD501", "COD502"}
    assert "COD502" in {check for check, _ in said(turned)}
