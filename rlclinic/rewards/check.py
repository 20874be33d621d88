"""What a reward pays for, read off recorded steps: potentials, loops, idling, dying, scale, density, and what terms are worth."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from rlclinic.rewards import finite
from rlclinic.rewards.finite import Process
from rlclinic.rewards.potentials import PotentialFit, Shaped, fit_potential, fit_table

Level = Literal["error", "warning", "note"]
LOOP_REPEATS: Final = 3
"""How often a loop has to pay before it is spoken of."""
LOSS: Final = 0.01
"""The share of the task's best return from which on a loss is spoken of."""
USUAL_SCALE: Final = (1e-2, 1e2)


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
    process: Process | None = None
    """The whole process, where the environment has a table of it."""


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
    """Judge a reward. `task`: the term that is the task itself, if not the first one; the others are asked whether they are potentials."""
    names = list(seen.terms)
    task = task or (names[0] if len(names) > 1 else None)
    shaping = [name for name in names if name != task]
    states = seen.obs.ndim == 1
    potentials, losses = {}, {}
    for name in shaping:
        steps = Shaped(seen.obs, seen.next_obs, seen.terms[name], seen.terminated)
        potentials[name] = fit_table(steps, gamma) if states else fit_potential(steps, gamma)
        if seen.process is not None and states and task is not None:
            both = [_average(seen.process, seen, seen.terms[each]) for each in (task, name)]
            if both[0] is not None and both[1] is not None:
                losses[name] = finite.shaping_loss(seen.process, both[0], both[1], gamma)
    paying = np.abs(seen.reward[seen.reward != 0])
    scale = (float(np.median(paying)), float(paying.max())) if len(paying) else (0.0, 0.0)
    remarks = (
        *_judge_sums(seen),
        *_judge_potentials(potentials, losses),
        *_judge_loops(seen),
        *_judge_ends(seen),
        *_judge_scale(seen, gamma, scale),
        *_compare_terms(seen),
    )
    return Checked(potentials, losses, remarks, float(np.mean(seen.reward != 0)), scale)


def _average(process: Process, seen: Recorded, paid: np.ndarray) -> np.ndarray | None:
    """What a term pays in each transition of the process; None if one that can happen was never seen."""
    known: dict[tuple[int, int, bool], float] = {}
    for now, then, ended, value in zip(seen.obs.tolist(), seen.next_obs.tolist(), seen.terminated.tolist(), paid.tolist(), strict=True):
        known[now, then, ended] = value
    keys = list(zip(process.state.tolist(), process.next_state.tolist(), process.terminated.tolist(), strict=True))
    ends = {now for now, then, ended in keys if ended and now == then}  # terminal states that lead to themselves are never left
    return None if any(key not in known and key[0] not in ends for key in keys) else np.array([known.get(key, 0.0) for key in keys])


def _judge_sums(seen: Recorded) -> Iterator[Remark]:
    if seen.terms:
        off = float(np.abs(sum(seen.terms.values()) - seen.reward).max())
        if off > 1e-6 * max(1.0, float(np.abs(seen.reward).max())):
            yield Remark(
                "error", "terms-do-not-add-up", f"the terms differ from the reward by up to {off:.3g}", "report every term, as it is added"
            )


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


def _judge_ends(seen: Recorded) -> Iterator[Remark]:
    """Dying and idling that pay."""
    episodes = np.unique(seen.episode)
    returns = np.array([seen.reward[seen.episode == each].sum() for each in episodes])
    lengths = np.array([(seen.episode == each).sum() for each in episodes])
    died = np.array([seen.terminated[seen.episode == each].any() for each in episodes]) & ~(seen.success == 1)
    if died.sum() >= 5 and (~died & ~(seen.success == 1)).sum() >= 5:
        lived = ~died & ~(seen.success == 1)
        if np.median(returns[died]) > np.median(returns[lived]) and np.median(lengths[died]) < np.median(lengths[lived]):
            what = f"failing early returns {np.median(returns[died]):.3g}, going on without success {np.median(returns[lived]):.3g}"
            yield Remark("warning", "dying-pays", what, "let failing cost more than all steps that it saves")
    succeeded = returns[seen.success == 1]
    for action, (mean, length) in seen.idle.items():
        if len(succeeded) and mean >= np.median(succeeded):
            what = f"{action} alone returns {mean:.3g} in {length:.0f} steps, success {np.median(succeeded):.3g}"
            yield Remark("error", "idling-pays", what, "let success bring more than waiting does")
            break


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
    """One crash = 40 steps of progress."""
    sizes = {name: float(np.median(np.abs(paid[paid != 0]))) for name, paid in seen.terms.items() if np.any(paid != 0)}
    if len(sizes) < 2:
        return
    unit = min(sizes, key=lambda name: sizes[name])
    worth = [f"one {name} = {sizes[name] / sizes[unit]:.3g} x {unit}" for name in sizes if name != unit]
    yield Remark("note", "worth", "; ".join(worth), "is that what it is worth to you?")
    whole = sum(float(np.abs(paid).sum()) for paid in seen.terms.values())
    for name, paid in seen.terms.items():
        share = float(np.abs(paid).sum()) / max(whole, 1e-300)
        if share > 0.9 and len(seen.terms) > 1:
            yield Remark(
                "warning", "one-term-decides", f"{name} is {share:.0%} of all that random play is paid", "weigh the others, or leave it out"
            )
