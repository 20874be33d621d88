"""`python -m rlclinic.training RUN [RUN ...] [--resume]`: train run folders of one shape as one cohort."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from rlclinic.errors import RlclinicError, RunError
from rlclinic.runs import launcher_status
from rlclinic.runs.record import Run
from rlclinic.training import assembly, trainer
from rlclinic.training.engines import gpu_memory
from rlclinic.training.loops import watchdog
from rlclinic.training.parallel import follower, ranks
from rlclinic.training.parallel.watch import RankLost
from rlclinic.training.trainer import Session


def main(arguments: Sequence[str] | None = None) -> int:
    """0: every member finished or was stopped. 1: at least one failed."""
    parser = argparse.ArgumentParser(prog="python -m rlclinic.training", description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders made by rlclinic train; all of one shape")
    parser.add_argument("--resume", action="store_true", help="go on from their newest checkpoints")
    asked = parser.parse_args(arguments)
    runs = assembly.paths(asked.runs)
    try:
        if ranks.is_launched() and runs[0].config.run.data_parallel > 1 and int(os.environ["RANK"]) > 0:
            ranks.check_world(runs[0].config.run.data_parallel)
            return follower.main()
        fine = train_runs(runs, resume=asked.resume, signals=True)
        ranks.leave()
        return 0 if fine else 1
    except RankLost as error:
        print(error, file=sys.stderr)
        sys.stderr.flush()
        os._exit(error.exit_code)  # a broken group of ranks does not end in peace
    except RlclinicError as error:
        print(error, file=sys.stderr)
        ranks.leave()
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
    waiting, refused = assembly.group_by_step(runs, resume=resume)
    fine, session = not refused, None
    while waiting:
        together = waiting.pop(0)
        try:
            with gpu_memory.enough_for(len(together)):
                cohort = assembly.assemble(together, factory)
        except RunError as error:
            fine, refused = False, [*refused, error]
            continue
        # A signal that came while this cohort was put together was heard by the one before it.
        session = Session(cohort, callback, stop_requested=session is not None and session.stop_requested)
        if signals:
            _listen(session)
        for reason in [*refused, *cohort.refused]:
            print(reason, file=sys.stderr)
        refused = []
        _train(session, own_process=signals)
        fine = fine and not cohort.refused and all(member.state in ("finished", "stopped") for member in cohort.everyone)
        if session.stop_requested:
            break
    for run, _ in (each for together in waiting for each in together):
        launcher_status.close(run.path, "stopped", "asked to stop before its turn came")
    if refused:
        raise refused[0]
    return fine


def _train(session: Session, *, own_process: bool) -> None:
    try:
        with gpu_memory.enough_for(len(session.cohort.members)), watchdog.watching(session, own_process=own_process):
            trainer.train(session)
    except BaseException as error:
        trainer.end_all(session, error)
        raise
    finally:
        trainer.close(session)


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
