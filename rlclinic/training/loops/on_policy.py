"""Collect a rollout, estimate advantages, learn from it: one iteration of REINFORCE, A2C or PPO for every member."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import torch
from torch import Tensor

from rlclinic.config import EnvConfig, OnPolicyConfig
from rlclinic.training import optim
from rlclinic.training.algos import OnPolicyAlgorithm
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.bonuses import pay
from rlclinic.training.bonuses.pay import Bonus, Paid
from rlclinic.training.constraints import lagrangian
from rlclinic.training.constraints.lagrangian import Constraint
from rlclinic.training.data import rollouts
from rlclinic.training.data.rollouts import Batch, Rollout
from rlclinic.training.envs.base import Step, VecEnv
from rlclinic.training.fast import fused, gradients
from rlclinic.training.fast.twins import OnPolicyTwin
from rlclinic.training.imitation import adversarial
from rlclinic.training.imitation.adversarial import Adversary
from rlclinic.training.maths import losses, normalize
from rlclinic.training.maths.normalize import Moments
from rlclinic.training.nets import mlp
from rlclinic.training.nets.layout import Params
from rlclinic.training.optim import Optimizer, OptimizerState

if TYPE_CHECKING:
    from rlclinic.training.actors.pool import Arrived

WIDE: Final = 65_536
"""Weights from which on Adam goes over them once, in PyTorch's own kernel: many passes would read them from memory every time."""


@dataclass(frozen=True)
class Plan:
    """What stays the same all run: the algorithm, the network's shape, the optimizer's rule."""

    algo: OnPolicyAlgorithm
    config: OnPolicyConfig
    env: EnvConfig
    policy: mlp.ActorCritic
    optimizer: Optimizer
    n_epochs: int
    batch_rows: int
    rollout_size: int
    engine: str = "eager"
    precision: str = "float32"
    fast: OnPolicyTwin | None = None
    """The module with the derivatives of the algorithm's loss by hand; None: the loss is differentiated."""
    rounding_counts: bool = False
    """Advantages are standardized as runs do it that were begun before equal ones became 0 (config.corrections)."""
    bonus: Bonus | None = None
    """What is paid for new states; None: nothing."""
    constraint: Constraint | None = None
    """The limit on costs; None: none."""
    adversary: Adversary | None = None
    """What pays for steps that look like the recorded ones, in place of the environment; None: the environment pays."""

    @property
    def compiles(self) -> bool:
        """Whether the arithmetic is compiled: then only its result counts, not its last bits in each operation."""
        return self.engine in ("compiled", "captured")

    @property
    def corrects_for_age(self) -> bool:
        """Whether advantages depend on how far the policy has moved since it acted."""
        return getattr(self.config, "advantage", "gae") == "vtrace"

    @property
    def scales_minibatches(self) -> bool:
        """Whether advantages are scaled in each minibatch; one that is the whole rollout is scaled once, before."""
        return self.config.normalize_advantage == "batch" and self.batch_rows < self.rollout_size

    def standardize(self, advantage: Tensor, weight: Tensor | None) -> Tensor:
        """Advantages [M, B] with mean 0 and deviation 1 per member."""
        return (normalize.standardize_rounding_too if self.rounding_counts else normalize.standardize)(advantage, weight)


@dataclass(frozen=True)
class Learner:
    """What learning changes: weights [M, P], optimizer state, normalizers. Replaced as a whole, never edited."""

    flat: Tensor
    optimizer: OptimizerState
    obs_stats: Moments | None = None
    reward_stats: Moments | None = None
    reward_carry: Tensor | None = None
    bonus: Mapping[str, Tensor] | None = None
    """What a bonus for new states, or a learned reward, knows, [M, ...] by name."""
    constraint: Mapping[str, Tensor] | None = None
    """What is known of costs, where they have a limit, [M, ...] by name."""


class Estimates(NamedTuple):
    """Rows [M, T*N] that the update does not use but the sentinels want: unscaled advantages, rewards as trained on."""

    advantage: Tensor
    reward: Tensor


class LastMinibatch(NamedTuple):
    """Each member's last minibatch, advantages and log-ratios [M, B]: what the update did to the actions it judged."""

    advantage: Tensor
    log_ratio: Tensor
    weight: Tensor | None = None


@dataclass
class Position:
    """Where the agents stand in their environments: what they act on next."""

    obs: Tensor
    action_mask: Tensor | None = None


