"""What checks say of how a script's values are put together: names that hold something else, arrays nobody fills, lists nobody empties,
statistics of another value, targets without a reward, learning that never begins."""

# ruff: noqa: E501 — a message reads best whole

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.lint.code.reading import signs, words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot
from rlclinic.diagnosis.lint.code.symbolic import experience, formulas, learning, sizes
from rlclinic.diagnosis.lint.code.symbolic.execution import Event, Execution, Items, Record, Symbol, Table, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called, execution, flag, number, outputs_in, role, terms

FEWEST_KEPT: Final = 500
FEWEST_OF_A_MEMORY: Final = 16
"""A shorter deque is a window of steps."""


def _spot(where: ast.AST | None, text: str, fix: str = "") -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix)


# ── names ──


def arguments_swapped(script: Script) -> Iterator[Spot]:
    """f(b, a) of a function f(a, b): two names stand in each other's place."""
    functions: dict[str, list[list[str]]] = {}
    for function in script.functions:
        own = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        above = script.parents.get(function)
        name = above.name if function.name == "__init__" and isinstance(above, ast.ClassDef) else function.name
        functions.setdefault(name, []).append(own[1:] if own[:1] in (["self"], ["cls"]) else own)
    for node in script.all(ast.Call):
        known = functions.get(words.own_name(node.func), [])
        if len(known) != 1 or any(isinstance(each, ast.Starred) for each in node.args):
            continue
        given = [each.id if isinstance(each, ast.Name) else "" for each in node.args]
        for place, name in enumerate(given[: len(known[0])]):
            other = known[0].index(name) if name and name in known[0] else place
            if place < other < len(given) and given[other] == known[0][place] and _means_something(name, given[other]):
                yield _spot(node, f"`{name}` is given as `{given[other]}`, and `{given[other]}` as `{name}`: they are swapped", "swap them")


def _means_something(one: str, other: str) -> bool:
    meanings = (words.REWARD, words.END, words.OBSERVATION, words.ACTION, words.GAMMA, words.LAMBDA)
    return any(meaning(one) for meaning in meanings) and any(meaning(other) for meaning in meanings)


def name_holds_another(script: Script) -> Iterator[Spot]:
    """Where a name got something else first; what follows from that is not said again."""
    yield from list(_names_that_hold_another(script))[:1]


def rows_of_another_batch(script: Script) -> Iterator[Spot]:
    """In a loss, one thing is read by rows that were drawn, and another one by rows in their order."""
    for event in formulas.backwards(execution(script)):
        drawn, ordered = [], []
        for part in formulas.parts(event.value) if event.value is not None else ():
            key = part.args[1] if part.op in ("read", "item") and len(part.args) > 1 else None
            if isinstance(key, Symbol) and _array(part.args[0]) is not None:
                if key.op == "slice" and key.args and not any(number(each) is not None for each in key.args):
                    ordered.append(part)
                elif key.op in ("read", "item", "element", "method") and sizes.is_many(key):
                    drawn.append(part)
        if len(drawn) > 1 and len(ordered) == 1:
            yield _spot(
                ordered[0].node,
                "these rows are taken in their order, and the others of the same loss as they were drawn: they do not belong together",
                "the same rows",
            )


def _names_that_hold_another(script: Script) -> Iterator[Spot]:
    """A tuple is taken apart into names that stand for other things: rewards where ends are, the next observation where this one is."""
    for names, node in execution(script).unpacked:
        if sum(len(name) > 1 for name, _ in names) < 3:
            continue
        held = {name: value for name, value in names if name != "_" and not isinstance(value, Items)}
        for name, value in held.items():
            ends = flag(value)
            shown = role(value) in ("obs", "next_obs") and _is_known(value)
            if words.END(name) and len(name) > 1 and shown and not words.OBSERVATION(name):
                yield _spot(node, f"`{name}` holds observations: the order is another one where they were stored", "the order of storing")
                break
            if words.END(name) and len(name) > 1 and role(value) == "reward":
                yield _spot(node, f"`{name}` holds rewards: the order is another one where they were stored", "the order of storing")
                break
            if words.REWARD(name) and not words.END(name) and ends is not None and "named" not in ends.ends:
                yield _spot(node, f"`{name}` holds flags of ends: the order is another one where they were stored", "the order of storing")
                break
        kinds = {name: _only_end(value) for name, value in held.items()}
        crossed = [
            name
            for name, kind in kinds.items()
            if (words.TERMINATED(name) and kind == "truncated") or (words.TRUNCATED(name) and kind == "terminated")
        ]
        if len(crossed) == 2 or (crossed and words.TERMINATED(crossed[0])):
            yield _spot(node, f"`{crossed[0]}` holds the other kind of end: real ends and time limits are swapped", "swap them")
        named = [name for name in held if words.REWARD(name) and not words.END(name)]
        real = [name for name, value in held.items() if role(value) == "reward" and not words.RETURN(name)]
        if len(named) == 1 and real and named[0] not in real and outputs_in(held[named[0]]):
            yield _spot(node, f"`{named[0]}` gets what a network says, and `{real[0]}` the reward: they are swapped", "swap them")
        seen = [name for name in held if words.OBSERVATION(name)]
        later = [name for name in seen if _is_next(name)]
        now = [name for name in seen if name not in later]
        if (
            len(later) == len(now) == 1
            and role(held[now[0]]) == "next_obs"
            and role(held[later[0]]) != "next_obs"
            and _is_known(held[later[0]])
        ):
            yield _spot(node, f"`{now[0]}` holds the observation after the step, and `{later[0]}` the one before it", "swap them")


