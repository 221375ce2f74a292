"""A command for dnf 4 that answers about the packages of repositories; dnf loads this file as a plugin.

``paper`` in the directory above has the request, the answers and everything that does not depend on dnf 4.
"""

import hashlib
import sys
from pathlib import Path
from xml.sax.saxutils import quoteattr

import dnf
import dnf.cli
import hawkey

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paper

_COMPARISONS = {"=": "EQ", "<": "LT", "<=": "LE", ">": "GT", ">=": "GE"}


@dnf.plugin.register_command
class PaperCommand(dnf.cli.Command):
    """``dnf zkdeployment-paper DIRECTORY``: reads the request in the directory and writes the answers."""

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
        try:
            request = paper.read_request(directory)
        except paper.RequestError as error:
            raise dnf.exceptions.Error(str(error)) from None
        state = self._load_repositories(request["release"])
        self.base.fill_sack(load_system_repo=False)
        paper.answer(HawkeySolver(self.base, directory), request, directory, state)

    def _load_repositories(self, release):
        """Load the metadata of all repositories and disable those that are unreachable; return their state."""
        state = paper.RepositoryState({}, {})
        for repository in list(self.base.repos.iter_enabled()):
            failures, has_failed = repository._md_pload.mirror_failures, False
            try:
                repository.load()
            except dnf.exceptions.RepoError as error:
                state.unreachable[repository.id] = str(error)
                repository.disable()
                has_failed = True
            addresses = [*repository.baseurl, repository.mirrorlist or "", repository.metalink or ""]
            state.note_release(release, repository.id, addresses, failures if has_failed else None)
        return state


class HawkeySolver:
    """Implements the solver of ``paper.answer``; ``directory`` is for the metadata of added packages."""

    def __init__(self, base, directory):
        self._base = base
        self._sack = base.sack
        self._directory = directory

    def available(self, names, *, any_arch):
        """Return the packages of these names."""
        exact, patterns = paper.names_and_patterns(names)
        query = self._sack.query().available().filter(name=exact)
        if patterns:
            query = query.union(self._sack.query().available().filter(name__glob=patterns))
        return query if any_arch else query.filter(arch=self._sack.list_arches())

    @staticmethod
    def security(packages):
        """Return those of the packages that security advisories name."""
        return packages.filter(advisory_type="security")

    @staticmethod
    def identity(package):
        """Return the name, epoch, version, release and architecture of a package."""
        return package.name, package.epoch, package.version, package.release, package.arch

    def newest(self, names):
        """Return the template of the highest version of each package."""
        return {
            (package.name, package.arch): paper.Template(
                {package.evr, f"{package.epoch}:{package.version}-{package.release}"},
                list(map(str, package.provides)),
                package.files,
            )
            for package in self._sack.query().available().filter(name=names).latest()
        }

    def add(self, name, descriptions):
        """Write a repository of packages with this metadata, and load it."""
        directory = self._directory / name
        metadata = directory / "repodata"
        metadata.mkdir(parents=True)
        primary = (
            '<metadata xmlns="http://linux.duke.edu/metadata/common"'
            ' xmlns:rpm="http://linux.duke.edu/metadata/rpm" packages="{}">{}</metadata>'
        ).format(len(descriptions), "".join(map(_metadata, descriptions)))
        (metadata / "primary.xml").write_text(primary, encoding="utf-8")
        checksum = hashlib.sha256(primary.encode("utf-8")).hexdigest()
        (metadata / "repomd.xml").write_text(
            '<repomd xmlns="http://linux.duke.edu/metadata/repo"><revision>1</revision><data type="primary">'
            f'<checksum type="sha256">{checksum}</checksum>'
            '<location href="repodata/primary.xml"/></data></repomd>',
            encoding="utf-8",
        )
        repository = dnf.repo.Repo(name, self._base.conf)
        repository.baseurl = [directory.as_uri()]
        repository.basecachedir = str(directory)
        # Even if the others are read from the cache alone.
        repository._repo.setSyncStrategy(dnf.repo.SYNC_TRY_CACHE)
        repository.load()
        self._sack.load_repo(repository._repo)

    def exclude(self, packages):
        """Hide packages from the next resolutions."""
        if packages:
            self._sack.add_excludes(self._sack.query().filter(pkg=packages))

    def include(self, packages):
        """Show excluded packages again."""
        if packages:
            self._sack.remove_excludes(self._sack.query(flags=hawkey.IGNORE_EXCLUDES).filter(pkg=packages))

    def rules(self, packages, names, remove):
        """Return the explanations why packages cannot be installed together; each comes from any repository."""
        goal = hawkey.Goal(self._sack)
        for same in packages:
            goal.install(select=hawkey.Selector(self._sack).set(pkg=same))
        for name in names:
            goal.install(select=hawkey.Selector(self._sack).set(name=name))
        for package in self._sack.query().filter(name=remove):
            goal.erase(package)
        return [] if goal.run(ignore_weak_deps=True) else goal.problem_rules()


def _metadata(description):
    """Return the metadata of a package in a repository."""
    name, epoch, version, release, arch = description.identity
    place = f"<version epoch={quoteattr(str(epoch))} ver={quoteattr(version)} rel={quoteattr(release)}/>"
    return (
        '<package type="rpm"><name>{name}</name><arch>{arch}</arch>{place}'
        '<checksum type="sha256" pkgid="YES">{digest}</checksum><summary/><description/><packager/><url/>'
        '<time file="0" build="0"/><size package="0" installed="0" archive="0"/><location href="none"/>'
        "<format><rpm:provides>{provides}</rpm:provides>{files}</format></package>"
    ).format(
        name=quoteattr(name)[1:-1],
        arch=quoteattr(arch)[1:-1],
        place=place,
        digest=hashlib.sha256(repr(description.identity).encode("utf-8")).hexdigest(),
        provides="".join(map(_entry, description.provides)),
        files="".join(f"<file>{quoteattr(path)[1:-1]}</file>" for path in description.files),
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
