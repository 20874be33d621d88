"""The table of all runs or groups: sorted, filtered and grouped by any result, tag or setting, a window of rows at a time.

Every column is held as codes into its distinct values, so that a sort or a filter of ten thousand rows takes milliseconds. Settings are
read once for each config, whatever number of runs shares it.
"""

import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from rlclinic.comparison.directions import numeric, shown
from rlclinic.config.schedule import Schedule
from rlclinic.errors import UsageError
from rlclinic.ops.runs.requests import TableRequest
from rlclinic.report.models import Result, ResultPart, finite
from rlclinic.runs.coerce import real

if TYPE_CHECKING:
    from rlclinic.runs.database.index import Index

Kind = Literal["text", "number", "count", "share", "seconds", "time"]
Codes = NDArray[np.int32]

MOST_SETTINGS: Final = 10
"""Differing settings that a table shows unasked."""
MOST_VALUES: Final = 200
MOST_DIFFERENCES: Final = 4
"""Settings that tell two groups of one name apart."""
MISSING: Final = -1
"""The code of a value that is none."""
ABSENT: Final = -2
"""The code of a setting that a config does not have, as those of another algorithm."""
ARCHIVED: Final = "archived"
"""Rows with this tag are left out until somebody asks for them."""
_IGNORED: Final = ("spec.description", "spec.source", "spec.step_microseconds")
_NAMED: Final = ("env.id", "algo.name")
"""Told by columns of their own."""
_ORDER: Final = ("algo", "env", "net", "data", "run", "spec")
_CONDITION: Final = re.compile(r"\s*(?P<column>[\w.@/-]+?)\s*(?P<sign>!=|>=|<=|=|>|<|~)\s*(?P<value>.*?)\s*", re.DOTALL)

# Column, title, kind, the index's column; for runs, groups or both.
_RESULTS: Final[tuple[tuple[str, str, Kind, str, str], ...]] = (
    ("name", "config", "text", "name", "both"),
    ("id", "id", "text", "id", "both"),
    ("label", "label", "text", "label", "both"),
    ("env", "environment", "text", "env", "both"),
    ("algo", "algorithm", "text", "algo", "both"),
    ("state", "state", "text", "state", "both"),
    ("verdict", "verdict", "text", "verdict", "groups"),
    ("group", "group", "text", "group_id", "runs"),
    ("seed", "seed", "count", "seed", "runs"),
    ("seeds", "seeds", "count", "runs", "groups"),
    ("reached", "reached the threshold", "count", "reached", "groups"),
    ("reached_at", "threshold reached at", "count", "threshold_reached_at", "runs"),
    ("last", "return", "number", "eval_mean", "both"),
    ("best", "best", "number", "best_eval", "both"),
    ("success", "success", "share", "success_rate", "both"),
    ("threshold", "threshold", "number", "threshold", "both"),
    ("env_steps", "env steps", "count", "env_steps", "both"),
    ("budget", "budget", "count", "max_env_steps", "both"),
    ("wall_time", "wall time", "seconds", "wall_seconds", "both"),
    ("steps_per_second", "steps/s", "number", "steps_per_second", "runs"),
    ("created", "started", "time", "created", "both"),
    ("changed", "last change", "time", "heartbeat", "both"),
    ("tag", "tags", "text", "tags", "both"),
    ("trial", "trial", "text", "trial", "both"),
    ("parent", "parent", "text", "parent", "both"),
    ("source", "imported from", "text", "source", "groups"),
    ("prescription", "prescription", "text", "prescription", "groups"),
    ("reason", "reason", "text", "reason", "runs"),
    ("note", "note", "text", "note", "both"),
)


class TableColumn(ResultPart):
    """A column that rows can be sorted, filtered and grouped by."""

    name: str
    title: str
    kind: Kind
    setting: bool
    """Of the config; else a result."""
    distinct: int | None
    """Of a setting: different values among the rows that match."""


