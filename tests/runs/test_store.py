import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rlclinic.config import Config
from rlclinic.errors import DiskFailed, NotFound, RunBusy, UsageError
from rlclinic.runs import disk, selector, status_file
from rlclinic.runs.record import Checkpoint, Group, Run
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter
from tests.runs.conftest import COLUMNS, MakeGroup

MakeConfig = Callable[..., Config]


def created_at(group: Group, when: float) -> Group:
    """Pretend that a group was made at another time."""
    for file in [group.path / "group.json", *(run.path / "config.json" for run in group.runs)]:
        disk.write_json(file, {**json.loads(file.read_text()), "created": when})
    return Group(group.path)


# ── creating ──


def test_a_group_has_a_folder_for_each_seed_and_one_of_its_own(store: Store, make_config: MakeConfig) -> None:
    group = store.create_group([make_config(seed) for seed in (3, 4)], name="mine", parent="gabc-s0@512", extra={"start": "fork"})
    assert [run.id for run in group.runs] == [f"{group.id}-s3", f"{group.id}-s4"]
    assert all(selector.ID.fullmatch(run.id) for run in group.runs)
    assert group.label == "mine"
    assert [run.parent for run in group.runs] == ["gabc-s0@512"] * 2
    assert group.runs[0].record["start"] == "fork"
    assert [run.status.state for run in group.runs] == ["queued", "queued"]
    assert group.runs[0].status.max_env_steps == 100_000
    assert (store.root / "@last").resolve() == group.runs[-1].path.resolve()


def test_each_run_may_have_a_parent_of_its_own(store: Store, make_config: MakeConfig) -> None:
    group = store.create_group([make_config(0), make_config(1)], parent="gabc", parents=["gabc-s0@8", "gabc-s1@8"])
    assert group.parent == "gabc"
    assert [run.parent for run in group.runs] == ["gabc-s0@8", "gabc-s1@8"]


def test_configs_that_differ_in_more_than_the_seed_are_refused(store: Store, make_config: MakeConfig) -> None:
    with pytest.raises(UsageError, match="differ in more than the seed"):
        store.create_group([make_config(0), make_config(1, threshold=100.0)])
    assert store.runs() == []


@pytest.mark.parametrize("seeds", [[0, 0], []])
def test_seeds_that_would_be_counted_twice_and_empty_groups_are_refused(store: Store, make_config: MakeConfig, seeds: list[int]) -> None:
    with pytest.raises(UsageError, match=r"seed|at least one"):
        store.create_group([make_config(seed) for seed in seeds])


def test_extra_entries_cannot_hide_a_setting(store: Store, make_config: MakeConfig) -> None:
    with pytest.raises(UsageError, match="algo"):
        store.create_group([make_config()], extra={"algo": {}})


def test_groups_made_at_once_never_share_an_id(store: Store, make_config: MakeConfig) -> None:
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.append(store.create_group([make_config()]).id)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8
    assert sorted(group.id for group in store.groups()) == sorted(made)


def test_ids_grow_longer_when_the_short_ones_are_taken(store: Store, make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlclinic.runs.disk.secrets.choice", lambda alphabet: alphabet[0])
    ids = [store.create_group([make_config()]).id for _ in range(3)]
    assert ids == ["g222", "g2222", "g22222"]


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path, make_config: MakeConfig) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be")
    with pytest.raises(DiskFailed, match="runs"):
        Store(tmp_path / "runs").create_group([make_config()])


def test_a_group_that_was_not_finished_making_is_not_listed(store: Store, make_config: MakeConfig) -> None:
    group = store.create_group([make_config()])
    (group.path / "group.json").unlink()
    assert store.groups() == []
    assert [run.group for run in store.runs()] == [None]


# ── listing ──


def test_a_store_that_does_not_exist_is_empty_and_stays_so(store: Store) -> None:
    assert store.runs() == store.groups() == []
    with pytest.raises(NotFound, match="rlclinic train"):
        store.resolve("@last")
    assert not store.root.exists()


def test_runs_are_listed_oldest_first_and_seeds_in_order(store: Store, make_config: MakeConfig) -> None:
    new = created_at(store.create_group([make_config(seed) for seed in (2, 10, 1)]), 2_000.0)
    old = created_at(store.create_group([make_config()]), 1_000.0)
    assert [run.id for run in store.runs()] == [f"{old.id}-s0", f"{new.id}-s1", f"{new.id}-s2", f"{new.id}-s10"]
    assert store.groups() == [old, new]


