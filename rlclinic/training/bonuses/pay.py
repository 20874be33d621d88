"""What new states pay: the bonus of each step, its own critic's advantages, and what is remembered of both.

All that a bonus knows is a dict of tensors [M, ...] by name, which is part of the learner and of checkpoints. It changes once per
iteration, after the steps were taken; tables of cells, which are large, are edited in place. Statistics that scale a bonus run along time,
in each environment for itself: an average over environments would mix those that have found something with those that have not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rlclinic.config import BonusConfig
from rlclinic.training.bonuses import counts, curiosity, sight
from rlclinic.training.bonuses.counts import Cells
from rlclinic.training.bonuses.sight import Sight, Steps
from rlclinic.training.envs.base import ActionSpec, VecEnv
from rlclinic.training.maths import normalize, returns
from rlclinic.training.maths.normalize import Moments
from rlclinic.training.nets.q_nets import Net

CLIP = 5.0
"""Observations that novelty networks see are cut to plus and minus this, in deviations."""
NOVELD_SHARE = 0.5
"""NovelD: how much of the novelty of where it was is taken off that of where it went."""
GAE_LAMBDA = 0.95

COLUMNS = tuple(f"train/bonus/{name}" for name in ("return", "share", "half_life", "new_states"))

State = Mapping[str, Tensor]


@dataclass(frozen=True)
class Bonus:
    """What stays the same all run: the settings, how states are told apart, the networks' shapes."""

    config: BonusConfig
    own_head: bool
    table_values: bool
    """Whether the values of its own head are a table over the cells that are counted, instead of a network's."""
    sight: Sight
    cells: Cells
    nets: Mapping[str, Net]
    action: ActionSpec
    n_envs: int

    @property
    def counts_in_episodes(self) -> bool:
        """Whether visits are also counted within each episode; over the whole run they always are, for `new_states`."""
        return self.config.kind in ("episodic_count", "noveld")


class Paid(NamedTuple):
    """What a bonus adds to steps [M, T, N]: to the reward, or to advantages where it has a critic of its own."""

    reward: Tensor | None
    advantage: Tensor | None
    instead: Tensor | None = None
    """What is paid in place of the environment's reward, where that is learned (GAIL, AIRL)."""

    @property
    def of_reward(self) -> Tensor:
        """What is added to rewards, where the bonus has no critic of its own."""
        assert self.reward is not None
        return self.reward


def plan(config: BonusConfig, env: VecEnv, *, on_policy: bool, table_values: bool = True) -> Bonus:
    """The bonus of a config in an environment.

    table_values: false for runs that were begun when counts had a network for their own head (config.corrections).
    """
    own_head = on_policy and config.value_head != "shared"
    # What is counted is valued by the same cells: a network would cost more than all the counting, and see no more than they tell apart.
    table_values = table_values and own_head and config.kind in ("count", "episodic_count")
    seen = sight.find_sight(env)
    nets = curiosity.build(config.kind, seen.size, env.action)
    if own_head and not table_values:
        nets |= {"critic": curiosity.build_critic(seen.size)}
    cells = counts.cells_of(env, seen, config.cells, config.buckets)
    return Bonus(config, own_head, table_values, seen, cells, nets, env.action, env.n_envs)


def fresh(bonus: Bonus, seeds: list[int], device: torch.device) -> dict[str, Tensor]:
    """Nothing met yet, nothing learned."""
    members = len(seeds)
    state = {
        "counts": torch.zeros(members, bonus.cells.buckets, device=device),
        "steps": torch.zeros(members, 1, device=device),
        "first": torch.full((members, 1), torch.nan, device=device),
        "found": torch.zeros(members, 1, device=device),
    }
    if bonus.counts_in_episodes:
        state["episode"] = torch.zeros(members, bonus.n_envs, _episode_buckets(bonus), device=device)
    if bonus.table_values:
        state["values"] = torch.full((members, bonus.cells.buckets), torch.nan, device=device)
        state["average_value"] = torch.full((members, 1), torch.nan, device=device)
    if bonus.nets:
        state |= curiosity.fresh(bonus.nets, seeds, device)
        state |= _name("obs_stats", normalize.moments(members, bonus.sight.size, device))
    if bonus.config.kind in ("rnd", "noveld", "icm"):
        state |= _name("scale", normalize.moments(members, 1, device))
        state["carry"] = torch.zeros(members, bonus.n_envs, device=device)
    return state


def _episode_buckets(bonus: Bonus) -> int:
    return bonus.cells.buckets if bonus.cells.one_hot else counts.EPISODE_BUCKETS


def _name(prefix: str, stats: Moments) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": each for name, each in stats._asdict().items()}


def _moments(state: State, prefix: str) -> Moments:
    return Moments(*(state[f"{prefix}.{name}"] for name in Moments._fields))


