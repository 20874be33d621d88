"""What a value depends on, and how much: formulas evaluated with numbers, together with their slopes.

A formula (`execution.Symbol`) is computed once with a number for each thing that it is made of (`Leaf`): rewards, flags of ends, what
networks say, log-probabilities. Beside the number two slopes are kept for each of them: how much the value changes with it (`whole`), and
how much of that a gradient sees (`flows`), which detach and no_grad cut off. Laws then ask for slopes, whatever the formula looks like: a
critic's target must not fall with the value of the same state; a loss must fall with the log-probability of an action that did well.

Each leaf knows its time, counted in steps from the place where the value is computed: row t + 1 of an array is one step later, what the
pass before left is one step earlier, or one later where the loop goes backwards. A value of a network carries the time of what it was
asked about.
"""

import ast
import math
from collections.abc import Callable
from typing import Final, NamedTuple

from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import position
from rlclinic.diagnosis.lint.code.symbolic import formulas, sizes
from rlclinic.diagnosis.lint.code.symbolic.execution import Event, Execution, Items, Symbol, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called

MOST_VALUES: Final = 3_000
_UNKNOWN_DISCOUNT: Final = 0.9
_CUTTING: Final = frozenset({"detach", "item", "numpy", "tolist", "stop_gradient"})
_FLAGS: Final = {2: "terminated", 3: "truncated"}
_SAME: Final = formulas.PASSING - {"clip", "clamp", "cat", "concatenate", "hstack", "vstack"}


class Leaf(NamedTuple):
    """Something that a value is made of."""

    kind: str
    """reward, terminated, truncated, ended, log_prob, entropy, value, carried, or other."""
    place: object
    """What tells it apart: the line of the step that gave it, the network and what it was asked about, the symbol."""
    time: int
    """Steps from where the value is computed: 0 is the same one."""


class Slope(NamedTuple):
    """A number, and how it changes."""

    number: float
    whole: dict[Leaf, float]
    flows: dict[Leaf, float]


def fixed(number: float) -> Slope:
    """A number that depends on nothing."""
    return Slope(number, {}, {})


class Unclear(Exception):
    """A formula that is not understood."""


