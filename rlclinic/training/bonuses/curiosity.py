"""Networks that tell what is new by how badly they predict it: RND and ICM, and the bonus' own critic.

Weights are rows [M, P] beside Adam's moments, in a dict of tensors by name; every function returns new ones.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from rlclinic.config import NetConfig
from rlclinic.training import optim, rng
from rlclinic.training.envs.base import ActionSpec
from rlclinic.training.fast import q_net_backward
from rlclinic.training.nets import q_nets
from rlclinic.training.nets.q_nets import Net
from rlclinic.training.optim import Optimizer, OptimizerState

HIDDEN = (64, 64)
FEATURES = 32
BATCH = 256
"""Rows of a gradient step."""
CRITIC_BATCH = 128
"""The same of a bonus' critic, which makes four steps where the others make one: small ones learn as much at half the cost."""
SHARE = 0.25
"""The part of a rollout's rows that is learned from: with all of them, more environments would make everything old sooner."""
INVERSE_SHARE = 0.8
"""ICM: how much of its loss is to tell the action from both states, and the rest to predict the next one (the paper's 1 - beta)."""

State = Mapping[str, Tensor]


def build(kind: str, obs_size: int, action: ActionSpec) -> dict[str, Net]:
    """The networks of a kind of bonus by name; `target` is never trained."""
    relu = NetConfig(hidden=HIDDEN, activation="relu")
    actions = sum(action.sizes) if action.kind != "box" else action.sizes[0]
    if kind in ("rnd", "noveld"):
        narrow = NetConfig(hidden=HIDDEN[:1], activation="relu")
        return {"target": q_nets.build(narrow, obs_size, HIDDEN[:1], FEATURES), "predictor": q_nets.build(relu, obs_size, HIDDEN, FEATURES)}
    if kind == "icm":
        return {
            "features": q_nets.build(relu, obs_size, HIDDEN[:1], FEATURES),
            "inverse": q_nets.build(relu, 2 * FEATURES, HIDDEN[:1], actions),
            "forward": q_nets.build(relu, FEATURES + actions, HIDDEN[:1], FEATURES),
        }
    return {}


def build_critic(obs_size: int) -> Net:
    """The critic of a bonus or of costs."""
    return q_nets.build(NetConfig(hidden=HIDDEN, activation="tanh"), obs_size, HIDDEN, 1)


def outputs(nets: Mapping[str, Net], weights: State, name: str, x: Tensor) -> Tensor:
    """A network's outputs [M, B, K] at inputs [M, B, D]."""
    return q_nets.outputs(nets[name], nets[name].params(weights[name]), x)


def as_numbers(action: Tensor, spec: ActionSpec) -> Tensor:
    """Actions as numbers [..., K]: choices one-hot, boxes as they are."""
    if spec.kind == "box":
        return action.float()
    if spec.kind == "discrete":
        return functional.one_hot(action.long(), spec.sizes[0]).float()
    return torch.cat([functional.one_hot(part, size) for part, size in zip(action.long().unbind(-1), spec.sizes, strict=True)], -1).float()


def prediction_error(nets: Mapping[str, Net], weights: State, obs: Tensor) -> tuple[Tensor, Tensor]:
    """RND's error 1/2 |f^(s) - f(s)|^2 [M, B] at observations [M, B, D] (arXiv:1810.12894), and f(s) itself [M, B, K]."""
    target = outputs(nets, weights, "target", obs)
    return 0.5 * (outputs(nets, weights, "predictor", obs) - target).square().sum(-1), target


def forward_error(nets: Mapping[str, Net], weights: State, obs: Tensor, action: Tensor, next_obs: Tensor) -> Tensor:
    """ICM's error 1/2 |phi^(s') - phi(s')|^2 [M, B] (arXiv:1705.05363, eq. 6); actions are numbers [M, B, K]."""
    now, then = (outputs(nets, weights, "features", each).detach() for each in (obs, next_obs))
    return 0.5 * (outputs(nets, weights, "forward", torch.cat((now, action), -1)) - then).square().sum(-1)


def inverse_loss(nets: Mapping[str, Net], weights: State, obs: Tensor, action: Tensor, next_obs: Tensor, spec: ActionSpec) -> Tensor:
    """How badly the action is told from both states, [M, 1]: the one loss that shapes the features, or they would become constant."""
    both = torch.cat([outputs(nets, weights, "features", each) for each in (obs, next_obs)], -1)
    told = outputs(nets, weights, "inverse", both)
    if spec.kind == "box":
        return 0.5 * (told - action).square().sum(-1).mean(-1, keepdim=True)
    parts = zip(told.split(spec.sizes, -1), action.split(spec.sizes, -1), strict=True)
    return torch.stack([-(each.log_softmax(-1) * wanted).sum(-1).mean(-1, keepdim=True) for each, wanted in parts]).sum(0)


Loss = Callable[[State, Tensor], Tensor]
"""Of weights by name and the rows [M, B] to learn from, the loss [M, 1]."""


