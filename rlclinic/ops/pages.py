"""A group's report as Markdown and as one HTML file that needs nothing beside it."""

from html import escape
from typing import TYPE_CHECKING

from rlclinic.ops import chart
from rlclinic.ops.wording import BLANK, count, duration, interval, number, percent, plural, short

if TYPE_CHECKING:
    from rlclinic.ops.outcomes import Estimate, GroupReport, SeedOutcome

GOOD, BAD, NEUTRAL = "#15803d", "#b91c1c", "#6b7280"
COLOURS = {"SOLVED": GOOD, "PARTLY SOLVED": "#b45309", "NOT SOLVED": BAD, "FAILED": BAD}

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.verdict { color: #fff; padding: .1rem .6rem; border-radius: .4rem; font-weight: 600; }
.facts { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0; }
.fact { border: 1px solid #8885; border-radius: .5rem; padding: .5rem .9rem; }
.fact b { display: block; font-size: 1.2rem; } .fact span, .quiet { color: #777; font-size: .85rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid #8883; }
th:first-child, td:first-child { text-align: left; }
.bar { display: flex; height: 1.2rem; border-radius: .3rem; overflow: hidden; }
pre { background: #8881; padding: .8rem; border-radius: .5rem; overflow-x: auto; font-size: .85rem; }
svg { width: 100%; height: auto; }
"""
_PHASES = ("#2563eb", "#16a34a", "#d97706", "#9333ea", "#0891b2", "#dc2626", "#64748b", "#a16207")


def headline(report: "GroupReport") -> str:
    """One line: how many seeds reached the threshold, the return over seeds, the gap, the best evaluation."""
    facts = []
    if report.threshold is not None:
        facts.append(f"{report.n_reached} of {plural(report.n_runs, 'seed')} reached {number(report.threshold, 4)}")
    facts.append(f"return {estimate(report.last)}{' (IQM, 95 %)' if report.last.low is not None else ''}")
    if report.gap is not None and report.gap > 0:
        facts.append(f"gap {number(report.gap)} ({percent(report.gap_fraction)})")
    if report.best is not None:
        facts.append(f"best {number(report.best)} at {short(report.best_at)}")
    return " · ".join(facts)


def estimate(value: "Estimate") -> str:
    """212 [164, 268]."""
    return f"{number(value.value)} {interval(value.low, value.high)}".strip()


def subtitle(report: "GroupReport") -> str:
    """What was trained, on how many seeds, for how long."""
    steps = f"{count(report.env_steps / max(report.n_runs, 1))}/{count(report.max_env_steps)} env steps"
    parts = [report.algo.upper(), report.env, plural(report.n_runs, "seed"), steps]
    if report.parent:
        parts.append(f"from {report.parent}")
    return " · ".join(parts)


def facts(report: "GroupReport") -> list[tuple[str, str]]:
    """The report's key numbers, with what each one is."""
    rows = [
        ("seeds that reached the threshold", f"{report.n_reached} of {report.n_runs}" if report.threshold is not None else "no threshold"),
        ("last evaluation, IQM over seeds, 95 % interval", estimate(report.last)),
        ("gap to the threshold", f"{number(report.gap)} ({percent(report.gap_fraction)})" if report.gap else BLANK),
        ("best evaluation", f"{number(report.best)} at {short(report.best_at)} ({report.best_run})" if report.best is not None else BLANK),
        ("env steps to the threshold, mean within the budget", estimate(report.steps_to_threshold)),
        ("wall time", duration(report.wall_seconds)),
        ("env steps per second, all seeds", count(report.steps_per_second)),
        ("note", report.note),
    ]
    return [(name, value or BLANK) for name, value in rows]


def seed_cells(seed: "SeedOutcome") -> list[str]:
    """One seed's row, in the order of SEED_HEADS."""
    # Four digits: 474.9 is not 475, and only one of them has solved CartPole.
    best = f"{number(seed.best_eval, 4)} at {short(seed.best_eval_at)}" if seed.best_eval is not None else BLANK
    state = seed.state if not seed.reason else f"{seed.state}: {seed.reason.splitlines()[0]}"
    return [seed.run, str(seed.seed), number(seed.last_eval, 4), best, short(seed.threshold_reached_at), count(seed.env_steps), state]


SEED_HEADS = ["run", "seed", "last evaluation", "best evaluation", "threshold at", "env steps", "state"]


def config_yaml(report: "GroupReport") -> str:
    """The config as YAML, in the order of the schema."""
    import yaml

    return str(yaml.safe_dump(report.config, sort_keys=False, allow_unicode=True, width=100))


def markdown(report: "GroupReport") -> str:
    """report.md: readable as text, with curve.png beside it."""
    lines = [f"# {report.name} · {report.verdict}", "", subtitle(report), "", f"**{report.verdict}** {headline(report)}", ""]
    lines += ["![return against env steps](curve.png)", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in facts(report)]
    lines += ["", "## Seeds", "", f"| {' | '.join(SEED_HEADS)} |", "|" + "---|" * len(SEED_HEADS)]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in seed_cells(seed))} |" for seed in report.seeds]
    if report.throughput:
        lines += ["", "## Where the time went", "", "| phase | share |", "|---|---|"]
        lines += [f"| {name} | {percent(share)} |" for name, share in report.throughput.items()]
    lines += ["", "## Next", ""] + [f"    {command}" for command in report.next]
    lines += ["", "## Config", "", "```yaml", config_yaml(report).rstrip(), "```", ""]
    return "\n".join(lines)


def html(report: "GroupReport") -> str:
    """report.html: styles and the curve are inside; nothing is fetched."""
    colour = COLOURS.get(report.verdict, NEUTRAL)
    tiles = "".join(f'<div class="fact"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for name, value in facts(report))
    heads = "".join(f"<th>{escape(head)}</th>" for head in SEED_HEADS)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in seed_cells(seed)) + "</tr>" for seed in report.seeds)
    commands = escape("\n".join(report.next))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(report.name)} · {escape(report.verdict)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escape(report.name)} <span class="verdict" style="background:{colour}">{escape(report.verdict)}</span></h1>
