"""Makes samples/wandb, samples/mlflow and samples/aim: run it with a Python that has the tracker and Stable-Baselines3; takes two minutes.

    pip install stable-baselines3 tensorboard wandb && python tests/readers/samples/make_tracker_samples.py wandb
    pip install stable-baselines3 tensorboard mlflow-skinny sqlalchemy alembic
    python tests/readers/samples/make_tracker_samples.py mlflow
    pip install stable-baselines3 aim && python tests/readers/samples/make_tracker_samples.py aim

Not run by the tests: they read what it wrote. PPO on CartPole three times: as it should be, with a learning rate that is far too high,
and with a discount that is far too low. W&B's files come from its own callback with synchronized TensorBoard events, and from plain
`wandb.log` calls; MLflow's from a writer of SB3's logger, into a database and into its older folder of files. Aim's database is
read by its own package alone: the sample is what that answers about a store of two runs.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from numbers import Real
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).resolve().parent
RUNS = {"healthy": {}, "rate": {"learning_rate": 0.1}, "discount": {"gamma": 0.3}}
STEPS = 30_000
SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-3,
    "n_steps": 128,
    "batch_size": 256,
    "n_epochs": 10,
    "gamma": 0.98,
    "gae_lambda": 0.8,
    "seed": 1,
}


def make_model(changes: dict[str, Any], **more: Any) -> Any:
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    return PPO("MlpPolicy", make_vec_env("CartPole-v1", 8, seed=1), device="cpu", **{**SETTINGS, **changes}, **more)


def make_wandb(work: Path) -> None:
    import wandb
    from stable_baselines3.common.callbacks import BaseCallback
    from wandb.integration.sb3 import WandbCallback

    os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_CONSOLE": "off", "WANDB__DISABLE_STATS": "true"}
    for name, changes in RUNS.items():
        config = {"env_id": "CartPole-v1", "n_envs": 8, "total_timesteps": STEPS, "algo": "PPO", **SETTINGS, **changes}
        run = wandb.init(project="sample", name=name, dir=work, config=config, sync_tensorboard=True)
        make_model(changes, tensorboard_log=str(work / "tb")).learn(STEPS, callback=WandbCallback())
        run.finish()

    class Plain(BaseCallback):
        """What scripts without a callback do: some numbers by their own names."""

        def _on_rollout_end(self) -> None:
            episodes = [episode["r"] for episode in self.model.ep_info_buffer]
            kl = self.model.logger.name_to_value.get("train/approx_kl")
            row = {"mean_return": sum(episodes) / max(len(episodes), 1), "env_steps": self.num_timesteps}
            wandb.log(row if kl is None else {**row, "losses": {"approx_kl": kl}})

        def _on_step(self) -> bool:
            return True

    run = wandb.init(project="sample", dir=work, config={"env": "CartPole-v1", "algo": {"name": "ppo", "lr": 1e-3}})
    make_model({}).learn(10_000, callback=Plain())
    run.finish()
    shutil.rmtree(SAMPLES / "wandb", ignore_errors=True)
    for file in sorted((work / "wandb").glob("offline-run-*/*.wandb")):
        folder = SAMPLES / "wandb" / file.parent.name
        folder.mkdir(parents=True)
        write_records(file, folder / file.name)


def write_records(source: Path, target: Path) -> None:
    """The file again, without what it says about the machine and without statistics that no reader looks at."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, place, parts, records = source.read_bytes(), 7, [], []
    while place + 7 <= len(data):
        if 32_768 - place % 32_768 < 7:
            place += 32_768 - place % 32_768
            continue
        length, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        parts.append(data[place + 7 : place + 7 + length])
        place += 7 + length
        if kind in (1, 4):
            records.append(Record.FromString(b"".join(parts)))
            parts = []
    written = bytearray(data[:7])
    for record in records:
        if record.WhichOneof("record_type") not in ("history", "summary", "config", "run", "exit", "final", "footer"):
            continue
        if record.HasField("run"):
            record.run.ClearField("host")
            record.run.ClearField("settings")
            record.run.ClearField("telemetry")
        content_of = [record.run.config] if record.HasField("run") else [record.config] if record.HasField("config") else []
        for config in content_of:
            kept = [
                item
                for item in config.update
                if item.key not in ("_wandb", "tensorboard_log", "tensorboard_logs") and "/" not in item.value_json
            ]
            del config.update[:]
            config.update.extend(kept)
        content = record.SerializeToString()
        begin = True
        while begin or content:
            room = 32_768 - len(written) % 32_768 - 7
            if room < 0:
                written += bytes(room + 7)
                continue
            part, content = content[:room], content[room:]
            kind = (1 if begin else 4) if not content else (2 if begin else 3)
            begin = False
            written += (
                zlib.crc32(part, zlib.crc32(bytes([kind]))).to_bytes(4, "little") + len(part).to_bytes(2, "little") + bytes([kind]) + part
            )
    target.write_bytes(written)


