"""Networks of Q-learners: what they may end in, what is taken from them, which way their copies go, how much is remembered."""

import ast
from collections.abc import Iterator

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code import nets, words
from rlclinic.diagnosis.lint.code.script import Script, Spot, argument, keyword
from rlclinic.diagnosis.lint.code.signs import factors, terms

BOUNDED = {"ReLU": "no value can be below 0", "Relu": "no value can be below 0", "Softmax": "values add up to 1",
           "Sigmoid": "values lie between 0 and 1", "Tanh": "values lie between -1 and 1"}  # fmt: skip
FEWEST_KEPT = 500


def _futures(script: Script) -> Iterator[tuple[ast.Assign, ast.AST]]:
    """(statement, future) of reward + gamma * future."""
    for node in script.all(ast.Assign):
        summands = [term for _, term in terms(node.value)]
        if len(summands) < 2 or not any(words.RETURN(words.own_name(term)) for term in summands):
            continue
        for term in summands:
            held = list(factors(term))
            if any(words.GAMMA(words.own_name(each)) for each in held):
                yield from ((node, each) for each in held if not words.GAMMA(words.own_name(each)) and not words.mentions(each, words.MASK))


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
        for call in [each for each in ast.walk(script.resolve(future)) if isinstance(each, ast.Call)]:
            layer = _last_layer(script, call) if nets.is_network_call(script, call) else ""
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
        value = script.resolve(future)
        second = (
            isinstance(value, ast.Subscript)
            and isinstance(value.slice, ast.Constant)
            and value.slice.value == 1
            and script.last(value.value) == "max"
        )
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
        value = script.resolve(future)
        call = value.value if isinstance(value, ast.Subscript | ast.Attribute) else value
        if script.last(call) not in ("max", "amax") or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        over = script.constant(argument(call, 0, "dim"))
        if over == 0 and nets.is_network_call(script, call.func.value) and _is_a_batch(script, node):
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
    for call in script.calls("load_state_dict"):
        source = script.owner(call.args[0]) if call.args and isinstance(call.args[0], ast.Call) else ""
        owner = script.owner(call)
        if not source or not words.TARGET(source.rpartition(".")[2]) or words.TARGET(owner.rpartition(".")[2]):
            continue
        # Set back on purpose: the copy is also made the right way, again and again.
        updated = any(script.owner(each) == source and script.loops(each) for each in script.calls("load_state_dict"))
        if script.loops(call) and script.last(call.args[0]) == "state_dict" and not updated:
            text = f"`{owner}` is set back to `{source}`: what was learned since is lost"
            yield Spot(call, text, f"{source}.load_state_dict({owner}.state_dict())")


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
        if size is None and "replay" in script.last(value).lower() and value.args:
            size = value.args[0]
        number = script.constant(size)
        if number is not None and 0 < number < FEWEST_KEPT and script.calls("sample", "choice", "randint") and script.calls("backward"):
            yield Spot(where, f"`{name}` keeps {number:g} transitions: hardly more than the last episode")
