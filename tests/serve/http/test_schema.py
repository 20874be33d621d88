"""The API as it describes itself: whatever fits the description, and much that does not, is answered without a server error."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from rlclinic.ops.jobs import start
from rlclinic.ops.jobs.models import save
from rlclinic.runs.store import Store
from rlclinic.serve.http.app import bare_app, create_app
from rlclinic.serve.http.settings import Settings
from tests.ops.recorded import add_checkpoint, flat, record_group

LEFT_OUT = re.compile(r"GET .*/events|POST .*/(evaluations|videos)")
"""Streams never end, and these start a process each."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server over a store with a few groups; what it would start is only written down."""
    root = tmp_path_factory.mktemp("described") / "runs"
    for number in range(4):
        group = record_group(root, returns=flat, state="running" if number == 1 else "finished")
        add_checkpoint(group.runs[0].path, 10_240, best=True)
    app = create_app(Store(root), Settings(mcp=False, allow_hosts=("testserver",), no_token=True))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(start, "_spawn", save)
        patched.chdir(root.parent)
        yield schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)


def ask(api: Any, examples: int, mode: GenerationMode) -> dict[str, int]:
    """How often each status was answered, over all operations; a server error fails with the request that caused it."""
    statuses: dict[str, int] = {}
    quiet = settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    def check(case: Any) -> None:
        if mode == GenerationMode.POSITIVE and sum(statuses.values()) % 2:
            # A made-up name seldom names anything.
            case.path_parameters = dict.fromkeys(case.path_parameters or {}, "@last")
        answer = case.call(timeout=60)  # a busy machine answers late
        statuses[str(answer.status_code)] = statuses.get(str(answer.status_code), 0) + 1
        assert answer.status_code < 500, f"{answer.status_code}: {case.as_curl_command()}\n{answer.text}"

    for found in api.get_all_operations():
        operation = found.ok()
        if not LEFT_OUT.fullmatch(operation.label):
            with suppress(Unsatisfiable):  # what takes nothing cannot be asked wrongly
                quiet(given(operation.as_strategy(generation_mode=mode))(check))()
    return statuses


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_is_answered_with_a_server_error(api: Any, mode: GenerationMode) -> None:
    # benchmarks.attack sends thousands.
    statuses = ask(api, 3, mode)
    assert statuses.get("200" if mode == GenerationMode.POSITIVE else "422", 0) > 20


def test_the_description_names_every_route_and_its_problems() -> None:
    described = bare_app().openapi()
    assert described["components"]["schemas"]["Problem"]["properties"].keys() >= {"title", "status", "detail", "advice"}
    for path, operations in described["paths"].items():
        assert path.startswith("/api/v1/")
        for method, operation in operations.items():
            assert operation["description"] or operation["summary"], (method, path)
            assert "application/problem+json" in operation["responses"]["404"]["content"], (method, path)
