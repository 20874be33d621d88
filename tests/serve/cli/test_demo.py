"""The demo is the product in two minutes: a sick group, its diagnosis, a trial of the cure, an adopted config."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlclinic.config import files
from rlclinic.serve.cli.app import app


@pytest.mark.slow
def test_the_demo_goes_from_a_sick_group_to_an_adopted_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["demo", "--max-env-steps", "16000"])  # half of its own: as sick, and cured as clearly
    assert result.exit_code == 0, result.output
    told = result.stdout
    assert "CAUSE 1" in told
    assert "policy step too large" in told
    assert told.index("RX 1") < told.index("ADOPT rx1")
    adopted = files.load("CartPole-v1:demo").config
    assert adopted.algo.learning_rate.start < 0.1  # type: ignore[union-attr]
    assert list((tmp_path / "runs/@trials").glob("*/report.html"))
