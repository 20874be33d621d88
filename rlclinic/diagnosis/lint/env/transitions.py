"""Transitions: observations that lag or are noise, actions that hardly count, rewards that come late, at random, or for the wrong thing."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.env.examination import Examination, Remark
from rlclinic.diagnosis.registry import grade, percent, say

LATE_GAIN = 0.12
EVENT = 0.6
"""How well observations and actions must tell which steps pay for those to be events of the task."""
LONG_ENOUGH = 20
JUMP = 1.5
"""How many times as far as nine tenths of the others a last step must lead to be none."""
SELDOM = 0.15
"""The share of single actions that count below which it may as well be chance that acts."""
EVERYWHERE = 0.7
"""The share of places with a choice that leads elsewhere from which on actions count."""
STILL = 1e-6
"""A spread below this share of an observation's size is none."""


IDLE = ("middle", "action 0", "first of each", "all 0")
"""Constant actions that stand for doing nothing, by the kind of the action space."""


def _facts(examination: Examination) -> Mapping[str, Any]:
    return examination.facts.get("transitions") or {}


def _moves(examination: Examination) -> bool:
    """Whether observations change at all within an episode, so that more can be said of them."""
    facts = _facts(examination)
    return bool(facts) and facts.get("within", 0.0) > STILL * max(facts.get("extent", 0.0), STILL)


def _has_scale(examination: Examination) -> bool:
    """Whether numbers of the observation are given to a network as they are, and change."""
    return _moves(examination) and not examination.facts.get("summed_up") and not examination.is_normalized("Observation")


def _has_choice(examination: Examination) -> bool:
    """Whether random actions differ in what they do."""
    return examination.has_usual_bounds and examination.breach("actions-without-effect") is None


@check("ENV401", Severity.HIGH, ["nikanjam2022faults"])
def observation_frozen_in_an_episode(examination: Examination) -> Iterator[Remark]:
    """The observation of an episode's start is shown until its end.

    ## Why it hurts
    The agent cannot see what its actions do.

    ## When it is fine
    Tasks of a single step.

    ## Fix
    Return the state after the action from step(), not the one that reset() kept.
    """
    facts = _facts(examination)
    lengths = examination.random.get("lengths") or [99]
    if facts.get("varies", 0.0) > STILL * max(facts.get("extent", 0.0), STILL) and not _moves(examination) and max(lengths) > 2:
        yield Remark("observations differ between episodes and never change within one")


@check("ENV402", Severity.MEDIUM, ["nikanjam2022faults"])
def observation_lags(examination: Examination) -> Iterator[Remark]:
    """What is observed lies some steps back, or what is done comes some steps late.

    ## Why it hurts
    The agent reacts to a state that is gone, and the effect of an action shows after the reward for it.

    ## When it is fine
    Real delays, with past actions in the observation or a memory.

    ## Fix
    Return the newest observation; where the delay is real, add the last actions to it, or stack frames.
    """
    facts, effects = _facts(examination), examination.facts.get("effects") or {}
    if not _moves(examination):
        return
    stays, seen, paid = facts.get("stays") or 0, effects.get("observations_differ_from"), effects.get("rewards_differ_from")
    lag, gain, direct = facts.get("lag") or 0, facts.get("lag_gain") or 0.0, facts.get("direct_gain") or 0.0
    explains = lag >= 2 and gain > LATE_GAIN and direct < 0.3 * gain
    # What is paid for an action at once may show in the state only where it counts, as a stroke does when the ball comes down: an
    # observation that lags stays as it was meanwhile.
    late = seen is not None and paid is not None and paid < seen and seen > 2 and (stays >= 1 or explains)
    if stays >= 2 or late:
        behind = max(stays, (seen or 1) - 1)
        text = f"the first observation stays for {stays} steps in every episode" if stays >= 2 else "the first observations say nothing new"
        text += f"; other actions show in the reward at step {paid}, in the observation at step {seen}" if late else ""
        # Where part of the state is hidden, what an action does shows later, and no observation is late.
        hidden = any(spread <= STILL * max(facts.get("extent", 0.0), STILL) for spread in facts.get("feature_spreads") or [])
        strength = 1.0 if stays >= 3 or (late and not hidden) else 0.4
        yield Remark(text, strength=strength, numbers={"steps": float(behind)})
        return
    first = min((step for step in (seen, paid) if step is not None), default=None)
    if stays == 1 == lag and seen == 2 and gain > 0.5 and direct < 0.1 * gain:
        text = f"the first observation comes twice in every episode, and what changes is explained by the action before ({percent(gain)})"
        yield Remark(text, strength=1.0 if paid == 1 else 0.6, numbers={"steps": 1.0})
        return
    if first is not None and first > 3:
        # From one start, whatever is done, the same happens for some steps; unless an action of then explains it, they may not count yet.
        strength = 1.0 if explains or lag == first - 1 else 0.3
        yield Remark(
            f"whatever is done, nothing differs before step {first} of an episode", strength=strength, numbers={"steps": first - 1.0}
        )
    elif explains and first is None:
        yield Remark(
            f"what changes is explained by the action {lag} steps before ({percent(gain)}), not by the last one ({percent(direct)})",
            strength=grade(gain, LATE_GAIN, 0.3),
            numbers={"steps": float(lag)},
        )


