"""Actions and their log-probabilities: distributions, clipping, squashing, ratios."""

import ast
import re
from collections.abc import Iterator

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.reading import nets, words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, argument, keyword, position
from rlclinic.diagnosis.lint.code.reading.signs import operand

CLIPS = frozenset({"clip", "clamp", "clip_", "clamp_", "hardtanh"})
STORES = frozenset({"append", "add", "store", "push", "remember", "insert", "extend", "record", "put"})
SOFTMAX = frozenset({"softmax", "Softmax"})


@check("COD201", Severity.HIGH, ["schulman2017ppo"])
def log_prob_of_clipped_action(script: Script) -> Iterator[Spot]:
    """The log-probability is taken of the clipped or squashed action, not of the one that was drawn.

    ## Why it hurts
    At a bound the clipped action has a log-probability that no draw had: the ratio is off from the first minibatch, and the gradient
    pushes the mean further out.

    ## When it is fine
    With a distribution that squashes by itself (TanhTransform), which knows the density of the squashed action.

    ## Fix
    Take log_prob of the raw sample; clip only what goes to env.step().

    ## Wrong
    ```python
    action = dist.sample()
    action = action.clamp(-1.0, 1.0)
    log_prob = dist.log_prob(action)
    ```

    ## Right
    ```python
    action = dist.sample()
    log_prob = dist.log_prob(action)
    obs, reward, terminated, truncated, info = env.step(action.clamp(-1.0, 1.0))
    ```
    """
    for call in script.calls("log_prob"):
        if not call.args:
            continue
        value = script.resolve(call.args[0])
        if script.last(value) in CLIPS and not _is_for_safety(script, value):
            yield Spot(
                call, f"the log-probability is that of the clipped action (line {position(value)[0]}), not of the one that was drawn"
            )
        elif script.last(value) == "tanh" and not _squashes_itself(script):
            yield Spot(
                call,
                f"the log-probability is that of the squashed action (line {position(value)[0]}), under the distribution of the raw one",
            )


def _is_for_safety(script: Script, clip: ast.AST) -> bool:
    """A hair's breadth inside an open interval, so that no logarithm is infinite."""
    names = words.mentions(clip, lambda name: "eps" in name.lower() or "tiny" in name.lower())
    return names or any(
        isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < abs(node.value) < 1e-2 for node in ast.walk(clip)
    )


def _squashes_itself(script: Script) -> bool:
    return bool(script.words & {"TanhTransform", "TransformedDistribution", "SquashedNormal", "TanhNormal"})


@check("COD202", Severity.HIGH, ["haarnoja2018sac"])
def squashed_without_correction(script: Script) -> Iterator[Spot]:
    """An action is squashed by tanh and its log-probability lacks the correction for that.

    ## Why it hurts
    The entropy that the temperature steers by is that of the raw Gaussian: it can grow without bound while the squashed action sits
    at its limits.

    ## When it is fine
    Where the raw action is what is stored and compared (PPO), the correction cancels in the ratio.

    ## Fix
    log_prob -= torch.log(1 - action.pow(2) + 1e-6), summed over action dimensions.

    ## Wrong
    ```python
    def sample(self, obs):
        dist = self.dist(obs)
        raw = dist.rsample()
        action = torch.tanh(raw)
        log_prob = dist.log_prob(raw).sum(-1)
        return action, log_prob


    alpha_loss = -(log_alpha * (log_pi + target_entropy).detach()).mean()
    ```

    ## Right
    ```python
    def sample(self, obs):
        dist = self.dist(obs)
        raw = dist.rsample()
        action = torch.tanh(raw)
        log_prob = dist.log_prob(raw).sum(-1)
        log_prob = log_prob - torch.log(1 - action.pow(2) + 1e-6).sum(-1)
        return action, log_prob


    alpha_loss = -(log_alpha * (log_pi + target_entropy).detach()).mean()
    ```
    """
    soft = re.compile(r"(^|_)(alpha|log_alpha|target_entropy|ent_coef|temperature)($|_)")
    if not any(soft.search(word) for word in script.words) or _squashes_itself(script):
        return
    for function in script.functions:
        squashed = [call for call in script.calls("tanh", within=function) if _squashes_a_sample(script, call)]
        probs = script.calls("log_prob", within=function)
        if squashed and probs and not _is_corrected(script, function):
            yield Spot(
                probs[0],
                f"the action is squashed by tanh (line {position(squashed[0])[0]}), and its log-probability is not corrected for that",
            )


