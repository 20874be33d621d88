"""Values and returns: masks, discounting, target networks, replay, exploration of Q-learners."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.losses import compared
from rlclinic.diagnosis.lint.code.reading import flow, nets, words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, position
from rlclinic.diagnosis.lint.code.reading.signs import factors, terms
from rlclinic.diagnosis.lint.code.symbolic import semantics

LEAST_DISCOUNT = 0.8


@check("COD501", Severity.HIGH, ["sutton2018book", "tambon2023rlmutation"])
def end_not_masked(script: Script) -> Iterator[Spot]:
    """The value after a terminal state is added to its target.

    ## Why it hurts
    A terminal state has no future. Without the mask, values climb towards r_max / (1 - gamma) everywhere, and Q-learning diverges.

    ## When it is fine
    Tasks that never end.

    ## Fix
    target = reward + gamma * next_value * (1 - terminated)

    ## Wrong
    ```python
    obs, action, reward, next_obs, terminated = batch
    next_q = target_net(next_obs).max(1)[0]
    target = reward + gamma * next_q
    ```

    ## Right
    ```python
    obs, action, reward, next_obs, terminated = batch
    next_q = target_net(next_obs).max(1)[0]
    target = reward + gamma * next_q * (1 - terminated)
    ```
    """
    masked = semantics.masked_lines(script)
    for node, product in _discounted_futures(script):
        if node.lineno not in masked and not _is_masked(script, node, product):
            statement = script.statement(node)
            learned = any(script.uses(name) for name in ("torch", "tensorflow", "jax", "keras", "flax"))
            # Rows of a table that belong to terminal states are never written, and stay at 0.
            yield Spot(
                statement,
                "the value of what comes after a terminal state is added, which has no future",
                "* (1 - terminated)",
                1.0 if learned else 0.4,
            )
    yield from _flags_not_read(script)


def _discounted_futures(script: Script) -> Iterator[tuple[ast.BinOp, ast.AST]]:
    """Sums of a reward and a discounted future, and the product in them that is the future: gamma * next_value."""
    for node in script.all(ast.BinOp):
        outer = script.parents.get(node)
        if not isinstance(node.op, ast.Add | ast.Sub) or (isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Add | ast.Sub)):
            continue
        summands = [term for _, term in terms(node)]
        if not any(words.RETURN(words.own_name(bare(term))) for term in summands):
            continue
        for term in summands:
            held = list(factors(term))
            written = any(0.8 <= (script.constant(each) or 0.0) < 1 for each in held)
            named = any(words.GAMMA(words.own_name(each)) for each in held)
            futures = [each for each in held if not words.GAMMA(words.own_name(each)) and not isinstance(each, ast.Constant)]
            if len(held) > 1 and (named or written) and any(_is_future(script, future) for future in futures):
                yield node, term
                break


def _is_future(script: Script, node: ast.AST) -> bool:
    """The value of what comes next: by its name, or asked of a network or a table for the next observation."""
    name = words.own_name(bare(node)).lower()
    if ("next" in name or "max" in name or "target" in name) and ("q" in name or "v" in name or "val" in name):
        return True
    if script.last(node) in ("max", "amax") and isinstance(node, ast.Call) and node.args:
        return words.own_name(node.args[0]).lower().startswith("q")

    def stop(part: ast.AST) -> bool:
        kept = isinstance(part, ast.Subscript | ast.Attribute) and script.last(getattr(part, "value", part)) not in ("max", "min")
        return kept or nets.is_network(script, part)

    parts = [part for part, _ in flow.made_of(script, node, stop)]
    if any(nets.is_network(script, part) for part in parts):
        return True
    # A value kept before, of the next step or of the last one: values[t + 1], `following` where both are possible.
    return any(isinstance(part, ast.Subscript) and words.VALUE(words.own_name(part)) for part in parts[1:])


def _is_masked(script: Script, node: ast.AST, product: ast.AST) -> bool:
    """Whether a flag of an end takes part in the future, picks rows of it that are set to 0, or decides the branch."""
    if any(isinstance(ancestor, ast.If | ast.IfExp) and words.mentions(ancestor.test, words.MASK) for ancestor in script.ancestors(node)):
        return True
    parts = [part for part, _ in flow.made_of(script, product, lambda part: nets.is_network(script, part))]
    if any(_is_complement(factor) for factor in factors(product)):
        return True
    outer = set(script.ancestors(node))
    scope = script.scope(node)
    guards = [each for each in scope.body if isinstance(each, ast.If)] if isinstance(scope, ast.FunctionDef) else []
    left = [each for each in guards if isinstance(each.body[-1], ast.Return) and position(each) < position(node)]
    if any(words.mentions(each.test, words.MASK) or " is None" in ast.unparse(each.test) for each in left):
        return True  # if done: return reward
    chosen = [each for part in parts for each in script.ancestors(part) if isinstance(each, ast.If | ast.IfExp) and each not in outer]
    if any(words.mentions(each.test, words.MASK) for each in chosen):
        return True  # asked where the episode goes on: tail = 0 if terminated else value(obs)
    if any(words.MASK(words.own_name(part)) for part in parts) or any(
        isinstance(part, ast.IfExp) and words.mentions(part.test, words.MASK) for part in parts
    ):
        return True
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    for each in script.inside(script.scope(node), ast.Subscript):
        if isinstance(each.ctx, ast.Store) and words.own_name(each.value) in names and words.mentions(each.slice, words.MASK):
            return True
    return any(
        words.mentions(call, words.MASK) and words.own_name(call.func.value) in names
        for call in script.calls("masked_fill_", "mul_", within=script.scope(node))
        if isinstance(call.func, ast.Attribute)
    )


def _kept_as_complement(script: Script) -> bool:
    """memory[index] = 1 - done: what is read back under the name of a flag is its opposite."""
    return any(
        isinstance(node.targets[0], ast.Subscript)
        and isinstance(node.value, ast.BinOp)
        and _is_complement(node.value)
        and words.mentions(node.value.right, words.END)
        for node in script.all(ast.Assign)
    )


def _is_complement(node: ast.AST) -> bool:
    """1 - x, ~x, not x: what multiplies a future like this is a mask, whatever it is called."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Invert | ast.Not)
    first = node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) else None
    return isinstance(first, ast.Constant) and first.value == 1


