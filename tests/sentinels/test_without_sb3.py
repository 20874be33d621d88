"""Where Stable-Baselines3 is not installed."""

import subprocess
import sys

BLOCKED = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "stable_baselines3":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from rlclinic.errors import UsageError
from rlclinic.sentinels.sb3 import SentinelCallback
try:
    SentinelCallback()
except UsageError as error:
    print(error)
print("torch" in sys.modules)
"""


def test_the_callback_says_what_to_install_and_imports_nothing_heavy() -> None:
    said = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True).stdout
    assert "pip install stable-baselines3" in said
    assert said.splitlines()[-1] == "False"


def test_both_are_found_where_people_look_first_and_neither_is_imported_before_it_is_asked_for() -> None:
    code = (
        "import sys, rlclinic.sentinels as s; print('torch' in sys.modules); print(s.SentinelCallback.__module__, s.Sentinels.__module__)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["False", "rlclinic.sentinels.sb3 rlclinic.sentinels.torch_loop"]
