"""The equations of the algorithms, put to a script's formulas by their numbers and slopes, whatever the formulas look like (`slopes`).

A bootstrap is taken away where the episode ended, and only there. What a policy's loss says of a critic reaches the policy, and falls with it.
A temperature rises where the policy is too certain. What leans towards the better actions leans upwards.
"""

# ruff: noqa: E501 — a message reads best whole

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from rlclinic.diagnosis.lint.code import idle
from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, position
from rlclinic.diagnosis.lint.code.symbolic import differences, experience, formulas, laws, sizes
from rlclinic.diagnosis.lint.code.symbolic.execution import Event, Record, Symbol, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called, execution, gradient, outputs_in
from rlclinic.diagnosis.lint.code.symbolic.slopes import Evaluation, Leaf, Slope

_EPS: Final = 1e-6
_ENDS: Final = frozenset({"terminated", "ended"})


def _spot(where: ast.AST | None, text: str, fix: str = "", strength: float = 1.0) -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix, strength)


# ── bootstraps ──


class Bootstrap(NamedTuple):
    """A critic's target of a reward and what a network says of what comes next."""

    error: laws.Error
    found: Slope
    evaluation: Evaluation
    reward: float
    """The slope along the first reward."""
    futures: dict[Leaf, float]
    """The slopes along what is said of later observations."""


def bootstraps(script: Script) -> list[Bootstrap]:
    """The targets of one step, or of a window of steps."""
    return script.once("bootstraps", lambda: list(_bootstraps(script)))


def _bootstraps(script: Script) -> Iterator[Bootstrap]:
    for error in laws.errors(script):
        base = laws.evaluate(script, error.goal)
        rewards = sorted((leaf for leaf in base[0].whole if leaf.kind == "reward"), key=lambda leaf: leaf.time) if base else []
        if base is None or not rewards or base[0].whole[rewards[0]] <= _EPS or len(rewards) > 1:
            continue
        own = {(rewards[0].place, rewards[0].time - 1)}
        futures = {
            leaf: slope
            for leaf, slope in base[0].whole.items()
            if leaf.kind == "value" and laws.asked_at(leaf) and laws.asked_at(leaf) != own and base[1].leaves[leaf].op == "out"
        }
        if futures:
            yield Bootstrap(error, base[0], base[1], base[0].whole[rewards[0]], futures)


def _with(script: Script, value: Value, kinds: frozenset[str], number: float) -> dict[Leaf, float] | None:
    found = laws.evaluate(script, value, lambda leaf, symbol: number if leaf.kind in kinds else None)
    return found[0].whole if found else None


def _may_hold_a_mask(script: Script, each: Bootstrap, leaf: Leaf) -> bool:
    """Whether something that is not known takes part in what the future is multiplied with."""
    unknown = [one for one in each.evaluation.leaves if one.kind in ("other", "opaque", "drawn", "discount", "setting")]
    for one in unknown:
        for number in (0.0, 1.0):
            found = laws.evaluate(script, each.error.goal, lambda given, symbol, one=one, number=number: number if given == one else None)  # type: ignore[misc]
            if found is None or abs(found[0].whole.get(leaf, 0.0) - each.futures[leaf]) > _EPS:
                return True
    return False


def bootstrap_past_the_end(script: Script) -> Iterator[Spot]:
    for each in bootstraps(script) if not experience.knows_no_ends(script) else ():
        ended = _with(script, each.error.goal, _ENDS, 1.0)
        for leaf, slope in each.futures.items() if ended is not None else ():
            goes_on = slope > 0.3 * each.reward and ended.get(leaf, 0.0) > 0.3 * slope  # type: ignore[union-attr]
            if goes_on and not _may_hold_a_mask(script, each, leaf) and not _is_cut_in_other_rows(each.error.goal):
                for where in laws.places(script, each.error):
                    yield _spot(
                        where,
                        "what a network says of the next observation is added to the reward, and nothing takes it away where the episode ended",
                        "* (1 - terminated)",
                    )
                break


def _is_cut_in_other_rows(goal: Value) -> bool:
    """Whether some of the rows that a target is made of are written at ends, with a discount of 0: the others are not."""
    return any(
        part.op == "phi" and formulas.chosen_by_flag(part) is not None and not outputs_in(part)
        for part in formulas.parts(goal, into_networks=False)
    )


def something_after_the_end(script: Script) -> Iterator[Spot]:
    """Where the episode ended the target is the reward and a number: ones that are filled where it goes on."""
    for each in bootstraps(script):
        ended = laws.evaluate(script, each.error.goal, lambda leaf, symbol: 1.0 if leaf.kind in _ENDS else None)
        if ended is None or any(abs(ended[0].whole.get(leaf, 0.0)) > _EPS for leaf in each.futures):
            continue
        alone = {leaf for leaf, slope in ended[0].whole.items() if abs(slope) > _EPS and leaf.kind not in ("reward", *_ENDS)}
        left = ended[0].number - sum(slope for leaf, slope in ended[0].whole.items() if leaf.kind == "reward")
        if not alone and left > 0.5:
            filled = [
                part
                for part in formulas.parts(each.error.goal, into_networks=False)
                if part.op == "array" and str(part.data).startswith("ones") and part.node is not None
            ]
            for where in dict.fromkeys((*(part.node for part in filled[:1]), *laws.places(script, each.error)[:2])):
                yield _spot(
                    where, "where the episode ended, something is added to the reward that is not zero: nothing comes after an end", "zeros"
                )


