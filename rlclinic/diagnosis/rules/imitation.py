"""Imitation of an expert: who acts, what is kept as a label, how labels are learned from, and whether the expert can be learned from; and
of demonstrations, by a reward that is learned."""

from collections.abc import Iterator
from typing import Final

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EVAL_RETURN
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import BugLocation, advice, cause, change, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals.resampling import Signal

DAGGERS: Final = ("dagger", "safe_dagger", "ensemble_dagger", "thrifty_dagger")
SELECTIVE: Final = ("safe_dagger", "ensemble_dagger", "thrifty_dagger")
EXPERT_SHARE: Final = "train/imitation/expert_share"
ASKED_SHARE: Final = "train/imitation/asked_share"
EXECUTED: Final = "train/imitation/label_is_executed"
ALTERED: Final = "train/imitation/label_altered"
LEARNED_SHARE: Final = "train/imitation/learned_share"
FIRST_ERROR: Final = "train/imitation/first_round_error"
STATE_ERROR: Final = "train/imitation/policy_state_error"
DISAGREEMENT: Final = "train/imitation/disagreement"
PASSES: Final = "train/imitation/passes"
NOISE: Final = "train/imitation/label_noise"
QUERIES: Final = "train/imitation/queries"
UNANSWERED: Final = "train/imitation/unanswered"
MISSED: Final = "train/imitation/missed_share"
LOSS: Final = "train/loss/imitation"
SILENT: Final = "has not answered"
"""In the reason of a run that an expert's silence has stopped."""
ADVERSARIES: Final = ("gail", "airl")
EXPERT_ACCURACY: Final = "train/adversary/expert_accuracy"
POLICY_ACCURACY: Final = "train/adversary/policy_accuracy"
ABSORBING, SHOWN = "train/adversary/absorbing_share", "train/adversary/absorbing_shown"
MENTION: Final = 0.45
"""Strength of what a log shows exactly, and what has done no harm: worth a remark, and never an alarm."""


def after_first(case: Case, name: str) -> Signal:
    """A series from the second round on: in the first one there is no policy yet."""
    signal = case.signal(name)
    return signal.between(float(signal.steps[0]) + 1.0, float("inf")) if len(signal) else signal


def struggles(case: Case) -> bool:
    """Whether the policy falls short: of its threshold, or, where there is none, of its own best by a lot."""
    if case.threshold is not None:
        return case.solved_at is None or case.lost or case.sick
    judged = case.signal(EVAL_RETURN)
    return len(judged) >= 3 and judged.last < judged.first + 0.5 * (judged.top - judged.first)


def weigh(case: Case, strength: float) -> float:
    """A strength as it is where the policy falls short; elsewhere no more than a remark."""
    return strength if struggles(case) else min(strength, MENTION)


cause(
    "expert-drives",
    "the expert acts nearly all the time: the policy's own mistakes are never labelled",
    "fault of settings",
    doses=["let-the-policy-drive"],
    explains="IMI107 IMI109",
)


@rule(
    "IMI101",
    severity=Severity.HIGH,
    algos=["dagger"],
    needs=[EXPERT_SHARE],
    cites=["ross2011dagger"],
    causes=["expert-drives"],
    bad=lambda: cases.imitator({EXPERT_SHARE: 0.93}, settings={"algo.beta": 0.93}),
    good=[lambda: cases.imitator(), lambda: cases.imitator({EXPERT_SHARE: lambda share: 1.0 - share}, threshold=-2000.0)],
)
def the_expert_drives(case: Case) -> Iterator[Finding]:
    """In nearly every step of the later rounds it is the expert that acts.

    ## Why it hurts
    The states that are labelled are those that the expert gets into. What the policy's mistakes lead to stays unknown to it, and errors
    add up along an episode: this is behaviour cloning at the price of DAgger. A beta that falls over 15 rounds is near 1 all along where
    there are 8.

    ## When it is fine
    Where the policy must not act because that is dangerous; the rules of safe_dagger and its relatives are made for that.
    """
    share = after_first(case, EXPERT_SHARE)
    strength = weigh(case, grade(share.median, 0.5, 0.8)) if len(share) >= 2 else 0.0
    if strength <= 0:
        return
    text = f"the expert acts in {percent(share.median)} of the steps after the first round, and in {percent(share.last)} of the last"
    fix = change(case, "algo.beta", 0.0, "let the policy act from the second round on, while the expert labels", "> 30 %")
    proof = evidence(EXPERT_SHARE, text, *case.span, share=share.median)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


