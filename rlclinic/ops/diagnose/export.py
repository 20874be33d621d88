"""Exporting runs: folders that other programs open, a folder for the Hugging Face hub, and one HTML file with everything in it."""

import json
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Final

from rlclinic.actions import Action
from rlclinic.errors import NotFound, RlclinicError, UsageError
from rlclinic.ops.diagnose import diagnose
from rlclinic.ops.runs.requests import ExportRequest
from rlclinic.report import evidence, group
from rlclinic.report.charts import panel
from rlclinic.report.document import Block, Code, Figure, Figures, Heading, Table, Text
from rlclinic.report.format import number, percent, plural, short
from rlclinic.report.models import Result
from rlclinic.runs import disk, history, notes
from rlclinic.runs.record import METRICS, Checkpoint, Group, Run
from rlclinic.runs.store import Store

TRACKERS: Final = ("wandb", "mlflow", "tensorboard")
MOST_PANELS: Final = 80
POLICY: Final = "policy.safetensors"


class ExportResult(Result):
    """What was written."""

    of: str
    to: str
    runs: list[str]
    path: str
    """The file or the folder."""
    files: list[str]
    open: Action
    """What opens or sends it."""


def export(request: ExportRequest) -> ExportResult:
    """Write a group (or one run) as another program keeps it. Nothing is sent anywhere; what is there already is replaced."""
    selected = Store(request.runs_dir).resolve(request.selector)
    owner = selected.run if isinstance(selected, Checkpoint) else selected
    runs = owner.runs if isinstance(owner, Group) else [owner]
    started = [run for run in runs if (run.path / METRICS).exists()]
    if not started:
        raise NotFound(f"{owner.id} has no metrics yet.\n  There is nothing to export.\n  See how far it is: ", Action("status", owner.id))
    out = request.out or Path(f"{owner.id}.html" if request.to == "html" else f"{owner.id}-{request.to}")
    _check_place(out, request.runs_dir, request.to)
    if request.to in TRACKERS:
        write: Callable[[Run, Path], list[Path]] = import_module(f"rlclinic.runs.export.{request.to}").write
        files = [file for run in started for file in write(run, out)]
    else:
        files = [_write_page(owner, out)] if request.to == "html" else _write_hub(owner, started, out)
    commands = {
        "wandb": f"wandb sync {out}/offline-run-*",
        "mlflow": f"mlflow ui --backend-store-uri {out}",
        "tensorboard": f"tensorboard --logdir {out}",
        "hf": f"huggingface-cli upload USER/{owner.id} {out}",
        "html": f"xdg-open {out}",
    }
    return ExportResult(
        of=owner.id,
        to=request.to,
        runs=[run.id for run in started],
        path=str(out),
        files=[str(file) for file in files],
        open=Action.quoted(commands[request.to]),
    )


def render_page(owner: Run | Group) -> str:
    """Everything about a group or run as one HTML file: report, diagnosis, a chart of every metric, config, notes, the log's end."""
    whole = owner if isinstance(owner, Group) else owner.group
    if whole is None:
        raise UsageError(
            f"run {owner.id} belongs to no group.\n  Pages are made of groups.\n  Export its rows: ",
            Action("runs export", owner.id, to="tensorboard"),
        )
    try:
        diagnosed = diagnose.examine_group(whole)
    except RlclinicError:
        diagnosed = None  # runs that cannot be diagnosed have numbers all the same
    return group.html(group.describe_group(whole), diagnosed, more=_rest(whole))


def _write_page(owner: Run | Group, out: Path) -> Path:
    _make(out.parent)
    disk.write(out, render_page(owner))
    return out


def _rest(owner: Group) -> list[Block]:
    """What a report leaves out: every metric, what was changed while it ran, tags and notes, the end of the first log."""
    from rlclinic.diagnosis.case import Case

    histories = [history.of_run(run) for run in owner.runs]
    cases = [Case(each) for each in histories]
    names = list(dict.fromkeys(name for each in histories for name in each.series))
    drawn = [made for name in names if (made := evidence.draw_series(name, cases)) is not None]
    figures = [Figure(lambda made=made: panel(made), f"{made.label} ({made.series})", None) for made in drawn[:MOST_PANELS]]  # type: ignore[misc]
    blocks: list[Block] = [Heading("Every metric"), Figures(figures, "against env steps; the band is the range of the seeds")]
    changed = [
        [run.id, str(entry.get("env_steps", "")), json.dumps(entry.get("numbers", entry))]
        for run in owner.runs
        for entry in run.interventions
    ]
    if changed:
        blocks += [Heading("Changed while it ran"), Table(("run", ">at env step", "numbers"), changed)]
    kept = notes.read(owner.path)
    if kept.tags or kept.note:
        blocks += [Heading("Notes"), Text(" ".join(f"[{tag}]" for tag in kept.tags)), Text(kept.note)]
    log = owner.runs[0].log.splitlines()[-40:] if owner.runs else []
    return [*blocks, Heading("Log"), Code("\n".join(log), "")] if log else blocks


