"""Why a run does not learn: reading what it left behind, examining it, and writing the answer beside our own groups."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlclinic import trust
from rlclinic.actions import Action, Argument
from rlclinic.diagnosis import causes, engine
from rlclinic.diagnosis.case import case_of
from rlclinic.diagnosis.checkpoints import findings
from rlclinic.diagnosis.environment_evidence import join
from rlclinic.diagnosis.findings import Diagnosis
from rlclinic.errors import DiskFailed, RlclinicError, RunError, UsageError
from rlclinic.ops.diagnose import advice, best_group, bug_locations, possible_causes, rule_selection, run_environments, watch_list
from rlclinic.ops.diagnose.export import films
from rlclinic.ops.diagnose.rule_selection import Chosen
from rlclinic.ops.runs.ranking import RankedGroup
from rlclinic.report import evidence, group
from rlclinic.report.models import DiagnosisReport, Films, Recommendation, TopFinding
from rlclinic.runs import disk, env_code, history
from rlclinic.runs.history import History, group_by_config
from rlclinic.runs.metrics_file.table import Table
from rlclinic.runs.record import Checkpoint, Group, Run
from rlclinic.runs.store import Store

FILE = watch_list.FILE


# A log may hold anything, 1e308 included: what overflows is infinite, and neither trusted nor drawn.
@np.errstate(all="ignore")
def diagnose(
    target: str = "@last",
    runs_dir: Path = Path("runs"),
    *,
    threshold: float | None = None,
    budget: int | None = None,
    mapping: Sequence[str] = (),
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    write: bool = True,
    out: Path | None = None,
    env: "run_environments.Env | None" = None,
    eval_env: "run_environments.Env | None" = None,
    env_args: Mapping[str, Any] | None = None,
    own_env: bool = False,
    film: Callable[[str], None] | None = None,
) -> DiagnosisReport:
    """Diagnose a group, a run, another framework's folder or file, or what comes in on stdin ("-").

    Our own groups get diagnosis.json, report.md and report.html, our runs diagnosis.json; other folders are never written to:
    `out` is a folder for the three files. A folder with runs of several configs gives one diagnosis for each.
    `env` is examined as well (its code is run), and `eval_env` compared with it; see `run_environments`. `own_env`: where
    none is given and something is wrong, the run's own environment is, if its code is still what was trained and approved.
    `film`: where a reward is gamed, the episodes that show it are recorded if they were not; it hears of the progress.
    """
    _check_out(target, out)
    chosen = rule_selection.chosen(select, ignore)
    owner, groups = read(target, runs_dir, threshold, budget, mapping)
    if env is None and eval_env is not None:
        raise UsageError(
            Argument("eval_env"),
            " is compared with the training environment, which is not given.\n  Give both: ",
            Argument("env", "my_env.py:Train"),
            " and ",
            Argument("eval_env", "my_env.py:Eval"),
        )
    seen = None if env is None else run_environments.look(env, env_args or {}, owner)
    beside = None if eval_env is None else run_environments.look(eval_env, env_args or {}, owner)
    reports = [examine(owner, each, target, chosen, seen=seen, beside=beside) for each in groups or [[]]]
    if own_env and env is None and not reports[0].diagnosis.causes[0].calm and (seen := run_environments.look_at_own(owner)) is not None:
        reports = [examine(owner, each, target, chosen, seen=seen) for each in groups or [[]]]
    if film is not None:
        reports[0] = _film(owner, reports[0], film)
    # A part of the rules, another threshold, or an environment as it is today, is a question and not the record.
    whole = not select and not ignore and threshold is None and budget is None and env is None
    files, not_written = [], None
    if owner is not None and write and whole:
        try:
            files = _write(owner, reports[0])
        except DiskFailed as error:
            not_written = str(error).splitlines()[0]
    if out is not None:
        for place, (each, histories) in enumerate(zip(reports, groups, strict=True), 1):
            files += _write_out(out if len(reports) == 1 else out / str(place), owner, each, histories)
    return reports[0].model_copy(update={"more": tuple(reports[1:]), "files": [str(file) for file in files], "not_written": not_written})


def _film(owner: Run | Group | None, report: DiagnosisReport, say: Callable[[str], None]) -> DiagnosisReport:
    if report.films is None:
        say("nothing to film: no finding says that a reward is gamed")
        return report
    if owner is None or not report.films.episodes:
        return report  # its note says why
    try:
        films.record(report.films, owner, say)
    except (RunError, UsageError, DiskFailed) as error:
        shown = films.find(owner, report.diagnosis)
        return report if shown is None else report.model_copy(update={"films": shown.model_copy(update={"note": str(error)})})
    shown = films.find(owner, report.diagnosis)
    kept = [action for action in report.next if action not in report.films.missing]
    return report.model_copy(update={"films": shown, "next": kept})


@np.errstate(all="ignore")
def examine(
    owner: Run | Group | None,
    histories: Sequence[History],
    target: str,
    chosen: Chosen | None = None,
    others: Sequence[RankedGroup] | None = None,
    *,
    seen: "run_environments.Seen | None" = None,
    beside: "run_environments.Seen | None" = None,
) -> DiagnosisReport:
    """Diagnose runs that belong together, with all that is said around it. Nothing is written.

    `others` are the groups that it may be compared with, where somebody knows them; otherwise the whole store is looked through.
    `seen` and `beside` are what was seen of the environments of training and of evaluation.
    """
    rules = chosen or rule_selection.chosen()
    selection = findings.choose_checks(rules.select, rules.ignore)
    diagnosis = engine.diagnose(histories, select=selection.select, ignore=selection.ignore)
    if owner is not None:
        diagnosis = findings.add_checkpoints(diagnosis, owner.runs if isinstance(owner, Group) else [owner], histories, selection.checks)
    if isinstance(owner, Group):
        diagnosis = diagnosis.model_copy(update={"facts": diagnosis.facts.model_copy(update={"id": owner.id})})
    if seen is not None:
        evaluation = None if beside is None else (beside.lint, beside.facts)
        diagnosis = join(diagnosis, [case_of(each) for each in histories], seen.lint, seen.facts, evaluation)
    diagnosis = possible_causes.name_commands(diagnosis, owner, target, ours=owner is not None and is_ours(owner))
    cases, calm = [case_of(each) for each in histories], diagnosis.causes[0].calm
    env_id = _find_env(histories) if seen is None else seen.lint.name
    advised = advice.recommended(diagnosis, histories, owner)
    shown = films.find(owner, diagnosis)
    return DiagnosisReport(
        target=target,
        group=owner.id if isinstance(owner, Group) else None,
        ended_seconds_ago=_ended(owner),
        diagnosis=diagnosis,
        standing=evidence.standing(cases),
        metrics=tuple(evidence.key_metrics(cases)),
        panels=(*evidence.panels(diagnosis, cases), *evidence.term_panels(cases)),
        marked=evidence.marked(diagnosis, cases),
        recommendations=tuple(advised),
        suspects=tuple(bug_locations.find_suspects(diagnosis, _repeat(owner), env_id, examined=seen is not None)),
        watched=watch_list.checked(owner, histories),
        comparable=best_group.best(owner, histories, others) if isinstance(owner, Group) and not calm else None,
        switched=rules.switched,
        films=shown,
        next=_next(owner, diagnosis, advised, target, shown),
        files=[],
        changed_code=None if owner is None else _describe_changed_code(owner),
    )


def _describe_changed_code(owner: Run | Group) -> str | None:
    consequence = "what is said here is about the environment as it was; lines and examinations of its file are about the one of today"
    try:
        return env_code.describe_changes(owner, consequence)
    except RlclinicError:
        # A damaged record: what else is left of the run is diagnosed.
        return None


def _find_env(histories: Sequence[History]) -> str | None:
    """The environment's id, as the settings name it."""
    named = histories[0].settings.get("env.id") if histories else None
    return named if isinstance(named, str) else None


