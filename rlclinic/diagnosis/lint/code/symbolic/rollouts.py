"""Laws of rollouts that a policy learns from: what belongs to the same row, where running sums begin, and by what they are discounted."""

# ruff: noqa: E501 — a message reads best whole

import ast
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, position
from rlclinic.diagnosis.lint.code.symbolic import differences, experience, formulas, laws
from rlclinic.diagnosis.lint.code.symbolic.execution import Items, Symbol, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called, execution, gradient

_CLIPS: Final = frozenset({"clip", "clamp", "tanh", "clip_", "clamp_", "minimum", "maximum"})
_DRAWS: Final = frozenset({"sample", "rsample"})
_MOST_ROWS: Final = 40


def _spot(where: ast.AST | None, text: str, fix: str = "") -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix)


# ── what belongs to the same row ──


def kept(value: Value) -> list[Symbol]:
    """What was put into a buffer, as it was when it was put there: a clipped action is not the one that was drawn."""
    made: list[Symbol] = []
    pending: list[Value] = [value]
    seen: set[int] = set()
    while pending and len(seen) < _MOST_ROWS:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Items):
            pending += current.items
        elif isinstance(current, Symbol):
            inner = None if called(current) in _CLIPS else formulas._through(current)
            if inner is None:
                made.append(current)
            else:
                pending += inner
    return made


def action_beside_another_log_prob(script: Script) -> Iterator[tuple[str, Spot]]:
    """A new log-probability is that of the stored action, an old one that of an action which was drawn beside it, or before it was clipped."""
    run = execution(script)
    said: set[int] = set()
    for event in laws.losses(script):
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            if (part.op != "Sub" and called(part) != "sub") or len(part.args) != 2:
                continue
            now, before = _log_probs(part.args[0]), [each for old in kept(part.args[1]) for each in _log_probs(old)]
            if not now or not before or not gradient(part.args[0]) or gradient(part.args[1]):
                continue
            actions = kept(now[0].args[1])
            drawn = [each for old in before for each in kept(old.args[1])]
            if not actions or not drawn or id(part.node) in said:
                continue
            clipped = [each for each in actions if called(each) in _CLIPS]
            own = {position(each.node) for each in drawn if each.node is not None}
            if len(clipped) == len(actions) and all(called(each) in _DRAWS for each in drawn):
                source = {position(each.node) for one in clipped for each in kept(one.args[0]) if each.node is not None}
                if source & own:
                    said.add(id(part.node))
                    stores: list[ast.AST | None] = [*_put_at(script, clipped)]
                    for where in stores or [clipped[-1].node]:
                        yield (
                            "COD203",
                            _spot(
                                where,
                                "the action is stored as it was clipped, and its log-probability is that of the draw: ratios differ from 1 before any step",
                                "store the action as it was drawn",
                            ),
                        )
            elif all(called(each) in _DRAWS for each in (*actions, *drawn)):
                places = {position(each.node) for each in actions if each.node is not None}
                if places and own and not places & own:
                    said.add(id(part.node))
                    for bound in (drawn[-1].node, before[-1].node, *formulas.bound_at(run, before[-1])[:1]):
                        yield (
                            "COD210",
                            _spot(
                                bound,
                                "the log-probability that is stored is that of another draw than the action which is stored",
                                "log_prob(action)",
                            ),
                        )


def _log_probs(value: Value) -> list[Symbol]:
    """The log-probability that a value is, summed or not."""
    while isinstance(value, Symbol) and value.args and (called(value) in ("sum", "mean") or called(value) in formulas.PASSING):
        value = value.args[0]
    return [value] if isinstance(value, Symbol) and called(value) == "log_prob" and len(value.args) > 1 else []


def _put_at(script: Script, values: list[Symbol]) -> list[ast.AST]:
    """Where some values went into a buffer."""
    own = {id(each) for each in values}
    places = [
        event.node
        for event in execution(script).events
        if event.name == "store" and event.value is not None and any(id(part) in own for part in _stored(event.value))
    ]
    return list(dict.fromkeys(places))[:3]


def _stored(value: Value) -> list[Value]:
    held = value.items if isinstance(value, Items) else [value]
    return [one for each in held for one in (each, *(kept(each) if isinstance(each, Symbol) else ()))]


# ── running sums ──


