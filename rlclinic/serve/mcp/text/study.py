"""What tools say of prescriptions, trials, searches and sensitivity studies."""

from typing import TYPE_CHECKING, Any

from rlclinic.report import optimize, prescription
from rlclinic.report.document import render_compact
from rlclinic.report.format import count, duration, number, plural, short
from rlclinic.report.sensitivity import effects_table
from rlclinic.report.trial import cost_text, describe_plan, describe_result
from rlclinic.serve.mcp.replies import clip

if TYPE_CHECKING:
    from rlclinic.ops.jobs.models import Job
    from rlclinic.ops.jobs.progress import Progress, SearchView, SensitivityView, TrialView
    from rlclinic.ops.treat.sensitivity import SensitivityPlan
    from rlclinic.ops.treat.trial import Preview
    from rlclinic.report.prescription import Prescriptions

# ── prescriptions ──


def prescriptions(found: "Prescriptions") -> str:
    """What is wrong, then each change with its reason, forecast and risk, and what to call."""
    lines = [render_compact(prescription.describe(found, brief=True), 220)]
    first = next((rx for rx in found.prescriptions if rx.trialable), None)
    name = found.group or found.target
    if first is not None:
        lines.append(f'next: start_trial(run_id="{name}", rx=[{first.number}])')
    elif found.group is not None:
        lines.append(f'next: start_trial(run_id="{name}", changes={{"KEY": VALUE}}, hypothesis="…") or start_optimize(run_id="{name}")')
    return "\n".join(lines)


def prescriptions_data(found: "Prescriptions") -> dict[str, Any]:
    """The same as JSON."""
    return {
        "run_id": found.group or found.target,
        "verdict": found.verdict,
        "answer": found.answer,
        "prescriptions": [
            {"rx": rx.number, "priority": rx.priority, "title": rx.title, "overrides": rx.overrides, "rationale": rx.rationale}
            | {"effect": rx.effect, "risk": rx.risk, "cause": rx.cause, "trialable": rx.trialable}
            for rx in found.prescriptions
        ],
        "why_none": found.why_none,
        "recorded_trials": found.trials,
    }


# ── starts ──


def job(found: "Job") -> str:
    """What was started, what it may cost, and what to call next."""
    what = {"training": "TRAINING", "trial": "TRIAL", "optimize": "SEARCH", "sensitivity": "STUDY"}.get(found.kind, found.kind.upper())
    again = f" (made before; {'taken up again' if found.resumes and found.live else 'nothing new was started'})" if found.repeated else ""
    lines = [f"{what} {found.refers} · {found.state} · job {found.id}{again}"]
    lines += [f"queued: it {clip(found.reason, 160)}; it begins by itself"] if found.state == "queued" and found.reason else []
    lines += [f"change: {clip('; '.join(found.change), 200)}"] if found.change else []
    lines += [f"may take {count(found.max_env_steps)} env steps"] if found.max_env_steps is not None else []
    lines += [f"runs: {', '.join(found.runs[:8])}"] if found.runs else []
    return "\n".join([*lines, f'next: wait_for_run(run_id="{found.refers}")'])


def preview(found: "Preview") -> str:
    """What a trial asks, can see and costs."""
    cost = cost_text(found.max_env_steps, found.max_seconds, found.likely_seconds, found.cores)
    return render_compact(describe_plan(found.question, found.plan, found.power, found.control, cost, found.warnings), 200)


def job_data(found: "Job") -> dict[str, Any]:
    """gymnasium-solver's keys, and the job's own."""
    kept = found.model_dump(
        mode="json", include={"id", "kind", "state", "refers", "runs", "pid", "max_env_steps", "repeated", "hypothesis"}
    )
    return {"success": True, "job_id": kept.pop("id"), "run_id": kept.pop("refers"), "message": f"{found.kind} {found.state}", **kept}


def waited(found: "Progress") -> str:
    """How it stands, and what to call next."""
    steps = f"{short(found.env_steps)}/{short(found.max_env_steps)}" if found.max_env_steps else short(found.env_steps)
    parts = [found.id, found.kind, found.state, f"{steps} env steps", f"{found.ended}/{found.runs} runs ended, {found.reached} reached"]
    parts += [f"return {number(found.return_mean)}"] if found.return_mean is not None else []
    parts += [f"{count(found.steps_per_second)} steps/s"] if found.steps_per_second else []
    parts += [f"{duration(found.eta_seconds)} left"] if found.eta_seconds else []
    lines = [" · ".join(parts)]
    lines += [f"ALERT {clip(found.alert, 200)}"] if found.alert else []
    lines += [f"reason: {clip(found.reason, 200)}"] if found.reason else []
    return "\n".join([*lines, f"next: {_after(found)}"])


def _after(found: "Progress") -> str:
    if not found.done and found.alert is None:
        return f'wait_for_run(run_id="{found.id}")'
    tool, key, start = {
        "group": ("diagnose_run", "run_id", "start_training"),
        "trial": ("get_trial", "trial_id", "start_trial"),
        "optimize": ("get_optimize", "search_id", "start_optimize"),
        "sensitivity": ("get_sensitivity", "study_id", "start_sensitivity"),
    }[found.kind]
    if found.state in ("crashed", "stopped", "interrupted"):
        return f'{start}(resume="{found.id}") goes on | {tool}({key}="{found.id}")'
    return f'{tool}({key}="{found.id}")'