def examine_group(group: Group, seen: "run_environments.Seen | None" = None) -> DiagnosisReport | None:
    """The diagnosis of a group of ours, as `train` needs it at its end; None if no run was started. `seen`: of its environment."""
    return examine(group, [history.of_run(run) for run in group.runs], group.id, seen=seen) if group.runs else None


def top_finding(report: DiagnosisReport, runs_dir: Path | None = None) -> TopFinding:
    """The answer in a few words. `runs_dir`: where the command must look to find the group again, if that is not the usual place."""
    cause = report.diagnosis.causes[0]
    change = report.recommendations[0] if report.recommendations else None
    return TopFinding(
        cause=cause.id,
        title=cause.title,
        probability=cause.probability,
        severity=cause.severity.value,
        agree=cause.agree,
        of=cause.of,
        rule=cause.rules[0] if cause.rules else None,
        change=None if change is None or cause.calm else change.change,
        command=Action("diagnose", report.target, runs_dir=runs_dir),
        then=next((action for action in report.next if action.command != "rules"), None),
    )


# ── reading ──


class _ReadOnce(Run):
    """A run whose metrics are read once: the diagnosis and the report's numbers come from the same rows."""

    _table: Table | None = None

    @property
    def metrics(self) -> Table:
        if self._table is None:
            self._table = super().metrics
        return self._table

    @property
    def seed(self) -> int:
        """0 where config.json is damaged: the other seeds can be reported on all the same."""
        try:
            return super().seed
        except RunError:
            return 0


