"""Gradients, hidden units and weights."""

from collections.abc import Iterator

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import GRAD_ACTOR, GRAD_MAX, GRAD_NORM, GRAD_P50, sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import ON_POLICY, BugLocation, cause, change, decades, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect, measures

RATIO_MIN = sentinel("update_ratio_min")
WEIGHTS = sentinel("weight_norm")


cause(
    "gradient-clip-too-tight",
    "gradient limit too tight",
    "fault of settings",
    doses=["usual-gradient-limit", "usual-gradient-limit+careful-rate"],
    explains="POL102 ENT301 VAL201 VAL203 LRN103 BUD101",
)


@rule(
    "GRD401",
    severity=Severity.HIGH,
    needs=[(GRAD_P50, GRAD_NORM), "config:algo.max_grad_norm"],
    cites=["godbole2023playbook"],
    causes=["gradient-clip-too-tight"],
    bad=lambda: cases.unsolved({"train/hp/max_grad_norm": 1e-05, "train/metrics/kl_divergence": 1e-06}),
)
def gradient_limit_far_below_the_gradients(case: Case) -> Iterator[Finding]:
    """max_grad_norm is so far below the gradients that hardly anything of them is left.

    ## Why it hurts
    Adam divides by the gradient's own size, so a limit changes little, until the clipped gradient falls below Adam's epsilon: then
    the steps shrink with it. Plain SGD shrinks at once.

    ## When it is fine
    PPO's usual limit of 0.5 clips most early updates: ten or a hundred times is nothing to worry about.
    """
    limit = case.number("max_grad_norm")
    norm = case.learning(GRAD_P50) if case.has(GRAD_P50) else case.learning(GRAD_NORM)
    if not limit or not len(norm):
        return
    times = norm.median / limit
    tight = grade(decades(max(times, 1e-9)), 2.5, 4.5)
    size = measures.step_size(case)
    strength = min(tight, grade(-size, -0.3, -0.05)) if size == size else 0.5 * tight
    if strength <= 0:
        return
    text = f"gradients of {say(norm.median)} are cut to max_grad_norm {say(limit)}: {say(times)} x"
    fix = change(case, "algo.max_grad_norm", 0.5, "the usual limit", "> 30 %")
    yield Finding(
        strength=strength, text=text, evidence=(evidence(norm.name, text, *case.span, median=norm.median, times=times),), remedies=(fix,)
    )


@rule(
    "GRD402",
    severity=Severity.MEDIUM,
    needs=[GRAD_MAX],
    cites=["godbole2023playbook"],
    causes=["not-finite"],
    bad=lambda: cases.unsolved(
        {
            "train/hp/max_grad_norm": 1000.0,
            "train/metrics/grad_norm/max": lambda share: np.where(np.abs(share - 0.45) < 0.01, 500.0, 1.0 + 0.1 * np.sin(40 * share)),
            "train/roll/ep_rew_mean": cases.rise_and_fall,
        }
    ),
    # A table has no gradient that could explode.
    good=[
        lambda: cases.unsolved(
            {
                "train/metrics/grad_norm/max": lambda share: np.where(np.abs(share - 0.45) < 0.01, 500.0, 1.0),
                "train/roll/ep_rew_mean": cases.rise_and_fall,
            },
            algo="q_learning",
        )
    ],
)
def gradient_spikes_before_the_fall(case: Case) -> Iterator[Finding]:
    """The gradient norm jumped to many times its usual size, and the return fell after it.

    The distribution of gradient norms is compared by phase: before and after the best return.

    ## Why it hurts
    One step of that size can undo what thousands built up.

    ## When it is fine
    Spikes that a limit (max_grad_norm) cuts off, and after which the return goes on rising.
    """
    fell = measures.return_fell_at(case)
    limit = case.number("max_grad_norm")
    if fell is None or (limit is not None and limit <= 10 and case.setting("algo.optimizer") != "sgd"):
        return
    if case.algo == "q_learning":  # a table moves by a share of its error, which a rare reward makes large: nothing can explode
        return
    before = [spike for spike in detect.spikes(case.signal(GRAD_MAX), 12.0) if spike.step <= fell * 1.1]
    if not before:
        return
    worst = max(before, key=lambda spike: spike.times)
    spike = f"gradient norm {say(worst.value)} at {say(worst.step)} env steps ({say(worst.times)} deviations out)"
    text = f"{spike}; the return fell from {say(fell)} on"
    fix = change(case, "algo.max_grad_norm", 0.5, "cut the spikes off", "10-30 %")
    yield Finding(
        strength=grade(worst.times, 12.0, 40.0),
        text=text,
        evidence=(evidence(GRAD_MAX, text, worst.step, fell, value=worst.value),),
        onset=worst.step,
        remedies=(fix,),
    )


