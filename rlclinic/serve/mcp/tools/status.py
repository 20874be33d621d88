"""Tools for runs that train now: how they stand, stopping them, changing their numbers."""

from mcp_types import CallToolResult

from rlclinic.errors import NotFound
from rlclinic.ops.jobs import audited
from rlclinic.ops.status.requests import AdjustRequest, StatusRequest, StopRequest
from rlclinic.serve.mcp.replies import answer, in_call, one_line
from rlclinic.serve.mcp.text import runs
from rlclinic.serve.mcp.tools.base import Ctx, Tools, takes_arguments


class StatusTools(Tools):
    """Whether to go on."""

    @takes_arguments
    def get_training_status(self, request: StatusRequest, include_details: bool = True) -> CallToolResult:
        """Is it going well, or should it stop? Progress, chance of reaching the threshold, what to watch, what to do."""
        from rlclinic.ops.status.status import get_training_status

        run_id = str(request.selector)
        try:
            report = get_training_status(self.settings.path(run_id, self.root), self.root)
        except NotFound:
            if run_id != "@running":
                raise
            report = get_training_status("@last", self.root)
        return answer(runs.status(report), runs.status_data(report, self.store, include_details))

    @takes_arguments
    def stop_training(self, request: StopRequest, ctx: Ctx = None) -> CallToolResult:
        """Ask it to write checkpoints and stop; it can be taken up again."""
        done = audited.stop_training(request.target, self.root, by=self.caller(ctx))
        text = (
            f"job {done.job} was told to stop" if done.job else f"{len(done.runs)} runs stop after a checkpoint: {', '.join(done.runs[:8])}"
        )
        data = {"success": True, "message": text, **done.model_dump(mode="json", exclude={"schema_version"})}
        return answer(f"{text}\nnext: wait_for_run(run_id={in_call(request.target)})", data)

    @takes_arguments
    def adjust_run(self, request: AdjustRequest, ctx: Ctx = None) -> CallToolResult:
        """Change a number while a run trains (learning_rate, ent_coef, clip_range, …); recorded, and replayed by a resume."""
        done = audited.adjust_run(request.target, request.changes, self.root, by=self.caller(ctx))
        changes = one_line(", ".join(f"{key} = {value}" for key, value in done.changes.items()))
        return answer(
            f"{len(done.runs)} runs will set {changes} at their next iteration", done.model_dump(mode="json", exclude={"schema_version"})
        )