def prediction_masked(script: Script) -> Iterator[Spot]:
    """q_pred[ended] = 0, where the value of what comes next is meant."""
    for error in laws.errors(script):
        for part in formulas.parts(error.answer, into_networks=False, into_arrays=False):
            for put in part.stored if part.op != "array" else ():
                masked = isinstance(put, Symbol) and put.op == "put" and len(put.args) > 1 and formulas.flag(put.args[1]) is not None
                if masked and formulas.number(put.args[0]) == 0:  # type: ignore[union-attr]
                    yield _spot(
                        put.node,
                        "the prediction is set to 0 where the episode ended, and not the value of what comes next",
                        "next_values[ended] = 0",
                    )


def fields_mixed_up(script: Script) -> Iterator[Spot]:
    """A named row whose field for the reward gets the next observation."""
    seen: set[tuple[int, int]] = set()
    for event in execution(script).events:
        row = event.value
        if event.name != "store" or not isinstance(row, Record) or not row.kind.fields:
            continue
        wrong = []
        for name in row.kind.fields:
            held = row.attributes.get(name)
            known = formulas.role(held) if held is not None else None
            meant = formulas._role_of_name(name)
            if known and meant and ("reward" in (known, meant)) and known != meant and known in ("obs", "next_obs", "reward"):
                wrong.append(name)
        sites = [node for node, _ in event.calls[-1:]] or [each for each in [row.node] if each is not None]
        for where in sites if len(wrong) > 1 else ():
            if position(where) not in seen:
                seen.add(position(where))
                yield _spot(
                    where,
                    f"the fields {' and '.join(wrong)} get each other's values: the order is not that of the row's fields",
                    "name the fields",
                )


def bootstrap_at_the_end_alone(script: Script) -> Iterator[Spot]:
    for each in bootstraps(script):
        ended = _with(script, each.error.goal, _ENDS, 1.0)
        for leaf, slope in each.futures.items() if ended is not None else ():
            if abs(slope) < _EPS and ended.get(leaf, 0.0) > 0.3 * each.reward:  # type: ignore[union-attr]
                for where in laws.places(script, each.error):
                    yield _spot(
                        where,
                        "the value of what comes next counts only where the episode ended, and nowhere else: the mask is the wrong way round",
                        "1 - terminated",
                    )
                break


def discount_above_one(script: Script) -> Iterator[Spot]:
    for each in bootstraps(script):
        leaf, slope = next(iter(each.futures.items()))
        own = laws.evaluate(script, each.error.answer)
        # A dueling network's answer is the sum of two.
        slope /= max([1.0, *(abs(one) for one in own[0].flows.values())]) if own else 2.0
        if slope > 1.001 and len(each.futures) == 1 and each.reward > 0.5 and not _may_hold_a_mask(script, each, leaf):
            for where in laws.places(script, each.error):
                yield _spot(
                    where, "what comes next counts for more than the reward itself: the values grow without end", "a discount below 1"
                )


def certainty_is_paid(script: Script) -> Iterator[Spot]:
    """A target that rises with the log-probability of the next action."""
    for each in bootstraps(script):
        for leaf, slope in each.found.whole.items():
            if leaf.kind == "log_prob" and slope > 0.01 * each.reward and max(each.futures.values()) > 0 and _is_of_next(each, leaf):
                joined = [
                    part.node
                    for part in formulas.parts(each.error.goal, into_networks=False)
                    if part.op in ("Add", "Mult")
                    and part.node is not None
                    and any(each.evaluation.leaves[leaf] is one for one in formulas.parts(part, False))
                ]
                by_line = {getattr(node, "lineno", 0): node for node in joined}
                for where in dict.fromkeys((*list(by_line.values())[-3:], *laws.places(script, each.error)[:1])):
                    yield _spot(
                        where,
                        "the log-probability is added to the value of what comes next: certainty is rewarded, and the policy stops exploring",
                        "next_q - alpha * next_log_prob",
                    )
                break


def _is_of_next(each: Bootstrap, leaf: Leaf) -> bool:
    """Whether a log-probability is that of an action in the observation that is valued."""
    valued = {asked for future in each.futures for asked in laws.asked_at(future)}
    outs = [part for part in formulas.parts(each.evaluation.leaves[leaf], into_arrays=False) if part.op == "out"]
    seen = {asked for out in outs for given in out.args[1:] for asked in each.evaluation.seen(given, leaf.time)}
    return bool(seen) and seen <= valued


# ── losses of policies that ask a critic ──


class Asking(NamedTuple):
    """A loss that moves a policy and holds what critics say."""

    event: Event
    found: Slope
    evaluation: Evaluation
    values: list[Leaf]


def asking(script: Script) -> list[Asking]:
    """Losses without a reward and without an error of a critic, whose gradient reaches a policy."""
    return script.once("asking", lambda: list(_asking(script)))


