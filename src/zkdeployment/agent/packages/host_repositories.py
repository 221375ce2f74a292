"""The repositories of other hosts: their packages, and whether simulated transactions can be resolved.

dnf answers both with the programs in ``dnf_paper``: dnf 4 with a plugin, dnf 5 with its library for Python. An
empty root directory keeps the cache of metadata.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from zkdeployment.agent.packages.command import DnfCommand, NamedRepositories
from zkdeployment.agent.packages.failures import report_disk_errors
from zkdeployment.agent.packages.hidden_packages import hidden_packages
from zkdeployment.agent.packages.installed_packages import by_name
from zkdeployment.agent.packages.releases import release_options
from zkdeployment.agent.rules.availability import Offers, PaperResolution, PaperTransaction
from zkdeployment.base.errors import ConfigurationError, PackageError
from zkdeployment.base.inventory import Package

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from zkdeployment.agent.rules.hidden import Obstacle
    from zkdeployment.publishing.settings import SyncSettings


_PAPER = Path(__file__).parent / "dnf_paper"

#: The time limits for dnf; it abandons a silent server after some seconds.
_PATIENCE = ("--setopt=timeout=5", "--setopt=retries=1")

#: The seconds that one call may take.
_LIMIT = 90.0


class DnfHostRepositories:
    """Repositories that hosts install packages from, read by a dnf whose root and cache are below ``directory``.

    ``offers`` raises ``PackageError`` if the repositories cannot be read at all.

    While another process uses the same cache, a call is retried for ``patience`` seconds. ``tick`` is called a few
    times a second; when it raises, dnf is killed. ``release`` is the value of dnf's variable of this name, empty
    for that of the configuration.
    """

    def __init__(
        self,
        directory: Path,
        repositories: NamedRepositories,
        *,
        patience: float = 30.0,
        tick: Callable[[], None] = lambda: None,
        release: str = "",
    ) -> None:
        self._directory = directory.absolute()
        self._repositories = repositories
        self._patience = patience
        self._tick = tick
        self._release = release
        command = functools.partial(
            DnfCommand,
            self._directory / "root",
            repositories,
            home=self._directory / "home",
            patience=patience,
            gap=0,
            tick=tick,
            limit=_LIMIT,
        )
        self._dnf = command(paper=_PAPER)
        self._plain_dnf = command()

    def within(self, seconds: float) -> DnfHostRepositories:
        """Return the same repositories with calls that raise ``PackageError`` after ``seconds`` from now."""
        end = time.monotonic() + seconds

        def tick() -> None:
            self._tick()
            if time.monotonic() > end:
                raise PackageError(f"the repositories and the solver took longer than {seconds:g} s")

        patience = min(self._patience, seconds)
        return DnfHostRepositories(
            self._directory, self._repositories, patience=patience, tick=tick, release=self._release
        )

    def at_release(self, release: str) -> DnfHostRepositories:
        """Return the same repositories, with the addresses for hosts of a release."""
        return DnfHostRepositories(
            self._directory, self._repositories, patience=self._patience, tick=self._tick, release=release
        )

    @report_disk_errors()
    def offers(self, names: Collection[str], arch: str) -> Offers:
        """Return the available packages of these names and patterns, for hosts of the architecture ``arch``.

        With an empty ``arch``, those for any architecture are returned. The metadata of all repositories is
        updated; an unreachable repository is reported and omitted.
        """
        request = {
            "names": sorted(names),
            "any_arch": not arch,
            "release": self._release,
            "packages": [],
            "transactions": [],
        }
        with self._written(request) as place:
            self._run(place, arch, "--refresh")
            answer = json.loads((place / "answer.json").read_text(encoding="utf-8"))
        return Offers(
            by_name(Package(*row) for row in answer["available"]),
            answer["unreachable"],
            releases=answer["releases"],
            security=by_name(Package(*row) for row in answer["security"]),
        )

    def hidden(
        self, specs: Collection[str], arch: str, visible: Collection[Package] = ()
    ) -> Mapping[Package, Obstacle]:
        """Return the packages of the repositories that dnf hides, as ``hidden_packages`` does."""
        return hidden_packages(self._plain_dnf, specs, visible, self._options(self._plain_dnf, arch))

    def _options(self, dnf: DnfCommand, arch: str) -> Sequence[str]:
        """Return the options for each call of dnf."""
        # By default, the names of the caches change for each user other than root.
        places = [f"--setopt=cachedir={self._directory}/cache", f"--setopt=logdir={self._directory}/log"]
        release: Sequence[str] = ()
        if self._release:  # another process may use another release at the same time
            place = self._directory / "releases" / self._release
            release = release_options(dnf, self._directory / "root", self._release, place)
        return [*_PATIENCE, *places, *release, *_forced(arch)]

    def resolve(self, transactions: Collection[PaperTransaction], arch: str) -> PaperResolution:
        """Return the transactions that hosts of the architecture could not make.

        An empty ``arch`` is the architecture of this machine. The metadata is that of the last ``offers``. Raises
        no ``PackageError``: the result contains the transactions that were resolved before an error.
        """
        ordered = list(transactions)
        packages = frozenset[Package]().union(
            *(transaction.present | transaction.install for transaction in ordered)
        )
        index = {package: number for number, package in enumerate(sorted(packages))}
        request = {
            "names": [],
            "any_arch": False,
            "release": self._release,
            "packages": [
                [package.name, package.epoch, package.version, package.release, package.arch] for package in index
            ],
            "transactions": [_to_json(transaction, index) for transaction in ordered],
        }
        problems: Sequence[str | None] = ()
        reason = ""
        try:
            with report_disk_errors(), self._written(request) as place:
                try:
                    self._run(place, arch, "--cacheonly")
                finally:
                    problems = _whole_lines(place / "problems.jsonl")
        except PackageError as error:
            reason = str(error)
        resolved = zip(ordered, problems, strict=False)
        found = {transaction: problem for transaction, problem in resolved if problem is not None}
        return PaperResolution(found, tuple(ordered[len(problems) :]), reason)

    @contextlib.contextmanager
    def _written(self, request: Mapping[str, object]) -> Iterator[Path]:
        """Yield a temporary directory with a request to dnf, which writes its answers there."""
        self._tick()
        for name in ("root", "log"):
            (self._directory / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._directory, prefix="request-") as scratch:
            written = json.dumps({**request, "author": os.getpid()})
            (Path(scratch) / "request.json").write_text(written, encoding="utf-8")
            yield Path(scratch)

    def _run(self, place: Path, arch: str, freshness: str) -> None:
        """Run dnf, which answers the request in a directory."""
        arguments = [*self._options(self._dnf, arch), freshness, "zkdeployment-paper", str(place)]
        try:
            self._dnf.retry_while_locked(self._dnf.run, *arguments)
        except PackageError:
            self._tick()  # a supervisor that ends this process may also have ended dnf
            raise
        if not (place / "answer.json").exists():
            raise PackageError("dnf gave no answer about the repositories; run it by hand to see why")


def _whole_lines(file: Path) -> Sequence[str | None]:
    """Return the values in a file of JSON lines whose writer may have been killed."""
    if not file.exists():
        return []
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _forced(arch: str) -> Sequence[str]:
    """Return the argument for another architecture than this machine's."""
    return [] if arch in {"", platform.machine()} else [f"--forcearch={arch}"]


