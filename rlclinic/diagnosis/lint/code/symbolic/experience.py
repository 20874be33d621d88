"""What checks say of how a script collects and keeps experience: which observation goes with which action, ends, exploration (`formulas`)."""

# ruff: noqa: E501 — a message reads best whole

import ast
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot
from rlclinic.diagnosis.lint.code.symbolic import formulas, sizes
from rlclinic.diagnosis.lint.code.symbolic.execution import Event, Execution, Items, Record, Symbol, Table, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called, execution, flag, terms

_CHANCES: Final = frozenset({"random", "rand", "uniform", "random_sample"})
_RANDOM_ACTIONS: Final = frozenset({"sample", "randint", "randrange", "integers", "choice", "rand", "uniform", "random_integers"})
MOST_CHANCE: Final = 0.5


def _spot(where: ast.AST | None, text: str, fix: str = "") -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix)


def env_steps(script: Script) -> list[Event]:
    return [
        event
        for event in execution(script).events
        if event.name == "env step" and isinstance(event.value, Symbol) and len(event.value.args) > 1
    ]


# ── which observation goes with which action ──


def latest(value: Value) -> list[Symbol]:
    """What was put into a list or an array last, before it was stacked, drawn and cast."""
    made: list[Symbol] = []
    pending: list[Value] = [value]
    seen: set[int] = set()
    while pending and len(seen) < 120:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Items):
            pending += current.items[-1:]
        elif isinstance(current, Symbol):
            if current.op == "array":
                pending += current.stored[-1:] or []
            elif current.op == "carried":
                pending += current.args[:1]
            elif current.op == "phi":
                pending += current.args[1:]
            elif (
                current.op in ("element", "column", "sampled", "reversed", "put", "read")
                or (current.op in ("method", "call") and called(current) in formulas.PASSING and current.args)
                or (current.op == "item" and current.args and not isinstance(current.data, str))
            ):
                pending += current.args[:1]
            else:
                made.append(current)
    return made


def asked_about_later(script: Script) -> Iterator[Spot]:
    """A network is asked about an action and the observation that this action led to."""
    run = execution(script)
    actions = {id(origin): event.value for event in env_steps(script) for origin in _action(event)}
    seen: set[int] = set()
    for event in formulas.backwards(run):
        for part in formulas.parts(event.value, into_arrays=False) if event.value is not None else ():
            if id(part) in seen or part.free:
                continue
            seen.add(id(part))
            for asked, taken in _questions(part):
                later = [each for each in latest(asked) if each.op == "stepped" and each.data[0] == 0]
                chosen = [each for each in latest(taken) if id(each) in actions]
                for observation in later:
                    step = observation.args[0]
                    if any(actions[id(each)] is step for each in chosen) and len(later) == len(latest(asked)):
                        places = [
                            _put_into(script, asked, observation)
                            or stored_at(script, observation)
                            or _renamed(script, observation)
                            or formulas.written(part)
                        ]
                        if any(stored_at(script, each) is not None for each in _looked_at(step)):  # type: ignore[arg-type]
                            # Both are kept: they are swapped where they are stored, or the wrong one is read.
                            places.append(formulas.written(part))
                            places += _taken_out_at(script, asked)
                        for where in places:
                            yield _spot(
                                where,
                                "the observation that is kept with an action is the one that the action led to: the network learns about the past",
                                "the observation before the step",
                            )


def _taken_out_at(script: Script, value: Value) -> list[ast.AST]:
    """Where a column of a batch gets its name."""
    run = execution(script)
    while isinstance(value, Symbol) and value.op not in ("column", "item") and called(value) in formulas.PASSING and value.args:
        value = value.args[0]
    return formulas.bound_at(run, value)[:1] if isinstance(value, Symbol) and value.label else []


def _renamed(script: Script, observation: Symbol) -> ast.AST | None:
    """obs = next_obs, before the transition is used."""
    run = execution(script)
    named = [node for node, value in run.aliases if value is observation]
    return named[0] if named and not any(event.name == "store" for event in run.events) else None


def _action(event: Event) -> list[Symbol]:
    assert isinstance(event.value, Symbol)
    return latest(event.value.args[1])


def chosen_at(script: Script, event: Event) -> list[ast.AST]:
    """Where the action of a step is chosen, seen from the loop that steps: the statement that names it, or the call that hands it over."""
    run = execution(script)
    assert isinstance(event.value, Symbol)
    action = event.value.args[1]
    handed = [call for call, given in event.calls if any(part is action for value in given for part in shallow(value))]
    held: Value = action
    while isinstance(held, Symbol) and not formulas.bound_at(run, held) and called(held) in formulas.PASSING and held.args:
        held = held.args[0]
    chosen = [held]
    if isinstance(held, Symbol) and held.op == "phi":
        # A warm-up beside it: the branch that asks a network.
        chosen = [each for each in held.args[1:] if formulas.outputs_in(each)]
    return [*handed[:1], *(place for each in chosen for place in formulas.bound_at(run, each)[-1:])] or [event.node]


def _questions(part: Symbol) -> Iterator[tuple[Value, Value]]:
    """Pairs of an observation and an action that a value is about."""
    if called(part) in ("gather", "take_along_dim") and len(part.args) > 2:
        for given in inputs(part.args[0]):
            yield given, part.args[2]
    if part.op in ("item", "read") and len(part.args) > 1 and isinstance(part.args[1], Items):
        for given in inputs(part.args[0]):
            yield given, part.args[1].items[-1]
    if called(part) == "log_prob" and len(part.args) > 1:
        for given in inputs(part.args[0]):
            yield given, part.args[1]
    if part.op == "out" and len(part.args) == 3:
        yield part.args[1], part.args[2]
    if part.op == "out" and len(part.args) == 2:
        joined = part.args[1]
        if (
            called(joined) in ("cat", "concatenate", "hstack")
            and isinstance(joined, Symbol)
            and joined.args
            and isinstance(joined.args[0], Items)
        ) and len(joined.args[0].items) == 2:
            yield joined.args[0].items[0], joined.args[0].items[1]


def inputs(value: Value) -> list[Value]:
    """What networks were asked about, before any layer."""
    asked = [part for part in _contents(value) if part.op == "out" and len(part.args) > 1]
    return [out.args[1] for out in asked if not any(inner.op == "out" for inner in _contents(out.args[1]))][:3]


def _contents(value: Value) -> Iterator[Symbol]:
    """Every symbol that a value holds something of; not which rows were taken, nor how many there are."""
    pending: list[Value] = [value]
    seen: set[int] = set()
    while pending and len(seen) < formulas.MOST_PARTS:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Items):
            pending += current.items
        elif isinstance(current, Symbol):
            yield current
            if current.op in ("net", "env", "step", "reset") or called(current) in ("len", "randperm", "permutation", "arange"):
                continue
            pending += current.args[:1] if current.op in ("item", "read") else [*current.args, *current.keys.values()]