class IterationInputs(NamedTuple):
    """What an iteration starts from."""

    plan: Plan
    learner: Learner
    env: VecEnv
    position: Position
    """Moved on by the iteration."""
    hp: Hyperparameters
    active: Tensor | None
    """Who learns, [M, 1]; None: everybody."""
    seed: Tensor
    iteration: int | Tensor
    """A tensor where a graph reads it."""
    clock: dict[str, float]
    """Seconds so far, added to."""


class Iteration(NamedTuple):
    """What one iteration leaves behind. `after` is as learning left it: not yet checked, normalizers not yet moved on."""

    before: Learner
    rollout: Rollout
    whole: Batch
    estimates: Estimates
    after: Learner
    readings: dict[str, Tensor]
    last_minibatch: LastMinibatch | None
    alive: Tensor | None = None
    """Whose updates have been finite, [M, 1], where the engine itself takes back those that were not."""
    bonus: dict[str, Tensor] | None = None
    """What a bonus for new states, or a learned reward, says of itself, [M] by column."""
    arrived: "Arrived | None" = None
    """Where the rollout is an actor's: which one's, and how old."""

    @property
    def first_env(self) -> int:
        """The number of the rollout's first environment: with actors, it is that of some environments among more."""
        return 0 if self.arrived is None else self.arrived.first_env


class Units(Protocol):
    """The three parts of an iteration, for an engine that does them faster than the functions here of the same names."""

    def collect(
        self, plan: Plan, learner: Learner, env: VecEnv, position: Position, seed: Tensor, iteration: int | Tensor, clock: dict[str, float]
    ) -> Rollout: ...

    def estimate_advantages(self, plan: Plan, learner: Learner, rollout: Rollout, hp: Hyperparameters) -> tuple[Batch, Estimates]: ...

    def update_step(
        self, plan: Plan, flat: Tensor, state: OptimizerState, batch: Batch, hp: Hyperparameters, active: Tensor | None
    ) -> tuple[Tensor, OptimizerState, Tensor | None, dict[str, Tensor]]: ...


def iterate(inputs: IterationInputs, by: Units | None = None) -> Iteration:
    """One iteration: what every engine computes. by: who does its parts, instead of the functions here."""
    plan, learner, env, position, hp, active, seed, iteration, clock = inputs
    started, env_before = perf_counter(), clock["env"]
    rollout = (by.collect if by else collect)(plan, learner, env, position, seed, iteration, clock)
    collected = perf_counter()
    clock["act"] += collected - started - (clock["env"] - env_before)
    before, bonus = learner, None
    if plan.bonus is not None and learner.bonus is not None:
        paid, state, bonus = pay.pay(plan.bonus, learner.bonus, rollout, seed, iteration, active)
        learner, rollout = replace(learner, bonus=state), replace(rollout, paid=paid)
    if plan.constraint is not None and learner.constraint is not None and rollout.said is not None:
        cost = rollout.said[..., 0]  # the first of what is read: info_columns.list_step_numbers
        weighed, state, spent = lagrangian.weigh(plan.constraint, learner.constraint, rollout, cost, hp, seed, iteration, active)
        learner, rollout, bonus = replace(learner, constraint=state), replace(rollout, weighed=weighed), (bonus or {}) | spent
    if plan.adversary is not None and learner.bonus is not None:
        likely = partial(log_prob_of, plan, learner)
        instead, state, told = adversarial.judge(plan.adversary, learner.bonus, rollout, hp, likely, seed, iteration, active)
        learner, rollout, bonus = replace(learner, bonus=state), replace(rollout, paid=Paid(None, None, instead)), (bonus or {}) | told
    whole, raw = (by.estimate_advantages if by else estimate_advantages)(plan, learner, rollout, hp)
    step = by.update_step if by else None
    after, readings, last_minibatch = learn(plan, learner, whole, hp, active, seed, iteration, rollout, step)
    clock["learn"] += perf_counter() - collected
    return Iteration(before, rollout, whole, raw, after, readings, last_minibatch, bonus=bonus)


