"""Where a value comes from: followed through assignments, loops, calls, attributes, lists and dictionaries of one script.

Checks ask what a value is made of (`made_of`), which ends of an episode it holds (`ends`), and whether it is true at an end or everywhere
else (`polarity`); `nets.gradient` says whether a network's gradient reaches it. What the script does not show has no source.
"""

import ast
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Assigned, Function, Script, argument, position

MOST_PARTS: Final = 400
"""Where following a value stops; ordinary targets and losses have fewer than fifty parts."""
STEP_VALUES: Final = 5
MODULES: Final = frozenset({"torch", "th", "np", "numpy", "F", "jnp", "nn", "math", "random"})
ENUMERATES: Final = frozenset({"eye", "arange", "linspace", "one_hot", "identity", "meshgrid", "cartesian_prod", "product"})
"""Calls that write all states down one by one."""
DRAWS: Final = frozenset(
    {"rand", "randn", "randint", "randperm", "random", "choice", "choices", "sample", "multinomial", "normal", "uniform", "step", "reset"}
)
"""Calls that leave it to chance, or to an environment, which states come."""
SAME_NETWORK: Final = frozenset({"to", "cuda", "cpu", "eval", "train", "requires_grad_", "float", "double", "deepcopy", "compile"})
SAME_FLAG: Final = frozenset(
    {"float", "to", "unsqueeze", "view", "squeeze", "astype", "flatten", "reshape", "cpu", "numpy", "int", "tensor", "as_tensor",
     "Tensor", "FloatTensor", "array", "stack", "cat", "clone", "bool", "from_numpy", "bool_", "float32", "detach", "type", "expand"}
)  # fmt: skip


class Value(NamedTuple):
    """An expression, or one of the values that it is unpacked into."""

    node: ast.expr
    place: int | None = None


def sources(script: Script, node: ast.AST, index: int | None = None) -> list[Value]:
    """One step back: what a name, an attribute, an element or a call of the script's own functions got its value from."""
    return script.following(("sources", node, index), lambda: list(_sources(script, node, index)), [])


def _sources(script: Script, node: ast.AST, index: int | None) -> Iterator[Value]:
    if isinstance(node, ast.Name | ast.Attribute):
        yield from definitions(script, node)
        yield from stored(script, node)
        if isinstance(node, ast.Attribute):
            yield from script.once("fields", lambda: _fields(script)).get(node.attr, [])
    elif isinstance(node, ast.Subscript):
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(key, str):
            yield from _entries(script).get(key, [])
        elif isinstance(key, int) and isinstance(node.value, ast.Call):
            yield Value(node.value, key)
        else:
            yield Value(node.value, key if isinstance(key, int) and key >= 0 else index)
    elif isinstance(node, ast.Call):
        function = function_of(script, node)
        for each in returned(script, function) if function is not None else ():
            yield from _place(each, index)


def definitions(script: Script, node: ast.Name | ast.Attribute) -> Iterator[Value]:
    """What a name or an attribute was set to as a whole, without what was put into it later."""
    if isinstance(node, ast.Name):
        for assigned in reaching(script, node.id, node):
            yield from _assigned(script, node.id, assigned)
        yield from _bound_in_comprehension(script, node)
    else:
        for assigned in _attribute(script, node):
            yield from _assigned(script, node.attr, assigned)


def _place(value: ast.expr, index: int | None) -> Iterator[Value]:
    if index is not None and isinstance(value, ast.Tuple | ast.List):
        if index < len(value.elts):
            yield Value(value.elts[index])
    else:
        yield Value(value, index)


def reaching(script: Script, name: str, at: ast.AST) -> list[Assigned]:
    """Assignments that a name may hold its value from: back to the last one that is made whatever branch is taken."""
    here = position(script.statement(at))
    around = set(script.ancestors(at))
    before = sorted(
        (assignment for assignment in script.assignments(name, at) if assignment.line < here), key=lambda each: each.line, reverse=True
    )
    reached: list[Assigned] = []
    for each in before:
        if any(_is_overwritten(script, each.statement, later.statement) for later in reached):
            continue
        reached.append(each)
        certain = each.statement in around or script.parents.get(each.statement) in around
        if certain and not isinstance(each.statement, ast.AugAssign):
            return reached
    outside = [] if reached else script.anywhere(name, at)
    return reached or (outside if len(outside) <= 3 else [])


