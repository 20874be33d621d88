"""The tool that looks at recorded data."""

from typing import Annotated

from mcp_types import CallToolResult
from pydantic import Field

from rlclinic.ops.data.requests import AdviseRequest, EvaluateRequest
from rlclinic.report.dataset import describe, describe_advice, describe_policy
from rlclinic.report.document import render_compact
from rlclinic.serve.mcp.replies import answer, say
from rlclinic.serve.mcp.tools.base import Tools, takes_arguments

LONGEST = 4_000
"""Characters of an answer's text."""


class DataTools(Tools):
    """What to do with recorded data."""

    @takes_arguments
    def advise_data(
        self, request: AdviseRequest, policy: Annotated[str, Field(description="Or: what this run is worth by it.")] = ""
    ) -> CallToolResult:
        """Recorded data: what is in it, what is wrong, and whether imitation, offline, online RL or both suit it, with numbers."""
        self.settings.data(request.data, self.store)
        if policy:
            from rlclinic.ops.data.evaluate import evaluate

            self.settings.path(policy, self.root)
            estimate = evaluate(EvaluateRequest(data=request.data, policy=policy, runs_dir=self.root))
            text = render_compact(describe_policy(estimate), LONGEST, say)
            return answer(text, estimate.model_dump(mode="json", exclude={"schema_version"}))
        from rlclinic.ops.data.advise import advise

        if request.env is not None:
            self.settings.environment(request.env)
        result = advise(request)
        text = render_compact([*describe_advice(result), *describe(result.report)[1:]], LONGEST, say)
        return answer(text, result.model_dump(mode="json", exclude={"schema_version"}))
