"""Logs of a dozen rows, as short trainings of others leave them."""

from pathlib import Path

import numpy as np
import pytest

from rlclinic.diagnosis.findings import Diagnosis
from rlclinic.ops.diagnose.diagnose import diagnose


def judge(folder: Path, returns: np.ndarray) -> Diagnosis:
    """PPO's log of one row a rollout, with sound updates."""
    heads = "time/total_timesteps,rollout/ep_rew_mean,train/approx_kl,train/explained_variance,train/entropy_loss,train/learning_rate"
    rows = [f"{2048 * (row + 1)},{value},0.008,{0.1 + 0.06 * row},-0.6,0.0003" for row, value in enumerate(returns)]
    (folder / "progress.csv").write_text("\n".join([heads, *rows, ""]))
    return diagnose(str(folder), threshold=475.0, write=False).diagnosis


@pytest.mark.parametrize("rows", [8, 10, 13])
def test_a_curve_that_rises_to_its_end_was_stopped_too_early(tmp_path: Path, rows: int) -> None:
    found = judge(tmp_path, 25 + 120 * np.linspace(0, 1, rows) ** 1.3)
    assert found.causes[0].id == "budget-too-small"


def test_a_curve_that_has_stopped_rising_was_not(tmp_path: Path) -> None:
    flat = np.concatenate([np.linspace(25, 60, 4), 60 + np.tile([1.0, -1.0], 5)])
    assert judge(tmp_path, flat).causes[0].id != "budget-too-small"
