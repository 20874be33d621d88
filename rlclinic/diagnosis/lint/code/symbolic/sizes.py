"""The sizes of tensors, where a script shows them: rows [N], columns [N, 1], by how they were made."""

from collections.abc import Iterator
from typing import Final

from rlclinic.diagnosis.lint.code.symbolic import formulas
from rlclinic.diagnosis.lint.code.symbolic.execution import Items, Symbol, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called

Shape = tuple[int | str, ...]
BATCH: Final = "N"
LANES: Final = "E"
FEATURES: Final = "D"
MOST_DEEP: Final = 40
_KEEPING: Final = frozenset(
    {"to", "float", "cpu", "cuda", "numpy", "detach", "clone", "astype", "type", "long", "double", "clamp", "clip", "exp", "log", "abs",
     "sqrt", "contiguous", "tanh", "square", "pow", "int64", "float32", "relu", "softmax", "log_softmax", "sigmoid", "softplus", "copy",
     "requires_grad_", "bool", "nan_to_num", "type_as", "stop_gradient", "neg", "logical_not", "zeros_like", "ones_like", "randn_like",
     "rand_like", "full_like", "empty_like", "half", "cumsum", "flip", "clip_", "clamp_", "tolist", "list", "tuple", "reversed", "log1p",
     "nan_to_num_", "int", "round", "sign", "floor", "ceil", "device_put"}
)  # fmt: skip
_MADE_OF_LISTS: Final = frozenset(
    {"tensor", "as_tensor", "array", "asarray", "FloatTensor", "Tensor", "LongTensor", "BoolTensor", "from_numpy", "stack"}
)
_REDUCING: Final = frozenset(
    {"max", "min", "amax", "amin", "argmax", "argmin", "mean", "sum", "std", "var", "prod", "logsumexp", "any", "all", "norm"}
)
_JOINING: Final = frozenset({"minimum", "maximum", "min", "max", "fmin", "fmax", "logical_or", "logical_and", "add", "sub", "mul"})


def shape(value: Value, known: dict[int, Shape | None] | None = None, depth: int = MOST_DEEP) -> Shape | None:
    """The sizes of a value; None where the script does not show them."""
    known = {} if known is None else known
    if id(value) not in known:
        known[id(value)] = None
        if depth:
            known[id(value)] = _shape(value, known, depth - 1)
    return known[id(value)]


def clash(one: Shape | None, other: Shape | None) -> bool:
    """Whether [N] meets [N, 1]."""
    if one is None or other is None or len(one) == len(other):
        return False
    short, long = sorted((one, other), key=len)
    if len(long) != len(short) + 1 or not short or long[:-1] != short or short[-1] == 1:
        return False
    return long[-1] == 1


def clashes(one: Value, other: Value, known: dict[int, Shape | None]) -> bool:
    """Whether a column meets a row; a network's answer of unknown width can only be a column where the script runs at all."""
    first, second = shape(one, known), shape(other, known)
    if first is None or second is None or clash(first, second):
        return clash(first, second)
    if {first, second} & {(BATCH,)} and any(len(each) == 3 and each[0] == BATCH and each[1:] == (1, 1) for each in (first, second)):
        return True  # rows of an answer for one observation each, stacked: [N, 1, 1]
    (short, _), (long, answer) = sorted(((first, one), (second, other)), key=lambda pair: len(pair[0]))
    wide = len(long) == 2 and len(short) == 1 and long[:1] == short and short[0] in (BATCH, LANES) and long[1] == FEATURES
    return wide and bool(formulas.origins(answer)) and all(each.op == "out" for each in formulas.origins(answer))


