"""What the formulas of a script are (`execution`): rewards, flags, targets, losses, copies of networks; by what is done, not by names.

Names count only where a script does not show where a value comes from: a parameter that nobody fills, an attribute of a library's object.
"""

import ast
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, position
from rlclinic.diagnosis.lint.code.symbolic.execution import Event, Execution, Items, Record, Symbol, Table, Value

MOST_PARTS: Final = 600
PASSING: Final = frozenset(
    {"to", "float", "cpu", "cuda", "numpy", "unsqueeze", "squeeze", "view", "reshape", "flatten", "detach", "clone", "copy", "astype",
     "as_tensor", "tensor", "Tensor", "FloatTensor", "LongTensor", "BoolTensor", "from_numpy", "array", "asarray", "stack", "cat",
     "concatenate", "hstack", "vstack", "int", "bool", "item", "type", "long", "double", "expand", "expand_as", "repeat", "float32",
     "contiguous", "ravel", "transpose", "permute", "swapaxes", "squeeze_", "int64", "tolist", "list", "tuple", "pin_memory",
     "clip", "clamp", "nan_to_num", "stop_gradient", "split", "chunk", "array_split", "flip", "iter", "next",
     "bool_", "atleast_1d", "atleast_2d", "broadcast_to", "view_as", "type_as", "append", "device_put"}
)  # fmt: skip
_RESHAPING: Final = frozenset({"detach", "squeeze", "unsqueeze", "view", "reshape", "flatten", "float", "to"})
AVERAGES: Final = frozenset({"mean", "sum", "nanmean"})
LEARNING: Final = frozenset(
    {"backward", "training_step", "manual_backward", "autograd", "grad", "value_and_grad", "grad_and_value", "vjp", "apply_gradients",
     "GradientTape", "minimize"}
)  # fmt: skip
"""What a script calls that learns."""
_INDEXED: Final = frozenset({"element", "column", "read", "carried", "sampled", "array", "stepped", "observed", "item"})
_STEP: Final = ("next_obs", "reward", "terminated", "truncated", "info")
_SMALLER: Final = frozenset({"min", "minimum", "amin", "fmin"})
_LARGER: Final = frozenset({"max", "maximum", "amax", "fmax"})
DRAWN: Final = frozenset(
    {"stop_gradient", "sample", "item", "numpy", "tolist", "argmax", "argmin", "detach", "tensor", "multinomial", "from_numpy"}
)


def execution(script: Script) -> Execution:
    """The script, run with symbols; empty for one that trains nothing."""

    def run() -> Execution:
        attributes = {node.attr for node in script.all(ast.Attribute)} | {function.name for function in script.functions}
        learns = attributes & LEARNING or script.imports.keys() & LEARNING or {"step", "reset"} <= attributes
        tree = ast.parse(script.source.text) if learns or script.is_sb3 else ast.Module(body=[], type_ignores=[])
        return Execution(tree)

    return script.once("execution", run)


def called(value: Value) -> str:
    """The last name of the library's function or the method that made a value; "" for anything else."""
    if isinstance(value, Symbol):
        if value.op == "method":
            return str(value.data)
        if value.op == "call":
            return str(value.data).rpartition(".")[2]
    return ""


# ── where values come from ──


def origins(value: Value) -> list[Symbol]:
    """What a value is, before it was stored, stacked, sampled and cast."""
    made: list[Symbol] = []
    pending: list[Value] = [value]
    seen: set[int] = set()
    while pending and len(seen) < 200:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Items):
            pending += current.items
        elif isinstance(current, Record | Table):
            continue
        elif isinstance(current, Symbol):
            inner = _through(current)
            if inner is None:
                made.append(current)
            else:
                pending += inner
    return made


def _through(value: Symbol) -> list[Value] | None:
    """One step back, where a value only changes its place or type; None where it is made."""
    if value.op in ("element", "column", "sampled", "reversed", "put"):
        return list(value.args[:1])
    if value.op == "read":
        return list(value.args[:1])
    if value.op == "array":
        return list(value.stored) or None
    if value.op == "carried":
        return list(value.args)
    if value.op == "phi":
        return list(value.args[1:])
    if value.op in ("method", "call") and called(value) in PASSING and value.args:
        return list(value.args[:1])
    if value.op == "item" and value.args and not isinstance(value.data, str):
        holder = value.args[0]
        if (isinstance(holder, Symbol) and holder.op in _INDEXED) or called(holder) in PASSING:
            return [holder]
        if isinstance(holder, Symbol) and holder.op in ("Add", "Sub", "Mult", "Div") and len(value.args) > 1:
            return [holder]
    return None


def role(value: Value) -> str | None:
    """next_obs, reward, terminated, truncated, obs; None for anything else, and for what is several things."""
    roles = {_role(origin) for origin in origins(value) if origin.op != "const"}
    if len(roles) == 1:
        return roles.pop()
    # Columns of rows in which everything lies side by side: by what the script calls each of them.
    return _role_of_name(label(value)) if len(roles) > 2 else None


def label(value: Value) -> str:
    """What a script calls a part of something, where it takes it out; "" for what has no such name."""
    while isinstance(value, Symbol):
        if value.label:
            return value.label
        if (called(value) not in PASSING and value.op not in ("carried", "sampled")) or not value.args:
            return ""
        value = value.args[0]
    return ""


def is_reward(value: Value, depth: int = 6) -> bool:
    """A reward, or a sum of discounted ones."""
    if not isinstance(value, Symbol):
        return _is_reward(value, depth)
    # Sums of sums share their parts: each is asked once for each depth.
    known = value.known = {} if value.known is None else value.known
    if ("reward", depth) not in known:
        known["reward", depth] = False
        known["reward", depth] = _is_reward(value, depth)
    return bool(known["reward", depth])


def _is_reward(value: Value, depth: int) -> bool:
    if role(value) == "reward":
        return True
    made = [origin for origin in origins(value) if origin.op != "const"]
    if any(_role(each) == "reward" for each in made):
        # What was added to an entry later, such as the value at a time limit, leaves it a reward.
        made = [each for each in made if not (each.op == "Add" and each.data == "in place")]
    if depth > 0 and bool(made) and all(_sums_rewards(each, depth) for each in made):
        return True
    # Shaped by the script, or a number of its own: by what it is called where it is taken out of a batch.
    return words.REWARD(label(value)) and not outputs_in(value)


