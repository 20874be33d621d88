"""What goes into a buffer: the observation that was acted on, not the one that came of it."""

# ruff: noqa: E501 — a message reads best whole

import ast
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.policy import STORES
from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, position


@check("COD121", Severity.HIGH, ["tambon2023rlmutation"])
def stored_after_it_was_overwritten(script: Script) -> Iterator[Spot]:
    """A transition is stored after the observation was replaced by the next one.

    ## Why it hurts
    Both observations of every stored transition are the same: the agent learns that nothing ever changes.

    ## When it is fine
    Never.

    ## Fix
    Store first, then obs = next_obs.

    ## Wrong
    ```python
    while True:
        action = act(obs)
        next_obs, reward, terminated, truncated, info = env.step(action)
        obs = next_obs
        memory.push(obs, action, reward, next_obs, terminated)
    ```

    ## Right
    ```python
    while True:
        action = act(obs)
        next_obs, reward, terminated, truncated, info = env.step(action)
        memory.push(obs, action, reward, next_obs, terminated)
        obs = next_obs
    ```
    """
    for node in script.all(ast.Assign):
        # obs = env.reset()[0] if ended else next_obs
        value = node.value.orelse if isinstance(node.value, ast.IfExp) and script.calls("reset", within=node.value.body) else node.value
        old, new = words.own_name(node.targets[0]), words.own_name(value)
        named = isinstance(node.targets[0], ast.Name | ast.Attribute) and isinstance(value, ast.Name)
        if not named or not _is_seen(old) or not _is_seen(new) or old == new:
            continue
        for call in _stores_after(script, node):
            if (
                _is_next(new)
                and old in _names(call)
                and new not in _names(call)
                and _is_stepped_before(script, node, new)
                and _holds_action(call)
            ):
                text = f"`{old}` was set to `{new}` on line {position(node)[0]}: the pair that is stored never met"
                yield Spot(call, text, f"store first, then {old} = {new}")
            if {old, new} <= _names(call):
                yield Spot(
                    call,
                    f"`{old}` was set to `{new}` on line {position(node)[0]}: both stored observations are the same",
                    f"store first, then {old} = {new}",
                )


def _is_stepped_before(script: Script, node: ast.stmt, new: str) -> bool:
    """Whether the next observation came out of a step of the same loop."""
    loops = script.loops(node)
    steps = [script.statement(call) for call in script.calls("step", within=loops[0])] if loops else []
    return any(
        isinstance(step, ast.Assign)
        and isinstance(step.targets[0], ast.Tuple)
        and words.own_name(step.targets[0].elts[0]) == new
        and position(step) < position(node)
        for step in steps
    )


def _holds_action(call: ast.Call) -> bool:
    names = _names(call)
    return any(map(words.ACTION, names)) and any(map(words.RETURN, names)) and len(call.args) >= 3


@check("COD122", Severity.HIGH, ["tambon2023rlmutation"])
def stored_observation_is_the_next_one(script: Script) -> Iterator[Spot]:
    """The observation that is stored with an action is the one that came after it.

    ## Why it hurts
    The policy is trained on pairs that never met: it learns what to do one step too late.

    ## When it is fine
    Buffers that mean the observation after the action, and keep the one before elsewhere.

    ## Fix
    Keep the observation before the step: next_obs, reward, … = env.step(action)

    ## Wrong
    ```python
    while True:
        action = act(obs)
        obs, reward, terminated, truncated, info = env.step(action)
        memory.append((obs, action, reward))
    ```

    ## Right
    ```python
    while True:
        action = act(obs)
        next_obs, reward, terminated, truncated, info = env.step(action)
        memory.append((obs, action, reward))
        obs = next_obs
    ```
    """
    for node in script.all(ast.Assign):
        call, target = node.value, node.targets[0]
        stepping = (
            isinstance(call, ast.Call)
            and script.last(call) == "step"
            and call.args
            and words.ENVIRONMENT(script.owner(call).rpartition(".")[2])
        )
        if not stepping or not isinstance(target, ast.Tuple) or not isinstance(target.elts[0], ast.Name) or not isinstance(call, ast.Call):
            continue
        seen, action = (
            target.elts[0].id,
            next((identifier for identifier in words.identifiers(call.args[0]) if words.ACTION(identifier)), ""),
        )
        if not action or not _is_asked_before(script, node, seen):
            continue
        for store in _stores_after(script, node):
            names = _names(store)
            if {seen, action} <= names and _holds(store, target.elts[0]) and not any(_is_seen(name) for name in names - {seen, action}):
                text = f"`{seen}` is already the observation after `{action}` (line {position(node)[0]}): the pair that is stored never met"
                yield Spot(store, text, f"keep the observation before the step: next_{seen}, … = env.step(…)")
    yield from _kept_beside_their_actions(script)


