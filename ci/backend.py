"""The build backend of setuptools, with ``ci/package.py`` in place of a ``setup.py`` at the root."""

from pathlib import Path

from setuptools.build_meta import _BuildMetaBackend


class _Backend(_BuildMetaBackend):  # type: ignore[misc]
    def run_setup(self, setup_script: str = "setup.py") -> None:
        super().run_setup(str(Path(__file__).with_name("package.py")))


_backend = _Backend()
build_editable = _backend.build_editable
build_sdist = _backend.build_sdist
build_wheel = _backend.build_wheel
get_requires_for_build_editable = _backend.get_requires_for_build_editable
get_requires_for_build_sdist = _backend.get_requires_for_build_sdist
get_requires_for_build_wheel = _backend.get_requires_for_build_wheel
prepare_metadata_for_build_editable = _backend.prepare_metadata_for_build_editable
prepare_metadata_for_build_wheel = _backend.prepare_metadata_for_build_wheel
