"""Every operation, in one table: where its function is, what it does to the world, and what each face calls it.

A face that leaves an operation out says why, and what only one face has is listed below. The MCP server is built from this table,
and a test compares it with what every face really has.
"""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_type_hints

from rlclinic import plugins
from rlclinic.errors import ConfigError

if TYPE_CHECKING:
    from rlclinic.ops.jobs.audit import Caller
    from rlclinic.ops.request import Http, Mcp, Request

Effect = Literal["read", "write", "start"]
"""read: nothing changes. write: files or running processes change. start: a process is started and env steps are spent."""
Face = Literal["cli", "mcp", "http"]
FACES: Final[tuple[Face, ...]] = ("cli", "mcp", "http")
GROUP: Final = "rlclinic.operations"
"""Entry points of other packages."""


@dataclass(frozen=True)
class Operation:
    """One thing that a user or an agent can ask for."""

    function: str
    """module.name in rlclinic.ops."""
    effect: Effect
    cli: str | None = None
    """The command: `runs list`."""
    mcp: str | None = None
    """The tool."""
    http: tuple[str, ...] = ()
    """Routes below /api/v1."""
    title: str = ""
    """The tool's title, for people who watch an agent."""
    destructive: bool = False
    """It may end or overwrite something."""
    absent: dict[Face, str] = field(default_factory=dict)
    """By face: why it is not there."""
    request: str | None = None
    """module.Model in rlclinic.ops: what may be asked of it. An operation from outside takes its request as its only argument."""

    @property
    def call(self) -> Callable[..., Any]:
        """The typed function that every face calls."""
        function: Callable[..., Any] = _load(self.function)
        return function

    @property
    def model(self) -> "type[Request] | None":
        """What may be asked of it, if that is said by a model."""
        if self.request is not None:
            request: type[Request] = _load(self.request)
            return request
        if ":" not in self.function:
            return None
        hints = get_type_hints(self.call)
        return next(kind for name, kind in hints.items() if name != "return")

    def names(self, face: Face) -> tuple[str, ...]:
        """What a face calls it; nothing if it is absent there."""
        name = getattr(self, face)
        return name if isinstance(name, tuple) else (name,) if name else ()


def _load(place: str) -> Any:
    """module.name in rlclinic.ops, or package.module:name anywhere."""
    module, _, name = place.rpartition(":") if ":" in place else place.rpartition(".")
    return getattr(import_module(module if ":" in place else f"rlclinic.ops.{module}"), name)


def find_outside() -> "list[Operation]":
    """Operations of other packages: each entry point of the group rlclinic.operations is an Operation, imported now."""
    from importlib.metadata import entry_points

    outside = [plugins.load(point, "operation") for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)]
    known = {name for operation in OPERATIONS for face in FACES for name in operation.names(face)}
    for operation in outside:
        taken = sorted(known & {name for face in FACES for name in operation.names(face)})
        if taken:
            raise ConfigError(
                f"the operation {operation.function} of another package calls itself {taken[0]}, which rlclinic has.\n"
                "  It could not be told which of the two is meant.\n  Rename it there, or uninstall that package"
            )
    return outside


def has_outside() -> bool:
    """Whether a package beside this one seems to bring operations: a look at files that takes milliseconds, and imports nothing."""
    files = (file for folder in set(sys.path) for file in Path(folder or ".").glob("*.dist-info/entry_points.txt"))
    return any(f"[{GROUP}]" in file.read_text(encoding="utf-8", errors="replace") for file in files)


@cache
def find_argument(option: str, face: "type[Http] | type[Mcp]") -> str | None:
    """What a face calls an option of the command line (`set`, `per_look`): most operations' name for it, None if none takes it there."""
    from rlclinic.ops.request import fields_of

    models = {operation.model for operation in OPERATIONS if operation.request is not None} - {None}
    fields = [field for model in models if model is not None for field in fields_of(model) if field.option == option]
    names = Counter(mark.name or field.name for field in fields if (mark := field.mark(face)) is not None)
    return max(names, key=lambda name: (names[name], name)) if names else None


