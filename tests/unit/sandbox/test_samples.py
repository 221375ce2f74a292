from zkdeployment.base.host import Identity
from zkdeployment.sandbox import samples

ONE = Identity("host1", "host1.sandbox")
TWO = Identity("host2", "host2.sandbox")
WEB = Identity("host3", "host3.sandbox", "web")


def targets(text, service):
    """Return the lines below a service's deploy node."""
    below = text.partition(f"/{service} : {service}")[2].partition("/deploy\n")[2]
    return below.partition("\n\n")[0].split()


def test_hello_runs_everywhere_and_twice_on_the_first_host():
    assert targets(samples.tree([ONE, TWO, WEB]), "hello") == ["/host1", "n", "=", "2", "/host2", "/web"]


def test_hosts_of_one_role_are_one_target():
    other = Identity("host4", "host4.sandbox", "web")
    assert targets(samples.tree([WEB, other]), "hello") == ["/web", "n", "=", "2"]


def test_nothing_runs_on_hosts_that_can_be_leased():
    spare = Identity("host4", "host4.sandbox", "lease:spare")
    assert samples.tree([ONE, spare]) == samples.tree([ONE])
    assert targets(samples.tree([spare]), "hello") == []


def test_worker_runs_on_a_role_or_else_on_the_last_host():
    assert targets(samples.tree([ONE, WEB]), "worker") == ["/web"]
    assert targets(samples.tree([ONE, TWO]), "worker") == ["/host2"]


def test_tree_without_worker_and_with_another_version():
    text = samples.tree([ONE], version="1.1", worker=False)
    assert "worker" not in text
    assert "version = '1.1'" in text
