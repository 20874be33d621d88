import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlclinic.config.algorithms import PPOConfig
from rlclinic.config.schedule import Schedule, kl_adapted, to_env_steps, value_at
from rlclinic.errors import ConfigError

BUDGET = 1000
FALLING = ["linear", "cosine", "exponential", "logarithmic"]


def make(**settings: object) -> Schedule:
    return Schedule.model_validate(settings)


def test_a_plain_number_is_the_same_at_every_step() -> None:
    assert [value_at(3e-4, step, BUDGET) for step in (0, 500, 1000, 5000)] == [3e-4] * 4


@pytest.mark.parametrize("family", FALLING)
def test_a_schedule_begins_at_start_and_ends_at_end(family: str) -> None:
    schedule = make(schedule=family, start=1.0, end=0.01)
    assert value_at(schedule, 0, BUDGET) == 1.0
    assert value_at(schedule, BUDGET, BUDGET) == 0.01
    assert value_at(schedule, BUDGET + 96, BUDGET) == 0.01, "the last rollout may pass the budget"


@pytest.mark.parametrize(
    ("family", "quarter", "half"),
    [
        ("linear", 1 - 0.99 * 0.25, 1 - 0.99 * 0.5),
        ("cosine", 0.01 + 0.99 * (1 + math.cos(math.pi / 4)) / 2, 0.505),
        ("exponential", 10**-0.5, 0.1),
        ("logarithmic", 1 - 0.99 * math.log10(3.25), 1 - 0.99 * math.log10(5.5)),
    ],
)
def test_each_family_has_its_shape(family: str, quarter: float, half: float) -> None:
    schedule = make(schedule=family, start=1.0, end=0.01)
    assert value_at(schedule, 250, BUDGET) == pytest.approx(quarter, rel=1e-12)
    assert value_at(schedule, 500, BUDGET) == pytest.approx(half, rel=1e-12)


def test_a_logarithmic_schedule_does_half_of_its_way_in_a_quarter_of_the_time() -> None:
    assert value_at(make(schedule="logarithmic", start=1.0, end=0.0), 250, BUDGET) == pytest.approx(0.488, abs=1e-3)


def test_linear_is_the_family_and_zero_the_end_when_nothing_is_said() -> None:
    assert value_at(make(start=0.2), 500, BUDGET) == pytest.approx(0.1)


@pytest.mark.parametrize(("begin", "finish"), [(0.2, 0.8), (200, 800), (0.2, 800), (200, 0.8)])
def test_a_window_may_be_given_in_fractions_or_in_env_steps(begin: float, finish: float) -> None:
    schedule = make(start=1.0, end=0.0, **{"from": begin, "to": finish})
    assert [value_at(schedule, step, BUDGET) for step in (0, 200, 800, 1000)] == [1.0, 1.0, 0.0, 0.0]
    assert value_at(schedule, 350, BUDGET) == pytest.approx(0.75)


def test_one_is_the_whole_budget_and_not_the_first_step() -> None:
    assert to_env_steps(1, BUDGET) == BUDGET
    assert to_env_steps(1.5, BUDGET) == 1.5
    assert to_env_steps(0.25, BUDGET) == 250


@pytest.mark.parametrize("length", [0.1, 100])
def test_warm_up_rises_from_end_to_start_and_the_curve_follows(length: float) -> None:
    schedule = make(start=1.0, end=0.2, warmup=length)
    assert value_at(schedule, 0, BUDGET) == pytest.approx(0.2)
    assert value_at(schedule, 50, BUDGET) == pytest.approx(0.6)
    assert value_at(schedule, 100, BUDGET) == 1.0
    assert value_at(schedule, 550, BUDGET) == pytest.approx(0.6), "half of the rest"
    assert value_at(schedule, BUDGET, BUDGET) == 0.2


def test_warm_up_is_counted_from_where_the_schedule_begins() -> None:
    schedule = make(start=1.0, end=0.0, warmup=100, **{"from": 500})
    assert [value_at(schedule, step, BUDGET) for step in (499, 500, 550, 600)] == [1.0, 0.0, 0.5, 1.0]


def test_a_constant_warms_up_from_zero_and_stays() -> None:
    schedule = make(schedule="constant", start=0.4, warmup=0.1)
    assert [value_at(schedule, step, BUDGET) for step in (0, 50, 100, 1000)] == [0.0, 0.2, 0.4, 0.4]


def test_a_piecewise_schedule_joins_its_points() -> None:
    schedule = make(schedule="piecewise", points=[[0.1, 1.0], [0.5, 0.5], [1, 0.0]])
    assert [value_at(schedule, step, BUDGET) for step in (0, 100, 300, 500, 750, 1000)] == [1.0, 1.0, 0.75, 0.5, 0.25, 0.0]


def test_two_points_at_one_place_are_a_jump() -> None:
    schedule = make(schedule="piecewise", points=[[0, 1.0], [400, 1.0], [400, 0.1], [1000, 0.1]])
    assert [value_at(schedule, step, BUDGET) for step in (399, 400, 401)] == [1.0, 0.1, 0.1]


def test_a_kl_adaptive_schedule_gives_its_first_value() -> None:
    assert value_at(make(schedule="kl_adaptive", start=1e-3), 700, BUDGET) == 1e-3


@pytest.mark.parametrize(
    ("kl", "expected"),
    [(0.021, 1e-3 / 1.5), (0.02, 1e-3), (0.01, 1e-3), (0.005, 1e-3), (0.004, 1.5e-3), (0.0, 1e-3), (float("nan"), 1e-3)],
)
def test_the_rate_falls_above_twice_the_target_and_rises_below_half_of_it(kl: float, expected: float) -> None:
    assert kl_adapted(make(schedule="kl_adaptive", start=1e-3, target_kl=0.01), 1e-3, kl) == pytest.approx(expected)