def _kept_beside_their_actions(script: Script) -> Iterator[Spot]:
    """observations.append(obs) or observations[t] = obs after the step that replaced obs, beside actions.append(action)."""
    for step in script.calls("step"):
        loops = script.loops(step)
        statement = script.statement(step)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if not loops or not isinstance(target, ast.Tuple) or not words.ENVIRONMENT(script.owner(step).rpartition(".")[2]):
            continue
        new = words.own_name(target.elts[0])
        kept = list(_kept_in(script, loops[0]))
        if not any(words.ACTION(name) for name, _, _ in kept):
            continue
        for name, value, where in kept:
            fresh = (
                _holds(value, target.elts[0]) and position(where) > position(statement) and not _is_reset_between(script, statement, where)
            )
            if not fresh or not _is_seen(name) or _is_next(name.removesuffix("_buf")) or _begins_filled(script, name, where):
                continue
            if not _is_kept_before(script, [each for each in kept if each[0] != name], statement, new):
                text = (
                    f"`{new}` is already the observation after the action (line {position(statement)[0]}): the pair that is kept never met"
                )
                yield Spot(where, text, f"keep the observation before the step in `{name}`")


def _holds(value: ast.AST, name: ast.expr) -> bool:
    """Whether the very name stands in an expression: `obs` is not `self.obs`."""
    named = ast.unparse(name)
    return any(ast.unparse(each) == named for each in _whole_names(value))


def _whole_names(value: ast.AST) -> Iterator[ast.AST]:
    """Names and chains of attributes, each as a whole."""
    pending: list[ast.AST] = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, ast.Name | ast.Attribute):
            yield current
        if isinstance(current, ast.Attribute) and isinstance(current.value, ast.Name | ast.Attribute):
            continue
        pending += ast.iter_child_nodes(current)


def _kept_in(script: Script, loop: ast.AST) -> Iterator[tuple[str, ast.expr, ast.stmt]]:
    """Names of lists and arrays that a loop fills step by step, with what they get."""
    for call in script.calls("append", within=loop):
        if isinstance(call.func, ast.Attribute) and len(call.args) == 1 and not isinstance(call.args[0], ast.Tuple):
            yield words.own_name(call.func.value), call.args[0], script.statement(call)
    for node in script.inside(loop, ast.Assign):
        target = node.targets[0]
        counter = words.own_name(loop.target) if isinstance(loop, ast.For) else ""
        if isinstance(target, ast.Subscript) and counter and words.own_name(target.slice) == counter:
            yield words.own_name(target.value), node.value, node


def _is_kept_before(script: Script, kept: list[tuple[str, ast.expr, ast.stmt]], step: ast.stmt, new: str) -> bool:
    """Whether another list keeps the observation before the step: under its own name before it is replaced, or under one given before."""
    for _, value, where in kept:
        held = set(words.identifiers(value))
        if new in held and position(where) < position(step) and len(held) == 1:
            return True
        for given in script.inside(script.loops(step)[0], ast.Assign) if position(where) > position(step) and new not in held else ():
            made = isinstance(given.targets[0], ast.Name) and given.targets[0].id in held and position(given) < position(step)
            if made and not words.ACTION(words.own_name(given.targets[0])) and _is_cast(given.value, new):
                return True
    return False


