"""What the text of an environment says of itself: names against the signs that they are paid with, seeds that are fixed, rewards that are
rounded, ends that wait for an exact number.

The text is parsed, never run. A name alone is no proof: what is read here is joined to what was measured.
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple


class Passage(NamedTuple):
    """Something in the text that speaks for a cause."""

    cause: str
    line: int
    text: str
    """The line itself."""
    what: str
    share: float = 1.0
    """Of a reward's terms whose names can be read: how many say the same."""


class Term(NamedTuple):
    """A part of the reward: the words that name it, and whether it is added or taken away."""

    words: tuple[str, ...]
    sign: int
    line: int
    always: bool = False
    """A number that is paid whatever happens."""


GOOD: Final = frozenset({
    "progress", "bonus", "success", "successful", "won", "win", "winner", "goal", "reached", "food", "fed", "served", "gain", "gains",
    "profit", "income", "pnl", "alive", "survive", "survival", "survived", "score", "delivered", "delivery", "harvest", "harvested",
    "landed", "caught", "solved", "revenue", "sale", "sales", "sold", "upright", "healthy", "saved", "rescued", "collected", "picked",
    "eaten", "correct", "matched", "completed", "yield", "earned", "throughput", "docked",
    "points", "victory", "captured", "safe", "cleaned", "produced", "cured", "filled", "arrived", "parked", "balanced", "closer",
    "reaped", "rescue",
})  # fmt: skip
BAD: Final = frozenset({
    "distance", "dist", "error", "err", "cost", "costs", "penalty", "penalties", "effort", "energy", "fuel", "crash", "crashed",
    "crashing", "collision", "collided", "death", "dead", "died", "die", "lost", "lose", "loss", "late", "lateness", "delay",
    "waiting", "missing", "missed", "overflow", "damage", "damaged", "fee", "fees", "miss", "bill", "deviation", "waste", "wasted",
    "burning", "spill", "spilled", "spilt", "violation", "illegal", "invalid", "fall", "fell", "fallen", "expense", "expenses", "excess",
    "shortage", "stockout", "tardiness", "jerk", "dropped", "rejected", "broken", "starved", "drowned", "overheated", "sinks",
    "queued", "backlog", "pollution", "leak", "leaked", "wear",
    "toll", "hurt", "hunger", "thirst", "stuck", "bump", "bumped", "spoiled", "spoilt", "rotten", "expired", "overshoot", "mistake",
    "mistakes", "discomfort", "bankrupt", "debt", "tax", "wrong", "wrecked", "sunk", "burnt", "burned", "flooded", "shortfall", "tired",
})  # fmt: skip
"""Words of what a task is for, and of what it costs, as people name them."""
DEPTH: Final = 6


def read(source: str, class_name: str, lines_run: Collection[int] | None = None) -> list[Passage]:
    """What is found in the class, and in what its module calls by name; [] for what cannot be parsed.

    `lines_run`: lines that were seen to run. What stands on others is left out.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    owner = next((node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == class_name), None)
    if owner is None:
        return []
    text = _Text(tree, owner, source.splitlines(), lines_run)
    found = [
        *_read_signs(text), *_read_movement(text), *_read_seeds(text), *_read_rounding(text), *_read_exact_ends(text), *_read_clocks(text)
    ]  # fmt: skip
    return [each for each in found if text.runs(each.line)]


class _Text:
    """A class, with what its module and itself give names to."""

    def __init__(self, tree: ast.Module, owner: ast.ClassDef, lines: list[str], lines_run: Collection[int] | None) -> None:
        self.lines, self._run = lines, lines_run
        self.turned: dict[int, str] = {}
        """By line: a negative number with a name that does not say so, which the reward is multiplied with."""
        self.methods = {node.name: node for node in owner.body if isinstance(node, ast.FunctionDef)}
        self.functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        made = self.methods.get("__init__")
        self.numbers = {**_numbers_of(tree.body), **_numbers_of(owner.body), **(_numbers_of(made.body) if made is not None else {})}

    def line(self, number: int) -> str:
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""

    def may_be_negative(self, attribute: str) -> bool:
        """Whether something is taken away from an attribute, or a minus stands in what it is made of."""
        for method in self.methods.values():
            for node in ast.walk(method):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
                if any(isinstance(target, ast.Attribute) and target.attr == attribute for target in targets):
                    minus = ast.Sub | ast.USub
                    if any(isinstance(getattr(part, "op", None), minus) for part in ast.walk(node)):
                        return True
        return False

    def runs(self, number: int) -> bool:
        """Whether a line was seen to run, as far as that is known."""
        return not self._run or number in self._run

    @property
    def step(self) -> ast.FunctionDef | None:
        return self.methods.get("step")


def _numbers_of(body: list[ast.stmt]) -> dict[str, float]:
    """Names that are given a number, in a module, a class, or where it is made."""
    found: dict[str, float] = {}
    for node in body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = (
                    zip(target.elts, node.value.elts, strict=False)
                    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                    else [(target, node.value)]
                )
                for name, value in pairs:
                    if isinstance(name, ast.Name | ast.Attribute) and (number := _number(value)) is not None:
                        found[name.id if isinstance(name, ast.Name) else name.attr] = number
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            number = _number(node.value)
            found |= {} if number is None else {node.target.id: number}
    return found


def _number(node: ast.expr) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    return None


def _words(name: str) -> tuple[str, ...]:
    """The words of a name: MISSED_PENALTY and missedPenalty are both of two."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return tuple(part.lower() for part in parts)


