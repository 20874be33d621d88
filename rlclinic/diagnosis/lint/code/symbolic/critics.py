"""What checks say of critics and their targets: which of them take part, whether the target is used, and what is averaged over what."""

# ruff: noqa: E501 — a message reads best whole

import ast
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.lint.code.reading.script import Script, Spot
from rlclinic.diagnosis.lint.code.symbolic import experience, formulas, learning
from rlclinic.diagnosis.lint.code.symbolic.execution import Items, Symbol, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called, execution, outputs_in, terms

_SMALLEST: Final = frozenset({"min", "minimum", "amin", "fmin", "where", "lerp"})


def _spot(where: ast.AST | None, text: str, fix: str = "", strength: float = 1.0) -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix, strength)


def _heads(value: Value) -> set[int]:
    return {id(out.args[0]) for out in outputs_in(value)}


def target_not_used(script: Script) -> Iterator[Spot]:
    """A target is worked out, and the error is taken against the bare value of what comes next."""
    targets = [target for target in formulas.targets(script) if not any(formulas.carried(one) is not None for one in target.future.factors)]
    used = {id(part) for event in formulas.backwards(execution(script)) if event.value is not None for part in formulas.parts(event.value)}
    unused = [target for target in targets if id(target.sum) not in used]
    for part, answer, goal in learning.errors(script):
        if not outputs_in(answer) or not unused:
            continue
        futures = {id(out) for target in unused for factor in target.future.factors for out in outputs_in(factor)}
        asked = outputs_in(goal)
        rewarded = any(formulas.role(each) == "reward" for each in formulas.parts(goal, into_networks=False, into_arrays=False))
        if asked and not rewarded and all(id(out) in futures for out in asked):
            yield _spot(
                part.node,
                "the error is taken against the value of what comes next alone, and the target with the reward is never used",
                "the target",
            )


def one_of_two_critics(script: Script) -> Iterator[Spot]:
    """Two critics are trained on one target, in which only one of them takes part, or their mean."""
    aliases = execution(script).aliases
    trained: dict[int, list[Value]] = {}
    for _, answer, goal in learning.errors(script):
        sums = {id(part) for part in formulas.parts(goal, into_networks=False, into_arrays=False) if part.op in ("Add", "Sub")}
        for each in sums:
            trained.setdefault(each, []).append(answer)
    seen: set[int] = set()
    for target in formulas.targets(script):
        answers = trained.get(id(target.sum), [])
        heads = [_heads(answer) for answer in answers]
        apart = any(one and other and not one & other for one in heads for other in heads)
        if not apart or id(target.sum) in seen or formulas.carried(target.future.factors[-1]) is not None:
            continue
        seen.add(id(target.sum))
        futures = [
            term
            for term in terms(target.sum)
            if term.sign > 0 and any(outputs_in(one) for one in term.factors) and not any(formulas.is_reward(one) for one in term.factors)
        ]
        asked = [out for term in futures for factor in term.factors for out in outputs_in(factor)]
        held = {id(out.args[0]) for out in asked}
        chosen = any(
            called(part) in _SMALLEST
            for term in futures
            for factor in term.factors
            if outputs_in(factor)
            for part in formulas.parts(factor, into_networks=False, into_arrays=False)
        )
        if len(held) == 1 and not chosen and _is_of(script, asked[0], answers):
            named = [
                node
                for node, value in aliases
                if any(value is out or out in outputs_in(value) for out in asked) and isinstance(value, Symbol)
            ]
            places = (named[0] if named else formulas.written(asked[0]), futures[0].joined, target.sum.node)
            for place in dict.fromkeys(place for place in places if place is not None):
                yield _spot(
                    place,
                    "two critics are trained on this target, and only one of them takes part in it: its errors upwards are kept",
                    "torch.min(q1, q2)",
                )
        elif len(held) == 2 and not chosen and (len(futures) == 2 or _is_mean(futures[0].factors)):
            where = futures[0].joined or target.sum.node
            yield _spot(where, "the mean of two critics is the target, not the smaller one: errors upwards are kept", "torch.min(q1, q2)")


def _is_of(script: Script, asked: Symbol, answers: list[Value]) -> bool:
    """Whether one of the trained critics is asked, or a copy of one: the value of a state is learned by a network of its own."""
    top = formulas.root(asked.args[0])
    source = next((copy.source for copy in formulas.copies(execution(script)) if copy.network is top), top)
    critics = [formulas.root(out.args[0]) for answer in answers for out in outputs_in(answer)]
    return any(formulas.holds(one, source) or formulas.holds(source, one) for one in critics if one is not None) if source else True


def _is_mean(factors: list[Value]) -> bool:
    return any(
        part.op == "Add" or called(part) == "mean"
        for factor in factors
        for part in formulas.parts(factor, into_networks=False, into_arrays=False)
    )


