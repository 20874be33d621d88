"""Static checks of training scripts: the common bugs of reinforcement learning, with the line they are on. Nothing is executed."""

from rlclinic.diagnosis.lint.code.linter import CodeLint, Skipped, lint_code

__all__ = ["CodeLint", "Skipped", "lint_code"]
