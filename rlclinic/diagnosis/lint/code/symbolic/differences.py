"""Laws of temporal differences, by what each network is asked about: the same entry of a batch is the same value, whatever it is called.

A prediction and its target are one error. What the target says of the future is asked about another observation than the prediction, and
about an action that was chosen there; what the prediction says is asked about an action that was taken.
"""

# ruff: noqa: E501, SIM102 — a message reads best whole

import ast
from collections.abc import Callable, Hashable, Iterator
from typing import Final, NamedTuple

from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot
from rlclinic.diagnosis.lint.code.symbolic import experience, formulas, sizes
from rlclinic.diagnosis.lint.code.symbolic.execution import Event, Items, Symbol, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called, execution, gradient, outputs_in, root, terms

JOINING: Final = frozenset({"cat", "concatenate", "hstack", "concat", "column_stack"})
_SHAPING: Final = (
    formulas.PASSING - JOINING - {"stack", "vstack", "clip", "clamp", "split", "chunk", "array_split", "append", "iter", "next"}
)
_TAKING: Final = frozenset({"gather", "take_along_dim", "index_select"})
_CHOOSING: Final = frozenset(
    {"max", "amax", "maximum", "min", "amin", "minimum", "fmin", "fmax", "where", "logsumexp", "stack", "mean", "sum"}
)
_MOST: Final = 300


def _spot(where: ast.AST | None, text: str, fix: str = "") -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix)


# ── what a network is asked about ──


def bare(value: Value) -> Value:
    """A value before it was cast, moved and reshaped."""
    while isinstance(value, Symbol) and value.args:
        # np.stack(column) makes a tensor of the column; torch.stack([a, b]) is two things.
        stacked = called(value) in ("stack", "vstack") and isinstance(value.args[0], Symbol)
        if called(value) in _SHAPING or stacked or (value.op == "attribute" and value.data == "data"):
            value = value.args[0]
        else:
            break
    return value


def key(value: Value, depth: int = 6) -> Hashable:
    """What tells one entry of a batch from another: a field is the same field wherever it is read."""
    value = bare(value)
    if isinstance(value, Symbol) and depth:
        held = bare(value.args[0]) if value.op == "column" and value.args else None
        if isinstance(held, Symbol) and held.op in ("observed", "reset", "stepped", "carried", "phi"):
            # Two fields that hold the same observation are the same.
            return "column", id(held)
        if value.op in ("attribute", "item", "column") and value.args:
            place = value.args[1] if len(value.args) > 1 else None
            known = place.data if isinstance(place, Symbol) and place.op == "const" else id(place) if place is not None else None
            return value.op, str(value.data), key(value.args[0], depth - 1), known
        if value.op == "read" and len(value.args) > 1:
            return "read", id(value.args[0]), id(value.args[1])
    return id(value)


def leaves(out: Symbol) -> list[Value]:
    """What a network is asked about, one by one, before its own layers."""
    own = root(out.args[0])
    made: list[Value] = []
    pending: list[Value] = list(out.args[1:])
    seen = 0
    while pending and seen < 40:
        seen += 1
        current = bare(pending.pop(0))
        if isinstance(current, Items):
            pending = [*current.items, *pending]
        elif called(current) in JOINING and isinstance(current, Symbol) and current.args:
            pending = [current.args[0], *pending]
        else:
            inner = [each for each in outputs_in(current, stored=False) if own is not None and root(each.args[0]) is own]
            if inner:
                pending = [*(each for one in inner for each in one.args[1:]), *pending]
            elif not _is_idle(current):
                made.append(current)
    return made


def _is_idle(value: Value) -> bool:
    """A number, a flag, an axis."""
    return not isinstance(value, Symbol) or value.op in ("const", "ext", "net", "slice") or formulas.number(value) is not None


def bases(value: Value) -> list[Symbol]:
    """What a value is computed from in the end: entries of a batch, observations; through networks, and not which rows were taken."""
    made: list[Symbol] = []
    pending: list[Value] = [value]
    seen: set[int] = set()
    while pending and len(seen) < _MOST:
        current = bare(pending.pop())
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Items):
            pending += current.items
        elif isinstance(current, Symbol):
            if current.op in ("net", "env", "step", "reset", "const", "ext", "weights", "settings", "index", "range"):
                continue
            if current.op in ("read", "column", "stepped", "observed", "parameter", "sampled", "element", "carried") or (
                current.op in ("item", "attribute") and current.args and not holds_answer(current.args[0])
            ):
                made.append(current)
            else:
                pending += current.args[1:] if current.op == "out" else current.args
    return made


