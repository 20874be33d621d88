"""From a diagnosis to at most three prescriptions that the schema accepts, the most promising first."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rlclinic.comparison.frameworks import DEFAULTS
from rlclinic.config import ALGORITHMS, Config, to_record
from rlclinic.diagnosis import causes
from rlclinic.diagnosis.case import case_of, first_value, to_count
from rlclinic.diagnosis.findings import Cause, Diagnosis, Remedy
from rlclinic.diagnosis.signals import off_policy
from rlclinic.errors import ConfigError
from rlclinic.runs.history import History
from rlclinic.treatment.prescription import doses
from rlclinic.treatment.prescription.group_numbers import Chart
from rlclinic.treatment.prescription.prescription import MOST_SETTINGS, EffectClass, Expected, Prescription, Priority, changed, worded
from rlclinic.treatment.prescription.recorded_effects import Effects
from rlclinic.treatment.prescription.translate import frameworks

MOST: Final = 3
LIKELY: Final = 0.1
"""Causes below this probability are not treated."""
LIKELY_TOO: Final = 0.15
"""From here on a second cause is treated together with the first."""
UNKNOWN: Final = 0.3
"""Where something else is likelier, what is tried without a cause must be at least this likely."""
MUCH_MEMORY: Final = 0.6
"""Share of the next change that the observation before explains, from which on stacked frames show what is hidden."""
STOPPED: Final = "BUD102"
"""The rule that says that a run was stopped before its budget was used."""
_PLACES: Final = (0.7, 0.5, 0.35, 0.25, 0.2, 0.15)
"""How often the first, the second, ... cure of a right cause is taken to help, before any trial was recorded."""
_SECTIONS: Final = frozenset({"spec", "env", "algo", "net", "data", "run"})
_USUAL_SECTIONS: Final = frozenset({"spec", "env", "algo", "net", "run"})
"""Sections whose settings are known by their names alone; "kind" and "coef" of a bonus are not."""
_FIXED: Final = frozenset({"env.id", "algo.name"})
_DISCOUNTS: Final = frozenset({"algo.gamma", "algo.gae_lambda"})
_TURNS_AROUND: Final = frozenset({"env.reward_scale", "env.train_reward_scale"})
"""Settings that spoil what is sound where another cause is the right one: they are tried alone."""
_SIGNS: Final = frozenset({"env.reward_scale", "env.train_reward_scale"})
"""What turns a reward around."""
_FREE_OF_RISK: Final = frozenset({"env.normalize_reward", "env.normalize_obs"})
"""Settings that a run's own numbers ask for where nothing is wrong: they change the scale of what is learned from, and nothing else."""
_UNDOES: Final = frozenset(
    {"env.normalize_reward", "env.normalize_obs", "env.train_reward_shift", "env.max_episode_steps", "env.time_in_obs", "env.wrappers"}
    | _SIGNS
)
"""Settings that take a fault of an environment away; others only train in spite of it, and cost something."""
_PRIORITIES: Final[tuple[Priority, ...]] = ("critical", "high", "medium", "low")


@dataclass(frozen=True)
class Candidate:
    """What might be prescribed, before it is fitted to the config and ordered."""

    cause: Cause
    changes: Mapping[str, Any]
    text: str
    risk: str
    place: int
    """Its place among the cures of its cause."""
    chance: float
    """How likely it is that what it treats is what is wrong."""


def make_prescriptions(
    diagnosis: Diagnosis,
    histories: Sequence[History],
    config: Config | None = None,
    effects: Effects | None = None,
    most: int = MOST,
    *,
    together: bool = True,
) -> list[Prescription]:
    """At most `most` prescriptions for a diagnosed group; empty where nothing is wrong or nothing is known to help.

    `config` is the group's own; for runs of other frameworks one is put together from the settings that they logged, and
    what cannot be validated is given as advice. `effects` are recorded trials: they order, and they forecast. `together`:
    where two causes are likely, one prescription may treat both.
    """
    known = config if config is not None else stand_in(histories)
    chart = Chart(histories, known)
    if diagnosis.causes[0].kind == "nothing wrong" and all(_may_go_on(history) for history in histories):
        return []  # what would make a sound run faster follows from its budget, which nobody knows
    found = [fitted for candidate in _candidates(diagnosis, chart) if (fitted := _fitted(candidate, known)) is not None]
    found += _together(found, known) if together else []
    scored = sorted(found, key=lambda each: (-_score(each, known, effects), each.place))
    chosen = _distinct(scored)[:most]
    made = [_prescription(number, each, diagnosis, chart, known, effects, histories) for number, each in enumerate(chosen, 1)]
    if _most_learn(chart):
        # What is held back comes last: nobody should use it because it stands first. Stuck runs keep the likeliest cause first.
        made.sort(key=lambda rx: rx.held_back is not None)
    return [rx.model_copy(update={"number": number}) for number, rx in enumerate(made, 1)]


