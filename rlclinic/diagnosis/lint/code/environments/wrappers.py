"""Environments and wrappers that a script defines: what their `step` and `reset` do with actions, rewards, ends and state."""

# ruff: noqa: E501 — a message reads best whole

import ast
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, position

_PUNISHED: Final = frozenset(
    {"distance", "dist", "error", "err", "penalty", "cost", "deviation", "gap", "miss", "tracking_error", "position_error", "control_cost"}
)
"""Names of what a reward takes away."""
_TOTALS: Final = (
    "total",
    "num_",
    "n_",
    "episode",
    "global",
    "count_",
    "lifetime",
    "all_",
    "best",
    "history",
    "running",
    "rms",
    "mean",
    "var",
)
_PLAIN: Final = frozenset({"zeros", "array", "asarray", "float32", "float", "int", "zeros_like"})


def defined(script: Script) -> Iterator[tuple[ast.ClassDef, dict[str, ast.FunctionDef]]]:
    """Classes with a `step` of their own that extend an environment or a wrapper of one, and their methods."""
    for kind in script.classes:
        bases = [ast.unparse(base).rpartition(".")[2] for base in kind.bases]
        if any(name.endswith(("Env", "Wrapper")) and not name.startswith("Vec") for name in bases):
            yield kind, {each.name: each for each in kind.body if isinstance(each, ast.FunctionDef)}


def is_wrapper(kind: ast.ClassDef) -> bool:
    return any("Wrapper" in ast.unparse(base) for base in kind.bases)


def own_attribute(node: ast.AST) -> str:
    """`x` for self.x; "" for anything else."""
    return node.attr if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self" else ""


def _five(step: ast.FunctionDef) -> list[ast.Tuple]:
    """What step returns, where all five values are written."""
    return [
        each.value
        for each in ast.walk(step)
        if isinstance(each, ast.Return) and isinstance(each.value, ast.Tuple) and len(each.value.elts) == 5
    ]


def _values(step: ast.FunctionDef, node: ast.expr, depth: int = 3) -> list[tuple[ast.expr, ast.AST]]:
    """Everything that an expression may be in a function, and where: names are followed to what they are set to."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("bool", "float", "int") and node.args:
        return _values(step, node.args[0], depth)
    if not isinstance(node, ast.Name) or depth == 0:
        return [(node, node)]
    found: list[tuple[ast.expr, ast.AST]] = []
    for each in ast.walk(step):
        if isinstance(each, ast.Assign):
            for target in each.targets:
                if isinstance(target, ast.Name) and target.id == node.id:
                    found += [(value, each) for value, _ in _values(step, each.value, depth - 1)]
                elif isinstance(target, ast.Tuple) and isinstance(each.value, ast.Tuple) and len(target.elts) == len(each.value.elts):
                    found += [
                        (value, each)
                        for one, given in zip(target.elts, each.value.elts, strict=True)
                        if isinstance(one, ast.Name) and one.id == node.id
                        for value, _ in _values(step, given, depth - 1)
                    ]
        elif (
            isinstance(each, ast.AugAssign | ast.AnnAssign)
            and isinstance(each.target, ast.Name)
            and each.target.id == node.id
            and each.value
        ):
            found.append((each.value, each))
    return found or [(node, node)]


def _counters(step: ast.FunctionDef) -> set[str]:
    """Attributes that step counts up by one."""
    counted: set[str] = set()
    moved = {""}
    for each in ast.walk(step):
        if isinstance(each, ast.AugAssign) and isinstance(each.value, ast.Constant) and each.value.value == 1:
            (counted if isinstance(each.op, ast.Add) else moved).add(own_attribute(each.target))
        elif isinstance(each, ast.Assign) and isinstance(each.value, ast.BinOp) and isinstance(each.value.op, ast.Add):
            name = own_attribute(each.targets[0])
            if name and own_attribute(each.value.left) == name and isinstance(each.value.right, ast.Constant):
                counted.add(name)
    return counted - moved


def _shown(methods: dict[str, ast.FunctionDef]) -> set[str]:
    """Attributes that observations are made of: a count among them is part of the state, and an end by it is foreseen."""
    seen: set[str] = set()
    pending: list[ast.AST] = [value for given in _five(methods["step"]) for value, _ in _values(methods["step"], given.elts[0])]
    entered: set[str] = set()
    while pending:
        for each in ast.walk(pending.pop()):
            name = own_attribute(each)
            if name in methods and name not in entered and name != "step":
                entered.add(name)
                pending.append(methods[name])
            seen.add(name)
    return seen


def _is_clock(test: ast.AST, counters: set[str]) -> bool:
    """A limit of steps: self.t >= limit, limit <= self.t."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    left, right = own_attribute(test.left) in counters, own_attribute(test.comparators[0]) in counters
    if any(word in ast.unparse(test).lower() for word in ("goal", "target", "finish")):
        return False
    rises, falls = isinstance(test.ops[0], ast.Gt | ast.GtE | ast.Eq), isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Eq)
    return (left and rises) or (right and falls)


