"""What the checkpoints of a run say: damaged files, broken or frozen weights, lost optimizer state, normalizers that do not fit.

`examine` puts every check to one run, `examine_group` also compares seeds; `inspect` gives the numbers themselves. Nothing is
unpickled, torch is not needed, and what cannot be read becomes a finding, never an error.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from rlclinic.diagnosis.checkpoints import files, measures
from rlclinic.diagnosis.checkpoints.files import Saved
from rlclinic.diagnosis.findings import DiagnosisPart, Finding, Severity, Unassessable
from rlclinic.diagnosis.registry import Rule
from rlclinic.errors import RunError
from rlclinic.runs.history import History
from rlclinic.runs.record import Run

FAMILY: Final = "checkpoints"
WHERE: Final = "checkpoint:"
"""Evidence names the file's part: checkpoint:<step>/<tensor>."""
MOST: Final = 3
"""Newest checkpoints that are read; training keeps as many."""
OWN_MOMENTS: Final = {"adam": ("mean", "square"), "adamw": ("mean", "square"), "rmsprop": ("square",)}


@dataclass(frozen=True)
class Subject:
    """A run's checkpoints under examination, oldest first."""

    run: str
    saved: tuple[Saved, ...]
    settings: Mapping[str, Any]
    """By section, as in config.json."""
    history: History | None

    @property
    def last(self) -> Saved:
        return self.saved[-1]

    def section(self, name: str) -> Mapping[str, Any]:
        value = self.settings.get(name)
        return value if isinstance(value, Mapping) else {}

    @cached_property
    def pairs(self) -> list[tuple[Saved, Saved]]:
        """Neighbours that were both read, between which the optimizer took steps."""
        whole = [each for each in self.saved if each.weights]
        return [(a, b) for a, b in pairwise(whole) if (b.optimizer_steps or 0) > (a.optimizer_steps or 0)]


Check = Callable[[Subject], Iterator[Finding]]
_CHECKS: dict[str, Rule] = {}


def check(id: str, severity: Severity, cites: Sequence[str]) -> Callable[[Check], Check]:
    """Register a check of checkpoints. It is documented like a rule, and explained by `rlclinic rules`."""

    def register(function: Check) -> Check:
        import inspect as python

        doc = python.cleandoc(function.__doc__ or "")
        name = function.__name__.replace("_", "-")
        _CHECKS[id] = Rule(id, name, FAMILY, severity, "run", (), (("checkpoints",),), tuple(cites), True, function, doc)
        return function

    return register


def rules() -> list[Rule]:
    """Every check of checkpoints, by id."""
    from rlclinic.diagnosis.checkpoints import checks  # registers them  # noqa: F401

    return sorted(_CHECKS.values(), key=lambda each: each.id)


# ── examining ──


def examine(run: Run, history: History | None = None) -> list[Finding]:
    """What is wrong with a run's checkpoints, the most severe first; [] if it has none. `history` saves reading its log again."""
    subject = read(run, history)
    return [] if subject is None else put(subject)


def examine_group(runs: Sequence[Run], histories: Sequence[History] = ()) -> list[Finding]:
    """The same for runs that differ only in their seed, which must not have the same weights."""
    from rlclinic.diagnosis.checkpoints import checks

    known = {history.id: history for history in histories}
    subjects = [subject for run in runs if (subject := read(run, known.get(run.id))) is not None]
    return [finding for subject in subjects for finding in put(subject)] + checks.compare(subjects)


def read(run: Run, history: History | None = None) -> Subject | None:
    """A run's newest checkpoints; None if it has none."""
    newest = run.checkpoints[-MOST:]
    if not newest:
        return None
    try:
        settings = run.record
    except RunError:  # a record that cannot be read leaves the weights to look at
        settings = {}
    return Subject(run.id, tuple(files.read(each) for each in newest), settings, history)


