import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import rlclinic
from rlclinic import readers
from rlclinic.errors import ConfigError, NotFound, UsageError

CopySample = Callable[..., Path]


@pytest.mark.parametrize(
    ("sample", "sources"),
    [
        ("cleanrl", ["cleanrl"]),
        ("gymnasium_solver", ["gymnasium-solver"] * 3),
        ("sb3_dqn", ["console"]),
        ("sb3_ppo", ["sb3"]),
        ("sb3_restart", ["sb3"]),
        ("sb3_sac", ["sb3"]),
        ("sb3_zoo", ["sb3"] * 2),
        ("sb3_zoo/tb", ["sb3"] * 2),
        ("sb3_ppo/console.txt", ["console"]),
        ("sb3_ppo/progress.csv", ["sb3"]),
    ],
)
def test_every_sample_is_recognized(sample: str, sources: list[str], samples: Path) -> None:
    found = readers.read(samples / sample)
    assert [history.source for history in found] == sources
    assert all("train/roll/ep_rew_mean" in history for history in found)


def test_every_series_keeps_its_promise(samples: Path) -> None:
    """Finite, of equal length, steps that never fall: what diagnosis relies on."""
    for sample in samples.iterdir():
        for history in readers.read(sample) if sample.is_dir() and sample.name != "__pycache__" else ():
            for series in history.series.values():
                assert len(series.steps) == len(series.values)
                assert np.isfinite(series.steps).all()
                assert np.isfinite(series.values).all()
                assert np.all(np.diff(series.steps) >= 0)


def test_reading_twice_gives_the_same(samples: Path) -> None:
    first, second = readers.read(samples / "sb3_ppo")[0], readers.read(samples / "sb3_ppo")[0]
    assert (first.settings, first.notes, list(first.series)) == (second.settings, second.notes, list(second.series))
    assert all(first[name].values.tolist() == second[name].values.tolist() for name in first.series)


def test_text_from_a_pipe_is_read(samples: Path) -> None:
    with (samples / "sb3_dqn" / "console.txt").open("rb") as stdin:
        (found,) = readers.read("-", stdin=stdin, threshold=475, budget=5_000)
    assert (found.source, found.path, found.threshold, found.max_env_steps) == ("console", None, 475, 5_000)


def test_a_pipe_with_something_else_says_so() -> None:
    with pytest.raises(UsageError, match="no text"):
        readers.read("-", stdin=io.BytesIO(bytes(range(256)) * 10))
    with pytest.raises(UsageError, match="found no table"):
        readers.read("-", stdin=io.BytesIO(b""))


def test_a_path_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        readers.read(tmp_path / "nothing")


def test_an_empty_folder_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="TensorBoard folders"):
        readers.read(tmp_path)


def test_a_saved_model_alone_points_at_its_folder(samples: Path) -> None:
    with pytest.raises(UsageError, match=r"saved model .*no log"):
        readers.read(samples / "sb3_ppo" / "model.zip")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(range(256)) * 40)
    with pytest.raises(UsageError, match="binary"):
        readers.read(tmp_path / "weights.bin")


def test_a_folder_of_plain_tables_gives_each_that_can_be_read(tmp_path: Path) -> None:
    for seed in (0, 1):
        (tmp_path / f"seed{seed}.csv").write_text("step,mean_reward\n1,2\n")
    (tmp_path / "notes.csv").write_text("who,what\nme,this\n")
    assert [history.id for history in readers.read(tmp_path)] == ["seed0", "seed1"]


def test_folders_below_are_looked_at_and_told_apart(tmp_path: Path) -> None:
    for seed in (0, 1):
        (tmp_path / f"seed{seed}").mkdir()
        (tmp_path / f"seed{seed}" / "log.csv").write_text("step,mean_reward\n1,2\n")
    assert [history.id for history in readers.read(tmp_path)] == ["seed0/log", "seed1/log"]


