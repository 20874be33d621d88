"""A group's report: the numbers, what to type next, and the files report.md, report.html, curve.png, solution.yaml."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from rlclinic.ops.runs.listing import get_run_info
from rlclinic.report import charts
from rlclinic.report.group import as_yaml, describe_group, html, markdown, run_markdown
from rlclinic.report.models import GroupReport, RunInfo
from rlclinic.runs.object_store import artifacts
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store

if TYPE_CHECKING:
    from rlclinic.report.models import DiagnosisReport

MOST_RUN_REPORTS = 64
"""Runs of a group up to which each has a report of its own; a thousand short pages would be read by nobody."""


def show(selector: str = "@last", runs_dir: Path = Path("runs")) -> GroupReport | RunInfo:
    """A group's report, or one run's facts."""
    selected = Store(runs_dir).resolve(selector)
    return describe_group(selected) if isinstance(selected, Group) else get_run_info(selector, runs_dir)


def get_group_report(selector: str = "@last", runs_dir: Path = Path("runs")) -> GroupReport:
    """A group's report, computed from its files as they are now."""
    return describe_group(Store(runs_dir).group(selector))


def write_group_reports(selector: str = "@last", runs_dir: Path = Path("runs")) -> list[Path]:
    """Write a group's report files again; for groups that were trained detached."""
    # Imported here: a diagnosis is reported on with this module.
    from rlclinic.ops.diagnose import diagnose

    group = Store(runs_dir).group(selector)
    return write_reports(group, diagnose.examine_group(group))[1]


def write_reports(group: Group, diagnosis: "DiagnosisReport | None" = None) -> tuple[GroupReport, list[Path]]:
    """Replace the group's report files; with a diagnosis, its sections and diagnosis.json too. Runs of small groups get one each."""
    report = describe_group(group)
    # The picture is an extra: without matplotlib the report has the same curve as SVG.
    drawn = importlib.util.find_spec("matplotlib") is not None
    written = [
        group.write_report("report.md", markdown(report, diagnosis, "curve.png" if drawn else None)),
        group.write_report("report.html", html(report, diagnosis)),
        group.write_report("solution.yaml", as_yaml(group, report)),
    ]
    if diagnosis is not None:
        written.append(group.write_report("diagnosis.json", diagnosis.diagnosis.model_dump_json(indent=2) + "\n"))
    if drawn:
        picture = group.path / "curve.png"
        charts.png(report.curve, picture, f"{report.name} · {report.verdict}", diagnosis.marked if diagnosis else None)
        written.append(picture)
    for run, seed in zip(group.runs, report.seeds, strict=True) if len(group.runs) <= MOST_RUN_REPORTS else ():
        run.write_report("report.md", run_markdown(report, seed))
    artifacts.push_or_say([group, *group.runs], set())
    return report, written
