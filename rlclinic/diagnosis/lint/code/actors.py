"""Actors that learn through a critic (SAC, TD3, DDPG): gradients through the action, signs, temperature, soft updates."""

import ast
import re
from collections.abc import Iterator

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.reading import flow, nets, words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot
from rlclinic.diagnosis.lint.code.reading.signs import direction, factors, operand, returned_direction, sign, terms

_SOFT = re.compile(r"(^|_)(alpha|log_alpha|target_entropy|log_ent_coef|temperature|log_temperature)($|_)", re.IGNORECASE)
LARGE_SHARE = 0.5
_SHARE = re.compile(r"tau|(^|_)share($|_)|soft_?update", re.IGNORECASE)
_CRITIC = re.compile(r"(^|_)(q|qf|critic|critics|qnet|qvalue)s?_?\d?(_|$)|^(min|max)_?q|q_?(min|val|value)", re.IGNORECASE)
_ACTOR_LOSS = re.compile(r"(actor|policy|pi)_?loss|loss_?(actor|policy|pi)($|_)", re.IGNORECASE)
_ALPHA_LOSS = re.compile(r"(alpha|temperature|temp|ent_coef)_?loss|loss_?(alpha|temperature)", re.IGNORECASE)
_TEMPERATURE = re.compile(r"(^|_)(alpha|ent_coef|temperature)($|_)", re.IGNORECASE)


def _is_soft(script: Script) -> bool:
    return bool(script.calls("log_prob")) and any(_SOFT.search(word) for word in script.words)


def _reduced(script: Script, node: ast.AST) -> ast.AST:
    """x of x.mean() and torch.mean(x)."""
    while isinstance(node, ast.Call) and script.last(node) in ("mean", "sum"):
        inner = operand(script, node)
        if inner is None:
            break
        node = inner
    return node


def _summands(script: Script, node: ast.AST) -> list[tuple[int, ast.AST]]:
    """Terms with their signs, through a mean and through a minus in front of it."""
    summands = []
    for outer, term in terms(node):
        inner = _reduced(script, term)
        summands += [(outer * each, part) for each, part in terms(inner)] if inner is not term else [(outer, term)]
    return summands


def _critic(script: Script, term: ast.AST) -> bool:
    """Whether a term is a critic's value: asked here, or under a name that says so."""
    value = _reduced(script, term)
    value = value.value if isinstance(value, ast.Starred) else value
    if words.mentions(value, words.LOG_PROB):
        return False
    if isinstance(value, ast.Call) and script.last(value) in ("min", "max", "minimum", "maximum"):
        return any(_critic(script, argument) for argument in value.args)
    name = words.own_name(value.func) if isinstance(value, ast.Call) else words.own_name(value)
    return bool(_CRITIC.search(name))


def _entropy_term(term: ast.AST) -> bool:
    """alpha * log_prob."""
    names = [words.own_name(factor) for factor in factors(term)]
    return any(map(words.LOG_PROB, names)) and any(_TEMPERATURE.search(name) for name in names)


@check("COD521", Severity.HIGH, ["haarnoja2018sac"])
def action_without_gradient(script: Script) -> Iterator[Spot]:
    """The action that a soft actor is trained by is drawn without a gradient.

    ## Why it hurts
    The critic's opinion reaches the actor through the action alone. `sample` cuts that way: only the entropy term is learned, and the
    policy becomes random.

    ## When it is fine
    Discrete actions, whose expected value is summed over all of them.

    ## Fix
    dist.rsample()

    ## Wrong
    ```python
    from torch.distributions import Normal


    def act(self, obs):
        dist = Normal(self.mean(obs), self.std(obs))
        raw = dist.sample()
        action = torch.tanh(raw)
        log_prob = dist.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)
        return action, log_prob.sum(1)


    actor_loss = (alpha * log_prob - q_net(obs, action)).mean()
    actor_loss.backward()
    ```

    ## Right
    ```python
    from torch.distributions import Normal


    def act(self, obs):
        dist = Normal(self.mean(obs), self.std(obs))
        raw = dist.rsample()
        action = torch.tanh(raw)
        log_prob = dist.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)
        return action, log_prob.sum(1)


    actor_loss = (alpha * log_prob - q_net(obs, action)).mean()
    actor_loss.backward()
    ```
    """
    if not _is_soft(script) or script.calls("rsample", "TransformedDistribution") or "Categorical" in script.words:
        return
    for call in script.calls("sample"):
        made = script.resolve(call.func.value) if isinstance(call.func, ast.Attribute) else call
        if script.last(made) in ("Normal", "MultivariateNormal", "Independent") and script.calls("tanh", within=script.scope(call)):
            yield Spot(call, "the action is drawn without a gradient: the critic cannot tell the actor where to move", "dist.rsample()")


