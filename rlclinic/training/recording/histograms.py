"""What the numbers of an iteration look like: returns, actions, observations and advantages, and each layer's weights and steps.

Counted on the members' axis [M, …], all members at once, only in iterations in which it is due (`run.histograms_every_env_steps`).
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from rlclinic.runs.recording import histograms
from rlclinic.runs.recording.histograms import Counts
from rlclinic.training.loops import off_policy, on_policy

if TYPE_CHECKING:
    from rlclinic.training.trainer import Session

BINS: Final = 32
MOST_ROWS: Final = 4_096
"""Numbers of a member that are counted, evenly taken; a histogram of more looks the same."""
MOST_COMPONENTS: Final = 8
"""Components of an observation or action that get a histogram of their own; of more, all are counted together."""
Named = dict[str, Tensor]
"""Rows [M, K] by name."""


def count(rows: Tensor) -> list[Counts | None]:
    """Of each member's numbers [M, K] the lowest, the highest, and how many lie in each bin; None where none of them is finite."""
    rows = rows.detach().reshape(rows.shape[0], -1).float()
    rows = rows[:, :: max(1, rows.shape[1] // MOST_ROWS)]
    finite = rows.isfinite()
    low = rows.where(finite, torch.inf).amin(1, keepdim=True)
    high = rows.where(finite, -torch.inf).amax(1, keepdim=True)
    # Equal numbers lie in the first bin; half a span at a time, or the width of a span from -1e38 to 1e38 would be infinite.
    width = (high / 2 - low / 2).clamp(min=1e-30)
    place = ((rows / 2 - low / 2) / width * BINS).nan_to_num(0.0, 0.0, 0.0).long().clamp(0, BINS - 1)
    counts = torch.zeros(rows.shape[0], BINS, dtype=torch.int64, device=rows.device).scatter_add_(1, place, finite.long())
    ends = torch.cat([low, high], 1).cpu().tolist()
    found = zip(ends, counts.cpu().tolist(), strict=True)
    return [(float(f"{low:.6g}"), float(f"{high:.6g}"), each) if sum(each) else None for (low, high), each in found]


def of_rollout(plan: on_policy.Plan, iteration: on_policy.Iteration, after: on_policy.Learner) -> dict[str, Named]:
    """What an on-policy iteration collected, and what it learned from it."""
    rollout = iteration.rollout
    collected = {
        "advantages": iteration.estimates.advantage,
        "returns": iteration.whole.returns,
        "rewards": rollout.reward,
        **_components("action", rollout.action),
        **_components("observation", rollout.obs),
    }
    weights, before = plan.policy.layout.views(after.flat), plan.policy.layout.views(iteration.before.flat)
    return {"collect": collected, "learn": _layers(weights, before)}


def of_transitions(
    plan: off_policy.Plan, transitions: off_policy.Transitions, before: off_policy.Learner, after: off_policy.Learner
) -> dict[str, Named]:
    """The same of an iteration of a learner with a replay, which has no advantages."""
    collected = {
        "rewards": transitions.reward,
        **_components("action", transitions.action),
        **_components("observation", transitions.obs),
    }
    members = transitions.reward.shape[0]
    learned: Named = {}
    for name, net in plan.nets.items():
        new, old = net.params(after.nets[name]), net.params(before.nets[name])
        learned |= {f"{kind} {name} {layer}": rows.reshape(members, -1) for kind, layer, rows in _weights_and_steps(new, old)}
    return {"collect": collected, "learn": learned}


def _layers(weights: Mapping[str, Tensor], before: Mapping[str, Tensor]) -> Named:
    return {f"{kind} {layer}": rows for kind, layer, rows in _weights_and_steps(weights, before)}


def _weights_and_steps(weights: Mapping[str, Tensor], before: Mapping[str, Tensor]) -> list[tuple[str, str, Tensor]]:
    layers = [name for name in weights if name.endswith(".weight")]
    return [("weights", name, weights[name]) for name in layers] + [("step", name, weights[name] - before[name]) for name in layers]


def _components(name: str, rows: Tensor) -> Named:
    """[M, T, N] or [M, T, N, K], or pictures [M, T, N, height, width, channels]."""
    if rows.dim() == 3 or rows.dim() > 4 or rows.shape[3] > MOST_COMPONENTS:
        return {name: rows}
    return {f"{name} {place}": rows[..., place] for place in range(rows.shape[3])}


@torch.no_grad()
def record(session: "Session", found: Mapping[str, Named]) -> None:
    """Write an iteration's histograms beside every active member's rows."""
    cohort, started = session.cohort, time.perf_counter()
    env_steps = cohort.env_steps + cohort.config.rollout_size
    counted = {phase: {name: count(rows) for name, rows in named.items()} for phase, named in found.items()}
    for index, member in enumerate(cohort.members):
        if member.active:
            ended = torch.from_numpy(cohort.episodes.recent(index)[:, 0].copy()).view(1, -1)
            episodes = count(ended)[0] if ended.numel() else None
            own: dict[str, dict[str, Counts]] = {phase: {} for phase in counted}
            if episodes is not None:
                own["collect"]["returns of the last 100 episodes"] = episodes
            for phase, named in counted.items():
                own[phase] |= {name: counts for name, by_member in named.items() if (counts := by_member[index]) is not None}
            with member.writing(env_steps):
                histograms.append(member.path, env_steps, own)
    session.clock["write"] += time.perf_counter() - started
