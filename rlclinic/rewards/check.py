"""What a reward pays for, read off recorded steps: potentials, loops, idling, dying, scale, density, and what terms are worth."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np

from rlclinic import stats
from rlclinic.rewards import finite
from rlclinic.rewards.finite import Process
from rlclinic.rewards.potentials import PotentialFit, Shaped, check_known, fit_potential, fit_table

Level = Literal["error", "warning", "note"]
LOOP_REPEATS: Final = 3
"""How often a loop has to pay before it is spoken of."""
LOSS: Final = 0.01
"""The share of the task's best return from which on a loss is spoken of."""
SAVED: Final = 0.5
"""The share of what the steps ahead cost that an end may cost and still be cheap."""
FEWEST_REPEATS: Final = 5
"""Repetitions of a step from which on it is told whether it pays less each time."""
REPEATED: Final = 0.3
"""The share of steps that must be such repetitions."""
FADES: Final = -0.8
"""Rank correlation of what the same step pays with how late it comes, from which on it fades."""
USUAL_SCALE: Final = (1e-2, 1e2)
FEW_VALUES: Final = 3
"""Different sizes of pay up to which a reward may well be one thing, and its terms need no names."""
HARM: Final = ("safe", "crash", "collision", "collide", "violat", "constraint", "damage", "danger", "hazard", "hurt", "injur")
"""What terms are called that pay for what must not happen."""


@dataclass(frozen=True)
class Recorded:
    """Steps [B] of whole episodes, and what constant actions earn."""

    obs: np.ndarray
    """[B, D], or states [B] where observations are whole numbers."""
    next_obs: np.ndarray
    reward: np.ndarray
    terms: Mapping[str, np.ndarray]
    terminated: np.ndarray
    truncated: np.ndarray
    episode: np.ndarray
    success: np.ndarray
    """By episode: 1, 0, or nan where nobody says."""
    idle: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """By constant action: mean return and mean length."""
    idle_terms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By constant action: the mean return of each term."""
    process: Process | None = None
    """The whole process, where the environment has a table of it."""
    potentials: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    """Of terms whose Phi itself is known (`Rewards` has it): Phi before and after each step."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """What 1 of each term is worth, where that is known (`Rewards` has it)."""
    wrappers: Sequence["Layer"] = ()
    """What wrappers around the one that reports the terms did to the reward, the innermost first."""


@dataclass(frozen=True)
class Layer:
    """One wrapper, and the reward that it was given and passed on, by outer step [B]."""

    name: str
    given: np.ndarray
    passed_on: np.ndarray
    repeats: int
    """The most steps that it took in one."""
    running: bool
    """It rescales by what it has seen so far."""


@dataclass(frozen=True)
class Remark:
    """One thing that was seen."""

    level: Level
    name: str
    what: str
    do: str


@dataclass(frozen=True)
class Checked:
    """What a reward pays for."""

    potentials: Mapping[str, PotentialFit]
    losses: Mapping[str, tuple[float, float]]
    """By term: the task's best return, and what the policy that is best with the term gets of it; exact, for finite environments."""
    remarks: tuple[Remark, ...]
    density: float
    """The share of steps that pay anything."""
    scale: tuple[float, float]
    """Median and largest size of what is paid, over steps that pay."""


