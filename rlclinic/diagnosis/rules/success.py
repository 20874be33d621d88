"""Success, where the environment reports it: a reward that is gamed, a goal that is never met, stages of a curriculum that go wrong."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EVAL_RETURN, EVAL_SUCCESS, RETURN, SUCCESS
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import advice, cause, change, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect
from rlclinic.diagnosis.signals.resampling import Signal
from rlclinic.runs.history import History

RARE = 0.1
"""A success rate that counts as none."""
LITTLE = 0.05
"""Of the way to the threshold: a return that rises by less only learned what trying costs."""
STAGE = "train/curriculum/stage"
ESCAPES = "train/curriculum/escapes"
FAR = 0.25
"""Success so far apart is no accident of a few episodes."""

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


# ── stages of a curriculum: runs without one are not asked ──


def _stages(case: Case) -> list[dict[str, object]]:
    """The stages as the settings have them; empty where there are none, or tasks are chosen among all."""
    settings = case.history.settings
    stages = settings.get("curriculum.stages")
    if not len(case.signal(STAGE)) or settings.get("curriculum.kind", "stages") != "stages" or not isinstance(stages, list | tuple):
        return []
    return [dict(stage) for stage in stages]


def _threshold(stage: dict[str, object]) -> float:
    found = stage.get("success_threshold", 0.8)
    return float(found) if isinstance(found, int | float) else 0.8


def _name(stages: list[dict[str, object]], number: int) -> str:
    return f"stage {number} ({stages[number - 1].get('name', '')})"


def _staged(series: dict[str, cases.Shape], **settings: object) -> History:
    """A run of three stages that goes through them and can do all of them in the end, but for what is changed."""
    usual: dict[str, cases.Shape] = {
        STAGE: lambda share: 1.0 + np.floor(np.minimum(share * 4, 2.0)),
        ESCAPES: 0.0,
        "train/curriculum/promotions": lambda share: np.floor(np.minimum(share * 4, 2.0)),
        "train/curriculum/demotions": 0.0,
        "train/curriculum/target_share": lambda share: np.maximum(share - 0.5, 0.0),
        "train/stage/1/success_rate": lambda share: np.minimum(0.5 + 3 * share, 1.0),
        "train/stage/2/success_rate": lambda share: np.minimum(0.2 + 1.6 * share, 0.95),
        "val/stage/1/success_rate": lambda share: np.minimum(0.5 + 3 * share, 1.0),
        "val/stage/2/success_rate": lambda share: np.minimum(0.2 + 1.6 * share, 0.95),
        "val/stage/3/success_rate": lambda share: 0.7 * share,
    }
    stages = [{"name": name, "env": {"size": size}, "success_threshold": 0.8} for name, size in (("small", 5), ("medium", 7), ("large", 9))]
    known = {"curriculum.kind": "stages", "curriculum.stages": stages, "curriculum.rehearsal": 0.15, **settings}
    return cases.unsolved({**usual, **series}, settings=known)


cause(
    "stage-not-mastered",
    "a stage of the curriculum is too hard for what comes before it",
    "fault of environment",
    advice="put a stage between it and the one before, or lower its success_threshold",
    explains="EVA802 BUD101 SUC103",
)


@rule(
    "SUC201",
    severity=Severity.HIGH,
    needs=[(EVAL_RETURN, RETURN)],
    cites=["narvekar2020curriculum"],
    causes=["stage-not-mastered"],
    bad=lambda: _staged({ESCAPES: lambda share: (share > 0.6).astype(float)}),
    good=[lambda: _staged({}), lambda: cases.unsolved()],
)
def a_stage_was_never_mastered(case: Case) -> Iterator[Finding]:
    """A stage was left after too long, or the run ended in it, without being mastered.

    ## Why it hurts
    What the later stages build on is missing, and the steps were spent where nothing more was learned.

    ## When it is fine
    A threshold that no policy reaches in that stage: the run goes on with what there is.
    """
    stages = _stages(case)
    if not stages or case.is_early:
        return
    stage, escapes = case.signal(STAGE), case.signal(ESCAPES)
    here = int(stage.last)
    stuck = float((stage.values == here).mean()) if here < len(stages) else 0.0
    if len(escapes) and escapes.last >= 1:
        rise = escapes.steps[int(np.argmax(escapes.values >= 1))]
        left = int(stage.values[max(int(np.searchsorted(stage.steps, rise)) - 1, 0)])
        text = f"{_name(stages, left)} was left after too long at env step {rise:.0f} although it was not mastered"
        strength = 0.9
    elif stuck >= 0.5:
        text = f"the run spent {percent(stuck)} of its steps in {_name(stages, here)} and ended there"
        strength = grade(stuck, 0.4, 0.7)
    else:
        return
    fix = advice("put a stage between it and the one before, or lower its success_threshold to what is reached there", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(STAGE, text, *case.span, stage=stage.last),), remedies=(fix,))


cause(
    "stage-promoted-early",
    "a stage of the curriculum was left before it was mastered",
    "fault of settings",
    doses=["wider-promotion-window"],
    advice="take success over more episodes (curriculum.window), with a higher confidence",
    explains="EVA802 BUD101 SUC103",
)


@rule(
    "SUC202",
    severity=Severity.MEDIUM,
    needs=[(EVAL_RETURN, RETURN)],
    cites=["narvekar2020curriculum"],
    causes=["stage-promoted-early"],
    bad=lambda: _staged({"train/stage/1/success_rate": 0.45}),
    good=[lambda: _staged({}), lambda: _staged({"train/stage/1/success_rate": lambda share: np.where(share < 0.6, 0.9, 0.3)})],
)
def promoted_by_luck(case: Case) -> Iterator[Finding]:
    """A stage was left as mastered, and right after that its success is far below its threshold.

    ## Why it hurts
    The next stage asks for what is not there. Few episodes, or only those that end first, look better than they are.

    ## When it is fine
    A stage that is hardly rehearsed: a few episodes say little.
    """
    stages, stage, promoted = _stages(case), case.signal(STAGE), case.signal("train/curriculum/promotions")
    for number in range(1, len(stages)):
        success = case.signal(f"train/stage/{number}/success_rate")
        later = np.flatnonzero(stage.values > number)
        if not len(later) or not len(success) or not len(promoted) or promoted.last < number:
            continue
        left = float(stage.steps[later[0]])
        soon = success.between(left, left + 0.1 * float(stage.steps[-1]))
        missed = _threshold(stages[number - 1]) - soon.median if len(soon) >= 2 else 0.0
        if missed < FAR:
            continue
        text = f"{_name(stages, number)} was left as mastered, and {percent(soon.median)} of its episodes succeed right after"
        window = case.history.settings.get("curriculum.window", 100)
        wider = 2 * int(window) if isinstance(window, int | float) else 200
        fix = change(case, "curriculum.window", min(wider, 1000), "take success over more episodes", "10-30 %")
        proof = evidence(success.name, text, left, *case.span[1:], success=soon.median)
        yield Finding(strength=grade(missed, 0.15, 0.35), text=text, evidence=(proof,), remedies=(fix,))
        return


cause(
    "stage-forgotten",
    "an earlier stage of the curriculum was forgotten",
    "fault of settings",
    doses=["more-rehearsal"],
    advice="rehearse earlier stages more (curriculum.rehearsal)",
    explains="EVA802 BUD101 SUC103",
)


@rule(
    "SUC203",
    severity=Severity.MEDIUM,
    needs=[(EVAL_RETURN, RETURN)],
    cites=["narvekar2020curriculum"],
    causes=["stage-forgotten"],
    bad=lambda: _staged({"val/stage/1/success_rate": lambda share: np.where(share < 0.6, 1.0, 0.2)}),
    good=[lambda: _staged({}), lambda: _staged({"val/stage/1/success_rate": 0.2})],
)
def an_earlier_stage_is_forgotten(case: Case) -> Iterator[Finding]:
    """An earlier stage could be done, and can no more.

    ## Why it hurts
    What the harder stages take for granted is unlearned while they are trained on; a policy that must do all of them does not.

    ## When it is fine
    Where only the task itself counts, and its success rises all the same.
    """
    stages = _stages(case)
    for number in range(1, len(stages)):
        success = case.signal(f"val/stage/{number}/success_rate")
        if len(success) < 4 or success.top < _threshold(stages[number - 1]):
            continue
        now = success.share(0.8).median
        if now > 0.6 * _threshold(stages[number - 1]) or success.top - now < FAR:
            continue
        text = f"{_name(stages, number)} succeeded in {percent(success.top)} of evaluation episodes, and in {percent(now)} in the end"
        share = case.history.settings.get("curriculum.rehearsal", 0.15)
        more = min(0.5, max(0.2, 2 * float(share))) if isinstance(share, int | float) else 0.3
        fix = change(case, "curriculum.rehearsal", round(more, 3), "rehearse earlier stages more", "10-30 %")
        proof = evidence(success.name, text, *case.span, best=success.top, last=now)
        yield Finding(strength=grade(success.top - now, 0.2, 0.5), text=text, evidence=(proof,), remedies=(fix,))
        return


cause(
    "stages-in-wrong-order",
    "stages of the curriculum are in the wrong order",
    "fault of environment",
    advice="put the easier stage first: evaluations of each say which one that is",
    explains="EVA802 BUD101 SUC103",
)


@rule(
    "SUC204",
    severity=Severity.MEDIUM,
    needs=[(EVAL_RETURN, RETURN)],
    cites=["narvekar2020curriculum"],
    causes=["stages-in-wrong-order"],
    bad=lambda: _staged({"val/stage/1/success_rate": 0.3, "val/stage/2/success_rate": 0.9}),
    good=[lambda: _staged({}), lambda: _staged({"val/stage/1/success_rate": lambda share: np.where(share < 0.6, 1.0, 0.2)})],
)
def stages_are_in_the_wrong_order(case: Case) -> Iterator[Finding]:
    """A later stage is easier than an earlier one, all along.

    ## Why it hurts
    The run waits at the harder one, and what would have led there comes too late.

    ## When it is fine
    Stages that are different skills, not steps of one.
    """
    stages = _stages(case)
    rates = [case.signal(f"val/stage/{number}/success_rate") for number in range(1, len(stages) + 1)]
    for number, (easy, hard) in enumerate(pairwise(rates), 1):
        if min(len(easy), len(hard)) < 4 or hard.top - easy.top < FAR or hard.median - easy.median < FAR:
            continue
        earlier, later = _name(stages, number), _name(stages, number + 1)
        text = f"{later} succeeds in {percent(hard.median)}, and {earlier} before it in {percent(easy.median)}"
        fix = advice("put the easier stage first: its evaluations say which one that is", "10-30 %")
        proof = evidence(hard.name, text, *case.span, earlier=easy.median, later=hard.median)
        yield Finding(strength=grade(hard.median - easy.median, 0.15, 0.4), text=text, evidence=(proof,), remedies=(fix,))
        return


cause(
    "task-never-trained",
    "the task itself was hardly trained on",
    "fault of settings",
    doses=["earlier-escape"],
    advice="leave the stages before it sooner (curriculum.escape_after), or train longer",
    explains="EVA802 BUD101 SUC103",
)


@rule(
    "SUC205",
    severity=Severity.HIGH,
    needs=[(EVAL_RETURN, RETURN)],
    cites=["narvekar2020curriculum"],
    causes=["task-never-trained"],
    bad=lambda: _staged({"train/curriculum/target_share": 0.0, STAGE: lambda share: 1.0 + (share > 0.5)}),
    good=[lambda: _staged({}), lambda: cases.unsolved()],
)
def the_task_itself_is_never_trained_on(case: Case) -> Iterator[Finding]:
    """The budget ends before the last stage has begun.

    ## Why it hurts
    Evaluations are on the task itself, which the policy has never met: its return says nothing about what training did.

    ## When it is fine
    Where one wants to know whether the easier stages are enough.
    """
    stages, share = _stages(case), case.signal("train/curriculum/target_share")
    if not stages or not len(share) or share.last >= 0.02 or case.is_early:
        return
    here = int(case.signal(STAGE).last)
    text = f"{percent(share.last)} of the episodes were of the task itself; the run ended in {_name(stages, here)}"
    fix = change(case, "curriculum.escape_after", round(0.5 / len(stages), 3), "leave stages sooner, so that the task is met", "> 30 %")
    yield Finding(strength=0.9, text=text, evidence=(evidence(share.name, text, *case.span, share=share.last),), remedies=(fix,))