@torch.no_grad()
def collect(
    plan: Plan,
    learner: Learner,
    env: VecEnv,
    position: Position,
    seed: Tensor,
    iteration: int | Tensor,
    clock: dict[str, float],
    act_step: "ActStep | None" = None,
    first_env: int = 0,
) -> Rollout:
    """T steps in every env with the current policy; moves `position` on. seed is [M, 1, 1]; first_env is the first env's number."""
    steps, policy = plan.config.n_steps, plan.policy
    params = policy.layout.views(learner.flat)
    step_index = torch.arange(steps, device=seed.device).view(1, -1, 1) + iteration * steps
    env_index = torch.arange(first_env, first_env + env.n_envs, device=seed.device).view(1, 1, -1)
    noise = policy.distribution.noise(seed, step_index, env_index).unbind(1)  # T times [M, N, K]
    fields: dict[str, list[Tensor]] = {name: [] for name in ("obs", "net_obs", "action", "dist", "value", "action_mask")}
    taken = []
    for t in range(steps):
        net_obs, dist, action, *valued = act_step(position, noise[t]) if act_step else act(plan, learner, params, position, noise[t])
        before = perf_counter()
        step = env.step(action)
        clock["env"] += perf_counter() - before
        for name, value in (("obs", position.obs), ("net_obs", net_obs), ("action", action), ("dist", dist)):
            fields[name].append(value)
        fields["value"] += valued
        if position.action_mask is not None:
            fields["action_mask"].append(position.action_mask)
        taken.append(step)
        position.obs, position.action_mask = step.obs, step.action_mask
    return stack(plan, learner, fields, taken)


def act(plan: Plan, learner: Learner, params: Params, position: Position, noise: Tensor) -> tuple[Tensor, ...]:
    """What the networks see, the distribution they answer with, and an action drawn from it; behind a shared encoder the value, too."""
    net_obs = normalize_obs(plan, learner, position.obs)
    if plan.policy.encoder is not None and plan.policy.net.shared and not net_obs.is_cuda:
        # The work is in the trunk that both share: the value comes with it, and need not be computed again.
        dist, value = mlp.actor_critic(plan.policy, params, net_obs, position.action_mask)
        return net_obs, dist, plan.policy.distribution.sample(dist, noise), value
    dist = mlp.actor(plan.policy, params, net_obs, position.action_mask)
    return net_obs, dist, plan.policy.distribution.sample(dist, noise)


ActStep = Callable[[Position, Tensor], tuple[Tensor, ...]]


def normalize_obs(plan: Plan, learner: Learner, obs: Tensor) -> Tensor:
    """What the networks are shown: the observation, normalized if the config says so."""
    if learner.obs_stats is None:
        return obs
    return normalize.observations(learner.obs_stats, obs, plan.env.clip_obs)


def stack(plan: Plan, learner: Learner, fields: dict[str, list[Tensor]], taken: list[Step]) -> Rollout:
    """Lists over time to tensors [M, T, N, ...]: one copy per field instead of one per step."""

    def over_time(name: str) -> Tensor | None:
        values = [getattr(step, name) for step in taken]
        return None if values[0] is None else torch.stack(values, 1)

    obs, action, dist = (torch.stack(fields[name], 1) for name in ("obs", "action", "dist"))
    steps = {name: over_time(name) for name in ("next_obs", "reward", "terminated", "truncated", "valid", "success", "goes_on", "said")}
    normalized = learner.obs_stats is not None
    return Rollout(
        obs=obs,
        action=action,
        dist=dist,
        following=torch.cat([obs[:, 1:], taken[-1].obs.unsqueeze(1)], 1),
        net_obs=torch.stack(fields["net_obs"], 1) if normalized else obs,
        net_next_obs=normalize_obs(plan, learner, steps["next_obs"]),  # type: ignore[arg-type]
        # From the stored parameters: the log-probability under exactly the distribution that was sampled.
        log_prob=plan.policy.distribution.log_prob(dist, action),
        action_mask=torch.stack(fields["action_mask"], 1) if fields["action_mask"] else None,
        value=torch.stack(fields["value"], 1) if fields.get("value") else None,
        **steps,  # type: ignore[arg-type]
    )


def estimate_advantages(plan: Plan, learner: Learner, rollout: Rollout, hp: Hyperparameters) -> tuple[Batch, Estimates]:
    """The whole rollout as one batch with advantages and targets, and what they were before scaling."""
    whole, raw = assess(plan, learner, rollout, hp)
    return scale(plan, whole), raw


@torch.no_grad()
def scale(plan: Plan, whole: Batch) -> Batch:
    """A rollout with its advantages as learning takes them: scaled here, unless each minibatch does it."""
    if plan.config.normalize_advantage == "off" or plan.scales_minibatches:
        return whole
    return whole._replace(advantage=plan.standardize(whole.advantage, whole.weight))


