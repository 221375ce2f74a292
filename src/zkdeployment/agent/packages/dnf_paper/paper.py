"""Answers which packages repositories have, and resolves transactions of other hosts, with the solver of dnf.

``plugin/zkdeployment_paper.py`` (dnf 4) and ``libdnf5_paper.py`` (dnf 5) load the repositories and call
``answer``. They run with the Python of dnf, 3.6 or later, and import nothing of zkdeployment:
``agent.packages.host_repositories`` writes the request and reads the answers, which are JSON files in a directory.

The request has the process id of its ``author``, which waits for the answers, ``names`` of packages or patterns of
names, ``any_arch`` (whether those for other architectures count), the ``release`` in addresses of repositories
(may be empty), ``packages`` (name, epoch, version, release and architecture of
each) and ``transactions``, which refer to packages by index. ``answer.json`` has the message of each
``unreachable`` repository, in ``releases`` whether each repository of the release has it (without those of which
this is unknown), the ``available`` packages of these names, and in ``security`` those of them that security
advisories name. ``problems.jsonl`` has a line for each transaction as soon as it is resolved: a problem, or null.

A transaction is resolved without an installed system: the packages that stay on a host and those that it installs
are requested together from the repositories. An installed package that no repository has is described by a
repository that the program adds: such a package provides what another version of it provides, and requires
nothing. The program does not know what else the package provides. The program therefore assumes that a host with
such a package has everything that its other packages require.
"""

import ctypes
import json
import os
import re
import signal
from collections import defaultdict
from typing import Any, NamedTuple

#: The id of the repository of installed packages that the program adds.
INSTALLED = "zkdeployment-installed"

#: The beginning of the names of packages, and of the ids of their repositories, that provide assumed capabilities.
ASSUMED = "zkdeployment-assumed-"

#: The number of times that a transaction is resolved again with more assumed capabilities.
_ROUNDS = 20

#: The operation of prctl(2) that sets the signal for the end of the thread that started this process.
_SET_DEATH_SIGNAL = 1

#: The solver's words for a requirement that is not met.
_LACKING = (
    re.compile(r"nothing provides (?P<capability>.+) needed by \S+"),
    re.compile(r"package \S+ requires (?P<capability>.+), but none of the providers can be installed"),
)

#: Newer solvers name the repository of each package; its id is of no use to the readers.
_ORIGIN = re.compile(r"(?<=\.)(?P<arch>\w+) from \S+")

#: The beginning of messages of servers and file systems that answer, but have no such directory.
_ABSENT = re.compile(r"Status code: (404|410) |Curl error \((37|78)\)")

_GLOB = re.compile(r"[*?\[]")

#: The solver prints this line for each problem; it names no package.
_NOT_A_CAUSE = "conflicting requests"


class Description(NamedTuple):
    """The metadata of a package: name, epoch, version, release and architecture; capabilities; paths of its files.

    A capability has a name, a comparison and a version; the last two may be empty.
    """

    identity: Any
    provides: Any
    files: Any


class Template(NamedTuple):
    """Another version of a package: its version in all spellings, its capabilities as texts, and its files."""

    versions: Any
    provides: Any
    files: Any


class RepositoryState(NamedTuple):
    """The message of each unreachable repository, and whether repositories have the release, both by id."""

    unreachable: Any
    releases: Any

    def note_release(self, release, name, addresses, failures):
        """Note whether a repository has a release, if its addresses contain it.

        ``failures`` are the messages about its metadata, ``None`` if the metadata was read.
        """
        if not release or not any(release in address for address in addresses):
            return
        if failures is None:
            self.releases[name] = True
        elif failures and all(_ABSENT.match(failure) for failure in failures):
            self.releases[name] = False


class RequestError(Exception):
    """A request cannot be answered."""


def read_request(directory):
    """Return the request in a directory; this process will end with its author."""
    request = json.loads((directory / "request.json").read_text(encoding="utf-8"))
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    try:
        os.kill(request["author"], 0)
    except ProcessLookupError:  # the author ended before the call
        raise RequestError("the process that asked about the repositories has ended") from None
    return request


def names_and_patterns(specs):
    """Return the names and the patterns of names among ``specs``."""
    patterns = [spec for spec in specs if _GLOB.search(spec)]
    return [spec for spec in specs if not _GLOB.search(spec)], patterns


def answer(solver, request, directory, state):
    """Write the answers to a request; ``solver`` has loaded all other repositories than the unreachable ones.

    A solver has these methods. ``available``: the packages of some names and patterns, for any architecture or for
    those that hosts can run. ``security``: those of the available packages that security advisories name.
    ``identity`` of a package. ``newest``: the ``Template`` of the highest version of each of some names, by name
    and architecture. ``add``: makes packages with a ``Description`` available. ``exclude`` packages and
    ``include`` them again. ``rules``: the explanations why packages, and any version of some names, cannot be
    installed together without any package of other names; empty if they can.
    """
    found = solver.available(request["names"], any_arch=request["any_arch"])
    available = sorted({solver.identity(package) for package in found})
    security = sorted({solver.identity(package) for package in solver.security(found)})
    written = json.dumps({**state._asdict(), "available": available, "security": security})
    (directory / "answer.json").write_text(written, encoding="utf-8")
    if request["transactions"]:
        paper = Paper(solver, request["packages"])
        with (directory / "problems.jsonl").open("w", encoding="utf-8") as problems:
            for transaction in request["transactions"]:
                problems.write(json.dumps(paper.problem(transaction)) + "\n")
                problems.flush()  # the process may be killed at the next transaction


