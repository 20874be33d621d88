"""What checks say of a script's formulas, by what they are made of (`formulas`), whatever things are called.

Each function adds places to the check whose id it is listed under in `MEANINGS`; that check's page says why it hurts and what to do.
"""

# ruff: noqa: E501 — a message reads best whole

import ast
from builtins import id as builtins_id
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import agreements, exploration, libraries, neglects, paths, schedules, slips, storage
from rlclinic.diagnosis.lint.code.environments import progress, wrappers
from rlclinic.diagnosis.lint.code.reading import flow, words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot
from rlclinic.diagnosis.lint.code.symbolic import (
    agents,
    answering,
    collecting,
    consistency,
    critics,
    differences,
    equations,
    experience,
    formulas,
    laws,
    learning,
    policies,
    replaying,
    returns,
    rollouts,
    sizes,
    tables,
    traces,
    wiring,
)
from rlclinic.diagnosis.lint.code.symbolic.execution import Event, Execution, Items, Record, Symbol, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import Term, called, execution, flag, gradient, outputs_in, role, root, terms

FEWEST_KEPT: Final = 500
_OFTEN: Final = 8
"""Steps between two updates of a slow copy that make it follow as good as at once."""


def spots(id: str, script: Script) -> Iterator[Spot]:
    """What the formulas add to a check."""
    for room in _ROOMS:
        found = [
            replace(spot, law=name_of(id, meaning))
            for meaning in room.get(id, ())
            for spot in meaning(script)
            if hasattr(spot.node, "lineno")
        ]
        if found and room is laws.MEANINGS and any(_speaks(each, script) for each in laws.SAID_BY_ANOTHER.get(id, ())):
            continue
        yield from found


def name_of(id: str, meaning: Callable[[Script], Iterator[Spot]]) -> str:
    """The law that a function adds to a check: COD501 semantics.no_mask."""
    return f"{id} {meaning.__module__.rpartition('.')[2]}.{meaning.__name__.strip('<>')}"


def laws_of(id: str) -> tuple[str, ...]:
    """Every law of a check but its own function."""
    return tuple(name_of(id, meaning) for room in _ROOMS for meaning in room.get(id, ()))


def _speaks(id: str, script: Script) -> bool:
    """Whether a check has something to say, and not by its law alone, unless that stands above others."""

    def speaks() -> bool:
        held = next((each for each in checks.checks("COD") if each.id == id), None)
        lines = cleared(id, script)
        own = held is not None and any(getattr(spot.node, "lineno", 0) not in lines for spot in held.function(script))
        return (
            own
            or any(True for room in _ROOMS if room is not laws.MEANINGS for meaning in room.get(id, ()) for _ in meaning(script))
            or (id not in laws.SAID_BY_ANOTHER and any(True for meaning in laws.MEANINGS.get(id, ()) for _ in meaning(script)))
        )

    return script.once(("speaks", id), speaks)


def _spot(where: ast.AST | None, text: str, fix: str = "") -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix)


# ── targets ──


def _is_trace(target: formulas.Target) -> bool:
    """A trace of advantages: the running sum beside a value of what comes next."""
    carried = any(formulas.carried(factor) is not None for factor in target.future.factors)
    others = [term for term in terms(target.sum) if len(term.factors) > 1 and term.factors != target.future.factors]
    return carried and any(any(outputs_in(one) for one in term.factors) for term in others)


def no_mask(script: Script) -> Iterator[Spot]:
    for target in formulas.targets(script) if not experience.knows_no_ends(script) else ():
        if not _is_trace(target) and not _masked(target):
            stored = [each for factor in target.future.factors for each in _stored_factor(factor)]
            answers = [out for factor in target.future.factors for out in outputs_in(factor)]
            tables = bool(answers) and all(isinstance(out.args[0], Symbol) and out.args[0].op == "array" for out in answers)
            compared = [
                origin
                for factor in target.future.factors
                for part in formulas.parts(factor)
                if part.op == "Compare" and part.data in ("Is", "IsNot")
                for origin in formulas.origins(part.args[0])
            ]
            for statement in [each for origin in compared[-1:] for each in formulas.bound_at(execution(script), origin)[-2:]]:
                yield _spot(
                    statement,
                    "nothing is kept as None where an episode ended, though that is how the target looks for ends",
                    "None if terminated",
                )
                branch = collecting.enclosing(script, statement, ast.If)
                if isinstance(branch, ast.If):
                    yield _spot(branch.test, "this does not say where an episode ended, and None is kept where it holds", "if terminated")
            for where in stored or [target.sum]:
                # Rows of a table that belong to terminal states are never written, and stay at 0.
                yield Spot(
                    where.node or ast.Pass(),
                    "what a network says of the next observation is added to the reward, and nothing takes it away where the episode ended",
                    "* (1 - terminated)",
                    0.4 if tables else 1.0,
                )


def _stored_factor(factor: Value) -> list[Symbol]:
    """A discount that was computed when the transition was stored."""
    if formulas.is_scalar(factor) or outputs_in(factor):
        return []
    chosen = [part for part in formulas.parts(factor, into_networks=False) if part.op == "phi" and part is not factor and flag(part)]
    return chosen or [origin for origin in formulas.origins(factor) if origin is not factor and origin.op in ("Pow", "Mult")]


def masked_lines(script: Script) -> set[int]:
    """Lines of targets that are masked, whatever the mask is called."""
    held = [target.sum.node for target in formulas.targets(script) if _masked(target) or _is_trace(target)]
    return {node.lineno for node in held if isinstance(node, ast.expr)}


def _masked(target: formulas.Target) -> bool:
    direct = [flag(factor) for factor in target.future.factors]
    if _is_choice(target):
        return False
    if any(_is_complement(factor) for factor in target.future.factors):
        return True
    if any(formulas.marks_end(each) for each in (*direct, target.chosen)):
        return True
    return any(formulas.depends_on_flag(factor) for factor in target.future.factors) or any(
        formulas.marks_end(flag(guard)) or formulas.depends_on_flag(guard) for guard in target.sum.guards
    )


def _is_complement(factor: Value) -> bool:
    """~x, 1 - x: what multiplies a future like this is a mask, wherever it comes from."""
    if not isinstance(factor, Symbol) or outputs_in(factor):
        return False
    whole = (
        factor.op == "Sub" and len(factor.args) == 2 and formulas.number(factor.args[0]) == 1.0 and not formulas.is_scalar(factor.args[1])
    )
    return factor.op in ("Invert", "Not") or whole


def _is_choice(target: formulas.Target) -> bool:
    """x * a + (1 - x) * b: a flag that chooses between two futures, and takes neither away."""
    flags = [flag(factor) for term in terms(target.sum) for factor in term.factors if term.sign > 0]
    return {1, -1} <= {each.sign for each in flags if each is not None}


def mask_inverted(script: Script) -> Iterator[Spot]:
    text = "the value of what comes next counts only where the episode ended, and nowhere else: the mask is the wrong way round"
    for target in formulas.targets(script):
        if target.chosen is not None and target.chosen.sign > 0 and "named" not in target.chosen.ends:
            yield _spot(target.sum.node, text, "where(terminated, reward, reward + gamma * value)")
        for whole in target.future.factors:
            for factor in formulas.alternatives(whole):
                held = flag(factor)
                if held is not None and held.sign > 0 and "named" not in held.ends and not _is_choice(target):
                    chosen = [each for each in _stored_factor(factor) if flag(each) is not None]
                    chosen += [
                        part
                        for part in formulas.parts(factor, into_networks=False)
                        if part.op == "put" and (put := flag(part.args[0])) is not None and put.sign > 0
                    ][-1:]
                    own = [factor] if factor is not whole and isinstance(factor, Symbol) else [target.sum]
                    handed = [
                        event.calls[-1][0]
                        for event in execution(script).events
                        if event.name == "store" and event.calls and any(event.node is part.node for part in chosen)
                    ]
                    for where in dict.fromkeys(((chosen or own)[0].node, *handed[-1:], target.sum.node, *_left_empty(factor))):
                        yield _spot(where, text, "1 - terminated")
                taken = formulas.chosen_by_flag(factor) if held is None else None
                if taken is not None and taken[0].sign > 0 and "named" not in taken[0].ends:
                    for where in dict.fromkeys((formulas.written(taken[1]), *_left_empty(factor))):
                        yield _spot(where, text, "0 where terminated")
    for total, running in (*formulas.returns(script), *formulas.traces(script)):
        for whole in running.factors:
            for factor in formulas.alternatives(whole):
                held = flag(factor) if formulas.carried(factor) is None else None
                if held is not None and held.sign > 0 and "named" not in held.ends:
                    yield _spot(
                        formulas.written(factor) if factor is not whole else total.node,
                        "the sum of what follows is kept only where the episode ended, and nowhere else: the mask is the wrong way round",
                        "1 - ended",
                    )


def _left_empty(factor: Value) -> list[ast.AST]:
    """Where None stands in the place of a next observation."""
    return [
        part.node
        for part in formulas.parts(factor, into_networks=False)
        if part.op == "phi"
        and part.node is not None
        and any(isinstance(each, Symbol) and each.op == "const" and each.data is None for each in part.args[1:])
    ][:1]


def _spans_episodes(script: Script) -> bool:
    """Whether experience of several episodes may follow one another in what is collected: not where a loop ends with each of them."""
    run = execution(script)
    steps = [event for event in run.events if event.name == "env step" and event.loops]
    resets = [event for event in run.events if event.name == "env reset"]
    if not steps or not resets:
        return True
    for step in steps:
        collected = step.loops[-1]
        within = any(collected in reset.loops for reset in resets) or any(
            event.name == "backward" and collected in event.loops for event in run.events
        )
        vector = any(word in str(getattr(step.subject, "data", "")) for word in ("Vec", "vec"))
        conditional = any(isinstance(each, ast.For | ast.While) and _leaves_at_end(each) for each in (collected,))
        if within or vector or not conditional:
            return True
    return False


def _leaves_at_end(loop: ast.For | ast.While) -> bool:
    """Whether a loop is left where an episode ends."""
    if isinstance(loop, ast.While) and words.mentions(loop.test, words.MASK):
        return True
    return any(
        isinstance(each, ast.If)
        and words.mentions(each.test, words.MASK)
        and any(isinstance(one, ast.Break | ast.Return) for one in ast.walk(each))
        for each in ast.walk(loop)
    )


def trace_not_cut(script: Script) -> Iterator[Spot]:
    if not _spans_episodes(script):
        return
    for target in formulas.targets(script):
        cut = any(formulas.flag(factor) or _flag_beside(factor) for factor in target.future.factors)
        guarded = any(flag(guard) or formulas.depends_on_flag(guard) for guard in target.sum.guards)
        if _is_trace(target) and not cut and not guarded:
            yield _spot(
                target.sum.node,
                "the running advantage goes on across the end of an episode: no flag is among what it is multiplied by",
                "* (1 - ended)",
            )
    for total, running in formulas.traces(script):
        errors = [factor for term in terms(total) if term != running for factor in term.factors]
        known = any(formulas.depends_on_flag(factor) for factor in errors)
        cut = any(
            formulas.flag(factor) or formulas.depends_on_flag(factor)
            for factor in running.factors
            if formulas.carried(factor) is not factor
        )
        guarded = any(formulas.depends_on_flag(guard) for guard in total.guards)
        if any(called(part) == "grad" for factor in errors for part in formulas.parts(factor, into_networks=False)):
            continue  # a sum of gradients, in which rewards take part somewhere
        if known and not cut and not guarded and any(outputs_in(factor) for factor in errors):
            yield _spot(
                total.node,
                "the running advantage goes on across the end of an episode: no flag is among what it is multiplied by",
                "* (1 - ended)",
            )


