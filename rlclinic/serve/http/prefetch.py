"""Work that nobody has asked this worker for: diagnoses that people wait for at another worker, and those of groups that have ended.

What is waited for comes first, and is made as soon as this worker is idle. Groups that have ended are diagnosed before anybody asks,
newest first, one at a time, while nobody else waits.
"""

import asyncio
import logging
import time
from typing import Final

from sqlalchemy import select
from starlette.concurrency import run_in_threadpool

from rlclinic.runs.database.index_rows import LIVE
from rlclinic.runs.database.schema import GROUP
from rlclinic.serve.http.context import Context, find_group
from rlclinic.serve.http.routes.diagnose import diagnosis_key, diagnosis_of

HELP_SECONDS: Final = 0.05
"""Between two looks at what others wait for: a look lists an empty folder."""
LOOK_SECONDS: Final = 2.0
REST: Final = 9.0
"""Rests so many times as long as it worked: a tenth of a core at most."""
_log = logging.getLogger("rlclinic.http")


async def help_others(here: Context) -> None:
    """Make what people wait for at other workers, until it is cancelled: connections are seldom spread evenly, and cores should be used."""
    while True:
        wanted = [] if here.answers.busy else here.answers.list_wanted()
        group = next((id for id in wanted if not here.answers.is_made_elsewhere(diagnosis_key(id))), None)
        if group is None:
            await asyncio.sleep(HELP_SECONDS)
        else:
            await _diagnose(here, group)
            here.answers.forget_wanted(group)


async def run(here: Context) -> None:
    """Until it is cancelled."""
    done: dict[str, int] = {}
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if here.watch.leads():
            for id, stamp in await run_in_threadpool(_ended, here, done):
                while here.answers.busy:
                    await asyncio.sleep(LOOK_SECONDS)
                done[id] = stamp
                await _prepare(here, id)


async def _prepare(here: Context, id: str) -> None:
    start = time.monotonic()
    await _diagnose(here, id)
    await asyncio.sleep(REST * (time.monotonic() - start))


async def _diagnose(here: Context, id: str) -> None:
    async def diagnosed() -> None:
        await diagnosis_of(here, find_group(here, id))

    # Removed meanwhile, damaged, or a rule with a bug: whoever asks for it will be told, and the others are made all the same.
    (outcome,) = await asyncio.gather(diagnosed(), return_exceptions=True)
    if isinstance(outcome, Exception):
        _log.debug("%s was not diagnosed: %s", id, outcome)


def _ended(here: Context, done: dict[str, int]) -> list[tuple[str, int]]:
    """Groups that may not change any more and have changed since they were prepared, newest first."""
    asked = select(GROUP.c.id, GROUP.c.stamp).where(GROUP.c.state.notin_(LIVE), GROUP.c.runs > 0).order_by(GROUP.c.created.desc())
    with here.index.connection() as connection:
        return [(id, stamp) for id, stamp in connection.execute(asked) if done.get(id) != stamp]
