"""Laws of replay: what is drawn by priority and weighed for it, and returns over several steps."""

# ruff: noqa: E501 — a message reads best whole

import ast
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.lint.code.reading.script import Script, Spot
from rlclinic.diagnosis.lint.code.symbolic import collecting, differences, experience, formulas
from rlclinic.diagnosis.lint.code.symbolic.execution import Event, Items, Symbol, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called, evaluated, execution, number, terms

_SIZES: Final = frozenset(
    {
        "abs",
        "absolute",
        "fabs",
        "square",
        "mse_loss",
        "smooth_l1_loss",
        "huber_loss",
        "l1_loss",
        "norm",
        "relu",
        "softmax",
        "exp",
        "argsort",
        "rank",
    }
)
_MOST_STEPS: Final = 50
_LATE: Final = 1e5


def _spot(where: ast.AST | None, text: str, fix: str = "") -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix)


# ── priorities ──


def _holders(value: Value) -> set[int]:
    """Arrays and lists that a value is computed from."""
    held: set[int] = set()
    pending: list[Value] = [value]
    seen: set[int] = set()
    while pending and len(seen) < 400:
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
            elif called(current) != "len":
                pending += [*current.args, *current.keys.values()]
    return held


def _priorities(script: Script) -> set[int]:
    """Arrays and lists that decide which rows are drawn."""

    def find() -> set[int]:
        run = execution(script)
        held: set[int] = set()
        # Chances of actions are a policy, whatever they are made of.
        actions = {
            id(part)
            for event in experience.env_steps(script)
            if isinstance(event.value, Symbol) and len(event.value.args) > 1
            for part in formulas.parts(event.value.args[1], into_networks=False, into_arrays=False)
        }
        for call in run.calls:
            if id(call) in actions:
                continue
            chances = call.keys.get("p") or call.keys.get("weights")
            if called(call) == "multinomial" and call.args and not differences.holds_answer(call.args[0]):
                chances = call.args[0] if call.op == "call" else None
            if called(call) in ("choice", "choices", "multinomial") and chances is not None:
                held |= _holders(chances)
        for each in differences.differences(script):
            for base in [base for out in each.answers for base in differences.bases(out)]:
                if base.op == "read" and len(base.args) > 1:
                    held |= {
                        id(part.args[0])
                        for part in formulas.parts(base.args[1], into_networks=False, into_arrays=False)
                        if part.op == "read" and isinstance(part.args[0], Symbol) and part.args[0].op == "array"
                    }
        return held

    return script.once("priorities", find)


def _contents(values: list[Value], into_arrays: bool = False) -> set[int]:
    """Everything that takes part in some values, arrays as a whole, or with what was put into them."""
    pending = list(values)
    seen: set[int] = set()
    while pending and len(seen) < 40_000:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Items):
            pending += current.items
        elif isinstance(current, Symbol) and current.op not in ("net", "env", "step", "reset", "array"):
            pending += [*current.args, *current.keys.values()]
        elif isinstance(current, Symbol) and current.op == "array" and into_arrays:
            pending += current.stored
    return seen


def _outside(value: Value, inner: set[int]) -> list[Symbol]:
    """What was done to one of some values, from it outwards."""
    known: dict[int, bool] = {}
    made: list[Symbol] = []

    def holds(current: Value, depth: int) -> bool:
        if id(current) in known:
            return known[id(current)]
        known[id(current)] = id(current) in inner
        if id(current) in inner or depth == 0:
            return known[id(current)]
        held: list[Value] = []
        if isinstance(current, Items):
            held = current.items
        elif isinstance(current, Symbol) and current.op not in ("net", "env", "step", "reset", "array", "out"):
            held = [*current.args, *current.keys.values()]
        found = [holds(each, depth - 1) for each in held]
        known[id(current)] = any(found)
        if any(found) and isinstance(current, Symbol):
            made.append(current)
        return known[id(current)]

    holds(value, 60)
    return made


def _written(event: Event) -> list[ast.AST]:
    """Where a value was handed over, from the place that stores it outwards."""
    return [
        event.node,
        *(
            call
            for call, given in reversed(event.calls)
            if any(part is event.value for value in given for part in experience.shallow(value))
        ),
    ]


