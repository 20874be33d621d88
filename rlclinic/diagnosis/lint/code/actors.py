"""Actors that learn through a critic (SAC, TD3, DDPG): gradients through the action, signs, temperature, soft updates."""

import ast
import re
from collections.abc import Iterator

from rlclinic.diagnosis.lint.code import words
from rlclinic.diagnosis.lint.code.script import Script, Spot
from rlclinic.diagnosis.lint.code.signs import direction, factors, operand, sign, terms

SOFT = frozenset({"alpha", "log_alpha", "target_entropy", "log_ent_coef"})
LARGE_SHARE = 0.5
_CRITIC = re.compile(r"(^|_)(q|qf|critic|critics|qnet|qvalue)s?_?\d?(_|$)|^(min|max)_?q|q_?(min|val|value)", re.IGNORECASE)
_ACTOR_LOSS = re.compile(r"(actor|policy|pi)_?loss|loss_?(actor|policy|pi)($|_)", re.IGNORECASE)
_ALPHA_LOSS = re.compile(r"(alpha|temperature|temp|ent_coef)_?loss|loss_?(alpha|temperature)", re.IGNORECASE)
_TEMPERATURE = re.compile(r"(^|_)(alpha|ent_coef|temperature)($|_)", re.IGNORECASE)


def _is_soft(script: Script) -> bool:
    return bool(script.words & SOFT) and bool(script.calls("log_prob"))


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
    found = []
    for outer, term in terms(node):
        inner = _reduced(script, term)
        found += [(outer * each, part) for each, part in terms(inner)] if inner is not term else [(outer, term)]
    return found


def _critic(script: Script, term: ast.AST) -> bool:
    """Whether a term is a critic's value: asked here, or under a name that says so."""
    value = _reduced(script, term)
    if words.mentions(value, words.LOG_PROB):
        return False
    if isinstance(value, ast.Call) and script.last(value) in ("min", "max", "minimum", "maximum"):
        return any(_critic(script, each) for each in value.args)
    name = words.own_name(value.func) if isinstance(value, ast.Call) else words.own_name(value)
    return bool(_CRITIC.search(name))


def _entropy_term(term: ast.AST) -> bool:
    """alpha * log_prob."""
    names = [words.own_name(each) for each in factors(term)]
    return any(map(words.LOG_PROB, names)) and any(_TEMPERATURE.search(name) for name in names)


def action_without_gradient(script: Script) -> Iterator[Spot]:
    if not _is_soft(script) or script.calls("rsample", "TransformedDistribution") or "Categorical" in script.words:
        return
    for call in script.calls("sample"):
        made = script.resolve(call.func.value) if isinstance(call.func, ast.Attribute) else call
        if script.last(made) in ("Normal", "MultivariateNormal", "Independent") and script.calls("tanh", within=script.scope(call)):
            yield Spot(call, "the action is drawn without a gradient: the critic cannot tell the actor where to move", "dist.rsample()")


def larger_of_two_critics(script: Script) -> Iterator[Spot]:
    for call in script.calls("max", "maximum"):
        if len(call.args) != 2 or not script.calls("backward"):
            continue
        asked = [script.resolve(each) for each in call.args]
        names = [script.dotted(each.func) for each in asked if isinstance(each, ast.Call)]
        if len(set(names)) == 2 and all(_CRITIC.search(name.rpartition(".")[2]) for name in names):
            yield Spot(call, f"the larger of `{names[0]}` and `{names[1]}` is taken: errors upwards are kept and learned", "torch.min")


def entropy_against_value(script: Script) -> Iterator[Spot]:
    for node in script.all(ast.Assign):
        found = _summands(script, node.value)
        values = {each for each, term in found if _critic(script, term)}
        entropies = {each for each, term in found if _entropy_term(term)}
        if len(values) == 1 and values == entropies:
            text = "a high value and a high log-probability are pulled the same way: one of the two signs is wrong"
            yield Spot(node, text, "value - alpha * log_prob in a target, alpha * log_prob - value in the actor's loss")