def _flag_beside(value: Value) -> bool:
    """A factor that is a flag in part: a choice between two flags, an array of them."""
    if not isinstance(value, Symbol) or value.op == "carried":
        return False
    return any(flag(part) is not None for part in formulas.parts(value, into_networks=False))


def truncation_in_mask(script: Script) -> Iterator[Spot]:
    for target in formulas.targets(script):
        for factor in target.future.factors if not _is_trace(target) else ():
            keys = [
                put.args[1]
                for part in formulas.parts(factor)
                if part.op in ("array", "item", "method")
                for put in part.stored
                if isinstance(put, Symbol) and len(put.args) > 1
            ]
            kept = [one for origin in formulas.origins(factor) if origin.op == "Mult" for one in formulas.factors(origin)]
            held = flag(factor) or next((one for one in map(flag, [*keys, *kept]) if one is not None), None)
            for part in formulas.parts(factor, into_networks=True) if held is not None and "truncated" in held.ends else ():
                decided = flag(part.args[0]) if part.op == "phi" else None
                empty = part.op == "phi" and any(
                    isinstance(each, Symbol) and each.op == "const" and each.data is None for each in part.args[1:]
                )
                if empty and decided is not None and {"terminated", "truncated"} <= decided.ends:
                    yield _spot(
                        part.node,
                        "at a time limit, too, no next observation is kept: the future there is worth something, and the target says that it is not",
                        "if terminated",
                    )
            taken = formulas.chosen_by_flag(factor) if held is None else None
            if taken is not None and {"terminated", "truncated"} <= taken[0].ends and taken[0].sign < 0 and _left_empty(factor):
                for where in dict.fromkeys((target.sum.node, *_left_empty(factor))):
                    yield _spot(
                        where,
                        "a time limit is taken for an end: where it cuts an episode, the future is worth something, and the target leaves it out",
                        "0 only where terminated",
                    )
            # A discount that is 0 where a transition was handed over with either end.
            for part in formulas.parts(factor, into_networks=False) if held is None and not outputs_in(factor) else ():
                test = part.args[0] if part.op == "phi" and isinstance(part.args[0], Symbol) else None
                decided = flag(test) if test is not None else None
                nothing = [formulas.number(each) == 0 for each in part.args[1:]] if decided is not None else []
                if (
                    test is not None
                    and decided is not None
                    and {"terminated", "truncated"} <= decided.ends
                    and nothing == [decided.sign > 0, decided.sign < 0]
                ):
                    yield _spot(
                        _where_joined(script, test, factor) if formulas.bound_at(execution(script), test) else test.node,
                        "a time limit is taken for an end: where it cuts an episode, the future is worth something, and its discount is 0 there",
                        "0 only where terminated",
                    )
            if held is not None and "truncated" in held.ends:
                for part in formulas.parts(factor):
                    joined = part.op in ("Or", "BitOr") or called(part) in ("logical_or", "maximum", "bitwise_or")
                    inner = flag(part) if joined else None
                    if inner is not None and {"terminated", "truncated"} <= inner.ends:
                        for where in dict.fromkeys((_where_joined(script, part, factor), part.node)):
                            yield _spot(
                                where,
                                "a time limit is stored as an end: where it cuts an episode, the future is worth something, and the target says that it is not",
                                "store terminated alone",
                            )


def _where_joined(script: Script, joined: Symbol, factor: Value) -> ast.AST | None:
    """Where both ends go into a mask as one: where they are joined, or, if that also ends episodes, where it is stored or masks."""
    run = execution(script)
    asked = [guard for event in run.events for guard in event.guards[-1:]] + list(run.tests.values())
    same = {id(joined)} | {id(each) for each in (*run.sums, *run.flags) if each.node is joined.node}
    decides = any(id(part) in same for test in asked for part in formulas.parts(test, into_networks=False, into_arrays=False))
    stored = experience.stored_at(script, joined)
    masks = [
        part
        for part in formulas.parts(factor, into_networks=False)
        if any(each is joined for each in part.args) and part.op in ("Sub", "Not", "Invert")
    ]
    begun, ended = getattr(stored, "lineno", 0), getattr(stored, "end_lineno", None) or 0
    if stored is not None and begun <= getattr(joined.node, "lineno", 0) <= ended:
        return stored
    apart = stored is not None and experience.keeps_apart(script)
    if stored is not None and not apart and decides:
        return stored
    if masks and stored is not None:
        # Kept for something else, too, such as the cut of a trace: the mask is the place.
        return masks[0].node
    if not decides:
        # Joined in the call that stores it, or a name that is only stored.
        return stored if stored is not None and not apart else joined.node
    if stored is not None:
        return stored
    for part in formulas.parts(factor, into_networks=False):
        if any(each is joined for each in part.args) and part.op in ("Sub", "Not", "phi", "Invert") and part is not joined:
            return part.node
    return joined.node


def never_bootstrapped(script: Script) -> Iterator[Spot]:
    """A next value that is kept as 0 at time limits, too."""
    for target in formulas.targets(script):
        for factor in target.future.factors:
            for origin in formulas.parts(factor, into_networks=False):
                held = flag(origin.args[0]) if origin.op == "phi" else None
                if (
                    held is not None
                    and {"terminated", "truncated"} <= held.ends
                    and any(formulas.number(each) == 0 for each in origin.args[1:])
                ) and any(outputs_in(each) for each in origin.args[1:]):
                    where = origin.args[0] if isinstance(origin.node, ast.FunctionDef) and isinstance(origin.args[0], Symbol) else origin
                    yield _spot(
                        where.node,
                        "a time limit is taken for an end: what the critic says of the next observation is left out there, too",
                        "0 if terminated else value",
                    )


def online_network_in_target(script: Script) -> Iterator[Spot]:
    run = execution(script)
    copied = formulas.copies(run)
    acting = {builtins_id(root(out.args[0])) for event in experience.env_steps(script) for out in _chosen_by(event)}
    # A copy that acts is a policy that lags, and holds no target steady.
    sources = [(copy.source, copy.network) for copy in copied if builtins_id(copy.network) not in acting]
    if not sources:
        return
    reached = {id(part) for event in formulas.backwards(run) if event.value is not None for part in formulas.parts(event.value)}
    learned = {key for event in formulas.backwards(run) if event.value is not None for key in _with_gradient(event.value)}
    for target in formulas.targets(script):
        flows = any(builtins_id(out) in learned for factor in target.future.factors for out in outputs_in(factor))
        if _is_trace(target) or id(target.sum) not in reached or flows:
            continue
        answers = [out for factor in target.future.factors for out in outputs_in(factor)]
        fresh = {id(out) for factor in target.future.factors for out in experience.asked_here(factor)}
        if not any(id(out) in fresh for out in answers) and all(out.loops != target.sum.loops for out in answers):
            # Values of the rollout: a copy of the policy is kept for something else.
            continue
        next_actions = [inner for out in answers for inner in _given_by_others(out) if _is_for_next(inner)]
        for out in (*answers, *next_actions):
            top = root(out.args[0])
            if any(top is source for source, _ in sources) and not any(top is copy for _, copy in sources) and _asked_about_next(out):
                yield _spot(
                    formulas.written(out),
                    "the target comes from the network that is being trained, though there is a slow copy of it: each step moves what it runs after",
                    "ask the copy",
                )


def _chosen_by(event: Event) -> list[Symbol]:
    """The answers that an action was chosen by."""
    step = event.value
    return outputs_in(step.args[1]) if isinstance(step, Symbol) and len(step.args) > 1 else []


def _given_by_others(out: Symbol, depth: int = 6) -> Iterator[Symbol]:
    """What other networks answered that a network is asked about, through its own layers."""
    for given in out.args[1:]:
        for inner in outputs_in(given, stored=False):
            if root(inner.args[0]) is not root(out.args[0]):
                yield inner
            elif depth > 0:
                yield from _given_by_others(inner, depth - 1)


def _is_for_next(out: Symbol) -> bool:
    """An action for the next observation, and for nothing else: not one that was taken and stored."""
    return "next_obs" in {role(given) for given in (*out.args[1:], *_first_layer(out).args[1:])}


def _asked_about_next(out: Symbol) -> bool:
    roles = {role(argument) for argument in out.args[1:]}
    return "next_obs" in roles or not roles & {"obs"}


def larger_of_critics(script: Script) -> Iterator[Spot]:
    for target in formulas.targets(script):
        for factor in target.future.factors:
            for part in formulas.parts(factor, into_networks=False):
                if called(part) in ("max", "maximum", "fmax") and _compares_networks(part):
                    yield _spot(
                        part.node,
                        "the larger one of two critics is taken for the target: errors upwards are kept and grow",
                        "the smaller one",
                    )


def _compares_networks(value: Symbol) -> bool:
    given = [argument for argument in value.args if outputs_in(argument)]
    tops = [{id(out.args[0]) for out in outputs_in(each)} for each in given]
    return len(given) == 2 and not tops[0] & tops[1]


# ── losses ──


def _squares(value: Value) -> Iterator[tuple[Symbol, list[Value]]]:
    """Squared errors in a loss: the symbol, and the two sides (or the one difference)."""
    for part in formulas.parts(value, into_arrays=False):
        if called(part) in sizes.SQUARES and len(part.args) >= 2:
            yield part, list(part.args[:2])
        elif (part.op == "Pow" and formulas.number(part.args[1]) == 2) or called(part) in ("pow", "square"):
            yield part, [part.args[0]]


def target_with_gradient(script: Script) -> Iterator[Spot]:
    run = execution(script)
    sums = [target for target in formulas.targets(script) if not target.sum.free and not _is_trace(target)]
    for event in formulas.backwards(run):
        for _, sides in _squares(event.value) if event.value is not None else ():
            for side in sides:
                reached = _with_gradient(side)
                for target in sums:
                    asked = [out for factor in target.future.factors for out in outputs_in(factor)]
                    through = any(builtins_id(out) in reached for out in asked) or not asked
                    if asked and all(_is_enumerated(given) for out in asked for given in out.args[1:]):
                        continue  # every state at once, without a draw: the gradient of the residual is not biased
                    if builtins_id(target.sum) in reached and through and _trained(run, target.future):
                        for where in (target.sum.node, *(formulas.written(out) for out in asked if builtins_id(out) in reached)):
                            yield _spot(
                                where,
                                "the gradient flows into the target, too: the network is drawn to make its own targets easy",
                                "with torch.no_grad(): around it, or .detach()",
                            )


def _is_enumerated(value: Value) -> bool:
    """Whether states are written down one by one: nothing was drawn, stepped, stored or given from outside, but for how many there are."""
    held = list(formulas.parts(value, into_networks=False))
    names = {called(part) for part in held}
    counts = {builtins_id(each) for part in held if called(part) in flow.ENUMERATES for each in part.args}
    made = all(part.op in ("call", "method", "item", "slice", "const", "ext") or builtins_id(part) in counts for part in held)
    return made and bool(names & flow.ENUMERATES) and not names & flow.DRAWS


def _with_gradient(value: Value) -> set[int]:
    """Symbols from which a gradient would come to a value."""
    seen: set[int] = set()
    pending = [value]
    while pending and len(seen) < formulas.MOST_PARTS:
        current = pending.pop()
        if id(current) in seen or not isinstance(current, Symbol | Items):
            continue
        if isinstance(current, Items):
            seen.add(id(current))
            pending += current.items
            continue
        if current.free or called(current) in formulas.DRAWN or current.op in ("array", "Compare"):
            continue
        seen.add(id(current))
        pending += current.args
    return seen


