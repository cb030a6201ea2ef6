"""LightLLM's metadata functions under SGLang's names, one subject a file."""

from cumae.properties.engines.lightllm import cache, grouped_topk, params, pool
from cumae.properties.engines.lightllm.engine import ENGINE

__all__ = ["ENGINE", "cache", "grouped_topk", "params", "pool"]
