"""A GPU that is too small says how many runs fit."""

from pathlib import Path

import pytest
import torch

from rlclinic.errors import RunError
from rlclinic.runs.store import Store
from rlclinic.training import trainer
from rlclinic.training.__main__ import train_runs
from rlclinic.training.engines import gpu_memory
from tests.training.cohorts import make_config

SAID = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 10.00 GiB"


def test_running_out_of_memory_becomes_an_error_that_names_what_fits() -> None:
    text = "".join(gpu_memory.advice(1024, 10 << 30, 10 << 30, SAID))
    # 1,024 need 12 GiB; nine tenths of 10 GiB hold 768.
    assert "1024 runs together do not fit into the GPU's 10 GiB" in text
    assert "--seeds 768" in text
    with pytest.raises(RunError, match="runs together do not fit"), gpu_memory.enough_for(1024):
        raise torch.OutOfMemoryError(SAID)


def test_fewer_fit_than_were_tried_and_at_least_one() -> None:
    assert gpu_memory.fitting(8, 10 << 30, 1) == 7
    assert gpu_memory.fitting(8, 1, 10 << 30) == 1
    assert gpu_memory.fitting(8, 0, 0) == 4


def test_other_errors_pass() -> None:
    with pytest.raises(ValueError, match="mine"), gpu_memory.enough_for(2):
        raise ValueError("mine")


def test_a_training_that_runs_out_of_memory_says_so_in_every_folder_with_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(trainer, "iterate", full)
    store = Store(tmp_path / "runs")
    runs = [store.create_group([make_config(seed=seed)]).runs[0] for seed in range(4)]
    with pytest.raises(RunError, match=r"4 runs together do not fit(?s:.*)About \d fit(?s:.*)--seeds \d"):
        train_runs(runs)
    for run in runs:
        assert run.status.state == "failed"
        assert "4 runs together do not fit" in (run.status.reason or "")
