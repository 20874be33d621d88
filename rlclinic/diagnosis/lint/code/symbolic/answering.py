"""Laws of networks: what bounds their answers, how parts of them add up, which of them learn, and how slow ones follow."""

# ruff: noqa: E501 — a message reads best whole

import ast
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.lint.code.reading.script import Script, Spot
from rlclinic.diagnosis.lint.code.symbolic import collecting, differences, experience, formulas, sizes
from rlclinic.diagnosis.lint.code.symbolic.execution import OPTIMIZERS, Event, Execution, Items, Record, Symbol, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called, execution, gradient, number, outputs_in, root, terms

_BOUNDED: Final = {
    "ReLU": "no value can be below 0", "Relu": "no value can be below 0", "Softmax": "values add up to 1", "Sigmoid": "values lie between 0 and 1",
    "Tanh": "values lie between -1 and 1",
}  # fmt: skip
_ONE_SIDED: Final = frozenset({"rand", "rand_like", "random", "random_sample"})
_SQUASHING: Final = frozenset({"tanh", "sigmoid", "clamp", "clip", "minimum", "softsign", "hardtanh", "clamp_", "clip_", "sin"})
_TAU: Final = 0.005


def _spot(where: ast.AST | None, text: str, fix: str = "") -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix)


# ── bounds ──


def bounded_answers(script: Script) -> Iterator[tuple[str, Spot]]:
    """A network of values whose last layer bounds them, in the script's own class or not."""
    seen: set[int] = set()
    for each in differences.differences(script):
        for out in each.futures:
            network = out.args[0]
            if not isinstance(network, Symbol):
                continue
            layers = network.args if network.data == "Sequential" else ()
            if len(layers) == 1 and isinstance(layers[0], Items):
                layers = tuple(layers[0].items)
            # nn.Sequential(*layers[:-1]): the last one is left out.
            cut = any(isinstance(part, ast.Starred) and isinstance(part.value, ast.Subscript) for part in getattr(network.node, "args", ()))
            last = layers[-1] if layers and not cut else None
            if isinstance(last, Symbol) and str(last.data) in _BOUNDED and id(last.node) not in seen and _values_taken(each, out):
                seen.add(id(last.node))
                for where in (last.node, network.node):
                    if where is not None:
                        yield (
                            "COD531",
                            _spot(
                                where,
                                f"the network of values ends in {last.data}: {_BOUNDED[str(last.data)]}, whatever the returns are",
                                "no such layer",
                            ),
                        )


def _values_taken(each: differences.Difference, out: Symbol) -> bool:
    """Whether the answer itself is the value: nothing is computed of it but a choice."""
    for value in (each.target, *each.where.args[:2]):
        pending: list[Value] = [factor for term in terms(value) for factor in term.factors]
        seen = 0
        while pending and seen < 60:
            seen += 1
            current = differences.bare(pending.pop())
            if current is out:
                return True
            if isinstance(current, Symbol) and (
                called(current) in ("gather", "max", "amax", "min", "minimum", "amin", "take_along_dim")
                or current.op in ("item", "attribute")
            ):
                pending += [one for arg in current.args[:2] for one in (arg.items if isinstance(arg, Items) else [arg])]
            elif isinstance(current, Symbol) and current.op == "Sub":
                pending += current.args
    return False


