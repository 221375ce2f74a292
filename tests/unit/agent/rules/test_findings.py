import pytest

from support.builders import make_package
from zkdeployment.agent.rules.availability import (
    Demand,
    HostSoftware,
    Offers,
    PackageFindings,
    PaperTransaction,
    availability_problems,
    refusal_of,
    transaction_problems,
    unreachable_warnings,
)
from zkdeployment.base.host import Identity
from zkdeployment.base.source_files import Problem, Severity

SHOP = {"shop": (make_package("shop", "1.0"), make_package("shop", "0.9", "2", epoch=1))}


@pytest.mark.parametrize("version", ["", "1.0", "1.0-1", "0:1.0", "0:1.0-1", "1:0.9", "0.9-2"])
def test_versions_are_met_with_and_without_release_and_epoch(version):
    assert list(availability_problems([Demand("/a/shop", "shop", version)], Offers(SHOP, {}), "")) == []


@pytest.mark.parametrize(
    ("demand", "arch", "message"),
    [
        (
            Demand("/a/shop", "shop", "9.9"),
            "x86_64",
            (
                "/a/shop: no repository has the package shop 9.9; it has shop 1.0-1, 1:0.9-2; publish it, or"
                " correct the version in the tree"
            ),
        ),
        (
            Demand("/a/shop", "shop-1.4"),
            "",
            "/a/shop: no repository has the package shop-1.4; publish it, or correct the version in the tree",
        ),
        (
            Demand("/a/shop", "fix", "1"),
            "aarch64",
            (
                "/a/shop: no repository has the package fix 1 for aarch64; publish it, or correct the version in"
                " the tree"
            ),
        ),
    ],
)
def test_a_problem_names_path_package_and_the_versions_that_there_are(demand, arch, message):
    assert list(map(str, availability_problems([demand], Offers(SHOP, {}), arch))) == [message]


def test_with_an_unreachable_repository_no_package_is_known_to_be_missing():
    offers = Offers(SHOP, {"extra": "timeout"})
    (missing,) = availability_problems([Demand("/a/shop", "shop", "9.9")], offers, "")
    assert missing.severity is Severity.WARNING
    assert [str(warning) for warning in unreachable_warnings(offers)] == [
        "warning: the repository extra cannot be reached: timeout; packages that may be in it are not checked"
    ]


def test_a_conflict_names_hosts_path_and_the_words_of_the_solver():
    hosts = [
        HostSoftware(Identity(f"h{number}", f"app{number}"), {}, "", (), (Demand("/a/shop", "shop", "1.0"),))
        for number in range(1, 8)
    ]
    some: frozenset[str] = frozenset()
    transaction = PaperTransaction(frozenset(), frozenset(), some, frozenset(SHOP["shop"][:1]), some)
    groups = {transaction: [host.identity for host in hosts]}
    (problem,) = transaction_problems(groups, {transaction: "it conflicts with old"}, hosts)
    assert str(problem) == (
        "/a/shop: cannot install shop-1.0-1.noarch on app1 (h1), app2 (h2), app3 (h3), app4 (h4), app5 (h5) and 2"
        " more: it conflicts with old; correct the dependencies, or the versions in the tree"
    )
    (alone,) = transaction_problems({transaction: [hosts[0].identity]}, {transaction: "it conflicts"}, hosts)
    assert str(alone).startswith("/a/shop: cannot install shop-1.0-1.noarch on app1 (h1): it conflicts;")


def test_a_conflict_names_registered_hosts_and_only_warns_of_absent_ones():
    present, absent = (
        HostSoftware(Identity(f"h{number}", f"app{number}"), {}, "", (), (), absent=number == 2)
        for number in (1, 2)
    )
    none: frozenset[str] = frozenset()
    transaction = PaperTransaction(frozenset(), frozenset(), none, frozenset(SHOP["shop"][:1]), none)
    reasons = {transaction: "it conflicts"}
    both = {transaction: [present.identity, absent.identity]}
    (error,) = transaction_problems(both, reasons, [present, absent])
    assert str(error).startswith("cannot install shop-1.0-1.noarch on app1 (h1): it conflicts;")
    (warning,) = transaction_problems({transaction: [absent.identity]}, reasons, [absent])
    assert (error.severity, warning.severity) == (Severity.ERROR, Severity.WARNING)


def test_only_errors_refuse_a_tip_and_each_has_a_line():
    warning = Problem("a repository is away", severity=Severity.WARNING)
    assert refusal_of("ab12", PackageFindings((warning,))) is None
    refusal = refusal_of("ab12", PackageFindings((warning, Problem("one"), Problem("two", path="/a"))))
    assert refusal == (
        "ab12 is not published: hosts could not install its packages; if it is to be published nevertheless, use"
        " 'zkdeployment resume --latest --allow-package-problems':\n  one\n  /a: two"
    )