def check(seen: Recorded, gamma: float, task: str | None = None) -> Checked:
    """Judge a reward. `task`: the term that is the task itself, if not the first one; the others are asked whether they are potentials.

    One term alone is the task if it is all that is paid, else what was added to it.
    """
    names = list(seen.terms)
    task = task or (names[0] if len(names) > 1 or (names and _adds_up(seen, seen.reward)) else None)
    shaping = [name for name in names if name != task]
    states = seen.obs.ndim == 1
    potentials, losses = {}, {}
    for name in shaping:
        steps = Shaped(seen.obs, seen.next_obs, seen.terms[name], seen.terminated, seen.episode)
        known = check_known(steps, *seen.potentials[name], gamma) if name in seen.potentials else None
        potentials[name] = known or (fit_table(steps, gamma) if states else fit_potential(steps, gamma))
        if seen.process is not None and states and task is not None:
            both = [_average(seen.process, seen, seen.terms[each]) for each in (task, name)]
            if both[0] is not None and both[1] is not None:
                losses[name] = finite.shaping_loss(seen.process, both[0], both[1], gamma)
    plain = _leave_out(seen, [name for name, fit in potentials.items() if fit.answer == "yes"])
    paying = np.abs(seen.reward[seen.reward != 0])
    scale = (float(np.median(paying)), float(paying.max())) if len(paying) else (0.0, 0.0)
    remarks = (
        *_judge_names(seen),
        *_judge_sums(seen),
        *_judge_potentials(potentials, losses),
        *_judge_loops(plain),
        *_judge_ends(plain, gamma),
        *_judge_fading(seen),
        *_judge_scale(seen, gamma, scale),
        *_compare_terms(seen),
    )
    return Checked(potentials, losses, remarks, float(np.mean(seen.reward != 0)), scale)


def _leave_out(seen: Recorded, names: Sequence[str]) -> Recorded:
    """Without terms that are potentials: one that is negative pays for staying and for ending, in sums that are not discounted alone."""
    if not names or not _adds_up(seen, seen.reward):
        return seen
    idle = {
        action: (mean - sum(seen.idle_terms.get(action, {}).get(name, 0.0) for name in names), length)
        for action, (mean, length) in seen.idle.items()
    }
    return replace(seen, reward=seen.reward - sum(seen.terms[name] for name in names), idle=idle)


def _average(process: Process, seen: Recorded, paid: np.ndarray) -> np.ndarray | None:
    """What a term pays in each transition of the process; None if one that can happen was never seen."""
    known: dict[tuple[int, int, bool], float] = {}
    for now, then, ended, value in zip(seen.obs.tolist(), seen.next_obs.tolist(), seen.terminated.tolist(), paid.tolist(), strict=True):
        known[now, then, ended] = value
    keys = list(zip(process.state.tolist(), process.next_state.tolist(), process.terminated.tolist(), strict=True))
    ends = {now for now, then, ended in keys if ended and now == then}  # terminal states that lead to themselves are never left
    return None if any(key not in known and key[0] not in ends for key in keys) else np.array([known.get(key, 0.0) for key in keys])


def _judge_names(seen: Recorded) -> Iterator[Remark]:
    """A reward of several terms that is told as one number, and harm that is a matter of a weight."""
    sizes = len(np.unique(np.round(seen.reward[seen.reward != 0], 9)))
    if not seen.terms and sizes > FEW_VALUES:
        what = f"steps pay {sizes:,} different amounts, and no term is told: which of it is the task, and which shaping, cannot be judged"
        yield Remark("note", "no-terms", what, 'report info["reward_terms"], the task first (rlclinic.rewards.Rewards does)')
    for name, paid in seen.terms.items():
        if any(word in name.lower() for word in HARM) and np.any(paid < 0) and not np.any(paid > 0):
            what = f"{name} is taken away in {np.mean(paid < 0):.1%} of steps: how often it still happens is left to its weight"
            yield Remark(
                "note", "penalty-without-limit", what, "report it as a cost (Rewards(costs=...)) and say how much is allowed: cost_limit"
            )


def _judge_sums(seen: Recorded) -> Iterator[Remark]:
    """Terms that are not the whole reward, because of wrappers around them or because they are not all."""
    if not seen.terms or _adds_up(seen, seen.reward):
        return
    changing = [layer for layer in seen.wrappers if layer.repeats > 1 or not _is_same(layer.given, layer.passed_on)]
    yield from map(_judge_wrapper, changing)
    repeated = any(layer.repeats > 1 for layer in changing)  # then info holds a part of what was paid, whatever the terms are
    if not (changing and (repeated or _adds_up(seen, changing[0].given))):
        off = float(np.abs(sum(seen.terms.values()) - seen.reward).max())
        yield Remark(
            "error", "terms-do-not-add-up", f"the terms differ from the reward by up to {off:.3g}", "report every term, as it is added"
        )


