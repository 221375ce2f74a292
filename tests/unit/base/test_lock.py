from zkdeployment.base.lock import LockedWork

WORK = LockedWork("1", "web1.example.com", "deploy /shop/web 0", 12.5)


def test_the_text_names_the_host_and_the_step():
    assert str(WORK) == "web1.example.com (1) at deploy /shop/web 0"


def test_work_round_trips():
    assert LockedWork.from_json(WORK.to_json()) == WORK


def test_a_malformed_record_reads_as_unknown():
    assert LockedWork.from_json({"since": "yesterday"}) == LockedWork("?", "?", "?", 0.0)
