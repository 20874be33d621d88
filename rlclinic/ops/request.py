"""A request: what may be asked of an operation, said once. Options, HTTP bodies and tool arguments are made from its fields.

    class TrialRequest(Request):
        per_look: Annotated[int, Http(ge=2, le=64), Mcp(ge=2, le=64)] = 8
        \"\"\"Seeds an arm per look.\"\"\"

The default, the bounds and the sentence that explains a field are the field's own. At the command line every field is an option; a
caller from elsewhere is offered only the fields that say so (`Http`, `Mcp`), within narrower bounds where those are given. A field
that names a file, a command or code has no such mark (recorded data has one: which may be named is checked). `runs_dir` is never taken from
a caller: each face fills it in.
"""

import itertools
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints
from pydantic.fields import FieldInfo

from rlclinic.errors import UsageError

MOST_COMBINATIONS: Final = 100
Mark = TypeVar("Mark")
Completion = Literal["run", "reference"]


class Request(BaseModel):
    """What may be asked of an operation; what it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    about_store: ClassVar[bool] = True
    """Whether it is asked of a store at all."""
    resumes_alone: ClassVar[bool] = False
    """Whether going on with something (`resume`) leaves no room for anything else that an agent says."""
    runs_dir: Path = Path("runs")
    """Folder that holds the runs."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Its fields by name, for an operation that takes them one by one."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "runs_dir"}

    @property
    def configs(self) -> list[str]:
        """What it would read as a config: a caller from elsewhere may name none of them by a file, nor by code that nobody has run."""
        return []

    @property
    def environments(self) -> list[str]:
        """Environments that it names beside its configs: the same holds for them."""
        return []

    @property
    def patches(self) -> list[list[str]]:
        """The changes that each of its configs gets, KEY=VALUE; several where values are tried side by side."""
        return [list(getattr(self, "changes", ()))]


class _Unset:
    """No default of its own: the field's."""


UNSET = _Unset()


class Cli:
    """A field at the command line, as far as its name, its type and its sentence do not say it."""

    def __init__(
        self,
        *names: str,
        argument: bool = False,
        metavar: str | None = None,
        help: str | None = None,
        complete: Completion | None = None,
        steps: bool = False,
        type: Any = None,
        default: Any = UNSET,
        read: Callable[[Any], Any] | None = None,
        min: float | None = None,
    ) -> None:
        self.names, self.argument, self.metavar, self.help, self.complete = names, argument, metavar, help, complete
        self.steps = steps
        """A number of env steps: 1e6 and 100k are understood."""
        self.type, self.default, self.min = type, default, min
        self.read = read
        """From what is typed to what the field takes."""


class Http:
    """A field of HTTP bodies and queries: another name, its bounds there as pydantic's Field takes them."""

    def __init__(
        self,
        name: str | None = None,
        *,
        doc: str | None = None,
        type: Any = None,
        default: Any = UNSET,
        path: str | None = None,
        read: Callable[[Any], Any] | None = None,
        **bounds: Any,
    ) -> None:
        self.name, self.doc, self.type, self.default, self.bounds = name, doc, type, default, bounds
        self.path = path
        """The part of the route's path that it is, instead of a field of the body."""
        self.read = read
        """From what is sent to what the field takes."""


class Mcp:
    """A field as a tool's argument: another name, shorter words, another type to write it in, its bounds there."""

    def __init__(
        self,
        name: str | None = None,
        doc: str | None = None,
        *,
        type: Any = None,
        default: Any = UNSET,
        read: Callable[[Any], Any] | None = None,
        **bounds: Any,
    ) -> None:
        self.name, self.doc, self.type, self.default, self.read, self.bounds = name, doc, type, default, read, bounds


@dataclass(frozen=True)
class RequestField:
    """A field of a request, as faces look at it."""

    name: str
    info: FieldInfo

    @property
    def default(self) -> Any:
        """What it is when nobody says: `...` if somebody must."""
        return self.info.get_default(call_default_factory=True) if not self.info.is_required() else ...

    @property
    def repeats(self) -> bool:
        """Whether it is a list that may be left out."""
        return isinstance(self.default, list) and not self.default

    @property
    def takes_several(self) -> bool:
        """Whether it is a list."""
        return get_origin(self.info.annotation) is list

    @property
    def option(self) -> str:
        """What the command line calls it, as `Action` has its options: `set`, `per_look`."""
        mark = self.mark(Cli)
        longest = mark.names[0] if mark is not None and mark.names else self.name
        return longest.lstrip("-").replace("-", "_")

    def mark(self, kind: type[Mark]) -> Mark | None:
        """What it says for a face."""
        return next((each for each in self.info.metadata if isinstance(each, kind)), None)


def fields_of(model: type[Request]) -> list[RequestField]:
    """Its fields in the order of the class, without the store that it is about."""
    return [RequestField(name, info) for name, info in model.model_fields.items() if name != "runs_dir"]


def read_steps(text: str | int) -> int:
    """A number of env steps: 100000, 100_000, 1e5, 100k, 1.5M. ValueError says what to type instead."""
    if isinstance(text, int):
        return text
    value = _scaled(text)
    if value is None:
        raise ValueError(f"{text!r} is not a number of env steps; type for example 100000, 1e5 or 100k")
    if not (1 <= value < math.inf and value == int(value)):
        raise ValueError(f"{text[:80]!r} is not a whole number of at least 1")
    return int(value)