def _asking(script: Script) -> Iterator[Asking]:
    trained = {id(error.where) for error in laws.errors(script)}
    for event in laws.losses(script):
        if event.value is None or any(id(part) in trained for part in formulas.parts(event.value, False, False)):
            continue
        found = laws.evaluate(script, event.value)
        if found is None or any(leaf.kind == "reward" for leaf in found[0].whole):
            continue
        moved = any(leaf.kind in ("log_prob", "prob") for leaf in found[0].flows)
        values = [leaf for leaf, slope in found[0].whole.items() if leaf.kind == "value" and abs(slope) > _EPS and laws.asked_at(leaf)]
        if moved and values:
            yield Asking(event, found[0], found[1], values)


def value_out_of_reach(script: Script) -> Iterator[Spot]:
    """alpha * log_prob - q, where q knows nothing of the policy: no gradient comes from it."""
    for each in asking(script):
        for leaf in each.values:
            raised = laws.evaluate(script, each.event.value, lambda one, symbol, leaf=leaf: 1.4 if one == leaf else None)  # type: ignore[arg-type,misc]
            out = each.evaluation.leaves[leaf]
            idle = raised is not None and leaf not in each.found.flows and _same(each.found.flows, raised[0].flows)
            if idle and not gradient_into(out):
                for where in _loss_lines(each):
                    yield _spot(
                        where,
                        "what the critic says stands in the policy's loss, and no gradient comes from it: it is neither multiplied with a probability nor asked about an action that the policy made",
                        "(probs * (alpha * log_probs - q)).sum(-1)",
                    )
                break


def gradient_into(out: Symbol) -> bool:
    """Whether a gradient passes through what a network is asked about."""
    return any(gradient(given) for given in out.args[1:])


def _same(one: dict[Leaf, float], other: dict[Leaf, float]) -> bool:
    return one.keys() == other.keys() and all(abs(one[leaf] - other[leaf]) < _EPS for leaf in one)


def policy_lowers_its_value(script: Script) -> Iterator[Spot]:
    """probs * (alpha * log_probs + q)"""
    for each in asking(script):
        probable = any(leaf.kind == "prob" for leaf in each.found.flows)
        wrong = [leaf for leaf in each.values if each.found.whole[leaf] > _EPS and leaf not in each.found.flows]
        if probable and wrong and len(wrong) == len(each.values):
            for where in _loss_lines(each):
                yield _spot(
                    where, "the loss rises with the value of what the policy does: the policy learns to act as badly as it can", "- q"
                )


def _loss_lines(each: Asking) -> list[ast.AST]:
    """Where the loss of a policy was put together."""
    made: dict[int, ast.AST] = {}
    for part in formulas.parts(each.event.value, into_networks=False, into_arrays=False) if each.event.value is not None else ():
        if part.op in ("Sub", "Add", "Mult", "USub") and part.node is not None and len(made) < 3:
            made.setdefault(getattr(part.node, "lineno", 0), part.node)
    return list(made.values())


def temperature_turned(script: Script) -> Iterator[Spot]:
    """The slope along the temperature falls as the policy becomes more certain."""
    for event in laws.losses(script):
        found = laws.evaluate(script, event.value) if event.value is not None else None
        if found is None or event.value is None or not found[0].flows or any(leaf.kind != "weight" for leaf in found[0].flows):
            continue
        for kind, expected in (("log_prob", -1.0), ("entropy", 1.0)):
            if not any(leaf.kind == kind for leaf in found[0].whole):
                continue
            low, high = (
                laws.evaluate(script, event.value, lambda leaf, symbol, kind=kind, at=at: at if leaf.kind == kind else None)  # type: ignore[misc]
                for at in (-1.0, -0.5)
            )
            if low is None or high is None or len(found[0].flows) != 1:
                continue
            weight = next(iter(found[0].flows))
            if (high[0].flows.get(weight, 0.0) - low[0].flows.get(weight, 0.0)) * expected < -_EPS:
                lines: dict[int, ast.AST] = {}
                for part in formulas.parts(event.value, into_networks=False, into_arrays=False):
                    if part.op in ("Mult", "Sub", "Add", "USub") and part.node is not None and len(lines) < 2:
                        lines.setdefault(getattr(part.node, "lineno", 0), part.node)
                for where in lines.values():
                    yield _spot(
                        where,
                        "the temperature rises where the policy is random enough, and falls where it is not: the sign is wrong",
                        "-(log_alpha * (log_prob + target_entropy).detach()).mean()",
                    )


# ── what leans to one side ──


def leans_downwards(script: Script) -> Iterator[Spot]:
    """An expectile loss that punishes values that are too high more than those that are too low."""
    for event in laws.losses(script):
        if event.value is None or not any(
            called(part) == "where" or part.op == "Compare" for part in formulas.parts(event.value, False, False)
        ):
            continue
        found = laws.evaluate(script, event.value)
        if found is None or any(
            leaf.kind in ("other", "setting", "opaque", "reward", "log_prob", "ended", "terminated") for leaf in found[0].whole
        ):
            continue
        trained = [leaf for leaf in found[0].flows if leaf.kind == "value"]
        goals = [leaf for leaf in found[1].leaves if leaf.kind == "value" and leaf not in trained]
        if len(trained) != 1 or len(goals) != 1:
            continue

        below, above = (_number_with(script, event.value, trained[0], number) for number in (0.1, 0.7))
        if below is not None and above is not None and above > 1.1 * below > 0:
            weighed = [
                part.node
                for part in formulas.parts(event.value, False, False)
                if (called(part) == "where" or part.op == "Compare") and part.node is not None
            ]
            for where in dict.fromkeys(weighed[:2]):
                yield _spot(
                    where,
                    "values above what they are compared with weigh more than those below it: the expectile leans towards the worse actions",
                    "where(error > 0, expectile, 1 - expectile), error = q - v",
                )


