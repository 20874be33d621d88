"""The convergence gate: baselines kept as small files, candidates judged against them, trained for the occasion where need be.

A gate that trains is written down before (runs/@regress/<id>/gate.json): killed or interrupted, it goes on where it was, also as a job.
"""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from pydantic import ValidationError

from rlclinic import plain_files, trust
from rlclinic.actions import Action, Argument
from rlclinic.comparison import power, regression
from rlclinic.comparison.regression import Baseline, Decision, Gate, GateOutcome, Look
from rlclinic.comparison.sides import Side
from rlclinic.config import Config, from_record, to_record
from rlclinic.config.overrides import set_values
from rlclinic.errors import DiskFailed, NotFound, UsageError
from rlclinic.launch.batch import RESTARTS, check_ended, forget_half_made, is_open
from rlclinic.ops.compare.requests import RegressRequest
from rlclinic.ops.runs import targets
from rlclinic.ops.train.plan import ASK_ABOVE_ENV_STEPS, TrainPlan, check_data, check_installed
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.ops.train.run import TrainingWatch, train
from rlclinic.ops.train.run import carry_out as carry_on
from rlclinic.report.format import percent, short
from rlclinic.report.gate import BaselineSaved, GateRecord, Needed, Regression, Rule
from rlclinic.report.models import TrainResult
from rlclinic.runs import questions, studies, trials
from rlclinic.runs.store import Store

Say = Callable[[str], None]
Confirm = Callable[[str], bool]
PER_LOOK = 8
LOOKS = 4
FEW = 16
"""A smaller baseline is itself too much of an accident to judge many candidates by."""