def _only_end(value: Value) -> str:
    """Which of the two kinds of end a value is, as a step gave it."""
    found = {origin.data[0] if origin.op == "stepped" and origin.data[1] == 5 else None for origin in formulas.origins(value)}
    return {2: "terminated", 3: "truncated"}.get(next(iter(found)) or 0, "") if len(found) == 1 else ""


def _is_next(name: str) -> bool:
    lowered = name.lower()
    return any(mark in lowered for mark in ("next", "new", "after", "prime", "following")) or lowered.endswith(("2", "_"))


def _is_known(value: Value) -> bool:
    held = {each.op for each in formulas.origins(value)}
    return bool(held) and held <= {"stepped", "observed", "reset"}


# ── arrays and lists ──


def array_never_filled(script: Script) -> Iterator[Spot]:
    """An array of zeros that batches are read from, beside others that are filled."""
    run = execution(script)
    if script.words & {"share_memory_", "share_memory", "multiprocessing", "SharedMemory"}:
        # Another process may fill it.
        return
    for event in formulas.backwards(run) if run.complete else ():
        arrays: dict[int, list[Symbol]] = {}
        for part in formulas.parts(event.value) if event.value is not None else ():
            key = part.args[1] if part.op in ("read", "item") and len(part.args) > 1 else None
            source = _array(part.args[0]) if isinstance(key, Symbol) and sizes.is_many(key) else None
            if source is not None and str(source.data).rpartition("_")[0] == "" and source.data in ("zeros", "empty"):
                arrays.setdefault(id(key), []).append(source)
        for read in arrays.values():
            if any(each.stored for each in read):
                for each in read:
                    if not each.stored:
                        yield _spot(each.node, "batches are read from this array, and nothing is ever put into it", "fill it in every step")


def rows_before_they_are_written(script: Script) -> Iterator[Spot]:
    """randint(0, capacity), where rows are written one by one and learning begins before all of them are."""
    run = execution(script)
    for event in formulas.backwards(run) if run.complete and _learns_as_it_goes(run) else ():
        guards = [part for guard in event.guards for part in formulas.parts(guard, into_networks=False)]
        for part in formulas.parts(event.value) if event.value is not None else ():
            key = part.args[1] if part.op == "read" and len(part.args) > 1 else None
            array = _array(part.args[0]) if isinstance(key, Symbol) else None
            if key is None or array is None or not array.stored or array.data not in ("zeros", "empty") or not array.args:
                continue
            size = array.args[0].items[0] if isinstance(array.args[0], Items) and array.args[0].items else array.args[0]
            drawn = _bound_of(key)
            by_one = any(isinstance(put, Symbol) and len(put.args) > 1 and _is_counted(put.args[1]) for put in array.stored)
            tests = [test for test in guards if test.op == "Compare" and any(number(each) is None for each in test.args)]
            full = any(_alike(each, size) for test in tests for each in test.args)
            if drawn is not None and by_one and not full and _alike(drawn, size):
                for where in dict.fromkeys((formulas.written(key), *formulas.bound_at(run, key)[:1])):
                    yield _spot(
                        where,
                        "rows are drawn from all of the array, also from those that nothing was written into yet: they are zeros",
                        "randint(0, min(written, capacity))",
                    )
                return


def _learns_as_it_goes(run: Execution) -> bool:
    """Whether an environment is stepped and learned from in one and the same loop."""
    stepped = {loop for event in run.events if event.name == "env step" for loop in event.loops}
    return any(stepped & set(event.loops) for event in formulas.backwards(run))


