"""Parts of different episodes: values put them together, imitation and returns do not (the benchmark `stitching` in small)."""

from pathlib import Path

import pytest

from benchmarks.recorded_data import stitching


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stitching") / "data"
    stitching.make_data(place)
    return place


@pytest.mark.parametrize(("name", "steps"), [("IQL", 1_000), ("CQL", 400)])
def test_values_put_the_good_halves_of_two_episodes_together(data: Path, name: str, steps: int) -> None:
    assert stitching.reach(name, data, 2, steps) == [1.0, 1.0]


def test_imitation_does_what_was_done_most_often(data: Path) -> None:
    assert stitching.reach("BC", data, 2, 400) == [0.0, 0.0]


def test_no_recorded_episode_goes_from_the_start_to_the_goal() -> None:
    """Or there would be nothing to put together."""
    recorded = [stitching.play(stitching.A, [0]), stitching.play(stitching.A, [1] * stitching.CORRIDOR + [0])]
    assert [float(episode.rewards.sum()) for episode in recorded] == pytest.approx([stitching.LEAVES, 0.0])
    assert stitching.play(stitching.B, []).rewards.sum() == 1.0
    assert stitching.play(stitching.A, []).rewards.sum() == 1.0
    assert all(episode.terminated for episode in recorded)
