"""The service has the JSON schemas of documents, without a login."""

from __future__ import annotations

import json

import httpx

from support.commands import invoke
from zkdeployment.editors.rules.schemas import document_schemas


def test_schemas_need_no_login_and_are_those_of_the_verb(service):
    listed = httpx.get(f"{service.url}/schemas", timeout=None).json()
    assert list(listed) == invoke("schemas").stdout.split() == list(document_schemas())
    for name, path in listed.items():
        answer = httpx.get(f"{service.url}{path}", timeout=None)
        assert answer.headers["Content-Type"] == "application/schema+json"
        assert answer.json() == json.loads(invoke("schemas", name).stdout)


def test_unknown_schemas_are_named(service):
    answer = httpx.get(f"{service.url}/schemas/nothing.json", timeout=None)
    assert answer.status_code == 404
    done = invoke("schemas", "nothing")
    assert done.returncode == 2
    assert "there is no kind nothing; expected one of: strategy" in done.stderr
