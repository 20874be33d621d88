"""Tools for what goes on in the background: waiting for it, and what came of it."""

from typing import Annotated

import anyio
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import Field

from rlclinic.ops.jobs import daily_report, progress
from rlclinic.ops.jobs.requests import ReportRequest
from rlclinic.report.document import render_compact
from rlclinic.report.jobs.daily_report import describe
from rlclinic.serve.mcp.replies import answer, say
from rlclinic.serve.mcp.text import study
from rlclinic.serve.mcp.tools.base import Tools, takes_arguments

LOOK_SECONDS = 0.5
MOST_LINES = 40
"""Of each part of a morning report, in the data."""


class JobTools(Tools):
    """Waiting, and the morning after."""

    async def wait_for_run(
        self,
        run_id: Annotated[str, Field(description="Run, group, trial, search, study or job id; @last, @running.")] = "@last",
        timeout_s: Annotated[float, Field(ge=0, le=600, description="Seconds to wait at most.")] = 50.0,
        past_alerts: Annotated[bool, Field(description="Wait on, although a run failed or is forecast to be in vain.")] = False,
        ctx: Context | None = None,
    ) -> CallToolResult:
        """Wait until it is done, fails, or is forecast to be in vain; returns how it stands. Call again to go on waiting."""
        began = anyio.current_time()
        forecast_at = began + progress.OUTLOOK_SECONDS
        while True:
            now = anyio.current_time()
            due = now >= forecast_at
            now_at = await anyio.to_thread.run_sync(lambda due=due: progress.get_progress(run_id, self.root, forecast=due))  # type: ignore[misc]
            forecast_at = now + progress.OUTLOOK_SECONDS if due else forecast_at
            waited = anyio.current_time() - began
            if now_at.done or (now_at.alert is not None and not past_alerts) or waited >= timeout_s:
                ended = now_at.model_copy(update={"waited_seconds": round(waited, 1)})
                return answer(study.waited(ended), ended.model_dump(mode="json", exclude={"schema_version"}))
            if ctx is not None:
                await ctx.report_progress(now_at.env_steps, now_at.max_env_steps, now_at.state)
            await anyio.sleep(min(LOOK_SECONDS, max(0.0, timeout_s - waited)))

    @takes_arguments
    def morning_report(self, request: ReportRequest) -> CallToolResult:
        """What ran, what was found, what is adopted, what is left to do, and what is left of the budget."""
        report = daily_report.morning_report(self.root, hours=request.hours)
        data = report.model_dump(mode="json", exclude={"text", "schema_version"})
        shown = {key: value[:MOST_LINES] if isinstance(value, list) else value for key, value in data.items()}
        return answer(render_compact(describe(report, say), 400), shown)
