"""The run folder and its config: whether what was written fits together."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import ENTROPY_LOSS, KL, OFFLINE, POLICY_LOSS, RETURN, TOTAL_LOSS, VALUE_LOSS, applied
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import ON_POLICY, BugLocation, advice, cause, evidence, grade, percent, quote_advice, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import off_policy
from rlclinic.runs.history import History

LOSSES = (POLICY_LOSS, VALUE_LOSS, ENTROPY_LOSS, TOTAL_LOSS)


def _other_sign(value: float = 1.0, entropy: float = 1.0) -> History:
    """A run whose total loss has a term with another sign, at weights that make both terms count."""
    run = cases.unsolved({"train/hp/vf_coef": 0.5, "train/hp/ent_coef": 0.1})
    steps = run.series["train/loss/total"].steps
    policy, critic, noise = (run.series[f"train/loss/{name}"].values for name in ("policy", "value", "entropy"))
    total = cases.make(steps, policy + value * 0.5 * critic + entropy * 0.1 * noise, "train/loss/total")
    return replace(run, series={**run.series, "train/loss/total": total})


cause(
    "loss-terms-wrong",
    "the loss is not the sum of its parts",
    "fault of code",
    advice="look at the sum of the loss terms: the sign of the entropy bonus first",
    explains="ENT302 ENT301 VAL201",
    bug=BugLocation(
        fix="total = policy loss + vf_coef x value loss - ent_coef x entropy, and log each term before it is weighted",
        check="recompute the total from the logged parts: they must agree to float precision",
        rlclinic=("rlclinic/training/algos/ppo.py", "loss", "the sum, and what is logged"),
        sb3=("stable_baselines3/ppo/ppo.py", "PPO.train", "a copied train with another weight on a term"),
        cleanrl=("ppo.py", "loss = pg_loss - args.ent_coef * entropy_loss + v_loss * args.vf_coef", "the weights and signs"),
        own="the line that adds the loss terms up, and a weight that is applied twice",
    ),
)


@rule(
    "CFG101",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[*LOSSES, applied("vf_coef"), applied("ent_coef")],
    cites=["schulman2017ppo"],
    certain=True,
    causes=["loss-terms-wrong"],
    bad=lambda: cases.unsolved(scaled={"train/loss/total": 1.5}),
)
def total_loss_is_not_the_sum_of_its_parts(case: Case) -> Iterator[Finding]:
    """The loss that was minimized is not policy + vf_coef x value + ent_coef x entropy.

    Recomputed for every row from the parts and the weights that were applied.

    ## Why it hurts
    A term is missing, counted twice, or has the wrong sign; the metrics of the parts look fine.

    ## When it is fine
    Algorithms that add a term of their own.
    """
    share, text = _off(case)
    if share < 0.3 or any(_off(case, *signs)[0] < 0.1 for signs in ((-1.0, 1.0), (1.0, -1.0))):
        return
    fix = advice("look at the sum of the loss terms: one is missing, or counted twice", "> 30 %")
    proof = evidence(TOTAL_LOSS, text, *case.span, share=share)
    yield Finding(strength=grade(share, 0.2, 0.6), text=text, evidence=(proof,), remedies=(fix,))


def _off(case: Case, value_sign: float = 1.0, entropy_sign: float = 1.0) -> tuple[float, str]:
    """The share of rows whose total is not the sum of its parts with these signs, and the worst of them in words."""
    series = case.history.series
    total = series[TOTAL_LOSS]
    if any(series[name].estimator != total.estimator for name in LOSSES[:3]):
        return 0.0, ""  # SB3's total is that of the last minibatch, its parts are means over all of them
    parts = [np.interp(total.steps, series[name].steps, series[name].values) for name in LOSSES[:3]]
    weights = [np.interp(total.steps, series[applied(name)].steps, series[applied(name)].values) for name in ("vf_coef", "ent_coef")]
    policy, value, entropy = parts
    rebuilt = policy + value_sign * weights[0] * value + entropy_sign * weights[1] * entropy
    size = np.abs(policy) + weights[0] * np.abs(value) + weights[1] * np.abs(entropy) + 1e-6
    off = np.abs(rebuilt - total.values) / size
    worst, share = int(np.argmax(off)), float((off > 0.02).mean())
    text = f"total loss {say(float(total.values[worst]))}, its parts give {say(float(rebuilt[worst]))}, in {percent(share)} of the rows"
    return share, text


@rule(
    "CFG108",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[*LOSSES, applied("vf_coef"), applied("ent_coef")],
    cites=["schulman2017ppo"],
    certain=True,
    causes=["value-loss-sign"],
    bad=lambda: _other_sign(value=-1.0),
)
def critic_driven_away_by_its_loss(case: Case) -> Iterator[Finding]:
    """The total loss is policy minus vf_coef x value: the critic is driven away from its targets.

    ## Why it hurts
    Each step makes the critic's predictions worse, without a bound; advantages soon consist of its errors.

    ## When it is fine
    Never.
    """
    share, _ = _off(case)
    if share < 0.3 or _off(case, -1.0, 1.0)[0] >= 0.1:
        return
    text = f"in {percent(share)} of the rows the total loss is the policy's loss minus the weighted value loss"
    fix = advice("add the value loss in place of subtracting it", "> 30 %")
    proof = evidence(TOTAL_LOSS, text, *case.span, share=share)
    yield Finding(strength=grade(share, 0.2, 0.6), text=text, evidence=(proof,), remedies=(fix,))


cause(
    "entropy-sign",
    "the entropy bonus has the wrong sign",
    "fault of code",
    advice="look at the sign of the entropy bonus: it is subtracted from the loss",
    explains="ENT302 ENT301 VAL201 REW504",
)


@rule(
    "CFG109",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[*LOSSES, applied("vf_coef"), applied("ent_coef")],
    cites=["schulman2017ppo"],
    certain=True,
    causes=["entropy-sign"],
    bad=lambda: _other_sign(entropy=-1.0),
)
def entropy_added_to_the_loss(case: Case) -> Iterator[Finding]:
    """The total loss is policy + vf_coef x value + ent_coef x the entropy itself: noise is punished in place of paid for.

    ## Why it hurts
    The policy becomes certain as fast as it can, before it knows anything.

    ## When it is fine
    Never; a bonus that is not wanted is ent_coef 0.
    """
    share, _ = _off(case)
    if share < 0.3 or _off(case, 1.0, -1.0)[0] >= 0.1:
        return
    text = f"in {percent(share)} of the rows the entropy is added to the loss in place of subtracted"
    fix = advice("subtract ent_coef x entropy from the loss", "> 30 %")
    proof = evidence(TOTAL_LOSS, text, *case.span, share=share)
    yield Finding(strength=grade(share, 0.2, 0.6), text=text, evidence=(proof,), remedies=(fix,))


cause(
    "kl-negative",
    "the KL estimate is wrong",
    "fault of code",
    advice="estimate KL as mean(ratio - 1 - log ratio), which is never negative",
    explains="POL102 LRN103",
    bug=BugLocation(
        fix="use mean((ratio - 1) - log ratio), which is never negative, over the data of the rollout",
        check="assert ((ratio - 1) - log_ratio).mean() >= 0",
        rlclinic=("rlclinic/training/maths/losses.py", "kl_k3", "(ratio - 1) - log ratio"),
        sb3=("stable_baselines3/ppo/ppo.py", "PPO.train", "approx_kl of a copied train"),
        cleanrl=("ppo.py", "approx_kl in the minibatch loop", "((ratio - 1) - logratio).mean()"),
        own="the KL estimate: the order of new and old, and the mean over the right rows",
    ),
)


@rule(
    "CFG102",
    severity=Severity.HIGH,
    needs=[KL],
    cites=["schulman2020kl"],
    certain=True,
    causes=["kl-negative"],
    bad=lambda: cases.unsolved(scaled={"train/metrics/kl_divergence": -1.0}),
)
def kl_is_negative(case: Case) -> Iterator[Finding]:
    """The KL divergence is negative.

    ## Why it hurts
    A divergence cannot be: the estimate has a wrong sign or mixes up its two policies, and target_kl never stops anything.

    ## When it is fine
    The k1 estimator (mean of the log ratio) may be a little negative by noise.
    """
    logged = case.history.series[KL]
    if "k1" in logged.estimator:
        return
    share = float((logged.values < -1e-6).mean())
    if share < 0.3:
        return
    text = f"KL is negative in {percent(share)} of the rows, down to {say(float(logged.values.min()))}"
    yield Finding(strength=grade(share, 0.2, 0.6), text=text, evidence=(evidence(KL, text, *case.span, share=share),))


cause(
    "seeds-identical",
    "seeds are not independent",
    "fault of code",
    advice="give every run its own seed, down to the weights and the environment",
    bug=BugLocation(
        fix="give every run, environment and generator its own seed",
        check="two runs with different seeds must have different first rows",
        rlclinic=("rlclinic/training/rng.py", "bits", "the run's seed is part of the hash"),
        sb3=("stable_baselines3/common/env_util.py", "make_vec_env", "seed + rank per environment, and seed= of the algorithm"),
        cleanrl=("ppo.py", "make_env", "args.seed + idx, torch.manual_seed(args.seed)"),
        own="a constant where the seed should be",
    ),
)


@rule(
    "CFG103",
    severity=Severity.HIGH,
    scope="group",
    cites=["henderson2018matters"],
    certain=True,
    causes=["seeds-identical"],
    bad=lambda: cases.copies(*cases.base("cp-healthy")[:2]),
)
def seeds_are_copies_of_each_other(cases: Sequence[Case]) -> Iterator[Finding]:
    """Two runs that count as two seeds have the same numbers.

    ## Why it hurts
    Several seeds count as one: every interval over them is far too narrow.

    ## When it is fine
    A table in an environment without chance, if no action is random.
    """
    for one, other in itertools.combinations(cases, 2):
        # Of a run that is read twice, from its CSV and from its events, the columns differ; of the same seed trained twice they do not.
        twice = one.history.seed == other.history.seed and set(one.history.series) != set(other.history.series)
        if twice or _draws_nothing(one):
            continue
        a, b = (case.history.series.get("train/loss/policy") or case.history.series.get(RETURN) for case in (one, other))
        if a is None or b is None or min(len(a.values), len(b.values)) < 3:
            continue
        count = min(len(a.values), len(b.values))
        if np.array_equal(a.values[:count], b.values[:count]) and float(np.ptp(a.values[:count])) > 0:
            text = f"{one.id} and {other.id} have the same numbers in {a.name}"
            fix = advice("give every run its own seed, down to the weights and the environment", "unknown")
            yield Finding(run=one.id, text=text, evidence=(evidence(a.name, text, *one.span),), remedies=(fix,))
            return


def _draws_nothing(case: Case) -> bool:
    """Whether a table, which starts the same for every seed, also chooses without chance: by bounds, or greedily from the start."""
    share = off_policy.epsilon(case)
    return case.algo == "q_learning" and (case.setting("algo.exploration") == "ucb" or (len(share) > 0 and share.top == 0.0))


cause(
    "settings-mixed",
    "runs with different settings are mixed",
    "fault of settings",
    advice="diagnose runs of one config together, and others apart",
)


@rule(
    "CFG105",
    severity=Severity.HIGH,
    scope="group",
    cites=["henderson2018matters"],
    causes=["settings-mixed"],
    bad=lambda: [cases.solved(), cases.solved(settings={"algo.gamma": 0.5})],
    good=[lambda: [cases.solved(settings={"about.obs_flags": 2.0}), cases.solved(settings={"about.obs_flags": 1.0})]],
)
def runs_of_one_group_differ_in_their_settings(cases: Sequence[Case]) -> Iterator[Finding]:
    """Runs that are compared as seeds of one config have different settings.

    ## Why it hurts
    Statistics over them mix two experiments.

    ## When it is fine
    Comparing configs on purpose: diagnose them one by one.
    """
    # `about.` are facts that were counted when the run began: seeds may begin with other observations.
    own = {key: value for key, value in cases[0].history.settings.items() if key not in ("seed", "name") and not key.startswith("about.")}
    for case in cases[1:]:
        for key, value in case.history.settings.items():
            if key in own and own[key] != value:
                text = f"{cases[0].id} has {key} = {own[key]}, {case.id} has {value}"
                yield Finding(run=case.id, text=text, evidence=(evidence(f"config:{key}", text),))
                return


@rule(
    "CFG106",
    severity=Severity.MEDIUM,
    needs=["budget"],
    cites=["raffin2021sb3"],
    bad=lambda: cases.unsolved(notes=("3 damaged lines of metrics.csv were left out",)),
    good=[lambda: cases.recorded()],
)
def files_are_missing_or_damaged(case: Case) -> Iterator[Finding]:
    """Part of what the run should have left behind is not there.

    ## Why it hurts
    The diagnosis sees less than happened; a run without metrics cannot be judged, one without checkpoints cannot be used.

    ## When it is fine
    Runs that have only just begun.
    """
    problems = [note for note in case.history.notes if "damaged" in note or "cannot be read" in note]
    # On recorded data nobody acts: what there is to log of returns is evaluations, where any were asked for.
    if case.ours and case.history.state == "finished" and not case.has(RETURN) and case.algo not in OFFLINE:
        problems.append("it finished, but logged no return")
    path = case.history.path
    if (
        case.ours
        and path is not None
        and path.is_dir()
        and case.history.state == "finished"
        and not (path / "checkpoints" / "@last").exists()
    ):
        problems.append("no checkpoint was kept")
    if problems:
        text = "; ".join(problems)
        yield Finding(text=text, evidence=(evidence("folder", text),))


cause(
    "run-failed",
    "the run failed",
    "symptom",
    explains="BUD102",
    behind=[
        ("environment-not-finite", 0.5, "environment", "the error was raised in step() or reset()"),
        ("learning-rate-too-high", 0.3, "settings", "a loss or a weight was not finite before it"),
        ("settings-mixed", 0.2, "settings", "the error names a setting, a shape or a file"),
    ],
)


@rule("CFG107", severity=Severity.HIGH, cites=["raffin2021sb3"], causes=["run-failed"], bad=lambda: cases.failed("out of memory"))
def run_failed(case: Case) -> Iterator[Finding]:
    """The run ended with an error, or its environment does not come back from a call.

    ## Why it hurts
    It is not finished.

    ## When it is fine
    Never.
    """
    hangs = case.history.state == "running" and "has not come back" in (case.history.reason or "")
    if case.history.state != "failed" and not hangs:
        return
    reason = case.history.reason or _last_error(case.history.log_tail) or "no reason was recorded"
    first = reason.splitlines()[0].rstrip(".")
    text = f"{'hangs' if hangs else 'failed'} at {say(case.trained)} env steps: {first}"
    killed = reason.startswith("killed by") and case.ours
    go_on = "let it go on from its last checkpoint"
    see = "stop it, and step the environment alone to see where it waits" if hangs else ""
    remedy = quote_advice(reason, see or (go_on if killed else "read the last lines of the log: the error names its place"))
    yield Finding(text=text, evidence=(evidence("status", text, case.trained, case.trained),), onset=case.trained, remedies=(remedy,))


def _last_error(log: str) -> str | None:
    """The last line of a traceback, if the log ends with one."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    named = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception", "Interrupt"))]
    return named[-1] if named else None
