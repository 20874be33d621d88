"""Networks as a script builds them: their last layers, which modules there are, which optimizers hold them."""

import ast
from collections.abc import Iterator

from rlclinic.diagnosis.lint.code.reading import flow, words
from rlclinic.diagnosis.lint.code.reading.script import Script, argument, keyword, position

CONTAINERS = frozenset({"Sequential", "Linear", "Conv2d", "LSTM", "GRU", "LSTMCell", "GRUCell", "MLP"})
WRAPPERS = frozenset({"layer_init", "init_", "init_layer", "orthogonal_init", "spectral_norm"})
GRADIENT_ENDS = frozenset(
    {"detach", "item", "numpy", "tolist", "argmax", "argmin", "sample", "step", "tensor", "Tensor", "FloatTensor", "LongTensor",
     "from_numpy", "float", "int", "as_tensor", "array", "zeros_like", "ones_like", "randn_like", "arange", "multinomial", "stop_gradient"}
)  # fmt: skip
OPTIMIZERS = frozenset({"Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Lamb", "Lion", "Adamax", "LBFGS"})


def module_classes(script: Script) -> set[str]:
    """Names of the script's classes that are networks."""
    return script.once("module classes", lambda: _module_classes(script))


def _module_classes(script: Script) -> set[str]:
    names: set[str] = set()
    for _ in range(3):  # a network may extend another one of the script
        names |= {
            kind.name for kind in script.classes if any(_is_module(script, base) or script.dotted(base) in names for base in kind.bases)
        }
    return names


def _is_module(script: Script, base: ast.AST) -> bool:
    name = script.dotted(base)
    return name.endswith((".Module", ".LightningModule"))


def modules(script: Script) -> dict[str, ast.AST]:
    """Networks outside of networks: the names they are kept under, and the statement that makes them."""
    return script.once("modules", lambda: _modules(script))


def _modules(script: Script) -> dict[str, ast.AST]:
    inside = {node for kind in script.classes if kind.name in module_classes(script) for node in ast.walk(kind)}
    modules: dict[str, ast.AST] = {}
    for name, value, where in script.named:
        if where not in inside and makes_network(script, value):
            modules.setdefault(name, where)
    return modules


def makes_network(script: Script, value: ast.AST) -> bool:
    """Whether an expression makes a network: one of the script's classes, a container of layers, a copy, or a function that returns one."""
    return script.following(("makes network", value), lambda: _makes_network(script, value), False)


def _makes_network(script: Script, value: ast.AST) -> bool:
    if not isinstance(value, ast.Call):
        return False
    if script.last(value) in flow.SAME_NETWORK:
        inner = (
            value.args[0] if value.args and words.own_name(value.func) in ("deepcopy", "compile") else getattr(value.func, "value", None)
        )
        return inner is not None and (
            makes_network(script, inner) or any(makes_network(script, source.node) for source in flow.sources(script, inner))
        )
    if script.last(value) in module_classes(script) or script.called(value) in {f"torch.nn.{name}" for name in CONTAINERS}:
        return True
    function = flow.function_of(script, value)
    returned = [] if function is None else flow.returned(script, function)
    # model = nn.Sequential(…); return model
    made = [*returned, *(source.node for each in returned if isinstance(each, ast.Name) for source in flow.sources(script, each))]
    return any(script.last(each) == "Sequential" for each in made)


def optimizers(script: Script) -> dict[str, ast.Call]:
    """Optimizers: the names they are kept under, and the call that makes them."""
    by_name: dict[str, ast.Call] = {}
    for name, value, _ in script.named:
        made = script.called(value)
        if (
            isinstance(value, ast.Call)
            and (script.last(value) in OPTIMIZERS or made.startswith("torch.optim."))
            and "lr_scheduler" not in made
        ):
            by_name[name] = value
    for node in script.all(ast.Assign):
        # net, optimizer = fabric.setup(net, Adam(…)); net, optimizer, loader = accelerator.prepare(…)
        target = node.targets[0]
        if isinstance(node.value, ast.Call) and script.last(node.value) in ("setup", "prepare") and isinstance(target, ast.Tuple):
            for part, given in zip(target.elts, node.value.args, strict=False):
                handed = script.resolve(given)
                if isinstance(handed, ast.Call) and script.last(handed) in OPTIMIZERS and script.dotted(part):
                    by_name[script.dotted(part)] = handed
    for (_, name), assigned in script.assigned.items():  # a Lightning module asks for those that it configured
        for each in assigned:
            if isinstance(each.value, ast.Call) and script.last(each.value) == "optimizers":
                by_name[name] = each.value
    return by_name


