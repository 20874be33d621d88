"""Networks as a script builds them: their last layers, which modules there are, which optimizers hold them."""

import ast
from collections.abc import Iterator

from rlclinic.diagnosis.lint.code import words
from rlclinic.diagnosis.lint.code.script import Script, argument, keyword

CONTAINERS = frozenset({"Sequential", "Linear", "Conv2d", "LSTM", "GRU", "LSTMCell", "GRUCell", "MLP"})
WRAPPERS = frozenset({"layer_init", "init_", "init_layer", "orthogonal_init", "spectral_norm"})
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
    return name.endswith(".Module")


def modules(script: Script) -> dict[str, ast.AST]:
    """Networks outside of networks: the names they are kept under, and the statement that makes them."""
    return script.once("modules", lambda: _modules(script))


def _modules(script: Script) -> dict[str, ast.AST]:
    kinds = module_classes(script)
    inside = {node for kind in script.classes if kind.name in kinds for node in ast.walk(kind)}
    modules: dict[str, ast.AST] = {}
    for name, value, where in script.named:
        if where not in inside and _makes_network(script, value, kinds):
            modules.setdefault(name, where)
    return modules


def _makes_network(script: Script, value: ast.AST, kinds: set[str]) -> bool:
    while isinstance(value, ast.Call) and script.last(value) in (
        "to",
        "cuda",
        "compile",
        "train",
        "double",
        "float",
        "requires_grad_",
        "eval",
    ):
        value = (
            value.args[0]
            if script.last(value) == "compile" and value.args
            else value.func.value
            if isinstance(value.func, ast.Attribute)
            else value.args[0]
        )
    if not isinstance(value, ast.Call):
        return False
    return script.last(value) in kinds or script.called(value) in {f"torch.nn.{name}" for name in CONTAINERS}


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
    return by_name


def held_by(script: Script, optimizer: ast.Call) -> set[str] | None:
    """Names whose parameters an optimizer got; None if the script does not show it."""
    params = argument(optimizer, 0, "params")
    if params is None:
        return None
    given = script.resolve(params)
    owners = {script.owner(call) for call in script.calls("parameters", "named_parameters", within=given)}
    names = {script.dotted(each) for each in ast.walk(given) if isinstance(each, ast.Name | ast.Attribute)}
    listed = isinstance(given, ast.List | ast.Tuple) and all(isinstance(elt, ast.Name | ast.Attribute) for elt in given.elts)
    return owners | names if owners or listed else None


# ── last layers ──


def last_layer(script: Script, value: ast.AST) -> str:
    """What the network that a call asks ends with: Linear, Softmax, Tanh, …; "" if the script does not show it."""
    if not isinstance(value, ast.Call):
        return ""
    return ends_with(script, _made(script, value.func))


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
    forward = next((each for each in (owner.body if owner else []) if isinstance(each, ast.FunctionDef) and each.name == "forward"), None)
    returned = [each.value for each in ast.walk(forward) if isinstance(each, ast.Return)] if forward else []
    if len(returned) != 1 or returned[0] is None:
        return ""
    value = script.resolve(returned[0])
    if script.last(value) in ("softmax", "tanh", "sigmoid", "relu"):
        return {"softmax": "Softmax"}.get(script.last(value), script.last(value).title())
    return last_layer(script, value) if isinstance(value, ast.Call) else ""


def width_of(script: Script, value: ast.AST) -> int | None:
    """How many outputs the network that a call asks has; None if the script does not show it."""
    layer = _last_linear(script, _made(script, value.func)) if isinstance(value, ast.Call) else None
    width = None if layer is None else script.constant(argument(layer, 1, "out_features"))
    return None if width is None else int(width)


def _last_linear(script: Script, value: ast.AST) -> ast.Call | None:
    while isinstance(value, ast.Call) and script.last(value) in (*WRAPPERS, "to"):
        value = (
            value.args[0]
            if value.args and script.last(value) in WRAPPERS
            else value.func.value
            if isinstance(value.func, ast.Attribute)
            else value.args[0]
        )
    if not isinstance(value, ast.Call):
        return None
    if script.last(value) == "Sequential" and value.args:
        return _last_linear(script, value.args[-1])
    return value if script.last(value) == "Linear" else None


def returned(script: Script, call: ast.Call, index: int | None = None) -> ast.AST | None:
    """What a function of the script returns, or the forward of one of its networks: the whole, or one of several values."""
    function = next((each for each in script.functions if each.name == script.last(call)), None)
    if function is None:
        kind = script.last(_made(script, call.func))
        owner = next((each for each in script.classes if each.name == kind), None)
        function = next(
            (each for each in (owner.body if owner else []) if isinstance(each, ast.FunctionDef) and each.name == "forward"), None
        )
    values = [each.value for each in ast.walk(function) if isinstance(each, ast.Return)] if function is not None else []
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


def noisy_layers(script: Script) -> Iterator[ast.Call]:
    """Layers that act differently in training and evaluation."""
    for name in ("Dropout", "Dropout1d", "Dropout2d", "BatchNorm1d", "BatchNorm2d", "AlphaDropout"):
        yield from (call for call in script.calls(name) if keyword(call, "track_running_stats") is None)


def is_network_call(script: Script, node: ast.AST) -> bool:
    """Whether a call asks a network, by the script's own networks or by its name."""
    if not isinstance(node, ast.Call):
        return False
    name = script.dotted(node.func)
    if name in modules(script):
        return True
    return words.NETWORK(words.own_name(node.func)) or (
        isinstance(node.func, ast.Attribute)
        and words.NETWORK(words.own_name(node.func.value))
        and node.func.attr in ("forward", "get_value", "evaluate", "get_action_and_value", "value", "evaluate_actions", "act")
    )
