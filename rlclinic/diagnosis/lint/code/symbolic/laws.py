"""Laws that every policy gradient, every critic and every sum of what follows obeys, whatever the code looks like (`slopes`).

A critic's target does not fall with the value of the same state, nor with the reward. A loss falls with the log-probability of an action where
the reward was high, and less so where the baseline was. What runs backwards through a rollout is cut where an episode ended, by the flag of the
same step. What enters a loss together was taken out by the same rows.
"""

# ruff: noqa: E501 — a message reads best whole

import ast
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, position
from rlclinic.diagnosis.lint.code.symbolic import experience, formulas, learning, sizes
from rlclinic.diagnosis.lint.code.symbolic.execution import Event, Items, Symbol, Table, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called, execution, gradient
from rlclinic.diagnosis.lint.code.symbolic.slopes import Evaluation, Leaf, Slope, Unclear

_EPS: Final = 1e-6
_LARGE: Final = 0.5
MOST_SUMS: Final = 40
"""Running sums that are looked at, the last ones first."""


def _spot(where: ast.AST | None, text: str, fix: str = "", strength: float = 1.0) -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix, strength)


def losses(script: Script) -> list[Event]:
    """Every loss whose gradient is taken, as it is in the last pass: by then, everything that it is made of was filled."""

    def collect() -> list[Event]:
        last: dict[tuple[object, ...], Event] = {}
        for event in execution(script).events:
            if event.name == "backward" and event.value is not None and not isinstance(event.value, Table):
                where = formulas.written(event.subject) or event.node
                last[(*position(event.node), *position(where))] = event
        climbs = execution(script).optimizers and all(
            formulas.number(each.keys.get("maximize")) == 1 for each in execution(script).optimizers
        )
        written = script.words & learning.WRITING  # by a search along a direction: whether up or down is decided there
        return [] if climbs else [event for event in last.values() if not written or not _is_asked_for(script, event)]

    return script.once("last losses", collect)


def _is_asked_for(script: Script, event: Event) -> bool:
    """autograd.grad(objective, weights)"""
    return any(script.last(call) == "grad" and position(call) == position(event.node) for call in script.calls("grad"))


class Error(NamedTuple):
    """A squared error in a loss: where it is taken, what is trained, and what on."""

    where: Symbol
    answer: Value
    goal: Value


def errors(script: Script) -> list[Error]:
    """Squared errors of the last pass."""

    def collect() -> list[Error]:
        made: dict[int, Error] = {}
        for event in losses(script):
            for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
                sides: list[Value] = []
                if called(part) in sizes.SQUARES and len(part.args) > 1:
                    sides = list(part.args[:2])
                elif (
                    (part.op == "Pow" or called(part) in ("pow", "square"))
                    and isinstance(part.args[0], Symbol)
                    and part.args[0].op == "Sub"
                ):
                    sides = list(part.args[0].args)
                for answer, goal in (sides, sides[::-1]) if len(sides) == 2 else ():
                    if gradient(answer) and not gradient(goal):
                        made.setdefault(id(part), Error(part, answer, goal))
        return list(made.values())

    return script.once("last errors", collect)


def evaluate(
    script: Script, value: Value, numbers: Callable[[Leaf, Symbol], float | None] = lambda leaf, symbol: None
) -> tuple[Slope, Evaluation] | None:
    """A value's number and slopes; None where it is not understood."""
    evaluation = Evaluation(execution(script), numbers)
    try:
        return evaluation.of(value), evaluation
    except (Unclear, RecursionError, ArithmeticError):
        return None


def _times(slope: Slope, kind: str) -> list[Leaf]:
    return sorted((leaf for leaf in slope.whole if leaf.kind == kind), key=lambda leaf: leaf.time)


def asked_at(leaf: Leaf) -> set[tuple[object, int]]:
    """For a network's value: which steps showed what it was asked about, and when."""
    asked = leaf.place[1] if isinstance(leaf.place, tuple) and len(leaf.place) == 2 else ()
    return {(each[0], each[1] + leaf.time) for each in asked} if isinstance(asked, tuple) else set()


def _moves(before: dict[Leaf, float], after: dict[Leaf, float]) -> float:
    """How the slopes along log-probabilities changed, summed."""
    return sum(after.get(leaf, 0.0) - slope for leaf, slope in before.items() if leaf.kind == "log_prob")


# ── what critics learn from ──


def target_is_an_advantage(script: Script) -> Iterator[Spot]:
    for error in errors(script):
        found = evaluate(script, error.goal)
        rewards = _times(found[0], "reward") if found else []
        if found is None or not rewards:
            continue
        scale = found[0].whole[rewards[0]]
        for leaf, slope in found[0].whole.items():
            own = asked_at(leaf) == {(rewards[0].place, rewards[0].time - 1)}
            if leaf.kind == "value" and own and scale > 0 and slope < -_LARGE * min(scale, 1.0):
                for where in places(script, error):
                    yield _spot(
                        where,
                        "the critic is trained on advantages: its target falls with the value of the state itself",
                        "returns = advantages + values",
                    )
                break


def target_falls_with_the_reward(script: Script) -> Iterator[Spot]:
    for error in errors(script):
        found = evaluate(script, error.goal)
        rewards = _times(found[0], "reward") if found else []
        # Rewards of before may take part, through statistics: what counts is the one that counts most.
        if found is not None and rewards and max((found[0].whole[leaf] for leaf in rewards), key=abs) < -_EPS:
            for where in places(script, error):
                yield _spot(where, "the critic's target falls where the reward rises: the sign of the rewards in it is wrong", "+ reward")


def target_falls_with_the_future(script: Script) -> Iterator[Spot]:
    """reward - gamma * value of the next observation."""
    for error in errors(script):
        found = evaluate(script, error.goal)
        rewards = _times(found[0], "reward") if found else []
        if found is None or len(rewards) != 1 or found[0].whole[rewards[0]] <= 0:
            continue
        later = [
            leaf
            for leaf in found[0].whole
            if leaf.kind == "value" and asked_at(leaf) == {(rewards[0].place, rewards[0].time)} and found[1].leaves[leaf].op == "out"
        ]
        if len(later) == 1 and len([leaf for leaf in found[0].whole if leaf.kind == "value"]) == 1 and found[0].whole[later[0]] < -0.3:
            for where in places(script, error):
                yield _spot(
                    where, "the critic's target falls where what comes next is worth more: the future is subtracted", "+ gamma * value"
                )


