"""A folder for the Hugging Face hub: a model card, the best policy with what it needs, config, metrics and the report."""

import shutil
from pathlib import Path
from typing import Final

from rlclinic.actions import Action
from rlclinic.ops.diagnose.export.page import render_page
from rlclinic.report.format import number, percent, plural, short
from rlclinic.runs import disk
from rlclinic.runs.record import METRICS, Group, Run
from rlclinic.runs.recording import films

POLICY: Final = "policy.safetensors"


def write_hub(owner: Run | Group, runs: list[Run], out: Path) -> list[Path]:
    """README.md (a model card), the best policy with what it needs, config, metrics and the report: ready to be pushed."""
    best = max(runs, key=lambda run: (run.status.best_eval if run.status.best_eval is not None else float("-inf"), -run.seed))
    with disk.guarded(out):
        (out / "metrics").mkdir(parents=True, exist_ok=True)
    files = []
    kept_best = [checkpoint for checkpoint in best.checkpoints if checkpoint.best] or best.checkpoints
    checkpoint = kept_best[-1] if kept_best else None
    if checkpoint is not None:
        kept = [checkpoint.path / name for name in (POLICY, "state.json", "manifest.json")]
        files += [_copy(file, out / file.name) for file in kept if file.is_file()]
    files.append(_copy(best.path / "config.json", out / "config.json"))
    for run in runs:
        files.append(_copy(run.path / METRICS, out / "metrics" / f"{run.id}.csv"))
    whole = owner if isinstance(owner, Group) else owner.group
    if whole is not None:
        disk.write(out / "report.html", render_page(whole))
        files.append(out / "report.html")
    film = films.find_newest([best.path])
    if film is not None:
        files.append(_copy(film, out / f"replay{film.suffix}"))
    disk.write(out / "README.md", _card(owner, best, runs, has_policy=(out / POLICY).exists(), film=film))
    return [*files, out / "README.md"]


def _card(owner: Run | Group, best: Run, runs: list[Run], *, has_policy: bool, film: Path | None) -> str:
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
        *(["", f"![An episode](replay{film.suffix})"] if film is not None and film.suffix == ".gif" else []),
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
