"""Broken versions of what training says about itself: readings, sentinels, fingerprints, the random baseline, who is stepped.

Every function here takes the original and returns what a bug would make of it. Signatures are the originals'.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rlclinic.training.sentinels.on_policy_sentinels import Seen

# ── rows that do not count ──


def kl_of_every_row(kl_k3: Any) -> Any:
    return lambda log_ratio, weight=None: kl_k3(log_ratio)


def readings_of_every_row(reduce: Any) -> Any:
    return lambda table, hp: reduce({name: values for name, values in table.items() if name != "weight"}, hp)


def sentinels_look_at_every_row(_: Any) -> Any:
    def broken(seen: Seen, look: Any) -> dict[str, Tensor]:
        every = seen._replace(rollout=replace(seen.rollout, valid=torch.ones_like(seen.rollout.reward, dtype=torch.bool)))
        found = [look(every.member(m), m) for m in range(len(seen.whole.value))]
        return {name: torch.cat([each[name] for each in found]) for name in found[0]}

    return broken


def resets_count_as_what_followed(_: Any) -> Any:
    return lambda following, end, valid: following


# ── fingerprints ──


def places_weigh_the_same(_: Any) -> Any:
    return lambda first, count, device: torch.ones(count, dtype=torch.int64, device=device)


def rounded_before_hashing(bits: Any) -> Any:
    return lambda tensor: bits(tensor.half().float() if tensor.is_floating_point() else tensor)


def moments_left_out(of_state: Any) -> Any:
    def broken(learner: Any, *rest: Any) -> dict[str, Tensor]:
        still = learner.optimizer._replace(mean=torch.zeros_like(learner.flat), square=torch.zeros_like(learner.flat))
        return of_state(replace(learner, optimizer=still), *rest)

    return broken


# ── the baseline, and members that have left ──


def first_action_always(uniform: Any) -> Any:
    return lambda *arguments: torch.zeros_like(uniform(*arguments))


def everybody_is_stepped(_: Any) -> Any:
    return lambda cohort: None