def make_mlflow(work: Path) -> None:
    import mlflow
    from stable_baselines3.common.logger import CSVOutputFormat, KVWriter, Logger

    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"

    class Writer(KVWriter):
        def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
            mlflow.log_metrics({key: float(value) for key, value in key_values.items() if isinstance(value, Real)}, step=step)

        def close(self) -> None:
            pass

    for store, names in ((f"sqlite:///{work / 'mlflow.db'}", ["healthy", "rate"]), (f"file:{work / 'mlruns'}", ["healthy"])):
        mlflow.set_tracking_uri(store)
        mlflow.set_experiment("cartpole")
        for name in names:
            with mlflow.start_run(run_name=name):
                mlflow.log_params({"env_id": "CartPole-v1", "n_envs": 8, "total_timesteps": STEPS, "algo": "PPO", **SETTINGS, **RUNS[name]})
                model = make_model(RUNS[name])
                model.set_logger(Logger(None, [Writer(), CSVOutputFormat(str(work / "progress.csv"))]))
                model.learn(STEPS)
    shutil.rmtree(SAMPLES / "mlflow", ignore_errors=True)
    (SAMPLES / "mlflow").mkdir()
    shutil.copy(work / "mlflow.db", SAMPLES / "mlflow")
    shutil.copytree(work / "mlruns", SAMPLES / "mlflow" / "mlruns")
    shrink(SAMPLES / "mlflow")


def shrink(folder: Path) -> None:
    """Without the tables of models and traces, which are empty; without names of users, and without paths."""
    import sqlite3

    kept = ("alembic_version", "experiments", "runs", "metrics", "latest_metrics", "params", "tags")
    database = sqlite3.connect(folder / "mlflow.db")
    for name, kind in list(database.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'trigger', 'view')")):
        if name not in kept and not name.startswith("sqlite_"):
            database.execute(f'DROP {kind} IF EXISTS "{name}"')
    database.execute("DELETE FROM tags WHERE key IN ('mlflow.user', 'mlflow.source.name', 'mlflow.source.git.commit')")
    database.execute("UPDATE runs SET user_id = '', source_name = '', artifact_uri = ''")
    database.execute("UPDATE experiments SET artifact_location = ''")
    # Every number is in the table and in two indexes: of the clocks nothing is kept, and every second row of the others.
    database.execute(
        "DELETE FROM metrics WHERE key LIKE 'time/%' OR key IN ('train/n_updates', 'train/clip_range', 'train/loss') OR step % 2048 != 0"
    )
    database.execute("DELETE FROM latest_metrics")
    database.commit()
    database.execute("PRAGMA page_size = 1024")  # two dozen tables and indexes of a few rows each
    database.execute("VACUUM")
    database.close()
    for file in [*folder.rglob("mlflow.user"), *folder.rglob("mlflow.source.*")]:
        file.unlink()
    for file in folder.rglob("meta.yaml"):
        kept_lines = [line for line in file.read_text().splitlines() if not line.startswith(("artifact_", "user_id", "source_name"))]
        file.write_text("\n".join(kept_lines) + "\n")


def make_aim(work: Path) -> None:
    from aim import Run
    from stable_baselines3.common.logger import KVWriter, Logger

    class Writer(KVWriter):
        def __init__(self, run: Any) -> None:
            self.run = run

        def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
            for key, value in key_values.items():
                if isinstance(value, Real) and not key.startswith("time/"):
                    self.run.track(float(value), name=key, step=step)

        def close(self) -> None:
            pass

    for name in ("healthy", "rate"):
        run = Run(
            repo=str(work), experiment="cartpole", system_tracking_interval=None, log_system_params=False, capture_terminal_logs=False
        )
        run.name = name
        run["hparams"] = {"env_id": "CartPole-v1", "n_envs": 8, "total_timesteps": STEPS, "algo": "PPO", **SETTINGS, **RUNS[name]}
        model = make_model(RUNS[name])
        model.set_logger(Logger(None, [Writer(run)]))
        model.learn(STEPS)
        run.close()
    subprocess.run(["aim", "storage", "--repo", str(work), "reindex"], input=b"y", check=True)
    record_aim(work)


def record_aim(work: Path) -> None:
    """What Aim's package answers about its store, and nothing else of it: a store of two runs takes two megabytes."""
    from aim import Repo

    runs = []
    for run in Repo(str(work)).iter_runs():
        metrics = []
        for metric in run.metrics():
            steps, columns = metric.data.items_list()
            hashes, _ = metric.values.sparse_numpy()
            told = {"name": metric.name, "context": metric.context.to_dict(), "steps": [int(step) for step in steps]}
            metrics.append({**told, "values": [float(value) for value in columns[0]], "hashes": [int(each) for each in hashes]})
        attributes = {"hparams": run.meta_run_attrs_tree.collect()["hparams"]}
        runs.append({"name": run.name, "hash": run.hash, "active": bool(run.active), "attributes": attributes, "metrics": metrics})
    shutil.rmtree(SAMPLES / "aim", ignore_errors=True)
    (SAMPLES / "aim").mkdir()
    (SAMPLES / "aim" / "answers.json").write_text(json.dumps(runs) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        {"wandb": make_wandb, "mlflow": make_mlflow, "aim": make_aim}[sys.argv[1]](Path(folder))