def walked_both_ways(script: Script) -> Iterator[tuple[str, Spot]]:
    """for r, v, d in zip(reversed(rewards), values, reversed(flags)): rows of different steps meet."""
    for loop, walked in execution(script).walked.items():
        if not isinstance(loop, ast.For) or not isinstance(walked, Symbol) or walked.op != "zipped" or len(walked.args) < 2:
            continue
        ways = [formulas.is_backwards(each) for each in walked.args]
        if True not in ways or ways.count(False) != 1 or len(ways) - ways.count(True) != 1:
            continue
        held = walked.args[ways.index(False)]
        counted = isinstance(held, Symbol) and (held.op == "range" or called(held) in ("count", "arange"))
        if not counted and len([each for each in ways if each]) > 1:
            yield (
                "COD504",
                _spot(
                    loop.iter,
                    "all but one of these are walked over from the last to the first: rows of different steps meet",
                    "reversed(…)",
                ),
            )


def trace_without_discount(script: Script) -> Iterator[tuple[str, Spot]]:
    """delta = r + gamma * v' - v; A = delta + lambda * A: the sum is discounted by lambda alone, or by gamma alone."""
    for each in laws.recursions(script):
        if not each.is_trace or not each.is_latest:
            continue
        held = formulas.terms(each.sum)
        own = [term for term in held if _is_own(term, each.sum)]
        futures = [
            term
            for term in held
            if term not in own and term.sign > 0 and len(term.factors) > 1 and any(formulas.outputs_in(one) for one in term.factors)
        ]
        discounts = {id(one) for term in futures for one in term.factors if _is_discount(one)}
        if len(own) != 1 or not discounts:
            continue
        factors = [one for one in own[0].factors if formulas.carried(one) is None and formulas.is_scalar(one)]
        if len(factors) == 1 and not any(id(one) in discounts for one in factors) and not _holds(factors[0], discounts):
            yield (
                "COD512",
                _spot(
                    each.sum.node,
                    "the running sum of errors is discounted by lambda alone: what lies far ahead counts as much as what is near",
                    "gamma * lambda",
                ),
            )


def _is_own(term: formulas.Term, whole: Symbol) -> bool:
    """What the pass before left of this very sum."""
    for factor in term.factors:
        held = formulas.carried(factor)
        left = held.args[0] if held is not None else None
        if isinstance(left, Symbol) and left.node is whole.node:
            return True
    return False


def _is_discount(value: Value) -> bool:
    return (
        isinstance(value, Symbol)
        and formulas.is_scalar(value)
        and formulas.flag(value) is None
        and 0.5 < (formulas.number(value) or 0.9) <= 1
    )


def _holds(value: Value, discounts: set[int]) -> bool:
    return any(id(part) in discounts for part in formulas.parts(value, into_networks=False, into_arrays=False))


def tail_worth_nothing(script: Script) -> Iterator[tuple[str, Spot]]:
    """Rollouts of many environments are cut where they are, and the sum of what follows begins at zero."""
    run = execution(script)
    vectors = [
        event
        for event in run.events
        if event.name == "env step"
        and isinstance(event.subject, Symbol)
        and event.subject.op == "env"
        and "vec" in str(event.subject.data).lower()
    ]
    for each in laws.recursions(script) if vectors else ():
        if not each.is_latest or not any(each.cuts.values()):
            continue
        for part in formulas.parts(each.sum, into_networks=False, into_arrays=False):
            began = part.args[1] if part.op == "carried" and len(part.args) > 1 and part.node is each.sum.loops[-1] else None
            if began is None:
                continue
            left = part.args[0]
            is_own = any(one.node is each.sum.node for one in formulas.parts(left, into_networks=False, into_arrays=False))
            zero = isinstance(began, Symbol) and (
                formulas.number(began) == 0 or (began.op == "array" and str(began.data).startswith("zeros") and not began.stored)
            )
            is_value = not is_own and bool(formulas.outputs_in(left)) if each.is_trace else is_own
            if zero and is_value:
                for where in dict.fromkeys((began.node, *formulas.bound_at(run, began)[-1:])):
                    yield (
                        "COD501",
                        _spot(
                            where,
                            "rollouts are cut after so many steps, and what follows the last one is taken for nothing: its value is left out",
                            "begin with the value of the observation after the last step",
                        ),
                    )