class Paper:
    """Resolves transactions; ``packages`` are all packages that these refer to."""

    def __init__(self, solver, packages):
        self._solver = solver
        self._identities = [tuple(package) for package in packages]
        self._assumed = {}
        found = self._by_identity()
        unknown = {identity for identity in self._identities if identity not in found}
        if unknown:
            templates = solver.newest(sorted({identity[0] for identity in unknown}))
            solver.add(
                INSTALLED,
                [_described(identity, templates.get((identity[0], identity[4]))) for identity in sorted(unknown)],
            )
            found = self._by_identity()
        self._packages = [found.get(identity, []) for identity in self._identities]
        self._unknown = {index for index, identity in enumerate(self._identities) if identity in unknown}

    def problem(self, transaction):
        """Return why a transaction is impossible; ``None`` if it is possible, or if that is unknown.

        The answer is unknown if the packages that stay cannot be resolved alone.
        """
        foreign = self._unknown.difference(transaction["present"])
        excluded = [package for index in foreign for package in self._packages[index]]
        excluded += [package for packages in self._assumed.values() for package in packages]
        removed = self._solver.available(transaction["remove"], any_arch=True)
        hidden = {self._solver.identity(package) for package in (*excluded, *removed)}
        self._solver.exclude(excluded)
        try:
            rules = self._rules(transaction, transaction["install"], transaction["remove"])
            if not rules or self._rules(transaction, (), ()):
                return None
            if self._keeps_unknown(transaction):
                rules = self._rules_with_assumptions(transaction, rules)
            return _sentence(rules, hidden) if rules else None
        finally:
            self._solver.include(excluded)

    def _keeps_unknown(self, transaction):
        """Whether a host keeps a package that no repository has, and that may provide anything."""
        staying = set(transaction["stay"])
        names = set(transaction["stay_in_any_version"])
        return any(
            index in staying or self._identities[index][0] in names
            for index in self._unknown.intersection(transaction["present"])
        )

    def _rules_with_assumptions(self, transaction, rules):
        """Return the explanations in ``rules`` that remain if unknown packages provide the lacking capabilities.

        The versions of the packages of the transaction are known, so nothing is assumed about their names.
        """
        known = {self._identities[index][0] for index in (*transaction["present"], *transaction["install"])}
        last = None
        for _ in range(_ROUNDS):
            lacking = {need for need in _lacking(rules) if need.partition(" ")[0] not in known}
            if any(need.startswith("(") for need in lacking):
                return []  # no package can provide an expression
            if not lacking or lacking == last:
                break
            for need in sorted(lacking):
                self._assume(need)
            last = lacking
            remaining = self._rules(transaction, transaction["install"], transaction["remove"])
            if not remaining:
                return []
            if not any(ASSUMED in cause for problem in remaining for cause in problem):
                rules = remaining
        return rules

    def _assume(self, capability):
        """Make a package available that provides a capability."""
        if capability in self._assumed:
            self._solver.include(self._assumed[capability])
            return
        name = f"{ASSUMED}{len(self._assumed)}"
        subject, _, rest = capability.partition(" ")
        comparison, _, number = rest.partition(" ")
        self._solver.add(name, [_described((name, 0, "1", "1", "noarch"), None, [(subject, comparison, number)])])
        self._assumed[capability] = list(self._solver.available([name], any_arch=True))

    def _rules(self, transaction, install, remove):
        """Return the solver's explanations of its problems, empty if none exist."""
        packages = [self._packages[index] for index in (*transaction["stay"], *install)]
        problems = self._solver.rules(packages, transaction["stay_in_any_version"], remove)
        return [[_ORIGIN.sub(r"\g<arch>", cause) for cause in problem] for problem in problems]

    def _by_identity(self):
        """Return the packages of the repositories that the transactions refer to, by identity."""
        found = defaultdict(list)
        wanted = set(self._identities)
        for package in self._solver.available(sorted({identity[0] for identity in wanted}), any_arch=True):
            identity = self._solver.identity(package)
            if identity in wanted:
                found[identity].append(package)
        return found


def _sentence(rules, hidden):
    """Return the solver's explanations as one text, without those about the ``hidden`` packages."""
    others = {_NOT_A_CAUSE}
    for name, epoch, version, release, arch in hidden:
        full_name = "{}-{}{}-{}.{}".format(name, f"{epoch}:" if epoch else "", version, release, arch)
        others.add(f"package {full_name} is filtered out by exclude filtering")
    causes = [cause for problem in rules for cause in problem if cause not in others]
    return "; ".join(dict.fromkeys(causes)) or _NOT_A_CAUSE


def _lacking(rules):
    """Return the capabilities that packages require and nothing provides, as the solver writes them."""
    matches = (pattern.fullmatch(cause) for problem in rules for cause in problem for pattern in _LACKING)
    return {match.group("capability") for match in matches if match}


def _described(identity, template, capabilities=()):
    """Return the metadata of a package that also provides ``capabilities``.

    ``template`` is another version of the package, or ``None``.
    """
    name, epoch, version, release, _ = identity
    own = f"{epoch}:{version}-{release}"
    provides = [(name, "=", own), *capabilities]
    for capability in () if template is None else template.provides:
        subject, _, rest = capability.partition(" ")
        comparison, _, number = rest.partition(" ")
        if subject != name:
            provides.append((subject, comparison, own if number in template.versions else number))
    return Description(identity, provides, [] if template is None else list(template.files))
