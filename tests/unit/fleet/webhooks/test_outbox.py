import pytest

from zkdeployment.fleet.events.event import RESET_EVENT, EventBatch, EventKind, EventLog, FleetEvent
from zkdeployment.fleet.webhooks.sender import (
    GIVEN_UP,
    MOST_WAITING,
    WEBHOOK_KINDS,
    Webhook,
    WebhookOutbox,
    last_transaction,
    retry_delay,
    unsent_batches,
)

HOST = FleetEvent(EventKind.HOST, "a", {"state": "converged"})
STOP = FleetEvent(EventKind.STOP, "stopped")
FEED = FleetEvent(EventKind.FEED, "zookeeper")
STOPS = Webhook("https://x.example:8443/hook?token=secret", frozenset({"stop"}))
ALL = Webhook("https://x.example/all", frozenset(WEBHOOK_KINDS))


def test_only_the_secret_free_part_of_a_url_is_its_origin():
    assert STOPS.origin == "https://x.example:8443"
    assert "secret" not in STOPS.digest


def test_a_webhook_can_choose_every_kind_of_event_about_the_fleet():
    assert set(WEBHOOK_KINDS) == {kind.value for kind in EventKind} - {"feed", "reset"}
    assert "check" in WEBHOOK_KINDS


def test_a_webhook_gets_its_kinds_and_resets_and_no_event_of_one_service():
    batch = EventBatch(1, 10, 12, (HOST, STOP, FEED, RESET_EVENT), 5.0)
    outbox = WebhookOutbox(7)
    assert [item.event for item in outbox.added([batch], STOPS, 0.0).waiting] == [STOP, RESET_EVENT]
    assert [item.event for item in outbox.added([batch], ALL, 0.0).waiting] == [HOST, STOP, RESET_EVENT]


def test_a_transaction_is_acknowledged_when_all_events_up_to_it_were_sent():
    batches = [EventBatch(1, 10, 12, (STOP, STOP), 5.0), EventBatch(2, 20, 20, (STOP, HOST), 6.0)]
    outbox, seen = WebhookOutbox(7).added(batches, STOPS, 0.0), []
    while outbox.waiting:
        seen.append(outbox.acknowledged)
        outbox = outbox.without(outbox.waiting[0])
    assert (seen, outbox.acknowledged) == ([7, 7, 10], 20)


def test_too_many_events_become_one_reset():
    batches = [EventBatch(number, number, number, (STOP,), 5.0) for number in range(1, MOST_WAITING + 1)]
    full = WebhookOutbox(0).added(batches, STOPS, 0.0)
    assert (len(full.waiting), full.dropped) == (MOST_WAITING, 0)
    more = full.added([EventBatch(2000, 2000, 2000, (STOP, STOP), 5.0)], STOPS, 9.0)
    assert (len(more.waiting), more.dropped, more.acknowledged) == (MOST_WAITING, 3, 0)
    assert more.waiting[0].event is RESET_EVENT
    assert [item.transaction for item in more.waiting[1:3]] == [4, 5]
    assert more.without(full.waiting[0]) is more
    assert more.added([EventBatch(2001, 2001, 2001, (STOP,), 5.0)], STOPS, 9.0).dropped == 4


def test_events_that_waited_for_a_day_become_one_reset():
    outbox = WebhookOutbox(0).added([EventBatch(1, 10, 10, (STOP, STOP), 5.0)], STOPS, 0.0)
    outbox = outbox.added([EventBatch(2, 11, 11, (STOP,), 6.0)], STOPS, 60.0)
    assert outbox.expired(GIVEN_UP - 1) is outbox
    expired = outbox.expired(GIVEN_UP)
    assert [item.event for item in expired.waiting] == [RESET_EVENT, STOP]
    assert (expired.dropped, expired.acknowledged, expired.waiting[0].since) == (2, 0, GIVEN_UP)


def test_a_new_service_continues_after_the_last_acknowledged_event():
    log = EventLog(base=10).appended(12, 13, (HOST,), 1.0).appended(20, 25, (STOP,), 2.0)
    assert [batch.number for batch in unsent_batches(log, 13, 9.0)] == [2]
    assert unsent_batches(log, None, 9.0) == ()
    assert unsent_batches(log, 30, 9.0) == ()
    assert unsent_batches(log, 9, 9.0) == (EventBatch(0, 10, 10, (RESET_EVENT,), 9.0), *log.batches)


@pytest.mark.parametrize(("log", "last"), [(EventLog(base=10), 10), (EventLog(base=1).appended(5, 8, (HOST,)), 5)])
def test_later_changes_than_the_last_transaction_are_in_later_batches(log, last):
    assert last_transaction(log) == last


def test_pauses_between_attempts_grow_to_a_quarter_of_an_hour():
    assert [retry_delay(attempts) for attempts in (1, 2, 5, 10, 11, 10_000)] == [1, 2, 16, 512, 900, 900]
