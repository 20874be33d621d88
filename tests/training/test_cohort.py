"""Numbers of a cohort's members: schedules, bounds that only some have, learning rates of the critic, KL-adaptive rates."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlclinic.config import Config, Schedule, numbers
from rlclinic.training import members as cohort
from tests.training.cohorts import ALGOS, make_config, member, workshop

BUDGET = {"max_env_steps": 1_000}
ADAPTIVE = {"schedule": "kl_adaptive", "start": 1e-3, "target_kl": 0.01, "factor": 2.0}


def with_algo(seed: int = 0, **algo: Any) -> Config:
    return make_config(seed=seed, algo={**ALGOS["ppo"], **algo}, run=BUDGET)


def numbers_at(step: int, *configs: Config) -> SimpleNamespace:
    return workshop(configs).numbers(step)


@pytest.mark.parametrize("algo", ALGOS)
def test_every_number_of_every_algorithm_is_one_value_per_member(algo: str) -> None:
    shop = workshop([make_config(algo, seed=seed) for seed in range(3)])
    hp = shop.numbers()
    for name, number in numbers(shop.config.algo).items():
        value = getattr(hp, name)
        if number is None:
            assert value is None
        else:
            assert value.shape == (3, 1)
            assert value.tolist() == [[pytest.approx(number.start if isinstance(number, Schedule) else number)]] * 3


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({"start": 0.4, "end": 0.0}, {0: 0.4, 500: 0.2, 1_000: 0.0}),
        ({"start": 0.4, "end": 0.2, "from": 0.5}, {0: 0.4, 500: 0.4, 750: 0.3, 1_000: 0.2}),
        ({"start": 0.4, "end": 0.2, "from": 200, "to": 600}, {100: 0.4, 400: 0.3, 700: 0.2}),
        ({"start": 0.4, "end": 0.2, "schedule": "cosine"}, {0: 0.4, 500: 0.3, 1_000: 0.2}),
        ({"start": 0.4, "end": 0.1, "schedule": "exponential"}, {0: 0.4, 500: 0.2, 1_000: 0.1}),
        ({"start": 0.4, "schedule": "constant", "warmup": 0.1}, {0: 0.0, 50: 0.2, 100: 0.4, 900: 0.4}),
        ({"schedule": "piecewise", "points": [[0, 0.1], [0.5, 0.3], [1, 0.2]]}, {0: 0.1, 250: 0.2, 750: 0.25}),
    ],
)
@pytest.mark.parametrize("name", ["learning_rate", "clip_range", "ent_coef", "gamma", "vf_coef"])
def test_a_schedule_reaches_the_number_that_it_is_for(name: str, schedule: dict[str, Any], expected: dict[int, float]) -> None:
    configs = [with_algo(0, **{name: schedule}), with_algo(seed=1)]
    usual = numbers(configs[1].algo)[name]
    for step, value in expected.items():
        found = getattr(numbers_at(step, *configs), name)
        assert found.flatten().tolist() == pytest.approx([value, usual], abs=1e-7)


def test_members_keep_their_own_schedules() -> None:
    configs = [with_algo(seed, learning_rate={"start": 1e-3 * (seed + 1), "end": 0.0}) for seed in range(3)]
    assert numbers_at(500, *configs).learning_rate.flatten().tolist() == pytest.approx([5e-4, 1e-3, 1.5e-3])


@pytest.mark.parametrize("name", ["target_kl", "clip_range_vf"])
def test_a_bound_that_only_one_member_sets_is_infinite_for_the_others(name: str) -> None:
    assert getattr(numbers_at(0, with_algo(), with_algo(1)), name) is None
    assert getattr(numbers_at(0, with_algo(0, **{name: 0.25}), with_algo(1)), name).tolist() == [[0.25], [float("inf")]]


def test_without_value_lr_one_step_size_serves_all_parameters() -> None:
    hp = numbers_at(0, with_algo(learning_rate=1e-3), with_algo(1, learning_rate=2e-3))
    assert hp.step_size.flatten().tolist() == pytest.approx([1e-3, 2e-3])


def test_value_lr_is_the_step_size_of_the_critics_parameters_only() -> None:
    shop = workshop([with_algo(learning_rate=1e-3, value_lr=5e-3), with_algo(1, learning_rate=2e-3)])
    step_size, layout = shop.numbers().step_size, shop.plan.policy.layout
    assert step_size.shape == (2, layout.width)
    for name in layout.shapes:
        first, last = layout.span(name)
        rate = 5e-3 if name.startswith(("critic.", "value.")) else 1e-3
        torch.testing.assert_close(step_size[0, first:last], torch.full((last - first,), rate))
    # A member that sets none learns with one rate, beside one that does.
    torch.testing.assert_close(step_size[1], torch.full((layout.width,), 2e-3))


# ── KL-adaptive rates ──


def rate(each: cohort.Member, step: int = 500) -> float:
    found = cohort.current_numbers(each, step)["learning_rate"]
    assert found is not None
    return found


@pytest.mark.parametrize(("kl", "expected"), [(0.1, 5e-4), (0.021, 5e-4), (0.01, 1e-3), (0.004, 2e-3), (0.0, 1e-3)])
def test_a_kl_adaptive_rate_falls_when_the_policy_moved_too_far_and_rises_when_it_hardly_moved(kl: float, expected: float) -> None:
    each = member(with_algo(learning_rate=ADAPTIVE))
    assert rate(each) == 1e-3
    cohort.adapt(each, kl)
    assert rate(each) == pytest.approx(expected)


def test_a_kl_adaptive_rate_goes_on_from_where_it_stands_and_stays_within_its_bounds() -> None:
    each = member(with_algo(learning_rate={**ADAPTIVE, "min": 1e-4, "max": 4e-3}))
    seen = []
    for kl in [1.0] * 5 + [1e-4] * 8:
        cohort.adapt(each, kl)
        seen.append(rate(each))
    assert seen[:5] == pytest.approx([5e-4, 2.5e-4, 1.25e-4, 1e-4, 1e-4])
    assert seen[5:] == pytest.approx([2e-4, 4e-4, 8e-4, 1.6e-3, 3.2e-3, 4e-3, 4e-3, 4e-3])


def test_warm_up_comes_first_also_for_a_rate_that_has_adapted() -> None:
    each = member(with_algo(learning_rate={**ADAPTIVE, "warmup": 0.1}))
    cohort.adapt(each, 1.0)
    assert rate(each, 50) == pytest.approx(5e-4)  # half of the way to `start`
    assert rate(each, 100) == pytest.approx(5e-4)  # what it has become
    cohort.adapt(each, 1.0)
    assert rate(each, 50) == pytest.approx(5e-4)
    assert rate(each, 100) == pytest.approx(2.5e-4)


def test_numbers_that_are_not_adaptive_do_not_react() -> None:
    each = member(with_algo(learning_rate=1e-3))
    cohort.adapt(each, 1.0)
    assert rate(each) == 1e-3
    assert each.adapted == {}


def test_only_running_members_are_active() -> None:
    members = [member(with_algo(seed)) for seed in range(3)]
    members[1].state = "failed"
    assert cohort.active_mask(members, torch.device("cpu")).tolist() == [[True], [False], [True]]