def target_of_the_same_state(script: Script) -> Iterator[Spot]:
    """reward + discount * V of the very state whose value is trained."""
    for error in errors(script):
        found, own = evaluate(script, error.goal), evaluate(script, error.answer)
        if found is None or own is None or not _times(found[0], "reward"):
            continue
        if any(leaf.kind in ("log_prob", "prob", "opaque") for leaf in found[0].whole):
            continue  # corrected by how likely the actions are now: the value itself is a part of it
        trained = [asked_at(leaf) for leaf in own[0].flows if leaf.kind == "value"]
        if len(trained) != 1 or not trained[0]:
            continue
        for leaf, slope in found[0].whole.items():
            if leaf.kind == "value" and 0.3 < slope < 1.2 and asked_at(leaf) == trained[0]:
                asked = found[1].leaves[leaf]
                for where in dict.fromkeys(
                    (formulas.written(asked), *_stored_for(script, asked), *_kept_at(script, asked), *places(script, error)[:1])
                ):
                    yield _spot(
                        where,
                        "the target holds the value of the very state that it is for, where the value of what comes next is meant",
                        "the observation that the step returned",
                    )
                break


def _kept_at(script: Script, asked: Symbol) -> list[ast.AST]:
    """Where an answer is put into a list or an array."""
    stores = [event for event in execution(script).events if event.name == "store" and event.value is not None]
    return [event.node for event in stores if any(part is asked for part in formulas.parts(event.value, into_arrays=False))][-1:]  # type: ignore[arg-type]


def _stored_for(script: Script, asked: Symbol) -> list[ast.AST]:
    """Where the observations were stored that a network is asked about."""
    parts = [part for given in asked.args[1:] for part in formulas.parts(given, into_networks=False)]
    return [part.node for part in parts if part.op == "put" and part.node is not None][-1:]


def places(script: Script, error: Error) -> list[ast.AST]:
    """Where an error is taken, and where what it is taken against got its name."""
    run = execution(script)
    found: dict[tuple[int, int], ast.AST] = {}
    if error.where.node is not None:
        found[position(error.where.node)] = error.where.node
    pending, seen = [error.goal], 0
    while pending and seen < 12:
        current = pending.pop()
        seen += 1
        for statement in formulas.bound_at(run, current):
            found.setdefault(position(statement), statement)
        if isinstance(current, Symbol) and (
            called(current) in formulas.PASSING or current.op in ("item", "read", "sampled", "element", "phi", "array")
        ):
            if current.op == "array" and current.stored:
                pending += current.stored[-1:]
            pending += current.args[1:] if current.op == "phi" else current.args[:1]
    returned = [
        statement
        for value, statements in run.bound.values()
        if isinstance(value, Items) and any(each is error.goal or each in _cores(error.goal) for each in value.items)
        for statement in statements
        if isinstance(statement, ast.Return)
    ]
    for statement in returned[-1:]:
        found.setdefault(position(statement), statement)
    first = list(found.values())
    return [*first[:4], *first[-1:]] if returned else first[:4]


def _cores(value: Value) -> list[Value]:
    """What a value was before rows of it were taken and it was cast."""
    made: list[Value] = [value]
    while (
        isinstance(value, Symbol)
        and value.args
        and (called(value) in formulas.PASSING or value.op in ("item", "read", "sampled", "element", "carried"))
    ):
        value = value.args[0]
        made.append(value)
    return made


# ── what policies are weighted with ──


class Policy(NamedTuple):
    """A policy gradient: the loss, and how its slope along the log-probability changes with rewards and values."""

    event: Event
    evaluation: Evaluation
    by_reward: float
    own: dict[Leaf, float]
    """Values of the state that the action was taken in."""
    later: dict[Leaf, float]
    """Values of the state that it led to."""


def policies(script: Script) -> list[Policy]:
    """The policy gradients of a script."""
    return script.once("policy gradients", lambda: list(_policies(script)))


def _policies(script: Script) -> Iterator[Policy]:
    for event in losses(script):
        if event.value is None:
            continue
        base = evaluate(script, event.value)
        if base is None or not any(leaf.kind == "log_prob" and abs(slope) > 0 for leaf, slope in base[0].flows.items()):
            rewarding = [leaf for leaf in base[0].whole if leaf.kind == "reward"] if base else []
            if base is None or not rewarding or not any(leaf.kind == "log_prob" for leaf in base[0].flows):
                continue
        rewards = _times(base[0], "reward")
        if not rewards:
            continue
        more = evaluate(script, event.value, lambda leaf, symbol: 2.0 if leaf.kind == "reward" else None)
        if more is None:
            continue
        by_reward = _moves(base[0].flows, more[0].flows)
        own: dict[Leaf, float] = {}
        later: dict[Leaf, float] = {}
        first = rewards[0]
        for leaf in list(base[0].whole):
            if leaf.kind != "value" or not asked_at(leaf):
                continue
            raised = evaluate(script, event.value, lambda each, symbol, leaf=leaf: 1.4 if each == leaf else None)  # type: ignore[misc]
            if raised is None:
                continue
            asked = asked_at(leaf)
            if asked == {(first.place, first.time - 1)}:
                own[leaf] = _moves(base[0].flows, raised[0].flows)
            elif asked == {(first.place, first.time)}:
                later[leaf] = _moves(base[0].flows, raised[0].flows)
        yield Policy(event, base[1], by_reward, own, later)


def climbs_the_wrong_way(script: Script) -> Iterator[Spot]:
    for policy in policies(script):
        if policy.by_reward > _EPS:
            for where in _loss_places(script, policy):
                yield _spot(
                    where,
                    "the higher the reward, the less likely the action becomes: a sign in the policy's loss, or in its advantage, is wrong",
                    "-(log_prob * advantage).mean()",
                )


def baseline_is_added(script: Script) -> Iterator[Spot]:
    for policy in policies(script):
        wrong = [leaf for leaf, move in policy.own.items() if policy.by_reward < -_EPS and move < -_LARGE * abs(policy.by_reward)]
        for leaf in wrong[:1]:
            for where in sums_of(script, policy, leaf):
                yield _spot(
                    where,
                    "the value of the state is added to what the action brought, where it must be subtracted: every action of a good state is reinforced",
                    "return - value",
                )


def future_is_subtracted(script: Script) -> Iterator[Spot]:
    for policy in policies(script):
        wrong = [leaf for leaf, move in policy.later.items() if policy.by_reward < -_EPS and move > _LARGE * abs(policy.by_reward)]
        for leaf in wrong[:1]:
            for where in sums_of(script, policy, leaf):
                yield _spot(
                    where,
                    "the value of what an action led to is subtracted from its reward, where it must be added",
                    "reward + gamma * next_value - value",
                )


