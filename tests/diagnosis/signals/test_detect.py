"""Signals against slow references and scipy, and on the series that logs are really made of: short, gappy, noisy, constant."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import stats as scipy_stats

from rlclinic.diagnosis.signals import detect
from rlclinic.diagnosis.signals.detect import Signal, resample

RANDOM = np.random.default_rng(0)


def made(values: object, steps: object = None, name: str = "x") -> Signal:
    y = np.asarray(values, dtype=float)
    return resample(np.arange(len(y), dtype=float) * 100 if steps is None else steps, y, name)


def ramp(n: int = 100, noise: float = 0.0, rise: float = 10.0) -> np.ndarray:
    return np.linspace(0, rise, n) + noise * RANDOM.standard_normal(n)


# ── resampling ──


def test_a_short_series_is_kept_as_it_is() -> None:
    signal = made([1.0, 5.0, 2.0])
    assert signal.values.tolist() == [1.0, 5.0, 2.0]
    assert signal.steps.tolist() == [0.0, 100.0, 200.0]


def test_a_long_series_becomes_means_of_bins_that_keep_their_extremes() -> None:
    values = np.zeros(100_000)
    values[33_333] = 7.0
    signal = made(values)
    assert len(signal) == 256
    assert signal.top == 7.0
    assert signal.values.max() < 0.1
    assert signal.values.mean() == pytest.approx(7 / 100_000, rel=1e-2)


def test_gaps_stay_gaps_and_what_is_not_finite_is_dropped() -> None:
    steps = np.concatenate([np.arange(1000), np.arange(9000, 10_000)]).astype(float)
    values = np.ones(2000)
    values[5] = np.nan
    steps[7] = np.inf
    signal = resample(steps, values)
    assert np.isfinite(signal.values).all()
    assert not ((signal.steps > 1100) & (signal.steps < 8900)).any()


def test_steps_that_go_back_are_sorted() -> None:
    signal = resample([300.0, 100.0, 200.0], [3.0, 1.0, 2.0])
    assert signal.values.tolist() == [1.0, 2.0, 3.0]


def test_thinning_a_run_does_not_change_what_is_said_about_it() -> None:
    values = np.concatenate([ramp(2000, 0.5), np.full(2000, 10.0) + 0.5 * RANDOM.standard_normal(2000)])
    steps = np.arange(4000.0) * 10
    full, compact = resample(steps, values), resample(steps[::16], values[::16])
    assert detect.trend(full).rise == pytest.approx(detect.trend(compact).rise, rel=0.1)
    assert detect.onset(full) == pytest.approx(detect.onset(compact), rel=0.25)
    one, other = detect.plateau(full), detect.plateau(compact)
    assert one is not None
    assert other is not None
    assert one.start == pytest.approx(other.start, rel=0.15)


@pytest.mark.parametrize(("part", "length"), [((0.0, 0.1), 11), ((0.5, 1.0), 51), ((0.99, 1.0), 2)])
def test_a_share_of_a_signal_is_never_empty(part: tuple[float, float], length: int) -> None:
    assert len(made(np.arange(101.0)).share(*part)) == length
    assert len(made([4.0]).share(*part)) == 1


def test_an_empty_signal_answers_every_question() -> None:
    empty = made([])
    assert math.isnan(empty.median)
    assert math.isnan(empty.top)
    assert math.isnan(empty.at(3))
    assert len(empty.share(0.5)) == 0
    assert detect.trend(empty) == detect.FLAT
    assert detect.onset(empty) is None
    assert detect.phases(empty) == []
    assert detect.spikes(empty) == []


# ── trend ──


@pytest.mark.parametrize("noise", [0.0, 1.0, 20.0])
def test_theil_sen_is_scipys(noise: float) -> None:
    x, y = np.sort(RANDOM.uniform(0, 1000, 60)), ramp(60, noise)
    assert detect.theil_sen(x, y) == pytest.approx(scipy_stats.theilslopes(y, x).slope)


def test_theil_sen_is_not_moved_by_a_quarter_of_wild_values() -> None:
    y = ramp(100)
    y[::4] = 1e6
    assert detect.theil_sen(np.arange(100.0), y) == pytest.approx(10 / 99, rel=0.5)


@pytest.mark.parametrize("noise", [0.5, 5.0, 50.0])
def test_mann_kendalls_tau_is_kendalls_of_time(noise: float) -> None:
    y = ramp(50, noise)
    # scipy's tau-b equals tau without ties.
    assert detect.mann_kendall(y)[0] == pytest.approx(scipy_stats.kendalltau(np.arange(50), y).statistic)


def test_mann_kendall_without_autocorrelation_gives_scipys_p() -> None:
    y = RANDOM.standard_normal(60)
    wanted = scipy_stats.kendalltau(np.arange(60), y, method="asymptotic").pvalue
    assert detect.mann_kendall(y)[1] == pytest.approx(wanted, abs=0.05)


def test_a_running_mean_without_trend_is_seldom_called_one() -> None:
    alarms = 0
    for _ in range(100):
        walk = np.convolve(RANDOM.standard_normal(115), np.ones(20) / 20, "valid")
        alarms += detect.mann_kendall(walk)[1] < 0.01
    assert alarms <= 8


def test_ties_alone_are_no_trend() -> None:
    assert detect.mann_kendall(np.ones(30)) == (0.0, 1.0)
    assert not detect.trend(made(np.ones(30))).rising


@pytest.mark.parametrize(("rise", "rising", "falling"), [(10.0, True, False), (-10.0, False, True)])
def test_a_trend_knows_its_direction(rise: float, rising: bool, falling: bool) -> None:
    found = detect.trend(made(ramp(80, 0.5, rise)))
    assert (found.rising, found.falling) == (rising, falling)
    assert found.rise == pytest.approx(rise, rel=0.2)


# ── levels ──


SHARE = np.linspace(0.01, 1.0, 100)


@pytest.mark.parametrize(
    "curve",
    [
        np.where(SHARE < 0.7, 20, 20 + 250 * (SHARE - 0.7) / 0.3),
        np.where(SHARE < 0.85, 20, 20 + 180 * (SHARE - 0.85) / 0.15),
        np.where(SHARE < 0.95, 20, 20 + 120 * (SHARE - 0.95) / 0.05),
        20 + 300 * np.exp(12 * (SHARE - 1)),
    ],
    ids=["at 70 %", "at 85 %", "at 95 %", "ever faster"],
)
def test_a_late_take_off_rises_from_where_it_begins(curve: np.ndarray) -> None:
    signal = made(curve + 3 * np.random.default_rng(1).standard_normal(100))
    whole = detect.trend(detect.late_part(signal))
    assert not whole.rising or whole.rise < 0.1 * (curve[-1] - 20), "which the second half as a whole cannot say"
    late, slope = detect.late_trend(signal)
    assert slope.rising
    assert late.steps[0] > 0.6 * signal.steps[-1]
    assert slope.rise > 0.6 * (curve[-1] - 20)


def test_what_has_fallen_again_lies_still_or_wanders_has_not_taken_off() -> None:
    random = np.random.default_rng(2)
    hump = 20 + 200 * np.exp(-(((SHARE - 0.75) / 0.08) ** 2))
    stairs = np.where(SHARE < 0.6, 20.0, 120.0)
    assert detect.take_off(made(hump)) is None
    assert detect.take_off(made(stairs + random.standard_normal(100))) is None
    for rows in (16, 100):
        walks = [detect.take_off(made(np.cumsum(random.standard_normal(rows)))) for _ in range(300)]
        assert sum(walk is not None for walk in walks) <= 6
        assert all(detect.take_off(made(random.standard_t(2, rows))) is None for _ in range(300))


def test_noise_is_the_deviation_of_a_flat_series_and_ignores_its_trend() -> None:
    y = RANDOM.standard_normal(5000)
    assert detect.noise(y) == pytest.approx(1.0, rel=0.1)
    assert detect.noise(y + np.linspace(0, 1000, 5000)) == pytest.approx(1.0, rel=0.15)


def test_a_plateau_begins_where_the_curve_bends() -> None:
    curve = np.concatenate([np.linspace(0, 100, 50), np.full(150, 100.0)]) + RANDOM.standard_normal(200)
    found = detect.plateau(made(curve))
    assert found is not None
    assert found.start == pytest.approx(5000, abs=1200)
    assert found.level == pytest.approx(100, abs=1)


def test_a_curve_that_still_rises_has_no_plateau() -> None:
    assert detect.plateau(made(ramp(200, 0.1, 100.0))) is None


def test_a_collapse_names_its_peak_and_what_was_lost() -> None:
    curve = np.concatenate([np.linspace(0, 100, 60), np.linspace(100, 20, 20), np.full(60, 20.0)]) + RANDOM.standard_normal(140)
    found = detect.collapse(made(curve))
    assert found is not None
    assert found.peak_at == pytest.approx(6000, abs=600)
    assert found.lost == pytest.approx(0.85, abs=0.1)


@pytest.mark.parametrize("curve", [np.linspace(0, 100, 80), np.full(80, 5.0), 10 * RANDOM.standard_normal(80)])
def test_rising_flat_and_noisy_curves_have_not_collapsed(curve: np.ndarray) -> None:
    assert detect.collapse(made(curve)) is None


def test_a_passing_dip_is_no_collapse() -> None:
    curve = np.concatenate([np.linspace(0, 100, 60), np.full(10, 20.0), np.full(60, 100.0)])
    assert detect.collapse(made(curve)) is None


def test_a_cliff_is_found_even_if_the_curve_climbs_again() -> None:
    curve = np.concatenate([np.linspace(0, 100, 60), np.linspace(5, 90, 60)]) + 0.3 * RANDOM.standard_normal(120)
    found = detect.cliff(made(curve))
    assert found is not None
    assert (found.top_at, found.foot_at) == (pytest.approx(5900, abs=150), pytest.approx(6000, abs=150))
    assert found.lost == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("curve", [np.linspace(0, 100, 80), np.linspace(100, 0, 80), 10 * RANDOM.standard_normal(80), np.ones(5)])
def test_slow_falls_and_noise_are_no_cliffs(curve: np.ndarray) -> None:
    assert detect.cliff(made(curve)) is None


def slow_median(values: np.ndarray, width: int) -> list[float]:
    half = width // 2
    return [float(np.median(values[max(0, i - half) : i + half + 1])) for i in range(len(values))]


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=60), st.integers(3, 9))
def test_smoothing_is_the_running_median(values: list[float], width: int) -> None:
    y = np.array(values)
    assert detect.smoothed(y, width).tolist() == pytest.approx(slow_median(y, width))


@pytest.mark.parametrize(
    ("values", "least", "turns"), [([0, 1, 0, 1, 0], 1, 3), ([0, 1, 0.9, 2], 0.5, 0), ([0, 5, 1, 6], 3, 2), ([], 1, 0), ([3], 1, 0)]
)
def test_swings_count_turns_of_a_least_size(values: list[float], least: float, turns: int) -> None:
    assert detect.swings(values, least) == turns


def test_a_saw_oscillates_and_a_learning_curve_does_not() -> None:
    saw = np.tile([0.0, 50.0, 100.0, 60.0], 16)
    assert detect.oscillation(made(saw)) > 2
    assert detect.oscillation(made(ramp(64, 0.2, 100.0))) == 0


def test_spikes_are_found_inside_bins_too() -> None:
    values = 1 + 0.01 * RANDOM.standard_normal(10_000)
    values[5000] = 30.0
    found = detect.spikes(made(values))
    assert len(found) == 1
    assert found[0].value == 30.0
    assert found[0].step == pytest.approx(500_000, rel=0.01)
    assert detect.spikes(made(np.ones(50))) == []


# ── change ──


def slow_pettitt(values: np.ndarray) -> int:
    """The split with the largest |sum of signs between the two sides|."""
    sizes = [abs(sum(np.sign(b - a) for a in values[:k] for b in values[k:])) for k in range(1, len(values))]
    return int(np.argmax(sizes)) + 1


def test_the_change_point_is_pettitts() -> None:
    for _ in range(5):
        values = np.concatenate([RANDOM.standard_normal(20), 3 + RANDOM.standard_normal(25)]).round(1)
        found = detect.change_point(made(values))
        assert found is not None
        assert found.step == 100 * slow_pettitt(values)


def test_a_level_shift_is_found_where_it_is() -> None:
    values = np.concatenate([np.zeros(60), np.full(40, 5.0)]) + 0.5 * RANDOM.standard_normal(100)
    found = detect.change_point(made(values))
    assert found is not None
    assert found.step == pytest.approx(6000, abs=200)
    assert (found.before, found.after) == (pytest.approx(0, abs=0.3), pytest.approx(5, abs=0.3))


def test_noise_alone_has_no_change_point() -> None:
    alarms = sum(detect.change_point(made(RANDOM.standard_normal(100))) is not None for _ in range(100))
    assert alarms <= 5


def test_phases_are_the_levels_of_a_staircase() -> None:
    values = np.concatenate([np.full(40, level) for level in (0.0, 10.0, 3.0)]) + 0.3 * RANDOM.standard_normal(120)
    found = detect.phases(made(values), most=3)
    assert [round(phase.level) for phase in found] == [0, 10, 3]
    assert [phase.start for phase in found] == [pytest.approx(start, abs=300) for start in (0, 4000, 8000)]


def test_onset_is_when_a_series_left_its_first_level_for_good() -> None:
    values = np.concatenate([np.zeros(50), np.full(50, 10.0)]) + 0.1 * RANDOM.standard_normal(100)
    values[20] = 10.0
    assert detect.onset(made(values)) == pytest.approx(5000, abs=200)
    assert detect.onset(made(0.1 * RANDOM.standard_normal(100))) is None


def test_the_series_that_moved_first_comes_first() -> None:
    def step(at: int, name: str) -> Signal:
        return made(np.concatenate([np.zeros(at), np.ones(100 - at)]), name=name)

    moved = detect.first_to_move([step(70, "return"), step(40, "kl"), made(np.zeros(100), name="still")])
    assert [name for _, name in moved] == ["kl", "return"]


NUMBERS = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, 1.0, 1e300, -1e300, 1e-300]))


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=80))
def test_nothing_that_can_be_logged_breaks_a_signal(pairs: list[tuple[float, float]]) -> None:
    with np.errstate(all="ignore"):
        signal = resample([x for x, _ in pairs], [y for _, y in pairs])
        detect.trend(signal)
        detect.plateau(signal)
        detect.collapse(signal)
        detect.oscillation(signal)
        detect.spikes(signal)
        detect.change_point(signal)
        detect.phases(signal)
        detect.onset(signal)
