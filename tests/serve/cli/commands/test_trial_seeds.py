"""`trial --seeds N`: all seeds of an arm in one look, as a GPU trains them."""

from pathlib import Path

from typer.testing import CliRunner

from rlclinic.serve.cli.app import app


def test_seeds_are_one_look_of_so_many(tmp_path: Path) -> None:
    words = ["trial", "CartPole-v1:ppo_zoo", "--set", "learning_rate=2e-3", "--seeds", "16", "--dry-run", "--runs-dir", str(tmp_path)]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert "16 seeds an arm per look, one look" in shown.output
