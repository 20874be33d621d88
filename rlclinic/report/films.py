"""Episodes as evidence that a reward is gamed: lines on a terminal, pictures in a page."""

import base64
import itertools
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from rlclinic.report import charts
from rlclinic.report.document import Block, Figure, Figures, Heading, Rows
from rlclinic.report.format import count
from rlclinic.report.models import FilmedEpisode, Films, Panel

MOST_BYTES: Final = 5_000_000
"""A larger film is left out: pages are sent by mail."""
PICTURES: Final = (".gif", ".mp4")


def rows(films: Films) -> list[Block]:
    """Each episode in a line: where it lies, and what it came to."""
    lines = [(f"film {each.when}", _line(each)) for each in films.episodes if each.file is not None]
    lines += [("film", f"{each.when}: not recorded yet, env step {count(each.step)}") for each in films.episodes if each.file is None]
    lines += [] if films.note is None else [("film", films.note)]
    return [Rows(lines, 11)] if lines else []


def section(films: Films) -> list[Block]:
    """For a page: the films themselves, beside each other."""
    figures, unseen = [], []
    for each in films.episodes:
        draw = None if each.path is None else _draw(Path(each.path))
        if draw is None:
            unseen.append(each)
        else:
            figures.append(Figure(draw, f"**{each.when}**: {_line(each)}"))
    said = f"What it is paid for: seen from env step {count(films.start)} to {count(films.end)} ({films.rule})"
    legend = "One episode each, from the first evaluation start; without pictures, its return so far, step by step."
    shown = [Figures(figures, legend)] if figures else []
    blocks = [*shown, *rows(films.model_copy(update={"episodes": tuple(unseen)}))]
    return [Heading(said, 3), *blocks] if blocks else []


def embed(film: Path) -> str:
    """A film inside of the page's own text."""
    data = base64.b64encode(film.read_bytes()).decode()
    if film.suffix == ".gif":
        return f'<img alt="an episode" src="data:image/gif;base64,{data}">'
    return f'<video controls loop muted src="data:video/mp4;base64,{data}"></video>'


def _draw(path: Path) -> Callable[[], str] | None:
    """The film, or, of an environment without pictures, what was earned step by step; None where there is nothing to show."""
    try:
        if path.suffix in PICTURES:
            return partial(embed, path) if path.stat().st_size <= MOST_BYTES else None
        rewards = [float(value or 0.0) for value in json.loads(path.read_text())["rewards"]]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    earned = [float(total) for total in itertools.accumulate(rewards)]
    if len(earned) < 2 or not all(map(math.isfinite, earned)):
        return None
    steps = [float(step) for step in range(1, len(earned) + 1)]
    shown = {"steps": steps, "center": earned, "low": earned, "high": earned}
    panel = Panel(series="return so far", label="return so far", text="", band=None, start=None, end=None, **shown)
    return partial(charts.panel, panel)


def _line(episode: FilmedEpisode) -> str:
    said = "" if episode.said is None else f" · {episode.said}"
    return f"env step {count(episode.step)}{said} · {episode.path}"
