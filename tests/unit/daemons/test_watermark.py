import pytest
from structlog.testing import capture_logs

from zkdeployment.daemons.watermark import Watermark
from zkdeployment.errors import HostFilesError, StalePublicationError
from zkdeployment.model.publication import Published


class Memory:
    """Remembers in memory; may be full."""

    def __init__(self, published=None, *, full=False) -> None:
        self.published = published or Published()
        self.full = full

    def read_published(self):
        return self.published

    def write_published(self, published):
        if self.full:
            raise HostFilesError("no space left")
        self.published = published


def test_where_nothing_is_known_anything_will_do():
    Watermark(Memory()).check(Published())


@pytest.mark.parametrize("sequence", [7, 8])
def test_the_known_publication_and_later_ones_will_do(sequence):
    Watermark(Memory(Published("r7", sequence=7))).check(Published("r8", sequence=sequence))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Published("r6", sequence=6), r"found 6 \(revision r6\)"),
        (Published(), "found none"),
        (Published("x"), "none"),
    ],
)
def test_an_earlier_publication_means_that_the_store_went_back(found, words):
    with pytest.raises(
        StalePublicationError, match=rf"went back: expected publication 7 \(revision r7\).*{words}.*--force"
    ):
        Watermark(Memory(Published("r7", sequence=7))).check(found)


def test_a_later_publication_is_remembered_an_earlier_one_never():
    memory = Memory(Published("r7", sequence=7))
    watermark = Watermark(memory)
    watermark.note(Published("r9", exact="?", stamp=3, sequence=9))
    watermark.note(Published("r8", sequence=8))
    assert memory.published == watermark.known == Published("r9", sequence=9)


def test_a_memory_that_is_full_is_told_and_this_process_remembers():
    watermark = Watermark(Memory(full=True))
    with capture_logs() as logs:
        watermark.note(Published("r9", sequence=9))
    assert [line["event"] for line in logs] == ["publication-not-remembered"]
    with pytest.raises(StalePublicationError):
        watermark.check(Published("r8", sequence=8))