@check("COD522", Severity.HIGH, ["fujimoto2018td3"])
def larger_of_two_critics(script: Script) -> Iterator[Spot]:
    """The larger of two critics' values is taken.

    ## Why it hurts
    Two critics are there so that their common errors cancel. The larger one keeps every error upwards, and the actor then seeks them:
    values grow without end.

    ## When it is fine
    Where optimism is meant, as a bonus for exploration, and not in a target.

    ## Fix
    torch.min(q1(obs, action), q2(obs, action))

    ## Wrong
    ```python
    next_value = torch.max(q1_target(next_obs, next_action), q2_target(next_obs, next_action))
    target = reward + gamma * (1 - terminated) * next_value
    loss = F.mse_loss(q1(obs, action), target) + F.mse_loss(q2(obs, action), target)
    loss.backward()
    ```

    ## Right
    ```python
    next_value = torch.min(q1_target(next_obs, next_action), q2_target(next_obs, next_action))
    target = reward + gamma * (1 - terminated) * next_value
    loss = F.mse_loss(q1(obs, action), target) + F.mse_loss(q2(obs, action), target)
    loss.backward()
    ```
    """
    for call in script.calls("max", "maximum"):
        if not nets.trains(script) and not words.LOSS(getattr(script.scope(call), "name", "")):
            continue
        if _is_of_all_critics(script, call):
            yield Spot(call, f"the larger of `{ast.unparse(call.args[0])}` is taken: errors upwards are kept and learned", "torch.min")
        if len(call.args) != 2:
            continue
        if ast.dump(call.args[0]) != ast.dump(call.args[1]) and all(_is_critics_value(script, argument) for argument in call.args):
            first, second = (ast.unparse(argument) for argument in call.args)
            yield Spot(call, f"the larger of `{first}` and `{second}` is taken: errors upwards are kept and learned", "torch.min")


def _is_of_all_critics(script: Script, call: ast.Call) -> bool:
    """torch.max(*critics(obs, action)), torch.max(*(q(obs, action) for q in critics))."""
    given = call.args[0].value if len(call.args) == 1 and isinstance(call.args[0], ast.Starred) else None
    asked = given.elt if isinstance(given, ast.GeneratorExp | ast.ListComp) else given
    return isinstance(asked, ast.Call) and len(asked.args) == 2 and bool(_CRITIC.search(words.own_name(asked.func)))


def _is_critics_value(script: Script, node: ast.AST) -> bool:
    """A critic's own value, asked here or before, with nothing added to it; not a loss."""
    named = bool(_CRITIC.search(words.own_name(node)) or _CRITIC.search(words.own_name(node.func) if isinstance(node, ast.Call) else ""))
    targets = words.mentions(node, words.TARGET)
    asked = nets.is_networks_value(script, node) or (named and targets and isinstance(script.resolve(node), ast.Call))
    return not words.mentions(node, words.LOSS) and asked and (named or targets)


@check("COD523", Severity.HIGH, ["haarnoja2018sac"])
def entropy_against_value(script: Script) -> Iterator[Spot]:
    """Value and log-probability have the same sign where they must have opposite ones.

    ## Why it hurts
    What is good and what is random are both to grow. With equal signs one of them is driven down: the policy collapses, or it flees
    from value.

    ## When it is fine
    Never in a soft actor-critic.

    ## Fix
    value - alpha * log_prob in a target, alpha * log_prob - value in the actor's loss

    ## Wrong
    ```python
    next_value = torch.min(q1_target(next_obs, action), q2_target(next_obs, action)) + alpha * log_prob
    actor_loss = (alpha * log_prob + torch.min(q1(obs, pi), q2(obs, pi))).mean()
    ```

    ## Right
    ```python
    next_value = torch.min(q1_target(next_obs, action), q2_target(next_obs, action)) - alpha * log_prob
    actor_loss = (alpha * log_prob - torch.min(q1(obs, pi), q2(obs, pi))).mean()
    ```
    """
    for node in script.all(ast.BinOp):
        outer = script.parents.get(node)
        if not isinstance(node.op, ast.Add | ast.Sub) or (isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Add | ast.Sub)):
            continue
        summands = list(terms(node))
        values = {each for each, term in summands if _critic(script, term)}
        entropies = {each for each, term in summands if _entropy_term(term)}
        if len(values) == 1 and values == entropies:
            text = "a high value and a high log-probability are pulled the same way: one of the two signs is wrong"
            yield Spot(node, text, "value - alpha * log_prob in a target, alpha * log_prob - value in the actor's loss")


