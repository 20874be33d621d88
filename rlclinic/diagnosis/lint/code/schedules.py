"""What a schedule gives at the beginning and at the end of a run, where the script alone decides it: it is computed, not read."""

import ast
import math
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, argument, position

STEPS: Final = 1_000.0
"""The length of a loop whose bound is computed elsewhere; what is divided by that bound is a share of it all the same."""
_FUNCTIONS: Final[dict[str, Callable[..., float]]] = {
    "min": min, "max": max, "abs": abs, "float": float, "exp": math.exp, "sqrt": math.sqrt, "minimum": min, "maximum": max,
    "clip": lambda x, low, high: min(max(x, low), high),
}  # fmt: skip
_DEEPEST: Final = 12


def value_at(script: Script, node: ast.AST | None, known: dict[str, float], depth: int = _DEEPEST) -> float | None:
    """The number that an expression is, for some known names; None if anything else decides it."""
    if node is None or depth == 0:
        return None
    text = ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
    if text in known:
        return known[text]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = value_at(script, node.operand, known, depth - 1)
        return None if inner is None else -inner
    if isinstance(node, ast.BinOp):
        left, right = value_at(script, node.left, known, depth - 1), value_at(script, node.right, known, depth - 1)
        return _computed(node.op, left, right)
    if isinstance(node, ast.Call):
        return _called(script, node, known, depth)
    if isinstance(node, ast.Subscript):
        held: ast.AST | None = node.value
        for _ in range(3):
            held = _resolved(script, held) if isinstance(held, ast.Name | ast.Attribute) else held
        place = script.constant(node.slice)
        if isinstance(held, ast.Tuple | ast.List) and place is not None and -len(held.elts) <= place < len(held.elts):
            return value_at(script, held.elts[int(place)], known, depth - 1)
        return None
    number = script.constant(node)
    if number is not None:
        return number
    made = _resolved(script, node) if text else None
    return value_at(script, made, known, depth - 1) if made is not None and made is not node else None


def _called(script: Script, node: ast.Call, known: dict[str, float], depth: int) -> float | None:
    name = script.last(node)
    if name == "int" and node.args:
        whole = value_at(script, node.args[0], known, depth - 1)
        return None if whole is None else float(int(whole))
    if name in _FUNCTIONS and not node.keywords:
        given = [value_at(script, each, known, depth - 1) for each in node.args]
        numbers = [each for each in given if each is not None]
        try:
            return _FUNCTIONS[name](*numbers) if len(numbers) == len(given) and numbers else None
        except (ArithmeticError, TypeError, ValueError):
            return None
    function = next((each for each in script.functions if each.name == name), None)
    ends = script.inside(function, ast.Return) if function is not None else []
    if (
        function is None
        or len(ends) != 1
        or script.scope(ends[0]) is not function
        or isinstance(script.parents.get(function), ast.ClassDef)
    ):
        return script.constant(node)
    places = [each.arg for each in function.args.args]
    inside = {place: value_at(script, argument(node, index, place), known, depth - 1) for index, place in enumerate(places)}
    held = {place: number for place, number in inside.items() if number is not None}
    return value_at(script, ends[0].value, held, depth - 1) if len(held) == len(inside) else None


def _computed(operator: ast.operator, left: float | None, right: float | None) -> float | None:
    if left is None or right is None:
        return None
    try:
        match operator:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div():
                return left / right
            case ast.FloorDiv():
                return left // right
            case ast.Pow():
                made = left**right
                return made if isinstance(made, float | int) else None
    except ArithmeticError:
        return None
    return None


def _resolved(script: Script, node: ast.AST) -> ast.AST | None:
    """What a name is set to, once and for all; of a parameter what its only call gives it, or its default."""
    name = ast.unparse(node)
    made = script.anywhere(name, node)
    if name.startswith("self."):
        own = _class_of(script, node)
        made = [each for each in script.assignments(name, node) if _class_of(script, each.statement) is own]
    if len(made) != 1:
        return None
    if made[0].whole is not None and not isinstance(made[0].statement, ast.AugAssign):
        return made[0].whole
    function = made[0].statement
    if not isinstance(function, ast.FunctionDef) or made[0].value is not None:
        return None
    places = [each.arg for each in function.args.args]
    if name not in places or name == "self":
        return None
    kind = script.parents.get(function)
    is_method = isinstance(kind, ast.ClassDef)
    sites = script.calls(kind.name if isinstance(kind, ast.ClassDef) and function.name == "__init__" else function.name)
    given = [argument(call, places.index(name) - is_method, name) for call in sites]
    if any(each is not None for each in given):
        return given[0] if len(given) == 1 else None
    defaults = dict(zip(reversed(places), reversed(function.args.defaults), strict=False))
    return defaults.get(name)


