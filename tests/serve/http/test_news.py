"""Servers that tell each other what has changed: by PostgreSQL, by Redis, and by looking for themselves while neither answers."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from rlclinic.errors import UsageError
from rlclinic.runs.database import connections
from rlclinic.runs.database import index as indexing
from rlclinic.runs.database.index import Index
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.serve.http.app import create_app, end_tasks
from rlclinic.serve.http.feeds import Feeds
from rlclinic.serve.http.replicas import news as news_module
from rlclinic.serve.http.replicas import redis_link
from rlclinic.serve.http.replicas.news import Message, News
from rlclinic.serve.http.replicas.redis_link import RedisLink
from rlclinic.serve.http.security.access import FREE_FAILURES, STRANGER_RATE
from rlclinic.serve.http.security.tokens import Tokens
from rlclinic.serve.http.settings import Settings
from rlclinic.serve.http.watch_store import StoreWatch
from tests.ops.recorded import record_group
from tests.serve.http.processes import Server, wait_for
from tests.serve.mcp.stores import ran
from tests.servers import pooler, redis_server
from tests.servers import postgres as postgres_server
from tests.servers.redis_server import PASSWORD

Serve = Callable[..., TestClient]


async def hear_once(news: News, act: Callable[[], Any]) -> list[Message]:
    """What is heard after something was done."""
    heard: list[Message] = []
    task = asyncio.create_task(news.run(heard.append))
    deadline = time.monotonic() + 20
    while not news.heard:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    await asyncio.to_thread(act)
    while not heard:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    await end_tasks([task])
    return heard


def test_a_server_ends_also_where_a_listener_was_cancelled_in_the_moment_of_a_message(
    redis: redis_server.Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Python 3.11's `wait_for` gives what has just come instead of ending, and with it the client of Redis, half of the time."""
    store = Store(tmp_path / "runs")
    link, index = link_to(redis, store), Index(store)

    async def cancel_after(turns: int) -> None:
        news = News(index, link)
        task = asyncio.create_task(news.run(lambda message: None))
        while not news.heard:
            link.add(link.key("news"), {"version": "1", "previous": "0", "changes": "null"}, 100)
            await asyncio.sleep(0.001)
        for _ in range(turns):
            await asyncio.sleep(0)
        await asyncio.wait_for(end_tasks([task]), 10)

    for turns in range(12):
        ran(lambda turns=turns: cancel_after(turns))
    index.close()

    async def hear_badly(self: News, hear: Callable[[Message], None]) -> None:
        for _ in range(3):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(30)

    monkeypatch.setattr(News, "run", hear_badly)
    app = create_app(Store(tmp_path / "runs"), Settings(mcp=False, prepare=False, no_token=True))
    with TestClient(app, base_url="http://localhost") as client:
        assert client.get("/api/v1/health").status_code == 200
        started = time.monotonic()
    assert time.monotonic() - started < 10


@pytest.mark.usefixtures("postgres")
def test_an_index_in_postgresql_tells_every_server_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(indexing.VARIABLE, "shared")
    store = Store(tmp_path / "runs")
    one, other = Index(store), Index(store)
    heard = ran(lambda: hear_once(News(other), lambda: (record_group(store.root), one.refresh())))
    with other.connection() as connection:
        assert [(message.version, message.changes) for message in heard] == [(str(other.version(connection)), None)]
    one.close()
    other.close()
    connections.forget()


