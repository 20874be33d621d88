"""Sentinels of algorithms with a replay: Q-values against what they can be, targets, memory, exploration.

As in `sentinels`: `every_row` is cheap, `now_and_then` costs passes through the networks; one number per member, [M]; a column that
does not apply stays blank. Rows that are no transition (see envs.base.Step.valid) are left out of everything.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data import replay
from rlclinic.training.data.replay import Replay
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.off_policy import Learner, Plan, Transitions
from rlclinic.training.maths import normalize, squashed
from rlclinic.training.nets import conv, q_nets
from rlclinic.training.sentinels import environment, fingerprints, invariants, on_policy_sentinels, random_policy
from rlclinic.training.sentinels.on_policy_sentinels import PREFIX

EVERY_ROW: Final = (
    "return_mean", "return_std", "return_abs_p95", "value_mean", "value_std", "q_abs_max", "q_bound", "q_bound_ratio", "td_error",
    "td_error_p50", "td_error_p95", "td_error_p99", "td_error_max", "target_distance", "target_updates", "replay_age", "buffer_share",
    "updates", "updates_per_step", "optimizer_steps", "update_ratio_min", "update_ratio_max", "update_ratio_worst", "weight_norm",
    "obs_abs_max", "obs_abs_worst", "obs_std_min", "obs_std_worst", "obs_mean_abs_max", "obs_out_of_bounds", "obs_repeat", "reward_mean",
    "reward_std", "reward_min", "reward_max", "reward_nonzero", "reward_trained_std", "terminated", "truncated", "next_obs_is_reset",
)  # fmt: skip
OF_CHOICES: Final = ("action_top_share", "epsilon_actual", "is_weight_min", "is_weight_mean", "replay_ess")
OF_VECTORS: Final = ("action_at_bound", "action_reach", "dormant_actor", "rank_actor", "saturated_actor", "activation_norm_actor")
NOW_AND_THEN: Final = (
    "dormant_critic",
    "rank_critic",
    "saturated_critic",
    "activation_norm_critic",
    "q_bias",
    "target_error",
    "target_error_ends",
    "target_error_cuts",
)
AT_BOUND: Final = 0.999
LONGEST_EPISODE: Final = 2_000
UNSEEN_SHARE: Final = 0.01
"""What a time limit cut off may count at most in a return that is taken for known."""
Array = np.ndarray[Any, np.dtype[Any]]


def columns(discrete: bool) -> list[str]:
    """The sentinels of an algorithm that makes choices, or of one whose actions are vectors."""
    own = OF_CHOICES if discrete else OF_VECTORS
    names = EVERY_ROW + own + NOW_AND_THEN + fingerprints.NAMES + on_policy_sentinels.AT_EVALUATION + random_policy.NAMES
    names += environment.NAMES
    return [PREFIX + name for name in names]


class Seen(NamedTuple):
    """Everything an iteration leaves behind."""

    before: Learner
    after: Learner
    transitions: Transitions
    readings: dict[str, Tensor]
    """[U, M, ...]; empty before the first gradient step. `counts`, where there is one, says which rows of the batches are transitions."""


@torch.no_grad()
def largest(plan: Plan, learner: Learner, transitions: Transitions, paid: Tensor | None = None) -> Tensor:
    """The largest reward by size that was ever learned from, [M, 1]; `paid` is what a bonus has added to those of the environment."""
    reward = _trained_rewards(plan, learner, transitions.reward, paid)
    if transitions.valid is not None:
        reward = reward * transitions.valid
    return torch.maximum(learner.reward_bound, reward.abs().amax((1, 2)).unsqueeze(1))


def _trained_rewards(plan: Plan, learner: Learner, reward: Tensor, paid: Tensor | None = None) -> Tensor:
    """Rewards [M, T, N] in the units that are learned from."""
    reward = normalize.learned(reward, plan.env)
    reward = reward if paid is None else reward + paid
    return reward if learner.reward_stats is None else normalize.rewards(learner.reward_stats, reward, plan.env.clip_reward)


@torch.no_grad()
def every_row(plan: Plan, seen: Seen, env: VecEnv, memory: Replay, hp: Hyperparameters) -> dict[str, Tensor]:
    """The free ones."""
    steps = seen.transitions
    trained = _trained_rewards(plan, seen.before, steps.reward)
    # Of images only whether they change: they are not looked at as numbers.
    shown = None if plan.memory.images else off_policy.normalize_obs(plan, seen.before, steps.obs)
    if steps.valid is None:
        found = _steps(plan, steps, trained, shown, env)
    else:
        own = [_steps(plan, *_only(steps, trained, shown, m), env) if bool(counts.any()) else {} for m, counts in enumerate(steps.valid)]
        found = on_policy_sentinels.join(own, steps.reward)
    members = seen.transitions.reward.shape[0]
    found["replay_age"] = torch.full((members,), (memory.size - 1) / 2)
    found["buffer_share"] = torch.full((members,), memory.size / memory.shape.rows)
    found |= measure_steps(plan, "q" if "q" in plan.nets else "critic", seen.before, seen.after)
    updates = float(seen.after.updates - seen.before.updates)
    found["updates_per_step"] = torch.full((members,), updates / (plan.cycles * plan.cycle_size))
    if seen.readings:
        found |= _values(plan, seen, hp)
    return {PREFIX + name: number.to(seen.transitions.reward.device) for name, number in found.items()}


def _only(steps: Transitions, trained: Tensor, shown: Tensor | None, member: int) -> tuple[Transitions, Tensor, Tensor | None]:
    """One member's steps without those that are no transition, [1, K, 1, ...]."""
    assert steps.valid is not None
    counts = steps.valid[member].flatten()

    def keep(x: Tensor | None) -> Tensor | None:
        return None if x is None else x[member : member + 1].flatten(1, 2)[:, counts].unsqueeze(2)

    steps = steps._replace(following=on_policy_sentinels.after_resets(steps.following, steps.end, steps.valid), valid=None)
    return Transitions(*(keep(step) for step in steps)), keep(trained), keep(shown)  # type: ignore[arg-type, return-value]


