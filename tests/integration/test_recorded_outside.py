"""The verbs, the operations of the API, the pages and the configuration are those of recordings."""

from __future__ import annotations

import json
import os
import re
import shlex
from copy import copy
from typing import TYPE_CHECKING, Any

import click
import pytest
from fastapi.routing import APIRoute

from support.commands import invoke
from support.recordings import values
from zkdeployment.programs.verbs import program
from zkdeployment.service.application import api_description, page_routers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.all_features

#: What is recorded of a parameter, if it is not the usual, and of the type of its values.
_OF_PARAMETERS = ("required", "nargs", "multiple", "default", "envvar", "flag_value", "count", "hidden")
_OF_TYPES = ("name", "choices", "min", "max", "min_open", "max_open", "exists", "file_okay", "dir_okay")

#: What a schema consists of, besides the parts with lines of their own; titles are names of classes.
_PARTS = {"title", "properties", "required", "items", "additionalProperties", "anyOf", "allOf", "oneOf", "$defs"}


def verbs() -> Iterator[str]:
    """Yield one line for each fact of each verb, also of hidden ones."""
    for verb, context in _all_verbs():
        words = context.command_path
        yield f"{words}: usage = {' '.join(verb.collect_usage_pieces(context))}"
        if verb.hidden:
            yield f"{words}: hidden"
        lines = (line.strip("\b ") for line in (verb.help or "").splitlines())
        yield from (f"{words}: text: {line}" for line in lines if line)
        for number, parameter in enumerate(verb.get_params(context), 1):
            option = isinstance(parameter, click.Option)
            place = f"{words} {'/'.join(parameter.opts) if option else f'argument {number}'}"
            yield from _parameter(parameter, place, context)


def demanding() -> list[str]:
    """Return the words of all verbs that do nothing without an argument or an option."""
    return [
        context.command_path.removeprefix("zkdeployment ")
        for verb, context in _all_verbs()
        if not isinstance(verb, click.Group) and any(parameter.required for parameter in verb.params)
    ]


def _all_verbs() -> Iterator[tuple[click.Command, click.Context]]:
    """Yield all verbs and groups of verbs, each with its context."""
    found: list[tuple[click.Command, click.Context]] = [
        (program, program.make_context("zkdeployment", [], resilient_parsing=True))
    ]
    while found:
        verb, context = found.pop()
        yield verb, context
        if isinstance(verb, click.Group):
            for name in sorted(verb.list_commands(context), reverse=True):
                below = verb.get_command(context, name)
                assert below is not None
                # click keeps the option of a verb that another test called without its group.
                below = copy(below)
                below._help_option = None
                found.append((below, click.Context(below, context, name)))


def _parameter(parameter: click.Parameter, place: str, context: click.Context) -> Iterator[str]:
    found = parameter.to_info_dict()
    if shown := parameter.get_help_record(context):
        yield f"{place}: shown = {shown[0]}"
        yield f"{place}: help = {' '.join(shown[1].split())}"
    for key in _OF_PARAMETERS:
        value = "computed" if callable(found.get(key)) else found.get(key)
        if value is not None and value is not False and (key, value) != ("nargs", 1):
            yield f"{place}: {key} = {_json(value)}"
    for key in _OF_TYPES:
        if key in found["type"]:
            yield f"{place}: type.{key} = {_json(found['type'][key])}"


def pages() -> Iterator[str]:
    """Yield the method and the path of each page and each form."""
    for router in page_routers():
        for route in router.routes:
            assert isinstance(route, APIRoute)
            yield from (f"{method} {route.path}" for method in sorted(route.methods or ()))


def operations() -> Iterator[str]:
    """Yield one line for each fact of each operation of the API; what operations share is not repeated."""
    description = api_description()
    schemas = description["components"]["schemas"]
    yield from dict.fromkeys(
        line
        for path, methods in sorted(description["paths"].items())
        for method, operation in sorted(methods.items())
        for line in _operation(operation, f"{method.upper()} {path}", schemas)
    )


