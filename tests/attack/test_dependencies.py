"""What is installed: every pin has its hashes, and every licence that asks something is noted."""

import re
from pathlib import Path

from docs.generate import hashes, licences

ROOT = Path(__file__).resolve().parents[2]


def test_every_pin_has_its_hashes() -> None:
    text = hashes.HASHED.read_text()
    entries = dict(re.findall(r"^(\S+==\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE))
    assert set(entries) == {f"{name}=={version}" for name, version in hashes.read_pins()}


def test_the_page_of_licences_names_every_pin_and_notes_what_asks_something() -> None:
    page = licences.PAGE.read_text()
    assert [(name, version) for name, version in hashes.read_pins() if f"| {name} | {version} |" not in page] == []
    assert "NOT LOOKED AT YET" not in page
    assert "**ale-py** (GPL-2.0-only)" in page


def test_a_file_of_another_version_is_not_taken_for_this_one() -> None:
    assert hashes._fits("typing_extensions-4.15.0-py3-none-any.whl", "typing-extensions", "4.15.0")
    assert hashes._fits("PyYAML-6.0.3.tar.gz", "pyyaml", "6.0.3")
    assert not hashes._fits("torch-2.13.0.post1-cp311.whl", "torch", "2.13.0")
    assert not hashes._fits("torchvision-2.13.0-cp311.whl", "torch", "2.13.0")