def _sums_rewards(value: Symbol, depth: int) -> bool:
    if _role(value) == "reward":
        return True
    if value.label and words.REWARD(value.label) and not outputs_in(value):
        # Computed by the script itself, and called a reward.
        return True
    if value.op == "Add" and value.data == "in place":
        return any(is_reward(argument, depth - 1) for argument in value.args)
    if value.op == "Add":
        held = [argument for argument in value.args if number(argument) is None]
        return (
            bool(held)
            and any(is_reward(each, depth - 1) for each in held)
            and all(is_reward(each, depth - 1) or _is_zero(each) for each in held)
        )
    if value.op == "Div" and len(value.args) == 2 and is_scalar(value.args[1]):
        return is_reward(value.args[0], depth - 1)
    if value.op == "Mult":
        held = factors(value)
        cuts = [flag(each) for each in held]
        return (
            sum(is_reward(each, depth - 1) for each in held) == 1
            and not any(outputs_in(each) for each in held)
            and not any(each is not None and each.sign > 0 for each in cuts)
        )
    return False


def _is_zero(value: Value) -> bool:
    return isinstance(value, Symbol) and value.op == "carried" and number(value.args[-1]) == 0


def _role(value: Symbol) -> str | None:
    if value.op == "stepped":
        place, count = value.data
        return ("next_obs", "reward", "ended", "info")[min(place, 3)] if count == 4 else _STEP[min(place, 4)]
    if value.op == "observed" or value.op == "reset":
        return "obs"
    return _role_of_name(_unknown_name(value))


def _role_of_name(name: str) -> str | None:
    if name and words.REWARD(name):
        return "reward"
    if name and words.OBSERVATION(name):
        return "next_obs" if "next" in name.lower() or name.lower().endswith(("2", "_", "_p", "prime")) else "obs"
    return None


def _unknown_name(value: Symbol) -> str:
    """What something is called of which the script does not show where it comes from."""
    if value.op == "parameter":
        return str(value.data)
    if value.op == "attribute" and value.args and isinstance(value.args[0], Symbol):
        return str(value.data)
    if value.op == "item" and isinstance(value.data, str):
        return value.data
    return value.label if value.op in ("item", "element", "column") else ""


class Flag(NamedTuple):
    """A flag of an end."""

    sign: int
    """1: true at an end. -1: true everywhere else."""
    ends: frozenset[str]


def flag(value: Value, depth: int = 12) -> Flag | None:
    """Which ends a value marks; None for what is no flag."""
    if not isinstance(value, Symbol):
        return _flag(value, depth)
    known = value.known = {} if value.known is None else value.known
    if ("flag", depth) not in known:
        known["flag", depth] = _flag(value, depth)
    held: Flag | None = known["flag", depth]
    return held


def _flag(value: Value, depth: int) -> Flag | None:
    if depth == 0 or not isinstance(value, Symbol):
        if isinstance(value, Items) and value.chosen_by is not None and depth:
            return flag(value.chosen_by, depth - 1)
        if isinstance(value, Items) and depth:
            last = [flag(each, depth - 1) for each in value.items[-2:]]
            return last[-1] if last and all(last) else None
        return None
    if value.op == "stepped":
        place, count = value.data
        if place == 2:
            return Flag(1, frozenset({"terminated" if count == 5 else "ended"}))
        return Flag(1, frozenset({"truncated"})) if place == 3 and count == 5 else None
    if _names_time_limit(value):
        return Flag(1, frozenset({"truncated"}))
    if value.op in ("Not", "Invert") or called(value) in ("logical_not", "bitwise_not"):
        inner = flag(value.args[0], depth - 1)
        return Flag(-inner.sign, inner.ends) if inner else None
    if value.op == "Compare" and len(value.args) == 2 and value.data in ("Is", "IsNot") and _is_none(value.args[1]):
        chosen = _none_by_flag(value.args[0], depth)
        return Flag(chosen.sign if value.data == "Is" else -chosen.sign, chosen.ends) if chosen else None
    if value.op in ("Or", "And", "BitOr", "BitAnd") or called(value) in ("logical_or", "logical_and", "maximum", "bitwise_or"):
        given = [argument for argument in value.args if number(argument) is None]
        known = [one for one in (flag(argument, depth - 1) for argument in given) if one]
        if value.op == "And" and len(known) == 2 and len(given) == 2 and {"truncated"} in [set(one.ends) for one in known]:
            # done and not info.get("TimeLimit.truncated"): the real ends; with it, the others.
            limit, other = sorted(known, key=lambda one: one.ends != frozenset({"truncated"}))
            if other.ends == frozenset({"ended"}) and other.sign > 0:
                return Flag(1, frozenset({"truncated" if limit.sign > 0 else "terminated"}))
            if other.ends == frozenset({"terminated"}) and other.sign < 0 and limit.sign > 0:
                # truncated and not terminated: at every end but the real ones.
                return Flag(-1, frozenset({"terminated"}))
        agreed = _agree(known) if known and (len(known) == len(given) or value.op in ("And", "Or")) else None
        return agreed or (known[0] if known and len(known) < len(given) and value.op in ("And", "Or") else None)
    if value.op in ("Add", "Sub", "Mult", "Div", "USub", "UAdd", "Compare", "phi") or called(value) in _ARITHMETIC:
        switched = _switched(value, depth)
        is_paid = switched is not None and not 0 < switched.low + switched.high <= 2  # -10 at an end is a reward, and no flag
        if switched is not None and switched.ends and (switched.low == 0) != (switched.high == 0) and not is_paid:
            return Flag(1 if switched.low == 0 else -1, switched.ends)
        if value.op != "phi":
            return None
        flags = [flag(each, depth - 1) for each in value.args[1:] if number(each) is None]
        agreed = _agree(flags) if flags and all(flags) else None
        if agreed is not None and agreed.sign > 0 and any(number(each) == 1 for each in value.args[1:]) and _is_clock(value.args[0]):
            # True if length == limit else terminated
            return Flag(1, agreed.ends | {"truncated"})
        return agreed
    inner_values = _through(value)
    if inner_values is not None:
        flags = [
            flag(each, depth - 1)
            for each in inner_values[-2:]
            if not ((isinstance(each, Symbol) and each.op == "const") or _is_empty(each) or _is_kept_number(each))
        ]
        if flags and all(flags):
            return flags[-1]
        mixed = bool(value.label) and len({_role(each) for each in origins(value)}) > 2
        return _flag_of_name(value.label) if mixed else None
    return _flag_of_name(_unknown_name(value))


