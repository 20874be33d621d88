from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlclinic.config import yaml_lines
from rlclinic.errors import ConfigError


def values(text: str) -> object:
    return yaml_lines.drop_origins(yaml_lines.parse(text, "f.yaml"))


def origins(text: str) -> dict[str, str]:
    return yaml_lines.list_origins(yaml_lines.parse(text, "f.yaml"))


def test_numbers_are_read_as_people_write_them() -> None:
    text = "a: 1e-4\nb: 1e6\nc: 1_000\nd: -.5\ne: [1e-3, 2e3]\nf: '1e3'\ng: 4x4\nh: 0.25"
    assert values(text) == {"a": 1e-4, "b": 1e6, "c": 1000, "d": -0.5, "e": [1e-3, 2e3], "f": "1e3", "g": "4x4", "h": 0.25}


def test_a_key_is_text_even_where_yaml_sees_a_boolean_or_a_number() -> None:
    assert values("on: 1\n0: {1: a}") == {"on": 1, "0": {"1": "a"}}


def test_what_json_cannot_hold_stays_text() -> None:
    assert values("a: 2020-01-01") == {"a": "2020-01-01"}


def test_an_empty_file_holds_nothing() -> None:
    assert values("# only a comment\n") == {}


def test_every_value_knows_its_line() -> None:
    assert origins("a: 1\nb:\n  c: [1,\n    2]\n  d: {e: 3}\n") == {"a": "f.yaml:1", "b.c": "f.yaml:3", "b.d.e": "f.yaml:5"}


def test_a_merged_value_keeps_the_line_where_it_was_written() -> None:
    text = "_a: &a\n  x: 1\n  y: 2\nv:\n  <<: *a\n  y: 3\n"
    assert origins(text) == {"_a.x": "f.yaml:2", "_a.y": "f.yaml:3", "v.x": "f.yaml:2", "v.y": "f.yaml:6"}


def test_two_merges_in_one_mapping_both_count_and_the_later_wins() -> None:
    text = "_a: &a {x: 1, y: 1}\n_b: &b {y: 2, z: 2}\nv:\n  <<: *a\n  <<: *b\n  z: 3\n"
    assert yaml_lines.drop_origins(yaml_lines.parse(text, "f")["v"]) == {"x": 1, "y": 2, "z": 3}


def test_in_a_list_of_merges_the_first_wins() -> None:
    text = "_a: &a {x: 1, y: 1}\n_b: &b {y: 2, z: 2}\nv:\n  <<: [*a, *b]\n"
    assert yaml_lines.drop_origins(yaml_lines.parse(text, "f")["v"]) == {"x": 1, "y": 1, "z": 2}


def test_a_merge_goes_into_the_sections_of_a_config_and_no_deeper() -> None:
    text = "_a: &a {algo: {n_steps: 8, gamma: 1}, other: {x: 1}}\nv:\n  <<: *a\n  algo: {gamma: 0.9}\n  other: {y: 2}\n"
    assert yaml_lines.drop_origins(yaml_lines.parse(text, "f")["v"]) == {"algo": {"n_steps": 8, "gamma": 0.9}, "other": {"y": 2}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\nb: [1,\nc: 2\n", r"f.yaml:\d is not valid YAML: .*began in line 2"),
        ("a: 1\n\tb: 2\n", r"f.yaml:2 is not valid YAML(?s:.*)spaces instead of tabs"),
        ("a: 1\nb: c: d\n", r"f.yaml:2 is not valid YAML: mapping values are not allowed.*\n    b: c: d\n        \^"),
        ("a: *nowhere", "f.yaml:1 is not valid YAML: found undefined alias"),
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3: `a` is given twice"),
        ("- 1\n- 2\n", "f.yaml:1 holds no `key: value` settings"),
        ("v:\n  <<: 3\n", "f.yaml:2: `<<` needs an anchor"),
        ("? [1, 2]\n: 3\n", "a key must be a word"),
        ("a: \x00", "f.yaml"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_line(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        yaml_lines.parse(text, "f.yaml")


def test_a_file_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: .*directory"):
        yaml_lines.read(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match=r"latin.yaml is no text in UTF-8"):
        yaml_lines.read(tmp_path / "latin.yaml")


scalars = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), scalars | st.lists(scalars, max_size=3), max_size=6))
def test_what_is_written_as_yaml_is_read_back(data: dict[str, object]) -> None:
    import yaml

    assert values(yaml.safe_dump(data)) == data


@given(st.text(max_size=60))
def test_whatever_a_file_holds_the_answer_is_data_or_a_config_error(text: str) -> None:
    said = "f.yaml"
    try:
        yaml_lines.parse(text, "f.yaml")
    except ConfigError as error:
        said = str(error)
    assert said.startswith("f.yaml")
