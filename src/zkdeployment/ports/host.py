"""The host that an agent changes: packages, checkouts, scripts, files."""

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
    """A package change that is resolved, downloaded and tested, ready to be committed."""

    @property
    def before(self) -> Packages:
        """The packages of the host when the transaction was prepared."""

    @property
    def after(self) -> Packages:
        """The packages the host has to have when it is done, unmanaged ones included."""

    @property
    def reversible(self) -> bool:
        """Whether all packages needed to go back are at hand."""


class PackageManager(Protocol):
    """The host's package database and the only way to change it. Raises ``PackageError``."""

    def installed(self) -> Packages:
        """Read the whole database once."""

    def lost_scripts(self, packages: Packages) -> frozenset[str]:
        """Return those of the installed ``packages`` whose deploy or role script is missing or damaged."""

    def prepare(self, change: PackageChange) -> Transaction:
        """Resolve, download, verify and test a change, without changing the host.

        Refuses whatever would touch a package that ``change`` does not manage.
        """

    def commit(self, transaction: Transaction) -> None:
        """Do it in one transaction and verify all packages; on failure go back to ``before``, raise."""

    def recover(self) -> None:
        """Go back to before a transaction that a crash interrupted, if there is one."""


class Scripts(Protocol):
    """Runs other people's scripts. Raises ``ScriptError`` unless they exit with status 0."""

    def run(self, argv: Sequence[str], *, name: str, revision: Revision, directory: str | None = None) -> None:
        """Run ``argv`` to its end, its output going to the log and to a capped file called after ``name``.

        ``directory`` is the working directory; without one it is the agent's.
        """

    def cap_outputs(self) -> None:
        """Cap the output of programs that scripts left running; never raises."""

    def wait_for_predecessor(self) -> None:
        """Wait for a script that a killed agent left running, so that two never act on one host."""


class Checkouts(Protocol):
    """Software in ``/opt`` that is checked out and built in place. Raises ``CheckoutError``."""

    def prepare(self, package: str, version: str, *, replaces: bool) -> None:
        """Check out to one side; refuse what may not come from there and, unless ``replaces``, a taken place."""

    def install(self, package: str, build: Callable[[str, str], None]) -> None:
        """Put what was prepared in place, whole, readable for everyone; on failure put back what was there.

        ``build`` is called with the build script, if there is one, and its directory.
        """

    def remove(self, package: str) -> None:
        """Remove ``/opt/PACKAGE``, whole or not at all."""

    def recover(self) -> None:
        """Put back what an interrupted installation had taken away, and clear what was left to one side."""


class HostFiles(HostMemory, Protocol):
    """A host's files: ``/opt``, ``/etc`` and the run directory. Raises ``HostFilesError``.

    Writes replace files atomically and durably.
    """

    def inventory(self, packages: Packages) -> Inventory:
        """Read what is on the host."""

    def script(self, package: str) -> str:
        """Return the path of a package's deploy script; ``ScriptError`` if missing or not executable."""

    def controller_script(self, package: str, name: str) -> str:
        """Return the path of a role controller's script; ``ScriptError`` if missing or not executable."""

    def make_application_directory(self, application: str) -> None:
        """Make ``/etc/APPLICATION`` unless it is there."""

    def write_marker(self, marker: Marker) -> None:
        """Record a deployment, then remove the marker's other ``files``."""

    def remove_marker(self, application: str, deployment: Deployment, files: Collection[str]) -> None:
        """Forget a deployment: its ``.deployed`` file and ``files``, whatever the script left of them."""

    def clear_software(self, packages: Collection[str], applications: Collection[str]) -> None:
        """Remove what is left of ``/opt/PACKAGE`` and each ``/etc/APPLICATION`` that is empty."""

    def add_managed(self, applications: Mapping[str, str]) -> None:
        """Add packages to the registry of managed ones, before they are installed."""

    def add_originals(self, versions: Mapping[str, str]) -> None:
        """Record the versions of the system's own packages, before they are changed."""

    def drop_originals(self, packages: Collection[str]) -> None:
        """Forget the recorded versions of packages that are put back."""

    def drop_managed(self, packages: Collection[str]) -> None:
        """Take packages from the registry, after the last of them is gone."""
