"""Laws of collecting experience: rings that move on, rows that were written, chances that fall, learning that goes on, resets at both ends."""

# ruff: noqa: E501 — a message reads best whole

import ast
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot
from rlclinic.diagnosis.lint.code.symbolic import differences, experience, formulas, sizes, tables
from rlclinic.diagnosis.lint.code.symbolic.execution import Event, Execution, Items, Record, Symbol, Value, returns_both_ends
from rlclinic.diagnosis.lint.code.symbolic.formulas import called, evaluated, execution, number, root

_CHANCES: Final = frozenset(
    {"sample", "rsample", "random", "rand", "uniform", "randint", "integers", "choice", "choices", "normal", "normal_", "randn", "randn_like",
     "rand_like", "standard_normal", "multinomial", "noise", "random_sample", "gauss", "randrange", "bernoulli", "multivariate_normal"}
)  # fmt: skip
_LATE: Final = 1e9
_FAST: Final = 0.02
_FAST_BY_EPISODE: Final = 0.3


def _spot(where: ast.AST | None, text: str, fix: str = "") -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix)


def enclosing(script: Script, node: ast.AST, kind: type[ast.AST]) -> ast.AST | None:
    """The innermost statement of a kind in whose body a place lies."""
    line = getattr(node, "lineno", 0)
    around = [
        each
        for each in script.all(kind)
        if each.body[0].lineno <= line <= (each.body[-1].end_lineno or 0)  # type: ignore[attr-defined]
    ]
    return max(around, key=lambda each: each.lineno, default=None)  # type: ignore[attr-defined]


def learned_from(script: Script) -> set[int]:
    """Arrays, lists and steps of environments that losses are computed from."""

    def find() -> set[int]:
        held: set[int] = set()
        seen: set[int] = set()
        pending: list[Value] = [event.value for event in formulas.backwards(execution(script)) if event.value is not None]
        while pending and len(seen) < 20_000:
            current = pending.pop()
            if id(current) in seen:
                continue
            seen.add(id(current))
            if isinstance(current, Items):
                held.add(id(current))
                pending += current.items
            elif isinstance(current, Symbol) and current.op not in ("net", "env", "step", "reset"):
                if current.op == "array":
                    held.add(id(current))
                if current.op == "stepped" and current.data[0] == 1:
                    held.add(id(current.args[0]))
                pending += [*current.args, *current.stored, *current.keys.values()]
        return held

    return script.once("learned from", find)


def training_steps(script: Script) -> list[Event]:
    """Steps of environments whose rewards are learned from, the last pass of each place."""

    def find() -> list[Event]:
        run = execution(script)
        held = learned_from(script)
        kept = {
            id(part.args[0])
            for event in run.events
            if event.name == "store" and event.value is not None and id(event.subject) in held
            for part in experience.shallow(event.value)
            if isinstance(part, Symbol) and part.op == "stepped"
        }
        # A function that also evaluates steps at the same place: those passes are left out.
        learned = kept | held
        return list({event.node: event for event in run.events if event.name == "env step" and id(event.value) in learned}.values())

    return script.once("training steps", find)


# ── rings ──


def ring_stands_still(script: Script) -> Iterator[tuple[str, Spot]]:
    """The place where a row is written is the same in every pass."""
    run = execution(script)
    held = learned_from(script)
    by_place: dict[ast.AST, list[Symbol]] = {}
    for event in run.events:
        source = event.subject
        if event.name == "store" and event.loops and isinstance(source, Symbol) and source.op == "array" and id(source) in held:
            made = [put for put in source.stored if isinstance(put, Symbol) and put.op == "put" and put.node is event.node]
            drawn = any(isinstance(part, Symbol) and part.op == "stepped" for put in made for part in experience.shallow(put))
            if len(made) > 1 and drawn:
                by_place[event.node] = made
    for node, made in by_place.items():
        first, last = made[0].args[1], made[-1].args[1]
        one, other = evaluated(first), evaluated(last)
        if one is not None and one == other and not any(formulas.is_counter(part) for part in formulas.parts(last, False, False)):
            for where in (formulas.written(last), node):
                yield (
                    "COD535",
                    _spot(
                        where,
                        "every transition is written to the same place: the memory never holds more than one",
                        "(place + 1) % capacity",
                    ),
                )


