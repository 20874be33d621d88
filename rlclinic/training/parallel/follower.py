"""What ranks other than 0 do: whatever rank 0 announces, until it says that it is over."""

import os
import signal
import sys
from typing import Any

import torch

from rlclinic.config import from_record
from rlclinic.errors import RlclinicError
from rlclinic.training import members
from rlclinic.training.loops.on_policy import Learner
from rlclinic.training.parallel import calibration, ranks
from rlclinic.training.parallel.part import RankPart, read_learner
from rlclinic.training.parallel.ranks import Ranks, Tensors
from rlclinic.training.parallel.watch import RankLost


def main() -> int:
    """The process of a rank: no run folder, no signals of its own; it ends with rank 0."""
    # Ctrl-C reaches the whole group: rank 0 decides when to end. If rank 0 is gone, the kernel asks with SIGTERM, which ends this one at
    # once (SIG_DFL): a handler in Python would wait until whatever it waits for inside of PyTorch has come.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    here = ranks.join()
    try:
        serve(here)
    except RankLost as error:
        here.heart.last_words(str(error).splitlines()[0])
        print(f"rank {here.rank}: {error}", file=sys.stderr, flush=True)
        # At once: the thread that tells rank 0 where this one is may wait for a link that is gone, inside of PyTorch. An interpreter
        # that ends under such a thread ends by SIGABRT or SIGSEGV.
        os._exit(1)
    except BaseException as error:
        here.heart.last_words(str(error) if isinstance(error, RlclinicError) else f"{type(error).__name__}: {error}")
        here.heart.stop()
        raise
    here.close()
    return 0


def serve(here: Ranks) -> None:
    """Do what is announced."""
    part: RankPart | None = None
    learner: Learner | None = None
    clock = {"env": 0.0, "act": 0.0, "learn": 0.0}
    while True:
        order, tensors = here.listen()
        kind = order["kind"]
        if kind == "end":
            return
        if kind == "make":
            part = _make(here, order)
            continue
        assert part is not None
        if kind == "learner":
            learner = part.take_optimizer(read_learner(tensors | part.scatter(None, order["large"])))
        elif kind == "iterate":
            assert learner is not None
            learner = _iterate(part, learner, order, clock)
        elif kind == "testify":
            assert learner is not None
            part.testify(learner, costly=order["costly"])
        elif kind == "optimizer":
            assert learner is not None
            part.join_optimizer(learner)
        elif kind == "close":
            part.close()
        else:
            _in_environments(part, kind, order, tensors)


def _make(here: Ranks, order: dict[str, Any]) -> RankPart:
    config = from_record(order["config"])
    torch.set_num_threads(config.run.threads)
    return RankPart(here, config, order["seeds"], order["weights"])


def _in_environments(part: RankPart, kind: str, order: dict[str, Any], tensors: Tensors) -> None:
    if kind == "plan":
        part.set_plan(order["corrections"], order["engine"])
    elif kind == "calibrate":
        calibration.together(part)
    elif kind == "reset":
        part.reset()
    elif kind == "state":
        part.state()
    elif kind == "load_state":
        part.load_state(tensors)
    else:
        raise AssertionError(f"rank 0 announced {kind}, which nobody knows")


def _iterate(part: RankPart, learner: Learner, order: dict[str, Any], clock: dict[str, float]) -> Learner:
    going = order["active"]
    part.env.retire([index for index, each in enumerate(going) if not each])
    mask = torch.tensor(going, device=part.ranks.device).view(-1, 1)
    hp = members.from_numbers(order["numbers"], part.plan.policy, part.ranks.device)
    found = part.iterate(learner, hp, None if all(going) else mask, order["iteration"], clock)
    return part.finish(found, hp, mask)