def _loss_places(script: Script, policy: Policy) -> list[ast.AST]:
    """Where the weight of a policy gradient was computed, and where it meets the log-probability."""
    made: list[ast.AST] = []
    for part in formulas.parts(policy.event.value, into_networks=False, into_arrays=False) if policy.event.value is not None else ():
        if (
            part.op in ("Mult", "USub")
            and part.node is not None
            and any(called(one) == "log_prob" for one in formulas.parts(part, False, False))
        ):
            made.append(part.node)
        if part.op == "Sub" and part.node is not None and not gradient(part) and len(made) < 6:
            made.append(part.node)
    lines = {getattr(node, "lineno", 0): node for node in made}
    return list(lines.values())[:4]


def sums_of(script: Script, policy: Policy, leaf: Leaf) -> list[ast.AST]:
    """Sums in which a value alone meets what holds rewards."""
    made: list[ast.AST] = []
    for part in formulas.parts(policy.event.value, into_networks=False) if policy.event.value is not None else ():
        if part.op in ("Add", "Sub") and part.node is not None and len(part.args) == 2:
            sides = [evaluate(script, each) for each in part.args]
            kinds = [{each.kind for each in side[0].whole} if side else set() for side in sides]
            if any("value" in one and "reward" not in one and "reward" in other for one, other in (kinds, kinds[::-1])):
                made.append(part.node)
    lines = {getattr(node, "lineno", 0): node for node in made}
    return list(lines.values())[:3] or _loss_places(script, policy)[:2]


# ── what runs backwards through a rollout ──


class Recursion(NamedTuple):
    """A sum of what came before in a loop, and of something new: its slope along what came before, by which flags are set."""

    sum: Symbol
    left: Leaf
    kept: float
    """The slope where no episode ends."""
    time: int
    """When the reward was given."""
    cuts: dict[Leaf, bool]
    """Flags, and whether each of them takes away what came before."""
    is_trace: bool
    """Whether the value of the state itself is subtracted: errors are summed, not rewards."""
    is_latest: bool
    """Of the last pass: by then, what it reads was filled."""


def recursions(script: Script) -> list[Recursion]:
    """Returns and advantages that are accumulated from the end of a rollout to its beginning."""
    return script.once("recursions", lambda: list(_recursions(script)))


def _recursions(script: Script) -> Iterator[Recursion]:
    run = execution(script)
    held = [each for each in run.sums if each.op in ("Add", "Sub") and each.loops and each.node is not None]
    made: set[object] = set()
    running = [
        one
        for one in held
        if any(formulas.carried(each) is not None for each in one.args)
        or any(formulas.carried(factor) is not None for term in formulas.terms(one) for factor in term.factors)
    ]
    acting = {loop for event in experience.env_steps(script) for loop in event.loops}
    for each in running[-MOST_SUMS:][::-1]:
        loop = each.loops[-1]
        # A loop that acts goes forwards in time, however it counts.
        if loop in acting or formulas.is_backwards(run.walked.get(loop)) is not True:  # type: ignore[arg-type]
            continue

        base = evaluate(script, each, _in_loop(loop, None))
        left = (
            [leaf for leaf, slope in base[0].whole.items() if leaf.kind == "carried" and leaf.time == 0 and abs(slope) > 0] if base else []
        )
        rewards = _times(base[0], "reward") if base else []
        if base is not None and len(left) > 1:
            # The value of the next state may be carried, too: what counts is what the pass before left of this very sum.
            left = [leaf for leaf in left if _is_left_of(base[1].leaves[leaf], each)]
        if base is None or len(left) != 1 or not rewards or base[0].whole[left[0]] <= 0:
            continue
        cuts: dict[Leaf, bool] = {}
        for leaf in [leaf for leaf in base[1].leaves if leaf.kind in ("terminated", "truncated", "ended")]:
            ended = evaluate(script, each, _in_loop(loop, leaf))
            if ended is not None:
                cuts[leaf] = abs(ended[0].whole.get(left[0], 0.0)) < _EPS
        trace = any(leaf.kind == "value" and slope < 0 for leaf, slope in base[0].whole.items())
        known = (position(each.node), trace, round(base[0].whole[left[0]], 6), frozenset(cuts.items()))
        if known not in made:
            latest = not any(isinstance(one, tuple) and one[0] == known[0] for one in made)
            made.add(known)
            yield Recursion(each, left[0], base[0].whole[left[0]], rewards[0].time, cuts, trace, latest)


def _is_left_of(carried: Symbol, whole: Symbol) -> bool:
    left = carried.args[0]
    return isinstance(left, Symbol) and left.node is whole.node


def _in_loop(loop: ast.AST, flagged: Leaf | None) -> Callable[[Leaf, Symbol], float | None]:
    """Numbers for one pass of a loop: what the pass before left is one of its own, and one flag may be set."""

    def number(leaf: Leaf, symbol: Symbol) -> float | None:
        if leaf.kind == "carried":
            return 0.7 if symbol.node is loop else None
        return 1.0 if leaf == flagged else None

    return number


def cut_by_another_step(script: Script) -> Iterator[Spot]:
    for each in recursions(script):
        cutting = [leaf for leaf, cuts in each.cuts.items() if cuts]
        if each.is_latest and cutting and not any(leaf.time == each.time for leaf in cutting):
            late = cutting[0].time > each.time
            yield _spot(
                each.sum.node,
                f"the running sum is cut by the flag of the step {'after' if late else 'before'} the reward's own: episodes leak into each other, and are cut one step off",
                "the flag of the same step",
            )


def goes_on_past_time_limits(script: Script) -> Iterator[Spot]:
    """A trace that real ends cut, and time limits do not, though both are known and episodes follow one another."""
    run = execution(script)
    for each in recursions(script):
        cutting = {leaf.kind for leaf, cuts in each.cuts.items() if cuts and leaf.time == each.time}
        if cutting != {"terminated"} or not each.is_trace or not each.is_latest:
            continue
        place = next(leaf.place for leaf in each.cuts if leaf.kind == "terminated")
        steps = [event for event in run.events if event.name == "env step" and event.node is not None and position(event.node) == place]
        several = any(isinstance(event.value, Symbol) and sizes.is_vector(_reward_of(event.value)) for event in steps)
        inside = any(
            reset.name == "env reset"
            and reset.loops
            and steps
            and reset.loops[-1] in steps[-1].loops[-1:]
            and reset.subject is steps[-1].subject
            for reset in run.events
        )
        if several or inside:
            flags = [symbol for leaf, symbol in _flag_symbols(script, each) if leaf.kind == "terminated"]
            stored = [put.node for symbol in flags[:1] for put in _puts_of(script, symbol)]
            for where in dict.fromkeys((each.sum.node, *stored)):
                yield _spot(
                    where,
                    "the running sum is cut at real ends alone: at a time limit it goes on into the next episode, which has nothing to do with this one",
                    "* (1 - (terminated | truncated))",
                )


