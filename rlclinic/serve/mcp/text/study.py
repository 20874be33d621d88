"""What tools say of prescriptions, trials, searches, gates and sensitivity studies."""

from typing import TYPE_CHECKING, Any

from rlclinic.report import optimize, prescription
from rlclinic.report.document import render_compact
from rlclinic.report.format import count, duration, number, plural, short, step_unit
from rlclinic.report.gate import describe as describe_gate
from rlclinic.report.race import describe_race, describe_race_plan
from rlclinic.report.sensitivity import effects_table
from rlclinic.report.trial import cost_text, describe_plan, describe_result
from rlclinic.serve.mcp.replies import clip, in_call, one_line

if TYPE_CHECKING:
    from rlclinic.ops.jobs.models import Job
    from rlclinic.ops.jobs.progress import Progress, RaceView, RegressionView, SearchView, SensitivityView, TrialView
    from rlclinic.ops.treat.race import RacePreview
    from rlclinic.ops.treat.sensitivity import SensitivityPlan
    from rlclinic.ops.treat.trial import Preview
    from rlclinic.report.prescription import Prescriptions

# ── prescriptions ──


def prescriptions(result: "Prescriptions") -> str:
    """What is wrong, then each change with its reason, forecast and risk, and what to call."""
    lines = [render_compact(prescription.describe(result, brief=True), 220)]
    first = next((rx for rx in result.prescriptions if rx.trialable), None)
    name = in_call(result.group or result.target)
    if first is not None:
        lines.append(f"next: start_trial(run_id={name}, rx=[{first.number}])")
    elif result.group is not None:
        lines.append(f'next: start_trial(run_id={name}, changes={{"KEY": VALUE}}, hypothesis="…") or start_optimize(run_id={name})')
    return "\n".join(lines)


def prescriptions_data(result: "Prescriptions") -> dict[str, Any]:
    """The same as JSON."""
    return {
        "run_id": result.group or result.target,
        "verdict": result.verdict,
        "answer": result.answer,
        "prescriptions": [
            {"rx": rx.number, "priority": rx.priority, "title": rx.title, "overrides": rx.overrides, "rationale": rx.rationale}
            | {"effect": rx.effect, "risk": rx.risk, "cause": rx.cause, "trialable": rx.trialable}
            for rx in result.prescriptions
        ],
        "why_none": result.why_none,
        "recorded_trials": result.trials,
    }


# ── starts ──


def job(started: "Job") -> str:
    """What was started, what it may cost, and what to call next."""
    what = {"training": "TRAINING", "trial": "TRIAL", "race": "RACE", "optimize": "SEARCH", "sensitivity": "STUDY", "regress": "GATE"}.get(
        started.kind, started.kind.upper()
    )
    again = (
        f" (made before; {'taken up again' if started.resumes and started.live else 'nothing new was started'})" if started.repeated else ""
    )
    lines = [f"{what} {started.refers} · {started.state} · job {started.id}{again}"]
    lines += [f"queued: it {clip(started.reason, 160)}; it begins by itself"] if started.state == "queued" and started.reason else []
    lines += [f"change: {clip('; '.join(started.change), 200)}"] if started.change else []
    lines += [f"may take {count(started.max_env_steps)} env steps"] if started.max_env_steps is not None else []
    lines += [f"runs: {', '.join(started.runs[:8])}"] if started.runs else []
    return "\n".join([*lines, f'next: wait_for_run(run_id="{started.refers}")'])


def preview(planned: "Preview") -> str:
    """What a trial asks, can see and costs."""
    cost = cost_text(planned.max_env_steps, planned.plan.step_unit, planned.max_seconds, planned.likely_seconds, planned.cores)
    return render_compact(describe_plan(planned.question, planned.plan, planned.power, planned.control, cost, planned.warnings), 200)


def job_data(started: "Job") -> dict[str, Any]:
    """gymnasium-solver's keys, and the job's own."""
    kept = started.model_dump(
        mode="json", include={"id", "kind", "state", "refers", "runs", "pid", "max_env_steps", "repeated", "hypothesis"}
    )
    return {"success": True, "job_id": kept.pop("id"), "run_id": kept.pop("refers"), "message": f"{started.kind} {started.state}", **kept}


