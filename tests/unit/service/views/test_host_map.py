"""The map of hosts: its parts, tiles for few hosts, blocks of a hundred cells for many, and what is dim."""

from dataclasses import replace

import pytest

from support.builders import make_host
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import HostState, HostStatus
from zkdeployment.service.views.host_map import MOST_TILES, MapOrder, arrange, host_map, map_mark
from zkdeployment.service.views.hosts import SIGNS, HostQuery


def hosts(number, state=HostState.CONVERGED):
    return [HostStatus(f"h{place:05}", f"h{place:05}.example.com", state) for place in range(number)]


def query(**parameters):
    return HostQuery.of_parameters({name: [value] for name, value in parameters.items()})


def mapped(fleet, changed=None, snapshot=None, services=dict, **parameters):
    view = query(**parameters)
    return host_map(arrange(fleet, view, snapshot or FleetSnapshot(), services), view, changed)


def test_few_hosts_have_tiles_with_their_names():
    (part,) = mapped(hosts(MOST_TILES)).parts

    assert (len(part.tiles), part.blocks, part.title) == (MOST_TILES, (), "")
    assert part.tiles[0].href == "/hosts/h00000"


def test_many_hosts_have_blocks_that_lead_to_the_page_of_the_list_with_the_same_hosts():
    (part,) = mapped(hosts(250)).parts

    assert [block.href for block in part.blocks] == ["/?sort=name", "/?sort=name&page=3", "/?sort=name&page=5"]
    assert [(block.height, block.hosts) for block in part.blocks] == [(100, 100), (100, 100), (50, 50)]
    assert part.blocks[2].label == "h00200.example.com to h00249.example.com: 50 converged"


def test_each_state_is_one_path_with_a_shape_of_its_own_and_failed_hosts_are_on_top():
    fleet = hosts(100)
    fleet[12] = replace(fleet[12], state=HostState.FAILED)

    ((block,),) = (part.blocks for part in mapped(fleet).parts)

    assert dict(block.outlines)["failed"] == f"M20 10{SIGNS[HostState.FAILED].outline}"
    assert dict(block.outlines)["converged"].count("M") == 99
    assert [name for name, _ in block.outlines] == ["converged", "failed"]
    assert block.label.endswith("1 failed, 99 converged")
    assert len({sign.outline for sign in SIGNS.values()}) == len(HostState)


def test_only_the_blocks_of_changed_hosts_are_made_again():
    found = mapped(hosts(1000), changed={"h00101", "h00199", "h00500", "unknown"})

    assert [block.number for part in found.parts for block in part.blocks] == [1, 5]
    assert mapped(hosts(1000), changed=()).parts == ()


def test_ten_thousand_hosts_are_less_than_three_hundred_kilobytes():
    fleet = [replace(host, state=[*HostState][place % 7]) for place, host in enumerate(hosts(10_000))]

    found = mapped(fleet)

    (part,) = found.parts
    assert sum(len(path) for block in part.blocks for _, path in block.outlines) < 300_000
    assert (len(part.blocks), found.size) == (100, "small")


def with_roles(number):
    return [replace(host, role=["db", "web", None][place % 3]) for place, host in enumerate(hosts(number))]


def test_parts_have_headings_counts_and_blocks_of_their_own():
    fleet = with_roles(330)
    fleet[1] = replace(fleet[1], state=HostState.FAILED)

    found = mapped(fleet, map="role")

    assert [(part.title, part.total) for part in found.parts] == [
        ("db", "110 hosts"),
        ("web", "110 hosts"),
        ("no role", "110 hosts"),
    ]
    assert [[block.number for block in part.blocks] for part in found.parts] == [[0, 1], [2, 3], [4, 5]]
    assert [(sign.name, count) for sign, count in found.parts[1].counts] == [("failed", 1), ("converged", 109)]
    assert found.parts[1].href == "/?map=role&part=web"
    assert found.parts[1].blocks[1].href == "/?map=role&part=web&sort=name&page=3"


