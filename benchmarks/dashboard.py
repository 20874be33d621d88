"""How long a person waits for the dashboard, measured in a real Chromium over a real server.

first curve   a run with 100,000 rows of 113 columns: from the click to the first drawn curve; the server has just been started and
              has read nothing, the browser has an empty cache. Median of several servers. The first curve is a look at 1,500
              rows; the one with every row in it, each place with its lowest and highest, takes its place.
table         10,000 runs of 2,500 configs: from a click on a column's head, or from Enter after a filter, to the rows on the screen,
              for results and for settings. Median and slowest.
film          an environment of one's own, in a file beside the store: from the click on *Watch an episode* to the film and its numbers
              on the screen. At once after the page is there (a new process starts), and ten seconds later (one was made ready).
row to point  from a row's bytes in metrics.csv to the number on the screen, while the run trains. Median and largest of 25 rows.
"""

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np

from benchmarks import provenance
from rlclinic import metrics
from rlclinic.config import files
from rlclinic.runs import status_file
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
COMMAND = "python -m benchmarks.dashboard"
TRAIN, EVAL = "train/roll/ep_rew_mean", "val/roll/ep_rew_mean"
COLUMNS = list(metrics.METRICS)[:113]
"""As many columns as PPO writes."""
RARE = 30
"""How many of them are blank in most rows: evaluations, and sentinels that are computed about fifty times in a run."""


def row(what: str, value: float, bar: float | None, stretch: float | None, samples: list[float]) -> dict[str, Any]:
    """One line of the table; less is better."""
    found = {"what": what, "unit": "s", "value": value, "better": "lower", "bar": bar, "stretch": stretch, "command": COMMAND}
    return found | {"samples": [round(each, 3) for each in samples]}


def long_run(root: Path, rows: int) -> Run:
    """A finished run with very many rows, as wide and as full as those of training: about 1.6 kB each."""
    config = files.load("CartPole-v1:ppo", []).config
    run = Store(root).create_group([config]).runs[0]
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(512, len(COLUMNS)))
    often = [name for name in COLUMNS if not name.startswith("val/")][: len(COLUMNS) - RARE]
    with RunWriter(run.path, COLUMNS) as writer:
        for epoch in range(1, rows + 1):
            filled = COLUMNS if epoch % 100 == 0 else often
            values = dict(zip(filled, noise[epoch % 512].tolist(), strict=False))
            writer.row(
                {**values, "time": 1.7e9 + epoch, "total_timesteps": 512.0 * epoch, "epoch": float(epoch), TRAIN: 500.0 * epoch / rows}
            )
        writer.status("finished", 512 * rows)
    return run


