"""What was seen in the environment itself, joined to what the logs say.

A fault that is seen in the environment itself is nearly certain, and outranks what a log makes likely. Where the two contradict each
other, that is said: the runs may have been trained on another version, or behind wrappers that were not examined.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from rlclinic.diagnosis import columns
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.causes import HEALTHY, UNKNOWN, known
from rlclinic.diagnosis.findings import Cause, Diagnosis, Evidence, Finding, GroupFinding, Remedy, Severity, Witness
from rlclinic.diagnosis.lint.env import reading
from rlclinic.diagnosis.lint.env.linter import EnvLint
from rlclinic.diagnosis.registry import grade, percent, say

CAUSES: Final[dict[str, tuple[str, float]]] = {
    "ENV107": ("environment-not-finite", 0.97),
    "ENV201": ("environment-not-finite", 0.9),
    "ENV111": ("observation-not-updated", 0.6),
    "ENV114": ("action-bounds", 0.95),
    "ENV113": ("action-bounds", 0.6),
    "ENV115": ("action-bounds", 0.92),
    "ENV206": ("never-reset", 0.8),
    "ENV207": ("actions-without-effect", 0.98),
    "ENV209": ("time-limit-missing", 0.85),
    "ENV211": ("time-limit-as-terminal", 0.88),
    "ENV212": ("environment-changed", 0.88),
    "ENV301": ("observation-constant", 0.98),
    "ENV302": ("observation-partial", 0.75),
    "ENV303": ("observation-scale", 0.92),
    "ENV307": ("reward-never-seen", 0.96),
    "ENV308": ("reward-never-seen", 0.6),
    "ENV309": ("reward-scale-too-large", 0.93),
    "ENV310": ("reward-scale-too-small", 0.93),
    "ENV312": ("reward-sparse", 0.72),
    "ENV401": ("observation-not-updated", 0.97),
    "ENV402": ("observation-late", 0.94),
    "ENV403": ("observation-noise", 0.92),
    "ENV404": ("observation-scale", 0.93),
    "ENV405": ("observation-scale", 0.93),
    "ENV406": ("actions-without-effect", 0.93),
    "ENV407": ("reward-delayed", 0.92),
    "ENV408": ("reward-sparse", 0.92),
    "ENV409": ("reward-noise", 0.92),
    "ENV410": ("reward-clipped", 0.92),
    "ENV411": ("reward-sign", 0.96),
    "ENV412": ("deceptive-reward", 0.92),
    "ENV413": ("starts-identical", 0.8),
    "ENV414": ("episode-too-short", 0.85),
    "ENV415": ("final-observation-overwritten", 0.94),
    "ENV416": ("never-reset", 0.96),
}
"""By check of an environment: the cause that it testifies to, and how certain that is at full strength."""
REFUTES: Final[dict[str, str]] = {
    "actions-without-effect": "actions have an effect there",
    "observation-constant": "observations change there",
    "observation-not-updated": "observations change within its episodes",
    "reward-never-seen": "random actions are paid there",
    "environment-not-finite": "every number was finite there",
    "reward-noise": "its rewards can be explained by states and actions",
}
"""Causes that a log may suggest, and what it means if the environment does not show them."""
HIDDEN: Final = {
    "observation-constant": ("actions-without-effect", "observation-noise", "observation-late", "observation-partial", "reward-noise"),
    "observation-not-updated": ("actions-without-effect", "observation-noise", "observation-late", "observation-partial", "reward-noise"),
    "observation-noise": ("actions-without-effect", "reward-noise", "observation-late", "final-observation-overwritten"),
    "observation-late": ("actions-without-effect", "observation-partial"),
    "starts-identical": ("observation-partial",),
    "reward-clipped": ("reward-scale-too-small", "episode-too-short", "deceptive-reward"),
    "reward-scale-too-small": ("episode-too-short",),
    "episode-too-short": ("actions-without-effect",),
    "never-reset": (
        "observation-scale",
        "reward-scale-too-large",
        "reward-sign",
        "reward-never-seen",
        "deceptive-reward",
        "observation-constant",
        "episode-too-short",
        "environment-changed",
        "observation-not-updated",
        "observation-partial",
        "observation-late",
        "observation-noise",
        "action-bounds",
        "starts-identical",
        "reward-delayed",
        "reward-noise",
    ),
    "reward-shifted": ("reward-sign", "reward-scale-too-large", "deceptive-reward"),
    "environment-changed": ("reward-noise",),
    "time-limit-missing": ("observation-scale", "reward-scale-too-large", "reward-never-seen"),
    "reward-never-seen": ("reward-scale-too-small", "reward-sparse"),
    "reward-sparse": ("actions-without-effect",),
    "reward-delayed": ("observation-partial", "reward-sparse", "reward-noise", "reward-clipped", "reward-sign"),
    "reward-noise": ("reward-scale-too-large", "reward-sign", "deceptive-reward"),
    "time-limit-as-terminal": ("episode-too-short", "observation-partial"),
    "environment-not-finite": ("observation-partial", "observation-not-updated"),
    "deceptive-reward": ("episode-too-short",),
}
"""By cause: others that cannot be told while it is there."""
NEAR: Final = 0.15
"""How much less certain a cause may be seen than one that it hides."""
ODDS_OF_UNKNOWN: Final = 0.6
FAINT: Final = 0.3
REFUTED: Final = 0.1
"""What is left of the odds of a cause that the environment speaks against."""
UNSEEN: Final = 0.2
"""What is left of a possible cause that lies in the environment and was not seen there."""
ROUNDING: Final = 1e-4


FAULTS_FOR_SURE: Final = frozenset({"ENV107", "ENV201", "ENV206", "ENV207", "ENV301", "ENV401", "ENV415", "ENV416", "EVA801"})
"""Checks of what no task is like on purpose. What else is seen may be how the task is: sparse, noisy, costly, all of one start."""
BEARS_OUT: Final = 0.5
BORNE_OUT_BY_LOG: Final = 0.2
"""How certain another kind of evidence must be to bear a sign out, and how likely its cause must be by the log."""
MEANT: Final = 0.8
"""How often what is seen by one kind of evidence alone, of what may be how the task is, is what is wrong."""
SIZES: Final = frozenset({"observation-scale", "reward-scale-too-large", "reward-scale-too-small", "action-bounds"})
"""Causes that are sizes: whoever meant them, networks learn badly from them."""
MAY_BE_MEANT: Final = "one kind of evidence: it may be meant"
Kind = Literal["play", "attributes", "text", "threshold", "evaluation"]
JOINED: Final = frozenset({"threshold", "evaluation"})
"""Kinds that are two already: what is paid beside what is asked for, training beside evaluation."""


@dataclass(frozen=True)
class Sign:
    """One thing that was seen, and the cause that it speaks for."""

    cause: str
    certainty: float
    check: str
    text: str
    fix: str = ""
    kind: Kind = "play"
    """Of evidence: what was played, what the environment keeps in its attributes, its text; what is paid beside what is asked for, or
    training beside evaluation."""
    borne_out: str = ""
    """What another kind of evidence says of the same cause."""

    @property
    def sure(self) -> bool:
        """Whether nobody can have meant it: it is a fault wherever it is seen, or two kinds of evidence agree."""
        return (self.check in FAULTS_FOR_SURE and self.kind == "play") or self.kind in JOINED or bool(self.borne_out)


def find_signs(lint: EnvLint, facts: Mapping[str, Any], cases: Sequence[Case]) -> list[Sign]:
    """What an environment shows that would explain a run that does not learn; settings that make up for it are allowed for."""
    signs = [_of_finding(finding) for finding in lint.findings if finding.rule in CAUSES]
    signs += [
        *_judge_farming(lint, cases),
        *(replace(one, kind="threshold") for one in _judge_sign(facts, cases)),
        *_judge_sizes(facts),
        *_judge_hidden(facts),
        *_judge_clock(facts),
        *(replace(one, kind="threshold") for one in _judge_reach(facts, cases)),
        *(replace(one, kind="threshold") for one in _judge_cut(facts, cases)),
        *_judge_costs(facts, cases),
        *_judge_failures(facts),
        *(replace(one, kind="threshold") for one in _judge_ease(facts, cases)),
        *(replace(one, kind="attributes") for one in (*_judge_inside(facts), *_judge_counts(facts))),
        *(replace(one, kind="text") for one in _judge_text(facts, cases)),
    ]
    signs = [one if one.check != "ENV412" else replace(one, certainty=one.certainty * _weigh_costs(facts, cases)) for one in signs]
    signs = [one if one.check != "ENV409" else replace(one, certainty=one.certainty * _weigh_chance(facts, cases)) for one in signs]
    if _is_won_by_chance(facts, cases):
        signs = [one for one in signs if one.check != "ENV312"]
    if _tells_time(facts) or _ends_by_events(facts):
        signs = [one if one.check != "ENV211" else replace(one, certainty=min(one.certainty, ODD_BUT_SHOWN)) for one in signs]
    if _is_reached_for_sure(facts, cases):
        signs = [one if one.check not in REACHED else replace(one, certainty=min(one.certainty, ODD_BUT_SHOWN)) for one in signs]
    kept: dict[str, Sign] = {}
    for one in sorted(signs, key=lambda each: -each.certainty):
        if one.certainty >= FAINT and not _is_made_up_for(one.cause, facts, cases):
            first = kept.setdefault(one.cause, one)
            if first.kind != one.kind and one.certainty >= BEARS_OUT and not first.borne_out:
                kept[one.cause] = replace(first, borne_out=one.text)
    inside = facts.get("inside") or {}
    starts, source = kept.get("starts-identical"), facts.get("source") or {}
    if starts is not None and starts.check != SAID:
        meant = bool(source) and reading.draws_at_starts(source["text"], source["class"]) is False
        # What is shown of the starts is the same, and they are not; or nothing is drawn for them, and nothing was meant to be.
        if meant or inside.get("differ_at_starts"):
            del kept["starts-identical"]
    dark = kept.get("observation-partial")
    if dark is not None and dark.text.startswith("observation[") and _shows_what_counts(facts):
        del kept["observation-partial"]
    part = kept.get("actions-without-effect")
    if part is not None and part.check == "ENV208":
        # What that part of the action would move stands still for it.
        kept = {cause: each for cause, each in kept.items() if cause not in ("observation-constant", "observation-not-updated")}
    idle, paid = kept.get("actions-without-effect"), ((facts.get("seeding") or {}).get("trace") or {}).get("rewards") or [0.0, 1.0]
    if idle is not None and idle.check == "ENV207" and np.ptp(paid) < 1e-9:
        # Nothing moves because nothing is done; if only the sight of it were frozen, some steps would be paid more than others.
        kept = {cause: one for cause, one in kept.items() if cause not in ("observation-constant", "observation-not-updated")}
    # What is seen faintly does not stand in the way of what is seen clearly.
    hidden = {
        other
        for cause, one in kept.items()
        for other in HIDDEN.get(cause, ())
        if other in kept and kept[other].certainty < one.certainty + NEAR
    }
    return [one for one in kept.values() if one.cause not in hidden]


def _of_finding(finding: Finding) -> Sign:
    cause, certainty = CAUSES[finding.rule]
    fix = finding.remedies[0].text if finding.remedies else ""
    return Sign(cause, certainty * min(1.0, finding.strength), finding.rule, finding.text, fix)


def _is_made_up_for(cause: str, facts: Mapping[str, Any], cases: Sequence[Case]) -> bool:
    """Whether a setting of the runs, or a wrapper, undoes it."""
    first, wrappers = cases[0], facts.get("running_statistics") or ()
    if cause == "observation-scale":
        return first.setting("env.normalize_obs") is True or "NormalizeObservation" in wrappers
    if cause in ("reward-scale-too-large", "reward-scale-too-small"):
        return first.setting("env.normalize_reward") is True or "NormalizeReward" in wrappers
    if cause == "time-limit-missing":
        # Episodes of the runs had a length: something ended them.
        return first.has(columns.LENGTH)
    # Actors of these map their output to whatever the box is.
    return cause == "action-bounds" and first.algo in columns.ACTORS


def _judge_farming(lint: EnvLint, cases: Sequence[Case]) -> Iterator[Sign]:
    """A reward that can be farmed, where success is asked for and no run has it: without, nobody says what finishing is."""
    if any(case.required_success is None or case.solved_at is not None for case in cases):
        return
    for finding in lint.findings:
        if finding.rule == "ENV214":
            fix = finding.remedies[0].text if finding.remedies else ""
            yield Sign("reward-gamed", 0.9 * min(1.0, finding.strength), finding.rule, finding.text, fix)


def _judge_sign(facts: Mapping[str, Any], cases: Sequence[Case]) -> Iterator[Sign]:
    """What thresholds and returns say of signs; little, where the text pays more for something that nobody has done yet."""
    unseen = _pays_more_than_seen(facts)
    for one in _compare_with_opposite(facts, cases):
        yield replace(one, certainty=min(one.certainty, ODD_BUT_SHOWN)) if unseen and one.cause == "reward-sign" else one


def _pays_more_than_seen(facts: Mapping[str, Any]) -> bool:
    source, rewards, ran = facts.get("source") or {}, facts.get("rewards") or {}, (facts.get("inside") or {}).get("lines_run")
    if not source.get("text") or not ran or not rewards:
        return False
    # What was paid with the other sign was met.
    return reading.pays_more_than_seen(source["text"], source["class"], ran, max(abs(rewards["min"]), abs(rewards["max"])))


def _compare_with_opposite(facts: Mapping[str, Any], cases: Sequence[Case]) -> Iterator[Sign]:
    """A threshold that no policy comes near, and that the opposite reward would reach."""
    threshold, searched, rewards = cases[0].threshold, facts.get("search") or {}, facts.get("rewards") or {}
    if not threshold or "best" not in searched or "worst" not in searched or not rewards:
        return
    best, worst = _find_range(facts, searched)
    room = 0.25 * (best - worst) + 0.02 * abs(threshold)
    # No step ever pays what the threshold is made of.
    opposite = (threshold > 0 >= max(rewards["max"], best)) or (threshold < 0 <= min(rewards["min"], worst))
    if opposite and -best - room <= threshold <= -worst + room and best > worst:
        # Where the action alone is what is paid for, and doing nothing costs nothing, it is the price of actions that is too high.
        priced = ((facts.get("transitions") or {}).get("reward_by_action") or 0.0) > 0.8
        span = f"{say(worst)} to {say(best)}"
        yield Sign(
            "reward-sign",
            0.7 if priced else 0.93,
            "ENV411",
            f"simple policies return {span}; the threshold is {say(threshold)}, which only the opposite reward could reach",
            "turn the sign of the reward in step()",
        )
    elif rewards["min"] == rewards["max"] and (threshold * rewards["max"] <= 0 or rewards["max"] < threshold < 0):
        # A threshold of costs that is above a single step's cost is out of reach of the shortest episode.
        text = f"every random step pays {say(rewards['max'])}, whatever is done; the threshold is {say(threshold)}"
        yield Sign("reward-never-seen", 0.92, "ENV307", text, "pay for what is to be done, or correct the threshold")
    elif _pays_most_for_an_end(facts, threshold, best):
        text = (
            f"every step costs, and the sooner an episode ends the better; no end pays more than {say(rewards['end_max'])}, "
            f"and the threshold is {say(threshold)}"
        )
        yield Sign("reward-sign", 0.88, "ENV411", text, "turn the sign of the reward in step()")
    elif _is_out_of_reach(facts, threshold, best) and threshold <= -worst:
        most, longest = say(max(rewards["max"], 0.0)), _find_longest(facts)
        text = (
            f"no step pays more than {most}, which {longest} steps cannot add up to the threshold of {say(threshold)}; "
            f"a simple policy returns {say(worst)}, which the opposite reward would pay for"
        )
        yield Sign("reward-sign", 0.9, "ENV411", text, "turn the sign of the reward in step()")
    elif threshold > 0 and best + 0.05 * (best - worst) < threshold <= -worst < 2 * threshold:
        # The best of a search may be far from the best there is; of a table that was solved it is not, and where three shapes of policies
        # with as much time for either direction come there in the one and not in the other, it hardly is. And a task that always doing the
        # same would solve is none: the opposite reward must take a policy that reacts, too.
        if -_find_worst_constant(facts) >= threshold or not (searched.get("solved") or searched.get("thorough")):
            return
        text = f"no simple policy returns more than {say(best)}; one returns {say(worst)}, and the threshold is {say(threshold)}"
        certainty = 0.72 if searched.get("solved") else 0.62
        yield Sign("reward-sign", certainty, "ENV411", text, "turn the sign of the reward in step(), if it is wrong")


def _find_longest(facts: Mapping[str, Any]) -> int:
    """The most steps that an episode can have; 0 where it has no end."""
    lengths = (facts.get("random") or {}).get("lengths") or []
    return int(facts.get("time_limit") or _find_cut(facts) or (max(lengths) if len(set(lengths[:20])) == 1 else 0))


def _is_out_of_reach(facts: Mapping[str, Any], threshold: float, best: float) -> bool:
    """Whether the largest reward of any step cannot add up to the threshold, where rewards are many and of few sizes or bounded."""
    rewards, longest = facts["rewards"], _find_longest(facts)
    seen = (facts.get("transitions") or {}).get("at_most") or 0.0
    # The largest reward is met often: what pays more is not simply still to be found.
    usual = rewards["max"] > 0 and (rewards.get("distinct", np.inf) <= 8 or seen > 0.02) and rewards["nonzero"] > 0.5
    return threshold > 0 and bool(longest) and usual and best < threshold and longest * rewards["max"] < 0.9 * threshold


def _pays_most_for_an_end(facts: Mapping[str, Any], threshold: float, best: float) -> bool:
    """Whether staying costs at every step and ends cost less, where the threshold could only be met by staying for the opposite reward.

    Random episodes end by themselves, so that what ends pay is known; a goal that nobody has met yet would be another matter.
    """
    rewards, random = facts["rewards"], facts.get("random") or {}
    lengths, limit = random.get("lengths") or [], facts.get("time_limit")
    if "end_max" not in rewards or "before_end_max" not in rewards or len(lengths) < 20 or random.get("terminated") != len(lengths):
        return False
    stays_cost = rewards["before_end_max"] <= 0 and rewards["end_mean"] > max(rewards["before_end_mean"], 0.0)
    return (
        stays_cost and threshold > max(10 * rewards["end_max"], best) and -rewards["before_end_mean"] * (limit or np.inf) >= 0.5 * threshold
    )


def _find_worst_constant(facts: Mapping[str, Any]) -> float:
    """The lowest mean return of always doing the same; 0 where nothing of the kind was played."""
    played = [record.get("returns") or [] for record in (facts.get("constant") or {}).values()]
    return min((float(np.mean(returns)) for returns in played if returns), default=0.0)


def _find_range(facts: Mapping[str, Any], searched: Mapping[str, Any]) -> tuple[float, float]:
    """The best and the worst mean return of all policies that were tried: random, constant, and those of the search."""
    played = [(facts.get("random") or {}).get("returns") or []]
    played += [record.get("returns") or [] for record in (facts.get("constant") or {}).values()]
    means = [float(np.mean(returns)) for returns in played if returns]
    return max([searched["best"], *means]), min([searched["worst"], *means])


def _judge_hidden(facts: Mapping[str, Any]) -> Iterator[Sign]:
    """Numbers that never change, and actions that are paid for while nothing that is shown depends on them."""
    effects, dimensions = facts.get("effects") or {}, [] if facts.get("summed_up") else facts.get("dimensions") or []
    fixed = [place for place, each in enumerate(dimensions) if each["std"] == 0]
    unseen = effects.get("rewards_differ_from") is not None and effects.get("observations_differ_from") is None
    if unseen and 0 < len(fixed) < len(dimensions):
        text = f"other actions are paid otherwise and nothing that is observed differs; observation{fixed[:8]} never changes"
        yield Sign("observation-partial", 0.96, "ENV302", text, "show what actions change, or look whether its sensor works")


def _judge_failures(facts: Mapping[str, Any]) -> Iterator[Sign]:
    """Ends without success that pay more than any step on the way."""
    failed, rewards = (facts.get("transitions") or {}).get("failed_pays"), facts.get("rewards") or {}
    if failed is not None and failed > 0 and failed > 2 * max(rewards.get("before_end_max", failed), 0.0):
        text = f"an end without success pays {say(failed)}, and no step before it more than {say(rewards['before_end_max'])}"
        yield Sign("reward-sign", 0.86, "ENV411", text, "turn the sign of what a failed end pays")


def _judge_ease(facts: Mapping[str, Any], cases: Sequence[Case]) -> Iterator[Sign]:
    """A threshold that random actions meet: what is paid is not what it was set for."""
    threshold, rewards, returns = cases[0].threshold, facts.get("rewards") or {}, (facts.get("random") or {}).get("returns") or []
    if threshold is None or len(returns) < 8 or not rewards:
        return
    mean, error = float(np.mean(returns)), float(np.std(returns) / np.sqrt(len(returns)))
    if mean < threshold + 0.2 * abs(threshold) + 4 * error:
        return
    text = f"random actions return {say(mean)}, and the threshold is {say(threshold)}"
    if threshold < 0 < rewards["mean"] and rewards["max"] > 3 * abs(min(rewards["min"], 0.0)):
        yield Sign("reward-sign", 0.88, "ENV411", f"{text}: costs are paid as if they were earned", "turn the sign of the reward in step()")
    elif threshold < 0 and rewards["max"] <= 0 and 0 < _find_cut(facts) <= SHORT_EPISODE:
        text = f"{text}: episodes are cut after {_find_cut(facts)} steps, before what every step costs adds up"
        yield Sign("episode-too-short", 0.88, "ENV414", text, "a larger max_episode_steps")
    elif rewards["mean"] > rewards["std"] and _is_paid_for_acting(facts):
        yield Sign("deceptive-reward", 0.88, "ENV412", f"{text}: what is done is paid, whatever it leads to", "pay for what is reached")
    elif rewards["mean"] > rewards["std"]:
        text = f"{text}: every step pays about {say(rewards['mean'])}, whatever is done"
        yield Sign("reward-shifted", 0.88, "ENV411", text, "take away what is paid for every step")


def _name(facts: Mapping[str, Any], attribute: str) -> str:
    """An attribute with the line of the environment's file that makes it, where there is one."""
    source, ran = facts.get("source") or {}, set((facts.get("inside") or {}).get("lines_run") or [])
    made = re.compile(rf"self\.{re.escape(attribute)}\b[^=]*=(?!=)")
    lines = [number for number, line in enumerate(str(source.get("text") or "").splitlines(), 1) if made.search(line) and number in ran]
    return f"self.{attribute}" + (f" ({Path(str(source['file'])).name}:{lines[-1]})" if lines else "")


