"""Advantages and returns by hand, and against sums that are written out as the definition says."""

import pytest
import torch
from torch import Tensor

from rlclinic.training.maths import returns

HALF = torch.tensor([[0.5]])


def one_env(*values: float) -> Tensor:
    """[1, T, 1]."""
    return torch.tensor(values, dtype=torch.float32).view(1, -1, 1)


def flags(*steps: int, length: int = 3) -> Tensor:
    found = torch.zeros(1, length, 1, dtype=torch.bool)
    found[:, list(steps)] = True
    return found


def random_rollout(seed: int, members: int = 3, steps: int = 9, n_envs: int = 2) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (members, steps, n_envs)
    numbers = {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name in ("reward", "value", "next_value")}
    ends = {name: torch.rand(shape, generator=generator) < 0.25 for name in ("terminated", "truncated")}
    return numbers | ends


# ── by hand: gamma = lambda = 1/2, V = 2, 4, 8, and 16 after the last step; so the TD errors are 1, 2, 4 ──


@pytest.mark.parametrize(
    ("terminated", "truncated", "expected"),
    [
        ((), (), (1.75, 3.0, 4.0)),  # 4; 2 + 4/4; 1 + 3/4
        ((1,), (), (0.5, -2.0, 4.0)),  # no future after step 1: 2 - 4; then 1 - 2/4; step 2 is another episode's
        ((), (1,), (1.5, 2.0, 4.0)),  # the clock stopped: its future counts, the next episode's errors do not
        ((1,), (1,), (0.5, -2.0, 4.0)),  # both at once: terminal
        ((2,), (), (1.25, 1.0, -4.0)),  # 4 - 8; 2 - 4/4; 1 + 1/4
        ((), (0, 1, 2), (1.0, 2.0, 4.0)),  # every step an episode: nothing but TD errors
        ((0, 1, 2), (), (-1.0, -2.0, -4.0)),  # r - V
    ],
)
def test_gae_gives_the_sums_worked_out_by_hand(
    terminated: tuple[int, ...], truncated: tuple[int, ...], expected: tuple[float, ...]
) -> None:
    value = one_env(2, 4, 8)
    advantage, target = returns.gae(one_env(1, 2, 4), value, one_env(4, 8, 16), flags(*terminated), flags(*truncated), HALF, HALF)
    torch.testing.assert_close(advantage, one_env(*expected))
    torch.testing.assert_close(target, one_env(*expected) + value)


def defined_gae(rollout: dict[str, Tensor], gamma: list[float], gae_lambda: list[float]) -> Tensor:
    """Equation 16 written out: for each step the discounted sum of its episode's TD errors."""
    members, steps, n_envs = rollout["reward"].shape
    found = torch.zeros_like(rollout["reward"])
    cell = {name: tensor.tolist() for name, tensor in rollout.items()}
    for m in range(members):
        for n in range(n_envs):
            for t in range(steps):
                total = 0.0
                for later in range(t, steps):
                    future = 0.0 if cell["terminated"][m][later][n] else gamma[m] * cell["next_value"][m][later][n]
                    error = cell["reward"][m][later][n] + future - cell["value"][m][later][n]
                    total += (gamma[m] * gae_lambda[m]) ** (later - t) * error
                    if cell["terminated"][m][later][n] or cell["truncated"][m][later][n]:
                        break
                found[m, t, n] = total
    return found


