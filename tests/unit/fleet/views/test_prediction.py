import pytest

from support.builders import make_package
from zkdeployment.base.act import Maintenance
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Marker
from zkdeployment.base.plan import Undeploy
from zkdeployment.base.publication import Published
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.collection import PublishedDocuments
from zkdeployment.fleet.views.forecast import PredictionBasis, predict
from zkdeployment.publishing.rules.review import review
from zkdeployment.tree.values import LiveTree

TREE = "/who\n  /db : foo\n    version = '1.0'\n    undeploy = 'last'\n    /deploy\n      /{}\n"
A, B = Identity("a", "a.example"), Identity("b", "b.example")
HAS_IT = Inventory(
    packages={"foo": (make_package("foo", "1.0"),)},
    managed={"foo": "foo"},
    scripts={"foo": "/opt/foo/bin/zookeeper-deploy"},
    markers=(Marker(Deployment("/who/db", 0), "foo", "foo", version="1.0"),),
)


def read(text):
    return review([SourceFile("a.zk", text.encode())])


def undeployments(live, text, *, registered=(A, B), unfinished=None, maintenance=None):
    """Return whether host ``a`` undeploys the service last, for each undeployment, and the warnings."""
    basis = PredictionBasis(
        Cluster("r1"),
        [Host(identity, version="r1") for identity in registered],
        [KnownHost(A, HAS_IT), KnownHost(B, Inventory())],
        LiveTree(read(live).linted.tree),
        None,
        PublishedDocuments(),
        unfinished=unfinished or {},
        maintenance=maintenance or {},
    )
    predicted = predict(read(text), basis, revision="r2", title="")
    (host,) = [host for host in predicted.forecast.hosts if host.identity == A]
    return [step.last for step in host.plan.steps if isinstance(step, Undeploy)], predicted.warnings


def test_a_plan_knows_which_hosts_still_lack_a_service_of_the_publication_before():
    moved = TREE.format("b")
    assert undeployments(moved, moved, unfinished={"/who/db": frozenset({"b"})}) == ([True], ())
    assert undeployments(moved, moved) == ([False], ())


@pytest.mark.parametrize("is_known", [False, True])
def test_a_plan_warns_that_the_tree_of_an_interrupted_publication_cannot_be_read(is_known):
    text = read(TREE.format("a"))
    basis = PredictionBasis(
        Cluster("r1", importing="r2"),
        [],
        [],
        LiveTree(text.linted.tree),
        None,
        PublishedDocuments(),
        published=Published(ordered="r1"),
        ordered_text=text if is_known else None,
    )
    (warning,) = predict(text, basis, revision="r3", title="").warnings
    assert ("whose tree cannot be read" in warning) == (not is_known)


def test_a_plan_shows_that_a_host_keeps_a_service_that_only_absent_hosts_gain():
    last, warnings = undeployments(TREE.format("a"), TREE.format("b"), registered=(A,))
    assert last == [True]
    assert "a.example (a) keeps it, and waits, until one of them has it" in warnings[-1]


def test_a_plan_names_its_hosts_in_maintenance():
    held = {each: Maintenance(each, "ann", "new disk", 1.0) for each in ("a", "other")}
    _, warnings = undeployments(TREE.format("a"), TREE.format("b"), maintenance=held)
    assert warnings == (
        "warning: hosts in maintenance deploy nothing until it ends: a.example is in maintenance by ann: new disk",
    )
    assert undeployments(TREE.format("a"), TREE.format("a"), maintenance={"b": held["a"]})[1] == ()


def test_a_plan_warns_that_the_guard_against_mass_removal_would_refuse_the_publication():
    on_both = TREE.format("a\n      /b")
    _, (warning,) = undeployments(on_both, "/who\n  /db : foo\n    version = '1.0'\n    /deploy\n")
    assert warning == (
        "warning: the syncer would refuse this: r2 is not published: it would end 2 of 2 deployments (/who/db: 2),"
        " more than 30%; if that is a mistake, push a repair, or undo the push with"
        " 'zkdeployment rollback'; if it is meant, use 'zkdeployment resume --latest --allow-mass-removal'"
    )
    assert undeployments(on_both, TREE.format("b"))[1] == ()