def _number_with(script: Script, value: Value, own: Leaf, number: float) -> float | None:
    made = laws.evaluate(script, value, lambda leaf, symbol: number if leaf == own else None)
    return made[0].number if made else None


def better_weighs_less(script: Script) -> Iterator[Spot]:
    """exp(beta * (v - q)) as the weight of an action."""
    for event in laws.losses(script):
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            if part.op != "Mult" or not gradient(part):
                continue
            for weight in part.args:
                if gradient(weight) or not any(called(one) == "exp" for one in formulas.parts(weight, False, False)):
                    continue
                found = laws.evaluate(script, weight)
                if found is None or any(leaf.kind == "log_prob" for leaf in found[0].whole):
                    continue
                acted = [slope for leaf, slope in found[0].whole.items() if leaf.kind == "value" and _is_acted(leaf)]
                alone = [slope for leaf, slope in found[0].whole.items() if leaf.kind == "value" and not _is_acted(leaf)]
                if acted and alone and max(acted) < -_EPS and min(alone) > _EPS:
                    made = [
                        one.node
                        for one in formulas.parts(weight, False, False)
                        if (one.op == "Sub" or called(one) == "exp") and one.node is not None
                    ]
                    for where in dict.fromkeys((*made, part.node)):
                        yield _spot(
                            where,
                            "actions that are worth more than their state's average weigh less in the policy's loss: the advantage is the wrong way round",
                            "exp(beta * (q - v))",
                        )


# ── rollouts ──


class Weighed(NamedTuple):
    """What a policy gradient weighs actions with: the slopes of the weight, in units of the first reward's."""

    policy: laws.Policy
    second: float | None
    """Along the next step's reward."""
    own: float | None
    """Along the value of the state itself."""
    later: dict[Leaf, float]
    """Along the value of the state that the action led to."""


def weighed(script: Script) -> list[Weighed]:
    """The weights of a script's policy gradients."""
    return script.once("weighed", lambda: list(_weighed(script)))


def _weighed(script: Script) -> Iterator[Weighed]:
    for policy in laws.policies(script):
        value = policy.event.value
        base = laws.evaluate(script, value) if value is not None else None
        if base is None or value is None:
            continue
        rewards = sorted((leaf for leaf in base[0].whole if leaf.kind == "reward"), key=lambda leaf: leaf.time)
        first = _move(script, value, base[0], rewards[0])
        if not first or len({leaf.place for leaf in rewards}) > 1:
            continue
        next_one = [leaf for leaf in rewards if leaf.time == rewards[0].time + 1]
        values = [leaf for leaf in base[0].whole if leaf.kind == "value"]
        own = [leaf for leaf in values if laws.asked_at(leaf) == {(rewards[0].place, rewards[0].time - 1)}]
        later = [leaf for leaf in values if laws.asked_at(leaf) == {(rewards[0].place, rewards[0].time)}]
        moves = {leaf: _move(script, value, base[0], leaf) / first for leaf in (*next_one, *own, *later)}
        yield Weighed(
            policy,
            moves[next_one[0]] if next_one else None,
            sum(moves[leaf] for leaf in own) if own else None,
            {leaf: moves[leaf] for leaf in later},
        )


def _move(script: Script, value: Value, base: Slope, leaf: Leaf) -> float:
    """How the gradient along log-probabilities changes where a leaf is greater by 1."""
    usual = 1.0 if leaf.kind == "reward" else 0.4
    raised = laws.evaluate(script, value, lambda each, symbol: usual + 1.0 if each == leaf else None)
    if raised is None:
        return 0.0
    return sum(raised[0].flows.get(one, 0.0) - slope for one, slope in base.flows.items() if one.kind == "log_prob")


def error_not_discounted(script: Script) -> Iterator[Spot]:
    """reward + next_value - value, in a trace that is discounted; or reward + gamma * lambda * next_value - value."""
    for each in weighed(script):
        if (
            each.second is None
            or each.own is None
            or len(each.later) != 1
            or abs(each.own + 1.0) > _NEAR
            or not 0.0 < each.second < 1 - _NEAR
        ):
            continue
        leaf, later = next(iter(each.later.items()))
        discount = later + each.second
        goals = [slopes for slopes in _reward_slopes(script) if len(slopes) > 1]
        returned = max((slopes[1] / slopes[0] for slopes in goals if slopes[0] > _EPS), default=0.0)
        text = ""
        if discount > 1 - _NEAR * 1e-2:
            text = "the value of what comes next enters the error without the discount, which the sum of the errors has"
        elif abs(later) < _EPS and each.second < returned - 2e-3:
            text = (
                "the value of what comes next is multiplied with lambda in the error itself: lambda belongs to the sum of the errors alone"
            )
        for where in laws.sums_of(script, each.policy, leaf) if text else ():
            yield _spot(where, text, "reward + gamma * next_value - value")