def _reward_of(step: Symbol) -> Symbol:
    return Symbol("stepped", (step,), step.node, (1, 5))


def _flag_symbols(script: Script, recursion: Recursion) -> list[tuple[Leaf, Symbol]]:
    found = evaluate(script, recursion.sum)
    return [(leaf, symbol) for leaf, symbol in found[1].leaves.items() if leaf in recursion.cuts] if found else []


def _puts_of(script: Script, symbol: Symbol) -> list[Event]:
    """Stores of a flag into arrays."""
    stores = [event for event in execution(script).events if event.name == "store" and isinstance(event.value, Symbol)]
    return [event for event in stores if any(part is symbol for part in formulas.parts(event.value, False, False))][-1:]  # type: ignore[arg-type]


def begins_anew(script: Script) -> Iterator[Spot]:
    """carry = zeros_like(carry) at the end of each pass of a backward loop."""
    run = execution(script)
    seen: set[int] = set()
    for each in run.sums:
        walked = run.walked.get(each.loops[-1]) if each.op == "Add" and each.loops else None
        if walked is None or formulas.is_backwards(walked) is not True:
            continue
        for term in formulas.terms(each):
            held = [one for one in map(formulas.carried, term.factors) if one is not None and one.node is each.loops[-1]]
            for one in held:
                left = one.args[0]
                if not isinstance(left, Symbol) or left.op != "array" or not str(left.data).startswith("zeros") or left.stored:
                    continue
                if each.loops[-1] in left.loops and id(each.node) not in seen:
                    seen.add(id(each.node))
                    for where in dict.fromkeys((left.node, each.node)):
                        yield _spot(
                            where,
                            "the running sum is set back to zero in each pass: nothing of what follows a step is counted for it",
                            "keep it for the next pass",
                        )


# ── forms that a loss takes ──


def smaller_of_value_errors(script: Script) -> Iterator[Spot]:
    """min of the clipped and the unclipped error of a critic: the greater one is the bound."""
    for event in losses(script):
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            if called(part) in ("min", "minimum", "fmin") and len(part.args) == 2 and all(_is_error(each) for each in part.args):
                yield _spot(
                    part.node,
                    "the smaller of a critic's two errors is taken: where the clipped value is nearer to its target, nothing draws the value back",
                    "the larger one",
                )


def _is_error(value: Value) -> bool:
    while isinstance(value, Symbol) and called(value) in ("mean", "sum") and value.args:
        value = value.args[0]
    square = isinstance(value, Symbol) and (value.op == "Pow" or called(value) in ("pow", "square", *sizes.SQUARES))
    return square and bool(gradient(value))


def probability_for_its_logarithm(script: Script) -> Iterator[Spot]:
    """exp(log_prob) * advantage, and no old log-probability that it is compared with."""
    for policy in policies(script):
        if policy.event.value is None:
            continue
        for part in formulas.parts(policy.event.value, into_networks=False, into_arrays=False):
            if called(part) != "exp" or not part.args or not gradient(part):
                continue
            inner = part.args[0]
            while isinstance(inner, Symbol) and called(inner) in (*formulas.PASSING, "sum") and inner.args:
                inner = inner.args[0]
            if called(inner) == "log_prob" and not any(
                one.op == "Div" and one.args[0] is part for one in formulas.parts(policy.event.value, False, False)
            ):
                yield _spot(
                    part.node,
                    "the probability itself is weighted, where its logarithm is meant: likely actions get nearly all of the gradient, rare ones none",
                    "log_prob * advantage",
                )


def quotient_of_logarithms(script: Script) -> Iterator[Spot]:
    """new_log_prob / old_log_prob"""
    for event in losses(script):
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            if part.op != "Div" or len(part.args) != 2:
                continue
            sides = [evaluate(script, each) for each in part.args]
            # What is 1 where the logarithm is 0 is its exponential.
            if all(
                side is not None
                and side[0].number == 0
                and [(leaf.kind, slope) for leaf, slope in side[0].whole.items()] == [("log_prob", 1.0)]
                for side in sides
            ):
                for where in dict.fromkeys((part.node, *formulas.bound_at(execution(script), part)[:1])):
                    yield _spot(where, "one logarithm is divided by another: that is no ratio of probabilities", "exp(new - old)")


def entropy_outweighs(script: Script) -> Iterator[Spot]:
    """An entropy bonus that is larger than any normalized advantage."""
    for policy in policies(script):
        found = evaluate(script, policy.event.value) if policy.event.value is not None else None
        for leaf, slope in found[0].flows.items() if found else ():
            if leaf.kind == "entropy" and slope < -_LARGE:
                for term in formulas.terms(policy.event.value) if policy.event.value is not None else ():
                    numbers = [
                        one for one in term.factors if formulas.number(one) is not None and abs(formulas.number(one) or 0.0) > _LARGE
                    ]
                    if any(called(part) == "entropy" for one in term.factors for part in formulas.parts(one, False, False)):
                        for where in (term.node, *(formulas.written(one) for one in numbers)):
                            yield _spot(
                                where,
                                f"the entropy counts {-slope:.2g} times in the loss: it outweighs any advantage, and the policy stays random",
                                "0.01",
                            )


def asked_after_the_step(script: Script) -> Iterator[Spot]:
    """A critic that is trained on what follows a step, asked about the observation that came after it."""
    for error in errors(script):
        found, own = evaluate(script, error.goal), evaluate(script, error.answer)
        rewards = _times(found[0], "reward") if found else []
        if not rewards or own is None or found is None or found[1].is_windowed:
            continue
        asked = [(leaf, asked_at(leaf)) for leaf in own[0].flows if leaf.kind == "value"]
        first = rewards[0]
        if len(asked) == 1 and (asked[0][1] == {(first.place, first.time)} or (first.time == 1 and asked[0][1] == {(first.place, -1)})):
            out = own[1].leaves[asked[0][0]]
            late = asked[0][1] == {(rewards[0].place, rewards[0].time)}
            places = (
                formulas.written(out),
                *_stored_for(script, out),
                *_kept_at(script, out),
                *formulas.bound_at(execution(script), out)[:1],
            )
            for where in dict.fromkeys(places if late else _filled_at(script, error)):
                yield _spot(
                    where,
                    "the critic is asked about the observation after a step, and trained on what came from that step on: each value is one step late"
                    if late
                    else "the critic learns of each state what began one step later: its targets are one row off",
                    "the row of the same step",
                )


