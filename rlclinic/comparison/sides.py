"""What is compared: runs of one config with their settings, or settings alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rlclinic.comparison.models import SideFacts
from rlclinic.errors import ConfigError, RlclinicError
from rlclinic.runs import coerce, history
from rlclinic.runs.history import History

if TYPE_CHECKING:
    from rlclinic.config import Config
    from rlclinic.runs.record import Group, Run

Kind = Literal["group", "run", "foreign", "config"]


@dataclass(frozen=True, eq=False)
class Side:
    """One operand of a comparison."""

    name: str
    """As it was typed."""
    kind: Kind
    settings: Mapping[str, Any]
    """By dotted name, schedules whole."""
    complete: bool
    """Every setting is there, defaults included; False: only what a log says."""
    histories: tuple[History, ...] = ()
    notes: tuple[str, ...] = ()
    label: str = field(default="?")
    config: "Config | None" = None
    """What could be trained; None for what was."""
    owner: "Run | Group | None" = None
    """The run or group of ours that it is."""

    def __len__(self) -> int:
        return len(self.histories)

    @property
    def env(self) -> str | None:
        return self._first("env_id") or coerce.text(self.settings.get("env.id"))

    @property
    def algo(self) -> str | None:
        return self._first("algo") or coerce.text(self.settings.get("algo.name"))

    @property
    def source(self) -> str | None:
        return self._first("source")

    @property
    def threshold(self) -> float | None:
        known = self._first("threshold")
        return coerce.real(self.settings.get("spec.threshold")) if known is None else float(known)

    @property
    def budget(self) -> int | None:
        return self._first("max_env_steps") or coerce.whole(self.settings.get("run.max_env_steps"))

    def _first(self, name: str) -> Any:
        return next((value for each in self.histories if (value := getattr(each, name)) is not None), None)

    def facts(self) -> SideFacts:
        """What is known before anything is compared."""
        states: dict[str, int] = {}
        for each in self.histories:
            states[each.state] = states.get(each.state, 0) + 1
        remarks = dict.fromkeys([*self.notes, *(note for each in self.histories for note in each.notes)])
        return SideFacts(
            label=self.label,
            name=self.name,
            kind=self.kind,
            env=self.env,
            algo=self.algo,
            source=self.source,
            runs=len(self),
            env_steps=max((each.env_steps for each in self.histories if each.env_steps is not None), default=None),
            states=states,
            notes=list(remarks),
        )


def labelled(sides: Sequence[Side]) -> list[Side]:
    """The sides as A, B, C, ..., then S27, S28, ..."""
    from dataclasses import replace

    return [replace(side, label=chr(ord("A") + place) if place < 26 else f"S{place + 1}") for place, side in enumerate(sides)]


def of_config(name: str, config: "Config", notes: Sequence[str] = ()) -> Side:
    """A config that was not trained."""
    from rlclinic.config import to_record

    return Side(name, "config", history.dotted(to_record(config)), True, (), tuple(notes), config=config)


def of_runs(name: str, owner: "Run | Group") -> Side:
    """Our own run or group. A config that today's schema refuses, or that an import left incomplete, is taken as recorded."""
    from rlclinic.config import to_record
    from rlclinic.runs.record import Group, settings

    runs = owner.runs if isinstance(owner, Group) else [owner]
    found = tuple(history.of_run(run) for run in runs)
    kind: Kind = "group" if isinstance(owner, Group) else "run"
    try:
        return Side(name, kind, history.dotted(to_record(owner.config)), True, found, owner=owner)
    except ConfigError as error:
        note = f"{owner.id}: its settings are shown as recorded; today's schema refuses them ({str(error).splitlines()[0]})"
        return Side(name, kind, history.dotted(settings(owner.record)), False, found, (note,))
    except RlclinicError:
        known = found[0].settings if found else {}
        return Side(name, kind, known, False, found)


def of_histories(name: str, histories: Sequence[History]) -> Side:
    """Runs that another framework logged."""
    return Side(name, "foreign", histories[0].settings, False, tuple(histories))
