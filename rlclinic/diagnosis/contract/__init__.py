"""Judging an environment by what an examination of it wrote down."""

from rlclinic.diagnosis.contract.judging import EnvLint, judge

__all__ = ["EnvLint", "judge"]
