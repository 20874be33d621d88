"""Engines: how an iteration's arithmetic is carried out. All compute what `on_policy.iterate` says, to rounding.

eager     operation by operation; on a CPU a member gets the same bits in any cohort
compiled  acting, assessing and the gradient step are compiled units, kept between runs
captured  one CUDA graph per iteration, made of those units (see `captured`)
"""

from collections.abc import Hashable, Mapping
from typing import Final, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from rlclinic.config import numbers
from rlclinic.training import rng
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data import rollouts
from rlclinic.training.data.rollouts import Batch, Rollout
from rlclinic.training.engines import compiled
from rlclinic.training.engines.compiled import Function, Named, Unit
from rlclinic.training.envs.base import Step, VecEnv
from rlclinic.training.envs.native.engine import At, NativeEnv
from rlclinic.training.fast import fused
from rlclinic.training.loops import on_policy
from rlclinic.training.loops.on_policy import Estimates, Iteration, IterationInputs, Learner, Plan, Position
from rlclinic.training.maths.normalize import Moments
from rlclinic.training.nets import mlp
from rlclinic.training.optim import OptimizerState

LONGEST_COMPILED_GAE: Final = 128
"""Rollout steps up to which advantages are compiled: the recursion is unrolled, and compiling takes longer with each step."""
_ESTIMATED_FROM: Final = ("action", "reward", "terminated", "truncated", "net_obs", "net_next_obs", "log_prob", "valid", "action_mask")
"""What `estimate_advantages` reads of a rollout."""

Fields = TypeVar("Fields", bound=NamedTuple)
Unset = tuple[tuple[str, bool | None], ...]
"""What hyperparameters say that is no tensor, by name."""


class Engine(Protocol):
    """One iteration of every member."""

    def iterate(self, inputs: IterationInputs) -> Iteration: ...


class Eager:
    """The reference."""

    def iterate(self, inputs: IterationInputs) -> Iteration:
        """One iteration of every member, operation by operation."""
        return on_policy.iterate(inputs)