@torch.no_grad()
def pay(
    bonus: Bonus, state: State, steps: Steps, seed: Tensor, iteration: int | Tensor, active: Tensor | None
) -> tuple[Paid, dict[str, Tensor], dict[str, Tensor]]:
    """What steps are paid, what is known after them, and readings [M] by column; seed is [M, 1, 1], active [M, 1] says who learns."""
    config, state, steps = bonus.config, dict(state), bonus.sight.look(steps)
    valid = steps.valid
    cell = bonus.cells.number(steps.next_obs, bonus.cells.buckets)
    visits, state["counts"] = counts.count(state["counts"], cell, valid)
    everyone = active if active is not None else torch.ones_like(state["found"], dtype=torch.bool)
    shown = _show(bonus, state, steps, everyone)
    novelty, state = _measure(bonus, state, steps, visits, shown, seed, iteration, active)
    if valid is not None:
        novelty = novelty * valid
    mean = novelty.flatten(1).mean(1, keepdim=True)
    state["first"] = torch.where(state["first"].isnan(), mean, state["first"])
    state["steps"] = state["steps"] + float(novelty[0].numel())
    if config.until == "first_success":
        novelty = novelty * (1.0 - state["found"]).unsqueeze(-1)
        state["found"] = torch.maximum(state["found"], _succeeds(steps))
    readings = _read(bonus, state, steps, visits, config.coef * novelty, mean)
    if not bonus.own_head:
        return Paid(config.coef * novelty, None), state, readings
    # Its critic learns in units of novelty: what it does not know yet is then no larger than what the coefficient makes of it.
    advantage, state = _estimate_advantages(bonus, state, steps, cell, shown, novelty, seed, iteration, active)
    return Paid(None, config.coef * advantage), state, readings


def _show(bonus: Bonus, state: dict[str, Tensor], steps: Steps, active: Tensor) -> dict[str, Tensor]:
    """What networks see of observations, [M, T*N, D] by name; the statistics cover these very steps, so that the first are scaled, too."""
    if not bonus.nets:
        return {}
    weight = None if steps.valid is None else steps.valid.flatten(1)
    stats = normalize.include(_moments(state, "obs_stats"), steps.next_obs.flatten(1, 2), active, weight)
    state |= _name("obs_stats", stats)
    seen = {"obs": steps.obs, "next_obs": steps.next_obs, "last": steps.following[:, -1:]}
    return {name: normalize.observations(stats, obs.flatten(1, 2), CLIP) for name, obs in seen.items()}


