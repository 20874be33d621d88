import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from rlclinic.readers.trackers import tfevents
from rlclinic.readers.trackers.tfevents import Hyperparameters, Scalar, Text
from rlclinic.runs.export.events import masked_crc

ROWS = [(step, {"rollout/ep_rew_mean": step / 10, "train/approx_kl": 0.01}) for step in (256, 70_000, 2**40)]
WriteEvents = Callable[..., Path]


def file_in(folder: Path) -> Path:
    return next(folder.glob("*tfevents*"))


def field(number: int, data: bytes) -> bytes:
    """A length-delimited field of a message."""
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def record(event: bytes) -> bytes:
    length = struct.pack("<Q", len(event))
    return length + struct.pack("<I", masked_crc(length)) + event + struct.pack("<I", masked_crc(event))


def scalars(path: Path) -> list[Scalar]:
    return [item for item in tfevents.read_items(path, []) if isinstance(item, Scalar)]


def test_scalars_come_back_as_they_were_written(write_events: WriteEvents) -> None:
    found = scalars(file_in(write_events(ROWS)))
    assert [(item.tag, item.step) for item in found] == [(tag, step) for step, row in ROWS for tag in row]
    assert [item.value for item in found] == pytest.approx([value for _, row in ROWS for value in row.values()])


def test_one_scalar_an_event_is_read_like_several(write_events: WriteEvents, tmp_path: Path) -> None:
    single = [(step, {tag: value}) for step, row in ROWS for tag, value in row.items()]
    joined, parted = write_events(ROWS), write_events(single, "single")
    assert scalars(file_in(joined)) == scalars(file_in(parted))


def test_a_file_made_by_torch_is_read(samples: Path) -> None:
    found = list(tfevents.read_items(file_in(samples / "cleanrl" / "CartPole-v1__ppo__1__1700000000"), []))
    (text,) = [item for item in found if isinstance(item, Text)]
    assert text.tag == "hyperparameters/text_summary"
    assert "|learning_rate|0.00025|" in text.text
    assert sum(isinstance(item, Scalar) and item.tag == "losses/approx_kl" for item in found) == 78


def test_a_file_cut_at_any_byte_is_read_up_to_its_last_whole_record(write_events: WriteEvents, tmp_path: Path) -> None:
    whole = file_in(write_events(ROWS)).read_bytes()
    everything = scalars(file_in(tmp_path / "run"))
    cut = tmp_path / "cut.tfevents"
    for length in range(len(whole) + 1):
        cut.write_bytes(whole[:length])
        notes: list[str] = []
        found = [item for item in tfevents.read_items(cut, notes) if isinstance(item, Scalar)]
        assert found == everything[: len(found)]
        assert notes == []
    assert found == everything


def test_a_damaged_length_ends_the_file_with_a_note(write_events: WriteEvents) -> None:
    path = file_in(write_events(ROWS))
    data = bytearray(path.read_bytes())
    second = 16 + struct.unpack("<Q", data[:8])[0]
    data[second + 3] = 0xFF
    path.write_bytes(data)
    notes: list[str] = []
    assert list(tfevents.read_items(path, notes)) == []
    assert "damaged at byte" in notes[0]


def test_a_record_that_is_no_event_is_passed_over(write_events: WriteEvents) -> None:
    path = file_in(write_events(ROWS[:1]))
    path.write_bytes(path.read_bytes() + record(b"\xff\xff\xff") + record(b"\x0b\x01") + path.read_bytes())
    notes: list[str] = []
    found = [item for item in tfevents.read_items(path, notes) if isinstance(item, Scalar)]
    assert len(found) == 4
    assert len(notes) == 1


def test_scalars_in_tensors_are_read(tmp_path: Path) -> None:
    number = field(1, b"loss") + field(8, b"\x08\x01" + field(4, struct.pack("<f", 0.5)))
    packed = field(1, b"kl") + field(8, b"\x08\x01" + field(5, struct.pack("<f", 0.25)))
    path = tmp_path / "x.tfevents"
    path.write_bytes(record(b"\x10\x07" + field(5, field(1, number) + field(1, packed))))
    assert scalars(path) == [Scalar("loss", 7, 0.5), Scalar("kl", 7, 0.25)]


def test_hyperparameters_of_the_plugin_are_read(tmp_path: Path) -> None:
    pairs = [
        field(1, b"lr") + field(2, b"\x11" + struct.pack("<d", 1e-3)),
        field(1, b"env_id") + field(2, field(3, b"CartPole-v1")),
        field(1, b"norm") + field(2, b"\x20\x01"),
    ]
    session = field(3, b"".join(field(1, pair) for pair in pairs))
    value = field(1, b"_hparams_/session_start_info") + field(9, field(1, field(1, b"hparams") + field(2, session)))
    path = tmp_path / "x.tfevents"
    path.write_bytes(record(b"\x10\x00" + b"\x2a" + bytes([0x80 | (len(value) + 3) & 0x7F, (len(value) + 3) >> 7]) + _long(1, value)))
    (found,) = list(tfevents.read_items(path, []))
    assert found == Hyperparameters({"lr": 1e-3, "env_id": "CartPole-v1", "norm": True})


def _long(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, 0x80 | len(data) & 0x7F, len(data) >> 7]) + data


def test_a_record_larger_than_any_scalar_is_skipped_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_events: WriteEvents
) -> None:
    monkeypatch.setattr(tfevents, "MAX_RECORD_BYTES", 200)
    path = tmp_path / "x.tfevents"
    path.write_bytes(record(b"\x2a" + b"\x00" * 5_000) + file_in(write_events(ROWS)).read_bytes())
    assert len(scalars(path)) == 2 * len(ROWS)


def test_an_event_file_is_known_by_name_or_by_its_first_record(tmp_path: Path, write_events: WriteEvents) -> None:
    original = file_in(write_events(ROWS))
    renamed = tmp_path / "log.bin"
    renamed.write_bytes(original.read_bytes())
    other = tmp_path / "other.bin"
    other.write_bytes(b"\x00" * 100)
    assert tfevents.is_event_file(original)
    assert tfevents.is_event_file(renamed)
    assert not tfevents.is_event_file(other)
    assert not tfevents.is_event_file(tmp_path / "missing")


def test_a_negative_step_is_negative(tmp_path: Path) -> None:
    path = tmp_path / "x.tfevents"
    path.write_bytes(record(b"\x10" + b"\xff" * 9 + b"\x01" + field(5, field(1, field(1, b"a") + b"\x15" + struct.pack("<f", 1.0)))))
    assert scalars(path) == [Scalar("a", -1, 1.0)]


def test_the_reader_and_our_own_writer_agree_on_the_checksum() -> None:
    assert masked_crc(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF
