"""The lines of an environment's own file that a suspected fault sits in, and the test that would have caught it.

The file is parsed, never run. Where no line looks wrong, those that make the reward, the observation or the start are named: one of them
is.
"""

import ast
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple


class CodeLine(NamedTuple):
    """A line to look at."""

    number: int
    function: str
    text: str
    look: str


class _Found(NamedTuple):
    node: ast.stmt
    function: str
    look: str


MOST: Final = 3


def find_lines(source: str, class_name: str, cause: str) -> list[CodeLine]:
    """At most three lines of the class, those that look wrong first; none where the file has no such class or the cause is another's."""
    look = _LOOKS.get(cause)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    owner = next((node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == class_name), None)
    if look is None or owner is None:
        return []
    methods = {node.name: node for node in owner.body if isinstance(node, ast.FunctionDef)}
    lines = source.splitlines()
    found = {each.node.lineno: each for each in reversed(list(look(methods)))}
    ordered = sorted(found.values(), key=lambda each: (each.look.startswith("one of"), each.node.lineno))
    return [CodeLine(each.node.lineno, each.function, lines[each.node.lineno - 1].strip(), each.look) for each in ordered[:MOST]]


def write_test(module: str, class_name: str, cause: str) -> str:
    """A short pytest that fails where the fault is; "" for a cause that none is known for."""
    body = _TESTS.get(cause, "")
    numpy = "import numpy as np\n\n" if "np." in body else ""
    return f"{numpy}from {module} import {class_name}\n\n\n{body.format(env=class_name)}" if body else ""


# ── what to look for ──

Methods = dict[str, ast.FunctionDef]


def _statements(methods: Methods, *words: str) -> Iterator[tuple[ast.stmt, str]]:
    """Statements of step() and of methods whose name has one of the words."""
    for name, method in methods.items():
        if name == "step" or any(word in name for word in words):
            for node in ast.walk(method):
                if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return):
                    yield node, name


def _names(node: ast.AST | None) -> set[str]:
    if node is None:
        return set()
    parts = (part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else "" for part in ast.walk(node))
    return {part.lower() for part in parts if part}


def _made(methods: Methods, word: str, place: int) -> Iterator[tuple[ast.stmt, str, ast.expr]]:
    """Statements that make what has the word in its name, or return it at a place of step()'s tuple; and the value."""
    for node, function in _statements(methods, word):
        if isinstance(node, ast.Return):
            if isinstance(node.value, ast.Tuple) and function == "step" and len(node.value.elts) > place:
                yield node, function, node.value.elts[place]
            elif node.value is not None and word in function:
                yield node, function, node.value
        elif node.value is not None:  # type: ignore[attr-defined]
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]  # type: ignore[attr-defined]
            if any(word in name for target in targets for name in _names(target)):
                yield node, function, node.value  # type: ignore[attr-defined]


def _is_negative(value: ast.expr) -> bool:
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.USub)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Div):
        return _is_negative(value.left) or _is_negative(value.right)
    return False


def _has_constant(value: ast.expr) -> bool:
    """Whether a number is added or taken away."""
    sums = [part for part in ast.walk(value) if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add | ast.Sub)]
    return any(isinstance(side, ast.Constant) for part in sums for side in (part.left, part.right))


def _reward_lines(suspicious: Callable[[ast.stmt, ast.expr], bool], look: str) -> Callable[[Methods], Iterator[_Found]]:
    def search(methods: Methods) -> Iterator[_Found]:
        for node, function, value in _made(methods, "reward", 1):
            simple = isinstance(value, ast.Name | ast.Attribute)
            if suspicious(node, value):
                yield _Found(node, function, look)
            elif not simple:
                yield _Found(node, function, "one of the lines that make the reward")

    return search


def _is_subtracted(node: ast.stmt) -> bool:
    return isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Sub)


def _observation_lines(methods: Methods) -> Iterator[_Found]:
    for node, function, value in (*_made(methods, "obs", 0), *_made(methods, "state", 0)):
        old = any(word in name for name in _names(value) for word in ("last", "prev", "old", "buffer", "queue", "history", "deque"))
        look = "an older observation is returned" if old else "one of the lines that make the observation"
        yield _Found(node, function, look)


