"""Runs of several processes: whether ranks stay one run, what they wait for, and actors that die."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import BugLocation, advice, cause, change, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.runs.history import History
from rlclinic.stats.recurring import find_recurring

DIFFER, NORMALIZERS = sentinel("ranks_differ"), sentinel("ranks_normalizers_differ")
GRADIENT, COPIES, FOREIGN = sentinel("ranks_gradient_error"), sentinel("ranks_copies"), sentinel("ranks_foreign_actions")
FEWEST, MOST = sentinel("ranks_rows_min"), sentinel("ranks_rows_max")
RATIO, SLOWEST = "time/ranks_slowest_ratio", "time/ranks_slowest"
MESSAGES, IDLE = "time/ranks_communicate", "time/ranks_idle"
ROUNDING: Final = 1e-3
"""What sums in another order may change a gradient by, with room: 1e-6 is usual."""
RANKS: Final = "run.data_parallel"
REPLACED: Final = "time/actors_replaced"
DEATHS: Final = 3.0
"""Actors that may die in a run before it is more than somebody's doing."""
HANGS: Final = "hanging collective"


def _together(series: dict[str, cases.Shape] | None = None, ranks: int = 2, **changes: object) -> History:
    """A sound run of several ranks, with something else about it."""
    sound: dict[str, cases.Shape] = {
        **dict.fromkeys((DIFFER, NORMALIZERS, COPIES, FOREIGN), 0.0),
        GRADIENT: 4e-7,
        FEWEST: 128.0,
        MOST: 128.0,
        RATIO: 1.08,
        SLOWEST: _alternates,
        MESSAGES: 0.1,
        IDLE: 0.05,
    }
    return cases.unsolved({**sound, **(series or {})}, settings={RANKS: ranks}, **changes)


