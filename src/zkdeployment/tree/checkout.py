"""Checkouts: versions that name a revision in a version control system instead of a version of a package.

The forms are ``git://REPO#VERSION`` and ``git:REPO#VERSION``, and ``svn://…``, ``svn+ssh://…`` and ``svn:URL``
with an optional ``#REVISION``. REPO is anything that git can clone: a URL, ``USER@HOST:PATH``, or an absolute
path; any other text is read as the rest of a ``git://`` URL. Versions are parsed and validated before they become
arguments of programs that run as root. ``agent.checkouts`` runs these programs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zkdeployment.base.errors import TreeError, without_passwords
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The schemes of checkout versions: the text before the first colon.
SCHEMES = ("git", "svn", "svn+ssh")

_MAX_LENGTH = 500

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# Visible characters without those that have a meaning in shells, quotes and patterns.
_REPOSITORY = re.compile(r"[A-Za-z0-9_.~/%+=@:,#?&\[\]-]+")
_URL = re.compile(r"(?P<protocol>[a-z+]+)://(?P<place>.*)")
_HOST = r"([A-Za-z0-9_][A-Za-z0-9._+-]*@)?[A-Za-z0-9_][A-Za-z0-9._-]*"
_HOST_AND_PATH = re.compile(_HOST + r"(:[0-9]{1,5})?/[^/].*")
_SSH_PLACE = re.compile(_HOST + r":(?!//)[A-Za-z0-9_./~].*")
_PASSWORD = re.compile(r"[^/@]*:[^/@]*@")
_UPWARDS = re.compile(r"(^|[/:])\.{1,2}(/|$)|%2e", re.IGNORECASE)
_GIT_REVISION = re.compile(r"(?!.*(\.\.|//|/\.|@\{))[A-Za-z0-9_][A-Za-z0-9._/+@~=-]{0,249}(?<![/.])(?<!\.lock)")
_SVN_REVISION = re.compile(r"HEAD|r?[0-9]{1,10}")
_PROTOCOLS = {
    "git": ("file", "git", "http", "https", "ssh"),
    "svn": ("file", "http", "https", "svn", "svn+ssh"),
}


@dataclass(frozen=True)
class Checkout:
    """A parsed checkout: ``revision`` (git: a tag, a branch or a commit; svn: a number or ``HEAD``) of ``url``.

    ``url`` is in the form that the git or svn program accepts; for git it may also be a path or
    ``USER@HOST:PATH``. ``text`` is the version as the tree spells it.
    """

    text: str
    scheme: str
    url: str
    revision: str

    def is_from(self, sources: Sequence[str]) -> bool:
        """Whether the repository is one of ``sources``, or below one of them."""
        return any(_is_below(self.url, source) for source in sources)


def is_checkout(version: str | None) -> bool:
    """Whether a version has the form of a checkout (``SCHEME:…``), well-formed or not."""
    return version is not None and _SCHEME.match(version) is not None


def parse_checkout(version: str) -> Checkout:
    """Return the checkout that a version names; raises ``TreeError`` if the version is malformed."""
    match = _SCHEME.match(version)
    scheme = match[1] if match is not None else ""
    if scheme not in SCHEMES:
        raise _error(version, f"unknown scheme {scheme!a}, expected one of {', '.join(SCHEMES)}")
    if len(version) > _MAX_LENGTH:
        raise _error(version, f"expected at most {_MAX_LENGTH} characters, found {len(version)}")
    rest = version[len(scheme) + 1 :]
    if scheme == "git":
        repository, separator, revision = rest.rpartition("#")
        if not separator:
            raise _error(version, "expected git://REPO#VERSION, found no #")
        if not _GIT_REVISION.fullmatch(revision):
            raise _error(version, f"expected the name of a tag, a branch or a commit, found {revision!a}")
        return Checkout(version, scheme, _git_url(version, repository), revision)
    repository, separator, revision = rest.rpartition("#") if "#" in rest else (rest, "", "HEAD")
    if not _SVN_REVISION.fullmatch(revision):
        raise _error(version, f"expected a revision number or HEAD, found {revision!a}")
    return Checkout(version, scheme, _svn_url(version, scheme, repository), revision.removeprefix("r"))


def _git_url(version: str, repository: str) -> str:
    place = _place(version, repository)
    if place.startswith("/"):
        return place
    match = _URL.fullmatch(place)
    if match is None and _HOST_AND_PATH.fullmatch(place):
        return _checked_url(version, "git", f"git://{place}")
    if match is None and _SSH_PLACE.fullmatch(place):
        return place
    return _checked_url(version, "git", place)


def _svn_url(version: str, scheme: str, repository: str) -> str:
    place = _place(version, repository)
    if place.startswith("/"):
        return f"file://{place}"
    url = place if _URL.fullmatch(place) else f"{scheme}://{place}"
    return _checked_url(version, "svn", url)


def _place(version: str, repository: str) -> str:
    """Return the repository without the scheme's slashes, as in ``//host/x``, ``///x`` and ``//https://…``."""
    place = repository.removeprefix("//")
    if not _REPOSITORY.fullmatch(place) or place.startswith("-"):
        raise _error(version, f"expected a repository, found {place!a}")
    if _UPWARDS.search(place):
        raise _error(version, "expected a repository path without ., .. and %2e")
    return place


def _checked_url(version: str, system: str, url: str) -> str:
    match = _URL.fullmatch(url)
    if match is None or match["protocol"] not in _PROTOCOLS[system]:
        protocols = ", ".join(f"{name}://" for name in _PROTOCOLS[system])
        raise _error(version, f"expected a repository URL ({protocols}) or an absolute path")
    if _PASSWORD.match(match["place"]):
        raise TreeError("version contains a password, which everyone could read; use a key of the host instead")
    if match["protocol"] == "file":
        if not match["place"].startswith("/"):
            raise _error(version, "expected file:///PATH")
    elif not _HOST_AND_PATH.fullmatch(match["place"]):
        raise _error(version, "expected a host and a path after ://")
    return url


def _is_below(url: str, source: str) -> bool:
    rest = url.removeprefix(source) if url.startswith(source) else None
    return rest is not None and (not rest or source[-1:] in ("/", ":") or rest[0] in ("/", ":"))


def _error(version: str, problem: str) -> TreeError:
    shown = without_passwords(ascii(version))
    shown = shown if len(shown) <= 100 else shown[:97] + "..."
    return TreeError(f"version {shown} is not a valid checkout: {problem}")
