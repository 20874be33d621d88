"""Resources: what lies in the store and in the catalogues, as documents. Prompts: the roles, for clients without agent files."""

import json
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from rlclinic import metrics
from rlclinic.errors import NotFound, RlclinicError
from rlclinic.ops.diagnose.rules import list_rules
from rlclinic.ops.jobs import audit, daily_report
from rlclinic.ops.runs.environments import list_environments
from rlclinic.report.document import escape_json, render_markdown
from rlclinic.report.jobs.daily_report import describe
from rlclinic.runs.record import Checkpoint, Group, Run
from rlclinic.runs.store import Store
from rlclinic.serve.agents import roles
from rlclinic.serve.confined import check_named
from rlclinic.serve.mcp.replies import describe_error, say

JSON, MARKDOWN = "application/json", "text/markdown"


def register(server: MCPServer, store: Store, *, local: bool = True) -> None:
    """Add every resource and every prompt."""
    documents = _Documents(store, local)
    for uri, read, mime in (
        ("rl://runs/{run_id}/config", documents.config, JSON),
        ("rl://runs/{run_id}/report", documents.report, MARKDOWN),
        ("rl://runs/{run_id}/diagnosis", documents.diagnosis, JSON),
        ("rl://catalog/metrics", documents.metrics, JSON),
        ("rl://catalog/rules", documents.rules, JSON),
        ("rl://catalog/algorithms", documents.algorithms, JSON),
        ("rl://catalog/environments", documents.environments, JSON),
        ("rl://ledger", documents.ledger, JSON),
        ("rl://morning-report", documents.morning_report, MARKDOWN),
    ):
        server.resource(uri, name=uri.removeprefix("rl://"), description=read.__doc__, mime_type=mime)(read)
    for role in roles.ROLES:
        server.prompt(name=role.name, description=role.description)(_prompt(role))


def _prompt(role: roles.Role) -> Any:
    def text(run_id: str = "@last") -> str:
        return f"{role.body()}\n\nThe run or group to look at: {run_id}"

    return text


class _Documents:
    """What can be read, by address."""

    def __init__(self, store: Store, local: bool) -> None:
        self._store, self._local = store, local

    def config(self, run_id: str) -> str:
        """The whole config of a run or group, with origins and versions."""
        return escape_json(json.dumps(self._owner(run_id).record, indent=1, default=str))

    def report(self, run_id: str) -> str:
        """The report of a group, or of the group that a run belongs to, as Markdown."""
        from rlclinic.ops.diagnose.diagnose import examine_group
        from rlclinic.report.group import describe_group, markdown

        group = self._group(run_id)
        diagnosis = examine_group(group)
        if diagnosis is None:
            raise ResourceNotFoundError(f"{group.id} has no run that could be reported on")
        return markdown(describe_group(group), diagnosis)

    def diagnosis(self, run_id: str) -> str:
        """The whole diagnosis of a run or group, with every finding and its evidence."""
        from rlclinic.ops.diagnose.diagnose import diagnose

        return escape_json(diagnose(self._owner(run_id).id, self._store.root, write=False).diagnosis.model_dump_json(indent=1))

    def metrics(self) -> str:
        """Every metric: meaning, unit, estimator, healthy band and its source."""
        rows = [
            {"name": each.name, "meaning": each.meaning, "unit": each.unit, "estimator": each.estimator}
            | ({"band": [each.band.low, each.band.high], "source": each.band.source, "when": each.band.when} if each.band else {})
            for each in metrics.METRICS.values()
        ]
        return json.dumps(rows).replace("Infinity", '"inf"')

    def rules(self) -> str:
        """Every check: id, name, family, severity, what it needs."""
        return json.dumps([row.model_dump(mode="json") for row in list_rules().rules])

    def algorithms(self) -> str:
        """Every algorithm with its settings: meaning, default, bounds."""
        return json.dumps(roles.algorithms())

    def environments(self) -> str:
        """Environments with tuned variants, thresholds and measured results."""
        return list_environments().model_dump_json()

    def ledger(self) -> str:
        """What was tried in this store: hypothesis, change, outcome; newest first."""
        return escape_json(audit.get_ledger(self._store.root).model_dump_json())

    def morning_report(self) -> str:
        """What ran in the last day, what was found, what is adopted, what is left."""
        return render_markdown(describe(daily_report.morning_report(self._store.root), say))

    def _owner(self, name: str) -> Run | Group:
        try:
            if not self._local:
                check_named(self._store, name)
            selected = self._store.resolve(name)
        except NotFound as error:
            raise ResourceNotFoundError(describe_error(*error.parts)) from error
        except RlclinicError as error:
            raise ResourceError(describe_error(*error.parts)) from error
        return selected.run if isinstance(selected, Checkpoint) else selected

    def _group(self, name: str) -> Group:
        owner = self._owner(name)
        if isinstance(owner, Group):
            return owner
        if owner.group is None:
            raise ResourceNotFoundError(f"run {owner.id} belongs to no group that is here")
        return owner.group
