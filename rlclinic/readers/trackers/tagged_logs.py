"""Logs of tags that have steps of their own (TensorBoard, Weights & Biases, MLflow) as histories: whose tags they are, what the axis
counts, and what the run's settings are called."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from rlclinic.readers import column_names, histories, hyperparameters, metric_aliases, sidecar
from rlclinic.readers.hyperparameters import Settings
from rlclinic.readers.metric_aliases import Framework, Tag
from rlclinic.readers.options import Options
from rlclinic.readers.raw_log import RawLog
from rlclinic.runs.coerce import real
from rlclinic.runs.history import History

_CLEANRL_NAME: Final = re.compile(r"(?P<env>.+)__(?P<exp>[^/]+?)__(?P<seed>\d+)__(?P<time>\d+)")
_CLEANRL_SIGNS: Final = ("exp_name", "num_steps", "clip_coef", "start_e", "policy_frequency", "torch_deterministic")
_FEW_EPISODES: Final = 2
_MOST: Final = 1e7
"""More envs, or steps of one in a rollout, are no setting that anybody trains with."""
_COUNTERS: Final = ("num_env_steps_sampled_lifetime", "timesteps_total")
"""What RLlib counts in a series of its own while iterations stand on the axis."""


def translate_settings(raw: Mapping[str, Any], name: str) -> Settings:
    """Settings that a script wrote into its log, and those in the name that CleanRL gives a run."""
    usual, cleanrl = sidecar.translate(raw), hyperparameters.translate_cleanrl(raw)
    settings = {**usual, **cleanrl} if any(key in raw for key in _CLEANRL_SIGNS) else {**cleanrl, **usual}
    named = _CLEANRL_NAME.fullmatch(name)
    algo = histories.find_algorithm(raw.get("exp_name"), named and named["exp"])
    if algo is not None:
        settings["algo.name"] = algo
    if named is not None:
        settings.setdefault("env.id", named["env"])
        settings.setdefault("seed", int(named["seed"]))
    return settings


def make_history(
    name: str,
    kind: str,
    folder: Path,
    raw_log: RawLog,
    settings: Settings,
    options: Options,
    *,
    notes: Iterable[str] = (),
    last_notes: Iterable[str] = (),
    log: str = "",
    on_env_steps: bool = False,
) -> History:
    """One history; its series are empty if no tag is known. kind: what the source is called where no framework is recognized.

    on_env_steps: the caller has put env steps on the axis, whatever the framework counts there.
    """
    names, said = raw_log.names, list(notes)
    framework = metric_aliases.recognize(names)
    if framework is not None:
        raw_log.leave_out(framework.left_out)
    if framework is not None and framework.needs_settings:
        run_folder = sidecar.find_run_folder(folder)
        beside, file = sidecar.find_settings(run_folder)
        settings = {**beside, **settings}
        if file is not None:
            said.append(f"{len(beside)} settings from {file.relative_to(run_folder)}, which lies beside it")
    above = (folder.name, folder.name.rsplit("_", 1)[-1], *(parent.name for parent in list(folder.parents)[:2]))
    algo = hyperparameters.check_algorithm(histories.find_algorithm(settings.get("algo.name"), *above), names)
    if framework is metric_aliases.TIANSHOU:
        _join_tianshou(raw_log, said)
    table = framework.table(algo) if framework else _guess_tags(names)
    if not on_env_steps:
        _set_axis(raw_log, framework, settings, options, said)
    series = raw_log.series(options.table(table), settings)
    if framework is None and series:
        said.append("tags of no framework that is known: metrics by their names; a map of METRIC=TAG corrects them")
    source = framework.source if framework and framework.source != metric_aliases.ANY else kind
    return histories.make_history(name, source, folder, raw_log, series, settings, algo=algo, notes=[*said, *last_notes], log=log)


def _join_tianshou(raw_log: RawLog, notes: list[str]) -> None:
    """Tianshou counts env steps for what it collects and updates for what it learns; and a short collection holds an episode or none."""
    (collected, _), (updates, _) = raw_log.raw("training/env_step"), raw_log.raw("update/update_step")
    if len(collected) and len(updates) and updates[-1] > 0 and collected[-1] != updates[-1]:
        factor = float(collected[-1] / updates[-1])
        raw_log.scale_steps("update/", factor)
        notes.append(f"updates on the axis of losses: {factor:,.4g} env steps each")
    _, episodes = raw_log.raw("training/n_collected_episodes")
    if (episodes > 0).any() and np.median(episodes[episodes > 0]) <= _FEW_EPISODES:
        for name in ("training/returns_stat/mean", "training/lens_stat/mean"):
            raw_log.count_as_episodes(name)


def _guess_tags(names: list[str]) -> list[Tag]:
    return [*(Tag(tag.canonical, tag.tag) for tag in column_names.guess_columns(names).tags), *metric_aliases.OWN]


def _set_axis(raw_log: RawLog, framework: Framework | None, settings: Mapping[str, Any], options: Options, notes: list[str]) -> None:
    """Turn a framework's own counter into env steps, where the numbers for it are known or given."""
    axis = framework.axis if framework else "env_steps"
    needed = {"env_steps": (), "vec_steps": ("env.n_envs",), "iterations": ("env.n_envs", "algo.n_steps")}[axis]
    sizes = [size if (size := real(settings.get(name))) and 1 <= size <= _MOST else None for name in needed]
    counted = [raw_log.raw(name) for name in _COUNTERS if name in raw_log.names]
    if options.mapping.step_factor != 1.0:
        raw_log.step_factor = options.mapping.step_factor
    elif counted and len(counted[0][0]) and counted[0][0][-1] > 0 and counted[0][1][-1] != counted[0][0][-1]:
        raw_log.step_factor = float(counted[0][1][-1] / counted[0][0][-1])
        notes.append(f"iterations on the axis: {raw_log.step_factor:,.4g} env steps each, as the log counts them")
    elif all(sizes):
        raw_log.step_factor = float(np.prod([size for size in sizes if size is not None]))
    elif framework is not None:
        unit = {"vec_steps": "steps of all envs at once", "iterations": "iterations"}[axis]
        notes.append(f"{framework.name} counts {unit} on the axis; a map of step=step*FACTOR makes env steps of them")
