"""gymnasium-solver's run folders, all generations of its names.

config.json is flat; schedules are side keys (`clip_range_schedule_end_value`). metrics.csv has a row for training and another
for validation in each epoch, joined by `epoch`: `total_timesteps` counts vector steps in the one and the evaluation's own steps
in the other. Numbers are rounded to a fixed number of decimals, so that 0.0 means "small".
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from rlclinic import plain_files
from rlclinic.errors import UsageError
from rlclinic.readers import histories, metric_aliases, tables, text_files
from rlclinic.readers.hyperparameters import load_aliases, make_schedule
from rlclinic.readers.options import Options
from rlclinic.readers.raw_log import RawLog
from rlclinic.readers.tables import Block
from rlclinic.readers.thinning import Column
from rlclinic.runs import disk
from rlclinic.runs.coerce import real, text, whole
from rlclinic.runs.history import History, Series, make_series

METRICS, LOG, CONFIGS = "metrics.csv", "run.log", ("config.json", "configs/config.json")
_ENV_STEPS: Final = "train/cnt/total_env_steps"
_LOG_BYTES: Final = 262_144
_ALERT: Final = re.compile(r"^- `([^`]+)` triggered in `([^`]+)` epochs", re.MULTILINE)
_MODELS: Final = {"mlp_tiny": [64], "mlp_small": [128, 128], "mlp_medium": [256, 256], "mlp_large": [512, 512]}
_ALGO: Final = frozenset(
    {
        *("n_steps", "batch_size", "n_epochs", "max_grad_norm", "gamma", "gae_lambda", "target_kl", "optimizer"),
        *("learning_rate", "clip_range", "clip_range_vf", "ent_coef", "vf_coef"),
    }
)

# Newest names first; those of its documents are ours.
TAGS: Final = metric_aliases.parse_table("""
    train/roll/ep_rew_mean | train/roll/ep_rew/mean
    train/roll/ep_rew_mean | train/ep_rew/mean
    train/roll/ep_rew_mean | train/ep_rew_mean
    train/roll/ep_rew_best | train/roll/ep_rew/best
    train/roll/ep_rew_best | train/ep_rew/best
    train/roll/ep_rew_best | train/ep_rew_best
    train/roll/ep_len_mean | train/roll/ep_len/mean
    train/roll/ep_len_mean | train/ep_len/mean
    train/roll/ep_len_mean | train/ep_len_mean
    total_episodes | train/cnt/total_episodes
    total_episodes | train/total_episodes
    train/loss/policy | train/opt/loss/policy
    train/loss/policy | train/policy_loss
    train/loss/value | train/opt/loss/value
    train/loss/value | train/value_loss
    train/loss/entropy | train/opt/loss/entropy
    train/loss/entropy | train/entropy_loss
    train/loss/total | train/opt/loss/total
    train/loss/total | train/loss/total
    train/loss/total | train/loss
    train/metrics/entropy | train/opt/policy/entropy
    train/metrics/entropy | train/policy/entropy
    train/metrics/entropy | train/entropy
    train/metrics/entropy | train/opt/loss/entropy | x -1
    train/metrics/entropy | train/loss/entropy | x -1
    train/metrics/entropy | train/entropy_loss | x -1
    train/metrics/kl_divergence | train/opt/ppo/approx_kl | mean over all epochs
    train/metrics/kl_divergence | train/ppo/approx_kl | mean over all epochs
    train/metrics/kl_divergence | train/approx_kl | mean over all epochs
    train/metrics/kl_signed | train/opt/ppo/kl | k1, mean over all epochs
    train/metrics/kl_signed | train/ppo/kl | k1, mean over all epochs
    train/metrics/kl_signed | train/kl_div | k1, mean over all epochs
    train/metrics/clip_fraction | train/opt/ppo/clip_fraction
    train/metrics/clip_fraction | train/ppo/clip_fraction
    train/metrics/clip_fraction | train/clip_fraction
    train/metrics/explained_variance | train/opt/value/explained_var | while learning
    train/metrics/explained_variance | train/ppo/explained_variance | while learning
    train/metrics/explained_variance | train/explained_var | while learning
    train/metrics/explained_variance | train/explained_variance | while learning
    train/metrics/grad_norm/all | train/opt/grads/norm/all
    train/metrics/grad_norm/actor_head | train/opt/grads/norm/policy_head
    train/metrics/grad_norm/critic_head | train/opt/grads/norm/value_head
    train/metrics/grad_norm/trunk | train/opt/grads/norm/backbone
    train/metrics/grad_norm/trunk | train/opt/grads/norm/mlp
    train/hp/learning_rate | train/hp/policy_lr
    train/hp/learning_rate | train/policy_lr
    train/hp/learning_rate | train/learning_rate
    train/hp/clip_range | train/clip_range
    train/hp/ent_coef | train/ent_coef
    train/hp/vf_coef | train/vf_coef
    time/fps | train/sys/timing/fps_instant
    time/fps | train/sys/timing/fps | since the start
    time/fps | train/roll/fps
    time/fps | train/fps
