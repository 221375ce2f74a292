"""The document of host pools: each error with its place, and pools merged with those that they extend."""

from __future__ import annotations

from typing import Any

import pytest

from zkdeployment.base.errors import TreeError
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.collection import PublishedDocuments
from zkdeployment.documents.forms import form_faults
from zkdeployment.documents.kinds import known_kinds
from zkdeployment.documents.reading import read_documents
from zkdeployment.documents.yaml_values import parse_yaml, typed_values
from zkdeployment.pools.documents import (
    FORM,
    POOLS,
    AnsibleMechanism,
    Playbook,
    PoolConfiguration,
    RoleMechanism,
    pools_in_force,
)
from zkdeployment.service.users.user import TenantLimits

WHOLE = """
schema: zkdeployment/Pools/v1
metadata: {name: pools}
data:
  defaults: {session-lifetime: 2h30m, session-lifetime-max: 43200, node-quota: 4}
  nodepools:
    abstract:
      any:
        mechanism: {type: ansible, ansible: {topdir: /srv/books, extra-vars: {size: 2, net: lan}}}
        flavour: small
      metal:
        extends: any
        mechanism:
          ansible:
            provision:
              playbook: provision.yml
              extra-vars: {size: 3, deep: {name: "{{ name }}", list: [1, x]}}
    concrete:
      metal-x86:
        extends: [metal]
        fill-level: 3
        reuse-nodes: {architecture: x86_64, cores: 8}
        run-parallel: false
      fleet-web: {fill-level: 2, mechanism: {type: role, role: {idle: spare, leased: ci-web}}}
"""


def read(text: str) -> Any:
    document = next(parse_yaml(text))
    return typed_values(document.value, FORM)


def faults(text: str) -> dict[str, str]:
    value = read(text)
    found = list(form_faults(value, FORM)) or list(POOLS.faults(value))
    content = text if "schema:" in text else f"schema: {POOLS.schema}\n{text}"
    documents = read_documents([SourceFile("pools.yaml", content.encode())])
    assert [problem.message for problem in documents.problems] == [message for _, message in found]
    return {".".join(map(str, way)): message for way, message in found}


def with_pools(pools: str) -> str:
    return f"metadata: {{name: pools}}\ndata: {{nodepools: {pools}}}"


def test_pools_have_the_values_of_those_that_they_extend_and_their_own_ones_come_last() -> None:
    assert faults(WHOLE) == {}
    configuration = POOLS.parse(read(WHOLE))
    assert configuration.defaults == TenantLimits(
        node_quota=4, session_lifetime=9000.0, session_lifetime_max=43200.0
    )
    assert set(configuration.pools) == {"metal-x86", "fleet-web"}
    metal = configuration.pools["metal-x86"]
    extra = {"size": 3, "net": "lan", "deep": {"name": "{{ name }}", "list": [1, "x"]}}
    assert metal.mechanism == AnsibleMechanism("/srv/books", Playbook("provision.yml", extra))
    assert (metal.fill_level, metal.run_parallel) == (3, False)
    assert metal.reuse == {"architecture": "x86_64", "cores": 8}
    assert (metal.values["flavour"], metal.values["name"]) == ("small", "metal-x86")
    web = configuration.pools["fleet-web"]
    assert web.mechanism == RoleMechanism("spare", "ci-web")
    assert (web.reuse, web.run_parallel) == (None, True)


def test_limits_that_are_not_given_are_six_and_twelve_hours_and_ten_nodes() -> None:
    configuration = POOLS.parse(read(with_pools("{concrete: {}}")))
    assert configuration.defaults == TenantLimits(
        node_quota=10, session_lifetime=21600, session_lifetime_max=43200
    )


def test_pools_that_extend_the_same_pool_twice_at_many_levels_are_merged_at_once() -> None:
    chain = ", ".join(f"p{n}: {{extends: [p{n + 1}, p{n + 1}]}}" for n in range(60))
    pools = f"{{abstract: {{{chain}, p60: {{mechanism: {{type: role, role: {{idle: a, leased: b}}}}}}}},"
    assert faults(with_pools(f"{pools} concrete: {{web: {{extends: p0, fill-level: 1}}}}}}")) == {}