def _adds_up(seen: Recorded, reward: np.ndarray) -> bool:
    return float(np.abs(sum(seen.terms.values()) - reward).max()) <= 1e-6 * max(1.0, float(np.abs(reward).max()))


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.allclose(one, other, rtol=1e-6, atol=1e-9))


def _judge_wrapper(layer: Layer) -> Remark:
    """What a wrapper does to a reward that is made of terms: what comes after shaping may undo what made it harmless."""
    given, passed_on, name = layer.given, layer.passed_on, f"{layer.name}, around what pays the terms,"
    if layer.repeats > 1:
        what = (
            f"{name} takes up to {layer.repeats} steps in one: info holds the terms of the last alone, and a potential loses gamma in each"
        )
        return Remark("warning", "wrapper-order", what, "pay the terms outside of it, once for each step that the learner sees")
    if layer.running:
        what = f"{name} divides by what it has seen so far: what a potential pays out and takes back are no longer the same"
        return Remark(
            "warning", "wrapper-order", what, "normalize in the learner (env.normalize_reward), and log the terms as they are paid"
        )
    pays = given != 0
    ratio = passed_on[pays] / given[pays]
    if len(ratio) and _is_same(passed_on, given * np.median(ratio)):
        factor = float(np.median(ratio))
        level: Level = "note" if factor > 0 else "error"
        what = f"{name} pays {factor:.4g} times the reward: terms are logged in other units"
        return Remark(
            level, "wrapper-order", what, "weigh the terms themselves" if factor > 0 else "it turns the reward around: take it out"
        )
    shift = passed_on - given
    if _is_same(shift, np.full_like(shift, shift[0])):
        side = "whoever never ends earns more" if shift[0] > 0 else "whoever ends early, by failing too, loses less"
        return Remark("warning", "wrapper-order", f"{name} adds {shift[0]:.4g} to every step: {side}", "make it a term, and mean it")
    cut = ~np.isclose(passed_on, given, rtol=1e-6, atol=1e-9)
    if len(np.unique(np.round(passed_on[cut], 9))) <= 2 and np.all(np.abs(passed_on[cut]) <= np.abs(given[cut]) + 1e-9):
        what = f"{name} cuts the reward in {cut.mean():.0%} of steps: what a potential takes back is no longer all that it paid"
        return Remark("warning", "wrapper-order", what, "clip the task's own term before it is shaped, or not at all")
    what = f"{name} makes another reward of it in {cut.mean():.0%} of steps: a potential inside is none outside"
    return Remark("warning", "wrapper-order", what, "change the task's own term before it is shaped")


def _judge_potentials(potentials: Mapping[str, PotentialFit], losses: Mapping[str, tuple[float, float]]) -> Iterator[Remark]:
    for name, fit in potentials.items():
        best, kept = losses.get(name, (0.0, 0.0))
        lost = best - kept > LOSS * abs(best) and name in losses
        if fit.answer == "no":
            price = f"; the policy that is best with it gets {kept:.3g} of the task's {best:.3g}" if name in losses else ""
            level: Level = "error" if lost else "note" if name in losses else "warning"
            yield Remark(
                level,
                "changes-the-objective",
                f"{name} is not potential-based: {fit.why}{price}",
                "pay it as a potential (Rewards), or mean it",
            )
        elif fit.answer == "undecided":
            yield Remark("note", "undecided", f"{name}: {fit.why}", "record more episodes, or give the potential itself")


