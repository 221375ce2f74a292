"""The page that describes the API: types in words, required fields, and commands with examples."""

import shlex

import pytest

from zkdeployment.service.views.api_description import Field, api_page

REASON = {"type": "string", "maxLength": 500, "default": "", "description": "The reason."}
SCHEMAS = {
    "Stop": {
        "description": "A stop.",
        "type": "object",
        "required": ["host", "kinds"],
        "properties": {
            "reason": REASON,
            "host": {"type": "string"},
            "kinds": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1},
            "least": {"type": "integer", "minimum": 2},
            "inner": {
                "anyOf": [{"type": "array", "items": {"$ref": "#/components/schemas/Act"}}, {"type": "null"}]
            },
        },
    },
    "Act": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Act"}}},
}


def page_of(method="post", path="/api/v1/stop", *, body="Stop", parameters=(), subject="acts"):
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{body}"}}}
    answer = {"application/json": {"schema": {"$ref": "#/components/schemas/Act"}}}
    operation = {
        "tags": [subject],
        "summary": "Stop",
        "description": "Stop one host.",
        "parameters": list(parameters),
        "responses": {"200": {"content": answer}, "404": {}},
        **({"requestBody": {"content": content}} if body else {}),
    }
    description = {
        "info": {"description": "About.", "version": "1"},
        "paths": {path: {method: operation}},
        "components": {"schemas": SCHEMAS},
    }
    return api_page(description, "https://fleet.example.com")


def test_fields_have_their_types_in_words():
    (_, stop) = page_of().values
    assert list(stop.fields) == [
        Field("reason", 'string, default ""', is_required=False, about="The reason."),
        Field("host", "string", is_required=True, about=""),
        Field("kinds", 'list of "a" | "b"', is_required=True, about=""),
        Field("least", "integer, at least 2", is_required=False, about=""),
        Field("inner", "list of Act or null", is_required=False, about="", value="Act"),
    ]


def test_the_command_of_an_act_has_its_required_fields_and_the_reason():
    (operation,) = page_of().subjects["acts"]
    assert shlex.split(operation.curl) == [
        *("curl", "--netrc-file", "$ZKDEPLOYMENT_NETRC", "--request", "POST"),
        *("--header", "Content-Type: application/json"),
        *("--data", '{"reason": "TEXT", "host": "TEXT", "kinds": ["a"]}'),
        "https://fleet.example.com/api/v1/stop",
    ]
    assert operation.answer == Field("200 application/json", "Act", is_required=True, about="", value="Act")


@pytest.mark.parametrize(("required", "query"), [(True, "?revision=REVISION"), (False, "")])
def test_the_command_of_a_question_names_what_is_to_be_replaced(required, query):
    parameters = [
        {"name": "host", "in": "path", "required": True, "schema": {"type": "string"}},
        {"name": "revision", "in": "query", "required": required, "schema": {"type": "string"}},
        {"name": "if-none-match", "in": "header", "required": False, "schema": {"type": "string"}},
    ]
    (operation,) = page_of("get", "/api/v1/hosts/{host}", body=None, parameters=parameters).subjects["acts"]
    assert shlex.split(operation.curl)[3:] == [f"https://fleet.example.com/api/v1/hosts/HOST{query}"]
    assert [field.name for field in operation.parameters] == ["host", "revision"]
    assert operation.body is None
