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
CAUSES: Final = {
    "ENV203": "seed-ignored",
    "ENV205": "starts-identical",
    "ENV206": "never-reset",
    "ENV207": "actions-without-effect",
    "ENV209": "time-limit-missing",
    "ENV211": "time-limit-as-terminal",
    "ENV301": "observation-constant",
    "ENV302": "observation-partial",
    "ENV303": "observation-scale",
    "ENV307": "reward-never-seen",
    "ENV309": "reward-scale-too-large",
    "ENV310": "reward-scale-too-small",
    "ENV401": "observation-not-updated",
    "ENV402": "observation-late",
    "ENV403": "observation-noise",
    "ENV404": "observation-scale",
    "ENV405": "observation-scale",
    "ENV406": "actions-without-effect",
    "ENV407": "reward-delayed",
    "ENV408": "reward-sparse",
    "ENV409": "reward-noise",
    "ENV410": "reward-clipped",
    "ENV411": "reward-sign",
    "ENV412": "deceptive-reward",
    "ENV413": "starts-identical",
    "ENV414": "episode-too-short",
    "ENV415": "final-observation-overwritten",
    "ENV416": "never-reset",
    "ENV417": "success-means-nothing",
}
"""By check of an environment: whose lines are looked for."""


def find_lines(source: str, class_name: str, cause: str) -> list[CodeLine]:
    """At most three lines of the class, those that look wrong first; none where the file has no such class or the cause is another's.

    The name may be that of a function that makes the environment.
    """
    look = _LOOKS.get(cause)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    owner = next((node for node in classes if node.name == class_name), None)
    if owner is None:
        # A function that makes the environment: of the only class that can be stepped.
        stepped = [node for node in classes if any(isinstance(part, ast.FunctionDef) and part.name == "step" for part in node.body)]
        owner = stepped[0] if len(stepped) == 1 else None
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


def _observation_lines(methods: Methods, *, scaled: bool = False) -> Iterator[_Found]:
    makers = _observers(methods)
    others = [
        (node, name, node.value) for name in makers for node in ast.walk(methods[name]) if isinstance(node, ast.Return) and node.value
    ]
    early = _made_too_early(methods, makers)
    for node, function, value in (*others, *_made(methods, "obs", 0), *_made(methods, "state", 0)):
        old = any(word in name for name in _names(value) for word in ("last", "prev", "old", "buffer", "queue", "history", "deque"))
        if scaled and _has_factor(value):
            yield _Found(node, function, "the factor in this")
        elif node in early:
            yield _Found(node, function, "made before the state moves on")
        else:
            yield _Found(node, function, "an older observation is returned" if old else "one of the lines that make the observation")


def _observers(methods: Methods) -> list[str]:
    """Methods whose answer step() or reset() returns as the observation."""
    found = []
    for method in (methods.get("step"), methods.get("reset")):
        for node in ast.walk(method) if method is not None else ():
            shown = node.value.elts[0] if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and node.value.elts else None
            if isinstance(shown, ast.Call) and isinstance(shown.func, ast.Attribute) and shown.func.attr in methods:
                found.append(shown.func.attr)
    return list(dict.fromkeys(name for name in found if name not in ("step", "reset")))


def _made_too_early(methods: Methods, makers: list[str]) -> set[ast.stmt]:
    """Statements of step() that ask for the observation while what it shows has yet to change."""
    step = methods.get("step")
    if step is None:
        return set()
    found: set[ast.stmt] = set()
    for place, node in enumerate(step.body):
        calls = [part for part in ast.walk(node) if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)]
        asked = any(call.func.attr in makers or "obs" in call.func.attr for call in calls if isinstance(call.func, ast.Attribute))
        if isinstance(node, ast.Assign) and asked and any(_changes_itself(later) for later in step.body[place + 1 :]):
            found.add(node)
    return found


