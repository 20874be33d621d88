import pytest

from rlclinic import errors


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.RlclinicError, 1),
        (errors.ConfigError, 2),
        (errors.UsageError, 2),
        (errors.NotFound, 3),
        (errors.RunError, 1),
        (errors.EnvironmentFailed, 1),
        (errors.CheckpointCorrupt, 1),
        (errors.RunBusy, 1),
        (errors.DiskFailed, 1),
    ],
)
def test_every_error_has_the_exit_code_of_its_kind(kind: type[errors.RlclinicError], code: int) -> None:
    assert kind.exit_code == code
    assert issubclass(kind, errors.RlclinicError)


def test_whatever_stops_a_run_is_a_run_error() -> None:
    stops = (errors.EnvironmentFailed, errors.CheckpointCorrupt, errors.RunBusy, errors.DiskFailed)
    assert all(kind.__base__ is errors.RunError for kind in stops)


def test_the_text_of_an_error_is_all_that_was_said() -> None:
    assert str(errors.ConfigError("what\n  effect\n  Try: this")) == "what\n  effect\n  Try: this"


def test_the_module_docstring_names_every_error() -> None:
    kinds = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert [name for name in kinds if name not in (errors.__doc__ or "")] == []


def test_the_nearest_name_comes_first_whatever_its_letter_case() -> None:
    assert errors.nearest("cartpole-V1", ["Acrobot-v1", "CartPole-v0", "CartPole-v1"])[0] == "CartPole-v1"


def test_nothing_is_offered_for_a_name_like_no_other() -> None:
    assert errors.nearest("xyzzy", ["learning_rate", "gamma"]) == []