_CASTS: Final = frozenset(
    {"as_tensor", "tensor", "from_numpy", "FloatTensor", "Tensor", "array", "asarray", "copy", "clone", "deepcopy", "float", "to", "astype",
     "unsqueeze", "flatten", "reshape", "view"}
)  # fmt: skip


def _is_cast(node: ast.AST, name: str) -> bool:
    """Whether an expression is a name, copied or given another type or shape."""
    while isinstance(node, ast.Call | ast.Subscript):
        if isinstance(node, ast.Subscript):
            node = node.value
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else words.own_name(node.func)
        if called not in _CASTS:
            return False
        about_first = node.args and name in set(words.identifiers(node.args[0]))
        node = node.args[0] if about_first else node.func.value if isinstance(node.func, ast.Attribute) else node.func
    return words.own_name(node) == name


def _is_reset_between(script: Script, step: ast.stmt, store: ast.stmt) -> bool:
    return any(position(step) < position(call) < position(store) for call in script.calls("reset"))


def _begins_filled(script: Script, name: str, at: ast.AST) -> bool:
    """observations = [obs]: the first one is there before the loop, and each step adds the one after it."""
    return any(isinstance(each.whole, ast.List) and each.whole.elts for each in script.anywhere(name, at))


@check("COD123", Severity.HIGH, ["tambon2023rlmutation"])
def stored_observation_twice(script: Script) -> Iterator[Spot]:
    """The same observation is stored as the one before an action and the one after it.

    ## Why it hurts
    Every stored transition stays where it is: values have nothing to be made of.

    ## When it is fine
    Never.

    ## Fix
    Store obs and next_obs.

    ## Wrong
    ```python
    next_obs, reward, terminated, truncated, info = env.step(action)
    memory.push(obs, action, reward, obs, terminated)
    ```

    ## Right
    ```python
    next_obs, reward, terminated, truncated, info = env.step(action)
    memory.push(obs, action, reward, next_obs, terminated)
    ```
    """
    for call in script.calls(*STORES):
        given = [part for argument in call.args for part in (argument.elts if isinstance(argument, ast.Tuple | ast.List) else [argument])]
        seen = [script.dotted(each) for each in given if isinstance(each, ast.Name | ast.Attribute) and _is_seen(words.own_name(each))]
        twice = next((name for name in seen if seen.count(name) > 1), "")
        if twice and len(given) > 3 and any(words.RETURN(words.own_name(each)) for each in given):
            yield Spot(call, f"`{twice}` is stored as the observation before the action and as the one after it")


def _stores_after(script: Script, statement: ast.stmt) -> list[ast.Call]:
    """Calls that store something, later in the same run of statements."""
    holder = script.parents[statement]
    block = next((each for field in ("body", "orelse") if isinstance(each := getattr(holder, field, None), list) and statement in each), [])
    after = block[block.index(statement) + 1 :] if statement in block else []
    calls = [call for later in after for call in script.calls(*STORES, within=later)]
    reset = [call for later in after for call in script.calls("reset", within=later)]
    return [call for call in calls if not any(position(each) < position(call) for each in reset)]


def _names(call: ast.Call) -> set[str]:
    return {identifier for given in [*call.args, *(key.value for key in call.keywords)] for identifier in words.identifiers(given)}


def _is_seen(name: str) -> bool:
    return words.OBSERVATION(name)


def _is_next(name: str) -> bool:
    low = name.lower()
    return words.OBSERVATION(name) and (any(part in low for part in ("next", "new", "2", "prime")) or (low.endswith("_") and low != "_"))


def _is_asked_before(script: Script, step: ast.stmt, seen: str) -> bool:
    """Whether the agent acted on that name before the step, in the same loop."""
    loops = script.loops(step)
    if not loops:
        return False
    calls = [call for call in script.inside(loops[0], ast.Call) if position(call) < position(step)]
    return any(seen in {identifier for given in call.args for identifier in words.identifiers(given)} for call in calls)


