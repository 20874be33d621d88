"""Quantities that several rules share: how far an update moves the policy, whether targets vary, when learning broke."""

import math
from typing import Final

import numpy as np

from rlclinic.diagnosis import columns
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.registry import grade
from rlclinic.diagnosis.signals import detect
from rlclinic.diagnosis.signals.detect import Signal

USUAL_CLIP: Final = 0.2
USUAL_CRITIC: Final = 0.5
"""vf_coef where nobody says otherwise."""
TINY_STEP: Final = 0.02
"""Below this share of a usual step the policy stands still for practical purposes: a hundred updates make one."""


def has_sentinels(case: Case) -> bool:
    """Whether more was logged than what frameworks write by themselves."""
    return any(name.startswith("train/sentinel/") for name in case.history.series)


def follows_bonus(case: Case) -> float:
    """1 where nearly all that was paid is a bonus for what is new: the policy goes where that is, whatever the task's return does."""
    share = case.signal("train/bonus/share")
    return grade(share.median, 0.3, 0.7) if len(share) else 1.0 if case.setting("bonus.kind") else 0.0


def kl(case: Case) -> Signal:
    """KL per update: the training's own estimate, or the exact one that is logged now and then.

    With one gradient step per rollout the training's own is measured before that step, and is 0 by definition.
    """
    own, exact = case.signal(columns.KL), case.sentinel("kl_exact")
    blind = case.planned_updates == 1 and len(exact) > 0
    return own if len(own) and not blind else exact


def step_scale(case: Case) -> float:
    """The KL of a usual update.

    PPO: clip² / 2, where a ratio of 1 ± clip is one deviation; 0.02 at 0.2. Algorithms that take one gradient step per rollout
    move far less each time, the less the shorter their rollouts: 4e-5 for A2C's 40 transitions, 2e-3 for REINFORCE's thousands.
    """
    if case.algo in ("a2c", "reinforce"):
        return 2e-3 * min((case.rollout or 512) / 512, 1.0) ** 1.5
    usual = min(max(case.real("algo.clip_range") or USUAL_CLIP, 0.1), 0.3)
    return usual * usual / 2


def step_size(case: Case, start: float = 0.05, end: float = 0.5) -> float:
    """Median KL of an update between two shares of the run, in units of a usual step; NaN if no KL was logged.

    The first half: schedules that end at 0 make late steps small on purpose.
    """
    measured = kl(case)
    if not len(measured):
        return math.nan
    first, last = case.span
    until = min(first + end * (last - first), math.inf if case.solved_at is None else case.solved_at)
    part = measured.between(first + start * (last - first), until)
    return (part if len(part) >= 3 else measured).median / step_scale(case)


def is_continuous(case: Case) -> bool:
    """Whether actions are continuous: then the policy has a deviation, and its entropy has no floor."""
    return case.has(columns.sentinel("action_std_max")) or case.has(columns.ACTION_STD)


def relative_entropy(case: Case) -> Signal:
    """Entropy as a share of the largest possible; empty for continuous actions and where it is unknown.

    Where only the entropy itself was logged, the largest that was seen stands for it: policies start out random, and one that was
    sure of itself at first shows later what it could have chosen from. None is held against less than a coin's ln 2.
    """
    known, entropy = case.sentinel("entropy_relative"), case.signal(columns.ENTROPY)
    if is_continuous(case):
        return known.between(math.inf, -math.inf)
    if len(known) or not len(entropy) or entropy.values.min() < 0:
        return known
    first = float(entropy.share(0.0, 0.1).values.max())
    most = max(first if first > 0.5 * math.log(2) else math.log(2), float(entropy.values.max()))
    return Signal(entropy.steps, entropy.values / most, entropy.low / most, entropy.high / most, columns.ENTROPY)


def in_learning(case: Case, signal: Signal) -> Signal:
    """The part of a computed signal in which the run had something to learn; see Case.learning."""
    part = case.while_learning(signal)
    return part if len(part) >= 3 else signal


