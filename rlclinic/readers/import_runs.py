"""`import`: a history becomes a run folder of ours, with its source recorded.

metrics.csv has canonical names, config.json the settings that are known, nested as in YAML, and `source`: the framework, the
path, what every column was called and how it was estimated, segments and notes. `history.of_run` reads it back as it was.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from rlclinic import metrics
from rlclinic.errors import UsageError
from rlclinic.metrics import TRAIN_RETURN
from rlclinic.runs import disk
from rlclinic.runs.history import History, Series
from rlclinic.runs.metrics_file.table import STEPS
from rlclinic.runs.outcome import Outcome, measure_group
from rlclinic.runs.record import LOG, Run
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter

_SECTIONS: Final = ("spec", "env", "algo", "net", "run")


def import_run(history: History, store: Store) -> Run:
    """Copy a history into the store as a run of its own group."""
    return import_runs([history], store)[0]


def import_runs(histories: Sequence[History], store: Store, extra: dict[str, Any] | None = None, name: str | None = None) -> list[Run]:
    """Copy histories into the store. Those with equal settings and different, known seeds become one group.

    `extra` goes into every config.json beside the settings: trial, label. `name` is the first group's id; more groups get
    it with a number.
    """
    runs = []
    for place, group in enumerate(_group_by_settings(histories), 1):
        gid = name if name is None or place == 1 else f"{name}-{place}"
        created = store.create_foreign(
            [_make_record(history) for history in group], [_describe_source(history) for history in group], extra, gid
        )
        outcomes = measure_group(group, group[0].goal, group[0].source)
        for history, run, came in zip(group, created.runs, outcomes, strict=True):
            _write_files(run, history, came)
            runs.append(run)
    return runs


def _group_by_settings(histories: Sequence[History]) -> list[list[History]]:
    groups: dict[str, list[History]] = {}
    for place, history in enumerate(histories):
        if history.source == "rlclinic":
            raise UsageError(
                f"{history.path} is a run of rlclinic already.\n  A copy would be counted twice.\n  Use --runs-dir to look at its store"
            )
        record = _make_record(history)
        key = json.dumps([history.source, {**record, "seed": None}], sort_keys=True, default=repr)
        alone = "seed" not in record or any(other.seed == history.seed for other in groups.get(key, []))
        groups.setdefault(f"{place} {key}" if alone else key, []).append(history)
    return list(groups.values())


def _make_record(history: History) -> dict[str, Any]:
    """The settings nested as in YAML; what has no section of ours is kept under `algo`, where it came from."""
    record: dict[str, Any] = {"name": f"{history.env_id or '?'}:{history.algo or '?'}"}
    for key, value in history.settings.items():
        section, dot, name = key.partition(".")
        if dot and section in _SECTIONS:
            record.setdefault(section, {})[name] = value
    known = {("env", "id"): history.env_id, ("algo", "name"): history.algo, ("spec", "threshold"): history.threshold}
    known["spec", "success"] = history.success
    known["run", "max_env_steps"] = history.max_env_steps
    for (section, name), value in known.items():
        if value is not None:
            record.setdefault(section, {}).setdefault(name, value)
    if history.seed is not None and history.seed >= 0:
        record["seed"] = history.seed
    return record


def _describe_source(history: History) -> dict[str, Any]:
    series = {
        name: {"name": found.name}
        | ({"estimator": found.estimator} if found.estimator else {})
        | ({"rounded": True} if found.rounded else {})
        for name, found in history.series.items()
    }
    return {
        "framework": history.source,
        "path": str(history.path) if history.path is not None else None,
        "id": history.id,
        "state": history.state,
        "segments": list(history.segments),
        "notes": list(history.notes),
        "series": series,
    }


def _write_files(run: Run, history: History, came: Outcome) -> None:
    """metrics.csv, run.log and status.json."""
    names = [name for name in [*metrics.METRICS, *metrics.FOREIGN] if name in history.series and name != STEPS]
    with RunWriter(run.path, [STEPS, *names]) as writer:
        for row in _merge_rows({name: history.series[name] for name in names}):
            writer.row(row)
        if history.log_tail:
            disk.write(run.path / LOG, history.log_tail + "\n")
        state = history.state if history.state in ("finished", "stopped", "failed") else "stopped"
        reason = history.reason or (None if state == history.state else f"imported from {history.source}; how it ended is not known")
        writer.status(state, history.env_steps or 0, reason=reason, max_env_steps=history.max_env_steps, **_summarize(history, came))


def _merge_rows(series: Mapping[str, Series]) -> list[dict[str, float]]:
    """One row for each step; a second value of a column at the same step begins another row."""
    rows: dict[tuple[float, int], dict[str, float]] = {}
    for name, found in series.items():
        steps = np.concatenate([found.steps, found.broken])
        values = np.concatenate([found.values, np.full(len(found.broken), np.nan)])
        order = np.argsort(steps, kind="stable")
        last, again = None, 0
        for step, value in zip(steps[order].tolist(), values[order].tolist(), strict=True):
            again = again + 1 if step == last else 0
            last = step
            rows.setdefault((step, again), {STEPS: int(step) if step.is_integer() else step})[name] = value
    return [rows[key] for key in sorted(rows)]


def _summarize(history: History, came: Outcome) -> dict[str, Any]:
    """What a list of runs shows."""
    returns = history.series.get(TRAIN_RETURN)
    fps, episodes = history.series.get("time/fps"), history.series.get("total_episodes")
    found: dict[str, Any] = {
        "return_mean": returns.last if returns is not None else None,
        "fps": fps.last if fps is not None else None,
        "episodes": int(episodes.last) if episodes is not None and episodes.last is not None else None,
        "threshold_reached_at": None if came.reached_at is None else int(came.reached_at),
        "lost": came.lost,
        "success_rate": None if came.last_success is None else came.last_success.rate,
    }
    if came.source == "evaluation":
        found |= {"eval_mean": came.last, "best_eval": came.best}
    return found