@check("COD131", Severity.HIGH, ["nikanjam2022faults"])
def array_never_filled(script: Script) -> Iterator[Spot]:
    """Batches are read from an array that nothing is ever put into.

    ## Why it hurts
    The network learns about zeros, whatever was observed.

    ## When it is fine
    Never.

    ## Fix
    Store that field in every step, beside the others.

    ## Wrong
    ```python
    import gymnasium as gym
    import numpy as np
    import torch

    env = gym.make("CartPole-v1")
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    seen, rewards = np.zeros((1000, 4)), np.zeros(1000)
    obs, _ = env.reset(seed=0)
    for t in range(1000):
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        rewards[t] = reward
        if terminated or truncated:
            obs, _ = env.reset()
    for _ in range(100):
        rows = np.random.randint(0, 1000, size=32)
        loss = ((net(torch.as_tensor(seen[rows])).squeeze(-1) - torch.as_tensor(rewards[rows])) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    ## Right
    ```python
    import gymnasium as gym
    import numpy as np
    import torch

    env = gym.make("CartPole-v1")
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    seen, rewards = np.zeros((1000, 4)), np.zeros(1000)
    obs, _ = env.reset(seed=0)
    for t in range(1000):
        seen[t] = obs
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        rewards[t] = reward
        if terminated or truncated:
            obs, _ = env.reset()
    for _ in range(100):
        rows = np.random.randint(0, 1000, size=32)
        loss = ((net(torch.as_tensor(seen[rows])).squeeze(-1) - torch.as_tensor(rewards[rows])) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```
    """
    yield from ()


@check("COD132", Severity.HIGH, ["nikanjam2022faults"])
def names_swapped(script: Script) -> Iterator[Spot]:
    """Two parts of a transition stand in each other's place.

    ## Why it hurts
    Rewards are taken for ends, or the next observation for this one: the data say something else than the code reads.

    ## When it is fine
    Never.

    ## Fix
    The same order where transitions are stored and where they are taken apart.

    ## Wrong
    ```python
    class Memory:
        def store(self, state, action, reward, next_state, done):
            self.rows.append((state, action, reward, next_state, done))


    memory.store(next_state, action, reward, state, done)
    ```

    ## Right
    ```python
    class Memory:
        def store(self, state, action, reward, next_state, done):
            self.rows.append((state, action, reward, next_state, done))


    memory.store(state, action, reward, next_state, done)
    ```
    """
    yield from ()


@check("COD133", Severity.HIGH, ["sutton2018book"])
def rollout_never_emptied(script: Script) -> Iterator[Spot]:
    """What a policy gradient was computed from is kept for the next one.

    ## Why it hurts
    Each update learns again from actions of older policies, and its graphs are gone: backward raises, or the gradient points elsewhere.

    ## When it is fine
    A replay of an off-policy method.

    ## Fix
    New lists for every rollout, or clear() after the update.

    ## Wrong
    ```python
    import gymnasium as gym
    import torch

    env = gym.make("CartPole-v1")
    policy = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    log_probs, rewards = [], []
    for episode in range(500):
        obs, _ = env.reset(seed=episode)
        over = False
        while not over:
            dist = torch.distributions.Categorical(logits=policy(torch.as_tensor(obs)))
            action = dist.sample()
            log_probs.append(dist.log_prob(action))
            obs, reward, terminated, truncated, _ = env.step(action.item())
            rewards.append(reward)
            over = terminated or truncated
        loss = -(torch.stack(log_probs) * sum(rewards)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    ## Right
    ```python
    import gymnasium as gym
    import torch

    env = gym.make("CartPole-v1")
    policy = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for episode in range(500):
        log_probs, rewards = [], []
        obs, _ = env.reset(seed=episode)
        over = False
        while not over:
            dist = torch.distributions.Categorical(logits=policy(torch.as_tensor(obs)))
            action = dist.sample()
            log_probs.append(dist.log_prob(action))
            obs, reward, terminated, truncated, _ = env.step(action.item())
            rewards.append(reward)
            over = terminated or truncated
        loss = -(torch.stack(log_probs) * sum(rewards)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```
    """
    yield from ()