def _is_paid_for_acting(facts: Mapping[str, Any]) -> bool:
    """Whether what a step pays is much another for another action that is always taken."""
    played = [record for record in (facts.get("constant") or {}).values() if record.get("returns")]
    rates = [float(np.sum(each["returns"]) / np.sum(each["lengths"])) for each in played]
    return len(rates) > 1 and max(rates) - min(rates) > 0.5 * abs(facts["rewards"]["mean"])


MENT: Final = ("level", "curriculum", "difficulty", "stage", "phase", "episode", "total", "lesson", "elo", "rating", "statistic", "record")
"""Words in names of what is meant to outlive a reset."""


def _judge_inside(facts: Mapping[str, Any]) -> Iterator[Sign]:
    """What the environment keeps in its own attributes (rlclinic.training.envs.examine.inside)."""
    seen, source = facts.get("inside") or {}, facts.get("source") or {}
    meant = reading.kept_on_purpose(source["text"], source["class"]) if source.get("text") else frozenset()
    left = [name for name in seen.get("left_that_matter") or [] if name not in meant and not any(word in name.lower() for word in MENT)]
    if left:
        text = f"reset() leaves {_name(facts, left[0])} as the last episodes left it, and episodes differ for it"
        yield Sign("never-reset", 0.955, "ENV206", text, f"set self.{left[0]} again in reset()")
    tried, exchanged, told = seen.get("parts_tried") or 0, seen.get("exchanged") or {}, seen.get("told") or {}
    idle = [place for place, count in enumerate(seen.get("parts") or []) if count == 0]
    if idle and tried >= FEWEST_STATES:
        text = f"action{idle}: its lowest and its highest value led to the same from {tried} states, for six steps"
        yield Sign("actions-without-effect", 0.93, "ENV208", text, "use that part of the action in step(), or drop it from the space")
    counted = {
        name: each for name, each in exchanged.items() if each["tried"] >= 4 and max(each["paid"], each["ended"]) >= 0.3 * each["tried"]
    }
    owed = [name for name, each in counted.items() if each["owed"] >= 0.3 * each["tried"] and not each["shown"]]
    blind = [
        name
        for name, each in exchanged.items()
        if (name in counted or (not each["shown"] and each["paid"] >= 2 and each["tried"] >= 4))
        and name not in owed
        # A card that lies face down is chance, and nobody forgot to show it.
        and name not in (seen.get("drawn_again") or ())
        and told.get(name, 0.0) < SEEN
        and (not each["shown"] or each["ahead"] >= 0.5 * max(each["paid"], 1))
    ]
    if owed:
        text = f"{_name(facts, owed[0])} is summed up, shown nowhere, and paid at one later step"
        yield Sign("reward-delayed", 0.94, "ENV407", text, "pay each step what it earned")
    elif (
        len(counted) > 1
        and not any(each["shown"] or each.get("now") for each in counted.values())
        and min(told.get(name, 0.0) for name in counted) < 0.95
    ):
        text = f"no observation answers to any of {', '.join(f'self.{name}' for name in list(counted)[:3])}, which decide what is paid"
        yield Sign("observation-not-updated", 0.94, "ENV401", text, "make the observation anew from the state in step()")
    elif blind:
        # What only decides when it is over, as lives that are left do, makes nothing unlearnable.
        paid = any(exchanged[name]["paid"] for name in blind)
        text = f"{_name(facts, blind[0])} decides {'what is paid' if paid else 'when it is over'}, and no observation answers to it"
        yield Sign("observation-partial", 0.92 if paid else ODD_BUT_SHOWN, "ENV302", text, f"show self.{blind[0]} in the observation")
    else:
        carried = seen.get("carried") or {}
        # Neither what is shown now answers to it, nor can it be told from that otherwise.
        unseen = [
            name
            for name, each in counted.items()
            if seen.get("looked_at_once")
            and each.get("now") == 0
            and told.get(name, 1.0) < HARDLY_SEEN
            and carried.get(name, 0.0) > CARRIED
        ]
        if unseen:
            text = f"{_name(facts, unseen[0])} carries what was done before, decides what is paid, and the observation does not tell it"
            yield Sign("observation-partial", 0.86, "ENV302", text, f"show self.{unseen[0]} in the observation, or stack frames")
    shown = seen.get("shown") or []
    late = [each for each in shown if each["as"] == "late"]
    lost = [each for each in shown if each["as"] in ("size", "cut")]
    if held := [each for each in shown if each["as"] == "held"]:
        text = f"observation[{held[0]['column']}] is self.{held[0]['name']}, made anew every {say(held[0]['share'])} steps only"
        yield Sign("observation-not-updated", 0.88, "ENV401", text, "make the observation anew from the state at every step")
    if late:
        text = f"observation[{late[0]['column']}] is self.{late[0]['name']} of {say(late[0]['share'])} steps before"
        yield Sign("observation-late", 0.93, "ENV402", text, "return the newest state")
    if len(lost) >= 2:
        how = "without its sign" if lost[0]["as"] == "size" else f"cut off in {percent(lost[0]['share'])} of the steps"
        text = f"observation[{lost[0]['column']}] is self.{lost[0]['name']} {how}; {len(lost)} numbers are like that"
        yield Sign("observation-partial", 0.9, "ENV302", text, "show the whole range, sign and all")
    noise = grade(seen.get("drawn_anew") or 0.0, 0.12, 0.3)
    if noise > 0:
        text = f"{percent(seen['drawn_anew'])} of what observations vary by differs when the same state is looked at twice"
        yield Sign(
            "observation-noise", 0.95 * noise, "ENV403", text, "is the noise meant to be that large? Average, stack frames, or use a memory"
        )


