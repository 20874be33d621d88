"""Judging an environment by what an examination of it wrote down."""

from rlclinic.diagnosis.lint.env.judging import EnvLint, judge

__all__ = ["EnvLint", "judge"]