def _is_constant(node: ast.AST, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def clock_as_end(script: Script) -> Iterator[Spot]:
    """`terminated` is set by a limit of steps, in whatever way."""
    for kind, methods in defined(script):
        step = methods.get("step")
        if step is None:
            continue
        counters = _counters(step) - _shown(methods)
        for ended in [each.elts[2] for each in _five(step)] if counters else []:
            places: list[ast.AST] = []
            for value, where in _values(step, ended):
                parts = value.values if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or) else [value]
                if any(_is_clock(part, counters) or any(_is_clock(one, counters) for one, _ in _values(step, part)) for part in parts):
                    places.append(where)
                elif _is_constant(value, True):
                    branch = next((one for one in script.ancestors(where) if isinstance(one, ast.If)), None)
                    if branch is not None and any(_is_clock(part, counters) for part in ast.walk(branch.test)):
                        places.append(where)
            for where in places[:1]:
                yield Spot(
                    where,
                    f"{kind.name} reports its limit of steps as `terminated`: agents learn that the future there is worth nothing",
                    "truncated",
                )


def ends_merged(script: Script) -> Iterator[Spot]:
    """A wrapper that hands both ends on as `terminated`."""
    for kind, methods in defined(script):
        step = methods.get("step")
        if step is None:
            continue
        for given in _five(step):
            for value, where in _values(step, given.elts[2]):
                joined = (isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or)) or (
                    isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)
                )
                if joined and words.mentions(value, words.TRUNCATED) and words.mentions(value, words.TERMINATED):
                    yield Spot(where, f"{kind.name} hands a time limit on as `terminated`: whoever learns from it takes it for an end")


def never_ends(script: Script) -> Iterator[Spot]:
    """`terminated` is set to False at the beginning of `step`, returned, and by nothing else in between, though a goal is paid for."""
    for kind, methods in defined(script):
        step = methods.get("step")
        if step is None or is_wrapper(kind):
            continue
        for given in _five(step):
            held = _values(step, given.elts[2])
            is_named = isinstance(given.elts[2], ast.Name)
            if not is_named or not held or not all(_is_constant(value, False) for value, _ in held):
                continue
            bonus = [
                each
                for each in ast.walk(step)
                if isinstance(each, ast.AugAssign | ast.Assign)
                and words.REWARD(words.own_name(each.target if isinstance(each, ast.AugAssign) else each.targets[0]))
                and any(isinstance(one, ast.If) for one in script.ancestors(each))
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, int | float)
                and each.value.value > 0
            ]
            for _, where in held[:1] if bonus else []:
                yield Spot(
                    where,
                    f"{kind.name} pays for reaching something in line {bonus[0].lineno}, and `{ast.unparse(given.elts[2])}` stays False whatever happens: "
                    "the episode goes on, and the reward can be had again and again",
                    f"{ast.unparse(given.elts[2])} = True",
                )