def _is_clock(test: Value) -> bool:
    """A count of steps compared with what a name calls a limit, or a number."""
    if not isinstance(test, Symbol) or test.op != "Compare" or len(test.args) != 2 or test.data not in ("Eq", "GtE", "Gt"):
        return False
    return is_counter(test.args[0]) if isinstance(test.args[0], Symbol) else False


def _names_time_limit(value: Symbol) -> bool:
    """info["TimeLimit.truncated"], info.get("TimeLimit.truncated", False)"""
    if called(value) == "get" and len(value.args) > 1:
        asked = value.args[1]
        return isinstance(asked, Symbol) and asked.data == "TimeLimit.truncated"
    return value.op == "item" and value.data == "TimeLimit.truncated"


def _flag_of_name(name: str) -> Flag | None:
    if name and (words.NOT_ENDED(name) or words.KEPT(name)):
        return Flag(-1, frozenset({"named"}))
    if name and len(name) > 1 and words.END(name):
        return Flag(1, frozenset({"named"}))
    return None


class _Switched(NamedTuple):
    """A number that depends on flags alone: what it is where no episode ends, what it is at an end, and at which ends."""

    low: float
    high: float
    ends: frozenset[str]


_ARITHMETIC: Final = frozenset({"where", "sub", "add", "mul", "multiply", "subtract", "neg", "negative", "rsub"})
_COMPARISONS: Final = {
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge,
    "Is": operator.eq, "IsNot": operator.ne,
}  # fmt: skip


def _switched(value: Value, depth: int) -> _Switched | None:
    """What a formula of flags and numbers is at an end and elsewhere; unknown coefficients count as 1."""
    if depth <= 0:
        return None
    fixed = number(value)
    if fixed is not None:
        return _Switched(fixed, fixed, frozenset())
    if not isinstance(value, Symbol):
        return None
    name = called(value)
    if value.op == "phi" or (name == "where" and len(value.args) == 3):
        decided, one, other = flag(value.args[0], depth - 1), _switched(value.args[1], depth - 1), _switched(value.args[2], depth - 1)
        if decided is None or one is None or other is None:
            return None
        at_end, elsewhere = (one, other) if decided.sign > 0 else (other, one)
        return _Switched(elsewhere.low, at_end.high, decided.ends | one.ends | other.ends)
    if value.op in ("USub", "UAdd") or name in ("neg", "negative"):
        inner = _switched(value.args[0], depth - 1)
        sign = 1 if value.op == "UAdd" else -1
        return _Switched(sign * inner.low, sign * inner.high, inner.ends) if inner else None
    kind = {"sub": "Sub", "subtract": "Sub", "add": "Add", "mul": "Mult", "multiply": "Mult", "rsub": "Sub"}.get(name, value.op)
    if kind in ("Add", "Sub", "Mult", "Div", "Compare") and len(value.args) == 2:
        one, other = (_switched(each, depth - 1) for each in (value.args[::-1] if name == "rsub" else value.args))
        if one is None or other is None or not one.ends | other.ends:
            return None
        if kind == "Div" and 0 in (other.low, other.high):
            return None
        compute = _COMPARISONS.get(str(value.data)) if kind == "Compare" else OPERATORS[kind]
        if compute is None:
            return None
        return _Switched(float(compute(one.low, other.low)), float(compute(one.high, other.high)), one.ends | other.ends)
    if kind not in ("Add", "Sub", "Mult", "Div", "Compare"):
        held = flag(value, depth - 1)
        if held is not None:
            return _Switched(0.0, 1.0, held.ends) if held.sign > 0 else _Switched(1.0, 0.0, held.ends)
        return _Switched(1.0, 1.0, frozenset()) if is_scalar(value) else None
    return None


OPERATORS: Final = {"Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv}


def _is_none(value: Value) -> bool:
    return isinstance(value, Symbol) and value.op == "const" and value.data is None


def _none_by_flag(value: Value, depth: int) -> Flag | None:
    """The flag by which something is None: `next_obs = None if terminated else …`."""
    while isinstance(value, Symbol) and (
        value.op in ("column", "element", "sampled", "put", "read", "carried") or called(value) in PASSING
    ):
        if not value.args:
            return None
        value = value.args[0]
    if isinstance(value, Symbol) and value.op == "phi" and depth:
        decided = flag(value.args[0], depth - 1)
        if decided is not None and _is_none(value.args[1]) != _is_none(value.args[2]):
            return decided if _is_none(value.args[1]) else Flag(-decided.sign, decided.ends)
        if not any(_is_none(each) for each in value.args[1:]):
            # One of several places that it may come from.
            found = [one for each in value.args[1:] if (one := _none_by_flag(each, depth - 1)) is not None]
            return found[0] if found and all(one == found[0] for one in found) else None
    return None


def _agree(found: Sequence[Flag | None]) -> Flag | None:
    flags = [each for each in found if each is not None]
    if not flags or len({each.sign for each in flags}) > 1:
        return None
    return Flag(flags[0].sign, frozenset().union(*(each.ends for each in flags)))


def alternatives(value: Value, depth: int = 6) -> list[Value]:
    """What a value may be, by the branches that it was chosen in."""
    if depth and isinstance(value, Symbol) and value.op == "phi" and flag(value.args[0]) is None:
        return [each for branch in value.args[1:] for each in alternatives(branch, depth - 1)]
    return [value]


def chosen_by_flag(value: Value, depth: int = 8) -> tuple[Flag, Symbol] | None:
    """where(ended, 0, x), x.masked_fill(ended, 0), x[ended] = 0: the flag, with the sign that it would have as a factor, and where."""
    if not isinstance(value, Symbol) or depth == 0:
        return None
    if (value.op == "phi" or called(value) == "where") and len(value.args) == 3:
        decided = flag(value.args[0])
        nothing = [_is_nothing(branch) for branch in value.args[1:]]
        if decided is not None and nothing[0] != nothing[1]:
            return Flag(-decided.sign if nothing[0] else decided.sign, decided.ends), value
        return None
    if called(value) in ("masked_fill", "masked_fill_") and len(value.args) == 3 and number(value.args[2]) == 0:
        decided = flag(value.args[1])
        return (Flag(-decided.sign, decided.ends), value) if decided is not None else None
    for put in value.stored:
        if value.op != "array" and isinstance(put, Symbol) and put.op == "put" and len(put.args) > 1 and number(put.args[0]) == 0:
            decided = flag(put.args[1])
            if decided is not None:
                return Flag(-decided.sign, decided.ends), put
    if (called(value) in PASSING or value.op in ("attribute", "item")) and value.args:
        return chosen_by_flag(value.args[0], depth - 1)
    return None


def depends_on_flag(value: Value) -> bool:
    """Whether a flag of ends takes part in a value; one that chooses between two futures, or is inside of a network, does not count."""
    pending: list[Value] = [value]
    seen: set[int] = set()
    while pending and len(seen) < MOST_PARTS:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Items):
            pending += current.items
        if isinstance(current, Symbol) and current.op == "out":
            # next_values[ended] = 0
            pending += [put.args[1] for put in current.stored if isinstance(put, Symbol) and len(put.args) > 1]
        if not isinstance(current, Symbol) or current.op in ("net", "env", "step", "reset", "out") or called(current) == "len":
            continue
        if marks_end(flag(current)):
            return True
        chooses = current.op == "phi" or (called(current) == "where" and len(current.args) == 3)
        if chooses and not any(_is_nothing(branch) for branch in current.args[1:]):
            pending += current.args[1:]
        else:
            pending += [*current.args, *current.keys.values(), *current.stored]
    return False


