import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.agent.checkouts.places import SYSTEMS
from zkdeployment.base.errors import TreeError
from zkdeployment.tree.checkout import SCHEMES, Checkout, is_checkout, parse_checkout


@pytest.mark.parametrize(
    ("version", "url", "revision"),
    [
        ("git://host.example.com/team/repo.git#1.4", "git://host.example.com/team/repo.git", "1.4"),
        ("git:host/repo#1.4", "git://host/repo", "1.4"),
        ("git://host:9418/repo#1", "git://host:9418/repo", "1"),
        ("git://git@github.com:team/repo.git#v1", "git@github.com:team/repo.git", "v1"),
        ("git:git@github.com:team/repo.git#v1", "git@github.com:team/repo.git", "v1"),
        ("git://https://host/repo.git#main", "https://host/repo.git", "main"),
        ("git:https://me@host/repo.git#main", "https://me@host/repo.git", "main"),
        ("git:ssh://git@host:22/repo#release/1.4", "ssh://git@host:22/repo", "release/1.4"),
        ("git:file:///srv/repo.git#0a1b2c", "file:///srv/repo.git", "0a1b2c"),
        ("git:///srv/repo.git#1", "/srv/repo.git", "1"),
        ("git:/srv/repo#odd.git#1", "/srv/repo#odd.git", "1"),
        ("svn://host/repo/trunk#12", "svn://host/repo/trunk", "12"),
        ("svn://host/repo/tags/1.4", "svn://host/repo/tags/1.4", "HEAD"),
        ("svn+ssh://me@host/repo/trunk#r7", "svn+ssh://me@host/repo/trunk", "7"),
        ("svn+ssh:host/repo#HEAD", "svn+ssh://host/repo", "HEAD"),
        ("svn:file:///srv/repo/trunk#3", "file:///srv/repo/trunk", "3"),
        ("svn:///srv/repo/trunk", "file:///srv/repo/trunk", "HEAD"),
        ("svn:https://host/repo/trunk", "https://host/repo/trunk", "HEAD"),
    ],
)
def test_a_version_with_a_scheme_names_a_repository_and_a_revision(version, url, revision):
    assert is_checkout(version)
    assert parse_checkout(version) == Checkout(version, version.partition(":")[0], url, revision)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("git://host/repo", "expected git://REPO#VERSION, found no #"),
        ("git:#1", "expected a repository, found ''"),
        ("git:repo#1", "expected a repository URL"),
        ("git:relative/../up#1", "expected a repository path without ., .. and %2e"),
        ("git:https://host/a/%2E%2e/b#1", "expected a repository path without ., .. and %2e"),
        ("git:/srv/repo#", "expected the name of a tag, a branch or a commit, found ''"),
        ("git:/srv/repo#-f", "expected the name of a tag, a branch or a commit, found '-f'"),
        ("git:/srv/repo#--upload-pack=x", "expected the name of a tag"),
        ("git:/srv/repo#a..b", "expected the name of a tag, a branch or a commit, found 'a..b'"),
        ("git:/srv/repo#main@{1}", "expected the name of a tag"),
        ("git:/srv/repo#a b", "expected the name of a tag, a branch or a commit, found 'a b'"),
        ("git:/srv/repo#HEAD^{/x}", "expected the name of a tag"),
        ("git://--upload-pack=x/y#1", "expected a repository, found"),
        ("git:-x/y#1", "expected a repository, found"),
        ("git:ssh://-oProxyCommand=x/y#1", "expected a host and a path"),
        ("git:ssh://me@-oProxyCommand=x/y#1", "expected a host and a path"),
        ("git:me@-oProxyCommand=x:y#1", "expected a repository URL"),
        ("git:host:-x#1", "expected a repository URL"),
        ("git:ext::sh%20-c%20x/y#1", "expected a repository URL"),
        ("git:fd://17/x#1", "expected a repository URL"),
        ("git:file://host/srv/repo#1", "expected file:///PATH"),
        ("git:/srv/a b#1", "expected a repository, found"),
        ("git:/srv/a\n#1", "expected a repository, found"),
        ("git:/srv/a\x1b[0m#1", "expected a repository, found"),
        ("git:/srv/$(x)#1", "expected a repository, found"),
        ("git:/" + "a" * 500 + "#1", "expected at most 500 characters"),
        ("git:https://me:secret@host/repo#1", "contains a password"),
        ("svn://host", "expected a host and a path"),
        ("svn:/srv/x#{2026-01-01}", "expected a revision number"),
        ("svn:/srv/x#-1", "expected a revision number"),
        ("svn:git://host/x", "expected a repository URL"),
        ("svn:--config-dir=/x", "expected a repository, found"),
        ("svn+ssh://-oProxyCommand=x/y", "expected a repository, found"),
        ("hg://host/repo#1", "unknown scheme 'hg', expected one of git, svn, svn+ssh"),
        ("svn+file:///srv/x", "unknown scheme 'svn+file'"),
        ("GIT://host/repo#1", "unknown scheme 'GIT'"),
    ],
)
def test_an_invalid_checkout_is_refused_with_a_reason(version, message):
    assert is_checkout(version)
    with pytest.raises(TreeError, match=r".+") as caught:
        parse_checkout(version)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert "secret" not in str(caught.value)


def test_a_message_about_another_mistake_hides_the_password():
    with pytest.raises(TreeError, match=r"me:\*\*\*@host|\*\*\*@host"):
        parse_checkout("git:https://me:secret@host/repo#-x")


@pytest.mark.parametrize("version", [None, "1.4", "1:1.4-2", "1.4-2", "~1", ""])
def test_package_versions_are_not_checkouts(version):
    assert not is_checkout(version)


@pytest.mark.parametrize(
    ("url", "source", "below"),
    [
        ("https://host/team/repo", "https://host/team/", True),
        ("https://host/team/repo", "https://host/team", True),
        ("https://host/team", "https://host/team", True),
        ("https://host/team-of-others/repo", "https://host/team", False),
        ("https://host.evil.com/team", "https://host", False),
        ("https://host:8443/team", "https://host", True),
        ("me@host:team/repo", "me@host:", True),
        ("me@host:team/repo", "me@host", True),
        ("http://host/team/repo", "https://host/team", False),
        ("/srv/git/repo", "/srv/git", True),
        ("/srv/gitty/repo", "/srv/git", False),
    ],
)
def test_a_source_allows_all_repositories_below_it(url, source, below):
    checkout = Checkout("x", "git", url, "1")
    assert checkout.is_from([source]) is below
    assert checkout.is_from(["https://other/", source]) is below
    assert not checkout.is_from([])


def test_every_scheme_has_an_adapter():
    assert tuple(SYSTEMS) == SCHEMES


@given(st.sampled_from(SCHEMES), st.text(max_size=30), st.text(max_size=10))
def test_no_parsed_checkout_is_an_option_or_contains_control_characters(scheme, repository, revision):
    try:
        checkout = parse_checkout(f"{scheme}:{repository}#{revision}")
    except TreeError:
        return
    for argument in (checkout.url, checkout.revision):
        assert argument
        assert not argument.startswith("-")
        assert argument.isascii()
        assert argument.isprintable()
        assert " " not in argument
