"""What exists, known before any data is read: sources, groups, sizes, amounts, fingerprints."""

from penstock.manifest.manifest import Manifest, fingerprint

__all__ = ["Manifest", "fingerprint"]
