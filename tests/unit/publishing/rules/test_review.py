import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.strategies import EXAMPLE_FILE, example
from zkdeployment.base.source_files import Problem, Severity, SourceFile
from zkdeployment.publishing.rules.review import RULES, fingerprint, lifting_problems, place, review
from zkdeployment.strategies.documents import strategies, strategy_in_force
from zkdeployment.tree.parse import ParsedFile, parse_bytes

GOOD = """\
/who
  /myfoo : foo
    version = '1.0'
    /providers
    /deploy
      /host1
        n = 2
"""


def look(**texts):
    return review([SourceFile(name.replace("_", "."), text.encode()) for name, text in texts.items()])


def test_good_tree_is_compiled():
    result = look(a_zk=GOOD)
    assert result.problems == ()
    assert result.errors == ()
    (assignment,) = result.targets["host1"]
    assert (assignment.path, assignment.n, assignment.package) == ("/who/myfoo", 2, "foo")


def test_problems_of_planning_get_the_place_of_their_node():
    result = look(a_zk=GOOD, b_zk="/what\n  /bar : bar\n    /deploy\n      /host1\n")
    (problem,) = result.errors
    assert (problem.file, problem.line, problem.column, problem.path) == ("b.zk", 2, 3, "/what/bar")


def test_line_that_cannot_be_read_is_the_only_problem_of_its_node():
    result = look(a_zk=GOOD.replace("'1.0'", "1.0.1"), b_zk="/what\n  /bar : a b c\n    /deploy\n      /host1\n")
    assert [(problem.file, problem.line) for problem in result.errors] == [("a.zk", 3), ("b.zk", 2)]


def test_line_that_cannot_be_read_hides_nothing_elsewhere():
    result = look(a_zk="/what\n  x = oops\n  /bar : a b c\n    /deploy\n      /host1\n")
    assert [(problem.file, problem.line) for problem in result.errors] == [("a.zk", 2), ("a.zk", 3)]


def test_a_conflict_that_depends_on_the_live_tree_is_a_warning():
    result = look(a_zk=GOOD.replace("version = '1.0'", "version => /live/versions foo"))
    assert result.errors == ()
    assert result.problems
    assert {problem.severity for problem in result.problems} == {Severity.WARNING}
    assert {(problem.file, problem.line) for problem in result.problems} <= {("a.zk", 2), ("a.zk", 3)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            GOOD.replace("    /deploy\n", "    /deploy\n      n = 2\n"),
            "5:5: /who/myfoo/deploy: warning: n of a deploy node is not read; set n on each target below the node",
        ),
        (
            GOOD.replace("/deploy", "/Deploy"),
            (
                "5:5: /who/myfoo/Deploy: warning: /Deploy is not read; a service is deployed by its child /deploy,"
                " in small letters"
            ),
        ),
        (
            GOOD.replace("/host1", "/café"),
            (
                "6:7: /who/myfoo/deploy/café: 'caf\\xe9' is not a host id, a host name or a role, so nothing can"
                " be deployed to it"
            ),
        ),
    ],
)
def test_nodes_without_a_service_are_reported(text, expected):
    assert [str(problem) for problem in look(a_zk=text).problems] == [f"a.zk:{expected}"]


@pytest.mark.parametrize(
    "text", ["/a\n  /deploy\n    n = 1\n", "/a : t-1\n  /deploy : t-1\n    n = 1\n", "/Deploy : t-1\n"]
)
def test_other_nodes_may_be_called_deploy(text):
    assert look(a_zk=text).problems == ()


@pytest.mark.parametrize("name", ["x,y", "a:b", "café", "~a"])
def test_a_name_is_checked_where_it_becomes_that_of_a_lock_or_a_file(name):
    assert look(a_zk=f"/{name}\n  /b\n").problems == ()
    (problem,) = look(a_zk=f"/{name}\n  /b : t-1\n    /deploy\n      /h1\n").errors
    assert "is not a name of a service node or of a node above it" in problem.message
    assert problem.path == f"/{name}/b"


