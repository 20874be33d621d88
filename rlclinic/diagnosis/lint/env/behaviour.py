"""Behaviour: ends, seeds, effects, changes with time, speed."""

import math
from collections import Counter
from collections.abc import Iterator

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.env.examination import Examination, Remark
from rlclinic.diagnosis.registry import say

LONG, SHORT, MANY = 2_000, 2.5, 8
WALL, FEWEST_STEPS = 6, 10
SLOW, VERY_SLOW = 200.0, 20.0
HAIR = 0.03
STEPS_AHEAD, SAVED = 100, 0.5
"""Steps that a learner looks ahead, and the share of what they cost that a failed end may cost and still be cheap."""
SHIFT = 5.0
"""How many standard errors two halves of the episodes must differ by."""


@check("ENV205", Severity.LOW, ["henderson2018matters"])
def every_seed_is_the_same(examination: Examination) -> Iterator[Remark]:
    """There is no chance in the environment: every seed is the same episode.

    ## Why it hurts
    An agent can learn a list of actions by heart; nothing tells whether it would manage another start.

    ## When it is fine
    Puzzles and planning tasks that are like that.

    ## Fix
    Vary the start, or use sticky actions.
    """
    seeding = examination.facts.get("seeding") or {}
    if seeding.get("repeats") and not seeding.get("seed_matters", True):
        yield Remark("five seeds with the same actions gave the same episode: there is no chance in it")


@check("ENV206", Severity.HIGH, ["nikanjam2022faults"])
def reset_does_not_reset(examination: Examination) -> Iterator[Remark]:
    """Something of the last episode is left after a reset.

    ## Why it hurts
    Episodes depend on what happened before them: rewards, counters or positions are carried over, and the agent cannot see it.

    ## When it is fine
    Continual tasks that mean it.

    ## Fix
    Set every attribute that step() changes again in reset().
    """
    yield from _by_size(examination, "reset-does-not-reset")


@check("ENV203", Severity.MEDIUM, ["henderson2018matters"])
def reset_ignores_seed(examination: Examination) -> Iterator[Remark]:
    """The same seed gives another episode.

    ## Why it hurts
    No run can be repeated, and two settings cannot be compared on the same starts.

    ## When it is fine
    Real devices and servers.

    ## Fix
    super().reset(seed=seed), and draw from self.np_random instead of random or np.random.
    """
    yield from _by_size(examination, "reset-ignores-seed")


def _by_size(examination: Examination, kind: str) -> Iterator[Remark]:
    """Physics engines keep the state of their solvers: episodes that differ by a hair are worth knowing, and no more."""
    noted = examination.breach(kind)
    if noted is not None:
        size = noted["numbers"].get("size", 1.0)
        yield Remark(noted["text"], strength=1.0 if size > HAIR else 0.1, numbers={"size": size})


@check("ENV208", Severity.MEDIUM, ["nikanjam2022faults"])
def action_dimension_without_effect(examination: Examination) -> Iterator[Remark]:
    """Part of the action, or of its range, has no effect.

    ## Why it hurts
    The policy explores in directions that do nothing, and its gradient is noise there.

    ## When it is fine
    Parts that matter later in an episode only; numbers that switch something on.

    ## Fix
    Drop that part of the action space, or use it in step().
    """
    effects = examination.facts.get("effects") or {}
    idle, half = effects.get("idle_dimensions") or [], effects.get("half_idle_dimensions") or []
    if idle:
        yield Remark(f"action{idle}: its lowest and its highest value gave the same episode")
    elif half and examination.has_usual_bounds:
        # One that switches something on is like that; where all are, what lies beyond is cut off.
        text = f"action{half}: its middle and one of its ends gave the same episode: half of its range does nothing"
        strength = 1.0 if len(half) == len(list(examination.bounds())) else 0.4
        yield Remark(text, "Use the whole range in step(), or let the space be what is used.", strength)


