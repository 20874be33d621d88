"""Status of another framework's run: its log is read as it is now, and nothing is ever written to it."""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rlclinic import readers
from rlclinic.diagnosis import names
from rlclinic.ops import outlook
from rlclinic.ops.live import estimate
from rlclinic.ops.outcomes import LiveGroup, LiveMember
from rlclinic.ops.results import State
from rlclinic.runs.history import History

SILENT_SECONDS: Final = 300.0
"""A log that nobody has written to for longer belongs to a run that has ended."""
_MOST_FILES: Final = 500


def is_foreign(selector: str, runs_dir: Path) -> bool:
    """Whether a selector is a path to something that no store of ours holds."""
    path = Path(selector)
    if selector.startswith("@") or not path.exists() or (runs_dir / path.name / "config.json").is_file():
        return False
    return not any((path / name).is_file() for name in ("status.json", "group.json"))


def observe_folder(target: str, charts: outlook.Charts, *, threshold: float | None = None, budget: int | None = None) -> list[LiveGroup]:
    """One group for each config among the runs of a folder."""
    running = _newest(Path(target)) > time.time() - SILENT_SECONDS
    found = [_placed(each, running) for each in readers.read(target, threshold=threshold, budget=budget)]
    groups: dict[str, list[History]] = {}
    for each in found:
        settings = {key: value for key, value in each.settings.items() if key not in ("seed", "name")}
        key = json.dumps([each.source, each.env_id, each.algo, settings], sort_keys=True, default=str)
        groups.setdefault(key, []).append(each)
    return [_group(target, each, charts) for each in groups.values()]


def _placed(history: History, running: bool) -> History:
    """With a state, where the log has none: running while its files change."""
    if history.state != "unknown":
        return history
    done = history.max_env_steps is not None and (history.env_steps or 0) >= 0.98 * history.max_env_steps
    return replace(history, state="finished" if done else "running" if running else "stopped")


def _newest(path: Path) -> float:
    """When something in a folder was last written, in Unix seconds."""
    files = [path] if path.is_file() else [file for _, file in zip(range(_MOST_FILES), path.rglob("*"), strict=False)]
    times = []
    for file in files:
        try:
            times.append(file.stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)


def _group(target: str, histories: Sequence[History], charts: outlook.Charts) -> LiveGroup:
    first = histories[0]
    members = [_member(place, each) for place, each in enumerate(histories)]
    rates = [member.steps_per_second for member in members if member.steps_per_second and member.state == "running"]
    left = sum(max(0, (member.max_env_steps or 0) - member.env_steps) for member in members if member.state == "running")
    chart = charts.chart(first.env_id, first.algo) if first.env_id and first.algo else None
    running = any(member.state == "running" for member in members)
    return LiveGroup(
        id=first.id if len(histories) == 1 else target,
        name=f"{first.env_id or '?'}:{first.algo or '?'}",
        threshold=first.threshold,
        state="running" if running else members[0].state,
        members=members,
        env_steps=sum(member.env_steps for member in members) // len(members),
        max_env_steps=first.max_env_steps,
        steps_per_second=sum(rates) if rates else None,
        eta_seconds=left / sum(rates) if rates and left else None,
        return_mean=estimate([member.return_mean for member in members if member.return_mean is not None]),
        outlook=outlook.assess(histories, target, chart),
    )


def _member(place: int, history: History) -> LiveMember:
    def last(name: str) -> float | None:
        found = history.series.get(name)
        return None if found is None else found.last

    judged = history.series.get(names.EVAL_RETURN)
    best = float(judged.values.max()) if judged is not None and len(judged) else None
    threshold = math.inf if history.threshold is None else history.threshold
    passed = [float(at) for at in judged.steps[judged.values >= threshold]] if judged is not None else []
    state: State = history.state if history.state in ("finished", "running", "stopped", "failed") else "stopped"  # type: ignore[assignment]
    episodes = last(names.EPISODES)
    return LiveMember(
        run=history.id,
        seed=place if history.seed is None else history.seed,
        state=state,
        reason=history.reason,
        env_steps=history.env_steps or 0,
        max_env_steps=history.max_env_steps,
        episodes=None if episodes is None else int(episodes),
        return_mean=last(names.RETURN),
        eval_mean=last(names.EVAL_RETURN),
        best_eval=best,
        kl=last(names.KL),
        entropy=last(names.ENTROPY),
        explained_variance=last(names.EXPLAINED_VARIANCE),
        steps_per_second=last(names.FPS),
        threshold_reached_at=int(passed[0]) if passed else None,
    )