# ── the sign of what is paid ──


def _read_signs(text: _Text) -> Iterator[Passage]:
    """Terms of the reward whose names say that they should be paid the other way round."""
    terms = [term for term in _terms_of_reward(text) if text.runs(term.line)]
    signs: dict[tuple[str, ...], set[int]] = {}
    for term in terms:
        signs.setdefault(term.words, set()).add(term.sign)
    # What is paid here and taken away there is no matter of its name.
    judged = [(term, valence) for term in terms if len(signs[term.words]) == 1 and (valence := _valence(term.words))]
    wrong = [term for term, valence in judged if valence != term.sign]
    if not wrong:
        for line, name in text.turned.items():
            yield Passage("reward-sign", line, text.line(line), f"{name} is negative, and turns the sign", 0.5)
        return
    share = len(wrong) / len(judged)
    for term in wrong[:2]:
        name = "_".join(term.words)
        does = "is paid for" if term.sign > 0 else "is taken away"
        cause = "reward-shifted" if term.always and share < 1 else "reward-sign"
        yield Passage(cause, term.line, text.line(term.line), f"{name} {does}", share)


def _valence(words: tuple[str, ...]) -> int:
    """1 for what is wanted, -1 for what is to be avoided, 0 where the name does not say."""
    good, bad = sum(word in GOOD for word in words), sum(word in BAD for word in words)
    if "not" in words or "no" in words or "without" in words:
        return 0
    # The price of what is wanted is a price.
    return -1 if bad and (not good or words[-1] in BAD) else 1 if good and not bad else 0


def _terms_of_reward(text: _Text) -> Iterator[Term]:
    step = text.step
    if step is None:
        return
    local = _locals_of(step)
    reward: set[str] = set()
    for node in ast.walk(step):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 5:
            paid = node.value.elts[1]
            while isinstance(paid, ast.Call) and len(paid.args) == 1 and isinstance(paid.func, ast.Name | ast.Attribute):
                paid = paid.args[0] if _called(paid) in ("float", "float32", "float64", "int", "round") else paid
                if _called_any(paid) not in ("float", "float32", "float64", "int", "round"):
                    break
            if not text.runs(node.lineno):
                continue
            if isinstance(paid, ast.Name) and paid.id in local:
                reward.add(paid.id)
            else:
                # A number that is returned on its own is so under some condition or other.
                yield from _expand(paid, 1, text, local, ("returned",), DEPTH, node.lineno)
    for name in sorted(reward):
        for statement, conditions in local[name]:
            if text.runs(statement.lineno):
                yield from _of_statement(statement, text, local, conditions)


def _of_statement(statement: ast.stmt, text: _Text, local: "Locals", conditions: tuple[str, ...]) -> Iterator[Term]:
    value = statement.value if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign) else None
    if value is None:
        return
    sign = -1 if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Sub) else 1
    if isinstance(statement, ast.AugAssign) and not isinstance(statement.op, ast.Add | ast.Sub):
        return
    yield from _expand(value, sign, text, local, conditions, DEPTH, statement.lineno)


Locals = dict[str, list[tuple[ast.stmt, tuple[str, ...]]]]
"""By local name: the statements that make it, each with the words of the conditions that it stands under."""


