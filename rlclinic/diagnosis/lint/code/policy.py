"""Actions and their log-probabilities: distributions, clipping, squashing, ratios."""

import ast
from collections.abc import Iterator

from rlclinic.diagnosis.lint.code import nets, words
from rlclinic.diagnosis.lint.code.script import Script, Spot, argument, keyword, position
from rlclinic.diagnosis.lint.code.signs import operand

CLIPS = frozenset({"clip", "clamp", "clip_", "clamp_", "hardtanh"})
STORES = frozenset({"append", "add", "store", "push", "remember", "insert", "extend", "record", "put"})
SOFTMAX = frozenset({"softmax", "Softmax"})


def log_prob_of_clipped_action(script: Script) -> Iterator[Spot]:
    for call in script.calls("log_prob"):
        if not call.args:
            continue
        value = script.resolve(call.args[0])
        if script.last(value) in CLIPS and not _is_for_safety(script, value):
            yield Spot(
                call, f"the log-probability is that of the clipped action (line {position(value)[0]}), not of the one that was drawn"
            )
        elif script.last(value) == "tanh" and not _squashes_itself(script):
            yield Spot(
                call,
                f"the log-probability is that of the squashed action (line {position(value)[0]}), under the distribution of the raw one",
            )


def _is_for_safety(script: Script, clip: ast.AST) -> bool:
    """A hair's breadth inside an open interval, so that no logarithm is infinite."""
    names = words.mentions(clip, lambda name: "eps" in name.lower() or "tiny" in name.lower())
    return names or any(
        isinstance(each, ast.Constant) and isinstance(each.value, float) and 0 < abs(each.value) < 1e-2 for each in ast.walk(clip)
    )


def _squashes_itself(script: Script) -> bool:
    return bool(script.words & {"TanhTransform", "TransformedDistribution", "SquashedNormal", "TanhNormal"})


def squashed_without_correction(script: Script) -> Iterator[Spot]:
    if not script.words & {"alpha", "log_alpha", "target_entropy", "ent_coef"} or _squashes_itself(script):
        return
    for function in script.functions:
        squashed = [call for call in script.calls("tanh", within=function) if _squashes_a_sample(script, call)]
        probs = script.calls("log_prob", within=function)
        if squashed and probs and not _is_corrected(script, function):
            yield Spot(
                probs[0],
                f"the action is squashed by tanh (line {position(squashed[0])[0]}), and its log-probability is not corrected for that",
            )


def _squashes_a_sample(script: Script, call: ast.Call) -> bool:
    inner = operand(script, call)
    return inner is not None and script.last(script.resolve(inner)) in ("rsample", "sample")


def _is_corrected(script: Script, function: ast.AST) -> bool:
    both = [
        call
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and len(call.args) > 1 and any(words.LOG_PROB(words.own_name(each)) for each in call.args)
    ]
    logs = script.calls("log", "log1p", "softplus", within=function)
    return bool(both) or any(script.last(each) == "softplus" or any(isinstance(part, ast.Sub) for part in ast.walk(each)) for each in logs)


def stored_action_is_clipped(script: Script) -> Iterator[Spot]:
    raw = {words.own_name(call.args[0]): call for call in script.calls("log_prob") if call.args}
    for node, stored in _stored(script):
        found = script.latest(stored.id, node) if isinstance(stored, ast.Name) else None
        value = found.value if found is not None else None
        if value is None or script.last(value) not in CLIPS or not isinstance(value, ast.Call) or not isinstance(stored, ast.Name):
            continue
        inner = operand(script, value)
        source = words.own_name(inner) if inner is not None else ""
        call = raw.get(source)
        if call is None or script.scope(call) is not script.scope(node):
            call = _drawn_with_log_prob(script, source, value)
        if call is None:
            continue
        if source != stored.id or position(call) < position(value):
            text = f"`{stored.id}` is clipped (line {position(value)[0]}) before it is stored; its log-probability was taken before that"
            yield Spot(node, text, "clip only what goes to env.step(); store the action as it was drawn")


def _drawn_with_log_prob(script: Script, name: str, at: ast.AST) -> ast.Call | None:
    """The call that returned an action together with its log-probability: action, log_prob, … = agent.act(obs)."""
    found = script.latest(name, at)
    targets = found.statement.targets if found is not None and isinstance(found.statement, ast.Assign) else []
    both = any(isinstance(each, ast.Tuple) and any(words.LOG_PROB(words.own_name(part)) for part in each.elts) for each in targets)
    return found.value if both and found is not None and isinstance(found.value, ast.Call) else None


