import json
import re
from pathlib import Path

import pytest
import yaml

import rlclinic
from rlclinic.actions import Action
from rlclinic.ops.diagnose import write_reports
from rlclinic.ops.diagnose.diagnose import examine_group
from rlclinic.report import document
from rlclinic.report import group as pages
from rlclinic.report.group import describe_group
from rlclinic.report.models import GroupReport, RunInfo, TopFinding, TrainResult
from tests.ops.recorded import flat, record_group


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("runs")


def test_a_solved_group_is_reported_with_its_numbers(root: Path) -> None:
    group = record_group(root)
    found = describe_group(group)
    assert (found.verdict, found.n_reached, found.n_runs, found.threshold) == ("SOLVED", 3, 3, 475.0)
    assert found.last.value == pytest.approx(500.0)
    assert found.best == 500.0
    assert found.throughput == {"learn": pytest.approx(0.75), "env": pytest.approx(0.25)}
    assert found.steps_per_second == pytest.approx(15_000)
    assert found.next == [f"rlclinic play {found.best_run}"]


def test_a_group_that_missed_says_by_how_much_and_what_to_try(root: Path) -> None:
    found = describe_group(record_group(root, returns=flat))
    assert found.verdict == "NOT SOLVED"
    assert found.gap == pytest.approx(374.0)
    assert found.gap_fraction == pytest.approx(374 / 475)
    assert "0 of 3 seeds reached 475" in pages.headline(found)
    assert "gap 374 (79 %)" in pages.headline(found)
    assert found.next == [f"rlclinic runs metrics {found.id}-s0", f"rlclinic train --resume {found.id} --max-env-steps 20480"]


def test_what_another_framework_trained_is_neither_played_nor_resumed(root: Path) -> None:
    group = record_group(root)
    file = group.path / "group.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "source": {"framework": "sb3"}}))
    assert describe_group(type(group)(group.path)).next == [f"rlclinic diagnose {group.id}"]


def test_more_steps_come_first_while_the_return_still_rises(root: Path) -> None:
    found = describe_group(record_group(root, returns=lambda seed, share: 300 * share))
    assert found.next[0] == f"rlclinic train --resume {found.id} --max-env-steps 20480"


@pytest.mark.parametrize(
    ("state", "first"),
    [("stopped", "rlclinic train --resume {group}"), ("failed", "rlclinic runs logs {group}-s0"), ("running", "rlclinic status {group}")],
)
def test_the_next_command_fits_the_way_it_ended(root: Path, state: str, first: str) -> None:
    group = record_group(root, state=state, share_done=0.3, reason="the reward is NaN" if state == "failed" else None)
    assert describe_group(group).next[0] == first.format(group=group.id)


@pytest.mark.parametrize(
    ("reason", "said"),
    [("the expert act has not answered 20 questions in a row", True), ("interrupted", False), ("asked to stop", False), (None, False)],
)
def test_a_run_that_stopped_by_itself_says_why(root: Path, reason: str | None, said: bool) -> None:
    found = describe_group(record_group(root, state="stopped", share_done=0.3, reason=reason))
    ends = pages.training_end(TrainResult(group=found.id, runs=[], detached=False, signal=None, failed=[], report=found, files=[]))
    rows = [row for block in ends if isinstance(block, document.Rows) for row in block.rows if row[0] == "stopped"]
    assert bool(rows) == said
    assert not said or str(reason) in str(rows[0][1])


def test_one_evaluation_is_no_curve_and_says_what_would_draw_one(root: Path) -> None:
    found = describe_group(record_group(root, returns=flat))
    single = found.model_copy(update={"curve": found.curve.model_copy(update={"steps": [10_240]})})

    def ends(report: GroupReport) -> list[document.Block]:
        result = TrainResult(group=found.id, runs=[], detached=False, signal=None, failed=[], report=report, files=[])
        return pages.training_end(result)

    assert any(isinstance(block, document.Figure) for block in ends(found))
    assert not any(isinstance(block, document.Figure) for block in ends(single))
    rows = [row for block in ends(single) if isinstance(block, document.Rows) for row in block.rows]
    said = ("curve", "there is none of one evaluation: --set run.eval_every_env_steps=512 makes twenty")
    assert said in rows
    assert any(isinstance(block, document.Rows) and said in block.rows for block in pages.overview(single)), "nor in `runs show`"