def _bound_of(key: Value) -> Value | None:
    """The number below which indices are drawn."""
    if not isinstance(key, Symbol) or called(key) not in ("randint", "integers", "choice"):
        return None
    given = list(key.args[1:] if key.op == "method" else key.args)
    return given[1] if len(given) > 1 and number(given[0]) == 0 and called(key) != "choice" else given[0] if given else None


def _is_counted(key: Value) -> bool:
    """The place of one row: a counter, or its rest by the capacity."""
    if isinstance(key, Items):
        key = key.items[0] if key.items else key
    if isinstance(key, Symbol) and key.op == "Mod":
        key = key.args[0]
    return isinstance(key, Symbol) and (key.op in ("index", "carried", "const") or formulas.is_counter(key))


def _alike(one: Value, other: Value) -> bool:
    same = number(one)
    return one is other or (same is not None and same > 1 and same == number(other))


def _array(value: Value) -> Symbol | None:
    while isinstance(value, Symbol) and value.op != "array" and called(value) in formulas.PASSING and value.args:
        value = value.args[0]
    return value if isinstance(value, Symbol) and value.op == "array" else None


def list_never_emptied(script: Script) -> Iterator[Spot]:
    """Log-probabilities and rewards of a rollout, learned from, and kept for the next update as well."""
    run = execution(script)
    emptied = {id(event.subject) for event in run.events if event.name in ("emptied", "begun anew")}
    stores: dict[int, list[tuple[int, Event]]] = {}
    for place, event in enumerate(run.events):
        if event.name == "store" and isinstance(event.subject, Items) and event.subject.limit is None:
            stores.setdefault(id(event.subject), []).append((place, event))
    said: set[int] = set()
    for place, event in enumerate(run.events):
        if event.name != "backward" or event.value is None or not event.loops:
            continue
        held = list(_whole_lists(event.value))
        on_policy = any(called(part) in ("log_prob", "log_softmax") for part in formulas.parts(event.value))
        for listed in held if on_policy else ():
            known = stores.get(id(listed), [])
            before, after = [one for at, one in known if at < place], [one for at, one in known if at > place]
            outer = [loop for loop in event.loops if any(loop in one.loops for one in before) and any(loop in one.loops for one in after)]
            if id(listed) in emptied or id(listed) in said or not outer or _is_inside(listed.node, outer[0]):
                continue
            said.add(id(listed))
            where = before[-1].calls[-1][0] if before[-1].calls else before[-1].node
            yield _spot(
                where,
                "what was learned from stays in the list, and is learned from again with the next rollout: by then it is of an older policy",
                "empty it after the update",
            )
            return


def _is_inside(node: ast.AST | None, loop: ast.AST) -> bool:
    line = getattr(node, "lineno", 0)
    return getattr(loop, "lineno", 0) <= line <= (getattr(loop, "end_lineno", 0) or 0)


def _whole_lists(value: Value) -> Iterator[Items]:
    """Lists that are made one tensor in a value; not those that batches are drawn from at random."""
    pending: list[Value] = [value]
    seen: set[int] = set()
    while pending and len(seen) < 2 * formulas.MOST_PARTS:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Items):
            if current.is_open:
                yield current
            pending += current.items
        elif isinstance(current, Table):
            pending += list(current.items.values())
        elif isinstance(current, Symbol) and current.op not in ("net", "env", "step", "reset", "sampled"):
            pending += [*current.args, *current.keys.values(), *current.stored]


def tiny_deque(script: Script) -> Iterator[Spot]:
    """A deque of fewer than 500 transitions that batches are drawn from."""
    run = execution(script)
    if not any(
        "sample" in name or "choice" in name or "randint" in name or "randperm" in name or "integers" in name for name in script.words
    ):
        return
    for event in run.events:
        limit = (
            number(event.subject.limit)
            if event.name == "store" and isinstance(event.subject, Items) and event.subject.limit is not None
            else None
        )
        if isinstance(event.value, Items) and event.value.is_open:
            continue  # whole segments are kept, each of many rows
        if (
            limit is not None
            and FEWEST_OF_A_MEMORY <= limit < FEWEST_KEPT
            and event.value is not None
            and not isinstance(event.value, Symbol)
        ):
            held = list(experience.shallow(event.value))
            if len(held) > 3 and any(isinstance(each, Symbol) and each.op == "stepped" and each.data[0] == 1 for each in held):
                yield _spot(
                    formulas.written(event.subject.limit),  # type: ignore[union-attr, arg-type]
                    f"the memory keeps {limit:g} transitions: hardly more than the last episode",
                    "10,000 and more",
                )


