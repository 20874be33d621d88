"""What checks say of how a script learns: ratios, gradients that are lost, optimizers, steps in the wrong direction (`formulas`)."""

# ruff: noqa: E501 — a message reads best whole

import ast
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.lint.code.reading import nets
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot
from rlclinic.diagnosis.lint.code.symbolic import formulas, sizes
from rlclinic.diagnosis.lint.code.symbolic.execution import Event, Items, Symbol, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import Term, called, execution, gradient, outputs_in, root, terms

CHOICES: Final = frozenset({"min", "minimum", "max", "maximum", "fmin", "fmax"})
CLIPS: Final = frozenset({"clamp", "clip", "clip_by_value"})
_BEST: Final = frozenset({"max", "amax", "argmax"})


def _spot(where: ast.AST | None, text: str, fix: str = "") -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix)


# ── the ratio of PPO ──


def clipped_ratios(script: Script) -> list[tuple[Symbol, Symbol]]:
    """What is clipped and compared with itself unclipped, in a choice of the smaller or larger one: the clip, and the ratio."""
    return script.once("clipped ratios", lambda: list(_clipped_ratios(script)))


def _clipped_ratios(script: Script) -> Iterator[tuple[Symbol, Symbol]]:
    for event in formulas.backwards(execution(script)):
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            if called(part) in CHOICES and len(part.args) == 2:
                sides = [_products(each) for each in part.args]
                for one, other in (sides, sides[::-1]):
                    for factor in one:
                        if called(factor) in CLIPS and isinstance(factor, Symbol) and factor.args:
                            ratio = factor.args[0]
                            if isinstance(ratio, Symbol) and any(each is ratio for each in other):
                                yield factor, ratio


def _products(value: Value) -> list[Value]:
    while isinstance(value, Symbol) and value.op == "USub":
        value = value.args[0]
    if isinstance(value, Symbol) and value.op == "Mult" and len(value.args) == 2:
        return [inner for each in value.args for inner in _products(each)]
    return [value]


def ratio_of_logarithms(script: Script) -> Iterator[Spot]:
    """The ratio upside down, or a difference of logarithms in its place."""
    for _, ratio in clipped_ratios(script):
        for where in (ratio.node, *formulas.bound_at(execution(script), ratio)[-1:]) if ratio.op == "Sub" and gradient(ratio) else ():
            yield _spot(
                where,
                "a difference of log-probabilities stands in the place of the ratio: it is near 0, where the ratio is near 1",
                "ratio = (log_prob - old_log_prob).exp()",
            )
        inner = ratio.args[0] if called(ratio) == "exp" and ratio.args else None
        if isinstance(inner, Symbol):
            held = terms(inner)
            moving = [term for term in held if any(gradient(each) for each in term.factors)]
            if len(held) == 2 and len(moving) == 1 and moving[0].sign < 0:
                yield _spot(
                    _innermost(inner, ratio),
                    "the ratio is upside down: the old probability over the new one falls where the new one rises",
                    "ratio = (log_prob - old_log_prob).exp()",
                )
        if ratio.op == "Div" and len(ratio.args) == 2 and gradient(ratio.args[1]) and not gradient(ratio.args[0]):
            yield _spot(
                ratio.node,
                "the ratio is upside down: the old probability over the new one falls where the new one rises",
                "ratio = prob / old_prob",
            )


def _innermost(inner: Symbol, outer: Symbol) -> ast.AST | None:
    return inner.node if inner.op == "Sub" else outer.node


def ratio_is_one(script: Script) -> Iterator[Spot]:
    """exp(x - x.detach()): the same log-probability on both sides."""
    for _, ratio in clipped_ratios(script):
        inner = ratio.args[0] if called(ratio) == "exp" and ratio.args else None
        if isinstance(inner, Symbol) and inner.op == "Sub" and len(inner.args) == 2:
            new, old = (_undetached(each) for each in inner.args)
            same = new is old or (
                isinstance(new, Symbol)
                and isinstance(old, Symbol)
                and called(new) == called(old) == "log_prob"
                and len(new.args) == len(old.args) == 2
                and new.args[0] is old.args[0]
                and is_same(new.args[1], old.args[1])
            )
            if same:
                yield _spot(
                    inner.node,
                    "the old log-probability is the new one, detached: the ratio is always 1, and clipping never acts",
                    "keep the log-probabilities of the rollout",
                )


