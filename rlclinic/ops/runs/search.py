"""Finding runs and groups among many: searched, filtered, sorted and paged over the index, and keeping that index."""

import base64
import binascii
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import ColumnElement, Row, Select, Table, and_, func, or_, select

from rlclinic.errors import UsageError
from rlclinic.ops.runs.ranking import RankedGroup
from rlclinic.ops.runs.requests import MOST_ROWS
from rlclinic.report.models import Result, ResultPart, State
from rlclinic.runs.database.index import Index, Refreshed
from rlclinic.runs.database.schema import GROUP, RUN
from rlclinic.runs.outcome import Verdict
from rlclinic.runs.record import GROUPS, Group
from rlclinic.runs.store import Store

Sort = Literal["created", "heartbeat", "env_steps", "best_eval", "eval_mean", "name"]


class Query(BaseModel):
    """What to look for; None is everything. Texts are compared without regard to case."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    q: str | None = Field(None, max_length=200)
    """Words that must all occur: in the id, the config's name, the label, tags, the note or the reason of a failure."""
    env: str | None = Field(None, max_length=200)
    algo: str | None = Field(None, max_length=64)
    state: State | None = None
    tag: str | None = Field(None, max_length=40)
    group: str | None = Field(None, max_length=64)
    trial: str | None = Field(None, max_length=64)
    """Runs of this trial or study. Without it (and without `group`), those of trials are left out of lists of groups."""
    trials: bool = False
    """Also show groups that trials and studies made."""
    sort: Sort = "created"
    descending: bool = True
    limit: int = Field(50, ge=1, le=MOST_ROWS)
    cursor: str | None = Field(None, max_length=400)
    """`next_cursor` of the page before."""


class RunItem(ResultPart):
    """A run in a list."""

    id: str
    group: str | None
    name: str
    env: str
    algo: str
    seed: int
    state: State
    reason: str | None
    created: float
    """Unix seconds."""
    heartbeat: float
    """Unix seconds of its last sign of life."""
    env_steps: int
    max_env_steps: int | None
    return_mean: float | None
    eval_mean: float | None
    best_eval: float | None
    threshold: float | None
    threshold_reached_at: int | None
    lost: bool | None
    """It reached the threshold, and ended clearly below it; None: not known."""
    success_rate: float | None
    """Of the last evaluation; None where the environment reports no success."""
    steps_per_second: float | None
    parent: str | None
    trial: str | None
    label: str | None
    tags: list[str]
    note: str


class GroupItem(ResultPart):
    """A group in a list."""

    id: str
    name: str
    env: str
    algo: str
    label: str | None
    created: float
    heartbeat: float
    parent: str | None
    prescription: str | None
    trial: str | None
    source: str | None
    """The framework that it was imported from; None for our own."""
    state: State
    """running while anything may change, else the worst that happened to a run."""
    verdict: Verdict
    """What a report says of it; see `rlclinic.runs.outcome`."""
    runs: int
    reached: int
    """Runs that reached the threshold."""
    lost: int
    """Of those, runs that ended clearly below it."""
    success_rate: float | None
    """The mean over runs of their last evaluations' success rates; None where the environment reports no success."""
    env_steps: int
    max_env_steps: int | None
    return_mean: float | None
    eval_mean: float | None
    """The mean over runs of their last evaluations."""
    best_eval: float | None
    threshold: float | None
    tags: list[str]
    note: str


class RunPage(Result):
    """Runs that match, a page of them."""

    items: list[RunItem]
    total: int
    next_cursor: str | None


class GroupPage(Result):
    """Groups that match, a page of them."""

    items: list[GroupItem]
    total: int
    next_cursor: str | None


class Facets(Result):
    """What there is to filter by, with how many groups each."""

    envs: dict[str, int]
    algos: dict[str, int]
    states: dict[str, int]
    tags: dict[str, int]


class IndexStatus(Result):
    """The index, and how far it is behind the folders."""

    path: str
    bytes: int
    runs: int
    groups: int
    answers: int
    behind: int
    """Runs that were not yet in it, or had changed, when this was asked; they are in it now."""
    seconds: float
    """How long that took."""


def search_runs(index: Index, query: Query) -> RunPage:
    """Runs that match, newest first unless another order is asked for."""
    items, total, cursor = _page(index, RUN, query, _conditions(RUN, query))
    return RunPage(items=[_run(row) for row in items], total=total, next_cursor=cursor)


def search_groups(index: Index, query: Query) -> GroupPage:
    """Groups that match, newest first unless another order is asked for."""
    items, total, cursor = _page(index, GROUP, query, _conditions(GROUP, query))
    return GroupPage(items=[_group(row) for row in items], total=total, next_cursor=cursor)


def facets(index: Index) -> Facets:
    """What lists can be narrowed to."""
    with index.connection() as connection:
        counts = {
            name: {
                str(value): int(number) for value, number in connection.execute(select(GROUP.c[name], func.count()).group_by(GROUP.c[name]))
            }
            for name in ("env", "algo", "state")
        }
        tags: dict[str, int] = {}
        for (text,) in connection.execute(select(GROUP.c.tags).where(GROUP.c.tags != "")):
            for tag in text.split():
                tags[tag] = tags.get(tag, 0) + 1
    return Facets(envs=counts["env"], algos=counts["algo"], states=counts["state"], tags=tags)