def _class_of(script: Script, node: ast.AST) -> ast.AST | None:
    return next((each for each in script.ancestors(node) if isinstance(each, ast.ClassDef)), None)


def counted(script: Script) -> Iterator[tuple[ast.For, str, dict[str, float], dict[str, float]]]:
    """Loops that count: what is known at their first and at their last turn."""
    for loop in script.all(ast.For):
        call = loop.iter
        if (
            not isinstance(loop.target, ast.Name | ast.Attribute)
            or not isinstance(call, ast.Call)
            or script.last(call) not in ("range", "trange")
        ):
            continue
        if not 0 < len(call.args) < 4:
            continue
        first = value_at(script, call.args[0], {}) if len(call.args) > 1 else 0.0
        bound = call.args[min(1, len(call.args) - 1)]
        known: dict[str, float] = {}
        last = value_at(script, bound, {})
        if last is None:
            inner = bound.left if isinstance(bound, ast.BinOp) and isinstance(bound.op, ast.Add) else bound
            if not isinstance(inner, ast.Name | ast.Attribute):
                continue
            known, last = {ast.unparse(inner): STEPS}, STEPS
        if first is not None and last - first > 20:
            name = ast.unparse(loop.target)
            yield loop, name, {**known, name: first}, {**known, name: last - 1}


def rate_rises(script: Script) -> Iterator[Spot]:
    """group["lr"] = rate · (iteration / iterations): from nothing to the full rate, all along."""
    for loop, name, begin, end in counted(script):
        for node in script.inside(loop, ast.Assign):
            target = node.targets[0]
            if not isinstance(target, ast.Subscript) or words.own_name(target) != "lr":
                continue
            half = {**begin, name: (begin[name] + end[name]) / 2}
            made = [value_at(script, node.value, known) for known in (begin, half, end)]
            if None not in made:
                first, middle, last = (each or 0.0 for each in made)
                if first < 0.05 * last and first < middle < 0.9 * last:
                    # frac = (iteration - 1) / iterations, a line before: the share that rises is the place, too.
                    shares = [script.latest(each.id, node) for each in ast.walk(node.value) if isinstance(each, ast.Name)]
                    begun = [each.statement for each in shares if each is not None and each.statement in script.inside(loop, ast.Assign)]
                    for where in (node, *begun):
                        yield Spot(
                            where,
                            f"the learning rate begins at {first:.2g} and rises to {last:.2g} until the end: it should fall",
                            "1 - (iteration - 1) / iterations",
                        )


def chance_over_time(script: Script) -> Iterator[Spot]:
    """The chance to explore, at the first and at the last turn of the loop that counts: it rises, or hardly falls."""
    for loop, name, begin, end in counted(script):
        for where, value in chances(script, loop, name):
            first, last = value_at(script, value, begin), value_at(script, value, end)
            if first is None or last is None or not 0 <= first <= 1:
                continue
            if last > first + 0.3:
                yield Spot(
                    where,
                    f"the chance to explore rises from {first:.2g} to {last:.2g} while the agent learns",
                    "from the large one to the small one",
                )
            elif first > 0.5 and 0.7 * first < last <= first and last != first:
                yield Spot(
                    where,
                    f"the chance to explore is {first:.2g} at the first step and still {last:.2g} at the last one",
                    "let it fall within the first tenth to half of the run",
                )


def chances(script: Script, loop: ast.For, name: str) -> Iterator[tuple[ast.AST, ast.expr]]:
    for node in script.inside(loop, ast.Assign):
        if words.EPSILON(words.own_name(node.targets[0])) and not isinstance(node.targets[0], ast.Subscript):
            yield node, node.value
    for function in script.functions if name.startswith("self.") else ():
        ends = [each for each in script.inside(function, ast.Return) if each.value is not None]
        if words.EPSILON(function.name) and len(ends) == 1 and ends[0].value is not None:
            yield ends[0], ends[0].value


def copied_after_the_end(script: Script) -> Iterator[Spot]:
    """if step % interval == 0: target.load_state_dict(…), with an interval beyond the last step."""
    for loop, name, _, end in counted(script):
        for node in script.inside(loop, ast.If):
            test = node.test
            if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.BinOp) or not isinstance(test.left.op, ast.Mod):
                continue
            interval = value_at(script, test.left.right, {})
            copies = script.calls("load_state_dict", within=node)
            is_counted = ast.unparse(test.left.left) == name and end[name] + 1 != STEPS
            if is_counted and interval is not None and interval > end[name] + 1 and copies and position(copies[0]) > position(node):
                yield Spot(
                    node,
                    f"the slow copy is updated every {interval:g} steps, and the loop has {end[name] + 1:g}: never",
                    "a smaller interval",
                )


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD408": (rate_rises,),
    "COD506": (copied_after_the_end,),
    "COD508": (chance_over_time,),
}
"""What is added to which check."""
