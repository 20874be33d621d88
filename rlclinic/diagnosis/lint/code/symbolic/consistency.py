"""What checks say where two parts of a script do not go together: twins that are one, a warm-up that never ends, targets of another kind."""

# ruff: noqa: E501, SIM102 — a message reads best whole

import ast
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.lint.code.reading.script import Script, Spot
from rlclinic.diagnosis.lint.code.symbolic import experience, formulas, learning, sizes, tables
from rlclinic.diagnosis.lint.code.symbolic.execution import Event, Items, Symbol, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called, execution, gradient, outputs_in, root, terms

_NOISE: Final = frozenset({"normal", "randn", "randn_like", "standard_normal"})
_LATE: Final = 1e9


def _spot(where: ast.AST | None, text: str, fix: str = "") -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix)


# ── critics ──


def twins_are_one(script: Script) -> Iterator[Spot]:
    """min(q1(s, a), q1(s, a)), and a loss that holds the error of the same critic twice."""
    run = execution(script)
    for call in run.calls:
        if called(call) in ("min", "minimum", "fmin") and len(call.args) == 2:
            answers = [_answer(each) for each in call.args]
            if answers[0] is not None and answers[1] is not None and _is_asked_the_same(answers[0], answers[1]):
                for where in (formulas.written(answers[1]), call.node):
                    yield _spot(
                        where,
                        "the smaller of a critic's value and the same value again: the second critic is never asked",
                        "the other critic",
                    )
    for event in formulas.backwards(run):
        errors = [each for each in _squared(event.value) if each[1] is not None]
        for place, (_, answer, target) in enumerate(errors):
            for where, other, goal in errors[place + 1 :]:
                if other is answer and goal is target and answer is not None:
                    yield _spot(
                        where,
                        "the error of the same critic is in the loss twice: the other one is never trained",
                        "the other critic's answer",
                    )


def _answer(value: Value) -> Symbol | None:
    """A network's whole answer, whatever shape it was given; None for a part of one, and for what is computed of it."""
    while isinstance(value, Symbol) and called(value) in ("squeeze", "view", "flatten", "reshape", "detach", "unsqueeze") and value.args:
        value = value.args[0]
    return value if isinstance(value, Symbol) and value.op == "out" else None


def _is_asked_the_same(one: Symbol, other: Symbol) -> bool:
    """Whether one network is asked the same thing twice."""
    if root(one.args[0]) is not root(other.args[0]) or (root(one.args[0]) is one.args[0] and one.args[0] is not other.args[0]):
        return False
    given = [[id(each) for asked in experience.inputs(out) for each in experience.latest(asked)] for out in (one, other)]
    return bool(given[0]) and given[0] == given[1] and one.args[0] is other.args[0]


def _squared(value: Value | None) -> list[tuple[ast.AST | None, Value | None, Value | None]]:
    """Squared errors of a loss: where, what is trained, and on what."""
    made: list[tuple[ast.AST | None, Value | None, Value | None]] = []
    for term in terms(value) if value is not None else ():
        for factor in term.factors:
            bare: Value = factor
            while called(bare) in ("mean", "sum") and isinstance(bare, Symbol) and bare.args:
                bare = bare.args[0]
            sides: list[Value] = []
            if called(bare) in sizes.SQUARES and isinstance(bare, Symbol):
                sides = list(bare.args[:2])
            elif isinstance(bare, Symbol) and (bare.op == "Pow" or called(bare) in ("pow", "square")) and bare.args:
                inner = bare.args[0]
                sides = list(inner.args) if isinstance(inner, Symbol) and inner.op == "Sub" else []
            own = [each for each in sides if gradient(each)]
            if len(sides) == 2 and len(own) == 1:
                made.append((formulas.written(bare), own[0], next(each for each in sides if each is not own[0])))
    return made


# ── acting ──


