"""A policy that was not kept: the run is trained again up to it, with its own seed, and an episode of it is recorded.

python -m rlclinic.ops.runs.train_again RUNS_DIR RUN STEP FOLDER KIND     writes FOLDER/<env step>.KIND and .json, and says the env step

What is trained here lies in a folder of its own that is gone afterwards. Evaluations and films change nothing of what a run learns, so
that the policy is the one that the run had, as long as its environment is repeatable.
"""

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rlclinic.actions import Action
from rlclinic.config import Config
from rlclinic.errors import RlclinicError, UsageError
from rlclinic.ops.runs import policy
from rlclinic.runs import env_code
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store


def check(run: Run, step: int) -> None:
    """UsageError where training again would end in another policy than the run had."""
    why = None
    if run.parent is not None:
        why = f"it went on from {run.parent}"
    elif run.interventions:
        why = "its numbers were changed while it trained"
    elif env_code.list_changes(run):
        why = "the code of its environment has changed since"
    if why is not None:
        raise UsageError(
            f"no policy of {run.id} from env step {step:,} was kept, and training it again would not lead there: {why}.\n"
            "  There is no film of it. Films are made while a run trains, if it is asked for: ",
            Action("train", run.id, set=[f"run.film_every_env_steps={max(1, run.config.run.max_env_steps // 10)}"]),
        )


def record(run: Run, step: int, folder: Path, kind: str) -> int:
    """Train up to an env step and record an episode; the env step that it then stands at."""
    from rlclinic.training.__main__ import train_runs

    given = run.config.model_dump()
    # What a run is watched with, and nothing that it learns from.
    quiet = {"film_every_env_steps": None, "histograms_every_env_steps": None, "tensorboard": False, "stop_at_threshold": False}
    config = Config.model_validate({**given, "run": {**given["run"], **quiet, "eval_episodes": 0}})
    with tempfile.TemporaryDirectory() as place:
        (trained,) = Store(Path(place)).create_group([config]).runs
        if not train_runs([trained], callback=lambda row: int(row["total_timesteps"]) < step):
            raise UsageError(f"training {run.id} again failed: {trained.status.reason}.\n  There is no film of it.")
        reached = trained.checkpoints[-1].step
        film, trace = Path(place) / f"film.{kind}", Path(place) / "film.json"
        policy.evaluate(f"{trained.id}@{reached}", Path(place), episodes=1, video=film, trace=trace)
        for file in (film, trace):
            if file.exists():
                # Under another name first: whoever lists the films must not find half of one.
                half = Path(shutil.move(file, folder / f"half-{reached}{file.suffix}"))
                half.replace(folder / f"{reached}{file.suffix}")
    return reached


def main(arguments: Sequence[str] | None = None) -> int:
    """What a process of its own does: an environment that crashes takes nothing with it."""
    runs_dir, run, step, folder, kind = arguments or sys.argv[1:]
    try:
        print(record(Store(Path(runs_dir)).run(run), int(step), Path(folder), kind))
    except RlclinicError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