# ── statistics ──


def statistics_of_another(script: Script) -> Iterator[Spot]:
    """(x - y.mean()) / y.std(), and x - x.mean() / x.std()."""
    shared: set[tuple[int, int]] = set()
    # mean, std = S.mean(0), S.std(0), kept for S itself and for what comes after it.
    kept = {
        id(each.args[0].args[1])
        for each in execution(script).sums
        if each.op == "Div" and len(each.args) == 2 and isinstance(each.args[0], Symbol) and each.args[0].op == "Sub"
        for centre in [_statistic(each.args[0].args[1], ("mean", "nanmean", "median"))]
        if centre is not None and _is_of(each.args[0].args[0], centre)
    }
    for each in execution(script).sums:
        if each.op == "Div" and len(each.args) == 2 and isinstance(each.args[0], Symbol) and each.args[0].op == "Sub":
            if id(each.args[0].args[1]) in kept and not _is_of(each.args[0].args[0], each.args[0].args[1].args[0]):  # type: ignore[union-attr]
                continue
            value, centre = each.args[0].args[0], _statistic(each.args[0].args[1], ("mean", "nanmean", "median"))
            spread = _statistic(each.args[1], ("std", "nanstd", "var"))
            if centre is None or spread is None:
                continue
            if _is_of(value, centre) and _is_of(value, spread):
                shared.add((id(each.node), id(centre)))
            elif (id(each.node), id(centre)) not in shared or not learning.is_same(
                centre, spread
            ):  # one function, for observations and for those after them
                yield _spot(
                    each.node,
                    "a value is normalized with the mean or the deviation of another one: it is neither centred nor scaled",
                    "its own",
                )
        if each.op == "Sub" and len(each.args) == 2 and isinstance(each.args[1], Symbol) and each.args[1].op == "Div":
            centre = _statistic(each.args[1].args[0], ("mean", "nanmean"))
            spread = _statistic(each.args[1].args[1], ("std", "nanstd"))
            if centre is not None and spread is not None and _is_of(each.args[0], centre) and _is_of(each.args[0], spread):
                yield _spot(
                    each.node,
                    "the mean alone is divided by the deviation: brackets around the difference are missing",
                    "(x - x.mean()) / x.std()",
                )


def _statistic(value: Value, names: tuple[str, ...]) -> Value | None:
    """What a mean or a deviation is taken of."""
    while isinstance(value, Symbol) and (
        value.op in ("Add",) or called(value) in ("sqrt", "clamp", "maximum", "max", "item", "detach", "float", "to")
    ):
        held = [one for one in value.args if number(one) is None and not formulas.is_scalar(one)]
        if len(held) != 1:
            return None
        value = held[0]
    return value.args[0] if isinstance(value, Symbol) and called(value) in names and value.args else None


def _is_of(value: Value, source: Value) -> bool:
    """Whether a value is another one, or a part of it."""
    if learning.is_same(value, source):
        return True
    own, other = _core(value), _core(source)
    return (
        own is other
        or learning.is_same(own, other)
        or any(part is other or part is source for part in formulas.parts(value, into_networks=False, into_arrays=False))
    )


def _core(value: Value) -> Value:
    while (
        isinstance(value, Symbol)
        and value.args
        and (called(value) in formulas.PASSING or value.op in ("read", "item", "element", "sampled", "carried", "reversed"))
    ):
        value = value.args[0]
    return value


# ── rewards in targets ──


def reward_in_target(script: Script) -> Iterator[Spot]:
    """The reward is subtracted from the target, or is not in it at all."""
    for each in execution(script).sums:
        if each.op not in ("Add", "Sub") or isinstance(each.node, ast.AugAssign):
            continue
        held = terms(each)
        rewards = [term for term in held if any(role(one) == "reward" for one in term.factors)]
        futures = [
            term for term in held
            if len(term.factors) > 1 and any(_asks_next(one) for one in term.factors) and term not in rewards
        ]  # fmt: skip
        if len(rewards) == 1 and len(futures) == 1 and rewards[0].sign < 0 < futures[0].sign:
            yield _spot(
                each.node,
                "the reward is subtracted where the value of what comes next is added: the agent learns to avoid rewards",
                "reward + …",
            )
    for part, answer, goal in learning.errors(script):
        held = terms(goal)
        if len(held) == 1 and len(held[0].factors) > 1 and any(_asks_next(one) for one in held[0].factors) and outputs_in(answer):
            cut = any(formulas.marks_end(flag(one)) for one in held[0].factors)
            if cut and not any(role(each) == "reward" for each in formulas.parts(goal, into_networks=False)):
                yield _spot(held[0].node or part.node, "no reward is in the target: there is nothing to learn", "reward + …")