def _locals_of(method: ast.FunctionDef) -> Locals:
    found: Locals = {}

    def visit(body: list[ast.stmt], conditions: tuple[str, ...]) -> None:
        for node in body:
            targets = (
                node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []
            )
            for target in targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append((node, conditions))
            if isinstance(node, ast.If):
                visit(node.body, (*conditions, *_words_of(node.test)))
                visit(node.orelse, conditions if not node.orelse or isinstance(node.orelse[0], ast.If) else ())
            elif isinstance(node, ast.For | ast.While | ast.With):
                visit(node.body, conditions)

    visit(method.body, ())
    return found


def _words_of(node: ast.expr) -> tuple[str, ...]:
    """Words of a condition that is a plain name, or plain names; none where it is turned around."""
    if isinstance(node, ast.Name | ast.Attribute):
        return _words(node.id if isinstance(node, ast.Name) else node.attr)
    if isinstance(node, ast.BoolOp):
        return tuple(word for each in node.values for word in _words_of(each))
    if isinstance(node, ast.Call):
        return _words(_called(node))
    return ()


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""


def _called_any(node: ast.expr) -> str:
    return _called(node) if isinstance(node, ast.Call) else ""


THROUGH: Final = frozenset({
    "exp", "float", "int", "float32", "float64", "round", "clip", "sum", "mean", "abs", "sqrt", "square", "max", "min", "tanh", "log",
    "log1p", "bool", "maximum", "minimum", "item",
})  # fmt: skip
"""Calls that leave a sign as it is."""
SIZES: Final = frozenset({"norm", "hypot", "dist", "distance", "euclidean", "cdist"})
"""Calls that make a distance."""


def _expand(node: ast.expr, sign: int, text: _Text, local: Locals, conditions: tuple[str, ...], depth: int, line: int) -> Iterator[Term]:
    """The terms that an expression adds up, each with its sign."""
    if depth <= 0:
        return
    again = depth - 1
    if isinstance(node, ast.UnaryOp):
        yield from _expand(node.operand, -sign if isinstance(node.op, ast.USub) else sign, text, local, conditions, again, line)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        one = list(_expand(node.left, sign, text, local, conditions, again, line))
        two = list(_expand(node.right, -sign if isinstance(node.op, ast.Sub) else sign, text, local, conditions, again, line))
        yield from _progress(node, one, two, local)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        factor = _factor(node.left, text) if _factor(node.left, text) is not None else _factor(node.right, text)
        other = node.right if _factor(node.left, text) is not None else node.left
        if factor is not None:
            # What a number is divided by is paid the less the more there is of it.
            turn = (-1 if factor < 0 else 1) * (-1 if isinstance(node.op, ast.Div) and other is node.right else 1)
            terms = list(_expand(other, sign * turn, text, local, conditions, again, line))
            by = node.left if other is node.right else node.right
            named = _words(by.id if isinstance(by, ast.Name) else by.attr if isinstance(by, ast.Attribute) else "")
            if factor < 0 and named and _valence(named) >= 0 and not any(_valence(term.words) < 0 for term in terms):
                text.turned[line] = "_".join(named)
            yield from terms
        else:
            yield from _expand_product(node, sign, text, local, conditions, again, line)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        yield from _expand(node.left, sign, text, local, conditions, again, line)
    elif isinstance(node, ast.IfExp):
        yield from _expand(node.body, sign, text, local, (*conditions, *_words_of(node.test)), again, line)
        yield from _expand(node.orelse, sign, text, local, (), again, line)
    elif isinstance(node, ast.Constant):
        number = _number(node)
        if number and conditions:
            yield Term(conditions, sign * (-1 if number < 0 else 1), line)
    elif isinstance(node, ast.Call):
        yield from _expand_call(node, sign, text, local, conditions, again, line)
    elif isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name in text.numbers:
            number = text.numbers[name]
            if number:
                named = _words(name) if _valence(_words(name)) else conditions
                yield Term(named, sign * (-1 if number < 0 else 1), line, always=not conditions)
        elif _valence(_words(name)):
            if not (isinstance(node, ast.Attribute) and text.may_be_negative(name)):
                made = [statement for statement, _ in local.get(name, ()) if isinstance(node, ast.Name)]
                # effort = -0.01 * |action| is taken away where it is added.
                turned = bool(made) and all(_begins_with_minus(getattr(each, "value", None)) for each in made)
                yield Term(_words(name), -sign if turned else sign, line)
        elif isinstance(node, ast.Name) and name in local and len(local[name]) <= 4:
            others = {key: value for key, value in local.items() if key != name}
            for statement, under in local[name]:
                if text.runs(statement.lineno):
                    yield from (Term(term.words, term.sign * sign, line) for term in _of_statement(statement, text, others, under))
    elif isinstance(node, ast.Compare | ast.BoolOp | ast.Subscript):
        words = _words_of(node) if isinstance(node, ast.BoolOp) else _words_of(node.value) if isinstance(node, ast.Subscript) else ()
        if words:
            yield Term(words, sign, line)