@check("COD524", Severity.HIGH, ["lillicrap2016ddpg"])
def actor_lowers_its_value(script: Script) -> Iterator[Spot]:
    """The actor's loss is the critic's value itself, which is then minimized.

    ## Why it hurts
    The actor learns the action that the critic thinks worst of.

    ## When it is fine
    Where the critic estimates a cost.

    ## Fix
    actor_loss = -critic(obs, actor(obs)).mean()

    ## Wrong
    ```python
    actor_loss = critic(obs, actor(obs)).mean()
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()
    ```

    ## Right
    ```python
    actor_loss = -critic(obs, actor(obs)).mean()
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()
    ```
    """
    for name, value, node in flow.named_values(script):
        if not _ACTOR_LOSS.search(name):
            continue
        way = returned_direction(script, script.scope(node)) if isinstance(node, ast.Return) else direction(script, name, node)
        if way < 0:
            continue
        summands = _summands(script, value)
        raised = [term for each, term in summands if each > 0 and _critic(script, term) and sign(script, term) > 0]
        asked = script.resolve(_reduced(script, raised[0])) if raised else value
        if raised and not any(_entropy_term(term) for _, term in summands) and len(summands) == 1 and nets.is_networks_value(script, asked):
            yield Spot(node, "the critic's value is minimized: the actor learns the worst action", f"{name} = -…")


@check("COD525", Severity.HIGH, ["haarnoja2018sac"])
def temperature_the_wrong_way(script: Script) -> Iterator[Spot]:
    """The temperature of a soft actor moves away from what would keep its entropy.

    ## Why it hurts
    It rises while the policy is too random and falls while it is too certain: within a few thousand steps it explodes or vanishes.

    ## When it is fine
    Never.

    ## Fix
    alpha_loss = -(log_alpha * (log_prob + target_entropy).detach()).mean()

    ## Wrong
    ```python
    alpha_loss = (log_alpha * (log_prob + target_entropy).detach()).mean()
    ```

    ## Right
    ```python
    alpha_loss = -(log_alpha * (log_prob + target_entropy).detach()).mean()
    ```
    """
    for node in script.all(ast.Assign):
        if not _ALPHA_LOSS.search(words.own_name(node.targets[0])):
            continue
        for outer, term in terms(node.value):
            product = _reduced(script, term)
            # A minus may stand before the mean, before the product, or before a factor.
            whole = outer * (sign(script, product) if isinstance(product, ast.UnaryOp | ast.BinOp) else 1)
            inner = next((both for factor in factors(product) if (both := _both(factor)) is not None), None)
            if inner is not None and whole * inner > 0:
                yield Spot(
                    node, "the temperature rises where the policy is random enough, and falls where it is not", "put a minus before it"
                )


def _bare(node: ast.AST) -> ast.AST:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("detach", "mean", "squeeze"):
        node = node.func.value
    return node


def _both(node: ast.AST) -> int | None:
    """The sign of log_prob in (log_prob + target_entropy), where both have it; None for anything else."""
    signs = {}
    for each, term in terms(_bare(node)):
        name = words.own_name(_bare(term)).lower()
        kind = "log_prob" if words.LOG_PROB(name) else "target" if "target_ent" in name or "wanted_ent" in name else ""
        signs[kind] = each
    return signs["log_prob"] if set(signs) == {"log_prob", "target"} and signs["log_prob"] == signs["target"] else None