@torch.no_grad()
def assess(plan: Plan, learner: Learner, rollout: Rollout, hp: Hyperparameters) -> tuple[Batch, Estimates]:
    """A rollout, or some of its envs, as one batch with targets and advantages that are not scaled yet."""
    params = plan.policy.layout.views(learner.flat)
    value, next_value = values(plan.policy, params, rollout, plan.compiles)
    reward = normalize.learned(rollout.reward, plan.env)
    if learner.reward_stats is not None:
        reward = normalize.rewards(learner.reward_stats, reward, plan.env.clip_reward)
    paid = rollout.paid
    if paid is not None and paid.instead is not None:
        reward = paid.instead
    if paid is not None and paid.reward is not None:
        reward = reward + paid.reward
    present = (log_ratio(plan, params, rollout),) if plan.corrects_for_age else ()
    advantage, target, counts = plan.algo.advantages(plan.config, rollout, reward, value, next_value, hp, *present)
    if paid is not None and paid.advantage is not None:
        # Both critics' advantages add up, as each is linear in its reward; the task's values stay those of the task.
        advantage = advantage + paid.advantage
    if rollout.weighed is not None:
        advantage = rollout.weighed.apply(advantage)
    rows = rollouts.rows
    weight = None if counts is None else rows(counts).float()
    mask = None if rollout.action_mask is None else rows(rollout.action_mask)
    whole = Batch(
        obs=rows(rollout.net_obs),
        action=rows(rollout.action),
        log_prob=rows(rollout.log_prob),
        advantage=rows(advantage),
        returns=rows(target),
        value=rows(value),
        weight=weight,
        action_mask=mask,
    )
    return whole, Estimates(whole.advantage, rows(reward))


@torch.no_grad()
def log_prob_of(plan: Plan, learner: Learner, obs: Tensor, action: Tensor) -> Tensor:
    """log pi(a|s) [M, B] of any actions at raw observations [M, B, D]."""
    dist = mlp.actor(plan.policy, plan.policy.layout.views(learner.flat), normalize_obs(plan, learner, obs))
    return plan.policy.distribution.log_prob(dist, action)


def values(policy: mlp.ActorCritic, params: Params, rollout: Rollout, fast: bool = False) -> tuple[Tensor, Tensor]:
    """V of what was acted on, and of what came of it, [M, T, N] each."""
    if rollout.value is None:
        both = torch.cat([rollouts.rows(rollout.net_obs), rollouts.rows(rollout.net_next_obs)], 1)
        in_one_kernel = fast and fused.covers(policy, both)
        value = fused.critic(policy, params.flat, both) if in_one_kernel else mlp.critic(policy, params, both)
        return value.view(both.shape[0], 2, *rollout.reward.shape[1:]).unbind(1)  # type: ignore[return-value]
    # What came of a step is what the next one acted on, but for the last, and where a limit cut the episode. (A terminal state has no
    # value, whatever stands there.)
    last = mlp.critic(policy, params, rollout.net_next_obs[:, -1])
    found, cut = torch.cat([rollout.value[:, 1:], last.unsqueeze(1)], 1), rollout.truncated & ~rollout.terminated
    for member in cut.flatten(1).any(1).nonzero().flatten().tolist():
        own, rows = policy.layout.views(params.flat[member : member + 1]), rollout.net_next_obs[member][cut[member]]
        found[member][cut[member]] = mlp.critic(policy, own, rows.unsqueeze(0))[0]
    return rollout.value, found


def log_ratio(plan: Plan, params: Params, rollout: Rollout) -> Tensor:
    """How much likelier each action is now than when it was taken, [M, T, N]: 0 as long as the weights have not moved."""
    mask = None if rollout.action_mask is None else rollouts.rows(rollout.action_mask)
    dist = mlp.actor(plan.policy, params, rollouts.rows(rollout.net_obs), mask)
    return plan.policy.distribution.log_prob(dist, rollouts.rows(rollout.action)).view_as(rollout.log_prob) - rollout.log_prob


