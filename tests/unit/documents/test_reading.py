"""Strategy documents: their values, and every error with its place."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.strategies import EXAMPLE_FILE, example
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.host import Facts
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.kinds import known_kinds, mentions_documents
from zkdeployment.documents.reading import document_files, nested_problems, read_documents, read_facts
from zkdeployment.sandbox.layout import read_hosts
from zkdeployment.strategies.documents import strategies, strategy_in_force
from zkdeployment.strategies.strategy import (
    ALL_HOSTS,
    Criteria,
    Group,
    Pace,
    ParallelLimit,
    Selector,
    Window,
    members,
)

HEAD = """\
schema: shipyard/DeploymentStrategy/v1
metadata: {name: deployment-strategy}
data:
  groups:
"""

CONFIGURATION = "schema: shipyard/DeploymentConfiguration/v1\ndata: {%s}\n"


def read(*texts):
    return read_documents(SourceFile(f"{number}.yaml", text.encode()) for number, text in enumerate(texts))


def group_line(name="web", **values):
    fields = {"critical": "true", "depends_on": "[]", "selectors": "[]"} | values
    listed = ", ".join(f"{key}: {value}" for key, value in fields.items())
    return f"    - {{name: {name}, {listed}}}\n"


def strategy_of(name="deployment-strategy"):
    return HEAD.replace("deployment-strategy", name) + group_line()


def errors(*texts):
    return [str(problem) for problem in read(*texts).problems]


def test_the_example_is_read_whole():
    groups = {group.name: group for group in example().groups}
    assert list(groups) == ["control-nodes", "compute-nodes-1", "compute-nodes-2", "monitoring-nodes", "ntp-node"]
    assert groups["control-nodes"] == Group(
        "control-nodes",
        critical=True,
        depends_on=("ntp-node",),
        selectors=(Selector(tags=frozenset({"control"}), racks=frozenset({"rack03"})),),
        criteria=Criteria(90, 3, 1),
    )
    assert groups["monitoring-nodes"].selectors[0].racks == {"rack01", "rack02", "rack03"}


@pytest.mark.parametrize(
    ("written", "label"),
    [
        ("'tier:web'", ("tier", "web")),
        ("' tier : web '", ("tier", "web")),
        ("{ucp_control_plane: enabled}", ("ucp_control_plane", "enabled")),
        ("{ssd: true}", ("ssd", "true")),
        ("{rack: 7}", ("rack", "7")),
    ],
)
def test_labels_are_text_or_scalars_of_yaml(written, label):
    found = read(HEAD + group_line(selectors=f"[{{node_labels: [{written}]}}]"))
    assert found.problems == ()
    (group,) = strategies(found)["deployment-strategy"].groups
    assert group.selectors[0].labels == {label}


TEXTS = ["yes", "no", "on", "010", "1.10", "1_000", "0x1f", "12:30", "2026-01-01", ".inf", "1e3", "null", "~"]


@pytest.mark.parametrize("text", TEXTS)
def test_selectors_and_facts_are_text_as_written(text):
    part = text.replace(":", ".")  # a label has one colon, between its key and its value
    facts = f"{{name: {text}, rack: {text}, tags: [{text}], labels: {{key: {part}, {part}: value}}}}"
    hosts = read_facts("hosts.yaml", f"{text}: {facts}\n".encode())
    rack = None if text in {"null", "~"} else text
    labels = {"key": part, part: "value"}
    assert hosts == {text: Facts(rack, frozenset({text}), labels, name=rack)}

    for selector in (
        f"{{node_names: [{text}]}}",
        f"{{node_tags: [{text}]}}",
        f"{{node_labels: [{{key: {part}}}]}}",
        f"{{node_labels: [{{{part}: value}}]}}",
        f"{{rack_names: ['{text}']}}",
    ):
        found = read(HEAD + group_line(selectors=f"[{selector}]"))
        (group,) = strategies(found)["deployment-strategy"].groups
        assert members(group, hosts) == (set() if rack is None and "rack" in selector else {text}), selector


def test_the_sandbox_reads_hosts_as_the_simulation_does(tmp_path):
    written = "a: {rack: 010, tags: [1.10], labels: {ssd: yes, time: 12:30}}\n"
    file = tmp_path / "hosts.yaml"
    file.write_text(written)
    (host,) = read_hosts(str(file))
    assert (host.rack, host.tags, host.labels) == ("010", ("1.10",), {"ssd": "yes", "time": "12:30"})


@pytest.mark.parametrize("number", ["2.0", "2"])
def test_whole_numbers_may_be_written_with_a_fraction(number):
    criteria = f"{{minimum_successful_nodes: {number}}}"
    found = read(HEAD + group_line(max_parallel=number, require_hosts=number, success_criteria=criteria))
    (group,) = strategies(found)["deployment-strategy"].groups
    numbers = [group.pace.max_parallel.number, group.require_hosts, group.criteria.minimum_successful]
    assert numbers == [2, 2, 2]
    assert {type(number) for number in numbers} == {int}


@pytest.mark.parametrize("key", ["bake_time", "prepare_timeout", "deploy_timeout", "progress_deadline"])
@pytest.mark.parametrize("written", [".nan", ".inf", "-1", "1e999", "100000d", "9" * 5000, "1e11", "'1e3'", "010"])
def test_durations_are_finite(key, written):
    (found,) = errors(HEAD + group_line(**{key: written}))
    assert re.match(rf"0\.yaml:5:\d+: data\.groups\[0\]\.{key}: expected seconds, or a number with", found), found


@pytest.mark.parametrize("written", [".nan", ".inf", "-.inf", "1e999", "0", "2.5", "yes", "010", "''"])
def test_counts_are_whole_and_finite(written):
    (found,) = errors(HEAD + group_line(max_parallel=written))
    assert re.match(r"0\.yaml:5:\d+: data\.groups\[0\]\.max_parallel: expected a number of hosts", found), found


def test_the_defaults_of_a_strategy():
    lines = "  absent_after: 10m\n  prepare_timeout: 5m\n  deploy_timeout: 1h\n"
    strategy = strategies(read(HEAD + group_line(require_hosts="3") + lines))["deployment-strategy"]
    assert (strategy.absent_after, strategy.prepare_timeout, strategy.deploy_timeout) == (600, 300, 3600)
    assert strategy.groups[0].require_hosts == 3
    plain = strategies(read(HEAD + group_line()))["deployment-strategy"]
    assert (plain.absent_after, plain.prepare_timeout, plain.deploy_timeout) == (300, None, None)


def test_the_pace_of_a_group():
    written = {
        "max_parallel": "25%",
        "bake_time": "15m",
        "prepare_timeout": "600",
        "deploy_timeout": "2h",
        "progress_deadline": "1d",
        "manual": "true",
        "healthy_checks": "true",
        "windows": "[{days: [mon, fri], from: '22:30', to: '04:00', zone: Europe/Berlin},"
        " {from: 12:00, to: 13:00}]",
    }
    (group,) = strategies(read(HEAD + group_line(**written)))["deployment-strategy"].groups
    assert group.pace == Pace(
        max_parallel=ParallelLimit(25, percent=True),
        bake_time=900,
        prepare_timeout=600,
        deploy_timeout=7200,
        progress_deadline=86400,
        manual=True,
        windows=(
            Window(frozenset({0, 4}), 22 * 60 + 30, 4 * 60, "Europe/Berlin"),
            Window(frozenset(range(7)), 720, 780, "UTC"),
        ),
        healthy_checks=True,
    )


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (group_line(critical="maybe"), "data.groups[0].critical: 'maybe' is not of type 'boolean'"),
        ("    - {name: web, critical: true, depends_on: []}\n", "[0]: 'selectors' is a required property"),
        (group_line(name="' '"), "data.groups[0].name: expected a name as text of at most 1000 characters"),
        (group_line(name='"web\\n"'), "data.groups[0].name: expected a name as text of at most 1000 characters"),
        (group_line(depends_on="[db]"), "[0].depends_on[0]: there is no group db; expected one of: web"),
        (group_line() * 2, "data.groups[0].name: there are 2 groups web; expected one"),
        (group_line(selectors="[{}]"), "data.groups[0].selectors[0]: {} should be non-empty"),
        (group_line(selectors="[{node_name: [a]}]"), "selectors[0].node_name: unknown key 'node_name'; did"),
        (group_line(sucess_criteria="{maximum_failed_nodes: 0}"), "did you mean success_criteria?"),
        (group_line(success_criteria="{maximum_failed: 0}"), "did you mean maximum_failed_nodes?"),
        (group_line(windows="[{from: '04:00', to: '05:00', day: [mon]}]"), "unknown key 'day'; did you mean"),
        (group_line(success_criteria="{}"), "data.groups[0].success_criteria: {} should be non-empty"),
        (group_line(success_criteria="{percent_successful_nodes: 101}"), "101 is greater than the maximum of 100"),
        (group_line(success_criteria="{percent_successful_nodes: 7.5}"), "7.5 is not of type 'integer'"),
        (group_line(success_criteria="{minimum_successful_nodes: -1}"), "-1 is less than the minimum of 0"),
        (group_line(selectors="[{node_labels: ['a:b:c']}]"), "expected a label as in 'tier: web', with one colon"),
        (group_line(selectors="[{node_labels: ['a: ']}]"), "expected a label as in 'tier: web', with one colon"),
        (group_line(selectors="[{node_labels: [{a: b, c: d}]}]"), "expected a label as in 'tier: web'"),
        (group_line(bake_time="soon"), "as in 15m, of at most 99999d, found 'soon'"),
        (group_line(healthy_checks="true"), "data.groups[0].healthy_checks: expected a bake_time, in which"),
        (group_line(healthy_checks="true", bake_time="0s"), "healthy_checks: expected a bake_time"),
        (group_line(healthy_checks="true", bake_time="0.0"), "healthy_checks: expected a bake_time"),
        (group_line(healthy_checks="perhaps"), "healthy_checks: 'perhaps' is not of type 'boolean'"),
        (group_line(max_parallel="0"), "expected a number of hosts, or a share as in '25%', found 0"),
        (group_line(windows="[{from: '1:00', to: '04:00'}]"), "expected a time of day as in 22:30, found '1:00'"),
        (group_line(windows="[{from: '04:00', to: '04:00'}]"), "the window ends when it starts"),
        (group_line(windows="[{from: '04:00', to: '05:00', zone: Mars/Sea}]"), "there is no time zone Mars/Sea"),
        (group_line(windows="[{from: '04:00', to: '05:00', zone: ../x}]"), "there is no time zone ../x"),
    ],
)  # fmt: skip
def test_an_invalid_group_is_refused_with_its_place(group, expected):
    found = errors(HEAD + group)
    assert any(re.match(r"0\.yaml:\d+:\d+: ", line) and expected in line for line in found), found


def test_all_errors_of_all_files_are_reported_at_once():
    found = errors(
        HEAD + group_line(critical="1") + group_line("db", critical="2"),
        "a: [",
        HEAD + group_line(depends_on="[x]"),
    )
    assert [line.partition(":")[0] for line in found] == ["0.yaml", "0.yaml", "1.yaml", "2.yaml"]


def test_a_circle_is_reported_without_groups_that_only_depend_on_it():
    lines = (
        group_line("a", depends_on="[c]") + group_line("b", depends_on="[a]") + group_line("c", depends_on="[b]")
    )
    (found,) = errors(HEAD + lines + group_line("d", depends_on="[c]"))
    assert re.search(r"circle: (a > c > b > a|b > a > c > b|c > b > a > c)$", found), found
    (alone,) = errors(HEAD + group_line("a", depends_on="[a]"))
    assert alone.endswith("data.groups[0].depends_on: groups depend on each other in a circle: a > a")


class TestChoice:
    def test_without_documents_the_fleet_has_no_strategy(self):
        assert strategy_in_force(read()) is None
        assert strategy_in_force(read("just: data\n")) is None

    def test_the_default_name_needs_no_configuration(self):
        assert strategy_in_force(read(strategy_of())).name == "deployment-strategy"
        assert strategy_in_force(read(strategy_of("other"))) is None

    @pytest.mark.parametrize(
        "form", ["deployment_strategy: other", "physical_provisioner: {deployment_strategy: other}"]
    )
    def test_a_configuration_names_one(self, form):
        found = read(strategy_of() + "---\n" + strategy_of("other"), CONFIGURATION % form)
        assert found.problems == ()
        assert strategy_in_force(found).name == "other"

    def test_a_configuration_without_a_strategy_means_the_default_or_all_hosts(self):
        assert strategy_in_force(read(CONFIGURATION % "", strategy_of())).name == "deployment-strategy"
        assert strategy_in_force(read(CONFIGURATION % "physical_provisioner: {}")) == ALL_HOSTS

    def test_strategies_without_one_in_force_are_errors(self):
        for texts in ([strategy_of("canary")], [strategy_of("canary"), CONFIGURATION % ""]):
            found = read(*texts)
            assert found.problems == ()
            (error,) = found.errors
            assert str(error) == (
                "0.yaml:2:18: metadata.name: strategy canary is not in force; name it deployment-strategy,"
                " or choose it with data: {deployment_strategy: canary} in a DeploymentConfiguration"
            )

    def test_a_strategy_beside_the_one_in_force_is_named_and_forbids_nothing(self):
        found = read(strategy_of(), strategy_of("canary"))
        assert found.errors == ()
        (spare,) = found.spare
        assert str(spare) == (
            "1.yaml:2:18: metadata.name: strategy canary is not in force, deployment-strategy is; remove it,"
            " or choose it with data: {deployment_strategy: canary} in a DeploymentConfiguration"
        )

    @pytest.mark.parametrize(
        ("data", "place"),
        [
            ("deployment_stratgy: canary", "data.deployment_stratgy"),
            ("deployment-strategy: canary", "data.deployment-strategy"),
            ("deploymentStrategy: canary", "data.deploymentStrategy"),
            (
                "physical_provisionner: {deployment_strategy: canary}",
                "data.physical_provisionner.deployment_strategy",
            ),
            (
                "physical_provisioner: {deployment_strategys: canary}",
                "data.physical_provisioner.deployment_strategys",
            ),
        ],
    )
    def test_a_misspelt_choice_is_an_error(self, data, place):
        (found,) = errors(strategy_of(), CONFIGURATION % data)
        assert re.match(
            rf"1\.yaml:2:\d+: {place}: \S+ chooses no strategy here; expected deployment_strategy", found
        )

    def test_other_keys_of_a_configuration_are_ignored(self):
        assert (
            errors(strategy_of(), CONFIGURATION % "deploy_site: {timeout: 5}, strategy: x, kubernetes: {}") == []
        )

    def test_two_places_that_choose_differently_are_an_error(self):
        both = "deployment_strategy: %s, physical_provisioner: {deployment_strategy: deployment-strategy}"
        assert errors(strategy_of(), CONFIGURATION % both % "deployment-strategy") == []
        (found,) = errors(strategy_of(), strategy_of("a"), CONFIGURATION % both % "a")
        assert found.endswith("expected one strategy, found a and deployment-strategy")

    @pytest.mark.parametrize(
        "schema",
        [
            "shipyard/DeploymentStrategy/v1.0",
            "shipyard/DeploymentStrategy/v2",
            "shipyard/DeploymentStrategy",
            "Shipyard/DeploymentStrategy/v1",
            "shipyrd/DeploymentStrategy/v1",
            "DeploymentStrategy/v1",
            "shipyard/DeploymentStratgey/v1",
            "shipyard/deployment-strategy/v1",
            "zkdeploymnt/Quarantine/v1",
            "zkdeplyoment/Quarantine/v1",
        ],
    )
    def test_a_document_of_another_version_or_a_misspelt_schema_is_an_error(self, schema):
        text = strategy_of().replace("shipyard/DeploymentStrategy/v1", schema)
        assert mentions_documents(text.encode())
        (found,) = errors(text)
        expected = ", ".join(sorted(known_kinds().by_schema))
        assert found == f"0.yaml:1:9: schema: expected one of: {expected}, found '{schema}'"

    def test_a_schema_by_another_key_is_an_error(self):
        (found,) = errors(strategy_of().replace("schema", "Schema"))
        assert found == "0.yaml:1:9: expected the key schema, found 'Schema'"

    def test_documents_in_subdirectories_are_warnings_that_name_them(self):
        head = "schema: zkdeployment/Quarantine/v1\nmetadata: {name: web, version: '1.0'}\n"
        files = [
            SourceFile(f"deep/{name}.yaml", f"{head}data: {{{data}}}\n".encode(), is_nested=True)
            for name, data in (("a", "reason: bad, by: ann, time: '2026-11-22'"), ("b", "bi: ann"))
        ]
        assert document_files(files) == []
        found = [str(problem) for problem in nested_problems(files)]
        place = "documents are read from the top directory of the repository only; move it there"
        assert found[0].startswith("deep/a.yaml:1:")
        assert f"the Quarantine web/1.0 is not in force: {place}" in found[0]
        assert f"a document with errors is not in force: {place}; " in found[1]
        assert "warning" in found[1]

    def test_other_documents_are_ignored(self):
        assert errors("schema: promenade/Docker/v1\ndata: {}\n", "schema: 1\n", "- schema\n") == []

    def test_a_name_that_does_not_exist_is_an_error(self):
        (found,) = errors(strategy_of(), CONFIGURATION % "deployment_strategy: nope")
        assert found.startswith(
            "1.yaml:2:29: data.deployment_strategy: there is no strategy nope; expected one of:"
        )

    def test_there_is_one_configuration_and_each_strategy_has_its_name(self):
        again = errors(CONFIGURATION % "", CONFIGURATION % "")
        assert again == ["1.yaml:1:1: there is another configuration in 0.yaml, line 1; keep one of them"]
        assert "there is another strategy deployment-strategy" in errors(strategy_of(), strategy_of())[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: ]", "0.yaml:1:4: not valid YAML"),
        ("a: 1\na: 2\n", "0.yaml:2:1: a is given twice"),
        ("? [a]\n: b\n", "0.yaml:1:3: expected a plain key"),
        ("a: \x00", "0.yaml:1:1: not valid YAML"),
        ("a: !!python/object:os.system x\n", "0.yaml:1:4: expected a value without the tag !!python/object"),
        ("a: !!int ''\n", "0.yaml:1:4: expected a value that fits its tag !!int, found ''"),
        ("a: !!bool x\n", "0.yaml:1:4: expected a value that fits its tag !!bool, found 'x'"),
        ("a: !!float .nan\n", "0.yaml:1:4: expected a value that fits its tag !!float, found '.nan'"),
        ("a: !!timestamp x\n", "0.yaml:1:4: expected a value without the tag !!timestamp"),
        ("a: !!binary x\n", "0.yaml:1:4: expected a value without the tag !!binary"),
        ("[" * 40 + "]" * 40, "nested at most 32 deep"),
        ("[" * 100_000, "nest"),  # a newer parser limits the depth itself
        ("&a [*a]\n", "nested at most 32 deep"),
    ],
)
def test_text_that_is_not_yaml_is_an_error(text, expected):
    assert any(expected in line for line in errors(text)), errors(text)


def test_text_that_is_not_utf8_is_an_error():
    found = read_documents([SourceFile("x.yml", b"a: b\nc: \xe4\n")])
    assert [str(problem) for problem in found.problems] == ["x.yml:2:1: expected UTF-8, found the byte 0xe4"]


def test_other_files_are_ignored():
    assert read_documents([SourceFile("x.zk", b"a: [")]).problems == ()


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    found = read_documents([SourceFile("x.yaml", text.encode("utf-8", "surrogatepass"))])
    assert isinstance(found.problems, tuple)


@given(st.integers(0, 40), st.integers(0, 40), st.sampled_from(list("[]{}:-,'\" \nxé")))
def test_a_damaged_example_is_read_or_refused_with_its_place(line, column, character):
    lines = EXAMPLE_FILE.read_text().splitlines(keepends=True)
    lines[line] = lines[line][:column] + character + lines[line][column + 1 :]
    found = read_documents([SourceFile("x.yaml", "".join(lines).encode())])
    assert all(problem.file == "x.yaml" and problem.line for problem in found.problems)


@pytest.mark.parametrize(
    ("values", "asked"),
    [
        ({"selectors": "[{node_tags: [canary]}]"}, True),
        ({"selectors": "[{node_tags: [canary]}]", "require_hosts": "1"}, False),
        ({"selectors": "[{node_tags: [canary]}]", "critical": "false"}, False),
        ({"selectors": "[{node_tags: [canary]}, {node_tags: []}]"}, False),
        ({"selectors": "[]"}, False),
    ],
)
def test_critical_groups_that_may_be_empty_are_asked_for_required_hosts(values, asked):
    found = [str(problem) for problem in read(HEAD + group_line(**values)).advice]
    words = "critical group web may be empty; add require_hosts: N, the hosts that it waits for"
    assert [line.partition("warning: ")[2] for line in found] == ([words] if asked else [])


class TestFacts:
    def test_hosts_are_read_from_yaml_and_json(self):
        expected = {"a": Facts("r1", frozenset({"x"}), {"ssd": "true", "n": "3"}), "b": Facts()}
        assert read_facts("h", b"a: {rack: r1, tags: [x], labels: {ssd: true, n: 3}}\nb:\n") == expected
        assert read_facts("h", b'{"b": {"rack": null}}') == {"b": Facts()}
        assert read_facts("h", b"") == {}

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (b"a: {racks: r1}\n", r"^h:1:12: unknown key 'racks'; did you mean rack\?"),
            (b"a:\n  tags: [[x]]\n", r"^h:2:10: expected text, found \['x'\]"),
            (b"a: {labels: {x: !!bool y}}\n", r"^h:1:17: expected a value that fits its tag !!bool"),
            (b"- a\n", r"^h:1:1: expected a mapping of host ids"),
            (b"a: [\n", r"^h:2:1: not valid YAML"),
            (b"\xff", "expected UTF-8"),
        ],
    )
    def test_an_invalid_host_is_refused_with_its_place(self, text, expected):
        with pytest.raises(ConfigurationError, match=expected):
            read_facts("h", text)
