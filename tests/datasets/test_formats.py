"""Other formats: what the packages themselves wrote, and arrays under the names in use."""

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from rlclinic.datasets import Dataset, read
from rlclinic.datasets.episodes import Space
from rlclinic.datasets.formats import flat, minari, open_source
from rlclinic.errors import ConfigError, NotFound, RlclinicError
from tests.datasets.made import dataset

SAMPLES = Path(__file__).parent / "samples"
"""Written by Minari 0.5.3: four episodes of CartPole cut at 12 steps, once as HDF5 and once as Arrow, and three of FrozenLake."""


def arrays(data: Dataset) -> dict[str, np.ndarray]:
    """One row a step, as D4RL has them."""
    rows = data.transitions(np.arange(len(data)))
    last = np.isin(np.arange(len(data)), data.ends - 1)
    return {
        "observations": rows.observations,
        "actions": rows.actions,
        "rewards": rows.rewards,
        "next_observations": rows.next_observations,
        "terminals": rows.terminated,
        "timeouts": last & ~rows.terminated,
    }


def same(first: Dataset, second: Dataset) -> None:
    for name in ("observations", "actions", "rewards", "lengths", "terminated", "truncated"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


@pytest.mark.parametrize("kind", ["hdf5", "arrow"])
def test_minari_is_read_as_it_was_recorded(kind: str) -> None:
    import gymnasium

    data = read(SAMPLES / f"minari-{kind}")
    assert (data.env_id, data.n_episodes, data.action_space.n) == ("CartPole-v1", 4, 2)
    env = gymnasium.make("CartPole-v1", max_episode_steps=12)
    for index, episode in enumerate(data):
        seen, ended, cut = [env.reset(seed=index)[0]], False, False
        for action in episode.actions:
            obs, _, ended, cut, _ = env.step(int(action))
            seen.append(obs)
        np.testing.assert_array_equal(episode.observations, np.stack(seen))
        assert (episode.terminated, episode.truncated) == (ended, cut)


def test_choices_of_an_observation_are_one_hot_as_in_training() -> None:
    data = read(SAMPLES / "minari-lake")
    assert data.observations.shape[1:] == (16,)
    assert (data.observations.sum(1) == 1).all()


def test_what_is_written_for_minari_is_read_back(tmp_path: Path) -> None:
    for discrete in (False, True):
        data = dataset(discrete=discrete)
        minari.write(data, tmp_path / str(discrete), "walk/test-v0")
        same(read(tmp_path / str(discrete)), data)


def test_minaris_own_folder_is_searched_by_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(SAMPLES))
    assert read("minari-hdf5").n_episodes == 4
    with pytest.raises(NotFound, match="none of that name"):
        read("minari-nothing")


def test_two_episodes_written_as_one_are_refused(tmp_path: Path) -> None:
    minari.write(dataset(), tmp_path / "d", "walk/test-v0")
    with h5py.File(tmp_path / "d" / "data" / "main_data.hdf5", "a") as file:
        file["episode_0/terminations"][1] = True
    with pytest.raises(ConfigError, match="goes on after its end at step 1"):
        read(tmp_path / "d")


@pytest.mark.parametrize("ending", ["npz", "hdf5", "csv"])
@pytest.mark.parametrize("discrete", [False, True])
def test_arrays_become_the_episodes_they_came_from(tmp_path: Path, ending: str, discrete: bool) -> None:
    data, path = dataset(discrete=discrete), tmp_path / f"d.{ending}"
    columns = arrays(data)
    if ending == "npz":
        np.savez(path, **columns)
    elif ending == "hdf5":
        with h5py.File(path, "w") as file:
            for name, values in columns.items():
                file[name] = values
    else:
        heads = ["obs_0", "obs_1", "action" if discrete else "action_0", "reward", "next_obs_0", "next_obs_1", "terminated", "truncated"]
        table = np.column_stack([np.asarray(values, np.float64).reshape(len(data), -1) for values in columns.values()])
        path.write_text("\n".join([",".join(heads), *(",".join(map(repr, row)) for row in table.tolist())]) + "\n")
    same(read(path), data)


