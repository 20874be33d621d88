"""Folders with a file for each metric: TorchRL's `scalars/*.csv`, d3rlpy's `*.csv`, MLflow's `metrics/*` with its `params/*`."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from rlclinic.actions import Argument
from rlclinic.errors import UsageError
from rlclinic.readers import column_names, histories, hyperparameters, metric_aliases, sb3_settings, sidecar, tables, text_files
from rlclinic.readers.options import Options
from rlclinic.readers.raw_log import RawLog
from rlclinic.runs.coerce import real, text, whole
from rlclinic.runs.history import History

_PARTS: Final = ("scalars", "metrics")
_ABOUT: Final = "meta.yaml"
"""MLflow's name and state of a run."""
_STATES: Final = {1: "running", 2: "running", 3: "finished", 4: "failed", 5: "stopped"}
_WITH_ENV: Final = frozenset({"rollout_return", "time_environment_step"})
"""What d3rlpy logs where it acts itself."""
_OFFLINE: Final = {
    **{name: name for name in ("bc", "iql", "awac", "cql", "cal_ql")},
    "discrete_bc": "bc",
    "discrete_cql": "cql",
    "td3_plus_bc": "td3_bc",
    "decision_transformer": "dt",
    "discrete_decision_transformer": "dt",
}
"""d3rlpy's algorithms for recorded data that are ours, too."""
_OFFLINE_WORDS: Final = {
    "iql": {"weight_temp": "algo.beta", "max_weight": "algo.weight_cap", "expectile": "algo.expectile"},
    "awac": {"lam": "algo.awac_lambda"},
    "td3_bc": {"alpha": "algo.bc_alpha"},
    "cql": {"conservative_weight": "algo.cql_alpha", "alpha": "algo.cql_alpha", "n_action_samples": "algo.cql_actions"},
    "cal_ql": {"conservative_weight": "algo.cql_alpha", "n_action_samples": "algo.cql_actions"},
    "dt": {"context_size": "algo.context"},
}
"""Their settings, which have names that mean something else elsewhere."""
_MAX_FILES: Final = 512
_MAX_DEPTH: Final = 4


def matches(path: Path) -> bool:
    """A folder of files without a header that hold two or three numbers a line."""
    return path.is_dir() and next(_find_files(path), None) is not None


def _find_files(path: Path) -> Iterator[tuple[str, Path]]:
    """(metric, file) of a run: in the folder itself, or below the folder that frameworks put them in."""
    part = next((path / name for name in _PARTS if (path / name).is_dir()), None)
    if part is not None:
        seen = sorted(islice(part.rglob("*"), 4 * _MAX_FILES))[:_MAX_FILES]
        found = [file for file in seen if len(file.relative_to(part).parts) <= _MAX_DEPTH]
        named = [(file.relative_to(part).as_posix(), file) for file in found]
    else:
        named = [(file.name, file) for file in sorted(path.glob("*.csv"))[:_MAX_FILES]]
    for name, file in named:
        if file.is_file() and _count_numbers(text_files.read_head(file)) in (2, 3):
            yield name.removesuffix(".csv"), file


def _count_numbers(beginning: bytes) -> int:
    """Numbers in the first line; 0 if it holds anything else."""
    cells = beginning.split(b"\n", 1)[0].replace(b",", b" ").split()
    return len(cells) if all(tables.is_number(cell) for cell in cells) else 0


