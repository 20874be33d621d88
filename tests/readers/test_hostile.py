"""Whatever a folder holds, there is an answer or a clear error: never a traceback, a warning, or an endless wait."""

import io
import json
import shutil
import sqlite3
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlclinic import readers
from rlclinic.errors import RlclinicError
from rlclinic.readers import text_files, thinning
from rlclinic.readers.trackers import mlflow, wandb
from rlclinic.runs.history import STATES, History, of_run
from rlclinic.runs.store import Store
from tests.readers.trackers import wandb_files

SAMPLES = Path(__file__).parent / "samples"
CopySample = Callable[..., Path]
FILES = (
    *(
        "sb3_ppo/progress.csv",
        "sb3_ppo/progress.json",
        "sb3_ppo/monitor/0.monitor.csv",
        "sb3_ppo/eval/evaluations.npz",
        "sb3_ppo/model.zip",
    ),
    *("sb3_ppo/console.txt", "sb3_restart/events.out.tfevents.1.h", "sb3_zoo/logs/ppo/CartPole-v1_1/CartPole-v1/config.yml"),
    *(
        "sb3_zoo/logs/ppo/CartPole-v1_1/CartPole-v1/args.yml",
        "gymnasium_solver/a1b2c3d4/config.json",
        "gymnasium_solver/a1b2c3d4/metrics.csv",
    ),
    "gymnasium_solver/a1b2c3d4/run.log",
    *("wandb/offline-run-20261116_115942-xgk9cacr/run-xgk9cacr.wandb", "mlflow/mlflow.db"),
    *("rsl_rl/pendulum/healthy/params/agent.yaml", "skrl/ppo_healthy/config.yaml", "d3rlpy/dqn_rate/params.json"),
)
NAMES = (
    *(
        "progress.csv",
        "progress.json",
        "progress.txt",
        "monitor.csv",
        "0.monitor.csv",
        "evaluations.npz",
        "events.out.tfevents.1",
        "model.zip",
    ),
    *(
        "config.json",
        "config.yml",
        "args.yml",
        "metrics.csv",
        "status.json",
        "run.log",
        "log.jsonl",
        "log.csv",
        "log.csv.gz",
        "history.json",
        "params.json",
        "hparams.yaml",
        "reward.csv",
        "console.txt",
        "group.json",
        "run-1.wandb",
        "mlflow.db",
    ),
)
OFTEN = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def folder_of(name: str = "run") -> Iterator[Path]:
    """A folder that is gone afterwards: hypothesis runs many examples in one test."""
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / name).mkdir()
        yield Path(root) / name


def answer(path: Path | str, stdin: io.BytesIO | None = None) -> list[History]:
    """Read, and check what every caller relies on; [] if the answer was an error with something to type."""
    refused = ""
    try:
        found = readers.read(path, stdin=stdin)
    except RlclinicError as error:
        refused, found = str(error), []
    if refused:
        assert "\n  " in refused
        return []
    assert found
    for history in found:
        assert history.state in STATES
        json.dumps(dict(history.settings))
        for series in history.series.values():
            assert len(series.steps) == len(series.values)
            assert np.isfinite(series.steps).all()
            assert np.isfinite(series.values).all()
            assert np.all(np.diff(series.steps) >= 0)
    return found


@OFTEN
@given(st.dictionaries(st.sampled_from(NAMES), st.binary(max_size=200), min_size=1, max_size=4))
def test_files_of_random_bytes_under_known_names(files: dict[str, bytes]) -> None:
    with folder_of() as folder:
        for name, data in files.items():
            (folder / name).write_bytes(data)
        answer(folder)
        for name in files:
            answer(folder / name)


CELLS = st.sampled_from(
    ["", "0", "1", "-1", "1e308", "-1e308", "1e-320", "nan", "inf", "-inf", "True", "x", '"', "é", "1_0", " 7 ", "0x1", "1" * 400]
)
COLUMNS = st.sampled_from(
    [
        "time/total_timesteps",
        "rollout/ep_rew_mean",
        "train/loss",
        "r",
        "l",
        "t",
        "step",
        "episode",
        "reward",
        "mean_reward",
        "kl",
        "epoch",
        "x",
        "",
    ]
)


