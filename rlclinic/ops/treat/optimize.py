"""Searching for a better config: diagnosis, prescriptions, screening and a confirmation on fresh seeds, within one budget."""

import operator
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pydantic import Field

from rlclinic.actions import Action
from rlclinic.config import Config, from_record, to_record
from rlclinic.errors import NotFound, UsageError
from rlclinic.launch.batch import Progress
from rlclinic.ops.treat import sensitivity
from rlclinic.ops.treat.requests import OptimizeRequest
from rlclinic.report.format import count, short, step_unit
from rlclinic.report.models import Result
from rlclinic.report.optimize import describe_confirmation
from rlclinic.runs import selector, studies
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.treatment.optimize import search
from rlclinic.treatment.optimize.ledger import Ledger
from rlclinic.treatment.optimize.search import Request, Say
from rlclinic.treatment.prescription.prescription import flow
from rlclinic.treatment.trial import variant_file

VARIANT: Final = "tuned"
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)")
_SECONDS: Final = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})")
SearchWatch = Callable[[Progress], None]


class SearchPlan(Result):
    """What a search is going to do, before anything is spent."""

    target: str
    env_id: str
    algo: str
    outcome: str
    threshold: float | None
    budget: int
    run_env_steps: int
    """Length of one run."""
    known_runs: int
    """Runs of the start that exist already, and cost nothing."""
    notes: list[str] = Field(default_factory=list, exclude_if=operator.not_)
    """What has changed in the files of the group's own environment since it was trained."""


class SearchReport(Result):
    """A search that has ended (or was interrupted), and what to type next."""

    ledger: Ledger
    spent: int
    changes: list[str]
    """What the best config changes in the start, as --set takes it."""
    evidence: list[str]
    files: list[str]
    next: list[Action]