def _trained(run: Execution, future: Term) -> bool:
    reached = [network for factor in future.factors for network in gradient(factor)]
    return any(formulas.is_trained(run, network) or (not run.optimizers and network.copy_of is None) for network in reached)


def policy_sign(script: Script) -> Iterator[Spot]:
    run = execution(script)
    for event in formulas.backwards(run):
        held = terms(event.value) if event.value is not None else []
        if any(_is_critic_answer(term) for term in held):
            continue
        for term in held:
            sign = _log_prob_sign(term)
            if sign is not None and sign * term.sign > 0 and not any(_is_turned_round(factor) for factor in term.factors):
                yield _spot(
                    term.node or event.node,
                    "the loss falls when actions that did well become less likely: the sign of the policy's part is wrong",
                    "-(log_prob * advantage).mean()",
                )


def knows_policy_loss(script: Script) -> bool:
    """Whether a loss has a policy's part that is understood."""
    return any(True for _ in weighted(script))


def weighted(script: Script) -> Iterator[tuple[Event, Term, Value]]:
    """Policies' parts of losses, and what log-probabilities or ratios are weighted with in them."""
    for event in formulas.backwards(execution(script)):
        for term in terms(event.value) if event.value is not None else ():
            if _log_prob_sign(term) is not None:
                for factor in term.factors:
                    if _log_prob_factor(factor) is None and not formulas.is_scalar(factor):
                        yield event, term, factor
    for chosen, _, event, _ in surrogate(script):
        for term in terms(chosen.args[0]):
            for factor in term.factors:
                if not _is_ratio(factor) and not formulas.is_scalar(factor):
                    yield event, Term(1, [factor], formulas.written(chosen)), factor


def weighted_by_value(script: Script) -> Iterator[Spot]:
    """A policy gradient that is weighted with what the critic says, without any reward."""
    for event, term, factor in weighted(script):
        held = terms(factor)
        made = [each for each in formulas.origins(factor) if each.op != "const"]
        plain = bool(made) and all(each.op == "out" and _is_one_number(each) for each in made)
        if plain and not gradient(factor) and len(held) == 1:
            yield _spot(
                term.node or event.node,
                "the policy's part is weighted with the value of the state, and no reward is in it: every action of a good state is reinforced",
                "advantage = return - value",
            )


def _is_one_number(out: Symbol) -> bool:
    """Whether a network answers with one number for an observation alone."""
    network = out.args[0]
    last = network.args[-1] if isinstance(network, Symbol) and network.data == "Sequential" and network.args else network
    size = last.args[1] if isinstance(last, Symbol) and last.data == "Linear" and len(last.args) > 1 else None
    return formulas.number(size) == 1 and len(out.args) == 2 and called(out.args[1]) not in ("cat", "concatenate", "hstack")


def advantage_turned_round(script: Script) -> Iterator[Spot]:
    """value - target as the weight of a policy gradient."""
    for event, term, factor in weighted(script):
        if (_log_prob_sign(term) or 0) * term.sign > 0:
            continue  # (value - target) * log_prob, without a minus: turned round twice
        inner = learning.unnormalized(factor)
        while isinstance(inner, Symbol) and called(inner) in formulas.PASSING and inner.args:
            inner = inner.args[0]
        held = terms(inner)
        rewards = [one for one in held if any(formulas.is_reward(each) for each in one.factors)]
        values = [one for one in held if one not in rewards and any(outputs_in(each) for each in one.factors)]
        if len(rewards) <= 1 and _is_turned_round(inner) and any(one.sign > 0 for one in values):
            yield _spot(
                inner.node if isinstance(inner, Symbol) else event.node,
                "the advantage is turned round: it is negative where an action did better than expected",
                "target - value",
            )


def _is_taken_apart(script: Script, event: Event) -> bool:
    """grad(loss, weights): the gradient reaches the weights that are named, and no others."""
    line = getattr(event.node, "lineno", 0)
    return any(
        script.dotted(call.func).endswith("autograd.grad") and (len(call.args) > 1 or call.keywords)
        for call in script.calls("grad")
        if call.lineno == line
    )


def advantage_with_gradient(script: Script) -> Iterator[Spot]:
    for event, term, factor in weighted(script):
        if event.name == "backward" and _is_taken_apart(script, event):
            continue
        if gradient(factor):
            made = [part for part in formulas.parts(factor, into_networks=False) if part.op == "Sub" and not part.free and gradient(part)]
            places = [formulas.written(each) for each in (*made[-1:], *made[:1])]
            # Of an advantage that is normalized afterwards, the first difference is where the value enters.
            innermost = [each for each in made if not any(part in made for one in each.args for part in formulas.parts(one, False, False))]
            for where in dict.fromkeys((*(places or [term.node or event.node]), *map(formulas.written, innermost[:1]), term.node)):
                yield _spot(
                    where,
                    "the advantage carries the critic's gradient into the policy's loss: the critic is drawn to make actions look good",
                    ".detach()",
                )


def _is_turned_round(weight: Value) -> bool:
    """baseline - reward: what is subtracted is the reward, by where it comes from, or by its name where that is not seen."""
    inner = learning.unnormalized(weight)
    while isinstance(inner, Symbol) and called(inner) in formulas.PASSING and inner.args:
        inner = inner.args[0]
    held = terms(inner)
    rewards = [one for one in held if any(formulas.is_reward(each) for each in one.factors)]
    if rewards:
        return len(held) > len(rewards) and all(one.sign < 0 for one in rewards)
    node = inner.node if isinstance(inner, Symbol) and inner.op == "Sub" else None
    return isinstance(node, ast.BinOp) and words.RETURN(words.own_name(node.right)) and not words.RETURN(words.own_name(node.left))


def _log_prob_sign(term: Term) -> int | None:
    """The sign of a log-probability that is multiplied by an advantage; None where the term is nothing of the kind."""
    signs, others = [], 0
    for factor in term.factors:
        sign = _log_prob_factor(factor)
        if sign is not None:
            signs.append(sign)
        elif not formulas.is_scalar(factor):
            others += 1
    return signs[0] if len(signs) == 1 and others == 1 else None


def _log_prob_factor(factor: Value) -> int | None:
    """1 for log_prob with a gradient, -1 for its negative; None for anything else."""
    if not gradient(factor):
        return None
    held = terms(factor)
    found = [term for term in held if len(term.factors) == 1 and _is_log_prob(term.factors[0])]
    return found[0].sign if found and len(found) == len(held) else None


def _is_log_prob(value: Value) -> bool:
    if isinstance(value, Items):
        return bool(value.items) and all(_is_log_prob(each) for each in value.items)
    made = [_summed(origin) for origin in formulas.origins(value) if origin.op != "const"]
    return bool(made) and all((called(each) == "log_prob" and each.op == "method") or _is_log_of_probability(each) for each in made)


def _is_log_of_probability(value: Symbol) -> bool:
    """log(softmax(…)[action]), log_softmax(…).gather(1, action)."""
    if called(value) == "log" and value.args:
        inner = list(formulas.parts(value.args[0], into_networks=False, into_arrays=False))
        softened = any(called(part) == "softmax" or (part.op == "out" and _ends_in_softmax(part)) for part in inner)
        return softened and any(part.op in ("item", "read") or called(part) in ("gather", "sum", "index_select") for part in inner)
    chosen = called(value) in ("gather", "take_along_dim") or (value.op in ("item", "read") and len(value.args) > 1)
    return chosen and bool(value.args) and called(value.args[0]) == "log_softmax"


def _ends_in_softmax(out: Symbol) -> bool:
    network = out.args[0]
    last = network.args[-1] if isinstance(network, Symbol) and network.args else network
    return isinstance(last, Symbol) and last.data == "Softmax"


def _summed(value: Symbol) -> Symbol:
    while called(value) in ("sum", "mean", *formulas.PASSING) and value.args and isinstance(value.args[0], Symbol):
        value = value.args[0]
    return value


def _is_critic_answer(term: Term) -> bool:
    """What a critic says of an action that a network chose, with the gradient of that network."""
    for factor in term.factors:
        for out in outputs_in(factor):
            if not out.free and any(gradient(given) for given in out.args[1:]) and len(out.args) >= 2 and _mixes_action(out):
                return True
    return False


def _first_layer(out: Symbol, depth: int = 8) -> Symbol:
    """The layer that gets the input, of a network that is written layer by layer."""
    inner: Value = out.args[1] if len(out.args) == 2 else out
    while (
        isinstance(inner, Symbol)
        and inner.op in ("method", "call")
        and called(inner) not in ("cat", "concatenate", "hstack")
        and inner.args
    ):
        inner = inner.args[0]
    return _first_layer(inner, depth - 1) if depth and inner is not out and isinstance(inner, Symbol) and inner.op == "out" else out


def _mixes_action(out: Symbol) -> bool:
    """Whether a network is asked about something that another network made, beside something else."""
    given = _first_layer(out).args[1:]
    if len(given) >= 2:
        return any(gradient(each) for each in given) and any(not gradient(each) for each in given)
    joined = [each for each in given if called(each) in ("cat", "concatenate", "hstack")]
    return any(
        isinstance(one.args[0], Items)
        and any(gradient(each) for each in one.args[0].items)
        and any(not gradient(each) for each in one.args[0].items)
        for one in joined
        if isinstance(one, Symbol) and one.args
    )


def actor_sign(script: Script) -> Iterator[Spot]:
    run = execution(script)
    for event, loss in [(each, way) for each in formulas.backwards(run) for way in formulas.ways(each.value)]:
        held = terms(loss)
        answers = [term for term in held if _is_critic_answer(term) and not any(_is_square(one) or _is_class(one) for one in term.factors)]
        soft = any(_holds_log_prob(factor) for term in held for factor in term.factors if term not in answers)
        for term in answers:
            if term.sign > 0 and not soft:
                yield _spot(
                    term.node or event.node,
                    "the loss falls with the value of the actor's own actions: the actor learns to act as badly as it can",
                    "-critic(obs, actor(obs)).mean()",
                )


def _is_class(value: Value) -> bool:
    """The error of a classifier, as of a discriminator: its answer is no value."""
    return any(
        "cross_entropy" in called(part)
        or (part.op == "out" and isinstance(part.args[0], Symbol) and str(part.args[0].data).startswith(("BCE", "CrossEntropy")))
        for part in formulas.parts(value, into_networks=False)
    )


def _is_square(value: Value) -> bool:
    return any(
        called(part) in sizes.SQUARES or part.op == "Pow" or called(part) in ("pow", "square")
        for part in formulas.parts(value, into_networks=False, into_arrays=False)
    )


def entropy_in_actor_loss(script: Script) -> Iterator[Spot]:
    run = execution(script)
    for event in formulas.backwards(run):
        held = terms(event.value) if event.value is not None else []
        answers = [term for term in held if _is_critic_answer(term) and not any(_is_square(factor) for factor in term.factors)]
        charged = [
            term for term in held if term not in answers and any(_holds_log_prob(factor) and gradient(factor) for factor in term.factors)
        ]
        if not answers or not charged:
            continue
        if answers[0].sign > 0:
            yield _spot(
                answers[0].node or event.node,
                "the loss falls with the value of the actor's own actions: the actor learns to act as badly as it can",
                "alpha * log_prob - q",
            )
        for term in charged:
            if term.sign < 0 and answers[0].sign < 0:
                for where in (term.joined or term.node or event.node, *_joined_with_value(event.value)):
                    yield _spot(
                        where,
                        "log-probabilities are rewarded where they should be charged: the policy loses its randomness",
                        "alpha * log_prob - q",
                    )


