"""What a training script prints: SB3's tables, those of older Baselines, CleanRL's lines, or any `key: number` text."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from rlclinic.actions import Argument
from rlclinic.errors import UsageError
from rlclinic.readers import column_names, csv_jsonl, histories, hyperparameters, metric_aliases, tables, text_files
from rlclinic.readers.metric_aliases import Framework
from rlclinic.readers.options import Options
from rlclinic.readers.raw_log import RawLog
from rlclinic.readers.tables import Block, LeftOut
from rlclinic.runs.history import LOG_TAIL_LINES, History

_LINE_CHARS: Final = 2_000
_ROWS: Final = 512
_MAX_PAIRS: Final = 64
_NUMBER: Final = r"[-+]?(?:\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf)"
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CELLS: Final = re.compile(r"\| (?P<indent> *)(?P<key>\S[^|]*?) *\| *(?P<value>[^|]*?) *\|")
_RULE: Final = re.compile(r"[-=+]{6,}")
_EVALUATION: Final = re.compile(rf"Eval num_timesteps=(\d+), episode_reward=({_NUMBER}) \+/- ({_NUMBER})")
_LENGTH: Final = re.compile(rf"Episode length: ({_NUMBER}) \+/- ")
_CLEANRL: Final = re.compile(rf"global_step=(\d+),? *episodic_return=\[?({_NUMBER})")
_SPS: Final = re.compile(r"^SPS: (\d+)$")
_WORD: Final = r"[A-Za-z_%][\w%/.-]{0,40}"
_PAIR: Final = re.compile(
    # A counter needs nothing between its name and its number: "Episode 12/500  Reward: 34.2", "steps 2110 | avg return (100): 17.5".
    rf"\b(?P<counter>episodes?|ep|epochs?|steps?|timesteps?|total[ _]?(?:time)?steps|iter(?:ation)?s?|updates?|frames?)"
    rf"[ #=:\[]*(?P<count>\d[\d,]*)(?![\w.%])"
    rf"|(?P<key>{_WORD}(?: (?:{_WORD}|(?<=last )\d+)){{0,6}}(?: ?\([^()]{{0,30}}\))?) *[=:] *\[?(?P<value>{_NUMBER})(?![\w.:])",
    re.IGNORECASE,
)
_ZOO_PAIR: Final = re.compile(r"\('(\w+)',\s*(.+)\)(?:,|\]\)|$)")
_SAID: Final = (
    ("env.id", re.compile(r"^=+ (\S+) =+$")),
    ("env.id", re.compile(r"Creating environment from the given name '([^']+)'")),
    ("seed", re.compile(r"^Seed: (\d+)$")),
    ("env.n_envs", re.compile(r"^Using (\d+) environments$")),
    ("run.max_env_steps", re.compile(r"^Overwriting n_timesteps with n=(\d+)$")),
    ("algo.name", re.compile(r"^Logging to .*?([A-Za-z0-9]+)_\d+$")),
)
_STEPS: Final = ("time/total_timesteps", "total_timesteps", "total timesteps", "steps", "serial_timesteps", "timesteps")


@dataclass
class ConsoleText:
    """What was found in a text."""

    raw_log: RawLog
    framework: Framework | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=LOG_TAIL_LINES))
    early_stops: int = 0

    @property
    def log(self) -> str:
        return "\n".join(self.tail)


def matches(path: Path) -> bool:
    """Any text file: the last reader that is asked."""
    return path.is_file() and not text_files.is_binary(text_files.read_head(path))


def read(path: Path, options: Options) -> list[History]:
    """One history from a file with console output."""
    with text_files.open_text(path) as file:
        return [read_text(file, options, path)]


def read_tables(path: Path, options: Options) -> ConsoleText:
    """The tables in a file with console output, for a reader that joins several files."""
    with text_files.open_text(path) as file:
        return _Tables(options).read(file)


def read_text(file: BinaryIO, options: Options, path: Path | None = None) -> History:
    """The history in an open text: tables first, then a CSV or JSONL that was piped, then `key: number` lines."""
    name = path.stem if path is not None else "console"
    found = _Tables(options).read(file)
    if len(found.raw_log):
        return _make_history(found, options, name, path)
    file.seek(0)
    if _is_table(file):
        return csv_jsonl.read_table(file, options, path=path)
    count = LeftOut()
    blocks = _read_pairs(file, count)
    try:
        history = csv_jsonl.read_blocks(blocks, count, options, path=path, name=name)
    except UsageError:
        raise _make_error(path, found) from None
    state, reason = histories.find_ending(found.log, None, None, {})
    return replace(history, source="console", state=state, reason=reason, log_tail=found.log)


def _make_error(path: Path | None, found: ConsoleText) -> UsageError:
    what = str(path) if path is not None else "the text"
    failed = histories.find_error(found.log)
    if failed is not None:
        return UsageError(
            f"{what} ends in an error before anything was logged: {failed[1]}.\n  There is no run to diagnose.\n  Fix that first"
        )
    return UsageError(
        f"{what}: found no table of SB3, no line of CleanRL, no CSV and no `step: 1000 reward: 12.5` lines.\n"
        "  Nothing can be said about it.\n  Run with verbose=1, or give the folder that the run wrote its log to"
    )


def _make_history(found: ConsoleText, options: Options, name: str, path: Path | None) -> History:
    names = found.raw_log.names
    framework = found.framework or metric_aliases.SB3
    algo = hyperparameters.check_algorithm(histories.find_algorithm(found.settings.get("algo.name")), names)
    if algo is None:
        found.settings.pop("algo.name", None)
    else:
        found.settings["algo.name"] = algo
    options.mapping.check(names)
    series = found.raw_log.series(options.table(framework.table(algo)), found.settings)
    if framework is metric_aliases.SB3:
        histories.infer_rollout_size(found.raw_log, found.settings, algo)
    notes = ["from console output: numbers have three digits"] if framework is metric_aliases.SB3 else ["from console output"]
    if found.early_stops:
        notes.append(f"target_kl ended an iteration's updates early {found.early_stops} times")
    if not series:
        raise UsageError(
            f"{name}: its tables hold no metric that is known ({', '.join(names[:8])}).\n  Try: ", Argument("map", "return=COLUMN")
        )
    return histories.make_history(name, "console", path, found.raw_log, series, found.settings, algo=algo, notes=notes, log=found.log)


class _Tables:
    """A parser that is fed line by line, and keeps only the row that it is in."""

    def __init__(self, options: Options) -> None:
        self.found = ConsoleText(RawLog(metric_aliases.EPISODIC | options.episodic))
        self._row: dict[str, float] = {}
        self._section = ""
        self._step = np.nan
        self._rows: list[dict[str, float]] = []
        self._in_settings = False
        self._pairs: dict[str, Any] = {}

    def read(self, file: BinaryIO) -> ConsoleText:
        for line in text_lines(file):
            self.found.tail.append(line[:400])
            if line.startswith("|") or "| " in line:
                self._cell(line)
            elif self._row and _RULE.search(line):
                self._end_row()
            elif line:
                self._words(line)
        self._end_row()
        self._flush()
        if self._pairs:
            said = self.found.settings
            self.found.settings = {**hyperparameters.translate_sb3(self._pairs), **said}
        return self.found

    def _cell(self, line: str) -> None:
        match = _CELLS.search(line)
        if match is None:
            return
        key, value = match["key"], match["value"]
        if not value and key.endswith("/"):
            self._section = key
            return
        name = (self._section if len(match["indent"]) >= 2 else "") + key
        if name.endswith("..."):
            name = _complete_key(name)
        try:
            number = float(value.replace(",", ""))
        except ValueError:
            return
        if name in self._row:
            self._end_row()
        self._row[name] = number

    def _end_row(self) -> None:
        if self._row:
            self._step = next((self._row[name] for name in _STEPS if name in self._row), self._step)
            if self.found.framework is None:
                self.found.framework = metric_aliases.SB3 if any("/" in name for name in self._row) else metric_aliases.BASELINES
            self._put(self._row)
        self._row, self._section = {}, ""

    def _put(self, row: dict[str, float]) -> None:
        """Keep a row at the step that was printed last."""
        self._rows.append({**row, "": self._step})
        if len(self._rows) >= _ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            block = tables.make_block(self._rows, LeftOut())
            self.found.raw_log.add_rows(block.names, block.values[:, block.names.index("")], block.values, block.blank)
            self._rows = []

    def _words(self, line: str) -> None:
        """Lines between tables: evaluations, episodes, and what the script says about itself."""
        if match := _EVALUATION.search(line):
            self._step = float(match[1])
            self._put({"val/roll/ep_rew_mean": float(match[2]), "val/roll/ep_rew_std": float(match[3])})
        elif match := _LENGTH.search(line):
            self._put({"val/roll/ep_len_mean": float(match[1])})
        elif match := _CLEANRL.search(line):
            self._step, self.found.framework = float(match[1]), metric_aliases.CLEANRL
            self._put({"charts/episodic_return": float(match[2])})
        elif (match := _SPS.match(line)) and self.found.framework is metric_aliases.CLEANRL:
            self._put({"charts/SPS": float(match[1])})
        elif line.startswith("Early stopping at step "):
            self.found.early_stops += 1
        else:
            self._settings(line)

    def _settings(self, line: str) -> None:
        self._in_settings = self._in_settings or line.startswith("OrderedDict([")
        if self._in_settings:
            if match := _ZOO_PAIR.search(line):
                self._pairs[match[1]] = hyperparameters.parse_value(match[2])
            self._in_settings = "])" not in line
            return
        for name, pattern in _SAID:
            if match := pattern.search(line):
                self.found.settings[name] = int(match[1]) if match[1].isdigit() and name != "env.id" else match[1]


def text_lines(file: BinaryIO) -> Iterator[str]:
    """Lines as a person sees them: no colours, and of a progress bar that redraws itself the last state."""
    for block, _ in text_files.read_blocks(file):
        for raw in block:
            text = raw[-_LINE_CHARS:].decode("utf-8", errors="replace").rstrip()
            if "\r" in text:
                text = text.rsplit("\r", 1)[-1]
            yield _ANSI.sub("", text).strip() if "\x1b" in text else text.strip()


def _complete_key(name: str) -> str:
    """A key that SB3 cut off to fit the table, if only one tag begins so."""
    start = name.removesuffix("...")
    fitting = {tag.tag for tag in [*metric_aliases.SB3.tags, *metric_aliases.OWN] if tag.tag.startswith(start)}
    return fitting.pop() if len(fitting) == 1 else name


def _is_table(file: BinaryIO) -> bool:
    """Whether a text is JSON lines, or a header over numbers."""
    beginning = [line.strip() for line in file.read(65_536).split(b"\n") if line.strip() and not line.startswith(b"#")][:2]
    file.seek(0)
    if not beginning:
        return False
    if beginning[0].startswith((b"{", b"[{")) or beginning == [b"[", b"{"]:
        return True
    comma = max((b",", b";", b"\t"), key=beginning[0].count)
    if len(beginning) < 2 or comma not in beginning[0] or beginning[0].count(comma) != beginning[1].count(comma):
        return False
    cells = [cell.strip() for cell in beginning[1].split(comma)]
    return any(cells) and all(not cell or tables.is_number(cell) for cell in cells)


def _read_pairs(file: BinaryIO, count: LeftOut) -> Iterator[Block]:
    """`key: number` lines as rows: a row ends where one of its keys comes again."""
    pending: list[dict[str, float]] = []
    row: dict[str, float] = {}
    for line in text_lines(file):
        for match in list(_PAIR.finditer(line[:_LINE_CHARS]))[:_MAX_PAIRS]:
            key = column_names.normalize_name(match["counter"] or match["key"])
            if key in row:
                pending.append(row)
                row = {}
            if len(row) < tables.MAX_COLUMNS:
                row[key] = float((match["count"] or match["value"]).replace(",", ""))
        if len(pending) >= _ROWS:
            count.rows += len(pending)
            yield tables.make_block(pending, count)
            pending = []
    if row:
        pending.append(row)
    if pending:
        count.rows += len(pending)
        yield tables.make_block(pending, count)