def _write_hub(owner: Run | Group, runs: list[Run], out: Path) -> list[Path]:
    """README.md (a model card), the best policy with what it needs, config, metrics and the report: ready to be pushed."""
    best = max(runs, key=lambda run: (run.status.best_eval if run.status.best_eval is not None else float("-inf"), -run.seed))
    _make(out)
    files = []
    kept_best = [checkpoint for checkpoint in best.checkpoints if checkpoint.best] or best.checkpoints
    checkpoint = kept_best[-1] if kept_best else None
    if checkpoint is not None:
        kept = [checkpoint.path / name for name in (POLICY, "state.json", "manifest.json")]
        files += [_copy(file, out / file.name) for file in kept if file.is_file()]
    files.append(_copy(best.path / "config.json", out / "config.json"))
    for run in runs:
        _make(out / "metrics")
        files.append(_copy(run.path / METRICS, out / "metrics" / f"{run.id}.csv"))
    whole = owner if isinstance(owner, Group) else owner.group
    if whole is not None:
        disk.write(out / "report.html", render_page(whole))
        files.append(out / "report.html")
    disk.write(out / "README.md", _card(owner, best, runs, has_policy=(out / POLICY).exists()))
    return [*files, out / "README.md"]


def _card(owner: Run | Group, best: Run, runs: list[Run], *, has_policy: bool) -> str:
    """A model card with the results as the hub reads them."""
    import yaml

    status, threshold = best.status, best.threshold
    finals = [run.status.eval_mean for run in runs if run.status.eval_mean is not None]
    results = []
    if status.best_eval is not None:
        metric = {"type": "mean_reward", "value": float(status.best_eval), "name": "mean_reward", "verified": False}
        task = {"type": "reinforcement-learning", "name": "reinforcement-learning"}
        results = [{"task": task, "dataset": {"name": best.env_id, "type": best.env_id}, "metrics": [metric]}]
    about = {
        "library_name": "rlclinic",
        "tags": [best.env_id, best.algo, "reinforcement-learning", "deep-reinforcement-learning", "rlclinic"],
        "model-index": [{"name": f"{best.algo}-{best.env_id}", "results": results}],
    }
    reached = sum(run.status.threshold_reached_at is not None for run in runs)
    lines = [
        f"# {best.algo.upper()} on {best.env_id}",
        "",
        f"Trained with rlclinic: {plural(len(runs), 'seed')}, {short(status.env_steps)} env steps each.",
        f"Group {owner.id}; this is run {best.id}.",
        "",
        f"- best evaluation: {number(status.best_eval)}" + (f" (threshold {number(threshold)})" if threshold is not None else ""),
        f"- last evaluations over seeds: {', '.join(number(value) for value in finals) or 'none'}",
        *([f"- {reached} of {plural(len(runs), 'seed')} reached the threshold"] if threshold is not None else []),
        *([f"- success: {percent(status.success_rate)}"] if status.success_rate is not None else []),
        "",
        "`config.json` has every setting, `metrics/` every row of every seed, `report.html` the diagnosis.",
        "`policy.safetensors` holds the weights." if has_policy else "No checkpoint was kept.",
        "",
        "```sh",
        str(Action("train", best.name, seeds=len(runs))),
        "```",
    ]
    return "---\n" + yaml.safe_dump(about, sort_keys=False, allow_unicode=True) + "---\n\n" + "\n".join(lines) + "\n"


def _copy(source: Path, target: Path) -> Path:
    with disk.guarded(target):
        shutil.copyfile(source, target, follow_symlinks=False)
    return target


def _make(folder: Path) -> None:
    with disk.guarded(folder):
        folder.mkdir(parents=True, exist_ok=True)


def _check_place(out: Path, runs_dir: Path, to: str) -> None:
    """Never into a store, and never over something else."""
    another = Action("runs export", to=to, out="DIR")
    if out.resolve().is_relative_to(runs_dir.resolve()):
        raise UsageError(f"{out} lies in the store {runs_dir}.\n  Its folders would be taken for runs.\n  Choose another place: ", another)
    if to == "html" and out.is_dir():
        raise UsageError(
            f"{out} is a folder.\n  One HTML file is written.\n  Name a file: ", Action("runs export", to=to, out=out / "report.html")
        )
    if to != "html" and out.is_file():
        raise UsageError(f"{out} is a file.\n  A folder is written.\n  Choose another place: ", another)