def test_problem_that_concerns_no_node_is_kept(monkeypatch):
    monkeypatch.setattr(
        "zkdeployment.publishing.targets.compilation.compile_targets", lambda _tree, **_: ({}, (Problem("odd"),))
    )
    assert Problem("odd") in look(a_zk="/a b\n").errors


STRATEGY = EXAMPLE_FILE.read_text()


def test_a_strategy_beside_the_tree_is_read():
    result = look(a_zk=GOOD, strategy_yaml=STRATEGY)
    assert result.problems == ()
    assert strategy_in_force(result.documents) == example()


def test_problems_of_a_strategy_are_sorted_among_the_problems_of_the_tree():
    result = look(
        a_zk="/a b\n", strategy_yml=STRATEGY.replace("critical: true", "critical: maybe", 1), z_zk="/b c\n"
    )
    assert [str(problem).partition(": ")[0] for problem in result.errors] == [
        "a.zk:1:1",
        "strategy.yml:13:17",
        "z.zk:1:1",
    ]
    assert result.errors[1].path == "data.groups[0].critical"


def test_other_yaml_files_are_ignored():
    result = look(a_zk=GOOD, ci_yml="script: !reference [a, b]\n : [", strategy_txt=STRATEGY)
    assert result.problems == ()
    assert strategies(result.documents) == {}
    assert result.fingerprint == look(a_zk=GOOD).fingerprint


def test_a_strategy_alone_is_checked_without_a_tree():
    assert look(strategy_yaml=STRATEGY).problems == ()
    (problem,) = look(strategy_yaml=STRATEGY + "more: 1\n").errors
    assert problem.file == "strategy.yaml"


def test_a_change_of_the_strategy_alone_is_another_text():
    last = look(a_zk=GOOD, strategy_yaml=STRATEGY)
    files = [SourceFile("a.zk", GOOD.encode()), SourceFile("strategy.yaml", f"# new\n{STRATEGY}".encode())]
    result = review(files, last)
    assert result.fingerprint != last.fingerprint
    assert result.documents is not last.documents


def test_documents_that_did_not_change_are_not_read_again():
    last = look(a_zk=GOOD, strategy_yaml=STRATEGY)
    files = [SourceFile("a.zk", b"/other\n"), SourceFile("strategy.yaml", STRATEGY.encode())]
    assert review(files, last).documents is last.documents


def test_no_files_is_an_error():
    assert len(look().errors) == 1


def test_place_is_that_of_the_nearest_node():
    linted = look(a_zk=GOOD).linted
    assert place(Problem("odd", path="/who/myfoo/deploy/x/y"), linted).line == 5
    assert place(Problem("odd", path="/elsewhere"), linted).line is None
    assert place(Problem("odd"), linted).line is None
    assert place(Problem("odd", file="b.zk", path="/who"), linted).file == "b.zk"


@pytest.mark.parametrize(
    ("service", "problem"),
    [
        ("  deploy -> /hosts-of-web\n", "a.zk:3:3: /web: deploy of a service must be a node, not a link"),
        (
            "  /deploy\n    h1 -> /hosts-of-web\n",
            "a.zk:4:5: /web/deploy: deploy/h1 of a service must be a node, not a link",
        ),
    ],
)
def test_a_link_in_the_place_of_a_target_is_an_error(service, problem):
    text = f"/web : shop\n  version = '1'\n{service}/hosts-of-web\n  /h1\n"
    result = review([SourceFile("a.zk", text.encode())])
    assert [str(error) for error in result.errors] == [problem]


def test_links_called_deploy_elsewhere_are_links():
    text = "/tools\n  deploy -> /x\n/x\n  /deploy\n    y -> /tools\n"
    assert review([SourceFile("a.zk", text.encode())]).problems == ()


def files(**texts):
    return [SourceFile(name.replace("_", "."), text.encode()) for name, text in texts.items()]


