"""What a policy would earn, from recorded data alone: fitted Q evaluation, and the likelihoods that importance sampling needs.

Fitted Q evaluation (Le et al. 2019, arXiv:1903.08738) learns Q of the policy in question from recorded transitions; its value is the mean
over first states. Several critics, each on episodes resampled for it, are one cohort, and their spread is the interval.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlclinic.actions import Action
from rlclinic.config import DataConfig, NetConfig, value_at
from rlclinic.datasets import Dataset
from rlclinic.datasets.advice import Cloning
from rlclinic.errors import UsageError
from rlclinic.stats import importance_sampling
from rlclinic.stats.importance_sampling import Estimate, Steps
from rlclinic.training import envs, evaluation, optim
from rlclinic.training.data import recorded
from rlclinic.training.data.recorded import Recorded
from rlclinic.training.loops import off_policy, on_policy
from rlclinic.training.maths import normalize, squashed
from rlclinic.training.maths.normalize import Moments
from rlclinic.training.nets import fitted_actor, mlp, q_nets
from rlclinic.training.nets.q_nets import Net, Networks
from rlclinic.training.policy import Policy

CRITICS: Final = 6
T_95: Final = 2.571
"""Student's t of CRITICS - 1 degrees of freedom."""
HIDDEN: Final = (64, 64)
BATCH: Final = 128
RATE: Final = 1e-3
TAU: Final = 0.1
"""How fast the targets follow: at a hundredth, values of a horizon of 20 steps had not arrived after 5,000 gradient steps."""
CHUNK: Final = 1 << 14
INSIDE: Final = 1.0 - 1e-5
"""How near to a bound a recorded action may be: at the bound itself a squashed normal has no density."""
RARE: Final = 0.01
"""Actions less likely than all but this share of the recorded ones were hardly ever tried."""
MOST_UNTRIED: Final = 0.5
"""The share of such actions above which the data cannot tell."""


@dataclass(frozen=True)
class Values:
    """What is known of a policy from data."""

    gamma: float
    behaviour: float
    """The mean discounted return of the recorded episodes."""
    untried: float
    """Share of the policy's actions that were hardly ever tried in such states."""
    estimates: dict[str, Estimate]
    """By method: fqe, wis, pdis, dr."""
    refused: dict[str, str]
    """By method: why the data cannot tell."""


@dataclass(frozen=True)
class _Answers:
    """The policy's answers at every recorded observation."""

    action: Tensor
    """[N + E] choices or [N + E, K] between -1 and 1."""
    log_prob: Tensor | None
    """[N]: of the recorded actions; None where it draws nothing."""


