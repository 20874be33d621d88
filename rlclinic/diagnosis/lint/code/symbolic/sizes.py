"""Whether a value of a batch is a row [N] or a column [N, 1], by how it was made."""

from typing import Final

from rlclinic.diagnosis.lint.code.symbolic import formulas
from rlclinic.diagnosis.lint.code.symbolic.execution import Items, Symbol, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called

_KEEPING: Final = frozenset(
    {"to", "float", "cpu", "cuda", "numpy", "detach", "clone", "astype", "as_tensor", "tensor", "FloatTensor", "from_numpy", "array",
     "asarray", "type", "long", "double", "clamp", "clip", "exp", "log", "abs", "sqrt", "contiguous", "int", "tanh", "square", "pow",
     "int64", "float32", "bool", "Tensor", "minimum", "maximum"}
)  # fmt: skip


def shape(value: Value, depth: int = 16) -> str | None:
    """row, column, or None where the script does not show it."""
    if depth == 0:
        return None
    if isinstance(value, Items):
        return None
    if not isinstance(value, Symbol):
        return None
    name = called(value)
    if value.op == "out":
        if width(value.args[0]) != 1:
            return None
        return (
            "column"
            if any(_is_batch(argument) for argument in value.args[1:])
            else "single"
            if any(_is_one(argument) for argument in value.args[1:])
            else None
        )
    if value.op == "read":
        return _of_array(value)
    if value.op == "column":
        inner = [origin for origin in formulas.origins(value.args[0]) if origin.op != "const"]
        return "row" if inner and all(each.op == "stepped" and each.data[0] in (1, 2, 3) for each in inner) else None
    if name in ("squeeze", "flatten", "ravel") or (name in ("view", "reshape") and _sizes(value) == [-1]):
        return "row" if shape(value.args[0], depth - 1) in ("row", "column") else None
    if name == "unsqueeze" or (name in ("view", "reshape") and _sizes(value) == [-1, 1]):
        return "column" if shape(value.args[0], depth - 1) == "row" else None
    if (
        name in ("stack", "cat", "concatenate", "as_tensor", "tensor", "array", "FloatTensor")
        and value.args
        and isinstance(value.args[0], Items)
    ):
        return _of_list(value.args[0], name, depth)
    if name in ("view", "reshape", "stack", "cat", "expand", "repeat", "transpose"):
        return None
    if name == "gather":
        return "column" if len(value.args) > 2 and _is_column_of_indices(value.args[2]) else None
    if name in ("mean", "sum", "max", "min", "amax", "amin", "argmax", "log_prob", "entropy"):
        return None
    if value.op == "item":
        holder = value.args[0]
        if called(holder) in ("max", "min") and isinstance(holder, Symbol) and _reduces(holder):
            return "row" if not _keeps(holder) else "column"
        return None
    if value.op == "attribute" and value.data == "values" and called(value.args[0]) in ("max", "min"):
        return shape(Symbol("item", value.args, value.node, 0), depth - 1)
    if name in ("min", "minimum", "max", "maximum") and len(value.args) == 2:
        return _of_both(value, depth)
    if name in _KEEPING and value.args:
        return shape(value.args[0], depth - 1)
    if value.op in ("Add", "Sub", "Mult", "Div"):
        return _of_both(value, depth)
    if value.op == "USub":
        return shape(value.args[0], depth - 1)
    if value.op == "carried":
        return shape(value.args[0], depth - 1)
    return None


def _of_list(listed: Items, name: str, depth: int) -> str | None:
    """What a list of values is as one tensor."""
    if not listed.is_open or not listed.items:
        return None
    if name in ("as_tensor", "tensor", "array", "FloatTensor"):
        made = [origin for item in listed.items for origin in formulas.origins(item) if origin.op != "const"]
        return "row" if made and all(each.op == "stepped" and each.data[0] in (1, 2, 3) for each in made) else None
    inner = {shape(each, depth - 1) for each in listed.items}
    if inner == {"single"}:
        return "column" if name == "stack" else "row"
    arrays = [each for each in listed.items if isinstance(each, Symbol) and each.op == "array"]
    if name in ("cat", "concatenate") and len(arrays) == len(listed.items) and all(_dimensions(array) == 1 for array in arrays):
        return "row"
    return None


def _dimensions(array: Symbol) -> int | None:
    if not array.args or array.data not in ("zeros", "empty", "ones"):
        return None
    size = array.args[0]
    return len(size.items) if isinstance(size, Items) else 1


