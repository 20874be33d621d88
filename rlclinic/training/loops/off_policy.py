"""Act, remember, learn from what is remembered: the cycles of DQN, TD3, DDPG and SAC for every member.

A cycle is train_freq steps of every env and the gradient steps that follow; an iteration is as many cycles as fit into 100 env
steps. Counts of steps and updates are the same for all members, so what they decide is decided in Python.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlclinic.config import EnvConfig
from rlclinic.training import optim
from rlclinic.training.algos import OffPolicyAlgorithm
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.bonuses import pay
from rlclinic.training.bonuses.pay import Bonus
from rlclinic.training.data import prioritized, replay
from rlclinic.training.data.replay import Batch, Replay
from rlclinic.training.envs.base import ActionSpec, Step, VecEnv
from rlclinic.training.fast.replay_passes import Rounds
from rlclinic.training.fast.twins import OffPolicyTwin
from rlclinic.training.fast.wide import WideRounds
from rlclinic.training.loops.on_policy import Position
from rlclinic.training.maths import exploration, normalize
from rlclinic.training.maths.normalize import Moments
from rlclinic.training.nets.q_nets import Net, Networks
from rlclinic.training.optim import Optimizer, OptimizerState

LARGEST_GATHER = 1 << 19
"""Numbers of a member's batches of a cycle that are gathered at once; more are gathered batch by batch."""
LONG_TURN = 8
"""Steps of a cycle that are worth preparing for."""
AVERAGE = "average"
"""Among a learner's targets: the average of what acts, where the config has one."""


Chooser = Callable[[int, Tensor], tuple[Tensor, Tensor]]
"""Of a step's number and the observation, the actions and which of them are not the best ones."""


@dataclass(frozen=True)
class Plan:
    """What stays the same all run: the algorithm, the networks' shapes, the sizes of a cycle."""

    algo: OffPolicyAlgorithm
    config: Any
    """The algorithm's own settings."""
    env: EnvConfig
    action: ActionSpec
    nets: Mapping[str, Net]
    optimizers: Mapping[str, Optimizer]
    memory: replay.Shape
    cycles: int
    updates_per_cycle: int
    engine: str = "eager"
    fast: OffPolicyTwin | None = None
    """The algorithm's gradients by hand; None: its losses are differentiated."""
    learned: Mapping[str, Tensor] = field(default_factory=dict)
    """First values of what is learned beside the networks, [K] each."""
    bonus: Bonus | None = None
    """What is paid for new states; None: nothing."""

    @property
    def updates(self) -> OffPolicyTwin:
        """Whose `update` makes the gradient steps."""
        return self.algo if self.fast is None else self.fast

    @property
    def acts(self) -> str:
        """The network that acts: the algorithm's actor, or the critics of choices where it has none."""
        return self.algo.ACTOR if self.algo.ACTOR in self.nets else "critic"

    @property
    def policy(self) -> Mapping[str, Net]:
        """What is not learned of that which is: the half of a policy that snapshots need to know."""
        return self.nets

    @property
    def batch_rows(self) -> int:
        """Transitions of a gradient step; 0 as a batch_size means all that a cycle collects (a table's)."""
        return self.config.batch_size or self.cycle_size

    @property
    def cycle_size(self) -> int:
        """Env steps of a cycle."""
        return self.memory.n_envs * self.config.train_freq


@dataclass(frozen=True)
class Learner:
    """What learning changes. Weights [M, P], targets, optimizer states by network; edited only inside an iteration, on its own copy."""

    nets: Mapping[str, Tensor]
    targets: Mapping[str, Tensor]
    optimizers: Mapping[str, OptimizerState]
    reward_bound: Tensor
    """[M, 1]: the largest reward by size that was ever learned from."""
    updates: int = 0
    """Gradient steps so far."""
    obs_stats: Moments | None = None
    reward_stats: Moments | None = None
    reward_carry: Tensor | None = None
    drift: Tensor | None = None
    """[M, N, K]: where Ornstein-Uhlenbeck noise stands."""
    bonus: Mapping[str, Tensor] | None = None
    """What a bonus for new states knows, [M, ...] by name."""