def _flags_not_read(script: Script) -> Iterator[Spot]:
    """R = reward + gamma * R, where the flags of the ends are at hand and never looked at."""
    for node in script.all(ast.Assign):
        name = words.own_name(node.targets[-1]) if isinstance(node.targets[-1], ast.Name) else ""
        loops = script.loops(node)
        if not name or not loops or not _accumulates(node.value, name) or words.mentions(node.value, words.MASK):
            continue
        scope = script.scope(node)
        bound = {each.id for each in ast.walk(loops[0].target) if isinstance(each, ast.Name)} if isinstance(loops[0], ast.For) else set()
        flags = {each for each in bound if words.END(each)}
        read = {each.id for each in ast.walk(loops[0]) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
        if isinstance(scope, ast.FunctionDef) and not flags:
            flags = {argument.arg for argument in scope.args.args if words.END(argument.arg)}
            read = {each.id for each in ast.walk(scope) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
        if flags and not flags & read:
            text = f"`{min(flags)}` is never looked at: what comes after an end is added to the return before it"
            yield Spot(node, text, f"* (1 - {min(flags)})")


@check("COD502", Severity.HIGH, ["sutton2018book"])
def mask_inverted(script: Script) -> Iterator[Spot]:
    """The future counts only where the episode has ended.

    ## Why it hurts
    Everywhere else the target is the reward alone: the agent is blind to what comes after the next step.

    ## When it is fine
    Never.

    ## Fix
    * (1 - terminated)

    ## Wrong
    ```python
    target = reward + gamma * next_q * done
    ```

    ## Right
    ```python
    target = reward + gamma * next_q * (1 - done)
    ```
    """
    for node in script.all(ast.BinOp):
        outer = script.parents.get(node)
        if not isinstance(node.op, ast.Mult) or (isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Mult)):
            continue
        held = list(factors(node))
        if len(held) < 3 or not any(words.GAMMA(words.own_name(each)) for each in held):
            continue
        for each in held:
            name = words.own_name(bare(each))
            if words.END(name) and not words.TRUNCATED(name) and flow.polarity(script, each) > 0 and not _kept_as_complement(script):
                yield Spot(
                    node, f"the future counts only where `{name}` is true, which is where there is none", f"* (1 - {ast.unparse(each)})"
                )
    for statement in script.all(ast.Assign):
        name = words.own_name(statement.targets[0])
        if words.NOT_ENDED(name) and flow.polarity(script, statement.value) > 0 and words.mentions(script.tree, words.GAMMA):
            yield Spot(
                statement, f"`{name}` is true where the episode has ended: the name and the value say the opposite", f"{name} = 1 - …"
            )


def bare(node: ast.AST) -> ast.AST:
    """What is left of x.float(), x.view(-1), x.flatten()."""
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("float", "to", "unsqueeze", "view", "squeeze", "astype", "flatten", "reshape")
    ):
        node = node.func.value
    return node