def target_is_the_reward(script: Script) -> Iterator[Spot]:
    """A squared error against the bare reward, beside a target that is computed and not used."""
    targets = {id(each.sum) for each in formulas.targets(script)}
    used = {id(part) for event in formulas.backwards(execution(script)) if event.value is not None for part in formulas.parts(event.value)}
    for part, answer, goal in learning.errors(script):
        if role(goal) == "reward" and outputs_in(answer) and targets and not targets & used:
            yield _spot(
                part.node,
                "the error is taken against the reward alone, and the target with the value of what comes next is never used",
                "the target",
            )


def discount_in_another_place(script: Script) -> Iterator[Spot]:
    """gamma * reward + next value."""
    for each in execution(script).sums:
        held = terms(each) if each.op == "Add" and not isinstance(each.node, ast.AugAssign) else []
        rewards = [term for term in held if any(role(one) == "reward" for one in term.factors)]
        futures = [term for term in held if term not in rewards and any(_asks_next(one) for one in term.factors)]
        if len(held) == 2 and len(rewards) == len(futures) == 1:
            at_reward = [one for one in rewards[0].factors if formulas.is_scalar(one)]
            at_future = [one for one in futures[0].factors if formulas.is_scalar(one)]
            shares = [number(one) for one in at_reward]
            if at_reward and not at_future and all(one is not None and 0.5 < one < 1 for one in shares):
                yield _spot(
                    each.node, "the discount stands at the reward, and the value of what comes next has none", "reward + gamma * next_value"
                )


def unused_bounds(script: Script) -> Iterator[Spot]:
    """A network keeps the bounds of actions, and never scales what it answers to them."""
    for node in script.all(ast.ClassDef):
        methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
        forward = methods.get("forward")
        if forward is None:
            continue
        kept: dict[str, ast.AST] = {}
        read: set[str] = set()
        for each in ast.walk(node):
            if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self":
                if isinstance(each.ctx, ast.Store):
                    kept[each.attr] = each
                else:
                    read.add(each.attr)
            if (
                isinstance(each, ast.Call)
                and words.own_name(each.func) == "register_buffer"
                and each.args
                and isinstance(each.args[0], ast.Constant)
            ):
                kept[str(each.args[0].value)] = each
        elsewhere = {each.attr for each in script.all(ast.Attribute) if not (isinstance(each.value, ast.Name) and each.value.id == "self")}
        unused = [
            name
            for name, where in kept.items()
            if _BOUND.search(name) and name not in read and (name not in elsewhere or isinstance(where, ast.Call))
        ]
        answers = [each for each in ast.walk(forward) if isinstance(each, ast.Return) and each.value is not None]
        if unused and answers:
            yield _spot(
                answers[-1],
                f"`self.{unused[0]}` is kept and never used: actions stay between -1 and 1, whatever their bounds are",
                f"* self.{unused[0]}",
            )


_BOUND: Final = re.compile(r"(act(ion)?s?_?(limit|scale|bound|max|high|range))|(max_?act(ion)?)|^(limit|act_limit|scale|bound|high|top)$")


def filled_or_not(script: Script) -> Iterator[Spot]:
    """Rows are drawn from the whole of an array that is not yet full."""
    run = execution(script)
    if not run.complete:
        return
    for event in formulas.backwards(run):
        for part in formulas.parts(event.value) if event.value is not None else ():
            key = part.args[1] if part.op == "read" and len(part.args) > 1 else None
            source = _array(part.args[0]) if isinstance(key, Symbol) else None
            if (
                source is None
                or not isinstance(key, Symbol)
                or called(key) not in ("randint", "integers", "choice", "randrange")
                or not source.args
            ):
                continue
            rows = source.args[0].items[0] if isinstance(source.args[0], Items) and source.args[0].items else source.args[0]
            bounds = [each for each in key.args[1:] if not isinstance(each, Items)] if key.op == "method" else list(key.args)
            high = bounds[1] if called(key) != "choice" and len(bounds) > 1 and number(bounds[0]) == 0 else bounds[0] if bounds else None
            same = high is rows or (number(high) is not None and number(high) == number(rows) and number(rows) > FEWEST_KEPT)  # type: ignore[operator]
            counts = any(_compares(guard, rows) for guard in event.guards)
            filled = any(isinstance(put, Symbol) and put.op == "put" and len(put.args) > 1 and _moves(put.args[1]) for put in source.stored)
            if same and not counts and filled:
                yield _spot(
                    key.node,
                    "rows are drawn from the whole memory, also while it is not full: most of a batch are zeros at first",
                    "only those that are filled",
                )
                return