REACHED: Final = frozenset({"ENV307", "ENV308", "ENV312", "ENV406", "ENV408", "ENV410", "ENV412"})
"""Checks of what stands in the way of every policy: of none, where a simple one meets the threshold by what is shown and paid."""
PICTURE: Final = re.compile(r"Box\(\d+, \d+, \(\d+, \d+, \d+\), uint8\)")
NOW_AND_THEN: Final = 0.1
MANY_NUMBERS, FEW_OF_THEM = 12, 0.1
"""Numbers of an observation of which so small a share may stand still."""
ODD_BUT_SHOWN: Final = 0.35
"""How certain the end of a time may be a fault that observations tell."""
SAID: Final = "ENV203"
"""The check of seeds, where the text shows one that is fixed."""
FEWEST_STATES: Final = 12
HARDLY_SEEN, CARRIED = 0.2, 0.3
TOLD: Final = 0.95
SEEN: Final = 0.5
"""The share of an attribute that observations tell from which on it is shown."""


def _judge_text(facts: Mapping[str, Any], cases: Sequence[Case]) -> Iterator[Sign]:
    """What the environment's own text says, where what was measured does not speak against it."""
    source, seen, random = facts.get("source") or {}, facts.get("inside") or {}, facts.get("random") or {}
    if not source.get("text") or not seen.get("lines_run"):
        return
    rewards, paid = facts.get("rewards") or {}, reading.by_cause(reading.read(source["text"], source["class"], seen["lines_run"]))
    for cause, passage in paid.items():
        where = f"{Path(str(source['file'])).name}:{passage.line}: {passage.text[:100]}: {passage.what}"
        if cause == "starts-identical":
            same_starts = not seen.get("differ_at_starts") or (facts.get("seeding") or {}).get("start_varies") is False
            again = (facts.get("seeding") or {}).get("seed_matters") is False
            if same_starts or again:
                yield Sign(cause, 0.96, SAID, where, "pass the seed on: super().reset(seed=seed), and draw from self.np_random")
        elif cause == "reward-sign":
            reached = _is_within_reach(facts, cases)
            certainty = (0.94 if passage.share > 0.6 else 0.88) - (0.5 if reached else 0.0)
            yield Sign(cause, certainty, "ENV411", where, "turn the sign of this term")
        elif cause == "reward-shifted":
            yield Sign(cause, 0.95, "ENV411", where, "turn the sign of this number")
        elif cause == "reward-sparse" and rewards.get("nonzero", 1.0) < 0.3:
            yield Sign(cause, 0.9, "ENV408", where, "pay the number as it is")
        elif cause == "deceptive-reward":
            yield Sign(cause, 0.85 - (0.5 if _is_within_reach(facts, cases) else 0.0), "ENV412", where, "pay for the way that leads there")
        elif cause == "time-limit-as-terminal":
            counter = passage.what.removeprefix("self.").removesuffix(" counts steps")
            if (seen.get("told") or {}).get(counter, 1.0) < SEEN:
                yield Sign(cause, 0.93, "ENV211", f"{where}, and the observation does not tell it", "return the limit as truncated")
        elif cause == "time-limit-missing" and not random.get("returns"):
            yield Sign(cause, 0.97, "ENV209", where, "compare with >=, or count whole steps")


