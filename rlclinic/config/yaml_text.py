"""The one place where YAML is parsed: a short text may stand for a billion values, or for itself, and neither is a config.

Sizes are counted while the text is parsed, before anything is built: bytes, nesting, and values with every alias written out. A config
file may use anchors; where somebody changes a setting, there is nothing to repeat, and an alias is refused.
"""

from typing import Any, Final

import yaml

from rlclinic.errors import ConfigError

__all__ = ["MOST_BYTES", "Loader", "check_value", "compose", "load"]

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MOST_BYTES: Final = 1 << 20
MOST_VALUES: Final = 50_000
MOST_DEPTH: Final = 40


def compose(text: str, label: str, *, aliases: bool = True) -> yaml.Node | None:
    """The nodes of a YAML text. ConfigError if it is too large in any way; yaml.YAMLError if it is not YAML."""
    _measure(text, label, aliases)
    node: yaml.Node | None = yaml.compose(text, Loader=Loader)
    return node


def load(text: str | bytes, label: str, *, loader: Any = Loader) -> Any:
    """The plain data in a YAML text. ConfigError if it is too large in any way; yaml.YAMLError or ValueError if it is not YAML."""
    _measure(text, label, True)
    return yaml.load(text, Loader=loader)


def check_value(value: Any, label: str) -> None:
    """ConfigError for data that is deeper or larger than any setting: JSON has the same limits."""
    waiting, count = [(value, 1)], 0
    while waiting:
        inside, depth = waiting.pop()
        count += 1
        if depth > MOST_DEPTH or count > MOST_VALUES:
            raise _refuse(
                label, f"nests more than {MOST_DEPTH} levels" if depth > MOST_DEPTH else f"holds more than {MOST_VALUES:,} values"
            )
        if isinstance(inside, dict):
            waiting += [(each, depth + 1) for each in inside.values()]
        elif isinstance(inside, list):
            waiting += [(each, depth + 1) for each in inside]


def _measure(text: str | bytes, label: str, aliases: bool) -> None:
    if len(text) > MOST_BYTES:
        raise _refuse(label, f"has more than {MOST_BYTES:,} bytes")
    # Values in each collection that is open, its anchor, and values behind each anchor that is complete.
    open_collections: list[tuple[str | None, int]] = []
    behind: dict[str, int] = {}
    total = 0
    for event in yaml.parse(text, Loader=Loader):
        added = new = 0
        if isinstance(event, yaml.AliasEvent):
            if not aliases:
                raise _refuse(label, f"uses the alias *{event.anchor}, and a setting has nothing to repeat")
            if any(anchor == event.anchor for anchor, _ in open_collections):
                raise _refuse(label, f"holds *{event.anchor} inside of itself, which has no end")
            added = new = behind.get(event.anchor, 1)
        elif isinstance(event, yaml.ScalarEvent):
            added = new = 1
            if event.anchor:
                behind[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            open_collections.append((event.anchor, 0))
            if len(open_collections) > MOST_DEPTH:
                raise _refuse(label, f"nests more than {MOST_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, inside = open_collections.pop()
            added, new = inside + 1, 1
            if anchor:
                behind[anchor] = added
        if open_collections:
            anchor, inside = open_collections[-1]
            open_collections[-1] = anchor, inside + added
        total += new
        if total > MOST_VALUES:
            raise _refuse(label, f"holds more than {MOST_VALUES:,} values, with its aliases written out")


def _refuse(label: str, why: str) -> ConfigError:
    shown = label if len(label) <= 80 else f"{label[:60]}…"
    return ConfigError(f"{shown} {why}.\n  No config does; nothing was read.\n  Try: write the settings out, one level per section")