# ── candidates ──


def _may_go_on(history: History) -> bool:
    """Whether a log says neither how many steps are planned nor whether they were all taken: it may be that of a run in training."""
    return history.max_env_steps is None and history.state in ("unknown", "running")


def _candidates(diagnosis: Diagnosis, chart: Chart) -> Iterator[Candidate]:
    for place, cause in enumerate(diagnosis.causes):
        if cause.id == causes.UNKNOWN and chart.setting("algo.name") is None and all(case.history.algo is None for case in chart.cases):
            continue  # nothing is known of what is wrong, nor of whose settings these would be
        least = UNKNOWN if cause.id == causes.UNKNOWN else LIKELY
        if place > 0 and cause.kind == "nothing wrong":
            continue  # what would make a sound run faster says nothing of one in which something is wrong
        if cause.kind == "cannot tell" or (place > 0 and (cause.probability < least or cause.consequence_of is not None)):
            continue
        yield from _of_cause(cause, chart)


def _of_cause(cause: Cause, chart: Chart) -> Iterator[Candidate]:
    """The table's doses first, as they are computed over all runs; then what the rules say of other settings; then advice."""
    # Where nothing is wrong, what is prescribed makes it faster.
    id = causes.HEALTHY if cause.kind == "nothing wrong" else cause.id
    row = causes.known().get(id)
    if cause.rules[:1] == (STOPPED,):
        # Nothing is known to be wrong with its settings: it was stopped before it had used its budget.
        yield from (Candidate(cause, {}, remedy.text, "", 0, cause.probability) for remedy in cause.remedies if remedy.setting is None)
        return
    given = [(dict(dose.changes), dose.text, dose.risk) for dose in doses.compute_for(id, chart)]
    dosed = {setting for changes, _, _ in given for setting in changes}
    # A cause without cures lies in the code or in the environment: no setting mends that. Nor one beside the dose that undoes it.
    others = row is None or (len(row.doses) > 1 if row.kind == "fault of environment" else bool(row.doses))
    remedies = [remedy for remedy in cause.remedies if others and not _another_task(remedy, chart)]
    given += [
        ({remedy.setting: remedy.value}, remedy.text, remedy.risk)
        for remedy in remedies
        if remedy.setting is not None and remedy.setting not in dosed
    ]
    told = row.advice if row is not None and row.advice else next((remedy.text for remedy in cause.remedies if remedy.setting is None), "")
    given += [({}, told, "")] if told else []
    for place, (changes, text, risk) in enumerate(given):
        yield Candidate(cause, changes, text, risk, place, cause.probability)


def _another_task(remedy: Remedy, chart: Chart) -> bool:
    """Whether a remedy leaves the task's own time limit behind: its threshold would mean something else."""
    return remedy.setting == "env.max_episode_steps" and chart.count("spec.max_episode_steps") not in (None, remedy.value)


def _fitted(candidate: Candidate, config: Config | None) -> Candidate | None:
    """The candidate with changes that the schema accepts and that change something; None if there are none such."""
    if not candidate.changes:
        return candidate
    if config is None:
        # Without a config nothing can be validated: it is said, not set.
        said = " and ".join(f"{_short(setting)} to {worded(value)}" for setting, value in candidate.changes.items())
        return replace(candidate, changes={}, text=f"set {said}: {candidate.text}")
    wanted = {setting: value for setting, value in candidate.changes.items() if _differs(config, {setting: value})}
    changes = accepted(config, wanted)
    return None if changes is None else replace(candidate, changes=changes)


def _differs(config: Config, changes: Mapping[str, Any]) -> bool:
    """Whether a change does anything; one that the schema refuses alone may do so together with another."""
    try:
        return changed(config, changes) != config
    except ConfigError:
        return True


def accepted(config: Config, changes: Mapping[str, Any]) -> dict[str, Any] | None:
    """The changes as the schema takes them, with a second setting where they need one; None if it refuses them.

    A rollout of another size needs a minibatch that divides it; a shared network has no rate for its critic.
    """
    if not changes or len(changes) > MOST_SETTINGS:
        return None
    for attempt in [dict(changes), *_repaired(config, changes)]:
        if len(attempt) <= MOST_SETTINGS and _valid(config, attempt):
            return attempt
    return None