def one_sided_noise(script: Script) -> Iterator[tuple[str, Spot]]:
    """What is added to an action is never below 0."""
    run = execution(script)
    seen: set[int] = set()
    acted = [event.value.args[1] for event in experience.env_steps(script) if isinstance(event.value, Symbol)]
    asked = [leaf for each in differences.differences(script) for out in each.futures for leaf in differences.leaves(out)]
    for action in (*acted, *asked):
        for part in formulas.parts(action, into_networks=False, into_arrays=False):
            if part.op != "Add" or len(part.args) != 2 or id(part) in seen:
                continue
            seen.add(id(part))
            for noise, mean in (part.args, part.args[::-1]):
                drawn = [one for one in formulas.parts(noise, False, False) if _is_one_sided(one)]
                answers = [one for one in formulas.parts(mean, into_arrays=False) if one.op == "out"]
                centred = any(
                    one.op in ("Sub", "USub")
                    or called(one) in ("normal", "randn", "randn_like", "standard_normal", "sub", "sub_")
                    or (number(one) or 0) < 0
                    for one in formulas.parts(noise, False, False)
                    if not _within_clip(one, noise)
                )
                if drawn and answers and not centred and not any(one.op in ("out", "dist") for one in formulas.parts(noise, False, False)):
                    for where in (drawn[0].node, part.node, *formulas.bound_at(run, noise)[:1]):
                        yield (
                            "COD554",
                            _spot(
                                where,
                                "the noise on the action is never below 0: it pushes every action to the same side",
                                "noise around 0: randn_like",
                            ),
                        )


def _is_one_sided(value: Symbol) -> bool:
    name = called(value)
    if name in _ONE_SIDED:
        return True
    low = (value.args[-2] if len(value.args) > 1 else None) if name == "uniform" else None
    return low is not None and number(low) is not None and (number(low) or 0.0) >= 0


def _within_clip(one: Symbol, noise: Value) -> bool:
    """A bound of a clip: -c of clamp(-c, c)."""
    return any(
        called(part) in ("clamp", "clip", "clamp_") and any(each is one for each in part.args[1:])
        for part in formulas.parts(noise, False, False)
    )


def half_of_the_actions(script: Script) -> Iterator[tuple[str, Spot]]:
    """clip(action, 0, limit) of what lies between -limit and limit; noise that multiplies an action."""
    for event in collecting.training_steps(script):
        assert isinstance(event.value, Symbol)
        for part in formulas.parts(event.value.args[1], into_networks=False, into_arrays=False):
            if called(part) in ("clip", "clamp") and len(part.args) == 3 and number(part.args[1]) == 0 and _answers(part.args[0]):
                squashed = [
                    one
                    for one in formulas.parts(part.args[0])
                    if called(one) == "tanh"
                    or (one.op == "net" and any(isinstance(each, Symbol) and each.data == "Tanh" for each in one.args[-1:]))
                ]
                if squashed and number(part.args[2]) not in (1,):
                    yield (
                        "COD530",
                        _spot(
                            part.node,
                            "actions below 0 are cut off, though the policy answers on both sides of it",
                            "clip(action, -limit, limit)",
                        ),
                    )
            noise = [
                each
                for each in part.args
                if part.op == "Mult"
                and any(called(one) in ("randn", "standard_normal", "randn_like") for one in formulas.parts(each, False, False))
                and not _answers(each)
            ]
            if noise and any(_answers(each) for each in part.args):
                yield (
                    "COD554",
                    _spot(
                        part.node,
                        "the noise multiplies the action: where the policy answers 0 nothing is tried, and the sign is thrown",
                        "action + noise",
                    ),
                )


def _answers(value: Value) -> bool:
    return any(part.op == "out" for part in formulas.parts(value, into_arrays=False))


def unsquashed_actor(script: Script) -> Iterator[tuple[str, Spot]]:
    """An answer that is scaled to the bounds of an action space, and that nothing keeps within -1 and 1."""
    seen: set[int] = set()
    asked = [
        leaf
        for each in differences.differences(script)
        for out in each.futures
        for leaf in differences.leaves(out)
        if differences.holds_answer(leaf)
    ]
    for leaf in asked:
        for part in formulas.parts(leaf, into_arrays=False):
            if part.op != "Mult" or len(part.args) != 2 or id(part.node) in seen:
                continue
            for one, scale in (part.args, part.args[::-1]):
                linear = _linear(one)
                if linear is not None and (differences.is_bound(scale) or differences.is_buffer(scale)):
                    seen.add(id(part.node))
                    for where in (part.node, linear.node):
                        yield (
                            "COD530",
                            _spot(
                                where,
                                "the answer is scaled to the bounds of the action space, and nothing keeps it within -1 and 1: actions lie far outside",
                                "tanh before it is scaled",
                            ),
                        )


