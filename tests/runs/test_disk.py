import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlclinic.errors import DiskFailed
from rlclinic.runs import disk


def test_json_reads_back_as_it_was_written(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None], "b": {"c": "é"}}
    disk.write_json(tmp_path / "x.json", value)
    assert disk.read_json(tmp_path / "x.json") == value
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.parametrize("text", ["", '{"a": 1', "[1, 2]", "\x00\x00\x00"])
def test_a_file_that_is_no_json_object_reads_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    assert disk.read_json(tmp_path / "x.json") is None


def test_a_replacement_that_fails_leaves_the_old_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    disk.write_json(path, {"old": True})

    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DiskFailed, match="disk is full"):
        disk.write_json(path, {"new": True})
    assert disk.read_json(path) == {"old": True}
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.parametrize(
    ("number", "what", "advice"),
    [
        (errno.ENOSPC, "disk is full", "rlclinic train --resume g7k2-s0"),
        (errno.EDQUOT, "quota", "rlclinic train --resume g7k2-s0"),
        (errno.EROFS, "read-only", "--runs-dir DIR"),
        (errno.EACCES, "permission denied", "--runs-dir DIR"),
        (errno.EIO, "Input/output error", "rlclinic train --resume g7k2-s0"),
    ],
)
def test_a_disk_error_says_what_happened_what_is_intact_and_what_to_type(tmp_path: Path, number: int, what: str, advice: str) -> None:
    path = tmp_path / "g7k2-s0" / "status.json"
    with pytest.raises(DiskFailed) as caught, disk.guarded(path):
        raise OSError(number, os.strerror(number))
    text = str(caught.value)
    assert str(path) in text
    assert what in text
    assert "intact" in text
    assert advice in text


def test_a_folder_that_is_gone_is_a_disk_failure(tmp_path: Path) -> None:
    with pytest.raises(DiskFailed, match="folder is gone"):
        disk.write(tmp_path / "missing" / "x.json", "{}")


def test_a_line_after_half_a_line_stands_on_its_own(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": ')
    disk.append_line(path, '{"c": 3}')
    disk.append_line(path, '{"d": 4}', sync=True)
    assert path.read_text().split("\n") == ['{"a": 1}', '{"b": ', '{"c": 3}', '{"d": 4}', ""]


def test_a_link_points_at_the_newest_target(tmp_path: Path) -> None:
    for target in ("a", "b"):
        (tmp_path / target).mkdir()
        disk.point(tmp_path / "@last", target)
    assert (tmp_path / "@last").readlink() == Path("b")
    assert (tmp_path / "@last").resolve() == (tmp_path / "b").resolve()


def test_threads_that_replace_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    def often(number: int) -> None:
        for _ in range(100):
            disk.write_json(tmp_path / "x.json", {"number": number})
            disk.point(tmp_path / "@last", str(number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(often, range(8)))
    found = disk.read_json(tmp_path / "x.json")
    assert found is not None
    assert found["number"] in range(8)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["@last", "x.json"]
