"""compare and regress as a user types them: recorded groups, files, exit codes, texts."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from rlclinic.errors import DiskFailed, NotFound, UsageError
from rlclinic.ops.compare import regress
from rlclinic.ops.compare.compare import Comparison, compare
from rlclinic.ops.train.plan import TrainPlan
from rlclinic.report import charts, comparison
from rlclinic.report.models import TrainResult
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from rlclinic.serve.cli.text import compare_plot
from rlclinic.treatment.prescription import recorded_effects
from tests.comparison.builders import rows, side
from tests.ops.recorded import COLUMNS, RunWriter, flat, record_group, rising

SAMPLES = Path(__file__).resolve().parents[2] / "readers" / "samples"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLCLINIC_RUNS", raising=False)
    return tmp_path


def rlclinic(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def uneven(seed: int, share: float) -> float:
    """Slower than `rising`, and different for each seed."""
    return min(500.0, 520.0 * share**2 - 7.0 * seed)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A folder with a slow and a fast group, made once."""
    runs = tmp_path_factory.mktemp("recorded") / "runs"
    slow = record_group(runs, range(6), uneven, changes=["run.max_env_steps=10240", "algo.learning_rate=1e-4"])
    return runs, slow.id, record_group(runs, range(6), rising).id


@pytest.fixture
def two(recorded: tuple[Path, str, str], folder: Path) -> tuple[Group, Group]:
    runs, slow, fast = recorded
    shutil.copytree(runs, folder / "runs", symlinks=True)
    return Group(Path("runs/@groups") / slow), Group(Path("runs/@groups") / fast)


# ── compare ──


def test_two_groups_are_compared_in_the_terminal_with_a_picture(two: tuple[Group, Group]) -> None:
    slow, fast = two
    result = rlclinic("compare", slow.id, fast.id)
    assert result.exit_code == 0
    text = result.stdout
    assert text.startswith(f"COMPARE  CartPole-v1 · A {slow.id} (6 seeds) · B {fast.id} (6 seeds)")
    assert "BETTER  B against A" in text
    assert re.search(r"algo\.learning_rate\s+1e-4\s+0\.001, linear to 0\s+10x larger", text)
    assert "it helped in" not in text, "no trial of it was made here, and cures of planted faults say nothing about these two"
    assert re.search(r"learning rate, middle\s+1e-4\s+5e-4", text)
    assert "permutation of Welch's t, and Welch's test (means; spreads may differ)" in text
    assert re.search(r"┤.*A.*B|┤.*B", text)
    assert "of log steps (" in text
    assert "train/loss/policy" not in text


def test_full_adds_phases_wall_time_and_throughput(two: tuple[Group, Group]) -> None:
    text = rlclinic("compare", two[0].id, two[1].id, "--full").stdout
    assert "LOSSES, GRADIENTS AND UPDATES BY PHASE" in text
    assert "WHERE THE TIME WENT" in text
    assert re.search(r"share of learn\s+75 %\s+75 %", text)
    assert text.count("threshold\n") >= 2


def test_json_holds_the_whole_comparison(two: tuple[Group, Group]) -> None:
    result = rlclinic("compare", two[0].id, two[1].id, "--json")
    found = json.loads(result.stdout)
    assert found["schema_version"] == 1
    assert found["compared"]["pairs"][0]["verdict"] == "better"
    assert found["compared"]["curves"][0]["axis"] == "env steps"
    assert Comparison.model_validate(found).compared.threshold == 475.0


