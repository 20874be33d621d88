"""Configs as plain data, nested as in YAML: the form in which they are stored and compared."""

from collections.abc import Mapping
from typing import Any

from rlclinic.config.experiment import Config
from rlclinic.config.schema import flatten

__all__ = ["flatten", "from_record", "to_record"]


def to_record(config: Config) -> dict[str, Any]:
    """The whole config as data that JSON can hold; `from_record` gives an equal config back."""
    record: dict[str, Any] = config.model_dump(mode="json")
    return record


def from_record(record: Mapping[str, Any]) -> Config:
    """The config in the form that `to_record` gives; raises ConfigError with everything that is wrong in it."""
    return Config(**record)
