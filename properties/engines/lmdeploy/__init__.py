"""LMDeploy's metadata functions under the names of ``cumae``, by subject."""

from cumae.properties.engines.lmdeploy import cache, page_read, page_write, pages, router, step
from cumae.properties.engines.lmdeploy.engine import ENGINE

__all__ = ["ENGINE", "cache", "page_read", "page_write", "pages", "router", "step"]
