"""The checks of checkpoints, each documented like a rule: a first line that names the fault, why it hurts, when it is fine."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from rlclinic.diagnosis.checkpoints import measures
from rlclinic.diagnosis.checkpoints.files import Saved
from rlclinic.diagnosis.checkpoints.inspect_run import OWN_MOMENTS, WHERE, Subject, check, rules, seen
from rlclinic.diagnosis.columns import sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import advice, evidence, grade, percent, say

STEPS: Final = sentinel("optimizer_steps")


def _where(saved: Saved, name: str) -> str:
    return f"{WHERE}{saved.step}/{name}"


@check("CKP101", Severity.HIGH, ["raffin2021sb3"])
def checkpoint_damaged(subject: Subject) -> Iterator[Finding]:
    """A checkpoint is incomplete, or its bytes are not those that were written.

    ## Why it hurts
    Going on from it would go on from numbers that no run ever had.

    ## When it is fine
    Never for the newest one; a kill while it was written leaves an unfinished folder, and the one before is used.
    """
    for saved in subject.saved:
        if saved.problems:
            text = f"checkpoint {saved.step}: {saved.problems[0]}" + (f", and {len(saved.problems) - 1} more" if saved.problems[1:] else "")
            fix = advice("go on from an earlier checkpoint, and look for a full or failing disk", "unknown")
            yield Finding(text=text, evidence=(evidence(_where(saved, "manifest.json"), text),), onset=float(saved.step), remedies=(fix,))


@check("CKP102", Severity.HIGH, ["kingma2015adam"])
def weights_not_finite(subject: Subject) -> Iterator[Finding]:
    """A saved weight is NaN or infinite.

    ## Why it hurts
    Every output that it touches is not a number; nothing can be learned from there.

    ## When it is fine
    Never.
    """
    for saved in subject.saved:
        bad = {name: int(value.size - np.isfinite(value).sum()) for name, value in saved.policy.items() if value.dtype.kind == "f"}
        bad = {name: count for name, count in bad.items() if count}
        if bad:
            name, count = max(bad.items(), key=lambda item: (item[1] / saved.policy[item[0]].size, item[0]))
            share = count / saved.policy[name].size
            text = f"{name} is {percent(share)} NaN or infinite at env step {say(saved.step)}" + (
                f"; {len(bad)} tensors of {len(saved.policy)} are affected" if len(bad) > 1 else ""
            )
            fix = advice("go on from the last checkpoint without it, with a lower learning rate", "> 30 %")
            yield Finding(text=text, evidence=(evidence(_where(saved, name), text, share=share),), onset=float(saved.step), remedies=(fix,))
            return


@check("CKP103", Severity.HIGH, ["huang2022details"])
def layer_frozen(subject: Subject) -> Iterator[Finding]:
    """Weights are the same, bit for bit, in two checkpoints between which the optimizer took steps.

    ## Why it hurts
    No gradient reaches them: a detached loss, a part that is not in the optimizer, or a weight of 0 on its loss.

    ## When it is fine
    A part that was frozen on purpose.
    """
    unchanged: dict[str, tuple[Saved, Saved]] = {}
    moved: set[str] = set()
    for before, after in subject.pairs:
        for name, value in after.weights.items():
            old = before.weights.get(name)
            # A deviation at its limit gets no gradient either; CKP111 says that. Without a baseline nobody asks for values. And what a
            # Decision Transformer is asked for is a number that the data gives.
            unasked = name.startswith(("critic.", "value.")) and subject.section("algo").get("baseline") is False
            unused = unasked or name in ("log_std", "condition")
            if old is None or value.dtype.kind != "f" or unused:
                continue
            if measures.is_same(old, value):
                unchanged.setdefault(name, (before, after))
            else:
                moved.add(name)
    frozen = sorted(unchanged.keys() - moved)
    if not frozen:
        return
    before, after = unchanged[frozen[0]]
    everything = not moved
    what = "no weight" if everything else f"{', '.join(frozen[:3])}{' …' if len(frozen) > 3 else ''}"
    verb = "changed" if everything else "did not change"
    taken = (after.optimizer_steps or 0) - (before.optimizer_steps or 0)
    text = f"{what} {verb} between env steps {say(before.step)} and {say(after.step)}, over {say(taken)} optimizer steps"
    fix = advice("check that the loss depends on them (detach, no_grad, vf_coef 0) and that the optimizer was given them", "> 30 %")
    proof = evidence(_where(after, frozen[0]), text, before.step, after.step, frozen=len(frozen), of=len(frozen) + len(moved))
    yield Finding(text=text, evidence=(proof,), onset=float(before.step), remedies=(fix,))


@check("CKP104", Severity.MEDIUM, ["huang2022details"])
def weights_ran_away(subject: Subject) -> Iterator[Finding]:
    """The weights of a hidden layer are many times larger than they start out.

    ## Why it hurts
    Activations saturate, gradients vanish, and the policy can hardly be moved back: steps were too large for too long.

    ## When it is fine
    Very long trainings, with layer norm.
    """
    net = subject.section("net")
    gain = net.get("hidden_gain")
    if not isinstance(gain, int | float) or not gain > 0 or net.get("layer_norm"):
        return
    worst, ratio = "", 0.0
    for name, value in subject.last.weights.items():
        hidden = name.startswith(("actor.", "critic.", "trunk.")) and name.endswith(".weight") and value.ndim == 2
        if hidden and np.isfinite(value).all():
            # Orthogonal matrices start with a norm of gain times the root of their smaller side.
            times = float(np.linalg.norm(value)) / (gain * math.sqrt(min(value.shape)))
            worst, ratio = (name, times) if times > ratio else (worst, ratio)
    strength = grade(math.log10(max(ratio, 1e-9)), math.log10(30.0), math.log10(90.0))
    if strength > 0:
        text = f"{worst} is {say(ratio)} times as large as at the start"
        fix = advice("lower the learning rate, or bound the gradient norm (max_grad_norm)", "10-30 %")
        yield Finding(strength=strength, text=text, evidence=(evidence(_where(subject.last, worst), text, times=ratio),), remedies=(fix,))


@check("CKP105", Severity.MEDIUM, ["sokar2023dormant"])
def units_do_nothing(subject: Subject) -> Iterator[Finding]:
    """Most units of a layer of the policy give the same for every observation, or sit at the end of their range.

    ## Why it hurts
    They pass no gradient: what is left of the network is smaller than it looks, and learns accordingly.

    ## When it is fine
    A solved task whose observations hardly vary any more.
    """
    obs, what = seen(subject)
    # A few rows cannot tell a unit that is dead from one that had nothing to do.
    if len(obs) < 8 or float(obs.std(0).max(initial=0.0)) < 1e-6:
        return
    for layer in measures.units(subject.last, subject.section("net"), obs):
        if layer.name.startswith("critic"):
            continue  # healthy critics saturate once all states are worth the same
        idle, how = max((layer.dead, "give the same for all of"), (layer.saturated, "are saturated on"))
        share = idle / max(layer.width, 1)
        strength = grade(share, 0.6, 0.95)
        if strength > 0:
            text = f"{idle} of {layer.width} units of {layer.name} {how} {what}"
            fix = advice("scale the observations (env.normalize_obs) and lower the learning rate", "10-30 %")
            proof = evidence(_where(subject.last, layer.name), text, share=share)
            yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))
            return


@check("CKP106", Severity.MEDIUM, ["kumar2021implicit"])
def weights_lost_rank(subject: Subject) -> Iterator[Finding]:
    """A hidden layer of the policy uses only a few of its directions.

    ## Why it hurts
    Different observations end up in the same place, and can no longer be told apart.

    ## When it is fine
    A network far larger than its task.
    """
    for layer in measures.layers(subject.last, None):
        side = min(layer.shape, default=0)
        if layer.rank is None or side < 8 or not layer.name.startswith(("actor.", "trunk.")):
            continue
        strength = grade(layer.rank / side, 0.2, 0.08)
        if strength > 0:
            text = f"{layer.name} uses {say(layer.rank)} of {side} directions"
            fix = advice("lower the learning rate, or use fewer epochs on each rollout", "10-30 %")
            proof = evidence(_where(subject.last, layer.name), text, rank=layer.rank, of=side)
            yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))
            return


# ── optimizer ──


@check("CKP107", Severity.HIGH, ["kingma2015adam"])
def optimizer_state_was_lost(subject: Subject) -> Iterator[Finding]:
    """The optimizer's moments or its step count are missing, empty, or went back.

    ## Why it hurts
    Adam without its moments takes its first steps at full length in every direction, right where the policy is good.

    ## When it is fine
    Right after a start from another run's weights.
    """
    if not subject.settings or subject.section("algo").get("name") == "q_learning":
        return  # a file of weights alone is no checkpoint, and a table has no moments
    kind = str(subject.section("algo").get("optimizer", "adam"))
    wanted = OWN_MOMENTS.get(kind, ())
    before: Saved | None = None
    for saved in subject.saved:
        text = _lost(saved, wanted, before)
        if text:
            fix = advice("save and load moments and step count with the weights, and start again from the last whole checkpoint", "10-30 %")
            yield Finding(
                text=text, evidence=(evidence(_where(saved, "optimizer.safetensors"), text),), onset=float(saved.step), remedies=(fix,)
            )
            return
        before = saved


def _lost(saved: Saved, wanted: Sequence[str], before: Saved | None) -> str | None:
    if not saved.weights or (not saved.optimizer and saved.problems):
        return None  # said by CKP101
    if missing := [name for name in (*wanted, "steps") if not saved.find_moments(name)]:
        return f"the optimizer's {' and '.join(missing)} are not in checkpoint {saved.step}"
    taken = saved.optimizer_steps
    moments = {name: [each for each in saved.find_moments(name) if each.size] for name in wanted}
    zero = [name for name, found in moments.items() if found and not any(np.any(each) for each in found)]
    if zero and taken:
        return f"the optimizer's {' and '.join(zero)} are all 0 after {say(taken)} steps, at env step {say(saved.step)}"
    earlier = None if before is None else before.optimizer_steps
    if taken is not None and earlier is not None and taken < earlier:
        return (
            f"the optimizer counted {say(earlier)} steps at env step {say(before.step if before else 0)}, {say(taken)} at {say(saved.step)}"
        )
    return None


@check("CKP108", Severity.HIGH, ["kingma2015adam"])
def optimizer_state_is_corrupt(subject: Subject) -> Iterator[Finding]:
    """The optimizer's moments are not finite, negative where they cannot be, or of another size than the weights.

    ## Why it hurts
    The very next step applies them to every weight.

    ## When it is fine
    Never.
    """
    for saved in subject.saved:
        for name, value in sorted(saved.optimizer.items()):
            text = _corrupt(name, value, sum(weight.size for weight in saved.weights.values()))
            if text:
                text = f"{text} at env step {say(saved.step)}"
                fix = advice("go on from the checkpoint before, or from the weights alone with fresh moments", "> 30 %")
                proof = evidence(_where(saved, f"optimizer.safetensors:{name}"), text)
                yield Finding(text=text, evidence=(proof,), onset=float(saved.step), remedies=(fix,))
                return


def _corrupt(name: str, value: measures.Matrix, weights: int) -> str | None:
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        return f"{percent(float(1 - np.isfinite(value).mean()))} of the optimizer's {name} is NaN or infinite"
    if name in ("square", "steps") and value.size and float(value.min()) < 0:
        return f"the optimizer's {name} is negative ({say(float(value.min()))})"
    if name in ("mean", "square") and weights and value.size != weights:
        return f"the optimizer's {name} has {value.size} entries for {weights} weights"
    if name == "square" and value.size and float(value.max()) > 1e12:
        return f"the optimizer's {name} goes up to {say(float(value.max()))}: gradients exploded"
    return None


@check("CKP109", Severity.HIGH, ["kingma2015adam"])
def optimizer_counts_other_steps_than_the_log(subject: Subject) -> Iterator[Finding]:
    """A checkpoint's optimizer has counted other steps than the log of its run.

    ## Why it hurts
    It belongs to another moment, or to another run, than the weights beside it.

    ## When it is fine
    Never; both are written between the same two iterations.
    """
    logged = None if subject.history is None else subject.history.series.get(STEPS)
    if logged is None or not len(logged):
        return
    for saved in subject.saved:
        taken = saved.optimizer_steps
        here = int(np.searchsorted(logged.steps, saved.step, side="right")) - 1
        if taken is None or here < 0 or logged.steps[here] != saved.step:
            continue
        wanted = float(logged.values[here])
        if abs(taken - wanted) > 0.5:
            text = f"the optimizer counted {say(taken)} steps at env step {say(saved.step)}, the log says {say(wanted)}"
            fix = advice("start again from a checkpoint that agrees with the log", "unknown")
            proof = evidence(_where(saved, "optimizer.safetensors:steps"), text, counted=taken, logged=wanted)
            yield Finding(text=text, evidence=(proof,), onset=float(saved.step), remedies=(fix,))
            return


# ── normalizer, deviation, seeds ──


@check("CKP110", Severity.HIGH, ["raffin2021sb3"])
def normalizer_does_not_fit(subject: Subject) -> Iterator[Finding]:
    """The statistics that observations are scaled by do not fit the observations saved beside them.

    ## Why it hurts
    The network is shown numbers that it was not trained on: statistics were lost at a resume, or belong to another environment.

    ## When it is fine
    An environment that has just changed on purpose.
    """
    for saved in subject.saved:
        # Recorded data is seen once, and learned from in as many steps as one likes.
        text = _misfit(saved, counts=not subject.section("data"))
        if text:
            fix = advice("save and load the normalizer's mean, variance and count together with the weights", "> 30 %")
            proof = evidence(_where(saved, "obs_stats"), text)
            yield Finding(text=text, evidence=(proof,), onset=float(saved.step), remedies=(fix,))
            return


def _misfit(saved: Saved, *, counts: bool) -> str | None:
    moments, count = measures.normalizer(saved), saved.policy.get("obs_stats.count")
    var = saved.policy.get("obs_stats.var")
    if moments is None or var is None:
        return None
    if float(var.min()) < 0:
        return f"a variance of the observations is negative ({say(float(var.min()))}) at env step {say(saved.step)}"
    seen_rows = float(count.reshape(-1)[0]) if count is not None and count.size == 1 else math.nan
    if counts and seen_rows < 0.5 * saved.step:
        return f"the normalizer has seen {say(seen_rows)} observations after {say(saved.step)} env steps"
    obs = measures.rows(saved.loop.get("obs"))
    if obs is None or obs.shape[1] != len(moments[0]):
        return None
    away = np.abs((obs - moments[0]) / np.maximum(moments[1], 1e-6))
    worst = int(np.argmax(np.median(away, axis=0)))
    middle = float(np.median(away, axis=0)[worst])
    if middle <= 8.0:
        return None
    return f"component {worst} of recent observations lies {say(middle)} deviations off the normalizer's mean at env step {say(saved.step)}"


@check("CKP111", Severity.MEDIUM, ["huang2022details"])
def deviation_at_its_limit(subject: Subject) -> Iterator[Finding]:
    """The deviation of continuous actions ran to one of its limits, or to almost nothing.

    ## Why it hurts
    At the upper end actions are noise; at the lower one nothing new is tried, and log-probabilities explode.

    ## When it is fine
    A lower end at the end of a solved run.
    """
    log_std, net = subject.last.weights.get("log_std"), subject.section("net")
    if log_std is None or not log_std.size or not np.isfinite(log_std).all():
        return
    low, high, start = (net.get(name) for name in ("log_std_min", "log_std_max", "log_std_init"))
    lowest, highest = float(log_std.min()), float(log_std.max())
    at_start = float(start) if isinstance(start, int | float) else 0.0
    top = float(high) if isinstance(high, int | float) else math.inf
    bottom = max(float(low) if isinstance(low, int | float) else -math.inf, math.log(1e-3))
    text = None
    if highest >= top - 0.02 and highest > at_start + 0.5:
        text = f"log_std reached {say(highest)}, its upper limit: a deviation of {say(math.exp(min(highest, 50.0)))}"
    elif lowest <= bottom + 0.02 and lowest < at_start - 0.5:
        text = f"log_std fell to {say(lowest)}: a deviation of {say(math.exp(lowest))}"
    if text:
        fix = advice("lower ent_coef if it grew, raise it if it vanished; narrower net.log_std_min and net.log_std_max bound it", "10-30 %")
        yield Finding(text=text, evidence=(evidence(_where(subject.last, "log_std"), text, low=lowest, high=highest),), remedies=(fix,))


@check("CKP112", Severity.HIGH, ["agarwal2021rliable"])
def seeds_have_the_same_weights(_: Subject) -> Iterator[Finding]:
    """Two seeds of a group have the same weights, bit for bit.

    ## Why it hurts
    They are one run counted twice: every interval over seeds is too narrow.

    ## When it is fine
    Never.
    """
    return iter(())  # told by `compare`: one run alone cannot show it


def compare(subjects: Sequence[Subject]) -> list[Finding]:
    """What only a group shows: seeds whose last weights are the same."""
    twins: dict[bytes, list[str]] = {}
    for subject in subjects:
        if subject.last.weights:
            key = b"".join(value.tobytes() for _, value in sorted(subject.last.weights.items()))
            twins.setdefault(key, []).append(subject.run)
    rule = next(rule for rule in rules() if rule.id == "CKP112")
    findings = []
    for runs in (runs for runs in twins.values() if len(runs) > 1):
        text = f"{', '.join(runs[:4])} have the same weights, bit for bit"
        fix = advice("give every run its own seed, and use it for the weights, the actions and the environments", "unknown")
        proof = evidence(f"{WHERE}policy.safetensors", text, runs=len(runs))
        findings += [
            Finding(rule=rule.id, name=rule.name, severity=rule.severity, text=text, evidence=(proof,), remedies=(fix,), run=run)
            for run in runs
        ]
    return findings
