"""Losses: signs, which extreme of the clipped surrogate, what must not carry a gradient."""

import ast
from collections.abc import Iterator

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.reading import flow, nets, words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, position
from rlclinic.diagnosis.lint.code.reading.signs import (
    direction,
    factors,
    is_maximizing,
    operand,
    returned_direction,
    sign,
    terms,
    written_flips,
)
from rlclinic.diagnosis.lint.code.reading.words import Meaning
from rlclinic.diagnosis.lint.code.symbolic import semantics

MINIMA, MAXIMA = frozenset({"min", "minimum"}), frozenset({"max", "maximum"})
REDUCTIONS = frozenset({"mean", "sum", "squeeze", "nanmean"})
VALUE_LOSSES = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"})
FREE = frozenset({"detach", "item", "numpy", "float", "tolist", "no_grad", "data"})


# ── the surrogate ──


@check("COD301", Severity.HIGH, ["schulman2017ppo"])
def wrong_extreme_of_surrogates(script: Script) -> Iterator[Spot]:
    """The clipped surrogate takes the wrong one of its two candidates.

    ## Why it hurts
    The smaller gain (or the larger loss) makes the clip a limit. The other choice lifts it exactly where the policy moved too far,
    and updates run away.

    ## When it is fine
    Never.

    ## Fix
    -torch.min(ratio * adv, clipped * adv), or torch.max(-ratio * adv, -clipped * adv).

    ## Wrong
    ```python
    surr1 = ratio * advantages
    surr2 = torch.clamp(ratio, 0.8, 1.2) * advantages
    policy_loss = -torch.max(surr1, surr2).mean()
    ```

    ## Right
    ```python
    surr1 = ratio * advantages
    surr2 = torch.clamp(ratio, 0.8, 1.2) * advantages
    policy_loss = -torch.min(surr1, surr2).mean()
    ```
    """
    for call in _surrogates(script):
        signs = {sign(script, argument) for argument in call.args[:2]}
        if signs == {1} and script.last(call) in MAXIMA:
            yield Spot(
                call, "the larger of the two surrogates is taken: the clip is lifted exactly where it should hold", "torch.min of both"
            )
        elif signs == {-1} and script.last(call) in MINIMA:
            yield Spot(
                call,
                "both surrogates are negated, and the smaller one is taken: the clip is lifted where it should hold",
                "torch.max of both",
            )


def _surrogates(script: Script) -> Iterator[ast.Call]:
    """torch.min(a, b) and friends over two surrogates, one of them clipped."""
    for call in script.calls(*MINIMA, *MAXIMA):
        if len(call.args) != 2:
            continue
        if all(_weighs_a_ratio(script, argument) for argument in call.args) and any(
            _is_clipped(script, argument) for argument in call.args
        ):
            yield call


def _weighs_a_ratio(script: Script, node: ast.AST) -> bool:
    """ratio * advantage, written here or before."""
    names = [words.own_name(part) for part, _ in flow.made_of(script, node, lambda part: nets.is_network(script, part))]
    value = script.resolve(node)
    return any(map(words.RATIO, names)) and (any(map(words.ADVANTAGE, names)) or words.mentions(value, words.ADVANTAGE))


def _is_clipped(script: Script, node: ast.AST) -> bool:
    parts = [part for part, _ in flow.made_of(script, node, lambda part: nets.is_network(script, part))]
    return any(script.last(part) in ("clamp", "clip") or "clip" in words.own_name(part).lower() for part in parts)


