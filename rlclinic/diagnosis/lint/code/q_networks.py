"""Networks of Q-learners: what they may end in, what is taken from them, which way their copies go, how much is remembered."""

import ast
from collections.abc import Iterator

from rlclinic.diagnosis.lint.code import nets, words
from rlclinic.diagnosis.lint.code.script import Script, Spot, argument, keyword
from rlclinic.diagnosis.lint.code.signs import factors, terms

BOUNDED = {"ReLU": "no value can be below 0", "Relu": "no value can be below 0", "Softmax": "values add up to 1",
           "Sigmoid": "values lie between 0 and 1", "Tanh": "values lie between -1 and 1"}  # fmt: skip
FEWEST_KEPT = 500


def _futures(script: Script) -> Iterator[tuple[ast.Assign, ast.AST]]:
    """(statement, future) of reward + gamma * future."""
    for node in script.all(ast.Assign):
        found = [term for _, term in terms(node.value)]
        if len(found) < 2 or not any(words.RETURN(words.own_name(term)) for term in found):
            continue
        for term in found:
            held = list(factors(term))
            if any(words.GAMMA(words.own_name(each)) for each in held):
                yield from ((node, each) for each in held if not words.GAMMA(words.own_name(each)) and not words.mentions(each, words.MASK))


def bounded_values(script: Script) -> Iterator[Spot]:
    seen = set()
    for node, future in _futures(script):
        for call in [each for each in ast.walk(script.resolve(future)) if isinstance(each, ast.Call)]:
            layer = _last_layer(script, call) if nets.is_network_call(script, call) else ""
            if layer in BOUNDED and script.dotted(call.func) not in seen:
                seen.add(script.dotted(call.func))
                yield Spot(node, f"`{script.dotted(call.func)}` ends in {layer}: {BOUNDED[layer]}, whatever the returns are")


def _last_layer(script: Script, call: ast.Call) -> str:
    """What a network ends in; one that was given to the function is looked for where the function is called."""
    found = nets.last_layer(script, call)
    function = script.scope(call)
    if found or not isinstance(function, ast.FunctionDef) or not isinstance(call.func, ast.Name):
        return found
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


def index_in_place_of_value(script: Script) -> Iterator[Spot]:
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


def best_of_the_batch(script: Script) -> Iterator[Spot]:
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


def copied_the_wrong_way(script: Script) -> Iterator[Spot]:
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


def hardly_any_memory(script: Script) -> Iterator[Spot]:
    for name, value, where in script.named:
        if not words.BUFFER(name.rpartition(".")[2]) or not isinstance(value, ast.Call):
            continue
        size = keyword(value, "maxlen") or keyword(value, "capacity") or keyword(value, "buffer_size") or keyword(value, "max_size")
        if size is None and "replay" in script.last(value).lower() and value.args:
            size = value.args[0]
        number = script.constant(size)
        if number is not None and 0 < number < FEWEST_KEPT and script.calls("sample", "choice", "randint") and script.calls("backward"):
            yield Spot(where, f"`{name}` keeps {number:g} transitions: hardly more than the last episode")
