"""Progress of a training, a trial or a race: redrawn on a terminal, plain lines elsewhere. All of it goes to stderr."""

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, Self

from rlclinic import plain_text
from rlclinic.report.format import count, duration, interval, number, percent, plural, short
from rlclinic.serve.cli import console
from rlclinic.serve.cli.text import plot

if TYPE_CHECKING:
    from rich.console import Group as Stack
    from rich.live import Live
    from rich.table import Table

    from rlclinic.report.models import Curve, LiveGroup, LiveMember

PLAIN_SECONDS = 5.0
ARMS_PLAIN_SECONDS = 10.0
"""Between two lines about the arms of a trial or a race."""
REFRESH_HZ = 4.0
MOST_ROWS = 12
"""More seeds than this are shown as their range."""
_COLUMNS: tuple[tuple[str, "Callable[[LiveMember], float | None]"], ...] = (
    ("return", lambda member: member.return_mean),
    ("eval", lambda member: member.eval_mean),
    ("best", lambda member: member.best_eval),
    ("KL", lambda member: member.kl),
    ("entropy", lambda member: member.entropy),
    ("EV", lambda member: member.explained_variance),
    ("steps/s", lambda member: member.steps_per_second),
)


class ProgressView(Protocol):
    """Shows a training's progress; called several times a second."""

    def __enter__(self) -> "ProgressView": ...
    def __exit__(self, *_: object) -> None: ...
    def __call__(self, group: "LiveGroup") -> None: ...
    def say(self, text: str) -> None:
        """A line that stays."""


def watch(quiet: bool) -> ProgressView:
    """The right view for this stderr."""
    if quiet:
        return Silent()
    return LiveView() if console.progress().is_terminal else PlainView()


class Silent:
    """--quiet."""

    def __enter__(self) -> "Silent":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, group: "LiveGroup") -> None:
        pass

    def say(self, text: str) -> None:
        pass


class PlainView:
    """A line every few seconds, for logs and pipes."""

    def __init__(self) -> None:
        self._console = console.progress()
        self._next = 0.0
        self._shown: tuple[int, str] | None = None

    def __enter__(self) -> "PlainView":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, group: "LiveGroup") -> None:
        now, fresh = time.monotonic(), (group.env_steps, group.state)
        over = group.state not in ("running", "queued")
        if fresh == self._shown or not (now >= self._next or over) or group.env_steps == 0:
            return
        self._next, self._shown = now + PLAIN_SECONDS, fresh
        self._console.print(plain_line(group))

    def say(self, text: str) -> None:
        self._console.print(text)


class LiveView:
    """A table that is redrawn in place, with the curve so far under it; the last frame stays on the screen."""

    def __init__(self) -> None:
        self._console = console.progress()
        self._seen: list[tuple[float, float, float, float]] = []

    def __enter__(self) -> "LiveView":
        from rich.live import Live

        self._live = Live(console=self._console, refresh_per_second=REFRESH_HZ, auto_refresh=False)
        self._live.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._live.__exit__(None, None, None)

    def __call__(self, group: "LiveGroup") -> None:
        self._remember(group)
        self._live.update(self._frame(group), refresh=True)

    def say(self, text: str) -> None:
        self._live.console.print(text)

    def _remember(self, group: "LiveGroup") -> None:
        mean = group.return_mean
        if mean.value is None or (self._seen and self._seen[-1][0] == group.env_steps):
            return
        low, high = (mean.value if edge is None else edge for edge in (mean.low, mean.high))
        self._seen.append((float(group.env_steps), mean.value, low, high))
        if len(self._seen) > 2000:  # a long run: half the points draw the same picture
            del self._seen[1::2]

    def _frame(self, group: "LiveGroup") -> "Stack":
        from rich.console import Group as Stack
        from rich.text import Text

        title = Text(headline(group), style="bold")
        width = min(self._console.width - 1, 110)
        lines = plot.curve_lines(self._curve(group), width, 7, group.max_env_steps) if len(self._seen) > 2 else []
        return Stack(title, member_table(group), Text("\n".join(lines), style="dim" if not lines else ""), Text(footer(group), style="dim"))

    def _curve(self, group: "LiveGroup") -> "Curve":
        from rlclinic.report.models import Curve, SeedCurve

        steps, center, low, high = (list(column) for column in zip(*self._seen, strict=True))
        # Only the number of seeds matters here: it decides whether a band is drawn.
        seeds = [SeedCurve(seed=member.seed, steps=[], values=[]) for member in group.members]
        return Curve(label="training return", steps=steps, center=center, low=low, high=high, seeds=seeds, threshold=group.threshold)


