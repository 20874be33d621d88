"""Detectors for pure functions: by their definition, written out slowly, and against torch's own."""

import math
from typing import Any

import torch
from torch import Tensor

from rlclinic.training import optim, rng
from rlclinic.training.data import rollouts
from rlclinic.training.maths import distributions, losses, normalize, returns
from rlclinic.training.nets.layout import Layout


def near(actual: Tensor, expected: Tensor | list[Any] | float, what: str, tolerance: float = 1e-5) -> None:
    """Equal up to rounding, in shape too."""
    expected = torch.as_tensor(expected, dtype=actual.dtype)
    assert actual.shape == expected.shape, f"{what}: shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    assert torch.allclose(actual, expected, rtol=tolerance, atol=tolerance), f"{what}: {actual.tolist()}, expected {expected.tolist()}"


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def ends(*places: tuple[int, int, int]) -> Tensor:
    flags = torch.zeros(2, 6, 2, dtype=torch.bool)
    for place in places:
        flags[place] = True
    return flags


TERMINATED, TRUNCATED = ends((0, 1, 0), (1, 3, 1)), ends((0, 3, 1), (1, 1, 0))
GAMMA, LAMBDA = torch.tensor([[0.9], [0.7]]), torch.tensor([[0.8], [0.5]])


def advantages_are_their_definition() -> None:
    """A[t] = sum over l of (gamma lambda)^l delta[t + l], up to the episode's end (arXiv:1506.02438, eq. 16)."""
    reward, value, next_value = (numbers(2, 6, 2, seed=seed) for seed in range(3))
    expected = torch.zeros_like(reward)
    for m in range(2):
        gamma, trace = float(GAMMA[m]), float(GAMMA[m] * LAMBDA[m])
        for start in range(6):
            for n in range(2):
                for t in range(start, 6):
                    future = 0.0 if TERMINATED[m, t, n] else gamma * float(next_value[m, t, n])
                    expected[m, start, n] += trace ** (t - start) * (float(reward[m, t, n]) + future - float(value[m, t, n]))
                    if TERMINATED[m, t, n] or TRUNCATED[m, t, n]:
                        break
    advantage, target = returns.gae(reward, value, next_value, TERMINATED, TRUNCATED, GAMMA, LAMBDA)
    near(advantage, expected, "advantages")
    near(target, expected + value, "value targets")


def rewards_to_go_are_their_definition() -> None:
    """What followed, discounted; completed by the critic, or marked where the data ends before the episode."""
    reward, next_value = numbers(2, 6, 2), numbers(2, 6, 2, seed=1)
    plain, completed, seen = torch.zeros(2, 6, 2), torch.zeros(2, 6, 2), torch.zeros(2, 6, 2, dtype=torch.bool)
    for m in range(2):
        for start in range(6):
            for n in range(2):
                for t in range(start, 6):
                    discount = float(GAMMA[m]) ** (t - start)
                    plain[m, start, n] += discount * reward[m, t, n]
                    ended = bool(TERMINATED[m, t, n] | TRUNCATED[m, t, n])
                    if not TERMINATED[m, t, n] and (ended or t == 5):
                        completed[m, start, n] += discount * GAMMA[m, 0] * next_value[m, t, n]
                    if ended:
                        seen[m, start, n] = True
                        break
    target, counts = returns.rewards_to_go(reward, None, TERMINATED, TRUNCATED, GAMMA)
    near(target, plain, "rewards to go")
    assert torch.equal(counts, seen), "rows whose episode runs past the rollout are marked"
    target, counts = returns.rewards_to_go(reward, next_value, TERMINATED, TRUNCATED, GAMMA)
    near(target, plain + completed, "rewards to go with a critic")
    assert bool(counts.all()), "with a critic every row counts"


def losses_are_their_definition() -> None:
    """One member's rows by hand: ratios inside and outside of the clip, advantages of both signs, rows that do not count."""
    ratio, advantage = torch.tensor([[1.5, 1.5, 0.5, 0.5, 1.1]]), torch.tensor([[1.0, -1.0, 1.0, -1.0, 2.0]])
    clip = torch.tensor([[0.2]])
    near(losses.clipped_surrogate(ratio, advantage, clip), [[-(1.2 - 1.5 + 0.5 - 0.8 + 2.2) / 5]], "clipped surrogate")
    value, old, target = torch.tensor([[1.0, 3.0]]), torch.tensor([[0.0, 2.9]]), torch.tensor([[2.0, 1.0]])
    near(losses.value_error(value, target), [[(1.0 + 4.0) / 2]], "value error")
    near(losses.clipped_value_error(value, old, target, torch.tensor([[0.5]])), [[(2.25 + 4.0) / 2]], "clipped value error")
    near(losses.clipped_value_error(value, old, -target, torch.tensor([[0.5]])), [[(9.0 + 16.0) / 2]], "clipped value error")
    near(losses.policy_gradient(torch.tensor([[-1.0, -2.0]]), torch.tensor([[3.0, -1.0]])), [[(3.0 - 2.0) / 2]], "policy gradient")
    near(losses.kl_k3(torch.tensor([[0.5, -0.5]])), [[(math.exp(0.5) + math.exp(-0.5) - 2) / 2]], "KL")
    weight = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    near(losses.mean(torch.tensor([[1.0, 5.0], [1.0, 5.0]]), weight), [[1.0], [3.0]], "weighted mean")


