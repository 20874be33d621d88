"""`new env`: write an environment that passes its tests and trains as it is, to be changed into one's own."""

import keyword
import re
import sys
from pathlib import Path
from typing import Final

from rlclinic.actions import Action, Argument
from rlclinic.errors import NotFound, UsageError
from rlclinic.ops.diagnose.requests import NewEnvRequest
from rlclinic.ops.tasks import scaffold
from rlclinic.ops.tasks.scaffold import Design, Space
from rlclinic.report.models import NewEnvironment

SMALLEST_LINE: Final = 4
"""Cells below which no difficulty makes a difference."""
LEAST: Final = {"box": 1, "dict": 1, "discrete": 2, "image": 12}
MOST: Final = {"box": 1_000, "dict": 1_000, "discrete": 10_000, "image": 256}
MOST_CHOICES, MOST_LEVELS = 20, 100
"""Of a multidiscrete action: how many choices, and of how many things each."""
HIDDEN: Final = sys.stdlib_module_names | {"test", "numpy", "gymnasium", "torch", "pytest", "yaml", "rlclinic"}
"""Modules that the files, their tests or what they import need."""
TAKEN: Final = {"measure", "make_rewards", "env", "Any", "Rewards"}
"""Names that the file of the terms has already."""


def write_environment(request: NewEnvRequest) -> NewEnvironment:
    """Write the files. Nothing is overwritten: if one of them is there already, none is written."""
    design = Design(
        name=_read_name(request.name),
        obs=read_space("obs", request.obs, ("box", "dict", "image", "discrete")),
        action=read_space("action", request.action, ("box", "discrete", "multidiscrete")),
        difficulty=None if request.difficulty is None else _read_range(request.difficulty),
        terms=_read_terms(request.terms),
    )
    if keyword.iskeyword(design.module):
        raise UsageError(
            f"{design.name} would stand in {design.module}.py, and {design.module} is a word of Python.\n"
            f"  Its file could not be imported.\n  Try: {design.name}Task"
        )
    if design.module in HIDDEN:
        raise UsageError(
            f"{design.name} would stand in {design.module}.py, which hides the module {design.module} from whoever is started beside it.\n"
            f"  Its own tests could not be run.\n  Try: {design.name}Task"
        )
    if design.line and design.obs.size < SMALLEST_LINE:
        raise UsageError(
            f"discrete:{design.obs.size} is a line of {design.obs.size} cells, one of which is the goal.\n"
            "  There would be nothing to learn.\n  Try: ",
            Argument("obs", f"discrete:{SMALLEST_LINE}"),
        )
    farthest = design.action.size // 2  # cells that the largest action goes
    if design.line and design.action.kind == "discrete" and farthest >= design.obs.size - 1:
        raise UsageError(
            f"discrete:{design.action.size} goes up to {farthest} cells, and a line of {design.obs.size} is not longer.\n"
            "  One step would do the task from everywhere: there would be nothing to learn.\n  Try: ",
            Argument("obs", f"discrete:{3 * farthest}"),
            " or ",
            Argument("action", "discrete:3"),
        )
    folder = request.to or Path(design.module)
    files = {folder / name: text for name, text in scaffold.write(design, folder.as_posix()).items()}
    if there := [path for path in files if path.exists() or path.is_symlink()]:
        raise UsageError(
            f"{there[0]} is there already.\n  Nothing was written: it would have been lost.\n  Try: ",
            Argument("to", f"{folder}_2"),
            ", or another name",
        )
    if not folder.parent.is_dir():
        raise NotFound(f"no folder {folder.parent}.\n  The environment would have no place.\n  Try: mkdir -p {folder.parent}")
    try:
        folder.mkdir(exist_ok=True)
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as reason:
        raise UsageError(
            f"{folder} cannot be written to ({reason.strerror or reason}).\n  The environment is not whole.\n  Try: ", Argument("to", "DIR")
        ) from reason
    made = f"{folder.as_posix()}/{design.module}.py:{design.name}"
    return NewEnvironment(
        env=made,
        files=[path.as_posix() for path in files],
        terms=list(design.terms),
        next=[
            Action("lint", env=made),
            Action("reward check", made),
            Action("train", f"{folder.as_posix()}/{design.module}.yaml", seeds=4),
        ],
    )


def _read_name(name: str) -> str:
    if re.fullmatch(r"[A-Z][A-Za-z0-9]{0,49}", name) and not keyword.iskeyword(name):
        return name
    words = re.findall(r"[A-Za-z0-9]+", name.removesuffix("-v0"))
    offered = "".join(word[0].upper() + word[1:] for word in words).lstrip("0123456789") or "Reacher"
    raise UsageError(
        f"{name!r} cannot be the name of a class.\n  Its file could not be imported.\n  Try: {offered[0].upper() + offered[1:]}"
    )


def read_space(option: str, text: str, kinds: tuple[str, ...]) -> Space:
    """What `box:8` and the like mean; UsageError for anything else, with what could be typed instead."""
    kind, _, size = text.partition(":")
    if kind == "multidiscrete" and kind in kinds and re.fullmatch(r"\d{1,6}(x\d{1,6}){0,100}", size):
        choices = tuple(int(each) for each in size.split("x"))
        if len(choices) <= MOST_CHOICES and all(2 <= each <= MOST_LEVELS for each in choices):
            return Space("multidiscrete", len(choices), choices)
        raise UsageError(
            f"{option} {text}: up to {MOST_CHOICES} choices, each of 2 to {MOST_LEVELS} things.\n"
            "  No such space could be learned on.\n  Try: ",
            Argument(option, "multidiscrete:3x3"),
        )
    if kind in kinds and kind in MOST and re.fullmatch(r"\d{1,6}", size):
        if LEAST[kind] <= int(size) <= MOST[kind]:
            return Space(kind, int(size))  # type: ignore[arg-type]  # one of the kinds
        raise UsageError(
            f"{option} {text}: {kind} has from {LEAST[kind]} to {MOST[kind]:,}.\n  No such space could be learned on.\n  Try: ",
            Argument(option, f"{kind}:{max(LEAST[kind], 36 if kind == 'image' else 8) if int(size) else LEAST[kind]}"),
        )
    examples = {
        "box": "box:8 (eight numbers)",
        "dict": "dict:8 (eight numbers in named blocks)",
        "image": "image:36 (a picture of 36 x 36 pixels)",
        "discrete": "discrete:16 (one of sixteen)",
        "multidiscrete": "multidiscrete:3x3 (two choices of three)",
    }
    offered = ", ".join(examples[each] for each in kinds)
    raise UsageError(f"{option} {text!r} is no space.\n  Nothing could be seen or done in it.\n  Try: {offered}")


def _read_range(text: str) -> tuple[float, float]:
    match = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*(?:\.\.|:)\s*(-?\d+(?:\.\d+)?)\s*", text)
    if match and float(match[1]) < float(match[2]):
        return float(match[1]), float(match[2])
    raise UsageError(
        f"difficulty {text!r} does not rise from one number to another.\n  Nothing would get harder.\n  Try: ",
        Argument("difficulty", "0..1"),
    )


def _read_terms(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name) or keyword.iskeyword(name) or name in TAKEN:
            raise UsageError(
                f"terms: {name!r} cannot be the name of a term, which is a function and a column.\n  It could not be logged.\n  Try: ",
                Argument("terms", "task,progress,safety"),
            )
        if names.count(name) > 1:
            raise UsageError(f"terms: {name} stands there twice.\n  Its column would mean neither.\n  Try: a name of its own for each")
    return tuple(names)