def warm_up_inverted(script: Script) -> Iterator[Spot]:
    """Random actions from some step on, and the policy's own before it."""
    kept = experience.kept_steps(script)
    seen: set[int] = set()
    for event, test, _, holds, fails in experience.choices(script):
        if id(event.value) not in kept or experience.threshold(test) is not None:
            continue
        early, late = _holds(test, 0.0), _holds(test, _LATE)
        if early is None or late is None or early == late:
            continue
        first, last = (holds, fails) if early else (fails, holds)
        asks = any(part.op == "out" for part in formulas.parts(first, into_networks=False, into_arrays=False))
        if asks and experience.is_random_action(last) and not experience.is_random_action(first) and id(test.node) not in seen:
            seen.add(id(test.node))
            yield _spot(
                test.node,
                "the policy acts before the warm-up is over, and chance from then on: nothing that is learned is ever used",
                "the other way round",
            )


def _holds(test: Symbol, at: float) -> bool | None:
    """Whether a comparison of a counter with a number holds, where the counter is at some place."""
    left, right = test.args[:2]
    sides = []
    for each in (left, right):
        inner = each.args[0] if isinstance(each, Symbol) and each.op == "Mod" else each
        number = formulas.evaluated(inner, at)
        if number is None and isinstance(each, Symbol) and formulas.is_scalar(each) and not formulas.is_counter(each):
            number = 1000.0
        sides.append(number)
    if None in sides or not any(isinstance(each, Symbol) and formulas.is_counter(each) for each in (left, right)):
        return None
    one, other = sides
    return {"Lt": one < other, "LtE": one <= other, "Gt": one > other, "GtE": one >= other}.get(str(test.data))  # type: ignore[operator]


def value_for_action(script: Script) -> Iterator[Spot]:
    """action, _ = q.max(1): the greatest value itself is taken for an action."""
    for event in execution(script).events:
        if event.name != "env step" or not isinstance(event.value, Symbol) or len(event.value.args) < 2:
            continue
        for each in experience.latest(event.value.args[1]):
            best = each.args[0] if each.args else None
            first = (each.op == "item" and each.data == 0) or (each.op == "attribute" and each.data == "values")
            if first and called(best) in ("max", "topk", "sort") and isinstance(best, Symbol) and learning.axis(best) is not None:  # type: ignore[arg-type]
                if any(part.op == "out" for part in formulas.parts(best, into_networks=False, into_arrays=False)):
                    for where in (each.node, *experience.chosen_at(script, event)):
                        yield _spot(
                            where, "the greatest value is given to the environment, where the number of its action is meant", "argmax"
                        )


# ── targets ──


def returns_of_normalized(script: Script) -> Iterator[Spot]:
    """normalized advantages + values, as what the critic is trained on."""
    for _, _, target in learning.errors(script):
        for part in formulas.parts(target, into_networks=False):
            held = terms(part) if part.op == "Add" and part.data is None else []
            if len(held) < 2 or not any(outputs_in(one) for term in held for one in term.factors):
                continue
            for term in held:
                inner = term.factors[0] if len(term.factors) == 1 else None
                if isinstance(inner, Symbol) and _is_normalized(inner) and term.sign > 0:
                    for where in (part.node, inner.node):
                        yield _spot(
                            where,
                            "the critic learns from advantages that were normalized first: its targets have another scale than the rewards",
                            "returns = advantages + values, before they are normalized",
                        )


def _is_normalized(value: Symbol) -> bool:
    if value.op != "Div" or not isinstance(value.args[0], Symbol):
        return False
    spread = any(called(part) in ("std", "sqrt", "var") for part in formulas.parts(value.args[1], into_networks=False, into_arrays=False))
    return (
        spread and value.args[0].op == "Sub" and any(called(each) == "mean" for each in formulas.parts(value.args[0].args[1], False, False))
    )


