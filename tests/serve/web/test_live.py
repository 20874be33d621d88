import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlclinic.config import Config, files, load, set_values
from rlclinic.runs import labelling
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter
from rlclinic.treatment.trial import arms, conduct
from tests.ops.recorded import COLUMNS, record_group
from tests.serve.web.conftest import serving
from tests.treatment.pretended_training import pretend

VERDICTS = ("ADOPT", "REJECT", "EQUIVALENT", "UNDECIDED")


def write_rows(writer: RunWriter, first: int, count: int) -> None:
    """Rows as training appends them."""
    for epoch in range(first, first + count):
        value = 10.0 * epoch
        writer.row(
            {"time": 1.0e9 + epoch, "total_timesteps": 512 * epoch, "epoch": epoch, "train/roll/ep_rew_mean": value, "time/fps": 100.0}
        )
    writer.flush()
    writer.status("running", 512 * (first + count - 1), return_mean=value)


def test_rows_of_a_run_that_trains_appear_by_themselves(page: Any, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    config = files.load("CartPole-v1:ppo_zoo", []).config
    group = Store(root).create_group([config])
    with RunWriter(group.runs[0].path, COLUMNS) as writer, serving(root) as url:
        write_rows(writer, 1, 3)
        page.goto(f"{url}/groups/{group.id}")
        page.wait_for_selector(".main-chart .readout:has-text('30')")
        page.wait_for_selector("h1:has-text('RUNNING')")
        page.wait_for_selector("button:has-text('Stop…')")
        write_rows(writer, 4, 5)
        page.wait_for_selector(".main-chart .readout:has-text('80')")
        page.wait_for_selector(".facts:has-text('4.1k')")
        page.goto("about:blank")


def test_stop_asks_first_shows_the_command_and_reaches_the_run(page: Any, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    group = Store(root).create_group([files.load("CartPole-v1:ppo_zoo", []).config])
    path = group.runs[0].path
    with RunWriter(path, COLUMNS) as writer, serving(root) as url:
        write_rows(writer, 1, 3)
        page.goto(f"{url}/groups/{group.id}")
        page.click("button:has-text('Stop…')")
        page.wait_for_selector(f"dialog code:has-text('rlclinic stop {group.id}')")
        page.keyboard.press("Escape")
        assert not (path / "control.json").exists()
        page.click("button:has-text('Adjust…')")
        page.fill("dialog input", "0.02")
        page.wait_for_selector("dialog code:has-text('--set algo.ent_coef=0.02')")
        page.click("dialog button[type=submit]")
        page.wait_for_selector("dialog", state="detached")
        assert json.loads((path / "control.json").read_text())["set"] == {"algo.ent_coef": 0.02}
        page.click("button:has-text('Stop…')")
        page.click("dialog button[type=submit]")
        page.wait_for_selector("dialog", state="detached")
        assert json.loads((path / "control.json").read_text())["stop"] is True
        page.goto("about:blank")


def test_a_trial_goes_from_the_button_to_its_verdict_and_is_adopted(page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)  # adopted variants go to ./config/environments
    root = tmp_path / "runs"
    group = record_group(root, seeds=(0, 1), changes=["run.max_env_steps=1024", "run.eval_every_env_steps=512", "run.eval_episodes=2"])
    with serving(root) as url:
        page.goto(f"{url}/groups/{group.id}")
        page.click("button:has-text('Trial…')")
        page.wait_for_selector("dialog")
        for box in page.locator("dialog input[type=checkbox]").all():
            box.uncheck()
        page.fill("dialog textarea", "algo.learning_rate=0.01")
        page.fill("dialog input[type=number] >> nth=0", "2")
        page.fill("dialog input[type=number] >> nth=1", "1")
        page.wait_for_selector("dialog dd:has-text('at most')")
        page.wait_for_selector("dialog code:has-text('--set algo.learning_rate=0.01 --per-look 2 --looks 1')")
        page.click("dialog button[type=submit]")
        page.wait_for_url("**/trials/t*")
        page.wait_for_selector(", ".join(f".verdict b:has-text('{word}')" for word in VERDICTS), timeout=60_000)
        page.wait_for_selector("figure canvas")
        assert "algo.learning_rate" in page.locator("table").first.inner_text()
        page.click("button:has-text('Adopt…')")
        page.check("dialog input[type=checkbox]")
        page.wait_for_selector("dialog pre.diff .add:has-text('mine:')")
        assert not (tmp_path / "config").exists(), "looking writes nothing"
        page.click("dialog button[type=submit]")
        page.wait_for_selector(".toast:has-text('rlclinic train CartPole-v1:mine')")
        page.goto("about:blank")
    assert "learning_rate: 0.01" in (tmp_path / "config" / "environments" / "CartPole-v1.yaml").read_text()


def test_a_trial_over_several_environments_shows_where_it_helps_and_where_it_hurts(
    page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    factors = {"CartPole-v1": 0.4, "Acrobot-v1": 1.6}

    def behave(config: Config) -> float | None:
        noise = float(np.exp(0.15 * np.random.default_rng(config.seed).standard_normal()))
        share = 0.6 * noise * (factors[config.env.id] if config.algo.learning_rate == 1e-3 else 1.0)
        return share if share <= 1 else None

    pretend(monkeypatch, behave)
    short = [
        "learning_rate=1e-2",
        "run.max_env_steps=20000",
        "run.eval_every_env_steps=1000",
        "spec.return_range=null",
        "spec.threshold=475",
    ]
    configs = [set_values(load(f"{env_id}:ppo").config, short) for env_id in factors]
    parts = [(arms.control(config), [arms.changed(config, ["learning_rate=1e-3"], "rx1")]) for config in configs]
    found = conduct.run(Store(tmp_path / "runs"), conduct.plan_environments(parts), cores=2)
    with serving(tmp_path / "runs") as url:
        page.goto(f"{url}/trials/{found.id}")
        page.wait_for_selector(".verdict b:has-text('HELPS HERE, HURTS THERE')")
        page.wait_for_selector("h2:has-text('Environments')")
        page.wait_for_selector("figure canvas >> nth=1")
        cells = page.locator("section:has(h2:has-text('Environments'))").inner_text()
        assert "CartPole-v1" in cells
        assert "helps" in cells
        assert "hurts" in cells
        page.goto("about:blank")


def test_a_server_that_went_away_is_said(page: Any, tmp_path: Path) -> None:
    record_group(tmp_path / "runs")
    page.expected += ["ERR_", "WebSocket"]  # the browser reports every attempt to connect
    with serving(tmp_path / "runs") as url:
        page.goto(url)
        page.wait_for_selector(".link.on")
    page.wait_for_selector(".link.off:has-text('not connected')")
    page.goto("about:blank")


def test_a_person_who_is_the_expert_answers_with_buttons(page: Any, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    run = Store(root).create_group([files.load("Pendulum-v1:dagger", ["algo.expert=person"]).config]).runs[0]
    said: list[Any] = []

    def ask() -> None:
        for step, bounds in enumerate(({"low": [-2.0], "high": [2.0]}, {"choices": 3})):
            said.append(labelling.wait(run.path, (0, step, 0, 0), [1.0, -0.5], lambda: False, **bounds))

    with RunWriter(run.path, COLUMNS) as writer, serving(root) as url:
        write_rows(writer, 1, 3)
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        page.goto(f"{url}/runs/{run.id}")
        page.wait_for_selector("text=Round 0, step 0, env 0")
        page.click("button:has-text('Highest')")
        page.wait_for_selector("text=Round 0, step 1, env 0")
        page.click(".actions button:has-text('1')")
        page.wait_for_selector("text=2 answered")
        asking.join(5)
        page.goto("about:blank")  # it would go on asking for the next question
    assert said == [[2.0], 1]
