import pytest

from zkdeployment.agent.packages.failures import (
    HiddenError,
    LockedError,
    NotAvailableError,
    OfflineError,
    StaleError,
    UnsolvableError,
    explain,
    scriptlet_failure,
)
from zkdeployment.base.errors import PackageError

PREIN = """\
Running transaction
  Preparing        :                                                        1/1
  Installing       : foo-1.1-5.0-1.noarch                                   1/2
  Running scriptlet: first-aid-1.0-1.noarch                                 2/2
error: lua script failed: [string "%prein(first-aid-1.0-1.noarch)"]:1: the disk is on fire

Error in PREIN scriptlet in rpm package first-aid
  Verifying        : first-aid-1.0-1.noarch                                 1/2

Failed:
  first-aid-1.0-1.noarch

Error: Transaction failed
"""
FOREIGN = """\
The GPG keys listed for the "x" repository are already installed but they are not correct for this package.
Check that the correct key URLs are configured for this repository.. Failing package is: foreign-1.0-1.noarch
 GPG Keys are configured as: file:///RPM-GPG-KEY
Error: GPG check FAILED
"""
REPLAY = 'Error: The following problems occurred while replaying the transaction from file "plan.json":\n'


@pytest.mark.parametrize(
    ("output", "kind", "message", "retry_helps"),
    [
        (
            "Error: Failed to obtain the transaction lock\nRPMDB already locked by 17\n",
            LockedError,
            "another program is changing packages: RPMDB already locked by 17; try again after it has finished",
            True,
        ),
        (
            "error: can't create transaction lock on /r/var/lib/rpm/.rpm.lock (Resource temporarily unavailable)",
            LockedError,
            "can't create transaction lock",
            True,
        ),
        (
            "Error: Failed to download metadata for repo 'x': Cannot download repomd.xml: All mirrors were tried",
            OfflineError,
            "a repository cannot be reached: Failed to download metadata for repo 'x'",
            True,
        ),
        (
            "Error: Error downloading packages:\n  foo-1.0-1.noarch: Cannot download, all mirrors were tried",
            OfflineError,
            "Error downloading packages: foo-1.0-1.noarch: Cannot download",
            True,
        ),
        (
            "Error: Unable to find a match: foo = 7.1",
            NotAvailableError,
            "no repository has a requested package: Unable to find a match: foo = 7.1; publish the package",
            False,
        ),
        (
            f'{REPLAY}  Cannot find rpm nevra "foo-1.0-1.noarch".',
            NotAvailableError,
            'Cannot find rpm nevra "foo-1.0-1.noarch"',
            False,
        ),
        (
            f'{REPLAY}  Package nevra "foo-1.0-1.noarch" not installed for action "Upgraded".',
            StaleError,
            'foo-1.0-1.noarch" not installed for action',
            True,
        ),
        (
            f'{REPLAY}  Package "foo.noarch" is already installed for action "Install".',
            StaleError,
            "already installed for action",
            True,
        ),
        (
            f'{REPLAY}  Package nevra "b-1-1.noarch", which is not present, was pulled into the transaction.',
            PackageError,
            "the change would touch a package that is not managed by zkdeployment: Package nevra",
            False,
        ),
        (
            "Error: \n Problem: The operation would result in removing the following protected packages: systemd",
            PackageError,
            "the change would remove a package that dnf protects: Problem: The operation would result in removing",
            False,
        ),
        (
            (
                "Running transaction\nTransaction failed: Rpm transaction failed.\n"
                "Warning: skipped OpenPGP checks for 6 packages from repository: @stored_transaction\n"
            ),
            LockedError,
            "another program is changing packages: Transaction failed: Rpm transaction failed.",
            True,
        ),
        (
            "Error: \n Problem: conflicting requests\n  - nothing provides nix needed by x-1.0-1.noarch",
            UnsolvableError,
            "the packages cannot be installed together: Problem: conflicting requests - nothing provides nix",
            False,
        ),
        (
            "Error: Transaction test error:\n  installing package foo needs 21MB more space on the / filesystem",
            PackageError,
            "the disk is too full: installing package foo needs 21MB more space on the / filesystem; free",
            False,
        ),
        (
            "Error: Transaction test error:\n  file /opt/a from install of b conflicts with file from package a-1",
            PackageError,
            "two packages own the same file: file /opt/a from install of b conflicts with file from package a-1",
            False,
        ),
        (
            "Package unsigned-1.0-1.noarch.rpm is not signed\nError: GPG check FAILED",
            PackageError,
            "Package unsigned-1.0-1.noarch.rpm is not signed; sign it with the repository's key",
            False,
        ),
        (
            (
                "Error: Error downloading packages:\n  Curl error (23): Failed writing received data to"
                " disk/application for http://x/foo.rpm [Failure writing output to destination]"
            ),
            PackageError,
            "the disk is too full: Curl error (23): Failed writing received data to disk/application for http://x/foo",
            False,
        ),
        (
            "All matches were filtered out by exclude filtering for argument: foo\nError: Unable to find a match",
            HiddenError,
            "although a repository has it: All matches were filtered out by exclude filtering for argument: foo;",
            False,
        ),
        (
            (
                "Running transaction\n  Preparing  : 1/1\nError unpacking rpm package foo-1.0-1.noarch\n"
                "error: unpacking of archive failed on file /opt/foo;1: cpio: rename failed - Is a directory\n"
            ),
            PackageError,
            "cannot write a file of a package: error: unpacking of archive failed on file /opt/foo;1: cpio: ",
            False,
        ),
        (
            FOREIGN,
            PackageError,
            "Failing package is: foreign-1.0-1.noarch",
            False,
        ),
        ("Error: Unknown repo: 'nonesuch'", PackageError, "Unknown repo: 'nonesuch'; correct the name in", False),
        ("Error: Something new", PackageError, "dnf failed with exit status 1: Something new", False),
        ("", PackageError, "dnf failed with exit status 1: no output", False),
    ],
)
def test_dnfs_output_is_explained_in_one_line(output, kind, message, retry_helps):
    error = explain(1, output)
    assert type(error) is kind
    assert message in str(error)
    assert "\n" not in str(error)
    assert error.retry_helps is retry_helps
    assert not error.changed