@check("ENV209", Severity.MEDIUM, ["pardo2018time"])
def no_end_seen(examination: Examination) -> Iterator[Remark]:
    """Random episodes do not end, and there is no time limit.

    ## Why it hurts
    No return is ever complete and no reset happens: the agent sees only where it drifted to.

    ## When it is fine
    Continuing tasks.

    ## Fix
    register(…, max_episode_steps=…), or gymnasium.wrappers.TimeLimit(env, …).
    """
    steps = examination.random.get("steps") or 0
    if steps < LONG or examination.random.get("returns"):
        return
    limit = examination.facts.get("time_limit")
    if limit is not None and limit > steps:
        yield Remark(f"no episode ended in {steps} random steps; the time limit is {limit}", "a shorter max_episode_steps", 0.3)
    elif limit is not None and (examination.random.get("unfinished_steps") or 0) > 2 * limit:
        text = f"the time limit is {limit}, and an episode of random actions went on for {steps} steps: its end is not passed on"
        yield Remark(text, "return what the inner environment says of `terminated` and `truncated`")
    elif limit is None:
        yield Remark(f"no episode ended in {steps} random steps, and there is no time limit", strength=0.3 if examination.ends else 1.0)


@check("ENV210", Severity.LOW, ["jones2021debugging"])
def ends_at_once(examination: Examination) -> Iterator[Remark]:
    """Episodes end after a step or two.

    ## Why it hurts
    Nothing can be learned about what comes later.

    ## When it is fine
    Bandits and card games.

    ## Fix
    Look at the condition of `terminated`: is it true at the start?
    """
    lengths = examination.random.get("lengths") or []
    if len(lengths) >= MANY and sum(lengths) / len(lengths) < SHORT and max(lengths) < 10 and set(lengths) != {1}:
        yield Remark(f"random episodes last {sum(lengths) / len(lengths):.1f} steps: there is hardly anything to learn from")


@check("ENV211", Severity.MEDIUM, ["pardo2018time"])
def clock_reported_as_terminated(examination: Examination) -> Iterator[Remark]:
    """Every episode ends after the same number of steps, and says terminated.

    ## Why it hurts
    Training takes a time limit for a real end and does not bootstrap: states near the limit look worthless.

    ## When it is fine
    Tasks that really take a fixed number of steps, and show which one it is: a number of the observation that tells the time.

    ## Fix
    Return the limit as truncated, or register the environment with max_episode_steps.
    """
    lengths, terminated = examination.random.get("lengths") or [], examination.random.get("terminated") or 0
    # Where an observation tells the time, what is left of the episode is known, and its end may be part of the task.
    fix, strength = (
        ("none, if the task really takes that many steps: its observations tell the time", 0.36)
        if examination.random.get("shows_clock")
        else ("", 1.0)
    )
    if len(lengths) >= MANY and len(set(lengths)) == 1 and lengths[0] > 3 and terminated == len(lengths):
        yield Remark(
            f"all {len(lengths)} random episodes ended after exactly {lengths[0]} steps, as `terminated`: that is a clock", fix, strength
        )
    elif lengths and terminated == len(lengths) and _is_a_wall(lengths):
        last, count = max(lengths), lengths.count(max(lengths))
        text = f"none of {len(lengths)} random episodes is longer than {last} steps, and {count} end exactly there, as `terminated`"
        yield Remark(f"{text}: that is a clock", fix, strength)


def _is_a_wall(lengths: list[int]) -> bool:
    """Whether the greatest length is where a limit cuts: many episodes share it, and other lengths are spread out."""
    counts = Counter(lengths)
    last = max(lengths)
    others = [count for length, count in counts.items() if length != last]
    if last <= FEWEST_STEPS or counts[last] < WALL or counts[last] < WALL * max(others, default=0) / 2:
        return False
    return len(others) >= WALL or counts[last] > 0.5 * len(lengths)


@check("ENV212", Severity.MEDIUM, ["schulman2016nuts"])
def changes_over_time(examination: Examination) -> Iterator[Remark]:
    """The same random policy earns something else later on.

    ## Why it hurts
    What was learned early is wrong later; values never settle.

    ## When it is fine
    A curriculum that is meant.

    ## Fix
    Look for counters and buffers that outlive reset().
    """
    returns = examination.random.get("returns") or []
    lengths = examination.random.get("lengths") or []
    if len(returns) < 20:
        return
    rates = [total / length for total, length in zip(returns, lengths, strict=True)]
    half = len(rates) // 2
    (first, first_var), (second, second_var) = _moments(rates[:half]), _moments(rates[half:])
    error = math.sqrt(first_var / half + second_var / (len(rates) - half))
    gap = abs(second - first)
    if gap > max(SHIFT * error, 1e-9) and gap > 0.2 * max(abs(first), abs(second)):
        text = f"the reward per step is {say(first)} in the first half of the episodes and {say(second)} in the second"
        yield Remark(f"with the same random policy, {text}")