def targets_vary(case: Case) -> bool:
    """Whether the critic has something to explain: targets vary by more than a hundredth of their size."""
    deviation, size = case.learning(columns.sentinel("return_std")), case.learning(columns.sentinel("return_abs_p95"))
    if not len(deviation):
        return True
    return deviation.median > max(0.01 * (size.median if len(size) else 0.0), 1e-6)


def explained(case: Case) -> Signal:
    """Explained variance where it means something: points whose targets hardly vary are left out."""
    variance, deviation = case.learning(columns.EXPLAINED_VARIANCE), case.sentinel("return_std")
    size = case.sentinel("return_abs_p95")
    if not len(variance) or not len(deviation) or not len(size):
        return variance
    spread, scale = (np.interp(variance.steps, each.steps, each.values) for each in (deviation, size))
    keep = spread > np.maximum(0.02 * scale, 1e-6)
    return Signal(variance.steps[keep], variance.values[keep], variance.low[keep], variance.high[keep], variance.name)


def updates_share(case: Case) -> float:
    """Gradient steps taken per rollout as a share of those planned; NaN if unknown."""
    taken, planned = case.sentinel("updates"), case.planned_updates
    return taken.median / planned if len(taken) and planned else math.nan


def return_fell_at(case: Case) -> float | None:
    """Env step of the peak before a lasting fall of the training return; None if it did not fall."""
    fall = detect.collapse(case.signal(columns.RETURN) if case.has(columns.RETURN) else case.returns)
    return None if fall is None else fall.peak_at


def horizon(gamma: float) -> float:
    """Steps ahead that still count: 1 / (1 - gamma)."""
    return math.inf if gamma >= 1 else 1 / (1 - gamma)


def target_size(case: Case) -> Signal:
    """The size of the critic's targets: their 95th percentile, or the root of the first value losses, when values are still near 0."""
    known, loss = case.learning(columns.sentinel("return_abs_p95")), case.signal(columns.VALUE_LOSS)
    if len(known) or not len(loss):
        return known
    early = loss.share(0.0, 0.15)
    middle, low, high = (np.sqrt(np.maximum(each, 0.0)) for each in (early.values, early.low, early.high))
    return Signal(early.steps, middle, low, high, columns.VALUE_LOSS)


def gained_nothing(case: Case) -> bool:
    """Whether no step ever earned anything although the threshold takes gains, and costs are nothing beside it: the reward that counts
    was never met. Costs of the threshold's own size leave open whether all rewards are too small."""
    highest, lowest, lengths = case.sentinel("reward_max"), case.sentinel("reward_min"), case.signal(columns.LENGTH)
    if not len(highest) or highest.top > 0 or case.threshold is None or case.threshold <= 0:
        return False
    steps = case.time_limit or (lengths.top if len(lengths) else 0.0)
    return case.threshold > 3 * (abs(lowest.bottom) if len(lowest) else 0.0) * steps


def normalizers_agree(case: Case) -> bool | None:
    """Whether evaluation used the statistics that training had at that moment; None if no fingerprints were logged."""
    ours, theirs = (case.history.series.get(columns.sentinel(f"fingerprint_normalizer{end}")) for end in ("", "_eval"))
    if ours is None or theirs is None:
        return None
    known = dict(zip(ours.steps.tolist(), ours.values.tolist(), strict=True))
    pairs = [(known[step], value) for step, value in zip(theirs.steps.tolist(), theirs.values.tolist(), strict=True) if step in known]
    return None if not pairs else 2 * sum(mine == other for mine, other in pairs) >= len(pairs)


def evaluation_gap(case: Case) -> float:
    """How much of what training gained is missing in evaluation, in the second half: 0 none of it, 1 all; NaN if unknown."""
    trained, judged = case.signal(columns.RETURN).share(0.5), case.signal(columns.EVAL_RETURN).share(0.5)
    if case.progress is None or not len(trained) or not len(judged):
        return math.nan
    gain = max(trained.median - case.progress.start, 0.1 * abs(case.progress.start), 1e-9)
    return (trained.median - judged.median) / gain