""")  # fmt: skip
VALIDATION: Final = metric_aliases.parse_table("""
    val/roll/ep_rew_mean | val/roll/ep_rew/mean
    val/roll/ep_rew_mean | val/roll/ep_rew_mean
    val/roll/ep_rew_mean | val/ep_rew/mean
    val/roll/ep_rew_mean | val/ep_rew_mean
    val/roll/ep_rew_mean | eval/roll/ep_rew/mean
    val/roll/ep_rew_mean | eval/ep_rew_mean
    val/roll/ep_len_mean | val/roll/ep_len/mean
    val/roll/ep_len_mean | val/roll/ep_len_mean
    val/roll/ep_len_mean | val/ep_len/mean
    val/roll/ep_len_mean | val/ep_len_mean
    val/roll/ep_len_mean | eval/ep_len_mean
""")  # fmt: skip
_IN_VALIDATION: Final = ("val/", "eval/")


def matches(path: Path) -> bool:
    """A run folder, its metrics.csv, or a folder of runs."""
    if path.is_file():
        return path.name == METRICS and _read_config(path.parent) is not None
    return _read_config(path) is not None or any(_read_config(folder) is not None for folder in _find_folders(path))


def read(path: Path, options: Options) -> list[History]:
    """A history for each run folder that has rows."""
    folder = path.parent if path.is_file() else path
    folders = (
        [folder] if _read_config(folder) is not None else [inner for inner in _find_folders(folder) if _read_config(inner) is not None]
    )
    found = [history for inner in folders if (history := _read_run(inner, options)) is not None]
    if not found:
        raise UsageError(f"{path}: no {METRICS} with rows in it (yet).\n  Nothing can be said about it.\n  Wait for the first epoch")
    return found


def _find_folders(path: Path) -> Iterator[Path]:
    try:
        entries = sorted(path.iterdir())
    except OSError:
        return
    yield from (entry for entry in entries if entry.is_dir() and not entry.is_symlink() and not entry.name.startswith((".", "@")))


def _read_config(folder: Path) -> dict[str, Any] | None:
    """The flat config of a run; None if the folder is no run of gymnasium-solver's. Ours is nested."""
    for name in CONFIGS:
        config = disk.read_json(folder / name)
        if config is not None and isinstance(config.get("env_id"), str) and not isinstance(config.get("env"), dict):
            return config
    return None


def translate(config: Mapping[str, Any]) -> dict[str, Any]:
    """Its settings by our names; defaults that it does not write are not added."""
    found: dict[str, Any] = {}
    names = load_aliases()
    for key in config:
        ours = names.get(key) or (f"algo.{key}" if key in _ALGO else None)
        value = make_schedule(config, key)
        if ours and ours not in ("env.wrappers", "net.hidden", "algo.normalize_advantage") and _is_plain(value):
            found[ours] = value
    found |= _translate_environment(config) | _translate_network(config)
    advantages = config.get("normalize_advantages", config.get("normalize_advantage"))
    if isinstance(advantages, bool | str):
        found["algo.normalize_advantage"] = advantages if isinstance(advantages, str) else "batch" if advantages else "off"
    share, n_envs, n_steps = config.get("batch_size"), whole(config.get("n_envs")), whole(config.get("n_steps"))
    if isinstance(share, float) and 0 < share <= 1 and n_envs and n_steps:
        found["algo.batch_size"] = int(share * n_envs * n_steps)
    if (budget := whole(config.get("max_env_steps"))) is not None:
        found["run.max_env_steps"] = budget
    if (seed := whole(config.get("seed"))) is not None:
        found["seed"] = seed
    threshold = _find_threshold(config)
    if threshold is not None:
        found["spec.threshold"] = threshold
    return {key: value for key, value in found.items() if value is not None or key in ("algo.target_kl", "algo.clip_range_vf")}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str) or (isinstance(value, Mapping) and "schedule" in value)


