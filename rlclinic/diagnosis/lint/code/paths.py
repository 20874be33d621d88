"""Paths of experience: what is filled step by step and begun anew, sums along a path, chances over time, environments that nobody steps."""

# ruff: noqa: E501 — a message reads best whole

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.lint.code import schedules
from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, argument, keyword

_LEAVING: Final = (ast.Break, ast.Return, ast.Raise)


# ── lists that hold one episode ──


def path_not_begun_anew(script: Script) -> Iterator[Spot]:
    """What an episode left in a list is summed up at its end, and stays there for the next one."""
    for loop in script.all(ast.For, ast.While):
        if isinstance(loop, ast.While) and any(_speaks_of_end(name) for name in _names(loop.test)):
            continue
        for branch in [each for each in loop.body if isinstance(each, ast.If) and _asks_for_end(each.test)]:
            if any(isinstance(each, _LEAVING) for each in branch.body):
                continue
            for name, filled in _filled(script, loop, branch).items():
                read = [
                    call
                    for statement in branch.body
                    for call in ast.walk(statement)
                    if isinstance(call, ast.Call) and any(ast.unparse(given) == name for given in call.args)
                ]
                sums = [call for call in read if script.last(call) not in ("len", "sum", "print", "mean", "append", "max", "min")]
                if not sums or _is_begun_anew(script, name, loop):
                    continue
                begun = [node for node in script.all(ast.Assign) if any(name in _targets(target) for target in node.targets)]
                for where in (filled, *sums[:2], *begun[:2]):
                    yield Spot(
                        where,
                        f"at the end of an episode `{name}` is summed up and not begun anew: the next episode's rewards are added to this one's",
                        f"{name} = []",
                    )


def _filled(script: Script, loop: ast.stmt, branch: ast.If) -> dict[str, ast.Call]:
    """Lists to which a loop appends a reward or a value of each step, outside of the branch of an end."""
    held: dict[str, ast.Call] = {}
    for call in script.calls("append", within=loop):
        innermost = script.loops(call)
        if not isinstance(call.func, ast.Attribute) or not call.args or not innermost or innermost[0] is not loop:
            continue
        if branch in list(script.ancestors(call)):
            continue
        name = ast.unparse(call.func.value)
        if any(words.REWARD(word) for word in (*_names(call.args[0]), name.rpartition(".")[2])):
            held.setdefault(name, call)
    return held


def _is_begun_anew(script: Script, name: str, loop: ast.AST) -> bool:
    last = name.rpartition(".")[2]
    for node in script.all(ast.Assign):
        if any(
            name in _targets(target) or (last != name and any(one.rpartition(".")[2] == last for one in _targets(target)))
            for target in node.targets
        ):
            inside = loop in list(script.ancestors(node))
            function = script.scope(node)
            if inside or (last != name and getattr(function, "name", "") != "__init__"):
                return True
    if any(ast.unparse(target).startswith(name) for node in script.all(ast.Delete) for target in node.targets):
        return True
    return any(
        isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value).rpartition(".")[2] == last
        for call in script.calls("clear", "popleft", "pop")
    )


def _targets(target: ast.expr) -> list[str]:
    if isinstance(target, ast.Tuple | ast.List):
        return [name for each in target.elts for name in _targets(each)]
    return [ast.unparse(target)]


def _names(node: ast.AST) -> list[str]:
    return [each.id if isinstance(each, ast.Name) else each.attr for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute)]


def _speaks_of_end(name: str) -> bool:
    return words.END(name) or words.TRUNCATED(name) or words.COMBINED(name) or words.NOT_ENDED(name)


def _asks_for_end(test: ast.expr) -> bool:
    return any(_speaks_of_end(name) for name in _names(test)) and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))


# ── sums along a path ──