def _operation(operation: Mapping[str, Any], place: str, schemas: Mapping[str, Any]) -> Iterator[str]:
    for key in ("summary", "description", "tags", "security"):
        yield f"{place}: {key} = {_json(operation.get(key))}"
    for parameter in operation.get("parameters", ()):
        where = f"{place} {parameter['in']} {parameter['name']}"
        yield f"{where}: required = {_json(parameter['required'])}"
        yield f"{where}: description = {_json(parameter.get('description'))}"
        yield from _schema(parameter["schema"], where, schemas)
    body = operation.get("requestBody", {})
    yield f"{place} body: required = {_json(body.get('required', False))}"
    for kind, content in body.get("content", {}).items():
        yield from _schema(content["schema"], f"{place} body {kind}", schemas)
    for status, answer in sorted(operation["responses"].items()):
        yield f"{place} {status}: {_json(answer['description'])}"
        for kind, content in answer.get("content", {}).items():
            where = place if status < "400" else "each operation"
            yield from _schema(content.get("schema", {}), f"{where} {status} {kind} body", schemas)


def _schema(
    schema: Mapping[str, Any], place: str, schemas: Mapping[str, Any], above: tuple[str, ...] = ()
) -> Iterator[str]:
    """Yield the lines of a schema with all schemas that it names, whose own names are not recorded."""
    if reference := schema.get("$ref"):
        if reference in above:
            yield f"{place}: as above"
            return
        named = schemas[reference.rpartition("/")[2]]
        schema, above = {**named, **schema}, (*above, reference)
        del schema["$ref"]
    said = {key: value for key, value in schema.items() if key not in _PARTS}
    yield f"{place}: {_json(said)}"
    for name, below in sorted(schema.get("properties", {}).items()):
        mark = "" if name in schema.get("required", ()) else "?"
        yield from _schema(below, f"{place}.{name}{mark}", schemas, above)
    if "items" in schema:
        yield from _schema(schema["items"], f"{place}[]", schemas, above)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _schema(schema["additionalProperties"], f"{place}.*", schemas, above)
    for choice in (*schema.get("anyOf", ()), *schema.get("allOf", ()), *schema.get("oneOf", ())):
        yield from _schema(choice, f"{place}|", schemas, above)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


#: The keys that have no default, in a file with all sections.
NEEDED = {
    "zkdeployment": {"host-id": "h1", "host-name": "h1.example.com", "run-directory": "/run/agent"},
    "sync": {"url": "/srv/tree.git", "tree-directory": "/srv/tree"},
    "coordinate": {},
    "metrics main": {"url": "https://prometheus.example.com:9090"},
    "promote": {"url": "/srv/tree.git", "directory": "/srv/promoter", "token-directory": "/etc/fleets"},
    "checks": {},
    "server": {},
    "nagios": {
        "server": "http://deploy.example.com",
        "user": "nagios1",
        "key-file": "/etc/key",
        "objects": "/etc/nagios/objects",
        "verify": "/bin/true",
        "reload": "/bin/true",
    },
    "pools": {},
    "discovery": {"labels": "zone=zone"},
    "inventory": {},
}


def check(file, sections):
    """Return what ``config check`` answers to a file with these sections."""
    lines = [
        line for name, keys in sections.items() for line in (f"[{name}]", *(f"{k} = {v}" for k, v in keys.items()))
    ]
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return invoke("config", "check", file, "-o", "json")


def test_verbs_and_their_options_are_the_recorded_ones(recorded):
    recorded("verbs", verbs())


def test_operations_of_the_api_are_the_recorded_ones(recorded):
    recorded("api", operations())


def test_pages_and_forms_are_the_recorded_ones(recorded):
    recorded("pages", sorted(pages()))


def test_keys_of_the_configuration_have_the_recorded_defaults_and_refuse_other_forms(recorded, tmp_path):
    done = check(tmp_path / "all.cfg", NEEDED)
    assert done.returncode == 0, done.stderr
    keys = json.loads(done.stdout)
    facts = [*values(keys)]
    for section in NEEDED:
        done = check(tmp_path / "wrong.cfg", {**NEEDED, section: dict.fromkeys(keys[section], "-7 ?")})
        lines = done.stderr.replace(str(tmp_path / "wrong.cfg"), "FILE").splitlines()
        facts += [
            f"{section}: exit code = {done.returncode}",
            *sorted(f"{section}: {line.strip()}" for line in lines),
        ]
    recorded("configuration", facts)


