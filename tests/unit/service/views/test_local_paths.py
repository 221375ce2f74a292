import pytest

from zkdeployment.service.views.frame import local_path


@pytest.mark.parametrize("path", ["/", "/hosts/a", "/hosts?state=failed&page=2", "/services/shop%2Fweb"])
def test_a_path_of_this_site_stays(path):
    assert local_path(path) == path


@pytest.mark.parametrize(
    "target",
    ["", "hosts", "//x", "///x", "/\\x", "/a\\b", "http://x/", "/ a", "/a\n", "/\x00", "/é", "/" + "a" * 3000],
)
def test_everything_else_becomes_the_front_page(target):
    assert local_path(target) == "/"