<p class="quiet">{escape(subtitle(report))} · group {escape(report.id)}</p>
<p>{escape(headline(report))}</p>
{chart.svg(report.curve)}
<p class="quiet">Thick line: interquartile mean over seeds; band: its 95 % bootstrap interval; thin lines: seeds; dashes: threshold.</p>
<div class="facts">{tiles}</div>
<h2>Seeds</h2>
<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>
{_throughput(report)}
<h2>Next</h2>
<pre>{commands}</pre>
<h2>Config</h2>
<pre>{escape(config_yaml(report))}</pre>
</body>
</html>
"""


def _throughput(report: "GroupReport") -> str:
    if not report.throughput:
        return ""
    pieces, legend = [], []
    for index, (name, share) in enumerate(report.throughput.items()):
        colour = _PHASES[index % len(_PHASES)]
        pieces.append(f'<div style="width:{100 * share:.2f}%;background:{colour}" title="{escape(name)} {percent(share)}"></div>')
        legend.append(f'<span style="color:{colour}">■</span> {escape(name)} {percent(share)}')
    return f'<h2>Where the time went</h2><div class="bar">{"".join(pieces)}</div><p class="quiet">{" &nbsp; ".join(legend)}</p>'


def run_markdown(report: "GroupReport", seed: "SeedOutcome") -> str:
    """A run's short report.md: its own numbers, and where the statistics are."""
    lines = [f"# {seed.run} · {report.name} · seed {seed.seed}", "", "| | |", "|---|---|"]
    lines += [f"| {head} | {cell} |" for head, cell in zip(SEED_HEADS[2:], seed_cells(seed)[2:], strict=True)]
    lines += ["", f"One of {plural(report.n_runs, 'seed')} of group {report.id}: ../@groups/{report.id}/report.md", ""]
    return "\n".join(lines)