def _measure(
    bonus: Bonus,
    state: dict[str, Tensor],
    steps: Steps,
    visits: Tensor,
    shown: Mapping[str, Tensor],
    seed: Tensor,
    iteration: int | Tensor,
    active: Tensor | None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """How new what each step led to was, [M, T, N], and what is known after."""
    kind, nets, over = bonus.config.kind, bonus.nets, steps.over
    if kind == "count":
        return visits.clamp(min=1.0).rsqrt(), state
    in_episode = visits
    if bonus.counts_in_episodes:
        cell = bonus.cells.number(steps.next_obs, _episode_buckets(bonus))
        in_episode, state["episode"] = counts.count_in_episodes(state["episode"], cell, over, steps.valid)
    if kind == "episodic_count":
        return in_episode.clamp(min=1.0).rsqrt(), state
    rows = visits[0].numel()
    learning = (curiosity.steps_for(rows), bonus.config.learning_rate, seed, iteration, 0, active)
    if kind == "icm":
        action = curiosity.as_numbers(steps.action, bonus.action).flatten(1, 2)
        error = curiosity.forward_error(nets, state, shown["obs"], action, shown["next_obs"])

        def loss(weights: State, index: Tensor) -> Tensor:
            now, did, then = (curiosity.take(each, index) for each in (shown["obs"], action, shown["next_obs"]))
            forward = curiosity.forward_error(nets, weights, now, did, then).mean(-1, keepdim=True)
            inverse = curiosity.inverse_loss(nets, weights, now, did, then, bonus.action)
            return (1 - curiosity.INVERSE_SHARE) * forward + curiosity.INVERSE_SHARE * inverse

        novelty, state = _scale(bonus, state, error.view_as(visits), active)
        return novelty, curiosity.learn(nets, state, ("features", "inverse", "forward"), loss, rows, *learning)
    error, target = curiosity.prediction_error(nets, state, shown["next_obs"])
    novelty = error.view_as(visits)
    if kind == "noveld":
        before = curiosity.prediction_error(nets, state, shown["obs"])[0].view_as(visits)
        novelty = (novelty - NOVELD_SHARE * before).clamp(min=0.0) * (in_episode == 1)
    novelty, state = _scale(bonus, state, novelty, active)
    return novelty, curiosity.learn_targets(nets, state, "predictor", shown["next_obs"], target, *learning)


def _scale(bonus: Bonus, state: dict[str, Tensor], novelty: Tensor, active: Tensor | None) -> tuple[Tensor, dict[str, Tensor]]:
    """Novelty divided by the deviation of its discounted sum over time, which no end of an episode cuts."""
    gamma = torch.full_like(state["found"], bonus.config.gamma)
    never = torch.zeros_like(novelty, dtype=torch.bool)
    sums, state["carry"] = normalize.discounted_returns(novelty, never, state["carry"], gamma)
    everyone = torch.ones_like(state["found"], dtype=torch.bool) if active is None else active
    stats = normalize.include(_moments(state, "scale"), sums.flatten(1).unsqueeze(-1), everyone)
    state |= _name("scale", stats)
    return novelty * torch.rsqrt(stats.var + normalize.EPSILON).float().unsqueeze(-1), state


def _succeeds(steps: Steps) -> Tensor:
    """1 for members with an episode that succeeded, or, where nobody reports success, with a reward above 0; [M, 1]."""
    success = steps.success
    if success is not None and not bool(success.isnan().all()):
        return (success == 1).flatten(1).any(1, keepdim=True).float()
    return torch.zeros_like(steps.reward[:, :1, 0]) if success is not None else (steps.reward > 0).flatten(1).any(1, keepdim=True).float()


def _estimate_advantages(
    bonus: Bonus,
    state: dict[str, Tensor],
    steps: Steps,
    cell: Tensor,
    shown: Mapping[str, Tensor],
    novelty: Tensor,
    seed: Tensor,
    iteration: int | Tensor,
    active: Tensor | None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Advantages [M, T, N] of the bonus by its own values, which then learn its returns; `cell` is where each step led to."""
    episodic = bonus.config.episodic
    gamma, gae_lambda = torch.full_like(state["found"], bonus.config.gamma), torch.full_like(state["found"], GAE_LAMBDA)

    def estimate(value: Tensor, next_value: Tensor) -> tuple[Tensor, Tensor]:
        if episodic:
            return returns.gae(novelty, value, next_value, steps.terminated, steps.truncated, gamma, gae_lambda)
        return returns.gae_without_ends(novelty, value, next_value, gamma, gae_lambda)

    # Beyond an end, what is new goes on in the next episode: its first observation has the value. It is what the next step acted on:
    # only those after the last step are not among them yet.
    if bonus.table_values:
        buckets, (table, average) = bonus.cells.buckets, (state["values"], state["average_value"])
        at = _acted_on(bonus, steps, cell)
        led_to = cell if episodic else torch.cat([at[:, 1:], bonus.cells.number(steps.following[:, -1:], buckets)], 1)
        value, next_value = counts.value(table, average, at), counts.value(table, average, led_to)
        advantage, target = estimate(value, next_value)
        state["values"], state["average_value"] = counts.learn_values(table, average, at, target, steps.valid, active)
        return advantage, state
    value = curiosity.outputs(bonus.nets, state, "critic", shown["obs"]).view_as(novelty)
    if episodic:
        next_value = curiosity.outputs(bonus.nets, state, "critic", shown["next_obs"]).view_as(novelty)
    else:
        last = curiosity.outputs(bonus.nets, state, "critic", shown["last"]).view_as(novelty[:, -1:])
        next_value = torch.cat([value[:, 1:], last], 1)
    advantage, target = estimate(value, next_value)
    learning = (4 * curiosity.steps_for(novelty[0].numel()), bonus.config.learning_rate, seed, iteration, 1, active)
    return advantage, curiosity.learn_targets(bonus.nets, state, "critic", shown["obs"], target.flatten(1).unsqueeze(-1), *learning)


def _acted_on(bonus: Bonus, steps: Steps, cell: Tensor) -> Tensor:
    """The cells [M, T, N] of what steps acted on: where the step before led to (`cell`), but for first steps and beginnings of episodes."""
    if steps.valid is not None or cell.is_cuda:
        return bonus.cells.number(steps.obs, bonus.cells.buckets)
    at = torch.cat([bonus.cells.number(steps.obs[:, :1], bonus.cells.buckets), cell[:, :-1]], 1)
    begins = (steps.terminated | steps.truncated)[:, :-1].nonzero(as_tuple=True)
    if len(begins[0]):
        member, step, env = begins
        at[member, step + 1, env] = bonus.cells.number(steps.obs[member, step + 1, env], bonus.cells.buckets)
    return at


def _read(bonus: Bonus, state: State, steps: Steps, visits: Tensor, paid: Tensor, mean: Tensor) -> dict[str, Tensor]:
    """What a row says of the bonus, [M] by column."""
    total, rewards = paid.flatten(1).sum(1), steps.reward.abs().flatten(1).sum(1)
    ends = steps.over.flatten(1).sum(1).clamp(min=1)
    fallen = torch.log2(state["first"] / mean.clamp(min=1e-30)).squeeze(1)
    fresh_states = (visits == 1) if steps.valid is None else (visits == 1) & steps.valid
    return {
        "train/bonus/return": total / ends,
        "train/bonus/share": total / (total + rewards).clamp(min=1e-30),
        # The env steps in which it halved, on average since the start; blank as long as it has not fallen.
        "train/bonus/half_life": torch.where(fallen > 0, state["steps"].squeeze(1) / fallen, torch.nan),
        "train/bonus/new_states": 1_000.0 * fresh_states.flatten(1).float().mean(1),
    }
