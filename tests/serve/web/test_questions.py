"""The questions of docs/questions.md about runs, asked on the page: it must say what the command line says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs import questions_page
from rlclinic.ops.diagnose import diagnose
from rlclinic.ops.live import get_training_status
from tests.serve.web.conftest import serving

RUNS = Path("runs")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with questions_page.store() as folder, serving(folder / RUNS) as url:
        yield url


@pytest.mark.parametrize("address", ["groups/slow", "runs/abc123-s0", "groups/high", "groups/crashed", "groups/fine"])
def test_the_page_names_the_cause_that_diagnose_names(page: Any, url: str, address: str) -> None:
    found = diagnose(address.partition("/")[2], RUNS, write=False)
    page.goto(f"{url}/{address}")
    page.wait_for_selector(".answer .cause")
    assert found.diagnosis.causes[0].title.lower() in page.inner_text(".answer .cause").lower()
    if found.diagnosis.causes[0].id != "healthy" and found.recommendations:
        assert found.recommendations[0].change in page.inner_text(".rx.first")


def test_the_page_of_a_run_in_progress_says_whether_to_go_on(page: Any, url: str) -> None:
    outlook = get_training_status("going", RUNS).groups[0].outlook
    assert outlook is not None
    page.goto(f"{url}/groups/going")
    page.wait_for_selector(f".verdict .chip:has-text('{outlook.decision}')")
    assert outlook.reason in page.inner_text(".verdict")
