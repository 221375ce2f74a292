import pytest

from zkdeployment.adapters.packages.journal import Entry, Journal
from zkdeployment.errors import PackageError
from zkdeployment.model.inventory import Package

FOO = Package("foo", 1, "1.0", "1", "noarch")
BAR = Package("bar", 0, "1.0", "1", "noarch")


def test_an_open_transaction_is_found_again_until_it_is_closed(tmp_path):
    journal = Journal(tmp_path / "journal.json")
    assert journal.read() is None
    entry = Entry(frozenset({"foo", "new"}), {"foo": (FOO,)}, trusted=False)
    journal.open(entry)
    assert Journal(tmp_path / "journal.json").read() == entry
    journal.close()
    assert journal.read() is None


def test_only_what_the_transaction_touches_is_looked_at():
    entry = Entry(frozenset({"foo", "new"}), {}, trusted=True)
    assert entry.of({"foo": (FOO,), "bar": (BAR,)}) == {"foo": (FOO,)}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"names": []}', '{"names": [], "before": [["foo"]], "trusted": true}']
)
def test_a_damaged_journal_is_an_error_that_says_what_to_do(tmp_path, text):
    (tmp_path / "journal.json").write_text(text)
    with pytest.raises(PackageError, match="see to the packages by hand and remove the file") as info:
        Journal(tmp_path / "journal.json").read()
    assert info.value.changed
