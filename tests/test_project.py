"""The promises around the code: what is installed is pinned, the documents name commands that exist, the tables are current."""

import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import rlclinic
from benchmarks import table
from docs import generate

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
CI_EXTRAS = ("train", "envs", "tensorboard", "hpo", "data", "server", "postgres", "redis", "s3", "ray", "mcp", "dev")
EVERY_PAGE = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What docs/extending.md names exists only where its package is installed: tests/test_extending.py does that, and types its commands.
PAGES = [page for page in EVERY_PAGE if page.name != "extending.md"]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def needed(requirements: list[str]) -> set[str]:
    """Every distribution that these requirements pull in on this machine."""
    unseen, seen = [Requirement(text) for text in requirements], set()
    names = set()
    while unseen:
        requirement = unseen.pop()
        for extra in ("", *sorted(requirement.extras)):
            key = (canonicalize_name(requirement.name), extra)
            if key in seen:
                continue
            seen.add(key)
            names.add(key[0])
            further = [Requirement(text) for text in metadata.requires(requirement.name) or []]
            unseen += [found for found in further if not found.marker or found.marker.evaluate({"extra": extra})]
    return names


# ── what is installed ──


def test_every_package_that_ci_installs_is_pinned() -> None:
    project = PYPROJECT["project"]
    asked = [*project["dependencies"], *(text for extra in CI_EXTRAS for text in project["optional-dependencies"][extra])]
    assert needed(asked) - set(pins()) == set()


def test_the_pins_are_what_the_tests_run_with() -> None:
    installed = {name: metadata.version(name).partition("+")[0] for name in pins()}
    assert installed == pins()


def test_the_makefile_installs_the_pinned_torch_and_the_extras_that_are_pinned() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert set(re.findall(r"torch==([\d.]+)", makefile)) == {pins()["torch"]}
    assert f"EXTRAS := {','.join(CI_EXTRAS)}" in makefile


def test_the_base_install_is_light() -> None:
    assert needed(PYPROJECT["project"]["dependencies"]) & {"torch", "gymnasium", "matplotlib", "scipy", "tensorboard", "pandas"} == set()


def test_ci_runs_what_a_developer_types() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().splitlines()[-1] == "exec make test"


def test_the_console_script_starts_the_command_line() -> None:
    (script,) = metadata.entry_points(group="console_scripts", name="rlclinic")
    assert callable(script.load())


def test_the_package_and_the_project_have_one_version() -> None:
    assert rlclinic.__version__ == PYPROJECT["project"]["version"] == metadata.version("rlclinic")


def test_the_licence_is_the_one_that_the_package_names() -> None:
    assert PYPROJECT["project"]["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")


# ── what would be published ──

SDIST_MEGABYTES, WHEEL_MEGABYTES = 3.0, 3.0
"""Code alone: recorded corpora would take more than this each."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel."""
    folder = tmp_path_factory.mktemp("built")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, capture_output=True, check=True)
    return folder


