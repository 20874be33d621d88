import subprocess
from pathlib import Path

import pytest

from rlclinic.ops.train import machine
from rlclinic.report.models import Check


def by_name(found: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in found}


@pytest.fixture
def quick_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = subprocess.CompletedProcess([], 0, stdout='{"version": "2", "cuda": []}\n', stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)


def test_this_installation_is_fit_to_train(tmp_path: Path, quick_torch: None) -> None:
    found = machine.doctor(tmp_path / "runs")
    checks = by_name(found.checks)
    assert found.healthy
    assert checks["torch import"].found == "works · CPU only"
    assert checks["runs folder"].found.endswith("will be created")
    assert not (tmp_path / "runs").exists()


def test_a_missing_package_comes_with_the_line_to_type(tmp_path: Path, quick_torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    real = machine._version
    monkeypatch.setattr(machine, "_version", lambda name: None if name in ("torch", "ale-py") else real(name))
    found = machine.doctor(tmp_path)
    checks = by_name(found.checks)
    assert not found.healthy
    assert (checks["torch"].status, checks["torch"].fix) == ("missing", "pip install 'rlclinic[train]'")
    assert (checks["ale-py"].status, checks["ale-py"].fix) == ("warning", "pip install ale-py")


def test_a_torch_that_cannot_be_imported_is_reported_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = subprocess.CompletedProcess([], 1, stdout="", stderr="Traceback\nImportError: libcudart.so.12 not found\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    check = machine._torch_works()
    assert (check.status, check.found) == ("failed", "ImportError: libcudart.so.12 not found")


def test_a_folder_that_cannot_be_written_is_found_by_writing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(**_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(machine.tempfile, "TemporaryFile", refuse)
    check = machine._permissions(tmp_path)
    assert check.status == "failed"
    assert "Read-only file system" in check.found
    assert "--runs-dir" in str(check.fix)


def test_little_disk_space_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "LOW_DISK_BYTES", 10**18)
    assert machine._disk(tmp_path).status == "warning"
    assert machine._memory().status == "warning"


def test_a_containers_quota_limits_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.setattr(machine.Path, "read_text", lambda self: "250000 100000\n")
    assert machine.usable_cores() == 2
    monkeypatch.setattr(machine.Path, "read_text", lambda self: "max 100000\n")
    assert machine.usable_cores() == 16


@pytest.mark.parametrize(("load", "idle"), [(0.1, 4), (4.0, 2), (7.9, 1), (30.0, 1)])
def test_cores_that_others_keep_busy_are_not_idle(monkeypatch: pytest.MonkeyPatch, load: float, idle: int) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda: 4)
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(machine.os, "getloadavg", lambda: (load, load, load), raising=False)
    assert machine.idle_cores() == idle
