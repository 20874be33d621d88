"""A trial's winner as a variant of an environment's YAML file: its settings, and the evidence for them as comments.

The file is the user's: other variants, comments and spacing stay as they are. What is written is read back before it replaces
anything, and must give exactly the config that was tried.
"""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from rlclinic.actions import Argument
from rlclinic.config import ALGORITHMS, Config, NetConfig, RunConfig, files, from_record, to_record, yaml_text
from rlclinic.config.yaml_lines import SECTIONS
from rlclinic.errors import ConfigError, RlclinicError, UsageError
from rlclinic.runs.history import dotted
from rlclinic.treatment.prescription.prescription import flow
from rlclinic.treatment.trial.arms import list_defaults

ADOPTED: Final = "# adopted from trial "
RACED: Final = "# adopted from race "
_VARIANT: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_RESERVED: Final = (*SECTIONS, "seed", "name")
_WIDTH: Final = 120
_USUAL: Final = {"from": 0.0, "to": 1.0, "warmup": 0.0}
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
# Words that YAML takes for something else than text.
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"})


def check_variant(variant: str) -> str:
    """A variant's name that a file can hold; UsageError otherwise."""
    if not _VARIANT.fullmatch(variant) or variant in _RESERVED:
        raise UsageError(
            f"{variant!r} cannot be a variant's name.\n  The file could not be read any more.\n  Take letters, digits and _: ",
            Argument("as", "ENV:mine"),
        )
    return variant


def file_for(env_id: str, folder: Path) -> Path:
    """The user's file of an environment: one that is there, or a new one."""
    stem = env_id.replace("/", "-").replace(":", "-")
    there = [folder / f"{stem}{suffix}" for suffix in (".yaml", ".yml") if (folder / f"{stem}{suffix}").exists()]
    return there[0] if there else folder / f"{stem}.yaml"


def written(text: str, config: Config, variant: str, evidence: Sequence[str], env_id: str) -> str:
    """The file's text with the variant added or replaced; it loads as exactly this config, and all others as before.

    ConfigError if that cannot be done (an anchor of the replaced variant is used elsewhere, settings that others inherit).
    """
    kept = without(text, variant)
    for sections in _candidates(config):
        block = "\n".join([*(f"# {line}".rstrip() for line in evidence), f"{variant}:", *_lines(sections)])
        found = f"{kept.rstrip()}\n\n{block}\n" if kept.strip() else f"{block}\n"
        if _reads_back(found, config, variant, env_id):
            _check_others(text, found, variant, env_id)
            return found
    raise ConfigError(
        f"{env_id}:{variant} could not be written so that it loads as the config that was tried.\n"
        "  Nothing was written: it would train something else.\n"
        "  Give another name; an anchor (&) of the old variant, or settings that all inherit (_base), stand in the way"
    )


def without(text: str, variant: str) -> str:
    """The text without a variant and the evidence above it; as it is if there is no such variant."""
    span = _span(text, variant)
    if span is None:
        return text
    lines = text.splitlines()
    first, last = span
    while first > 0 and lines[first - 1].startswith("#"):
        first -= 1
    # Comments that somebody wrote above a variant of their own are theirs.
    first = first if lines[first].startswith((ADOPTED, RACED)) else span[0]
    return "\n".join([*lines[:first], *lines[last:]]) + "\n"


def has_variant(text: str, variant: str) -> bool:
    """Whether a file has a variant of this name."""
    return _span(text, variant) is not None


def trial_of(text: str, variant: str) -> str | None:
    """The trial that a variant was adopted from, by the comment above it."""
    span = _span(text, variant)
    if span is None:
        return None
    for line in reversed(text.splitlines()[: span[0]]):
        if not line.startswith("#"):
            return None
        if line.startswith(ADOPTED):
            return line.removeprefix(ADOPTED).split()[0].rstrip(",.:")
    return None


def _span(text: str, variant: str) -> tuple[int, int] | None:
    """First line and the line after the last of a variant."""
    try:
        node = yaml_text.compose(text, "the file")
    except yaml.YAMLError as error:
        raise ConfigError(f"the file is not valid YAML: {error}\n  Nothing was written.\n  Mend it first") from None
    if not isinstance(node, yaml.MappingNode):
        return None
    lines = text.splitlines()
    for key, value in node.value:
        if key.value == variant:
            # The end mark of a block may stand at the next key, behind comments that belong to that.
            last = value.end_mark.line + (1 if value.end_mark.column else 0)
            while last > key.start_mark.line + 1 and (not lines[last - 1].strip() or lines[last - 1].startswith("#")):
                last -= 1
            return key.start_mark.line, last
    return None


# ── settings as YAML ──


