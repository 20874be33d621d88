"""What checks say of a script's distributions and critics, by what they are made of (`formulas`): scores, scales, corrections, bounds."""

# ruff: noqa: E501, SIM102 — a message reads best whole

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot
from rlclinic.diagnosis.lint.code.symbolic import differences, experience, formulas, learning, sizes
from rlclinic.diagnosis.lint.code.symbolic.execution import Execution, Items, Symbol, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called, execution, gradient, outputs_in, role, root, terms

_CHOICES: Final = frozenset({"Categorical", "OneHotCategorical", "OneHotCategoricalStraightThrough"})
_MOVING: Final = frozenset({"squeeze", "unsqueeze", "view", "reshape", "float", "to", "cpu", "double", "contiguous", "flatten", "clone"})
_BOUNDED: Final = {
    "relu": "no value can be below 0", "softmax": "values add up to 1", "sigmoid": "values lie between 0 and 1",
    "tanh": "values lie between -1 and 1",
}  # fmt: skip
_LAYERS: Final = {"ReLU": "relu", "Softmax": "softmax", "Sigmoid": "sigmoid", "Tanh": "tanh"}


def _spot(where: ast.AST | None, text: str, fix: str = "") -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix)


def _bare(value: Value | None) -> Value | None:
    """A value before it was given another shape."""
    while isinstance(value, Symbol) and called(value) in _MOVING and value.args:
        value = value.args[0]
    return value


def _last_layer(network: Value) -> str:
    """What a network ends in: Linear, Softmax, …; "" where that is not seen."""
    while isinstance(network, Symbol) and network.op == "net":
        if network.data != "Sequential":
            return str(network.data)
        if not network.args:
            return ""
        network = network.args[-1]
    return ""


def _given(dist: Symbol, name: str, place: int) -> Value | None:
    positional = len(dist.args) - len(dist.keys)
    return dist.keys.get(name) or (dist.args[place] if place < positional else None)


# ── scores and probabilities ──


def scores_as_probabilities(script: Script) -> Iterator[Spot]:
    for dist in execution(script).dists:
        value = _bare(_given(dist, "probs", 0)) if dist.data in _CHOICES else None
        raw = isinstance(value, Symbol) and value.op == "out" and _last_layer(value.args[0]) in ("Linear", "Dense")
        if raw or called(value) == "log_softmax":  # type: ignore[arg-type]
            yield _spot(
                dist.node,
                "raw scores are given where probabilities are expected: some are below 0, and they do not add up to 1",
                "logits=…",
            )


def softmax_twice(script: Script) -> Iterator[Spot]:
    for dist in execution(script).dists:
        value = _bare(_given(dist, "logits", 1)) if dist.data in _CHOICES else None
        ends = isinstance(value, Symbol) and value.op == "out" and _last_layer(value.args[0]) == "Softmax"
        if ends or called(value) == "softmax":  # type: ignore[arg-type]
            yield _spot(
                dist.node,
                "probabilities are given where raw scores are expected: softmax is applied twice, and the policy stays near random",
                "probs=…",
            )


def softmax_over_the_batch(script: Script) -> Iterator[Spot]:
    for call in execution(script).calls:
        if called(call) not in ("softmax", "log_softmax") or not call.args or learning.axis(call) != 0:
            continue
        shape = sizes.shape(call.args[0])
        if shape is not None and len(shape) > 1 and outputs_in(call.args[0]):
            yield _spot(
                call.node, "softmax is taken over the batch, not over the actions: probabilities of a row do not add up to 1", "dim=-1"
            )


def scale_below_zero(script: Script) -> Iterator[Spot]:
    """A standard deviation that is what a linear layer says, or a parameter that begins at 0 or below."""
    for dist in execution(script).dists:
        value = _bare(_given(dist, "scale", 1)) if dist.data in ("Normal", "LogNormal") else None
        while isinstance(value, Symbol) and called(value) in ("expand", "expand_as", "repeat", "clamp", "clip", "broadcast_to"):
            lowest = formulas.number(value.keys.get("min") or (value.args[1] if len(value.args) > 1 else None))
            if called(value) in ("clamp", "clip") and (lowest is None or lowest >= 0):
                value = None
                break
            value = _bare(value.args[0])
        if not isinstance(value, Symbol):
            continue
        raw = value.op == "out" and _last_layer(value.args[0]) in ("Linear", "Dense")
        if raw or (value.op == "weights" and _begins_low(value)):
            yield _spot(
                dist.node,
                "the standard deviation of the policy can be 0 or below: nothing makes what the network says positive",
                "log_std.exp()",
            )