def holds_answer(value: Value, depth: int = 8) -> bool:
    """Whether something is, or is made of, what a network answered or a distribution: a part of it is no entry of a batch."""
    if not isinstance(value, Symbol) or depth == 0:
        # What stands in a list that grows was kept from before.
        return isinstance(value, Items) and not value.is_open and any(holds_answer(each, depth - 1) for each in value.items[:4])
    if value.op in ("out", "dist"):
        return True
    return value.op not in ("read", "column", "stepped", "observed", "sampled", "net", "env") and any(
        holds_answer(each, depth - 1) for each in value.args
    )


def was_taken(script: Script, value: Value) -> bool:
    """Whether this very action was given to an environment."""
    taken: set[int] = script.once("taken", lambda: {id(part) for event in experience.env_steps(script) for part in _chosen(event)})
    return id(value) in taken or any(id(each) in taken for each in experience.latest(value))


def is_action(script: Script, value: Value) -> bool:
    """An action that was taken: by where it comes from, else by what it is called."""
    if was_taken(script, value):
        return True
    name = formulas.label(value) or (
        str(value.data) if isinstance(value, Symbol) and value.op in ("attribute", "item", "parameter") else ""
    )
    return bool(words.ACTION(name)) and not words.OBSERVATION(name)


def _chosen(event: Event) -> list[Symbol]:
    """The action of a step, before it was scaled, clipped and mixed with noise."""
    assert isinstance(event.value, Symbol)
    made = list(experience.latest(event.value.args[1]))
    for each in list(made):
        while each.op in ("Mult", "Add", "Sub", "Div") or called(each) in ("clip", "clamp"):
            inner = next((arg for arg in each.args if isinstance(arg, Symbol) and not formulas.is_scalar(arg)), None)
            if inner is None:
                break
            found = experience.latest(inner)
            made += found
            each = found[0] if found and found[0] is not each else inner
            if len(made) > 30:
                break
    return made


# ── errors ──


class Difference(NamedTuple):
    """A prediction beside its target."""

    where: Symbol
    answers: list[Symbol]
    """What networks predict."""
    target: Symbol
    """reward + discount * future"""
    futures: list[Symbol]
    """What networks say of what comes next."""


def differences(script: Script) -> list[Difference]:
    """Predictions that are trained on a reward and what a network says of the future."""
    return script.once("differences", lambda: [*_differences(script), *_of_tables(script)])


def _differences(script: Script) -> Iterator[Difference]:
    sums: dict[int, list[formulas.Target]] = {}
    for target in formulas.targets(script):
        sums.setdefault(id(target.sum), []).append(target)
    seen: set[tuple[int, ...]] = set()
    for event in formulas.backwards(execution(script)):
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            sides = part.args[:2] if called(part) in (*sizes.SQUARES, "l1_loss", "sub") else part.args if part.op == "Sub" else ()
            if len(sides) != 2:
                continue
            for answer, goal in (sides, sides[::-1]):
                if not gradient(answer):
                    continue
                for inner in formulas.parts(goal, into_networks=False, into_arrays=False):
                    held = sums.get(id(inner), [])
                    # One row after another: a recursion over a rollout, whose rows are the prediction's own.
                    deeper = len(inner.loops) > len(event.loops) and set(event.loops) < set(inner.loops)
                    if (
                        not held
                        or deeper
                        or _reads_single_rows(inner)
                        or any(_runs_on(one) for each in held for one in each.future.factors)
                    ):
                        continue
                    answers = outputs_in(answer, stored=False)
                    futures = [out for each in held for factor in each.future.factors for out in _valued(factor)]
                    mark = (id(inner), *(id(each) for each in answers))
                    if answers and futures and mark not in seen:
                        seen.add(mark)
                        yield Difference(part, answers, inner, futures)


def _reads_single_rows(target: Symbol) -> bool:
    """r[i] + gamma * …, in the loop that counts i."""
    return any(
        part.op in ("item", "read") and len(part.args) > 1 and part.loops[-1:] == target.loops[-1:] and _counts_rows(part.args[1])
        for part in formulas.parts(target, into_networks=False, into_arrays=False)
    )


def _counts_rows(key: Value) -> bool:
    """The counter of a loop over the rows of a rollout."""
    if not isinstance(key, Symbol) or key.op not in ("index", "element"):
        return False
    walked = key.args[0] if key.args else None
    return key.op == "index" or (
        isinstance(walked, Symbol)
        and walked.op in ("reversed", "range")
        and any(part.op == "range" for part in formulas.parts(walked, False, False))
    )