def _steps(plan: Plan, steps: Transitions, trained: Tensor, shown: Tensor | None, env: VecEnv) -> dict[str, Tensor]:
    return _rewards(steps.reward.flatten(1), trained.flatten(1)) | _observations(steps, shown, env) | _actions(plan, steps) | _ends(steps)


def _values(plan: Plan, seen: Seen, hp: Hyperparameters) -> dict[str, Tensor]:
    """Q-values, their targets and errors in the last batch; what no Q-value can pass."""
    last = {name: reading[-1] for name, reading in seen.readings.items() if name in ("q", "target", "error", "weight")}  # [M, B]
    peak = seen.readings["q"].abs()
    if "counts" in seen.readings:
        counts = seen.readings["counts"]  # [U, M, B]
        own = [
            summarize_batch(**{name: rows[m : m + 1, keep] for name, rows in last.items()}) if bool(keep.any()) else {}
            for m, keep in enumerate(counts[-1])
        ]
        found = on_policy_sentinels.join(own, peak)
        peak = peak * counts
    else:
        found = summarize_batch(**last)
    peak, reward = peak.amax((0, 2)), seen.after.reward_bound
    if "log_prob" in seen.readings:
        # The entropy behind each step is worth something too.
        reward = reward + seen.readings["alpha"][-1] * squashed.entropy_bound(plan.memory.action_size)
    bound = (reward / (1.0 - hp.gamma).clamp(min=1e-6)).squeeze(1)
    return found | {"q_abs_max": peak, "q_bound": bound, "q_bound_ratio": peak / bound.clamp(min=1e-12)}


def summarize_batch(q: Tensor, target: Tensor, error: Tensor, weight: Tensor | None = None) -> dict[str, Tensor]:
    """Statistics of a batch's rows [M, B]."""
    size = error.abs().sort(1).values
    found = {
        "return_mean": target.mean(1),
        "return_std": normalize.deviation(target),
        "return_abs_p95": _share(target.abs().sort(1).values, 0.95),
        "value_mean": q.mean(1),
        "value_std": normalize.deviation(q),
        "td_error": size.mean(1),
        "td_error_p50": _share(size, 0.5),
        "td_error_p95": _share(size, 0.95),
        "td_error_p99": _share(size, 0.99),
        "td_error_max": size[:, -1],
    }
    if weight is not None:
        found |= {"is_weight_min": weight.amin(1), "is_weight_mean": weight.mean(1)}
        found["replay_ess"] = weight.sum(1).square() / (weight.square().sum(1) * weight.shape[1]).clamp(min=1e-20)
    return found


def _share(ordered: Tensor, share: float) -> Tensor:
    return ordered[:, min(int(share * ordered.shape[1]), ordered.shape[1] - 1)]