def learn(
    plan: Plan,
    learner: Learner,
    whole: Batch,
    hp: Hyperparameters,
    active: Tensor | None,
    seed: Tensor,
    iteration: int | Tensor,
    rollout: Rollout | None = None,
    step: "UpdateStep | None" = None,
) -> tuple[Learner, dict[str, Tensor], LastMinibatch | None]:
    """All gradient steps of an iteration. Readings are [U, M], one row per gradient step.

    With the rollout, an estimate that depends on the weights' age (V-trace) is made anew before each epoch.
    """
    flat, state, going = learner.flat, learner.optimizer, active
    readings: dict[str, list[Tensor]] = {}
    applied: list[Tensor] = []
    everyone = flat.new_ones(flat.shape[0], 1)
    last_minibatch = None
    renew = (
        (lambda: estimate_advantages(plan, replace(learner, flat=flat), replace(rollout, value=None), hp)[0])
        if rollout is not None and plan.corrects_for_age
        else None
    )
    for _, batch in minibatches(plan, whole, hp, seed, iteration, renew):
        if plan.scales_minibatches:
            # Per member and minibatch: the step size must not depend on the reward scale, nor on the neighbours.
            batch = batch._replace(advantage=plan.standardize(batch.advantage, batch.weight))
        tried = going
        flat, state, going, found = (step or update_step)(plan, flat, state, batch, hp, going)
        last_minibatch = _close(last_minibatch, batch, found, tried)
        if batch.weight is not None:
            found["weight"] = batch.weight
        for name, reading in found.items():
            readings.setdefault(name, []).append(reading)
        applied.append(everyone if going is None else going.float())
        if going is not None and going.device.type == "cpu" and not bool(going.any()):
            break  # every member has reached its target_kl or is frozen
    table = {name: torch.stack(each) for name, each in readings.items()}
    table["applied"] = torch.stack(applied)
    epoch = torch.arange(len(applied), device=flat.device) // math.ceil(plan.rollout_size / plan.batch_rows)
    table["epoch"] = epoch.view(-1, 1, 1).expand_as(table["applied"]).float()
    table["start"] = torch.zeros_like(table["applied"])
    table["start"][0] = 1.0
    return replace(learner, flat=flat, optimizer=state), _reduce(table, hp), last_minibatch


def minibatches(
    plan: Plan, whole: Batch, hp: Hyperparameters, seed: Tensor, iteration: int | Tensor, renew: Callable[[], Batch] | None
) -> Iterator[tuple[int, Batch]]:
    """(epoch, batch): every row once per epoch, or segments by the size of their advantages."""
    length = getattr(plan.config, "segment_length", 0)
    if not length:
        return rollouts.minibatches(whole, plan.batch_rows, plan.n_epochs, seed, iteration, renew)
    sizes = (plan.env.n_envs, length, plan.batch_rows, plan.n_epochs)
    return rollouts.segments(whole, *sizes, seed, iteration, hp.priority_alpha, hp.priority_beta, renew)


def _close(last_minibatch: LastMinibatch | None, batch: Batch, found: dict[str, Tensor], tried: Tensor | None) -> LastMinibatch | None:
    """The newest minibatch of every member that still tried one: what its neighbours do after it stopped is not its own."""
    if "log_ratio" not in found:
        return None
    new = LastMinibatch(batch.advantage, found["log_ratio"], batch.weight)
    if last_minibatch is None or tried is None:
        return new
    return LastMinibatch(*(None if one is None else torch.where(tried, one, old) for one, old in zip(new, last_minibatch, strict=True)))  # type: ignore[arg-type]


@torch.no_grad()
def _reduce(table: dict[str, Tensor], hp: Hyperparameters) -> dict[str, Tensor]:
    """Numbers per gradient step [U, M] out of rows [U, M, B]: once per iteration instead of once per step."""
    weight = table.pop("weight", None)
    if "log_ratio" in table:
        log_ratio = table.pop("log_ratio")
        deviation = torch.expm1(log_ratio).abs()
        table["kl"] = losses.kl_k3(log_ratio, weight)
        if hasattr(hp, "clip_range"):  # an algorithm may have a ratio and nothing to clip it with
            beyond = (deviation > hp.clip_range).float()
            table["clip_fraction"] = beyond.mean(-1, keepdim=True) if weight is None else losses.mean(beyond, weight)
        # A row that does not count is no step of the policy's: its ratio may be anything.
        table["ratio_deviation"] = (deviation if weight is None else deviation * (weight > 0)).amax(-1, keepdim=True)
    norms = table.pop("grad_squares").sqrt()
    table |= {f"grad_norm/{name}": norms[..., i : i + 1] for i, name in enumerate(("trunk", "actor_head", "critic_head"))}
    table["grad_norm/all"] = norms.square().sum(-1, keepdim=True).sqrt()
    if hp.max_grad_norm is not None:
        table["grad_clipped"] = (table["grad_norm/all"] > hp.max_grad_norm).float()
    return {name: values.squeeze(-1) for name, values in table.items()}


