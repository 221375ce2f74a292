"""A command for dnf 4 that answers which packages repositories have, and resolves transactions of other hosts.

dnf loads this file as a plugin. The plugin runs with the Python of dnf, 3.6 or later, and imports nothing of
zkdeployment: ``agent.packages.host_repositories`` writes the request and reads the answer. Both are JSON files.

A transaction is resolved without an installed system: the packages that stay on a host and those that it installs
are requested together from the repositories. An installed package that no repository has is described by a
repository that the command writes: such a package provides what another version of it provides, and requires
nothing. The plugin does not know what else the package provides. The plugin therefore assumes that a host with
such a package has everything that its other packages require.
"""

import ctypes
import hashlib
import json
import os
import re
import signal
from collections import defaultdict
from pathlib import Path
from xml.sax.saxutils import quoteattr

import dnf
import dnf.cli
import hawkey

#: The id of the repository of installed packages that the command writes.
INSTALLED = "zkdeployment-installed"

#: The operation of prctl(2) that sets the signal for the end of the thread that started this process.
_SET_DEATH_SIGNAL = 1

#: The beginning of the names of packages, and of the ids of their repositories, that provide assumed capabilities.
ASSUMED = "zkdeployment-assumed-"

#: The number of times that a transaction is resolved again with more assumed capabilities.
_ROUNDS = 20

#: The solver's words for a requirement that is not met.
_LACKING = (
    re.compile(r"nothing provides (?P<capability>.+) needed by \S+"),
    re.compile(r"package \S+ requires (?P<capability>.+), but none of the providers can be installed"),
)

#: Newer solvers name the repository of each package; its id is of no use to the readers.
_ORIGIN = re.compile(r"(?<=\.)(?P<arch>\w+) from \S+")

_COMPARISONS = {"=": "EQ", "<": "LT", "<=": "LE", ">": "GT", ">=": "GE"}

#: The solver prints this line for each problem; it names no package.
_NOT_A_CAUSE = "conflicting requests"


@dnf.plugin.register_command
class PaperCommand(dnf.cli.Command):
    """``dnf zkdeployment-paper DIRECTORY``: reads ``request.json`` in the directory and writes two answers.

    The request has the process id of its ``author``, which waits for the answers, ``names`` of packages,
    ``any_arch`` (whether those for other architectures count), ``packages`` (name, epoch, version, release and
    architecture of each) and ``transactions``, which refer to packages by index. ``answer.json`` has the message
    of each ``unreachable`` repository and the ``available`` packages of these names. ``problems.jsonl`` has a line
    for each transaction as soon as it is resolved: a problem, or null.
    """

    aliases = ("zkdeployment-paper",)
    summary = "resolve transactions of other hosts"

    @staticmethod
    def set_argparser(parser):
        """Declare the argument."""
        parser.add_argument("directory")

    def configure(self):
        """Load the repositories in ``run``, one by one, and no installed packages."""
        self.cli.demands.sack_activation = False
        self.cli.demands.root_user = False

    def run(self):
        """Answer the request."""
        directory = Path(self.opts.directory)
        request = json.loads((directory / "request.json").read_text(encoding="utf-8"))
        _end_with(request["author"])
        unreachable = self._load_repositories()
        self.base.fill_sack(load_system_repo=False)
        answer = {"unreachable": unreachable, "available": self._available(request)}
        (directory / "answer.json").write_text(json.dumps(answer), encoding="utf-8")
        if request["transactions"]:
            paper = Paper(self.base, request["packages"], directory)
            with (directory / "problems.jsonl").open("w", encoding="utf-8") as problems:
                for transaction in request["transactions"]:
                    problems.write(json.dumps(paper.problem(transaction)) + "\n")
                    problems.flush()  # dnf may be killed at the next transaction

    def _load_repositories(self):
        """Load the metadata of all repositories and disable those that are unreachable."""
        unreachable = {}
        for repository in list(self.base.repos.iter_enabled()):
            try:
                repository.load()
            except dnf.exceptions.RepoError as error:
                unreachable[repository.id] = str(error)
                repository.disable()
        return unreachable

    def _available(self, request):
        """Return the available packages of the names, for any architecture or for those that the hosts can run."""
        query = self.base.sack.query().available().filter(name=request["names"])
        if not request["any_arch"]:
            query = query.filter(arch=self.base.sack.list_arches())
        return sorted({_identity(package) for package in query})