def _linear(value: Value) -> Symbol | None:
    """The answer of a linear layer, as it is."""
    inner = differences.bare(value)
    if isinstance(inner, Symbol) and inner.op == "out" and isinstance(inner.args[0], Symbol):
        network = inner.args[0]
        if network.data == "Linear":
            return inner
        if network.data == "Sequential" and network.args and isinstance(network.args[-1], Symbol) and network.args[-1].data == "Linear":
            return inner
    return None


# ── parts of networks ──


def dueling(script: Script) -> Iterator[tuple[str, Spot]]:
    """value + advantages - their mean: each with its sign, and none less itself."""
    for each in execution(script).sums:
        if each.op == "Sub" and len(each.args) == 2:
            plain = _plain(each)
            for sign, value in plain:
                twin = any(other is value and opposite == -sign for opposite, other in plain)
                # A difference of two formulas may well lose what both hold.
                if (
                    twin
                    and differences.bare(each.args[1]) is value
                    and sign > 0
                    and isinstance(value, Symbol)
                    and value.op in ("out", "read", "stepped")
                ):
                    yield "COD555", _spot(each.node, "a quantity is subtracted from itself: nothing of it is left", "less its mean")
        if each.op not in ("Add", "Sub"):
            continue
        means = [
            term for term in _plain(each) if term[0] < 0 and called(term[1]) == "mean" and isinstance(term[1], Symbol) and term[1].args
        ]
        for _, mean in means:
            assert isinstance(mean, Symbol)
            own = differences.bare(mean.args[0])
            others = [(sign, value) for sign, value in _plain(each) if value is not mean and differences.bare(value) is not own]
            advantages = [sign for sign, value in _plain(each) if differences.bare(value) is own]
            values = [sign for sign, value in others if isinstance(differences.bare(value), Symbol) and differences.bare(value).op == "out"]  # type: ignore[union-attr]
            if isinstance(own, Symbol) and own.op == "out" and advantages and values and (values[0] < 0 or advantages[0] < 0):
                yield (
                    "COD555",
                    _spot(
                        each.node,
                        "the parts of a dueling network have the wrong sign: one of them lowers what it should raise",
                        "value + advantage - advantage.mean(…)",
                    ),
                )


def _plain(value: Value, sign: int = 1, depth: int = 6) -> list[tuple[int, Value]]:
    """The summands of a sum, as they are written."""
    if isinstance(value, Symbol) and value.op in ("Add", "Sub") and len(value.args) == 2 and depth:
        return _plain(value.args[0], sign, depth - 1) + _plain(value.args[1], sign if value.op == "Add" else -sign, depth - 1)
    if isinstance(value, Symbol) and value.op == "USub" and depth:
        return _plain(value.args[0], -sign, depth - 1)
    return [(sign, value)]


def pairs_for_entries(script: Script) -> Iterator[tuple[str, Spot]]:
    """q[:, actions]: every row with every action, where each row's own one is meant."""
    for each in differences.differences(script):
        for part in [part for side in each.where.args[:2] for part in formulas.parts(side, into_networks=False, into_arrays=False)]:
            index = part.args[1] if part.op == "item" and len(part.args) > 1 else None
            if not isinstance(index, Items) or len(index.items) != 2 or not outputs_in(part.args[0], stored=False):
                continue
            rows, columns = index.items
            whole = (
                isinstance(rows, Symbol)
                and rows.op == "slice"
                and isinstance(rows.data, ast.Slice)
                and rows.data.lower is None
                and rows.data.upper is None
            )
            many = differences.bare(columns)
            if (
                whole
                and isinstance(many, Symbol)
                and (differences.is_action(script, many) or called(many) == "argmax")
                and number(many) is None
            ):
                for where in (part.node, each.where.node):
                    yield (
                        "COD601",
                        _spot(
                            where,
                            "this takes every row with every action: a square [N, N], where each row's own action is meant",
                            ".gather(1, actions[:, None])",
                        ),
                    )


