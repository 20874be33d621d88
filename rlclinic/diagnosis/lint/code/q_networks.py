"""Networks of Q-learners: what they may end in, what is taken from them, which way their copies go, how much is remembered."""

import ast
import re
from collections.abc import Iterator

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.reading import flow, nets, words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, argument, keyword, position
from rlclinic.diagnosis.lint.code.reading.signs import factors, terms
from rlclinic.diagnosis.lint.code.targets import bare

BOUNDED = {"ReLU": "no value can be below 0", "Relu": "no value can be below 0", "Softmax": "values add up to 1",
           "Sigmoid": "values lie between 0 and 1", "Tanh": "values lie between -1 and 1"}  # fmt: skip
FEWEST_KEPT = 500
FEWEST_OF_A_MEMORY = 16
"""A class of the script that is given a smaller number first is no memory: sizes of a network, dimensions."""


_STEPS = re.compile(r"(^|_)(n|num|multi)_?steps?$", re.IGNORECASE)


def _futures(script: Script) -> Iterator[tuple[ast.stmt, flow.Value]]:
    """(statement, future) of reward + gamma * future; the future is followed to the call or the element that it is."""
    for node in script.all(ast.BinOp):
        outer = script.parents.get(node)
        if not isinstance(node.op, ast.Add | ast.Sub) or (isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Add | ast.Sub)):
            continue
        summands = [term for _, term in terms(node)]
        if not any(words.RETURN(words.own_name(bare(term))) for term in summands):
            continue
        for term in summands:
            held = list(factors(term))
            if any(words.GAMMA(words.own_name(each)) for each in held):
                for each in held:
                    if (
                        not words.GAMMA(words.own_name(each))
                        and not words.mentions(each, words.MASK)
                        and not isinstance(each, ast.Constant)
                    ):
                        yield script.statement(node), _followed(script, each)


def _followed(script: Script, node: ast.AST) -> flow.Value:
    """A name, back to the expression that it was set to."""
    value = flow.Value(bare(node))  # type: ignore[arg-type]
    for _ in range(4):
        origins = flow.sources(script, value.node, value.place) if isinstance(value.node, ast.Name) else []
        if len(origins) != 1:
            break
        value = origins[0]
    return value


@check("COD531", Severity.HIGH, ["nikanjam2022faults"])
def bounded_values(script: Script) -> Iterator[Spot]:
    """A network that estimates values ends in a layer that bounds them.

    ## Why it hurts
    Values must be able to reach the returns. Behind ReLU none is negative, behind softmax they add up to 1: most targets cannot be met.

    ## When it is fine
    Where every return lies inside of those bounds.

    ## Fix
    Let the last layer be linear.

    ## Wrong
    ```python
    import torch.nn as nn

    q_net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2), nn.ReLU())
    target = reward + gamma * (1 - terminated) * q_net(next_obs).max(1).values
    loss.backward()
    ```

    ## Right
    ```python
    import torch.nn as nn

    q_net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    target = reward + gamma * (1 - terminated) * q_net(next_obs).max(1).values
    loss.backward()
    ```
    """
    seen = set()
    for node, future in _futures(script):
        asked = [each for each in ast.walk(future.node) if isinstance(each, ast.Call) and nets.is_network_call(script, each)]
        inner = {id(part) for call in asked for given in call.args for part in ast.walk(given)}
        for call in (each for each in asked if id(each) not in inner):
            layer = _last_layer(script, call)
            if layer in BOUNDED and script.dotted(call.func) not in seen:
                seen.add(script.dotted(call.func))
                yield Spot(node, f"`{script.dotted(call.func)}` ends in {layer}: {BOUNDED[layer]}, whatever the returns are")


def _last_layer(script: Script, call: ast.Call) -> str:
    """What a network ends in; one that was given to the function is looked for where the function is called."""
    layer = nets.last_layer(script, call)
    function = script.scope(call)
    if layer or not isinstance(function, ast.FunctionDef) or not isinstance(call.func, ast.Name):
        return layer
    parameters = [each.arg for each in function.args.args if each.arg != "self"]
    if call.func.id not in parameters:
        return ""
    place = parameters.index(call.func.id)
    ends = {_ends(script, site.args[place]) for site in script.calls(function.name) if len(site.args) > place}
    return ends.pop() if len(ends) == 1 else ""


def _ends(script: Script, given: ast.expr) -> str:
    value = script.resolve(given)
    if script.last(value) == "deepcopy" and isinstance(value, ast.Call) and value.args:
        value = script.resolve(value.args[0])
    return nets.ends_with(script, value) if isinstance(value, ast.Call) else ""


