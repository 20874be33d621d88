"""What to do next, as data: an operation with its arguments. People read it as a command, agents as a tool call."""

import re
from collections.abc import Iterator
from typing import Any, Final

_SPECIAL: Final = re.compile(r"[\s'\"{}()$&|;<>*?!`\\#]")


class Action(str):
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

    def __reduce__(self) -> Any:
        return _restore, (str(self), dict(self.__dict__))

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


def _restore(text: str, parts: dict[str, Any]) -> Action:
    made = Action.quoted(text)
    made.__dict__.update(parts)
    return made


class ForPeople(str):
    """A part of a text that only people are told: what an agent may not do, however it is said."""


def _option(name: str, value: Any) -> Iterator[str]:
    flag = "-" * (2 if len(name) > 1 else 1) + name.replace("_", "-")
    if value is True:
        yield flag
        return
    for each in value if isinstance(value, list | tuple) else [value]:
        yield flag
        yield _word(each)


def _word(value: Any) -> str:
    """A value as a shell takes it."""
    text = str(value)
    return "'" + text.replace("'", "'\"'\"'") + "'" if _SPECIAL.search(text) or not text else text