@check("COD526", Severity.MEDIUM, ["haarnoja2018sac"])
def entropy_to_keep_above_zero(script: Script) -> Iterator[Spot]:
    """The entropy that a soft actor is to keep is positive.

    ## Why it hurts
    An action squashed to [-1, 1] has at most the entropy of a uniform one, about 0.7 for each dimension. A higher aim cannot be met:
    the temperature grows without bound, and rewards stop counting.

    ## When it is fine
    Discrete actions, where a share of log(n) is usual.

    ## Fix
    target_entropy = -action_dim

    ## Wrong
    ```python
    target_entropy = action_dim
    ```

    ## Right
    ```python
    target_entropy = -action_dim
    ```
    """
    given = [(each.arg, each.value, each.value) for each in script.all(ast.keyword) if each.arg == "target_entropy"]
    for name, value, where in [*script.named, *given]:
        if name.rpartition(".")[2] != "target_entropy" or (isinstance(value, ast.Constant) and not isinstance(value.value, int | float)):
            continue
        while (
            isinstance(value, ast.Call) and script.last(value) in ("tensor", "as_tensor", "float", "Tensor", "FloatTensor") and value.args
        ):
            value = value.args[0]
        discrete = "Categorical" in script.words or words.mentions(value, lambda each: "log" in each.lower() or "entropy" in each.lower())
        number = script.constant(value)
        sized = words.mentions(value, lambda each: bool(re.search(r"act|shape|(^|_)a($|_)|dim", each.lower())))
        positive = number > 0 if number is not None else sized and sign(script, value) > 0
        if positive and not discrete and not isinstance(value, ast.IfExp):
            yield Spot(where, f"the entropy to keep is {ast.unparse(value)}, above 0: a squashed policy can hardly be that random")


@check("COD527", Severity.HIGH, ["lillicrap2016ddpg"])
def target_takes_the_large_share(script: Script) -> Iterator[Spot]:
    """The soft update gives the target network the large share of the trained one.

    ## Why it hurts
    With tau at 0.005 the target is replaced by the trained network at each step: it holds nothing steady, and values chase themselves.

    ## When it is fine
    Where the name means the share that is kept, 0.99 or more.

    ## Fix
    tau * new + (1 - tau) * target

    ## Wrong
    ```python
    for param, target_param in zip(q.parameters(), q_target.parameters()):
        target_param.data.copy_(tau * target_param.data + (1 - tau) * param.data)
    ```

    ## Right
    ```python
    for param, target_param in zip(q.parameters(), q_target.parameters()):
        target_param.data.copy_(tau * param.data + (1 - tau) * target_param.data)
    ```
    """
    yield from _scaled_and_added(script)
    copied = [(call, call.func.value, call.args[0]) for call in script.calls("copy_") if call.args and isinstance(call.func, ast.Attribute)]
    for node, target, value in [*copied, *((node, node.targets[0], node.value) for node in script.all(ast.Assign))]:
        kept = _kept(script, value, {name for name in words.identifiers(_without_index(target)) if name not in ("data", "self", "weight")})
        if kept is not None:
            text = f"the target keeps a share `{kept}` of itself and takes the rest: it is the trained network, one step late"
            yield Spot(node, text, f"{kept} * new + (1 - {kept}) * target")


def _kept(script: Script, value: ast.AST, target: set[str]) -> str | None:
    """tau, where it multiplies the target itself and 1 - tau what was learned."""
    kept: dict[bool, tuple[bool, ast.AST]] = {}
    for each, term in terms(value):
        held = list(factors(term))
        share = next((part for part in held if _is_share(part) or _is_share(getattr(part, "right", part))), None)
        own = bool(target & {name for part in held for name in words.identifiers(_without_index(part))})
        if each > 0 and share is not None:
            kept[_is_share(share)] = (own, share)
    if set(kept) != {True, False} or not kept[True][0] or kept[False][0]:
        return None
    slow = [
        name for _, term in terms(value) for part in factors(term) for name in words.identifiers(_without_index(part)) if words.TARGET(name)
    ]
    if slow and not target & set(slow):
        return None  # what is assigned is not the target: its weights are worked out in another place and loaded
    tau = kept[True][1]
    number = script.constant(tau)
    return None if number is not None and number > LARGE_SHARE else ast.unparse(tau)


def _without_index(node: ast.AST) -> ast.AST:
    """weights of weights[key]: the key is the same on both sides."""
    return node.value if isinstance(node, ast.Subscript) else node


def _is_share(node: ast.AST) -> bool:
    return bool(_SHARE.search(words.own_name(node)))