class Paper:
    """Resolves transactions; ``packages`` are all packages that these refer to. ``directory`` is for its files."""

    def __init__(self, base, packages, directory):
        self._base = base
        self._sack = base.sack
        self._directory = directory
        self._identities = [tuple(package) for package in packages]
        self._assumed = {}
        found = self._by_identity()
        unknown = [identity for identity in self._identities if identity not in found]
        if unknown:
            templates = self._templates(unknown)
            described = [
                _described(identity, templates.get((identity[0], identity[4])))
                for identity in sorted(set(unknown))
            ]
            _add_repository(base, directory, INSTALLED, described)
            found = self._by_identity()
        self._packages = [found.get(identity, []) for identity in self._identities]
        self._unknown = {index for index, identity in enumerate(self._identities) if identity in set(unknown)}

    def problem(self, transaction):
        """Return why a transaction is impossible; ``None`` if it is possible, or if that is unknown.

        The answer is unknown if the packages that stay cannot be resolved alone.
        """
        foreign = self._unknown.difference(transaction["present"])
        excluded = [package for index in foreign for package in self._packages[index]]
        excluded += [package for packages in self._assumed.values() for package in packages]
        self._exclude(excluded)
        try:
            rules = self._rules(transaction, transaction["install"], transaction["remove"])
            if not rules or self._rules(transaction, (), ()):
                return None
            if self._keeps_unknown(transaction):
                rules = self._rules_with_assumptions(transaction, rules)
            hidden = {f"package {package} is filtered out by exclude filtering" for package in excluded}
            return _sentence(rules, hidden) if rules else None
        finally:
            self._include(excluded)

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
            self._include(self._assumed[capability])
            return
        name = f"{ASSUMED}{len(self._assumed)}"
        identity = (name, 0, "1", "1", "noarch")
        subject, _, rest = capability.partition(" ")
        comparison, _, number = rest.partition(" ")
        _add_repository(
            self._base, self._directory, name, [_described(identity, None, [(subject, comparison, number)])]
        )
        self._assumed[capability] = list(self._sack.query().available().filter(name=name))

    def _exclude(self, packages):
        if packages:
            self._sack.add_excludes(self._sack.query().filter(pkg=packages))

    def _include(self, packages):
        if packages:
            self._sack.remove_excludes(self._sack.query(flags=hawkey.IGNORE_EXCLUDES).filter(pkg=packages))

    def _rules(self, transaction, install, remove):
        """Return the solver's explanations of its problems, empty if none exist."""
        goal = hawkey.Goal(self._sack)
        for index in (*transaction["stay"], *install):
            goal.install(select=hawkey.Selector(self._sack).set(pkg=self._packages[index]))
        for name in transaction["stay_in_any_version"]:
            goal.install(select=hawkey.Selector(self._sack).set(name=name))
        for package in self._sack.query().filter(name=remove):
            goal.erase(package)
        if goal.run(ignore_weak_deps=True):
            return []
        return [[_ORIGIN.sub(r"\g<arch>", cause) for cause in problem] for problem in goal.problem_rules()]

    def _by_identity(self):
        """Return the packages of the repositories that the transactions refer to, by identity."""
        found = defaultdict(list)
        wanted = set(self._identities)
        for package in self._sack.query().available().filter(name=sorted({identity[0] for identity in wanted})):
            if _identity(package) in wanted:
                found[_identity(package)].append(package)
        return found

    def _templates(self, unknown):
        """Return the highest available version of the unknown packages, by name and architecture."""
        query = self._sack.query().available().filter(name=sorted({identity[0] for identity in unknown}))
        return {(package.name, package.arch): package for package in query.latest()}


