"""From what was read to a History: what settings and series say about each other, and how the run ended."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from rlclinic.readers import hyperparameters
from rlclinic.readers.raw_log import RawLog
from rlclinic.runs import history
from rlclinic.runs.coerce import real, text, whole
from rlclinic.runs.history import History, Series

_LOGGED: Final = (
    "learning_rate",
    "clip_range",
    "clip_range_vf",
    "target_kl",
    "ent_coef",
    "vf_coef",
    "gamma",
    "gae_lambda",
    "max_grad_norm",
)
_ERROR: Final = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt|Exit|Killed|Warning|Failure|Fault)\w*)(?::\s*(.*))?$")
_TRACEBACK: Final = "Traceback (most recent call last)"


def make_history(
    name: str,
    source: str,
    path: Path | None,
    raw_log: RawLog,
    series: Mapping[str, Series],
    settings: Mapping[str, Any],
    *,
    algo: str | None = None,
    notes: Iterable[str] = (),
    log: str = "",
    env_steps: int | None = None,
) -> History:
    """One history. What is not passed is taken from the settings, from constant columns, and from the end of the log."""
    known = dict(settings)
    told = find_constants(series, known)
    known |= told
    if algo is not None:
        known.setdefault("algo.name", algo)
    budget = known.get("run.max_env_steps")
    steps = env_steps if env_steps is not None else raw_log.env_steps
    state, reason = find_ending(log, steps, budget, known)
    said = [f"{', '.join(told)}: as the log has them, constant"] if told else []
    return History(
        id=name,
        source=source,
        path=path,
        env_id=text(known.get("env.id")),
        algo=text(known.get("algo.name")),
        seed=whole(known.get("seed")),
        threshold=real(known.get("spec.threshold")),
        success=real(known.get("spec.success")),
        max_env_steps=whole(budget),
        env_steps=steps,
        settings=known,
        series=dict(series),
        state=state,
        reason=reason,
        segments=raw_log.segments,
        log_tail=history.tail(log) if log else "",
        notes=(*notes, *said, *raw_log.notes),
    )


def find_constants(series: Mapping[str, Series], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that nobody wrote down but that the log shows, the same in every row."""
    found = {}
    for name in _LOGGED:
        values = series[f"train/hp/{name}"].values if f"train/hp/{name}" in series else np.empty(0)
        if f"algo.{name}" not in settings and len(values) > 1 and np.ptp(values) <= 1e-9 * abs(values[0]):
            # Event files hold 32 bits: 0.0007 comes back as 0.000699999975.
            found[f"algo.{name}"] = float(f"{values[0]:.7g}")
    return found


def infer_rollout_size(main: RawLog, settings: dict[str, Any], algo: str | None) -> None:
    """Sizes that nobody wrote down: steps per iteration and passes per update, where they are the same in every row."""
    if algo not in ("ppo", "a2c", "recurrent_ppo", "maskable_ppo"):
        return
    steps, iterations = main.raw("time/iterations")
    size = steps / iterations if len(steps) and iterations.all() else np.empty(0)
    if not len(size) or main.segments or not (size == size[0]).all():
        return
    n_envs = settings.get("env.n_envs")
    if isinstance(n_envs, int) and n_envs > 0 and size[0] % n_envs == 0:
        settings.setdefault("algo.n_steps", int(size[0]) // n_envs)
    at, updates = main.raw("train/n_updates")
    # A row shows the updates of the rollouts before its own; an evaluation may write it in the middle of one.
    rollouts = np.ceil(at / size[0]) - 1
    passes = updates[rollouts > 0] / rollouts[rollouts > 0]
    if algo == "ppo" and len(passes) and (passes == passes[0]).all() and passes[0] == int(passes[0]) >= 1:
        settings.setdefault("algo.n_epochs", int(passes[0]))


def find_ending(log: str, env_steps: int | None, budget: Any, settings: Mapping[str, Any]) -> tuple[str, str | None]:
    """(state, reason): an error at the end of the log, or the budget used up to less than one rollout; otherwise unknown."""
    failed = find_error(log)
    if failed is not None:
        return failed
    planned = real(budget)
    if env_steps is None or planned is None:
        return "unknown", None
    rollout = (real(settings.get("env.n_envs")) or 1.0) * (real(settings.get("algo.n_steps")) or 1.0)
    return ("finished", None) if env_steps >= planned - max(rollout, 0.02 * planned) else ("unknown", None)


def find_error(log: str) -> tuple[str, str] | None:
    """How a log ends in an error; None if it does not."""
    last = log.rfind(_TRACEBACK)
    if last >= 0 and "| time/ " in log[last:]:
        return None  # it was caught: training went on and logged
    lines = [line.strip() for line in log[last:].splitlines() if line.strip()] if last >= 0 else []
    for line in reversed(lines):
        match = _ERROR.match(line[:400])
        if match is not None:
            return ("stopped" if match[1] == "KeyboardInterrupt" else "failed"), line[:400]
    return ("failed", "a traceback without an end") if lines else None


def find_algorithm(*hints: object) -> str | None:
    """The first of several names that begins with an algorithm's."""
    return hyperparameters.find_first(hyperparameters.find_algorithm(hint) for hint in hints if hint)
