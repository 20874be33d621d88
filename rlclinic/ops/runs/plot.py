"""Metrics as a picture: one panel for each metric, one line for each run or group, as PNG."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rlclinic import metrics
from rlclinic.errors import UsageError
from rlclinic.metrics import EVAL_RETURN, TRAIN_RETURN
from rlclinic.ops.runs.requests import MOST_LINES
from rlclinic.ops.runs.series import choose_metrics
from rlclinic.report.format import number, short
from rlclinic.report.models import Result
from rlclinic.runs.record import Checkpoint, Group, Run
from rlclinic.runs.store import Store

MOST_PANELS: Final = 6
COLOURS: Final = ("#2563eb", "#c2410c", "#15803d", "#7c3aed", "#b45309", "#0891b2", "#be185d", "#4b5563")
DPI: Final = 80


class Plot(Result):
    """A picture, and what is on it."""

    runs: list[str]
    metrics: list[str]
    png: bytes


def plot_metrics(
    targets: Sequence[str], names: Sequence[str] = (), runs_dir: Path = Path("runs"), *, width: int = 640, height: int = 240
) -> Plot:
    """Draw metrics of runs or groups (thin lines: the seeds) against env steps. No names: the return."""
    if not 1 <= len(targets) <= MOST_LINES:
        raise UsageError(f"{len(targets)} runs: between 1 and {MOST_LINES} can be told apart in one picture.\n  Name fewer")
    targets_found = [Store(runs_dir).resolve(target) for target in targets]
    owners = [each.run if isinstance(each, Checkpoint) else each for each in targets_found]
    tables = {owner.id: [run.metrics for run in _runs(owner)] for owner in owners}
    available = sorted({name for group in tables.values() for table in group for name in table.names})
    wanted = choose_metrics(names, available, owners[0].id) if names else [EVAL_RETURN if EVAL_RETURN in available else TRAIN_RETURN]
    wanted = wanted[:MOST_PANELS]
    figure, panels = _figure(len(wanted), width, height)
    for panel, name in zip(panels, wanted, strict=True):
        for place, (id, group) in enumerate(tables.items()):
            _lines(panel, id, [table.series(name) for table in group], COLOURS[place])
        _dress(panel, name, owners[0].threshold if name in (EVAL_RETURN, TRAIN_RETURN) else None)
    panels[0].legend(frameon=False, loc="best", fontsize="small")
    panels[-1].set_xlabel("env steps")
    return Plot(runs=list(tables), metrics=wanted, png=_png(figure))


def _runs(owner: Run | Group) -> list[Run]:
    return owner.runs if isinstance(owner, Group) else [owner]


def _figure(count: int, width: int, height: int) -> tuple[Any, list[Any]]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"a picture needs {missing.name}, which is not installed.\n  There is none.\n  Type: pip install 'rlclinic[train]'"
        ) from missing
    figure = Figure(figsize=(width / DPI, count * height / DPI), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(count, 1, squeeze=False)[:, 0])


def _lines(panel: Any, label: str, series: Sequence[tuple[Any, Any]], colour: str) -> None:
    """One line, or the seeds of a group: the first carries the name."""
    for place, (steps, values) in enumerate(each for each in series if len(each[0])):
        thin = {"linewidth": 0.9, "alpha": 0.6} if len(series) > 1 else {"linewidth": 1.6}
        mark = "o" if len(steps) == 1 else None
        panel.plot(steps, values, color=colour, label=label if place == 0 else None, marker=mark, **thin)


def _dress(panel: Any, name: str, threshold: float | None) -> None:
    known = metrics.find(name)
    panel.set_ylabel(f"{name}\n[{known.unit}]" if known else name, fontsize="small")
    panel.xaxis.set_major_formatter(lambda value, _position: short(value))
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    if threshold is not None:
        panel.axhline(threshold, color="#c2410c", linestyle="--", linewidth=1.1)
        panel.annotate(f"threshold {number(threshold, 4)}", (0, threshold), xycoords=("axes fraction", "data"), fontsize="x-small")
    if known is not None and known.band is not None:
        panel.axhspan(known.band.low, min(known.band.high, 1e12), color="#16a34a", alpha=0.07, linewidth=0)


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