def evaluate(policy: Policy, path: str, steps: int, seed: int = 0) -> Values:
    """All estimates of a policy's discounted return that the data at a path allows; steps: gradient steps of fitted Q evaluation."""
    config = policy.config
    settings = config.model_copy(update={"data": DataConfig(path=path, holdout=0.0)})
    env = envs.make(config.env, [0], 1)
    data = recorded.load(settings, env, torch.device("cpu"))
    env.close()
    gamma = float(value_at(config.algo.gamma, 0, 1))
    stats = data.moments(1)
    asked = _ask(policy, data, config.env.id, env)
    behaviour = _fit_behaviour(data, stats, max(steps // 2, 1), seed)
    log_mu, own = _likelihoods(behaviour, data, stats, data.actions), _likelihoods(behaviour, data, stats, asked.action[_places(data)])
    limit = torch.quantile(log_mu[:: max(1, len(log_mu) // 100_000)], RARE)
    untried = float((own < limit).float().mean())
    first, at_steps = _fit_values(data, stats, asked.action, gamma, steps, seed)
    estimates, refused = {}, {}
    ends = data.data.ends
    starts = ends - data.data.lengths
    discounted = np.array([float(np.dot(data.data.rewards[a:b], gamma ** np.arange(b - a))) for a, b in zip(starts, ends, strict=True)])
    if untried > MOST_UNTRIED:
        refused["fqe"] = f"{untried:.0%} of its actions were hardly ever tried: their values would be guesses"
    elif first.mean() > (most := _most(data.data, discounted, gamma)) + 0.1 * max(np.ptp(discounted), abs(most)):
        refused["fqe"] = f"it would be worth {first.mean():.4g}, more than the best recorded episode ({most:.4g})"
    else:
        middle, error = float(first.mean()), T_95 * float(first.std(ddof=1))
        estimates["fqe"] = Estimate(middle, middle - error, middle + error, float(data.data.n_episodes))
    if asked.log_prob is None:
        refused |= dict.fromkeys(("wis", "pdis", "dr"), "the policy draws nothing: no recorded action has a likelihood")
        return Values(gamma, float(discounted.mean()), untried, estimates, refused)
    paths = _side_by_side(data, (asked.log_prob - log_mu).double().numpy())
    for name, found in (
        ("wis", importance_sampling.weighted(paths, gamma, seed)),
        ("pdis", importance_sampling.per_decision(paths, gamma, seed)),
        ("dr", importance_sampling.doubly_robust(paths, *at_steps, gamma, seed)),
    ):
        if found.effective < importance_sampling.FEWEST:
            left = f"{found.effective:.1f} of {data.data.n_episodes} episodes are left after weighing"
            refused[name] = f"{left}; {importance_sampling.FEWEST:g} are needed"
        elif name == "dr" and "fqe" in refused:
            refused[name] = "it corrects values that were refused"
        else:
            estimates[name] = found
    return Values(gamma, float(discounted.mean()), untried, estimates, refused)


def _most(data: Dataset, discounted: NDArray[np.float64], gamma: float) -> float:
    """What the best recorded episode was worth: one that was cut goes on as it was, which is what values say of it."""
    shown = np.where(data.truncated, 1.0 - gamma ** data.lengths.astype(np.float64), 1.0)
    return float((discounted / shown).max())


def evaluate_cloning(data: Dataset, gamma: float, steps: int, seed: int = 0) -> Cloning:
    """What the policy that most likely recorded the data would earn without its noise, beside what the recorded actions are worth.

    Both are judged by critics that start alike and see the same rows, so that their difference is theirs and not the critics'.
    """
    rows = _of_data(data)
    stats, places = rows.moments(1), _places(rows)
    behaviour = _fit_behaviour(rows, stats, max(steps // 2, 1), seed)
    parts = []
    for first in range(0, len(rows.observations), CHUNK):
        obs = normalize.observations(stats, rows.observations[first : first + CHUNK].float().unsqueeze(0), 10.0)
        parts.append(fitted_actor.mode(behaviour, obs, None)[0])
    copied = torch.cat(parts).to(rows.actions.dtype)
    done = copied.clone()  # behind the last action nobody acted: there, what the copy would have done
    done[places] = rows.actions
    values = [_fit_values(rows, stats, actions, gamma, steps, seed)[0] for actions in (copied, done)]
    apart = values[0] - values[1]
    middle, error = float(apart.mean()), T_95 * float(apart.std(ddof=1))
    return Cloning(float(values[0].mean()), float(values[1].mean()), middle - error, middle + error)


def _of_data(data: Dataset) -> Recorded:
    """All of a dataset, with actions scaled by its own bounds, or where it names none by what was done."""
    observations = np.asarray(data.observations)
    if data.observation_space.kind == "discrete":
        observations = np.eye(data.observation_space.n, dtype=np.float32)[observations.reshape(len(observations)).astype(np.int64)]
    actions = np.array(data.actions)
    if data.action_space.kind != "discrete":
        actions = actions.reshape(len(actions), -1)
        low, high = actions.min(0), actions.max(0)
        if data.action_space.low is not None and data.action_space.high is not None:
            bounds = np.array([data.action_space.low, data.action_space.high])
            low, high = np.where(np.isfinite(bounds), bounds, [low, high])
        actions = ((actions - low) / np.where(high > low, high - low, 1.0) * 2.0 - 1.0).clip(-1.0, 1.0).astype(np.float32)
    last = np.zeros(len(data), np.bool_)
    last[data.ends - 1] = data.terminated
    flat = observations.reshape(len(observations), -1).astype(np.float32)
    return Recorded(
        data=data,
        observations=torch.from_numpy(flat),
        actions=torch.from_numpy(actions),
        rewards=torch.from_numpy(np.array(data.rewards, np.float32)),
        terminated=torch.from_numpy(last),
        shift=torch.from_numpy(np.repeat(np.arange(data.n_episodes), data.lengths)),
        chosen=None,
        held_out=torch.zeros(0, dtype=torch.int64),
        device=torch.device("cpu"),
    )


def _places(data: Recorded) -> Tensor:
    """Where the observation of each row lies, [N]."""
    return torch.arange(len(data.rewards)) + data.shift


@torch.no_grad()
def _ask(policy: Policy, data: Recorded, env_id: str, env: envs.VecEnv) -> _Answers:
    """What the policy does at every recorded observation, and how likely it was to do what was done."""
    plan, learner = policy._plan, policy._learner
    if evaluation.sees_episodes(plan):
        raise UsageError(
            f"{policy.config.algo.name} acts by the return that it is asked for, and has no action of its own for a single observation.\n"
            "  There is no policy whose worth the data could tell.\n  Play it: ",
            Action("evaluate", policy.path.parent.parent.name),
        )
    shape, places = tuple(env.obs_shape), _places(data)
    actions, likelihoods = [], []
    for first in range(0, len(data.observations), CHUNK):
        obs = data.observations[first : first + CHUNK].float().view(1, -1, *shape)
        act = evaluation.actor(plan, learner, obs.shape[1], deterministic=True, seed=torch.zeros(1, 1, dtype=torch.int64))
        actions.append(act(obs, None, 0)[0])
    for first in range(0, len(places), CHUNK):
        rows = slice(first, first + CHUNK)
        found = _own_log_prob(plan, learner, data.observations[places[rows]].float().view(1, -1, *shape), data.actions[rows].unsqueeze(0))
        if found is not None:
            likelihoods.append(found[0])
    chosen = torch.cat(actions)
    scaled = torch.from_numpy(recorded.scale_actions(chosen.numpy(), env, env_id))
    return _Answers(scaled, torch.cat(likelihoods) if likelihoods else None)


def _own_log_prob(plan: Any, learner: Any, obs: Tensor, action: Tensor) -> Tensor | None:
    """log pi(a|s) [1, B] of recorded actions, as densities over actions from -1 to 1; None where the policy draws nothing."""
    discrete = action.dim() == 2
    if isinstance(plan, on_policy.Plan):
        views = plan.policy.layout.views(learner.flat)
        dist = mlp.actor(plan.policy, views, on_policy.normalize_obs(plan, learner, obs), None)
        if discrete:
            return plan.policy.distribution.log_prob(dist, action)
        return None  # its normal is not one over actions within bounds
    seen, name = off_policy.normalize_obs(plan, learner, obs), plan.config.name
    params = off_policy.acting_networks(plan, learner)
    if name in ("iql", "awac") or (name == "bc" and (discrete or plan.config.loss == "likelihood")):
        return fitted_actor.log_prob(params, seen, action.unsqueeze(-1) if discrete else action)
    if name in ("sac", "rlpd", "cql", "cal_ql") and not discrete:
        mean, log_std = params("actor", seen).chunk(2, -1)
        limits = params.nets["actor"].net
        log_std = log_std.clamp(limits.log_std_min, limits.log_std_max)
        raw = torch.atanh(action.clamp(-INSIDE, INSIDE))
        return squashed.squash(raw, log_std, (raw - mean) * (-log_std).exp())[1]
    return None


def _descend(rule: optim.Optimizer, flat: Tensor, state: optim.OptimizerState, loss: Callable[[Tensor], Tensor]) -> None:
    """One step of Adam along the gradient of a loss [M, 1], in place."""
    leaf = flat.detach().requires_grad_()
    with torch.enable_grad():
        (grad,) = torch.autograd.grad(loss(leaf).sum(), leaf)
    optim.adam_in_place(rule, flat, grad, state, [RATE] * len(flat), None)


def _net(data: Recorded, outputs: int, beside: int) -> Net:
    settings = NetConfig(hidden=HIDDEN, activation="relu")
    return q_nets.build(settings, data.observations.shape[1] + beside, HIDDEN, outputs, beside=beside)


def _rule(layout: Any) -> optim.Optimizer:
    return optim.Optimizer("adam", 1e-8, 0.0, 0.0, 0.99, layout)


@torch.no_grad()
def _fit_behaviour(data: Recorded, stats: Moments, steps: int, seed: int) -> Networks:
    """The policy that recorded the data, as far as a normal distribution or a softmax can say it."""
    discrete = data.actions.dim() == 1
    outputs = int(data.actions.max()) + 1 if discrete else data.actions.shape[1]
    outputs = max(outputs, data.data.action_space.n) if discrete else outputs
    net = _net(data, outputs, 0)
    weights = {"actor": q_nets.initialize(net, seed, 0)}
    weights |= {} if discrete else {fitted_actor.LOG_STD: torch.zeros(1, outputs)}
    states = {name: optim.start(flat) for name, flat in weights.items()}
    rules = {name: _rule(net.layout) for name in weights}
    start, one = torch.full((1, 1, 1), seed), torch.ones(1, 1)
    for step in range(steps):
        batch = data.gather(data.draw(start, step, 1, BATCH), one)
        obs = normalize.observations(stats, batch.obs, 10.0)
        for name in weights:

            def loss(leaf: Tensor, name: str = name, obs: Tensor = obs, action: Tensor = batch.action) -> Tensor:
                params = Networks({"actor": net}, {**weights, name: leaf})
                return -fitted_actor.log_prob(params, obs, action).mean(-1, keepdim=True)

            _descend(rules[name], weights[name], states[name], loss)
    return Networks({"actor": net}, weights)


@torch.no_grad()
def _likelihoods(behaviour: Networks, data: Recorded, stats: Moments, actions: Tensor) -> Tensor:
    """log mu(a|s) of actions [N] or [N, K] at the recorded states, [N]."""
    places, found = _places(data), []
    for first in range(0, len(places), CHUNK):
        rows = slice(first, first + CHUNK)
        obs = normalize.observations(stats, data.observations[places[rows]].float().unsqueeze(0), 10.0)
        action = actions[rows].unsqueeze(0)
        found.append(fitted_actor.log_prob(behaviour, obs, action.unsqueeze(-1) if action.dim() == 2 else action)[0])
    return torch.cat(found)


@torch.no_grad()
def _fit_values(
    data: Recorded, stats: Moments, policy: Tensor, gamma: float, steps: int, seed: int
) -> tuple[NDArray[np.float64], tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]:
    """Q of the policy whose actions at all recorded observations are given: its value at the first states by each critic, [CRITICS], and
    the critics' mean Q(s, a), V(s) and V(s') side by side, [E, T]."""
    discrete = data.actions.dim() == 1
    width = 0 if discrete else data.actions.shape[1]
    net = _net(data, data.data.action_space.n if discrete else 1, width)
    flat = torch.cat([q_nets.initialize(net, seed * CRITICS + member, 1) for member in range(CRITICS)])
    target, state, rule = flat.clone(), optim.start(flat), _rule(net.layout)
    # Without terminal states every reward's mean goes on for ever: that part of the value need not be learned.
    middle = float(data.rewards.mean()) if not bool(data.terminated.any()) and gamma < 1 else 0.0
    constant = middle / (1.0 - gamma) if middle else 0.0
    # Where it must be learned, values are as many rewards as an episode has steps that count: a reward that never varies has no spread.
    horizon = min(float(data.data.lengths.mean()), 1.0 / max(1.0 - gamma, 1e-9))
    scale = max(float(data.rewards.std()), abs(float(data.rewards.mean()) - middle) * horizon, 1e-6)
    draw = np.random.default_rng(seed)
    counts = torch.from_numpy(draw.poisson(1.0, (CRITICS, data.data.n_episodes)).astype(np.float32))  # how often an episode was drawn
    seeds, gammas = torch.arange(CRITICS).view(-1, 1, 1) + 1_000 * seed, torch.full((CRITICS, 1), gamma)

    def values(weights: Tensor, obs: Tensor, action: Tensor) -> Tensor:
        """[CRITICS, B]"""
        params = Networks({"critic": net}, {"critic": weights})
        seen = normalize.observations(Moments(*(part.expand(len(obs), -1) for part in stats)), obs, 10.0)
        if discrete:
            return params("critic", seen).gather(-1, action.long().view(*seen.shape[:2], 1)).squeeze(-1)
        return params("critic", torch.cat([seen, action], -1)).squeeze(-1)

    for step in range(steps):
        rows = data.draw(seeds, step, 1, BATCH)
        batch, places = data.gather(rows, gammas), rows + data.shift[rows]
        goal = (batch.reward - middle) / scale + batch.discount * values(target, batch.next_obs, policy[places + 1])
        weight = counts.gather(1, data.shift[rows])

        def loss(leaf: Tensor, batch: Any = batch, goal: Tensor = goal, weight: Tensor = weight) -> Tensor:
            error = values(leaf, batch.obs, batch.action) - goal
            return (weight * error.square()).mean(-1, keepdim=True)

        _descend(rule, flat, state, loss)
        target.lerp_(flat, TAU)

    def everywhere(places: Tensor, action: Tensor) -> Tensor:
        """[CRITICS, K], in units of return."""
        parts = []
        for first in range(0, len(places), CHUNK):
            obs = data.observations[places[first : first + CHUNK]].float().expand(CRITICS, -1, -1)
            own = action[first : first + CHUNK]
            parts.append(values(flat, obs, own.expand(CRITICS, *own.shape)))
        return torch.cat(parts, 1) * scale + constant

    starts = torch.from_numpy(data.data.ends - data.data.lengths + np.arange(data.data.n_episodes))
    at_first = everywhere(starts, policy[starts])
    first = (at_first * counts).sum(1) / counts.sum(1).clamp(min=1.0)
    places = _places(data)
    q, value = everywhere(places, data.actions).mean(0), everywhere(places, policy[places]).mean(0)
    following = everywhere(places + 1, policy[places + 1]).mean(0) * ~data.terminated
    sides = tuple(_rows_side_by_side(data, each.double().numpy()) for each in (q, value, following))
    return first.double().numpy(), sides  # type: ignore[return-value]


def _rows_side_by_side(data: Recorded, rows: NDArray[Any]) -> NDArray[np.float64]:
    """Rows [N] by episode and step, [E, T]; 0 behind an end."""
    found = np.zeros((data.data.n_episodes, int(data.data.lengths.max())))
    found[np.arange(found.shape[1]) < data.data.lengths[:, None]] = rows
    return found


def _side_by_side(data: Recorded, log_ratio: NDArray[np.float64]) -> Steps:
    going = np.arange(int(data.data.lengths.max())) < data.data.lengths[:, None]
    return Steps(_rows_side_by_side(data, data.rewards.numpy()), _rows_side_by_side(data, log_ratio), going)