def save_baseline(target: str, file: Path, runs_dir: Path = Path("runs"), *, threshold: float | None = None) -> BaselineSaved:
    """Keep the outcomes of a group, a run or a folder as a small JSON file for `regress`."""
    kept = _read_runs(target, targets.Reading(runs_dir, threshold))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(kept.model_dump_json(indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise DiskFailed(f"{file} cannot be written: {error.strerror}.\n  The baseline is not kept.\n  Give another file") from error
    return BaselineSaved(file=str(file), baseline=kept)


def regress(
    baseline: str | None = None,
    candidate: str | None = None,
    runs_dir: Path = Path("runs"),
    *,
    resume: str | None = None,
    outcome: GateOutcome | None = None,
    margin: float | None = None,
    alpha: float = 0.05,
    looks: int = LOOKS,
    per_look: int = PER_LOOK,
    seed0: int | None = None,
    changes: Sequence[str] = (),
    threshold: float | None = None,
    mapping: Sequence[str] = (),
    watch: TrainingWatch | None = None,
    say: Say | None = None,
    confirm: Confirm | None = None,
) -> Regression:
    """Judge a candidate against a baseline file, group, run or folder; or go on with a gate (`resume`) that was interrupted or killed.

    candidate: a group, run or folder, which is looked at once; or a config (variant, YAML file, git:REV:FILE.yaml), which is
    trained on fresh seeds in batches of `per_look`, with at most `looks` looks, until the matter is decided. outcome: steps, return,
    success or wall; None: steps where the baseline mostly reaches its threshold, else return. margin: the loss that may pass, as a
    share (success: in absolute terms); None: `usual_margin` of the outcome,
    and more steps or seconds that are shown are a regression, however few. confirm: asked before much is spent; False ends it.
    """
    store = Store(runs_dir)
    if resume is not None:
        return carry_out(store, resume, watch, say)
    asked = RegressRequest(
        baseline=baseline,
        candidate=candidate,
        outcome=outcome,
        margin=margin,
        alpha=alpha,
        looks=looks,
        per_look=per_look,
        seed0=seed0,
        changes=list(changes),
        threshold=threshold,
        mapping=list(mapping),
        runs_dir=runs_dir,
    )
    planned = plan(asked)
    if isinstance(planned, Regression):
        return planned
    question = f"This trains up to {looks} x {per_look} seeds, {short(planned.max_env_steps)} env steps in all. Start?"
    if confirm is not None and planned.max_env_steps >= ASK_ABOVE_ENV_STEPS and not confirm(question):
        raise UsageError("nothing was trained, and nothing was judged")
    return carry_out(store, begin(store, planned).id, watch, say)


def plan(request: RegressRequest) -> GateRecord | Regression:
    """The gate of a candidate that has to be trained, which is not written yet; of one that was, the answer."""
    baseline, candidate, threshold = request.baseline, request.candidate, request.threshold
    if baseline is None or candidate is None:
        raise UsageError(
            "a gate judges a candidate by a baseline, and one of them is missing.\n  Nothing was judged.\n  Type: ",
            Action("regress", "BASELINE", "CANDIDATE"),
        )
    how = targets.Reading(request.runs_dir, threshold, mapping=request.mapping)
    kept = _read_baseline(baseline, how)
    if threshold is not None and kept.threshold != threshold:
        raise UsageError(
            f"the baseline {baseline} was kept with threshold {kept.threshold}, not {threshold:g}.\n"
            "  Its steps would be counted to another mark than the candidate's.\n  Leave ",
            Argument("threshold"),
            " out, or save the baseline anew",
        )
    judged = request.outcome or regression.choose_outcome(kept)
    side = _read_one(candidate, how)
    if side.config is None:
        if request.changes:
            raise UsageError(
                Argument("set"), f" changes a config that is trained; {candidate} was trained already.\n  Leave ", Argument("set"), " out"
            )
        tried = _kept(side, kept.threshold)
        result = _judge_once(baseline, kept, candidate, tried, judged, request.margin, request.alpha)
        return _write_down(Store(request.runs_dir), kept, tried.fingerprint, result)
    rule = regression.gate(kept, judged, request.margin, request.alpha, request.looks, request.per_look)
    config = set_values(side.config, list(request.changes))
    trust.approve(*trust.names_in(config.env))
    if judged in ("steps", "wall") and config.spec.threshold == kept.threshold:
        # What comes after the threshold is not judged: stopping there saves most of the time, and changes nothing before it.
        config = set_values(config, ["run.stop_at_threshold=true"])
    check_installed()
    check_data([config])
    return GateRecord(
        id="",
        created=time.time(),
        state="running",
        target=side.name,
        env_id=config.env.id,
        algo=config.algo.name,
        baseline=baseline,
        kept=kept,
        config=to_record(config),
        rule=Rule(**rule._asdict()),
        first_seed=request.seed0,
    )


def begin(store: Store, planned: GateRecord, id: str | None = None) -> GateRecord:
    """Write a gate down, under an id that was reserved where there is one. Its seeds are no other's from here on."""
    fresh = planned.first_seed
    if fresh is None:
        fresh = trials.fresh_seeds(store, planned.rule.looks * planned.rule.per_look)
    gate = planned.model_copy(update={"id": id or studies.reserve(store, "regress"), "first_seed": fresh})
    studies.write(store, "regress", gate.id, gate.model_dump(mode="json"))
    return gate


def load(store: Store, id: str) -> GateRecord:
    """A gate by its id, its beginning, or @last."""
    return studies.load(store, "regress", id, GateRecord)


def _write_down(store: Store, kept: Baseline, candidate: str, result: Regression) -> Regression:
    """Keep what was asked, in a store that is there. Code changes between two gates: each stands for itself, and nothing is charged."""
    if store.root.is_dir():
        title = f"is {result.candidate} as good as {result.baseline}: {result.rule.outcome}"
        question = questions.Question(kept.env or "?", kept.fingerprint, (candidate,), result.rule.outcome, title)
        asked = questions.Attempt("regress", result.candidate, time.time(), result.rule.alpha, independent=True, verdict=result.decision)
        with suppress(DiskFailed):
            questions.register(store, question, asked)
    return result


def _judge_once(
    baseline: str, kept: Baseline, candidate: str, found: Baseline, outcome: GateOutcome, margin: float | None, alpha: float
) -> Regression:
    rule = regression.gate(kept, outcome, margin, alpha, 1, max(len(found.seeds), 1))
    look = regression.judge(kept, found, rule, 1)
    return _result(baseline, kept, candidate, found, rule, [look])


def carry_out(store: Store, id: str, watch: TrainingWatch | None = None, say: Say | None = None) -> Regression:
    """Train a batch of fresh seeds, look, and go on until it is decided or the looks are used up; what has ended is not trained again."""
    gate = load(store, id)
    if gate.state == "finished" and gate.result is not None:
        return gate.result
    say = say or (lambda text: None)
    config, kept, first = from_record(gate.config), gate.kept, gate.first_seed or 0
    rule = Gate(**{name: getattr(gate.rule, name) for name in Gate._fields})
    trust.approve(*trust.names_in(config.env))
    forget_half_made(store, gate.id)
    say(f"up to {rule.looks} looks x {rule.per_look} seeds x {config.run.max_env_steps:,} env steps, from seed {first}")
    seen = power.simulate(kept, rule)
    if seen:
        say("can see a loss of " + " · ".join(f"{percent(each.loss)}: {each.alarm:.2f}" for each in seen))
    groups: list[str] = []
    looks: list[Look] = []
    found: Baseline | None = None
    signal = None
    for look in range(1, rule.looks + 1):
        start = first + (look - 1) * rule.per_look
        configs = [config.model_copy(update={"seed": seed}) for seed in range(start, start + rule.per_look)]
        done = _train_look(store, gate, look, configs, watch, say)
        groups.append(done.group)
        signal = done.signal
        if signal is not None:
            break
        check_ended(
            store.group(done.group).runs, f"look {look}", "\n  Its baseline is untouched. Go on: ", Action("regress", resume=gate.id)
        )
        found = _join(found, _read_runs(done.group, targets.Reading(store.root, kept.threshold)))
        looks.append(regression.judge(kept, found, rule, look))
        say(f"look {look}: {looks[-1].decision}")
        if looks[-1].decision != "undecided":
            break
    result = _result(gate.baseline, kept, gate.target, found, rule, looks, groups, signal).model_copy(update={"id": gate.id})
    ended = gate.model_copy(update={"result": result, "state": "running" if signal is not None else "finished"})
    studies.write(store, "regress", gate.id, ended.model_dump(mode="json"))
    return result if signal is not None else _write_down(store, kept, questions.digest_config(config), result)


def _train_look(store: Store, gate: GateRecord, look: int, configs: list[Config], watch: TrainingWatch | None, say: Say) -> TrainResult:
    """Train the seeds of a look, or what is left of them. A worker that was killed says nothing about the candidate."""
    label = f"{gate.id} look {look}"
    request = TrainRequest(ref=gate.target, runs_dir=store.root, report=False, name=label)
    group = studies.groups(store, gate.id).get(label)
    if group is None:
        return train(TrainPlan(request, configs, study=gate.id), watch=watch, say=say, restarts=RESTARTS)
    runs = [run for run in group.runs if is_open(run)]
    if not runs:
        ids = [run.id for run in group.runs]
        return TrainResult(group=group.id, runs=ids, detached=False, signal=None, failed=[], report=None, files=[])
    begun = [run for run in runs if run.checkpoints or run.status.env_steps or run.status.resumes]
    return carry_on(TrainPlan(request, resumed=runs if begun else []), group, runs, watch, say, restarts=RESTARTS)


def _join(before: Baseline | None, more: Baseline) -> Baseline:
    if before is None:
        return more
    steps = min(before.env_steps, more.env_steps)
    return before.model_copy(update={"seeds": [*before.seeds, *more.seeds], "env_steps": steps})


def _result(
    baseline: str,
    kept: Baseline,
    candidate: str,
    found: Baseline | None,
    rule: Gate,
    looks: list[Look],
    groups: Sequence[str] = (),
    signal: str | None = None,
) -> Regression:
    decision: Decision = looks[-1].decision if looks else "undecided"
    needed = power.seeds_needed(kept, rule, looks[-1]) if looks and decision == "undecided" else None
    return Regression(
        baseline=baseline,
        candidate=candidate,
        env=kept.env,
        decision=decision,
        rule=Rule(**rule._asdict()),
        threshold=kept.threshold,
        baseline_seeds=len(kept.seeds),
        candidate_seeds=len(found.seeds) if found is not None else 0,
        looks=looks,
        power=power.simulate(kept, rule),
        needed=None if needed is None else Needed(candidate=needed[0], baseline=needed[1]),
        groups=list(groups),
        signal=signal,
        notes=[] if found is None else _notes(kept, found, rule),
    )


def _notes(kept: Baseline, found: Baseline, rule: Gate) -> list[str]:
    notes = [
        f"n = {len(side.seeds)}, not assessable: {name} has one seed"
        for name, side in (("the baseline", kept), ("the candidate", found))
        if len(side.seeds) < 2
    ]
    if 2 <= len(kept.seeds) < FEW:
        notes.append(
            f"a baseline of {len(kept.seeds)} seeds may be a lucky one, and would then alarm about every candidate: keep {FEW} or more"
        )
    if kept.fingerprint != found.fingerprint:
        changed = [key for key in sorted({*kept.settings, *found.settings}) if kept.settings.get(key) != found.settings.get(key)]
        notes.append(f"the settings are not the baseline's: {', '.join(changed[:6])}" + (" …" if len(changed) > 6 else ""))
    both = kept.versions.keys() & found.versions.keys()
    moved = [
        f"{name} {kept.versions[name]} → {found.versions[name]}" for name in sorted(both) if kept.versions[name] != found.versions[name]
    ]
    if moved:
        notes.append(f"versions that changed since the baseline was kept: {', '.join(moved)}")
    if kept.measure != found.measure:
        notes.append(f"the baseline has {kept.measure} returns, the candidate {found.measure} returns: they are not the same thing")
    if abs(kept.env_steps - found.env_steps) > 0.05 * kept.env_steps:
        notes.append(f"the baseline was followed for {kept.env_steps:,.0f} env steps, the candidate for {found.env_steps:,.0f}")
    failed = sum(seed.failed for seed in found.seeds)
    if failed:
        notes.append(f"{failed} of the candidate's {len(found.seeds)} runs failed; they count as runs that never get there")
    if rule.outcome == "wall":
        notes.append("seconds depend on the machine and its load: keep and judge the baseline on the same one")
    return notes


# ── reading ──


def _read_baseline(target: str, how: targets.Reading) -> Baseline:
    path = Path(target)
    if not target.endswith(".json"):
        return _read_runs(target, how)
    try:
        return Baseline.model_validate_json(plain_files.read_text(path))
    except FileNotFoundError as missing:
        raise NotFound(
            f"no file {path}.\n  There is no baseline to judge by.\n  Make one: ", Action("regress", "GROUP", save_baseline=path)
        ) from missing
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise UsageError(
            f"{path} is no baseline that this version can read.\n  Nothing can be judged by it.\n  Make it anew: ",
            Action("regress", "GROUP", save_baseline=path),
        ) from error


def _read_one(target: str, how: targets.Reading) -> Side:
    found = targets.read(target, how)
    if len(found) > 1:
        names = ", ".join(side.name for side in found[:4])
        raise UsageError(f"{target} holds runs of {len(found)} configs, and one is needed here.\n  Give one of them: {names}")
    return found[0]


def _read_runs(target: str, how: targets.Reading) -> Baseline:
    side = _read_one(target, how)
    if side.config is not None:
        raise UsageError(
            f"{target} is a config that was not trained: a baseline is made of runs.\n  Train it first: ", Action("train", target, seeds=16)
        )
    return _kept(side, how.threshold)


def _kept(side: Side, threshold: float | None) -> Baseline:
    found = {"python": sys.version.split()[0]}
    for package in ("rlclinic", "torch", "gymnasium", "numpy"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return regression.baseline_of(side, found, threshold)