def test_rllibs_two_copies_of_one_log_are_one_run(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"timesteps_total": 5, "episode_reward_mean": 1}\n')
    (tmp_path / "progress.csv").write_text("timesteps_total,episode_reward_mean\n5,1\n")
    (found,) = readers.read(tmp_path)
    assert found.path == tmp_path / "result.json"


def test_mapping_reaches_every_reader(copy_sample: CopySample) -> None:
    folder = copy_sample("sb3_ppo", "progress.csv")
    (found,) = readers.read(folder, mapping=["train/metrics/grad_norm/all=train/loss*2"])
    assert found["train/metrics/grad_norm/all"].values[0] == pytest.approx(2 * 29.529817581176758)


def test_an_unreadable_folder_is_an_error_and_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(readers, "FORMATS", (readers.Format("x", refuse, lambda *_: []), *readers.FORMATS))
    with pytest.raises(UsageError, match="Permission denied"):
        readers.read(tmp_path)


def test_a_run_is_found_through_a_link(samples: Path, tmp_path: Path) -> None:
    (tmp_path / "@last").symlink_to(samples / "sb3_ppo")
    assert readers.read(tmp_path / "@last")[0].algo == "ppo"


def test_the_samples_stay_small(samples: Path) -> None:
    assert sum(path.stat().st_size for path in samples.rglob("*") if path.is_file()) < 2_000_000


def test_runs_of_the_same_name_are_told_apart_by_as_many_folders_as_it_takes(tmp_path: Path) -> None:
    for first in ("a", "b"):
        for seed in ("0", "1"):
            folder = tmp_path / first / "run" / seed
            folder.mkdir(parents=True)
            (folder / "progress.csv").write_text("time/total_timesteps,rollout/ep_rew_mean\n100,1\n200,2\n")
    assert sorted(history.id for history in readers.read(tmp_path)) == ["a/run/0", "a/run/1", "b/run/0", "b/run/1"]


# ── a reader that another package brings by an entry point ──

READER = """
import numpy as np
from rlclinic.runs.history import History, Series

def matches(path):
    return path.suffix == ".tally"

def read(path, options):
    returns = np.array([float(line) for line in path.read_text().split()])
    steps = np.arange(1.0, len(returns) + 1) * 1_000
    series = {"train/roll/ep_rew_mean": Series(steps, returns, "tally")}
    return [History(path.stem, "tally", path=path, env_id="Mine-v0", algo="ppo", env_steps=int(steps[-1]), series=series)]
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path with an installed package: its metadata names a reader, its module is up to the test."""
    site = tmp_path / "site"
    (site / "tally-1.0.dist-info").mkdir(parents=True)
    (site / "tally-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: tally\nVersion: 1.0\n")
    (site / "tally-1.0.dist-info" / "entry_points.txt").write_text("[rlclinic.readers]\ntallies = tally_reader\n")
    monkeypatch.syspath_prepend(site)
    readers.load_plugins.cache_clear()
    yield site
    readers.load_plugins.cache_clear()
    sys.modules.pop("tally_reader", None)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "logs" / "first.tally"
    path.parent.mkdir()
    path.write_text("\n".join(str(value) for value in range(40)))
    return path


def test_a_log_is_diagnosed_by_the_reader_of_another_package(install: Path, log: Path) -> None:
    (install / "tally_reader.py").write_text(READER)
    (file,) = readers.read(log)
    assert (file.source, file.env_steps, file["train/roll/ep_rew_mean"].last) == ("tally", 40_000, 39.0)
    assert "Mine-v0" in rlclinic.diagnose(str(log)).model_dump_json()


def test_it_is_not_loaded_where_one_of_ours_knows_the_format(install: Path, samples: Path) -> None:
    (install / "tally_reader.py").write_text("raise SystemExit('loaded')")
    assert readers.read(samples / "sb3_ppo")[0].source == "sb3"


def test_one_that_cannot_be_loaded_is_named(install: Path, log: Path) -> None:
    (install / "tally_reader.py").write_text("import a_module_that_nobody_has")
    with pytest.raises(ConfigError, match=r"'tallies'.*a_module_that_nobody_has"):
        readers.read(log)
