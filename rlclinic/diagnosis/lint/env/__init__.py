"""Findings about an environment, from what an examination of it wrote down."""

from rlclinic.diagnosis.lint.env.linter import EnvLint, lint_facts

__all__ = ["EnvLint", "lint_facts"]