def _is_kept_number(value: Value) -> bool:
    """A number that was put into an array where the flag was known already: a discount of a step in the middle of an episode."""
    return isinstance(value, Symbol) and value.op == "put" and is_scalar(value.args[0]) and not _unknown_name(value.args[0])  # type: ignore[arg-type]


def _is_empty(value: Value) -> bool:
    """An array that nothing was put into yet, on whatever device."""
    while isinstance(value, Symbol) and called(value) in PASSING and value.args:
        value = value.args[0]
    return isinstance(value, Symbol) and value.op == "array" and not value.stored


def _is_nothing(value: Value) -> bool:
    if called(value) in PASSING and isinstance(value, Symbol) and value.args:
        return _is_nothing(value.args[0])
    empty = isinstance(value, Symbol) and value.op == "array" and str(value.data).startswith("zeros") and not value.stored
    return number(value) == 0 or empty


def marks_end(held: Flag | None) -> bool:
    """Whether a flag is set where an episode ends, and not at time limits alone."""
    return held is not None and held.ends != frozenset({"truncated"})


def parts(value: Value, into_networks: bool = True, into_arrays: bool = True) -> Iterator[Symbol]:
    """Every symbol that takes part in a value."""
    pending: list[Value] = [value]
    seen: set[int] = set()
    while pending and len(seen) < MOST_PARTS:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Items):
            pending += current.items
        elif isinstance(current, Table):
            pending += list(current.items.values())
        elif isinstance(current, Symbol):
            yield current
            if current.op in ("net", "env", "step", "reset") or (current.op == "out" and not into_networks):
                continue
            pending += [*current.args, *current.keys.values()]
            if into_arrays:
                pending += current.stored


def number(value: Value | None, depth: int = 8) -> float | None:
    """The number that a value is, where the script decides it."""
    if not isinstance(value, Symbol) or depth == 0:
        return None
    if value.op == "const":
        return (
            float(value.data)
            if isinstance(value.data, int | float) and not isinstance(value.data, bool)
            else 1.0
            if value.data is True
            else 0.0
            if value.data is False
            else None
        )
    if value.op == "USub":
        inner = number(value.args[0], depth - 1)
        return None if inner is None else -inner
    if value.op in ("Add", "Sub", "Mult", "Div", "Pow") and len(value.args) == 2 and value.data is None:
        left, right = number(value.args[0], depth - 1), number(value.args[1], depth - 1)
        if left is None or right is None:
            return None
        try:
            return float(
                {"Add": left + right, "Sub": left - right, "Mult": left * right}[value.op]
                if value.op in ("Add", "Sub", "Mult")
                else left / right
                if value.op == "Div"
                else left**right
            )
        except (ArithmeticError, TypeError):
            return None
    if value.op == "carried":
        one, other = number(value.args[0], depth - 1), number(value.args[1], depth - 1)
        return one if one is not None and one == other else None
    if called(value) in ("float", "int", "tensor", "as_tensor", "float32", "float64") and value.args:
        return number(value.args[0], depth - 1)
    if called(value) in ("min", "max", "exp") and value.op == "call" and value.args:
        given = [number(each, depth - 1) for each in value.args]
        held = [each for each in given if each is not None]
        if len(held) == len(given):
            return {"min": min, "max": max}[called(value)](held) if called(value) != "exp" else math.exp(min(held[0], 700.0))
    return None


_FUNCTIONS: Final[dict[str, Callable[[float], float]]] = {
    "exp": lambda x: math.exp(min(x, 700.0)), "log": math.log, "sqrt": math.sqrt, "cos": math.cos, "sin": math.sin, "abs": abs,
    "float": float, "int": float, "floor": math.floor, "ceil": math.ceil, "item": float, "tensor": float, "tanh": math.tanh,
}  # fmt: skip
_COUNTERS: Final = frozenset({"global_step", "num_timesteps", "current_epoch", "step_count", "total_steps", "n_calls"})


def is_counter(value: Symbol) -> bool:
    """A number that begins near 0 and grows by steps: the index of a loop, what is added 1 to in each pass, a trainer's counter."""
    if value.op == "index":
        return True
    if value.op == "attribute":
        return str(value.data) in _COUNTERS
    if value.op in ("Add", "carried"):
        made = value.args[0] if value.op == "carried" else value
        return (
            isinstance(made, Symbol) and made.op == "Add" and made.data == "in place" and (number(made.args[1]) or 0.0) > 0
            and not is_reward(made.args[1])
        )  # fmt: skip
    return False