def priorities(script: Script) -> Iterator[tuple[str, Spot]]:
    """A priority is the size of an error, to one power, and more than nothing for what is new."""
    run = execution(script)
    held = _priorities(script)
    found = differences.differences(script)
    if not held or not found:
        return
    answers = {id(out) for each in found for out in each.answers}
    targets = {id(each.target) for each in found}
    stores = [
        event for event in run.events if event.name == "store" and event.loops and id(event.subject) in held and event.value is not None
    ]
    renewed = []
    for event in stores:
        assert event.value is not None
        done = _outside(event.value, answers | targets)
        if not done and id(event.value) not in answers | targets:
            continue
        renewed.append(event)
        outer = [call for call, given in event.calls if any(_contents([value]) & answers for value in given)]
        error = _outside(event.value, targets)
        if not error:
            for where in (*outer[:1], event.node):
                yield (
                    "COD538",
                    _spot(
                        where,
                        "the priority is made of a value, and not of the error of one: what is known best may be drawn most",
                        "abs(target - value)",
                    ),
                )
        elif not any(_is_size(part) for part in error):
            made = [part.node for part in error if part.op == "Add"]
            for where in (*[node for node in made if node is not None][:1], event.node, *outer[-1:]):
                yield (
                    "COD538",
                    _spot(
                        where,
                        "the error keeps its sign in the priority: half of the transitions are never drawn again, or the draw raises",
                        "abs(error) + eps",
                    ),
                )
    others = [event for event in stores if event not in renewed and any(isinstance(loop, ast.For | ast.While) for loop in event.loops)]
    for event in others if renewed else ():
        if number(event.value) == 0:
            for where in _written(event):
                yield "COD538", _spot(where, "what is new gets no priority at all: it is never drawn", "the largest priority so far")
    powers = [
        (event, _power(event.value))
        for event in (*renewed, *others)
        if event.value is not None and number(event.value) != 0 and not _sums_entries(event)
    ]
    raised = [one for _, one in powers if one is not None]
    for event, power in powers if raised and renewed else ():
        if power is None:
            for where in _written(event):
                yield (
                    "COD538",
                    _spot(
                        where,
                        "this priority is stored as it is, and another one to a power: the two cannot be compared",
                        "** alpha in both places",
                    ),
                )
    yield from _never_renewed(script, stores, renewed)
    yield from _weights(script, held)


def _is_size(part: Symbol) -> bool:
    return (
        called(part) in _SIZES
        or (part.op == "Pow" and len(part.args) == 2 and (number(part.args[1]) or 1.0) % 2 == 0)
        or (called(part) == "pow" and len(part.args) > 1 and number(part.args[1]) == 2)
    )


def _power(value: Value) -> Value | None:
    """The power that a value is raised to last."""
    inner = differences.bare(value)
    if isinstance(inner, Symbol) and inner.op == "Pow":
        return inner.args[1]
    if called(inner) in ("pow", "power") and isinstance(inner, Symbol) and len(inner.args) > 1:
        return inner.args[1]
    if isinstance(inner, Symbol) and inner.op in ("element", "read", "item") and inner.args:
        return _power(inner.args[0]) if isinstance(inner.args[0], Symbol) and inner.args[0].op not in ("array", "net") else None
    return None


def _sums_entries(event: Event) -> bool:
    """A node of a tree, which is the sum of those below it; an old entry that is kept."""
    made = differences.bare(event.value)  # type: ignore[arg-type]
    sides = (
        made.args
        if isinstance(made, Symbol) and (made.op in ("Add", "Sub") or called(made) in ("max", "maximum", "min", "minimum"))
        else (made,)
    )
    inner = [differences.bare(each) for each in sides]
    return any(isinstance(each, Symbol) and each.op == "read" and each.args[0] is event.subject for each in inner)


def _never_renewed(script: Script, stores: list[Event], renewed: list[Event]) -> Iterator[tuple[str, Spot]]:
    run = execution(script)
    stored = [event.value for event in stores if event.value is not None]
    raised = any(part.op == "Pow" for value in stored for part in formulas.parts(value, False, False))
    prioritized = raised or "priorities" in script.words
    if renewed or not stores or not prioritized or not run.complete:
        return
    if not all(number(event.value) is not None or _sums_entries(event) or _is_first(event) for event in stores):
        return
    for each in differences.differences(script)[:1]:
        if any(isinstance(out.args[0], Symbol) and out.args[0].op == "array" for out in each.answers):
            continue  # a table that is updated at each step: no rows are drawn
        held = {id(base) for out in each.answers for base in differences.bases(out)}
        taken = [
            node for names, node in run.unpacked if any(id(differences.bare(value)) in held or id(value) in held for _, value in names)
        ]
        for where in (*taken[-1:], each.where.node):
            yield (
                "COD538",
                _spot(
                    where,
                    "nothing gives these rows new priorities after the update: they stay what they were when they were stored",
                    "update the priorities of the rows that were drawn",
                ),
            )