def test_a_place_of_the_map_is_a_host_in_its_block():
    arrangement = arrange(with_roles(330), query(map="role"), FleetSnapshot())

    assert [arrangement.host_at(place).id for place in (0, 100, 200)] == ["h00000", "h00300", "h00001"]
    assert arrangement.host_at(110) is None
    assert arrangement.host_at(600) is None


def test_a_filter_and_a_chosen_part_dim_the_other_hosts():
    fleet = with_roles(90)
    fleet[0] = replace(fleet[0], state=HostState.FAILED)

    (db, web, _) = mapped(fleet, map="role", state="failed").parts
    assert [name for name, _ in db.blocks[0].outlines] == ["converged dim", "failed"]
    assert [name for name, _ in web.blocks[0].outlines] == ["converged dim"]

    (db, web, _) = mapped(fleet, map="role", part="web").parts
    assert [name for name, _ in db.blocks[0].outlines] == ["converged dim", "failed dim"]
    assert [name for name, _ in web.blocks[0].outlines] == ["converged"]
    assert (web.selected, web.href, db.selected) == (True, "/?map=role", False)


@pytest.mark.parametrize(("part", "limit"), [("web", "web"), ("nowhere", ""), ("", "")])
def test_a_view_is_limited_only_to_a_part_that_the_map_has(part, limit):
    view = query(map="role", part=part, state="failed", page="2")

    admitted = arrange(with_roles(90), view, FleetSnapshot()).admitted(view)

    assert (admitted.part, admitted.state_names) == (limit, ("failed",))


def test_a_host_of_two_services_is_in_the_parts_of_both():
    fleet = hosts(70)
    services = {"/db": {"h00000", "gone"}, "/web": {"h00000", "h00001"}}

    found = mapped(
        fleet, snapshot=FleetSnapshot(targets=frozenset({"web"})), services=lambda: services, map="service"
    )

    assert [(part.title, part.total) for part in found.parts] == [
        ("/db", "1 host"),
        ("/web", "2 hosts"),
        ("no service", "68 hosts"),
    ]
    changed = mapped(fleet, {"h00000"}, FleetSnapshot(targets=frozenset({"web"})), lambda: services, map="service")
    assert [part.title for part in changed.parts] == ["/db", "/web"]


def test_a_map_with_too_many_parts_ends_with_the_other_hosts():
    fleet = [replace(host, role=host.id) for host in hosts(300)]

    found = mapped(fleet, map="role")

    assert (len(found.parts), found.parts[-1].title, found.parts[-1].total) == (201, "others", "100 hosts")


@pytest.mark.parametrize("order", ["role", "rack", "group", "service", "colour"])
def test_an_arrangement_that_tells_nothing_about_the_fleet_is_the_one_by_name(order):
    found = mapped(hosts(3), map=order)

    assert (found.order, found.choices, len(found.parts)) == ("name", (), 1)


def test_arrangements_that_tell_something_are_offered():
    racks = FleetSnapshot(hosts=(make_host("h00001", "r1", rack="r7"),))

    found = mapped(with_roles(9), snapshot=racks, map="rack", text="h0", sort="name")

    assert [part.title for part in found.parts] == ["r7", "no rack"]
    assert [(choice.title, choice.href, choice.selected) for choice in found.choices] == [
        ("Name", "/?map=name&text=h0&sort=name", False),
        ("Role", "/?map=role&text=h0&sort=name", False),
        ("Rack", "/?map=rack&text=h0&sort=name", True),
    ]


def test_the_mark_changes_with_the_places_of_hosts_and_with_the_filters():
    fleet = with_roles(9)

    def mark(of, **parameters):
        view = query(**parameters)
        return map_mark(arrange(of, view, FleetSnapshot()), view)

    same = [replace(host, state=HostState.FAILED) for host in fleet]
    other = [replace(fleet[0], role="web"), *fleet[1:]]
    assert mark(fleet, map="role") == mark(same, map="role") == mark(fleet, map="role", sort="name")
    assert len({mark(fleet), mark(fleet[1:]), mark(fleet, map="role"), mark(other, map="role")}) == 4
    assert len({mark(fleet), mark(fleet, state="failed"), mark(fleet, text="h1")}) == 3
    assert mark(fleet) == mark(other)
    assert MapOrder.of(query(map="name")) is MapOrder.NAME
