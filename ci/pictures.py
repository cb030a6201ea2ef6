"""Run the wrong kernel of the README, write its report there, and draw the pictures of the pages."""

import tempfile
from pathlib import Path

from cumae.properties.selfcheck.filled import filled
from cumae.properties.selfcheck.glossary import pictures
from cumae.properties.selfcheck.sample import example_of, failing

ROOT = Path(__file__).resolve().parent.parent

if __name__ == "__main__":
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        sample = failing(example_of(text), Path(folder))
    readme.write_text(filled(text, "failure", sample.console), encoding="utf-8")
    for name, picture in {**pictures(), "failure": sample.picture}.items():
        (ROOT / f"properties/pages/pictures/{name}.svg").write_text(picture, encoding="utf-8")
