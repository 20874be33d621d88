"""Every kind of result says the same numbers on a terminal, in Markdown, on a page and to a language model."""

import html
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rlclinic.ops.compare.compare import compare
from rlclinic.ops.compare.regress import regress
from rlclinic.ops.diagnose.ask import guides
from rlclinic.ops.diagnose.diagnose import diagnose
from rlclinic.ops.diagnose.lint import lint
from rlclinic.ops.diagnose.prescribe import prescribe
from rlclinic.ops.jobs.daily_report import morning_report
from rlclinic.ops.jobs.progress import get_optimize, get_sensitivity, get_trial
from rlclinic.ops.runs.environments import list_environments
from rlclinic.ops.runs.listing import get_run_info
from rlclinic.ops.status.status import get_training_status
from rlclinic.report import (
    comparison,
    diagnosis,
    gate,
    group,
    guide,
    optimize,
    prescription,
    sensitivity,
    status,
    tasks,
    trial,
)
from rlclinic.report import document as blocks_of
from rlclinic.report.document import Block, Code, Commands, Figure, Figures, Points
from rlclinic.report.group import describe_group
from rlclinic.report.jobs import daily_report
from rlclinic.report.lint import describe_settings
from rlclinic.report.run import describe_info
from rlclinic.runs.store import Store
from rlclinic.serve.cli.text import terminal

RECORDED = Path(__file__).parents[1] / "recorded"
IDS = json.loads((RECORDED / "ids.json").read_text())
HEALTHY, SICK, FOREIGN = IDS["healthy"], IDS["sick"], str(Path(__file__).parents[1] / "readers" / "samples" / "sb3_ppo")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("documents")
    shutil.copytree(RECORDED / "runs", path / "runs", symlinks=True)
    return path


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def diagnose_briefly() -> list[Block]:
    return diagnosis.answer(diagnose(SICK, write=False), "brief")


def diagnose_wholly() -> list[Block]:
    report = diagnose(SICK, write=False)
    return [*diagnosis.answer(report, "whole"), *diagnosis.key_metrics(report), *diagnosis.bottlenecks(report)]


def describe_morning() -> list[Block]:
    report = morning_report()
    ran = daily_report.Ran(
        job="j1", kind="trial", refers="t2", state="crashed", target=SICK, env_steps=31_400, wall_seconds=65.0, reason="killed at 7 k"
    )
    budget = daily_report.Budget(allowed=True, env_steps=1_000_000, wall_seconds=7200, left_env_steps=968_600, left_wall_seconds=7135)
    return daily_report.describe(report.model_copy(update={"ran": [ran], "budget": budget}))


KINDS: dict[str, Callable[[], list[Block]]] = {
    "diagnosis": lambda: diagnosis.answer(diagnose(SICK, write=False)),
    "diagnosis, brief": diagnose_briefly,
    "diagnosis, whole": diagnose_wholly,
    "diagnosis of a foreign log": lambda: diagnosis.answer(diagnose(FOREIGN, threshold=475.0, write=False)),
    "prescriptions": lambda: prescription.describe(prescribe(SICK)),
    "group": lambda: group.overview(describe_group(Store("runs").group(HEALTHY))),
    "run": lambda: describe_info(get_run_info(f"{HEALTHY}-s0")),
    "environments": lambda: tasks.describe_environments(list_environments("Pole")),
    "guides": lambda: guide.describe_list(guides.list_guides()),
    "guide": lambda: guide.describe(guides.get_guide("dagger-diverges")),
    "morning report": describe_morning,
    "report of a group": lambda: group.document(describe_group(Store("runs").group(HEALTHY))),
    "status": lambda: [
        block for each in get_training_status(SICK).groups for block in (*status.describe_live_group(each), status.list_members(each))
    ],
    "trial": lambda: trial.describe_result(get_trial(IDS["trial"]).trial),
    "report of a trial": lambda: trial.document(Store("runs"), get_trial(IDS["trial"]).trial),
    "comparison": lambda: comparison.answer(compare([HEALTHY, SICK]).compared),
    "comparison, brief": lambda: comparison.brief_answer(compare([HEALTHY, SICK]).compared),
    "gate": lambda: gate.describe(regress(HEALTHY, SICK)),
    "search": lambda: optimize.describe(get_optimize(IDS["optimize"]).ledger, get_optimize(IDS["optimize"]).changes),
    "sensitivity": lambda: sensitivity.effects_table(get_sensitivity(IDS["sensitivity"]).study),
    "settings": lambda: describe_settings([lint("CartPole-v1:ppo", ["algo.learning_rate=0.5"]).lint], "CartPole-v1:ppo", ours=True),
}


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d[\d.,]*\d|\d", text))


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_says_the_same_numbers_in_every_rendering(kind: str) -> None:
    # Pictures differ by nature; commands, and how many lines of a script are shown, are each face's own.
    said = [block._replace(most=None) if isinstance(block, Points) else block for block in KINDS[kind]()]
    said = [block for block in said if not isinstance(block, Commands | Code | Figure | Figures)]
    shown = "\n".join(line.text for line in terminal.lay_out(said, 10_000))
    page = html.unescape(re.sub(r"<[^>]*>", " ", blocks_of.render_html(said)))
    assert len(numbers(shown)) > 5
    assert numbers(blocks_of.render_markdown(said)) == numbers(shown)
    assert numbers(page) == numbers(shown)
    assert numbers(blocks_of.render_compact(said, 1_000_000)) == numbers(shown)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [60, 100])
def test_a_result_fits_the_terminal_except_for_what_is_copied_from_it(kind: str, width: int) -> None:
    said = [block for block in KINDS[kind]() if not isinstance(block, Commands | Code)]
    lines = "\n".join(terminal.style_line(line, width).plain for line in terminal.lay_out(said, width)).splitlines()
    assert [line for line in lines if len(line) > width] == []