@OFTEN
@given(
    st.sampled_from(NAMES),
    st.lists(COLUMNS, min_size=1, max_size=5),
    st.lists(st.lists(CELLS, max_size=6), max_size=12),
    st.sampled_from(",;\t"),
)
def test_tables_of_odd_cells(name: str, header: list[str], table: list[list[str]], comma: str) -> None:
    with folder_of() as folder:
        text = "\n".join(comma.join(row) for row in [header, *table]) + "\n"
        (folder / name).write_text(text)
        answer(folder / name)
        answer("-", io.BytesIO(text.encode()))


@OFTEN
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda part: st.lists(part) | st.dictionaries(COLUMNS, part),
    )
)
def test_json_of_any_shape(value: object) -> None:
    with folder_of() as folder:
        for name in ("config.json", "progress.json", "log.jsonl", "status.json", "group.json"):
            (folder / name).write_text(json.dumps(value) + "\n")
        (folder / "metrics.csv").write_text("total_timesteps,epoch,train/ep_rew_mean\n1,0,2\n")
        answer(folder)
        (folder / "config.json").write_text(
            json.dumps({"schema_version": 1, "env": value, "algo": value, "seed": value, "source": value, "spec": value})
        )
        answer(folder)
        (folder / "config.json").write_text(
            json.dumps({"env_id": "X", "n_envs": value, "spec": value, "max_env_steps": value, "env_wrappers": [value]})
        )
        answer(folder)


PRINTED = st.sampled_from(
    [
        *("| a | 1 |", "|    b | nan |", "| time/ |  |", "|    total_timesteps | 5 |", "-------", "step: 5 kl=3", "\x1b[1m", "\r", "X: y"),
        *("Traceback (most recent call last):", "global_step=1, episodic_return=[2.]", "Eval num_timesteps=1, episode_reward=1 +/- 2"),
    ]
)


@OFTEN
@given(st.lists(PRINTED, max_size=30), st.text(max_size=20))
def test_text_of_any_kind_through_a_pipe(parts: list[str], more: str) -> None:
    answer("-", io.BytesIO("\n".join([*parts, more]).encode("utf-8", errors="surrogatepass")))


@pytest.mark.parametrize("file", FILES)
def test_a_sample_with_one_damaged_file_still_gives_an_answer(file: str) -> None:
    root = file.split("/")[0]
    with folder_of("copy") as folder:
        shutil.copytree(SAMPLES / root, folder / root)
        damaged = next((folder / root).glob("*tfevents*")) if "tfevents" in file else folder / file
        original = damaged.read_bytes()

        @settings(max_examples=15)
        @given(st.data())
        def damage(data: st.DataObject) -> None:
            begin = data.draw(st.integers(0, len(original)))
            end = data.draw(st.integers(begin, min(len(original), begin + 64)))
            filling = data.draw(st.binary(max_size=64))
            cut = data.draw(st.sampled_from([len(original), begin, len(original) // 2]))
            damaged.write_bytes((original[:begin] + filling + original[end:])[:cut])
            answer(folder / root)
            answer(damaged)

        damage()


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=40))
def test_what_can_be_read_can_be_imported(rows: list[tuple[float, float]]) -> None:
    with folder_of() as folder:
        (folder / "log.csv").write_text("step,mean_reward\n" + "".join(f"{step!r},{value!r}\n" for step, value in rows))
        found = answer(folder)
        store = Store(folder / "runs")
        for history, run in zip(found, readers.import_runs(found, store), strict=True):
            name = "train/roll/ep_rew_mean"
            assert of_run(run)[name].values.tolist() == history[name].values.tolist()


def test_a_million_rows_are_thinned_and_the_ends_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    rows = "".join(f"{step},{step % 97}.5,\n" for step in range(100_000))
    with path.open("w") as file:
        file.write("step,mean_reward,eval_reward\n")
        for part in range(10):
            file.write(rows.replace("\n", f"{part}\n", 1) if part else rows)
    (found,) = answer(path)
    assert len(found["train/roll/ep_rew_mean"]) <= 2 * thinning.LIMIT
    # The step count began again nine times, and each time one evaluation was logged: rare values are never thinned.
    assert len(found.segments) == 9
    assert found["val/roll/ep_rew_mean"].values.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "console"])
