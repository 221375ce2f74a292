"""Answers about the packages of repositories with libdnf5, the library of dnf 5; a program with dnf's arguments.

``paper`` has the request, the answers and everything that does not depend on libdnf5. The Python of the system
runs this program, because it has the library (python3-libdnf5).
"""

import argparse
import fcntl
import re
import sys
import tempfile
from pathlib import Path

import libdnf5
import paper

_PRIORITY = libdnf5.conf.Option.Priority_COMMANDLINE

#: The base architectures whose packages other architectures can run, too.
_COMPATIBLE = {"x86_64": {"i386"}, "s390x": {"s390"}, "ppc64": {"ppc"}}

#: The library's log is its only report of a repository that it omitted.
_OMITTED = re.compile(r'Error loading repo "?(?P<id>[^" ]+)')

_LOG = "libdnf5.log"


def main():
    """Answer the request in the directory of the arguments."""
    parser = argparse.ArgumentParser()
    for option in ("-y", "-q", "--use-host-config", "--no-plugins", "--refresh", "--cacheonly"):
        parser.add_argument(option, action="store_true")
    for option in ("--installroot", "--config", "--releasever", "--forcearch"):
        parser.add_argument(option)
    for option in ("--setopt", "--setvar", "--repofrompath", "--enablerepo"):
        parser.add_argument(option, action="append", default=[])
    parser.add_argument("command", choices=["zkdeployment-paper"])
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    request = paper.read_request(arguments.directory)
    # The library does not lock the cache.
    with (arguments.directory.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        base = _configured(arguments)
        state = _load_repositories(base, request["release"], is_refreshed=arguments.refresh)
    paper.answer(Libdnf5Solver(base, arguments.directory), request, arguments.directory, state)


def _configured(arguments):
    """Return a base of the library with its repositories, from the arguments of dnf."""
    base = libdnf5.base.Base()
    config = base.get_config()
    config.use_host_config = True
    config.plugins = False
    config.installroot = arguments.installroot
    config.config_file_path = arguments.config
    config.cacheonly = "all" if arguments.cacheonly else "none"
    settings = [setting.partition("=")[::2] for setting in arguments.setopt]
    for name, value in settings:
        if "." not in name:
            config.opt_binds().at(name).new_string(_PRIORITY, value)
    config.opt_binds().at("optional_metadata_types").new_string(_PRIORITY, "comps,updateinfo")
    base.load_config()
    base.get_vars().set("releasever", arguments.releasever)
    for setting in arguments.setvar:
        name, _, value = setting.partition("=")
        base.get_vars().set(name, value)
    if arguments.forcearch:
        base.get_vars().set("arch", arguments.forcearch)
        config.ignorearch = True
    base.get_logger().add_logger(libdnf5.logger.create_file_logger(base, _LOG))
    base.setup()
    sack = base.get_repo_sack()
    sack.create_repos_from_system_configuration()
    for named in arguments.repofrompath:
        identifier, _, url = named.partition(",")
        sack.create_repo(identifier).get_config().baseurl = [url]
    repositories = {repository.get_id(): repository for repository in libdnf5.repo.RepoQuery(base)}
    for identifier in arguments.enablerepo:
        if identifier not in repositories:
            raise paper.RequestError(f"No matching repositories for {identifier}")
        repositories[identifier].enable()
    for name, value in settings:
        identifier, _, key = name.rpartition(".")
        if identifier:
            repositories[identifier].get_config().opt_binds().at(key).new_string(_PRIORITY, value)
    return base


class _Failures(libdnf5.repo.DownloadCallbacks):
    """Collects the messages about downloads that fail."""

    def __init__(self):
        super().__init__()
        self.messages = []

    def mirror_failure(self, _data, message, _url, _metadata):
        """Collect a message."""
        self.messages.append(message)
        return 0


def _load_repositories(base, release, *, is_refreshed):
    """Load the metadata of all enabled repositories; return their state."""
    enabled = libdnf5.repo.RepoQuery(base)
    enabled.filter_enabled(True)
    for repository in enabled:
        repository.get_config().skip_if_unavailable = True
        if is_refreshed:
            repository.expire()
    log = Path(base.get_config().logdir) / _LOG
    before = log.stat().st_size
    base.get_repo_sack().load_repos(libdnf5.repo.Repo.Type_AVAILABLE)
    with log.open("rb") as lines:
        lines.seek(before)
        omitted = {match.group("id") for match in _OMITTED.finditer(lines.read().decode("utf-8", "replace"))}
    log.unlink()
    state = paper.RepositoryState({}, {})
    callbacks = _Failures()
    base.set_download_callbacks(libdnf5.repo.DownloadCallbacksUniquePtr(callbacks))
    for repository in enabled:
        name = repository.get_id()
        callbacks.messages.clear()
        if name in omitted:
            state.unreachable[name] = _reason(repository)
        config = repository.get_config()
        options = (config.get_mirrorlist_option(), config.get_metalink_option())
        addresses = [*config.baseurl, *(option.get_value() for option in options if not option.empty())]
        state.note_release(release, name, addresses, callbacks.messages if name in omitted else None)
    return state


def _reason(repository):
    """Return why the metadata of a repository cannot be read."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            repository.download_metadata(scratch)
        except libdnf5.exception.Error as error:
            return str(error)
    return "its metadata could not be read"


class Libdnf5Solver:
    """Implements the solver of ``paper.answer``; ``directory`` is for the metadata of added packages."""

    def __init__(self, base, directory):
        self._base = base
        self._sack = base.get_rpm_package_sack()
        self._directory = directory
        arch = libdnf5.rpm.get_base_arch(base.get_vars().get_value("arch"))
        self._arches = {"noarch", arch} | _COMPATIBLE.get(arch, set())

    def available(self, names, *, any_arch):
        """Return the packages of these names."""
        exact, patterns = paper.names_and_patterns(names)
        query = self._query()
        query.filter_name(exact)
        if patterns:
            matching = self._query()
            matching.filter_name(patterns, libdnf5.common.QueryCmp_GLOB)
            query.update(matching)
        if any_arch:
            return list(query)
        return [package for package in query if libdnf5.rpm.get_base_arch(package.get_arch()) in self._arches]

    def security(self, packages):
        """Return those of the packages that security advisories name."""
        advisories = libdnf5.advisory.AdvisoryQuery(self._base)
        advisories.filter_type("security")
        query = self._query()
        query.filter_advisories(advisories)
        named = {self.identity(package) for package in query}
        return [package for package in packages if self.identity(package) in named]

    @staticmethod
    def identity(package):
        """Return the name, epoch, version, release and architecture of a package."""
        version = int(package.get_epoch()), package.get_version(), package.get_release()
        return (package.get_name(), *version, package.get_arch())

    def newest(self, names):
        """Return the template of the highest version of each package."""
        query = self._query()
        query.filter_name(names)
        query.filter_latest_evr()
        return {
            (package.get_name(), package.get_arch()): paper.Template(
                {package.get_evr(), "{}:{}-{}".format(*self.identity(package)[1:4])},
                list(map(str, package.get_provides())),
                list(package.get_files()),
            )
            for package in query
        }

    def add(self, name, descriptions):
        """Load a repository of packages with this metadata, in the format of libsolv's test cases."""
        file = self._directory / name
        file.write_text("=Ver: 3.0\n" + "".join(map(_metadata, descriptions)), encoding="utf-8")
        self._base.get_repo_sack().create_repo_from_libsolv_testcase(name, str(file))

    def exclude(self, packages):
        """Hide packages from the next resolutions."""
        self._sack.add_user_excludes(self._set(packages))

    def include(self, packages):
        """Show excluded packages again."""
        self._sack.remove_user_excludes(self._set(packages))

    def rules(self, packages, names, remove):
        """Return the explanations why packages cannot be installed together; each comes from any repository."""
        goal = libdnf5.base.Goal(self._base)
        for same in packages:
            goal.add_rpm_install(same[0])
        settings = libdnf5.base.GoalJobSettings()
        settings.set_best(libdnf5.base.GoalSetting_SET_FALSE)
        settings.set_with_provides(False)
        settings.set_with_filenames(False)
        settings.set_with_binaries(False)
        for name in names:
            goal.add_install(name, settings)
        excludes = self._sack.get_user_excludes()
        self.exclude(self.available(remove, any_arch=True))
        try:
            transaction = goal.resolve()
        finally:
            self._sack.set_user_excludes(excludes)
        if not transaction.get_problems():
            return []
        return [
            [cause.strip() for cause in re.sub(r"^ *Problem[^:\n]*: ", "", problem).split("\n  - ")]
            for problem in transaction.get_resolve_logs_as_strings()
        ]

    def _query(self):
        return libdnf5.rpm.PackageQuery(self._base)

    def _set(self, packages):
        found = libdnf5.rpm.PackageSet(self._base)
        for package in packages:
            found.add(package)
        return found


def _metadata(description):
    """Return a package as libsolv reads it. Names with blanks cannot be written: their features are unknown."""
    name, epoch, version, release, arch = description.identity
    provides = [*description.provides, *((path, "", "") for path in description.files)]
    number = f"{epoch}:{version}" if epoch else version
    lines = [f"=Pkg: {name} {number} {release} {arch}"]
    lines += [
        "=Prv: {}".format(" ".join(filter(None, capability)))
        for capability in provides
        if " " not in capability[0]
    ]
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    try:
        main()
    except (libdnf5.exception.Error, paper.RequestError) as failure:
        sys.exit(f"Error: {failure}")
