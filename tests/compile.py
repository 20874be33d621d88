"""`python -m tests.compile`: compile the package and its tests once, before pytest's workers do it each for themselves.

In a fresh clone nothing is compiled, and the assertions of tests, which pytest rewrites, take longer to compile than all of the package.
"""

import compileall
import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def compile_file(path: Path) -> None:
    """What Python, or pytest in its place, would write beside a module that it imports."""
    if path.name.startswith("test_") or path.name == "conftest.py":
        # Functions of pytest's own: where they are others, its workers do it as ever.
        with suppress(ImportError, AttributeError, TypeError):
            rewrite_assertions(path)
    else:
        compileall.compile_file(path, quiet=1)


def rewrite_assertions(path: Path) -> None:
    from _pytest.assertion import rewrite
    from _pytest.assertion.rewrite import PYC_TAIL, _read_pyc, _rewrite_test, _write_pyc

    compiled = rewrite.get_cache_dir(path) / f"{path.stem}{PYC_TAIL}"
    if _read_pyc(path, compiled) is None and rewrite.try_makedirs(compiled.parent):
        checked, code = _rewrite_test(path, None)  # type: ignore[arg-type]
        _write_pyc(None, code, checked, compiled)  # type: ignore[arg-type]


if __name__ == "__main__":
    files = [path for folder in ("rlclinic", "tests", "benchmarks", "docs") for path in sorted((ROOT / folder).rglob("*.py"))]
    with ProcessPoolExecutor(os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()) as pool:
        list(pool.map(compile_file, files, chunksize=20))
