"""Runs in an object store: what is written once goes there, and other machines read it from there.

RLCLINIC_ARTIFACTS=s3://bucket/prefix (gs://, az://, file:///path; the extra s3). Training stays on a local disk: a run folder needs
appends, renames and locks, which object stores do not have. What is put there is never changed:

    parts/<id>/<sha256>                 a file of a run or group, by its content
    manifests/<kind>/<id>/<number>.json which files a run or group has; small ones are in it. The one with the highest number holds
    store.json                          the name of the store whose jobs workers on other machines do (`ops.jobs.remote`)

A number is taken with a conditional put, which only one of two succeeds with: whoever goes on with a run somewhere else takes the next
one, and a machine that was cut off meanwhile is told so, and replaces nothing. What a reader gets has the sum that the manifest
says, or it is refused.

Credentials are taken from where the provider's own tools take them (AWS_ACCESS_KEY_ID, …, a role, a file), and never from the URL.
"""

import base64
import hashlib
import json
import os
import re
import secrets
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from rlclinic.actions import Action
from rlclinic.errors import NotFound, RunError, UsageError
from rlclinic.runs import disk, jobs, lease, selector, status_file
from rlclinic.runs.lock import HOST
from rlclinic.runs.record import CHECKPOINTS, CONFIG, GROUP, GROUPS, METRICS, Checkpoint, Group, Run
from rlclinic.runs.store import Store

