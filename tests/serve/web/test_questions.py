"""The thirteen questions of docs/questions.md, asked on the page: it must say what the command line says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.generate import questions
from rlclinic.ops.diagnose.ask.guides import list_guides
from rlclinic.ops.diagnose.diagnose import diagnose
from rlclinic.ops.diagnose.lint import lint
from rlclinic.ops.jobs import audited
from rlclinic.ops.status.status import get_training_status
from tests.serve.web.conftest import serving

RUNS = Path("runs")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with questions.store() as folder:
        audited.import_run("logs/ppo/PongNoFrameskip-v4_1", RUNS, name="pong", threshold=18.0, budget=10_000_000)
        with serving(folder / RUNS) as url:
            yield url


# 1, 2, 3, 4, 6 and 8
@pytest.mark.parametrize("address", ["groups/slow", "runs/abc123-s0", "groups/pong", "groups/high", "groups/crashed", "groups/fine"])
def test_the_page_names_the_cause_that_diagnose_names(page: Any, url: str, address: str) -> None:
    found = diagnose(address.partition("/")[2], RUNS, write=False)
    page.goto(f"{url}/{address}")
    page.wait_for_selector(".answer .cause")
    assert found.diagnosis.causes[0].title.lower() in page.inner_text(".answer .cause").lower()
    if found.diagnosis.causes[0].id != "healthy" and found.recommendations:
        assert found.recommendations[0].change in page.inner_text(".rx.first")


# 4: what the check looks for; a change that no setting makes is not offered as a trial
def test_advice_that_changes_no_setting_is_not_offered_as_a_trial(page: Any, url: str) -> None:
    page.goto(f"{url}/groups/crashed")
    page.wait_for_selector(".rx.first")
    assert not page.query_selector_all(".rx.first button")
    page.goto(f"{url}/groups/high")
    page.wait_for_selector(".rx.first button:has-text('Prove it in a trial…')")


# 5
def test_the_page_of_a_run_in_progress_says_whether_to_go_on(page: Any, url: str) -> None:
    outlook = get_training_status("going", RUNS).groups[0].outlook
    assert outlook is not None
    page.goto(f"{url}/groups/going")
    page.wait_for_selector(f".verdict .chip:has-text('{outlook.decision}')")
    assert outlook.reason in page.inner_text(".verdict")


# 7
def test_faster_is_answered_by_prescriptions_and_by_a_comparison(page: Any, url: str) -> None:
    first = diagnose("abc123", RUNS, write=False).recommendations[0].change
    page.goto(f"{url}/groups/abc123")
    page.click("button:has-text('Prescribe…')")
    page.wait_for_selector("dialog .change")
    assert first in page.inner_text("dialog")
    page.goto(f"{url}/compare?of=fine,abc123")
    page.wait_for_selector("main table :text('learning_rate')")


# 9
def test_the_train_dialog_says_what_follows_from_a_batch_size(page: Any, url: str) -> None:
    changes = ["algo.batch_size=1024", "algo.n_epochs=1"]
    found = lint("Pendulum-v1:ppo", changes, RUNS).lint
    page.goto(f"{url}/environments")
    page.click("tr:has-text('Pendulum-v1') button:has-text('ppo') >> nth=0")
    page.fill("dialog input >> nth=0", "Pendulum-v1:ppo")
    page.fill("dialog textarea", "\n".join(changes))
    page.wait_for_selector(f"dialog .checked :text('{found.findings[0].rule}')")
    assert f"{found.derived['gradient_steps']:g} gradient steps in all" in page.inner_text("dialog .checked")


# 10 and 11, and the others by name
@pytest.mark.parametrize("number", [10, 11])
def test_what_no_file_can_answer_has_a_guide_with_its_limits_and_sources(page: Any, url: str, number: int) -> None:
    guide = list_guides().guides[number - 1]
    page.goto(f"{url}/guide")
    page.click(f"ol.questions li:nth-child({number}) a")
    page.wait_for_selector("h2:has-text('Not assessable here')")
    text = page.inner_text("main")
    for said in (guide.question, guide.answer, *guide.steps, *guide.type, *guide.cannot):
        assert said in text
    assert "arxiv.org" in text


# 12 and 13
def test_looking_closely_at_an_environment_shows_its_reward_and_what_simple_actions_earn(page: Any, url: str) -> None:
    page.goto(f"{url}/environments")
    page.fill("form input", "MountainCar-v0")
    page.click("form button")
    page.wait_for_selector("h3:has-text('What simple actions return')", timeout=60_000)
    text = page.inner_text("main")
    assert "ENV308" in text
    scripted = page.inner_text("tr:has-text('scripted')").split()
    assert -130 < float(scripted[1].replace("−", "-")) < -110


def test_the_page_lists_every_question_of_the_documentation(page: Any, url: str) -> None:
    page.goto(f"{url}/guide")
    page.wait_for_selector("ol.questions li")
    assert len(page.query_selector_all("ol.questions li")) == len(questions.QUESTIONS) == 13