@check("COD503", Severity.HIGH, ["schulman2015gae"])
def trace_not_cut(script: Script) -> Iterator[Spot]:
    """The advantage recursion is not cut at the end of an episode.

    ## Why it hurts
    Rewards of the next episode count for the actions of this one: advantages are noise near every end, worst where episodes are short.

    ## When it is fine
    Where a trace covers one single episode.

    ## Fix
    last = delta + gamma * lam * (1 - done) * last

    ## Wrong
    ```python
    def gae(rewards, values, next_value, dones, gamma, lam):
        last = 0.0
        for t in reversed(range(len(rewards))):
            delta = rewards[t] + gamma * next_value[t] * (1 - dones[t]) - values[t]
            last = delta + gamma * lam * last
            advantages[t] = last
    ```

    ## Right
    ```python
    def gae(rewards, values, next_value, dones, gamma, lam):
        last = 0.0
        for t in reversed(range(len(rewards))):
            delta = rewards[t] + gamma * next_value[t] * (1 - dones[t]) - values[t]
            last = delta + gamma * lam * (1 - dones[t]) * last
            advantages[t] = last
    ```
    """
    for node in script.all(ast.Assign):
        name = words.own_name(node.targets[-1]) if isinstance(node.targets[-1], ast.Name | ast.Attribute) else ""
        if not name or not script.loops(node):
            continue
        for _, term in terms(node.value):
            held = list(factors(term))
            names = [words.own_name(each) for each in held]
            recursion = name in names and any(map(words.GAMMA, names)) and any(map(words.LAMBDA, names))
            masked = any(isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.Not | ast.Invert) for each in held) or any(
                isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub) and script.constant(each.left) == 1 for each in held
            )
            chosen = any(isinstance(outer, ast.If) and words.mentions(outer.test, words.MASK) for outer in script.ancestors(node))
            cut = masked or chosen or words.mentions(term, words.MASK) or _begins_with_each_episode(script, node, name)
            # One factor more than gamma, lambda and the trace is a mask under a name of its own.
            if recursion and not cut and len(held) <= 3 and _ends_are_known(script, node):
                yield Spot(
                    node, "the advantage of the next episode leaks into this one: the recursion is not cut at an end", "* (1 - done)"
                )


def _ends_are_known(script: Script, node: ast.AST) -> bool:
    """Whether the function handles ends at all; a trace over one single episode needs no cut."""
    return words.mentions(script.scope(node) if script.scope(node) is not script.tree else script.loops(node)[-1], words.MASK)


def _begins_with_each_episode(script: Script, node: ast.AST, name: str) -> bool:
    """Whether a loop over the steps of one episode adds to the trace, and the loop around it sets it anew before each episode."""
    inner, *outer = script.loops(node)
    if outer and _ends_with_each_episode(script, outer[0], inner):
        return True
    if not outer or not (script.calls("step", within=inner) or (isinstance(inner, ast.While) and words.mentions(inner.test, words.MASK))):
        return False
    return any(
        words.own_name(target) == name
        for statement in script.inside(outer[0], ast.Assign)
        if position(statement) < position(inner)
        for whole in statement.targets
        for target in (whole.elts if isinstance(whole, ast.Tuple | ast.List) else [whole])
    )


def _ends_with_each_episode(script: Script, outer: ast.AST, inner: ast.AST) -> bool:
    """Whether what was collected before a loop is left at an end: steps of an environment in a loop with `if done: break`."""
    for loop in [*script.inside(outer, ast.For), *script.inside(outer, ast.While)]:
        if loop is inner or position(loop) > position(inner) or not any(call.args for call in script.calls("step", within=loop)):
            continue
        if any(
            words.mentions(branch.test, words.END) and any(isinstance(each, ast.Break) for each in branch.body)
            for branch in script.inside(loop, ast.If)
        ):
            return True
    return False


@check("COD504", Severity.HIGH, ["williams1992reinforce", "tambon2023rlmutation"])
def returns_accumulated_forwards(script: Script) -> Iterator[Spot]:
    """Discounted returns are summed from the first reward to the last.

    ## Why it hurts
    Each "return" holds the rewards before an action, not those after it: the policy is credited for what it did not cause.

    ## When it is fine
    A running statistic of returns, as reward normalizers keep it.

    ## Fix
    for reward in reversed(rewards): …

    ## Wrong
    ```python
    R, returns = 0.0, []
    for r in rewards:
        R = r + gamma * R
        returns.append(R)
    ```

    ## Right
    ```python
    R, returns = 0.0, []
    for r in reversed(rewards):
        R = r + gamma * R
        returns.insert(0, R)
    ```
    """
    for node in script.all(ast.Assign):
        name = words.own_name(node.targets[-1]) if isinstance(node.targets[-1], ast.Name) else ""
        loop = next((each for each in script.loops(node) if isinstance(each, ast.For)), None)
        if not name or loop is None or not _accumulates(node.value, name):
            continue
        walked = loop.iter.args if isinstance(loop.iter, ast.Call) and script.called(loop.iter) == "zip" else [loop.iter]
        forwards = [each for each in walked if isinstance(each, ast.Name | ast.Attribute) and words.RETURN(words.own_name(each))]
        if forwards:
            text = "returns are summed from the first reward on: each one holds the past, not the future"
            yield Spot(loop, text, f"for … in reversed({ast.unparse(forwards[0])}):")

        elif _counts_up(script, loop) and any(_is_at(each, loop.target) for each in ast.walk(node.value)):
            text = "the recursion runs from the first step on: each return or advantage holds the past, not the future"
            yield Spot(loop, text, f"for … in reversed({ast.unparse(loop.iter)}):")


def _counts_up(script: Script, loop: ast.For) -> bool:
    """for t in range(n)."""
    args = loop.iter.args if isinstance(loop.iter, ast.Call) and script.called(loop.iter) == "range" else []
    return 0 < len(args) < 3 and isinstance(loop.target, ast.Name)


def _is_at(node: ast.AST, counter: ast.AST) -> bool:
    """rewards[t], or what was made of it."""
    here = isinstance(node, ast.Subscript) and words.own_name(node.slice) == words.own_name(counter)
    return (here and words.RETURN(words.own_name(node))) or words.ADVANTAGE(words.own_name(node))