def random_return(case: Case) -> tuple[float, float] | None:
    """Mean and deviation over episodes of a random policy's return, measured before training; None if it was not."""
    mean, deviation = case.sentinel("random_return"), case.sentinel("random_return_std")
    return (mean.median, deviation.median) if len(mean) and len(deviation) else None


def pays_for_lasting(case: Case) -> float:
    """How clearly an episode is worth the more the longer it lasts, as each of its steps pays: 0 not at all, 1 nothing else counts."""
    known_corr, paid = early(case, "return_length_corr"), case.sentinel("reward_mean")
    if known_corr == known_corr and len(paid):
        return min(grade(known_corr, 0.8, 0.95), 1.0 if paid.median > 0 else 0.0)
    returns, lengths = case.signal(columns.RETURN), case.signal(columns.LENGTH)
    if len(returns) < 8 or len(lengths) < 8:
        return 0.0
    steps = np.interp(returns.steps, lengths.steps, lengths.values)
    each = returns.values / np.maximum(steps, 1.0)
    middle = float(np.median(each))
    if middle <= 0 or float(np.std(steps)) <= 0.03 * float(np.mean(steps)) or float(np.std(returns.values)) <= 0:
        return 0.0
    together = float(np.corrcoef(returns.values, steps)[0, 1])
    return min(grade(together, 0.8, 0.95), grade(-detect.spread(each) / middle, -0.3, -0.1))


def gives_up_success(case: Case) -> float:
    """How clearly episodes are worth the more the longer they last, while fewer and fewer of them are a success."""
    success, returns, required = case.signal(columns.SUCCESS), case.signal(columns.RETURN), case.required_success
    if required is None or len(success) < 4 or len(returns) < detect.SHORTEST or not case.sick:
        return 0.0
    first, last = success.share(0.0, 0.15).median, success.share(0.6).median
    fell = grade((first - last) / max(first, 1e-9), 0.1, 0.4)
    return min(fell, grade(-last / required, -0.9, -0.5), pays_for_lasting(case))


EPISODES = 100
"""That a training return is the mean of."""


def rise_above_chance(case: Case) -> float:
    """How clearly the last training returns lie above a random policy's and above the first ones; 0 where chance is not known.

    Their standard error decides whether it is one, and the share of the way to the threshold whether it is worth anything.
    """
    chance, progress, returns = random_return(case), case.progress, case.signal(columns.RETURN).share(0.75)
    if chance is None or progress is None or case.threshold is None or not len(returns):
        return 0.0
    level = max(chance[0], progress.start)
    error, way = max(chance[1], 1e-9) / math.sqrt(EPISODES), max(case.threshold - level, 1e-9)
    rise = returns.median - level
    return min(grade(rise / error, 3.0, 5.0), grade(rise / way, 0.08, 0.14))


def descent(case: Case) -> tuple[float, float]:
    """(how far, how often) the return of the second half lies below that of the first, random policy; zeros where that says nothing."""
    returns, progress = case.signal(columns.RETURN), case.progress
    if progress is None or len(returns) < detect.SHORTEST or (case.threshold is not None and progress.start >= case.threshold):
        return 0.0, 0.0
    late = returns.share(0.5)
    scale = max(abs(progress.start), 2 * detect.noise(returns.values), 1e-9)
    return (progress.start - late.median) / scale, float((late.values < progress.start).mean())


def led_downwards(case: Case) -> float:
    """How clearly learning led away from what chance gets; see REW504."""
    far, often = descent(case)
    return min(grade(far, 0.2, 0.5), grade(often, 0.7, 0.95))


def early(case: Case, name: str) -> float:
    """Median of a sentinel over the first half, when the policy still tries everything; NaN if it was not logged."""
    signal = case.sentinel(name)
    half = signal.share(0.0, 0.5)
    return half.median if len(half) >= 3 else signal.median if len(signal) else math.nan


