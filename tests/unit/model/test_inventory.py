from zkdeployment.model.host import Host, Identity
from zkdeployment.model.inventory import KnownHost, absent_hosts


def test_known_hosts_are_absent_unless_they_are_registered_or_their_name_belongs_to_another_host():
    known = [KnownHost(Identity(host_id, name)) for host_id, name in (("1", "app1"), ("2", "app2"), ("3", "app3"))]
    hosts = [Host(Identity("1", "app1")), Host(Identity("9", "app3"))]
    assert [host.identity.id for host in absent_hosts(known, hosts)] == ["2"]
