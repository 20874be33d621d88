"""Settings given as `key=value` text, typed by the schema."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, get_args

from pydantic.fields import FieldInfo

from rlclinic.actions import Argument, Change
from rlclinic.config.algorithms import ALGORITHMS, takes_raw_rewards
from rlclinic.config.experiment import Config
from rlclinic.config.records import to_record
from rlclinic.config.schedule import FAMILY_KEYS
from rlclinic.config.schema import Kind, kind_of, read_number
from rlclinic.config.setting_names import find_setting, list_fields
from rlclinic.config.validation import validate
from rlclinic.errors import ConfigError, nearest

__all__ = ["TYPED", "algorithm_of", "apply", "set_values"]

TYPED: Final = str(Argument("set"))
"""The origin of a value that the user gave, in records and reports."""


def set_values(config: Config, values: Sequence[str]) -> Config:
    """A copy of the config with settings replaced, e.g. `["algo.learning_rate=1e-4", "clip_range=0.1", "net.hidden=[256, 256]"]`.

    Keys are dotted, short where unambiguous, or another tool's name (`policy_lr`). Values are numbers (`1e-4`, `1e6`), words,
    `none`, or JSON; `learning_rate.end=0` reaches into a schedule (a plain number becomes one), `env.kwargs.gravity=-5` into
    a mapping. `algo.name=a2c` starts from that algorithm's defaults. Later values win. Raises ConfigError.
    """
    record = to_record(config)
    changed = apply(record, values)
    return validate(record, dict.fromkeys(changed, TYPED)) if changed else config


def apply(record: dict[str, Any], values: Iterable[str]) -> list[str]:
    """Put `key=value` texts into a record as `to_record` gives it; returns the dotted keys that were set."""
    pairs = [_split(text) for text in values]
    changed = [name for key, value in pairs if key in ("algo.name", "algo_id") for name in _set_algorithm(record, value)]
    # The network before its own settings, which come and go with it.
    for key, text in sorted(pairs, key=lambda pair: pair[0] not in ("net.encoder", "encoder")):
        if key in ("algo.name", "algo_id"):
            continue
        algo = algorithm_of(record)
        if algo is None:
            # Which settings there are depends on the algorithm; validation says what is wrong with it.
            validate(record)
            break
        path = find_setting(key, algo)
        _put(record, path, _parse_value(text, path, algo))
        changed.append(".".join(path))
    return changed


def algorithm_of(record: Mapping[str, Any]) -> str | None:
    """The algorithm that a record names, if there is such a one."""
    algo = record.get("algo")
    name = algo.get("name") if isinstance(algo, Mapping) else None
    return name if isinstance(name, str) and name in ALGORITHMS else None


def _split(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise ConfigError(
            f"`{text}` is not of the form key=value.\n  It cannot be told what to change.\n  Try: ", Change("algo.learning_rate", "1e-4")
        )
    return key.strip().lstrip("-"), value.strip()


def _set_algorithm(record: dict[str, Any], name: str) -> list[str]:
    if name not in ALGORITHMS:
        offered = nearest(name, ALGORITHMS) or list(ALGORITHMS)
        raise ConfigError(
            f"algo.name={name} is no algorithm.\n  There would be nothing to train with.\n  Try: ",
            Change("algo.name", offered[0]),
            *(f" or {other}" for other in offered[1:]),
        )
    if name != algorithm_of(record):
        # Settings tuned for one algorithm are wrong for another (PPO's n_steps for A2C), even where the names agree.
        record["algo"] = ALGORITHMS[name]().model_dump(mode="json")
        env = record.get("env")
        if takes_raw_rewards(name) and isinstance(env, dict) and env.get("normalize_reward"):
            env["normalize_reward"] = False
            return ["algo.name", "env.normalize_reward"]
    return ["algo.name"]


def _put(record: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *parents, last = path
    net = record.get("net")
    if path == ("net", "encoder") and isinstance(net, dict) and net.get("encoder", "auto") != value:
        net["encoder_args"] = {}
    in_schedule = path[0] == "algo" and len(path) == 3
    place: Any = record
    for parent in parents:
        inside = place.get(parent)
        if not isinstance(inside, dict):
            # A plain number that gets a schedule's key becomes the schedule's start.
            inside = {"start": inside} if in_schedule and inside is not None else {}
            place[parent] = inside
        place = inside
    if in_schedule and last == "schedule" and isinstance(value, str) and value in FAMILY_KEYS:
        # Another family reads other keys; those that it shares with the old one stay.
        for key in set(place) - FAMILY_KEYS[value]:
            del place[key]
    place[last] = value


def _parse_value(text: str, path: tuple[str, ...], algo: str) -> Any:
    """The value that the text spells for this setting. What is wrong with it is for validation to say."""
    field = list_fields(algo)[path[0]][path[1]] if len(path) > 1 else None
    inside = len(path) > 2
    if not inside and field is not None and field.annotation is str:
        return text
    if path == ("name",):
        return text
    value = _parse_text(text)
    if field is not None and not inside and _is_tuple(field):
        if isinstance(value, int | float | str):
            return [_parse_text(item) for item in text.split(",")]
        return [value] if isinstance(value, dict) else value
    return value


def _parse_text(text: str) -> Any:
    text = text.strip()
    if text.lower() in ("none", "null", "~", ""):
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text[0] in "[{\"'":
        return _parse_structure(text)
    return read_number(text)


def _parse_structure(text: str) -> Any:
    from rlclinic.config import yaml_lines, yaml_text

    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        # YAML's short form, `{start: 1e-3, end: 0}`, needs no quotes, which shells like to eat.
        return yaml_lines.drop_origins(yaml_lines.parse(f"value: {text}", f"`{text}`", aliases=False))["value"]
    yaml_text.check_value(value, f"`{text}`")
    return value


def _is_tuple(field: FieldInfo) -> bool:
    kinds = (field.annotation, *get_args(field.annotation))
    return any(getattr(kind, "__origin__", None) is tuple for kind in kinds) and kind_of(field) is not Kind.NUMBER
