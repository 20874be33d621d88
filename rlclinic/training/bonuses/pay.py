"""What new states pay: the bonus of each step, its own critic's advantages, and what is remembered of both.

All that a bonus knows is a dict of tensors [M, ...] by name, which is part of the learner and of checkpoints. It changes once per
iteration, after the steps were taken; tables of cells, which are large, are edited in place. Statistics that scale a bonus run along time,
in each environment for itself: an average over environments would mix those that have found something with those that have not.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rlclinic.config import BonusConfig
from rlclinic.config.corrections import CORRECTIONS
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

ALONG_TIME = ("episode", "carry")
"""What each environment has of its own, [M, N, ...], from one rollout to the next."""
LEAST_STEPS = 250
"""Env steps that a reading covers at least: a cycle of DQN has one or four, of which a share or a number of new states says nothing."""
COLUMNS = tuple(f"train/bonus/{name}" for name in ("return", "share", "half_life", "new_states"))

State = Mapping[str, Tensor]


@dataclass(frozen=True)
class Bonus:
    """What stays the same all run: the settings, how states are told apart, the networks' shapes."""

    config: BonusConfig
    own_head: bool
    table_values: bool
    """Whether the values of its own head are a table over the cells that are counted, instead of a network's."""
    critic_batch: int
    """Rows of a gradient step of its own critic."""
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


def plan(config: BonusConfig, env: VecEnv, *, on_policy: bool, corrections: Collection[str] = tuple(CORRECTIONS)) -> Bonus:
    """The bonus of a config in an environment; `corrections` are those that were made when the run was begun."""
    own_head = on_policy and config.value_head != "shared"
    # What is counted is valued by the same cells: a network would cost more than all the counting, and see no more than they tell apart.
    table_values = own_head and config.kind in ("count", "episodic_count") and "table_of_bonus_values" in corrections
    seen = sight.find_sight(env)
    nets = curiosity.build(config.kind, seen.size, env.action)
    if own_head and not table_values:
        nets |= {"critic": curiosity.build_critic(seen.size)}
    cells = counts.cells_of(env, seen, config.cells, config.buckets)
    critic_batch = curiosity.CRITIC_BATCH if "bonus_critic_by_half_batches" in corrections else curiosity.BATCH
    return Bonus(config, own_head, table_values, critic_batch, seen, cells, nets, env.action, env.n_envs)