def _moves(key: Value) -> bool:
    """A place that a script moves on by itself, not the index of a loop that fills everything first."""
    return isinstance(key, Symbol) and key.op not in ("const", "index", "slice")


def _compares(guard: Value, rows: Value) -> bool:
    return any(
        each is rows or (number(rows) is not None and number(each) == number(rows))
        for part in formulas.parts(guard, into_networks=False) if part.op == "Compare" for each in part.args
    )  # fmt: skip


def reset_thrown_away(script: Script) -> Iterator[Spot]:
    """if done: env.reset(), without taking what it returns: the next action is chosen for the last observation of the old episode."""
    run = execution(script)
    lines = {
        each.value.lineno
        for each in script.all(ast.Expr)
        if isinstance(each.value, ast.Call) and words.own_name(each.value.func) == "reset"
    }
    for event in run.events:
        if event.name != "env reset" or getattr(event.node, "lineno", 0) not in lines or not event.loops:
            continue
        ended = any(formulas.marks_end(flag(guard)) for guard in event.guards)
        steps = [
            each
            for each in run.events
            if each.name == "env step" and each.subject is event.subject and each.loops and each.loops[-1] is event.loops[-1]
        ]
        asked = any(
            part.op == "out"
            for each in steps
            if isinstance(each.value, Symbol)
            for given in each.value.args[1:]
            for part in formulas.parts(given)
        )
        if ended and steps and asked and isinstance(event.subject, Symbol):
            yield _spot(
                event.node,
                "what the reset returns is thrown away: the next action is chosen for the last observation of the old episode",
                "obs, _ = env.reset()",
            )


def rate_rises(script: Script) -> Iterator[Spot]:
    """A hand-written schedule under which the learning rate grows from the first update to the last."""
    for event in execution(script).events:
        is_rate = (
            event.name == "store"
            and isinstance(event.node, ast.Assign)
            and any(
                isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and target.slice.value == "lr"
                for target in event.node.targets
            )
        )
        if is_rate and event.value is not None:
            course = [formulas.evaluated(event.value, at) for at in (1.0, 2.0, 20.0, 200.0, 2000.0)]
            known = [each for each in course if each is not None]
            if len(known) == len(course) and known == sorted(known) and known[-1] > 1.05 * known[0] > 0:
                yield _spot(event.node, f"the learning rate grows from {known[0]:.2g} without end", "1 - progress")


def _asks_next(value: Value) -> bool:
    return any(role(given) == "next_obs" for out in outputs_in(value) for given in out.args[1:])


def value_of_the_same_step(script: Script) -> Iterator[Spot]:
    """r[t] + gamma * v[t] - v[t]: the value that should be of the next step is the one that is subtracted."""
    for target in formulas.targets(script):
        values = [term for term in terms(target.sum) if term.sign < 0 and len(term.factors) == 1 and outputs_in(term.factors[0])]
        for term in values:
            for whole in target.future.factors:
                for factor in formulas.alternatives(whole):
                    mine, next_one = experience.row(term.factors[0]), experience.row(factor)
                    if mine is not None and next_one is not None and mine == next_one and _core(factor) is _core(term.factors[0]):
                        yield _spot(
                            formulas.written(factor) if factor is not whole else target.sum.node,
                            "the value of the same step stands where that of the next one is meant: the two cancel out",
                            "the value at t + 1",
                        )
    for node in script.all(ast.BinOp):
        summands = list(signs.terms(node)) if isinstance(node.op, ast.Sub) else []
        own = [each for sign, each in summands if sign < 0 and isinstance(each, ast.Subscript)]
        if len(summands) != 3 or not own or not any(sign > 0 and isinstance(each, ast.Subscript) for sign, each in summands):
            continue
        for sign, summand in summands:
            products = [each for each in signs.factors(summand) if isinstance(each, ast.Subscript)] if sign > 0 else []
            for product in products if not isinstance(summand, ast.Subscript) else ():
                if ast.unparse(product) in [ast.unparse(each) for each in own]:
                    yield _spot(
                        node,
                        "the value of the same step stands where that of the next one is meant: the two cancel out",
                        "the value at t + 1",
                    )
                elif any(_is_misaligned(product, each) for each in own):
                    yield _spot(node, "the values of this step and of the next one are swapped", "gamma * values[1:] - values[:-1]")


