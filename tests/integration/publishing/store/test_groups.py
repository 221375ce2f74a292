"""The groups of services that a publication names, as agents read them."""

import pytest

from zkdeployment.base.errors import TreeError
from zkdeployment.publishing.store.assignments import read_groups

GROUPS = "/zkdeployment/groups"


def test_the_groups_of_services_are_read_only_if_they_are_asked_for(session, client):
    assert read_groups(session, ["/z/one"]) == {}
    client.create(GROUPS, b'{"p1/store/v1/shop": ["/z", "/y"]}', makepath=True)
    assert read_groups(session, ["/z/one", "/y", "/x"]) == {"/z/one": "p1/store/v1/shop", "/y": "p1/store/v1/shop"}
    assert read_groups(session, ()) == {}
    client.set(GROUPS, b"")
    assert read_groups(session, ["/z/one"]) == {}


@pytest.mark.parametrize("data", [b"\xff", b"[]", b'{"p1/store/v1/shop": 7}', b'{"p1/store/v1/shop": [[]]}'])
def test_damaged_groups_are_an_error_where_they_are_needed(session, client, data):
    client.create(GROUPS, data, makepath=True)
    assert read_groups(session, ()) == {}
    with pytest.raises(TreeError, match=f"{GROUPS} cannot be read: .*; publish again"):
        read_groups(session, ["/z/one"])