def actor_lowers_its_value(script: Script) -> Iterator[Spot]:
    for node in script.all(ast.Assign):
        name = words.own_name(node.targets[0])
        if not _ACTOR_LOSS.search(name) or direction(script, name, node) < 0:
            continue
        found = _summands(script, node.value)
        raised = [term for each, term in found if each > 0 and _critic(script, term) and sign(script, term) > 0]
        if (
            raised
            and not any(_entropy_term(term) for _, term in found)
            and len(found) == 1
            and isinstance(_reduced(script, raised[0]), ast.Call)
        ):
            yield Spot(node, "the critic's value is minimized: the actor learns the worst action", f"{name} = -…")


def temperature_the_wrong_way(script: Script) -> Iterator[Spot]:
    for node in script.all(ast.Assign):
        if not _ALPHA_LOSS.search(words.own_name(node.targets[0])):
            continue
        for outer, term in terms(node.value):
            product = _reduced(script, term)
            # A minus may stand before the mean, before the product, or before a factor.
            whole = outer * (sign(script, product) if isinstance(product, ast.UnaryOp | ast.BinOp) else 1)
            inner = next((found for each in factors(product) if (found := _both(each)) is not None), None)
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
        kind = "log_prob" if words.LOG_PROB(name) else "target" if "target_ent" in name else ""
        signs[kind] = each
    return signs["log_prob"] if set(signs) == {"log_prob", "target"} and signs["log_prob"] == signs["target"] else None


def entropy_to_keep_above_zero(script: Script) -> Iterator[Spot]:
    given = [(each.arg, each.value, each.value) for each in script.all(ast.keyword) if each.arg == "target_entropy"]
    for name, value, where in [*script.named, *given]:
        if name.rpartition(".")[2] != "target_entropy" or (isinstance(value, ast.Constant) and not isinstance(value.value, int | float)):
            continue
        discrete = "Categorical" in script.words or words.mentions(value, lambda each: "log" in each.lower() or "entropy" in each.lower())
        number = script.constant(value)
        sized = words.mentions(value, lambda each: bool(re.search(r"act|shape|(^|_)a($|_)|dim", each.lower())))
        positive = number > 0 if number is not None else sized and sign(script, value) > 0
        if positive and not discrete and not isinstance(value, ast.IfExp):
            yield Spot(where, f"the entropy to keep is {ast.unparse(value)}, above 0: a squashed policy can hardly be that random")


def target_takes_the_large_share(script: Script) -> Iterator[Spot]:
    copied = [(call, call.func.value, call.args[0]) for call in script.calls("copy_") if call.args and isinstance(call.func, ast.Attribute)]
    for node, target, value in [*copied, *((node, node.targets[0], node.value) for node in script.all(ast.Assign))]:
        kept = _kept(script, value, {each for each in words.identifiers(target) if each not in ("data", "self", "weight")})
        if kept is not None:
            text = f"the target keeps a share `{kept}` of itself and takes the rest: it is the trained network, one step late"
            yield Spot(node, text, f"{kept} * new + (1 - {kept}) * target")


def _kept(script: Script, value: ast.AST, target: set[str]) -> str | None:
    """tau, where it multiplies the target itself and 1 - tau what was learned."""
    found: dict[bool, tuple[bool, ast.AST]] = {}
    for each, term in terms(value):
        held = list(factors(term))
        share = next((part for part in held if _is_share(part) or _is_share(getattr(part, "right", part))), None)
        own = bool(target & {name for part in held for name in words.identifiers(part)})
        if each > 0 and share is not None:
            found[_is_share(share)] = (own, share)
    if set(found) != {True, False} or not found[True][0] or found[False][0]:
        return None
    tau = found[True][1]
    number = script.constant(tau)
    return None if number is not None and number > LARGE_SHARE else ast.unparse(tau)


def _is_share(node: ast.AST) -> bool:
    return "tau" in words.own_name(node).lower()


def actor_loss_without_actor(script: Script) -> Iterator[Spot]:
    for node in script.all(ast.Assign):
        if not _ACTOR_LOSS.search(words.own_name(node.targets[0])):
            continue
        for call in script.inside(node.value, ast.Call):
            if not _CRITIC.search(words.own_name(call.func)) or len(call.args) < 2:
                continue
            for given in call.args[1:]:
                if script.last(given) == "detach":
                    yield Spot(call, f"`{ast.unparse(given)}` cuts the only way from the critic to the actor", "leave out .detach()")
