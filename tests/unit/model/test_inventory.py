from zkdeployment.model.host import Host, Identity
from zkdeployment.model.inventory import KnownHost, absent_hosts


def test_absent_are_known_hosts_that_are_not_registered_unless_another_host_has_their_name_now():
    known = [KnownHost(Identity(host_id, name)) for host_id, name in (("1", "app1"), ("2", "app2"), ("3", "app3"))]
    hosts = [Host(Identity("1", "app1")), Host(Identity("9", "app3"))]
    assert [host.identity.id for host in absent_hosts(known, hosts)] == ["2"]
