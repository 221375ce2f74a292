from support.builders import make_package
from zkdeployment.agent.packages.installed_packages import by_name, parse


def test_incomplete_rows_and_keys_are_skipped():
    text = (
        "foo\t0\t1.4\t1\tnoarch\n"
        "rpm: RPM should not be used directly\n"
        "gpg-pubkey\t0\t126f2a8e\t6b014852\t(none)\n"
        "bar\tx\t1\t1\tnoarch\n"
        "bar\t\u00b2\t1\t1\tnoarch\n"
        "baz\t2\t1.0\t3.el9\tx86_64\n"
    )
    assert parse(text) == (make_package("foo", "1.4"), make_package("baz", "1.0", "3.el9", epoch=2, arch="x86_64"))


def test_packages_are_grouped_by_name():
    old, new = make_package("foo", "1.0"), make_package("foo", "1.4")
    bar = make_package("bar", "1.0")
    assert by_name([new, bar, old]) == {"bar": (bar,), "foo": (old, new)}