def _is_first(event: Event) -> bool:
    """The largest one so far, or a number."""
    return any(called(part) in ("max", "amax") or number(part) is not None for part in formulas.parts(event.value, False, False))  # type: ignore[arg-type]


def _weights(script: Script, held: set[int]) -> Iterator[tuple[str, Spot]]:
    """(N * P) ** -beta belongs into the loss, and its power grows to 1."""
    run = execution(script)
    used = _contents([event.value for event in formulas.backwards(run) if event.value is not None])
    powers = [each for each in run.sums if each.op == "Pow" and len(each.args) == 2 and _holders(each.args[0]) & held]
    negative = [
        each for each in powers if isinstance(each.args[1], Symbol) and (each.args[1].op == "USub" or (number(each.args[1]) or 0) < 0)
    ]
    if negative and not any(id(each) in used for each in negative):
        for difference in differences.differences(script)[:1]:
            bases = {id(base) for out in difference.answers for base in differences.bases(out)}
            taken = [
                node
                for names, node in run.unpacked
                if any(id(differences.bare(value)) in bases or id(value) in bases for _, value in names)
            ]
            for where in (difference.where.node, *taken[-1:]):
                yield (
                    "COD538",
                    _spot(
                        where,
                        "rows are weighed for how often they are drawn, and no loss is multiplied by those weights",
                        "(weights * errors).mean()",
                    ),
                )
    for each in negative:
        beta = each.args[1].args[0] if isinstance(each.args[1], Symbol) and each.args[1].op == "USub" else None
        if isinstance(beta, Symbol) and any(formulas.is_counter(part) for part in formulas.parts(beta, False, False)):
            early, late = evaluated(beta, 0.0), evaluated(beta, _LATE)
            if early is not None and late is not None and late < early - 1e-6:
                for where in (formulas.written(beta), each.node):
                    yield (
                        "COD538",
                        _spot(
                            where,
                            "the power of the weights falls: the correction fades where the values should be free of bias",
                            "from beta to 1",
                        ),
                    )


# ── returns over several steps ──


def _queues(script: Script) -> dict[int, Items]:
    """Lists of the last steps, whose first one is taken out when its return is known."""
    run = execution(script)
    made: dict[int, Items] = {}
    emptied = {id(event.subject) for event in run.events if event.name == "emptied"}
    for event in run.events:
        queue = event.subject
        if event.name != "store" or not isinstance(queue, Items) or event.value is None or not event.loops:
            continue
        rewarded = any(isinstance(part, Symbol) and part.op == "stepped" and part.data[0] == 1 for part in experience.shallow(event.value))
        whole = isinstance(event.value, Items) or not isinstance(event.value, Symbol)
        short = queue.limit is not None and (number(queue.limit) or _MOST_STEPS + 1) <= _MOST_STEPS
        if rewarded and whole and (id(queue) in emptied or short):
            made[id(queue)] = queue
    return made