def _is_overwritten(script: Script, earlier: ast.stmt, later: ast.stmt) -> bool:
    """Whether the later assignment is made whenever the earlier one is: it follows in the same block, or in one around it."""
    if isinstance(later, ast.AugAssign) or later is earlier:
        return False
    holder = script.parents.get(later)
    inner: ast.AST = earlier
    for ancestor in script.ancestors(earlier):
        if ancestor is holder:
            return any(
                later in block and inner in block
                for field in ("body", "orelse", "finalbody")
                if isinstance(block := getattr(holder, field, None), list)
            )
        inner = ancestor
    return False


def _assigned(script: Script, name: str, assigned: Assigned) -> Iterator[Value]:
    statement = assigned.statement
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from arguments(script, statement, name)
    elif isinstance(statement, ast.For | ast.AsyncFor) and assigned.value is None:
        yield from _element(script, statement.iter, assigned.index)
    elif assigned.value is not None:
        yield from _place(assigned.value, assigned.index)


def _bound_in_comprehension(script: Script, node: ast.Name) -> Iterator[Value]:
    for ancestor in script.ancestors(node):
        for each in getattr(ancestor, "generators", ()):
            targets = each.target.elts if isinstance(each.target, ast.Tuple) else [each.target]
            for place, target in enumerate(targets):
                if isinstance(target, ast.Name) and target.id == node.id:
                    yield from _element(script, each.iter, place if isinstance(each.target, ast.Tuple) else None)


def _element(script: Script, iterated: ast.expr, index: int | None) -> Iterator[Value]:
    """What a loop's variable is an element of."""
    name = script.called(iterated)
    if isinstance(iterated, ast.Call) and iterated.args:
        if name == "zip" and index is not None and index < len(iterated.args):
            yield from _element(script, iterated.args[index], None)
            return
        if name == "enumerate":
            if index == 1:
                yield from _element(script, iterated.args[0], None)
            return
        if name in ("reversed", "list", "tuple", "tqdm"):
            yield from _element(script, iterated.args[0], index)
            return
        if name == "range":
            return
    yield Value(iterated, index)


def arguments(script: Script, function: Function, parameter: str) -> list[Value]:
    """What a parameter is given where the script calls its function; its default where no call gives it."""
    names = [each.arg for each in [*function.args.posonlyargs, *function.args.args]]
    holder = script.parents.get(function)
    bound = bool(names) and names[0] in ("self", "cls") and isinstance(holder, ast.ClassDef)
    sites = script.calls(holder.name) if isinstance(holder, ast.ClassDef) and function.name == "__init__" else script.calls(function.name)
    given = []
    if parameter in names:
        place = names.index(parameter) - bound
        given = [each for site in sites if place >= 0 and (each := argument(site, place, parameter)) is not None]
    else:
        given = [key.value for site in sites for key in site.keywords if key.arg == parameter]
    return [Value(each) for each in given] or [Value(each) for each in (default(function, parameter),) if each is not None]


def default(function: Function, parameter: str) -> ast.expr | None:
    """A parameter's default value."""
    places = [*function.args.posonlyargs, *function.args.args]
    pairs = [*zip(reversed(places), reversed(function.args.defaults), strict=False)]
    pairs += [(each, value) for each, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if value is not None]
    return next((value for each, value in pairs if each.arg == parameter), None)


def _attribute(script: Script, node: ast.Attribute) -> list[Assigned]:
    """Assignments to an attribute: in its own class for self, else in the class that the object is of, or in any that has it."""
    by_name = script.once("attributes", lambda: _attributes(script))
    made = by_name.get(node.attr, [])
    if not made:
        return []
    owner = enclosing_class(script, node) if isinstance(node.value, ast.Name) and node.value.id == "self" else class_of(script, node.value)
    own = [assigned for kind, assigned in made if kind is owner]
    return own or ([] if owner is not None else [assigned for _, assigned in made])


