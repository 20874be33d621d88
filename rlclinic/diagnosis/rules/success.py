"""Success, where the environment reports it: a reward that is gamed, a goal that is never met, stages of a curriculum that go wrong."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EVAL_RETURN, EVAL_SUCCESS, LENGTH, RETURN, SUCCESS, sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import advice, cause, change, evidence, grade, percent, rule, say
from rlclinic.diagnosis.reward_balance import find_potentials
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect, measures
from rlclinic.diagnosis.signals.resampling import Signal
from rlclinic.runs.history import History

RARE = 0.1
"""A success rate that counts as none."""
LITTLE = 0.05
"""Of the way to the threshold: a return that rises by less only learned what trying costs."""
MUCH = 0.25
"""Of a return's own size, where nobody knows how far the way is: what is farmed is paid again and again."""
TASK_WORDS = ("task", "goal", "success", "reach", "win", "solve", "deliver", "finish", "target", "arriv", "complet", "score")
"""A first term of such a name is the task itself."""
STAGE = "train/curriculum/stage"
ESCAPES = "train/curriculum/escapes"
FAR = 0.25
"""Success so far apart is no accident of a few episodes."""

cause(
    "reward-gamed",
    "the return rises and the task is not done",
    "fault of environment",
    advice="pay once for what is to be done once, and let finishing bring more than anything else; linting the environment finds the loop",
    explains="SUC103 REW513 VAL201 EVA804 BUD101 LRN103 ENT301 POL102 ENV604 ENV612",
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
        # The last evaluation was a lucky one, and nothing rose in training.
        lambda: cases.unsolved(
            {
                **cases.flat_returns(20.0),
                "val/roll/ep_rew_mean": lambda share: np.where(share > 0.93, 90.0, 20.0),
                "train/roll/success_rate": 0.0,
            },
            threshold=None,
        ),
        # Success comes with the return; the return does not rise either.
        lambda: cases.unsolved(_rows(lambda share: share)),
        lambda: cases.unsolved({**cases.flat_returns(-200.0), **_rows(0.0)}),
        # It only learned not to pay for looking: a hundredth of the way to the threshold (DeepSea).
        lambda: cases.unsolved(
            {"train/roll/ep_rew_mean": lambda share: -0.006 + 0.006 * np.minimum(3 * share, 1), **_rows(0.0)}, threshold=0.9
        ),
        # Costs of -71 that fell to -68: it has hardly learned anything, and nobody knows how far there is to go.
        lambda: cases.unsolved(
            {"train/roll/ep_rew_mean": lambda share: -71.5 + 3.5 * np.minimum(2 * share, 1), **_rows(0.0)}, threshold=None
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
    # A greedy policy may have found it by the first evaluation: training shows the way there.
    returns = max((returns, case.signal(RETURN)), key=_rise)
    rise = _rise(returns)
    if len(case.signal(RETURN)) >= detect.SHORTEST:
        # What was learned shows in training as well: one lucky evaluation of ten is no rise.
        rise = min(rise, _rise(case.signal(RETURN)))
    # Past the threshold for the return, nothing but success is missing.
    passed = case.threshold is not None and returns.share(0.7).median >= case.threshold
    # Where each step pays and success is given up for more of them, REW516, REW521 and REW522 know more about it.
    strength = 1.0 if passed else grade(rise, 2.0, 6.0) * (1.0 - 0.6 * measures.gives_up_success(case))
    if strength <= 0:
        return
    before, after = returns.share(0.0, 0.2).median, returns.share(0.8).median
    if case.threshold is not None and after - before < LITTLE * (case.threshold - before):
        return
    if case.threshold is None:
        strength *= grade((after - before) / max(abs(before), abs(after), 1e-9), LITTLE, MUCH)
    if strength <= 0:
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


def find_terms(history: History) -> list[str]:
    """The terms of the reward that were logged, in the order of the columns: as the environment names them."""
    return [name.split("/")[2] for name in history.series if name.startswith("train/terms/") and name.endswith("/return")]


def _termed(series: dict[str, cases.Shape], names: tuple[str, ...] = ("goal", "alive"), potentials: tuple[str, ...] = ()) -> History:
    """A run that reports no success, but the terms of its reward."""
    usual: dict[str, cases.Shape] = {
        "train/terms/goal/return": lambda share: 100 * share,
        "train/terms/goal/share": 0.5,
        f"train/terms/{names[-1]}/return": 100.0,
        f"train/terms/{names[-1]}/share": 0.5,
    }
    settings = {"env.log_terms": list(names), "about.potentials": list(potentials), "about.potential_gamma": 0.99, "algo.gamma": 0.99}
    return cases.solved({**usual, **series}, settings=settings, threshold=None)


@rule(
    "SUC104",
    severity=Severity.HIGH,
    needs=[(EVAL_RETURN, RETURN)],  # success is asked for below: an environment that reports none lacks nothing
    cites=["ng1999shaping", "amodei2016safety"],
    causes=["reward-gamed"],
    bad=lambda: cases.unsolved(_rows(lambda share: np.where(share < 0.4, 1.5 * share, 0.15)), threshold=None),
    good=[
        # Both fall; both rise; success falls a little and is still what is required.
        lambda: cases.unsolved({"train/roll/ep_rew_mean": cases.rise_and_fall, **_rows(lambda share: np.where(share < 0.5, share, 0.0))}),
        lambda: cases.unsolved(_rows(lambda share: share)),
        lambda: cases.unsolved(_rows(lambda share: np.where(share < 0.5, 1.0, 0.95)), threshold=None),
    ],
)
def success_is_given_up_for_return(case: Case) -> Iterator[Finding]:
    """Success was learned, and given up again while the return went on rising.

    ## Why it hurts
    The reward has a loophole: something pays more than the task, and the agent has found it. From there on more training makes it worse.

    ## When it is fine
    Where success is a by-product, and the return is what is wanted.
    """
    success, returns = _success(case), case.returns
    required = case.required_success
    if required is None or len(success) < 8 or len(returns) < 8 or (case.is_early and case.standing != "lost"):
        return
    smooth = detect.smoothed(success.values, max(3, len(success) // 8))
    best = int(np.argmax(smooth))
    top, ended = float(smooth[best]), success.share(0.8).median
    if ended >= 0.9 * required or top < RARE:
        return
    then = returns.between(
        float(success.steps[max(best - len(success) // 10, 0)]), float(success.steps[min(best + len(success) // 10, len(success) - 1)])
    )
    gained = returns.share(0.8).median - (then.median if len(then) else returns.first)
    rise = gained / max(detect.noise(returns.values), 0.02 * detect.spread(returns.values), 1e-9)
    strength = min(grade(top - ended, 0.15, 0.35), grade(rise, 2.0, 6.0)) * (1.0 - 0.6 * measures.gives_up_success(case))
    if strength <= 0:
        return
    at = float(success.steps[best])
    text = (
        f"success fell from {percent(top)} at env step {at:.0f} to {percent(ended)}, while the return rose from {say(then.median)}"
        f" to {say(returns.share(0.8).median)}"
    )
    fix = advice("watch an episode from before and one from after (rlclinic play RUN@STEP): what does it do instead of the task?", "> 30 %")
    proof = evidence(success.name, text, at, case.span[1], best=top, last=ended, rise=rise)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "SUC105",
    severity=Severity.HIGH,
    needs=[(EVAL_RETURN, RETURN)],  # terms are asked for below: an environment that reports none lacks nothing
    cites=["ng1999shaping", "amodei2016safety"],
    causes=["reward-gamed"],
    bad=lambda: _termed(
        {"train/terms/goal/return": 0.0, "train/terms/alive/return": lambda share: 20 + 300 * share, "train/terms/alive/share": 1.0}
    ),
    good=[
        lambda: _termed({}),
        # A potential takes back what it pays.
        lambda: _termed(
            {"train/terms/goal/return": 0.0, "train/terms/alive/return": lambda share: 20 + 300 * share, "train/terms/alive/share": 1.0},
            potentials=("alive",),
        ),
        # Its first term is not the task: nobody knows which one is.
        lambda: _termed(
            {
                "train/terms/goal/return": None,
                "train/terms/goal/share": None,
                "train/terms/control/return": -1.0,
                "train/terms/alive/share": 0.99,
            },
            names=("control", "alive"),
        ),
        lambda: cases.unsolved(),
    ],
)
def a_side_term_is_learned_and_not_the_task(case: Case) -> Iterator[Finding]:
    """The return has risen by another term of the reward, and the term that is the task pays no more than at first.

    ## Why it hurts
    A bonus for being alive, for speed or for touching something outweighs what it was to lead to. The agent is good at the bonus.

    ## When it is fine
    Early, where a shaped reward leads towards a goal that is not reached yet; where the first term is not the task.
    """
    names = case.history.settings.get("env.log_terms") or find_terms(case.history)
    if not isinstance(names, list | tuple) or len(names) < 2 or len(_success(case)) or case.is_early:
        return
    task = case.signal(f"train/terms/{names[0]}/return")
    if not any(word in str(names[0]).lower() for word in TASK_WORDS) or len(task) < 8:
        return
    sides = [str(name) for name in names[1:] if name not in find_potentials(case.history)]
    others = {name: case.signal(f"train/terms/{name}/return") for name in sides}
    gains = {name: term.share(0.8).median - term.share(0.0, 0.2).median for name, term in others.items() if len(term) >= 8}
    if not gains:
        return
    leader = max(gains, key=lambda name: gains[name])
    gain, own = gains[leader], task.share(0.8).median - task.share(0.0, 0.2).median
    rise = _rise(case.signal(RETURN) if len(case.signal(RETURN)) >= 4 else case.returns)
    share = case.signal(f"train/terms/{leader}/share").share(0.8).median
    # Where the task is paid more and more, the rest is what leads to it.
    strength = min(grade(rise, 2.0, 6.0), grade(-own / max(gain, 1e-9), -0.1, -0.02), grade(share, 0.8, 0.9))
    if strength <= 0 or gain <= 0:
        return
    before, after = task.share(0.0, 0.2).median, task.share(0.8).median
    text = f"{leader} rose by {say(gain)} an episode and is {percent(share)} of what is paid"
    text += f", while {names[0]} went from {say(before)} to {say(after)}"
    fix = advice(
        f"let {leader} be a potential, or pay less for it than the task brings; reward balance and reward check say how much", "> 30 %"
    )
    proof = evidence(f"train/terms/{leader}/return", text, *case.span, gain=gain, task=own, share=share)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "SUC106",
    severity=Severity.HIGH,
    needs=[(EVAL_RETURN, RETURN), LENGTH],
    cites=["ng1999shaping", "amodei2016safety"],
    causes=["reward-gamed"],
    bad=lambda: cases.solved(
        {
            RETURN: lambda share: 20 + 80 * np.minimum(2 * share, 1.0),
            LENGTH: lambda share: 90 + 10 * np.minimum(2 * share, 1.0),
            "train/sentinel/reward_end_gap": lambda share: np.where(share < 0.4, 4.0, np.nan),
        },
        threshold=None,
    ),
    good=[
        # Ending costs, as a fall does; episodes get shorter; the return still rises; the run does the task, as its threshold says.
        lambda: cases.solved({RETURN: lambda share: 20 + 80 * share, LENGTH: 100.0, "train/sentinel/reward_end_gap": 4.0}, threshold=None),
        lambda: cases.solved(
            {LENGTH: lambda share: 30 + 70 * np.minimum(2 * share, 1.0), "train/sentinel/reward_end_gap": -4.0}, threshold=None
        ),
        lambda: cases.solved({LENGTH: lambda share: 100 - 70 * share, "train/sentinel/reward_end_gap": 4.0}, threshold=None),
        lambda: cases.solved(),
    ],
)
def the_end_is_put_off(case: Case) -> Iterator[Finding]:
    """To end an episode pays best of all, and the agent has learned not to.

    ## Why it hurts
    What leads to the goal is paid step by step, and stops at the goal: waiting beside it brings more than reaching it. Episodes grow to
    the time limit and the return rises, without the task being done.

    ## When it is fine
    Tasks whose aim is to go on, and whose ends are paid for by accident.
    """
    gap, length, returns = case.signal(sentinel("reward_end_gap")), case.signal(LENGTH), case.signal(RETURN)
    if len(gap) < 2 or len(length) < 8 or len(returns) < 8 or len(_success(case)) or case.is_early or case.solved_at is not None:
        return
    first, last = length.share(0.0, 0.2).median, length.share(0.8).median
    gained = returns.share(0.8).median - returns.share(0.0, 0.1).median
    still = abs(returns.share(0.8).median - returns.share(0.6, 0.8).median) / max(gained, 1e-9)
    strength = min(
        grade(gap.median, 1.5, 3.0),
        grade(last / max(length.top, 1e-9), 0.75, 0.9),
        grade(last / max(first, 1e-9), 0.75, 0.9),
        grade(_rise(returns), 2.0, 6.0),
        # As long as it still rises, the end may be what it rises to.
        grade(-still, -0.2, -0.1),
    )
    if strength <= 0 or gained <= 0:
        return
    text = f"a step that ends an episode by itself pays {say(gap.median)} deviations more than others, and episodes last {say(last)} steps"
    text += f" ({say(first)} at first), while the return rose by {say(gained)}"
    fix = advice(
        "pay for coming nearer, and not for being near (a potential), and let the end bring more than waiting to the limit", "> 30 %"
    )
    proof = evidence(LENGTH, text, *case.span, gap=gap.median, first=first, last=last)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


# ── costs that have a limit: runs without one are not asked ──

COST_RETURN, MULTIPLIER = "train/cost/return", "train/cost/multiplier"

cause(
    "cost-limit-missed",
    "the limit on costs is not kept",
    "fault of settings",
    advice="give it longer, a faster multiplier (cost.learning_rate), a larger one (cost.multiplier_max), or a limit that can be kept",
    explains="BUD101 EVA802",
)


def _constrained(series: dict[str, cases.Shape], limit: float = 5.0, most: float = 100.0) -> History:
    """A run whose costs come down to their limit, but for what is changed."""
    usual: dict[str, cases.Shape] = {
        COST_RETURN: lambda share: 5.0 + 15 * np.maximum(1 - 2 * share, 0.0),
        MULTIPLIER: lambda share: np.minimum(4 * share, 2.0),
    }
    return cases.unsolved({**usual, **series}, settings={"cost.limit": limit, "cost.multiplier_max": most, "cost.learning_rate": 0.05})


@rule(
    "SUC301",
    severity=Severity.HIGH,
    needs=[(EVAL_RETURN, RETURN)],
    cites=["ray2019safety"],
    causes=["cost-limit-missed"],
    bad=lambda: _constrained({COST_RETURN: 20.0, MULTIPLIER: lambda share: 10 * share}),
    good=[lambda: _constrained({}), lambda: cases.unsolved()],
)
def the_cost_limit_is_not_kept(case: Case) -> Iterator[Finding]:
    """Episodes cost more than the limit, at the end of the run too.

    ## Why it hurts
    What was to be avoided is done. Either the multiplier rises too slowly for the budget, or it is at its maximum and the reward still pays
    more, or no policy keeps the limit.

    ## When it is fine
    Early, while the multiplier still rises.
    """
    cost, multiplier = case.signal(COST_RETURN), case.signal(MULTIPLIER)
    limit, most = (case.history.settings.get(f"cost.{name}") for name in ("limit", "multiplier_max"))
    if not isinstance(limit, int | float) or len(cost) < 8 or len(multiplier) < 8 or case.is_early:
        return
    ended, least = cost.share(0.8).median, cost.bottom
    strength = grade((ended - limit) / max(limit, 1.0), 0.1, 0.5)
    if strength <= 0:
        return
    high = multiplier.share(0.8).median
    full = isinstance(most, int | float) and high >= 0.95 * most
    if full and least > 1.1 * limit:
        why, what = (
            f"no rollout cost less than {say(least)}: it may be out of reach",
            "is the limit within reach of any policy? Raise it to what is",
        )
    elif full:
        why, what = f"the multiplier is at its maximum of {say(high)}", "raise cost.multiplier_max, or scale costs up"
    else:
        why = (
            f"the multiplier is {say(high)} and still rising"
            if high > 1.05 * multiplier.share(0.5, 0.7).median
            else f"the multiplier is {say(high)}"
        )
        what = "raise cost.learning_rate, so that the multiplier gets there within the budget, or train longer"
    text = f"episodes cost {say(ended)} in the end, {say(limit)} are allowed; {why}"
    fix = advice(what, "10-30 %")
    proof = evidence(COST_RETURN, text, *case.span, cost=ended, limit=float(limit), multiplier=high, least=least)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "SUC302",
    severity=Severity.LOW,
    needs=[(EVAL_RETURN, RETURN)],
    cites=["ray2019safety"],
    causes=["cost-limit-missed"],
    bad=lambda: _constrained(
        {MULTIPLIER: lambda share: np.where(np.sin(60 * share) > 0, 3.0, 0.0), COST_RETURN: lambda share: 5 + 5 * np.sin(60 * share)}
    ),
    good=[lambda: _constrained({}), lambda: cases.unsolved()],
)
def the_multiplier_swings(case: Case) -> Iterator[Finding]:
    """The worth of a cost swings between nothing and much.

    ## Why it hurts
    The policy is careful and careless in turns: on average the limit may be kept, at no time is it.

    ## When it is fine
    Tasks in which there is nothing between both.
    """
    multiplier = case.signal(MULTIPLIER)
    late = multiplier.share(0.5)
    rate = case.history.settings.get("cost.learning_rate")
    if len(late) < 8 or case.is_early or not isinstance(rate, int | float):
        return
    turns = int(np.sum(np.diff(np.sign(late.values - late.median)) != 0))
    swing = float(np.percentile(late.values, 90) - np.percentile(late.values, 10)) / max(late.median, 1e-3)
    strength = min(grade(swing, 1.0, 2.0), grade(turns, 3, 6))
    if strength <= 0:
        return
    text = f"the multiplier goes through its median {turns} times in the second half, between {say(late.bottom)} and {say(late.top)}"
    fix = advice(f"move the multiplier more slowly: cost.learning_rate={float(rate) / 3:.2g}", "< 10 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(MULTIPLIER, text, *case.span, swing=swing),), remedies=(fix,))


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
    good=[
        lambda: _staged({}),
        lambda: cases.unsolved(),
        # One of 32 tasks, of which a fifth is drawn all alike.
        lambda: cases.unsolved({"train/curriculum/target_share": 0.2 / 32}, settings={"curriculum.kind": "plr"}),
    ],
)
def the_task_itself_is_never_trained_on(case: Case) -> Iterator[Finding]:
    """The budget ends before the last stage has begun, or what chooses among all tasks never chose the last one.

    ## Why it hurts
    Evaluations are on the task itself, which the policy has never met: its return says nothing about what training did.

    ## When it is fine
    Where one wants to know whether the easier stages are enough.
    """
    stages, share = _stages(case), case.signal("train/curriculum/target_share")
    if not len(share) or share.last >= (0.02 if stages else 0.005) or case.is_early:
        return
    text = f"{percent(share.last)} of the episodes were of the task itself"
    if stages:
        text += f"; the run ended in {_name(stages, int(case.signal(STAGE).last))}"
        fix = change(case, "curriculum.escape_after", round(0.5 / len(stages), 3), "leave stages sooner, so that the task is met", "> 30 %")
    else:
        fix = change(case, "curriculum.uniform_share", 0.2, "let no task be lost sight of, so that the task itself is met", "> 30 %")
    yield Finding(strength=0.9, text=text, evidence=(evidence(share.name, text, *case.span, share=share.last),), remedies=(fix,))