# ── which learn ──


def twin_forgotten(script: Script) -> Iterator[tuple[str, Spot]]:
    """Two critics answer in a target, and only one of them is ever trained."""
    run = execution(script)
    if not run.complete:
        return
    found = differences.differences(script)
    trained = {id(out.args[0]) for each in found for out in each.answers}
    for each in found:
        sources = [_source(run, out.args[0]) for out in each.futures]
        known = {id(source): source for source in sources if source is not None}
        idle = [source for source in known.values() if id(source) not in trained]
        if len(known) > 1 and idle and len(idle) < len(known):
            text = "two critics answer in the target, and only one of them is trained on it: the other one keeps its first weights, and the smaller value is often its"
            losses = [
                event
                for event in formulas.backwards(run)
                if event.value is not None and any(part is each.where for part in formulas.parts(event.value, False, False))
            ]
            returned = [node for event in losses for node in formulas.bound_at(run, event.value) if isinstance(node, ast.Return)]  # type: ignore[arg-type]
            for where in (each.where.node, *[event.node for event in losses], *returned[:1]):
                yield "COD539", _spot(where, text, "the error of both")


def _source(run: Execution, network: Value) -> Symbol | None:
    """The network that a slow one was made of, part by part."""
    if not isinstance(network, Symbol) or network.op != "net":
        return None
    if isinstance(network.copy_of, Symbol):
        return network.copy_of
    top = root(network)
    copy = next((each for each in formulas.copies(run) if each.network is top), None)
    if copy is None:
        return None
    if isinstance(copy.network, Record) and isinstance(copy.source, Record):
        name = next((name for name, held in copy.network.attributes.items() if held is network), None)
        found = copy.source.attributes.get(name) if name else None
        return found if isinstance(found, Symbol) else None
    return copy.source if isinstance(copy.source, Symbol) else None


def scored_on_data(script: Script) -> Iterator[tuple[str, Spot]]:
    """The critic's part of an actor's loss is about stored actions: it says nothing about the actor."""
    run = execution(script)
    critics = {id(root(out.args[0])) for each in differences.differences(script) for out in each.answers}
    for event in formulas.backwards(run):
        if event.value is None or not critics:
            continue
        held = terms(event.value)
        drawn = [term for term in held if any(_is_log_prob(one) and _learns_outside(one, critics) for one in term.factors)]
        bare = [
            (term, out)
            for term in held
            for one in term.factors
            if not _is_error(one)
            for out in outputs_in(one, stored=False)
            if id(root(out.args[0])) in critics
        ]
        errors = any(
            _is_error(one) and any(id(root(out.args[0])) in critics for out in outputs_in(one, stored=False))
            for term in held
            for one in term.factors
        )
        acts = any(
            differences.is_action(script, leaf) for _, out in bare for leaf in differences.leaves(out) if not differences.holds_answer(leaf)
        )
        if not drawn or not bare or errors or not acts:
            continue
        if all(not _learns_outside(leaf, critics) for _, out in bare for leaf in differences.leaves(out)) and all(
            not differences.holds_answer(leaf) for _, out in bare for leaf in differences.leaves(out)
        ):
            for term, out in bare[:1]:
                for where in (formulas.written(out), term.node):
                    yield (
                        "COD528",
                        _spot(
                            where,
                            "the critic is asked about stored actions in the actor's loss: what it says does not depend on the actor",
                            "the action that the actor has just drawn",
                        ),
                    )


def _is_log_prob(value: Value) -> bool:
    return any(
        called(part) in ("log_prob", "log_softmax", "entropy") for part in formulas.parts(value, into_networks=False, into_arrays=False)
    )


def _is_error(value: Value) -> bool:
    return any(
        called(part) in (*sizes.SQUARES, "pow", "square") or part.op == "Pow"
        for part in formulas.parts(value, into_networks=False, into_arrays=False)
    )