def fresh(bonus: Bonus, seeds: list[int], device: torch.device) -> dict[str, Tensor]:
    """Nothing met yet, nothing learned."""
    members = len(seeds)
    state = {
        "counts": torch.zeros(members, bonus.cells.buckets, device=device),
        "steps": torch.zeros(members, 1, device=device),
        "first": torch.full((members, 1), torch.nan, device=device),
        "found": torch.zeros(members, 1, device=device),
        "window": torch.zeros(members, 6, device=device),
        "told": torch.full((members, 3), torch.nan, device=device),
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
    readings, state = _read(state, steps, visits, config.coef * novelty, mean)
    if not bonus.own_head:
        return Paid(config.coef * novelty, None), state, readings
    # Its critic learns in units of novelty: what it does not know yet is then no larger than what the coefficient makes of it.
    advantage, state = _estimate_advantages(bonus, state, steps, cell, shown, novelty, seed, iteration, active)
    return Paid(None, config.coef * advantage), state, readings


@torch.no_grad()
def pay_some(
    bonus: Bonus, state: State, steps: Steps, first_env: int, seed: Tensor, iteration: int, active: Tensor | None
) -> tuple[Paid, dict[str, Tensor], dict[str, Tensor]]:
    """The same for steps of some of the environments, those of one actor: what runs along time is each environment's own."""
    envs = slice(first_env, first_env + steps.reward.shape[2])
    own = {name: state[name][:, envs] for name in ALONG_TIME if name in state}
    paid, after, readings = pay(bonus, {**state, **own}, steps, seed, iteration, active)
    for name in own:
        whole = state[name].clone()
        whole[:, envs] = after[name]
        after[name] = whole
    return paid, after, readings


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
    pays = (steps.reward > 0).any(1)  # [M, N]
    if steps.success is None:
        return pays.any(1, keepdim=True).float()
    # An episode that ends without a word shows that nobody reports success; before its end none is told anyway.
    silent = (steps.over & steps.success.isnan()).any(1)
    return ((steps.success == 1).any(1) | (silent & pays)).any(1, keepdim=True).float()


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
        table, average = state["values"], state["average_value"]
        at, last = _acted_on(bonus, steps, cell)
        led_to = cell if episodic else torch.cat([at[:, 1:], last], 1)
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
    targets = target.flatten(1).unsqueeze(-1)
    return advantage, curiosity.learn_targets(bonus.nets, state, "critic", shown["obs"], targets, *learning, bonus.critic_batch)


def _acted_on(bonus: Bonus, steps: Steps, cell: Tensor) -> tuple[Tensor, Tensor]:
    """The cells [M, T, N] of what steps acted on, and those [M, 1, N] of what the step after the last will act on.

    Each acts on what the step before led to (`cell`), but for first steps and beginnings of episodes: those alone are numbered anew, with
    the last ones in one go, as numbering is many small operations.
    """
    buckets, first, last = bonus.cells.buckets, steps.obs[:, :1], steps.following[:, -1:]
    if steps.valid is not None or cell.is_cuda:
        return bonus.cells.number(steps.obs, buckets), bonus.cells.number(last, buckets)
    member, step, env = (steps.terminated | steps.truncated)[:, :-1].nonzero(as_tuple=True)
    rows = (first.flatten(0, 2), last.flatten(0, 2), steps.obs[member, step + 1, env])
    beginning, end, anew = bonus.cells.number(torch.cat(rows), buckets).split([len(part) for part in rows])
    at = torch.cat([beginning.view(first.shape[:-1]), cell[:, :-1]], 1)
    at[member, step + 1, env] = anew
    return at, end.view(last.shape[:-1])


def _read(
    state: dict[str, Tensor], steps: Steps, visits: Tensor, paid: Tensor, mean: Tensor
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What a row says of the bonus, [M] by column, and what is known after.

    Sums are kept until they cover enough: LEAST_STEPS for the share and for new states, the end of an episode for what one is paid.
    """
    new = visits == 1 if steps.valid is None else (visits == 1) & steps.valid
    total, rewards, ends, fresh_states = (each.flatten(1).sum(1) for each in (paid, steps.reward.abs(), steps.over, new))
    counted = torch.full_like(total, visits[0].numel()) if steps.valid is None else steps.valid.flatten(1).sum(1)
    window = state["window"] + torch.stack([total, rewards, fresh_states, counted, total, ends], 1)
    now = torch.stack(
        [
            window[:, 0] / (window[:, 0] + window[:, 1]).clamp(min=1e-30),
            1_000.0 * window[:, 2] / window[:, 3].clamp(min=1.0),
            window[:, 4] / window[:, 5],
        ],
        1,
    )
    enough = torch.stack([window[:, 3] >= LEAST_STEPS, window[:, 5] > 0], 1)
    told = torch.where(enough[:, [0, 0, 1]], now, state["told"])
    state |= {"window": torch.where(enough[:, [0, 0, 0, 0, 1, 1]], 0.0, window), "told": told}
    # Before there is enough, the little that there is; of an episode's pay nothing, before one has ended.
    share, new_states = torch.where(told.isnan(), now, told)[:, :2].unbind(1)
    fallen = torch.log2(state["first"] / mean.clamp(min=1e-30)).squeeze(1)
    return {
        "train/bonus/return": told[:, 2],
        "train/bonus/share": share,
        # The env steps in which it halved, on average since the start; blank as long as it has not fallen.
        "train/bonus/half_life": torch.where(fallen > 0, state["steps"].squeeze(1) / fallen, torch.nan),
        "train/bonus/new_states": new_states,
    }, state
