import pytest

from rlclinic.comparison import directions

LINEAR = {"schedule": "linear", "start": 1e-3, "end": 0.0}


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [
        (1e-3, 1e-2, "up"),
        (1e-2, LINEAR, "down"),
        (1e-3, LINEAR, "falls"),
        (LINEAR, 1e-3, "holds"),
        (LINEAR, {**LINEAR, "schedule": "cosine"}, "changed"),
        (None, 0.02, "on"),
        (0.02, None, "off"),
        (False, True, "on"),
        (True, False, "off"),
        ([64, 64], [256, 256], "up"),
        ([64, 64], [32], "down"),
        ("tanh", "relu", "changed"),
        (64, 64.0, None),
        (1e-3, {"schedule": "constant", "start": 1e-3}, None),
        ((64, 64), [64, 64], None),
        (None, None, None),
        ({"schedule": "piecewise", "points": [[0, 1e-3], [1, 1e-4]]}, 1e-3, "holds"),
    ],
)
def test_the_direction_of_a_difference(before: object, after: object, way: str | None) -> None:
    assert directions.direction_of(before, after) == way


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (1e-3, 1e-2, "10x larger"),
        (1e-2, LINEAR, "10x smaller"),
        (0.99, 0.98, "1 % smaller"),
        (0.0, 0.01, "+0.01"),
        (1e-3, LINEAR, "now falls"),
        (LINEAR, 1e-3, "no longer falls"),
        ("tanh", "relu", ""),
        (False, True, ""),
        (None, 0.2, ""),
    ],
)
def test_a_difference_in_words(before: object, after: object, said: str) -> None:
    assert directions.in_words(before, after) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (3e-4, "3e-4"),
        (0.001, "0.001"),
        (100_000, "100,000"),
        (None, "none"),
        (True, "yes"),
        ([64, 64], "64, 64"),
        ([], "none"),
        (LINEAR, "0.001, linear to 0"),
        ({**LINEAR, "warmup": 0.05, "from": 0.1}, "0.001, linear to 0 from 0.1 to 1, warm-up 0.05"),
        ({"schedule": "kl_adaptive", "start": 1e-3}, "0.001, steered to KL 0.01"),
        ({"schedule": "piecewise", "points": [[0, 1.0], [1, 0.5]]}, "piecewise 1 at 0 → 0.5 at 1"),
        ("relu", "relu"),
        ({"start": "nonsense"}, "{'start': 'nonsense'}"),
    ],
)
def test_a_setting_for_people(value: object, said: str) -> None:
    assert directions.shown(value) == said
