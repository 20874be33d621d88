"""The roles: tools that exist, thresholds from the catalogues, and files that a client reads."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from rlclinic import metrics
from rlclinic.errors import UsageError
from rlclinic.ops.diagnose import rules
from rlclinic.ops.jobs import audit
from rlclinic.ops.operations import OPERATIONS
from rlclinic.serve.agents import install, roles
from rlclinic.serve.cli.app import app
from tests.ops.recorded import record_group

TOOLS = {operation.mcp for operation in OPERATIONS if operation.mcp}
EFFECT = {operation.mcp: operation.effect for operation in OPERATIONS if operation.mcp}
BY_NAME = {role.name: role for role in roles.ROLES}

# A page is made from the rule's own source and a made-up run: the same each time, and slow to make.
explain_rule = cache(rules.explain_rule)


@pytest.fixture(scope="module", autouse=True)
def _each_page_is_made_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(roles, "explain_rule", explain_rule)
        yield


def head(text: str) -> dict[str, str]:
    found = yaml.safe_load(text.split("---\n")[1])
    assert isinstance(found, dict)
    return found


def test_every_brief_has_its_role() -> None:
    assert sorted(role.brief for role in roles.ROLES) == ["000", "001", "002", "003", "004"]


@pytest.mark.parametrize("role", roles.ROLES, ids=lambda role: role.name)
def test_a_role_names_only_tools_that_exist_and_that_it_may_use(role: roles.Role) -> None:
    assert set(role.tools) <= TOOLS
    called = set(re.findall(r"`(\w+)\(", role.text))
    assert called <= set(role.tools) | {"start_trial", "start_training"}, "a call in the text that the role may not make"
    assert len(role.description) <= 1024


def test_whoever_only_looks_cannot_start_anything() -> None:
    assert {EFFECT[tool] for tool in BY_NAME["rl-run-debugger"].tools} == {"read"}


@pytest.mark.parametrize("role", roles.ROLES, ids=lambda role: role.name)
def test_thresholds_of_a_role_are_those_of_the_catalogues(role: roles.Role) -> None:
    written = role.body().removeprefix(role.text.strip())
    rules = re.findall(r"^- ([A-Z]{3}\d{3}) ", written, re.MULTILINE)
    assert rules
    for rule in rules:
        assert f"- {roles.rule_line(explain_rule(rule))}\n" in written
        numbers = [number for limit in roles.readable(explain_rule(rule)) for number in re.findall(r"-?\d[\d.]*", limit)]
        assert all(number in " ".join(explain_rule(rule).thresholds) for number in numbers)
    for name in roles.BANDS:
        band = metrics.METRICS[name].band
        assert band is not None
        assert f"{name}: {band.low:g} to {band.high:g}" in written


@pytest.mark.parametrize("role", roles.ROLES, ids=lambda role: role.name)
def test_no_threshold_is_written_by_hand(role: roles.Role) -> None:
    # A probability to act on and counts of seeds are procedure; levels of metrics are not.
    numbers = set(re.findall(r"(?<![\w@.])\d+\.\d+", role.text))
    assert numbers <= {"0.5"}


def test_a_changed_rule_changes_the_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    page = explain_rule("POL101")
    changed = page.model_copy(
        update={"thresholds": ["`size`: above 123.0, beyond doubt at 456.0, where `size` is", "`f(x)`: above g(1), beyond doubt at 2"]}
    )
    monkeypatch.setattr(roles, "explain_rule", lambda rule: changed if rule == "POL101" else explain_rule(rule))
    assert "`size`: above 123.0, beyond doubt at 456.0\n" in BY_NAME["rl-run-debugger"].body()


def test_agent_files_and_skills_are_installed_for_a_client(tmp_path: Path) -> None:
    done = install.install("claude", tmp_path, server_name="gymnasium-solver")
    assert {file.action for file in done.files} == {"new"}
    agent = (tmp_path / ".claude/agents/rl-run-debugger.md").read_text()
    found = head(agent)
    assert found["model"] == "inherit"
    assert "mcp__gymnasium-solver__get_run_info" in found["tools"].split(", ")
    skill = (tmp_path / ".claude/skills/rl-run-debugger/SKILL.md").read_text()
    assert head(skill)["name"] == "rl-run-debugger"
    assert json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]["gymnasium-solver"] == {"command": "rlclinic", "args": ["mcp"]}
    again = install.install("claude", tmp_path, server_name="gymnasium-solver")
    assert {file.action for file in again.files} == {"same"}


@pytest.mark.parametrize("client", install.CLIENTS)
def test_every_client_gets_its_skills(client: str, tmp_path: Path) -> None:
    install.install(client, tmp_path)
    assert len(list((tmp_path / install.CLIENTS[client]).glob("*/SKILL.md"))) == len(roles.ROLES)


def test_a_dry_run_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["agents", "install", "--dry-run"])
    assert result.exit_code == 0, result.output
    assert "would be new" in result.stdout
    assert not list(tmp_path.iterdir())


def test_what_somebody_else_wrote_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / ".claude/agents/rl-trainer.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("my own trainer")
    with pytest.raises(UsageError, match="was not written by rlclinic"):
        install.install("claude", tmp_path)
    assert mine.read_text() == "my own trainer"
    assert not (tmp_path / ".mcp.json").exists()
    install.install("claude", tmp_path, force=True)
    assert mine.read_text() != "my own trainer"


def test_other_servers_in_the_settings_stay(tmp_path: Path) -> None:
    settings = tmp_path / ".mcp.json"
    settings.write_text(json.dumps({"mcpServers": {"wandb": {"command": "uvx"}}, "other": 1}))
    install.install("claude", tmp_path)
    found = json.loads(settings.read_text())
    assert set(found["mcpServers"]) == {"wandb", "rlclinic"}
    assert found["other"] == 1
    with pytest.raises(UsageError, match="another server called 'wandb'"):
        install.install("claude", tmp_path, server_name="wandb")


def test_arguments_that_the_owner_gave_the_server_are_kept(tmp_path: Path) -> None:
    mine = {"command": "rlclinic", "args": ["mcp", "--budget-env-steps", "5M"]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"rlclinic": mine}}))
    install.install("claude", tmp_path)
    assert json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]["rlclinic"] == mine


def test_the_budget_the_report_and_the_audit_log_are_commands(tmp_path: Path) -> None:
    where = ["--runs-dir", str(tmp_path / "runs")]

    def typed(*words: str) -> str:
        result = CliRunner().invoke(app, [*words, *where])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert "none was set" in typed("agents", "budget")
    assert "5,000,000 of 5,000,000 env steps and 2 h of 2 h left" in typed("agents", "budget", "--env-steps", "5M", "--wall", "2h")
    assert typed("agents", "report").startswith("MORNING REPORT\nSince ")
    assert "  budget " in typed("agents", "audit")
    assert json.loads(typed("agents", "report", "--json"))["budget"]["env_steps"] == 5_000_000


def test_what_people_type_is_in_the_audit_log_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    group = record_group(Path("runs"), seeds=(0,), state="running", share_done=0.5)
    for words in (["adjust", group.id, "--set", "algo.ent_coef=0.01"], ["stop", group.id]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    lines = audit.audit_log(Path("runs")).lines
    assert [(line.face, line.action, line.target) for line in lines] == [("cli", "stop", group.id), ("cli", "adjust", group.id)]