def rows_never_written(script: Script) -> Iterator[tuple[str, Spot]]:
    """Rows are drawn from all that there is room for, while the memory is being filled."""
    run = execution(script)
    stores = {id(event.subject): event for event in run.events if event.name == "store" and event.loops}
    for event in formulas.backwards(run):
        for part in formulas.parts(event.value) if event.value is not None else ():
            source = part.args[0] if part.op == "read" and len(part.args) > 1 else None
            rows = differences.bare(part.args[1]) if source is not None else None
            if not isinstance(source, Symbol) or source.op != "array" or not source.args or not isinstance(rows, Symbol):
                continue
            store = stores.get(id(source))
            # Learning happens while it is filled, not when a rollout is complete.
            if store is None or not event.loops or not set(store.loops) <= set(event.loops):
                continue
            if called(rows) not in ("randint", "integers", "choice", "randrange", "sample", "permutation", "randperm"):
                continue
            room = source.args[0].items[0] if isinstance(source.args[0], Items) and source.args[0].items else source.args[0]
            bounds = [each for each in (rows.args[1:] if rows.op == "method" else rows.args) if not isinstance(each, Items)]
            high: Value | None = (
                bounds[1]
                if called(rows) not in ("choice", "permutation") and len(bounds) > 1 and number(bounds[0]) == 0
                else bounds[0]
                if bounds
                else None
            )
            high = rows.keys.get("high", high)
            same = high is room or (number(high) is not None and number(high) == number(room))
            moves = any(
                isinstance(put, Symbol)
                and len(put.args) > 1
                and isinstance(put.args[1], Symbol)
                and put.args[1].op not in ("index", "slice")
                for put in source.stored
            )
            waits = any(_compares(guard, room) for guard in event.guards)
            if same and moves and not waits:
                yield (
                    "COD510",
                    _spot(
                        rows.node,
                        "rows are drawn from the whole memory, also while it is not full: most of a batch are zeros at first",
                        "only those that are filled",
                    ),
                )
                return


def _compares(guard: Value, room: Value) -> bool:
    return any(
        each is room or (number(room) is not None and number(each) is not None and number(each) >= number(room))  # type: ignore[operator]
        for part in formulas.parts(guard, into_networks=False) if part.op == "Compare" for each in part.args
    )  # fmt: skip


# ── chance ──


def chance_by_steps(script: Script) -> Iterator[tuple[str, Spot]]:
    """What a random number is compared with, from one pass to the next: it must fall, and not at once."""
    held: dict[ast.AST, list[tuple[Event, Value]]] = {}
    for event, test, _, holds, fails in experience.choices(script):
        compared = experience.threshold(test)
        if compared is None or not isinstance(test.node, ast.AST):
            continue
        value, smaller = compared
        explores, exploits = (holds, fails) if smaller else (fails, holds)
        if experience.is_random_action(explores) and _is_answer(exploits):
            held.setdefault(test.node, []).append((event, value))
    for node, every in held.items():
        frozen = [part for _, value in every for part in formulas.parts(value, False, False) if _stands_still(part)]
        if frozen:
            for where in (frozen[0].node, formulas.written(every[-1][1]) or node):
                yield (
                    "COD508",
                    _spot(
                        where,
                        "what the chance to explore falls with never changes: it stays what it was in the first step",
                        "count the steps",
                    ),
                )
            continue
        values = [(event, value, _now(value)) for event, value in every]
        known = [(event, value, at) for event, value, at in values if at is not None]
        if len(known) < 2 or known[0][2] < experience.MOST_CHANCE:
            continue
        before, _, first = known[0]
        place, (after, value, then) = next(((at, one) for at, one in enumerate(known) if one[2] != first), (len(known) - 1, known[-1]))
        if before.loops != after.loops or (
            isinstance(value, Symbol) and any(formulas.is_counter(part) for part in formulas.parts(value, False, False))
        ):
            continue
        by_step = place == 1
        value = value.args[0] if isinstance(value, Symbol) and value.op == "carried" else value
        where = formulas.written(value) or node
        changed = [each for each in formulas.parts(value, into_networks=False, into_arrays=False) if each.op in ("Sub", "Mult", "Add")]
        if then > first + 1e-9:
            yield (
                "COD508",
                _spot(where, f"the chance to explore grows from {first:.4g} to {then:.4g} in one step", "let it fall to 0.05"),
            )
        elif first - then >= (_FAST if by_step else _FAST_BY_EPISODE) and changed and then > 0.5 * first:
            numbers = [
                part.node for part in formulas.parts(value, False, False) if part.op == "const" and 0 < (number(part) or 0.0) < first
            ]
            steps = max(1, round(first / (first - then)))
            for each in (where, *numbers[-1:]):
                yield (
                    "COD513",
                    _spot(
                        each,
                        f"the chance to explore falls from {first:.3g} to {then:.3g} in one step: after about {steps} of them nothing is tried any more",
                        "over thousands of steps",
                    ),
                )