@check("COD302", Severity.HIGH, ["schulman2017ppo"])
def surrogate_sign(script: Script) -> Iterator[Spot]:
    """The surrogate objective is minimized instead of maximized.

    ## Why it hurts
    Actions with a positive advantage become less likely: the return falls below that of a random policy while every other curve looks
    well.

    ## When it is fine
    With an optimizer that maximizes.

    ## Fix
    policy_loss = -torch.min(surr1, surr2).mean()

    ## Wrong
    ```python
    surr1 = ratio * advantages
    surr2 = torch.clamp(ratio, 0.8, 1.2) * advantages
    policy_loss = torch.min(surr1, surr2).mean()
    policy_loss.backward()
    ```

    ## Right
    ```python
    surr1 = ratio * advantages
    surr2 = torch.clamp(ratio, 0.8, 1.2) * advantages
    policy_loss = -torch.min(surr1, surr2).mean()
    policy_loss.backward()
    ```
    """
    if is_maximizing(script):
        return
    for call in _surrogates(script):
        flips, statement = written_flips(script, call)
        total = flips * sign(script, call)
        if isinstance(statement, ast.Return):
            way = returned_direction(script, script.scope(statement))
            loss: ast.stmt = statement
        elif isinstance(statement, ast.Assign):
            name = script.dotted(statement.targets[0])
            way = direction(script, name, statement) or (1 if words.LOSS(name.rpartition(".")[2]) else 0)
            loss = _becomes_loss(script, name, statement)
        else:
            continue
        if total * way > 0:
            yield Spot(loss, "the surrogate is minimized: good actions become less likely", "-torch.min(…).mean()")


def _becomes_loss(script: Script, name: str, statement: ast.stmt) -> ast.stmt:
    """The statement that makes a loss of a surrogate: its own, or the one that gives it to a name of a loss."""
    if words.LOSS(name.rpartition(".")[2]):
        return statement
    uses = [each for each in script.inside(script.scope(statement), ast.Assign) if position(each) > position(statement)]
    later = (
        use for use in uses if words.LOSS(words.own_name(use.targets[0])) and name in {script.dotted(part) for part in ast.walk(use.value)}
    )
    return next(later, statement)


@check("COD303", Severity.HIGH, ["williams1992reinforce"])
def policy_gradient_sign(script: Script) -> Iterator[Spot]:
    """Log-probability times return is minimized instead of maximized.

    ## Why it hurts
    Rewarded actions become less likely: the return falls below that of a random policy.

    ## When it is fine
    With an optimizer that maximizes, or with costs in place of rewards.

    ## Fix
    loss = -(log_probs * returns).mean()

    ## Wrong
    ```python
    loss = (log_probs * returns).mean()
    loss.backward()
    ```

    ## Right
    ```python
    loss = -(log_probs * returns).mean()
    loss.backward()
    ```
    """
    if is_maximizing(script):
        return
    for node in script.all(ast.BinOp):
        if not isinstance(node.op, ast.Mult) or isinstance(script.parents.get(node), ast.BinOp) or not _is_gradient_term(node):
            continue
        if sign(script, node) < 0:
            continue
        flips, statement = written_flips(script, node)
        name = _goes_to(script, node, statement)
        way = direction(script, name, statement) if name else 0
        if isinstance(statement, ast.Return):
            way = returned_direction(script, script.scope(statement))
        if flips * way > 0:
            yield Spot(
                statement,
                "log-probability times return is minimized: rewarded actions become less likely",
                "-(log_prob * advantage).mean()",
            )


def _is_gradient_term(node: ast.BinOp) -> bool:
    held = list(factors(node))
    weighed = any(words.ADVANTAGE(words.own_name(_core(each))) or words.RETURN(words.own_name(_core(each))) for each in held)
    return weighed and any(map(_is_log_prob, held))


def _is_log_prob(node: ast.AST) -> bool:
    """A log-probability by its name, or asked of a distribution here."""
    core = _core(node)
    return words.LOG_PROB(words.own_name(core)) or (
        isinstance(core, ast.Call) and isinstance(core.func, ast.Attribute) and core.func.attr == "log_prob"
    )


def _core(node: ast.AST) -> ast.AST:
    """What is left of x.detach(), x.view(…), torch.stack(x)."""
    while isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        if name in ("stack", "cat", "concatenate") and node.args:
            node = node.args[0]
        elif isinstance(node.func, ast.Attribute) and name in FREE | {"view", "reshape", "unsqueeze"}:
            node = node.func.value
        else:
            break
    return node


def _goes_to(script: Script, node: ast.AST, statement: ast.stmt) -> str:
    """The name that an expression ends up in: by assignment, or appended to a list."""
    if isinstance(statement, ast.Assign):
        return script.dotted(statement.targets[0])
    if isinstance(statement, ast.AugAssign):
        return script.dotted(statement.target)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and script.last(call) == "append":
        return script.owner(call)
    return ""


# ── the sum ──