#: Files for the command lines, by name.
FILES = {
    "good.cfg": "[zkdeployment]\nhost-id = h1\nhost-name = h1\nrun-directory = /run/agent\n",
    "bad.cfg": "[zkdeployment]\nhots-id = h1\n",
    "away.cfg": (
        "[zkdeployment]\nhost-id = h1\nhost-name = h1\nrun-directory = FILES/run\nroot = FILES/root\n"
        "zookeeper = 127.0.0.1:1\n"
    ),
    "good/tree.zk": "/shop : shop\n  version = '1'\n  /deploy\n    /h1\n",
    "bad/tree.zk": "/shop : shop\n  version = \n",
    "warned/tree.zk": "/shop : shop\n  /deploy\n    /h1\n      n = 0\n",
    "strategy.yaml": (
        "schema: shipyard/DeploymentStrategy/v1\nmetadata: {name: deployment-strategy}\ndata:\n  groups:\n"
        "    - name: all\n      critical: true\n      depends_on: []\n      selectors: []\n"
        "      success_criteria: {percent_successful_nodes: 100}\n"
    ),
    "hosts.yaml": "h1: {}\nh2: {}\n",
    "pools.yaml": "schema: zkdeployment/Pools/v1\nmetadata: {name: pools}\ndata: {nodepools: 3}\n",
}

#: Command lines that need no fleet; FILES is the directory of the files.
COMMANDS = """
--no-such-option
no-such-verb
version
config check FILES/good.cfg
config check FILES/bad.cfg
config check FILES/none.cfg
lint FILES/good
lint FILES/bad
lint FILES/none
lint FILES/warned
lint --strict FILES/warned
lint FILES/pools.yaml
lint FILES/strategy.yaml
rollout simulate FILES/strategy.yaml --hosts FILES/hosts.yaml
rollout simulate FILES/strategy.yaml --hosts FILES/hosts.yaml --deploy-fails h1
rollout simulate FILES/pools.yaml --hosts FILES/hosts.yaml
rollout simulate FILES/none.yaml --hosts FILES/hosts.yaml
agent FILES/bad.cfg
sync FILES/bad.cfg
sync FILES/good.cfg
coordinate FILES/bad.cfg
serve FILES/bad.cfg
pools FILES/bad.cfg
nagios FILES/bad.cfg
nagios FILES/good.cfg
monitor FILES/none.cfg
monitor FILES/away.cfg
monitor --cluster -z 127.0.0.1:1
status --config FILES/away.cfg
status -z 127.0.0.1:1
status -z nonsense:nonsense
status -o xml
why h1 -z 127.0.0.1:1
stop -z 127.0.0.1:1 --reason why
provide -z 127.0.0.1:1 /a/providers host:1
completion bash
completion cmd
sandbox status -d FILES/none
"""


def outcome(line, files):
    """Return the exit code of a command line and the first lines of its output."""
    done = invoke(*(word.replace("FILES", str(files)) for word in shlex.split(line)))
    texts = {"error": done.stderr, "output": done.stdout if done.returncode else ""}
    for name, text in texts.items():
        for printed in [said for said in text.splitlines() if said and not said.startswith(("Usage:", "Try "))][
            :2
        ]:
            fact = re.sub("(packages are changed with) .*", r"\1 PROGRAMS", printed)
            yield f"{line}: {name}: {fact.replace(str(files), 'FILES')}"
    yield f"{line}: exit code = {done.returncode}"


def test_exit_codes_and_first_lines_of_errors_are_the_recorded_ones(recorded, tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("ZKDEPLOYMENT_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text.replace("FILES", str(tmp_path)), encoding="utf-8")
    lines = COMMANDS.strip().splitlines()
    recorded("exit-codes", (fact for line in [*lines, *demanding()] for fact in outcome(line, tmp_path)))
