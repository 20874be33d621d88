"""What is wrong with a config, in words: field, value, where it was set, reason, and what to type."""

import re
from collections.abc import Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from rlclinic.actions import Change, join_lines
from rlclinic.config.algorithms import ALGORITHMS
from rlclinic.config.experiment import Config
from rlclinic.config.network import encoder_names, find_encoder
from rlclinic.config.schedule import Schedule
from rlclinic.config.schema import Refusal
from rlclinic.config.setting_names import explain_unknown, list_fields
from rlclinic.errors import ConfigError, nearest

__all__ = ["explain", "validate"]

# Steps in pydantic's locations that name a member of a union, not a key that a user could write.
_TAGS: Final = {"number", "schedule", "constrained-int", "int", "float", "tuple", "nullable"}


def validate(record: Mapping[str, Any], origins: Mapping[str, str] | None = None) -> Config:
    """The config that a record holds; raises ConfigError with all that is wrong, and with where it was set."""
    try:
        return Config.model_validate(dict(record))
    except ValidationError as error:
        raise explain(error, Config, origins or {}) from None


def explain(error: ValidationError, model: type[BaseModel], origins: Mapping[str, str] | None = None) -> ConfigError:
    """A ConfigError with everything that pydantic found."""
    by_path = {
        ".".join(_find_path(detail, model)[0]): _explain_detail(detail, model, origins or {}) for detail in error.errors(include_url=False)
    }
    head = [f"{len(by_path)} settings are wrong:\n"] if len(by_path) > 1 else []
    return ConfigError(*head, *join_lines(list(by_path.values())))


def _explain_detail(detail: ErrorDetails, model: type[BaseModel], origins: Mapping[str, str]) -> tuple[str, ...]:
    path, algo = _find_path(detail, model)
    key = ".".join(path)
    network = _find_network(detail)
    place = _describe_origin(key, origins)
    kind = detail["type"]
    if kind == "value_error" and "\n" in str(detail["ctx"]["error"]):
        return _explain_refusal(key, detail["ctx"]["error"], place)
    if kind == "extra_forbidden" and network is not None:
        others = find_encoder(network).model_fields
        offered = " or ".join(f"net.encoder_args.{name}" for name in nearest(path[-1], others) or others) or "leave it out"
        return (f"{key} is no setting of the network {network}{place}.\n  It would be ignored.\n  Try: {offered}",)
    if kind == "extra_forbidden":
        return explain_unknown(key, algo, origins.get(key)).parts
    if kind == "missing":
        example = "env: {id: CartPole-v1}" if path[0] == "env" else Change(key, "VALUE")
        return (f"{key} is missing{place}.\n  There is no default for it.\n  Try: ", example)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _explain_algorithm(detail, place)
    field = _find_field(path, algo) if network is None else find_encoder(network).model_fields.get(path[2])
    # Inside a list there is no key to set: the whole list is.
    target = ".".join(path[:2]) if path[-1].isdigit() else key
    about = f"  {field.description}\n" if field is not None and field.description else ""
    what = f"{key}={_format(detail['input'])}{place}: {_explain_reason(detail)}.\n{about}  Try: "
    if len(path) > 3 and path[2].isdigit():
        return (f"{what}{path[3]}: {_suggest(detail, field)}, in entry {int(path[2]) + 1} of {'.'.join(path[:2])}",)
    return (what, Change(target, _suggest(detail, field)))


def _explain_refusal(key: str, error: Exception, place: str) -> tuple[str, ...]:
    """A refusal of a whole section or schedule; the text names the settings in it."""
    text, *parts = error.args if isinstance(error, Refusal) else (str(error),)
    first, _, rest = text.partition("\n")
    joined = f"{key}{'.' if re.match(r'[a-z_]+=', first) else ': '}{first}" if key else first
    return (f"{joined.removesuffix('.')}{place}.\n{rest}", *parts)


