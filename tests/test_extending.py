"""docs/extending.md, done: its files are written down, its entry points installed, its commands typed."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.launch.warm import Warm

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "extending.md").read_text()
FILES = re.findall(r"```python\n# (\S+\.py)\n(.*?)```", PAGE, flags=re.DOTALL)
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL) for line in block.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page's files, installed as pip would leave them."""
    folder = tmp_path_factory.mktemp("extending")
    for name, code in FILES:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code)
    declared = tomllib.loads(re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)[0])["project"]["entry-points"]
    about = folder / "my_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my_package\nVersion: 1.0\n")
    lines = [f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items()) for group, entries in declared.items()]
    (about / "entry_points.txt").write_text("\n".join(lines))
    (folder / "mine.tally").write_text("\n".join(str(value) for value in range(40)))
    return folder


def python(folder: Path, *words: str) -> str:
    surroundings = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_works(command: str, folder: Path, warm: Warm, tmp_path: Path) -> None:
    program, *words = shlex.split(command)
    assert program == "rlclinic"
    printed = tmp_path / "printed"
    surroundings = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    code = warm.start(*words, module="rlclinic", printed=printed, cwd=folder, environment=surroundings).wait()
    assert code == 0, printed.read_text()
    assert printed.read_text()


def test_the_rule_of_the_page_keeps_its_promise_and_its_dose_is_prescribed(folder: Path) -> None:
    code = """
from rlclinic.diagnosis import engine, explanation, registry
from rlclinic.treatment.prescription.prescribe import make_prescriptions
rule = registry.find("SQU101")
found = engine.diagnose([rule.bad()])
print(found.causes[0].id, [len(explanation.examine_shown(rule, good)) for good in rule.good])
print([dict(rx.changes) for rx in make_prescriptions(found, [rule.bad()], None)][:1])
"""
    first, second = python(folder, "-c", code).splitlines()
    assert first == "squash-too-small [0]"
    assert second == "[{'algo.squash': 2.0}]"


def test_every_kind_of_entry_point_that_there_is_stands_on_the_page() -> None:
    declared = re.compile(r'(?:ENTRY_POINTS|GROUP): Final = "(rlclinic\.[a-z]+)"')
    groups = {group for path in (ROOT / "rlclinic").rglob("*.py") for group in declared.findall(path.read_text())}
    assert {
        "rlclinic.algorithms",
        "rlclinic.networks",
        "rlclinic.rules",
        "rlclinic.doses",
        "rlclinic.readers",
        "rlclinic.operations",
    } <= groups
    assert [group for group in sorted(groups) if f"`{group}`" not in PAGE] == []
