"""A parsed script and the facts that checks ask for: who calls what, what a name was last set to, what encloses what."""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar, overload

from rlclinic.diagnosis.lint.code.reading.roles import Names
from rlclinic.diagnosis.lint.code.reading.sources import Source

Node = TypeVar("Node", bound=ast.AST)
Other = TypeVar("Other", bound=ast.AST)
Third = TypeVar("Third", bound=ast.AST)
Value = TypeVar("Value")
Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.While | ast.AsyncFor
_NO_GRAD: Final = frozenset({"no_grad", "inference_mode", "set_grad_enabled"})
_LOOPS: Final = (ast.For, ast.While, ast.AsyncFor)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Spot:
    """Where a check found something, and what it says about it."""

    node: ast.AST
    text: str
    fix: str = ""
    """Where the page's own advice can be made more exact."""
    strength: float = 1.0
    law: str = ""
    """Which of a check's mechanisms saw it: "COD501 semantics.no_mask"; of a check's own function the id alone."""


@dataclass(frozen=True)
class Assigned:
    """One assignment to a name."""

    statement: ast.stmt
    value: ast.expr | None
    """None for the variable of a loop or a with, and for a parameter."""
    index: int | None = None
    """Place in the tuple that the value is unpacked into."""

    @property
    def line(self) -> tuple[int, int]:
        return position(self.statement)

    @property
    def whole(self) -> ast.expr | None:
        """The value that the name itself got, where it can be seen: of a, b = f(), g() each has its own."""
        return None if self.value is None or isinstance(self.statement, ast.AugAssign) else _unpacked(self.value, self.index)