def _is_within_reach(facts: Mapping[str, Any], cases: Sequence[Case]) -> bool:
    """Whether a simple policy meets the threshold that random actions do not: then what is paid is what was meant."""
    threshold, searched, random = cases[0].threshold, facts.get("search") or {}, (facts.get("random") or {}).get("returns") or []
    if threshold is None or "best" not in searched or not random:
        return False
    return float(np.mean(random)) < threshold <= float(searched["best"])


def _is_reached_for_sure(facts: Mapping[str, Any], cases: Sequence[Case]) -> bool:
    """The same, and neither by the luck of a few episodes nor within what random actions return now and then."""
    threshold, searched, random = cases[0].threshold, facts.get("search") or {}, (facts.get("random") or {}).get("returns") or []
    if threshold is None or "best_error" not in searched or len(random) < 8:
        return False
    chance = float(np.mean(random)) + 4 * float(np.std(random) / np.sqrt(len(random)))
    return chance < threshold <= float(searched["best"]) - 2 * float(searched["best_error"])


def _is_won_by_chance(facts: Mapping[str, Any], cases: Sequence[Case]) -> bool:
    """Whether random actions succeed now and then, and one success is all that is asked for: a game that pays at its end."""
    threshold, pays = cases[0].threshold, (facts.get("transitions") or {}).get("success_pays")
    if threshold is None or pays is None:
        return False
    return ((facts.get("random") or {}).get("success") or 0.0) >= NOW_AND_THEN and pays >= threshold > 0