def _stands_still(part: Symbol) -> bool:
    """x += 0, x *= 1"""
    return (
        part.data == "in place" and len(part.args) == 2 and number(part.args[1]) == {"Add": 0, "Sub": 0, "Mult": 1, "Div": 1}.get(part.op)
    )


def _now(value: Value) -> float | None:
    """A number as the last pass left it."""
    while isinstance(value, Symbol) and value.op == "carried" and value.args:
        value = value.args[0]
    return evaluated(value)


def acts_for_certain(script: Script) -> Iterator[tuple[str, Spot]]:
    """What an off-policy actor collects is its own answer, with neither a draw nor noise."""
    run = execution(script)
    if not run.complete or not formulas.copies(run):
        return
    for event in training_steps(script):
        assert isinstance(event.value, Symbol)
        action = event.value.args[1]
        certain = [branch for branch in _branches(action) if _is_answer(branch)]
        if not certain or any(not _is_certain(run, branch) for branch in certain):
            continue
        if any(called(part) in ("argmax", "max") for part in formulas.parts(action, into_networks=False, into_arrays=False)):
            continue
        for where in (event.node, *experience.chosen_at(script, event)):
            yield (
                "COD509",
                _spot(
                    where,
                    "what is collected is the policy's own answer, without any chance in it: nothing else is ever tried",
                    "draw the action, or add noise to it",
                ),
            )


def _branches(value: Value, depth: int = 6) -> list[Value]:
    """What an action may be; a branch that is chosen by chance counts as one."""
    inner = differences.bare(value)
    if isinstance(inner, Symbol) and inner.op == "phi" and depth and not _draws(inner.args[0]):
        return [each for branch in inner.args[1:] for each in _branches(branch, depth - 1)]
    if isinstance(inner, Symbol) and (inner.op in ("Mult", "Add", "Sub") or called(inner) in ("clip", "clamp")) and depth:
        choosing = next((each for each in inner.args if isinstance(bare := differences.bare(each), Symbol) and bare.op == "phi"), None)
        if choosing is not None and not any(_draws(each) for each in inner.args if each is not choosing):
            return _branches(choosing, depth - 1)
    return [inner]


def _is_answer(value: Value) -> bool:
    return any(part.op == "out" for part in formulas.parts(value, into_arrays=False))


def _draws(value: Value) -> bool:
    return any(called(part) in _CHANCES or part.op == "dist" for part in formulas.parts(value, into_arrays=False))


_UNSEEN: Final = frozenset({"called", "asked", "unknown", "parameter", "dist"})


def _is_certain(run: Execution, action: Value) -> bool:
    """Whether an action depends on nothing but what was observed, as far as all of it is seen."""
    for part in formulas.parts(action, into_arrays=False):
        if called(part) in _CHANCES or part.op in _UNSEEN or (part.op == "method" and called(part) not in formulas.PASSING | _PLAIN):
            return False
        if part.op == "out":
            owner = root(part.args[0])
            if isinstance(owner, Record) and owner.kind.node is not None:
                names = {each.attr for each in ast.walk(owner.kind.node) if isinstance(each, ast.Attribute)}
                used = {each.id.lower() for each in ast.walk(owner.kind.node) if isinstance(each, ast.Name)} | {
                    name.lower() for name in names
                }
                if any("nois" in word for word in used):
                    return False
            if isinstance(part.args[0], Symbol) and part.args[0].op == "net" and "ois" in str(part.args[0].data):
                return False
    return True


_PLAIN: Final = frozenset({"tanh", "mean", "sum", "relu", "exp", "chunk", "parameters", "clamp_", "mul", "add", "sigmoid"})


# ── learning ──


