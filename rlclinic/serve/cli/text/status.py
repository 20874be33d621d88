"""`status` as text: what is known of a group in two or three lines, its seeds below."""

from typing import TYPE_CHECKING

from rlclinic.report.format import count, duration, interval, number, plural, short
from rlclinic.serve.cli import console, progress

if TYPE_CHECKING:
    from rich.console import Group as Stack
    from rich.text import Text

    from rlclinic.report.models import LiveGroup, Outlook, StatusReport

STYLES = {"CONTINUE": "bold green", "SOLVED": "bold green", "STOP": "bold red", "ADJUST": "bold yellow", "ENDED": "bold", "UNKNOWN": "bold"}


def print_status(report: "StatusReport") -> None:
    """`status`, once."""
    console.results().print(frame(report), soft_wrap=True)


def frame(report: "StatusReport") -> "Stack":
    """Everything that is shown, for printing or for a live view."""
    from rich.console import Group as Stack

    parts: list[object] = []
    for group in report.groups:
        parts += [*lines(group), progress.member_table(group)] if len(group.members) > 1 or group.outlook is None else lines(group)
    return Stack(*parts)  # type: ignore[arg-type]


def lines(group: "LiveGroup") -> "list[Text]":
    """Header, decision, what to watch and what to type."""
    from rich.text import Text

    found = [Text(header(group))]
    outlook = group.outlook
    if outlook is None:
        return found
    decided = Text(f"{outlook.decision:<10}", style=STYLES[outlook.decision])
    decided.append(standing(group, outlook), style="default")
    found.append(decided)
    more = {
        "because": outlook.reason if outlook.decision != "SOLVED" else None,
        "likely": outlook.cause,
        "watch": outlook.watch,
        "type": outlook.command,
    }
    return found + [Text(f"{name:<10}{text}") for name, text in more.items() if text]


def header(group: "LiveGroup") -> str:
    """g7k2 · LunarLander-v3:ppo · 4 seeds · 412,000/1,000,000 env steps · 2,950 steps/s · 3 min 20 s left."""
    budget = f"/{count(group.max_env_steps)}" if group.max_env_steps else ""
    parts = [group.id, group.name, plural(len(group.members), "seed"), f"{count(group.env_steps)}{budget} env steps"]
    if group.state in ("running", "queued"):
        parts += [f"{count(group.steps_per_second)} steps/s"] if group.steps_per_second else []
        parts += [f"{duration(group.eta_seconds)} left"] if group.eta_seconds else []
    else:
        parts.append(group.state)
    return " · ".join(parts)


def standing(group: "LiveGroup", outlook: "Outlook") -> str:
    """0.83 [0.71, 0.91] reaches 200 by 1.0M · return 121 [96, 149] · 31st percentile of 40 healthy runs at this step."""
    parts = []
    if group.threshold is not None and outlook.probability is not None and outlook.decision not in ("SOLVED", "ENDED"):
        bounds = f" [{outlook.low:.2f}, {outlook.high:.2f}]" if outlook.low is not None and outlook.high is not None else ""
        by = f" by {short(group.max_env_steps)}" if group.max_env_steps else ""
        parts.append(f"{outlook.probability:.2f}{bounds} reaches {number(group.threshold, 4)}{by}")
    elif group.threshold is not None:
        there = sum(seed.reached_at is not None for seed in outlook.seeds)
        parts.append(f"{there} of {plural(len(outlook.seeds), 'seed')} reached {number(group.threshold, 4)}")
    if group.return_mean.value is not None:
        parts.append(f"return {number(group.return_mean.value)} {interval(group.return_mean.low, group.return_mean.high)}".rstrip())
    if outlook.percentile is not None:
        whose = "" if outlook.healthy_source == "recorded runs" else " of yours"
        end = " or below" if outlook.percentile <= 5 else " or above" if outlook.percentile >= 95 else ""
        parts.append(f"{ordinal(round(outlook.percentile))} percentile{end} of {outlook.healthy_runs} healthy runs{whose} at this step")
    return " · ".join(parts)


def plain(group: "LiveGroup") -> str:
    """One line for a log."""
    outlook = group.outlook
    return header(group) if outlook is None else f"{header(group)} · {outlook.decision} {standing(group, outlook)} · {outlook.reason}"


def ordinal(value: int) -> str:
    """1st, 2nd, 3rd, 11th, 31st."""
    ending = "th" if value % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return f"{value}{ending}"
