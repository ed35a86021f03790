"""What was measured, written down line by line, so that a run that was killed goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ....errors import UserError
from ...settings import locations

VERSION = 1


class BenchRecord:
    """A JSONL file: a header that says what run it is of, then a line for every measurement."""

    def __init__(self, path: Path, key: str, *, resume: bool) -> None:
        """Open it; `resume` keeps what is there, but for a last line that was cut.

        Raises:
            UserError: it is of a run with another key, or cannot be written.
        """
        self.path = path
        self.rows: dict[tuple[str, str, int], dict[str, Any]] = {}
        """Measurements by (item, method, round)."""
        locations.ensure(path.parent)
        good = self._read(key) if resume else 0
        try:
            self._file = path.open("r+b" if good else "wb")
            self._file.truncate(good)
            self._file.seek(good)
        except OSError as error:
            raise UserError(f"Cannot write the record {path} ({error.strerror}). Choose another with --record.") from None
        if not good:
            self._write({"specchat-bench": VERSION, "key": key})

    def _read(self, key: str) -> int:
        """Take in what is there; the number of bytes that are whole lines."""
        try:
            data = self.path.read_bytes()
        except OSError:
            return 0
        good = 0
        for number, line in enumerate(data.splitlines(keepends=True)):
            try:
                row = json.loads(line)
                if not line.endswith(b"\n"):
                    break
                if number == 0:
                    if row.get("specchat-bench") != VERSION or row.get("key") != key:
                        raise UserError(
                            f"{self.path} is the record of a different run (another model, other prompts, methods or "
                            "settings). Leave out --resume, or choose another record with --record."
                        )
                else:
                    self.rows[row["item"], row["method"], row["round"]] = row
            except (ValueError, KeyError, TypeError, AttributeError):
                if number == 0:
                    return 0
                break
            good += len(line)
        return good

    def add(self, row: dict[str, Any]) -> None:
        """Write a measurement down. It survives whatever happens next."""
        self.rows[row["item"], row["method"], row["round"]] = row
        self._write(row)

    def _write(self, row: dict[str, Any]) -> None:
        self._file.write(json.dumps(row, separators=(",", ":")).encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