def is_same(one: Value, other: Value, depth: int = 6) -> bool:
    """Whether two values are written alike, of the same values."""
    if one is other:
        return True
    if depth == 0 or not isinstance(one, Symbol) or not isinstance(other, Symbol) or len(one.args) != len(other.args):
        return False
    is_chance = called(one) in ("sample", "rsample", "random", "rand", "randn", "randint")
    alike = (one.op, str(one.data)) == (other.op, str(other.data)) and not is_chance and bool(one.args)
    return alike and all(is_same(a, b, depth - 1) for a, b in zip(one.args, other.args, strict=True))


def _undetached(value: Value) -> Value:
    while isinstance(value, Symbol) and called(value) in ("detach", "sum", "squeeze", "clone", "stop_gradient") and value.args:
        value = value.args[0]
    return value


def bounds_around_zero(script: Script) -> Iterator[Spot]:
    for clip, ratio in clipped_ratios(script):
        bounds = [*clip.args[1:3]] if len(clip.args) > 2 else [clip.keys.get("min"), clip.keys.get("max")]
        low, high = (bounds[0], bounds[1]) if len(bounds) == 2 else (None, None)
        numbers = [formulas.number(low), formulas.number(high)]
        opposite = isinstance(low, Symbol) and low.op == "USub" and low.args[0] is high
        known_wrong = numbers[0] is not None and numbers[1] is not None and not numbers[0] < 1 < numbers[1]
        if called(ratio) == "exp" and (opposite or known_wrong):
            yield _spot(
                clip.node,
                "the ratio is clipped to bounds that do not lie around 1: it is cut off where nothing has changed",
                "clamp(ratio, 1 - clip, 1 + clip)",
            )


def summed_over_the_batch(script: Script) -> Iterator[Spot]:
    """A log-probability summed over everything, in the ratio of a minibatch."""
    for _, ratio in clipped_ratios(script):
        for part in formulas.parts(ratio, into_networks=False, into_arrays=False):
            summed = called(part) == "sum" and part.args and called(part.args[0]) == "log_prob"
            along = part.args[1] if len(part.args) > 1 else part.keys.get("dim", part.keys.get("axis"))
            if summed and (along is None or formulas.number(along) == 0):
                yield _spot(
                    part.node,
                    "the log-probabilities of the whole batch are summed to one number: every ratio is the same"
                    if along is None
                    else "the log-probabilities are summed over the rows of the batch, not over the dimensions of an action",
                    ".sum(-1)",
                )


def not_clipped(script: Script) -> Iterator[Spot]:
    """The smaller of two objectives that are the same, or a ratio that is clipped on one side only."""
    for event in formulas.backwards(execution(script)):
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            if called(part) in CHOICES and len(part.args) == 2 and part.op == "call":
                sides = [_products(each) for each in part.args]
                ratios = [each for each in sides[0] if called(each) == "exp" and gradient(each) and any(each is one for one in sides[1])]
                if ratios and len(sides[0]) == len(sides[1]) > 1 and all(is_same(a, b) for a, b in zip(*sides, strict=True)):
                    yield _spot(
                        _second(part),
                        "both objectives are the same one: the ratio is clipped in neither",
                        "clamp(ratio, 1 - clip, 1 + clip)",
                    )
    for clip, ratio in clipped_ratios(script):
        given = max(len(clip.args) - 1, len(clip.keys.keys() & {"min", "max", "a_min", "a_max"}))
        if called(ratio) == "exp" and given < 2:
            yield _spot(clip.node, "the ratio is clipped on one side only", "clamp(ratio, 1 - clip, 1 + clip)")


