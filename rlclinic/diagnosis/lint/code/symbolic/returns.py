"""What checks say of discounted sums: returns and advantages that are accumulated backwards, in a loop or by a filter."""

import ast
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot
from rlclinic.diagnosis.lint.code.symbolic import formulas
from rlclinic.diagnosis.lint.code.symbolic.execution import Items, Symbol, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import Term, called, execution, outputs_in, terms


def _spot(where: ast.AST | None, text: str, fix: str = "") -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix)


def _key(value: Value) -> object:
    """What tells coefficients apart: a number, or a name."""
    fixed = formulas.number(value)
    return fixed if fixed is not None else str(value.data) if isinstance(value, Symbol) else id(value)


def _coefficients(factors: list[Value]) -> list[Value]:
    return [
        each for each in factors if formulas.is_scalar(each) and formulas.number(each) not in (1.0, 0.0) and formulas.flag(each) is None
    ]


def traces(script: Script) -> Iterator[tuple[Symbol, Term, list[Term]]]:
    """Sums of errors: the sum, what the pass before left, and the summands of the error of this step."""
    seen: set[int] = set()
    for each in execution(script).sums:
        if each.op != "Add" or each.data is not None or id(each.node) in seen:
            continue
        held = terms(each)
        running = [term for term in held if len(term.factors) > 1 and any(formulas.carried(one) is not None for one in term.factors)]
        if len(running) != 1:
            continue
        rest = [term for term in held if term is not running[0]]
        if len(rest) == 1 and len(rest[0].factors) == 1:
            # An error that was kept before, for every step.
            made = [origin for origin in formulas.origins(rest[0].factors[0]) if origin.op in ("Add", "Sub")]
            rest = terms(made[-1]) if made else rest
        if any(any(formulas.is_reward(one) for one in term.factors) for term in rest) and any(
            outputs_in(one) for term in rest for one in term.factors
        ):
            seen.add(id(each.node))
            yield each, running[0], rest


def discount_missing(script: Script) -> Iterator[Spot]:
    named = any(words.LAMBDA(name) and not words.GAMMA(name) and "tau" not in name.lower() for name in script.words)
    for total, running, error in traces(script):
        futures = [
            term
            for term in error
            if term.sign > 0 and any(outputs_in(one) for one in term.factors) and not any(formulas.is_reward(one) for one in term.factors)
        ]
        if len(futures) > 1:
            continue
        own = [term for term in error if term.sign < 0 and any(outputs_in(one) for one in term.factors)]
        kept = _coefficients(running.factors)
        keys = {_key(each) for each in kept}
        for future in futures[:1]:
            discounts = {_key(each) for each in _coefficients(future.factors)}
            if discounts and own and kept and not discounts <= keys and len(kept) == 1:
                yield _spot(
                    running.node or total.node,
                    "the running advantage is not discounted by what discounts the value of what comes next",
                    "gamma * lambda * running",
                )
            elif discounts and own and keys == discounts and named and len(kept) == 1:
                yield _spot(
                    running.node or total.node,
                    "the running advantage is discounted by gamma alone, though there is a lambda",
                    "gamma * lambda * running",
                )
            elif not discounts and own and len(kept) > 1 and len(future.factors) <= 2:
                yield _spot(
                    future.joined or future.node,
                    "the value of what comes next is not discounted, and the running advantage is",
                    "gamma * next_value",
                )
        if futures and not own and len(kept) > 1:
            yield _spot(
                futures[0].joined or futures[0].node,
                "the error lacks the value of the state itself: it is no advantage, whatever the critic learns",
                "reward + gamma * next_value - value",
            )
        added = [
            each
            for each in running.factors
            if isinstance(each, Symbol) and each.op == "Add" and all(formulas.is_scalar(one) for one in each.args)
        ]
        if added:
            yield _spot(
                added[0].node,
                "gamma and lambda are added where they must be multiplied: the running sum grows without a bound",
                "gamma * lambda",
            )


def _is_stored(target: formulas.Target) -> bool:
    """A discount that was worked out when the transition was stored: 0 at an end, else a power of it."""
    made = [origin for factor in target.future.factors if not formulas.outputs_in(factor) for origin in formulas.origins(factor)]
    return any(each.op == "Pow" or 0.5 < (formulas.number(each) or 0.0) < 1 for each in made)


def future_not_discounted(script: Script) -> Iterator[Spot]:
    """reward + next value, in a script that has a discount."""
    if not any(words.GAMMA(name) for name in script.words):
        return
    seen: set[int] = set()
    for target in formulas.targets(script):
        factors = target.future.factors
        plain = all(formulas.flag(one) is not None or outputs_in(one) for one in factors)
        kept = any(formulas.carried(one) is not None for one in factors)
        products = any(
            part.op in ("Mult", "Pow") for one in factors for part in formulas.parts(one, into_networks=False, into_arrays=False)
        )
        if plain and not kept and not products and id(target.sum.node) not in seen and not _is_stored(target):
            seen.add(id(target.sum.node))
            yield _spot(target.sum.node, "the value of what comes next is not discounted, though there is a discount", "gamma * next_value")
    run = execution(script)
    latest = {id(each.node): each for each in run.sums if each.op == "Add" and each.loops and not isinstance(each.node, ast.AugAssign)}
    for each in latest.values():
        loop = each.loops[-1]
        if loop not in run.walked or formulas.is_backwards(run.walked[loop]) is not True:
            continue
        held = terms(each)
        running = [term for term in held if len(term.factors) == 1 and formulas.carried(term.factors[0]) is not None]
        rewards = [term for term in held if term not in running and len(term.factors) == 1 and formulas.is_reward(term.factors[0])]
        if len(held) == 2 and len(running) == len(rewards) == 1:
            yield _spot(each.node, "the sum of what follows is not discounted, though there is a discount", "reward + gamma * running")


