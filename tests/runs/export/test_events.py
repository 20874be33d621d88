"""Event files are read by TensorBoard's own reader, where it is installed, and checked by hand."""

from pathlib import Path

import pytest

from rlclinic.runs.export.events import EventFile, masked_crc


def test_the_checksum_is_crc32c_masked() -> None:
    # RFC 3720: CRC-32C of 32 zero bytes is 0x8a9136aa; the mask rotates by 15 and adds a constant.
    crc = 0x8A9136AA
    assert masked_crc(bytes(32)) == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.filterwarnings("ignore")  # TensorBoard's own deprecations
def test_tensorboard_reads_back_what_was_written(tmp_path: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    file = EventFile(tmp_path)
    file.add(256, 1000.0, {"train/roll/ep_rew_mean": 21.5, "val/roll/ep_rew_mean": None, "epoch": 1, "bad": float("nan")})
    file.add(100_096, 1001.0, {"train/roll/ep_rew_mean": 500.0})
    accumulator = loader.EventAccumulator(str(tmp_path))
    accumulator.Reload()
    assert set(accumulator.Tags()["scalars"]) == {"train/roll/ep_rew_mean", "epoch"}
    assert [(event.step, event.value) for event in accumulator.Scalars("train/roll/ep_rew_mean")] == [(256, 21.5), (100_096, 500.0)]