def run(operation: Operation, request: "Request", by: "Caller") -> Any:
    """Call an operation from outside; what changes something is written into the audit log."""
    if operation.effect != "read":
        from rlclinic.ops.jobs.audit import audit
        from rlclinic.runs.store import Store

        about = request.model_dump(mode="json", exclude={"runs_dir"}, exclude_defaults=True)
        audit(Store(request.runs_dir), by, "start", operation.function, kind=operation.effect, **about)
    return operation.call(request)


_TERMINAL: Final = "needs a terminal or a window"
_OVERVIEW: Final = "list_runs, get_training_status and the job's own tools say it"

OPERATIONS: Final = (
    # ── looking at runs ──
    Operation(
        "runs.listing.list_runs",
        "read",
        "runs list",
        "list_runs",
        ("GET /runs", "GET /groups"),
        "List runs",
        request="runs.requests.ListRequest",
    ),
    Operation(
        "runs.table.show_table",
        "read",
        "runs table",
        http=("GET /table",),
        absent={"mcp": "list_runs and compare_runs answer it in fewer words"},
    ),
    Operation(
        "runs.listing.get_run_info",
        "read",
        "runs show",
        "get_run_info",
        ("GET /runs/{run}", "GET /groups/{group}"),
        "Run: config, result",
        request="runs.requests.RunRequest",
    ),
    Operation(
        "runs.series.get_metric_rows",
        "read",
        "runs metrics",
        "get_run_metrics",
        ("GET /runs/{run}/metrics", "GET /groups/{group}/metrics", "GET /curves", "GET /runs/{run}/metrics.csv"),
        "Run: series",
        request="runs.requests.MetricsRequest",
    ),
    Operation(
        "runs.listing.get_run_logs",
        "read",
        "runs logs",
        "get_run_logs",
        ("GET /runs/{run}/log",),
        "Run: log",
        request="runs.requests.LogsRequest",
    ),
    Operation(
        "runs.listing.list_checkpoints",
        "read",
        "runs checkpoints",
        "list_checkpoints",
        ("GET /runs/{run}/checkpoints",),
        "Run: checkpoints",
        request="runs.requests.RunRequest",
    ),
    Operation(
        "status.status.get_training_status",
        "read",
        "status",
        "get_training_status",
        ("GET /status",),
        "Status and forecast",
        request="status.requests.StatusRequest",
    ),
    Operation(
        "jobs.progress.wait_for_run",
        "read",
        mcp="wait_for_run",
        title="Wait",
        absent={"cli": "`status --watch` waits at a terminal", "http": "the event streams tell it at once"},
    ),
    Operation(
        "compare.compare.compare",
        "read",
        "compare",
        "compare_runs",
        ("GET /compare",),
        "Compare",
        request="compare.requests.CompareRequest",
    ),
    Operation(
        "runs.plot.plot_metrics",
        "read",
        mcp="get_plot",
        http=("GET /plot.png",),
        title="Plot",
        absent={"cli": "`runs show` and reports draw curves"},
    ),
    Operation(
        "tasks.explore.explore",
        "read",
        "explore",
        http=("GET /groups/{group}/exploration",),
        absent={"mcp": "diagnose_run names the cause; an agent with a terminal types it"},
        request="diagnose.requests.ExploreRequest",
    ),
    Operation(
        "tasks.curriculum.show_curriculum",
        "read",
        "curriculum show",
        http=("GET /groups/{group}/curriculum",),
        absent={"mcp": "get_run_metrics has its columns; an agent with a terminal types it"},
        request="diagnose.requests.CurriculumRequest",
    ),
    Operation(
        "tasks.reward.balance_reward",
        "read",
        "reward balance",
        http=("GET /groups/{group}/reward-balance",),
        absent={"mcp": "an agent with a terminal types it"},
        request="diagnose.requests.RewardBalanceRequest",
    ),
    Operation(
        "tasks.reward.check_reward",
        "read",
        "reward check",
        absent={"mcp": "an agent with a terminal types it", "http": "a browser has no environments on the server's disk"},
        request="diagnose.requests.RewardCheckRequest",
    ),
    Operation(
        "tasks.new_env.write_environment",
        "write",
        "new env",
        absent={
            "mcp": "an agent that can edit the files has a terminal and types it",
            "http": "a browser has no folder on the server's disk",
        },
        request="diagnose.requests.NewEnvRequest",
    ),
    Operation(
        "diagnose.history.history_of",
        "read",
        "history",
        http=("GET /history",),
        absent={"mcp": "compare_runs, list_runs and diagnose_run (best here) answer it in fewer words"},
        request="diagnose.requests.HistoryRequest",
    ),
    Operation(
        "diagnose.write_reports.get_group_report",
        "read",
        "runs show --report",
        absent={"mcp": "is the resource rl://runs/{run_id}/report", "http": "`GET /groups/{group}` has it, and its files"},
    ),
    # ── diagnosis and treatment ──
    Operation(
        "diagnose.diagnose.diagnose",
        "read",
        "diagnose",
        "diagnose_run",
        ("GET /groups/{group}/diagnosis", "GET /runs/{run}/diagnosis", "POST /groups/{group}/diagnosis"),
        "Diagnose",
        request="diagnose.requests.DiagnoseRequest",
    ),
    Operation(
        "diagnose.prescribe.prescribe",
        "read",
        "prescribe",
        "prescribe",
        ("GET /groups/{group}/prescriptions",),
        "Prescribe",
        request="diagnose.requests.PrescribeRequest",
    ),
    Operation(
        "treat.probe.run",
        "start",
        "diagnose --probe",
        absent={"mcp": "start_trial tries the changes that tell causes apart", "http": "needs somebody who watches its cost"},
    ),
    Operation(
        "diagnose.ask.answer.ask",
        "read",
        "ask",
        http=("GET /ask",),
        absent={"mcp": "is get_guide(question): what no guide's words fit is looked up the same way"},
    ),
    Operation(
        "diagnose.ask.guides.get_guide",
        "read",
        "guide",
        "get_guide",
        ("GET /guides/{name}",),
        "Guide to a question",
        request="diagnose.requests.GuideRequest",
    ),
    Operation(
        "diagnose.ask.guides.list_guides", "read", "guide --all", http=("GET /guides",), absent={"mcp": "is get_guide() without a question"}
    ),
    Operation(
        "diagnose.rules.explain_rule",
        "read",
        "rules",
        "explain_rule",
        ("GET /rules/{id}",),
        "Explain a check",
        request="diagnose.requests.RuleRequest",
    ),
    Operation(
        "diagnose.rules.list_rules", "read", "rules --family", http=("GET /rules",), absent={"mcp": "is the resource rl://catalog/rules"}
    ),
    Operation("jobs.progress.get_trial", "read", "trial --show", "get_trial", ("GET /trials/{id}",), "Trial: verdict"),
    Operation(
        "treat.trial.list_trials", "read", "trial --list", http=("GET /trials",), absent={"mcp": "morning_report lists what was tried"}
    ),
    Operation(
        "treat.questions.list_questions",
        "read",
        "questions",
        "list_questions",
        ("GET /questions",),
        "Questions asked",
        request="treat.requests.QuestionsRequest",
    ),
    Operation(
        "treat.trial.plan_trial", "read", "trial --dry-run", http=("POST /trials/preview",), absent={"mcp": "is start_trial(dry_run=true)"}
    ),
    Operation("jobs.progress.get_race", "read", "race --show", http=("GET /races/{id}",), absent={"mcp": "is get_trial(trial_id=RACE)"}),
    Operation("treat.race.list_races", "read", "race --list", http=("GET /races",), absent={"mcp": "morning_report lists what was tried"}),
    Operation(
        "treat.race.plan_race",
        "read",
        "race --dry-run",
        http=("POST /races/preview",),
        absent={"mcp": "is start_trial(race=true, dry_run=true)"},
    ),
    Operation(
        "treat.optimize.plan",
        "read",
        "optimize --dry-run",
        absent={"mcp": "a search takes its budget, and says so when it starts", "http": "as in MCP"},
    ),
    Operation(
        "jobs.progress.get_optimize",
        "read",
        "optimize --resume",
        "get_optimize",
        ("GET /studies", "GET /studies/optimize/{id}"),
        "Search: result",
    ),
    Operation(
        "treat.sensitivity.plan",
        "read",
        "sensitivity --dry-run",
        http=("POST /studies/sensitivity/preview",),
        absent={"mcp": "is start_sensitivity(dry_run=true)"},
    ),
    Operation(
        "jobs.progress.get_sensitivity",
        "read",
        "sensitivity --resume",
        "get_sensitivity",
        ("GET /studies/sensitivity/{id}",),
        "Sensitivity: result",
    ),
    Operation(
        "jobs.progress.get_regression",
        "read",
        "regress --resume",
        http=("GET /regressions/{id}",),
        absent={"mcp": "is get_trial(trial_id=GATE)"},
    ),
    # ── before anything is trained ──
    Operation(
        "diagnose.lint.lint",
        "read",
        "lint",
        "validate_config",
        ("POST /config/validate",),
        "Validate a config",
        request="diagnose.requests.LintRequest",
    ),
    Operation(
        "diagnose.lint.lint_env",
        "read",
        "lint --env",
        http=("POST /environments/examine",),
        absent={"mcp": "is describe_environment(examine=true)"},
    ),
    Operation(
        "diagnose.lint.lint_script",
        "read",
        "lint --code",
        absent={"mcp": "an agent that reads scripts has a terminal to type it in", "http": "a browser has no script on the server's disk"},
    ),
    Operation(
        "runs.environments.list_environments",
        "read",
        "envs",
        "describe_environment",
        ("GET /environments",),
        "Environments",
        request="runs.requests.EnvironmentsRequest",
    ),
    Operation(
        "runs.environments.show_config",
        "read",
        "config show",
        http=("GET /groups/{group}/config",),
        absent={"mcp": "validate_config says it"},
        request="runs.requests.ConfigRequest",
    ),
    # ── starting ──
    Operation(
        "jobs.start.start_training",
        "start",
        "train",
        "start_training",
        ("POST /trainings",),
        "Train",
        request="train.requests.TrainRequest",
    ),
    Operation(
        "jobs.start.start_trial", "start", "trial", "start_trial", ("POST /trials",), "Try a change", request="treat.requests.TrialRequest"
    ),
    Operation(
        "jobs.start.start_race",
        "start",
        "race",
        http=("POST /races",),
        absent={"mcp": "is start_trial(race=true)"},
        request="treat.requests.RaceRequest",
    ),
    Operation(
        "jobs.start.start_optimize",
        "start",
        "optimize",
        "start_optimize",
        ("POST /studies/optimize",),
        "Search",
        request="treat.requests.OptimizeRequest",
    ),
    Operation(
        "jobs.start.start_sensitivity",
        "start",
        "sensitivity",
        "start_sensitivity",
        ("POST /studies/sensitivity",),
        "Which numbers matter",
        request="treat.requests.SensitivityRequest",
    ),
    Operation(
        "jobs.start.start_regression",
        "start",
        "regress --detach",
        http=("POST /regressions",),
        absent={"mcp": "a gate for CI; agents compare_runs or start_trial"},
        request="compare.requests.RegressRequest",
    ),
    Operation(
        "jobs.audited.evaluate_checkpoint",
        "start",
        "evaluate",
        "evaluate_checkpoint",
        ("POST /runs/{run}/evaluations",),
        "Evaluate",
        request="runs.requests.EvaluateRequest",
    ),
    # ── changing what runs or is kept ──
    Operation(
        "jobs.audited.stop_training",
        "write",
        "stop",
        "stop_training",
        ("POST /runs/{run}/stop", "POST /groups/{group}/stop", "POST /jobs/{id}/stop"),
        "Stop",
        destructive=True,
        request="status.requests.StopRequest",
    ),
    Operation(
        "jobs.audited.adjust_run",
        "write",
        "adjust",
        "adjust_run",
        ("POST /runs/{run}/adjust", "POST /groups/{group}/adjust"),
        "Adjust",
        request="status.requests.AdjustRequest",
    ),
    Operation(
        "status.label.get_question",
        "read",
        http=("GET /runs/{run}/question",),
        absent={"cli": "`label` shows it", "mcp": "a person is asked; an agent can be the program of a `command:`"},
    ),
    Operation(
        "status.label.answer_question",
        "write",
        "label",
        http=("POST /runs/{run}/question",),
        absent={"mcp": "a person is asked; an agent can be the program of a `command:`"},
        request="status.requests.LabelRequest",
    ),
    Operation(
        "jobs.audited.adopt_trial", "write", "adopt", "adopt", ("POST /trials/{id}/adopt",), "Adopt", request="treat.requests.AdoptRequest"
    ),
    Operation(
        "jobs.audited.import_run",
        "write",
        "import",
        "import_run",
        title="Import",
        absent={"http": "a browser has no folder on the server's disk"},
        request="runs.requests.ImportRequest",
    ),
    Operation(
        "runs.listing.remove_runs",
        "write",
        "runs rm",
        http=("DELETE /runs/{run}", "DELETE /groups/{group}", "POST /removals"),
        destructive=True,
        absent={"mcp": "agents keep what they made; people delete"},
        request="runs.requests.RemoveRequest",
    ),
    Operation(
        "diagnose.export.export.export",
        "read",
        "runs export",
        http=("GET /export.zip",),
        absent={"mcp": "an agent with a terminal types it"},
    ),
    Operation(
        "runs.detail.tag",
        "write",
        "runs tag",
        http=("POST /tags",),
        absent={"mcp": "tags are how people sort what they have"},
    ),
    # ── recorded data ──
    Operation(
        "data.collect.collect",
        "start",
        "data collect",
        absent={"mcp": "an agent with a terminal types it", "http": "writes a folder where the person who types it is"},
        request="data.requests.CollectRequest",
    ),
    Operation(
        "data.check.check",
        "read",
        "data check",
        http=("POST /data/check",),
        absent={"mcp": "advise_data says it"},
        request="data.requests.CheckRequest",
    ),
    Operation(
        "data.convert.convert",
        "read",
        "data convert",
        absent={"mcp": "an agent with a terminal types it", "http": "a browser has no data on the server's disk"},
        request="data.requests.ConvertRequest",
    ),
    Operation(
        "data.evaluate.evaluate",
        "read",
        "data evaluate",
        http=("POST /data/evaluation",),
        absent={"mcp": "is advise_data(policy=RUN)"},
        request="data.requests.EvaluateRequest",
    ),
    Operation(
        "data.advise.advise",
        "read",
        "advise data",
        "advise_data",
        ("POST /data/advice",),
        "Recorded data: which way",
        request="data.requests.AdviseRequest",
    ),
    # ── what agents did ──
    Operation(
        "jobs.daily_report.morning_report",
        "read",
        "agents report",
        "morning_report",
        ("GET /morning",),
        "Morning report",
        request="jobs.requests.ReportRequest",
    ),
    Operation(
        "jobs.budget.get_budget", "read", "agents budget", http=("GET /budget",), absent={"mcp": "morning_report and every refusal say it"}
    ),
    Operation(
        "jobs.audit.get_ledger",
        "read",
        http=("GET /ledger",),
        absent={"cli": "`agents report --json` has it", "mcp": "morning_report has it"},
    ),
    Operation(
        "jobs.start.list_jobs", "read", http=("GET /jobs", "GET /jobs/{id}"), absent={"cli": "`agents report` lists them", "mcp": _OVERVIEW}
    ),
    Operation(
        "jobs.audit.audit_log",
        "read",
        "agents audit",
        http=("GET /audit",),
        absent={"mcp": "agents need not see what others did"},
        request="jobs.requests.AuditRequest",
    ),
    Operation(
        "jobs.efficiency.report_efficiency",
        "read",
        "efficiency",
        http=("GET /groups/{group}/efficiency",),
        absent={"mcp": "is about machines, not about learning"},
        request="jobs.requests.EfficiencyRequest",
    ),
    # ── for people ──
    Operation(
        "runs.policy.play",
        "read",
        "play",
        absent={"mcp": _TERMINAL, "http": "`POST /runs/{run}/videos` records instead"},
        request="runs.requests.PlayRequest",
    ),
    Operation(
        "train.profile.profile",
        "read",
        "profile",
        absent={"mcp": "times this machine, which must be quiet: a person's choice", "http": "as in MCP"},
        request="train.requests.ProfileRequest",
    ),
    Operation("train.machine.doctor", "read", "doctor", http=("GET /doctor",), absent={"mcp": "is about the machine, not about runs"}),
    Operation(
        "compare.regress.regress",
        "start",
        "regress",
        absent={"mcp": "a gate for CI; agents compare_runs or start_trial", "http": "is POST /regressions, in the background"},
        request="compare.requests.RegressRequest",
    ),
    Operation(
        "compare.regress.save_baseline",
        "write",
        "regress --save-baseline",
        absent={"mcp": "a gate for CI", "http": "a gate for CI"},
    ),
)

