"""docs/statistics.md, done: its code is executed, section by section."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "statistics.md").read_text()
SECTIONS = {
    text.partition("\n")[0]: re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    for text in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
}


@pytest.mark.parametrize("section", [name for name, blocks in SECTIONS.items() if blocks])
def test_the_code_of_a_section_does_what_it_says(section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said: dict[str, object] = {}
    for block in SECTIONS[section]:
        assert "assert" in block
        exec(compile(block, f"docs/statistics.md: {section}", "exec"), said)


def test_the_page_has_a_section_for_what_it_promises() -> None:
    assert {"compare", "regress", "intervals", "optimize", "sensitivity", "several environments", "repeated questions"} <= set(SECTIONS)