def _runs_on(value: Value, depth: int = 12) -> bool:
    """What the pass before left takes part: a sum that runs through a rollout."""
    inner = bare(value)
    if not isinstance(inner, Symbol) or depth == 0:
        return False
    if inner.op == "carried":
        return True
    joins = inner.op in ("Add", "Sub", "Mult", "Div", "USub", "phi") or called(inner) in (
        "clamp",
        "clip",
        "min",
        "max",
        "where",
        "minimum",
        "maximum",
    )
    return joins and any(_runs_on(each, depth - 1) for each in inner.args)


def hands_gradients_over(script: Script) -> bool:
    """A worker's gradients are given to a shared network, whose optimizer steps."""
    return bool(script.words & {"_grad", "ensure_shared_grads", "share_memory"}) or any(
        event.name in ("set grad", "set _grad") for event in execution(script).events
    )


def _of_tables(script: Script) -> Iterator[Difference]:
    """Entries of a table, and what they move towards."""
    from rlclinic.diagnosis.lint.code.symbolic import tables

    found = formulas.targets(script)
    for update in tables.updates(script):
        held = {id(part) for part in formulas.parts(update.value, into_networks=False, into_arrays=False)}
        answer = Symbol("out", (update.table, update.state), update.node)
        for target in found:
            if id(target.sum) in held:
                futures = [out for factor in target.future.factors for out in _valued(factor) if out.args[0] is update.table]
                if futures:
                    yield Difference(update.value, [answer], target.sum, futures)


def _valued(factor: Value) -> list[Symbol]:
    """Answers that a future is made of with a positive sign: not those that say how likely an action was."""
    made = []
    for term in terms(factor):
        if term.sign > 0:
            for one in term.factors:
                if not any(
                    called(part) in ("log_prob", "log_softmax", "entropy") for part in formulas.parts(one, False, False) if part.op != "out"
                ):
                    filled = bare(one)
                    # zeros, filled where a next observation is there
                    values = filled.stored if isinstance(filled, Symbol) and filled.op == "array" else [one]
                    made += [
                        out
                        for each in values
                        for out in outputs_in(each.args[0] if isinstance(each, Symbol) and each.op == "put" else each, stored=False)
                    ]
    return made


class _Question(NamedTuple):
    """What an answer is about."""

    states: set[Hashable]
    """Observations, directly or through networks that read them."""
    direct: set[Hashable]
    """Observations that the network itself is given."""
    taken: set[Hashable]
    """Actions that were taken before."""
    chosen: list[Value]
    """Actions that another network answers."""


def _question_of(script: Script, out: Symbol) -> _Question:
    direct: set[Hashable] = set()
    taken: set[Hashable] = set()
    chosen: list[Value] = []
    for leaf in leaves(out):
        if holds_answer(leaf) and not was_taken(script, leaf):
            chosen.append(leaf)
        elif is_action(script, leaf):
            taken.add(key(leaf))
        else:
            direct.add(key(leaf))
    through = {key(base) for leaf in chosen for base in bases(leaf) if not is_action(script, base)}
    # Where nothing is given directly, another network reads the observation first.
    return _Question(direct or through, direct, taken, chosen if direct else [])


def _index(script: Script, value: Value, answer: Symbol, depth: int = 12) -> Value | None:
    """Which entries of an answer are taken: gather(1, a), q[rows, a]."""
    if not isinstance(value, Symbol) or depth == 0:
        return None
    if called(value) in _TAKING and len(value.args) > 1 and any(each is answer for each in outputs_in(value.args[0], stored=False)):
        return value.args[2] if len(value.args) > 2 else value.args[1]
    if value.op in ("item", "read") and len(value.args) > 1 and isinstance(value.args[1], Items):
        if any(each is answer for each in outputs_in(value.args[0], stored=False)) and value.args[1].items:
            return value.args[1].items[-1]
    for each in value.args if value.op not in ("net", "env", "out") else ():
        held = each.items if isinstance(each, Items) else [each]
        for one in held:
            found = _index(script, one, answer, depth - 1)
            if found is not None:
                return found
    return None


