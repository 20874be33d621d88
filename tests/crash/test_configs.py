"""A wrong YAML file from the command line: said at once, with the place and the cure, and nothing is started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch.warm import ROOT

GOOD = "ppo:\n  env: {id: CartPole-v1, n_envs: 8}\n  algo: {name: ppo, n_steps: 32, batch_size: 256}\n  run: {max_env_steps: 1_000}\n"
WRONG: dict[str, tuple[str | bytes, int, list[str]]] = {
    "not YAML": (GOOD.replace("n_envs: 8}", "n_envs: 8"), 2, ["wrong.yaml:3 is not valid YAML"]),
    "an unknown key": (GOOD.replace("n_steps", "n_step"), 2, ["wrong.yaml:3", "algo.n_step is no setting", "Try: algo.n_steps"]),
    "a word for a number": (GOOD.replace("n_envs: 8", "n_envs: eight"), 2, ["env.n_envs=eight", "wrong.yaml:2", "must be a whole number"]),
    "out of range": (GOOD.replace("n_steps: 32", "n_steps: 32, gamma: 1.5"), 2, ["algo.gamma=1.5", "must be at most 1"]),
    "a batch that does not divide": (
        GOOD.replace("256", "100"),
        2,
        ["algo.batch_size=100 does not divide the rollout of 256", "--set algo.batch_size=128"],
    ),
    "a list": ("- ppo\n", 2, ["holds no `key: value` settings"]),
    "bytes that are no text": (b"\xff\xfe\x00", 2, ["is no text in UTF-8"]),
    "another variant": (GOOD.replace("ppo:", "other:"), 3, ["variant"]),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file_is_refused_before_anything_is_made(what: str, tmp_path: Path) -> None:
    content, code, essentials = WRONG[what]
    (tmp_path / "wrong.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    variant = ":ppo" if what == "another variant" else ""
    done = subprocess.run(
        [sys.executable, "-m", "rlclinic.serve.cli.app", "train", f"wrong.yaml{variant}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    for essential in [*essentials, "Try:"]:
        assert essential in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.yaml"]
