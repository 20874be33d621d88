import pytest

from rlclinic.errors import UsageError
from rlclinic.launch import places
from rlclinic.launch.places import RayPlace


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", None),
        ("local", None),
        ("ray", RayPlace()),
        ("ray?gpus=0.25", RayPlace(gpus=0.25)),
        ("ray?gpus=2", RayPlace(gpus=2.0)),
        ("ray://auto", RayPlace("auto")),
        ("ray://head:10001?gpus=0.5", RayPlace("ray://head:10001", 0.5)),
    ],
)
def test_places_are_read(text: str, place: RayPlace | None) -> None:
    assert places.read(text) == place


@pytest.mark.parametrize("text", ["moon", "ray://", "ray?gpus=0", "ray?gpus=-1", "ray?gpus=1.5", "ray?gpus=x", "ray?cpus=2"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no place to train on"):
        places.read(text)


def test_a_place_is_taken_for_this_process_and_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(places.VARIABLE, "local")
    places.choose(None)
    assert not places.on_ray()
    places.choose("ray")
    assert places.on_ray()


def test_this_machine_has_the_cores_that_it_is_said_to_have_and_one_gpu_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(places.VARIABLE, raising=False)
    assert places.count_cores(3) == 3
    assert places.count_gpus() == 1
    assert places.have_gpu(True)
    assert not places.have_gpu(False)