def _begins_with_minus(value: ast.expr | None) -> bool:
    while isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Div):
        value = value.left
    return isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub)


def _expand_product(
    node: ast.BinOp, sign: int, text: _Text, local: Locals, conditions: tuple[str, ...], depth: int, line: int
) -> Iterator[Term]:
    """Of two things that are multiplied the words of both; what is divided by is the less the more there is of it."""
    if any(isinstance(side, ast.Attribute) and not _valence(_words(side.attr)) for side in (node.left, node.right)):
        # A weight that is set elsewhere may have a minus of its own.
        return
    below = -sign if isinstance(node.op, ast.Div) else sign
    above = list(_expand(node.left, sign, text, local, conditions, depth, line))
    parts = [*above, *_expand(node.right, below, text, local, conditions, depth, line)]
    if isinstance(node.op, ast.Div):
        yield from above or parts
    elif parts:
        flipped = 1 if all(part.sign == sign for part in parts) else -1
        yield Term(tuple(word for part in parts for word in part.words), sign * flipped, line)


def _expand_call(
    node: ast.Call, sign: int, text: _Text, local: Locals, conditions: tuple[str, ...], depth: int, line: int
) -> Iterator[Term]:
    name = _called(node)
    if name in SIZES:
        yield Term(("distance",), sign, line)
    elif name in ("abs", "fabs", "absolute", "square") and node.args and _is_difference(node.args[0]):
        # The size of a change says nothing of its direction.
        yield from [Term(("distance",), sign, line)] if _is_a_gap(node.args[0]) else []
    elif name in THROUGH:
        own = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        # The limits of a cut are no terms.
        for inner in (node.args if name in ("max", "min", "maximum", "minimum") else node.args[:1]) or own:
            yield from _expand(inner, sign, text, local, conditions, depth, line)
    elif _valence(_words(name)):
        yield Term(_words(name), sign, line)
    elif (method := text.methods.get(name) or text.functions.get(name)) is not None:
        inside = _locals_of(method)
        for part in ast.walk(method):
            if isinstance(part, ast.Return) and part.value is not None:
                yield from (
                    Term(term.words, term.sign, part.lineno) for term in _expand(part.value, sign, text, inside, (), depth, part.lineno)
                )


PAST: Final = frozenset({"last", "prev", "previous", "old", "before", "earlier"})


def _read_movement(text: _Text) -> Iterator[Passage]:
    """What is paid for the size of a change, whichever way it goes."""
    for name, method in text.methods.items():
        if name != "step" and "reward" not in name:
            continue
        for node in ast.walk(method):
            if not isinstance(node, ast.Assign | ast.AugAssign) or "reward" not in _words(_target_of(node)):
                continue
            for part in ast.walk(node.value):
                if isinstance(part, ast.Call) and _called(part) in ("abs", "fabs") and part.args and isinstance(part.args[0], ast.BinOp):
                    sides = (part.args[0].left, part.args[0].right)
                    past = [bool(PAST & {word for each in _named(side) for word in _words(each)}) for side in sides]
                    if isinstance(part.args[0].op, ast.Sub) and past[0] != past[1] and not _is_taken_away(node.value, part):
                        yield Passage("deceptive-reward", part.lineno, text.line(part.lineno), "to and fro is paid alike")


def _target_of(node: ast.Assign | ast.AugAssign) -> str:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    return target.id if isinstance(target, ast.Name) else ""


def _named(node: ast.expr) -> list[str]:
    return [part.id if isinstance(part, ast.Name) else part.attr for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute)]


def _is_taken_away(whole: ast.expr, part: ast.expr) -> bool:
    """Whether a minus stands before a part of a sum."""
    for node in ast.walk(whole):
        under = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else None
        under = node.right if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) else under
        if under is not None and any(each is part for each in ast.walk(under)):
            return True
    return False


