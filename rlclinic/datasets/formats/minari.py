"""Minari's folders (hdf5 and arrow), read and written. https://minari.farama.org"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlclinic import plain_files
from rlclinic.datasets.episodes import Dataset, Episode, Space
from rlclinic.datasets.formats.source import MOST_CHOICES, Source, check_array, import_package, open_hdf5
from rlclinic.errors import ConfigError

__all__ = ["knows", "open_source", "write"]

MOST_BYTES: Final = 10_000_000
"""Of metadata.json."""


def knows(path: Path) -> bool:
    """A folder of Minari's, or the folder `data` in it."""
    return plain_files.is_plain(_data(path) / "metadata.json") and (
        plain_files.is_plain(_data(path) / "main_data.hdf5") or (_data(path) / "0" / "metadata.json").exists()
    )


def open_source(path: Path) -> Source:
    """Episodes in the order of their numbers."""
    folder = _data(path)
    try:
        about = json.loads(plain_files.read_text(folder / "metadata.json", MOST_BYTES))
        observed, acted = (json.loads(about[name]) for name in ("observation_space", "action_space"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{folder / 'metadata.json'} does not say what the data is: {error}.\n  Minari writes it beside the data"
        ) from error
    spec = json.loads(about["env_spec"]) if about.get("env_spec") else {}
    episodes = _hdf5(folder, observed) if plain_files.is_plain(folder / "main_data.hdf5") else _arrow(folder, observed)
    facts = {
        name: about[name]
        for name in ("dataset_id", "algorithm_name", "description", "ref_min_score", "ref_max_score")
        if about.get(name) is not None
    }
    return Source(
        episodes,
        _observation_space(observed),
        _action_space(acted),
        spec.get("id"),
        f"Minari {about.get('dataset_id', path.name)}",
        facts=facts,
    )


def write(data: Dataset, path: Path, dataset_id: str, env_spec: str | None = None) -> None:
    """A dataset as a folder that Minari loads: put it below MINARI_DATASETS_PATH under its id. env_spec: Gymnasium's, as JSON."""
    h5py = import_package("h5py")
    folder = path / "data"
    if folder.exists():
        raise ConfigError(f"{folder} is there already, and data is not overwritten.\n  Name another place, or remove it first")
    folder.mkdir(parents=True)
    discrete = data.action_space.kind == "discrete"
    with h5py.File(folder / "main_data.hdf5", "w") as file:
        for index, episode in enumerate(data):
            steps, rewards = len(episode.rewards), np.asarray(episode.rewards, np.float64)
            group = file.create_group(f"episode_{index}")
            ends = np.zeros((2, steps), bool)
            ends[:, -1] = episode.terminated, episode.truncated
            actions = np.asarray(episode.actions, np.int64 if discrete else np.float32)
            columns = {
                "observations": episode.observations,
                "actions": actions,
                "rewards": rewards,
                "terminations": ends[0],
                "truncations": ends[1],
            }
            for name, values in columns.items():
                group.create_dataset(name, data=values)
            group.create_group("infos")
            summary = {"sum": rewards.sum(), "mean": rewards.mean(), "std": rewards.std(), "max": rewards.max(), "min": rewards.min()}
            group.attrs.update({"id": index, "total_steps": steps, **{f"rewards_{name}": value for name, value in summary.items()}})
    about = {
        "total_episodes": data.n_episodes,
        "total_steps": len(data),
        "data_format": "hdf5",
        "observation_space": json.dumps(_box(data.observation_space, np.asarray(data.observations[:1]).dtype.name)),
        "action_space": json.dumps(
            {"type": "Discrete", "dtype": "int64", "start": 0, "n": data.action_space.n} if discrete else _box(data.action_space, "float32")
        ),
        "dataset_size": round((folder / "main_data.hdf5").stat().st_size / 1e6, 1),
        "dataset_id": dataset_id,
        "minari_version": "0.5.3",
        "description": data.source,
    }
    if env_spec is not None:
        about["env_spec"] = env_spec
    (folder / "metadata.json").write_text(json.dumps(about), encoding="utf-8")


def _box(space: Space, dtype: str) -> dict[str, Any]:
    size = int(np.prod(space.shape))
    low, high = space.low or (-np.inf,) * size, space.high or (np.inf,) * size
    shaped = (np.reshape(np.array(bound, np.float64), space.shape).tolist() for bound in (low, high))
    return {"type": "Box", "dtype": dtype, "shape": list(space.shape), **dict(zip(("low", "high"), shaped, strict=True))}


def _data(path: Path) -> Path:
    return path / "data" if (path / "data").is_dir() else path


def _hdf5(folder: Path, space: dict[str, Any]) -> Iterator[Episode]:
    with open_hdf5(folder / "main_data.hdf5") as file:
        names = sorted((name for name in file if re.fullmatch(r"episode_\d+", name)), key=lambda name: int(name.rpartition("_")[2]))
        for name in names:
            group = file[name]
            _check_arrays(folder / "main_data.hdf5", group.get("observations", group))
            try:
                yield _episode(
                    _observations(group["observations"], space),
                    *(
                        np.asarray(check_array(folder / "main_data.hdf5", group[key]))
                        for key in ("actions", "rewards", "terminations", "truncations")
                    ),
                )
            except (KeyError, TypeError) as error:
                raise ConfigError(
                    f"{name} of {folder / 'main_data.hdf5'} is not whole: {error}.\n  Take the data again, or leave the episode out"
                ) from error


def _check_arrays(path: Path, values: Any) -> None:
    """An array, or those of a group: parts of a dictionary or tuple."""
    check_array(path, values)
    for part in () if hasattr(values, "nbytes") else values.values():
        _check_arrays(path, part)


def _arrow(folder: Path, space: dict[str, Any]) -> Iterator[Episode]:
    """One row a step; the row behind the last step has its observation, and nothing else that counts."""
    arrow = import_package("pyarrow")
    import_package("pyarrow.ipc")
    for part in sorted((part for part in folder.iterdir() if part.name.isdigit()), key=lambda part: int(part.name)):
        tables = []
        for file in sorted(part.glob("part-*.arrow")):
            with plain_files.open_plain(file) as opened:
                tables.append(arrow.ipc.open_file(opened).read_all())
        table = arrow.concat_tables(tables)
        columns = {name: _column(table[name]) for name in ("actions", "rewards", "terminations", "truncations")}
        steps = table.num_rows - 1
        observed = table["observations"]
        nested = arrow.types.is_struct(observed.type)
        observations = (
            {key: _column(observed.combine_chunks().field(key)) for key in (field.name for field in observed.type)}
            if nested
            else _column(observed)
        )
        yield _episode(_observations(observations, space), *(values[:steps] for values in columns.values()))


def _column(values: Any) -> NDArray[Any]:
    """A column of numbers, or of vectors of one length."""
    arrow = import_package("pyarrow")
    joined = values.combine_chunks() if hasattr(values, "combine_chunks") else values
    if arrow.types.is_fixed_size_list(joined.type):
        return np.asarray(joined.flatten()).reshape(len(joined), -1)
    return np.asarray(joined)


def _episode(observations: NDArray[Any], actions: NDArray[Any], rewards: NDArray[Any], ended: NDArray[Any], cut: NDArray[Any]) -> Episode:
    middle = np.flatnonzero(ended[:-1] | cut[:-1])
    if len(middle):
        raise ConfigError(
            f"an episode goes on after its end at step {int(middle[0])}.\n  Two episodes were written as one: split them there"
        )
    last = (bool(ended[-1]), bool(cut[-1])) if len(ended) else (False, False)
    return Episode(observations, actions, rewards, last[0], last[1] or not last[0])


def _observations(values: Any, space: dict[str, Any]) -> NDArray[Any]:
    """Observations as training sees them: boxes as they are, choices one-hot, parts of a dictionary or tuple one after another."""
    kind = space.get("type")
    if kind == "Box":
        return np.asarray(values)
    if kind == "Discrete":
        choices = np.asarray(values, np.int64).ravel() - int(space.get("start", 0))
        one_hot = np.zeros((len(choices), _width(space)), np.float32)
        one_hot[np.arange(len(choices)), choices] = 1.0
        return one_hot
    if kind in ("Dict", "Tuple"):
        parts = space.get("subspaces") or space.get("spaces") or {}
        named = parts.items() if isinstance(parts, dict) else ((f"_index_{index}", part) for index, part in enumerate(parts))
        joined = [_observations(values[key], part) for key, part in named]
        return np.concatenate([part.reshape(len(part), -1).astype(np.float32) for part in joined], axis=1)
    raise ConfigError(f"observations of the kind {kind} cannot be learned from.\n  Boxes, choices, dictionaries and tuples of them can")


def _observation_space(space: dict[str, Any]) -> Space:
    if space.get("type") == "Box":
        low, high = (tuple(np.ravel(space[name]).astype(float).tolist()) if name in space else None for name in ("low", "high"))
        return Space("box", tuple(space["shape"]), low=low, high=high)
    return Space("box", (_width(space),))


def _width(space: dict[str, Any]) -> int:
    if space.get("type") == "Box":
        return int(np.prod(space["shape"]))
    if space.get("type") == "Discrete":
        if int(space["n"]) > MOST_CHOICES:
            raise ConfigError(f"an observation is one of {int(space['n'])} choices, and at most {MOST_CHOICES:,} can be told apart")
        return int(space["n"])
    parts = space.get("subspaces") or space.get("spaces") or {}
    return sum(map(_width, parts.values() if isinstance(parts, dict) else parts))


def _action_space(space: dict[str, Any]) -> Space:
    if space.get("type") == "Discrete":
        if int(space.get("start", 0)):
            raise ConfigError(f"its choices count from {space['start']}.\n  Subtract that from the actions: training counts from 0")
        return Space("discrete", n=int(space["n"]))
    if space.get("type") == "Box":
        return _observation_space(space)
    raise ConfigError(f"actions of the kind {space.get('type')} cannot be learned from data.\n  Boxes and choices can")