def _squashes_a_sample(script: Script, call: ast.Call) -> bool:
    inner = operand(script, call)
    value = script.resolve(inner) if inner is not None else None
    drawn = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    return any(each is not None and script.last(each) in ("rsample", "sample") for each in drawn)


def _is_corrected(script: Script, function: ast.AST) -> bool:
    both = [
        call
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and len(call.args) > 1 and any(words.LOG_PROB(words.own_name(each)) for each in call.args)
    ]
    logs = script.calls("log", "log1p", "softplus", within=function)
    return bool(both) or any(script.last(log) == "softplus" or any(isinstance(part, ast.Sub) for part in ast.walk(log)) for log in logs)


@check("COD203", Severity.HIGH, ["schulman2017ppo"])
def stored_action_is_clipped(script: Script) -> Iterator[Spot]:
    """The clipped action is stored together with the log-probability of the raw one.

    ## Why it hurts
    The update asks the policy for another action's log-probability than the rollout did: ratios differ from 1 before any step was
    taken.

    ## When it is fine
    Replay buffers of algorithms that use no log-probability of stored actions (DDPG, TD3, SAC).

    ## Fix
    Clip only what goes to env.step(); store the action as it was drawn.

    ## Wrong
    ```python
    action = dist.sample()
    log_prob = dist.log_prob(action)
    clipped = torch.clamp(action, -1, 1)
    next_obs, reward, terminated, truncated, info = env.step(clipped)
    actions.append(clipped)
    ```

    ## Right
    ```python
    action = dist.sample()
    log_prob = dist.log_prob(action)
    clipped = torch.clamp(action, -1, 1)
    next_obs, reward, terminated, truncated, info = env.step(clipped)
    actions.append(action)
    ```
    """
    raw = {words.own_name(call.args[0]): call for call in script.calls("log_prob") if call.args}
    for node, stored in _stored(script):
        assigned = script.latest(stored.id, node) if isinstance(stored, ast.Name) else None
        value = assigned.value if assigned is not None else None
        if value is None or script.last(value) not in CLIPS or not isinstance(value, ast.Call) or not isinstance(stored, ast.Name):
            continue
        inner = operand(script, value)
        source = words.own_name(inner) if inner is not None else ""
        call = raw.get(source)
        if call is None or script.scope(call) is not script.scope(node):
            call = _drawn_with_log_prob(script, source, value)
        if call is None:
            continue
        if source != stored.id or position(call) < position(value):
            text = f"`{stored.id}` is clipped (line {position(value)[0]}) before it is stored; its log-probability was taken before that"
            yield Spot(node, text, "clip only what goes to env.step(); store the action as it was drawn")


def _drawn_with_log_prob(script: Script, name: str, at: ast.AST) -> ast.Call | None:
    """The call that returned an action together with its log-probability: action, log_prob, … = agent.act(obs)."""
    assigned = script.latest(name, at)
    targets = assigned.statement.targets if assigned is not None and isinstance(assigned.statement, ast.Assign) else []
    both = any(isinstance(target, ast.Tuple) and any(words.LOG_PROB(words.own_name(part)) for part in target.elts) for target in targets)
    return assigned.value if both and assigned is not None and isinstance(assigned.value, ast.Call) else None