def _find_path(detail: ErrorDetails, model: type[BaseModel]) -> tuple[list[str], str]:
    """The key as a user writes it, and the algorithm whose settings apply."""
    location = [str(step) for step in detail["loc"]]
    algo = next((name for name, config in ALGORITHMS.items() if config is model), "ppo")
    path = [section] if (section := _find_section(model)) else []
    network = _find_network(detail)
    for step in location:
        if path == ["algo"] and step in ALGORITHMS:
            algo = step
        elif path == ["net", "encoder_args"] and step == network:
            network = None
        # A union's tag follows the field that it belongs to; a schedule's own key `schedule` comes after its tag.
        elif not (len(path) == 2 and step in _TAGS):
            path.append(step)
        elif step == "schedule":
            path += location[location.index(step) + 1 :]
            break
    return path, algo


def _find_network(detail: ErrorDetails) -> str | None:
    """The network of another package whose settings it is about: its name stands behind that of the setting."""
    location = [str(step) for step in detail["loc"]]
    behind = location[location.index("encoder_args") + 1 :] if "encoder_args" in location else []
    return behind[0] if behind and behind[0] in encoder_names() else None


def _find_section(model: type[BaseModel]) -> str:
    if model in ALGORITHMS.values():
        return "algo"
    sections = {"EnvConfig": "env", "NetConfig": "net", "RunConfig": "run", "Spec": "spec"}
    return sections.get(model.__name__, "")


def _find_field(path: list[str], algo: str) -> FieldInfo | None:
    if len(path) > 2 and path[0] == "algo":
        by_key = {field.alias or name: field for name, field in Schedule.model_fields.items()}
        return by_key.get(path[2])
    if len(path) > 3 and path[2].isdigit() and (within := list_fields(algo).get(path[0], {}).get(path[1])) is not None:
        entry = next((each for each in get_args(within.annotation) if isinstance(each, type) and issubclass(each, BaseModel)), None)
        return None if entry is None else entry.model_fields.get(path[3])
    if len(path) >= 2:
        return list_fields(algo).get(path[0], {}).get(path[1])
    return Config.model_fields.get(path[0]) if path else None


def _explain_reason(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind in _BOUNDS:
        word, bound = _BOUNDS[kind]
        every = ", over the whole schedule" if isinstance(detail["input"], Mapping | Schedule) else ""
        return f"must be {word} {context[bound]}{every}"
    if kind == "literal_error":
        return f"must be one of {context['expected']}"
    if kind.startswith("float") and "number" in detail["loc"]:
        return "must be a number, or a schedule such as {start: 1e-3, end: 0}"
    if kind == "string_pattern_mismatch":
        return f"does not fit the pattern {context['pattern']}"
    for prefix, word in _TYPES.items():
        if kind.startswith(prefix):
            return f"must be {word}"
    return detail["msg"][0].lower() + detail["msg"][1:]


_BOUNDS: Final = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_TYPES: Final = {
    "float": "a number",
    "finite_number": "a finite number",
    "int": "a whole number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list, e.g. [64, 64]",
    "dict": "a mapping, e.g. {key: value}",
    "model": "a section with settings, e.g. {key: value}",
}


def _suggest(detail: ErrorDetails, field: FieldInfo | None) -> str:
    if detail["type"] == "literal_error":
        options = re.findall(r"'([^']*)'", detail["ctx"]["expected"])
        return (nearest(str(detail["input"]), options) or options)[0]
    if field is None or field.is_required():
        return "VALUE"
    default = field.get_default(call_default_factory=True)
    return "none" if default is None else _format(default)


def _explain_algorithm(detail: ErrorDetails, place: str) -> tuple[str, ...]:
    given = detail["input"].get("name") if isinstance(detail["input"], Mapping) else detail["input"]
    offered = nearest(str(given), ALGORITHMS) or list(ALGORITHMS)
    what = f"algo.name={given} is no algorithm" if given is not None else "algo.name is missing"
    others = (f" or {other}" for other in offered[1:])
    return (f"{what}{place}.\n  There would be nothing to train with.\n  Try: ", Change("algo.name", offered[0]), *others)


def _describe_origin(key: str, origins: Mapping[str, str]) -> str:
    """Where the value was set: its own line, or that of the setting it lies in."""
    while key:
        if key in origins:
            return f" ({origins[key]})"
        key = key.rpartition(".")[0]
    return ""


def _format(value: Any) -> str:
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, Mapping) and value:
        return "{" + ", ".join(f"{key}: {_format(item)}" for key, item in value.items()) + "}"
    # On one line: a value of a stranger's config must not look like a line of ours.
    text = " ".join(value.splitlines()) if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
