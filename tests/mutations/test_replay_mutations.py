"""The tests of learners with a replay bite: every planted bug is caught, and `diagnose` names it after a short run."""

import pytest

from rlclinic.diagnosis import engine
from tests.mutations import bugs, detect_replay, detectors, replay_bugs, replays


@pytest.mark.parametrize("detector", detect_replay.DETECTORS, ids=lambda detector: detector.__name__)
def test_no_detector_fires_on_training_as_it_is(detector: detectors.Detector) -> None:
    assert detectors.fires(detector) is None


@pytest.mark.parametrize("bug", replay_bugs.BUGS, ids=lambda bug: bug.id)
def test_every_planted_bug_is_caught(bug: bugs.Bug) -> None:
    with bugs.planted(bug):
        assert any(detectors.fires(detector) for detector in detect_replay.DETECTORS), f"{bug.what} No detector noticed."


def test_the_six_bugs_that_everybody_makes_are_among_them() -> None:
    named = {bug.id for bug in replay_bugs.BUGS}
    assert named >= {
        "replay-mask-inverted", "target-never-follows", "target-every-step", "weights-missing", "action-not-scaled", "temperature-sign"
    }  # fmt: skip
    assert not named & {bug.id for bug in bugs.BUGS}


@pytest.mark.slow
@pytest.mark.parametrize("planted", [each for each in replay_bugs.PLANTED if each.learner != "sac"], ids=lambda planted: planted.bug.id)
def test_a_short_run_with_the_bug_in_it_is_diagnosed(planted: replay_bugs.Planted) -> None:
    with bugs.planted(planted.bug):
        histories = replays.short_run(planted.learner, seeds=1, steps=2400)
    assert engine.diagnose(histories).causes[0].id in planted.causes
