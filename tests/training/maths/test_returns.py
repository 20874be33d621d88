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


# ── V-trace ──


def test_vtrace_gives_the_sums_worked_out_by_hand() -> None:
    # gamma 1/2, lambda 1, TD errors 1, 2, 4 as above. Ratios 2, 1/2, 4; rho at most 1, c at most 2.
    # rho: 1, 1/2, 1. c: 2, 1/2, 2. Corrections: 4; 1 + 1/4 * 4 = 2; 1 + 2/2 * 2 = 3.
    log_ratio = one_env(2, 0.5, 4).log()
    clips = (torch.tensor([[1.0]]), torch.tensor([[2.0]]))
    never = flags()
    value = one_env(2, 4, 8)
    advantage, target = returns.vtrace(one_env(1, 2, 4), value, one_env(4, 8, 16), never, never, log_ratio, HALF, torch.ones(1, 1), *clips)
    torch.testing.assert_close(target, value + one_env(3, 2, 4))
    # rho (r + gamma v' - V): 1 (1 + 6/2 - 2); 1/2 (2 + 12/2 - 4); 1 (4 + 16/2 - 8).
    torch.testing.assert_close(advantage, one_env(2, 2, 4))


def defined_vtrace(rollout: dict[str, Tensor], log_ratio: Tensor, numbers: list[tuple[float, ...]]) -> tuple[Tensor, Tensor]:
    """v of equation 1 as the sum over later steps of products, and the advantage of section 4.2."""
    members, steps, n_envs = rollout["reward"].shape
    cell = {name: tensor.tolist() for name, tensor in rollout.items()}
    advantage, target = torch.zeros_like(rollout["reward"]), torch.zeros_like(rollout["reward"])

    def corrected(m: int, t: int, n: int) -> float:
        gamma, lam, rho_clip, c_clip = numbers[m]
        total, product = cell["value"][m][t][n], 1.0
        for k in range(t, steps):
            ratio = float(log_ratio[m, k, n].exp())
            future = 0.0 if cell["terminated"][m][k][n] else gamma * cell["next_value"][m][k][n]
            total += product * min(rho_clip, ratio) * (cell["reward"][m][k][n] + future - cell["value"][m][k][n])
            product *= gamma * lam * min(c_clip, ratio)
            if cell["terminated"][m][k][n] or cell["truncated"][m][k][n]:
                break
        return total

    for m in range(members):
        gamma, _, rho_clip, _ = numbers[m]
        for n in range(n_envs):
            for t in range(steps):
                target[m, t, n] = corrected(m, t, n)
                terminated, truncated = cell["terminated"][m][t][n], cell["truncated"][m][t][n]
                future = cell["next_value"][m][t][n]
                if not terminated and not truncated and t + 1 < steps:
                    future += corrected(m, t + 1, n) - cell["value"][m][t + 1][n]
                rho = min(rho_clip, float(log_ratio[m, t, n].exp()))
                advantage[m, t, n] = rho * (cell["reward"][m][t][n] + gamma * future * (not terminated) - cell["value"][m][t][n])
    return advantage, target


@pytest.mark.parametrize("seed", range(3))
def test_vtrace_equals_its_definition_with_ends_of_both_kinds_and_numbers_per_member(seed: int) -> None:
    rollout = random_rollout(seed)
    log_ratio = torch.randn(rollout["reward"].shape, generator=torch.Generator().manual_seed(seed + 9), dtype=torch.float64)
    numbers = [(0.9, 0.95, 1.0, 1.0), (0.5, 1.0, 2.0, 1.5), (1.0, 0.0, 10.0, 1.0)]
    columns = [torch.tensor(column, dtype=torch.float64).view(3, 1) for column in zip(*numbers, strict=True)]
    found = returns.vtrace(**rollout, log_ratio=log_ratio, **dict(zip(("gamma", "gae_lambda", "rho_clip", "c_clip"), columns, strict=True)))
    for one, expected in zip(found, defined_vtrace(rollout, log_ratio, numbers), strict=True):
        torch.testing.assert_close(one, expected)