def test_exit_status_200_means_locked_with_any_output():
    assert isinstance(explain(200, ""), LockedError)
    assert isinstance(explain(200, "already locked by 17"), LockedError)


def test_a_scriptlets_message_about_locks_does_not_mean_that_dnf_was_locked():
    output = "Running transaction\n  Preparing   : 1/1\nerror: can't create transaction lock on x\nError: Failed"
    assert type(explain(1, output)) is PackageError


def test_the_signal_that_killed_dnf_is_named():
    assert str(explain(-9, "", "dnf 5.4.6.0")) == "dnf 5.4.6.0 was killed by signal 9: no output"


def test_the_end_of_a_long_output_is_kept():
    message = str(explain(1, f"{'word ' * 1000} the last words"))
    assert message.startswith("dnf failed with exit status 1: ...")
    assert message.endswith("the last words")
    assert len(message) < 700


def test_the_last_words_of_each_failed_scriptlet_are_kept():
    printed = "\n".join(f"step {number} of many succeeded" for number in range(100))
    failed = f"{printed}\n  Note: a step {{}}\nError in {{}} scriptlet in rpm package foo\n"
    message = scriptlet_failure(
        "".join(failed.format(*words) for words in (("a", "POSTIN"), ("b", "<unknown>")) * 2)
    )
    first, second, others = message.split("; ")
    assert first.startswith("a package's scriptlet failed: POSTIN of foo: ...")
    assert first.endswith("step 99 of many succeeded: Note: a step a")
    assert second.startswith("trigger at foo: ...")
    assert second.endswith("step 99 of many succeeded: Note: a step b")
    assert others == "and 2 more"
    assert len(message) < 1400


def test_a_failed_scriptlet_is_named_with_its_output():
    assert scriptlet_failure(PREIN) == (
        "a package's scriptlet failed: PREIN of first-aid: error: lua script failed: "
        '[string "%prein(first-aid-1.0-1.noarch)"]:1: the disk is on fire'
    )
    assert str(explain(1, PREIN)) == scriptlet_failure(PREIN)


def test_a_successful_scriptlet_is_not_a_failure():
    assert scriptlet_failure(PREIN.replace("Error in PREIN", "Done with PREIN")) is None


#: The output of dnf 5 for the same transaction.
PREIN_5 = """\
[1/4] Verify package files              100% |   0.0   B/s |   2.0   B |  00m00s
[2/4] Prepare transaction               100% |   0.0   B/s |   2.0   B |  00m00s
[3/4] Installing foo-0:1.1-5.0-1.noarch 100% |   5.0 KiB/s | 672.0   B |  00m00s
>>> Running %pre scriptlet: first-aid-0:1.0-1.noarch
>>> Error in %pre scriptlet: first-aid-0:1.0-1.noarch
>>> Scriptlet output:
>>> looking for the fire
>>> [RPM] lua script failed: [string "%prein(first-aid-1.0-1.noarch)"]:1: the disk is on fire
>>> [RPM] first-aid-1.0-1.noarch: install failed
>>> Running %post scriptlet: bar-1:1.0-1.noarch
>>> Finished %post scriptlet: bar-1:1.0-1.noarch
>>> Scriptlet output:
>>> all is well
Transaction failed: Rpm transaction failed.
"""


def test_a_failed_scriptlet_is_named_with_its_output_by_dnf_5():
    expected = (
        "a package's scriptlet failed: pre of first-aid-1.0-1.noarch: looking for the fire: lua script failed: "
        '[string "%prein(first-aid-1.0-1.noarch)"]:1: the disk is on fire'
    )
    assert scriptlet_failure(PREIN_5) == expected
    assert str(explain(1, PREIN_5)) == expected