def filter_the_wrong_way(script: Script) -> Iterator[tuple[str, Spot]]:
    """lfilter([1], [1, -gamma], x[::-1])[::-1] sums what follows; with +gamma signs alternate, half turned it sums what came before."""
    for call in execution(script).calls:
        if called(call) != "lfilter" or len(call.args) < 3 or not isinstance(call.args[1], Items) or len(call.args[1].items) != 2:
            continue
        if not all(formulas.number(each) == 1 for each in (call.args[0].items if isinstance(call.args[0], Items) else ())):
            continue
        factor = _cast(call.args[1].items[1])
        by = formulas.number(factor)
        is_negative = (isinstance(factor, Symbol) and factor.op == "USub") or (by is not None and by < 0)
        if not is_negative:
            yield (
                "COD512",
                _spot(
                    call.node,
                    "the filter takes away what follows instead of adding it: its second coefficient has to be below zero",
                    "-discount",
                ),
            )


def _cast(value: Value) -> Value:
    """Without float(…)."""
    while isinstance(value, Symbol) and called(value) in ("float", "int", "item") and value.args:
        value = value.args[0]
    return value


# ── what a critic is asked about ──


def action_of_another_observation(script: Script) -> Iterator[tuple[str, Spot]]:
    """Q(s, policy(s')): the critic judges an action that was chosen somewhere else."""
    seen: set[int] = set()
    for event in laws.losses(script):
        for out in formulas.outputs_in(event.value, stored=False) if event.value is not None else ():
            if id(out.node) in seen:
                continue
            asked = differences._question_of(script, out)
            for leaf in asked.chosen:
                bases = {differences.key(base) for base in differences.bases(leaf) if not differences.is_action(script, base)}
                own = {one for one in asked.direct if isinstance(one, int | tuple)}
                acting = list(differences._inner(leaf))
                if not bases or not own or own & bases or not acting or len(asked.direct) != 1 or len(bases) != 1:
                    continue
                if not _is_row(leaf, bases) or not all(_is_entry(each) for each in differences.leaves(out) if differences.key(each) in own):
                    continue
                seen.add(id(out.node))
                for where in dict.fromkeys((formulas.written(out), formulas.written(acting[0]))):
                    yield (
                        "COD528",
                        _spot(
                            where,
                            "the critic is asked about an observation, and about the action that is chosen in another one",
                            "the action of the same observation",
                        ),
                    )


def _is_row(leaf: Value, keys: set[object]) -> bool:
    return all(_is_entry(base) for base in differences.bases(leaf) if differences.key(base) in keys)


def _is_entry(value: Value) -> bool:
    """An entry of a batch that was kept."""
    return isinstance(value, Symbol) and value.op in ("read", "column", "item", "attribute", "sampled")


# ── forms of log-probabilities ──


def log_prob_of_no_action(script: Script) -> Iterator[tuple[str, Spot]]:
    """log_softmax(scores).max(1), or [:, actions]: not those of the actions that were taken, one by one."""
    seen: set[int] = set()
    for event in laws.losses(script):
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            source = part.args[0] if part.args else None
            if called(source) != "log_softmax" or id(part.node) in seen or not gradient(part):  # type: ignore[arg-type]
                continue
            if called(part) in ("max", "amax") and len(part.args) > 1:
                seen.add(id(part.node))
                yield (
                    "COD210",
                    _spot(
                        part.node,
                        "the log-probability is that of the likeliest action, not of the one that was taken",
                        ".gather(1, actions)",
                    ),
                )
            key = part.args[1] if part.op == "item" and len(part.args) > 1 and isinstance(part.args[1], Items) else None
            rows = key.items[0] if key is not None and len(key.items) == 2 else None
            whole = isinstance(rows, Symbol) and rows.op == "slice" and isinstance(rows.data, ast.Slice) and not rows.args
            if (
                whole
                and key is not None
                and isinstance(key.items[1], Symbol)
                and formulas.number(key.items[1]) is None
                and key.items[1].op != "slice"
            ):
                seen.add(id(part.node))
                yield (
                    "COD601",
                    _spot(
                        part.node,
                        "[:, actions] takes the columns of all actions from every row: the result is a square [N, N]",
                        "[range(N), actions]",
                    ),
                )


