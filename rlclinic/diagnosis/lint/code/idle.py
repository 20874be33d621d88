"""What a script works out, or lets its user set, and never uses: the place where it was meant to stand is where the mistake is."""

# ruff: noqa: E501 — a message reads best whole

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, position

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOSSES: Final = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "cross_entropy", "nll_loss", "l1_loss", "kl_div"})
_LOGGING: Final = frozenset(
    {"log", "log_dict", "print", "append", "add_scalar", "add_scalars", "set_description", "set_postfix", "info", "record", "write", "update",
     "format", "round", "float", "item"}
)  # fmt: skip


@check("COD454", Severity.HIGH, ["nikanjam2022faults"])
def worked_out_for_nothing(script: Script) -> Iterator[Spot]:
    """A loss, a flag, a value or a setting is worked out, and nothing reads it.

    ## Why it hurts
    It was meant to stand in a formula, and something else stands there: the second critic has a loss that no gradient is taken of, the
    flag that tells real ends from time limits is computed and another one is stored, lambda can be set and the advantages know nothing of
    it.

    ## When it is fine
    Values that are looked at in a debugger alone.

    ## Fix
    Use it where it belongs, or delete it.

    ## Wrong
    ```python
    q1_loss = F.mse_loss(q1(obs, act), target)
    q2_loss = F.mse_loss(q2(obs, act), target)
    loss = q1_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ```

    ## Right
    ```python
    q1_loss = F.mse_loss(q1(obs, act), target)
    q2_loss = F.mse_loss(q2(obs, act), target)
    loss = q1_loss + q2_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ```
    """
    if not script.calls("backward") and "training_step" not in {each.name for each in script.functions}:
        return
    yield from _unread(script)
    yield from _only_logged(script)


def _unread(script: Script) -> Iterator[Spot]:
    for statement, name, value in _bound_once(script):
        what = _meaning(script, name, value)
        scope = script.scope(statement)
        if not what or _is_read(script, name, scope):
            continue
        for where in dict.fromkeys((statement, *_readers(script, statement, name))):
            yield Spot(
                where,
                f"`{name}` is {what}, and nothing reads it: what stands in its place is something else",
                f"use {name}, or delete it",
            )


def _bound_once(script: Script) -> Iterator[tuple[ast.stmt, str, ast.expr]]:
    """Names that an assignment of their own gives a value, in functions and in the script's own body."""
    for statement in script.all(ast.Assign):
        target = statement.targets[0]
        if len(statement.targets) == 1 and isinstance(target, ast.Name) and not target.id.startswith("_"):
            yield statement, target.id, statement.value


def _meaning(script: Script, name: str, value: ast.expr) -> str:
    """What a value is for, where it is for learning; "" for anything else."""
    called = script.last(value) if isinstance(value, ast.Call) else ""
    if called in _LOSSES or (
        words.LOSS(name) and any(script.last(each) in (*_LOSSES, "mean") for each in ast.walk(value) if isinstance(each, ast.Call))
    ):
        return "a loss"
    if (words.END(name) or words.NOT_ENDED(name) or words.TERMINATED(name)) and isinstance(
        value, ast.BoolOp | ast.UnaryOp | ast.Compare | ast.BinOp
    ):
        return "a flag of ends"
    if isinstance(value, ast.BinOp) and (words.ADVANTAGE(name) or words.RETURN(name)):
        return "what an action brought"
    if isinstance(value, ast.Call) and re.search(r"(^|_)(next_)?q_?\d", name) and called not in ("Adam", "deepcopy"):
        return "what a critic says"
    return ""


def _is_read(script: Script, name: str, scope: ast.AST) -> bool:
    """Whether a name is read below its scope, or declared to belong to an outer one."""
    holder = scope if not isinstance(scope, ast.Module) else script.tree
    for node in ast.walk(holder):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            return True
        if isinstance(node, ast.Global | ast.Nonlocal) and name in node.names:
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("locals", "exec", "eval"):
            return True
    return False


