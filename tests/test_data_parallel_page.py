"""docs/data-parallel.md, done: its code is executed, its commands are understood, and its table has every column of ranks."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlclinic.config import DATA_PARALLEL, files
from rlclinic.diagnosis import registry
from rlclinic.errors import UsageError
from rlclinic.ops.train import plan
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from rlclinic.training import rows

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "data-parallel.md").read_text()


def test_the_code_does_what_it_says() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert "assert" in block
    exec(compile(block, "docs/data-parallel.md", "exec"), {})


def test_the_page_names_every_algorithm_column_and_rule_of_ranks() -> None:
    assert all(name.upper() in PAGE for name in DATA_PARALLEL)
    assert all(f"`{name}`" in PAGE or f"/{name}`" in PAGE for name in (*rows.RANKS, *rows.RANK_TIMES))
    assert all(rule.id in PAGE for rule in registry.rules() if rule.family == "ranks" and rule.id <= "RNK109")


def test_the_commands_of_the_page_train_and_say_where_time_went(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(line, comments=True)[1:] for line in re.findall(r"^rlclinic .*", PAGE, flags=re.MULTILINE)]
    forced = next(command for command in commands if "--force" in command)
    done = CliRunner().invoke(app, [*forced, "--max-env-steps", "1024"])
    assert done.exit_code == 0, done.output
    assert Store("runs").run("@last").config.run.data_parallel == 2
    assert "2: " in (shown := CliRunner().invoke(app, commands[-1]).output)
    assert "x one process" in shown
    (line,) = re.findall(r"^torchrun .*", PAGE, flags=re.MULTILINE)
    config = files.load("CartPole-v1:ppo", ["run.data_parallel=2", "run.allow_slower=true", "run.max_env_steps=1024"]).config
    run = Store("runs").create_group([config]).runs[0]
    words = [word.replace("runs/RUN", str(run.path)) for word in line.split()[1:]]
    launched = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert launched.returncode == 0, launched.stderr
    assert Store("runs").run(run.id).status.state == "finished"


def test_the_batch_is_scaled_by_the_stated_rules(tmp_path: Path) -> None:
    def scaled(*changes: str) -> plan.Config:
        request = TrainRequest(ref="CartPole-v1:ppo_zoo", data_parallel=4, scale_batch=True, changes=list(changes), runs_dir=tmp_path)
        return plan.plan_training(request).configs[0]

    before, after = files.load("CartPole-v1:ppo_zoo").config, scaled()
    assert (after.env.n_envs, after.batch_rows) == (4 * before.env.n_envs, 4 * before.batch_rows)
    assert after.algo.learning_rate.start == pytest.approx(2 * before.algo.learning_rate.start)
    assert scaled("algo.optimizer=sgd", "algo.learning_rate=0.1").algo.learning_rate == pytest.approx(0.4)
    with pytest.raises(UsageError, match="there is one"):
        plan.plan_training(TrainRequest(ref="CartPole-v1:ppo", scale_batch=True, runs_dir=tmp_path))


def test_a_resume_with_another_number_of_ranks_is_refused_with_the_number(tmp_path: Path) -> None:
    config = files.load("CartPole-v1:ppo", ["run.data_parallel=2"]).config
    run = Store(tmp_path).create_group([config]).runs[0]
    with pytest.raises(UsageError, match="begun with 2 ranks"):
        plan.plan_training(TrainRequest(resume=run.id, data_parallel=4, runs_dir=tmp_path))
