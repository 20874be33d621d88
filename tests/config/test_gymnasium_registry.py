import subprocess
import sys
from pathlib import Path

import pytest

from rlclinic.config import load
from rlclinic.config.gymnasium_registry import Registered, look_up
from rlclinic.errors import NotFound


def test_gymnasiums_threshold_and_time_limit_are_found() -> None:
    assert look_up("CartPole-v0") == Registered(195.0, 200)
    assert look_up("Pendulum-v1") == Registered(None, 200)


def test_an_environment_that_does_not_exist_offers_the_nearest() -> None:
    with pytest.raises(NotFound, match=r"no environment LunarLadner-v3(?s:.*)Try: LunarLander-v3"):
        look_up("LunarLadner-v3")


def test_files_are_offered_too() -> None:
    with pytest.raises(NotFound, match="Try: MyRobot-v0"):
        look_up("MyRobto-v0", ["MyRobot-v0"])


def test_probes_need_no_gymnasium() -> None:
    assert look_up("probe:3") == Registered()


def test_a_module_must_exist_but_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_envs.py").write_text("raise RuntimeError('imported')")
    monkeypatch.chdir(tmp_path)
    assert look_up("my_envs:Foo-v0") == Registered()
    with pytest.raises(NotFound, match="no module `your_envs` for the environment your_envs:Foo-v0"):
        look_up("your_envs:Foo-v0")


def test_a_file_must_exist_and_a_name_in_it_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_envs.py").write_text("raise RuntimeError('imported')")
    monkeypatch.chdir(tmp_path)
    assert look_up("my_envs.py:Foo") == Registered()
    assert look_up(f"{tmp_path}/my_envs.py:Foo") == Registered()
    with pytest.raises(NotFound, match=r"(?s)no file your_envs.py.*Try: path/to/file.py:MyEnv"):
        look_up("your_envs.py:Foo")
    with pytest.raises(NotFound, match=r"(?s)may hold several environments.*Try: my_envs.py:MyEnv"):
        look_up("my_envs.py")


def test_a_file_without_a_name_offers_the_environments_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = "class Car(gym.Env):\n    pass\nclass Model:\n    pass\nclass Boat:\n    def reset(self): ...\n    def step(self, action): ...\n"
    (tmp_path / "my_envs.py").write_text(f"raise RuntimeError('imported')\n{file}")
    with pytest.raises(NotFound, match=r"Try: my_envs.py:Car, or my_envs.py:Boat$"):
        look_up("my_envs.py")
    (tmp_path / "my_envs.py").write_text("class Car(gym.Env")
    with pytest.raises(NotFound, match=r"Try: my_envs.py:MyEnv$"):
        look_up("my_envs.py")


def test_a_variant_may_follow_a_class_in_a_file_or_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_envs.py").write_text("")
    monkeypatch.chdir(tmp_path)
    for ref, algo in (("my_envs.py:Foo", "ppo"), ("my_envs.py:Foo:dqn", "dqn"), ("my_envs:Foo:sac", "sac")):
        config = load(ref).config
        assert (config.env.id, config.algo.name) == (":".join(ref.split(":")[:2]), algo)
    with pytest.raises(NotFound, match=r"(?s)my_envs:Foo has no variant sacc.*Try: my_envs:Foo:sac"):
        load("my_envs:Foo:sacc")


def test_without_gymnasium_an_id_is_taken_on_trust() -> None:
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "from rlclinic.config import load\n"
        "config = load('Foo-v0').config\n"
        "assert (config.env.id, config.spec.threshold) == ('Foo-v0', None)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_and_loading_a_file_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom rlclinic.config import available, load\n"
        "available(); load('CartPole-v1:ppo', ['clip_range=0.1'])\n"
        "print([name for name in ('torch', 'gymnasium', 'scipy', 'numpy', 'matplotlib') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip() == "[]"