@check("COD532", Severity.HIGH, ["mnih2015dqn"])
def index_in_place_of_value(script: Script) -> Iterator[Spot]:
    """The number of the best action stands where its value belongs.

    ## Why it hurts
    The target becomes reward + gamma times 0, 1 or 2: it has nothing to do with returns.

    ## When it is fine
    Never.

    ## Fix
    .max(1).values, or .max(1)[0]

    ## Wrong
    ```python
    target = reward + gamma * (1 - terminated) * q_target(next_obs).max(1)[1]
    ```

    ## Right
    ```python
    target = reward + gamma * (1 - terminated) * q_target(next_obs).max(1)[0]
    ```
    """
    for node, future in _futures(script):
        value = future.node
        second = (
            isinstance(value, ast.Subscript)
            and isinstance(value.slice, ast.Constant)
            and value.slice.value == 1
            and script.last(value.value) == "max"
        )
        second = second or (future.place == 1 and script.last(value) == "max")
        second = second or (isinstance(value, ast.Attribute) and value.attr == "indices" and script.last(value.value) == "max")
        if second or (script.last(value) == "argmax" and not script.calls("gather", within=node)):
            yield Spot(node, "the number of the best action is discounted, not its value", ".max(1).values")


@check("COD533", Severity.HIGH, ["mnih2015dqn"])
def best_of_the_batch(script: Script) -> Iterator[Spot]:
    """The greatest value is taken over the batch, not over the actions.

    ## Why it hurts
    Every state of the batch gets the value of the best one.

    ## When it is fine
    A single observation, without a batch dimension.

    ## Fix
    .max(1).values

    ## Wrong
    ```python
    def update(q, q_target, obs, action, reward, next_obs, terminated):
        value = q(obs).gather(1, action)
        target = reward + gamma * (1 - terminated) * q_target(next_obs).max(0)[0]
    ```

    ## Right
    ```python
    def update(q, q_target, obs, action, reward, next_obs, terminated):
        value = q(obs).gather(1, action)
        target = reward + gamma * (1 - terminated) * q_target(next_obs).max(1)[0]
    ```
    """
    for node, future in _futures(script):
        value = bare(future.node)
        call = value.value if isinstance(value, ast.Subscript | ast.Attribute) else value
        if script.last(call) == "gather" and isinstance(call, ast.Call) and len(call.args) == 2:
            # Double Q-learning: which action is best is asked first.
            chosen = script.resolve(call.args[1])
            over = script.constant(argument(chosen, 0, "dim")) if isinstance(chosen, ast.Call) and script.last(chosen) == "argmax" else None
            if over == 0:
                yield Spot(
                    script.statement(chosen), "the best action is looked for over the batch (dim 0), not over the actions", "argmax(1)"
                )
        if script.last(call) not in ("max", "amax") or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        over = script.constant(argument(call, 0, "dim"))
        if over == 0 and nets.is_network(script, call.func.value) and _is_a_batch(script, node):
            yield Spot(node, "the greatest value is looked for over the batch (dim 0), not over the actions", ".max(1).values")


def _is_a_batch(script: Script, node: ast.AST) -> bool:
    return bool(script.calls("gather", within=script.scope(node)))


@check("COD534", Severity.HIGH, ["mnih2015dqn"])
def copied_the_wrong_way(script: Script) -> Iterator[Spot]:
    """The target network's weights are copied into the trained one.

    ## Why it hurts
    Every so many steps all that was learned is thrown away, and the target never changes.

    ## When it is fine
    Where a run is set back on purpose after it diverged.

    ## Fix
    target.load_state_dict(q.state_dict())

    ## Wrong
    ```python
    for step in range(100_000):
        if step % 1000 == 0:
            q_net.load_state_dict(target_net.state_dict())
    ```

    ## Right
    ```python
    for step in range(100_000):
        if step % 1000 == 0:
            target_net.load_state_dict(q_net.state_dict())
    ```
    """
    yield from _copied_by_function(script)
    for call in script.calls("load_state_dict"):
        source = script.owner(call.args[0]) if call.args and isinstance(call.args[0], ast.Call) else ""
        owner = script.owner(call)
        if not source or not words.TARGET(source.rpartition(".")[2]) or words.TARGET(owner.rpartition(".")[2]):
            continue
        # Set back on purpose: the copy is also made the right way, again and again.
        updated = any(script.owner(each) == source and script.loops(each) for each in script.calls("load_state_dict"))
        holder = getattr(script.scope(call), "name", "")
        repeated = script.loops(call) or (holder and not holder.startswith(("__", "load", "restore", "set", "init", "build", "reset")))
        if repeated and script.last(call.args[0]) == "state_dict" and not updated:
            text = f"`{owner}` is set back to `{source}`: what was learned since is lost"
            yield Spot(call, text, f"{source}.load_state_dict({owner}.state_dict())")


