"""The table of groups and runs: any column sorts, filters and groups, and only what differs is shown."""

import re
from pathlib import Path
from typing import Any

import pytest

from rlclinic.errors import UsageError
from rlclinic.ops.runs import detail, table
from rlclinic.ops.runs.requests import TableRequest, TagRequest
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from tests.ops.recorded import flat, record_group

BUDGET = "run.max_env_steps=10240"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Group]]:
    """Three groups of one name: two learning rates, one of them with a KL limit; the last one never learns."""
    root = tmp_path_factory.mktemp("table") / "runs"
    groups = [
        record_group(root, seeds=(0, 1), changes=(BUDGET, "algo.learning_rate=0.01")),
        record_group(root, seeds=(0,), changes=(BUDGET, "algo.learning_rate=0.0009", "algo.target_kl=0.02")),
        record_group(root, seeds=(0, 1), changes=(BUDGET,), returns=flat),
    ]
    return root, groups


def ask(store: tuple[Path, list[Group]], **asked: Any) -> table.TablePage:
    return table.show_table(TableRequest(runs_dir=store[0], **asked))


def ids(page: table.TablePage) -> list[str]:
    return [row.id for row in page.rows]


def test_settings_that_differ_are_shown_and_no_other(store: tuple[Path, list[Group]]) -> None:
    page = ask(store)
    assert page.shown == ["algo.learning_rate", "algo.target_kl"]
    hot, cool, usual = (next(row for row in page.rows if row.id == group.id) for group in store[1])
    assert hot.settings == {"algo.learning_rate": "0.01", "algo.target_kl": "none"}
    assert cool.settings["algo.target_kl"] == "0.02"
    assert usual.settings["algo.learning_rate"] == "0.001, linear to 0"


def test_groups_of_one_name_say_in_what_they_differ(store: tuple[Path, list[Group]]) -> None:
    rows = {row.id: row.differs for row in ask(store).rows}
    assert rows[store[1][0].id] == {"learning_rate": "0.01", "target_kl": "none"}
    alone = ask(store, where=["target_kl=0.02"])
    assert alone.rows[0].differs == {}, "nothing to be told apart from"


def test_a_setting_that_an_older_group_does_not_have_tells_it_apart_where_nothing_else_does(tmp_path: Path) -> None:
    old = record_group(tmp_path, seeds=(0,), changes=(BUDGET,))
    new = record_group(tmp_path, seeds=(0,), changes=(BUDGET, "run.film_every_env_steps=64"))
    for file in (old.path / "group.json", old.runs[0].path / "config.json"):
        text = file.read_text()
        assert "film_every_env_steps" in text
        file.write_text(re.sub(r'\s*"film_every_env_steps": null,', "", text))
    rows = {row.id: row.differs for row in ask((tmp_path, [old, new])).rows}
    assert rows == {old.id: {}, new.id: {"run.film_every_env_steps": "64"}}


def test_rows_are_sorted_by_any_setting_and_a_schedule_by_its_start(store: tuple[Path, list[Group]]) -> None:
    hot, cool, usual = (group.id for group in store[1])
    assert ids(ask(store, sort="learning_rate")) == [hot, usual, cool]
    assert ids(ask(store, sort="learning_rate", descending=False)) == [cool, usual, hot]


@pytest.mark.parametrize("descending", [True, False])
def test_what_has_no_value_comes_last_in_either_direction(store: tuple[Path, list[Group]], descending: bool) -> None:
    assert ids(ask(store, sort="target_kl", descending=descending))[0] == store[1][1].id


@pytest.mark.parametrize(
    ("condition", "matching"),
    [
        ("learning_rate>=1e-3", [0, 2]),
        ("algo.learning_rate=0.01", [0]),
        ("algo.learning_rate = 1e-2", [0]),
        ("learning_rate~linear", [2]),
        ("target_kl=none", [0, 2]),
        ("target_kl!=none", [1]),
        ("target_kl!=0.02", [0, 2]),
        ("best<475", [2]),
        ("verdict=SOLVED", [0, 1]),
        ("seeds>1", [0, 2]),
        ("budget>=10k", [0, 1, 2]),
        ("name>zzz", []),
        ("note=none", [0, 1, 2]),
    ],
)
def test_a_condition_holds_for_the_rows_that_it_names(store: tuple[Path, list[Group]], condition: str, matching: list[int]) -> None:
    assert set(ids(ask(store, where=[condition]))) == {store[1][place].id for place in matching}


