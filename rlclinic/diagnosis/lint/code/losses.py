"""Losses: signs, which extreme of the clipped surrogate, what must not carry a gradient."""

import ast
from collections.abc import Iterator

from rlclinic.diagnosis.lint.code import nets, words
from rlclinic.diagnosis.lint.code.script import Script, Spot, position
from rlclinic.diagnosis.lint.code.signs import direction, factors, is_maximizing, operand, sign, terms
from rlclinic.diagnosis.lint.code.words import Meaning

MINIMA, MAXIMA = frozenset({"min", "minimum"}), frozenset({"max", "maximum"})
REDUCTIONS = frozenset({"mean", "sum", "squeeze", "nanmean"})
FREE = frozenset({"detach", "item", "numpy", "float", "tolist", "no_grad", "data"})


# ── the surrogate ──


def wrong_extreme_of_surrogates(script: Script) -> Iterator[Spot]:
    for call in _surrogates(script):
        signs = {sign(script, each) for each in call.args[:2]}
        if signs == {1} and script.last(call) in MAXIMA:
            yield Spot(
                call, "the larger of the two surrogates is taken: the clip is lifted exactly where it should hold", "torch.min of both"
            )
        elif signs == {-1} and script.last(call) in MINIMA:
            yield Spot(
                call,
                "both surrogates are negated, and the smaller one is taken: the clip is lifted where it should hold",
                "torch.max of both",
            )


def _surrogates(script: Script) -> Iterator[ast.Call]:
    """torch.min(a, b) and friends over two surrogates, one of them clipped."""
    for call in script.calls(*MINIMA, *MAXIMA):
        if len(call.args) != 2:
            continue
        values = [script.resolve(each) for each in call.args]
        ratios = all(words.mentions(each, words.RATIO) or script.calls("clamp", "clip", within=each) for each in values)
        clipped = any(
            script.calls("clamp", "clip", within=each) or words.mentions(each, lambda name: "clip" in name.lower()) for each in values
        )
        if ratios and clipped and any(words.mentions(each, words.ADVANTAGE) for each in values):
            yield call


def surrogate_sign(script: Script) -> Iterator[Spot]:
    if is_maximizing(script):
        return
    for call in _surrogates(script):
        node: ast.AST = call
        total = sign(script, call)
        while isinstance(parent := script.parents.get(node), ast.expr | ast.keyword):
            negated = isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub)
            if negated or (isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Sub) and parent.right is node):
                total = -total
            elif isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):
                other = parent.left if parent.right is node else parent.right
                total *= -1 if isinstance(other, ast.UnaryOp) or (script.constant(other) or 1.0) < 0 else 1
            node = parent
        statement = script.statement(call)
        if not isinstance(statement, ast.Assign):
            continue
        name = script.dotted(statement.targets[0])
        way = direction(script, name, statement) or (1 if words.LOSS(name.rpartition(".")[2]) else 0)
        if total * way > 0:
            yield Spot(statement, "the surrogate is minimized: good actions become less likely", f"{name} = -torch.min(…).mean()")


def policy_gradient_sign(script: Script) -> Iterator[Spot]:
    if is_maximizing(script):
        return
    for node in script.all(ast.BinOp):
        if not isinstance(node.op, ast.Mult) or isinstance(script.parents.get(node), ast.BinOp) or not _is_gradient_term(node):
            continue
        if sign(script, node) < 0:
            continue
        flips, statement = _written_flips(script, node)
        name = _goes_to(script, node, statement)
        way = direction(script, name, statement) if name else 0
        if flips * way > 0:
            yield Spot(
                statement,
                "log-probability times return is minimized: rewarded actions become less likely",
                "-(log_prob * advantage).mean()",
            )


def _is_gradient_term(node: ast.BinOp) -> bool:
    held = list(factors(node))
    prob = any(
        words.LOG_PROB(words.own_name(_core(each)))
        or (isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "log_prob")
        for each in held
    )
    weighed = any(words.ADVANTAGE(words.own_name(_core(each))) or words.RETURN(words.own_name(_core(each))) for each in held)
    return prob and weighed


def _core(node: ast.AST) -> ast.AST:
    """What is left of x.detach(), x.view(…), torch.stack(x)."""
    while isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        if name in ("stack", "cat", "concatenate") and node.args:
            node = node.args[0]
        elif isinstance(node.func, ast.Attribute) and name in FREE | {"view", "reshape", "unsqueeze"}:
            node = node.func.value
        else:
            break
    return node


