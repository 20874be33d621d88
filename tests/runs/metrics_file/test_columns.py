from pathlib import Path

import numpy as np
import pytest

from rlclinic.runs.metrics_file import table
from rlclinic.runs.metrics_file.table import Columns

HEAD = "time,total_timesteps,loss,val\n"


def write(path: Path, *rows: str, end: str = "\n") -> Path:
    path.write_text(HEAD + "\n".join(rows) + end)
    return path


def test_columns_hold_what_the_whole_table_holds(tmp_path: Path) -> None:
    rows = [f"{0.5 * row},{512 * row},{'nan' if row == 3 else repr(1e-7 * row)},{'' if row % 4 else 10 * row}" for row in range(40)]
    path = write(tmp_path / "metrics.csv", *rows)
    whole = table.read(path)
    for name in whole.names:
        assert np.array_equal(Columns(path).read([name])[name], whole[name], equal_nan=True)


def test_growth_is_read_without_reading_the_rest_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "metrics.csv", "0,1,2,3", "1,2,3,4")
    found = Columns(path)
    assert list(found.read(["loss"])["loss"]) == [2.0, 3.0]
    with path.open("a") as file:
        file.write("2,3,4,5\n3,4,")
    seen: list[bytes] = []
    real = table.parse
    monkeypatch.setattr(table, "parse", lambda rows, width, places: seen.append(rows) or real(rows, width, places))
    assert list(found.read(["loss"])["loss"]) == [2.0, 3.0, 4.0]
    assert seen == [b"2,3,4,5\n"], "half a line is left for later"
    with path.open("a") as file:
        file.write("9,8\n")
    assert list(found.read(["loss"])["loss"])[-1] == 9.0


def test_a_column_that_is_asked_for_later_is_as_long_as_the_others(tmp_path: Path) -> None:
    path = write(tmp_path / "metrics.csv", "0,1,2,3", "1,2,3,4")
    found = Columns(path)
    found.read(["loss"])
    with path.open("a") as file:
        file.write("2,3,4,5\n")
    both = found.read(["val", "loss", "no such column"])
    assert list(both) == ["val", "loss"]
    assert list(both["val"]) == [3.0, 4.0, 5.0]
    assert list(both["loss"]) == [2.0, 3.0, 4.0]


def test_a_file_that_a_resume_cut_back_is_read_anew(tmp_path: Path) -> None:
    path = write(tmp_path / "metrics.csv", "0,1,2,3", "1,2,30,4", "2,3,40,5")
    found = Columns(path)
    found.read(["loss"])
    kept = (HEAD + "0,1,2,3\n").encode()
    with path.open("r+b") as file:
        file.truncate(len(kept))
        file.seek(0, 2)
        file.write(b"1,2,7,4\n2,3,8,5\n3,4,9,6\n4,5,10,7\n")
    assert list(found.read(["loss"])["loss"]) == [2.0, 7.0, 8.0, 9.0, 10.0]


@pytest.mark.parametrize(
    ("damage", "left"),
    [("1,2,3", [2.0, 4.0]), ("1,2,3,4,5", [2.0, 4.0]), ("1,2,word,4", [2.0, np.nan, 4.0]), ("1,2,3\r,4", [2.0, 3.0, 4.0])],
)
def test_damaged_lines_are_left_out_and_damaged_cells_are_no_number(tmp_path: Path, damage: str, left: list[float]) -> None:
    path = write(tmp_path / "metrics.csv", "0,1,2,3", damage, "2,3,4,5")
    assert np.array_equal(Columns(path).read(["loss"])["loss"], left, equal_nan=True)


def test_a_file_is_read_in_pieces_as_if_it_were_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "metrics.csv", *[f"{row},{row},{row},{row}" for row in range(500)])
    monkeypatch.setattr(table, "CHUNK_BYTES", 64)
    assert list(Columns(path).read(["loss"])["loss"]) == list(range(500))


def test_what_is_not_there_yet_has_no_columns(tmp_path: Path) -> None:
    assert Columns(tmp_path / "none.csv").read(["loss"]) == {}
    path = tmp_path / "metrics.csv"
    path.write_text("time,total_ti")
    found = Columns(path)
    assert found.read(["loss"]) == {}
    path.write_text(HEAD + "0,1,2,3\n")
    assert list(found.read(["loss"])["loss"]) == [2.0]


def test_everybody_who_asks_shares_one_reader_and_old_ones_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MOST_FILES", 2)
    first = table.open_columns(tmp_path / "a")
    assert table.open_columns(tmp_path / "a") is first
    table.open_columns(tmp_path / "b")
    table.open_columns(tmp_path / "c")
    assert table.open_columns(tmp_path / "a") is not first


def test_a_glance_takes_rows_from_all_over_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "metrics.csv", *[f"{row},{row},{10 * row},{'x' * (row % 7)}" for row in range(5_000)])
    found = table.glance(path, ["loss", "total_timesteps", "none"], 100)
    assert list(found) == ["loss", "total_timesteps"]
    steps = found["total_timesteps"]
    assert 90 <= len(steps) <= 100
    assert steps[0] == 0.0
    assert steps[-1] > 4_900
    assert np.diff(steps).max() < 100
    assert np.array_equal(found["loss"], 10 * steps)
    assert table.glance(tmp_path / "none.csv", ["loss"], 10) == {}


def test_a_glance_at_a_short_file_is_all_of_it(tmp_path: Path) -> None:
    path = write(tmp_path / "metrics.csv", "0,1,2,3", "1,2,3,4", "2,3,4")
    assert list(table.glance(path, ["loss"], 50)["loss"]) == [2.0, 3.0]


def test_what_is_unread_is_known_before_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "metrics.csv", "0,1,2,3")
    found = Columns(path)
    assert found.header() == ("time", "total_timesteps", "loss", "val")
    assert found.unread(["loss"]) == path.stat().st_size
    found.read(["loss"])
    assert found.unread(["loss", "no such column"]) == 0
    assert found.unread(["loss", "val"]) == path.stat().st_size
    with path.open("a") as file:
        file.write("1,2,3,4\n")
    assert found.unread(["loss"]) == 8