cause(
    "labels-are-own-actions",
    "what is stored as the expert's label is what the policy did",
    "fault of code",
    advice="store the expert's answer for every state, whoever's action was executed",
    explains="IMI107 IMI109",
    bug=BugLocation(
        fix="data.append((obs, expert(obs))), whichever action the environment was given",
        check="assert not np.array_equal(labels[by_policy], executed[by_policy])  # a policy that errs and its expert differ somewhere",
        rlclinic=("rlclinic/training/imitation/labels.py", "add", "label comes from what the expert told, action from what was sent"),
        sb3=(
            "imitation/algorithms/dagger.py",
            "InteractiveTrajectoryCollector",
            "a copy that saves the actions of step_wait instead of those that the expert was asked for",
        ),
        cleanrl=("dagger.py", "the loop that collects", "what is appended after env.step(action): the expert's action, not `action`"),
        own="the line that stores a pair: its action must be the expert's, also where the policy acted",
    ),
)


@rule(
    "IMI102",
    severity=Severity.HIGH,
    algos=DAGGERS,
    needs=[EXECUTED],
    cites=["ross2011dagger"],
    certain=True,
    causes=["labels-are-own-actions"],
    bad=lambda: cases.imitator({EXECUTED: 1.0, DISAGREEMENT: 0.0, STATE_ERROR: 0.0}),
    good=[
        lambda: cases.imitator(),
        # Choices that are all right: what the policy did is what the expert said, and what it said is what is stored.
        lambda: cases.imitator({EXECUTED: 1.0, ALTERED: 0.0}),
        lambda: cases.imitator({EXECUTED: lambda share: 0.5 + 0.49 * share, DISAGREEMENT: lambda share: 0.5 * (1 - share)}),
    ],
)
def labels_are_what_was_executed(case: Case) -> Iterator[Finding]:
    """In the policy's own steps, the label is exactly the action that it took.

    ## Why it hurts
    The policy is trained to do what it does: its mistakes are confirmed instead of corrected, and every round makes it surer of them.

    ## When it is fine
    A policy of choices that already does what the expert does everywhere. Where the log has what the expert answered beside what was
    stored, that is told apart, and the fault is certain however well the policy does.
    """
    same, altered = after_first(case, EXECUTED), after_first(case, ALTERED)
    if len(same) < 2 or (not len(altered) and not struggles(case)):
        return
    # In every round: a policy after one round of labels agrees with nobody everywhere.
    strength = grade(same.bottom, 0.9, 0.98) * (not len(altered) or altered.top > 0)
    if strength <= 0:
        return
    answered = f"; up to {percent(altered.top)} of a round's are not what the expert answered" if len(altered) else ""
    text = f"{percent(same.median)} of the labels of the policy's own steps are exactly what it did{answered}"
    fix = advice("store the expert's answer for every state, whoever acted", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(EXECUTED, text, *case.span, share=same.median),), remedies=(fix,))


def hardly_learned(case: Case) -> float:
    """How clear it is that each label is learned from a few times only, and less with every round."""
    passes = case.signal(PASSES)
    return grade(-passes.share(0.6).median, -12.0, -4.0) if len(passes) >= 3 else 0.0


cause(
    "old-rounds-dropped",
    "labels of earlier rounds are forgotten",
    "fault of settings",
    doses=["keep-all-rounds"],
    explains="IMI107 IMI109",
)


