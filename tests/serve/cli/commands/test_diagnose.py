"""The terminal's answer: its parts in their order, commands that exist, plain into a pipe, wrapped on a terminal."""

import io
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from rlclinic.config import files
from rlclinic.ops.diagnose import diagnose
from rlclinic.report.diagnosis import top_finding
from rlclinic.report.models import TopFinding
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from rlclinic.serve.cli.text.results import print_diagnosis
from rlclinic.serve.mcp.text.diagnosis import concise
from tests.diagnosis import recorded
from tests.diagnosis.stored import write_group
from tests.ops.recorded import flat, record_group


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLCLINIC_RUNS", raising=False)


def shown(name: str, capsys: pytest.CaptureFixture[str], **about: object) -> str:
    group = write_group(name, **about)
    print_diagnosis(diagnose.diagnose(group.id), 0.4)
    return capsys.readouterr().out


def places(text: str, *parts: str) -> list[int]:
    return [text.index(part) for part in parts]


def test_the_parts_come_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    write_group("cp-healthy")
    text = shown("cp-lr-x100", capsys)
    parts = ("NOT SOLVED", "┤", "▒ evidence", "CAUSE 1", "moved first", "with it", "because", "RULED OUT", " checks: ")
    more = ("RX 1", "watch next time", "best here", "prove it", "use it", "why       rlclinic rules", "all of it")
    found = places(text, *parts, *more)
    assert found == sorted(found)
    assert "3 of 3 seeds agree" in text
    assert text.rstrip().endswith("report.html      0.4 s")


