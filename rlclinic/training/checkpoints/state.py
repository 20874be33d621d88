"""What a learner is made of, by name: the surface through which snapshots and fingerprints meet every kind of loop.

`static` is the half of the policy that is not learned: an actor-critic network's layout, or the replay algorithms' nets by name.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import torch
from torch import Tensor

from rlclinic.training.loops import off_policy, on_policy
from rlclinic.training.loops.kinds import AnyLearner, Static
from rlclinic.training.loops.off_policy import AVERAGE
from rlclinic.training.nets.mlp import ActorCritic
from rlclinic.training.nets.q_nets import Net
from rlclinic.training.optim import OptimizerState

Tensors = dict[str, Tensor]
BONUS: Final = "bonus"
"""Before the names of what a bonus for new states knows."""
CONSTRAINT: Final = "constraint"
"""Before the names of what is known of costs."""


class Named(NamedTuple):
    """Tensors [M, ...] by part: what acting needs, what the optimizer knows, what else the loop goes on from."""

    policy: Tensors
    optimizer: Tensors
    loop: Tensors


def name_tensors(static: Static, learner: AnyLearner) -> Named:
    """Everything that learning has made, normalizers apart."""
    carried = {name: tensor for name in ("reward_carry", "drift") if (tensor := getattr(learner, name, None)) is not None}
    carried |= {f"{BONUS}.{name}": tensor for name, tensor in (learner.bonus or {}).items()}
    carried |= {f"{CONSTRAINT}.{name}": tensor for name, tensor in (getattr(learner, "constraint", None) or {}).items()}
    if isinstance(learner, on_policy.Learner):
        assert isinstance(static, ActorCritic)
        return Named(dict(static.layout.views(learner.flat)), learner.optimizer._asdict(), carried)
    assert isinstance(static, Mapping)
    policy: Tensors = {}
    for net, flat in learner.nets.items():
        policy |= _by_name(net, static[net], flat) if net in static else {net: flat}
    if AVERAGE in learner.targets:
        policy |= _by_name(AVERAGE, static[acting_net(static)], learner.targets[AVERAGE])
    optimizer = {f"{net}.{name}": tensor for net, state in learner.optimizers.items() for name, tensor in state._asdict().items()}
    members = len(next(iter(learner.nets.values())))
    updates = torch.full((members,), learner.updates, dtype=torch.int64)
    return Named(
        policy,
        optimizer,
        {f"target.{net}": flat for net, flat in learner.targets.items() if net != AVERAGE}
        | {"updates": updates, "reward_bound": learner.reward_bound}
        | carried,
    )


def _by_name(prefix: str, net: Net, flat: Tensor) -> Tensors:
    """A network's tensors [M, ...] by name, or [M, copies, ...]."""
    return {f"{prefix}.{name}": view.unflatten(0, (-1, net.copies)) if net.copies > 1 else view for name, view in net.params(flat).items()}


def _to_rows(prefix: str, net: Net, policy: Tensors) -> Tensor:
    """The inverse: weights [M, copies * P]."""
    own = {name.removeprefix(f"{prefix}."): tensor for name, tensor in policy.items() if name.startswith(f"{prefix}.")}
    rows = {name: tensor.flatten(0, 1) if net.copies > 1 else tensor for name, tensor in own.items()}
    return net.layout.flatten(rows).view(-1, net.width)


def acting_net(static: Mapping[str, Net]) -> str:
    """Which of the replay algorithms' nets acts."""
    return next(name for name in ("q", "actor", "critic") if name in static)


def stand_in(static: Mapping[str, Net], name: str) -> str:
    """What averaged weights begin as where nothing was averaged yet: the weights themselves."""
    return f"{acting_net(static)}{name.removeprefix(AVERAGE)}" if name.startswith(f"{AVERAGE}.") else name


def rebuild(static: Static, learner: AnyLearner, policy: Tensors, optimizer: Tensors | None, loop: Tensors) -> AnyLearner:
    """A learner with these weights; with `optimizer`, as it was, else as one that starts from them."""
    if optimizer is not None and learner.bonus is not None:
        # What was counted for more or fewer environments begins anew, and so does what is not there (a head of its own since then).
        saved = {name: loop.get(f"{BONUS}.{name}", fresh) for name, fresh in learner.bonus.items()}
        fits = all(saved[name].shape == fresh.shape for name, fresh in learner.bonus.items())
        learner = replace(learner, bonus=saved if fits else learner.bonus)
    if optimizer is not None and isinstance(learner, on_policy.Learner) and learner.constraint is not None:
        saved = {name: loop.get(f"{CONSTRAINT}.{name}", fresh) for name, fresh in learner.constraint.items()}
        fits = all(saved[name].shape == fresh.shape for name, fresh in learner.constraint.items())
        learner = replace(learner, constraint=saved if fits else learner.constraint)
    if isinstance(learner, on_policy.Learner):
        assert isinstance(static, ActorCritic)
        learner = replace(learner, flat=static.layout.flatten(policy))
        return learner if optimizer is None else replace(learner, optimizer=OptimizerState(**optimizer))
    assert isinstance(static, Mapping)
    nets = {net: _to_rows(net, static[net], policy) if net in static else policy[net] for net in learner.nets}
    averaged = {AVERAGE: _to_rows(AVERAGE, static[acting_net(static)], policy)} if AVERAGE in learner.targets else {}
    names = [name for name in learner.targets if name != AVERAGE]
    if optimizer is None:
        return replace(learner, nets=nets, targets={name: nets[name].clone() for name in names} | averaged)
    states = {net: OptimizerState(*(optimizer[f"{net}.{name}"] for name in OptimizerState._fields)) for net in learner.optimizers}
    targets = {name: loop[f"target.{name}"] for name in names} | averaged
    return replace(
        learner, nets=nets, targets=targets, optimizers=states, updates=int(loop["updates"][0]), reward_bound=loop["reward_bound"]
    )


def weights(learner: AnyLearner) -> list[Tensor]:
    """All weights [M, P], targets too."""
    if isinstance(learner, off_policy.Learner):
        return [*learner.nets.values(), *learner.targets.values()]
    return [learner.flat]


def optimizer(learner: AnyLearner) -> list[Tensor]:
    """Everything that optimizers keep."""
    states = learner.optimizers.values() if isinstance(learner, off_policy.Learner) else [learner.optimizer]
    return [tensor for state in states for tensor in state]
