"""Pages of studies, over files as a study leaves them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlclinic.config import files, set_values, to_record
from rlclinic.ops.jobs import start
from rlclinic.ops.jobs.audit import Caller
from rlclinic.ops.jobs.models import Job, save
from rlclinic.runs import lock, studies
from rlclinic.runs.jobs import folder
from rlclinic.runs.store import Store
from rlclinic.treatment.optimize.ledger import Best, Entry, Ledger, Round
from rlclinic.treatment.race import conduct
from rlclinic.treatment.sensitivity.study import Arm, Row, Sensitivity
from rlclinic.treatment.trial import arms
from tests.ops.recorded import record_group
from tests.serve.web.conftest import serving
from tests.treatment.pretended_training import pretend

CONFIG = to_record(files.load("CartPole-v1:ppo_zoo", []).config)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("studies") / "runs"
    record_group(root)
    store = Store(root)
    for kind, id, found in (("sensitivity", "sabc", sensitivity()), ("optimize", "oabc", ledger())):
        studies.folder(store, kind, id).mkdir(parents=True)
        studies.write(store, kind, id, found.model_dump(mode="json"))
    with serving(root) as url:
        yield url


def sensitivity() -> Sensitivity:
    arms = tuple(
        Arm(name=f"algo.gamma x{factor:g}", setting="algo.gamma", factor=factor, value=0.9 + factor / 100) for factor in (0.5, 2.0)
    )
    outcomes = ((0.5, 0.3, 0.8, "better"), (2.0, 1.4, 3.0, "worse"))
    rows = tuple(
        Row(arm=arm, group=None, n=4, reached=4, effect=effect, low=low, high=high, verdict=verdict)
        for arm, (effect, low, high, verdict) in zip(arms, outcomes, strict=True)
    )
    about: dict[str, Any] = {"id": "sabc", "created": 1.0e9, "target": "CartPole-v1:ppo", "env_id": "CartPole-v1", "algo": "ppo"}
    return Sensitivity(
        **about, config=CONFIG, factors=(2.0,), seeds=(1, 2, 3, 4), measure="steps", arms=arms, rows=rows, state="finished",
        skipped=("ent_coef is 0: there is nothing to multiply",),
    )  # fmt: skip


def ledger() -> Ledger:
    start = Entry(name="start", source="start", why="the config to begin with", changes=(), config=CONFIG, n=2, reached=1, score=9000.0)
    faster = Entry(
        name="lr",
        source="prescription",
        why="KL says so",
        changes=("algo.learning_rate=0.01",),
        config=CONFIG,
        n=2,
        reached=2,
        score=4000.0,
    )
    rounds = (
        Round(number=1, kind="baseline", seeds=(1, 2), entries=(start,), done=True, winner="start", used_env_steps=20_000),
        Round(number=2, kind="improve", seeds=(3, 4), entries=(faster,), done=True, winner="lr", used_env_steps=10_000),
    )
    best = Best(entry=faster, n=2, reached=2, score=4000.0)
    about: dict[str, Any] = {"id": "oabc", "created": 1.0e9, "target": "g7k2", "env_id": "CartPole-v1", "algo": "ppo", "outcome": "steps"}
    return Ledger(
        **about, budget=100_000, alpha=0.05, threshold=475.0, start=CONFIG, run_env_steps=10_000, rounds=rounds, best=best,
        state="finished", verdict="not proven",
    )  # fmt: skip


def test_a_sensitivity_study_shows_what_each_number_does(page: Any, url: str) -> None:
    page.goto(f"{url}/studies")
    page.click("a:has-text('sabc')")
    page.wait_for_selector("svg.figure")
    assert "gamma x0.5 0.5, better" in page.get_attribute("svg.figure", "aria-label").replace("algo.", "")
    text = page.inner_text("main")
    assert "0.5 [0.3, 0.8]" in text
    assert "there is nothing to multiply" in text


def test_a_search_shows_what_was_tried_and_what_is_best(page: Any, url: str) -> None:
    page.goto(f"{url}/optimize/oabc")
    page.wait_for_selector("svg.figure circle >> nth=1")
    text = page.inner_text("main")
    assert "NOT PROVEN" in text
    assert "algo.learning_rate = 0.01" in text
    assert "30k of 100k env steps" in text


def test_a_race_is_listed_and_shows_its_ranking(page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, lambda config: 0.2 if config.algo.gamma == 0.9 else 0.6 + 0.3 * (config.seed % 7) / 7)
    base = set_values(files.load("CartPole-v1:ppo_zoo", []).config, ["run.max_env_steps=20000", "run.eval_every_env_steps=1000"])
    made = [arms.Arm(name=f"gamma-{gamma}", config=set_values(base, [f"gamma={gamma}"])) for gamma in (0.9, 0.95, 0.99)]
    race = conduct.run(Store(tmp_path / "runs"), conduct.plan(made), cores=1)
    with serving(tmp_path / "runs") as own:
        page.goto(f"{own}/studies")
        page.click(f"a:has-text('{race.id}')")
        page.wait_for_selector("svg.figure circle >> nth=0")
        text = page.inner_text("main")
        assert "BEST SHOWN" in text
        assert "gamma-0.9" in text
        assert "worse than gamma-0.9" in text
        page.goto("about:blank")


def test_a_search_is_started_with_its_command_shown(page: Any, url: str) -> None:
    page.goto(f"{url}/studies")
    page.click("button:has-text('Search…')")
    page.fill("dialog input >> nth=1", "2M")
    page.wait_for_selector("dialog code:has-text('rlclinic optimize @last --budget 2000000 --for steps')")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")


def test_a_sensitivity_study_is_priced_started_and_waits_its_turn_on_the_page(page: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def queued(store: Store, job: Job) -> Job:
        here = {"pid": os.getpid(), "process_started": lock.started(os.getpid()), "host": lock.HOST}
        return save(store, job.model_copy(update={"state": "queued", "reason": "waits for training g7k2", **here}))

    monkeypatch.setattr(start, "_spawn", queued)
    page.goto(f"{url}/studies")
    page.click("button:has-text('Sensitivity…')")
    page.fill("dialog input >> nth=0", "CartPole-v1:ppo_zoo")
    page.fill("dialog input >> nth=1", "gamma")
    page.fill("dialog input >> nth=3", "2")
    page.wait_for_selector("dialog code:has-text('rlclinic sensitivity CartPole-v1:ppo_zoo --seeds 2 --factors 2,4 --only gamma')")
    page.wait_for_selector("dialog p:has-text('10 runs, at most')")
    page.click("dialog button:has-text('Start the study')")
    page.wait_for_selector("main :text('Queued: it waits for training g7k2. It begins by itself.')")
    page.click("button:has-text('Stop…')")
    page.wait_for_selector("dialog code:has-text('rlclinic stop s')")


@pytest.mark.parametrize(("state", "button"), [("stopped", "Go on…"), ("failed", "Go on…"), ("running", "Stop…")])
def test_a_study_can_be_stopped_or_taken_up_again(page: Any, tmp_path: Path, state: str, button: str) -> None:
    root = tmp_path / "runs"
    store = Store(root)
    studies.folder(store, "sensitivity", "sabc").mkdir(parents=True)
    begun = sensitivity().model_copy(update={"state": "running", "rows": ()})
    studies.write(store, "sensitivity", "sabc", begun.model_dump(mode="json"))
    here = {"pid": os.getpid(), "process_started": lock.started(os.getpid()), "host": lock.HOST}
    about: dict[str, Any] = {
        "id": "jabc",
        "kind": "sensitivity",
        "by": Caller(),
        "digest": "",
        "request": {},
        "refers": "sabc",
        "created": 1.0,
    }
    folder(store, "jabc").mkdir(parents=True)
    save(store, Job(**about, state=state, reason=None, **here))
    with serving(root) as url:
        page.goto(f"{url}/sensitivity/sabc")
        page.wait_for_selector(f"button:has-text('{button}')")
        page.goto("about:blank")  # its stream ends before the server does
