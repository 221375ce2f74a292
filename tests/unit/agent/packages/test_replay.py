import json

from support.builders import make_package as package
from zkdeployment.agent.packages.transaction import document
from zkdeployment.base.packages import Item


def test_each_change_is_written_as_exact_packages():
    changes = [
        Item("bar", package("bar", "1.0")),
        Item("foo", package("foo", "1.4"), package("foo", "1.0", epoch=2)),
        Item("lib", None, package("lib", "3")),
        Item("new", None, package("new", "1")),
    ]
    content = json.loads(document(changes, wanted={"foo", "new"}))
    assert content["version"] == "0.0"
    assert [(row["action"], row["nevra"], row["reason"]) for row in content["rpms"]] == [
        ("Removed", "bar-1.0-1.noarch", "user"),
        ("Upgrade", "foo-2:1.0-1.noarch", "user"),
        ("Upgraded", "foo-1.4-1.noarch", "user"),
        ("Install", "lib-3-1.noarch", "dependency"),
        ("Install", "new-1-1.noarch", "user"),
    ]
    assert all("repo_id" in row for row in content["rpms"])