def configured_optimizers(script: Script) -> list[ast.Call]:
    """Optimizers that a Lightning module returns."""
    functions = [function for function in script.functions if function.name == "configure_optimizers"]
    return [call for function in functions for call in script.inside(function, ast.Call) if script.last(call) in OPTIMIZERS]


def held_by(script: Script, optimizer: ast.Call) -> set[str] | None:
    """Names whose parameters an optimizer got; None if the script does not show it."""
    params = argument(optimizer, 0, "params")
    if params is None:
        return None
    given = script.resolve(params)
    owners = {script.owner(call) for call in script.calls("parameters", "named_parameters", within=given)}
    names = {script.dotted(node) for node in ast.walk(given) if isinstance(node, ast.Name | ast.Attribute)}
    listed = isinstance(given, ast.List | ast.Tuple) and all(isinstance(elt, ast.Name | ast.Attribute) for elt in given.elts)
    return owners | names if owners or listed else None


# ── last layers ──


def last_layer(script: Script, value: ast.AST) -> str:
    """What the network that a call asks ends with: Linear, Softmax, Tanh, …; "" if the script does not show it."""
    if not isinstance(value, ast.Call):
        return ""
    layer = ends_with(script, _made(script, value.func))
    function = script.scope(value)
    if layer or not isinstance(function, ast.FunctionDef) or not isinstance(value.func, ast.Name):
        return layer
    # A parameter: the networks that its function is called with.
    given = {ends_with(script, script.resolve(each.node)) for each in flow.arguments(script, function, value.func.id)}
    return given.pop() if len(given) == 1 else ""


def _made(script: Script, called: ast.AST) -> ast.AST:
    name = script.dotted(called)
    assigned = script.anywhere(name, called)
    values = [each.value for each in assigned if each.value is not None and each.index is None]
    return values[0] if len(values) == 1 else called


def ends_with(script: Script, value: ast.AST) -> str:
    """The last layer of nn.Sequential(…), or of a class of the script whose forward returns it."""
    while isinstance(value, ast.Call) and script.last(value) in (*WRAPPERS, "to", "cuda"):
        value = (
            value.args[0]
            if value.args and script.last(value) in WRAPPERS
            else value.func.value
            if isinstance(value.func, ast.Attribute)
            else value
        )
        if not isinstance(value, ast.Call):
            return ""
    if script.last(value) == "Sequential" and isinstance(value, ast.Call) and value.args and not isinstance(value.args[-1], ast.Starred):
        inner = value.args[-1]
        return ends_with(script, inner) if script.last(inner) in (*WRAPPERS, "Sequential") else script.last(inner)
    if script.last(value) == "Linear":
        return "Linear"
    return _forward(script, script.last(value))


def _forward(script: Script, kind: str) -> str:
    owner = next((each for each in script.classes if each.name == kind and kind in module_classes(script)), None)
    forward = next(
        (
            statement
            for statement in (owner.body if owner else [])
            if isinstance(statement, ast.FunctionDef) and statement.name == "forward"
        ),
        None,
    )
    returned = [node.value for node in ast.walk(forward) if isinstance(node, ast.Return)] if forward else []
    if len(returned) != 1 or returned[0] is None:
        return ""
    value = script.resolve(returned[0])
    if script.last(value) in ("softmax", "tanh", "sigmoid", "relu"):
        return {"softmax": "Softmax"}.get(script.last(value), script.last(value).title())
    return last_layer(script, value) if isinstance(value, ast.Call) else ""


def width_of(script: Script, value: ast.AST) -> int | None:
    """How many outputs the network that a call asks has; None if the script does not show it."""
    if not isinstance(value, ast.Call):
        return None
    widths = {_width(script, source.node) for source in flow.sources(script, value.func) if source.place is None}
    return widths.pop() if len(widths) == 1 else None