@rule(
    "IMI103",
    severity=Severity.HIGH,
    algos=DAGGERS,
    needs=[FIRST_ERROR],
    cites=["ross2011dagger"],
    causes=["old-rounds-dropped"],
    bad=lambda: cases.imitator({FIRST_ERROR: lambda share: 0.02 + 0.5 * share}, settings={"algo.keep_rounds": 1}),
    good=[
        lambda: cases.imitator(),
        lambda: cases.imitator({FIRST_ERROR: lambda share: 0.02 + 0.03 * share}),
        lambda: cases.imitator({LEARNED_SHARE: 1.0}),
    ],
)
def old_rounds_are_forgotten(case: Case) -> Iterator[Finding]:
    """The policy unlearns the labels of the first round while it learns those of later ones.

    ## Why it hurts
    DAgger's promise holds for a policy that is good on the union of all rounds. One that is trained on the last ones only swings between
    what it sees: each round mends one place and breaks another.

    ## When it is fine
    Tasks that change while they are learned.
    """
    error, kept, share = case.signal(FIRST_ERROR), case.real("algo.keep_rounds") or 0.0, case.signal(LEARNED_SHARE)
    dropped = 1.0 - share.last if len(share) else 0.0
    if len(error) < 3 or (not kept and dropped <= 0 and (hardly_learned(case) > 0 or not struggles(case))):
        return
    rise = error.share(0.6).median / max(error.first, 0.01)
    forgets = min(grade(rise, 3.0, 8.0), grade(error.share(0.6).median, 0.08, 0.2)) * (1.0 if kept or dropped > 0 else 0.6)
    # What is not learned from is counted. Where it is not unlearned either, it costs what those labels would have taught.
    strength = weigh(case, max(forgets, 0.8 * grade(dropped, 0.3, 0.8)))
    if strength <= 0:
        return
    newest = f"; only the newest {kept:g} rounds are learned from" if kept else ""
    only = f"; {percent(dropped)} of all labels are no longer learned from" if dropped > 0 else newest
    text = f"the error on the first round's labels has grown {say(rise)}-fold, to {say(error.share(0.6).median)}{only}"
    fix = change(case, "algo.keep_rounds", 0, "learn from the labels of all rounds", "> 30 %")
    proof = evidence(FIRST_ERROR, text, *case.span, rise=rise, dropped=dropped)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


cause(
    "too-few-passes",
    "labels come in faster than they are learned",
    "fault of settings",
    doses=["more-passes"],
    explains="IMI103 IMI107 IMI109",
)


@rule(
    "IMI104",
    severity=Severity.HIGH,
    algos=DAGGERS,
    needs=[PASSES, LOSS],
    cites=["ross2011dagger"],
    causes=["too-few-passes"],
    bad=lambda: cases.imitator(
        {PASSES: lambda share: 6 / (1 + 8 * share), LOSS: lambda share: 0.05 + 0.3 * share},
        settings={"algo.n_epochs": 0, "algo.gradient_steps": 20},
    ),
    good=[
        lambda: cases.imitator(),
        lambda: cases.imitator({PASSES: lambda share: 300 / (1 + 8 * share)}),
        # Few passes over labels that it fits all the same.
        lambda: cases.imitator({PASSES: lambda share: 6 / (1 + 8 * share), LOSS: 0.02, FIRST_ERROR: 0.02}),
    ],
)
def labels_are_hardly_learned(case: Case) -> Iterator[Finding]:
    """Each round makes as many gradient steps as the first one, however many labels there are by then.

    ## Why it hurts
    Each label is learned from less and less often, and the policy of a late round fits its data worse than that of an early one.

    ## When it is fine
    Networks that go on from round to round (retrain=warm) with a loss that stays low. A loss that rises a little is normal: later rounds
    have harder states.
    """
    passes, loss, known = case.signal(PASSES), case.signal(LOSS), case.signal(FIRST_ERROR).share(0.6)
    if len(passes) < 3 or not struggles(case):
        return
    few, rise = passes.share(0.6).median, loss.share(0.6).median / max(loss.first, 1e-6)
    # From first weights in every round, the loss need not rise: it never falls, and labels that it has had for long are not fitted.
    unfit = known.median if len(known) else 0.0
    strength = min(hardly_learned(case), max(grade(rise, 1.5, 3.0), grade(unfit, 0.08, 0.25)))
    if strength <= 0:
        return
    effect = f"the loss rose {say(rise)} x" if rise > 1.5 else f"it is off by {say(unfit)} on labels of the first round"
    text = f"each label was learned from {say(few)} times in the last rounds, {say(passes.first)} in the first; {effect}"
    fix = change(case, "algo.n_epochs", 50, "as many passes over all labels in every round", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(PASSES, text, *case.span, passes=few),), remedies=(fix,))


