import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest

from rlclinic.report import charts
from rlclinic.report.models import Curve, SeedCurve

SVG = "{http://www.w3.org/2000/svg}"


def curve(seeds: int = 3, threshold: float | None = 475.0, points: int = 5, return_range: tuple[float, float] | None = None) -> Curve:
    steps = [1000.0 * (i + 1) for i in range(points)]
    lines = [SeedCurve(seed=s, steps=steps, values=[100.0 * i + s for i in range(points)]) for s in range(seeds)]
    center = [100.0 * i for i in range(points)]
    return Curve(
        label="evaluation return",
        steps=steps,
        center=center,
        low=[c - 10 for c in center],
        high=[c + 10 for c in center],
        seeds=lines,
        threshold=threshold,
        return_range=return_range,
    )


def test_the_svg_shows_every_seed_the_band_the_mean_and_the_threshold() -> None:
    root = ElementTree.fromstring(charts.svg(curve()))
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert titles == ["seed 0", "seed 1", "seed 2", "lowest and highest seed", "interquartile mean"]
    assert "threshold 475" in [text.text for text in root.iter(f"{SVG}text")]


def test_the_svg_puts_higher_returns_higher_up() -> None:
    root = ElementTree.fromstring(charts.svg(curve(seeds=1)))
    line = next(line for line in root.iter(f"{SVG}polyline") if line.find(f"{SVG}title").text == "interquartile mean")  # type: ignore[union-attr]
    heights = [float(point.split(",")[1]) for point in line.attrib["points"].split()]
    assert heights == sorted(heights, reverse=True)


def test_one_evaluation_is_a_dot_and_none_is_an_empty_frame() -> None:
    assert "<circle" in charts.svg(curve(points=1))
    empty = charts.svg(curve(points=0, threshold=None))
    assert "<polyline" not in empty
    assert "env steps" in empty


def test_values_that_are_not_numbers_leave_a_gap_instead_of_breaking_the_picture() -> None:
    broken = curve().model_copy(update={"center": [0.0, None, 200.0, None, 400.0]})
    ElementTree.fromstring(charts.svg(broken))
    assert "nan" not in charts.svg(broken)


@pytest.mark.parametrize(("low", "high"), [(0.0, 500.0), (-1_600.0, -120.0), (0.0, 1e-3), (3.0, 3.5)])
def test_ticks_are_round_and_lie_inside(low: float, high: float) -> None:
    found = charts.ticks(low, high)
    assert 2 <= len(found) <= 7
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in found)
    assert len({round(b - a, 9) for a, b in pairwise(found)}) == 1


def test_the_whole_possible_range_is_shown_unless_it_would_squash_the_curve() -> None:
    assert charts.value_range(curve(return_range=(0, 500)), air=0) == (-10, 500)
    assert charts.value_range(curve(threshold=None, return_range=(-50_000, 500)), air=0) == (-10, 410)


def test_a_constant_curve_still_has_a_scale() -> None:
    low, high = charts.value_range(
        curve(seeds=0, threshold=None).model_copy(update={"center": [5.0] * 5, "low": [5.0] * 5, "high": [5.0] * 5})
    )
    assert low < 5.0 < high


def test_the_png_is_a_picture_and_pyplot_stays_out(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys, pathlib; from rlclinic.report import charts; from tests.report.test_charts import curve\n"
        f"charts.png(curve(), pathlib.Path({str(tmp_path / 'c.png')!r}), 'title'); print('matplotlib.pyplot' in sys.modules)"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "False"
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
