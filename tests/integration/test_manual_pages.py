"""``scripts/manual`` makes web pages and man pages, without a warning."""

import html
import re

import click
import pytest

from support.commands import run
from support.fresh_checkout import environment, make_checkout
from support.manual import PAGES
from zkdeployment.checks.rules.workflow import WORKFLOW
from zkdeployment.intents.rules.instances import LIFE_CYCLE
from zkdeployment.intents.rules.reality import CLUSTER_RULES, RSYNC_RULES
from zkdeployment.programs.verbs import program

pytestmark = pytest.mark.all_features


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    directory = tmp_path_factory.mktemp("manual")
    checkout = make_checkout(tmp_path_factory.mktemp("fresh") / "checkout")
    done = run(checkout / "scripts" / "manual", directory, env=environment())
    assert done.returncode == 0, done.stderr
    return directory


def test_every_page_is_a_web_page(built):
    assert [page for page in PAGES if not (built / "html" / f"{page}.html").is_file()] == []


def test_the_man_pages_have_every_option_and_every_example_of_every_verb(built):
    text = (built / "man" / "zkdeployment.1").read_text(encoding="utf-8").replace("\\", "")
    for phrase in ("sandbox up", "locks release", "config check", "--allow-mass-removal", "zkdeployment why app1"):
        assert phrase in text


def verbs(group, context):
    """Return the names of all verbs of a group, as typed, except hidden ones."""
    for name in group.list_commands(context):
        verb = group.get_command(context, name)
        below = click.Context(verb, info_name=name, parent=context)
        if verb.hidden:  # programs call it
            continue
        yield below.command_path
        if isinstance(verb, click.Group):
            yield from verbs(verb, below)


def test_every_verb_is_documented(built):
    text = (built / "man" / "zkdeployment.1").read_text(encoding="utf-8").replace("\\", "")
    names = [*verbs(program, program.make_context("zkdeployment", [], resilient_parsing=True))]
    assert "zkdeployment rollout promote" in names
    assert [name for name in names if f"\n{name} [OPTIONS]" not in text] == []


def words(built, page):
    """Return the text of a web page."""
    source = (built / "html" / f"{page}.html").read_text(encoding="utf-8").replace("<dd", " <dd")
    text = html.unescape(re.sub(r"<[^>]+>", "", source))
    return " ".join(text.split())


def test_pages_have_the_rules_of_the_code(built):
    workflow = words(built, "reference/check-workflow")
    assert [event for _, event in WORKFLOW if event.value not in workflow] == []
    intents = words(built, "intents")
    refused = {step for step in LIFE_CYCLE.values() if isinstance(step, str)}
    assert [text for text in refused if f"refused: {text}" not in intents] == []
    rows = [(status, text) for status, text, _ in RSYNC_RULES] + [*CLUSTER_RULES.values()]
    assert [status for status, text in rows if f"{status.value} {text}" not in intents] == []


def test_pages_have_the_operations_and_the_answers_of_the_api(built):
    api = words(built, "api")
    for text in (
        "GET /api/v1/plan Return",
        "?revision= (A branch",
        "POST /deployments/monitoring/{system}/answers",
        "/diff",
    ):
        assert text in api
    assert "POST /api/v1/sessions Request nodes" in words(built, "reference/pools-api")
    assert "retry Let the monitoring system try" in words(built, "reference/checks")
    assert "locks (kind (service, role, syncer), name, path, holder (identity," in words(built, "reference/output")


def test_pictures_are_part_of_the_web_page_and_follow_its_theme(built):
    page = (built / "html" / "concepts.html").read_text(encoding="utf-8")
    assert page.count('<svg class="picture"') == 4
    assert "body[data-theme=dark] svg.picture" in page


def test_each_man_page_is_in_its_section(built):
    names = sorted(page.name for page in (built / "man").iterdir())
    assert names == ["check_zkdeployment.8", "zkdeployment.1", "zkdeployment.cfg.5"]