def distributions_are_torchs() -> None:
    """Log-probability, entropy and KL of every kind, against torch.distributions."""
    kinds = torch.distributions
    logits, other = numbers(4, 6), numbers(4, 6, seed=1)
    choice = torch.tensor([0, 2, 5, 3])
    reference, moved = kinds.Categorical(logits=logits), kinds.Categorical(logits=other)
    mine: distributions.Distribution = distributions.Categorical(6)
    _agree(mine, logits, other, choice, reference.log_prob(choice), reference.entropy(), kinds.kl_divergence(reference, moved))
    pair, parts = torch.stack([choice % 2, choice % 4], -1), (logits[:, :2], logits[:, 2:])
    both = [kinds.Categorical(logits=part) for part in parts]
    after = [kinds.Categorical(logits=part) for part in (other[:, :2], other[:, 2:])]
    log_prob = both[0].log_prob(pair[:, 0]) + both[1].log_prob(pair[:, 1])
    kl = kinds.kl_divergence(both[0], after[0]) + kinds.kl_divergence(both[1], after[1])
    entropy = both[0].entropy() + both[1].entropy()
    _agree(distributions.MultiCategorical((2, 4)), logits, other, pair, log_prob, entropy, kl)
    bits = (numbers(4, 6, seed=2) > 0).long()
    yes, yes_after = (kinds.Independent(kinds.Bernoulli(logits=x), 1) for x in (logits, other))
    _agree(distributions.Bernoulli(6), logits, other, bits, yes.log_prob(bits.float()), yes.entropy(), kinds.kl_divergence(yes, yes_after))
    action = numbers(4, 3, seed=3)
    normal, moved_normal = (kinds.Independent(kinds.Normal(x[:, :3], x[:, 3:].exp()), 1) for x in (logits, other))
    gaussian = distributions.Gaussian(3)
    _agree(gaussian, logits, other, action, normal.log_prob(action), normal.entropy(), kinds.kl_divergence(normal, moved_normal))


def _agree(
    mine: distributions.Distribution, old: Tensor, new: Tensor, action: Tensor, log_prob: Tensor, entropy: Tensor, kl: Tensor
) -> None:
    name = type(mine).__name__
    near(mine.log_prob(old, action), log_prob, f"{name} log_prob")
    near(mine.entropy(old), entropy, f"{name} entropy")
    for actual, expected in zip(mine.log_prob_entropy(old, action), (log_prob, entropy), strict=True):
        near(actual, expected, f"{name} log_prob_entropy")
    near(mine.kl(old, new), kl, f"{name} kl", 1e-4)


def samples_follow_their_distribution() -> None:
    """20,000 draws: shares within four standard errors. Three actions, because two cannot tell Gumbel noise from its mirror image."""
    seed, draws = torch.zeros(1, 1, dtype=torch.int64), torch.arange(20_000).view(1, -1)
    logits = torch.tensor([2.0, 0.5, -1.0])
    for kind in (distributions.Categorical(3), distributions.MultiCategorical((3,))):
        action = kind.sample(logits.expand(1, 20_000, 3), kind.noise(seed, draws, 0)).flatten()
        near(torch.bincount(action, minlength=3) / 20_000, logits.softmax(0), f"{type(kind).__name__} samples", 0.015)
    yes = distributions.Bernoulli(3)
    drawn = yes.sample(logits.expand(1, 20_000, 3), yes.noise(seed, draws, 0)).float()
    near(drawn.mean(1).squeeze(0), logits.sigmoid(), "Bernoulli samples", 0.015)
    normal = distributions.Gaussian(2)
    dist = torch.tensor([1.0, -1.0, math.log(0.5), math.log(3.0)])
    raw = normal.sample(dist.expand(1, 20_000, 4), normal.noise(seed, draws, 0))
    near(raw.mean((0, 1)), dist[:2], "Gaussian means", 0.09)
    near(raw.std((0, 1)), dist[2:].exp(), "Gaussian deviations", 0.03)


def each_member_has_its_own_adam() -> None:
    """Against Algorithm 1 of arXiv:1412.6980, one member at a time: own rates and clips; one that pauses keeps everything."""
    rule = optim.Optimizer("adam", 1e-5, 0.0, 0.0, 0.99, Layout({"w": (5,)}))
    flat, rate, bound = numbers(3, 5), torch.tensor([[1e-2], [3e-3], [1e-1]]), torch.tensor([[0.5], [2.0], [0.1]])
    weight, mean, square, count = flat.double(), torch.zeros(3, 5).double(), torch.zeros(3, 5).double(), [0, 0, 0]
    state = optim.start(flat)
    for step in range(6):
        grad = numbers(3, 5, seed=10 + step)
        active = torch.tensor([[True], [step not in (1, 2)], [step > 3]])
        clipped = optim.clip_by_norm(grad, grad.norm(dim=1, keepdim=True), bound)
        flat, state = optim.step(rule, flat, clipped, state, rate, active)
        for m in range(3):
            if active[m]:
                g = grad[m].double() * min(1.0, float(bound[m]) / float(grad[m].norm()))
                count[m] += 1
                mean[m], square[m] = 0.9 * mean[m] + 0.1 * g, 0.999 * square[m] + 0.001 * g * g
                root = (square[m] / (1 - 0.999 ** count[m])).sqrt() + 1e-5
                weight[m] -= float(rate[m]) * mean[m] / (1 - 0.9 ** count[m]) / root
    near(flat.double(), weight, "weights")
    near(state.mean.double(), mean, "first moments")
    near(state.square.double(), square, "second moments")
    near(state.steps, [[6.0], [4.0], [2.0]], "step counts")