# ── places in a memory of the script's own ──


def _own(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self" else ""


def _set_to(function: ast.FunctionDef, target: ast.expr) -> list[ast.expr]:
    """What a name or an attribute is set to in a function; tuples are taken apart."""
    name = ast.unparse(target)
    made: list[ast.expr] = []
    for each in ast.walk(function):
        if isinstance(each, ast.Assign):
            for one in each.targets:
                if ast.unparse(one) == name:
                    made.append(each.value)
                elif isinstance(one, ast.Tuple) and isinstance(each.value, ast.Tuple) and len(one.elts) == len(each.value.elts):
                    made += [value for part, value in zip(one.elts, each.value.elts, strict=True) if ast.unparse(part) == name]
        elif isinstance(each, ast.AugAssign) and ast.unparse(each.target) == name:
            made.append(each)  # type: ignore[arg-type]
    return made


def same_place(script: Script) -> Iterator[Spot]:
    """A ring that is always filled at the same index."""
    for kind in script.classes:
        methods = [each for each in kind.body if isinstance(each, ast.FunctionDef)]
        later = [each for each in methods if each.name != "__init__"]
        for method in later:
            stores = [
                each
                for each in ast.walk(method)
                if isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store) and _own(each.value)
            ]
            for index in {
                ast.unparse(each.slice): each.slice for each in stores if isinstance(each.slice, ast.Name | ast.Attribute)
            }.values():
                held = (
                    _set_to(method, index) if isinstance(index, ast.Name) else [value for each in later for value in _set_to(each, index)]
                )
                for value in held:
                    divided = (
                        isinstance(value, ast.BinOp) and isinstance(value.op, ast.FloorDiv) and not isinstance(value.right, ast.Constant)
                    )
                    one = (
                        isinstance(value, ast.BinOp)
                        and isinstance(value.op, ast.Mod)
                        and isinstance(value.right, ast.Constant)
                        and value.right.value == 1
                    )
                    # place % capacity, and nothing is added to it.
                    stays = (
                        isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mod) and ast.unparse(value.left) == ast.unparse(index)
                        and len(held) == 1
                    )  # fmt: skip
                    if divided or one or stays:
                        yield Spot(
                            value, f"`{ast.unparse(index)}` stays the same: each transition overwrites the one before", "count % capacity"
                        )
                counted = [each for each in stores if ast.unparse(each.slice) == ast.unparse(index)]
                if isinstance(index, ast.Attribute) and _own(index) and not held and len(counted) > 1 and not kind.bases:
                    yield Spot(
                        counted[0],
                        f"`{ast.unparse(index)}` is never moved on: each transition overwrites the one before",
                        f"{ast.unparse(index)} += 1",
                    )


def path_begins_at_the_first(script: Script) -> Iterator[Spot]:
    """slice(self.start, self.ptr), where the start is never moved on."""
    for kind in script.classes:
        methods = [each for each in kind.body if isinstance(each, ast.FunctionDef)]
        for each in ast.walk(kind):
            bounds: list[ast.expr | None] = []
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "slice" and len(each.args) == 2:
                bounds = list(each.args)
            elif isinstance(each, ast.Slice):
                bounds = [each.lower, each.upper]
            if len(bounds) != 2 or bounds[0] is None or bounds[1] is None or not _own(bounds[0]) or not _own(bounds[1]):
                continue
            begins = [value for method in methods for value in _set_to(method, bounds[0])]
            grows = [value for method in methods for value in _set_to(method, bounds[1]) if isinstance(value, ast.AugAssign | ast.BinOp)]
            if begins and grows and all(isinstance(value, ast.Constant) for value in begins):
                text = f"`{ast.unparse(bounds[0])}` is never moved on: every path begins where the first one did, and earlier ones are computed again"
                yield Spot(each, text, f"{ast.unparse(bounds[0])} = {ast.unparse(bounds[1])}")


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD503": (path_begins_at_the_first,),
    "COD535": (same_place,),
}
"""What is added to which check."""
