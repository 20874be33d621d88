"""Scripts, run with symbols in place of numbers: a value stays what it is, whatever way it took; masks, sizes, gradients, schedules."""

from textwrap import dedent

import pytest

from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import linter
from rlclinic.diagnosis.lint.code.reading.script import Script
from rlclinic.diagnosis.lint.code.reading.sources import Source
from rlclinic.diagnosis.lint.code.symbolic import execution as symbolic
from rlclinic.diagnosis.lint.code.symbolic import formulas, sizes
from rlclinic.diagnosis.lint.code.symbolic.execution import Closure, Execution, Items, Symbol, Table, Value

START = """
import copy
import gymnasium as gym
import numpy as np
import torch
from collections import deque, namedtuple
from dataclasses import dataclass
env = gym.make("CartPole-v1")
net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
obs, _ = env.reset(seed=0)
seen, paid, ended, cut, _ = env.step(env.action_space.sample())
"""


def script(code: str) -> Script:
    return linter.parse(Source("script.py", START + dedent(code) + "\nloss.backward()\n"))


def run(code: str) -> Execution:
    return formulas.execution(script(code))


def value(code: str, name: str = "x") -> Value:
    found = run(code)._module.names.get(name)
    assert found is not None
    return found


PASSED_ON = {
    "a tuple": "_, x = (obs, paid)",
    "a starred tuple": "_, *_, x = (obs, seen, paid)",
    "a dictionary": 'x = {"r": paid, "s": obs}["r"]',
    "a namedtuple": 'Row = namedtuple("Row", ["s", "r"])\nx = Row(obs, paid).r',
    "a namedtuple with its fields by name": 'Row = namedtuple("Row", field_names=["s", "r"])\n_, x = Row(obs, r=paid)',
    "a dataclass": "@dataclass\nclass Row:\n    s: object\n    r: float\nx = Row(obs, paid).r",
    "a function": "def second(a, b):\n    return b\nx = second(obs, b=paid)",
    "a lambda": "x = (lambda a, b=None: b)(obs, paid)",
    "a closure": "def outer(r):\n    def inner():\n        return r\n    return inner\nx = outer(paid)()",
    "an attribute": "class Memory:\n    def keep(self, r):\n        self.r = r\nm = Memory()\nm.keep(paid)\nx = m.r",
    "an inherited method": "class A:\n    def keep(self, r):\n        self.r = r\nclass B(A):\n    pass\nm = B()\nm.keep(paid)\nx = m.r",
    "a deque": "d = deque(maxlen=10)\nd.append((obs, paid))\nx = d[0][1]",
    "an array": "a = np.zeros(100)\na[3] = paid\nx = torch.as_tensor(a)[3]",
    "columns of rows": "rows = []\nrows.append((obs, paid))\ns, x = zip(*rows)",
    "a walrus": "if (x := paid) is not None:\n    pass",
    "a match": "match (obs, paid):\n    case (s, x):\n        pass",
    "a generator": "def stream():\n    yield obs, paid\nfor s, x in stream():\n    pass",
    "a loader": (
        "from torch.utils.data import DataLoader, IterableDataset\n"
        "class Rows(IterableDataset):\n    def __iter__(self):\n        yield obs, paid\n"
        "for s, x in DataLoader(dataset=Rows(), batch_size=4):\n    pass"
    ),
    "keyword arguments in a dictionary": "def second(a, b):\n    return b\nx = second(**{'b': paid, 'a': obs})",
}


@pytest.mark.parametrize("way", PASSED_ON)
def test_a_reward_stays_one_on_its_way_through(way: str) -> None:
    assert formulas.role(value(PASSED_ON[way])) == "reward"
    assert formulas.role(value(PASSED_ON[way].replace("paid", "seen"))) == "next_obs"


@pytest.mark.parametrize(
    ("mask", "sign", "ends"),
    [
        ("1 - ended", -1, {"terminated"}),
        ("1.0 - float(ended)", -1, {"terminated"}),
        ("not ended", -1, {"terminated"}),
        ("ended or cut", 1, {"terminated", "truncated"}),
        ("np.logical_or(ended, cut)", 1, {"terminated", "truncated"}),
        ("~torch.tensor(ended)", -1, {"terminated"}),
        ("torch.where(torch.tensor(ended), 0.0, 0.99)", -1, {"terminated"}),
        ("0.99 * (1 - ended)", -1, {"terminated"}),
        ("0.0 if ended else 0.99", -1, {"terminated"}),
        ("ended == 0", -1, {"terminated"}),
        ("1 - (1 - ended)", 1, {"terminated"}),
    ],
)
def test_a_mask_is_known_by_what_it_is_at_an_end(mask: str, sign: int, ends: set[str]) -> None:
    held = formulas.flag(value(f"x = {mask}"))
    assert held is not None
    assert (held.sign, held.ends) == (sign, frozenset(ends))