def entries_not_written_yet(script: Script) -> Iterator[Spot]:
    """for i in range(n): sums[i] = rewards[i] + gamma * sums[i + 1]: the entry behind is still empty."""
    for loop in script.all(ast.For):
        forwards = _direction(script, loop)
        if forwards is None or not isinstance(loop.target, ast.Name):
            continue
        beside = 1 if forwards else -1
        for node in script.inside(loop, ast.Assign):
            target = node.targets[0]
            if not isinstance(target, ast.Subscript) or ast.unparse(target.slice) != loop.target.id:
                continue
            holder = ast.unparse(target.value)
            late = [
                each
                for each in ast.walk(node.value)
                if isinstance(each, ast.Subscript) and ast.unparse(each.value) == holder and _shift(each.slice, loop.target.id) == beside
            ]
            if late and script.loops(node)[:1] == [loop]:
                for where in (node, loop):
                    yield Spot(
                        where,
                        f"`{ast.unparse(late[0])}` is read before this loop has written it: what follows a step is never counted",
                        "go backwards: for i in reversed(range(n))",
                    )


def sum_of_the_past(script: Script) -> Iterator[Spot]:
    """to_go[i] = sum(gamma ** k * rewards[k] for k in range(i + 1))"""
    for loop in script.all(ast.For):
        if not isinstance(loop.target, ast.Name):
            continue
        for node in script.inside(loop, ast.Assign):
            target = node.targets[0]
            if not isinstance(target, ast.Subscript) or ast.unparse(target.slice) != loop.target.id:
                continue
            for made in [each for each in ast.walk(node.value) if isinstance(each, ast.GeneratorExp | ast.ListComp)]:
                walked = made.generators[0].iter
                counted = made.generators[0].target
                rewarded = [
                    each
                    for each in ast.walk(made.elt)
                    if isinstance(each, ast.Subscript)
                    and isinstance(counted, ast.Name)
                    and ast.unparse(each.slice) == counted.id
                    and any(words.REWARD(name) for name in _names(each.value))
                ]
                bound = (
                    walked.args[-1] if isinstance(walked, ast.Call) and script.last(walked) == "range" and len(walked.args) == 1 else None
                )
                if rewarded and bound is not None and loop.target.id in _names(bound) and _shift(bound, loop.target.id) in (0, 1):
                    for where in (node, loop):
                        yield Spot(
                            where,
                            "what is summed up for a step are the rewards before it: what the action brought comes after it",
                            "range(i, n)",
                        )


def _direction(script: Script, loop: ast.For) -> bool | None:
    """Whether a loop counts upwards; None where it does not count."""
    walked = loop.iter
    if isinstance(walked, ast.Call) and script.last(walked) == "reversed":
        return False
    if isinstance(walked, ast.Call) and script.last(walked) == "range":
        if len(walked.args) < 3:
            return True
        step = script.constant(walked.args[2])
        return None if step is None else step > 0
    return None


def _shift(node: ast.expr, name: str) -> int | None:
    if isinstance(node, ast.Name):
        return 0 if node.id == name else None
    if not isinstance(node, ast.BinOp) or not isinstance(node.left, ast.Name) or node.left.id != name:
        return None
    counted = node.right.value if isinstance(node.right, ast.Constant) else None
    if not isinstance(counted, int) or not isinstance(node.op, ast.Add | ast.Sub):
        return None
    return counted if isinstance(node.op, ast.Add) else -counted


# ── chances over time ──


def chance_below_nothing(script: Script) -> Iterator[Spot]:
    """min(slope * t + start, end): the last chance from the first step on, and less than none later."""
    for loop, name, begin, end in schedules.counted(script):
        for where, value in schedules.chances(script, loop, name):
            first, last = schedules.value_at(script, value, begin), schedules.value_at(script, value, end)
            if first is None or last is None or first > 0.2 or last >= first - 1e-6 or last >= 0:
                continue
            inner = [
                each
                for function in script.functions
                if isinstance(value, ast.Call) and function.name == script.last(value)
                for each in script.inside(function, ast.Return)
            ]
            for spot in (where, *inner):
                yield Spot(
                    spot,
                    f"the chance to explore is {first:.2g} at the first step and falls below 0: the smaller of two is taken where the larger is meant",
                    "max(slope * t + start, end)",
                )


# ── rings ──


