import signal

import pytest

from rlclinic.launch import deaths

TRACEBACK = "Traceback (most recent call last):\n  File x\nValueError: no such thing\n\n"
CRASH = """engine: compiled on cpu
Fatal Python error: Segmentation fault

Thread 0x00007f4f8ffff6c0 (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 359 in wait

Current thread 0x00007f526954c140 (most recent call first):
  File "/home/me/rlclinic/training/engines/compiled.py", line 88 in _build
  File "/home/me/rlclinic/training/engines/compiled.py", line 63 in __call__

Extension modules: numpy._core._multiarray_umath, torch._C (total: 38)
"""


@pytest.mark.parametrize(
    ("returncode", "printed", "expected"),
    [
        (1, TRACEBACK, "ended with exit code 1 and no final status: ValueError: no such thing"),
        (
            1,
            "checkpoint 20 cannot be used.\n  Its checksum differs.\n",
            "ended with exit code 1 and no final status: checkpoint 20 cannot be used.\n  Its",
        ),
        (1, "", "ended with exit code 1 and no final status"),
        (-signal.SIGSEGV, "Fatal Python error: Segmentation fault\n", "killed by SIGSEGV: Fatal Python error: Segmentation fault"),
        (-signal.SIGSEGV, CRASH, "killed by SIGSEGV: Segmentation fault in _build (compiled.py:88)"),
        (-signal.SIGKILL, "epoch 3\n", "killed by SIGKILL: by a person, or by the kernel for want of memory (dmesg tells)"),
        (-60, "", "killed by signal 60"),
        (2, "no CUDA device.\n  Try: --device cpu\n", "no CUDA device.\n  Try: --device cpu"),
        (1, "x\nRuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory\n", "out of memory (RuntimeError"),
        (1, "torch.OutOfMemoryError: CUDA out of memory.\n", "out of memory (torch.OutOfMemoryError"),
        (1, "MemoryError\n", "out of memory (MemoryError); train fewer seeds"),
    ],
)
def test_a_death_is_explained_by_signal_memory_or_last_words(returncode: int, printed: str, expected: str) -> None:
    assert deaths.explain(returncode, printed).startswith(expected)


def test_a_kill_while_the_kernel_ran_out_of_memory_is_called_that() -> None:
    assert "ran out of memory" in deaths.explain(-signal.SIGKILL, "", out_of_memory=True)
    assert "ran out of memory" not in deaths.explain(-signal.SIGTERM, "", out_of_memory=True)


def test_the_kernels_count_of_memory_kills_is_a_number() -> None:
    assert deaths.oom_kills() >= 0
