"""What checks say of values that are kept in a table: Q[s, a] must move towards reward + discount * the best of Q[s'], and by a share of it.

An update is read as a function of the old entry, the reward and the best entry of the next state; its slopes are computed by small
changes of each. So it counts what the update does, not how it is written.
"""

# ruff: noqa: E501 — a message reads best whole

import ast
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot
from rlclinic.diagnosis.lint.code.symbolic import experience, formulas
from rlclinic.diagnosis.lint.code.symbolic.execution import Items, Symbol, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called, execution, flag

_BEST: Final = frozenset({"max", "amax", "nanmax"})
_RATE: Final = 0.13
_DISCOUNT: Final = 0.97
_NUDGE: Final = 1e-3
LEAST_DISCOUNT: Final = 0.5


class Update(NamedTuple):
    """table[state, action] = value, where a reward takes part."""

    table: Symbol
    state: Value
    action: Value | None
    value: Symbol
    step: Symbol
    node: ast.AST


def updates(script: Script) -> list[Update]:
    """Updates of tables, each place by the last pass that came through it."""
    return script.once("table updates", lambda: list({id(each.node): each for each in _updates(script)}.values()))


def _updates(script: Script) -> Iterator[Update]:
    for event in execution(script).events:
        if event.name != "store" or not isinstance(event.value, Symbol) or not isinstance(event.subject, Symbol):
            continue
        table, state, action = event.subject, None, None
        if table.op == "out" and table.args and isinstance(table.args[0], Symbol) and table.args[0].op == "array":
            put = next((each for each in reversed(table.stored) if isinstance(each, Symbol) and each.args[:1] == (event.value,)), None)
            table, state, action = table.args[0], table.args[1], put.args[1] if put is not None else None
        elif table.op == "array":
            put = next((each for each in reversed(table.stored) if isinstance(each, Symbol) and each.args[:1] == (event.value,)), None)
            key = put.args[1] if put is not None and len(put.args) > 1 else None
            if isinstance(key, Items) and len(key.items) == 2:
                state, action = key.items
        if state is None:
            continue
        shallow = list(formulas.parts(event.value, into_networks=False, into_arrays=False))
        steps = {id(part.args[0]): part.args[0] for part in shallow if part.op == "stepped" and part.data[0] == 1}
        reads = any(part.op == "out" and part.args[0] is table for part in shallow) or any(
            called(part) in _BEST and part.args and part.args[0] is table for part in shallow
        )
        if len(steps) == 1 and reads:
            step = next(iter(steps.values()))
            if isinstance(step, Symbol):
                yield Update(table, state, action, event.value, step, event.node)


def is_next(value: Value, step: Symbol) -> bool:
    """Whether a state is the one that a step led to."""
    found = experience.latest(value)
    return bool(found) and all(each.op == "stepped" and each.data[0] == 0 and each.args[0] is step for each in found)