def _second(choice: Symbol) -> ast.AST | None:
    """Where the second of two candidates is written."""
    return formulas.written(choice.args[1]) or choice.node


# ── gradients ──


def term_without_gradient(script: Script) -> Iterator[Spot]:
    """A part of a loss that comes from a network, and that was cut off from it."""
    for event in formulas.backwards(execution(script)):
        held = terms(event.value) if event.value is not None else []
        moving = [term for term in held if any(gradient(each) for each in term.factors)]
        for term in held:
            if term in moving or any(_is_unknown(part) for factor in term.factors for part in formulas.parts(factor, False, False)):
                continue
            cut = [
                part
                for factor in term.factors
                for part in formulas.parts(factor, into_networks=False, into_arrays=False)
                if called(part) in ("detach", "stop_gradient", "item")
                and part.args
                and _learns(part.args[0])
                and not all(each.op == "weights" for each in gradient(part.args[0]))
            ]
            drawn = any(called(part) == "log_prob" for each in cut for part in formulas.parts(each, into_arrays=False))
            if cut and (drawn or not moving or _asks_about_own_action(cut[0])):
                yield _spot(
                    cut[0].node,
                    "this part of the loss is cut off from the network that it should train: it has no gradient",
                    "without .detach()",
                )


def _is_unknown(value: Symbol) -> bool:
    """One of the entries of a list that nothing was seen to be put into: it may carry a gradient."""
    return value.op in ("item", "element") and bool(value.args) and isinstance(value.args[0], Items) and not value.args[0].items


def _learns(value: Value) -> bool:
    return bool(gradient(value))


def _asks_about_own_action(value: Symbol) -> bool:
    return any(
        gradient(given)
        for part in formulas.parts(value, into_arrays=False)
        if part.op == "out" and not part.free
        for given in part.args[1:]
    )


def loss_without_gradient(script: Script) -> Iterator[Spot]:
    """A loss that reaches no network, though networks were asked for it."""
    run = execution(script)
    for event in formulas.backwards(run) if run.complete else ():
        if event.value is None or gradient(event.value) or not isinstance(event.value, Symbol):
            continue
        if any(_is_unknown(part) for part in formulas.parts(event.value, into_networks=False, into_arrays=False)):
            continue
        asked = [part for part in formulas.parts(event.value, into_arrays=False) if part.op == "out" and _is_trained(script, part)]
        cut = [
            part
            for part in formulas.parts(event.value, into_networks=False, into_arrays=False)
            if called(part) in ("detach", "stop_gradient") and part.args and gradient(part.args[0])
        ]
        if asked and cut:
            yield _spot(cut[0].node, "the loss is cut off from every network: nothing is learned from it", "without .detach()")
        elif asked and not cut and all(part.free for part in asked):
            yield _spot(
                formulas.written(asked[0]),
                "every answer in the loss was taken without gradients: nothing is learned from it, or backward() raises",
                "outside of no_grad",
            )


def _is_trained(script: Script, out: Symbol) -> bool:
    return bool(formulas.optimized(execution(script), out.args[0]))


# ── optimizers ──


def _events_of(script: Script, name: str) -> list[Event]:
    return [event for event in execution(script).events if event.name == name]


def _is_unresolved(script: Script, name: str) -> bool:
    """Whether a method of that name is called on something that is not known."""
    run = execution(script)
    if any(called(each) == name and each.op in ("method", "asked") for each in run.calls):
        return True
    return name == "step" and any(
        isinstance(event.value, Symbol) and any(isinstance(given, Symbol) and given.op == "optimizer" for given in event.value.args[1:])
        for event in run.events
        if event.name == "env step"
    )