def _learns_outside(value: Value, critics: set[int]) -> bool:
    return any(id(root(each)) not in critics for each in gradient(value))


def steps_of_another(script: Script) -> Iterator[tuple[str, Spot]]:
    """An optimizer that never steps: where the loss that it should step for is behind, and another one steps."""
    run = execution(script)
    if not run.complete:
        return
    stepped = {id(event.subject) for event in run.events if event.name == "optimizer step"}
    cleared = {id(event.subject) for event in run.events if event.name == "optimizer zero_grad" and event.loops}
    for optimizer in run.optimizers:
        if id(optimizer) in stepped or id(optimizer) not in cleared or not stepped:
            continue
        own = [id(root(each)) for each in formulas.parameters(optimizer)]
        for event in formulas.backwards(run):
            if event.value is not None and any(id(root(each)) in own for each in gradient(event.value)):
                after = run.events.index(
                    next((each for each in run.events if each.node is event.node and each.name == "backward"), run.events[0])
                )
                step = next((each for each in run.events[after:] if each.name == "optimizer step"), None)
                for where in (event.node, step.node if step is not None and step.loops == event.loops else None):
                    if where is not None:
                        yield (
                            "COD404",
                            _spot(
                                where,
                                "the optimizer that holds these weights never steps: nothing is learned from this loss",
                                "its own optimizer.step()",
                            ),
                        )
                break


def loss_of_another(script: Script) -> Iterator[tuple[str, Spot]]:
    """A loss in which critics answer, and after which an optimizer steps that holds nothing of what the loss reaches."""
    run = execution(script)
    if not run.complete or differences.hands_gradients_over(script):
        return
    seen: set[ast.AST] = set()
    for place, event in enumerate(run.events):
        if event.name != "backward" or event.value is None or event.node in seen or isinstance(event.value, Items):
            continue
        seen.add(event.node)
        after = next((each for each in run.events[place + 1 :] if each.name in ("backward", "optimizer step")), None)
        reached = gradient(event.value)
        if (
            after is None
            or after.name != "optimizer step"
            or not reached
            or not isinstance(after.subject, Symbol)
            or after.loops != event.loops
        ):
            continue
        held = formulas.parameters(after.subject)
        known = held and all(isinstance(one, Record | Symbol) and (isinstance(one, Record) or one.op in ("net", "weights")) for one in held)
        if not known or any(
            formulas.holds(one, each) or formulas.holds(one, root(each)) or formulas.holds(root(each) or each, one)
            for one in held
            for each in reached
        ):
            continue
        answers = [part for part in formulas.parts(event.value, into_arrays=False) if part.op == "out" and not part.free]
        for where in {
            id(node): node for node in (formulas.written(answers[0]) if answers else None, event.node) if node is not None
        }.values():
            yield (
                "COD528",
                _spot(
                    where,
                    "this loss reaches none of the weights that its optimizer holds: the step that follows changes nothing",
                    "ask about the action that the trained actor answers",
                ),
            )


def never_cleared(script: Script) -> Iterator[tuple[str, Spot]]:
    """One of several optimizers steps without its gradients ever being cleared; the others clear theirs."""
    run = execution(script)
    if not run.complete or any(event.name == "clear" for event in run.events):
        return
    cleared = {id(event.subject) for event in run.events if event.name == "optimizer zero_grad"}
    stepped: dict[int, Event] = {id(event.subject): event for event in run.events if event.name == "optimizer step" and event.loops}
    for at, step in stepped.items():
        if at in cleared or not cleared or not isinstance(step.subject, Symbol) or step.subject.op != "optimizer":
            continue
        same = any(id(each) in cleared for each in run.optimizers if each.node is step.subject.node)
        place = next((at for at, event in enumerate(run.events) if event is step), 0)
        before = next((event for event in reversed(run.events[:place]) if event.name == "backward"), None)
        for where in (before.node if before is not None else None, step.node) if not same else ():
            if where is not None:
                yield (
                    "COD401",
                    _spot(
                        where,
                        "the gradients of this optimizer's weights are never cleared: each step takes all those before it, too",
                        "optimizer.zero_grad() before backward",
                    ),
                )