def _action_lines(methods: Methods) -> Iterator[_Found]:
    step = methods.get("step")
    if step is None or len(step.args.args) < 2:
        return
    name = step.args.args[1].arg
    uses = [node for node in ast.walk(step) if isinstance(node, ast.stmt) and node is not step and name in _direct_names(node)]
    if not uses:
        yield _Found(step, "step", f"step() never uses {name}")
    for node in uses:
        overwritten = isinstance(node, ast.Assign) and name in {part for target in node.targets for part in _names(target)}
        yield _Found(node, "step", f"{name} is replaced here" if overwritten else f"one of the lines that use {name}")


def _direct_names(node: ast.stmt) -> set[str]:
    """Names of a statement's own expressions, without the statements inside it."""
    inner = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
    return {part.id for child in inner for part in ast.walk(child) if isinstance(part, ast.Name)}


def _start_lines(methods: Methods) -> Iterator[_Found]:
    reset = methods.get("reset")
    if reset is None:
        return
    passed_on = any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "reset" and "seed" in _names_of_call(node)
        for node in ast.walk(reset)
    )
    if not passed_on:
        yield _Found(reset, "reset", "super().reset(seed=seed) is missing: np_random is never seeded")
    for name, method in methods.items():
        for node in ast.walk(method):
            if isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Call):
                call = node.value
                called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                fixed = call.args and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, int)
                if called in ("seed", "default_rng", "RandomState") and fixed:
                    yield _Found(node, name, "the same seed every time")


def _names_of_call(call: ast.Call) -> set[str]:
    return {keyword.arg or "" for keyword in call.keywords} | {name for argument in call.args for name in _names(argument)}


_ANY_REWARD: Final = _reward_lines(lambda node, value: False, "")
_LOOKS: Final[dict[str, Callable[[Methods], Iterator[_Found]]]] = {
    "reward-sign": _reward_lines(lambda node, value: _is_negative(value) or _is_subtracted(node), "the sign of this"),
    "reward-shifted": _reward_lines(lambda node, value: _has_constant(value), "the constant in this"),
    "reward-scale-too-large": _ANY_REWARD,
    "reward-scale-too-small": _ANY_REWARD,
    "reward-never-seen": _ANY_REWARD,
    "reward-delayed": _ANY_REWARD,
    "reward-sparse": _ANY_REWARD,
    "reward-noise": _ANY_REWARD,
    "observation-scale": _observation_lines,
    "observation-late": _observation_lines,
    "observation-constant": _observation_lines,
    "observation-not-updated": _observation_lines,
    "observation-partial": _observation_lines,
    "actions-without-effect": _action_lines,
    "starts-identical": _start_lines,
}

_PLAY: Final = """    env.reset(seed=0)
    env.action_space.seed(0)
"""
_TESTS: Final = {
    "reward-sign": """def test_a_good_step_pays_more_than_a_bad_one():
    env = {env}()
"""
    + _PLAY
    + """    good, bad = ..., ...  # one action that helps and one that hurts, from the same start
    paid = {{}}
    for name, action in (("good", good), ("bad", bad)):
        env.reset(seed=0)
        paid[name] = env.step(action)[1]
    assert paid["good"] > paid["bad"]
""",
    "observation-scale": """def test_observations_are_of_size_one():
    env = {env}()
"""
    + _PLAY
    + """    seen = np.array([env.step(env.action_space.sample())[0] for _ in range(200)])
    assert (0.03 < seen.std(0)).all() and (np.abs(seen) < 30).all()
""",
    "observation-late": """def test_the_next_observation_answers_to_the_action():
    env, seen = {env}(), []
    for action in (env.action_space.sample(), env.action_space.sample()):  # draw until they differ
        env.reset(seed=0)
        seen.append(env.step(action)[0])
    assert (seen[0] != seen[1]).any()
""",
    "starts-identical": """def test_starts_differ_with_the_seed():
    env = {env}()
    assert (env.reset(seed=1)[0] != env.reset(seed=2)[0]).any()
    assert (env.reset(seed=1)[0] == env.reset(seed=1)[0]).all()
""",
    "reward-shifted": """def test_a_step_in_which_nothing_happens_pays_nothing():
    env = {env}()
"""
    + _PLAY
    + """    idle = ...  # the action that does nothing
    assert env.step(idle)[1] == 0
""",
}
_TESTS["actions-without-effect"] = _TESTS["observation-not-updated"] = _TESTS["observation-late"]
