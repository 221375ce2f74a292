"""The description of the API: complete, valid, and shown without any other site."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from support.service import RunningService
from zkdeployment.service.users.user import Role
from zkdeployment.service.views.api_description import api_page

#: Operations without a login.
PUBLIC = {("get", "/healthz")}


def test_every_operation_describes_its_login_its_answers_and_its_errors(service: RunningService):
    description = service.client.get("/openapi.json").json()
    assert description["components"]["securitySchemes"]["key"] == {
        "type": "http",
        "scheme": "basic",
        "description": "The name of a user, and its key as the password.",
    }
    operations = {
        (method, path): operation
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    }
    assert ("post", "/api/v1/stop") in operations
    for (method, path), operation in operations.items():
        assert operation["summary"], path
        assert operation["description"], path
        assert (operation.get("security") == [{"key": []}]) is ((method, path) not in PUBLIC), path
        answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
        assert answers, path
        for answer in answers:
            assert answer["content"], path
            assert all(content["schema"] for content in answer["content"].values()), path
        for status, error in operation["responses"].items():
            if status.startswith(("4", "5")):
                reference = error["content"]["application/json"]["schema"]
                assert reference == {"$ref": "#/components/schemas/ErrorDetail"}, (path, status)


def test_no_operation_answers_without_a_login(service: RunningService):
    for path, methods in service.client.get("/openapi.json").json()["paths"].items():
        for method in methods:
            answer = service.client.request(method, path, json={} if method == "post" else None)
            assert (answer.status_code == 401) is ((method, path) not in PUBLIC), (method, path, answer.text)


@pytest.mark.nightly
def test_the_description_is_shown_without_any_other_site(service: RunningService, browser: Browser):
    page = browser.new_page()
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(f"{service.url}/docs")
    operation = page.locator("[id='post-/api/v1/stop']")
    expect(operation.get_by_text("curl", exact=False)).to_be_hidden()
    operation.locator("summary").click()
    expect(operation).to_contain_text("Stop the whole fleet")
    operation.get_by_role("link", name="StopFleetRequest").click()
    expect(page.locator("#value-StopFleetRequest")).to_contain_text("The reason, which is shown to all operators.")
    page.close()
    assert {url.split("/")[2] for url in asked if not url.startswith("data:")} == {service.url.split("/")[2]}
    assert complaints == []


def test_the_commands_of_the_page_work(service: RunningService, tmp_path: Path):
    name, key = service.add_user(Role.OPERATOR)
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login {name} password {key}\n")
    described = service.client.get("/openapi.json").json()
    operations = api_page(described, service.url).subjects
    commands = {each.anchor: each.curl for operations in operations.values() for each in operations}

    def run(anchor: str) -> dict[str, object]:
        argv = ["sh", "-c", commands[anchor]]
        variables = {**os.environ, "ZKDEPLOYMENT_NETRC": str(netrc)}
        answer = json.loads(subprocess.run(argv, env=variables, stdout=subprocess.PIPE, check=True).stdout)
        assert isinstance(answer, dict)
        return answer

    assert "hosts" in run("get-/api/v1/fleet")
    for anchor, expected in [("post-/api/v1/hold", "nothing to hold"), ("get-/api/v1/hosts/{host}", "HOST")]:
        assert expected in str(run(anchor)["detail"])