def several_steps(script: Script) -> Iterator[tuple[str, Spot]]:
    """The return of n steps belongs to the first of them, is discounted like what follows, and ends with its episode."""
    run = execution(script)
    queues = _queues(script)
    summed: dict[int, list[Symbol]] = {}
    for each in run.sums:
        if each.op == "Add" and each.loops and isinstance(each.loops[-1], ast.For):
            walked = _walked(run.walked.get(each.loops[-1]))
            if walked is not None and id(walked) in queues and any(_runs(one) for one in each.args):
                summed.setdefault(id(walked), []).append(each)
    for at, sums in summed.items():
        queue = queues[at]
        discounted = any(
            formulas.is_scalar(factor) and number(factor) not in (0, 1)
            for one in sums
            for term in terms(one)
            if len(term.factors) > 1
            for factor in term.factors
        )
        for one in sums[-1:]:
            plain = one.data is None and not discounted
            learned = [error for error in differences.differences(script) if id(one) in _contents([error.target], into_arrays=True)]
            for error in learned if discounted else ():
                future = [put for factor in _factors(error) for put in _kept(factor)]
                lone = [put for put in future if 0.5 < (number(put) or 0) < 1 or _chooses_discount(put)]
                raised = [
                    put
                    for put in future
                    for inner in (put, *(put.args[1:] if put.op == "phi" else ()))
                    if isinstance(inner, Symbol) and inner.op == "Pow"
                ]
                for where in (error.target.node, *[put.node for put in lone[:1]]) if lone and not raised else ():
                    yield (
                        "COD512",
                        _spot(
                            where,
                            "the rewards of several steps are summed, and what follows them is discounted by one step only",
                            "gamma ** n",
                        ),
                    )
            if plain and any(_is_discount(each) for each in learned):
                yield (
                    "COD512",
                    _spot(
                        one.node,
                        "rewards of several steps are added as they are, and what follows them is discounted",
                        "reward + gamma * following",
                    ),
                )
            backwards = formulas.is_backwards(run.walked[one.loops[-1]]) if isinstance(one.loops[-1], ast.For) else None
            if discounted and not backwards and not isinstance(run.walked[one.loops[-1]], Symbol):
                for where in (one.node, one.loops[-1].iter):  # type: ignore[attr-defined]
                    yield (
                        "COD504",
                        _spot(
                            where, "the return is built from the first reward to the last: the last one is discounted least", "reversed(…)"
                        ),
                    )
        taken = [event for event in run.events if event.name == "emptied" and event.subject is queue]
        for event in taken:
            call = event.node
            last = (
                isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "pop"
                and (not call.args or ast.unparse(call.args[0]) == "-1")
            )  # fmt: skip
            if last:
                yield (
                    "COD553",
                    _spot(call, "the return of all these steps is put down to the last of them: it belongs to the first", "popleft()"),
                )
        lengths = [each for each in run.sums if each.op == "Pow" and _counts(each.args[1], queue)]
        for each in lengths:
            counting = next(part for part in formulas.parts(each.args[1], False, False) if called(part) == "len")
            line = getattr(counting.node, "lineno", 0)
            before = [getattr(event.node, "lineno", 0) for event in taken]
            sums_at = [getattr(one.node, "lineno", 0) for one in sums]
            if before and sums_at and max(sums_at) < min(before) < line:
                for where in (counting.node, each.node, *[event.node for event in taken[:1]]):
                    yield (
                        "COD553",
                        _spot(
                            where,
                            "the steps are counted after one of them was taken out: the discount is that of one step fewer",
                            "count them first",
                        ),
                    )
        yield from _across_episodes(script, queue, taken)


def _runs(value: Value) -> bool:
    """What the pass before left, times a discount or not."""
    if isinstance(value, Symbol) and value.op == "Mult":
        return any(_runs(each) for each in value.args)
    return isinstance(value, Symbol) and value.op == "carried"


def _factors(each: differences.Difference) -> list[Value]:
    """What the future of a target is multiplied with."""
    return [
        factor
        for term in terms(each.target)
        for factor in term.factors
        if any(out in formulas.outputs_in(one, stored=False) for one in term.factors for out in each.futures)
    ]


def _kept(factor: Value) -> list[Symbol]:
    """What a factor is, or what was stored of it."""
    inner = differences.bare(factor)
    if isinstance(inner, Symbol) and inner.op == "read" and isinstance(inner.args[0], Symbol):
        return [
            put.args[0] for put in inner.args[0].stored if isinstance(put, Symbol) and put.op == "put" and isinstance(put.args[0], Symbol)
        ]
    if isinstance(inner, Symbol) and inner.op in ("column", "element", "item"):
        return list(formulas.origins(inner))
    return [inner] if isinstance(inner, Symbol) else []


def _chooses_discount(value: Symbol) -> bool:
    """0 at an end, else a discount."""
    numbers = [number(each) for each in value.args[1:]] if value.op == "phi" else []
    return len(numbers) == 2 and 0.0 in numbers and any(each is not None and 0.5 < each < 1 for each in numbers)


def _is_discount(each: differences.Difference) -> bool:
    """Whether a target's future has a discount, now or where it was stored."""
    return any(
        one.op == "Pow"
        or 0.5 < (number(one) or 0) < 1
        or (
            one.op == "phi"
            and any(isinstance(branch, Symbol) and (branch.op == "Pow" or 0.5 < (number(branch) or 0) < 1) for branch in one.args[1:])
        )
        for factor in _factors(each)
        for one in _kept(factor)
    )


def _walked(value: Value | None) -> Items | None:
    while isinstance(value, Symbol) and value.op in ("reversed", "enumerated", "zipped") and value.args:
        value = value.args[-1] if value.op == "zipped" else value.args[0]
    return value if isinstance(value, Items) else None


def _counts(value: Value, queue: Items) -> bool:
    return any(called(part) == "len" and part.args and part.args[0] is queue for part in formulas.parts(value, False, False))