PLAIN_WRAPPERS = frozenset({"TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics", "Autoreset"})
"""Of Gymnasium: what is seen through them is what the environment shows."""


def _shows_its_state(examination: Examination) -> bool:
    """Whether the same state looks the same when it is looked at twice, with nothing around it that could add noise: what is drawn anew
    at every step is then the state, as a new customer is, and not how it is seen."""
    inside, wrappers = examination.facts.get("inside") or {}, examination.facts.get("wrappers") or []
    return inside.get("drawn_anew") == 0.0 and set(wrappers[:-1]) <= PLAIN_WRAPPERS


@check("ENV403", Severity.MEDIUM, ["nikanjam2022faults"])
def observation_is_noise(examination: Examination) -> Iterator[Remark]:
    """Much of the observation is noise that is drawn anew at every step.

    ## Why it hurts
    States that differ look alike, and the same state looks different each time.

    ## When it is fine
    Real sensors, with a filter, stacked frames or a memory.

    ## Fix
    Average several readings, stack frames, or use a memory; check whether the noise is meant to be that large.
    """
    facts, seeding = _facts(examination), examination.facts.get("seeding") or {}
    share = facts.get("noise") or 0.0
    # A sensor is noisy at the start of an episode, too; where that is the same again, chance is in what happens, not in what is seen.
    unseeded = seeding.get("observations_repeat") is False and seeding.get("start_repeats") is not True
    # Where the seed fixes it and it tells what is paid, it is no noise: a new part on a belt, another question.
    by_action = min(facts.get("reward_by_action") or 0.0, 0.99)
    told = ((facts.get("reward_explained") or 0.0) - by_action) / (1.0 - by_action)
    chance = 0.7 * (1.0 - grade(told, 0.3, 0.7)) * (0.4 if _shows_its_state(examination) else 1.0)
    strength = grade(share, 0.12, 0.3) * (1.0 if unseeded else chance)
    if _moves(examination) and strength > 0:
        yield Remark(
            f"{percent(share)} of what observations vary by is drawn anew at every step", strength=strength, numbers={"share": share}
        )


@check("ENV404", Severity.MEDIUM, ["andrychowicz2021matters"])
def observation_tiny(examination: Examination) -> Iterator[Remark]:
    """All numbers of the observation are so small that they hardly differ for a network.

    ## Why it hurts
    A fresh network gives nearly the same answer everywhere; telling states apart takes weights that take long to grow.

    ## When it is fine
    With normalized observations.

    ## Fix
    Scale by known ranges, or normalize: env.normalize_obs=true, VecNormalize, NormalizeObservation.
    """
    facts = _facts(examination)
    spread, largest = facts.get("spread") or 0.0, facts.get("largest") or 0.0
    strength = min(grade(-spread, -0.06, -0.025), grade(-largest, -0.5, -0.2))
    if _has_scale(examination) and strength > 0 and largest > 1e-6:
        yield Remark(f"no number of the observation is larger than {say(largest)}, or varies by more than {say(spread)}", strength=strength)