def _put_into(script: Script, asked: Value, observation: Symbol) -> ast.AST | None:
    """Where an observation was put into the very list or array that a network is asked about."""
    holders = {id(part) for part in formulas.parts(asked, into_networks=False, into_arrays=False)}
    holders |= {id(each) for part in formulas.parts(asked, False, False) for each in part.args if isinstance(each, Items)}
    for event in reversed(execution(script).events):
        subject = event.subject
        is_held = event.name == "store" and id(subject) in holders
        if is_held and event.value is not None and any(part is observation for part in shallow(event.value)):
            return _handed_over(event, observation)
    return None


def stored_at(script: Script, observation: Symbol) -> ast.AST | None:
    """Where that observation was put into something."""
    for event in reversed(execution(script).events):
        if event.name == "store" and event.value is not None and any(part is observation for part in shallow(event.value)):
            return _handed_over(event, observation)
    return None


def keeps_apart(script: Script) -> bool:
    """Whether a script also stores the real ends alone, beside those that a time limit makes."""
    return any(
        (held := flag(part)) is not None and held.ends == frozenset({"terminated"})
        for event in execution(script).events
        if event.name == "store" and event.value is not None
        for part in shallow(event.value)
        if isinstance(part, Symbol)
    )


def _handed_over(event: Event, observation: Symbol) -> ast.AST:
    """The call that gave an observation to a memory of the script's own."""
    where = event.node
    for call, given in reversed(event.calls):
        if not any(part is observation for value in given for part in shallow(value)):
            break
        where = call
    return where


def shallow(value: Value, depth: int = 6) -> Iterator[Value]:
    yield value
    if depth:
        held: list[Value] = []
        if isinstance(value, Items):
            held = list(value.items)
        elif isinstance(value, Table):
            held = list(value.items.values())
        elif isinstance(value, Record) and value.kind.fields:
            held = list(value.attributes.values())
        elif isinstance(value, Symbol) and (called(value) in formulas.PASSING or value.op in ("put", "phi", "carried")):
            held = list(value.args)
        for each in held:
            yield from shallow(each, depth - 1)


def stored_twice(script: Script) -> Iterator[Spot]:
    """A transition that is stored with the next observation, and without the one that its action was chosen for."""
    for event in execution(script).events:
        if event.name != "store" or event.value is None or not isinstance(event.value, Items | Table | Record):
            continue
        held = list(shallow(event.value))
        rewards = [each for each in held if isinstance(each, Symbol) and each.op == "stepped" and each.data[0] == 1]
        if len({id(each.args[0]) for each in rewards}) != 1:
            continue
        step = rewards[0].args[0]
        assert isinstance(step, Symbol)
        seen_next = [
            each for each in held if isinstance(each, Symbol) and each.op == "stepped" and each.data[0] == 0 and each.args[0] is step
        ]
        looked_at = _looked_at(step)
        chosen = [each for each in held if isinstance(each, Symbol) and any(each is one or one in latest(each) for one in looked_at)]
        fields = _fields(event.value)
        if len(looked_at) > 0 and not chosen and seen_next and sum(_is_of(each, step) for each in fields) >= 2:
            yield _spot(
                _handed_over(event, seen_next[0]),
                "the observation after the step is stored in both places: the one that the action was chosen for is lost",
                "store before obs = next_obs",
            )
        ordered = (
            [place for place, each in enumerate(fields) if _is_of(each, step)],
            [
                place
                for place, each in enumerate(fields)
                if isinstance(each, Symbol) and any(one in latest(each) or one is each for one in looked_at)
            ],
        )
        names = _names_of(event.value)
        if len(ordered[0]) == len(ordered[1]) == 1 and names:
            after, before = names[ordered[0][0]], names[ordered[1][0]]
            if _is_next(before) and not _is_next(after) and words.OBSERVATION(after):
                yield _spot(
                    event.node,
                    f"the observation before the step is kept as `{before}`, and the one after it as `{after}`: they are swapped",
                    "swap them",
                )


def _is_next(name: str) -> bool:
    return "next" in name.lower() or name.lower().endswith(("2", "_p", "_prime"))


def _fields(value: Value) -> list[Value]:
    if isinstance(value, Items):
        return list(value.items[0].items) if len(value.items) == 1 and isinstance(value.items[0], Items) else (
            _fields(value.items[0]) if len(value.items) == 1 else list(value.items)
        )  # fmt: skip
    if isinstance(value, Table):
        return list(value.items.values())
    if isinstance(value, Record) and value.kind.fields:
        return [value.attributes[name] for name in value.kind.fields if name in value.attributes]
    return [value]


def _names_of(value: Value) -> list[str]:
    if isinstance(value, Items) and len(value.items) == 1:
        return _names_of(value.items[0])
    if isinstance(value, Table):
        return [str(key) for key in value.items]
    if isinstance(value, Record) and value.kind.fields:
        return [name for name in value.kind.fields if name in value.attributes]
    return []


def _is_of(value: Value, step: Symbol) -> bool:
    found = latest(value) if isinstance(value, Symbol) else []
    return bool(found) and all(each.op == "stepped" and each.data[0] == 0 and each.args[0] is step for each in found)


def _looked_at(step: Symbol) -> list[Symbol]:
    """Observations that a network was asked about for the action of a step."""
    made: list[Symbol] = []
    for part in formulas.parts(step.args[1], into_arrays=False):
        if part.op == "out":
            made += [each for given in part.args[1:] for each in latest(given) if each.op in ("stepped", "observed")]
    return [each for each in made if not (each.op == "stepped" and each.args[0] is step)]