class Evaluation:
    """One evaluation of formulas, with numbers for leaves."""

    def __init__(self, run: Execution, numbers: Callable[[Leaf, Symbol], float | None]) -> None:
        self.run = run
        self.numbers = numbers
        """The number of a leaf; None for the usual one."""
        self.leaves: dict[Leaf, Symbol] = {}
        """Leaves that were met."""
        self.is_windowed = False
        """Whether the place in a window of steps takes part: which of its steps is meant is not known."""
        self._ages = _ages(run)
        self._stepping = {loop for event in run.events if event.name == "env step" for loop in event.loops}
        self._known: dict[tuple[int, int], Slope] = {}
        self._kept: list[Value] = []
        self._inside: set[tuple[int, int]] = set()
        self._count = 0

    def of(self, value: Value, time: int = 0) -> Slope:
        """The number and the slopes of a value; Unclear where it is made of something that is not known."""
        key = (id(value), time)
        if key not in self._known:
            self._count += 1
            if self._count > MOST_VALUES or key in self._inside or abs(time) > 3:
                raise Unclear
            self._inside.add(key)
            self._kept.append(value)
            made = self._of(value, time)
            if isinstance(value, Symbol) and value.free and made.flows:
                made = Slope(made.number, made.whole, {})
            for put in value.stored if isinstance(value, Symbol) and value.op != "array" else ():
                if (
                    isinstance(put, Symbol)
                    and put.op == "put"
                    and len(put.args) > 1
                    and (mask := self._mask(put.args[1], time)) is not None
                ):
                    # next_values[ended] = 0
                    made = _mixed(mask, self.of(put.args[0], time), made)
            self._inside.discard(key)
            self._known[key] = made
        return self._known[key]

    # ── leaves ──

    def _leaf(self, kind: str, place: object, time: int, value: Symbol, flows: bool = False) -> Slope:
        leaf = Leaf(kind, place, time)
        self.leaves.setdefault(leaf, value)
        given = self.numbers(leaf, value)
        usual = {
            "reward": 1.0,
            "terminated": 0.0,
            "truncated": 0.0,
            "ended": 0.0,
            "log_prob": 0.0,
            "entropy": 0.7,
            "prob": 0.5,
            "discount": 0.9,
        }.get(kind, 0.4)
        return Slope(usual if given is None else given, {leaf: 1.0}, {leaf: 1.0} if flows else {})

    def _of(self, value: Value, time: int) -> Slope:
        if isinstance(value, Items):
            held = [each for each in value.items if not (isinstance(each, Symbol) and each.op == "const" and each.data is None)]
            if not held:
                raise Unclear
            return self.of(_row(held), time)
        if not isinstance(value, Symbol):
            raise Unclear
        name = called(value)
        if value.op == "const":
            number = formulas.number(value)
            if number is None:
                raise Unclear
            return fixed(number)
        if value.op in ("Add", "Sub", "Mult", "Div", "Pow") and len(value.args) == 2:
            return self._arithmetic(value.op, value, time)
        if value.op in ("USub", "UAdd") or name in ("neg", "negative"):
            inner = self.of(value.args[0], time)
            return inner if value.op == "UAdd" else scaled(inner, -1.0)
        if value.op in ("Not", "Invert") or name in ("logical_not", "bitwise_not"):
            inner = self.of(value.args[0], time)
            return Slope(1.0 - inner.number, {leaf: -slope for leaf, slope in inner.whole.items()}, {})
        if value.op in ("Or", "BitOr", "And", "BitAnd") or name in ("logical_or", "logical_and", "bitwise_or", "bitwise_and"):
            either = value.op in ("Or", "BitOr") or name.endswith("or")
            return self._either([self.of(each, time) for each in value.args], either)
        if value.op == "Compare":
            return self._compared(value, time)
        if value.op == "phi" or (name == "where" and len(value.args) == 3):
            return self._chosen(value, time)
        if value.op == "carried":
            return self._carried(value, time)
        if value.op in ("read", "item") and len(value.args) > 1 and not isinstance(value.data, str):
            if isinstance(value.args[0], Symbol) and value.args[0].op in ("out", "log", "net") and value.op == "item":
                return self.of(value.args[0], time)
            return self.of(value.args[0], time + offset(value.args[1]))
        if value.op == "element":
            return self.of(value.args[0], time + _written_offset(value))
        if value.op == "item" and value.data == 0 and called(value.args[0]) in ("max", "min", "sort", "topk"):
            return self.of(value.args[0], time)  # values, indices = answers.max(1)
        if value.op == "put":
            mask = self._mask(value.args[1], time) if len(value.args) > 1 else None
            if mask is not None:
                # zeros, filled where a mask says so
                return _mixed(mask, self.of(value.args[0], time), fixed(0.0))
            return self.of(value.args[0], time - (offset(value.args[1]) if len(value.args) > 1 else 0))
        if value.op in ("column", "sampled", "reversed"):
            return self.of(value.args[0], time)
        if value.op == "array":
            if not value.stored:
                return fixed(1.0 if str(value.data).startswith("ones") else 0.0)
            put = _last_put(value)
            key = put.args[1] if isinstance(put, Symbol) and put.op == "put" and len(put.args) > 1 else None
            mask = self._mask(key, time) if key is not None and str(value.data).startswith("ones") else None
            if mask is not None and isinstance(put, Symbol):
                return _mixed(mask, self.of(put.args[0], time), fixed(1.0))
            return self.of(put, time)
        if value.op == "index":
            # Which pass it is: the first one, if nobody asks for another.
            self.is_windowed = True
            given = self.numbers(Leaf("index", id(value.args[0]) if value.args else id(value), 0), value)
            return fixed(0.0 if given is None else given)
        if value.op == "stepped":
            number, count = value.data
            kind = {1: "reward", **({2: "ended"} if count == 4 else _FLAGS)}.get(number, "other")
            place, age = self.step_of(value)
            return self._leaf(kind, place, time + age, value)
        if value.op == "out":
            asked = tuple(sorted({each for given in value.args[1:] for each in self.seen(given, time)}, key=repr))
            top = formulas.root(value.args[0])
            # Which network answers does not matter: two critics, or one with other weights, say what the same thing is worth.
            kind = "acted" if asked and self._is_about_action(value) else "asked"
            return self._leaf("value", (kind, asked) if asked else (id(top), id(value)), 0 if asked else time, value, not value.free)
        if value.op in ("method", "call"):
            return self._of_call(value, name, time)
        if value.op == "attribute" and value.data in ("probs", "logits") and value.args and _is_distribution(value.args[0]):
            return self._leaf("prob" if value.data == "probs" else "log_prob", id(value), time, value, not value.free)
        if value.op == "attribute" and value.data in ("T", "data", "values", "mT") and value.args:
            return self.of(value.args[0], time)
        if value.op == "item" and value.args and isinstance(value.args[0], Symbol) and value.args[0].op == "out":
            # One of several answers of a network that is written elsewhere.
            return self._leaf("value", (id(value.args[0].args[0]), value.data), time, value, not value.free)
        return self._named(value, time)

    def _named(self, value: Symbol, time: int) -> Slope:
        """A parameter or an attribute of which the script shows no more than its name."""
        name = str(value.data) if isinstance(value.data, str) else value.label
        if value.op == "attribute" and value.data in ("high", "low"):
            return fixed(1.0 if value.data == "high" else -1.0)
        if value.op == "weights":
            return self._leaf("weight", id(value), time, value, not value.free)
        held = formulas.flag(value)
        if held is not None:
            kind = next(iter(held.ends)) if len(held.ends) == 1 and not held.ends & {"named"} else "ended"
            leaf = self._leaf(kind, name, time, value)
            return leaf if held.sign > 0 else Slope(1.0 - leaf.number, dict.fromkeys(leaf.whole, -1.0), {})
        if name and words.GAMMA(name):
            # A discount that comes with each transition may hold the mask, too.
            return fixed(_UNKNOWN_DISCOUNT) if formulas.is_scalar(value) else self._leaf("discount", id(value), time, value)
        if name and (words.REWARD(name) or words.ADVANTAGE(name) or words.VALUE(name) or words.RETURN(name)):
            kind = "reward" if words.REWARD(name) else "other"
            return self._leaf(kind, "named" if kind == "reward" else name, time, value)
        if value.op == "parameter" and not words.LAMBDA(name):
            # It may be a number, or a row of them: a mask whose name says nothing.
            return self._leaf("setting", id(value), time, value)
        if formulas.is_scalar(value):
            return fixed(0.95 if words.LAMBDA(name) else 0.2)
        return self._leaf("other", id(value), time, value)

    @staticmethod
    def _is_about_action(out: Symbol) -> bool:
        """Whether a critic is asked about an action, and not an observation alone."""
        given = [each for each in out.args[1:] if not (isinstance(each, Symbol) and each.op == "const")]
        joined = given[0] if len(given) == 1 else None
        if isinstance(joined, Symbol) and called(joined) in _JOINING and joined.args:
            return isinstance(joined.args[0], Items) and not joined.args[0].is_open and len(joined.args[0].items) > 1
        return len(given) > 1

    def seen(self, value: Value, time: int, depth: int = 14) -> set[tuple[object, int]]:
        """Which observations something is made of: the step that showed each, and when."""
        if depth == 0:
            return set()
        if isinstance(value, Items):
            return self.seen(_row(value.items), time, depth - 1) if value.items else set()
        if not isinstance(value, Symbol):
            return set()
        if value.op == "stepped" and value.data[0] == 0:
            place, age = self.step_of(value)
            return {(place, time + age)}
        if value.op == "array":
            return self.seen(_last_put(value), time, depth - 1) if value.stored else set()
        if value.op == "carried":
            shift = self._shift(value)
            return self.seen(value.args[0], time + shift, depth - 1)
        if value.op == "phi":
            found = [self.seen(each, time, depth - 1) for each in value.args[1:]]
            return next((each for each in found if each), set())
        if value.op in ("read", "item") and len(value.args) > 1 and not isinstance(value.data, str):
            return self.seen(value.args[0], time + offset(value.args[1]), depth - 1)
        if value.op == "put":
            return self.seen(value.args[0], time - (offset(value.args[1]) if len(value.args) > 1 else 0), depth - 1)
        if value.op == "element":
            return self.seen(value.args[0], time + _written_offset(value), depth - 1)
        joined = value.args[0] if called(value) in _JOINING and value.args else None
        if isinstance(joined, Items) and not joined.is_open:
            return {each for item in joined.items for each in self.seen(item, time, depth - 1)}
        if value.op in ("column", "sampled", "reversed") or (called(value) in formulas.PASSING and value.args):
            return self.seen(value.args[0], time, depth - 1)
        if value.op in ("parameter", "attribute", "item"):
            # All that is known of it is what a batch calls it.
            named = formulas.role(value)
            return {("named", time if named == "next_obs" else time - 1)} if named in ("obs", "next_obs") else set()
        if value.op in ("Sub", "Div", "Mult", "Add") or called(value) in ("relu", "tanh", "flatten"):
            return {each for argument in value.args for each in self.seen(argument, time, depth - 1)}
        if value.op == "out":
            return {each for given in value.args[1:] for each in self.seen(given, time, depth - 1)}
        return set()

    # ── arithmetic ──

    def _arithmetic(self, op: str, value: Symbol, time: int) -> Slope:
        left = self.of(value.args[0], time)
        if op == "Sub" and left.whole and _is_centre(value.args[1], value.args[0]):
            return left  # x - x.mean(): the mean over a batch hardly moves with one of its rows
        if op == "Div" and _is_spread(value.args[1]):
            return left  # / (x.std() + eps)
        right = self.of(value.args[1], time)
        if op in ("Add", "Sub"):
            sign = 1.0 if op == "Add" else -1.0
            return Slope(
                left.number + sign * right.number, _sum(left.whole, right.whole, 1.0, sign), _sum(left.flows, right.flows, 1.0, sign)
            )
        if op == "Mult":
            return Slope(
                left.number * right.number,
                _sum(left.whole, right.whole, right.number, left.number),
                _sum(left.flows, right.flows, right.number, left.number),
            )
        if op == "Div":
            if abs(right.number) < 1e-9:
                raise Unclear
            by = 1.0 / right.number
            return Slope(
                left.number * by,
                _sum(left.whole, right.whole, by, -left.number * by * by),
                _sum(left.flows, right.flows, by, -left.number * by * by),
            )
        if right.whole and not left.whole and left.number > 0 and abs(right.number) <= 50:
            self.is_windowed = True
            return fixed(left.number**right.number)
        if right.whole or (left.number <= 0 and right.number != int(right.number)) or abs(right.number) > 50:
            if not left.whole and not right.whole:
                return fixed(_UNKNOWN_DISCOUNT)
            raise Unclear
        if left.number == 0 and right.number < 1:
            raise Unclear
        return through(left, left.number**right.number, right.number * left.number ** (right.number - 1))

    @staticmethod
    def _either(held: list[Slope], either: bool) -> Slope:
        number = (max if either else min)(each.number for each in held)
        whole: dict[Leaf, float] = {}
        for each in held:
            whole = _sum(whole, each.whole, 1.0, 1.0)
        return Slope(number, whole, {})

    def _compared(self, value: Symbol, time: int) -> Slope:
        compute = formulas._COMPARISONS.get(str(value.data))
        if compute is None or len(value.args) != 2:
            raise Unclear
        one, other = self.of(value.args[0], time), self.of(value.args[1], time)
        return Slope(float(compute(one.number, other.number)), _sum(one.whole, other.whole, 1e-9, 1e-9), {})

    def _chosen(self, value: Symbol, time: int) -> Slope:
        """The branch that flags choose; elsewhere the first that is understood and not a mere number."""
        held = formulas.flag(value.args[0])
        if held is not None:
            test = self._branch(value.args[0], time)
            if test is None:
                test = self._marked(value.args[0], held, time)
            taken, other = self._branch(value.args[1 if test.number else 2], time), self._branch(value.args[2 if test.number else 1], time)
            if taken is None:
                raise Unclear
            # The flags decide: what comes out depends on them, too.
            jump = taken.number - other.number if other is not None else 0.0
            moved = {leaf: (jump if test.number else -jump) * slope for leaf, slope in test.whole.items()} if jump else {}
            return Slope(taken.number, _sum(taken.whole, moved, 1.0, 1.0), taken.flows)
        test = self._branch(value.args[0], time) if value.op != "phi" else None
        if test is not None and any(leaf.kind == "value" for leaf in test.whole):
            # where(error > 0, share, 1 - share)
            return self.of(value.args[1 if test.number else 2], time)
        found = [(each, self._branch(each, time)) for each in value.args[1:]]
        known = [made for _, made in found if made is not None]
        if not known:
            raise Unclear
        return next((made for made in known if made.whole), known[0])

    def _mask(self, value: Value, time: int) -> Slope | None:
        """A flag of an end that rows are taken by; None for anything else."""
        held = formulas.flag(value) if isinstance(value, Symbol) else None
        if held is None:
            return None
        test = self._branch(value, time)
        return test if test is not None else self._marked(value, held, time)

    def _marked(self, value: Value, held: formulas.Flag, time: int) -> Slope:
        """A flag that is set by whether something is there: x is not None, of what is None at an end."""
        kind = next(iter(held.ends)) if len(held.ends) == 1 else "ended"
        assert isinstance(value, Symbol)
        leaf = self._leaf(kind if kind in ("terminated", "truncated") else "ended", id(value), time, value)
        return leaf if held.sign > 0 else Slope(1.0 - leaf.number, {each: -slope for each, slope in leaf.whole.items()}, {})

    def _branch(self, value: Value, time: int) -> Slope | None:
        try:
            return self.of(value, time)
        except Unclear:
            self._inside.clear()
            return None

    def step_of(self, value: Symbol) -> tuple[object, int]:
        """The line of the step that a value comes from, and how many steps before the last one that was."""
        step = value.args[0]
        known = self._ages.get(id(step))
        return known if known is not None else (position(step.node) if isinstance(step, Symbol) and step.node is not None else id(step), 0)

    def _shift(self, value: Symbol) -> int:
        """How much later what the pass before left is; steps of an environment know their own time."""
        if value.node in self._stepping:
            return 0
        walked = self.run.walked.get(value.node) if isinstance(value.node, ast.AST) else None
        return 1 if walked is not None and formulas.is_backwards(walked) is True else -1

    def _carried(self, value: Symbol, time: int) -> Slope:
        leaf = Leaf("carried", (position(value.node) if value.node is not None else 0, value.data), time)
        asked = self.numbers(leaf, value)
        if asked is not None:
            self.leaves.setdefault(leaf, value)
            return Slope(asked, {leaf: 1.0}, {})
        try:
            return self.of(value.args[0], time + self._shift(value))
        except Unclear:
            self._inside.clear()
            return self.of(value.args[1], time)

    # ── calls ──

    def _of_call(self, value: Symbol, name: str, time: int) -> Slope:
        if name == "log_prob" and value.op == "method":
            return self._leaf("log_prob", id(value), time, value, not value.free)
        if name == "log_softmax" or (
            name == "log" and value.args and any(called(part) in ("softmax", "gather") for part in _below(value.args[0]))
        ):
            return self._leaf("log_prob", id(value), time, value, not value.free)
        if name == "softmax":
            return self._leaf("prob", id(value), time, value, not value.free)
        if name == "entropy":
            return self._leaf("entropy", id(value), time, value, not value.free)
        if name == "get":
            return self._named(value, time)
        if name in _DRAWING:
            return self._drawn(value, time)
        if not value.args:
            raise Unclear
        if name == "len":
            return fixed(3.0)
        if name in ("masked_fill", "masked_fill_") and len(value.args) == 3:
            return self._filled(value, time)
        if name == "lfilter" and len(value.args) > 2:
            return self._filtered(value, time)
        if name in sizes.SQUARES and len(value.args) > 1:
            one, other = self.of(value.args[0], time), self.of(value.args[1], time)
            gap = Slope(one.number - other.number, _sum(one.whole, other.whole, 1.0, -1.0), _sum(one.flows, other.flows, 1.0, -1.0))
            return through(gap, gap.number**2, 2 * gap.number)
        if name in ("min", "minimum", "max", "maximum", "fmin", "fmax") and len(value.args) == 2 and _is_value(value.args[1]):
            one, other = self.of(value.args[0], time), self.of(value.args[1], time)
            smaller = name in ("min", "minimum", "fmin")
            return one if (one.number <= other.number) == smaller else other
        if name in ("clip", "clamp", "clip_", "clamp_", "clamp_min", "clamp_max"):
            return self._clamped(value, name, time)
        if name in ("cat", "concatenate", "hstack", "vstack", "concat"):
            # The rows, and what comes after the last of them.
            held = value.args[0]
            return self.of(held.items[0] if isinstance(held, Items) and held.items and not held.is_open else held, time)
        if name not in _FOLLOWED:
            return self._opaque(value, time)
        inner = self.of(value.args[0], time)
        if name in _CUTTING:
            return Slope(inner.number, inner.whole, {})
        if name in _TAKING or name in _SAME:
            return inner
        if name in _OPERATORS and len(value.args) == 2:
            return self._arithmetic(_OPERATORS[name], value, time)
        if name == "square":
            return through(inner, inner.number**2, 2 * inner.number)
        if name == "exp":
            scores = [leaf for leaf in inner.whole if leaf.kind == "log_prob" and called(self.leaves.get(leaf, value)) == "log_softmax"]
            if len(inner.whole) == 1 and scores and inner.whole[scores[0]] == 1.0:
                return self._leaf("prob", scores[0].place, scores[0].time, value, bool(inner.flows) and not value.free)
            made = math.exp(max(min(inner.number, 50.0), -50.0))
            return through(inner, made, made)
        if name in _CURVES:
            try:
                made, slope = _CURVES[name](inner.number)
            except (ArithmeticError, ValueError):
                return self._opaque(value, time)
            return through(inner, made, slope)
        return self._opaque(value, time)

    def _opaque(self, value: Symbol, time: int) -> Slope:
        """Something that is not followed, as one number; Unclear where a reward, a flag or a log-probability may be inside."""
        for part in formulas.parts(value, into_networks=False):
            hides = (part.op == "stepped" and part.data[0] in (1, 2, 3)) or called(part) in ("log_prob", "entropy", "log_softmax")
            if hides or formulas.flag(part) is not None or words.REWARD(part.label):
                raise Unclear
        return self._leaf("opaque", id(value), time, value, bool(formulas.gradient(value)))

    def _drawn(self, value: Symbol, time: int) -> Slope:
        """What is drawn at random, from a distribution or out of nothing."""
        return self._leaf("drawn", id(value), time, value, called(value) == "rsample")

    def _filled(self, value: Symbol, time: int) -> Slope:
        """x.masked_fill(ended, 0)"""
        inner, mask, put = self.of(value.args[0], time), self.of(value.args[1], time), self.of(value.args[2], time)
        return _mixed(mask, put, inner)

    def _filtered(self, value: Symbol, time: int) -> Slope:
        """lfilter([1], [1, -discount], x): x, and the discount times what was summed before."""
        given = value.args[1]
        if not isinstance(given, Items) or len(given.items) != 2:
            raise Unclear
        later = 1 if _is_turned(value.args[2]) else -1
        now, then, by = self.of(value.args[2], time), self.of(value.args[2], time + later), -self.of(given.items[1], time).number
        return Slope(now.number + by * then.number, _sum(now.whole, then.whole, 1.0, by), _sum(now.flows, then.flows, 1.0, by))

    def _clamped(self, value: Symbol, name: str, time: int) -> Slope:
        inner = self.of(value.args[0], time)
        least = value.keys.get("min", value.args[1] if len(value.args) > 1 and name != "clamp_max" else None)
        most = value.keys.get(
            "max", value.args[2] if len(value.args) > 2 else value.args[1] if name == "clamp_max" and len(value.args) > 1 else None
        )
        for bound, below in ((least, True), (most, False)):
            if bound is None or (isinstance(bound, Symbol) and bound.op == "const" and bound.data is None):
                continue
            limit = self.of(bound, time)
            if (inner.number < limit.number) if below else (inner.number > limit.number):
                return limit
        return inner


