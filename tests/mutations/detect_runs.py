"""Detectors for whole runs of a few iterations, by what they leave in their folders."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rlclinic.training import evaluation
from rlclinic.training.__main__ import train_runs
from tests.mutations.tiny import config, folders, last_policy, rows_without_clock

NORMALIZED = {"normalize_obs": True, "normalize_reward": True}


def the_best_checkpoint_has_the_best_evaluation() -> None:
    """Evaluations of 5, 9 and 3: @best is the second of three checkpoints."""
    with TemporaryDirectory() as folder, _evaluations(5.0, 9.0, 3.0):
        (run,) = folders(Path(folder), config())
        train_runs([run])
        assert run.checkpoint("@best").step == 128, (
            f"@best is the checkpoint at {run.checkpoint('@best').step}, 128 had the best evaluation"
        )
        assert run.status.best_eval == 9.0
        assert run.status.eval_mean == 3.0


@contextmanager
def _evaluations(*returns: float) -> Iterator[None]:
    """Evaluations that come out as told."""
    left = list(returns)

    def told(plan: Any, learner: Any, env: Any, **_: Any) -> evaluation.Evaluation:
        blank = np.zeros((env.members, env.n_envs))
        return evaluation.Evaluation(blank + left.pop(0), blank, blank)

    original = evaluation.evaluate
    evaluation.evaluate = told
    try:
        yield
    finally:
        evaluation.evaluate = original


def a_resumed_run_is_one_that_never_stopped() -> None:
    """Stopped after the third row and resumed: the same rows and the same weights as in one go."""
    with TemporaryDirectory() as folder:
        made = config(env=NORMALIZED, run={"eval_episodes": 0, "checkpoint_every_env_steps": 96})
        whole, parts = (folders(Path(folder) / name, made)[0] for name in ("whole", "parts"))
        train_runs([whole])
        rows: list[Any] = []

        def until_the_third(row: dict[str, Any]) -> bool:
            rows.append(row)
            return len(rows) < 3

        train_runs([parts], callback=until_the_third)
        assert parts.status.state == "stopped"
        train_runs([parts], resume=True)
        assert parts.status.state == "finished"
        assert len(rows_without_clock(whole)) == 7
        different = [
            n for n, pair in enumerate(zip(rows_without_clock(whole), rows_without_clock(parts), strict=True)) if pair[0] != pair[1]
        ]
        assert not different, f"rows {different} differ after a resume"
        assert last_policy(whole) == last_policy(parts), "weights or statistics differ after a resume"


def an_update_that_is_not_finite_is_refused() -> None:
    """A learning rate of 1e38 makes one member's weights infinite: it fails and says so, its neighbour does not notice."""
    with TemporaryDirectory() as folder:
        made = config(run={"eval_episodes": 0})
        (good, alone), (bad,) = folders(Path(folder), made, seeds=(0, 1)), folders(Path(folder), config(algo={"learning_rate": 1e38}))
        assert not train_runs([bad, good]), "a member with infinite weights counts as fine"
        assert bad.status.state == "failed"
        assert "not finite" in (bad.status.reason or "")
        assert good.status.state == "finished"
        assert alone.status.state == "queued"


DETECTORS = (the_best_checkpoint_has_the_best_evaluation, a_resumed_run_is_one_that_never_stopped, an_update_that_is_not_finite_is_refused)
