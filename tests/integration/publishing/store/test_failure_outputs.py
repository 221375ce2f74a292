"""The kept ends of the outputs of failed scripts."""

from zkdeployment.base.stop import FailureOutput
from zkdeployment.publishing.store.cluster import OUTPUTS_LIMIT, read_output, remove_outputs, write_output
from zkdeployment.zookeeper import paths


def output(number, text="boom\n"):
    return FailureOutput(f"h/{number}", "r1", "deploy /a 0", 5.0, text)


def test_the_output_of_a_host_replaces_its_earlier_one_and_at_most_twenty_hosts_have_one(session):
    for number in range(OUTPUTS_LIMIT):
        assert write_output(session, output(number))
    assert not write_output(session, output(OUTPUTS_LIMIT))
    assert write_output(session, output(3, "again\n"))
    assert read_output(session, "h/3") == output(3, "again\n")
    assert read_output(session, f"h/{OUTPUTS_LIMIT}") is None
    remove_outputs(session, session.children(paths.OUTPUTS))
    assert read_output(session, "h/3") is None
    assert write_output(session, output(OUTPUTS_LIMIT))