def _curve(function: Callable[[float], float]) -> Callable[[float], tuple[float, float]]:
    return lambda x: (function(x), (function(x + 1e-6) - function(x - 1e-6)) / 2e-6)


_FUNCTIONS: Final[dict[str, Callable[[float], float]]] = {
    "tanh": math.tanh, "softplus": lambda x: math.log1p(math.exp(x)), "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "abs": abs,
    "log": math.log, "sqrt": math.sqrt, "relu": lambda x: max(x, 0.0), "log1p": math.log1p, "expm1": math.expm1,
    "logsigmoid": lambda x: -math.log1p(math.exp(-x)), "absolute": abs, "reciprocal": lambda x: 1 / x,
}  # fmt: skip
_CURVES: Final = {name: _curve(function) for name, function in _FUNCTIONS.items()}
_JOINING: Final = frozenset({"cat", "concatenate", "hstack", "concat", "column_stack"})
_DRAWING: Final = frozenset(
    {"rsample", "sample", "randn", "randn_like", "rand", "rand_like", "normal", "standard_normal", "uniform", "random"}
)


_TAKING: Final = frozenset(
    {"gather", "take_along_dim", "mean", "sum", "nanmean", "min", "max", "amax", "amin", "cumsum", "index_select", "values"}
)
_OPERATORS: Final = {
    "add": "Add", "sub": "Sub", "subtract": "Sub", "mul": "Mult", "multiply": "Mult", "div": "Div", "divide": "Div", "true_divide": "Div",
    "pow": "Pow", "power": "Pow",
}  # fmt: skip
_FOLLOWED: Final = frozenset({*_CUTTING, *_TAKING, *_SAME, *_OPERATORS, *_CURVES, "square", "exp"})