def _stored(script: Script) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Every value that goes into a buffer, and where."""
    for call in script.calls(*STORES):
        for each in call.args:
            yield from ((call, part) for part in (each.elts if isinstance(each, ast.Tuple | ast.List) else [each]))
        yield from ((call, each.value) for each in call.keywords)
    for node in script.all(ast.Assign):
        if isinstance(node.targets[0], ast.Subscript):
            yield node, node.value


@check("COD204", Severity.HIGH, ["jones2021debugging"])
def softmax_as_logits(script: Script) -> Iterator[Spot]:
    """Probabilities are given where raw scores are expected: softmax is applied twice.

    ## Why it hurts
    Probabilities between 0 and 1 make a nearly uniform second softmax: the policy can never become sure of anything, and its gradient
    is tiny.

    ## When it is fine
    Never.

    ## Fix
    Drop the softmax, or pass probs= to Categorical.

    ## Wrong
    ```python
    probs = F.softmax(net(obs), dim=-1)
    dist = Categorical(logits=probs)
    ```

    ## Right
    ```python
    probs = F.softmax(net(obs), dim=-1)
    dist = Categorical(probs=probs)
    ```
    """
    places = [(call, keyword(call, "logits")) for call in script.calls("Categorical", "OneHotCategorical", "Multinomial")]
    places += [(call, argument(call, 0, "input")) for call in script.calls("cross_entropy", "log_softmax")]
    places += [
        (call, argument(call, 0, "input")) for call in script.all(ast.Call) if script.last(script.resolve(call.func)) == "CrossEntropyLoss"
    ]
    for call, given in places:
        if given is None:
            continue
        value = nets.origin(script, given)
        if _is_softmax(script, value) or nets.last_layer(script, value) in SOFTMAX:
            yield Spot(call, f"{script.last(call)} takes raw scores here and gets probabilities: softmax is applied twice")


def _is_softmax(script: Script, value: ast.AST) -> bool:
    if script.last(value) in SOFTMAX:
        return True
    inner = value.func if isinstance(value, ast.Call) else value
    return isinstance(inner, ast.Call) and script.last(inner) in SOFTMAX


@check("COD205", Severity.HIGH, ["jones2021debugging"])
def logits_as_probs(script: Script) -> Iterator[Spot]:
    """Raw scores are given where probabilities are expected.

    ## Why it hurts
    Categorical's first argument is probs: scores are divided by their sum. Negative ones raise, positive ones give a distribution
    that has nothing to do with the network's intention.

    ## When it is fine
    Never.

    ## Fix
    Categorical(logits=scores)

    ## Wrong
    ```python
    logits = actor(obs)
    dist = Categorical(logits)
    ```

    ## Right
    ```python
    logits = actor(obs)
    dist = Categorical(logits=logits)
    ```
    """
    for call in script.calls("Categorical", "OneHotCategorical"):
        given = argument(call, 0, "probs")
        if given is None:
            continue
        value = nets.origin(script, given)
        if words.LOGITS(words.own_name(given)) or nets.last_layer(script, value) == "Linear":
            yield Spot(
                call,
                "the first argument of Categorical is probs; scores without softmax belong into logits=",
                f"Categorical(logits={ast.unparse(given)})",
            )


@check("COD206", Severity.HIGH, ["nikanjam2022faults"])
def greedy_action_in_training(script: Script) -> Iterator[Spot]:
    """A stochastic policy is trained on its likeliest action only.

    ## Why it hurts
    There is no exploration: actions that the policy does not favour are never tried, and the policy gradient of a deterministic
    choice is not what its formula says.

    ## When it is fine
    In evaluation.

    ## Fix
    action = dist.sample() in training; argmax only in evaluation.

    ## Wrong
    ```python
    logits = policy(obs)
    action = logits.argmax()
    log_prob = Categorical(logits=logits).log_prob(action)
    obs, reward, terminated, truncated, info = env.step(action.item())
    loss = -log_prob * reward
    loss.backward()
    ```

    ## Right
    ```python
    logits = policy(obs)
    action = Categorical(logits=logits).sample()
    log_prob = Categorical(logits=logits).log_prob(action)
    obs, reward, terminated, truncated, info = env.step(action.item())
    loss = -log_prob * reward
    loss.backward()
    ```
    """
    if not script.calls("backward") or not script.calls("log_prob"):
        return
    for call in script.calls("argmax"):
        inner = operand(script, call)
        name = words.own_name(inner) if inner is not None else ""
        function = script.scope(call)
        if not (words.LOGITS(name) or words.PROBS(name)) or words.EVALUATION(getattr(function, "name", "")):
            continue
        steps = [
            step for step in script.calls("step", within=function) if step.args and words.ENVIRONMENT(script.owner(step).rpartition(".")[2])
        ]
        elsewhere = [
            step
            for step in script.calls("step")
            if step not in steps and step.args and words.ENVIRONMENT(script.owner(step).rpartition(".")[2])
        ]
        collects = len(script.calls("append", within=function)) > 1 or script.calls("log_prob", within=function)
        if steps and elsewhere and not collects and not script.calls("backward", "learn", "update", "store", within=function):
            continue  # an evaluation: training steps in another function
        target = script.statement(call)
        action = words.own_name(target.targets[0]) if isinstance(target, ast.Assign) else ""
        taken = any(words.own_name(_inner(step.args[0])) == action for step in steps) and not _may_sample(script, action, call)
        if taken or _is_only_likeliest(script, action, call):
            yield Spot(call, f"the action is always the likeliest one: `{action}` is never drawn from the policy", "action = dist.sample()")


def _is_only_likeliest(script: Script, action: str, at: ast.AST) -> bool:
    """Whether the policy is trained by the log-probability of this very action, and no other is ever drawn."""
    asked = [call for call in script.calls("log_prob", within=script.scope(at)) if call.args and words.own_name(call.args[0]) == action]
    assigned = [assignment for assignment in script.assignments(action, at) if action]
    return bool(asked) and len(assigned) == 1 and not script.calls("sample", "choice", "multinomial", within=script.scope(at))


def _may_sample(script: Script, action: str, at: ast.AST) -> bool:
    return any(
        assignment.value is not None and script.calls("sample", "choice", "multinomial", within=assignment.value)
        for assignment in script.assignments(action, at)
    )


def _inner(node: ast.AST) -> ast.AST:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node


# ── ratios ──


@check("COD207", Severity.HIGH, ["schulman2017ppo"])
def ratio_without_exponential(script: Script) -> Iterator[Spot]:
    """The probability ratio is computed from log-probabilities without the exponential.

    ## Why it hurts
    The difference of log-probabilities is 0 where the ratio is 1: clipping to 1 ± 0.2 then replaces it nearly always, and no gradient
    is left.

    ## When it is fine
    Never; call it log_ratio if that is what is meant.

    ## Fix
    ratio = (new_log_prob - old_log_prob).exp()

    ## Wrong
    ```python
    ratio = new_log_prob - old_log_prob
    surrogate = torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv)
    ```

    ## Right
    ```python
    ratio = (new_log_prob - old_log_prob).exp()
    surrogate = torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv)
    ```
    """
    for node in script.all(ast.Assign):
        value = script.resolve(node.value)
        if not words.RATIO(words.own_name(node.targets[0])) or not isinstance(value, ast.BinOp):
            continue
        left, right = value.left, value.right
        if any(
            words.own_name(held) == words.own_name(node.targets[0])
            for call in script.calls("exp")
            if (held := operand(script, call)) is not None
        ):
            continue
        if words.LOG_PROB(words.own_name(left)) and words.LOG_PROB(words.own_name(right)) and isinstance(value.op, ast.Sub | ast.Div):
            how = "difference" if isinstance(value.op, ast.Sub) else "quotient"
            yield Spot(node, f"the ratio of probabilities is the exponential of a difference of log-probabilities; this is their {how}")


@check("COD210", Severity.HIGH, ["schulman2017ppo"])
def log_prob_of_another_action(script: Script) -> Iterator[Spot]:
    """The new log-probability is that of an action that was drawn in the update, not of the stored one.

    ## Why it hurts
    The ratio compares two different actions: it is noise around anything, and the advantage is credited to an action that was never
    taken.

    ## When it is fine
    Never in a ratio.

    ## Fix
    agent.get_action_and_value(obs, actions)

    ## Wrong
    ```python
    class Agent:
        def act(self, obs, action=None):
            dist = Categorical(logits=self.actor(obs))
            if action is None:
                action = dist.sample()
            return action, dist.log_prob(action)


    _, new_log_prob = agent.act(b_obs)
    ratio = (new_log_prob - b_log_probs).exp()
    ```

    ## Right
    ```python
    class Agent:
        def act(self, obs, action=None):
            dist = Categorical(logits=self.actor(obs))
            if action is None:
                action = dist.sample()
            return action, dist.log_prob(action)


    _, new_log_prob = agent.act(b_obs, b_actions)
    ratio = (new_log_prob - b_log_probs).exp()
    ```
    """
    asked = {
        function.name: function
        for function in script.functions
        if _takes_an_action(function) and script.calls("sample", "rsample", within=function)
    }
    for node in script.all(ast.BinOp):
        if (
            not isinstance(node.op, ast.Sub)
            or not isinstance(node.left, ast.Name)
            or not words.LOG_PROB(words.own_name(_stripped(node.right)))
        ):
            continue
        assigned = script.latest(node.left.id, node) if words.LOG_PROB(node.left.id) else None
        call = assigned.value if assigned is not None else None
        drawn = (
            [each for each in script.calls("log_prob", within=call) if each.args and script.last(each.args[0]) in ("sample", "rsample")]
            if call
            else []
        )
        if isinstance(call, ast.Call) and drawn and not script.is_without_gradient(call) and "old" not in node.left.id:
            yield Spot(call, f"`{node.left.id}` is of an action that is drawn anew here, and is compared with that of the stored one")
        if not isinstance(call, ast.Call) or script.last(call) not in asked or len(call.args) + len(call.keywords) > 1:
            continue
        if not script.is_without_gradient(call) and "old" not in node.left.id:
            text = f"`{node.left.id}` is of an action that is drawn anew here, and is compared with that of the stored one"
            yield Spot(node, text, f"give the stored actions: {script.last(call)}(obs, actions)")


def _takes_an_action(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """def f(self, obs, action=None)."""
    optional = function.args.args[-len(function.args.defaults) :] if function.args.defaults else []
    return any(words.ACTION(each.arg) for each in optional)


@check("COD208", Severity.HIGH, ["schulman2017ppo", "huang2022details"])
def ratio_is_always_one(script: Script) -> Iterator[Spot]:
    """The old log-probability is recomputed from the policy that is being updated.

    ## Why it hurts
    The ratio is 1 in every minibatch: clipping never acts, KL reads 0, and after the first epochs nothing holds the policy back.

    ## When it is fine
    As a way to write the plain policy gradient with one pass over fresh data.

    ## Fix
    Store log-probabilities during the rollout, and index them in the update.

    ## Wrong
    ```python
    for epoch in range(10):
        new_logprob = policy(obs).log_prob(actions)
        old_logprob = policy(obs).log_prob(actions).detach()
        ratio = (new_logprob - old_logprob).exp()
        clipped = ratio.clamp(0.8, 1.2)
    ```

    ## Right
    ```python
    old_logprob = policy(obs).log_prob(actions).detach()
    for epoch in range(10):
        new_logprob = policy(obs).log_prob(actions)
        ratio = (new_logprob - old_logprob).exp()
        clipped = ratio.clamp(0.8, 1.2)
    ```
    """
    if not script.calls("clamp", "clip"):
        return
    for call in script.calls("exp"):
        inner = operand(script, call)
        inner = script.resolve(inner) if inner is not None else None
        if (
            not isinstance(inner, ast.BinOp)
            or not isinstance(inner.op, ast.Sub)
            or not words.LOG_PROB(words.own_name(_stripped(inner.right)))
        ):
            continue
        new, old = _stripped(inner.left), _stripped(inner.right)
        same = ast.dump(new) == ast.dump(old)
        if same or _made_in_the_same_pass(script, new, old):
            yield Spot(
                call, f"`{ast.unparse(old)}` comes from the same policy as `{ast.unparse(new)}`: the ratio is 1, and clipping never acts"
            )


def _stripped(node: ast.AST) -> ast.AST:
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("detach", "clone", "squeeze", "view", "float", "to")
    ):
        node = node.func.value
    return node


def _made_in_the_same_pass(script: Script, new: ast.AST, old: ast.AST) -> bool:
    """Both computed in the innermost loop, from the network: nothing was remembered from the rollout."""
    if not isinstance(new, ast.Name) or not isinstance(old, ast.Name):
        return False
    first, second = script.latest(new.id, new), script.latest(old.id, old)
    if first is None or second is None or not isinstance(first.value, ast.Call) or not isinstance(second.value, ast.AST):
        return False
    if first.index is not None and first.index == second.index and ast.dump(first.value) == ast.dump(second.value):
        return True  # unpacked from the same question to the same policy
    value = _stripped(second.value)
    loops = script.loops(new)
    inside = bool(loops) and second.statement in set(ast.walk(loops[0]))
    copied = isinstance(value, ast.Name) and value.id == new.id
    asked = isinstance(value, ast.Call) and script.last(value) == "log_prob" and script.last(_stripped(first.value)) == "log_prob"
    return inside and (copied or (asked and words.LOG_PROB(old.id)))


@check("COD209", Severity.HIGH, ["schulman2017ppo"])
def clip_bounds_not_around_one(script: Script) -> Iterator[Spot]:
    """The probability ratio is not clipped to an interval around 1.

    ## Why it hurts
    Ratios start at 1. Clipped to ±0.2 around 0, or with swapped bounds, every one of them is replaced by a constant without gradient.

    ## When it is fine
    Never.

    ## Fix
    ratio.clamp(1 - clip_range, 1 + clip_range)

    ## Wrong
    ```python
    ratio = log_ratio.exp()
    clipped = torch.clamp(ratio, -clip_range, clip_range)
    ```

    ## Right
    ```python
    ratio = log_ratio.exp()
    clipped = torch.clamp(ratio, 1 - clip_range, 1 + clip_range)
    ```
    """
    for call in script.calls("clamp", "clip"):
        held = operand(script, call)
        if held is None or not words.RATIO(words.own_name(held)):
            continue
        shift = 0 if isinstance(call.func, ast.Attribute) and call.func.value is held else 1
        low, high = argument(call, shift, "min"), argument(call, shift + 1, "max")
        if low is None or high is None:
            continue
        below = isinstance(low, ast.BinOp) and isinstance(low.op, ast.Sub) and script.constant(low.left) == 0
        negative = isinstance(low, ast.UnaryOp) or below or (script.constant(low) or 0.0) < 0
        swapped = (
            isinstance(low, ast.BinOp) and isinstance(low.op, ast.Add) and isinstance(high, ast.BinOp) and isinstance(high.op, ast.Sub)
        )
        if negative or swapped:
            yield Spot(call, f"the ratio is clipped to [{ast.unparse(low)}, {ast.unparse(high)}]; it belongs between 1 - clip and 1 + clip")


@check("COD211", Severity.HIGH, ["huang2022details"])
def log_prob_of_one_dimension(script: Script) -> Iterator[Spot]:
    """The log-probability of an action is summed over its dimensions in one place and not in another.

    ## Why it hurts
    An action's log-probability is the sum over its dimensions. Where the sum is missing, shapes [N, A] and [N] are broadcast against
    each other, and ratios compare a part with the whole.

    ## When it is fine
    Never.

    ## Fix
    dist.log_prob(action).sum(-1)

    ## Wrong
    ```python
    from torch.distributions import Normal

    old_log_prob = Normal(mean, std).log_prob(action).sum(-1)
    dist = Normal(mean, std)
    new_log_prob = dist.log_prob(action)
    ratio = (new_log_prob - old_log_prob).exp()
    ```

    ## Right
    ```python
    from torch.distributions import Normal

    old_log_prob = Normal(mean, std).log_prob(action).sum(-1)
    dist = Normal(mean, std)
    new_log_prob = dist.log_prob(action).sum(-1)
    ratio = (new_log_prob - old_log_prob).exp()
    ```
    """
    if "Normal" not in script.words or script.words & {"Independent", "MultivariateNormal", "Categorical", "Bernoulli"}:
        return
    # A distribution is asked about one value; log_prob(obs, action) is a method of the author's own.
    calls = [call for call in script.calls("log_prob") if len(call.args) == 1]
    summed = [call for call in calls if _is_summed(script, call)]
    if any(isinstance(each.func, ast.Attribute) and words.LOG_PROB(words.own_name(each.func.value)) for each in script.calls("sum")):
        return  # stored one by one, and summed where they are used
    for call in calls if summed else ():
        if call not in summed and isinstance(script.statement(call), ast.Assign):
            yield Spot(
                script.statement(call),
                f"`{ast.unparse(call)}` is not summed over the action's dimensions, as on line {position(summed[0])[0]}",
                ".sum(-1)",
            )


def _is_summed(script: Script, call: ast.Call) -> bool:
    """In its own statement, or by the name that it is given."""
    statement = script.statement(call)
    if script.calls("sum", "sum_independent_dims", within=statement):
        return True
    name = words.own_name(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
    later = [each for each in script.calls("sum", within=script.scope(call)) if name and name in set(words.identifiers(each))]
    return bool(later)


@check("COD212", Severity.HIGH, ["haarnoja2018sac"])
def deviation_below_zero(script: Script) -> Iterator[Spot]:
    """The standard deviation of a policy can be 0 or below.

    ## Why it hurts
    A deviation below 0 raises, or makes the density meaningless; one of 0 ends exploration.

    ## When it is fine
    Never.

    ## Fix
    Let the network say the logarithm: log_std.exp(), or softplus.

    ## Wrong
    ```python
    import torch

    mean, log_std = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)
    action = torch.distributions.Normal(mean(obs), log_std(obs)).rsample()
    loss.backward()
    ```

    ## Right
    ```python
    import torch

    mean, log_std = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)
    action = torch.distributions.Normal(mean(obs), log_std(obs).exp()).rsample()
    loss.backward()
    ```
    """
    yield from ()