def _read_clocks(text: _Text) -> Iterator[Passage]:
    """A count of steps that ends the task, where nothing is ever truncated."""
    step = text.step
    if step is None:
        return
    local = _locals_of(step)
    counted = {
        node.target.attr
        for node in ast.walk(step)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute) and _number(node.value) == 1
    }
    for node in ast.walk(step):
        if not (isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 5):
            continue
        over, cut = node.value.elts[2:4]
        if not text.runs(node.lineno) or not (isinstance(cut, ast.Constant) and cut.value is False):
            continue
        made = [over]
        if isinstance(over, ast.Name):
            made = [each.value for each, _ in local.get(over.id, []) if isinstance(each, ast.Assign)]
        for part in (part for each in made for part in ast.walk(each)):
            if not isinstance(part, ast.Compare) or not isinstance(part.ops[0], ast.GtE | ast.Gt | ast.Eq):
                continue
            if isinstance(part.left, ast.Attribute) and part.left.attr in counted:
                yield Passage("time-limit-as-terminal", part.lineno, text.line(part.lineno), f"self.{part.left.attr} counts steps")


def _is_difference(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)


def _is_a_gap(node: ast.expr) -> bool:
    """Whether it is one place less another, and not what a place is less what it was."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)):
        return False
    words = {word for name in _named(node) for word in _words(name)}
    number = any(isinstance(side, ast.Constant) for side in (node.left, node.right))
    return not number and not words & (PAST | {"new", "next", "now", "action"})


def _progress(node: ast.BinOp, one: list[Term], two: list[Term], local: Locals) -> list[Term]:
    """The same thing now less what it was before: what counts is the sign of the later one."""
    if not (len(one) == len(two) == 1 and one[0].words == two[0].words and one[0].sign != two[0].sign):
        return [*one, *two]
    made = [_made_at(side, local) for side in (node.left, node.right)]
    if made[0] is None or made[1] is None or made[0] == made[1]:
        return []
    return one if made[0] > made[1] else two


def _made_at(node: ast.expr, local: Locals) -> float | None:
    """The line that a value was made in; what is kept in an attribute whose name says so is from before, what is called here from now."""
    if isinstance(node, ast.Name):
        return float(local[node.id][-1][0].lineno) if node.id in local else None
    if isinstance(node, ast.Attribute):
        return 0.0 if {"last", "prev", "previous", "old", "before"} & set(_words(node.attr)) else None
    return float(node.lineno) if isinstance(node, ast.Call) else None


def _factor(node: ast.expr, text: _Text) -> float | None:
    """The number that a factor is; None for what is no number, or no plain one."""
    number = _number(node)
    if number is not None:
        return number
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
    return text.numbers.get(name) if name is not None else None


# ── seeds, rounding, ends ──


def _read_seeds(text: _Text) -> Iterator[Passage]:
    """A seed that is a number in reset(), or in what reset() calls."""
    reset = text.methods.get("reset")
    if reset is None:
        return
    called = {_called(node) for node in ast.walk(reset) if isinstance(node, ast.Call)}
    for method in (reset, *(text.methods[name] for name in sorted(called & text.methods.keys()) if name not in ("reset", "step"))):
        for node in ast.walk(method):
            if not isinstance(node, ast.Call):
                continue
            name = _called(node)
            given = [*node.args[:1], *(each.value for each in node.keywords if each.arg == "seed")]
            fixed = any(
                _number(each) is not None or (isinstance(each, ast.Name | ast.Attribute) and _factor(each, text) is not None)
                for each in given
            )
            if fixed and (
                name in ("default_rng", "RandomState", "seed", "Random", "np_random", "Generator") or (name == "reset" and node.keywords)
            ):
                yield Passage("starts-identical", node.lineno, text.line(node.lineno), "the same seed at every reset")


def _read_rounding(text: _Text) -> Iterator[Passage]:
    """A reward that is cut to whole numbers."""
    step = text.step
    if step is None:
        return
    for node in ast.walk(step):
        value: ast.expr | None = None
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 5:
            value = node.value.elts[1]
        elif isinstance(node, ast.Assign) and any(
            "reward" in word for target in node.targets if isinstance(target, ast.Name) for word in _words(target.id)
        ):
            value = node.value
        for part in ast.walk(value) if value is not None else ():
            whole = isinstance(part, ast.BinOp) and isinstance(part.op, ast.FloorDiv)
            cut = isinstance(part, ast.Call) and _called(part) in ("int", "round", "floor", "rint", "trunc") and len(part.args) == 1
            if isinstance(part, ast.expr) and (cut or whole):
                yield Passage("reward-sparse", part.lineno, text.line(part.lineno), "the reward is cut to whole numbers")


def _read_exact_ends(text: _Text) -> Iterator[Passage]:
    """An end that waits for what is counted up in parts of one to be exactly some number."""
    step = text.step
    if step is None:
        return
    counted = {
        node.target.attr
        for node in ast.walk(step)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute) and (_factor(node.value, text) or 1.0) % 1
    }
    for node in ast.walk(step):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            sides = (node.left, node.comparators[0])
            if any(isinstance(side, ast.Attribute) and side.attr in counted for side in sides):
                yield Passage("time-limit-missing", node.lineno, text.line(node.lineno), "waits for exactly this number")


def pays_more_than_seen(source: str, class_name: str, lines_run: Collection[int], most: float) -> bool:
    """Whether a reward is added on a line that did not run, or is made with a number larger than anything that was paid: then nobody has
    met the best there is, and what the task can pay is not known."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    owner = next((node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == class_name), None)
    if owner is None:
        return False
    text = _Text(tree, owner, source.splitlines(), lines_run)
    for method in text.methods.values():
        for node in ast.walk(method):
            value: ast.expr | None = None
            if isinstance(node, ast.Assign | ast.AugAssign) and _PAY & set(_words(_target_of(node))):
                value = node.value
                if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Sub):
                    continue
            elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 5:
                value = node.value.elts[1]
            if value is None:
                continue
            numbers = list(_numbers_added(value, text))
            if max(numbers, default=0.0) > (MORE * max(most, 0.0) if text.runs(value.lineno) else 0.0):
                return True
    return False