def gradients_never_cleared(script: Script) -> Iterator[Spot]:
    run = execution(script)
    cleared = {id(event.subject) for event in _events_of(script, "optimizer zero_grad")}
    if not run.complete or _is_unresolved(script, "zero_grad") or _events_of(script, "clear") or _events_of(script, "set grad"):
        return
    explicit = {id(event.subject) for event in run.events if event.name == "backward"}
    by_place: dict[ast.AST | None, list[Symbol]] = {}
    for optimizer in run.optimizers:
        by_place.setdefault(optimizer.node, []).append(optimizer)
    for made in by_place.values():
        steps = [event for event in _events_of(script, "optimizer step") if any(event.subject is each for each in made) and event.loops]
        if steps and explicit and not any(id(each) in cleared for each in made) and _by_backward(script):
            yield _spot(
                nets.gradient_before(script, steps[0].node),
                "gradients are never cleared for this optimizer: each step repeats all gradients before it",
                "optimizer.zero_grad() before backward()",
            )


def _by_backward(script: Script) -> bool:
    return any(isinstance(node.func, ast.Attribute) and node.func.attr in ("backward", "manual_backward") for node in script.all(ast.Call))


def optimizer_never_steps(script: Script) -> Iterator[Spot]:
    run = execution(script)
    if not run.complete or _is_unresolved(script, "step") or not _by_backward(script):
        return
    stepped = {id(event.subject) for event in _events_of(script, "optimizer step")}
    cleared = {id(event.subject): event for event in _events_of(script, "optimizer zero_grad") if event.loops}
    by_place: dict[ast.AST | None, list[Symbol]] = {}
    for optimizer in run.optimizers:
        by_place.setdefault(optimizer.node, []).append(optimizer)
    for made in by_place.values():
        used = [each for each in made if id(each) in cleared]
        if used and not any(id(each) in stepped for each in made):
            yield _spot(
                cleared[id(used[0])].node,
                "gradients are computed and cleared, and the optimizer never steps: nothing is learned",
                "optimizer.step()",
            )


def steps_for_another_loss(script: Script) -> Iterator[Spot]:
    """An optimizer that steps after a loss which reaches none of its weights."""
    run = execution(script)
    last: Event | None = None
    since: dict[int, list[Event]] = {}
    if any(event.name in ("set grad", "set _grad") for event in run.events):
        return  # gradients of one network are handed to another one
    for event in run.events if run.complete else ():
        if event.name == "backward":
            last = event
            for several in since.values():
                several.append(event)
        elif event.name == "optimizer zero_grad":
            since[id(event.subject)] = []
        elif event.name == "optimizer step" and last is not None and last.value is not None and isinstance(event.subject, Symbol):
            learned = [each for each in since.get(id(event.subject), [last]) if each.value is not None] or [last]
            since[id(event.subject)] = []
            reached = gradient(last.value)
            held = formulas.parameters(event.subject)
            if not reached or not held or not all(root(each) is not None for each in (*held, *reached)):
                continue
            own = [network for each in learned for network in gradient(each.value)]  # type: ignore[arg-type]
            if not any(_belongs(network, one) for network in own for one in held):
                for where in (_loss_line(last) or event.node, *formulas.bound_at(run, event.subject)[-1:]):
                    yield _spot(
                        where,
                        "the optimizer that steps after this loss holds other weights than those it reaches: they are never changed by it",
                        "let the gradient reach them",
                    )
            acting = [network for network in reached if not formulas.optimized(run, network) and _acts(script, network)]
            if acting and all(root(each) is not None for each in held):
                yield _spot(
                    event.subject.node,
                    "no optimizer holds the network that chooses the actions, though this loss reaches it: it stays as it was made",
                    "give the optimizer the policy's parameters",
                )


def _loss_line(event: Event) -> ast.AST | None:
    return formulas.written(event.value) if event.value is not None else None


def _belongs(network: Value, own: Value) -> bool:
    return formulas.holds(own, network) or formulas.holds(own, root(network)) or formulas.holds(network, own)


def _acts(script: Script, network: Value) -> bool:
    """Whether a network's answer is what an environment is given."""
    top = root(network)
    for event in _events_of(script, "env step"):
        given = event.value.args[1:] if isinstance(event.value, Symbol) else ()
        if any(part.op == "out" and root(part.args[0]) is top for each in given for part in formulas.parts(each, into_arrays=False)):
            return True
    return False