def _shows_what_counts(facts: Mapping[str, Any]) -> bool:
    """Whether parts of a picture, or a few of many numbers, stay as they are, and all that decides what is paid shows in the rest."""
    dimensions, inside = facts.get("dimensions") or [], facts.get("inside") or {}
    tried, told = inside.get("exchanged") or {}, inside.get("told") or {}
    counts = {name: each for name, each in tried.items() if each["tried"] >= 4 and each["paid"] + each["ended"] > 0}
    if counts and all(told.get(name, 0.0) >= TOLD for name in counts):
        # A number that is always 1 hides nothing where the others tell all of it.
        return True
    moved, space = list(counts.values()), facts.get("observation_space") or {}
    if len(space.get("shape") or []) == 3:
        return bool(moved) and all(each["shown"] for each in moved)
    if PICTURE.search(str(space.get("text"))):
        # Beside a picture there may be words and numbers. Where nothing has been paid yet, every attribute may count.
        often = moved or [each for each in tried.values() if each["tried"] >= 4]
        return bool(often) and all(each["shown"] >= 0.75 * each["tried"] for each in often)
    fixed = sum(each["std"] == 0 for each in dimensions)
    if len(dimensions) < MANY_NUMBERS or fixed > FEW_OF_THEM * len(dimensions):
        return False
    return bool(moved) and all(max(each["shown"], each.get("now", 0)) >= 0.9 * each["tried"] for each in moved)


def _tells_time(facts: Mapping[str, Any]) -> bool:
    """Whether the observation tells a count of steps that the environment keeps: a number of rounds may be the task's own."""
    seen = facts.get("inside") or {}
    return any((seen.get("told") or {}).get(name, 0.0) >= SEEN for name in seen.get("clocks") or ())


def _ends_by_events(facts: Mapping[str, Any]) -> bool:
    """Whether there are counts of steps, and none of them ends anything when it is put forward: random play meets the same event."""
    seen = facts.get("inside") or {}
    return (seen.get("ended") or 0) > 1 and bool(seen.get("by_clock")) and not any(ends for ends, _ in seen["by_clock"].values())


def _judge_counts(facts: Mapping[str, Any]) -> Iterator[Sign]:
    """A count of steps that ends every episode and says `terminated`, where no observation tells it."""
    seen = facts.get("inside") or {}
    for name, (ends, terminated) in (seen.get("by_clock") or {}).items():
        told = (seen.get("told") or {}).get(name, 1.0 if (facts.get("random") or {}).get("shows_clock") else 0.0)
        if ends == terminated == seen["ended"] > 1 and told < SEEN:
            text = f"{_name(facts, name)} counts steps; put forward, it ends episodes that much earlier, as `terminated`"
            yield Sign("time-limit-as-terminal", 0.9, "ENV211", text, "return the limit as truncated")


def _judge_clock(facts: Mapping[str, Any]) -> Iterator[Sign]:
    """A time limit that episodes reach, and that is never reported as one."""
    random, limit = facts.get("random") or {}, facts.get("time_limit")
    lengths = random.get("lengths") or []
    reached = sum(length == limit for length in lengths)
    if limit and reached >= 3 and not random.get("truncated"):
        text = f"{reached} of {len(lengths)} random episodes reach the time limit of {limit} steps, and say `terminated`"
        # Where observations tell the time, the end may be part of the task.
        yield Sign("time-limit-as-terminal", 0.33 if random.get("shows_clock") else 0.95, "ENV211", text, "return the limit as truncated")