VARIABLE: Final = "RLCLINIC_ARTIFACTS"
MARK: Final = ".artifacts.json"
"""In the folder of a run or group: which manifest it stands for."""
SCHEMES: Final = ("s3", "gs", "az", "abfs", "file")
SMALL_BYTES: Final = 32 << 10
MOST_BYTES: Final = 4 << 30
"""Of one file."""
MOST_MANIFEST_BYTES: Final = 16 << 20
AT_ONCE: Final = 8
UPLOAD_SECONDS: Final = float(os.environ.get("RLCLINIC_UPLOAD_SECONDS") or 30.0)
"""How often runs that train are put into the object store, as far as they have something new."""
TRIES: Final = 3
_PATH: Final = re.compile(r"(checkpoints/\d{1,18}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""A file of a run or group: nothing that leads out of its folder."""
_LINK: Final = re.compile(r"@(best|last)")
_LEFT_OUT: Final = frozenset({"control.json", "control.lock", "launch.log", "lock"})
_STORE: Final = "store.json"
Kind = Literal["runs", "groups", "jobs"]
_NEEDED: Final[dict[Kind, str]] = {"runs": CONFIG, "groups": GROUP, "jobs": jobs.JOB}
"""Without which nobody can tell what it is."""


class JobFolder(NamedTuple):
    """A job: its record and its log."""

    path: Path

    @property
    def id(self) -> str:
        return self.path.name


Item = Run | Group | JobFolder


class Taken(RunError):
    """Another machine has gone on with a run."""


class Away(RunError):
    """The object store does not answer, or not as it should."""


class Manifest(NamedTuple):
    """Which files a run or group has in the object store."""

    kind: Kind
    id: str
    number: int
    owner: str
    """Of the copy that wrote it: after it was taken to another machine, that one has a name of its own."""
    host: str
    files: dict[str, dict[str, Any]]
    """By path: sha256 and size; of small ones the content."""
    links: dict[str, str]
    """checkpoints/@best and @last."""


# ── the object store ──


def url() -> str | None:
    """The object store that is named; None if there is none."""
    given = os.environ.get(VARIABLE, "").strip()
    return check(given) if given else None


def choose(given: str | None) -> None:
    """Take the object store that an option names, for this process and its children."""
    if given is not None:
        os.environ[VARIABLE] = check(given)


def check(given: str) -> str:
    """A URL without secrets that names an object store; UsageError for any other."""
    try:
        parts = urlsplit(given)
        odd = parts.scheme not in SCHEMES or not (parts.netloc or parts.scheme == "file")
        secret = bool(parts.username or parts.password or parts.query)
    except ValueError:
        odd, secret = True, False
    if odd:
        raise UsageError(
            f"{VARIABLE} or --artifacts names no object store.\n  Nothing can be put there.\n"
            f"  Type: s3://BUCKET/PREFIX (or one of {', '.join(SCHEMES[1:])})"
        )
    if secret:
        raise UsageError(
            "the URL of the object store has credentials in it.\n  It is shown in messages and in lists of processes.\n"
            "  Leave them out: they are taken from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the like, or from a role"
        )
    return given.rstrip("/")


@contextmanager
def _opened(given: str, patience_seconds: float = 60.0) -> Iterator[Any]:
    """The object store; what goes wrong with it is said in our words, which hold no secret."""
    try:
        from obstore import exceptions
        from obstore.store import from_url
    except ImportError:
        raise UsageError(
            "object stores need obstore, which is not installed.\n  Nothing was put or read.\n  Type: pip install 'rlclinic[s3]'"
        ) from None
    patience: dict[str, Any] = {}
    if urlsplit(given).scheme == "file":
        patience["mkdir"] = True
    else:
        # Options that are given replace those of the environment, of which this is one.
        plain = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true")
        patience["client_options"] = {"timeout": "120s", "connect_timeout": "5s", "allow_http": plain}
        patience["retry_config"] = {"max_retries": 4, "retry_timeout": timedelta(seconds=patience_seconds)}
    try:
        yield from_url(given, **patience)
    except (exceptions.BaseError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of this machine's own disk
        raise Away(
            f"the object store {given} cannot be used: {type(error).__name__}.\n  What is here stays as it is.\n"
            "  See that it can be reached and that the credentials hold, then: ",
            Action("artifacts push"),
        ) from None


# ── putting ──


def push(items: Sequence[Item], given: str | None = None) -> list[str]:
    """Put what is new of runs, groups and jobs into the object store; the ids of those that had something new.

    Taken where another machine has gone on with one of them: it keeps what it has, and so does this one.
    """
    named = check(given) if given is not None else url()
    if named is None:
        return []
    with _opened(named) as remote:
        return [item.id for item in items if _push_whole(remote, item)]


def _push_whole(remote: Any, item: Item) -> bool:
    for _ in range(TRIES):
        try:
            return _push_one(remote, item)
        except FileNotFoundError:
            continue  # an old checkpoint made room for a new one
    raise RunError(f"{item.path} changes faster than it can be read.\n  Nothing of it was put into the object store.\n  Try again later")


def _push_one(remote: Any, item: Item) -> bool:
    import obstore
    from obstore.exceptions import AlreadyExistsError

    kind = _kind(item)
    mark = _make_mark(item.path)
    if mark.get("partial"):
        return False  # it only shows what another machine does
    contents, links = _read_folder(item)
    files = {name: _describe(content) for name, content in contents.items()}
    digest = hashlib.sha256(json.dumps([files, links], sort_keys=True).encode()).hexdigest()
    if mark.get("digest") == digest:
        return False
    newest = _find_newest(remote, kind, item.id)
    if newest is not None and newest.number > mark["number"]:
        # This copy's own, written before a kill could be noted, or somebody else's.
        _check_owner(newest, mark)
    known = set() if newest is None else _sums(newest)
    for name, content in contents.items():
        if "content" not in files[name] and files[name]["sha256"] not in known:
            with suppress(AlreadyExistsError):  # by its content: it is the same
                obstore.put(remote, f"parts/{item.id}/{files[name]['sha256']}", content, mode="create", use_multipart=False)
    number = (0 if newest is None else newest.number) + 1
    if not _put_manifest(remote, Manifest(kind, item.id, number, mark["owner"], HOST, files, links)):
        # Two processes of this machine, of which one suffices; or somebody else.
        newest = _find_newest(remote, kind, item.id)
        if newest is None or newest.owner != mark["owner"]:
            raise _taken(item.id, "at this moment") from None
        return False
    disk.write_json(item.path / MARK, {"owner": mark["owner"], "number": number, "digest": digest})
    _forget_old(remote, kind, item.id, number, _sums(Manifest(kind, item.id, number, "", "", files, links)))
    return True


def _put_manifest(remote: Any, manifest: Manifest) -> bool:
    """Take the next number; False if somebody else has it by now."""
    import obstore
    from obstore.exceptions import AlreadyExistsError

    # Not this process's any more: another worker may have gone on from the last checkpoint. One that goes on takes a number before it
    # does anything, so that whoever is paused between this look and the put finds that number gone.
    lease.check()
    try:
        content = json.dumps({"schema_version": 1, **manifest._asdict()}).encode()
        obstore.put(remote, _place(manifest.kind, manifest.id, manifest.number), content, mode="create")
    except AlreadyExistsError:
        return False
    return True


def _read_folder(item: Item) -> tuple[dict[str, bytes | Path], dict[str, str]]:
    """The files as they stand, those that belong together together: checkpoints first, the rows and the state after them.

    Large ones that do not change any more stay where they are until they are sent. FileNotFoundError if one is removed meanwhile.
    """
    contents: dict[str, bytes | Path] = {}
    links: dict[str, str] = {}
    if isinstance(item, Run):
        for checkpoint in item.checkpoints:
            if checkpoint.valid:
                names = sorted(entry.name for entry in checkpoint.path.iterdir() if not entry.name.startswith("."))
                contents |= {f"{CHECKPOINTS}/{checkpoint.step}/{name}": checkpoint.path / name for name in names}
                marks = (("@best", checkpoint.best), ("@last", checkpoint.last))
                links |= {mark: str(checkpoint.step) for mark, marked in marks if marked}
    for entry in sorted(item.path.iterdir()):
        if _PATH.fullmatch(entry.name) and entry.is_file() and not entry.is_symlink() and entry.name not in _LEFT_OUT:
            content = entry.read_bytes()
            # Half a row is still being written.
            contents[entry.name] = content[: content.rfind(b"\n") + 1] if entry.name == METRICS else content
    return contents, links


def _describe(content: bytes | Path) -> dict[str, Any]:
    if isinstance(content, Path) and content.stat().st_size <= SMALL_BYTES:
        content = content.read_bytes()
    if isinstance(content, Path):
        with content.open("rb") as file:
            return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "size": content.stat().st_size}
    about: dict[str, Any] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    return about | ({"content": base64.b64encode(content).decode()} if len(content) <= SMALL_BYTES else {})


def _check_owner(newest: Manifest, mark: dict[str, Any]) -> None:
    if newest.owner != mark["owner"]:
        raise _taken(newest.id, f"on {newest.host}")


def _taken(id: str, where: str) -> Taken:
    return Taken(
        f"another machine has gone on with {id} ({where}).\n  What it has put into the object store is not replaced.\n"
        "  Keep this copy elsewhere, and take the newer one: ",
        Action("artifacts pull", id),
    )


def _forget_old(remote: Any, kind: Kind, id: str, number: int, used: set[str]) -> None:
    """Remove manifests that no longer hold, and parts that the last two do not name: who reads at this moment may need the last one's."""
    import obstore

    numbers = [each for each in _numbers(remote, kind, id) if each < number]
    if len(numbers) > 1:
        before = _read_manifest(remote, kind, id, numbers[-1])
        used = used | (set() if before is None else _sums(before))
        there = {str(entry["path"]) for chunk in obstore.list(remote, f"parts/{id}/") for entry in chunk}
        gone = [path for path in there if path.rpartition("/")[2] not in used]
        obstore.delete(remote, [*(_place(kind, id, each) for each in numbers[:-1]), *gone])


@contextmanager
def uploading(runs: Sequence[Run]) -> Iterator[None]:
    """Put runs and their groups into the object store while they train, and when they have ended. Nothing where none is named.

    Training goes on whatever happens to the object store: it is said once, and tried again.
    """
    if url() is None:
        yield
        return
    groups = list({group.id: group for run in runs if (group := run.group) is not None}.values())
    over, said = threading.Event(), set[str]()

    def upload() -> None:
        while not over.wait(UPLOAD_SECONDS):
            push_or_say([*runs, *groups], said)

    thread = threading.Thread(target=upload, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        push_or_say([*runs, *groups], said)


def push_or_say(items: Sequence[Item], said: set[str] | None = None) -> None:
    """Put runs and groups into the object store, if one is named; say on stderr what went wrong, each thing once."""
    for item in items:
        try:
            push([item])
        except lease.LeaseLost:
            return
        except (RunError, OSError) as error:
            # Of many runs that fail alike, one says it.
            first = str(error).splitlines()[0].replace(item.id, "…")
            if said is None or first not in said:
                sys.stderr.write(f"{error}\n")
            if said is not None:
                said.add(first)


# ── reading ──


def pull(store: Store, ids: Sequence[str], given: str | None = None) -> list[str]:
    """Bring runs and groups whole into a store, to look at or to go on with; the ids of what was brought, members of groups too."""
    named = check(given) if given is not None else _require_url()
    brought: list[str] = []
    with _opened(named) as remote:
        waiting = list(ids)
        while waiting:
            id = waiting.pop(0)
            manifest = _find_newest(remote, "groups", id) or _find_newest(remote, "runs", id)
            if manifest is None:
                raise NotFound(
                    f"there is no run or group {id!r} in {named}.\n  Nothing was brought.\n  See what there is: ",
                    Action("runs list", artifacts=named),
                )
            _bring_whole(remote, store, manifest)
            brought.append(id)
            if manifest.kind == "groups":
                record = disk.read_json(store.root / GROUPS / id / GROUP) or {}
                waiting += [member for member in record.get("members", []) if isinstance(member, str) and selector.ID.fullmatch(member)]
    return brought


def _bring_whole(remote: Any, store: Store, manifest: Manifest) -> None:
    folder = find_folder(store, manifest.kind, manifest.id)
    mark = disk.read_json(folder / MARK)
    if folder.exists():
        if mark is None or mark.get("digest") is None:
            raise Taken(
                f"{folder} was never put into the object store, and is another one of that name.\n  It is not replaced.\n"
                "  Bring it into another folder: --runs-dir DIR"
            )
        if status_file.read(folder).state == "running":
            raise Taken(f"{manifest.id} is being trained here.\n  It is not replaced.\n  Stop it first: ", Action("stop", manifest.id))
        if mark.get("number") == manifest.number:
            return
    with disk.guarded(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store.root, prefix=".pull-") as made:
        whole = Path(made) / manifest.id
        whole.mkdir()
        _write_files(remote, whole, manifest, list(manifest.files))
        # A copy of its own from here on: the first of the two that goes on with it keeps the name.
        disk.write_json(whole / MARK, {"owner": secrets.token_hex(8), "number": manifest.number, "digest": _digest(manifest)})
        old = Path(made) / "old"
        if folder.exists():
            folder.rename(old)
        whole.rename(folder)


# ── copies on several machines ──
#
# One machine at a time goes on with a run; the others follow. Which one is not decided here but by the queue and its leases
# (`ops.jobs.remote`): here it is only made sure that of a machine that does not know yet nothing is taken any more.


def take(store: Store, kind: Kind, id: str) -> None:
    """Go on here with what another machine had: bring it as it stands there, and take the next number. Nothing if none had it.

    What the other machine puts from then on is refused. What it had put until then is what goes on here: between bringing and
    taking nothing can come, or the number is gone, and this is done again.
    """
    with _opened(_require_url()) as remote:
        while True:
            newest = _find_newest(remote, kind, id)
            if newest is None or newest.owner == (mark := _read_mark(store, kind, id))["owner"]:
                return
            # What a job's process has begun to print stays: it goes on printing there.
            _copy(remote, store, newest, mark, whole=True, keep={jobs.LOG})
            if _put_manifest(remote, newest._replace(number=newest.number + 1, owner=mark["owner"], host=HOST)):
                about = {"owner": mark["owner"], "number": newest.number + 1, "digest": _digest(newest)}
                disk.write_json(find_folder(store, kind, id) / MARK, about)
                return


def follow(
    store: Store,
    kind: Kind,
    id: str,
    *,
    whole: bool,
    patience_seconds: float = 60.0,
    wanted: Callable[[dict[str, Any]], bool] = lambda record: True,
) -> bool:
    """Show here what another machine does; False if this one was the last that put something there, or nobody was.

    `whole`: with checkpoints, so that this machine may go on with it once the other one has ended. `wanted` looks at its record first.
    """
    with _opened(_require_url(), patience_seconds) as remote:
        newest = _find_newest(remote, kind, id)
        if newest is None or newest.owner == (mark := _read_mark(store, kind, id))["owner"]:
            return False
        if (mark["number"] != newest.number or (whole and mark.get("partial"))) and wanted(_read_record(newest)):
            _copy(remote, store, newest, mark, whole=whole)
    return True


def is_followed(store: Store, kind: Kind, id: str) -> bool:
    """Whether the copy here only shows what another machine does."""
    return bool((disk.read_json(find_folder(store, kind, id) / MARK) or {}).get("partial"))


def _read_mark(store: Store, kind: Kind, id: str) -> dict[str, Any]:
    folder = find_folder(store, kind, id)
    with disk.guarded(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return _make_mark(folder)


def _make_mark(folder: Path) -> dict[str, Any]:
    """Which manifest the copy in a folder stands for; of two that put it there for the first time at the same moment, both get the same."""
    if (mark := disk.read_json(folder / MARK)) is None:
        with disk.guarded(folder), tempfile.TemporaryDirectory(dir=folder, prefix=".mark-") as made:
            disk.write_json(Path(made) / MARK, {"owner": secrets.token_hex(8), "number": 0})
            with suppress(FileExistsError):
                (folder / MARK).hardlink_to(Path(made) / MARK)
        mark = disk.read_json(folder / MARK) or {}
    return {"owner": secrets.token_hex(8), "number": 0, **mark}


def _copy(remote: Any, store: Store, manifest: Manifest, mark: dict[str, Any], *, whole: bool, keep: Collection[str] = ()) -> None:
    """Make the folder what a manifest says, as far as it is not, but for files that are there and are to be kept."""
    folder = find_folder(store, manifest.kind, manifest.id)
    with disk.guarded(folder):
        folder.mkdir(parents=True, exist_ok=True)
    # A kill in the middle leaves a copy that is put nowhere, and brought again.
    disk.write_json(folder / MARK, {"owner": mark["owner"], "number": 0, "partial": True})
    named = {step for name in manifest.files if (step := _step(name)) is not None}
    for old in [*folder.glob(f"{CHECKPOINTS}/[0-9]*")] if whole else []:
        if old.name not in named:
            shutil.rmtree(old)
    kept = {name for name in keep if (folder / name).exists()}
    for old in folder.iterdir():
        if old.is_file() and not old.is_symlink() and _PATH.fullmatch(old.name) and old.name not in {*manifest.files, *_LEFT_OUT, *kept}:
            old.unlink()
    wanted = [name for name in manifest.files if (whole or "/" not in name) and name not in kept]
    _write_files(remote, folder, manifest, [name for name in wanted if not _is_there(folder / name, manifest.files[name])])
    known: dict[str, Any] = {"owner": mark["owner"], "number": manifest.number}
    disk.write_json(folder / MARK, {**known, "digest": _digest(manifest)} if whole else {**known, "partial": True})


def _read_record(manifest: Manifest) -> dict[str, Any]:
    try:
        record = json.loads(base64.b64decode(manifest.files[_NEEDED[manifest.kind]].get("content", "")))
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _step(name: str) -> str | None:
    parts = name.split("/")
    return parts[1] if len(parts) == 3 else None


def _is_there(path: Path, about: dict[str, Any]) -> bool:
    try:
        return path.stat().st_size == about["size"] and _describe(path)["sha256"] == about["sha256"]
    except FileNotFoundError:
        return False


def name_store(name: str) -> str:
    """Give the object store the name of the store whose jobs are in it, unless it has one; the one that it has then."""
    import obstore
    from obstore.exceptions import AlreadyExistsError

    with _opened(_require_url()) as remote, suppress(AlreadyExistsError):
        obstore.put(remote, _STORE, json.dumps({"id": name}).encode(), mode="create")
        return name
    return find_store_name() or name


def find_store_name() -> str | None:
    """The name of the store whose jobs are in the object store."""
    import obstore
    from obstore.exceptions import NotFoundError

    with _opened(_require_url()) as remote:
        try:
            record = json.loads(bytes(obstore.get(remote, _STORE).bytes()))
        except (FileNotFoundError, NotFoundError):
            return None
        except ValueError:
            record = None
    if not isinstance(record, dict) or not isinstance(record.get("id"), str):
        raise RunError(f"{_STORE} in the object store is none of ours.\n  Nobody knows whose jobs are there.\n  Take another prefix")
    return str(record["id"])


def _require_url() -> str:
    if (named := url()) is None:
        raise UsageError(f"no object store is named.\n  There is nowhere to read from.\n  Type: export {VARIABLE}=s3://BUCKET/PREFIX")
    return named


# ── mirrors ──


def open_mirror(given: str, target: str | None = None, *, checkpoints: bool = False) -> Path:
    """A folder of this machine that shows what is in an object store: lists of all, and all that was logged of what a selector names.

    Nothing in it is written to by anything else, and it can be deleted at any time.
    """
    named = check(given)
    name = hashlib.blake2b(named.encode(), digest_size=8).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlclinic" / "artifacts" / name
    with disk.guarded(cache):
        cache.mkdir(parents=True, exist_ok=True)
    store = Store(cache)
    with _opened(named) as remote:
        _mirror_manifests(remote, store)
        if target is not None:
            selected = store.resolve(target)
            owner = selected.run if isinstance(selected, Checkpoint) else selected
            runs = owner.runs if isinstance(owner, Group) else [owner]
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(
                    pool.map(lambda item: _mirror_files(remote, store, item, checkpoints), [*runs, *([owner] if owner not in runs else [])])
                )
    return cache


def _mirror_manifests(remote: Any, store: Store) -> None:
    """Bring what lists need of everything that is new; forget what is gone."""
    kinds: tuple[Kind, ...] = ("runs", "groups")
    newest = {(kind, id): numbers[-1] for kind in kinds for id, numbers in _all_numbers(remote, kind).items()}

    def refresh(key: tuple[Kind, str]) -> None:
        kind, id = key
        folder = store.root / (GROUPS if kind == "groups" else "") / id
        if (disk.read_json(folder / MARK) or {}).get("number") == newest[key]:
            return
        manifest = _read_manifest(remote, kind, id, newest[key])
        if manifest is None:
            return  # replaced since; the next look finds the one after it
        with disk.guarded(folder):
            folder.mkdir(parents=True, exist_ok=True)
        small = [name for name, about in manifest.files.items() if "content" in about and "/" not in name]
        for old in folder.iterdir():
            if old.is_file() and old.name not in small:
                old.unlink()
        _write_files(remote, folder, manifest, small)
        disk.write_json(folder / MARK, {"number": manifest.number})

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(refresh, newest))
    for kind, known in (("runs", [run.id for run in store.runs()]), ("groups", [group.id for group in store.groups()])):
        for id in known:
            if (kind, id) not in newest:
                shutil.rmtree(store.root / (GROUPS if kind == "groups" else "") / id, ignore_errors=True)


def _mirror_files(remote: Any, store: Store, item: Run | Group, checkpoints: bool) -> None:
    kind = _kind(item)
    manifest = _read_manifest(remote, kind, item.id, (disk.read_json(item.path / MARK) or {}).get("number", 0))
    manifest = manifest or _find_newest(remote, kind, item.id)
    if manifest is None:
        raise NotFound(f"{item.id} is gone from the object store.\n  There is nothing to show")
    wanted = [name for name in manifest.files if checkpoints or "/" not in name]
    _write_files(remote, item.path, manifest, [name for name in wanted if not (item.path / name).exists()])


def _write_files(remote: Any, folder: Path, manifest: Manifest, names: Sequence[str]) -> None:
    import obstore

    for name in names:
        about = manifest.files[name]
        if "content" in about:
            content = base64.b64decode(about["content"])
        else:
            content = bytes(obstore.get(remote, f"parts/{manifest.id}/{about['sha256']}").bytes())
        if hashlib.sha256(content).hexdigest() != about["sha256"]:
            raise RunError(
                f"{manifest.id}: {name} in the object store is not what was put there.\n  It is not used.\n  Put it there again: ",
                Action("artifacts push"),
            )
        with disk.guarded(folder / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        disk.write(folder / name, content)
    for link, step in manifest.links.items():
        if (folder / CHECKPOINTS / step).is_dir():
            disk.point(folder / CHECKPOINTS / link, step)


def find_folder(store: Store, kind: Kind, id: str) -> Path:
    """Where a run, group or job lies in a store."""
    return jobs.folder(store, id) if kind == "jobs" else store.root / (GROUPS if kind == "groups" else "") / id


def _kind(item: Item) -> Kind:
    return "jobs" if isinstance(item, JobFolder) else "runs" if isinstance(item, Run) else "groups"


def _digest(manifest: Manifest) -> str:
    return hashlib.sha256(json.dumps([manifest.files, manifest.links], sort_keys=True).encode()).hexdigest()


# ── manifests ──


def _place(kind: Kind, id: str, number: int) -> str:
    return f"manifests/{kind}/{id}/{number:08d}.json"


def _all_numbers(remote: Any, kind: Kind) -> dict[str, list[int]]:
    """By id the numbers of its manifests, in their order."""
    import obstore

    found: dict[str, list[int]] = {}
    for chunk in obstore.list(remote, f"manifests/{kind}/"):
        for entry in chunk:
            _, _, id, name = ([*str(entry["path"]).split("/"), "", "", ""])[:4]
            number = name.removesuffix(".json")
            if selector.ID.fullmatch(id) and number.isdigit():
                found.setdefault(id, []).append(int(number))
    return {id: sorted(numbers) for id, numbers in found.items()}


def _numbers(remote: Any, kind: Kind, id: str) -> list[int]:
    import obstore

    names = [str(entry["path"]).rpartition("/")[2] for chunk in obstore.list(remote, f"manifests/{kind}/{id}/") for entry in chunk]
    return sorted(int(name.removesuffix(".json")) for name in names if name.removesuffix(".json").isdigit())


def _find_newest(remote: Any, kind: Kind, id: str) -> Manifest | None:
    if not selector.ID.fullmatch(id):
        return None
    for _ in range(TRIES):
        numbers = _numbers(remote, kind, id)
        if not numbers:
            return None
        manifest = _read_manifest(remote, kind, id, numbers[-1])
        if manifest is not None:
            return manifest
    return None


def _read_manifest(remote: Any, kind: Kind, id: str, number: int) -> Manifest | None:
    """A manifest; None where there is none. RunError if it is not what we write: what it says is written to this machine's disk."""
    import obstore
    from obstore.exceptions import NotFoundError

    try:
        found = obstore.get(remote, _place(kind, id, number))
        if int(found.meta["size"]) > MOST_MANIFEST_BYTES:
            raise _odd(id)
        record = json.loads(bytes(found.bytes()))
    except (FileNotFoundError, NotFoundError):
        return None
    except ValueError:
        raise _odd(id) from None
    if not isinstance(record, dict) or record.get("kind") != kind or record.get("id") != id:
        raise _odd(id)
    files, links = record.get("files"), record.get("links")
    if not isinstance(files, dict) or not isinstance(links, dict) or not all(map(_is_file, files, files.values())):
        raise _odd(id)
    if not all(_LINK.fullmatch(str(link)) and str(step).isdigit() for link, step in links.items()):
        raise _odd(id)
    if _NEEDED[kind] not in files:
        raise _odd(id)
    return Manifest(
        kind, id, number, str(record.get("owner")), str(record.get("host"))[:64], files, {key: str(step) for key, step in links.items()}
    )


def _is_file(name: object, about: object) -> bool:
    if not isinstance(name, str) or not _PATH.fullmatch(name) or not isinstance(about, dict):
        return False
    sha256, size = about.get("sha256"), about.get("size")
    small = about.get("content")
    fits = isinstance(sha256, str) and re.fullmatch(r"[0-9a-f]{64}", sha256) is not None
    return fits and isinstance(size, int) and 0 <= size <= MOST_BYTES and (small is None or isinstance(small, str))


def _odd(id: str) -> RunError:
    return RunError(
        f"the manifest of {id} in the object store is none of ours.\n  Nothing of it is used.\n  Put the run there again: ",
        Action("artifacts push"),
    )


def _sums(manifest: Manifest) -> set[str]:
    return {str(about["sha256"]) for about in manifest.files.values()}