def measure_steps(plan: Plan, name: str, earlier: Learner, later: Learner) -> dict[str, Tensor]:
    """How far a network's weights moved, how far its target lags, how many steps were taken."""
    net, before, after = plan.nets[name], earlier.nets[name], later.nets[name]
    squares = torch.stack([after - before, before], 1).square_().unflatten(2, (net.copies, -1))  # [M, 2, copies, P]
    wide = [index for index, each in enumerate(net.layout.shapes) if each.endswith("weight")]
    parts = squares.split(net.layout.sizes, 3)
    moved, size = torch.stack([parts[index].sum((2, 3)) for index in wide], 2).unbind(1)  # [M, layers]
    ratio = (moved / size.clamp(min=1e-20)).sqrt()
    low, high = torch.aminmax(ratio, dim=1)
    found = {
        "update_ratio_min": low,
        "update_ratio_max": high,
        "update_ratio_worst": (ratio.clamp(min=1e-12).log10() + 3).abs().argmax(1).float(),
        "weight_norm": squares[:, 1].sum((1, 2)).sqrt(),
        "updates": torch.full_like(low, float(later.updates - earlier.updates)),
        "optimizer_steps": later.optimizers[name].steps.squeeze(1),
    }
    if name in later.targets:
        found["target_distance"] = (later.targets[name] - after).norm(dim=1) / after.norm(dim=1).clamp(min=1e-12)
    return found


def _rewards(reward: Tensor, trained: Tensor) -> dict[str, Tensor]:
    """Rewards [M, K] as they came, and as they are learned from."""
    low, high = torch.aminmax(reward, dim=1)
    return {
        "reward_mean": reward.mean(1),
        "reward_std": normalize.deviation(reward),
        "reward_min": low,
        "reward_max": high,
        "reward_nonzero": (reward != 0).float().mean(1),
        "reward_trained_std": normalize.deviation(trained),
    }


def _observations(transitions: Transitions, shown: Tensor | None, env: VecEnv) -> dict[str, Tensor]:
    """Scale, spread and sanity of what the networks are shown, [M, T, N, D]; of images (None) only whether they change."""
    same = (transitions.next_obs == transitions.obs).flatten(3).all(-1)
    found = {"obs_repeat": same.float().mean((1, 2))}
    if shown is None:
        return found
    shown = shown.flatten(1, 2)
    low, high = torch.aminmax(shown, dim=1)
    peak, peak_at = torch.maximum(low.abs(), high.abs()).max(1)
    spread, flat_at = normalize.deviation(shown).min(1)
    found |= {
        "obs_abs_max": peak,
        "obs_abs_worst": peak_at.float(),
        "obs_std_min": spread,
        "obs_std_worst": flat_at.float(),
        "obs_mean_abs_max": shown.mean(1).abs().amax(1),
    }
    if env.obs_low is not None and env.obs_high is not None:
        low, high = torch.aminmax(transitions.obs.flatten(1, 2), dim=1)
        least, most = (torch.as_tensor(bound, dtype=torch.float32, device=low.device) for bound in (env.obs_low, env.obs_high))
        found["obs_out_of_bounds"] = ((low < least - 1e-4) | (high > most + 1e-4)).float().mean(1)
    return found


def _actions(plan: Plan, transitions: Transitions) -> dict[str, Tensor]:
    """Whether actions are varied, explored as scheduled, and reach the env's bounds without sticking to them."""
    action = transitions.action.flatten(1, 2)
    if plan.action.kind == "discrete":
        counts = torch.zeros(action.shape[0], plan.action.sizes[0], device=action.device)
        counts.scatter_add_(1, action, torch.ones_like(action, dtype=torch.float32))
        found = {"action_top_share": counts.amax(1) / action.shape[1]}
        # A random action is the best one by chance: what is not the best is (A - 1) / A of what is random.
        blind = plan.action.sizes[0] / max(plan.action.sizes[0] - 1, 1)
        explored = None if transitions.explored is None else (transitions.explored.float().mean((1, 2)) * blind).clamp(max=1.0)
        return found if explored is None else found | {"epsilon_actual": explored}
    low, high = (torch.as_tensor(bound, dtype=torch.float32, device=action.device) for bound in (plan.action.low, plan.action.high))
    sent = off_policy.to_env(plan, action)
    reach = (sent - (low + high) / 2).abs() / ((high - low) / 2).clamp(min=1e-12)
    return {"action_at_bound": (action.abs() >= AT_BOUND).float().mean((1, 2)), "action_reach": reach.amax((1, 2))}


def _ends(transitions: Transitions) -> dict[str, Tensor]:
    """How episodes end, and whether the observation at the end is really the final one."""
    end, cut = transitions.end, transitions.truncated & ~transitions.terminated
    ends = end.sum((1, 2)).float()
    same = (transitions.next_obs == transitions.following).flatten(3).all(-1) & end
    return {
        "terminated": transitions.terminated.sum((1, 2)).float(),
        "truncated": cut.sum((1, 2)).float(),
        "next_obs_is_reset": torch.where(ends > 0, same.sum((1, 2)) / ends.clamp(min=1), torch.nan),
    }