def _joined_with_value(value: Value | None) -> list[ast.AST]:
    """The sum in which a log-probability meets a critic's value."""
    for part in formulas.parts(value, into_networks=False, into_arrays=False) if value is not None else ():
        if part.op in ("Add", "Sub") and len(part.args) == 2 and part.node is not None:
            certain = [_is_log_prob_like(each) for each in part.args]
            if certain[0] != certain[1] and outputs_in(part.args[certain.index(False)], stored=False):
                return [part.node]
    return []


def _holds_log_prob(value: Value) -> bool:
    """A log-probability, with or without its correction for squashing."""
    return any(term.sign > 0 and any(_is_log_prob(factor) for factor in term.factors) for term in terms(_detached(value)))


def soft_value_sign(script: Script) -> Iterator[Spot]:
    for target in formulas.targets(script):
        for factor in target.future.factors:
            held = terms(factor)
            if len(held) > 1 and any(outputs_in(one) for term in held for one in term.factors if term.sign > 0):
                for term in held:
                    if term.sign > 0 and any(_holds_log_prob(one) for one in term.factors):
                        for where in (term.joined or target.sum.node, *_joined_with_value(factor)):
                            yield _spot(
                                where,
                                "the log-probability is added to the value of what comes next: certainty is rewarded, and the policy stops exploring",
                                "next_q - alpha * next_log_prob",
                            )


def surrogate(script: Script) -> Iterator[tuple[Symbol, int, Event, int]]:
    """The clipped objectives of PPO in losses: the choice, the sign it has in the loss, and the sign of what is chosen from."""
    for event in formulas.backwards(execution(script)):
        for term in terms(event.value) if event.value is not None else ():
            for factor in term.factors:
                chosen = _bare(factor)
                if (
                    called(chosen) in ("min", "minimum", "max", "maximum", "fmin", "fmax")
                    and isinstance(chosen, Symbol)
                    and len(chosen.args) == 2
                ):
                    inner = [terms(argument) for argument in chosen.args]
                    if all(len(one) == 1 and any(_is_ratio(each) for each in one[0].factors) for one in inner):
                        yield chosen, term.sign, event, inner[0][0].sign


def _bare(value: Value) -> Value:
    while isinstance(value, Symbol) and called(value) in ("mean", "sum", "squeeze", "view") and value.args:
        value = value.args[0]
    return value


def _is_ratio(value: Value) -> bool:
    for part in formulas.parts(value, into_networks=False, into_arrays=False):
        if called(part) == "exp" and part.args and any(_is_log_prob_like(each) for each in (part.args[0],)):
            return True
    return False


def _is_log_prob_like(value: Value) -> bool:
    return any(called(part) == "log_prob" for part in formulas.parts(value, into_networks=False))


def surrogate_sign(script: Script) -> Iterator[Spot]:
    for chosen, sign, _, inner in surrogate(script):
        if sign * inner > 0:
            yield _spot(
                chosen.node,
                "the loss falls when actions that did well become less likely: the objective needs a minus before it",
                "-torch.min(…).mean()",
            )


def halves_of_unlike_sign(script: Script) -> Iterator[Spot]:
    """max(advantage * ratio, -advantage * clipped ratio)"""
    for chosen, _, _, _ in surrogate(script):
        signs = [terms(each)[0].sign for each in chosen.args]
        for half in chosen.args if signs[0] != signs[1] else ():
            for where in dict.fromkeys((formulas.written(half), *formulas.bound_at(execution(script), half)[:1], chosen.node)):
                yield _spot(
                    where, "one of the two objectives has lost its sign: they are never compared as they should be", "the same sign"
                )


def surrogate_extreme(script: Script) -> Iterator[Spot]:
    for chosen, sign, _, inner in surrogate(script):
        smaller = called(chosen) in ("min", "minimum", "fmin")
        if sign * inner < 0 and smaller == (inner < 0):
            yield _spot(
                chosen.node,
                "the wrong one of the two objectives is taken: clipping then holds back nothing",
                "min of the objectives, or max of their negatives",
            )


def _entropies(script: Script) -> Iterator[tuple[Event, Term, bool]]:
    """Entropies in losses, and whether they are rewarded: as a method of a distribution, or written out as a sum of p * log(p)."""
    for event in formulas.backwards(execution(script)):
        for term in terms(event.value) if event.value is not None else ():
            for factor in term.factors:
                made = [origin for origin in formulas.origins(_bare(factor)) if origin.op != "const"]
                if made and all(called(_summed(each)) == "entropy" for each in made) and len(term.factors) > 1:
                    yield event, term, term.sign < 0
                if any(other is not factor and _is_logarithm_of(factor, other) for other in term.factors):
                    yield event, term, term.sign > 0


def _is_logarithm_of(value: Value, other: Value) -> bool:
    """log(p) beside p, log_softmax(z) beside softmax(z) or beside its own exponential."""
    if not isinstance(value, Symbol) or not isinstance(other, Symbol) or not gradient(other):
        return False
    if called(value) == "log":
        return any(other is part for part in formulas.parts(value, into_networks=False, into_arrays=False))
    if called(other) == "exp" and other.args:
        return other.args[0] is value
    if called(value) == "log_softmax" and called(other) == "softmax" and value.args and other.args:
        return value.args[0] is other.args[0]
    same_dist = value.op == other.op == "attribute" and value.args[0] is other.args[0]
    return same_dist and value.data == "logits" and other.data == "probs"


def entropy_sign(script: Script) -> Iterator[Spot]:
    for event, term, rewarded in _entropies(script):
        if not rewarded:
            yield _spot(
                term.joined or term.node or event.node,
                "the entropy is punished: the policy becomes certain before it knows anything",
                "loss - ent_coef * entropy",
            )


def value_sign(script: Script) -> Iterator[Spot]:
    for event in formulas.backwards(execution(script)):
        held = terms(event.value) if event.value is not None else []
        for term in held:
            squared = [
                factor
                for factor in term.factors
                if isinstance(factor, Symbol)
                and (called(factor) in sizes.SQUARES or factor.op == "Pow" or called(factor) in ("pow", "square"))
            ]
            if (
                squared
                and term.sign < 0
                and len(squared) == 1
                and not _is_against_itself(squared[0])
                and all(formulas.is_scalar(factor) for factor in term.factors if factor is not squared[0])
            ):
                yield _spot(
                    term.flipped or term.node or event.node,
                    "the squared error is subtracted: the critic learns to be as wrong as it can",
                    "+ vf_coef * value_loss",
                )


def _is_against_itself(squared: Symbol) -> bool:
    """(value - (value + noise).detach()) ** 2: the log-likelihood of a draw of its own, of which a Fisher matrix is made."""
    inner = squared.args[0] if squared.args else None
    sides = inner.args if isinstance(inner, Symbol) and inner.op == "Sub" else squared.args[:2]
    return len(sides) == 2 and any(
        called(other) == "detach" and any(part is one for part in formulas.parts(other)) for one, other in (sides, sides[::-1])
    )


def temperature_sign(script: Script) -> Iterator[Spot]:
    for event in formulas.backwards(execution(script)):
        for term in terms(event.value) if event.value is not None else ():
            weights = [factor for factor in term.factors if _is_weight(factor)]
            others = [factor for factor in term.factors if not _is_weight(factor)]
            if len(weights) != 1 or any(gradient(other) for other in others):
                continue
            for factor in others:
                for inner in terms(_detached(factor)):
                    if any(_holds_log_prob(each) for each in inner.factors) and inner.sign * term.sign > 0:
                        yield _spot(
                            term.node or event.node,
                            "the temperature rises where the policy is random enough, and falls where it is not: the sign is wrong",
                            "-(log_alpha * (log_prob + target_entropy).detach()).mean()",
                        )


def _is_weight(value: Value) -> bool:
    if isinstance(value, Symbol) and called(value) == "exp" and value.args:
        return _is_weight(value.args[0])
    return isinstance(value, Symbol) and value.op == "weights"


def _detached(value: Value) -> Value:
    while isinstance(value, Symbol) and called(value) in ("detach", "squeeze", "unsqueeze") and value.args:
        value = value.args[0]
    return value


def target_entropy_positive(script: Script) -> Iterator[Spot]:
    for event in formulas.backwards(execution(script)):
        for term in terms(event.value) if event.value is not None else ():
            if not any(_is_weight(factor) for factor in term.factors):
                continue
            for factor in term.factors:
                held = terms(_detached(factor))
                probabilities = [one for one in held if any(_holds_log_prob(each) for each in one.factors)]
                kept = [one for one in held if one not in probabilities]
                if (
                    len(probabilities) == 1
                    and len(kept) == 1
                    and _is_dimension(kept[0].factors)
                    and kept[0].sign == probabilities[0].sign
                    and not _is_discrete(probabilities[0])
                ):
                    where = kept[0].factors[-1]
                    yield _spot(
                        kept[0].joined,
                        "the entropy to keep has the sign of one that a policy of continuous actions can hardly reach: the temperature grows without end",
                        "log_prob + target_entropy, which is -action_dim",
                    )
                    yield _spot(
                        where.node,
                        "the entropy to keep is the number of action dimensions, without a minus: a policy of continuous actions can hardly reach it, and the temperature grows without end",
                        "-action_dim",
                    )


def _is_dimension(factors: list[Value]) -> bool:
    """A size of a space, as it stands."""
    return (
        len(factors) == 1
        and isinstance(factors[0], Symbol)
        and factors[0].op in ("call", "method", "item", "attribute")
        and any(part.op == "attribute" and part.data == "shape" for part in formulas.parts(factors[0]))
    )


def _is_discrete(term: Term) -> bool:
    return any(part.op == "dist" and "Categorical" in str(part.data) for factor in term.factors for part in formulas.parts(factor))


# ── actions ──


def drawn_without_gradient(script: Script) -> Iterator[Spot]:
    """The critic is asked about an action that was drawn by sample(), in the loss of an actor."""
    for event in formulas.backwards(execution(script)):
        reached = _with_gradient(event.value) if event.value is not None else set()
        for term in terms(event.value) if event.value is not None else ():
            answers = [
                out for factor in term.factors for out in outputs_in(factor) if id(out) in reached and not out.free and term.sign < 0
            ]
            for part in [one for out in answers for given in out.args[1:] for one in formulas.parts(given, False, False)]:
                dist = part.args[0] if part.args else None
                drawn = called(part) == "sample" and isinstance(dist, Symbol) and dist.op == "dist" and dist.data != "Categorical"
                if drawn and not part.free and dist is not None and gradient(dist):
                    yield _spot(
                        part.node,
                        "the action that the critic is asked about is drawn by sample(), which has no gradient: the actor learns nothing from it",
                        "rsample()",
                    )


def squashed_without_correction(script: Script) -> Iterator[Spot]:
    """log_prob(u) of an action tanh(u), in a loss or a target, with nothing subtracted for the squashing."""
    for part in _squashed(script)[0]:
        yield _spot(
            part.node,
            "the action is squashed by tanh, and its log-probability is that of the value before: the density changes with the squashing",
            "log_prob - log(1 - tanh(u)^2)",
        )


def _squashed(script: Script) -> tuple[list[Symbol], set[int]]:
    """Log-probabilities of draws that tanh squashes: those without a correction, and the lines of those with one."""
    return script.once("squashed", lambda: _find_squashed(script))


