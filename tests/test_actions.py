"""A next action is a command for people, a call for agents, and text in JSON."""

import copy
import json

import pytest
from pydantic import BaseModel, TypeAdapter

from rlclinic.actions import Action
from rlclinic.errors import NotFound


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (Action("runs list"), "rlclinic runs list"),
        (Action("trial", "g7k2", rx=1), "rlclinic trial g7k2 --rx 1"),
        (Action("train", resume="g7k2", max_env_steps=2000), "rlclinic train --resume g7k2 --max-env-steps 2000"),
        (Action("train", "g", set=["a=1", "b={start: 1}"]), "rlclinic train g --set a=1 --set 'b={start: 1}'"),
        (Action("adopt", "t1", as_="CartPole-v1:mine", force=True), "rlclinic adopt t1 --as CartPole-v1:mine --force"),
        (Action("compare", "@last~1", "@last", runs_dir=None, full=False), "rlclinic compare @last~1 @last"),
        (Action("stop", "g").then(Action("diagnose", "g")), "rlclinic stop g && rlclinic diagnose g"),
    ],
)
def test_an_action_reads_as_the_command_that_does_it(action: Action, text: str) -> None:
    assert action == text


def test_an_action_keeps_its_parts_through_a_model_and_a_copy_and_is_text_in_json() -> None:
    class Report(BaseModel):
        next: list[Action]

    found = Report(next=[Action("trial", "g7k2", rx=1)])
    assert (found.next[0].command, found.next[0].names, found.next[0].options) == ("trial", ("g7k2",), {"rx": 1})
    assert json.loads(found.model_dump_json()) == {"next": ["rlclinic trial g7k2 --rx 1"]}
    assert copy.deepcopy(found.next[0]).options == {"rx": 1}
    assert Report.model_validate_json(found.model_dump_json()).next == found.next
    assert Report.model_json_schema()["properties"]["next"]["items"] == {"type": "string"}
    with pytest.raises(ValueError, match="text"):
        TypeAdapter(Action).validate_python(3)


def test_an_error_is_its_whole_text_and_still_knows_what_to_do_next() -> None:
    error = NotFound("no run 'x'.\n  See what there is: ", Action("runs list"))
    assert str(error) == "no run 'x'.\n  See what there is: rlclinic runs list"
    assert [part for part in error.parts if isinstance(part, Action)] == [Action("runs list")]