def read(path: Path, options: Options) -> list[History]:
    """One history of the whole folder."""
    raw_log = RawLog(options.episodic | metric_aliases.EPISODIC)
    skipped = 0
    for name, file in _find_files(path):
        steps, values, left = _read_points(file)
        skipped += left
        raw_log.add_column(name, steps, values)
    names = raw_log.names
    params = sidecar.read(path / "params.json", []) if (path / "params.json").is_file() else {}
    # d3rlpy says there what it observes and which algorithm it is.
    d3rlpy = "observation_shape" in params and isinstance(params.get("config"), dict)
    framework = metric_aliases.D3RLPY if d3rlpy else metric_aliases.recognize(names)
    beside = sidecar.find_settings(path)[0] if framework and framework.needs_settings else {}
    settings = _translate_d3rlpy(params) if d3rlpy else {**beside, **_read_settings(path)}
    algo = text(settings.get("algo.name"))
    if algo not in _OFFLINE.values():
        algo = hyperparameters.check_algorithm(histories.find_algorithm(algo, path.name, path.parent.name), names)
    # d3rlpy's `environment.csv` holds the returns of evaluations.
    own = [metric_aliases.Tag("val/roll/ep_rew_mean", "environment")]
    known = {tag.tag for tag in framework.tags} if framework else set()
    guessed = [*own, *(tag for tag in column_names.guess_columns(names).tags if tag.tag not in known)]
    table = [*(framework.table(algo) if framework else ()), *guessed, *metric_aliases.OWN]
    series = raw_log.series(options.table(table), settings)
    if not series:
        raise UsageError(
            f"{path}: no file is called as a metric ({', '.join(names[:8])}).\n  Nothing can be said about the run.\n"
            "  Say which is which: ",
            Argument("map", f"return={names[0] if names else 'FILE'}"),
        )
    notes = [f"{len(names)} files, one for each metric, were joined as one run"]
    offline = d3rlpy and not _WITH_ENV & set(names)
    if offline:
        notes.append("trained on recorded data: the axis counts gradient steps, and no env steps were taken")
    if skipped:
        notes.append(f"{skipped:,} lines that are no rows were left out")
    about = sb3_settings.read_yaml(path / _ABOUT, []) if (path / _ABOUT).is_file() else {}
    source = framework.source if framework and framework.source != metric_aliases.ANY else "mlflow" if about else "csv"
    made = histories.make_history(text(about.get("run_name")) or path.name, source, path, raw_log, series, settings, algo=algo, notes=notes)
    state = _STATES.get(whole(about.get("status")) or 0, "unknown")
    return [replace(made, state=state if made.state == "unknown" else made.state, env_steps=None if offline else made.env_steps)]


def _translate_d3rlpy(params: dict[str, Any]) -> dict[str, Any]:
    """d3rlpy's settings by our names; those of its algorithms for recorded data mean what they do there."""
    settings, config = sidecar.translate(params), params["config"]
    algo, given = _OFFLINE.get(str(config.get("type"))), config.get("params")
    if algo is None or not isinstance(given, dict):
        return settings
    settings.pop("algo.gae_lambda", None)
    settings["algo.name"] = algo
    settings |= {ours: value for word, ours in _OFFLINE_WORDS.get(algo, {}).items() if (value := real(given.get(word))) is not None}
    if (rate := real(given.get("alpha_learning_rate"))) is not None:
        settings["algo.cql_lagrange"] = rate > 0
    for word, ours in (("observation_scaler", "env.normalize_obs"), ("reward_scaler", "env.normalize_reward")):
        if isinstance(scaler := given.get(word), dict):
            settings[ours] = scaler.get("type", "none") != "none"
    return settings


def _read_points(file: Path) -> tuple[list[float], list[float], int]:
    """(steps, values, lines left out). Two columns are step and value; three are epoch, step, value or (MLflow) time, value, step."""
    steps, values, skipped = [], [], 0
    with text_files.open_text(file) as opened:
        for block, whole in text_files.read_blocks(opened):
            for line in block:
                cells = line.replace(b",", b" ").split()
                if not cells:
                    continue
                if len(cells) not in (2, 3) or not all(tables.is_number(cell) for cell in cells) or not whole:
                    skipped += 1
                    continue
                place, value = (2, 1) if len(cells) == 3 and b"," not in line else (-2, -1)
                steps.append(float(cells[place]))
                values.append(float(cells[value]))
    return steps, values, skipped


def _read_settings(path: Path) -> dict[str, Any]:
    """MLflow keeps every setting in a file of its own; others have a file beside, which is read later."""
    folder = path / "params"
    if not folder.is_dir():
        return {}
    raw = {}
    for file in sorted(folder.iterdir())[:_MAX_FILES]:
        if file.is_file():
            raw[file.name] = hyperparameters.parse_value(text_files.read_head(file).decode("utf-8", errors="replace").strip())
    return sidecar.translate(raw)