def test_the_adapted_rate_stays_within_its_bounds() -> None:
    schedule = make(schedule="kl_adaptive", start=1e-3, min=9e-4, max=1.1e-3)
    assert kl_adapted(schedule, 1e-3, 1.0) == 9e-4
    assert kl_adapted(schedule, 1e-3, 1e-9) == 1.1e-3


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "needs `start`"),
        ({"start": 1, "schedule": "exponential"}, "cannot go from 1 to 0"),
        ({"start": 1, "end": -1, "schedule": "exponential"}, "the other sign"),
        ({"start": 1, "from": 0.5, "to": 0.5}, "does not lie before"),
        ({"start": 1, "from": 900, "to": 400}, "does not lie before"),
        ({"start": 1, "schedule": "constant", "end": 0.5}, "has no `end`"),
        ({"start": 1, "schedule": "cosine", "points": [[0, 1], [1, 2]]}, "has no `points`"),
        ({"schedule": "piecewise", "points": [[0, 1]]}, "at least two points"),
        ({"schedule": "piecewise", "points": [[0, 1], [0.5, 2], [100, 3]]}, "mixes fractions"),
        ({"schedule": "piecewise", "points": [[0.5, 1], [0.1, 2]]}, r"points: \[\[0.1, 2.0\], \[0.5, 1.0\]\]"),
        ({"schedule": "kl_adaptive", "start": 1.0}, "lies outside min=1e-05 and max=0.01"),
        ({"start": 1, "warmup": -0.1}, "at least 0"),
        ({"start": 1, "schedule": "linaer"}, "Try: --set schedule=linear"),
        ({"start": "fast"}, "start=fast: must be a number"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused_with_what_to_type(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Schedule(**settings)


def test_a_schedule_is_stored_with_the_keys_of_its_family_only() -> None:
    assert make(schedule="constant", start=0.5).model_dump() == {"schedule": "constant", "start": 0.5, "warmup": 0.0}
    assert set(make(start=1.0).model_dump()) == {"schedule", "start", "end", "from", "to", "warmup"}
    assert set(make(schedule="piecewise", points=[[0, 1], [1, 0]]).model_dump()) == {"schedule", "points"}


def test_a_bound_holds_for_every_value_of_a_schedule() -> None:
    with pytest.raises(ConfigError, match=r"algo.clip_range=\{start: 0.2, end: 1.5\}: must be less than 1, over the whole schedule"):
        PPOConfig(clip_range={"start": 0.2, "end": 1.5})
    with pytest.raises(ConfigError, match="at least 0"):
        PPOConfig(ent_coef={"schedule": "piecewise", "points": [[0, 0.1], [1, -0.1]]})


def test_an_open_bound_may_be_touched_at_the_end_but_not_held() -> None:
    assert PPOConfig(learning_rate={"start": 1e-3, "end": 0}).learning_rate == make(start=1e-3)
    with pytest.raises(ConfigError, match="must be more than 0"):
        PPOConfig(learning_rate={"start": 0, "end": 0})


def test_the_zoos_spelling_of_a_linear_fall_is_understood() -> None:
    assert PPOConfig(learning_rate="lin_1e-3").learning_rate == make(start=1e-3, end=0.0)


windows = st.tuples(st.floats(0, 0.45), st.floats(0.55, 1))


@given(
    family=st.sampled_from(FALLING),
    start=st.floats(1e-6, 10),
    end=st.floats(1e-6, 10),
    window=windows,
    warmup=st.floats(0, 0.09),
    at=st.floats(0, 1.2),
)
def test_a_value_always_lies_between_start_and_end(
    family: str, start: float, end: float, window: tuple[float, float], warmup: float, at: float
) -> None:
    schedule = make(schedule=family, start=start, end=end, warmup=warmup, **{"from": window[0], "to": window[1]})
    value = value_at(schedule, at * BUDGET, BUDGET)
    assert min(start, end) * (1 - 1e-9) <= value <= max(start, end) * (1 + 1e-9)


@given(family=st.sampled_from(FALLING), start=st.floats(1e-6, 10), end=st.floats(1e-6, 10), window=windows, budget=st.integers(10, 10**8))
def test_env_steps_and_fractions_of_the_budget_mean_the_same(
    family: str, start: float, end: float, window: tuple[float, float], budget: int
) -> None:
    fractions = make(schedule=family, start=start, end=end, **{"from": window[0], "to": window[1]})
    begin, finish = window[0] * budget, window[1] * budget
    absolute = make(schedule=family, start=start, end=end, **{"from": begin if begin > 1 else window[0], "to": finish})
    for step in (0, 0.3 * budget, 0.6 * budget, budget):
        assert value_at(fractions, step, budget) == pytest.approx(value_at(absolute, step, budget), rel=1e-9)


@given(
    family=st.sampled_from([*FALLING, "constant", "kl_adaptive"]),
    start=st.floats(1e-5, 1e-2),
    end=st.floats(1e-6, 10),
    warmup=st.floats(0, 1e6),
)
def test_a_schedule_survives_json(family: str, start: float, end: float, warmup: float) -> None:
    settings: dict[str, object] = {"schedule": family, "start": start, "warmup": warmup}
    if family in FALLING:
        settings["end"] = end
    schedule = make(**settings)
    assert Schedule.model_validate_json(schedule.model_dump_json()) == schedule