def wrong_questions(script: Script) -> Iterator[tuple[str, Spot]]:
    """The future is asked about this observation, or about an action of it; the prediction about an action that nobody took."""
    for each in differences(script):
        predicted = [_question_of(script, out) for out in each.answers]
        states = {one for asked in predicted for one in asked.states}
        taken = {one for asked in predicted for one in asked.taken}
        futures = [_question_of(script, out) for out in each.futures]
        if not states or any(asked.states and not asked.states <= states for asked in futures) is False:
            # Every future is about what the prediction is about.
            for out in each.futures if states and all(asked.states for asked in futures) else ():
                # Where the observation was read, too: obs2=self.obs_buf[rows]
                origins = [leaf.node for leaf in leaves(out) if isinstance(leaf, Symbol) and leaf.op in ("read", "column")]
                joined = [given.node for given in out.args[1:] if isinstance(given, Symbol)]
                for where in dict.fromkeys((formulas.written(out), each.target.node, *origins[:1], *joined[:1])):
                    yield (
                        "COD517",
                        _spot(
                            where,
                            "what comes next is asked of the very observation that the prediction is about: nothing says what the step led to",
                            "the next observation",
                        ),
                    )
            continue
        for out, asked in zip(each.futures, futures, strict=True):
            if not asked.states:
                continue
            if asked.states <= states:
                # Its twin is asked about the next observation.
                if any(
                    out in group and any(other is not out and _question_of(script, other).states - states for other in group)
                    for group in _twins(script, each)
                ):
                    yield (
                        "COD517",
                        _spot(
                            formulas.written(out),
                            "one of the critics of the target is asked about the observation before the step, and the other one about the next",
                            "the next observation",
                        ),
                    )
                continue
            if taken and asked.taken & taken and not asked.chosen:
                yield (
                    "COD517",
                    _spot(
                        formulas.written(out),
                        "the next observation is valued with the action that was taken before it, not with what would be done there",
                        "the action that the policy chooses in the next observation",
                    ),
                )
            wrong = [leaf for leaf in asked.chosen if _is_of(script, leaf, states)]
            picked = _index(script, each.target, out)
            if picked is not None and was_taken(script, picked):
                yield (
                    "COD517",
                    _spot(
                        formulas.written(out),
                        "the next observation is valued with the action that was taken before it, not with what would be done there",
                        "the best action of the next observation",
                    ),
                )
                continue
            wrong += [picked] if picked is not None and holds_answer(picked) and _is_of(script, picked, states) else []
            for leaf in wrong:
                acting = list(_inner(leaf))
                places = [formulas.written(inner) for inner in acting[:1]] + formulas.bound_at(execution(script), leaf)[:1]
                for where in places or [formulas.written(out)]:
                    yield (
                        "COD517",
                        _spot(
                            where,
                            "the action of the target is chosen in the observation before the step, and valued in the one after it",
                            "choose it in the next observation",
                        ),
                    )
        for out, asked in zip(each.answers, predicted, strict=True):
            if asked.direct and asked.chosen and not asked.taken and _keeps_actions(script):
                drawn = [leaf for leaf in asked.chosen if any(root(inner.args[0]) is not root(out.args[0]) for inner in _inner(leaf))]
                read = {key(base) for leaf in drawn for base in bases(leaf)}
                if drawn and read:
                    for where in (formulas.written(out), each.where.node):
                        yield (
                            "COD551",
                            _spot(
                                where,
                                "the error is about an action that a network has just answered, and the reward is that of the one that was taken",
                                "the stored action",
                            ),
                        )

    for law in (
        _rows_apart,
        _units_apart,
        _masked_by_none,
        _discounted_as_a_whole,
        _reward_missing,
        _flag_for_reward,
        _prediction_of_copy,
        _wrong_axis,
        _brackets_left_out,
        _log_prob_added,
        _sum_of_values,
        _masked_too_late,
    ):
        yield from law(script)


def _masked_by_none(script: Script) -> Iterator[tuple[str, Spot]]:
    """zeros, filled with the future where a mask says so: the mask must be true where an episode goes on."""
    run = execution(script)
    for target in formulas.targets(script):
        for factor in target.future.factors:
            filled = bare(factor)
            puts = filled.stored if isinstance(filled, Symbol) and filled.op == "array" else []
            for put in puts:
                if not isinstance(put, Symbol) or put.op != "put" or len(put.args) < 2 or not outputs_in(put.args[0], stored=False):
                    continue
                mask = put.args[1]
                held = formulas.flag(mask)
                for asked in [part for part in formulas.parts(mask, False, False) if part.op == "Compare" and part.data in ("Is", "IsNot")]:
                    made = list(experience.latest(asked.args[0]))
                    kept = [branch for one in made for branch in (one.args[1:] if one.op == "phi" else [one])]
                    if (
                        held is None
                        and kept
                        and not any(isinstance(one, Symbol) and one.op == "const" for one in kept)
                        and all(one.op == "stepped" for one in kept if isinstance(one, Symbol))
                    ):
                        columns = [one for one in formulas.parts(asked, False, False) if one.op == "column"]
                        bound = [node for one in columns for node in formulas.bound_at(run, one.args[0])]
                        branches = [condition for node in bound if (condition := _condition(script, node)) is not None]
                        for where in (asked.node, *bound[:1], *branches[:1]):
                            yield (
                                "COD501",
                                _spot(
                                    where,
                                    "nothing is kept as None where an episode ended, though that is how the target looks for ends",
                                    "None if terminated",
                                ),
                            )
                if held is not None and held.sign > 0 and "named" not in held.ends:
                    compared = [part.node for part in formulas.parts(mask, False, False) if part.op == "Compare"]
                    for where in (put.node, *compared[:1], *formulas.bound_at(run, mask)[:1]):
                        yield (
                            "COD502",
                            _spot(
                                where,
                                "the value of what comes next counts only where the episode ended, and nowhere else: the mask is the wrong way round",
                                "where a next observation is there",
                            ),
                        )