def _scaled_and_added(script: Script) -> Iterator[Spot]:
    """target.mul_(a) and target.add_(b * new), in one expression or two: a must be near 1."""
    for scaled in script.calls("mul_"):
        if not scaled.args or not isinstance(scaled.func, ast.Attribute) or not script.loops(scaled):
            continue
        kept = scaled.args[0]
        name = script.dotted(scaled.func.value)
        chained = script.parents.get(script.parents[scaled])
        added = chained if script.last(chained) == "add_" and isinstance(chained, ast.Call) else None  # type: ignore[arg-type]
        added = added or next((call for call in script.calls("add_", within=script.loops(scaled)[0]) if script.owner(call) == name), None)
        if not isinstance(added, ast.Call) or not added.args:
            continue
        share = [
            factor for factor in factors(added.args[0]) if _is_rest(factor) or isinstance(factor, ast.Name | ast.Attribute | ast.Constant)
        ]
        number = script.constant(kept)
        if number is not None:
            wrong = number < LARGE_SHARE
        elif _is_rest(kept):
            # 1 - x is kept and x taken: x is small, unless its name or its value says that it is the share that is kept.
            held = kept.right if isinstance(kept, ast.BinOp) else kept
            value = script.constant(held)
            wrong = value > LARGE_SHARE if value is not None else words.own_name(held).lower() in ("polyak", "rho", "decay")
        else:
            wrong = any(_is_rest(each) for each in share) and bool(_SHARE.search(words.own_name(kept)))
        if wrong:
            text = f"the target keeps a share `{ast.unparse(kept)}` of itself and takes the rest: it is the trained network, one step late"
            yield Spot(scaled, text, "the target keeps the large share")


def _is_rest(node: ast.AST) -> bool:
    """1 - x."""
    return (
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and isinstance(node.left, ast.Constant) and node.left.value in (1, 1.0)
    )


@check("COD528", Severity.HIGH, ["lillicrap2016ddpg"])
def actor_loss_without_actor(script: Script) -> Iterator[Spot]:
    """The action is detached on its way into the critic that trains the actor.

    ## Why it hurts
    Nothing of the loss reaches the actor any more, or only its entropy: it does not learn what the critic knows.

    ## When it is fine
    Never.

    ## Fix
    Leave out .detach() in the actor's loss.

    ## Wrong
    ```python
    actor_loss = (alpha * log_prob - q_net(obs, action.detach())).mean()
    ```

    ## Right
    ```python
    actor_loss = (alpha * log_prob - q_net(obs, action)).mean()
    ```
    """
    for node in script.all(ast.Assign):
        if not _ACTOR_LOSS.search(words.own_name(node.targets[0])):
            continue
        for call in script.inside(node.value, ast.Call):
            if not _CRITIC.search(words.own_name(call.func)) or len(call.args) < 2:
                continue
            for given in call.args[1:]:
                if script.last(given) == "detach":
                    yield Spot(call, f"`{ast.unparse(given)}` cuts the only way from the critic to the actor", "leave out .detach()")


NOISE = frozenset({"randn", "randn_like", "normal", "standard_normal", "normal_", "rand_like"})
BOUNDED = frozenset({"clip", "clip_by_value", "clamp", "clamp_", "tanh", "minimum", "maximum", "min", "max", "hardtanh", "sigmoid"})
_POLICY = re.compile(r"actor|policy|(^|[_.])(pi|mu)($|_)", re.IGNORECASE)


def _is_loud(script: Script, node: ast.AST) -> bool:
    """Whether a value holds noise that nothing bounds."""
    stop = lambda part: script.last(part) in BOUNDED or nets.is_network(script, part)  # noqa: E731
    return any(script.last(part) in NOISE for part, _ in flow.made_of(script, node, stop))


@check("COD529", Severity.MEDIUM, ["fujimoto2018td3"])
def smoothing_noise_without_bound(script: Script) -> Iterator[Spot]:
    """The noise on the target's action is not clipped.

    ## Why it hurts
    It is there to average over actions close by. Unbounded, it asks the critics about actions far away, which they know nothing about.

    ## When it is fine
    Where the deviation is so small that it makes no difference.

    ## Fix
    noise = (torch.randn_like(action) * 0.2).clamp(-0.5, 0.5)

    ## Wrong
    ```python
    noise = torch.randn_like(action) * 0.2
    next_action = (actor_target(next_obs) + noise).clamp(-1, 1)
    ```

    ## Right
    ```python
    noise = (torch.randn_like(action) * 0.2).clamp(-0.5, 0.5)
    next_action = (actor_target(next_obs) + noise).clamp(-1, 1)
    ```
    """
    for node in script.all(ast.BinOp):
        if not isinstance(node.op, ast.Add):
            continue
        for asked, noise in ((node.left, node.right), (node.right, node.left)):
            call = flow.sources(script, asked)[0].node if isinstance(asked, ast.Name) and flow.sources(script, asked) else asked
            target = isinstance(call, ast.Call) and words.mentions(call.func, words.TARGET) and _POLICY.search(script.dotted(call.func))
            made = script.latest(noise.id, node) if isinstance(noise, ast.Name) else None
            places = [script.statement(node), *([made.statement] if made is not None else [])]
            for where in places if target and _is_loud(script, noise) else ():
                yield Spot(
                    where,
                    f"`{ast.unparse(noise)}` has no bound: the critics are asked about actions far away",
                    "clamp the noise",
                )