@pytest.mark.parametrize("clip", [1.0, 1.7])
def test_on_data_of_its_own_vtrace_is_the_n_step_return(clip: float) -> None:
    rollout = random_rollout(5)
    inside = ~(rollout["terminated"] | rollout["truncated"])[:, :-1]
    rollout["next_value"][:, :-1][inside] = rollout["value"][:, 1:][inside]
    gamma, one = torch.full((3, 1), 0.9, dtype=torch.float64), torch.ones(3, 1, dtype=torch.float64)
    advantage, target = returns.vtrace(
        **rollout, log_ratio=torch.zeros_like(rollout["reward"]), gamma=gamma, gae_lambda=one, rho_clip=clip * one, c_clip=clip * one
    )
    total, _ = returns.rewards_to_go(rollout["reward"], rollout["next_value"], rollout["terminated"], rollout["truncated"], gamma)
    torch.testing.assert_close(target, total)
    torch.testing.assert_close(advantage, total - rollout["value"])


def test_a_step_that_the_new_policy_would_never_take_changes_nothing() -> None:
    rollout = random_rollout(6)
    log_ratio = torch.zeros_like(rollout["reward"])
    log_ratio[:, 4] = -60.0
    number = torch.full((3, 1), 0.9, dtype=torch.float64)
    one = torch.ones_like(number)
    advantage, target = returns.vtrace(**rollout, log_ratio=log_ratio, gamma=number, gae_lambda=one, rho_clip=one, c_clip=one)
    assert advantage[:, 4].abs().max() < 1e-20
    torch.testing.assert_close(target[:, 4], rollout["value"][:, 4])
    moved = {**rollout, "reward": rollout["reward"] + torch.nn.functional.one_hot(torch.tensor(4), 9).view(1, -1, 1) * 1e6}
    again = returns.vtrace(**moved, log_ratio=log_ratio, gamma=number, gae_lambda=one, rho_clip=one, c_clip=one)
    torch.testing.assert_close(again[1], target)


# ── n-step targets of replay ──


def windows(n: int, seed: int = 0, members: int = 3, drawn: int = 20) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (members, drawn, n)
    reward = torch.randn(shape, generator=generator, dtype=torch.float64)
    return {"reward": reward} | {name: torch.rand(shape, generator=generator) < 0.2 for name in ("terminated", "truncated")}


