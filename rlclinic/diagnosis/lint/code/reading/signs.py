"""Signs and terms of expressions: whether what is minimized grows or falls with a quantity."""

import ast
from collections.abc import Iterator
from typing import Final

from rlclinic.diagnosis.lint.code.reading import flow, words
from rlclinic.diagnosis.lint.code.reading.script import Script, keyword, position
from rlclinic.diagnosis.lint.code.reading.words import Meaning

DEPTH: Final = 6
_SAME: Final = frozenset(
    {"mean", "sum", "squeeze", "view", "reshape", "float", "stack", "cat", "clone", "to", "flatten", "item", "nanmean", "detach"}
)
_MODULES: Final = frozenset({"torch", "th", "np", "numpy", "F", "jnp"})
_EXTREMES: Final = frozenset({"min", "max", "minimum", "maximum"})
_NEGATIVE_LOG: Final = frozenset({"cross_entropy", "nll_loss", "CrossEntropyLoss", "NLLLoss"})


def terms(node: ast.AST, sign: int = 1) -> Iterator[tuple[int, ast.AST]]:
    """The summands of an expression with their signs."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from terms(node.left, sign)
        yield from terms(node.right, sign if isinstance(node.op, ast.Add) else -sign)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield from terms(node.operand, -sign)
    else:
        yield sign, node


def factors(node: ast.AST) -> Iterator[ast.AST]:
    """The factors of a product; an expression that is none is its own factor."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        yield from factors(node.left)
        if isinstance(node.op, ast.Mult):
            yield from factors(node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield from factors(node.operand)
    else:
        yield node


def operand(script: Script, call: ast.Call) -> ast.AST | None:
    """What a reduction reduces: x of x.mean(), and of torch.mean(x)."""
    if not isinstance(call.func, ast.Attribute):
        return call.args[0] if call.args else None
    holder = call.func.value
    # torch.mean(x), np.mean(x), jnp.mean(x), F.softmax(x): a module holds the function.
    module = isinstance(holder, ast.Name) and (holder.id in script.imports or holder.id in _MODULES)
    module = module or (isinstance(holder, ast.Attribute) and script.dotted(holder).partition(".")[0] in ("torch", "numpy", "jax"))
    return (call.args[0] if call.args else None) if module else holder


def sign(script: Script, node: ast.AST, depth: int = DEPTH) -> int:
    """-1 if an expression is written as the negative of something, else 1; names are followed to what they were set to."""
    if depth <= 0:
        return 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -sign(script, node.operand, depth)
    if isinstance(node, ast.Constant):
        return -1 if isinstance(node.value, int | float) and node.value < 0 else 1
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        return sign(script, node.left, depth) * sign(script, node.right, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        return (
            min((direction * sign(script, term, depth - 1) for direction, term in terms(node)), default=1)
            if _all_negative(script, node, depth)
            else 1
        )
    if isinstance(node, ast.Call):
        return _call_sign(script, node, depth)
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return sign(script, node.elt, depth - 1)
    if isinstance(node, ast.Name | ast.Attribute):
        if "neg" in words.own_name(node).lower() or "nll" in words.own_name(node).lower():
            return -1
        value = script.resolve(node)
        return sign(script, value, depth - 1) if value is not node else _appended(script, node, depth)
    return 1


def _all_negative(script: Script, node: ast.BinOp, depth: int) -> bool:
    summands = list(terms(node))
    return len(summands) < 5 and all(direction * sign(script, term, depth - 1) < 0 for direction, term in summands)


def _call_sign(script: Script, node: ast.Call, depth: int) -> int:
    name = script.last(node)
    if name in _NEGATIVE_LOG:
        return -1
    if name == "neg":
        inner = operand(script, node)
        return -sign(script, inner, depth - 1) if inner is not None else -1
    if name in _SAME or name in _EXTREMES:
        inner = operand(script, node)
        if isinstance(inner, ast.Tuple | ast.List) and inner.elts:
            inner = inner.elts[0]
        return sign(script, inner, depth - 1) if inner is not None else 1
    return 1


def _appended(script: Script, node: ast.AST, depth: int) -> int:
    """The sign of what is appended to a list."""
    name = script.dotted(node)
    added = [call.args[0] for call in script.calls("append") if script.owner(call) == name and len(call.args) == 1]
    return sign(script, added[0], depth - 1) if len(added) == 1 else 1


def loss_of(call: ast.Call) -> ast.expr | None:
    """What a call of backward minimizes: the tensor itself, or what accelerator.backward and manual_backward are given."""
    if call.args and not isinstance(call.args[0], ast.Constant) and words.own_name(call.args[0]) not in ("gradient", "grad"):
        return call.args[0]
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def minimized(script: Script, scope: ast.AST) -> list[ast.expr]:
    """What a function minimizes: the losses that it calls backward of, and what a Lightning module's training_step returns."""
    losses = [loss for call in script.calls("backward", within=scope) if (loss := loss_of(call)) is not None]
    for loss in list(losses):
        # total.backward(), where total = actor_loss + 0.5 * critic_loss
        whole = script.resolve(loss)
        if whole is not loss and isinstance(whole, ast.expr):
            losses.append(whole)
    if isinstance(scope, ast.FunctionDef) and scope.name == "training_step":
        losses += [value.node for each in flow.returned(script, scope) for value in _loss_entry(each)]
    return losses


def _loss_entry(value: ast.expr) -> Iterator[flow.Value]:
    if isinstance(value, ast.Dict):
        yield from (flow.Value(each) for key, each in zip(value.keys, value.values, strict=True) if getattr(key, "value", "") == "loss")
    else:
        yield flow.Value(value)


def direction(script: Script, name: str, at: ast.AST, depth: int = 4) -> int:
    """1 if the named quantity is minimized, -1 if it is maximized, 0 if the script does not say."""
    if depth <= 0:
        return 0
    scope = script.scope(at)
    for loss in minimized(script, scope):
        sign = _sign_in(script, loss, name)
        if sign:
            return sign
    for each in script.inside(scope, ast.Assign):
        target = script.dotted(each.targets[0])
        if not target or target == name or position(each) <= position(at) or not words.LOSS(target.rpartition(".")[2]):
            continue
        sign = _sign_in(script, each.value, name)
        if sign:
            return sign * (direction(script, target, each, depth - 1) or 1)
    if isinstance(scope, ast.FunctionDef):
        for value in flow.returned(script, scope):
            first = value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value
            sign = _sign_in(script, first, name)
            if sign:
                return sign * returned_direction(script, scope, depth - 1)
    return _elsewhere(script, name.rpartition(".")[2])


def returned_direction(script: Script, function: ast.AST, depth: int = 4) -> int:
    """1 if what a function returns is minimized where it is called, or if nobody calls it and it is called a loss."""
    if not isinstance(function, ast.FunctionDef) or depth <= 0:
        return 0
    if function.name == "training_step":
        return 1
    sites = [site for site in script.calls(function.name) if script.scope(site) is not function]
    for site in sites:
        sign, statement = written_flips(script, site)
        if isinstance(statement, ast.Assign):
            target = statement.targets[0].elts[0] if isinstance(statement.targets[0], ast.Tuple) else statement.targets[0]
            name = script.dotted(target)
            way = direction(script, name, statement, depth - 1) or (1 if words.LOSS(name.rpartition(".")[2]) else 0)
            if way:
                return sign * way
        if isinstance(statement, ast.Return):
            return sign * returned_direction(script, script.scope(statement), depth - 1)
        if isinstance(statement, ast.Expr) and script.calls("backward", within=statement):
            return sign
    return 1 if words.LOSS(function.name) else 0


def written_flips(script: Script, node: ast.AST) -> tuple[int, ast.stmt]:
    """-1 if a minus stands before the expression in its own statement, and that statement."""
    total = 1
    while not isinstance(node, ast.stmt):
        parent = script.parents[node]
        minus = isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub)
        subtracted = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Sub) and parent.right is node
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):
            other = parent.left if parent.right is node else parent.right
            minus = written_sign(other) < 0
        total = -total if minus or subtracted else total
        node = parent
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Sub):
        total = -total
    return total, node