def asked_about_the_same(script: Script) -> Iterator[Spot]:
    """A target in which a network is asked about the observation before the step, where the one after it is meant."""
    replayed = bool(formulas.copies(execution(script)))
    for target in formulas.targets(script):
        rewards = [
            each
            for term in terms(target.sum)
            for one in term.factors
            if formulas.is_reward(one)
            for each in latest(one)
            if each.op == "stepped"
        ]
        steps = {id(each.args[0]) for each in rewards}
        carried = any(formulas.carried(one) is not None for one in target.future.factors)
        if len(steps) != 1 or carried or len([term for term in terms(target.sum) if term.sign < 0]) > 0:
            continue
        for out in [found for factor in target.future.factors for found in asked_here(factor)]:
            asked = inputs(out)
            seen = [each for given in asked for each in latest(given)]
            before = [
                each
                for each in seen
                if each.op == "observed" or (each.op == "stepped" and each.data[0] == 0 and id(each.args[0]) not in steps)
            ]
            if seen and len(before) == len(seen) and all(is_drawn(given) or (replayed and is_listed(given)) for given in asked):
                kept = [_kept_as_next(script, each, asked) for each in before]
                # The action that the critic is asked about may be the one that looks at the wrong observation.
                acting = [inner for given in out.args[1:] for inner in formulas.outputs_in(given)]
                acting += [
                    inner
                    for given in out.args[1:]
                    for joined in (
                        [given.args[0]] if called(given) in ("cat", "concatenate", "hstack") and isinstance(given, Symbol) else []
                    )
                    for inner in formulas.outputs_in(joined)
                ]
                fields = [_read_as(script, given) for given in asked]
                places = [formulas.written(acting[0]) if acting else formulas.written(out), *kept]
                for where in [each for each in fields if each is not None] or places:
                    if where is not None:
                        yield _spot(
                            where,
                            "the target asks about the observation before the step, where the one after it is meant",
                            "the next observation",
                        )


def chosen_for_another_observation(script: Script) -> Iterator[Spot]:
    """A target that asks about the next observation and the action of the step before it, or the one that is best in the observation before."""
    actions = {id(origin): event.value for event in env_steps(script) for origin in _action(event)}
    for target in formulas.targets(script):
        rewards = [each for term in terms(target.sum) for one in term.factors if formulas.is_reward(one) for each in latest(one)]
        steps = {id(each.args[0]) for each in rewards if each.op == "stepped"}
        if len(steps) != 1 or any(formulas.carried(one) is not None for one in target.future.factors):
            continue
        for part in [part for factor in target.future.factors for part in formulas.parts(factor, into_arrays=False)]:
            for asked, taken in _questions(part):
                seen = latest(asked)
                if not seen or not all(each.op == "stepped" and each.data[0] == 0 and id(each.args[0]) in steps for each in seen):
                    continue
                # A second thing that a network is given may be its memory.
                answers = [inner for inner in _contents(taken) if inner.op == "out" and part.op != "out"]
                chosen = [
                    one
                    for each in latest(taken)
                    for one in ([one for arg in each.args for one in latest(arg)] if each.op == "Add" else [each])
                ]
                looked = [each for inner in answers for given in inputs(inner) for each in latest(given)]
                if any(id(actions.get(id(each))) in steps for each in chosen):
                    yield _spot(
                        formulas.written(part),
                        "the target asks about the next observation and the action that was taken in the one before: not what would be done next",
                        "the best action of the next observation, or what the policy does there",
                    )
                    for where in _noisy_at(script, taken):
                        yield _spot(
                            where, "the action of the target is the stored one: not what the policy does next", "actor_target(next_obs)"
                        )
                elif looked and all(
                    each.op == "observed" or (each.op == "stepped" and each.data[0] == 0 and id(each.args[0]) not in steps)
                    for each in looked
                ):
                    yield _spot(
                        formulas.written(answers[0]),
                        "the action of the target is chosen in the observation before the step, and valued in the one after it",
                        "choose it in the next observation",
                    )


def _noisy_at(script: Script, taken: Value) -> list[ast.AST]:
    """Where an action gets its name that is another one with noise."""
    made = [each for each in latest(taken) if each.op == "Add"]
    return [each.node for each in made if each.node is not None]


def _read_as(script: Script, asked: Value) -> ast.AST | None:
    """next_states = stack([row.state for row in rows]): where the field of another name is read."""
    made = [part.node for part in formulas.parts(asked, into_networks=False, into_arrays=False) if isinstance(part.node, ast.Call)]
    for statement in script.all(ast.Assign):
        name = words.own_name(statement.targets[0])
        inside = any(node.lineno == statement.lineno for node in made if hasattr(node, "lineno"))
        fields = {each.attr for each in ast.walk(statement.value) if isinstance(each, ast.Attribute) and words.OBSERVATION(each.attr)}
        if inside and _is_next(name) and fields and not any(_is_next(each) for each in fields):
            return statement
    return None


def _kept_as_next(script: Script, observation: Symbol, asked: list[Value]) -> ast.AST | None:
    """Where the observation before a step is stored twice, once in the place of the one after it.

    That is the call that gives it to a memory; or, where that call gives the one after it, too, what the memory makes of them.
    """
    stores = [
        event
        for event in execution(script).events
        if event.name == "store" and event.value is not None and any(part is observation for part in shallow(event.value))
    ]
    places = [_handed_over(event, observation) for event in stores]
    holders = {id(part) for given in asked for part in formulas.parts(given, into_networks=False, into_arrays=False)}
    if len(stores) < 2 or len({id(place) for place in places}) == len(places):
        # An array of its own for what comes next, filled in a statement of its own.
        return next((event.node for event in reversed(stores) if id(event.subject) in holders and not event.calls), None)
    for event in reversed(stores):
        given = [part for call, values in event.calls if call is places[-1] for value in values for part in shallow(value)]
        both = any(isinstance(part, Symbol) and part.op == "stepped" and part.data[0] == 0 and part is not observation for part in given)
        if both and id(event.subject) in holders:
            return event.node
    return places[-1]


def asked_here(value: Value, depth: int = 10) -> list[Symbol]:
    """Answers that were given for this formula, not kept from before."""
    if not isinstance(value, Symbol) or depth == 0:
        return []
    if value.op == "out" and len(value.args) > 1:
        return [value]
    if value.op in ("method", "call", "attribute", "item", "Sub", "Mult") and called(value) not in ("argmax", "gather"):
        return [found for each in value.args for found in asked_here(each, depth - 1)]
    return asked_here(value.args[0], depth - 1) if called(value) == "gather" else []


def is_listed(value: Value) -> bool:
    """Several of a list that grows, stacked: [row.obs for row in rows]."""
    return any(
        isinstance(each, Items) and each.is_open
        for part in formulas.parts(value, into_networks=False, into_arrays=False)
        for each in part.args
    )


def is_drawn(value: Value) -> bool:
    return any(
        part.op in ("column", "sampled") or (part.op == "read" and len(part.args) > 1 and sizes.is_many(part.args[1]))
        for part in formulas.parts(value, into_networks=False, into_arrays=False)
    )


# ── actions ──