def _filled_at(script: Script, error: Error) -> list[ast.AST]:
    """Where the array was filled that a critic learns from."""
    puts = [part.node for part in formulas.parts(error.goal, into_networks=False) if part.op == "put" and part.node is not None]
    return [*puts[:2], *places(script, error)[:1]]


def mean_action_in_training(script: Script) -> Iterator[Spot]:
    """A policy gradient about actions that were never drawn: the mean of the distribution was taken."""
    for policy in policies(script):
        for leaf, symbol in policy.evaluation.leaves.items():
            if leaf.kind != "log_prob" or len(symbol.args) < 2:
                continue
            made = experience.latest(symbol.args[1])
            for each in made:
                if (
                    each.op == "attribute"
                    and str(each.data) in ("mean", "mode", "loc")
                    and len(made) == 1
                    and not _is_noisy(symbol.args[1])
                ):
                    yield _spot(
                        each.node,
                        "the mean of the policy is taken in training: nothing is tried, and the gradient has nothing to compare",
                        ".sample()",
                    )


def dimensions_apart(script: Script) -> Iterator[Spot]:
    """The log-probability of each dimension of an action, weighted with what the whole action brought."""
    for policy in policies(script):
        value = policy.event.value
        for leaf, symbol in policy.evaluation.leaves.items() if value is not None and policy.by_reward < -_EPS else ():
            dist = symbol.args[0] if leaf.kind == "log_prob" and not symbol.free and len(symbol.args) > 1 else None
            if isinstance(dist, Symbol) and dist.op == "phi":
                # For actions of one kind or the other: the one that has dimensions counts.
                dist = next((each for each in dist.args[1:] if isinstance(each, Symbol) and each.data == "Normal"), dist)
            if not isinstance(dist, Symbol) or dist.op != "dist" or dist.data != "Normal" or value is None or not gradient(symbol):
                continue
            held = list(formulas.parts(value, into_networks=False, into_arrays=False))
            above = [each for each in held if each is not symbol and any(part is symbol for part in each.args)]
            names: set[str] = set()
            while above and len(names) < 20:
                names |= {called(each) for each in above if called(each)}
                if any(each.op == "Mult" for each in above):
                    break
                above = [each for each in held if any(any(part is one for part in each.args) for one in above)]
            narrow = [sizes.width(out.args[0]) == 1 for out in formulas.outputs_in(dist.args[0])] if dist.args else [True]
            shaped = {"squeeze", "flatten", "view", "reshape"} & {
                called(part) for given in dist.args[:1] for part in formulas.parts(given, False, False)
            }
            if narrow and not any(narrow) and not shaped and not names & {"sum", "prod", "squeeze", "flatten", "view", "reshape", "mean"}:
                where = formulas.written(symbol) if symbol.site is None else symbol.node
                for place in dict.fromkeys((where, *formulas.bound_at(execution(script), symbol)[:1])):
                    yield _spot(
                        place,
                        "log-probabilities of single dimensions are weighted with what the whole action brought: they are never summed",
                        ".sum(-1)",
                    )


def dimensions_apart_in_targets(script: Script) -> Iterator[Spot]:
    """reward + discount * (value - alpha * log_prob), where the log-probability has a number for each dimension of an action."""
    seen: set[int] = set()
    whole = [error.goal for error in errors(script)] + [event.value for event in losses(script) if event.value is not None]
    for value in whole:
        held = list(formulas.parts(value, into_networks=False, into_arrays=False))
        for part in held:
            dist = part.args[0] if called(part) == "log_prob" and len(part.args) > 1 else None
            if not isinstance(dist, Symbol) or dist.op != "dist" or dist.data != "Normal" or not dist.args or id(part) in seen:
                continue
            wide = [(sizes.width(out.args[0]) or 0) != 1 for out in formulas.outputs_in(dist.args[0], stored=False)]
            above = [each for each in held if each is not part and any(inner is part for inner in formulas.parts(each, False, False))]
            valued = any(each.op == "out" for each in held)
            joined = {"sum", "prod", "squeeze", "flatten", "view", "reshape", "mean"} & {
                called(each) for each in above if any(inner is part for arg in each.args[:1] for inner in _summed(arg))
            }
            summed_beside = any(
                each.op in ("Sub", "Add")
                and any(called(one) == "sum" for one in each.args)
                and any(part in _summed(one) for one in each.args)
                for each in above
            )
            if wide and all(wide) and valued and summed_beside and not joined:
                seen.add(id(part))
                for place in dict.fromkeys((part.node, formulas.written(part), *formulas.bound_at(execution(script), part)[:1])):
                    yield _spot(
                        place,
                        "log-probabilities of single dimensions meet what is summed over all of them: they are never summed themselves",
                        ".sum(-1)",
                    )


def _summed(value: Value) -> list[Value]:
    """What sums and differences are made of, one by one."""
    if isinstance(value, Symbol) and value.op in ("Add", "Sub") and len(value.args) == 2:
        return [value, *_summed(value.args[0]), *_summed(value.args[1])]
    return [value]


def _is_noisy(value: Value) -> bool:
    return any(
        called(part) in ("normal", "randn", "randn_like", "sample", "rsample", "standard_normal") for part in formulas.parts(value, False)
    )


def multiplied_by_the_deviation(script: Script) -> Iterator[Spot]:
    """(x - mean) * (std + eps)"""
    seen: set[int] = set()
    for each in execution(script).sums:
        if each.op != "Mult" or len(each.args) != 2 or id(each.node) in seen:
            continue
        for top, by in (each.args, each.args[::-1]):
            centred = isinstance(top, Symbol) and top.op == "Sub" and len(top.args) == 2 and called(top.args[1]) == "mean"
            inner = by.args[0] if isinstance(by, Symbol) and by.op == "Add" and by.args else by
            spread = inner.args[0] if isinstance(inner, Symbol) and called(inner) == "std" and inner.args else None
            centre = top.args[1] if centred and isinstance(top, Symbol) else None
            if spread is None or not isinstance(centre, Symbol) or not isinstance(top, Symbol):
                continue
            if spread is top.args[0] and centre.args and centre.args[0] is spread:
                seen.add(id(each.node))
                yield _spot(each.node, "what was centred is multiplied by its deviation: scales are squared in place of being made 1", "/")