def _elsewhere(script: Script, name: str) -> int:
    """A loss that is returned, and that another function takes under the same name."""
    if not words.LOSS(name):
        return 0
    losses = [loss for call in script.calls("backward") if (loss := loss_of(call)) is not None]
    return next((written_sign(each) for each in losses if any(words.own_name(part) == name for part in factors(each))), 0)


def _sign_in(script: Script, node: ast.AST, name: str) -> int:
    for sign_of_term, term in terms(node):
        inner = term
        while isinstance(inner, ast.Call) and script.last(inner) in _SAME:
            held = operand(script, inner)
            if held is None:
                break
            inner = held
        if inner is not term:
            sign = _sign_in(script, inner, name)
            if sign:
                return sign_of_term * sign
        if any(script.dotted(factor) == name for factor in factors(inner)):
            return sign_of_term * written_sign(inner)
    return 0


def written_sign(node: ast.AST) -> int:
    """The sign that a product shows by itself, no name followed."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -written_sign(node.operand)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        return written_sign(node.left) * written_sign(node.right)
    return -1 if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value < 0 else 1


def is_maximizing(script: Script) -> bool:
    """An optimizer that climbs: losses have the other sign then."""
    return any(isinstance(value := keyword(call, "maximize"), ast.Constant) and value.value is True for call in script.all(ast.Call))


def has_factor(node: ast.AST, meaning: Meaning) -> bool:
    """Whether one of an expression's factors is called that."""
    return any(meaning(words.own_name(factor)) for factor in factors(node))