def _copied_by_function(script: Script) -> Iterator[Spot]:
    """copy(target, net) of a function that reads its first argument and writes into its second one."""
    for function in script.functions:
        names = [each.arg for each in function.args.args if each.arg != "self"]
        for loop in (each for each in script.inside(function, ast.For) if script.called(each.iter) == "zip"):
            owners = [script.owner(given) for given in getattr(loop.iter, "args", []) if isinstance(given, ast.Call)]
            variables = [words.own_name(element) for element in loop.target.elts] if isinstance(loop.target, ast.Tuple) else []
            written = {script.owner(call).removesuffix(".data") for call in script.calls("copy_", "mul_", "add_", "lerp_", within=loop)}
            if len(owners) != len(variables) or len(owners) != 2 or not all(owner in names for owner in owners):
                continue
            into = [owner for owner, variable in zip(owners, variables, strict=True) if variable in written]
            if len(into) != 1:
                continue
            read = next(owner for owner in owners if owner != into[0])
            for site in script.calls(function.name):
                given = {name: argument(site, names.index(name), name) for name in (into[0], read)}
                if any(each is None for each in given.values()):
                    continue
                target, source = (words.own_name(given[name] or site) for name in (into[0], read))
                if words.TARGET(source) and not words.TARGET(target) and words.NETWORK(target):
                    yield Spot(
                        site, f"`{target}` is drawn towards `{source}`: what was learned since is lost", f"swap `{source}` and `{target}`"
                    )