def _is_distribution(value: Value) -> bool:
    return isinstance(value, Symbol) and (value.op == "dist" or called(value) in ("Categorical", "OneHotCategorical"))


def _mixed(test: Slope, one: Slope, other: Slope) -> Slope:
    """One value where a flag is set, another one elsewhere."""
    share = test.number
    jump = one.number - other.number
    mixed = _sum(one.whole, other.whole, share, 1.0 - share)
    return Slope(
        share * one.number + (1.0 - share) * other.number,
        _sum(mixed, test.whole, 1.0, jump),
        _sum(one.flows, other.flows, share, 1.0 - share),
    )


def _below(value: Value, depth: int = 6) -> list[Symbol]:
    """A value, and what it was before it was cast, indexed and reshaped."""
    made: list[Symbol] = []
    while isinstance(value, Symbol) and len(made) < depth:
        made.append(value)
        if not value.args or not (
            value.op in ("item", "read") or called(value) in (*formulas.PASSING, "gather", "clamp", "clip") or value.op == "Add"
        ):
            break
        value = value.args[0]
    return made


def _last_put(array: Symbol) -> Value:
    """What was put into an array last; what was added to some of its entries afterwards leaves them what they were."""
    for put in reversed(array.stored):
        made = put.args[0] if isinstance(put, Symbol) and put.op == "put" and put.args else put
        added = isinstance(made, Symbol) and made.op in ("Add", "Sub", "Mult") and made.data == "in place"
        if not added or not any(part is array for part in formulas.parts(made, False, False)):
            return put
    return array.stored[-1]