def put(subject: Subject) -> list[Finding]:
    """Every check to one subject."""
    findings = []
    with np.errstate(all="ignore"):
        for rule in rules():
            for finding in rule.check(subject):
                weight = rule.severity if finding.strength >= 0.5 else Severity.LOW
                findings.append(finding.model_copy(update={"rule": rule.id, "name": rule.name, "run": subject.run, "severity": weight}))
    return sorted(findings, key=lambda finding: (-finding.severity.rank, -finding.strength, finding.rule))


# ── the numbers themselves ──


class LayerView(DiagnosisPart):
    """One tensor of the newest checkpoint."""

    name: str
    shape: tuple[int, ...]
    norm: float | None
    change: float | None
    """Since the checkpoint before, as a share of its norm."""
    rank: float | None
    """Effective rank."""
    not_finite: int
    dead: int | None
    saturated: int | None
    width: int | None
    """Units of the layer."""


class Inspection(DiagnosisPart):
    """What a run's newest checkpoint holds."""

    run: str
    step: int
    before: int | None
    """The checkpoint that changes are measured against."""
    layers: tuple[LayerView, ...]
    optimizer_steps: float | None
    observations: str
    """What units were judged on."""
    findings: tuple[Finding, ...]
    unassessable: tuple[Unassessable, ...] = ()


def inspect(run: Run, history: History | None = None) -> Inspection | None:
    """The newest checkpoint, layer by layer, and what is wrong; None if there is none."""
    subject = read(run, history)
    return None if subject is None else _inspection(subject, put(subject))


def inspect_file(path: Path) -> Inspection:
    """The same for a .safetensors file of anyone's. A pickled model is not opened: it says what to paste instead."""
    if path.suffix != ".safetensors" and files.is_pickled(path):
        paste = (
            "from safetensors.torch import save_file  # once, where the model is trusted",
            "save_file({k: v.contiguous() for k, v in model.policy.state_dict().items()}, 'policy.safetensors')",
        )
        missing = Unassessable(rule="CKP102", name="weights-not-finite", missing=("weights outside a pickle",), paste=paste)
        return Inspection(
            run=path.name, step=0, before=None, layers=(), optimizer_steps=None, observations="", findings=(), unassessable=(missing,)
        )
    subject = Subject(path.name, (files.read_file(path),), {}, None)
    return _inspection(subject, put(subject))


def _inspection(subject: Subject, findings: Sequence[Finding]) -> Inspection:
    last, before = subject.last, subject.saved[-2] if len(subject.saved) > 1 else None
    with np.errstate(all="ignore"):
        obs, what = seen(subject)
        units = {unit.name: unit for unit in measures.units(last, subject.section("net"), obs)} if len(obs) else {}
        layers = [_view(layer, units) for layer in measures.layers(last, before)]
    return Inspection(
        run=subject.run,
        step=last.step,
        before=None if before is None else before.step,
        layers=tuple(layers),
        optimizer_steps=last.optimizer_steps,
        observations=what,
        findings=tuple(findings),
    )


def seen(subject: Subject) -> tuple[measures.Matrix, str]:
    """Observations to judge units on, as the network sees them, and what they are."""
    clip = subject.section("env").get("clip_obs", 10.0)
    return measures.observations(subject.saved, float(clip) if isinstance(clip, int | float) else 10.0)


def _view(layer: measures.Layer, units: Mapping[str, measures.Units]) -> LayerView:
    unit = units.get(layer.name.removesuffix(".weight")) if layer.name.endswith(".weight") else None
    return LayerView(
        name=layer.name,
        shape=layer.shape,
        norm=layer.norm if math.isfinite(layer.norm) else None,
        change=layer.change if layer.change is not None and math.isfinite(layer.change) else None,
        rank=layer.rank,
        not_finite=layer.not_finite,
        dead=None if unit is None else unit.dead,
        saturated=None if unit is None else unit.saturated,
        width=None if unit is None else unit.width,
    )