def _candidates(config: Config) -> Iterator[dict[str, dict[str, Any]]]:
    """Sections to write, the shortest first: what differs from the defaults; with the task; with all that it leaves open; everything."""
    record = to_record(config)
    said = [section for section in SECTIONS if section != "spec" and record.get(section) is not None]
    short = {section: _unusual(record[section], _defaults(section, record, config)) for section in said}
    short["env"] = {"id": record["env"]["id"], **short["env"]}
    short["algo"] = {"name": record["algo"]["name"], **short["algo"]}
    short = {section: values for section, values in short.items() if values}
    spec = {key: value for key, value in record["spec"].items() if value not in (None, "")}
    yield short
    yield {**({"spec": spec} if spec else {}), **short}
    # The environment's own file may know more of the task than the config that was tried.
    yield {"spec": {key: value for key, value in record["spec"].items() if key not in ("description", "source")}, **short}
    yield {section: record[section] for section in ("spec", *said)}


def _defaults(section: str, record: Mapping[str, Any], config: Config) -> dict[str, Any]:
    if section == "env":
        return Config(env={"id": record["env"]["id"]}).model_dump(mode="json")["env"]
    model = {"algo": ALGORITHMS[record["algo"]["name"]], "net": NetConfig, "run": RunConfig}.get(section)
    return list_defaults(type(getattr(config, section))) if model is None else dict(model().model_dump(mode="json"))


def _unusual(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value != defaults.get(key)}


def _lines(sections: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for section, values in sections.items():
        entries = [f"{key}: {_value(value)}" for key, value in values.items()]
        line = f"  {section}: {{{', '.join(entries)}}}"
        if len(line) <= _WIDTH:
            yield line
        else:
            yield f"  {section}:"
            yield from (f"    {entry}" for entry in entries)


def _value(value: Any) -> str:
    """A value on one line that YAML reads back as it is; a schedule without what is usual."""
    if isinstance(value, Mapping):
        usual = _USUAL if "schedule" in value else {}
        entries = [f"{_value(key)}: {_value(inner)}" for key, inner in value.items() if key not in usual or inner != usual[key]]
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and value.lower() not in _WORDS else json.dumps(value)
    return flow(value)


# ── reading back ──


def _reads_back(text: str, config: Config, variant: str, env_id: str) -> bool:
    try:
        found = _load(text, env_id, variant)
    except RlclinicError:
        return False
    # By value, not by text: a schedule may be written in two ways, and how a task is described changes nothing.
    spec = config.spec.model_copy(update={"description": found.spec.description, "source": found.spec.source})
    return found == config.model_copy(update={"name": found.name, "seed": found.seed, "spec": spec})


def _check_others(before: str, after: str, variant: str, env_id: str) -> None:
    for name in _variants(before):
        if name == variant:
            continue
        try:
            same = _load(before, env_id, name) == _load(after, env_id, name)
        except RlclinicError as error:
            raise ConfigError(
                f"variant {name} could not be loaded any more: {str(error).splitlines()[0]}\n  Nothing was written.\n  Give another name: ",
                Argument("as", "ENV:VARIANT"),
            ) from None
        if not same:
            raise ConfigError(
                f"variant {name} would change as well.\n  Nothing was written.\n  Give another name: ", Argument("as", "ENV:VARIANT")
            )


def _variants(text: str) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="rlclinic-adopt-") as folder:
        (Path(folder) / "X.yaml").write_text(text, encoding="utf-8")
        found = [entry for entry in files.available(Path(folder)) if not entry.shipped]
        return list(found[0].variants) if found and found[0].problem is None else []


def _load(text: str, env_id: str, variant: str) -> Config:
    with tempfile.TemporaryDirectory(prefix="rlclinic-adopt-") as folder:
        file_for(env_id, Path(folder)).write_text(text, encoding="utf-8")
        return files.load(f"{env_id}:{variant}", search=Path(folder)).config


def adopted_config(record: Mapping[str, Any], run: Mapping[str, Any] | None, changes: Sequence[str]) -> Config:
    """The config as it was tried, with the settings that only the trial needed (`run`: as the control had them) put back."""
    restored = dict(record["run"])
    changed = {change.partition("=")[0] for change in changes}
    for key in ("stop_at_threshold", "device", "threads", "tensorboard", "eval_every_env_steps", "eval_episodes"):
        if run is not None and key in run and f"run.{key}" not in changed:
            restored[key] = run[key]
    return from_record({**record, "run": restored})


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Settings that differ, as `key: old -> new`."""
    old, new = dotted(before), dotted(after)
    keys = [key for key in {**old, **new} if key not in ("seed", "name") and old.get(key) != new.get(key)]
    return [f"{key}: {_value(old.get(key))} -> {_value(new.get(key))}" for key in keys]