class TableRow(ResultPart):
    """A run or a group."""

    id: str
    results: dict[str, Any]
    """By column, as far as there is a value; tags as a list."""
    settings: dict[str, str | None]
    """The settings that are shown, as people write them; None: it has no such setting."""
    differs: dict[str, str]
    """Of the rows of the same name that match: in what this one differs."""


class TableSection(ResultPart):
    """Rows that share a value of the column that is grouped by."""

    value: str | None
    rows: int
    solved: int | None
    """Groups that are SOLVED, or runs that reached the threshold and kept it."""
    last: float | None
    """The mean over rows."""
    best: float | None
    success: float | None
    """The mean over rows."""


class TableValue(ResultPart):
    """A value of a column, and how many rows that match have it."""

    value: str
    rows: int


class TablePage(Result):
    """A window of the rows that match."""

    of: Literal["groups", "runs"]
    total: int
    offset: int
    rows: list[TableRow]
    shown: list[str]
    """The settings in `rows`: those that were asked for, else those that differ."""
    columns: list[TableColumn]
    sections: list[TableSection]
    """In the order of the rows; empty where nothing is grouped."""
    values: list[TableValue]
    """Of the column `values_of`, the most frequent first."""


@dataclass
class Column:
    """One value for each row, as codes into the distinct values in their order."""

    values: list[Any]
    codes: Codes
    """MISSING and ABSENT are no value."""

    def match(self, sign: str, wanted: str) -> NDArray[np.bool_]:
        """The rows whose value stands in this relation to a text that somebody typed."""
        if wanted.lower() in ("none", "–", "") and sign in ("=", "!="):
            return self.codes < 0 if sign == "=" else self.codes >= 0
        holds = np.array([_compare(value, sign, wanted) for value in self.values] + [sign == "!="] * 2, dtype=bool)
        return holds[self.codes]  # the codes -1 and -2 count from the end


@dataclass
class Frame:
    """All runs or all groups of a store, by column."""

    kind: str
    rows: list[Any]
    """As the index has them."""
    configs: NDArray[np.int64]
    """Which config each row has."""
    settings: "Settings"
    _columns: dict[str, Column] = field(default_factory=dict)

    def column(self, name: str) -> Column:
        """A result or a setting by its name, or by the end of its name (`learning_rate`)."""
        if name not in self._columns:
            self._columns[name] = (
                self._result(name) if name in _names(self.kind) else self.settings.column(self._setting(name), self.configs)
            )
        return self._columns[name]

    def known(self, name: str) -> str:
        """The whole name of a column; UsageError with the nearest ones if there is none."""
        return name if name in _names(self.kind) else self._setting(name)

    def _setting(self, name: str) -> str:
        known = self.settings.names()
        if name in known:
            return name
        ends = [each for each in known if each.endswith(f".{name}")]
        if len(ends) == 1:
            return ends[0]
        import difflib

        near = ends or difflib.get_close_matches(name, [*_names(self.kind), *known, *(each.partition(".")[2] for each in known)], 3)
        offered = f"Try one of: {', '.join(near)}" if near else "Columns are: " + ", ".join(_names(self.kind))
        raise UsageError(f"{name!r} is no column of {self.kind}.\n  Rows cannot be sorted or filtered by it.\n  {offered}")

    def _result(self, name: str) -> Column:
        position = _names(self.kind).index(name)
        return _encode([None if row[1 + position] == "" else row[1 + position] for row in self.rows])

    def result(self, name: str, row: int) -> Any:
        """A value as the index has it."""
        return self.rows[row][1 + _names(self.kind).index(name)]


