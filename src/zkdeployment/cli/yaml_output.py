"""Data as YAML for programs and people: every value is written out, without anchors and aliases."""

from __future__ import annotations

import yaml


def yaml_text(value: object) -> str:
    """Return plain data as a YAML document; the keys keep their order."""
    return yaml.dump(value, Dumper=_PlainDumper, sort_keys=False)


class _PlainDumper(yaml.SafeDumper):
    """Writes an object in full at each of its places, even if several places share it."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  no object gets an alias
        return True