@check("COD113", Severity.HIGH, ["towers2024gymnasium"])
def changed_action_not_taken(script: Script) -> Iterator[Spot]:
    """A wrapper works out another action and steps with the one that it was given.

    ## Why it hurts
    The limit, the scale or the filter that the wrapper is for has no effect, and what it remembers of its actions was never done.

    ## When it is fine
    Where the changed action is only logged.

    ## Fix
    Step with the changed action.

    ## Wrong
    ```python
    import gymnasium as gym
    import numpy as np


    class Limited(gym.Wrapper):
        def step(self, action):
            torque = np.clip(action, -0.5, 0.5)
            obs, reward, terminated, truncated, info = self.env.step(action)
            self.last = torque
            return obs, reward, terminated, truncated, info
    ```

    ## Right
    ```python
    import gymnasium as gym
    import numpy as np


    class Limited(gym.Wrapper):
        def step(self, action):
            torque = np.clip(action, -0.5, 0.5)
            obs, reward, terminated, truncated, info = self.env.step(torque)
            self.last = torque
            return obs, reward, terminated, truncated, info
    ```
    """
    for kind, methods in defined(script):
        step = methods.get("step")
        if step is None or not is_wrapper(kind) or len(step.args.args) < 2:
            continue
        given = step.args.args[1].arg
        inner = [
            each
            for each in ast.walk(step)
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "step" and each.args
        ]
        changed = [
            each
            for each in ast.walk(step)
            if isinstance(each, ast.Assign)
            and isinstance(each.targets[0], ast.Name)
            and each.targets[0].id != given
            and not isinstance(each.value, ast.Compare)
            and given in {one.id for one in ast.walk(each.value) if isinstance(one, ast.Name)}
            and not any(isinstance(one, ast.Call) and one in inner for one in ast.walk(each.value))
        ]
        for call in inner:
            raw = isinstance(call.args[0], ast.Name) and call.args[0].id == given
            before = [each for each in changed if position(each) < position(call)]
            kept = {own_attribute(target) for each in ast.walk(step) if isinstance(each, ast.Assign) for target in each.targets} - {""}
            for each in before if raw else []:
                name = each.targets[0].id  # type: ignore[attr-defined]
                uses = [one for one in ast.walk(step) if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load)]
                stored = [
                    one
                    for one in uses
                    if any(isinstance(up, ast.Assign) and own_attribute(up.targets[0]) in kept for up in script.ancestors(one))
                ]
                if len(stored) == len(uses):
                    yield Spot(call, f"`{name}` is worked out of `{given}`, and the environment gets `{given}` itself", f"step({name})")


