"""Ports of an agent to its host: packages, checkouts, scripts and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from zkdeployment.ports.memory import HostMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.deployment import Deployment
    from zkdeployment.model.inventory import Inventory, Marker, Packages
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


class HostFiles(HostMemory, Protocol):
    """A host's files: ``/opt``, ``/etc`` and the run directory. Raises ``HostFilesError``.

    Writes replace files atomically and durably.
    """

    def inventory(self, packages: Packages) -> Inventory:
        """Read what is deployed and installed on the host; ``packages`` are the installed packages."""

    def script(self, package: str) -> str:
        """Return the path of a package's deploy script; raises ``ScriptError`` if missing or not executable."""

    def controller_script(self, package: str, name: str) -> str:
        """Return the path of a role controller's script; raises ``ScriptError`` as ``script`` does."""

    def make_application_directory(self, application: str) -> None:
        """Create ``/etc/APPLICATION`` if it does not exist."""

    def write_marker(self, marker: Marker) -> None:
        """Write the ``.deployed`` file of a deployment, then remove the other ``files`` of the marker."""

    def remove_marker(self, application: str, deployment: Deployment, files: Collection[str]) -> None:
        """Remove the ``.deployed`` file of a deployment and its ``files``, as far as the script left them."""

    def clear_software(self, packages: Collection[str], applications: Collection[str]) -> None:
        """Remove the remains of each ``/opt/PACKAGE``, and each ``/etc/APPLICATION`` that is empty."""

    def add_managed(self, applications: Mapping[str, str]) -> None:
        """Add packages (name → application) to the registry of managed packages, before they are installed."""

    def add_originals(self, versions: Mapping[str, str]) -> None:
        """Record the versions of the system's own packages before they are changed."""

    def drop_originals(self, packages: Collection[str]) -> None:
        """Remove the recorded versions of packages that were restored."""

    def record_start(self, controller: str) -> None:
        """Record that ``starting-deployments`` of the role controller with this path is called now."""

    def record_end(self) -> None:
        """Remove the record of ``starting-deployments``, after ``ending-deployments`` has succeeded."""

    def drop_managed(self, packages: Collection[str]) -> None:
        """Remove packages from the registry, after they were removed from the host."""
