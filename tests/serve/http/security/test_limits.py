"""The limits that docs/security.md promises are those that the server keeps."""

from pathlib import Path

from rlclinic.ops.jobs import start
from rlclinic.serve.http import connections
from rlclinic.serve.http.security import access
from rlclinic.serve.http.settings import Settings

PAGE = Path(__file__).parents[4] / "docs" / "security.md"


def say_rate(rate: tuple[float, float], more: str = "") -> str:
    return f"{rate[0]:.0f} a second{more}, {rate[1]:,.0f} at once"


def test_every_limit_on_the_page_is_the_one_in_the_code() -> None:
    rows = [
        line.strip("| ").split(" | ") for line in PAGE.read_text().split("\n## Limits\n")[1].split("\n## ")[0].splitlines() if "|" in line
    ]
    promised = {row[0]: row[1] for row in rows[2:]}
    kept = {
        "connections": f"at most {connections.WANTED_FILES // 2:,};",
        "the headers of a request": f"{connections.HEADER_SECONDS:.0f} s from",
        "a body": f"{Settings().max_body_bytes / 1e6:.0f} MB, {connections.BODY_SECONDS:.0f} s",
        "an answer that is not read": f"{connections.WRITE_SECONDS:.0f} s",
        "wrong tokens from one address": {10: "ten;"}[access.FREE_FAILURES],
        "requests without a token": say_rate(access.STRANGER_RATE, " from one address"),
        "requests with a token": say_rate(access.TOKEN_RATE),
        "jobs that wait": str(start.MOST_WAITING),
    }
    assert set(promised) == set(kept)
    assert [what for what, limit in kept.items() if limit not in promised[what]] == []
    assert access.LONGEST_LOCK_SECONDS == 5 * 60
    assert "at most five minutes" in promised["wrong tokens from one address"]
