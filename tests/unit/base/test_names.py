import pytest

from zkdeployment.base.names import NameKind, is_name, name_problem


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (NameKind.NODE, "app.example.com:12345"),
        (NameKind.NODE, "0015C5F4D4F0"),
        (NameKind.SERVICE, "myfoo"),
        (NameKind.HOST_ID, "00:15:C5:F4:D4:F0"),
        (NameKind.ROLE, "database server"),
        (NameKind.PACKAGE, "foo-1.4"),
        (NameKind.VERSION, "1.4~rc1"),
        (NameKind.SUBTYPE, "bar"),
        (NameKind.PROPERTY, "threads"),
        (NameKind.USER, "alice@example.com"),
        (NameKind.PLAIN, "front~2"),
        (NameKind.TEXT, "control plane"),
        (NameKind.POOL, "virtual-centos8s-x86_64"),
        (NameKind.TARGET, "00:15:C5:F4:D4:F0"),
    ],
)
def test_ordinary_names_are_allowed(kind, name):
    assert is_name(kind, name)
    assert name_problem(kind, name) is None


@pytest.mark.parametrize("kind", list(NameKind))
@pytest.mark.parametrize(
    "name", ["", "a\nb", "a\0b", "a\x1b", "a\ud800", "a\n", "a\x9b", "a\u202e", "\u2066a", "a\u200b", "a\ue000"]
)
def test_hostile_names_are_refused_everywhere(kind, name):
    problem = name_problem(kind, name)
    assert problem is not None
    assert kind.value in problem


@pytest.mark.parametrize(
    "kind", [kind for kind in NameKind if kind not in {NameKind.PROPERTY, NameKind.NODE, NameKind.TEXT}]
)
@pytest.mark.parametrize("name", [".", "..", "a/b", "-rf", "a,b", "a%b", "$(x)", "a;b", "x" * 5000, "naïve", "a*"])
def test_names_with_a_meaning_to_shells_paths_or_options_are_refused(kind, name):
    assert not is_name(kind, name)


def test_service_names_contain_no_colon_because_file_names_spell_slashes_as_colons():
    assert not is_name(NameKind.SERVICE, "a:b")


@pytest.mark.parametrize(
    "name", ["x,y", "~a", "café", "-rf", "a%b", "$(x)", "a:b", "a;b", "#a", "a=b", "日本", "e\u0301", "..."]
)
def test_a_node_may_have_any_name_that_zookeeper_takes_and_people_can_read(name):
    assert is_name(NameKind.NODE, name)


@pytest.mark.parametrize(
    "name", [".", "..", "=a", "a/b", "a b", "a\u00a0b", "\u3000", "🙂", "a\ufffd", "x" * 256, "a\u0378"]
)
def test_names_that_zookeeper_refuses_or_people_cannot_read_are_not_valid_for_nodes(name):
    assert not is_name(NameKind.NODE, name)


@pytest.mark.parametrize("kind", list(NameKind))
def test_the_message_describes_the_allowed_names_without_a_regular_expression(kind):
    problem = name_problem(kind, "a\nb")
    assert problem is not None
    assert "[" not in problem
    assert "(?" not in problem


def test_the_message_shortens_a_long_name():
    problem = name_problem(NameKind.NODE, "x" * 5000)
    assert problem is not None
    assert len(problem) < 250