class Settings:
    """The settings of every config that was met, by name; configs are only ever added."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._tokens: dict[str, dict[Any, int]] = {}
        self._values: dict[str, list[Any]] = {}
        self._codes: dict[str, dict[int, int]] = {}
        self._arrays: dict[str, tuple[int, Codes, list[Any]]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def names(self) -> list[str]:
        """Algorithm first, as people ask for them."""
        place = {section: index for index, section in enumerate(_ORDER)}
        return sorted(self._tokens, key=lambda name: (place.get(name.partition(".")[0], len(_ORDER)), name))

    def add(self, key: str, text: str) -> None:
        """A config by its hash."""
        place = self._places[key] = len(self._places)
        for name, value in json.loads(text).items():
            if name in _IGNORED:
                continue
            tokens = self._tokens.setdefault(name, {})
            plain = value if isinstance(value, str | int | float | None) else _simplify(value)
            token = (plain, isinstance(plain, bool))
            if plain is None:
                code = MISSING
            elif token in tokens:
                code = tokens[token]
            else:
                code = tokens[token] = len(tokens)
                self._values.setdefault(name, []).append(plain)
            self._codes.setdefault(name, {})[place] = code

    def place(self, key: str | None) -> int:
        """The number of a config; 0 where it is not known."""
        return self._places.get(key or "", 0)

    def by_config(self, name: str) -> tuple[Codes, list[Any]]:
        """A setting's codes for every config, in the order of its values."""
        kept = self._arrays.get(name)
        if kept is None or kept[0] != len(self._places):
            values = self._values.get(name, [])
            order = sorted(range(len(values)), key=lambda at: _sort_key(values[at]))
            ranks = np.empty(len(values) + 2, dtype=np.int32)
            ranks[[MISSING, ABSENT]] = MISSING, ABSENT
            ranks[order] = np.arange(len(values), dtype=np.int32)
            codes = np.full(len(self._places), ABSENT, dtype=np.int32)
            if known := self._codes.get(name):
                codes[list(known)] = ranks[list(known.values())]
            kept = self._arrays[name] = (len(self._places), codes, [values[at] for at in order])
        return kept[1], kept[2]

    def column(self, name: str, configs: NDArray[np.int64]) -> Column:
        """A setting for every row."""
        codes, values = self.by_config(name)
        return Column(values, codes[configs])


class TableSource:
    """The rows of one index, read again after a change."""

    def __init__(self, index: "Index") -> None:
        self._index = index
        self._settings = Settings()
        self._frames: dict[str, tuple[int, Frame]] = {}
        self._lock = threading.Lock()

    def frame(self, kind: str) -> Frame:
        """All rows as they are now."""
        from sqlalchemy import select

        from rlclinic.runs.database.schema import CONFIG, GROUP, RUN

        table = GROUP if kind == "groups" else RUN
        with self._lock, self._index.connection() as connection:
            version = self._index.version(connection)
            kept = self._frames.get(kind)
            if kept is not None and kept[0] == version:
                return kept[1]
            columns = [table.c[source] for _, _, _, source in _results(kind)]
            extra = [table.c.return_mean, table.c.text, table.c.lost]
            # Tuples of the driver: ten thousand rows of SQLAlchemy's own take five times as long.
            rows = list(connection.execute(select(table.c.config, *columns, *extra)).cursor.fetchall())
            unknown = {row[0] for row in rows if row[0] not in self._settings}
            if unknown:
                for key, text in connection.execute(select(CONFIG.c.hash, CONFIG.c.settings)):
                    if key in unknown:
                        self._settings.add(key, text)
            configs = np.array([self._settings.place(row[0]) for row in rows], dtype=np.int64)
            frame = Frame(kind, rows, configs, self._settings)
            self._frames[kind] = (version, frame)
            return frame


def show_table(request: TableRequest) -> TablePage:
    """Runs or groups of a store as a table: sorted, filtered, grouped, with the settings in which they differ."""
    from rlclinic.runs.database.index import Index
    from rlclinic.runs.store import Store

    index = Index(Store(request.runs_dir))
    try:
        index.refresh()
        return make_page(TableSource(index), request)
    finally:
        index.close()