_PAY: Final = frozenset({"reward", "rewards", "pay", "bonus", "score", "payoff"})
MORE: Final = 1.5
"""Times the largest reward that was seen."""


def _numbers_added(node: ast.expr, text: _Text, sign: int = 1) -> Iterator[float]:
    """Numbers of a sum that stand alone or before something that may or may not be: those with a minus are left out."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield from _numbers_added(node.operand, text, -sign)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from _numbers_added(node.left, text, sign)
        yield from _numbers_added(node.right, text, -sign if isinstance(node.op, ast.Sub) else sign)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for factor, other in ((node.left, node.right), (node.right, node.left)):
            number = _factor(factor, text)
            if number is not None and isinstance(other, ast.Name | ast.Attribute | ast.Compare | ast.BoolOp):
                yield sign * number
    elif isinstance(node, ast.IfExp):
        yield from _numbers_added(node.body, text, sign)
        yield from _numbers_added(node.orelse, text, sign)
    elif isinstance(node, ast.Call) and len(node.args) == 1:
        yield from _numbers_added(node.args[0], text, sign)
    elif (number := _factor(node, text)) is not None:
        yield sign * number


def draws_at_starts(source: str, class_name: str) -> bool | None:
    """Whether reset(), or what it calls, draws anything; None where that cannot be read, as where another class has a part in it."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    owner = next((node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == class_name), None)
    methods = {node.name: node for node in owner.body if isinstance(node, ast.FunctionDef)} if owner is not None else {}
    if owner is None or "reset" not in methods or any(not ast.unparse(base).partition("[")[0].endswith("Env") for base in owner.bases):
        return None
    called = {_called(node) for node in ast.walk(methods["reset"]) if isinstance(node, ast.Call)} - {"reset", "step"}
    text = " ".join(ast.unparse(methods[name]) for name in ("reset", *sorted(called & methods.keys())))
    return bool(re.search(r"random|rng|\bdraw|sample|choice|shuffle|integers|uniform|normal\(", text))


def kept_on_purpose(source: str, class_name: str) -> frozenset[str]:
    """Attributes that reset() itself goes on from: a level that it raises is no rest of the last episode."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    owner = next((node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == class_name), None)
    reset = next((node for node in owner.body if isinstance(node, ast.FunctionDef) and node.name == "reset"), None) if owner else None
    found: set[str] = set()
    for node in ast.walk(reset) if reset is not None else ():
        if isinstance(node, ast.AugAssign):
            found |= {node.target.attr} if isinstance(node.target, ast.Attribute) else set()
        elif isinstance(node, ast.Assign):
            # What is put back to itself alone is left as it was.
            read = {part.attr for part in ast.walk(node.value) if isinstance(part, ast.Attribute) and part is not node.value}
            found |= read & {target.attr for target in node.targets if isinstance(target, ast.Attribute)}
    return frozenset(found)


def by_cause(passages: list[Passage]) -> Mapping[str, Passage]:
    """The first passage of each cause."""
    return {each.cause: each for each in reversed(passages)}
