import numpy as np
import pytest

from rlclinic.readers import thinning
from rlclinic.readers.thinning import Axis, Episodes, Points, find_restarts


def counted(*steps: float) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(len(steps), dtype=float), np.array(steps, dtype=float)


def test_few_points_are_kept_as_they_are() -> None:
    kept = Points()
    kept.add(*counted(1, 2, 3), np.array([5.0, 6.0, 7.0]))
    assert [column.tolist() for column in kept.columns] == [[0, 1, 2], [1, 2, 3], [5, 6, 7]]


@pytest.mark.parametrize("block", [1, 7, 1_000, 60_000])
def test_many_points_are_thinned_evenly_however_they_arrive(block: int) -> None:
    kept, total = Points(), 100_000 if block > 1 else 70_000
    everything = np.arange(total, dtype=float)
    for begin in range(0, total, block):
        part = everything[begin : begin + block]
        kept.add(part, part, part)
    order, _, values = kept.columns
    assert len(values) <= 2 * thinning.LIMIT
    assert kept.seen == total
    assert np.array_equal(values, everything[:: kept.stride])
    assert np.array_equal(order, values)


def test_episodes_become_a_running_mean_over_the_last_tenth_and_at_most_a_hundred() -> None:
    returns, total = np.random.default_rng(0).normal(size=1_350), 1_350
    episodes = Episodes()
    for begin in range(0, total, 60):
        part = slice(begin, begin + 60)
        episodes.add(np.arange(float(total))[part], np.arange(float(total))[part], returns[part])
    mean, std, best, count = (store.columns[2] for store in (episodes.mean, episodes.std, episodes.best, episodes.count))
    for place, width in ((0, 1), (5, 6), (99, 20), (300, 30), (998, 99), (999, 100), (1_349, 100)):
        window = returns[place - width + 1 : place + 1]
        assert mean[place] == pytest.approx(window.mean())
        assert std[place] == pytest.approx(window.std())
        assert best[place] == returns[: place + 1].max()
        assert count[place] == place + 1


def test_steps_that_only_rise_have_no_restart() -> None:
    assert find_restarts(*counted(256, 512, 512, 768)) == []


def test_a_count_that_begins_again_is_a_restart_from_the_beginning() -> None:
    (found,) = find_restarts(*counted(500, 1_000, 1_500, 2_000, 500, 1_000))
    assert (found.last, found.first, found.anew) == (2_000, 500, True)


def test_a_count_that_goes_back_to_the_middle_is_a_resume() -> None:
    (found,) = find_restarts(*counted(*range(0, 10_000, 100), *range(5_000, 12_000, 100)))
    assert (found.last, found.first, found.anew) == (9_900, 5_000, False)


def test_jitter_of_several_writers_is_no_restart() -> None:
    noise = np.random.default_rng(1).integers(0, 400, size=500)
    assert find_restarts(*counted(*(100 * np.arange(500) + noise))) == []


def test_a_restart_is_found_among_jitter() -> None:
    noise = np.random.default_rng(1).integers(0, 400, size=1_000)
    steps = np.concatenate([100 * np.arange(600), 100 * np.arange(400)]) + noise
    (found,) = find_restarts(*counted(*steps))
    assert found.anew
    assert found.last == steps[:600].max()


def test_a_restarted_count_goes_on_where_it_was() -> None:
    order, steps = counted(500, 1_000, 500, 1_000)
    axis = Axis(tuple(find_restarts(order, steps)))
    assert axis.place(order, steps, steps)[0].tolist() == [500, 1_000, 1_500, 2_000]
    assert axis.boundaries == (1_000,)


def test_what_a_resume_computes_again_replaces_what_was_there() -> None:
    order, steps = counted(*range(0, 1_000, 100), *range(500, 800, 100))
    axis = Axis(tuple(find_restarts(order, steps)))
    placed, values = axis.place(order, steps, order)
    assert placed.tolist() == [0, 100, 200, 300, 400, 500, 600, 700]
    assert values.tolist() == [0, 1, 2, 3, 4, 10, 11, 12]
    assert axis.boundaries == (500,)


def test_two_restarts_add_up() -> None:
    order, steps = counted(100, 200, 300, 100, 200, 300, 400, 100)
    axis = Axis(tuple(find_restarts(order, steps)))
    assert axis.place(order, steps, steps)[0].tolist() == [100, 200, 300, 400, 500, 600, 700, 800]
    assert axis.boundaries == (300, 700)


def test_a_rarer_tag_is_placed_by_the_restarts_of_the_clock() -> None:
    order, steps = counted(100, 200, 300, 400, 100, 200)
    axis = Axis(tuple(find_restarts(order, steps)))
    rare = np.array([1.0, 4.5]), np.array([200.0, 150.0]), np.array([1.0, 2.0])
    assert axis.place(*rare)[0].tolist() == [200, 550]


def test_two_logs_of_one_run_share_the_length_of_their_segments() -> None:
    main = Axis(tuple(find_restarts(*counted(100, 200, 300, 400, 100, 200))))
    order, steps = counted(150, 350, 150)
    other = Axis(tuple(find_restarts(order, steps)))
    assert other.place(order, steps, steps)[0].tolist() == [150, 350, 500]
    assert other.aligned(main).place(order, steps, steps)[0].tolist() == [150, 350, 550]
    assert main.aligned(Axis()) is main
