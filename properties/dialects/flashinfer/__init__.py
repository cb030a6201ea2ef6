"""The dialect of FlashInfer: names, tensors dumped from it, and its page."""