def test_files_are_written_where_asked_and_hold_everything(two: tuple[Group, Group], folder: Path) -> None:
    result = compare([two[0].id, two[1].id], out=folder / "a" / "b")
    pictures = ["compare-env-steps.svg", "compare-wall-time.svg"]
    assert [Path(file).name for file in result.files] == ["compare.md", "compare.html", "compare.json", *pictures]
    markdown = (folder / "a/b/compare.md").read_text()
    for name in pictures:
        assert f"]({name})" in markdown
        ElementTree.parse(folder / "a/b" / name)
    assert "| algo.learning_rate | 1e-4 | 0.001, linear to 0 | 10x larger |" in markdown
    assert "## References" in markdown
    page = (folder / "a/b/compare.html").read_text()
    assert page.count("<svg") == 3
    assert "wall seconds" in page
    assert "algo.learning_rate over the run" in page
    for picture in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(picture)
    assert not re.search(r'(src|href)="http', page)
    assert not re.search(r"<script|<link", page)
    assert json.loads((folder / "a/b/compare.json").read_text())["compared"]["measure"] == "evaluation"


def test_a_folder_that_cannot_be_written_is_said(two: tuple[Group, Group], folder: Path) -> None:
    (folder / "taken").write_text("a file")
    with pytest.raises(DiskFailed, match="--out DIR"):
        compare([two[0].id, two[1].id], out=folder / "taken" / "x")


def test_several_groups_and_one_run_are_compared_pairwise(two: tuple[Group, Group]) -> None:
    one = record_group(Path("runs"), [0], flat)
    text = rlclinic("compare", two[0].id, two[1].id, one.id, "--pairwise").stdout
    assert "C against B" in text
    assert "n = 1, not assessable" in text
    assert f"next      rlclinic train {one.id} --seeds 8" in text


def test_a_foreign_folder_a_group_and_a_variant_are_compared_together() -> None:
    ours = record_group(Path("runs"), changes=["run.max_env_steps=10240", "algo.vf_coef=0.25"])
    result = rlclinic("compare", ours.id, str(SAMPLES / "sb3_zoo"), "CartPole-v1:ppo_zoo", "--threshold", "400")
    assert result.exit_code == 0
    assert re.search(r"algo\.vf_coef +0\.25 +not recorded \(sb3's default: 0\.5\)", result.stdout)
    assert "C: a config without runs" in result.stdout
    assert "logged by different frameworks" in result.stdout


def test_two_configs_offer_a_trial() -> None:
    text = rlclinic("compare", "CartPole-v1:ppo_zoo", "CartPole-v1:ppo").stdout
    assert "next      rlclinic trial CartPole-v1:ppo_zoo CartPole-v1:ppo" in text


def test_equal_configs_have_no_difference() -> None:
    assert "no difference among" in rlclinic("compare", "CartPole-v1:ppo_zoo", "CartPole-v1:ppo_zoo").stdout