def make_page(source: TableSource, request: TableRequest) -> TablePage:
    """The window of rows that a request asks for."""
    frame = source.frame(request.of)
    matching = np.flatnonzero(_matches(frame, request))
    ordered = _sort(frame, matching, request)
    window = ordered[request.offset : request.offset + request.limit]
    counts = _count_distinct(frame, matching)
    differing = [name for name in frame.settings.names() if counts.get(name, 0) > 1 and name not in _NAMED]
    settings = [frame.known(name) for name in request.columns] or differing[:MOST_SETTINGS]
    settings = [name for name in settings if name not in _names(frame.kind)]
    twins = _tell_apart(frame, matching, window)
    rows = [_row(frame, int(row), settings, twins.get(int(row), {})) for row in window]
    results = [
        TableColumn(name=name, title=title, kind=kind, setting=False, distinct=None) for name, title, kind, _ in _results(frame.kind)
    ]
    columns = results + [
        TableColumn(name=name, title=_short(name), kind=_kind_of(frame.settings, name), setting=True, distinct=counts[name])
        for name in frame.settings.names()
        if counts.get(name, 0) > 0
    ]
    return TablePage(
        of=request.of,
        total=len(matching),
        offset=request.offset,
        rows=rows,
        shown=settings,
        columns=columns,
        sections=_sections(frame, matching, request),
        values=_values(frame, matching, request),
    )


# ── which rows, in which order ──


def _matches(frame: Frame, request: TableRequest) -> NDArray[np.bool_]:
    mask = np.ones(len(frame.rows), dtype=bool)
    words = (request.q or "").lower().split()
    if words:
        text = 2 + len(_names(frame.kind))
        mask &= np.fromiter((all(word in row[text] for word in words) for row in frame.rows), dtype=bool, count=len(frame.rows))
    named = set()
    for condition in request.where:
        parts = _CONDITION.fullmatch(condition)
        if parts is None or parts["value"].startswith(tuple("=<>~")):
            raise UsageError(
                f"{condition!r} is no condition.\n  It cannot be told which rows are meant.\n"
                "  Type COLUMN, one of = != > >= < <= ~ (contains), and a value: algo.learning_rate>=1e-3"
            )
        name = frame.known(parts["column"])
        named.add(name)
        column = frame.column(name)
        # A row has several tags: each counts by itself.
        sign = (
            {"=": "has", "!=": "lacks"}.get(parts["sign"], parts["sign"]) if name == "tag" and parts["value"] != "none" else parts["sign"]
        )
        mask &= column.match(sign, parts["value"])
    if not request.trials and "trial" not in named and frame.kind == "groups":
        mask &= frame.column("trial").codes < 0
    if not request.archived and "tag" not in named:
        mask &= ~frame.column("tag").match("has", ARCHIVED)
    return mask


def _compare(value: Any, sign: str, wanted: str) -> bool:
    if sign in ("has", "lacks"):
        return (wanted in str(value).split()) == (sign == "has")
    if sign == "~":
        return wanted.lower() in _text(value).lower()
    number, typed = _number_of(value), _read_number(wanted)
    if sign in ("=", "!="):
        alike = _text(value).lower() == wanted.lower()
        if not alike and typed is not None and not isinstance(value, str | bool | Scheduled):
            alike = real(value) is not None and bool(np.isclose(value, typed, rtol=1e-9, atol=0.0))
        return alike == (sign == "=")
    if number is None or typed is None:
        return isinstance(value, str) and _ordered(str(value).lower(), sign, wanted.lower())
    return _ordered(number, sign, typed)


def _ordered(left: Any, sign: str, right: Any) -> bool:
    return bool(left > right if sign == ">" else left >= right if sign == ">=" else left < right if sign == "<" else left <= right)


def _read_number(text: str) -> float | None:
    """A number as people type it: 1e-3, 100k, 2M, 95%."""
    scale = {"k": 1e3, "m": 1e6, "g": 1e9, "%": 1e-2}.get(text[-1:].lower(), 1.0)
    try:
        return real(float((text if scale == 1.0 else text[:-1]).replace("_", "").replace(",", "")) * scale)
    except ValueError:
        return None


def _sort(frame: Frame, matching: NDArray[np.int64], request: TableRequest) -> NDArray[np.int64]:
    codes = _sort_codes(frame, request.sort)[matching]
    # What has no value comes last in either direction; the newest first among equals.
    newest = -_sort_codes(frame, "created")[matching].astype(np.int64)
    keyed = np.where(codes < 0, np.iinfo(np.int32).max, -codes if request.descending else codes)
    keys = [newest, keyed]
    if request.group_by:
        section = frame.column(request.group_by).codes[matching]
        keys.append(np.where(section < 0, np.iinfo(np.int32).max, section))
    return matching[np.lexsort(keys)]


