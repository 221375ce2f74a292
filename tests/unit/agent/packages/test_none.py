import pytest

from zkdeployment.agent.packages.none import NoPackages
from zkdeployment.base.errors import PackageError
from zkdeployment.base.plan import PackageChange


def test_no_package_is_reported_as_installed(tmp_path):
    assert NoPackages(tmp_path).installed() == {}


def test_the_packages_that_others_installed_since_the_boot_are_unknown(tmp_path):
    assert NoPackages(tmp_path).installed_since(0.0) is None


def test_existing_software_suffices_for_any_version(tmp_path):
    (tmp_path / "opt/foo").mkdir(parents=True)
    manager = NoPackages(tmp_path)
    transaction = manager.prepare(PackageChange(want={"foo": "1.4"}, remove=frozenset({"bar"})))
    assert transaction.before == transaction.after == {}
    assert transaction.reversible
    manager.commit(transaction)
    manager.recover()
    assert (tmp_path / "opt/foo").is_dir()


def test_the_error_names_missing_software(tmp_path):
    with pytest.raises(
        PackageError, match=rf"{tmp_path}/opt/bar, {tmp_path}/opt/foo does not exist.*packages = none"
    ):
        NoPackages(tmp_path).prepare(PackageChange(want={"foo": "1.4", "bar": None}))
