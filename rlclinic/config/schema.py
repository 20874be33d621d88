"""What every config model is built from: the strict base, the two kinds of setting, and how numbers are read.

A setting is a *number* or a *shape*. Numbers may differ between the members of a cohort and change while they run;
shapes must be equal in a cohort, because they decide the program. `kind_of` tells which one a field is.
"""

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

__all__ = ["Count", "Kind", "Real", "Refusal", "Shape", "Strict", "flatten", "kind_of", "read_number", "refusal"]

_NUMBER: Final = re.compile(r"[-+]?(\d[\d_]*)?\.?\d[\d_]*\.?([eE][-+]?\d+)?")
_SHORT: Final = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG])")
"""A count in thousands, millions or billions."""


class Strict(BaseModel):
    """A frozen model that refuses unknown keys; the docstring under each field is its documentation."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )

    def __init__(self, /, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            from rlclinic.config.validation import explain

            raise explain(error, type(self)) from None

    # Tells pydantic that this __init__ adds nothing to validation: models inside models are then validated as one, and a
    # wrong config lists all that is wrong with it.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        for field in cls.model_fields.values():
            # Wrapped for the source; whoever shows it wraps it for their own width.
            field.description = " ".join((field.description or "").split())


class Kind(Enum):
    """Whether a setting may differ between the members of a cohort."""

    NUMBER = "number"
    SHAPE = "shape"


def kind_of(field: FieldInfo) -> Kind:
    """A field is a shape unless its type is marked as a number: members must agree on all that is not a number."""
    return Kind.NUMBER if Kind.NUMBER in field.metadata else Kind.SHAPE


def read_number(value: Any) -> Any:
    """Text that spells a number becomes one ("1e-4", "1_000"); a boolean is refused, as 1.0 is hardly what it meant."""
    if isinstance(value, bool):
        raise ValueError("a number is needed here, not true or false")
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        with suppress(ValueError):  # 2.5., 1__0, a number of ten thousand digits: text, which a setting then refuses
            return float(value) if re.search(r"[.eE]", value) else int(value)
    return value


def _read_count(value: Any) -> Any:
    """`1e6` is a whole number to everybody but a YAML parser, and so is `60k`."""
    if isinstance(value, str) and (short := _SHORT.fullmatch(value.strip())):
        value = float(short[1]) * {"k": 1e3, "m": 1e6, "g": 1e9}[short[2].lower()]
    value = read_number(value)
    if isinstance(value, float):
        if not math.isfinite(value) or not value.is_integer():
            raise ValueError("a whole number is needed here")
        return int(value)
    return value


Real = Annotated[float, BeforeValidator(read_number)]
"""A plain number, equal in a cohort."""

Count = Annotated[int, BeforeValidator(_read_count)]
"""A whole number; `1e6`, `1_000_000` and `60k` are accepted."""

Shape = Annotated[Count, Kind.SHAPE]
"""A whole number that decides the program's shape, and so is part of a cohort's key."""


class Refusal(ValueError):
    """What a validator raises, made of parts as our errors are: pydantic hands it on whole to `validation.explain`."""

    args: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(self.args)


def refusal(what: str, effect: str, *fix: str) -> Refusal:
    """An error for a validator to raise: what is wrong with the values, what it would cause, what to do."""
    return Refusal(f"{what}\n  {effect}\n  Try: ", *fix)


def flatten(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The leaves of nested data by dotted key; lists and empty mappings are leaves."""
    leaves: dict[str, Any] = {}
    for key, value in record.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            leaves |= flatten(value, path + ".")
        else:
            leaves[path] = value
    return leaves
