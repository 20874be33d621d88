"""Many pages that are open at once: who waits costs nothing, and hears of everything."""

import asyncio
from pathlib import Path

import pytest

from rlclinic.runs.database.index import Index
from rlclinic.runs.store import Store
from rlclinic.serve.http import feeds
from rlclinic.serve.http.feeds import Feeds
from rlclinic.serve.http.replicas.news import Message
from rlclinic.serve.http.watch_store import StoreWatch
from tests.ops.recorded import record_group
from tests.serve.mcp.stores import ran


def test_two_hundred_followers_of_a_run_share_one_look_and_all_hear_of_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = record_group(tmp_path / "runs")
    index = Index(Store(tmp_path / "runs"))
    index.refresh()
    looks: list[set[str]] = []
    plain = Feeds._look

    def look(self: Feeds, paths: set[str], due: bool) -> set[str]:
        looks.append(paths)
        return plain(self, paths, due)

    monkeypatch.setattr(Feeds, "_look", look)

    async def follow() -> None:
        news = Feeds(index, StoreWatch(index, 0.05), 0.05)
        followers = [news.follow(group.runs) for _ in range(200)]
        task = asyncio.create_task(news.run())
        await asyncio.sleep(0.3)
        for follower in followers:
            follower.news.clear()
        looks.clear()
        await asyncio.sleep(0.5)
        assert 1 <= len(looks) <= 10
        assert {len(paths) for paths in looks} == {3}
        assert not any(follower.news.is_set() for follower in followers)
        with (group.runs[1].path / "metrics.csv").open("a") as file:
            file.write("\n")
        await asyncio.sleep(0.5)
        assert all(follower.news.is_set() for follower in followers)
        del followers, follower
        await asyncio.sleep(0.2)
        looks.clear()
        await asyncio.sleep(0.2)
        assert looks == []
        task.cancel()

    ran(follow)
    index.close()


def test_a_listener_that_does_not_read_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "MOST_UNREAD", 2)
    index = Index(Store(tmp_path / "runs"))
    index.refresh()

    async def listen() -> None:
        news = Feeds(index, StoreWatch(index, 0.05), 0.05)
        slow = await news.listen()
        change = Message("1", {"runs": {"a": "running"}, "groups": {}})
        for _ in range(5):
            news._tell(change)
        assert slow.changes.full()
        assert len(news._listeners) == 0

    ran(listen)
    index.close()