cause(
    "noisy-policy-collects",
    "the states that are labelled are those of a policy with noise, which nobody will use",
    "fault of settings",
    doses=["less-policy-noise"],
    explains="IMI107 IMI109",
)


@rule(
    "IMI105",
    severity=Severity.HIGH,
    algos=DAGGERS,
    needs=[("train/hp/policy_noise", "config:algo.policy_noise")],
    cites=["ross2011dagger"],
    causes=["noisy-policy-collects"],
    bad=lambda: cases.imitator({"train/hp/policy_noise": 0.8}, settings={"algo.policy_noise": 0.8}),
    good=[lambda: cases.imitator(), lambda: cases.imitator({"train/hp/policy_noise": 0.05}, settings={"algo.policy_noise": 0.05})],
)
def the_policy_collects_with_noise(case: Case) -> Iterator[Finding]:
    """While collecting, the policy's actions are drawn with much noise; in evaluations they are not.

    ## Why it hurts
    DAgger labels the states that the policy gets into. Those of a noisy one are others: labels are spent on states that will never be
    visited, and the ones that matter are missing.

    ## When it is fine
    A little noise widens what is labelled, and helps where there are few labels.
    """
    noise = case.number("policy_noise")
    strength = weigh(case, grade(noise, 0.3, 0.6)) if noise is not None else 0.0
    if noise is None or strength <= 0:
        return
    text = f"the policy collects with noise of {say(noise)}, for actions from -1 to 1 (of choices: that share at random)"
    fix = change(case, "algo.policy_noise", 0.05, "states of the policy as it will be used", "10-30 %")
    proof = evidence("train/hp/policy_noise", text, *case.span, noise=noise)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


cause(
    "mixture-scored",
    "returns are those of expert and policy together: the policy alone was never measured",
    "fault of settings",
    doses=["evaluate-the-policy"],
)


@rule(
    "IMI106",
    severity=Severity.HIGH,
    algos=DAGGERS,
    needs=[EXPERT_SHARE, "config:run.eval_episodes"],
    cites=["ross2011dagger"],
    certain=True,
    causes=["mixture-scored"],
    bad=lambda: cases.imitator({EVAL_RETURN: None, EXPERT_SHARE: 0.6}, settings={"run.eval_episodes": 0}),
    good=[lambda: cases.imitator(), lambda: cases.imitator({EXPERT_SHARE: 0.6})],
)
def the_mixture_is_scored(case: Case) -> Iterator[Finding]:
    """The only returns there are come from episodes in which the expert acted too.

    ## Why it hurts
    They rise with the expert's share and say nothing about the policy, which will act alone.

    ## When it is fine
    Where the policy is scored by somebody else.
    """
    share = after_first(case, EXPERT_SHARE)
    if case.has(EVAL_RETURN) or not len(share):
        return
    strength = grade(share.median, 0.05, 0.2)
    if strength <= 0:
        return
    text = f"no evaluation; in training the expert acted in {percent(share.median)} of the steps"
    fix = change(case, "run.eval_episodes", 20, "score the policy alone", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(EXPERT_SHARE, text, *case.span, share=share.median),), remedies=(fix,))