def log_prob_of_another_draw(script: Script) -> Iterator[Spot]:
    """The environment gets one draw from the policy, and the log-probability is that of another one."""
    taken = {id(origin) for event in env_steps(script) for origin in latest(event.value.args[1])}  # type: ignore[union-attr]
    dists = {
        id(origin.args[0])
        for event in env_steps(script)
        for origin in latest(event.value.args[1])  # type: ignore[union-attr]
        if called(origin) in ("sample", "rsample") and origin.args
    }
    for event in formulas.backwards(execution(script)):
        for part in formulas.parts(event.value, into_arrays=False) if event.value is not None else ():
            if called(part) != "log_prob" or len(part.args) < 2 or id(part.args[0]) not in dists:
                continue
            drawn = [each for each in latest(part.args[1]) if called(each) in ("sample", "rsample")]
            if drawn and not any(id(each) in taken for each in drawn):
                yield _spot(
                    part.node,
                    "the log-probability is that of another draw than the action which the environment was given",
                    "log_prob(action)",
                )


def acted(script: Script) -> set[int]:
    """Everything that takes part in an action that an environment got."""
    return script.once(
        "acted",
        lambda: {id(part) for event in env_steps(script) for part in formulas.parts(event.value.args[1], into_networks=False)},  # type: ignore[union-attr]
    )


def fresh_draw_in_update(script: Script) -> Iterator[Spot]:
    """The log-probability in an update is that of an action drawn there, from a distribution of stored observations."""
    taken = acted(script)
    for event in formulas.backwards(execution(script)):
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            if called(part) != "log_prob" or len(part.args) < 2 or part.free or _is_reparametrized(event.value):
                continue
            drawn = [each for each in latest(part.args[1]) if called(each) == "sample" and each.args]
            if any(id(each) in taken for each in drawn):
                continue
            asked = [inner.args[1] for inner in formulas.parts(part.args[0], False, False) if inner.op == "out" and len(inner.args) > 1]
            again = [
                inner.args[1]
                for each in drawn
                for inner in formulas.parts(each.args[0], False, False)
                if inner.op == "out" and len(inner.args) > 1
            ]
            if drawn and asked and again and asked[0] is again[0] and _is_kept(asked[0]):
                yield _spot(
                    part.node,
                    "the log-probability is that of an action drawn just now, not of the one that was taken and rewarded",
                    "log_prob(actions)",
                )


def _is_reparametrized(loss: Value | None) -> bool:
    return loss is not None and any(called(part) == "rsample" for part in formulas.parts(loss, into_arrays=False))


def draw_of_its_own(script: Script) -> Iterator[Spot]:
    """dist.log_prob(dist.sample()) in a loss, of a draw that no environment ever gets."""
    run = execution(script)
    taken = acted(script)
    for event in formulas.backwards(run):
        if event.value is None or _is_reparametrized(event.value):
            continue
        for part in formulas.parts(event.value, into_arrays=False):
            if called(part) == "log_prob" and len(part.args) > 1 and not part.free:
                drawn = part.args[1]
                fresh = isinstance(drawn, Symbol) and called(drawn) == "sample" and drawn.args and drawn.args[0] is part.args[0]
                if fresh and id(drawn) not in taken and taken:
                    yield _spot(
                        part.node, "the log-probability is that of an action drawn here, not of the one that was taken", "log_prob(actions)"
                    )


def _is_kept(value: Value) -> bool:
    """Whether observations come from a list or an array."""
    for part in formulas.parts(value, into_networks=False, into_arrays=False):
        if part.op in ("read", "array", "column", "sampled") or any(isinstance(each, Items) and each.is_open for each in part.args):
            return True
    return False


def log_prob_of_clipped_draw(script: Script) -> Iterator[Spot]:
    """The log-probability of a draw after it was cut to the bounds of actions."""
    for event in formulas.backwards(execution(script)):
        for part in formulas.parts(event.value) if event.value is not None else ():
            if called(part) != "log_prob" or len(part.args) < 2:
                continue
            dist, action = part.args[0], part.args[1]
            clip: Symbol | None = None
            while isinstance(action, Symbol) and called(action) in formulas.PASSING and action.args:
                clip = action if called(action) in ("clip", "clamp") else clip
                action = action.args[0]
            drawn = isinstance(action, Symbol) and called(action) in ("sample", "rsample") and action.args and action.args[0] is dist
            if clip is not None and drawn:
                yield _spot(
                    clip.node,
                    "the action is cut to its bounds before its log-probability is taken: it is that of an action which was not drawn",
                    "clip only what the environment gets",
                )


def greedy_policy(script: Script) -> Iterator[Spot]:
    """The likeliest action in every step of training, of a network that is trained by its log-probabilities."""
    run = execution(script)
    trained = {
        id(formulas.root(inner.args[0]))
        for event in formulas.backwards(run)
        if event.value is not None
        for part in formulas.parts(event.value, into_arrays=False)
        if called(part) == "log_prob" and not part.free
        for inner in formulas.parts(part.args[0], into_networks=False, into_arrays=False)
        if inner.op == "out"
    }
    events = env_steps(script)
    if not trained or any(_has_chance(event.value.args[1]) for event in events):  # type: ignore[union-attr]
        return
    for event in events:
        assert isinstance(event.value, Symbol)
        for part in formulas.parts(event.value.args[1], into_networks=False, into_arrays=False):
            if called(part) in ("argmax", "max") and part.args and event.loops:
                asked = [inner for inner in formulas.parts(part.args[0], False, False) if inner.op == "out"]
                if asked and id(formulas.root(asked[0].args[0])) in trained:
                    yield _spot(part.node, "the likeliest action is taken in training: nothing else is ever tried", "dist.sample()")


def _has_chance(value: Value) -> bool:
    return any(
        called(part) in ("sample", "rsample", "multinomial", "choice", "random") for part in formulas.parts(value, into_arrays=False)
    )


def observation_kept(script: Script) -> Iterator[Spot]:
    """In the second pass of a loop the action is still chosen for what the reset returned."""
    for node, events in _by_place(env_steps(script)).items():
        event = events[-1]
        assert isinstance(event.value, Symbol)
        if len(events) < 2 or not event.loops:
            continue
        asked = [each for given in inputs(event.value.args[1]) for each in latest(given)]
        stepped = [each for each in asked if each.op != "observed" and each.op != "reset"]
        if asked and not stepped and not any(isinstance(loop, ast.For) and _begins_anew(script, loop, event) for loop in event.loops[-1:]):
            for where in (node, *left_as_it_was(script, asked, event)):
                yield _spot(
                    where,
                    "actions are chosen for the first observation again and again: what the step returns is not carried to the next one",
                    "obs = next_obs",
                )


