"""Write the table of released functions that adapters run into COVERAGE.md."""

from pathlib import Path

from cumae.properties.engines.coverage import covered
from cumae.properties.running.device import prepare
from cumae.properties.selfcheck.filled import filled

if __name__ == "__main__":
    prepare("cpu")
    page = Path(__file__).resolve().parent.parent / "COVERAGE.md"
    page.write_text(filled(page.read_text(encoding="utf-8"), "covered", covered()), encoding="utf-8")
