"""What a mistake and an odd but sound variant are made of: text that stands once in the file, and what stands there instead."""

from dataclasses import dataclass

from benchmarks.diagnosis.environments import visitors

Edits = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Slip(visitors.Slip):
    """One mistake. Every cause in `accepted` was written down, with `tells`, before anything examined the set."""

    tells: str
    """Why somebody who can run the environment could know."""


def slip(*edits: tuple[str, str], accepted: tuple[str, ...], tells: str, scores: float = 1.0) -> Slip:
    return Slip(edits=edits, accepted=accepted, tells=tells, scores=scores)


def mismatch(*edits: tuple[str, str], tells: str) -> Slip:
    """Only the environment of evaluation is wrong."""
    return Slip(edits=edits, accepted=("evaluation-mismatch", "evaluation-environment-differs"), tells=tells, evaluation=True)
