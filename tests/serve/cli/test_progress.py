import io
import sys

import pytest

from rlclinic.report.models import Estimate, LiveGroup, LiveMember
from rlclinic.serve.cli import progress


def member(seed: int, state: str = "running", steps: int = 5_000, **more: object) -> LiveMember:
    usual: dict[str, object] = {
        "run": f"g1-s{seed}",
        "seed": seed,
        "state": state,
        "reason": None,
        "env_steps": steps,
        "max_env_steps": 10_000,
        "episodes": 40,
        "return_mean": 100.0 + seed,
        "eval_mean": 120.0,
        "best_eval": 130.0,
        "kl": 0.011,
        "entropy": 0.42,
        "explained_variance": 0.83,
        "steps_per_second": 5_000.0,
        "threshold_reached_at": None,
    }
    return LiveMember.model_validate({**usual, **more})


def group(*members: LiveMember, state: str = "running", steps: int = 5_000) -> LiveGroup:
    return LiveGroup(
        id="g1",
        name="CartPole-v1:ppo",
        threshold=475.0,
        state=state,  # type: ignore[arg-type]
        members=list(members),
        env_steps=steps,
        max_env_steps=10_000,
        steps_per_second=10_000.0,
        eta_seconds=3.2,
        return_mean=Estimate(value=101.0, low=100.0, high=102.0),
    )


def drawn(shown: LiveGroup) -> str:
    from rich.console import Console

    target = Console(file=io.StringIO(), width=120)
    target.print(progress.member_table(shown))
    return target.file.getvalue()  # type: ignore[attr-defined]


def test_a_plain_line_has_return_threshold_figures_rate_and_time_left() -> None:
    line = progress.plain_line(group(member(0), member(1)))
    assert line == ("g1  5,000/10,000 (50 %)  return 101 [100, 102]  eval 120  KL 0.011  entropy 0.42  EV 0.83  10,000 steps/s  3.2 s left")


def test_plain_lines_come_every_few_seconds_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 2.0, 6.0, 6.5])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.PlainView() as view:
        for steps in (1_000, 2_000, 3_000, 4_000):
            view(group(member(0), steps=steps))
        view(group(member(0, "finished"), state="finished", steps=10_000))
    lines = sys.stderr.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.split()[1] for line in lines] == ["1,000/10,000", "4,000/10,000", "10,000/10,000"]


def test_each_seed_has_a_row_with_its_own_state() -> None:
    table = drawn(group(member(0, threshold_reached_at=4_096), member(1, "failed"), member(2)))
    rows = table.splitlines()[1:]
    assert len(rows) == 3
    assert "✓ 4.1k" in rows[0]
    assert "failed" in rows[1]
    assert "0.011" in rows[2]
    assert "50%" in rows[2]


def test_a_table_of_seeds_fits_a_narrow_terminal() -> None:
    from rich.console import Console

    target = Console(file=io.StringIO(), width=80)
    target.print(
        progress.member_table(group(member(0, threshold_reached_at=4_096, kl=3.37e-5, explained_variance=-0.0452), member(11, "stopped")))
    )
    lines = target.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert "✓ 4.1k" in lines[1]
    assert lines[2].rstrip().endswith("stopped")


def test_many_seeds_are_shown_as_their_range() -> None:
    many = group(*(member(seed, threshold_reached_at=1 if seed < 5 else None) for seed in range(40)))
    table = drawn(many)
    assert len(table.splitlines()) == 4
    assert [line.split()[0] for line in table.splitlines()[1:]] == ["lowest", "median", "highest"]
    assert "5 of 40 reached 475" in progress.footer(many)


def test_the_live_view_redraws_in_place_and_leaves_its_last_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stderr", Terminal())
    view = progress.watch(quiet=False)
    assert isinstance(view, progress.LiveView)
    with view:
        for steps in range(1_000, 10_000, 1_000):
            view(group(member(0), member(1), steps=steps))
        view.say("stopping")
    text = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert "CartPole-v1:ppo · g1 · 2 seeds · threshold 475" in text
    assert "Ctrl-C saves and stops" in text
    assert "stopping" in text
    assert "┤" in text


def test_quiet_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.watch(quiet=True) as view:
        view(group(member(0)))
        view.say("anything")
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_a_pipe_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(progress.watch(quiet=False), progress.PlainView)


@pytest.mark.parametrize(
    ("quiet", "said"), [(False, ["started", "0 of 4", "3 of 4", "look 1", "3 of 4 again"]), (True, [])], ids=["plain", "quiet"]
)
def test_a_trials_lines_come_now_and_then_and_at_once_after_what_is_said_for_good(
    quiet: bool, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.ArmsView(quiet) as view:
        view.say("started")
        for summary, seconds in (("0 of 4", 0.0), ("1 of 4", 5.0), ("2 of 4", 9.9), ("3 of 4", 10.0)):
            view.show(["control", "rx1"], summary, seconds)
        view.say("look 1")
        view.show(["control", "rx1"], "3 of 4 again", 10.5)
        view.show(["control", "rx1"], "3 of 4 again", 30.0)  # nothing new
    assert sys.stderr.getvalue().splitlines() == said  # type: ignore[attr-defined]


def test_on_a_terminal_the_arms_are_redrawn_and_only_what_is_said_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    screen = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None, _environ={"TERM": "xterm"})
    monkeypatch.setattr(progress.console, "progress", lambda: screen)
    with progress.ArmsView(quiet=False) as view:
        view.show(["control 0/8", "rx1 0/8"], "never shown", 0.0)
        view.say("look 1")
    drawn_text = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "rx1 0/8" in drawn_text
    assert "never shown" not in drawn_text
    # After the last line that stays nothing is left of the arms: their lines are erased.
    assert drawn_text.rpartition("look 1")[2].count("\x1b[2K") >= 1