def _changes_itself(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    names = (target.value for target in targets if isinstance(target, ast.Attribute))
    return any(isinstance(name, ast.Name) and name.id == "self" for name in names)


def _has_factor(value: ast.expr) -> bool:
    """Whether something is multiplied or divided by a number far from 1, or scaled twice."""
    products = [part for part in ast.walk(value) if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult | ast.Div)]
    numbers = [side.value for part in products for side in (part.left, part.right) if isinstance(side, ast.Constant)]
    far = any(isinstance(number, int | float) and (abs(number) >= 100 or 0 < abs(number) <= 0.01) for number in numbers)
    return far or any(
        isinstance(part.op, ast.Div) and isinstance(part.left, ast.BinOp) and isinstance(part.left.op, ast.Div) for part in products
    )


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
    fixed_there = [
        node for node in ast.walk(reset) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _fixes_seed(node.value)
    ]
    yield from (_Found(node, "reset", "the same seed every time") for node in fixed_there)
    if not passed_on and not fixed_there:
        yield _Found(reset, "reset", "super().reset(seed=seed) is missing: np_random is never seeded")
    for name, method in methods.items():
        for node in ast.walk(method):
            if isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Call):
                call = node.value
                called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                fixed = call.args and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, int)
                if called in ("seed", "default_rng", "RandomState") and fixed:
                    yield _Found(node, name, "the same seed every time")


def _fixes_seed(call: ast.Call) -> bool:
    return any(
        keyword.arg == "seed" and isinstance(keyword.value, ast.Constant) and keyword.value.value is not None for keyword in call.keywords
    )


def _unseeded_lines(methods: Methods) -> Iterator[_Found]:
    """Draws that reset(seed=...) has no hold on: numpy's own, Python's, a generator without the seed."""
    for name, method in methods.items():
        for node in ast.walk(method):
            calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)] if isinstance(node, ast.Assign | ast.Expr) else []
            drawn = [ast.unparse(call.func) for call in calls]
            if any(call.startswith(("np.random.", "numpy.random.", "random.")) for call in drawn):
                yield _Found(node, name, "drawn by a generator that reset(seed=...) does not seed: use self.np_random")  # type: ignore[arg-type]
    yield from (each for each in _start_lines(methods) if "missing" in each.look)


def _names_of_call(call: ast.Call) -> set[str]:
    return {keyword.arg or "" for keyword in call.keywords} | {name for argument in call.args for name in _names(argument)}


def _ending_lines(methods: Methods) -> Iterator[_Found]:
    clocks = _clocks(methods)
    for word, place in (("terminated", 2), ("done", 2), ("truncated", 3)):
        for node, function, value in _made(methods, word, place):
            words = ("step", "limit", "max", "time", "count", "age", "elapsed")
            counted = any(name in clocks or any(part in name for part in words) for name in _names(value))
            if counted and word != "truncated":
                yield _Found(node, function, "a clock ends the task here: return it as truncated")
            elif counted:
                yield _Found(node, function, "the limit that cuts episodes")
            elif not isinstance(value, ast.Constant | ast.Name):
                yield _Found(node, function, "one of the lines that end an episode")


def _endless_lines(methods: Methods) -> Iterator[_Found]:
    for node, function, value in _made(methods, "truncated", 3):
        if isinstance(value, ast.Constant) and value.value is False:
            yield _Found(node, function, "no clock ever cuts an episode")


def _clocks(methods: Methods) -> set[str]:
    """Attributes that step() counts up by one."""
    step = methods.get("step")
    counted = (
        (node for node in ast.walk(step) if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)) if step is not None else ()
    )
    ones = (node.target for node in counted if isinstance(node.value, ast.Constant) and node.value.value == 1)
    return {target.attr.lower() for target in ones if isinstance(target, ast.Attribute)}