def _stored(script: Script) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Every value that goes into a buffer, and where."""
    for call in script.calls(*STORES):
        for each in call.args:
            yield from ((call, part) for part in (each.elts if isinstance(each, ast.Tuple | ast.List) else [each]))
        yield from ((call, each.value) for each in call.keywords)
    for node in script.all(ast.Assign):
        if isinstance(node.targets[0], ast.Subscript):
            yield node, node.value


def softmax_as_logits(script: Script) -> Iterator[Spot]:
    places = [(call, keyword(call, "logits")) for call in script.calls("Categorical", "OneHotCategorical", "Multinomial")]
    places += [(call, argument(call, 0, "input")) for call in script.calls("cross_entropy", "log_softmax")]
    places += [
        (call, argument(call, 0, "input")) for call in script.all(ast.Call) if script.last(script.resolve(call.func)) == "CrossEntropyLoss"
    ]
    for call, given in places:
        if given is None:
            continue
        value = nets.origin(script, given)
        if _is_softmax(script, value) or nets.last_layer(script, value) in SOFTMAX:
            yield Spot(call, f"{script.last(call)} takes raw scores here and gets probabilities: softmax is applied twice")


def _is_softmax(script: Script, value: ast.AST) -> bool:
    if script.last(value) in SOFTMAX:
        return True
    inner = value.func if isinstance(value, ast.Call) else value
    return isinstance(inner, ast.Call) and script.last(inner) in SOFTMAX


def logits_as_probs(script: Script) -> Iterator[Spot]:
    for call in script.calls("Categorical", "OneHotCategorical"):
        given = argument(call, 0, "probs")
        if given is None:
            continue
        value = nets.origin(script, given)
        if words.LOGITS(words.own_name(given)) or nets.last_layer(script, value) == "Linear":
            yield Spot(
                call,
                "the first argument of Categorical is probs; scores without softmax belong into logits=",
                f"Categorical(logits={ast.unparse(given)})",
            )


def greedy_action_in_training(script: Script) -> Iterator[Spot]:
    if not script.calls("backward") or not script.calls("log_prob"):
        return
    for call in script.calls("argmax"):
        inner = operand(script, call)
        name = words.own_name(inner) if inner is not None else ""
        function = script.scope(call)
        if not (words.LOGITS(name) or words.PROBS(name)) or words.EVALUATION(getattr(function, "name", "")):
            continue
        steps = [
            step for step in script.calls("step", within=function) if step.args and words.ENVIRONMENT(script.owner(step).rpartition(".")[2])
        ]
        target = script.statement(call)
        action = words.own_name(target.targets[0]) if isinstance(target, ast.Assign) else ""
        taken = any(words.own_name(_inner(step.args[0])) == action for step in steps) and not _may_sample(script, action, call)
        if taken or _is_only_likeliest(script, action, call):
            yield Spot(call, f"the action is always the likeliest one: `{action}` is never drawn from the policy", "action = dist.sample()")


def _is_only_likeliest(script: Script, action: str, at: ast.AST) -> bool:
    """Whether the policy is trained by the log-probability of this very action, and no other is ever drawn."""
    asked = [call for call in script.calls("log_prob", within=script.scope(at)) if call.args and words.own_name(call.args[0]) == action]
    assigned = [each for each in script.assignments(action, at) if action]
    return bool(asked) and len(assigned) == 1 and not script.calls("sample", "choice", "multinomial", within=script.scope(at))


def _may_sample(script: Script, action: str, at: ast.AST) -> bool:
    return any(
        each.value is not None and script.calls("sample", "choice", "multinomial", within=each.value)
        for each in script.assignments(action, at)
    )


def _inner(node: ast.AST) -> ast.AST:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node


# ── ratios ──


def ratio_without_exponential(script: Script) -> Iterator[Spot]:
    for node in script.all(ast.Assign):
        if not words.RATIO(words.own_name(node.targets[0])) or not isinstance(node.value, ast.BinOp):
            continue
        left, right = node.value.left, node.value.right
        if any(
            words.own_name(held) == words.own_name(node.targets[0])
            for call in script.calls("exp")
            if (held := operand(script, call)) is not None
        ):
            continue
        if words.LOG_PROB(words.own_name(left)) and words.LOG_PROB(words.own_name(right)) and isinstance(node.value.op, ast.Sub | ast.Div):
            how = "difference" if isinstance(node.value.op, ast.Sub) else "quotient"
            yield Spot(node, f"the ratio of probabilities is the exponential of a difference of log-probabilities; this is their {how}")


def log_prob_of_another_action(script: Script) -> Iterator[Spot]:
    asked = {each.name: each for each in script.functions if _takes_an_action(each) and script.calls("sample", "rsample", within=each)}
    for node in script.all(ast.BinOp):
        if (
            not isinstance(node.op, ast.Sub)
            or not isinstance(node.left, ast.Name)
            or not words.LOG_PROB(words.own_name(_stripped(node.right)))
        ):
            continue
        found = script.latest(node.left.id, node) if words.LOG_PROB(node.left.id) else None
        call = found.value if found is not None else None
        if not isinstance(call, ast.Call) or script.last(call) not in asked or len(call.args) + len(call.keywords) > 1:
            continue
        if not script.is_without_gradient(call) and "old" not in node.left.id:
            text = f"`{node.left.id}` is of an action that is drawn anew here, and is compared with that of the stored one"
            yield Spot(node, text, f"give the stored actions: {script.last(call)}(obs, actions)")


def _takes_an_action(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """def f(self, obs, action=None)."""
    optional = function.args.args[-len(function.args.defaults) :] if function.args.defaults else []
    return any(words.ACTION(each.arg) for each in optional)


def ratio_is_always_one(script: Script) -> Iterator[Spot]:
    if not script.calls("clamp", "clip"):
        return
    for call in script.calls("exp"):
        inner = operand(script, call)
        inner = script.resolve(inner) if inner is not None else None
        if (
            not isinstance(inner, ast.BinOp)
            or not isinstance(inner.op, ast.Sub)
            or not words.LOG_PROB(words.own_name(_stripped(inner.right)))
        ):
            continue
        new, old = _stripped(inner.left), _stripped(inner.right)
        same = ast.dump(new) == ast.dump(old)
        if same or _made_in_the_same_pass(script, new, old):
            yield Spot(
                call, f"`{ast.unparse(old)}` comes from the same policy as `{ast.unparse(new)}`: the ratio is 1, and clipping never acts"
            )


def _stripped(node: ast.AST) -> ast.AST:
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("detach", "clone", "squeeze", "view", "float", "to")
    ):
        node = node.func.value
    return node


def _made_in_the_same_pass(script: Script, new: ast.AST, old: ast.AST) -> bool:
    """Both computed in the innermost loop, from the network: nothing was remembered from the rollout."""
    if not isinstance(new, ast.Name) or not isinstance(old, ast.Name):
        return False
    first, second = script.latest(new.id, new), script.latest(old.id, old)
    if first is None or second is None or not isinstance(first.value, ast.Call) or not isinstance(second.value, ast.AST):
        return False
    value = _stripped(second.value)
    loops = script.loops(new)
    inside = bool(loops) and second.statement in set(ast.walk(loops[0]))
    copied = isinstance(value, ast.Name) and value.id == new.id
    asked = isinstance(value, ast.Call) and script.last(value) == "log_prob" and script.last(_stripped(first.value)) == "log_prob"
    return inside and (copied or (asked and words.LOG_PROB(old.id)))


def clip_bounds_not_around_one(script: Script) -> Iterator[Spot]:
    for call in script.calls("clamp", "clip"):
        held = operand(script, call)
        if held is None or not words.RATIO(words.own_name(held)):
            continue
        shift = 0 if isinstance(call.func, ast.Attribute) and call.func.value is held else 1
        low, high = argument(call, shift, "min"), argument(call, shift + 1, "max")
        if low is None or high is None:
            continue
        negative = isinstance(low, ast.UnaryOp) or (script.constant(low) or 0.0) < 0
        swapped = (
            isinstance(low, ast.BinOp) and isinstance(low.op, ast.Add) and isinstance(high, ast.BinOp) and isinstance(high.op, ast.Sub)
        )
        if negative or swapped:
            yield Spot(call, f"the ratio is clipped to [{ast.unparse(low)}, {ast.unparse(high)}]; it belongs between 1 - clip and 1 + clip")