def _begins_low(weights: Symbol) -> bool:
    for given in weights.args:
        number = formulas.evaluated(given)
        held = list(formulas.parts(given, into_networks=False))
        if (number is not None and number <= 0) or any(each.op == "array" and each.data == "zeros" for each in held[:3]):
            return True
        if any(each.op == "USub" or (formulas.number(each) or 0.0) < 0 for each in held[:6]):
            return True
    return False


def correction_added(script: Script) -> Iterator[Spot]:
    """The correction for tanh has the wrong sign beside the log-probability."""
    for each in execution(script).sums:
        held = terms(each) if each.op in ("Add", "Sub") else []
        own = [term for term in held if len(term.factors) == 1 and called(_summed(term.factors[0])) == "log_prob"]
        if len(own) != 1:
            continue
        for term in held:
            for factor in term.factors:
                inner = factor.args[0] if called(factor) == "log" and isinstance(factor, Symbol) and factor.args else None
                shrinks = inner is not None and any(one.sign < 0 and any(_is_squared_tanh(x) for x in one.factors) for one in terms(inner))
                grows = called(factor) == "softplus"
                if (shrinks and term.sign == own[0].sign) or (grows and term.sign != own[0].sign):
                    yield _spot(
                        each.node, "the correction for tanh is added to the log-probability, where it must be subtracted", "log_prob -= …"
                    )


def _summed(value: Value) -> Value:
    while isinstance(value, Symbol) and called(value) in ("sum", "squeeze", "mean", "unsqueeze") and value.args:
        value = value.args[0]
    return value


def _is_squared_tanh(value: Value) -> bool:
    held = list(formulas.parts(value, into_networks=False))
    return any(each.op == "Pow" or called(each) in ("pow", "square") for each in held) and any(called(each) == "tanh" for each in held)


# ── critics ──


def bounded_values(script: Script) -> Iterator[Spot]:
    """A network of values whose code ends in a function that bounds them."""
    for target in formulas.targets(script):
        for factor in target.future.factors:
            best = _chosen_from(factor)
            asked = _bare(best.args[0]) if isinstance(best, Symbol) and called(best) in _BOUNDED and best.args else None
            if isinstance(best, Symbol) and isinstance(asked, Symbol) and asked.op == "out":
                name = called(best)
                yield _spot(best.node, f"the network of values ends in {name}: {_BOUNDED[name]}, whatever the returns are", "no such layer")


def _chosen_from(value: Value) -> Value:
    """What the best, the smaller or the taken one was chosen from."""
    while isinstance(value, Symbol) and value.args:
        if value.op == "array":
            break
        if (
            called(value) in ("max", "amax", "min", "amin", "gather", "detach", *_MOVING)
            or (value.op == "attribute" and value.data == "values")
            or value.op in ("item", "put")
        ):
            value = value.args[0]
        else:
            break
    if isinstance(value, Symbol) and value.op == "array" and value.stored:
        return _chosen_from(value.stored[-1])
    return value


def critic_of_detached_action(script: Script) -> Iterator[Spot]:
    """The critic's part of an actor's loss is about an action that was cut off from the actor."""
    run = execution(script)
    for loss in (way for event in formulas.backwards(run) for way in formulas.ways(event.value)):
        held = terms(loss)
        # A critic whose squared error is in the same loss is what that loss trains.
        taught = {
            id(root(out.args[0]))
            for term in held
            for factor in term.factors
            for part in formulas.parts(factor, into_networks=False, into_arrays=False)
            if called(part) in sizes.SQUARES
            for out in outputs_in(part.args[0])
        }
        for term in held:
            multiplied = any(part.op == "weights" for factor in term.factors if not outputs_in(factor) for part in formulas.parts(factor))
            if term.sign > 0 or multiplied:  # what a trained multiplier weighs is a constraint
                continue
            for out in (each for factor in term.factors for each in outputs_in(factor) if id(root(each.args[0])) not in taught):
                for given in out.args[1:]:
                    if len(out.args) == 2 and called(given) not in differences.JOINING:
                        continue  # a value of the observation alone: a trunk whose features are kept from its gradient
                    for part in formulas.parts(given, into_networks=False, into_arrays=False):
                        cut = part.args[0] if called(part) in ("detach", "stop_gradient") and part.args else None
                        if cut is not None and any(formulas.optimized(run, network) for network in gradient(cut)):
                            yield _spot(
                                part.node,
                                "the action is cut off from the actor before the critic is asked: nothing of its value reaches the actor",
                                "no detach",
                            )


