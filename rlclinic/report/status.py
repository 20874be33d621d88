"""How a group stands while it trains: header, decision, reason, what to watch, what to type, its seeds."""

from typing import Final

from rlclinic.report.document import Block, Commands, Rows, Table, Text, Tone, Verdict
from rlclinic.report.format import BLANK, clip, count, duration, interval, number, percent, plural, short, step_unit
from rlclinic.report.models import LiveGroup, Outlook

TONES: Final[dict[str, Tone]] = {"CONTINUE": "good", "SOLVED": "good", "STOP": "bad", "ADJUST": "warn"}
MOST_MEMBERS: Final = 12


def describe_live_group(group: LiveGroup) -> list[Block]:
    """Header, decision, why, what to watch and what to type."""
    blocks: list[Block] = [Text(header(group))]
    outlook = group.outlook
    if outlook is None:
        return blocks
    blocks.append(Verdict(outlook.decision, standing(group, outlook), TONES.get(outlook.decision, "plain"), 10))
    rows = [
        ("because", outlook.reason if outlook.decision != "SOLVED" else ""),
        ("likely", outlook.cause or ""),
        ("watch", outlook.watch or ""),
    ]
    if switched := describe_switch(group):
        rows.insert(1, ("switch", switched))
    commands = [("type", outlook.command)] if outlook.command else []
    return [*blocks, Rows([row for row in rows if row[1]]), Commands(commands)]


def describe_switch(group: LiveGroup) -> str:
    """What going from recorded data to the environment cost; empty where nobody has done it, or nothing is known yet."""
    dips = [member.switch_dip for member in group.members if member.online and member.switch_dip is not None]
    if not dips:
        return ""
    worst = f", at worst {percent(max(dips))}" if len(dips) > 1 else ""
    return f"going online cost {percent(sum(dips) / len(dips))} of what was learned above a random policy{worst}"


def list_members(group: LiveGroup) -> Table:
    """The newest reading of each run, for whoever sees no moving table."""
    reports = any(member.success_rate is not None for member in group.members)
    heads = ["run", "state", f">{_unit(group)}", ">return", ">eval", *([">success"] if reports else []), ">KL", ">entropy", ">EV", "why"]
    rows = []
    for member in group.members[:MOST_MEMBERS]:
        success = [BLANK if member.success_rate is None else percent(member.success_rate)] if reports else []
        reason = clip(member.reason.splitlines()[0], 120) if member.reason else ""
        returns = map(number, (member.return_mean, member.eval_mean))
        figures = map(number, (member.kl, member.entropy, member.explained_variance))
        rows.append([member.run, member.state, short(member.env_steps), *returns, *success, *figures, reason])
    return Table(heads, rows)


def header(group: LiveGroup) -> str:
    """g7k2 · LunarLander-v3:ppo · 4 seeds · 412,000/1,000,000 env steps · 2,950 steps/s · 3 min 20 s left."""
    budget = f"/{count(group.max_env_steps)}" if group.max_env_steps else ""
    parts = [group.id, group.name, plural(len(group.members), "seed"), f"{count(group.env_steps)}{budget} {_unit(group)}"]
    if group.state in ("running", "queued"):
        parts += [f"{count(group.steps_per_second)} steps/s"] if group.steps_per_second else []
        parts += [f"{duration(group.eta_seconds)} left"] if group.eta_seconds else []
    else:
        parts.append(group.state)
    return " · ".join(parts)


def _unit(group: LiveGroup) -> str:
    return step_unit(group.name) if all(member.online is None for member in group.members) else "gradient and env steps"


def standing(group: LiveGroup, outlook: Outlook) -> str:
    """0.83 [0.71, 0.91] reaches 200 by 1.0M · return 121 [96, 149] · 31st percentile of 40 healthy runs at this step."""
    parts = []
    if group.threshold is not None and outlook.probability is not None and outlook.decision not in ("SOLVED", "ENDED"):
        known = outlook.low is not None and outlook.high is not None and f"{outlook.low:.2f}" != f"{outlook.high:.2f}"
        bounds = f" [{outlook.low:.2f}, {outlook.high:.2f}]" if known else ""
        by = f" by {short(group.max_env_steps)}" if group.max_env_steps else ""
        parts.append(f"{outlook.probability:.2f}{bounds} reaches {number(group.threshold, 4)}{by}")
    elif group.threshold is not None:
        there = sum(seed.reached_at is not None for seed in outlook.seeds)
        asked = "" if group.required_success is None else f" and {percent(group.required_success)} success"
        parts.append(f"{there} of {plural(len(outlook.seeds), 'seed')} reached {number(group.threshold, 4)}{asked}")
    if group.return_mean.value is not None:
        parts.append(f"return {number(group.return_mean.value)} {interval(group.return_mean.low, group.return_mean.high)}".rstrip())
    rates = [member.success_rate for member in group.members if member.success_rate is not None]
    if rates:
        parts.append(f"success {percent(sum(rates) / len(rates))}")
    if outlook.percentile is not None:
        whose = "" if outlook.healthy_source == "recorded runs" else " of yours"
        end = " or below" if outlook.percentile <= 5 else " or above" if outlook.percentile >= 95 else ""
        parts.append(f"{ordinal(round(outlook.percentile))} percentile{end} of {outlook.healthy_runs} healthy runs{whose} at this step")
    return " · ".join(parts)


def plain_line(group: LiveGroup) -> str:
    """One line for a log."""
    outlook = group.outlook
    return header(group) if outlook is None else f"{header(group)} · {outlook.decision} {standing(group, outlook)} · {outlook.reason}"


def ordinal(value: int) -> str:
    """1st, 2nd, 3rd, 11th, 31st."""
    ending = "th" if value % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return f"{value}{ending}"