def _is_misaligned(product: ast.Subscript, own: ast.Subscript) -> bool:
    """v[:-1] where v[1:] is meant, and the other way round."""
    one, two = product.slice, own.slice
    if ast.dump(own.value) != ast.dump(product.value) or not isinstance(one, ast.Slice) or not isinstance(two, ast.Slice):
        return False
    is_early = one.lower is None and one.upper is not None and two.lower is not None and two.upper is None
    return is_early and one.upper is not None and two.lower is not None and ast.unparse(one.upper) == f"-{ast.unparse(two.lower)}"


def next_value_stands_still(script: Script) -> Iterator[Spot]:
    """In a walk back through a rollout, the value of what comes next is the same one in every pass."""
    run = execution(script)
    seen: dict[ast.AST, list[formulas.Target]] = {}
    for target in formulas.targets(script):
        if isinstance(target.sum.node, ast.AST) and target.sum.loops:
            seen.setdefault(target.sum.node, []).append(target)
    for node, held in seen.items():
        last = held[-1]
        loop = last.sum.loops[-1]
        if len(held) < 2 or not getattr(loop, "body", None) or not formulas.is_backwards(run.walked.get(loop)):  # type: ignore[arg-type]
            continue
        if not any(getattr(part, "id", "") == "range" for part in ast.walk(getattr(loop, "iter", loop))):
            continue  # a loop over the rows themselves: each brings its own value of what comes next
        outs = [out for factor in last.future.factors for out in outputs_in(factor)]
        fixed = outs and all(loop not in out.loops for out in outs)
        rows = [
            part
            for factor in last.future.factors
            for part in formulas.parts(factor, into_networks=False)
            if part.op in ("read", "element", "carried", "item", "index")
        ]
        if fixed and not any(loop in part.loops or part.op == "carried" for part in rows):
            yield _spot(
                node,
                "the value of what comes next is the same in every pass of this loop: nothing moves it on",
                "next_value = value at the end of a pass",
            )


# ── learning that never begins ──


def never_learns(script: Script) -> Iterator[Spot]:
    """A gradient behind a condition that no step of the loop meets."""
    run = execution(script)
    places: dict[ast.AST, list[Event]] = {}
    for event in run.events:
        if event.name == "backward":
            places.setdefault(event.node, []).append(event)
    for events in places.values():
        never = [next((guard for guard in event.guards if _is_never(guard)), None) for event in events]
        if all(each is not None for each in never) and isinstance(never[0], Symbol):
            yield _spot(never[0].node, "this never holds: learning begins when the loop is over", "begin earlier")
    for place, events in places.items():
        empty = [next((loop for loop in event.loops if _is_empty(run.walked.get(loop))), None) for event in events]
        if all(each is not None for each in empty):
            for where in (empty[0], place):
                yield _spot(where, "this loop has no pass: what it holds is never learned", "at least one")


def _is_empty(walked: Value | None) -> bool:
    """range(0)"""
    if not isinstance(walked, Symbol) or walked.op != "range" or len(walked.args) > 2:
        return False
    bounds = [number(each) for each in walked.args]
    return None not in bounds and (bounds[-1] or 0.0) <= (bounds[0] or 0.0 if len(bounds) == 2 else 0.0)


def _is_never(guard: Value) -> bool:
    negated = isinstance(guard, Symbol) and guard.op == "Not"
    test = guard.args[0] if negated and isinstance(guard, Symbol) else guard
    if isinstance(test, Symbol) and test.op == "And" and not negated:
        return any(_is_never(each) for each in test.args)
    if isinstance(test, Symbol) and test.op == "Or" and negated:
        return any(_is_never(Symbol("Not", (each,), test.node)) for each in test.args)
    if not isinstance(test, Symbol) or test.op != "Compare" or len(test.args) != 2:
        return False
    kind = str(test.data)
    left, right = test.args
    if isinstance(left, Symbol) and left.op == "Mod" and kind in ("Eq", "NotEq"):
        known = [number(each) for each in (*left.args, right)]
        if all(isinstance(each, Symbol) and each.op == "const" for each in (*left.args, right)) and None not in known and known[1]:
            return (known[0] % known[1] == known[2]) == ((kind == "NotEq") != negated)  # type: ignore[operator]
    if (
        kind == "Eq"
        and not negated
        and isinstance(left, Symbol)
        and left.op == "Mod"
        and (
            left.args[1] is right
            or (number(right) is not None and number(left.args[1]) is not None and number(right) >= number(left.args[1]))  # type: ignore[operator]
        )
    ):
        return True
    if negated:
        kind = {"Lt": "GtE", "LtE": "Gt", "Gt": "LtE", "GtE": "Lt"}.get(kind, "")
    if number(left) is not None:
        left, right = right, left
        kind = {"Lt": "Gt", "LtE": "GtE", "Gt": "Lt", "GtE": "LtE"}.get(kind, "")
    bound, most = number(right), _most(left)
    return bound is not None and most is not None and most > 1 and ((kind == "Gt" and bound >= most) or (kind == "GtE" and bound > most))


