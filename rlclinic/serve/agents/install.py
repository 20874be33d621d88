"""Putting the roles where a coding agent finds them: agent files, skills, and the server's entry in the client's settings."""

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from rlclinic.errors import UsageError
from rlclinic.report.models import Result, ResultPart
from rlclinic.runs import disk
from rlclinic.serve.agents.roles import ROLES, Role

CLIENTS: Final = {
    "claude": ".claude/skills",
    "cursor": ".cursor/skills",
    "codex": ".codex/skills",
    "opencode": ".opencode/skills",
    "agents": ".agents/skills",
}
"""By client: where it looks for skills, in a project or in the home folder."""
AGENT_FILES: Final = {"claude": ".claude/agents"}
SETTINGS: Final = {"claude": ".mcp.json", "cursor": ".cursor/mcp.json"}
MARK: Final = "made-by: rlclinic"


class InstalledFile(ResultPart):
    """One file, and what became of it."""

    path: str
    action: str
    """new, changed, same, or merged."""


class Installed(Result):
    """What `agents install` wrote, or would write."""

    client: str
    server_name: str
    files: list[InstalledFile]
    written: bool
    next: list[str]


def install(
    client: str = "claude", where: Path = Path(), *, server_name: str = "rlclinic", dry_run: bool = False, force: bool = False
) -> Installed:
    """Write every role for a client below `where`; a file that somebody else wrote is left alone unless `force`."""
    if client not in CLIENTS:
        raise UsageError(f"--client {client}: not known.\n  Nothing would be found there.\n  There are: {', '.join(CLIENTS)}")
    wanted = {where / CLIENTS[client] / role.name / "SKILL.md": skill(role) for role in ROLES}
    if client in AGENT_FILES:
        wanted |= {where / AGENT_FILES[client] / f"{role.name}.md": agent(role, server_name) for role in ROLES}
    foreign = [str(path) for path in wanted if path.exists() and MARK not in path.read_text(encoding="utf-8", errors="replace")]
    if foreign and not force:
        raise UsageError(f"{', '.join(foreign[:3])} was not written by rlclinic.\n  It would be overwritten.\n  Move it away, or: --force")
    done = [InstalledFile(path=str(path), action=_action(path, text)) for path, text in wanted.items()]
    settings = where / SETTINGS[client] if client in SETTINGS else None
    if settings is not None:
        merged, action = _with_server(settings, server_name, force)
        done.append(InstalledFile(path=str(settings), action=action))
        wanted[settings] = merged
    if not dry_run:
        for path, text in wanted.items():
            with disk.guarded(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            disk.write(path, text)
    return Installed(client=client, server_name=server_name, files=done, written=not dry_run, next=_next(client, server_name))


def skill(role: Role) -> str:
    """A role as a skill: any client that knows SKILL.md."""
    head = {"name": role.name, "description": role.description, "metadata": {"version": _version(), "made-by": "rlclinic"}}
    tools = f"Uses the tools of rlclinic's MCP server: {', '.join(role.tools)}. Without it, the command `rlclinic` does the same."
    return f"---\n{_yaml(head)}---\n\n{tools}\n\n{role.body()}"


def agent(role: Role, server_name: str) -> str:
    """A role as an agent file, with no more tools than it needs."""
    head = {
        "name": role.name,
        "description": role.description,
        "tools": ", ".join(f"mcp__{server_name}__{tool}" for tool in role.tools),
        "model": "inherit",
    }
    return f"---\n{_yaml(head)}# {MARK} {_version()}\n---\n\n{role.body()}"


def _yaml(head: dict[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=10_000))


def _with_server(path: Path, name: str, force: bool) -> tuple[str, str]:
    """The client's settings with our server; other servers stay as they are."""
    try:
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError:
        raise UsageError(
            f"{path} is not JSON.\n  Adding to it could break it.\n  Mend it, or add the server by hand (docs/mcp.md)"
        ) from None
    servers = known.setdefault("mcpServers", {})
    ours = {"command": "rlclinic", "args": ["mcp"]}
    there = servers.get(name)
    if there is not None and there.get("command") != "rlclinic" and not force:
        raise UsageError(
            f"{path} has another server called {name!r} ({there.get('command')}).\n  It would be replaced.\n"
            f"  Choose another name: --server-name rlclinic, or --force"
        )
    if there is not None and there.get("command") == "rlclinic":
        return json.dumps(known, indent=2) + "\n", "same"  # with the arguments that its owner chose
    servers[name] = ours
    return json.dumps(known, indent=2) + "\n", "merged" if path.exists() else "new"


def _action(path: Path, text: str) -> str:
    if not path.exists():
        return "new"
    return "same" if path.read_text(encoding="utf-8", errors="replace") == text else "changed"


def _next(client: str, server_name: str) -> list[str]:
    allow = "rlclinic agents budget --env-steps 20M --wall 2h"
    if client in SETTINGS:
        return [allow]
    return [f"register the server as {server_name!r}: command rlclinic, arguments mcp (docs/mcp.md)", allow]


def _version() -> str:
    try:
        return version("rlclinic")
    except PackageNotFoundError:
        return "0"