def _attributes(script: Script) -> dict[str, list[tuple[ast.ClassDef | None, Assigned]]]:
    by_name: dict[str, list[tuple[ast.ClassDef | None, Assigned]]] = {}
    for (scope, name), made in script.assigned.items():
        if name.startswith("self.") and name.count(".") == 1:
            kind = enclosing_class(script, scope)
            by_name.setdefault(name.removeprefix("self."), []).extend((kind, each) for each in made)
    return by_name


def enclosing_class(script: Script, node: ast.AST) -> ast.ClassDef | None:
    """The class that a node is in."""
    return next((ancestor for ancestor in script.ancestors(node) if isinstance(ancestor, ast.ClassDef)), None)


def stored(script: Script, node: ast.Name | ast.Attribute) -> Iterator[Value]:
    """What is put into a list or an array: x.append(v), x.insert(0, v), x[i] = v."""
    by_name = script.once("stored", lambda: _all_stored(script))
    name = node.attr if isinstance(node, ast.Attribute) else node.id
    scope = script.scope(node)
    for where, is_attribute, value in by_name.get(name, ()):
        if is_attribute == isinstance(node, ast.Attribute) and (is_attribute or script.scope(where) in (scope, script.tree)):
            yield value


def _all_stored(script: Script) -> dict[str, list[tuple[ast.stmt, bool, Value]]]:
    by_name: dict[str, list[tuple[ast.stmt, bool, Value]]] = {}

    def note(container: ast.expr, statement: ast.stmt, value: Value) -> None:
        if isinstance(container, ast.Name | ast.Attribute):
            by_name.setdefault(words.own_name(container), []).append((statement, isinstance(container, ast.Attribute), value))

    for call in script.calls("append", "insert", "appendleft"):
        if isinstance(call.func, ast.Attribute) and call.args:
            note(call.func.value, script.statement(call), Value(call.args[-1]))
    for node in script.all(ast.Assign):
        for target in node.targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            for place, part in enumerate(parts):
                if isinstance(part, ast.Subscript) and not isinstance(node.value, ast.Constant):
                    for value in _place(node.value, place if isinstance(target, ast.Tuple) else None):
                        note(part.value, node, value)
    return by_name


def _entries(script: Script) -> dict[str, list[Value]]:
    """Entries of the script's dictionaries by their keys: {"adv": x} and dict(adv=x)."""
    return script.once("dictionary entries", lambda: _all_entries(script))