class _Slopes:
    """An update as a function of numbers."""

    def __init__(self, update: Update) -> None:
        self.update = update
        self.given = {"old": 1.3, "reward": 0.7, "next": 2.1, "same": 1.7, "whole": 3.3, "column": 2.7, "ended": 0.0}
        self.met: dict[str, Symbol] = {}

    def at(self, **changes: float) -> float | None:
        kept = dict(self.given)
        self.given.update(changes)
        value = self._of(self.update.value)
        self.given = kept
        return value

    def slope(self, name: str, **changes: float) -> float | None:
        low, high = self.at(**changes), self.at(**{**changes, name: self.given[name] + _NUDGE})
        return None if low is None or high is None else (high - low) / _NUDGE

    def _entry(self, value: Symbol) -> str | None:
        """Which entries of the table a value is about."""
        table = self.update.table
        if (
            value.op == "item"
            and value.args
            and isinstance(value.args[0], Symbol)
            and value.args[0].op == "out"
            and value.args[0].args[0] is table
        ):
            state = value.args[0].args[1]
            if is_next(state, self.update.step):
                return "next" if not is_next(self.update.state, self.update.step) else "old"
            return "old"
        if value.op in ("method", "call") and called(value) not in formulas.PASSING and value.args:
            rows = [
                part for part in formulas.parts(value, into_networks=False, into_arrays=False) if part.op == "out" and part.args[0] is table
            ]
            chosen = [part for part in rows if called(value) != "argmax"]
            if chosen and called(value) != "where":
                return "next" if all(is_next(part.args[1], self.update.step) for part in chosen) else "same"
            if called(value) in _BEST:
                inner = value.args[0]
                if inner is table:
                    return "column" if len(value.args) > 1 or "axis" in value.keys else "whole"
                if isinstance(inner, Symbol) and inner.op in ("read", "item") and inner.args and inner.args[0] is table:
                    return "column"
        return None

    def _of(self, value: Value, depth: int = 24) -> float | None:
        if not isinstance(value, Symbol) or depth == 0:
            return None
        entry = self._entry(value)
        if entry is not None:
            self.met.setdefault(entry, value)
            return self.given[entry]
        if value.op == "stepped":
            return self.given["reward"] if value.data[0] == 1 else self.given["ended"] if value.data[0] in (2, 3) else None
        fixed = formulas.number(value)
        if fixed is not None:
            return fixed
        if value.op in ("Not", "Invert"):
            inner = self._of(value.args[0], depth - 1)
            return None if inner is None else float(not inner)
        if value.op == "phi" or (called(value) == "where" and len(value.args) == 3):
            test = self._of(value.args[0], depth - 1) if flag(value.args[0]) is not None else None
            branches = [self._of(each, depth - 1) for each in value.args[1:]]
            if test is not None:
                return branches[0] if test else branches[1]
            return next((each for each in branches if each is not None), None)
        if value.op in ("Or", "And"):
            held = [self._of(each, depth - 1) for each in value.args]
            known = [bool(each) for each in held if each is not None]
            return None if len(known) != len(held) else float(any(known) if value.op == "Or" else all(known))
        if value.op == "carried":
            return next((left for each in value.args if (left := self._of(each, depth - 1)) is not None), None)
        if value.op in formulas.OPERATORS and len(value.args) == 2:
            one, other = (self._of(each, depth - 1) for each in value.args)
            if one is None or other is None or (value.op == "Div" and other == 0):
                return None
            if value.op == "Div" and other == _RATE and formulas.number(value.args[1]) is None:
                other = 1 / _RATE  # error / visits[s, a]: a count is what errors are divided by
            return float(formulas.OPERATORS[value.op](one, other))
        if value.op in ("USub", "UAdd"):
            inner = self._of(value.args[0], depth - 1)
            return None if inner is None else -inner if value.op == "USub" else inner
        if called(value) in formulas.PASSING and value.args:
            return self._of(value.args[0], depth - 1)
        if value.op in ("attribute", "parameter", "ext", "index", "settings", "item", "Pow", "call", "method"):
            name = str(value.data)
            return _DISCOUNT if words.GAMMA(name) else _RATE
        return None


def _read(script: Script) -> Iterator[tuple[Update, _Slopes, float, float, float]]:
    for update in updates(script):
        slopes = _Slopes(update)
        old, reward, best = slopes.slope("old"), slopes.slope("reward"), slopes.slope("next")
        if old is not None and reward is not None and best is not None:
            yield update, slopes, old, reward, best


def away_from_target(script: Script) -> Iterator[Spot]:
    for update, _, old, reward, _ in _read(script):
        if reward < -1e-6:
            yield _spot(
                update.node,
                "the entry moves away from its target: what is rewarded gets a lower value",
                "table[s, a] += rate * (target - table[s, a])",
            )
        elif reward > 1e-6 and old > 1 - 1e-6:
            yield _spot(
                update.node,
                "the old value is not taken away in the error: the entry grows without a bound",
                "rate * (target - table[s, a])",
            )
        elif reward > 1 + 1e-6 and old < -1e-6:
            # A return counts the rewards of several steps; what is kept of the old value says how far the entry moves.
            yield _spot(update.node, f"the entry moves by {reward:.2g} times its error, past its target", "a rate below 1")


def _spot(where: ast.AST | None, text: str, fix: str = "") -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix)


def best_of_another(script: Script) -> Iterator[Spot]:
    for _, slopes, _, _, _ in _read(script):
        for entry, text in (("whole", "the best value of the whole table"), ("column", "the best value over all states")):
            if entry in slopes.met:
                yield _spot(slopes.met[entry].node, f"{text} stands where that of the next state belongs", "max(table[next_state])")


