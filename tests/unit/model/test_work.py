from zkdeployment.model.work import LockedWork

WORK = LockedWork("1", "web1.example.com", "deploy /shop/web 0", 12.5)


def test_it_says_who_does_what():
    assert str(WORK) == "web1.example.com (1) at deploy /shop/web 0"


def test_its_properties_read_back():
    assert LockedWork.from_properties(WORK.properties()) == WORK


def test_a_record_that_makes_no_sense_reads_as_unknown():
    assert LockedWork.from_properties({"since": "yesterday"}) == LockedWork("?", "?", "?", 0.0)
