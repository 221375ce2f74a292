"""Every value of a tree is refused, or becomes a literal argument of a command or a plain file name."""

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from zkdeployment.agent.rules.planner import plan
from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory
from zkdeployment.base.plan import ChangeController, ChangePackages, CheckOut, Deploy, RemoveSoftware
from zkdeployment.publishing.targets.compiler import compile_targets, wanted_for
from zkdeployment.publishing.targets.services import assignments_from_json
from zkdeployment.tree.checkout import is_checkout, parse_checkout
from zkdeployment.tree.values import Tree

PIECES = st.sampled_from(
    [
        *";|&$`'\"\\/.,:-%@#*?~^+=(){}[]<>!",
        *(" ", "\t", "\n", "\r", "\0", "\x1b[31m", "\u202e", "\ud800", "ä", "é", "🙂"),
        *("rm -rf /", "$(reboot)", "--installroot=/", "-r", "http://h/x.rpm", "file:///etc/passwd", "/etc/x.rpm"),
        *("git:", "git://", "svn+ssh://", "ext::sh -c id", "--upload-pack=id", "ssh://-oProxyCommand=id/x", "#"),
        *("foo", "1.4", "0", "True", "None", "[1]", "__import__('os')", "x" * 300),
    ]
)
TEXTS = st.lists(PIECES, max_size=4).map("".join)
VALUES = TEXTS | st.sampled_from([None, True, -1, 10**30, 1.5, float("nan"), [], ["foo 1"], {}, {"a": "b"}])
PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+~^:-]*")
IDENTITY = Identity("h1", "h1.example.com", "web")


def check_literal(word: str) -> None:
    """Fail unless a word is itself, and nothing else, to every program that gets it as an argument."""
    assert PLAIN.fullmatch(word), word
    assert ".." not in word.split("/")


def check_plan(wanted) -> None:
    for step in plan(wanted.assignments, Inventory(), wanted.controller).steps:
        match step:
            case ChangePackages(change=change) | RemoveSoftware(change=change) | ChangeController(change=change):
                for name, version in change.want.items():
                    check_literal(name)
                    assert version is None or PLAIN.fullmatch(version), version
            case CheckOut():
                check_literal(step.package)
                checkout = parse_checkout(step.version)
                for word in (checkout.url, checkout.revision):
                    assert not word.startswith("-")
                    assert re.fullmatch(r"[!-~]+", word)
                    assert "::" not in word.partition("[")[0]
            case Deploy(assignment=one):
                check_literal(one.package)
                check_literal(one.application)
                assert one.subtype is None or PLAIN.fullmatch(one.subtype)
                assert is_checkout(one.version) or one.version is None or PLAIN.fullmatch(one.version)
                assert re.fullmatch(r"(/[A-Za-z0-9_.][A-Za-z0-9._+@~=-]*)+", one.path), one.path
                assert {".", ".."}.isdisjoint(one.path.split("/"))
                assert "/" not in step.deployment.marker_name


GOOD = {"name": "x", "type": "foo web", "version": "1", "patches": ["fix 1"], "n": 1, "controller": "ctl"}
# One value is hostile: in a tree of nothing else nothing would ever be accepted.
HOSTILE = st.tuples(st.sampled_from(sorted(GOOD)), TEXTS | VALUES)


@settings(deadline=None, max_examples=500)
@given(HOSTILE)
@example(("type", "foo web"))
@example(("type", "foo -r"))
@example(("patches", ["--installroot=/ 1"]))
@example(("version", "git:ext::sh -c id#1"))
@example(("version", "git:ssh://-oProxyCommand=id/x#1"))
@example(("version", "1.0; rm"))
@example(("version", "git:/srv/foo#1"))
@example(("controller", "../ctl"))
@example(("name", "a,b"))
def test_a_hostile_tree_is_refused_or_means_only_literal_words(hostile):
    field, value = hostile
    values = {**GOOD, field: value}
    tree = Tree(
        {
            "/s": {},
            f"/s/{values['name']}": {name: values[name] for name in ("type", "version", "patches")},
            f"/s/{values['name']}/deploy": {},
            f"/s/{values['name']}/deploy/web": {"n": values["n"]},
            "/roles": {},
            "/roles/web": {"type": values["controller"], "version": values["version"]},
        }
    )
    targets, problems = compile_targets(tree)
    assert not problems or hostile != ("type", GOOD["type"])
    if not problems:
        check_plan(wanted_for(IDENTITY, targets))


@settings(deadline=None, max_examples=500)
@given(st.sampled_from(["path", "package", "version", "subtype", "n"]), TEXTS | VALUES)
@example("package", "foo")
@example("version", "git:/srv/foo#1")
def test_hostile_published_assignments_are_refused_or_mean_only_literal_words(field, value):
    published = {"path": "/s/x", "n": 1, "package": "foo", "version": "1", "subtype": None, "patches": []}
    published[field] = value
    published["application"] = published["package"]
    try:
        wanted = wanted_for(IDENTITY, {"web": assignments_from_json([published])})
    except ZkdeploymentError:
        return
    check_plan(wanted)
