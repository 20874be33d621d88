"""A group's report as Markdown and as one HTML file that needs nothing beside it."""

from functools import partial
from html import escape
from typing import TYPE_CHECKING

from rlclinic.ops import blocks, chart
from rlclinic.ops.blocks import Block, Code, Figure, Heading, Table, Text, Tiles
from rlclinic.ops.wording import BLANK, count, duration, frames, interval, number, percent, plural, short

if TYPE_CHECKING:
    from rlclinic.ops.diagnosed import DiagnosisReport
    from rlclinic.ops.outcomes import Estimate, GroupReport, SeedOutcome

GOOD, BAD, NEUTRAL = "#15803d", "#b91c1c", "#6b7280"
COLOURS = {"SOLVED": GOOD, "PARTLY SOLVED": "#b45309", "NOT SOLVED": BAD, "FAILED": BAD}

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --quiet: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --quiet: #9ca3af; } body { background: #111418; color: #e5e7eb; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
.verdict, .badge { color: #fff; padding: .1rem .6rem; border-radius: .4rem; font-weight: 600; white-space: nowrap; }
.badge { font-size: .8rem; padding: .05rem .5rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); gap: .6rem; margin: 1rem 0; }
.fact { border: 1px solid var(--line); border-radius: .5rem; padding: .45rem .8rem; overflow-wrap: anywhere; }
.fact b { display: block; font-size: 1.05rem; } .fact span, .quiet, figcaption { color: var(--quiet); font-size: .85rem; }
.card { border: 1px solid var(--line); border-left-width: 5px; border-radius: .5rem; padding: .5rem 1rem; margin: .8rem 0; }
.card h3 { margin: .1rem 0 .3rem; }
.card dl { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: .15rem 1rem; margin: 0; }
.card dt { color: var(--quiet); font-size: .9rem; } .card dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.short, td code { white-space: nowrap; overflow-wrap: normal; }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; display: block; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); gap: 1rem; } .panels figure { margin: 0; }
pre { background: var(--soft); padding: .8rem; border-radius: .5rem; overflow-x: auto; font-size: .85rem; }
code { background: var(--soft); padding: .05rem .3rem; border-radius: .25rem; font-size: .88em; overflow-wrap: anywhere; }
@media (max-width: 40rem) { .card dl { grid-template-columns: 1fr; } }
@media print { body { max-width: none; } .card, figure { break-inside: avoid; } }
"""


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
    steps += frames(report.max_env_steps, _frames_per_step(report))
    parts = [report.algo.upper(), report.env, plural(report.n_runs, "seed"), steps]
    if report.parent:
        parts.append(f"from {report.parent}")
    return " · ".join(parts)


def _frames_per_step(report: "GroupReport") -> int | None:
    """Frames of an Atari game in an env step, where the run itself says so."""
    env = report.config.get("env")
    if not report.env.startswith("ALE/") or not isinstance(env, dict) or "frame_skip" not in env:
        return None
    from rlclinic.config.environment import ATARI_FRAME_SKIP  # here: listing runs reads no config

    return int(env["frame_skip"] or ATARI_FRAME_SKIP)


def facts(report: "GroupReport") -> list[tuple[str, str]]:
    """The report's key numbers, with what each one is."""
    rows = [
        ("seeds that reached the threshold", f"{report.n_reached} of {report.n_runs}" if report.threshold is not None else "no threshold"),
        ("last evaluation, IQM over seeds, 95 % interval", estimate(report.last)),
        ("gap to the threshold", f"{number(report.gap)} ({percent(report.gap_fraction)})" if report.gap else BLANK),
        ("best evaluation", _best(report)),
        ("env steps to the threshold, mean within the budget", estimate(report.steps_to_threshold) if report.n_reached else BLANK),
        ("wall time", duration(report.wall_seconds)),
        ("env steps per second, all seeds", count(report.steps_per_second)),
    ]
    return [(name, value) for name, value in rows if value and value != BLANK]


def seed_cells(seed: "SeedOutcome") -> list[str]:
    """One seed's row, in the order of SEED_HEADS."""
    # Four digits: 474.9 is not 475, and only one of them has solved CartPole.
    best = f"{number(seed.best_eval, 4)} at {short(seed.best_eval_at)}" if seed.best_eval is not None else BLANK
    state = seed.state if not seed.reason else f"{seed.state}: {seed.reason.splitlines()[0]}"
    return [
        seed.run,
        BLANK if seed.seed is None else str(seed.seed),
        number(seed.last_eval, 4),
        best,
        short(seed.threshold_reached_at),
        count(seed.env_steps),
        state,
    ]