def plan(request: OptimizeRequest) -> SearchPlan:
    """What a search from a group, or from ENV or ENV:VARIANT, would do."""
    resolved = _resolve(request)
    search.check(resolved)
    config, own = resolved.config, resolved.own_group
    length = request.run_env_steps or min(config.run.max_env_steps, max(request.budget // search.RUNS, search.FEWEST_ENV_STEPS))
    return SearchPlan(
        target=request.target,
        env_id=config.env.id,
        algo=config.algo.name,
        outcome=request.outcome,
        threshold=config.spec.threshold,
        budget=request.budget,
        run_env_steps=length,
        known_runs=len(own.runs) if own is not None and own.config.run.max_env_steps == length else 0,
        notes=sensitivity.describe_changes(Store(request.runs_dir), request.target, config),
    )


def begin(request: OptimizeRequest, id: str | None = None) -> Ledger:
    """Open a search without training anything: `resume` carries it out. `id`: one that was reserved for it."""
    return search.begin(Store(request.runs_dir), _resolve(request), id)


def optimize(
    request: OptimizeRequest,
    *,
    until: str | None = None,
    watch: SearchWatch | None = None,
    say: Say | None = None,
    stop: Callable[[], bool] | None = None,
    cores: int | None = None,
) -> SearchReport:
    """Search for a better config; Interrupted if `stop` says so or `until` is over."""
    return _carry_out(Store(request.runs_dir), begin(request), until, watch, say, stop, cores)


def resume(
    id: str = "@last",
    runs_dir: Path = Path("runs"),
    *,
    until: str | None = None,
    watch: SearchWatch | None = None,
    say: Say | None = None,
    stop: Callable[[], bool] | None = None,
    cores: int | None = None,
) -> SearchReport:
    """Go on with a search that was interrupted or killed; show one that has ended."""
    store = Store(runs_dir)
    return _carry_out(store, search.load(store, id), until, watch, say, stop, cores)


def _carry_out(
    store: Store,
    ledger: Ledger,
    until: str | None,
    watch: SearchWatch | None,
    say: Say | None,
    stop: Callable[[], bool] | None,
    cores: int | None,
) -> SearchReport:
    deadline = None if until is None else time.time() + seconds_until(until)

    def stopping() -> bool:
        return (deadline is not None and time.time() > deadline) or (stop is not None and stop())

    ended = search.carry_out(store, ledger, watch=watch, say=say, stop=stopping, cores=cores)
    return report(store, ended)


def _resolve(request: OptimizeRequest) -> Request:
    """The search that is asked for, with its config, and the group that it begins with where there is one."""
    store = Store(request.runs_dir)
    config, _ = sensitivity.resolve(store, request.target, request.changes)
    own = None if request.changes else _own(store, request.target)
    return Request(
        request.target,
        config,
        request.budget,
        request.outcome,
        run_env_steps=request.run_env_steps,
        own_group=own,
        recorded=request.use_recorded,
    )


def _own(store: Store, target: str) -> Group | None:
    if not (target.startswith("@") or selector.has_slash(target) or selector.ID.fullmatch(target)):
        return None
    try:
        return store.group(target)
    except (NotFound, UsageError):
        return None


def seconds_until(text: str, now: float | None = None) -> float:
    """How long until a clock time (18:30, the next one) or for a duration (90s, 30min, 2h)."""
    wanted = text.strip().lower()
    clock, span = _CLOCK.fullmatch(wanted), _DURATION.fullmatch(wanted)
    if clock and int(clock[1]) < 24 and int(clock[2]) < 60:
        local = time.localtime(now)
        passed = local.tm_hour * 3_600 + local.tm_min * 60 + local.tm_sec
        return float((int(clock[1]) * 3_600 + int(clock[2]) * 60 - passed) % 86_400)
    if span:
        return float(span[1]) * _SECONDS[span[2]]
    raise UsageError(
        f"--until {text}: neither a time nor a duration.\n  The search would not know when to end.\n  Type: --until 18:30, or --until 2h"
    )


# ── what came of it ──


def report(store: Store, ledger: Ledger) -> SearchReport:
    """The search in words, with the tuned variant written beside its ledger."""
    best = ledger.best
    changes = list(best.entry.changes) if best is not None else []
    evidence = _evidence(ledger)
    files = [str(studies.folder(store, "optimize", ledger.id) / studies.FILES["optimize"])]
    if best is not None and changes and ledger.state == "finished":
        text = variant_file.written(_spec(best.entry.load_config()), _whole(best.entry.load_config()), VARIANT, evidence, ledger.env_id)
        files.append(str(studies.write_report(store, "optimize", ledger.id, f"{VARIANT}.yaml", text)))
    return SearchReport(ledger=ledger, spent=ledger.spent, changes=changes, evidence=evidence, files=files, next=_next(ledger, files))


def _spec(config: Config) -> str:
    """What is known about the task: a file of its own has no other place for it."""
    known = {key: value for key, value in to_record(config)["spec"].items() if value not in (None, "")}
    return f"spec: {flow(known)}\n" if known else ""


def _whole(config: Config) -> Config:
    """The config as people train it: to the end of its budget."""
    record = to_record(config)
    record["run"]["stop_at_threshold"] = False
    return from_record(record)


def _evidence(ledger: Ledger) -> list[str]:
    """What the search came to: what fresh seeds measured first, then what picked the config, and what the budget did not pay for."""
    best = ledger.best
    if best is None:
        return []
    unit = step_unit(ledger.algo, ledger.start)
    searched = f"{Action('optimize', ledger.target, budget=ledger.budget)} (search {ledger.id})"
    seen = f"{best.reached} of {best.n} runs reached it" if ledger.threshold is not None else f"{best.n} runs"
    if ledger.threshold is not None and ledger.outcome == "steps":
        seen += f" ({ledger.threshold:g}), in {count(best.score)} {unit} on average"
    return [
        searched,
        *(describe_confirmation(ledger, confirmation) for confirmation in ledger.confirmations if confirmation.done),
        f"the runs that picked it, which flatter it: {seen}",
        f"{len(ledger.tried)} configs tried in {short(ledger.spent)} of {short(ledger.budget)} {unit}",
        *(f"not affordable: {text}" for text in ledger.not_afforded),
    ]


def _next(ledger: Ledger, files: Sequence[str]) -> list[Action]:
    if ledger.state != "finished":
        return [Action("optimize", resume=ledger.id)]
    confirmed = [confirmation for confirmation in ledger.confirmations if confirmation.verdict == "adopt"]
    if confirmed:
        return [Action("adopt", confirmed[-1].trial, as_=f"{ledger.env_id}:mine")]
    return [Action("train", f"{files[-1]}:{VARIANT}", seeds=8)] if len(files) > 1 else []