def outcomes(index: Index, env: str, algo: str) -> list[RankedGroup]:
    """How every group of an environment and algorithm did, without looking at a single folder."""
    columns = (RUN.c.group_id, RUN.c.threshold_reached_at, RUN.c.eval_mean, RUN.c.lost)
    asked = select(*columns).where(RUN.c.env == env, RUN.c.algo == algo)
    by_group: dict[str, list[tuple[float | None, float | None, bool]]] = {}
    with index.connection() as connection:
        for group, reached, final, lost in connection.execute(asked):
            if group is not None:
                by_group.setdefault(group, []).append((reached, final, bool(lost)))
    return [RankedGroup(Group(index.store.root / GROUPS / id), seeds) for id, seeds in by_group.items()]


def reindex(runs_dir: Path = Path("runs"), *, full: bool = True) -> IndexStatus:
    """Read every run folder again (full=False: those that changed) and bring the index up to date."""
    index = Index(Store(runs_dir))
    try:
        return _status(index, index.refresh(full=full))
    finally:
        index.close()


def _status(index: Index, done: Refreshed) -> IndexStatus:
    from rlclinic.runs.database.schema import ANSWER

    with index.connection() as connection:
        counts = [int(connection.execute(select(func.count()).select_from(table)).scalar_one()) for table in (RUN, GROUP, ANSWER)]
    size = index.count_bytes()
    behind = done.runs + done.removed
    return IndexStatus(
        path=index.describe(), bytes=size, runs=counts[0], groups=counts[1], answers=counts[2], behind=behind, seconds=done.seconds
    )


# ── asking ──


def _conditions(table: Table, query: Query) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [table.c.text.contains(word, autoescape=True) for word in (query.q or "").lower().split()]
    if query.env is not None:
        conditions.append(table.c.env == query.env)
    if query.algo is not None:
        conditions.append(table.c.algo == query.algo)
    if query.state is not None:
        conditions.append(table.c.state == query.state)
    if query.tag is not None:
        # Capitals make no difference: LIKE alone means that in SQLite, and not in PostgreSQL.
        conditions.append(table.c.tags.icontains(f" {query.tag} ", autoescape=True))
    if query.trial is not None:
        conditions.append(table.c.trial == query.trial)
    if query.group is not None:
        conditions.append((table.c.group_id if table is RUN else table.c.id) == query.group)
    elif table is GROUP and query.trial is None and not query.trials:
        conditions.append(table.c.trial.is_(None))
    return conditions


def _page(index: Index, table: Table, query: Query, conditions: list[ColumnElement[bool]]) -> tuple[list[Row[Any]], int, str | None]:
    # What has no value comes last in either direction, and SQLite compares rows only without nulls.
    column = func.coalesce(table.c[query.sort], _lowest(query))
    after = [] if query.cursor is None else [_after(table, column, query)]
    key, id = (column.desc(), table.c.id.desc()) if query.descending else (column.asc(), table.c.id.asc())
    asked: Select[Any] = select(table, column.label("sort_key")).where(*conditions, *after).order_by(key, id).limit(query.limit + 1)
    with index.connection() as connection:
        rows = list(connection.execute(asked))
        total = int(connection.execute(select(func.count()).select_from(table).where(*conditions)).scalar_one())
    more = len(rows) > query.limit
    rows = rows[: query.limit]
    return rows, total, _cursor(query, rows[-1]) if more else None


def _lowest(query: Query) -> float | str:
    if query.sort == "name":
        return "" if query.descending else "\uffff"
    return -1e308 if query.descending else 1e308


def _cursor(query: Query, row: Row[Any]) -> str:
    text = json.dumps([query.sort, query.descending, row.sort_key, row.id])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _after(table: Table, column: ColumnElement[Any], query: Query) -> ColumnElement[bool]:
    text = query.cursor or ""
    try:
        sort, descending, value, id = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        known = (sort, descending) == (query.sort, query.descending) and isinstance(id, str)
        fits = isinstance(value, str) if query.sort == "name" else isinstance(value, int | float) and not isinstance(value, bool)
        if not known or not fits:
            raise ValueError("of another list")
        if not isinstance(value, str):
            value = float(value)
    except (ValueError, TypeError, OverflowError, binascii.Error, RecursionError):
        raise UsageError(
            f"cursor {text[:40]!r} does not belong to this list.\n  The page after it cannot be found.\n"
            "  Give next_cursor of the page before with the same sort and order, or no cursor for the first page."
        ) from None
    if query.descending:
        return or_(column < value, and_(column == value, table.c.id < id))
    return or_(column > value, and_(column == value, table.c.id > id))


def _run(row: Row[Any]) -> RunItem:
    values = dict(row._mapping)
    kept = {name: values[name] for name in RunItem.model_fields if name in values and name != "tags"}
    return RunItem.model_construct(group=values["group_id"], tags=values["tags"].split(), **kept)


def _group(row: Row[Any]) -> GroupItem:
    values = dict(row._mapping)
    kept = {name: values[name] for name in GroupItem.model_fields if name in values and name != "tags"}
    return GroupItem.model_construct(tags=values["tags"].split(), **kept)
