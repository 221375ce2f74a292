"""The description of the API: complete, valid, and shown without any other site."""

from playwright.sync_api import Browser, expect

from support.service import RunningService

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


def test_the_description_is_shown_without_any_other_site(service: RunningService, browser: Browser):
    page = browser.new_page()
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(f"{service.url}/docs")
    expect(page.get_by_text("/api/v1/stop", exact=True)).to_be_visible()  # it draws all operations
    page.get_by_text("/api/v1/stop", exact=True).click()
    expect(page.get_by_text("Stop the whole fleet", exact=False).first).to_be_visible()
    page.close()
    assert {url.split("/")[2] for url in asked if not url.startswith("data:")} == {service.url.split("/")[2]}
    assert complaints == []
