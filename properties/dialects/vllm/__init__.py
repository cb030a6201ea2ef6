"""The dialect of vLLM: names, tensors dumped from it, and its page."""
