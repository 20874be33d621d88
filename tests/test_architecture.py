"""The rules that keep the code readable: who may import whom, where files lie, what stays light, which names are public."""

import ast
import gc
import importlib
import re
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from rlclinic.ops.operations import OPERATIONS
from rlclinic.ops.request import fields_of

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "rlclinic"
MODULES = sorted(PACKAGE.rglob("*.py"))
HEAVY = ("torch", "gymnasium", "matplotlib", "scipy", "tensorboard", "fastapi", "uvicorn", "sqlalchemy", "alembic", "mcp")
EMPTY_WORDS = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
PRIVATE_WORDS = {
    "told",
    "lived",
    "joined",
    "asked",
    "said",
    "morning",
    "turns",
    "working",
    "beside",
    "testimony",
    "storing",
    "assembling",
    "guesses",
}
MOST_FILES, MOST_FILES_ELSEWHERE = 16, 25
SAY_OPTIONS = {
    "rlclinic/actions.py",
    # The tables that options are made from, and other programs that are called with theirs.
    "rlclinic/ops/request.py",
    "rlclinic/ops/operations.py",
    "rlclinic/ops/jobs/audited.py",
    "rlclinic/ops/runs/video.py",
    "rlclinic/runs/recording/films.py",
    "rlclinic/launch/local.py",
    "rlclinic/treatment/prescription/translate/replay.py",
    "rlclinic/training/__main__.py",
}
OTHER_PROGRAMS = re.compile(r"\b(?:python|jupyter) .*")
LARGE_ROOMS = ("ops", "treatment", "serve", "training")
MOST_ALIASES = 10


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def nodes() -> list[tuple[str, list[ast.AST]]]:
    """Every node of every module, walked once for all of the tests."""
    return [(module, list(ast.walk(tree))) for module, tree in parsed()]


@cache
def parsed() -> list[tuple[str, ast.Module]]:
    gc.disable()  # a million nodes that stay are no garbage to look for
    trees = [(name_of(path), ast.parse(path.read_text())) for path in MODULES]
    gc.freeze()
    gc.enable()
    return trees


# ── layers ──


def check_layers(folder: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)


def test_imports_point_down_and_only_training_imports_torch() -> None:
    outcome = check_layers(ROOT)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


FORBIDDEN = {
    "runs": ("rlclinic.ops", "Imports point down only"),
    "launch": ("rlclinic.training", "Imports point down only"),
    "report": ("rlclinic.ops.runs", "Imports point down only"),
    "ops.runs": ("rlclinic.ops.diagnose", "Rooms of ops"),
    "ops.diagnose": ("rlclinic.ops.status", "Rooms of ops"),
    "ops.train": ("rlclinic.ops.treat", "Rooms of ops"),
    "ops": ("torch", "Only rlclinic.training and rlclinic.sentinels import torch"),
    "config": ("gymnasium", "Reading runs needs"),
    "training": ("pickle", "No scipy .*, no pickle"),
}


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the linter says of a package in which every forbidden import was planted."""
    folder = tmp_path_factory.mktemp("layers")
    shutil.copytree(PACKAGE, folder / "rlclinic", ignore=shutil.ignore_patterns("__pycache__", "*.yaml"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for package, (name, _) in FORBIDDEN.items():
        (folder / "rlclinic" / package.replace(".", "/") / "planted.py").write_text(f"import {name}\n")
    outcome = check_layers(folder)
    assert outcome.returncode == 1, outcome.stdout + outcome.stderr
    return outcome.stdout


@pytest.mark.parametrize("package", FORBIDDEN)
def test_a_forbidden_import_breaks_its_contract(reported: str, package: str) -> None:
    name, broken = FORBIDDEN[package]
    assert re.search(rf"{broken}.* BROKEN", reported), reported
    reasons = re.search(rf"^{broken}[^\n]*\n-+\n(.*?)(?=\n[^\n]+\n-{{3,}}\n|\Z)", reported, re.DOTALL | re.MULTILINE)
    assert reasons is not None, reported
    assert f"rlclinic.{package}.planted -> {name} " in reasons[1], reported


# ── light: reading runs needs none of the training packages ──

BLOCK = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""
LOADED = f"""
print("loaded:", [name for name in {HEAVY!r} if name in sys.modules])
"""


def run_python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=folder, capture_output=True, text=True, check=False)


def cli(*arguments: str) -> str:
    return f"""
