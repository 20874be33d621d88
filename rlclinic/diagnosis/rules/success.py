"""Success, where the environment reports it: a reward that is gamed, one that pulls the other way, a goal that is never met."""

from collections.abc import Iterator

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EVAL_RETURN, EVAL_SUCCESS, RETURN, SUCCESS
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import advice, cause, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect
from rlclinic.diagnosis.signals.resampling import Signal

RARE = 0.1
"""A success rate that counts as none."""
LITTLE = 0.05
"""Of the way to the threshold: a return that rises by less only learned what trying costs."""

cause(
    "reward-gamed",
    "the return rises and the task is not done",
    "fault of environment",
    advice="pay once for what is to be done once, and let finishing bring more than anything else; linting the environment finds the loop",
    explains="SUC103 REW513 VAL201 EVA804 BUD101 LRN103 ENT301 POL102",
)
cause(
    "success-not-paid",
    "the reward pulls away from success",
    "fault of environment",
    advice="compare the terms of the reward (info['reward_terms']): one of them falls while the task is done more often",
    explains="EVA802 REW504",
)


def _success(case: Case) -> Signal:
    """Of evaluations where there are at least three, else of training."""
    judged = case.signal(EVAL_SUCCESS)
    return judged if len(judged) >= 3 else case.signal(SUCCESS)


def _rise(signal: Signal) -> float:
    """From the first fifth to the last one, in deviations of what lies between neighbours; 0 for a short series."""
    if len(signal) < 4:
        return 0.0
    edge = max(2, len(signal) // 5)
    change = float(np.median(signal.values[-edge:]) - np.median(signal.values[:edge]))
    return change / max(detect.noise(signal.values), 0.02 * detect.spread(signal.values), 1e-9)


def _rows(shape: cases.Shape) -> dict[str, cases.Shape]:
    """Success as training reports it, in a run without evaluations."""
    return {"train/roll/success_rate": shape, "val/roll/ep_rew_mean": None}


@rule(
    "SUC101",
    severity=Severity.HIGH,
    needs=[(EVAL_RETURN, RETURN)],  # success is asked for below: an environment that reports none lacks nothing
    cites=["ng1999shaping"],
    causes=["reward-gamed"],
    bad=lambda: cases.unsolved(_rows(0.0), threshold=None),
    good=[
        # Success was had and lost, and the return with it.
        lambda: cases.unsolved(
            {
                "train/roll/ep_rew_mean": cases.rise_and_fall,
                **_rows(lambda share: np.where(share < 0.5, share, 0.0)),
            }
        ),
        # Success comes with the return; the return does not rise either.
        lambda: cases.unsolved(_rows(lambda share: share)),
        lambda: cases.unsolved({**cases.flat_returns(-200.0), **_rows(0.0)}),
        # It only learned not to pay for looking: a hundredth of the way to the threshold (DeepSea).
        lambda: cases.unsolved(
            {"train/roll/ep_rew_mean": lambda share: -0.006 + 0.006 * np.minimum(3 * share, 1), **_rows(0.0)}, threshold=0.9
        ),
    ],
)
def return_rises_without_success(case: Case) -> Iterator[Finding]:
    """The return has risen and the environment still calls hardly any episode a success.

    ## Why it hurts
    The agent was paid for something else than the task: a loop, waiting, a term that outweighs the goal. More training makes it better
    at that.

    ## When it is fine
    Early, where a shaped reward leads towards a goal that is not reached yet: the return then stays well below what reaching it pays.
    """
    success, returns = _success(case), case.returns
    required = case.required_success
    if required is None or len(success) < 4 or not case.sick or case.is_early:
        return
    ended, trained = success.share(0.7).median, case.signal(SUCCESS)
    if ended > min(RARE, 0.5 * required):
        return
    if len(trained) and trained.share(0.7).median > max(RARE, 3 * ended):
        return  # training does the task, and evaluation does not: they differ
    rise = _rise(returns)
    # Past the threshold for the return, nothing but success is missing.
    passed = case.threshold is not None and returns.share(0.7).median >= case.threshold
    strength = 1.0 if passed else grade(rise, 2.0, 6.0)
    if strength <= 0:
        return
    before, after = returns.share(0.0, 0.2).median, returns.share(0.8).median
    if case.threshold is not None and after - before < LITTLE * (case.threshold - before):
        return
    text = f"the return rose from {say(before)} to {say(after)} while {percent(ended)} of episodes succeed"
    text += f"; it is above the threshold of {say(case.threshold)}" if passed and case.threshold is not None else ""
    fix = advice("look for what pays without the goal: lint the environment, and watch an episode (rlclinic play)", "> 30 %")
    proof = evidence(success.name, text, *case.span, success=ended, rise=rise)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "SUC102",
    severity=Severity.MEDIUM,
    needs=[(EVAL_RETURN, RETURN)],  # success is asked for below: an environment that reports none lacks nothing
    cites=["ng1999shaping"],
    causes=["success-not-paid"],
    bad=lambda: cases.unsolved(
        {
            "train/roll/ep_rew_mean": lambda share: 200 - 150 * share,
            **_rows(lambda share: 0.05 + 0.6 * share),
        }
    ),
    good=[lambda: cases.unsolved(_rows(lambda share: share))],
)
def success_rises_while_the_return_falls(case: Case) -> Iterator[Finding]:
    """More episodes succeed and the return falls.

    ## Why it hurts
    Reward and task pull in opposite directions: what is learned now will be unlearned, and the best return is not the best policy.

    ## When it is fine
    Where success takes costs that the return counts, and success is what is wanted: judge by spec.success then.
    """
    success, returns = _success(case), case.returns
    if len(success) < 4 or len(returns) < 4 or case.is_early:
        return
    edge = max(2, len(success) // 5)
    gained = float(np.median(success.values[-edge:]) - np.median(success.values[:edge]))
    strength = min(grade(gained, 0.1, 0.4), grade(-_rise(returns), 3.0, 8.0))
    if strength <= 0:
        return
    before, after = returns.share(0.0, 0.2).median, returns.share(0.8).median
    text = f"success rose by {percent(gained)} while the return fell from {say(before)} to {say(after)}"
    fix = advice("judge by success (spec.success) and weigh the terms of the reward: info['reward_terms'] shows them", "10-30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(success.name, text, *case.span, gained=gained),), remedies=(fix,))


@rule(
    "SUC103",
    severity=Severity.MEDIUM,
    needs=[(EVAL_RETURN, RETURN)],
    cites=["ng1999shaping"],
    bad=lambda: cases.unsolved({**cases.flat_returns(-200.0), **_rows(0.0)}),
    good=[lambda: cases.unsolved(_rows(lambda share: 0.05 * share))],
)
def success_never_seen(case: Case) -> Iterator[Finding]:
    """No episode of the whole run was a success, in training or in evaluation.

    ## Why it hurts
    What was never met cannot be learned from: if the reward hangs on it, there is no signal; if it does not, something else is learned.

    ## When it is fine
    Short runs of hard tasks.
    """
    rates = [signal for name in (SUCCESS, EVAL_SUCCESS) if len(signal := case.signal(name))]
    if not rates or any(signal.top > 0 for signal in rates) or not case.sick or case.is_early or max(map(len, rates)) < 4:
        return
    text = "no episode succeeded, in training or in evaluation"
    fix = advice("can the goal be met at all? Linting the environment tries; starts nearer to it or longer episodes help", "> 30 %")
    yield Finding(strength=0.8, text=text, evidence=(evidence(rates[0].name, text, *case.span, best=0.0),), remedies=(fix,))