@check("COD114", Severity.MEDIUM, ["towers2024gymnasium"])
def reward_turned_round(script: Script) -> Iterator[Spot]:
    """A wrapper or an environment of this script gives the negative, or the floor, of what is meant as its reward.

    ## Why it hurts
    The agent learns to do what was to be punished; or, where everything below 0 is cut off, it learns nothing from mistakes.

    ## When it is fine
    Where the inner reward is a cost.

    ## Fix
    Keep the sign; clip to an interval around 0.

    ## Wrong
    ```python
    import gymnasium as gym


    class Scaled(gym.RewardWrapper):
        def reward(self, reward):
            return -0.1 * reward
    ```

    ## Right
    ```python
    import gymnasium as gym


    class Scaled(gym.RewardWrapper):
        def reward(self, reward):
            return 0.1 * reward
    ```
    """
    for kind, methods in defined(script):
        changes = methods.get("reward")
        if changes is not None and len(changes.args.args) == 2 and "RewardWrapper" in " ".join(map(ast.unparse, kind.bases)):
            given = changes.args.args[1].arg
            for each in ast.walk(changes):
                if isinstance(each, ast.Return) and each.value is not None:
                    for value, _ in _values(changes, each.value):
                        if _sign(value, given) == -1:
                            yield Spot(
                                each, f"{kind.name} turns the sign of the reward round: what was good is punished", "without the minus"
                            )
                        elif (floor := _floor(value, given)) is not None:
                            yield Spot(
                                floor, f"{kind.name} gives 0 for every reward below 0: mistakes cost nothing", "np.clip(reward, -1.0, 1.0)"
                            )
        step = methods.get("step")
        if step is None or is_wrapper(kind):
            continue
        for given_five in _five(step):
            direct = any(_punished(step, term, 0) is not None for _, term in _summands(given_five.elts[1]))
            for value, where in [(given_five.elts[1], given_five)] if direct else _values(step, given_five.elts[1], depth=1):
                worse = [(sign, held) for sign, term in _summands(value) for held in [_punished(step, term)] if held is not None]
                if worse and all(sign > 0 for sign, _ in worse):
                    name, inside = worse[0][1]
                    yield Spot(inside or where, f"the reward grows with {name}: what is to be small is paid for", f"-{name}")


def _summands(node: ast.expr, sign: int = 1) -> list[tuple[int, ast.expr]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        second = sign if isinstance(node.op, ast.Add) else -sign
        return _summands(node.left, sign) + _summands(node.right, second)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _summands(node.operand, -sign)
    if isinstance(node, ast.Call) and words.own_name(node.func) in ("float", "bool", "float32") and node.args:
        return _summands(node.args[0], sign)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            negative = isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.USub)
            if isinstance(one.operand if negative else one, ast.Constant):  # type: ignore[attr-defined]
                return _summands(other, -sign if negative else sign)
    return [(sign, node)]


def _punished(step: ast.FunctionDef, term: ast.expr, depth: int = 2) -> tuple[str, ast.AST | None] | None:
    """What is to be small, and where that was worked out: an error by its name, the distance of two things; None for anything else."""
    name = words.own_name(term) if isinstance(term, ast.Name | ast.Attribute) else ""
    if name.lower() in _PUNISHED:
        held = [value for value, _ in _values(step, term)] if isinstance(term, ast.Name) else []
        negative = any(sign < 0 for each in held for sign, _ in _summands(each))
        return None if negative else (f"`{name}`", term)
    called = words.own_name(term.func) if isinstance(term, ast.Call) else ""
    if called in ("abs", "norm", "fabs") and isinstance(term, ast.Call) and term.args and isinstance(term.args[0], ast.BinOp):
        return (f"`{ast.unparse(term)}`", term) if isinstance(term.args[0].op, ast.Sub) else None
    if isinstance(term, ast.Name) and depth:
        held = [value for value, _ in _values(step, term)]
        inner = [(sign, _punished(step, part, depth - 1)) for value in held if value is not term for sign, part in _summands(value)]
        if inner and all(sign > 0 and found is not None for sign, found in inner):
            return inner[0][1]
    return None


def _sign(node: ast.expr, name: str) -> int:
    """1 or -1 for a multiple of a name; 0 for anything else."""
    if isinstance(node, ast.Name):
        return 1 if node.id == name else 0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_sign(node.operand, name)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        held = {one.id for one in ast.walk(node.left) if isinstance(one, ast.Name)}
        inner, other = (node.left, node.right) if name in held else (node.right, node.left)
        negative = isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.USub)
        return -_sign(inner, name) if negative else _sign(inner, name)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _sign(node.left, name)
    if isinstance(node, ast.Call) and words.own_name(node.func) in ("float", "float32") and node.args:
        return _sign(node.args[0], name)
    return 0


