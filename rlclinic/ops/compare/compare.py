"""Comparing runs, groups, folders, files and revisions: read, compared, and written as a report where one is wanted."""

from collections.abc import Sequence
from pathlib import Path

from rlclinic.actions import Action, Argument
from rlclinic.comparison import trials
from rlclinic.comparison.compare import compare_sides
from rlclinic.comparison.models import Compared
from rlclinic.errors import DiskFailed, UsageError
from rlclinic.ops.runs.targets import GIT, Reading, read
from rlclinic.report.group import runs_dir_to_type
from rlclinic.report.models import Result
from rlclinic.runs.store import Store
from rlclinic.treatment.prescription import recorded_effects


class Comparison(Result):
    """What `compare` found, and the files it wrote."""

    targets: list[str]
    compared: Compared
    files: list[str]
    next: list[Action]
    """Commands to type next, the most useful first."""


def compare(
    targets: Sequence[str],
    runs_dir: Path = Path("runs"),
    *,
    pairwise: bool = False,
    threshold: float | None = None,
    budget: int | None = None,
    mapping: Sequence[str] = (),
    out: Path | None = None,
) -> Comparison:
    """Compare two or more runs, groups, foreign folders, YAML files, variants (ENV:VARIANT) or git:REV:FILE.yaml[:VARIANT].

    The first is what the others are compared with; pairwise: every two. threshold and budget: where a log does not say.
    out: a folder for compare.md (with its pictures), compare.html and compare.json, made if it is not there.
    """
    if not targets:
        raise UsageError("compare needs something to compare.\n  Type: ", Action("compare", "@last~1", "@last"))
    how = Reading(runs_dir, threshold, budget, mapping)
    sides = [side for target in targets for side in read(target, how)]
    learned = recorded_effects.load(Store(runs_dir)).of_kin(next((side.algo for side in sides if side.algo is not None), "ppo"))
    # Cells tell what cures a fault that was planted: of two configs that differ, nobody knows whether one has it.
    own = [outcome for outcome in learned.outcomes if not outcome.trial.startswith(recorded_effects.CELL)]
    known = trials.recorded((outcome.changes, outcome.adopted) for outcome in own)
    compared = compare_sides(sides, pairwise=pairwise, threshold=threshold, recorded=known)
    result = Comparison(targets=list(targets), compared=compared, files=[], next=_next(compared, runs_dir_to_type(runs_dir)))
    return result if out is None else result.model_copy(update={"files": _write(result, out)})


def _next(compared: Compared, runs_dir: Path | None) -> list[Action]:
    """What would say more: seeds where there are too few, a trial where two configs were never tried against each other."""
    few = [side for side in compared.sides if side.kind in ("group", "run") and 0 < side.runs < 4]
    commands = [Action("train", side.name, seeds=8, runs_dir=runs_dir) for side in few if "/" not in side.name][:1]
    configs = [side.name for side in compared.sides if side.kind == "config" and not side.name.startswith(GIT)]
    if len(configs) == len(compared.sides) and compared.env is not None and compared.config.differences:
        commands.append(Action("trial", *configs, runs_dir=runs_dir))
    return commands


def _write(result: Comparison, out: Path) -> list[str]:
    from rlclinic.report import comparison

    written = []
    texts = {
        "compare.md": comparison.markdown(result.compared),
        "compare.html": comparison.html(result.compared),
        "compare.json": result.model_dump_json(indent=2) + "\n",
        **comparison.pictures(result.compared),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (out / name).write_text(text, encoding="utf-8")
            written.append(str(out / name))
    except OSError as error:
        raise DiskFailed(
            f"{out} cannot be written: {error.strerror}.\n  There is no report.\n  Give another folder: ", Argument("out", "DIR")
        ) from error
    return written
