from collections.abc import Callable
from pathlib import Path

import pytest

from rlclinic.readers import sb3_tree

CopySample = Callable[..., Path]
MONITOR = '#{{"t_start": {start}, "env_id": "X"}}\nr,l,t\n1,1,1\n'


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """Files by relative path: empty, or a monitor that was started at the time given."""

    def make_files(*names: str, **started: float) -> Path:
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            start = started.get(name.split("/")[0])
            path.write_text(MONITOR.format(start=start) if start is not None and name.endswith("monitor.csv") else "")
        return tmp_path

    return make_files


def roots(path: Path) -> list[str]:
    return sorted(files.root.relative_to(path).as_posix() for files in sb3_tree.find_runs(path))


def test_files_side_by_side_in_folders_of_their_own_are_one_run(make: Callable[..., Path]) -> None:
    path = make(
        "log/progress.csv", "monitor/0.monitor.csv", "monitor/1.monitor.csv", "eval/evaluations.npz", "tb/PPO_1/events.out.tfevents.1"
    )
    (files,) = sb3_tree.find_runs(path)
    assert files.root == path
    assert (len(files.progress), len(files.monitors), len(files.evaluations), len(files.events)) == (1, 2, 1, 1)


def test_a_folder_for_each_run_gives_a_run_for_each_folder(make: Callable[..., Path]) -> None:
    path = make("seed1/progress.csv", "seed1/monitor.csv", "seed2/progress.csv", "seed2/eval/evaluations.npz")
    assert roots(path) == ["seed1", "seed2"]


def test_folders_that_are_not_called_parts_are_runs_of_their_own(make: Callable[..., Path]) -> None:
    assert roots(make("first/progress.csv", "second/monitor.csv")) == ["first", "second"]


def test_a_part_below_a_run_belongs_to_it_though_another_run_lies_there(make: Callable[..., Path]) -> None:
    found = {
        files.root.name: files for files in sb3_tree.find_runs(make("now/progress.csv", "now/eval/evaluations.npz", "now/old/progress.csv"))
    }
    assert len(found["now"].evaluations) == 1
    assert found["old"].evaluations == []


def test_a_part_of_a_run_finds_the_rest_beside_it(make: Callable[..., Path]) -> None:
    path = make("log/progress.csv", "monitor/0.monitor.csv", "eval/evaluations.npz")
    (part,) = sb3_tree.find_runs(path / "eval")
    assert len(sb3_tree.add_siblings(part).progress) == 1


def test_a_part_in_a_crowded_folder_is_left_alone(make: Callable[..., Path]) -> None:
    path = make("progress.csv", "eval/evaluations.npz", *(f"file{number}.txt" for number in range(80)))
    (part,) = sb3_tree.find_runs(path / "eval")
    assert sb3_tree.add_siblings(part) is part


def test_files_of_the_outer_folder_are_a_run_of_their_own_where_runs_lie_below(make: Callable[..., Path]) -> None:
    assert roots(make("progress.csv", "old/progress.csv")) == [".", "old"]


def test_settings_below_a_run_belong_to_it(make: Callable[..., Path]) -> None:
    path = make("a/0.monitor.csv", "a/Env/config.yml", "a/Env/args.yml", "b/0.monitor.csv")
    found = {files.root.name: files for files in sb3_tree.find_runs(path)}
    assert [folder.name for folder in found["a"].configs] == ["Env"]
    assert found["b"].configs == []


def test_event_files_are_joined_with_the_run_that_was_started_before_them(make: Callable[..., Path]) -> None:
    path = make(
        *("a/monitor.csv", "b/monitor.csv"),
        *(
            "tb/PPO_1/events.out.tfevents.1700000010.h",
            "tb/PPO_2/events.out.tfevents.1700009010.h",
            "tb/PPO_3/events.out.tfevents.1700500000.h",
        ),
        a=1_700_009_000.0,
        b=1_700_000_000.0,
    )
    found = {files.root.name: [file.parent.name for file in files.events] for files in sb3_tree.find_runs(path)}
    assert found == {"a": ["PPO_2"], "b": ["PPO_1"], "PPO_3": ["PPO_3"]}


def test_the_other_tree_that_rl_zoo3_was_told_to_use_is_found(samples: Path) -> None:
    run = samples / "sb3_zoo" / "logs" / "ppo" / "CartPole-v1_2"
    (files,) = sb3_tree.find_runs(run)
    assert files.events == []
    assert [path.parent.name for path in sb3_tree.find_events_elsewhere(files, [])] == ["PPO_2"]


def test_monitors_are_in_the_order_of_their_numbers(make: Callable[..., Path]) -> None:
    (files,) = sb3_tree.find_runs(make(*(f"{number}.monitor.csv" for number in range(12))))
    assert [path.name for path in files.monitors] == [f"{number}.monitor.csv" for number in range(12)]


def test_hidden_folders_and_folders_too_deep_are_not_looked_at(make: Callable[..., Path]) -> None:
    assert sb3_tree.find_runs(make(".git/progress.csv", "/".join("abcdefgh") + "/progress.csv")) == []


def test_a_folder_without_logs_has_no_runs(make: Callable[..., Path]) -> None:
    assert sb3_tree.find_runs(make("readme.md", "model.zip", "Env/config.yml", "Env/args.yml")) == []
