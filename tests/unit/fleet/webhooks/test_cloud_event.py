import importlib.util
import json

from support.manual import HERE
from zkdeployment.fleet.events.event import EventKind, FleetEvent
from zkdeployment.fleet.webhooks.sender import WebhookEvent, signed_request

EXAMPLES = HERE / "etc" / "manual" / "examples" / "api"
STOP = FleetEvent(
    EventKind.STOP, "stopped", {"stops": 1, "newest": "stopped by jim@desk: smoke", "requested": False}
)
ITEM = WebhookEvent(STOP, 4294967338, 1772366400.25, 7, 0.0)


def verifier():
    spec = importlib.util.spec_from_file_location("verify_signature", EXAMPLES / "verify_signature.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.is_authentic


def test_the_request_is_that_of_the_manual():
    body, headers = signed_request(ITEM, source="https://deploy.example.com", key="k")
    assert json.loads(body) == json.loads((EXAMPLES / "event.json").read_text())
    assert headers["Content-Type"] == "application/cloudevents+json"


def test_two_events_of_one_reading_about_one_subject_have_their_own_ids_each_time_that_they_are_sent():
    metrics = [FleetEvent(EventKind.ANALYSIS, "7-1", {"group": "canary", "metric": name}) for name in ("a", "b")]

    def ids():
        items = (WebhookEvent(event, 99, 1.0, 7, 0.0) for event in metrics)
        return [json.loads(signed_request(item, source="https://d.example", key="k")[0])["id"] for item in items]

    assert len({*ids()}) == 2
    assert ids() == ids()


def test_the_program_of_the_manual_verifies_the_signature():
    body, headers = signed_request(ITEM, source="https://deploy.example.com", key="a key")
    signature = headers["X-Zkdeployment-Signature"]
    is_authentic = verifier()
    assert is_authentic(body, signature, "a key")
    assert not is_authentic(body + b" ", signature, "a key")
    assert not is_authentic(body, signature, "another key")
    assert not is_authentic(body, "sha256=\u00e9", "a key")
