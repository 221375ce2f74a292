"""The sample of the manual is installed by pip, and adds a document, a criterion, a verb and a page."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from zkdeployment.zookeeper.nodes import encode_content

SAMPLE = Path(__file__).parents[2] / "etc/manual/examples/feature"

DOCUMENT = """schema: example/Blackout/v1
metadata: {name: christmas}
data: {until: '%s', reason: nobody is here}
"""

#: Prints the judgements of the criterion before and after the end of a blackout, and the text of the page.
OBSERVE = """
import json, sys
from zkdeployment.base.features import installed
from zkdeployment.cli.places import LeaderPlaces
from zkdeployment.service.application import page_routers
from zkdeployment.service.pages.live_page import main_pages, render
from zkdeployment.zookeeper.servers import Servers
from zkdeployment.zookeeper.session import Session
from blackouts.criterion import blackout_criterion
from blackouts.documents import Blackout

assert len(installed(LeaderPlaces)) == 3
with Session(Servers(sys.argv[1])) as session:
    criterion = blackout_criterion(None, session, lambda: None, lambda: None)
    judged = [criterion.read(None, now) for now in (1.0, 5e9)]
layout = "{% block title %}{% endblock %}{% block content %}{% endblock %}"
from jinja2 import Template
text = render("blackouts.html", layout=Template(layout), blackouts=[Blackout("christmas", 1.0, "<nobody>")])
pages = [route.path for router in page_routers() for route in router.routes]
tabs = [each.name for each in main_pages() if each.path in pages]
print(json.dumps({"waits": [each.is_pending for each in judged], "text": text, "tabs": tabs}))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Install the sample into a directory; return a function that runs Python with the sample."""
    directory = tmp_path_factory.mktemp("feature")
    shutil.copytree(SAMPLE, directory / "source")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", directory / "installed", directory / "source"], check=True)
    environment = os.environ | {"PYTHONPATH": f"{directory / 'installed'}:{os.environ.get('PYTHONPATH', '')}"}

    def run(*arguments):
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return run


def test_a_document_of_the_sample_is_checked_at_its_place(run, tmp_path):
    file = tmp_path / "blackout.yaml"
    file.write_text(DOCUMENT % "2100-01-01T06:00:00Z")
    assert run("-m", "zkdeployment", "lint", file).returncode == 0
    file.write_text(DOCUMENT % "2100-01-01")
    done = run("-m", "zkdeployment", "lint", file)
    assert done.returncode == 1
    assert "blackout.yaml:3" in done.stdout + done.stderr
    assert "expected a time with a zone, as in 2027-01-02T06:00:00Z, found 2100-01-01" in done.stdout + done.stderr


def test_the_verb_the_criterion_and_the_page_of_the_sample_show_what_is_published(run, zookeeper, client):
    data = {"until": "2100-01-01T06:00:00Z", "reason": "nobody is here"}
    content = {"schema": "example/Blackout/v1", "metadata": {"name": "christmas"}, "data": data}
    client.create("/zkdeployment/documents/blackout/christmas", encode_content(content), makepath=True)
    done = run("-m", "zkdeployment", "blackouts", "--zookeeper", zookeeper)
    assert done.stdout == "christmas until 2100-01-01 06:00 UTC: nobody is here\n", done.stderr
    done = run("-c", OBSERVE, zookeeper)
    assert done.returncode == 0, done.stderr
    observed = json.loads(done.stdout)
    assert observed["waits"] == [True, False]
    assert "Blackouts" in observed["tabs"]
    assert "christmas: &lt;nobody&gt;" in observed["text"]