def defined_n_step(window: dict[str, Tensor], gamma: list[float], available: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    members, drawn, n = window["reward"].shape
    total, discount = torch.zeros(members, drawn, dtype=torch.float64), torch.zeros(members, drawn, dtype=torch.float64)
    last = torch.zeros(members, drawn, dtype=torch.int64)
    for m in range(members):
        for b in range(drawn):
            for k in range(n):
                total[m, b] += gamma[m] ** k * window["reward"][m, b, k]
                last[m, b] = k
                if window["terminated"][m, b, k]:
                    break
                discount[m, b] = gamma[m] ** (k + 1)
                if window["truncated"][m, b, k] or (k + 1 < n and not available[m, b, k + 1]):
                    break
            if window["terminated"][m, b, last[m, b]]:
                discount[m, b] = 0.0
    return total, discount, last


@pytest.mark.parametrize("n", [1, 3, 5])
def test_n_step_targets_equal_their_definition(n: int) -> None:
    window, gamma = windows(n, seed=n), [0.9, 0.5, 1.0]
    available = torch.arange(n) <= torch.randint(0, n + 1, (3, 20, 1), generator=torch.Generator().manual_seed(n))
    number = torch.tensor(gamma, dtype=torch.float64).view(3, 1)
    everything = torch.ones_like(available)
    for given, asked in ((None, everything), (available, available)):
        found = returns.n_step(**window, gamma=number, available=given)
        for one, expected in zip(found, defined_n_step(window, gamma, asked), strict=True):
            torch.testing.assert_close(one, expected)


def test_n_step_targets_by_hand() -> None:
    reward = torch.tensor([[[1.0, 2.0, 4.0]] * 4])
    terminated, truncated = torch.zeros(2, 1, 4, 3, dtype=torch.bool)
    terminated[0, 1, 1] = True  # the second window ends in a terminal state,
    truncated[0, 2, 1] = True  # the third at a time limit,
    terminated[0, 3, 2] = True  # the fourth in its last step
    total, discount, last = returns.n_step(reward, terminated, truncated, HALF)
    assert total.tolist() == [[1 + 2 / 2 + 4 / 4, 1 + 2 / 2, 1 + 2 / 2, 3.0]]
    assert discount.tolist() == [[1 / 8, 0.0, 1 / 4, 0.0]]
    assert last.tolist() == [[2, 1, 1, 2]]


def test_what_lies_behind_a_windows_end_is_never_looked_at() -> None:
    window = windows(4, seed=2)
    gamma = torch.full((3, 1), 0.9, dtype=torch.float64)
    before = returns.n_step(**window, gamma=gamma)
    behind = torch.arange(4) > before[2].unsqueeze(-1)
    window["reward"][behind] = float("nan")
    window["terminated"][behind] = True
    for one, other in zip(before, returns.n_step(**window, gamma=gamma), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("steps", [1, 2, 7, 64, 100])
def test_advantages_without_ends_are_those_of_episodes_that_never_end(steps: int) -> None:
    random = torch.Generator().manual_seed(steps)
    reward, value, next_value = (torch.randn(3, steps, 2, generator=random) for _ in range(3))
    never, gamma, gae_lambda = torch.zeros(3, steps, 2, dtype=torch.bool), torch.tensor([[0.99], [0.5], [0.0]]), torch.full((3, 1), 0.95)
    wanted = returns.gae(reward, value, next_value, never, never, gamma, gae_lambda)
    found = returns.gae_without_ends(reward, value, next_value, gamma, gae_lambda)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


# ── at the edges: one step, nothing but ends, no future and no discount ──


@pytest.mark.parametrize("ends", ["none", "terminated", "truncated", "both"])
@pytest.mark.parametrize("steps", [1, 4])
def test_returns_equal_their_definitions_at_the_edges(steps: int, ends: str) -> None:
    rollout, gamma, gae_lambda = random_rollout(11, members=4, steps=steps), [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]
    for name in ("terminated", "truncated"):
        rollout[name] = torch.full_like(rollout[name], ends in (name, "both"))
    number, share = (torch.tensor(each, dtype=torch.float64).view(4, 1) for each in (gamma, gae_lambda))
    torch.testing.assert_close(returns.gae(**rollout, gamma=number, gae_lambda=share)[0], defined_gae(rollout, gamma, gae_lambda))
    for completed in (True, False):
        value = rollout["next_value"] if completed else None
        total, _ = returns.rewards_to_go(rollout["reward"], value, rollout["terminated"], rollout["truncated"], number)
        torch.testing.assert_close(total, defined_rewards_to_go(rollout, gamma, completed)[0])
    log_ratio, one = rollout["value"] / 2, torch.ones_like(number)
    found = returns.vtrace(**rollout, log_ratio=log_ratio, gamma=number, gae_lambda=share, rho_clip=one, c_clip=one)
    numbers = [(g, lam, 1.0, 1.0) for g, lam in zip(gamma, gae_lambda, strict=True)]
    for mine, expected in zip(found, defined_vtrace(rollout, log_ratio, numbers), strict=True):
        torch.testing.assert_close(mine, expected)
    window = {name: rollout[name].transpose(1, 2) for name in ("reward", "terminated", "truncated")}
    everything = torch.ones_like(window["terminated"])
    for mine, expected in zip(returns.n_step(**window, gamma=number), defined_n_step(window, gamma, everything), strict=True):
        torch.testing.assert_close(mine, expected)
