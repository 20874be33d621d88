"""The roles as text: one source for agent files, skills and MCP prompts. Bands and thresholds are taken from the catalogues."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from rlclinic import metrics
from rlclinic.config import ALGORITHMS, yaml_text
from rlclinic.ops.diagnose.rules import RulePage, explain_rule, list_rules

FOLDER: Final = "texts"
MOST_RULES: Final = 4
"""Of each family: the ones that weigh most; explain_rule has the others."""
BANDS: Final = (
    "train/metrics/kl_divergence",
    "train/metrics/clip_fraction",
    "train/metrics/explained_variance",
    "train/metrics/grad_norm/clipped",
)
_PLAIN: Final = re.compile(r"`[\w.]+`: (?:above|below) -?[\d.]+, beyond doubt at -?[\d.]+\d")
_HEAD: Final = re.compile(r"---\n(.*?)\n---\n(.*)", re.DOTALL)


@dataclass(frozen=True)
class Role:
    """One expert: when to call it, what it may use, how it works."""

    name: str
    brief: str
    title: str
    description: str
    tools: tuple[str, ...]
    families: tuple[str, ...]
    text: str

    def body(self) -> str:
        """The whole instruction: how it works, then what the checks hold against, as the catalogues have it now."""
        return f"{self.text.strip()}\n\n{reference(self.families)}"


@cache
def read(name: str) -> Role:
    """A role by its name."""
    match = _HEAD.match(files("rlclinic.serve.agents").joinpath(FOLDER, f"{name}.md").read_text(encoding="utf-8"))
    if match is None:
        raise ValueError(f"{name}.md has no head")
    head: dict[str, Any] = yaml_text.load(match[1], "a role")
    return Role(
        name=head["name"],
        brief=head["brief"],
        title=head["title"],
        description=" ".join(str(head["description"]).split()),
        tools=tuple(head["tools"]),
        families=tuple(head["families"]),
        text=match[2],
    )


def reference(families: Sequence[str]) -> str:
    """Bands of the metric dictionary and thresholds of the rule catalogue, generated: they cannot differ from what is checked."""
    lines = [
        "## What the checks hold against (generated from the catalogues)",
        "",
        "Bands of healthy runs; outside is a question, not a verdict:",
    ]
    lines += [f"- {band_line(name)}" for name in BANDS]
    lines += ["", "Checks that weigh most here (`explain_rule(id)` has all of it):"]
    for family in families:
        lines += [f"- {rule_line(page)}" for page in heaviest(family)]
    return "\n".join(lines) + "\n"


def band_line(name: str) -> str:
    """One band with its condition and source."""
    entry = metrics.METRICS[name]
    assert entry.band is not None
    return f"{name}: {entry.band.low:g} to {entry.band.high:g} {entry.unit} ({entry.band.when}) [{entry.band.source}]"


def rule_line(page: RulePage) -> str:
    """One rule with where it begins to speak."""
    limits = "; ".join(readable(page))
    return f"{page.rule.id} {page.rule.name}: {page.rule.title}" + (f" {limits}" if limits else "")


def readable(page: RulePage) -> list[str]:
    """Thresholds that say something without the code around them: a name, and plain numbers."""
    return [match[0] for limit in page.thresholds if (match := _PLAIN.match(limit))]


def heaviest(family: str) -> list[RulePage]:
    """The rules about runs of a family that weigh most, in the catalogue's order."""
    rows = [row for row in list_rules(family).rules if row.family == family]
    order = sorted(rows, key=lambda row: ("high", "medium", "low").index(row.severity))
    kept = {row.id for row in order[:MOST_RULES]}
    return [explain_rule(row.id) for row in rows if row.id in kept]


def algorithms() -> list[dict[str, Any]]:
    """Every algorithm with its settings: meaning and default, as the schema has them."""
    return [
        {
            "name": name,
            "about": (config.__doc__ or "").strip().splitlines()[0],
            "settings": {
                field: {"default": str(about.default), "meaning": about.description or ""}
                for field, about in config.model_fields.items()
                if field != "name"
            },
        }
        for name, config in ALGORITHMS.items()
    ]


ROLES: Final = tuple(
    read(name) for name in ("rl-run-debugger", "rl-training-optimizer", "rl-trainer-specialist", "rl-training-expert", "rl-trainer")
)