def trained_on_itself(script: Script) -> Iterator[Spot]:
    """A critic that is trained on what it said before, and on no reward."""
    for part, answer, goal in learning.errors(script):
        origins = [each for each in formulas.origins(goal) if each.op != "const"]
        tops = {id(each.args[0]) for each in origins if each.op == "out"}
        own = {id(each.args[0]) for each in outputs_in(answer)}
        asked = {role(each.args[1]) for each in origins if each.op == "out" and len(each.args) > 1}
        if (
            origins
            and all(each.op == "out" for each in origins)
            and tops == own
            and len(own) == 1
            and "next_obs" not in asked
            and not gradient(goal)
        ):
            if len({id(each) for each in outputs_in(answer)} & {id(each) for each in origins}) == 0:
                yield _spot(part.node, "the critic is trained on the values that it gave itself: no reward is in its target", "returns")


def no_noise(script: Script) -> Iterator[Spot]:
    """An actor that learns through a critic acts without noise in the loop that it is trained in."""
    run = execution(script)
    actors = {
        id(root(network))
        for event in formulas.backwards(run)
        for term in (terms(event.value) if event.value is not None else ())
        if term.sign < 0
        for factor in term.factors
        for out in outputs_in(factor)
        for given in out.args[1:]
        for network in _direct(given)
        if root(network) is not root(out.args[0])
    }
    learned = {loop for event in run.events if event.name == "backward" for loop in event.loops}
    kept = experience.kept_steps(script)
    for event in run.events if actors else ():
        if event.name != "env step" or not isinstance(event.value, Symbol) or len(event.value.args) < 2 or not set(event.loops) & learned:
            continue
        action = event.value.args[1]
        plain = [out for out in outputs_in(action) if id(root(out.args[0])) in actors]
        if plain and id(event.value) in kept and not _is_loud(action) and not any(_is_stochastic(out) for out in plain):
            yield _spot(
                formulas.written(plain[-1]) or event.node,
                "the actor is deterministic, and nothing is added to its action in training: it never tries anything else",
                "+ noise",
            )
            for where in (event.node, *experience.chosen_at(script, event)):
                yield _spot(
                    where,
                    "the action of a deterministic actor is taken as it is, and nothing is added to it in training: it never tries anything else",
                    "+ noise",
                )


LINES_AFTER: Final = 12
"""Lines after an early return that are looked at as the other branch."""
MOST_EVALUATED: Final = 0.1
"""Random actions in an evaluation: Atari's protocol has 0.05 of them, and older ones up to 0.1."""
MOST_ELSEWHERE: Final = 0.05
"""The same where nothing is fixed that chance would have to break up."""
_NOISY: Final = frozenset(
    {"normal", "randn", "randn_like", "standard_normal", "rsample", "uniform", "rand", "random", "noise", "multivariate_normal", "normal_"}
)


def _is_loud(value: Value) -> bool:
    """Whether chance, or something that is not known, takes part in an action beside the warm-up's own."""
    pending: list[Value] = [value]
    seen: set[int] = set()
    while pending and len(seen) < 300:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Items):
            pending += current.items
        if not isinstance(current, Symbol) or current.op in ("out", "net", "env", "step", "reset", "stepped", "observed"):
            continue
        if current.op == "Mult" and any(formulas.number(each) == 0 for each in formulas.factors(current)):
            continue
        if called(current) == "normal" and any(
            formulas.number(one) == 0 for each in current.args[-2:][1:] for one in formulas.factors(each)
        ):
            continue
        if (
            called(current) in _NOISY
            or current.op in ("dist", "called", "asked", "unknown")
            or (current.op == "method" and current.data not in _QUIET)
        ):
            return True
        pending += [*(current.args[1:] if current.op == "phi" else current.args), *current.stored]
    return False


_QUIET: Final = frozenset(
    {*formulas.PASSING, "sample", "argmax", "clip", "clamp", "sum", "mean", "tanh", "max", "min", "format", "append", "to", "eval", "train"}
)


def _is_stochastic(out: Symbol) -> bool:
    return any(part.op == "dist" for given in out.args for part in formulas.parts(given, into_arrays=False))


def _direct(value: Value) -> list[Value]:
    """Networks whose answer, not drawn from a distribution, is an action in a value."""
    held = list(formulas.parts(value, into_arrays=False))
    if any(part.op == "dist" or called(part) in ("rsample", "sample", *_NOISY) for part in held):
        return []
    return [part.args[0] for part in held if part.op == "out" and not part.free]