class Compiled:
    """The same with compiled units, made when they are first needed."""

    def __init__(self) -> None:
        self._units: dict[tuple[str, Hashable], Unit] = {}
        self._marked = False

    def iterate(self, inputs: IterationInputs) -> Iteration:
        """One iteration of every member."""
        found = on_policy.iterate(inputs, self)
        if not self._marked:
            compiled.mark(repr((fixed(inputs.plan), inputs.seed.shape[0])))
            self._marked = True
        return found

    @torch.no_grad()
    def collect(
        self, plan: Plan, learner: Learner, env: VecEnv, position: Position, seed: Tensor, iteration: int | Tensor, clock: dict[str, float]
    ) -> Rollout:
        """T steps in every env. A native env is stepped inside the compiled unit; others step by themselves."""
        constant = {"flat": learner.flat, **tensors("stats", learner.obs_stats)}
        if not isinstance(env, NativeEnv):
            return on_policy.collect(
                plan, learner, env, position, seed, iteration, clock, lambda where, noise: self._act(plan, constant, where, noise)
            )
        unit = self._unit("act_step", lambda given: act_step(plan, env, given), plan)
        fields: dict[str, list[Tensor]] = {name: [] for name in ("obs", "net_obs", "action", "dist", "action_mask")}
        taken, given = [], tensors("at", env.here()) | tensors("", {"obs": position.obs, "mask": position.action_mask})
        steps = plan.config.n_steps
        for counter in (torch.arange(steps, device=seed.device) + iteration * steps).unbind(0):
            found = unit(constant | given | {"seed": seed, "counter": counter})
            shown = {"obs": given["obs"], "net_obs": found.get("net_obs", given["obs"]), "action_mask": given.get("mask")}
            for name, values in fields.items():
                if (value := shown[name] if name in shown else found[name]) is not None:
                    values.append(value)
            taken.append(Step(*(found.get(f"step.{name}") for name in Step._fields)))  # type: ignore[arg-type]
            given = {name: found[f"after.{name}"] for name in given}
        position.obs, position.action_mask = given["obs"], given.get("mask")
        env.go(gather(At, "at", given))
        return on_policy.stack(plan, learner, fields, taken)

    def _act(self, plan: Plan, constant: Named, position: Position, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Acting alone, for envs that step outside."""
        unit = self._unit("act", lambda given: act(plan, given, given["noise"]), plan)
        found = unit(constant | tensors("", {"obs": position.obs, "mask": position.action_mask, "noise": noise}))
        return found.get("net_obs", position.obs), found["dist"], found["action"]

    @torch.no_grad()
    def estimate_advantages(self, plan: Plan, learner: Learner, rollout: Rollout, hp: Hyperparameters) -> tuple[Batch, Estimates]:
        """The whole rollout as one batch, and its estimates before scaling."""
        if plan.config.n_steps > LONGEST_COMPILED_GAE or plan.corrects_for_age:
            return on_policy.estimate_advantages(plan, learner, rollout, hp)
        unset = static(hp)
        unit = self._unit("estimate_advantages", lambda given: estimate_advantages(plan, unset, given), plan, unset)
        given = {"flat": learner.flat, **tensors("reward", learner.reward_stats), **tensors("hp", vars(hp))}
        found = unit(given | tensors("rollout", {name: getattr(rollout, name) for name in _ESTIMATED_FROM}))
        rows, mask = rollouts.rows, rollout.action_mask
        whole = Batch(
            obs=rows(rollout.net_obs),
            action=rows(rollout.action),
            log_prob=rows(rollout.log_prob),
            advantage=found["advantage"],
            returns=found["returns"],
            value=found["value"],
            weight=found.get("weight"),
            action_mask=None if mask is None else rows(mask),
        )
        return whole, Estimates(found["raw"], found["reward"])

    def update_step(
        self, plan: Plan, flat: Tensor, state: OptimizerState, batch: Batch, hp: Hyperparameters, active: Tensor | None
    ) -> tuple[Tensor, OptimizerState, Tensor | None, Named]:
        """One gradient step."""
        unset = static(hp)
        unit = self._unit("update_step", lambda given: update_step(plan, unset, given), plan, (unset, active is None))
        given = {"flat": flat, **tensors("state", state), **tensors("batch", batch), **tensors("hp", vars(hp))}
        found = unit(given | tensors("", {"active": active}))
        after = OptimizerState(*(found.pop(f"state.{name}") for name in OptimizerState._fields))
        return found.pop("flat"), after, found.pop("active", None), found

    def _unit(self, name: str, function: Function, plan: Plan, more: Hashable = None) -> Unit:
        key = (name, more)
        if key not in self._units:
            self._units[key] = Unit(name, function, repr((fixed(plan), plan.engine, more)))
        return self._units[key]


def fixed(plan: Plan) -> tuple[object, ...]:
    """Everything about a plan that is no number: what its compiled units depend on."""
    varying = numbers(plan.config)
    policy = plan.policy
    algo = [(name, value) for name, value in plan.config if name not in varying]
    return algo, plan.env, policy.net, list(policy.layout.shapes.items()), policy.distribution, plan.precision, plan.rounding_counts


# ── the units, as functions of named tensors ──


def act(plan: Plan, given: Named, noise: Tensor) -> Named:
    """What the networks see, the distribution they answer with, and an action drawn from it."""
    stats = gather(Moments, "stats", given) if "stats.mean" in given else None
    learner = Learner(given["flat"], None, stats)  # type: ignore[arg-type]
    position = Position(given["obs"], given.get("mask"))
    policy, params = plan.policy, plan.policy.layout.views(given["flat"])
    if fused.covers(policy, position.obs):
        net_obs = on_policy.normalize_obs(plan, learner, position.obs)
        head = fused.actor(policy, given["flat"], net_obs)
        dist = mlp.finish(policy, head, params["log_std"] if policy.has_log_std else None, position.action_mask)
        action = policy.distribution.sample(dist, noise)
    else:
        net_obs, dist, action = on_policy.act(plan, learner, params, position, noise)
    return {"dist": dist, "action": action} | ({} if stats is None else {"net_obs": net_obs})


def act_step(plan: Plan, env: NativeEnv, given: Named) -> Named:
    """Act in native environments and step them."""
    env_index = rng.counting(env.n_envs, given["seed"].device).view(1, 1, -1)
    noise = plan.policy.distribution.noise(given["seed"], given["counter"].view(1, 1, 1), env_index).squeeze(1)
    found = act(plan, given, noise)
    after, step = env.advance(gather(At, "at", given), found["action"], given["seed"])
    found |= tensors("after.at", after) | tensors("step", step) | {"after.obs": step.obs.clone()}
    return found | ({} if step.action_mask is None else {"after.mask": step.action_mask.clone()})


def estimate_advantages(plan: Plan, unset: Unset, given: Named) -> Named:
    """Values, advantages and targets of a rollout."""
    fields = {name: given.get(f"rollout.{name}") for name in _ESTIMATED_FROM}
    unread = dict.fromkeys(("obs", "next_obs", "following", "dist"), given["rollout.net_obs"])
    stats = gather(Moments, "reward", given) if "reward.mean" in given else None
    learner = Learner(given["flat"], None, None, stats)  # type: ignore[arg-type]
    whole, raw = on_policy.estimate_advantages(plan, learner, Rollout(**fields, **unread), numbers_of(unset, given))  # type: ignore[arg-type]
    found = {"advantage": whole.advantage, "returns": whole.returns, "value": whole.value, "weight": whole.weight}
    # Copies: what a library gives out must not lie inside what it was given.
    return tensors("", {**found, "raw": raw.advantage.clone(), "reward": raw.reward.clone()})


def update_step(plan: Plan, unset: Unset, given: Named) -> Named:
    """One gradient step."""
    batch = Batch(*(given.get(f"batch.{name}") for name in Batch._fields))  # type: ignore[arg-type]
    state = gather(OptimizerState, "state", given)
    flat, state, active, found = on_policy.update_step(plan, given["flat"], state, batch, numbers_of(unset, given), given.get("active"))
    return {"flat": flat, **tensors("state", state), **tensors("", {"active": active}), **found}


# ── tensors by name ──


def tensors(prefix: str, several: "Mapping[str, object] | NamedTuple | None") -> Named:
    """Those of several named values that are tensors, as `prefix.name`."""
    if several is None:
        return {}
    named: Mapping[str, object] = several._asdict() if isinstance(several, tuple) else several
    return {f"{prefix}.{name}" if prefix else name: value for name, value in named.items() if isinstance(value, Tensor)}


def gather(kind: type[Fields], prefix: str, given: Named) -> Fields:
    """The inverse for a named tuple: what was not a tensor is None."""
    return kind(*(given.get(f"{prefix}.{name}") for name in kind._fields))  # type: ignore[call-overload]


def static(hp: Hyperparameters) -> Unset:
    """What a cohort's numbers say that is no tensor: which are unset, whether entropy is paid. Another answer is another program."""
    return tuple((name, value) for name, value in sorted(vars(hp).items()) if value is None or isinstance(value, bool))


def numbers_of(unset: Unset, given: Named) -> Hyperparameters:
    return Hyperparameters(**dict(unset), **{name.removeprefix("hp."): value for name, value in given.items() if name.startswith("hp.")})