def many_runs(root: Path, runs: int, seeds: int = 4) -> None:
    """Finished runs of very many configs, four seeds each, as training leaves their folders but for rows of metrics."""
    rng = np.random.default_rng(0)
    store = Store(root)
    for place in range(runs // seeds):
        name = ("CartPole-v1:ppo", "Acrobot-v1:ppo", "MountainCar-v0:ppo")[place % 3]
        changes = [
            f"algo.gamma={0.9 + 0.099 * rng.random():.4f}",
            f"algo.n_epochs={rng.integers(2, 20)}",
            f"algo.ent_coef={rng.random() / 100:.5f}",
        ]
        config = files.load(name, changes).config
        group = store.create_group([config.model_copy(update={"seed": seed}) for seed in range(seeds)])
        for run in group.runs:
            value = float(rng.normal(300, 80))
            status = status_file.Status(
                state="finished",
                heartbeat=1.7e9 + place,
                started=1.7e9,
                env_steps=100_000,
                max_env_steps=100_000,
                return_mean=value,
                eval_mean=value,
                best_eval=value + float(rng.random() * 50),
                fps=3_000.0,
            )
            status_file.write(run.path, status)


def sort_and_filter(browser: Any, root: Path) -> list[float]:
    """Seconds from a click or a filter to the rows on the screen, as the browser's own clock has it."""
    took = []
    with serving(root) as url:
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        page.goto(f"{url}/?list=runs")
        page.wait_for_selector("table.groups tbody tr.data", timeout=120_000)
        note = "() => { window.tableAsked = performance.now(); }"
        page.evaluate(f"for (const kind of ['click', 'keydown']) addEventListener(kind, {note}, true)")
        for column in ("best", "last", "wall_time", "algo.gamma", "algo.n_epochs", "algo.ent_coef", "name", "seed"):
            head = f"th[data-column='{column}'] button"
            took += [_wait_for_table(page, partial(page.click, head)) for _ in ("down", "up")]
        for condition in ("algo.gamma>0.95", "n_epochs=7", "env=CartPole-v1", "best>=350"):
            page.fill("input[aria-label='Filter']", condition)
            took.append(_wait_for_table(page, partial(page.press, "input[aria-label='Filter']", "Enter")))
        context.close()
    return took


def _wait_for_table(page: Any, act: Callable[[], None]) -> float:
    """Seconds from what the user did to the next painted table, by the browser's clock."""
    marks = "performance.getEntriesByName('table-shown').length"
    before = page.evaluate(marks)
    act()
    while page.evaluate(marks) == before:
        page.wait_for_timeout(10)
    seconds: float = page.evaluate("performance.getEntriesByName('table-shown').at(-1).startTime - window.tableAsked") / 1000.0
    page.wait_for_timeout(100)
    return seconds


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """`rlclinic serve` on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "rlclinic", "serve", "--port", str(port), "--runs-dir", str(root), "--no-mcp", "--no-token"]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        while not _answers(url):
            if process.poll() is not None:
                raise SystemExit("the server ended before it answered; see: rlclinic serve")
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/api/v1/health", timeout=5):
            return True
    except (URLError, ConnectionError, TimeoutError):
        return False


def first_curve(browser: Any, root: Path, run: Run) -> tuple[float, float]:
    """Seconds from asking for the page to its first curve, and to the one with every row in it; the server has read nothing yet."""
    with serving(root) as url:
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        page.goto("about:blank")
        page.goto(f"{url}/runs/{run.id}", wait_until="commit")
        page.wait_for_selector(".main-chart canvas", timeout=120_000)
        while not (whole := page.evaluate("performance.getEntriesByName('whole-curve').map((mark) => mark.startTime)")):
            page.wait_for_timeout(20)
        first = page.evaluate("performance.getEntriesByName('first-curve')[0].startTime")
        context.close()
    return first / 1000.0, whole[0] / 1000.0


def row_to_point(browser: Any, root: Path, count: int) -> list[float]:
    """Seconds from the bytes of a row to its number on the screen, for each of `count` rows."""
    run = Store(root).create_group([files.load("CartPole-v1:ppo", []).config]).runs[0]
    took = []
    with RunWriter(run.path, COLUMNS) as writer, serving(root) as url:
        _append(writer, 1)
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        page.goto(f"{url}/groups/{run.group_id}")
        page.wait_for_selector(".main-chart .readout:has-text('1,001')", timeout=60_000)
        page.wait_for_timeout(3_000)
        for epoch in range(2, count + 2):
            _append(writer, epoch)
            start = time.perf_counter()
            page.wait_for_selector(f".main-chart .readout:has-text('{1000 + epoch:,}')", timeout=60_000)
            took.append(time.perf_counter() - start)
            # Rows of a real run come at any moment, not right after the last one was drawn.
            page.wait_for_timeout(200 + 37 * (epoch % 11))
        context.close()
    return took


def _append(writer: RunWriter, epoch: int) -> None:
    writer.row({"time": time.time(), "total_timesteps": 512.0 * epoch, "epoch": float(epoch), TRAIN: 1000.0 + epoch})
    writer.flush()
    writer.status("running", 512 * epoch, return_mean=1000.0 + epoch)


OWN_ENVIRONMENT = """
import gymnasium as gym
import numpy as np


class Walk(gym.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}
    observation_space = gym.spaces.Box(-3.0, 3.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = float(self.np_random.uniform(-1, 0)), 0
        return self.see(), {}

    def see(self):
        return np.array([self.place, 1 - self.place], np.float32)

    def step(self, action):
        self.place, self.steps = float(np.clip(self.place + (action - 1) * 0.02, -3, 3)), self.steps + 1
        terms = {"progress": (int(action) - 1) * 0.02, "time": -0.01}
        return self.see(), sum(terms.values()), self.place > 1, self.steps >= 200, {"reward_terms": terms}

    def render(self):
        picture = np.full((300, 600, 3), 240, np.uint8)
        at = int((self.place + 3) / 6 * 590)
        picture[140:160, at : at + 10] = (200, 40, 40)
        return picture
"""


def films(browser: Any, folder: Path, count: int) -> tuple[list[float], list[float]]:
    """Seconds from the click to the film and its numbers: of the first film after a server's start, and of one when it is warm."""
    folder.mkdir()
    (folder / "own_walk.py").write_text(OWN_ENVIRONMENT)
    root, surroundings = folder / "runs", {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [
        "train",
        f"{folder}/own_walk.py:Walk",
        "--max-env-steps",
        "4096",
        "--seeds",
        str(2 * count),
        "--runs-dir",
        str(root),
        "--quiet",
    ]
    subprocess.run([sys.executable, "-m", "rlclinic", *command], env=surroundings, check=True, stdout=subprocess.DEVNULL)
    runs = [run.id for run in Store(root).groups()[0].runs]
    cold: list[float] = []
    warm: list[float] = []
    for first, second in zip(runs[:count], runs[count:], strict=True):
        with serving(root) as url:
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            page = context.new_page()
            for run, took, wait in ((first, cold, 0), (second, warm, 10_000)):
                page.goto(f"{url}/runs/{run}")
                page.wait_for_selector("button:has-text('Watch an episode')", timeout=60_000)
                page.wait_for_timeout(wait)
                page.evaluate(
                    "performance.clearMarks(); addEventListener('click', () => performance.mark('asked'), { capture: true, once: true })"
                )
                page.locator("button:has-text('Watch an episode')").last.click()
                marks = "Object.fromEntries(performance.getEntriesByType('mark').map((mark) => [mark.name, mark.startTime]))"
                while not {"film-shown", "trace-shown"} <= (seen := page.evaluate(marks)).keys():
                    page.wait_for_timeout(10)
                took.append((max(seen["film-shown"], seen["trace-shown"]) - seen["asked"]) / 1000.0)
            context.close()
    return cold, warm


def main() -> None:
    parser = provenance.parser(__doc__)
    args = parser.parse_args()
    if CHROMIUM is None:
        raise SystemExit("no Chromium is installed: nothing was measured.\n  Type: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    rows, servers, live, many = (5_000, 1, 3, 400) if args.quick else (100_000, 7, 25, 10_000)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        run = long_run(Path(name) / "long", rows)
        opened = [first_curve(browser, Path(name) / "long", run) for _ in range(servers)]
        news = row_to_point(browser, Path(name) / "live", live)
        cold, warm = films(browser, Path(name) / "films", 1 if args.quick else 5)
        many_runs(Path(name) / "many", many)
        sorted_in = sort_and_filter(browser, Path(name) / "many")
        browser.close()
    firsts, wholes = ([pair[place] for pair in opened] for place in (0, 1))
    found = [
        row(f"first curve of a run with {rows:,} rows", statistics.median(firsts), 1.5, 0.7, firsts),
        row(f"the same with every one of the {rows:,} rows in it", statistics.median(wholes), None, None, wholes),
        row("a film of an own environment on the page, median", statistics.median(warm), 5.0, 2.0, warm),
        row("the same right after the server's start, median", statistics.median(cold), 5.0, 2.0, cold),
        row("metric row on disk to point on screen, median", statistics.median(news), 2.0, 1.0, news),
        row("metric row on disk to point on screen, slowest", max(news), 2.0, 1.0, news),
        row(f"sort or filter {many:,} runs, to the screen, median", statistics.median(sorted_in), 0.5, 0.2, sorted_in),
        row(f"sort or filter {many:,} runs, to the screen, slowest", max(sorted_in), 0.5, 0.2, sorted_in),
    ]
    for each in found:
        print(f"{each['what']}: {each['value']:.2f} s (bar {each['bar']}, stretch {each['stretch']})")
    print(provenance.write("dashboard", found, provenance.provenance(COMMAND), args.quick))


if __name__ == "__main__":
    main()
