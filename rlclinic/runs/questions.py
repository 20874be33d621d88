"""What was asked of a store, how often, and what may still be erred: runs/@questions/<id>.json, one file for each question.

A question is a control config (without seed, name and machine), a set of changes, an outcome and an environment. Whoever asks it again
has another chance to be told what is not so: three trials at 5 % err in up to 14 %. So a repeat is charged: the first trial of a question
has the whole error a, the k-th repeat of it a · 6 / (π² k²). All repeats together err in at most a, however many there are, and the first
one with them in at most 2 a.
"""

import fcntl
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from rlclinic.config import Config, to_record
from rlclinic.runs import coerce, disk, selector, studies, trials
from rlclinic.runs.store import Store

QUESTIONS: Final = "@questions"
SCHEMA_VERSION: Final = 1
Kind = Literal["trial", "regress", "optimize", "sensitivity", "race"]
_MACHINE: Final = frozenset(
    {"device", "engine", "precision", "threads", "tensorboard", "save_replay", "checkpoint_every_env_steps", "stop_at_threshold"}
)
"""Settings of a run that change where and how it is trained, not what is asked."""
_LOCK: Final = "questions.lock"


@dataclass(frozen=True)
class Question:
    """What is asked."""

    env_id: str
    control: str
    """A digest of the control: its config without seed, name and machine; or the user's command."""
    changes: tuple[str, ...]
    outcome: str
    title: str = ""
    """The same for people; no part of what makes it the same question."""

    @property
    def id(self) -> str:
        """The same for the same question in any store."""
        return _digest([self.env_id, self.control, sorted(self.changes), self.outcome])


@dataclass(frozen=True)
class Attempt:
    """One time that a question was asked, and what was spent on it."""

    kind: Kind
    refers: str
    """Id of the trial, or of the study; of a regression, the candidate."""
    when: float
    alpha: float
    """The error that it may make."""
    independent: bool = False
    """It was meant to stand for itself: nothing was charged."""
    seed0: int | None = None
    verdict: str | None = None
    """Only where nothing else keeps it."""


@dataclass(frozen=True)
class History:
    """A question, and every time that it was asked, oldest first."""

    id: str
    question: Question
    asked: tuple[Attempt, ...]

    @property
    def spent(self) -> float:
        """The chance of at least one false verdict among all times, each on fresh seeds."""
        return chance_of_any([question.alpha for question in self.asked])


def identify(env_id: str, control: Config | str, changes: Sequence[str], outcome: str, title: str = "") -> Question:
    """The question whether changes of a config, or of a command, matter for an outcome."""
    return Question(env_id, digest_config(control) if isinstance(control, Config) else _digest(control), tuple(changes), outcome, title)


def digest_config(config: Config) -> str:
    """The same for configs that ask the same: seed, name and machine do not count."""
    record = {key: value for key, value in to_record(config).items() if key not in ("seed", "name")}
    record["run"] = {key: value for key, value in record.get("run", {}).items() if key not in _MACHINE}
    record["spec"] = {"threshold": config.spec.threshold}
    return _digest(record)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


# ── error ──


def next_alpha(alpha: float, repeats: int) -> float:
    """What a trial may err by that asks a question for the k-th time again (0: for the first time)."""
    return alpha if repeats < 1 else alpha * 6.0 / (math.pi**2 * repeats**2)


def chance_of_any(alphas: Sequence[float]) -> float:
    """The chance of at least one false verdict among independent ones."""
    return 1.0 - math.prod(1.0 - alpha for alpha in alphas)


# ── the store ──


def register(store: Store, question: Question, asked: Attempt) -> History:
    """Write down that a question is asked, before what asks it is written down itself; a second time in the place of the first."""
    root = store.root / QUESTIONS
    with disk.guarded(root):
        root.mkdir(parents=True, exist_ok=True)
    with _alone(root):
        known = _read(root / f"{question.id}.json")
        earlier = known.asked if known is not None else ()
        times = (*(each for each in earlier if each.kind == "regress" or (each.kind, each.refers) != (asked.kind, asked.refers)), asked)
        history = History(question.id, known.question if known is not None else question, times)
        disk.write_json(root / f"{question.id}.json", _as_record(history), sync=True)
    return history


def look_up(store: Store, question: Question) -> History | None:
    """What is known of a question; None if it was never asked here."""
    return _read_asked_of(store, store.root / QUESTIONS / f"{question.id}.json")


def histories(store: Store) -> list[History]:
    """Every question of a store, the one that was asked last first; a file that cannot be read is left out."""
    try:
        paths = sorted((store.root / QUESTIONS).glob("*.json"))
    except OSError:
        return []
    read = [history for path in paths if (history := _read_asked_of(store, path)) is not None]
    return sorted(read, key=lambda history: -max((question.when for question in history.asked), default=0.0))


def _read_asked_of(store: Store, path: Path) -> History | None:
    """A question with the times that it was really asked; None if there was none."""
    history = _read(path)
    asked = tuple(question for question in history.asked if not _never_began(store, question)) if history is not None else ()
    return replace(history, asked=asked) if history is not None and asked else None


def _never_began(store: Store, asked: Attempt) -> bool:
    """Whether what asks was killed between its folder and its record: it has asked nothing. One that somebody has removed has asked."""
    if not selector.ID.fullmatch(asked.refers):
        return False  # of a regression, or not what we write: no path is made of it
    if asked.kind in ("race", "sensitivity"):
        return studies.folder(store, asked.kind, asked.refers).is_dir() and not studies.exists(store, asked.kind, asked.refers)
    return asked.kind != "regress" and trials.folder(store, asked.refers).is_dir() and not trials.exists(store, asked.refers)


def _as_record(history: History) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "id": history.id,
        **asdict(history.question),
        "asked": [asdict(question) for question in history.asked],
    }


def _read(path: Path) -> History | None:
    record = disk.read_json(path)
    if record is None or record.get("schema_version", 0) > SCHEMA_VERSION:
        return None
    texts = {name: coerce.text(record.get(name)) or "" for name in ("env_id", "control", "outcome", "title")}
    changes = tuple(str(change) for change in record.get("changes") or ())
    times = [asked for each in record.get("asked") or () if isinstance(each, Mapping) and (asked := _read_asked(each)) is not None]
    return History(path.stem, Question(changes=changes, **texts), tuple(times))


def _read_asked(record: Mapping[str, Any]) -> Attempt | None:
    kind, alpha = record.get("kind"), coerce.real(record.get("alpha"))
    if kind not in ("trial", "regress", "optimize", "sensitivity", "race") or alpha is None:
        return None
    seed0 = record.get("seed0")
    return Attempt(
        kind=kind,
        refers=coerce.text(record.get("refers")) or "",
        when=coerce.real(record.get("when")) or 0.0,
        alpha=alpha,
        independent=record.get("independent") is True,
        seed0=seed0 if isinstance(seed0, int) else None,
        verdict=coerce.text(record.get("verdict")),
    )


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    with disk.guarded(root / _LOCK), (root / _LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