def _condition(script: Script, node: ast.AST) -> ast.AST | None:
    """The condition of the branch that a place lies in."""
    line = getattr(node, "lineno", 0)
    around = [each for each in script.all(ast.If) if each.lineno < line <= (each.end_lineno or 0)]
    return max(around, key=lambda each: each.lineno).test if around else None


def _discounted_as_a_whole(script: Script) -> Iterator[tuple[str, Spot]]:
    """gamma * (reward + value)"""
    sums = {id(target.sum): target for target in formulas.targets(script)}
    goals = [side for each in differences(script) for side in each.where.args[:2]]
    for goal in goals:
        for part in formulas.parts(goal, into_networks=False, into_arrays=False):
            if part.op != "Mult" or len(part.args) != 2:
                continue
            for one, other in (part.args, part.args[::-1]):
                number = formulas.number(one)
                if number is not None and 0.5 < number < 1 and id(bare(other)) in sums:
                    yield (
                        "COD512",
                        _spot(
                            part.node,
                            "the reward is discounted with what follows it: the target is too small by one step",
                            "reward + gamma * value",
                        ),
                    )


def _reward_missing(script: Script) -> Iterator[tuple[str, Spot]]:
    """A target of a discount and what a slow copy says of the next observation, and of nothing else."""
    run = execution(script)
    slow = {id(copy.network) for copy in formulas.copies(run)}
    known = {id(each.target) for each in differences(script)}
    for event in formulas.backwards(run):
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            sides = part.args[:2] if called(part) in (*sizes.SQUARES, "l1_loss") else part.args if part.op == "Sub" else ()
            for answer, goal in (sides, sides[::-1]) if len(sides) == 2 else ():
                inner = bare(goal)
                if called(inner) == "where" and isinstance(inner, Symbol) and len(inner.args) == 3:
                    # where(ended, reward, discount * value): the other branch has the future alone.
                    lone = [each for each in inner.args[1:] if not formulas.is_reward(each)]
                    inner = bare(lone[0]) if len(lone) == 1 and formulas.flag(inner.args[0]) is not None else inner
                held = terms(inner)
                if (
                    not gradient(answer)
                    or gradient(goal)
                    or not isinstance(inner, Symbol)
                    or inner.op != "Mult"
                    or len(held) != 1
                    or held[0].sign < 0
                ):
                    continue
                discounted = any(
                    0.5 < (formulas.number(one) or 0) < 1
                    or (isinstance(one, Symbol) and one.op == "attribute" and words.GAMMA(str(one.data)))
                    for one in held[0].factors
                )
                asked = [out for one in held[0].factors for out in _valued(one)]
                rewarded = any(formulas.is_reward(one) for one in held[0].factors) or any(
                    id(each) in known for each in formulas.parts(goal, False, False)
                )
                if discounted and asked and not rewarded and all(id(root(out.args[0])) in slow for out in asked):
                    for where in (inner.node, part.node):
                        yield (
                            "COD516",
                            _spot(where, "the target is what comes next alone: the reward is not in it", "reward + gamma * value"),
                        )


def _flag_for_reward(script: Script) -> Iterator[tuple[str, Spot]]:
    """What stands beside the future in a target, where the reward belongs, is a flag."""
    run = execution(script)
    slow = {id(copy.network) for copy in formulas.copies(run)}
    seen: set[ast.AST | None] = set()
    for each in run.sums:
        if each.op != "Add" or each.data == "in place" or each.node in seen:
            continue
        held = terms(each)
        asked = [out for term in held for one in term.factors for out in _valued(one)]
        if len(held) != 2 or not asked or not all(id(root(out.args[0])) in slow for out in asked):
            continue
        lone = next((term.factors[0] for term in held if len(term.factors) == 1 and not _valued(term.factors[0])), None)
        mark = formulas.flag(lone) if lone is not None else None
        if lone is not None and mark is not None and mark.sign > 0 and "named" not in mark.ends:
            seen.add(each.node)
            made = [
                node
                for one in formulas.parts(lone, False, False)
                for node in formulas.bound_at(run, one)
                if isinstance(one, Symbol) and one.op in ("call", "method")
            ]
            for where in (*made[-2:], each.node):
                yield (
                    "COD516",
                    _spot(
                        where,
                        "a flag of the end stands where the reward belongs: what is learned is when episodes end",
                        "the reward of the step",
                    ),
                )


