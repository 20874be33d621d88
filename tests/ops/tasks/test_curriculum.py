"""`curriculum show`: the way through stages as rows saw it, on every face."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlclinic.config import Config
from rlclinic.errors import UsageError
from rlclinic.ops.tasks.curriculum import show_curriculum
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app

STAGES = [{"name": name, "env": {"size": size}, "success_threshold": 0.8} for name, size in (("small", 5), ("medium", 7), ("large", 9))]
# Env step, stage, entered at, promotions, escapes, demotions, success in small and in large.
ROWS = [
    (1000, 1, 0, 0, 0, 0, 0.5, 0.0),
    (2000, 2, 1500, 1, 0, 0, 1.0, 0.0),
    (3000, 1, 2800, 1, 0, 1, 0.2, 0.0),
    (4000, 2, 3900, 2, 0, 1, 0.9, 0.1),
    (5000, 3, 4900, 2, 1, 1, 0.8, 0.4),
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """One run that went back once, and left a stage after too long."""
    store = Store(tmp_path / "runs")
    config = Config.model_validate({"env": {"id": "Maze-v0"}, "curriculum": {"stages": STAGES}})
    (run,) = store.create_group([config]).runs
    with (run.path / "metrics.csv").open("w", newline="") as file:
        names = ("stage", "stage_env_steps", "promotions", "escapes", "demotions")
        columns = [
            "total_timesteps",
            *(f"train/curriculum/{name}" for name in names),
            "val/stage/1/success_rate",
            "val/stage/3/success_rate",
        ]
        writer = csv.writer(file)
        writer.writerows([columns, *ROWS])
    return store


def test_stages_are_shown_with_how_each_was_left(store: Store) -> None:
    report = show_curriculum("@last", store.root)
    (run,) = report.runs
    assert [(stay.name, stay.entered, stay.left, stay.how) for stay in run.stays] == [
        ("small", 0, 1500, "mastered"),
        ("medium", 1500, 2800, "left to go back"),
        ("small", 2800, 3900, "mastered"),
        ("medium", 3900, 4900, "left after too long"),
        ("large", 4900, None, None),
    ]
    assert (run.tasks[0].evaluation, run.tasks[0].best, run.tasks[1].evaluation) == (0.8, 1.0, None)


def test_the_command_line_says_it_in_words_and_as_data(store: Store) -> None:
    words = CliRunner().invoke(app, ["curriculum", "show", "--runs-dir", str(store.root)])
    assert words.exit_code == 0, words.output
    assert "left after too long" in " ".join(words.output.split())
    found: dict[str, Any] = json.loads(CliRunner().invoke(app, ["curriculum", "show", "--json", "--runs-dir", str(store.root)]).output)
    assert found["tasks"] == ["small", "medium", "large"]


def test_a_run_without_a_curriculum_has_nothing_to_show(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    store.create_group([Config.model_validate({"env": {"id": "Maze-v0"}})])
    with pytest.raises(UsageError, match="without a curriculum"):
        show_curriculum("@last", store.root)