def at_first(case: Case, name: str) -> float:
    """A sentinel's first value, which a policy that has learned nothing brought about; NaN if the log begins later, or has none."""
    signal, (begin, end) = case.sentinel(name), case.span
    return float(signal.values[0]) if len(signal) and signal.steps[0] <= begin + 0.1 * (end - begin) else math.nan


def while_varied(case: Case, name: str) -> float:
    """Median of a sentinel over the rows of the first half whose actions still varied; NaN if there is none.

    Of a policy that always does the same, or does what the observation says, nothing tells what another action would have done.
    """
    signal = case.sentinel(name)
    varied = np.ones(len(signal), dtype=bool)
    for other, most in (("action_top_share", 0.9), ("action_at_bound", 0.95)):
        beside = case.sentinel(other)
        if len(beside):
            varied &= np.interp(signal.steps, beside.steps, beside.values) < most
    chance = relative_entropy(case)
    if len(chance):
        varied &= np.interp(signal.steps, chance.steps, chance.values) > 0.1
    half = varied & (signal.steps <= (case.span[0] + case.span[1]) / 2)
    rows = signal.values[half if half.any() else varied]
    return float(np.median(rows)) if len(rows) else math.nan


def known(value: float, otherwise: float) -> float:
    """A number, or another one where it is NaN."""
    return value if value == value else otherwise


def first_reward(case: Case) -> float:
    """The mean reward of training's first steps, which a policy that has learned nothing took; NaN if unknown."""
    mean = case.sentinel("reward_mean")
    return known(at_first(case, "reward_mean"), mean.share(0.0, 0.15).median if len(mean) else math.nan)


def reward_shift(case: Case) -> float:
    """By how much a first step of training pays more than a step of a random policy in evaluation; NaN if unknown."""
    chance, steps = random_return(case), early(case, "random_length")
    return math.nan if chance is None or not steps > 0 else first_reward(case) - chance[0] / steps


def rewards_cut(case: Case) -> float:
    """1 where the largest reward is as large as the smallest is small, to the last digit and in every row, as clipping makes them."""
    highest, lowest = case.sentinel("reward_max"), case.sentinel("reward_min")
    if len(highest) < 3 or len(highest) != len(lowest) or not highest.top > 0:
        return 0.0
    size = highest.top
    return grade(float(np.mean((np.abs(highest.values - size) < 1e-4 * size) & (np.abs(lowest.values + size) < 1e-4 * size))), 0.2, 0.5)


def starts_alike(case: Case) -> float:
    """1 where all episodes of a stretch begin with the same observation, 0 where they differ or it is not known."""
    share, count = case.sentinel("start_distinct"), case.sentinel("starts")
    several = count.values[count.values > 1]
    if not len(share) or not len(several):
        return 0.0
    return grade(-share.median * float(np.median(several)), -2.5, -1.5)


def implied_entropy_bonus(case: Case) -> float:
    """The entropy coefficient that makes the losses add up; 0 where they do without one, or do not say.

    total = policy + ent_coef x entropy loss + vf_coef x value loss. The total is often that of one minibatch: many rows average that
    out. With a critic's weight that nobody knows, the smaller of two answers counts: the usual weight, and the one that fits best.
    """
    names = (columns.TOTAL_LOSS, columns.POLICY_LOSS, columns.ENTROPY_LOSS, columns.VALUE_LOSS)
    total, policy, entropy, value = (case.signal(name) for name in names)
    if min(map(len, (total, policy, entropy, value))) < 4 or not len(total) == len(policy) == len(entropy) == len(value):
        return 0.0
    rest, parts = total.values - policy.values, np.stack([entropy.values, value.values], 1)
    if not np.isfinite(parts).all() or not np.isfinite(rest).all() or float(np.abs(entropy.values).min()) < 0.05:
        return 0.0
    each = (rest - USUAL_CRITIC * value.values) / entropy.values
    usual, error = float(np.median(each)), detect.spread(each) / math.sqrt(len(each))
    # Rows weigh alike: a large value loss is a noisy one.
    weights = 1.0 / (1.0 + np.abs(value.values))
    fitted = float(np.linalg.lstsq(parts * weights[:, None], rest * weights, rcond=1e-6)[0][0])
    # A value loss of hundreds leaves room for any bonus in its noise.
    return max(min(usual, fitted), 0.0) if usual > 4 * error else 0.0