@check("ENV405", Severity.MEDIUM, ["andrychowicz2021matters"])
def observation_far_from_zero(examination: Examination) -> Iterator[Remark]:
    """Observations vary by little around a value far from 0.

    ## Why it hurts
    What differs between states is a small part of what the network is given: its answer hardly depends on the state.

    ## When it is fine
    With normalized observations.

    ## Fix
    Subtract the mean and divide by the deviation: env.normalize_obs=true, VecNormalize, NormalizeObservation.
    """
    facts = _facts(examination)
    pairs = [
        (abs(mean), spread) for mean, spread in zip(facts.get("means") or [], facts.get("spreads") or [], strict=False) if spread > 1e-9
    ]
    far = sorted(mean / spread for mean, spread in pairs)
    if _has_scale(examination) and far and far[len(far) // 2] > 20 and max(mean for mean, _ in pairs) > 2:
        yield Remark(
            f"half of the numbers of the observation lie more than {say(far[len(far) // 2])} times their deviation away from 0",
            strength=grade(far[len(far) // 2], 10, 40),
        )


@check("ENV406", Severity.MEDIUM, ["nikanjam2022faults"])
def actions_hardly_count(examination: Examination) -> Iterator[Remark]:
    """What happens next hardly depends on the action.

    ## Why it hurts
    The policy's gradient is mostly noise: good and bad actions lead to the same.

    ## When it is fine
    Tasks in which single actions matter little, over long episodes.

    ## Fix
    Follow one action from the policy to the simulator: is it scaled, replaced, or clipped away?
    """
    facts, effects = _facts(examination), examination.facts.get("effects") or {}
    gain, size = facts.get("action_gain"), facts.get("action_size")
    if gain is None or not _moves(examination) or not _has_choice(examination):
        return
    if _is_overwritten(examination):
        # The jump from an end to a start is not the action's doing.
        return
    if effects.get("rewards_differ_from") is not None and effects.get("observations_differ_from") is None:
        # From one start on other actions are paid otherwise: they count, and what they do is not shown.
        return
    if facts.get("lag") and (facts.get("stays") or 0) >= 1 and (facts.get("lag_gain") or 0.0) > 0.5:
        # It counts, and what it does is seen later.
        return
    spreads = facts.get("feature_spreads") or []
    # In a few steps, or in the first few of many, nobody comes far.
    lengths = sorted(examination.random.get("lengths") or [0])
    enough = max(LONG_ENOUGH, 0.2 * lengths[len(lengths) // 2])
    # What is pushed for longer comes the farther, at most by the square of the time.
    steps = effects.get("steps", LONG_ENOUGH)
    further = 1.0 if steps >= enough else (lengths[len(lengths) // 2] / max(steps, 1)) ** 2
    apart = sorted(
        further * gap / spread for gap, spread in zip(effects.get("apart") or [], spreads, strict=False) if min(spread, gap) > 1e-9
    )
    apart = apart if steps >= enough or (apart and steps >= LONG_ENOUGH and apart[(len(apart) - 1) // 2] < 0.85) else []
    # Where part of the state is hidden, what an action does may show a step later.
    hidden = bool(apart) and any(spread <= 1e-9 for spread in spreads)
    strength, text = grade(-gain, -0.1, -0.04), f"the action explains {percent(max(gain, 0.0))} of what happens next"
    if apart:
        # Episodes can be repeated: constant actions show how far an agent can move what it can move at all.
        reach = apart[(len(apart) - 1) // 2]
        few = f"the most different actions, taken again and again, end only {say(reach)} usual spreads of an observation apart"
        text = text if strength > 0 and not hidden else few
        # Where one action already moves much, what brings it back makes the way short, not the action; unless it is very short.
        weak = 1.0 if hidden or strength > 0 or size is None else max(grade(-size, -0.06, -0.03), grade(-reach, -0.5, -0.35))
        strength = min(grade(-reach, -1.2, -0.85), weak)
    forks, choices = effects.get("forks_differ"), effects.get("places_with_a_choice") or 0.0
    # Where most choices do nothing and one does, everywhere, it is the choice that decides, and not chance.
    if forks is not None and gain < 0.1 and choices < EVERYWHERE and (seldom := grade(-forks, -2 * SELDOM, -SELDOM)) > strength:
        strength, text = seldom, f"of single actions that were changed, {percent(forks)} made any difference"
    if strength > 0:
        yield Remark(text, strength=strength, numbers={"gain": gain, "size": size or 0.0})


@check("ENV407", Severity.LOW, ["sutton2018book"])
def reward_delayed(examination: Examination) -> Iterator[Remark]:
    """Rewards are saved up and paid later.

    ## Why it hurts
    The action that earned a reward cannot be told from those after it: gamma and lambda decide whether credit arrives.

    ## When it is fine
    Games and goals; they are like that.

    ## Fix
    Pay each step what it earned; else gae_lambda and gamma near 1, and longer rollouts.
    """
    facts = _facts(examination)
    lengths = examination.random.get("lengths") or []
    usual = sum(lengths) / len(lengths) if lengths else 0.0
    paid, period = facts.get("paid") or 0.0, facts.get("period") or 0
    if paid and period >= 3 and paid < 0.5:
        # Something happens every so often, and is seen to: what falls is down. A date of payment shows in nothing.
        strength = grade(-(facts.get("payday_seen") or 0.0), -EVENT, -0.5 * EVENT)
        yield Remark(f"rewards come every {period} steps of an episode, and at its end", strength=strength)
    elif paid and lengths and usual > 5 and examination.rewards.get("at_ends", 0.0) > 0.999:
        # A goal pays where it is met; a sum that was saved up is paid at the end of the time, too.
        cut = facts.get("paid_cut")
        saved = cut is not None and cut > 0.5
        always = facts.get("paid_over") is not None and facts["paid_over"] > 0.9 and facts.get("distinct", 0) * usual > 0.5
        if saved or always:
            yield Remark(f"the only reward comes with an episode's last step, after {say(usual)} steps")


@check("ENV408", Severity.MEDIUM, ["sutton2018book"])
def reward_pays_at_random(examination: Examination) -> Iterator[Remark]:
    """Most steps pay nothing, and which ones do is chance.

    ## Why it hurts
    The same action in the same state pays once and then not: many more samples are needed.

    ## When it is fine
    Where the task is like that.

    ## Fix
    Pay each step what it earned; else larger rollouts and batches.
    """
    facts, seeding = _facts(examination), examination.facts.get("seeding") or {}
    paid = facts.get("paid") or 0.0
    lost = seeding.get("rewards_repeat") is False and seeding.get("observations_repeat") is True
    scattered = facts.get("period", 0) < 3 and examination.rewards.get("at_ends", 1.0) < 0.8
    chance = (facts.get("payday_seen") or 0.0) < 0.5 * EVENT
    if (
        0 < paid < 0.2
        and scattered
        and (lost or (chance and facts.get("reward_explained", 1.0) < 0.2 and facts.get("distinct", 0.0) > 0.5 * paid))
    ):
        yield Remark(
            f"{percent(paid)} of the random steps pay anything, and the same episode pays at other steps when it is repeated"
            if lost
            else f"{percent(paid)} of the random steps pay anything, and nothing that is observed says which",
            strength=1.0 if lost else 0.4,
        )


@check("ENV409", Severity.MEDIUM, ["schulman2016nuts"])
def reward_is_noise(examination: Examination) -> Iterator[Remark]:
    """Rewards are mostly noise.

    ## Why it hurts
    Advantages are noise as well: thousands of samples are needed to see what one would show.

    ## When it is fine
    Tasks with much chance, with batches that are large enough.

    ## Fix
    Average the noise out in the environment, or use larger rollouts, a lower learning rate and more envs.
    """
    facts, seeding = _facts(examination), examination.facts.get("seeding") or {}
    # Where nothing is known of the states, the same episode played twice tells it.
    again = 1.0 - (seeding.get("reward_noise") or 0.0)
    explained, distinct = facts.get("reward_explained", again), facts.get("distinct", 0.0)
    unseeded = seeding.get("rewards_repeat") is False and seeding.get("observations_repeat") is True
    # Where numbers of the observation are dead, what they would show may be what explains the reward.
    hidden = any(spread <= STILL * max(facts.get("extent", 0.0), STILL) for spread in facts.get("feature_spreads") or [])
    strength = grade(-explained, -0.5, -0.25) * grade(distinct, 0.5, 0.9) * (1.0 if unseeded else 0.4 if hidden else 0.7)
    if _moves(examination) and _has_choice(examination) and facts.get("paid", 0.0) > 0.5 and strength > 0:
        other = ", and the same episode pays something else when it is repeated" if unseeded else ""
        share = f"{percent(max(1 - explained, 0.0))} of the reward's variance has nothing to do with states and actions"
        yield Remark(share + other, strength=strength)


@check("ENV410", Severity.LOW, ["nikanjam2022faults"])
def reward_sits_at_its_limit(examination: Examination) -> Iterator[Remark]:
    """Rewards of both signs are cut off at one size.

    ## Why it hurts
    A large success and a small one pay the same: what matters cannot be told from what hardly does.

    ## When it is fine
    Rewards that are +1 and -1 by nature; games with clipped scores.

    ## Fix
    Scale rewards instead of clipping them, or clip at several times their usual size.
    """
    facts, rewards = _facts(examination), examination.rewards
    share = facts.get("at_most", 0.0)
    size = max(abs(rewards.get("min", 0.0)), abs(rewards.get("max", 0.0)))
    # Between the two limits rewards are spread out: they would have gone on beyond.
    between = rewards.get("distinct", 0.0) > 5 and share < 1
    # What piles up at both ends is cut at both; what is won and what is lost are seldom of one small size.
    piles = facts.get("both_signs") and share > 0.04 and rewards.get("distinct", 0.0) > 20 and size < 0.1
    if 0 < size < 0.5 and ((between and (share > 0.3 or piles)) or (share > 0.9 and size < 0.05 and rewards.get("distinct", 0.0) > 1)):
        yield Remark(f"{percent(share)} of the rewards are exactly {say(size)} or {say(-size)}, the others lie between")
    elif 0 < size < 0.05 and facts.get("success_pays") == size == -(facts.get("else_pays") or 0.0):
        yield Remark(f"success pays {say(size)} and failure {say(-size)}, and no step pays more than that")


@check("ENV411", Severity.HIGH, ["nikanjam2022faults"])
def success_costs(examination: Examination) -> Iterator[Remark]:
    """Success is punished: the reward has the wrong sign.

    ## Why it hurts
    The agent learns to avoid what it should do.

    ## When it is fine
    Never.

    ## Fix
    Turn the sign of the reward in step().
    """
    facts = _facts(examination)
    yield from _look_at_terms(examination.facts.get("reward_terms") or {})
    won, lost = facts.get("success_pays"), facts.get("else_pays")
    rewards, searched = examination.rewards, examination.facts.get("search") or {}
    best, worst = searched.get("best_success"), searched.get("worst_success")
    if won is None or not rewards:
        return
    usual = rewards["mean"] if lost is None else lost
    # Where success pays more than other steps, and going on without it more still, the reward can be farmed: another fault (ENV214).
    if won > usual:
        return
    if best is not None and worst is not None and worst - best > 0.5 and searched["best"] > searched["worst"]:
        text = f"the policy that is paid most ({say(searched['best'])}) succeeds in {best:.0%} of its episodes, "
        yield Remark(f"{text}the one that is paid least ({say(searched['worst'])}) in {worst:.0%}", strength=0.95)
    elif (facts.get("success_returns") or 0.0) < -0.8:
        yield Remark("episodes that end in success return less than those that do not", strength=0.9)
    if (facts.get("successes") or 0) < 3:
        return
    if won < 0 and won < usual and won < rewards["mean"] - 0.5 * rewards["std"]:
        yield Remark(f"a step that ends in success pays {say(won)}, others {say(rewards['mean'])}")


COSTS = frozenset({
    "cost", "costs", "penalty", "penalties", "punishment", "effort", "energy", "fuel", "wear", "damage", "missed", "miss",
    "wrong", "error", "errors", "off", "crash", "crashed", "collision", "collisions", "fall", "fallen", "fell", "failure", "fail",
    "failed", "lost", "loss", "late", "delay", "waste", "wasted", "waiting", "wait", "overflow", "spill", "jerk", "deviation",
})  # fmt: skip
GAINS = frozenset({
    "success", "goal", "bonus", "reached", "arrived", "caught", "right", "correct", "hit", "alive", "survival", "survive",
    "healthy", "won", "win", "sold", "served", "delivered", "collected", "profit", "revenue", "income", "food", "solved",
    "stopped", "docked", "landed",
})  # fmt: skip
"""Words for what should never be paid for, and for what should never cost, in names of a reward's terms."""


def _look_at_terms(told: Mapping[str, Any]) -> Iterator[Remark]:
    """Terms whose names say what they are for, all of them with the opposite sign."""
    if not told.get("adds_up"):
        # Costs that are told as sizes, and taken off, say nothing about signs.
        return
    right: list[str] = []
    wrong: list[str] = []
    for name, seen in told["terms"].items():
        words = set(re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()))
        sign = (not words.isdisjoint(GAINS)) - (not words.isdisjoint(COSTS))
        low, high = sign * seen["min"], sign * seen["max"]
        if sign and abs(seen["min"]) + abs(seen["max"]) > 0:
            low, high = min(low, high), max(low, high)
            (wrong if high <= 0 else right if low >= 0 else []).append(name)
    if wrong and not right:
        names = ", ".join(f"`{name}` from {say(told['terms'][name]['min'])} to {say(told['terms'][name]['max'])}" for name in wrong)
        yield Remark(
            f"terms of the reward have the opposite sign of what their names say: {names}", strength=1.0 if len(wrong) > 1 else 0.8
        )


@check("ENV412", Severity.LOW, ["schulman2016nuts"])
def action_costs_drown_the_task(examination: Examination) -> Iterator[Remark]:
    """What is paid depends on the size of the action, and hardly on anything else.

    ## Why it hurts
    The first and last thing that is learned is to do nothing.

    ## When it is fine
    Where standing still is right.

    ## Fix
    A smaller cost of actions, or one that grows while the agent learns.
    """
    facts = _facts(examination)
    share = facts.get("reward_by_action", 0.0)
    by = {each.label: each for each in examination.played}
    random, idle = by.get("random"), next((by[name] for name in IDLE if name in by), None)
    if random is None or idle is None or random.mean is None or idle.mean is None or not random.length or not idle.length:
        return
    better = idle.mean / idle.length - random.mean / random.length
    spread = examination.rewards.get("std") or 0.0
    searched = (examination.facts.get("search") or {}).get("best")
    # Nothing that was tried earns as much as doing nothing: what the action costs need not explain nearly all.
    others = [each.mean for each in by.values() if each is not idle and each.mean is not None]
    best = searched is not None and idle.mean > max(searched, *others)
    strength = max(grade(share, 0.5, 0.8), grade(share, 0.3, 0.5) if best and better > 0.7 * spread else 0.0)
    if share > 0.3 and better > 0.3 * spread and strength > 0:
        yield Remark(
            f"the action alone explains {percent(share)} of the reward; doing nothing earns {say(idle.mean)}, acting {say(random.mean)}",
            strength=strength,
        )


@check("ENV413", Severity.LOW, ["henderson2018matters"])
def every_start_is_the_same(examination: Examination) -> Iterator[Remark]:
    """Every seed starts in the same state.

    ## Why it hurts
    Only what lies near that start is learned; from another one the agent may be lost.

    ## When it is fine
    Tasks that begin like that, and are used like that.

    ## Fix
    Draw the start in reset() from self.np_random, and pass the seed on to the inner environment.
    """
    seeding = examination.facts.get("seeding") or {}
    if seeding.get("start_repeats") and not seeding.get("start_varies", True):
        seen = (seeding.get("trace") or {}).get("observations") or [[0.5]]
        # A board is empty at first, and what is on it is counted; a maze whose places are numbered is entered at its door. Where numbers
        # are real, somebody forgot to draw them.
        counted = bool(seeding.get("seed_matters")) and all(float(number).is_integer() for row in seen for number in row)
        chosen = counted or examination.observation.get("kind") == "Discrete"
        yield Remark("five seeds start with the same observation", strength=0.3 if chosen else 1.0)


@check("ENV414", Severity.LOW, ["pardo2018time"])
def time_limit_of_a_few_steps(examination: Examination) -> Iterator[Remark]:
    """Every episode is cut after a few steps.

    ## Why it hurts
    What takes longer is never seen, and most of what is learned from is a start.

    ## When it is fine
    Tasks that are over by then.

    ## Fix
    A larger max_episode_steps.
    """
    lengths, random = examination.random.get("lengths") or [], examination.random
    cut = random.get("truncated") or 0
    longest = max(lengths, default=0)
    if len(lengths) >= 8 and cut >= 0.7 * len(lengths) and 1 < longest < 30:
        yield Remark(f"{cut} of {len(lengths)} random episodes were cut after {longest} steps", strength=grade(-longest, -30, -15))


def _breaks_off(facts: Mapping[str, Any]) -> bool:
    """Whether the last step of an episode leads where no other step does."""
    return (facts.get("end_jump") or 0.0) > JUMP or (facts.get("end_unseen") or 0.0) > 0.5


def _is_overwritten(examination: Examination) -> bool:
    """Whether the last observation is the next episode's first one, rather than the other way round."""
    facts = _facts(examination)
    if examination.breach("reset-does-not-reset") is not None:
        return False
    return (facts.get("last_is_next_start") or 0.0) > 0.9 and _breaks_off(facts) and (facts.get("starts_alike") or 0.0) < 0.5


@check("ENV415", Severity.HIGH, ["pardo2018time"])
def last_observation_belongs_to_the_next_episode(examination: Examination) -> Iterator[Remark]:
    """The last observation of an episode is the first one of the next.

    ## Why it hurts
    The value of where an episode ended is taken from a start: targets at every end are wrong, and where a time limit cuts they are all
    that is learned from there.

    ## When it is fine
    Never in a single environment; vector environments keep the last observation in info.

    ## Fix
    Do not reset inside step(): return the state that the last action led to, and let the caller reset.
    """
    facts = _facts(examination)
    if not _moves(examination) or not facts.get("end_jump"):
        return
    same, jumps = facts.get("last_is_next_start") or 0.0, facts["end_jump"] > JUMP
    if _is_overwritten(examination):
        yield Remark(f"{percent(same)} of the episodes end with the very observation that the next one starts with")
    elif jumps and (facts.get("last_like_start") or 0.0) > 0.8:
        text = f"the last step of an episode moves the observation {say(facts['end_jump'])} times as far as nearly all others do"
        yield Remark(f"{text}, to where episodes start", strength=grade(facts["end_jump"], JUMP, 3 * JUMP))


@check("ENV416", Severity.HIGH, ["nikanjam2022faults"])
def start_is_where_the_last_episode_ended(examination: Examination) -> Iterator[Remark]:
    """reset() shows where the last episode left off.

    ## Why it hurts
    There is one endless episode: starts are never seen again, and what comes after an end is credited to what came before it.

    ## When it is fine
    Continual tasks that mean it.

    ## Fix
    Draw a new start in reset(), and set every attribute that step() changes.
    """
    facts = _facts(examination)
    same = facts.get("last_is_next_start") or 0.0
    lengths = sorted(examination.random.get("lengths") or [0])
    # Where the last state is an end as well, every later episode is over at once.
    at_once = lengths[len(lengths) // 2] <= 2
    if _moves(examination) and same > 0.9 and not _breaks_off(facts) and (at_once or (facts.get("starts_alike") or 0.0) < 0.5):
        yield Remark(f"{percent(same)} of the episodes start with the very observation that the last one ended with")
