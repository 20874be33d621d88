"""Episodes as evidence that a reward is gamed: those that were recorded, those that are recorded when asked for, and what to type else."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import rlclinic
from rlclinic.errors import UsageError
from rlclinic.ops.diagnose import diagnose
from rlclinic.ops.runs import policy, video
from rlclinic.report import group as reports
from rlclinic.runs.record import Run
from rlclinic.runs.recording import films
from rlclinic.serve.cli.app import app
from tests.diagnosis.stored import write_gamed

NEVER: dict[str, Any] = {"train/roll/success_rate": 0.0}
GIF = b"GIF89a"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLCLINIC_RUNS", raising=False)
    return tmp_path


def write_film(run: Run, step: int, *, pictures: bool = True, reward: float = 0.5) -> video.Film:
    """A film as training or a recording leaves it."""
    trace = films.Trace(success=False)
    for _ in range(4):
        trace.add([0.0], [1.0], reward, {"alive": reward, "task": 0.0})
    (run.path / films.FOLDER).mkdir(exist_ok=True)
    if pictures:
        (run.path / films.FOLDER / f"{step}.gif").write_bytes(GIF)
    films.write_trace(run.path / films.FOLDER / f"{step}.json", trace)
    return next(film for film in video.list_films(run).films if film.step == step)


def test_films_that_were_recorded_while_it_trained_are_evidence() -> None:
    group = write_gamed(**NEVER)
    run = group.runs[0]
    first, last = (run.checkpoints[place].step for place in (0, -1))
    # Near the ends of what was seen, and one in the middle that is neither.
    for step, pictures in ((first + 500, True), (last // 2, True), (last - 300, False)):
        write_film(run, step, pictures=pictures)
    report = diagnose.diagnose(group.id)
    shown = report.films
    assert shown is not None
    assert (shown.rule, shown.missing) == (report.diagnosis.causes[0].rules[0], ())
    assert [(each.when, each.step, Path(str(each.path)).suffix) for each in shown.episodes] == [
        ("before", first + 500, ".gif"),
        ("within", last - 300, ".json"),
    ]
    assert shown.episodes[0].said == "4 steps, return 2, no success (alive 2, task 0)"
    typed = CliRunner().invoke(app, ["diagnose", group.id]).stdout
    assert f"runs/{run.id}/videos/{first + 500}.gif" in typed
    assert "rlclinic diagnose" not in typed.split("film within")[1].splitlines()[-3]
    page = (group.path / "report.html").read_text()
    assert "What it is paid for" in page
    assert "data:image/gif;base64," in page
    assert f"{first + 500}.gif" in (group.path / "report.md").read_text()


def test_where_none_exist_one_flag_records_both_and_the_report_shows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    group = write_gamed(**NEVER)
    run = group.runs[0]
    asked: list[tuple[str, bool]] = []

    def film(selector: str, runs_dir: Path, *, checkpoint: str, again: bool) -> video.Film:
        asked.append((checkpoint, again))
        return write_film(run, int(checkpoint))

    report = diagnose.diagnose(group.id)
    assert report.films is not None
    assert [str(action) for action in report.films.missing] == [f"rlclinic diagnose {group.id} --film"]
    assert report.films.missing[0] in report.next
    monkeypatch.setattr(video, "film", film)
    done = CliRunner().invoke(app, ["diagnose", group.id, "--film"])
    assert done.exit_code == 0, done.output
    steps = [each.step for each in report.films.episodes]
    assert asked == [(str(step), True) for step in steps]
    assert f"filming 1 of 2: {run.id} at env step {steps[0]:,} (before)" in done.stderr
    assert all(f"{step}.gif" in done.stdout for step in steps)
    assert "--film" not in done.stdout
    assert (group.path / "report.html").read_text().count("data:image/gif") == 2


def test_a_film_that_fails_is_said_and_the_diagnosis_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> video.Film:
        raise UsageError("the environment draws nothing here")

    group = write_gamed(**NEVER)
    monkeypatch.setattr(video, "film", fail)
    done = CliRunner().invoke(app, ["diagnose", group.id, "--film"])
    assert done.exit_code == 0, done.output
    assert "the environment draws nothing here" in done.stdout
    assert "the return rises and the task is not done" in done.stdout


def test_a_store_that_cannot_be_written_to_is_told_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    group = write_gamed(**NEVER)
    run = group.runs[0].id
    monkeypatch.setattr(os, "access", lambda *_: False)
    report = diagnose.diagnose(group.id)
    steps = [0, group.runs[0].checkpoints[-1].step]
    typed = [str(action) for action in report.next if action.command == "evaluate"]
    assert typed == [f"rlclinic evaluate {run}@{step} --episodes 1 --video {run}-{step}.gif" for step in steps]


def test_logs_of_others_are_told_what_records_an_episode(tmp_path: Path) -> None:
    group = write_gamed(**NEVER)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "metrics.csv").write_bytes((group.runs[0].path / "metrics.csv").read_bytes())
    report = diagnose.diagnose(str(theirs))
    assert report.films is not None
    assert report.films.episodes == ()
    assert "gymnasium.wrappers.RecordVideo" in str(report.films.note)
    assert "RecordVideo" in CliRunner().invoke(app, ["diagnose", str(theirs)]).stdout


def test_a_reward_that_is_not_gamed_comes_with_none_and_films_none(monkeypatch: pytest.MonkeyPatch) -> None:
    group = write_gamed(**{"train/roll/success_rate": lambda share: share})
    write_film(group.runs[0], 0)
    monkeypatch.setattr(video, "film", None)
    done = CliRunner().invoke(app, ["diagnose", group.id, "--film"])
    assert done.exit_code == 0, done.output
    assert "nothing to film" in done.stderr
    report = diagnose.diagnose(group.id)
    assert report.films is None
    assert "films" not in json.loads(report.model_dump_json())
    assert "What it is paid for" not in reports.html(reports.describe_group(group), report)


# ── a policy that was not kept ──


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    changes = ["run.max_env_steps=384", "run.eval_every_env_steps=128", "run.eval_episodes=1", "run.checkpoint_every_env_steps=128"]
    shape = ["env.n_envs=2", "algo.n_steps=64", "algo.batch_size=64", "algo.n_epochs=2", "net.hidden=[8]"]
    return rlclinic.train("CartPole-v1:ppo", overrides=[*changes, *shape], runs_dir=tmp_path_factory.mktemp("again") / "runs").runs[0]


def test_a_policy_that_was_not_kept_is_trained_again_and_is_the_one_that_it_was(trained: Run, tmp_path: Path) -> None:
    step = trained.checkpoints[0].step
    assert step < trained.checkpoints[-1].step
    policy.evaluate(f"{trained.id}@{step}", trained.path.parent, episodes=1, trace=tmp_path / "kept.json")
    (tmp_path / "out").mkdir()
    before = sorted(path.name for path in trained.path.parent.iterdir())
    assert policy.record_again(trained, step, tmp_path / "out", "gif") == step
    assert (tmp_path / "out" / f"{step}.json").read_text() == (tmp_path / "kept.json").read_text()
    assert not [file for file in (tmp_path / "out").iterdir() if file.name.startswith("half")]
    assert sorted(path.name for path in trained.path.parent.iterdir()) == before, "the store has no more runs than it had"


def test_a_run_that_would_not_lead_there_again_is_not_trained_again(trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "parent", property(lambda _: "other@64"))
    with pytest.raises(UsageError, match=r"was kept[\s\S]*went on from other@64[\s\S]*film_every_env_steps"):
        video.film(trained.id, trained.path.parent, checkpoint="64", again=True)
    assert not (trained.path / films.FOLDER).exists(), "nothing is begun"