def ring_never_closes(script: Script) -> Iterator[Spot]:
    """The place of the next row counts on beyond the last row."""
    for holder in script.classes:
        sampled = any(re.search(r"sample|get_batch|read|draw", each.name) for each in script.inside(holder, ast.FunctionDef))
        for node in script.inside(holder, ast.AugAssign):
            name = ast.unparse(node.target)
            if not sampled or not isinstance(node.op, ast.Add) or not name.startswith("self.") or script.constant(node.value) != 1:
                continue
            stores = [
                each
                for each in script.inside(holder, ast.Assign)
                if isinstance(each.targets[0], ast.Subscript)
                and ast.unparse(each.targets[0].slice) in {name, *_aliases(script, holder, name)}
            ]
            aliased = [
                each
                for each in script.inside(holder, ast.Assign)
                if ast.unparse(each.value) == name and isinstance(each.targets[0], ast.Name)
            ]
            attribute = name.rpartition(".")[2]
            others = [
                each
                for each in script.all(ast.Assign)
                if any(one.rpartition(".")[2] == attribute for target in each.targets for one in _targets(target))
                and getattr(script.scope(each), "name", "") != "__init__"
            ]
            bounded = any(
                (isinstance(each, ast.Compare) and name in ast.unparse(each))
                or (
                    isinstance(each, ast.Call)
                    and script.last(each) in ("min", "randint", "integers", "choice")
                    and name in ast.unparse(each)
                )
                for each in ast.walk(holder)
            )
            if len(stores) > 2 and not others and bounded:
                for where in (node, *stores[-2:], *aliased[:1], *_marks_full(script, holder)):
                    yield Spot(
                        where,
                        f"`{name}` counts on and is never set back: behind the last row there is no place to write to",
                        f"{name} = ({name} + 1) % self.capacity",
                    )


def _aliases(script: Script, holder: ast.AST, name: str) -> set[str]:
    """Other names of the same place: index = self.count"""
    made = [each for each in script.inside(holder, ast.Assign) if ast.unparse(each.value) == name]
    return {each.targets[0].id for each in made if isinstance(each.targets[0], ast.Name)}


def _marks_full(script: Script, holder: ast.AST) -> list[ast.AST]:
    return [
        each
        for each in script.inside(holder, ast.Assign)
        if isinstance(each.value, ast.Constant) and each.value.value is True and "full" in ast.unparse(each.targets[0])
    ]


# ── environments ──


def one_seed_for_all(script: Script) -> Iterator[Spot]:
    """env.seed(seed) in a maker that is told which of several environments it makes."""
    for function in script.functions:
        places = [each.arg for each in function.args.args]
        ranks = [each for each in places if re.fullmatch(r"rank|idx|i|index|worker(_id)?|n|k", each)]
        seeds = [each for each in places if each == "seed" or each.endswith("_seed")]
        if (
            not ranks
            or not seeds
            or not any(isinstance(each, ast.ListComp) for call in script.calls(function.name) for each in script.ancestors(call))
        ):
            continue
        sites = [call for call in script.calls(function.name) if any(isinstance(each, ast.ListComp) for each in script.ancestors(call))]
        differs = [
            call
            for call in sites
            if (given := argument(call, places.index(seeds[0]), seeds[0])) is not None
            and not isinstance(given, ast.Name | ast.Attribute | ast.Constant)
        ]
        for call in script.calls("seed", "reset", within=function) if not differs else ():
            given = argument(call, 0, "seed") if script.last(call) == "seed" else keyword(call, "seed")
            owner = script.owner(call)
            if (
                isinstance(given, ast.Name)
                and given.id in seeds
                and owner
                and "space" not in owner
                and words.ENVIRONMENT(owner.rpartition(".")[2])
            ):
                yield Spot(
                    call,
                    f"all environments get the same seed: `{ranks[0]}` takes no part in it, and they live through the same episodes",
                    f"{seeds[0]} + {ranks[0]}",
                )


# ── distributions ──


def called_scores(script: Script) -> Iterator[Spot]:
    """Categorical(probs=logits_net(obs))"""
    for call in script.calls("Categorical", "OneHotCategorical", "Bernoulli"):
        given = keyword(call, "probs")
        if given is None and call.args:
            given = call.args[0]
        name = _own(given.func) if isinstance(given, ast.Call) else _own(given) if given is not None else ""
        if re.search(r"(^|_)logits?($|_)", name):
            yield Spot(
                call, "raw scores are given where probabilities are expected: some are below 0, and they do not add up to 1", "logits=…"
            )