# ── what is regressed on what ──


def returns_are_advantages(script: Script) -> Iterator[Spot]:
    """The critic is trained on the running advantage, without the value that was subtracted from it."""
    traces = {id(each) for each in execution(script).sums if _is_running_advantage(each)} | {
        id(each) for each, _ in formulas.traces(script)
    }
    for event in formulas.backwards(execution(script)):
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            sides: list[Value] = []
            if called(part) in sizes.SQUARES and len(part.args) > 1:
                sides = list(part.args[:2])
            elif (part.op == "Pow" or called(part) in ("pow", "square")) and isinstance(part.args[0], Symbol) and part.args[0].op == "Sub":
                sides = list(part.args[0].args)
            if len(sides) == 2:
                for answer, goal in (sides, sides[::-1]):
                    origins = [each for each in formulas.origins(goal) if each.op != "const"]
                    sums = [each for each in origins if each.op in ("Add", "Sub")]
                    less = any(
                        each.op == "Sub"
                        and any(id(inner) in traces for inner in formulas.origins(each.args[0]))
                        and outputs_in(each.args[1])
                        for each in sums
                    )
                    whole = [unnormalized(each) for each in origins]
                    summed = bool(whole) and all(_is_discounted_error(each) for each in whole)
                    plain = len(sums) == len(origins) and any(id(each) in traces for each in sums)
                    if gradient(answer) and not gradient(goal) and (plain or less or summed):
                        yield _spot(
                            part.node,
                            "the critic is trained on advantages: what a state is worth is the advantage plus the value that was subtracted",
                            "returns = advantages + values",
                        )


def unnormalized(value: Value) -> Value:
    """A value before its mean was subtracted and it was divided by its deviation."""
    while isinstance(value, Symbol) and (value.op in ("Div", "Sub") or called(value) in formulas.PASSING) and value.args:
        is_mean = value.op != "Sub" or any(called(part) == "mean" for part in formulas.parts(value.args[1], False, False))
        if not is_mean:
            break
        value = value.args[0]
    made = [each for each in formulas.origins(value) if each.op != "const"]
    return made[0] if len(made) == 1 and made[0] is not value else value


def _is_discounted_error(value: Value) -> bool:
    """lfilter(…, deltas[::-1])[::-1]: errors with the critic's value subtracted, summed with a discount."""
    held = list(formulas.parts(value, into_networks=False))
    filtered = isinstance(value, Symbol) and any(called(part) in ("lfilter", "cumsum") for part in held) and value.op not in ("Add", "Sub")
    return filtered and any(
        each.op == "Sub"
        and any(term.sign < 0 and any(outputs_in(one) for one in term.factors) for term in terms(each))
        and any(formulas.is_reward(one) for term in terms(each) for one in term.factors)
        for each in held
    )


def _is_running_advantage(value: Symbol) -> bool:
    held = terms(value) if value.op in ("Add", "Sub") else []
    running = [term for term in held if term.sign > 0 and any(formulas.carried(one) is not None for one in term.factors)]
    own = [term for term in held if term.sign < 0 and any(outputs_in(one) for one in term.factors)]
    back = [
        term
        for term in held
        if term.sign > 0 and len(term.factors) == 1 and formulas.carried(term.factors[0]) is None and outputs_in(term.factors[0])
    ]
    return bool(running) and len(own) > len(back)


def errors(script: Script) -> list[tuple[Symbol, Value, Value]]:
    """Squared errors in losses: where they are taken, what is trained, and what it is trained on (which has no gradient)."""
    return script.once("errors", lambda: list(_errors(script)))


def _errors(script: Script) -> Iterator[tuple[Symbol, Value, Value]]:
    for event in formulas.backwards(execution(script)):
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            sides: list[Value] = []
            if called(part) in sizes.SQUARES and len(part.args) > 1:
                sides = list(part.args[:2])
            elif (part.op == "Pow" or called(part) in ("pow", "square")) and isinstance(part.args[0], Symbol) and part.args[0].op == "Sub":
                sides = list(part.args[0].args)
            for answer, goal in (sides, sides[::-1]) if len(sides) == 2 else ():
                if gradient(answer) and not gradient(goal):
                    yield part, answer, goal