cause(
    "layer-frozen",
    "a layer never changes",
    "fault of code",
    advice="a layer never changes: is it in the optimizer's parameters, and is its input attached?",
    explains="VAL201 GRD405",
    bug=BugLocation(
        fix="give the optimizer every parameter, and take off requires_grad = False and detach",
        check="before, after = copies of the weights around one update: none may be equal",
        rlclinic=("rlclinic/training/nets/mlp.py", "actor_critic", "which parameters the outputs depend on"),
        sb3=("stable_baselines3/common/policies.py", "ActorCriticPolicy._build", "modules made after the optimizer are not trained"),
        cleanrl=("ppo.py", "Agent.__init__", "layers kept in a plain list are not in agent.parameters()"),
        own="layers in a plain Python list, layers made after the optimizer, a detach between trunk and head",
    ),
)


@rule(
    "GRD403",
    severity=Severity.HIGH,
    needs=[RATIO_MIN],
    cites=["jones2021debugging"],
    certain=True,
    causes=["layer-frozen"],
    bad=lambda: cases.unsolved({"train/sentinel/update_ratio_min": 0.0}),
)
def a_layer_never_changes(case: Case) -> Iterator[Finding]:
    """The weights of at least one layer stay exactly as they were.

    ## Why it hurts
    A frozen layer, a detached input, or an optimizer that holds other parameters: that part of the network is random for ever.

    ## When it is fine
    A layer that is frozen on purpose; the critic's, where it is not trained; a learning rate of 0.
    """
    lowest, highest = case.signal(RATIO_MIN), case.signal(sentinel("update_ratio_max"))
    alive = highest.values > 1e-9 if len(highest) else np.ones(len(lowest), dtype=bool)
    still = lowest.values < 1e-12
    if len(still) != len(alive) or not alive.any() or (case.number("vf_coef") or 1.0) <= 1e-6:
        return
    share = float(still[alive].mean())
    if share < 0.5:
        return
    text = f"a layer's weights do not change in {percent(share)} of the updates, while others do"
    yield Finding(strength=grade(share, 0.4, 0.9), text=text, evidence=(evidence(RATIO_MIN, text, *case.span, share=share),))


cause(
    "dead-units",
    "hidden units are dead",
    "symptom",
    doses=["normalize-layers", "shorter-steps", "tanh-layers"],
    explains="VAL201",
    behind=[
        ("learning-rate-too-high", 0.45, "probe", "units died after large steps"),
        ("observation-scale", 0.3, "environment", "observations far from 1 push units out of their range"),
        ("reward-scale-too-large", 0.25, "environment", "value targets in the hundreds"),
    ],
)


@rule(
    "GRD404",
    severity=Severity.MEDIUM,
    needs=[(sentinel("dormant_actor"), sentinel("dormant_critic"))],
    cites=["sokar2023dormant"],
    causes=["dead-units"],
    bad=lambda: cases.unsolved({"train/sentinel/dormant_actor": 0.9}),
)
def hidden_units_are_dead(case: Case) -> Iterator[Finding]:
    """Many hidden units have stopped responding.

    ## Why it hurts
    A dormant unit gets no gradient and takes no part: the network behaves like a much smaller one.

    ## When it is fine
    A share that is high from the start and does not grow: the network is larger than the task needs.
    """
    for part in ("actor", "critic"):
        dormant = case.sentinel(f"dormant_{part}")
        if len(dormant) < 3:
            continue
        late = dormant.share(0.7).median
        # What did not respond at the start either has not died; where nearly all are silent from the first row on, they died before it.
        died = max(grade(late - dormant.first, 0.05, 0.2), grade(dormant.first, 0.75, 0.9))
        strength = min(grade(late, 0.4, 0.7), died)
        if strength <= 0 or not case.sick:
            continue
        text = f"{percent(late)} of the {part}'s hidden units are dormant (at the start {percent(dormant.first)})"
        fix = change(case, "net.layer_norm", True, "keeps units in range; a lower learning rate keeps them alive", "10-30 %")
        yield Finding(
            strength=strength,
            text=text,
            evidence=(evidence(dormant.name, text, *case.span, late=late),),
            onset=detect.onset(dormant),
            remedies=(fix,),
        )