def _find_squashed(script: Script) -> tuple[list[Symbol], set[int]]:
    run = execution(script)
    wrong: list[Symbol] = []
    right: set[int] = set()
    values = [event.value for event in formulas.backwards(run) if event.value is not None] + [
        target.sum for target in formulas.targets(script)
    ]
    drawn = {}
    for value in values:
        for part in formulas.parts(value):
            if called(part) == "tanh" and part.args:
                for inner in formulas.origins(part.args[0]):
                    if called(inner) in ("rsample", "sample"):
                        drawn[id(inner)] = inner
    for value in values:
        plain: dict[int, Symbol] = {}
        corrected: set[int] = set()
        for part in formulas.parts(value, into_networks=True):
            if part.op in ("Add", "Sub") or part.data == "in place":
                held = terms(part)
                probabilities = [
                    _summed(origin)
                    for term in held
                    for factor in term.factors
                    for origin in formulas.origins(factor)
                    if called(_summed(origin)) == "log_prob"
                ]
                for probability in probabilities:
                    given = list(formulas.origins(probability.args[1])) if len(probability.args) > 1 else []
                    if any(id(each) in drawn for each in given) and any(
                        _depends_on(term, drawn)
                        for term in held
                        if not any(called(_summed(origin)) == "log_prob" for factor in term.factors for origin in formulas.origins(factor))
                    ):
                        corrected.add(id(probability))
            if called(part) == "log_prob" and len(part.args) > 1 and any(id(origin) in drawn for origin in formulas.origins(part.args[1])):
                plain[id(part)] = part
        wrong += [part for key, part in plain.items() if key not in corrected]
        right |= {getattr(part.node, "lineno", 0) for key, part in plain.items() if key in corrected}
    return wrong, right - {getattr(part.node, "lineno", 0) for part in wrong}


def _depends_on(term: Term, drawn: dict[int, Symbol]) -> bool:
    return any(
        id(part) in drawn
        for factor in term.factors
        for part in formulas.parts(factor, into_networks=False)
        if called(part) not in ("log_prob",)
    ) and not any(outputs_in(factor) for factor in term.factors if any(out.args[1:] and len(out.args) > 2 for out in outputs_in(factor)))


def log_prob_of_fresh_action(script: Script) -> Iterator[Spot]:
    """An update multiplies the log-probability of an action that was drawn just now by what was collected before."""
    for event in formulas.backwards(execution(script)):
        for part in formulas.parts(event.value, into_arrays=False) if event.value is not None else ():
            if called(part) != "log_prob" or len(part.args) < 2 or part.free:
                continue
            dist, action = part.args[0], formulas.origins(part.args[1])
            fresh = [
                each
                for each in action
                if called(each) in ("sample", "rsample") and each.args and (each.args[0] is dist or _same_inputs(each.args[0], dist))
            ]
            own = id(part.args[1]) in experience.acted(script) and all(id(each) in experience.acted(script) for each in fresh)
            if fresh and not own and len(fresh) == len(action) and _is_of_stored(dist) and called(fresh[0]) == "sample":
                yield _spot(
                    part.node,
                    "the log-probability is that of an action drawn just now, not of the one that was taken and rewarded",
                    "log_prob(actions)",
                )


def _same_inputs(one: Value, other: Value) -> bool:
    first, second = [[id(out.args[0]) for out in outputs_in(each)] for each in (one, other)]
    return bool(first) and first == second


def _is_of_stored(dist: Value) -> bool:
    """Whether a distribution is that of observations which were kept in a list or an array."""
    for part in formulas.parts(dist, into_arrays=False):
        if part.op == "out":
            for given in part.args[1:]:
                if any(
                    inner.op in ("read", "array", "column", "sampled")
                    for inner in formulas.parts(given, into_networks=False, into_arrays=False)
                ):
                    return True
                if _is_listed(given):
                    return True
    return False


def _is_listed(value: Value) -> bool:
    while isinstance(value, Symbol) and called(value) in formulas.PASSING and value.args:
        value = value.args[0]
    return isinstance(value, Items) and value.is_open


# ── returns ──


def returns_forwards(script: Script) -> Iterator[Spot]:
    run = execution(script)
    for each, term in (*formulas.returns(script), *formulas.traces(script)):
        kept_from = next(found for found in map(formulas.carried, term.factors) if found is not None)
        loop = kept_from.node
        if not isinstance(loop, ast.For) or loop not in run.walked or _is_backwards(run.walked[loop]) or _counts_from_the_end(loop):
            continue
        stepped = any(event.name == "env step" and loop in event.loops for event in run.events)
        kept = any(event.name == "store" and loop in event.loops for event in run.events)
        for where in (each.node, loop.iter) if kept and not stepped else ():
            yield _spot(
                where,
                "rewards are summed from the first step on: each return then holds what came before it, and not what followed",
                "for t in reversed(range(len(rewards)))",
            )


def _counts_from_the_end(loop: ast.For) -> bool:
    """returns[-i - 1] = rewards[-i - 1] + …: the loop runs forwards, and its index backwards."""
    counter = loop.target.id if isinstance(loop.target, ast.Name) else ""
    for each in ast.walk(loop):
        for part in ast.walk(each.slice) if isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store) else ():
            taken = (
                part.operand
                if isinstance(part, ast.UnaryOp)
                else part.right
                if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub)
                else None
            )
            if isinstance(taken, ast.Name) and taken.id == counter:
                return True
    return False


def returns_left_reversed(script: Script) -> Iterator[Spot]:
    """A list that is filled from the last step to the first, and used as it is."""
    run = execution(script)
    sums = {id(each) for each, _ in (*formulas.returns(script), *formulas.traces(script))}
    turned = {id(event.subject) for event in run.events if event.name == "reverse"}
    used = {
        id(call.args[0])
        for call in run.calls
        if called(call) in ("tensor", "stack", "array", "as_tensor", "FloatTensor", "cat", "asarray") and call.args
    }
    held = {
        id(call.args[0].items[-1])
        for call in run.calls
        if called(call) in ("tensor", "stack", "array", "as_tensor", "FloatTensor", "cat", "asarray")
        and call.args
        and isinstance(call.args[0], Items)
        and call.args[0].items
    }
    for event in run.events:
        appended = isinstance(event.node, ast.Call) and isinstance(event.node.func, ast.Attribute) and event.node.func.attr == "append"
        if event.name != "store" or not appended or not event.loops or event.value is None or not isinstance(event.subject, Items):
            continue
        walked = run.walked.get(event.loops[-1])
        if walked is None or formulas.is_backwards(walked) is not True or id(event.subject) in turned:
            continue
        if id(event.subject) not in used and id(event.value) not in held:
            continue
        if any(id(origin) in sums for origin in formulas.origins(event.value)):
            taken = [call.node for call in run.calls if call.args and call.args[0] is event.subject and called(call) in formulas.PASSING]
            for where in (event.node, *taken[-1:], *formulas.bound_at(run, event.subject)[1:2]):
                yield _spot(
                    where,
                    "returns are collected from the last step to the first, and never turned round: each step gets that of another one",
                    "returns.insert(0, …), or returns[::-1]",
                )


def _is_backwards(walked: Value) -> bool:
    return formulas.is_backwards(walked) is not False


def discount_above_one(script: Script) -> Iterator[Spot]:
    held = [term for _, term in formulas.returns(script)] + [target.future for target in formulas.targets(script)]
    for term in held:
        for factor in term.factors:
            number = formulas.number(factor)
            if number is not None and number > 1 and isinstance(factor, Symbol) and factor.node is not None:
                yield _spot(
                    factor.node, f"the discount is {number:g}: what comes later counts for more, and values grow without bound", "0.99"
                )


# ── networks and optimizers ──


def copy_never_updated(script: Script) -> Iterator[Spot]:
    run = execution(script)
    copied = formulas.copies(run)
    if not copied or not run.complete or any(copied_the_wrong_way(script)):
        return
    written_to = [
        event
        for event in run.events
        if event.name == "load" or event.name.startswith(("in place ", "set data")) or _is_written_in_place(event)
    ]
    if any(event.loops and _weights_of(event.subject) is None and root(event.subject) is None for event in written_to):
        return  # weights are written that cannot be told apart
    fresh = {id(update[1]) for update in updates(run) if update[3]}
    # Weights of several networks in one list are written together.
    fresh |= {id(network) for event in written_to if event.loops for network in _networks_of(event.subject)}
    if any(isinstance(copy.network, Symbol) and copy.network.op == "weights" and copy.network.loops for copy in copied):
        return  # the copy is made anew in a loop
    for target in formulas.targets(script):
        for factor in target.future.factors:
            for out in outputs_in(factor):
                top = root(out.args[0])
                copy = next((each for each in copied if each.network is top), None)
                if (
                    copy is not None
                    and id(top) not in fresh
                    and not any(isinstance(each, Record) and formulas.holds(each, top) for _, each, _, is_later in updates(run) if is_later)
                ):
                    begun = [event.node for event in run.events if event.name == "load" and root(event.subject) is top]
                    others = [collecting.enclosing(script, where, ast.For) for where, _, _, is_later in updates(run) if is_later]
                    pairs = [loop.iter for loop in others if isinstance(loop, ast.For)]
                    outer = [each for loop in others if loop is not None and (each := collecting.enclosing(script, loop, ast.For))]
                    listed = [each.iter for each in outer if isinstance(each, ast.For) and isinstance(each.iter, ast.Tuple | ast.List)]
                    for where in dict.fromkeys((formulas.written(out), *begun[:1], *pairs[-1:], *listed[-1:])):
                        yield _spot(
                            where,
                            "the slow copy of the network gets no new weights in the whole script: targets stay those of the first step",
                            "target.load_state_dict(net.state_dict()) now and then",
                        )


def updates(run: Execution) -> list[tuple[ast.AST, Value, Value, bool]]:
    """Weights that are copied: where, into which network, from which one, and whether that is after the start."""
    made: list[tuple[ast.AST, Value, Value, bool]] = []
    for event in run.events:
        source: Value | None
        if event.name == "load" and event.value is not None:
            source, into = formulas.state_of(event.value), root(event.subject)
        elif event.name == "blend" and event.value is not None:
            into = root(event.subject)
            source = next((part for part in formulas.parts(event.value) if part.op == "weights" and part is not into), None)
        elif (event.name.startswith("in place ") or event.name == "set data" or _is_written_in_place(event)) and isinstance(
            event.value, Symbol
        ):
            into = _weights_of(event.subject)
            given = (event.value,) if event.name == "set data" else event.value.args[1:]
            others = [
                one
                for each in given
                for one in [_weights_of(inner) for inner in formulas.parts(each) if inner.op == "method"]
                if one is not None and one is not into
            ]
            source = others[0] if others else into
        else:
            continue
        if into is not None and source is not None:
            made.append((event.node, into, source, bool(event.loops)))
    return made


def _networks_of(value: Value) -> Iterator[Symbol | Record]:
    """Every network whose weights are in a list of weights."""
    for part in formulas.parts(value, into_networks=False):
        found = formulas.state_of(part) if part.op == "method" else None
        if found is not None:
            yield found


def _is_written_in_place(event: Event) -> bool:
    """slow += tau * (fast - slow), where the name stands for one of a network's weights."""
    one = event.subject
    return (
        event.name == "update"
        and isinstance(event.value, Symbol)
        and isinstance(one, Symbol)
        and one.op in ("element", "item", "attribute")
        and any(part.op == "method" and part.data in ("parameters", "named_parameters") for part in formulas.parts(one))
    )