def _takes_a_batch_first(own: ast.ClassDef | None) -> bool:
    """Whether a class of the script's own is made from the size of its batches: what it keeps has no limit there."""
    made = next((part for part in own.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"), None) if own else None
    return made is not None and len(made.args.args) > 1 and "batch" in made.args.args[1].arg.lower()


@check("COD535", Severity.MEDIUM, ["mnih2015dqn"])
def hardly_any_memory(script: Script) -> Iterator[Spot]:
    """The replay buffer keeps fewer than 500 transitions.

    ## Why it hurts
    Every batch comes from the last episode or two: neighbours in time, which is what a replay is there to prevent. Returns saw-tooth.

    ## When it is fine
    Problems of a few states.

    ## Fix
    10,000 transitions at least; 100,000 to 1,000,000 are usual.

    ## Wrong
    ```python
    import random
    from collections import deque

    memory = deque(maxlen=64)
    batch = random.sample(memory, 32)
    loss.backward()
    ```

    ## Right
    ```python
    import random
    from collections import deque

    memory = deque(maxlen=50_000)
    batch = random.sample(memory, 32)
    loss.backward()
    ```
    """
    for name, value, where in script.named:
        if not words.BUFFER(name.rpartition(".")[2]) or not isinstance(value, ast.Call):
            continue
        size = keyword(value, "maxlen") or keyword(value, "capacity") or keyword(value, "buffer_size") or keyword(value, "max_size")
        own = flow.classes(script).get(script.last(value))
        if size is None and ("replay" in script.last(value).lower() or own is not None) and value.args and not _takes_a_batch_first(own):
            size = value.args[0]
        if size is not None and _STEPS.search(words.own_name(size)):
            continue  # deque(maxlen=n_step): the window of a return over several steps
        number = script.constant(size)
        if own is not None and number is not None and number < FEWEST_OF_A_MEMORY:
            continue
        if any(
            isinstance(call.args[0], ast.ListComp | ast.List) for call in script.calls("append") if script.owner(call) == name and call.args
        ):
            continue  # whole segments are kept, each of many rows
        if number is not None and 0 < number < FEWEST_KEPT and script.calls("sample", "choice", "randint") and nets.trains(script):
            yield Spot(where, f"`{name}` keeps {number:g} transitions: hardly more than the last episode")


@check("COD536", Severity.HIGH, ["mnih2015dqn"])
def target_of_the_trained_network(script: Script) -> Iterator[Spot]:
    """There is a target network, and the target is asked of the trained one.

    ## Why it hurts
    Every step moves the target that it learns towards: values chase themselves and drift off. The target network is copied for nothing.

    ## When it is fine
    Double Q-learning asks the trained network which action is best (and the target network what it is worth); that is left alone.

    ## Fix
    target_net(next_obs)

    ## Wrong
    ```python
    target_net.load_state_dict(q_net.state_dict())
    with torch.no_grad():
        next_q = q_net(next_obs).max(1).values
        target = reward + gamma * (1 - terminated) * next_q
    ```

    ## Right
    ```python
    target_net.load_state_dict(q_net.state_dict())
    with torch.no_grad():
        next_q = target_net(next_obs).max(1).values
        target = reward + gamma * (1 - terminated) * next_q
    ```
    """
    acting = _given_to_who_acts(script)
    copies = {network: copy for network, copy in nets.target_copies(script).items() if copy.partition(".")[0] not in acting}
    if not copies:
        return

    def chooses(part: ast.AST) -> bool:
        return nets.is_network(script, part) or script.last(part) in ("argmax", "max_action", "sample") or _is_soft_part(script, part)

    seen = set()
    for _, future in _futures(script):
        if nets.gradient(script, future.node) is not None:
            continue  # said by target-carries-gradient
        for part, _ in flow.made_of(script, future.node, chooses, future.place):
            asked = script.dotted(part.func) if isinstance(part, ast.Call) and nets.is_network(script, part) else ""
            walked = isinstance(part, ast.Call) and isinstance(script.parents.get(part), ast.GeneratorExp | ast.ListComp)
            for origin in flow.sources(script, part.func) if isinstance(part, ast.Call) and walked and asked not in copies else ():
                # One of a list of critics.
                asked = name if (name := script.dotted(origin.node)) in copies else asked
            if asked in copies and _is_given_another(script, part, asked, copies):
                continue
            if asked in copies and part not in seen:
                seen.add(part)
                text = f"`{asked}` is the network that is trained; `{copies[asked]}` is there to hold the target steady"
                yield Spot(script.statement(part), text, f"{copies[asked]}(…)")


def _given_to_who_acts(script: Script) -> set[str]:
    """Names that are handed to functions which step an environment: a copy that acts lags on purpose, and is no target."""
    acting = [function.name for function in script.functions if any(call.args for call in script.calls("step", within=function))]
    given = [argument for name in acting for call in script.calls(name) for argument in call.args]
    return {argument.id for argument in given if isinstance(argument, ast.Name)}


def _is_given_another(script: Script, node: ast.AST, name: str, copies: dict[str, str]) -> bool:
    """A parameter of the function that asks, which no caller gives a trained network for: calc_target(q1_target, …)."""
    function = script.scope(node)
    parameters = [each.arg for each in function.args.args if each.arg != "self"] if isinstance(function, ast.FunctionDef) else []
    if not isinstance(function, ast.FunctionDef) or name not in parameters:
        return False
    place = parameters.index(name)
    given = [argument(call, place, name) for call in script.calls(function.name)]
    return bool(given) and all(each is not None and script.dotted(each) not in ("", *copies) for each in given)


def _is_soft_part(script: Script, node: ast.AST) -> bool:
    """alpha * log_prob: asks the policy, and belongs to the target of a soft actor."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and words.mentions(node, words.LOG_PROB)


@check("COD537", Severity.MEDIUM, ["mnih2015dqn"])
def target_copied_at_every_step(script: Script) -> Iterator[Spot]:
    """The target network is replaced by the trained one at every step.

    ## Why it hurts
    It holds nothing steady: the target is the network of one step ago, as if there were none.

    ## When it is fine
    At the end of an episode, or every so many steps; those are left alone.

    ## Fix
    Copy every 500 to 10,000 steps, or move it by a share of 0.005 at each.

    ## Wrong
    ```python
    for step in range(100_000):
        next_obs, reward, terminated, truncated, info = env.step(act(obs))
        loss.backward()
        target_net.load_state_dict(q_net.state_dict())
    ```

    ## Right
    ```python
    for step in range(100_000):
        next_obs, reward, terminated, truncated, info = env.step(act(obs))
        loss.backward()
        if step % 1000 == 0:
            target_net.load_state_dict(q_net.state_dict())
    ```
    """
    for call in script.calls("load_state_dict"):
        source = script.owner(call.args[0]) if call.args and isinstance(call.args[0], ast.Call) else ""
        if not source or script.last(call.args[0]) != "state_dict" or not words.TARGET(script.owner(call).rpartition(".")[2]):
            continue
        scope, loops = script.scope(call), script.loops(call)
        around = [ancestor for ancestor in script.ancestors(call) if isinstance(ancestor, ast.If)]
        inside = [each for each in around if not loops or position(each) > position(loops[0])]
        stepped = loops and any(script.loops(each)[:1] == loops[:1] for each in script.calls("step", within=loops[0]) if each.args)
        if not inside and (stepped or getattr(scope, "name", "") == "training_step"):
            owner = script.owner(call)
            yield Spot(call, f"`{owner}` is `{source}` again after every step: it holds nothing steady", "copy every so many steps")
