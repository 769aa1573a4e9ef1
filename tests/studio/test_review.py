"""What people do with the studio: log in, review an agent's work, merge it, change data."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.failpoints import Failpoint, armed, error
from omnigraph.pipeline import read_pipeline, run_pipeline
from tests.studio.conftest import TOKENS, MakeDesk, serving

VIEWS = ("overview", "schema", "query", "explore", "history", "compare", "data", "operations")
LINE = '{"type":"Person","data":{"slug":"new","name":"New Person"}}'


def test_a_conflict_is_resolved_by_property_and_merged(
    own_url: str, copied: Path, desk: MakeDesk
) -> None:
    found = desk(own_url)
    page = found.page
    found.go("overview")
    page.get_by_text("4 ahead, 1 behind").wait_for()
    page.get_by_role("button", name="Compare").last.click()
    page.get_by_text("What review changed since it left main").wait_for()
    page.get_by_role("tab", name="Merge").click()
    card = page.get_by_role("region", name="Conflict Person/ada")
    card.wait_for()
    merge = page.get_by_role("button", name="Merge review into main")
    assert merge.is_disabled()
    card.get_by_role("button", name="role: theirs").click()
    card.get_by_label("Own value of level").fill("x")
    assert "whole number" in card.inner_text()
    card.get_by_label("Own value of level").fill("8")
    page.get_by_label("Message of the commit").fill("reviewed \u00e9")
    page.get_by_label("Delete the branch review afterwards").check()
    merge.click()
    page.get_by_text("review was merged into main (merged)").wait_for()
    page.get_by_role("button", name="Show the commit").click()
    page.get_by_role("heading", name="Commit").wait_for()
    page.locator("ins", has_text="mathematician").wait_for()
    assert "Edgar Codd" in found.text()
    with og.open(copied, mode="ro") as graph:
        ada = graph.entity_at("node:Person", "ada")
        assert ada is not None
        data = ada["data"]
        assert isinstance(data, dict)
        assert (data["role"], data["level"]) == ("mathematician", 8)
        assert graph.branches.list() == ["main"]
        assert graph.commits.head().merged_parent_commit_id is not None
        assert graph.commits.head().message == "reviewed \u00e9"


def test_a_merge_that_comes_too_late_keeps_the_choices(own_url: str, desk: MakeDesk) -> None:
    found = desk(own_url, "412")
    page = found.page
    found.go("compare", source="review", target="main", tab="merge")
    page.get_by_role("button", name="keep main").first.click()
    change = 'query q() { update Company set { founded: 1 } where slug = "navy" }'
    page.route(
        "**/branches/merge",
        lambda route: (
            httpx.post(f"{own_url}/mutate", json={"query": change}).raise_for_status(),
            route.continue_(),
        ),
        times=1,
    )
    page.get_by_role("button", name="Merge review into main").click()
    page.get_by_text("That did not work").wait_for()
    page.get_by_text("decided").wait_for()
    page.wait_for_timeout(200)
    page.get_by_role("button", name="Merge review into main").click()
    page.get_by_text("review was merged into main").first.wait_for()


def test_data_is_tried_before_it_is_loaded(own_url: str, desk: MakeDesk) -> None:
    found = desk(own_url, "400")
    found.go("data")
    page = found.page
    page.get_by_role("textbox", name="Lines").fill('{"type":"Persn","data":{}}')
    page.get_by_role("button", name="Try").click()
    page.get_by_text("did you mean 'Person'").wait_for()
    page.get_by_role("textbox", name="Lines").fill(LINE)
    page.get_by_role("button", name="Try").click()
    page.get_by_text("It fits").wait_for()
    page.get_by_role("button", name="Load", exact=True).click()
    page.get_by_text("was loaded into main").wait_for()


TABLE = b"Short Name,name,level\nnew,New Person,1\nodd,Odd Person,high\ntwo,,2\n"


def test_a_table_is_loaded_by_a_form_without_the_rows_that_do_not_fit(
    own_url: str, copied: Path, desk: MakeDesk
) -> None:
    found = desk(own_url, "400")
    page = found.page
    found.go("data")
    page.locator("input[type=file]").set_input_files(
        {"name": "people.csv", "mimeType": "text/csv", "buffer": TABLE}
    )
    page.get_by_label("Each row is a").select_option("Person")
    assert page.get_by_label("What name becomes").input_value() == "name"
    page.get_by_label("What Short Name becomes").select_option("slug")
    page.get_by_role("button", name="Try").click()
    page.get_by_text("level: write a whole number").wait_for()
    page.get_by_role("button", name="Leave these rows out").click()
    page.get_by_text("It fits").wait_for()
    page.get_by_text("One row is left out").wait_for()
    page.get_by_role("button", name="Load", exact=True).click()
    page.get_by_text("people.csv was loaded into main").wait_for()
    with og.open(copied, mode="ro") as graph:
        assert graph.get("Person", "new") is not None
        assert graph.get("Person", "odd") is None


def test_a_parquet_file_is_loaded_by_the_same_form(
    own_url: str, copied: Path, desk: MakeDesk, tmp_path: Path
) -> None:
    file = tmp_path / "people.parquet"
    levels = [1, 2**40, 3]
    columns = {"Short Name": ["new", "odd", "two"], "name": ["New", "Odd", "Two"], "level": levels}
    pq.write_table(pa.table(columns), file)
    found = desk(own_url, "400")
    page = found.page
    found.go("data")
    page.locator("input[type=file]").set_input_files(file)
    page.get_by_label("Each row is a").select_option("Person")
    page.get_by_label("What Short Name becomes").select_option("slug")
    page.get_by_role("button", name="Try").click()
    page.get_by_role("row", name="2 Person").wait_for()
    page.get_by_role("button", name="Leave these rows out").click()
    page.get_by_text("It fits").wait_for()
    page.get_by_role("button", name="Load", exact=True).click()
    page.get_by_text("people.parquet was loaded into main").wait_for()
    page.locator("input[type=file]").set_input_files(
        {"name": "more.csv.gz", "mimeType": "application/gzip", "buffer": gzip.compress(TABLE)}
    )
    page.get_by_role("cell", name="New Person").wait_for()
    with og.open(copied, mode="ro") as graph:
        assert graph.get("Person", "two") is not None
        assert graph.get("Person", "odd") is None


def test_a_property_is_edited_on_a_branch_and_the_schema_is_planned(
    own_url: str, desk: MakeDesk
) -> None:
    found = desk(own_url)
    page = found.page
    found.go("explore", type="Person", id="ada", at="review")
    page.get_by_role("button", name="Edit role").click()
    page.get_by_label("New value of role").fill("poet")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Person ada was changed on review").wait_for()
    found.go("schema", tab="change")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("\nnode Topic { name: String @key }")
    page.get_by_role("button", name="Plan").click()
    page.get_by_text("add type").or_(page.get_by_text("Topic")).last.wait_for()
    page.get_by_text(re.compile("supported: yes")).wait_for()


def test_maintenance_is_shown_before_it_is_done(own_url: str, copied: Path, desk: MakeDesk) -> None:
    found = desk(own_url)
    page = found.page
    found.go("operations")
    page.get_by_role("img", name=re.compile("Requests: now")).wait_for()
    page.get_by_text("0 under way or waiting for recovery").wait_for()
    optimize = page.get_by_role("button", name="Optimize", exact=True)
    assert optimize.is_disabled()
    page.get_by_role("button", name="Show what would be done").click()
    page.get_by_text("2 fragments would become 1").wait_for()
    optimize.click()
    page.get_by_text("optimize by").first.wait_for()
    page.get_by_role("button", name="Look", exact=True).click()
    page.get_by_text("Nothing to repair").wait_for()
    page.get_by_label("Newest versions that stay").fill("1")
    page.get_by_label("Days that stay").fill("0")
    page.get_by_role("button", name="Show what would go").click()
    page.get_by_text("Would remove").wait_for()
    page.get_by_label("Days that stay").fill("1")
    page.locator("button:disabled", has_text="Remove").wait_for()
    with og.open(copied, mode="ro") as graph:
        assert "optimize" in [commit.kind for commit in graph.commits.list()]


def test_an_interrupted_write_is_recovered_by_a_click(own_url: str, desk: MakeDesk) -> None:
    change = {"query": 'query q() { update Company set { founded: 1 } where slug = "navy" }'}
    with armed(Failpoint.PUBLISH_PRE_CAS, error):
        assert httpx.post(f"{own_url}/mutate", json=change).status_code == 500
    found = desk(own_url)
    page = found.page
    found.go("operations")
    page.get_by_text("interrupted: the next write resolves it").wait_for()
    page.get_by_role("button", name="Recover now").click()
    page.get_by_text("Recovered: finished.").wait_for()
    page.get_by_text("0 under way or waiting for recovery, 1 recovered so far").wait_for()
    assert page.get_by_role("button", name="Recover now").is_disabled()


PIPELINE = """\
graph = "g"
allow_rejects = 1
[sources.people]
data = "people.csv"
[[Person]]
source = "people"
"""


def test_runs_of_pipelines_are_listed_and_a_report_is_shown(
    copied: Path, desk: MakeDesk, tmp_path: Path
) -> None:
    (tmp_path / "people.csv").write_text("slug,name,level\nnew,New,1\nodd,Odd,<b>high</b>\n")
    (tmp_path / "daily.toml").write_text(PIPELINE)
    with og.open(copied, durability="none") as graph:
        report = run_pipeline(
            graph, read_pipeline(tmp_path / "daily.toml"), run_id="monday", engine="local"
        )
    assert (report.rows_in, report.rejected) == (2, 1)
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report.to_json()))
    with serving(copied) as url:
        found = desk(url)
        page = found.page
        found.go("operations")
        runs = page.get_by_role("region", name="Pipeline runs")
        runs.get_by_role("cell", name="monday").wait_for()
        runs.locator("input[type=file]").set_input_files(tmp_path / "people.csv")
        runs.get_by_text("The file is not JSON").wait_for()
        runs.locator("input[type=file]").set_input_files(file)
        runs.get_by_role("heading", name="daily, run monday: ok").wait_for()
        runs.get_by_text("2 rows in, 1 rejected").wait_for()
        runs.get_by_role("row", name="Person 6 7").wait_for()
        runs.get_by_role("button", name="load").click()
        page.get_by_role("heading", name="Commit").wait_for()
        page.get_by_text("New").first.wait_for()


def test_metrics_and_care_are_for_those_who_may_administer(
    guarded_url: str, desk: MakeDesk
) -> None:
    found = desk(guarded_url, "403")
    page = found.page
    page.goto(f"{guarded_url}/studio/g/default/operations#token={TOKENS['lena']}")
    page.get_by_text("for those who may administer it").wait_for()
    page.get_by_role("button", name="Show what would go").click()
    page.get_by_text("Not allowed").wait_for()
    assert "Would remove" not in found.text()


def test_nothing_is_told_before_somebody_is_known(guarded_url: str, desk: MakeDesk) -> None:
    found = desk(guarded_url, "401")
    page = found.page
    page.goto(f"{guarded_url}/studio/g/default/explore?type=Person&id=ada")
    page.get_by_label("Token").wait_for()
    assert "Person" not in found.text()
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Enter").click()
    page.get_by_text("does not know this token").wait_for()
    page.get_by_label("Token").fill(TOKENS["lena"])
    page.get_by_role("button", name="Enter").click()
    page.get_by_role("heading", name="Ada Lovelace").wait_for()
    assert page.evaluate("() => document.cookie + JSON.stringify(localStorage)") == "{}"
    page.reload()
    page.get_by_label("Token").wait_for()


def test_somebody_who_may_do_nothing_sees_neither_data_nor_names(
    guarded_url: str, desk: MakeDesk
) -> None:
    found = desk(guarded_url, "403")
    page = found.page
    for view in VIEWS:
        page.goto("about:blank")
        page.goto(f"{guarded_url}/studio/g/default/{view}#token={TOKENS['guest']}")
        page.get_by_text("Not allowed").wait_for()
        assert "token" not in page.url
        for name in ("Person", "Company", "review", "agent-7", "Ada"):
            assert name not in found.text(), (view, name)


def test_a_page_outlives_a_restart_of_its_server(copied: Path, desk: MakeDesk) -> None:
    with serving(copied) as url:
        found = desk(url, "ERR_CONNECTION", "ERR_EMPTY")
        found.go("query")
        page = found.page
        page.locator(".cm-content").click()
        page.keyboard.press("Control+Home")
        page.keyboard.type("// still here\n")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("the server does not answer").first.wait_for()
    with serving(copied, port=int(url.rpartition(":")[2])):
        page.get_by_role("button", name="Run").click()
        page.get_by_test_id("row-count").wait_for()
        assert "// still here" in page.locator(".cm-content").inner_text()


@pytest.mark.parametrize("path", ["", "/x.js", "/assets/none.js"])
def test_files_of_the_page_come_with_a_strict_policy(open_url: str, path: str) -> None:
    found = httpx.get(f"{open_url}/studio{path}", follow_redirects=True)
    if path.startswith("/assets"):
        assert found.status_code == 404
        return
    assert found.headers["content-type"].startswith("text/html")
    policy = found.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    again = httpx.get(f"{open_url}/studio/", headers={"If-None-Match": found.headers["etag"]})
    assert again.status_code == 304
