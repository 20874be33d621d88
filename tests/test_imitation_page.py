"""docs/imitation.md, done: its expert is written down, its commands typed, its code run."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rlclinic.diagnosis import registry
from tests.launch.warm import Warm

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "imitation.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_page_works_from_top_to_bottom(warm: Warm, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    expert, reading = blocks("python")
    (tmp_path / "my_expert.py").write_text(expert)
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT)}
    for command in [line for block in blocks("sh") for line in block.splitlines()]:
        program, *words = shlex.split(command)
        assert program == "rlclinic"
        printed = tmp_path / "printed"
        code = warm.start(*words, module="rlclinic", printed=printed, cwd=tmp_path, environment=surroundings).wait()
        assert code == 0, printed.read_text()
    done = subprocess.run([sys.executable, "-c", reading], cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("questions 40 ") == 6
    assert done.stdout.count("expert acted 1.0") == 2


def test_the_page_has_every_rule_of_imitation() -> None:
    known = {rule.id for rule in registry.rules() if rule.family == "imitation"}
    assert set(re.findall(r"IMI\d{3}", PAGE)) == known
