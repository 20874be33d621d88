"""Alerts: the right event, once, and nothing that goes wrong outside ends the watching."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from rlclinic.errors import UsageError
from rlclinic.ops.status import alerts, status
from rlclinic.report.models import LiveGroup, Outlook, SeedOutlook, StatusReport
from tests.ops.recorded import flat, record_group


def seen(root: Path, decision: str, state: str = "running", reason: str | None = None) -> LiveGroup:
    group = status.observe(record_group(root, seeds=(0, 1), returns=flat, state=state, share_done=0.5, reason=reason))
    seeds = [
        SeedOutlook(run=member.run, probability=0.01, low=0.0, high=0.1, reached_at=None, doomed=decision == "STOP", reason="it lies still")
        for member in group.members
    ]
    outlook = Outlook(
        decision=decision,  # type: ignore[arg-type]
        probability=0.01,
        low=0.0,
        high=0.1,
        reason="it lies still",
        seeds=seeds,
        percentile=None,
        healthy_runs=None,
        healthy_source=None,
        cause=None,
        watch=None,
        command=None,
    )
    return group.model_copy(update={"outlook": outlook})


@pytest.mark.parametrize(
    ("decision", "state", "kinds"),
    [
        ("CONTINUE", "running", []),
        ("STOP", "running", ["doomed"]),
        ("SOLVED", "running", ["solved"]),
        ("SOLVED", "finished", ["solved", "finished"]),
        ("ENDED", "finished", ["finished"]),
        ("ENDED", "failed", ["failed", "finished"]),
    ],
)
def test_what_is_true_of_a_group_is_an_event(tmp_path: Path, decision: str, state: str, kinds: list[str]) -> None:
    assert [event.kind for event in alerts.events(seen(tmp_path, decision, state))] == kinds


def test_a_command_runs_once_and_finds_out_what_happened(tmp_path: Path) -> None:
    group = seen(tmp_path / "runs", "STOP")
    told = tmp_path / "told"
    command = f'echo "$RLCLINIC_EVENT|$RLCLINIC_GROUP|$RLCLINIC_RUN|$RLCLINIC_REASON" >> {told}'
    watching = alerts.Alerts([("doomed", command), ("solved", "exit 1")])
    report = StatusReport(groups=[group])
    assert len(watching.tell(report)) == 1
    assert watching.tell(report) == []
    runs = " ".join(member.run for member in group.members)
    assert told.read_text() == f"doomed|{group.id}|{runs}|it lies still\n"


def test_a_command_that_fails_is_said_and_nothing_more(tmp_path: Path) -> None:
    said = alerts.Alerts([("doomed", "exit 7")]).tell(StatusReport(groups=[seen(tmp_path, "STOP")]))
    assert said[0].endswith("which ended with 7")


@pytest.fixture
def server() -> Iterator[tuple[str, list[Any]]]:
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.headers["Content-Type"], json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}/hook", got
        made.shutdown()
        thread.join()


def test_a_webhook_gets_the_event_as_json(tmp_path: Path, server: tuple[str, list[Any]]) -> None:
    url, got = server
    group = seen(tmp_path, "STOP")
    said = alerts.Alerts(webhook=url).tell(StatusReport(groups=[group]))
    assert "posted: 204" in said[0]
    kind, body = got[0]
    assert kind == "application/json"
    assert body["kind"] == "doomed"
    assert body["group"] == group.id
    assert body["text"] == f"rlclinic: {group.id} doomed: it lies still"


def test_a_webhook_that_does_not_answer_is_a_warning(tmp_path: Path) -> None:
    said = alerts.Alerts(webhook="http://127.0.0.1:9/").tell(StatusReport(groups=[seen(tmp_path, "STOP")]))
    assert said[0].startswith("warning: ")


def test_unknown_events_and_addresses_are_refused_before_anything_is_watched() -> None:
    with pytest.raises(UsageError, match="Events: doomed, solved, failed, finished"):
        alerts.Alerts([("dommed", "true")])
    with pytest.raises(UsageError, match="not an http or https address"):
        alerts.Alerts(webhook="file:///etc/passwd")