def _floor(node: ast.expr, name: str) -> ast.expr | None:
    """clip(reward, 0, …), max(reward, 0)."""
    for each in ast.walk(node):
        if not isinstance(each, ast.Call) or name not in {one.id for one in ast.walk(each) if isinstance(one, ast.Name)}:
            continue
        called = words.own_name(each.func)
        zeros = [isinstance(one, ast.Constant) and one.value == 0 and not isinstance(one.value, bool) for one in each.args]
        if (called in ("clip", "clamp") and len(zeros) > 1 and zeros[1]) or (
            called in ("max", "maximum") and len(zeros) == 2 and any(zeros)
        ):
            return each
    return None


def state_survives(script: Script) -> Iterator[Spot]:
    """What a wrapper's or an environment's `step` leaves for the next step, and `reset` does not set."""
    for kind, methods in defined(script):
        step, reset = methods.get("step"), methods.get("reset")
        if step is None or "__init__" not in methods:
            continue
        renewed = _renewed(methods, reset)
        if reset is None and not is_wrapper(kind):
            continue
        for each in ast.walk(step):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target] if isinstance(each, ast.AugAssign) else []
            for name in {own_attribute(target) for target in targets} - {""} - renewed:
                if (
                    name.lower().startswith(_TOTALS)
                    or name.lstrip("_").lower().startswith(_TOTALS)
                    or name not in _set_in(methods["__init__"])
                ):
                    continue
                earlier = isinstance(each, ast.AugAssign) or any(
                    own_attribute(one) == name and isinstance(one.ctx, ast.Load) and position(one) < position(each)  # type: ignore[attr-defined]
                    for one in ast.walk(step)
                )
                if earlier and (is_wrapper(kind) or isinstance(each, ast.Assign)):
                    yield Spot(
                        reset.body[0] if reset else each,
                        f"self.{name} goes on from one episode to the next: step changes it, and reset does not set it",
                        f"self.{name} = … in reset",
                    )
        for name, where in _frozen(kind, methods) if reset is not None else ():
            yield Spot(
                where,
                f"self.{name} is set at every reset and shown to the agent, and step never changes it: it says the same for ever",
                f"self.{name} = … in step",
            )


def _set_in(function: ast.FunctionDef) -> set[str]:
    made = set()
    for each in ast.walk(function):
        targets = each.targets if isinstance(each, ast.Assign) else [each.target] if isinstance(each, ast.AugAssign | ast.AnnAssign) else []
        for target in targets:
            for part in ast.walk(target):
                made.add(own_attribute(part))
        if (
            isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and each.func.attr in ("fill", "clear", "append", "update", "copyto")
        ):
            made.add(own_attribute(each.func.value))
    return made - {""}


def _renewed(methods: dict[str, ast.FunctionDef], function: ast.FunctionDef | None, depth: int = 3) -> set[str]:
    """Attributes that a method sets, itself or through methods of the same class."""
    if function is None or depth == 0:
        return set()
    made = _set_in(function)
    for each in ast.walk(function):
        name = own_attribute(each.func) if isinstance(each, ast.Call) else ""
        if name in methods and methods[name] is not function:
            made |= _renewed(methods, methods[name], depth - 1)
    return made


def _frozen(kind: ast.ClassDef, methods: dict[str, ast.FunctionDef]) -> Iterator[tuple[str, ast.AST]]:
    """Attributes of a wrapper that begin at 0 in reset, are part of what step returns, and that no other method sets."""
    if not is_wrapper(kind):
        return
    others = {name for key, each in methods.items() if key not in ("__init__", "reset") for name in _set_in(each)}
    for each in ast.walk(methods["reset"]):
        name = own_attribute(each.targets[0]) if isinstance(each, ast.Assign) else ""
        if not name or name in others or not isinstance(each, ast.Assign):
            continue
        plain = isinstance(each.value, ast.Constant) or (isinstance(each.value, ast.Call) and words.own_name(each.value.func) in _PLAIN and not any(
            isinstance(one, ast.Name) and one.id not in ("np", "numpy", "torch", "self") for argument in each.value.args for one in ast.walk(argument)
        ))  # fmt: skip
        for given in _five(methods["step"]) if plain else []:
            if any(own_attribute(one) == name for one in ast.walk(given.elts[0])):
                yield name, given