def best_of_the_batch(script: Script) -> Iterator[Spot]:
    """The largest entry over the rows of a batch, in a target, where the best action of each row is meant."""
    run = execution(script)
    wanted = [factor for target in formulas.targets(script) for factor in target.future.factors]
    values = [(each, True) for each in wanted] + [(event.value, False) for event in formulas.backwards(run) if event.value is not None]
    seen: set[int] = set()
    for value, into_arrays in values:
        for part in formulas.parts(value, into_arrays=into_arrays):
            whole = called(part) == "max" and part.op == "method" and len(part.args) == 1 and not part.keys
            if called(part) in _BEST and id(part) not in seen and (axis(part) == 0 or whole) and part.args:
                seen.add(id(part))
                inner = _answer(part.args[0])
                if inner is not None and not _is_of_one(inner) and (not whole or _is_of_many(inner)):
                    yield _spot(
                        part.node,
                        "the best one is looked for over the batch, not over the actions: every transition gets the value of another one",
                        "over the last axis",
                    )


def action_over_the_batch(script: Script) -> Iterator[Spot]:
    """The best action is looked for over the first axis of a batch of answers."""
    for event in execution(script).events:
        if event.name == "env step" and isinstance(event.value, Symbol) and len(event.value.args) > 1:
            for part in formulas.parts(event.value.args[1], into_networks=False, into_arrays=False):
                if called(part) in ("argmax", "max") and part.args and axis(part) == 0 and _answer(part.args[0]) is not None:
                    shape = sizes.shape(part.args[0])
                    if shape is not None and len(shape) == 2:
                        yield _spot(part.node, "the best action is looked for over the batch, not over the actions", "dim=-1")


def worst_of_the_actions(script: Script) -> Iterator[Spot]:
    """The smallest value over the actions of one network, in a target."""
    for target in formulas.targets(script):
        for factor in target.future.factors:
            for part in formulas.parts(factor, into_networks=False):
                if called(part) in ("min", "amin") and part.args and axis(part) in (1, -1):
                    inner = _answer(part.args[0])
                    if inner is not None and len(inner.args) == 2 and called(inner.args[1]) not in ("cat", "concatenate", "hstack"):
                        yield _spot(part.node, "the worst action's value is taken for the target, where the best one's is meant", ".max")


def prediction_of_best_action(script: Script) -> Iterator[Spot]:
    """A squared error about the best action, where it should be about the one that was taken."""
    for event in formulas.backwards(execution(script)):
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            sides: list[Value] = []
            if called(part) in sizes.SQUARES and len(part.args) > 1:
                sides = list(part.args[:2])
            elif (part.op == "Pow" or called(part) in ("pow", "square")) and isinstance(part.args[0], Symbol) and part.args[0].op == "Sub":
                sides = list(part.args[0].args)
            for side in sides:
                best = _bare_choice(side)
                if best is not None and gradient(best) and axis(best) in (1, -1) and _answer(best.args[0]) is not None:
                    yield _spot(
                        best.node,
                        "the error is that of the best action's value, not of the action that was taken: the reward is put down to another action",
                        ".gather(1, actions)",
                    )


def _bare_choice(value: Value) -> Symbol | None:
    while isinstance(value, Symbol) and (
        called(value) in ("squeeze", "unsqueeze", "float", "view")
        or value.op == "item"
        or (value.op == "attribute" and value.data == "values")
    ):
        value = value.args[0]
    return value if isinstance(value, Symbol) and called(value) in ("max", "amax") else None


def _is_of_many(out: Symbol) -> bool:
    given = [sizes.shape(each) for each in out.args[1:]]
    return any(each is not None and len(each) == 2 and each[0] == sizes.BATCH for each in given)