class Transitions(NamedTuple):
    """What an iteration's steps were, [M, T, N, ...]: for episode statistics, normalizers and sentinels."""

    obs: Tensor
    next_obs: Tensor
    following: Tensor
    action: Tensor
    """Choices, or actions between -1 and 1."""
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    explored: Tensor | None
    """Which choices exploration replaced."""
    valid: Tensor | None = None
    success: Tensor | None = None
    goes_on: Tensor | None = None
    next_action_mask: Tensor | None = None
    """[M, T, N, A]: the actions allowed in next_obs."""

    @property
    def end(self) -> Tensor:
        """Where an episode ended for learning, for whichever reason."""
        return self.terminated | self.truncated

    @property
    def over(self) -> Tensor:
        """Where an episode really ended and the next one began: not where only a life was lost."""
        return self.end if self.goes_on is None else self.end & ~self.goes_on


def normalize_obs(plan: Plan, learner: Learner, obs: Tensor) -> Tensor:
    """What the networks are shown: the observation, normalized if the config says so."""
    if learner.obs_stats is None:
        return obs
    return normalize.observations(learner.obs_stats, obs, plan.env.clip_obs)


def to_env(plan: Plan, action: Tensor) -> Tensor:
    """Actions as the env takes them: from [-1, 1] to its own bounds; choices stay."""
    if plan.action.low is None or plan.action.high is None:
        return action
    low, half = _bounds(tuple(plan.action.low.tolist()), tuple(plan.action.high.tolist()), action.device)
    return torch.addcmul(low, action + 1.0, half)


def from_env(plan: Plan, action: Tensor) -> Tensor:
    """The inverse: actions of the env as networks have them, between -1 and 1; choices stay."""
    if plan.action.low is None or plan.action.high is None:
        return action
    low, half = _bounds(tuple(plan.action.low.tolist()), tuple(plan.action.high.tolist()), action.device)
    return (action - low) / half - 1.0