def _own(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def exponential_twice(script: Script) -> Iterator[Spot]:
    """torch.exp(torch.exp(log_std))"""
    for call in script.calls("exp"):
        inner = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(inner, ast.Call) and script.last(inner) == "exp":
            yield Spot(call, "the exponential of an exponential: the deviation begins above 1 and cannot fall below it", "log_std.exp()")


# ── numbers, counters and orders ──


def whole_numbers(script: Script) -> Iterator[Spot]:
    """np.zeros(size, dtype=np.int64) for rewards and values: what is written into it loses its fraction."""
    for node in script.all(ast.Assign):
        call = node.value
        if not isinstance(call, ast.Call) or script.last(call) not in ("zeros", "empty", "full", "ones"):
            continue
        kind = keyword(call, "dtype")
        text = ast.unparse(kind) if kind is not None else ""
        name = _own(node.targets[0])
        valued = words.REWARD(name.replace("_memory", "").replace("_buf", "")) or re.fullmatch(
            r"[qQ](_?table|_values?)?|[vV]|values?", name
        )
        if re.search(r"(^|\.)(u?int\d*|long|bool_?)$", text) and name and valued and script.calls("step"):
            yield Spot(node, f"`{name}` holds whole numbers: what is written into it loses its fraction", "dtype=np.float32")


def counter_stands_still(script: Script) -> Iterator[Spot]:
    """if self.learn_steps % self.interval == 0, where nothing counts the steps."""
    for test in script.all(ast.Compare):
        left = test.left
        if not isinstance(left, ast.BinOp) or not isinstance(left.op, ast.Mod) or not isinstance(left.left, ast.Attribute):
            continue
        name = left.left.attr
        if ast.unparse(left.left) != f"self.{name}":
            continue
        made = [
            node
            for node in script.all(ast.Assign)
            if any(one.rpartition(".")[2] == name for each in node.targets for one in _targets(each))
        ]
        stores = [each for each in script.all(ast.Attribute) if each.attr == name and isinstance(each.ctx, ast.Store)]
        counted = len(stores) > 1
        inherited = any(each.bases and not script.functions for each in script.classes)
        if len(made) == 1 and not counted and not inherited and script.constant(made[0].value) == 0:
            for where in (test, made[0], *script.calls("step")[:0], *_learning_end(script, test)):
                yield Spot(
                    where,
                    f"nothing counts `self.{name}`: it stays 0, and what is asked for every so many steps happens at each of them",
                    f"self.{name} += 1",
                )


def _learning_end(script: Script, test: ast.AST) -> list[ast.AST]:
    """The steps of optimizers, behind which a counter of learning steps belongs."""
    made: list[ast.AST] = []
    for call in script.calls("step"):
        if words.OPTIMIZER(script.owner(call).rpartition(".")[2]):
            statement = script.statement(call)
            body = _block(script, statement)
            made += [statement, *body[body.index(statement) + 1 :][:1]] if statement in body else [statement]
    return made[:2]


def _block(script: Script, statement: ast.stmt) -> list[ast.stmt]:
    parent = script.parents.get(statement)
    for field in ("body", "orelse", "finalbody"):
        held = getattr(parent, field, None)
        if isinstance(held, list) and statement in held:
            return held
    return []


def turned_apart(script: Script) -> Iterator[Spot]:
    """zip(reversed(storage.rewards), storage.masks)"""
    for call in script.calls("zip"):
        turned = [each for each in call.args if _turned(script, each) is not None]
        plain = [each for each in call.args if isinstance(each, ast.Attribute)]
        owners = {ast.unparse(inner.value) for each in turned if isinstance(inner := _turned(script, each), ast.Attribute)}
        wrong = [each for each in plain if ast.unparse(each.value) in owners]
        if wrong and isinstance(script.parents.get(call), ast.For | ast.comprehension):
            yield Spot(
                call,
                f"one of these is walked from the end, and `{ast.unparse(wrong[0])}` from the beginning: rows of different steps meet",
                "reversed(…) of all",
            )


def _turned(script: Script, node: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.Call) and script.last(node) == "reversed" and node.args:
        return node.args[0]
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and isinstance(node.slice.step, ast.UnaryOp):
        return node.value
    return None


def sum_never_carried(script: Script) -> Iterator[Spot]:
    """for r in reversed(rewards): total = r; returns.insert(0, total)"""
    for loop in script.all(ast.For):
        backwards = _turned(script, loop.iter) if isinstance(loop.iter, ast.expr) else None
        if (
            backwards is None
            or not isinstance(loop.target, ast.Name)
            or not any(words.REWARD(name) for name in (loop.target.id, *_names(backwards)))
        ):
            continue
        for node in [each for each in loop.body if isinstance(each, ast.Assign)]:
            target = node.targets[0]
            kept = isinstance(target, ast.Name) and any(
                isinstance(given, ast.Name) and given.id == target.id
                for call in script.calls("append", "insert", within=loop)
                for given in call.args
            )
            if kept and isinstance(node.value, ast.Name) and node.value.id == loop.target.id:
                for where in (node, loop):
                    yield Spot(
                        where,
                        "each return is the reward of its own step alone: nothing of what follows is added to it",
                        "total = reward + gamma * total",
                    )


def discount_twice(script: Script) -> Iterator[Spot]:
    """GAMMA * GAMMA * value, where one step lies between"""
    for node in script.all(ast.BinOp):
        above = script.parents.get(node)
        if not isinstance(node.op, ast.Mult) or (isinstance(above, ast.BinOp) and isinstance(above.op, ast.Mult)):
            continue
        factors: list[ast.expr] = []
        pending: list[ast.expr] = [node]
        while pending:
            each = pending.pop()
            if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mult):
                pending += [each.left, each.right]
            else:
                factors.append(each)
        named = [ast.unparse(each) for each in factors if isinstance(each, ast.Name | ast.Attribute) and words.GAMMA(_own(each))]
        if len(named) == 2 and named[0] == named[1]:
            yield Spot(node, "what comes next is discounted twice", "gamma * value")