def read(
    target: str, runs_dir: Path, threshold: float | None, budget: int | None, mapping: Sequence[str]
) -> tuple[Run | Group | None, list[list[History]]]:
    """Whose folder it is (None: not ours), and the histories, one list for each config."""
    owner = _ours(target, runs_dir)
    if owner is None:
        # Imported here: reading our own runs must not wait for the formats of others.
        from rlclinic import readers
        from rlclinic.readers import live

        histories = readers.read(target, threshold=threshold, budget=budget, mapping=list(mapping))
        return None, group_by_config(histories if target == "-" else live.mark_running(histories, Path(target)))
    if isinstance(owner, Group):
        owner.runs = [_ReadOnce(run.path) for run in owner.runs]
    runs = owner.runs if isinstance(owner, Group) else [owner]
    more: dict[str, Any] = {} if threshold is None else {"threshold": threshold}
    more |= {} if budget is None else {"max_env_steps": budget}
    histories = [replace(each, **more) if more else each for each in map(history.of_run, runs)]
    return owner, [histories] if histories else []


def _ours(target: str, runs_dir: Path) -> Run | Group | None:
    """The run or group that the target names; None if it is a path (or stdin) that is not ours."""
    path = Path(target)
    if target == "-":
        return None
    if (path / "group.json").is_file():
        return Group(path)
    if (path / "config.json").is_file() and (path / "status.json").is_file():
        return Run(path)
    if path.exists() and not (runs_dir / path.name / "config.json").is_file():
        return None
    try:
        selected = Store(runs_dir).resolve(target)
    except UsageError:
        if "/" in target:
            # Neither a selector nor a path: the reader says that it does not exist.
            return None
        raise
    return selected.run if isinstance(selected, Checkpoint) else selected


def _ended(owner: Run | Group | None) -> float | None:
    """Seconds since the last of our own runs wrote its status; None while one is still going."""
    runs = owner.runs if isinstance(owner, Group) else [owner] if owner is not None else []
    states = [run.status for run in runs]
    if not states or any(state.live for state in states) or not all(state.heartbeat for state in states):
        return None
    return min(state.silent_seconds for state in states)


# ── writing ──


def _check_out(target: str, out: Path | None) -> None:
    """A folder that was given to be read must not be written to."""
    if out is None or target == "-" or not Path(target).is_dir():
        return
    if out.resolve().is_relative_to(Path(target).resolve()):
        raise UsageError(
            Argument("out", out),
            f" lies in {target}, which is only read.\n  The next reading would find its own report there.\n  Give a folder beside it: ",
            Argument("out", f"{Path(target).name}-diagnosis"),
        )


def _write(owner: Run | Group, report: DiagnosisReport) -> list[Path]:
    """diagnosis.json; for a group also report.md and report.html, the page first."""
    record = owner.write_report(FILE, report.diagnosis.model_dump_json(indent=2) + "\n")
    if isinstance(owner, Run):
        return [record]
    described = group.describe_group(owner)
    picture = "curve.png" if (owner.path / "curve.png").exists() else None
    page = owner.write_report("report.html", group.html(described, report))
    return [page, owner.write_report("report.md", group.markdown(described, report, picture)), record]


