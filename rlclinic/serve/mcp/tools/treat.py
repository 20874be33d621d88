"""Tools that try changes: trials, races, searches, sensitivity studies, and keeping what won."""

from typing import Annotated

from mcp_types import CallToolResult
from pydantic import Field

from rlclinic.errors import UsageError
from rlclinic.ops.jobs import audited, progress, start
from rlclinic.ops.jobs.requests import StartRequest
from rlclinic.ops.treat import questions, sensitivity, trial
from rlclinic.ops.treat.race import plan_race
from rlclinic.ops.treat.requests import AdoptRequest, OptimizeRequest, QuestionsRequest, RaceRequest, SensitivityRequest, TrialRequest
from rlclinic.report.document import render_compact
from rlclinic.report.questions import describe
from rlclinic.serve.mcp.replies import answer, in_call, one_line
from rlclinic.serve.mcp.text import study
from rlclinic.serve.mcp.tools.base import Ctx, Tools, takes_arguments


class TreatTools(Tools):
    """Proving that a change helps."""

    @takes_arguments
    def start_trial(
        self,
        request: TrialRequest,
        about: StartRequest,
        race: Annotated[bool, Field(description="Rank the configs, or values KEY=V1,V2.")] = False,
        dry_run: Annotated[bool, Field(description="Plan it; start nothing.")] = False,
        ctx: Ctx = None,
    ) -> CallToolResult:
        """Does a change help? Control against treatment on fresh seeds, in the background, with a verdict. Then wait_for_run."""
        if race:
            return self._start_race(request, about, dry_run, ctx)
        if dry_run:
            preview = trial.plan_trial(request)
            return answer(study.preview(preview), preview.model_dump(mode="json", exclude={"plan", "schema_version"}))
        job = start.start_trial(request, by=self.caller(ctx), **about.arguments)
        return answer(study.job(job), {**study.job_data(job), "trial_id": job.refers})

    def _start_race(self, request: TrialRequest, about: StartRequest, dry_run: bool, ctx: Ctx) -> CallToolResult:
        """A race of the same configs or values; it takes what it has in common with a trial."""
        if request.rx or request.envs:
            raise UsageError("race=true takes configs, or changes with several values; not rx or envs.\n  Leave them out")
        if request.outcome in ("wall", "stability"):
            raise UsageError(f"race=true with outcome {request.outcome}: arms are raced by steps, return or success.\n  Take one of them")
        shared = {"targets", "changes", "resume", "outcome", "max_env_steps", "threshold", "runs_dir"}
        given = {name: getattr(request, name) for name in shared}
        if request.targets == ["@last"] and (request.changes or request.resume):
            given["targets"] = []
        if request.extend is not None:
            asked = RaceRequest(extend=request.extend, seeds=request.seeds, runs_dir=request.runs_dir)
        else:
            asked = RaceRequest(**given, per_round=request.seeds or request.per_look)
        if dry_run:
            preview = plan_race(asked)
            return answer(study.race_preview(preview), preview.model_dump(mode="json", exclude={"plan", "schema_version"}))
        job = start.start_race(asked, by=self.caller(ctx), **about.arguments)
        return answer(study.job(job), {**study.job_data(job), "race_id": job.refers})

    @takes_arguments
    def start_optimize(self, request: OptimizeRequest, about: StartRequest, ctx: Ctx = None) -> CallToolResult:
        """Search for a better config, confirmed on fresh seeds, in the background. Then wait_for_run."""
        job = start.start_optimize(request, by=self.caller(ctx), **about.arguments)
        return answer(study.job(job), {**study.job_data(job), "search_id": job.refers})

    @takes_arguments
    def start_sensitivity(
        self,
        request: SensitivityRequest,
        about: StartRequest,
        dry_run: Annotated[bool, Field(description="Say what it costs; start nothing.")] = False,
        ctx: Ctx = None,
    ) -> CallToolResult:
        """Which numbers of a config matter? Each times and divided, in the background. Then wait_for_run."""
        if dry_run:
            planned = sensitivity.plan(request)
            return answer(study.variations(planned), {"runs": planned.runs, "max_env_steps": planned.max_env_steps})
        job = start.start_sensitivity(request, by=self.caller(ctx), **about.arguments)
        return answer(study.job(job), {**study.job_data(job), "study_id": job.refers})

    @takes_arguments
    def adopt(self, request: AdoptRequest, ctx: Ctx = None) -> CallToolResult:
        """Keep a trial's winner as a variant in ./config/environments, with its evidence as comments."""
        done = audited.adopt_trial(**request.arguments, runs_dir=self.root, by=self.caller(ctx))
        verb = "wrote" if done.written else "would write"
        lines = [one_line(f"{verb} {done.ref} into {done.file}: {'; '.join(done.changes) or 'no change against the control'}")]
        lines += map(one_line, done.evidence[:3])
        lines.append(f"next: start_training(config_id={in_call(done.ref)}, seeds=8)")
        return answer("\n".join(lines), done.model_dump(mode="json", exclude={"schema_version"}))

    @takes_arguments
    def list_questions(self, request: QuestionsRequest) -> CallToolResult:
        """What was asked of this store, how often, verdicts, error spent."""
        listed = questions.list_questions(request)
        return answer(render_compact(describe(listed), 200), listed.model_dump(mode="json", exclude={"schema_version"}))

    def get_trial(self, trial_id: Annotated[str, Field(description="Trial or job id; @last is the newest.")] = "@last") -> CallToolResult:
        """A trial's verdict with its interval, or how far it is; a race's ranking."""
        if progress.is_regression(trial_id, self.root):
            judged = progress.get_regression(trial_id, self.root)
            return answer(study.gate(judged), study.gate_data(judged))
        if progress.is_race(trial_id, self.root):
            ranked = progress.get_race(trial_id, self.root)
            return answer(study.race(ranked), study.race_data(ranked))
        view = progress.get_trial(trial_id, self.root)
        return answer(study.trial(view), study.trial_data(view))

    def get_optimize(
        self, search_id: Annotated[str, Field(description="Search or job id; @last is the newest.")] = "@last"
    ) -> CallToolResult:
        """What a search has tried, its best config, whether fresh seeds confirmed it, and what it cost."""
        view = progress.get_optimize(search_id, self.root)
        return answer(study.search(view), study.search_data(view))

    def get_sensitivity(
        self, study_id: Annotated[str, Field(description="Study or job id; @last is the newest.")] = "@last"
    ) -> CallToolResult:
        """How much each number of a config matters, with intervals; or how far the study is."""
        view = progress.get_sensitivity(study_id, self.root)
        return answer(study.sensitivity(view), study.sensitivity_data(view))
