import pytest

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.machine.files import read_secret


def test_the_only_line_of_a_file_is_the_secret(tmp_path):
    file = tmp_path / "secret"
    file.write_text("s3cret\n")
    file.chmod(0o640)
    assert read_secret(file) == "s3cret"


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [
        (b"s3cret", 0o644, "everyone has access"),
        (b"", 0o600, "expected one line with a secret"),
        (b"a\nb", 0o600, "expected one line with a secret"),
        (None, 0o600, "cannot read"),
    ],
)
def test_an_unusable_file_is_refused(tmp_path, content, mode, problem):
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
        file.chmod(mode)
    with pytest.raises(ConfigurationError, match=problem):
        read_secret(file)
