"""Where the faster copies of models are (widen.py makes them); without numpy, for the commands."""

from __future__ import annotations

import glob
from pathlib import Path


def copies_folder(models_dir: Path) -> Path:
    return models_dir / "fast"


def drop_copies(path: Path, folder: Path) -> None:
    """Remove the copies of a model that is to be removed."""
    for copy in folder.glob(f"{glob.escape(path.stem)}-*.gguf"):
        copy.unlink(missing_ok=True)