def _accumulates(value: ast.AST, name: str) -> bool:
    """r + gamma * R, or delta + gamma * lambda * (…) * A: what comes later is added to what is here."""
    summands = [term for _, term in terms(value)]
    for term in summands:
        held = list(factors(term))
        written = any(isinstance(each, ast.Constant) and isinstance(each.value, float) and 0.5 < each.value < 1 for each in held)
        if name in map(words.own_name, held) and (written or any(words.GAMMA(words.own_name(each)) for each in held)):
            return len(summands) >= 2
    return False


@check("COD505", Severity.HIGH, ["williams1992reinforce"])
def returns_left_reversed(script: Script) -> Iterator[Spot]:
    """Returns are computed backwards and never turned round.

    ## Why it hurts
    The first action gets the last return, and the last action the first.

    ## When it is fine
    Where log-probabilities are reversed as well.

    ## Fix
    returns.insert(0, R), or returns.reverse() after the loop.

    ## Wrong
    ```python
    R, returns = 0.0, []
    for r in reversed(rewards):
        R = r + gamma * R
        returns.append(R)
    loss = -(torch.stack(log_probs) * torch.tensor(returns)).sum()
    ```

    ## Right
    ```python
    R, returns = 0.0, []
    for r in reversed(rewards):
        R = r + gamma * R
        returns.append(R)
    returns.reverse()
    loss = -(torch.stack(log_probs) * torch.tensor(returns)).sum()
    ```
    """
    for node in script.all(ast.Assign):
        name = words.own_name(node.targets[0]) if isinstance(node.targets[0], ast.Name) else ""
        loop = next((each for each in script.loops(node) if isinstance(each, ast.For)), None)
        if not name or loop is None or not _accumulates(node.value, name) or not _runs_backwards(script, loop):
            continue
        for call in script.calls("append", within=loop):
            if not call.args or words.own_name(call.args[0]) != name:
                continue
            kept = script.owner(call)
            scope = script.scope(loop)
            turned = [
                each for each in script.calls("reverse", "reversed", "flip", "flipud", within=scope) if position(each) > position(call)
            ]
            sliced = [
                each
                for each in ast.walk(scope)
                if isinstance(each, ast.Slice) and isinstance(each.step, ast.UnaryOp) and position(each) > position(call)
            ]
            if not turned and not sliced and words.mentions(script.tree, words.LOG_PROB):
                handed_on = [
                    each
                    for each in ast.walk(scope)
                    if isinstance(each, ast.AugAssign | ast.Call)
                    and position(each) > (getattr(loop, "end_lineno", 0), 0)
                    and any(words.own_name(given) == kept for given in ([each.value] if isinstance(each, ast.AugAssign) else each.args))
                ]
                for where in (call, *handed_on[:1]):
                    yield Spot(
                        where,
                        f"`{kept}` is filled from the last step to the first, and never turned round",
                        f"{kept}.insert(0, {name}), or {kept}.reverse() after the loop",
                    )


def _runs_backwards(script: Script, loop: ast.For) -> bool:
    sliced = any(isinstance(node, ast.Slice) and isinstance(node.step, ast.UnaryOp) for node in ast.walk(loop.iter))
    return sliced or bool(script.calls("reversed", within=loop.iter))


@check("COD514", Severity.HIGH, ["schulman2015gae"])
def returns_lack_the_value(script: Script) -> Iterator[Spot]:
    """The targets of the critic are advantages less its values, not plus them.

    ## Why it hurts
    An advantage is what a return was better than the value: return = advantage + value. With a minus the critic is taught the
    negative of itself, and runs away.

    ## When it is fine
    Never.

    ## Fix
    returns = advantages + values

    ## Wrong
    ```python
    returns = advantages - values
    ```

    ## Right
    ```python
    returns = advantages + values
    ```
    """
    for node in script.all(ast.Assign):
        value = node.value
        if not words.RETURN(words.own_name(node.targets[0])) or not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Sub):
            continue
        if words.ADVANTAGE(words.own_name(value.left)) and words.VALUE(words.own_name(value.right)):
            yield Spot(node, "an advantage is a return less the value: the value must be added back", "returns = advantages + values")
    for loss, (left, right) in compared(script):
        # The critic is fitted to what is, by another name or through another function, an advantage and nothing else.
        for value, aim in ((left, right), (right, left)):
            asked = nets.is_networks_value(script, value) and not nets.is_networks_value(script, aim)
            if asked and words.VALUE(words.own_name(value) or script.last(value)) and _is_advantage_alone(script, aim):
                yield Spot(loss, f"`{ast.unparse(aim)}` is an advantage: the value must be added back", "returns = advantages + values")


def _is_advantage_alone(script: Script, node: ast.AST) -> bool:
    """A name that says so, or one that was set to such a name, and to nothing else."""
    for _ in range(3):
        if not isinstance(node, ast.Name):
            return False
        if words.ADVANTAGE(node.id):
            return True
        origins = flow.sources(script, node)
        if len(origins) != 1 or origins[0].place is not None:
            return False
        node = origins[0].node
    return False


# ── target networks ──


