"""The tool that compares."""

from typing import Annotated

from mcp_types import CallToolResult
from pydantic import Field

from rlclinic.ops.compare.requests import CompareRequest
from rlclinic.serve.mcp.replies import answer
from rlclinic.serve.mcp.text import runs
from rlclinic.serve.mcp.tools.base import Tools, takes_arguments


class CompareTools(Tools):
    """Which is better."""

    @takes_arguments
    def compare_runs(
        self,
        request: CompareRequest,
        metrics: Annotated[list[str] | None, Field(description="Columns whose last values are wanted, too.")] = None,
    ) -> CallToolResult:
        """Which is better, how sure is that, and which settings differ. Tests over seeds; never ranks on one seed each."""
        from rlclinic.ops.compare.compare import compare

        for target in request.targets:
            self.settings.path(target, self.root)
        result = compare(**request.arguments, runs_dir=self.root)
        values = {name: runs.last_values(self.store, name, metrics or []) for name in request.targets}
        return answer(runs.comparison(result, values), runs.comparison_data(result, values, metrics))