def _reward_slopes(script: Script) -> list[list[float]]:
    """For each goal of a critic, its slopes along the rewards, the first one first."""
    made = []
    for error in laws.errors(script):
        found = laws.evaluate(script, error.goal)
        rewards = sorted((leaf for leaf in found[0].whole if leaf.kind == "reward"), key=lambda leaf: leaf.time) if found else []
        if found is not None and rewards and len({leaf.place for leaf in rewards}) == 1:
            made.append([found[0].whole[leaf] for leaf in rewards])
    return made


def returns_not_discounted(script: Script) -> Iterator[Spot]:
    """A critic that learns plain sums of rewards, where the policy's advantages are discounted; or sums in which the first reward is."""
    traces = [each.second for each in weighed(script) if each.second is not None]
    for error in laws.errors(script):
        found = laws.evaluate(script, error.goal)
        rewards = sorted((leaf for leaf in found[0].whole if leaf.kind == "reward"), key=lambda leaf: leaf.time) if found else []
        if found is None or len(rewards) < 2 or rewards[1].time != rewards[0].time + 1 or rewards[0].place != rewards[1].place:
            continue
        one, two = (found[0].whole[leaf] for leaf in rewards[:2])
        plain = abs(one - 1.0) < _EPS and abs(two - 1.0) < _EPS and any(0.0 < trace < 1 - _NEAR for trace in traces)
        shifted = 0.8 < one < 1 - _NEAR and two > one - _EPS and not found[1].is_windowed
        if plain or shifted:
            filters = [part.node for part in formulas.parts(error.goal, into_networks=False) if part.op == "put" and part.node is not None]
            adds = [
                part.node
                for part in formulas.parts(error.goal, into_networks=False)
                if part.op == "Add" and part.node is not None and part.loops and formulas.is_reward(part)
            ]
            for where in dict.fromkeys((*filters[:1], *adds[:1], *laws.places(script, error)[:2])):
                yield _spot(
                    where,
                    "the critic learns sums of rewards that are not discounted, and the policy's advantages are"
                    if plain
                    else "the reward of the step itself is discounted, and what follows it no further: each return is too small by one step",
                    "reward + gamma * what follows",
                )


_NEAR: Final = 1e-3


def tails(script: Script) -> Iterator[tuple[Symbol, Value]]:
    """What is put behind the rewards or values of a path before they are summed: np.append(rewards, last)."""
    seen: set[tuple[int, int]] = set()
    for call in reversed(execution(script).calls):
        if called(call) == "append" and len(call.args) == 2 and call.op == "call" and position(call.node) not in seen:
            seen.add(position(call.node))
            yield call, call.args[1]


def tail_of_the_state_before(script: Script) -> Iterator[Spot]:
    """A path that was cut goes on with the value of its last observation but one."""
    run = execution(script)
    for call, last in tails(script):
        evaluation = Evaluation(run, lambda leaf, symbol: None)
        rewards = [part for part in formulas.parts(call.args[0], into_networks=False) if part.op == "stepped" and part.data[0] == 1]
        outs = outputs_in(last, stored=False)
        steps = {part.args[0] for part in rewards}
        if not rewards or not outs or len({position(step.node) for step in steps if isinstance(step, Symbol)}) != 1:
            continue
        place, age = evaluation.step_of(rewards[-1])
        seen = {asked for out in outs for given in out.args[1:] for asked in evaluation.seen(given, 0)}
        if seen == {(place, age - 1)}:
            handed = [node for event in run.events for node, given in event.calls if any(each is last for each in given)]
            for where in dict.fromkeys((call.node, *_handing(script, call)[:2], *handed[:1])):
                yield _spot(
                    where,
                    "a path that was cut goes on with the value of the observation before its last step, where that of the one after it is meant",
                    "the value of the observation that the last step returned",
                )


def tail_left_out(script: Script) -> Iterator[Spot]:
    """Paths that a time limit or the end of a rollout cuts are taken for finished."""
    known = list(tails(script))
    if not known or any(formulas.number(last) != 0 for _, last in known):
        return
    for call, _ in known:
        rewarded = any(part.op == "stepped" and part.data[0] == 1 for part in formulas.parts(call.args[0], into_networks=False))
        ends = {end for guard in call.guards for end in experience.ends_in(guard)}
        if rewarded and "truncated" in ends:
            for where in dict.fromkeys((call.node, *_handing(script, call))):
                yield _spot(
                    where,
                    "a path that a time limit or the end of the rollout cuts is summed up as if nothing followed: the value of its last observation is left out",
                    "finish_path(value of the last observation)",
                )


def _handing(script: Script, call: Symbol) -> list[ast.AST]:
    """Calls of the function that a place is in."""
    holder = [each for each in script.functions if each.lineno < getattr(call.node, "lineno", 0) <= (each.end_lineno or 0)]
    return list(script.calls(holder[-1].name)) if holder else []