def _sort_codes(frame: Frame, name: str) -> Codes:
    column = frame.column(name)
    if name != "last":
        return column.codes
    # The number that is shown: where nothing was evaluated, the return of training.
    extra = 1 + len(_names(frame.kind))
    return _encode([row[extra] if value is None else value for row in frame.rows for value in (_of(frame, row, "last"),)]).codes


def _of(frame: Frame, row: Any, name: str) -> Any:
    return row[1 + _names(frame.kind).index(name)]


# ── what a window says ──


def _row(frame: Frame, row: int, settings: Sequence[str], differs: dict[str, str]) -> TableRow:
    raw = frame.rows[row]
    results: dict[str, Any] = dict(zip(_names(frame.kind), raw[1:], strict=False))
    results["tag"] = (results["tag"] or "").split()
    more = raw[1 + len(_names(frame.kind)) :]
    results["return_mean"] = more[0]
    results["lost"] = more[2] if frame.kind == "groups" or more[2] is None else bool(more[2])
    cells = {name: _cell_text(frame.column(name), row) for name in settings}
    known = {name: value for name, value in results.items() if value is not None and value != ""}
    return TableRow.model_construct(id=results["id"], results=known, settings=cells, differs=differs)


def _cell_text(column: Column, row: int) -> str | None:
    code = int(column.codes[row])
    return None if code == ABSENT else "none" if code == MISSING else _text(column.values[code])


def _count_distinct(frame: Frame, matching: NDArray[np.int64]) -> dict[str, int]:
    """By setting: how many different values the matching rows have; a setting that a config does not have is none."""
    used = np.unique(frame.configs[matching])
    return {name: _distinct(frame.settings.by_config(name)[0][used]) for name in frame.settings.names()}


def _distinct(codes: Codes) -> int:
    if not len(codes):
        return 0
    return int(np.count_nonzero(np.bincount(codes + 2)[1:]))


def _tell_apart(frame: Frame, matching: NDArray[np.int64], window: NDArray[np.int64]) -> dict[int, dict[str, str]]:
    """For each row of the window that shares its name with another matching row: the settings in which these differ."""
    label, name = frame.column("label").codes, frame.column("name").codes
    named = (label.astype(np.int64) + 2) * (int(name.max(initial=0)) + 3) + name
    if frame.kind == "runs":
        return {}  # seeds of one group are alike on purpose
    names = [each for each in frame.settings.names() if each not in _NAMED]
    found: dict[int, dict[str, str]] = {}
    for which in np.unique(named[window]):
        twins = matching[named[matching] == which]
        if len(twins) < 2:
            continue
        used = np.unique(frame.configs[twins])
        codes = {each: frame.settings.by_config(each)[0][used] for each in names}
        apart = [each for each in names if _distinct(codes[each]) > 1]
        # A setting that an older version did not know counts where nothing else tells them apart.
        apart = apart or [each for each in names if _distinct(np.maximum(codes[each], MISSING)) > 1]
        apart = apart[:MOST_DIFFERENCES]
        for row in window[named[window] == which]:
            said = {each: _cell_text(frame.column(each), int(row)) for each in apart}
            found[int(row)] = {_short(each): text for each, text in said.items() if text is not None}
    return found


def _sections(frame: Frame, matching: NDArray[np.int64], request: TableRequest) -> list[TableSection]:
    if not request.group_by:
        return []
    column = frame.column(request.group_by)
    codes = np.where(column.codes < 0, len(column.values), column.codes)[matching]
    numbers = {name: _numbers(frame, name)[matching] for name in ("last", "best", "success")}
    solved = _solved(frame)[matching]
    sections = []
    for code in np.unique(codes):
        here = codes == code
        value = None if code == len(column.values) else _text(column.values[code])
        last, best, success = (numbers[name][here] for name in ("last", "best", "success"))
        sections.append(
            TableSection(
                value=value,
                rows=int(here.sum()),
                solved=int(solved[here].sum()),
                last=_mean(last),
                best=float(np.nanmax(best)) if np.isfinite(best).any() else None,
                success=_mean(success),
            )
        )
    return sections