@check("COD539", Severity.HIGH, ["fujimoto2018td3"])
def twins_are_one(script: Script) -> Iterator[Spot]:
    """Two critics are kept, and one of them answers for both.

    ## Why it hurts
    The smaller of two opinions holds errors upwards back only where there are two: of one critic, asked twice, every error stays. A
    critic that is left out of the loss stays what it was at the start, and the minimum with it is noise.

    ## When it is fine
    Never.

    ## Fix
    Ask each critic once, and train each on the same target.

    ## Wrong
    ```python
    import torch
    from torch import nn

    q1, q2, target1, target2 = nn.Linear(4, 1), nn.Linear(4, 1), nn.Linear(4, 1), nn.Linear(4, 1)
    optimizer = torch.optim.Adam([*q1.parameters(), *q2.parameters()])
    for step in range(1000):
        x, r, x2, terminated = sample()
        with torch.no_grad():
            y = r + 0.99 * (1 - terminated) * torch.min(target1(x2), target1(x2))
        loss = ((q1(x) - y) ** 2).mean() + ((q2(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            target1.load_state_dict(q1.state_dict())
            target2.load_state_dict(q2.state_dict())
    ```

    ## Right
    ```python
    import torch
    from torch import nn

    q1, q2, target1, target2 = nn.Linear(4, 1), nn.Linear(4, 1), nn.Linear(4, 1), nn.Linear(4, 1)
    optimizer = torch.optim.Adam([*q1.parameters(), *q2.parameters()])
    for step in range(1000):
        x, r, x2, terminated = sample()
        with torch.no_grad():
            y = r + 0.99 * (1 - terminated) * torch.min(target1(x2), target2(x2))
        loss = ((q1(x) - y) ** 2).mean() + ((q2(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            target1.load_state_dict(q1.state_dict())
            target2.load_state_dict(q2.state_dict())
    ```
    """
    yield from ()


@check("COD530", Severity.MEDIUM, ["lillicrap2016ddpg"])
def noisy_action_out_of_bounds(script: Script) -> Iterator[Spot]:
    """Noise is added to an action, and the environment gets it unclipped.

    ## Why it hurts
    Actions leave their bounds: the environment raises, or clips them itself while the buffer keeps what never happened.

    ## When it is fine
    Environments that are wrapped in ClipAction; those are left alone.

    ## Fix
    np.clip(action + noise, low, high)

    ## Wrong
    ```python
    action = actor(obs).detach().numpy() + np.random.normal(0, 0.1, size=2)
    next_obs, reward, terminated, truncated, info = env.step(action)
    ```

    ## Right
    ```python
    action = np.clip(actor(obs).detach().numpy() + np.random.normal(0, 0.1, size=2), -1, 1)
    next_obs, reward, terminated, truncated, info = env.step(action)
    ```
    """
    if script.words & {"ClipAction", "RescaleAction", "TransformAction"}:
        return
    steps = [call for call in script.calls("step") if call.args and words.ENVIRONMENT(script.owner(call).rpartition(".")[2])]
    for call in steps:
        if _is_noisy_action(script, call.args[0]):
            text = "noise is added to the policy's action, and nothing keeps it within its bounds"
            yield Spot(script.statement(call), text, "np.clip(action + noise, low, high)")
    for function in script.functions if not steps else ():
        # A learner whose environment is stepped elsewhere: what its exploring function returns is what is taken.
        for value in flow.returned(script, function) if re.search(r"act|explor", function.name) else ():
            if _is_noisy_action(script, value):
                text = f"{function.name} returns the policy's action with noise, and nothing keeps it within its bounds"
                yield Spot(script.statement(value), text, "(action + noise).clamp(low, high)")


def _is_noisy_action(script: Script, node: ast.AST) -> bool:
    stop = lambda part: script.last(part) in BOUNDED | {"sample", "rsample", "argmax"} or nets.is_network(script, part)  # noqa: E731
    parts = [part for part, _ in flow.made_of(script, node, stop)]
    return any(script.last(part) in NOISE for part in parts) and any(nets.is_network(script, part) for part in parts)