@check("COD115", Severity.MEDIUM, ["towers2024gymnasium"])
def observation_of_another_shape(script: Script) -> Iterator[Spot]:
    """The observation space of an environment of this script has another length than the observation.

    ## Why it hurts
    Networks are built for the space: the first observation raises, or a wrapper cuts or broadcasts it without a word.

    ## When it is fine
    Never.

    ## Fix
    shape=(n,) with as many values as the observation has.

    ## Wrong
    ```python
    import gymnasium as gym
    import numpy as np


    class Room(gym.Env):
        def __init__(self):
            self.observation_space = gym.spaces.Box(-1.0, 1.0, shape=(2,), dtype=np.float32)

        def _observe(self):
            return np.array([self.x, self.y, self.goal], dtype=np.float32)
    ```

    ## Right
    ```python
    import gymnasium as gym
    import numpy as np


    class Room(gym.Env):
        def __init__(self):
            self.observation_space = gym.spaces.Box(-1.0, 1.0, shape=(3,), dtype=np.float32)

        def _observe(self):
            return np.array([self.x, self.y, self.goal], dtype=np.float32)
    ```
    """
    for kind, methods in defined(script):
        spaces = [
            each
            for each in ast.walk(kind)
            if isinstance(each, ast.Assign) and own_attribute(each.targets[0]) == "observation_space" and isinstance(each.value, ast.Call)
        ]
        if len(spaces) != 1 or is_wrapper(kind) or words.own_name(spaces[0].value.func) != "Box":  # type: ignore[attr-defined]
            continue
        length = _length(spaces[0].value)  # type: ignore[arg-type]
        shown = {count for each in methods.values() if "obs" in each.name.lower() or each.name == "_get_state" for count in _returned(each)}
        if length is not None and len(shown) == 1 and shown != {length}:
            yield Spot(spaces[0], f"the space has {length} values, and the observation {min(shown)}", f"shape=({min(shown)},)")


def _length(box: ast.Call) -> int | None:
    given = next((key.value for key in box.keywords if key.arg == "shape"), box.args[2] if len(box.args) > 2 else None)
    if isinstance(given, ast.Tuple) and len(given.elts) == 1 and isinstance(given.elts[0], ast.Constant):
        return given.elts[0].value if isinstance(given.elts[0].value, int) else None
    low = next((key.value for key in box.keywords if key.arg == "low"), box.args[0] if box.args else None)
    if given is None and low is not None:
        return _count(low)
    return None


def _count(node: ast.expr) -> int | None:
    """Numbers in a written array of one dimension."""
    if (
        isinstance(node, ast.Call)
        and words.own_name(node.func) in ("array", "asarray", "astype", "float32")
        and (node.args or isinstance(node.func, ast.Attribute))
    ):
        inner = node.args[0] if words.own_name(node.func) != "astype" else node.func.value  # type: ignore[attr-defined]
        return _count(inner)
    if isinstance(node, ast.List | ast.Tuple) and not any(isinstance(each, ast.Starred | ast.List | ast.Tuple) for each in node.elts):
        plain = all(isinstance(each, ast.Constant | ast.Attribute | ast.BinOp | ast.UnaryOp | ast.Name) for each in node.elts)
        return len(node.elts) if plain and len(node.elts) > 1 else None
    return None


def _returned(function: ast.FunctionDef) -> set[int]:
    counts = {_count(each.value) for each in ast.walk(function) if isinstance(each, ast.Return) and each.value is not None}
    return {each for each in counts if each is not None} if None not in counts else set()


