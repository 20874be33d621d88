"""The browser that the dashboard is tested in: a Chromium that is installed, else one that can be installed.

python -m tests.serve.web.chromium     says which one the tests will use, installs one if there is none, or says what they will leave out
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
INSTALL_SECONDS = 300
MISSING = "no Chromium is installed: the dashboard's pages are NOT tested in a browser (apt-get install chromium)"
NO_PLAYWRIGHT = "playwright is not installed: the dashboard's pages are NOT tested in a browser (pip install 'rlclinic[dev]')"


def find() -> str | None:
    """The path of a Chromium: the system's, else the one that playwright has fetched for itself; None if there is none."""
    installed = next((path for name in NAMES if (path := shutil.which(name))), None)
    if installed or importlib.util.find_spec("playwright") is None:
        return installed
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def install() -> None:
    """By the system's package manager where we may (Debian, as root), then by playwright; neither needs to succeed."""
    commands = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    if os.geteuid() == 0 and shutil.which("apt-get"):
        commands.insert(0, ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium"])
    for command in commands:
        sys.stderr.write(f"no Chromium is installed: {' '.join(command)}\n")
        try:
            subprocess.run(command, timeout=INSTALL_SECONDS, stdout=subprocess.DEVNULL, check=False)
        except (subprocess.TimeoutExpired, OSError) as error:
            sys.stderr.write(f"{error}\n")
        if find():
            return


def main() -> None:
    """Make sure that there is one, if that can be; never a reason to stop."""
    if importlib.util.find_spec("playwright") is None:
        sys.stderr.write(f"{NO_PLAYWRIGHT}\n")
        return
    if find() is None:
        install()
    path = find()
    sys.stderr.write(f"the dashboard is tested in {path}\n" if path else f"{MISSING}\n")


if __name__ == "__main__":
    main()
