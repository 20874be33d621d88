from rlclinic.report.models import Curve, SeedCurve
from rlclinic.serve.cli.text import plot


def curve(center: list[float | None], threshold: float | None = 475.0, spread: float = 0.0, seeds: int = 1) -> Curve:
    steps = [1000.0 * (i + 1) for i in range(len(center))]
    return Curve(
        label="evaluation return",
        steps=steps,
        center=center,
        low=[None if c is None else c - spread for c in center],
        high=[None if c is None else c + spread for c in center],
        seeds=[SeedCurve(seed=s, steps=[], values=[]) for s in range(seeds)],
        threshold=threshold,
        return_range=(0.0, 500.0),
    )


def test_a_rising_curve_climbs_from_the_bottom_left_to_the_top_right() -> None:
    lines = plot.curve_lines(curve([0.0, 100.0, 200.0, 300.0, 400.0, 500.0], threshold=None), width=60, height=6)
    assert len(lines) == 6
    assert lines[0].startswith("  500 ┤")
    assert lines[-1].startswith("    0 ┤")
    columns = [next(i for i, line in enumerate(lines) if line[column] not in " ┄") for column in (15, 30, 47)]
    assert columns == sorted(columns, reverse=True)
    assert lines[-1].endswith(" 6k")


def test_the_threshold_is_drawn_and_named() -> None:
    lines = plot.curve_lines(curve([0.0, 100.0, 200.0]), width=60)
    marked = [line for line in lines if "┄" in line]
    assert len(marked) == 1
    assert marked[0].startswith("  475 ┤")
    assert marked[0].endswith("threshold")


def test_only_several_seeds_have_a_band() -> None:
    assert any("░" in line for line in plot.curve_lines(curve([100.0, 300.0], spread=150.0, seeds=3)))
    assert not any("░" in line for line in plot.curve_lines(curve([100.0, 300.0], spread=150.0, seeds=1)))


def test_a_run_that_goes_on_fills_only_its_part_of_the_axis() -> None:
    lines = plot.curve_lines(curve([500.0, 500.0], threshold=None), width=60, budget=20_000)
    assert lines[-1].endswith("20k")
    drawn = next(line for line in lines if "─" in line)
    assert drawn.count("─") < 8


def test_no_data_draws_nothing() -> None:
    assert plot.curve_lines(curve([])) == []
    assert plot.curve_lines(curve([None, None])) == []


def test_every_line_fits_the_width() -> None:
    for width in (40, 64, 100):
        lines = plot.curve_lines(curve([10.0, 480.0, 20.0, 500.0], spread=30.0, seeds=2), width=width)
        assert max(len(line) for line in lines) <= width


def test_a_sparkline_shows_the_shape_and_leaves_gaps() -> None:
    assert plot.sparkline([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]) == "▁▂▃▄▅▆▇█"
    assert plot.sparkline([1.0, None, 1.0]) == "▁ ▁"
    assert plot.sparkline([]) == ""
    assert len(plot.sparkline([float(i) for i in range(500)])) == 24
