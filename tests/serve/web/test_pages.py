import re
import zipfile
from typing import Any

import pytest

from rlclinic.config import files
from rlclinic.ops.runs import video
from rlclinic.runs import notes
from rlclinic.runs.recording import films, histograms
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter
from tests.diagnosis.stored import write_gamed
from tests.ops.recorded import record_group
from tests.serve.web.conftest import NASTY, Site, serving

RULE = ".finding[aria-pressed]"


def shown(page: Any, selector: str) -> str:
    """What a part of the page says, once it is there."""
    found: str = page.locator(selector).first.inner_text()
    return found


def test_the_list_shows_every_group_with_its_verdict_and_its_curve(page: Any, site: Site) -> None:
    page.goto(site.url)
    page.wait_for_selector("table.groups .spark path")
    text = shown(page, "table.groups")
    assert site.sick.id in text
    assert site.healthy.id in text
    assert "SOLVED" in text
    page.fill("input[type=search]", "hot")
    page.wait_for_selector(f"text={site.healthy.id}", state="detached")
    assert "q=hot" in page.url
    page.fill("input[type=search]", "no such group")
    page.wait_for_selector("text=Nothing matches")


def test_the_table_is_sorted_filtered_grouped_and_kept_in_the_address(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/?list=groups")
    page.wait_for_selector("table.groups tr.data")
    shown_ids = "[...document.querySelectorAll('tr.data a.name')].map((link) => link.href.split('/').at(-1))"
    assert "learning_rate" in shown(page, "table.groups thead"), "what differs has a column"
    page.click("th[data-column='algo.learning_rate'] button")
    page.wait_for_selector("th[data-column='algo.learning_rate'][aria-sort=descending]")
    assert page.evaluate(shown_ids)[0] == site.sick.id
    page.click("th[data-column='algo.learning_rate'] button")
    page.wait_for_selector("th[data-column='algo.learning_rate'][aria-sort=ascending]")
    assert page.evaluate(shown_ids)[-1] == site.sick.id
    page.select_option("select[aria-label='Group by']", "verdict")
    page.wait_for_selector("tr.section >> nth=1")
    page.fill("input[aria-label=Filter]", "verdict=SOLVED")
    page.press("input[aria-label=Filter]", "Enter")
    page.wait_for_selector("tr.section >> nth=1", state="detached")
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("tr.section:has-text('SOLVED')")
    assert page.evaluate(shown_ids) == [site.healthy.id]
    page.fill("input[aria-label=Filter]", "nonsense=1")
    page.expected += ["400", "422"]
    page.press("input[aria-label=Filter]", "Enter")
    page.wait_for_selector(".problem:has-text('no column')")
    # What was refused stays where it can be put right, and is no part of the view: the next click works.
    assert page.input_value("input[aria-label=Filter]") == "nonsense=1"
    assert page.url == address
    page.click("th[data-column='best'] button")
    page.wait_for_selector(".problem", state="detached")


def test_many_rows_are_tagged_archived_and_deleted_at_once(page: Any, tmp_path: Any) -> None:
    groups = [record_group(tmp_path / "runs", seeds=(seed,)) for seed in range(70)]
    with serving(tmp_path / "runs", no_token=True) as url:
        page.goto(url)
        page.wait_for_selector("table.groups tr.data")
        assert page.locator("tr.data").count() < 60, "only rows in sight are drawn"
        page.evaluate("document.querySelector('.tall').scrollTo(0, 1e6)")
        page.wait_for_selector(f"tr.data:has-text('{groups[0].id}')")
        page.check(f"input[aria-label='Select {groups[0].id} for comparison']")
        page.check(f"input[aria-label='Select {groups[1].id} for comparison']")
        page.click("button:has-text('Diagnose')")
        page.wait_for_selector("dialog td:has-text('Healthy'), dialog td:has-text('healthy'), dialog td.num:has-text('.')")
        assert page.locator("dialog tbody tr").count() == 2
        page.click("dialog button:has-text('Close')")
        page.click("button:has-text('Export…')")
        page.select_option("dialog select", "tensorboard")
        with page.expect_download() as saved:
            page.click("dialog button[type=submit]")
        with zipfile.ZipFile(saved.value.path()) as packed:
            names = packed.namelist()
        assert all(any(run.id in name for name in names) for group in groups[:2] for run in group.runs)
        page.click("button:has-text('Tag…')")
        page.fill("input[aria-label='Tags to add']", "base")
        page.click("dialog button[type=submit]")
        page.wait_for_selector("tr.data .tag:has-text('base')")
        assert notes.read(groups[1].path).tags == ("base",)
        page.click("button:has-text('Archive')")
        page.wait_for_selector("text=68 groups")
        page.check("input[aria-label='Select all that match']")
        page.wait_for_selector("button:has-text('Compare 68')")
        page.click("button:has-text('Delete…')")
        page.click("dialog button[type=submit]")
        page.wait_for_selector("text=No runs here yet")
        assert [group.id for group in Store(tmp_path / "runs").groups()] == [groups[0].id, groups[1].id]
        page.goto("about:blank")


def test_an_empty_store_says_what_to_type(page: Any, tmp_path: Any) -> None:
    with serving(tmp_path / "runs") as url:
        page.goto(url)
        page.wait_for_selector("text=rlclinic train CartPole-v1:ppo --seeds 4")
        page.goto(f"{url}/trials")
        page.wait_for_selector("text=rlclinic trial @last --rx 1")
        page.goto("about:blank")  # before the server ends: a lost stream is an error on the console


def test_names_notes_and_logs_stay_text(page: Any, site: Site) -> None:
    run = site.sick.runs[0]
    with (run.path / "run.log").open("a") as log:
        log.write(f"2026-01-01 00:00:00 {NASTY}\n")
    page.goto(f"{site.url}/groups/{site.sick.id}")
    page.wait_for_selector("h1:has-text('too hot')")
    assert NASTY in shown(page, "h1")
    page.click("summary:has-text('Log')")
    page.wait_for_selector(f"pre.log:has-text('{NASTY[:9]}')")
    page.fill("textarea[aria-label=Note]", NASTY)
    page.fill("input[aria-label='New tag']", "hot")
    page.press("input[aria-label='New tag']", "Enter")
    page.wait_for_selector(".tag:has-text('hot')")
    page.goto(site.url)
    page.wait_for_selector("table.groups .tag:has-text('hot')")
    assert page.title() != "owned"
    assert page.locator("img[src=x]").count() == 0


def test_a_finding_marks_the_curves_it_rests_on_and_the_address_keeps_it(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/groups/{site.sick.id}")
    page.wait_for_selector(RULE)
    placed = page.locator(f"{RULE}:has-text(' to ')").first
    placed.click()
    lit = page.wait_for_selector(".chart.lit")
    box = lit.bounding_box()
    assert 0 <= box["y"] < 900, "its chart was scrolled to"
    assert placed.get_attribute("aria-pressed") == "true"
    rule = placed.get_attribute("data-rule")
    assert f"finding={rule}" in page.url
    page.reload()
    page.wait_for_selector(f".finding[data-rule={rule}][aria-pressed=true]")
    page.wait_for_selector(".chart.lit")
    page.click(f".finding[data-rule={rule}]")
    page.wait_for_selector(".chart.lit", state="detached")


def test_the_page_says_what_to_change_and_how_sure_the_cause_is(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/groups/{site.sick.id}")
    page.wait_for_selector(".rx.first")
    assert "learning_rate" in shown(page, ".rx.first .change")
    assert re.search(r"p 0\.\d\d|p 1\.00", shown(page, ".answer .odds"))
    assert "CartPole" in shown(page, ".config")
    card = shown(page, ".rx.first")
    assert card.index("learning_rate") < card.index("Expect")


def test_a_number_is_judged_by_the_limits_that_its_band_has(page: Any, site: Site) -> None:
    """A KL of 1e-6 was called usual, beside a diagnosis of steps that are too small: its band has no lower end."""
    page.goto(f"{site.url}/groups/{site.sick.id}")
    page.wait_for_selector(".chart .fine")
    said = page.eval_on_selector_all(".chart .fine", "marks => marks.map((mark) => mark.textContent)")
    assert said
    assert all(text in ("✓ above 0", "✓ usual") or text.startswith("✓ below ") for text in said)
    assert "✓ below 0.5" in said or "✓ above 0" in said


def test_what_a_learner_with_a_replay_logs_is_drawn_where_it_was_logged(page: Any, site: Site) -> None:
    names = ["train/metrics/q_mean", "train/metrics/q_max", "train/sentinel/td_error_p50", "train/hp/epsilon", "train/hp/alpha"]
    run = Store(site.root).create_group([files.load("CartPole-v1:ppo_zoo", []).config]).runs[0]
    with RunWriter(run.path, ["time", "total_timesteps", "epoch", *names]) as writer:
        for epoch in range(1, 9):
            writer.row({"time": 1.0e9 + epoch, "total_timesteps": 100 * epoch, "epoch": epoch, **dict.fromkeys(names, 1.0 + epoch)})
        writer.status("finished", 800)
    page.goto(f"{site.url}/groups/{run.group_id}")
    page.wait_for_selector(".strip .chart canvas >> nth=3")
    text = shown(page, ".strip")
    for title in ("Q-values", "TD error", "Epsilon", "Temperature"):
        assert title in text
    assert "KL divergence" not in text, "what nobody logged has no picture"


def test_the_axis_smoothing_and_zoom_are_in_the_address(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/groups/{site.healthy.id}?smooth=0.6&from=2000&to=6000")
    page.wait_for_selector(".main-chart canvas")
    assert page.input_value("input[aria-label=Smoothing]") == "0.6"
    page.click("button:has-text('wall time')")
    page.wait_for_selector("text=by wall time")
    assert "axis=seconds" in page.url
    assert "from=" not in page.url
    page.click("button:has-text('env steps')")
    page.wait_for_selector("text=by env steps")
    over = page.locator(".main-chart .u-over")
    box = over.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 60)
    page.mouse.up()
    page.wait_for_url("**from=*")
    page.click("button:has-text('Show all')")
    page.wait_for_url(lambda url: "from=" not in url)


def test_a_curve_is_saved_as_picture_and_as_numbers(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/runs/{site.healthy.runs[0].id}")
    page.wait_for_selector(".main-chart canvas")
    with page.expect_download() as numbers:
        page.click("button[aria-label='Return: save as CSV']")
    rows = numbers.value.path().read_text().splitlines()
    assert rows[0].startswith('env_steps,"training"')
    assert len(rows) == 11
    with page.expect_download() as picture:
        page.click("button[aria-label='Return: save as PNG']")
    assert picture.value.path().read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_until_somebody_chooses(page: Any, site: Site, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{site.url}/groups/{site.healthy.id}")
    page.wait_for_selector(".main-chart canvas")
    dark = "getComputedStyle(document.body).backgroundColor === 'rgb(14, 19, 24)'"
    assert page.evaluate(dark) == (scheme == "dark")
    page.click("#theme")
    assert page.evaluate(dark) == (scheme == "light")
    page.reload()
    page.wait_for_selector(".main-chart canvas")
    assert page.evaluate(dark) == (scheme == "light"), "the choice is kept"


def test_everything_is_reached_with_the_keyboard(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/groups/{site.sick.id}")
    page.wait_for_selector(RULE)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "page"
    page.locator(".main-chart .u-over").focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert "training" in shown(page, ".main-chart .readout")
    met = set()
    for _ in range(160):
        page.keyboard.press("Tab")
        met.add(page.evaluate("document.activeElement.className || document.activeElement.id || document.activeElement.tagName"))
        if any("finding" in str(name) for name in met):
            break
    assert any("finding" in str(name) for name in met), "a finding is reached"
    page.keyboard.press("Enter")
    page.wait_for_selector(".finding[aria-pressed=true]")
    outline = page.evaluate("getComputedStyle(document.querySelector('.finding[aria-pressed=true]')).outlineStyle")
    assert outline == "solid", "where the keyboard is can be seen"


def test_a_phone_shows_all_of_it_without_scrolling_sideways(page: Any, site: Site) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    for path in ("/", f"/groups/{site.sick.id}", f"/runs/{site.healthy.runs[0].id}", f"/compare?of={site.sick.id},{site.healthy.id}"):
        page.goto(site.url + path)
        page.wait_for_selector(".card")
        page.wait_for_timeout(400)
        assert page.evaluate("document.documentElement.scrollWidth") <= 391, path


def test_groups_are_compared_with_a_verdict_and_what_differs(page: Any, site: Site) -> None:
    page.goto(site.url)
    page.wait_for_selector("table.groups")
    for id in (site.sick.id, site.healthy.id):
        page.check(f"input[aria-label='Select {id} for comparison']")
    page.click("button:has-text('Compare 2')")
    page.wait_for_selector(".verdict")
    assert "algo.learning_rate" in shown(page, ".config")
    page.wait_for_selector("figure canvas")


def test_any_metric_of_compared_groups_is_drawn_against_any_axis_and_the_address_keeps_it(page: Any, site: Site) -> None:
    page.goto(f"{site.url}/compare?of={site.sick.id},{site.healthy.id}")
    page.wait_for_selector("section[aria-label=Curves] canvas")
    page.select_option("select[aria-label=Metric]", "train/metrics/kl_divergence")
    page.wait_for_selector("section[aria-label=Curves] h2:has-text('KL divergence')")
    page.click("section[aria-label=Curves] button:has-text('updates')")
    page.check("label:has-text('log x') input")
    page.click("button[aria-label='Curves: logarithmic']")
    page.click(".line-key >> nth=1")
    page.wait_for_selector(".line-key[aria-pressed=false]")
    kept = page.url
    for part in ("metric=train%2Fmetrics%2Fkl_divergence", "axis=updates", "logx=true", "logy=true", "hide=B"):
        assert part in kept, part
    page.goto("about:blank")
    page.goto(kept)
    page.wait_for_selector("section[aria-label=Curves] canvas")
    assert "by updates" in page.inner_text("section[aria-label=Curves] .unit")
    assert page.get_attribute(".line-key >> nth=1", "aria-pressed") == "false"
    assert page.get_attribute(".line-key >> nth=0", "aria-pressed") == "true"


def test_what_is_not_there_is_said_in_the_servers_words(page: Any, site: Site) -> None:
    page.expected.append("404")
    page.goto(f"{site.url}/groups/nothere")
    page.wait_for_selector(".problem")
    assert "nothere" in shown(page, ".problem")


def test_a_server_that_asks_for_a_token_shows_the_way_in(page: Any, tmp_path: Any) -> None:
    from rlclinic.serve.http.security.tokens import Tokens
    from rlclinic.serve.http.settings import Settings

    root = tmp_path / "runs"
    token = Tokens(Settings().tokens_path(root)).add("me", "write").token
    page.expected += ["401", "403", "WebSocket"]  # the refusals, as the browser reports them
    with serving(root, require_token=True) as url:
        page.goto(url)
        page.wait_for_selector("h1:has-text('Log in')")
        page.fill("input[aria-label=Token]", "wrong")
        page.click("button:has-text('Log in')")
        page.wait_for_selector(".problem")
        page.fill("input[aria-label=Token]", token)
        page.click("button:has-text('Log in')")
        page.wait_for_selector("h1:has-text('Groups')")
        page.goto("about:blank")


def test_behind_a_proxy_at_a_path_of_its_own_every_link_begins_with_it(page: Any, site: Site) -> None:
    from rlclinic.serve.http.security.tokens import Tokens
    from rlclinic.serve.http.settings import Settings

    prefix, token = "/a/b-c", Tokens(Settings().tokens_path(site.root)).add("proxied", "write").token
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with serving(site.root, require_token=True, root_path=prefix) as url:
        page.goto(f"{url}{prefix}/?token={token}")
        page.wait_for_selector("table.groups tr.data")
        page.click(f"tr.data:has-text('{site.healthy.id}') a.name")
        page.wait_for_selector(".main-chart canvas")
        assert page.url.startswith(f"{url}{prefix}/groups/{site.healthy.id}")
        page.reload()
        page.wait_for_selector(".main-chart canvas")
        page.click("nav a:has-text('Guide')")
        page.wait_for_selector("h1:has-text('Guide')")
        assert page.locator("nav a[aria-current=page]").inner_text() == "Guide"
        page.go_back()
        page.wait_for_selector(".main-chart canvas")
        strangers = [each for each in asked if each.startswith(url) and not each.startswith(f"{url}{prefix}/")]
        assert not strangers, "what lies outside of the path belongs to others"
        page.goto("about:blank")


def test_an_axis_of_tiny_numbers_has_its_powers_of_ten_at_once(page: Any, site: Site) -> None:
    """A loss of 1e-34 beside one of 0.02: uPlot's own steps would go on for most of a minute."""
    page.goto(site.url)
    found = page.evaluate(
        """async () => {
            const { decades, logRange, powers } = await import("/static/js/plotting.js");
            const [low, high] = logRange(null, 3e-34, 0.02);
            const ticks = powers(null, 1, low, high);
            return [low, high, ticks.length, decades(null, ticks).filter((tick) => tick !== null).length];
        }"""
    )
    assert found == [pytest.approx(1e-16), pytest.approx(0.1), 16, 4]
    drawn = page.evaluate("import('/static/js/chart.js').then((chart) => chart.Chart.prototype.build.toString())")
    assert "splits: powers" in drawn


def test_what_a_gamed_reward_is_paid_for_is_filmed_with_one_click(page: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    group = write_gamed(tmp_path / "runs", **{"train/roll/success_rate": 0.0})
    path = group.runs[0].path

    def film(selector: str, runs_dir: Any, *, checkpoint: str, kind: str, again: bool) -> video.Film:
        assert again
        trace = films.Trace(success=False)
        for _ in range(3):
            trace.add([0.0], [1.0], float(checkpoint), {"alive": float(checkpoint)})
        (path / films.FOLDER).mkdir(exist_ok=True)
        films.write_trace(path / films.FOLDER / f"{checkpoint}.json", trace)
        return next(made for made in video.list_films(group.runs[0]).films if made.step == int(checkpoint))

    monkeypatch.setattr(video, "film", film)
    with serving(tmp_path / "runs", no_token=True) as url:
        for first in (True, False):
            page.goto(f"{url}/groups/{group.id}")
            card = "section[aria-label='What it is paid for']"
            page.wait_for_selector(card)
            if first:
                page.click(f"{card} >> text=Film both")
            # The second time they are there: the page finds them.
            page.wait_for_selector(f"{card} figure canvas >> nth=1")
            page.wait_for_selector(f"{card} >> text=3 steps, return 0, no success")
            assert not page.is_visible(f"{card} >> text=Film both")
        page.goto("about:blank")
    assert len(video.list_films(group.runs[0]).films) == 2


def test_recorded_episodes_and_histograms_are_drawn_where_there_are_any(page: Any, tmp_path: Any) -> None:
    group = record_group(tmp_path / "runs", seeds=(0,))
    path = group.runs[0].path
    for step in (1024, 2048):
        trace = films.Trace()
        for place in range(5):
            trace.add([0.1 * place, -1.0], [1.0], 0.5, {"progress": 0.6, NASTY: -0.1})
        (path / films.FOLDER).mkdir(exist_ok=True)
        films.write_trace(path / films.FOLDER / f"{step}.json", trace)
        histograms.append(
            path, step, {"collect": {"advantages": (-1.0, 1.0, [3, 0, 9, 1])}, "learn": {"weights a.weight": (0.0, 0.0, [4, 0])}}
        )
    with serving(tmp_path / "runs", no_token=True) as url:
        page.goto(f"{url}/runs/{group.runs[0].id}")
        page.wait_for_selector("section:has(h2:has-text('Recorded episodes')) figure canvas")
        card = "section:has(h2:has-text('Recorded episodes'))"
        assert "Env step 2,048" in shown(page, card), "the newest first"
        assert f"{NASTY} −0.1" in shown(page, card).replace("\n", " ")
        page.focus("input[aria-label='Recorded episode']")
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector(f"{card} >> text=Env step 1,024")
        page.click("summary:has-text('Histograms')")
        page.wait_for_selector("canvas.histogram")
        page.focus("canvas.histogram >> nth=0")
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector("text=at 1.02k: −1 to 1, most (9 of 13) at 0.25")
        page.goto("about:blank")
