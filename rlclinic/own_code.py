"""A user's own environments: which files they consist of, where those lie today, and whether they are still what a run was trained on.

A run writes down where the code of its environment and wrappers lay and a hash of every file (`describe`, `env_code` in config.json).
From anywhere the files are found again (`find`), and what has changed in them can be said (`list_changes`). Nothing is imported or run
here: imports between files that lie beside each other are followed by reading them.
"""

import ast
import hashlib
import inspect
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rlclinic import trust

LARGEST_FILE: Final = 4 << 20
"""Bytes of a file that is hashed."""
MOST_FILES: Final = 200
"""Files of one environment that are followed."""
MOST_PARSED: Final = 256 << 10
"""Bytes of all files of one environment whose imports are looked for: a megabyte of Python can take half a gigabyte to parse."""


@dataclass(frozen=True)
class OwnCode:
    """The code that one name stands for: `my_env.py:MyEnv`, `package.module:MyEnv`, or an object of a script."""

    name: str
    """As the settings have it."""
    path: Path
    """Its file."""
    module: str | None
    """The module, where it was named as one."""
    inside: str
    """The class, function or id in it."""
    files: Mapping[str, str]
    """The sha256 of every file, by its path from the folder that imports start at; the environment's own file comes first."""
    is_object: bool = False
    """Whether an object of a program was trained on, which no name leads to."""

    @property
    def sha256(self) -> str:
        """One hash of all files."""
        return hashlib.sha256(json.dumps(sorted(self.files.items())).encode()).hexdigest()


# ── what lies there ──


def describe(name: str) -> OwnCode | None:
    """The code of a name as it lies on disk now; None where it names none, or none that can be found."""
    home, _, inside = name.rpartition(":")
    if not trust.names_code(name) or not home:
        return None
    module = None if home.endswith(".py") else home
    path = _locate_module(home) if module else trust.locate(home)
    return None if path is None or not path.is_file() else describe_file(name, path, module, inside)


def describe_file(name: str, path: Path, module: str | None, inside: str, *, is_object: bool = False) -> OwnCode:
    """The code of a name whose file is known."""
    return OwnCode(name, path, module, inside, _hash_files(path, module), is_object)


def describe_object(made: Any) -> OwnCode | None:
    """The code of a class or function of a program; None where its source is not a file."""
    with suppress(TypeError, OSError):
        file = inspect.getsourcefile(made)
        if file is not None and file.endswith(".py"):
            name = getattr(made, "__qualname__", type(made).__name__)
            return describe_file(name, Path(file).resolve(), None, name, is_object=True)
    return None


def find_root(path: Path, module: str | None = None) -> Path:
    """The folder that imports of a file start at: above its packages."""
    if module is not None:
        depth = module.count(".") + (path.name == "__init__.py")
        return path.parents[min(depth, len(path.parents) - 1)]
    root = path.parent
    while (root / "__init__.py").is_file() and root.parent != root:
        root = root.parent
    return root


def imports_relatively(path: Path) -> bool:
    """Whether a file imports from its own package by dots, which needs the package."""
    try:
        tree = ast.parse((_read(path) or b"")[:MOST_PARSED])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.ImportFrom) and node.level > 0 for node in ast.walk(tree))


def _locate_module(module: str) -> Path | None:
    """The file of a module, found without importing anything."""
    top = trust.locate(module)
    if top is None:
        return None
    folder = top.parent if top.name == "__init__.py" else top
    rest = module.split(".")[1:]
    if not rest:
        return top if top.is_file() else None
    return next(
        (file for file in (folder.joinpath(*rest).with_suffix(".py"), folder.joinpath(*rest, "__init__.py")) if file.is_file()), None
    )


def _hash_files(path: Path, module: str | None) -> dict[str, str]:
    """The hashes of a file and of what it imports from beside it, and what those import; of an installed package only its own."""
    root = find_root(path, module)
    hashes: dict[str, str] = {}
    packages = [folder / "__init__.py" for folder in path.parents if folder.is_relative_to(root) and folder != root]
    waiting = [path, *(file for file in packages if file.is_file())]
    parsed = 0
    while waiting and len(hashes) < MOST_FILES:
        file = waiting.pop(0)
        key = os.path.relpath(file, root)
        content = _read(file)
        if key in hashes or content is None:
            continue
        hashes[key] = hashlib.sha256(content).hexdigest()
        parsed += len(content)
        if parsed <= MOST_PARSED and not trust.is_installed(path):
            waiting += sorted(_list_imports(content, file, root))
    return hashes


def _read(file: Path) -> bytes | None:
    with suppress(OSError):
        if file.is_file() and file.stat().st_size <= LARGEST_FILE:
            return file.read_bytes()
    return None