def _judge_reach(facts: Mapping[str, Any], cases: Sequence[Case]) -> Iterator[Sign]:
    """A time limit within which steps that all pay about the same cannot add up to the threshold."""
    threshold, rewards, longest = cases[0].threshold, facts.get("rewards") or {}, _find_cut(facts) or facts.get("time_limit") or 0
    lengths = (facts.get("random") or {}).get("lengths") or []
    if threshold and rewards and len(lengths) >= 20 and max(lengths) <= AT_ONCE and max(lengths) * rewards["max"] < 0.35 * threshold:
        text = f"{len(lengths)} random episodes are over after {max(lengths)} steps at most; the threshold is {say(threshold)}"
        yield Sign("episode-too-short", 0.93, "ENV210", text, "look at the condition of `terminated`: is it true at the start?")
        return
    if not threshold or not rewards or not longest:
        return
    most, alike = longest * rewards["max"], rewards["std"] <= 0.2 * abs(rewards["mean"])
    # Where steps pay differently, the best one of many must be far from enough, in a time that is short by itself.
    varied = rewards["nonzero"] > 0.9 and (facts.get("transitions") or {}).get("at_most", 1.0) < 0.1 and longest <= SHORT_EPISODE
    if 0 < most < (0.5 if alike and _find_cut(facts) else 0.35 if varied else 0.0) * threshold:
        text = f"episodes are cut after {longest} steps, which pay {say(most)} at most; the threshold is {say(threshold)}"
        yield Sign("episode-too-short", 0.93, "ENV414", text, "a larger max_episode_steps")


AT_ONCE, SHORT_EPISODE = 3, 25
"""Steps up to which a limit may be too short for what it is there for."""


def _judge_cut(facts: Mapping[str, Any], cases: Sequence[Case]) -> Iterator[Sign]:
    """Rewards that are one small size or none, of both signs, and a threshold that so little can never add up to; or a single cost."""
    threshold, rewards, seen = cases[0].threshold, facts.get("rewards") or {}, facts.get("transitions") or {}
    limit = facts.get("time_limit") or _find_cut(facts)
    if threshold and rewards and limit and 0 > rewards["max"] == rewards["min"] and threshold < 2 * limit * rewards["min"]:
        text = f"every random step costs {say(-rewards['min'])}; {limit} of them cannot add up to the threshold of {say(threshold)}"
        yield Sign("reward-clipped", 0.93, "ENV410", text, "scale rewards instead of clipping them")
        return
    if not threshold or not rewards or not seen.get("both_signs") or seen.get("at_most", 0.0) < 0.999 * rewards["nonzero"]:
        return
    size, longest = abs(rewards["max"]), max([*((facts.get("random") or {}).get("lengths") or []), facts.get("time_limit") or 0])
    if 0 < size < 0.05 and 5 * size * longest < abs(threshold):
        text = f"every reward is {say(size)}, {say(-size)} or none; {longest} steps cannot add up to the threshold of {say(threshold)}"
        yield Sign("reward-clipped", 0.93, "ENV410", text, "scale rewards instead of clipping them")


def _judge_costs(facts: Mapping[str, Any], cases: Sequence[Case]) -> Iterator[Sign]:
    """What actions cost is what keeps simple policies from the threshold: doing nothing is among the best of them."""
    threshold, rewards, constant = cases[0].threshold, facts.get("rewards") or {}, facts.get("constant") or {}
    share = (facts.get("transitions") or {}).get("reward_by_action") or 0.0
    idle, random = constant.get("middle") or constant.get("action 0") or {}, facts.get("random") or {}
    if (
        threshold is None
        or not rewards
        or not idle.get("returns")
        or not random.get("returns")
        or "best" not in (facts.get("search") or {})
    ):
        return
    best, worst = _find_range(facts, facts["search"])
    still, chance = float(np.mean(idle["returns"])), float(np.mean(random["returns"]))
    # What the action alone moves, over an episode; about twice its deviation lies between acting and not.
    cost = 2 * float(np.sqrt(max(share, 0.0))) * rewards["std"] * float(np.mean(random["lengths"]))
    per_step = (still - chance) / float(np.mean(random["lengths"]))
    among_best = still > best - 0.15 * (best - worst) and per_step > 0.4 * rewards["std"]
    if among_best and best < threshold - 0.1 * abs(threshold) and best + cost >= threshold:
        text = (
            f"the action alone explains {percent(share)} of the reward; doing nothing returns {say(still)}, acting {say(chance)}, "
            f"and no simple policy comes near the threshold of {say(threshold)}"
        )
        yield Sign("deceptive-reward", 0.88 * grade(share, 0.15, 0.3), "ENV412", text, "a smaller cost of actions")


HORIZON: Final = 100
"""Steps that count together at a discount of 0.99."""
DIM: Final = 8
"""Of 255: a picture without a brighter spot is all but black to a network."""


def _weigh_costs(facts: Mapping[str, Any], cases: Sequence[Case]) -> float:
    """How much what actions cost is against what is to be gained: a price that reaching the threshold makes up for deceives nobody."""
    threshold, constant, searched = cases[0].threshold, facts.get("constant") or {}, facts.get("search") or {}
    idle = constant.get("middle") or constant.get("action 0") or {}
    if threshold is None or not idle.get("returns") or "worst" not in searched:
        return 1.0
    still, worst = float(np.mean(idle["returns"])), _find_range(facts, searched)[1]
    return 1.0 if threshold <= still else grade((still - worst) / (threshold - still), 1.5, 4.0)


def _weigh_chance(facts: Mapping[str, Any], cases: Sequence[Case]) -> float:
    """How much chance in rewards hides, where the seed fixes it: little, where more is to be gained than episodes differ by."""
    seeding, threshold, returns = facts.get("seeding") or {}, cases[0].threshold, (facts.get("random") or {}).get("returns") or []
    if seeding.get("rewards_repeat") is False:
        return 1.0
    if threshold is None or len(returns) < 8:
        return CHANCE
    return 1.0 - grade((threshold - float(np.mean(returns))) / max(float(np.std(returns)), 1e-9), 0.5, 1.0)


CHANCE: Final = 0.5
"""The same where nobody says what is to be gained."""


def _judge_sizes(facts: Mapping[str, Any]) -> Iterator[Sign]:
    """Sizes at which a run that does not learn is explained by them; less than what is worth a remark before training."""
    seen = facts.get("transitions") or {}
    spreads = [spread for spread in seen.get("spreads") or [] if spread > 1e-9]
    largest = seen.get("largest") or 0.0
    apart = max(spreads) / min(spreads) if spreads else 1.0
    wide = max(grade(largest, 40.0, 120.0), min(grade(largest, 40.0, 90.0), grade(apart, 100.0, 300.0)))
    bytes_shown = (facts.get("observation_space") or {}).get("dtype") == "uint8"
    if bytes_shown and len(facts["observation_space"].get("shape") or []) == 3 and facts.get("dimensions"):
        highest = max(each["max"] for each in facts["dimensions"])
        if 0 < highest <= DIM:
            text = f"no number of the picture is larger than {say(highest)}, of 255: divided by 255 it is nearly black"
            yield Sign("observation-scale", 0.93, "ENV404", text, "use the whole range of the picture")
    if wide > 0 and not bytes_shown:
        text = f"observations reach {say(largest)}" + (f", and their numbers differ in scale by {say(apart)}" if apart > 100 else "")
        yield Sign("observation-scale", 0.93 * wide, "ENV303", text, "scale by known ranges, or normalize observations")
    space = facts.get("action_space") or {}
    if space.get("kind") == "Box" and space.get("bounded"):
        half = max((float(high) - float(low)) / 2 for low, high in zip(space["low"], space["high"], strict=True))
        if half > 10:
            text = f"actions go up to {say(half)}, where a fresh policy's are near 1"
            yield Sign("action-bounds", 0.93 * grade(half, 10.0, 50.0), "ENV115", text, "rescale actions to [-1, 1]")
        halves = (facts.get("effects") or {}).get("half_idle_dimensions") or []
        if halves and len(halves) == len(space["low"]):
            text = "of every number of the action one half does nothing: an end of its range gives the same episode as its middle"
            yield Sign("action-bounds", 0.8, "ENV208", text, "use the whole range in step(), or let the space be what is used")
    rewards = facts.get("rewards") or {}
    if not rewards or (facts.get("random") or {}).get("steps", 0) < 200:
        return
    typical, largest = float(np.hypot(rewards["mean"], rewards["std"])), max(abs(rewards["min"]), abs(rewards["max"]))
    # What is paid by the second, many times a second, adds up.
    horizon = min(max((facts.get("random") or {}).get("lengths") or [HORIZON]), HORIZON)
    small = min(grade(-largest, -0.03, -0.008), grade(-largest * horizon, -1.2, -0.5)) if largest > 0 else 0.0
    large = grade(typical, 12.0, 40.0)
    if large > 0:
        text = f"rewards are typically {say(typical)} a step, from {say(rewards['min'])} to {say(rewards['max'])}"
        yield Sign("reward-scale-too-large", 0.93 * large, "ENV309", text, "divide the reward by a constant, or normalize it")
    if small > 0:
        text = f"no reward is larger than {say(largest)}"
        yield Sign("reward-scale-too-small", 0.93 * small, "ENV310", text, "multiply the reward by a constant")