def best_of_the_table(script: Script) -> Iterator[Spot]:
    """np.argmax(Q) of a table of states and actions"""
    tables = {
        _own(node.targets[0])
        for node in script.all(ast.Assign)
        if isinstance(node.value, ast.Call)
        and script.last(node.value) in ("zeros", "ones", "full", "uniform", "random")
        and node.value.args
        and isinstance(node.value.args[0], ast.Tuple)
        and len(node.value.args[0].elts) == 2
    }
    for call in script.calls("argmax"):
        given = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
        alone = (
            len(call.args) <= 1
            and not call.keywords
            and (len(call.args) == 1) == (not isinstance(call.func, ast.Attribute) or script.owner(call) in ("np", "numpy", "torch"))
        )
        if not alone or not isinstance(given, ast.Name) or given.id not in tables:
            continue
        if re.fullmatch(r"[qQ](_?table|_values?|[12ab])?", given.id):
            yield Spot(call, "the best entry of the whole table is looked up, not that of the row of this state", f"{given.id}[state]")


def once_for_all(script: Script) -> Iterator[Spot]:
    """if episode == 1: rewards = []; state = env.reset() if episode == 1 else state"""
    for loop in script.all(ast.For):
        if not isinstance(loop.target, ast.Name):
            continue
        for node in [each for each in ast.walk(loop) if isinstance(each, ast.If | ast.IfExp)]:
            test = node.test
            first = (
                isinstance(test, ast.Compare)
                and isinstance(test.left, ast.Name)
                and test.left.id == loop.target.id
                and isinstance(test.ops[0], ast.Eq)
                and isinstance(test.comparators[0], ast.Constant)
            )
            if not first or script.loops(node)[:1] != [loop]:
                continue
            if isinstance(node, ast.IfExp):
                resets = script.calls("reset", within=node)
                others = [call for call in script.calls("reset", within=loop) if call not in resets or call in list(ast.walk(node.orelse))]
                if resets and not others and script.calls("step", within=loop):
                    yield Spot(
                        node,
                        "the environment is reset before the first episode alone: all others begin where the last one ended",
                        "env.reset()",
                    )
                continue
            for statement in [each for each in node.body if isinstance(each, ast.Assign)]:
                names = {name for target in statement.targets for name in _targets(target)}
                values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
                empty = all(isinstance(each, ast.List) and not each.elts for each in values)
                filled = {
                    ast.unparse(call.func.value) for call in script.calls("append", within=loop) if isinstance(call.func, ast.Attribute)
                }
                if empty and names & filled and not node.orelse and not any(name.endswith("history") for name in names):
                    yield Spot(
                        statement,
                        "these lists are begun before the first episode alone: what it left in them is learned from again and again",
                        "begin them anew in each episode",
                    )


