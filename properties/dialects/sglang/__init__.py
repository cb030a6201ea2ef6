"""The dialect of SGLang: names, tensors dumped from it, and its page."""
