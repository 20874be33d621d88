"""What to do next, as data: an operation with its arguments, a setting to change, an argument of the call at hand.

    raise ConfigError("algo.batch_size=100 does not divide the rollout.\\n  Try: ", Change("algo.batch_size", 128))

Errors are made of such parts and plain texts. As a text each is what people type; a face that is not typed at says it in its own words:
`--set algo.batch_size=128`, `overrides={"algo.batch_size": 128}` for agents, `"changes": ["algo.batch_size=128"]` over HTTP.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

Kind = TypeVar("Kind", bound="TextPart")
_SPECIAL: Final = re.compile(r"[\s'\"{}()\[\]$&|;<>*?!`\\#]")


class TextPart(str):
    """A part of a text that is data too. As a text it is what people type; `__dict__` holds what the other faces need."""

    def __reduce__(self) -> Any:
        return _restore, (type(self), str(self), dict(self.__dict__))


class Action(TextPart):
    """A next step. Its text is the command that people type (`rlclinic trial g7k2 --rx 1`); other faces say it from its parts.

    command: `trial`, `runs list`. names: what it is about, in order. options: by the names of the command's options (`as_` is --as);
    True is a flag, a list repeats its option, None and False are left out.
    """

    command: str
    names: tuple[str, ...]
    options: dict[str, Any]
    following: "Action | None" = None

    def __new__(cls, command: str, /, *names: object, **options: Any) -> "Action":
        """Made of its parts."""
        given = {name.removesuffix("_"): value for name, value in options.items() if value is not None and value is not False}
        words = ["rlclinic", *command.split(), *map(_word, names)]
        for name, value in given.items():
            words += _option(name, value)
        made = super().__new__(cls, " ".join(words))
        made.command, made.names, made.options = command, tuple(map(str, names)), given
        return made

    @classmethod
    def quoted(cls, text: str) -> "Action":
        """A command of which only the text is known: every face says it as it is."""
        made = super().__new__(cls, text)
        made.command, made.names, made.options = "", (), {}
        return made

    def then(self, other: "Action") -> "Action":
        """This one, and after it another."""
        made = super().__new__(Action, f"{self} && {other}")
        made.command, made.names, made.options, made.following = self.command, self.names, self.options, other
        return made

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """In a model it stays what it is; in JSON it is its text."""
        from pydantic_core import core_schema

        def keep(value: Any) -> "Action":
            if not isinstance(value, str):
                raise ValueError("a command is a text")
            return value if isinstance(value, Action) else cls.quoted(value)

        return core_schema.no_info_plain_validator_function(keep, serialization=core_schema.to_string_ser_schema())

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "string"}


class Change(TextPart):
    """Settings to give other values: `--set algo.batch_size=64`. `changes` has each value as a text, as a config takes it."""

    changes: dict[str, str]

    def __new__(cls, key: str, value: object, /, option: str | None = None) -> "Change":
        """Of one setting; None is `none`, and `VALUE` stands for one that the reader must choose. option: people have one for it."""
        made = cls._of({key: _setting(value)})
        return made if option is None else _restore(cls, str(Argument(option, value)), vars(made))

    @classmethod
    def typed(cls, texts: Sequence[str], *, quoted: bool = False) -> "Change":
        """Of KEY=VALUE texts. quoted: each between quotes, whatever it holds."""
        return cls._of({key: value for key, _, value in (text.partition("=") for text in texts)}, quoted)

    def also(self, key: str, value: object) -> "Change":
        """This one together with another."""
        return self._of({**self.changes, key: _setting(value)})

    @classmethod
    def _of(cls, changes: dict[str, str], quoted: bool = False) -> "Change":
        texts = (f"{key}={value}" for key, value in changes.items())
        # A shell would take the quotes out of JSON.
        words = (f"'{text}'" if quoted else _word(text) if '"' in text else text for text in texts)
        made = super().__new__(cls, " ".join(f"--set {word}" for word in words))
        made.changes = changes
        return made


class Argument(TextPart):
    """An argument of the call at hand, with a value or without: `--per-look 8`, `--envs A,B`. `name` is that of the command's option."""

    name: str
    value: Any

    def __new__(cls, name: str, value: object = None, /) -> "Argument":
        """None: only its name is said."""
        listed = ",".join(map(str, value)) if isinstance(value, list | tuple) else f"{value:g}" if isinstance(value, float) else value
        made = super().__new__(cls, " ".join(_option(name, True if value is None else listed)))
        made.name, made.value = name, value
        return made


def join_lines(texts: Sequence[Sequence[str]]) -> list[str]:
    """Several texts of parts as one, each from a new line."""
    return [part for place, text in enumerate(texts) for part in (text if place == 0 else ("\n", *text))]


def _restore(kind: type[Kind], text: str, parts: dict[str, Any]) -> Kind:
    made = str.__new__(kind, text)
    made.__dict__.update(parts)
    return made


class ForPeople(str):
    """A part of a text that only people are told: what an agent may not do, however it is said."""


def _option(name: str, value: Any) -> Iterator[str]:
    flag = "-" * (2 if len(name) > 1 else 1) + name.replace("_", "-")
    if value is True:
        yield flag
        return
    for item in value if isinstance(value, list | tuple) else [value]:
        yield flag
        yield _word(item)


def _setting(value: object) -> str:
    """A value as a config takes it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)


def _word(value: Any) -> str:
    """A value as a shell takes it."""
    text = str(value)
    return "'" + text.replace("'", "'\"'\"'") + "'" if _SPECIAL.search(text) or not text else text