def _valid(config: Config, changes: Mapping[str, Any]) -> bool:
    try:
        return changed(config, changes) != config
    except ConfigError:
        return False


def _repaired(config: Config, changes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The changes with one more setting that may make them fit."""
    algo = to_record(config)["algo"]
    steps = int(_number(changes.get("algo.n_steps"), config.cycle_size // config.env.n_envs))
    envs = int(_number(changes.get("env.n_envs"), config.env.n_envs))
    rollout = steps * envs
    if "n_epochs" in algo and rollout >= 1:
        wanted = changes.get("algo.batch_size", config.batch_rows)
        rows = wanted * rollout if wanted <= 1 else wanted
        yield {**changes, "algo.batch_size": _nearest(rollout, min(int(max(rows, 1)), rollout))}
    if changes.get("net.shared") is True:
        yield {**changes, "algo.value_lr": None}
        yield {**changes, "net.critic_hidden": None}
    yield {**changes, "run.max_env_steps": max(config.run.max_env_steps, 10 * rollout)}


def _number(value: Any, other: float) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else other


def _nearest(rollout: int, wanted: int) -> int:
    """The divisor of a rollout nearest to the wanted minibatch; of two equally near ones the larger."""
    low = next((rows for rows in range(wanted, 0, -1) if rollout % rows == 0), 1)
    high = next((rows for rows in range(wanted, rollout + 1) if rollout % rows == 0), rollout)
    return low if wanted - low < high - wanted else high


def _together(found: Sequence[Candidate], config: Config | None) -> list[Candidate]:
    """Where two causes are likely, the first cure of each in one prescription: right whichever it is, and if it is both."""
    firsts = [
        each
        for each in found
        if each.place == 0 and len(each.changes) == 1 and not _about_running(each.changes) and not _TURNS_AROUND & each.changes.keys()
    ]
    if config is None or len(firsts) < 2 or firsts[1].chance < LIKELY_TOO or set(firsts[0].changes) & set(firsts[1].changes):
        return []
    first, second = firsts[:2]
    changes = accepted(config, {**first.changes, **second.changes})
    if changes is None:
        return []
    text = f"{first.text}; and, as it may be {second.cause.title}: {second.text}"
    return [replace(first, changes=changes, text=text, place=0, chance=min(first.chance + second.chance, 1.0))]


def _about_running(changes: Mapping[str, Any]) -> bool:
    return any(setting.startswith(("run.", "spec.")) for setting in changes)


# ── order ──


def _score(candidate: Candidate, config: Config | None, effects: Effects | None) -> float:
    """How likely it is to help: the cause is the right one, and the change cures it."""
    prior = _PLACES[min(candidate.place, len(_PLACES) - 1)]
    if candidate.changes and effects is not None and config is not None:
        prior = effects.chance(candidate.cause.id, candidate.changes, config, prior)
    # Advice cannot be tried: it comes first only where nothing else is left of a likelier cause.
    return candidate.chance * prior * (1.0 if candidate.changes or candidate.place == 0 else 0.1)


def _distinct(scored: Sequence[Candidate]) -> list[Candidate]:
    """One candidate per question: the same setting at about the same value would be asked twice."""
    first: dict[str, Candidate] = {}
    for each in scored:
        first.setdefault(" ".join(_about(setting, value) for setting, value in sorted(each.changes.items())) or each.text, each)
    return list(first.values())


def _about(setting: str, value: Any) -> str:
    """A setting with its value to within half a decade, and how it goes on from there; discounts by how far they look ahead."""
    number = first_value(value)
    course = f" {value.get('schedule')} {bool(value.get('end'))} {bool(value.get('warmup'))}" if isinstance(value, Mapping) else ""
    if setting in _DISCOUNTS and number is not None and number < 1:
        number = 1 / (1 - number)
    return f"{setting} {round(2 * math.log10(number))}{course}" if number is not None and number > 0 else setting


# ── the prescription ──


def _prescription(
    number: int,
    each: Candidate,
    diagnosis: Diagnosis,
    chart: Chart,
    config: Config | None,
    effects: Effects | None,
    histories: Sequence[History],
) -> Prescription:
    expected = effects.expect(each.cause.id, each.changes, config) if effects is not None and config is not None and each.changes else None
    current = {setting: chart.settings.get(setting) for setting in each.changes}
    if "algo.learning_starts" in current and histories:
        # As it was logged: a config that stands for a foreign run may have had to take less.
        current["algo.learning_starts"] = histories[0].settings.get("algo.learning_starts", current["algo.learning_starts"])
    source = histories[0].source if histories else "rlclinic"
    held_back = _hold_back(each, diagnosis, chart) if expected is None and each.changes else None
    return Prescription(
        number=number,
        cause=each.cause.id,
        title=title(each.changes, current) or each.text,
        changes=dict(each.changes),
        current=current,
        rationale=each.text if each.changes else _advice(each, number),
        evidence=_evidence(each.cause, diagnosis),
        expected=expected,
        effect=effect_class(expected),
        risk=each.risk,
        priority=_priority(each, diagnosis, known=expected is not None, held_back=held_back is not None, learning=_most_learn(chart)),
        held_back=held_back,
        foreign=frameworks.spell(each.changes, source, config) if each.changes else None,
    )


def _hold_back(each: Candidate, diagnosis: Diagnosis, chart: Chart) -> str | None:
    """Why a change should be tried before it is used; None where it need not.

    Nobody has recorded what it does, and nothing but a setting speaks for it, or a symptom that several faults have: such a change may as
    well make the runs worse. A short run of a slow learner looks like one that is stuck, so a flat curve is no proof that the setting is to
    blame. A reward that is turned around undoes all that was learned if its sign was right.
    """
    if diagnosis.causes[0].kind == "nothing wrong" != each.cause.kind:
        return "nothing is wrong with these runs that anybody has to mend: prove it before it is used"
    if each.cause.kind == "nothing wrong":
        safe = each.changes.keys() <= _FREE_OF_RISK
        return None if safe else "no trial of it is recorded, and nothing is wrong without it: prove it before it is used"
    if _SIGNS & each.changes.keys() and each.cause.id != diagnosis.causes[0].id:
        return (
            "another cause is likelier than a wrong sign, and turning a right one around undoes what is learned: prove it before it is used"
        )
    row = causes.known().get(each.cause.id)
    copes = row is not None and row.kind == "fault of environment" and not each.changes.keys() & _UNDOES
    # That the past shows what is hidden was measured, or could not be: stacked frames are what that asks for.
    shown = each.changes.keys() == {"env.frame_stack"} and not chart.sentinel("obs_memory") < MUCH_MEMORY
    if copes and not shown and _most_learn(chart):
        return "it takes nothing of the fault away, and the runs learn without it: prove it before it is used"
    rules = {finding.rule: finding for finding in diagnosis.findings}
    proofs = [proof for rule in each.cause.rules if rule in rules for proof in rules[rule].evidence]
    if "algo.learning_starts" in each.changes and all(off_policy.never_learned(case) for case in chart.cases):
        return None  # without it nothing is learned at all: that is arithmetic
    vague = each.cause.kind == "symptom" or each.cause.id == causes.UNKNOWN
    if not vague and not (proofs and all(proof.series.startswith("config:") for proof in proofs)):
        return None
    witness = (
        "what is wrong is not known" if each.cause.id == causes.UNKNOWN else f"only a {'symptom' if vague else 'setting'} speaks for it"
    )
    doubt = "the runs learn without it" if _most_learn(chart) else "nothing that was measured says that it is what holds the runs back"
    return f"no trial of it is recorded, {witness}, and {doubt}: prove it before it is used"


def _most_learn(chart: Chart) -> bool:
    """Whether at least half of the runs get better as they are."""
    learning = [case.standing not in ("stuck", "failed", "early", "unknown") for case in chart.cases]
    return 2 * sum(learning) >= len(learning)


def _advice(each: Candidate, number: int) -> str:
    """Why something is said and not set."""
    if each.cause.rules[:1] == (STOPPED,):
        return "it was stopped before its budget was used: nothing is known to be wrong with its settings"
    where = "the cure lies in the code or in the environment, so no trial can try it"
    row = causes.known().get(each.cause.id)
    return f"should no setting help: then {where}" if number > 1 and row is not None and row.doses else f"{each.cause.title}: {where}"


def title(changes: Mapping[str, Any], current: Mapping[str, Any]) -> str:
    """What is changed, in a line: "learning_rate 0.01 → 0.001, linear to 0"."""
    return " and ".join(f"{_short(setting)} {worded(current.get(setting))} → {worded(value)}" for setting, value in changes.items())


def _short(setting: str) -> str:
    """A setting's name as it is known: without the section, except where the name alone says little."""
    section, _, name = setting.partition(".")
    return name if section in _USUAL_SECTIONS and name and setting not in ("algo.name", "env.id", "env.kwargs") else setting


def _evidence(cause: Cause, diagnosis: Diagnosis) -> tuple[str, ...]:
    """What the rules that speak for the cause saw, the clearest first."""
    found = {finding.rule: finding for finding in diagnosis.findings}
    return tuple(f"{rule}: {found[rule].text}" for rule in cause.rules if rule in found)[:3]


def _priority(each: Candidate, diagnosis: Diagnosis, *, known: bool, held_back: bool, learning: bool) -> Priority:
    """critical: without it nothing is learned; high: a likely cause; medium: a second choice; low: it does well already.

    A change of a setting of which nobody has recorded what it does (not `known`) is never critical; one that is held back is never high,
    and low where the runs learn without it.
    """
    if each.cause.kind == "nothing wrong" or diagnosis.verdict == "SOLVED" or diagnosis.causes[0].kind == "nothing wrong":
        return "low"
    if held_back:
        return "low" if learning or each.place > 0 else "medium"
    level = 0 if each.cause.severity.value == "high" and each.cause.probability >= 0.5 and diagnosis.verdict != "PARTLY SOLVED" else 1
    level += each.cause.probability < 0.3
    level = max(level, 1) if each.changes and not known else level
    return _PRIORITIES[min(level + (each.place > 0), 3)]


def effect_class(expected: Expected | None) -> EffectClass:
    """The forecast as one of three classes."""
    if expected is None:
        return "no data"
    gain = 1 - expected.value if expected.measure == "steps" else expected.value
    return "> 30 %" if gain > 0.3 else "10-30 %" if gain >= 0.1 else "< 10 %"


# ── runs of other frameworks ──


def stand_in(histories: Sequence[History]) -> Config | None:
    """A config with the settings that a foreign run logged; its framework's defaults, then ours, where it logged none. None if we
    do not have its algorithm.

    Settings that do not fit ours are left out: a trial with this config is our trainer with translated settings.
    """
    if not histories or histories[0].algo not in ALGORITHMS:
        return None
    first = histories[0]
    settings: dict[str, Any] = {"env.id": first.env_id or "unknown", "algo.name": first.algo}
    # A minibatch of the whole rollout fits any rollout; the run's own comes last, when its rollout is known.
    settings |= {"algo.batch_size": 1.0} if first.algo == "ppo" else {}
    config = _nested(settings)
    # A budget that nobody knows is taken to be as long as the log.
    budget = first.max_env_steps or first.env_steps or None
    logged = {"run.max_env_steps": budget, "spec.threshold": first.threshold, **_usual_there(first), **first.settings}
    known = {key: value for key, value in logged.items() if value is not None and key.partition(".")[0] in _SECTIONS and key not in _FIXED}
    starts, ends = (to_count(known.get(name)) or 0 for name in ("algo.learning_starts", "run.max_env_steps"))
    if starts >= ends > 0:
        # A run that never learned is none that we would begin: one that would learn at its last step stands for it.
        known["algo.learning_starts"] = ends - 1
    waiting = sorted(known, key=lambda name: (name != "run.max_env_steps", name == "algo.batch_size", name))
    while True:
        refused = []
        for key in waiting:
            made = _nested({**settings, key: known[key]})
            if made is None:
                refused.append(key)
            else:
                settings, config = {**settings, key: known[key]}, made
        # What did not fit before another setting was known may fit now: a rollout, once there are fewer copies.
        if len(refused) == len(waiting):
            return config
        waiting = refused


def _usual_there(run: History) -> dict[str, Any]:
    """What a run has most likely had where its log is silent: its framework's defaults, and what its counts of steps lead back to."""
    found = dict(DEFAULTS.get((run.source, run.algo or ""), {}))
    if run.algo in off_policy.OFF_POLICY and (starts := round(off_policy.learning_starts(case_of(run)))):
        found["algo.learning_starts"] = starts
    alpha = run.series.get(off_policy.ALPHA)
    if alpha is not None and len(alpha) > 2 and alpha.values.min() == alpha.values.max():  # learned ones move
        found["algo.ent_coef"] = float(alpha.values[0])
    iterations = run.series.get("epoch")
    if "algo.n_steps" in found and "algo.n_steps" not in run.settings and iterations is not None and len(iterations):
        rollout = round(float(iterations.steps[-1]) / max(float(iterations.values[-1]), 1.0))
        envs = run.settings.get("env.n_envs", found.get("env.n_envs", 1))
        found["algo.n_steps"] = max(rollout // max(int(envs), 1), 1)
    return found


def _nested(settings: Mapping[str, Any]) -> Config | None:
    record: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        section, _, name = key.partition(".")
        record.setdefault(section, {})[name] = value
    try:
        return Config(**record)
    except ConfigError:
        return None
