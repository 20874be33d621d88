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
from rlclinic.diagnosis.lint.code.symbolic.execution import Event, Items, Symbol, Value
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
        self.given = {"old": 1.3, "reward": 0.7, "next": 2.1, "same": 1.7, "whole": 3.3, "column": 2.7, "ended": 0.0, "cut": 0.0}
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
        if value.op == "item" and _is_entry_of_another(value, table):
            # Double Q-learning: one table says which action is best, the other one what it is worth.
            return "next" if is_next(value.args[0].args[1], self.update.step) else "same"  # type: ignore[union-attr]
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
            return self.given.get({1: "reward", 2: "ended", 3: "cut"}.get(value.data[0], ""))
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


def _divides_by_a_sum(update: Update) -> bool:
    """weight / sum_of_weights[s, a]: a rate that no line of the script gives a number to."""
    return any(
        part.op == "Div" and len(part.args) == 2 and formulas.number(part.args[0]) != 1 and formulas.number(part.args[1]) is None
        for part in formulas.parts(update.value, into_networks=False, into_arrays=False)
    )


def _is_entry_of_another(value: Symbol, table: Symbol) -> bool:
    """An entry of a second table of values."""
    row = value.args[0] if value.args else None
    if not isinstance(row, Symbol) or row.op != "out" or not isinstance(row.args[0], Symbol):
        return False
    return row.args[0].op == "array" and row.args[0] is not table and len(value.args) > 1


def best_of_another_row(script: Script) -> Iterator[Spot]:
    """Double Q-learning: the entry of the next state for the action that is best in the state before, or in the whole table."""
    for update in updates(script):
        for part in formulas.parts(update.value, into_networks=False, into_arrays=False):
            if part.op != "item" or not _is_entry_of_another(part, update.table) or not is_next(part.args[0].args[1], update.step):  # type: ignore[union-attr]
                continue
            for best in [each for each in experience.latest(part.args[1]) if called(each) == "argmax" and each.args]:
                rows = [one for one in formulas.parts(best.args[0], into_networks=False, into_arrays=False) if one.op == "out"]
                whole = isinstance(best.args[0], Symbol) and best.args[0].op == "array"
                if whole or (rows and not any(is_next(one.args[1], update.step) for one in rows)):
                    for where in dict.fromkeys((best.node, part.node)):
                        yield _spot(
                            where,
                            "the action whose value is looked up for the next state is the best one of another state",
                            "argmax(table[next_state])",
                        )


def reward_left_out(script: Script) -> Iterator[Spot]:
    """table[s, a] += rate * (discount * table[s2].max() - table[s, a])"""
    run = execution(script)
    seen: set[ast.AST] = set()
    known = {id(each.node) for each in updates(script)}
    steps = {id(event.value) for event in run.events if event.name == "env step"}
    for event in run.events:
        if event.name != "store" or not isinstance(event.value, Symbol) or id(event.node) in known or event.node in seen:
            continue
        held = list(formulas.parts(event.value, into_networks=False, into_arrays=False))
        entries = [part for part in held if part.op == "out" and isinstance(part.args[0], Symbol) and part.args[0].op == "array"]
        later = [
            part
            for part in entries
            if any(each.op == "stepped" and each.data[0] == 0 and id(each.args[0]) in steps for each in experience.latest(part.args[1]))
        ]
        paid = any(formulas.is_reward(part) or (part.op == "stepped" and part.data[0] == 1) for part in held)
        discounted = any(part.op == "Mult" and len(part.args) == 2 for part in held)

        if later and len(entries) > len(later) and not paid and discounted and _is_written_beside(script, event, entries):
            seen.add(event.node)
            sums = [part.node for part in held if part.op in ("Sub", "Add") and part.node is not None]
            for where in list({getattr(node, "lineno", 0): node for node in (event.node, *sums[::-1])}.values())[:4]:
                yield _spot(where, "no reward takes part in what the entry moves towards: the table stays as it was made", "reward + …")


def _is_written_beside(script: Script, event: Event, entries: list[Symbol]) -> bool:
    """Whether the entry that is written is one of a table that is read in the same statement; and of values, not of features."""
    subject = event.subject
    table = subject.args[0] if isinstance(subject, Symbol) and subject.op == "out" else subject
    return any(part.args[0] is table for part in entries) and not any(
        mark in word.lower() for word in script.words for mark in ("successor", "onehot", "one_hot", "occupan", "feature", "eye")
    )


def _read(script: Script) -> Iterator[tuple[Update, _Slopes, float, float, float]]:
    for update in updates(script):
        slopes = _Slopes(update)
        old, reward, best = slopes.slope("old"), slopes.slope("reward"), slopes.slope("next")
        if old is not None and reward is not None and best is not None:
            yield update, slopes, old, reward, best