# ── trials and searches ──


def trial(found: "TrialView") -> str:
    """The verdict with its measures; while it runs, how far it is."""
    made = found.trial
    lines = [f"TRIAL {made.id} · {made.question}", *([waited(found.progress)] if made.verdict is None else [])]
    lines.append(render_compact(describe_result(made), 200))
    if made.verdict == "adopt" and made.source != "command":
        lines.append(f'next: adopt(trial_id="{made.id}", as_variant="{made.env_id}:NAME")')
    return "\n".join(lines)


def trial_data(found: "TrialView") -> dict[str, Any]:
    """The same as JSON, without whole configs."""
    made = found.trial
    return {
        "trial_id": made.id,
        "state": found.progress.state,
        "verdict": made.verdict,
        "winner": made.winner,
        "question": made.question,
        "outcome": made.outcome,
        "arms": [
            {"name": arm.name, "changes": list(arm.changes), "n": arm.n, "reached": arm.reached, "failed": arm.failed}
            | {"steps": _range(arm.steps), "final": _range(arm.final)}
            for arm in made.arms
        ],
        "effects": [
            {"arm": effect.arm, "verdict": effect.verdict, "z": round(effect.z, 3), "bound": round(effect.bound, 3), "seeds": effect.seeds}
            | {"ratio": _range(effect.ratio), "gain": _range(effect.gain), "seeds_needed": effect.seeds_needed, "worse": effect.worse}
            for effect in made.effects
        ],
        "used_env_steps": made.used_env_steps or found.progress.env_steps,
        "max_env_steps": made.max_env_steps,
        "job_id": None if found.job is None else found.job.id,
    }


def _range(value: Any) -> list[float | None] | None:
    return None if value is None else [value.value, value.low, value.high]


def search(found: "SearchView") -> str:
    """Rounds, the best config, its confirmation."""
    ledger = found.ledger
    spent = max(found.spent, found.progress.env_steps)
    lines = [f"SEARCH {ledger.id} · {found.progress.state}", render_compact(optimize.describe(ledger, found.changes, spent=spent))]
    if found.confirmed is not None:
        lines.append(f'next: adopt(trial_id="{found.confirmed}", as_variant="{ledger.env_id}:NAME")')
    elif not found.progress.done:
        lines.append(f'next: wait_for_run(run_id="{ledger.id}")')
    elif ledger.state != "finished":
        lines.append(f'next: start_optimize(resume="{ledger.id}") goes on')
    return "\n".join(lines)


def search_data(found: "SearchView") -> dict[str, Any]:
    """The same as JSON."""
    ledger = found.ledger
    return {
        "search_id": ledger.id,
        "state": found.progress.state,
        "verdict": ledger.verdict or None,
        "budget_env_steps": ledger.budget,
        "spent_env_steps": max(found.spent, found.progress.env_steps),
        "tried": len(ledger.tried),
        "best_changes": found.changes,
        "confirmed_by": found.confirmed,
        "rounds": [{"kind": each.kind, "configs": len(each.entries), "done": each.done, "winner": each.winner} for each in ledger.rounds],
    }


# ── sensitivity ──


def variations(found: "SensitivityPlan") -> str:
    """What a study would train."""
    study = found.study
    most = f", at most {duration(found.seconds)} at the speed of its runs" if found.seconds else ""
    lines = [f"{len(study.arms) + 1} configs of {study.env_id} {study.algo} x {plural(len(study.seeds), 'seed')}: {found.runs} runs"]
    lines.append(f"cost: at most {count(found.max_env_steps)} env steps{most}")
    lines.append(f"varies: {', '.join(dict.fromkeys(arm.setting for arm in study.arms))}")
    return "\n".join([*lines, *(f"left out: {clip(text, 120)}" for text in study.skipped[:6])])


def sensitivity(found: "SensitivityView") -> str:
    """Every number by how much it matters; while it trains, how far it is."""
    study = found.study
    lines = [f"STUDY {study.id} · {study.env_id} {study.algo} · {found.progress.state} · {len(study.seeds)} seeds a config"]
    if not study.rows:
        return "\n".join([*lines, waited(found.progress)])
    lines.append(render_compact(effects_table(study)))
    better = next((row for row in study.rows if row.verdict == "better"), None)
    if better is not None:
        lines.append(f'next: start_trial(run_id="{study.target}", changes={{"{better.arm.setting}": …}}) proves the best on fresh seeds')
    return "\n".join(lines)


def sensitivity_data(found: "SensitivityView") -> dict[str, Any]:
    """The same as JSON."""
    study = found.study
    return {
        "study_id": study.id,
        "state": found.progress.state,
        "measure": study.measure,
        "ranking": [{"setting": setting, "size": size} for setting, size in found.ranking],
        "rows": [
            {"setting": row.arm.setting, "value": row.arm.value, "effect": [row.effect, row.low, row.high], "verdict": row.verdict}
            for row in study.rows
        ],
        "used_env_steps": study.used_env_steps or found.progress.env_steps,
    }