class ArmsView:
    """Arms of a trial or a race: lines that are redrawn on a terminal, one line now and then elsewhere, and what is said for good."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._console = quiet, console.progress()
        self._live: Live | None = None
        self._shown, self._last = -ARMS_PLAIN_SECONDS, ""

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._quiet:
            from rich.live import Live

            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)

    def say(self, *lines: str) -> None:
        """Lines that stay. What is shown next comes at once."""
        self._shown = -ARMS_PLAIN_SECONDS
        for line in () if self._quiet else lines:
            (self._live.console if self._live is not None else self._console).print(plain_text.clean(line), soft_wrap=True)

    def show(self, lines: Sequence[str], summary: str, seconds: float) -> None:
        """How far it is after so many seconds: `lines` in place, or `summary`, where it is news, as a line of its own."""
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text("\n".join(lines)), refresh=True)
        elif summary != self._last and seconds - self._shown >= ARMS_PLAIN_SECONDS:
            self.say(summary)
            self._shown, self._last = seconds, summary


def headline(group: "LiveGroup") -> str:
    """What is being trained."""
    threshold = f" · threshold {number(group.threshold, 4)}" if group.threshold is not None else ""
    return f"{group.name} · {group.id} · {plural(len(group.members), 'seed')}{threshold}"


def footer(group: "LiveGroup") -> str:
    """All seeds together, and what Ctrl-C does."""
    parts = [
        f"{count(group.env_steps)}/{count(group.max_env_steps)} env steps",
        f"return {number(group.return_mean.value)} {interval(group.return_mean.low, group.return_mean.high)}".rstrip(),
    ]
    if len(group.members) > MOST_ROWS:
        parts.append(_states(group))
    if group.state in ("running", "queued"):
        parts += [f"{count(group.steps_per_second)} steps/s", f"{duration(group.eta_seconds)} left", "Ctrl-C saves and stops"]
    return " · ".join(parts)


def plain_line(group: "LiveGroup") -> str:
    """One line for a log."""
    done = min(group.env_steps / group.max_env_steps, 1.0) if group.max_env_steps else math.nan
    middle = {name: _median([read(member) for member in group.members]) for name, read in _list_columns(group)}
    figures = "  ".join(
        f"{name} {_cell(name, middle[name])}" for name in ("eval", "success", "KL", "entropy", "EV") if middle.get(name) is not None
    )
    returns = f"return {number(group.return_mean.value)} {interval(group.return_mean.low, group.return_mean.high)}".rstrip()
    rate = f"{count(group.steps_per_second)} steps/s" if group.steps_per_second else group.state
    left = f"  {duration(group.eta_seconds)} left" if group.eta_seconds else ""
    return f"{group.id}  {count(group.env_steps)}/{count(group.max_env_steps)} ({percent(done)})  {returns}  {figures}  {rate}{left}"


def member_table(group: "LiveGroup") -> "Table":
    """A row per seed, or the range over seeds when they are many."""
    from rich.table import Table

    # 80 columns must do: one space between columns, and a short note.
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("seed", justify="right")
    table.add_column("env steps", justify="left", no_wrap=True)
    columns = _list_columns(group)
    for name, _ in columns:
        table.add_column(name, justify="right", min_width=6, no_wrap=True)
    table.add_column("", no_wrap=True)
    if len(group.members) <= MOST_ROWS:
        for member in group.members:
            values = [_cell(name, read(member)) for name, read in columns]
            table.add_row(str(member.seed), _bar(member.env_steps, member.max_env_steps), *values, _note(member, group.threshold))
        return table
    for label, pick in (("lowest", min), ("median", _median), ("highest", max)):
        values = [_cell(name, _over([read(member) for member in group.members], pick)) for name, read in columns]
        steps = _over([float(member.env_steps) for member in group.members], pick)
        table.add_row(label, _bar(steps or 0, group.max_env_steps), *values)
    return table


def _bar(steps: float, budget: int | None, width: int = 7) -> str:
    if not budget:
        return short(steps)
    share = min(steps / budget, 1.0)
    filled = math.floor(share * width)
    return f"{'━' * filled}{'╌' * (width - filled)} {share:4.0%}"


def _cell(name: str, value: float | None) -> str:
    return count(value) if name == "steps/s" else percent(value) if name == "success" and value is not None else number(value)


def _list_columns(group: "LiveGroup") -> "list[tuple[str, Callable[[LiveMember], float | None]]]":
    """The columns, with success in place of the best evaluation where the environment reports it: 80 columns must do."""
    if all(member.success_rate is None for member in group.members):
        return list(_COLUMNS)
    success: tuple[str, Callable[[LiveMember], float | None]] = ("success", lambda member: member.success_rate)
    return [success if column[0] == "best" else column for column in _COLUMNS]


def _note(member: "LiveMember", threshold: float | None) -> str:
    if member.state not in ("running", "queued", "finished"):
        return member.state
    if threshold is not None and member.threshold_reached_at is not None:
        return f"{'↘' if member.lost else '✓'} {short(member.threshold_reached_at)}"
    return "" if member.state == "running" else member.state


def _states(group: "LiveGroup") -> str:
    reached = sum(member.threshold_reached_at is not None for member in group.members)
    failed = sum(member.state in ("failed", "crashed") for member in group.members)
    parts = [f"{reached} of {len(group.members)} reached {number(group.threshold, 4)}"] if group.threshold is not None else []
    return " · ".join([*parts, f"{failed} failed"] if failed else parts) or f"{failed} failed"


def _over(values: Sequence[float | None], pick: Callable[[list[float]], float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return pick(known) if known else None


def _median(values: Sequence[float | None]) -> float | None:
    known = sorted(value for value in values if value is not None and math.isfinite(value))
    return known[len(known) // 2] if known else None
