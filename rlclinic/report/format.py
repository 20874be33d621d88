"""How numbers are said: the same words in reports, in the terminal and in messages."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlclinic.runs.goal import SuccessRate

BLANK = "–"
INTERVAL_FROM = 8
"""Seeds from which on an interquartile mean has an interval: `stats.LEAST_SEEDS`, without importing numpy for it."""
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def number(value: float | None, digits: int = 3) -> str:
    """A quantity with about `digits` significant digits: 212, 0.0113, 1.5e-05, 104,233."""
    if value is None or math.isnan(value):
        return BLANK
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    size = abs(value)
    if 10 ** (digits - 1) <= size < 1e12:
        return f"{value:,.0f}"
    if size != 0 and not 1e-3 <= size < 1e12:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{int(exponent)}"
    text = f"{value:.{digits}g}"
    return text if "e" not in text else f"{value:,.0f}"


def count(value: float | None) -> str:
    """A whole number with separators: 100,096."""
    return BLANK if value is None or not math.isfinite(value) else f"{int(value):,}"


def short(value: float | None) -> str:
    """A step count that fits an axis: 31k, 1.2M."""
    if value is None or not math.isfinite(value):
        return BLANK
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # 999,600 rounds to 1000k: the next unit says it better.
        if abs(value) >= size * 0.9995:
            scaled = value / size
            return f"{scaled:.0f}{unit}" if scaled >= 99.95 or abs(scaled - round(scaled)) < 0.05 else f"{scaled:.1f}{unit}"
    return f"{value:.0f}"


def frames(env_steps: float | None, frames_per_step: int | None) -> str:
    """Behind a number of env steps of an Atari game: how many frames they are, ` (40M frames)`. Nothing for other environments."""
    if env_steps is None or frames_per_step is None:
        return ""
    return f" ({short(env_steps * frames_per_step)} frames)"


def interval(low: float | None, high: float | None) -> str:
    """A confidence interval, [164, 268]; nothing at all where there is none."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    return f"[{number(low)}, {number(high)}]"


def describe_goal(threshold: float | None, required_success: float | None) -> str:
    """What is to be reached: "475", "475 and 90 % success", "90 % success"; nothing where nothing is."""
    parts = [number(threshold, 4)] if threshold is not None else []
    return " and ".join([*parts, *([f"{percent(required_success)} success"] if required_success is not None else [])])


def describe_success(success: SuccessRate | None) -> str:
    """27 of 30 episodes (90 % [74, 97]); nothing where no success is reported."""
    if success is None:
        return ""
    bounds = f" [{100 * success.low:.0f}, {100 * success.high:.0f}]" if success.low is not None and success.high is not None else ""
    share = percent(success.rate) + bounds
    return share if success.episodes is None else f"{success.successes} of {plural(success.episodes, 'episode')} ({share})"


def name_band(seeds: int) -> str:
    """What a band or an interval of an interquartile mean is."""
    return "95 % interval" if seeds >= INTERVAL_FROM else "lowest and highest seed"


def describe_outcome(
    runs: int,
    reached: int | None,
    lost: int | None,
    goal: str,
    threshold: float | None,
    success: str,
    last: tuple[float | None, float | None, float | None],
    best: tuple[float | None, float | None],
) -> str:
    """1 of 8 seeds reached 475 · return 212 [164, 268] (IQM, 95 %) · gap 263 (55 %) · best 488 at 31k.

    `lost`: of those that reached the goal, how many lost it again. `goal` and `success`: by the two functions above. `last`: the return
    at the end and its interval, of few seeds their range: return 194 (IQM; range 9.1 – 500). `best`: the best return and its env step.
    """
    counted = f"{reached} of {plural(runs, 'seed')} reached {goal}" if reached is not None else f"whether it reached {goal} is not known"
    parts = [counted + (f", {lost} lost it again" if lost else "")] if goal else []
    parts += [f"success {success}"] if success else []
    value, low, high = last
    if value is not None:
        spread = ""
        if low is not None:
            spread = f" {interval(low, high)} (IQM, 95 %)" if runs >= INTERVAL_FROM else f" (IQM; range {number(low)} – {number(high)})"
        parts.append(f"return {number(value)}{spread}")
        if threshold is not None and threshold > value:
            share = f" ({percent((threshold - value) / abs(threshold))})" if threshold else ""
            parts.append(f"gap {number(threshold - value)}{share}")
    parts += [f"best {number(best[0])} at {short(best[1])}"] if best[0] is not None else []
    return " · ".join(parts)


def percent(fraction: float | None) -> str:
    """A share: 55 %, 2.5 %."""
    if fraction is None or not math.isfinite(fraction):
        return BLANK
    value = 100 * fraction
    return f"{value:.1f} %" if 0 < abs(value) < 9.95 else f"{value:.0f} %"


def duration(seconds: float | None) -> str:
    """The two largest units: 3 min 20 s, 1 h 4 min, 0.4 s."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return BLANK
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    rest, parts = round(seconds), []
    for size, unit in _UNITS:
        if amount := rest // size:
            parts.append(f"{amount} {unit}")
            rest -= amount * size
        elif parts:
            break
    return " ".join(parts[:2])


def ago(seconds: float) -> str:
    """How long since: 'now', '2 min ago'."""
    if seconds < 2:
        return "now"
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "now"


def size(n_bytes: float) -> str:
    """Disk space: 512 B, 1.4 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "B" or n_bytes >= 10 else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"


def step_unit(algorithm: str | None, config: Mapping[str, Any] | None = None) -> str:
    """What the steps of a run count: `Config.step_unit`, by a config's record, or where only `ENV:VARIANT` or an algorithm is known."""
    name = (algorithm or "").rpartition(":")[2].lower()
    # Imported here: lists of runs need no settings.
    from rlclinic.config import ALGORITHMS, OfflineSettings

    model = ALGORITHMS.own.get(name)
    if model is None or not issubclass(model, OfflineSettings):
        return "env steps"
    data = (config or {}).get("data")
    data = data if isinstance(data, Mapping) else {}
    if not data.get("then_online", model.online == "must"):
        return "gradient steps"
    first = data.get("offline_steps")
    return "gradient and env steps" if (model.offline_steps if first is None else first) else "env steps"


def plural(amount: int, noun: str) -> str:
    """1 seed, 8 seeds."""
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"


def listed(words: Sequence[str], most: int = 6, separator: str = ", ") -> str:
    """A short list that says how much it left out."""
    shown = separator.join(words[:most])
    return shown if len(words) <= most else f"{shown} and {len(words) - most} more"


def clip(text: str, most: int) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def task(name: str) -> str:
    """A group's name without the folders that its environment's file lies in: in a narrow column, what tells it apart would be cut off."""
    return re.sub(r"^.*[\\/](?=[^\\/]+\.py:)", "", name)