def _width(script: Script, made: ast.AST) -> int | None:
    """Outputs of nn.Linear(…, n), of a container that ends in it, of a function that returns one, and of what wraps them."""
    if not isinstance(made, ast.Call):
        return None
    name = script.last(made)
    if name in (*WRAPPERS, "deepcopy") and made.args:
        return _width(script, made.args[0])
    if name in flow.SAME_NETWORK and isinstance(made.func, ast.Attribute):
        return _width(script, made.func.value)
    if name == "Sequential" and made.args:
        return _width(script, made.args[-1])
    if name == "Linear":
        width = script.constant(argument(made, 1, "out_features"))
        return None if width is None else int(width)
    function = flow.function_of(script, made)
    if function is None or not makes_network(script, made):
        return None
    sizes = next((each for each in made.args if isinstance(each, ast.List | ast.Tuple)), None)
    if sizes is not None and sizes.elts:
        width = script.constant(sizes.elts[-1])
        return None if width is None else int(width)
    layers = script.calls("Linear", within=function)
    last = words.own_name(argument(layers[-1], 1, "out_features") or layers[-1]) if layers else ""
    names = [each.arg for each in function.args.args]
    given = argument(made, names.index(last), last) if last in names else None
    width = script.constant(given)
    return None if width is None else int(width)


def returned(script: Script, call: ast.Call, index: int | None = None) -> ast.AST | None:
    """What a function of the script returns, or the forward of one of its networks: the whole, or one of several values."""
    function = next((each for each in script.functions if each.name == script.last(call)), None)
    if function is None:
        kind = script.last(_made(script, call.func))
        owner = next((each for each in script.classes if each.name == kind), None)
        function = next(
            (
                statement
                for statement in (owner.body if owner else [])
                if isinstance(statement, ast.FunctionDef) and statement.name == "forward"
            ),
            None,
        )
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)] if function is not None else []
    if len(values) != 1 or values[0] is None:
        return None
    whole = values[0]
    if index is None:
        return whole
    return whole.elts[index] if isinstance(whole, ast.Tuple) and index < len(whole.elts) else None


def origin(script: Script, node: ast.AST) -> ast.AST:
    """What a name was last set to, followed into a function of the script that returned it among others."""
    value = script.resolve(node)
    if value is node and isinstance(node, ast.Name):
        assigned = script.latest(node.id, node)
        if assigned is not None and assigned.index is not None and isinstance(assigned.value, ast.Call):
            return returned(script, assigned.value, assigned.index) or node
    return value


def _with_parameters(script: Script) -> set[str]:
    """Names whose parameters the script asks for: whatever they are called, they are networks."""
    asked = ("parameters", "state_dict", "load_state_dict", "named_parameters")
    return script.once("with parameters", lambda: {script.owner(call) for call in script.calls(*asked)} - {"", "self"})


def noisy_layers(script: Script) -> Iterator[ast.Call]:
    """Layers that act differently in training and evaluation."""
    for name in ("Dropout", "Dropout1d", "Dropout2d", "BatchNorm1d", "BatchNorm2d", "AlphaDropout"):
        yield from (call for call in script.calls(name) if keyword(call, "track_running_stats") is None)


def is_network_call(script: Script, node: ast.AST) -> bool:
    """Whether a call asks a network, by the script's own networks or by its name."""
    if not isinstance(node, ast.Call):
        return False
    name = script.dotted(node.func)
    if name in modules(script) or name in _with_parameters(script):
        return True
    return words.NETWORK(words.own_name(node.func)) or (
        isinstance(node.func, ast.Attribute)
        and words.NETWORK(words.own_name(node.func.value))
        and node.func.attr in ("forward", "get_value", "evaluate", "get_action_and_value", "value", "evaluate_actions", "act")
    )


def trains(script: Script) -> bool:
    """Whether the script learns: by backward, or as a Lightning module."""
    return bool(script.calls("backward")) or any(function.name == "training_step" for function in script.functions)


def target_copies(script: Script) -> dict[str, str]:
    """Networks that have a copy for their targets, and the copy: by deepcopy, by load_state_dict, or by their names."""
    return script.once("target copies", lambda: _target_copies(script))