def learning_stops(script: Script) -> Iterator[tuple[str, Spot]]:
    """Every gradient stands behind a condition that holds at first and never again."""
    run = execution(script)
    stops: list[Symbol] = []
    for event in [each for each in run.events if each.name == "backward"]:
        ending = next((guard for guard in event.guards if _ends(guard)), None)
        if ending is None or not isinstance(ending, Symbol):
            return
        stops.append(ending)
    for guard in {id(each): each for each in stops}.values():
        for where in (guard.node, *_learning_lines(run, guard)):
            yield (
                "COD415",
                _spot(
                    where, "this holds in the first steps and never again: learning ends where it is meant to begin", "the other way round"
                ),
            )


def _learning_lines(run: Execution, guard: Symbol) -> list[ast.AST]:
    """Where a loss is computed behind a condition: its gradient."""
    return [event.node for event in formulas.backwards(run) if any(each is guard for each in event.guards)][:1]


def _ends(guard: Value) -> bool:
    """A condition on a counter that holds early and fails late, and that no loop or function is left by."""
    test, negated = guard, False
    while isinstance(test, Symbol) and test.op == "Not":
        left = isinstance(test.node, ast.If) and any(isinstance(each, ast.Break | ast.Return | ast.Raise) for each in test.node.body[-1:])
        filled = (
            isinstance(test.args[0], Symbol) and test.args[0].op == "Compare" and any(called(each) == "len" for each in test.args[0].args)
        )
        if left and not filled:
            return False
        test, negated = test.args[0], not negated
    if isinstance(test, Symbol) and test.op == "And" and not negated:
        return any(_ends(each) for each in test.args)
    if not isinstance(test, Symbol) or test.op != "Compare" or len(test.args) != 2:
        return False
    early, late = _holds(test, 0.0), _holds(test, _LATE)
    return early is not None and late is not None and early != late and (early != negated)


def _holds(test: Symbol, at: float) -> bool | None:
    left, right = (_counted(each, at) for each in test.args)
    if (
        left is None
        or right is None
        or not any(isinstance(each, Symbol) and (formulas.is_counter(each) or called(each) == "len") for each in test.args)
    ):
        return None
    return {"Lt": left < right, "LtE": left <= right, "Gt": left > right, "GtE": left >= right}.get(str(test.data))


def _counted(value: Value, at: float) -> float | None:
    # A memory grows as steps are made.
    known = at if called(value) == "len" else evaluated(value, at)
    if known is None and isinstance(value, Symbol) and formulas.is_scalar(value):
        return 1000.0
    return known


# ── ends ──


def reset_at_real_ends_alone(script: Script) -> Iterator[tuple[str, Spot]]:
    """An environment with a time limit, whose only resets after the first one wait for a real end."""
    run = execution(script)
    if not run.complete:
        return
    subjects: dict[int, list[Event]] = {}
    for event in run.events:
        if event.name == "env step":
            subjects.setdefault(id(event.subject), []).append(event)
    for steps in subjects.values():
        subject = steps[0].subject
        if not (sizes.is_single(subject) or (isinstance(subject, Record) and may_be_cut(subject))):
            continue
        resets = [each for each in run.events if each.name == "env reset" and each.subject is subject]
        again = [each for each in resets if any(experience.ends_in(guard) for guard in each.guards)]
        others = [each for each in resets if each not in again and each.loops]
        leaves = [
            event
            for event in run.events
            if event.name == "leave" and any("truncated" in experience.ends_in(guard) for guard in event.guards)
        ]
        ends = [{end for guard in each.guards for end in experience.ends_in(guard)} for each in again]
        tests = [loop for step in steps for loop in step.loops if loop in run.tests and "truncated" in experience.ends_in(run.tests[loop])]
        if not again or others or leaves or tests or any(each != {"terminated"} for each in ends):
            continue
        for reset in again[:1]:
            branch = enclosing(script, reset.node, ast.If)
            where = branch.test if isinstance(branch, ast.If) else reset.node
            named = _named_flags(run, reset)
            for place in (where, *named):
                yield (
                    "COD105",
                    _spot(
                        place,
                        "the environment is reset at real ends alone: at a time limit it is stepped on, though its episode is over",
                        "if terminated or truncated",
                    ),
                )


def _named_flags(run: Execution, reset: Event) -> list[ast.AST]:
    flags = [part for guard in reset.guards for part in formulas.parts(guard, False, False) if part.op == "stepped"]
    return [node for node, value in run.aliases if any(value is part for part in flags)][:1]