@check("COD304", Severity.HIGH, ["mnih2016a2c"])
def entropy_sign(script: Script) -> Iterator[Spot]:
    """The entropy is added to the loss, which minimizes it.

    ## Why it hurts
    The bonus becomes a penalty: the policy collapses to one action within the first updates.

    ## When it is fine
    Where the term is the negative entropy already, as Stable-Baselines3 writes it.

    ## Fix
    loss = policy_loss + vf_coef * value_loss - ent_coef * entropy

    ## Wrong
    ```python
    entropy = dist.entropy().mean()
    loss = policy_loss + 0.5 * value_loss + 0.01 * entropy
    loss.backward()
    ```

    ## Right
    ```python
    entropy = dist.entropy().mean()
    loss = policy_loss + 0.5 * value_loss - 0.01 * entropy
    loss.backward()
    ```
    """
    yield from _term_sign(
        script, words.ENTROPY, 1, "the entropy is minimized: the policy is driven to one action", "… - ent_coef * entropy"
    )


@check("COD305", Severity.HIGH, ["mnih2016a2c"])
def value_loss_sign(script: Script) -> Iterator[Spot]:
    """The value loss is subtracted, which maximizes it.

    ## Why it hurts
    The critic is driven away from the returns; values and gradients grow without bound.

    ## When it is fine
    Where the whole sum is an objective that is maximized.

    ## Fix
    loss = policy_loss + vf_coef * value_loss

    ## Wrong
    ```python
    value_loss = F.mse_loss(values, returns)
    loss = policy_loss - 0.5 * value_loss
    loss.backward()
    ```

    ## Right
    ```python
    value_loss = F.mse_loss(values, returns)
    loss = policy_loss + 0.5 * value_loss
    loss.backward()
    ```
    """
    yield from _term_sign(
        script, words.VALUE_LOSS, -1, "the value loss is maximized: the critic is driven away from the returns", "… + vf_coef * value_loss"
    )


