"""Rows that are written while the next iterations run: the same rows, in the same order, before anything that depends on them."""

from pathlib import Path

import pytest
import torch

from rlclinic.runs.record import Run
from rlclinic.training import trainer
from rlclinic.training.engines import captured, select
from rlclinic.training.engines.eager import Eager
from rlclinic.training.engines.select import Choice
from rlclinic.training.loops.on_policy import Iteration, IterationInputs
from tests.training.cohorts import make_config, saved, table, train

RUN = {"max_env_steps": 2_000, "checkpoint_every_env_steps": 1_000, "eval_episodes": 2}


class LikeCaptured(Eager):
    """The eager engine, which looks after what is not finite itself, as a graph does."""

    def iterate(self, inputs: IterationInputs) -> Iteration:
        found = super().iterate(inputs)
        after, good = captured._finite(found)
        return found._replace(after=after, alive=good)


@pytest.fixture
def like_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "choose", lambda *_: Choice("captured", "asked for by a test"))
    monkeypatch.setattr(Choice, "make", lambda _: LikeCaptured())


def trained(folder: Path, monkeypatch: pytest.MonkeyPatch, *, waits: bool) -> list[Run]:
    if not waits:
        monkeypatch.setattr(trainer, "may_write_later", lambda _: False)
    return train(folder, [make_config(run=RUN, seed=seed) for seed in range(2)])


def test_rows_that_waited_are_those_that_did_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, like_captured: None) -> None:
    late, early = trained(tmp_path, monkeypatch, waits=True), trained(tmp_path, monkeypatch, waits=False)
    for one, other in zip(late, early, strict=True):
        assert len(table(one)) > 6
        assert table(one) == table(other)
        assert saved(one) == saved(other)
        assert one.checkpoint("1024").step == 1_024


def test_a_member_that_breaks_ends_with_its_reason_and_the_other_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, like_captured: None
) -> None:
    iterate = LikeCaptured.iterate

    def broken(self: LikeCaptured, inputs: IterationInputs) -> Iteration:
        found = iterate(self, inputs)
        if inputs.iteration < 20:
            return found
        readings = found.readings | {"policy": found.readings["policy"].index_fill(1, torch.tensor([1]), torch.nan)}
        return found._replace(readings=readings, alive=torch.tensor([[True], [False]]))

    monkeypatch.setattr(LikeCaptured, "iterate", broken)
    one, other = train(tmp_path, [make_config(run=RUN, seed=seed) for seed in range(2)])
    assert Run(one.path).status.state == "finished"
    assert Run(other.path).status.state == "failed"
    assert "policy in gradient step" in str(Run(other.path).status.reason)
    assert 0 < len(table(other)) < len(table(one))