def test_the_end_of_training_offers_what_its_finding_asks_for_and_not_twice_the_budget(root: Path) -> None:
    """A run whose rate was too high, or whose reward was farmed, used to be offered the same again for twice as long."""
    found = describe_group(record_group(root, returns=flat))
    trial = Action("trial", found.id, rx=1)
    finding = TopFinding(
        cause="learning-rate-too-high",
        title="policy step too large",
        probability=0.9,
        severity="high",
        agree=1,
        of=1,
        rule="LRN101",
        change="learning_rate 0.1 → 0.007",
        command=Action("diagnose", found.id),
        then=trial,
    )

    def offered(finding: TopFinding | None, report: GroupReport = found) -> list[str]:
        made = TrainResult(group=found.id, runs=[], detached=False, signal=None, failed=[], report=report, files=[], finding=finding)
        return [str(command) for block in pages.training_end(made) if isinstance(block, document.Commands) for _, command in block.rows]

    twice = next(str(command) for command in found.next if "--max-env-steps" in command)
    assert twice in offered(None)
    assert twice in offered(finding.model_copy(update={"then": None}))
    assert offered(finding)[:2] == [f"rlclinic diagnose {found.id}", trial]
    assert twice not in offered(finding)
    broken = found.model_copy(update={"seeds": [seed.model_copy(update={"state": "failed"}) for seed in found.seeds]})
    assert trial not in offered(finding, broken), "what failed is looked into first"


def test_commands_find_runs_in_another_folder_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = record_group(Path("elsewhere"))
    assert describe_group(group).next[0].endswith(" --runs-dir elsewhere")
    monkeypatch.setenv("RLCLINIC_RUNS", "elsewhere")
    assert "--runs-dir" not in describe_group(group).next[0]


def test_the_files_are_written_and_say_the_same(root: Path) -> None:
    group = record_group(root)
    found, files = write_reports.write_reports(group)
    assert [file.name for file in files] == ["report.md", "report.html", "solution.yaml", "curve.png"]
    markdown, html = (group.path / "report.md").read_text(), (group.path / "report.html").read_text()
    for essential in (found.verdict, pages.headline(found), "learn", "75 %", "n_epochs", found.next[0]):
        assert essential in markdown
        assert essential in html
    assert "threshold 475" in html
    assert "<svg" in html
    for run in group.runs:
        assert f"group {group.id}" in (run.path / "report.md").read_text()


def test_the_html_needs_nothing_beside_it(root: Path) -> None:
    group = record_group(root)
    page = pages.html(describe_group(group))
    # Namespaces and the environment's documentation are names, not things to load.
    assert re.findall(r"(?:src|href)=|@import|url\(", page) == []


def test_text_from_a_run_cannot_become_markup(root: Path) -> None:
    group = record_group(root, state="failed", reason="<script>alert(1)</script> | broke")
    found = describe_group(group)
    assert "<script>" not in pages.html(found)
    assert r"\| broke" in pages.markdown(found)


def test_the_solution_has_the_form_of_the_trainers_answer(root: Path) -> None:
    group = record_group(root)
    write_reports.write_reports(group)
    solution = yaml.safe_load((group.path / "solution.yaml").read_text())["rl_training_solution"]
    assert solution["algorithm"] == "PPO"
    assert solution["environment"] == "CartPole-v1"
    assert solution["training_configuration"]["state_space"] == "4 numbers"
    assert solution["training_configuration"]["action_space"] == "2 discrete actions"
    assert solution["hyperparameters"]["clip_epsilon"]["start"] == 0.2
    assert solution["training_results"]["episodes_to_solve"] == 80
    assert solution["training_results"]["average_episode_reward"] == 500.0
    assert solution["curriculum_stages"] == []
    code = solution["deployment_code"]
    compile(code, "deployment", "exec")
    assert f"rlclinic.load_run('runs/{group.id}-s0')" in code
    assert 'run.policy("@best")' in code
    assert "policy.act(obs, deterministic=True)" in code