def test_a_failure_that_rpm_tolerates_is_a_failure():
    output = (
        ">>> Running %post scriptlet: x-0:2-1.noarch\n>>> Non-critical error in %post scriptlet: x-0:2-1.noarch\n"
    )
    assert scriptlet_failure(output) == "a package's scriptlet failed: post of x-2-1.noarch"
    assert scriptlet_failure(output.replace("Non-critical error in", "Finished")) is None


@pytest.mark.parametrize(
    ("output", "kind", "message", "retry_helps"),
    [
        (
            "Running transaction\nTransaction failed: Rpm transaction failed.\n",
            LockedError,
            "another program",
            True,
        ),
        (
            "Transaction failed: Failed to obtain rpm transaction lock. Another transaction is in progress.\n",
            LockedError,
            "another program is changing packages",
            True,
        ),
        (
            'OpenPGP check for package "x-1-1.noarch" from repo "lab" has failed: The package is not signed.\n',
            PackageError,
            "a package lacks the signature that its repository requires",
            False,
        ),
        (
            "OpenPGP check for package x has failed: The repository does not have any OpenPGP keys configured.\n",
            PackageError,
            "rpm has no key for the repository",
            False,
        ),
        (
            "Failed to resolve the transaction:\nNo match for argument: foo = 9.9\nYou can try to add\n",
            NotAvailableError,
            "no repository has a requested package: No match for argument: foo = 9.9; publish",
            False,
        ),
        (
            "Failed to resolve the transaction:\nCannot perform Remove action, no match for: x-1-1.noarch.\n",
            StaleError,
            "another program changed packages",
            True,
        ),
        (
            (
                "Cannot perform Install action because 'foo-1.1-1.noarch' is installed in a different version: x\n"
                "Extra package 'foo-1.0-1.noarch' which is not present was pulled into the transaction.\n"
            ),
            StaleError,
            "another program changed packages",
            True,
        ),
        (
            (
                "Cannot perform Remove action for Package 'foo-1.1-1.noarch' because it is not installed.\n"
                "Packages for argument 'foo-1.1-1.noarch' available, but not installed.\n"
            ),
            StaleError,
            "another program changed packages",
            True,
        ),
        (
            "Failed to resolve the transaction:\nCannot perform Install action, no match for: foo-1.1-1.noarch.\n",
            NotAvailableError,
            "no repository has a requested package: Cannot perform Install action",
            False,
        ),
        (
            'Failed to resolve the transaction:\nPackage "foo-0:1.0-1.noarch" is already installed.\n',
            StaleError,
            "another program changed packages",
            True,
        ),
        (
            "Extra package 'bar-1.0-1.noarch' which is not present was pulled into the transaction.\n",
            PackageError,
            "not managed by zkdeployment",
            False,
        ),
        (
            "Failed to download packages\n Librepo error: Cannot download x.rpm: All mirrors were tried\n",
            OfflineError,
            "a repository cannot be reached",
            True,
        ),
        (
            "Problem: installed package reader-1.0-1.noarch requires library = 1.0\n  - conflicting requests\n",
            UnsolvableError,
            "reader-1.0-1.noarch requires library",
            False,
        ),
        (
            "Rpm transaction failed.\n  - file /x from install of a-1-1 conflicts with file from package b\n",
            PackageError,
            "two packages own the same file",
            False,
        ),
        (
            "Rpm transaction failed.\n  - installing package x needs 4MB more space on the /opt filesystem\n",
            PackageError,
            "the disk is too full",
            False,
        ),
        (
            "Failed to resolve the transaction:\nArgument 'foo = 1.1' matches only excluded packages.\n",
            HiddenError,
            "although a repository has it: Argument 'foo = 1.1' matches only excluded packages.; change",
            False,
        ),
        (
            (
                "Failed to download packages\n Librepo error: Curl error (23): Failed writing received data to"
                " disk/application for file:///x.rpm\n"
            ),
            PackageError,
            "the disk is too full: Librepo error: Curl error (23): Failed writing received data",
            False,
        ),
        (
            (
                ">>> [RPM] unpacking of archive failed on file /opt/foo;1: cpio: rename failed - Is a directory\n"
                ">>> Unpack error: foo-0:1.0-1.noarch\nTransaction failed: Rpm transaction failed.\nx"
            ),
            PackageError,
            "cannot write a file of a package: unpacking of archive failed on file /opt/foo;1: cpio",
            False,
        ),
        ("No matching repositories for nosuch. Add", PackageError, "correct the name in --repositories", False),
    ],
)
def test_the_output_of_dnf_5_is_explained_in_one_line(output, kind, message, retry_helps):
    error = explain(1, output)
    assert type(error) is kind
    assert message in str(error)
    assert "\n" not in str(error)
    assert error.retry_helps is retry_helps


def test_a_transaction_of_dnf_5_that_began_was_not_locked():
    begun = "[2/4] Prepare transaction               100% |   0.0   B/s |   2.0   B |  00m00s\n"
    assert type(explain(1, f"{begun}Transaction failed: Rpm transaction failed.\n")) is PackageError
