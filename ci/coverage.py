"""Write the table of released functions that adapters run into COVERAGE.md."""

from pathlib import Path

from cumae.properties.engines.coverage import covered
from cumae.properties.running.device import prepare

BEGIN, END = "<!-- covered: made by ci/coverage.py -->", "<!-- end of covered -->"

if __name__ == "__main__":
    prepare("cpu")
    file = Path(__file__).resolve().parent.parent / "COVERAGE.md"
    head, _, rest = file.read_text().partition(BEGIN)
    file.write_text(f"{head}{BEGIN}\n{covered()}\n{END}{rest.partition(END)[2]}")