def test_memory_does_not_follow_the_length_of_a_log(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 1 << 14)
    monkeypatch.setattr(thinning, "LIMIT", 128)
    row = {
        "csv": "{step},1.25,0.5,0.01,3\n",
        "jsonl": '{{"step": {step}, "mean_reward": 1.25, "kl": 0.01}}\n',
        "console": "| time/ | |\n|    total_timesteps | {step} |\n|    fps | 12 |\n------------\n",
    }[kind]
    rows = 10_000 if kind == "console" else 30_000
    path = tmp_path / f"log.{'txt' if kind == 'console' else kind}"
    path.write_text(("step,mean_reward,entropy,kl,lr\n" if kind == "csv" else "") + "".join(row.format(step=step) for step in range(rows)))
    answer(path)
    tracemalloc.start()
    answer(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 500_000 < path.stat().st_size


def test_deeply_nested_and_endless_lines_are_errors(tmp_path: Path) -> None:
    for name, text in (
        ("a.json", "[" * 100_000),
        ("b.jsonl", '{"a":' * 100_000),
        ("config.json", "[" * 100_000),
        ("c.csv", "a" * 20_000_000),
    ):
        (tmp_path / name).write_text(text)
        assert answer(tmp_path / name) == []
    answer(tmp_path)


# ── trackers' own files ──


ODD_JSON = st.sampled_from(
    [b"NaN", b"1e308", b"-1e999", b"9" * 5_000, b"[" * 5_000, b'{"a":' * 3_000, b'"x"', b"\xff\xfe", b"", b"null", b"true"]
)
ODD_RECORDS = st.one_of(
    st.binary(max_size=80),
    st.builds(wandb_files.history, st.integers(0, 2**64 - 1), st.dictionaries(COLUMNS, st.floats() | st.integers(), max_size=4)),
    st.builds(
        lambda key, value: wandb_files.field(2, wandb_files.field(1, wandb_files.field(2, key.encode()) + wandb_files.field(16, value))),
        COLUMNS,
        ODD_JSON,
    ),
    st.builds(
        wandb_files.about, st.dictionaries(st.sampled_from(["lr", "env_id", "gamma", "seed", "_wandb"]), st.floats() | st.text(max_size=5))
    ),
    st.builds(lambda place, content: wandb_files.field(place, content), st.sampled_from([2, 5, 13, 17, 18]), st.binary(max_size=60)),
)


@OFTEN
@given(st.lists(ODD_RECORDS, max_size=12))
def test_records_of_odd_fields_in_a_file_of_weights_and_biases(records: list[bytes]) -> None:
    with folder_of() as folder:
        answer(wandb_files.write(folder / "run-1.wandb", records))


@OFTEN
@given(st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 5), st.integers(0, 65_535), st.booleans()), max_size=8))
def test_chunks_with_lying_lengths_and_kinds(chunks: list[tuple[bytes, int, int, bool]]) -> None:
    with folder_of() as folder:
        written = bytearray(wandb_files.MAGIC)
        for content, kind, length, honest in chunks:
            made = bytearray(wandb_files.chunk(content, kind))
            if not honest:
                made[4:6] = length.to_bytes(2, "little")
            written += made
        (folder / "run-1.wandb").write_bytes(written)
        answer(folder)


def test_a_field_nested_without_end_is_no_recursion(tmp_path: Path) -> None:
    nested = b""
    for _ in range(20_000):
        nested = wandb_files.field(2, nested)[:60_000]
    assert answer(wandb_files.write(tmp_path / "run-1.wandb", [nested, wandb_files.field(2, nested)])) == []