def _prediction_of_copy(script: Script) -> Iterator[tuple[str, Spot]]:
    """The slow copy is asked for the prediction: no optimizer holds it."""
    run = execution(script)
    slow = {id(copy.network) for copy in formulas.copies(run)}
    for each in differences(script) if not hands_gradients_over(script) else ():
        tops = [root(out.args[0]) for out in each.answers]
        if tops and all(id(top) in slow and top is not None and not formulas.is_trained(run, top) for top in tops):
            for where in [formulas.written(out) for out in each.answers]:
                yield (
                    "COD406",
                    _spot(
                        where,
                        "the prediction is that of the slow copy, which no optimizer holds: the network that acts learns nothing",
                        "the trained network's answer",
                    ),
                )


def _wrong_axis(script: Script) -> Iterator[tuple[str, Spot]]:
    """gather(0, actions): rows are picked by the number of an action."""
    for each in differences(script):
        for value in (*each.where.args[:2], each.target):
            for part in formulas.parts(value, into_networks=False, into_arrays=False):
                if (
                    called(part) in _TAKING
                    and len(part.args) > 2
                    and formulas.number(part.args[1]) == 0
                    and outputs_in(part.args[0], stored=False)
                ):
                    yield (
                        "COD533",
                        _spot(
                            part.node,
                            "rows of the batch are picked by the number of an action: every transition gets the value of another one",
                            ".gather(1, actions)",
                        ),
                    )


def _brackets_left_out(script: Script) -> Iterator[tuple[str, Spot]]:
    """reward + gamma * 1 - ended * value: a discount that stands alone, and a future with a minus."""
    seen: set[ast.AST | None] = set()
    for each in execution(script).sums:
        if each.op not in ("Add", "Sub") or each.node in seen:
            continue
        held = terms(each)
        rewarded = any(term.sign > 0 and any(formulas.is_reward(one) for one in term.factors) for term in held)
        lone = [
            term
            for term in held
            if term.factors
            and all(formulas.number(one) is not None for one in term.factors)
            and any(0.5 < (formulas.number(one) or 0) < 1 for one in term.factors)
        ]
        lowered = [
            term
            for term in held
            if term.sign < 0
            and len(term.factors) > 1
            and any(formulas.flag(one) is not None for one in term.factors)
            and any(_valued(one) for one in term.factors)
        ]
        if rewarded and lone and lowered:
            seen.add(each.node)
            yield (
                "COD502",
                _spot(
                    each.node,
                    "the discount stands alone, and the value is taken away where the episode ended: brackets are missing around 1 - ended",
                    "gamma * (1 - terminated) * value",
                ),
            )


def _log_prob_added(script: Script) -> Iterator[tuple[str, Spot]]:
    """gamma * (value + alpha * log_prob): certainty is paid for."""
    for each in differences(script):
        held = terms(each.target)
        values = [term for term in held if term.sign > 0 and any(_valued(one) for one in term.factors)]
        for term in held:
            drawn = [
                one
                for one in term.factors
                if any(called(part) == "log_prob" for part in formulas.parts(one, into_networks=False, into_arrays=False))
            ]
            if term.sign > 0 and drawn and values and not any(_valued(one) for one in drawn):
                joined = [
                    part.node
                    for part in formulas.parts(each.target, into_networks=False, into_arrays=False)
                    if part.op == "Add" and any(one is bare(arg) for arg in part.args for one in (*drawn, *_products(arg, drawn)))
                ]
                for where in (term.joined, each.target.node, *joined[:1]):
                    if where is not None:
                        yield (
                            "COD523",
                            _spot(
                                where,
                                "the log-probability is added to the value of what comes next: certainty is rewarded, and the policy stops exploring",
                                "next_q - alpha * next_log_prob",
                            ),
                        )


def _products(value: Value, factors: list[Value]) -> list[Value]:
    """A product in which one of these factors stands."""
    inner = bare(value)
    return (
        [inner] if isinstance(inner, Symbol) and inner.op == "Mult" and any(each is one for each in inner.args for one in factors) else []
    )