def _shape(value: Value, known: dict[int, Shape | None], depth: int) -> Shape | None:
    if isinstance(value, Items):
        return _of_list(value, known, depth)
    if not isinstance(value, Symbol):
        return None
    name = called(value)
    if formulas.number(value) is not None:
        return ()
    if value.op == "out":
        return _of_answer(value, known, depth)
    if value.op in ("stepped", "observed"):
        return _of_step(value)
    if value.op in ("array", "weights"):
        return _of_array(value, known, depth)
    if value.op in ("read", "item"):
        return _indexed(value, known, depth)
    if value.op == "attribute":
        if value.data in ("values", "indices") and called(value.args[0]) in ("max", "min", "sort", "topk"):
            return _reduced(value.args[0], known, depth)
        if value.data in ("data", "T") and value.data == "data":
            return shape(value.args[0], known, depth)
        if value.data in ("mean", "probs", "logits", "loc") and isinstance(value.args[0], Symbol) and value.args[0].op == "dist":
            given = shape(value.args[0].args[0], known, depth) if value.args[0].args else None
            return given
        return () if formulas.is_scalar(value) else None
    if value.op == "column":
        inner = shape(value.args[0], known, depth)
        return None if inner is None else (BATCH, *inner)
    if value.op == "element":
        inner = shape(value.args[0], known, depth)
        return inner[1:] if inner else None
    if value.op in ("sampled", "reversed", "carried"):
        return next((found for found in (shape(each, known, depth) for each in value.args) if found is not None), None)
    if value.op == "phi":
        branches = [each for each in value.args[1:] if not (isinstance(each, Symbol) and each.op == "const")]
        held = {shape(each, known, depth) for each in branches if formulas.number(each) is None} - {None}
        return held.pop() if len(held) == 1 else None if held or branches else ()
    if value.op in ("Add", "Sub", "Mult", "Div", "Compare", "BitAnd", "BitOr", "Pow", "And", "Or"):
        return _broadcast([shape(each, known, depth) for each in value.args])
    if value.op in ("USub", "Not", "Invert"):
        return shape(value.args[0], known, depth)
    if value.op in ("method", "call") and value.args:
        return _of_call(value, name, known, depth)
    return () if formulas.is_scalar(value) or value.op == "index" else None


def _of_call(value: Symbol, name: str, known: dict[int, Shape | None], depth: int) -> Shape | None:
    first = value.args[0]
    if name in ("item", "len") or (value.op == "call" and name in ("float", "int", "bool") and isinstance(first, Symbol)):
        return ()
    if isinstance(first, Symbol) and first.op == "dist":
        return _of_distribution(value, first, name, known, depth)
    if name in _JOINING and len(value.args) == 2 and formulas.number(value.args[1]) is None:
        return _broadcast([shape(each, known, depth) for each in value.args])
    if name in _REDUCING:
        return _reduced(value, known, depth)
    if name == "where" and len(value.args) == 3:
        return _broadcast([shape(each, known, depth) for each in value.args])
    if name == "gather" and len(value.args) > 2:
        return shape(value.args[2], known, depth)
    inner = shape(first, known, depth)
    if name == "vstack":
        return None if inner is None else (inner[0], 1) if len(inner) == 1 else inner
    if name in ("cat", "concatenate", "hstack"):
        return _concatenated(value, inner)
    if inner is None:
        return (BATCH, 1) if name in ("view", "reshape") and _numbers(value) == [-1, 1] else None
    if name == "stack" and _axis(value) not in (None, 0):
        return None
    if name in _KEEPING or name in _MADE_OF_LISTS:
        return inner
    if name == "squeeze":
        axis = _axis(value)
        if axis is None:
            return tuple(size for size in inner if size != 1)
        return inner[:axis] + inner[axis:][1:] if -len(inner) <= axis < len(inner) and inner[axis] == 1 and axis >= 0 else (
            inner[: len(inner) + axis] + inner[len(inner) + axis + 1 :] if axis < 0 and -axis <= len(inner) and inner[axis] == 1 else inner
        )  # fmt: skip
    if name in ("unsqueeze", "expand_dims"):
        axis = _axis(value)
        if axis is None or not -len(inner) - 1 <= axis <= len(inner):
            return None
        place = axis if axis >= 0 else len(inner) + 1 + axis
        return (*inner[:place], 1, *inner[place:])
    if name in ("flatten", "ravel"):
        if len(value.args) > 2 and _numbers(value) == [0, 1] and len(inner) > 1:
            return (BATCH, *inner[2:])
        return (
            (BATCH,)
            if (len(value.args) == 1 and inner and BATCH in inner) or LANES in inner
            else (FEATURES,)
            if len(value.args) == 1
            else None
        )
    if name in ("view", "reshape"):
        return _reshaped(value, inner)
    return None


def _of_list(listed: Items, known: dict[int, Shape | None], depth: int) -> Shape | None:
    """What a list is as one tensor."""
    if not listed.items:
        return None
    inner = next((found for found in (shape(each, known, depth) for each in reversed(listed.items)) if found is not None), None)
    if inner is None:
        return None
    return (BATCH if listed.is_open else len(listed.items), *inner)


def _of_answer(value: Symbol, known: dict[int, Shape | None], depth: int) -> Shape | None:
    outputs = width(value.args[0]) if value.data != "linear" else _weights_width(value.args[0], 0)
    last: int | str = outputs if outputs is not None else FEATURES
    for given in value.args[1:]:
        asked = shape(given, known, depth)
        if asked:
            return (*asked[:-1], last) if not is_flattened(value.args[0]) else (BATCH,)
    return None