def _write_out(folder: Path, owner: Run | Group | None, report: DiagnosisReport, histories: Sequence[History]) -> list[Path]:
    """The three files in a folder of the user's choice."""
    page = group.describe_group(owner) if isinstance(owner, Group) else group.describe_histories(histories, report.diagnosis)
    with disk.guarded(folder):
        folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "report.html": group.html(page, report),
        "report.md": group.markdown(page, report),
        FILE: report.diagnosis.model_dump_json(indent=2) + "\n",
    }
    for name, content in contents.items():
        disk.write(folder / name, content)
    return [folder / name for name in contents]


# ── what next ──


def _next(
    owner: Run | Group | None, diagnosis: Diagnosis, advised: Sequence[Recommendation], target: str, shown: Films | None
) -> list[Action]:
    """What exists and helps, the most useful first."""
    actions: list[Action] = []
    sound = evidence.needs_no_change(diagnosis)
    first = None if sound else next((each for each in advised if each.overrides), None)
    if not sound and _blames_own_environment(owner, diagnosis):
        # No setting mends that: where it lies in the code comes first, and nothing is tried against it.
        actions = [Action("lint", env=diagnosis.facts.env)]
    elif owner is not None and is_ours(owner):
        actions = [*_unfinished(owner, diagnosis), *([] if first is None else _treatments(owner, first))]
    elif first is not None and first.prescribed and diagnosis.facts.env and target != "-":
        # Somebody else's trainer: ours tries the change with translated settings, and says so.
        threshold = f"{diagnosis.facts.threshold:g}" if owner is None and diagnosis.facts.threshold is not None else None
        where = None if owner is None else group.runs_dir_of(owner)
        actions = [Action("trial", target if owner is None else owner.id, runs_dir=where, rx=first.number, threshold=threshold)]
    if owner is None and diagnosis.causes[0].id == causes.NO_REFERENCE and target != "-":
        actions.append(Action("diagnose", target, threshold="RETURN"))
    rules = diagnosis.causes[0].rules
    return [*actions, *(() if shown is None else shown.missing), *([Action("rules", rules[0])] if rules else [])]


def _blames_own_environment(owner: Run | Group | None, diagnosis: Diagnosis) -> bool:
    """Whether the likeliest cause has no dose and lies in an environment whose code is the user's, and was trained here."""
    first = diagnosis.causes[0]
    known = causes.known().get(first.id)
    if owner is None or not is_ours(owner) or known is None or known.kind != "fault of environment" or known.doses:
        return False
    return first.probability >= 0.5 and trust.names_code(diagnosis.facts.env or "")


def _unfinished(owner: Run | Group, diagnosis: Diagnosis) -> list[Action]:
    """What comes before any cure, where the runs have not come to their end."""
    where = group.runs_dir_of(owner)
    if "running" in diagnosis.facts.state:
        return [Action("status", owner.id, runs_dir=where)]
    return [Action("train", resume=owner.id, runs_dir=where)] if "stopped" in diagnosis.facts.state else []


def _treatments(owner: Run | Group, first: Recommendation) -> list[Action]:
    """What proves a change, and what uses it untried. More steps need no new start."""
    where = group.runs_dir_of(owner)
    if len(first.overrides) == 1 and first.overrides[0].startswith("run.max_env_steps="):
        return [Action("train", resume=owner.id, max_env_steps=first.overrides[0].partition("=")[2], runs_dir=where)]
    if first.prescribed and first.held_back is not None:
        return [Action("trial", owner.id, rx=first.number, runs_dir=where)]
    if first.prescribed:
        return [Action("trial", owner.id, rx=first.number, runs_dir=where), Action("train", owner.id, rx=first.number, runs_dir=where)]
    return [Action("train", owner.id, set=list(first.overrides), runs_dir=where)]


def is_ours(owner: Run | Group) -> bool:
    """Trained here, with a config that can be trained again."""
    try:
        return not owner.record.get("source")
    except RunError:
        return False


def _repeat(owner: Run | Group | None) -> str | None:
    """What trains one seed of our own run or group again; None for runs of others."""
    if owner is None or not is_ours(owner):
        return None
    return Action("train", owner.id, seeds=1, runs_dir=group.runs_dir_of(owner))
