"""docs/curriculum.md, done: its code is executed, its settings are read, and it names every kind."""

import re
from pathlib import Path

import pytest

from rlclinic.config import CurriculumConfig, load
from rlclinic.training.curriculum import staged

PAGE_FILE = Path(__file__).resolve().parent.parent / "docs" / "curriculum.md"
PAGE = PAGE_FILE.read_text()


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
def test_the_code_does_what_it_says(block: str) -> None:
    assert "assert" in block
    exec(compile(block, "docs/curriculum.md", "exec"), {})


def test_the_settings_can_be_trained(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "maze.yaml").write_text(text)
    config = load(str(tmp_path / "maze.yaml")).config
    shipped = load(str(PAGE_FILE.parents[1] / "examples" / "growing_maze.yaml")).config
    assert (config.env, config.algo, config.run, config.curriculum) == (shipped.env, shipped.algo, shipped.run, shipped.curriculum)
    assert config.env.kwargs == {"size": 9}
    assert staged.make(config, [0], "cpu").reset().shape == (1, 32, 104)


def test_the_page_names_every_kind() -> None:
    kinds = CurriculumConfig.model_fields["kind"].annotation.__args__  # type: ignore[union-attr]
    assert all(f"`{kind}`" in PAGE for kind in kinds)