def _alternates(share: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> object:
    return np.arange(len(share)) % 2.0


def _lost(reason: str) -> History:
    return _together(state="failed", reason=reason)


cause(
    "ranks-drift",
    "ranks have different weights: they train several runs, and average their gradients",
    "fault of code",
    advice="send the same weights to every rank at the start, and average every gradient before its step",
    explains="RNK102 VAL201 POL101",
    bug=BugLocation(
        fix="broadcast weights and optimizer state from one rank, then all-reduce every gradient before the optimizer's step",
        check="hash the weights on every rank after an update: the hashes must be equal",
        rlclinic=("rlclinic/training/parallel/part.py", "RankPart.average_gradient", "the sum over ranks before the step"),
        sb3=("stable_baselines3/common/on_policy_algorithm.py", "OnPolicyAlgorithm.train", "SB3 has no ranks: wrap the policy in DDP"),
        cleanrl=("ppo_atari_multigpu.py", "dist.all_reduce(all_grads)", "every parameter is in the buffer, and it is copied back"),
        own="the line between backward() and optimizer.step(), and the one that broadcasts the first weights",
    ),
)


@rule(
    "RNK101",
    severity=Severity.HIGH,
    needs=[DIFFER],
    cites=["li2020ddp"],
    certain=True,
    causes=["ranks-drift"],
    bad=lambda: _together({DIFFER: 1.0}),
    good=[_together],
)
def ranks_have_different_weights(case: Case) -> Iterator[Finding]:
    """After an update, ranks do not have the same weights.

    Every rank hashes its weights; equal hashes mean equal bytes.

    ## Why it hurts
    Each rank collects with another policy, and gradients are averaged at different points: the run is none of them, and a checkpoint
    holds one rank's weights.

    ## When it is fine
    Never, on machines of one kind. Processors that round differently drift by a last bit.
    """
    drift = case.signal(DIFFER)
    share = float((drift.values > 0).mean()) if len(drift) else 0.0
    if share <= 0:
        return
    text = f"{say(drift.top)} of {case.count(RANKS) or 'several'} ranks have other weights than rank 0, in {percent(share)} of the looks"
    fix = advice("average every gradient over ranks before its step, and start from the same weights", "> 30 %")
    yield Finding(text=text, evidence=(evidence(DIFFER, text, *case.span, share=share),), remedies=(fix,))


cause(
    "gradients-not-averaged",
    "the gradient of all ranks is not that of the whole minibatch",
    "fault of code",
    advice="divide the sum by the number of ranks, and scale advantages by the whole minibatch, not by each rank's rows",
    explains="POL101 POL102 GRD401",
    bug=BugLocation(
        fix="weight each rank's gradient by its share of the rows, and standardize advantages with the mean and deviation of all ranks",
        check="compare the averaged gradient with that of one process on the same minibatch: equal to rounding",
        rlclinic=("rlclinic/training/parallel/part.py", "RankPart.own_gradient", "each rank's share of the minibatch"),
        sb3=("stable_baselines3/ppo/ppo.py", "PPO.train", "advantages are standardized over a rank's own rows"),
        cleanrl=("ppo_atari_multigpu.py", "/ args.world_size", "the division after all_reduce"),
        own="a sum that is not divided by the number of ranks, and statistics of a rank's own rows",
    ),
)


@rule(
    "RNK102",
    severity=Severity.HIGH,
    needs=[GRADIENT],
    cites=["li2020ddp", "hilton2021batch"],
    certain=True,
    causes=["gradients-not-averaged"],
    bad=lambda: _together({GRADIENT: 1.0}),
    good=[_together, lambda: _together({GRADIENT: 3e-5})],
)
def gradient_is_not_that_of_the_minibatch(case: Case) -> Iterator[Finding]:
    """What ranks get together is another gradient than one process gets from the same minibatch.

    Rank 0 has the whole rollout, so it computes the gradient alone, too, about 40 times in a run.

    ## Why it hurts
    Steps are too long by the number of ranks (a sum in place of a mean), or go elsewhere (advantages scaled by each rank's own rows,
    rows that count twice). Adam hides the first, and clipping by the norm does not.

    ## When it is fine
    Never: rounding is a thousand times smaller.
    """
    off = case.signal(GRADIENT)
    if not len(off) or off.median <= ROUNDING:
        return
    ranks = case.count(RANKS) or 2
    why = " (a sum in place of a mean)" if abs(off.median - (ranks - 1)) < 0.02 else ""
    text = f"the gradient of all ranks is {percent(off.median)} off that of one process{why}"
    fix = advice("weight every rank's gradient by its share of the minibatch's rows", "> 30 %")
    yield Finding(text=text, evidence=(evidence(GRADIENT, text, *case.span, median=off.median),), remedies=(fix,))


cause(
    "ranks-equal-seeds",
    "ranks draw the same random numbers, and collect the same data",
    "fault of code",
    advice="make each rank's random numbers depend on its rank, or on the number of each environment among all",
    explains="POL103 VAL201",
    bug=BugLocation(
        fix="seed environments and actions by seed + rank, or by each environment's number among all ranks'",
        check="the first observations of two ranks must differ",
        rlclinic=("rlclinic/training/parallel/shares.py", "envs", "the number of a rank's first environment"),
        sb3=("stable_baselines3/common/env_util.py", "make_vec_env", "seed + rank of the process"),
        cleanrl=("ppo_atari_multigpu.py", "args.seed += local_rank", "before environments and generators are seeded"),
        own="the seed of environments and of torch, on ranks other than 0",
    ),
)


@rule(
    "RNK103",
    severity=Severity.HIGH,
    needs=[COPIES, FOREIGN],
    cites=["li2020ddp"],
    certain=True,
    causes=["ranks-equal-seeds"],
    bad=lambda: _together({COPIES: 1.0}),
    good=[_together, lambda: _together({COPIES: lambda share: np.where(share > 0.9, 0.2, 0.0)})],
)
def ranks_collect_the_same_data(case: Case) -> Iterator[Finding]:
    """Environments of different ranks take exactly the same steps, or draw their actions with the same random numbers.

    Every action is drawn again from the distribution that was sent with it, with the numbers of its own environment.

    ## Why it hurts
    Every row of a minibatch is there once for each rank: as much time as for N times the data, and what one rank would learn.

    ## When it is fine
    Where nothing is random: environments without chance, and a policy that has become certain. Environments of one rank are then
    alike, too, and this is silent.
    """
    copies, foreign = case.signal(COPIES), case.signal(FOREIGN)
    fix = advice("seed every rank, and every environment of it, with a number of its own", "> 30 %")
    if len(copies) and copies.median > 0.3:
        text = f"{percent(copies.median)} of the environments of one rank take the steps of another rank's"
        yield Finding(text=text, evidence=(evidence(COPIES, text, *case.span, median=copies.median),), remedies=(fix,))
    elif len(foreign) and foreign.top > 0:
        text = f"{percent(foreign.top)} of the actions are drawn with random numbers of another environment"
        yield Finding(text=text, evidence=(evidence(FOREIGN, text, *case.span, most=foreign.top),), remedies=(fix,))


cause(
    "normalizers-unsynced",
    "ranks normalize observations or rewards with statistics of their own",
    "fault of code",
    advice="merge what every rank has seen since the last merge, and give all of them the result",
    explains="RNK102 POL101 POL104",
    bug=BugLocation(
        fix="all-reduce counts, sums and squares of the rows that are new, and update every rank's statistics with the totals",
        check="hash mean and variance on every rank after an update: equal",
        rlclinic=("rlclinic/training/loops/on_policy.py", "update_normalizers", "all environments' rows, not a rank's own"),
        sb3=("stable_baselines3/common/vec_env/vec_normalize.py", "VecNormalize.step_wait", "obs_rms sees one process's rows alone"),
        cleanrl=("ppo_continuous_action.py", "gym.wrappers.NormalizeObservation", "a wrapper of each process"),
        own="running means that every process keeps for itself; totals that are merged twice",
    ),
)


@rule(
    "RNK104",
    severity=Severity.HIGH,
    needs=[NORMALIZERS],
    cites=["li2020ddp"],
    certain=True,
    causes=["normalizers-unsynced"],
    bad=lambda: _together({NORMALIZERS: 1.0}),
    good=[_together],
)
def ranks_normalize_differently(case: Case) -> Iterator[Finding]:
    """Ranks have different running statistics of observations or rewards.

    ## Why it hurts
    The same state looks different on every rank: gradients are averaged that are about different inputs, and what evaluates or plays
    the policy later has one rank's statistics.

    ## When it is fine
    Never.
    """
    drift = case.signal(NORMALIZERS)
    share = float((drift.values > 0).mean()) if len(drift) else 0.0
    if share <= 0:
        return
    text = (
        f"{say(drift.top)} of {case.count(RANKS) or 'several'} ranks have other normalizers than rank 0, in {percent(share)} of the looks"
    )
    fix = advice("update the statistics of every rank with the rows of all ranks", "> 30 %")
    yield Finding(text=text, evidence=(evidence(NORMALIZERS, text, *case.span, share=share),), remedies=(fix,))


cause(
    "uneven-minibatch",
    "ranks have uneven shares of every minibatch",
    "fault of code",
    advice="give every rank as many rows, or weight its gradient by the rows it has",
    explains="RNK102 RNK106",
    bug=BugLocation(
        fix="the same number of rows for every rank, or the mean over ranks weighted by their rows",
        check="assert len(set(rows_of_every_rank)) == 1",
        rlclinic=("rlclinic/training/parallel/shares.py", "rows", "which rows of a minibatch are a rank's own"),
        sb3=(
            "stable_baselines3/common/buffers.py",
            "RolloutBuffer.get",
            "SB3 has no ranks: split indices evenly",
        ),
        cleanrl=("ppo_atari_multigpu.py", "args.local_batch_size", "the batch divides by the number of processes without a rest"),
        own="the line that splits a minibatch over processes, and what happens to its rest",
    ),
)


@rule(
    "RNK105",
    severity=Severity.HIGH,
    needs=[FEWEST, MOST],
    cites=["li2020ddp"],
    certain=True,
    causes=["uneven-minibatch"],
    bad=lambda: _together({FEWEST: 64.0, MOST: 192.0}),
    good=[_together],
)
def ranks_have_uneven_minibatches(case: Case) -> Iterator[Finding]:
    """One rank learns from more rows than another.

    ## Why it hurts
    The mean of their gradients counts the rows of a small share more than others, ranks with little to do wait for the others, and one
    minibatch less on a rank is a collective that never ends.

    ## When it is fine
    Where gradients are weighted by rows: then it only costs time.
    """
    fewest, most = case.signal(FEWEST), case.signal(MOST)
    if not len(fewest) or not len(most) or most.median <= fewest.median:
        return
    text = f"shares of a minibatch have {say(fewest.median)} to {say(most.median)} rows"
    fix = advice("make the number of ranks divide environments and minibatches", "10-30 %")
    yield Finding(text=text, evidence=(evidence(MOST, text, *case.span, fewest=fewest.median, most=most.median),), remedies=(fix,))


@rule(
    "RNK106",
    severity=Severity.MEDIUM,
    needs=[RATIO, SLOWEST],
    cites=["li2020ddp"],
    bad=lambda: _together({RATIO: 2.5, SLOWEST: 1.0, IDLE: 0.6}),
    good=[
        _together,
        lambda: _together({RATIO: 2.5, SLOWEST: _alternates}),
        lambda: _together({RATIO: 2.5, SLOWEST: lambda share: np.arange(len(share)) % 4.0}, ranks=4),
    ],
)
def one_rank_holds_up_the_others(case: Case) -> Iterator[Finding]:
    """The same rank works much longer than the others in nearly every row (a straggler), or the same few ranks of more.

    ## Why it hurts
    Ranks meet after every minibatch: all of them are as slow as the slowest.

    ## When it is fine
    A machine that is busy with something else for a while: other ranks are then slow at other times.
    """
    ratio, slowest = case.signal(RATIO), case.signal(SLOWEST)
    if len(ratio) < 8 or len(slowest) < 8:
        return
    numbers = [int(number) for number in np.round(slowest.values)]
    slow = find_recurring(numbers, case.count(RANKS) or max(numbers) + 1)
    if ratio.median < 1.4 or not slow:
        return
    share = sum(number in slow for number in numbers) / len(numbers)
    who = f"rank {slow[0]} works" if len(slow) == 1 else f"one of ranks {', '.join(map(str, slow))} works"
    text = f"{who} {say(ratio.median)} times as long as the others, in {percent(share)} of the rows"
    fix = advice("look at what rank's machine, GPU or environments are slower; the others wait for it at every step", "10-30 %")
    proof = evidence(RATIO, text, *case.span, median=ratio.median, share=share)
    yield Finding(strength=grade(ratio.median, 1.2, 2.0), text=text, evidence=(proof,), remedies=(fix,))


cause(
    "rank-lost",
    "a rank was lost",
    "fault of environment",
    advice="look at that rank's machine and memory; the run goes on from its last checkpoint",
    explains="CFG107 BUD102",
)


@rule(
    "RNK107",
    severity=Severity.HIGH,
    cites=["li2020ddp"],
    certain=True,
    causes=["rank-lost"],
    bad=lambda: _lost("rank 1 (process 4711) was killed by SIGKILL.\n  Rank 0 was in collective 57 (gradient)"),
    good=[lambda: cases.failed("out of memory"), lambda: _lost("out of memory")],
)
def rank_was_lost(case: Case) -> Iterator[Finding]:
    """One of the ranks died, or was not heard of any more, and the others could not go on.

    ## Why it hurts
    Everything after the last checkpoint is lost.

    ## When it is fine
    Never; a run that is resumed repeats what was lost, to the byte.
    """
    reason = case.history.reason or ""
    if case.history.state != "failed" or not reason.startswith("rank ") or HANGS in reason:
        return
    text = reason.splitlines()[0].rstrip(".")
    fix = advice("let it go on from its last checkpoint", "> 30 %")
    yield Finding(text=text, evidence=(evidence("status", text, case.trained, case.trained),), onset=case.trained, remedies=(fix,))


cause(
    "collective-hangs",
    "ranks wait for each other in different collectives",
    "fault of code",
    advice="have every rank call the same collectives in the same order, whatever its own rows are",
    explains="CFG107 BUD102",
    bug=BugLocation(
        fix="let nothing that a single rank knows decide whether a collective is called: share the decision first",
        check="log the number and the name of every collective on each rank: the lists must be equal",
        rlclinic=("rlclinic/training/parallel/part.py", "RankPart", "methods that exchange something, which all ranks call together"),
        sb3=("stable_baselines3/ppo/ppo.py", "PPO.train", "an early stop at target_kl that each rank decides for itself"),
        cleanrl=("ppo_atari_multigpu.py", "if args.target_kl is not None", "the break, which must be decided by all ranks"),
        own="breaks, ifs and last minibatches between two collectives",
    ),
)


@rule(
    "RNK108",
    severity=Severity.HIGH,
    cites=["li2020ddp"],
    certain=True,
    causes=["collective-hangs"],
    bad=lambda: _lost("hanging collective: rank 0 in collective 57 (gradient) for 4 s, rank 1 in collective 56 (rollouts) for 4 s"),
    good=[lambda: _lost("rank 1 (process 4711) was killed by SIGKILL"), lambda: cases.failed("out of memory")],
)
def collective_hangs(case: Case) -> Iterator[Finding]:
    """Ranks are in different collectives, which can never end, or what they exchange does not fit together.

    ## Why it hurts
    Without a watch the run stands still until somebody notices.

    ## When it is fine
    Never.
    """
    reason = case.history.reason or ""
    if case.history.state != "failed" or not (HANGS in reason or reason.startswith("collective broken")):
        return
    text = reason.splitlines()[0].rstrip(".")
    fix = advice("compare the collectives of the ranks that are named: one has left something out, or done it twice", "> 30 %")
    yield Finding(text=text, evidence=(evidence("status", text, case.trained, case.trained),), onset=case.trained, remedies=(fix,))


@rule(
    "RNK109",
    severity=Severity.LOW,
    needs=[MESSAGES, "time/learn"],
    cites=["li2020ddp"],
    bad=lambda: _together({MESSAGES: 6.0, "time/learn": 1.0, "time/env": 0.5, "time/act": 0.5}),
    good=[lambda: _together({"time/learn": 1.0, "time/env": 0.5, "time/act": 0.5})],
)
def ranks_exchange_more_than_they_compute(case: Case) -> Iterator[Finding]:
    """Messages between ranks take most of the time.

    ## Why it hurts
    One process would be done sooner.

    ## When it is fine
    Networks so large that one machine has no memory for them.
    """
    phases = {name: case.history.series.get(f"time/{name}") for name in ("env", "act", "learn")}
    work = sum(float(np.sum(series.values)) for series in phases.values() if series is not None)
    messages = float(np.sum(case.history.series[MESSAGES].values))
    share = messages / max(messages + work, 1e-9)
    if share < 0.5:
        return
    text = f"{percent(share)} of the time of an iteration are messages between ranks"
    fix = change(case, RANKS, 1, "one process")
    yield Finding(strength=grade(share, 0.4, 0.8), text=text, evidence=(evidence(MESSAGES, text, share=share),), remedies=(fix,))


@rule(
    "RNK110",
    severity=Severity.MEDIUM,
    algos=["a3c", "impala", "appo"],
    needs=[REPLACED],
    cites=["espeholt2018impala"],
    bad=lambda: cases.unsolved({REPLACED: lambda share: np.floor(12 * share)}, algo="impala"),
    good=[lambda: cases.unsolved({REPLACED: 0.0}, algo="impala"), lambda: cases.unsolved({REPLACED: 1.0}, algo="appo")],
)
def actors_die(case: Case) -> Iterator[Finding]:
    """Actors die again and again, and are replaced.

    ## Why it hurts
    What they were collecting is played again, or lost; five deaths in one rollout end the run. Memory that grows in an environment is
    the usual reason.

    ## When it is fine
    Somebody has killed a few by hand.
    """
    deaths = case.signal(REPLACED)
    if not len(deaths) or deaths.top < DEATHS:
        return
    text = f"{say(deaths.top)} actors died and were replaced"
    fix = advice(
        "look into the run's log for how they ended: SIGKILL is mostly memory that ran out; fewer actors, or environments", "10-30 %"
    )
    yield Finding(strength=grade(deaths.top, 2.0, 8.0), text=text, evidence=(evidence(REPLACED, text, *case.span),), remedies=(fix,))