def next_action_unclipped(script: Script) -> Iterator[Spot]:
    """Noise on the target actor's action, and nothing that keeps the sum within the bounds."""
    run = execution(script)
    for target in formulas.targets(script):
        for out in [found for factor in target.future.factors for found in outputs_in(factor, stored=False)]:
            pending: list[Value] = list(out.args[1:])
            seen: set[int] = set()
            while pending and len(seen) < 60:
                current = pending.pop()
                if isinstance(current, Items):
                    pending += current.items
                if (
                    not isinstance(current, Symbol)
                    or id(current) in seen
                    or called(current) in ("clip", "clamp", "minimum", "tanh", "clamp_")
                ):
                    continue
                seen.add(id(current))
                noise = [each for each in current.args if current.op == "Add" and _is_noise(each)]
                if len(noise) == 1 and any(outputs_in(each, stored=False) for each in current.args if each is not noise[0]):
                    for where in (current.node, *formulas.bound_at(run, current)):
                        yield _spot(
                            where,
                            "noise is added to the target's action, and nothing keeps it within its bounds: the critic is asked about actions that cannot be taken",
                            ".clamp(low, high)",
                        )
                elif called(current) in ("cat", "concatenate", "hstack", *formulas.PASSING) or current.op in ("phi", "Mult"):
                    pending += current.args


def _is_noise(value: Value) -> bool:
    return any(called(part) in _NOISE for part in formulas.parts(value, into_networks=False, into_arrays=False))


def _soft_losses(script: Script) -> Iterator[tuple[Event, Symbol]]:
    """Losses of soft actors: a log-probability with a gradient, beside a critic's answer about a drawn action."""
    for event in formulas.backwards(execution(script)):
        held = terms(event.value) if event.value is not None else []
        asks = any(term.sign < 0 and outputs_in(one, stored=False) for term in held for one in term.factors)
        for term in held:
            drawn = [
                one for one in term.factors if isinstance(one, Symbol) and gradient(one) and _is_log_prob(one) and len(term.factors) > 1
            ]
            if asks and drawn and term.sign > 0 and any(called(part) == "rsample" for part in formulas.parts(drawn[0])):
                yield event, drawn[0]


def _is_log_prob(value: Value) -> bool:
    return any(called(part) == "log_prob" for part in formulas.parts(value, into_networks=False, into_arrays=False))


def entropy_left_out(script: Script) -> Iterator[Spot]:
    """A soft actor whose critics learn from targets without the entropy."""
    if not any(True for _ in _soft_losses(script)):
        return
    for target in formulas.targets(script):
        held = [factor for factor in target.future.factors if outputs_in(factor, stored=False)]
        drawn = [
            out
            for factor in held
            for out in outputs_in(factor, stored=False)
            if any(called(part) in ("rsample", "sample") for given in out.args[1:] for part in formulas.parts(given, into_arrays=False))
        ]
        soft = any(
            _is_log_prob(part)
            for term in terms(target.sum)
            for factor in term.factors
            for part in formulas.parts(factor, into_networks=False)
        )
        if held and drawn and not soft:
            bound = [statement for factor in held for statement in formulas.bound_at(execution(script), factor)]
            for where in (target.sum.node, *bound[-1:]):
                yield _spot(
                    where,
                    "the actor is paid for its entropy, and the critics' target leaves it out: values are those of another task",
                    "next_q - alpha * next_log_prob",
                )


def logarithm_for_temperature(script: Script) -> Iterator[Spot]:
    """log_alpha where alpha is meant: the weights themselves beside a log-probability, and their exponential elsewhere."""
    run = execution(script)
    raised = {
        id(part.args[0])
        for call in run.calls
        if called(call) == "exp"
        for part in [call]
        if part.args and isinstance(part.args[0], Symbol) and part.args[0].op == "weights"
    }
    for value, node in [(target.sum, target.sum.node) for target in formulas.targets(script)] + [
        (event.value, event.node) for event in formulas.backwards(run)
    ]:
        for part in formulas.parts(value, into_networks=False, into_arrays=False) if value is not None else ():
            if part.op != "Mult":
                continue
            weights = [each for each in part.args if id(_bare(each)) in raised]
            others = [each for each in part.args if each not in weights]
            # The temperature's own loss has the logarithm, times something without a gradient.
            if len(weights) == 1 and others and _is_log_prob(others[0]) and (part.free or gradient(others[0])):
                yield _spot(
                    part.node or node,
                    "the logarithm of the temperature stands where the temperature is meant: it is negative below 1",
                    ".exp()",
                )


