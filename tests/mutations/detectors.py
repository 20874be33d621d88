"""All detectors, the fast ones first. Each is a function that raises AssertionError where training is wrong, and takes no argument."""

from collections.abc import Callable

from tests.mutations import bugs, detect_maths, detect_runs, detect_sentinels, detect_training

Detector = Callable[[], None]

DETECTORS: tuple[Detector, ...] = (
    *detect_maths.DETECTORS,
    *detect_training.DETECTORS,
    *detect_sentinels.DETECTORS,
    *detect_runs.DETECTORS,
)


def fires(detector: Detector) -> str | None:
    """What the detector has to say; None if all is well. Only an assertion counts: a bug that raises is not a silent one."""
    try:
        detector()
    except AssertionError as error:
        return str(error) or "an assertion failed"
    return None


def first_to_catch(bug: bugs.Bug) -> tuple[str, str] | None:
    """The first detector that fires with the bug planted, and what it says; None if all stay silent."""
    with bugs.planted(bug):
        for detector in DETECTORS:
            if said := fires(detector):
                return detector.__name__, said
    return None
