"""``scripts/manual`` makes web pages and man pages, without a warning."""

import subprocess

import pytest

from support.manual import HERE, PAGES


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    directory = tmp_path_factory.mktemp("manual")
    done = subprocess.run(
        [HERE / "scripts" / "manual", directory], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    return directory


def test_every_page_is_a_web_page(built):
    assert [page for page in PAGES if not (built / "html" / f"{page}.html").is_file()] == []


def test_the_man_pages_tell_every_option_and_every_example_of_every_verb(built):
    text = (built / "man" / "zkdeployment.1").read_text(encoding="utf-8").replace("\\", "")
    for words in ("sandbox up", "locks release", "config check", "--allow-mass-removal", "zkdeployment why app1"):
        assert words in text


def test_each_man_page_is_in_its_section(built):
    names = sorted(page.name for page in (built / "man").iterdir())
    assert names == ["check_zkdeployment.8", "zkdeployment.1", "zkdeployment.cfg.5"]