# ── two environments ──


def compare(training: Mapping[str, Any], evaluation: Mapping[str, Any]) -> list[Sign]:
    """Where the environment of evaluation differs from that of training, the most telling first."""
    differences: list[Sign] = []

    def differ(text: str, certainty: float = 0.95, cause: str = "evaluation-environment-differs") -> None:
        differences.append(Sign(cause, certainty, "EVA801", text, "build both environments with one function", "evaluation"))

    for role in ("observation", "action"):
        ours, theirs = ((facts.get(f"{role}_space") or {}).get("text") for facts in (training, evaluation))
        if ours != theirs:
            differ(f"the {role} space is {ours} in training and {theirs} in evaluation")
    limits = training.get("time_limit"), evaluation.get("time_limit")
    if limits[0] != limits[1]:
        differ(f"the time limit is {limits[0] or 'none'} in training and {limits[1] or 'none'} in evaluation")
    cuts = _find_cut(training), _find_cut(evaluation)
    longest = [max((facts.get("random") or {}).get("lengths") or [0]) for facts in (training, evaluation)]
    if limits[0] == limits[1] and ((0 < cuts[0] < longest[1]) or (0 < cuts[1] < longest[0])):
        differ(f"random episodes last up to {longest[0]} steps in training and up to {longest[1]} in evaluation")
    ours, theirs = (facts.get("seeding") or {} for facts in (training, evaluation))
    for name, what in (("observations_repeat", "observations"), ("rewards_repeat", "rewards")):
        if ours.get(name) is not None and theirs.get(name) is not None and ours[name] != theirs[name]:
            side = "evaluation" if ours[name] else "training"
            differ(f"the same seed and actions give the same {what} again, but not in {side}", 0.93)
    traces = [(facts.get("trace"), *(facts.get("traces") or ())) for facts in (ours, theirs)]
    for mine, other in zip(*traces, strict=False):
        # The same seeds and actions again, until two episodes differ.
        if mine and other and not differences:
            _compare_traces({**ours, "trace": mine}, {**theirs, "trace": other}, differ)
    return differences


def _find_cut(facts: Mapping[str, Any]) -> int:
    """The length that random episodes are cut at; 0 where that cannot be told."""
    random = facts.get("random") or {}
    longest = max(random.get("lengths") or [0])
    reached = sum(length == longest for length in random.get("lengths") or [])
    return longest if reached >= 3 and random.get("truncated") == reached else 0


def _compare_traces(ours: Mapping[str, Any], theirs: Mapping[str, Any], differ: Callable[..., None]) -> None:
    """The same seed and the same actions in both environments."""
    one, two = ours["trace"], theirs["trace"]
    steps = min(len(one["rewards"]), len(two["rewards"]))
    seen = np.array(one["observations"][: steps + 1], float), np.array(two["observations"][: steps + 1], float)
    seen_again = ours.get("observations_repeat") and theirs.get("observations_repeat")
    alike = seen[0].shape == seen[1].shape and np.allclose(seen[0], seen[1], rtol=ROUNDING, atol=ROUNDING)
    if seen_again and not alike:
        if seen[0].shape != seen[1].shape or not len(seen[0]) or not np.allclose(seen[0][0], seen[1][0], rtol=ROUNDING, atol=ROUNDING):
            differ("the same seed starts with another observation in evaluation: scale, normalizer, start or wrapper")
        else:
            differ("the same seed and the same actions lead elsewhere in evaluation")
    paid = np.array(one["rewards"][:steps], float), np.array(two["rewards"][:steps], float)
    if not (alike and ours.get("rewards_repeat") and theirs.get("rewards_repeat")) or np.allclose(*paid, rtol=ROUNDING, atol=ROUNDING):
        return
    if np.allclose(paid[0], -paid[1], rtol=ROUNDING, atol=ROUNDING):
        differ("training is paid the opposite of evaluation, step for step", 0.97, "reward-sign")
    elif np.ptp(paid[0] - paid[1]) < ROUNDING * (1 + np.abs(paid[0]).max()):
        differ(f"training is paid {say(float((paid[0] - paid[1])[0]))} more than evaluation at every step", 0.95, "reward-shifted")
    elif np.abs(paid[0]).max() < 0.9 * np.abs(paid[1]).max() and (np.abs(paid[0]) >= 0.999 * np.abs(paid[0]).max()).mean() > 0.2:
        differ(
            f"rewards of training are cut off at {say(float(np.abs(paid[0]).max()))}, those of evaluation are not", 0.95, "reward-clipped"
        )
    else:
        differ("the same steps are paid something else in evaluation")


# ── joining ──


def join(
    diagnosis: Diagnosis,
    cases: Sequence[Case],
    lint: EnvLint,
    facts: Mapping[str, Any],
    evaluation: tuple[EnvLint, Mapping[str, Any]] | None = None,
) -> Diagnosis:
    """The diagnosis with what the environment shows: causes ranked anew, findings added, contradictions said."""
    seen = find_signs(lint, facts, cases)
    if evaluation is not None:
        seen = _compare_starts(seen, facts, evaluation[1])
    differences = compare(facts, evaluation[1]) if evaluation is not None else []
    if seen and max(one.certainty for one in seen) > 0.75:
        # A fault of one side makes the two differ: it is the cause, and not that they do.
        differences = [one if one.cause != "evaluation-environment-differs" else _fainter(one) for one in differences]
    signs = [*seen, *(one for one in differences if one.cause not in {each.cause for each in seen})]
    done = not lint.skipped.get("random actions") and not lint.skipped.get("contract")
    contradictions = tuple(_find_contradictions(diagnosis, cases, lint, facts, signs, done=done))
    witness = Witness(
        env=lint.name,
        evaluation=None if evaluation is None else evaluation[0].name,
        seen=tuple(one.text for one in seen),
        differences=tuple(one.text for one in differences),
        contradictions=contradictions,
        skipped={phase: why for phase, why in lint.skipped.items() if phase != "scripted actions"},
        seconds=round(lint.seconds, 1),
    )
    causes = _rank(diagnosis, signs, len(cases), done=done)
    calm = causes[0].calm
    found = [_find(one, lint.name, calm=calm) for one in signs]
    first = causes[0]
    return diagnosis.model_copy(
        update={
            "witness": witness,
            "causes": tuple(causes),
            "answer": first.title,
            "findings": (*found, *diagnosis.findings) if not calm else (*diagnosis.findings, *found),
            "cannot_tell": diagnosis.cannot_tell if first.id == diagnosis.causes[0].id else None,
            "remedies": tuple([*(remedy for cause in causes[:2] for remedy in cause.remedies), *diagnosis.remedies][:3]),
        }
    )


