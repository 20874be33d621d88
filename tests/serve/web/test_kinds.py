"""Groups of every kind on the page: off-policy, one seed, one row, not evaluated, failed, stopped, imported."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rlclinic.ops.jobs import audited
from tests.diagnosis import stored
from tests.ops.recorded import record_group
from tests.serve.web.conftest import serving

SAMPLE = Path(__file__).parents[2] / "readers" / "samples" / "sb3_ppo"


class Kinds(NamedTuple):
    """A server, and the ids of its groups."""

    url: str
    ids: dict[str, str]


STORED = {"dqn": "dqn-healthy", "sac": "sac-healthy", "failed": "cp-nan", "continuous": "mcc-healthy", "discrete": "cp-healthy"}


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kinds]:
    root = tmp_path_factory.mktemp("kinds") / "runs"
    ids = {name: stored.write_group(case, root).id for name, case in STORED.items()}
    ids["one seed"] = record_group(root, seeds=(0,)).id
    ids["one row"] = record_group(root, share_done=0.1).id
    ids["not evaluated"] = record_group(root, evaluate=False).id
    ids["stopped"] = record_group(root, state="stopped", reason="asked to stop", share_done=0.5).id
    audited.import_run(str(SAMPLE), root, name="foreign")
    ids["foreign"] = "foreign"
    with serving(root) as url:
        yield Kinds(url, ids)


def opened(page: Any, kinds: Kinds, name: str) -> str:
    """A group's page once its diagnosis and its strip stand, as text."""
    page.goto(f"{kinds.url}/groups/{kinds.ids[name]}")
    page.wait_for_selector(".answer .cause")
    page.wait_for_selector(".strip figure canvas")
    empty = page.evaluate("[...document.querySelectorAll('.card')].filter((card) => !card.innerText.trim()).length")
    assert empty == 0, "a card with nothing in it"
    return str(page.inner_text("main"))


def test_learners_with_a_replay_show_their_own_signals(page: Any, kinds: Kinds) -> None:
    text = opened(page, kinds, "dqn")
    for title in ("Q-values", "Q-value minus the return that came", "TD error", "Epsilon", "Distance to the target network"):
        assert title in text
    assert "Clip fraction" not in text
    text = opened(page, kinds, "sac")
    for title in ("Temperature", "TD error", "Entropy", "Gradient norms"):
        assert title in text
    assert "share of maximum" not in text, "an entropy of continuous actions has none"


def test_a_share_of_the_largest_entropy_is_drawn_only_where_there_is_one(page: Any, kinds: Kinds) -> None:
    """A normal distribution has none: its entropy was called 2.8 of the maximum."""
    assert "Entropy, share of maximum" in opened(page, kinds, "discrete")
    text = opened(page, kinds, "continuous")
    assert "share of maximum" not in text
    assert "Entropy" in text


def test_one_seed_and_one_row_say_what_cannot_be_said(page: Any, kinds: Kinds) -> None:
    assert "one seed: no interval" in opened(page, kinds, "one seed")
    text = opened(page, kinds, "one row")
    assert "Too early to tell" in text
    assert "no seed got there" in text
    assert "1 row." in text


def test_what_was_not_evaluated_failed_or_was_stopped_is_called_so(page: Any, kinds: Kinds) -> None:
    text = opened(page, kinds, "not evaluated")
    assert "NOT EVALUATED" in text
    assert "last return in training" in text
    assert "the environment failed" in opened(page, kinds, "failed").lower()
    opened(page, kinds, "stopped")
    page.click("button:has-text('Go on…')")
    page.wait_for_selector(f"dialog code:has-text('rlclinic train --resume {kinds.ids['stopped']} --detach')")
    page.goto(kinds.url)
    for name, words in (
        ("failed", ("FAILED",)),
        ("stopped", ("NOT SOLVED", "stopped")),
        ("not evaluated", ("NOT EVALUATED",)),
    ):
        page.wait_for_selector(f"tr:has-text('{kinds.ids[name]}')")
        row = page.inner_text(f"tr:has-text('{kinds.ids[name]}')")
        assert all(word in row for word in words), row


def test_an_imported_group_says_where_it_is_from_and_offers_only_what_can_be_done(page: Any, kinds: Kinds) -> None:
    text = opened(page, kinds, "foreign")
    assert "imported from sb3" in text
    assert "Not assessable" in text
    buttons = [each.inner_text() for each in page.query_selector_all(".actions button")]
    assert "Trial…" in buttons
    assert not {"Train again…", "Go on…", "Search…", "Sensitivity…", "Stop…"} & set(buttons)


def test_tags_are_added_and_searched(page: Any, kinds: Kinds) -> None:
    opened(page, kinds, "one seed")
    page.fill("input[placeholder='add a tag']", "keep")
    page.keyboard.press("Enter")
    page.wait_for_selector(".tag:has-text('keep')")
    page.goto(kinds.url)
    page.fill("main input[type=search]", "keep")
    page.wait_for_selector("table.groups tbody tr >> nth=0")
    page.wait_for_selector("table.groups tbody tr >> nth=1", state="detached")
    assert kinds.ids["one seed"] in page.inner_text("table.groups tbody")