def test_a_damaged_record_does_not_hide_the_others(store: Store, make_config: MakeConfig) -> None:
    bad, good = (store.create_group([make_config()]).runs[0] for _ in range(2))
    (bad.path / "config.json").write_text("{")
    assert store.runs() == [bad, good]


def test_a_thousand_runs_are_listed_in_less_than_a_third_of_a_second(store: Store, make_config: MakeConfig) -> None:
    origins = {"origins": {f"algo.setting_{index}": "CartPole-v1.yaml:12" for index in range(60)}}
    first = store.create_group([make_config(seed) for seed in range(8)], extra=origins)
    for index in range(124):
        for run in first.runs:
            shutil.copytree(run.path, store.root / f"g{index:03}x-s{run.seed}")
    seconds = []
    for _ in range(3):
        start = time.process_time()
        rows = [(run.id, run.status.state, run.status.env_steps, run.name, run.seed, run.created) for run in store.runs()]
        seconds.append(time.process_time() - start)
    assert len(rows) == 1_000
    assert min(seconds) < 0.3


# ── selecting ──


@pytest.fixture
def three(store: Store, make_group: MakeGroup) -> list[Group]:
    """Groups of 2 seeds each, oldest first: CartPole, Pendulum (better numbers, other env), CartPole."""
    groups = [make_group([[100.0], [300.0]]), make_group([[900.0], [950.0]], env="Pendulum-v1"), make_group([[400.0], [50.0]])]
    return [created_at(group, 1_000.0 + place) for place, group in enumerate(groups)]


def test_ids_name_groups_and_runs(store: Store, three: list[Group]) -> None:
    assert store.resolve(three[1].id) == three[1]
    assert store.resolve(three[1].runs[0].id) == three[1].runs[0]
    assert store.run(three[1].runs[0].id) == three[1].runs[0]
    assert store.group(three[1].runs[0].id) == three[1]


def test_last_is_the_newest_group_where_a_group_is_meant_and_the_newest_run_where_a_run_is(store: Store, three: list[Group]) -> None:
    assert store.resolve() == store.group() == three[2]
    assert store.group("@last~2") == three[0]
    assert store.run("@last") == three[2].runs[1]
    assert store.run("@last~3") == three[1].runs[0]
    with pytest.raises(NotFound, match="there are 3"):
        store.group("@last~3")


def test_last_is_what_people_started_and_without_that_what_a_search_or_trial_began_with(store: Store, three: list[Group]) -> None:
    def made(trial: str, at: float) -> Group:
        return created_at(store.create_group([three[0].config], extra={"trial": trial}), at)

    start, _, control, _ = (made(trial, 2_000.0 + at) for at, trial in enumerate(("o3f", "o3f", "t7k", "t7k")))
    assert store.group() == three[2]
    for group in three:
        store.remove(group)
    assert store.group() == control
    assert store.group("@last~1") == start


def test_best_is_the_best_on_the_environment_of_the_newest(store: Store, three: list[Group]) -> None:
    assert store.run("@best") == three[2].runs[0]
    assert store.run("@best~1") == three[0].runs[1]
    # Medians of the seeds: 200 against 225.
    assert store.group("@best") == three[2]
    with pytest.raises(NotFound, match="there are 4"):
        store.run("@best~4")


def test_running_is_the_newest_that_trains_now(store: Store, three: list[Group]) -> None:
    with pytest.raises(NotFound, match="nothing is running"):
        store.group("@running")
    with RunWriter(three[0].runs[1].path, COLUMNS, 0) as out:
        out.status("running", 1)
        assert store.group("@running") == three[0]
        assert store.run("@running") == three[0].runs[1]
        assert store.select("@running") == [three[0].runs[1]]


def test_a_unique_beginning_is_enough_and_an_ambiguous_one_lists_what_fits(store: Store, make_config: MakeConfig) -> None:
    ids = ["gabc", "gabd", "gxyz"]
    for gid in ids:
        group = store.create_group([make_config(0), make_config(1)])
        for run in group.runs:
            run.path.rename(store.root / run.id.replace(group.id, gid))
        record = json.loads((group.path / "group.json").read_text())
        disk.write_json(group.path / "group.json", {**record, "id": gid, "members": [f"{gid}-s0", f"{gid}-s1"]})
        group.path.rename(group.path.parent / gid)
    assert store.group("gx").id == "gxyz"
    assert store.run("gabd-s1").id == "gabd-s1"
    assert store.resolve("gabd-s1") == store.run("gabd-s1")
    with pytest.raises(UsageError, match="gabc, gabd"):
        store.group("ga")
    with pytest.raises(UsageError, match="gxyz-s0, gxyz-s1"):
        store.run("gxyz-s")
    with pytest.raises(NotFound, match="nearest: gxyz"):
        store.group("gxyy")


