"""The tests bite: every planted bug is caught, and nothing is caught where there is no bug."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.mutations import bugs, detectors


@pytest.mark.parametrize("detector", detectors.DETECTORS, ids=lambda detector: detector.__name__)
def test_no_detector_fires_on_training_as_it_is(detector: detectors.Detector) -> None:
    assert detectors.fires(detector) is None


@pytest.mark.parametrize("bug", bugs.BUGS, ids=lambda bug: bug.id)
def test_every_planted_bug_is_caught(bug: bugs.Bug, record_property: Callable[[str, object], None]) -> None:
    caught = detectors.first_to_catch(bug)
    assert caught is not None, f"{bug.what} No detector noticed."
    record_property("caught_by", f"{caught[0]}: {caught[1]}")


def test_the_list_of_bugs_is_long_and_has_no_bug_twice() -> None:
    assert len(bugs.BUGS) >= 25
    assert [name for name, count in Counter(bug.id for bug in bugs.BUGS).items() if count > 1] == []
    assert [what for what, count in Counter((bug.seam, bug.breaks) for bug in bugs.BUGS).items() if count > 1] == []


@pytest.mark.parametrize("bug", bugs.BUGS, ids=lambda bug: bug.id)
def test_a_bug_is_gone_after_the_block_it_was_planted_in(bug: bugs.Bug) -> None:
    holder, name = bug.seam.find()
    before = vars(holder)[name]
    with bugs.planted(bug):
        assert vars(holder)[name] is not before
    assert vars(holder)[name] is before