def may_be_cut(env: Record) -> bool:
    """Whether an environment of the script may say that its time is over: the fourth value that a step returns is not always False."""
    found = env.kind.method("step")
    if found is None:
        return False
    returned = [each.value for each in ast.walk(found[0]) if isinstance(each, ast.Return) and isinstance(each.value, ast.Tuple)]
    fourth = [
        each.elts[3]
        for each in returned
        if isinstance(each, ast.Tuple) and (len(each.elts) == 5 or (len(each.elts) == 4 and returns_both_ends(env)))
    ]
    return any(not (isinstance(each, ast.Constant) and each.value is False) for each in fourth)


def loop_misses_limit(script: Script) -> Iterator[tuple[str, Spot]]:
    """A loop over an episode that asks for real ends alone, of an environment of the script that may also be cut."""
    run = execution(script)
    by_loop: dict[ast.AST, list[Event]] = {}
    for event in run.events:
        if event.name == "env step" and event.loops and isinstance(event.loops[-1], ast.While):
            by_loop.setdefault(event.loops[-1], []).append(event)
    for loop, steps in by_loop.items():
        if not all(isinstance(each.subject, Record) and may_be_cut(each.subject) for each in steps):
            continue
        inner = [event for event in run.events if event.name in ("leave", "env reset") and event.loops and event.loops[-1] is loop]
        leaving = [guard for event in inner for guard in event.guards]
        reasons = [run.tests[loop], *leaving] if loop in run.tests else leaving
        ends = {end for reason in reasons for end in experience.ends_in(reason)}
        bounded = any(event.name == "env reset" for event in inner) and not leaving
        if ends == {"terminated"} and not bounded:
            flags = [part for reason in reasons for part in formulas.parts(reason, False, False) if part.op == "stepped"]
            named = [node for node, value in run.aliases if any(value is part for part in flags)]
            branches = [branch.test for event in inner if isinstance(branch := enclosing(script, event.node, ast.If), ast.If)]
            for where in (loop, *named[:1], *branches[:1]):
                yield (
                    "COD105",
                    _spot(
                        where,
                        "the loop ends at real ends alone: at a time limit the environment is stepped on, though its episode is over",
                        "if terminated or truncated",
                    ),
                )


# ── actions ──


def actions_left_out(script: Script) -> Iterator[tuple[str, Spot]]:
    """A random action is drawn among fewer than there are, or among one more."""
    seen: set[ast.AST | None] = set()
    for _, test, _, holds, fails in experience.choices(script):
        for drawn, other in ((holds, fails), (fails, holds)):
            if not experience.is_random_action(drawn) or not _is_answer(other) or experience.threshold(test) is None:
                continue
            for part in formulas.parts(drawn, into_networks=False, into_arrays=False):
                name, path = called(part), str(part.data)
                if name not in ("randrange", "randint", "integers", "choice") or part.node in seen or not part.args:
                    continue
                given = [
                    each
                    for each in (part.args[1:] if part.op == "method" else part.args)
                    if number(each) is not None or isinstance(each, Symbol)
                ]
                endpoint = part.keys.get("endpoint")
                inclusive = path == "random.randint" or (isinstance(endpoint, Symbol) and endpoint.data is True)
                bound = given[1] if len(given) > 1 and number(given[0]) == 0 and name != "choice" else given[0] if given else None
                wanted = _width(other)
                if bound is None or not isinstance(bound, Symbol):
                    continue
                less = bound.op == "Sub" and number(bound.args[1]) == 1 and _is_count(bound.args[0])
                known = number(bound)
                too_few = (less and not inclusive) or (
                    known is not None and not inclusive and (known == 1 or (wanted is not None and 1 <= known < wanted))
                )
                too_many = inclusive and (_is_count(bound) or (known is not None and wanted is not None and known >= wanted))
                if too_few or too_many:
                    seen.add(part.node)
                    text = (
                        "random actions are drawn among fewer than there are: the last one is never tried"
                        if too_few
                        else "the bound counts here, too: one of the random actions does not exist"
                    )
                    yield "COD556", _spot(part.node, text, "env.action_space.sample()")


def _is_count(value: Value) -> bool:
    """How many actions there are."""
    return isinstance(value, Symbol) and value.op == "attribute" and value.data == "n"


