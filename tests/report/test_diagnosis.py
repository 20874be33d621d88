"""The report of a diagnosis: sections, pictures, and nothing that a page would have to fetch."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlclinic.diagnosis.case import Case
from rlclinic.ops.diagnose import diagnose
from rlclinic.report import charts, evidence, group
from rlclinic.report.group import describe_group, describe_histories
from rlclinic.report.models import DiagnosisReport, GroupReport, Panel
from rlclinic.runs.history import History, make_series
from tests.diagnosis import recorded
from tests.diagnosis.stored import write_group

SECTIONS = [
    "1. Training run summary",
    "2. Key metrics analysis",
    "3. Diagnosed bottlenecks",
    "4. Optimization recommendations",
    "5. Suggested next steps",
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def both(name: str) -> tuple[GroupReport, DiagnosisReport]:
    group = write_group(name)
    found = diagnose.examine_group(group)
    assert found is not None
    return describe_group(group), found


def test_the_five_sections_and_the_six_points_are_there_in_order() -> None:
    said, found = both("bug-advantage-sign")
    for text in (group.markdown(said, found), group.html(said, found)):
        places = [text.index(section) for section in [*SECTIONS, "6. If a bug is suspected"]]
        assert places == sorted(places)
        for point in ("Performance assessment", "Diagnostic findings", "Primary:", "Ruled out"):
            assert point in text


def test_the_primary_bottleneck_comes_before_everything_else() -> None:
    said, found = both("cp-lr-x100")
    page = group.html(said, found)
    assert page.index("Primary bottleneck: policy step too large") < page.index("<svg") < page.index(SECTIONS[0])


def test_every_recommendation_has_change_rationale_impact_risk_and_priority() -> None:
    said, found = both("cp-lr-x100")
    section = group.markdown(said, found).split(SECTIONS[3])[1].split(SECTIONS[4])[0]
    cards = section.count("*change*")
    assert cards == len(found.recommendations) >= 1
    assert [section.count(f"*{part}*") for part in ("rationale", "expected impact", "risk", "priority")] == [cards] * 4
    assert "--set 'algo.learning_rate=" in section


def test_a_bug_is_not_suspected_where_a_setting_explains_it() -> None:
    said, found = both("cp-lr-x100")
    assert found.suspects == ()
    assert "If a bug is suspected" not in group.html(said, found)


def test_a_suspected_bug_has_file_function_reproduction_and_fix() -> None:
    said, found = both("bug-advantage-sign")
    text = group.markdown(said, found).split("6. If a bug is suspected")[1]
    assert "`rlclinic/training/maths/returns.py` · `gae`" in text
    assert f"`rlclinic train {said.id} --seeds 1 --max-env-steps 20000`" in text
    assert "*proposed fix*: advantage = reward" in text


def test_the_page_needs_nothing_beside_it_and_runs_no_script() -> None:
    said, found = both("cp-lr-x100")
    page = group.html(said, found)
    assert re.findall(r"(?:src|href)=|@import|url\(|<script|<link|<iframe", page) == []


def test_the_evidence_is_shaded_on_the_curve_and_on_the_panels() -> None:
    said, found = both("cp-lr-x30")
    assert found.marked is not None
    assert 0 <= found.marked.start < found.marked.end
    pictures = re.findall(r"<svg.*?</svg>", group.html(said, found), flags=re.DOTALL)
    assert len(pictures) == 1 + len(found.panels) >= 3
    for picture in pictures:
        ET.fromstring(picture)
        shaded = f'fill="{charts.MARK}"' in picture
        assert shaded is ("training return against" not in picture)


def test_panels_show_the_series_that_evidence_names_and_the_usual_band() -> None:
    _, found = both("cp-lr-x30")
    series = {part.series for finding in found.diagnosis.findings for part in finding.evidence}
    assert {panel.series for panel in found.panels if panel.healthy is None} <= series
    kl = next(panel for panel in found.panels if panel.series == "train/metrics/kl_divergence")
    assert kl.band == (0.0, 0.05)
    assert len(kl.steps) == len(kl.center) == len(kl.low) == len(kl.high) <= 64


def test_the_terms_of_a_reward_are_drawn_where_they_are_logged() -> None:
    histories = recorded.histories("cp-lr-x30")
    assert not [panel for panel in diagnose.examine(None, histories, "log").panels if panel.series.startswith("train/terms")]
    earned = [each.series["train/roll/ep_rew_mean"] for each in histories]
    columns = [f"train/terms/{name}/{what}" for name in ("goal", "help") for what in ("return", "advantage")]
    terms = [dict.fromkeys([*columns, "train/terms_beyond/advantage"], series) for series in earned]
    paid = [replace(each, series={**each.series, **more}) for each, more in zip(histories, terms, strict=True)]
    drawn = [panel for panel in diagnose.examine(None, paid, "log").panels if panel.series.startswith("train/terms")]
    assert [panel.label for panel in drawn] == [
        "term goal",
        "term help",
        "advantage of goal",
        "advantage of help",
        "advantage beyond terms",
    ]
    assert all(panel.start is None and len(panel.center) > 1 for panel in drawn)


def test_the_training_return_is_shown_among_that_of_healthy_runs_where_they_are_known() -> None:
    said, found = both("cp-lr-x100")
    first = found.panels[0]
    assert first.series == "train/roll/ep_rew_mean"
    assert first.healthy is not None
    assert all(low <= high for low, high in zip(first.healthy.low, first.healthy.high, strict=True))
    assert "healthy runs</title>" in group.html(said, found)
    histories = [replace(each, env_id="Nobody-v0") for each in recorded.histories("cp-lr-x100")]
    assert all(panel.healthy is None for panel in diagnose.examine(None, histories, "log").panels)


def test_a_healthy_group_says_so_and_has_no_evidence_to_shade() -> None:
    said, found = both("cp-healthy")
    page = group.html(said, found)
    assert found.marked is None
    assert "healthy" in page
    assert "None: healthy." in group.markdown(said, found)


def test_an_environments_name_cannot_become_markup() -> None:
    histories = [replace(each, env_id="<img src=x onerror=alert(1)>", source="csv") for each in recorded.histories("cp-lr-x100")]
    found = diagnose.examine(None, histories, "log.csv")
    said = describe_histories(histories, found.diagnosis)
    for text in (group.html(said, found), group.markdown(said, found)):
        assert "<img" not in text
        assert "&lt;img" in text


def test_runs_of_other_frameworks_get_the_same_report() -> None:
    histories = [replace(each, source="sb3", seed=None, state="unknown") for each in recorded.histories("cp-lr-x100")]
    found = diagnose.examine(None, histories, "logs")
    said = describe_histories(histories, found.diagnosis)
    text = group.markdown(said, found)
    assert all(section in text for section in SECTIONS)
    assert [seed.seed for seed in said.seeds] == [None] * 3
    assert "read as sb3" in text
    assert said.n_reached == 1


def test_key_metrics_are_told_with_start_end_range_and_trend() -> None:
    _, found = both("cp-healthy")
    rows = {row.name: row for row in found.metrics}
    returns = rows["train/roll/ep_rew_mean"]
    assert returns.trend == "rises"
    assert returns.start < returns.end <= returns.high
    assert {row.topic for row in found.metrics} == {"learning", "stability", "value", "gradients"}


@pytest.mark.parametrize(
    ("curve", "way"),
    [
        (lambda share: 5 + 10 * share, "rises"),
        (lambda share: 5 - 10 * share, "falls"),
        (lambda share: np.sin(np.pi * share), "rises, then falls"),
        (lambda share: -np.sin(np.pi * share), "falls, then rises"),
        (lambda share: 3.0 + 0 * share, "flat"),
    ],
)
def test_the_way_that_a_metric_went_is_told_in_words(curve: Callable[[np.ndarray], np.ndarray], way: str) -> None:
    steps = np.linspace(0, 50_000, 200)
    series = make_series(steps, curve(steps / 50_000), "train/metrics/kl_divergence")
    assert series is not None
    history = History(id="a", source="csv", series={"train/metrics/kl_divergence": series})
    assert [row.trend for row in evidence.key_metrics([Case(history)])] == [way]


def test_other_prescriptions_are_offered_as_variations_of_one_trial() -> None:
    said, found = both("cp-lr-x100")
    section = group.markdown(said, found).split(SECTIONS[4])[1]
    assert "**Variations to try**" in section
    assert f"`rlclinic trial {said.id} --rx 1,2,3`" in section


def test_a_spike_is_cut_off_and_a_fall_from_the_start_is_not() -> None:
    calm = [1.0] + [0.1 + 0.001 * (place % 5) for place in range(62)] + [0.1]
    spiked = [0.1 + 0.001 * (place % 5) for place in range(63)] + [0.1]
    spiked[30] = 50.0

    def top(values: list[float]) -> str:
        panel = Panel(
            series="a",
            label="a",
            text="",
            steps=[float(n) for n in range(64)],
            center=values,
            low=values,
            high=values,
            band=None,
            start=None,
            end=None,
        )
        return re.findall(r'text-anchor="end" fill="#777">([^<]+)<', charts.panel(panel))[1]

    assert top(calm) == "1"
    assert float(top(spiked)) < 1


def test_a_foreign_log_has_no_best_run_to_name() -> None:
    said, found = both("cp-lr-x100")
    text = group.markdown(said.model_copy(update={"best_run": None}), found)
    assert re.search(r"best evaluation \| \S+ at \S+ \|", text)
    assert "None" not in text.split("## 2.")[0]