ONLY: Final[dict[Face, dict[str, str]]] = {
    "cli": {
        "demo": "types other commands",
        "worker": "starts jobs that other operations have queued",
        "trust list": "what code may be run is for the person at the terminal to say",
        "trust add": "what code may be run is for the person at the terminal to say",
        "trust remove": "what code may be run is for the person at the terminal to say",
        "serve": "starts a server",
        "serve token add": "who may come in",
        "serve token list": "who may come in",
        "serve token revoke": "who may come in",
        "db reindex": "keeps the server's index",
        "db status": "keeps the server's index",
        "db check": "keeps the queue's database",
        "db migrate": "keeps the queue's database",
        "db move": "keeps the queue's database",
        "artifacts push": "puts files of this machine into an object store",
        "artifacts pull": "brings them back to this machine",
        "mcp": "starts a server",
        "agents install": "writes files into a client's folder",
    },
    "mcp": {},
    "http": {
        "GET /health": "for load balancers",
        "GET /ready": "for load balancers",
        "GET /session": "logging in",
        "POST /session": "logging in",
        "DELETE /session": "logging out",
        "GET /events": "streams of what other routes answer",
        "GET /runs/{run}/events": "streams of what other routes answer",
        "GET /groups/{group}/events": "streams of what other routes answer",
        "GET /facets": "what a search form offers",
        "GET /groups/{group}/export.html": "the page that `runs export --to html` writes",
        "GET /groups/{group}/files/{name}": "files of the run folder",
        "GET /runs/{run}/histograms": "files of the run folder",
        "GET /runs/{run}/videos": "files of the run folder",
        "GET /runs/{run}/videos/{name}": "files of the run folder",
        "POST /runs/{run}/videos": "`evaluate --video` at a terminal",
        "PUT /runs/{run}/notes": "tags and notes are the page's",
        "PUT /groups/{group}/notes": "tags and notes are the page's",
    },
}
"""What one face alone has, and why it is no operation of the others."""
