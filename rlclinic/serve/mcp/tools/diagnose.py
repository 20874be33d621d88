"""Tools that say what is wrong and what to change, check settings, and explain rules and questions."""

from mcp_types import CallToolResult

from rlclinic.errors import ConfigError
from rlclinic.ops.diagnose.ask import guides
from rlclinic.ops.diagnose.ask.answer import ask
from rlclinic.ops.diagnose.requests import AskRequest, DiagnoseRequest, GuideRequest, PrescribeRequest, RuleRequest
from rlclinic.ops.runs.requests import ConfigRequest
from rlclinic.report.document import render_compact
from rlclinic.report.guide import describe, describe_list
from rlclinic.serve.mcp.replies import answer, clip, describe_error, one_line, say
from rlclinic.serve.mcp.text import diagnosis, study
from rlclinic.serve.mcp.tools.base import Detail, Tools, takes_arguments


class DiagnoseTools(Tools):
    """What ails a run, and what would help."""

    @takes_arguments
    def diagnose_run(self, request: DiagnoseRequest, detail: Detail = "concise") -> CallToolResult:
        """Why a run or group does not learn: ranked causes with probabilities, evidence, what to change."""
        from rlclinic.ops.diagnose.diagnose import diagnose

        self.settings.path(request.target, self.root)
        if request.env is not None:
            self.settings.environment(request.env)
        result = diagnose(**request.arguments, runs_dir=self.root, write=False, own_env=True)
        full = detail == "detailed"
        texts = [diagnosis.detailed(each) if full else diagnosis.concise(each) for each in (result, *result.more[:2])]
        data = diagnosis.data(result, full)
        data |= {"more": [diagnosis.data(each, full=False) for each in result.more]} if result.more else {}
        return answer("\n\n".join(texts), data)

    @takes_arguments
    def prescribe(self, request: PrescribeRequest) -> CallToolResult:
        """Which settings to change, to which values, why, and what to expect: at most three, ready for start_trial."""
        from rlclinic.ops.diagnose.prescribe import prescribe

        self.settings.path(request.target, self.root)
        result = prescribe(**request.arguments, runs_dir=self.root)
        return answer(study.prescriptions(result), study.prescriptions_data(result))

    @takes_arguments
    def validate_config(self, request: ConfigRequest) -> CallToolResult:
        """Check settings before anything is spent: schema, risky combinations, and the numbers that follow from them."""
        from rlclinic.ops.diagnose.lint import lint
        from rlclinic.ops.runs.environments import show_config

        config_id, changes = request.ref, request.changes
        try:
            # Here, and not before: a config that cannot be is an answer, not a failure of the tool.
            self.settings.config(config_id, changes, self.store)
            checked = lint(config_id, changes, self.root).lint
            view = show_config(config_id, changes, self.root)
        except ConfigError as error:
            return answer(
                f"INVALID  {describe_error(*error.parts)}", {"config_id": config_id, "valid": False, "error": str(error), "findings": []}
            )
        findings = [{"rule": finding.rule, "severity": finding.severity.value, "text": finding.text} for finding in checked.findings]
        lines = [f"VALID  {one_line(view.name)} · {checked.checks} checks, {len(findings)} findings"]
        lines += [f"{finding['severity'].upper()} {finding['rule']}: {clip(finding['text'], 200)}" for finding in findings]
        lines.append("follows: " + ", ".join(f"{key} {value:g}" for key, value in checked.derived.items()))
        data = {"config_id": config_id, "valid": True, "findings": findings, "derived": checked.derived, "config": view.config}
        return answer("\n".join(lines), data)

    @takes_arguments
    def explain_rule(self, request: RuleRequest) -> CallToolResult:
        """What a check looks for, why it hurts, when it is fine, its thresholds, and where that is known from."""
        from rlclinic.ops.diagnose.rules import explain_rule

        page = explain_rule(str(request.rule))
        return answer(page.text, page.model_dump(mode="json", exclude={"text", "schema_version"}))

    @takes_arguments
    def get_guide(self, request: GuideRequest) -> CallToolResult:
        """Which tools answer a question, also one that no run can (offline RL, DAgger, rewards, is RL needed); what cannot be told."""
        if not request.question.strip():
            listed = guides.list_guides()
            names = [{"name": guide.name, "question": guide.question} for guide in listed.guides]
            return answer(render_compact(describe_list(listed), 400, say), {"guides": names})
        page = guides.get_guide(request.question)
        data = page.model_dump(mode="json", exclude={"schema_version"})
        if request.question.strip().lower() == page.guide.name or request.question.strip().isdecimal():
            return answer(render_compact(describe(page, for_agent=True), 1_200, say), data)
        # Asked in words: with what the store says about it.
        known = ask(AskRequest(question=request.question, runs_dir=self.root))
        facts = known.facts if known.name == page.guide.name else []
        text = "\n".join([render_compact(describe(page, for_agent=True), 1_200, say), *(f"here: {clip(fact, 300)}" for fact in facts)])
        return answer(text, data | {"facts": facts})
