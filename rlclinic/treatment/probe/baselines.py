"""What an environment pays to policies that learn nothing: does it matter what is done, and does what was learned beat it?"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rlclinic.config import from_record
from rlclinic.diagnosis.columns import EVAL_RETURN, RETURN
from rlclinic.runs import studies
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.treatment.probe.models import Experiment, Probed, Reading
from rlclinic.treatment.probe.odds import Odds, odds, speaks

RANDOM: Final = "random"
BY_HAND: Final = "by hand"
APART: Final = (2.0, 6.0)
"""Standard errors between the best and the worst of them: below the first it is chance, above the second it matters what is done."""
_FEWEST: Final = 2
Returns = Mapping[str, NDArray[np.float64]]


def run(store: Store, experiment: Experiment) -> Probed:
    """Play the environment with every baseline; nothing is trained."""
    from rlclinic.training.sentinels import random_policy

    id = studies.reserve(store, "probe")
    played = random_policy.policies(from_record(experiment.config))
    found = concluded(id, experiment, played.returns, trained(store.group(experiment.group).runs), played.env_steps)
    studies.write(store, "probe", id, found.model_dump(mode="json"))
    return found


def trained(runs: Sequence[Run]) -> float | None:
    """The return that the runs came to: their last evaluations, else their last training returns."""
    ends = []
    for each in runs:
        known = [values for name in (EVAL_RETURN, RETURN) if len(values := _finite(each, name))]
        ends += [float(known[0][-1])] if known else []
    return float(np.median(ends)) if ends else None


def _finite(run: Run, name: str) -> NDArray[np.float64]:
    values = run.metrics.series(name)[1]
    return np.asarray(values[np.isfinite(values)], dtype=np.float64)


def concluded(id: str, experiment: Experiment, returns: Returns, learned: float | None, env_steps: int) -> Probed:
    """What the baselines say about the two causes."""
    readings = [Reading(arm=name, cause="", value=float(values.mean()), control=learned, gain=None) for name, values in returns.items()]
    after, gained, text = judged(experiment, returns, learned)
    return Probed(
        id=id,
        created=time.time(),
        experiment=experiment,
        readings=tuple(readings),
        after=after,
        gained=gained,
        text=text,
        control_repeated=None,
        used_env_steps=env_steps,
    )


def judged(experiment: Experiment, returns: Returns, learned: float | None) -> Odds:
    """Actions without effect: all policies fare alike. A reward that is never seen: every episode pays the same. A wrong sign:
    what was trained does worse than chance."""
    if RANDOM not in returns or len(returns) < _FEWEST:
        return experiment.before, "", "nothing could be read"
    said = ", ".join(f"{name} {values.mean():.3g}" for name, values in returns.items())
    text = f"without learning: {said}" + ("" if learned is None else f"; trained: {learned:.3g}")
    shares = {
        "actions-without-effect": _alike(returns),
        # What a script finds, a learner that never got there has not seen.
        "reward-never-seen": float(np.ptp(np.concatenate([each for name, each in returns.items() if name != BY_HAND])) == 0),
        "reward-sign": None if learned is None else _worse(returns[RANDOM], learned),
    }
    factors = [1.0 if (share := shares.get(cause)) is None else speaks(share) for cause in experiment.causes]
    if factors[0] == factors[1]:
        return experiment.before, "", f"{text}; it speaks for neither"
    return odds(experiment, factors, text)


def _alike(returns: Returns) -> float:
    """1 where the policies' returns differ by no more than chance, 0 where it clearly matters what is done."""
    means = [float(values.mean()) for values in returns.values()]
    error = math.sqrt(2 * float(np.mean([values.var() / len(values) for values in returns.values()])))
    gap = max(means) - min(means)
    if gap == 0:
        return 1.0
    low, high = APART
    return min(max((high - gap / error) / (high - low), 0.0), 1.0) if error > 0 else 0.0


def _worse(chance: NDArray[np.float64], learned: float) -> float:
    """1 where what was learned lies two standard errors or more below chance, 0 where it does not lie below."""
    error = max(float(chance.std()) / math.sqrt(len(chance)), 1e-9 * max(1.0, abs(float(chance.mean()))))
    return min(max((float(chance.mean()) - learned) / (2 * error), 0.0), 1.0)