def _most(value: Value) -> float | None:
    """The largest number that a loop's index, or the length of a deque, reaches."""
    if (
        isinstance(value, Symbol)
        and value.op == "index"
        and value.args
        and isinstance(value.args[0], Symbol)
        and value.args[0].op == "range"
    ):
        bounds = value.args[0].args
        end = number(bounds[0] if len(bounds) == 1 else bounds[1]) if len(bounds) < 3 else None
        return None if end is None else end - 1
    if (
        called(value) == "len"
        and isinstance(value, Symbol)
        and value.args
        and isinstance(value.args[0], Items)
        and value.args[0].limit is not None
    ):
        return number(value.args[0].limit)
    return None


def acts_as_it_was_made(script: Script) -> Iterator[Spot]:
    """A network that chooses actions, and was neither trained, copied nor loaded, while others of its kind are trained."""
    run = execution(script)
    if not run.complete or not run.optimizers:
        return
    touched = {id(formulas.root(event.subject)) for event in run.events if event.name != "env step"}
    touched |= {id(formulas.state_of(given)) for call in run.calls for given in call.args}
    touched |= {
        id(formulas.root(each)) for event in formulas.backwards(run) if event.value is not None for each in formulas.gradient(event.value)
    }
    copied = {id(each) for copy in formulas.copies(run) for each in copy}
    trained = [one for each in run.optimizers for one in formulas.parameters(each)]
    kinds = {name for one in trained if (name := _kind_of(formulas.root(one) or one))}
    seen: set[int] = set()
    for event in run.events:
        taken = event.value.args[1:] if event.name == "env step" and isinstance(event.value, Symbol) else ()
        for out in [part for given in taken for part in formulas.parts(given) if part.op == "out"]:
            top = formulas.root(out.args[0])
            if top is None or id(top) in seen | touched | copied or formulas.optimized(run, top) or _kind_of(top) not in kinds:
                continue
            if any(formulas.holds(top, one) or formulas.holds(one, top) for one in trained):
                continue
            seen.add(id(top))
            handed = [call for call, given in event.calls if any(formulas.root(each) is top for each in given)]
            for where in dict.fromkeys((getattr(top, "node", None), *handed)):
                yield _spot(
                    where,
                    "this network was made, and neither trained nor loaded: it acts at random, whatever the others have learned",
                    "the trained one",
                )


def _kind_of(network: Value) -> str:
    """The class of a network of the script."""
    return network.kind.name if isinstance(network, Record) else ""


def step_without_backward(script: Script) -> Iterator[Spot]:
    """An optimizer steps, and no gradient is computed anywhere in the script."""
    run = execution(script)
    if not run.complete or script.words & formulas.LEARNING - {"training_step"}:
        return
    for event in run.events:
        if event.name == "optimizer step" and isinstance(event.node, ast.Call):
            yield _spot(
                event.node,
                "the optimizer steps, and nothing computes a gradient: the weights stay as they are",
                "loss.backward() before it",
            )
            return


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD131": (array_never_filled, rows_before_they_are_written),
    "COD711": (acts_as_it_was_made,),
    "COD132": (arguments_swapped, name_holds_another, rows_of_another_batch),
    "COD133": (list_never_emptied,),
    "COD309": (statistics_of_another,),
    "COD403": (step_without_backward,),
    "COD415": (never_learns,),
    "COD516": (reward_in_target, target_is_the_reward),
    "COD512": (discount_in_another_place,),
    "COD530": (unused_bounds,),
    "COD510": (filled_or_not,),
    "COD106": (reset_thrown_away,),
    "COD408": (rate_rises,),
    "COD517": (value_of_the_same_step, next_value_stands_still),
    "COD535": (tiny_deque,),
}
"""What is added to which check."""
