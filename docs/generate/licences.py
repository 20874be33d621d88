"""Writes docs/licences.md: under which licence each pinned dependency is, as its own metadata says.

python -m docs.generate.licences        asks what is installed: run it in the environment of `make install`
"""

import re
from importlib import metadata
from pathlib import Path
from typing import Final

from docs.generate.hashes import read_pins

PAGE: Final = Path(__file__).resolve().parents[1] / "licences.md"
COPYLEFT: Final = re.compile(r"\b(A?GPL|GNU General Public|EUPL|SSPL)", re.IGNORECASE)
NOTES: Final = {
    "ale-py": "only with the extra `envs`, for Atari games; rlclinic imports it where it is installed, and ships nothing of it",
}
"""What to know about a dependency whose licence asks something of whoever passes it on."""
HEAD: Final = """# Licences

rlclinic is under the MIT licence. What it installs, by `constraints.txt`, is under these, as each package says of itself
(`make licences` writes this page again).

"""


def find_licence(name: str) -> str:
    """A package's licence in a few words; a question mark where it says nothing, or is not installed."""
    try:
        about = metadata.metadata(name).json
    except metadata.PackageNotFoundError:
        return "? (not installed)"
    if about.get("license_expression"):
        return str(about["license_expression"])
    named = [line.rpartition(" :: ")[2] for line in about.get("classifier", []) if line.startswith("License ::")]
    named = [each for each in named if each != "OSI Approved"]
    text = str(about.get("license") or "").strip().splitlines()
    return ", ".join(named) or (text[0][:60] if text else "?")


def write_page() -> str:
    """The whole page."""
    rows = [(name, version, find_licence(name)) for name, version in read_pins()]
    noted = [(name, licence) for name, _, licence in rows if COPYLEFT.search(licence)]
    asks = [f"- **{name}** ({licence}): {NOTES.get(name, 'NOT LOOKED AT YET')}." for name, licence in noted] or ["- none"]
    table = ["| package | version | licence |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join([f"{HEAD}Whoever passes these on must follow what they ask:", "", *asks, "", *table, ""])


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
    print(PAGE)