cause(
    "states-without-labels",
    "the policy gets into states that it has no labels for: too few rounds",
    "fault of settings",
    doses=["more-rounds"],
)


@rule(
    "IMI107",
    severity=Severity.MEDIUM,
    algos=DAGGERS,
    needs=[STATE_ERROR, FIRST_ERROR],
    cites=["ross2011dagger"],
    causes=["states-without-labels"],
    bad=lambda: cases.imitator({STATE_ERROR: 0.8, FIRST_ERROR: 0.02}),
    good=[lambda: cases.imitator(), lambda: cases.imitator({STATE_ERROR: lambda share: 0.8 * (1 - share)})],
)
def mistakes_add_up(case: Case) -> Iterator[Finding]:
    """The policy does what the expert says where it has labels, and something else in the states that it then gets into.

    ## Why it hurts
    Small errors lead to states a little off, errors there are larger, and so on: the cost of an episode grows with the square of its
    length (covariate shift). It falls with every round in which the policy acts and the expert labels.

    ## When it is fine
    In the first rounds.
    """
    error, known = after_first(case, STATE_ERROR), case.signal(FIRST_ERROR)
    if len(error) < 2 or not struggles(case):
        return
    late, learned = error.share(0.6).median, max(known.share(0.6).median, 0.01)
    # Labels that are wrong, dropped or hardly learned look like this, too: what is found for itself comes first.
    strength = 0.8 * min(grade(late, 0.15, 0.4), grade(late / learned, 4.0, 10.0))
    if strength <= 0:
        return
    text = f"off by {say(late)} in states that it gets into itself, and by {say(learned)} on the first round's"
    fix = advice("more rounds, each with fewer steps: the same labels, where the policy is now", "10-30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(STATE_ERROR, text, *case.span, error=late),), remedies=(fix,))


cause(
    "expert-inconsistent",
    "the expert gives different answers to the same question",
    "fault of environment",
    doses=["ask-twice"],
    advice="ask twice and learn the mean, show the expert what it needs to see, or take the answers of one person only",
    explains="IMI107",
)


@rule(
    "IMI108",
    severity=Severity.HIGH,
    algos=DAGGERS,
    needs=[NOISE],
    cites=["ross2011dagger"],
    causes=["expert-inconsistent"],
    bad=lambda: cases.imitator({NOISE: 0.5, LOSS: 0.3}, settings={"algo.repeat_queries": 0.1}),
    good=[lambda: cases.imitator({NOISE: 0.0}), lambda: cases.imitator({NOISE: 0.04})],
)
def the_expert_contradicts_itself(case: Case) -> Iterator[Finding]:
    """Asked twice about the same state, the expert says two things.

    ## Why it hurts
    No policy can be nearer to its labels than the labels are to each other; and the mean of two ways around an obstacle leads into it.
    The expert may use what the observation does not show, react late, or be tired.

    ## When it is fine
    Choices that do not matter: either way leads on.
    """
    noise = case.signal(NOISE)
    strength = weigh(case, grade(noise.last, 0.1, 0.3)) if len(noise) else 0.0
    if strength <= 0:
        return
    text = f"two answers to one question differ by a deviation of {say(noise.last)}, for actions from -1 to 1"
    fix = advice("ask twice (algo.repeat_queries=1) and learn the mean, or give the policy what the expert sees", "10-30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(NOISE, text, *case.span, noise=noise.last),), remedies=(fix,))


cause(
    "more-labels-hurt",
    "more labels have made the policy worse than cloning",
    "symptom",
    doses=["keep-all-rounds", "more-passes", "let-the-policy-drive"],
    behind=[
        ("labels-are-own-actions", 0.3, "log", "labels that equal what was done (train/imitation/label_is_executed)"),
        ("old-rounds-dropped", 0.3, "log", "the first round's error, which rises (train/imitation/first_round_error)"),
        ("too-few-passes", 0.2, "log", "how often each label is learned from (train/imitation/passes)"),
        ("expert-drives", 0.2, "log", "who acts (train/imitation/expert_share)"),
    ],
)


@rule(
    "IMI109",
    severity=Severity.MEDIUM,
    algos=DAGGERS,
    needs=[EVAL_RETURN, QUERIES],
    cites=["ross2011dagger"],
    causes=["more-labels-hurt"],
    bad=lambda: cases.imitator({EVAL_RETURN: lambda share: -500.0 - 900.0 * share}),
    good=[lambda: cases.imitator()],
)
def worse_than_cloning(case: Case) -> Iterator[Finding]:
    """More labels have made the policy worse than it was after the first round, which is behaviour cloning.

    ## Why it hurts
    Every label was paid for. Where more of them hurt, something is wrong with how they are made, kept or learned.

    ## When it is fine
    A dip of a round or two: judge by several seeds.
    """
    judged = case.signal(EVAL_RETURN)
    if len(judged) < 3 or not struggles(case):
        return
    late, spread = judged.share(0.7).median, max(judged.top - judged.bottom, 1e-9)
    strength = grade((judged.first - late) / spread, 0.3, 0.7)
    if strength <= 0:
        return
    text = f"the return was {say(judged.first)} after the first round and is {say(late)} in the last ones"
    fix = advice("look at who acts, at what is stored as labels, and at how often each is learned from", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(EVAL_RETURN, text, *case.span, late=late),), remedies=(fix,))


cause(
    "expert-silent",
    "the expert leaves many questions unanswered",
    "fault of environment",
    advice="read the run's log for what was wrong with the answers; give a command more time (algo.answer_seconds)",
    explains="BUD101 BUD102",
)


@rule(
    "IMI110",
    severity=Severity.MEDIUM,
    algos=DAGGERS,
    needs=[(UNANSWERED, "config:algo.expert")],
    cites=["ross2011dagger"],
    certain=True,
    causes=["expert-silent"],
    bad=lambda: cases.imitator({UNANSWERED: lambda share: 500 * share + 50}),
    good=[
        lambda: cases.imitator(),
        lambda: cases.imitator({UNANSWERED: lambda share: 5 * share}),
        lambda: cases.imitator(state="stopped", reason="stopped by hand"),
    ],
)
def questions_stay_without_an_answer(case: Case) -> Iterator[Finding]:
    """Many questions brought no label: late, missing or no action of the environment's; or none did any more, and the run stopped.

    ## Why it hurts
    They are paid for, and the states in which an expert is silent are often the hard ones.

    ## When it is fine
    An expert that knows when it does not know.
    """
    text = case.history.stopped_because or ""
    if SILENT in text:
        fix = advice("when it answers again, let the run go on: what was labelled is kept", "> 30 %")
        yield Finding(text=text, evidence=(evidence("status", text, case.trained, case.trained),), onset=case.trained, remedies=(fix,))
        return
    unanswered, queries = case.signal(UNANSWERED), case.signal(QUERIES)
    if not len(unanswered) or not len(queries) or not queries.last:
        return
    share = unanswered.last / queries.last
    strength = grade(share, 0.05, 0.25)
    if strength <= 0:
        return
    text = f"{percent(share)} of {say(queries.last)} questions stayed without an answer"
    fix = advice("the run's log says what was wrong with them", "10-30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(UNANSWERED, text, *case.span, share=share),), remedies=(fix,))


cause(
    "asks-everywhere",
    "the rule that should save questions asks nearly everywhere",
    "fault of settings",
    doses=["ask-less"],
)


@rule(
    "IMI111",
    severity=Severity.MEDIUM,
    algos=SELECTIVE,
    needs=[ASKED_SHARE],
    cites=["zhang2016safedagger", "menda2019ensembledagger"],
    causes=["asks-everywhere"],
    bad=lambda: cases.imitator({ASKED_SHARE: 0.97}, algo="ensemble_dagger", settings={"algo.doubt": 0.001}),
    good=[
        lambda: cases.imitator({ASKED_SHARE: 0.2}, algo="ensemble_dagger"),
        lambda: cases.imitator({ASKED_SHARE: lambda share: 0.9 - 0.8 * share}, algo="safe_dagger"),
    ],
)
def it_asks_everywhere(case: Case) -> Iterator[Finding]:
    """In nearly all steps the rule finds a reason to ask, and the expert acts.

    ## Why it hurts
    Nothing is saved, and the policy hardly acts: its own mistakes are never seen.

    ## When it is fine
    The first rounds.
    """
    asked = after_first(case, ASKED_SHARE)
    if len(asked) < 2:
        return
    strength = grade(asked.share(0.5).median, 0.6, 0.85)
    if strength <= 0:
        return
    text = f"the expert is asked in {percent(asked.share(0.5).median)} of the steps of the later rounds"
    setting = {"safe_dagger": "algo.unsafe_error", "ensemble_dagger": "algo.doubt"}.get(case.algo, "algo.ask_share")
    factor = 0.5 if setting == "algo.ask_share" else 3.0
    value = factor * (case.real(setting) or 0.1)
    fix = change(case, setting, value, "ask where it matters more", "10-30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(ASKED_SHARE, text, *case.span, share=asked.median),), remedies=(fix,))


cause(
    "mistakes-missed",
    "the rule that should find the policy's mistakes does not",
    "fault of settings",
    doses=["ask-more"],
    explains="IMI107",
)


@rule(
    "IMI112",
    severity=Severity.MEDIUM,
    algos=SELECTIVE,
    needs=[ASKED_SHARE, STATE_ERROR],
    cites=["zhang2016safedagger", "menda2019ensembledagger"],
    causes=["mistakes-missed"],
    bad=lambda: cases.imitator({ASKED_SHARE: 0.06, STATE_ERROR: 0.9}, algo="ensemble_dagger", settings={"algo.doubt": 3.0}),
    good=[
        lambda: cases.imitator({ASKED_SHARE: 0.06, STATE_ERROR: 0.03}, algo="ensemble_dagger"),
        lambda: cases.imitator({ASKED_SHARE: 0.4, STATE_ERROR: 0.5}, algo="safe_dagger"),
    ],
)
def mistakes_are_missed(case: Case) -> Iterator[Finding]:
    """Hardly anything is asked, and where it was asked without need the policy was far from the expert.

    ## Why it hurts
    The rule passes actions that the expert would not take; they are neither prevented nor labelled.

    ## When it is fine
    Where being far from the expert does not matter.
    """
    asked, error = after_first(case, ASKED_SHARE), after_first(case, STATE_ERROR)
    if len(asked) < 2 or len(error) < 2 or not struggles(case):
        return
    strength = min(grade(-asked.share(0.5).median, -0.2, -0.1), grade(error.share(0.5).median, 0.2, 0.5))
    if strength <= 0:
        return
    text = f"asked in {percent(asked.share(0.5).median)} of the steps; off by {say(error.share(0.5).median)} where the rule saw no need"
    setting = {"safe_dagger": "algo.unsafe_error", "ensemble_dagger": "algo.doubt"}.get(case.algo, "algo.ask_share")
    factor = 2.0 if setting == "algo.ask_share" else 0.3
    value = factor * (case.real(setting) or 0.1)
    fix = change(case, setting, value, "ask more", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(STATE_ERROR, text, *case.span, error=error.median),), remedies=(fix,))


cause(
    "discriminator-wins",
    "the discriminator tells every own step from a recorded one: the learned reward no longer says which way is better",
    "fault of settings",
    doses=["weaker-discriminator"],
)


@rule(
    "IMI113",
    severity=Severity.HIGH,
    algos=ADVERSARIES,
    needs=[EXPERT_ACCURACY, POLICY_ACCURACY],
    cites=["ho2016gail"],
    causes=["discriminator-wins"],
    bad=lambda: cases.adversarial({EXPERT_ACCURACY: 1.0, POLICY_ACCURACY: 0.995}, settings={"algo.gradient_penalty": 0.0}),
    good=[
        lambda: cases.adversarial(),
        lambda: cases.adversarial({EXPERT_ACCURACY: 1.0, POLICY_ACCURACY: 0.7}),
        lambda: cases.adversarial({EXPERT_ACCURACY: 1.0, POLICY_ACCURACY: 1.0}, threshold=10.0),
    ],
)
def the_discriminator_wins(case: Case) -> Iterator[Finding]:
    """From early on, nearly no recorded and nearly no own step is mistaken for the other kind.

    ## Why it hurts
    The reward of all own steps is then about the same, and as low as it gets: there is no slope for the policy to follow. It never becomes
    hard to tell from what was shown, and the discriminator only becomes surer.

    ## When it is fine
    In the first rollouts, while the policy is still far off. Where it already does the task and is told by something that does not matter.
    """
    expert, policy = case.signal(EXPERT_ACCURACY).share(0.75), case.signal(POLICY_ACCURACY).share(0.75)
    if len(expert) < 3 or len(policy) < 3 or not struggles(case):
        return
    surest = min(expert.median, policy.median)
    strength = grade(surest, 0.93, 0.98)
    if strength <= 0:
        return
    text = f"after the first quarter it knows {percent(expert.median)} of the recorded and {percent(policy.median)} of the own steps"
    rate = case.real("algo.reward_lr") or 1e-3
    fix = change(case, "algo.reward_lr", float(f"{rate / 10:.2g}"), "let the policy follow: a discriminator that learns slower", "> 30 %")
    proof = evidence(POLICY_ACCURACY, text, *case.span, expert=expert.median, policy=policy.median)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


cause(
    "horizon-leaks",
    "episodes end by themselves and nothing lies beyond their end: the learned reward's sign decides how long they should be",
    "fault of settings",
    doses=["absorbing-horizon"],
    explains="BUD101 BUD102 BUD104",
)


@rule(
    "IMI114",
    severity=Severity.HIGH,
    algos=ADVERSARIES,
    needs=[ABSORBING],
    cites=["kostrikov2019dac"],
    certain=True,
    causes=["horizon-leaks"],
    bad=lambda: cases.adversarial({ABSORBING: 0.6}, settings={"algo.horizon": "ignore"}),
    good=[
        lambda: cases.adversarial({ABSORBING: 0.6, SHOWN: 0.6}),
        lambda: cases.adversarial({ABSORBING: 0.0}, settings={"algo.horizon": "ignore"}),
    ],
)
def the_horizon_leaks(case: Case) -> Iterator[Finding]:
    """Episodes terminate, own ones or demonstrated ones, and with algo.horizon=ignore a terminal state is worth nothing.

    ## Why it hurts
    A reward that is always positive then pays for surviving, and one that is always negative for ending, whatever was demonstrated. Results
    look good where that happens to be the task, and say nothing about the imitation (a policy that survives at random scores too).

    ## When it is fine
    Episodes of one fixed length, which end by a time limit alone.
    """
    behind, shown = case.signal(ABSORBING), case.signal(SHOWN)
    if case.setting("algo.horizon") != "ignore" or len(behind) < 2:
        return
    # Whether own episodes end is a matter of how good the policy is: what was demonstrated is there from the start.
    demonstrated = shown.top if len(shown) else 0.0
    strength = max(grade(behind.top, 0.02, 0.2), grade(demonstrated, 0.02, 0.2))
    if strength <= 0:
        return
    also = f", and {percent(demonstrated)} of what follows demonstrated ones" if demonstrated > 0 else ""
    text = f"up to {percent(behind.top)} of what follows own steps{also} lies behind a terminal state, and is paid nothing"
    fix = change(case, "algo.horizon", "absorbing", "let the discriminator judge what lies behind a terminal state", "> 30 %")
    proof = evidence(ABSORBING, text, *case.span, share=behind.top, demonstrated=demonstrated)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))