def test_equal_texts_have_one_fingerprint_among_any_other_files():
    first = fingerprint(files(a_zk=GOOD, b_zkx="/x\n"))
    assert fingerprint(files(b_zkx="/x\n", README="hello", a_zk=GOOD)) == first
    others = [
        files(a_zk=GOOD),
        files(a_zk=GOOD, b_zk="/x\n"),
        files(a_zk=GOOD, b_zkx="/x\n\n"),
        files(a_zk=GOOD + "/x\n", b_zkx=""),
    ]
    assert first not in {fingerprint(other) for other in others}


def test_other_rules_give_other_fingerprints(monkeypatch):
    first = fingerprint(files(a_zk=GOOD))
    monkeypatch.setattr("zkdeployment.publishing.rules.review.RULES", RULES + 1)
    assert fingerprint(files(a_zk=GOOD)) != first


def test_a_text_that_was_reviewed_is_not_reviewed_again():
    last = review(files(a_zk=GOOD, README="hello"))
    assert review(files(a_zk=GOOD), last) is last


def test_a_file_that_was_read_is_not_read_again(monkeypatch):
    last = review(files(a_zk=GOOD, b_zk="/bad : a b c\n  /deploy\n    /h\n"))
    read = []

    def note(name: str, content: bytes, **how: ParsedFile | None):
        read.append(name)
        return parse_bytes(name, content, **how)

    monkeypatch.setattr("zkdeployment.tree.lint.parse_bytes", note)
    assert review(files(a_zk=GOOD, b_zk="/better\n"), last).problems == ()
    assert read == ["b.zk"]


def test_a_review_that_builds_on_another_finds_the_same():
    last = review(files(a_zk=GOOD, b_zk="/bad : a b c\n  /deploy\n    /h\n"))
    new = files(a_zk=GOOD, b_zk="/bad : a-1\n  /deploy\n    /h\n", c_zkx="/who\n  x = 1\n  y = \n")
    result, alone = review(new, last), review(new)
    assert (result.problems, result.targets, result.linted.tree) == (
        alone.problems,
        alone.targets,
        alone.linted.tree,
    )


QUARANTINE = """\
schema: zkdeployment/Quarantine/v1
metadata: {name: foo, version: 1.0}
data: {reason: "crashes, often", by: alice, time: 2026-11-22}
"""
SENTENCE = "foo 1.0 is quarantined by alice since 2026-11-22: crashes, often"


def test_a_tree_that_wants_a_quarantined_version_is_an_error_with_who_when_and_why():
    (problem,) = look(a_zk=GOOD, q_yaml=QUARANTINE).errors
    assert str(problem) == f"a.zk:2:3: /who/myfoo: {SENTENCE}; choose another version"
    assert look(a_zk=GOOD.replace("1.0", "1.1"), q_yaml=QUARANTINE).errors == ()


def test_a_version_without_a_deployment_is_not_wanted():
    assert look(a_zk=GOOD.replace("/host1\n        n = 2\n", ""), q_yaml=QUARANTINE).errors == ()


def test_a_change_that_removes_a_quarantine_and_wants_the_version_is_an_error():
    before = [SourceFile("q.yaml", QUARANTINE.encode())]
    (problem,) = lifting_problems(look(a_zk=GOOD), before)
    assert str(problem).startswith(f"a.zk:2:3: /who/myfoo: {SENTENCE}; this change removes the quarantine")
    assert lifting_problems(look(a_zk=GOOD.replace("1.0", "1.1")), before) == ()
    assert lifting_problems(look(a_zk=GOOD, q_yaml=QUARANTINE), before) == ()  # reported by the review itself


ORDERED = """\
/shop
  /db : shop
    version = '1.0'
    /deploy
      /db1.example.com
  /web : shop
    version = '1.0'
    deploy_after = ['/shop/db']
    /deploy
      /app1.example.com
"""


def test_waits_that_never_end_are_errors_at_their_service():
    assert look(a_zk=ORDERED).errors == ()
    (unknown,) = look(a_zk=ORDERED.replace("['/shop/db']", "['/shop/mail']")).errors
    assert (unknown.line, unknown.message.partition(",")[0]) == (6, "deploy_after names /shop/mail")
    (circle,) = look(a_zk=ORDERED.replace("['/shop/db']", "['/shop/web']")).errors
    assert (circle.line, circle.path) == (6, "/shop/web")