@torch.no_grad()
def now_and_then(plan: Plan, seen: Seen, memory: Replay, hp: Hyperparameters) -> dict[str, Tensor]:
    """The costly ones, on at most 128 transitions spread over the replay."""
    if memory.size < 2:
        return {}
    raw = replay.gather(memory, _places(memory), plan.config.n_step, hp.gamma)
    probe = off_policy.prepare_batch(plan, seen.after, raw)
    found = invariants.targets(plan, seen.after, memory, hp) | _bias(plan, seen.after, memory, hp)
    for name, key in (("actor", "actor"), ("critic", "critic"), ("q", "critic")):
        net = plan.nets.get(name)
        # Convolutions alone, without layers after them, stay blank.
        if net is not None and (net.hidden or not isinstance(net.encoder, conv.Encoder | None)):
            x = torch.cat([probe.obs, probe.action], -1) if name == "critic" else probe.obs
            layers = q_nets.layers(net, net.params(seen.after.nets[name]), net.shown(x))
            numbers = on_policy_sentinels.features(net, layers, len(net.hidden))
            learning = plan.algo.learning_copies(net) if hasattr(plan.algo, "learning_copies") else net.copies
            found |= {f"{kind}_{key}": number.unflatten(0, (-1, net.copies))[:, :learning].amax(1) for kind, number in numbers.items()}
    return {PREFIX + name: number for name, number in found.items()}


def _places(memory: Replay) -> Tensor:
    """At most 128 of the transitions that every member remembers, evenly spread: [M, K]."""
    members, count = len(memory.table), min(memory.size, on_policy_sentinels.PROBE_ROWS)
    if not memory.shape.marks_valid:
        return torch.linspace(0, memory.size - 1, count, device=memory.table.device).long().expand(members, -1)
    places = torch.zeros(members, count, dtype=torch.int64, device=memory.table.device)
    for member, valid in enumerate(memory.table[:, : memory.size, memory.cells["valid"].start] > 0):
        own = valid.nonzero().flatten()
        if len(own):
            places[member] = own[torch.linspace(0, len(own) - 1, count, device=own.device).long()]
    return places


def _bias(plan: Plan, learner: Learner, memory: Replay, hp: Hyperparameters) -> dict[str, Tensor]:
    """Q-values minus the discounted return that really came, over an episode of the first env (see `known_returns`)."""
    order = replay.newest(memory, 0, LONGEST_EPISODE).to(memory.table.device)
    cells = memory.cells
    names = ("reward", "terminated", "truncated", *(("valid",) if memory.shape.marks_valid else ()))
    columns = memory.table[:, order][..., [cells[name].start for name in names]].cpu().numpy().astype(np.float64)
    gammas = hp.gamma.squeeze(1).cpu().numpy().astype(np.float64)
    places = np.zeros((len(columns), on_policy_sentinels.PROBE_ROWS), dtype=np.int64)
    returns, known = np.full(places.shape, np.nan), np.zeros(len(columns), dtype=bool)
    for member, (reward, terminated, truncated, *valid) in enumerate(columns.transpose(0, 2, 1)):
        counted = np.flatnonzero(valid[0] if valid else np.ones_like(reward))
        first, sums = known_returns(reward[counted], terminated[counted] > 0, truncated[counted] > 0, gammas[member])
        if not len(sums):
            continue
        chosen = np.linspace(0, len(sums) - 1, on_policy_sentinels.PROBE_ROWS).astype(np.int64)
        places[member], returns[member], known[member] = order.cpu().numpy()[counted[first + chosen]], sums[chosen], True
    if not known.any() or learner.reward_stats is not None:
        return {}
    index = torch.from_numpy(places).to(memory.table.device)
    batch = off_policy.prepare_batch(plan, learner, replay.gather(memory, index, 1, hp.gamma))
    q = plan.algo.q_values(plan.config, off_policy.networks(plan, learner), batch)
    return {"q_bias": (q - torch.from_numpy(returns).to(q)).mean(1)}


def known_returns(reward: Array, terminated: Array, truncated: Array, gamma: float) -> tuple[int, Array]:
    """Of one env's steps [T]: where the last whole episode begins that came to a real end, and the discounted return of each step.

    Where all were cut by a limit, of the last one its steps up to which what was cut off is discounted to less than UNSEEN_SHARE:
    nothing is put in its place. No returns: none is known.
    """
    ends = np.flatnonzero(terminated | truncated)
    spans = list(zip(ends[:-1] + 1, ends[1:] + 1, strict=True))  # the first one's beginning may lie further back
    real = [span for span in spans if terminated[span[1] - 1]]
    if not spans:
        return 0, np.zeros(0)
    first, past = (real or spans)[-1]
    total, sums = 0.0, np.zeros(past - first)
    for step in range(past - first - 1, -1, -1):
        total = reward[first + step] + gamma * total
        sums[step] = total
    ahead = np.arange(past - first, 0, -1)
    return int(first), sums if real else sums[gamma**ahead < UNSEEN_SHARE]
