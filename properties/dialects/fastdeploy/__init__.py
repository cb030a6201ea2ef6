"""The dialect of FastDeploy: names, tensors dumped from it, and its page."""
