"""What tools say of runs, series, status and comparisons: few words, every number with its unit."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlclinic.errors import RlclinicError
from rlclinic.ops.runs.series import one_run
from rlclinic.report.comparison import brief_answer
from rlclinic.report.document import render_compact
from rlclinic.report.format import ago, number, percent, short
from rlclinic.report.status import describe_live_group, list_members
from rlclinic.serve.mcp.replies import clip, one_line, say

if TYPE_CHECKING:
    from rlclinic.ops.compare.compare import Comparison
    from rlclinic.ops.runs.series import Cell, MetricRows
    from rlclinic.report.models import LiveMember, RunRow, StatusReport
    from rlclinic.runs.store import Store

Values = Mapping[str, Mapping[str, float | None]]
"""Last values of metrics, by what was compared."""


def run_data(row: "RunRow") -> dict[str, Any]:
    """A run of a list as JSON."""
    kept = row.model_dump(mode="json", exclude={"parent", "age_seconds"}, exclude_none=True)
    return {"run_id": kept.pop("id"), **kept}


def runs(rows: "Sequence[RunRow]") -> str:
    """One line for each group, its seeds together."""
    groups: dict[str, list[RunRow]] = {}
    for row in rows:
        groups.setdefault(row.group or row.id, []).append(row)
    return "\n".join(["group  config  seeds  state  env_steps  eval(last)  reached", *map(_group_line, groups, groups.values())])


def _group_line(group: str, rows: "Sequence[RunRow]") -> str:
    states = sorted({row.state for row in rows})
    evals = [row.eval_mean if row.eval_mean is not None else row.return_mean for row in rows]
    known = sorted(value for value in evals if value is not None)
    shown = number(known[0]) if len(known) == 1 else f"{number(known[0])}..{number(known[-1])}" if known else "-"
    reached = sum(row.threshold_reached_at is not None for row in rows)
    bar = f"{reached}/{len(rows)} of {number(rows[0].threshold, 4)}" if rows[0].threshold is not None else "no threshold"
    lost = sum(row.lost is True for row in rows)
    bar += f", {lost} lost" if lost else ""
    rates = [row.success_rate for row in rows if row.success_rate is not None]
    bar += f", success {percent(sum(rates) / len(rates))}" if rates else ""
    steps = f"{short(max(row.env_steps for row in rows))}/{short(rows[0].max_env_steps)}"
    when = "" if rows[0].age_seconds is None else f"  {ago(rows[0].age_seconds)}"
    return f"{group}  {clip(rows[0].name, 40)}  {len(rows)}  {'/'.join(states)}  {steps}  {shown}  {bar}{when}"


def metric_rows(table: "MetricRows") -> str:
    """A summary of each series, then the rows as CSV."""
    bucket = f", {table.bucket_rows} logged rows each: mean, :min, :max" if table.bucket_rows > 1 else ""
    lines = [f"{table.run}: {len(table.rows)} rows of {table.total_rows}{bucket}; axis env_steps; next_cursor={table.next_step:g}"]
    if table.others:
        lines[0] += f"; the seed with the median return, others: {clip(', '.join(table.others), 80)}"
    for column in table.columns:
        broken = f", {column.broken} NOT FINITE" if column.broken else ""
        low, high = f"{column.low} at {short(column.low_at)}", f"{column.high} at {short(column.high_at)}"
        name = one_line(f"{column.name} [{column.unit}]")
        lines.append(f"{name}: {column.first} → {column.last}, min {low}, max {high}, {column.trend}{broken}")
    if table.left_out:
        lines.append(f"left out, ask for them by name: {clip(', '.join(table.left_out), 300)}")
    heads = list(dict.fromkeys(key for row in table.rows for key in row if key != "total_timesteps"))
    lines.append("env_steps," + ",".join(map(one_line, heads)))
    lines += [f"{row['total_timesteps']:.0f}," + ",".join(_cell(row.get(head)) for head in heads) for row in table.rows]
    return "\n".join(lines)


def _cell(value: "Cell") -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else one_line(value)


# ── status ──


def status(report: "StatusReport") -> str:
    """Header, decision, reason, what to watch, what to call, and the seeds."""
    return "\n".join(render_compact([*describe_live_group(group), list_members(group)], 200, say) for group in report.groups)


def _is_solved(member: "LiveMember") -> bool:
    return member.threshold_reached_at is not None and not member.lost


def status_data(report: "StatusReport", store: "Store", details: bool) -> dict[str, Any]:
    """gymnasium-solver's keys, of the first group; all groups below."""
    first = report.groups[0]
    running = first.state in ("running", "queued")
    pids = [status.pid for member in first.members if (status := _raw(store, member.run)) is not None and status.pid is not None]
    share = first.env_steps / first.max_env_steps if first.max_env_steps else None
    data: dict[str, Any] = {
        "run_id": first.id,
        "running": running,
        "pid": pids[0] if running and pids else None,
        "source": "rlclinic",
        "progress": {"total_timesteps": first.env_steps, "max_env_steps": first.max_env_steps}
        | {"progress_pct": None if share is None else round(100 * share, 1), "eta_seconds": first.eta_seconds},
        "performance": {"ep_rew_mean": first.return_mean.value, "threshold": first.threshold, "steps_per_second": first.steps_per_second}
        | {"is_solved": bool(first.members) and all(_is_solved(member) for member in first.members)},
    }
    if details:
        data["recent_logs"] = _logs(store, first.members[0].run) if first.members else []
        data["groups"] = [group.model_dump(mode="json", exclude={"schema_version"}) for group in report.groups]
    return data


def _raw(store: "Store", run: str) -> Any:
    try:
        return store.run(run).status
    except RlclinicError:
        return None


def _logs(store: "Store", run: str) -> list[str]:
    try:
        return [clip(line, 200) for line in store.run(run).log.splitlines()[-5:]]
    except RlclinicError:
        return []


# ── comparisons ──


def last_values(store: "Store", target: str, metrics: Sequence[str]) -> dict[str, float | None]:
    """The last value of each metric in a run (of a group: its run with the median return); empty for what is no run."""
    if not metrics:
        return {}
    try:
        run, _ = one_run(store, target)
    except RlclinicError:
        return {}
    return {name: run.metrics.last(name) for name in metrics}


def comparison(result: "Comparison", values: Values) -> str:
    """Headline, verdicts, settings that differ, outcomes, tests."""
    lines = [render_compact(brief_answer(result.compared), 200)]
    lines += [
        one_line(f"last values {name}: " + ", ".join(f"{key} {number(value)}" for key, value in row.items()))
        for name, row in values.items()
        if row
    ]
    if result.next:
        lines.append("next: " + " | ".join(say(command) for command in result.next))
    return "\n".join(lines)


def comparison_data(result: "Comparison", values: Values, metrics: Sequence[str] | None) -> dict[str, Any]:
    """gymnasium-solver's keys, and what was found."""
    compared = result.compared
    outcomes = {
        name: {"return": outcome.last.value, "reached": outcome.reached, "runs": outcome.runs, "median_steps": outcome.median_steps}
        for name, outcome in zip((side.name for side in compared.sides), compared.outcomes, strict=False)
    }
    table = {name: {**outcomes.get(name, {}), **values.get(name, {})} for name in dict.fromkeys([*outcomes, *values])}
    return {
        "runs_compared": [side.name for side in compared.sides],
        "metrics": list(metrics or []),
        "comparison": table,
        "verdicts": [
            {"second": pair.second, "first": pair.first, "verdict": pair.verdict, "reason": pair.reason} for pair in compared.pairs
        ],
        "differences": {difference.key: difference.shown for difference in compared.config.differences},
    }
