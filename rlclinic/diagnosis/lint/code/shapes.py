"""Shapes, where the script shows them: a column against a flat row makes a square, silently."""

import ast
from collections.abc import Iterator
from typing import Literal

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code import nets, words
from rlclinic.diagnosis.lint.code.script import Script, Spot, argument, keyword

Form = Literal["column", "flat"]
"""[N, 1] and [N]."""
FLATTENING = frozenset({"squeeze", "flatten", "ravel", "view", "reshape", "item", "mean", "sum", "amax", "tolist"})
LOSSES = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"})
DEPTH = 6


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
    for call in script.all(ast.Call):
        named = script.last(call) in LOSSES or script.last(script.resolve(call.func)) in ("MSELoss", "SmoothL1Loss", "HuberLoss")
        if named and len(call.args) >= 2:
            yield from _compared(script, call, call.args[0], call.args[1])
    for node in script.all(ast.BinOp):
        if isinstance(node.op, ast.Sub):
            yield from _compared(script, node, node.left, node.right)


def _compared(script: Script, node: ast.AST, left: ast.AST, right: ast.AST) -> Iterator[Spot]:
    forms = {form(script, left), form(script, right)}
    if forms == {"column", "flat"}:
        column = left if form(script, left) == "column" else right
        other = ast.unparse(right if column is left else left)
        text = f"`{ast.unparse(column)}` has shape [N, 1], `{other}` has [N]: together they make [N, N]"
        yield Spot(node, text, f"{ast.unparse(column)}.squeeze(-1)")


def form(script: Script, node: ast.AST, depth: int = DEPTH) -> Form | None:
    """The shape of an expression, as far as the script shows it."""
    if depth <= 0:
        return None
    if isinstance(node, ast.Name | ast.Attribute):
        return _named(script, node, depth)
    if isinstance(node, ast.Call):
        return _called(script, node, depth)
    if isinstance(node, ast.Subscript):
        return _indexed(script, node, depth)
    if isinstance(node, ast.BinOp):
        forms = {form(script, node.left, depth - 1), form(script, node.right, depth - 1)} - {None}
        return forms.pop() if len(forms) == 1 else None
    return None


def _named(script: Script, node: ast.Name | ast.Attribute, depth: int) -> Form | None:
    assigned = script.latest(script.dotted(node) if isinstance(node, ast.Attribute) else node.id, node)
    if assigned is None or assigned.value is None or isinstance(assigned.statement, ast.AugAssign):
        return None
    if assigned.index is None:
        return form(script, assigned.value, depth - 1)
    return _element(script, assigned.value, assigned.index, depth) if isinstance(assigned.value, ast.Call) else None


def _element(script: Script, call: ast.Call, index: int, depth: int) -> Form | None:
    """One of several values that a function of the script returns."""
    returned = nets.returned(script, call, index)
    return None if returned is None else form(script, returned, depth - 1)


def _called(script: Script, node: ast.Call, depth: int) -> Form | None:
    name = script.last(node)
    if name in ("view", "reshape", "flatten", "ravel"):
        return _reshaped(script, node)
    if name == "unsqueeze":
        return "column" if node.args and script.constant(node.args[-1]) in (1, -1) else None
    if name == "gather":
        # Index and source have as many dimensions as each other: what is gathered from [N, A] is [N, 1], never [N].
        return "column" if script.constant(argument(node, 0, "dim")) in (1, -1) else None
    if name in ("detach", "clone", "float", "to", "double"):
        return form(script, node.func.value, depth - 1) if isinstance(node.func, ast.Attribute) else None
    if name in ("tensor", "FloatTensor", "as_tensor", "from_numpy") and node.args:
        return _from_list(script, node.args[0])
    if name in ("zeros", "ones", "empty") and len(node.args) == 1 and isinstance(node.args[0], ast.Name):
        return "flat" if script.constant(node.args[0]) is not None else None
    if name == "amax":
        return None if keyword(node, "keepdim") else "flat"
    if name in FLATTENING:
        return None
    if nets.width_of(script, node) == 1:
        return "column"
    returned = nets.returned(script, node)
    return None if returned is None else form(script, returned, depth - 1)


def _reshaped(script: Script, node: ast.Call) -> Form | None:
    sizes = [script.constant(each) for each in node.args]
    if script.last(node) in ("flatten", "ravel"):
        return None if node.args else "flat"
    return "flat" if sizes == [-1] else "column" if sizes == [-1, 1] else None


def _from_list(script: Script, given: ast.AST) -> Form | None:
    """A list of numbers that the script fills one by one."""
    value = script.resolve(given)
    if isinstance(given, ast.Name) and (words.RETURN(given.id) or words.ADVANTAGE(given.id)):
        filled = [call for call in script.calls("append", "insert") if script.owner(call) == given.id]
        return "flat" if filled and isinstance(value, ast.List) else None
    return None


def _indexed(script: Script, node: ast.Subscript, depth: int) -> Form | None:
    inner = node.value
    if (
        isinstance(node.slice, ast.Constant)
        and node.slice.value == 0
        and script.last(inner) in ("max", "min")
        and isinstance(inner, ast.Call)
    ):
        keeps = keyword(inner, "keepdim") is not None or len(inner.args) > 1
        return "column" if keeps else "flat" if inner.args or inner.keywords else None
    rows = isinstance(node.slice, ast.Name) and any(word in node.slice.id for word in ("ind", "idx", "mb", "batch"))
    return form(script, inner, depth - 1) if rows else None


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
                and "flat" in [form(script, side) for side in sides]
            ):
                yield Spot(node, f"`{name}` is a stack of one-element values, [N, 1] or more; the other side is [N]", f"{name}.squeeze(-1)")