def _best(report: "GroupReport") -> str:
    if report.best is None:
        return BLANK
    said = f"{number(report.best)} at {short(report.best_at)}"
    return f"{said} ({report.best_run})" if report.best_run else said


SEED_HEADS = ["run", "seed", "last evaluation", "best evaluation", "threshold at", "env steps", "state"]


def config_yaml(report: "GroupReport") -> str:
    """The config as YAML, in the order of the schema."""
    import yaml

    return str(yaml.safe_dump(report.config, sort_keys=False, allow_unicode=True, width=100))


def document(report: "GroupReport", found: "DiagnosisReport | None" = None, picture: str | None = None) -> list[Block]:
    """The report's blocks: the primary bottleneck first, then brief sections in a fixed order. Without a diagnosis, the numbers alone."""
    curve = Figure(partial(chart.svg, report.curve, found.marked if found else None), _caption(found), picture)
    if found is None:
        return [curve, *_summary(report), *_time(report), Heading("Next"), Code("\n".join(report.next), "sh"), *_config(report)]
    from rlclinic.ops import sections

    blocks: list[Block] = [sections.bottleneck(found), curve, Heading("1. Training run summary"), *_summary(report)]
    blocks += sections.assessment(found)
    blocks += [Heading("2. Key metrics analysis"), *sections.key_metrics(found)]
    blocks += [Heading("3. Diagnosed bottlenecks"), *sections.bottlenecks(found)]
    blocks += [Heading("4. Optimization recommendations"), *sections.recommendations(found)]
    commands = list(dict.fromkeys([*found.next, *report.next]))
    blocks += [Heading("5. Suggested next steps"), *sections.next_steps(found, commands)]
    if found.suspects:
        blocks += [Heading("6. If a bug is suspected"), *sections.suspects(found.suspects)]
    return [*blocks, *_time(report), *_config(report)]


def _caption(found: "DiagnosisReport | None") -> str:
    marked = f"; shaded: {found.marked.text}" if found and found.marked else ""
    return (
        f"Return against env steps. Thick: interquartile mean over seeds, with its 95 % interval; thin: seeds; dashes: threshold{marked}."
    )


def _summary(report: "GroupReport") -> list[Block]:
    rows = [seed_cells(seed) for seed in report.seeds]
    note: list[Block] = [Text(f"**Note**: {report.note}.")] if report.note else []
    return [Tiles(facts(report)), *note, Heading("Seeds", 3), Table(SEED_HEADS, rows)]


def _time(report: "GroupReport") -> list[Block]:
    if not report.throughput:
        return []
    rows = [[name, percent(share)] for name, share in report.throughput.items()]
    return [Heading("Where the time went"), Table(("phase", "share"), rows)]


def _config(report: "GroupReport") -> list[Block]:
    return [Heading("Config"), Code(config_yaml(report).rstrip(), "yaml")]


def markdown(report: "GroupReport", found: "DiagnosisReport | None" = None, picture: str | None = None) -> str:
    """report.md: readable as text, with the picture beside it where there is one."""
    lead: list[Block] = [
        Heading(f"{report.name} · {report.verdict}", 1),
        Text(f"{subtitle(report)} · {report.id}"),
        Text(f"**{report.verdict}** {headline(report)}"),
    ]
    return blocks.markdown([*lead, *document(report, found, picture)])


def html(report: "GroupReport", found: "DiagnosisReport | None" = None) -> str:
    """report.html: styles and pictures are inside; nothing is fetched, and no script runs."""
    colour = COLOURS.get(report.verdict, NEUTRAL)
    name, verdict = (escape(blocks.clean(text)) for text in (report.name, report.verdict))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name} · {verdict}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{name} <span class="verdict" style="background:{colour}">{verdict}</span></h1>
<p class="quiet">{escape(blocks.clean(subtitle(report)))} · {escape(blocks.clean(report.id))}</p>
<p>{escape(blocks.clean(headline(report)))}</p>
{blocks.html(document(report, found))}
</body>
</html>
"""


def run_markdown(report: "GroupReport", seed: "SeedOutcome") -> str:
    """A run's short report.md: its own numbers, and where the statistics are."""
    lines = [f"# {seed.run} · {report.name} · seed {seed.seed}", "", "| | |", "|---|---|"]
    lines += [f"| {head} | {cell} |" for head, cell in zip(SEED_HEADS[2:], seed_cells(seed)[2:], strict=True)]
    lines += ["", f"One of {plural(report.n_runs, 'seed')} of group {report.id}: ../@groups/{report.id}/report.md", ""]
    return "\n".join(lines)