def _judge_loops(seen: Recorded) -> Iterator[Remark]:
    """Ways from a state back to itself that pay: walked again and again, they pay for ever."""
    keys = seen.obs if seen.obs.ndim == 1 else np.round(seen.obs, 3)
    then = seen.next_obs if seen.obs.ndim == 1 else np.round(seen.next_obs, 3)
    total = np.concatenate([[0.0], np.cumsum(seen.reward)])
    last: dict[tuple[int, bytes], int] = {}
    best, count = (0.0, 0), 0
    for place in range(len(keys)):
        here = (int(seen.episode[place]), np.asarray(keys[place]).tobytes())
        last[here] = place
        back = (int(seen.episode[place]), np.asarray(then[place]).tobytes())
        if back in last and not seen.terminated[place]:
            paid, length = float(total[place + 1] - total[last[back]]), place + 1 - last[back]
            if paid > 1e-9:
                count += 1
                best = max(best, (paid / length, length))
    if count >= LOOP_REPEATS:
        what = f"{count} ways back to where they began paid something, the best {best[0]:.3g} a step over {best[1]} steps"
        yield Remark("warning", "loop-pays", what, "pay once for what is to be done once, or take back what is undone (a potential does)")


def _costs_most(seen: Recorded) -> bool:
    """Whether every end costs more than a usual step."""
    ends, way = seen.reward[seen.terminated], seen.reward[~seen.terminated & ~seen.truncated]
    return bool(len(way) and len(ends) and ends.max() < way.mean() - 0.1 * abs(way.mean()))


def _judge_costly_ends(seen: Recorded, lengths: np.ndarray, gamma: float) -> Remark | None:
    """Where every step costs, an end that costs a little more than a step saves all the others. A goal is where a step costs least."""
    ends, way = seen.reward[seen.terminated], seen.reward[~seen.terminated & ~seen.truncated]
    if seen.reward.max() > 0 or not _costs_most(seen) or np.any(seen.success == 1):
        return None
    known = [*map(float, lengths), *(length for _, length in seen.idle.values())]
    short, longest = min(known), max(known)
    saved = min(longest - short, 1 / (1 - gamma) if gamma < 1 else longest)
    if longest < 2 * short or way.mean() - ends.mean() >= SAVED * saved * -way.mean():
        return None
    what = f"every step costs {-way.mean():.3g}, a failed end {-ends.mean():.3g} once: whoever ends after {short:.0f} steps instead of "
    what += f"{longest:.0f} saves about {-way.mean() * (longest - short):.3g}"
    return Remark("warning", "dying-pays", what, "let failing cost more than all steps that it saves")


def _judge_ends(seen: Recorded, gamma: float) -> Iterator[Remark]:
    """Dying and idling that pay."""
    episodes = np.unique(seen.episode)
    returns = np.array([seen.reward[seen.episode == each].sum() for each in episodes])
    lengths = np.array([(seen.episode == each).sum() for each in episodes])
    ended = np.array([seen.terminated[seen.episode == each].any() for each in episodes])
    # Where nobody says what an end means, only one that costs more than the steps before it is a failure.
    died = ended & ((seen.success == 0) | (np.isnan(seen.success) & _costs_most(seen)))
    lived = ~ended & ~(seen.success == 1)
    if died.sum() >= 5 and lived.sum() >= 5 and np.median(returns[died]) > np.median(returns[lived]):
        if np.median(lengths[died]) < np.median(lengths[lived]):
            what = f"failing early returns {np.median(returns[died]):.3g}, going on without success {np.median(returns[lived]):.3g}"
            yield Remark("warning", "dying-pays", what, "let failing cost more than all steps that it saves")
    elif died.sum() >= 5 and (saving := _judge_costly_ends(seen, lengths, gamma)):
        yield saving
    succeeded = returns[seen.success == 1]
    for action, (mean, length) in seen.idle.items():
        if len(succeeded) and mean >= np.median(succeeded):
            what = f"{action} alone returns {mean:.3g} in {length:.0f} steps, success {np.median(succeeded):.3g}"
            yield Remark("error", "idling-pays", what, "let success bring more than waiting does")
            break