def reset_returns_observation(script: Script) -> Iterator[Spot]:
    """reset returns what a method of its own returns, which is no pair."""
    for kind, methods in defined(script):
        reset = methods.get("reset")
        if reset is None or not script.uses("gymnasium"):
            continue
        for each in ast.walk(reset):
            name = own_attribute(each.value.func) if isinstance(each, ast.Return) and isinstance(each.value, ast.Call) else ""
            inner = methods.get(name)
            ends = [one for one in ast.walk(inner) if isinstance(one, ast.Return)] if inner is not None else []
            alone = all(
                isinstance(one.value, ast.Call) and words.own_name(one.value.func) in (*_PLAIN, "concatenate", "astype", "append")
                for one in ends
            )
            if ends and alone:
                yield Spot(each, f"{kind.name}.reset returns the observation alone; Gymnasium expects (obs, info)", "return obs, {}")


def global_chance(script: Script) -> Iterator[Spot]:
    """Draws from the global generator in an environment whose `reset` seeds its own one."""
    for kind, methods in defined(script):
        reset = methods.get("reset")
        if reset is None or is_wrapper(kind) or "seed" not in {each.arg for each in [*reset.args.args, *reset.args.kwonlyargs]}:
            continue
        if any(
            isinstance(one, ast.Call) and ast.unparse(one.func).endswith(("random.seed", "random.default_rng")) for one in ast.walk(kind)
        ):
            continue
        for name in ("reset", "step"):
            for each in ast.walk(methods[name]) if name in methods else ():
                path = ast.unparse(each.func) if isinstance(each, ast.Call) else ""
                if path.startswith(("np.random.", "numpy.random.", "random.")):
                    yield Spot(
                        each,
                        f"{path} draws from the global generator, which reset(seed=…) does not seed: episodes cannot be repeated",
                        path.replace("np.random", "self.np_random"),
                        1.0 if any(own_attribute(one) == "np_random" for one in ast.walk(kind)) else 0.4,
                    )


def stops_at_a_count(script: Script) -> Iterator[Spot]:
    """A callback's False that no result decides about: a count of calls, or that there is something to log."""
    for function in script.functions:
        if function.name != "_on_step" or not script.is_sb3:
            continue
        for each in script.inside(function, ast.Return):
            if not _is_constant(each.value or each, False) or script.scope(each) is not function:
                continue
            tests = [one.test for one in script.ancestors(each) if isinstance(one, ast.If)]
            loops = [one for one in script.ancestors(each) if isinstance(one, ast.For)]
            if tests and not any(_judges(script, test) for test in tests):
                where = "at the first episode that ends" if loops else "the first time that this is reached"
                yield Spot(each, f"False stops training, and no result decides about it here: it is over {where}", "return True")


def _judges(script: Script, test: ast.expr) -> bool:
    """Whether a condition compares something that is measured: not a count of steps, not whether there is anything."""
    for each in ast.walk(test):
        if isinstance(each, ast.Compare) and isinstance(each.ops[0], ast.Gt | ast.GtE | ast.Lt | ast.LtE):
            text = ast.unparse(each).lower()
            if not any(word in text for word in ("n_calls", "num_timesteps", "_freq", "every", "interval")):
                return True
            if any(word in text for word in ("max_", "limit", "budget", "total", "stop", "patience")):
                return True
        elif isinstance(each, ast.Name | ast.Attribute):
            name = words.own_name(each).lower()
            if any(
                word in name
                for word in (
                    "stop",
                    "solved",
                    "success",
                    "converged",
                    "done",
                    "finished",
                    "patience",
                    "exceeded",
                    "abort",
                    "timeout",
                    "best",
                )
            ):
                return True
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr not in ("get", "keys", "any", "all"):
            return True
    return False


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD108": (reset_returns_observation,),
    "COD109": (global_chance,),
    "COD110": (clock_as_end,),
    "COD111": (never_ends,),
    "COD112": (state_survives,),
    "COD124": (ends_merged,),
    "COD810": (stops_at_a_count,),
}
"""What is added to which check."""