def _translate_environment(config: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(n_envs := config.get("n_envs"), int):
        found["env.n_envs"] = n_envs
    for key in ("normalize_obs", "normalize_reward"):
        if key in config:
            found[f"env.{key}"] = bool(config[key])
    if isinstance(stack := config.get("frame_stack"), int):
        found["env.frame_stack"] = stack
    if isinstance(limit := config.get("max_episode_steps"), int):
        found["env.max_episode_steps"] = limit
    if isinstance(wrappers := config.get("env_wrappers"), list) and wrappers:
        found["env.wrappers"] = [text(item.get("id") if isinstance(item, Mapping) else item) or "?" for item in wrappers[:50]]
    return found


def _translate_network(config: Mapping[str, Any]) -> dict[str, Any]:
    hidden = config.get("hidden_dims")
    if isinstance(hidden, int):
        hidden = [hidden]
    if not (isinstance(hidden, list) and all(isinstance(width, int) for width in hidden)):
        hidden = _MODELS.get(text(config.get("model_id")) or "")
    found = {} if hidden is None else {"net.hidden": hidden}
    activation = config.get("activation", "relu" if "model_id" in config else None)
    return found | ({"net.activation": activation} if isinstance(activation, str) else {})


def _find_threshold(config: Mapping[str, Any]) -> float | None:
    """The threshold that stops a run, or the one that its spec only mentions."""
    candidates = [config.get("reward_threshold"), config.get("early_stop_on_eval_threshold")]
    spec = config.get("spec")
    for block in ("returns", "rewards"):
        inner = spec.get(block) if isinstance(spec, Mapping) else None
        candidates.append(inner.get("threshold_solved") if isinstance(inner, Mapping) else None)
    return next((number for value in candidates if (number := real(value)) is not None), None)


def _read_run(folder: Path, options: Options) -> History | None:
    config = _read_config(folder) or {}
    known, notes = translate(config), []
    if not (folder / METRICS).is_file():
        return None
    train, validation, in_env_steps, count = _read_rows(folder / METRICS, options)
    if count.skipped:
        notes.append(f"{count.skipped:,} lines of {METRICS} that are no rows were left out")
    if not in_env_steps:
        _set_axis(train, config, notes)
    series = train.series(
        options.table([*TAGS, *(tag for tag in metric_aliases.OWN if not tag.canonical.startswith("val/"))]), known, rounded=True
    )
    series |= _place_validation(train, validation)
    if not series:
        return None
    log = _read_log(folder / LOG)
    algo = histories.find_algorithm(config.get("algo_id"))
    alerts = _ALERT.findall(log)
    if alerts:
        notes.append("its own alerts: " + ", ".join(f"{name} in {share} epochs" for name, share in alerts[:5]))
    made = histories.make_history(folder.name, "gymnasium-solver", folder, train, series, known, algo=algo, notes=notes, log=log)
    return _add_footer(made, log)


def _read_rows(path: Path, options: Options) -> tuple[RawLog, RawLog, bool, tables.LeftOut]:
    """Training rows on the axis of its step counter, validation rows on that of epochs."""
    train, validation, count, in_env_steps = RawLog(options.episodic), RawLog(), tables.LeftOut(), False
    with text_files.open_text(path) as file:
        for block in tables.read_csv(file, count):
            tested = np.array([name.startswith(_IN_VALIDATION) for name in block.names])
            is_validation = (~block.blank[:, tested]).any(1) if tested.any() else np.zeros(len(block.values), dtype=bool)
            steps = _get_column(block, _ENV_STEPS if _ENV_STEPS in block.names else "total_timesteps")
            train.add_rows(block.names, np.where(is_validation, np.nan, steps), block.values, block.blank)
            validation.add_rows(block.names, np.where(is_validation, _get_column(block, "epoch"), np.nan), block.values, block.blank)
            in_env_steps = in_env_steps or _ENV_STEPS in block.names
    return train, validation, in_env_steps, count


def _get_column(block: Block, name: str) -> Column:
    return block.values[:, block.names.index(name)] if name in block.names else np.full(len(block.values), np.nan)


def _set_axis(train: RawLog, config: Mapping[str, Any], notes: list[str]) -> None:
    """`total_timesteps` counts steps of all envs at once: told by its growth per epoch, where the config says the sizes."""
    n_envs, n_steps = whole(config.get("n_envs")), whole(config.get("n_steps"))
    if n_envs is None or n_envs < 1:
        notes.append("n_envs is not known: the axis counts steps of all envs at once; a map of step=step*N_ENVS makes env steps of them")
        return
    steps, epochs = train.raw("epoch")
    growth = np.diff(steps) / np.maximum(np.diff(epochs), 1.0) if len(steps) > 1 else np.empty(0)
    if n_steps and len(growth) and np.median(growth) >= 0.75 * n_steps * n_envs and n_envs > 1:
        return
    train.step_factor = float(n_envs)
    if n_envs > 1:
        notes.append(f"total_timesteps counts steps of all {n_envs} envs at once: multiplied by {n_envs}")


def _place_validation(train: RawLog, validation: RawLog) -> dict[str, Series]:
    """Evaluations at the env steps of the epoch that they were made in."""
    found = {}
    steps, epochs = train.raw("epoch")
    for name, series in validation.series(VALIDATION, {}, rounded=True).items():
        if len(epochs):
            order = np.argsort(epochs, kind="stable")
            at = np.interp(series.steps, epochs[order], steps[order])
            made = make_series(at, series.values, series.name, rounded=True)
            if made is not None:
                found[name] = made
    return found


def _read_log(path: Path) -> str:
    try:
        with plain_files.open_plain(path) as file:
            file.seek(max(0, path.stat().st_size - _LOG_BYTES))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def _add_footer(history: History, log: str) -> History:
    """What the last lines of run.log say about the end."""
    if history.state != "failed" and "Training Session Ended with Error" in log:
        return replace(history, state="failed", reason="run.log ends with an error")
    if "Training Session Completed Successfully" in log:
        early = re.search(r"^Early stopping! .*$", log, re.MULTILINE)
        return replace(history, state="finished", reason=early[0] if early else None)
    return history