def _moments(values: list[float]) -> tuple[float, float]:
    mean = sum(values) / len(values)
    return mean, sum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1)


@check("ENV213", Severity.MEDIUM, ["raffin2021sb3"])
def slow(examination: Examination) -> Iterator[Remark]:
    """Steps take long.

    ## Why it hurts
    On-policy algorithms need a million steps and more.

    ## When it is fine
    Expensive simulators, with algorithms that are thrifty with steps.

    ## Fix
    Run copies in processes; profile step().
    """
    rate = examination.steps_per_second
    if rate is not None and rate < SLOW:
        hours = 1e6 / rate / 3600
        yield Remark(
            f"{say(rate)} steps/s: a million steps take {say(hours)} hours in one process", strength=1.0 if rate < VERY_SLOW else 0.3
        )


@check("ENV202", Severity.HIGH, ["towers2024gymnasium"])
def blocks(examination: Examination) -> Iterator[Remark]:
    """The environment does not come back.

    ## Why it hurts
    Training hangs without a message: waiting for input, a window, a socket or a lock.

    ## When it is fine
    A slow start (downloads, simulators) that happens once.

    ## Fix
    Make it without rendering, and give every wait a limit.
    """
    where = examination.facts.get("blocked_in")
    if where:
        text = f"the environment did not come back within {examination.facts.get('limit', 0):g} s, while {where} was looked at"
        yield Remark(text, "If it only starts slowly, give it more seconds. Else make it without rendering, and give every wait a limit.")


@check("ENV201", Severity.HIGH, ["towers2024gymnasium"])
def raises(examination: Examination) -> Iterator[Remark]:
    """The environment raises an exception.

    ## Why it hurts
    Training ends there, often after hours.

    ## When it is fine
    Never for an action of its own action space.

    ## Fix
    Repeat it with that seed and action, and mend the line.
    """
    yield from examination.noted("raises")


@check("ENV204", Severity.HIGH, ["towers2024gymnasium"])
def copies_share_state(examination: Examination) -> Iterator[Remark]:
    """Two copies of the environment change each other.

    ## Why it hurts
    Training steps many copies: their episodes are mixed, and nothing that is recorded belongs together.

    ## When it is fine
    Never.

    ## Fix
    Keep state in self, not in the class, in a module or in a mutable default argument.
    """
    yield from examination.noted("copies-share-state")


@check("ENV207", Severity.HIGH, ["nikanjam2022faults"])
def actions_without_effect(examination: Examination) -> Iterator[Remark]:
    """Whatever the action, the episode is the same.

    ## Why it hurts
    There is nothing to learn: no policy is better than another.

    ## When it is fine
    Never.

    ## Fix
    Use the action in step(); look for a wrapper that drops or overwrites it.
    """
    yield from examination.noted("actions-without-effect")


FARMED = 0.1
"""Share by which another episode must bring more than the best one that finishes."""
LOOPED = 0.5
"""Share by which a loop must bring more than going straight to the end: things to pick up on the way may make a detour worth it."""
GIVEN_UP = 0.7
"""Share by which giving up must cost less than the way to the end, where that way could still be made better."""


