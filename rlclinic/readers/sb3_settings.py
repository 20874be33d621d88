"""Settings beside an SB3 run: rl-zoo3's YAML files and the JSON part of a saved model. Nothing in them is ever executed."""

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from rlclinic import plain_files
from rlclinic.config import yaml_text
from rlclinic.errors import ConfigError
from rlclinic.readers import hyperparameters
from rlclinic.readers.hyperparameters import Settings
from rlclinic.runs.coerce import whole

CONFIG, ARGUMENTS = "config.yml", "args.yml"
MAX_YAML_BYTES: Final = 1 << 16
MAX_DATA_BYTES: Final = 8 << 20
_PYTHON: Final = "tag:yaml.org,2002:python/"
_MODEL_MARK: Final = "_stable_baselines3_version"


def _make_loader() -> Any:
    """A safe loader that reads Python's tags as plain data: tuples as lists, ordered dicts as dicts, names as texts."""

    loader: Any = type("PlainLoader", (yaml_text.Loader,), {})
    loader.add_multi_constructor(_PYTHON, _construct_plain)
    return loader


def _construct_plain(loader: Any, suffix: str, node: Any) -> Any:
    if suffix.startswith("name:"):
        return suffix.removeprefix("name:")
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    items = loader.construct_sequence(node, deep=True)
    if suffix.endswith("OrderedDict"):
        return _construct_ordered(items)
    return items


def _construct_ordered(items: list[Any]) -> Any:
    """`OrderedDict([[key, value], ...])`: its only argument is the list of pairs."""
    pairs = items[0] if len(items) == 1 and isinstance(items[0], list) else items
    if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        return items
    return dict(pairs)


def read_yaml(path: Path, notes: list[str]) -> dict[str, Any]:
    """The mapping in a YAML file; {} with a note if there is none."""
    try:
        value = yaml_text.load(plain_files.read_bytes(path, MAX_YAML_BYTES), path.name, loader=_make_loader())
    except plain_files.TooLarge:
        notes.append(f"{path.name} is too large for settings and was left out")
        return {}
    except (OSError, ConfigError, yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError) as error:
        notes.append(f"{path.name} is not readable as YAML ({type(error).__name__}) and was left out")
        return {}
    if isinstance(value, Mapping):
        return {str(key): inner for key, inner in value.items() if isinstance(key, str)}
    notes.append(f"{path.name} holds no settings and was left out")
    return {}


def read_zoo_settings(folder: Path, notes: list[str]) -> Settings:
    """config.yml and args.yml of rl-zoo3; the arguments say the environment, the algorithm and the seed."""
    found: Settings = {}
    if (folder / CONFIG).is_file():
        found = hyperparameters.translate_sb3(read_yaml(folder / CONFIG, notes))
    arguments = read_yaml(folder / ARGUMENTS, notes) if (folder / ARGUMENTS).is_file() else {}
    if isinstance(env := arguments.get("env"), str):
        found["env.id"] = env
    if (algo := hyperparameters.find_algorithm(arguments.get("algo", ""))) is not None:
        found["algo.name"] = algo
    if isinstance(seed := arguments.get("seed"), int) and seed >= 0:
        found["seed"] = seed
    steps = whole(arguments.get("n_timesteps"))
    if steps is not None and steps > 0:
        # -1 means "as in the hyperparameters".
        found["run.max_env_steps"] = steps
    if isinstance(kwargs := arguments.get("env_kwargs"), Mapping) and kwargs:
        found["env.kwargs"] = dict(kwargs)
    return found


def find_tensorboard_folder(folder: Path, notes: list[str]) -> str | None:
    """Where rl-zoo3 was told to put TensorBoard's files: a relative path, or None."""
    value = read_yaml(folder / ARGUMENTS, notes).get("tensorboard_log") if (folder / ARGUMENTS).is_file() else None
    if not isinstance(value, str) or not value or Path(value).is_absolute() or ".." in Path(value).parts:
        return None
    return value


def is_model(path: Path) -> bool:
    """Whether a zip file is a model that SB3 saved."""
    try:
        with plain_files.open_plain(path) as file, zipfile.ZipFile(file) as archive:
            return _MODEL_MARK in archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError):
        return False


def read_model_settings(path: Path, notes: list[str]) -> Settings:
    """Settings of a saved model, from the JSON part of the zip; what is pickled in there stays closed."""
    try:
        with plain_files.open_plain(path) as file, zipfile.ZipFile(file) as archive:
            if archive.getinfo("data").file_size > MAX_DATA_BYTES:
                raise ValueError("too large")
            raw = json.loads(archive.read("data"))
    except (OSError, zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, RecursionError, RuntimeError):
        notes.append(f"{path.name} holds no readable settings and was left out")
        return {}
    return hyperparameters.translate_sb3(_drop_private(raw)) | _infer_algorithm(raw) if isinstance(raw, Mapping) else {}


def _drop_private(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Without the private state: of a pickled value only its readable description is kept."""
    return {key: value for key, value in raw.items() if not key.startswith("_") or key == "_total_timesteps"}


def _infer_algorithm(raw: Mapping[str, Any]) -> Settings:
    """A model does not say its class; its settings do."""
    marks = (
        *(("clip_range", "ppo"), ("exploration_fraction", "dqn"), ("target_policy_noise", "td3"), ("ent_coef_optimizer", "sac")),
        *(("target_entropy", "sac"), ("n_critic_updates", "trpo"), ("gae_lambda", "a2c")),
    )
    return next(({"algo.name": algo} for mark, algo in marks if mark in raw), {})
