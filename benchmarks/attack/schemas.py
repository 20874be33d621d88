"""Requests made from the API's own description by schemathesis, at a real server, with the routes that start things.

The server works in a store of its own, whose trainers are `pretended`: what a request starts is queued, launched, trained and ended for
real. Requests fit the description, or break it in one place. Streams never end and are left out.
"""

import os
import re
import signal
import socket
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.attack import kills

EXAMPLES: Final = {"quick": 3, "bar": 40, "stretch": 400}
LEFT_OUT: Final = re.compile(r"GET .*/events")
PATIENCE_SECONDS: Final = 60.0
STARTS: Final[dict[str, dict[str, Any]]] = {
    "/api/v1/trainings": {"ref": "CartPole-v1:ppo_zoo", "max_env_steps": 2_000, "seeds": 2},
    "/api/v1/trials": {"targets": ["@last"], "changes": ["algo.learning_rate=1e-3"], "looks": 2, "per_look": 2},
    "/api/v1/races": {"targets": ["CartPole-v1:ppo_zoo", "CartPole-v1:ppo"]},
    "/api/v1/studies/optimize": {"target": "@last", "budget": 600_000},
    "/api/v1/studies/sensitivity": {"target": "@last", "seeds": 2},
}
"""A made-up body seldom starts anything: every other one is of these, with one field of those that were made up."""


def rows(size: str) -> Iterator[dict[str, Any]]:
    """How many requests ended with an error of the server, or with no answer."""
    statuses, broken, jobs = attack(EXAMPLES[size])
    total = sum(statuses.values())
    for text in broken[:5]:
        print(f"  {text}", flush=True)
    note = f"{total:,} requests, of which {statuses['2xx']:,} were carried out, {jobs} jobs started; {dict(sorted(statuses.items()))}"
    what = "requests made by schemathesis, start routes included: answers of 500 and more, or none"
    yield {"what": what, "unit": "errors", "value": len(broken), "better": "lower", "bar": 0, "stretch": 0, "note": note}


def attack(examples: int, seed: int = 0) -> tuple[Counter[str], list[str], int]:
    """So many requests for each operation, of both kinds; the answers by class, those that were errors, and the jobs that began."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from hypothesis.errors import Unsatisfiable
    from schemathesis import GenerationMode
    from schemathesis.core.result import Ok

    from rlclinic.ops.jobs import models
    from rlclinic.runs.store import Store

    statuses: Counter[str] = Counter()
    broken: list[str] = []
    quiet = settings(max_examples=examples, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    with tempfile.TemporaryDirectory(prefix="rlclinic-schemas-", ignore_cleanup_errors=True) as name:
        folder, store = Path(name), Path(name) / "store"
        store.mkdir()
        (folder / "pretends").mkdir()
        (folder / "pretends" / "sitecustomize.py").write_text(kills.PRETENDS)
        kills.run(store, folder, ["train", *kills.SICK, "--seeds", "2", "--max-env-steps", "20000", "--no-report"])
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = kills.start(store, folder, ["serve", "--port", str(port), "--no-mcp", "--no-prepare"])
        kills.get(port, "/api/v1/runs")
        api = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/api/v1/openapi.json")

        def ask(case: Any) -> None:
            if sum(statuses.values()) % 2:
                # A made-up name seldom names anything.
                case.path_parameters = dict.fromkeys(case.path_parameters or {}, "@last")
                if case.method == "POST" and isinstance(case.body, dict) and case.path in STARTS:
                    made_up = list(case.body.items())[:1]
                    case.body = STARTS[case.path] | {name: value for name, value in made_up if name not in STARTS[case.path]}
            try:
                answer = case.call(timeout=PATIENCE_SECONDS)
            except OSError as error:
                broken.append(f"{type(error).__name__}: {case.as_curl_command()[:300]}")
                statuses["none"] += 1
                return
            statuses[f"{answer.status_code // 100}xx"] += 1
            if answer.status_code >= 500:
                broken.append(f"{answer.status_code}: {case.as_curl_command()[:300]}")

        try:
            for operation in (found.ok() for found in api.get_all_operations() if isinstance(found, Ok)):
                for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                    if not LEFT_OUT.fullmatch(operation.label):
                        with suppress(Unsatisfiable):  # what takes nothing cannot be asked wrongly
                            seeded(seed)(quiet(given(operation.as_strategy(generation_mode=mode))(ask)))()
            kills.get(port, "/api/v1/health", patience=10.0)
        finally:
            jobs = len(models.everything(Store(store / "runs")))
            server.terminate()
            server.wait()
            for pid, _ in kills.processes(str(store)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    return statuses, broken, jobs