def _list_imports(content: bytes, file: Path, root: Path) -> Iterator[Path]:
    """The files beside this one, or below the root, that it imports."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _list_parts({root, file.parent}, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            parts = node.module.split(".") if node.module else []
            folders = {root, file.parent} if not node.level else {file.parents[min(node.level, len(file.parents)) - 1]}
            yield from _list_parts(folders, parts)
            for alias in node.names:
                yield from _list_parts(folders, [*parts, alias.name])


def _list_parts(folders: set[Path], parts: list[str]) -> Iterator[Path]:
    """The files that importing a dotted name runs: each package's __init__.py, and the module itself."""
    for folder in folders:
        for depth in range(1, len(parts) + 1):
            place = folder.joinpath(*parts[:depth])
            yield from (file for file in (place / "__init__.py", place.with_name(place.name + ".py")) if file.is_file())


# ── what a run wrote down ──


def to_record(codes: "list[OwnCode]", store: Path) -> dict[str, Any]:
    """The entry `env_code` of config.json: where each lies, also as seen from the store, as both may be moved together."""
    return {
        code.name: {
            "path": str(code.path),
            "from_store": os.path.relpath(code.path, store.resolve()),
            "module": code.module,
            "class": code.inside,
            "sha256": code.sha256,
            "files": dict(code.files),
            **({"object": True} if code.is_object else {}),
        }
        for code in codes
    }


def describe_env(env: Any) -> list[OwnCode]:
    """The own code that an environment's settings name: of the environment and of its wrappers."""
    return [code for name in trust.names_in(env) if (code := describe(name)) is not None]


def read_record(record: Mapping[str, Any]) -> list[OwnCode]:
    """What config.json or group.json says about own code; what is damaged is left out."""
    entries = record.get("env_code")
    codes = []
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        if not isinstance(entry, dict) or not isinstance(entry.get("files"), dict):
            continue
        path, module, inside = entry.get("path"), entry.get("module"), entry.get("class")
        files = {key: value for key, value in entry["files"].items() if isinstance(key, str) and isinstance(value, str)}
        if isinstance(path, str) and path.endswith(".py") and isinstance(inside, str) and (module is None or isinstance(module, str)):
            codes.append(OwnCode(str(name), Path(path), module, inside, files, bool(entry.get("object"))))
    return codes


def find(code: OwnCode, record: Mapping[str, Any], store: Path) -> Path | None:
    """Where recorded code lies today: where it was, beside the store, or as it was named, seen from here.

    A file that is still the same is taken before one that is not.
    """
    entry = record["env_code"][code.name]
    places = [code.path]
    if isinstance(entry.get("from_store"), str):
        places.append(store / entry["from_store"])
    home = code.name.rpartition(":")[0]
    if home.endswith(".py"):
        places.append(Path(home))
    elif (here := _locate_module(home)) is not None:
        places.append(here)
    there = []
    for place in places:
        with suppress(OSError, ValueError, RuntimeError):
            if place.is_file():
                there.append(place.resolve())
    same = [place for place in dict.fromkeys(there) if dict(_hash_files(place, code.module)) == dict(code.files)]
    return next(iter(same or there), None)


def name_here(code: OwnCode, record: Mapping[str, Any], store: Path) -> str:
    """The name by which the code is imported from the working folder: the recorded one, unless that leads elsewhere or nowhere."""
    if code.is_object:
        return code.name
    home = code.name.rpartition(":")[0]
    here = _locate_module(home) if code.module else trust.locate(home)
    if here == code.path and here.is_file():
        return code.name
    path = find(code, record, store)
    return code.name if path is None or path == here else f"{path}:{code.inside}"


def list_changes(code: OwnCode, path: Path) -> list[str]:
    """What is not as it was when the run began, a phrase for each file; nothing where all are the same."""
    now = _hash_files(path, code.module)
    changed = [f"{file} has changed" for file in code.files if file in now and now[file] != code.files[file]]
    gone = [f"{file} is no longer imported or gone" for file in code.files if file not in now]
    new = [f"{file} is new" for file in now if file not in code.files]
    return changed + gone + new


def find_renamed(code: OwnCode) -> Path | None:
    """A file with the same bytes as the lost one, in the folder that it lay in or in this one."""
    lost = next(iter(code.files.values()), None)
    for folder in dict.fromkeys((code.path.parent, Path.cwd())):
        with suppress(OSError):
            for file in sorted(folder.glob("*.py"))[:MOST_FILES]:
                content = _read(file)
                if content is not None and hashlib.sha256(content).hexdigest() == lost:
                    return file.resolve()
    return None