def _across_episodes(script: Script, queue: Items, taken: list[Event]) -> Iterator[tuple[str, Spot]]:
    run = execution(script)
    stores = [event for event in run.events if event.name == "store" and event.subject is queue and event.loops]
    at_end = any(experience.ends_in(guard) for event in (*taken, *stores) for guard in event.guards) or any(
        loop in run.tests and experience.ends_in(run.tests[loop]) for event in taken for loop in event.loops if isinstance(loop, ast.While)
    )
    line = getattr(queue.node, "lineno", 0)
    made_anew = any(
        isinstance(loop, ast.For | ast.While) and loop.lineno < line <= (loop.end_lineno or 0)
        for loop in ast.walk(script.tree)
        if isinstance(loop, ast.For | ast.While)
    )
    cleared = any(
        isinstance(event.node, ast.Call) and isinstance(event.node.func, ast.Attribute) and event.node.func.attr == "clear"
        for event in taken
    )
    remade = sum(1 for held, _ in run.bound.values() if held is queue) == 0
    if at_end or made_anew or cleared or remade or not taken or not stores:
        return
    for event in (stores[-1], taken[-1]):
        branch = collecting.enclosing(script, event.node, ast.If)
        inner = next((guard for guard in reversed(event.guards) if isinstance(guard, Symbol) and guard.op == "Compare"), None)
        for where in (event.node, inner.node if inner is not None else branch.test if isinstance(branch, ast.If) else None):
            if where is not None:
                yield (
                    "COD553",
                    _spot(
                        where,
                        "steps that wait for their return are kept when an episode ends: the next one's rewards are added to them",
                        "empty it at an end",
                    ),
                )


def limits_as_ends(script: Script) -> Iterator[tuple[str, Spot]]:
    """A discount of 0 that is stored at either kind of end."""
    run = execution(script)
    discounts: set[int] = set()
    for each in differences.differences(script):
        for factor in _factors(each):
            inner = differences.bare(factor)
            if (
                isinstance(inner, Symbol)
                and inner.op == "read"
                and any(one.op == "Pow" or 0.5 < (number(one) or 0) < 1 for one in _kept(factor))
            ):
                discounts.add(id(inner.args[0]))
    for event in run.events:
        if event.name == "store" and id(event.subject) in discounts and event.value is not None and number(event.value) == 0:
            ends = {
                end for guard in event.guards if not (isinstance(guard, Symbol) and guard.op == "Not") for end in experience.ends_in(guard)
            }
            if {"terminated", "truncated"} <= ends:
                for where in (event.node, *(call for call, _ in reversed(event.calls))):
                    yield (
                        "COD101",
                        _spot(
                            where,
                            "what follows is thrown away at a time limit, too: the future there is worth something",
                            "0 only where terminated",
                        ),
                    )


def tree_descends(script: Script) -> Iterator[tuple[str, Spot]]:
    """A walk down a tree of sums: to the right, what lies on the left is taken off."""
    for loop in script.all(ast.While, ast.FunctionDef):
        if isinstance(loop, ast.FunctionDef) and not script.calls(loop.name, within=loop):
            continue
        for branch in [each for each in ast.walk(loop) if isinstance(each, ast.If)]:
            test = branch.test
            if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)):
                continue
            mass, entry = (
                (test.left, test.comparators[0]) if isinstance(test.comparators[0], ast.Subscript) else (test.comparators[0], test.left)
            )
            if not isinstance(entry, ast.Subscript) or not isinstance(mass, ast.Name) or not isinstance(entry.slice, ast.Name):
                continue
            doubles = any(
                isinstance(each, ast.BinOp)
                and isinstance(each.op, ast.Mult)
                and any(isinstance(one, ast.Constant) and one.value == 2 for one in (each.left, each.right))
                for each in ast.walk(loop)
            )
            less = any(
                (isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Sub) and ast.unparse(each.target) == mass.id)
                or (isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub) and ast.unparse(each.left) == mass.id)
                for each in ast.walk(loop)
            )
            if doubles and not less:
                for where in (branch, *branch.orelse[:1]):
                    yield (
                        "COD538",
                        _spot(
                            where,
                            "the walk down the tree goes to the right, and what lies on the left is not taken off: the last rows are drawn far too often",
                            f"{mass.id} -= {ast.unparse(entry)}",
                        ),
                    )


_LAWS: Final = (priorities, several_steps, limits_as_ends, tree_descends)


def _law(id: str) -> Callable[[Script], Iterator[Spot]]:
    def meaning(script: Script) -> Iterator[Spot]:
        found: list[tuple[str, Spot]] = script.once("laws of replay", lambda: [each for law in _LAWS for each in law(script)])
        for law, spot in found:
            if law == id:
                yield spot

    return meaning


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    id: (_law(id),) for id in ("COD101", "COD504", "COD512", "COD538", "COD553")
}
"""What is added to which check."""
