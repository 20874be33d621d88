"""Tools that start, stop, change or keep something. Agents stay within the budget that a person set; every call is audited."""

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import Field

from rlclinic.ops.jobs import audited
from rlclinic.ops.jobs import start as jobs
from rlclinic.ops.jobs.audit import Caller
from rlclinic.ops.jobs.prepare import OptimizeRequest, SensitivityRequest, TrialStart
from rlclinic.ops.train.plan import TrainRequest
from rlclinic.ops.treat import sensitivity, trial
from rlclinic.ops.treat.arms import TrialRequest
from rlclinic.report.format import number
from rlclinic.runs.store import Store
from rlclinic.serve.mcp.replies import answer, clip, say
from rlclinic.serve.mcp.settings import Settings
from rlclinic.serve.mcp.text import study
from rlclinic.serve.mcp.tools.advising import Overrides, as_changes
from rlclinic.serve.mcp.tools.reading import RunId, Threshold
from rlclinic.treatment.optimize.ledger import Outcome as Goal
from rlclinic.treatment.sensitivity.study import Scope
from rlclinic.treatment.trial.models import Outcome

Ctx = Context | None
Key = Annotated[str | None, Field(description="Your own name for this start: asked again it is found, or goes on, never made twice.")]
Why = Annotated[str, Field(description="What you expect and why; it goes into the ledger.")]
Wall = Annotated[float | None, Field(gt=0, description="Stop with checkpoints after so many seconds.")]
Steps = Annotated[int | None, Field(ge=1, description="Env steps of each run.")]