def test_a_strategy_that_puts_an_awaited_host_into_a_later_group_is_an_error_of_the_tree():
    strategy = """\
schema: shipyard/DeploymentStrategy/v1
metadata:
  schema: metadata/Document/v1
  name: deployment-strategy
  layeringDefinition: {abstract: false, layer: global}
  storagePolicy: cleartext
data:
  groups:
    - {name: first, critical: true, depends_on: [], selectors: [{node_names: [FIRST]}]}
    - {name: second, critical: true, depends_on: [first], selectors: [{node_names: [SECOND]}]}
"""

    def errors(first, second, names="node_names: [FIRST]"):
        text = strategy.replace("node_names: [FIRST]", names).replace("FIRST", first).replace("SECOND", second)
        return look(a_zk=ORDERED, s_yaml=text).errors

    assert errors("db1.example.com", "app1.example.com") == ()
    (error,) = errors("app1.example.com", "db1.example.com")
    assert (error.file, error.line) == ("a.zk", 6)
    assert "its group second comes after the group first" in error.message
    # The database's host may be in the first group, too: by its id, or by its facts.
    for names in ("node_names: [FIRST, i-0db]", "node_names: [FIRST]}, {node_tags: [db]", "rack_names: [r1]"):
        assert errors("app1.example.com", "db1.example.com", names) == ()


#: What a top-level node may consist of: services, links to other top-level nodes, and mistakes of each kind.
_BODIES = [
    "",
    "\n  version = '1'\n  port = 1",
    "\n  version = '2'\n  port = 1",
    " : foo\n  version = '1'\n  /deploy\n    /h1",
    " : foo\n  version = '1'\n  /deploy\n    /h1\n    /h2\n      n = 2",
    " : foo\n  version => /a\n  /deploy\n    /h1",
    " : bar\n  version => ../b\n  rerun = 'changed'\n  port => /c\n  /deploy\n    /h2\n    /web",
    " : baz\n  version = '1'\n  deploy_after = ['/a']\n  undeploy = 'last'\n  /deploy\n    /h1",
    " : baz\n  version = '1'\n  deploy_after = ['/b/x']\n  /deploy\n    /h2",
    " : foo\n  version = 1.10\n  /deploy\n    n = 2\n    /h3",
    "\n  password = 'xyz'\n  there -> /a/deploy",
    "\n  deploy -> /b\n  x -> /b/x\n  y => /c port\n  /x : foo\n    version = '3'\n    deploy -> /a/deploy",
    "\n  /deploy\n    /h1\n  /DEPLOY",
    "\n  é = 1\n  e\u0301 = 2\n  there -> x\n  /x\n    here -> ../there",
    "\n  x = ?",
    "\n  /h1 : ctl\n    version => /a",
]
_FILES = st.dictionaries(
    st.sampled_from(["a.zk", "b.zk", "c.zkx"]),
    st.dictionaries(st.sampled_from(["a", "b", "c", "roles"]), st.sampled_from(_BODIES), min_size=1),
    min_size=1,
)


def _source_files(files):
    return [
        SourceFile(name, b"# head\n" + "".join(f"/{top}{body}\n" for top, body in tops.items()).encode())
        for name, tops in files.items()
    ]


@given(st.lists(_FILES, min_size=2, max_size=4), st.booleans())
def test_a_review_that_builds_on_the_last_one_equals_a_review_of_the_whole_tree(revisions, signed):
    last = None
    for files in revisions:
        before, last = last, review(_source_files(files), last, signed=signed)
        whole = review(_source_files(files), signed=signed)
        assert last.problems == whole.problems
        assert last.linted.tree == whole.linted.tree
        assert dict(last.linted.tree.nodes) == dict(whole.linted.tree.nodes)
        assert last.linted.merged.links == whole.linted.merged.links
        assert last.compilation == whole.compilation
        if before is not None:
            changed = whole.compilation.changed_since(before.targets)
            assert last.compilation.changed_since(before.targets) == changed
            assert last.compilation.changed_since(before.targets, whole=True) == changed
