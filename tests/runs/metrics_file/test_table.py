import random
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlclinic.errors import NotFound
from rlclinic.runs.metrics_file import table


def read(tmp_path: Path, text: str | bytes) -> table.Table:
    path = tmp_path / "metrics.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return table.read(path)


def test_columns_are_numbers_and_blanks_are_nan(tmp_path: Path) -> None:
    found = read(tmp_path, "total_timesteps,a,b\n1,2.5,\n2,,-1e-05\n3,inf,-inf\n")
    assert found.names == ("total_timesteps", "a", "b")
    assert len(found) == 3
    np.testing.assert_array_equal(found["a"], [2.5, np.nan, np.inf])
    np.testing.assert_array_equal(found["b"], [np.nan, -1e-5, -np.inf])
    assert found.skipped == 0


def test_a_written_nan_is_kept_apart_from_a_blank(tmp_path: Path) -> None:
    found = read(tmp_path, "total_timesteps,a\n1,nan\n2,\n3,4\n")
    assert found.logged("a").tolist() == [True, False, True]
    steps, values = found.series("a")
    assert steps.tolist() == [1, 3]
    np.testing.assert_array_equal(values, [np.nan, 4])


def test_rows_of_blanks_alone_are_rows(tmp_path: Path) -> None:
    found = read(tmp_path, "a,b,c\n,,\n,,\n")
    assert len(found) == 2
    assert found.blank.all()


@pytest.mark.parametrize("cut", range(1, len("30,3.25\n")))
def test_half_a_last_line_is_left_out_wherever_it_was_cut(tmp_path: Path, cut: int) -> None:
    whole = "total_timesteps,a\n10,1.5\n20,2.5\n30,3.25\n"
    found = read(tmp_path, whole[:-cut])
    assert found["total_timesteps"].tolist() == [10, 20]
    assert found.skipped == 0


@pytest.mark.parametrize("text", ["", "a,b", "a,b\n"])
def test_a_table_without_rows_is_empty(tmp_path: Path, text: str) -> None:
    found = read(tmp_path, text)
    assert len(found) == 0
    assert found.series("b")[1].tolist() == []


def test_a_missing_file_is_an_empty_table(tmp_path: Path) -> None:
    found = table.read(tmp_path / "metrics.csv")
    assert len(found) == 0
    assert "a" not in found
    assert found.last("a") is None


def test_damaged_lines_are_skipped_and_counted_and_damaged_cells_are_blank(tmp_path: Path) -> None:
    found = read(tmp_path, b"a,b\n1,2\n\x00\x00\x00\n3\n4,5,6\n7,oops\n8,true\n9,[1]\n\xff,10\n11,12\n")
    np.testing.assert_array_equal(found["a"], [1, 7, 8, 9, np.nan, 11])
    np.testing.assert_array_equal(found["b"], [2, np.nan, np.nan, np.nan, 10, 12])
    assert found.skipped == 3


def test_two_damaged_lines_do_not_make_up_for_each_other(tmp_path: Path) -> None:
    found = read(tmp_path, "a,b\n1,2\n3\n4,5,6\n7,8\n")
    assert found["a"].tolist() == [1, 7]
    assert found.skipped == 2


def test_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    found = read(tmp_path, "a,b\r\n1,2\r\n3,\r\n")
    np.testing.assert_array_equal(found["b"], [2, np.nan])


def test_an_unknown_column_offers_the_nearest(tmp_path: Path) -> None:
    found = read(tmp_path, "train/metrics/kl_divergence\n1\n")
    with pytest.raises(NotFound, match="nearest: train/metrics/kl_divergence"):
        found["train/metrics/kl_divergance"]


def test_the_last_number_of_a_column_is_the_last_that_was_written(tmp_path: Path) -> None:
    assert read(tmp_path, "total_timesteps,a\n1,5\n2,6\n3,\n").last("a") == 6


cells = st.one_of(st.none(), st.floats(), st.integers(-(2**53), 2**53))


@given(rows=st.lists(st.tuples(cells, cells, cells), max_size=8))
def test_the_fast_reader_agrees_with_float_of_each_cell(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float | None, ...]]
) -> None:
    lines = [",".join("" if cell is None else repr(cell) for cell in row) for row in rows]
    found = read(tmp_path_factory.mktemp("table"), "".join(line + "\n" for line in ["a,b,c", *lines]))
    expected = np.array([[np.nan if cell is None else float(cell) for cell in row] for row in rows]).reshape(-1, 3)
    np.testing.assert_array_equal(found.values, expected)
    np.testing.assert_array_equal(found.blank, np.array([[cell is None for cell in row] for row in rows], dtype=bool).reshape(-1, 3))


def test_a_long_run_is_read_in_less_than_half_a_second(tmp_path: Path) -> None:
    rng = random.Random(0)
    some = [",".join("" if rng.random() < 0.1 else repr(rng.random()) for _ in range(100)) for _ in range(100)]
    path = tmp_path / "metrics.csv"
    path.write_text("\n".join([",".join(f"c{index}" for index in range(100)), *some * 100]) + "\n")
    seconds = []
    for _ in range(3):
        start = time.process_time()
        found = table.read(path)
        seconds.append(time.process_time() - start)
    assert found.values.shape == (10_000, 100)
    assert min(seconds) < 0.4


def test_a_long_file_is_read_in_blocks_with_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("a,b,c\n" + "".join(f"{n},{'' if n % 3 else n / 7},{'nan' if n % 5 else 'word'}\n" for n in range(100)))
    whole = table.read(path)
    monkeypatch.setattr(table, "BLOCK_BYTES", 60)
    blocks = table.read(path)
    assert blocks.values.tobytes() == whole.values.tobytes()
    assert blocks.blank.tobytes() == whole.blank.tobytes()
    assert (len(blocks), int(blocks.blank.sum())) == (100, 66 + 20)