@check("COD506", Severity.HIGH, ["mnih2015dqn"])
def target_network_never_updated(script: Script) -> Iterator[Spot]:
    """The target network is never updated.

    ## Why it hurts
    Values are learned towards those of the first, random network for ever: the loss falls and the values stay wrong.

    ## When it is fine
    Never.

    ## Fix
    target_net.load_state_dict(q_net.state_dict()) every 1,000 to 10,000 steps, or a soft update with tau 0.005.

    ## Wrong
    ```python
    import copy

    target_net = copy.deepcopy(q_net)
    for step in range(100_000):
        target = reward + gamma * target_net(next_obs).max(1)[0] * (1 - terminated)
        loss = F.mse_loss(q_net(obs).gather(1, action).squeeze(1), target)
        loss.backward()
    ```

    ## Right
    ```python
    import copy

    target_net = copy.deepcopy(q_net)
    for step in range(100_000):
        target = reward + gamma * target_net(next_obs).max(1)[0] * (1 - terminated)
        loss = F.mse_loss(q_net(obs).gather(1, action).squeeze(1), target)
        loss.backward()
        if step % 1000 == 0:
            target_net.load_state_dict(q_net.state_dict())
    ```
    """
    if not nets.trains(script):
        return
    for name, value, node in script.named:
        if not words.TARGET(name.rpartition(".")[2]) or not _makes_a_copy(script, value):
            continue
        if not _is_used(script, name) or _is_updated(script, name, node):
            continue
        yield Spot(node, f"`{name}` is never updated: values are learned towards those of the first network for ever")


_UPDATES_TARGET: Final = re.compile(r"(update|sync|copy|refresh|reset|hard|soft).*target|target.*(update|sync|copy)", re.IGNORECASE)


def _makes_a_copy(script: Script, value: ast.AST) -> bool:
    while isinstance(value, ast.Call) and script.last(value) in ("to", "eval", "requires_grad_") and isinstance(value.func, ast.Attribute):
        value = value.func.value
    return script.last(value) in ("deepcopy", "Sequential") or nets.makes_network(script, value)


def _is_used(script: Script, name: str) -> bool:
    # A list of critics is asked one by one: (q(obs, action) for q in targets).
    walked = {script.dotted(generator.iter) for node in script.all(ast.GeneratorExp, ast.ListComp) for generator in node.generators}
    return name in walked or any(
        script.dotted(call.func) == name or (script.owner(call).startswith(name) and _asks(script, call, name))
        for call in script.all(ast.Call)
    )


def _asks(script: Script, call: ast.Call, name: str) -> bool:
    """targets.forward(obs), targets.q(obs, action)."""
    rest = script.dotted(call.func).removeprefix(name)
    return rest.startswith(".") and script.last(call) not in (
        "parameters", "state_dict", "load_state_dict", "eval", "to", "train", "requires_grad_", "named_parameters", "buffers", "modules",
    )  # fmt: skip


def _is_updated(script: Script, name: str, made: ast.AST) -> bool:
    live = [call for call in script.calls("parameters", "state_dict", "named_parameters", "buffers") if _is_reached(script, call)]
    copied = script.calls("deepcopy", within=made) or any(script.owner(call) == name for call in script.calls("load_state_dict"))
    if any(script.owner(call) == name and not (copied and _only_freezes(script, call)) for call in live):
        return True
    # for slow, fast in ((target, net), …): the loop's variable stands for it.
    pairs = [
        node for node in script.all(ast.For) if _is_reached(script, node) and name in {script.dotted(each) for each in ast.walk(node.iter)}
    ]
    if any(script.calls("parameters", "state_dict", "load_state_dict", within=node) for node in pairs if not _only_freezes(script, node)):
        return True
    own = name.rpartition(".")[2]
    for call in script.all(ast.Call):
        if not _is_reached(script, call):
            continue
        shown = any(function.name == script.last(call) for function in script.functions)
        if not shown and script.scope(call) is not script.scope(made) and _UPDATES_TARGET.search(script.last(call)):
            return True  # self.update_target(), of a base class
        if name != own and script.last(call) == "load_state_dict" and script.owner(call).endswith(f".{own}") and script.owner(call) != name:
            return True  # a callback copies: pl_module.target.load_state_dict(…)
        if script.owner(call) == name and script.last(call).startswith(("load_state", "soft", "hard", "update", "copy", "sync")):
            if script.last(call) != "load_state_dict" or script.loops(call) or script.scope(call) is not script.scope(made):
                return True
        elif name in [script.dotted(argument) for argument in call.args] and _may_update(script, call, name):
            return True
    return False


def _is_reached(script: Script, node: ast.AST) -> bool:
    """Not in a function that the script itself defines and never calls; methods that a framework may call count as called."""
    function = script.scope(node)
    if not isinstance(function, ast.FunctionDef) or function.name.startswith(("__", "on_", "training_", "train", "main", "test", "run")):
        return True
    return function.name in script.mentioned or not _is_whole_program(script)


def _is_whole_program(script: Script) -> bool:
    """A script that steps an environment and learns: what it does not call, nobody calls."""
    return bool(script.calls("backward")) and any(call.args for call in script.calls("step"))