def _sum_of_values(script: Script) -> Iterator[tuple[str, Spot]]:
    """The sum over all actions, where the best one's value is meant."""
    for each in differences(script):
        for part in formulas.parts(each.target, into_networks=False, into_arrays=False):
            if called(part) == "sum" and part.args:
                summed = bare(part.args[0])
                whole = isinstance(summed, Symbol) and summed.op in ("out", "Add", "Sub")
                rows = [out for out in outputs_in(summed, stored=False) if any(out is one for one in each.futures) and _is_row(out)]
                if whole and rows:
                    yield "COD533", _spot(part.node, "the values of all actions are added up, where that of the best one is meant", ".max")


def _is_row(out: Symbol) -> bool:
    """An answer with an entry for each action."""
    network = out.args[0]
    if isinstance(network, Symbol) and network.op == "array":
        return True
    width = sizes.width(network)
    return width is None or width > 1


def _masked_too_late(script: Script) -> Iterator[tuple[str, Spot]]:
    """next_values[ended] = 0, behind the line that has used them."""
    for each in differences(script):
        line = getattr(each.target.node, "lineno", 0)
        held: list[Value] = [each.target]
        seen = 0
        while held and seen < 60:
            seen += 1
            value = held.pop()
            if isinstance(value, Symbol) and value.op != "array":
                for put in value.stored:
                    after = isinstance(put, Symbol) and put.op == "put" and len(put.args) > 1 and formulas.number(put.args[0]) == 0
                    if (
                        after
                        and isinstance(put, Symbol)
                        and getattr(put.node, "lineno", 0) > line
                        and formulas.flag(put.args[1]) is not None
                    ):
                        for where in (put.node, each.target.node):
                            yield (
                                "COD501",
                                _spot(
                                    where,
                                    "the value after an end is set to 0 when the target has been worked out: it stays in it",
                                    "first the mask, then the target",
                                ),
                            )
                if value.op in ("Add", "Sub", "Mult") or called(value) in _SHAPING:
                    held += value.args


def _twins(script: Script, each: Difference) -> list[list[Symbol]]:
    """Answers of which a target takes the smaller one."""
    made = []
    for part in formulas.parts(each.target, into_networks=False, into_arrays=False):
        if called(part) in ("min", "minimum", "amin", "fmin", "stack", "cat") and part.args:
            group = [out for out in outputs_in(part, stored=False) if any(out is one for one in each.futures)]
            if len(group) > 1:
                made.append(group)
    return made


def _inner(value: Value) -> list[Symbol]:
    return [part for part in formulas.parts(value, into_arrays=False) if part.op == "out"]


def _is_of(script: Script, value: Value, states: set[Hashable]) -> bool:
    """Whether a chosen action depends on these observations alone."""
    held = {key(base) for base in bases(value) if not is_action(script, base)}
    return bool(held) and held <= states


def _keeps_actions(script: Script) -> bool:
    """Whether the script stores what was done."""
    return script.once(
        "keeps actions",
        lambda: any(
            event.name == "store" and event.value is not None and any(is_action(script, part) for part in experience.shallow(event.value))
            for event in execution(script).events
        ),
    )


# ── rows ──


def _rows_apart(script: Script) -> Iterator[tuple[str, Spot]]:
    """Two entries of one batch that were drawn by themselves."""
    for each in differences(script):
        held = [base for side in (*each.answers, each.target) for base in bases(side) if base.op == "read" and len(base.args) > 1]
        drawn: dict[int, Symbol] = {}
        for base in held:
            rows = base.args[1]
            if isinstance(rows, Symbol) and sizes.is_many(rows):
                drawn.setdefault(id(rows), base)
        arrays = {id(base.args[0]) for base in held}
        if len(drawn) > 1 and len(arrays) > 1:
            keys = [base.args[1] for base in drawn.values()]
            # The same rows, sorted or moved, are the same rows.
            ends = [{id(one) for one in formulas.parts(rows, False, False) if _is_draw(one)} for rows in keys]
            if all(ends) and len({frozenset(one) for one in ends}) > 1:
                # The fewer are those that do not belong to the others.
                often = {mark: sum(id(one.args[1]) == mark for one in {id(each): each for each in held}.values()) for mark in drawn}
                for base in sorted(drawn.values(), key=lambda one: often[id(one.args[1])]):
                    yield (
                        "COD132",
                        _spot(
                            formulas.written(base) or base.node,
                            "parts of one batch are read at rows that were drawn apart: rewards of one transition beside observations of another",
                            "draw the rows once",
                        ),
                    )
                    break


