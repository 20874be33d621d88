"""`curriculum show`: which stages a group went through, how it left them, and what it still can do."""

from pathlib import Path

import numpy as np

from rlclinic.actions import Change
from rlclinic.config import CurriculumConfig
from rlclinic.errors import UsageError
from rlclinic.ops.diagnose.diagnose import read
from rlclinic.report.models import CurriculumReport, CurriculumRun, CurriculumTask, StageStay
from rlclinic.runs.history import History
from rlclinic.runs.record import Run

STAGE = "train/curriculum/stage"
ENDS = {"promotions": "mastered", "escapes": "left after too long", "demotions": "left to go back"}
"""What a counter that rose says of how a stage was left."""


def show_curriculum(target: str = "@last", runs_dir: Path = Path("runs")) -> CurriculumReport:
    """Of a group or a run that was trained with a curriculum."""
    owner, groups = read(target, runs_dir, None, None, ())
    runs = [] if owner is None else [owner] if isinstance(owner, Run) else list(owner.runs)
    curriculum = runs[0].config.curriculum if runs else None
    if owner is None or curriculum is None:
        raise UsageError(
            f"{target} was trained without a curriculum.\n  There are no stages to show.\n  Try: a run whose settings have one, e.g. ",
            Change("curriculum", "{stages: [...]}"),
        )
    return CurriculumReport(
        target=owner.id,
        kind=curriculum.kind,
        tasks=[task.name for task in curriculum.tasks],
        runs=[_describe(history, curriculum) for history in groups[0]],
    )


def _describe(history: History, curriculum: CurriculumConfig) -> CurriculumRun:
    tasks = []
    if curriculum.levels is None:
        for number, task in enumerate(curriculum.tasks, 1):
            threshold = curriculum.stages[number - 1].success_threshold if curriculum.stages else None
            episodes = _last(history, f"train/stage/{number}/episodes")
            tasks.append(
                CurriculumTask(
                    name=task.name,
                    threshold=threshold,
                    episodes=None if episodes is None else int(episodes),
                    training=_last(history, f"train/stage/{number}/success_rate"),
                    evaluation=_last(history, f"val/stage/{number}/success_rate"),
                    best=_best(history, f"val/stage/{number}/success_rate"),
                )
            )
    return CurriculumRun(
        run=history.id,
        env_steps=history.env_steps or 0,
        success=_last(history, "val/roll/success_rate"),
        spread=_last(history, "train/curriculum/spread"),
        target_share=_last(history, "train/curriculum/target_share"),
        stays=_find_stays(history, [task.name for task in curriculum.tasks]) if curriculum.kind == "stages" else [],
        tasks=tasks,
    )


def _last(history: History, name: str) -> float | None:
    series = history.series.get(name)
    return None if series is None or not len(series) else float(series.values[-1])


def _best(history: History, name: str) -> float | None:
    series = history.series.get(name)
    return None if series is None or not len(series) else float(series.values.max())


def _find_stays(history: History, names: list[str]) -> list[StageStay]:
    """One after the other, as rows saw them: a stage that came and went between two rows is not among them."""
    stage = history.series.get(STAGE)
    if stage is None or not len(stage):
        return []
    numbers = stage.values.astype(int)
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist()]
    entered = history.series.get("train/curriculum/stage_env_steps")
    counters = {name: history.series.get(f"train/curriculum/{name}") for name in ENDS}
    stays = []
    for place, start in enumerate(starts):
        after = starts[place + 1] if place + 1 < len(starts) else None
        how = None
        if after is not None:
            rose = [name for name, series in counters.items() if series is not None and series.values[after] > series.values[after - 1]]
            how = ENDS[rose[0]] if rose else "left"
        began = int(entered.values[start]) if entered is not None and len(entered) == len(stage) else int(stage.steps[start])
        ended = None
        if after is not None:
            ended = int(entered.values[after]) if entered is not None and len(entered) == len(stage) else int(stage.steps[after])
        stays.append(StageStay(stage=int(numbers[start]), name=names[numbers[start] - 1], entered=began, left=ended, how=how))
    return stays
