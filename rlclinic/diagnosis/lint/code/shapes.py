"""Shapes, where the script shows them: a column against a flat row makes a square, silently."""

import ast
from collections.abc import Iterable, Iterator
from typing import Literal

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.losses import compared
from rlclinic.diagnosis.lint.code.reading import flow, nets, words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, argument, keyword
from rlclinic.diagnosis.lint.code.reading.signs import operand

Form = Literal["column", "flat", "number"]
"""[N, 1], [N], and a single number."""


@check("COD601", Severity.HIGH, ["jones2021debugging"])
def column_against_row(script: Script) -> Iterator[Spot]:
    """A column of shape [N, 1] meets a row of shape [N].

    ## Why it hurts
    Broadcasting makes [N, N]: every prediction is compared with every target. The loss looks plausible and the value function learns
    the mean.

    ## When it is fine
    Never in a loss.

    ## Fix
    Squeeze the value head: critic(obs).squeeze(-1).

    ## Wrong
    ```python
    from torch import nn

    critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
    b_returns = returns.reshape(-1)
    values = critic(b_obs)
    value_loss = ((values - b_returns) ** 2).mean()
    ```

    ## Right
    ```python
    from torch import nn

    critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
    b_returns = returns.reshape(-1)
    values = critic(b_obs).squeeze(-1)
    value_loss = ((values - b_returns) ** 2).mean()
    ```
    """
    for node, (left, right) in compared(script):
        yield from _differ(script, node, left, right)
    for node in script.all(ast.BinOp):
        if isinstance(node.op, ast.Sub | ast.Add):
            yield from _differ(script, node, node.left, node.right)


def _differ(script: Script, node: ast.AST, left: ast.AST, right: ast.AST) -> Iterator[Spot]:
    forms = {form(script, left), form(script, right)}
    if forms == {"column", None}:
        unknown = right if form(script, left) == "column" else left
        forms = {"column", "flat"} if _is_made_of_rewards(script, unknown) else forms
    if forms == {"column", "flat"}:
        column = left if form(script, left) == "column" else right
        flat = right if column is left else left
        if isinstance(flat, ast.Name) and flat.id in {part.id for part, _ in flow.made_of(script, column) if isinstance(part, ast.Name)}:
            return  # x - x.max(keepdim=True): of its own shape, whatever that is
        other = ast.unparse(right if column is left else left)
        text = f"`{ast.unparse(column)}` has shape [N, 1], `{other}` has [N]: together they make [N, N]"
        yield Spot(node, text, f"{ast.unparse(column)}.squeeze(-1)")


RESHAPES = frozenset(
    {"unsqueeze", "view", "reshape", "expand", "gather", "expand_dims", "keepdim", "atleast_2d", "repeat", "view_as", "expand_as"}
)


def _is_made_of_rewards(script: Script, node: ast.AST) -> bool:
    """Returns and advantages summed from the rewards of steps, one number each, whose shape nothing on the way changes."""
    rewarded = False
    for part, index in flow.made_of(script, node, lambda part: nets.is_network(script, part) or script.last(part) in ("step", "reset")):
        if isinstance(part, ast.Call):
            name = script.last(part)
            if name in RESHAPES or keyword(part, "keepdim") is not None or keyword(part, "keepdims") is not None:
                return False
            if (
                name in ("zeros", "ones", "empty", "full")
                and part.args
                and not isinstance(part.args[0], ast.Name | ast.Attribute | ast.Constant)
            ):
                return False
            rewarded = rewarded or (name == "step" and index == 1)
        if isinstance(part, ast.Subscript) and any(isinstance(each, ast.Constant) and each.value is None for each in ast.walk(part.slice)):
            return False
        if isinstance(part, ast.List) and len(part.elts) == 1 and index is None:
            return False  # [reward] makes a column of rewards
    return rewarded


def form(script: Script, node: ast.AST, index: int | None = None) -> Form | None:
    """The shape of an expression, as far as the script shows it: [N], [N, 1], or a single number."""
    return script.following(("form", node, index), lambda: _form(script, node, index), None)


def _form(script: Script, node: ast.AST, index: int | None) -> Form | None:
    if isinstance(node, ast.Name | ast.Attribute):
        if isinstance(node, ast.Attribute) and node.attr == "values" and script.last(node.value) in ("max", "min"):
            return _reduced(script, node.value)
        return _agreed(script, flow.definitions(script, node))
    if isinstance(node, ast.Call):
        return _called(script, node, index)
    if isinstance(node, ast.Subscript):
        return _indexed(script, node)
    if isinstance(node, ast.BinOp):
        forms = {form(script, node.left, None), form(script, node.right, None)} - {None, "number"}
        return forms.pop() if len(forms) == 1 else None
    if isinstance(node, ast.UnaryOp):
        return form(script, node.operand, None)
    return "number" if isinstance(node, ast.Constant) and isinstance(node.value, int | float) else None


def _agreed(script: Script, values: Iterable[flow.Value]) -> Form | None:
    forms = {form(script, each.node, each.place) for each in values}
    return forms.pop() if len(forms) == 1 else None