def test_the_sdist_holds_the_package_and_its_documents_and_no_recording(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        files = {Path(*Path(member.name).parts[1:]) for member in archive.getmembers() if member.isfile()}
    assert {name.parts[0] for name in files} == {
        "rlclinic",
        "docs",
        "examples",
        "README.md",
        "LICENSE",
        "pyproject.toml",
        "PKG-INFO",
        ".gitignore",
    }
    assert [str(name) for name in files if name.suffix in (".npz", ".gz", ".zip", ".png") or "__pycache__" in name.parts] == []
    assert {Path("docs/diagnosis.md"), Path("docs/rules/index.md"), Path("examples/own_environment.py")} <= files
    assert {path.relative_to(ROOT) for path in (ROOT / "rlclinic").rglob("*.py")} <= files
    assert path.stat().st_size < SDIST_MEGABYTES * 1e6


def test_the_wheel_holds_the_package_with_its_data_and_nothing_else(built: Path) -> None:
    (path,) = built.glob("*.whl")
    files = {Path(name) for name in zipfile.ZipFile(path).namelist()}
    assert {name.parts[0] for name in files} == {"rlclinic", f"rlclinic-{rlclinic.__version__}.dist-info"}
    tracked = subprocess.run(["git", "ls-files", "rlclinic"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    assert {Path(name) for name in tracked if (ROOT / name).exists()} <= files
    assert path.stat().st_size < WHEEL_MEGABYTES * 1e6


# ── what the documents promise ──


def shell_lines(page: Path) -> list[str]:
    """Commands in a page's shell blocks, comments and prompts taken off."""
    blocks = re.findall(r"```(?:sh|bash|console)\n(.*?)```", page.read_text(), flags=re.DOTALL)
    return [line.removeprefix("$ ").partition("  #")[0].strip() for block in blocks for line in block.splitlines()]


def documented(word: str) -> list[str]:
    return sorted({line for page in PAGES for line in shell_lines(page) if line.startswith(f"{word} ")})


@pytest.mark.parametrize("line", documented("rlclinic"))
def test_a_documented_command_exists_with_its_options(line: str) -> None:
    import typer.main

    from rlclinic.serve.cli.app import app

    command: Any = typer.main.get_command(app)
    words = shlex.split(line)[1:]
    # A group may be a command by itself: `rlclinic serve --port 9000`.
    while words and hasattr(command, "commands") and not (words[0].startswith("-") and command.params):
        name = words.pop(0)
        assert name in command.commands, f"`{line}`: no such command as {name!r}"
        command = command.commands[name]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    options = {word.partition("=")[0] for word in words if word.startswith("-") and not re.fullmatch(r"-[\d.]+", word)}
    assert options <= known


@pytest.mark.parametrize("line", [line for line in documented("rlclinic") if line.startswith("rlclinic train ")])
def test_a_documented_training_has_a_valid_config(line: str) -> None:
    from rlclinic.config import files

    words = shlex.split(line)[2:]
    if not words[0].startswith(("@", "-")):
        settings = [words[index + 1] for index, word in enumerate(words) if word == "--set"]
        assert files.load(words[0], settings).config.env.id


@pytest.mark.parametrize("line", documented("make"))
def test_a_documented_make_target_exists(line: str) -> None:
    assert re.search(rf"^{re.escape(line.split()[1])}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documented_python_uses_names_that_exist(page: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "rlclinic":
                assert node.attr in rlclinic.__all__
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rlclinic"):
                assert all(exists(f"{node.module}.{name.name}") for name in node.names)


def test_the_documents_link_to_files_that_exist() -> None:
    links = [(page, target) for page in EVERY_PAGE for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())]
    assert [f"{page.name}: {target}" for page, target in links if not (page.parent / target).exists()] == []


MODULE = re.compile(r"(?<![\w./-])((?:rlclinic|benchmarks|docs|tests)(?:\.(?!md\b|json\b|org\b)[a-z_]\w*)+)(?![\w/(])")
FILE = re.compile(r"(?<![\w./-])((?:rlclinic|benchmarks|docs|tests|examples)/[\w/.-]+\.(?:py|json|md|yaml))\b")


def exists(dotted: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        if path.is_dir() or path.with_suffix(".py").is_file():
            rest = parts[count:]
            return not rest or hasattr(importlib.import_module(".".join(parts[:count])), rest[0])
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_documents_name_modules_and_files_that_exist(page: Path) -> None:
    # Groups of entry points are called like modules and are none.
    text = re.sub(r'entry-points\."[^"]+"', "", page.read_text())
    gone = [name for name in set(MODULE.findall(text)) if not exists(name)]
    assert gone + [name for name in set(FILE.findall(text)) if not (ROOT / name).exists()] == []


def test_the_benchmark_page_is_what_the_results_say() -> None:
    assert table.PAGE.read_text() == table.render()


def test_every_result_is_on_the_benchmark_page() -> None:
    measured = {path.stem for path in (ROOT / "benchmarks" / "results").glob("*.json")}
    assert measured <= table.TITLES.keys(), "figures that nobody would see: give them a title in benchmarks/table.py"


@pytest.mark.parametrize("name", generate.PAGES)
def test_a_reference_page_is_what_the_code_says(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == generate.PAGES[name](), "Try: python -m docs.generate"