def spent_iterator(script: Script) -> Iterator[tuple[str, Spot]]:
    """params = chain(…), walked over once before the optimizer gets it: nothing is left."""
    for made in script.all(ast.Assign):
        value = made.value
        name = made.targets[0].id if isinstance(made.targets[0], ast.Name) else ""
        called_for = (
            value.func.attr
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
            else value.func.id
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
            else ""
        )
        if not name or not (
            called_for in ("chain", "parameters", "named_parameters", "filter", "map", "from_iterable")
            or isinstance(value, ast.GeneratorExp)
        ):
            continue
        holder = script.scope(made)
        used = [
            each
            for each in script.all(ast.Name)
            if each.id == name
            and isinstance(each.ctx, ast.Load)
            and script.scope(each) in (holder, script.scope(each))
            and each.lineno > made.lineno
        ]
        handed = [each for each in used if isinstance(call := script.parents.get(each), ast.Call) and script.last(call) in OPTIMIZERS]
        walked = [
            each
            for each in used
            if handed
            and each.lineno < handed[0].lineno
            and isinstance(script.parents.get(each), ast.comprehension | ast.For | ast.Call)
            and each not in handed
        ]
        again = [
            one for one in script.all(ast.Assign) if one is not made and isinstance(one.targets[0], ast.Name) and one.targets[0].id == name
        ]
        for where in (walked[0], handed[0], made) if walked and not again else ():
            yield (
                "COD406",
                _spot(
                    where,
                    f"`{name}` can be walked over once, and was before the optimizer got it: the optimizer holds no weights",
                    f"{name} = list({ast.unparse(value)})",
                ),
            )


def critics_fit_each_other(script: Script) -> Iterator[tuple[str, Spot]]:
    """(q2 - q1) ** 2: both sides are trained answers about the same thing."""
    found = differences.differences(script)
    critics = {id(out.args[0]) for each in found for out in each.answers}
    for event in formulas.backwards(execution(script)) if found else ():
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            sides: list[Value] = []
            if called(part) in sizes.SQUARES and len(part.args) > 1:
                sides = list(part.args[:2])
            elif (
                (part.op == "Pow" or called(part) in ("pow", "square"))
                and part.args
                and isinstance(part.args[0], Symbol)
                and part.args[0].op == "Sub"
            ):
                sides = list(part.args[0].args)
            bare = [differences.bare(each) for each in sides]
            if len(bare) == 2 and all(isinstance(each, Symbol) and each.op == "out" and not each.free for each in bare):
                one, other = bare
                assert isinstance(one, Symbol)
                assert isinstance(other, Symbol)
                if (
                    one.args[0] is not other.args[0]
                    and {id(one.args[0]), id(other.args[0])} & critics
                    and gradient(one)
                    and gradient(other)
                ):
                    yield (
                        "COD539",
                        _spot(
                            formulas.written(part),
                            "one critic is trained on the answer of the other: what happened says nothing in this error",
                            "the target",
                        ),
                    )


def summed_log_probs(script: Script) -> Iterator[tuple[str, Spot]]:
    """log_prob(actions).sum() of a batch, beside a value for each row."""
    for each in differences.differences(script):
        if not any(base.op in ("read", "column", "sampled") for out in each.futures for base in differences.bases(out)):
            continue
        for part in formulas.parts(each.target, into_networks=False, into_arrays=False):
            if (
                called(part) == "sum"
                and part.op == "method"
                and len(part.args) == 1
                and not part.keys
                and called(differences.bare(part.args[0])) == "log_prob"
            ):
                yield (
                    "COD211",
                    _spot(
                        part.node,
                        "the log-probabilities of the whole batch are summed to one number: every row gets that of all of them",
                        ".sum(-1)",
                    ),
                )


# ── slow copies ──