def test_recorded_trials_are_counted(two: tuple[Group, Group], monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = recorded_effects.RecordedOutcome(
        trial="t111",
        cause="",
        changes={"algo.learning_rate": "up"},
        env_id="CartPole-v1",
        algo="ppo",
        measure="steps",
        value=0.5,
        low=None,
        high=None,
        adopted=True,
        seeds=8,
    )
    monkeypatch.setattr(recorded_effects, "load", lambda store: recorded_effects.Effects([outcome]))
    text = " ".join(rlclinic("compare", two[0].id, two[1].id).stdout.split())
    assert "it helped in 1 of 1 trial of it here" in text


@pytest.mark.parametrize(("targets", "code"), [(["@last"], 3), (["CartPole-v1:ppo"], 2), (["CartPole-v1:ppo", "nothing"], 3)])
def test_mistakes_end_with_their_code_and_no_traceback(targets: list[str], code: int) -> None:
    result = rlclinic("compare", *targets)
    assert result.exit_code == code
    assert "Traceback" not in result.output


def test_python_gets_the_same_comparison(two: tuple[Group, Group]) -> None:
    found = compare([two[0].id, two[1].id])
    assert isinstance(found, Comparison)
    assert found.compared.outcomes[0].runs == 6
    with pytest.raises(UsageError, match="something to compare"):
        compare([])


# ── pictures ──


def test_the_svg_is_well_formed_also_for_one_point_and_for_a_flat_line() -> None:
    from rlclinic.comparison.compare import compare_sides

    for first, second in (([[5.0]], [[5.0]]), (rows(3, 5, spread=0), rows(3, 5, spread=0)), ([[-1.0, -2.0]] * 2, [[3.0, 1e6]] * 3)):
        bands = compare_sides([side(*first, threshold=None), side(*second, threshold=None)]).curves
        root = ElementTree.fromstring(charts.bands_svg(bands, ["A", "B"], None))
        assert root.tag.endswith("svg")
        assert "nan" not in charts.bands_svg(bands, ["A", "B"], None)
        assert len(compare_plot.lines(bands, None)) == 10
    assert charts.bands_svg([], [], None) == ""
    assert compare_plot.lines([], 475.0) == []


def test_names_in_a_page_cannot_become_markup() -> None:
    from rlclinic.comparison.compare import compare_sides

    page = comparison.html(compare_sides([side(*rows(2, 5), name="<script>x"), side(*rows(2, 5), name="b|c")]))
    assert "<script>" not in page
    assert "&lt;script&gt;x" in page


def test_letters_mark_the_sides_and_a_star_where_they_meet() -> None:
    from rlclinic.comparison.compare import compare_sides

    drawn = "\n".join(compare_plot.lines(compare_sides([side([1.0, 1.0, 1.0, 1.0]), side([1.0, 1.0, 9.0, 9.0])]).curves, None))
    assert "*" in drawn
    assert "A" in drawn
    assert "B" in drawn


# ── regress ──


def test_a_baseline_is_kept_and_an_unchanged_candidate_passes(two: tuple[Group, Group]) -> None:
    kept = rlclinic("regress", "--save-baseline", "ci/base.json", two[1].id)
    assert kept.exit_code == 0
    assert "6 reached 475" in kept.stdout
    again = record_group(Path("runs"), range(6, 14), lambda seed, share: rising(seed - 6, share))
    result = rlclinic("regress", "ci/base.json", again.id, "--margin", "0.2")
    assert result.exit_code == 0
    assert "PASSED  not worse by 20 % or more" in result.stdout
    assert "false alarms ≤ 5.0 %" in result.stdout
    assert "simulated from the baseline" in result.stdout


def test_a_slower_candidate_is_a_regression_with_exit_code_6(two: tuple[Group, Group]) -> None:
    result = rlclinic("regress", two[1].id, two[0].id)
    assert result.exit_code == 6
    assert "REGRESSION  worse than the baseline" in result.stdout
    assert "the settings are not the baseline's: algo.learning_rate" in result.stdout
    assert json.loads(rlclinic("regress", two[1].id, two[0].id, "--json").stdout)["decision"] == "regression"


def test_undecided_is_said_with_what_it_would_take_and_fails_only_when_strict(two: tuple[Group, Group]) -> None:
    few = record_group(Path("runs"), range(3), lambda seed, share: rising(4 * seed, share))
    result = rlclinic("regress", two[1].id, few.id, "--margin", "0.1")
    assert result.exit_code == 0
    assert "UNDECIDED" in result.stdout
    assert rlclinic("regress", two[1].id, few.id, "--margin", "0.1", "--strict").exit_code == 6


def test_one_seed_is_not_assessable(two: tuple[Group, Group]) -> None:
    result = rlclinic("regress", two[1].id, two[0].runs[0].id)
    assert "UNDECIDED  n = 1, not assessable" in result.stdout


def test_versions_that_changed_since_the_baseline_are_named(two: tuple[Group, Group]) -> None:
    regress.save_baseline(two[1].id, Path("base.json"))
    kept = json.loads(Path("base.json").read_text())
    kept["versions"]["numpy"] = "0.1"
    Path("base.json").write_text(json.dumps(kept))
    notes = regress.regress("base.json", two[0].id).notes
    assert any("numpy 0.1 → " in note for note in notes)
    assert not any("python" in note for note in notes)


@pytest.mark.parametrize("outcome", ["steps", "return", "success", "wall"])
def test_every_outcome_can_be_judged(two: tuple[Group, Group], outcome: str) -> None:
    result = rlclinic("regress", two[1].id, two[0].id, "--outcome", outcome)
    assert result.exit_code in (0, 6), result.output
    assert "judged" in result.stdout


def test_a_foreign_folder_is_a_candidate_too(two: tuple[Group, Group]) -> None:
    result = rlclinic("regress", two[1].id, str(SAMPLES / "sb3_zoo"), "--outcome", "return")
    assert result.exit_code == 6, result.output
    assert "env steps" in result.stdout


@pytest.mark.parametrize(
    ("content", "error"), [("{}", UsageError), ("nonsense", UsageError), ('{"kind": "other"}', UsageError), (None, NotFound)]
)
def test_a_file_that_is_no_baseline_is_said(two: tuple[Group, Group], content: str | None, error: type[Exception]) -> None:
    if content is not None:
        Path("base.json").write_text(content)
    with pytest.raises(error, match=r"--save-baseline base\.json"):
        regress.regress("base.json", two[0].id)


def test_arguments_that_do_not_fit_are_usage_errors(two: tuple[Group, Group]) -> None:
    gid = two[0].id
    for arguments in ([gid], ["--save-baseline", "b.json", gid, gid], [gid, gid, "--set", "algo.gamma=0.9"], ["CartPole-v1:ppo", gid]):
        assert rlclinic("regress", *arguments).exit_code == 2, arguments
    regress.save_baseline(gid, Path("b.json"))
    with pytest.raises(UsageError, match="was kept with threshold"):
        regress.regress("b.json", gid, threshold=100.0)


def test_a_baseline_that_cannot_be_written_is_said(two: tuple[Group, Group]) -> None:
    Path("taken").write_text("a file")
    with pytest.raises(DiskFailed, match="another file"):
        regress.save_baseline(two[0].id, Path("taken/base.json"))


# ── a candidate that is trained ──


class Trainer:
    """Stands in for training: writes the group at once, with returns as they are told."""

    def __init__(self, level: float, signal: str | None = None) -> None:
        self.level, self.signal, self.seeds, self.stops = level, signal, [], []

    def __call__(self, plan: TrainPlan, watch: object = None, say: object = None, restarts: int = 0) -> TrainResult:
        group = Store(plan.request.runs_dir).create_group(plan.configs, name=plan.request.name)
        self.stops += [config.run.stop_at_threshold for config in plan.configs]
        for run in group.runs:
            self.seeds.append(run.seed)
            with RunWriter(run.path, COLUMNS) as writer:
                for row in range(1, 11):
                    value = min(500.0, self.level * row / 10 - run.seed % 5)
                    writer.row({"total_timesteps": 1024 * row, "val/roll/ep_rew_mean": value, "time/env": 0.1, "time/fps": 100.0})
                writer.status("finished", 10_240)
        ids = [run.id for run in group.runs]
        return TrainResult(group=group.id, runs=ids, detached=False, signal=self.signal, failed=[], report=None, files=[])


def test_a_config_is_trained_in_batches_until_it_is_decided(two: tuple[Group, Group], monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(590.0)
    monkeypatch.setattr(regress, "train", trainer)
    said: list[str] = []
    result = regress.regress(two[1].id, "CartPole-v1:ppo_zoo", per_look=4, looks=4, changes=["run.max_env_steps=10240"], say=said.append)
    assert [look.decision for look in result.looks][:-1] == ["undecided"] * (len(result.looks) - 1)
    assert len(result.looks) > 1
    assert [look.seeds for look in result.looks] == [4 * (place + 1) for place in range(len(result.looks))]
    assert [look.bound for look in result.looks] == sorted((look.bound for look in result.looks), reverse=True)
    assert len(result.groups) == len(result.looks)
    assert len(set(trainer.seeds)) == len(trainer.seeds) == result.candidate_seeds
    assert min(trainer.seeds) >= 1_000
    assert said[0].startswith("up to 4 looks x 4 seeds x 10,240 env steps")


@pytest.mark.parametrize(("outcome", "stops"), [("steps", True), ("return", False)])
def test_a_candidate_is_not_trained_past_what_is_judged(
    two: tuple[Group, Group], monkeypatch: pytest.MonkeyPatch, outcome: regress.GateOutcome, stops: bool
) -> None:
    trainer = Trainer(400.0)
    monkeypatch.setattr(regress, "train", trainer)
    result = regress.regress(two[1].id, "CartPole-v1:ppo_zoo", outcome=outcome, changes=["run.max_env_steps=10240"])
    assert set(trainer.stops) == {stops}
    assert not any("settings are not the baseline's" in note for note in result.notes)


def test_seeds_can_be_chosen_and_are_the_same_again(two: tuple[Group, Group], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for _ in range(2):
        trainer = Trainer(650.0)
        monkeypatch.setattr(regress, "train", trainer)
        seen.append(regress.regress(two[1].id, "CartPole-v1:ppo_zoo", per_look=4, looks=2, seed0=50).looks)
        assert trainer.seeds[:4] == [50, 51, 52, 53]
    assert seen[0] == seen[1]


def test_much_is_not_spent_without_a_yes(two: tuple[Group, Group], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regress, "train", Trainer(400.0))
    asked: list[str] = []
    with pytest.raises(UsageError, match="nothing was trained"):
        regress.regress(two[1].id, "CartPole-v1:ppo_zoo", changes=["run.max_env_steps=1e9"], confirm=lambda text: bool(asked.append(text)))
    assert "32G env steps" in asked[0]
    assert len(Store("runs").groups()) == 2


def test_an_interrupted_training_ends_with_its_signal(two: tuple[Group, Group], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regress, "train", Trainer(400.0, signal="SIGINT"))
    result = rlclinic("regress", two[1].id, "CartPole-v1:ppo_zoo", "--quiet")
    assert result.exit_code == 130
    assert "UNDECIDED  ended before the first look" in result.stdout


@pytest.mark.slow
def test_a_real_candidate_is_trained_and_judged(two: tuple[Group, Group]) -> None:
    changes = ["run.max_env_steps=10240", "run.eval_every_env_steps=2048", "run.eval_episodes=4"]
    result = regress.regress(two[1].id, "CartPole-v1:ppo_zoo", per_look=2, looks=2, changes=changes)
    assert result.decision in ("regression", "undecided")
    assert result.candidate_seeds == 2 * len(result.looks)
    assert all(Store("runs").group(gid).verdict != "RUNNING" for gid in result.groups)


# ── light ──


def test_comparing_imports_none_of_the_training_packages(two: tuple[Group, Group]) -> None:
    code = """
import sys
from pathlib import Path
from rlclinic.ops.compare import regress
from rlclinic.ops.compare.compare import compare
compare([sys.argv[1], sys.argv[2], "CartPole-v1:ppo_zoo"], out=Path("out"))
regress.regress(sys.argv[1], sys.argv[2])
print([name for name in ("torch", "gymnasium", "matplotlib", "scipy", "tensorboard") if name in sys.modules])
"""
    ids = [group.id for group in two]
    done = subprocess.run([sys.executable, "-W", "error", "-c", code, *ids], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_what_comes_next_looks_in_the_same_store(folder: Path) -> None:
    one, other = (record_group(folder / "elsewhere", seeds, flat) for seeds in ([0], [1, 2, 3, 4]))
    text = rlclinic("compare", one.id, other.id, "--runs-dir", str(folder / "elsewhere")).stdout
    assert f"rlclinic train {one.id} --seeds 8 --runs-dir {folder / 'elsewhere'}" in " ".join(text.split())
