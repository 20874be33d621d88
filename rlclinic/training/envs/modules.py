"""Modules and files that hold a user's environments: `module:Name` and `path/to/file.py:Name`. Free of torch."""

from __future__ import annotations

import importlib
import importlib.util
import shlex
import sys
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym

from rlclinic import own_code, trust
from rlclinic.errors import ConfigError, NotFound, UsageError, nearest


def import_home(home: str, wanted: str) -> Any:
    """The module of this name, or of this .py file; NotFound and ConfigError say what to type. Untrusted if nobody has approved it."""
    trust.check(wanted)
    if home.endswith(".py"):
        path = Path(home).resolve()
        if not path.is_file():
            raise NotFound(f"{wanted}: there is no file {home}.\n  There is no environment in it to make.\n  Try: path/to/file.py:MyEnv")
        return _load(path, path.stat().st_mtime_ns)
    if "" not in sys.path:
        # A user's module beside the config must be found by a console command too, which lacks the working directory.
        sys.path.append("")
    try:
        return importlib.import_module(home)
    except ModuleNotFoundError as reason:
        raise NotFound(
            f"{wanted}: the module {home} cannot be imported ({reason}).\n"
            "  The environment is there when that module is imported, so there is none to make.\n"
            f"  Try: from the folder that holds {home.split('.')[0]}, path/to/{home.split('.')[-1]}.py:{wanted.rpartition(':')[2]}, "
            "or pip install it"
        ) from reason
    except Exception as reason:
        raise _broken(home, f"python -c 'import {home}'", reason) from reason


def suggest(module: Any, name: str) -> str:
    """What to type instead of a name that the module does not have."""
    classes = [
        each for each, value in vars(module).items() if isinstance(value, type) and issubclass(value, gym.Env) and value is not gym.Env
    ]
    similar = nearest(name, [*classes, *gym.registry]) or classes
    return " or ".join(similar[:3]) or "the name of a class that extends gymnasium.Env, or of a function that makes one"


@cache
def _load(path: Path, modified: int) -> Any:
    """The module in a file, run once: a second run would make other classes of the same name, and register its ids again."""
    # What the file imports from beside it must be found, as if it had been started itself; and worker processes find it by its name.
    sys.path.insert(0, str(path.parent))
    root = own_code.find_root(path)
    if root != path.parent and str(root) not in sys.path:
        sys.path.insert(1, str(root))
    if path.name == "__init__.py" or (root != path.parent and own_code.imports_relatively(path)):
        return _load_from_package(path, root)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be imported as Python.\n  There is no environment in it to make.\n  Try: a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as reason:
        del sys.modules[path.stem]
        raise _broken(str(path), f"python {shlex.quote(str(path))}", reason) from reason
    return module


def _load_from_package(path: Path, root: Path) -> Any:
    """A module that belongs to a package, under its name there: `from . import` has no meaning outside of it."""
    parts = path.relative_to(root).with_suffix("").parts
    name = ".".join(part for part in parts if part != "__init__")
    try:
        module = importlib.import_module(name)
    except Exception as reason:
        raise _broken(str(path), f"cd {shlex.quote(str(root))} && python -c 'import {name}'", reason) from reason
    if Path(module.__file__ or "").resolve() != path:
        raise ConfigError(
            f"{name} is {module.__file__} in this program, and not {path}.\n  Two packages of one name cannot be imported together.\n"
            "  Try: another name for one of them"
        )
    return module


def _broken(home: str, command: str, reason: Exception) -> ConfigError:
    first = (str(reason).strip() or type(reason).__name__).split("\n", 1)[0]
    return ConfigError(
        f"importing {home} raised {type(reason).__name__}: {first}\n  Its environment cannot be made.\n  Try: {command}, and mend that"
    )