def never_cleared_again(script: Script) -> Iterator[Spot]:
    """A storage that empties itself when it is made, and never afterwards."""
    for holder in script.classes:
        for function in [each for each in holder.body if isinstance(each, ast.FunctionDef)]:
            body = [each for each in function.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
            emptied = [
                name
                for each in body
                if isinstance(each, ast.Assign) and _is_emptying(each.value)
                for target in each.targets
                for name in _targets(target)
            ]
            if (
                not body
                or len([each for each in body if isinstance(each, ast.Assign) and _is_emptying(each.value)]) < len(body)
                or function.name == "__init__"
            ):
                continue
            sites = [call for call in script.calls(function.name) if call not in list(ast.walk(function))]
            own = [call for call in sites if getattr(script.scope(call), "name", "") == "__init__" and script.owner(call) == "self"]
            fills = [
                each
                for each in holder.body
                if isinstance(each, ast.FunctionDef)
                and any(
                    ast.unparse(call.func.value) in emptied
                    for call in script.calls("append", within=each)
                    if isinstance(call.func, ast.Attribute)
                )
            ]
            learns = any(name.rpartition(".")[2] in ("log_probs", "logps", "logprobs", "rewards", "values", "actions") for name in emptied)
            if sites and len(own) == len(sites) and fills and learns:
                kept = {
                    one.rpartition(".")[2]
                    for node in script.all(ast.Assign)
                    if isinstance(node.value, ast.Call) and script.last(node.value) == holder.name
                    for target in node.targets
                    for one in _targets(target)
                }
                calls = [call for each in fills for call in script.calls(each.name) if script.owner(call).rpartition(".")[2] in kept]
                places: list[ast.AST] = [function, *calls[:2]]
                for call in calls[:2]:
                    places += script.loops(call)[:1]
                    scope = script.scope(call)
                    places += script.calls(getattr(scope, "name", "?"))[:2]
                for where in dict.fromkeys(places):
                    yield Spot(
                        where,
                        f"`{function.name}` empties what was collected, and is called when it is made alone: every rollout is learned from again with the next",
                        f"call {function.name}() before each rollout",
                    )


def _is_emptying(value: ast.expr) -> bool:
    held = value.elts if isinstance(value, ast.Tuple) else [value]
    return (
        bool(held)
        and all(
            (isinstance(each, ast.List) and not each.elts) or (isinstance(each, ast.Constant) and each.value in (0, 0.0, False))
            for each in held
        )
        and any(isinstance(each, ast.List) for each in held)
    )


def same_start_in_training(script: Script) -> Iterator[Spot]:
    """obs, _ = env.reset(seed=3) in the loop over episodes"""
    for call in script.calls("reset"):
        seed = keyword(call, "seed")
        loops = script.loops(call)
        scope = script.scope(call)
        if seed is None or not loops or words.EVALUATION(getattr(scope, "name", "")) or words.EVALUATION(script.owner(call)):
            continue
        chosen = any(isinstance(each, ast.IfExp) for each in script.ancestors(call)) or any(
            isinstance(each, ast.If)
            and any(isinstance(one.target, ast.Name) and one.target.id in _names(each.test) for one in loops if isinstance(one, ast.For))
            and not _is_past_the_first(each.test)
            for each in script.ancestors(call)
        )
        fixed = isinstance(seed, ast.Constant) and isinstance(seed.value, int) and not chosen
        steps = [each for each in script.calls("step", within=loops[0]) if script.owner(each) == script.owner(call)]
        trains = any(
            re.search(r"learn|update|train|push|store|remember|append|backward|optimi[sz]e", script.last(each))
            for each in ast.walk(loops[0])
            if isinstance(each, ast.Call)
        )
        if fixed and steps and trains and words.ENVIRONMENT(script.owner(call).rpartition(".")[2]):
            yield Spot(call, "every episode begins with the same seed: the agent sees one start again and again", "env.reset()")


def _is_past_the_first(test: ast.expr) -> bool:
    """if i > 0"""
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Gt | ast.GtE | ast.NotEq)