import sys
sys.argv = ["rlclinic", *{arguments!r}]
from rlclinic.serve.cli.app import main
try:
    status = main()
except SystemExit as leaving:
    status = leaving.code
assert not status, status
"""


@pytest.fixture(scope="module")
def folder_with_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from rlclinic.config import files
    from rlclinic.runs.store import Store

    folder = tmp_path_factory.mktemp("light")
    config = files.load("CartPole-v1:ppo").config
    Store(folder / "runs").create_group([config, config.model_copy(update={"seed": 1})])
    return folder


LIGHT = (
    "import sys, rlclinic",
    cli("--help"),
    cli("runs", "list"),
    cli("runs", "show", "@last"),
    cli("envs"),
    cli("config", "show", "CartPole-v1:ppo"),
)
"""One after the other in one process: what none of them imports, no one of them does."""


def test_it_works_where_torch_and_gymnasium_are_not_installed(folder_with_runs: Path) -> None:
    ids = [path.name for path in (folder_with_runs / "runs").iterdir() if not path.name.startswith("@")]
    outcome = run_python(BLOCK + "".join(LIGHT), folder_with_runs)
    assert outcome.returncode == 0, outcome.stderr
    assert len(ids) == 2
    assert all(run_id in outcome.stdout for run_id in ids), "and shows the runs"


def test_it_does_not_import_torch_even_where_it_is_installed(folder_with_runs: Path) -> None:
    outcome = run_python("".join(each + LOADED for each in LIGHT), folder_with_runs)
    assert outcome.returncode == 0, outcome.stderr
    assert [line for line in outcome.stdout.splitlines() if line.startswith("loaded:")] == ["loaded: []"] * len(LIGHT)


def test_training_really_is_missing_where_torch_is_blocked(tmp_path: Path) -> None:
    outcome = run_python(BLOCK + "import rlclinic.training.rng", tmp_path)
    assert "No module named 'torch'" in outcome.stderr


# ── names and shape ──


def test_no_folder_has_more_files_than_a_newcomer_can_look_over() -> None:
    """`__init__.py` counts. A folder that grows beyond this holds two ideas: find them, and give each a room."""
    counts = Counter(path.parent for top in ("rlclinic", "tests", "benchmarks", "docs", "examples") for path in (ROOT / top).rglob("*.py"))
    large = tuple(PACKAGE / room for room in LARGE_ROOMS)
    most = {folder: MOST_FILES if any(folder.is_relative_to(room) for room in large) else MOST_FILES_ELSEWHERE for folder in counts}
    assert {name_of(folder): count for folder, count in counts.items() if count > most[folder]} == {}


def test_our_own_modules_keep_their_names_where_they_are_imported() -> None:
    """`import x as y` dodges a clash of names: two things are called the same, and a reader has to learn a third name."""
    aliases = [
        f"{module}:{node.lineno} {alias.name} as {alias.asname}"
        for module, found in nodes()
        for node in found
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if alias.asname and f"{getattr(node, 'module', '')}.{alias.name}".lstrip(".").startswith("rlclinic.")
    ]
    assert len(aliases) <= MOST_ALIASES, "\n".join(aliases)


def test_no_module_has_a_name_that_says_nothing_or_that_only_we_understand() -> None:
    banned = EMPTY_WORDS | PRIVATE_WORDS
    paths = {path: {*path.stem.split("_"), *path.relative_to(ROOT).parts} for path in MODULES}
    assert [name_of(path) for path, words in paths.items() if banned & words] == []


def test_no_function_is_called_by_a_word_that_only_we_understand() -> None:
    """The name as a whole: a verb says what a function does (`join_rows`), a participle only that something was done."""
    names = [
        f"{module}:{node.lineno} {node.name}"
        for module, found in nodes()
        for node in found
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name.strip("_").lower() in PRIVATE_WORDS
    ]
    assert names == []


def test_a_name_that_once_stood_for_several_things_stands_for_one() -> None:
    """`Outcome`, `Part`, `Watch` and `Plan` had up to five meanings. The two loops of training have a `Plan` each."""
    places: dict[str, set[str]] = {}
    for module, tree in parsed():
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
            defined = [target.id for target in targets if isinstance(target, ast.Name)]
            for name in [node.name] if isinstance(node, ast.ClassDef) else defined:
                places.setdefault(name, set()).add(module)
    assert {name: len(places.get(name, ())) for name in ("Outcome", "Part", "Watch")} == {"Outcome": 1, "Part": 0, "Watch": 1}
    assert places["Plan"] == {"rlclinic/training/loops/off_policy.py", "rlclinic/training/loops/on_policy.py"}


def list_options() -> dict[str, list[str]]:
    """Options of the command line in texts below serve/, by module; docstrings aside, and what other programs are called with."""
    options_of_all = [field.option for operation in OPERATIONS if (model := operation.model) for field in fields_of(model)]
    own = {option.partition("/")[0].replace("_", "-").removeprefix("no-") for option in options_of_all}
    option = re.compile(rf"(?<![\w-])--(no-)?({'|'.join(sorted(own, key=len, reverse=True))})(?![\w-])")
    options: dict[str, list[str]] = {}
    for module, found in nodes():
        if module.startswith("rlclinic/serve/") or module in SAY_OPTIONS or module.endswith("/requests.py"):
            continue
        docstrings = {id(node.value) for node in found if isinstance(node, ast.Expr)}
        # What only people are told may be said as they type it.
        for_people = [node for node in found if isinstance(node, ast.Call) and ast.unparse(node.func) == "ForPeople"]
        docstrings |= {id(part) for call in for_people for part in ast.walk(call)}
        texts = [node for node in found if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        for node in texts:
            if id(node) not in docstrings and option.search(OTHER_PROGRAMS.sub("", node.value)):
                options.setdefault(module, []).append(f"{module}:{node.lineno} {node.value.strip()}")
    return options


def test_no_text_below_serve_names_an_option_of_the_command_line() -> None:
    """`Change` and `Argument` say it at every face."""
    assert [line for lines in list_options().values() for line in lines] == []


def test_every_module_says_what_it_is_for() -> None:
    assert [name for name, tree in parsed() if tree.body and not ast.get_docstring(tree)] == []


def test_inheritance_is_one_level_deep() -> None:
    """Our classes may extend a library's class or one of ours that extends none of ours; the exception tree is the exception.

    `Strict` counts as a library's: it is pydantic's BaseModel with our settings, and algorithms of one kind share fields above it.
    """
    bases = {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for module, found in nodes()
        if module != "rlclinic/errors.py"
        for node in found
        if isinstance(node, ast.ClassDef)
    }
    chains = [
        f"{name} < {base} < {grand}"
        for name in bases
        for base in bases[name]
        if base in bases
        for grand in bases[base]
        if grand in bases and grand != "Strict"
    ]
    assert chains == []


def test_the_tests_lie_in_the_same_rooms_as_the_code() -> None:
    """A newcomer who knows where a module is knows where its tests are. Suites across rooms stand on their own at the top."""
    across = {"attack", "benchmarks", "crash", "crossings", "deploy", "mutations", "recorded"}
    folders = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")}
    assert [str(folder) for folder in folders if folder.parts and folder.parts[0] not in across and not (PACKAGE / folder).is_dir()] == []


def test_whatever_needs_a_gpu_is_tested_with_training() -> None:
    """So that `pytest -m cuda tests/training` on a machine with one leaves nothing out."""
    marked = [
        path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark." + "cuda" in path.read_text()
    ]
    assert {path.parts[0] for path in marked} == {"training"}


# ── docs/architecture.md ──

PAGE = ROOT / "docs" / "architecture.md"


def defines(path: Path, name: str) -> bool:
    """Whether a module has this function or class; `Class.method` looks inside."""
    body: list[ast.stmt] = ast.parse(path.read_text()).body
    for part in name.split("."):
        fitting = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == part]
        if not fitting:
            return False
        body = fitting[0].body
    return True


def test_every_file_and_function_that_the_walks_name_exists() -> None:
    hops = re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", PAGE.read_text())
    missing = [f"{path}:{name}" for path, name in hops if not (PACKAGE / path).is_file() or (name and not defines(PACKAGE / path, name))]
    assert len(hops) > 40
    assert missing == [], "a name has changed: say so in docs/architecture.md"


def test_every_package_and_module_at_the_top_has_its_line() -> None:
    named = set(re.findall(r"`(\w+)(?:/|\.py)`", PAGE.read_text().partition("| package |")[2].partition("##")[0]))
    there = {path.stem for path in PACKAGE.iterdir() if (path.is_dir() or path.suffix == ".py") and not path.name.startswith("__")}
    assert there - {"python"} == named


# ── what no code here does ──


def test_no_exception_is_swallowed_without_naming_it() -> None:
    bare = [
        f"{module}:{node.lineno}"
        for module, found in nodes()
        for node in found
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]
    assert bare == []


def imported_roots(found: list[ast.AST]) -> set[str]:
    roots = set()
    for node in found:
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            roots.add(node.module.partition(".")[0])
    return roots


def unpickles(call: ast.Call) -> bool:
    allowed = any(each.arg == "allow_pickle" and ast.unparse(each.value) != "False" for each in call.keywords)
    return allowed or ast.unparse(call.func) in ("torch.load", "torch.save")


def test_nothing_unpickles_a_file() -> None:
    """torch.load and numpy's allow_pickle run code from the file just as pickle does."""
    imports = [module for module, found in nodes() if {"pickle", "cloudpickle", "dill", "joblib", "shelve"} & imported_roots(found)]
    calls = [module for module, found in nodes() if any(unpickles(node) for node in found if isinstance(node, ast.Call))]
    assert imports + calls == []