def update_step(
    plan: Plan, flat: Tensor, state: OptimizerState, batch: Batch, hp: Hyperparameters, active: Tensor | None, *, at: Tensor | None = None
) -> tuple[Tensor, OptimizerState, Tensor | None, dict[str, Tensor]]:
    """One gradient step: (weights, optimizer state, rows, numbers) -> the same, who goes on, and readings [M, 1] or [M, B].

    at: the weights [M, P] where the gradient is taken, if not where it is applied.
    """
    grad, readings = gradients.gradient(plan, flat if at is None else at, batch, hp)
    with torch.no_grad():
        readings["grad_squares"] = torch.cat([part.sum(1, keepdim=True) for part in (grad * grad).split(plan.policy.parts, 1)], 1)
    flat, state, active = apply_gradient(plan, flat, state, grad, readings, batch.weight, hp, active)
    return flat, state, active, readings


@torch.no_grad()
def apply_gradient(
    plan: Plan,
    flat: Tensor,
    state: OptimizerState,
    grad: Tensor,
    readings: dict[str, Tensor],
    weight: Tensor | None,
    hp: Hyperparameters,
    active: Tensor | None,
) -> tuple[Tensor, OptimizerState, Tensor | None]:
    """Clip a gradient [M, P] and take the optimizer's step along it, unless the policy has moved too far; also says who goes on.

    flat, state and grad may be some of the weights; `grad_squares` and `log_ratio` of the readings are those of the whole minibatch.
    """
    if hp.target_kl is not None and "log_ratio" in readings:
        # Checked before the step is applied: a policy that has moved too far stays where it is.
        within = losses.kl_k3(readings["log_ratio"], weight) <= 1.5 * hp.target_kl
        active = within if active is None else active & within
    if hp.max_grad_norm is not None:
        grad = optim.clip_by_norm(grad, readings["grad_squares"].sum(1, keepdim=True).sqrt(), hp.max_grad_norm)
    if plan.optimizer.kind == "adam" and flat.shape[1] >= WIDE and hp.value_lr is None and not plan.compiles and not flat.is_cuda:
        flat, state = flat.clone(), OptimizerState(*(each.clone() for each in state))
        rates, going = [each["learning_rate"] for each in hp.per_member], None if active is None else active.flatten().tolist()
        optim.adam_in_place(plan.optimizer, flat, grad, state, rates, going)
    else:
        flat, state = optim.step(plan.optimizer, flat, grad, state, hp.step_size, active)
    return flat, state, active


UpdateStep = Callable[
    [Plan, Tensor, OptimizerState, Batch, Hyperparameters, Tensor | None],
    tuple[Tensor, OptimizerState, Tensor | None, dict[str, Tensor]],
]


def find_finite(after: Learner, readings: dict[str, Tensor]) -> Tensor:
    """Whose update has left finite numbers, [M, 1]."""
    # One NaN gradient makes all weights of that member NaN for good, so looking once per iteration misses nothing.
    # Losses too: target_kl refuses a step whose KL is NaN, so that the weights stay finite and nothing is learned ever after.
    return torch.isfinite(after.flat).all(1, keepdim=True) & torch.isfinite(readings["total"][:1]).T


def take_back(before: Learner, after: Learner, good: Tensor) -> Learner:
    """The learner with the updates of good members alone."""
    kept = (torch.where(good, new, old) for new, old in zip(after.optimizer, before.optimizer, strict=True))
    return replace(after, flat=torch.where(good, after.flat, before.flat), optimizer=OptimizerState(*kept))


@torch.no_grad()
def update_normalizers(plan: Plan, learner: Learner, rollout: Rollout, hp: Hyperparameters, active: Tensor, first_env: int = 0) -> Learner:
    """The normalizers after an iteration: they now also cover what it has seen. first_env: the number of the rollout's first env."""
    weight = None if rollout.valid is None else rollouts.rows(rollout.valid)
    if learner.obs_stats is not None:
        learner = replace(learner, obs_stats=normalize.include(learner.obs_stats, rollouts.rows(rollout.obs), active, weight))
    if learner.reward_stats is not None and learner.reward_carry is not None:
        reward, lanes = normalize.learned(rollout.reward, plan.env), slice(first_env, first_env + rollout.reward.shape[2])
        sums, carry = normalize.discounted_returns(reward, rollout.end, learner.reward_carry[:, lanes], hp.gamma)
        stats = normalize.include(learner.reward_stats, rollouts.rows(sums).unsqueeze(-1), active, weight)
        if carry.shape != learner.reward_carry.shape:
            whole = learner.reward_carry.clone()
            whole[:, lanes], carry = carry, whole
        learner = replace(learner, reward_stats=stats, reward_carry=carry)
    return learner