def test_a_group_is_a_run_where_one_is_needed_only_if_it_has_one(store: Store, make_config: MakeConfig, three: list[Group]) -> None:
    single = store.create_group([make_config(5)])
    assert store.run(single.id) == single.runs[0]
    with pytest.raises(UsageError, match=f"Pick one: {three[0].id}-s0, {three[0].id}-s1"):
        store.run(three[0].id)


def test_checkpoints_are_named_through_their_run(store: Store, three: list[Group]) -> None:
    run = three[2].runs[0]
    for step, link in ((512, "@best"), (1024, "@last")):
        (run.path / "checkpoints" / str(step)).mkdir(parents=True)
        disk.point(run.path / "checkpoints" / link, str(step))
    for text, step in ((f"{run.id}/@best", 512), (f"{run.id}@1024", 1024), (f"{run.id}/@last", 1024), (f"{run.id}@best", 512)):
        found = store.resolve(text)
        assert isinstance(found, Checkpoint)
        assert (found.step, found.run) == (step, run)
        assert store.checkpoint(text) == found
        assert store.run(text) == run
        assert store.group(text) == three[2]
    assert store.checkpoint(run.id).step == 1024
    with pytest.raises(NotFound, match="there: 512, 1024"):
        store.checkpoint(f"{run.id}@99")


def test_a_path_as_the_shell_completes_it_is_understood(store: Store, three: list[Group], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(store.root.parent)
    here = Store("runs")
    assert here.resolve(f"runs/{three[0].runs[0].id}/").id == three[0].runs[0].id  # type: ignore[union-attr]
    assert here.group(f"runs/@groups/{three[0].id}").id == three[0].id
    assert here.run("runs/@last").id == (store.root / "@last").readlink().name


def test_a_path_out_of_the_store_is_not_followed(store: Store, three: list[Group], tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    shutil.copytree(three[0].runs[0].path, outside)
    for text in (str(outside), f"{store.root}/../outside"):
        with pytest.raises(UsageError, match="names no run"):
            store.resolve(text)


def test_select_gives_every_run_that_is_meant(store: Store, three: list[Group]) -> None:
    assert store.select(three[0].id) == three[0].runs
    assert store.select(three[0].runs[1].id) == [three[0].runs[1]]
    assert store.select() == three[2].runs


# ── removing ──


def test_a_removed_run_leaves_its_group_and_a_removed_group_leaves_nothing(store: Store, three: list[Group]) -> None:
    gone = three[0].runs[0]
    assert store.remove(gone.id) == [gone.id]
    assert [run.seed for run in Group(three[0].path).runs] == [1]
    assert store.remove(store.group(three[0].id)) == [f"{three[0].id}-s1"]
    assert not three[0].path.exists()
    assert store.groups() == three[1:]


def test_the_link_to_the_newest_run_follows_a_removal(store: Store, three: list[Group]) -> None:
    store.remove(three[2])
    assert (store.root / "@last").readlink() == Path(three[1].runs[-1].id)
    store.remove(three[1])
    store.remove(three[0])
    assert not (store.root / "@last").is_symlink()


def test_a_run_that_is_being_written_is_not_removed_nor_are_its_neighbours(store: Store, three: list[Group]) -> None:
    with RunWriter(three[0].runs[1].path, COLUMNS, 0), pytest.raises(RunBusy, match=str(os.getpid())):
        store.remove(three[0])
    assert [run.path.exists() for run in three[0].runs] == [True, True]


def test_a_checkpoint_is_not_removed_by_itself(store: Store, three: list[Group]) -> None:
    run = three[0].runs[0]
    (run.path / "checkpoints" / "1").mkdir(parents=True)
    with pytest.raises(UsageError, match="is a checkpoint"):
        store.remove(f"{run.id}@1")


def test_a_crashed_run_counts_as_ended(store: Store, three: list[Group]) -> None:
    run = three[0].runs[0]
    status_file.write(run.path, replace(status_file.raw(run.path), state="running", pid=2**22 + 1))
    assert Run(run.path).status.state == "crashed"
    with pytest.raises(NotFound, match="nothing is running"):
        store.select("@running")


def test_a_file_is_no_folder_of_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"is a file, not a folder of runs"):
        Store(tmp_path / "file").runs()
