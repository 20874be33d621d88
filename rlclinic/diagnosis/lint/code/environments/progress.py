"""What environments, wrappers and curricula remember: it is set at reset, moved on at each step, and compared the right way round."""

# ruff: noqa: E501 — a message reads best whole

import ast
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.lint.code.environments import wrappers
from rlclinic.diagnosis.lint.code.environments.wrappers import own_attribute
from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, position

_BEFORE: Final = ("last_", "prev_", "previous_", "old_", "former_", "before_")
_FIXED: Final = frozenset(
    {"start", "init", "initial", "goal", "target", "origin", "first", "base", "reference", "ref", "home", "min", "max", "best", "low", "high",
     "desired", "setpoint", "limit", "mean", "center", "centre"}
)  # fmt: skip
_FAR: Final = frozenset({"norm", "hypot", "abs", "fabs", "dist", "distance", "cdist", "absolute"})
_JOINS: Final = frozenset({"concatenate", "stack", "hstack", "vstack", "append", "tile", "pad", "repeat", "column_stack", "expand_dims"})
_STAGES: Final = ("level", "stage", "difficulty", "lesson", "phase", "curriculum", "tier", "grade")
_CHANCES: Final = ("eps", "epsilon", "noise", "sigma", "temperature", "explor")
_BAD: Final = ("loss", "error", "fail", "crash", "length", "steps", "cost", "collision", "penalt", "miss", "std", "var", "kl", "distance")


# ── what is remembered from step to step ──


def _core(name: str) -> str:
    name = name.lower().strip("_")
    for each in _BEFORE:
        name = name.removeprefix(each)
    return name.strip("_")


def _is_before(attribute: str, other: ast.expr) -> bool:
    """Whether an attribute holds what the other value was at the step before: self.last_gap and gap."""
    core, named = _core(attribute), words.own_name(other).lower().strip("_")
    named = named.removeprefix("new_").removeprefix("next_").removeprefix("current_").removeprefix("cur_").removesuffix("_now")
    return bool(core) and core == named and not _FIXED & set(attribute.lower().split("_"))


def _changes(function: ast.FunctionDef) -> Iterator[tuple[ast.BinOp, str, bool]]:
    """Differences of a value and what an attribute kept of it: the difference, the attribute, and whether the new one comes first."""
    for each in ast.walk(function):
        if not isinstance(each, ast.BinOp) or not isinstance(each.op, ast.Sub):
            continue
        for old, new, is_first in ((each.right, each.left, True), (each.left, each.right, False)):
            bare = new.right if isinstance(new, ast.BinOp) and isinstance(new.op, ast.Mult) else new
            kept = old.right if isinstance(old, ast.BinOp) and isinstance(old.op, ast.Mult) else old
            name = own_attribute(kept)
            if name and not own_attribute(bare) and _is_before(name, bare):
                yield each, name, is_first


def _classes(script: Script) -> Iterator[tuple[ast.ClassDef, dict[str, ast.FunctionDef], ast.FunctionDef]]:
    for kind, methods in wrappers.defined(script):
        step = methods.get("step")
        if step is not None:
            yield kind, methods, step


def stands_still(script: Script) -> Iterator[Spot]:
    """What is compared with the step before is never moved on, or was never set."""
    for _, methods, step in _classes(script):
        moved = wrappers._renewed(methods, step)
        elsewhere = {name for key, each in methods.items() if each is not step for name in wrappers._set_in(each)}
        for change, name, _ in _changes(step):
            if name not in moved and name in elsewhere:
                yield Spot(
                    change,
                    f"self.{name} is what the last step left, and step never moves it on: the difference is that to the beginning of the episode",
                    f"self.{name} = …, at the end of step",
                )
            elif name in moved and name not in elsewhere:
                yield Spot(
                    change,
                    f"self.{name} is compared with before anything set it: reset has to say where an episode begins",
                    f"self.{name} = … in reset",
                )
            elif name in moved and "reset" in methods and name not in wrappers._renewed(methods, methods["reset"]):
                yield Spot(
                    change,
                    f"self.{name} is still that of the last episode at the first step of the next one: reset does not set it",
                    f"self.{name} = … in reset",
                )