def _written_flips(script: Script, node: ast.AST) -> tuple[int, ast.stmt]:
    """-1 if a minus stands before the expression in its own statement, and that statement."""
    total = 1
    while not isinstance(node, ast.stmt):
        parent = script.parents[node]
        minus = isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub)
        subtracted = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Sub) and parent.right is node
        total = -total if minus or subtracted else total
        node = parent
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Sub):
        total = -total
    return total, node


def _goes_to(script: Script, node: ast.AST, statement: ast.stmt) -> str:
    """The name that an expression ends up in: by assignment, or appended to a list."""
    if isinstance(statement, ast.Assign):
        return script.dotted(statement.targets[0])
    if isinstance(statement, ast.AugAssign):
        return script.dotted(statement.target)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and script.last(call) == "append":
        return script.owner(call)
    return ""


# ── the sum ──


def entropy_sign(script: Script) -> Iterator[Spot]:
    yield from _term_sign(
        script, words.ENTROPY, 1, "the entropy is minimized: the policy is driven to one action", "… - ent_coef * entropy"
    )


def value_loss_sign(script: Script) -> Iterator[Spot]:
    yield from _term_sign(
        script, words.VALUE_LOSS, -1, "the value loss is maximized: the critic is driven away from the returns", "… + vf_coef * value_loss"
    )


def _term_sign(script: Script, meaning: Meaning, wrong: int, text: str, fix: str) -> Iterator[Spot]:
    """Sums called a loss, in which a term has the wrong sign."""
    if is_maximizing(script):
        return
    for node in script.all(ast.Assign, ast.AugAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        name = script.dotted(target)
        if not words.LOSS(name.rpartition(".")[2]) or meaning(name.rpartition(".")[2]) or "alpha" in name or "temp" in name:
            continue
        value: ast.AST = node.value if isinstance(node, ast.Assign) else _augmented(node)
        if not words.mentions(value, meaning):
            continue
        way = direction(script, name, node) or 1
        for direct, term in terms(_whole(script, value)):
            held = next((each for each in factors(term) if meaning(words.own_name(_reduced(script, each)))), None)
            if held is None or (isinstance(node, ast.Assign) and not isinstance(_whole(script, value), ast.BinOp)):
                continue
            known = _known_sign(script, held)
            if known is not None and direct * sign(script, term) * way == wrong:
                yield Spot(node, text, fix)


def _augmented(node: ast.AugAssign) -> ast.AST:
    return ast.BinOp(left=node.target, op=node.op, right=node.value)


def _whole(script: Script, value: ast.AST) -> ast.AST:
    """The sum inside (a + b).mean()."""
    while isinstance(value, ast.Call) and script.last(value) in REDUCTIONS:
        inner = operand(script, value)
        if inner is None:
            break
        value = inner
    return value


def _reduced(script: Script, node: ast.AST) -> ast.AST:
    while isinstance(node, ast.Call) and script.last(node) in REDUCTIONS | {"entropy"} and isinstance(node.func, ast.Attribute):
        if node.func.attr == "entropy":
            return node.func
        node = node.func.value
    return node


def _known_sign(script: Script, node: ast.AST) -> int | None:
    """None for a quantity called a loss whose making is out of sight: it may be negated already."""
    name = words.own_name(_reduced(script, node))
    value = script.resolve(node)
    if words.VALUE_LOSS(name):
        return sign(script, node)
    told = words.mentions(value, lambda each: words.ENTROPY(each) and "loss" not in each.lower()) and value is not node
    if value is not node and not told and words.mentions(value, words.LOG_PROB):
        # Minus the log-probability is the entropy: what is called so may be its negative.
        return None
    return sign(script, node) if told or "loss" not in name.lower() else None


# ── gradients where none belong ──


def advantage_carries_gradient(script: Script) -> Iterator[Spot]:
    for node in script.all(ast.BinOp):
        if not isinstance(node.op, ast.Mult) or script.is_without_gradient(node):
            continue
        held = list(factors(node))
        if not any(words.LOG_PROB(words.own_name(_core(each))) or words.RATIO(words.own_name(each)) for each in held):
            continue
        for each in held:
            value = script.resolve(each) if words.ADVANTAGE(words.own_name(each)) else each
            if value is not each and _is_difference_with_network(script, value):
                text = f"`{words.own_name(each)}` (line {position(value)[0]}) still carries the critic's gradient into the policy's loss"
                yield Spot(script.statement(node), text, f"{ast.unparse(each)}.detach()")
                break


def _is_difference_with_network(script: Script, value: ast.AST) -> bool:
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Sub) or script.is_without_gradient(value):
        return False
    if any(isinstance(each, ast.Attribute) and each.attr in FREE for each in ast.walk(value)):
        return False
    return _from_network(script, value.right)