def _success_lines(methods: Methods) -> Iterator[_Found]:
    """Statements of step() with a success flag in what they make."""
    step = methods.get("step")
    for node in ast.walk(step) if step is not None else ():
        if isinstance(node, ast.Assign | ast.Return | ast.Expr):
            words = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            if any("success" in word or word == "solved" for word in words):
                yield _Found(node, "step", "success is reported here")


def _self_resets(methods: Methods) -> Iterator[_Found]:
    step = methods.get("step")
    for node in ast.walk(step) if step is not None else ():
        if isinstance(node, ast.Assign | ast.Expr | ast.Return | ast.AnnAssign) and node.value is not None:
            calls = (part for part in ast.walk(node.value) if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute))
            if any(call.func.attr == "reset" for call in calls if isinstance(call.func, ast.Attribute)):
                yield _Found(node, "step", "step() resets by itself: the last observation is lost")


def _forgotten_lines(methods: Methods) -> Iterator[_Found]:
    """What step() changes and reset() does not set, nor anything that reset() calls."""
    step, reset = methods.get("step"), methods.get("reset")
    if step is None or reset is None:
        return
    called = {node.func.attr for node in ast.walk(reset) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
    begun = {name for method in (reset, *(methods[name] for name in called & methods.keys())) for name, _ in _own_attributes(method)}
    for name, node in _own_attributes(step):
        if name not in begun:
            yield _Found(node, "step", f"self.{name} is changed here, and reset() does not set it")


def _own_attributes(method: ast.FunctionDef) -> Iterator[tuple[str, ast.stmt]]:
    """Attributes of self that a method assigns, with the statement."""
    for node in ast.walk(method):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                    owner = part.value if isinstance(part, ast.Subscript) else part
                    if isinstance(owner, ast.Attribute) and isinstance(owner.value, ast.Name) and owner.value.id == "self":
                        yield owner.attr, node


def _mentions(*words: str) -> Callable[[ast.stmt, ast.expr], bool]:
    return lambda node, value: any(word in name for name in _names(value) for word in words)


_NO_MINUS = (ast.Sub, ast.USub, ast.Div, ast.Compare, ast.Lambda)


def _pays_for_a_cost(node: ast.stmt, value: ast.expr) -> bool:
    """Whether a distance or an error is paid as it is, with no minus anywhere."""
    costs = _mentions("distance", "dist", "error", "cost", "penalt", "deviation", "waiting", "effort")(node, value)
    return costs and not any(isinstance(part, _NO_MINUS) for part in ast.walk(value))


def _saves_up(node: ast.stmt, value: ast.expr) -> bool:
    """Whether a reward is paid at some steps only, out of what was put aside."""
    now_and_then = any(
        isinstance(part, ast.IfExp) or (isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod)) for part in ast.walk(value)
    )
    return now_and_then or _mentions("owed", "pending", "saved", "total", "sum", "bank", "buffer")(node, value)


_ANY_REWARD: Final = _reward_lines(lambda node, value: False, "")
_SCALED_REWARD: Final = _reward_lines(lambda node, value: _has_factor(value), "the factor in this")
_LOOKS: Final[dict[str, Callable[[Methods], Iterator[_Found]]]] = {
    "reward-sign": _reward_lines(
        lambda node, value: _is_negative(value) or _is_subtracted(node) or _pays_for_a_cost(node, value), "the sign of this"
    ),
    "reward-shifted": _reward_lines(lambda node, value: _has_constant(value), "the constant in this"),
    "reward-scale-too-large": _SCALED_REWARD,
    "reward-scale-too-small": _SCALED_REWARD,
    "reward-never-seen": _ANY_REWARD,
    "reward-delayed": _reward_lines(_saves_up, "what is paid only now and then"),
    "reward-sparse": _reward_lines(_saves_up, "what is paid only now and then"),
    "reward-noise": _reward_lines(_mentions("normal", "noise", "random", "uniform"), "the chance in this"),
    "reward-clipped": _reward_lines(_mentions("clip", "min", "max", "sign"), "what cuts this off"),
    "deceptive-reward": _reward_lines(_mentions("action", "effort", "cost", "penalty"), "the price of acting in this"),
    "observation-scale": lambda methods: _observation_lines(methods, scaled=True),
    "observation-noise": _observation_lines,
    "observation-late": _observation_lines,
    "observation-constant": _observation_lines,
    "observation-not-updated": _observation_lines,
    "observation-partial": _observation_lines,
    "actions-without-effect": _action_lines,
    "starts-identical": _start_lines,
    "seed-ignored": _unseeded_lines,
    "success-means-nothing": _success_lines,
    "never-reset": _forgotten_lines,
    "final-observation-overwritten": _self_resets,
    "time-limit-as-terminal": _ending_lines,
    "time-limit-missing": _endless_lines,
    "episode-too-short": _ending_lines,
}

