"""The link that the server prints, followed in a real browser."""

from pathlib import Path
from typing import Any

from rlclinic.serve.http.security.tokens import Tokens, hash_token, make_token
from tests.ops.recorded import record_group
from tests.serve.web.conftest import browser, serving  # noqa: F401 — a fixture


def test_the_link_opens_the_page_and_its_token_does_not_stay_in_the_address(tmp_path: Path, browser: Any) -> None:  # noqa: F811
    group = record_group(tmp_path / "runs")
    token = make_token()
    with serving(tmp_path / "runs", require_token=True, link=hash_token(token)) as url:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{url}/groups/{group.id}")
        page.wait_for_url("**/login")
        page.goto(f"{url}/groups/{group.id}?token={token}")
        page.wait_for_selector(f"text={group.id}")
        assert page.url == f"{url}/groups/{group.id}"
        # Who comes back to the login page is let on: a link followed from another site has its cookie with the next request only.
        page.goto(f"{url}/login")
        page.wait_for_url(f"{url}/")
        context.close()


def test_a_page_changes_between_the_projects_of_its_token(tmp_path: Path, browser: Any) -> None:  # noqa: F811
    groups = {name: record_group(tmp_path / name / "runs", seeds=(0,)).id for name in ("maze", "arm", "cave")}
    tokens = Tokens(tmp_path / "tokens.json")
    token = tokens.add("ann", projects={"maze": "read", "arm": "own"}).token
    served = {name: tmp_path / name for name in groups}
    with serving(tmp_path / "runs", require_token=True, token_file=tokens.path, projects=served) as url:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{url}/?token={token}")
        chosen = page.get_by_label("Project")
        chosen.wait_for()
        assert [option.text_content() for option in chosen.locator("option").all()] == ["arm", "maze"]
        page.wait_for_selector(f"text={groups['maze']}")
        chosen.select_option("arm")
        page.wait_for_selector(f"text={groups['arm']}")
        assert page.get_by_label("Project").input_value() == "arm"
        assert groups["maze"] not in page.content()
        assert "cave" not in page.content()
        context.close()