def chance_in_evaluation(script: Script) -> Iterator[Spot]:
    """Steps that nothing is learned from, in an environment of their own, with noise or with a draw where a certain action could be had."""
    run = execution(script)
    kept = experience.kept_steps(script)
    trained_in = {id(event.subject) for event in run.events if event.name == "env step" and id(event.value) in kept}
    for event in run.events if trained_in else ():
        if event.name != "env step" or id(event.subject) in trained_in or not isinstance(event.value, Symbol) or len(event.value.args) < 2:
            continue
        for part in formulas.parts(event.value.args[1], into_networks=False, into_arrays=False):
            if called(part) in ("sample", "rsample", "multinomial") and _could_be_certain(run, part):
                for where in (event.node, *experience.chosen_at(script, event)):
                    yield _spot(
                        where,
                        "actions are drawn at random in an evaluation, though the likeliest one could be asked for",
                        "deterministic=True",
                    )
            loud = [
                each
                for each in part.args
                if any(called(one) in ("normal", "randn", "randn_like", "standard_normal") for one in formulas.parts(each, False, False))
            ]
            if (
                part.op == "Add"
                and len(loud) == 1
                and any(outputs_in(each) for each in part.args if each not in loud)
                and _is_loud(loud[0])
            ):
                for where in (event.node, *experience.chosen_at(script, event)):
                    yield _spot(where, "noise is added to the actions of an evaluation: it measures the noise, too", "no noise")
    yield from _chance_of_evaluation(script, trained_in)


def _could_be_certain(run: Execution, drawn: Symbol) -> bool:
    """Whether a draw stands in one of two branches that a call decided on, and the other one draws nothing."""
    line = getattr(drawn.node, "lineno", 0)
    for node, decided in run.switches:
        taken, other = (node.body, node.orelse) if decided else (node.orelse, node.body)
        inside = [each for each in (taken if isinstance(taken, list) else [taken]) if each.lineno <= line <= (each.end_lineno or 0)]
        left = [name for each in (other if isinstance(other, list) else [other]) for name in words.identifiers(each)]
        left_early = isinstance(node, ast.If) and not decided and not node.orelse and isinstance(node.body[-1], ast.Return)
        if left_early and (node.end_lineno or 0) < line <= (node.end_lineno or 0) + LINES_AFTER:
            inside = [node]  # if deterministic: return mean; what follows is the other branch
        within = isinstance(node, ast.If) or any(one is drawn.node for each in inside for one in ast.walk(each))
        if inside and within and left and not {"sample", "rsample", "multinomial"} & set(left):
            return True
    return False


def _chance_of_evaluation(script: Script, trained_in: set[int]) -> Iterator[Spot]:
    """A share of random actions, as a number, in steps that nothing is learned from."""
    run = execution(script)
    busy = {
        each.loops[-1]
        for each in run.events
        if each.loops
        and (
            each.name in ("store", "backward")
            or (each.name == "update" and not (isinstance(each.subject, Symbol) and each.subject.op in ("const", "carried", "Add")))
        )
    }
    most = MOST_EVALUATED if re.search(r"atari|NoFrameskip|\bALE/|ale_py", script.source.text, re.IGNORECASE) else MOST_ELSEWHERE
    for event, test, whole, holds, fails in experience.choices(script):
        threshold = experience.threshold(test)
        if threshold is None or id(event.subject) in trained_in:
            continue
        share = formulas.number(threshold[0])
        explores = holds if threshold[1] else fails
        if trained_in and (share is None or share > most) and _left_on(whole) and experience.is_random_action(explores):
            chosen = event.value.args[1] if isinstance(event.value, Symbol) else event.subject
            for where in (event.node, *experience.chosen_at(script, event), *formulas.bound_at(run, chosen)[-1:]):
                yield _spot(where, "an evaluation acts by chance, too, though its call could have asked for the best action", "greedy=True")
        if share is not None and share > most and not busy & set(event.loops[-1:]) and experience.is_random_action(explores):
            for where in (event.node, *experience.chosen_at(script, event)):
                yield _spot(where, f"{share:.0%} of an evaluation's actions are random: it measures the chance, too", "epsilon = 0")


def _left_on(test: Value) -> bool:
    """not greedy and random() < epsilon, where nobody asked for greedy: the switch is there, and was not used."""
    if not isinstance(test, Symbol) or test.op != "And":
        return False
    for each in test.args:
        turned = isinstance(each, Symbol) and each.op == "Not"
        asked = each.args[0] if turned and isinstance(each, Symbol) else each
        if isinstance(asked, Symbol) and asked.op == "const" and isinstance(asked.data, bool) and asked.data != turned:
            return True
    return False