def test_absurd_levels_and_quotas_are_errors() -> None:
    found = faults(with_pools(f"{{concrete: {{a: {{{COMPLETE}, fill-level: 1000000000000000000000}}}}}}"))
    assert "at most 100000, found 1e+21" in found["data.nodepools.concrete.a.fill-level"]


COMPLETE = "mechanism: {type: role, role: {idle: a, leased: b}}"


@pytest.mark.parametrize(
    ("pools", "way", "message"),
    [
        ("{}", "data.nodepools", "'concrete' is a required property"),
        ("{concrete: {a: {fill-level: 0}}}", "data.nodepools.concrete.a.fill-level", "a whole number above 0"),
        ("{concrete: {a: {fill-level: 1.5}}}", "data.nodepools.concrete.a.fill-level", "a whole number above 0"),
        ("{concrete: {a: {}}}", "data.nodepools.concrete.a", "expected mechanism with the type ansible or role"),
        (
            "{concrete: {a: {mechanism: {type: cloud}}}}",
            "data.nodepools.concrete.a.mechanism.type",
            "one of: ansible, role",
        ),
        (
            "{concrete: {a: {mechanism: {type: ansible, ansible: {topdir: /x, provision: {}}}}}}",
            "data.nodepools.concrete.a",
            "incomplete at mechanism.ansible.provision: 'playbook' is a required property",
        ),
        (
            "{concrete: {a: {mechanism: {type: role, role: {idle: x}}}}}",
            "data.nodepools.concrete.a",
            "the mechanism role is incomplete at mechanism.role: 'leased' is a required property",
        ),
        (
            f"{{concrete: {{a: {{{COMPLETE}, reuse-nodes: {{x: y}}}}}}}}",
            "data.nodepools.concrete.a",
            "reuse-nodes has no meaning for the mechanism role",
        ),
        (
            "{concrete: {a: {extends: b}}}",
            "data.nodepools.concrete.a.extends",
            "there is no pool 'b'; the others are: none",
        ),
        (
            "{abstract: {b: {extends: c}, c: {extends: b}}, concrete: {a: {extends: b}}}",
            "data.nodepools.concrete.a.extends",
            "the pool extends itself: a -> b -> c -> b",
        ),
        (
            f"{{abstract: {{a: {{}}}}, concrete: {{a: {{{COMPLETE}}}}}}}",
            "data.nodepools.concrete.a",
            "there is an abstract pool 'a', too",
        ),
        (
            f'{{concrete: {{"a/b": {{{COMPLETE}}}}}}}',
            "data.nodepools.concrete",
            "expected a pool name of at most 128 letters",
        ),
        (
            '{concrete: {"a\\n": {mechanism: {type: role, role: {idle: x, leased: y}}}}}',
            "data.nodepools.concrete",
            "expected a pool name of at most 128 letters",
        ),
        (
            '{concrete: {a: {mechanism: {type: role, role: {idle: "x\\n", leased: y}}}}}',
            "data.nodepools.concrete.a.mechanism.role.idle",
            "expected a role of at most 128 letters",
        ),
        ("{concrete: {a: {reuse-nodes: true}}}", "data.nodepools.concrete.a.reuse-nodes", "expected false, or"),
        (
            "{concrete: {a: {reuse-nodes: {x: [1]}}}}",
            "data.nodepools.concrete.a.reuse-nodes",
            "text or whole numbers",
        ),
    ],
)
def test_a_fault_has_its_place_and_names_the_expected_value(pools: str, way: str, message: str) -> None:
    found = faults(with_pools(pools))
    assert list(found) == [way]
    assert message in found[way]


@pytest.mark.parametrize("lifetime", ["0", "0h", "-1h", "soon", "30m1h"])
def test_a_lifetime_is_a_duration_above_zero(lifetime: str) -> None:
    defaults = f"{{session-lifetime: {lifetime}}}"
    text = f"metadata: {{name: pools}}\ndata: {{defaults: {defaults}, nodepools: {{concrete: {{}}}}}}"
    assert "seconds, or a duration as in 6h" in faults(text)["data.defaults.session-lifetime"]