def test_every_command_that_is_offered_exists(capsys: pytest.CaptureFixture[str]) -> None:
    import typer.main

    text = shown("cp-lr-x100", capsys)
    typed = [line[10:] for line in text.splitlines() if line.startswith(("prove it", "use it", "why "))]
    assert len(typed) == 3
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for line in typed:
        _, name, *words = shlex.split(line)
        known = {option for parameter in commands[name].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known


def test_more_steps_are_a_resume_and_not_a_new_start() -> None:
    found = diagnose.diagnose(write_group("cp-budget").id)
    assert found.next[0].startswith("rlclinic train --resume ")
    assert "--max-env-steps" in found.next[0]


def test_a_healthy_group_is_a_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown("cp-healthy", capsys).splitlines()
    assert len(lines) == 6
    assert lines[3].startswith("HEALTHY")


def test_a_suspected_bug_is_shown_with_file_function_reproduction_and_fix(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown("bug-advantage-sign", capsys)
    found = places(
        text, "BUG?  p 1.00", "rlclinic/training/maths/returns.py · gae", "reproduce    rlclinic train", "proposed fix advantage"
    )
    assert found == sorted(found)


def test_watches_of_the_parent_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    parent = write_group("cp-lr-x100")
    diagnose.diagnose(parent.id)
    text = shown("cp-healthy", capsys, parent=parent.id)
    assert f"watched since {parent.id} (policy step too large)  KL <= 0.03: held" in text


def test_what_the_project_switches_off_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pyproject.toml").write_text('[tool.rlclinic]\nignore = ["THR"]\n')
    assert "RULES  not THR  (pyproject.toml)" in shown("cp-lr-x100", capsys)


@pytest.mark.parametrize(
    ("source", "line"), [("sb3", "callback=SentinelCallback()"), ("cleanrl", "sentinels.row(writer"), ("csv", 'log("train/')]
)
def test_what_cannot_be_assessed_ends_with_lines_to_paste(source: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    known = ("train/roll/ep_rew_mean", "train/metrics/kl_divergence")
    histories = [
        replace(each, source=source, series={name: each.series[name] for name in known}) for each in recorded.histories("cp-lr-x100")
    ]
    print_diagnosis(diagnose.examine(None, histories, "log"), 0.1)
    text = capsys.readouterr().out
    assert "NOT ASSESSABLE" in text
    assert line in text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_long_lines_are_wrapped_under_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    found = diagnose.diagnose(write_group("cp-lr-x100").id)
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    print_diagnosis(found, 0.4)
    lines = terminal.getvalue().splitlines()
    story = next(place for place, line in enumerate(lines) if line.startswith("  with it"))
    assert lines[story + 1].startswith(" " * 15)
    assert all(len(line) <= 80 for line in lines if not line.startswith(("use it", "prove it", "why", "all of it", " " * 4 + "log(")))


def test_control_characters_of_a_log_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    histories = [replace(each, env_id="\x1b[2Jenv", notes=("\x07bell",), source="csv") for each in recorded.histories("cp-lr-x100")]
    print_diagnosis(diagnose.examine(None, histories, "log"), 0.1)
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "\x07" not in text
    assert " · env · " in text


def test_a_foreign_log_is_offered_a_trial_with_its_own_path_and_threshold() -> None:
    histories = [replace(each, source="sb3") for each in recorded.histories("cp-lr-x100")]
    assert diagnose.examine(None, histories, "my logs/a").next[0] == "rlclinic trial 'my logs/a' --rx 1 --threshold 475"
    assert diagnose.examine(None, histories, "-").next[0].startswith("rlclinic rules ")
    unknown = [replace(each, env_id=None) for each in histories]
    assert diagnose.examine(None, unknown, "logs").next[0].startswith("rlclinic rules ")


@pytest.mark.parametrize(("state", "first"), [("running", "rlclinic status {}"), ("stopped", "rlclinic train --resume {}")])
def test_runs_that_have_not_ended_come_before_any_cure(state: str, first: str) -> None:
    group = record_group(Path("runs"), state=state, share_done=0.6, returns=flat)
    assert diagnose.diagnose(group.id).next[0] == first.format(group.id)


def test_a_group_without_a_return_is_not_held_against_others() -> None:
    write_group("cp-healthy")
    group = Store("runs").create_group([files.load("CartPole-v1:ppo").config])
    assert diagnose.diagnose(group.id).comparable is None


def test_an_odd_setting_is_told_even_where_no_threshold_says_that_it_hurts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{step * 1000},{20 + 4 * step},{5e-5},{0.27},{1e-3},{0.01}\n" for step in range(60))
    log = tmp_path / "log.csv"
    log.write_text("timesteps,ep_rew_mean,approx_kl,clip_fraction,learning_rate,clip_range\n" + rows)
    print_diagnosis(diagnose.diagnose(str(log), runs_dir=tmp_path), 0.1)
    shown = capsys.readouterr().out
    assert "NO THRESHOLD" in shown
    assert "NOTICED  " in shown
    assert "POL103" in shown


def test_a_level_and_a_title_stand_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.csv"
    log.write_text("timesteps,ep_rew_mean,value_loss\n" + "".join(f"{step},{step},{'nan' if step > 40 else 1}\n" for step in range(90)))
    print_diagnosis(diagnose.diagnose(str(log), runs_dir=tmp_path), 0.1)
    assert "MEDIUM  numbers stopped" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("cause", "said"),
    [("healthy", False), ("no-reference", False), ("too-early", True), ("no-return", True), ("unknown", True), ("reward-sign", True)],
)
def test_the_end_of_training_is_silent_only_where_nothing_is_wrong(cause: str, said: bool) -> None:
    """A run whose return was never logged used to end as silently as a healthy one, one that is too early did not."""
    found = TopFinding(
        cause=cause, title="the title", probability=1, severity="low", agree=1, of=1, rule=None, change=None, command="rlclinic diagnose x"
    )
    assert ("the title" in str(top_finding(found))) is said


def test_without_a_threshold_every_face_offers_the_same_change(capsys: pytest.CaptureFixture[str]) -> None:
    """The terminal used to offer a trial of it, while the page and MCP took the same answer for a healthy one."""
    group = write_group("ac-healthy", changes=("spec.threshold=null",))
    report = diagnose.diagnose(group.id)
    assert report.diagnosis.causes[0].id == "no-reference"
    assert report.recommendations
    print_diagnosis(report, 0.4)
    assert f"rlclinic trial {group.id} --rx 1" in capsys.readouterr().out
    assert f'start_trial(run_id="{group.id}", rx=[1])' in concise(report)