@pytest.mark.parametrize("other", ["paid", "seen", "1 - paid", "ended * 0 + 1"])
def test_what_is_no_mask_is_not_taken_for_one(other: str) -> None:
    assert formulas.flag(value(f"x = {other}")) is None


@pytest.mark.parametrize(
    ("code", "shape"),
    [
        ("x = net(torch.zeros(32, 4))", (32, 1)),
        ("x = net(torch.zeros(32, 4)).squeeze(-1)", (32,)),
        ("x = net(torch.zeros(32, 4)).flatten()", None),
        ("x = net(torch.zeros(32, 4)).max(1).values", (32,)),
        ("x = net(torch.zeros(32, 4)).max(dim=1, keepdim=True)[0]", (32, 1)),
        ("x = torch.zeros(32).unsqueeze(1)", (32, 1)),
        ("x = torch.zeros(32)[:, None]", (32, 1)),
    ],
)
def test_sizes_follow_from_how_a_tensor_was_made(code: str, shape: tuple[int, ...] | None) -> None:
    found = sizes.shape(value(code))
    assert found == shape or (shape is None and found is not None and len(found) == 1)


def test_a_column_and_a_row_clash_and_two_rows_do_not() -> None:
    assert sizes.clash((32,), (32, 1))
    assert not sizes.clash((32,), (32,))
    assert not sizes.clash((32, 1), (32, 1))
    assert not sizes.clash(None, (32, 1))


@pytest.mark.parametrize(
    ("code", "reached"),
    [
        ("x = net(obs)", True),
        ("x = net(obs).detach()", False),
        ("with torch.no_grad():\n    x = net(obs)", False),
        ("@torch.no_grad()\ndef ask():\n    return net(obs)\nx = ask()", False),
        ("x = net(obs).item()", False),
        ("x = torch.tensor(net(obs))", False),
        ("x = torch.stack([net(obs)])", True),
        ("x = 0.5 * (paid - net(obs)) ** 2", True),
    ],
)
def test_a_gradient_goes_where_nothing_cuts_it_off(code: str, reached: bool) -> None:
    assert bool(formulas.gradient(value(code))) is reached


def test_a_deep_copy_knows_its_source_and_a_second_name_is_no_copy() -> None:
    copied = run("slow = copy.deepcopy(net)\nx = slow(obs)")
    assert [(each.network, each.source) for each in formulas.copies(copied)] == [
        (copied._module.names["slow"], copied._module.names["net"])
    ]
    assert formulas.copies(run("slow = net\nx = slow(obs)")) == []


@pytest.mark.parametrize(
    ("code", "first", "later"),
    [
        ("for t in range(1000):\n    x = max(0.05, 1.0 - t / 500)", 1.0, 0.05),
        ("for t in range(1000):\n    x = 0.05 + 0.95 * np.exp(-t / 100)", 1.0, 0.05),
        ("def chance(t):\n    if t > 500:\n        return 0.1\n    return 1.0\nfor t in range(1000):\n    x = chance(t)", 1.0, 0.1),
        ("steps = 0\nwhile True:\n    steps += 1\n    x = 1 / (1 + steps)", 1.0, 0.0),
    ],
)
def test_a_schedule_is_computed_for_the_first_step_and_a_late_one(code: str, first: float, later: float) -> None:
    x = value(code)
    assert formulas.evaluated(x, 0.0) == pytest.approx(first)
    assert formulas.evaluated(x, 100_000.0) == pytest.approx(later, abs=1e-4)


def test_a_schedule_that_depends_on_more_than_a_counter_is_not_computed() -> None:
    assert formulas.evaluated(value("for t in range(10):\n    x = paid / (t + 1)"), 3.0) is None


def test_a_function_is_asked_for_a_number_without_a_trace_in_the_run() -> None:
    held = run("def schedule(rest):\n    return 3e-4 * rest\nx = schedule")
    function, before = held._module.names["x"], (len(held.events), len(held.sums), len(held.calls))
    assert isinstance(function, Closure)
    assert formulas.evaluated(held.answer(function, 0.5)) == pytest.approx(1.5e-4)
    assert (len(held.events), len(held.sums), len(held.calls)) == before


def test_both_branches_are_taken_and_what_differs_is_joined() -> None:
    joined = value("if paid > 0:\n    x = 1.0\nelse:\n    x = 2.0")
    assert isinstance(joined, Symbol)
    assert joined.op == "phi"
    assert [formulas.number(each) for each in joined.args[1:]] == [1.0, 2.0]


def test_a_branch_that_is_certain_is_the_only_one() -> None:
    assert formulas.number(value("if True:\n    x = 1.0\nelse:\n    x = 2.0")) == 1.0
    assert formulas.number(value("y = None\nif y is None:\n    x = 1.0\nelse:\n    x = 2.0")) == 1.0


