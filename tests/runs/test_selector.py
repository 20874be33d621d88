import pytest

from rlclinic.errors import UsageError
from rlclinic.runs.selector import Selector, has_slash, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("g7k2", Selector("g7k2")),
        ("g7k2-s0", Selector("g7k2-s0")),
        ("@last", Selector("@last")),
        ("@last~2", Selector("@last", 2)),
        ("@best", Selector("@best")),
        ("@running~1", Selector("@running", 1)),
        ("g7k2-s0/@best", Selector("g7k2-s0", 0, "@best")),
        ("g7k2-s0/5000", Selector("g7k2-s0", 0, "5000")),
        ("g7k2-s0@5000", Selector("g7k2-s0", 0, "5000")),
        ("g7k2-s0@0", Selector("g7k2-s0", 0, "0")),
        ("g7k2-s0@best", Selector("g7k2-s0", 0, "@best")),
        ("@last~1/@last", Selector("@last", 1, "@last")),
        ("@best@00512", Selector("@best", 0, "512")),
    ],
)
def test_selectors_are_taken_apart(text: str, expected: Selector) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["", "@first", "-x", "../etc", "a/b", "a b", "@last~", "x@", "x/@worst", "a" * 65, "x@1.5", "@last\n"])
def test_what_is_no_selector_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(UsageError, match="@last~1"):
        parse(text)


def test_counting_back_from_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="counts back from"):
        parse("g7k2~1")


@pytest.mark.parametrize(
    ("text", "is_one"), [("g7k2-s0/@best", True), ("g7k2/4096", True), ("ALE/Pong-v5", False), ("ALE/Pong-v5:ppo", False), ("g7k2", False)]
)
def test_a_slash_names_a_checkpoint_or_an_environment(text: str, is_one: bool) -> None:
    assert has_slash(text) is is_one
