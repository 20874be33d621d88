import pytest

from rlclinic import references
from rlclinic.errors import NotFound


def test_references_have_keys_that_name_author_and_year() -> None:
    for key, reference in references.REFERENCES.items():
        assert key == reference.key
        assert str(reference.year) in key
        assert reference.url.startswith("http")
        assert reference.title in str(reference)


def test_an_unknown_reference_offers_the_nearest() -> None:
    assert references.cite("schulman2017ppo").year == 2017
    with pytest.raises(NotFound, match="nearest: schulman2017ppo"):
        references.cite("schulman2017")
