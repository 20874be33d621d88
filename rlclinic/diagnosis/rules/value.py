"""The critic, its targets, and the discount that defines them."""

import math
from collections.abc import Iterator

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EXPLAINED_VARIANCE, GRAD_CRITIC, LENGTH, VALUE_LOSS, sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import ON_POLICY, BugLocation, advice, cause, change, decades, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect, measures
from rlclinic.diagnosis.signals.off_policy import OFF_POLICY

TARGETS = sentinel("return_abs_p95")
GAMMA = "config:algo.gamma"
ANY = (*ON_POLICY, *OFF_POLICY)


@rule(
    "VAL201",
    severity=Severity.MEDIUM,
    algos=["ppo", "a2c"],
    needs=[EXPLAINED_VARIANCE],
    cites=["schulman2016nuts"],
    bad=lambda: cases.unsolved({"train/metrics/explained_variance": 0.01, "train/sentinel/return_std": 5.0}),
)
def critic_explains_nothing(case: Case) -> Iterator[Finding]:
    """The critic predicts returns no better than a constant, to the end.

    Only rows whose targets vary by more than 2 % of their size are looked at: on a solved task there is nothing to explain.

    ## Why it hurts
    Advantages are as noisy as whole returns: the policy learns slowly or not at all.

    ## When it is fine
    Early in a run; rewards that are mostly chance; a critic that is switched off on purpose.
    """
    explained = measures.explained(case)
    late = explained.share(0.5)
    if len(late) < 3 or not measures.targets_vary(case) or not case.sick:
        return
    strength = grade(-late.median, -0.25, -0.02)
    if strength <= 0:
        return
    text = f"explained variance {say(late.median)} in the second half"
    yield Finding(strength=strength, text=text, evidence=(evidence(EXPLAINED_VARIANCE, text, *case.span, late=late.median),))


cause(
    "critic-not-trained",
    "the critic is not trained",
    "fault of code",
    doses=["critic-weight", "critic-weight+careful-rate"],
    advice="no gradient reaches the critic: is its loss added, are its features attached, does the optimizer hold its parameters?",
    explains="VAL201 VAL203 GRD403 VAL211",
    bug=BugLocation(
        fix="the value loss must reach the critic's weights: they are in the optimizer, and vf_coef is not 0",
        check="loss.backward(); assert value_head.weight.grad.abs().sum() > 0",
        rlclinic=("rlclinic/training/algos/ppo.py", "loss", "vf_coef x value_loss is part of the sum"),
        sb3=("stable_baselines3/ppo/ppo.py", "PPO.train", "vf_coef=0, or an optimizer that was made before the value net"),
        cleanrl=("ppo.py", "the value loss in the minibatch loop", "v_loss in the total, agent.critic in optim.Adam(agent.parameters())"),
        own="whether the optimizer knows the critic's parameters, and whether its output was detached",
    ),
)


@rule(
    "VAL202",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=["config:algo.vf_coef"],
    cites=["andrychowicz2021matters"],
    causes=["critic-not-trained"],
    bad=lambda: cases.unsolved({"train/hp/vf_coef": 0.0}),
)
def critic_has_no_weight(case: Case) -> Iterator[Finding]:
    """The value loss has no weight, so the critic is never trained.

    ## Why it hurts
    Advantages are computed from values that mean nothing.

    ## When it is fine
    REINFORCE without a baseline.
    """
    weight = case.number("vf_coef")
    if weight is None or weight > 1e-4 or case.setting("algo.baseline") is False:
        return
    text = f"vf_coef {say(weight)}: the critic is not trained"
    fix = change(case, "algo.vf_coef", 0.5, "the usual weight", "> 30 %")
    yield Finding(text=text, evidence=(evidence("config:algo.vf_coef", text, value=weight),), remedies=(fix,))