def _term_sign(script: Script, meaning: Meaning, wrong: int, text: str, fix: str) -> Iterator[Spot]:
    """Sums called a loss, in which a term has the wrong sign."""
    if is_maximizing(script):
        return
    for node in script.all(ast.Assign, ast.AugAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        name = script.dotted(target)
        if not words.LOSS(name.rpartition(".")[2]) or meaning(name.rpartition(".")[2]) or "alpha" in name or "temp" in name:
            continue
        value: ast.AST = node.value if isinstance(node, ast.Assign) else _augmented(node)
        if not words.mentions(value, meaning):
            continue
        way = direction(script, name, node) or 1
        for direct, term in terms(_whole(script, value)):
            held = next((factor for factor in factors(term) if meaning(words.own_name(_reduced(script, factor)))), None)
            if held is None or (isinstance(node, ast.Assign) and not isinstance(_whole(script, value), ast.BinOp)):
                continue
            known = _known_sign(script, held) if not _is_against_itself(script, held) else None
            if known is not None and direct * sign(script, term) * way == wrong:
                yield Spot(node, text, fix)


def _is_against_itself(script: Script, held: ast.AST) -> bool:
    """(values - (values + noise).detach()).pow(2): the log-likelihood of a draw of its own, of which a Fisher matrix is made."""
    inside = set(ast.walk(script.resolve(held)))
    for _, sides in (each for each in compared(script) if each[0] in inside):
        for one, other in (sides, sides[::-1]):
            if isinstance(one, ast.Name) and script.last(other) == "detach" and isinstance(other, ast.Call):
                parts = [part for part, _ in flow.made_of(script, other, lambda part: nets.is_network(script, part))]
                if any(isinstance(part, ast.Name) and part.id == one.id for part in parts):
                    return True
    return False


def _augmented(node: ast.AugAssign) -> ast.AST:
    return ast.BinOp(left=node.target, op=node.op, right=node.value)


def _whole(script: Script, value: ast.AST) -> ast.AST:
    """The sum inside (a + b).mean()."""
    while isinstance(value, ast.Call) and script.last(value) in REDUCTIONS:
        inner = operand(script, value)
        if inner is None:
            break
        value = inner
    return value


def _reduced(script: Script, node: ast.AST) -> ast.AST:
    while isinstance(node, ast.Call) and script.last(node) in REDUCTIONS | {"entropy"} and isinstance(node.func, ast.Attribute):
        if node.func.attr == "entropy":
            return node.func
        node = node.func.value
    return node


def _known_sign(script: Script, node: ast.AST) -> int | None:
    """None for a quantity called a loss whose making is out of sight: it may be negated already."""
    name = words.own_name(_reduced(script, node))
    value = script.resolve(node)
    if words.VALUE_LOSS(name):
        return sign(script, node)
    plain = lambda each: words.ENTROPY(each) and not any(word in each.lower() for word in ("loss", "weight", "coef"))  # noqa: E731
    is_entropy = words.mentions(value, plain) and value is not node
    if value is not node and not is_entropy and (words.mentions(value, words.LOG_PROB) or script.calls("log", within=value)):
        # Minus the log-probability is the entropy: what is called so may be its negative.
        return None
    return sign(script, node) if is_entropy or "loss" not in name.lower() else None


# ── gradients where none belong ──


@check("COD306", Severity.HIGH, ["mnih2016a2c"])
def advantage_carries_gradient(script: Script) -> Iterator[Spot]:
    """The advantage in the policy's loss still carries the critic's gradient.

    ## Why it hurts
    The policy's loss changes the critic: values fall where actions were likely, which makes advantages larger without anything being
    better.

    ## When it is fine
    Never; the policy gradient treats the advantage as a number.

    ## Fix
    advantage = (returns - values).detach()

    ## Wrong
    ```python
    values = critic(obs)
    advantage = returns - values
    policy_loss = -(log_probs * advantage).mean()
    ```

    ## Right
    ```python
    values = critic(obs)
    advantage = (returns - values).detach()
    policy_loss = -(log_probs * advantage).mean()
    ```
    """
    if semantics.knows_policy_loss(script):
        return  # what is followed needs no names
    for node in script.all(ast.BinOp):
        if not isinstance(node.op, ast.Mult) or script.is_without_gradient(node):
            continue
        held = list(factors(node))
        learns = any(script.last(each) == "log" for each in held)
        if not any(
            _is_log_prob(each) or (words.RATIO(words.own_name(each)) and (learns or not _is_fixed_ratio(script, each))) for each in held
        ):
            continue
        for each in held:
            name = words.own_name(_core(each))
            if (
                not (words.ADVANTAGE(name) or words.RETURN(name) or isinstance(each, ast.BinOp))
                or words.LOG_PROB(name)
                or words.RATIO(name)
            ):
                continue
            asked = nets.gradient(script, each)
            if asked is None and _is_less_a_trained_value(script, script.resolve(each)):
                text = f"`{ast.unparse(each)}` is made of a value that is trained, and carries its gradient into the policy's loss"
                yield Spot(script.statement(node), text, f"({ast.unparse(each)}).detach()")
                break
            if asked is not None:
                text = f"`{ast.unparse(each)}` still carries the gradient of `{ast.unparse(asked.func)}` (line {position(asked)[0]})"
                text += " into the policy's loss"
                yield Spot(script.statement(node), text, f"({ast.unparse(each)}).detach()")
                break


def _is_fixed_ratio(script: Script, node: ast.AST) -> bool:
    """rho = pi.detach() / mu: it corrects returns, and no policy learns from it."""
    parts = [part for part, _ in flow.made_of(script, node, lambda part: script.last(part) == "detach")]
    divided = [part.left for part in parts if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div)]
    return any(script.last(each) == "detach" for each in divided) and nets.gradient(script, node) is None