def _sign(step: ast.FunctionDef, part: ast.expr, script: Script) -> int:
    """Whether a term is added to the reward (1), taken from it (-1), or not a part of it (0)."""
    sign = 1
    current: ast.AST = part
    while not isinstance(current, ast.stmt):
        above = script.parents.get(current)
        if above is None or above is step:
            return 0
        if isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.USub):
            sign = -sign
        elif isinstance(above, ast.BinOp):
            if isinstance(above.op, ast.Sub) and above.right is current:
                sign = -sign
            elif isinstance(above.op, ast.Mult):
                other = above.left if above.right is current else above.right
                if isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.USub):
                    sign = -sign
            elif not isinstance(above.op, ast.Add | ast.Sub | ast.Div):
                return 0
        elif (isinstance(above, ast.Call) and words.own_name(above.func) not in ("float", "clip", "item")) or isinstance(
            above, ast.Compare | ast.Subscript | ast.IfExp
        ):
            return 0
        current = above
    if isinstance(current, ast.AugAssign) and words.REWARD(words.own_name(current.target)):
        return sign if isinstance(current.op, ast.Add) else -sign if isinstance(current.op, ast.Sub) else 0
    if isinstance(current, ast.Assign) and any(words.REWARD(words.own_name(each)) for each in current.targets):
        return sign
    return 0


def _is_far(methods: dict[str, ast.FunctionDef], name: str) -> bool:
    """A distance, by how it is computed where it is set."""
    for function in methods.values():
        for each in ast.walk(function):
            if isinstance(each, ast.Assign) and any(own_attribute(target) == name for target in each.targets):
                value: ast.expr = each.value
                while isinstance(value, ast.Call) and words.own_name(value.func) in ("float", "round", "item") and value.args:
                    value = value.args[0]
                if isinstance(value, ast.Call) and words.own_name(value.func).lower().strip("_") in _FAR:
                    return True
    return False


def pays_for_the_way_back(script: Script) -> Iterator[Spot]:
    """reward += distance - self.last_distance: moving away is paid for; potential-based shaping with its sign turned."""
    for _, methods, step in _classes(script):
        for change, name, new_first in _changes(step):
            sign = _sign(step, change, script) * (1 if new_first else -1)
            core = _core(name)
            if sign > 0 and _is_far(methods, name):
                yield Spot(
                    change,
                    f"the distance minus self.{name} is paid: the reward is for moving away",
                    f"self.{name} - {core}",
                )
            elif sign < 0 and any(word in core for word in ("potential", "phi", "progress", "height", "altitude")):
                yield Spot(
                    change,
                    f"what is gained over self.{name} is taken away from the reward: it pays for falling back",
                    f"{core} - self.{name}",
                )


_FAILED: Final = ("crash", "fell", "fall", "collision", "collid", "dead", "died", "fail", "lost", "frost", "hole", "trap", "lava", "pit", "broke",
                  "out_of_bounds", "off_track", "offroad", "drown", "burn", "hit_wall", "caught")  # fmt: skip
_WON: Final = (
    "success",
    "goal",
    "reached",
    "landed",
    "won",
    "win",
    "solved",
    "delivered",
    "docked",
    "arrived",
    "caught_prey",
    "finished_task",
)


def ends_paid_the_wrong_way(script: Script) -> Iterator[Spot]:
    """if crashed: reward += 5; if landed: reward -= 5"""
    for _, _, step in _classes(script):
        for node in ast.walk(step):
            if not isinstance(node, ast.If) or not isinstance(node.test, ast.Name | ast.Attribute):
                continue
            name = words.own_name(node.test).lower()
            failed, won = any(word in name for word in _FAILED), any(word in name for word in _WON)
            if failed == won or name.startswith(("not_", "no_")):
                continue
            for each in node.body:
                paid = _paid(each)
                if paid is not None and ((failed and paid > 0) or (won and paid < 0)):
                    yield Spot(
                        each,
                        f"{name} {'is paid for' if failed else 'is punished'}: the reward has the wrong sign there",
                        "-" if failed else "+",
                    )