def _weights_of(value: Value) -> Symbol | Record | None:
    found = formulas.state_of(value)
    if found is not None:
        return found
    return next((part for part in formulas.parts(value, into_networks=False) if part.op == "weights"), None)


def copied_the_wrong_way(script: Script) -> Iterator[Spot]:
    run = execution(script)
    copied = formulas.copies(run)
    for where, into, source, _ in updates(run):
        held = formulas.optimized(run, into) or any(
            formulas.holds(into, one) for each in run.optimizers for one in formulas.parameters(each)
        )
        if any(copy.source is into and copy.network is source for copy in copied) and held and _is_asked(run, source):
            pairs = collecting.enclosing(script, where, ast.For)
            for place in (where, pairs) if pairs is not None and _walks_over_weights(pairs) else (where,):
                yield _spot(
                    place,
                    "the slow copy's weights are written into the network that is trained: what it learned is taken back",
                    "copy from the trained network to the slow one",
                )


def _walks_over_weights(loop: ast.AST) -> bool:
    return isinstance(loop, ast.For) and any(
        isinstance(each, ast.Attribute) and each.attr in ("parameters", "values", "items") for each in ast.walk(loop.iter)
    )


def copied_from_another(script: Script) -> Iterator[Spot]:
    """One of two slow copies follows the network of the other one."""
    run = execution(script)
    sources = {builtins_id(copy.network): copy.source for copy in formulas.copies(run)}
    for where, into, source, is_later in updates(run):
        first = sources.get(builtins_id(into))
        if first is None or first is source or not is_later or builtins_id(source) in sources:
            continue
        if any(each is source for each in sources.values()) and formulas.optimized(run, source) and formulas.optimized(run, first):
            line = getattr(where, "lineno", 0)
            around = [each for each in script.all(ast.For) if each.lineno <= line <= (each.end_lineno or 0)]
            pairs = next((each.iter for each in reversed(around) if script.called(each.iter) == "zip"), where)
            yield _spot(
                pairs,
                "this slow copy was made of one network and follows another one: two copies of the same are one opinion, twice",
                "each copy follows the network it was made of",
            )


def copy_is_the_network(script: Script) -> Iterator[Spot]:
    run = execution(script)
    for event in run.events:
        if event.name in ("in place copy_", "in place add_", "in place lerp_", "load", "set data") and isinstance(event.value, Symbol):
            into = _weights_of(event.subject) or root(event.subject)
            given = event.value.args[1:] if event.name.startswith("in place") else (event.value,)
            named = [
                part for each in given for part in formulas.parts(each) if part.op == "method" and part.data in ("parameters", "state_dict")
            ]
            is_gradient = any(part.op == "attribute" and part.data == "grad" for part in formulas.parts(event.subject))
            is_gradient = is_gradient or any(called(part) in ("cat", "concatenate") for each in given for part in formulas.parts(each))
            if into is not None and named and event.loops and not is_gradient and all(root(part.args[0]) is into for part in named):
                yield _spot(
                    _first_use(script, into) or event.node,
                    "the copy for targets is the network itself: both change together, and targets run away with what they train",
                    "copy.deepcopy(net)",
                )


def _first_use(script: Script, network: Symbol | Record) -> ast.AST | None:
    """Where a network gets its second name."""
    for statement in ast.walk(ast.parse(script.source.text)):
        if isinstance(statement, ast.Assign):
            target, value = statement.targets[0], statement.value
            chained = [ast.unparse(each) for each in statement.targets if isinstance(each, ast.Name | ast.Attribute)]
            if len(chained) > 1 and isinstance(value, ast.Call) and f"{chained[0]}.parameters" in script.source.text:
                return statement  # net = slow = build()
            if isinstance(value, ast.DictComp) and isinstance(value.value, ast.Name) and ".items()" in ast.unparse(value):
                return statement  # {name: net for name, net in nets.items()}
            pairs = (
                list(zip(target.elts, value.elts, strict=False))
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
                else [(target, value)]
            )
            if all(isinstance(one, ast.Name | ast.Attribute) and isinstance(two, ast.Name | ast.Attribute) for one, two in pairs):
                names = {ast.unparse(two) for _, two in pairs}
                if any(f"{name}.parameters" in script.source.text or f"{name}(" in script.source.text for name in names):
                    return statement
    return None


def _is_before_learning(run: Execution, event: Event) -> bool:
    """soft_update(net, slow, tau=1.0) before the loop: the two begin alike."""
    learned = [each.loops for each in formulas.backwards(run)]
    return bool(learned) and all(loops and not set(loops) & set(event.loops) for loops in learned)


def polyak_shares(script: Script) -> Iterator[Spot]:
    run = execution(script)
    for event in run.events:
        if not isinstance(event.value, Symbol) or not event.name.startswith(("in place", "set data", "blend", "store")):
            continue
        if event.name == "store" and not (isinstance(event.subject, Symbol) and event.subject.data == "state_dict"):
            continue
        into = _weights_of(event.subject)
        if into is None:
            continue
        share = None
        if event.name in ("in place copy_", "set data"):
            given = event.value.args[1] if event.name != "set data" and len(event.value.args) > 1 else event.value
            share = _share(given, into)
        elif event.name == "in place add_" and len(event.value.args) > 1:
            share = _share(event.value.args[1], into)
            if share is None and len(terms(event.value.args[1])) == 1 and len(terms(event.value.args[1])[0].factors) == 1:
                share = 1.0  # added as they are, on top of the copy's own share
            alpha = formulas.number(event.value.keys.get("alpha"))
            share = alpha if alpha is not None else share
        elif event.name in ("blend", "store"):
            share = _share(event.value, into)
        elif event.name == "in place lerp_" and len(event.value.args) > 2:
            share = formulas.number(event.value.args[2])
        # Every second step is as good as every step.
        rarely = any(
            part.op == "Mod" and (formulas.number(part.args[1]) or FEWEST_KEPT) > _OFTEN
            for guard in event.guards
            for part in formulas.parts(guard, into_networks=False)
        )
        whole = share == 1 and (rarely or _is_before_learning(run, event))
        if share is not None and 0.5 < share <= 1 and not whole:
            written = [
                part.node
                for part in formulas.parts(event.value, into_networks=False, into_arrays=False)
                if part.op == "const" and formulas.number(part) == share and part.data != 1
            ] + [part.node for part in formulas.parts(event.value, False, False) if share == 1 and part.op == "const" and part.data == 1.0]
            for where in (event.node, *written[:1]):
                yield _spot(
                    where,
                    f"the slow copy takes {share:g} of the new weights at each update, and keeps {1 - share:.2g} of its own: it is hardly slower than the network",
                    "tau = 0.005 of the new ones",
                )


def no_mixture(script: Script) -> Iterator[Spot]:
    """The new weights of a slow copy are a share of its own and a share of the network's: neither is negative, and they add up to 1."""
    run = execution(script)
    for into, places, mixed in _mixtures(run):
        others = {key: share for key, share in mixed.items() if key != builtins_id(into)}
        own = mixed.get(builtins_id(into), 0.0)
        if len(others) != 1:
            continue
        share = next(iter(others.values()))
        if share < -_NOTHING or own < -_NOTHING or abs(share + own - 1.0) > _NOTHING:
            for where in places:
                yield _spot(
                    where,
                    "the slow copy's new weights are no mixture of its own and the network's: the shares are not between 0 and 1, or do not add up to 1",
                    "slow += tau * (fast - slow)",
                )


_NOTHING: Final = 1e-6


def _mixtures(run: Execution) -> Iterator[tuple[Value, list[ast.AST], dict[int, float]]]:
    """Weights that are written in place, statement after statement: into which network, where, and the shares of which networks."""
    held: dict[int, tuple[Value, list[ast.AST], dict[int, float] | None, tuple[ast.AST, ...]]] = {}
    for event in run.events:
        in_place = event.name.startswith("in place ") or event.name == "set data" or _is_written_in_place(event)
        into = _weights_of(event.subject) if in_place and isinstance(event.value, Symbol) else None
        for key in [key for key, known in held.items() if into is None or key != builtins_id(into) or known[3] != event.loops]:
            known = held.pop(key)
            if known[2] is not None:
                yield known[0], known[1], known[2]
        if into is None or not event.loops or not isinstance(event.value, Symbol):
            continue
        own = {builtins_id(into): 1.0}
        before, places = (held[builtins_id(into)][2], held[builtins_id(into)][1]) if builtins_id(into) in held else (own, [])
        if event.name == "in place copy_" or not event.name.startswith("in place "):
            after = _shares(event.value if not event.name.startswith("in place ") else event.value.args[1])
            places = []
        else:
            after = _moved(event.name[9:], before, event.value) if before is not None else None
        held[builtins_id(into)] = into, [*places, event.node], after, event.loops
    yield from ((into, places, mixed) for into, places, mixed, _ in held.values() if mixed is not None)


def _moved(operation: str, before: dict[int, float], value: Symbol) -> dict[int, float] | None:
    """Shares after mul_, add_, sub_ and lerp_."""
    given = value.args[1] if len(value.args) > 1 else None
    if given is None:
        return None
    if operation == "mul_":
        by = _weight(given)
        return None if by is None else {key: share * by for key, share in before.items()}
    other = _shares(given)
    if operation in ("add_", "sub_") and other is not None:
        by = _weight(value.keys["alpha"]) if "alpha" in value.keys else 1.0
        return None if by is None else _added(before, other, by if operation == "add_" else -by)
    if operation == "lerp_" and other is not None and (len(value.args) > 2 or "weight" in value.keys):
        by = _weight(value.args[2] if len(value.args) > 2 else value.keys["weight"])
        return None if by is None else _added({key: share * (1 - by) for key, share in before.items()}, other, by)
    return None


def _added(one: dict[int, float], other: dict[int, float], by: float) -> dict[int, float]:
    return {key: one.get(key, 0.0) + by * other.get(key, 0.0) for key in {**one, **other}}


def _weight(value: Value) -> float | None:
    """A number; a small one for a setting that is not known."""
    known = formulas.number(value)
    if known is not None:
        return known
    if isinstance(value, Symbol) and value.op in ("Add", "Sub", "Mult") and len(value.args) == 2:
        left, right = map(_weight, value.args)
        return None if left is None or right is None else float(formulas.OPERATORS[value.op](left, right))
    return 0.013 if formulas.is_scalar(value) else None


def _shares(value: Value, depth: int = 12) -> dict[int, float] | None:
    """What a formula takes of which networks' weights; None where it is made of anything else."""
    if not isinstance(value, Symbol) or depth == 0:
        return None
    if value.op in ("Add", "Sub") and len(value.args) == 2:
        left, right = (_shares(each, depth - 1) for each in value.args)
        return None if left is None or right is None else _added(left, right, 1.0 if value.op == "Add" else -1.0)
    if value.op == "Mult" and len(value.args) == 2:
        for factor, inside in (value.args, value.args[::-1]):
            by, inner = _weight(factor), _shares(inside, depth - 1)
            if by is not None and inner is not None:
                return {key: share * by for key, share in inner.items()}
        return None
    if value.op == "USub":
        inner = _shares(value.args[0], depth - 1)
        return None if inner is None else {key: -share for key, share in inner.items()}
    if called(value) in formulas.PASSING or (value.op == "attribute" and value.data == "data"):
        return _shares(value.args[0], depth - 1) if value.args else None
    whole = _weights_of(value) if value.op in ("element", "item", "weights", "column") else None
    return {builtins_id(whole): 1.0} if whole is not None else None