# ── acting ──

_SURE: Final = {
    "greedy": True,
    "deterministic": True,
    "explore": False,
    "training": False,
    "train": False,
    "evaluate": True,
    "eval": True,
    "exploit": True,
    "test": True,
    "noisy": False,
    "add_noise": False,
    "eval_mode": True,
    "stochastic": False,
}


def told_to_be_sure(script: Script) -> Iterator[Spot]:
    """action = agent.act(obs, greedy=True), where experience is collected"""
    for loop in script.all(ast.For, ast.While):
        steps = [call for call in script.calls("step", within=loop) if words.ENVIRONMENT(script.owner(call).rpartition(".")[2])]
        stored = [
            call
            for call in ast.walk(loop)
            if isinstance(call, ast.Call)
            and re.search(r"learn|push|store|remember|observe|^add$|replay|optimi[sz]e|^update$", script.last(call))
        ]
        scope = script.scope(loop)
        if not steps or not stored or words.EVALUATION(getattr(scope, "name", "")):
            continue
        chosen = {node.id for call in steps for given in call.args for node in ast.walk(given) if isinstance(node, ast.Name)}
        for node in script.inside(loop, ast.Assign):
            names = {one for target in node.targets for one in _targets(target)}
            call = node.value if isinstance(node.value, ast.Call) else None
            if call is None or not names & chosen or not script.loops(node):
                continue
            function = next((each for each in script.functions if each.name == script.last(call)), None)
            told = {each.arg: each.value for each in call.keywords if each.arg}
            if function is not None:
                places = [each.arg for each in function.args.args if each.arg != "self"]
                told |= dict(zip(places, call.args, strict=False))
            sure = [
                name for name, value in told.items() if name in _SURE and isinstance(value, ast.Constant) and value.value is _SURE[name]
            ]
            others = [each for each in script.calls(script.last(call)) if each is not call and script.scope(each) is scope]
            if sure and function is not None and not others:
                yield Spot(
                    node,
                    f"experience is collected with {sure[0]}={_SURE[sure[0]]}: nothing but the best known action is ever tried",
                    "let it explore here",
                )


def chance_of_nothing(script: Script) -> Iterator[Spot]:
    """eps = 0.0 in the loop over episodes, and a schedule that nobody asks"""
    for node in script.all(ast.Assign):
        name = _own(node.targets[0])
        if not words.EPSILON(name) or script.constant(node.value) != 0 or not script.loops(node):
            continue
        idle = [each for each in script.functions if words.EPSILON(each.name) and each.name not in script.mentioned]
        if idle and not words.EVALUATION(getattr(script.scope(node), "name", "")):
            for where in (node, *idle[:1]):
                yield Spot(
                    where,
                    f"the chance to explore is set to 0, and `{idle[0].name}` is asked by nobody: nothing else is ever tried",
                    f"{idle[0].name}(…)",
                )


def judged_on_a_worker(script: Script) -> Iterator[Spot]:
    """self.eval_env = self.envs[0]"""
    for node in script.all(ast.Assign):
        name = _own(node.targets[0])
        value = node.value
        if not (words.EVALUATION(name) and words.ENVIRONMENT(name)):
            continue
        source = value.value if isinstance(value, ast.Subscript) else value
        if (
            isinstance(source, ast.Name | ast.Attribute)
            and words.ENVIRONMENT(_own(source))
            and not words.EVALUATION(_own(source))
            and script.calls("step")
        ):
            yield Spot(
                node,
                "tests step an environment that training is in the middle of: its episode goes on elsewhere afterwards",
                "an environment of its own",
            )