def _width(answer: Value) -> float | None:
    """How many actions a network or a table has values for."""
    if any(called(part) in ("mean", "sum", "view", "reshape", "unflatten") for part in formulas.parts(answer, into_networks=False)):
        return None  # several numbers an action: quantiles, atoms
    for part in formulas.parts(answer, into_arrays=False):
        if part.op == "out":
            network = part.args[0]
            if part.data == "linear":
                return None  # weights @ x: the rows are the answers
            if isinstance(network, Symbol) and network.op == "array" and network.args:
                dims = network.args[0].items if isinstance(network.args[0], Items) else []
                return number(dims[-1]) if len(dims) > 1 else None
            return sizes.width(network)
    return None


def worst_entry(script: Script) -> Iterator[tuple[str, Spot]]:
    """best = flatnonzero(q == q.min())"""
    for event in experience.env_steps(script):
        assert isinstance(event.value, Symbol)
        for part in formulas.parts(event.value.args[1], into_networks=False, into_arrays=False):
            if part.op == "Compare" and part.data == "Eq" and len(part.args) == 2:
                for one, other in (part.args, part.args[::-1]):
                    inner = (
                        differences.bare(other.args[0])
                        if called(other) in ("min", "amin") and isinstance(other, Symbol) and other.args
                        else None
                    )
                    if isinstance(inner, Symbol) and inner.op == "out" and _alike(differences.bare(one), inner):
                        yield "COD511", _spot(part.node, "the action with the smallest value is taken", "max")


def _alike(one: Value, other: Symbol) -> bool:
    return isinstance(one, Symbol) and one.op == "out" and one.args[0] is other.args[0]


def action_kept(script: Script) -> Iterator[tuple[str, Spot]]:
    """The action of a step was chosen before the loop, and no pass chooses another."""
    by_node: dict[ast.AST, list[Event]] = {}
    for event in experience.env_steps(script):
        if event.loops and isinstance(event.loops[-1], ast.While | ast.For):
            by_node.setdefault(event.node, []).append(event)
    kept = {event.node for event in training_steps(script)} | {update.step.node for update in tables.updates(script)}
    for node, events in by_node.items():
        first = events[0]
        if len(events) < 2 or events[1].loops != first.loops or node not in kept:
            continue
        one, other = (each.value.args[1] for each in events[:2])  # type: ignore[union-attr]
        made = differences.bare(one)
        outside = isinstance(made, Symbol) and made.loops == first.loops[:-1] and _is_answer(made)
        if one is other and outside:
            loop = first.loops[-1]
            last = [
                each
                for each in script.all(ast.Assign)
                if getattr(loop, "lineno", 0) < each.lineno <= (getattr(loop, "end_lineno", None) or 0)
                and each.lineno > getattr(node, "lineno", 0)
            ]
            for where in (node, *last[-1:]):
                yield (
                    "COD106",
                    _spot(
                        where,
                        "every step takes the action that was chosen before the loop: what is chosen in the next observation is never taken",
                        "action = next_action",
                    ),
                )


def chance_for_good(script: Script) -> Iterator[tuple[str, Spot]]:
    """Where the step that is learned from is made, the chance to explore is handed over as 0, or as 1."""
    nodes = {event.node for event in training_steps(script)}
    held: dict[ast.AST, list[tuple[Event, Value, ast.AST]]] = {}
    run = execution(script)
    learns = {loop for event in formulas.backwards(run) for loop in event.loops} | {
        loop for event in run.events if event.name == "backward" for loop in event.loops
    }
    for event, test, _, holds, fails in experience.choices(script):
        compared = experience.threshold(test)
        if compared is None or event.node not in nodes or not (set(event.loops) & learns):
            continue
        explores = holds if compared[1] else fails
        if experience.is_random_action(explores) and isinstance(test.node, ast.AST):
            held.setdefault(event.node, []).append((event, compared[0], test.node))
    for events in held.values():
        numbers = {number(value) for _, value, _ in events}
        if len(numbers) != 1 or None in numbers or not all(isinstance(value, Symbol) and value.op == "const" for _, value, _ in events):
            continue
        chance = numbers.pop()
        if chance not in (0, 1) or not all(event.calls for event, _, _ in events):
            continue
        event, value, _ = events[-1]
        for call, given in event.calls:
            if any(each is value for each in given):
                text = (
                    "nothing is ever tried: the chance to explore is 0 where training acts"
                    if chance == 0
                    else "every action is a random one: the chance to explore is 1 where training acts"
                )
                yield ("COD509" if chance == 0 else "COD508"), _spot(call, text, "the chance that was worked out")
                break


# ── batches ──


