import pytest

from zkdeployment.model.names import Kind, is_name, name_problem


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Kind.NODE, "app.example.com:12345"),
        (Kind.NODE, "0015C5F4D4F0"),
        (Kind.SERVICE, "myfoo"),
        (Kind.HOST_ID, "00:15:C5:F4:D4:F0"),
        (Kind.ROLE, "database server"),
        (Kind.PACKAGE, "foo-1.4"),
        (Kind.VERSION, "1.4~rc1"),
        (Kind.SUBTYPE, "bar"),
        (Kind.PROPERTY, "threads"),
    ],
)
def test_ordinary_names_are_allowed(kind, name):
    assert is_name(kind, name)
    assert name_problem(kind, name) is None


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("name", ["", "a\nb", "a\0b", "a\x1b", "a\ud800", "a\n"])
def test_hostile_names_are_refused_everywhere(kind, name):
    problem = name_problem(kind, name)
    assert problem is not None
    assert kind.value in problem


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.PROPERTY])
@pytest.mark.parametrize("name", [".", "..", "a/b", "-rf", "a,b", "a%b", "$(x)", "a;b", "x" * 5000, "naïve", "a*"])
def test_names_that_mean_something_to_programs_are_refused(kind, name):
    assert not is_name(kind, name)


def test_names_of_service_nodes_have_no_colon_since_slashes_become_colons_in_file_names():
    assert not is_name(Kind.SERVICE, "a:b")


def test_message_quotes_a_long_name_shortened():
    problem = name_problem(Kind.NODE, "x" * 5000)
    assert problem is not None
    assert len(problem) < 250