def _only_freezes(script: Script, node: ast.AST) -> bool:
    """for p in target.parameters(): p.requires_grad = False."""
    loop = (
        node
        if isinstance(node, ast.For)
        else next((ancestor for ancestor in script.ancestors(node) if isinstance(ancestor, ast.For)), None)
    )
    if loop is None or (node is not loop and not any(each is node for each in ast.walk(loop.iter))):
        return False
    writes = script.calls("copy_", "mul_", "add_", "lerp_", "data", "load_state_dict", within=loop)
    inside = [each for part in loop.body for each in ast.walk(part)]
    if any(isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name) for each in inside):
        return False  # slow += tau * (fast - slow) writes into the weights themselves
    stored = [each for each in inside if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)]
    return not writes and all(each.attr == "requires_grad" for each in stored)


def _may_update(script: Script, call: ast.Call, name: str) -> bool:
    """Given to a function of another library, or to one here that touches the parameters of what it is given."""
    function = next((each for each in script.functions if each.name == script.last(call)), None)
    if function is None:
        return script.last(call) != "deepcopy"
    parameters = [argument.arg for argument in function.args.args if argument.arg != "self"]
    place = [script.dotted(argument) for argument in call.args].index(name)
    known = parameters[place] if place < len(parameters) else ""
    touched = script.calls("parameters", "state_dict", "load_state_dict", "named_parameters", within=function)
    handed = [
        each for each in script.inside(function, ast.Call) for given in each.args if script.dotted(given) == known and each is not call
    ]
    return not known or any(script.owner(each) == known for each in touched) or bool(handed)


@check("COD507", Severity.HIGH, ["mnih2015dqn"])
def target_shares_weights(script: Script) -> Iterator[Spot]:
    """The target network is the trained network under another name.

    ## Why it hurts
    Python assigns names, not copies: the target moves with every step, and values chase themselves.

    ## When it is fine
    Never.

    ## Fix
    target_net = copy.deepcopy(q_net)

    ## Wrong
    ```python
    from torch import nn

    q_net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    target_net = q_net
    ```

    ## Right
    ```python
    import copy
    from torch import nn

    q_net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    target_net = copy.deepcopy(q_net)
    ```
    """
    known = nets.modules(script)
    for whole, value, node in script.named:
        name = whole.rpartition(".")[2]
        if not (words.TARGET(name) or name.endswith("_t")) or not isinstance(value, ast.Name | ast.Attribute):
            continue
        source = script.dotted(value)
        if source in known and not words.TARGET(words.own_name(value)):
            yield Spot(node, f"`{name}` is `{source}` itself, not a copy: it moves with every step", f"copy.deepcopy({source})")


@check("COD512", Severity.HIGH, ["sutton2018book"])
def discount_out_of_range(script: Script) -> Iterator[Spot]:
    """The discount is larger than 1, or so small that only the next few rewards count.

    ## Why it hurts
    Above 1, returns grow without bound and values diverge. Far below 0.9, nothing that happens later than a few steps is worth
    anything.

    ## When it is fine
    Bandits and tasks of a few steps, for small values.

    ## Fix
    gamma between 0.95 and 0.999.

    ## Wrong
    ```python
    gamma = 9.9
    target = reward + gamma * next_q * (1 - terminated)
    ```

    ## Right
    ```python
    gamma = 0.99
    target = reward + gamma * next_q * (1 - terminated)
    ```
    """
    gammas = [(name, value, where) for name, value, where in script.named if words.GAMMA(name.rpartition(".")[2])]
    given = [(each.arg, each.value, each.value) for each in script.all(ast.keyword) if each.arg == "gamma"]
    defaults = [
        (argument.arg, value, value)
        for function in script.functions
        for argument, value in zip(reversed(function.args.args), reversed(function.args.defaults), strict=False)
        if words.GAMMA(argument.arg)
    ]
    passed = [
        (argument.arg, value, value)
        for function in script.functions
        for call in script.calls(function.name)
        for argument, value in zip([argument for argument in function.args.args if argument.arg != "self"], call.args, strict=False)
        if words.GAMMA(argument.arg) and (script.constant(value) or 0.0) > 1
    ]
    # A photograph has a gamma, too.
    learns = nets.trains(script) or script.is_sb3 or any(map(words.REWARD, script.words))
    for name, value, where in [*gammas, *given, *defaults, *passed] if learns else ():
        number = script.constant(value) if isinstance(value, ast.Constant | ast.UnaryOp | ast.BinOp) else None
        if number is not None and (number > 1 or number < LEAST_DISCOUNT) and "lr" not in name:
            ahead = "returns grow without bound" if number > 1 else f"it looks {1 / (1 - number):.2g} steps ahead"
            yield Spot(where, f"`{name}` is {number:g}: {ahead}", strength=1.0 if number > 1 else 0.4)


# ── replay ──


