"""dnf 4 that reports failures in order, with one more command, which makes a transaction when it is ordered to.

``agent.packages.command`` starts this program with the Python of dnf, 3.6 or later, for all transactions. The
program imports nothing of zkdeployment.

The standard input of the command ``zkdeployment-install`` is a socket to that process:

1. The program resolves, downloads, checks and tests the transaction, as ``dnf --setopt=tsflags=test install``
   does, and writes one line of JSON with the ``installed`` and the ``removed`` packages to the socket. Replaced
   packages are among the removed ones. ``advisories`` is the number of security advisories that the host lacks
   after an update of the system.
2. The program waits for the line ``commit``. The program holds no lock meanwhile. At a line with a JSON list of
   arguments, the program runs that command of dnf, which must change no package, prints nothing of it, and writes
   the line ``true`` if the command succeeded, or ``false``. Another process would have to load dnf again.
3. At the line, the program writes the line ``begun`` to the socket and makes the transaction as dnf does. A
   program that ends before step 3 has changed no package.

If the line does not come in time, if the socket is closed, or if a program changed packages after the first step,
the program prints the reason, changes nothing and ends with the status ``NOT_BEGUN``. All other statuses are
dnf's.
"""

import contextlib
import json
import os
import select
import socket
import sys
import traceback

import dnf.cli.cli
import dnf.cli.main
import dnf.cli.option_parser
import dnf.conf
import dnf.exceptions
import dnf.rpm.transaction
import dnf.yum.rpmtrans
import hawkey
from dnf.cli.commands.install import InstallCommand

#: The exit status of a program that changed nothing although dnf reports no error.
NOT_BEGUN = 75

#: The number of seconds that the program waits. Meanwhile it keeps the metadata of all repositories in memory.
LIMIT = 60.0

#: The order to make the transaction, and the answer to it.
ORDER = b"commit\n"
BEGUN = b"begun\n"


class OrderSocket:
    """The connection to the process that gives the order."""

    #: Whether dnf may have changed packages; commands that wait for no order may do so at any time.
    may_have_begun = True

    def __init__(self):
        self._connection = socket.socket(fileno=os.dup(0))
        self._lines = self._connection.makefile("rb")
        OrderSocket.may_have_begun = False
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)  # the programs that dnf starts must not read the order

    def report(self, content):
        """Write one line of JSON."""
        self._connection.sendall(json.dumps(content).encode("utf-8") + b"\n")

    def wait(self, run):
        """Wait for the order; return why the order did not come, or an empty string.

        ``run`` is called with the arguments of other commands, and returns whether they succeeded.
        """
        while select.select([self._connection], [], [], LIMIT)[0]:
            line = self._lines.readline()
            if not line.startswith(b"["):
                return "" if line == ORDER else "the order was withdrawn"
            self.report(run(json.loads(line.decode("utf-8"))))
        return f"no order came within {LIMIT:g} s"

    def accept(self):
        """Report that the transaction begins."""
        OrderSocket.may_have_begun = True
        self._connection.sendall(BEGUN)