def evaluated(value: Value | None, at: float = 0.0, depth: int = 24) -> float | None:
    """A number that depends on counters alone, where each of them is at `at`; None where something else takes part."""
    if not isinstance(value, Symbol) or depth == 0:
        return None
    fixed = number(value)
    if fixed is not None:
        return fixed
    if is_counter(value):
        return at
    name = called(value)
    given = list(value.args[1:] if value.op == "phi" else value.args)
    if value.op == "phi" or (name == "where" and len(value.args) == 3):
        test = evaluated(value.args[0], at, depth - 1)
        chosen = value.args[-2] if test else value.args[-1]
        return None if test is None else evaluated(chosen, at, depth - 1)
    if value.op == "carried":
        return None
    numbers = [evaluated(each, at, depth - 1) for each in given]
    held = [each for each in numbers if each is not None]
    if len(held) != len(numbers) or not held or value.keys:
        return None
    try:
        if value.op in OPERATORS and len(held) == 2:
            return float(OPERATORS[value.op](*held))
        if value.op in ("Pow", "FloorDiv", "Mod") and len(held) == 2:
            return float({"Pow": operator.pow, "FloorDiv": operator.floordiv, "Mod": operator.mod}[value.op](*held))
        if value.op == "Compare" and len(held) == 2 and str(value.data) in _COMPARISONS:
            return float(_COMPARISONS[str(value.data)](*held))
        if value.op == "USub":
            return -held[0]
        if name in ("max", "maximum", "fmax") and len(held) > 1:
            return max(held)
        if name in ("min", "minimum", "fmin") and len(held) > 1:
            return min(held)
        if name in ("clip", "clamp") and len(held) == 3:
            return min(max(held[0], held[1]), held[2])
        if name in _FUNCTIONS and len(held) == 1:
            return float(_FUNCTIONS[name](held[0]))
    except (ArithmeticError, ValueError, TypeError):
        return None
    return None


# ── sums and products ──


class Term(NamedTuple):
    """One of the summands of a formula: its sign, and what is multiplied in it."""

    sign: int
    factors: list[Value]
    node: ast.AST | None
    joined: ast.AST | None = None
    """The innermost sum that it is a summand of."""
    flipped: ast.AST | None = None
    """The innermost place where its sign changes."""


def terms(
    value: Value,
    sign: int = 1,
    node: ast.AST | None = None,
    depth: int = 24,
    joined: ast.AST | None = None,
    flipped: ast.AST | None = None,
) -> list[Term]:
    """The summands of a formula, whatever averages and numbers stand around them."""
    if not isinstance(value, Symbol) or depth == 0:
        return [Term(sign, [value], node, joined, flipped)]
    where = written(value) or node
    if value.op in ("Add", "Sub") and len(value.args) == 2:
        second = -sign if value.op == "Sub" else sign
        return terms(value.args[0], sign, where, depth - 1, where, flipped) + terms(
            value.args[1], second, where, depth - 1, where, where if value.op == "Sub" else flipped
        )
    if value.op == "USub" or called(value) in ("neg", "negative"):
        return terms(value.args[0], -sign, where, depth - 1, joined, where)
    if called(value) in AVERAGES and value.args:
        first = value.args[0]
        if isinstance(first, Items) and not first.is_open:
            return [term for each in first.items for term in terms(each, sign, where, depth - 1, where, flipped)]
        return terms(first, sign, where, depth - 1, joined, flipped)
    if called(value) in ("stack", "cat") and value.args and isinstance(value.args[0], Items) and value.args[0].items:
        # Losses of single steps that are kept in a list: each of them is one like the last.
        held_last = value.args[0].items[-1]
        return terms(held_last, sign, written(held_last) or where, depth - 1, joined, flipped)
    if value.op == "carried":
        return terms(value.args[0], sign, where, depth - 1, joined, flipped)
    if called(value) in _RESHAPING and value.args and isinstance(value.args[0], Symbol) and value.args[0].op in ("Mult", "Div", "USub"):
        return terms(value.args[0], sign, where, depth - 1, joined, flipped)
    if value.op == "phi":
        held = [argument for argument in value.args[1:] if number(argument) != 0]
        return (
            terms(held[0], sign, where, depth - 1, joined, flipped)
            if len(held) == 1 and flag(value.args[0]) is None
            else [Term(sign, [value], node or where, joined, flipped)]
        )
    if value.op in ("Mult", "Div"):
        held = factors(value)
        negative = sum((number(each) or 0.0) < 0 for each in held) + sum(
            isinstance(each, Symbol) and each.op == "USub" for each in held if number(each) is None
        )
        held = [each.args[0] if isinstance(each, Symbol) and each.op == "USub" and number(each) is None else each for each in held]
        turned = next((written(each) for each in factors(value) if isinstance(each, Symbol) and each.op == "USub"), None)
        signed, flipped = (-sign, turned or where) if negative % 2 else (sign, flipped)
        sums = [each for each in held if isinstance(each, Symbol) and _bare(each).op in ("Add", "Sub") and not is_scalar(each)]
        scalars = [each for each in held if is_scalar(each)]
        if len(sums) == 1 and len(scalars) == len(held) - 1 and flag(sums[0]) is None:
            inner = terms(sums[0], signed, where, depth - 1, joined, flipped)
            return [one._replace(factors=[*scalars, *one.factors]) for one in inner]
        if len(scalars) == len(held) - 1:
            rest = next(each for each in held if each not in scalars)
            if isinstance(rest, Symbol) and (rest.op == "carried" or flag(rest) is not None):
                return [Term(signed, held, where, joined, flipped)]
            inner = terms(rest, signed, where, depth - 1, joined, flipped)
            return [one._replace(factors=[*scalars, *one.factors]) for one in inner]
        return [Term(signed, held, where, joined, flipped)]
    return [Term(sign, [value], node or where, joined, flipped)]


def _bare(value: Symbol) -> Symbol:
    while called(value) in AVERAGES and value.args and isinstance(value.args[0], Symbol):
        value = value.args[0]
    return value


def factors(value: Value) -> list[Value]:
    """What is multiplied, and divided by a number, in a product."""
    if isinstance(value, Symbol):
        if value.op == "Mult" and len(value.args) == 2:
            return factors(value.args[0]) + factors(value.args[1])
        if value.op == "Div":
            return factors(value.args[0])
        if called(value) in AVERAGES and value.args and isinstance(value.args[0], Symbol) and _bare(value).op == "Mult":
            return factors(value.args[0])
    return [value]