def position(node: ast.AST | None) -> tuple[int, int]:
    """Line and column."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


LONG: Final = 1_500
"""Lines from which on a file is read only if it speaks of learning: parsers and generated interfaces take long, and train nothing."""
_SPEAKS: Final = re.compile(
    r"reward|gymnasium|\bgym\b|stable_baselines|sb3_contrib|\.backward\(|log_prob|terminated|truncated|training_step|advantage|VecNormalize"
    r"|VecEnv|action_space|epsilon|\boptim\b|\bgamma ?\*|replay|rollout|episode"
)


class Script:
    """One script. Everything is computed on first use and kept."""

    def __init__(self, source: Source) -> None:
        """SyntaxError, ValueError or RecursionError if it is no Python of today."""
        self.source = source
        self.tree = ast.parse(source.text, filename=source.name)
        self.names = Names(self.tree)
        self.parents: dict[ast.AST, ast.AST] = {}
        self._facts: dict[Hashable, Any] = {}
        self._by_type: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        self.is_read = source.text.count("\n") < LONG or len(set(_SPEAKS.findall(source.text))) >= 3
        """Whether checks look at it."""
        for node in ast.walk(self.tree) if self.is_read else ():
            self._by_type[type(node)].append(node)
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node

    def once(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """A fact that several checks ask for, computed on first use."""
        if key not in self._facts:
            self._facts[key] = compute()
        fact: Value = self._facts[key]
        return fact

    def following(self, key: Hashable, compute: Callable[[], Value], unknown: Value) -> Value:
        """A fact that may depend on itself, as where a name is made of its earlier value: unknown while it is being computed."""
        if key not in self._facts:
            self._facts[key] = unknown
            self._facts[key] = compute()
        fact: Value = self._facts[key]
        return fact

    @overload
    def all(self, first: type[Node], /) -> list[Node]: ...
    @overload
    def all(self, first: type[Node], second: type[Other], /) -> list[Node | Other]: ...
    @overload
    def all(self, first: type[Node], second: type[Other], third: type[Third], /) -> list[Node | Other | Third]: ...
    @overload
    def all(self, *types: type[ast.AST]) -> list[Any]: ...
    def all(self, *types: type[ast.AST]) -> list[Any]:
        """Every node of these types, in the order of the text."""
        key = " ".join(each.__name__ for each in types)
        return self.once(key, lambda: sorted((node for each in types for node in self._by_type.get(each, [])), key=position))

    def inside(self, holder: ast.AST, kind: type[Node]) -> list[Node]:
        """Nodes of a type below a node."""
        nodes = self.all(kind)
        return nodes if holder is self.tree else [node for node in nodes if _spans(holder, node)]

    # ── names ──

    @cached_property
    def imports(self) -> dict[str, str]:
        """What a name at the top of the script stands for: {"optim": "torch.optim", "PPO": "stable_baselines3.PPO"}."""
        names: dict[str, str] = {}
        for node in self.all(ast.Import, ast.ImportFrom):
            for alias in node.names:
                if isinstance(node, ast.ImportFrom):
                    names[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
                else:
                    names[alias.asname or alias.name.partition(".")[0]] = alias.name if alias.asname else alias.name.partition(".")[0]
        return names

    def uses(self, package: str) -> bool:
        """Whether a package is imported."""
        return any(name.partition(".")[0] == package for name in self.imports.values())

    @cached_property
    def is_sb3(self) -> bool:
        return self.uses("stable_baselines3") or self.uses("sb3_contrib")

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """Names that are read somewhere: functions that are called or handed on."""
        return frozenset({node.id for node in self.all(ast.Name)} | {node.attr for node in self.all(ast.Attribute)})

    @cached_property
    def words(self) -> frozenset[str]:
        """Every identifier and attribute in the script, and every short text."""
        names = {node.id for node in self.all(ast.Name)} | {node.attr for node in self.all(ast.Attribute)}
        texts = {node.value for node in self.all(ast.Constant) if isinstance(node.value, str) and len(node.value) < 60}
        keys = {node.arg for node in self.all(ast.keyword) if node.arg} | {node.arg for node in self.all(ast.arg)}
        return frozenset(names | texts | keys | {node.name for node in self.functions})

    def dotted(self, node: ast.AST) -> str:
        """`torch.optim.Adam` for optim.Adam, `self.opt.step` for itself, `step` after a call or a subscript; "" for no name at all."""
        if isinstance(node, ast.Name):
            return self.imports.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            before = self.dotted(node.value)
            return f"{before}.{node.attr}" if before else node.attr
        if isinstance(node, ast.Subscript):
            return self.dotted(node.value)
        return ""

    def called(self, node: ast.AST) -> str:
        """The dotted name of what a call calls; "" for anything else."""
        return self.dotted(node.func) if isinstance(node, ast.Call) else ""

    def last(self, node: ast.AST) -> str:
        """The last part of what a call calls: `step` for env.step(a)."""
        if not isinstance(node, ast.Call):
            return ""
        if isinstance(node.func, ast.Attribute):
            return node.func.attr
        return self.called(node).rpartition(".")[2]

    def calls(self, *names: str, within: ast.AST | None = None) -> list[ast.Call]:
        """Calls whose last name is one of these, in the order of the text; below a node, or in the whole script."""
        if within is None:
            return [node for name in names for node in self._calls.get(name, [])]
        named = [node for name in names for node in self._calls.get(name, [])]
        return sorted((node for node in named if _spans(within, node)), key=position) if named and within is not self.tree else named

    @cached_property
    def _calls(self) -> dict[str, list[ast.Call]]:
        by_name: dict[str, list[ast.Call]] = defaultdict(list)
        for node in self.all(ast.Call):
            # Lightning's manual_backward(loss) and accelerator.backward(loss) do what loss.backward() does.
            by_name["backward" if self.last(node) == "manual_backward" else self.last(node)].append(node)
        return by_name

    def owner(self, call: ast.Call) -> str:
        """What a method is called on: `self.env` for self.env.step(a); "" for a plain function."""
        return self.dotted(call.func.value) if isinstance(call.func, ast.Attribute) else ""

    # ── structure ──

    @cached_property
    def functions(self) -> list[Function]:
        return self.all(ast.FunctionDef, ast.AsyncFunctionDef)

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        return self.all(ast.ClassDef)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """What encloses a node, from the inside out."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def scope(self, node: ast.AST) -> ast.AST:
        """The function that a node is in, or the module."""
        return next((ancestor for ancestor in self.ancestors(node) if isinstance(ancestor, _FUNCTIONS)), self.tree)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node is part of."""
        if isinstance(node, ast.stmt):
            return node
        return next(ancestor for ancestor in self.ancestors(node) if isinstance(ancestor, ast.stmt))

    def loops(self, node: ast.AST) -> list[Loop]:
        """Loops of the same function around a node, the innermost first."""
        outer: list[Loop] = []
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, _FUNCTIONS):
                break
            if isinstance(ancestor, _LOOPS):
                outer.append(ancestor)
        return outer

    def is_without_gradient(self, node: ast.AST) -> bool:
        """Under torch.no_grad, by a with, a decorator, or because its function is only called under one."""
        return self._under_no_grad(node) or any(self._only_called_under_no_grad(each) for each in (self.scope(node),))

    def _under_no_grad(self, node: ast.AST) -> bool:
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, ast.With) and any(self.last(item.context_expr) in _NO_GRAD for item in ancestor.items):
                return True
            if isinstance(ancestor, _FUNCTIONS) and any(
                self.dotted(_bare(one)).rpartition(".")[2] in _NO_GRAD for one in ancestor.decorator_list
            ):
                return True
        return False

    def _only_called_under_no_grad(self, function: ast.AST) -> bool:
        if not isinstance(function, _FUNCTIONS):
            return False
        sites = self.calls(function.name)
        return bool(sites) and all(self._under_no_grad(site) for site in sites)

    # ── values ──

    @cached_property
    def named(self) -> list[tuple[str, ast.expr, ast.stmt]]:
        """Every name with each whole value that it gets, and where."""
        values = [(name, each.whole, each.statement) for (_, name), made in self.assigned.items() for each in made]
        return sorted(((name, value, where) for name, value, where in values if value is not None), key=lambda each: position(each[2]))

    @cached_property
    def assigned(self) -> dict[tuple[ast.AST, str], list[Assigned]]:
        """Every assignment, by the function (or module) that it is in and the name that it sets."""
        by_place: dict[tuple[ast.AST, str], list[Assigned]] = defaultdict(list)
        for statement in self.all(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor, ast.NamedExpr):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            looping = isinstance(statement, ast.For | ast.AsyncFor)
            value = None if looping else statement.value
            holder = self.statement(statement)
            for target in targets:
                for name, index in self._targets(target):
                    by_place[self.scope(statement), name].append(Assigned(holder, value, index))
        for function in self.functions:
            for argument in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]:
                by_place[function, argument.arg].insert(0, Assigned(function, None))
        return by_place

    def _targets(self, target: ast.AST, index: int | None = None) -> Iterator[tuple[str, int | None]]:
        if isinstance(target, ast.Tuple | ast.List):
            for place, each in enumerate(target.elts):
                yield from self._targets(each, place)
        elif isinstance(target, ast.Starred):
            yield from self._targets(target.value, index)
        elif isinstance(target, ast.Name):
            yield target.id, index
        elif isinstance(target, ast.Attribute):
            yield self.dotted(target), index

    def assignments(self, name: str, at: ast.AST) -> list[Assigned]:
        """Assignments to a name in the function that `at` is in; attributes of self in the whole script."""
        if name.startswith("self."):
            return self.once("assigned to self", self._of_self).get(name, [])
        return self.assigned.get((self.scope(at), name), [])

    def _of_self(self) -> dict[str, list[Assigned]]:
        """Assignments to attributes of self, by their name."""
        held: dict[str, list[Assigned]] = {}
        for (_, name), made in self.assigned.items():
            if name.startswith("self."):
                held.setdefault(name, []).extend(made)
        return held

    def anywhere(self, name: str, at: ast.AST) -> list[Assigned]:
        """Assignments in this function; in the enclosing functions and the module if there is none."""
        assigned = self.assignments(name, at)
        node = self.scope(at)
        while not assigned and node is not self.tree:
            node = self.scope(node)
            assigned = self.assigned.get((node, name), [])
        return assigned

    def latest(self, name: str, at: ast.AST) -> Assigned | None:
        """The last assignment above `at` in its function, or the only one outside of it."""
        assigned = self.assignments(name, at)
        here = position(self.statement(at))
        before = [each for each in assigned if each.line < here]
        if before:
            return max(before, key=lambda each: each.line)
        outside = self.anywhere(name, at)
        return outside[0] if len(outside) == 1 else None

    def resolve(self, node: ast.AST) -> ast.AST:
        """What a name was last set to, if that was a whole value; else the node itself."""
        if isinstance(node, ast.Name | ast.Attribute):
            assigned = self.latest(self.dotted(node) if isinstance(node, ast.Attribute) else node.id, node)
            if assigned is not None:
                return assigned.whole or node
        return node

    def constant(self, node: ast.AST | None, depth: int = 4) -> float | None:
        """The number that an expression is, where the script alone decides it."""
        if isinstance(node, ast.Constant):
            return float(node.value) if isinstance(node.value, int | float) and not isinstance(node.value, bool) else None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.constant(node.operand, depth)
            return None if inner is None else -inner
        if isinstance(node, ast.BinOp):
            return _computed(node.op, self.constant(node.left, depth), self.constant(node.right, depth))
        if isinstance(node, ast.Call) and self.called(node) in ("int", "float") and node.args:
            return self.constant(node.args[0], depth)
        if isinstance(node, ast.Call) and self.last(node) in ("get", "getenv") and "env" in ast.unparse(node.func) and len(node.args) == 2:
            default = node.args[1]
            if isinstance(default, ast.Constant) and isinstance(default.value, str):
                return float(default.value) if default.value.replace(".", "", 1).isdigit() else None
            return self.constant(default, depth)
        if isinstance(node, ast.IfExp) and "argv" in ast.unparse(node.test):
            return self.constant(node.orelse if "argv" in ast.unparse(node.body) else node.body, depth)
        if isinstance(node, ast.Name) and depth > 0:
            assigned = self.anywhere(node.id, node)
            if len(assigned) != 1:
                return None
            if isinstance(assigned[0].statement, _FUNCTIONS) and assigned[0].value is None:
                return self.constant(self._given(assigned[0].statement, node.id), depth - 1)
            return self.constant(assigned[0].whole, depth - 1)
        if isinstance(node, ast.Attribute) and depth > 0:
            return self.constant(self.settings.get(node.attr), depth - 1)
        return None

    def _given(self, function: Function, parameter: str) -> ast.expr | None:
        """A parameter's default, where no call of the script gives it another value."""
        if any(key.arg == parameter for call in self.calls(function.name) for key in call.keywords):
            return None
        places = [*function.args.posonlyargs, *function.args.args]
        given = max((len(call.args) for call in self.calls(function.name)), default=0)
        names = [place.arg for place in places]
        if parameter in names and names.index(parameter) < given:
            return None
        pairs = [*zip(reversed(places), reversed(function.args.defaults), strict=False)]
        pairs += [
            (each, value) for each, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if value is not None
        ]
        return next((value for each, value in pairs if each.arg == parameter), None)

    @cached_property
    def settings(self) -> dict[str, ast.expr]:
        """Defaults of the script's settings, in a dataclass or on its command line; those that are filled in later are left out."""
        values: dict[str, list[ast.expr]] = defaultdict(list)
        for kind in self.classes:
            for statement in kind.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value is not None:
                    values[statement.target.id].append(statement.value)
        for call in self.calls("add_argument"):
            flag = next((each.value for each in reversed(call.args) if isinstance(each, ast.Constant) and isinstance(each.value, str)), "")
            default = keyword(call, "default")
            if default is not None:
                values[flag.lstrip("-").replace("-", "_")].append(default)
        filled_in = {node.attr for node in self.all(ast.Attribute) if isinstance(node.ctx, ast.Store)}
        return {name: given[0] for name, given in values.items() if len(given) == 1 and name not in filled_in}

    def line(self, node: ast.AST) -> str:
        """The first line of a node's statement, without its indentation."""
        number = position(node)[0]
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""

    @cached_property
    def lines(self) -> list[str]:
        """As Python counts them: a form feed begins no new one."""
        return self.source.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _spans(holder: ast.AST, node: ast.AST) -> bool:
    """Whether a node lies in the text of another one."""
    begin, end = position(node), (getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0))
    return position(holder) <= begin and end <= (getattr(holder, "end_lineno", 0), getattr(holder, "end_col_offset", 0))


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """A keyword argument's value."""
    return next((each.value for each in call.keywords if each.arg == name), None)


def argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    """An argument by its place or its name; None if it is not given, or hidden behind a star."""
    if any(isinstance(each, ast.Starred) for each in call.args[: place + 1]):
        return None
    return call.args[place] if len(call.args) > place else keyword(call, name)


def _unpacked(value: ast.expr, index: int | None) -> ast.expr | None:
    """The value itself, or its part where a written tuple is unpacked; None if it cannot be seen."""
    if index is None:
        return value
    return value.elts[index] if isinstance(value, ast.Tuple | ast.List) and index < len(value.elts) else None


def _bare(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _computed(operator: ast.operator, left: float | None, right: float | None) -> float | None:
    if left is None or right is None:
        return None
    try:
        match operator:
            case ast.Mult():
                return left * right
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Div():
                return left / right
            case ast.FloorDiv():
                return left // right
            case ast.Pow():
                return float(left**right) if abs(right) < 100 else None
    except (ArithmeticError, TypeError):
        return None
    return None