def same_batch(script: Script) -> Iterator[tuple[str, Spot]]:
    """Rows are drawn once, before the loop that learns from them and fills the memory."""
    run = execution(script)
    stores = {id(event.subject): event for event in run.events if event.name == "store" and event.loops}
    for event in formulas.backwards(run):
        for part in formulas.parts(event.value) if event.value is not None else ():
            source = part.args[0] if part.op == "read" and len(part.args) > 1 else None
            rows = differences.bare(part.args[1]) if source is not None else None
            store = stores.get(id(source))
            if store is None or not isinstance(rows, Symbol) or not sizes.is_many(rows):
                continue
            shared = set(store.loops) & set(event.loops)
            if shared and not shared & set(rows.loops):
                yield (
                    "COD416",
                    _spot(
                        rows.node, "these rows are drawn once, before the loop: every update learns from the same ones", "draw in the loop"
                    ),
                )
                return


def row_beside(script: Script) -> Iterator[tuple[str, Spot]]:
    """rewards[i - 1] among states[i], actions[i], ends[i]"""
    for holder in script.all(ast.Tuple, ast.Call, ast.List):
        given = holder.elts if isinstance(holder, ast.Tuple | ast.List) else [*holder.args, *(key.value for key in holder.keywords)]
        entries = [
            each
            for each in given
            if isinstance(each, ast.Subscript)
            and isinstance(each.ctx, ast.Load)
            and not isinstance(each.slice, ast.Slice | ast.Constant | ast.Tuple)
        ]
        if len(entries) < 4:
            continue
        keys = [ast.unparse(each.slice) for each in entries]
        usual = max(set(keys), key=keys.count)
        odd = [each for each, name in zip(entries, keys, strict=True) if name != usual]
        if keys.count(usual) < 3 or len(odd) != 1 or not isinstance(odd[0].slice, ast.BinOp):
            continue
        moved = odd[0].slice
        by_one = isinstance(moved.op, ast.Add | ast.Sub) and ast.unparse(moved.left) == usual and isinstance(moved.right, ast.Constant)
        name = words.own_name(odd[0].value)
        if by_one and (words.RETURN(name) or words.END(name) or words.ACTION(name)) and not words.OBSERVATION(name):
            yield (
                "COD132",
                _spot(
                    odd[0],
                    f"`{ast.unparse(odd[0])}` is of another row than what stands beside it: parts of two transitions",
                    f"{ast.unparse(odd[0].value)}[{usual}]",
                ),
            )


# ── tables ──


def tables_mixed_up(script: Script) -> Iterator[tuple[str, Spot]]:
    """A whole row moves by the error of one entry; a time limit is an end; a table begins anew with each episode."""
    for event in execution(script).events:
        table, value = event.subject, event.value
        if (
            event.name != "store"
            or not event.loops
            or not isinstance(table, Symbol)
            or table.op != "array"
            or not isinstance(value, Symbol)
        ):
            continue
        wide = bool(table.args) and isinstance(table.args[0], Items) and len(table.args[0].items) > 1
        put = next((each for each in reversed(table.stored) if isinstance(each, Symbol) and each.args[:1] == (value,)), None)
        place = put.args[1] if put is not None and len(put.args) > 1 else None
        if not wide or value.data != "in place" or not isinstance(place, Symbol) or place.op in ("slice", "const"):
            continue
        entries = [
            part
            for part in formulas.parts(value, into_networks=False, into_arrays=False)
            if part.op in ("item", "read") and len(part.args) > 1
        ]
        own = [
            part
            for part in entries
            if isinstance(part.args[0], Symbol)
            and part.args[0].op == "out"
            and part.args[0].args[0] is table
            and any(each is one for each in experience.latest(part.args[0].args[1]) for one in experience.latest(place))
        ]
        if own and any(part.op == "stepped" and part.data[0] == 1 for part in formulas.parts(value, False, False)):
            yield (
                "COD518",
                _spot(
                    event.node,
                    "the values of all actions move by the error of one: the table cannot tell them apart",
                    "table[state, action] += …",
                ),
            )
    for update in tables.updates(script):
        for part in formulas.parts(update.value, into_networks=False, into_arrays=False):
            mark = formulas.flag(part.args[0]) if part.op == "phi" else None
            if mark is None or not {"terminated", "truncated"} <= mark.ends:
                continue
            asks = [
                any(
                    one.op == "out" and one.args[0] is update.table and tables.is_next(one.args[1], update.step)
                    for one in formulas.parts(branch, False, False)
                )
                for branch in part.args[1:]
            ]
            if asks[0] != asks[1]:
                for where in (part.args[0].node if isinstance(part.args[0], Symbol) else None, part.node):
                    if where is not None and hasattr(where, "lineno"):
                        yield (
                            "COD101",
                            _spot(
                                where,
                                "a time limit is an end in this target: where it cuts an episode, the future is worth something",
                                "only where terminated",
                            ),
                        )
    for loop in script.all(ast.For, ast.While):
        resets = any(isinstance(each, ast.Assign) and script.calls("reset", within=each) for each in loop.body)
        for each in loop.body if resets else ():
            if not isinstance(each, ast.Assign) or not isinstance(each.targets[0], ast.Name) or not isinstance(each.value, ast.Call):
                continue
            name = each.targets[0].id
            made = ast.unparse(each.value.func).rpartition(".")[2]
            holder = script.scope(each)
            before = [
                one
                for one in script.all(ast.Assign)
                if one.lineno < loop.lineno
                and script.scope(one) is holder
                and isinstance(one.targets[0], ast.Name)
                and one.targets[0].id == name
                and ast.unparse(one.value) == ast.unparse(each.value)
            ]
            updated = any(
                isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Store) and words.own_name(one.value) == name
                for inner in loop.body
                for one in ast.walk(inner)
            )
            later = [
                one
                for one in script.all(ast.Name)
                if one.id == name and isinstance(one.ctx, ast.Load) and one.lineno > (loop.end_lineno or 0) and script.scope(one) is holder
            ]
            if made in ("zeros", "ones", "full", "defaultdict", "empty") and before and updated and later:
                yield (
                    "COD518",
                    _spot(
                        each,
                        f"`{name}` begins anew with every episode: what the others taught is thrown away",
                        "make it once, before the loop",
                    ),
                )