def is_flattened(network: Value) -> bool:
    """nn.Sequential(…, nn.Flatten(0)): the batch's own dimension is flattened, too, and a row is what comes out."""
    layers = network.args if isinstance(network, Symbol) and network.data == "Sequential" else ()
    last = next((each for each in reversed(layers) if not (isinstance(each, Symbol) and each.data in _SHAPELESS)), None)
    if not isinstance(last, Symbol) or last.op != "net" or last.data != "Flatten":
        return False
    return formulas.number(last.args[0] if last.args else last.keys.get("start_dim")) == 0


def _of_step(value: Symbol) -> Shape | None:
    lanes: Shape
    if _is_single_env(value):
        lanes = ()
    elif is_vector(value):
        lanes = (LANES,)
    else:
        return None
    place = value.data[0] if value.op == "stepped" else 0
    return (*lanes, FEATURES) if place == 0 else lanes if place in (1, 2, 3) else None


def _env_of(value: Symbol) -> Value:
    inner: Value = value
    while isinstance(inner, Symbol) and inner.op != "env" and inner.args:
        inner = inner.args[0]
    return inner


def _is_single_env(value: Symbol) -> bool:
    return is_single(_env_of(value))


def is_single(env: Value) -> bool:
    """Whether an environment is one of gym.make, whatever wraps it."""
    while isinstance(env, Symbol) and env.op == "env" and env.data != "make" and "Vec" not in str(env.data) and env.args:
        env = env.args[0]
    return isinstance(env, Symbol) and env.op == "env" and env.data == "make"


def is_vector(value: Symbol) -> bool:
    env = _env_of(value)
    return isinstance(env, Symbol) and env.op == "env" and ("Vec" in str(env.data) or "make_vec" in str(env.data))


def _of_array(array: Symbol, known: dict[int, Shape | None], depth: int) -> Shape | None:
    if array.op == "weights" and array.data not in ("zeros", "ones", "full"):
        return shape(array.args[0], known, depth) if array.data in ("Parameter", "tensor") and array.args else None
    if str(array.data).endswith("_like"):
        return shape(array.args[0], known, depth) if array.args else None
    if not array.args:
        return None
    size = array.args[0]
    joined = _joined_sizes(size)
    if joined is not None:
        return None if joined[1] is None else (*(_dimension(each) for each in joined[0]), *joined[1])
    numbers: list[Value] = list(size.items) if isinstance(size, Items) else [size]
    if not isinstance(size, Items) and array.data != "full":
        numbers = [each for each in array.args if (isinstance(each, Symbol) and each.op not in ("ext", "attribute")) or each is size]
    return tuple(_dimension(each) for each in numbers)


def _joined_sizes(value: Value) -> tuple[list[Value], Shape | None] | None:
    """(n, m) + space.shape: the sizes that are written, and those of the space; an action's may be none at all."""
    if not isinstance(value, Symbol) or value.op != "Add" or len(value.args) != 2 or not isinstance(value.args[0], Items):
        return None
    spaces = {str(part.data) for part in formulas.parts(value.args[1], into_networks=False) if part.op == "attribute"}
    is_observation = any("observation" in name for name in spaces) or any("obs" in name for name in spaces)
    return list(value.args[0].items), (FEATURES,) if is_observation else None


def _dimension(value: Value) -> int | str:
    number = formulas.number(value)
    if number is None and isinstance(value, Symbol):
        # len(x), x.shape[0], x.size(0)
        of = value.args[0] if called(value) in ("len", "size") and value.args else None
        if value.op in ("item", "read") and value.data == 0 and isinstance(value.args[0], Symbol) and value.args[0].data == "shape":
            of = value.args[0].args[0]
        inner = shape(of) if of is not None else None
        if of is not None:
            return inner[0] if inner else BATCH
    return int(number) if number is not None else FEATURES


def _indexed(value: Symbol, known: dict[int, Shape | None], depth: int) -> Shape | None:
    holder = value.args[0]
    if called(holder) in ("max", "min", "sort", "topk") and isinstance(holder, Symbol) and (_axis(holder) is not None):
        return _reduced(holder, known, depth)
    if called(holder) in ("chunk", "split", "tensor_split") and isinstance(holder, Symbol) and holder.args:
        inner = shape(holder.args[0], known, depth)
        axis = formulas.number(holder.keys.get("dim") or holder.keys.get("axis") or (holder.args[2] if len(holder.args) > 2 else None))
        return (*inner[:-1], FEATURES) if inner and axis is not None and int(axis) in (-1, len(inner) - 1) else None
    inner = shape(holder, known, depth)
    if inner is None:
        return None
    if len(value.args) == 1:
        return inner[1:] if inner and not isinstance(value.data, str) and value.data is not None else None
    key = value.args[1]
    keys: list[Value] = list(key.items) if isinstance(key, Items) else [key]
    return _picked(inner, keys)


