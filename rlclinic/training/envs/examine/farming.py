"""Whether a reward can be farmed: loops, idling and giving up that pay more than doing what the environment is for.

1. Episodes of held random actions show what finishing looks like: `info` says success, or, where it never says anything, the episode
   ends with a reward that no other step brings. Where none finishes, ways to the best rewards are gone again and left from there. The
   best is shortened as far as it stays one.
2. Short cycles of actions (one repeated, two to four in turn) are begun at the start, where something was paid, and just before the end.
   Those that pay best per step are played to the end of the episode.

Nothing is judged here: what finishing brought and what the best other episode brought are written down. The environment is stepped
without the checks of the contract, which have been made by then.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from rlclinic.training.envs import making
from rlclinic.training.envs.examine.contract import Broken, OutOfTime, Probe
from rlclinic.training.envs.examine.play import SUCCESS, constants

LONGEST = 1_000
"""Steps after which an episode without an end is broken off."""
EPISODES, MOST_SOUGHT, SEEDS = 300, 2_000, 5
MOST_ACTIONS, MOST_PREFIXES, MOST_PLAYED = 6, 14, 8
TRIED, PAID = 24, 12
"""Steps that a cycle is tried for, and the last ones of them by which it is measured."""
HOLDS = (1, 2, 4)
MOST_IN_A_ROUND = 5
"""Actions of which three or four in turn are tried, too: of more there are too many orders."""
SHORTER, VAIN, SHORT, LONGEST_SHORTENING = 400, 30, 20, 0.15
"""Attempts to better an episode that finishes; those in vain after which it is the best, if it is that short; the share of the time."""
SOUGHT = 0.6
"""Share of the time by which a finish must have been found."""
LASTING = 0.35
"""Share of a loop's return that the second half of its episode must bring."""
GOAL = 2.0
"""How many times the largest reward on the way an ending must bring to be the goal, where success is not reported."""
MOST_SECONDS, PLAYED_OUT, RESERVE = 4.0, 1.0, 0.2
"""Seconds for all of it, seconds more for the best cycles, and the share of the examination that is left over."""
TINY = 1e-9


@dataclass(eq=False)
class Episode:
    """What was done from a seed on, and what came of it."""

    seed: int
    actions: list[Any] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    ended: bool = False
    success: bool | None = None
    """What the environment said at the end, or at any step before; None: nothing."""
    how: str = ""
    """The cycle that it ended in; "" for random actions."""

    @property
    def total(self) -> float:
        return float(sum(self.rewards))


