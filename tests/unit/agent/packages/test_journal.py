import pytest

from support.builders import make_package
from zkdeployment.agent.packages.transaction import Entry, Journal
from zkdeployment.base.errors import PackageError

FOO = make_package("foo", "1.0", epoch=1)
BAR = make_package("bar", "1.0")


def test_an_entry_can_be_read_until_it_is_closed(tmp_path):
    journal = Journal(tmp_path / "journal.json")
    assert journal.read() is None
    entry = Entry(frozenset({"foo", "new"}), {"foo": (FOO,)}, trusted=False)
    journal.open(entry)
    assert Journal(tmp_path / "journal.json").read() == entry
    journal.close()
    assert journal.read() is None


def test_an_entry_selects_the_packages_that_the_transaction_touches():
    entry = Entry(frozenset({"foo", "new"}), {}, trusted=True)
    assert entry.of({"foo": (FOO,), "bar": (BAR,)}) == {"foo": (FOO,)}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"names": []}', '{"names": [], "before": [["foo"]], "trusted": true}']
)
def test_the_error_for_a_damaged_journal_gives_advice(tmp_path, text):
    (tmp_path / "journal.json").write_text(text)
    with pytest.raises(PackageError, match="check the packages by hand, then remove the file") as info:
        Journal(tmp_path / "journal.json").read()
    assert info.value.changed