def slow_copy_left(script: Script) -> Iterator[tuple[str, Spot]]:
    """A copy that answers inside of a target, an actor for one, and gets no new weights, while others do."""
    from rlclinic.diagnosis.lint.code.symbolic import semantics

    run = execution(script)
    updates = semantics.updates(run)
    fresh = [into for _, into, _, later in updates if later]
    if not run.complete or not fresh:
        return
    copies = formulas.copies(run)
    for each in differences.differences(script):
        for out in [
            part
            for one in each.futures
            for leaf in differences.leaves(one)
            for part in formulas.parts(leaf, into_arrays=False)
            if part.op == "out"
        ]:
            top = root(out.args[0])
            copy = next((one for one in copies if one.network is top), None)
            if copy is None or any(
                one is top or formulas.holds(one, top) or (isinstance(top, Record) and formulas.holds(top, one)) for one in fresh
            ):
                continue
            around = [collecting.enclosing(script, node, ast.For) for node, _, _, later in updates if later]
            for where in (formulas.written(out), *[loop for loop in around if loop is not None]):
                yield (
                    "COD506",
                    _spot(
                        where,
                        "one of the slow copies gets no new weights, and the others do: its part of the target is that of the first step",
                        "every copy follows its network",
                    ),
                )
            return


def blends(script: Script) -> Iterator[tuple[str, Spot]]:
    """slow = (1 - tau) * slow + tau * fast: the two shares add up to 1."""
    run = execution(script)
    slow = [copy.network for copy in formulas.copies(run)]
    shares: dict[int, tuple[float, float]] = {}
    last: dict[int, Event] = {}
    applied: dict[int, tuple[float, float]] = {}
    unknown: set[int] = set()
    for event in run.events:
        if not isinstance(event.value, Symbol) or not (event.name.startswith("in place ") or event.name in ("set data", "update")):
            continue
        entry = _entry(event.subject)
        into = formulas.state_of(entry) if entry is not None else None
        if entry is None or into is None or not event.loops:
            continue
        before = shares.get(id(entry), (1.0, 0.0))
        after = _share(event.value, entry, before, applied)
        if after is None:
            unknown.add(id(entry))
        else:
            # old.mul_(…).add_(…): the second one is done to what the first one left.
            shares[id(entry)] = applied[id(event.value)] = after
        last[id(entry)] = event
    said: set[int] = set()
    for at, (own, other) in shares.items():
        event = last[at]
        line = getattr(event.node, "lineno", 0)
        into = formulas.state_of(event.subject)
        trained = (
            into is not None
            and not any(formulas.holds(into, each) for each in slow)
            and any(formulas.holds(into, one) or formulas.holds(one, into) for each in run.optimizers for one in formulas.parameters(each))
        )
        if trained and slow and at not in unknown and other == 0 and 0 <= own < 1 and line not in said:
            said.add(line)
            yield (
                "COD534",
                _spot(
                    event.node,
                    "the weights that are trained are made smaller with every update of the slow copy, which keeps all of its own",
                    "the slow copy's own weights",
                ),
            )
            continue
        if (
            at in unknown
            or line in said
            or other == 0
            or abs(own + other - 1) < 1e-6
            or into is None
            or not any(formulas.holds(into, each) for each in slow)
        ):
            continue
        said.add(line)
        grows = "grow" if own + other > 1 else "shrink"
        loop = collecting.enclosing(script, event.node, ast.For)
        for where in (event.node, loop) if loop is not None else (event.node,):
            yield (
                "COD527",
                _spot(
                    where,
                    f"the shares of the slow copy and of the network add up to {own + other:.3g}, not to 1: the copy's weights {grows} with every update",
                    "(1 - tau) * slow + tau * net",
                ),
            )


def _entry(value: Value) -> Symbol | None:
    """One of the weights of a network, as a loop over them gives it."""
    while isinstance(value, Symbol) and value.args:
        if (value.op == "attribute" and value.data == "data") or (value.op == "method" and str(value.data).endswith("_")):
            value = value.args[0]
        else:
            break
    return value if isinstance(value, Symbol) and value.op in ("element", "item") else None