def _is_draw(value: Symbol) -> bool:
    return called(value) in ("randint", "integers", "choice", "randperm", "permutation", "sample", "choices", "shuffle")


# ── units ──


def _scaled_by_bounds(value: Value, depth: int = 14) -> Symbol | None:
    """The product with the bounds of an action space that a value went through, on its way from a network."""
    if not isinstance(value, Symbol) or depth == 0 or value.op in ("out", "dist", "net", "env"):
        return None
    if value.op in ("Mult", "Div") and len(value.args) == 2:
        for one, other in (value.args, value.args[::-1]):
            if is_bound(other) and _inner(one):
                return value
    if value.op == "phi":
        return next((found for each in value.args[1:] if (found := _scaled_by_bounds(each, depth - 1)) is not None), None)
    if value.op in ("Add", "Sub", "USub") or called(value) in (*formulas.PASSING, "tanh"):
        return next((found for each in value.args[:2] if (found := _scaled_by_bounds(each, depth - 1)) is not None), None)
    if value.op in ("read", "column", "sampled", "element", "carried", "put", "item"):
        held = experience.latest(value)
        return next((found for each in held if each is not value and (found := _scaled_by_bounds(each, depth - 1)) is not None), None)
    return None


def is_bound(value: Value) -> bool:
    return any(
        part.op == "attribute" and part.data in ("high", "low") for part in formulas.parts(value, into_networks=False, into_arrays=False)
    ) and not _inner(value)


def _units_apart(script: Script) -> Iterator[tuple[str, Spot]]:
    """Actions of one policy, scaled to the bounds of their space in one place and not in another."""
    acted: dict[int, list[tuple[Event, Symbol | None]]] = {}
    for event in experience.env_steps(script):
        assert isinstance(event.value, Symbol)
        action = event.value.args[1]
        actors = list(_inner(action))
        if actors and not any(called(part) in ("argmax", "max") for part in formulas.parts(action, False, False)):
            top = root(actors[-1].args[0])
            acted.setdefault(id(top), []).append((event, _scaled_by_bounds(action)))
    for events in acted.values():
        scaled = [event for event, how in events if how is not None]
        raw = [event for event, how in events if how is None]
        if scaled and raw and not any(_inside(how, event) for event in raw for _, how in events if how is not None):
            for event in raw:
                yield (
                    "COD552",
                    _spot(
                        event.node,
                        "this step gets the policy's answer as it is, and another one gets it scaled to the bounds of the action space",
                        "the same scale in every step",
                    ),
                )
    for each in differences(script):
        stored = [leaf for out in each.answers for leaf in leaves(out) if not holds_answer(leaf) and is_action(script, leaf)]
        fresh = [leaf for out in each.futures for leaf in leaves(out) if holds_answer(leaf)]
        if not stored or not fresh:
            continue
        kept = next((found for leaf in stored if (found := _scaled_by_bounds(leaf)) is not None), None)
        if kept is not None and not any(scaled_anywhere(leaf) for leaf in fresh):
            for where in (kept.site or kept.node, *formulas.bound_at(execution(script), kept), *_stored_at(script, kept)):
                yield (
                    "COD552",
                    _spot(
                        where,
                        "the action is stored as the environment gets it, scaled to its bounds; the target's critics are asked about actions that are not",
                        "store what the policy answered",
                    ),
                )


def _stored_at(script: Script, action: Symbol) -> list[ast.AST]:
    found = experience.stored_at(script, action)
    return [found] if found is not None else []


def _inside(part: Symbol, event: Event) -> bool:
    assert isinstance(event.value, Symbol)
    return any(each is part for each in formulas.parts(event.value.args[1], False, False))


def scaled_anywhere(value: Value) -> bool:
    """Whether bounds take part in an action in any way, a clip apart."""
    return any(
        part.op in ("Mult", "Div") and any(is_bound(each) or is_buffer(each) for each in part.args) for part in formulas.parts(value)
    )


def is_buffer(value: Value) -> bool:
    return (
        isinstance(value, Symbol)
        and value.op == "attribute"
        and any(word in str(value.data) for word in ("scale", "limit", "bound", "high", "max"))
    )


def _law(id: str) -> Callable[[Script], Iterator[Spot]]:
    def meaning(script: Script) -> Iterator[Spot]:
        found: list[tuple[str, Spot]] = script.once("wrong questions", lambda: list(wrong_questions(script)))
        for law, spot in found:
            if law == id:
                yield spot

    return meaning


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    id: (_law(id),) for id in ("COD132", "COD406", "COD501", "COD502", "COD512", "COD516", "COD517", "COD523", "COD533", "COD551", "COD552")
}
"""What is added to which check."""
