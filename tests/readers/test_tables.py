import io

import numpy as np
import pytest

from rlclinic.errors import UsageError
from rlclinic.readers import tables, text_files
from rlclinic.readers.tables import Block, LeftOut


def csv_blocks(text: str | bytes) -> tuple[list[Block], LeftOut]:
    count = LeftOut()
    data = text.encode() if isinstance(text, str) else text
    return list(tables.read_csv(io.BytesIO(data), count)), count


def json_blocks(text: str) -> tuple[list[Block], LeftOut]:
    count = LeftOut()
    return list(tables.read_json_lines(io.BytesIO(text.encode()), count)), count


def test_a_csv_is_read_with_blanks_and_nan_told_apart() -> None:
    (block,), count = csv_blocks("a,b\n1,\n2,nan\n3,4.5\n")
    assert block.names == ["a", "b"]
    assert block.values[:, 0].tolist() == [1, 2, 3]
    assert block.blank[:, 1].tolist() == [True, False, False]
    assert np.isnan(block.values[1, 1])
    assert (count.rows, count.skipped) == (3, 0)


@pytest.mark.parametrize(
    "text", ["a;b\n1;2,5\n", "a\tb\n1\t2.5\n", "a,b\r\n1,2.5\r\n", '"a","b"\n"1","2.5"\n', "\ufeffa,b\n1,2.5\n", "#x\na,b\n1,2.5\n"]
)
def test_other_separators_quotes_marks_and_comments_are_understood(text: str) -> None:
    (block,), _ = csv_blocks(text)
    assert (block.names, block.values.tolist()) == (["a", "b"], [[1.0, 2.5]])


def test_text_in_quotes_may_hold_commas() -> None:
    (block,), _ = csv_blocks('a,note,b\n1,"x, y",2\n')
    assert block.values[0, [0, 2]].tolist() == [1, 2]
    assert block.blank[0].tolist() == [False, True, False]


def test_truths_are_numbers() -> None:
    (block,), _ = csv_blocks("a,ok\n1,True\n2,False\n")
    assert block.values[:, 1].tolist() == [1, 0]


def test_a_line_of_another_width_is_left_out_and_counted() -> None:
    (block,), count = csv_blocks("a,b\n1,2\n1,2,3\n5\n3,4\n")
    assert block.values[:, 0].tolist() == [1, 3]
    assert count.skipped == 2


def test_a_last_line_without_its_end_is_left_out() -> None:
    (block,), count = csv_blocks("a,b\n1,2\n3,4")
    assert block.values.tolist() == [[1, 2]]
    assert count.notes == ["the last line had no end yet and was left out"]


def test_a_new_header_further_down_begins_other_columns() -> None:
    blocks, count = csv_blocks("a,b\n1,2\na,b,c\n3,4,5\n")
    assert [block.names for block in blocks] == [["a", "b"], ["a", "b", "c"]]
    assert blocks[1].values.tolist() == [[3, 4, 5]]
    assert count.skipped == 0


def test_the_same_header_again_is_a_row_without_numbers() -> None:
    (block,), _ = csv_blocks("a,b\n1,2\na,b\n3,4\n")
    assert block.blank.tolist() == [[False, False], [True, True], [False, False]]


def test_columns_without_a_header_are_numbered() -> None:
    (block,), count = csv_blocks("1,2\n3,4\n")
    assert (block.names, block.values.tolist()) == (["column1", "column2"], [[1, 2], [3, 4]])
    assert count.notes


def test_a_header_of_thousands_of_columns_is_refused() -> None:
    with pytest.raises(UsageError, match="at most 4,096"):
        csv_blocks(",".join(f"c{number}" for number in range(5_000)) + "\n")


def test_json_lines_are_flattened() -> None:
    (block,), _ = json_blocks('{"step": 1, "info": {"loss": 0.5, "name": "x", "deep": {"kl": 2}}, "list": [1]}\n{"step": 2, "ok": true}\n')
    assert block.names == ["step", "info/loss", "info/deep/kl", "ok"]
    assert block.values[0, :3].tolist() == [1, 0.5, 2]
    assert block.blank.tolist() == [[False, False, False, True], [False, True, True, False]]


def test_half_an_object_and_lines_that_are_no_objects_are_left_out() -> None:
    (block,), count = json_blocks('{"a": 1}\n[1, 2]\nnot json\n{"a": 2}\n{"a": 3')
    assert block.values.tolist() == [[1], [2]]
    assert count.skipped == 3


def test_numbers_that_no_float_can_hold_are_infinite() -> None:
    (block,), _ = json_blocks('{"a": 1' + "0" * 400 + "}\n")
    assert block.values.tolist() == [[np.inf]]
    (block,), _ = csv_blocks("a,b\n1" + "0" * 400 + ",2\n")
    assert block.values.tolist() == [[np.inf, 2]]


def test_lines_are_whole_whatever_the_block_size() -> None:
    text = b"".join(b"line %d\n" % number for number in range(1_000)) + b"half"
    for size in (1, 7, 64, 4_096):
        found = list(text_files.read_blocks(io.BytesIO(text), size))
        assert [line for block, whole in found if whole for line in block] == text.split(b"\n")[:-1]
        assert found[-1] == ([b"half"], False)


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "LINE_BYTES", 1_000)
    with pytest.raises(UsageError, match="no log with a row per line"):
        list(text_files.read_blocks(io.BytesIO(b"x" * 5_000), 100))