def scaled_by_no_deviation(script: Script) -> Iterator[Spot]:
    """(x - mean) divided by a sum, a mean or a variance, where the deviation is meant."""
    seen: set[int] = set()
    for each in execution(script).sums:
        top = each.args[0] if each.op == "Div" and len(each.args) == 2 else None
        if not isinstance(top, Symbol) or top.op != "Sub" or len(top.args) != 2 or id(each.node) in seen:
            continue
        centre = top.args[1]
        if called(centre) != "mean" or not isinstance(centre, Symbol) or not centre.args or centre.args[0] is not top.args[0]:
            continue
        below = list(formulas.parts(each.args[1], into_networks=False, into_arrays=False))
        names = {called(part) for part in below}
        of_itself = any(called(part) in ("sum", "mean", "var") and part.args and part.args[0] is top.args[0] for part in below)
        root_taken = names & {"std", "sqrt", "norm", "max", "abs", "amax"} or any(
            part.op == "Pow" and (formulas.number(part.args[1]) or 0) == 0.5 for part in below
        )
        if of_itself and not root_taken:
            seen.add(id(each.node))
            yield _spot(
                each.node,
                "what is centred here is not divided by its deviation: its scale changes with the batch, and may even change its sign",
                "(x - x.mean()) / (x.std() + 1e-8)",
            )


def sum_never_kept(script: Script) -> Iterator[Spot]:
    """What is accumulated from the end to the beginning is kept nowhere: something else is stored in its loop."""
    run = execution(script)
    for each in recursions(script):
        loop = each.sum.loops[-1]
        stores = [
            event
            for event in run.events
            if event.name == "store" and loop in event.loops and event.loops[-1] is loop and event.value is not None
        ]
        held = [event.value for event in stores if event.value is not None]
        holds = any(part.node is each.sum.node for value in held for part in formulas.parts(value, into_networks=False))
        # What is left when the loop is over may be all that is wanted of it.
        used = any(part.node is each.sum.node for one in run.sums if loop not in one.loops for arg in one.args for part in _cores(arg))
        if stores and not holds and not used:
            for where in dict.fromkeys(event.node for event in stores[-1:]):
                yield _spot(
                    where,
                    "in this loop what follows each step is summed up, and something else is kept: the sum is never used",
                    "keep the running sum",
                )


def weighted_by_targets(script: Script) -> Iterator[Spot]:
    """Advantages are computed, and the policy is weighted with what the critic learns from."""
    if not any(each.is_trace for each in recursions(script)):
        return
    for policy in policies(script):
        own = [abs(move) for move in policy.own.values()]
        clear = all(len(asked_at(leaf)) == 1 for leaf in policy.evaluation.leaves if leaf.kind == "value")
        if clear and policy.by_reward < -_EPS and max(own, default=0.0) < 0.05 * abs(policy.by_reward):
            run = execution(script)
            places: list[ast.AST] = []
            for part in (
                formulas.parts(policy.event.value, into_networks=False, into_arrays=False) if policy.event.value is not None else ()
            ):
                if part.op == "Mult" and any(called(one) == "log_prob" for one in formulas.parts(part, False, False)):
                    for factor in part.args:
                        if not gradient(factor):
                            places += [part.node, *formulas.bound_at(run, factor)[-1:]] if part.node is not None else []
            for where in list({getattr(node, "lineno", 0): node for node in places}.values())[:3]:
                yield _spot(
                    where,
                    "the policy is weighted with what the critic learns from, though advantages are computed: the value of the state is not taken off",
                    "the advantages",
                )


def clipped_after_the_step(script: Script) -> Iterator[Spot]:
    """Gradients are clipped when the optimizer has already used them."""
    run = execution(script)
    order = [event for event in run.events if event.name in ("backward", "clip", "optimizer step", "optimizer zero_grad")]
    for place, event in enumerate(order):
        late = event.name == "clip" and place > 1 and order[place - 1].name == "optimizer step" and order[place - 2].name == "backward"
        if late and order[place - 1].loops == event.loops:
            yield _spot(
                event.node, "gradients are clipped after the step that used them: the clipping changes nothing", "before optimizer.step()"
            )


def softened_value(script: Script) -> Iterator[Spot]:
    """A critic whose answer went through a softmax."""
    for error in errors(script):
        for part in formulas.parts(error.answer, into_networks=False, into_arrays=False):
            if called(part) in ("softmax", "log_softmax") and gradient(part):
                yield _spot(
                    part.node,
                    "the critic's answer goes through a softmax: of a single number that is always 1, and it can say nothing else",
                    "the plain answer",
                )


def sum_not_discounted(script: Script) -> Iterator[Spot]:
    """running = reward + running, and running = error + running, in a script that has a discount."""
    named = any(words.GAMMA(name) for name in script.words)
    for each in recursions(script):
        left = [term for term in formulas.terms(each.sum) if any(formulas.carried(one) is not None for one in term.factors)]
        discounted = any(formulas.is_scalar(one) and formulas.flag(one) is None for term in left for one in term.factors)
        squared = any(
            called(part) in sizes.SQUARES or (part.op == "Pow" and formulas.number(part.args[1]) == 2)
            for part in formulas.parts(each.sum, into_networks=False, into_arrays=False)
        )
        if each.kept > 1 - _EPS and not discounted and not squared and (named or _is_discounted_otherwise(script, each)):
            yield _spot(each.sum.node, "what follows is summed without a discount, though there is one", "gamma * running")


def _is_discounted_otherwise(script: Script, recursion: Recursion) -> bool:
    """Whether the value of what comes next is discounted in an error, where the sum of errors is not."""
    found = evaluate(script, recursion.sum, _in_loop(recursion.sum.loops[-1], None))
    return found is not None and any(leaf.kind == "value" and _LARGE < slope < 1 - _EPS for leaf, slope in found[0].whole.items())


def first_row_left_out(script: Script) -> Iterator[Spot]:
    """range(n - 1, 0, -1): the first step is never reached."""
    for loop in dict.fromkeys(each.sum.loops[-1] for each in recursions(script)):
        walked = getattr(loop, "iter", None)
        if isinstance(walked, ast.Call) and script.last(walked) == "range" and len(walked.args) == 3:
            start, stop, step = walked.args
            # Where n stands first, row 0 is left out on purpose, or the index is one ahead.
            last_row = isinstance(start, ast.BinOp) and isinstance(start.op, ast.Sub)
            if last_row and isinstance(stop, ast.Constant) and stop.value == 0 and ast.unparse(step) == "-1":
                yield _spot(loop, "the loop ends before the first step: its row keeps what it was made with", "range(n - 1, -1, -1)")


