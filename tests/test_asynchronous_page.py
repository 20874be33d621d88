"""docs/asynchronous.md, done: its code is executed, its settings exist, and its table has every algorithm with actors."""

import re
from pathlib import Path

from rlclinic.config import ALGORITHMS, AsynchronousSettings
from rlclinic.training import rows

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "asynchronous.md").read_text()


def test_the_code_does_what_it_says() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert "assert" in block
    exec(compile(block, "docs/asynchronous.md", "exec"), {})


def test_the_page_names_every_algorithm_setting_and_column_of_actors() -> None:
    algorithms = [name for name, model in ALGORITHMS.own.items() if issubclass(model, AsynchronousSettings)]
    assert all(f"| `{name}` |" in PAGE for name in algorithms)
    assert all(f"algo.{name}" in PAGE for name in ("n_actors", "actor_order", "max_lag"))
    assert all(f"`{name}`" in PAGE or f"sentinel/{name}`" in PAGE for name in rows.ACTORS)