@rule(
    "VAL203",
    severity=Severity.MEDIUM,
    algos=["ppo", "a2c"],
    needs=[sentinel("value_mean"), sentinel("return_mean")],
    cites=["jones2021debugging"],
    bad=lambda: cases.unsolved({"train/sentinel/value_mean": 1.0, "train/sentinel/return_mean": 40.0}),
)
def value_lags_behind_its_targets(case: Case) -> Iterator[Finding]:
    """The critic's values stay far from their targets on average.

    ## Why it hurts
    Every advantage carries the same error: all actions look better (or worse) than they are. Normalizing advantages hides it from
    the policy, but not the noise that comes with it.

    ## When it is fine
    While returns grow quickly, the critic is always a little behind.
    """
    value, target = case.learning(sentinel("value_mean")), case.learning(sentinel("return_mean"))
    size = case.learning(TARGETS)
    if len(value) < 4 or len(value) != len(target):
        return
    scale = max(size.median if len(size) else abs(target.median), 1e-6)
    late = value.share(0.5)
    off = np.array([abs(v - target.at(s)) for s, v in zip(late.steps, late.values, strict=True)])
    gap = float(np.median(off)) / scale
    strength = grade(gap, 0.25, 0.6)
    if strength <= 0 or not case.sick:
        return
    text = f"values {say(late.median)} against targets of {say(target.share(0.5).median)}: off by {percent(gap)}"
    yield Finding(strength=strength, text=text, evidence=(evidence(sentinel("value_mean"), text, *case.span, gap=gap),))


cause(
    "value-clip-too-tight",
    "value clip too tight",
    "fault of settings",
    doses=["no-value-clip", "no-value-clip+careful-rate", "scale-rewards"],
    explains="VAL201 VAL203",
)