def _to_json(transaction: PaperTransaction, index: Mapping[Package, int]) -> Mapping[str, object]:
    return {
        "present": [index[package] for package in transaction.present],
        "stay": [index[package] for package in transaction.stay],
        "stay_in_any_version": sorted(transaction.stay_in_any_version),
        "install": [index[package] for package in transaction.install],
        "remove": sorted(transaction.remove),
    }


def syncer_repositories(
    sync: SyncSettings, *, tick: Callable[[], None] = lambda: None
) -> DnfHostRepositories | None:
    """Return the configured repositories, cached beside the mirror; ``None`` if none are configured.

    ``tick`` is called a few times a second while they are read; when it raises, the reading ends.
    """
    if not sync.repositories:
        return None
    mirror = sync.tree_directory
    cache = mirror.with_name(f".{mirror.name}.packages")
    return DnfHostRepositories(cache, NamedRepositories(sync.repositories), tick=tick)


@contextlib.contextmanager
def temporary_repositories(
    sync: SyncSettings, *, tick: Callable[[], None]
) -> Iterator[DnfHostRepositories | None]:
    """Yield the configured repositories, cached in a temporary directory; ``None`` if none are configured.

    The service has no other directory of its own. ``tick`` is as in ``syncer_repositories``.
    """
    if not sync.repositories:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="zkdeployment-packages-") as cache:
        yield DnfHostRepositories(Path(cache), NamedRepositories(sync.repositories), tick=tick)


def check_repositories(configured: Sequence[str], where: str) -> None:
    """Raise ``ConfigurationError`` for a value that dnf cannot use; ``where`` names their origin."""
    try:
        NamedRepositories(tuple(configured)).arguments()
    except PackageError as error:
        raise ConfigurationError(f"{where}: {str(error).removeprefix('repositories: ')}") from error


def own_repositories(configured: Sequence[str]) -> DnfHostRepositories:
    """Return repositories for a command, cached in the user's cache directory."""
    cache = Path(platformdirs.user_cache_dir("zkdeployment", appauthor=False))
    return DnfHostRepositories(cache / "packages", NamedRepositories(tuple(configured)))
