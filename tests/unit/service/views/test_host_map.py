"""The map of hosts: tiles for few, blocks of a hundred cells for many."""

from dataclasses import replace

from zkdeployment.fleet.views.status import HostState, HostStatus
from zkdeployment.service.views.hosts import MOST_TILES, SIGNS, host_map


def hosts(number, state=HostState.CONVERGED):
    return [HostStatus(f"h{place:05}", f"h{place:05}.example.com", state) for place in range(number)]


def test_few_hosts_have_tiles_with_their_names():
    found = host_map(hosts(MOST_TILES))

    assert (len(found.tiles), found.blocks, found.extent) == (MOST_TILES, (), MOST_TILES)
    assert found.tiles[0].href == "/hosts/h00000"


def test_many_hosts_have_blocks_that_lead_to_the_page_of_the_list_with_the_same_hosts():
    found = host_map(hosts(250))

    assert [block.href for block in found.blocks] == ["/?sort=name", "/?sort=name&page=3", "/?sort=name&page=5"]
    assert [block.height for block in found.blocks] == [100, 100, 50]
    assert found.blocks[2].label == "h00200.example.com to h00249.example.com: 50 converged"


def test_each_state_is_one_path_with_a_shape_of_its_own():
    fleet = hosts(100)
    fleet[12] = replace(fleet[12], state=HostState.FAILED)

    (block,) = host_map(fleet).blocks

    assert dict(block.outlines)["failed"] == f"M20 10{SIGNS[HostState.FAILED].outline}"
    assert dict(block.outlines)["converged"].count("M") == 99
    assert block.label.endswith("1 failed, 99 converged")
    assert len({sign.outline for sign in SIGNS.values()}) == len(HostState)


def test_only_the_blocks_of_changed_hosts_are_made_again():
    found = host_map(hosts(1000), changed={"h00101", "h00199", "h00500", "unknown"})

    assert [block.number for block in found.blocks] == [1, 5]
    assert found.extent == 1000
    assert host_map(hosts(1000), changed=()).blocks == ()


def test_ten_thousand_hosts_are_less_than_three_hundred_kilobytes():
    fleet = [replace(host, state=[*HostState][place % 7]) for place, host in enumerate(hosts(10_000))]

    found = host_map(fleet)

    assert sum(len(path) for block in found.blocks for _, path in block.outlines) < 300_000
    assert (len(found.blocks), found.size) == (100, "small")