def _is_of_one(out: Symbol) -> bool:
    """Asked about a single observation: its first axis is that of the actions."""
    given = [sizes.shape(each) for each in out.args[1:]]
    return any(each is not None and len(each) == 1 for each in given)


def axis(value: Symbol) -> int | None:
    """The axis that a maximum, a sum, a softmax is taken over, where it is a number."""
    given = value.keys.get("dim") or value.keys.get("axis") or (value.args[1] if len(value.args) > 1 else None)
    number = formulas.number(given)
    return int(number) if number is not None else None


def _answer(value: Value) -> Symbol | None:
    """The answer of a network, before it was detached or averaged over its own axes."""
    while (
        isinstance(value, Symbol)
        and called(value) in ("detach", "mean", "sum", "float", "to", "exp", "softmax", "log_softmax")
        and value.args
    ):
        value = value.args[0]
    if isinstance(value, Symbol) and value.op in ("phi", "carried"):
        return next((found for found in map(_answer, reversed(value.args)) if found is not None), None)
    if isinstance(value, Symbol) and value.op == "Mult":
        return next((found for found in map(_answer, value.args) if found is not None), None)
    if isinstance(value, Symbol) and value.op in ("Add", "Sub") and value.site is not None:
        return next((found for found in map(_answer, value.args) if found is not None), None)
    if isinstance(value, Symbol) and value.op == "method" and called(value) in ("view", "reshape") and value.args:
        return _answer(value.args[0])
    return value if isinstance(value, Symbol) and value.op == "out" else None


# ── steps that a script makes by itself ──

WRITING: Final = frozenset({"vector_to_parameters", "set_flat_params", "set_flat_params_to", "assign_params_from_flat"})
"""Functions that write a vector into a network's weights."""


def moves_up_the_loss(script: Script) -> Iterator[Spot]:
    """Weights that move with the gradient of a squared error, or away from what a table's entry should become."""
    run = execution(script)
    squared = any(
        term.sign > 0 and any(_is_square(factor) for factor in term.factors)
        for event in formulas.backwards(run)
        if event.value is not None
        for term in terms(event.value)
    )
    for event in run.events:
        made = event.value
        if event.name != "update" or not isinstance(made, Symbol) or made.op not in ("Add", "Sub") or len(made.args) != 2:
            continue
        if script.words & WRITING:
            continue  # weights are set as one vector: sums of gradients are directions, not weights
        step = made.args[1]
        direction = 1 if made.op == "Add" else -1
        for term in terms(step):
            is_gradient = any(_is_gradient(factor) for factor in term.factors)
            if is_gradient and squared and direction * term.sign > 0:
                yield _spot(
                    event.node,
                    "the weights move up the loss: the gradient is added where it must be subtracted",
                    "weights -= lr * gradient",
                )
        if direction < 0 and _moves_away(made.args[0], step):
            yield _spot(
                event.node,
                "the value moves away from its target: the error (target - value) is subtracted where it must be added",
                "value += lr * (target - value)",
            )
        if direction > 0 and _moves_away(made.args[0], step, wrong=True):
            yield _spot(
                event.node,
                "the value moves away from its target: the error (value - target) is added where it must be subtracted",
                "value += lr * (target - value)",
            )


def _is_square(value: Value) -> bool:
    return isinstance(value, Symbol) and (called(value) in sizes.SQUARES or value.op == "Pow" or called(value) in ("pow", "square"))


def _is_gradient(value: Value) -> bool:
    if called(value) in ("item", "float", "tolist"):
        return False  # a number for the log; weights do not move by one
    return any(
        called(part) in ("grad", "vjp") or (part.op == "attribute" and part.data == "grad") or part.op == "slope"
        for part in formulas.parts(value, into_networks=False)
    )


def _moves_away(old: Value, step: Value, wrong: bool = False) -> bool:
    """Whether a step holds (target - value), the target with a reward in it, as a factor."""
    for factor in formulas.factors(step):
        held = terms(factor)
        rewards = [term for term in held if any(formulas.is_reward(one) for one in term.factors)]
        values = [term for term in held if any(outputs_in(one) or _same_entry(one, old) for one in term.factors) and term not in rewards]
        own = [term for term in values if term.sign * (rewards[0].sign if rewards else 0) < 0]
        if rewards and own and rewards[0].sign == (-1 if wrong else 1) and _is_own(old, own):
            return True
    return False


