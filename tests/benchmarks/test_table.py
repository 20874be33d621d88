import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import table


def row(**changes: Any) -> dict[str, Any]:
    usual = {"what": "a thing", "unit": "s", "value": 0.2, "better": "lower", "bar": 0.3, "stretch": 0.1, "command": "do it"}
    return usual | changes


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"value": 0.4}, "missed"),
        ({"value": 0.3}, "bar met"),
        ({"value": 0.1}, "stretch met"),
        ({"value": 0.1, "stretch": None}, "bar met"),
        ({"value": 1.9, "better": "higher", "bar": 2.0, "stretch": 3.0}, "missed"),
        ({"value": 3.5, "better": "higher", "bar": 2.0, "stretch": 3.0}, "stretch met"),
    ],
)
def test_a_row_is_judged_in_the_direction_that_is_better(changes: dict[str, Any], expected: str) -> None:
    assert table.verdict(row(**changes)) == expected


def test_a_line_shows_the_figure_its_interval_and_its_command() -> None:
    line = table.table([row(unit="x SB3", value=2.345, interval=[2.1, 2.6])])[-1]
    assert line == "| a thing | 2.35x | 2.10–2.60 | ≤ 0.3 | ≤ 0.1 | missed | `do it` |"


def test_a_rate_that_misses_its_bar_is_not_rounded_to_nothing() -> None:
    assert "| 0.22 a file |" in table.table([row(unit="a file", value=0.222, bar=0.1)])[-1]


def test_the_page_says_what_was_not_measured_and_where_the_rest_comes_from(tmp_path: Path) -> None:
    origin = {
        "date": "2026-01-02", "commit": "abc", "command": "python -m benchmarks.speed", "python": "3.11", "cpu": "a CPU",
        "versions": {"torch": "2.13.0"}, "peer_versions": {"stable-baselines3": "2.9.2"},
    }  # fmt: skip
    (tmp_path / "speed.json").write_text(json.dumps({"provenance": origin, "rows": [row()]}))
    page = table.render(tmp_path)
    assert "2026-01-02 · commit abc · a CPU" in page
    assert "against stable-baselines3 2.9.2" in page
    assert page.count("Not measured yet.") == len(table.TITLES) - 1


def test_shares_have_their_cases_and_peers_stand_beside_each_other() -> None:
    shares = [row(what="trial: wrong", value=0.0466, simulations=20_000), row(what="compare: one of many", simulations=20_000)]
    assert table.table_of_shares(shares)[2:] == ["| trial: wrong | 0.047 | 20,000 | ≤ 0.3 | ≤ 0.1 | stretch met |"]
    names = ("rlclinic", "rliable, IQMs apart")
    judged = [row(what=f"equal: ties, five, {who}: called different", value=0.03, seeds=31.7, simulations=60) for who in names]
    assert table.table_of_peers(judged) == [
        "| world: asked | rlclinic | rliable, IQMs apart | cases |",
        "|---|---|---|---|",
        "| equal: ties, five: called different | 0.03 (32) | 0.03 (32) | 60 |",
    ]