def is_scalar(value: Value, depth: int = 5) -> bool:
    """A coefficient: a number, a setting, and what is computed of them alone."""
    if not isinstance(value, Symbol):
        return False
    if depth and (value.op in ("Mult", "Pow") or called(value) == "pow") and len(value.args) == 2:
        return all(is_scalar(each, depth - 1) or (isinstance(each, Symbol) and each.op in ("index", "carried")
                   and all(is_scalar(one, depth - 2) for one in each.args if depth > 2)) for each in value.args)  # fmt: skip
    if number(value) is not None or value.op in ("ext", "settings", "const", "parameter") or called(value) == "len":
        return True
    if value.op == "phi" and depth:
        # A setting that has another value in a quick run.
        chosen = all(is_scalar(each, depth - 1) and not _is_none(each) for each in value.args[1:])
        return chosen and all(
            part.op in ("Compare", "ext", "const", "Not", "settings", "And", "Or") or called(part) == "len" for part in parts(value.args[0])
        )
    return value.op == "attribute" and not any(part.op in ("out", "array", "stepped", "dist", "step") for part in parts(value))


# ── networks ──


def root(network: Value) -> Symbol | Record | None:
    """The network that a layer is part of."""
    if isinstance(network, Symbol) and network.op in ("net", "weights"):
        if network.op == "net" and network.stored and isinstance(network.stored[0], Symbol) and network.stored[0].op == "weights":
            # A module that is asked with weights of its own: the weights say which network it is.
            return network.stored[0]
        owner = network.owner
        return owner if owner is not None and owner.kind.is_network() and not owner.kind.is_trainer() else network
    return network if isinstance(network, Record) else None


def holds(whole: Value, part: Value | None, depth: int = 9) -> bool:
    """Whether a network is another one, or has it as a part."""
    if whole is part:
        return True
    if depth == 0:
        return False
    if isinstance(whole, Record):
        return any(holds(attribute, part, depth - 1) for attribute in whole.attributes.values())
    if isinstance(whole, Items):
        return any(holds(each, part, depth - 1) for each in whole.items)
    if isinstance(whole, Table):
        return any(holds(each, part, depth - 1) for each in whole.items.values())
    return isinstance(whole, Symbol) and whole.op == "net" and any(holds(each, part, depth - 1) for each in (*whole.args, *whole.stored))


_KEPT: Final = frozenset({"array", "read", "column", "sampled", "element"})


def outputs_in(value: Value, stored: bool = True) -> list[Symbol]:
    """Networks' outputs that a value is, through choices of the smaller or the best one: not what they were asked about.

    Without `stored` only those that were given for this very value, and not kept in something before.
    """
    made: list[Symbol] = []
    pending: list[Value] = [value]
    seen: set[int] = set()
    while pending and len(seen) < 200:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Items):
            pending += current.items
        if not isinstance(current, Symbol) or (not stored and current.op in _KEPT):
            continue
        if current.label and current.op in ("item", "element", "read") and (_role_of_name(current.label) or _flag_of_name(current.label)):
            # One of the columns of rows in which everything lies side by side.
            continue
        if current.op == "out":
            made.append(current)
        elif called(current) in ("gather", "take_along_dim", "index_select"):
            pending += current.args[:1]
        elif called(current) in ("argmax", "argmin"):
            continue
        elif called(current) == "where":
            pending += current.args[1:]
        elif current.op in ("read", "item"):
            pending += current.args[:1]
        elif current.op == "phi":
            pending += current.args[1:]
        elif current.op not in ("net", "env", "step", "dist"):
            pending += [*current.args, *current.stored]
    return made


def gradient(value: Value) -> list[Symbol]:
    """Networks and weights that a value's gradient reaches."""
    reached: list[Symbol] = []
    pending: list[Value] = [value]
    seen: set[int] = set()
    while pending and len(seen) < MOST_PARTS:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Items):
            pending += current.items
        elif isinstance(current, Symbol):
            if current.op == "weights":
                reached.append(current)
            if current.free or called(current) in DRAWN or current.op in ("Compare", "array", "net", "env", "step", "const", "weights"):
                continue
            if (
                called(current) in ("as_tensor", "FloatTensor", "LongTensor", "Tensor", "array", "asarray", "float", "int")
                and current.op == "call"
            ):
                continue
            if current.op == "attribute" and current.data in ("data", "shape", "indices"):
                continue
            if current.op == "out":
                asked = [argument for argument in current.args[:1] if isinstance(argument, Symbol)]
                reached += [*asked, *(held for each in asked for held in each.stored if isinstance(held, Symbol) and held.op == "weights")]
                pending += current.args[1:]
            elif current.op == "phi":
                pending += current.args[1:]
            elif current.op in ("read", "item"):
                pending += current.args[:1]
            else:
                pending += [*current.args, *current.keys.values()]
    return reached


def optimized(run: Execution, network: Value) -> list[Symbol]:
    """Optimizers that hold a network's weights."""
    return [
        optimizer for optimizer in run.optimizers if any(holds(one, network) or _is_inside(one, network) for one in parameters(optimizer))
    ]


def is_trained(run: Execution, network: Value) -> bool:
    """Whether an optimizer that takes steps holds a network's weights."""
    stepped = {id(event.subject) for event in run.events if event.name == "optimizer step"}
    return any(not stepped or id(each) in stepped for each in optimized(run, network))


def _is_inside(holder: Value, network: Value) -> bool:
    top = root(network)
    return top is not None and (holder is top or holds(holder, top))


def parameters(optimizer: Symbol) -> list[Value]:
    """Networks and weights that an optimizer was given."""
    held: list[Value] = []
    for given in optimizer.args[:1]:
        for part in parts(given):
            if part.op == "method" and part.data in ("parameters", "named_parameters", "children", "modules") and part.args:
                held.append(part.args[0])
            elif part.op == "weights":
                held.append(part)
    return held


class Copy(NamedTuple):
    """A network that was copied from another one."""

    network: Symbol | Record
    source: Symbol | Record