def test_no_unfinished_mark_is_left() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError")
    assert [name_of(path) for path in MODULES if marks.search(path.read_text())] == []


def test_no_test_runs_a_loop_in_the_thread_where_a_browser_has_one() -> None:
    """Which tests share a process with a browser is chance; `stores.ran` is a thread of its own."""
    ran = re.compile(r"^(?!.*(Thread|[\"'])).*\b(anyio|asyncio)\.run\(", re.MULTILINE)
    tests = Path(__file__).parent
    assert [str(path.relative_to(tests)) for path in sorted(tests.rglob("*.py")) if ran.search(path.read_text())] == []


# ── names that others may rely on ──


def test_every_exported_name_exists() -> None:
    missing = []
    for path in MODULES:
        if path.name in ("__main__.py", "fused_kernels.py"):  # the second needs Triton, which comes with PyTorch for GPUs
            continue
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
        missing += [f"{module.__name__}.{name}" for name in getattr(module, "__all__", []) if not hasattr(module, name)]
    assert missing == []


def test_the_public_api_is_what_the_package_exports() -> None:
    import rlclinic

    assert {"train", "load_run", "load_group"} <= set(rlclinic.__all__)
    assert {name for name in dir(rlclinic) if not name.startswith("_")} >= set(rlclinic.__all__) - {"__version__"}
    for name in rlclinic.__all__:
        public = getattr(rlclinic, name)
        assert name.startswith("__") or public.__doc__, f"rlclinic.{name} has no docstring"
