import math

import pytest

from rlclinic.report.format import ago, duration, frames, interval, listed, number, percent, plural, short, size, task


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (212.34, "212"),
        (0.0113, "0.0113"),
        (1.5e-5, "1.5e-5"),
        (104233.2, "104,233"),
        (99.96, "100"),
        (0, "0"),
        (-0.5, "-0.5"),
        (-1e30, "-1e30"),
        (None, "–"),
    ],
)
def test_a_number_has_about_three_digits_and_no_empty_ones(value: float | None, text: str) -> None:
    assert number(value) == text


def test_numbers_that_are_none_are_said_so() -> None:
    assert [number(value) for value in (math.nan, math.inf, -math.inf)] == ["–", "∞", "-∞"]


@pytest.mark.parametrize(("value", "text"), [(31_000, "31k"), (1.2e6, "1.2M"), (999_600, "1M"), (500, "500"), (5_120, "5.1k"), (None, "–")])
def test_a_step_count_fits_an_axis(value: float | None, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0.4 s"), (200, "3 min 20 s"), (3_840, "1 h 4 min"), (3_600, "1 h"), (None, "–")])
def test_a_duration_has_at_most_two_units(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_an_interval_that_does_not_exist_says_nothing() -> None:
    assert interval(164.2, 268.4) == "[164, 268]"
    assert interval(None, 1.0) == ""


def test_shares_sizes_and_lists_are_said_in_words() -> None:
    assert [percent(share) for share in (0.55, 0.025, 0.0, None)] == ["55 %", "2.5 %", "0 %", "–"]
    assert [size(n) for n in (512, 1_400_000)] == ["512 B", "1.4 MB"]
    assert [plural(n, "seed") for n in (1, 8)] == ["1 seed", "8 seeds"]
    assert listed(list("abcdefgh"), 3) == "a, b, c and 5 more"
    assert [ago(s) for s in (0.5, 130, 90_000)] == ["now", "2 min ago", "1 d ago"]


def test_frames_stand_behind_env_steps_where_they_are_counted() -> None:
    assert frames(10_000_000, 4) == " (40M frames)"
    assert frames(10_000_000, None) == frames(None, 4) == ""


def test_an_own_environments_folders_are_left_out_of_its_name() -> None:
    assert task("/home/me/work/my_envs.py:Reacher:ppo") == "my_envs.py:Reacher:ppo"
    assert task("C:\\work\\my_envs.py:Reacher") == "my_envs.py:Reacher"
    assert [task(name) for name in ("ALE/Pong-v5:ppo", "my_envs:Reacher-v0:ppo")] == ["ALE/Pong-v5:ppo", "my_envs:Reacher-v0:ppo"]