def _compare_starts(signs: Sequence[Sign], training: Mapping[str, Any], evaluation: Mapping[str, Any]) -> list[Sign]:
    """Starts that are all alike hinder nobody who is judged from the same one; where evaluation draws them, they are what is wrong."""
    varies = [(facts.get("seeding") or {}).get("start_varies") for facts in (training, evaluation)]
    if varies == [False, True]:
        text = "five seeds start with the same observation in training, and with others in evaluation"
        alike = Sign("starts-identical", 0.97, "ENV413", text, "pass the seed on in training, too", "evaluation")
        return [*(one for one in signs if one.cause not in ("starts-identical", *HIDDEN["starts-identical"])), alike]
    if varies != [False, False]:
        return list(signs)
    return [
        one if one.check != "ENV413" else replace(one, certainty=min(one.certainty, ODD_BUT_SHOWN)) for one in signs
    ]  # fmt: skip


def _fainter(one: Sign) -> Sign:
    return replace(one, certainty=0.5 * one.certainty)


def _rank(diagnosis: Diagnosis, signs: Sequence[Sign], runs: int, *, done: bool) -> list[Cause]:
    """The odds of what was seen beside those of what the log makes likely; one cause that both name has both."""
    before = {cause.id: cause for cause in diagnosis.causes}
    first = diagnosis.causes[0]
    if first.id == HEALTHY or (first.kind == "nothing wrong" and max((one.certainty for one in signs), default=0.0) < 0.85):
        return [_without_refuted(cause, {}) for cause in diagnosis.causes]
    if not signs:
        kept = [_doubt(cause) if done and cause.id in REFUTES else _without_refuted(cause, {}) for cause in diagnosis.causes]
        return sorted(kept, key=lambda cause: -cause.probability)
    chances = {one.cause: one.certainty * (1.0 if one.sure or one.cause in SIZES else MEANT) for one in signs}
    odds = {cause: chance / (1.0 - chance) for cause, chance in chances.items()}
    for cause in diagnosis.causes:
        own = cause.probability / (1.02 - cause.probability) if cause.kind not in ("symptom", "nothing wrong") else ODDS_OF_UNKNOWN
        own = min(own, 1.0) if cause.kind == "symptom" or cause.calm else own
        refuted = cause.id in REFUTES and cause.id not in odds
        odds[cause.id] = odds.get(cause.id, 0.0) + own * ((REFUTED if done else FAINT) if refuted else 1.0)
    total, titles = sum(odds.values()), known()
    by_cause = {one.cause: one for one in signs}
    ranked = []
    for id in sorted(odds, key=lambda each: (-odds[each], each)):
        chance = round(odds[id] / total, 4)
        if id not in by_cause:
            ranked.append(_without_refuted(before[id].model_copy(update={"probability": chance}), by_cause))
            continue
        one, old = by_cause[id], before.get(id)
        title = titles[id].title if id in titles else id.replace("-", " ")
        sure = one.sure or (old is not None and old.kind != "symptom" and old.probability >= BORNE_OUT_BY_LOG)
        ranked.append(
            Cause(
                id=id,
                title=title,
                probability=chance,
                severity=Severity.HIGH if chance >= 0.5 and one.certainty >= 0.7 and sure else Severity.MEDIUM,
                rules=(one.check, *(old.rules if old is not None else ())),
                agree=runs,
                of=runs,
                moved_first=f"seen in the environment: {one.text}" + ("" if sure else f" ({MAY_BE_MEANT})"),
                with_it=" · ".join(filter(None, (one.borne_out, old.moved_first if old is not None else ""))),
                because=old.because if old is not None else "",
                remedies=(Remedy(text=one.fix, effect="> 30 %"), *(old.remedies if old is not None else ()))[:3],
            )
        )
    return [cause for cause in ranked if cause.probability >= 0.02 or cause is ranked[0]][:5]


def _doubt(cause: Cause) -> Cause:
    """What the log makes likely and the environment does not show."""
    odds = REFUTED * cause.probability / (1.02 - cause.probability)
    return cause.model_copy(
        update={
            "probability": round(odds / (1.0 + odds), 4),
            "severity": Severity.LOW if cause.severity is Severity.LOW else Severity.MEDIUM,
        }
    )


def _without_refuted(cause: Cause, signs: Mapping[str, Sign]) -> Cause:
    """A symptom whose possible causes in the environment were looked for there: what was not seen is little likely."""
    if not cause.possible:
        return cause
    weights = [each.probability * (UNSEEN if each.find_in == "environment" and each.id not in signs else 1.0) for each in cause.possible]
    total = sum(weights)
    possible = [
        each.model_copy(update={"probability": round(cause.probability * weight / total, 4)})
        for each, weight in zip(cause.possible, weights, strict=True)
    ]
    kept = sorted((each for each in possible if each.probability >= 0.01), key=lambda each: (-each.probability, each.id))
    return cause.model_copy(update={"possible": tuple(kept)})


def _find(one: Sign, name: str, *, calm: bool) -> GroupFinding:
    severity = Severity.LOW if calm else Severity.HIGH if one.certainty >= 0.8 and one.sure else Severity.MEDIUM
    return GroupFinding(
        rule=one.check,
        name="seen-in-the-environment",
        severity=severity,
        strength=round(one.certainty, 4),
        runs=(),
        judged=0,
        text=one.text,
        evidence=(Evidence(series=f"env:{name}", text=one.text, numbers={"certainty": round(one.certainty, 4)}),),
        onset=None,
        remedies=(Remedy(text=one.fix),) if one.fix else (),
    )


def _find_contradictions(
    diagnosis: Diagnosis, cases: Sequence[Case], lint: EnvLint, facts: Mapping[str, Any], signs: Sequence[Sign], *, done: bool
) -> Iterator[str]:
    """What the log says and the environment does not bear out; `done` if its random episodes were played to the end."""
    named = {one.cause for one in signs}
    for cause in diagnosis.causes[:2]:
        if done and cause.id in REFUTES and cause.id not in named and cause.probability >= 0.2:
            said = f"the log says: {cause.title} (p {cause.probability:.2f}); but {REFUTES[cause.id]}"
            yield f"{said}. Was another version or wrapper trained?"
    length = max((case.signal(columns.LENGTH).top for case in cases if case.has(columns.LENGTH)), default=None)
    limit = lint.time_limit
    if limit is not None and length is not None and length > 1.02 * limit + 1:
        yield f"episodes in the log last up to {say(length)} steps; this environment ends them after {limit}"
    returns = (facts.get("random") or {}).get("returns") or []
    starts = [case.progress.start for case in cases if case.progress is not None]
    if len(returns) >= 8 and starts and not any(one.cause.startswith("reward") for one in signs):
        middle, spread = float(np.mean(returns)), float(np.std(returns))
        gap = abs(float(np.median(starts)) - middle)
        # First means of a log are of few episodes, and of a policy that has begun to learn.
        if gap > 6 * spread + 0.5 * abs(middle) and gap > 1e-6:
            factor = f", {percent(gap / max(abs(middle), 1e-9))} away" if abs(middle) > 1e-9 else ""
            start = say(float(np.median(starts)))
            yield f"the log begins at a return of {start}; random actions return {say(middle)} in this environment{factor}"
    if any(cause.id == UNKNOWN for cause in diagnosis.causes[:1]) and not signs and done:
        yield "nothing wrong was seen in the environment: look for the cause in settings and code"
