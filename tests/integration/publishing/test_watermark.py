import pytest
from structlog.testing import capture_logs

from zkdeployment.base.errors import HostFilesError, StalePublicationError
from zkdeployment.base.publication import Published
from zkdeployment.publishing.watermark import Watermark, published_file


@pytest.fixture
def memory(tmp_path):
    return published_file(tmp_path / "published")


def test_without_a_known_publication_any_publication_is_accepted(memory):
    Watermark(memory).check(Published())


@pytest.mark.parametrize("sequence", [7, 8])
def test_the_known_publication_and_later_ones_are_accepted(memory, sequence):
    memory.save(Published("r7", sequence=7))
    Watermark(memory).check(Published("r8", sequence=sequence))


@pytest.mark.parametrize(
    ("published", "message"),
    [
        (Published("r6", sequence=6), r"found 6 \(revision r6\)"),
        (Published(), "found none"),
        (Published("x"), "none"),
    ],
)
def test_an_earlier_publication_means_that_the_store_went_back(memory, published, message):
    memory.save(Published("r7", sequence=7))
    with pytest.raises(
        StalePublicationError, match=rf"went back: expected publication 7 \(revision r7\).*{message}.*--force"
    ):
        Watermark(memory).check(published)


def test_a_publication_below_the_minimum_is_refused_also_without_a_known_publication(memory):
    watermark = Watermark(memory, 7)
    with pytest.raises(
        StalePublicationError, match=r"expected sequence 7 \(minimum-sequence\).*found 6 \(revision r6\)"
    ):
        watermark.check(Published("r6", sequence=6))
    with pytest.raises(StalePublicationError, match=r"too old.*found none"):
        watermark.check(Published())
    watermark.check(Published("r7", sequence=7))
    watermark.remember(Published("r7", sequence=7))
    assert memory.load().sequence == watermark.sequence == 7
    watermark.remember(Published("r9", sequence=9))
    with pytest.raises(StalePublicationError, match=r"went back: expected publication 9"):
        watermark.check(Published("r8", sequence=8))


def test_only_a_later_publication_is_persisted(memory):
    memory.save(Published("r7", sequence=7))
    watermark = Watermark(memory)
    watermark.note(Published("r9", exact="?", stamp=3, sequence=9))
    watermark.note(Published("r8", sequence=8))
    assert memory.load() == watermark.known == Published("r9", sequence=9)


def test_a_publication_that_cannot_be_persisted_is_logged_and_known_to_this_process(tmp_path):
    (tmp_path / "file").touch()
    watermark = Watermark(published_file(tmp_path / "file" / "published"))
    with capture_logs() as logs:
        watermark.note(Published("r9", sequence=9))
    assert "publication-not-remembered" in [line["event"] for line in logs]
    with pytest.raises(StalePublicationError):
        watermark.check(Published("r8", sequence=8))


@pytest.mark.parametrize("content", [b"", b"[]", b'{"sequence": 0}', b"\xff"])
def test_a_required_memory_that_cannot_be_read_is_an_error_and_another_is_empty(tmp_path, content):
    file = tmp_path / "published"
    assert published_file(file, required=True).load() is None
    file.write_bytes(content)
    assert published_file(file).load() is None
    with pytest.raises(
        HostFilesError, match=r"cannot read the last verified publication .*; check .* remove the file"
    ):
        published_file(file, required=True).load()