def _picked(inner: Shape, keys: list[Value]) -> Shape | None:
    made: list[int | str] = []
    rest = list(inner)
    many = 0
    for place, key in enumerate(keys):
        if isinstance(key, Symbol) and key.op == "const" and key.data is None:
            made.append(1)
        elif isinstance(key, Symbol) and key.op == "const" and key.data is Ellipsis:
            left = len([each for each in keys[place + 1 :] if not (isinstance(each, Symbol) and each.op == "const" and each.data is None)])
            keep = max(0, len(rest) - left)
            made += rest[:keep]
            rest = rest[keep:]
        elif not rest:
            return None
        elif isinstance(key, Symbol) and key.op == "slice":
            size = rest.pop(0)
            made.append(size if not key.args else BATCH if size == BATCH else FEATURES)
        elif formulas.number(key) is not None or (isinstance(key, Symbol) and key.op in ("index", "Add", "Sub", "Mod", "carried")):
            rest.pop(0)
        elif is_many(key):
            rest.pop(0)
            if not many:
                made.append(BATCH)
            many += 1
        elif isinstance(key, Symbol) and key.op == "element":
            rest.pop(0)
        else:
            return None
    return (*made, *rest)


def _reduced(value: Value, known: dict[int, Shape | None], depth: int) -> Shape | None:
    if not isinstance(value, Symbol) or not value.args:
        return None
    axis = _axis(value)
    if axis is None:
        return () if len(value.args) == 1 and not (value.keys.keys() & {"dim", "axis"}) else None
    inner = shape(value.args[0], known, depth)
    if inner is None or not -len(inner) <= axis < len(inner):
        return None
    place = axis % len(inner)
    return (*inner[:place], *((1,) if _keeps(value) else ()), *inner[place + 1 :])


def _of_distribution(value: Symbol, dist: Symbol, name: str, known: dict[int, Shape | None], depth: int) -> Shape | None:
    if name not in ("log_prob", "entropy", "sample", "rsample") or not dist.args:
        return None
    kind, base = str(dist.data), shape(dist.args[0], known, depth) if not _is_distribution(dist.args[0]) else None
    inner_dist = dist.args[0]
    if isinstance(inner_dist, Symbol) and inner_dist.op == "dist":
        drawn = _of_distribution(Symbol("method", (inner_dist, *value.args[1:]), None, name), inner_dist, name, known, depth)
        return (
            drawn[:-1]
            if drawn and kind == "Independent" and name in ("log_prob", "entropy")
            else drawn
            if kind != "Independent" or drawn
            else None
        )
    if base is None:
        return None
    if kind in ("Categorical", "OneHotCategorical"):
        batch: Shape | None = base[:-1] if base else None
        if name == "log_prob" and batch is not None and len(value.args) > 1:
            action = shape(value.args[1], known, depth)
            return _broadcast([batch, action]) if action is not None else batch
        return batch
    if kind == "MultivariateNormal" and name in ("log_prob", "entropy"):
        return base[:-1] if base else None
    return base if kind in ("Normal", "Beta", "Bernoulli", "MultivariateNormal") else None


def _is_distribution(value: Value) -> bool:
    return isinstance(value, Symbol) and value.op == "dist"


def _broadcast(shapes: list[Shape | None]) -> Shape | None:
    if any(each is None for each in shapes):
        return None
    sizes = [each for each in shapes if each is not None]
    longest = max((len(each) for each in sizes), default=0)
    made: list[int | str] = []
    for place in range(longest):
        column = [each[place - longest] for each in sizes if len(each) >= longest - place]
        wide = [size for size in column if size != 1]
        made.append(wide[0] if wide else 1)
    return tuple(made)


def _concatenated(value: Symbol, inner: Shape | None) -> Shape | None:
    """Tensors that are put one after the other: inner is the shape of their stack."""
    listed = value.args[0]
    if inner is None or len(inner) < 2:
        return (BATCH,) if inner is not None and called(value) == "hstack" else None
    axis = _axis(value)
    if called(value) == "hstack" or (axis is not None and axis not in (0,)):
        return (*inner[1:-1], FEATURES) if axis in (None, -1, len(inner) - 2) else None
    is_open = isinstance(listed, Items) and listed.is_open
    return (BATCH, *inner[2:]) if is_open else None