@pytest.mark.parametrize("lifetime", ["5300w", "999999999w", "9999999999", "'9999999999'"])
def test_a_lifetime_is_at_most_a_hundred_years(lifetime: str) -> None:
    defaults = f"{{session-lifetime: {lifetime}, session-lifetime-max: {lifetime}}}"
    text = f"metadata: {{name: pools}}\ndata: {{defaults: {defaults}, nodepools: {{concrete: {{}}}}}}"
    found = faults(text)
    for key in ("session-lifetime", "session-lifetime-max"):
        assert "expected at most 100 years" in found[f"data.defaults.{key}"]


@pytest.mark.parametrize(
    ("lifetime", "seconds"), [("600", 600), ('"600"', 600), ("0.5", 0.5), ("1h 30m", 5400), ("1500MS", 1.5)]
)
def test_a_lifetime_is_written_as_in_duffy(lifetime: str, seconds: float) -> None:
    defaults = f"{{session-lifetime: {lifetime}}}"
    value = read(f"metadata: {{name: pools}}\ndata: {{defaults: {defaults}, nodepools: {{concrete: {{}}}}}}")
    assert not list(form_faults(value, FORM))
    assert POOLS.parse(value).defaults.session_lifetime == seconds


def test_hosts_may_have_a_playbook_that_resets_them_which_has_to_be_complete() -> None:
    pool = "{concrete: {a: {mechanism: {type: role, role: {idle: x, leased: y, reset: %s}}}}}"
    whole = read(with_pools(pool % "{topdir: /srv, playbook: reset.yml, extra-vars: {bmc: a}}"))
    assert POOLS.parse(whole).pools["a"].mechanism == RoleMechanism(
        "x", "y", AnsibleMechanism("/srv", Playbook("reset.yml", {"bmc": "a"}))
    )
    assert "'topdir' is a required property" in str(faults(with_pools(pool % "{playbook: reset.yml}")))


def test_levels_at_other_times_are_windows_with_a_level() -> None:
    pool = f"{{concrete: {{a: {{{COMPLETE}, fill-level: 2, levels: %s}}}}}}"
    night = '[{from: "20:00", to: "06:00", days: [sat], zone: Europe/Berlin, level: 0}]'
    (entry,) = POOLS.parse(read(with_pools(pool % night))).pools["a"].schedule
    assert (entry.level, entry.window.start, entry.window.days) == (0, 1200, frozenset({5}))
    assert "no time zone Mars" in str(faults(with_pools(pool % night.replace("Europe/Berlin", "Mars"))))
    assert "'level' is a required property" in str(faults(with_pools(pool % '[{from: "20:00", to: "06:00"}]')))
    without = with_pools(pool % night).replace("fill-level: 2, ", "")
    assert "levels without fill-level, the level at all other times; add it" in str(faults(without))


def test_a_pool_may_have_a_quota_for_each_tenant() -> None:
    pool = f"{{concrete: {{a: {{{COMPLETE}, node-quota: %s}}}}}}"
    assert POOLS.parse(read(with_pools(pool % "2"))).pools["a"].node_quota == 2
    assert POOLS.parse(read(with_pools(pool % "null"))).pools["a"].node_quota is None
    assert "a whole number above 0" in str(faults(with_pools(pool % "0")))


def test_the_lifetime_is_at_most_its_ceiling() -> None:
    text = "metadata: {name: pools}\ndata: {defaults: {session-lifetime: 13h}, nodepools: {concrete: {}}}"
    assert "longer than session-lifetime-max" in faults(text)["data.defaults"]


def test_the_published_document_is_in_force() -> None:
    documents = PublishedDocuments({("pools", ()): read(WHOLE)})
    assert set(pools_in_force(documents).pools) == {"metal-x86", "fleet-web"}
    assert pools_in_force(PublishedDocuments()) == PoolConfiguration()
    assert known_kinds().by_schema[POOLS.schema] is POOLS
    with pytest.raises(TreeError, match="upgrade this host, or correct the document"):
        pools_in_force(PublishedDocuments({("pools", ()): {"later": "form"}}))


def test_there_is_one_document_of_pools() -> None:
    assert (
        "there is one such document"
        in faults("metadata: {name: other}\ndata: {nodepools: {concrete: {}}}")["metadata.name"]
    )
