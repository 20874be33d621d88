"""The pages of docs/rules: one per family, with the texts of `rlclinic rules ID`, and an index."""

import re

from rlclinic.ops.diagnose import rules

INTRODUCTION = """# Rules

Every check, by family: those that `rlclinic diagnose` makes of runs and checkpoints, then those of `rlclinic lint`: settings,
environments (`--env`) and scripts (`--code`). The same texts in the terminal:

```sh
rlclinic rules POL101
rlclinic rules --family policy
```

Leave some out with `--ignore`, or for a whole project in its `pyproject.toml`:

```toml
[tool.rlclinic]
ignore = ["THR", "BUD103"]
```
"""


def families() -> list[str]:
    """Every family, in the order of `rlclinic rules`."""
    return list(dict.fromkeys(row.family for row in rules.list_rules().rules))


def file_name(family: str) -> str:
    """The page of a family: code-episodes.md."""
    return family.replace(": ", "-").replace("_", "-") + ".md"


def page(family: str) -> str:
    """docs/rules/<family>.md: every rule of a family, each under its id."""
    ids = [row.id for row in rules.list_rules().rules if row.family == family]
    title = f"# {family.replace('_', ' ').capitalize()}"
    links = " · ".join(f"[{id}](#{id})" for id in ids)
    texts = [f'<a id="{id}"></a>\n\n{_one_level_down(rules.explain_rule(id).text)}' for id in ids]
    return "\n".join([title, "", f"[All rules](index.md) · {links}", "", *texts])


def _one_level_down(text: str) -> str:
    """Headings of a page as parts of a larger one; what is in a block of code stays."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else re.sub(r"^#", "##", part, flags=re.MULTILINE) for part in parts)


def index() -> str:
    """docs/rules/index.md."""
    rows = rules.list_rules().rules
    lines = [INTRODUCTION]
    for family in families():
        page = file_name(family)
        lines += [f"## [{family.replace('_', ' ').capitalize()}]({page})", "", "| rule | severity | |", "|---|---|---|"]
        lines += [
            f"| [{row.id}]({page}#{row.id}) {row.name} | {row.severity} | {_cell(row.title)} |" for row in rows if row.family == family
        ]
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