def _paid(node: ast.stmt) -> float | None:
    """What a statement adds to the reward, where it is a number."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub) and words.REWARD(words.own_name(node.target)):
        number = _number(node.value)
        return None if number is None else number if isinstance(node.op, ast.Add) else -number
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and words.REWARD(words.own_name(node.targets[0])):
        return _number(node.value)
    return None


def _number(node: ast.expr) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    return float(node.value) if isinstance(node, ast.Constant) and isinstance(node.value, int | float) else None


def effort_is_paid(script: Script) -> Iterator[Spot]:
    """reward + 0.001 * square(action).sum()"""
    for kind, _, step in _classes(script):
        if len(step.args.args) < 2 or wrappers.is_wrapper(kind):
            continue
        action = step.args.args[1].arg
        for each in ast.walk(step):
            squared = isinstance(each, ast.Call) and words.own_name(each.func) in ("square", "norm", "abs", "dot")
            squared = squared or (isinstance(each, ast.BinOp) and isinstance(each.op, ast.Pow))
            if not squared or not any(isinstance(part, ast.Name) and part.id == action for part in ast.walk(each)):
                continue
            plain = all(
                isinstance(part, ast.Name) and part.id in (action, "np", "numpy", "math", "float")
                for part in ast.walk(each)
                if isinstance(part, ast.Name)
            )
            inner = script.parents.get(each)
            outer: ast.AST = each
            while isinstance(inner, ast.Attribute | ast.Call) and not isinstance(outer, ast.stmt):
                outer, inner = inner, script.parents.get(inner)
            if plain and isinstance(outer, ast.expr) and _sign(step, outer, script) > 0:
                yield Spot(each, "the size of the action is added to the reward: effort is paid for", "- weight * effort")


def frames_of_the_last_episode(script: Script) -> Iterator[Spot]:
    """A wrapper's deque of frames that reset neither clears nor fills."""
    for kind in script.classes:
        if not wrappers.is_wrapper(kind) or any("Vec" in ast.unparse(base) for base in kind.bases):
            continue
        methods = {each.name: each for each in kind.body if isinstance(each, ast.FunctionDef)}
        shown = methods.get("observation") or methods.get("step")
        made = {
            own_attribute(target)
            for each in (ast.walk(methods["__init__"]) if "__init__" in methods else ())
            if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call) and words.own_name(each.value.func) == "deque"
            for target in each.targets
        } - {""}
        returned = {
            own_attribute(part)
            for function in methods.values()
            if function.name in ("observation", "step") or "obs" in function.name.lower()
            for each in ast.walk(function)
            if isinstance(each, ast.Return) and each.value is not None
            for part in ast.walk(each.value)
        }
        for name in sorted(made & returned) if shown is not None else ():
            reset = methods.get("reset")
            if reset is None or not _begins(reset, name):
                yield Spot(
                    reset if reset is not None else methods["__init__"],
                    f"self.{name} still holds what the last episode showed: reset neither clears nor fills it",
                    f"self.{name}.clear() in reset, and the first observation in all its places",
                )


def _begins(reset: ast.FunctionDef, name: str) -> bool:
    for each in ast.walk(reset):
        method = each.func if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) else None
        if method is not None and own_attribute(method.value) == name and method.attr in ("clear", "extend"):
            return True
        if isinstance(each, ast.Assign) and any(own_attribute(target) == name for target in each.targets):
            return True
        if isinstance(each, ast.For | ast.While | ast.ListComp) and any(
            isinstance(one, ast.Attribute) and one.attr == "append" and own_attribute(one.value) == name for one in ast.walk(each)
        ):
            return True
    return False


def joined_into_the_same_space(script: Script) -> Iterator[Spot]:
    """An ObservationWrapper that joins things to the observation, and declares no space for what comes out."""
    for kind in script.classes:
        bases = [ast.unparse(base).rpartition(".")[2] for base in kind.bases]
        method = next((each for each in kind.body if isinstance(each, ast.FunctionDef) and each.name == "observation"), None)
        if "ObservationWrapper" not in bases or method is None:
            continue
        text = {each.attr for each in ast.walk(kind) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)}
        text |= {each.name for each in kind.body if isinstance(each, ast.FunctionDef)}
        if text & {"observation_space", "_observation_space"}:
            continue
        for each in ast.walk(method):
            call = each.value if isinstance(each, ast.Return) else None
            while (
                isinstance(call, ast.Call)
                and words.own_name(call.func) in ("asarray", "array", "astype", "float32")
                and (call.args or isinstance(call.func, ast.Attribute))
            ):
                inner = call.func.value if words.own_name(call.func) == "astype" and isinstance(call.func, ast.Attribute) else call.args[0]
                call = inner if isinstance(inner, ast.Call) else None
            if isinstance(call, ast.Call) and words.own_name(call.func) in _JOINS:
                yield Spot(
                    call,
                    "what comes out is larger than what went in, and the wrapper declares the observation space of the environment inside",
                    "self.observation_space = …",
                )