# ── what belongs where ──


def carried_where(script: Script) -> Iterator[tuple[str, Spot]]:
    """The place in the loop where the next observation should become the observation: in front of the reset, or at the end of the pass."""
    if not any(True for _ in experience.observation_kept(script)):
        return
    text = "actions are chosen for the first observation again and again: what the step returns is not carried to the next one"
    for event in training_steps(script) or experience.env_steps(script)[-1:]:
        line = getattr(event.node, "lineno", 0)
        for holder in script.all(ast.For, ast.While, ast.If, ast.With, ast.FunctionDef):
            body = holder.body
            at = next((place for place, each in enumerate(body) if each.lineno <= line <= (each.end_lineno or 0)), None)
            simple = at is not None and not isinstance(
                body[at], ast.For | ast.While | ast.If | ast.With | ast.FunctionDef | ast.ClassDef | ast.Try
            )
            if at is None or not simple:
                continue
            after = body[at + 1 :]
            resets = [place for place, each in enumerate(after) if isinstance(each, ast.If) and script.calls("reset", within=each)]
            if resets:
                before = after[resets[0] - 1] if resets[0] else body[at]
                places: list[ast.AST] = [before, after[resets[0]].test]
            else:
                places = [*after[-1:]]
            stored = [
                one for one in after if script.calls("append", "push", "add", "store", "remember", "observe", "put", "insert", within=one)
            ]
            for where in (*places, *stored[:1]):
                yield "COD106", _spot(where, text, "obs = next_obs")


_LAWS: Final = (
    ring_stands_still, rows_never_written, chance_by_steps, acts_for_certain, learning_stops, reset_at_real_ends_alone, loop_misses_limit,
    carried_where, actions_left_out, worst_entry, action_kept, chance_for_good, same_batch, row_beside, tables_mixed_up,
)  # fmt: skip


def _law(id: str) -> Callable[[Script], Iterator[Spot]]:
    def meaning(script: Script) -> Iterator[Spot]:
        found: list[tuple[str, Spot]] = script.once("laws of collecting", lambda: [each for law in _LAWS for each in law(script)])
        for law, spot in found:
            if law == id:
                yield spot

    return meaning


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    id: (_law(id),)
    for id in (
        "COD101",
        "COD105",
        "COD106",
        "COD132",
        "COD415",
        "COD416",
        "COD508",
        "COD509",
        "COD510",
        "COD511",
        "COD513",
        "COD518",
        "COD535",
        "COD556",
    )
}
"""What is added to which check."""
