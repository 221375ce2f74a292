"""Ports of an agent to its host: packages, checkouts and scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.inventory import Packages
    from zkdeployment.model.plan import PackageChange


class Transaction(Protocol):
    """A package change that was resolved, downloaded and tested, and is ready to be committed."""

    @property
    def before(self) -> Packages:
        """The packages of the host when the transaction was prepared."""

    @property
    def after(self) -> Packages:
        """The packages of the host after the commit, unmanaged ones included."""

    @property
    def reversible(self) -> bool:
        """Whether all packages that a rollback needs are available."""


class PackageManager(Protocol):
    """The host's packages: the only way to read and change them. Raises ``PackageError``."""

    def installed(self) -> Packages:
        """Read all installed packages, in one pass."""

    def lost_scripts(self, packages: Packages) -> frozenset[str]:
        """Return the names of those installed ``packages`` whose deploy or role script is missing or damaged."""

    def prepare(self, change: PackageChange) -> Transaction:
        """Resolve, download, verify and test a change without changing the host.

        Raises ``PackageError`` if the change would also change a package that ``change.managed`` does not name.
        """

    def commit(self, transaction: Transaction) -> None:
        """Apply a transaction and verify all packages; on failure roll back to ``before`` and raise.

        ``PackageError.changed``: the rollback failed. ``PackageError.retry_helps``: prepare and commit again.
        """

    def recover(self) -> None:
        """Roll back the transaction that a crash interrupted, if there is one."""


class Scripts(Protocol):
    """Runs the scripts of applications. Raises ``ScriptError`` if a script fails."""

    def run(
        self,
        argv: Sequence[str],
        *,
        name: str,
        revision: Revision,
        directory: str | None = None,
        facts: Mapping[str, str] | None = None,
        last_check: Callable[[], None] = ...,
    ) -> None:
        """Run ``argv`` and wait until it exits; any status but 0 is a failure.

        Its output goes to the log and to a file of limited size, named after ``name``. ``directory`` is the
        working directory (default: the agent's). ``facts`` are further variables of its environment.
        ``last_check`` is called right before the script starts; if it raises an error, the script does not start.
        """

    def cap_outputs(self) -> None:
        """Limit the output files of programs that scripts left running; never raises."""

    def wait_for_predecessor(self, announce: Callable[[str | None, str], None] = ...) -> None:
        """Wait for the script that a killed agent left running: two scripts must never change one host.

        If there is one, ``announce`` is called before the wait, with its revision if that is known, and its name.
        """


class Checkouts(Protocol):
    """Software in ``/opt`` that is checked out from a repository and built there. Raises ``CheckoutError``."""

    def prepare(self, package: str, version: str, *, replaces: bool) -> None:
        """Check out a version beside its final place, without changing that place.

        Raises ``CheckoutError`` if the source is not allowed, or if ``/opt/PACKAGE`` exists and not ``replaces``.
        """

    def install(self, package: str, build: Callable[[str, str], None]) -> None:
        """Build and install the prepared checkout, readable for everyone; on failure restore the previous content.

        ``build`` is called with the path of the build script, if there is one, and its directory.
        """

    def remove(self, package: str) -> None:
        """Remove ``/opt/PACKAGE``, completely or not at all."""

    def recover(self) -> None:
        """Restore what an interrupted installation had moved away, and remove incomplete checkouts."""
