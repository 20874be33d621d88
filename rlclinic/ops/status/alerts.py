"""Telling somebody: commands and webhooks that fire once when a group that is watched is doomed, solved, failed or finished."""

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Final, Literal, get_args

from rlclinic.errors import UsageError
from rlclinic.report.models import LiveGroup, ResultPart, StatusReport

Kind = Literal["doomed", "solved", "failed", "finished"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
WEBHOOK_SECONDS: Final = 10.0
COMMAND_SECONDS: Final = 600.0
OVER: Final = ("finished", "stopped", "failed", "crashed")


class Event(ResultPart):
    """Something that happened to a group; told once."""

    kind: Kind
    group: str
    runs: list[str]
    """Whom it is about."""
    reason: str


class Alerts:
    """Remembers what was told already."""

    def __init__(self, commands: Sequence[tuple[str, str]] = (), webhook: str | None = None) -> None:
        """commands: (kind, shell command). UsageError for an unknown kind or an address that is no http(s) URL."""
        for kind, _ in commands:
            if kind not in KINDS:
                raise UsageError(
                    f"--on {kind}: there is no such event.\n  The command would never run.\n  Events: {', '.join(KINDS)}, as in"
                    " --on doomed 'echo $RLCLINIC_RUN'"
                )
        if webhook is not None and not webhook.startswith(("http://", "https://")):
            raise UsageError(f"--webhook {webhook}: not an http or https address.\n  Nobody would be told.\n  Type: --webhook https://…")
        self._commands, self._webhook = list(commands), webhook
        self._told: set[tuple[str, str]] = set()

    def tell(self, report: StatusReport) -> list[str]:
        """Run and post what is due; the texts of what was done and of what went wrong, to be shown. Nothing is raised."""
        lines = []
        for event in (event for group in report.groups for event in events(group)):
            if (event.kind, event.group) in self._told:
                continue
            self._told.add((event.kind, event.group))
            lines += [_run(command, event) for kind, command in self._commands if kind == event.kind]
            lines += [_post(self._webhook, event)] if self._webhook is not None else []
        return lines


def events(group: LiveGroup) -> list[Event]:
    """What is true of a group now."""
    happened = []
    outlook = group.outlook

    def add(kind: Kind, runs: Sequence[str], reason: str) -> None:
        happened.append(Event(kind=kind, group=group.id, runs=list(runs), reason=reason))

    everyone = [member.run for member in group.members]
    failed = [member for member in group.members if member.state in ("failed", "crashed")]
    if outlook is not None and outlook.decision == "STOP":
        add("doomed", [seed.run for seed in outlook.seeds if seed.doomed], outlook.reason)
    if outlook is not None and outlook.decision == "SOLVED":
        add("solved", everyone, outlook.reason)
    if failed:
        add("failed", [member.run for member in failed], (failed[0].reason or "no reason was recorded").splitlines()[0])
    if group.state in OVER:
        add("finished", everyone, outlook.reason if outlook is not None else group.state)
    return happened


def _run(command: str, event: Event) -> str:
    """The user's own command in the user's own shell, told by its environment what happened."""
    variables = {
        "RLCLINIC_EVENT": event.kind,
        "RLCLINIC_GROUP": event.group,
        "RLCLINIC_RUN": " ".join(event.runs),
        "RLCLINIC_REASON": event.reason,
    }
    try:
        code = subprocess.run(command, shell=True, env={**os.environ, **variables}, timeout=COMMAND_SECONDS, check=False).returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"warning: {event.kind} {event.group}: {command!r} did not run to its end ({type(error).__name__})"
    return f"{event.kind} {event.group}: ran {command!r}" + (f", which ended with {code}" if code else "")


def _post(url: str, event: Event) -> str:
    text = f"{event.group} {event.kind}: {event.reason}"
    # `text` is what chat services show; the rest is for programs.
    body = json.dumps({"text": f"rlclinic: {text}", **event.model_dump()}).encode()
    try:
        request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"}, method="POST")
        with urllib.request.urlopen(request, timeout=WEBHOOK_SECONDS) as answer:
            return f"{text} (posted: {answer.status})"
    except (OSError, ValueError, urllib.error.HTTPError) as error:
        return f"warning: {text}; posting it to {url} failed: {error}"
