"""Tools that train."""

from mcp_types import CallToolResult

from rlclinic.ops.jobs import start
from rlclinic.ops.jobs.requests import StartRequest
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.serve.mcp.replies import answer
from rlclinic.serve.mcp.text import study
from rlclinic.serve.mcp.tools.base import Ctx, Tools, takes_arguments


class TrainTools(Tools):
    """Training in the background."""

    @takes_arguments
    def start_training(self, request: TrainRequest, about: StartRequest, ctx: Ctx = None) -> CallToolResult:
        """Train in the background; returns the group and run ids at once. It outlives this server. Then wait_for_run."""
        job = start.start_training(request, by=self.caller(ctx), **about.arguments)
        return answer(study.job(job), {**study.job_data(job), "config_id": request.ref})
