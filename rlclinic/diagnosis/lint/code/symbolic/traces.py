"""The error that a trace of advantages sums up: reward + discount * V(next) - V(state), whatever it is written as.

Each sum that runs backwards through a rollout is evaluated with numbers and slopes (`slopes`): what it takes of the value of the state
itself, and of the state that the step led to, where nothing ends, at a real end, and at a time limit.
"""

import ast
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from rlclinic.diagnosis.lint.code.reading.script import Script, Spot
from rlclinic.diagnosis.lint.code.symbolic import experience, formulas, laws
from rlclinic.diagnosis.lint.code.symbolic.execution import Symbol
from rlclinic.diagnosis.lint.code.symbolic.formulas import called
from rlclinic.diagnosis.lint.code.symbolic.slopes import Leaf, Slope

_LARGE: Final = 0.3
_NOTHING: Final = 1e-6
MOST_PLACES: Final = 5


class Trace(NamedTuple):
    """A trace, and its slopes along values."""

    sum: Symbol
    base: Slope
    own: float
    """Along the value of the state itself."""
    later: list[Leaf]
    """Values of the state that the step led to."""
    at_end: Slope | None
    at_limit: Slope | None


def traces(script: Script) -> list[Trace]:
    """The sums of errors of a script, whose errors are all understood."""
    return script.once("traces of advantages", lambda: list(_traces(script)))


def _traces(script: Script) -> Iterator[Trace]:
    for each in laws.recursions(script):
        if not each.is_latest or not each.is_trace:
            continue
        base = _at(script, each.sum)
        if base is None:
            continue
        first = min((leaf for leaf in base.whole if leaf.kind == "reward"), key=lambda leaf: leaf.time)
        known = {"reward", "value", "carried", "terminated", "truncated", "ended"}
        if any(leaf.kind not in known and abs(slope) > _NOTHING for leaf, slope in base.whole.items()):
            continue
        values = {leaf: slope for leaf, slope in base.whole.items() if leaf.kind == "value"}
        if not all(laws.asked_at(leaf) for leaf in values):
            continue
        own = sum(slope for leaf, slope in values.items() if laws.asked_at(leaf) == {(first.place, first.time - 1)})
        later = [leaf for leaf in values if laws.asked_at(leaf) == {(first.place, first.time)}]
        limits = any(leaf.kind == "truncated" for leaf in each.cuts)
        yield Trace(
            each.sum, base, own, later, _at(script, each.sum, "terminated", "ended"), _at(script, each.sum, "truncated") if limits else None
        )


def _at(script: Script, sum: Symbol, *kinds: str) -> Slope | None:
    """One pass of the loop, where flags of some kinds are set."""

    def number(leaf: Leaf, symbol: Symbol) -> float | None:
        if leaf.kind == "carried":
            return 0.7 if symbol.node is sum.loops[-1] else None
        return 1.0 if leaf.kind in kinds else None

    found = laws.evaluate(script, sum, number)
    return found[0] if found is not None else None


def _spots(script: Script, trace: Trace, text: str, fix: str, strength: float = 1.0) -> Iterator[Spot]:
    """Where the sum is, where the error in it is written, and where the value of what comes next was chosen."""
    loop = trace.sum.loops[-1]
    written = [
        node
        for part in formulas.parts(trace.sum, into_networks=False, into_arrays=False)
        for node in (
            part.node,
            *formulas.bound_at(formulas.execution(script), part),
            *(each.node for each in part.args[1:] if part.op == "phi" and isinstance(each, Symbol) and each.op == "const"),
        )
        if part.op in ("Sub", "Add", "phi", "element", "read") or called(part) == "where"
    ]
    inside = [
        node
        for node in written
        if node is not None
        and not isinstance(node, ast.For | ast.If)
        and _line(loop) < _line(node) <= (getattr(loop, "end_lineno", 0) or 0)
    ]
    for node in list({_line(node): node for node in (trace.sum.node, *inside) if node is not None}.values())[:MOST_PLACES]:
        yield Spot(node, text, fix, strength)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def value_of_the_same_state(script: Script) -> Iterator[Spot]:
    """reward + discount * V(state) - V(state)"""
    for each in traces(script):
        if not any(each.base.whole[leaf] > _LARGE for leaf in each.later) and -_LARGE < each.own < _LARGE:
            yield from _spots(
                script,
                each,
                "the error holds the value of one and the same state twice: what is added must be that of the state the step led to",
                "gamma * values[t + 1]",
            )


def future_past_the_end(script: Script) -> Iterator[Spot]:
    """Where the episode ended, the value of what comes next is added all the same."""
    for each in traces(script) if not experience.knows_no_ends(script) else ():
        counted = [leaf for leaf in each.later if each.base.whole[leaf] > _LARGE]
        # Where no flag is looked at, the rows may be one path whose last value is handed in: 0 at its real end.
        if each.at_end is None or each.at_end.whole == each.base.whole:
            continue
        if any(each.at_end.whole.get(leaf, 0.0) > _LARGE for leaf in counted):
            yield from _spots(
                script,
                each,
                "what a network says of the next observation is added to the reward, and nothing takes it away where the episode ended",
                "* (1 - terminated)",
            )


def nothing_at_a_time_limit(script: Script) -> Iterator[Spot]:
    """At a time limit, too, nothing is added for what would have come."""
    for each in traces(script):
        counted = [leaf for leaf in each.later if each.base.whole[leaf] > _LARGE]
        if (
            counted
            and each.at_limit is not None
            and not any(slope > _LARGE for leaf, slope in each.at_limit.whole.items() if leaf.kind == "value")
        ):
            yield from _spots(
                script,
                each,
                "a time limit is taken for an end: where it cuts an episode, the future is worth something, and the error leaves it out",
                "0 only where terminated",
                0.4,
            )


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD101": (nothing_at_a_time_limit,),
    "COD501": (future_past_the_end,),
    "COD517": (value_of_the_same_state,),
}
"""What is added to which check."""
