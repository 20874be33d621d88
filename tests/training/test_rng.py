"""Counter-based randomness: the right numbers, spread as they should be, and the same ones whatever the shape of the batch."""

import math

import pytest
import torch
from torch import Tensor

from rlclinic.training import rng

MASK = (1 << 64) - 1
STREAMS = {"RESET": 1, "ACTION": 2, "PERMUTATION": 3, "ENVIRONMENT": 4, "EXPLORATION": 5, "REPLAY": 6}


SNAPSHOT = {
    "bits": 2558736989570252433,
    "uniform": 0.2366892695426941,
    "normal": -1.3130062818527222,
    "gumbel": -0.36534225940704346,
    "order": [4, 7, 0, 3, 6, 1, 2, 5],
}


def seed(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int64)


def splitmix(x: int) -> int:
    """The finalizer of splitmix64 in plain integers."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def hashed(number: int, stream: int, *index: int) -> int:
    """bits() in plain integers."""
    golden = 0x9E3779B97F4A7C15
    key = splitmix((number + stream * golden) & MASK)
    for place in index:
        key = splitmix((key + (place + 1) * golden) & MASK)
    return key


# ── the run format: these numbers decide every run that exists, so none of them may change ──


def test_the_streams_keep_their_numbers() -> None:
    assert {name: getattr(rng, name) for name in STREAMS} == STREAMS


@pytest.mark.parametrize("number", [0, 1, 12345, 2**62 + 7])
def test_bits_are_those_of_splitmix64_in_plain_integers(number: int) -> None:
    for index in ((), (0,), (3, 5), (2**40, 0, 9)):
        found = rng.bits(seed(number), rng.ACTION, *index)
        assert int(found.item()) & MASK == hashed(number, rng.ACTION, *index)
        assert torch.equal(rng.bits(seed(number), rng.ACTION, *(seed(place) for place in index)), found)


def test_a_few_draws_are_what_they_always_were() -> None:
    assert rng.bits(seed(0), rng.RESET, 0, 0).item() == SNAPSHOT["bits"]
    assert rng.uniform(seed(7), rng.ACTION, 1, 2).item() == pytest.approx(SNAPSHOT["uniform"], abs=1e-7)
    assert rng.normal(seed(7), rng.ACTION, 1, 2).item() == pytest.approx(SNAPSHOT["normal"], abs=1e-5)
    assert rng.gumbel(seed(7), rng.ACTION, 1, 2).item() == pytest.approx(SNAPSHOT["gumbel"], abs=1e-5)
    order = rng.permutation(seed(3).view(1, 1, 1), rng.PERMUTATION, 4, 1, 8)
    assert order.flatten().tolist() == SNAPSHOT["order"]


# ── spread ──


def test_uniform_draws_fill_the_open_interval_evenly() -> None:
    draws = rng.uniform(seed(1), rng.ACTION, torch.arange(200_000))
    assert draws.dtype == torch.float32
    counts = torch.histc(draws, bins=100, min=0, max=1)
    chi_square = ((counts - 2_000).square() / 2_000).sum().item()
    assert 60 < chi_square < 149  # 99 degrees of freedom: a one-in-a-thousand event on either side
    assert draws.mean().item() == pytest.approx(0.5, abs=0.003)


@pytest.mark.parametrize(("hash_value", "expected"), [(0, 2.0**-24), (-1, 1 - 2.0**-24)])
def test_the_lowest_and_the_highest_hash_give_neither_zero_nor_one(
    monkeypatch: pytest.MonkeyPatch, hash_value: int, expected: float
) -> None:
    monkeypatch.setattr(rng, "bits", lambda *_: seed(hash_value))
    assert rng.uniform(seed(0), rng.ACTION).item() == expected
    assert torch.isfinite(rng.gumbel(seed(0), rng.ACTION)).all()
    assert torch.isfinite(rng.normal(seed(0), rng.ACTION)).all()


@pytest.mark.parametrize("neighbours", ["seeds", "streams", "indices", "places"])
def test_draws_that_differ_in_one_number_only_are_unrelated(neighbours: str) -> None:
    count = torch.arange(50_000)
    one, other = {
        "seeds": lambda: (rng.uniform(seed(0), 1, count), rng.uniform(seed(1), 1, count)),
        "streams": lambda: (rng.uniform(seed(0), 1, count), rng.uniform(seed(0), 2, count)),
        "indices": lambda: (rng.uniform(seed(0), 1, count), rng.uniform(seed(0), 1, count + 1)),
        "places": lambda: (rng.uniform(seed(0), 1, 0, count), rng.uniform(seed(0), 1, count, 0)),
    }[neighbours]()
    assert abs(torch.corrcoef(torch.stack([one, other]))[0, 1].item()) < 0.02
    assert (one == other).float().mean().item() < 1e-3


def test_flipping_any_bit_of_the_input_flips_about_half_of_the_output() -> None:
    inputs = torch.arange(2_000) * 7919
    for position in range(0, 63, 7):
        flipped = rng.mix(inputs) ^ rng.mix(inputs ^ (1 << position))
        ones = sum(((flipped >> shift) & 1).float().mean().item() for shift in range(64)) / 64
        assert ones == pytest.approx(0.5, abs=0.02)


def test_normal_draws_are_standard_normal() -> None:
    draws = rng.normal(seed(2), rng.ACTION, torch.arange(100_000)).double()
    assert draws.mean().item() == pytest.approx(0.0, abs=0.015)
    assert draws.std().item() == pytest.approx(1.0, abs=0.01)
    for bound, share in ((1.0, 0.6827), (2.0, 0.9545), (3.0, 0.9973)):
        assert (draws.abs() < bound).double().mean().item() == pytest.approx(share, abs=0.005)


def test_gumbel_draws_have_their_mean_and_variance() -> None:
    draws = rng.gumbel(seed(2), rng.ACTION, torch.arange(100_000)).double()
    assert draws.mean().item() == pytest.approx(0.5772, abs=0.02)
    assert draws.var().item() == pytest.approx(math.pi**2 / 6, abs=0.04)


# ── the same bits whatever else is drawn beside them ──


def test_a_draw_is_the_same_alone_and_in_any_batch() -> None:
    seeds, steps, envs = seed(4, 5, 6).view(-1, 1, 1), torch.arange(5).view(1, -1, 1), torch.arange(3).view(1, 1, -1)
    whole = rng.bits(seeds, rng.ACTION, steps, envs)
    assert whole.shape == (3, 5, 3)
    for m, t, n in ((0, 0, 0), (1, 4, 2), (2, 3, 1)):
        assert rng.bits(seed(4 + m), rng.ACTION, t, n).item() == whole[m, t, n].item()
    assert torch.equal(rng.bits(seeds[1:], rng.ACTION, steps[:, 2:], envs), whole[1:, 2:])


def test_permutations_are_permutations_and_differ_between_members_epochs_and_iterations() -> None:
    seeds = seed(0, 1, 2).view(-1, 1, 1)
    order = rng.permutation(seeds, rng.PERMUTATION, 0, 4, 64)
    assert order.shape == (3, 4, 64)
    assert torch.equal(order.sort(-1).values, torch.arange(64).expand(3, 4, 64))
    again = rng.permutation(seeds, rng.PERMUTATION, 1, 4, 64)
    rows = torch.cat([order.view(-1, 64), again.view(-1, 64)])
    assert rows.unique(dim=0).shape[0] == 24
    assert torch.equal(rng.permutation(seeds[1:2], rng.PERMUTATION, 0, 2, 64), order[1:2, :2])


def test_every_row_comes_first_about_equally_often() -> None:
    order = rng.permutation(torch.arange(4_000).view(-1, 1, 1), rng.PERMUTATION, 0, 1, 8)
    first = torch.bincount(order[:, 0, 0], minlength=8)
    assert ((first - 500).abs() < 4.5 * math.sqrt(500 * 7 / 8)).all()