def _numbers(frame: Frame, name: str) -> NDArray[np.float64]:
    extra = 1 + len(_names(frame.kind))
    values = (_of(frame, row, name) if name != "last" or _of(frame, row, name) is not None else row[extra] for row in frame.rows)
    return np.fromiter((np.nan if value is None else float(value) for value in values), dtype=np.float64, count=len(frame.rows))


def _solved(frame: Frame) -> NDArray[np.bool_]:
    if frame.kind == "groups":
        return frame.column("verdict").match("=", "SOLVED")
    lost = 3 + len(_names(frame.kind))
    return np.array([_of(frame, row, "reached_at") is not None and not row[lost] for row in frame.rows], dtype=bool)


def _mean(values: NDArray[np.float64]) -> float | None:
    return finite([float(np.nanmean(values))])[0] if np.isfinite(values).any() else None


def _values(frame: Frame, matching: NDArray[np.int64], request: TableRequest) -> list[TableValue]:
    if not request.values_of:
        return []
    column = frame.column(request.values_of)
    codes = column.codes[matching]
    counts: dict[str, int] = {}
    for code, rows in zip(*np.unique(codes, return_counts=True), strict=True):
        words = (
            ["none"]
            if code < 0
            else str(column.values[code]).split()
            if frame.known(request.values_of) == "tag"
            else [_text(column.values[code])]
        )
        for word in words:
            counts[word] = counts.get(word, 0) + int(rows)
    often = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:MOST_VALUES]
    return [TableValue(value=value, rows=rows) for value, rows in often]


# ── values ──


def _results(kind: str) -> list[tuple[str, str, Kind, str]]:
    return [(name, title, sort, source) for name, title, sort, source, where in _RESULTS if where in ("both", kind)]


_NAMES: Final = {kind: [name for name, _, _, _ in _results(kind)] for kind in ("groups", "runs")}


def _names(kind: str) -> list[str]:
    return _NAMES[kind]


def _encode(raw: Sequence[Any]) -> Column:
    values = sorted({value for value in raw if value is not None}, key=_sort_key)
    place: Mapping[Any, int] = {value: at for at, value in enumerate(values)} | {None: MISSING}
    return Column(values, np.fromiter((place[value] for value in raw), dtype=np.int32, count=len(raw)))


def _sort_key(value: Any) -> tuple[int, float, str]:
    number = _number_of(value)
    return (0, number, _text(value)) if number is not None else (1, 0.0, str(value).lower())


def _number_of(value: Any) -> float | None:
    """What a value is sorted by: of a schedule, where it starts."""
    if isinstance(value, bool):
        return float(value)
    return value.start if isinstance(value, Scheduled) else real(value)


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A number that changes over the run: as people write it, and where it starts."""

    text: str
    start: float


_simple: dict[str, Any] = {}


def _simplify(value: Any) -> Any:
    """A list, a mapping or a schedule as something that can be compared; a schedule that stays as it is is its number."""
    key = json.dumps(value, sort_keys=True)
    if key not in _simple:
        if len(_simple) > 10_000:
            _simple.clear()
        text, made = shown(value), numeric(value)
        number = _read_number(text)
        _simple[key] = text if not isinstance(made, Schedule) else Scheduled(text, made.start) if number is None else number
    return _simple[key]


def _text(value: Any) -> str:
    return value.text if isinstance(value, Scheduled) else shown(value)


def _kind_of(settings: Settings, name: str) -> Kind:
    values = settings.by_config(name)[1]
    return "number" if values and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values) else "text"


def _short(name: str) -> str:
    """A setting without its section where nobody would mistake it."""
    section, _, rest = name.partition(".")
    return rest if section in ("algo", "env", "net") and rest not in ("id", "name") else name