def episode_goes_on(script: Script) -> Iterator[Spot]:
    """A loop steps an environment past the end of its episode: nothing in the loop resets it, and the loop is not left."""
    run = execution(script)
    if script.words & {"Autoreset", "AutoResetWrapper", "AutoReset", "autoreset", "auto_reset"}:
        return
    last = {event.node: event for event in run.events if event.name == "env step"}
    for event in last.values():
        made = event.subject
        if not event.loops or not isinstance(made, Symbol) or made.op != "env" or made.data != "make" or not run.complete:
            continue
        loop = event.loops[-1]
        test = run.tests.get(loop) if isinstance(loop, ast.While) else None
        if test is not None and (experience.ends_in(test) or not isinstance(getattr(loop, "test", None), ast.Constant)):
            continue
        inside = [each for each in run.events if loop in each.loops]
        asked = any(
            experience.ends_in(guard) & {"terminated", "truncated", "ended"}
            for each in inside
            for guard in each.guards[len(event.guards) :]
        )
        resets = [each for each in inside if each.name == "env reset"]
        leaves = [each for each in inside if each.name == "leave" and each.loops[: len(event.loops)] == event.loops]
        left = any(
            all(experience.ends_in(guard) for guard in each.guards[len(event.guards) :]) and len(each.guards) > len(event.guards)
            for each in leaves
        )
        broken = any(not any(experience.ends_in(guard) for guard in each.guards[len(event.guards) :]) for each in leaves)
        shown = {"terminated", "truncated", "ended"} & {
            end for each in inside if each.value is not None for part in [each.value] if (mark := formulas.flag(part)) for end in mark.ends
        }
        elsewhere = any(each.name == "env reset" and each.subject is made and each.loops == event.loops[:-1] for each in run.events)
        if resets or left or broken or not (asked or shown) or not elsewhere:
            continue
        branches = [
            branch.test
            for branch in script.all(ast.If)
            if getattr(loop, "lineno", 0) <= branch.lineno <= (getattr(loop, "end_lineno", 0) or 0)
            and any(words.END(name) or words.TRUNCATED(name) for each in ast.walk(branch.test) if (name := getattr(each, "id", "")))
        ]
        begun = [each.node for each in run.events if each.name == "env reset" and each.loops == event.loops[:-1]]
        for where in dict.fromkeys((event.node, *branches[:1], *begun[-1:])):
            yield _spot(
                where,
                "the loop goes on where an episode ended, and nothing in it resets the environment: what it returns from then on means nothing",
                "obs, _ = env.reset()",
            )


def correction_the_wrong_way(script: Script) -> Iterator[Spot]:
    """log_prob + log(1 - tanh(u) ** 2): where the action is squeezed most, its density is the greatest."""
    seen: set[tuple[int, int]] = set()
    for each in execution(script).sums:
        if (
            each.op not in ("Add", "Sub")
            or position(each.node) in seen
            or not any(called(part) == "log_prob" for part in formulas.parts(each, False, False))
        ):
            continue
        found = laws.evaluate(script, each, _at(0.1))
        far = laws.evaluate(script, each, _at(2.0))
        if found is None or far is None:
            continue
        kinds = {leaf.kind for leaf in found[0].whole}
        scores = [slope for leaf, slope in found[0].whole.items() if leaf.kind == "log_prob"]
        if len(scores) != 1 or "drawn" not in kinds or kinds & {"reward", "value"}:
            continue
        squeezed = any(called(part) in ("tanh", "softplus") for part in formulas.parts(each, False, False))
        if squeezed and scores[0] * (far[0].number - found[0].number) < -0.1:
            seen.add(position(each.node))
            yield _spot(
                each.node,
                "the correction for tanh has the wrong sign: the density must grow where the action is squeezed, and falls",
                "log_prob - log(1 - tanh(u) ** 2)",
            )


def _at(number: float) -> Callable[[Leaf, Symbol], float | None]:
    """Numbers with which corrections are compared: what was drawn, bounds of -1 and 1, and nothing else that moves."""

    def given(leaf: Leaf, symbol: Symbol) -> float | None:
        if leaf.kind == "drawn":
            return number
        if leaf.kind in ("other", "opaque", "setting"):
            return 1.0
        return 0.0 if leaf.kind == "log_prob" else None

    return given


def averaged_log_prob(script: Script) -> Iterator[Spot]:
    """The log-probability of an action of several dimensions, averaged over all of them and over the batch."""
    goals = [error.goal for error in laws.errors(script)] + [
        part.args[0]
        for event in laws.losses(script)
        if event.value is not None
        for part in formulas.parts(event.value, False, False)
        if called(part) == "exp" and part.args
    ]
    seen: set[tuple[int, int]] = set()
    for goal in goals:
        for part in formulas.parts(goal, into_networks=False, into_arrays=False):
            whole = called(part) == "mean" and len(part.args) == 1 and not part.keys
            if (
                whole
                and position(part.node) not in seen
                and any(called(one) == "log_prob" for one in formulas.parts(part.args[0], False, False))
            ):
                seen.add(position(part.node))
                yield _spot(
                    part.node,
                    "the log-probability is averaged over dimensions and batch: every transition gets the same number, and none its own",
                    ".sum(-1)",
                )