_FINAL: Final = re.compile(r"final_obs|final_observation|terminal_observation")


def looked_up_for_nothing(script: Script) -> Iterator[Spot]:
    """arrived[i] = infos["final_obs"][i], and nothing reads `arrived`."""
    for node in script.all(ast.Assign):
        target = node.targets[0]
        if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name) or not _FINAL.search(ast.unparse(node.value)):
            continue
        name = target.value.id
        uses = [each for each in script.inside(script.scope(node), ast.Name) if each.id == name and isinstance(each.ctx, ast.Load)]
        read = [each for each in uses if not isinstance(getattr(script.parents.get(each), "ctx", None), ast.Store)]
        made = script.latest(name, node)
        if not read and made is not None and made.whole is not None:
            for where in (node, made.statement):
                yield Spot(
                    where,
                    f"`{name}` gets the last observation of each episode, and nothing reads it: what is used is the first one of the next",
                    name,
                )


def weights_never_loaded(script: Script) -> Iterator[Spot]:
    """slow_weights[key] = … of a state_dict that nobody loads"""
    loaded = {ast.unparse(given) for call in script.calls("load_state_dict") for given in call.args}
    for node in script.all(ast.Assign):
        target = node.targets[0]
        if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
            continue
        made = script.latest(target.value.id, node)
        taken = made is not None and isinstance(made.value, ast.Call) and script.last(made.value) == "state_dict"
        written = any(call for call in script.calls("copy_", "lerp_", "mul_"))
        if taken and made is not None and target.value.id not in loaded and not written:
            uses = [each for each in script.all(ast.Name) if each.id == target.value.id and isinstance(each.ctx, ast.Load)]
            handed = any(isinstance(script.parents.get(each), ast.Call | ast.Return) for each in uses)
            if not handed:
                for where in (node, made.statement):
                    yield Spot(
                        where,
                        f"`{target.value.id}` is changed, and no network loads it: the slow copy stays what it was",
                        f"target.load_state_dict({target.value.id})",
                    )


def advantages_alone(script: Script) -> Iterator[Spot]:
    """value, advantage = self.heads(x); return advantage - advantage.mean(1, keepdim=True)"""
    for function in script.functions:
        for node in script.inside(function, ast.Assign):
            target = node.targets[0]
            if not isinstance(target, ast.Tuple) or len(target.elts) != 2 or not all(isinstance(each, ast.Name) for each in target.elts):
                continue
            names = [each.id for each in target.elts if isinstance(each, ast.Name)]
            for other, centred in (names, names[::-1]):
                differences = [
                    each
                    for each in script.inside(function, ast.BinOp)
                    if isinstance(each.op, ast.Sub)
                    and ast.unparse(each.left) == centred
                    and ast.unparse(each.right).startswith(f"{centred}.mean(")
                ]
                read = any(
                    isinstance(each, ast.Name) and each.id == other and isinstance(each.ctx, ast.Load) for each in ast.walk(function)
                )
                if differences and not read and not other.startswith("_"):
                    yield Spot(
                        differences[0],
                        f"`{other}` is left out: the differences between actions are all that is said, and never what a state is worth",
                        f"{other} + ({centred} - {centred}.mean(dim=1, keepdim=True))",
                    )


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD133": (path_not_begun_anew, once_for_all, never_cleared_again),
    "COD134": (looked_up_for_nothing,),
    "COD205": (called_scores,),
    "COD212": (exponential_twice,),
    "COD206": (told_to_be_sure,),
    "COD504": (entries_not_written_yet, sum_of_the_past, sum_never_carried),
    "COD505": (turned_apart,),
    "COD506": (weights_never_loaded,),
    "COD509": (chance_of_nothing,),
    "COD512": (discount_twice,),
    "COD516": (whole_numbers,),
    "COD533": (best_of_the_table,),
    "COD537": (counter_stands_still,),
    "COD555": (advantages_alone,),
    "COD513": (chance_below_nothing,),
    "COD535": (ring_never_closes,),
    "COD704": (judged_on_a_worker,),
    "COD806": (one_seed_for_all,),
    "COD903": (same_start_in_training,),
}
"""What is added to which check."""