def _is_own(old: Value, held: list[Term]) -> bool:
    """Whether what is changed is what the error is about: the same table, the same weights."""
    mine = {id(part) for part in formulas.parts(old, into_arrays=False) if part.op in ("array", "weights")}
    theirs = {
        id(part)
        for term in held
        for factor in term.factors
        for part in formulas.parts(factor, into_arrays=False)
        if part.op in ("array", "weights")
    }
    return bool(mine & theirs)


def _same_entry(value: Value, old: Value) -> bool:
    return isinstance(value, Symbol) and isinstance(old, Symbol) and value.op == old.op == "read" and value.args[0] is old.args[0]


def larger_of_stacked_critics(script: Script) -> Iterator[Spot]:
    """stack([q(s, a) for q in critics]).max(0) in a target."""
    for target in formulas.targets(script):
        for factor in target.future.factors:
            for part in formulas.parts(factor, into_networks=False):
                if called(part) in ("max", "amax") and part.args and _is_of_critics(part.args[0]):
                    yield _spot(
                        part.node,
                        "the larger one of several critics is taken for the target: errors upwards are kept and grow",
                        "the smaller one",
                    )


def _is_of_critics(value: Value) -> bool:
    while isinstance(value, Symbol) and called(value) in ("detach", "squeeze", "float") and value.args:
        value = value.args[0]
    if not isinstance(value, Symbol) or called(value) not in ("stack", "cat") or not value.args or not isinstance(value.args[0], Items):
        return False
    answers = [outputs_in(each) for each in value.args[0].items]
    networks = {id(each[0].args[0]) for each in answers if len(each) == 1}
    return bool(answers) and all(len(each) == 1 for each in answers) and (len(networks) > 1 or value.args[0].is_open)


def index_for_value(script: Script) -> Iterator[Spot]:
    """The number of the best action in a target, where its value is meant."""
    for each in execution(script).sums:
        held = terms(each) if each.op == "Add" else []
        if len(held) > 1 and any(formulas.is_reward(one) for term in held for one in term.factors):
            for term in held:
                for factor in term.factors:
                    origins = [origin for origin in formulas.origins(factor) if origin.op != "const"]
                    if origins and all(_is_index(origin) for origin in origins) and len(term.factors) > 1:
                        for where in {id(origin): formulas.written(origin) for origin in origins}.values():
                            yield _spot(
                                where,
                                "the number of the best action is added to the reward, where its value is meant",
                                ".max() in place of .argmax()",
                            )


def _is_index(value: Symbol) -> bool:
    """argmax(…), max(…)[1], max(…).indices."""
    if called(value) == "argmax":
        return True
    of_best = bool(value.args) and called(value.args[0]) in ("max", "topk", "sort") and isinstance(value.args[0], Symbol)
    second = value.op == "item" and value.data == 1 and of_best and axis(value.args[0]) is not None  # type: ignore[arg-type]
    return second or (value.op == "attribute" and value.data == "indices" and of_best)


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD207": (ratio_of_logarithms,),
    "COD208": (ratio_is_one,),
    "COD209": (bounds_around_zero, not_clipped),
    "COD211": (summed_over_the_batch,),
    "COD308": (term_without_gradient, loss_without_gradient),
    "COD401": (gradients_never_cleared,),
    "COD404": (optimizer_never_steps,),
    "COD406": (steps_for_another_loss,),
    "COD514": (returns_are_advantages,),
    "COD532": (index_for_value, prediction_of_best_action),
    "COD533": (best_of_the_batch, worst_of_the_actions, action_over_the_batch),
    "COD305": (moves_up_the_loss,),
    "COD522": (larger_of_stacked_critics,),
}
"""What is added to which check."""