@lru_cache(maxsize=16)
def _bounds(low: tuple[float, ...], high: tuple[float, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """The lower bound and half of the range, [K]."""
    least, most = (torch.tensor(bound, dtype=torch.float32, device=device) for bound in (low, high))
    return least, 0.5 * (most - least)


class Collector:
    """Collects steps for one iteration: noise drawn at once, and what was transitions kept for statistics."""

    def __init__(self, plan: Plan, env: VecEnv, seed: Tensor, env_steps: int, clock: dict[str, float]) -> None:
        self.plan, self.env, self.clock, self.env_steps = plan, env, clock, env_steps
        n_envs, steps = plan.memory.n_envs, plan.cycles * plan.config.train_freq
        first = torch.arange(steps, device=seed.device).view(1, -1, 1) + env_steps // n_envs
        envs = torch.arange(n_envs, device=seed.device).view(1, 1, -1)
        self._uniform = exploration.uniform_noise(seed, first, envs, max(plan.memory.action_size, 2)).unbind(1)
        noise = exploration_noise(plan, seed, first, envs)
        self._noise = noise.unbind(1) if noise is not None else self._uniform
        self._lived: list[Transitions] = []
        self._at = 0
        self._seed = seed
        self.bonus: dict[str, Tensor] = {}
        """What a bonus for new states says of itself, [M] by column, after the last cycle."""
        self._paid: list[Tensor] = []

    @torch.no_grad()
    def collect(self, learner: Learner, position: Position, memory: Replay, hp: Hyperparameters) -> Learner:
        """train_freq steps of every env into memory; moves `position` on."""
        plan, algo, clock = self.plan, self.plan.algo, self.clock
        # Of the networks the one that acts; a policy may have learned numbers beside it.
        params = Networks(plan.nets, {plan.acts: learner.nets[plan.acts], **learned_numbers(plan, learner)})
        started, env_before = perf_counter(), clock["env"]
        choose = self._chooser(params, position, hp)
        taken: list[tuple[Tensor, Tensor, Step, Tensor | None]] = []
        for number in range(plan.config.train_freq):
            explored, drift, at = None, learner.drift, self._at
            if self.env_steps < plan.config.learning_starts:
                action = random_actions(plan, self._uniform[at], position.action_mask)
            elif choose is not None:
                action, explored = choose(number, normalize_obs(plan, learner, position.obs))
            else:
                shown = normalize_obs(plan, learner, position.obs)
                action, explored, drift = algo.explore(plan, params, shown, position.action_mask, self._noise[at], hp, drift)
            sent = to_env(plan, action)
            before = perf_counter()
            step = self.env.step(sent)
            clock["env"] += perf_counter() - before
            taken.append((position.obs, action, step, explored))
            if drift is not None:
                learner = replace(learner, drift=exploration.restarted(drift, step.terminated | step.truncated))
            position.obs, position.action_mask = step.obs, step.action_mask
            self.env_steps += plan.memory.n_envs
            self._at += 1
        self._lived.append(stack_steps(plan, taken))
        stored = clip_rewards(plan, self._lived[-1])
        if plan.bonus is not None and learner.bonus is not None:
            # As new as it was when it happened: that is what is remembered with it.
            paid, state, self.bonus = pay.pay(plan.bonus, learner.bonus, self._lived[-1], self._seed, self.env_steps, None)
            learner = replace(learner, bonus=state)
            stored = stored._replace(reward=stored.reward + paid.of_reward)
            self._paid.append(paid.of_reward)
        replay.add(memory, stored)
        clock["act"] += perf_counter() - started - (clock["env"] - env_before)
        return learner

    def _chooser(self, params: Networks, position: Position, hp: Hyperparameters) -> "Chooser | None":
        """How actions of the coming cycle are chosen, where its algorithm can prepare for that."""
        steps, prepare = self.plan.config.train_freq, getattr(self.plan.fast, "prepare_actions", None)
        if prepare is None or steps < LONG_TURN or position.obs.is_cuda or position.action_mask is not None:
            return None
        found: Chooser | None = prepare(self.plan, params, torch.stack(self._noise[self._at : self._at + steps], 1), hp)
        return found

    def transitions(self) -> Transitions:
        """All steps of the iteration."""
        return concatenate(self._lived)

    def paid(self) -> Tensor | None:
        """What a bonus for new states has added to the rewards of these steps, [M, T, N]; None without one."""
        return torch.cat(self._paid, 1) if self._paid else None


def concatenate(cycles: list[Transitions]) -> Transitions:
    """Cycles one after the other."""
    if len(cycles) == 1:
        return cycles[0]
    columns = zip(*cycles, strict=True)
    return Transitions(*(None if column[0] is None else torch.cat(column, 1) for column in columns))  # type: ignore[arg-type]


def stack_steps(plan: Plan, taken: list[tuple[Tensor, Tensor, Step, Tensor | None]]) -> Transitions:
    """A cycle's steps as tensors over time: one copy per field instead of one per step."""
    obs, action, steps, explored = zip(*taken, strict=True)

    def over_time(name: str) -> Any:
        values = [getattr(step, name) for step in steps]
        return None if values[0] is None else torch.stack(values, 1)

    chosen = None
    if plan.action.kind == "discrete":
        # Before the first gradient step everything is exploration.
        chosen = torch.stack(
            [torch.ones_like(step.terminated) if each is None else each for step, each in zip(steps, explored, strict=True)], 1
        )
    made = {
        name: over_time(name)
        for name in ("next_obs", "reward", "terminated", "truncated", "valid", "success", "goes_on", "next_action_mask")
    }
    return Transitions(obs=torch.stack(obs, 1), following=over_time("obs"), action=torch.stack(action, 1), explored=chosen, **made)


def clip_rewards(plan: Plan, transitions: Transitions) -> Transitions:
    """Steps as learning sees them: rewards scaled, shifted and cut where the config says so; reported returns stay raw."""
    reward = normalize.learned(transitions.reward, plan.env)
    return transitions if reward is transitions.reward else transitions._replace(reward=reward)


def random_actions(plan: Plan, noise: Tensor, action_mask: Tensor | None) -> Tensor:
    """Actions before learning starts, each as likely; noise [M, N, ...] in (0, 1)."""
    if plan.algo.ACTIONS == "discrete":
        return exploration.random_choice(noise, plan.action.sizes[0], action_mask)
    return noise[..., : plan.memory.action_size] * 2.0 - 1.0


def exploration_noise(plan: Plan, seed: Tensor, step: Tensor, env: Tensor) -> Tensor | None:
    """Noise [M, T, N, ...] for `explore`: the algorithm's own; else normal numbers for boxes. None: two uniform numbers for choices."""
    if hasattr(plan.algo, "exploration_noise"):
        found: Tensor | None = plan.algo.exploration_noise(plan, seed, step, env)
        return found
    return None if plan.algo.ACTIONS == "discrete" else exploration.normal_noise(seed, step, env, plan.memory.action_size)


def acting_noise(plan: Plan, seed: Tensor, step: int, env: Tensor) -> Tensor | None:
    """Noise [M, N, ...] for a sample of `act`: the algorithm's own; else as while exploring."""
    if hasattr(plan.algo, "acting_noise"):
        found: Tensor | None = plan.algo.acting_noise(plan, seed, step, env)
        return found
    if plan.algo.ACTIONS == "discrete":
        return exploration.uniform_noise(seed, step, env, 2)
    return exploration.normal_noise(seed, step, env, plan.memory.action_size)


def update_noise(plan: Plan, seed: Tensor, first: int, updates: int) -> Tensor | None:
    """Noise [M, U, ...] for gradient steps, where the algorithm draws any."""
    draw = getattr(plan.algo, "update_noise", None)
    return None if draw is None else draw(plan, seed, first, updates)


def follow_targets(plan: Plan, learner: Learner, hp: Hyperparameters, active: Tensor | None, before: int, now: int) -> None:
    """Targets that follow env steps, where the algorithm has such ones."""
    if hasattr(plan.algo, "follow_targets"):
        plan.algo.follow_targets(plan, learner, hp, active, before, now)


class Draws:
    """Randomness of the gradient steps to come, drawn at once: a hash is fifty small operations, however much it is of."""

    def __init__(self, plan: Plan, seed: Tensor, first: int, updates: int) -> None:
        self.first, size = first, plan.batch_rows
        self._everything = not plan.config.batch_size
        self._bits = None if plan.memory.prioritized else replay.random_bits(seed, first, updates, size).unflatten(1, (updates, size))
        self._noise = update_noise(plan, seed, first, updates)

    def rows(self, memory: Replay, first: int, updates: int) -> Tensor:
        """Rows [M, updates * size], each as likely as another."""
        assert self._bits is not None
        if self._everything:
            return torch.arange(memory.size, device=self._bits.device).expand(len(self._bits), -1)
        return self._bits[:, first - self.first : first - self.first + updates].flatten(1) % memory.size

    def noise(self, update: int) -> Tensor | None:
        """The noise of one gradient step."""
        return None if self._noise is None else self._noise[:, update - self.first]


@torch.no_grad()
def learn(
    plan: Plan, learner: Learner, memory: Replay, hp: Hyperparameters, active: Tensor | None, seed: Tensor, draws: Draws | None = None
) -> tuple[Learner, dict[str, list[Tensor]]]:
    """A cycle's gradient steps, on tensors that are ours to edit. Readings are lists over gradient steps of [M, 1] or [M, B].

    draws: the randomness of more than this cycle, where it was drawn ahead.
    """
    size, updates = plan.batch_rows, plan.updates_per_cycle
    draws = draws or Draws(plan, seed, learner.updates, updates)
    readings: dict[str, list[Tensor]] = {}
    ahead = index = None
    if memory.tree is None:
        index = draws.rows(memory, learner.updates, updates)
        # By what a member gathers: all of a cohort must take the way that each would take alone.
        if index.shape[1] * memory.shape.width * plan.config.n_step <= LARGEST_GATHER and not memory.shape.images:
            whole = gather_batches(plan, learner, memory, index, hp)
            fast: Any = plan.fast
            if hasattr(fast, "update_all") and fast.covers_updates(plan, whole):
                return replace(learner, updates=learner.updates + updates), fast.update_all(plan, learner, whole, hp, active)
            ahead = whole.split(size)
    for update in range(updates):
        if ahead is not None:
            batch = ahead[update]
        else:
            batch = _draw_batch(plan, learner, memory, hp, seed, None if index is None else index[:, update * size : (update + 1) * size])
        found = plan.updates.update(plan, learner, batch, hp, active, draws.noise(learner.updates))
        learner = replace(learner, updates=learner.updates + 1)
        if memory.tree is not None and batch.places is not None:
            priority = prioritized.priority(found["error"], hp.priority_alpha)
            # A row that does not count has learned nothing from its error, and never will.
            memory.tree = prioritized.put(memory.tree, batch.places, priority if batch.weight is None else priority * (batch.weight > 0))
        if plan.memory.marks_valid and batch.weight is not None:
            found["counts"] = batch.weight > 0
        for name, reading in found.items():
            readings.setdefault(name, []).append(reading)
    return learner, readings


def gather_batches(plan: Plan, learner: Learner, memory: Replay, index: Tensor, hp: Hyperparameters) -> Batch:
    """The batches of a cycle in one, with what their targets say where those stand still until the cycle is over."""
    whole = prepare_batch(plan, learner, replay.gather(memory, index, plan.config.n_step, hp.gamma, None, reward_scale(plan, learner)))
    add_target_values = getattr(plan.fast, "add_target_values", None)
    return whole if plan.updates_per_cycle == 1 or add_target_values is None else add_target_values(plan, learner, whole)


def _draw_batch(plan: Plan, learner: Learner, memory: Replay, hp: Hyperparameters, seed: Tensor, rows: Tensor | None) -> Batch:
    """One batch: these rows, or some by priority, with their importance weights."""
    weight = None
    if rows is None:
        rows, weight = replay.by_priority(memory, seed, learner.updates, plan.config.batch_size, hp.priority_beta)
    return prepare_batch(plan, learner, replay.gather(memory, rows, plan.config.n_step, hp.gamma, weight, reward_scale(plan, learner)))


def prepare_batch(plan: Plan, learner: Learner, batch: Batch) -> Batch:
    """A batch as the networks see it: observations normalized with the statistics of now, not of when they were collected."""
    if plan.action.kind == "discrete":
        batch = batch._replace(action=batch.action.long())
    if learner.obs_stats is not None:
        batch = batch._replace(obs=normalize_obs(plan, learner, batch.obs), next_obs=normalize_obs(plan, learner, batch.next_obs))
    return batch


def reward_scale(plan: Plan, learner: Learner) -> Callable[[Tensor], Tensor] | None:
    """What learning makes of single rewards [M, B, n] when they are drawn, by the statistics of now; None: nothing."""
    stats = learner.reward_stats
    return None if stats is None else lambda reward: normalize.rewards(stats, reward, plan.env.clip_reward)


def copy_learner(learner: Learner) -> Learner:
    """Weights, targets and optimizer states that an iteration may edit: what it began with stays as it was."""
    return replace(
        learner,
        nets={name: flat.clone() for name, flat in learner.nets.items()},
        targets={name: flat.clone() for name, flat in learner.targets.items()},
        optimizers={name: OptimizerState(*(each.clone() for each in state)) for name, state in learner.optimizers.items()},
    )


def networks(plan: Plan, learner: Learner, **instead: Tensor) -> Networks:
    """The learner's networks, as losses and targets take them; some with other weights."""
    return Networks(plan.nets, {**learner.nets, **instead})


def acting_networks(plan: Plan, learner: Learner) -> Networks:
    """What is evaluated and played: the network that acts, or its average, and the learned numbers beside it."""
    return Networks(plan.nets, {plan.acts: deployed_weights(plan, learner), **learned_numbers(plan, learner)})


def learned_numbers(plan: Plan, learner: Learner) -> dict[str, Tensor]:
    """What is learned beside the networks, [M, K] by name."""
    return {name: flat for name, flat in learner.nets.items() if name not in plan.nets}


def target_networks(plan: Plan, learner: Learner) -> Networks:
    """Their slow copies."""
    return Networks(plan.nets, learner.targets)


def minimize(
    plan: Plan,
    learner: Learner,
    name: str,
    loss: Callable[[Networks], tuple[Tensor, dict[str, Tensor]]],
    hp: Hyperparameters,
    active: Tensor | None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """One optimizer step of a network along its loss's gradient by autograd, in place; returns the gradient's norm [M, 1] and readings.

    The other networks' weights are constants there. This is the definition to which every gradient by hand is held.
    """
    return minimize_together(plan, learner, (name,), loss, hp, active)


def minimize_together(
    plan: Plan,
    learner: Learner,
    names: tuple[str, ...],
    loss: Callable[[Networks], tuple[Tensor, dict[str, Tensor]]],
    hp: Hyperparameters,
    active: Tensor | None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """`minimize` of several networks or learned numbers along one loss; the norm is that of the first one's gradient."""
    leaves = {name: learner.nets[name].detach().requires_grad_() for name in names}
    with torch.enable_grad():
        value, readings = loss(networks(plan, learner, **leaves))
        # Members share no weight, so the gradient of the sum is every member's own gradient.
        grads = torch.autograd.grad(value.sum(), list(leaves.values()))
    norms = [descend(plan, learner, name, grad, hp, active) for name, grad in zip(names, grads, strict=True)]
    return norms[0], {reading: rows.detach() for reading, rows in readings.items()}


def descend(plan: Plan, learner: Learner, name: str, grad: Tensor, hp: Hyperparameters, active: Tensor | None) -> Tensor:
    """One optimizer step of a network along its gradient [M, P], in place; returns the gradient's norm [M, 1] before clipping."""
    norm = torch.linalg.vector_norm(grad, dim=1, keepdim=True)
    # To look is cheap on a CPU, and most steps are short enough. On a GPU it would stall the queue.
    if (
        hp.max_grad_norm is not None
        and name in plan.nets
        and (norm.is_cuda or not optim.all_within(norm, [each["max_grad_norm"] for each in hp.per_member]))
    ):
        grad = optim.clip_by_norm(grad, norm, hp.max_grad_norm)
    critic = name in ("critic", "value")
    flat, state, rule = learner.nets[name], learner.optimizers[name], plan.optimizers[name]
    if rule.kind == "adam" and not flat.is_cuda:
        rates = [(each.get("value_lr") if critic else None) or each["learning_rate"] for each in hp.per_member]
        optim.adam_in_place(rule, flat, grad, state, rates, None if active is None else active.flatten().tolist())
        return norm
    new, moments = optim.step(rule, flat, grad, state, hp.value_lr if critic and hp.value_lr is not None else hp.learning_rate, active)
    for old, moved in zip((flat, *state), (new, *moments), strict=True):
        old.copy_(moved)
    return norm


def prepare_descent(
    plan: Plan, name: str, rounds: Rounds | WideRounds, steps: Tensor, hp: Hyperparameters, member: int
) -> Callable[[Tensor], None]:
    """`descend` of one member, for many Adam steps along the gradients of rounds; steps [1, 1] counts them.

    Each step writes the gradient's norm before clipping to a given [1, 1].
    """
    numbers, bounds = hp.per_member[member], hp.max_grad_norm
    step, bound = optim.adam_again(plan.optimizers[name], steps, numbers["learning_rate"] or 0.0), numbers["max_grad_norm"]

    def descend(norm: Tensor) -> None:
        grad = rounds.moving.gradient
        torch.linalg.vector_norm(grad, dim=1, keepdim=True, out=norm)
        if bound is not None and bounds is not None and not optim.within(norm.item(), bound):
            grad.copy_(optim.clip_by_norm(grad, norm, bounds[member : member + 1]))
        step(*rounds.moving)

    return descend


def follow(learner: Learner, names: tuple[str, ...], tau: Tensor, active: Tensor | None) -> None:
    """Let targets take over a share tau [M, 1] of their networks, in place (Polyak averaging; 1 copies)."""
    share = tau if active is None else torch.where(active, tau, 0.0)
    for name in names:
        if name in learner.targets:
            learner.targets[name].lerp_(learner.nets[name], share)


def average(plan: Plan, learner: Learner, active: Tensor | None) -> None:
    """Let the average of what acts follow a cycle's gradient steps, in place: first the mean of all, then over policy_average of them."""
    if (own := learner.targets.get(AVERAGE)) is not None:
        share = min(1.0, plan.updates_per_cycle / min(plan.config.policy_average, learner.updates))
        follows = own.new_full((len(own), 1), share)
        own.lerp_(learner.nets[plan.acts], follows if active is None else torch.where(active, follows, 0.0))


def deployed_weights(plan: Plan, learner: Learner) -> Tensor:
    """The weights that are evaluated and played: what acts, or its average."""
    return learner.targets.get(AVERAGE, learner.nets[plan.acts])


@torch.no_grad()
def update_normalizers(plan: Plan, learner: Learner, transitions: Transitions, hp: Hyperparameters, active: Tensor) -> Learner:
    """The normalizers after an iteration: they now also cover what it has seen."""
    weight = None if transitions.valid is None else transitions.valid.flatten(1)
    if learner.obs_stats is not None:
        learner = replace(learner, obs_stats=normalize.include(learner.obs_stats, transitions.obs.flatten(1, 2), active, weight))
    if learner.reward_stats is not None and learner.reward_carry is not None:
        sums, carry = normalize.discounted_returns(clip_rewards(plan, transitions).reward, transitions.end, learner.reward_carry, hp.gamma)
        stats = normalize.include(learner.reward_stats, sums.flatten(1).unsqueeze(-1), active, weight)
        learner = replace(learner, reward_stats=stats, reward_carry=carry)
    return learner