def lambda_in_returns(script: Script) -> Iterator[Spot]:
    """Rewards alone are summed, and what is left of the next one is less than the discount that the errors have."""
    for error in errors(script):
        found = evaluate(script, error.goal)
        rewards = _times(found[0], "reward") if found else []
        if (
            found is None
            or len(rewards) < 2
            or any(leaf.kind in ("value", "other") and abs(slope) > 0 for leaf, slope in found[0].whole.items())
        ):
            continue
        ratio = found[0].whole[rewards[1]] / found[0].whole[rewards[0]] if found[0].whole[rewards[0]] else 0.0
        for each in recursions(script):
            if each.is_trace and 0 < ratio < 1 and abs(each.kept - ratio) < _EPS and any(words.LAMBDA(name) for name in script.words):
                for where in dict.fromkeys(_filled_at(script, error)):
                    yield _spot(where, "returns are discounted by gamma and lambda, as errors are: a return has no lambda", "gamma")
                break


def rewards_of_another_step(script: Script) -> Iterator[Spot]:
    """What is subtracted from a reward is the value of another step's observation."""
    for policy in policies(script):
        value = policy.event.value
        found = evaluate(script, value) if value is not None else None
        rewards = _times(found[0], "reward") if found else []
        if found is None or not rewards or rewards[0].time < 1 or policy.by_reward >= -_EPS or value is None:
            continue
        for leaf in list(found[0].whole):
            asked = asked_at(leaf) if leaf.kind == "value" else set()
            if asked != {(rewards[0].place, rewards[0].time - 2)}:
                continue
            raised = evaluate(script, value, lambda each, symbol, leaf=leaf: 1.4 if each == leaf else None)  # type: ignore[misc]
            if raised is not None and _moves(found[0].flows, raised[0].flows) > _LARGE * abs(policy.by_reward):
                for where in sums_of(script, policy, leaf):
                    yield _spot(
                        where,
                        "the reward of one step stands beside the value of another one's observation: advantages are one row off",
                        "the same row",
                    )


def error_not_squared(script: Script) -> Iterator[Spot]:
    """A critic's error as it is: it can be made as small as one likes."""
    for event in losses(script):
        found = evaluate(script, event.value) if event.value is not None else None
        if found is None or not _times(found[0], "reward"):
            continue
        for leaf, slope in found[0].flows.items():
            if leaf.kind != "value" or abs(slope) < _EPS:
                continue
            bent = [
                evaluate(script, event.value, lambda each, symbol, leaf=leaf, at=at: at if each == leaf else None)  # type: ignore[misc,arg-type]
                for at in (-9.0, 9.0)
            ]
            slopes = [each[0].flows.get(leaf, 0.0) for each in bent if each is not None]
            reward = evaluate(script, event.value, lambda each, symbol: 50.0 if each.kind == "reward" else None)  # type: ignore[arg-type]
            moved = reward[0].flows.get(leaf, 0.0) if reward else slope
            if len(slopes) == 2 and all(abs(each - slope) < _EPS for each in (*slopes, moved)):
                for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
                    if part.op == "Sub" and part.node is not None and gradient(part) and any(not gradient(one) for one in part.args):
                        averages = [
                            one.node
                            for one in (formulas.parts(event.value, False, False) if event.value is not None else ())
                            if called(one) in formulas.AVERAGES and one.args and one.args[0] is part and one.node is not None
                        ]
                        for where in dict.fromkeys((part.node, *averages[:1])):
                            yield _spot(
                                where,
                                "the critic's error is not squared: the loss falls without end where the value grows, or shrinks",
                                "(value - target) ** 2",
                            )
                        break
                break


def centred_twice(script: Script) -> Iterator[Spot]:
    """(x + mean) / std"""
    seen: set[int] = set()
    for each in execution(script).sums:
        top = each.args[0] if each.op == "Div" and len(each.args) == 2 else None
        if isinstance(top, Symbol) and top.op == "Add" and len(top.args) == 2 and id(each.node) not in seen:
            centre = top.args[1]
            of_itself = (
                isinstance(centre, Symbol) and called(centre) == "mean" and bool(centre.args) and _same_rows(centre.args[0], top.args[0])
            )
            below = {called(part) for part in formulas.parts(each.args[1], into_networks=False, into_arrays=False)}
            if of_itself and below & {"std", "sqrt"}:
                seen.add(id(each.node))
                yield _spot(
                    each.node, "the mean is added where it must be subtracted: what comes out is centred at twice the mean", "x - x.mean()"
                )


def _same_rows(one: Value, other: Value) -> bool:
    return one is other or (isinstance(one, Symbol) and isinstance(other, Symbol) and one.op == other.op == "array" and one is other)


def scaled_by_the_variance(script: Script) -> Iterator[Spot]:
    """(x - s.mean) / s.var, and (x - s.mean) * sqrt(s.var): statistics that are kept, used the wrong way."""
    seen: set[int] = set()
    for each in execution(script).sums:
        top = each.args[0] if each.op in ("Div", "Mult") and len(each.args) == 2 else None
        if not isinstance(top, Symbol) or top.op != "Sub" or not isinstance(each.node, ast.BinOp) or id(each.node) in seen:
            continue
        text, below = ast.unparse(each.node.left), ast.unparse(each.node.right)
        owner = next((name for name in ("mean", "mu", "avg") if text.rstrip(")").endswith(f".{name}")), "")
        varies = any(isinstance(one, ast.Attribute) and one.attr in ("var", "variance") for one in ast.walk(each.node.right))
        if not owner or not varies:
            continue
        rooted = "sqrt" in below or "** 0.5" in below or "**0.5" in below or "rsqrt" in below
        if (each.op == "Div" and not rooted) or (each.op == "Mult" and "sqrt" in below and "rsqrt" not in below and "/" not in below):
            seen.add(id(each.node))
            yield _spot(
                each.node,
                "what is centred here is not divided by its deviation: its scale is wrong, and changes as statistics are gathered",
                "/ sqrt(var + 1e-8)",
            )


