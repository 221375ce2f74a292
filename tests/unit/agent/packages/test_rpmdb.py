from zkdeployment.agent.packages.installed_packages import by_name, parse
from zkdeployment.base.inventory import Package


def test_incomplete_rows_and_keys_are_skipped():
    text = (
        "foo\t0\t1.4\t1\tnoarch\n"
        "rpm: RPM should not be used directly\n"
        "gpg-pubkey\t0\t126f2a8e\t6b014852\t(none)\n"
        "bar\tx\t1\t1\tnoarch\n"
        "baz\t2\t1.0\t3.el9\tx86_64\n"
    )
    assert parse(text) == (Package("foo", 0, "1.4", "1", "noarch"), Package("baz", 2, "1.0", "3.el9", "x86_64"))


def test_packages_are_grouped_by_name():
    old, new = Package("foo", 0, "1.0", "1", "noarch"), Package("foo", 0, "1.4", "1", "noarch")
    bar = Package("bar", 0, "1.0", "1", "noarch")
    assert by_name([new, bar, old]) == {"bar": (bar,), "foo": (old, new)}
