"""What training processes leave behind when nobody disturbs them."""

from pathlib import Path

import pytest

from tests.crash import cohorts
from tests.launch.warm import Warm


@pytest.fixture(scope="session")
def undisturbed(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[list[str], bytes]]:
    """The result of each member of the usual cohort, trained in one go."""
    folder = tmp_path_factory.mktemp("undisturbed")
    runs = cohorts.create(folder / "runs", cohorts.config())
    assert warm.run(*(run.path for run in runs), printed=folder / "printed") == 0, (folder / "printed").read_text()
    return [cohorts.result(run) for run in runs]


@pytest.fixture
def printed(tmp_path: Path) -> Path:
    """Where a training process prints to."""
    return tmp_path / "printed"
