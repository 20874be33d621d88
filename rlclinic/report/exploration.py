"""Whether exploration is what holds a task back, as a document."""

from rlclinic.report.document import Block, Commands, Rows, Table, Tone, Verdict
from rlclinic.report.format import count, number
from rlclinic.report.models import ExplorationReport

TONES: dict[str, Tone] = {"BOTTLENECK": "bad", "NOT": "good", "NOT ASSESSABLE": "note"}


def describe(report: ExplorationReport) -> list[Block]:
    """The verdict, what each run met, and what to try."""
    cells = [
        [
            run.run,
            run.what or "not logged",
            "never" if run.first is None and run.what else "" if run.first is None else count(run.first),
            count(run.env_steps),
            "" if run.episodes is None else count(run.episodes),
            "" if run.bound is None else f"below {number(run.bound)}",
        ]
        for run in report.runs
    ]
    rows = [("exploration", report.reason)]
    if report.new_states is not None:
        rows.append(("new states", f"{number(report.new_states)} per 1,000 env steps at the end"))
    if report.half_life is not None:
        rows.append(("half-life", f"novelty halves in {count(round(report.half_life))} env steps"))
    if report.prescription:
        rows.append(("try", ", ".join(f"{key}={value}" for key, value in report.prescription.items())))
    rows += [("note", note) for note in report.notes]
    heads = ["run", "what is wanted", ">first met", ">env steps", ">episodes", ">chance per episode"]
    verdict = Verdict(report.verdict, "exploration is what holds it back" if report.verdict == "BOTTLENECK" else "", TONES[report.verdict])
    blocks: list[Block] = [verdict, Rows(rows, 12), Table(heads, cells)]
    return blocks if report.next is None else [*blocks, Commands([("prove it", report.next)])]