def _bare(value: Value) -> Value:
    while isinstance(value, Symbol) and called(value) in ("detach", "item") and value.args:
        value = value.args[0]
    return value


def discount_of_one_step(script: Script) -> Iterator[Spot]:
    """Rewards of several steps, and a future that is discounted by one."""
    for target in formulas.targets(script):
        if any(formulas.carried(factor) is not None for factor in target.future.factors) or any(
            term.sign < 0 for term in terms(target.sum)
        ):
            continue
        rewards = [one for term in terms(target.sum) for one in term.factors if formulas.is_reward(one)]
        several = [each for one in rewards for each in formulas.origins(one) if _sums_discounted(each)]
        # As a number, or kept with the transition: 0 at an end, and the discount elsewhere.
        numbers = [
            formulas.number(part)
            for factor in target.future.factors
            if not formulas.outputs_in(factor)
            for part in formulas.parts(factor, into_networks=False)
            if part.op == "const" or formulas.number(factor) is not None
        ]
        plain = [number for number in numbers if number is not None and 0.8 < number < 1]
        powers = any(
            part.op == "Pow" or called(part) == "pow"
            for factor in target.future.factors
            for part in formulas.parts(factor, into_networks=False)
        )
        if (
            several
            and len(several) == len([each for one in rewards for each in formulas.origins(one) if each.op != "const"])
            and plain
            and not powers
        ):
            discounts = {formulas.number(part) for each in several for part in formulas.parts(each, into_networks=False)}
            kept = [
                part.node
                for factor in target.future.factors
                if not formulas.outputs_in(factor)
                for part in formulas.parts(factor, into_networks=False)
                if part.op == "phi" or (called(part) in ("array", "tensor", "as_tensor") and part.args and isinstance(part.args[0], Items))
            ]
            for where in dict.fromkeys((target.sum.node, *kept[:1])) if plain[0] in discounts else ():
                yield _spot(
                    where,
                    "the rewards of several steps are summed, and what follows them is discounted by one step only",
                    "gamma ** n",
                )


def _sums_discounted(value: Symbol) -> bool:
    """A sum of rewards, each times a power of the discount."""
    if value.op != "Add":
        return False
    return any(part.op in ("Pow", "carried") for part in formulas.parts(value, into_networks=False, into_arrays=False)) and any(
        isinstance(part, Symbol) and part.op in ("Mult", "Pow") for part in formulas.parts(value, into_networks=False, into_arrays=False)
    )


def asked_about_its_own_end(script: Script) -> Iterator[Spot]:
    """A critic's error: the observation after a step, against the rewards of that step on."""
    run = execution(script)
    for part, answer, target in learning.errors(script):
        asked = [given for out in outputs_in(answer, stored=False) for given in out.args[1:2]]
        later = [each for given in asked for each in experience.latest(given)]
        steps = {id(each.args[0]) for each in later if each.op == "stepped" and each.data[0] == 0}
        rewards = {id(each.args[0]) for each in formulas.parts(target, into_networks=False) if each.op == "stepped" and each.data[0] == 1}
        newest = [
            id(held.args[0])
            for event in run.events
            if event.name == "store" and event.value is not None
            for held in experience.shallow(event.value)
            if isinstance(held, Symbol) and held.op == "stepped" and held.data[0] == 1 and id(held.args[0]) in rewards
        ]
        if later and all(each.op == "stepped" for each in later) and newest and steps == {newest[-1]}:
            events = [
                event.node
                for event in run.events
                if event.name == "store" and event.value is not None and any(held is later[0] for held in experience.shallow(event.value))
            ]
            places: list[ast.AST | None] = [*events[:1]] or [formulas.written(part)]
            for where in places:
                yield _spot(
                    where,
                    "the critic is asked about the observation after a step, and trained on what came from that step on: each value is one step late",
                    "the observation before the step",
                )