_PLAY: Final = """    env.reset(seed=0)
    env.action_space.seed(0)
"""
_WATCH: Final = """    seen, paid = [], []
    for _ in range(500):
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        seen.append(obs)
        paid.append(reward)
        if terminated or truncated:
            env.reset()
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
    + _WATCH
    + """    assert (0.03 < np.std(seen, 0)).all() and (np.abs(seen) < 30).all()
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
    "never-reset": """def test_a_reset_begins_anew():
    env = {env}()
    first = env.reset(seed=0)[0]
    for _ in range(20):
        env.step(env.action_space.sample())
    assert (env.reset(seed=0)[0] == first).all()
""",
    "final-observation-overwritten": """def test_the_last_observation_is_not_the_next_start():
    env, over = {env}(), False
    env.reset(seed=0)
    while not over:
        obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
        over = terminated or truncated
    assert (env.reset()[0] != obs).any()
""",
    "time-limit-as-terminal": """def test_the_end_of_the_time_is_no_end_of_the_task():
    env = {env}()
    env.reset(seed=0)
    idle = ...  # an action that ends nothing by itself
    for _ in range(10_000):
        _, _, terminated, truncated, _ = env.step(idle)
        if terminated or truncated:
            break
    assert truncated and not terminated
""",
    "reward-shifted": """def test_a_step_in_which_nothing_happens_pays_nothing():
    env = {env}()
"""
    + _PLAY
    + """    idle = ...  # the action that does nothing
    assert env.step(idle)[1] == 0
""",
}
_SIZE_OF_REWARDS: Final = (
    """def test_rewards_are_of_size_one():
    env = {env}()
"""
    + _PLAY
    + _WATCH
    + """    assert 0.01 < np.abs(paid).max() < 100
"""
)
_TESTS["reward-scale-too-large"] = _TESTS["reward-scale-too-small"] = _SIZE_OF_REWARDS
_TESTS["reward-never-seen"] = _SIZE_OF_REWARDS.replace("rewards_are_of_size_one", "something_is_paid").replace(
    "0.01 < np.abs(paid).max() < 100", "np.ptp(paid) > 0"
)
_TESTS["reward-delayed"] = _SIZE_OF_REWARDS.replace("rewards_are_of_size_one", "most_steps_are_paid").replace(
    "0.01 < np.abs(paid).max() < 100", "np.mean(np.array(paid) != 0) > 0.5"
)
_TESTS["observation-constant"] = (
    """def test_observations_change():
    env = {env}()
"""
    + _PLAY
    + _WATCH
    + """    assert (np.std(seen, 0) > 0).all()
"""
)
_TESTS["observation-partial"] = _TESTS["observation-constant"]
_TESTS["seed-ignored"] = """def test_a_seed_gives_the_same_episode_again():
    env = {env}()
    assert (env.reset(seed=1)[0] == env.reset(seed=1)[0]).all()
"""
_TESTS["actions-without-effect"] = _TESTS["observation-not-updated"] = _TESTS["observation-late"]
