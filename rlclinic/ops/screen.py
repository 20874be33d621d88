"""Where frames of an episode are shown while it is played: a window, or a terminal that draws them with blocks of colour."""

import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from rlclinic.errors import UsageError

Frame = Callable[[Any], None]
_HOME: Final = "\x1b[H\x1b[J"
_PLAIN: Final = "\x1b[0m"
_NARROWEST: Final = 20


def terminal(fps: float) -> Frame:
    """Draws RGB frames in place; into a file, one below the other and without waiting."""
    live = sys.stderr.isatty()

    def show(frame: Any) -> None:
        size = shutil.get_terminal_size()
        text = blocks(frame, max(_NARROWEST, size.columns - 1), max(_NARROWEST, size.lines - 2))
        sys.stderr.write(f"{_HOME if live else ''}{text}\n")
        if live:
            time.sleep(1.0 / fps)

    return show


def blocks(frame: Any, columns: int, lines: int) -> str:
    """RGB pixels [height, width, 3] as text that fits: half a block is a pixel, so a character shows two, one above the other."""
    import numpy as np

    height, width = frame.shape[:2]
    share = min(columns / width, 2 * lines / height, 1.0)
    rows, across = max(2, int(height * share) // 2 * 2), max(1, int(width * share))
    pixels = frame[np.arange(rows) * height // rows][:, np.arange(across) * width // across]
    text = []
    for top, bottom in zip(pixels[::2].tolist(), pixels[1::2].tolist(), strict=True):
        cells, before = [], None
        for above, below in zip(top, bottom, strict=True):
            colours = f"\x1b[38;2;{_rgb(above)};48;2;{_rgb(below)}m"
            cells.append("▀" if colours == before else colours + "▀")
            before = colours
        text.append("".join(cells) + _PLAIN)
    return "\n".join(text)


def _rgb(pixel: list[int]) -> str:
    return ";".join(str(value) for value in pixel)


def window(title: str, fps: float) -> Frame:
    """A window for environments that open none of their own; closing it ends the program as Ctrl-C does."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import pygame
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"a window for {title} needs pygame, which is not installed.\n"
            "  Type: pip install pygame-ce\n  Or watch it as text: --render ansi"
        ) from missing
    pygame.display.init()
    pygame.display.set_caption(title)
    clock = pygame.time.Clock()

    def show(frame: Any) -> None:
        surface = pygame.surfarray.make_surface(frame.swapaxes(0, 1))
        shown = pygame.display.get_surface() or pygame.display.set_mode(surface.get_size())
        if any(event.type == pygame.QUIT for event in pygame.event.get()):
            raise KeyboardInterrupt
        shown.blit(surface, (0, 0))
        pygame.display.flip()
        clock.tick(fps)

    return show
