"""Tools that explain and advise: prescriptions, trials, searches, rules, configs, environments, pictures, the morning report."""

import base64
import json
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, ImageContent
from pydantic import Field

from rlclinic.errors import ConfigError, NotFound
from rlclinic.ops.diagnose import guides
from rlclinic.ops.jobs import daily_report, progress
from rlclinic.ops.runs import plot
from rlclinic.runs.store import Store
from rlclinic.serve.mcp.replies import answer, clip, morning, say
from rlclinic.serve.mcp.settings import Settings
from rlclinic.serve.mcp.text import study
from rlclinic.serve.mcp.tools.reading import Target, Threshold

Overrides = Annotated[
    dict[str, Any] | list[str] | None, Field(description='Settings to change: {"algo.learning_rate": 1e-3} or ["algo.ent_coef=0.01"].')
]
LOOK_SECONDS = 0.5
MOST_LINES = 40
"""Of each part of a morning report, in the data."""


def as_changes(overrides: dict[str, Any] | list[str] | None) -> list[str]:
    """KEY=VALUE texts, as the operations take them."""
    if isinstance(overrides, dict):
        return [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in overrides.items()]
    return list(overrides or [])


class Advising:
    """The tools that look further than one run's files."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store, self.root, self.settings = store, store.root, settings

    def prescribe(self, run_id: Target = "@last", threshold: Threshold = None) -> CallToolResult:
        """Which settings to change, to which values, why, and what to expect: at most three, ready for start_trial."""
        from rlclinic.ops.diagnose.prescribe import prescribe

        found = prescribe(self.settings.path(run_id, self.root), self.root, threshold=threshold)
        return answer(study.prescriptions(found), study.prescriptions_data(found))

    def get_trial(self, trial_id: Annotated[str, Field(description="Trial or job id; @last is the newest.")] = "@last") -> CallToolResult:
        """A trial's verdict with its interval, or how far it is."""
        found = progress.get_trial(trial_id, self.root)
        return answer(study.trial(found), study.trial_data(found))

    def get_optimize(
        self, search_id: Annotated[str, Field(description="Search or job id; @last is the newest.")] = "@last"
    ) -> CallToolResult:
        """What a search has tried, its best config so far, whether that was confirmed on fresh seeds, and what it cost."""
        found = progress.get_optimize(search_id, self.root)
        return answer(study.search(found), study.search_data(found))

    def get_sensitivity(
        self, study_id: Annotated[str, Field(description="Study or job id; @last is the newest.")] = "@last"
    ) -> CallToolResult:
        """How much each number of a config matters, the most first, with intervals; or how far the study is."""
        found = progress.get_sensitivity(study_id, self.root)
        return answer(study.sensitivity(found), study.sensitivity_data(found))

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
            found = await anyio.to_thread.run_sync(lambda due=due: progress.get_progress(run_id, self.root, forecast=due))  # type: ignore[misc]
            forecast_at = now + progress.OUTLOOK_SECONDS if due else forecast_at
            waited = anyio.current_time() - began
            if found.done or (found.alert is not None and not past_alerts) or waited >= timeout_s:
                ended = found.model_copy(update={"waited_seconds": round(waited, 1)})
                return answer(study.waited(ended), ended.model_dump(mode="json", exclude={"schema_version"}))
            if ctx is not None:
                await ctx.report_progress(found.env_steps, found.max_env_steps, found.state)
            await anyio.sleep(min(LOOK_SECONDS, max(0.0, timeout_s - waited)))

    def validate_config(
        self,
        config_id: Annotated[str, Field(description="ENV:VARIANT, a YAML file of the project, a run or a group.")],
        overrides: Overrides = None,
    ) -> CallToolResult:
        """Check settings before anything is spent: schema, risky combinations, and the numbers that follow from them."""
        from rlclinic.ops.diagnose.lint import lint
        from rlclinic.ops.runs.environments import show_config

        changes = as_changes(overrides)
        try:
            ref = self.settings.config(config_id, changes, self.store)
            found = lint(ref, changes, self.root).lint
            view = show_config(ref, changes, self.root)
        except ConfigError as error:
            return answer(f"INVALID  {say(*error.parts)}", {"config_id": config_id, "valid": False, "error": str(error), "findings": []})
        findings = [{"rule": each.rule, "severity": each.severity.value, "text": each.text} for each in found.findings]
        lines = [f"VALID  {view.name} · {found.checks} checks, {len(findings)} findings"]
        lines += [f"{each['severity'].upper()} {each['rule']}: {clip(each['text'], 200)}" for each in findings]
        lines.append("follows: " + ", ".join(f"{key} {value:g}" for key, value in found.derived.items()))
        data = {"config_id": config_id, "valid": True, "findings": findings, "derived": found.derived, "config": view.config}
        return answer("\n".join(lines), data)

    def describe_environment(
        self,
        env_id: Annotated[str, Field(description="Id or part of one; empty: all with tuned variants.")] = "",
        examine: Annotated[bool, Field(description="Step it some seconds: spaces, rewards, ends, contract faults.")] = False,
    ) -> CallToolResult:
        """Environments with tuned variants, thresholds and measured results; or one looked at closely before training on it."""
        from rlclinic.ops.diagnose.lint import lint_env
        from rlclinic.ops.runs.environments import list_environments, show_config

        if examine and env_id:
            seen = lint_env(self.settings.environment(env_id), seconds=6.0).lint
            return answer(study.environment(seen), seen.model_dump(mode="json", exclude={"dimensions"}))
        try:
            rows = list_environments(env_id).environments
        except NotFound:
            view = show_config(self.settings.config(env_id, (), self.store), (), self.root)
            text = f"{env_id}: no tuned variant here; it trains with general settings ({view.name}). Look closer: examine=true"
            return answer(text, {"environments": [], "config": view.config})
        return answer(study.environments(rows), {"environments": [row.model_dump(mode="json") for row in rows]})

    def explain_rule(self, rule: Annotated[str, Field(description="Rule id or name: POL101.")]) -> CallToolResult:
        """What a check looks for, why it hurts, when it is fine, its thresholds, and where that is known from."""
        from rlclinic.ops.diagnose.rules import explain_rule

        page = explain_rule(rule)
        return answer(study.rule(page), page.model_dump(mode="json", exclude={"text", "schema_version"}))

    def get_guide(
        self, question: Annotated[str, Field(max_length=300, description="Name, number or words of it; empty: all of them.")] = ""
    ) -> CallToolResult:
        """Which tools answer a question, also one that no run can (offline RL, DAgger, rewards, is RL needed); what cannot be told."""
        if not question.strip():
            listed = guides.list_guides().guides
            return answer(study.guides(listed), {"guides": [{"name": each.name, "question": each.question} for each in listed]})
        page = guides.get_guide(question)
        return answer(study.guide(page), page.model_dump(mode="json", exclude={"schema_version"}))

    def get_plot(
        self,
        run_ids: Annotated[list[str], Field(min_length=1, max_length=8, description="Runs or groups, one colour each.")],
        metric_names: Annotated[list[str] | None, Field(max_length=6, description="Names or parts of them; none: the return.")] = None,
        width: Annotated[int, Field(ge=200, le=1600)] = 640,
        height: Annotated[int, Field(ge=100, le=1000, description="Of one panel.")] = 240,
    ) -> CallToolResult:
        """A PNG of metrics against env steps, with the threshold and the healthy band."""
        found = plot.plot_metrics(run_ids, metric_names or (), self.root, width=width, height=height)
        picture = ImageContent(type="image", data=base64.b64encode(found.png).decode(), mime_type="image/png")
        text = f"{', '.join(found.metrics)} of {', '.join(found.runs)} against env steps"
        return answer(text, {"runs": found.runs, "metrics": found.metrics, "bytes": len(found.png)}, picture)

    def morning_report(self, hours: Annotated[float, Field(gt=0, le=24 * 30)] = 24.0) -> CallToolResult:
        """What ran, what was found, what is adopted, what is left to do, and what is left of the budget."""
        found = daily_report.morning_report(self.root, since_seconds=hours * 3600)
        data = found.model_dump(mode="json", exclude={"text", "schema_version"})
        return answer(morning(found), {key: each[:MOST_LINES] if isinstance(each, list) else each for key, each in data.items()})