def _readers(script: Script, statement: ast.stmt, name: str) -> list[ast.stmt]:
    """The first statement after it that reads its twin (qf1_loss beside qf2_loss), or what it was made of."""
    twins = {other for number in "12ab" if (other := re.sub(r"[12ab](?=$|_)|(?<=[a-z])[12](?=_|$)", number, name)) != name}
    sources = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    body = _body_of(script, statement)
    later = body[body.index(statement) + 1 :] if statement in body else []
    for wanted in (twins, sources):
        for each in later:
            held = {node.id for node in ast.walk(each) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
            if held & wanted and not isinstance(each, ast.If | ast.For | ast.While | ast.With | ast.FunctionDef):
                return [each]
    return []


def _body_of(script: Script, statement: ast.stmt) -> list[ast.stmt]:
    parent = script.parents.get(statement)
    for field in ("body", "orelse", "finalbody"):
        held = getattr(parent, field, None)
        if isinstance(held, list) and statement in held:
            return held
    return []


def _only_logged(script: Script) -> Iterator[Spot]:
    """A chance to explore that is worked out at each step, and only logged."""
    for statement, name, value in _bound_once(script):
        if not words.EPSILON(name) or isinstance(value, ast.Constant) or not isinstance(value, ast.Call | ast.BinOp | ast.IfExp):
            continue
        scope = script.scope(statement)
        loads = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)]
        if loads and all(_is_logged(script, node) for node in loads):
            acting = [
                call
                for call in script.all(ast.Call)
                if script.scope(call) is scope
                and re.search(r"act|step|play|explore|choose|select", script.last(call))
                and position(call) > position(statement)
            ]
            for where in (statement, *acting[:1]):
                yield Spot(
                    where,
                    f"`{name}` is worked out and only logged: actions are chosen without it",
                    f"hand {name} to what chooses the action",
                )


def _is_logged(script: Script, node: ast.AST) -> bool:
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, ast.JoinedStr):
            return True
        if isinstance(ancestor, ast.Call):
            return script.last(ancestor) in _LOGGING
        if isinstance(ancestor, ast.stmt):
            return False
    return False


# ── settings that nothing reads ──


Role = Callable[[str], bool]
_ROLES: Final[tuple[tuple[str, Role], ...]] = (
    ("lambda", words.LAMBDA),
    ("gamma", words.GAMMA),
    ("entropy", lambda name: bool(re.search(r"(^|_)ent(ropy)?(_?(coef|coeff|weight|beta|bonus|scale))?$|^beta_?ent", name.lower()))),
    ("value", lambda name: bool(re.search(r"(^|_)(vf|value|critic|v)(_loss)?_?(coef|coeff|weight|scale)$", name.lower()))),
    ("clip", lambda name: bool(re.search(r"^clip(_?(eps(ilon)?|range|ratio|coef|param))?$|^eps_?clip$|^noise_clip$", name.lower()))),
    ("share", lambda name: bool(re.search(r"^(tau|polyak|soft_tau|target_tau)$", name.lower()))),
    ("norm", lambda name: bool(re.search(r"max_grad_norm|grad_clip|clip_grad", name.lower()))),
)
"""Settings whose place in the formulas is known, by what they are called."""
SETTINGS: Final = {
    "lambda": "lambda can be set, and no running sum of errors is multiplied with it",
    "gamma": "a discount can be set, and no value of what comes next is multiplied with it",
    "entropy": "a weight of the entropy can be set, and it stands in no loss",
    "value": "a weight of the critic's loss can be set, and it stands in no loss",
    "clip": "a bound of the ratio can be set, and no ratio is clipped by it",
    "share": "the share by which a slow copy follows can be set, and no copy is made with it",
    "norm": "a bound of the gradients can be set, and no gradient is clipped by it",
}


def unread_settings(script: Script) -> Iterator[tuple[str, ast.AST]]:
    """Settings of a known role that are declared, and read nowhere: the role, and where each is declared."""
    learns = script.calls("backward") or "training_step" in {each.name for each in script.functions}
    if not learns or re.search(r"vars\(|asdict\(|__dict__|locals\(\)|getattr\(", script.source.text):
        return
    read = {node.id for node in script.all(ast.Name) if isinstance(node.ctx, ast.Load)}
    read |= {node.attr for node in script.all(ast.Attribute) if isinstance(node.ctx, ast.Load)}
    texts: dict[str, int] = {}
    for node in script.all(ast.Constant):
        if isinstance(node.value, str):
            texts[node.value] = texts.get(node.value, 0) + 1
    for name, where in _declared(script):
        role = next((role for role, means in _ROLES if means(name)), "")
        if role and name not in read and not texts.get(name):
            yield role, where


def _declared(script: Script) -> Iterator[tuple[str, ast.AST]]:
    for call in script.calls("add_argument"):
        first = next(
            (
                each.value
                for each in call.args
                if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.startswith("--")
            ),
            "",
        )
        if first:
            yield first.lstrip("-").replace("-", "_"), call
    for each in script.classes:
        decorated = any("dataclass" in ast.unparse(mark) for mark in each.decorator_list)
        for statement in each.body if decorated else ():
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value is not None:
                yield statement.target.id, statement
    for function in script.functions:
        arguments = [*function.args.args, *function.args.kwonlyargs]
        defaults = len(function.args.defaults) + sum(each is not None for each in function.args.kw_defaults)
        for argument in arguments[-defaults:] if defaults > 2 else ():
            yield argument.arg, argument
    for statement in script.tree.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement.targets[0], ast.Name) and statement.targets[0].id.isupper() and not isinstance(statement.value.value, str):
            yield statement.targets[0].id, statement