def first_number_for_good(script: Script) -> Iterator[Spot]:
    """alpha = log_alpha.exp().item() before the loop, and log_alpha trained in it."""
    run = execution(script)
    trained = {
        id(part)
        for event in run.events
        if event.name == "optimizer step" and isinstance(event.subject, Symbol)
        for part in formulas.parameters(event.subject)
    }
    seen: set[int] = set()
    for event in laws.losses(script) if run.complete else ():
        for part in formulas.parts(event.value, into_networks=False, into_arrays=False) if event.value is not None else ():
            taken = called(part) in ("item", "detach", "float") and part.args and not part.loops and event.loops and id(part) not in seen
            if not taken:
                continue
            weights = [one for one in formulas.parts(part.args[0], False, False) if one.op == "weights" and id(one) in trained]
            renewed = any(
                called(call) == called(part) and call.loops and any(one in weights for one in formulas.parts(call, False, False))
                for call in run.calls
            )
            if weights and not renewed:
                seen.add(id(part))
                uses = [
                    one.node
                    for each in laws.losses(script)
                    if each.value is not None
                    for one in formulas.parts(each.value, False, False)
                    if one.op == "Mult" and any(arg is part for arg in one.args) and one.node is not None
                ]
                steps = [
                    each.node
                    for each in run.events
                    if each.name == "optimizer step"
                    and isinstance(each.subject, Symbol)
                    and any(one in formulas.parameters(each.subject) for one in weights)
                ]
                for where in dict.fromkeys((part.node, *uses[:2], *steps[-1:])):
                    yield _spot(
                        where,
                        "this number was taken of a weight before the loop, and the weight is trained in it: what is used stays what it was at the start",
                        "take it anew after each step of its optimizer",
                    )


def noise_without_a_bound(script: Script) -> Iterator[Spot]:
    """The noise on the slow actor's action, which smooths a target, may be as large as it likes."""
    seen: set[tuple[int, int]] = set()
    for each in bootstraps(script):
        asked = [given for leaf in each.futures for given in each.evaluation.leaves[leaf].args[1:]]
        for part in [part for given in asked for part in formulas.parts(given, into_arrays=False)]:
            if part.op != "Add" or part.node is None or position(part.node) in seen:
                continue
            for one, other in (part.args, part.args[::-1]):
                held = list(formulas.parts(other, False, False))
                noisy = any(called(inner) == "randn_like" or str(inner.data) in ("torch.randn", "torch.normal") for inner in held)
                bounded = any(called(inner) in ("clamp", "clip", "tanh", "minimum", "clamp_") for inner in held)
                if noisy and not bounded and outputs_in(one, stored=False) and not outputs_in(other, stored=False):
                    seen.add(position(part.node))
                    drawn = [inner.node for inner in held if called(inner) in ("randn", "randn_like", "normal", "standard_normal")]
                    for where in dict.fromkeys((part.node, *drawn[:1])):
                        yield _spot(
                            where,
                            "the noise that smooths the target is not bounded: now and then the target is that of an action far away",
                            "noise.clamp(-noise_clip, noise_clip)",
                        )


def actions_of_another_scale(script: Script) -> Iterator[Spot]:
    """The target's action is multiplied with the bound of the actions, and the one in the actor's loss is not."""
    future = [out for each in differences.differences(script) for out in each.futures]
    scaled = [
        out for out in future for leaf in differences.leaves(out) if differences.holds_answer(leaf) and differences.scaled_anywhere(leaf)
    ]
    answers = {id(formulas.root(out.args[0])) for each in differences.differences(script) for out in each.answers}
    if not scaled:
        return
    for event in laws.losses(script):
        if event.value is None or any(called(part) in sizes.SQUARES for part in formulas.parts(event.value, False, False)):
            continue
        for out in [
            part
            for part in formulas.parts(event.value, into_arrays=False)
            if part.op == "out" and id(formulas.root(part.args[0])) in answers
        ]:
            fresh = [leaf for leaf in differences.leaves(out) if differences.holds_answer(leaf) and gradient(leaf)]
            if fresh and not any(differences.scaled_anywhere(leaf) for leaf in fresh):
                yield _spot(
                    formulas.written(out),
                    "the critic is asked about the actor's answer as it is, and in the target about one that is scaled to the bounds of the actions",
                    "the same scale in both",
                )


_HIGHEST, _LOWEST = 3.0, -1.0
_BOUNDS: Final = {"high": _HIGHEST, "maximum": _HIGHEST, "low": _LOWEST, "minimum": _LOWEST}


def actions_miss_their_bounds(script: Script) -> Iterator[Spot]:
    """tanh(x) * (high - low) + low: where tanh is 1, the action must be the highest one, and where it is -1, the lowest."""
    if not script.words & _BOUNDS.keys() or not script.words & {"tanh", "Tanh"}:
        return
    run = execution(script)
    ranges = {id(each): each for each in run.sums if each.node is not None and _is_squashed(each) and _reached(each, 1.0) is not None}
    inner = {id(part) for each in ranges.values() for arg in each.args for part in formulas.parts(arg, False, False)}
    for each in [each for key, each in ranges.items() if key not in inner]:
        top, bottom = _reached(each, 1.0), _reached(each, -1.0)
        if top != _HIGHEST or bottom not in (_LOWEST, -_HIGHEST):
            for where in dict.fromkeys((formulas.written(each), each.node, *formulas.bound_at(run, each)[:1])):
                yield _spot(
                    where,
                    "where tanh is 1 or -1, the action is not at its bounds: some of the actions are never taken, or more than the bounds are asked for",
                    "low + (tanh(x) + 1) / 2 * (high - low)",
                )


def _is_squashed(value: Symbol) -> bool:
    """Whether both a tanh and a bound of the actions take part."""
    held = list(formulas.parts(value, into_networks=False, into_arrays=False))
    return any(map(_is_tanh, held)) and any(part.op == "attribute" and part.data in _BOUNDS for part in held)


