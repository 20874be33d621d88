"""Twelve environments as strangers write them, each in its own voice, with an expert that plays from what is observed alone.

Their mistakes (`slips.SLIPS`) and their odd but sound variants (`slips.VARIANTS`) are changes of their text, such as an author makes
them: `maker("arm", "sees the oldest frame")` makes what the changed text says. They were written by somebody who had not read what
examines them.
"""

import importlib
import linecache
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np

from benchmarks.diagnosis.environments.visitors.slips import SLIPS, VARIANTS, Edits, Slip

__all__ = ["NAMES", "SLIPS", "VARIANTS", "Slip", "maker", "module", "play", "slip", "threshold"]

NAMES: Final = ("arm", "trading", "snake", "lathes", "drone", "kitchen", "fog", "noughts", "charger", "wildfire", "puck", "casino")


@cache
def module(visitor: str, label: str = "") -> ModuleType:
    """The visitor's file as it is, or with the change of that label made in its text."""
    name = f"{__name__}.{visitor}"
    return changed(name, label, edits(visitor, label)) if label else importlib.import_module(name)


def changed(name: str, label: str, edits: Edits) -> ModuleType:
    """The module of that name with these changes made in its text."""
    package, visitor = name.rsplit(".", 1)
    file = Path(str(sys.modules[package].__file__)).with_name(f"{visitor}.py")
    text = file.read_text("utf-8")
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"{visitor}, {label}: {old!r} stands {text.count(old)} times in {file.name}, not once.")
        text = text.replace(old, new)
    made = ModuleType(f"{name} ({label})")
    made.__file__ = f"<{visitor}: {label}>"
    sys.modules[made.__name__] = made
    # Who asks for the source sees the text that runs.
    linecache.cache[made.__file__] = (len(text), None, text.splitlines(keepends=True), made.__file__)
    exec(compile(text, made.__file__, "exec"), made.__dict__)
    return made


def edits(visitor: str, label: str) -> Edits:
    return SLIPS[visitor, label].edits if (visitor, label) in SLIPS else VARIANTS[visitor, label]


def maker(visitor: str, label: str = "") -> Callable[[], Any]:
    """What makes the environment."""
    made: Callable[[], Any] = module(visitor, label).make
    return made


def slip(visitor: str, label: str) -> Slip | None:
    """The mistake of that label; None for what is sound."""
    return SLIPS.get((visitor, label))


def play(env: Any, act: Callable[[Any], Any], episodes: int, seed: int = 0) -> list[float]:
    """Returns of some episodes; one that has not ended after a thousand steps is cut off."""
    returns = []
    for episode in range(episodes):
        obs, _ = env.reset(seed=seed + episode)
        total = 0.0
        for _ in range(1_000):
            obs, reward, terminated, truncated, _ = env.step(act(obs))
            total += float(reward)
            if terminated or truncated:
                break
        returns.append(total)
    return returns


@cache
def threshold(visitor: str, variant: str = "", episodes: int = 100) -> float:
    """What its author calls solved: four fifths of the way from random actions to the expert, in what is sound."""
    env = maker(visitor, variant)()
    env.action_space.seed(0)
    chance, best = play(env, lambda _: env.action_space.sample(), episodes), play(env, module(visitor).expert, episodes)
    level = float(np.mean(chance))
    return level + 0.8 * (float(np.mean(best)) - level)