def _is_less_a_trained_value(script: Script, value: ast.AST) -> bool:
    """R - value, where the value comes from a list that is made elsewhere, and a loss here compares it with its target."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Sub) or not isinstance(value.right, ast.Name):
        return False
    name, assigned = value.right.id, script.latest(value.right.id, value.right)
    calls = script.calls(*VALUE_LOSSES, within=script.scope(value))
    looped = assigned is not None and isinstance(assigned.statement, ast.For)
    return looped and words.VALUE(name) and any(call.args and words.own_name(call.args[0]) == name for call in calls)


@check("COD307", Severity.HIGH, ["mnih2015dqn"])
def target_carries_gradient(script: Script) -> Iterator[Spot]:
    """The target of a value loss carries the gradient of the network that is trained.

    ## Why it hurts
    The target moves towards the prediction as much as the other way round: values shrink to what is easy to agree on.

    ## When it is fine
    Residual-gradient methods, which mean it. Those that walk over all states at once, without a draw, are left alone: nothing biases them.

    ## Fix
    Compute the target under torch.no_grad(), best with a target network.

    ## Wrong
    ```python
    next_q = q_net(next_obs).max(1)[0]
    target = reward + gamma * next_q * (1 - terminated)
    loss = F.mse_loss(q, target)
    ```

    ## Right
    ```python
    with torch.no_grad():
        next_q = q_net(next_obs).max(1)[0]
        target = reward + gamma * next_q * (1 - terminated)
    loss = F.mse_loss(q, target)
    ```
    """
    for node, sides in compared(script):
        if any(isinstance(side, ast.Constant) for side in sides):
            continue  # (gradient.norm() - 1) ** 2 is a penalty: nothing is predicted
        for side, other in zip(sides, reversed(sides), strict=True):
            if not is_bootstrapped(script, side) or (is_bootstrapped(script, other) and nets.gradient(script, other) is None):
                continue  # the target is the side without a gradient
            asked = nets.gradient(script, side)
            if asked is None or (asked.args and _is_enumerated(script, asked.args[0])):
                continue
            if not words.mentions(asked.func, words.TARGET) and not script.is_without_gradient(node):
                text = f"the target `{ast.unparse(side)}` carries the gradient of `{ast.unparse(asked.func)}` (line {position(asked)[0]})"
                fix = f"({ast.unparse(side)}).detach(), or compute it under torch.no_grad()"
                yield Spot(node, f"{text}: it moves towards the prediction", fix)
                break


def _is_enumerated(script: Script, node: ast.AST) -> bool:
    """Whether a network is asked about states that are written down one by one: no step of an environment, no draw, no batch of others."""
    parts = [part for part, _ in flow.made_of(script, node)]
    for part in parts:
        if isinstance(part, ast.Name | ast.Attribute) and not flow.sources(script, part) and words.own_name(part) not in flow.MODULES:
            return False
        if isinstance(part, ast.Subscript) and not isinstance(part.slice, ast.Constant | ast.Slice):
            return False
    calls = {script.last(part) for part in parts if isinstance(part, ast.Call)}
    return bool(calls & flow.ENUMERATES) and not calls & flow.DRAWS


def compared(script: Script) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
    """Predictions and targets that a value loss compares, in either order: mse_loss(a, b), nn.MSELoss()(a, b), (a - b) ** 2."""
    for call in script.all(ast.Call):
        made = script.resolve(call.func) if not isinstance(call.func, ast.Call) else call.func
        named = script.last(call) in VALUE_LOSSES or script.last(made) in ("MSELoss", "SmoothL1Loss", "HuberLoss")
        if (named or script.last(call) in ("criterion", "loss_fn")) and len(call.args) >= 2:
            yield call, call.args[:2]
        elif script.last(call) in ("pow", "square") and isinstance(call.func, ast.Attribute):
            yield from _difference(script, call, operand(script, call))
    for node in script.all(ast.BinOp):
        if isinstance(node.op, ast.Pow) and script.constant(node.right) == 2:
            yield from _difference(script, node, node.left)


def _difference(script: Script, node: ast.expr, squared: ast.AST | None) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
    value = script.resolve(squared) if squared is not None else None
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub):
        yield node, [value.left, value.right]


def is_bootstrapped(script: Script, node: ast.AST) -> bool:
    """Whether a value is a reward and a discounted future: reward + gamma * next_value."""
    stop = lambda part: nets.is_network(script, part)  # noqa: E731
    return any(
        isinstance(part, ast.BinOp)
        and isinstance(part.op, ast.Mult)
        and any(words.GAMMA(words.own_name(factor)) for factor in factors(part))
        for part, _ in flow.made_of(script, node, stop)
    )


@check("COD308", Severity.HIGH, ["jones2021debugging"])
def gradient_lost_in_new_tensor(script: Script) -> Iterator[Spot]:
    """Log-probabilities are copied into a new tensor on their way to the loss.

    ## Why it hurts
    torch.tensor copies numbers, not graphs: the policy gets no gradient, or backward raises.

    ## When it is fine
    For log-probabilities of the rollout, which need no gradient.

    ## Fix
    torch.stack(log_probs) or torch.cat(log_probs)

    ## Wrong
    ```python
    import torch

    policy_loss = -(torch.tensor(log_probs, requires_grad=True) * returns).sum()
    policy_loss.backward()
    ```

    ## Right
    ```python
    import torch

    policy_loss = -(torch.stack(log_probs) * returns).sum()
    policy_loss.backward()
    ```
    """
    for call in script.calls("detach"):
        # log_prob.detach() * advantage, in the loss that is to move that log-probability.
        held = call.func.value if isinstance(call.func, ast.Attribute) else call
        product = script.parents.get(call)
        weighed = isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult) and _is_gradient_term(product)
        if script.last(held) == "log_prob" and weighed and not script.is_without_gradient(call):
            yield Spot(call, "the log-probability is detached: the policy gets no gradient from it", "leave out .detach()")
    for call in script.calls("tensor", "FloatTensor", "as_tensor", "Tensor"):
        if not call.args or script.called(call).partition(".")[0] not in ("torch", "th"):
            continue
        name = words.own_name(call.args[0])
        target = script.statement(call)
        used = isinstance(target, ast.Assign) and words.LOSS(words.own_name(target.targets[0]))
        if words.LOG_PROB(name) and not words.mentions(call.args[0], lambda each: "old" in each.lower()) and used:
            yield Spot(call, f"torch.tensor({name}) is a copy without a graph: the policy gets no gradient from it", f"torch.stack({name})")


# ── advantages ──


@check("COD309", Severity.MEDIUM, ["andrychowicz2021matters"])
def statistics_of_different_tensors(script: Script) -> Iterator[Spot]:
    """Advantages are normalized with the mean of one tensor and the deviation of another.

    ## Why it hurts
    The result has neither mean 0 nor deviation 1: a constant offset makes all actions of a minibatch look good or bad.

    ## When it is fine
    Never.

    ## Fix
    Take both from the minibatch, or both from the whole rollout.

    ## Wrong
    ```python
    mb_adv = (mb_adv - b_advantages.mean()) / (mb_adv.std() + 1e-8)
    ```

    ## Right
    ```python
    mb_adv = (mb_adv - mb_adv.mean()) / (mb_adv.std() + 1e-8)
    ```
    """
    for node, mean, spread in _standardized(script):
        if mean and spread and mean != spread and words.mentions(node, words.ADVANTAGE):
            yield Spot(
                node, f"the mean is that of `{mean}`, the deviation that of `{spread}`: the result has neither mean 0 nor deviation 1"
            )


@check("COD310", Severity.LOW, ["jones2021debugging"])
def division_by_bare_deviation(script: Script) -> Iterator[Spot]:
    """A deviation that may be 0 is divided by.

    ## Why it hurts
    Equal returns (a solved task, a sparse one) give 0 / 0, a single row gives NaN, and one NaN ends the run.

    ## When it is fine
    Where the rows can never be equal.

    ## Fix
    (x - x.mean()) / (x.std() + 1e-8)

    ## Wrong
    ```python
    returns = (returns - returns.mean()) / returns.std()
    ```

    ## Right
    ```python
    returns = (returns - returns.mean()) / (returns.std() + 1e-8)
    ```
    """
    for node, _, spread in _standardized(script):
        if spread and script.last(node.right) == "std":
            yield Spot(node, f"`{spread}.std()` is 0 when all are equal, and NaN for a single one", f"({spread}.std() + 1e-8)")


def _standardized(script: Script) -> Iterator[tuple[ast.BinOp, str, str]]:
    """(x - a.mean()) / (b.std() + eps): the expression, a, and b."""
    for node in script.all(ast.BinOp):
        if not isinstance(node.op, ast.Div) or not isinstance(node.left, ast.BinOp) or not isinstance(node.left.op, ast.Sub):
            continue
        mean = next(iter(script.calls("mean", within=node.left.right)), None)
        spread = next(iter(script.calls("std", within=node.right)), None)
        if mean is not None and spread is not None:
            yield node, _what(script, mean), _what(script, spread)


def _what(script: Script, call: ast.Call) -> str:
    inner = operand(script, call)
    return (
        ""
        if inner is None
        else ast.unparse(script.resolve(inner) if isinstance(script.resolve(inner), ast.Name | ast.Attribute) else inner)
    )