@check("COD510", Severity.MEDIUM, ["mnih2015dqn"])
def replay_sampled_too_early(script: Script) -> Iterator[Spot]:
    """The replay buffer is sampled from the first step on.

    ## Why it hurts
    The first updates fit a handful of correlated transitions again and again; or sampling raises because there are too few.

    ## When it is fine
    Buffers that are filled before the loop.

    ## Fix
    if step > learning_starts: batch = buffer.sample(batch_size)

    ## Wrong
    ```python
    for step in range(100_000):
        buffer.add(transition)
        batch = buffer.sample(128)
        update(batch)
    ```

    ## Right
    ```python
    for step in range(100_000):
        buffer.add(transition)
        if step > 1_000:
            batch = buffer.sample(128)
            update(batch)
    ```
    """
    for call in script.calls("sample"):
        drawn = words.own_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if drawn == "random" and len(call.args) == 2:
            drawn = words.own_name(call.args[0])
        if not words.BUFFER(drawn) or not (call.args or call.keywords) or not _is_filled_here(script, drawn):
            continue
        if any(word in ast.unparse(call).lower() for word in ("idx", "index", "indices")):
            continue  # rows that were chosen before: a rollout, not a replay
        if getattr(script.scope(call), "name", "").startswith("sample"):
            continue
        sizes = [each for given in call.args for each in ast.walk(given) if isinstance(each, ast.Call) and script.last(each) == "min"]
        if sizes:
            continue  # random.sample(memory, min(3, len(memory))): as many as there are
        if not _is_guarded(script, call):
            yield Spot(call, f"`{drawn}` is sampled from the first step on, when it holds almost nothing", "if step > learning_starts:")


def _is_guarded(script: Script, node: ast.AST, depth: int = 3) -> bool:
    """Under a condition, after an early return, in a loop that begins with a filled buffer; or only called where that holds."""
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, ast.If) and "__name__" not in set(words.identifiers(ancestor.test)):
            return True
        if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
            leaving = [
                part
                for part in ast.walk(ancestor)
                if isinstance(part, ast.If) and isinstance(part.body[-1], ast.Return | ast.Raise | ast.Continue)
            ]
            if any(position(part) < position(node) for part in leaving):
                return True
            if script.loops(node) and _stores(script, script.loops(node)[-1]):
                return _is_filled_before(script, script.loops(node)[-1])
            sites = [site for site in script.calls(ancestor.name) if not words.BUFFER(script.owner(site).rpartition(".")[2])]
            return depth > 0 and (not sites or all(_is_guarded(script, site, depth - 1) for site in sites))
    loops = script.loops(node)
    skipping = (
        [each for each in ast.walk(loops[-1]) if isinstance(each, ast.If) and isinstance(each.body[-1], ast.Continue)] if loops else []
    )
    return not loops or any(position(each) < position(node) for each in skipping) or _is_filled_before(script, loops[-1])


def _stores(script: Script, loop: ast.AST) -> bool:
    """Whether a loop takes steps and stores them: it is the training loop, not one over epochs."""
    stepped = any(words.ENVIRONMENT(script.owner(call).rpartition(".")[2]) for call in script.calls("step", within=loop))
    return stepped or bool(script.calls("append", "add", "push", "store", "remember", "put", within=loop))


def _is_filled_here(script: Script, buffer: str) -> bool:
    stores = script.calls("append", "add", "push", "store", "remember", "put")
    return any(words.own_name(call.func.value) == buffer for call in stores if isinstance(call.func, ast.Attribute))


def _is_filled_before(script: Script, loop: ast.AST) -> bool:
    """Another loop above this one fills the buffer."""
    stores = [call for call in script.calls("append", "add", "push", "store") if position(call) < position(loop) and script.loops(call)]
    return any(words.BUFFER(script.owner(call).rpartition(".")[2]) for call in stores)


@check("COD515", Severity.HIGH, ["huang2022details"])
def flag_of_another_step(script: Script) -> Iterator[Spot]:
    """The flag that cuts the future belongs to another step than the value that it cuts.

    ## Why it hurts
    Kept before the step, dones[t] says whether observation t began a new episode: the end after step t is dones[t + 1]. One step off,
    values leak from each episode into the one before, and a good step next to the end is cut instead.

    ## When it is fine
    Never; which index is right depends on whether the flag is kept before or after the step.

    ## Fix
    dones[t + 1] where the flag was kept before the step, dones[t] where it was kept after it.

    ## Wrong
    ```python
    for step in range(num_steps):
        dones[step] = next_done
        next_obs, reward, next_done, truncated, info = envs.step(actions[step])
        rewards[step] = reward
    for t in reversed(range(num_steps - 1)):
        delta = rewards[t] + gamma * values[t + 1] * (1 - dones[t]) - values[t]
    ```

    ## Right
    ```python
    for step in range(num_steps):
        dones[step] = next_done
        next_obs, reward, next_done, truncated, info = envs.step(actions[step])
        rewards[step] = reward
    for t in reversed(range(num_steps - 1)):
        delta = rewards[t] + gamma * values[t + 1] * (1 - dones[t + 1]) - values[t]
    ```
    """
    for name, offset in _kept_flags(script).items():
        for node in script.all(ast.Subscript):
            loops = script.loops(node)
            if words.own_name(node.value) != name or not isinstance(node.ctx, ast.Load) or not loops:
                continue
            here = _offset(node.slice, loops[0])
            masks = isinstance(script.parents[node], ast.BinOp | ast.UnaryOp)
            if masks and here is not None and here == 1 - offset and _is_beside_next_value(script, node, loops[0]):
                kept = "before" if offset else "after"
                right = f"{name}[{ast.unparse(loops[0].target)}{' + 1' if offset else ''}]" if isinstance(loops[0], ast.For) else ""
                yield Spot(
                    script.statement(node), f"`{name}` is kept {kept} the step: the end after step t is not `{ast.unparse(node)}`", right
                )