def same_error_twice(script: Script) -> Iterator[Spot]:
    """A loss that counts one error twice, where two critics are there."""
    for event in formulas.backwards(execution(script)):
        seen: dict[tuple[int, int], ast.AST | None] = {}
        for term in terms(event.value) if event.value is not None else ():
            for factor in term.factors:
                if called(factor) in ("mse_loss", "smooth_l1_loss", "huber_loss") and isinstance(factor, Symbol) and len(factor.args) > 1:
                    key = (id(factor.args[0]), id(factor.args[1]))
                    if key in seen and seen[key] is not factor.node:
                        yield _spot(
                            factor.node, "the same error is counted twice: the other critic learns nothing", "the other critic's value"
                        )
                    seen[key] = factor.node


def dueling_over_the_batch(script: Script) -> Iterator[Spot]:
    """value + advantage - advantage.mean(over the batch)"""
    for each in execution(script).sums:
        if each.op != "Sub" or len(each.args) != 2 or called(each.args[1]) != "mean":
            continue
        mean = each.args[1]
        assert isinstance(mean, Symbol)
        own = mean.args[0] if mean.args else None
        held = [factor for term in terms(each.args[0]) if term.sign > 0 for factor in term.factors]
        if not isinstance(own, Symbol) or own.op != "out" or not any(one is own for one in held):
            continue
        others = [one for one in held if one is not own and isinstance(one, Symbol) and one.op == "out"]
        dim = learning.axis(mean)
        beside = bool(others) or dim == 0
        if beside and dim in (0, None) and (others or _is_added(script, each)):
            bare = dim is None and not mean.keys and len(mean.args) == 1
            if dim == 0 or bare:
                yield _spot(
                    mean.node,
                    "the mean of the advantages is taken over the batch, too: what one state is worth depends on the others",
                    "advantage.mean(dim=-1, keepdim=True)",
                    1.0 if dim == 0 else 0.4,
                )


def _is_added(script: Script, value: Symbol) -> bool:
    return any(
        each.op == "Add"
        and any(one is value for one in each.args)
        and any(isinstance(one, Symbol) and one.op == "out" for one in each.args)
        for each in execution(script).sums
    )


def rewards_normalized(script: Script) -> Iterator[Spot]:
    """Rewards of a batch from a replay, less the mean of that batch."""
    replayed = bool(formulas.copies(execution(script)))
    for each in execution(script).sums:
        if each.op == "Sub" and len(each.args) == 2 and called(each.args[1]) == "mean":
            mean = each.args[1]
            assert isinstance(mean, Symbol)
            own = mean.args[0] if mean.args else None
            drawn = own is not None and any(
                part.op == "sampled" or called(part) in ("sample", "choice", "choices", "randint")
                for part in formulas.parts(own, into_networks=False, into_arrays=False)
            )
            if (
                own is each.args[0]
                and formulas.role(own) == "reward"
                and (drawn or experience.is_drawn(own) or (replayed and experience.is_listed(own)))
            ):
                yield _spot(
                    each.node,
                    "rewards are normalized by the batch that they happen to be drawn with: the same transition has another reward each time, and their sign is lost",
                    "scale by statistics of all rewards, or not at all",
                )


def softmax_layer_over_the_batch(script: Script) -> Iterator[Spot]:
    """nn.Softmax(dim=0) in a network that is asked about batches."""
    run = execution(script)
    for out in formulas.outputs(run):
        network = out.args[0]
        layers = [network, *network.args] if isinstance(network, Symbol) else []
        many = len(out.args) > 1 and (experience.is_drawn(out.args[1]) or _is_stacked(out.args[1]))
        for layer in layers if many else []:
            if isinstance(layer, Symbol) and layer.op == "net" and layer.data in ("Softmax", "LogSoftmax"):
                given = layer.keys.get("dim") or (layer.args[0] if layer.args else None)
                if formulas.number(given) == 0:
                    yield _spot(
                        layer.node,
                        "softmax is taken over the batch, not over the actions: probabilities of a row do not add up to 1",
                        "dim=-1",
                    )


def _is_stacked(value: Value) -> bool:
    """Several observations of a list."""
    for part in formulas.parts(value, into_networks=False, into_arrays=False):
        if (
            called(part) in ("stack", "vstack", "array", "tensor", "cat")
            and part.args
            and isinstance(part.args[0], Items)
            and part.args[0].is_open
        ):
            return True
        if (
            part.op == "item"
            and called(part.args[0]) in ("array", "stack")
            and len(part.args) > 1
            and not isinstance(formulas.number(part.args[1]), float)
        ):
            return not any(inner.op == "index" for inner in formulas.parts(part.args[1]))
    return False


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD516": (target_not_used,),
    "COD522": (one_of_two_critics, same_error_twice),
    "COD533": (dueling_over_the_batch, softmax_layer_over_the_batch),
    "COD309": (rewards_normalized,),
}
"""What is added to which check."""