def log_prob_not_summed(script: Script) -> Iterator[Spot]:
    """The log-probability of each dimension of an action, weighted with one number for the whole action."""
    for event in formulas.backwards(execution(script)):
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            if part.op != "Mult" or len(part.args) != 2:
                continue
            for one, weight in (part.args, part.args[::-1]):
                inner = [each for each in formulas.parts(one, into_networks=False, into_arrays=False) if called(each) == "log_prob"]
                shape = sizes.shape(weight)
                if (
                    len(inner) != 1
                    or shape is None
                    or len(shape) != 1
                    or shape == ("D",)
                    or inner[0].free
                    or not isinstance(inner[0].args[0], Symbol)
                ):
                    continue
                dist = inner[0].args[0]
                summed = any(called(each) in ("sum", "mean", "prod") for each in _above(one, inner[0]))
                wide = any(sizes.width(out.args[0]) != 1 for out in outputs_in(dist.args[0])) if dist.args else False
                if dist.op == "dist" and dist.data == "Normal" and wide and not summed:
                    yield _spot(
                        formulas.written(inner[0]) if inner[0].site is None else inner[0].node,
                        "log-probabilities of single dimensions are weighted with one advantage for all of them: they are never summed",
                        ".sum(-1)",
                    )


def _above(value: Value, inner: Symbol) -> list[Symbol]:
    """What stands between a value and one of its parts."""
    return [
        each
        for each in formulas.parts(value, into_networks=False, into_arrays=False)
        if each is not inner and any(part is inner for part in formulas.parts(each, into_networks=False, into_arrays=False))
    ]


def bounds_swapped(script: Script) -> Iterator[Spot]:
    """clamp(x, high, low): everything becomes one number."""
    for call in execution(script).calls:
        if called(call) in ("clamp", "clip") and len(call.args) == 3 and called(call.args[0]) != "exp":
            low, high = formulas.number(call.args[1]), formulas.number(call.args[2])
            turned = isinstance(call.args[2], Symbol) and call.args[2].op == "USub" and call.args[2].args[0] is call.args[1]
            if (low is not None and high is not None and low > high) or (turned and (low is None or low > 0)):
                yield _spot(
                    call.node, "the lower bound is above the upper one: every entry becomes the same number", "clamp(-bound, bound)"
                )


def old_side_with_gradient(script: Script) -> Iterator[Spot]:
    """Both log-probabilities of a ratio carry a gradient."""
    if any(name.startswith("jax") for name in script.imports.values()):
        # A gradient is taken for some arguments only.
        return
    for _, ratio in learning.clipped_ratios(script):
        inner = ratio.args[0] if called(ratio) == "exp" and ratio.args else None
        if isinstance(inner, Symbol) and inner.op == "Sub" and len(inner.args) == 2:
            new, old = inner.args
            if gradient(new) and gradient(old) and {id(each) for each in gradient(new)} & {id(each) for each in gradient(old)}:
                where = formulas.written(old) if not isinstance(old, Symbol) or old.op not in ("read", "item") else _made_at(old)
                yield _spot(
                    where or inner.node,
                    "the old log-probability carries a gradient, too: it is computed anew by the policy that is being updated",
                    "keep those of the rollout, or .detach()",
                )


def _made_at(value: Symbol) -> ast.AST | None:
    inner: Value = value
    while isinstance(inner, Symbol) and inner.op in ("read", "item") and inner.args:
        inner = inner.args[0]
    return formulas.written(inner)


def clipped_product(script: Script) -> Iterator[Spot]:
    """The objective is clipped around 1, where the ratio is meant."""
    for event in formulas.backwards(execution(script)):
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            if called(part) not in ("clamp", "clip") or len(part.args) < 3:
                continue
            low, high = formulas.number(part.args[1]), formulas.number(part.args[2])
            held = formulas.factors(part.args[0])
            ratios = [each for each in held if called(each) == "exp" and gradient(each)]
            if (
                low is not None
                and high is not None
                and 0 < low < 1 < high
                and ratios
                and any(not formulas.is_scalar(each) for each in held if each not in ratios)
            ):
                yield _spot(
                    part.node, "ratio times advantage is clipped around 1, where the ratio alone is meant", "clamp(ratio, …) * advantage"
                )


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD204": (softmax_twice,),
    "COD205": (scores_as_probabilities,),
    "COD212": (scale_below_zero,),
    "COD202": (correction_added,),
    "COD208": (old_side_with_gradient,),
    "COD209": (clipped_product,),
    "COD211": (log_prob_not_summed,),
    "COD509": (no_noise,),
    "COD529": (bounds_swapped,),
    "COD710": (chance_in_evaluation,),
    "COD514": (trained_on_itself,),
    "COD528": (critic_of_detached_action,),
    "COD531": (bounded_values,),
    "COD533": (softmax_over_the_batch,),
}
"""What is added to which check."""