def mirrors_evaluation(case: Case) -> float:
    """How clearly training returns are evaluation's with the other sign, all along: 0 not at all, 1 as in a mirror."""
    trained, judged = case.signal(columns.RETURN), case.signal(columns.EVAL_RETURN)
    if len(trained) < 4 or len(judged) < 3:
        return 0.0
    beside = np.interp(judged.steps, trained.steps, trained.values)
    apart = np.abs(beside - judged.values)
    opposite = float(np.mean(beside * judged.values < 0))
    each = np.abs(beside + judged.values) / np.maximum(apart, 1e-12)
    # Where evaluation differs in something else, the two begin alike, and part as one of them learns.
    off = max(float(np.median(each)), float(np.median(each[: max(2, len(each) // 4)])))
    return min(grade(opposite, 0.7, 0.95), grade(-off, -0.45, -0.25))


def mirrors_at_first(case: Case) -> float:
    """How clearly a first step of training pays what one of evaluation (or of a random policy in it) costs: 0 not at all, 1 exactly."""
    chance, steps = random_return(case), early(case, "random_length")
    first = first_reward(case)
    if first != first:
        return 0.0
    shift, _ = shift_beside_evaluation(case)
    paid = chance[0] / steps if chance is not None and steps > 0 else first - shift
    # Where all steps pay about the same, a mirror shows that to the digit.
    exact = grade(-known(at_first(case, "reward_std"), math.inf) / max(abs(first), 1e-9), -0.3, -0.1)
    return grade(-abs(first + paid) / max(abs(paid), 1e-9), -1.0 + 0.6 * exact, -0.3 + 0.15 * exact) if paid == paid else 0.0


def shift_beside_evaluation(case: Case) -> tuple[float, float]:
    """(by how much a step of training pays more than one of evaluation, how far either moved by itself), both of the first third.

    A constant in the reward is there from the first step; what learning or another evaluation environment brings about is not.
    """
    trained, length = case.signal(columns.RETURN).share(0.0, 0.35), case.signal(columns.LENGTH).share(0.0, 0.35)
    judged, judged_length = case.signal(columns.EVAL_RETURN).share(0.0, 0.35), case.signal(columns.EVAL_LENGTH).share(0.0, 0.35)
    if min(map(len, (trained, length, judged, judged_length))) < 2 or length.median <= 0 or judged_length.median <= 0:
        return math.nan, math.nan
    ours = trained.values / np.maximum(np.interp(trained.steps, length.steps, length.values), 1.0)
    theirs = judged.values / np.maximum(np.interp(judged.steps, judged_length.steps, judged_length.values), 1.0)
    moved = max(float(np.ptp(ours)), float(np.ptp(theirs)))
    return float(np.median(ours) - np.median(theirs)), moved


def noise_price(case: Case) -> float:
    """How much of what training gained was nothing but less noise: 0 none of it, 1 all; NaN for choices, or where it is not known.

    Where acting costs, the noise of exploration does too: training returns lie far below those of evaluation, which has no noise,
    and rise as the noise shrinks, while evaluation stays where it is.
    """
    deviation, trained, judged = case.sentinel("action_std_max"), case.signal(columns.RETURN), case.signal(columns.EVAL_RETURN)
    if not len(deviation) or len(trained) < 6 or len(judged) < 6:
        return math.nan
    gained = trained.share(0.85).median - trained.share(0.0, 0.1).median
    before = judged.share(0.0, 0.35).median - trained.share(0.0, 0.35).median
    after = judged.share(0.7).median - trained.share(0.7).median
    # Training returns are means over many episodes and lag behind: where evaluation rose as far, it only rose before them.
    risen = judged.share(0.85).median - float(np.median(judged.values[:2]))
    return min((before - after) / gained, 1.0 - risen / gained) if gained > 0 else 0.0