def _target_copies(script: Script) -> dict[str, str]:
    copies = {}
    for name, value, _ in script.named:
        while (
            isinstance(value, ast.Call) and script.last(value) in ("requires_grad_", "eval", "to") and isinstance(value.func, ast.Attribute)
        ):
            value = value.func.value
        given = value.args[0] if isinstance(value, ast.Call) and script.last(value) == "deepcopy" and value.args else None
        if given is not None and words.TARGET(name.rpartition(".")[2]) and script.dotted(given):
            copies[script.dotted(given)] = name
    for call in script.calls("load_state_dict"):
        given = call.args[0] if call.args else None
        source = script.owner(given) if isinstance(given, ast.Call) and script.last(given) == "state_dict" else ""
        if source and words.TARGET(script.owner(call).rpartition(".")[2]) and not words.TARGET(source.rpartition(".")[2]):
            copies[source] = script.owner(call)
    for name, value, _ in script.named:
        if isinstance(value, ast.Name) and value.id in copies and not words.TARGET(name.rpartition(".")[2]):
            copies[name] = copies[value.id]
    for network, copy in list(copies.items()):
        # A copy of an actor and its critics has copies of all of them.
        for part in script.all(ast.Attribute):
            if script.dotted(part.value) == network:
                copies.setdefault(f"{network}.{part.attr}", f"{copy}.{part.attr}")
    return copies


# ── gradients ──


def gradient(script: Script, node: ast.AST) -> ast.Call | None:
    """The call of a network whose gradient reaches a value; None if there is none, or the script does not show it."""

    def ends_here(part: ast.AST) -> bool:
        if isinstance(part, ast.Compare | ast.BoolOp | ast.Constant):
            return True
        if isinstance(part, ast.Attribute) and part.attr in ("data", "indices", "shape"):
            return True
        if isinstance(part, ast.Call) and (script.last(part) in GRADIENT_ENDS or is_network(script, part)):
            return True
        return isinstance(part, ast.expr) and hasattr(part, "lineno") and _is_free(script, part)

    for value in flow.made_of(script, node, ends_here):
        if isinstance(value.node, ast.Call) and is_network(script, value.node) and not _is_free(script, value.node):
            return value.node
    return None


def _is_free(script: Script, node: ast.AST) -> bool:
    statement = script.statement(node)
    return script.once(("no gradient", statement), lambda: script.is_without_gradient(node))


def is_network(script: Script, node: ast.AST) -> bool:
    """Whether a call asks a network: one that the script shows, or one that is called so."""
    if not isinstance(node, ast.Call) or script.last(node) in flow.SAME_NETWORK or script.last(node)[:1].isupper():
        return False
    kind = flow.class_of(script, node.func)
    if kind is not None:
        return kind.name in module_classes(script)
    if flow.function_of(script, node) is not None:
        return False
    return is_network_call(script, node) or any(makes_network(script, value.node) for value in flow.sources(script, node.func))


def is_networks_value(script: Script, node: ast.AST) -> bool:
    """Whether a value is asked of a network, possibly through functions of the script and unpacking, without arithmetic."""
    stop = lambda part: isinstance(part, ast.BinOp | ast.Compare) or is_network(script, part)  # noqa: E731
    parts = [value.node for value in flow.made_of(script, node, stop)]
    return any(is_network(script, part) for part in parts) and not any(isinstance(part, ast.BinOp) for part in parts)


def gradient_before(script: Script, step: ast.AST) -> ast.AST:
    """The backward() whose gradients an optimizer's step takes, where both stand in one run of statements; else the step."""
    # What is followed symbolically is a tree of its own: places are the same.
    own = next((call for call in script.calls("step") if position(call) == position(step)), None)
    statement = script.statement(own) if own is not None else None
    holder = script.parents.get(statement) if statement is not None else None
    for block in (getattr(holder, field, None) or [] for field in ("body", "orelse", "finalbody")):
        before = block[: block.index(statement)] if statement in block else []
        called = [
            call for each in before if isinstance(each, ast.Expr) for call in script.calls("backward", "manual_backward", within=each)
        ]
        if called:
            return called[-1]
    return step
