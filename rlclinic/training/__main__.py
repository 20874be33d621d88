"""`python -m rlclinic.training RUN [RUN ...] [--resume]`: train run folders of one shape as one cohort."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from rlclinic.errors import RlclinicError
from rlclinic.runs.record import Run
from rlclinic.training import assembly, trainer
from rlclinic.training.trainer import Session


def main(arguments: Sequence[str] | None = None) -> int:
    """0: every member finished or was stopped. 1: at least one failed."""
    parser = argparse.ArgumentParser(prog="python -m rlclinic.training", description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders made by rlclinic train; all of one shape")
    parser.add_argument("--resume", action="store_true", help="go on from their newest checkpoints")
    asked = parser.parse_args(arguments)
    try:
        return 0 if train_runs(assembly.paths(asked.runs), resume=asked.resume, signals=True) else 1
    except RlclinicError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def train_runs(
    runs: Sequence[Run],
    *,
    resume: bool = False,
    factory: assembly.Factory | None = None,
    callback: Callable[[dict[str, Any]], bool | None] | None = None,
    signals: bool = False,
) -> bool:
    """Train folders that exist; True if no member failed. Runs that stand at different steps train one after the other."""
    torch.set_num_threads(runs[0].config.run.threads)
    fine = True
    for together in assembly.group_by_step(runs, resume=resume):
        cohort = assembly.assemble([run for run, _ in together], [start for _, start in together], factory)
        session = Session(cohort, callback)
        if signals:
            _listen(session)
        try:
            trainer.train(session)
        finally:
            trainer.close(session)
        fine = fine and all(member.state in ("finished", "stopped") for member in cohort.members)
        if session.stop_requested:
            break
    return fine


def _listen(session: Session) -> None:
    """First signal: checkpoint and stop after this iteration. Second: leave at once; the last checkpoint stands."""

    def ask(number: int, _: object) -> None:
        if session.stop_requested:
            os._exit(128 + number)
        session.stop_requested = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)


if __name__ == "__main__":
    sys.exit(main())
