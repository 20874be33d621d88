import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from rlclinic.readers import episodes, thinning
from rlclinic.readers.episodes import EVALUATION_TAGS, MONITOR_TAGS


def write_monitor(path: Path, rows: list[tuple[float, int]], t_start: float = 1_000.0, extra: str = "") -> Path:
    header = f'#{{"t_start": {t_start}, "env_id": "CartPole-v1"}}\nr,l,t{",is_success" if extra else ""}\n'
    path.write_text(header + "".join(f"{value},{length},{0.1 * place:.6f}{extra}\n" for place, (value, length) in enumerate(rows)))
    return path


def test_monitors_of_several_envs_are_joined_on_the_runs_steps(tmp_path: Path) -> None:
    files = [
        write_monitor(tmp_path / "0.monitor.csv", [(10.0, 10), (20.0, 20)]),
        write_monitor(tmp_path / "1.monitor.csv", [(15.0, 15)], t_start=1_001.0),
    ]
    found = episodes.read_monitors(files)
    series = found.raw_log.series(MONITOR_TAGS, {})
    assert (found.n_envs, found.env_id, found.started) == (2, "CartPole-v1", 1_001.0)
    # Both envs step together: episode ends at 10, 15 and 30 steps of each are at 20, 30 and 60 of the run.
    assert series["train/roll/ep_rew_mean"].steps.tolist() == [20, 30, 60]
    assert series["train/roll/ep_rew_mean"].values.tolist() == [10.0, 12.5, 15.0]
    assert series["train/roll/ep_rew_best"].values.tolist() == [10.0, 15.0, 20.0]


def test_monitors_agree_with_what_sb3_logged_itself_where_the_mean_goes_back_as_far(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "FEWEST", thinning.WINDOW)
    found = episodes.read_monitors(sorted((samples / "sb3_ppo" / "monitor").iterdir()))
    last = found.raw_log.series(MONITOR_TAGS, {})["train/roll/ep_rew_mean"].last
    logged = (samples / "sb3_ppo" / "progress.csv").read_text().splitlines()
    column = logged[0].split(",").index("rollout/ep_rew_mean")
    assert last == pytest.approx(float(logged[-1].split(",")[column]))


def test_files_that_a_larger_run_left_behind_are_left_out(tmp_path: Path) -> None:
    files = [
        write_monitor(tmp_path / "0.monitor.csv", [(1.0, 10)], t_start=9_000.0),
        write_monitor(tmp_path / "1.monitor.csv", [(99.0, 10)], t_start=1_000.0),
    ]
    found = episodes.read_monitors(files)
    assert (found.n_envs, found.raw_log.series(MONITOR_TAGS, {})["train/roll/ep_rew_best"].last) == (1, 1.0)
    assert any("1 monitor files of an earlier run" in note for note in found.notes)


def test_success_is_read_where_the_monitor_has_it(tmp_path: Path) -> None:
    found = episodes.read_monitors([write_monitor(tmp_path / "monitor.csv", [(1.0, 5), (1.0, 5)], extra=",True")])
    assert found.raw_log.series(MONITOR_TAGS, {})["train/roll/success_rate"].last == 1.0


@pytest.mark.parametrize("text", ["", "#{\n", "#{}\nr,l,t\n", "#{}\nr,l,t\n1.0,1", "r,l,t\nx,y,z\n", "#[1]\nr,l,t\n"])
def test_a_monitor_without_whole_episodes_is_nothing(text: str, tmp_path: Path) -> None:
    path = tmp_path / "monitor.csv"
    path.write_text(text)
    assert episodes.read_monitors([path]).n_envs == 0


def test_other_files_are_no_monitors(tmp_path: Path) -> None:
    path = tmp_path / "my_monitor.csv"
    path.write_text("cpu,memory\n1,2\n")
    assert not episodes.is_monitor(path)


def test_evaluations_have_mean_spread_worst_length_and_success(tmp_path: Path) -> None:
    path = tmp_path / "evaluations.npz"
    results = np.array([[1.0, 3.0], [5.0, 5.0]])
    np.savez(path, timesteps=[100, 200], results=results, ep_lengths=[[10, 20], [30, 30]], successes=[[True, False], [True, True]])
    read = episodes.read_evaluations(path, [])
    assert read is not None
    raw_log, count = read
    assert count == 2
    series = raw_log.series(EVALUATION_TAGS, {})
    assert {name: found.values.tolist() for name, found in series.items()} == {
        "val/roll/ep_rew_mean": [2.0, 5.0],
        "val/roll/ep_rew_std": [1.0, 0.0],
        "val/roll/ep_rew_min": [1.0, 5.0],
        "val/roll/ep_len_mean": [15.0, 30.0],
        "val/roll/success_rate": [0.5, 1.0],
    }
    assert series["val/roll/ep_rew_mean"].steps.tolist() == [100, 200]
    assert series["val/roll/ep_rew_mean"].name == "results mean"


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, (Path("OWNED"),))  # type: ignore[return-value]


def npz(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return file.getvalue()


def npy(array: object) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_a_pickled_array_is_refused_and_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pickled = np.empty(1, dtype=object)
    pickled[0] = Evil()
    path = tmp_path / "evaluations.npz"
    path.write_bytes(npz(timesteps=npy(pickled), results=npy(pickled)))
    notes: list[str] = []
    assert episodes.read_evaluations(path, notes) is None
    assert "cannot be read" in notes[0]
    assert not (tmp_path / "OWNED").exists()


HUGE = npy(np.zeros(2)).replace(b"(2,)", b"(2" + b"0" * 12 + b",)").replace(b" " * 12, b"", 1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04",
        npz(),
        npz(timesteps=b"nonsense", results=b"nonsense"),
        npz(timesteps=HUGE, results=HUGE),
        npz(timesteps=npy([1]), results=npy([[1.0], [2.0]])),
        npz(timesteps=npy([1]), results=npy(["text"])),
        npz(timesteps=npy([1]), results=npy([[1j]])),
        npz(timesteps=npy(np.empty(0)), results=npy(np.empty((0, 5)))),
    ],
    ids=["empty", "a head alone", "no arrays", "nonsense", "huge", "lengths differ", "text", "complex", "no rows"],  # bytes hold the time
)
def test_damaged_or_hostile_evaluations_are_left_out_with_a_note(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "evaluations.npz"
    path.write_bytes(data)
    notes: list[str] = []
    assert episodes.read_evaluations(path, notes) is None
    assert len(notes) == 1


def test_infinite_results_are_broken_and_no_warning(tmp_path: Path) -> None:
    path = tmp_path / "evaluations.npz"
    np.savez(path, timesteps=[1, 2], results=[[np.inf, 1.0], [1.0, 1.0]])
    read = episodes.read_evaluations(path, [])
    assert read is not None
    assert read[0].series(EVALUATION_TAGS, {})["val/roll/ep_rew_mean"].broken.tolist() == [1]