def _end_with(author):
    """Make the kernel kill this process when its parent ends, because no process would read the answers."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    try:
        os.kill(author, 0)
    except ProcessLookupError:  # the author ended before the call
        raise dnf.exceptions.Error("the process that asked about the repositories has ended") from None


def _identity(package):
    return package.name, package.epoch, package.version, package.release, package.arch


def _sentence(rules, hidden):
    """Return the solver's explanations as one text, without those in ``hidden``."""
    causes = [cause for problem in rules for cause in problem if cause != _NOT_A_CAUSE and cause not in hidden]
    return "; ".join(dict.fromkeys(causes)) or _NOT_A_CAUSE


def _lacking(rules):
    """Return the capabilities that packages require and nothing provides, as the solver writes them."""
    matches = (pattern.fullmatch(cause) for problem in rules for cause in problem for pattern in _LACKING)
    return {match.group("capability") for match in matches if match}


def _add_repository(base, directory, name, described):
    """Write a repository of the packages with these metadata below ``directory``, and load it."""
    directory = directory / name
    metadata = directory / "repodata"
    metadata.mkdir(parents=True)
    primary = (
        '<metadata xmlns="http://linux.duke.edu/metadata/common" xmlns:rpm="http://linux.duke.edu/metadata/rpm"'
        f' packages="{len(described)}">{"".join(described)}</metadata>'
    )
    (metadata / "primary.xml").write_text(primary, encoding="utf-8")
    checksum = hashlib.sha256(primary.encode("utf-8")).hexdigest()
    (metadata / "repomd.xml").write_text(
        '<repomd xmlns="http://linux.duke.edu/metadata/repo"><revision>1</revision><data type="primary">'
        f'<checksum type="sha256">{checksum}</checksum><location href="repodata/primary.xml"/></data></repomd>',
        encoding="utf-8",
    )
    repository = dnf.repo.Repo(name, base.conf)
    repository.baseurl = [directory.as_uri()]
    repository.basecachedir = str(directory)
    repository._repo.setSyncStrategy(dnf.repo.SYNC_TRY_CACHE)  # even if the others are read from the cache alone
    repository.load()
    base.sack.load_repo(repository._repo)


def _described(identity, template, capabilities=()):
    """Return the metadata of a package that also provides ``capabilities``.

    ``template`` is another version of the package, or ``None``.
    """
    name, epoch, version, release, arch = identity
    provided = [(name, "=", f"{epoch}:{version}-{release}"), *capabilities]
    files = []
    if template is not None:
        files = template.files
        for capability in map(str, template.provides):
            subject, _, rest = capability.partition(" ")
            comparison, _, number = rest.partition(" ")
            if subject != name:
                own = number in (template.evr, f"{template.epoch}:{template.version}-{template.release}")
                provided.append((subject, comparison, provided[0][2] if own else number))
    place = f'<version epoch="{epoch}" ver={quoteattr(version)} rel={quoteattr(release)}/>'
    return (
        '<package type="rpm"><name>{name}</name><arch>{arch}</arch>{place}'
        '<checksum type="sha256" pkgid="YES">{digest}</checksum><summary/><description/><packager/><url/>'
        '<time file="0" build="0"/><size package="0" installed="0" archive="0"/><location href="none"/>'
        "<format><rpm:provides>{provides}</rpm:provides>{files}</format></package>"
    ).format(
        name=quoteattr(name)[1:-1],
        arch=quoteattr(arch)[1:-1],
        place=place,
        digest=hashlib.sha256(repr(identity).encode("utf-8")).hexdigest(),
        provides="".join(map(_entry, provided)),
        files="".join(f"<file>{quoteattr(path)[1:-1]}</file>" for path in files),
    )


def _entry(capability):
    """Return the metadata of a capability: its name, with a comparison and a version, or with two empty texts."""
    name, comparison, number = capability
    if comparison not in _COMPARISONS:
        return f"<rpm:entry name={quoteattr(name)}/>"
    epoch, _, rest = number.rpartition(":")
    version, _, release = rest.partition("-")
    return "<rpm:entry name={} flags={} epoch={} ver={}{}/>".format(
        quoteattr(name),
        quoteattr(_COMPARISONS[comparison]),
        quoteattr(epoch or "0"),
        quoteattr(version),
        " rel=" + quoteattr(release) if release else "",
    )