def left_as_it_was(script: Script, observations: list[Symbol], step: Event) -> list[ast.AST]:
    """Where the loop sets what actions are chosen for, after the step; else where they are chosen."""
    run = execution(script)
    loop = step.loops[-1]
    held = [statement for each in observations for statement in formulas.bound_at(run, each)]
    again = [each for each in held if _is_within(each, loop) and getattr(each, "lineno", 0) > getattr(step.node, "lineno", 0)]
    assert isinstance(step.value, Symbol)
    given = formulas.parts(step.value.args[1], into_networks=False, into_arrays=False)
    asked = [formulas.written(out) for out in given if out.op == "out"]
    return again or [*chosen_at(script, step), *(each for each in asked[-1:] if each is not None)]


def _is_within(node: ast.AST, loop: ast.AST) -> bool:
    line = getattr(node, "lineno", 0)
    return bool(line) and getattr(loop, "lineno", 0) < line <= (getattr(loop, "end_lineno", None) or 0)


def _begins_anew(script: Script, loop: ast.AST, event: Event) -> bool:
    """Whether every pass begins with a reset, and makes one step: a bandit."""
    return any(
        other.name == "env reset"
        and other.loops
        and other.loops[-1] is loop
        and other.subject is event.subject
        and other.guards == event.guards
        for other in execution(script).events
    )


# ── chance ──


def kept_steps(script: Script) -> set[int]:
    """Steps of environments whose rewards are stored or learned from."""
    return {
        id(held.args[0])
        for event in execution(script).events
        if event.name == "store" and event.value is not None
        for held in shallow(event.value)
        if isinstance(held, Symbol) and held.op == "stepped" and held.data[0] == 1
    }


def choices(script: Script) -> Iterator[tuple[Event, Symbol, Value, Value, Value]]:
    """Actions that are chosen by chance: the comparison, its threshold, what is done where it holds, and where it does not."""
    for event in env_steps(script):
        assert isinstance(event.value, Symbol)
        for part in formulas.parts(event.value.args[1], into_networks=False, into_arrays=False):
            chooses = part.op == "phi" or (called(part) == "where" and len(part.args) == 3)
            if chooses:
                for test, holds in _comparisons(part.args[0]):
                    one, other = (part.args[1], part.args[2]) if holds else (part.args[2], part.args[1])
                    yield event, test, part.args[0], one, other


def _comparisons(test: Value, holds: bool = True) -> Iterator[tuple[Symbol, bool]]:
    if isinstance(test, Symbol):
        if test.op == "Compare" and len(test.args) == 2:
            yield test, holds
        elif test.op == "Not":
            yield from _comparisons(test.args[0], not holds)
        elif test.op == "And" and holds:
            for each in test.args:
                yield from _comparisons(each, holds)


def threshold(test: Symbol) -> tuple[Value, bool] | None:
    """What a random number is compared with, and whether the test holds where the number is smaller."""
    left, right = test.args
    if test.data not in ("Lt", "LtE", "Gt", "GtE"):
        return None
    smaller = test.data in ("Lt", "LtE")
    if _is_chance(left) and not _is_chance(right):
        return right, smaller
    if _is_chance(right) and not _is_chance(left):
        return left, not smaller
    return None


def _is_chance(value: Value) -> bool:
    return isinstance(value, Symbol) and called(value) in _CHANCES


def is_random_action(value: Value) -> bool:
    held = [
        part
        for part in formulas.parts(value, into_networks=False, into_arrays=False)
        if called(part) != "len" and not (part.op == "attribute" and part.data == "shape")
    ]
    counted = {
        id(inner) for part in formulas.parts(value, False, False) if called(part) == "len" for inner in formulas.parts(part, False, False)
    }
    held = [part for part in held if id(part) not in counted]
    return any(called(part) in _RANDOM_ACTIONS for part in held) and not any(part.op == "out" for part in held)


def _is_greedy_action(value: Value) -> bool:
    held = list(formulas.parts(value, into_networks=False, into_arrays=False))
    return any(part.op == "out" for part in held) and any(called(part) in ("argmax", "max") for part in held)


def explores(script: Script) -> bool:
    """Whether some action that an environment is given is chosen at random, or has noise added."""
    return any(is_random_action(holds) or is_random_action(fails) for _, _, _, holds, fails in choices(script))


def exploration_inverted(script: Script) -> Iterator[Spot]:
    for _, test, _, holds, fails in choices(script):
        compared = threshold(test)
        if compared is None:
            continue
        value, smaller = compared
        where_smaller, where_larger = (holds, fails) if smaller else (fails, holds)
        number = formulas.number(value)
        if (
            _is_greedy_action(where_smaller)
            and is_random_action(where_larger)
            and (number is None or number < MOST_CHANCE)
            and _falls(value)
        ):
            yield _spot(
                test.node,
                "the random action is taken where the random number is above epsilon: exploration grows as epsilon falls",
                "if random.random() < epsilon: explore",
            )


def _falls(value: Value) -> bool:
    """Whether a threshold is a chance to explore: one that falls, or a small number."""
    number = formulas.number(value)
    if number is not None:
        return number < MOST_CHANCE
    for part in formulas.parts(value, into_networks=False, into_arrays=False):
        if part.op in ("Sub", "Mult", "Div", "Pow", "USub") or called(part) in ("max", "exp", "interp", "maximum"):
            return True
    return False


def worst_action(script: Script) -> Iterator[Spot]:
    """The action with the smallest value."""
    for event in env_steps(script):
        assert isinstance(event.value, Symbol)
        for part in formulas.parts(event.value.args[1], into_networks=False, into_arrays=False):
            if called(part) == "argmin" and part.args and any(inner.op == "out" for inner in formulas.parts(part.args[0], False, False)):
                yield _spot(part.node, "the action with the smallest value is taken", "argmax")


def chance_never_falls(script: Script) -> Iterator[Spot]:
    events: dict[ast.AST, list[tuple[Symbol, Value]]] = {}
    kept = kept_steps(script)
    for event, test, _, holds, fails in choices(script):
        if kept and id(event.value) not in kept:
            continue  # an evaluation has a chance of its own
        compared = threshold(test)
        if compared is None:
            continue
        value, smaller = compared
        explores, exploits = (holds, fails) if smaller else (fails, holds)
        if is_random_action(explores) and _is_greedy_action(exploits) and isinstance(test.node, ast.AST):
            events.setdefault(test.node, []).append((test, value))
    for node, held in events.items():
        numbers = [formulas.number(value) for _, value in held]
        last = numbers[-1]
        if last is not None and last >= MOST_CHANCE and all(each == last for each in numbers) and not _changes(script, node):
            value = held[-1][1]
            where = formulas.written(value) if isinstance(value, Symbol) and value.op != "const" else node
            # A number that is handed to the function which acts: where it is named, too.
            for place in (where, *formulas.bound_at(execution(script), value)[:1]):
                yield _spot(
                    place,
                    f"the chance to explore is {last:g} in every step, and nothing makes it smaller: what was learned is hardly ever used",
                    "let it fall to 0.05",
                )


