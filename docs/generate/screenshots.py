"""Take the pictures of docs/screenshots from a store: `python -m docs.generate.screenshots --runs-dir runs`.

The store should hold a group that something is wrong with, a trial, a sensitivity study and a search, as `rlclinic demo`,
`rlclinic sensitivity` and `rlclinic optimize` leave them; a picture whose page has nothing to show is left out.
"""

import argparse
import io
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError

from rlclinic.ops.diagnose.diagnose import examine_group
from rlclinic.runs import studies, trials
from rlclinic.runs.record import Group
from rlclinic.runs.recording.films import find_newest
from rlclinic.runs.store import Store

FOLDER: Final = Path(__file__).resolve().parent.parent / "screenshots"
MOST_BYTES: Final = 200_000
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 1_500}


def sick_group(store: Store) -> Group:
    """The newest group of the user's own with a cause that needs a cure; the newest one if there is none."""
    own = [group for group in reversed(store.groups()) if not trials.trial_of(group)]
    for group in own:
        found = examine_group(group)
        if found is not None and not found.diagnosis.causes[0].calm and found.diagnosis.findings:
            return group
    return own[0]


def pages(store: Store) -> dict[str, tuple[str, Callable[[Any], None]]]:
    """By name: the address of each picture, and what is done before it is taken."""
    sick = sick_group(store)
    own = [group for group in reversed(store.groups()) if not trials.trial_of(group)]
    others = [group.id for group in own if group.env_id == sick.env_id and group.id != sick.id]
    found = {
        "groups": ("/", _wait_for("table.groups .spark path")),
        "group": (f"/groups/{sick.id}", _wait_for(".finding")),
        "finding": (f"/groups/{sick.id}", _first_finding),
        "group-dark": (f"/groups/{sick.id}", _wait_for(".finding")),
        "group-phone": (f"/groups/{sick.id}", _wait_for(".finding")),
        "trial-dialog": (f"/groups/{sick.id}", _trial_dialog),
        "environment": ("/environments?env=MountainCar-v0", _wait_for("h3:has-text('What simple actions return')")),
        "guide": ("/guide/offline-or-online", _wait_for("h2:has-text('Not assessable')")),
    }
    if others:
        found["compare"] = (f"/compare?of={others[0]},{sick.id}", _wait_for("figure canvas"))
    filmed = [run.id for group in own for run in group.runs if find_newest([run.path]) is not None]
    if filmed:
        found["episodes"] = (f"/runs/{filmed[0]}", _scroll_to("section:has(h2:has-text('Recorded episodes')) figure canvas"))
        found["histograms"] = (f"/runs/{filmed[0]}", _histograms)
    decided = [trial.id for trial in trials.trials(store) if trial.verdict]
    adopted = [trial.id for trial in trials.trials(store) if trial.verdict == "adopt"]
    if decided:
        found["trial"] = (f"/trials/{(adopted or decided)[-1]}", _wait_for("figure canvas"))
    kinds: tuple[studies.Kind, ...] = ("sensitivity", "optimize")
    for kind in kinds:
        for id in studies.ids(store, kind)[-1:]:
            found[kind] = (f"/{kind}/{id}", _wait_for("svg.figure"))
    return found


def _wait_for(selector: str) -> Callable[[Any], None]:
    return lambda page: page.wait_for_selector(selector, timeout=60_000)


def _scroll_to(selector: str) -> Callable[[Any], None]:
    """Wait for something of a card, and begin the picture with that card."""

    def scroll(page: Any) -> None:
        page.wait_for_selector(selector, timeout=60_000)
        page.locator(selector).first.evaluate("(part) => part.closest('section').scrollIntoView({ block: 'start' })")
        page.evaluate("scrollBy(0, -80)")

    return scroll


def _histograms(page: Any) -> None:
    page.click("summary:has-text('Histograms')", timeout=60_000)
    page.wait_for_selector("canvas.histogram")
    page.locator("summary:has-text('Histograms')").evaluate("(head) => head.scrollIntoView({ block: 'start' })")
    page.evaluate("scrollBy(0, -80)")


def _first_finding(page: Any) -> None:
    page.wait_for_selector(".finding", timeout=60_000)
    page.locator(".finding:has-text(' to ')").first.click()
    page.wait_for_selector(".chart.lit")


def _trial_dialog(page: Any) -> None:
    page.wait_for_selector(".finding", timeout=60_000)
    page.click(".rx.first button.primary")
    page.wait_for_selector("dialog dd", timeout=60_000)


def take(browser: Any, url: str, name: str, address: str, prepare: Callable[[Any], None]) -> Path:
    """One picture, small enough for a repository."""
    scheme = "dark" if name.endswith("-dark") else "light"
    context = browser.new_context(viewport=PHONE if name.endswith("-phone") else WIDE, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.goto(url + address)
    prepare(page)
    page.wait_for_timeout(1_200)
    path = FOLDER / f"{name}.png"
    path.write_bytes(_small(page.screenshot()))
    context.close()
    return path


def _small(picture: bytes) -> bytes:
    """With fewer colours, and only where it must be."""
    from PIL import Image

    for colours in (256, 128, 64):
        if len(picture) <= MOST_BYTES:
            break
        file = io.BytesIO()
        Image.open(io.BytesIO(picture)).convert("RGB").quantize(colours, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
        picture = file.getvalue()
    return picture


def _served(root: Path) -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "rlclinic", "serve", "--port", str(port), "--runs-dir", str(root), "--no-mcp", "--no-token"]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{url}/api/v1/health", timeout=5).close()
        except (URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
        else:
            return process, url
    raise SystemExit("the server does not answer; see: rlclinic serve")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"))
    parser.add_argument("--only", nargs="*", metavar="NAME", help="take these pictures alone")
    args = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("no Chromium is installed.\n  Type: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(exist_ok=True)
    process, url = _served(args.runs_dir)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for name, (address, prepare) in pages(Store(args.runs_dir)).items():
                if args.only and name not in args.only:
                    continue
                path = take(browser, url, name, address, prepare)
                print(f"{path.relative_to(FOLDER.parent)}  {path.stat().st_size // 1000} kB")
            browser.close()
    finally:
        process.terminate()
        process.wait(20)


if __name__ == "__main__":
    main()