def _number(value: Value) -> float | None:
    known = formulas.evaluated(value)
    if known is not None:
        return known
    if isinstance(value, Symbol):
        if value.op in ("Sub", "Add", "Mult", "Div") and len(value.args) == 2:
            one, other = _number(value.args[0]), _number(value.args[1])
            if one is None or other is None or (value.op == "Div" and other == 0):
                return None
            return float(formulas.OPERATORS[value.op](one, other))
        if formulas.is_scalar(value):
            return _TAU
    return None


def _share(
    value: Value, entry: Symbol, before: tuple[float, float], applied: dict[int, tuple[float, float]], depth: int = 12
) -> tuple[float, float] | None:
    """How much of the copy's own weights, and of another network's, a value is made of; a name for a share counts as a small one."""
    if not isinstance(value, Symbol) or depth == 0:
        return None

    def inner(each: Value) -> tuple[float, float] | None:
        return _share(each, entry, before, applied, depth - 1)

    def plus(one: tuple[float, float] | None, other: tuple[float, float] | None, times: float = 1.0) -> tuple[float, float] | None:
        return None if one is None or other is None else (one[0] + times * other[0], one[1] + times * other[1])

    if value is entry:
        return before
    if id(value) in applied:
        return applied[id(value)]
    if value.op in ("element", "item") and formulas.state_of(value) is not None:
        return 0.0, 1.0
    if value.op == "attribute" and value.data == "data":
        return inner(value.args[0])
    name = called(value)
    if name in ("detach", "clone", "to", "cpu", "float"):
        return inner(value.args[0])
    if value.op == "USub":
        return plus((0.0, 0.0), inner(value.args[0]), -1.0)
    if value.op in ("Add", "Sub") and len(value.args) == 2:
        return plus(inner(value.args[0]), inner(value.args[1]), 1.0 if value.op == "Add" else -1.0)
    product = value.op == "Mult" or name in ("mul_", "mul")
    if product and len(value.args) == 2:
        for one, other in (value.args, value.args[::-1]):
            times, weights = _number(one), inner(other)
            if times is not None and weights is not None:
                return plus((0.0, 0.0), weights, times)
        return None
    if name in ("add_", "add", "sub_", "sub") and len(value.args) == 2:
        alpha = _number(value.keys["alpha"]) if "alpha" in value.keys else 1.0
        return None if alpha is None else plus(inner(value.args[0]), inner(value.args[1]), alpha if name.startswith("add") else -alpha)
    if name in ("lerp_", "lerp") and len(value.args) == 3:
        weight = _number(value.args[2])
        return None if weight is None else plus(plus((0.0, 0.0), inner(value.args[0]), 1 - weight), inner(value.args[1]), weight)
    if name == "copy_" and len(value.args) == 2:
        return inner(value.args[1])
    return None


_LAWS: Final = (
    bounded_answers, one_sided_noise, half_of_the_actions, unsquashed_actor, dueling, pairs_for_entries, twin_forgotten, scored_on_data, steps_of_another, loss_of_another, never_cleared, spent_iterator, critics_fit_each_other, summed_log_probs,
    slow_copy_left, blends,
)  # fmt: skip


def _law(id: str) -> Callable[[Script], Iterator[Spot]]:
    def meaning(script: Script) -> Iterator[Spot]:
        found: list[tuple[str, Spot]] = script.once("laws of networks", lambda: [each for law in _LAWS for each in law(script)])
        for law, spot in found:
            if law == id:
                yield spot

    return meaning


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    id: (_law(id),)
    for id in (
        "COD211",
        "COD401",
        "COD404",
        "COD406",
        "COD506",
        "COD534",
        "COD527",
        "COD528",
        "COD530",
        "COD531",
        "COD539",
        "COD554",
        "COD555",
        "COD601",
    )
}
"""What is added to which check."""