def copies(run: Execution) -> list[Copy]:
    """Networks that are copies, by deepcopy or load_state_dict, and that no optimizer holds."""
    if "copies" not in run.known:
        run.known["copies"] = _copies(run)
    held: list[Copy] = run.known["copies"]
    return held


def _copies(run: Execution) -> list[Copy]:
    made: dict[int, Copy] = {}
    stepped = {id(event.subject) for event in run.events if event.name == "update"}
    for value in _all_networks(run):
        if value.copy_of is not None and id(value) not in stepped:
            made[id(value)] = Copy(value, value.copy_of)
    for copy, source in run.copies:
        if (isinstance(copy, Record) or copy.op in ("net", "weights")) and id(copy) not in stepped:
            made[id(copy)] = Copy(copy, source)
        for part in copy.attributes.values() if isinstance(copy, Record) else ():
            # Its parts are copies, too, whether they are asked or not.
            if isinstance(part, Record) and part.copy_of is not None and part.kind.is_network() and id(part) not in stepped:
                made.setdefault(id(part), Copy(part, part.copy_of))
    for event in run.events:
        if event.name == "load" and event.value is not None:
            loaded, target = state_of(event.value), root(event.subject)
            if loaded is not None and target is not None and loaded is not target and not is_trained(run, target):
                made.setdefault(id(target), Copy(target, loaded))
        if event.name == "in place copy_" and isinstance(event.value, Symbol) and len(event.value.args) > 1:
            written, into = state_of(event.value.args[1]), state_of(event.subject)
            if written is not None and into is not None and written is not into and not is_trained(run, into):
                made.setdefault(id(into), Copy(into, written))
    return list(made.values())


def _all_networks(run: Execution) -> Iterator[Symbol | Record]:
    seen: set[int] = set()
    for call in outputs(run):
        top = root(call.args[0])
        if top is not None and id(top) not in seen:
            seen.add(id(top))
            yield top


def outputs(run: Execution) -> list[Symbol]:
    """Every answer of a network."""
    if "outputs" not in run.known:
        run.known["outputs"] = list(_outputs(run))
    held: list[Symbol] = run.known["outputs"]
    return held


def _outputs(run: Execution) -> Iterator[Symbol]:
    seen: set[int] = set()
    values = list(run.sums) + run.calls + [event.value for event in run.events if event.value is not None]
    for value in values:
        if isinstance(value, Symbol) and id(value) not in seen:
            for part in _fresh_parts(value, seen):
                if part.op == "out":
                    yield part


def _fresh_parts(value: Value, seen: set[int]) -> Iterator[Symbol]:
    pending: list[Value] = [value]
    while pending and len(seen) < 50_000:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Items):
            pending += current.items
        elif isinstance(current, Symbol):
            yield current
            pending += [*current.args, *current.keys.values(), *current.stored]


def state_of(value: Value) -> Symbol | Record | None:
    """The network whose weights a value holds: net.state_dict(), net.parameters() and their elements."""
    if isinstance(value, Symbol) and value.op == "item" and value.args:
        # slow.state_dict()[key] is a weight of slow, wherever the key was read.
        found = state_of(value.args[0])
        if found is not None:
            return found
    for part in parts(value):
        if part.op == "method" and part.data in ("state_dict", "parameters", "named_parameters", "buffers") and part.args:
            return root(part.args[0])
    return None


def ways(value: Value | None) -> Iterator[Value]:
    """What a loss is in each branch that it may come from."""
    if isinstance(value, Symbol) and value.op == "phi":
        for branch in value.args[1:]:
            yield from ways(branch)
    elif value is not None:
        yield value


# ── targets ──


class Target(NamedTuple):
    """reward + discount * future: the sum, and the summand that is the future."""

    sum: Symbol
    future: Term
    chosen: Flag | None = None
    """The flag that decides whether the sum is used at all, as a factor of its future would: where(ended, reward, sum)."""


def targets(script: Script) -> list[Target]:
    """Bootstrap targets: sums of a reward and of something that a network says of what comes next."""
    return script.once("targets", lambda: list(_targets(execution(script))))


def _targets(run: Execution) -> Iterator[Target]:
    chosen: dict[int, Flag] = {}
    for call in run.calls:
        decided = flag(call.args[0]) if called(call) == "where" and len(call.args) == 3 else None
        for place, branch in enumerate(call.args[1:3]) if decided is not None else ():
            sign = decided.sign if place == 0 else -decided.sign  # type: ignore[union-attr]
            chosen[id(_bare_sum(branch))] = Flag(sign, decided.ends)  # type: ignore[union-attr]
    # a + b + c is (a + b) + c: what the whole holds tells what its beginning is.
    wholes = {id(part): each for each in run.sums if each.op in ("Add", "Sub") for part in each.args[:1]}
    for each in run.sums:
        if each.op not in ("Add", "Sub") or not isinstance(each.node, ast.AST) or isinstance(each.node, ast.AugAssign):
            continue
        held = terms(each)
        if len(held) < 2 or not any(term.sign > 0 and any(is_reward(one) for one in term.factors) for term in held):
            continue
        whole = terms(wholes.get(id(each), each))
        masked = [
            term for term in whole if any(flag(one) is not None for one in term.factors) and any(outputs_in(one) for one in term.factors)
        ]
        for term in held:
            is_plain = not any(flag(one) is not None or carried(one) is not None for one in term.factors)
            if masked and is_plain and not _is_asked_about_next(term):
                continue  # a bonus that a network gives to the present step, beside the future
            is_future = any(outputs_in(one) or _is_support(one) for one in term.factors if not is_scalar(one) or _is_support(one))
            is_product = (
                len(term.factors) > 1
                or chosen_by_flag(term.factors[0]) is not None
                or id(each) in chosen
                or _is_best_of_next(run, term.factors[0])
            )
            if term.sign > 0 and is_product and is_future and not any(is_reward(one) for one in term.factors):
                yield Target(each, term, chosen.get(id(each)))


def _is_asked_about_next(term: Term) -> bool:
    return any(role(given) == "next_obs" for one in term.factors for out in outputs_in(one) for given in out.args[1:])


def _is_support(value: Value) -> bool:
    """The atoms of a distribution of returns: linspace(v_min, v_max, n), or what the script calls so."""
    held = list(parts(value, into_networks=False, into_arrays=False))
    if any(flag(part) is not None for part in held[:6]):
        return False
    return any(
        called(part) == "linspace" or (part.op == "attribute" and str(part.data) in ("support", "atoms", "z", "zs")) for part in held[:12]
    )


