"""Events of fleets and promotions reach the receiver of a webhook, from a real promoter and a real service."""

from support.fleets.staged import CANARY, REST, staged_fleets
from support.waiting import wait_until
from support.web.receivers import Receiver, services
from zkdeployment.promotion.records import FleetState


def test_a_receiver_gets_the_events_of_fleets_and_promotions_and_no_others(tmp_path, zookeeper, session, client):
    with (
        Receiver() as receiver,
        staged_fleets(tmp_path, zookeeper, session, "eu-1", "us-1") as fleets,
        services(tmp_path, zookeeper, client, receiver.url, kinds="fleet,promotion") as running,
        fleets.promoter() as promoter,
    ):
        running.start()

        def arrived(kind, **facts):
            events = [received.event for received in receiver.received]
            found = [each["data"] for each in events if each["type"] == f"zkdeployment.{kind}"]
            return [data for data in found if data | facts == data]

        commit = fleets.push(CANARY, REST)
        promoter.until_ended(commit)
        promoter.until(fleets.have_converged, "the standings of the end are recorded, too")
        for name in fleets.fleets:
            wait_until(lambda name=name: arrived("fleet", id=name, state="converged", revision=commit), name)
        wait_until(lambda: arrived("promotion", id="1-1", state="success", revision=commit), "its success arrives")
        fleets.fleets["us-1"].problem, fleets.fleets["us-1"].state = "disk full", FleetState.STOPPED
        promoter.until(lambda: fleets.records.standings["us-1"].state is FleetState.STOPPED, "us-1 is stopped")
        wait_until(lambda: arrived("fleet", id="us-1", state="stopped", former="converged"), "the stop arrives")
        assert arrived("fleet", state="stopped")[-1]["words"].endswith("disk full")
        assert arrived("promotion")[-1]["words"].startswith("success: 2 of 2 groups succeeded")
        assert {received.event["type"] for received in receiver.received} == {
            "zkdeployment.fleet",
            "zkdeployment.promotion",
        }
        assert len({received.event["id"] for received in receiver.received}) == len(receiver.received)