def _called(script: Script, node: ast.Call, index: int | None) -> Form | None:
    name = script.last(node)
    inner = operand(script, node)
    if index is not None and name in ("max", "min"):
        return _reduced(script, node) if index == 0 else None
    if name in ("view", "reshape", "flatten", "ravel"):
        return _reshaped(script, node)
    if name == "unsqueeze":
        return "column" if node.args and script.constant(node.args[-1]) in (1, -1) else None
    if name == "squeeze" and inner is not None:
        return "flat" if form(script, inner, None) == "column" else None
    if name == "gather":
        # Index and source have as many dimensions as each other: what is gathered from [N, A] is [N, 1], never [N].
        return "column" if script.constant(argument(node, 0, "dim")) in (1, -1) else None
    if name in ("item", "int", "len") or (name == "float" and node.args):
        return "number"
    if name in ("detach", "clone", "float", "to", "double", "cpu", "clamp", "clip", "zeros_like", "astype", "numpy") and inner is not None:
        return form(script, inner, None)
    if name in ("tensor", "FloatTensor", "as_tensor", "from_numpy", "array", "Tensor") and node.args:
        return _from_list(script, node.args[0]) or form(script, node.args[0], None)
    if name == "stack" and node.args:
        return "flat" if _elements(script, node.args[0]) == {"number"} else None
    if name in ("zeros", "ones", "empty") and len(node.args) == 1:
        counted = isinstance(node.args[0], ast.Name | ast.Attribute | ast.Constant) or script.called(node.args[0]) == "len"
        return "flat" if counted and (script.constant(node.args[0]) is not None or not isinstance(node.args[0], ast.Attribute)) else None
    if name in ("min", "max", "minimum", "maximum") and len(node.args) == 2 and script.constant(node.args[1]) is None:
        forms = {form(script, each, None) for each in node.args} - {None}
        return forms.pop() if len(forms) == 1 else None
    if name in ("amax", "amin"):
        return None if keyword(node, "keepdim") else "flat"
    if nets.width_of(script, node) == 1:
        return "column"
    return _agreed(script, flow.sources(script, node, index))


def _reduced(script: Script, call: ast.AST) -> Form | None:
    """The values of x.max(1): [N], or [N, 1] if the dimension is kept."""
    if not isinstance(call, ast.Call) or not (call.args or call.keywords):
        return None
    return "column" if keyword(call, "keepdim") is not None or len(call.args) > 1 else "flat"


def _reshaped(script: Script, node: ast.Call) -> Form | None:
    sizes = [script.constant(each) for each in node.args]
    if script.last(node) in ("flatten", "ravel"):
        return None if node.args else "flat"
    return "flat" if sizes == [-1] else "column" if sizes == [-1, 1] else None


def _from_list(script: Script, given: ast.AST) -> Form | None:
    """A list of numbers that the script fills one by one."""
    if isinstance(given, ast.Name) and (words.RETURN(given.id) or words.ADVANTAGE(given.id)):
        filled = [call for call in script.calls("append", "insert") if script.owner(call) == given.id]
        if filled and isinstance(script.resolve(given), ast.List):
            return "flat"
    return "flat" if _elements(script, given) == {"number"} else None


def _elements(script: Script, given: ast.AST) -> set[Form | None]:
    """The shapes of what is put into a list."""
    held = flow.stored(script, given) if isinstance(given, ast.Name | ast.Attribute) else ()
    return {form(script, each.node, each.place) for each in held}


def _indexed(script: Script, node: ast.Subscript) -> Form | None:
    inner = node.value
    if isinstance(node.slice, ast.Constant) and node.slice.value == 0 and script.last(inner) in ("max", "min"):
        return _reduced(script, inner)
    if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int) and isinstance(inner, ast.Call):
        return form(script, inner, node.slice.value)
    rows = isinstance(node.slice, ast.Name) and any(
        word in node.slice.id for word in ("ind", "idx", "mb", "batch", "rows", "perm", "order")
    )
    return form(script, inner, None) if rows else None


@check("COD602", Severity.HIGH, ["jones2021debugging"])
def value_head_without_squeeze(script: Script) -> Iterator[Spot]:
    """Values collected one by one are stacked to a column and subtracted from a row of returns.

    ## Why it hurts
    Broadcasting makes [N, N]: each advantage is the mean over all steps, and says nothing about its own.

    ## When it is fine
    Never in a loss.

    ## Fix
    values.append(critic(obs).squeeze(-1))

    ## Wrong
    ```python
    import torch
    from torch import nn

    critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
    values, returns = [], []
    for step in range(100):
        values.append(critic(obs))
        returns.append(R)
    stacked = torch.stack(values)
    advantage = torch.tensor(returns) - stacked
    ```

    ## Right
    ```python
    import torch
    from torch import nn

    critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
    values, returns = [], []
    for step in range(100):
        values.append(critic(obs).squeeze(-1))
        returns.append(R)
    stacked = torch.stack(values)
    advantage = torch.tensor(returns) - stacked
    ```
    """
    # Lists of [1] values against returns: the same square, made by stacking.
    for call in script.calls("cat", "stack"):
        if not call.args or not words.VALUE(words.own_name(call.args[0])) or script.last(call) != "stack":
            continue
        kept = words.own_name(call.args[0])
        added = [each.args[0] for each in script.calls("append") if script.owner(each) == kept and each.args]
        if len(added) != 1 or form(script, added[0]) != "column":
            continue
        statement = script.statement(call)
        name = words.own_name(statement.targets[0]) if isinstance(statement, ast.Assign) and statement.value is call else ""
        for node in script.all(ast.BinOp):
            sides = [node.left, node.right]
            if (
                isinstance(node.op, ast.Sub)
                and name
                and name in map(words.own_name, sides)
                and any(form(script, side) == "flat" or _is_made_of_rewards(script, side) for side in sides if words.own_name(side) != name)
            ):
                yield Spot(node, f"`{name}` is a stack of one-element values, [N, 1] or more; the other side is [N]", f"{name}.squeeze(-1)")