def reward_loses_its_sign(script: Script) -> Iterator[Spot]:
    """A reward that a mean is taken from, or that is cut off at 0, before it is learned from."""
    run = execution(script)

    def is_step_reward(value: Value, depth: int = 5) -> bool:
        while (
            isinstance(value, Symbol)
            and depth
            and (called(value) in formulas.PASSING - {"clip", "clamp"} or value.op == "Div")
            and value.args
        ):
            value, depth = value.args[0], depth - 1
        return isinstance(value, Symbol) and value.op == "stepped" and value.data[0] == 1

    seen: set[int] = set()
    for each in [*run.sums, *run.calls]:
        if id(each.node) in seen or not each.args or each.node is None:
            continue
        centred = each.op == "Sub" and len(each.args) == 2 and isinstance(each.args[1], Symbol) and each.node is not None
        if (
            centred
            and is_step_reward(each.args[0])
            and isinstance(each.node, ast.BinOp)
            and words.own_name(each.node.right) in ("mean", "running_mean", "reward_mean", "mu")
        ):
            seen.add(id(each.node))
            yield _spot(
                each.node,
                "a mean is taken from each reward: living on is paid or punished by what others got, and the sign of a reward means nothing",
                "reward / std",
            )
        if called(each) in ("clip", "clamp") and len(each.args) > 2 and is_step_reward(each.args[0]) and formulas.number(each.args[1]) == 0:
            seen.add(id(each.node))
            yield _spot(each.node, "rewards below 0 are cut off: no punishment is ever seen", "np.clip(reward, -10, 10)")


def asked_unnormalized(script: Script) -> Iterator[Spot]:
    """A network that is asked about normalized observations in one place, and about raw ones in another."""
    run = execution(script)
    by_network: dict[int, list[tuple[Symbol, bool]]] = {}
    for out in formulas.outputs(run):
        top = formulas.root(out.args[0])
        shown = [_is_scaled(given) for given in out.args[1:2]]
        if top is not None and shown and shown[0] is not None:
            by_network.setdefault(id(top), []).append((out, shown[0]))
    for answers in by_network.values():
        if {scaled for _, scaled in answers} != {True, False}:
            continue
        raw = {position(node): node for out, scaled in answers if not scaled and (node := formulas.written(out)) is not None}
        for out, scaled in answers:
            if not scaled:
                for statement in (formulas.bound_at(run, out.args[1]) if len(out.args) > 1 else [])[:1]:
                    raw.setdefault(position(statement), statement)
        for where in list(raw.values())[:3]:
            yield _spot(
                where,
                "the network is asked about raw observations here, and about normalized ones elsewhere: it sees numbers that it was not trained on",
                "normalize here, too",
            )


def _is_scaled(value: Value, depth: int = 10) -> bool | None:
    """Whether an observation was centred and divided by statistics on its way; None for what is no observation."""
    scaled = False
    while isinstance(value, Symbol) and depth:
        depth -= 1
        if value.op in ("stepped", "observed"):
            return scaled if value.op == "observed" or value.data[0] == 0 else None
        if value.op == "Div" and isinstance(value.args[0], Symbol) and value.args[0].op == "Sub":
            scaled = True
            value = value.args[0].args[0]
        elif (called(value) in formulas.PASSING or value.op in ("carried", "element", "sampled", "column", "put", "read")) and value.args:
            value = value.args[0]
        elif value.op == "phi":
            value = value.args[1]
        else:
            return None
    return None


def future_after_an_end(script: Script) -> Iterator[Spot]:
    """The value that a sum of rewards begins with counts at a real end, too."""
    for error in errors(script):
        found = evaluate(script, error.goal)
        ended = evaluate(script, error.goal, lambda leaf, symbol: 1.0 if leaf.kind in ("terminated", "ended") else None)
        rewards = _times(found[0], "reward") if found else []
        valued = sum(leaf.kind == "value" and abs(slope) > _EPS for leaf, slope in found[0].whole.items()) if found else 0
        if found is None or ended is None or len(rewards) < 2 or valued != 1:
            continue  # where errors are summed, each step brings a value of what comes next, and most of them have no end
        for leaf, slope in found[0].whole.items():
            asked = asked_at(leaf) if leaf.kind == "value" else set()
            last = asked == {(rewards[-1].place, rewards[-1].time)}
            if last and slope > _LARGE * found[0].whole[rewards[-1]] and ended[0].whole.get(leaf, 0.0) > _LARGE * slope:
                out = found[1].leaves[leaf]
                chosen = [
                    part.node
                    for part in formulas.parts(error.goal, into_networks=False)
                    if part.op == "phi" and part.node is not None and any(each is out for each in formulas.parts(part, into_networks=False))
                ]
                for where in dict.fromkeys((formulas.written(out), *chosen[:1])):
                    yield _spot(
                        where,
                        "returns begin with the value of the last observation where the episode really ended, too: there is nothing after it",
                        "0 if terminated else value",
                    )
                break


_STORED: Final = ("COD121", "COD122", "COD123", "COD131", "COD132", "COD405", "COD504", "COD505", "COD536")
"""What goes wrong before a target is computed."""
_FORMED: Final = (
    "COD207",
    "COD208",
    "COD209",
    "COD210",
    "COD301",
    "COD302",
    "COD306",
    "COD502",
    "COD503",
    "COD512",
    "COD514",
    "COD515",
    "COD516",
    "COD517",
)
"""What goes wrong in a loss or a sum, said more exactly than by its effect."""
SAID_BY_ANOTHER: Final[dict[str, tuple[str, ...]]] = {
    "COD122": tuple(id for id in _STORED if id != "COD122"),
    "COD303": (*_STORED, *_FORMED),
    "COD514": (*_STORED, "COD516"),
    "COD516": (*_STORED, "COD514"),
    "COD517": _STORED,
}
"""Laws that see the same mistake by its effect: they are silent where these speak."""
MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD114": (reward_loses_its_sign,),
    "COD122": (asked_after_the_step,),
    "COD206": (mean_action_in_training,),
    "COD207": (probability_for_its_logarithm, quotient_of_logarithms),
    "COD211": (dimensions_apart, dimensions_apart_in_targets),
    "COD303": (climbs_the_wrong_way, baseline_is_added, future_is_subtracted, weighted_by_targets),
    "COD305": (smaller_of_value_errors, error_not_squared),
    "COD309": (scaled_by_no_deviation, multiplied_by_the_deviation, centred_twice, scaled_by_the_variance),
    "COD407": (clipped_after_the_step,),
    "COD501": (future_after_an_end,),
    "COD503": (goes_on_past_time_limits,),
    "COD504": (begins_anew, sum_never_kept, first_row_left_out),
    "COD512": (sum_not_discounted, lambda_in_returns),
    "COD514": (target_is_an_advantage,),
    "COD515": (cut_by_another_step,),
    "COD516": (target_falls_with_the_reward, target_falls_with_the_future),
    "COD517": (target_of_the_same_state, rewards_of_another_step),
    "COD531": (softened_value,),
    "COD701": (asked_unnormalized,),
    "COD809": (entropy_outweighs,),
}
"""What is added to which check."""