@rule(
    "GRD405",
    severity=Severity.MEDIUM,
    needs=[(sentinel("saturated_actor"), sentinel("saturated_critic"))],
    cites=["schulman2016nuts"],
    bad=lambda: cases.unsolved({"train/sentinel/saturated_critic": 0.8}),
)
def hidden_units_are_saturated(case: Case) -> Iterator[Finding]:
    """Most hidden activations lie at the flat ends of tanh or sigmoid.

    ## Why it hurts
    There the gradient vanishes: layers below learn nothing. Inputs that are not scaled saturate the first layer from the start; a
    learning rate that is too high does it later.

    ## When it is fine
    A policy that is solved and certain.
    """
    for part in ("actor", "critic"):
        saturated = case.sentinel(f"saturated_{part}")
        if len(saturated) < 3 or not case.sick:
            continue
        late, first = case.learning(saturated.name).median, saturated.first
        strength = grade(late, 0.35, 0.6)
        if strength <= 0:
            continue
        text = f"{percent(late)} of the {part}'s activations are saturated (at the start {percent(first)})"
        yield Finding(
            strength=strength,
            text=text,
            evidence=(evidence(saturated.name, text, *case.span, median=late, first=first),),
            onset=detect.onset(saturated),
        )


@rule(
    "GRD406",
    severity=Severity.HIGH,
    needs=[WEIGHTS],
    cites=["moalla2024collapse"],
    bad=lambda: cases.unsolved({"train/sentinel/weight_norm": lambda share: 16 * (1 + 10 * share)}),
    good=[lambda: cases.unsolved({"train/sentinel/weight_norm": lambda share: 16 * (1 + 10 * share)}, algo="q_learning")],
)
def weights_blow_up(case: Case) -> Iterator[Finding]:
    """The weights grew to several times their initial size.

    ## Why it hurts
    Logits and activations grow with them: the policy becomes certain, units saturate, and the network loses its ability to change.

    ## When it is fine
    A slow growth over a long run.
    """
    weights = case.signal(WEIGHTS)
    times = weights.last / max(weights.first, 1e-9)
    strength = grade(times, 2.5, 6.0)
    if strength <= 0 or not case.sick or case.algo == "q_learning":  # a table holds values, and counts of visits
        return
    text = f"the weights' norm grew {say(times)} x, from {say(weights.first)} to {say(weights.last)}"
    yield Finding(strength=strength, text=text, evidence=(evidence(WEIGHTS, text, *case.span, times=times),), onset=detect.onset(weights))


@rule(
    "GRD407",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[GRAD_ACTOR, sentinel("adv_std")],
    cites=["jones2021debugging"],
    certain=True,
    causes=["dead-surrogate"],
    bad=lambda: cases.unsolved({"train/metrics/grad_norm/actor_head": 0.0}),
)
def policy_gets_no_gradient(case: Case) -> Iterator[Finding]:
    """No gradient reaches the policy although the advantages vary.

    ## Why it hurts
    The policy loss is dead: detached log-probabilities, actions that do not depend on the parameters, a frozen head.

    ## When it is fine
    Never, as long as advantages vary.
    """
    norm, deviation = case.signal(GRAD_ACTOR), case.signal(sentinel("adv_std"))
    relative = measures.relative_entropy(case)
    certain = len(relative) > 0 and relative.median < 0.01
    if norm.median > 1e-9 or deviation.median <= 1e-8 or certain:
        return
    text = f"the gradient of the policy's last layer is {say(norm.median)}, with advantages of deviation {say(deviation.median)}"
    yield Finding(text=text, evidence=(evidence(GRAD_ACTOR, text, *case.span, median=norm.median),))


cause(
    "not-finite",
    "numbers stopped being finite",
    "symptom",
    doses=["shorter-steps", "usual-gradient-limit", "scale-rewards"],
    explains="CFG107 EVA802",
    behind=[
        ("learning-rate-too-high", 0.4, "settings", "gradients and steps grew before it"),
        ("environment-not-finite", 0.3, "environment", "an observation or a reward was not finite first"),
        ("reward-scale-too-large", 0.2, "environment", "value targets in the thousands"),
        ("observation-scale", 0.1, "environment", "observations in the thousands"),
    ],
)