def measure(probe: Probe) -> dict[str, Any]:
    """What finishing brings and what else brings more; OutOfTime only if not even that much was seen."""
    # The examination must be over in time, on a busy machine too.
    probe.clock.phase_end = min(probe.clock.phase_end, (1 - RESERVE) * probe.clock.end)
    probe.clock.phase_end = min(probe.clock.phase_end, probe.clock.spent + MOST_SECONDS)
    horizon = min(making.find_time_limit(probe.env) or LONGEST, LONGEST)
    rng = np.random.default_rng(0)
    choices = _choices(probe.env.action_space)
    episodes: list[Episode] = []
    finished: Episode | None = None
    direct: Episode | None = None
    settled = False
    try:
        with_time = probe.clock.phase_end - probe.clock.spent
        half = probe.clock.spent + 0.3 * with_time
        for number in range(EPISODES):
            if number >= 3 and probe.clock.spent > half:
                break
            seed = number % SEEDS
            # Long holds cross the room, short ones look around; a few episodes keep to one action nearly all the time.
            episodes.append(_play(probe, seed, _held_random(choices, probe.env.action_space, rng, horizon), horizon))
        by_success = any(episode.success is not None for episode in episodes)
        finished = _best(episodes, by_success)
        if finished is None:
            until = probe.clock.spent + (SOUGHT - 0.3) * with_time
            finished = _seek(probe, episodes, by_success, choices, rng, horizon, until)
        if finished is not None:
            ways = (episode for episode in (*episodes, finished) if _finishes(episode, episodes, by_success))
            shortest = min(ways, key=lambda each: len(each.actions))
            direct, _ = _shorten(probe, shortest, episodes, by_success, rng, horizon, lambda each: -len(each.actions))
            finished, settled = _shorten(probe, finished, episodes, by_success, rng, horizon, lambda each: (each.total, -len(each.actions)))
            finished = max(finished, direct, key=lambda each: each.total)
            episodes += _farm(probe, finished, episodes, choices, rng, horizon)
    except OutOfTime:
        if not episodes:
            raise
    by_success = any(episode.success is not None for episode in episodes)
    finished = finished or _best(episodes, by_success)
    others = [episode for episode in episodes if episode.rewards and not _finishes(episode, episodes, by_success)]
    other = max(others, key=lambda each: each.total, default=None)
    # An income that lasts: the second half of the episode pays as the first one does. Random actions count only where success is reported.
    loops = [
        each
        for each in others
        if (each.how or (by_success and not each.terminated)) and sum(each.rewards[len(each.rewards) // 2 :]) > LASTING * each.total > 0
    ]
    loop = max(loops, key=lambda each: each.total, default=None)
    return {
        "by": "success" if by_success else "the last reward",
        "episodes": len(episodes),
        "finished": None if finished is None else {"return": finished.total, "steps": len(finished.rewards)},
        "settled": settled,
        "direct": None if direct is None else {"return": direct.total, "steps": len(direct.rewards)},
        "other": None if other is None else _described(other),
        "loop": None if loop is None else _described(loop),
    }


def _described(episode: Episode) -> dict[str, Any]:
    return {"return": episode.total, "steps": len(episode.rewards), "terminated": episode.terminated, "how": episode.how}


def _choices(space: Space[Any]) -> list[tuple[str, Any]]:
    """Actions that cycles are made of, with their names."""
    named = list(constants(space).items())
    if isinstance(space, spaces.Box) and named and 1 < space.low.size <= 3:
        # Corners: a push in each direction.
        corners = itertools.product(*zip(space.low.ravel(), space.high.ravel(), strict=True))
        named = [named[1], *((f"corner {place}", np.array(each, space.dtype).reshape(space.shape)) for place, each in enumerate(corners))]
    if not named:
        space.seed(0)
        named = [(f"drawn {place}", space.sample()) for place in range(MOST_ACTIONS)]
    return named[:MOST_ACTIONS]


def _held_random(choices: Sequence[tuple[str, Any]], space: Space[Any], rng: np.random.Generator, horizon: int) -> list[Any]:
    """Random actions, each held for a while; one of them is often preferred."""
    space.seed(int(rng.integers(2**31)))
    preferred, share, longest = int(rng.integers(len(choices))), float(rng.choice([0.0, 0.5, 0.8])), int(rng.choice([1, 4, 12, 40]))
    actions: list[Any] = []
    while len(actions) < horizon:
        pick = preferred if rng.random() < share else int(rng.integers(len(choices)))
        action = choices[pick][1] if rng.random() < 0.8 else space.sample()
        actions += [action] * int(rng.integers(1, longest + 1))
    return actions[:horizon]


def _play(probe: Probe, seed: int, actions: Sequence[Any], horizon: int, cycle: Sequence[Any] = ()) -> Episode:
    """One episode: the actions, then the cycle again and again, until it ends or is long enough."""
    probe.clock.check()
    episode = Episode(seed)
    try:
        probe.env.reset(seed=seed)
        for step in range(horizon):
            if step >= len(actions) and not cycle:
                break
            action = actions[step] if step < len(actions) else cycle[(step - len(actions)) % len(cycle)]
            _, reward, terminated, truncated, info = probe.env.step(action)
            probe.notes.steps += 1
            episode.actions.append(action)
            episode.rewards.append(float(reward))
            flag = next((info[key] for key in SUCCESS if key in info), None)
            episode.success = episode.success or bool(flag) if flag is not None else episode.success
            if step % 50 == 49:
                probe.clock.check()
            if terminated or truncated:
                episode.terminated, episode.ended = bool(terminated), True
                break
    except OutOfTime:
        raise
    except Exception as reason:
        raise Broken from reason
    return episode


def _finishes(episode: Episode, episodes: Sequence[Episode], by_success: bool) -> bool:
    """It succeeded; or, where nothing is reported, it ended with a reward far larger than any on the way."""
    if by_success:
        return bool(episode.success)
    if not episode.terminated:
        return False
    usual = max((abs(reward) for each in episodes for reward in each.rewards[: -1 if each.terminated else None]), default=0.0)
    return episode.rewards[-1] > GOAL * usual + TINY


def _best(episodes: Sequence[Episode], by_success: bool) -> Episode | None:
    return max((episode for episode in episodes if _finishes(episode, episodes, by_success)), key=lambda each: each.total, default=None)


def _seek(
    probe: Probe,
    episodes: Sequence[Episode],
    by_success: bool,
    choices: Sequence[tuple[str, Any]],
    rng: np.random.Generator,
    horizon: int,
    until: float,
) -> Episode | None:
    """Go to where the best reward or the best return so far was had, and on from there at random, until an episode finishes.

    What is tried here is no measure of what else pays: it climbs towards reward on purpose.
    """
    tried = list(episodes)
    # A step that pays as usual leads nowhere: otherwise the longest wait would be the best way.
    usual = float(np.median([reward for episode in episodes for reward in episode.rewards]))
    worths = (_best_reward, lambda episode: _best_return(episode, usual))
    climbs = [_climb(tried, worth) for worth in worths]
    for number in range(MOST_SOUGHT):
        if probe.clock.spent > until:
            break
        (_, step), episode = climbs[number % 2]
        # Sometimes a little earlier: the best place may be one to turn back from.
        prefix = episode.actions[: max(0, step + 1 - int(rng.choice([0, 0, 1, 3, 8])))]
        onward = _held_random(choices, probe.env.action_space, rng, horizon)
        tried.append(_play(probe, episode.seed, [*prefix, *onward][:horizon], horizon))
        if _finishes(tried[-1], tried, by_success):
            return tried[-1]
        climbs[number % 2] = max(climbs[number % 2], _climb(tried[-1:], worths[number % 2]), key=lambda each: each[0][0])
    return None


def _climb(episodes: Sequence[Episode], worth: Callable[[Episode], tuple[float, int]]) -> tuple[tuple[float, int], Episode]:
    """The episode that is worth most, with its worth and the step at which it was."""
    return max(((worth(episode), episode) for episode in episodes), key=lambda each: each[0][0])


def _best_reward(episode: Episode) -> tuple[float, int]:
    # The last step of an episode cannot be gone on from.
    rewards = episode.rewards[:-1] or [-np.inf]
    step = int(np.argmax(rewards))
    return rewards[step], step


def _best_return(episode: Episode, usual: float) -> tuple[float, int]:
    returns = np.cumsum(np.array(episode.rewards[:-1] or [-np.inf]) - usual)
    step = int(np.argmax(returns))
    return float(returns[step]), step


def _shorten(
    probe: Probe,
    best: Episode,
    episodes: Sequence[Episode],
    by_success: bool,
    rng: np.random.Generator,
    horizon: int,
    worth: Callable[[Episode], Any],
) -> tuple[Episode, bool]:
    """Leave out parts of the way, or hold one action for a part of it, for as long as it still leads there and is worth more: a random walk
    is no measure of what can be had. Also whether it settled: the last attempts made it no better."""
    vain = 0
    until = probe.clock.spent + LONGEST_SHORTENING * probe.clock.phase_end
    for number in range(SHORTER):
        length = len(best.actions)
        if length < 2 or vain >= 2 * VAIN or (number >= VAIN and probe.clock.spent > until):
            break
        cut = int(rng.integers(1, max(2, length // 2) + 1))
        begin = int(rng.integers(0, length - cut + 1))
        instead = [best.actions[int(rng.integers(length))]] * int(rng.integers(1, cut + 1)) if number % 2 else []
        tried = _play(probe, best.seed, best.actions[:begin] + instead + best.actions[begin + cut :], horizon)
        better = _finishes(tried, episodes, by_success) and worth(tried) > worth(best)
        best, vain = (tried, 0) if better else (best, vain + 1)
    return best, vain >= VAIN and len(best.actions) <= SHORT


def _farm(
    probe: Probe,
    finished: Episode,
    episodes: Sequence[Episode],
    choices: Sequence[tuple[str, Any]],
    rng: np.random.Generator,
    horizon: int,
) -> list[Episode]:
    """The cycles that pay best, played to the end of an episode."""
    starts: list[tuple[str, int, list[Any]]] = [("", finished.seed, [])]
    starts += [("just before the end, ", finished.seed, finished.actions[:-back]) for back in (1, 2, 4) if len(finished.actions) > back]
    paying = [(episode, step) for episode in episodes for step, reward in enumerate(episode.rewards[:-1]) if reward > _usual(episode)]
    paying = [paying[place] for place in rng.permutation(len(paying))[: MOST_PREFIXES - len(starts)]] if paying else []
    starts += [("where something is paid, ", each.seed, each.actions[: step + 1]) for each, step in paying]
    cycles: list[tuple[tuple[str, ...], tuple[Any, ...]]] = [((label,), (action,)) for label, action in choices]
    cycles += [
        ((first, second), (one,) * hold + (two,) * hold)
        for hold in HOLDS
        for (first, one), (second, two) in itertools.permutations(choices, 2)
    ]
    cycles += _rounds(choices) if len(choices) <= MOST_IN_A_ROUND else []
    promising: list[tuple[float, int, int]] = []
    played: list[Episode] = []
    try:
        # Round by round over the places, so that time runs out evenly.
        for number, (_, cycle) in enumerate(cycles):
            for place, (_, seed, prefix) in enumerate(starts):
                paid = max(PAID, len(cycle))
                tried = _play(probe, seed, prefix, min(len(prefix) + max(TRIED, 2 * paid), horizon), cycle)
                if tried.ended or len(tried.rewards) < len(prefix) + paid:
                    continue
                rate = sum(tried.rewards[-paid:]) / paid
                promising.append((tried.total + rate * (horizon - len(tried.rewards)), number, place))
    except OutOfTime:
        pass
    # What was found is played out even if the time is over: a few episodes.
    probe.clock.phase_end = min(probe.clock.phase_end + PLAYED_OUT, (1 - 0.5 * RESERVE) * probe.clock.end)
    for _, number, place in sorted(promising, reverse=True)[:MOST_PLAYED]:
        names, cycle = cycles[number]
        where, seed, prefix = starts[place]
        try:
            played.append(_play(probe, seed, prefix, horizon, cycle))
        except OutOfTime:
            break
        played[-1].how = f"{where}{', '.join(names[:-1])} and {names[-1]} in turn" if len(names) > 1 else f"{where}{names[0]} all the time"
    return played


def _rounds(choices: Sequence[tuple[str, Any]]) -> list[tuple[tuple[str, ...], tuple[Any, ...]]]:
    """Three or four actions in turn: a way round that no two of them make, such as right, up, left, down. Begun anywhere it is the same."""
    orders = [order for size in (3, 4) for order in itertools.permutations(range(len(choices)), size) if order[0] == min(order)]
    return [
        (tuple(choices[place][0] for place in order), tuple(choices[place][1] for place in order for _ in range(hold)))
        for hold in HOLDS
        for order in orders
    ]


def _usual(episode: Episode) -> float:
    return float(np.median(episode.rewards)) + TINY
