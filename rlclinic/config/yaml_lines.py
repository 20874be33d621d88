"""YAML read with the line of every value, so that an error or `config show --origins` can point at it.

Beyond plain YAML: `1e-4` is a number (YAML 1.1 reads it as text), a key given twice is an error, several `<<` in one mapping
are merged, and merging goes one level into the sections of a config, so `<<: *ppo` followed by `algo: {n_epochs: 4}`
changes one setting of the anchor's algo instead of forgetting the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from rlclinic import plain_files
from rlclinic.config import yaml_text
from rlclinic.config.schema import read_number
from rlclinic.errors import ConfigError

__all__ = ["SECTIONS", "Located", "Tree", "drop_origins", "list_origins", "merge", "parse", "read"]

SECTIONS: Final = ("spec", "env", "algo", "net", "data", "bonus", "cost", "curriculum", "run")


@dataclass(frozen=True)
class Located:
    """A value (a scalar or a list) and where it was written."""

    value: Any
    origin: str


Tree: TypeAlias = "dict[str, Located | Tree]"

_MERGE: Final = "tag:yaml.org,2002:merge"


def read(path: Path, label: str | None = None) -> Tree:
    """The mapping in a YAML file. Origins read `<label>:<line>`; the label is the file's name unless given."""
    try:
        text = plain_files.read_text(path, yaml_text.MOST_BYTES)
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is no text in UTF-8, so no YAML.\n  Nothing was started.\n  Try: another file") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}.\n  Nothing was started.\n  Try: check the path and its permissions") from None
    return parse(text, label or path.name)


def parse(text: str, label: str, *, aliases: bool = True) -> Tree:
    """The mapping in a YAML text; see `read`. ConfigError also for a text that stands for more values than any config has."""
    try:
        node = yaml_text.compose(text, label, aliases=aliases)
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_explain_syntax(error, text, label)) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{label} is not YAML: {error}.\n  Nothing was started.\n  Try: save it as plain UTF-8 text") from None
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(
            f"{label}:{node.start_mark.line + 1} holds no `key: value` settings.\n"
            "  There would be nothing to run.\n"
            "  Try: ppo: {env: {id: CartPole-v1}}"
        )
    return _read_mapping(node, label)


def _explain_syntax(error: yaml.MarkedYAMLError, text: str, label: str) -> str:
    mark = error.problem_mark or error.context_mark
    line = mark.line if mark else 0
    lines = text.splitlines()
    shown = lines[line].rstrip() if line < len(lines) else ""
    caret = " " * (mark.column if mark else 0) + "^"
    opened = error.context_mark.line if error.context_mark else line
    since = f" ({error.context} that began in line {opened + 1})" if error.context and opened < line else ""
    return (
        f"{label}:{line + 1} is not valid YAML: {error.problem or error.context}{since}.\n"
        f"    {shown}\n    {caret}\n"
        "  Nothing was started: what follows could not be read.\n"
        "  Try: spaces instead of tabs, a space after each colon, quotes around text with : or #"
    )


def _read_mapping(node: yaml.MappingNode, label: str) -> Tree:
    merged: Tree = {}
    own: Tree = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if key_node.tag == _MERGE:
            for source in _read_merge_sources(value_node, label, line):
                merged = merge(merged, source)
            continue
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else ""
        if not key or key in own:
            problem = f"`{key}` is given twice in the same place" if key else "a key must be a word"
            raise ConfigError(f"{label}:{line}: {problem}.\n  One of the two values would be ignored.\n  Try: remove one of the lines")
        is_mapping = isinstance(value_node, yaml.MappingNode)
        own[key] = _read_mapping(value_node, label) if is_mapping else Located(_read_value(value_node), f"{label}:{line}")
    return merge(merged, own)


def _read_merge_sources(node: yaml.Node, label: str, line: int) -> list[Tree]:
    """What a `<<` merges, the weakest first: in a list of anchors the first one wins, as in YAML 1.1."""
    if isinstance(node, yaml.MappingNode):
        return [_read_mapping(node, label)]
    if isinstance(node, yaml.SequenceNode) and all(isinstance(item, yaml.MappingNode) for item in node.value):
        return [_read_mapping(item, label) for item in reversed(node.value)]
    raise ConfigError(
        f"{label}:{line}: `<<` needs an anchor of a mapping.\n"
        "  There would be nothing to inherit.\n"
        "  Try: <<: *name, with &name behind the section to inherit"
    )


def merge(base: Tree, over: Tree) -> Tree:
    """`over` on top of `base`: settings replace settings; the sections of a config are combined setting by setting."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if key in SECTIONS and isinstance(below, dict) and isinstance(value, dict):
            result[key] = {**below, **value}
        else:
            result[key] = value
    return result


def _read_value(node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _read_value(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_read_value(item) for item in node.value]
    return _read_scalar(node)


def _read_scalar(node: yaml.Node) -> Any:
    if node.tag == "tag:yaml.org,2002:str" and not node.style:
        return read_number(node.value)
    try:
        value = _CONSTRUCTOR.construct_object(node)
    except (ValueError, OverflowError, yaml.YAMLError):  # a date that is none, a number of ten thousand digits, somebody's own tag
        return str(node.value)
    # YAML knows dates, sets and bytes; no setting is one, and JSON could not hold them.
    return value if value is None or isinstance(value, bool | int | float | str) else str(node.value)


_CONSTRUCTOR: Final = yaml.constructor.SafeConstructor()


def drop_origins(tree: "Located | Tree") -> Any:
    """The values without their places."""
    if isinstance(tree, Located):
        return tree.value
    return {key: drop_origins(value) for key, value in tree.items()}


def list_origins(tree: Tree, prefix: str = "") -> dict[str, str]:
    """Where each leaf was written, by dotted key."""
    found: dict[str, str] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            found |= list_origins(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value.origin
    return found
