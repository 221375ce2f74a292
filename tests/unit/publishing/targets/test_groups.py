import pytest

from zkdeployment.publishing.targets.groups import GoverningGroups

SHOP, WEB = "p1/store/v1/shop", "p1/store/v1/web"


@pytest.mark.parametrize(
    ("service", "group"),
    [
        ("/p1", SHOP),
        ("/p1/front/app", SHOP),
        ("/p1/web", SHOP),  # the wider path takes precedence
        ("/p2/web", WEB),
        ("/p2/web/a", WEB),
        ("/p2/website", None),
        ("/p2", None),
        ("/p10", None),
    ],
)
def test_a_service_belongs_to_the_group_of_the_widest_path_above_it(service, group):
    groups = GoverningGroups({SHOP: ["/p1"], WEB: ["/p1/web", "/p2/web"]})
    assert groups.of(service) == group


def test_without_paths_there_are_no_groups():
    assert not GoverningGroups({})
    assert not GoverningGroups({SHOP: ()})
    assert GoverningGroups({SHOP: ("/a",)})