def critic_never_trained(script: Script) -> Iterator[tuple[str, Spot]]:
    """Advantages are made with what a critic says, and no loss reaches that critic."""
    run = execution(script)
    if not run.complete or not run.optimizers or not laws.losses(script):
        return
    reached = {id(network) for event in laws.losses(script) if event.value is not None for network in gradient(event.value)}
    for policy in laws.policies(script):
        own = [policy.evaluation.leaves[leaf] for leaf in (*policy.own, *policy.later) if leaf in policy.evaluation.leaves]
        answers = [
            out
            for out in own
            if out.op == "out" and isinstance(out.args[0], Symbol) and out.args[0].op == "net" and out.args[0].copy_of is None
        ]
        if answers and not any(id(out.args[0]) in reached for out in answers):
            for where in dict.fromkeys((policy.event.value.node if isinstance(policy.event.value, Symbol) else None, policy.event.node)):
                yield (
                    "COD406",
                    _spot(where, "no loss reaches the critic that advantages are made with: it stays as it was made", "+ value_loss"),
                )
            return


# ── judging ──


def sampled_in_evaluation(script: Script) -> Iterator[tuple[str, Spot]]:
    """A policy that is trained by its log-probabilities is judged by draws, in an environment that nothing is learned from."""
    run = execution(script)
    kept_steps = experience.kept_steps(script)
    trained_in = {id(event.subject) for event in run.events if event.name == "env step" and id(event.value) in kept_steps}
    for event in run.events if trained_in else ():
        if event.name != "env step" or id(event.subject) in trained_in or not isinstance(event.value, Symbol) or len(event.value.args) < 2:
            continue
        for part in formulas.parts(event.value.args[1], into_networks=False, into_arrays=False):
            dist = part.args[0] if called(part) in ("sample", "rsample", "multinomial") and part.args else None
            if dist is not None and formulas.outputs_in(dist):
                for where in dict.fromkeys((event.node, *experience.chosen_at(script, event))):
                    yield (
                        "COD707",
                        _spot(where, "actions are drawn at random in an evaluation: it measures the draws, too", "the likeliest action"),
                    )


# ── what a critic learns from ──


def learns_a_single_reward(script: Script) -> Iterator[tuple[str, Spot]]:
    """A critic whose values are bootstrapped from, or weigh the policy, and that is trained on the reward of one step, or on its own old answer."""
    valued = {formulas.root(out.args[0]) for policy in laws.policies(script) for out in _answers(policy)}
    for error in laws.errors(script):
        answers = formulas.outputs_in(error.answer, stored=False)
        if not answers or not any(formulas.root(out.args[0]) in valued for out in answers):
            continue
        found = laws.evaluate(script, error.goal)
        if found is None or len(found[0].whole) != 1:
            continue
        leaf, slope = next(iter(found[0].whole.items()))
        if leaf.kind == "reward" and slope > 0:
            text = "the critic is trained on the reward of a single step: it never learns what comes after it"
        elif leaf.kind == "value" and slope == 1 and _asks_the_same(found[1].leaves[leaf], answers):
            asked = found[1].leaves[leaf]
            if asked.op == "out" and not any(out.args[0] is asked.args[0] for out in answers):
                continue  # one network is trained on what another one says
            text = "the critic is trained on what it said itself of the same state: it learns nothing"
        else:
            continue
        for where in dict.fromkeys((error.where.node, *formulas.bound_at(execution(script), error.goal)[:1])):
            yield "COD516", _spot(where, text, "the return")


def _answers(policy: "laws.Policy") -> list[Symbol]:
    return [symbol for leaf, symbol in policy.evaluation.leaves.items() if leaf.kind == "value" and symbol.op == "out"]


def _asks_the_same(value: Symbol, answers: list[Symbol]) -> bool:
    return value.op == "out" and any(formulas.root(value.args[0]) is formulas.root(out.args[0]) for out in answers)


_LAWS: Final = (
    action_beside_another_log_prob, walked_both_ways, trace_without_discount, tail_worth_nothing, filter_the_wrong_way, learns_a_single_reward,
    action_of_another_observation, sampled_in_evaluation, log_prob_of_no_action, critic_never_trained,
)  # fmt: skip


def _found(script: Script) -> list[tuple[str, Spot]]:
    return script.once("laws of rollouts", lambda: [each for law in _LAWS for each in law(script)])


def _law(id: str) -> Callable[[Script], Iterator[Spot]]:
    return lambda script: (spot for found, spot in _found(script) if found == id)


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    id: (_law(id),) for id in ("COD203", "COD210", "COD501", "COD504", "COD512", "COD516", "COD528", "COD707", "COD601", "COD406")
}
"""What is added to which check."""