def read_number(text: str | float, whole: bool, least: float | None = None, most: float | None = None) -> int | float:
    """A number as people type it: 8, 1e3, 2_000, 60k, 1.5M. ValueError says what is wrong with it."""
    value = _scaled(text) if isinstance(text, str) else text
    if value is None or not math.isfinite(value):
        raise ValueError(f"{str(text)[:80]!r} is not a number; type for example {'8, 1e3 or 60k' if whole else '0.5, 1e-3 or 60k'}")
    if whole and value != int(value):
        raise ValueError(f"{text!r} is not a whole number")
    if least is not None and value < least:
        raise ValueError(f"{text} is too small: it must be at least {least:g}")
    if most is not None and value > most:
        raise ValueError(f"{text} is too large: it must be at most {most:g}")
    return int(value) if whole else float(value)


def _scaled(text: str) -> float | None:
    """The number; None where there is none."""
    scale = {"k": 1e3, "m": 1e6, "g": 1e9}.get(text[-1:].lower(), 1)
    try:
        # 1.1k is 1100, and not what a product of floats makes of it.
        return float(f"{text[:-1].strip()}e{round(math.log10(scale))}") if scale != 1 and "e" not in text.lower() else float(text)
    except ValueError:
        return None


def read_position(text: str) -> float:
    """An env step of a run: 0, 1500, 60k."""
    return 0.0 if text.strip() in ("0", "0.0") else float(read_steps(text))


EnvSteps = Annotated[int, BeforeValidator(lambda value: read_steps(value) if isinstance(value, str) else value)]
"""A number of env steps in any face: 60k is understood as 60000."""


_PLAIN_WORDS: Final = (
    (re.compile(r"Input should be greater than or equal to (.+)"), r"must be at least \1"),
    (re.compile(r"Input should be less than or equal to (.+)"), r"must be at most \1"),
    (re.compile(r"Input should be a valid integer.*"), "must be a whole number"),
    (re.compile(r"Input should be a valid number.*"), "must be a number"),
    (re.compile(r"Input should be a valid boolean.*"), "must be true or false"),
    (re.compile(r"Input should be a valid string"), "must be text"),
    (re.compile(r"Input should be a valid list"), "must be a list"),
    (re.compile(r"String should have at least 1 character"), "must not be empty"),
    (re.compile(r"String should have at (least|most) (\d+) characters?"), r"must have at \1 \2 characters"),
    (re.compile(r"(?:List|Tuple|Set|Dictionary) should have at least 1 item after validation, not 0"), "must not be empty"),
    (
        re.compile(r"(?:List|Tuple|Set|Dictionary) should have at (least|most) (\d+) items? after validation, not (\d+)"),
        r"must name at \1 \2",
    ),
    (re.compile(r"String should match pattern .*"), "is not of the form that is asked for"),
    (re.compile(r"(?:Input|Value) should (.+)"), r"must \1"),
    (re.compile(r"Value error, (.+)"), r"\1"),
    (re.compile(r"Field required"), "is missing"),
    (re.compile(r"Extra inputs are not permitted"), "is not known here"),
)


def say_misfit(message: str) -> str:
    """What is wrong with a value, in our words instead of pydantic's."""
    for pattern, plain in _PLAIN_WORDS:
        if pattern.fullmatch(message):
            return pattern.sub(plain, message)
    return message


def as_changes(overrides: dict[str, Any] | list[str] | None) -> list[str]:
    """KEY=VALUE texts, as the operations take them; programs may give a mapping."""
    if isinstance(overrides, dict):
        return [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in overrides.items()]
    return list(overrides or [])


def combine_values(changes: Sequence[str]) -> list[list[str]]:
    """Every combination of the values of KEY=V1,V2 texts, each as KEY=VALUE texts."""
    named = [(key, _split_values(text.strip())) for key, _, text in (change.partition("=") for change in changes)]
    if math.prod(len(values) for _, values in named) > MOST_COMBINATIONS:
        raise UsageError(
            f"{' '.join(changes)[:200]}: more than {MOST_COMBINATIONS} combinations.\n  Each would be an arm.\n  Give fewer values"
        )
    chosen = itertools.product(*(values for _, values in named))
    return [[f"{key}={value}" for (key, _), value in zip(named, values, strict=True)] for values in chosen]


def _split_values(text: str) -> list[str]:
    """Values between commas, or in a JSON list; a comma inside brackets belongs to its value."""
    if text.startswith("[") and text.endswith("]"):
        try:
            return [value if isinstance(value, str) else json.dumps(value) for value in json.loads(text)]
        except ValueError:
            pass
    return [part.strip() for part in re.split(r",(?![^\[{(]*[\]})])", text) if part.strip()]


# ── what several requests say alike ──

Change = Annotated[str, StringConstraints(min_length=3, max_length=500, pattern=r"^[^=]+=")]
"""KEY=VALUE, as a caller from elsewhere may give it."""
SET: Final = Cli("--set", "--override", metavar="KEY=VALUE", help="Change a setting: --set algo.learning_rate=1e-4. Repeatable.")
CHANGES: Final = Http(type=list[Change], max_length=50)
OVERRIDES: Final = Mcp(
    "overrides",
    'Settings to change: {"algo.learning_rate": 1e-3} or ["algo.ent_coef=0.01"].',
    type=dict[str, Any] | list[str] | None,
    default=None,
    read=as_changes,
)
STEPS: Final = Cli(steps=True, metavar="N", help="Budget in env steps; 1e6 and 100k are understood.")
MOST_STEPS: Final = Http(ge=1, le=10**12)
RUN_STEPS: Final = Mcp(doc="Env steps of each run.", ge=1)
MAP: Final = Cli("--map", metavar="METRIC=COLUMN")
SELECTOR: Final = Cli(argument=True, metavar="RUN", complete="run")
RUN_ID: Final = Mcp("run_id", "Run or group: id, unique prefix, @last, @last~1, @best, @running.", default=...)
THRESHOLD: Final = Mcp(doc="Return that counts as solved.")