def _is_best_of_next(run: Execution, value: Value) -> bool:
    """The best value of the next observation, with neither a discount nor a mask; also where zeros are filled with it."""
    if isinstance(value, Symbol) and value.op == "array":
        return any(isinstance(put, Symbol) and put.op == "put" and _is_best_of_next(run, put.args[0]) for put in value.stored[-2:])
    if not any(called(part) in ("max", "amax") for part in parts(value, into_networks=False, into_arrays=False)):
        return False
    slow = {id(copy.network) for copy in copies(run)}
    return any(
        id(root(out.args[0])) in slow or any(role(given) == "next_obs" for given in out.args[1:]) for out in outputs_in(value, stored=False)
    )


def _bare_sum(value: Value) -> Value:
    while isinstance(value, Symbol) and value.args:
        if called(value) in PASSING:
            value = value.args[0]
        elif value.op == "Mult" and any(is_scalar(each) for each in value.args):
            # gamma * (reward + value)
            value = next((each for each in value.args if not is_scalar(each)), value.args[0])
        else:
            break
    return value


def written(value: Value) -> ast.AST | None:
    """Where a value was made; in the code of a network, where the network was asked."""
    if isinstance(value, Symbol) and value.site is not None:
        return value.site
    return value.node if isinstance(value, Symbol | Items | Table | Record) else None


def bound_at(run: Execution, value: Value) -> list[ast.AST]:
    """Statements that gave a value a name, or returned it."""
    return run.bound[id(value)][1] if id(value) in run.bound else []


def backwards(run: Execution) -> list[Event]:
    """Every loss whose gradient is taken, once for each place."""
    if "backwards" not in run.known:
        run.known["backwards"] = list(_backwards(run))
    held: list[Event] = run.known["backwards"]
    return held


def _backwards(run: Execution) -> Iterator[Event]:
    seen: set[tuple[int, ...]] = set()
    climbs = bool(run.optimizers) and all(_is_set(each.keys.get("maximize")) for each in run.optimizers)
    for event in run.events:
        # A dictionary of losses has no gradient: which of them is meant is not known here.
        if event.name == "backward" and not isinstance(event.value, Table):
            key = (*position(event.node), *position(written(event.subject) or event.node))
            if key not in seen:
                seen.add(key)
                # An optimizer that climbs minimizes the objective's negative.
                yield replace(event, value=Symbol("USub", (event.value,), event.node)) if climbs and event.value is not None else event


def _is_set(value: Value | None) -> bool:
    return isinstance(value, Symbol) and value.op == "const" and value.data is True


def returns(script: Script) -> list[tuple[Symbol, Term]]:
    """Sums of a reward and of what the pass before left, times a discount: returns that are accumulated in a loop."""
    return script.once("returns", lambda: _returns(script))


def _returns(script: Script) -> list[tuple[Symbol, Term]]:
    made = []
    for each in execution(script).sums:
        if each.op == "Add":
            held = terms(each)
            plain = [term for term in held if len(term.factors) == 1 and term.sign > 0 and is_reward(term.factors[0])]
            running = [term for term in held if len(term.factors) > 1 and any(carried(one) is not None for one in term.factors)]
            if len(plain) == 1 and len(running) == 1:
                made.append((each, running[0]))
    return made


def traces(script: Script) -> list[tuple[Symbol, Term]]:
    """Sums of an error that was computed before, with a reward in it, and of what the pass before left, times a discount."""
    return script.once("traces", lambda: _traces(script))


def _traces(script: Script) -> list[tuple[Symbol, Term]]:
    made = []
    for each in execution(script).sums:
        if each.op == "Add" and each.data is None:
            held = terms(each)
            running = [term for term in held if len(term.factors) > 1 and any(carried(one) is not None for one in term.factors)]
            rest = [term for term in held if term not in running]
            if len(running) == 1 and len(rest) == 1 and len(rest[0].factors) == 1 and not is_reward(rest[0].factors[0]):
                error = rest[0].factors[0]
                inner = [part for part in parts(error, into_networks=False) if part.op == "stepped" and _role(part) == "reward"]
                if (
                    inner
                    and any(part.op in ("Sub", "out") for part in parts(error, into_networks=False))
                    and not any(part is each for part in parts(error))
                ):
                    made.append((each, running[0]))
    return made


def is_backwards(walked: Value, depth: int = 10) -> bool | None:
    """Whether a loop goes from the last one to the first; None where that is not seen."""
    if isinstance(walked, Items):
        return False
    if not isinstance(walked, Symbol) or depth == 0:
        return None
    if walked.op == "range":
        step = number(walked.args[2]) if len(walked.args) == 3 else 1.0
        return None if step is None else step < 0
    if walked.op == "reversed" or called(walked) in ("flip", "flipud"):
        return True
    if walked.op in ("item", "read") and len(walked.args) > 1:
        key = walked.args[1]
        if isinstance(key, Symbol) and key.op == "slice" and isinstance(key.data, ast.Slice):
            inner = is_backwards(walked.args[0], depth - 1)
            turned = isinstance(key.data.step, ast.UnaryOp)
            return None if inner is None else inner != turned
        return None
    if walked.op in ("zipped", "enumerated"):
        found = [is_backwards(argument, depth - 1) for argument in walked.args]
        return True if any(found) else False if all(each is False for each in found) else None
    if called(walked) in PASSING and walked.args:
        return is_backwards(walked.args[0], depth - 1)
    return False if walked.op in ("array", "Add", "Sub", "Mult", "out", "column", "stepped") else None


def carried(value: Value, depth: int = 8) -> Symbol | None:
    """What the pass before left, also where a branch puts something else in its place."""
    if isinstance(value, Symbol) and value.op == "phi":
        # Branches within branches share their parts: without a limit this would take longer than anybody waits.
        return next((found for each in value.args[1:] if depth and (found := carried(each, depth - 1)) is not None), None)
    if called(value) == "where" and isinstance(value, Symbol) and len(value.args) == 3:
        return next((found for each in value.args[1:] if depth and (found := carried(each, depth - 1)) is not None), None)
    return value if isinstance(value, Symbol) and value.op == "carried" else None
