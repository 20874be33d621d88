"""The Chromium that the dashboard is tested in: one that is installed, else one that playwright can fetch.

python -m tests.serve.web.chromium     says which one the tests will use, fetches one if there is none, or says what they will leave out
"""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
FETCH_SECONDS = 300
MISSING = "no Chromium is installed: the dashboard's pages are NOT tested in a browser (apt-get install chromium)"
NO_PLAYWRIGHT = "playwright is not installed: the dashboard's pages are NOT tested in a browser (pip install 'rlclinic[dev]')"


def find() -> str | None:
    """Where it is; None if there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None) or _own()


def _own() -> str | None:
    """The one that playwright has fetched for itself, if any."""
    if importlib.util.find_spec("playwright") is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def main() -> None:
    """Make sure that there is one, if that can be; never a reason to stop."""
    if importlib.util.find_spec("playwright") is None:
        sys.stderr.write(f"{NO_PLAYWRIGHT}\n")
        return
    found = find()
    if found is None:
        sys.stderr.write("no Chromium is installed; playwright tries to fetch one\n")
        try:
            subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], timeout=FETCH_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            sys.stderr.write(f"it took longer than {FETCH_SECONDS} s\n")
        found = find()
    sys.stderr.write(f"{MISSING}\n" if found is None else f"the dashboard is tested in {found}\n")


if __name__ == "__main__":
    main()