def _kept_flags(script: Script) -> dict[str, int]:
    """Arrays of flags that a rollout fills: 1 if each is kept before the step of its index, 0 if after it."""
    kept: dict[str, set[int]] = {}
    for call in script.calls("step"):
        loops = script.loops(call)
        if not loops or not call.args or not words.ENVIRONMENT(script.owner(call).rpartition(".")[2]):
            continue
        for node in script.inside(loops[0], ast.Assign):
            target = node.targets[0]
            if isinstance(target, ast.Subscript) and words.END(words.own_name(target)) and _offset(target.slice, loops[0]) == 0:
                kept.setdefault(words.own_name(target), set()).add(int(position(node) < position(call)))
    return {name: offsets.pop() for name, offsets in kept.items() if len(offsets) == 1}


def _offset(index: ast.AST, loop: ast.AST) -> int | None:
    """0 for [t], 1 for [t + 1], where t is the loop's variable."""
    counter = words.own_name(loop.target) if isinstance(loop, ast.For) else ""
    if counter and words.own_name(index) == counter:
        return 0
    one = isinstance(index, ast.BinOp) and isinstance(index.op, ast.Add) and getattr(index.right, "value", None) == 1
    return 1 if one and isinstance(index, ast.BinOp) and words.own_name(index.left) == counter else None


def _is_beside_next_value(script: Script, node: ast.AST, loop: ast.AST) -> bool:
    """Whether the loop uses the value at t + 1, which the flag is there to cut."""
    values = [each for each in script.inside(loop, ast.Subscript) if words.VALUE(words.own_name(each.value))]
    return any(_offset(each.slice, loop) == 1 for each in values)


@check("COD516", Severity.HIGH, ["mnih2015dqn"])
def reward_not_added(script: Script) -> Iterator[Spot]:
    """The reward is subtracted from a target, or missing in it.

    ## Why it hurts
    With the wrong sign the agent avoids what pays; without a reward every value is 0 in the end.

    ## When it is fine
    Where `reward` is a cost.

    ## Fix
    target = reward + gamma * (1 - terminated) * next_value

    ## Wrong
    ```python
    import torch

    q, slow = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)


    def update(obs, action, reward, next_obs, terminated):
        target = gamma * (1 - terminated) * slow(next_obs).max(1).values - reward
        loss = ((q(obs).gather(1, action).squeeze(1) - target.detach()) ** 2).mean()
        loss.backward()
    ```

    ## Right
    ```python
    import torch

    q, slow = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)


    def update(obs, action, reward, next_obs, terminated):
        target = gamma * (1 - terminated) * slow(next_obs).max(1).values + reward
        loss = ((q(obs).gather(1, action).squeeze(1) - target.detach()) ** 2).mean()
        loss.backward()
    ```
    """
    yield from ()


@check("COD517", Severity.HIGH, ["schulman2015gae"])
def next_value_of_the_same_step(script: Script) -> Iterator[Spot]:
    """The value of what comes next is that of the same step, or of the same step in every pass.

    ## Why it hurts
    The error says nothing about what the action led to: advantages are rewards plus noise.

    ## When it is fine
    Never.

    ## Fix
    delta = rewards[t] + gamma * values[t + 1] * (1 - dones[t]) - values[t]

    ## Wrong
    ```python
    for t in reversed(range(n)):
        delta = rewards[t] + gamma * values[t] * (1 - dones[t]) - values[t]
    ```

    ## Right
    ```python
    for t in reversed(range(n)):
        delta = rewards[t] + gamma * values[t + 1] * (1 - dones[t]) - values[t]
    ```
    """
    yield from ()


@check("COD518", Severity.HIGH, ["sutton2018book"])
def table_moves_past_its_target(script: Script) -> Iterator[Spot]:
    """An entry of a table of values does not move towards its target.

    ## Why it hurts
    The error has the wrong sign, lacks the old value, or is taken more than once: entries run away, or order actions by how often they were
    tried.

    ## When it is fine
    Never.

    ## Fix
    table[s, a] += rate * (target - table[s, a]), with a rate below 1.

    ## Wrong
    ```python
    q = np.zeros((16, 4))
    obs, _ = env.reset()
    for step in range(1000):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        target = reward + 0.9 * np.max(q[next_obs]) * (1 - terminated)
        q[obs, action] += 0.1 * target
        obs = env.reset()[0] if terminated or truncated else next_obs
    ```

    ## Right
    ```python
    q = np.zeros((16, 4))
    obs, _ = env.reset()
    for step in range(1000):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        target = reward + 0.9 * np.max(q[next_obs]) * (1 - terminated)
        q[obs, action] += 0.1 * (target - q[obs, action])
        obs = env.reset()[0] if terminated or truncated else next_obs
    ```
    """
    yield from ()
