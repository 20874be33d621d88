"""Which meaning of the trainer a run has: written when it is created, kept by its children, asked before it goes on."""

from pathlib import Path

import pytest

from rlclinic.config import Config, corrections
from rlclinic.config.corrections import CORRECTIONS, Correction
from rlclinic.runs import disk
from rlclinic.runs.record import CONFIG, Run
from rlclinic.runs.store import Store


def config(name: str = "a2c") -> Config:
    return Config(env={"id": "CartPole-v1"}, algo={"name": name})  # type: ignore[arg-type]


def older(run: Run) -> Run:
    """The same folder as one that was written before there were corrections."""
    record = disk.read_json(run.path / CONFIG)
    assert record is not None
    disk.write_json(run.path / CONFIG, {key: value for key, value in record.items() if key != "corrections"})
    return Run(run.path)


def test_a_new_run_names_every_correction_and_an_old_folder_has_none(tmp_path: Path) -> None:
    run = Store(tmp_path).create_group([config()]).runs[0]
    assert run.corrections == set(CORRECTIONS)
    assert run.config == config()
    assert older(run).corrections == frozenset()


def test_a_fork_keeps_the_meaning_of_its_parent_where_that_was_touched_by_it_and_weights_alone_keep_none(tmp_path: Path) -> None:
    store = Store(tmp_path)
    touched, untouched = (older(store.create_group([config(name)]).runs[0]) for name in ("a2c", "ppo"))

    def child(parent: Run, start: str) -> frozenset[str]:
        return store.create_group([config()], parent=f"{parent.id}@8", extra={"start": start}).runs[0].corrections

    assert "rmsprop_as_torch" not in child(touched, "fork")
    assert "rmsprop_as_torch" not in child(touched, "extend")
    assert "rmsprop_as_torch" in child(touched, "init")
    assert "rmsprop_as_torch" in child(untouched, "fork")


def test_a_run_is_refused_only_where_it_lacks_a_correction_that_touches_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {"kept": Correction("x", lambda config, skips: True, goes_on=True), "new": Correction("two was three", lambda _, skips: skips)}
    monkeypatch.setattr(corrections, "CORRECTIONS", known)
    assert corrections.refusal("g-s0", [], config(), skips=False) is None
    assert corrections.refusal("g-s0", ["new"], config(), skips=True) is None
    reason = corrections.refusal("g-s0", [], config(), skips=True)
    assert reason is not None
    assert "begun when two was three" in "".join(reason)
    assert "rlclinic train g-s0" in "".join(reason)


def test_the_documentation_of_the_run_folder_names_every_correction() -> None:
    page = (Path(__file__).parents[2] / "docs" / "run-folder.md").read_text()
    rows = {line.split("|")[1].strip(): line for line in page.splitlines() if line.startswith("| `")}
    for name, correction in CORRECTIONS.items():
        assert rows[f"`{name}`"].endswith("| yes |" if correction.goes_on else "| no |")