def waited(progress: "Progress") -> str:
    """How it stands, and what to call next."""
    steps = f"{short(progress.env_steps)}/{short(progress.max_env_steps)}" if progress.max_env_steps else short(progress.env_steps)
    parts = [
        progress.id,
        progress.kind,
        progress.state,
        f"{steps} env steps",
        f"{progress.ended}/{progress.runs} runs ended, {progress.reached} reached",
    ]
    parts += [f"return {number(progress.return_mean)}"] if progress.return_mean is not None else []
    parts += [f"{count(progress.steps_per_second)} steps/s"] if progress.steps_per_second else []
    parts += [f"{duration(progress.eta_seconds)} left"] if progress.eta_seconds else []
    lines = [" · ".join(parts)]
    lines += [f"ALERT {clip(progress.alert, 200)}"] if progress.alert else []
    lines += [f"reason: {clip(progress.reason, 200)}"] if progress.reason else []
    return "\n".join([*lines, f"next: {_after(progress)}"])


def _after(progress: "Progress") -> str:
    if not progress.done and progress.alert is None:
        return f'wait_for_run(run_id="{progress.id}")'
    tool, key, start = {
        "group": ("diagnose_run", "run_id", "start_training"),
        "trial": ("get_trial", "trial_id", "start_trial"),
        "race": ("get_trial", "trial_id", "start_trial"),
        "optimize": ("get_optimize", "search_id", "start_optimize"),
        "sensitivity": ("get_sensitivity", "study_id", "start_sensitivity"),
        "regress": ("get_trial", "trial_id", ""),
    }[progress.kind]
    if start and progress.state in ("crashed", "stopped", "interrupted"):
        race = ", race=true" if progress.kind == "race" else ""
        return f'{start}(resume="{progress.id}"{race}) goes on | {tool}({key}="{progress.id}")'
    return f'{tool}({key}="{progress.id}")'


# ── trials and searches ──


def trial(view: "TrialView") -> str:
    """The verdict with its measures; while it runs, how far it is."""
    made = view.trial
    lines = [f"TRIAL {made.id} · {one_line(made.question)}", *([waited(view.progress)] if made.verdict is None else [])]
    lines.append(render_compact(describe_result(made), 200))
    if made.verdict == "adopt" and made.source != "command":
        variant = "NAME" if made.environments else f"{made.env_id}:NAME"
        lines.append(f'next: adopt(trial_id="{made.id}", as_variant={in_call(variant)})')
    return "\n".join(lines)


def trial_data(view: "TrialView") -> dict[str, Any]:
    """The same as JSON, without whole configs."""
    made = view.trial
    return {
        "trial_id": made.id,
        "state": view.progress.state,
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
        "used_env_steps": made.used_env_steps or view.progress.env_steps,
        "max_env_steps": made.max_env_steps,
        "job_id": None if view.job is None else view.job.id,
    }


def _range(value: Any) -> list[float | None] | None:
    return None if value is None else [value.value, value.low, value.high]


def race_preview(planned: "RacePreview") -> str:
    """What a race asks, can see and costs."""
    return render_compact(
        describe_race_plan(planned.question, planned.plan, planned.power, planned.max_seconds, planned.cores, planned.warnings), 200
    )


def race(view: "RaceView") -> str:
    """The ranking; while it runs, how far it is."""
    made = view.race
    lines = [f"RACE {made.id} · {made.question}", *([waited(view.progress)] if made.verdict is None else [])]
    lines.append(render_compact(describe_race(made), 200))
    if made.verdict == "best" and made.plan.trial.source != "command":
        lines.append(f'next: adopt(trial_id="{made.id}", as_variant="{made.env_id}:NAME")')
    return "\n".join(lines)


def race_data(view: "RaceView") -> dict[str, Any]:
    """The same as JSON, without whole configs."""
    made = view.race
    return {
        "race_id": made.id,
        "state": view.progress.state,
        "verdict": made.verdict,
        "winner": made.winner,
        "best": list(made.best),
        "question": made.question,
        "ranking": [
            {"arm": arm.arm.name, "ranks": list(arm.ranks), "shown": arm.shown, "n": arm.arm.n, "arrived": arm.arrived}
            | {"changes": list(arm.arm.changes), "steps": _range(arm.arm.steps), "final": _range(arm.arm.final)}
            | {"ratio": _range(arm.ratio), "gain": _range(arm.gain), "seeds_needed": arm.seeds_needed}
            for arm in made.arms
        ],
        "not_afforded": made.not_afforded,
        "used_env_steps": made.used_env_steps or view.progress.env_steps,
        "max_env_steps": made.max_env_steps,
        "job_id": None if view.job is None else view.job.id,
    }