def test_what_a_pass_leaves_is_seen_by_the_next_one() -> None:
    total = value("x = 0.0\nfor r in [paid, paid, paid, paid, paid, paid, paid, paid, paid, paid, paid, paid, paid]:\n    x = r + 0.9 * x")
    assert any(part.op == "carried" for part in formulas.parts(total))


def test_arguments_by_name_stand_in_their_place() -> None:
    by_name, in_order = (value(f"x = torch.nn.functional.mse_loss({given})") for given in ("target=paid, input=net(obs)", "net(obs), paid"))
    assert isinstance(by_name, Symbol)
    assert isinstance(in_order, Symbol)
    assert [getattr(each, "op", "") for each in by_name.args] == [getattr(each, "op", "") for each in in_order.args]


def test_hyperparameters_that_a_module_saves_are_its_own() -> None:
    held = run(
        """
        import lightning as L
        class Module(L.LightningModule):
            def __init__(self, rate=0.25):
                super().__init__()
                self.save_hyperparameters()
        x = Module().hparams.rate
        """
    )
    assert formulas.number(held._module.names["x"]) == 0.25


def test_a_list_that_is_emptied_says_so_in_every_way() -> None:
    for way in ("rows.clear()", "del rows[:]", "rows.pop()"):
        events = run(f"rows = []\nrows.append(paid)\n{way}").events
        assert [event.name for event in events if event.name == "emptied"] == ["emptied"], way


def test_a_script_is_given_up_after_so_many_steps_and_keeps_what_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "rows = []\nrows.append(paid)\n" + "y = 1 + 2 + 3 + 4\n" * 200
    whole = run(code)
    monkeypatch.setattr(symbolic, "MOST_STEPS", 300)
    part = run(code)
    assert whole.complete
    assert not part.complete
    assert [event.name for event in part.events] == [event.name for event in whole.events if event.name != "backward"]


def test_recursion_and_unknown_things_end() -> None:
    held = run(
        """
        def forever(n):
            return forever(n + 1)
        x = forever(0)
        class A:
            def __getitem__(self, key):
                return self[key]
        y = A()[0]
        z = [i for i in unknown() if i.thing]
        """
    )
    assert held.complete
    assert isinstance(held._module.names["z"], Items)


def test_the_same_script_gives_the_same_answers_twice() -> None:
    code = "rows = []\nfor t in range(10):\n    rows.append((obs, paid))\nx = torch.stack([net(s) for s, _ in rows]).mean()"
    assert repr(value(code)) == repr(value(code))


def test_a_table_keeps_what_is_put_into_it() -> None:
    held = value('x = {}\nx["r"] = paid\nx.update({"s": obs})')
    assert isinstance(held, Table)
    assert set(held.items) == {"r", "s"}


MEMORY_OF_ROLLOUTS = """
import gymnasium as gym
import torch


class Memory:
    def __init__(self, batch_size):
        self.batch_size = batch_size
        self.clear()

    def store(self, log_prob, reward):
        self.log_probs.append(log_prob)
        self.rewards.append(reward)

    def clear(self):
        self.log_probs, self.rewards = [], []


env = gym.make("CartPole-v1")
policy = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
memory = Memory(64)
for episode in range(500):
    obs, _ = env.reset(seed=7) if episode == 0 else env.reset()
    over = False
    while not over:
        dist = torch.distributions.Categorical(logits=policy(torch.as_tensor(obs)))
        action = dist.sample()
        obs, reward, terminated, truncated, _ = env.step(action.item())
        memory.store(dist.log_prob(action), reward)
        over = terminated or truncated
    loss = -(torch.stack(memory.log_probs) * sum(memory.rewards)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    memory.clear()
"""


def found_in(text: str) -> set[str]:
    script = linter.parse(Source("script", text))
    return {finding.rule for check in checks.checks("COD") for finding in linter.examine(check, script)}


def test_a_memory_that_is_emptied_by_new_lists_and_a_seed_at_the_first_reset_are_no_faults() -> None:
    assert not found_in(MEMORY_OF_ROLLOUTS) & {"COD133", "COD535", "COD903"}


def test_a_memory_that_is_never_emptied_is_found() -> None:
    emptied = "    def clear(self):\n        self.log_probs, self.rewards = [], []\n"
    kept = MEMORY_OF_ROLLOUTS.replace(emptied, "").replace("self.clear()", "self.log_probs, self.rewards = [], []")
    assert "COD133" in found_in(kept.replace("    memory.clear()\n", ""))


def test_an_expression_of_thousands_of_terms_is_no_reason_to_crash() -> None:
    terms = " + ".join(f"x[{number}]*y" for number in range(700))
    assert found_in(f"import torch\n\n\ndef table(x, y):\n    return {terms}\n") <= {"COD901", "COD902"}