def copied_off_the_interval(script: Script) -> Iterator[Spot]:
    """if step % interval: copy: everywhere but at the interval."""
    run = execution(script)
    copied = formulas.copies(run)
    for event in run.events:
        if event.name != "load" or not event.loops or not any(copy.network is root(event.subject) for copy in copied):
            continue
        for guard in event.guards:
            uneven = isinstance(guard, Symbol) and guard.op == "Compare" and guard.data == "NotEq" and len(guard.args) == 2
            counted = guard.args[0] if uneven and isinstance(guard, Symbol) else None
            if isinstance(counted, Symbol) and counted.op == "Mod" and isinstance(guard, Symbol) and formulas.number(guard.args[1]) == 0:
                yield _spot(
                    guard.node, "the slow copy is made anew in every step but those of the interval: what is asked is the opposite", "=="
                )
            if isinstance(guard, Symbol) and guard.op == "Mod":
                yield _spot(
                    guard.node,
                    "the slow copy is made anew in every step but those of the interval: the comparison with 0 is missing",
                    "== 0",
                )


def _share(value: Value, into: Value) -> float | None:
    """How much of another network's weights a sum takes."""
    for term in terms(value):
        sources = [_weights_of(factor) for factor in term.factors]
        if any(source is not None and source is not into for source in sources):
            numbers = [formulas.number(factor) for factor in term.factors]
            known = [number for number in numbers if number is not None]
            return known[0] if len(known) == 1 and len(term.factors) == 2 else None
    return None


def copied_at_every_step(script: Script) -> Iterator[Spot]:
    """A full copy that is made whenever the network learns: by an interval of one."""
    run = execution(script)
    copied = formulas.copies(run)
    for event in run.events:
        if event.name != "load" or not event.loops or not any(copy.network is root(event.subject) for copy in copied):
            continue
        intervals = [guard for guard in event.guards if any(part.op == "Mod" for part in formulas.parts(guard, into_networks=False))]
        for guard in intervals[-1:]:
            for part in formulas.parts(guard, into_networks=False):
                if (
                    part.op == "Mod"
                    and formulas.number(part.args[1]) == 1
                    and isinstance(part.args[1], Symbol)
                    and part.args[1].node is not None
                ):
                    yield _spot(
                        part.args[1].node,
                        "the slow copy is made anew at every step: it is the network itself, one step late",
                        "every few hundred steps",
                    )


def optimizer_of_another_network(script: Script) -> Iterator[Spot]:
    """A loss whose gradient reaches networks that no optimizer holds, least of all the one that then steps."""
    run = execution(script)
    last: Event | None = None
    for event in run.events if run.complete else ():
        if event.name == "backward":
            last = event
        elif event.name == "optimizer step" and last is not None and last.value is not None and isinstance(event.subject, Symbol):
            reached = gradient(last.value)
            held = formulas.parameters(event.subject)
            lost = [network for network in reached if root(network) is not None and not formulas.optimized(run, network)]
            if not lost or not _is_made_here(held) or not any(_is_asked(run, each) for each in held):
                continue
            if len(lost) == len(reached):
                yield _spot(
                    event.subject.node,
                    "this optimizer holds other weights than those that the loss before its step reaches: nothing of it is learned",
                    "give it the parameters of the network in the loss",
                )
            elif any(_is_prediction(last.value, network) for network in lost) or _is_held_twice(run, event.subject):
                listed = [place for given in event.subject.args[:1] for place in formulas.bound_at(run, given)]
                for where in dict.fromkeys((event.subject.node, *listed[:1])):
                    yield _spot(where, "the loss reaches a network that no optimizer holds: it stays as it was made", "add its parameters")


def _is_held(run: Execution, network: Value) -> bool:
    """Whether an optimizer holds a network, or all parts of an object that have weights."""
    if formulas.optimized(run, network):
        return True
    parts = [each for each in network.attributes.values() if _has_weights(each)] if isinstance(network, Record) else []
    return bool(parts) and all(_is_held(run, each) for each in parts)


def _has_weights(value: Value) -> bool:
    return (isinstance(value, Symbol) and value.op in ("net", "weights")) or (isinstance(value, Record) and value.kind.is_network())


def _is_made_here(held: list[Value]) -> bool:
    return all(root(each) is not None for each in held)


def _is_asked(run: Execution, network: Value) -> bool:
    """Whether a network that an optimizer holds is used at all; one that was replaced is not."""
    return any(root(out.args[0]) is root(network) or formulas.holds(network, out.args[0]) for out in formulas.outputs(run))


def _is_prediction(loss: Value, network: Symbol) -> bool:
    """Whether a network alone is one side of a squared error, and the other side has no gradient."""
    for _, sides in _squares(loss):
        tops = [{id(root(each)) for each in gradient(side)} for side in sides]
        if len(sides) == 2 and {id(root(network))} in tops and set() in tops:
            return True
        if len(sides) == 1 and tops[0] == {id(root(network))}:
            return True
    return False


def _is_held_twice(run: Execution, optimizer: Symbol) -> bool:
    """Whether another optimizer holds all that this one does."""
    own = {id(root(parameter)) for parameter in formulas.parameters(optimizer)}
    others = [each for each in run.optimizers if each.node is not optimizer.node]
    return any(own <= {id(root(one)) for one in formulas.parameters(other)} for other in others)


# ── episodes ──


def observation_not_carried(script: Script) -> Iterator[Spot]:
    """In every pass of a loop the action is chosen for an observation that no step has changed."""
    run = execution(script)
    stepped: dict[ast.AST, list[Event]] = {}
    for event in run.events:
        if event.name == "env step" and event.loops:
            stepped.setdefault(event.node, []).append(event)
    for node, events in stepped.items():
        last = events[-1].value
        if not isinstance(last, Symbol) or len(last.args) < 2 or len(events) < 2:
            continue
        given = list(formulas.parts(last.args[1]))
        seen = [part for part in given if part.op in ("observed", "reset")]
        if any(part.op == "out" for part in given) and seen and not any(part.op in ("stepped", "step") for part in given):
            asked = [call for call, _ in events[-1].calls[-2:]]
            for where in dict.fromkeys((node, *experience.left_as_it_was(script, seen, events[-1]), *asked)):
                yield _spot(
                    where,
                    "actions are chosen for the first observation again and again: what the step returns is not carried to the next one",
                    "obs = next_obs",
                )


def never_reset(script: Script) -> Iterator[Spot]:
    run = execution(script)
    for event in run.events if run.complete else ():
        made = event.value
        if event.name != "env step" or not event.loops or not isinstance(made, Symbol) or _is_vector(event.subject):
            continue
        innermost = event.loops[-1]
        resets = [each for each in run.events if each.name == "env reset" and each.subject is event.subject]
        ends = isinstance(innermost, ast.While) and not _is_endless(innermost)
        if not resets or ends or any(reset.loops for reset in resets) or _is_left_at_an_end(run, event):
            continue
        if any(part.op == "out" for given in made.args[1:] for part in formulas.parts(given)):
            yield _spot(
                event.node,
                "the environment is stepped on and on, and reset only once, before the loop: after the first end nothing that it returns means anything",
                "if terminated or truncated: obs, _ = env.reset()",
            )


def _is_left_at_an_end(run: Execution, step: Event) -> bool:
    """A loop over a single episode: it breaks, or returns, where one ends."""
    return len(step.loops) == 1 and any(
        event.name == "leave" and event.loops == step.loops and any(experience.ends_in(guard) for guard in event.guards)
        for event in run.events
    )


def _is_vector(env: Value) -> bool:
    return not (isinstance(env, Symbol) and env.op == "env" and env.data == "make")


def _is_endless(loop: ast.While) -> bool:
    return isinstance(loop.test, (ast.Constant, ast.Compare))


def goes_on_after_time_limit(script: Script) -> Iterator[Spot]:
    """A loop over an episode that asks for real ends alone."""
    run = execution(script)
    for loop, test in run.tests.items():
        held = flag(test)
        steps = [event for event in run.events if event.name == "env step" and loop in event.loops]
        limited = [
            event
            for event in steps
            if isinstance(event.subject, Symbol) and event.subject.op == "env" and not _is_vector_made(event.subject)
        ]
        resets = any(event.name == "env reset" and event.loops and event.loops[-1] is loop for event in run.events)
        if held is not None and held.ends == frozenset({"terminated"}) and limited and not resets:
            # A bound of the author's own in the loop's condition is a time limit, too.
            bounded = isinstance(loop.test, ast.BoolOp) and any(isinstance(part, ast.Compare) for part in loop.test.values)
            names = {each.id for each in ast.walk(loop.test) if isinstance(each, ast.Name)}
            renamed = [
                each
                for each in ast.walk(loop)
                if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) and each.targets[0].id in names
            ]
            for where in (loop, *renamed[:1]):
                yield Spot(
                    where,
                    "the loop ends at real ends alone: at a time limit the environment is stepped on, though its episode is over",
                    "while not (terminated or truncated)",
                    0.4 if bounded else 1.0,
                )


def _is_vector_made(env: Symbol) -> bool:
    return "Vec" in str(env.data) or "vec" in str(env.data)


# ── memory and exploration ──


def tiny_memory(script: Script) -> Iterator[Spot]:
    """Arrays of fewer than 500 rows that batches are drawn from at random."""
    run = execution(script)
    for event in formulas.backwards(run):
        for part in formulas.parts(event.value) if event.value is not None else ():
            array = part.args[0] if part.op == "read" and len(part.args) > 1 and sizes.is_many(part.args[1]) else None
            if isinstance(array, Symbol) and array.op == "array" and array.args:
                size = array.args[0].items[0] if isinstance(array.args[0], Items) and array.args[0].items else array.args[0]
                rows = formulas.number(size)
                if rows is not None and 1 < rows < FEWEST_KEPT:
                    yield _spot(
                        formulas.written(size),
                        f"the memory keeps {rows:g} transitions: hardly more than the last episode",
                        "10,000 and more",
                    )


def noise_out_of_bounds(script: Script) -> Iterator[Spot]:
    """Noise is added to the answer of a network, and the environment gets the sum unclipped."""
    if script.words & {"ClipAction", "RescaleAction", "TransformAction"}:
        return
    for event in execution(script).events:
        if event.name != "env step" or not isinstance(event.value, Symbol) or len(event.value.args) < 2:
            continue
        pending: list[Value] = [event.value.args[1]]
        seen: set[int] = set()
        while pending and len(seen) < 60:
            current = pending.pop()
            if not isinstance(current, Symbol) or id(current) in seen or called(current) in ("clip", "clamp", "minimum", "tanh"):
                continue
            if called(current) in ("min", "max", "maximum") and len(current.args) == 2 and formulas.number(current.args[1]) is None:
                continue  # torch.max(torch.min(action, high), low)
            if current.op == "Compare":
                continue  # one of two actions, however loud what decides
            seen.add(id(current))
            answers = [out for each in current.args for out in outputs_in(each)] if current.op == "Add" else []
            # Noise on the weights explores, too, and is no noise on the action.
            if any(_noise(each) for each in current.args) and answers and not any(_noise(out.args[0]) for out in answers):
                for where in (current.node, *formulas.bound_at(execution(script), current)):
                    yield _spot(
                        where,
                        "noise is added to the policy's action, and nothing keeps it within its bounds",
                        "np.clip(action + noise, low, high)",
                    )
            elif current.op not in ("out", "stepped", "observed", "array", "Add"):
                pending += current.args