def search(view: "SearchView") -> str:
    """Rounds, the best config, its confirmation."""
    ledger = view.ledger
    spent = max(view.spent, view.progress.env_steps)
    lines = [f"SEARCH {ledger.id} · {view.progress.state}", render_compact(optimize.describe(ledger, view.changes, spent=spent))]
    if view.confirmed is not None:
        lines.append(f'next: adopt(trial_id="{view.confirmed}", as_variant={in_call(f"{ledger.env_id}:NAME")})')
    elif not view.progress.done:
        lines.append(f'next: wait_for_run(run_id="{ledger.id}")')
    elif ledger.state != "finished":
        lines.append(f'next: start_optimize(resume="{ledger.id}") goes on')
    return "\n".join(lines)


def search_data(view: "SearchView") -> dict[str, Any]:
    """The same as JSON."""
    ledger = view.ledger
    return {
        "search_id": ledger.id,
        "state": view.progress.state,
        "verdict": ledger.verdict or None,
        "budget_env_steps": ledger.budget,
        "spent_env_steps": max(view.spent, view.progress.env_steps),
        "tried": len(ledger.tried),
        "best_changes": view.changes,
        "confirmed_by": view.confirmed,
        "rounds": [{"kind": each.kind, "configs": len(each.entries), "done": each.done, "winner": each.winner} for each in ledger.rounds],
    }


# ── gates ──


def gate(view: "RegressionView") -> str:
    """Whether the candidate passed, look by look; while it trains, how far it is."""
    lines = [f"GATE {view.gate.id} · is {one_line(view.gate.target)} as good as {one_line(view.gate.baseline)}?"]
    lines += [waited(view.progress)] if view.gate.state != "finished" else []
    return "\n".join([*lines, *([render_compact(describe_gate(view.gate.result), 200)] if view.gate.result is not None else [])])


def gate_data(view: "RegressionView") -> dict[str, Any]:
    """What is judged by what, and what came of it."""
    result = None if view.gate.result is None else view.gate.result.model_dump(mode="json", exclude={"schema_version"})
    return {
        "gate_id": view.gate.id,
        "state": view.progress.state,
        "decision": None if result is None else result["decision"],
        "result": result,
    }


# ── sensitivity ──


def variations(planned: "SensitivityPlan") -> str:
    """What a study would train."""
    study = planned.study
    most = f", at most {duration(planned.seconds)} at the speed of its runs" if planned.seconds else ""
    lines = [
        f"{len(study.arms) + 1} configs of {one_line(study.env_id)} {study.algo} x {plural(len(study.seeds), 'seed')}: {planned.runs} runs"
    ]
    lines.append(f"cost: at most {count(planned.max_env_steps)} {step_unit(study.algo, study.config)}{most}")
    lines.append(f"varies: {', '.join(dict.fromkeys(arm.setting for arm in study.arms))}")
    return "\n".join([*lines, *(f"left out: {clip(text, 120)}" for text in study.skipped[:6])])


def sensitivity(view: "SensitivityView") -> str:
    """Every number by how much it matters; while it trains, how far it is."""
    study = view.study
    lines = [f"STUDY {study.id} · {one_line(study.env_id)} {study.algo} · {view.progress.state} · {len(study.seeds)} seeds a config"]
    if not study.rows:
        return "\n".join([*lines, waited(view.progress)])
    lines.append(render_compact(effects_table(study)))
    better = next((row for row in study.rows if row.verdict == "better"), None)
    if better is not None:
        lines.append(
            f'next: start_trial(run_id={in_call(study.target)}, changes={{"{better.arm.setting}": …}}) proves the best on fresh seeds'
        )
    return "\n".join(lines)


def sensitivity_data(view: "SensitivityView") -> dict[str, Any]:
    """The same as JSON."""
    study = view.study
    return {
        "study_id": study.id,
        "state": view.progress.state,
        "measure": study.measure,
        "ranking": [{"setting": setting, "size": size} for setting, size in view.ranking],
        "rows": [
            {"setting": row.arm.setting, "value": row.arm.value, "effect": [row.effect, row.low, row.high], "verdict": row.verdict}
            for row in study.rows
        ],
        "used_env_steps": study.used_env_steps or view.progress.env_steps,
    }