# ── stages and chances that move on ──


def _moved(node: ast.AST) -> tuple[str, ast.expr, bool, ast.expr | None, str] | None:
    """What a statement adds to a name (True) or takes from it (False), and the bound that holds it: x = min(most, x + step)."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
        return ast.unparse(node.target), node.value, isinstance(node.op, ast.Add), None, ""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return None
    name, value, bound, kind = ast.unparse(node.targets[0]), node.value, None, ""
    if isinstance(value, ast.Call) and words.own_name(value.func) in ("min", "max") and len(value.args) == 2:
        kind = words.own_name(value.func)
        inner = [each for each in value.args if isinstance(each, ast.BinOp) and ast.unparse(each.left) == name]
        if len(inner) != 1:
            return None
        bound = next(each for each in value.args if each is not inner[0])
        value = inner[0]
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub) and ast.unparse(value.left) == name:
        return name, value.right, isinstance(value.op, ast.Add), bound, kind
    return None


def _named(name: str, of: tuple[str, ...]) -> bool:
    last = name.rpartition(".")[2].lower()
    return any(word in last for word in of)


def bounded_on_the_wrong_side(script: Script) -> Iterator[tuple[str, Spot]]:
    """level = min(most, level - step): the bound lies on the side that it moves away from."""
    for node in script.all(ast.Assign):
        moved = _moved(node)
        if moved is None or moved[3] is None:
            continue
        name, by, grows, _, kind = moved
        is_stage, is_chance = _named(name, _STAGES), _named(name, _CHANCES)
        positive = not (isinstance(by, ast.UnaryOp) and isinstance(by.op, ast.USub))
        if positive and (is_stage or is_chance) and ((kind == "min" and not grows) or (kind == "max" and grows)):
            yield (
                "COD508" if is_chance else "COD127",
                Spot(
                    node,
                    f"{name} {'falls' if not grows else 'grows'}, and its bound holds it on the other side: it moves the wrong way",
                    "+" if not grows else "-",
                ),
            )


def promoted_for_failing(script: Script) -> Iterator[tuple[str, Spot]]:
    """if mean(successes) < bar: level += 1"""
    for node in script.all(ast.If):
        tests = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else [node.test]
        raised = [moved for each in node.body for inner in ast.walk(each) if (moved := _moved(inner)) and _named(moved[0], _STAGES)]
        if not raised or not all(each[2] for each in raised):
            continue
        for test in tests:
            if not isinstance(test, ast.Compare) or len(test.ops) != 1:
                continue
            left, right, op = test.left, test.comparators[0], test.ops[0]
            low = isinstance(op, ast.Lt | ast.LtE)
            if _judged(right) and not _judged(left):
                left, low = right, isinstance(op, ast.Gt | ast.GtE)
            if _judged(left) and low and not any(word in ast.unparse(left).lower() for word in _BAD):
                yield "COD127", Spot(test, "the next stage begins where results are low: whoever fails moves on", ">=")


def _judged(value: ast.expr) -> bool:
    """The mean of results, or a name that says so."""
    text = ast.unparse(value).lower()
    if "len(" in text:
        return False
    return any(
        word in text
        for word in ("success", "result", "score", "return", "reward", "win", "solved", "rate", "landing", "reached", "outcome")
    )


# ── loops that collect ──


def clock_never_restarted(script: Script) -> Iterator[tuple[str, Spot]]:
    """if done or steps == limit: reset(), and steps is never set back."""
    for loop in script.all(ast.For, ast.While):
        counted = {
            node.target.id: node
            for node in ast.walk(loop)
            if isinstance(node, ast.AugAssign)
            and isinstance(node.op, ast.Add)
            and isinstance(node.target, ast.Name)
            and isinstance(node.value, ast.Constant)
            and node.value.value == 1
        }
        if not counted or not any(isinstance(node, ast.Call) and script.last(node) == "step" for node in ast.walk(loop)):
            continue
        stored = {
            part.id
            for node in ast.walk(loop)
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.For)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            for part in ast.walk(target)
            if isinstance(part, ast.Name)
        }
        for node in ast.walk(loop):
            if not isinstance(node, ast.If) or not isinstance(node.test, ast.BoolOp) or not isinstance(node.test.op, ast.Or):
                continue
            resets = any(isinstance(each, ast.Call) and script.last(each) == "reset" for part in node.body for each in ast.walk(part))
            for test in node.test.values if resets else ():
                name = words.own_name(test.left) if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) else ""
                if (
                    name in counted
                    and name not in stored
                    and isinstance(test, ast.Compare)
                    and isinstance(test.ops[0], ast.Eq | ast.GtE | ast.Gt)
                ):
                    yield (
                        "COD112",
                        Spot(
                            node,
                            f"`{name}` is compared with the length of an episode, and no episode sets it back: all but the first are cut wrongly",
                            f"{name} = 0 where a new episode begins",
                        ),
                    )


def stepped_once_for_many(script: Script) -> Iterator[tuple[str, Spot]]:
    """Gradients are cleared and computed in each pass, and the optimizer steps after the loop: only the last pass counts."""
    for loop in script.all(ast.For, ast.While):
        cleared = {
            script.owner(each)
            for part in loop.body
            for each in ast.walk(part)
            if isinstance(each, ast.Call) and script.last(each) == "zero_grad" and script.owner(each)
        }
        inside = {
            script.owner(each)
            for part in loop.body
            for each in ast.walk(part)
            if isinstance(each, ast.Call) and script.last(each) == "step"
        }
        learns = any(isinstance(each, ast.Call) and script.last(each) == "backward" for part in loop.body for each in ast.walk(part))
        for owner in cleared - inside if learns else ():
            after = [
                call
                for call in script.calls("step")
                if script.owner(call) == owner and script.scope(call) is script.scope(loop) and not call.args
            ]
            above = [call for call in after if loop not in script.loops(call) and set(script.loops(call)) <= set(script.loops(loop))]
            if len(after) == 1 and above and position(above[0]) > position(loop):
                yield (
                    "COD404",
                    Spot(
                        above[0],
                        "gradients are cleared and computed in every pass of the loop above, and the optimizer steps after it: only the last pass counts",
                        "step in the loop",
                    ),
                )


def one_environment_many_times(script: Script) -> Iterator[tuple[str, Spot]]:
    """[gym.make(id)] * n: one environment, that many times."""
    for node in script.all(ast.BinOp):
        if not isinstance(node.op, ast.Mult):
            continue
        for listed in (node.left, node.right):
            made = listed.elts[0] if isinstance(listed, ast.List) and len(listed.elts) == 1 else None
            if isinstance(made, ast.Call) and words.own_name(made.func) in ("make", "make_env"):
                text = "one environment stands in all places of this list: its copies step each other's episodes"
                yield "COD804", Spot(node, text, "[gym.make(…) for _ in range(n)]")


_DRAWING: Final = frozenset(
    {"sample", "choice", "choices", "randint", "integers", "permutation", "randperm", "shuffle", "multinomial", "random", "rand", "uniform",
     "retrieve", "get_leaf", "RandomSampler", "SubsetRandomSampler", "BatchSampler"}
)  # fmt: skip


def newest_rows_alone(script: Script) -> Iterator[tuple[str, Spot]]:
    """A buffer whose sample() gives its last rows."""
    for kind in script.classes:
        methods = {each.name: each for each in kind.body if isinstance(each, ast.FunctionDef)}
        if not methods.keys() & {"add", "push", "store", "append", "remember", "put", "insert", "record"}:
            continue
        for name, method in methods.items():
            if not name.startswith(("sample", "draw")):
                continue
            called_here = {words.own_name(each.func) for each in ast.walk(method) if isinstance(each, ast.Call)}
            called_here |= {part.attr for part in ast.walk(method) if isinstance(part, ast.Attribute)}
            if called_here & _DRAWING or called_here & (methods.keys() - {name}):
                continue
            for each in ast.walk(method):
                tail = isinstance(each, ast.Slice) and isinstance(each.lower, ast.UnaryOp) and each.upper is None and each.step is None
                counted = (
                    isinstance(each, ast.Call)
                    and words.own_name(each.func) in ("arange", "range")
                    and len(each.args) == 2
                    and isinstance(each.args[0], ast.BinOp)
                    and isinstance(each.args[0].op, ast.Sub)
                )
                if (
                    tail
                    and isinstance(each, ast.Slice)
                    and isinstance(each.lower, ast.UnaryOp)
                    and not isinstance(each.lower.operand, ast.Constant)
                ) or counted:
                    where = script.parents.get(each, each) if isinstance(each, ast.Slice) else each
                    yield (
                        "COD416",
                        Spot(
                            where, "the newest rows are taken, not random ones: the memory behind them is never used", "draw them at random"
                        ),
                    )
                    break


# ── callbacks that end training ──


def callback_forgets_to_go_on(script: Script) -> Iterator[tuple[str, Spot]]:
    """`_on_step` that returns True on one way, and nothing on the others; or False at every end of an episode."""
    for function in script.functions:
        if function.name != "_on_step" or not script.is_sb3:
            continue
        ends = [each for each in script.inside(function, ast.Return) if script.scope(each) is function]
        if ends and not _always_returns(function.body):
            for where in (function.body[-1], ends[-1]):
                yield (
                    "COD810",
                    Spot(
                        where,
                        "on some ways nothing is returned here, and None stops training like False",
                        "return True, at the end of the method",
                    ),
                )
        for each in ends:
            value = (
                each.value.args[0]
                if isinstance(each.value, ast.Call) and words.own_name(each.value.func) == "bool" and each.value.args
                else each.value
            )
            good = isinstance(value, ast.Compare) and len(value.ops) == 1 and isinstance(value.ops[0], ast.Gt | ast.GtE)
            text = ast.unparse(value).lower() if good and value is not None else ""
            results = isinstance(value, ast.Compare) and (_judged(value.left) or "mean" in ast.unparse(value.left))
            if text and results and not any(word in text for word in _BAD):
                yield "COD810", Spot(each, "training goes on while results are good, and stops where they are bad: it is over at once", "<")
            above = script.parents.get(each)
            stops = isinstance(each.value, ast.Constant) and each.value.value is False
            if (
                stops
                and isinstance(above, ast.If)
                and isinstance(above.test, ast.Name | ast.Subscript)
                and words.END(words.own_name(above.test))
            ):
                yield "COD810", Spot(each, "False stops training: it is over at the end of the first episode", "return True")


def _always_returns(body: list[ast.stmt]) -> bool:
    last = body[-1]
    if isinstance(last, ast.Return | ast.Raise):
        return True
    if isinstance(last, ast.If):
        return bool(last.orelse) and _always_returns(last.body) and _always_returns(last.orelse)
    if isinstance(last, ast.With):
        return _always_returns(last.body)
    if isinstance(last, ast.Try):
        return (_always_returns(last.body) or (bool(last.orelse) and _always_returns(last.orelse))) or bool(last.finalbody)
    if isinstance(last, ast.Match):
        return True
    return isinstance(last, ast.While) and isinstance(last.test, ast.Constant)


_TAGGED: Final = (
    bounded_on_the_wrong_side, promoted_for_failing, callback_forgets_to_go_on, clock_never_restarted, stepped_once_for_many, newest_rows_alone,
    one_environment_many_times,
)  # fmt: skip


def _tagged(id: str) -> Callable[[Script], Iterator[Spot]]:
    def law(script: Script) -> Iterator[Spot]:
        for each in _TAGGED:
            yield from (spot for found, spot in each(script) if found == id)

    return law


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD112": (stands_still, frames_of_the_last_episode, _tagged("COD112")),
    "COD404": (_tagged("COD404"),),
    "COD416": (_tagged("COD416"),),
    "COD114": (pays_for_the_way_back, ends_paid_the_wrong_way, effort_is_paid),
    "COD115": (joined_into_the_same_space,),
    "COD127": (_tagged("COD127"),),
    "COD508": (_tagged("COD508"),),
    "COD804": (_tagged("COD804"),),
    "COD810": (_tagged("COD810"),),
}
"""What is added to which check."""
