"""What Gymnasium knows about an environment that has no file here. Imports gymnasium only when asked."""

import ast
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from rlclinic.actions import Action
from rlclinic.errors import NotFound, nearest

__all__ = ["OWN_ENVIRONMENTS", "Registered", "list_environments_in", "look_up"]

OWN_ENVIRONMENTS: Final[dict[str, int | None]] = {
    "DeepSea-v0": None,
    "Delivery-v0": 100,
    "DoorKey-v0": 250,
    "Maze-v0": 200,
    "MultiRoom-v0": 120,
    "SparseMountainCar-v0": 200,
}
"""Environments that rlclinic itself brings, with their time limits; Gymnasium does not know them."""
_PROBES = tuple(f"probe:{number}" for number in range(1, 6))


@dataclass(frozen=True)
class Registered:
    """Gymnasium's entry: the return that counts as solving it and the time limit, where it names them."""

    threshold: float | None = None
    max_episode_steps: int | None = None


def look_up(env_id: str, shipped: Iterable[str] = ()) -> Registered:
    """The entry of an environment; raises NotFound, with the nearest names, for one that does not exist.

    `module:Name` and `file.py:Name` are looked at only as far as the module's existence: importing it is for the process that trains.
    Without gymnasium installed every plain id is taken on trust.
    """
    if env_id in _PROBES:
        return Registered()
    if env_id in OWN_ENVIRONMENTS:
        return Registered(max_episode_steps=OWN_ENVIRONMENTS[env_id])
    if env_id.startswith("probe:"):
        raise NotFound(f"no environment {env_id}.\n  There would be nothing to train on.\n  Try: one of {', '.join(_PROBES)}")
    if env_id.startswith("ALE/") and importlib.util.find_spec("ale_py") is not None:
        return Registered()  # Atari's package registers its games when it is imported, which is for the process that trains
    module, separator, _ = env_id.rpartition(":")
    if (module or env_id).endswith(".py"):
        return _look_up_file(env_id, module)
    if separator:
        if PathFinder.find_spec(module.split(".")[0], [str(Path.cwd()), *sys.path]) is None and module not in sys.modules:
            raise NotFound(
                f"no module `{module}` for the environment {env_id}.\n  There would be nothing to train on.\n"
                f"  Try: start from the folder that holds {module.split('.')[0]}, path/to/file.py:Name, or pip install it"
            )
        return Registered()
    try:
        import gymnasium
    except ImportError:
        return Registered()
    entry = gymnasium.registry.get(env_id)
    if entry is None:
        offered = nearest(env_id, [*shipped, *OWN_ENVIRONMENTS, *gymnasium.registry])
        hint = (", or ".join(offered),) if offered else (Action("envs"), ", which lists those with settings")
        raise NotFound(
            f"no environment {env_id}: neither a file in config/environments nor Gymnasium has it.\n"
            "  There would be nothing to train on.\n  Try: ",
            *hint,
            f"; module:{env_id} for one that a module has",
        )
    threshold = None if entry.reward_threshold is None else float(entry.reward_threshold)
    return Registered(threshold, entry.max_episode_steps)


def _look_up_file(env_id: str, home: str) -> Registered:
    if not home:
        offered = ", or ".join(f"{env_id}:{name}" for name in list_environments_in(Path(env_id)) or ["MyEnv"])
        raise NotFound(f"{env_id} is a file, and may hold several environments.\n  Which one is meant is not said.\n  Try: {offered}")
    if not Path(home).is_file():
        raise NotFound(f"no file {home} for the environment {env_id}.\n  There would be nothing to train on.\n  Try: path/to/file.py:MyEnv")
    return Registered()


def list_environments_in(path: Path) -> list[str]:
    """Classes in a file that look like environments, by their bases or methods. The file is read, never run."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and (
            any(ast.unparse(base).endswith("Env") for base in node.bases)
            or {"reset", "step"} <= {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        )
    ]