class Acting:
    """The tools that a read-only server leaves out."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store, self.root, self.settings = store, store.root, settings

    def _by(self, ctx: Any) -> Caller:
        request = None if ctx is None else ctx.request_context.request
        return self.settings.caller(request)

    def start_training(
        self,
        config_id: Annotated[
            str | None, Field(description="ENV:VARIANT, Gymnasium id, project YAML, group to repeat, or RUN@STEP to fork.")
        ] = None,
        max_env_steps: Steps = None,
        overrides: Overrides = None,
        seeds: Annotated[int | None, Field(ge=1, le=64)] = None,
        rx: Annotated[int | None, Field(ge=1, description="Prescription of the group, applied untried.")] = None,
        resume: Annotated[str | None, Field(description="Run or group to go on with.")] = None,
        hypothesis: Why = "",
        idempotency_key: Key = None,
        max_wall_seconds: Wall = None,
        ctx: Ctx = None,
    ) -> CallToolResult:
        """Train in the background; returns the group and run ids at once. It outlives this server. Then wait_for_run."""
        changes = as_changes(overrides)
        ref, again = (None if name is None else self.settings.config(name, changes, self.store) for name in (config_id, resume))
        asked = {"ref": ref, "changes": changes, "rx": rx, "seeds": seeds, "max_env_steps": max_env_steps, "resume": again}
        request = TrainRequest(**asked, runs_dir=self.root)
        job = jobs.start_training(
            request, by=self._by(ctx), idempotency_key=idempotency_key, hypothesis=hypothesis, max_wall_seconds=max_wall_seconds
        )
        return answer(study.job(job), {**study.job_data(job), "config_id": config_id})

    def start_trial(
        self,
        run_id: Annotated[
            str | list[str], Field(description="Group to treat; or two and more configs, the first is the control.")
        ] = "@last",
        rx: Annotated[list[int] | None, Field(description="Prescriptions to try, one arm each.")] = None,
        changes: Annotated[dict[str, Any] | list[str] | None, Field(description="Your own patch instead: {setting: value}.")] = None,
        hypothesis: Why = "",
        outcome: Annotated[Outcome | None, Field(description="What decides; steps to the threshold where one is known.")] = None,
        max_env_steps: Steps = None,
        looks: Annotated[int, Field(ge=1, le=20)] = 4,
        per_look: Annotated[int, Field(ge=2, le=64, description="Seeds an arm per look.")] = 8,
        threshold: Threshold = None,
        resume: Annotated[str | None, Field(description="Trial to go on with.")] = None,
        dry_run: Annotated[bool, Field(description="Say what it asks, can see and costs; start nothing.")] = False,
        idempotency_key: Key = None,
        max_wall_seconds: Wall = None,
        ctx: Ctx = None,
    ) -> CallToolResult:
        """Does a change help? Control against treatment on fresh seeds, in the background, with a verdict. Then wait_for_run."""
        patch = as_changes(changes)
        named = [] if resume else [run_id] if isinstance(run_id, str) else run_id
        asked: dict[str, Any] = {"rx": rx or [], "changes": patch, "outcome": outcome, "looks": looks, "per_look": per_look}
        asked |= {
            "targets": [self.settings.config(each, patch, self.store) for each in named],
            "max_env_steps": max_env_steps,
            "threshold": threshold,
        }
        request = TrialRequest(**({} if resume else asked), runs_dir=self.root)
        if dry_run:
            preview = trial.plan_trial(request)
            return answer(study.preview(preview), preview.model_dump(mode="json", exclude={"plan", "schema_version"}))
        start = TrialStart(**request.model_dump(), resume=resume)
        job = jobs.start_trial(
            start, by=self._by(ctx), idempotency_key=idempotency_key, hypothesis=hypothesis, max_wall_seconds=max_wall_seconds
        )
        return answer(study.job(job), {**study.job_data(job), "trial_id": job.refers})

    def start_optimize(
        self,
        run_id: Annotated[str, Field(description="Group to begin with, or ENV:VARIANT.")] = "@last",
        budget_env_steps: Annotated[int, Field(ge=1, description="For everything, the confirmation included.")] = 3_000_000,
        outcome: Annotated[Goal, Field(description="steps, wall, return or stability.")] = "steps",
        run_env_steps: Steps = None,
        overrides: Overrides = None,
        resume: Annotated[str | None, Field(description="Search to go on with.")] = None,
        hypothesis: Why = "",
        idempotency_key: Key = None,
        max_wall_seconds: Wall = None,
        ctx: Ctx = None,
    ) -> CallToolResult:
        """Search for a better config (diagnose, prescribe, screen, confirm on fresh seeds) in the background. Then wait_for_run."""
        changes = as_changes(overrides)
        wanted: dict[str, Any] = {"budget": budget_env_steps, "outcome": outcome, "run_env_steps": run_env_steps, "changes": changes}
        wanted |= {} if resume else {"target": self.settings.config(run_id, changes, self.store)}
        request = OptimizeRequest(**({"resume": resume} if resume else wanted), runs_dir=self.root)
        job = jobs.start_optimize(
            request, by=self._by(ctx), idempotency_key=idempotency_key, hypothesis=hypothesis, max_wall_seconds=max_wall_seconds
        )
        return answer(study.job(job), {**study.job_data(job), "search_id": job.refers})

    def start_sensitivity(
        self,
        run_id: Annotated[str, Field(description="Group whose config is varied, or ENV:VARIANT.")] = "@last",
        only: Annotated[list[str] | None, Field(description="Numbers to vary; none: all of the algorithm's.")] = None,
        seeds: Annotated[int, Field(ge=2, le=64, description="Of every config.")] = 4,
        factors: Annotated[list[float] | None, Field(description="Times and divided by these; 2 and 4.")] = None,
        overrides: Overrides = None,
        resume: Annotated[str | None, Field(description="Study to go on with.")] = None,
        dry_run: Annotated[bool, Field(description="Say what it costs; start nothing.")] = False,
        hypothesis: Why = "",
        idempotency_key: Key = None,
        max_wall_seconds: Wall = None,
        ctx: Ctx = None,
    ) -> CallToolResult:
        """Which numbers of a config matter? Each times and divided, on shared seeds, in the background. Then wait_for_run."""
        changes = as_changes(overrides)
        wanted: dict[str, Any] = {"only": only or [], "seeds": seeds, "changes": changes} | ({"factors": factors} if factors else {})
        wanted |= {} if resume else {"target": self.settings.config(run_id, changes, self.store)}
        request = SensitivityRequest(**({"resume": resume} if resume else wanted), runs_dir=self.root)
        if dry_run:
            scope = Scope(request.factors, request.seeds, request.only)
            planned = sensitivity.plan(request.target, self.root, scope, request.changes)
            return answer(study.variations(planned), {"runs": planned.runs, "max_env_steps": planned.max_env_steps})
        job = jobs.start_sensitivity(
            request, by=self._by(ctx), idempotency_key=idempotency_key, hypothesis=hypothesis, max_wall_seconds=max_wall_seconds
        )
        return answer(study.job(job), {**study.job_data(job), "study_id": job.refers})

    def stop_training(
        self,
        run_id: Annotated[str, Field(description="Run, group, trial, search, study or job; @running stops everything that trains.")],
        ctx: Ctx = None,
    ) -> CallToolResult:
        """Ask it to write checkpoints and stop; it can be taken up again."""
        done = audited.stop_training(run_id, self.root, by=self._by(ctx))
        said = (
            f"job {done.job} was told to stop" if done.job else f"{len(done.runs)} runs stop after a checkpoint: {', '.join(done.runs[:8])}"
        )
        data = {"success": True, "message": said, **done.model_dump(mode="json", exclude={"schema_version"})}
        return answer(f'{said}\nnext: wait_for_run(run_id="{run_id}")', data)

    def adjust_run(
        self,
        run_id: RunId,
        changes: Annotated[dict[str, Any] | list[str], Field(description='Numbers of the algorithm: {"algo.ent_coef": 0.01}.')],
        ctx: Ctx = None,
    ) -> CallToolResult:
        """Change a number while a run trains (learning_rate, ent_coef, clip_range, …); recorded, and replayed by a resume."""
        done = audited.adjust_run(run_id, as_changes(changes), self.root, by=self._by(ctx))
        said = ", ".join(f"{key} = {value}" for key, value in done.changes.items())
        return answer(
            f"{len(done.runs)} runs will set {said} at their next iteration", done.model_dump(mode="json", exclude={"schema_version"})
        )

    def adopt(
        self,
        trial_id: Annotated[str, Field(description="A trial whose verdict is adopt.")],
        as_variant: Annotated[str, Field(description="ENV:NAME, a new name.")],
        dry_run: bool = False,
        ctx: Ctx = None,
    ) -> CallToolResult:
        """Keep a trial's winner as a variant in ./config/environments, with its evidence as comments."""
        done = audited.adopt_trial(trial_id, as_variant, self.root, by=self._by(ctx), dry_run=dry_run)
        verb = "wrote" if done.written else "would write"
        lines = [f"{verb} {done.ref} into {done.file}: {'; '.join(done.changes) or 'no change against the control'}"]
        lines += done.evidence[:3]
        lines.append(f'next: start_training(config_id="{done.ref}", seeds=8)')
        return answer("\n".join(lines), done.model_dump(mode="json", exclude={"schema_version"}))

    def import_run(
        self,
        path: Annotated[str, Field(description="Another framework's log folder or file, inside the project.")],
        name: Annotated[str | None, Field(description="Id of the new group.")] = None,
        threshold: Threshold = None,
        budget_env_steps: int | None = None,
        ctx: Ctx = None,
    ) -> CallToolResult:
        """Copy runs of SB3, CleanRL, gymnasium-solver, TensorBoard or CSV logs into the store; the folder is only read."""
        wanted = self.settings.path(path, self.root)
        done = audited.import_run(wanted, self.root, by=self._by(ctx), name=name, threshold=threshold, budget=budget_env_steps)
        lines = [
            f"{row.run} · {row.source} · {row.env or '?'} · {row.algo or '?'} · {row.env_steps:,} env steps · {row.metrics} series"
            for row in done.runs[:12]
        ]
        lines += [f"note: {clip(note, 160)}" for row in done.runs[:1] for note in row.notes[:4]]
        return answer("\n".join([*lines, "next: " + " | ".join(say(each) for each in done.next)]), done.model_dump(mode="json"))

    def evaluate_checkpoint(
        self,
        run_id: Annotated[str, Field(description="RUN (its best), RUN/@last, RUN@STEP; a group: its best run.")] = "@last",
        episodes: Annotated[int, Field(ge=1, le=200)] = 20,
        deterministic: bool = True,
        ctx: Ctx = None,
    ) -> CallToolResult:
        """Score a checkpoint from fixed start states, in a process of its own. Its env steps count against the budget."""
        done = audited.evaluate_checkpoint(run_id, self.root, by=self._by(ctx), episodes=episodes, deterministic=deterministic)
        bar = (
            ""
            if done.threshold is None
            else f" · threshold {number(done.threshold, 4)} {'REACHED' if done.return_mean >= done.threshold else 'MISSED'}"
        )
        text = (
            f"{done.run}@{done.step} on {done.env}: return {number(done.return_mean)} ± {number(done.return_std)}, {done.episodes} episodes"
        )
        text += f" (min {number(done.return_min)}, max {number(done.return_max)}, length {number(done.length_mean)}){bar}"
        return answer(text, done.model_dump(mode="json", exclude={"returns", "schema_version"}))