@pytest.mark.parametrize("ending", ["npz", "hdf5", "csv"])
@pytest.mark.parametrize("discrete", [False, True])
def test_what_is_written_with_one_row_a_step_is_read_back(
    tmp_path: Path, ending: str, discrete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where actions are whole numbers that are no choices, and where blocks end within episodes."""
    monkeypatch.setattr(flat, "BLOCK", 4)
    data = dataset((5, 3, 7), discrete=discrete)
    if not discrete:
        data = replace(data, actions=np.ones_like(data.actions))
    flat.write(data, tmp_path / f"d.{ending}")
    found = read(tmp_path / f"d.{ending}")
    same(found, data)
    assert found.action_space.kind == data.action_space.kind
    with pytest.raises(ConfigError, match="not overwritten"):
        flat.write(data, tmp_path / f"d.{ending}")
    assert [file.name for file in tmp_path.iterdir()] == [f"d.{ending}"]


def test_pictures_are_no_table(tmp_path: Path) -> None:
    data = dataset()
    with pytest.raises(ConfigError, match="one column for each number"):
        flat.write(replace(data, observation_space=Space("box", (4, 4, 3))), tmp_path / "d.csv")


def test_without_next_observations_the_last_step_of_a_cut_episode_is_left_out(tmp_path: Path) -> None:
    data = dataset((5, 3, 7))
    columns = arrays(data)
    del columns["next_observations"]
    np.savez(tmp_path / "d.npz", **columns)
    found = read(tmp_path / "d.npz")
    assert found.lengths.tolist() == [4, 3, 6]
    assert not found.final_known
    assert any("2 truncated episodes" in note for note in found.notes)


def test_ends_without_a_flag_are_found_where_observations_do_not_follow(tmp_path: Path) -> None:
    data = dataset((5, 3, 7))
    columns = arrays(data)
    del columns["timeouts"]
    np.savez(tmp_path / "d.npz", **columns)
    assert read(tmp_path / "d.npz").lengths.tolist() == [5, 3, 7]


def test_what_a_step_led_to_is_looked_at_even_where_the_next_row_has_it_again(tmp_path: Path) -> None:
    columns = arrays(dataset((5, 3, 7)))
    columns["next_observations"][1, 0] = np.nan
    np.savez(tmp_path / "d.npz", **columns)
    with pytest.raises(ConfigError, match="observation at step 2 is not finite"):
        read(tmp_path / "d.npz")


def test_dones_alone_are_said_to_be_ambiguous(tmp_path: Path) -> None:
    columns = arrays(dataset())
    done = columns.pop("terminals") | columns.pop("timeouts")
    np.savez(tmp_path / "d.npz", **columns, dones=done)
    found = read(tmp_path / "d.npz")
    assert found.terminated.all()
    assert "taken as terminated" in found.notes[0]


def test_d3rlpy_files_are_read(tmp_path: Path) -> None:
    data = dataset((5, 3, 7), discrete=True)
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["columns"] = ["observations", "actions", "rewards", "terminated"]
        file["num_episodes"] = data.n_episodes
        file["version"] = "2.1"
        for index, episode in enumerate(data):
            file[f"observations_{index}"] = episode.observations[:-1]
            file[f"actions_{index}"] = episode.actions[:, None]
            file[f"rewards_{index}"] = episode.rewards[:, None]
            file[f"terminated_{index}"] = episode.terminated
    found = read(tmp_path / "d.h5")
    assert found.lengths.tolist() == [4, 3, 6]
    assert found.action_space.n == 3


def test_lerobot_folders_are_read(tmp_path: Path) -> None:
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "info.json").write_text('{"fps": 10, "robot_type": "arm"}')
    (tmp_path / "data" / "chunk-000").mkdir(parents=True)
    draw = np.random.default_rng(0)
    rows = {
        "observation.state": list(draw.normal(size=(7, 2)).astype(np.float32)),
        "action": list(draw.normal(size=(7, 1)).astype(np.float32)),
        "next.reward": np.array([0, 0, 1, 0, 0, 0, 0], np.float32),
        "next.success": np.array([0, 0, 1, 0, 0, 0, 0], bool),
        "episode_index": np.array([0, 0, 0, 1, 1, 1, 1]),
        "frame_index": np.array([0, 1, 2, 0, 1, 2, 3]),
    }
    pyarrow.parquet.write_table(pa.table(rows), tmp_path / "data" / "chunk-000" / "file.parquet")
    data = read(tmp_path)
    assert (data.lengths.tolist(), data.terminated.tolist()) == ([3, 3], [True, False])
    assert "the last step of 1 truncated episodes is left out" in data.notes[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rewards": None}, "no rewards"),
        ({"terminals": None, "timeouts": None}, "where episodes end"),
        ({"rewards": np.zeros(3)}, "one row a step"),
        ({"observations": np.full((15, 2), np.nan)}, "not finite"),
        ({"rewards": np.zeros((15, 2))}, "rewards has 2 numbers a step"),
        ({"terminals": np.zeros((15, 3))}, "terminated has 3 numbers a step"),
        # Not a number is no yes, and neither is a count.
        ({"terminals": np.where(np.arange(15) == 4, np.nan, 0.0)}, "terminated at step 4 is nan"),
        ({"timeouts": np.arange(15) % 3}, "truncated at step 2 is 2"),
        ({"terminals": np.array(["no"] * 15)}, "terminated at step 0 is no"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, np.ndarray | None], words: str) -> None:
    columns = {name: values for name, values in (arrays(dataset((5, 3, 7))) | change).items() if values is not None}
    np.savez(tmp_path / "d.npz", **columns)
    with pytest.raises(ConfigError, match=words):
        read(tmp_path / "d.npz")


@pytest.mark.parametrize("name", ["d.npz", "d.hdf5", "d.h5", "d.csv", "d.txt", "nothing.npz"])
def test_garbage_gets_a_clear_error(tmp_path: Path, name: str) -> None:
    if name != "nothing.npz":
        (tmp_path / name).write_bytes(b"\x00garbage,\n1,2,3\n")
    with pytest.raises(RlclinicError, match=r"d\.|nothing"):
        read(tmp_path / name)


def test_a_large_file_is_converted_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlclinic.datasets import formats

    np.savez(tmp_path / "d.npz", **arrays(dataset()))
    monkeypatch.setattr(formats, "LARGEST_IN_MEMORY", 10)
    with pytest.raises(ConfigError, match="data convert"):
        read(tmp_path / "d.npz")
    assert sum(1 for _ in open_source(tmp_path / "d.npz").episodes) == 3