class OrderedInstall(InstallCommand):
    """``dnf zkdeployment-install PACKAGE...``: tests an installation, and makes it when it is ordered to.

    Each option ``--remove`` names an installed package that the same transaction removes. With ``--sync`` the
    installed packages get the versions of the repositories instead, as ``dnf distro-sync`` does; with dnf's option
    ``--security``, they get the builds that security advisories name, or later builds. The package ``*`` stands
    for all.
    """

    aliases = ("zkdeployment-install",)
    summary = "test an installation, and make it when it is ordered to"

    @staticmethod
    def set_argparser(parser):
        """Add the option to that of the command."""
        InstallCommand.set_argparser(parser)
        parser.add_argument("--remove", action="append", default=[])
        parser.add_argument("--sync", action="store_true")

    def run(self):
        """Mark the packages to install and to remove."""
        for package in self.base.sack.query().installed():
            if str(package) in self.opts.remove:
                self.base.goal.erase(package, clean_deps=False)
        if self.opts.sync:
            self._synchronize()
        else:
            super().run()

    def _synchronize(self):
        if self.opts.security:
            self.cli._populate_update_security_filter(self.opts, cmp_type="gte")
            self.base.upgrade_all()
            return
        for name in self.opts.pkg_specs:
            self.base.distro_sync(None if name == "*" else name)

    def configure(self):
        """Make dnf test its transaction, and remember the state of rpm's database before dnf reads it."""
        self._order = OrderSocket()
        super().configure()
        self._state = self._state_of_database()
        self._flags = list(self.base.conf.tsflags)
        self.base.conf.tsflags = [*self._flags, "test"]

    def run_transaction(self):
        """Report the tested transaction, wait for the order, and make the transaction."""
        super().run_transaction()
        self._order.report(
            {
                "installed": [_identity(package) for package in self.base.transaction.install_set],
                "removed": [_identity(package) for package in self.base.transaction.remove_set],
                "advisories": self._missing_advisories() if self.opts.sync else None,
            }
        )
        obstacle = self._order.wait(self._run_silently)
        if not obstacle and self._state_of_database() != self._state:
            obstacle = "another program changed packages"
        if obstacle:
            sys.stdout.write(obstacle + "\n")
            sys.exit(NOT_BEGUN)
        self._order.accept()
        self.base.conf.tsflags = self._flags
        self.base.conf.cacheonly = True
        self.base.conf.destdir = ""  # the files are there: dnf would copy those of local repositories again
        self.base.conf.localpkg_gpgcheck = False  # the signatures were checked after the download
        for repository in self.base.repos.iter_enabled():
            repository.gpgcheck = False
        dnf.rpm.transaction.TransactionWrapper.test = _pass
        status = dnf.cli.main.resolving(self.cli, self.base)
        if status:
            sys.exit(status)

    def _run_silently(self, arguments):
        """Run another command of dnf, which prints nothing; return whether it succeeded."""
        try:
            with _silence(), dnf.cli.cli.BaseCli(dnf.conf.Conf()) as base:
                base._logging = self.base._logging  # another one would log everything twice from now on
                return not dnf.cli.main._main(base, arguments, dnf.cli.cli.Cli, dnf.cli.option_parser.OptionParser)
        except (
            dnf.exceptions.Error,
            OSError,
            SystemExit,
        ):  # another process that runs the command explains the failure
            return False

    def _missing_advisories(self):
        """Return the number of the security advisories that the host lacks after the transaction."""
        removed = set(self.base.transaction.remove_set)
        installed = self.base.sack.query(flags=hawkey.IGNORE_EXCLUDES).installed()
        staying = [package for package in installed if package not in removed]
        newest = {}
        for package in sorted([*staying, *self.base.transaction.install_set]):
            newest[package.name, package.arch] = package
        return len(
            {
                advisory.id
                for package in newest.values()
                for advisory in package.get_advisories(hawkey.GT)
                if advisory.type == hawkey.ADVISORY_SECURITY
            }
        )

    def _state_of_database(self):
        """Return a value that changes when any program changes packages; leave the database closed."""
        state = self.base._ts.dbCookie()
        del self.base._ts
        return state


class InstallCli(dnf.cli.cli.Cli):
    """The command line of dnf with the command above."""

    def __init__(self, base):
        super().__init__(base)
        self.register_command(OrderedInstall)


class ReportedTransaction(dnf.yum.rpmtrans.RPMTransaction):
    """A transaction that prints rpm's reasons why the files of a package cannot be written.

    dnf 4 itself prints these reasons with the output of the next package, and loses those of the last package.
    """

    def _unpackError(self, key):  # noqa: N802
        super()._unpackError(key)
        self._scriptout()

    def _cpioError(self, key):  # noqa: N802
        super()._cpioError(key)
        self._scriptout()


def _pass(*_arguments):
    """Find no problem: the transaction was tested, and rpm checks it again before it changes the first package."""
    return []


@contextlib.contextmanager
def _silence():
    """Discard what is printed meanwhile."""
    kept = [os.dup(1), os.dup(2)]
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        yield
    finally:
        sys.stdout.flush()
        for number, copy in enumerate(kept, 1):
            os.dup2(copy, number)
            os.close(copy)
        os.close(nothing)


def _identity(package):
    return package.name, package.epoch, package.version, package.release, package.arch


def main():
    """Run dnf and return its exit status; ``NOT_BEGUN`` if this version of dnf has other interfaces."""
    dnf.yum.rpmtrans.RPMTransaction = ReportedTransaction
    try:
        return dnf.cli.main.main(sys.argv[1:], cli_class=InstallCli)
    except Exception:
        # dnf turns its own errors into exit statuses. All other errors come from interfaces that this version of
        # dnf lacks or has changed. Before the order, nothing was changed, and another dnf works without these
        # interfaces. After the order, Python prints the error and ends with the status 1.
        if OrderSocket.may_have_begun:
            raise
        traceback.print_exc()
        return NOT_BEGUN


if __name__ == "__main__":
    sys.exit(main())