@rule(
    "VAL204",
    severity=Severity.HIGH,
    algos=["ppo"],
    needs=["config:algo.clip_range_vf", TARGETS],
    cites=["engstrom2020matters", "andrychowicz2021matters"],
    causes=["value-clip-too-tight"],
    bad=lambda: cases.unsolved({"train/hp/clip_range_vf": 0.001}, settings={"algo.clip_range_vf": 0.001}),
)
def value_clip_too_tight(case: Case) -> Iterator[Finding]:
    """A value may move per update by far less than its targets are away.

    ## Why it hurts
    The critic cannot keep up with growing returns: it would take longer than the run to reach them.

    ## When it is fine
    With normalized rewards, where targets are about 1.
    """
    limit, size = case.number("clip_range_vf"), case.learning(TARGETS)
    deviation = case.learning(sentinel("return_std"))
    if not limit or not len(size):
        return
    reach = limit / max(size.median, deviation.median if len(deviation) else 0.0, 1e-9)
    strength = grade(-decades(reach), 1.5, 2.5)
    if strength <= 0:
        return
    text = f"clip_range_vf {say(limit)} against targets of {say(size.median)}: {percent(reach)} per update"
    fix = change(case, "algo.clip_range_vf", None, "no limit", "10-30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(TARGETS, text, *case.span, reach=reach),), remedies=(fix,))


cause(
    "value-loss-dominates",
    "the value loss drowns the policy",
    "fault of settings",
    doses=["own-networks", "equal-shares", "scale-rewards"],
    explains="POL102 ENT301 LRN103 VAL201",
)


@rule(
    "VAL205",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[sentinel("grad_value_share"), "config:net.shared"],
    cites=["andrychowicz2021matters"],
    causes=["value-loss-dominates"],
    bad=lambda: cases.unsolved({"train/sentinel/grad_value_share": 0.99}, settings={"net.shared": True}),
)
def value_loss_drowns_the_policy(case: Case) -> Iterator[Finding]:
    """On a shared network, the value loss makes up almost the whole gradient.

    ## Why it hurts
    The gradient is limited as a whole: what is left for the policy after the critic's share is nothing.

    ## When it is fine
    Networks of their own: then the critic cannot take anything away.
    """
    share = case.learning(sentinel("grad_value_share"))
    if case.setting("net.shared") is not True or not len(share) or not case.sick:
        return
    strength = grade(share.median, 0.9, 0.985)
    if strength <= 0:
        return
    text = f"the value term is {percent(share.median)} of the shared network's gradient"
    weight = case.number("vf_coef") or 0.5
    new = float(f"{weight * (1 - share.median) / max(share.median, 1e-9):.1g}")
    fixes = (
        change(case, "env.normalize_reward", True, "targets of about 1", "> 30 %"),
        change(case, "net.shared", False, "a network for each", "> 30 %"),
        change(case, "algo.vf_coef", new, "equal shares", "10-30 %"),
    )
    yield Finding(strength=strength, text=text, evidence=(evidence(share.name, text, *case.span, share=share.median),), remedies=fixes)


cause(
    "value-loss-sign",
    "the critic runs away from its targets",
    "fault of code",
    advice="look at the sign of the value loss, and at the shapes in its difference: (N, 1) minus (N,) is (N, N)",
    explains="VAL201 VAL203 VAL212 GRD406 GRD401 EVA802 POL102 REW504 ENT302",
    bug=BugLocation(
        fix="minimize the squared error: loss = policy loss + vf_coef x value loss - ent_coef x entropy",
        check="the value loss on one fixed batch must fall over 100 gradient steps",
        rlclinic=("rlclinic/training/maths/losses.py", "value_error", "the sign, and the sign of vf_coef in the sum"),
        sb3=("stable_baselines3/ppo/ppo.py", "PPO.train", "a copied train with - self.vf_coef * value_loss"),
        cleanrl=("ppo.py", "the value loss in the minibatch loop", "loss = pg_loss - ent_coef * entropy_loss + v_loss * vf_coef"),
        own="the sign of the value loss in the total",
    ),
)


@rule(
    "VAL206",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[VALUE_LOSS, EXPLAINED_VARIANCE],
    cites=["jones2021debugging"],
    certain=True,
    causes=["value-loss-sign"],
    bad=lambda: cases.unsolved(
        {
            "train/loss/value": lambda share: 10 ** (1 + 6 * share),
            "train/metrics/explained_variance": -1000.0,
            "train/sentinel/return_std": 5.0,
        }
    ),
)
def critic_runs_away(case: Case) -> Iterator[Finding]:
    """The critic gets worse without bound: its error grows by orders of magnitude, far beyond its targets.

    ## Why it hurts
    The value loss is maximized (a wrong sign), or its steps diverge. Advantages drown in it.

    ## When it is fine
    Never; a value loss that grows with the returns stays below their variance.
    """
    loss, explained, deviation = case.signal(VALUE_LOSS), case.signal(EXPLAINED_VARIANCE), case.signal(sentinel("return_std"))
    worse = grade(-explained.share(0.5).median, 5.0, 50.0)
    grown = grade(decades(max(loss.share(0.8).median, 1e-12) / max(loss.share(0.0, 0.1).median, 1e-12)), 2.0, 4.0)
    negative = grade(-loss.share(0.3).median, 0.0, 1e-6)
    settled = len(deviation) > 0 and deviation.share(0.5).median < 0.02 * max(case.signal(TARGETS).share(0.5).median, 1e-9)
    strength = max(min(worse, max(grown, 0.3)) if not settled else min(worse, grown), negative)
    if strength <= 0:
        return
    text = f"value loss {say(loss.first)} -> {say(loss.last)}, explained variance {say(explained.share(0.5).median)}"
    numbers = {"first": loss.first, "last": loss.last, "explained_variance": explained.share(0.5).median}
    fix = advice("look at the sign of the value loss and at the shapes in its difference; then at the learning rate", "> 30 %")
    yield Finding(
        strength=strength,
        text=text,
        evidence=(evidence(VALUE_LOSS, text, *case.span, **numbers),),
        onset=detect.onset(loss),
        remedies=(fix,),
    )


@rule(
    "VAL207",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[GRAD_CRITIC],
    cites=["jones2021debugging"],
    certain=True,
    causes=["critic-not-trained"],
    bad=lambda: cases.unsolved({"train/metrics/grad_norm/critic_head": 0.0}),
)
def critic_gets_no_gradient(case: Case) -> Iterator[Finding]:
    """No gradient reaches the critic although its loss is counted.

    ## Why it hurts
    The critic never learns: detached features, a frozen head, or an optimizer that does not know its parameters.

    ## When it is fine
    Where the critic is switched off (vf_coef 0, REINFORCE without a baseline).
    """
    norm, weight = case.signal(GRAD_CRITIC), case.number("vf_coef")
    if (weight is not None and weight <= 1e-6) or case.setting("algo.baseline") is False or norm.top > 1e-10:
        return
    text = "the gradient of the critic's last layer is 0 throughout"
    yield Finding(text=text, evidence=(evidence(GRAD_CRITIC, text, *case.span, largest=norm.top),))


cause(
    "discount-too-low",
    "discount too low: the agent is short-sighted",
    "fault of settings",
    doses=["discount-for-the-episode", "other-discount", "discount-for-the-episode+longer-advantages"],
    explains="VAL201 REW504 EVA802 VAL203 EVA801 BUD101 REW503 LRN107 ENT302 QVL108",
)


@rule(
    "VAL208",
    severity=Severity.HIGH,
    algos=(*ANY, "q_learning"),
    needs=[GAMMA],
    cites=["schulman2016nuts"],
    causes=["discount-too-low"],
    bad=lambda: cases.unsolved({"train/hp/gamma": 0.5}),
)
def discount_looks_too_few_steps_ahead(case: Case) -> Iterator[Finding]:
    """gamma makes the agent blind to anything but the next few steps.

    Rewards 1 / (1 - gamma) steps ahead count about a third; that is compared with the length of episodes.

    ## Why it hurts
    What pays off later looks like a cost now. The critic fits its short-sighted targets well, and nothing else looks wrong.

    ## When it is fine
    Where each reward is the result of the last few actions (Pendulum: 0.9), or in bandit-like tasks.
    """
    gamma = case.number("gamma")
    if gamma is None:
        return
    ahead, length = measures.horizon(gamma), case.signal(LENGTH)
    short = grade(-ahead, -8.0, -4.0)
    if short <= 0:
        return
    # The longest that episodes got: a bad policy may end them early.
    steps = length.top if len(length) else math.nan
    seen = grade(steps / ahead, 2.0, 8.0) if len(length) else 1.0
    strength = min(short, max(seen, 0.3))
    text = f"gamma {say(gamma)} looks {say(ahead)} steps ahead" + (f"; episodes last up to {say(steps)}" if len(length) else "")
    fix = change(case, "algo.gamma", 0.99, "100 steps ahead", "> 30 %", "larger values: the critic needs longer")
    yield Finding(strength=strength, text=text, evidence=(evidence(GAMMA, text, value=gamma, horizon=ahead),), remedies=(fix,))


cause(
    "discount-too-high",
    "no discount",
    "fault of settings",
    doses=["discount-for-the-episode", "other-discount", "discount-for-the-episode+longer-advantages"],
    explains="VAL203 VAL201 REW502",
)


@rule(
    "VAL209",
    severity=Severity.MEDIUM,
    algos=ON_POLICY,
    needs=[GAMMA],
    cites=["schulman2016nuts", "pardo2018time"],
    causes=["discount-too-high"],
    bad=lambda: cases.unsolved({"train/hp/gamma": 1.0, "train/sentinel/truncated": 2.0, "train/sentinel/terminated": 1.0}),
)
def no_discount(case: Case) -> Iterator[Finding]:
    """gamma is 1: rewards count for ever.

    ## Why it hurts
    Where episodes are cut by a time limit, values have no bound: targets drift upwards, and the critic runs behind them.

    ## When it is fine
    Short episodes that always end by themselves, and Monte Carlo returns.
    """
    gamma = case.number("gamma")
    if gamma is None or gamma < 0.99999 or case.algo == "reinforce":
        return
    cut, ended = case.signal(sentinel("truncated")), case.signal(sentinel("terminated"))
    share = float(np.sum(cut.values)) / max(float(np.sum(cut.values) + np.sum(ended.values)), 1.0) if len(cut) else 0.5
    text = f"gamma {say(gamma)}" + (f", and {percent(share)} of the episodes are cut by a time limit" if len(cut) else "")
    fix = change(case, "algo.gamma", 0.99, "100 steps ahead", "10-30 %")
    yield Finding(strength=0.4 + 0.6 * grade(share, 0.05, 0.6), text=text, evidence=(evidence(GAMMA, text, value=gamma),), remedies=(fix,))


cause(
    "gae-lambda-too-low",
    "advantages rest on one step",
    "fault of settings",
    doses=["longer-advantages", "longest-advantages", "longer-advantages+careful-rate"],
    explains="VAL201 VAL203 EVA802 BUD103 LRN107",
)


@rule(
    "VAL210",
    severity=Severity.MEDIUM,
    algos=["ppo", "a2c"],
    needs=["config:algo.gae_lambda"],
    cites=["schulman2015gae", "andrychowicz2021matters"],
    causes=["gae-lambda-too-low"],
    bad=lambda: cases.unsolved(settings={"algo.gae_lambda": 0.0}),
)
def advantages_rest_on_one_step(case: Case) -> Iterator[Finding]:
    """gae_lambda is (almost) 0: an advantage is one reward plus the critic's opinion.

    ## Why it hurts
    Until the critic is good, and it is not at first, advantages are mostly its error; news travels back one step per update.

    ## When it is fine
    With a critic that is known to be good.
    """
    mixing = case.real("algo.gae_lambda")
    if mixing is None or mixing >= 0.5:
        return
    text = f"gae_lambda {say(mixing)}: advantages look {say(1 / (1 - mixing))} steps ahead; usual is 0.8 to 0.98"
    fix = change(case, "algo.gae_lambda", 0.95, "about 20 steps of real rewards", "10-30 %")
    yield Finding(
        strength=grade(-mixing, -0.5, -0.1), text=text, evidence=(evidence("config:algo.gae_lambda", text, value=mixing),), remedies=(fix,)
    )


cause(
    "returns-wrong",
    "returns are computed wrongly",
    "fault of code",
    advice="check the direction of the sums over time, and that targets at a time limit go on behind it",
    explains="VAL201 VAL203 EVA802 REW504 ENT302 GRD405",
    bug=BugLocation(
        fix="run the sum backwards, discount once per step, and add the value back for the critic's target",
        check="on rewards 1, 1, 1 with gamma 0.5 and no value function the returns are 1.75, 1.5, 1",
        rlclinic=(
            "rlclinic/training/maths/returns.py",
            "gae",
            "the direction of the loop, gamma against gamma x lambda, returns = advantage + value",
        ),
        sb3=("stable_baselines3/common/buffers.py", "RolloutBuffer.compute_returns_and_advantage", "a subclass with its own loop"),
        cleanrl=(
            "ppo.py",
            "the loop over reversed(range(num_steps))",
            "reversed(range(...)), gamma * gae_lambda on the trace and gamma on the value, returns = advantages + values",
        ),
        own="the backward recursion: its direction, its discounts, and what is added back",
    ),
)


@rule(
    "VAL211",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[sentinel("ev_early"), sentinel("ev_late")],
    cites=["pardo2018time"],
    causes=["returns-wrong"],
    bad=lambda: cases.unsolved({"train/sentinel/ev_early": 0.9, "train/sentinel/ev_late": 0.1}),
)
def critic_fails_late_in_episodes(case: Case) -> Iterator[Finding]:
    """The critic predicts well early in episodes, and nothing at all late in them.

    ## Why it hurts
    Late states have targets that do not depend on them: sums that run the wrong way through time pile up everything that came
    before, and a clock that the critic cannot see decides what is left.

    ## When it is fine
    Tasks whose late part is pure chance.
    """
    early, late = case.learning(sentinel("ev_early")).share(0.3), case.learning(sentinel("ev_late")).share(0.3)
    if len(early) < 4 or len(late) < 4 or not case.sick:
        return
    # Far below 0 only says that late targets hardly vary: a good critic's rounding is divided by next to nothing.
    strength = min(grade(early.median, 0.4, 0.6), grade(-abs(late.median), -0.3, -0.15))
    if strength <= 0:
        return
    text = f"explained variance is {say(early.median)} early in episodes and {say(late.median)} late"
    fix = advice("check the direction of the sums over time, and that targets at a time limit go on behind it", "> 30 %")
    numbers = {"early": early.median, "late": late.median}
    yield Finding(strength=strength, text=text, evidence=(evidence(sentinel("ev_late"), text, *case.span, **numbers),), remedies=(fix,))


cause(
    "episode-ends-ignored",
    "sums run through the ends of episodes",
    "fault of code",
    advice="multiply the bootstrapped value by (1 - terminated), and cut the trace at both kinds of end",
    explains="VAL201 VAL203 EVA802 REW502 QVL101 QVL102 QVL109",
    bug=BugLocation(
        fix="multiply the trace and the next value by 1 - terminated; cut the trace, and only that, where an episode is truncated",
        check="two episodes of one step with reward 1 and gamma 1: both returns are 1, not 2",
        rlclinic=("rlclinic/training/maths/returns.py", "gae", "~terminated on the value, ~(terminated | truncated) on the trace"),
        sb3=(
            "stable_baselines3/common/vec_env/base_vec_env.py",
            "VecEnv.step_wait",
            "a vector environment of your own whose dones are always False",
        ),
        cleanrl=(
            "ppo.py",
            "the loop over reversed(range(num_steps))",
            "nextnonterminal = 1.0 - dones[t + 1], and next_done in the last step",
        ),
        own="the done flags between env.step and the recursion: lost, shifted by one step, or of another environment",
    ),
)


@rule(
    "VAL212",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[sentinel("return_mean"), sentinel("reward_max"), sentinel("reward_min"), LENGTH, GAMMA],
    cites=["sutton2018book"],
    certain=True,
    causes=["episode-ends-ignored"],
    bad=lambda: cases.unsolved({"train/sentinel/return_mean": 48.0, "train/roll/ep_len_mean": 15.0, "train/sentinel/truncated": 0.0}),
    good=[
        # Rollouts in which no episode ended say nothing of what episodes can earn.
        lambda: cases.unsolved(
            {
                "train/sentinel/return_mean": 48.0,
                "train/roll/ep_len_mean": 15.0,
                "train/sentinel/truncated": 0.0,
                "train/sentinel/terminated": 0.0,
            }
        ),
        # A critic's first values beside tiny rewards are no sums through ends.
        lambda: cases.unsolved(
            {
                "train/sentinel/return_mean": 0.05,
                "train/roll/ep_len_mean": 15.0,
                "train/sentinel/truncated": 0.0,
                "train/sentinel/reward_min": 1e-5,
                "train/sentinel/reward_max": 1e-5,
            }
        ),
    ],
)
def targets_larger_than_episodes_can_earn(case: Case) -> Iterator[Finding]:
    """Value targets are larger than the rewards of an episode could ever sum up to.

    An episode of L steps with rewards of at most r earns at most r x min(L, 1 / (1 - gamma)) from any of its states, on average less.

    ## Why it hurts
    The sums run through the ends of episodes: terminal states are bootstrapped, or traces leak into the next episode. The critic
    believes in a future that does not exist, and falling has no price.

    ## When it is fine
    Episodes that are mostly cut by a time limit: there the future goes on.
    """
    target, length = case.learning(sentinel("return_mean")), case.signal(LENGTH)
    cut, ended = case.signal(sentinel("truncated")), case.signal(sentinel("terminated"))
    gamma, scale = case.number("gamma"), _reward_scale(case)
    reward = max(abs(case.signal(sentinel("reward_min")).bottom), abs(case.signal(sentinel("reward_max")).top)) * scale
    if gamma is None or not reward > 0 or not len(length):
        return
    steps, most_steps = target.steps, measures.horizon(gamma)
    earned = [
        (abs(value), reward * min(most_steps, lasted))
        for value, lasted, ends, cuts in zip(target.values, length.along(steps), ended.along(steps), cut.along(steps), strict=True)
        # Where no episode ended, nothing is known of how long those are that go on.
        if ends > 0 and cuts <= 0.1 * ends and lasted > 0
    ]
    if len(earned) < 5:
        return
    ratios, most = [value / most for value, most in earned], float(np.median([most for _, most in earned]))
    # A critic's first values are some tenths, whatever the rewards: next to that, little can be said of still smaller ones.
    strength = min(grade(float(np.median(ratios)), 1.2, 1.6), grade(most, 0.03, 0.3))
    if strength <= 0:
        return
    text = f"mean targets are {say(float(np.median(ratios)))} x what an episode can earn at most"
    fix = advice("multiply the bootstrapped value by (1 - terminated), and cut the trace at both kinds of end", "> 30 %")
    proof = evidence(sentinel("return_mean"), text, *case.span, times=float(np.median(ratios)))
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


def _reward_scale(case: Case) -> float:
    """Trained reward over raw reward: 1 without normalization."""
    raw, trained = case.learning(sentinel("reward_std")), case.learning(sentinel("reward_trained_std"))
    if case.setting("env.normalize_reward") is not True:
        return 1.0
    return trained.median / raw.median if len(raw) and len(trained) and raw.median > 0 else math.nan


@rule(
    "VAL213",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[sentinel("target_error")],
    cites=["schulman2015gae"],
    certain=True,
    causes=["returns-wrong"],
    bad=lambda: cases.unsolved({"train/sentinel/target_error": 0.4}),
)
def targets_do_not_follow_from_rewards(case: Case) -> Iterator[Finding]:
    """Value targets are not what rewards, values, gamma and gae_lambda give.

    Training recomputes the recursion R[t] = r[t] + gamma ((1 - lambda) V[t + 1] + lambda R[t + 1]) a second time, step by step.

    ## Why it hurts
    Advantages and targets come from the same sum: the policy is told the wrong story about what its actions led to.

    ## When it is fine
    Never, beyond float rounding.
    """
    error = case.signal(sentinel("target_error")).median
    strength = grade(decades(error), -3.5, -2.5)
    if strength <= 0:
        return
    text = f"targets within episodes are off by {percent(error)} of their size"
    fix = advice("write the recursion as a slow loop and compare: its direction, which value is bootstrapped, where it is cut", "> 30 %")
    proof = evidence(sentinel("target_error"), text, *case.span, error=error)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "VAL214",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[sentinel("target_error_ends")],
    cites=["schulman2015gae"],
    certain=True,
    causes=["episode-ends-ignored"],
    bad=lambda: cases.unsolved({"train/sentinel/target_error": 1e-07, "train/sentinel/target_error_ends": 0.4}),
)
def targets_go_on_behind_terminal_states(case: Case) -> Iterator[Finding]:
    """At terminal states the target is more than the last reward, although within episodes it is right.

    ## Why it hurts
    A value is bootstrapped where there is no future, or the trace runs into the next episode: falling has no price.

    ## When it is fine
    Never, beyond float rounding.
    """
    ends, inside = case.signal(sentinel("target_error_ends")).median, case.sentinel("target_error")
    strength = grade(decades(ends), -3.5, -2.5)
    if strength <= 0 or (len(inside) and inside.median > 1e-3):
        return
    text = f"targets at terminal states are off by {percent(ends)} of the usual size"
    fix = advice("multiply what follows by (1 - terminated), and cut the trace at every end", "> 30 %")
    proof = evidence(sentinel("target_error_ends"), text, *case.span, error=ends)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))
