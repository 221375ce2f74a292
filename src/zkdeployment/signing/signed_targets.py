"""The buckets of all targets of a publication, computed anew or from the buckets of the previous publication."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.signing.digests import bucket_of, digest_of, encode_bucket

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@dataclass(frozen=True, slots=True)
class SignedTargets:
    """The digests of all targets.

    ``targets`` maps the name of each bucket that is not empty to the digests of its targets by name, ``data`` to
    the data of its node, and ``digests`` to its digest.
    """

    targets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    data: Mapping[str, bytes] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)

    def after(self, encoded: Mapping[str, bytes], gone: Collection[str] = ()) -> SignedTargets:
        """Return the digests after a change; buckets without a changed target are not computed again.

        ``encoded`` maps the names of new and changed targets to the data of their nodes; ``gone`` are the names of
        targets that do not exist any more.
        """
        changed: dict[str, dict[str, str]] = {}
        for name in (*encoded, *gone):
            bucket = bucket_of(name)
            if bucket not in changed:
                changed[bucket] = dict(self.targets.get(bucket, {}))
            if name in encoded:
                changed[bucket][name] = digest_of(encoded[name])
            else:
                changed[bucket].pop(name, None)
        targets, data, digests = dict(self.targets), dict(self.data), dict(self.digests)
        for bucket, listed in changed.items():
            if listed:
                targets[bucket], data[bucket] = listed, encode_bucket(listed)
                digests[bucket] = digest_of(data[bucket])
            else:
                for values in (targets, data, digests):
                    values.pop(bucket, None)
        return SignedTargets(targets, data, digests)