def test_a_pooler_of_transactions_passes_no_news_on_which_is_said_and_nobody_waits_for_any(
    postgres: postgres_server.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(indexing.VARIABLE, "shared")
    monkeypatch.setattr(news_module, "HEAR_SECONDS", 1.0)
    with pooler.serve(postgres) as pool:
        monkeypatch.setenv(connections.VARIABLE, pool.url)
        index = Index(Store(tmp_path / "runs"))

        async def listen() -> bool:
            news = News(index)
            task = asyncio.create_task(news.run(lambda message: None))
            deadline = time.monotonic() + 20
            while not caplog.records and not news.heard:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
            heard = news.heard
            await end_tasks([task])
            return heard

        assert not ran(listen)
        assert "is a pooler of transactions between?" in caplog.text
        index.close()
        connections.forget()


def link_to(server: redis_server.Server, store: Store) -> RedisLink:
    return RedisLink(server.url, connections.identify(store))


def test_redis_passes_on_what_has_changed_and_another_store_hears_nothing(redis: redis_server.Server, tmp_path: Path) -> None:
    store, strange = Store(tmp_path / "runs"), Store(tmp_path / "strange")
    group = record_group(store.root)
    index = Index(store)
    watch = StoreWatch(index, 0.05, News(index, link_to(redis, store)))
    elsewhere = Index(strange)
    stranger = StoreWatch(elsewhere, 0.05, News(elsewhere, link_to(redis, strange)))

    def act() -> None:
        record_group(strange.root)
        stranger.look(now=True)
        watch.look(now=True)

    (message,) = ran(lambda: hear_once(News(index, link_to(redis, store)), act))
    assert message.changes == {"runs": {run.id: "finished" for run in group.runs}, "groups": {group.id: "finished"}}
    assert message.id is not None
    watch.close()
    stranger.close()


def test_a_browser_that_comes_back_to_another_server_misses_nothing(redis: redis_server.Server, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    first = record_group(root)
    with Server(root) as one, Server(root, said=tmp_path / "said") as other:
        assert wait_for(lambda: other.ask("GET", "/api/v1/ready")[1]["redis"])
        events = one.events("/api/v1/events")
        known, last = wait_for_group(events, lambda: record_group(root).id)
        while not last[0].isdigit():  # Redis did not answer in time: it is told all the same, and kept by nobody
            known, last = wait_for_group(events, lambda: record_group(root).id)
        # The connection is cut, and two more things happen meanwhile.
        events.close()
        second = record_group(root)
        assert wait_for(lambda: second.id in {item["id"] for item in one.ask("GET", "/api/v1/groups")[1]["items"]})
        Store(root).remove(first)
        assert wait_for(lambda: first.id not in {item["id"] for item in one.ask("GET", "/api/v1/groups")[1]["items"]})
        seen: dict[str, str] = {}
        again = other.events("/api/v1/events", **{"last-event-id": last})
        kind, data, _ = next(again)
        if kind == "changed":  # `reload` where a message was lost on the way to Redis: nobody believes to know all of it
            seen |= data["groups"]
            while not {second.id, first.id} <= seen.keys():
                seen |= next(again)[1]["groups"]
            assert known not in seen
            assert (seen[second.id], seen[first.id]) == ("finished", "gone")
        again.close()
        # What nobody knows any more is said.
        assert next(other.events("/api/v1/events", **{"last-event-id": "5-0"}))[0] == "reload"
        # Redis is killed: servers go on without it, and say so.
        redis.kill()
        assert wait_for(lambda: other.ask("GET", "/api/v1/ready")[1]["redis"] is False)
        alone = other.events("/api/v1/events")
        third, mark = wait_for_group(alone, lambda: record_group(root).id)
        assert mark.startswith("v")
        assert {third, second.id} <= {item["id"] for item in other.ask("GET", "/api/v1/groups")[1]["items"]}
        # It comes back, empty.
        redis.start()
        assert wait_for(lambda: other.ask("GET", "/api/v1/ready")[1]["redis"] is True)
        wait_for_group(alone, lambda: record_group(root).id)
        alone.close()
    said = (tmp_path / "said").read_text()
    assert "does not answer" in said
    assert "answers again" in said
    assert PASSWORD not in said


def test_what_was_told_is_told_again_only_if_nothing_of_it_is_missing(redis: redis_server.Server, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    index = Index(store)
    link = link_to(redis, store)
    news = News(index, link)
    for before, after in ((1, 2), (2, 3), (3, 4), (5, 6)):  # from 4 to 5 something was not told
        news.tell(Message(str(after), {"runs": {f"r{after}": "finished"}, "groups": {}}, previous=str(before)))

    async def look() -> list[list[str] | None]:
        entries = await link.ask(lambda client: client.xrange(link.key("news"))) or []
        ids = [id for id, _ in entries]
        asked = [(ids[0], "4"), (ids[1], "6"), (ids[3], "6"), (ids[3], "7"), ("5-0", "6"), (ids[2], "6")]
        found = [await news.replay(since, version) for since, version in asked]
        await link.close()
        return [None if messages is None else [message.version for message in messages] for messages in found]

    assert ran(look) == [None, None, [], None, None, None]
    whole = News(index, RedisLink(redis.url, "another"))
    for before, after in ((1, 2), (2, 3), (3, 4)):
        whole.tell(Message(str(after), {"runs": {f"r{after}": "finished"}, "groups": {}}, previous=str(before)))

    async def again() -> list[str]:
        assert whole._link is not None
        key = whole._link.key("news")
        entries = await whole._link.ask(lambda client: client.xrange(key, count=1)) or []
        first = entries[0][0]
        messages = await whole.replay(first, "4") or []
        await whole._link.close()
        return [message.version for message in messages]

    assert ran(again) == ["3", "4"]
    index.close()


def wait_for_group(events: Any, make: Callable[[], str]) -> tuple[str, str]:
    """Make a group; its id, and that of the event which told of it."""
    import threading

    made: list[str] = []
    # The stream begins with its first line: only then is it known that what comes is told.
    threading.Timer(1.0, lambda: made.append(make())).start()
    for kind, data, id in events:
        if kind == "changed" and made and made[0] in data["groups"]:
            return made[0], str(id)
    raise AssertionError("the stream ended")


def test_wrong_tokens_and_floods_are_counted_by_all_servers_together(
    redis: redis_server.Server, serve: Serve, root: Path, sick: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine that is busy answers late: then each would count for itself, as it should.
    monkeypatch.setattr(redis_link, "ANSWER_SECONDS", 10.0)
    Tokens(root / "@server" / "tokens.json").add("alice", "read", {})
    one, other = (serve(require_token=True) for _ in range(2))
    for number in range(FREE_FAILURES):
        answered = (one, other)[number % 2].post("/api/v1/session", json={"token": f"rlc_{number}"})
        assert answered.status_code == 401
    assert {client.post("/api/v1/session", json={"token": "rlc_x"}).status_code for client in (one, other)} == {429}
    rate, burst = STRANGER_RATE
    began = time.monotonic()
    codes = [client.get("/api/v1/health").status_code for _ in range(110) for client in (one, other)]
    # Each alone would let all 110 pass.
    assert 0.8 * burst <= codes.count(200) <= burst + rate * (time.monotonic() - began) + 1
    # Without Redis each counts for itself.
    redis.kill()
    alone = [client.get("/api/v1/health").status_code for _ in range(60) for client in (one, other)]
    assert alone.count(200) == 120
    redis.start()


def test_what_is_in_redis_names_nobody_and_nothing_asked_for_becomes_a_command(redis: redis_server.Server, tmp_path: Path) -> None:
    from redis import Redis

    from rlclinic.serve.http.security.access import SharedPatience

    odd = "203.0.113.7\r\nFLUSHALL\r\n'; redis.call('FLUSHALL') --\udcff"
    link = link_to(redis, Store(tmp_path / "runs"))

    async def ask() -> float:
        patience = SharedPatience(link)
        await patience.fail(odd)
        waits = [await patience.wait_seconds(odd, (1.0, 2.0)) for _ in range(3)]
        await link.close()
        return waits[-1]

    with Redis.from_url(redis.url) as client:
        client.set("kept", "1")
        assert 0.5 < ran(ask) <= 1.0
        assert client.get("kept") == b"1"
        keys = [key.decode() for key in client.keys(f"{link.prefix}*")]
        assert keys
        assert not any("203" in key for key in keys)


@pytest.mark.parametrize("url", ["http://x", "localhost:6379", f"postgresql://u:{PASSWORD}@h/d"])
def test_what_is_no_redis_is_said_without_its_password(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(redis_link.VARIABLE, url)
    with pytest.raises(UsageError, match="no URL of a Redis server") as caught:
        redis_link.read_url()
    assert PASSWORD not in str(caught.value)


def test_an_option_takes_no_password() -> None:
    with pytest.raises(UsageError, match="command lines") as caught:
        redis_link.choose(f"redis://:{PASSWORD}@localhost/0")
    assert PASSWORD not in str(caught.value)
    assert redis_link.VARIABLE not in os.environ


def test_a_client_of_one_server_is_told_to_ask_again_where_nobody_kept_what_it_missed(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    record_group(store.root)
    index = Index(store)
    watch = StoreWatch(index, 0.05)
    watch.look(now=True)
    feeds = Feeds(index, watch, 0.05)
    mark = f"v{watch.version}"
    assert ran(lambda: feeds.catch_up(mark)) == []
    record_group(store.root)
    watch.look(now=True)
    assert ran(lambda: feeds.catch_up(mark)) is None
    assert ran(lambda: feeds.catch_up("17-0")) is None
    watch.close()
