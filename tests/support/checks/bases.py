"""Random bases of check instances: configurations, services and hosts, and changes between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Facts, Identity
from zkdeployment.checks.documents import CheckConfiguration, CheckConstraints, Predicate, Threshold
from zkdeployment.checks.rules.spawning import CheckBasis, CheckedHost
from zkdeployment.strategies.strategy import Selector

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from zkdeployment.base.json_values import Value

PATHS = ("/p1/shop", "/p1/shop/front", "/p1/shop/front/cache", "/p1/shopping", "/p2/front")
HOSTS = ("host1", "host2", "host3")
NAMES = ("port", "tier", "weight")

scalars: st.SearchStrategy[Value] = (
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["1", "web", "{path}", "a b", "$USER1$"])
)
values: st.SearchStrategy[Value] = scalars | st.lists(scalars, max_size=3)
subsets = st.lists(st.sampled_from(HOSTS), max_size=2, unique=True).map(frozenset)


@st.composite
def configurations(draw: DrawFn, name: str) -> CheckConfiguration:
    """A configuration, with arguments of which some may have no value."""
    arguments = [
        "{host.address}:{number}",
        "{property.port}",
        "{attribute.port}",
        "{{x}}{path}",
        "{threshold.warning}",
    ]
    inheritance = draw(st.booleans())
    return CheckConfiguration(
        name,
        draw(st.sampled_from(("", "/p1", *PATHS))),
        draw(st.sampled_from(("nagios1", "nagios2"))),
        draw(st.sampled_from(("check_http", "check_ping"))),
        tuple(draw(st.lists(st.sampled_from(arguments), max_size=3))),
        interval=draw(st.sampled_from((30, 60))),
        inheritance=inheritance,
        children_only=inheritance and draw(st.booleans()),
        thresholds=(Threshold("warning", Predicate.GREATER, draw(st.integers(0, 2))),),
        constraints=CheckConstraints(
            packages=tuple(draw(st.lists(st.sampled_from(("front", "back")), max_size=1))),
            selectors=tuple(Selector(names) for names in draw(st.lists(subsets, max_size=2))),
            properties=tuple(draw(st.lists(st.sampled_from((("tier", "web"), ("weight", "1"))), max_size=1))),
            attributes=tuple(draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))),
        ),
    )


@st.composite
def assignments(draw: DrawFn) -> tuple[Assignment, ...]:
    """The services of one target, sorted by path."""
    paths = sorted(draw(st.lists(st.sampled_from(PATHS), max_size=4, unique=True)))
    packages = st.sampled_from(("front", "back"))
    return tuple(
        Assignment(path, draw(st.integers(0, 2)), package, package, version="1")
        for path in paths
        for package in (draw(packages),)
    )


def silent_host(host_id: str, role: str | None, address: str) -> CheckedHost:
    """A known host that reports nothing."""
    return CheckedHost(Identity(host_id, f"{host_id}.example.com", role), address, Facts())


@st.composite
def check_bases(draw: DrawFn) -> CheckBasis:
    """A basis in which a service has the same package for all of its targets."""
    names = draw(st.lists(st.sampled_from(("a", "b", "c")), max_size=3, unique=True))
    packages = {path: draw(st.sampled_from(("front", "back"))) for path in PATHS}
    targets = {name: draw(assignments()) for name in (*HOSTS, "web")}
    return CheckBasis(
        configurations={name: draw(configurations(name)) for name in names},
        targets={
            name: tuple(
                Assignment(found.path, found.n, packages[found.path], packages[found.path], version=found.version)
                for found in listed
            )
            for name, listed in targets.items()
        },
        properties={path: draw(st.dictionaries(st.sampled_from(NAMES), values, max_size=3)) for path in PATHS},
        hosts={
            host_id: silent_host(host_id, draw(st.sampled_from((None, "web"))), draw(st.sampled_from(("a", "b"))))
            for host_id in draw(st.lists(st.sampled_from(HOSTS), max_size=3, unique=True))
        },
    )