def _from_network(script: Script, node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        found = script.latest(node.id, node)
        if found is not None and found.value is None and words.VALUE(node.id) and _is_fitted(script, node.id, node):
            return True  # taken from a list, and trained: it still has its graph
        if (
            found is None
            or found.value is None
            or script.is_without_gradient(found.statement)
            or script.scope(found.statement) is not script.scope(node)
        ):
            return False
        node = found.value
    if any(isinstance(each, ast.Attribute) and each.attr in FREE for each in ast.walk(node)):
        return False
    return any(nets.is_network_call(script, each) for each in ast.walk(node))


def _is_fitted(script: Script, name: str, at: ast.AST) -> bool:
    """Whether a named prediction is compared with a target in the same function."""
    calls = script.calls("mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss", within=script.scope(at))
    return any(call.args and words.own_name(call.args[0]) == name for call in calls)


def target_carries_gradient(script: Script) -> Iterator[Spot]:
    for call in script.calls("mse_loss", "smooth_l1_loss", "huber_loss", "MSELoss", "SmoothL1Loss", "criterion", "loss_fn"):
        for each in call.args[:2]:
            value = script.resolve(each)
            if (
                value is each
                or not isinstance(value, ast.BinOp)
                or not words.mentions(value, words.GAMMA)
                or script.is_without_gradient(value)
            ):
                continue
            if any(isinstance(part, ast.Attribute) and part.attr in FREE for part in ast.walk(value)):
                continue
            asked = [part for part in _network_parts(script, value) if not words.mentions(part.func, words.TARGET)]
            if asked:
                text = f"the target `{ast.unparse(each)}` carries the gradient of `{ast.unparse(asked[0].func)}`"
                fix = f"{ast.unparse(each)}.detach(), or compute it under torch.no_grad()"
                yield Spot(call, f"{text}: it moves towards the prediction", fix)


def _network_parts(script: Script, value: ast.AST) -> Iterator[ast.Call]:
    for each in ast.walk(value):
        if isinstance(each, ast.Call) and nets.is_network_call(script, each):
            yield each
        elif isinstance(each, ast.Name):
            found = script.latest(each.id, each)
            if found is not None and found.value is not None and found.index is None and not script.is_without_gradient(found.statement):
                free = any(isinstance(part, ast.Attribute) and part.attr in FREE for part in ast.walk(found.value))
                if not free:
                    yield from (part for part in ast.walk(found.value) if isinstance(part, ast.Call) and nets.is_network_call(script, part))


def gradient_lost_in_new_tensor(script: Script) -> Iterator[Spot]:
    for call in script.calls("tensor", "FloatTensor", "as_tensor", "Tensor"):
        if not call.args or script.called(call).partition(".")[0] not in ("torch", "th"):
            continue
        name = words.own_name(call.args[0])
        target = script.statement(call)
        used = isinstance(target, ast.Assign) and words.LOSS(words.own_name(target.targets[0]))
        if words.LOG_PROB(name) and not words.mentions(call.args[0], lambda each: "old" in each.lower()) and used:
            yield Spot(call, f"torch.tensor({name}) is a copy without a graph: the policy gets no gradient from it", f"torch.stack({name})")


# ── advantages ──


def statistics_of_different_tensors(script: Script) -> Iterator[Spot]:
    for node, mean, spread in _standardized(script):
        if mean and spread and mean != spread and words.mentions(node, words.ADVANTAGE):
            yield Spot(
                node, f"the mean is that of `{mean}`, the deviation that of `{spread}`: the result has neither mean 0 nor deviation 1"
            )


def division_by_bare_deviation(script: Script) -> Iterator[Spot]:
    for node, _, spread in _standardized(script):
        if spread and script.last(node.right) == "std":
            yield Spot(node, f"`{spread}.std()` is 0 when all are equal, and NaN for a single one", f"({spread}.std() + 1e-8)")


def _standardized(script: Script) -> Iterator[tuple[ast.BinOp, str, str]]:
    """(x - a.mean()) / (b.std() + eps): the expression, a, and b."""
    for node in script.all(ast.BinOp):
        if not isinstance(node.op, ast.Div) or not isinstance(node.left, ast.BinOp) or not isinstance(node.left.op, ast.Sub):
            continue
        mean = next(iter(script.calls("mean", within=node.left.right)), None)
        spread = next(iter(script.calls("std", within=node.right)), None)
        if mean is not None and spread is not None:
            yield node, _what(script, mean), _what(script, spread)


def _what(script: Script, call: ast.Call) -> str:
    inner = operand(script, call)
    return (
        ""
        if inner is None
        else ast.unparse(script.resolve(inner) if isinstance(script.resolve(inner), ast.Name | ast.Attribute) else inner)
    )
