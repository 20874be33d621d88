from pathlib import Path

from rlclinic.runs.metrics_file import rows


def test_the_latest_number_of_each_column_is_found_in_the_files_end(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("total_timesteps,a,b\n1,5,7\n2,6,\n3,nan,\n4,8")
    found = rows.latest(path)
    assert found["total_timesteps"] == 3
    assert found["b"] == 7


def test_only_the_end_is_read_however_long_the_run(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("total_timesteps,a\n" + "1,2\n" * 1_000 + "2,\n" * 100)
    assert rows.latest(path, block_bytes=100) == {"total_timesteps": 2}


def test_no_file_and_no_rows_have_no_latest_numbers(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    assert rows.latest(path) == {}
    path.write_text("total_timesteps,a")
    assert rows.latest(path) == {}
    path.write_text("total_timesteps,a\n")
    assert rows.latest(path) == {}