def test_the_solution_tells_terms_bonus_stages_and_code_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in a file, trained with all of it; what stands there as deployment is run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hall.py").write_text(HALL)
    stages = [{"name": name, "env": {"length": length}} for name, length in (("Basic Movement", 2), ("Expert Level", 6))]
    config = {
        "env": {"id": "hall.py:Hall", "n_envs": 4, "kwargs": {"length": 6}},
        "algo": {"name": "ppo", "n_steps": 16, "batch_size": 64, "n_epochs": 1, "ent_coef": 0.01},
        "bonus": {"kind": "count", "coef": 0.2},
        "curriculum": {"stages": stages, "eval_episodes": 2},
        "run": {"max_env_steps": 128, "eval_episodes": 1},
    }
    group = rlclinic.train(config, seeds=2)
    write_reports.write_reports(group)
    solution = yaml.safe_load((group.path / "solution.yaml").read_text())["rl_training_solution"]
    assert solution["training_configuration"]["reward_design"] == {
        "task_reward": "goal, the first of its terms",
        "shaping_rewards": ["way"],
        "exploration_bonus": "count, weight 0.2, and entropy, weight 0.01",
    }
    assert [stage["stage"] for stage in solution["curriculum_stages"]] == ["Basic Movement", "Expert Level"]
    easy = solution["curriculum_stages"][0]
    assert easy["episodes"] > 0
    assert 0 <= easy["success_rate"] <= 1
    exec(compile(solution["deployment_code"], "deployment", "exec"), {})


HALL = """
import gymnasium as gym
import numpy as np

class Hall(gym.Env):
    observation_space, action_space = gym.spaces.Box(0, 9, (1,), np.float32), gym.spaces.Discrete(2)

    def __init__(self, length=4):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.taken = 0, 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.place, self.taken = self.place + int(action), self.taken + 1
        there = self.place >= self.length
        terms = {"goal": float(there), "way": 0.1 * int(action)}
        info = {"reward_terms": terms, "is_success": there}
        return np.full(1, self.place, np.float32), sum(terms.values()), there, self.taken >= 12 and not there, info
"""


def test_a_group_that_never_started_can_be_reported_on(root: Path) -> None:
    from rlclinic.config import files
    from rlclinic.runs.store import Store

    group = Store(root).create_group([files.load("CartPole-v1:ppo").config])
    found, _ = write_reports.write_reports(group)
    assert found.verdict == "RUNNING"
    assert found.curve.steps == []
    assert "not recorded" in (group.path / "solution.yaml").read_text()


def test_without_matplotlib_there_is_no_picture_but_everything_else(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    known = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None if name == "matplotlib" else known(name, package))
    _, files = write_reports.write_reports(record_group(root))
    assert [file.name for file in files] == ["report.md", "report.html", "solution.yaml"]


def test_show_gives_a_group_or_a_run(root: Path) -> None:
    group = record_group(root, seeds=(0, 1))
    assert isinstance(write_reports.show("@last", root), GroupReport)
    assert isinstance(write_reports.show(group.runs[0].id, root), RunInfo)
    assert write_reports.get_group_report(group.runs[0].id, root).id == group.id


def test_a_large_group_has_one_report_and_its_runs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_reports, "MOST_RUN_REPORTS", 2)
    large, small = record_group(tmp_path / "large", seeds=(0, 1, 2)), record_group(tmp_path / "small", seeds=(0, 1))
    for group in (large, small):
        write_reports.write_reports(group)
        assert (group.path / "report.md").exists()
    assert not any((run.path / "report.md").exists() for run in large.runs)
    assert all((run.path / "report.md").exists() for run in small.runs)


def test_a_report_of_one_evaluation_draws_training_and_says_what_was_passed(root: Path) -> None:
    """A dot on an empty chart, and a gap of "-13.4 (-89 %)" where only success was missing."""
    group = record_group(root, returns=flat)
    found, diagnosed = describe_group(group), examine_group(group)
    assert diagnosed is not None
    single = found.model_copy(update={"curve": found.curve.model_copy(update={"steps": [10_240]})})
    drawn = pages.curve_figure(single, diagnosed).drawn.curve
    assert len(drawn.steps) > 1
    assert drawn.threshold == found.threshold
    assert pages.curve_figure(found, diagnosed).drawn.curve == found.curve
    passed = dict(pages.facts(found.model_copy(update={"gap": -13.4, "gap_fraction": -0.89})))
    assert passed["return above the threshold"] == "13.4 (89 %)"
    assert "gap to the threshold" in dict(pages.facts(found))