@rule(
    "GRD408",
    severity=Severity.HIGH,
    cites=["jones2021debugging"],
    certain=True,
    causes=["not-finite"],
    bad=lambda: cases.unsolved({"train/loss/policy": lambda share: np.where(share > 0.6, np.nan, 0.01)}),
)
def numbers_are_not_finite(case: Case) -> Iterator[Finding]:
    """NaN or infinity turned up in the metrics.

    The column that broke first names the place: observations and rewards before losses means the environment, losses before
    weights means the update.

    ## Why it hurts
    One value that is not a number spreads to every weight in a single update.

    ## When it is fine
    Never in losses, gradients and weights; explained variance is undefined where targets do not vary.
    """
    undefined = ("explained_variance", "/ev_", "success_rate", "time/", "val/roll/success_rate")
    broken = [
        (float(series.broken[0]), name)
        for name, series in case.history.series.items()
        if len(series.broken) and not any(part in name for part in undefined)
    ]
    if not broken:
        return
    at, name = min(broken)
    text = f"{name} is not finite at {say(at)} env steps, the first of {len(broken)} columns"
    yield Finding(text=text, evidence=(evidence(name, text, at, at),), onset=at)


cause(
    "saturating-activation",
    "saturating activations",
    "fault of settings",
    doses=["tanh-layers", "tanh-layers+two-layers", "normalize-layers"],
    explains="POL102 REW504 ENT301 ENT302 VAL201 LRN103",
)


@rule(
    "GRD409",
    severity=Severity.MEDIUM,
    needs=["config:net.activation"],
    cites=["andrychowicz2021matters"],
    causes=["saturating-activation"],
    bad=lambda: cases.unsolved(settings={"net.activation": "sigmoid"}),
)
def sigmoid_hidden_layers(case: Case) -> Iterator[Finding]:
    """Hidden layers with sigmoid activations.

    ## Why it hurts
    A sigmoid's slope is at most 1/4 and its output is never centred: gradients shrink by each layer, and the first ones hardly learn.

    ## When it is fine
    One shallow layer with a tuned learning rate.
    """
    layers = _widths(case)
    if case.setting("net.activation") != "sigmoid":
        return
    text = f"activation sigmoid in {len(layers)} hidden layers"
    fix = change(case, "net.activation", "tanh", "centred, with a slope of 1 at 0", "10-30 %")
    yield Finding(
        strength=grade(len(layers), 0.0, 2.0),
        text=text,
        evidence=(evidence("config:net.activation", text, layers=float(len(layers))),),
        remedies=(fix,),
    )


cause(
    "network-too-small",
    "network too small",
    "fault of settings",
    doses=["wider-layers", "wider-layers+careful-rate"],
    explains="VAL201 VAL203 POL102 LRN103",
)


@rule(
    "GRD410",
    severity=Severity.MEDIUM,
    needs=["config:net.hidden"],
    cites=["andrychowicz2021matters"],
    causes=["network-too-small"],
    bad=lambda: cases.unsolved(settings={"net.hidden": [2]}),
)
def network_tiny(case: Case) -> Iterator[Finding]:
    """The hidden layers are too narrow to represent much.

    ## Why it hurts
    A layer of a few units is a bottleneck: everything behind it sees one or two features.

    ## When it is fine
    Tasks that a linear policy solves.
    """
    layers = _widths(case)
    if not layers or min(layers) >= 8:
        return
    narrow = min(layers)
    text = f"a hidden layer of {narrow} unit{'s' if narrow > 1 else ''}"
    fix = change(case, "net.hidden", [64, 64], "the usual size for vectors", "> 30 %")
    yield Finding(
        strength=grade(-narrow, -8.0, -3.0),
        text=text,
        evidence=(evidence("config:net.hidden", text, narrowest=float(narrow)),),
        remedies=(fix,),
    )


def _widths(case: Case) -> list[int]:
    """Units of the hidden layers, as far as they are whole numbers."""
    layers = case.setting("net.hidden")
    return [int(width) for width in layers if isinstance(width, int) and width >= 1] if isinstance(layers, list | tuple) else []
