from pathlib import Path

import pytest

from rlclinic.errors import UsageError
from rlclinic.runs import control


def test_a_request_is_handed_out_once(tmp_path: Path) -> None:
    assert control.take(tmp_path) is None
    control.ask(tmp_path, stop=True)
    assert control.pending(tmp_path) == {"stop": True}
    assert control.take(tmp_path) == {"stop": True}
    assert control.take(tmp_path) is None


def test_requests_before_the_next_look_are_joined_and_the_later_number_holds(tmp_path: Path) -> None:
    control.ask(tmp_path, numbers={"algo.ent_coef": 0.1, "algo.gamma": 0.9})
    control.ask(tmp_path, numbers={"algo.ent_coef": 0.2})
    control.ask(tmp_path, checkpoint=True)
    assert control.take(tmp_path) == {"set": {"algo.ent_coef": 0.2, "algo.gamma": 0.9}, "checkpoint": True}


def test_an_empty_request_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="something to do"):
        control.ask(tmp_path)
    assert control.take(tmp_path) is None


def test_a_damaged_request_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "control.json").write_text('{"stop": tr')
    assert control.take(tmp_path) is None
    assert not (tmp_path / "control.json").exists()
