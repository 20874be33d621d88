"""The short form of benchmarks.attack.files: a sample of the hand-made files, and mutated logs, through everything that reads."""

from benchmarks.attack import files, hostile_files


def test_hostile_files_crash_nothing_and_are_not_executed(monkeypatch) -> None:
    made = hostile_files._hand_made

    def sample(mark):
        # Every 61st: contents and kinds of file in turn; the long form has all.
        return (case for place, case in enumerate(made(mark)) if place % 61 == 0)

    monkeypatch.setattr(hostile_files, "_hand_made", sample)
    found = files.attack(15, seed=7)
    assert found["files"] == 15
    for harm in ("crashes", "hangs", "memory", "executed"):
        assert not found[harm], (harm, found[harm][:5])
