"""Deep Q-learning (Mnih et al. 2015), with double, dueling, n-step and prioritized replay as switches of their own."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rlclinic.config import Config, DQNConfig
from rlclinic.training.data.replay import Batch
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import exploration, losses
from rlclinic.training.nets import q_nets
from rlclinic.training.nets.layout import Params
from rlclinic.training.nets.q_nets import Net

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan

ACTS = "q"
"""The network that chooses actions."""
TARGETS = ("q",)


def nets(config: Config, obs_size: int, env: Any) -> dict[str, Net]:
    """One network: observations in, a value for every action out (and the state's own, if dueling)."""
    assert isinstance(config.algo, DQNConfig)
    count = env.action.sizes[0] + config.algo.dueling
    autograd = config.run.engine == "autograd"
    return {"q": q_nets.build(config.net, obs_size, config.net.hidden, count, picture=env.picture, autograd=autograd)}


def values(plan: "Plan", params: Params, obs: Tensor) -> Tensor:
    """Q-values of all actions, [M, B, A]."""
    out = q_nets.outputs(plan.nets["q"], params, obs)
    return q_nets.dueling(out) if plan.config.dueling else out


def exploring_noise(plan: "Plan", seed: Tensor, step: Tensor, env: Tensor) -> Tensor | None:
    """Noise [M, T, N, width] for `explore`; None: two uniform numbers, which are there anyway."""
    if plan.config.exploration == "epsilon":
        return None
    return exploration.uniform_noise(seed, step, env, plan.action.sizes[0])


def at_random(plan: "Plan", noise: Tensor, action_mask: Tensor | None) -> Tensor:
    """Any action [M, N], each as likely."""
    none = torch.zeros(*noise.shape[:-1], plan.action.sizes[0], device=noise.device)
    return exploration.epsilon_greedy(none, torch.full_like(noise[:, :1, 0], 2.0), noise[..., :2], action_mask)


def explore(
    plan: "Plan", params: Params, obs: Tensor, action_mask: Tensor | None, noise: Tensor, hp: SimpleNamespace, drift: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """What to do in training, [M, N], and which choices are not the best one."""
    q = values(plan, params, obs)
    if plan.config.exploration == "boltzmann":
        action = exploration.boltzmann(q, hp.exploration_temperature, noise, action_mask)
        return action, action != exploration.greedy(q, action_mask), None
    action = exploration.epsilon_greedy(q, hp.epsilon, noise, action_mask)
    return action, action != exploration.greedy(q, action_mask), None


def explorer(plan: "Plan", params: Params, noise: Tensor, hp: SimpleNamespace) -> Callable[[int, Tensor], tuple[Tensor, Tensor]] | None:
    """`explore` for a turn with noise [M, T, N, 2] and no mask, as a function of step and observation; None where each step needs it all.

    What becomes of each action that may turn out best is worked out for the whole turn; a step then only finds out which one is.
    """
    if plan.config.exploration != "epsilon":
        return None
    members, steps, n_envs, count = *noise.shape[:3], plan.action.sizes[0]
    best = torch.eye(count).expand(members, steps * n_envs, -1, -1)  # if action a were best, [..., a, :]
    made = [exploration.epsilon_greedy(q, hp.epsilon, noise.flatten(1, 2)) for q in best.unbind(2)]
    outcomes = torch.stack(made, -1).unflatten(1, (steps, n_envs)).transpose(0, 1).contiguous().unbind(0)  # T of [M, N, A]
    first = torch.arange(0, members * n_envs * count, count).view(members, n_envs)
    forward = q_nets.again(plan.nets["q"], params)

    def choose(step: int, obs: Tensor) -> tuple[Tensor, Tensor]:
        q = forward(obs)
        greedy = exploration.greedy(q_nets.dueling(q) if plan.config.dueling else q)
        action = outcomes[step].take(greedy + first)
        return action, action != greedy

    return choose


def act(plan: "Plan", params: Params, obs: Tensor, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """The best action [M, N]; with noise [M, N, 2], sometimes any other one, as at the end of training."""
    q = values(plan, params, obs)
    if noise is None:
        return exploration.greedy(q, action_mask)
    last = plan.config.exploration_final_eps
    epsilon = torch.full_like(noise[:, :1, 0], last if isinstance(last, float) else last.end)
    return exploration.epsilon_greedy(q, epsilon, noise, action_mask)


def acting_noise(plan: "Plan", seed: Tensor, step: int, env: Tensor) -> Tensor:
    """Noise for `act`."""
    return exploration.uniform_noise(seed, step, env, 2)


def update_noise(plan: "Plan", seed: Tensor, first: int, updates: int) -> Tensor | None:
    """A gradient step draws nothing but its batch."""
    return None


@torch.no_grad()
def foresee(plan: "Plan", learner: "Learner", batch: Batch) -> Batch:
    """The batches of a turn, with what the target says of where they lead: it stands still meanwhile, and sees each row once."""
    net = plan.nets["q"]
    if batch.places is None or batch.reward.is_cuda or not net.written_out:
        return batch
    out = q_nets.outputs_once(net, learner.targets["q"], batch.next_obs, batch.places)
    following = q_nets.dueling(out) if plan.config.dueling else out
    return batch._replace(following=following if plan.config.double else following.amax(-1))


@torch.no_grad()
def targets(plan: "Plan", learner: "Learner", batch: Batch, hp: SimpleNamespace, noise: Tensor | None) -> Tensor:
    """What Q-values should be, [M, B]: rewards, and what the target network promises behind them."""
    net, following = plan.nets["q"], batch.following
    if following is None:
        following = values(plan, net.params(learner.targets["q"]), batch.next_obs)
    if plan.config.double:
        # The network chooses, the target judges: an overestimate must be shared by both to count (arXiv:1509.06461).
        best = values(plan, net.params(learner.nets["q"]), batch.next_obs).argmax(-1, keepdim=True)
        following = following.gather(-1, best).squeeze(-1)
    elif following.dim() == 3:
        following = following.amax(-1)
    return torch.addcmul(batch.reward, batch.discount, following)


@torch.no_grad()
def judge(plan: "Plan", learner: "Learner", batch: Batch) -> Tensor:
    """Q-values [M, B] of the batch's actions."""
    q = values(plan, plan.nets["q"].params(learner.nets["q"]), batch.obs)
    return q.gather(-1, batch.action).squeeze(-1)


def update(
    plan: "Plan", learner: "Learner", batch: Batch, hp: SimpleNamespace, active: Tensor | None, noise: Tensor | None
) -> dict[str, Tensor]:
    """One gradient step on the Huber loss of the TD error."""
    target = targets(plan, learner, batch, hp, noise)
    out, back = q_nets.with_back(plan.nets["q"], learner.nets["q"], batch.obs)
    all_q = q_nets.dueling(out) if plan.config.dueling else out
    q = all_q.gather(-1, batch.action).squeeze(-1)
    error = q - target
    slope = losses.huber_slope(error).mul_(1.0 / error.shape[1])
    if batch.weight is not None:
        slope = slope * batch.weight
    by_q = torch.zeros_like(all_q).scatter_(-1, batch.action, slope.unsqueeze(-1))
    grad = back.weights(q_nets.dueling_back(by_q) if plan.config.dueling else by_q)
    norm = off_policy.descend(plan, learner, "q", grad, hp, active)
    found = {"q": q, "error": error, "target": target, "norm": norm}
    return found if batch.weight is None else found | {"weight": batch.weight}


def knows_targets(plan: "Plan", batch: Batch) -> bool:
    """Whether `turn` covers a turn's batches: nothing in their targets waits for the steps between, and every row weighs the same."""
    known = batch.following is not None and batch.weight is None
    return known and plan.optimizers["q"].kind == "adam" and not (plan.config.double or plan.config.dueling)


@torch.no_grad()
def turn(plan: "Plan", learner: "Learner", batch: Batch, hp: SimpleNamespace, active: Tensor | None) -> dict[str, list[Tensor]]:
    """`update` for all batches [M, U * B] of a turn, to the same bits: one member after the other, so that its weights stay in the cache.

    Who is not active is passed over, and its readings are 0.
    """
    members, shape = len(batch.reward), (plan.updates_per_turn, plan.batch_rows)
    found = {name: torch.zeros(shape[0], members, shape[1]) for name in ("q", "error", "target")}
    norm = torch.zeros(shape[0], members, 1)
    for member in range(members):
        if active is None or bool(active[member]):
            own = batch.of_member(member)
            target = targets(plan, learner, own, hp, None).view(shape)
            q = _rounds(plan, learner, own, target, hp, member, norm[:, member : member + 1])
            for name, reading in {"q": q, "error": q - target, "target": target}.items():
                found[name][:, member] = reading
    return {name: list(readings.unbind(0)) for name, readings in (found | {"norm": norm}).items()}


def _rounds(plan: "Plan", learner: "Learner", batch: Batch, target: Tensor, hp: SimpleNamespace, member: int, norm: Tensor) -> Tensor:
    """A member's gradient steps towards targets [U, B]; writes down the norms [U, 1, 1] and returns the Q-values [U, B] on the way."""
    count, size = target.shape
    rounds = plan.nets["q"].rounds(size, count, rests=not plan.optimizers["q"].weight_decay)
    flat, mean, square, steps = (each[member : member + 1] for each in (learner.nets["q"], *learner.optimizers["q"]))
    rounds.begin(flat, mean, square, batch.obs)
    descend = off_policy.descent(plan, "q", rounds, steps, hp, member)
    action = batch.action.view(count, size, 1)
    # The slope of a mean over the batch, at the action that was taken; the others take none.
    share = torch.zeros_like(rounds.outputs).scatter_(-1, action, 1.0 / size).unbind(0)
    aims, norms = target.unsqueeze(-1).unbind(0), norm.unbind(0)
    for number in range(count):
        error = rounds.forward(number) - aims[number]
        rounds.by_weights(number, losses.huber_slope(error).mul_(share[number]))
        descend(norms[number])
    rounds.end(flat, mean, square)
    return rounds.outputs.gather(-1, action).squeeze(-1)


def after_steps(plan: "Plan", learner: "Learner", hp: SimpleNamespace, active: Tensor | None, before: int, now: int) -> None:
    """The target follows every target_update_interval env steps."""
    share = followed(plan, hp, before, now)
    if share is not None:
        off_policy.follow(learner, TARGETS, share, active)


def followed(plan: "Plan", hp: SimpleNamespace, before: int, now: int) -> Tensor | None:
    """The share of the network that the target takes over on the way from one env step to another; None: it stands still."""
    interval = max(plan.config.target_update_interval, plan.memory.n_envs)
    times = now // interval - before // interval
    # Several times at once leave (1 - tau)^k of the old one.
    return None if not times else hp.tau if times == 1 else 1 - (1 - hp.tau) ** times


def summary(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns from readings over gradient steps, [U, M, B] -> [U, M]."""
    size = losses.huber(readings["error"])
    return {"loss/td": (size * readings["weight"] if "weight" in readings else size).mean(-1)}