def future_of_the_same(script: Script) -> Iterator[Spot]:
    for update, slopes, _, _, best in _read(script):
        same = slopes.slope("same")
        if "same" in slopes.met and same is not None and same > 1e-6 and abs(best) < 1e-9 and not is_next(update.state, update.step):
            yield _spot(
                slopes.met["same"].node,
                "the future is that of the state before the step, where the one after it is meant",
                "the next state",
            )


def stored_for_the_next(script: Script) -> Iterator[Spot]:
    for update in updates(script):
        if is_next(update.state, update.step):
            yield _spot(
                update.node,
                "the entry of the state after the step is changed: the one that the action was chosen in learns nothing",
                "update before state = next_state",
            )


def discount_of_table(script: Script) -> Iterator[Spot]:
    named = any(words.GAMMA(name) for name in script.words) and not _says_one(script)
    for update, slopes, _, reward, best in _read(script):
        if reward <= 1e-6 or abs(best) < 1e-9 or "next" not in slopes.met:
            continue
        discount = best / reward
        if discount > 1 + 1e-6:
            yield _spot(update.node, f"the future counts {discount:.3g} times: values grow without a bound", "a discount below 1")
        elif discount < LEAST_DISCOUNT and reward > LEAST_DISCOUNT:
            yield _spot(
                update.node,
                f"the future counts {discount:.2g} times and the error {reward:.2g} times: rate and discount are swapped",
                "rate * (reward + discount * best - old)",
            )
        elif abs(discount - 1) < 1e-9 and named:
            yield _spot(update.node, "the future is not discounted, though there is a discount", "discount * best")


def _says_one(script: Script) -> bool:
    """A discount that is written, and written as 1: def sarsa(env, gamma=1.0), --gamma with a default of 1."""
    given: list[tuple[str, ast.AST | None]] = [(name, value) for name, value, _ in script.named]
    for function in script.functions:
        after = function.args.args[len(function.args.args) - len(function.args.defaults) :]
        given += [(each.arg, default) for each, default in zip(after, function.args.defaults, strict=True)]
    for call in script.calls("add_argument"):
        said = next((each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)), "")
        given += [(said, key.value) for key in call.keywords if key.arg == "default"]
    return any(words.GAMMA(name.lstrip("-").rpartition(".")[2]) and script.constant(value) == 1 for name, value in given)


def mask_of_table(script: Script) -> Iterator[Spot]:
    for update, slopes, _, reward, best in _read(script):
        at_end = slopes.slope("next", ended=1.0)
        if at_end is not None and reward > 0 and abs(best) < 1e-9 < at_end:
            where = slopes.met["next"].node if "next" in slopes.met else update.node
            yield _spot(
                where,
                "the value of what comes next counts only where the episode ended, and nowhere else: the mask is the wrong way round",
                "0 where terminated",
            )


def greedy_table(script: Script) -> Iterator[Spot]:
    """The best entry of a table that begins at 0 is always taken."""
    for update in updates(script):
        chosen = experience.latest(update.step.args[1]) if len(update.step.args) > 1 else []
        begins = update.table.data == "zeros"
        if (
            begins
            and chosen
            and all(
                called(each) == "argmax" and each.args and formulas.outputs_in(each.args[0]) and not _is_nudged(each) for each in chosen
            )
        ):
            yield _spot(
                chosen[-1].node,
                "the best entry is always taken, and nothing else is ever tried",
                "a random action with probability epsilon",
            )


def _is_nudged(best: Symbol) -> bool:
    """A bonus or noise on the entries."""
    return any(
        part.op in ("Add", "Sub", "Mult") or "rand" in str(part.data) or "normal" in str(part.data)
        for part in formulas.parts(best.args[0], into_networks=False, into_arrays=False)
    )


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD122": (stored_for_the_next,),
    "COD502": (mask_of_table,),
    "COD509": (greedy_table,),
    "COD512": (discount_of_table,),
    "COD517": (future_of_the_same,),
    "COD518": (away_from_target,),
    "COD533": (best_of_another,),
}
"""What is added to which check."""
