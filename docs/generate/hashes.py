"""Writes constraints.hashed.txt: every pinned dependency with the SHA-256 of each of its files on the package index.

    python -m docs.generate.hashes          asks the index; needs the network

`pip install --require-hashes --no-deps -r constraints.hashed.txt` then installs those files and no others. `make` itself does not ask for
hashes: a machine without a network, or with another build of torch, could not install anything.
"""

import html
import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PINNED: Final = ROOT / "constraints.txt"
HASHED: Final = ROOT / "constraints.hashed.txt"
INDEX: Final = "https://pypi.org/simple"
HEAD: Final = "# Written by `python -m docs.generate.hashes`: the pins of constraints.txt, with the hashes of all their files.\n"
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)$", re.MULTILINE)
_FILE: Final = re.compile(r'href="[^"]*/([^/"#]+)#sha256=([0-9a-f]{64})"')


def read_pins() -> list[tuple[str, str]]:
    """(name, version) of every pinned dependency."""
    return [(name, version) for name, version in _PIN.findall(PINNED.read_text(encoding="utf-8"))]


def find_hashes(name: str, version: str) -> list[str]:
    """The hashes of all files of one version, as the index lists them."""
    normal = re.sub(r"[-_.]+", "-", name).lower()
    with urllib.request.urlopen(f"{INDEX}/{normal}/", timeout=60) as answer:
        page = html.unescape(answer.read().decode("utf-8", errors="replace"))
    return sorted({digest for file, digest in _FILE.findall(page) if _fits(file, normal, version)})


def _fits(file: str, normal: str, version: str) -> bool:
    """Whether a file is one of this version: wheels and archives spell the same name in several ways."""
    for ending in (f"-{version}-", f"-{version}.tar", f"-{version}.zip"):
        head, found, _ = file.partition(ending)
        if found and re.sub(r"[-_.]+", "-", head).lower() == normal:
            return True
    return False


def main() -> None:
    """Ask the index for every pin, and write the file."""
    pins = read_pins()
    with ThreadPoolExecutor(8) as pool:
        hashes = list(pool.map(lambda pin: find_hashes(*pin), pins))
    missing = [f"{name}=={version}" for (name, version), known in zip(pins, hashes, strict=True) if not known]
    if missing:
        raise SystemExit(f"the index has no files of {', '.join(missing)}")
    lines = [
        " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{digest}" for digest in known)])
        for (name, version), known in zip(pins, hashes, strict=True)
    ]
    HASHED.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{HASHED.name}: {len(pins)} packages, {sum(map(len, hashes))} files")


if __name__ == "__main__":
    main()