def _is_one(value: Value) -> bool:
    """An observation of one environment, as it is."""
    while isinstance(value, Symbol) and called(value) in ("as_tensor", "tensor", "from_numpy", "float", "FloatTensor", "to") and value.args:
        value = value.args[0]
    made = formulas.origins(value)
    return (
        bool(made)
        and isinstance(value, Symbol)
        and value.op in ("stepped", "observed", "phi", "carried")
        and all(each.op in ("stepped", "observed") and _is_single_env(each) for each in made)
    )


def _is_single_env(value: Symbol) -> bool:
    inner: Value = value
    while isinstance(inner, Symbol) and inner.op != "env" and inner.args:
        inner = inner.args[0]
    return isinstance(inner, Symbol) and inner.op == "env" and inner.data == "make"


def _of_both(value: Symbol, depth: int) -> str | None:
    shapes = [
        shape(argument, depth - 1) for argument in value.args if formulas.number(argument) is None and not formulas.is_scalar(argument)
    ]
    known = {each for each in shapes if each and each != "single"}
    return known.pop() if len(known) == 1 else None


def _of_array(value: Symbol) -> str | None:
    """Rows of an array that were drawn from it."""
    array, key = value.args[0], value.args[1] if len(value.args) > 1 else None
    if not (isinstance(array, Symbol) and array.op == "array" and array.data in ("zeros", "empty", "ones") and array.args and is_many(key)):
        return None
    size = array.args[0]
    numbers: list[Value] = list(size.items) if isinstance(size, Items) else [size]
    if (
        len(array.args) > 1
        and not isinstance(size, Items)
        and isinstance(array.args[1], Symbol)
        and formulas.number(array.args[1]) is not None
    ):
        numbers = [argument for argument in array.args if isinstance(argument, Symbol) and argument.op != "ext"]
    if len(numbers) == 1:
        return "row"
    return "column" if len(numbers) == 2 and formulas.number(numbers[1]) == 1 else None


def is_many(key: Value | None) -> bool:
    """Indices that were drawn at random."""
    return isinstance(key, Symbol) and any(
        called(part) in ("randint", "choice", "integers", "randperm", "permutation", "sample") for part in formulas.parts(key)
    )


def _is_batch(value: Value) -> bool:
    """Rows that were drawn from arrays, or columns of a sampled list."""
    for part in formulas.parts(value, into_networks=False, into_arrays=False):
        if part.op == "read" and is_many(part.args[1] if len(part.args) > 1 else None):
            return True
        if part.op == "column" or (
            called(part) in ("concatenate", "cat", "stack", "array", "as_tensor", "tensor")
            and part.args
            and isinstance(part.args[0], Items)
            and part.args[0].is_open
        ):
            return True
    return False


def _sizes(value: Symbol) -> list[float | None]:
    return [formulas.number(argument) for argument in value.args[1:]]


def _is_column_of_indices(value: Value) -> bool:
    if not isinstance(value, Symbol):
        return False
    if called(value) == "unsqueeze" or (called(value) in ("view", "reshape") and _sizes(value) == [-1, 1]):
        return True
    if called(value) in ("argmax", "max", "argmin"):
        return _keeps(value)
    if called(value) in _KEEPING and value.args:
        return _is_column_of_indices(value.args[0])
    return value.op == "item" and isinstance(value.args[0], Symbol) and _is_none_index(value)


def _is_none_index(value: Symbol) -> bool:
    key = value.args[1] if len(value.args) > 1 else None
    return isinstance(key, Items) and any(isinstance(each, Symbol) and each.op == "const" and each.data is None for each in key.items)


def _keeps(value: Symbol) -> bool:
    kept = value.keys.get("keepdim") or value.keys.get("keepdims")
    return (isinstance(kept, Symbol) and kept.data is True) or (
        len(value.args) > 2 and isinstance(value.args[2], Symbol) and value.args[2].data is True
    )


def _reduces(value: Symbol) -> bool:
    return len(value.args) > 1 or bool(value.keys)


def width(network: Value) -> int | None:
    """Outputs of a network that ends in a linear layer."""
    if not isinstance(network, Symbol) or network.op != "net":
        return None
    if network.data == "Linear":
        given = network.args[1] if len(network.args) > 1 else network.keys.get("out_features")
        number = formulas.number(given)
        return int(number) if number is not None else None
    if network.data == "Sequential" and network.args:
        return width(network.args[-1])
    return None
