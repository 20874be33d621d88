"""How batches are drawn: minibatches of a rollout, and replay by priority."""

import ast
from collections.abc import Iterator

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, keyword

_SIZES = frozenset({"abs", "fabs", "absolute", "square", "pow", "smooth_l1_loss", "huber_loss", "mse_loss", "norm", "clip", "clamp"})
_LOSSES = frozenset({"smooth_l1_loss", "mse_loss", "huber_loss", "l1_loss"})


@check("COD416", Severity.HIGH, ["schulman2017ppo"])
def same_minibatch_again(script: Script) -> Iterator[Spot]:
    """A loop over minibatches never uses its index: every one of them is the same.

    ## Why it hurts
    The loop runs once for each part of the data, and takes the same part each time: the rest is never learned from, and that part is
    overfitted.

    ## When it is fine
    Where each turn draws its own minibatch at random.

    ## Fix
    indices[start : start + size]

    ## Wrong
    ```python
    for start in range(0, batch_size, minibatch_size):
        part = indices[:minibatch_size]
        loss = loss_of(obs[part], actions[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    ## Right
    ```python
    for start in range(0, batch_size, minibatch_size):
        part = indices[start : start + minibatch_size]
        loss = loss_of(obs[part], actions[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```
    """
    for loop in script.all(ast.For):
        if not isinstance(loop.target, ast.Name) or script.called(loop.iter) != "range" or len(getattr(loop.iter, "args", ())) != 3:
            continue
        name = loop.target.id
        if any(isinstance(each, ast.Name) and each.id == name for part in loop.body for each in ast.walk(part)):
            continue
        cuts = [
            each for each in script.inside(loop, ast.Subscript) if isinstance(each.slice, ast.Slice) and script.loops(each)[:1] == [loop]
        ]
        drawn = script.calls("sample", "choice", "randint", "permutation", "randperm", "shuffle", "integers", within=loop)
        fixed = [each for each in cuts if not _is_all(each.slice)]
        if fixed and not drawn:
            yield Spot(
                fixed[0], f"`{name}` counts through the data and is never used: every minibatch is the same", f"[{name} : {name} + size]"
            )


def _is_all(cut: ast.expr) -> bool:
    return isinstance(cut, ast.Slice) and cut.lower is None and cut.upper is None


@check("COD538", Severity.HIGH, ["schaul2016prioritized"])
def priorities_misused(script: Script) -> Iterator[Spot]:
    """Replay by priority whose priorities or weights say something else than they should.

    ## Why it hurts
    A priority is the size of an error: with its sign, half of the transitions are never drawn again, or the draw raises. Priorities that
    are never set anew stay those of the first day. What is drawn more often must count less, by (N·P)^-β: a positive power, weights that
    no loss is multiplied by, or that meet a loss which is one number already, leave the values biased towards rare transitions.

    ## When it is fine
    Without weights where the bias is wanted; say so.

    ## Fix
    priority = |error| + ε after every update; weights = (N · P) ** -β; (weights * loss(…, reduction="none")).mean().

    ## Wrong
    ```python
    class PrioritizedReplay:
        def update(self, indices, errors):
            self.priorities[indices] = errors + 1e-6


    memory.update(indices, errors)
    ```

    ## Right
    ```python
    class PrioritizedReplay:
        def update(self, indices, errors):
            self.priorities[indices] = np.abs(errors) + 1e-6


    memory.update(indices, errors)
    ```
    """
    if not any("prio" in name.lower() for name in script.words):
        return
    yield from _signed(script)
    yield from _raised_to(script)
    yield from _never_renewed(script)
    yield from _weights_lost(script)


