"""docs/tasks.md, done: its code is executed, section by section."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "tasks.md").read_text()
SECTIONS = {
    text.partition("\n")[0]: re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    for text in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
}


@pytest.mark.parametrize("section", [name for name, blocks in SECTIONS.items() if blocks])
def test_the_code_of_a_section_does_what_it_says(section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in SECTIONS[section]:
        assert "assert" in block
        exec(compile(block, f"docs/tasks.md: {section}", "exec"), {})


def test_the_page_names_every_kind_of_bonus_and_every_environment() -> None:
    from rlclinic.config.gymnasium_registry import OWN_ENVIRONMENTS
    from rlclinic.config.reward_settings import BonusConfig

    kinds = BonusConfig.model_fields["kind"].annotation.__args__  # type: ignore[union-attr]
    assert all(f"`{name}`" in PAGE for name in (*kinds, *OWN_ENVIRONMENTS))