def _is_tanh(part: Symbol) -> bool:
    network = part.args[0] if part.op == "out" and part.args else None
    ends = isinstance(network, Symbol) and network.data == "Sequential" and network.args and getattr(network.args[-1], "data", "") == "Tanh"
    return called(part) == "tanh" or bool(ends)


def _reached(value: Value, unit: float, depth: int = 12) -> float | None:
    """What a formula of a squashed answer and the bounds of the actions is; None for one of anything else."""
    if not isinstance(value, Symbol) or depth == 0:
        return None
    known = formulas.number(value)
    if known is not None or _is_tanh(value):
        return known if known is not None else unit
    if value.op == "attribute" and value.data in _BOUNDS:
        return _BOUNDS[str(value.data)]
    if value.op in formulas.OPERATORS and len(value.args) == 2:
        one, other = (_reached(each, unit, depth - 1) for each in value.args)
        twice = value.op == "Mult" and all(isinstance(each, Symbol) and _is_squashed_at_all(each) for each in value.args)
        if one is None or other is None or twice or (value.op == "Div" and other == 0):
            return None
        return float(formulas.OPERATORS[value.op](one, other))
    same = value.op in ("item", "element", "read") or called(value) in formulas.PASSING - {"clip", "clamp"}
    return _reached(value.args[0], unit, depth - 1) if same and value.args else None


def _is_squashed_at_all(value: Symbol) -> bool:
    return any(map(_is_tanh, formulas.parts(value, into_networks=False, into_arrays=False)))


def setting_out_of_place(script: Script) -> Iterator[Spot]:
    """A setting that nothing reads, and the formula in which it would stand."""
    for role, declared in idle.unread_settings(script):
        places = [node for node in _PLACES[role](script) if node is not None and hasattr(node, "lineno")]
        for where in dict.fromkeys((*places[:4], declared)) if places else ():
            yield _spot(where, idle.SETTINGS[role], "put it where it belongs, or delete it")


def _traces(script: Script) -> Sequence[ast.AST | None]:
    carried = [
        each.node
        for each in execution(script).sums
        if each.op == "Add" and any(formulas.carried(factor) is not None for term in formulas.terms(each) for factor in term.factors)
    ]
    filtered = [call.node for call in execution(script).calls if called(call) == "lfilter"]
    return list(dict.fromkeys([*(each.sum.node for each in laws.recursions(script) if each.is_trace), *carried[-1:], *filtered]))


def _discounted(script: Script) -> Sequence[ast.AST | None]:
    goals = [where for each in bootstraps(script) for where in laws.places(script, each.error)]
    return list(dict.fromkeys([*goals, *(target.sum.node for target in formulas.targets(script)), *_traces(script)]))


def _policy_losses(script: Script) -> Sequence[ast.AST | None]:
    """Where the parts of a policy's loss are added up."""
    made: list[ast.AST | None] = []
    for event in laws.losses(script):
        held = list(formulas.parts(event.value, False, False)) if event.value is not None else []
        if any(called(part) == "log_prob" for part in held):
            made += [part.node for part in held if part.op in ("Add", "Sub") and gradient(part)][:1]
            made += [*formulas.bound_at(execution(script), event.value), event.node] if event.value is not None else []
    return list(dict.fromkeys(made))


def _ratios(script: Script) -> Sequence[ast.AST | None]:
    return [
        part.node
        for event in laws.losses(script)
        for part in (formulas.parts(event.value, False, False) if event.value is not None else ())
        if called(part) in ("clamp", "clip", "min", "minimum") or (called(part) == "exp" and gradient(part))
    ][:4]


def _copied(script: Script) -> Sequence[ast.AST | None]:
    return [
        event.node
        for event in execution(script).events
        if event.name in ("load", "in place copy_", "in place lerp_", "in place mul_", "in place add_") and event.loops
    ][-3:]


def _stepped(script: Script) -> Sequence[ast.AST | None]:
    return [event.node for event in execution(script).events if event.name in ("backward", "optimizer step")][-4:]


_PLACES: Final[dict[str, Callable[[Script], Sequence[ast.AST | None]]]] = {
    "lambda": _traces, "gamma": _discounted, "entropy": _policy_losses, "value": _policy_losses, "clip": _ratios, "share": _copied, "norm": _stepped,
}  # fmt: skip


def _is_acted(leaf: Leaf) -> bool:
    return isinstance(leaf.place, tuple) and leaf.place[0] == "acted"


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD303": (better_weighs_less,),
    "COD305": (leans_downwards,),
    "COD105": (episode_goes_on,),
    "COD202": (correction_the_wrong_way,),
    "COD211": (averaged_log_prob,),
    "COD454": (setting_out_of_place, first_number_for_good),
    "COD132": (fields_mixed_up,),
    "COD501": (bootstrap_past_the_end, tail_left_out, something_after_the_end, prediction_masked),
    "COD502": (bootstrap_at_the_end_alone,),
    "COD512": (discount_above_one, error_not_discounted, returns_not_discounted),
    "COD523": (certainty_is_paid,),
    "COD524": (policy_lowers_its_value,),
    "COD525": (temperature_turned,),
    "COD517": (tail_of_the_state_before,),
    "COD528": (value_out_of_reach,),
    "COD529": (noise_without_a_bound,),
    "COD552": (actions_of_another_scale, actions_miss_their_bounds),
}
"""What is added to which check."""
