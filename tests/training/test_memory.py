"""A GPU that is too small says how many runs fit."""

import pytest
import torch

from rlclinic.errors import RunError
from rlclinic.training import memory

SAID = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 10.00 GiB"


def test_running_out_of_memory_becomes_an_error_that_names_what_fits() -> None:
    text = memory.advice(1024, 10 << 30, 10 << 30, SAID)
    # 1,024 need 12 GiB; nine tenths of 10 GiB hold 768.
    assert "1024 runs together do not fit into the GPU's 10 GiB" in text
    assert "--seeds 768" in text
    with pytest.raises(RunError, match="runs together do not fit"), memory.enough_for(1024):
        raise torch.OutOfMemoryError(SAID)


def test_fewer_fit_than_were_tried_and_at_least_one() -> None:
    assert memory.fitting(8, 10 << 30, 1) == 7
    assert memory.fitting(8, 1, 10 << 30) == 1
    assert memory.fitting(8, 0, 0) == 4


def test_other_errors_pass() -> None:
    with pytest.raises(ValueError, match="mine"), memory.enough_for(2):
        raise ValueError("mine")