def away_from_target(script: Script) -> Iterator[Spot]:
    for update, _, old, reward, _ in _read(script):
        if reward < -1e-6:
            yield from _spots(
                update,
                "the entry moves away from its target: what is rewarded gets a lower value",
                "table[s, a] += rate * (target - table[s, a])",
            )
        elif reward > 1e-6 and old > 1 - 1e-6:
            yield from _spots(
                update,
                "the old value is not taken away in the error: the entry grows without a bound",
                "rate * (target - table[s, a])",
            )
        elif 1e-6 < reward < 1 - 1e-6 and old < -1e-6:
            yield from _spots(
                update,
                "the entry is replaced by a share of its error: what it was is forgotten, and it never comes near its target",
                "table[s, a] += rate * (target - table[s, a])",
            )
        elif reward > 1 + 1e-6 and old < -1e-6 and not _divides_by_a_sum(update):
            # A return counts the rewards of several steps; what is kept of the old value says how far the entry moves.
            yield from _spots(update, f"the entry moves by {reward:.2g} times its error, past its target", "a rate below 1")


def _spots(update: Update, text: str, fix: str) -> Iterator[Spot]:
    """Where an entry is changed, and where the sums that it is changed by are written."""
    sums = [
        part.node
        for part in formulas.parts(update.value, into_networks=False, into_arrays=False)
        if part.op in ("Add", "Sub") and part.node is not None
    ]
    by_line = {getattr(node, "lineno", 0): node for node in (*sums[::-1], update.node)}
    yield from (_spot(node, text, fix) for node in by_line.values())


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
        at_end = slopes.slope("next", ended=1.0, cut=1.0)
        if at_end is not None and reward > 0 and abs(best) < 1e-9 < at_end:
            where = slopes.met["next"].node if "next" in slopes.met else update.node
            yield _spot(
                where,
                "the value of what comes next counts only where the episode ended, and nowhere else: the mask is the wrong way round",
                "0 where terminated",
            )


def limit_of_table(script: Script) -> Iterator[Spot]:
    """target = reward if terminated or truncated: at a time limit nothing is left of the future."""
    for update, slopes, _, reward, best in _read(script):
        at_limit = slopes.slope("next", cut=1.0)
        if at_limit is not None and reward > 1e-6 and best > 1e-6 and abs(at_limit) < 1e-9:
            chosen = [
                part
                for part in formulas.parts(update.value, into_networks=False, into_arrays=False)
                if part.op == "phi"
                and any(each.op == "stepped" and each.data[0] == 3 for each in formulas.parts(part.args[0], False, False))
            ]
            for where in dict.fromkeys(part.args[0].node for part in chosen if isinstance(part.args[0], Symbol)):
                yield _spot(
                    where, "a time limit is taken for an end: where it cuts an episode, the next state is worth something", "if terminated"
                )


def learns_of_another_action(script: Script) -> Iterator[Spot]:
    """The next entry is that of an action that was drawn, and no step ever takes that very action."""
    run = execution(script)
    taken = {
        id(part)
        for event in run.events
        if event.name == "env step" and isinstance(event.value, Symbol) and len(event.value.args) > 1
        for part in formulas.parts(event.value.args[1], into_networks=False)
    }
    drawn: dict[int, list[tuple[Update, Symbol]]] = {}
    for update in _updates(script):
        for part in formulas.parts(update.value, into_networks=False, into_arrays=False):
            entry = part.args[0] if part.op == "item" and len(part.args) > 1 and isinstance(part.args[0], Symbol) else None
            if entry is None or entry.op != "out" or entry.args[0] is not update.table or not is_next(entry.args[1], update.step):
                continue
            action = part.args[1]
            chances = [each.op == "Compare" and any("random" in called(one) for one in formulas.parts(each, False, False))
                       for each in formulas.parts(action, False, False)]  # fmt: skip
            if isinstance(action, Symbol) and action.op == "phi" and any(chances):
                drawn.setdefault(id(update.node), []).append((update, action))
    for held in drawn.values():
        if not any(id(action) in taken for _, action in held):
            update, action = held[-1]
            for where in (*formulas.bound_at(run, action)[-1:], update.node):
                yield Spot(
                    where,
                    "the entry learns of an action that was drawn for the next state, and another one is taken there",
                    "s, a = s2, a2",
                    0.4,
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
    "COD101": (limit_of_table,),
    "COD122": (stored_for_the_next,),
    "COD502": (mask_of_table,),
    "COD509": (greedy_table,),
    "COD512": (discount_of_table,),
    "COD517": (future_of_the_same, learns_of_another_action),
    "COD518": (away_from_target,),
    "COD516": (reward_left_out,),
    "COD533": (best_of_another, best_of_another_row),
}
"""What is added to which check."""