def _row(items: list[Value]) -> Value:
    """Any row of a list: the last that was put in where most were, not one that was joined to its end afterwards."""
    last = items[-1]
    # What a later pass of the same loop puts in is one like those before.
    same = isinstance(last, Symbol) and last.op in ("carried", "phi")
    if len(items) > 1 and not same and _kind(last) != _kind(items[-2]) and (len(items) == 2 or _kind(items[0]) == _kind(items[-2])):
        items = items[:-1]  # values + [last_value]
    depths = [len(each.loops) if isinstance(each, Symbol) else 0 for each in items]
    return next(each for each, depth in zip(reversed(items), reversed(depths), strict=True) if depth == max(depths))


def _kind(value: Value) -> str:
    return f"{value.op} {called(value)}" if isinstance(value, Symbol) else type(value).__name__


def _ages(run: Execution) -> dict[int, tuple[object, int]]:
    """For each step of an environment its place in the script, and how many steps before the last one there it was."""
    if "ages of steps" not in run.known:
        by_place: dict[tuple[int, int], list[Symbol]] = {}
        beside: dict[tuple[int, int], int] = {}
        for event in run.events:
            if event.name == "env step" and isinstance(event.value, Symbol) and event.value.node is not None:
                by_place.setdefault(position(event.value.node), []).append(event.value)
                beside[position(event.value.node)] = _side_by_side(run, event)
        run.known["ages of steps"] = {
            id(step): (place, number // beside[place] - (len(steps) - 1) // beside[place])
            for place, steps in by_place.items()
            for number, step in enumerate(steps)
        }
    held: dict[int, tuple[object, int]] = run.known["ages of steps"]
    return held


def _side_by_side(run: Execution, event: Event) -> int:
    """How often a step is made at the same time, in a loop over environments; 1 in a loop over time."""
    loop = event.loops[-1] if event.loops else None
    walked = run.walked.get(loop) if loop is not None else None
    pending: list[Value] = [walked] if walked is not None else []
    while pending:
        current = pending.pop()
        if isinstance(current, Items):
            if any(each is event.subject for each in current.items):
                return 2 if current.is_open else max(1, len(current.items))
            pending += [each for each in current.items if isinstance(each, Items)]
        elif isinstance(current, Symbol) and current.op in ("zipped", "enumerated"):
            pending += current.args
    return 1


def _is_turned(value: Value) -> bool:
    """x[::-1], flip(x)"""
    if isinstance(value, Symbol) and value.op in ("item", "read") and len(value.args) > 1:
        key = value.args[1]
        return isinstance(key, Symbol) and key.op == "slice" and isinstance(key.data, ast.Slice) and isinstance(key.data.step, ast.UnaryOp)
    if isinstance(value, Symbol) and called(value) in formulas.PASSING - {"flip"} and value.args:
        return _is_turned(value.args[0])
    return isinstance(value, Symbol) and (value.op == "reversed" or called(value) in ("flip", "flipud"))


def _is_value(value: Value) -> bool:
    return isinstance(value, Symbol | Items) and not (isinstance(value, Symbol) and value.op == "const" and isinstance(value.data, int))


def through(inner: Slope, number: float, slope: float) -> Slope:
    """What a function of one value gives."""
    return Slope(
        number, {leaf: slope * each for leaf, each in inner.whole.items()}, {leaf: slope * each for leaf, each in inner.flows.items()}
    )


def scaled(inner: Slope, by: float) -> Slope:
    """A multiple."""
    return through(inner, by * inner.number, by)


def _sum(one: dict[Leaf, float], other: dict[Leaf, float], first: float, second: float) -> dict[Leaf, float]:
    made = {leaf: slope * first for leaf, slope in one.items()}
    for leaf, slope in other.items():
        made[leaf] = made.get(leaf, 0.0) + slope * second
    return made


def offset(key: Value) -> int:
    """How far a row is from the counter: 1 for t + 1, for min(t + 1, last), and for everything from the second row on."""
    if isinstance(key, Items):
        return offset(key.items[0]) if key.items else 0
    if not isinstance(key, Symbol):
        return 0
    if key.op == "slice" and isinstance(key.data, ast.Slice):
        lower = key.data.lower
        counted = lower.value if isinstance(lower, ast.Constant) and isinstance(lower.value, int) else 0
        return counted if key.data.upper is None and key.data.step is None and 0 <= counted < 3 else 0
    if key.op in ("Add", "Sub") and len(key.args) == 2:
        number = formulas.number(key.args[1])
        counter = key.args[0]
        if number is not None and abs(number) < 3 and isinstance(counter, Symbol) and counter.op in ("index", "element", "carried", "item"):
            return int(number if key.op == "Add" else -number)
    if called(key) in ("min", "minimum", "max") and key.args:
        return next((each for each in map(offset, key.args) if each), 0)
    if key.op == "Mod" and key.args:
        return offset(key.args[0])
    return 0


def _written_offset(value: Symbol) -> int:
    """The same for a list, of which only the place in the script is kept: values[t + 1]."""
    node = value.node
    key = node.slice if isinstance(node, ast.Subscript) else None
    if isinstance(key, ast.BinOp) and isinstance(key.op, ast.Add | ast.Sub) and isinstance(key.left, ast.Name):
        counted = key.right.value if isinstance(key.right, ast.Constant) else None
        if isinstance(counted, int) and counted < 3:
            return counted if isinstance(key.op, ast.Add) else -counted
    if isinstance(key, ast.Slice) and key.upper is None and key.step is None and isinstance(key.lower, ast.Constant):
        return key.lower.value if isinstance(key.lower.value, int) and 0 <= key.lower.value < 3 else 0
    return 0


def _is_centre(value: Value, centred: Value) -> bool:
    """The mean of the batch that it is taken from, or one that is kept."""
    while isinstance(value, Symbol) and value.args and (value.op in ("carried", "item", "phi") or called(value) in formulas.PASSING):
        value = value.args[1] if value.op == "phi" else value.args[0]
    if not isinstance(value, Symbol):
        return False
    if value.op == "attribute":
        return value.data == "mean"
    if called(value) not in ("mean", "median") or not value.args:
        return False
    own = {id(each) for each in formulas.origins(centred)}
    return value.args[0] is centred or any(id(each) in own for each in formulas.origins(value.args[0]))


def _is_spread(value: Value) -> bool:
    """A deviation, with or without a small number that keeps it from 0."""
    return any(called(part) in ("std", "var", "sqrt", "max", "amax", "norm") for part in formulas.parts(value, False, False))