def test_a_long_file_of_weights_and_biases_is_read_in_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "LIMIT", 128)
    monkeypatch.setattr(wandb, "_FLUSH", 64)
    rows = (wandb_files.history(place, {"mean_reward": 1.25, "kl": 0.01, "env_steps": place}) for place in range(12_000))
    file = wandb_files.write(tmp_path / "run-1.wandb", rows)
    answer(file)
    tracemalloc.start()
    answer(file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 600_000 < file.stat().st_size


MLFLOW = """
    CREATE TABLE runs (run_uuid TEXT, name TEXT, status TEXT, lifecycle_stage TEXT, start_time INTEGER);
    CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);
    INSERT INTO runs VALUES ('a', 'first', 'FINISHED', 'active', 1);
"""
TABLE = "CREATE TABLE metrics (key TEXT, value, timestamp INTEGER, run_uuid TEXT, step, is_nan INTEGER);"


def make_database(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(MLFLOW + script)
    return path


@OFTEN
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["rollout/ep_rew_mean", "train/approx_kl", "x", ""]),
            st.none() | st.floats(allow_nan=False) | st.text(max_size=3) | st.binary(max_size=3) | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=3),
        ),
        max_size=12,
    )
)
def test_a_database_of_odd_cells(cells: list[tuple[str, object, object]]) -> None:
    with folder_of() as folder:
        path = make_database(folder / "mlflow.db", TABLE)
        with closing(sqlite3.connect(path)) as database, database:
            database.executemany("INSERT INTO metrics VALUES (?, ?, 1, 'a', ?, 0)", cells)
        answer(path)


@pytest.mark.parametrize(
    "script",
    [
        "CREATE VIEW metrics AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT 'kl' AS key, x AS value FROM n;",
        "CREATE VIRTUAL TABLE metrics USING fts5(key, value);",
        TABLE.replace("is_nan INTEGER", "is_nan AS (abs(step) + length(zeroblob(100000000)))"),
        TABLE.replace("value,", "amount,"),
        "",
    ],
    ids=["a view without end", "a virtual table", "a column that computes", "a column that is missing", "no table"],
)
def test_a_database_that_computes_or_lacks_something_is_an_error_soon(script: str, tmp_path: Path) -> None:
    path = make_database(tmp_path / "mlflow.db", script)
    if "abs(" in script:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("INSERT INTO metrics (key, value, timestamp, run_uuid, step) VALUES ('kl', 1, 1, 'a', 1)")
    began = time.perf_counter()
    assert answer(path) == []
    assert time.perf_counter() - began < 10


def test_a_question_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlflow, "_MOST_WORK", 3)
    path = make_database(tmp_path / "mlflow.db", TABLE)
    with closing(sqlite3.connect(path)) as database, database:
        database.executemany("INSERT INTO metrics VALUES ('kl', 1, ?, 'a', ?, 0)", [(place, place) for place in range(20_000)])
    assert answer(path) == []


@pytest.mark.parametrize("number", ["0", "-3", "1.0e+308", ".nan", ".inf", "[]", "{}", "'x'", "9" * 400])
def test_sizes_that_nobody_trains_with_make_no_axis(number: str, copy_sample: CopySample) -> None:
    folder = copy_sample("rsl_rl")
    for file in folder.rglob("*.yaml"):
        lines = [
            line if not line.strip().startswith(("num_", "max_iter")) else f"{line.split(':')[0]}: {number}"
            for line in file.read_text().splitlines()
        ]
        file.write_text("\n".join(lines) + "\n")
    for history in answer(folder):
        assert history.env_steps is None or history.env_steps < 1e9


def test_nothing_is_written_beside_a_database(copy_sample: CopySample) -> None:
    folder = copy_sample("mlflow")
    before = sorted((file, file.stat().st_mtime_ns) for file in folder.rglob("*"))
    answer(folder / "mlflow.db")
    assert sorted((file, file.stat().st_mtime_ns) for file in folder.rglob("*")) == before


def test_a_folder_in_place_of_a_file_is_no_traceback(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).mkdir()
    answer(tmp_path)