def test_sections_sum_up_what_they_hold_and_follow_the_rows(store: tuple[Path, list[Group]]) -> None:
    page = ask(store, of="runs", group_by="learning_rate", sort="last")
    assert [(section.value, section.rows, section.solved) for section in page.sections] == [
        ("9e-4", 1, 1),
        ("0.001, linear to 0", 2, 0),
        ("0.01", 2, 2),
    ]
    assert [row.results["group"] for row in page.rows] == [store[1][1].id, *[store[1][2].id] * 2, *[store[1][0].id] * 2]
    assert page.sections[1].last == pytest.approx(100.5)


def test_windows_put_together_are_the_whole_table(store: tuple[Path, list[Group]]) -> None:
    whole = ids(ask(store, of="runs", sort="best"))
    assert [id for offset in range(5) for id in ids(ask(store, of="runs", sort="best", offset=offset, limit=1))] == whole
    assert len(set(whole)) == 5
    assert ids(ask(store, offset=99)) == []


def test_tags_are_set_on_many_at_once_and_archived_rows_step_aside(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    first, second = record_group(root, seeds=(0,)), record_group(root, seeds=(0,))
    done = detail.tag(TagRequest(runs_dir=root, of=[first.id, second.id, first.id], add=["base", "odd"]))
    assert done.changed == [first.id, second.id]
    detail.tag(TagRequest(runs_dir=root, of=[second.id], add=["archived"], remove=["odd", "unknown"]))
    here = (root, [first, second])
    assert ids(ask(here)) == [first.id]
    assert set(ids(ask(here, archived=True))) == {first.id, second.id}
    assert ids(ask(here, where=["tag=archived"])) == [second.id], "asked for by name"
    assert set(ids(ask(here, where=["tag=base"]))) == {first.id, second.id}
    assert ids(ask(here, where=["tag!=odd"])) == [second.id]
    values = {value.value: value.rows for value in ask(here, archived=True, values_of="tag").values}
    assert values == {"base": 2, "odd": 1, "archived": 1}
    with pytest.raises(UsageError):
        detail.tag(TagRequest(runs_dir=root, of=[first.id], add=["no tag"]))


def test_nothing_is_tagged_where_one_name_is_wrong(tmp_path: Path) -> None:
    group = record_group(tmp_path / "runs", seeds=(0,))
    with pytest.raises(Exception, match="nothere"):
        detail.tag(TagRequest(runs_dir=tmp_path / "runs", of=[group.id, "nothere"], add=["x"]))
    assert not (group.path / "notes.json").exists()


@pytest.mark.parametrize(
    "asked",
    [{"sort": "learning_rat"}, {"where": ["gama=1"]}, {"group_by": "x"}, {"where": ["best"]}, {"where": ["best>>3"]}, {"columns": ["zzz"]}],
)
def test_what_is_no_column_is_said_with_the_nearest(store: tuple[Path, list[Group]], asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"no column|no condition"):
        ask(store, **asked)


def test_a_change_on_disk_is_in_the_next_window(tmp_path: Path) -> None:
    from rlclinic.runs.database.index import Index

    root = tmp_path / "runs"
    record_group(root, seeds=(0,))
    index = Index(Store(root))
    index.refresh()
    source = table.TableSource(index)
    request = TableRequest(runs_dir=root)
    assert table.make_page(source, request).total == 1
    added = record_group(root, seeds=(0,), changes=(BUDGET, "algo.gamma=0.5"))
    index.refresh()
    page = table.make_page(source, request)
    assert (page.total, page.shown, page.rows[0].id) == (2, ["algo.gamma"], added.id)
    Store(root).remove(added)
    index.refresh()
    page = table.make_page(source, request)
    assert (page.total, page.shown) == (1, [])
    index.close()


def test_damaged_settings_do_not_end_the_table(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    group, odd = record_group(root, seeds=(0,)), record_group(root, seeds=(0,))
    (odd.path / "group.json").write_text('{"algo": [1, {"a": null}], "env": {"id": {}}, "net": {"hidden": [1, [2]], "x": NaN}}')
    page = ask((root, [group, odd]), sort="net.hidden", group_by="net.hidden")
    assert set(ids(page)) == {group.id, odd.id}
