"""A run as lists, pages, the index and live views show it: one description, of which each of them shows a part."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlclinic.runs import coerce
from rlclinic.runs.record import Run
from rlclinic.runs.status_file import Status

if TYPE_CHECKING:
    from rlclinic.runs.outcome import Verdict


@dataclass(frozen=True, slots=True)
class ListedRun:
    """What config.json and status.json say of a run. Two small files: a thousand runs are listed in a moment."""

    id: str
    group: str | None
    name: str
    """The config's name, CartPole-v1:ppo."""
    env: str
    algo: str
    seed: int
    state: str
    reason: str | None
    created: float
    started: float | None
    heartbeat: float
    """Unix seconds of its last sign of life."""
    resumes: int
    env_steps: int
    max_env_steps: int | None
    episodes: int | None
    return_mean: float | None
    """Mean return of the last training episodes."""
    eval_mean: float | None
    """The last evaluation."""
    best_eval: float | None
    threshold: float | None
    threshold_reached_at: int | None
    """Env step of the first evaluation that passes; see `rlclinic.runs.outcome`."""
    lost: bool | None
    """It reached the threshold, and ended clearly below it; None: not known."""
    success_rate: float | None
    """Of the last evaluation; None where the environment reports no success."""
    required_success: float | None
    """The share of successful episodes that it needs; None: none."""
    steps_per_second: float | None
    wall_seconds: float | None
    """From its start to its last sign of life; of one that was resumed, what its env steps took at its last speed."""
    parent: str | None
    trial: str | None
    label: str | None

    def pick(self, names: Container[str]) -> dict[str, Any]:
        """The fields that a view shows."""
        return {name: getattr(self, name) for name in self.__slots__ if name in names}


def describe_run(run: Run) -> ListedRun:
    """A run as it stands now."""
    status = run.status
    return ListedRun(
        id=run.id,
        group=run.group_id,
        name=run.name,
        env=run.env_id,
        algo=run.algo,
        seed=run.seed,
        state=status.state,
        reason=status.reason,
        created=run.created,
        started=status.started,
        heartbeat=status.heartbeat,
        resumes=status.resumes,
        env_steps=status.env_steps,
        max_env_steps=status.max_env_steps,
        episodes=status.episodes,
        return_mean=status.return_mean,
        eval_mean=status.eval_mean,
        best_eval=status.best_eval,
        threshold=run.threshold,
        threshold_reached_at=status.threshold_reached_at,
        lost=status.lost,
        success_rate=status.success_rate,
        required_success=run.goal.require_success(reported=status.success_rate is not None),
        steps_per_second=status.fps,
        wall_seconds=_wall_seconds(status),
        parent=run.parent,
        trial=coerce.text(run.record.get("trial")),
        label=coerce.text(run.record.get("label")),
    )


def _wall_seconds(status: Status) -> float | None:
    if status.started and not status.resumes and status.heartbeat >= status.started:
        return status.heartbeat - status.started
    return status.env_steps / status.fps if status.fps else None


def decide_verdict(members: Sequence[Mapping[str, Any]], threshold: float | None, *, imported: bool) -> "Verdict":
    """The verdict on a group from its runs as lists have them: by fields of `ListedRun`. `imported`: another framework trained them."""
    # Imported here: it needs numpy, and `runs list` shows no verdict.
    import numpy as np

    from rlclinic.runs import outcome

    evaluated = any(member["eval_mean"] is not None for member in members)
    outcomes = [
        outcome.Outcome(
            source="evaluation" if evaluated else "training",
            counts=evaluated or imported,
            threshold=threshold,
            required_success=member["required_success"],
            steps=np.empty(0),
            returns=np.array([value for value in (member["return_mean"],) if value is not None]),
            last=member["eval_mean"] if evaluated else member["return_mean"],
            best=member["best_eval"],
            best_at=None,
            reached_at=member["threshold_reached_at"],
            lost=bool(member["lost"]),
            last_success=None,
            recent_success=None,
        )
        for member in members
    ]
    return outcome.decide_verdict(outcomes, [member["state"] for member in members])