def _judge_fading(seen: Recorded) -> Iterator[Remark]:
    """What the same step pays less and less for: curiosity inside of the reward, or a weight that fades."""
    now, then = (obs if obs.ndim == 1 else np.round(obs, 3) + 0.0 for obs in (seen.obs, seen.next_obs))
    same: dict[tuple[bytes, bytes, bool], list[int]] = {}
    for place, ended in enumerate(seen.terminated.tolist()):
        same.setdefault((now[place].tobytes(), then[place].tobytes(), ended), []).append(place)
    often = [rows for rows in same.values() if len(rows) >= FEWEST_REPEATS]
    if sum(map(len, often)) < REPEATED * len(seen.reward):
        return
    for name, paid in seen.terms.items() or {"the reward": seen.reward}.items():
        falls = [stats.rank_correlation(np.arange(len(rows), dtype=float), paid[rows]) for rows in often]
        if any(falls) and np.median([0.0 if fall is None else fall for fall in falls]) <= FADES:
            what = f"{name} pays less for the same step the later it comes: it is paid for what is new, or fades by itself"
            do = "keep curiosity out of the reward, which returns and evaluations count (bonus.kind does), and a fading weight short"
            yield Remark("note", "fades", what, do)


def _judge_scale(seen: Recorded, gamma: float, scale: tuple[float, float]) -> Iterator[Remark]:
    episodes = len(np.unique(seen.episode))
    paid = [each for each in np.unique(seen.episode) if np.any(seen.reward[seen.episode == each] != 0)]
    if not paid:
        what = f"none of {episodes} random episodes was paid anything: the chance is below {3 / episodes:.2g} per episode (95 %)"
        yield Remark("warning", "never-paid", what, "a bonus for new states, starts nearer to the goal, or a potential")
    elif len(np.unique(seen.reward)) == 1:
        yield Remark(
            "warning",
            "always-the-same",
            f"every step pays {seen.reward[0]:.3g}",
            "only the length of an episode says anything; is that the task?",
        )
    high = scale[1] / max(1 - gamma, 1e-3)
    if scale[1] and not USUAL_SCALE[0] <= scale[1] <= USUAL_SCALE[1]:
        what = f"steps pay up to {scale[1]:.3g}, values may reach {high:.3g}"
        yield Remark("note", "unusual-scale", what, "env.normalize_reward, or another unit; clipping would change what is best")


def _compare_terms(seen: Recorded) -> Iterator[Remark]:
    """One crash = 40 m of progress, where the weights are known; and a usual crash = 60 usual steps of it."""
    weights = {name: abs(weight) for name, weight in seen.weights.items() if weight}
    if len(weights) > 1:
        cheapest = min(weights, key=lambda name: weights[name])
        equal = [f"1 of {name} = {weight / weights[cheapest]:.3g} of {cheapest}" for name, weight in weights.items() if name != cheapest]
        yield Remark("note", "indifference", "; ".join(equal), "so much of the one makes up for the other: would you take it?")
    sizes = {name: float(np.median(np.abs(paid[paid != 0]))) for name, paid in seen.terms.items() if np.any(paid != 0)}
    if len(sizes) < 2:
        return
    unit = min(sizes, key=lambda name: sizes[name])
    worth = [f"a usual {name} = {sizes[name] / sizes[unit]:.3g} x a usual {unit}" for name in sizes if name != unit]
    yield Remark("note", "worth", "; ".join(worth), "is that what it is worth to you?")
    whole = sum(float(np.abs(paid).sum()) for paid in seen.terms.values())
    for name, paid in seen.terms.items():
        share = float(np.abs(paid).sum()) / max(whole, 1e-300)
        if share > 0.9 and len(seen.terms) > 1:
            yield Remark(
                "warning", "one-term-decides", f"{name} is {share:.0%} of all that random play is paid", "weigh the others, or leave it out"
            )