def _all_entries(script: Script) -> dict[str, list[Value]]:
    entries: dict[str, list[Value]] = {}
    for node in script.all(ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                entries.setdefault(key.value, []).append(Value(value))
    for call in script.calls("dict", "SimpleNamespace", "TensorDict", "Namespace"):
        for keyword in call.keywords:
            if keyword.arg:
                entries.setdefault(keyword.arg, []).append(Value(keyword.value))
    return entries


def _fields(script: Script) -> dict[str, list[Value]]:
    """Fields of records that the script makes: SimpleNamespace(adv=x), and named tuples and dataclasses by place and by name."""
    fields: dict[str, list[Value]] = {}
    for call in script.calls("SimpleNamespace", "Namespace"):
        for keyword in call.keywords:
            if keyword.arg:
                fields.setdefault(keyword.arg, []).append(Value(keyword.value))
    for kind in script.classes:
        names = [
            statement.target.id
            for statement in kind.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        ]
        if not any(words.own_name(base) == "NamedTuple" for base in kind.bases) and not kind.decorator_list:
            continue
        for call in script.calls(kind.name) if names else ():
            if not any(isinstance(each, ast.Starred) for each in call.args):
                for name, value in zip(names, call.args, strict=False):
                    fields.setdefault(name, []).append(Value(value))
                for each in call.keywords:
                    if each.arg in names:
                        fields.setdefault(str(each.arg), []).append(Value(each.value))
    return fields


# ── functions and classes ──


def class_of(script: Script, node: ast.AST) -> ast.ClassDef | None:
    """The script's class that an object is of; None if the script does not show it."""
    return script.following(("class", node), lambda: _class_of(script, node), None)


def _class_of(script: Script, node: ast.AST) -> ast.ClassDef | None:
    if isinstance(node, ast.Name) and node.id == "self":
        return enclosing_class(script, node)
    if isinstance(node, ast.Call):
        name = script.last(node)
        if name in SAME_NETWORK:
            inner = node.func.value if isinstance(node.func, ast.Attribute) and not node.args else node.args[0] if node.args else None
            if isinstance(node.func, ast.Attribute) and words.own_name(node.func.value) not in ("copy", "torch"):
                inner = node.func.value
            return class_of(script, inner) if inner is not None else None
        return classes(script).get(name)
    kinds = {class_of(script, value.node) for value in sources(script, node) if value.place is None}
    return kinds.pop() if len(kinds) == 1 else None


def classes(script: Script) -> dict[str, ast.ClassDef]:
    """The script's classes by their names."""
    return script.once("classes by name", lambda: {each.name: each for each in script.classes})


def function_of(script: Script, call: ast.Call) -> Function | None:
    """The script's own function that a call runs: a function, a method, or the forward of a network."""
    return script.following(("function", call), lambda: _function_of(script, call), None)


def _function_of(script: Script, call: ast.Call) -> Function | None:
    by_name = script.once("functions by name", lambda: _functions(script))
    if isinstance(call.func, ast.Name):
        plain = [each for each in by_name.get(call.func.id, []) if not isinstance(script.parents.get(each), ast.ClassDef)]
        if plain:
            return plain[-1]
        if call.func.id in classes(script):
            return None
    elif isinstance(call.func, ast.Attribute) and call.func.attr in by_name:
        kind = class_of(script, call.func.value)
        if kind is not None:
            own = [each for each in by_name[call.func.attr] if script.parents.get(each) is kind]
            return own[-1] if own else None
        methods = by_name[call.func.attr]
        known = isinstance(call.func.value, ast.Name) and call.func.value.id in script.imports
        return methods[0] if len(methods) == 1 and not known and isinstance(script.parents.get(methods[0]), ast.ClassDef) else None
    kind = class_of(script, call.func)
    own = [
        each for name in ("forward", "__call__") for each in by_name.get(name, []) if kind is not None and script.parents.get(each) is kind
    ]
    return own[0] if own else None


def _functions(script: Script) -> dict[str, list[Function]]:
    by_name: dict[str, list[Function]] = {}
    for function in script.functions:
        by_name.setdefault(function.name, []).append(function)
    return by_name


def returned(script: Script, function: Function) -> list[ast.expr]:
    """The values that a function returns."""
    by_function = script.once("returned", lambda: _returned(script))
    return [each.value for each in by_function.get(function, []) if each.value is not None]


def _returned(script: Script) -> dict[ast.AST, list[ast.Return]]:
    by_function: dict[ast.AST, list[ast.Return]] = {}
    for each in script.all(ast.Return):
        by_function.setdefault(script.scope(each), []).append(each)
    return by_function


# ── what a value is made of ──


def made_of(
    script: Script, node: ast.AST, stop: Callable[[ast.AST], bool] = lambda node: False, index: int | None = None
) -> Iterator[Value]:
    """Every expression that takes part in a value, from the outside in; nothing below one at which to stop."""
    pending: list[tuple[ast.AST, int | None]] = [(node, index)]
    seen: set[tuple[ast.AST, int | None]] = set()
    while pending and len(seen) < MOST_PARTS:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        part, place = current
        if isinstance(part, ast.expr):
            yield Value(part, place)
        if stop(part):
            continue
        pending.extend(reversed([(each.node, each.place) for each in _parts(script, part, place)]))


def _parts(script: Script, node: ast.AST, index: int | None) -> list[Value]:
    followed = sources(script, node, index)
    if isinstance(node, ast.Name):
        return followed
    if isinstance(node, ast.Attribute):
        return followed or ([] if isinstance(node.value, ast.Name) else [Value(node.value)])
    if isinstance(node, ast.Subscript):
        return followed
    if isinstance(node, ast.Call):
        if followed:
            return followed
        held = node.func.value if isinstance(node.func, ast.Attribute) and words.own_name(node.func.value) not in MODULES else None
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        return [Value(each) for each in ([held] if held is not None else []) + given]
    if isinstance(node, ast.IfExp):
        return [Value(node.body), Value(node.orelse)]
    if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        return [Value(node.elt)]
    return [Value(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


# ── ends of episodes ──


def ends(script: Script, node: ast.AST) -> set[str]:
    """Which ends of an episode a flag holds: "terminated", "truncated", or both."""
    held = set()
    for part, index in made_of(script, node, lambda part: isinstance(part, ast.Compare) or script.last(part) == "step"):
        if isinstance(part, ast.Call) and script.last(part) == "step" and _unpacks_five(script, part):
            held |= {"terminated"} if index == 2 else {"truncated"} if index == 3 else set()
        elif isinstance(part, ast.Name) and not sources(script, part):
            held |= ({"terminated"} if words.TERMINATED(part.id) else set()) | ({"truncated"} if words.TRUNCATED(part.id) else set())
    return held


def _unpacks_five(script: Script, call: ast.Call) -> bool:
    statement = script.statement(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return isinstance(target, ast.Tuple) and len(target.elts) == STEP_VALUES


def polarity(script: Script, node: ast.AST) -> int:
    """1 for what is true at an end, -1 for what is true everywhere else, 0 for what is no flag, or not known to be one."""
    return script.following(("polarity", node), lambda: _polarity(script, node), 0)


def _polarity(script: Script, node: ast.AST) -> int:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert | ast.Not):
        return -polarity(script, node.operand)
    if isinstance(node, ast.BinOp):
        one = isinstance(node.left, ast.Constant) and node.left.value in (1, True)
        return -polarity(script, node.right) if one and isinstance(node.op, ast.Sub) else 0
    if isinstance(node, ast.BoolOp):
        return max((polarity(script, each) for each in node.values), default=0)
    if isinstance(node, ast.IfExp):
        values = [script.constant(node.body), script.constant(node.orelse)]
        return polarity(script, node.test) * (1 if values == [1, 0] else -1 if values == [0, 1] else 0)
    if isinstance(node, ast.Call):
        if script.last(node) == "logical_not" and node.args:
            return -polarity(script, node.args[0])
        if script.last(node) in ("logical_or", "maximum") and node.args:
            return polarity(script, node.args[0])
        if script.last(node) in SAME_FLAG:
            held = node.func.value if isinstance(node.func, ast.Attribute) and words.own_name(node.func.value) not in MODULES else None
            inner = held if held is not None else node.args[0] if node.args else None
            return polarity(script, inner) if inner is not None else 0
        if script.last(node) == "step":
            return 0
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        known = {polarity(script, source.node) for source in sources(script, node) if source.place is None} - {0}
        unpacked = {source.place for source in sources(script, node) if script.last(source.node) == "step"}
        if unpacked & {2, 3}:
            return 1
        if len(known) == 1:
            return known.pop()
        name = words.own_name(node)
        return -1 if words.NOT_ENDED(name) else 1 if words.END(name) else 0
    return 0


# ── names ──


def named_values(script: Script) -> list[tuple[str, ast.expr, ast.stmt]]:
    """Every name with the values that it gets; what a function returns (of several values the first) has the function's name."""
    return script.once("named values", lambda: _named_values(script))


def _named_values(script: Script) -> list[tuple[str, ast.expr, ast.stmt]]:
    values = list(script.named)
    for each in script.all(ast.Return):
        function = script.scope(each)
        if each.value is not None and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            value = each.value.elts[0] if isinstance(each.value, ast.Tuple) and each.value.elts else each.value
            values.append((function.name, value, each))
    return sorted(values, key=lambda each: position(each[2]))