def chance_over_time(script: Script) -> Iterator[Spot]:
    """The chance to explore, computed for the first step and for later ones: it grows, stays at 1, or is below 0 from the start."""
    held: dict[ast.AST, list[Value]] = {}
    for _, test, _, holds, fails in choices(script):
        compared = threshold(test)
        if compared is not None and isinstance(test.node, ast.AST):
            value, smaller = compared
            explores, exploits = (holds, fails) if smaller else (fails, holds)
            if is_random_action(explores) and _is_greedy_action(exploits):
                held.setdefault(test.node, []).append(value)
    for node, every in held.items():
        # An evaluation that gives 0 asks at the same place as training, whose chance changes.
        moving = [each for each in every if isinstance(each, Symbol) and each.op == "carried"]
        values: list[Value] = [*moving] or every
        course = _course(values)
        if course is None:
            continue
        where = formulas.written(values[-1]) or node
        where = node if isinstance(values[-1], Symbol) and values[-1].op == "const" else where
        if isinstance(values[-1], Symbol) and values[-1].op == "carried":
            where = formulas.written(values[-1].args[0]) or where
        rises = course[-1] > course[0] + 0.02 and course == sorted(course) and (course[0] < 1 or course[-1] > 1.5)
        if len(course) > 3 and max(course) > max(course[0], 1.0) + 0.05:
            rises = True
        for place in _decided_at(script, values[-1], where) if rises else ():
            yield _spot(place, f"the chance to explore grows from {course[0]:.2g} to {min(max(course), 9.99):.2g}", "let it fall to 0.05")
        if not rises and min(course) >= MOST_CHANCE and course[0] == course[-1] and len(course) > 2:
            for place in _decided_at(script, values[-1], where):
                yield _spot(
                    place,
                    f"the chance to explore is {course[0]:g} in the first step and in the last: what was learned is hardly ever used",
                    "let it fall to 0.05",
                )
        elif not rises and course[0] <= 0.1 and course[-1] < 0:
            yield _spot(where, "the chance to explore is at its floor in the first step, and below 0 later", "max(end, …)")


def _decided_at(script: Script, value: Value, where: ast.AST) -> list[ast.AST]:
    """Where a chance is worked out: of a function with several returns, the one that computes it, and the statement that calls it."""
    if not isinstance(value, Symbol):
        return [where]
    if not isinstance(where, ast.FunctionDef):
        bounds = [
            each.node for each in formulas.parts(value, False, False) if called(each) in ("min", "max", "clip") and each.node is not None
        ]
        return list({getattr(node, "lineno", 0): node for node in (where, *bounds[:2])}.values())
    computed = [each.node for each in value.args[1:] if isinstance(each, Symbol) and each.op != "const" and each.node is not None]
    return [where, *computed, *formulas.bound_at(execution(script), value)[-1:]]


def _course(values: list[Value]) -> list[float] | None:
    """A value at the first step and at later ones, as far as a script decides it."""
    last = values[-1]
    begun: list[float] = []
    if isinstance(last, Symbol) and last.op == "carried":
        start, body = formulas.evaluated(last.args[1]), last.args[0]
        if start is not None and any(formulas.is_counter(part) for part in formulas.parts(body, into_networks=False, into_arrays=False)):
            begun, last = [start], body
        elif start is not None and (after := formulas.evaluated(body)) is not None:
            return [start, after, after] if after == start else [start, after]
    if any(formulas.is_counter(part) for part in formulas.parts(last, into_networks=False, into_arrays=False)):
        found = [formulas.evaluated(last, float(step)) for step in (0, 1, 10, 100, 1000, 10_000, 100_000)]
        return None if None in found else begun + [each for each in found if each is not None]
    if isinstance(last, Symbol) and last.op == "carried":
        found = [formulas.evaluated(last.args[1]), formulas.evaluated(last.args[0])]
    else:
        found = [formulas.evaluated(each) for each in values]
    return None if None in found or len(found) < 2 else [each for each in found if each is not None]