def _signed(script: Script) -> Iterator[Spot]:
    """priorities[i] = error + eps, where nothing makes the error positive, here or where it is handed over."""
    for node in script.all(ast.Assign):
        target, value = node.targets[0], node.value
        if not isinstance(target, ast.Subscript) or "prio" not in words.own_name(target).lower() or not isinstance(value, ast.BinOp):
            continue
        function = script.scope(node)
        given = next((each for each in (value.left, value.right) if isinstance(each, ast.Name) and _is_error(each.id)), None)
        if not isinstance(value.op, ast.Add) or given is None or not isinstance(function, ast.FunctionDef):
            continue
        made = [each.value for each in script.assignments(given.id, node) if each.value is not None]
        handed = [part for call in script.calls(function.name) for part in (*call.args, *(key.value for key in call.keywords))]
        sources = [*made, *handed, *(script.resolve(_bare(script, each)) for each in handed)]
        if not any(
            script.last(each) in _SIZES or (isinstance(each, ast.BinOp) and isinstance(each.op, ast.Pow))
            for one in sources
            for each in ast.walk(one)
        ):
            yield Spot(node, f"`{given.id}` keeps its sign: a priority is the size of an error", f"abs({given.id}) + eps")


def _is_error(name: str) -> bool:
    return any(word in name.lower() for word in ("err", "td", "delta", "diff"))


def _bare(script: Script, node: ast.expr) -> ast.expr:
    """x of x.detach().cpu().numpy()."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node


def _raised_to(script: Script) -> Iterator[Spot]:
    """(N * p) ** beta without a minus."""
    for node in script.all(ast.BinOp):
        if not isinstance(node.op, ast.Pow) or "beta" not in words.own_name(node.right).lower():
            continue
        divided = any(isinstance(each, ast.Div) for each in ast.walk(node.left))
        parent = script.parents.get(node)
        below = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div) and parent.right is node
        if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Mult) and not divided and not below:
            yield Spot(
                node, "what is drawn more often gets the larger weight: the power must be negative", f"** -{ast.unparse(node.right)}"
            )


def _never_renewed(script: Script) -> Iterator[Spot]:
    """A method that writes priorities at given places, and that nobody calls."""
    for kind in script.classes:
        for method in kind.body:
            if not isinstance(method, ast.FunctionDef) or method.name in script.mentioned or len(method.args.args) < 3:
                continue
            names = {each.arg for each in method.args.args}
            for node in script.inside(method, ast.Assign):
                target = node.targets[0]
                at = target.slice if isinstance(target, ast.Subscript) else None
                if isinstance(at, ast.Name) and at.id in names and "prio" in words.own_name(target).lower() and script.calls("backward"):
                    yield Spot(method, f"{kind.name}.{method.name} is never called: priorities stay what they were when stored", "")
                    break


def _weights_lost(script: Script) -> Iterator[Spot]:
    """Weights that are drawn with a batch and reach no loss, or that are multiplied with its mean."""
    for function in script.functions:
        if not script.calls("backward", within=function):
            continue
        for node in script.inside(function, ast.Assign):
            target = node.targets[0]
            if not isinstance(target, ast.Tuple) or not isinstance(node.value, ast.Call):
                continue
            for part in ast.walk(target):
                if isinstance(part, ast.Name) and "weight" in part.id.lower():
                    used = [each for each in script.inside(function, ast.Name) if each.id == part.id and isinstance(each.ctx, ast.Load)]
                    if not used:
                        yield Spot(node, f"`{part.id}` comes with the batch, and no loss is multiplied by it", "")
    for product in script.all(ast.BinOp):
        for weight, loss in ((product.left, product.right), (product.right, product.left)):
            if not isinstance(product.op, ast.Mult) or "weight" not in words.own_name(weight).lower() or not isinstance(loss, ast.Call):
                continue
            reduced = script.last(loss) in _LOSSES and keyword(loss, "reduction") is None
            parent = script.parents.get(product)
            averaged = isinstance(parent, ast.Attribute) and parent.attr in ("mean", "sum")
            if reduced and averaged:
                yield Spot(product, "the loss is one number already: every transition gets the mean weight", 'reduction="none"')