# ── tables ──


def old_action_in_future(script: Script) -> Iterator[Spot]:
    """table[next_state, action]: the action that led there, where the next one is meant."""
    for update in tables.updates(script):
        taken = update.step.args[1] if len(update.step.args) > 1 else None
        if taken is None:
            continue
        for part in formulas.parts(update.value, into_networks=False, into_arrays=False):
            row = part.args[0] if part.op == "item" and len(part.args) > 1 else None
            of_table = isinstance(row, Symbol) and row.op == "out" and isinstance(row.args[0], Symbol) and row.args[0].op == "array"
            if of_table and isinstance(row, Symbol) and tables.is_next(row.args[1], update.step):
                if any(each in experience.latest(taken) for each in experience.latest(part.args[1])) and not tables.is_next(
                    update.state, update.step
                ):
                    yield _spot(
                        part.node,
                        "the next state's value is looked up for the action that led there, not for one that is taken in it",
                        "the next action, or the best one",
                    )


# ── starts ──


def one_start_in_training(script: Script) -> Iterator[Spot]:
    """Every episode of training is reset with the same seed."""
    kept = experience.kept_steps(script)
    run = execution(script)
    kept |= {id(update.step) for update in tables.updates(script)}
    trained = {id(event.subject) for event in run.events if event.name == "env step" and id(event.value) in kept}
    last = {event.node: event for event in run.events if event.name == "env reset"}
    for event in last.values():
        if not event.loops or not isinstance(event.value, Symbol) or id(event.subject) not in trained:
            continue
        seed = event.value.keys.get("seed")
        fixed = isinstance(seed, Symbol) and formulas.is_scalar(seed) and not (seed.op == "const" and seed.data is None)
        counted = any(formulas.is_counter(part) for guard in event.guards for part in formulas.parts(guard, into_networks=False))
        if fixed and not counted and any(isinstance(loop, ast.For | ast.While) for loop in event.loops):
            for where in (event.node, *(call for call, _ in event.calls if event.loops and _is_within(call, event.loops[-1]))):
                yield _spot(
                    where,
                    "every episode starts from the same seed: the agent sees one start, again and again",
                    "seed only the first reset",
                )


def _is_within(node: ast.AST, loop: ast.AST) -> bool:
    return getattr(loop, "lineno", 0) <= getattr(node, "lineno", 0) <= (getattr(loop, "end_lineno", 0) or 0)


def begun_by_the_next_episode(script: Script) -> Iterator[Spot]:
    """At a time limit of a vector the critic is asked about what the vector returned: the first observation of the next episode."""
    for out in formulas.outputs(execution(script)):
        asked = [
            given
            for given in out.args[1:]
            for part in formulas.origins(given)
            for given in [part]
            if part.op == "stepped" and part.data[0] == 0
        ]
        limited = any(
            experience.ends_in(guard) == {"truncated"}
            or (experience.ends_in(guard) >= {"truncated"} and isinstance(guard, Symbol) and guard.op == "And")
            for guard in out.guards
        )
        rows = any(
            part.op in ("item", "read") for given in out.args[1:] for part in formulas.parts(given, into_networks=False, into_arrays=False)
        )
        if asked and limited and rows and all(sizes.is_vector(each) for each in asked):
            yield _spot(
                formulas.written(out),
                "the value at a time limit is asked for the observation that begins the next episode: the vector has reset itself",
                'infos["final_obs"][i]',
            )


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD122": (asked_about_its_own_end,),
    "COD134": (begun_by_the_next_episode,),
    "COD511": (warm_up_inverted,),
    "COD512": (discount_of_one_step,),
    "COD514": (returns_of_normalized,),
    "COD517": (old_action_in_future,),
    "COD523": (entropy_left_out,),
    "COD525": (logarithm_for_temperature,),
    "COD529": (next_action_unclipped,),
    "COD532": (value_for_action,),
    "COD539": (twins_are_one,),
    "COD903": (one_start_in_training,),
}
"""What is added to which check."""