def normalizers_are_their_definition() -> None:
    """Running moments against all rows at once; scaling by hand; each member by itself."""
    batches = [numbers(2, rows, 3, seed=rows) * 3 + 1 for rows in (4, 7, 9)]
    stats, frozen = normalize.moments(2, 3, torch.device("cpu")), torch.tensor([[True], [False]])
    for batch in batches:
        stats = normalize.include(stats, batch, frozen)
    rows = torch.cat(batches, 1)[0].double()
    near(stats.mean[0], rows.mean(0), "running mean")
    near(stats.var[0], rows.var(0, unbiased=False), "running variance")
    near(stats.count, [[20.0], [0.0]], "count: a frozen member's does not move")
    obs = torch.tensor([[[4.0, -50.0, 1.0]], [[4.0, -50.0, 1.0]]])
    scaled = ((obs[0, 0] - rows.mean(0)) / rows.std(0, unbiased=False)).clamp(-5, 5).float()
    near(normalize.observations(stats, obs, 5.0)[0, 0], scaled, "normalized observations", 1e-4)
    of_returns = normalize.Moments(torch.ones(2, 1), torch.full((2, 1), 7.0).double(), torch.tensor([[4.0], [0.25]]).double())
    near(normalize.rewards(of_returns, torch.full((2, 1, 1), 3.0), 5.0).flatten(), [1.5, 5.0], "normalized rewards: the mean stays")
    end = torch.tensor([False, True, False]).view(1, 3, 1)
    sums, carry = normalize.discounted_returns(torch.ones(1, 3, 1), end, torch.tensor([[2.0]]), torch.tensor([[0.5]]))
    near(sums.flatten(), [2.0, 2.0, 1.0], "discounted returns")
    near(carry, [[1.0]], "carried return")
    spread = torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 60.0]])
    expected = (spread - spread.mean(1, keepdim=True)) / spread.std(1, keepdim=True)
    near(normalize.standardize(spread), expected, "standardized advantages")
    near(normalize.standardize(spread, torch.ones_like(spread)), expected, "standardized advantages with weights")


def minibatches_are_a_partition() -> None:
    """Every epoch has each row once, whole, in an order of its own for member, epoch and iteration."""
    seed = torch.tensor([3, 4]).view(-1, 1, 1)
    row = torch.arange(12.0).expand(2, 12)
    whole = rollouts.Batch(row.unsqueeze(-1), row.long(), row, row, row, row, None, None)
    orders = {}
    for iteration in (0, 1):
        found = list(rollouts.minibatches(whole, 4, 2, seed, iteration))
        assert [epoch for epoch, _ in found] == [0, 0, 0, 1, 1, 1], f"three minibatches in each epoch, not {[epoch for epoch, _ in found]}"
        for _, batch in found:
            same = [batch.log_prob, batch.obs.squeeze(-1), batch.action.float(), batch.advantage, batch.returns, batch.value]
            assert all(torch.equal(same[0], field) for field in same), "a row stays together"
        for epoch in (0, 1):
            order = torch.cat([batch.log_prob for number, batch in found if number == epoch], 1)
            near(order.sort(1).values, row, "rows of an epoch")
            orders[iteration, epoch] = order
    distinct = {tuple(order[m].tolist()) for order in orders.values() for m in range(2)}
    assert len(distinct) == 8, f"{8 - len(distinct)} orders of 2 members x 2 epochs x 2 iterations are repeated"


def draws_differ_wherever_an_index_does() -> None:
    """Neither seed, nor stream, nor index is left out of a draw."""
    seed = torch.arange(3).view(-1, 1)
    drawn = torch.cat([rng.uniform(seed, stream, torch.arange(4), index) for stream in (1, 2) for index in (0, 1)])
    assert drawn.unique().numel() == drawn.numel(), "draws repeat"
    near(rng.uniform(torch.zeros(1, dtype=torch.int64), 1, torch.arange(20_000)).mean(), 0.5, "uniform mean", 0.01)


DETECTORS = (
    advantages_are_their_definition,
    rewards_to_go_are_their_definition,
    losses_are_their_definition,
    distributions_are_torchs,
    samples_follow_their_distribution,
    each_member_has_its_own_adam,
    normalizers_are_their_definition,
    minibatches_are_a_partition,
    draws_differ_wherever_an_index_does,
)