@check("ENV214", Severity.HIGH, ["ng1999shaping"])
def reward_can_be_farmed(examination: Examination) -> Iterator[Remark]:
    """A loop, idling or giving up pays more than doing what the environment is for.

    ## Why it hurts
    The agent maximizes what is paid. It will circle, wait or end the episode early, with a return that rises and a task that is never
    done.

    ## When it is fine
    Where finishing is not the point, and the return itself is what is wanted.

    ## Fix
    Pay once for what is to be done once; make shaping a difference of potentials, gamma * phi(next) - phi(now); let finishing bring
    more than the whole of an episode spent otherwise.
    """
    seen = examination.facts.get("farming") or {}
    finished, direct, loop = seen.get("finished"), seen.get("direct") or seen.get("finished"), seen.get("loop")
    for other, aim, least in ((seen.get("other"), finished, FARMED), (loop, direct, LOOPED)):
        if not other or not aim:
            continue
        gap = other["return"] - aim["return"]
        if other["terminated"] and not seen.get("settled", True):
            # The way to the end was found by chance: with practice it costs less.
            least = GIVEN_UP if seen.get("direct") else 1.0
        if gap <= least * max(abs(other["return"]), abs(aim["return"])) + 1e-9:
            continue
        how = other["how"] or ("ending it otherwise" if other["terminated"] else "not finishing")
        straight = "going straight there" if other is loop else "the best episode that finishes"
        yield Remark(
            f"{how} brought {say(other['return'])} in {other['steps']} steps without finishing; "
            f"{straight} brought {say(aim['return'])} in {aim['steps']}",
            numbers={"farmed": other["return"], "finished": aim["return"], "steps": float(other["steps"])},
        )
        return


@check("ENV419", Severity.MEDIUM, ["ng1999shaping"])
def failing_saves_costs(examination: Examination) -> Iterator[Remark]:
    """Every step costs, the last ones cost most, and an episode that ends early costs less than one that goes on.

    ## Why it hurts
    The cheapest thing to do is to fail at once: the return rises, episodes get shorter, and the task is never done.

    ## When it is fine
    Where the end is what is wanted, and only looks like a failure because it is paid like one.

    ## Fix
    Let a failed end cost more than all the steps that it saves, or pay for every step that goes well instead of charging for the others.
    """
    rewards, lengths = examination.rewards, examination.random.get("lengths") or []
    if not {"before_end_mean", "terminal_mean"} <= set(rewards) or examination.random.get("success"):
        return
    usual, end = rewards["before_end_mean"], rewards["terminal_mean"]
    # Where a goal is reached a step costs little; where something breaks it costs much.
    if rewards["max"] > 0 or rewards["terminal_max"] >= usual - 0.1 * abs(usual):
        return
    known = [*map(float, lengths), *(each.length for each in examination.played if each.length is not None)]
    short, longest = min(known), max(known)
    saved = usual * min(longest - short, STEPS_AHEAD)
    if longest < 2 * short or end - usual <= SAVED * saved:
        return
    yield Remark(
        f"every step costs (on average {say(-usual)}), and a failed end costs {say(-end)} once: ending after {say(short)} steps instead of "
        f"{say(longest)} saves about {say(-usual * (longest - short))}",
        numbers={"step": usual, "end": end, "short": short, "long": longest},
    )


@check("ENV417", Severity.MEDIUM, ["henderson2018matters"])
def success_means_nothing(examination: Examination) -> Iterator[Remark]:
    """Every episode reports success, whatever is done in it.

    ## Why it hurts
    Success is what runs are judged, stopped and promoted by: a run that learned nothing passes.

    ## When it is fine
    A task that every policy finishes, where only the return tells good from bad: then report no success.

    ## Fix
    Set info["is_success"] where the goal is reached, and only there.
    """
    ways = [examination.random, *(examination.facts.get("constant") or {}).values()]
    told = [way.get("success") for way in ways]
    if len(examination.random.get("returns") or []) >= MANY and len(told) > 1 and all(share == 1.0 for share in told):
        yield Remark(f"all episodes of random actions and of {len(told) - 1} constant ones report success")


@check("ENV418", Severity.MEDIUM, ["towers2024gymnasium"])
def return_told_too_early(examination: Examination) -> Iterator[Remark]:
    """What info says of an episode's return lacks its last reward.

    ## Why it hurts
    The last step is where most tasks pay: success and failure are told as the same return, and whoever picks models by it picks at
    random. Training counts rewards itself, so that its own columns are right.

    ## When it is fine
    Where the sum up to the step before is meant.

    ## Fix
    Add the reward of the step first, then write info.
    """
    for name, episodes in (examination.facts.get("late_returns") or {}).items():
        if episodes >= MANY:
            yield Remark(f"info[{name!r}] at the end of {episodes} episodes is the return without the last reward")