def _noise(value: Value) -> list[Symbol]:
    drawn = ("normal", "randn", "randn_like", "standard_normal")
    return [part for part in formulas.parts(value, into_networks=False) if called(part) in drawn]


# ── shapes ──


def _sizes(script: Script) -> tuple[list[Symbol], set[int]]:
    """Where a column meets a row, and the lines where all sizes are known and agree."""

    def compare() -> tuple[list[Symbol], set[int]]:
        run = execution(script)
        wrong: list[Symbol] = []
        lines: dict[int, bool] = {}
        averaged = {id(each.node): each.node for event in formulas.backwards(run) for each in _averaged(event.value)}
        for each, one, other, differ in sizes.pairs(run.sums, run.calls):
            clash = differ and id(each.node) not in averaged
            if clash:
                wrong.append(each)
            line = getattr(each.node, "lineno", 0)
            sound = one is not None and other is not None and not clash
            lines[line] = lines.get(line, True) and sound
        # Behind a square nothing is known for certain.
        fine = {line for line, sound in lines.items() if sound} | {getattr(each, "lineno", 0) for each in averaged.values()}
        return wrong, set() if wrong else fine

    return script.once("sizes", compare)


def _averaged(value: Value | None) -> Iterator[Symbol]:
    """Sums of which nothing but the mean over all is taken: that of a column and a row is the sum of their means, square or not."""
    pending = (
        list(value.args[:1]) if isinstance(value, Symbol) and called(value) == "mean" and len(value.args) == 1 and not value.keys else []
    )
    while pending:
        each = pending.pop()
        if isinstance(each, Symbol) and each.op == "Add":
            yield each
            pending += each.args


def column_against_row(script: Script) -> Iterator[Spot]:
    for each in _sizes(script)[0]:
        for column in _columns(script, each):
            yield _spot(
                column,
                f"this answer is a column [N, 1], and line {getattr(each.node, 'lineno', 0)} takes it for a row [N]: the result is a square [N, N]",
                ".squeeze(-1)",
            )
        yield _spot(
            each.node,
            "a column [N, 1] meets a row [N]: the result is a square [N, N], and every entry is mixed with every other one",
            ".squeeze(-1) on the column",
        )


def column_without_a_twin(script: Script) -> Iterator[Spot]:
    """A critic's answers for a batch, a column as they come, beside rewards of which nothing ever made a column."""
    for error in laws.errors(script):
        sums = [part for part in formulas.parts(error.goal, False, False) if part.op == "Add" and len(part.args) == 2]
        pairs = [(error.answer, error.goal, error.where)]
        pairs += [(one, other, each) for each in sums for one, other in (each.args, each.args[::-1])]
        for answer, paid, meeting in pairs:
            column = _bare_column(answer)
            if column is None or (sizes.shape(answer) is not None and sizes.shape(paid) is not None):
                continue
            rewards = list(formulas.parts(paid, into_networks=False))
            if any(part.op == "stepped" and part.data[0] == 1 for part in rewards) and not any(map(_may_be_a_column, rewards)):
                named = formulas.bound_at(execution(script), column)[:2]
                for where in dict.fromkeys((formulas.written(column), column.node, *named, meeting.node, error.where.node)):
                    yield _spot(
                        where,
                        "this answer is a column [N, 1], and nothing makes one of the rewards that it meets: the result is a square [N, N]",
                        ".squeeze(-1)",
                    )


def _bare_column(value: Value, depth: int = 6) -> Symbol | None:
    """A network's answer for a batch, of one number each, that nothing has reshaped."""
    if not isinstance(value, Symbol) or depth == 0:
        return None
    if value.op == "out":
        asked = [part for given in value.args[1:] for part in formulas.parts(given, into_arrays=False)]
        is_batch = any(part.op in ("column", "sampled") or (part.op == "read" and sizes.is_many(part.args[1])) for part in asked)
        return value if is_batch and sizes.width(value.args[0]) == 1 and not sizes.is_flattened(value.args[0]) else None
    if value.op in ("Mult", "Sub") or called(value) in ("float", "to", "double", "detach", "minimum") or _is_choice_of_two(value):
        return next((found for each in value.args if (found := _bare_column(each, depth - 1)) is not None), None)
    return None


def _is_choice_of_two(value: Symbol) -> bool:
    return called(value) in ("min", "max") and len(value.args) == 2 and formulas.number(value.args[1]) is None


def _may_be_a_column(part: Symbol) -> bool:
    if part.op == "out":
        return sizes.width(part.args[0]) in (1, None)
    if part.op in ("parameter", "attribute", "ext", "unknown", "called", "asked"):
        return not formulas.is_scalar(part)
    if part.op in ("item", "read"):
        keys = part.args[1].items if len(part.args) > 1 and isinstance(part.args[1], Items) else part.args[1:]
        return any(isinstance(key, Symbol) and ((key.op == "const" and key.data is None) or key.op == "slice") for key in keys)
    if part.op == "array":
        return any(formulas.number(each) == 1 for size in part.args[:1] for each in (size.items if isinstance(size, Items) else ()))
    kept = part.keys.get("keepdim") or part.keys.get("keepdims")
    making = {
        "unsqueeze",
        "view",
        "reshape",
        "expand_dims",
        "vstack",
        "column_stack",
        "atleast_2d",
        "resize",
        "repeat",
        "expand",
        "mean",
        "sum",
    }
    return kept is not None or called(part) in making or (called(part) in ("max", "gather") and len(part.args) > 2)


def _columns(script: Script, clash: Symbol) -> list[ast.AST]:
    """Where the network answered whose column meets a row: on the line of the network's own code."""
    made = []
    for side in clash.args[:2]:
        found = sizes.shape(side)
        if found and len(found) > 1 and found[-1] in (1, sizes.FEATURES):
            for out in outputs_in(side, stored=False):
                made += [each for each in (out.node, *formulas.bound_at(execution(script), out)[:2]) if each is not None]
    return list({getattr(node, "lineno", 0): node for node in made}.values())[:3]


def cleared(id: str, script: Script) -> set[int]:
    """Lines where what a check reads from names is known to be wrong: the formulas show something else."""
    if id in ("COD601", "COD602"):
        return _sizes(script)[1]
    if id in ("COD406", "COD414"):
        run = execution(script)
        copied = formulas.copies(run) if id == "COD406" else []
        lines = {getattr(copy.network.node, "lineno", 0) for copy in copied}
        return lines | {line for line, network in run.named if _is_held(run, network)} if run.complete else lines
    if id == "COD202":
        return _squashed(script)[1]
    if id in ("COD301", "COD302"):
        return {
            line
            for chosen, sign, _, inner in surrogate(script)
            if sign * inner < 0 and (called(chosen) in ("min", "minimum", "fmin")) == (inner > 0)
            and (line := getattr(chosen.node, "lineno", 0))
        }  # fmt: skip
    if id == "COD509" and experience.explores(script):
        return set(range(1, len(script.lines) + 1))
    if id == "COD506":
        return {
            line
            for _, into, _, is_later in updates(execution(script))
            if is_later and (line := getattr(getattr(into, "node", None), "lineno", 0))
        }
    if id == "COD304":
        held = list(_entropies(script))
        nodes = [node for _, term, rewarded in held if rewarded for node in (term.joined, term.node, term.flipped)]
        return {line for node in nodes if (line := getattr(node, "lineno", 0))} if all(each[2] for each in held) else set()
    if id == "COD101":
        return set(range(1, len(script.lines) + 1)) if any(True for _ in truncation_in_mask(script)) else set()
    if id == "COD501":
        return set(range(1, len(script.lines) + 1)) if experience.throws_ends_away(script) else set()
    if id == "COD502":
        return {
            line
            for target in formulas.targets(script)
            if any((mask := flag(factor)) is not None and mask.sign < 0 for factor in target.future.factors)
            and (line := getattr(target.sum.node, "lineno", 0))
        }
    if id == "COD307":
        run = execution(script)
        slow = {builtins_id(copy.network) for copy in formulas.copies(run)}
        known = [target for target in formulas.targets(script) if not _is_trace(target)]
        asked_of = [root(out.args[0]) for target in known for factor in target.future.factors for out in outputs_in(factor)]
        only_slow = bool(asked_of) and all(builtins_id(each) in slow for each in asked_of)
        return set(range(1, len(script.lines) + 1)) if only_slow and run.complete else set()
    if id == "COD536":
        run = execution(script)
        slow = {builtins_id(copy.network) for copy in formulas.copies(run)}
        asked: dict[int, set[bool]] = {}
        for out in formulas.outputs(run):
            for node in (out.node, out.site):
                if node is not None and hasattr(node, "lineno"):
                    asked.setdefault(node.lineno, set()).add(builtins_id(root(out.args[0])) in slow)
        return {line for line, answers in asked.items() if answers == {True}}
    if id == "COD503":
        if not _spans_episodes(script):
            return set(range(1, len(script.lines) + 1))
        return {
            node.lineno
            for target in formulas.targets(script)
            if _is_trace(target) and any(flag(factor) or _flag_beside(factor) for factor in target.future.factors)
            for node in (target.sum.node,)
            if isinstance(node, ast.expr)
        }
    return set()


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD501": (no_mask,),
    "COD502": (mask_inverted,),
    "COD503": (trace_not_cut,),
    "COD504": (returns_forwards,),
    "COD505": (returns_left_reversed,),
    "COD512": (discount_above_one,),
    "COD101": (truncation_in_mask, never_bootstrapped),
    "COD536": (online_network_in_target,),
    "COD522": (larger_of_critics,),
    "COD306": (advantage_with_gradient,),
    "COD307": (target_with_gradient,),
    "COD303": (policy_sign, advantage_turned_round, weighted_by_value),
    "COD524": (actor_sign,),
    "COD523": (entropy_in_actor_loss, soft_value_sign),
    "COD302": (surrogate_sign, halves_of_unlike_sign),
    "COD301": (surrogate_extreme,),
    "COD304": (entropy_sign,),
    "COD305": (value_sign,),
    "COD525": (temperature_sign,),
    "COD526": (target_entropy_positive,),
    "COD521": (drawn_without_gradient,),
    "COD202": (squashed_without_correction,),
    "COD210": (log_prob_of_fresh_action,),
    "COD506": (copy_never_updated,),
    "COD534": (copied_the_wrong_way, copied_from_another),
    "COD507": (copy_is_the_network,),
    "COD527": (polyak_shares, no_mixture),
    "COD537": (copied_at_every_step, copied_off_the_interval),
    "COD406": (optimizer_of_another_network,),
    "COD106": (observation_not_carried,),
    "COD105": (never_reset, goes_on_after_time_limit),
    "COD535": (tiny_memory,),
    "COD530": (noise_out_of_bounds,),
    "COD601": (column_against_row, column_without_a_twin),
}
"""What is added to which check."""

_ROOMS: Final = (
    MEANINGS, agents.MEANINGS, learning.MEANINGS, experience.MEANINGS, policies.MEANINGS, wiring.MEANINGS, wrappers.MEANINGS,
    libraries.MEANINGS, tables.MEANINGS, critics.MEANINGS, returns.MEANINGS, exploration.MEANINGS, storage.MEANINGS,
    schedules.MEANINGS, slips.MEANINGS, neglects.MEANINGS, consistency.MEANINGS, differences.MEANINGS,
    collecting.MEANINGS, replaying.MEANINGS, answering.MEANINGS, laws.MEANINGS, agreements.MEANINGS,
    rollouts.MEANINGS, progress.MEANINGS, equations.MEANINGS, paths.MEANINGS, traces.MEANINGS,
)  # fmt: skip