@pytest.mark.parametrize("seed", range(4))
def test_gae_equals_its_definition_with_ends_of_both_kinds_and_numbers_per_member(seed: int) -> None:
    rollout, gamma, gae_lambda = random_rollout(seed), [0.9, 0.5, 1.0], [0.95, 0.0, 1.0]
    assert (rollout["terminated"] & rollout["truncated"]).any()
    advantage, target = returns.gae(
        **rollout, gamma=torch.tensor(gamma).view(3, 1).double(), gae_lambda=torch.tensor(gae_lambda).view(3, 1).double()
    )
    torch.testing.assert_close(advantage, defined_gae(rollout, gamma, gae_lambda), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(target, advantage + rollout["value"])


def test_gae_ignores_the_value_after_a_terminal_state_and_uses_the_one_after_a_time_limit() -> None:
    rollout = random_rollout(1)
    number = torch.full((3, 1), 0.9, dtype=torch.float64)
    before = returns.gae(**rollout, gamma=number, gae_lambda=number)[0]
    moved = rollout["next_value"] + 1e6 * rollout["terminated"]
    torch.testing.assert_close(returns.gae(**{**rollout, "next_value": moved}, gamma=number, gae_lambda=number)[0], before)
    cut = rollout["truncated"] & ~rollout["terminated"]
    moved = rollout["next_value"] + 100.0 * cut
    change = returns.gae(**{**rollout, "next_value": moved}, gamma=number, gae_lambda=number)[0] - before
    torch.testing.assert_close(change[cut], torch.full_like(change[cut], 90.0))


def test_a_member_beside_others_has_the_advantages_that_it_has_alone() -> None:
    # As many members as steps and envs: where [M] took the place of [M, 1], this would broadcast along the wrong axis silently.
    rollout = random_rollout(2, members=3, steps=3, n_envs=3)
    gamma = torch.tensor([[0.3], [0.6], [0.9]], dtype=torch.float64)
    together = returns.gae(**rollout, gamma=gamma, gae_lambda=gamma)[0]
    for m in range(3):
        one = slice(m, m + 1)
        alone = returns.gae(**{name: tensor[one] for name, tensor in rollout.items()}, gamma=gamma[one], gae_lambda=gamma[one])[0]
        assert torch.equal(together[one], alone)


# ── rewards to go ──


def test_rewards_to_go_without_a_baseline_stop_at_the_end_and_mark_what_never_ended() -> None:
    # Episode 1: steps 0-1, ended by a time limit; episode 2: step 2, terminal; step 3 runs past the rollout.
    total, complete = returns.rewards_to_go(one_env(1, 2, 4, 8), None, flags(2, length=4), flags(1, length=4), HALF)
    torch.testing.assert_close(total, one_env(1 + 2 / 2, 2, 4, 8))
    assert complete.flatten().tolist() == [True, True, True, False]


def test_rewards_to_go_with_a_baseline_are_completed_where_the_data_stops_but_not_after_a_terminal_state() -> None:
    value = one_env(100, 10, 1000, 20)
    total, complete = returns.rewards_to_go(one_env(1, 2, 4, 8), value, flags(2, length=4), flags(1, length=4), HALF)
    # Step 1 was cut: 2 + 10/2. Step 0 follows it: 1 + 7/2. Step 2 is terminal. Step 3 is the rollout's end: 8 + 20/2.
    torch.testing.assert_close(total, one_env(4.5, 7, 4, 18))
    assert complete.all()


def defined_rewards_to_go(rollout: dict[str, Tensor], gamma: list[float], completed: bool) -> tuple[Tensor, Tensor]:
    members, steps, n_envs = rollout["reward"].shape
    found, complete = torch.zeros_like(rollout["reward"]), torch.zeros(members, steps, n_envs, dtype=torch.bool)
    for m in range(members):
        for n in range(n_envs):
            for t in range(steps):
                for later in range(t, steps):
                    found[m, t, n] += gamma[m] ** (later - t) * rollout["reward"][m, later, n]
                    terminated, truncated = rollout["terminated"][m, later, n], rollout["truncated"][m, later, n]
                    if completed and not terminated and (truncated or later == steps - 1):
                        found[m, t, n] += gamma[m] ** (later - t + 1) * rollout["next_value"][m, later, n]
                    if terminated or truncated:
                        complete[m, t, n] = True
                        break
    return found, complete


@pytest.mark.parametrize("completed", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_rewards_to_go_equal_their_definition(seed: int, completed: bool) -> None:
    rollout, gamma = random_rollout(seed, members=2), [0.9, 0.5]
    value = rollout["next_value"] if completed else None
    number = torch.tensor(gamma, dtype=torch.float64).view(2, 1)
    total, complete = returns.rewards_to_go(rollout["reward"], value, rollout["terminated"], rollout["truncated"], number)
    expected, ended = defined_rewards_to_go(rollout, gamma, completed)
    torch.testing.assert_close(total, expected)
    assert complete.all() if completed else torch.equal(complete, ended)


def test_gae_with_lambda_one_is_the_completed_return_less_the_value() -> None:
    rollout = random_rollout(3)
    # Within an episode, what one step leads to is what the next one starts from.
    inside = ~(rollout["terminated"] | rollout["truncated"])[:, :-1]
    rollout["next_value"][:, :-1][inside] = rollout["value"][:, 1:][inside]
    gamma, one = torch.full((3, 1), 0.9, dtype=torch.float64), torch.ones(3, 1, dtype=torch.float64)
    total, _ = returns.rewards_to_go(rollout["reward"], rollout["next_value"], rollout["terminated"], rollout["truncated"], gamma)
    torch.testing.assert_close(returns.gae(**rollout, gamma=gamma, gae_lambda=one)[0], total - rollout["value"])