def _changes(script: Script, test: ast.AST) -> bool:
    """Whether something that a comparison reads is set in more than one place."""
    called_for = {part for node in ast.walk(test) if isinstance(node, ast.Call) for part in ast.walk(node)}
    read = {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(test)
        if isinstance(node, ast.Name | ast.Attribute) and node not in called_for
    }
    places: dict[str, int] = {}
    idle = [
        range(function.lineno, (function.end_lineno or function.lineno) + 1)
        for function in script.functions
        if execution(script).reached and function.lineno not in execution(script).reached
    ]
    places_set = [*script.all(ast.Name), *script.all(ast.Attribute)]
    used = [node for node in places_set if not any(node.lineno in lines for lines in idle)]
    stored = [node.id for node in used if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    stored += [node.attr for node in used if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    for name in stored:
        places[name] = places.get(name, 0) + (name in read)
    return any(count > 1 for count in places.values())


# ── ends ──


ENDLESS: Final = ("Pendulum-", "HalfCheetah-", "Reacher-", "Swimmer-", "Pusher-")


def knows_no_ends(script: Script) -> bool:
    """Whether every environment is one whose episodes nothing but the clock ends, and what it says of ends is read nowhere."""
    run = execution(script)
    steps = [event.value for event in env_steps(script)]
    made = [part for step in steps if isinstance(step, Symbol) for part in formulas.parts(step.args[0]) if part.op == "env"]
    ids = [each.args[0].data for each in made if each.data == "make" and each.args and isinstance(each.args[0], Symbol)]
    if not ids or not all(isinstance(each, str) and each.startswith(ENDLESS) for each in ids):
        return False
    named = _names_of_ends(run)
    return not any(isinstance(each.ctx, ast.Load) and each.id in named for each in script.all(ast.Name))


def throws_ends_away(script: Script) -> bool:
    """Whether ends are left out by name, `obs, reward, _, truncated, _ = env.step(action)`, where there are none."""
    return knows_no_ends(script) and _names_of_ends(execution(script)) <= {"_"}


def _names_of_ends(run: Execution) -> set[str]:
    """What real ends are called where a step is taken apart."""
    return {
        name
        for names, _ in run.unpacked
        for name, value in names
        if isinstance(value, Symbol) and value.op == "stepped" and value.data == (2, 5)
    }


def end_is_overlooked(script: Script) -> Iterator[Spot]:
    """A loop of steps that is left, or begins anew, at one kind of end only."""
    run = execution(script)
    for node, events in _by_place(env_steps(script)).items():
        event = events[-1]
        step = event.value
        assert isinstance(step, Symbol)
        if not event.loops or not isinstance(event.subject, Symbol) or event.subject.op != "env" or not sizes.is_single(event.subject):
            continue
        loop = event.loops[-1]
        reasons: list[Value] = []
        if isinstance(loop, ast.While) and loop in run.tests:
            reasons.append(run.tests[loop])
        place = len(event.loops)
        for other in run.events:
            if other.loops[:place] != event.loops:
                continue
            if other.name == "leave" or (other.name == "env reset" and other.subject is event.subject):
                reasons += other.guards[len(event.guards) :]
        ends: set[str] = set()
        named: ast.AST | None = None
        for reason in reasons:
            found = ends_in(reason)
            ends |= found
            if found and named is None:
                named = reason.node if isinstance(reason, Symbol) else None
        places = [named or node, *(each for each in _renamed_flags(script, reasons) if _is_within(each, loop))]
        for where in places if ends == {"truncated"} and not knows_no_ends(script) else ():
            yield _spot(
                where,
                "the episode is left at time limits alone: after a real end the environment is stepped on, and what it returns means nothing",
                "if terminated or truncated",
            )
        for where in places if ends == {"terminated"} and (isinstance(loop, ast.While) or _is_long(run.walked.get(loop))) else ():
            yield _spot(
                where,
                "the episode is left at real ends alone: at a time limit the environment is stepped on, though its episode is over",
                "if terminated or truncated",
            )


def _renamed_flags(script: Script, reasons: list[Value]) -> list[ast.AST]:
    """done = terminated: where a flag gets the name that a loop asks for."""
    run = execution(script)
    held = [part for reason in reasons for part in formulas.parts(reason, into_networks=False, into_arrays=False) if part.op == "stepped"]
    return [node for node, value in run.aliases if any(value is part for part in held)][:1]


def ends_in(value: Value) -> set[str]:
    """The ends that a condition asks for."""
    held = flag(value)
    if held is not None:
        return set(held.ends)
    joins = isinstance(value, Symbol) and value.op in ("And", "Or", "Not", "BitOr", "BitAnd", "Compare", "Invert")
    return {end for each in value.args for end in ends_in(each)} if joins and isinstance(value, Symbol) else set()


def _is_long(walked: Value | None) -> bool:
    """A loop over the whole of training, not over the steps of one episode."""
    if isinstance(walked, Symbol) and walked.op == "range":
        bound = formulas.number(walked.args[1] if len(walked.args) > 1 else walked.args[0])
        return bound is not None and bound >= 5000
    # for t in count(): until something breaks it off
    return called(walked) == "count" if walked is not None else False


def _by_place(events: list[Event]) -> dict[ast.AST, list[Event]]:
    made: dict[ast.AST, list[Event]] = {}
    for event in events:
        made.setdefault(event.node, []).append(event)
    return made


def path_closed_wrongly(script: Script) -> Iterator[tuple[str, Spot]]:
    """The value that closes a path of rewards: nothing at a real end, what the critic says elsewhere."""
    for last, where in _tails(script):
        if isinstance(last, Symbol) and last.op == "phi":
            held = flag(last.args[0])
            zero_first, zero_second = (formulas.number(each) == 0 for each in last.args[1:3])
            if held is None or zero_first == zero_second:
                continue
            cuts_at_end = (held.sign > 0) == zero_first
            if held.ends == frozenset({"truncated"}):
                # At a time limit the critic closes the path: the other way round.
                cuts_at_end = not cuts_at_end
            if not cuts_at_end:
                yield (
                    "COD502",
                    _spot(
                        formulas.written(last) or where,
                        "the path is closed with the critic's value where the episode ended, and with nothing where it goes on: the wrong way round",
                        "0 if terminated else value",
                    ),
                )
            elif "truncated" in held.ends and len(held.ends) > 1:
                yield (
                    "COD101",
                    _spot(
                        formulas.written(last) or where,
                        "a path that a time limit cut is closed with nothing: the future there is worth something",
                        "0 only where terminated",
                    ),
                )
        elif isinstance(last, Symbol) and any(part.op == "out" for part in formulas.parts(last, into_networks=False, into_arrays=False)):
            guards = [flag(part) for guard in last.guards for part in formulas.parts(guard, into_networks=False)]
            ends = {end for each in guards if each is not None for end in each.ends}
            if "terminated" in ends and not any(
                isinstance(guard, Symbol) and guard.op == "Not" and flag(guard.args[0]) for guard in last.guards
            ):
                yield (
                    "COD501",
                    _spot(
                        formulas.written(last) or where,
                        "every path is closed with what the critic says, also where the episode really ended: nothing takes it away there",
                        "0 if terminated else value",
                    ),
                )


def _tails(script: Script) -> Iterator[tuple[Value, ast.AST | None]]:
    seen: set[int] = set()
    for call in execution(script).calls:
        if called(call) != "append" or call.op != "call" or len(call.args) != 2 or id(call.args[1]) in seen:
            continue
        if any(each.op == "out" for origin in formulas.origins(call.args[0]) for each in formulas.parts(origin, False, False)):
            seen.add(id(call.args[1]))
            yield _unwrapped(call.args[1]), call.node


def _unwrapped(value: Value) -> Value:
    while isinstance(value, Symbol) and called(value) in formulas.PASSING and value.args:
        value = value.args[0]
    return value


def _closed(id: str) -> Callable[[Script], Iterator[Spot]]:
    def meaning(script: Script) -> Iterator[Spot]:
        for check, spot in path_closed_wrongly(script):
            if check == id:
                yield spot

    return meaning


# ── time ──


def flags_of_another_step(script: Script) -> Iterator[Spot]:
    """A reward of one step beside the flag of another one."""
    for target in (*((each.sum, each.future) for each in formulas.targets(script)), *formulas.returns(script)):
        total, future = target
        rewards = [each for term in terms(total) for each in term.factors if formulas.is_reward(each)]
        for reward in rewards[:1]:
            own = row(reward)
            for factor in future.factors:
                if flag(factor) is None:
                    continue
                for part in formulas.parts(factor, into_networks=False, into_arrays=False):
                    other = row(part) if part.op == "read" else None
                    if own is None or other is None or own[0] is not other[0]:
                        continue
                    before = _is_kept_before(part)
                    if before is not None and other[1] - own[1] != (1 if before else 0):
                        yield _spot(
                            total.node,
                            "the flag that cuts here belongs to another step than the reward: episodes leak into each other, and are cut one step off",
                            "the flag of the same step",
                        )


def row(value: Value) -> tuple[Value, int] | None:
    """Which row of an array is read: the counter of a loop, and how far from it."""
    while isinstance(value, Symbol) and called(value) in formulas.PASSING and value.args:
        value = value.args[0]
    if not isinstance(value, Symbol) or value.op != "read" or len(value.args) < 2:
        return None
    key = value.args[1]
    if isinstance(key, Symbol) and key.op in ("index", "element"):
        return key, 0
    if (
        isinstance(key, Symbol)
        and key.op in ("Add", "Sub")
        and len(key.args) == 2
        and isinstance(key.args[0], Symbol)
        and key.args[0].op in ("index", "element")
    ):
        offset = formulas.number(key.args[1])
        return (key.args[0], int(offset if key.op == "Add" else -offset)) if offset is not None else None
    return None


def _is_kept_before(value: Symbol) -> bool | None:
    """Whether an array of flags holds those from before each step; None where that is not seen."""
    array = value.args[0]
    stored = [each for each in (array.stored if isinstance(array, Symbol) else ()) if isinstance(each, Symbol) and each.op == "put"]
    if not stored:
        return None
    last = stored[-1].args[0]
    for part in formulas.parts(last, into_networks=False, into_arrays=False):
        if part.op == "carried":
            return True
        if part.op == "stepped":
            return False
    return None


def rewards_discounted(script: Script) -> Iterator[Spot]:
    """The discount stands at the reward of the same step."""
    for each in execution(script).sums:
        if each.op not in ("Add", "Mult"):
            continue
        held = terms(each)
        rewards = [term for term in held if term.sign > 0 and any(formulas.is_reward(one) for one in term.factors)]
        running = [
            term
            for term in held
            if term.sign > 0 and any(formulas.carried(one) is not None for one in term.factors) and term not in rewards
        ]
        if len(rewards) != 1 or len(running) != 1:
            continue
        factors = [one for one in rewards[0].factors if not formulas.is_reward(one)]
        later = [one for one in running[0].factors if formulas.carried(one) is None]
        for factor in factors:
            number = formulas.number(factor)
            if (
                number is not None
                and 0.8 <= number < 1
                and (any(one is factor or formulas.number(one) == number for one in later) or not later)
            ):
                yield _spot(
                    each.node,
                    "the discount is at the reward of this step, where it belongs to what follows: returns are too small by one step",
                    "reward + gamma * following",
                )


def discount_unused(script: Script) -> Iterator[Spot]:
    """Rewards are summed without a discount, and the discount that the script names is never read."""
    named = {node.id for node in script.all(ast.Name) if isinstance(node.ctx, ast.Store) and words.GAMMA(node.id)}
    named |= {
        each.arg for function in script.functions for each in (*function.args.args, *function.args.kwonlyargs) if words.GAMMA(each.arg)
    }
    used = {node.id for node in script.all(ast.Name) if isinstance(node.ctx, ast.Load)} | {node.attr for node in script.all(ast.Attribute)}
    if not named or named & used:
        return
    for target in formulas.targets(script):
        if not any(formulas.is_scalar(factor) for factor in target.future.factors):
            yield _spot(target.sum.node, f"what comes next counts in full, and `{min(named)}` is never used", "reward + gamma * next")
    for each in execution(script).sums:
        if each.op == "Add" and each.data != "in place" and len(each.args) == 2:
            kept = [one for one in each.args if formulas.carried(one) is not None]
            if len(kept) == 1 and formulas.is_reward(next(one for one in each.args if one is not kept[0])):
                yield _spot(
                    each.node, f"rewards are summed without a discount, and `{min(named)}` is never used", "reward + gamma * following"
                )


def same_seeds(script: Script) -> Iterator[Spot]:
    """Environments that are made or reset in a row, all with the same seed."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.keyword) and node.arg in ("seed", "seeds") and isinstance(node.value, ast.ListComp):
            counters = {name.id for part in node.value.generators for name in ast.walk(part.target) if isinstance(name, ast.Name)}
            used = {name.id for name in ast.walk(node.value.elt) if isinstance(name, ast.Name)}
            calls = [part for part in ast.walk(node.value.elt) if isinstance(part, ast.Call)]
            if not counters & used and not calls:
                yield _spot(node.value, "every environment gets the same seed: they all play the same episodes", "seed + i")
        if isinstance(node, ast.ListComp):
            counters = {name.id for part in node.generators for name in ast.walk(part.target) if isinstance(name, ast.Name)}
            for call in ast.walk(node.elt):
                own = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "reset"
                holder = (
                    {name.id for name in ast.walk(call.func) if isinstance(name, ast.Name)} if own and isinstance(call, ast.Call) else set()
                )
                seed = next((key.value for key in call.keywords if key.arg == "seed"), None) if own and isinstance(call, ast.Call) else None
                if (
                    seed is not None
                    and holder & counters
                    and not any((isinstance(one, ast.Name) and one.id in counters) or isinstance(one, ast.Call) for one in ast.walk(seed))
                ):
                    yield _spot(seed, "every environment gets the same seed: they all play the same episodes", "seed + i")
        repeated = node.value if isinstance(node, ast.keyword) and node.arg in ("seed", "seeds") else None
        if isinstance(repeated, ast.BinOp) and isinstance(repeated.op, ast.Mult):
            lists = [each for each in (repeated.left, repeated.right) if isinstance(each, ast.List) and len(each.elts) == 1]
            if lists and not isinstance(lists[0].elts[0], ast.Call):
                yield _spot(repeated, "every environment gets the same seed: they all play the same episodes", "seed + i")
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name | ast.Tuple):
            counters = {name.id for name in ast.walk(node.target) if isinstance(name, ast.Name)}
            for call in ast.walk(node):
                is_seed = (
                    isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "seed" and len(call.args) == 1
                )
                if is_seed and isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                    holder = {name.id for name in ast.walk(call.func.value) if isinstance(name, ast.Name)}
                    if holder & counters and isinstance(call.args[0], ast.Constant):
                        yield _spot(call, "every environment gets the same seed: they all play the same episodes", "seed + i")


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD122": (asked_about_later, stored_twice),
    "COD536": (asked_about_the_same, chosen_for_another_observation),
    "COD106": (observation_kept,),
    "COD201": (log_prob_of_clipped_draw,),
    "COD210": (log_prob_of_another_draw, fresh_draw_in_update, draw_of_its_own),
    "COD206": (greedy_policy,),
    "COD511": (exploration_inverted, worst_action),
    "COD508": (chance_never_falls, chance_over_time),
    "COD105": (end_is_overlooked,),
    "COD501": (_closed("COD501"),),
    "COD502": (_closed("COD502"),),
    "COD101": (_closed("COD101"),),
    "COD515": (flags_of_another_step,),
    "COD512": (rewards_discounted, discount_unused),
    "COD903": (same_seeds,),
}
"""What is added to which check."""
