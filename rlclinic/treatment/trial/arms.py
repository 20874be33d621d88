"""The arms of a trial: a control and what is changed against it, as configs or as a command of the user's own."""

import re
from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from rlclinic.actions import Argument, Change
from rlclinic.config import ALGORITHMS, Config, set_values, to_record
from rlclinic.config.yaml_lines import SECTIONS
from rlclinic.errors import UsageError
from rlclinic.treatment.prescription.prescription import spelled, worded

CONTROL: Final = "control"
# What a trial decides by itself, or what changes nothing about learning.
_UNCOUNTED: Final = frozenset(
    {"spec.description", "spec.source", "run.stop_at_threshold", "run.tensorboard", "run.threads", "env.workers"}
    | {"run.film_every_env_steps", "run.histograms_every_env_steps", "run.data_parallel", "run.shard_optimizer", "run.shard_weights"}
    | {"run.allow_slower"}
)
_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_PLACEHOLDER: Final = re.compile(r"(?<!\{)\{([A-Za-z_][A-Za-z0-9_.]*)\}(?!\})")


class Arm(BaseModel):
    """One group of an experiment: what it trains, and how that differs from the control."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, defer_build=True)

    name: str
    """"control", "rx1", "variant"; short, for tables."""
    config: Config | None = None
    """What is trained; None where `command` is."""
    changes: tuple[str, ...] = ()
    """KEY=VALUE texts against the control, as --set takes them; with a command, the values of its placeholders."""
    command: str | None = None
    """The user's own training command, with {seed}, {out} and the placeholders that `changes` fill."""

    @property
    def title(self) -> str:
        """What is changed, for a sentence: "learning_rate 0.001, linear to 0"."""
        return " and ".join(_say_change(change) for change in self.changes) or "nothing"


def control(config: Config, name: str = CONTROL) -> Arm:
    """The arm that others are measured against."""
    return Arm(name=name, config=config)


def changed(base: Config, changes: Sequence[str], name: str) -> Arm:
    """The control's config with --set changes; UsageError if nothing would change, ConfigError if the schema refuses."""
    config = set_values(base, list(changes))
    found = differences(base, config)
    if not found:
        raise UsageError(
            f"arm {name} ({', '.join(changes) or 'no change'}) is what the control already is.\n"
            "  A trial of equal arms could only find chance.\n  Change something else: ",
            Change("KEY", "VALUE"),
        )
    return Arm(name=name, config=config, changes=found)


def against(base: Config, config: Config, name: str) -> Arm:
    """An arm with a config of its own; its differences from the control are worked out."""
    if config.env.id != base.env.id:
        raise UsageError(
            f"arm {name} trains on {config.env.id}, the control on {base.env.id}.\n"
            "  Returns of two environments cannot be ranked together.\n  Give configs of one environment"
        )
    return Arm(name=name, config=config, changes=differences(base, config))


def differences(base: Config, config: Config) -> tuple[str, ...]:
    """The --set texts that turn one config into the other; seeds, names and where it is computed are not counted."""
    old, new = to_record(base), to_record(config)
    found = []
    if new["algo"]["name"] != old["algo"]["name"]:
        found.append(f"algo.name={new['algo']['name']}")
        old["algo"] = ALGORITHMS[new["algo"]["name"]]().model_dump(mode="json")
    for section in SECTIONS:
        before, after = old.get(section), new.get(section)
        if after is None:
            found += [f"{section}=null"] if before is not None else []
            continue
        if before is None:  # a section that only some configs have (data, bonus, curriculum): its defaults need not be said
            before = list_defaults(type(getattr(config, section)))
        found += [
            f"{section}.{key}={spelled(value)}"
            for key, value in after.items()
            if (key not in before or before[key] != value) and f"{section}.{key}" not in _UNCOUNTED
        ]
    return tuple(found)


def list_defaults(section: type[BaseModel]) -> dict[str, Any]:
    """What a section has where nothing is said, as records have it; settings that must be said are left out."""
    found = {name: field.get_default(call_default_factory=True) for name, field in section.model_fields.items() if not field.is_required()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def commands(template: str, values: Sequence[str]) -> list[Arm]:
    """Arms of the user's own command; the first one is the control. Each value is KEY=VALUE, several joined by commas outside brackets."""
    wanted = set(placeholders(template)) - {"seed", "out"}
    if "{seed}" not in template:
        raise UsageError(
            Argument("run"),
            f" {template!r} has no {{seed}}.\n  Every run of an arm would be the same run, and count as many.\n  Type: ",
            Argument("run", "python train.py --seed {seed} …"),
        )
    if len(values) < 2:
        raise UsageError(
            f"a trial of a command needs two arms or more; here: {len(values)}.\n  There is nothing to compare.\n  Type: ",
            Argument("arm", "learning_rate=1e-3"),
            " ",
            Argument("arm", "learning_rate=1e-2"),
            " (the first is the control)",
        )
    found = []
    for place, value in enumerate(values):
        pairs = _pairs(value)
        if set(pairs) != wanted:
            shown = ", ".join(sorted(wanted)) or "none"
            raise UsageError(
                Argument("arm", value),
                f" gives {', '.join(pairs) or 'nothing'}, but the command has the placeholders: {shown}.\n"
                "  What is left open could not be run, and what has no place would change nothing.\n  Type: ",
                Argument("arm", ",".join(f"{key}=VALUE" for key in sorted(wanted)) or "KEY=VALUE"),
                "" if wanted else ", with {KEY} in the command",
            )
        changes = tuple(f"{key}={text}" for key, text in pairs.items())
        name = CONTROL if place == 0 else _short(",".join(f"{key}-{text}" for key, text in pairs.items())) or f"arm{place}"
        found.append(Arm(name=name, changes=changes, command=template))
    return unique(found)


def placeholders(template: str) -> list[str]:
    """Names in braces; doubled braces are the shell's own."""
    return list(dict.fromkeys(_PLACEHOLDER.findall(template)))


def filled(arm: Arm, seed: int, out: str) -> str:
    """The command of one run."""
    values = {"seed": str(seed), "out": out, **dict(change.split("=", 1) for change in arm.changes)}
    text = _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), arm.command or "")
    return text.replace("{{", "{").replace("}}", "}")


def unique(arms: Sequence[Arm]) -> list[Arm]:
    """Arms of one name are told apart by a number."""
    seen: dict[str, int] = {}
    found = []
    for arm in arms:
        seen[arm.name] = seen.get(arm.name, 0) + 1
        found.append(arm if seen[arm.name] == 1 else arm.model_copy(update={"name": f"{arm.name}-{seen[arm.name]}"}))
    return found


def short_name(text: str) -> str:
    """A name for an arm from a file, variant or setting."""
    return _short(text) or "arm"


def _short(text: str) -> str:
    return _NAME.sub("-", text).strip("-.")[:24]


def _pairs(text: str) -> dict[str, str]:
    """KEY=VALUE,KEY=VALUE; a comma inside brackets belongs to the value."""
    pairs = {}
    for part in re.split(r",(?![^\[{(]*[\]})])(?=[A-Za-z_][A-Za-z0-9_.]*=)", text):
        key, sign, value = part.partition("=")
        if not sign or not key.strip():
            raise UsageError(
                Argument("arm", text),
                " is not KEY=VALUE.\n  It cannot be told what to try.\n  Type: ",
                Argument("arm", "learning_rate=1e-3"),
            )
        pairs[key.strip()] = value.strip()
    return pairs


def _say_change(change: str) -> str:
    import json

    key, _, text = change.partition("=")
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return f"{key.rpartition('.')[2]} {worded(value)}"