def _reshaped(value: Symbol, inner: Shape) -> Shape | None:
    joined = _joined_sizes(value.args[1]) if len(value.args) == 2 else None
    if joined is not None:
        return (BATCH, *joined[1]) if len(joined[0]) == 1 and joined[1] is not None else None
    sizes = _numbers(value)
    if sizes == [-1]:
        return (BATCH,) if BATCH in inner or LANES in inner else (FEATURES,)
    if sizes and sizes[0] == -1 and len(sizes) > 1:
        return (BATCH, *(1 if size == 1 else FEATURES for size in sizes[1:]))
    if all(size is not None and size > 0 for size in sizes) and sizes:
        return tuple(int(size) for size in sizes if size is not None)
    return None


def _numbers(value: Symbol) -> list[float | None]:
    given = value.args[1:]
    if len(given) == 1 and isinstance(given[0], Items):
        given = tuple(given[0].items)
    return [formulas.number(argument) for argument in given]


def _axis(value: Symbol) -> int | None:
    given = value.keys.get("dim") or value.keys.get("axis") or (value.args[1] if len(value.args) > 1 else None)
    number = formulas.number(given)
    return int(number) if number is not None and not (isinstance(given, Symbol) and isinstance(given.data, bool)) else None


def is_many(key: Value | None) -> bool:
    """Indices of several rows: drawn at random, or a part of all of them."""
    return isinstance(key, Symbol) and any(
        called(part) in ("randint", "choice", "integers", "randperm", "permutation", "sample", "arange", "split", "chunk", "array_split",
                         "argmax")
        for part in formulas.parts(key, into_arrays=False)
    )  # fmt: skip


def _keeps(value: Symbol) -> bool:
    kept = value.keys.get("keepdim") or value.keys.get("keepdims")
    return (isinstance(kept, Symbol) and kept.data is True) or (
        len(value.args) > 2 and isinstance(value.args[2], Symbol) and value.args[2].data is True
    )


def _weights_width(weights: Value, place: int) -> int | None:
    """Outputs of a layer that is written as a product with its weights."""
    if not isinstance(weights, Symbol):
        return None
    if weights.copy_of is not None:
        return _weights_width(weights.copy_of, place)
    given = list(weights.args)
    while len(given) == 1 and isinstance(given[0], Symbol) and given[0].args:
        given = list(given[0].args)
    if given and isinstance(given[0], Items):
        given = list(given[0].items)
    sizes = [formulas.number(each) for each in given if not (isinstance(each, Symbol) and each.op == "ext")]
    return int(sizes[place]) if len(sizes) == 2 and sizes[place] is not None else None  # type: ignore[arg-type]


def width(network: Value) -> int | None:
    """Outputs of a network that ends in a linear layer."""
    if isinstance(network, Symbol) and network.op == "weights":
        return _weights_width(network, -1)
    if not isinstance(network, Symbol) or network.op != "net":
        return None
    if network.data in ("Linear", "Dense"):
        given = network.args[1] if len(network.args) > 1 else network.keys.get("out_features")
        if network.data == "Dense":
            given = network.args[0] if network.args else network.keys.get("features")
        number = formulas.number(given)
        return int(number) if number is not None else None
    if network.data == "Sequential":
        for layer in reversed(network.args):
            if not (isinstance(layer, Symbol) and layer.op == "net" and layer.data in _SHAPELESS):
                return width(layer)
    return None


_SHAPELESS: Final = frozenset(
    {"Tanh", "ReLU", "Softmax", "Sigmoid", "Identity", "Softplus", "LogSoftmax", "Dropout", "GELU", "ELU", "LeakyReLU", "SiLU"}
)


def pairs(sums: list[Symbol], calls: list[Symbol]) -> Iterator[tuple[Symbol, Shape | None, Shape | None, bool]]:
    """Everything that is added, multiplied or compared entry by entry, the sizes of both sides, and whether they clash."""
    known: dict[int, Shape | None] = {}
    for each in (*sums, *calls):
        sides = each.args if each.op in ("Add", "Sub", "Mult", "Div") else each.args[:2] if called(each) in SQUARES else ()
        if len(sides) == 2 and each.node is not None:
            yield each, shape(sides[0], known), shape(sides[1], known), clashes(sides[0], sides[1], known)


SQUARES: Final = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss"})