def filtered(script: Script) -> Iterator[tuple[Symbol, Value, Value, bool]]:
    """lfilter([1], [1, -discount], x[::-1]): the call, the discount, what is summed, and whether from the end."""
    for call in execution(script).calls:
        if called(call) != "lfilter" or len(call.args) < 3 or not isinstance(call.args[1], Items) or len(call.args[1].items) != 2:
            continue
        discount = call.args[1].items[1]
        while isinstance(discount, Symbol) and (discount.op == "USub" or called(discount) in ("float", "float32")) and discount.args:
            discount = discount.args[0]
        summed = call.args[2]
        turned = _is_turned(summed)
        yield call, discount, summed, turned


def _is_turned(value: Value) -> bool:
    if isinstance(value, Symbol) and value.op in ("item", "read") and len(value.args) > 1:
        key = value.args[1]
        return isinstance(key, Symbol) and key.op == "slice" and isinstance(key.data, ast.Slice) and isinstance(key.data.step, ast.UnaryOp)
    return isinstance(value, Symbol) and (value.op == "reversed" or called(value) in ("flip", "flipud"))


def discount_of_filter(script: Script) -> Iterator[Spot]:
    callers = execution(script).callers
    for call, discount, summed, _ in filtered(script):
        parts = list(formulas.parts(summed, into_networks=False))
        error = any(part.op == "Sub" and outputs_in(part.args[1]) for part in parts if len(part.args) == 2 and part.op == "Sub")
        held = [each for each in formulas.factors(discount) if formulas.number(each) != 1.0]
        where = callers.get(id(call)) or (discount.node if isinstance(discount, Symbol) else None)
        if isinstance(discount, Symbol) and discount.op == "Add":
            yield _spot(
                where, "gamma and lambda are added where they must be multiplied: the running sum grows without a bound", "gamma * lambda"
            )
        elif error and len(held) == 1 and any(words.LAMBDA(name) for name in script.words):
            yield _spot(where, "errors are summed with one of gamma and lambda: advantages need the product", "gamma * lambda")
        elif not error and len(held) == 2 and not any(outputs_in(part) for part in parts if part.op == "Sub"):
            yield _spot(where, "rewards are summed with gamma and lambda: returns are discounted by gamma alone", "gamma")


def filtered_forwards(script: Script) -> Iterator[Spot]:
    for call, _, _, turned in filtered(script):
        if not turned:
            yield _spot(
                call.node, "the sum runs from the first reward to the last: what came before is counted, not what follows", "x[::-1]"
            )


def nothing_accumulated(script: Script) -> Iterator[Spot]:
    """In a loop over rewards from the last to the first, each sum begins anew."""
    run = execution(script)
    seen: set[int] = set()
    # The last pass through a loop knows what the one before left.
    latest = {id(each.node): each for each in run.sums if each.op == "Add" and each.loops and not isinstance(each.node, ast.AugAssign)}
    for each in latest.values():
        loop = each.loops[-1]
        if loop not in run.walked or formulas.is_backwards(run.walked[loop]) is not True:
            continue
        held = terms(each)
        rewards = [
            term
            for term in held
            if term.sign > 0 and any(formulas.is_reward(one) and formulas.carried(one) is None for one in term.factors)
        ]
        rest = [term for term in held if term not in rewards]
        if len(rewards) != 1 or len(rest) != 1 or len(rest[0].factors) < 2:
            continue
        later = [
            one
            for one in rest[0].factors
            if not formulas.is_scalar(one) or (isinstance(one, Symbol) and one.op == "parameter" and not words.GAMMA(str(one.data)))
        ]
        stands = bool(later) and all(
            isinstance(one, Symbol) and one.op in ("parameter", "out", "const", "method", "call", "phi") and loop not in one.loops
            for one in later
        )
        zero = any(formulas.number(one) == 0 for one in rest[0].factors)
        if (stands and not any(formulas.carried(one) is not None for one in rest[0].factors)) or (
            zero and any(formulas.carried(one) is not None for one in rest[0].factors)
        ):
            seen.add(id(each.node))
            yield _spot(
                each.node,
                "nothing is accumulated: each return is its reward and the same last value, not what follows it",
                "running = reward + gamma * running",
            )


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD504": (filtered_forwards, nothing_accumulated),
    "COD512": (future_not_discounted, discount_missing, discount_of_filter),
}
"""What is added to which check."""
