"""`python -m tests.mutations`: plant every bug, run every detector, and print which of them notice it."""

import sys

from tests.mutations import bugs
from tests.mutations.detectors import DETECTORS, Detector, fires


def noticed(bug: bugs.Bug, detector: Detector) -> str | None:
    """What the detector says with the bug planted. Behind the first detector a bug may also make something raise: that is noticed too."""
    try:
        with bugs.planted(bug):
            return fires(detector)
    except (RuntimeError, ValueError, IndexError) as error:
        return f"{type(error).__name__}: {error}"


def main() -> int:
    missed = 0
    for bug in bugs.BUGS:
        found = {detector.__name__: said for detector in DETECTORS if (said := noticed(bug, detector))}
        missed += not found
        print(f"{bug.id}: {bug.what}\n  {bug.seam.module}.{bug.seam.attribute}")
        for name, said in found.items():
            print(f"  caught by {name}: {said.splitlines()[0][:100]}")
        if not found:
            print("  NOT CAUGHT")
    print(f"{len(bugs.BUGS) - missed} of {len(bugs.BUGS)} bugs caught by {len(DETECTORS)} detectors")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
