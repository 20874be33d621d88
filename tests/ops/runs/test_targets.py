import subprocess
import tempfile
from pathlib import Path

import pytest

from rlclinic.errors import ConfigError, NotFound, RlclinicError, UsageError
from rlclinic.ops.runs import targets
from rlclinic.ops.runs.targets import Reading
from tests.ops.recorded import record_group

SAMPLES = Path(__file__).resolve().parents[2] / "readers" / "samples"
YAML = """
spec: {threshold: 475}
ppo: {env: {id: CartPole-v1}, algo: {name: ppo, gamma: 0.9}}
slow: {env: {id: CartPole-v1}, algo: {name: ppo, gamma: 0.9, learning_rate: 1e-5}}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def git(*arguments: str) -> None:
    names = ["-c", "user.name=someone", "-c", "user.email=someone@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *names, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(here: Path) -> Path:
    git("init")
    Path("mine.yaml").write_text(YAML)
    (here / "deep").mkdir()
    (here / "deep" / "one.yaml").write_text(YAML)
    git("add", ".")
    git("commit", "-m", "first")
    Path("mine.yaml").write_text(YAML.replace("0.9", "0.99"))
    git("commit", "-am", "second")
    return here


# ── ours ──


def test_a_group_a_run_and_their_folders_are_read(here: Path) -> None:
    group = record_group(Path("runs"))
    for target, kind, runs in (
        (group.id, "group", 3),
        ("@last", "group", 3),
        (group.runs[0].id, "run", 1),
        (f"runs/{group.runs[1].id}", "run", 1),
        (f"runs/@groups/{group.id}", "group", 3),
    ):
        (side,) = targets.read(target, Reading())
        assert (side.kind, len(side), side.complete) == (kind, runs, True)
        assert side.settings["algo.name"] == "ppo"


def test_a_selector_is_named_by_the_id_that_it_means(here: Path) -> None:
    group = record_group(Path("runs"))
    assert targets.read("@last", Reading())[0].name == group.id
    assert targets.read(f"runs/{group.runs[0].id}", Reading())[0].name == f"runs/{group.runs[0].id}"


def test_a_threshold_that_is_typed_goes_before_the_runs_own(here: Path) -> None:
    record_group(Path("runs"))
    assert targets.read("@last", Reading(threshold=100.0))[0].threshold == 100.0


def test_a_group_in_another_folder_is_read_by_its_path(here: Path) -> None:
    group = record_group(Path("elsewhere"))
    (side,) = targets.read(f"elsewhere/@groups/{group.id}", Reading())
    assert len(side) == 3


# ── configs ──


def test_variants_and_files_are_configs(here: Path) -> None:
    Path("mine.yaml").write_text(YAML)
    for target, gamma in (("CartPole-v1:ppo_zoo", 0.98), ("mine.yaml", 0.9), ("mine.yaml:slow", 0.9)):
        (side,) = targets.read(target, Reading())
        assert (side.kind, len(side), side.settings["algo.gamma"]) == ("config", 0, gamma)
        assert side.config is not None


def test_the_name_of_an_environment_is_its_variant(here: Path) -> None:
    assert targets.read("CartPole-v1", Reading())[0].kind == "config"


# ── other frameworks ──


def test_a_foreign_folder_is_read_as_its_own_side(here: Path) -> None:
    (side,) = targets.read(str(SAMPLES / "sb3_zoo"), Reading(threshold=50.0))
    assert (side.kind, len(side), side.source, side.complete, side.threshold) == ("foreign", 2, "sb3", False, 50.0)


def test_a_folder_with_runs_of_several_configs_gives_a_side_for_each(here: Path) -> None:
    sides = targets.read(str(SAMPLES / "gymnasium_solver"), Reading())
    assert len(sides) == len({side.name for side in sides}) > 1


# ── git ──


def test_a_file_of_a_revision_is_read_and_the_working_tree_is_not_touched(repository: Path) -> None:
    Path("mine.yaml").write_text("broken: [")
    for target, gamma in (("git:HEAD~1:mine.yaml", 0.9), ("git:HEAD:mine.yaml:slow", 0.99), ("git:HEAD:deep/one.yaml:ppo", 0.9)):
        (side,) = targets.read(target, Reading())
        assert (side.name, side.kind, side.settings["algo.gamma"]) == (target, "config", gamma)
    assert Path("mine.yaml").read_text() == "broken: ["


def test_a_path_is_seen_from_this_folder(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository / "deep")
    assert targets.read("git:HEAD:one.yaml", Reading())[0].kind == "config"
    assert targets.read("git:HEAD~1:../mine.yaml", Reading())[0].settings["algo.gamma"] == 0.9
    assert targets.read(f"git:HEAD~1:{repository}/mine.yaml", Reading())[0].settings["algo.gamma"] == 0.9


@pytest.mark.parametrize(
    ("target", "error", "said"),
    [
        ("git:nonsense:mine.yaml", NotFound, "no revision 'nonsense'"),
        ("git:--help:mine.yaml", NotFound, "no revision '--help'"),
        ("git:HEAD:other.yaml", NotFound, "other.yaml is not in revision HEAD"),
        ("git:HEAD:mine.yaml:fast", NotFound, "git:HEAD:mine.yaml has no variant fast"),
        ("git:HEAD", UsageError, "git:REVISION:FILE.yaml"),
        ("git:HEAD:mine.txt", UsageError, "git:REVISION:FILE.yaml"),
    ],
)
def test_what_git_does_not_have_is_said_plainly(repository: Path, target: str, error: type[RlclinicError], said: str) -> None:
    with pytest.raises(error) as raised:
        targets.read(target, Reading())
    assert said in str(raised.value)
    assert tempfile.gettempdir() not in str(raised.value)
    assert str(raised.value).count("\n") == 2


def test_a_mistake_in_an_old_file_names_the_revision(repository: Path) -> None:
    Path("mine.yaml").write_text(YAML.replace("gamma: 0.9", "gamma: 7"))
    git("commit", "-am", "third")
    with pytest.raises(ConfigError, match=r"git:HEAD:mine\.yaml"):
        targets.read("git:HEAD:mine.yaml", Reading())


def test_without_a_repository_there_are_no_revisions(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(here.parent))
    with pytest.raises(UsageError, match="in no git repository"):
        targets.read("git:HEAD:mine.yaml", Reading())


def test_without_git_there_are_no_revisions(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="git is not installed"):
        targets.read("git:HEAD:mine.yaml", Reading())


# ── nothing ──


@pytest.mark.parametrize("target", ["nothing", "no/such/folder", "@last", "CartPole-v1:nonsense", "missing.yaml"])
def test_what_is_not_there_is_said_without_a_traceback(here: Path, target: str) -> None:
    with pytest.raises(RlclinicError, match=r"\n  "):
        targets.read(target, Reading())