def learn(
    nets: Mapping[str, Net],
    state: State,
    names: tuple[str, ...],
    loss: Loss,
    rows: int,
    steps: int,
    learning_rate: float,
    seed: Tensor,
    iteration: int | Tensor,
    stream: int,
    active: Tensor | None,
) -> dict[str, Tensor]:
    """`steps` Adam steps of some networks on random rows of a rollout. seed is [M, 1, 1]."""
    state = dict(state)
    rate = torch.full((len(seed), 1), learning_rate, device=seed.device)
    for index in _draw_rows(rows, steps, seed, iteration, stream).unbind(1):
        with torch.enable_grad():
            weights = {name: state[name].detach().requires_grad_() for name in names}
            total = loss({**state, **weights}, index)
            grads = torch.autograd.grad(total.sum(), list(weights.values()))
        for name, grad in zip(names, grads, strict=True):
            rule = Optimizer("adam", 1e-8, 0.0, 0.0, 0.99, nets[name].layout)
            moments = OptimizerState(*(state[f"{name}.{part}"] for part in OptimizerState._fields))
            flat, moments = optim.step(rule, weights[name].detach(), grad, moments, rate, active)
            state |= {name: flat} | {f"{name}.{part}": each for part, each in moments._asdict().items()}
    return state


def learn_targets(
    nets: Mapping[str, Net],
    state: State,
    name: str,
    inputs: Tensor,
    targets: Tensor,
    steps: int,
    learning_rate: float,
    seed: Tensor,
    iteration: int | Tensor,
    stream: int,
    active: Tensor | None,
    batch: int = BATCH,
) -> dict[str, Tensor]:
    """`learn` of one network that is to give targets [M, R, K] at inputs [M, R, D], by half its squared error, without a graph."""
    net, flat = nets[name], state[name].clone()
    moments = OptimizerState(*(state[f"{name}.{part}"].clone() for part in OptimizerState._fields))
    rule = Optimizer("adam", 1e-8, 0.0, 0.0, 0.99, net.layout)
    indices = _draw_rows(inputs.shape[1], steps, seed, iteration, stream, batch)
    if net.written_out and not flat.is_cuda:
        going = [True] * len(flat) if active is None else active.flatten().tolist()
        for member in (index for index, goes in enumerate(going) if goes):
            own = [each[member : member + 1] for each in (flat, *moments)]
            _learn_in_rounds(net, rule, own, inputs[member], targets[member], indices[member], learning_rate)
    else:
        rate = torch.full_like(flat[:, :1], learning_rate)
        for index in indices.unbind(1):
            out, back = q_net_backward.forward_and_back(net, flat, take(inputs, index))
            grad = back.weights((out - take(targets, index)) / index.shape[1])
            flat, moments = optim.step(rule, flat, grad, moments, rate, active)
    return {**state, name: flat} | {f"{name}.{part}": each for part, each in moments._asdict().items()}


def _learn_in_rounds(
    net: Net, rule: Optimizer, own: list[Tensor], inputs: Tensor, targets: Tensor, indices: Tensor, learning_rate: float
) -> None:
    """Edit one member's weights, moments and step count [1, ...] by a gradient step for each of its rows of indices [U, B]."""
    flat, mean, square, count = own
    steps, size = indices.shape
    rounds = net.rounds(size, steps, rests=True)
    rounds.begin(flat, mean, square, inputs.index_select(0, indices.flatten()).unsqueeze(0))
    wanted = targets.index_select(0, indices.flatten()).view(steps, size, -1).unbind(0)
    descend = optim.adam_again(rule, count, learning_rate)
    for number in range(steps):
        rounds.by_weights(number, (rounds.forward(number) - wanted[number]).div_(size))
        descend(*rounds.moving)
    rounds.end(flat, mean, square)


def _draw_rows(rows: int, steps: int, seed: Tensor, iteration: int | Tensor, stream: int, batch: int = BATCH) -> Tensor:
    """The rows [M, U, B] of every gradient step. Drawn at once for all: a hash is fifty small operations, however much it is of."""
    step, place = torch.arange(steps, device=seed.device).view(-1, 1), torch.arange(min(batch, rows), device=seed.device)
    return rng.bits(seed.view(-1, 1, 1), rng.UPDATE, iteration, stream, step, place) % rows


def steps_for(rows: int) -> int:
    """Gradient steps that a rollout of so many rows is worth."""
    return max(1, round(SHARE * rows / BATCH * 4))


def fresh(nets: Mapping[str, Net], seeds: list[int], device: torch.device) -> dict[str, Tensor]:
    """First weights as each member's seed gives them, with no moments."""
    state: dict[str, Tensor] = {}
    for stream, (name, net) in enumerate(nets.items()):
        flat = torch.cat([q_nets.initialize(net, seed, 1_000 + stream) for seed in seeds]).to(device)
        state[name] = flat
        if name != "target":
            state |= {f"{name}.{part}": each for part, each in optim.start(flat)._asdict().items()}
    return state


def take(x: Tensor, index: Tensor) -> Tensor:
    """Rows [M, B, ...] of [M, R, ...] by index [M, B]."""
    shape = index.shape + (1,) * (x.dim() - 2)
    return x.gather(1, index.view(shape).expand(*index.shape, *x.shape[2:]))
