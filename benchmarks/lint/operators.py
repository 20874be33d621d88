"""Faults planted by operators in scripts of others: how much is found in styles that nobody here has written.

    python -m benchmarks.lint.operators DIR [DIR …]              every script below the folders that trains something with gym
    python -m benchmarks.lint.operators DIR --half open --misses one half of the files, by the hash of their names, with what was missed

Each operator is a pattern for one line and what it becomes; at most two lines of a file are changed by it, one at a time. A fault is found
if any check says something new on the changed line or one of the next two (for a line that is deleted: near it).
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import provenance
from benchmarks.lint.__main__ import check
from rlclinic.errors import UsageError

COMMAND: Final = "python -m benchmarks.lint.operators"
MOST_A_FILE: Final = 2
DELETED: Final = "pass"
OPERATORS: Final = (
    # name, what a line holds, what stands there then
    ("no-done-mask", r"\s*\*\s*\(\s*1(\.0)?\s*-\s*[\w.\[\]]*(done|term|dw|mask|end)[\w.\[\]]*\s*\)", ""),
    ("no-kept-mask", r"\s*\*\s*(not_done|mask_batch|masks?|notdone|done_mask)\b", ""),
    ("mask-inverted", r"\(\s*1(\.0)?\s*-\s*([\w.\[\]]*(done|term|dw)[\w.\[\]]*)\s*\)", r"(\2)"),
    ("max-for-min", r"torch\.min\(\s*(\w*(surr|q|Q|t_q|target|qf)\w*\s*,)", r"torch.max(\1"),
    ("no-zero-grad", r"^\s*[\w.]*(optim\w*|opt)\.zero_grad\(\)\s*$", DELETED),
    ("ratio-without-exp", r"torch\.exp\((\s*\w*log\w*\s*-\s*\w*(log|old)[\w.\[\]()]*\s*)\)", r"(\1)"),
    ("ratio-inverted", r"torch\.exp\(\s*(\w*log\w*)\s*-\s*(\w*(log|old)[\w.\[\]]*(\.detach\(\))?)\s*\)", r"torch.exp(\2 - \1)"),
    ("no-discount", r"(\b\w+\.)*\b(GAMMA|gamma)\s*\*\s*(?=[\w.(])", ""),
    ("not-reversed", r"reversed\(((?:[^()]|\([^()]*\))*)\)", r"\1"),
    ("actor-sign", r"(actor_loss|policy_loss|loss_pi|a_loss|pi_loss|pg_loss)\s*=\s*-\s*", r"\1 = "),
    ("entropy-sign", r"-\s*((self\.)?\w*(ent|entropy)_?(coef|coeff|beta|weight)\w*\s*\*)", r"+ \1"),
    ("target-from-online", r"\bself\.(critic|actor|q|Q|qf|policy)_target\(", r"self.\1("),
    ("tau-swapped", r"\(\s*1(\.0)?\s*-\s*((self\.)?tau)\s*\)\s*\*\s*target", r"\2 * target"),
    ("clip-bounds", r"1\s*-\s*((self\.)?\w*(clip|eps)\w*)\s*,\s*1\s*\+", r"-\1, 0 +"),
    ("index-for-value", r"\.max\((dim=)?1(,\s*keepdim=True)?\)\[0\]", r".max(1)[1]"),
    ("maximum-over-batch", r"\.max\((dim=)?1(,\s*keepdim=True)?\)\[0\]", r".max(0)[0]"),
    ("no-rsample", r"\.rsample\(\)", ".sample()"),
    ("soft-value-sign", r"-\s*((self\.)?alpha\s*\*)", r"+ \1"),
    (
        "observation-not-carried",
        r"^\s*(state|obs|s|observation|o)\s*=\s*(next_state|next_obs|s_|s_next|s_prime|observation_|o2|new_state)\s*$",
        DELETED,
    ),
    ("returns-less-value", r"(returns?|v_target|ret)\s*=\s*(adv\w*)\s*\+\s*(\w+)", r"\1 = \2 - \3"),
    ("learning-rate", r"\blr\s*=\s*(3e-4|1e-3|5e-4|2\.5e-4|1e-4|0\.001|0\.0003)\b", "lr=0.9"),
    ("discount-too-large", r"\b(gamma|GAMMA)(\s*=\s*)0\.9\d*", r"\1\g<2>1.9"),
    (
        "exploration-inverted",
        r"(random\.random\(\)|np\.random\.rand\(\)|np\.random\.random\(\))\s*<\s*((self\.)?(eps\w*|exploration\w*))",
        r"\1 > \2",
    ),
    ("detached-policy", r"(-\s*)(log_?probs?|logprobs?|log_pi)(\s*\*)", r"\1\2.detach()\3"),
)


class Planted(NamedTuple):
    """A fault in a script, and whether it was found."""

    path: str
    operator: str
    line: int
    is_found: bool
    text: str


def plant(text: str) -> Iterator[tuple[str, int, set[int], str]]:
    """Every operator on the first lines that it fits: its name, the line, where it may be reported, and the new text."""
    lines = text.split("\n")
    for name, pattern, becomes in OPERATORS:
        fitting = [place for place, line in enumerate(lines) if re.search(pattern, line) and not line.strip().startswith("#")]
        for place in fitting[:MOST_A_FILE]:
            indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
            changed = indent + DELETED if becomes == DELETED else re.sub(pattern, becomes, lines[place], count=1)
            near = range(max(1, place - 7), place + 10) if becomes == DELETED else range(place, place + 4)
            yield name, place + 1, set(near), "\n".join([*lines[:place], changed, *lines[place + 1 :]])


def examine(path: Path) -> list[Planted]:
    """What is found of the faults that operators plant in one file."""
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        before = {(each.rule, place.text) for each in check(str(path), text).findings for place in each.evidence}
    except UsageError:
        return []
    planted = []
    for name, line, near, changed in plant(text):
        try:
            findings = check(str(path), changed).findings
        except UsageError:
            continue
        new = [place for each in findings for place in each.evidence if (each.rule, place.text) not in before]
        is_found = any(int(place.numbers["line"]) in near for place in new)
        planted.append(Planted(str(path), name, line, is_found, changed.split("\n")[line - 1].strip()))
    return planted


def is_training(path: Path) -> bool:
    """A script that takes gradients and steps of an environment."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return "backward()" in text and ".step(" in text and "gym" in text and not path.name.startswith("test")


def main() -> None:
    """Print the share that is found, by operator."""
    parser = provenance.parser(__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--half", choices=("open", "other"), help="only the files of one half")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    paths = [path for folder in args.folders for path in sorted(folder.rglob("*.py")) if path.is_file() and is_training(path)]
    if args.half:
        paths = [path for path in paths if (int(hashlib.sha256(path.name.encode()).hexdigest(), 16) % 2 == 0) == (args.half == "open")]
    with ProcessPoolExecutor(args.processes) as pool:
        planted = [each for several in pool.map(examine, paths) for each in several]
    total, found = Counter(each.operator for each in planted), Counter(each.operator for each in planted if each.is_found)
    for each in planted if args.misses else ():
        if not each.is_found:
            print(f"  missed {each.path}:{each.line} {each.operator}: {each.text[:100]}")
    print(f"{len(paths)} files, {sum(found.values())} of {len(planted)} found ({100 * sum(found.values()) / max(len(planted), 1):.1f} %)")
    print(", ".join(f"{name} {found[name]}/{count}" for name, count in total.most_common()))


if __name__ == "__main__":
    main()
